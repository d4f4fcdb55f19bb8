"""The cube of label sets: by hand, against sums over all of it, and bad input."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import structured
from jonline.structured.spaces.space import ranks

SIZES = (1, 2, 7, 40)


def scores(d):
    """Scores (N, d) float32: of all sizes, with ties, all equal, whole numbers, on the corners."""
    rng = np.random.default_rng(d)
    random = [scale * rng.normal(size=(20, d)) for scale in (1e-3, 0.3, 1.0, 10.0, 1e4)]
    ties = [rng.integers(-2, 3, size=(20, d)) / divisor for divisor in (1, 4)]
    equal = np.full((5, d), [[0.0], [0.3], [1.0], [-1e4], [1e4]])
    return np.concatenate([*random, *ties, equal]).astype(np.float32)


def vertices(d):
    return np.array(list(itertools.product([0.0, 1.0], repeat=d)), np.float32)


def test_mean_and_losses_by_hand():
    space = structured.multilabel(3)
    theta, y = jnp.array([2.0, 0.25, -1.0]), jnp.array([1.0, 0.0, 0.0])
    np.testing.assert_array_equal(space.mean(theta), [1, 0.25, 0])
    assert space.surrogate(theta, y) == 0.03125  # (1 + 1/16 + 1)/2 - (1 + 0 + 1)/2
    np.testing.assert_allclose(space.target(jnp.array([0.0, 1.0, 0.0]), y), 2 / 3, rtol=1e-6)
    np.testing.assert_allclose(space.target(jnp.array([0.5, 0.25, 0.0]), y), 0.25, rtol=1e-6)
    np.testing.assert_array_equal(space.nearest(jnp.array([0.6, 0.4, 1.0])), [1, 0, 1])
    assert space.gap(y, jnp.array([1.0, 0.6, 0.8])) == 1


def test_surrogate_is_the_supremum_over_the_hull():
    space = structured.multilabel(7)
    theta = scores(7)
    y = np.random.default_rng(0).integers(0, 2, theta.shape).astype(np.float32)
    grid = np.linspace(0, 1, 10001)
    wide = theta.astype(np.float64)
    parts = [np.max(column[:, None] * grid - grid**2 / 2, axis=1) for column in wide.T]
    direct = np.sum(parts, axis=0) + np.sum(y**2 / 2 - wide * y, axis=1)
    loss, gradient = jax.jit(jax.vmap(jax.value_and_grad(space.surrogate)))(theta, y)
    # float32 sums of 7 products as large as the scores; the grid is 2e-9 off
    slack = 2e-6 * (1 + np.abs(wide).sum(axis=1))
    assert np.all(np.abs(loss - direct) <= slack)
    np.testing.assert_array_equal(gradient, np.clip(theta, 0, 1) - y)


def test_surrogate_is_affine_in_the_label():
    space = structured.multilabel(4)
    theta, y, z = jnp.array(scores(4)[40:43]) / 8
    mixed = space.surrogate(theta, 3 * y - 2 * z)
    parts = 3 * space.surrogate(theta, y) - 2 * space.surrogate(theta, z)
    np.testing.assert_allclose(mixed, parts, rtol=1e-5)  # float32


def test_decomposition_by_hand():
    mixture = jax.jit(structured.multilabel(3).decompose)(jnp.array([0.25, 0.875, 0.25]))
    expected = {(0, 0, 0): 0.125, (0, 1, 0): 0.625, (1, 1, 1): 0.25}
    seen = {
        tuple(int(bit) for bit in atom): float(weight)
        for atom, weight in zip(mixture.atoms, mixture.weights, strict=True)
        if weight > 0
    }
    assert seen == expected
    assert mixture.uniform == 0


@pytest.mark.parametrize("d", SIZES)
def test_decomposition_has_the_mean_and_nested_outputs(d):
    space = structured.multilabel(d)
    point = np.clip(scores(d), 0, 1)
    point = np.concatenate([point, np.random.default_rng(1).random((50, d), np.float32)])
    mixture = jax.jit(jax.vmap(space.decompose))(point)
    atoms, weights = np.asarray(mixture.atoms), np.asarray(mixture.weights, np.float64)
    assert atoms.shape == (len(point), d + 1, d)
    assert np.all((atoms == 0) | (atoms == 1)) and np.all(weights >= 0)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)  # d roundings of differences
    mean = np.einsum("na,nad->nd", weights, atoms)
    np.testing.assert_allclose(mean, point, atol=1e-6)
    assert np.all(np.diff(np.sort(atoms.sum(axis=2), axis=1), axis=1) == 1)
    more, less = atoms[:, :, None], atoms[:, None]
    assert np.all((more >= less).all(axis=3) | (more <= less).all(axis=3))


def test_target_is_the_self_for_all_pairs():
    space, y = structured.multilabel(4), vertices(4)
    loss = space.loss
    terms = (y @ loss.bilinear @ y.T, (y @ loss.on_output)[:, None], y @ loss.on_label)
    target = jax.jit(jax.vmap(jax.vmap(space.target, (None, 0)), (0, None)))(y, y)
    np.testing.assert_allclose(target, sum(terms) + loss.constant, atol=1e-6)  # float32
    np.testing.assert_allclose(target, (y[:, None] != y).mean(axis=2), atol=1e-6)


@pytest.mark.parametrize("d", [1, 3, 6])
def test_constants_by_enumeration(d):
    y = vertices(d)
    constants, space = structured.multilabel_constants(d), structured.multilabel(d)
    wrong = (y[:, None] != y).sum(axis=2)[~np.eye(2**d, dtype=bool)]
    np.testing.assert_allclose(np.max(wrong / d / np.sqrt(wrong)), constants.gamma, rtol=1e-12)
    assert constants.nu == np.sqrt(wrong.min())
    measured = (1 - 2 * y.astype(np.float64)) / d
    trace = np.trace(np.linalg.pinv(measured.T @ measured / 2**d))
    np.testing.assert_allclose(constants.omega, trace, rtol=1e-9)
    assert np.abs(measured @ y.T).max() <= 1
    np.testing.assert_array_equal(space.uniform_mean, y.mean(axis=0))
    np.testing.assert_array_equal(space.uniform_second_moment, y.T @ y / 2**d)
    assert (space.size, space.dim, space.constants) == (2**d, d, constants)
    paper = structured.multilabel_paper_constants(d)
    assert paper == constants._replace(gamma=1 / d)


@pytest.mark.parametrize("d", [3, 70])
def test_uniform_draws_are_fair_and_independent_bits(d):
    num_draws = 4000
    keys = jax.random.split(jax.random.key(0), num_draws)
    draws = np.asarray(jax.jit(jax.vmap(structured.multilabel(d).draw_uniform))(keys))
    assert np.all((draws == 0) | (draws == 1)) and draws.dtype == np.float32
    five_errors = 5 * 0.5 / np.sqrt(num_draws)
    assert np.all(np.abs(draws.mean(axis=0) - 0.5) <= five_errors)
    sign = 2 * draws - 1
    correlation = sign.T @ sign / num_draws - np.eye(d)
    assert np.all(np.abs(correlation) <= 2 * five_errors)


def test_ranks_break_ties_by_index():
    np.testing.assert_array_equal(ranks(jnp.array([2.0, 5.0, 2.0, -1.0, 5.0])), [2, 0, 3, 4, 1])


@pytest.mark.parametrize(
    ("num_labels", "error", "message"),
    [
        (0, ValueError, "num_labels must be >= 1, got 0"),
        (1024, ValueError, "num_labels must be <= 1023, got 1024"),
        (2.0, TypeError, "num_labels must be a Python int, got float 2.0"),
        (True, TypeError, "num_labels must be a Python int, got bool True"),
    ],
)
def test_bad_size_is_refused(num_labels, error, message):
    with pytest.raises(error, match=message):
        structured.multilabel(num_labels)


def test_scores_of_another_shape_are_refused():
    space = structured.multilabel(3)
    for function in (space.mean, lambda theta: space.surrogate(theta, jnp.zeros(3))):
        with pytest.raises(ValueError, match=r"theta must have shape \(3,\), got \(4,\)"):
            function(jnp.zeros(4))


def test_encode():
    space = structured.multilabel(2)
    encoded = space.encode([[0, 1], [0, 0], [1, 1]])
    np.testing.assert_array_equal(encoded, [[0, 1], [0, 0], [1, 1]])
    assert encoded.dtype == np.float32
    assert space.encode(np.zeros((0, 2))).shape == (0, 2)
    np.testing.assert_array_equal(space.encode(np.array([[True, False]])), [[1, 0]])
    with pytest.raises(ValueError, match=r"every row must be of 0 and 1, got .* in row 1"):
        space.encode([[0, 1], [2, 1]])
    with pytest.raises(ValueError, match=r"in row 0"):
        space.encode([[np.nan, 1.0]])
    with pytest.raises(ValueError, match=r"must have shape \(N, 2\), got \(3,\)"):
        space.encode([0, 1, 1])
    with pytest.raises(TypeError, match="must be numbers"):
        space.encode([["a", "b"]])
    with pytest.raises(TypeError, match="without a mask"):
        space.encode(np.ma.masked_array([[0, 1]], mask=[[True, False]]))
