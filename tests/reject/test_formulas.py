"""Losses, gradients, decisions and query rules, each against another way to the same number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import reject

RNG = np.random.default_rng(0)
Z, WIDTH = (RNG.uniform(low, high, 4000).astype(np.float32) for low, high in ((-5, 5), (-1, 4)))
D, SLOPE = 0.25, 2.0
KINKS = np.stack([WIDTH - 1, WIDTH + 1, -WIDTH - 1, 1 - WIDTH])
OFF_KINKS = np.abs(Z - KINKS).min(0) > 1e-4


def derivatives(loss, z=Z, width=WIDTH):
    """Both derivatives of `loss(z, width)` at all pairs."""
    return jax.jit(jax.vmap(jax.grad(loss, (0, 1))))(z, width)


def test_decisions_at_and_around_the_edges():
    score = jnp.array([-2.1, -2.0, -1.9, 0.0, 1.9, 2.0, 2.1, jnp.nan])
    output = reject.decide(score, jnp.float32(2.0))
    np.testing.assert_array_equal(output, [-1, 0, 0, 0, 0, 0, 1, 0])
    assert output.dtype == jnp.int32
    output = reject.decide(score, jnp.float32(-0.5))  # as a width of 0
    np.testing.assert_array_equal(output, [-1, -1, -1, 0, 1, 1, 1, 0])


def test_decision_loss_is_0_or_the_cost_or_1():
    z = jnp.array([-2.1, -2.0, 0.0, 2.0, 2.1])
    loss = reject.decision_loss(z, jnp.float32(2.0), 0.25)
    np.testing.assert_array_equal(loss, [1, 0.25, 0.25, 0.25, 0])  # 1.25 at -2 in the paper
    assert np.isnan(reject.decision_loss(jnp.float32(jnp.nan), jnp.float32(1.0), 0.25))


def test_double_ramp_as_printed():
    def plus(a):
        return np.maximum(a, 0)

    z, width = Z.astype(float), WIDTH.astype(float)
    expected = D * (plus(1 - z + width) - plus(-1 - z + width))
    expected += (1 - D) * (plus(1 - z - width) - plus(-1 - z - width))
    loss = reject.double_ramp_loss(Z, WIDTH, D)
    np.testing.assert_allclose(loss, expected, atol=2e-6)  # float32 of numbers up to 10
    assert np.all(loss >= 0) and np.all(loss <= 2)


def test_double_ramp_gradient_is_the_derivative_where_the_width_is_at_least_1():
    expected = derivatives(lambda z, width: reject.double_ramp_loss(z, width, D))
    printed = reject.double_ramp_gradient(Z, WIDTH, D)
    exact = reject.double_ramp_gradient(Z, WIDTH, D, exact=True)
    wide = OFF_KINKS & (WIDTH >= 1)
    assert np.sum(wide) > 1000
    for i in range(2):  # sums of the same two numbers
        np.testing.assert_allclose(printed[i][wide], expected[i][wide], atol=1e-7)
        np.testing.assert_allclose(exact[i][OFF_KINKS], expected[i][OFF_KINKS], atol=1e-7)
        assert not np.allclose(printed[i][OFF_KINKS], expected[i][OFF_KINKS], atol=0.1)


def test_overlapping_intervals_take_one_step_or_both():
    z, width = jnp.float32(0.0), jnp.float32(0.5)
    assert reject.double_ramp_gradient(z, width, D) == (-0.25, 0.25)
    assert reject.double_ramp_gradient(z, width, D, exact=True) == (-1.0, -0.5)


@pytest.mark.parametrize("exact", [False, True])
def test_a_run_begins_in_the_first_interval(exact):
    start = reject.double_ramp_gradient(jnp.float32(0.0), jnp.float32(1.0), D, exact=exact)
    assert start == (-0.25, 0.25)


def test_the_ramp_asks_where_either_label_has_a_gradient():
    asks = reject.double_ramp_asks(Z, WIDTH)
    any_gradient = np.zeros(len(Z), bool)
    for z in (Z, -Z):
        any_gradient |= np.asarray(reject.double_ramp_gradient(z, WIDTH, D)[0]) != 0
    wide = WIDTH >= 1
    np.testing.assert_array_equal(asks[wide], any_gradient[wide])
    assert 0.2 < np.mean(asks[wide]) < 0.8


def test_the_ramp_stops_asking_below_a_width_of_minus_1():
    score = np.linspace(-3, 3, 61, dtype=np.float32)
    assert np.any(reject.double_ramp_asks(score, -0.9))
    assert not np.any(reject.double_ramp_asks(score, -1.1))


def test_double_sigmoid_example():
    # gamma = ln 3: sigma(0) = 1/2, sigma(2) = 1/10
    loss = reject.double_sigmoid_loss(jnp.float32(1.0), jnp.float32(1.0), 0.25, np.log(3))
    np.testing.assert_allclose(loss, 0.4, rtol=1e-6)
    prob = reject.double_sigmoid_query_prob(jnp.float32(0.0), jnp.float32(1.0), np.log(3))
    np.testing.assert_allclose(prob, 0.75, rtol=1e-6)


def test_double_sigmoid_gradient_is_the_derivative():
    expected = derivatives(lambda z, width: reject.double_sigmoid_loss(z, width, D, SLOPE))
    found = reject.double_sigmoid_gradient(Z, WIDTH, D, SLOPE)
    np.testing.assert_allclose(found, expected, atol=1e-6)  # numbers up to 1 in float32


def test_double_sigmoid_lies_between_0_and_2_and_becomes_a_step():
    loss = reject.double_sigmoid_loss(Z, WIDTH, D, SLOPE)
    assert np.all(loss > 0) and np.all(loss < 2)
    far = np.abs(Z - np.stack([WIDTH, -WIDTH])).min(0) > 0.05
    steep = reject.double_sigmoid_loss(Z, WIDTH, D, 1000.0)
    step = 2 * D * (Z < WIDTH) + 2 * (1 - D) * (Z < -WIDTH)
    np.testing.assert_allclose(steep[far], step[far], atol=1e-6)  # e^-50 away


def test_query_probability_is_sech_squared():
    prob = reject.double_sigmoid_query_prob(Z, WIDTH, SLOPE)
    expected = 1 / np.cosh(SLOPE * (np.abs(Z.astype(float)) - WIDTH) / 2) ** 2
    np.testing.assert_allclose(prob, expected, rtol=1e-5, atol=1e-9)  # e^u in float32, u up to 12
    assert np.all(prob > 0) and np.all(prob <= 1)
    for sign in (-1, 1):
        edge = reject.double_sigmoid_query_prob(sign * np.abs(WIDTH), np.abs(WIDTH), SLOPE)
        np.testing.assert_array_equal(edge, 1)


def test_a_good_margin_shrinks_the_width_above_a_threshold_only():
    """As z grows A > B turns into rho > ln((1 - d) / d) / (2 gamma); a bad mistake widens."""
    threshold = np.log((1 - D) / D) / (2 * SLOPE)
    width = (threshold * np.array([0.5, 0.99, 1.01, 2.0])).astype(np.float32)
    in_width = np.asarray(reject.double_sigmoid_gradient(jnp.float32(4.0), width, D, SLOPE)[1])
    np.testing.assert_array_equal(in_width > 0, [False, False, True, True])
    in_width = np.asarray(reject.double_sigmoid_gradient(jnp.float32(-4.0), width, D, SLOPE)[1])
    assert np.all(in_width < 0)


def test_smoothness_bounds_the_hessian():
    """In (w, rho), x of norm R: the largest eigenvalue against gamma^2 (R^2 + 1) / 5."""
    radius = 1.5

    def loss(model, x, slope):
        return reject.double_sigmoid_loss(jnp.dot(model[:2], x), model[2], D, slope)

    rng = np.random.default_rng(1)
    angle = rng.uniform(0, 2 * np.pi, 3000)
    x = radius * np.stack([np.cos(angle), np.sin(angle)], 1)
    slope = rng.choice([0.5, 1.0, 3.0], 3000)
    model = rng.normal(size=(3000, 3)) * 2 / slope[:, None]
    hessians = jax.jit(jax.vmap(jax.hessian(loss)))(model, x, slope)
    largest = np.abs(np.linalg.eigvalsh(np.asarray(hessians, float))).max(1)
    bound = np.array([reject.theory.smoothness(slope=s, sq_radius=radius**2) for s in slope])
    assert 0.7 < np.max(largest / bound) <= 1
