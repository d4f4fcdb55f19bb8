"""The learner keeps the contract of `jonline.core`, whatever its space and its feedback."""

import numpy as np
import pytest

from jonline import Environment, optimizers, oracles, streams, structured
from jonline.core import Example
from jonline.testing import Case, check_learner

N = 3
CLASSES = structured.multiclass(3)
SUBSETS = structured.subsets(4, 2)
RANKINGS = structured.rankings(3)


def case(space, estimator, oracle):
    rng = np.random.default_rng(0)
    keys = rng.random((40, 16))[:, : space.dim]
    if space.name == "multiclass":
        labels = 1 + keys.argmin(axis=1)
    elif space.name == "subsets":
        labels = keys.argsort(axis=1).argsort(axis=1) < 2
    else:
        labels = 1 + keys[:, :3].argsort(axis=1)
    data = Example(rng.normal(size=(40, N)).astype(np.float32), space.encode(labels))
    explores = estimator.explores

    def make(point, data):
        learner = structured.osp(
            space,
            estimator,
            optimizers.adaptive_ogd(point["diameter"], project=True),
            num_features=N,
            explore=point["explore"] if explores else 0.0,
        )
        return learner, Environment(streams.resample(data), oracle)

    point = {"diameter": 4.0} | ({"explore": 0.3} if explores else {})
    return Case(make, point, data, structured.losses(space, estimator))


CASES = {
    "classes, labels": case(CLASSES, structured.full_information(CLASSES), oracles.label()),
    "classes, right or wrong": case(
        CLASSES, structured.inverse_weighted(CLASSES), oracles.mismatch()
    ),
    "classes, loss": case(
        CLASSES, structured.pseudo_inverse(CLASSES), oracles.loss(CLASSES.target, noise=0.1)
    ),
    "subsets, loss": case(
        SUBSETS, structured.pseudo_inverse(SUBSETS), oracles.loss(SUBSETS.target)
    ),
    "rankings, loss": case(
        RANKINGS,
        structured.pseudo_inverse(RANKINGS, origin=RANKINGS.uniform_mean),
        oracles.loss(RANKINGS.target),
    ),
}


FAST = ()  # `tests/_engine/test_lanes_first.py` has one of them


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in FAST else [pytest.mark.slow]) for n in CASES]
)
def test_learner_keeps_the_contract(name):
    check_learner(CASES[name])
