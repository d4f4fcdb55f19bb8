"""The m-subsets of d labels: by hand, against sums over all of them, and bad input."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import structured
from jonline.structured.spaces.subsets import systematic_sampling

SIZES = [(2, 1), (4, 3), (10, 5), (24, 5), (64, 32), (200, 150)]


def scores(d, seed=0):
    """Scores (N, d) float32: of all sizes, with ties, all equal, whole numbers, far apart."""
    rng = np.random.default_rng(seed)
    random = [scale * rng.normal(size=(20, d)) for scale in (1e-3, 0.3, 1.0, 10.0, 1e4)]
    ties = [rng.integers(-2, 3, size=(20, d)) / divisor for divisor in (1, 4)]
    far = 1e4 + rng.random((20, d))
    mixed = rng.choice([-1e4, 0.0, 0.5, 1e4], size=(20, d)) + rng.random((20, d))
    equal = np.full((5, d), [[0.0], [0.3], [1.0], [-1e4], [1e4]])
    return np.concatenate([*random, *ties, far, mixed, equal]).astype(np.float32)


def projection(theta, m):
    """Projections on {0 <= y <= 1, sum = m}, by bisection in float64."""
    theta = theta.astype(np.float64)
    low, high = theta.min(axis=1, keepdims=True) - 1, theta.max(axis=1, keepdims=True)
    for _ in range(100):
        middle = (low + high) / 2
        above = np.clip(theta - middle, 0, 1).sum(axis=1, keepdims=True) >= m
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.clip(theta - low, 0, 1)


def supremum(theta, m):
    """sup <theta, y> - ||y||^2 / 2 over the hull, by going through all its faces."""
    best = -math.inf
    for face in itertools.product([0.0, 1.0, np.nan], repeat=len(theta)):
        y = np.array(face)
        free = np.isnan(y)
        missing = m - np.nansum(y)
        if free.any():
            y[free] = theta[free] + (missing - theta[free].sum()) / free.sum()
        elif missing != 0:
            continue
        if y.min() >= 0 and y.max() <= 1:
            best = max(best, theta @ y - y @ y / 2)
    return best


def vertices(d, m):
    rows = [row for row in itertools.product([0.0, 1.0], repeat=d) if sum(row) == m]
    return np.array(rows, np.float32)


def positive_atoms(mixture):
    """The labels (1…d) of the atoms of positive weight, and these weights."""
    pairs = zip(np.asarray(mixture.atoms), np.asarray(mixture.weights), strict=True)
    return {tuple(np.flatnonzero(atom) + 1): weight for atom, weight in pairs if weight > 0}


def test_mean_by_hand():
    exact = {
        (1, 0.5, 0.5, 0): (1, 0.5, 0.5, 0),
        (3, 1, 0, 0): (1, 1, 0, 0),
        (5, 5, -5, -5): (1, 1, 0, 0),
        (0, 0, 0, 0): (0.5, 0.5, 0.5, 0.5),
        (1e4, 1e4, 1e4 - 0.25, -1e4): (0.75, 0.75, 0.5, 0),
    }
    mean = jax.jit(jax.vmap(structured.subsets(4, 2).mean))
    np.testing.assert_array_equal(mean(jnp.array([*exact], float)), [*exact.values()])
    thirds = mean(jnp.array([[1, 1, 1, 0]] * 5, float))[0]
    np.testing.assert_allclose(thirds, [2 / 3, 2 / 3, 2 / 3, 0], atol=1e-7)  # of 2/3 in float32


@pytest.mark.parametrize(("d", "m"), SIZES)
def test_mean_is_the_projection_on_the_hull(d, m):
    theta = scores(d)
    mean = np.asarray(jax.jit(jax.vmap(structured.subsets(d, m).mean))(theta))
    assert mean.dtype == np.float32 and np.all((mean >= 0) & (mean <= 1))
    # t is found from sums of up to d numbers below 1, each with a rounding of 6e-8 or less
    atol = 1e-6 if d <= 64 else 1e-8 * d
    np.testing.assert_allclose(mean, projection(theta, m), atol=atol)
    np.testing.assert_allclose(mean.sum(axis=1, dtype=np.float64), m, atol=1e-7 * max(d, 10))


def test_surrogate_is_the_supremum_over_the_hull():
    for d, m in ((4, 2), (5, 1)):
        space = structured.subsets(d, m)
        theta = scores(d)[::4]
        y = np.resize(vertices(d, m), theta.shape)
        wide = theta.astype(np.float64)
        direct = [
            supremum(row, m) + m / 2 - row @ label for row, label in zip(wide, y, strict=True)
        ]
        loss, gradient = jax.jit(jax.vmap(jax.value_and_grad(space.surrogate)))(theta, y)
        # float32 sums of products as large as the scores
        slack = 1e-6 * (1 + np.abs(wide).sum(axis=1))
        assert np.all(np.abs(loss - np.array(direct)) <= slack)
        np.testing.assert_allclose(gradient, projection(theta, m) - y, atol=1e-6)


def test_surrogate_is_affine_in_the_label():
    space = structured.subsets(4, 2)
    theta, y, z = jnp.array(scores(4)[40:43])
    mixed = space.surrogate(theta, 3 * y - 2 * z)
    parts = 3 * space.surrogate(theta, y) - 2 * space.surrogate(theta, z)
    np.testing.assert_allclose(mixed, parts, rtol=1e-5, atol=1e-5)  # float32


def test_jacobian_of_the_mean_is_the_projection_on_its_face():
    theta = jnp.array([0.9, 0.5, 0.7, 3.0, -2.0])  # t = 0.7 - 1/3
    free = np.array([1.0, 1, 1, 0, 0])
    jacobian = jax.jit(jax.jacobian(structured.subsets(5, 2).mean))(theta)
    np.testing.assert_allclose(jacobian, np.diag(free) - np.outer(free, free) / 3, atol=1e-6)


def test_systematic_atoms_by_hand():
    decompose = jax.jit(structured.subsets(4, 2).decompose)
    third = positive_atoms(decompose(jnp.array([2 / 3, 2 / 3, 2 / 3, 0.0])))
    assert set(third) == {(1, 2), (1, 3), (2, 3)}
    np.testing.assert_allclose(list(third.values()), 1 / 3, rtol=1e-6)  # of 2/3 in float32
    half = positive_atoms(decompose(jnp.array([1, 0.5, 0.5, 0])))
    assert half == {(1, 2): 0.5, (1, 3): 0.5}
    assert positive_atoms(decompose(jnp.array([0.0, 1.0, 0.0, 1.0]))) == {(2, 4): 1}


def test_second_moment_with_exploration_by_hand():
    space = structured.subsets(4, 2)
    mixture = jax.jit(space.decompose)(jnp.array([1, 0.5, 0.5, 0]))
    mixture = structured.explore(mixture, 0.5)
    expected = np.array([[9, 4, 4, 1], [4, 6, 1, 1], [4, 1, 6, 1], [1, 1, 1, 3]]) / 12
    # a few roundings
    np.testing.assert_allclose(structured.second_moment(space, mixture), expected, atol=1e-7)


@pytest.mark.parametrize(("d", "m"), SIZES)
def test_decomposition_has_the_mean_and_outputs_of_m_ones(d, m):
    space = structured.subsets(d, m)
    rng = np.random.default_rng(1)
    point = np.asarray(jax.jit(jax.vmap(space.mean))(scores(d, seed=2)))
    equal = np.full((1, d), m / d, np.float32)
    off = np.clip(point + rng.choice([-1e-7, 0, 1e-7], point.shape), 0, 1).astype(np.float32)
    corner = np.stack([rng.permutation(np.arange(d) < m) for _ in range(5)]).astype(np.float32)
    point = np.concatenate([point, equal, off, corner])
    mixture = jax.jit(jax.vmap(space.decompose))(point)
    atoms, weights = np.asarray(mixture.atoms), np.asarray(mixture.weights, np.float64)
    assert atoms.shape == (len(point), d, d)
    assert np.all((atoms == 0) | (atoms == 1)) and np.all(atoms.sum(axis=2) == m)
    assert np.all(weights >= 0) and np.all(np.asarray(mixture.uniform) == 0)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)  # d roundings
    mean = np.einsum("na,nad->nd", weights, atoms)
    # the sums of `space.mean` are off by some 1e-7 d, which is spread over the fractions; so is the
    # 1e-7 by which each entry of `off` was moved, but there few of these may be fractions
    error = np.abs(mean - point).max(axis=1)
    atol = 1e-6 if d <= 64 else 1e-8 * d
    missing = np.abs(point.sum(axis=1, dtype=np.float64) - m)
    missing[: -5 - len(off)] = 0
    assert np.all(error <= atol + missing)
    np.testing.assert_array_equal(weights[-5:].max(axis=1), 1)


def test_decomposition_in_wide_floats_is_as_exact():
    with jax.enable_x64(True):
        point = jnp.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.8])
        mixture = jax.jit(systematic_sampling, static_argnums=1)(point, 3)
        assert mixture.weights.dtype == np.float64
        np.testing.assert_allclose(mixture.weights @ mixture.atoms, point, atol=1e-15)


def test_nearest_is_the_top_with_ties_to_the_lowest_index():
    space = structured.subsets(4, 2)
    points = jnp.array([[0.2, 0.9, 0.1, 0.8], [0.5, 0.5, 0.5, 0.5], [0.4, 0.6, 0.6, 0.4]])
    nearest = jax.jit(jax.vmap(space.nearest))(points)
    np.testing.assert_array_equal(nearest, [[0, 1, 0, 1], [1, 1, 0, 0], [0, 1, 1, 0]])
    assert space.gap(nearest[1], points[1]) == 1


def test_target_is_the_self_for_all_pairs():
    space, y = structured.subsets(5, 2), vertices(5, 2)
    loss = space.loss
    terms = (y @ loss.bilinear @ y.T, (y @ loss.on_output)[:, None], y @ loss.on_label)
    target = jax.jit(jax.vmap(jax.vmap(space.target, (None, 0)), (0, None)))(y, y)
    np.testing.assert_allclose(target, sum(terms) + loss.constant, atol=1e-6)  # float32
    np.testing.assert_allclose(target, (y[:, None] != y).mean(axis=2), atol=1e-6)
    np.testing.assert_array_equal(loss.on_label, 0)


@pytest.mark.parametrize(("d", "m"), [(2, 1), (5, 1), (6, 2), (6, 3), (5, 4)])
def test_constants_by_enumeration(d, m):
    y = vertices(d, m).astype(np.float64)
    space, constants = structured.subsets(d, m), structured.subsets_constants(d, m)
    assert (space.size, space.dim, space.constants) == (len(y), d, constants)
    distance = np.linalg.norm(y[:, None] - y, axis=2)[~np.eye(len(y), dtype=bool)]
    np.testing.assert_allclose(distance.min(), constants.nu, rtol=1e-12)
    moment = y.T @ y / len(y)
    np.testing.assert_allclose(space.uniform_second_moment, moment, atol=1e-12)
    np.testing.assert_allclose(space.uniform_mean, y.mean(axis=0), atol=1e-12)
    trace = d**2 / 4 * np.trace(np.linalg.inv(moment))  # V = -(2/d) I
    largest = np.abs(y @ space.loss.bilinear @ y.T).max()
    np.testing.assert_allclose(constants.omega, trace * max(1, largest) ** 2, rtol=1e-9)
    paper = structured.subsets_paper_constants(d, m)
    assert paper[:4] == (1 / d, 1, 1, 1) and paper.omega >= trace * (1 - 1e-12)


def test_slope_of_the_loss_is_reached_at_the_mean_of_the_disjoint_subsets():
    for d, m in ((4, 2), (6, 2), (10, 3)):
        y = (np.arange(d) < m).astype(float)
        other = (1 - y) * m / (d - m)
        gamma = structured.subsets_constants(d, m).gamma
        np.testing.assert_allclose(2 * m / d, gamma * np.linalg.norm(other - y), rtol=1e-12)


def test_uniform_draws_are_all_subsets_alike():
    num_draws, d, m = 4000, 5, 2
    keys = jax.random.split(jax.random.key(0), num_draws)
    draws = np.asarray(jax.jit(jax.vmap(structured.subsets(d, m).draw_uniform))(keys))
    assert draws.dtype == np.float32
    equal = (draws[:, None] == vertices(d, m)).all(axis=2)
    assert np.all(equal.sum(axis=1) == 1)
    five_errors = 5 * np.sqrt(0.1 * 0.9 / num_draws)
    assert np.all(np.abs(equal.mean(axis=0) - 0.1) <= five_errors)


def test_single_labels_are_the_classes():
    subsets, classes = structured.subsets(4, 1), structured.multiclass(4)
    labels = np.eye(4)[[2, 0, 3]]
    np.testing.assert_array_equal(subsets.encode(labels), classes.encode(labels))
    assert subsets.size == classes.size
    points = jnp.array([[0.1, 0.2, 0.4, 0.3], [0.25, 0.25, 0.25, 0.25]])
    np.testing.assert_array_equal(
        jax.jit(jax.vmap(subsets.nearest))(points), jax.jit(jax.vmap(classes.nearest))(points)
    )


@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ((1, 1), ValueError, "num_labels must be >= 2, got 1"),
        ((1024, 1), ValueError, "num_labels must be <= 1023, got 1024"),
        ((4, 0), ValueError, "subset_size must be >= 1, got 0"),
        ((4, 4), ValueError, "subset_size must be < num_labels=4, got 4"),
        ((4, 5), ValueError, "subset_size must be < num_labels=4, got 5"),
        ((4.0, 2), TypeError, "num_labels must be a Python int, got float 4.0"),
        ((4, 2.0), TypeError, "subset_size must be a Python int, got float 2.0"),
    ],
)
def test_bad_sizes_are_refused(sizes, error, message):
    with pytest.raises(error, match=message):
        structured.subsets(*sizes)


def test_scores_of_another_shape_are_refused():
    space = structured.subsets(3, 1)
    for function in (space.mean, lambda theta: space.surrogate(theta, jnp.zeros(3))):
        with pytest.raises(ValueError, match=r"theta must have shape \(3,\), got \(4,\)"):
            function(jnp.zeros(4))


def test_encode_names_the_row_that_is_no_subset():
    space = structured.subsets(3, 2)
    encoded = space.encode([[0, 1, 1], [1, 1, 0]])
    np.testing.assert_array_equal(encoded, [[0, 1, 1], [1, 1, 0]])
    assert encoded.dtype == np.float32
    rule = "every row must be of 0 and 1 with exactly 2 ones"
    for bad in ([1, 0, 0], [1, 1, 1], [2, 0, 0], [np.nan, 1, 1]):
        with pytest.raises(ValueError, match=f"{rule}, got .* in row 1"):
            space.encode([[0, 1, 1], bad])
    with pytest.raises(ValueError, match=r"must have shape \(N, 3\), got \(1, 2\)"):
        space.encode([[1, 1]])
