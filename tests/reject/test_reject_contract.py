"""The learners keep the contract of `jonline.core`, bare, with a kernel and within a budget."""

import pytest

from jonline import Environment, hypotheses, kernels, oracles, reject, streams
from jonline.testing import Case, check_learner
from tests.reject.games import N, table

LINEAR = hypotheses.linear(N)
KERNEL = hypotheses.kernel(kernels.gaussian(1.0), 20, N, keep_norm=False)


def case(build, **point):
    def make(point, data):
        return build(point), Environment(streams.resample(data), oracles.label_if_asked())

    return Case(make, {"step_size": 0.2} | point, table(), reject.losses(0.25))


def sigmoid(factory):
    return lambda p: factory(LINEAR, cost=p["cost"], slope=p["slope"], step_size=p["step_size"])


CASES = {
    "dral": case(lambda p: reject.dral(LINEAR, **p), cost=0.25),
    "dsal": case(sigmoid(reject.dsal), cost=0.25, slope=2.0),
    "dsol": case(sigmoid(reject.dsol), cost=0.25, slope=2.0),
    "dral, kernel": case(lambda p: reject.dral(KERNEL, **p), cost=0.25),
    "dsal, budget": case(
        lambda p: reject.budget(sigmoid(reject.dsal)(p), fraction=p["fraction"], most=30),
        cost=0.25, slope=2.0, fraction=0.4,
    ),
}  # fmt: skip
FAST = ("dsal, budget",)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in FAST else [pytest.mark.slow]) for n in CASES]
)
def test_learner_keeps_the_contract(name):
    check_learner(CASES[name])
