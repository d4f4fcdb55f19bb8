"""The risk and what it is made of."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import Environment, oracles, reject, streams
from jonline.core import Example
from tests.reject.games import LEARNERS, N, table


def played(data, learner=LEARNERS["dral"], cost=0.25, num_rounds=400):
    def make(point, data):
        return learner(), Environment(streams.resample(data), oracles.label_if_asked())

    return jonline.run(
        make, reject.losses(cost), {}, data=data, num_rounds=num_rounds, key=0, record_every=100
    )


def of_round(output, y, ask=True, score=1.0):
    prediction = reject.RejectPrediction(
        jnp.int32(output), jnp.asarray(ask), jnp.float32(1), jnp.float32(score), jnp.float32(1)
    )
    example = Example(jnp.ones(N), jnp.int32(y))
    return reject.losses(0.25)(example, prediction, None, None)


@pytest.mark.parametrize(
    "output, y, risk, name", [(1, 1, 0, "correct"), (0, 1, 0.25, "rejected"),
                              (1, -1, 1, "misclassified"), (-1, 1, 1, "misclassified"),
                              (-1, -1, 0, "correct"), (0, -1, 0.25, "rejected")]
)  # fmt: skip
def test_a_round_is_right_wrong_or_rejected(output, y, risk, name):
    columns = of_round(output, y, ask=False)
    assert columns["risk"] == risk
    for other in ("correct", "rejected", "misclassified"):
        assert columns[other] == (other == name) and columns[other].dtype == jnp.int32
    assert columns["accepted"] == (name != "rejected") and columns["asked"] == 0
    assert of_round(output, y)["asked"] == 1


def test_a_score_that_is_nan_shows_in_the_risk():
    assert np.isnan(of_round(0, 1, score=np.nan)["risk"])


def test_risk_is_that_of_the_score_and_that_of_the_counts():
    data = table(noise=0.2)
    learner = functools.partial(LEARNERS["dral"], step_size=0.5)
    records = {name: sums[0, 0] for name, sums in played(data, learner).records.items()}
    parts = records["misclassified"] + 0.25 * records["rejected"]
    np.testing.assert_array_equal(records["risk"], parts)  # quarters are exact
    np.testing.assert_array_equal(records["accepted"] + records["rejected"], 100)
    total = records["correct"] + records["misclassified"] + records["rejected"]
    np.testing.assert_array_equal(total, 100)
    assert all(np.sum(records[name]) > 0 for name in records)

    def make(point, data):
        return learner(), Environment(streams.resample(data), oracles.label_if_asked())

    seen = jonline.trace(make, {}, data=data, key=0, first=0, last=100)
    z = seen.example.y * seen.prediction.score
    loss = jax.jit(jax.vmap(lambda z, w: reject.decision_loss(z, w, 0.25)))(
        z, seen.prediction.width
    )
    assert np.sum(loss) == records["risk"][0]


def test_a_learner_that_rejects_everything():
    """x = 0 in every round: coverage 0, no accuracy, risk d T."""
    nothing = Example(np.zeros((4, N), np.float32), np.array([1, -1, 1, 1], np.int32))
    result = played(nothing)
    rates = reject.rates(result.records)
    np.testing.assert_array_equal(rates.coverage, np.zeros((1, 1, 4)))
    assert np.all(np.isnan(rates.accuracy)) and np.all(np.isnan(rates.error))
    assert np.sum(result.records["risk"]) == 0.25 * 400
    np.testing.assert_array_equal(result.mean_curve("risk"), np.full((1, 1, 4), 0.25))


def test_rates_by_hand():
    records = {
        "accepted": np.array([0, 4, 10], np.int32), "rejected": np.array([10, 6, 0], np.int32),
        "correct": np.array([0, 3, 10], np.int32), "misclassified": np.array([0, 1, 0], np.int32),
        "asked": np.array([10, 5, 0], np.int32),
    }  # fmt: skip
    rates = reject.rates(records)
    np.testing.assert_array_equal(rates.coverage, [0, 0.4, 1])
    np.testing.assert_array_equal(rates.accuracy, [np.nan, 0.75, 1])
    np.testing.assert_array_equal(rates.error, [np.nan, 0.25, 0])
    np.testing.assert_array_equal(rates.label_fraction, [1, 0.5, 0])
    rates = reject.rates(records, running=True)
    np.testing.assert_allclose(rates.coverage, [0, 0.2, 14 / 30])
    np.testing.assert_allclose(rates.accuracy, [np.nan, 0.75, 13 / 14])
    np.testing.assert_allclose(rates.error, [np.nan, 0.25, 1 / 14])
    np.testing.assert_allclose(rates.label_fraction, [1, 0.75, 0.5])


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"cost must be in \(0, 1/2\), got 0.5"):
        reject.losses(0.5)
    with pytest.raises(ValueError, match="records must have 'accepted' of reject.losses"):
        reject.rates({"risk": np.zeros(3)})
