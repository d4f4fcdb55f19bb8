"""The expansion that holds only terms with a coefficient, against one that holds every move."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import hypotheses, kernels

N = 3
KERNELS = {
    "linear": kernels.linear,
    "polynomial": kernels.polynomial(3),
    "gaussian": kernels.gaussian(1.0),
    "own": lambda x, z: jnp.sum(jnp.minimum(jnp.abs(x), jnp.abs(z))),
}


def every_move(k, budget, xs, decays, coefs, at):
    """Values at `at` and squared norms after each move, by the definition, in float64."""
    gram = np.asarray(jax.vmap(lambda x: jax.vmap(lambda z: k(x, z))(xs))(xs), np.float64)
    rows = np.asarray(jax.vmap(lambda x: jax.vmap(lambda z: k(x, z))(at))(xs), np.float64)
    c = np.zeros(len(xs))
    values, norms = [], []
    for t in range(len(xs)):
        c *= 1 - decays[t]
        c[t] = coefs[t]
        c[: max(t + 1 - budget, 0)] = 0
        values.append(c @ rows)
        norms.append(c @ gram @ c)
    return np.array(values), np.array(norms)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("budget", [1, 2, 7, 40, 300])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 1.0])
def test_moves_are_those_of_the_definition(name, budget, share):
    rng = np.random.default_rng(budget)
    num = 120 if budget < 300 else 700
    xs = rng.normal(size=(num, N)).astype(np.float32)
    decays = rng.choice([0.0, 0.01, 0.3, 1.0], num, p=[0.2, 0.77, 0.02, 0.01]).astype(np.float32)
    coefs = (rng.normal(size=num) * (rng.random(num) < share)).astype(np.float32)
    at = rng.normal(size=(5, N)).astype(np.float32)
    k = KERNELS[name]
    hypothesis = hypotheses.kernel(k, budget, N)

    def step(f, move):
        f = hypothesis.move(f, *move)
        return f, (jax.vmap(hypothesis.value, (None, 0))(f, at), hypothesis.sq_norm(f), f.count)

    run = jax.jit(lambda: jax.lax.scan(step, hypothesis.init(), (xs, decays, coefs)))
    f, (values, norms, counts) = run()
    expected, sq_norms = every_move(k, budget, xs, decays, coefs, at)
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(values, expected, atol=1e-4 * scale)
    np.testing.assert_allclose(norms, sq_norms, rtol=1e-3, atol=1e-3 * max(1.0, sq_norms.max()))
    held = [np.sum(coefs[max(t + 1 - budget, 0) : t + 1] != 0) for t in range(num)]
    np.testing.assert_array_equal(counts, held)
    assert f.size == min(num, budget) and f.dropped == max(num - budget, 0)
    assert not np.any(f.coefs[held[-1] :])
    places = np.asarray(f.places[: held[-1]])
    np.testing.assert_array_equal(np.asarray(f.slots)[places], np.arange(held[-1]))
    moves = np.arange(max(num - budget, 0), num)
    moves = {move % budget: move for move in moves[coefs[moves] != 0]}
    points = np.asarray(f.points).T[: held[-1]]
    np.testing.assert_array_equal(points, xs[[moves[place] for place in places]])


def test_a_kernel_that_is_not_defined_at_zero_is_not_evaluated_there():
    hypothesis = hypotheses.kernel(lambda x, z: 1 / jnp.sum(x * z), 4, N)
    f = hypothesis.init()
    for coef in (0.0, 1.0, 0.0, 2.0, 0.0, 0.0, 0.0):
        f = hypothesis.move(f, jnp.ones(N), 0.0, coef)
        assert jnp.isfinite(hypothesis.value(f, jnp.ones(N))) and jnp.isfinite(f.sq_norm)
    assert f.count == 1 and f.coefs[0] == 2
