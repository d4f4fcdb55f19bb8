"""Hypotheses: score functions f in a Hilbert space with reproducing kernel k.

The ordinal and the reject-option learners touch f only through the functions of a `Hypothesis`, so
one learner serves linear and kernel models alike.

Symbols: f the hypothesis, x the features (n,), k the kernel with <f, k(x, .)> = f(x).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jonline import checks, kernels
from jonline.core import Array, ArrayTree
from jonline.kernels import Kernel

_MOST = 2**31 - 1


class Hypothesis(NamedTuple):
    """A model of the score f as pure functions.

    Attributes:
      init: `() -> f`, the zero function.
      value: `(f, x) -> f(x)`, a scalar.
      move: `(f, x, decay, coef) -> f - (decay f - coef k(x, .))`. The step is formed before it is
        taken from f: `(1 - decay) f` would lose the digits of a small decay, as 1/t late in a run.
      sq_norm: `f -> ||f||^2`.
      num_features: n, static.
      diagonal: `x -> k(x, x)`, the squared norm of k(x, .).
    """

    init: Callable[[], ArrayTree]
    value: Callable[[ArrayTree, Array], Array]
    move: Callable[[ArrayTree, Array, Any, Any], ArrayTree]
    sq_norm: Callable[[ArrayTree], Array]
    num_features: int
    diagonal: Callable[[Array], Array]


def linear(num_features: int) -> Hypothesis:
    """Linear scores f(x) = <w, x>; f is the weight vector w (n,), k(x, x') = <x, x'>.

    Args:
      num_features: n >= 1, static.

    Returns:
      A Hypothesis. Its functions of x raise ValueError at trace time unless x has shape (n,).

    Raises:
      TypeError, ValueError: if `num_features` is no Python int >= 1.
    """
    num_features = checks.at_least("num_features", num_features, 1, _MOST)

    def init():
        return jnp.zeros(num_features)

    def value(w, x):
        _check_features(x, num_features)
        return jnp.sum(w * x)

    def move(w, x, decay, coef):
        _check_features(x, num_features)
        return w - (decay * w - coef * x)

    def sq_norm(w):
        return jnp.sum(w * w)

    def diagonal(x):
        _check_features(x, num_features)
        return jnp.sum(x * x)

    return Hypothesis(init, value, move, sq_norm, num_features, diagonal)


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
    budget = checks.at_least("budget", budget, 1, _MOST)
    num_features = checks.at_least("num_features", num_features, 1, _MOST)
    keep_norm = checks.flag("keep_norm", keep_norm)
    checks.function("k", k, "(x, z) -> scalar")

    def between(x, z):
        _check_features(x, num_features)
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
        _check_features(x, num_features)
        rows = jax.vmap(between, (0, None))(f.points, x)
        held = jnp.arange(budget) < f.size  # a kernel need not be defined at an empty slot
        return jnp.sum(jnp.where(held, f.coefs * rows, 0.0))

    def move(f, x, decay, coef):
        _check_features(x, num_features)
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
    num_features = checks.at_least("num_features", num_features, 1, _MOST)
    degree = checks.at_least("degree", degree, 1)
    offset = checks.non_negative("offset", offset)
    if budget is not None:
        budget = checks.at_least("budget", budget, 1, _MOST)
    flat = linear(kernels.num_monomials(num_features, degree))

    def phi(x):
        _check_features(x, num_features)
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


def _check_features(x: Array, num_features: int) -> None:
    checks.vector("x", x, num_features)
