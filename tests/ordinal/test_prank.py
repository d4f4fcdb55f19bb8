import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import hypotheses, oracles, ordinal

KEY = jax.random.key(0)


def _update(learner, state, x, y, observed=True):
    prediction = learner.predict(state, jnp.asarray(x), KEY)
    feedback = oracles.Label(jnp.int32(y), jnp.asarray(observed))
    return prediction, learner.update(state, jnp.asarray(x), prediction, feedback, KEY)


def _separable(num_rounds, num_classes, margin, seed=0):
    """A stream that a unit model (w*, b*) separates by at least `margin`."""
    rng = np.random.default_rng(seed)
    w = np.array([0.6, -0.8])
    b = np.linspace(-0.6, 0.6, num_classes - 1)
    scale = np.sqrt(w @ w + b @ b)
    xs = rng.uniform(-1, 1, size=(4 * num_rounds, 2))
    distance = np.abs((xs @ w)[:, None] - b).min(axis=1) / scale
    xs = xs[distance >= margin][:num_rounds]
    assert len(xs) == num_rounds
    ys = 1 + np.searchsorted(b, xs @ w)
    return jnp.asarray(xs.astype(float)), jnp.asarray(ys, dtype=jnp.int32)


def test_first_two_rounds_by_hand():
    for reg, second in ((None, ([-3, -3], [1, 2])), (1.0, ([-1.5, -1.5], [0.5, 1]))):
        learner = ordinal.prank(hypotheses.linear(2), 3, reg=reg)
        prediction, state = _update(learner, learner.init(KEY), [1.0, 2.0], 1)
        assert prediction.output == 3
        np.testing.assert_array_equal(state.f, [-2, -4])
        np.testing.assert_array_equal(state.thresholds, [1, 1])
        prediction, state = _update(learner, state, [1.0, -1.0], 2)
        assert prediction.output == 3
        np.testing.assert_array_equal(state.f, second[0])
        np.testing.assert_array_equal(state.thresholds, second[1])
        assert state.round == 2


@pytest.mark.parametrize("reg", [None, 0.3])
def test_rounds_against_numpy(play, reg):
    num_classes = 5
    with jax.enable_x64(True):
        rng = np.random.default_rng(1)
        xs = jnp.asarray(rng.normal(size=(50, 3)))
        ys = jnp.asarray(rng.integers(1, num_classes + 1, 50), dtype=jnp.int32)
        learner = ordinal.prank(hypotheses.linear(3), num_classes, reg=reg)
        state, _, infos = play(learner, oracles.label(), xs, ys, KEY)
    w, b = np.zeros(3), np.zeros(num_classes - 1)
    for t, (x, y) in enumerate(zip(np.asarray(xs), np.asarray(ys), strict=True), 1):
        output = next((r for r in range(1, num_classes) if w @ x < b[r - 1]), num_classes)
        assert infos.prediction.output[t - 1] == output
        sign = np.array([-1.0 if y <= r else 1.0 for r in range(1, num_classes)])
        tau = sign * ((w @ x - b) * sign <= 0)
        if reg is None:
            if output != y:
                w, b = w + tau.sum() * x, b - tau
        else:
            eta = 1 / (reg * t)
            w = (1 - eta * reg) * w + eta * tau.sum() * x
            b = (1 - eta * reg) * b - eta * tau
    # 1e-11: float64 rounding over 50 rounds.
    np.testing.assert_allclose(state.f, w, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(state.thresholds, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("reg", [None, 1.0])
@pytest.mark.parametrize("value", [0, 2])
def test_an_answer_without_a_label_changes_nothing(reg, value):
    learner = ordinal.prank(hypotheses.linear(2), 3, reg=reg)
    state = ordinal.OrdinalState(jnp.array([1.0, 2.0]), jnp.array([0.5, 9.0]), jnp.int32(3))
    _, after = _update(learner, state, [1.0, 2.0], value, observed=False)
    chex.assert_trees_all_equal(after, state)


def test_late_answers_use_the_prediction():
    learner = ordinal.prank(hypotheses.linear(2), 3)
    x = jnp.array([1.0, 2.0])
    asked = ordinal.OrdinalState(jnp.array([1.0, 0.0]), jnp.array([0.0, 2.0]), jnp.int32(0))
    prediction = learner.predict(asked, x, KEY)
    now = ordinal.OrdinalState(jnp.array([9.0, 9.0]), jnp.array([5.0, 6.0]), jnp.int32(7))
    after = learner.update(now, x, prediction, oracles.Label(jnp.int32(3), jnp.array(True)), KEY)
    np.testing.assert_array_equal(after.f, now.f + x)  # score 1 under threshold 2 alone
    np.testing.assert_array_equal(after.thresholds, [5, 5])


def test_regularised_predictions_are_those_of_the_perceptron_of_every_round(play):
    num_classes, num_rounds = 5, 400
    with jax.enable_x64(True):
        rng = np.random.default_rng(2)
        xs = jnp.asarray(rng.normal(size=(num_rounds, 3)))
        ys = jnp.asarray(rng.integers(1, num_classes + 1, num_rounds), dtype=jnp.int32)
        hypothesis = hypotheses.linear(3)
        every = ordinal.pril(hypothesis, num_classes)  # moves on ties of right outputs as well
        exact = oracles.interval(num_classes, fraction=0.0)
        state, _, infos = play(every, exact, xs, ys, KEY)
        for reg in (0.3, 1.0, 20.0):
            learner = ordinal.prank(hypothesis, num_classes, reg=reg)
            scaled, _, others = play(learner, oracles.label(), xs, ys, KEY)
            np.testing.assert_array_equal(others.prediction.output, infos.prediction.output)
            # rtol: float64 rounding over 400 rounds.
            np.testing.assert_allclose(scaled.f, state.f / (reg * num_rounds), rtol=1e-10)


def test_perceptron_keeps_its_thresholds_ordered_and_its_mistake_bound(play):
    for num_classes, margin in ((2, 0.02), (3, 0.02), (5, 0.02)):
        xs, ys = _separable(2000, num_classes, margin)
        learner = ordinal.prank(hypotheses.linear(2), num_classes)
        _, states, infos = play(learner, oracles.label(), xs, ys, KEY)
        assert np.all(np.diff(states.thresholds, axis=1) >= 0)
        errors = np.abs(infos.prediction.output - ys)
        radius_sq = float(jnp.sum(xs**2, axis=1).max())
        assert errors.sum() <= (num_classes - 1) * (radius_sq + 1) / margin**2
        assert errors[-500:].sum() < errors[:500].sum()


def test_bad_arguments_are_named():
    hypothesis = hypotheses.linear(2)
    for factory in (ordinal.prank, ordinal.pril):
        with pytest.raises(ValueError, match="num_classes must be >= 2, got 1"):
            factory(hypothesis, 1)
        with pytest.raises(ValueError, match="reg must be > 0 and finite, got 0.0"):
            factory(hypothesis, 3, reg=0.0)
        with pytest.raises(ValueError, match="tie must be"):
            factory(hypothesis, 3, tie="==")
        learner = factory(hypothesis, 3)
        with pytest.raises(ValueError, match=r"x must have shape \(2,\), got \(3,\)"):
            learner.predict(learner.init(KEY), jnp.ones(3), KEY)
