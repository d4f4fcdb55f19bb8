"""The columns of a round: by hand, in other predictions, and as means over many runs."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import optimizers, oracles, structured
from jonline.core import Environment, Example, Stream

SPACE = structured.multiclass(3)


class Randomised(NamedTuple):
    output: jax.Array
    score: jax.Array
    expected: jax.Array


class Played(NamedTuple):
    output: jax.Array


def _prediction(aux):
    return structured.StructuredPrediction(
        output=jnp.array([0.0, 0.0, 1.0]),
        score=jnp.array([1.0, 0.0, 1.0]),  # 2^score sums to 5
        mean=jnp.array([0.4, 0.2, 0.4]),
        expected=jnp.array([0.25, 0.5, 0.25]),
        aux=aux,
        stamp=(),
    )


def _example(label):
    return Example(jnp.ones(2), jnp.eye(3)[label])


def test_columns_by_hand():
    right, wrong = (
        structured.losses(SPACE)(_example(label), _prediction(()), None, None) for label in (2, 1)
    )
    assert right["target_loss"] == 0 and wrong["target_loss"] == 1
    assert right["zero_one"] == 0 and wrong["zero_one"] == 1
    assert right["expected_target_loss"] == 0.75 and wrong["expected_target_loss"] == 0.5
    # float32 logarithms
    np.testing.assert_allclose(right["surrogate_loss"], np.log2(5) - 1, rtol=1e-6)
    np.testing.assert_allclose(wrong["surrogate_loss"], np.log2(5), rtol=1e-6)
    assert "estimated_loss" not in right
    kinds = {name: column.dtype for name, column in right.items()}
    assert kinds.pop("zero_one") == jnp.int32 and set(kinds.values()) == {jnp.dtype(jnp.float32)}


def test_estimated_loss_is_the_weight_times_the_loss_of_the_estimated_label():
    metrics = structured.losses(SPACE, structured.inverse_weighted(SPACE))
    prediction = _prediction(aux=jnp.float32(0.25))  # the probability of what was played
    hit = metrics(_example(2), prediction, oracles.Mismatch(jnp.asarray(False)), None)
    miss = metrics(_example(1), prediction, oracles.Mismatch(jnp.asarray(True)), None)
    np.testing.assert_allclose(hit["estimated_loss"], 4 * (np.log2(5) - 1), rtol=1e-6)
    assert miss["estimated_loss"] == 0
    full = structured.losses(SPACE, structured.full_information(SPACE))
    observed = oracles.Label(jnp.eye(3)[1], jnp.asarray(True))
    known = full(_example(1), _prediction(()), observed, None)
    assert known["estimated_loss"] == known["surrogate_loss"]


def test_fractional_output_scores_by_the_affine_loss():
    # L = 1 - <output, y>: the expectation over draws with mean `expected`
    losses = [float(SPACE.target(output, jnp.eye(3)[1])) for output in jnp.eye(3)]
    measured = structured.losses(SPACE)(_example(1), _prediction(()), None, None)
    np.testing.assert_array_equal(
        measured["expected_target_loss"], np.dot([0.25, 0.5, 0.25], losses)
    )


def test_other_predictions_have_the_columns_they_can():
    metrics = structured.losses(SPACE)
    full = metrics(_example(1), _prediction(()), None, None)
    same = metrics(_example(1), Randomised(*_prediction(())[:2], _prediction(()).expected), 0, 0)
    assert same == full
    assert metrics(_example(2), Played(jnp.eye(3)[2]), None, None) == {
        "target_loss": 0,
        "zero_one": 0,
    }


def test_errors_say_what_to_pass():
    with pytest.raises(TypeError, match="space must be OutputSpace"):
        structured.losses(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="estimator must be Estimator"):
        structured.losses(SPACE, SPACE)  # type: ignore[arg-type]
    metrics = structured.losses(SPACE, structured.inverse_weighted(SPACE))
    with pytest.raises(ValueError, match=r"example.y must be a vertex .* space.encode"):
        metrics(Example(jnp.ones(2), jnp.int32(1)), _prediction(()), None, None)
    with pytest.raises(ValueError, match="prediction.output must be a vertex"):
        metrics(_example(1), Played(jnp.int32(2)), None, None)
    with pytest.raises(TypeError, match="inverse_weighted reads Mismatch, got Label"):
        observed = oracles.Label(jnp.eye(3)[1], jnp.asarray(True))
        metrics(_example(1), _prediction(jnp.float32(1)), observed, None)


def _noisy_classes():
    """Features (2,) and a class that they tell of, not surely."""

    def draw(key, t):
        k_x, k_y = jax.random.split(jax.random.fold_in(key, t))
        x = jax.random.normal(k_x, (2,))
        label = jax.random.categorical(k_y, jnp.array([2 * x[0], 2 * x[1], 0.0]))
        return Example(x, (jnp.arange(3) == label).astype(float))

    return Stream(lambda key: key, draw)


def test_realised_and_estimated_losses_have_the_means_of_the_others():
    estimator = structured.inverse_weighted(SPACE)

    def make(point, data):
        del point, data
        learner = structured.osp(
            SPACE, estimator, optimizers.adaptive_ogd(4.0), num_features=2, explore=0.3
        )
        return learner, Environment(_noisy_classes(), oracles.mismatch())

    result = jonline.sweep(
        make, structured.losses(SPACE, estimator), {}, num_rounds=32, num_seeds=1024, key=0,
        record_every=32,
    )  # fmt: skip
    sums = {name: values[0, :, 0].astype(float) for name, values in result.records.items()}
    pairs = (("target_loss", "expected_target_loss"), ("estimated_loss", "surrogate_loss"))
    for one, mean in pairs:
        # given the past each round's difference has mean 0; the seeds are independent
        difference = sums[one] - sums[mean]
        error = difference.std(ddof=1) / np.sqrt(len(difference))
        assert abs(difference.mean()) < 5 * error
        assert 5 * error < 0.1 * sums[mean].mean()  # or the line above would say little
    np.testing.assert_array_equal(sums["zero_one"], sums["target_loss"])  # here they are the same
