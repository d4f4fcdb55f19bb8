"""ODAFTRL with AdaHedgeD: follow the regularized leader on gradients that come D rounds late.

Source: Flaspohler et al. 2021, "Online Learning with Optimism and Delay"; arXiv:2502.18709, section
4 and appendix E.

Symbols: G_s gradient of round s; D the delay, B the diameter, R = B/2 the radius of the ball;
  old      Theta = sum of G_i, i < s - D: what W_s, the model of round s, was made of
  recent   GO = G_{s-D} + … + G_s, the last D + 1 gradients
  reg      lambda
Every model is -c V for a sum of gradients V, with c = min(1/lambda, R/||V||): the minimiser over
the ball of lambda ||W||^2 / 2 + <V, W>.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jonline import checks
from jonline.core import Array
from jonline.optimizers.online import OnlineOptimizer


class OdaftrlState(NamedTuple):
    """State of `odaftrl`.

    Attributes:
      old: (d, n), sum of the gradients before the last D + 1.
      recent: (d, n), sum of the last D + 1.
      residuals, xs: (D+1, d) and (D+1, n): these D + 1, in parts.
      reg: lambda of the round that begins.
      count: answers so far, int32.
    """

    old: Array
    recent: Array
    residuals: Array
    xs: Array
    reg: Array
    count: Array


def odaftrl(
    diameter: float | Array, *, delay: int, scale: float | Array | None = None
) -> OnlineOptimizer:
    """Follow the regularized leader, with a regularization that grows by what the delay costs.

        W_{t+1} = argmin_{||W|| <= R} <G_1 + … + G_{t-D}, W> + lambda_{t+1} ||W||^2 / 2,
        lambda_{t+1} = (1/alpha) sum_{s <= t-D} delta_s,
        delta_s = max(0, min(F(W_s) - F(W-), <G_s, W_s - W->, F(W^) - F(W-) + <G_s, W_s - W^>)),
    where F(W) = lambda_s ||W||^2 / 2 + <G_1 + … + G_s, W>, W- its minimiser, W^ that of
    F(W) - min(1, ||G_s|| / ||GO||) <GO, W>. All differences are computed from the inner products
    of Theta, GO and G_s, without taking one large number from another. The round of an answer is
    told by its number, so each has to come; one without a value is the gradient 0 of its round.

    Args:
      diameter: B > 0.
      delay: D >= 0, static: the fixed delay of the environment. (For delays that vary there is
        `solid_ogd`.)
      scale: alpha > 0; None for B^2 / 2, the choice of the paper.

    Returns:
      An OnlineOptimizer with state `OdaftrlState`: 2 d n + (D + 1) (d + n) numbers. The model has
      to begin at 0; what `init` is given says its shape alone.

    Raises:
      TypeError, ValueError: if an argument is out of range.

    Source: arXiv:2502.18709, appendix E.1.
    Differs: the paper's eq. (10) prints lambda_t where W_{t+1} is made; lemma E.1 is about the
    algorithm above, which plays with the newest lambda.
    Differs: while lambda = 0 and no gradient has come, W = 0 of all minimisers is taken.
    """
    diameter = checks.positive("diameter", diameter)
    delay = checks.delay_bound(delay, "delay")
    if scale is not None:
        scale = checks.positive("scale", scale)
    radius = diameter / 2
    alpha = diameter * diameter / 2 if scale is None else scale
    size = delay + 1

    def init(params):
        d, n = params.shape
        zeros = jnp.zeros((d, n), params.dtype)
        none = jnp.zeros((), params.dtype)
        return OdaftrlState(
            old=zeros,
            recent=zeros,
            residuals=jnp.zeros((size, d), params.dtype),
            xs=jnp.zeros((size, n), params.dtype),
            reg=none,
            count=jnp.zeros((), jnp.int32),
        )

    def params(state):
        total = state.old + state.recent
        return -_factor(state.reg, jnp.sum(total * total), radius) * total

    def update(state, residual, x, stamp):
        slot = state.count % size
        take, put = jax.lax.dynamic_index_in_dim, jax.lax.dynamic_update_index_in_dim
        leaving = take(state.residuals, slot, 0, False)[:, None] * take(state.xs, slot, 0, True)
        arriving = residual[:, None] * x[None]
        old = state.old + leaving
        recent = (state.recent - leaving) + arriving
        delta = _delta(stamp, old, recent, residual, x, radius)
        return OdaftrlState(
            old=old,
            recent=recent,
            residuals=put(state.residuals, residual, slot, 0),
            xs=put(state.xs, x.astype(state.xs.dtype), slot, 0),
            reg=state.reg + delta / alpha,
            count=state.count + 1,
        )

    def skip(state):
        nothing = jnp.zeros_like(state.residuals[0]), jnp.zeros_like(state.xs[0])
        return update(state, *nothing, state.reg)

    return OnlineOptimizer(init, params, lambda state: state.reg, update, skip)


def _factor(reg, sq_norm, radius):
    """Returns c with -c V = argmin over the ball of reg ||W||^2 / 2 + <V, W>; 0 for V = 0."""
    tiny = jnp.finfo(sq_norm.dtype).tiny
    at_edge = radius / jnp.maximum(jnp.sqrt(sq_norm), tiny)
    inside = 1 / jnp.where(reg > 0, reg, 1.0)
    c = jnp.where(reg > 0, jnp.minimum(inside, at_edge), at_edge)
    return jnp.where(sq_norm > 0, c, 0.0)


def _delta(reg, old, recent, residual, x, radius):
    """Returns delta_s >= 0, from lambda_s, Theta_s, GO_s and G_s = residual x^T."""
    tiny = jnp.finfo(old.dtype).tiny
    oo, rr, cross = jnp.sum(old * old), jnp.sum(recent * recent), jnp.sum(old * recent)
    g_old = jnp.sum(residual * (old @ x))
    g_recent = jnp.sum(residual * (recent @ x))
    sq_g = jnp.sum(residual * residual) * jnp.sum(x * x)
    ratio = jnp.minimum(1.0, jnp.sqrt(sq_g) / jnp.maximum(jnp.sqrt(rr), tiny))
    keep = jnp.where(rr > 0, 1 - ratio, 0.0)  # W^ is the minimiser for Theta + keep GO

    def sq_of(a, b):  # ||a Theta + b GO||^2
        return jnp.maximum(a * (a * oo + 2 * b * cross) + b * b * rr, 0.0)

    sq_all = sq_of(1.0, 1.0)
    c_s = _factor(reg, oo, radius)
    c_all = _factor(reg, sq_all, radius)
    c_hat = _factor(reg, sq_of(1.0, keep), radius)
    push = jnp.maximum(jnp.sqrt(sq_all) / radius - reg, 0.0)  # multiplier of the ball at W-

    def above_least(
        c, b, sq
    ):  # F(W) - F(W-) at W = -c (Theta + b GO), with sq = ||Theta + b GO||^2
        apart = sq_of(c_all - c, c_all - c * b)
        slack = jnp.maximum(radius * radius - c * c * sq, 0.0)
        return ((reg + push) * apart + push * slack) / 2

    first = above_least(c_s, 0.0, oo)
    second = (c_all - c_s) * g_old + c_all * g_recent
    third = above_least(c_hat, keep, sq_of(1.0, keep))
    third = third + ((c_hat - c_s) * g_old + c_hat * keep * g_recent)
    return jnp.maximum(jnp.minimum(jnp.minimum(first, second), third), 0.0)
