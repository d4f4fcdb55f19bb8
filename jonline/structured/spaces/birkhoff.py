"""The Birkhoff polytope: scaling a matrix into it, its vertices, and mixtures of them.

Its points are the doubly stochastic matrices (m, m), its vertices the permutation matrices.

Symbols:
  z        scores (m, m)
  P        exp(z_ij + f_i + g_j), a scaling of exp(z)
  r        row sums of P - 1, where its column sums are 1
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from jonline import checks
from jonline.core import Array
from jonline.structured.spaces import positive
from jonline.structured.spaces.space import Mixture

_FLAT = 16.0  # scores that range over less are scaled at once
_READY = 0.1  # residual at which scores may be doubled
_TABLE = 5  # up to here all m! permutations are at hand


class Scaling(NamedTuple):
    """A doubly stochastic matrix, and how it was reached.

    Attributes:
      point: (m, m), >= 0; rows and columns sum to 1, but for rounding.
      residual: max |r| when the iteration ended; above `tolerance` if it was cut off.
      iterations: () int32.
    """

    point: Array
    residual: Array
    iterations: Array


def sinkhorn(
    scores: Array, *, tolerance: float | Array | None = None, max_iterations: int | Array = 100
) -> Scaling:
    """Returns the doubly stochastic matrix P = exp(z_ij + f_i + g_j).

    It is argmax <z, P> + H(P), with the entropy H(P) = -sum P log P. Every iteration makes all
    column sums 1 after a step in f: that of Sinkhorn, f_i - log(1 + r_i), or, where it leaves less
    sum |r|, that of Newton, f - H^+ r with H = diag(1 + r) - P P^T. Large scores are first divided
    by a power of 2, and doubled as soon as max |r| <= 0.1, together with f and g; of a range beyond
    2^34 (2^66 in float64), in which nothing but the best assignments is left, not to the end. What
    is left of r at the end is moved to where row and column sums lack something.

    The iterates are log P rather than f and g, so that rounding at large scores is no residual.

    Args:
      scores: z (m, m), finite; else the result is NaN.
      tolerance: of max |r|, > 0; None for 1e-10, in float32 for 8 roundings, 1e-6.
      max_iterations: cap. Up to m = 10 normal scores of any deviation up to 1000 took at most 30,
        those of whole multiples of 1000, with many ties, at most 60.

    Returns:
      A `Scaling`.

    Source: Sinkhorn 1967; Altschuler, Weed and Rigollet, arXiv:1705.09634, for the last step.
    Differs: Sinkhorn's step alone can take a number of iterations exponential in the range of the
    scores, thousands for normal ones of deviation 10; hence Newton's, and the doubling.
    """
    checks.elementwise(scores=scores)
    m = np.shape(scores)[0] if np.ndim(scores) else 0
    checks.require(m and np.shape(scores) == (m, m), "scores", "be square", np.shape(scores))
    max_iterations = checks.non_negative("max_iterations", max_iterations)
    with jax.numpy_dtype_promotion("standard"):
        dtype = jnp.result_type(scores, jnp.float32)
    scores = jnp.asarray(scores, dtype)
    if tolerance is None:
        tolerance = max(1e-10, 8 * float(jnp.finfo(dtype).eps))
    least = checks.positive("tolerance", tolerance)

    def balanced(log_point):
        log_point = log_point - jax.nn.logsumexp(log_point, axis=0)[None]
        return log_point, jnp.sum(jnp.exp(log_point), axis=1) - 1

    def goes_on(carry):
        _, r, halvings, n = carry
        return (n < max_iterations) & ((halvings > 0) | (jnp.max(jnp.abs(r)) > least))

    def step(carry):
        log_point, r, halvings, n = carry
        doubles = (halvings > 0) & (jnp.max(jnp.abs(r)) <= _READY)
        row = jnp.where(doubles, 0.0, jax.nn.logsumexp(log_point, axis=1))
        plain, r_plain = balanced(jnp.where(doubles, 2.0, 1.0) * log_point - row[:, None])
        newton, r_newton = balanced(log_point + _newton_step(jnp.exp(log_point), r)[:, None])
        # false where Newton's step is not a number
        better = ~doubles & (jnp.sum(jnp.abs(r_newton)) < jnp.sum(jnp.abs(r_plain)))
        return (
            jnp.where(better, newton, plain),
            jnp.where(better, r_newton, r_plain),
            halvings - doubles.astype(halvings.dtype),
            n + 1,
        )

    # Scores that range over more are rounded as if they had this range and their number of digits,
    # so a power of 2 less leaves the same best assignments.
    width = 8 * jnp.dtype(dtype).itemsize
    half_range = jnp.max(scores / 2) - jnp.min(scores / 2)
    excess = jnp.maximum(half_range / (_FLAT * 2.0 ** (width - 3)), 1.0)
    scores = scores / lax.reduce_precision(excess, jnp.finfo(dtype).nexp, 0)
    wide = jnp.maximum((jnp.max(scores) - jnp.min(scores)) / _FLAT, 1.0)
    halvings = jnp.minimum(jnp.ceil(jnp.log2(wide)), width - 2).astype(f"int{width}")
    start = balanced(scores / jnp.left_shift(jnp.ones_like(halvings), halvings).astype(dtype))
    log_point, r, _, n = lax.while_loop(goes_on, step, (*start, halvings, jnp.int32(0)))
    point = _filled_up(jnp.exp(log_point))
    return Scaling(point, jnp.max(jnp.abs(r)), n)


def _newton_step(point: Array, r: Array) -> Array:
    """-H^+ r. H is the Laplacian of the weights P P^T: sums of positive numbers, exact if small.

    The solver wants H > 0: a multiple of 11^T takes the constant vectors out of its kernel, and eps
    those of parts that no weight connects.
    """
    same = jnp.eye(len(r), dtype=r.dtype)
    weights = jnp.sum(point[:, None, :] * point[None, :, :], axis=-1) * (1 - same)
    diagonal = same * (jnp.sum(weights, axis=1) + jnp.finfo(r.dtype).eps)[None]
    return -positive.solve(diagonal - weights + 1 / len(r), r)


def _filled_up(point: Array) -> Array:
    """Returns rows, then columns cut down to sums <= 1, and what they lack added as a product."""
    point = point / jnp.maximum(jnp.sum(point, axis=1, keepdims=True), 1.0)
    point = point / jnp.maximum(jnp.sum(point, axis=0, keepdims=True), 1.0)
    row = jnp.maximum(1 - jnp.sum(point, axis=1, keepdims=True), 0.0)
    column = jnp.maximum(1 - jnp.sum(point, axis=0, keepdims=True), 0.0)
    return point + row * (column / jnp.maximum(jnp.sum(column), jnp.finfo(point.dtype).tiny))


def matching(weights: Array) -> Array:
    """Returns the permutation matrix Y (m, m) with the largest <Y, weights>.

    All permutations are compared up to m = 5; beyond, it is the Hungarian algorithm of optax.

    Args:
      weights: (m, m), finite.
    """
    m = weights.shape[0]
    if m > _TABLE:
        rows, columns = optax.assignment.hungarian_algorithm(-weights)  # in no order
        index = jnp.arange(m)
        pairs = (rows[:, None, None] == index[None, :, None]) & (
            columns[:, None, None] == index[None, None]
        )
        return jnp.any(pairs, axis=0).astype(weights.dtype)
    table = permutation_matrices(m).reshape(-1, m * m)
    values = weights.reshape(m * m) @ jnp.asarray(np.ascontiguousarray(table.T), weights.dtype)
    number = np.arange(len(table), dtype=np.int32)
    best = jnp.min(jnp.where(values >= jnp.max(values), number, len(table) - 1))  # the first
    return jnp.asarray(table, weights.dtype)[best].reshape(m, m)


def permutation_matrices(m: int) -> np.ndarray:
    """Returns all permutation matrices (m!, m, m), float64."""
    return np.eye(m)[np.array(list(itertools.permutations(range(m))))]


def decomposition(point: Array) -> Mixture:
    """Returns (m-1)^2 + 1 permutation matrices, as vectors (m^2,), with a doubly stochastic mean.

    As long as there is a permutation of positive entries, the one with the largest product of them
    is taken, with the least of them as its weight, and subtracted. A taken permutation has an entry
    that none of the later ones has, hence all are linearly independent, and no more than
    (m-1)^2 + 1 are, whatever the rounding. Further ones have weight 0. The weights are divided by
    their sum in the end.

    Args:
      point: (m, m).

    Source: Birkhoff's theorem; Brualdi 1982 (Canadian Mathematical Bulletin 25) for the number.
    """
    m = point.shape[0]
    tiny = jnp.finfo(point.dtype).tiny
    # a permutation with one entry more in the support weighs more, whatever the others are
    outside = 2 * m * jnp.log(tiny)

    def step(left, _):
        log_left = jnp.log(jnp.maximum(left, tiny))
        atom = matching(jnp.where(left >= tiny, log_left, outside))
        least = jnp.min(jnp.where(atom > 0, left, jnp.inf))
        weight = jnp.where(least >= tiny, least, 0.0)
        return left - weight * atom, (atom.reshape(m * m), weight)

    _, (atoms, weights) = lax.scan(step, jnp.maximum(point, 0.0), None, (m - 1) ** 2 + 1)
    return Mixture(atoms, weights / jnp.maximum(jnp.sum(weights), tiny))
