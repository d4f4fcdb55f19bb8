"""Losses with the option to reject, their gradients, decisions and query rules.

Source: "Online Active Learning of Reject Option Classifiers", arXiv:1906.06166, sections 1 to 3.

Symbols:
  f(x)     score
  y        label, -1 or +1; an output is a label, or 0 for "reject"
  z        y f(x)
  rho      `width`: half the width of the band |f(x)| <= rho that is rejected
  d        `cost` of a rejection, in (0, 1/2); a wrong label costs 1
  gamma    `slope` of the sigmoid sigma(a) = 1 / (1 + e^(gamma a)), which falls from 1 to 0
  L_d      the loss that counts; L_dr the double ramp, L_ds the double sigmoid: its surrogates

A learned width can become negative. Decisions and L_d then take 0 in its place, query rules and
surrogates take it as it is.
"""

import jax
import jax.numpy as jnp

from jonline import checks
from jonline.core import Array


def decide(score: Array, width: Array) -> Array:
    """Returns +1 for f(x) > rho, -1 for f(x) < -rho, else 0 (reject): int32, elementwise.

    A score that is NaN is rejected. Source: arXiv:1906.06166, eq. (1).
    """
    score, width = checks.elementwise(score=score, width=width)
    width = jnp.maximum(width, 0.0)
    return (score > width).astype(jnp.int32) - (score < -width).astype(jnp.int32)


def decision_loss(z: Array, width: Array, cost: float | Array) -> Array:
    """Returns L_d = [z < -rho] + d [|z| <= rho], which is 0, d or 1; NaN where z is, elementwise.

    Source: arXiv:1906.06166, eq. (2).
    Differs: the paper has z <= -rho in the first term, so that z = -rho costs 1 + d though it is
    rejected.
    """
    z, width, cost = checks.elementwise(z=z, width=width, cost=cost)
    output = decide(z, width)
    loss = jnp.where(output == 0, cost, (output < 0).astype(jnp.result_type(float)))
    return jnp.where(jnp.isnan(z), jnp.nan, loss)


def double_ramp_loss(z: Array, width: Array, cost: float | Array) -> Array:
    """Returns L_dr, in 0…2, elementwise.

    d ([1 - z + rho]_+ - [-1 - z + rho]_+) + (1 - d) ([1 - z - rho]_+ - [-1 - z - rho]_+).

    Source: arXiv:1906.06166, section 2.
    """
    z, width, cost = checks.elementwise(z=z, width=width, cost=cost)
    return cost * _ramp(z - width) + (1 - cost) * _ramp(z + width)


def _ramp(a: Array) -> Array:
    """[1 - a]_+ - [-1 - a]_+, from 2 down to 0."""
    return jnp.clip(1 - a, 0.0, 2.0)


def double_ramp_gradient(
    z: Array, width: Array, cost: float | Array, *, exact: bool = False
) -> tuple[Array, Array]:
    """Returns the derivatives of L_dr in z and in rho, as the paper's algorithm has them.

        rho - 1 <= z <= rho + 1            (-d, d),
        else  -rho - 1 <= z <= -rho + 1    (-(1 - d), -(1 - d)),
        else                               (0, 0).

    Args:
      z, width: float, any shape.
      cost: d in (0, 1/2).
      exact: add the first two where both intervals hold z, as the derivative does (for rho < 1).
        The second is then without its right end, so that z = 0, rho = 1, where a run begins,
        belongs to the first as in the other form.

    Source: arXiv:1906.06166, algorithm 1. `exact=True` is the display before it.
    """
    z, width, cost = checks.elementwise(z=z, width=width, cost=cost)
    exact = checks.flag("exact", exact)
    upper = (width - 1 <= z) & (z <= width + 1)
    lower = (-width - 1 <= z) & ((z < 1 - width) if exact else (z <= 1 - width) & ~upper)
    first, second = jnp.where(upper, cost, 0.0), jnp.where(lower, 1.0 - cost, 0.0)
    return -(first + second), first - second


def double_ramp_asks(score: Array, width: Array) -> Array:
    """Returns whether rho - 1 <= |f(x)| <= rho + 1: bool, elementwise.

    For rho >= 1 that is where L_dr has a gradient, whatever the label. For rho < -1 it never holds.

    Source: arXiv:1906.06166, eq. (3).
    """
    score, width = checks.elementwise(score=score, width=width)
    return (width - 1 <= jnp.abs(score)) & (jnp.abs(score) <= width + 1)


def double_sigmoid_loss(z: Array, width: Array, cost: float | Array, slope: float | Array) -> Array:
    """Returns L_ds = 2 d sigma(z - rho) + 2 (1 - d) sigma(z + rho), in (0, 2), elementwise.

    Source: arXiv:1906.06166, section 3.
    """
    z, width, cost, slope = checks.elementwise(z=z, width=width, cost=cost, slope=slope)
    upper, lower = (jax.nn.sigmoid(-slope * a) for a in (z - width, z + width))
    return 2 * (cost * upper + (1 - cost) * lower)


def double_sigmoid_gradient(
    z: Array, width: Array, cost: float | Array, slope: float | Array
) -> tuple[Array, Array]:
    """Returns the derivatives of L_ds in z and in rho, elementwise.

        (-2 gamma (A + B), 2 gamma (A - B)),   A = d s(z - rho),   B = (1 - d) s(z + rho),
    with s = sigma (1 - sigma).

    Source: arXiv:1906.06166, eqs. (34), (35) and (48).
    Differs: its eqs. (6) and (7) have the signs of ascent, against its own appendix.
    """
    z, width, cost, slope = checks.elementwise(z=z, width=width, cost=cost, slope=slope)
    upper = cost * _bump(z - width, slope)
    lower = (1 - cost) * _bump(z + width, slope)
    return -2 * slope * (upper + lower), 2 * slope * (upper - lower)


def double_sigmoid_query_prob(score: Array, width: Array, slope: float | Array) -> Array:
    """Returns p = 4 s(|f(x)| - rho) = sech^2(gamma (|f(x)| - rho) / 2), in 0…1, elementwise.

    It is 1 at |f(x)| = rho, the edge of the band, and falls off on both sides.

    Source: arXiv:1906.06166, eq. (5).
    """
    score, width, slope = checks.elementwise(score=score, width=width, slope=slope)
    return jnp.minimum(4 * _bump(jnp.abs(score) - width, slope), 1.0)


def _bump(a: Array, slope: float | Array) -> Array:
    """s(a) = sigma(a) (1 - sigma(a)), with no digits lost at large |a|."""
    return jax.nn.sigmoid(slope * a) * jax.nn.sigmoid(-slope * a)
