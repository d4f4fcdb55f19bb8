"""Ordinal learners and those that may reject learn from answers that come late."""

import numpy as np
import pytest

import jonline
from jonline import Environment, delays, hypotheses, metrics, oracles, ordinal, reject, streams
from tests import games
from tests.reject import games as signs

pytestmark = pytest.mark.slow

CUTS = hypotheses.linear(games.N)
LEARNERS = {
    "DFORD": (
        lambda: ordinal.dford(CUTS, games.K, reg=1.0, explore=0.4),
        oracles.directional(), games.table(400), metrics.ordinal, "loss",
    ),
    "PRank": (
        lambda: ordinal.prank(CUTS, games.K),
        oracles.label(), games.table(400), metrics.ordinal, "loss",
    ),
    "DSAL": (
        lambda: reject.dsal(signs.LINEAR, cost=0.25, step_size=0.1, slope=2.0),
        oracles.label_if_asked(), signs.table(400), reject.losses(0.25), "risk",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "late"),
    [
        ("DFORD", delays.uniform(30)),
        ("PRank", delays.fixed(30)),
        ("DSAL", delays.heavy_tailed(1.0, max_rounds=60)),
    ],
)
def test_learns_from_late_answers(name, late):
    build, oracle, data, measure, column = LEARNERS[name]

    def make(point, data):
        return build(), Environment(streams.resample(data), oracle, late)

    result = jonline.sweep(
        make, measure, {}, data=data, num_rounds=1000, num_seeds=16, key=0, record_every=100
    )
    loss = result.records[column][0] / 100
    assert not result.non_finite and np.all(result.undelivered <= late.max_rounds)
    assert np.all(loss[:, -1] < loss[:, 0])  # seed by seed
