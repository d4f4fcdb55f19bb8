"""Hypotheses of a polynomial kernel, as weights of monomials. Symbols: as in `hypothesis`."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jonline import checks, kernels
from jonline.core import Array
from jonline.hypotheses.hypothesis import MOST, Hypothesis
from jonline.hypotheses.linear import linear


class Polynomial(NamedTuple):
    """f(x) = <weights, phi(x)>, with what is needed to drop the oldest terms.

    Attributes:
      weights: (C(n + p, p),).
      points, coefs: (budget, n) and (budget,): the terms, each with the coefficient it began with,
        times `sign` at that time.
      shrunk: log of the product of all factors |1 - decay| since one of them was 0, float ().
      lost: what rounding took from that sum so far (Kahan), float ().
      sign: the sign of that product, float ().
      shrunk_at: (budget,) `shrunk` when the term was added.
      slot: where the next term goes, int32.
      size: terms that are in force, int32; a decay of 1 ends all of them.
      dropped: terms dropped so far, the oldest first, int32.
    """

    weights: Array
    points: Array
    coefs: Array
    shrunk: Array
    lost: Array
    sign: Array
    shrunk_at: Array
    slot: Array
    size: Array
    dropped: Array


def polynomial(
    num_features: int, *, degree: int, offset: float | Array = 1.0, budget: int | None = None
) -> Hypothesis:
    """Scores of the kernel (offset + <x, z>)^degree, held as weights of its monomials.

    The same function as `kernel(kernels.polynomial(degree, offset=offset), budget, n)`, at a cost
    that does not depend on the budget: to be preferred while there are not many more monomials,
    C(n + degree, degree), than terms. Up to rounding: a dropped term leaves some 1e-6 of itself, so
    where the kernel's sum is exactly 0 this one is not.

    Args:
      num_features: n >= 1, static.
      degree: >= 1, static.
      offset: >= 0.
      budget: most terms held, >= 1, static; None drops nothing and keeps no terms.

    Returns:
      A Hypothesis. Its state is the weights (C(n + p, p),), or with a budget `Polynomial`.

    Raises:
      TypeError, ValueError: if an argument is out of range; at trace time if x has another shape
        than (n,).

    Source: arXiv:2512.19550, section 6, as `kernel`; features by the multinomial theorem.
    """
    num_features = checks.at_least("num_features", num_features, 1, MOST)
    degree = checks.at_least("degree", degree, 1)
    offset = checks.non_negative("offset", offset)
    if budget is not None:
        budget = checks.at_least("budget", budget, 1, MOST)
    flat = linear(kernels.num_monomials(num_features, degree))

    def phi(x):
        checks.vector("x", x, num_features)
        return kernels.monomials(x, degree, offset=offset)

    def diagonal(x):
        return flat.diagonal(phi(x))

    if budget is None:
        return Hypothesis(
            init=flat.init,
            value=lambda w, x: flat.value(w, phi(x)),
            move=lambda w, x, decay, coef: flat.move(w, phi(x), decay, coef),
            sq_norm=flat.sq_norm,
            num_features=num_features,
            diagonal=diagonal,
        )

    def init():
        none = jnp.zeros((), jnp.int32)
        return Polynomial(
            weights=flat.init(),
            points=jnp.zeros((budget, num_features)),
            coefs=jnp.zeros(budget),
            shrunk=jnp.zeros(()),
            lost=jnp.zeros(()),
            sign=jnp.ones(()),
            shrunk_at=jnp.zeros(budget),
            slot=none,
            size=none,
            dropped=none,
        )

    def move(f, x, decay, coef):
        decay = jnp.asarray(decay, f.shrunk.dtype)
        ends = decay == 1
        large = jnp.log(jnp.where(ends, 1.0, jnp.abs(1 - decay)))
        factor = jnp.where(decay > 0.5, large, jnp.log1p(-jnp.minimum(decay, 0.5)))
        put_in = factor - f.lost
        shrunk = f.shrunk + put_in
        lost = jnp.where(ends, 0.0, (shrunk - f.shrunk) - put_in)
        shrunk = jnp.where(ends, 0.0, shrunk)
        sign = jnp.where(ends, 1.0, jnp.where(decay > 1, -f.sign, f.sign))
        size = jnp.where(ends, 0, f.size)
        is_full = size == budget
        old_x, old_coef, old_shrunk = (
            jax.lax.dynamic_index_in_dim(terms, f.slot, 0, False)
            for terms in (f.points, f.coefs, f.shrunk_at)
        )
        old = jnp.where(is_full, sign * old_coef * jnp.exp(shrunk - old_shrunk), 0.0)
        put = jax.lax.dynamic_update_index_in_dim
        return Polynomial(
            weights=flat.move(f.weights, phi(x), decay, coef) - old * phi(old_x),
            points=put(f.points, x.astype(f.points.dtype), f.slot, 0),
            coefs=put(f.coefs, jnp.asarray(sign * coef, f.coefs.dtype), f.slot, 0),
            shrunk=shrunk,
            lost=lost,
            sign=sign,
            shrunk_at=put(f.shrunk_at, shrunk, f.slot, 0),
            slot=(f.slot + 1) % budget,
            size=jnp.minimum(size + 1, budget),
            dropped=f.dropped + is_full.astype(jnp.int32),
        )

    return Hypothesis(
        init=init,
        value=lambda f, x: flat.value(f.weights, phi(x)),
        move=move,
        sq_norm=lambda f: flat.sq_norm(f.weights),
        num_features=num_features,
        diagonal=diagonal,
    )
