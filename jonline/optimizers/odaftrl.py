"""ODAFTRL with AdaHedgeD: follow the regularized leader on gradients that come D rounds late.

Source: Flaspohler et al. 2021, "Online Learning with Optimism and Delay"; arXiv:2502.18709, section
4 and appendix E.

Symbols: G_s gradient of round s; D the delay, B the diameter, R = B/2 the radius of the ball;
  old      Theta = sum of G_i, i < s - D: what W_s, the model of round s, was made of
  GO       G_{s-D} + … + G_s, the last D + 1 gradients
  recent   the last D of them, when G_s has not come
  reg      lambda
Every model is -c V for a sum of gradients V, with c = min(1/lambda, R/||V||): the minimiser over
the ball of lambda ||W||^2 / 2 + <V, W>.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jonline import checks
from jonline.core import Array
from jonline.optimizers.online import OnlineOptimizer, plus_outer

EXACTLY = 256  # answers after which the inner products are computed anew


class Products(NamedTuple):
    """Inner products ||Theta||^2, ||GO||^2 and <Theta, GO> of two sums of gradients."""

    old: Array
    recent: Array
    cross: Array


class OdaftrlState(NamedTuple):
    """State of `odaftrl`.

    Attributes:
      old: (d, n), sum of the gradients before the last D.
      recent: (d, n), sum of the last D; (0, n) for D = 0.
      products: of `old` and `recent`.
      residuals, xs: (D, d) and (D, n): these D, in parts.
      reg: lambda of the round that begins.
      count: answers so far, int32.
    """

    old: Array
    recent: Array
    products: Products
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
      An OnlineOptimizer with state `OdaftrlState`: 2 d n + D (d + n) numbers, d n for D = 0. The
      model has to begin at 0; what `init` is given says its shape alone.

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

    def init(params):
        d, n = params.shape
        none = jnp.zeros((), params.dtype)
        return OdaftrlState(
            old=jnp.zeros((d, n), params.dtype),
            recent=jnp.zeros((d if delay else 0, n), params.dtype),
            products=Products(none, none, none),
            residuals=jnp.zeros((delay, d), params.dtype),
            xs=jnp.zeros((delay, n), params.dtype),
            reg=none,
            count=jnp.zeros((), jnp.int32),
        )

    def factor(state):
        old, recent, cross = state.products
        return _factor(state.reg, jnp.maximum(old + 2 * cross + recent, 0.0), radius)

    def params(state):
        return -factor(state) * (state.old + state.recent if delay else state.old)

    def scores(state, x):
        total = state.old @ x
        return -factor(state) * (total + state.recent @ x if delay else total)

    def update(state, residual, x, stamp):
        arriving = residual, x
        if not delay:
            with_g = _with_arriving(state, 0.0, arriving)
            reg = state.reg + _delta(stamp, *with_g, radius) / alpha
            old = plus_outer(state.old, residual, x)
            products = _leaving(with_g, with_g.g_old, with_g.sq_g, with_g.sq_g)
            return _anew(state._replace(old=old, products=products, reg=reg))
        slot = state.count % delay
        take, put = jax.lax.dynamic_index_in_dim, jax.lax.dynamic_update_index_in_dim
        leaving = take(state.residuals, slot, 0, False), take(state.xs, slot, 0, False)
        g_recent = jnp.sum(residual * (state.recent @ x))
        with_g = _with_arriving(state, g_recent, arriving)
        r, z = leaving
        sq_l = jnp.sum(r * r) * jnp.sum(z * z)
        l_recent = jnp.sum(r * (state.recent @ z)) + jnp.sum(r * residual) * jnp.sum(z * x)
        products = _leaving(with_g, jnp.sum(r * (state.old @ z)), l_recent, sq_l)
        return _anew(
            OdaftrlState(
                old=plus_outer(state.old, r, z),
                recent=plus_outer(plus_outer(state.recent, -r, z), residual, x),
                products=products,
                residuals=put(state.residuals, residual, slot, 0),
                xs=put(state.xs, x.astype(state.xs.dtype), slot, 0),
                reg=state.reg + _delta(stamp, *with_g, radius) / alpha,
                count=state.count,
            )
        )

    def skip(state):
        d, n = state.old.shape
        return update(state, jnp.zeros(d, state.old.dtype), jnp.zeros(n, state.xs.dtype), state.reg)

    return OnlineOptimizer(init, params, lambda state: state.reg, update, skip, scores)


class _WithArriving(NamedTuple):
    """Products of Theta and GO, <G_s, Theta>, <G_s, GO> and ||G_s||^2."""

    products: Products
    g_old: Array
    g_recent: Array
    sq_g: Array


def _with_arriving(state, g_recent, arriving):
    """The products when G_s = `arriving`, (r, x), has come to the recent; `g_recent` before it."""
    residual, x = arriving
    old, recent, cross = state.products
    g_old = jnp.sum(residual * (state.old @ x))
    sq_g = jnp.sum(residual * residual) * jnp.sum(x * x)
    products = Products(old, jnp.maximum(recent + 2 * g_recent + sq_g, 0.0), cross + g_old)
    return _WithArriving(products, g_old, g_recent + sq_g, sq_g)


def _leaving(with_g, l_old, l_recent, sq_l):
    """The products when the gradient L goes from GO to Theta: <L, Theta>, <L, GO>, ||L||^2."""
    old, recent, cross = with_g.products
    return Products(
        jnp.maximum(old + 2 * l_old + sq_l, 0.0),
        jnp.maximum(recent - 2 * l_recent + sq_l, 0.0),
        cross - l_old + l_recent - sq_l,
    )


def _anew(state):
    """The state after one more answer, its products computed from the sums every EXACTLY times."""
    count = state.count + 1

    def of_sums():
        sq_old = jnp.sum(state.old * state.old)
        if not state.recent.size:
            return Products(sq_old, jnp.zeros_like(sq_old), jnp.zeros_like(sq_old))
        cross = jnp.sum(state.old * state.recent)
        return Products(sq_old, jnp.sum(state.recent * state.recent), cross)

    products = jax.lax.cond(count % EXACTLY == 0, of_sums, lambda: state.products)
    return state._replace(products=products, count=count)


def _factor(reg, sq_norm, radius):
    """Returns c with -c V = argmin over the ball of reg ||W||^2 / 2 + <V, W>; 0 for V = 0."""
    tiny = jnp.finfo(sq_norm.dtype).tiny
    at_edge = radius / jnp.maximum(jnp.sqrt(sq_norm), tiny)
    inside = 1 / jnp.where(reg > 0, reg, 1.0)
    c = jnp.where(reg > 0, jnp.minimum(inside, at_edge), at_edge)
    return jnp.where(sq_norm > 0, c, 0.0)


def _delta(reg, products, g_old, g_recent, sq_g, radius):
    """Returns delta_s >= 0, from lambda_s and the products of Theta_s, GO_s and G_s."""
    oo, rr, cross = products
    tiny = jnp.finfo(oo.dtype).tiny
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
