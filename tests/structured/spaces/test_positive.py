"""The solver for positive definite matrices, and the estimators' direction, against float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import structured
from jonline.structured.decoding import decode, explore
from jonline.structured.spaces import positive


@pytest.mark.parametrize("d", [1, 2, 3, 17, 24, 31, 32, 33])
def test_solution_is_that_of_float64(d):
    rng = np.random.default_rng(d)
    half = rng.normal(size=(20, d, 2 * d + 1))
    matrix, right = half @ half.swapaxes(1, 2), rng.normal(size=(20, d))
    found = jax.jit(jax.vmap(positive.solve))(*map(jnp.float32, (matrix, right)))
    expected = np.linalg.solve(matrix, right[..., None])[..., 0]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("scale", [1e-12, 1e-4, 1e6, 1e12])
def test_size_of_the_numbers_does_not_matter(scale):
    rng = np.random.default_rng(0)
    half = rng.normal(size=(10, 20))
    matrix, right = half @ half.T, rng.normal(size=10)
    found = positive.solve(jnp.float32(scale * matrix), jnp.float32(right)) * scale
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-3)


SPACES = {
    "subsets": structured.subsets(24, 5),
    "few subsets": structured.subsets(6, 2),
    "rankings": structured.rankings(5),
    "multilabel": structured.multilabel(8),
}


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize(("rate", "bound"), [(0.2, 1e-4), (1e-2, 1e-3), (1e-4, 1e-2)])
def test_direction_of_the_estimate_is_that_of_float64(name, rate, bound):
    """The condition of the moments is of order 1/rate, and float32 has 6e-8: 1e-3 at 1e-4."""
    space = SPACES[name]
    scores = 2 * jax.random.normal(jax.random.key(0), (100, space.dim))

    def direction(theta):
        mixture = explore(decode(space, space.mean(theta)), rate)
        return mixture, space.dual(mixture, mixture.atoms[0])

    mixtures, found = jax.jit(jax.vmap(direction))(scores)
    atoms, weights, uniform = (np.asarray(part, np.float64) for part in mixtures[:3])
    V, e = space.loss.bilinear, space.loss.on_label
    rows = atoms @ V + e
    cross = np.outer(V.T @ space.uniform_mean, e)
    at_uniform = V.T @ space.uniform_second_moment @ V + cross + cross.T + np.outer(e, e)
    moments = (rows * weights[..., None]).swapaxes(1, 2) @ rows
    moments += uniform[:, None, None] * at_uniform
    inverse = np.linalg.pinv(moments, rcond=1e-9, hermitian=True)
    expected = (inverse @ rows[:, 0, :, None])[..., 0]
    largest = np.abs(expected).max(axis=1, keepdims=True)
    assert np.abs((found - expected) / largest).max() <= bound
