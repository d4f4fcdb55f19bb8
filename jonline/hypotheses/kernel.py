"""Hypotheses of a kernel, as a sum of terms. Symbols: as in `hypothesis`."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.core import Array
from jonline.hypotheses.hypothesis import MOST, Hypothesis
from jonline.kernels import Kernel


class Expansion(NamedTuple):
    """f = sum_i coefs[i] k(points[:, i], .), the newest moves of a sum that may have been longer.

    Only moves that have a coefficient are terms. They lie in slots 0…count - 1, in no order.

    Attributes:
      points: (n, budget); what lies behind the terms means nothing.
      coefs: (budget,), 0 behind the terms.
      places: (budget,) int32, of each term the number of its move, modulo the budget.
      slots: (budget,) int32, of each move the slot of its term; -1 if it has none.
      count: terms, int32.
      sq_norm: ||f||^2, or () where it is not kept.
      size: moves held, those too that have no term, int32.
      dropped: moves dropped so far, the oldest first, int32.
    """

    points: Array
    coefs: Array
    places: Array
    slots: Array
    count: Array
    sq_norm: Any
    size: Array
    dropped: Array


def kernel(k: Kernel, budget: int, num_features: int, *, keep_norm: bool = True) -> Hypothesis:
    """Kernel scores f(x) = sum_i c_i k(x_i, x) over the last `budget` moves.

    Every move counts, also one with coefficient 0, so the sum goes over rounds; beyond the budget
    the oldest is dropped. It takes time for the moves that have a coefficient. The norm is kept by
        h <- (1 - decay)^2 h + 2 (1 - decay) coef f(x) + coef^2 k(x, x),
    and for a dropped term c_j k(x_j, .) by h <- h - 2 c_j f(x_j) + c_j^2 k(x_j, x_j).

    Args:
      k: `(x, z) -> scalar`, e.g. from `jonline.kernels`.
      budget: most terms held, >= 1, static. One that no run exceeds drops nothing.
      num_features: n >= 1, static.
      keep_norm: keep ||f||^2, as clipping needs it; it takes a second pass over the terms in a
        round in which one is dropped.

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

    lengths = _lengths(budget)

    def init():
        return Expansion(
            points=jnp.zeros((num_features, budget)),
            coefs=jnp.zeros(budget),
            places=jnp.zeros(budget, jnp.int32),
            slots=jnp.full(budget, -1, jnp.int32),
            count=jnp.zeros((), jnp.int32),
            sq_norm=jnp.zeros(()) if keep_norm else (),
            size=jnp.zeros((), jnp.int32),
            dropped=jnp.zeros((), jnp.int32),
        )

    def value(f, x):
        checks.vector("x", x, num_features)

        def of_first(length):
            rows = jax.vmap(between, (1, None))(f.points[:, :length], x)
            held = jnp.arange(length) < f.count  # a kernel need not be defined at an empty slot
            return jnp.sum(jnp.where(held, f.coefs[:length] * rows, 0.0))

        if len(lengths) == 1:
            return of_first(budget)
        which = jnp.sum(f.count > np.asarray(lengths[:-1], np.int32), dtype=jnp.int32)
        return jax.lax.switch(which, [functools.partial(of_first, n) for n in lengths])

    def move(f, x, decay, coef):
        checks.vector("x", x, num_features)
        place, is_full = (f.size + f.dropped) % budget, f.size == budget
        slot = _at(f.slots, place)
        drops = is_full & (slot >= 0)
        slot, last = jnp.maximum(slot, 0), jnp.maximum(f.count - 1, 0)
        coef = jnp.asarray(coef, f.coefs.dtype)
        coefs = f.coefs - decay * f.coefs
        sq_norm = ()
        if keep_norm:
            old, old_coef = _at(f.points, slot), _at(coefs, slot)
            at_old = jax.lax.cond(drops, lambda: value(f, old), lambda: jnp.zeros(()))
            at_old = (1 - decay) * at_old + coef * between(x, old)
            taken = old_coef * (2 * at_old - old_coef * between(old, old))
            sq_norm = f.sq_norm - decay * (2 - decay) * f.sq_norm
            sq_norm = sq_norm + coef * (2 * (1 - decay) * value(f, x) + coef * between(x, x))
            sq_norm = jnp.maximum(sq_norm - jnp.where(drops, taken, 0.0), 0.0)
        # The last term takes the slot of the one that is dropped, and the new one comes last. What
        # is written where nothing is dropped, or added, lies behind the terms.
        count = f.count - drops.astype(jnp.int32)
        hole, last_place = jnp.where(drops, slot, count), _at(f.places, last)
        slots = _put(f.slots, jnp.where(drops, last_place, place), hole)
        adds = coef != 0
        return Expansion(
            points=_put(_put(f.points, hole, _at(f.points, last)), count, x),
            coefs=_put(_put(coefs, hole, _at(coefs, last)), count, jnp.where(adds, coef, 0.0)),
            places=_put(_put(f.places, hole, last_place), count, place),
            slots=_put(slots, place, jnp.where(adds, count, -1)),
            count=count + adds.astype(jnp.int32),
            sq_norm=sq_norm,
            size=jnp.minimum(f.size + 1, budget),
            dropped=f.dropped + is_full.astype(jnp.int32),
        )

    def sq_norm(f):
        if not keep_norm:
            raise ValueError("keep_norm must be True where the norm is needed (clipping, say)")
        return f.sq_norm

    return Hypothesis(init, value, move, sq_norm, num_features, lambda x: between(x, x))


def _lengths(budget: int) -> list[int]:
    """Numbers of terms that are looked at; each is one more branch to compile."""
    lengths = [256]
    while lengths[-1] < budget:
        lengths.append(4 * lengths[-1])
    return [*lengths[:-1], budget]


def _at(values: Array, slot: Array) -> Array:
    """Returns number `slot` of the last axis."""
    return jax.lax.dynamic_index_in_dim(values, slot, values.ndim - 1, False)


def _put(values: Array, slot: Array, new: Array) -> Array:
    """Returns values with number `slot` of the last axis replaced."""
    new = jnp.asarray(new, values.dtype)
    return jax.lax.dynamic_update_index_in_dim(values, new, slot, values.ndim - 1)
