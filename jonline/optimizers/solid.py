"""SOLID with online gradient descent: gradients are used when they come.

Source: Joulani, György and Szepesvári 2016, "Delay-Tolerant Online Convex Optimization";
arXiv:2502.18709, appendix G.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from jonline import checks
from jonline.core import Array
from jonline.optimizers.online import OnlineOptimizer, descend


class SolidState(NamedTuple):
    """State of `solid_ogd`.

    Attributes:
      params: W (d, n).
      sq_sum: Z, see `solid_ogd`.
      norm_sum: sum of ||G|| over the answers so far.
      lost: what rounding took from that sum (Kahan).
      count: answers observed so far, int32.
    """

    params: Array
    sq_sum: Array
    norm_sum: Array
    lost: Array
    count: Array


class SolidStamp(NamedTuple):
    """`norm_sum`, `lost` and `count` of the state that played."""

    norm_sum: Array
    lost: Array
    count: Array


def solid_ogd(
    diameter: float | Array,
    *,
    gradient_bound: float | Array,
    max_delay: int | Array,
    project: bool = True,
    offset: float | Array = 0.0,
) -> OnlineOptimizer:
    """Gradient descent on gradients that come late and in any order, in the order they come.

    For the t-th answer, with G its gradient and N the sum of the norms of the gradients that came
    between the round it belongs to and now (there are tau~ of them),
        Z <- Z + ||G||^2 + 2 ||G|| N,
        eta = B / sqrt(2 (offset + Z + C^2 (tau*^2 + tau*))),   W <- Pi(W - eta G).
    With tau* = 0 it is `adaptive_ogd`.

    Args:
      diameter: B > 0; Pi projects on the ball of radius B/2 (R of the paper is B/2).
      gradient_bound: C = C_x C_y >= 0, bound on the norm of a gradient. Not needed with tau* = 0.
      max_delay: tau* >= 0, bound on the delay.
      project: whether W is kept in the ball, static.
      offset: >= 0, as in `adaptive_ogd`.

    Returns:
      An OnlineOptimizer with state `SolidState`.

    Raises:
      TypeError, ValueError: if a concrete argument is out of range.

    Source: arXiv:2502.18709, lemma G.1.
    Differs: the paper prints the constant C^2 (tau*^2 + tau*) behind the root; inside it has the
    right unit and gives the term of the bound that it is there for.
    """
    diameter = checks.positive("diameter", diameter)
    gradient_bound = checks.non_negative("gradient_bound", gradient_bound)
    max_delay = checks.non_negative("max_delay", max_delay)
    offset = checks.non_negative("offset", offset)
    project = checks.flag("project", project)
    ahead = gradient_bound**2 * (max_delay * (max_delay + 1.0))  # int32 holds no such squares

    def init(params):
        zero = jnp.zeros((), params.dtype)
        return SolidState(params, zero, zero, zero, jnp.zeros((), jnp.int32))

    def update(state, residual, x, stamp):
        sq_norm = jnp.sum(residual * residual) * jnp.sum(x * x)
        norm = jnp.sqrt(sq_norm)
        between = (state.norm_sum - stamp.norm_sum) - (state.lost - stamp.lost)
        sq_sum = state.sq_sum + (sq_norm + 2 * norm * jnp.maximum(between, 0.0))
        params = descend(
            state.params, residual, x, diameter, sq_sum, offset + ahead, project=project
        )
        put = norm - state.lost
        norm_sum = state.norm_sum + put
        lost = (norm_sum - state.norm_sum) - put
        return SolidState(params, sq_sum, norm_sum, lost, state.count + 1)

    def stamp(state: Any) -> SolidStamp:
        return SolidStamp(state.norm_sum, state.lost, state.count)

    return OnlineOptimizer(init, lambda state: state.params, stamp, update)
