from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import Environment, hypotheses, metrics, oracles, ordinal, streams
from jonline.core import Example


class Plain(NamedTuple):
    output: jax.Array
    score: jax.Array


def _state(thresholds):
    return ordinal.OrdinalState(jnp.zeros(1), jnp.asarray(thresholds), jnp.int32(0))


def test_violations_count_neighbours_out_of_order():
    assert metrics.violations(jnp.array([0.0, 0.0, 1.0])) == 0
    assert metrics.violations(jnp.array([2.0, 1.0, 0.0])) == 2
    assert metrics.violations(jnp.array([0.0, 3.0, 1.0, 2.0])) == 1
    assert metrics.violations(jnp.array([5.0])) == 0


def test_largest_gap_is_the_worst_inversion():
    assert metrics.largest_gap(jnp.array([0.0, 0.0, 1.0])) == 0
    assert metrics.largest_gap(jnp.array([2.0, 1.0, -1.0])) == 2
    assert metrics.largest_gap(jnp.array([5.0])) == 0


def test_errors_of_labels():
    y = jnp.int32(3)
    assert [int(metrics.label_error(jnp.int32(i), y)) for i in range(1, 6)] == [2, 1, 0, 1, 2]
    assert [int(metrics.zero_one(jnp.int32(i), y)) for i in range(1, 6)] == [1, 1, 0, 1, 1]


def test_ordinal_by_hand():
    example = Example(jnp.ones(1), jnp.int32(1))
    prediction = ordinal.DfordPrediction(
        output=jnp.int32(4),
        greedy=jnp.int32(2),
        prob=jnp.float32(0.5),
        score=jnp.float32(0.5),
        threshold=jnp.float32(0),
    )
    feedback = oracles.Directional(jnp.asarray(False))
    # Thresholds 1 and 3 lie at or below the score: two of them wrong for y = 1.
    result = metrics.ordinal(example, prediction, feedback, _state([0.0, 2.0, 0.5]))
    assert result == {
        "loss": 2,
        "greedy_error": 1,
        "output_error": 3,
        "violations": 1,
        "largest_gap": 1.5,
        "zero_one": 1,
    }


def test_label_outside_the_classes_leaves_a_gap_that_is_reported():
    prediction, state = Plain(jnp.int32(3), jnp.float32(0.5)), _state([0.25, 0.0])
    for y, gap in ((1, 0.25), (3, 0.25), (0, np.nan), (4, np.nan), (-1, np.nan)):
        result = metrics.ordinal(Example(jnp.ones(1), jnp.int32(y)), prediction, None, state)
        np.testing.assert_equal(float(result["largest_gap"]), gap)


def test_run_with_labels_above_the_learners_classes_says_so():
    data = Example(np.ones((4, 2), np.float32), np.array([1, 2, 9, 4], np.int32))
    learner = ordinal.prank(hypotheses.linear(2), 4)
    made = learner, Environment(streams.one_pass(data, shuffle=False), oracles.label())
    settings = dict(num_rounds=4, record_every=2, key=0)
    with pytest.warns(RuntimeWarning, match="not finite"):
        found = jonline.run(lambda point, data: made, metrics.ordinal, {}, **settings).non_finite
    assert found[0].window == 1


def test_output_stands_for_greedy_where_there_is_none():
    example = Example(jnp.ones(1), jnp.int32(1))
    prediction = Plain(jnp.int32(3), jnp.float32(0.5))
    result = metrics.ordinal(example, prediction, None, _state([0.0, 0.25]))
    assert result["greedy_error"] == result["output_error"] == result["loss"] == 2


@pytest.mark.parametrize("x64", [False, True])
def test_counts_are_int32(x64):
    with jax.enable_x64(x64):
        learner = ordinal.dford(hypotheses.linear(2), 2, reg=1.0, explore=0.5)
        state = learner.init(jax.random.key(0))
        prediction = learner.predict(state, jnp.ones(2), jax.random.key(1))
        example = Example(jnp.ones(2), jnp.int32(1))
        result = metrics.ordinal(example, prediction, None, state)
        kinds = {name: value.dtype for name, value in result.items()}
        assert kinds.pop("largest_gap") == (jnp.float64 if x64 else jnp.float32)
        assert set(kinds.values()) == {jnp.dtype(jnp.int32)}
        assert all(np.shape(value) == () for value in result.values())


def test_score_that_is_nan_is_no_perfect_prediction():
    thresholds = jnp.array([-1.0, 0.0, 1.0])
    losses = [metrics.absolute_loss(jnp.nan, thresholds, jnp.int32(y)) for y in range(1, 5)]
    assert losses == [3, 2, 1, 0]  # the greedy label of NaN is K
