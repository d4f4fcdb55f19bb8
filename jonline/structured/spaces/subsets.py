"""Multilabel classification with m correct labels: the m-subsets of d labels, SparseMAP loss.

Source: arXiv:2502.18709, sections 2.4, 3.4 and D.4. Symbols: as in `space`, and
  m   size of a subset
  t   the number with sum_i clip(theta_i - t, 0, 1) = m
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.core import Array
from jonline.structured.spaces.space import (
    SELF,
    Constants,
    Mixture,
    OutputSpace,
    check_theta,
    checked_vertices,
    cholesky_dual,
    euclidean,
    fenchel_young,
    hamming_loss,
    ranks,
)


def subsets(num_labels: int, subset_size: int) -> OutputSpace:
    """The vertices of {0, 1}^d with exactly m ones, norm L2, with Omega = ||.||^2 / 2.

        mean(theta) = clip(theta - t, 0, 1),   S = ||y - theta||^2 / 2 - ||mean - theta||^2 / 2,
        L = number of wrong labels / d.

    With an infinite score the mean is the limit or NaN, and S is not finite. S is continued from
    the outputs as an affine function of y, by ||y||^2 = m. Decoding draws by systematic sampling
    (`systematic_sampling`), from at most d outputs.

    Args:
      num_labels: d in 2…1023, static.
      subset_size: m in 1…d-1, static.

    Returns:
      An OutputSpace. `encode` takes 0 and 1, (N, d), with m ones in every row.

    Raises:
      TypeError, ValueError: if an argument is no Python int in its range.

    Source: arXiv:2502.18709, sections 2.3 and D.4.
    """
    d, m = _sizes(num_labels, subset_size)
    loss = SELF(-2 / d * np.eye(d), np.full(d, 1 / d), np.zeros(d), m / d)
    uniform_mean = np.full(d, m / d)
    both = m * (m - 1) / (d * (d - 1))
    uniform_second_moment = np.full((d, d), both) + (m / d - both) * np.eye(d)

    def mean(theta):
        check_theta(theta, d)
        return jnp.clip(_centred(theta, m)[0], 0.0, 1.0)

    def conjugate(theta):
        check_theta(theta, d)
        rest, t = _centred(theta, m)
        y = jnp.clip(rest, 0.0, 1.0)
        return m * t + jnp.sum(rest * y - y * y / 2)

    def top(values):
        return (ranks(values) < m).astype(float)

    return OutputSpace(
        name="subsets",
        dim=d,
        size=float(math.comb(d, m)),
        loss=loss,
        constants=subsets_constants(d, m),
        uniform_mean=uniform_mean,
        uniform_second_moment=uniform_second_moment,
        mean=mean,
        surrogate=fenchel_young(conjugate, lambda y: jnp.full((), m / 2)),
        target=hamming_loss,
        nearest=top,
        gap=euclidean,
        decompose=lambda point: systematic_sampling(point, m),
        # words tie, and then favour the lower index, with probability < d^2 / 2^33
        draw_uniform=lambda key: top(jax.random.bits(key, (d,), jnp.uint32)),
        dual=cholesky_dual(loss, uniform_mean, uniform_second_moment),
        encode=lambda labels: checked_vertices(
            "subsets",
            labels,
            d,
            lambda rows: rows.sum(axis=1) == m,
            f"be of 0 and 1 with exactly {m} ones",
        ),
    )


def subsets_constants(num_labels: int, subset_size: int) -> Constants:
    """Returns gamma = (2/d) sqrt(m (d-m) / d), nu = sqrt 2, lambda = 1, kappa = 1, and omega.

    omega = tr(V^-1 Q^+ V^-T) = (d^3 / 4) (1 / m^2 + (d-1)^2 / (m (d-m))), and for m > d/2, where
    the largest <y', V y>^2 = (2m/d)^2 is more than 1, that times it.

    Differs: the paper has gamma = 1/d, with which L <= gamma ||y' - y|| fails; nu = 1, where two
    subsets are sqrt 2 apart; and an upper bound of omega.
    """
    d, m = _sizes(num_labels, subset_size)
    gamma = 2 / d * math.sqrt(m * (d - m) / d)
    omega = d**3 / 4 * (1 / m**2 + (d - 1) ** 2 / (m * (d - m)))
    return Constants(gamma, math.sqrt(2), 1.0, 1.0, omega * max(1.0, 2 * m / d) ** 2)


def subsets_paper_constants(num_labels: int, subset_size: int) -> Constants:
    """Returns the constants as the paper has them: gamma = 1/d, nu = 1, omega = d^5/(4m(d-m))."""
    d, m = _sizes(num_labels, subset_size)
    return Constants(1 / d, 1.0, 1.0, 1.0, d**5 / (4 * m * (d - m)))


def _sizes(num_labels: int, subset_size: int) -> tuple[int, int]:
    d = checks.at_least("num_labels", num_labels, 2, 1023)  # K is a float
    m = checks.at_least("subset_size", subset_size, 1)
    checks.require(m < d, "subset_size", f"be < num_labels={d}", m)
    return d, m


def systematic_sampling(point: Array, subset_size: int) -> Mixture:
    """Returns m-subsets with mean `point`: systematic (Madow) sampling as an exact mixture.

    With C_i = point_1 + … + point_i and u uniform in [0, 1) it takes the i with an integer j in
    C_{i-1} <= u + j < C_i. The set changes only where u passes the fractional part of a C_i: these
    d places, 0 among them, begin the d atoms; one that occurs again gets weight 0.

    Args:
      point: (d,) in [0, 1], with sum m; a rounding error of the sum is spread over the fractions.
      subset_size: m, static.

    Returns:
      A Mixture of d atoms, each with exactly m ones: C is counted in integers as wide as the
      floats are, by units of 2^-k with (m + 1) 2^k < 2^31.

    Source: Madow (1949), "On the theory of systematic sampling, II".
    """
    d, m = len(point), subset_size
    width = 8 * point.dtype.itemsize
    bits = width - 1 - (m + 1).bit_length()
    one = 1 << bits
    units = jnp.round(jnp.clip(point, 0.0, 1.0) * one).astype(f"int{width}")
    excess = jnp.sum(units, dtype=units.dtype) - m * one  # from rounding
    spare = (units > jnp.abs(excess)) & (units < one - jnp.abs(excess))
    spread = jnp.cumsum(spare, dtype=units.dtype)
    total = jnp.cumsum(units, dtype=units.dtype) - spread * excess // jnp.maximum(spread[-1], 1)
    least = (m - np.minimum(np.arange(d)[::-1], m)).astype(units.dtype) * one  # the rest are all 1
    total = jnp.maximum(jnp.minimum(total, m * one), least)
    total = jnp.pad(total, (1, 0))  # C_0…C_d, with steps in 0…one
    whole, part = total >> bits, total & (one - 1)
    start = part[:-1]
    # number of u + j below C_i, one row for each u = start
    taken = whole[None] + (part[None] > start[:, None]).astype(whole.dtype)
    end = jnp.min(jnp.where(start[None] > start[:, None], start[None], one), axis=1)
    index = np.arange(d)
    again = jnp.any((start[None] == start[:, None]) & (index < index[:, None]), axis=1)
    weights = jnp.where(again, 0, end - start).astype(float) / one
    return Mixture(jnp.diff(taken, axis=1).astype(float), weights)


def _centred(theta: Array, m: int) -> tuple[Array, Array]:
    """Returns theta - t (d,), and t.

    t is within 1 below the m-th largest score. Measured from there nothing that matters is beyond
    1, so that large scores cost no accuracy, and the sum is tried at all places where its slope
    can change; on the piece between two of them it is solved. One that lies at the m-th largest
    score is on a slope, hence no division by 0. Exact derivatives, as the pieces are constants.
    """
    fixed = jax.lax.stop_gradient(theta)
    is_high = jnp.sum(fixed[None] >= fixed[:, None], axis=1) >= m
    pivot = jnp.max(jnp.where(is_high, fixed, -jnp.inf))
    near = jnp.clip(fixed - pivot, -1.0, 1.0)
    places = jnp.clip(jnp.concatenate([near, near - 1]), -1.0, 0.0)
    sums = jnp.sum(jnp.clip(near[None] - places[:, None], 0.0, 1.0), axis=1)
    above = near - jnp.max(jnp.where(sums >= m, places, -1.0))
    on_slope = (above > 0) & (above <= 1)
    rest = theta - pivot
    inside = jnp.sum(jnp.where(on_slope, rest, 0.0))
    t = (inside + jnp.sum(above > 1).astype(float) - m) / jnp.sum(on_slope).astype(float)
    return rest - t, pivot + t
