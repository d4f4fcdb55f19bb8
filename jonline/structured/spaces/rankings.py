"""Rankings of m items: permutation matrices, entropic surrogate loss, share of misplaced items.

Source: arXiv:2502.18709, sections 2.3 and 2.4. Symbols: as in `space`, and
  zeta     sharpness
  H        entropy of a matrix, -sum_ij P_ij log P_ij
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.structured.spaces.birkhoff import decomposition, matching, sinkhorn
from jonline.structured.spaces.space import (
    SELF,
    Constants,
    OutputSpace,
    check_theta,
    checked_vertices,
    cholesky_dual,
)


def rankings(
    num_items: int,
    *,
    sharpness: float = 1.0,
    tolerance: float | None = None,
    max_iterations: int = 100,
) -> OutputSpace:
    """The m x m permutation matrices, row by row as vectors of d = m^2, norm L1.

    Row i is item i, column j the j-th place. With Omega = -H / zeta,

        mean(theta) = the doubly stochastic exp(zeta theta_ij + f_i + g_j)     (Sinkhorn),
        S = <theta, mean(theta) - y> + H(mean(theta)) / zeta,
        L = share of items at another place = 1 - <output, y> / m.

    With an infinite score the mean is NaN. The matrix nearest to a point is its heaviest
    assignment, and a point is decomposed after Birkhoff and von Neumann into (m-1)^2 + 1 matrices,
    both by comparing all permutations up to m = 5 and by the Hungarian algorithm beyond.

    Args:
      num_items: m in 2…64, static.
      sharpness: zeta > 0, static. The theory asks for 4 gamma / (lambda nu) = zeta / 2 < 1.
      tolerance: of the row sums of `mean` before they are made 1, > 0; None for 1e-6 in float32,
        1e-10 in float64.
      max_iterations: cap >= 1 of `birkhoff.sinkhorn`, which tells what residual it ended with.

    Returns:
      An OutputSpace. `encode` takes the places (N, m) of the items, each row a permutation of 1…m
      (1 is first), or matrices as vectors (N, m^2). Derivatives of `mean` do not exist in reverse
      mode; that of `surrogate` does.

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind or out of range.

    Source: arXiv:2502.18709, section 2.3.
    """
    constants = rankings_constants(num_items, sharpness)
    max_iterations = checks.at_least("max_iterations", max_iterations, 1, 2**31 - 1)
    if tolerance is not None:
        tolerance = checks.positive("tolerance", tolerance)
    m, d, zeta = int(num_items), int(num_items) ** 2, float(sharpness)

    def mean(theta):
        check_theta(theta, d)
        scores = zeta * jnp.reshape(theta, (m, m))
        scaling = sinkhorn(scores, tolerance=tolerance, max_iterations=max_iterations)
        return scaling.point.reshape(d)

    def surrogate(theta, y):
        # The maximiser of <theta, .> - Omega is held fixed, and what is left to differentiate is
        # linear: by the envelope theorem its gradient mean - y is that of the maximum.
        point = mean(jax.lax.stop_gradient(theta))
        entropy = jnp.sum(jax.scipy.special.entr(point))
        return jnp.sum(theta * (point - y)) + entropy / zeta

    def draw_uniform(key):
        # the ranks of m random words; two are equal with probability below m^2 / 2^33
        words = jax.random.bits(key, (m,), jnp.uint32)
        index, mine, theirs = jnp.arange(m), words[:, None], words[None]
        before = (theirs < mine) | ((theirs == mine) & (index[None] < index[:, None]))
        places = jnp.sum(before, axis=1, dtype=jnp.int32)
        return (places[:, None] == index[None]).astype(float).reshape(d)

    loss = SELF(-np.eye(d) / m, np.zeros(d), np.zeros(d), 1.0)
    uniform_mean, uniform_second_moment = np.full(d, 1 / m), _second_moment(m)
    return OutputSpace(
        name="rankings",
        dim=d,
        size=float(math.factorial(m)),
        loss=loss,
        constants=constants,
        uniform_mean=uniform_mean,
        uniform_second_moment=uniform_second_moment,
        mean=mean,
        surrogate=surrogate,
        target=lambda output, y: 1.0 - jnp.sum(output * y) / m,
        nearest=lambda point: matching(point.reshape(m, m)).reshape(d),
        gap=lambda output, point: jnp.sum(jnp.abs(output - point)),
        decompose=lambda point: decomposition(point.reshape(m, m)),
        draw_uniform=draw_uniform,
        dual=cholesky_dual(loss, uniform_mean, uniform_second_moment),
        encode=lambda labels: _encode(labels, m),
    )


def rankings_constants(num_items: int, sharpness: float = 1.0) -> Constants:
    """Returns gamma = 1/(2m), nu = 4, lambda = 1/(m zeta), kappa = 1, omega = m^2 (1 + (m-1)^3).

    omega is tr(V^-1 Q^+ V^-T); the paper bounds it by m^5.

    Raises:
      TypeError, ValueError: unless `num_items` is an int >= 2 and `sharpness` a number > 0, both
        known before tracing.
    """
    m = checks.at_least("num_items", num_items, 2, 64)  # V has m^4 numbers
    sharpness = checks.positive("sharpness", sharpness, static=True)
    return Constants(1 / (2 * m), 4.0, 1 / (m * float(sharpness)), 1.0, m**2 * (1.0 + (m - 1) ** 3))


def rankings_paper_constants(num_items: int, sharpness: float = 1.0) -> Constants:
    """Returns the constants as the paper has them: omega = m^5, the rest as above."""
    return rankings_constants(num_items, sharpness)._replace(omega=float(num_items) ** 5)


def _second_moment(m: int) -> np.ndarray:
    """E[y_ij y_kl] = 1/m for equal, 0 for one equal index, 1/(m (m-1)) for none."""
    same, other = np.eye(m), 1 - np.eye(m)
    return np.kron(same, same) / m + np.kron(other, other) / (m * (m - 1))


def _encode(labels: Any, m: int) -> np.ndarray:
    checks.unmasked("labels", labels)
    array = np.asarray(labels)
    if array.ndim != 2 or array.shape[1] not in (m, m * m):
        raise ValueError(f"labels of rankings must be (N, {m}) or (N, {m * m}), got {array.shape}")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"labels of rankings must be numbers, got {array.dtype}")
    if array.shape[1] == m * m:

        def is_permutation(rows):
            square = rows.reshape(-1, m, m)
            return ((square.sum(axis=1) == 1) & (square.sum(axis=2) == 1)).all(axis=1)

        rule = f"be a permutation matrix ({m}, {m})"
        return checked_vertices("rankings", array, m * m, is_permutation, rule)
    good = (np.sort(array, axis=1) == np.arange(1, m + 1)).all(axis=1)
    if not good.all():
        row = int(np.argmin(good))
        raise ValueError(
            f"labels of rankings: every row must be a permutation of 1…{m}, "
            f"got {array[row]} in row {row}"
        )
    return np.eye(m, dtype=np.float32)[array.astype(np.int64) - 1].reshape(-1, m * m)
