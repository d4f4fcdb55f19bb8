"""Hypotheses of a kernel, as a sum of terms. Symbols: as in `hypothesis`."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jonline import checks
from jonline.core import Array
from jonline.hypotheses.hypothesis import MOST, Hypothesis
from jonline.kernels import Kernel


class Expansion(NamedTuple):
    """f = sum_i coefs[i] k(points[i], .), the newest terms of a sum that may have been longer.

    Attributes:
      points: (budget, n); a slot without a term has coefficient 0.
      coefs: (budget,).
      sq_norm: ||f||^2, or () where it is not kept.
      size: terms held, those too that a decay of 1 has made zero, int32.
      dropped: terms dropped so far, the oldest first, int32.
    """

    points: Array
    coefs: Array
    sq_norm: Any
    size: Array
    dropped: Array


def kernel(k: Kernel, budget: int, num_features: int, *, keep_norm: bool = True) -> Hypothesis:
    """Kernel scores f(x) = sum_i c_i k(x_i, x) over the last `budget` moves.

    Every move adds a term, also one with coefficient 0, so the sum goes over rounds; a term beyond
    the budget is dropped with the oldest first. The norm is kept by
        h <- (1 - decay)^2 h + 2 (1 - decay) coef f(x) + coef^2 k(x, x),
    and for a dropped term c_j k(x_j, .) by h <- h - 2 c_j f(x_j) + c_j^2 k(x_j, x_j).

    Args:
      k: `(x, z) -> scalar`, e.g. from `jonline.kernels`.
      budget: most terms held, >= 1, static. One that no run exceeds drops nothing.
      num_features: n >= 1, static.
      keep_norm: keep ||f||^2, as clipping needs it; it takes a second pass over the terms.

    Returns:
      A Hypothesis with state `Expansion`.

    Raises:
      TypeError, ValueError: if `budget` or `num_features` is no Python int >= 1; at trace time if x
        has another shape than (n,), or if the norm is asked for and not kept.

    Source: arXiv:2512.19550, section 6, with the truncation of Kivinen, Smola and Williamson 2004.
    """
    budget = checks.at_least("budget", budget, 1, MOST)
    num_features = checks.at_least("num_features", num_features, 1, MOST)
    keep_norm = checks.flag("keep_norm", keep_norm)
    checks.function("k", k, "(x, z) -> scalar")

    def between(x, z):
        checks.vector("x", x, num_features)
        result = k(x, z)
        if jnp.shape(result) != ():
            raise ValueError(f"k must return a scalar, got shape {jnp.shape(result)}")
        return result

    def init():
        return Expansion(
            points=jnp.zeros((budget, num_features)),
            coefs=jnp.zeros(budget),
            sq_norm=jnp.zeros(()) if keep_norm else (),
            size=jnp.zeros((), jnp.int32),
            dropped=jnp.zeros((), jnp.int32),
        )

    def value(f, x):
        checks.vector("x", x, num_features)
        rows = jax.vmap(between, (0, None))(f.points, x)
        held = jnp.arange(budget) < f.size  # a kernel need not be defined at an empty slot
        return jnp.sum(jnp.where(held, f.coefs * rows, 0.0))

    def move(f, x, decay, coef):
        checks.vector("x", x, num_features)
        slot, is_full = (f.size + f.dropped) % budget, f.size == budget
        old = jax.lax.dynamic_index_in_dim(f.points, slot, 0, False)
        coefs = f.coefs - decay * f.coefs
        old_coef = jax.lax.dynamic_index_in_dim(coefs, slot, 0, False)
        sq_norm = ()
        if keep_norm:
            sq_norm = f.sq_norm - decay * (2 - decay) * f.sq_norm
            sq_norm = sq_norm + coef * (2 * (1 - decay) * value(f, x) + coef * between(x, x))
            at_old = (1 - decay) * value(f, old) + coef * between(x, old)
            taken = old_coef * (2 * at_old - old_coef * between(old, old))
            sq_norm = jnp.maximum(sq_norm - jnp.where(is_full, taken, 0.0), 0.0)
        put = jax.lax.dynamic_update_index_in_dim
        return Expansion(
            points=put(f.points, x.astype(f.points.dtype), slot, 0),
            coefs=put(coefs, jnp.asarray(coef, coefs.dtype), slot, 0),
            sq_norm=sq_norm,
            size=jnp.minimum(f.size + 1, budget),
            dropped=f.dropped + is_full.astype(jnp.int32),
        )

    def sq_norm(f):
        if not keep_norm:
            raise ValueError("keep_norm must be True where the norm is needed (clipping, say)")
        return f.sq_norm

    return Hypothesis(init, value, move, sq_norm, num_features, lambda x: between(x, x))
