import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import hypotheses, oracles, ordinal

KEY = jax.random.key(0)


def _random_stream(num_rounds, num_classes, seed=0):
    rng = np.random.default_rng(seed)
    xs = jnp.asarray(rng.normal(size=(num_rounds, 3)))
    return xs, jnp.asarray(rng.integers(1, num_classes + 1, num_rounds), dtype=jnp.int32)


def _update(learner, state, x, low, high):
    prediction = learner.predict(state, x, KEY)
    feedback = oracles.Interval(jnp.int32(low), jnp.int32(high))
    return learner.update(state, x, prediction, feedback, KEY)


def test_first_step_by_hand():
    learner = ordinal.pril(hypotheses.linear(2), 4)
    x = jnp.array([1.0, 2.0])
    state = _update(learner, learner.init(KEY), x, 2, 3)  # z = (+, 0, -), all at a tie
    np.testing.assert_array_equal(state.f, [0, 0])
    np.testing.assert_array_equal(state.thresholds, [-1, 0, 1])
    state = _update(learner, state, x, 3, 4)  # z = (+, +, 0)
    np.testing.assert_array_equal(state.f, x)
    np.testing.assert_array_equal(state.thresholds, [-1, -1, 1])
    assert state.round == 2


@pytest.mark.parametrize("reg", [None, 0.3])
@pytest.mark.parametrize("ends", [oracles.neighbours, oracles.uniform_ends])
def test_rounds_against_numpy(play, reg, ends):
    num_classes = 5
    with jax.enable_x64(True):
        xs, ys = _random_stream(50, num_classes)
        learner = ordinal.pril(hypotheses.linear(3), num_classes, reg=reg)
        oracle = oracles.interval(num_classes, ends=ends)
        state, _, infos = play(learner, oracle, xs, ys, KEY)
    w, theta = np.zeros(3), np.zeros(num_classes - 1)
    intervals = infos.feedback.low, infos.feedback.high
    for t, (x, low, high) in enumerate(
        zip(*(np.asarray(a) for a in (xs, *intervals)), strict=True), 1
    ):
        output = next((i for i in range(1, num_classes) if w @ x < theta[i - 1]), num_classes)
        assert infos.prediction.output[t - 1] == output
        z = np.array([1.0 if i < low else -1.0 if i >= high else 0.0 for i in range(1, 5)])
        tau = z * (z * (w @ x - theta) <= 0)
        decay, eta = (0.0, 1.0) if reg is None else (1 / t, 1 / (reg * t))
        w = (1 - decay) * w + eta * tau.sum() * x
        theta = (1 - decay) * theta - eta * tau
    # 1e-11: float64 rounding over 50 rounds.
    np.testing.assert_allclose(state.f, w, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(state.thresholds, theta, rtol=1e-11, atol=1e-11)


def test_step_is_a_gradient_step_on_the_interval_hinge_loss():
    learner = ordinal.pril(hypotheses.linear(3), 5)
    rng = np.random.default_rng(0)

    def loss(f, thresholds, x, low, high):
        return ordinal.interval_hinge_loss(jnp.sum(f * x), thresholds, low, high)

    for low, high in ((1, 2), (2, 4), (3, 3), (1, 5)):
        x = jnp.asarray(rng.normal(size=3).astype(np.float32))
        f, theta = jnp.asarray(rng.normal(size=3)), jnp.asarray(rng.normal(size=4))
        state = ordinal.OrdinalState(f, theta, jnp.int32(0))
        after = _update(learner, state, x, low, high)
        grad_f, grad_theta = jax.grad(loss, (0, 1))(f, theta, x, low, high)
        # rtol: float32 rounding of one step.
        np.testing.assert_allclose(after.f, f - grad_f, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(after.thresholds, theta - grad_theta, rtol=1e-6)


def test_the_full_interval_says_nothing():
    learner = ordinal.pril(hypotheses.linear(2), 4)
    x = jnp.array([1.0, 2.0])
    state = _update(learner, learner.init(KEY), x, 1, 4)
    np.testing.assert_array_equal(state.f, 0)
    np.testing.assert_array_equal(state.thresholds, 0)
    assert state.round == 1


def test_exact_intervals_give_prank_off_ties(play):
    xs, ys = _random_stream(300, 5)
    ys = ys.at[0].set(1)  # the first round is a tie: see below
    exact = oracles.interval(5, fraction=0.0)
    one, _, infos = play(ordinal.pril(hypotheses.linear(3), 5), exact, xs, ys, KEY)
    two, _, others = play(ordinal.prank(hypotheses.linear(3), 5), oracles.label(), xs, ys, KEY)
    np.testing.assert_array_equal(infos.prediction.output, others.prediction.output)
    # rtol: float32, two programs.
    np.testing.assert_allclose(one.f, two.f, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(one.thresholds, two.thresholds)


def test_a_tie_of_a_right_output_moves_pril_but_not_prank():
    x = jnp.array([1.0, 2.0])
    learner = ordinal.pril(hypotheses.linear(2), 3)
    state = _update(learner, learner.init(KEY), x, 3, 3)
    np.testing.assert_array_equal(state.thresholds, [-1, -1])
    learner = ordinal.prank(hypotheses.linear(2), 3)
    prediction = learner.predict(learner.init(KEY), x, KEY)
    assert prediction.output == 3
    label = oracles.Label(jnp.int32(3), jnp.asarray(True))
    state = learner.update(learner.init(KEY), x, prediction, label, KEY)
    np.testing.assert_array_equal(state.thresholds, [0, 0])


def test_it_learns_from_intervals(play):
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(2000, 3))
    ys = 1 + np.searchsorted([-1.0, 0.0, 1.0], xs @ [1.0, -1.0, 0.5])
    learner = ordinal.pril(hypotheses.linear(3), 4)
    ys = jnp.asarray(ys, dtype=jnp.int32)
    _, _, infos = play(learner, oracles.interval(4), jnp.asarray(xs), ys, KEY)
    error = np.abs(infos.prediction.output - ys)
    assert error[-500:].mean() < 0.35
