"""OSP with the optimizers for late answers keeps the contract of `jonline.core`."""

import pytest

from jonline import Environment, optimizers, streams, structured
from jonline.testing import Case, check_learner
from tests.structured.test_osp_delays import CLASSES, KINDS, B, N, planted


def case(kind, build):
    """A case of the contract, which has delays of its own: the optimizer is told of none."""
    estimator, oracle = KINDS[kind]

    def make(point, data):
        learner = structured.osp(
            CLASSES, estimator, build(point["diameter"]), num_features=N, explore=0.3
        )
        return learner, Environment(streams.resample(data), oracle)

    return Case(make, {"diameter": B}, planted(40), structured.losses(CLASSES, estimator))


CASES = {
    "odaftrl": case("labels", lambda diameter: optimizers.odaftrl(diameter, delay=0)),
    "solid": case(
        "right or wrong",
        lambda diameter: optimizers.solid_ogd(diameter, gradient_bound=2.0, max_delay=2),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_learner_keeps_the_contract(name):
    check_learner(CASES[name])
