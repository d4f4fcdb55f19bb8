"""Optimizers of linear models: against NumPy, against optax, and at their edges."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jonline import optimizers

D, N, T = 3, 4, 60
RNG = np.random.default_rng(0)
RESIDUALS = RNG.normal(size=(T, D)) * RNG.exponential(size=(T, 1))
FEATURES = RNG.normal(size=(T, N))
RESIDUALS[:3], FEATURES[5], RESIDUALS[40:43] = 0, 0, 0
FEATURES[30] *= 100  # a step that leaves the ball


def path(optimizer, residuals=RESIDUALS, features=FEATURES, dtype=np.float32):
    """Models before each of the rounds, and the final state."""

    def body(state, gradient):
        stamp = optimizer.stamp(state)
        return optimizer.update(state, *gradient, stamp), optimizer.params(state)

    start = optimizer.init(jnp.zeros((D, N), dtype))
    gradients = (jnp.asarray(residuals, dtype), jnp.asarray(features, dtype))
    final, models = jax.jit(lambda s, g: jax.lax.scan(body, s, g))(start, gradients)
    return np.asarray(models), final


def by_hand(diameter, project, offset, residuals=RESIDUALS, features=FEATURES):
    """Adaptive gradient descent as in section 3.2 of the paper, with G written out."""
    W, total, models = np.zeros((D, N)), 0.0, []
    for r, x in zip(residuals, features, strict=True):
        models.append(W)
        G = np.outer(r, x)
        total += np.linalg.norm(G) ** 2
        if total > 0:
            W = W - diameter / np.sqrt(2 * (total + offset)) * G
        if project and np.linalg.norm(W) > diameter / 2:
            W = W * (diameter / 2 / np.linalg.norm(W))
    return np.array(models), W


@pytest.mark.parametrize("project", [False, True])
@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_adaptive_ogd_is_that_of_the_paper(project, offset):
    with jax.enable_x64(True):
        optimizer = optimizers.adaptive_ogd(2.0, project=project, offset=offset)
        models, final = path(optimizer, dtype=np.float64)
    expected, W = by_hand(2.0, project, offset)
    np.testing.assert_allclose(models, expected, rtol=1e-11, atol=1e-12)  # float64, 60 steps
    np.testing.assert_allclose(final.params, W, rtol=1e-11, atol=1e-12)
    outside = np.linalg.norm(by_hand(2.0, False, offset)[0], axis=(1, 2)) > 1
    assert outside.any()  # so that the ball is felt
    if project:
        assert np.all(np.linalg.norm(models, axis=(1, 2)) <= 1 + 1e-12)


def test_first_step_of_ogd_by_hand():
    # G = (-2, 1, 1)^T (1): eta = B / sqrt(2 * 6) = 1
    optimizer = optimizers.adaptive_ogd(np.sqrt(12.0))
    state = optimizer.init(jnp.zeros((3, 1)))
    state = optimizer.update(state, jnp.array([-2.0, 1.0, 1.0]), jnp.ones(1), ())
    np.testing.assert_allclose(state.params, [[2], [-1], [-1]], rtol=1e-6)
    assert state.sq_sum == 6


@pytest.mark.parametrize("project", [False, True])
def test_regret_of_ogd_is_bounded(project):
    """sum <G, W_t - U> <= sqrt2 B sqrt(sum ||G||^2) for the worst U, and the worst last gradients.

    Without the projection the bound has no proof, and a long drift breaks it.
    """
    rounds = 4000
    residuals = np.tile([1.0, 0.0, 0.0], (rounds, 1))
    residuals[rounds // 2 :] *= -1
    features = np.tile(np.eye(N)[0], (rounds, 1))
    with jax.enable_x64(True):
        optimizer = optimizers.adaptive_ogd(2.0, project=project)
        models, _ = path(optimizer, residuals, features, np.float64)
    gradients = residuals[:, :, None] * features[:, None]
    best = -1.0 * np.linalg.norm(gradients.sum(axis=0))  # U = -(B/2) sum G / ||sum G||
    regret = np.sum(gradients * models) - best
    bound = np.sqrt(2) * 2 * np.sqrt(np.sum(gradients**2))
    assert (regret <= bound) == project


def test_regret_on_random_gradients_is_bounded():
    with jax.enable_x64(True):
        models, _ = path(optimizers.adaptive_ogd(2.0, project=True), dtype=np.float64)
    gradients = RESIDUALS[:, :, None] * FEATURES[:, None]
    regret = np.sum(gradients * models) + np.linalg.norm(gradients.sum(axis=0))
    assert 0 < regret <= np.sqrt(2) * 2 * np.sqrt(np.sum(gradients**2))


def test_nothing_moves_before_the_first_gradient():
    for optimizer in (optimizers.adaptive_ogd(2.0), optimizers.adaptive_ogd(2.0, offset=1e-8)):
        models, final = path(optimizer, np.zeros((5, D)), FEATURES[:5])
        assert not np.any(models) and not np.any(final.params) and final.sq_sum == 0
        state = optimizer.update(optimizer.init(jnp.ones((D, N))), jnp.ones(D), jnp.zeros(N), ())
        np.testing.assert_array_equal(state.params, np.ones((D, N)))


def test_gradients_of_extreme_size_leave_the_model_finite():
    optimizer = optimizers.adaptive_ogd(2.0, project=True)
    for size in (1e-30, 1e-18, 1e18, 1e30):
        state = optimizer.update(
            optimizer.init(jnp.ones((D, N))), jnp.full(D, size), jnp.ones(N), ()
        )
        assert np.isfinite(state.params).all()


def test_diameter_may_be_traced():
    def final(diameter):
        optimizer = optimizers.adaptive_ogd(diameter, project=True)
        state = optimizer.init(jnp.zeros((D, N)))
        return optimizer.update(state, jnp.ones(D), jnp.ones(N), ()).params

    both = jax.jit(jax.vmap(final))(jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(both[1], 2 * both[0], rtol=1e-6)


def test_projection_is_the_nearest_point_of_the_ball():
    inside, outside = jnp.full((2, 2), 0.25), jnp.array([[3.0, 0.0], [0.0, -4.0]])
    np.testing.assert_array_equal(optimizers.project_ball(inside, 0.5), inside)
    np.testing.assert_allclose(
        optimizers.project_ball(outside, 2.5), [[1.5, 0], [0, -2]], rtol=1e-6
    )
    np.testing.assert_array_equal(optimizers.project_ball(jnp.zeros((2, 2)), 1.0), np.zeros((2, 2)))


def test_sgd_of_optax_is_plain_gradient_descent():
    models, final = path(optimizers.from_optax(optax.sgd(0.1)))
    steps = -0.1 * np.cumsum(RESIDUALS[:, :, None] * FEATURES[:, None], axis=0)
    # float32 sums of 60 steps, the largest near 100
    np.testing.assert_allclose(models[1:], steps[:-1], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(final.params, steps[-1], rtol=1e-4, atol=1e-4)


def test_optax_optimizers_with_a_state_see_model_and_gradient():
    tx = optax.chain(optax.add_decayed_weights(0.1), optax.adam(0.05))
    _, final = path(optimizers.from_optax(tx))
    params = jnp.zeros((D, N))
    state = tx.init(params)
    step = jax.jit(tx.update)
    for r, x in zip(RESIDUALS, FEATURES, strict=True):
        updates, state = step(jnp.asarray(np.outer(r, x), jnp.float32), state, params)
        params = optax.apply_updates(params, updates)
    np.testing.assert_allclose(final.params, params, rtol=1e-4, atol=1e-5)  # float32, fused


def test_optax_step_is_projected():
    ball = partial(optimizers.project_ball, radius=0.5)
    models, _ = path(optimizers.from_optax(optax.sgd(0.1), ball))
    norms = np.linalg.norm(models, axis=(1, 2))
    assert np.all(norms <= 0.5 * (1 + 1e-6)) and np.any(norms > 0.49)  # float32


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="diameter must be > 0 and finite, got 0.0"):
        optimizers.adaptive_ogd(0.0)
    with pytest.raises(ValueError, match="offset must be >= 0 and finite, got -1.0"):
        optimizers.adaptive_ogd(1.0, offset=-1.0)
    with pytest.raises(TypeError, match="diameter must be a number, got '1'"):
        optimizers.adaptive_ogd("1")
    with pytest.raises(TypeError, match="tx must be GradientTransformation, got float 0.1"):
        optimizers.from_optax(0.1)
    with pytest.raises(TypeError, match=r"project must be a function \(W\) -> W, got 5.0"):
        optimizers.from_optax(optax.sgd(0.1), 5.0)
