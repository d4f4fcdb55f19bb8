"""Whole runs of DFORD, against the paper's box and its claims."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import hypotheses, oracles, ordinal


def _stream(num_rounds, num_features, num_classes, seed=0):
    """Labels of a planted linear model; float64, cast to float32 by jax where x64 is off."""
    rng = np.random.default_rng(seed)
    xs = rng.normal(size=(num_rounds, num_features))
    score = xs @ rng.normal(size=num_features)
    cuts = np.quantile(score, np.arange(1, num_classes) / num_classes)
    ys = 1 + np.searchsorted(cuts, score)
    return jnp.asarray(xs.astype(float)), jnp.asarray(ys, dtype=jnp.int32)


@pytest.mark.parametrize(
    ("clip", "rule"),
    [(None, ordinal.bound_norm), (5.0, ordinal.bound_norm), (5.0, ordinal.fix_norm)],
)
def test_rounds_against_numpy(play, clip, rule):
    num_classes, reg, explore = 4, 0.5, 0.6
    with jax.enable_x64(True):
        xs, ys = _stream(50, 3, num_classes)
        learner = ordinal.dford(
            hypotheses.linear(3), num_classes, reg=reg, explore=explore, clip=clip, clip_rule=rule
        )
        state, states, infos = play(learner, oracles.directional(), xs, ys, jax.random.key(3))
    w, theta = np.zeros(3), np.zeros(num_classes - 1)
    for t, (x, y, output) in enumerate(
        zip(np.asarray(xs), np.asarray(ys), np.asarray(infos.prediction.output), strict=True), 1
    ):
        # 1e-10 here and below: rounding of float64 over 50 rounds, on numbers up to 1e2.
        np.testing.assert_allclose(states.f[t - 1], w, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(states.thresholds[t - 1], theta, rtol=1e-10, atol=1e-10)
        f = w @ x
        greedy = next((i for i in range(1, num_classes) if f < theta[i - 1]), num_classes)
        top = max(greedy, num_classes + 1 - greedy)
        weights = np.array([top - abs(i - greedy) for i in range(1, num_classes + 1)])
        prob = explore * weights[output - 1] / weights.sum() + (1 - explore) * (output == greedy)
        z = (1 if output < y else -1) / prob
        tau = z if output < num_classes and z * (f - theta[output - 1]) <= 0 else 0.0
        grad_w, grad_theta = reg * w - tau * x, reg * theta
        if output < num_classes:
            grad_theta[output - 1] += tau
        norm = np.sqrt(grad_w @ grad_w + grad_theta @ grad_theta)
        scale = 1.0
        if clip is not None and norm > 0:
            scale = clip / norm if rule is ordinal.fix_norm else min(1.0, clip / norm)
        w = w - scale * grad_w / (reg * t)
        theta = theta - scale * grad_theta / (reg * t)
        assert infos.prediction.greedy[t - 1] == greedy
        np.testing.assert_allclose(infos.prediction.prob[t - 1], prob, rtol=1e-10)
    np.testing.assert_allclose(state.f, w, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(state.thresholds, theta, rtol=1e-10, atol=1e-10)
    assert state.round == 50


def test_state_is_the_scaled_sum_of_the_estimates(play):
    reg, num_classes, num_rounds = 0.25, 5, 400
    with jax.enable_x64(True):
        xs, ys = _stream(num_rounds, 4, num_classes)
        learner = ordinal.dford(hypotheses.linear(4), num_classes, reg=reg, explore=0.5)
        state, _, infos = play(learner, oracles.directional(), xs, ys, jax.random.key(0))
        tau, asked = _estimates(infos, num_classes)
        np.testing.assert_allclose(
            state.f, tau @ xs / (reg * num_rounds), rtol=1e-10
        )  # 1e-10: float64 rounding over 400 rounds
        np.testing.assert_allclose(
            state.thresholds, -tau @ asked / (reg * num_rounds), rtol=1e-10, atol=1e-12
        )


def _estimates(infos, num_classes):
    """tau~ (T,) and the one-hot asked thresholds (T, K-1) of a run, from its predictions."""
    p = infos.prediction
    z = jnp.where(infos.feedback.above, 1.0, -1.0)
    active = (z * (p.score - p.threshold) <= 0) & (p.output < num_classes)
    asked = p.output[:, None] == jnp.arange(1, num_classes)
    return jnp.where(active, z / p.prob, 0.0), asked.astype(float)


@pytest.mark.parametrize("clip", [None, 4.0])
def test_reg_changes_no_prediction(play, clip):
    xs, ys = _stream(300, 3, 5)

    def outcome(reg):
        learner = ordinal.dford(hypotheses.linear(3), 5, reg=reg, explore=0.4, clip=clip)
        _, states, infos = play(learner, oracles.directional(), xs, ys, jax.random.key(1))
        return states.thresholds[-1] * reg, infos.prediction

    thresholds, prediction = jax.jit(jax.vmap(outcome))(jnp.array([0.5, 1.0, 4.0, 32.0]))
    assert len(np.unique(prediction.greedy[0])) == 5
    for other in (1, 2, 3):  # powers of two: exact
        np.testing.assert_array_equal(prediction.output[0], prediction.output[other])
        np.testing.assert_array_equal(prediction.greedy[0], prediction.greedy[other])
        np.testing.assert_array_equal(prediction.prob[0], prediction.prob[other])
        np.testing.assert_array_equal(thresholds[0], thresholds[other])
    with jax.enable_x64(True):
        xs, ys = _stream(300, 3, 5)
        _, prediction = jax.jit(jax.vmap(outcome))(jnp.array([0.3, 1.0, 7.0]))
    for other in (1, 2):
        np.testing.assert_array_equal(prediction.output[0], prediction.output[other])


def test_infinite_clip_is_no_clip(play):
    xs, ys = _stream(100, 3, 4)
    ends = []
    for clip in (None, jnp.inf, 1e30):
        learner = ordinal.dford(hypotheses.linear(3), 4, reg=1.0, explore=0.4, clip=clip)
        ends.append(play(learner, oracles.directional(), xs, ys, jax.random.key(1))[0])
    for end in ends[1:]:
        # rtol: other programs may contract products and sums otherwise (float32).
        np.testing.assert_allclose(end.f, ends[0].f, rtol=1e-5)
        np.testing.assert_allclose(end.thresholds, ends[0].thresholds, rtol=1e-5, atol=1e-6)


def test_hyperparameters_may_be_traced(play):
    xs, ys = _stream(60, 3, 4)

    def final(reg, explore, clip):
        learner = ordinal.dford(hypotheses.linear(3), 4, reg=reg, explore=explore, clip=clip)
        return play(learner, oracles.directional(), xs, ys, jax.random.key(0))[0]

    grid = (jnp.array([0.5, 2.0]), jnp.array([0.3, 1.0]), jnp.array([3.0, jnp.inf]))
    lanes = jax.jit(jax.vmap(final))(*grid)
    for lane in range(2):
        one = final(*(axis[lane] for axis in grid))
        # rtol: float32; bits are promised at a fixed number of lanes only.
        np.testing.assert_allclose(lanes.f[lane], one.f, rtol=1e-4, atol=1e-5)


def test_without_exploration_a_zero_start_predicts_the_last_label_for_ever(play):
    xs, ys = _stream(300, 3, 5)
    learner = ordinal.dford(hypotheses.linear(3), 5, reg=1.0, explore=0.0)
    _, _, infos = play(learner, oracles.directional(), xs, ys, jax.random.key(0))
    np.testing.assert_array_equal(infos.prediction.output, 5)


@pytest.mark.parametrize("options", [{"tie": "<="}, {"init": "random"}])
def test_without_exploration_tau_is_zero_or_one(play, options):
    xs, ys = _stream(300, 3, 5)
    learner = ordinal.dford(hypotheses.linear(3), 5, reg=1.0, explore=0.0, **options)

    def run(key):
        _, _, infos = play(learner, oracles.directional(), xs, ys, key)
        return infos, _estimates(infos, 5)[0]

    infos, tau = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(0), 8))
    assert set(np.unique(tau)) == {0.0, 1.0}
    np.testing.assert_array_equal(infos.prediction.output, infos.prediction.greedy)
    assert len(np.unique(infos.prediction.output)) > 1


def test_bounds_of_the_paper(play):
    num_rounds, num_seeds, num_classes, reg, explore = 1000, 32, 4, 0.5, 0.4
    with jax.enable_x64(True):
        xs, ys = _stream(num_rounds, 3, num_classes)
        radius = float(jnp.linalg.norm(xs, axis=1).max())

        def run(key):
            learner = ordinal.dford(hypotheses.linear(3), num_classes, reg=reg, explore=explore)
            _, states, infos = play(learner, oracles.directional(), xs, ys, key)
            tau, asked = _estimates(infos, num_classes)
            grad = jnp.concatenate(
                [
                    reg * states.f - tau[:, None] * xs,
                    reg * states.thresholds + tau[:, None] * asked,
                ],
                axis=1,
            )
            sq_norm = jnp.sum(states.f**2, axis=1)
            loss = jax.vmap(ordinal.regularised_loss, (0, 0, 0, 0, None))(
                infos.prediction.score, states.thresholds, sq_norm, ys, reg
            )
            norm = jnp.sqrt(sq_norm + jnp.sum(states.thresholds**2, axis=1))
            error = jnp.abs(infos.prediction.greedy - ys)
            return jnp.sum(grad**2, axis=1), norm, loss, error

        keys = jax.random.split(jax.random.key(0), num_seeds)
        sq_grad, norm, loss, error = map(np.asarray, jax.jit(jax.vmap(run))(keys))
    scale = (radius**2 + 1) * num_classes**2
    assert np.all(sq_grad.mean(axis=0) <= 8 * scale * (1 + np.log(num_classes)) / explore)
    assert np.all(norm.mean(axis=0) <= num_classes * np.sqrt(radius**2 + 1) / reg)
    bound = 16 * scale * np.log(num_classes) * np.log(num_rounds) / (reg * explore)
    assert loss.sum(axis=1).mean() <= bound  # the best fixed model has loss zero
    assert error[:, -200:].mean() < 0.5 * error[:, :50].mean()  # and it did learn
