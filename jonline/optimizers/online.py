"""Online optimizers: how a linear model W moves on the gradients it is given.

A gradient is the outer product r x^T of a residual r (d,) and the features x (n,) of the round it
belongs to, and is handed over in these two parts: its norm is ||r|| ||x||, and one that has to be
kept is d + n numbers.

Symbols: W the model (d, n), G = r x^T the gradient, B the diameter of the domain, eta step size.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jonline import checks
from jonline.core import Array
from jonline.oracles import where_observed

_LARGE = 1 << 15  # numbers of a model that no first cache holds

OptState = Any
Stamp = Any


class OnlineOptimizer(NamedTuple):
    """An optimizer of a linear model as pure functions.

    Attributes:
      init: `(W) -> state`.
      params: `(state) -> W`, the model to play in the round that begins.
      stamp: `(state) -> stamp`, what `update` will need of this state when the answer comes.
      update: `(state, residual, x, stamp) -> state`, once for every answer; residual (d,) and x
        (n,) are of the round that was asked, and so is the stamp.
      skip: `(state) -> state` for an answer without a value, in an optimizer that counts answers to
        know the round (and so needs each of them); None leaves the state as it is.
      scores: `(state, x) -> W x`, (d,), where it takes less than to make W first; None for W.
    """

    init: Callable[[Array], OptState]
    params: Callable[[OptState], Array]
    stamp: Callable[[OptState], Stamp]
    update: Callable[[OptState, Array, Array, Stamp], OptState]
    skip: Callable[[OptState], OptState] | None = None
    scores: Callable[[OptState, Array], Array] | None = None


def receive(
    optimizer: OnlineOptimizer, state: OptState, residual: Array, x: Array, stamp: Stamp, seen: Any
) -> OptState:
    """Returns the state after an answer, which is skipped unless `seen`, bool ()."""
    skipped = state if optimizer.skip is None else optimizer.skip(state)
    return where_observed(seen, optimizer.update(state, residual, x, stamp), skipped)


def declare(optimizer: OnlineOptimizer, update: Callable) -> None:
    """Lets a learner's `update` say that its optimizer needs every answer, if so it is."""
    if optimizer.skip is not None:
        reason = "its optimizer (bold, odaftrl) counts answers to know the round"
        vars(update).update(needs_every_answer=reason)


class OgdState(NamedTuple):
    """State of `adaptive_ogd`: the model W (d, n) and the sum of the squared gradient norms."""

    params: Array
    sq_sum: Array


def adaptive_ogd(
    diameter: float | Array, *, project: bool = False, offset: float | Array = 0.0
) -> OnlineOptimizer:
    """Online gradient descent with a step size that adapts to the gradients.

        eta_t = B / sqrt(2 (offset + sum_{i<=t} ||G_i||^2)),   W <- Pi(W - eta_t G_t)

    with Pi the projection on the ball of radius B/2 around 0, or none. There is no step while the
    sum is 0. With the projection, the regret against any W in the ball is at most
    sqrt(2) B sqrt(offset + sum ||G||^2).

    Args:
      diameter: B > 0.
      project: whether W is kept in the ball of diameter B, static.
      offset: >= 0; the experiments of the paper have 1e-8.

    Returns:
      An OnlineOptimizer with state `OgdState`.

    Raises:
      TypeError, ValueError: if a concrete argument is out of range.

    Source: arXiv:2502.18709, section 3.2 and appendix H.
    """
    diameter = checks.positive("diameter", diameter)
    offset = checks.non_negative("offset", offset)
    project = checks.flag("project", project)

    def update(state, residual, x, stamp):
        del stamp
        sq_sum = state.sq_sum + jnp.sum(residual * residual) * jnp.sum(x * x)
        params = descend(state.params, residual, x, diameter, sq_sum, offset, project=project)
        return OgdState(params, sq_sum)

    return OnlineOptimizer(
        init=lambda params: OgdState(params, jnp.zeros((), params.dtype)),
        params=lambda state: state.params,
        stamp=lambda state: (),
        update=update,
    )


def descend(
    params: Array,
    residual: Array,
    x: Array,
    diameter: float | Array,
    sq_sum: Array,
    offset: float | Array,
    *,
    project: bool,
) -> Array:
    """Returns Pi(W - eta r x^T), eta = B / sqrt(2 (offset + sq_sum)), eta = 0 for sq_sum = 0."""
    root = jnp.sqrt(2 * (offset + sq_sum))
    eta = jnp.where(sq_sum > 0, diameter / jnp.maximum(root, jnp.finfo(root.dtype).tiny), 0.0)
    params = plus_outer(params, -eta * residual, x)
    return project_ball(params, diameter / 2) if project else params


def plus_outer(params: Array, residual: Array, x: Array) -> Array:
    """Returns W + r x^T; where r = 0 a large W is left alone, which saves a pass over it.

    Estimates from one bit are 0 in most rounds while the learner is often wrong. For a W that the
    first cache holds a branch costs as much as it saves.
    """

    def stepped():
        return params + residual[:, None] * x[None]

    if params.size < _LARGE:
        return stepped()
    return jax.lax.cond(jnp.any(residual != 0), stepped, lambda: params)


def project_ball(params: Array, radius: float | Array) -> Array:
    """Returns the point of the ball ||W||_F <= radius next to `params`."""
    params, radius = checks.elementwise(params=params, radius=radius)
    params = jnp.asarray(params, jnp.result_type(params, float))
    norm = jnp.sqrt(jnp.sum(params * params))
    return params * jnp.minimum(1.0, radius / jnp.maximum(norm, jnp.finfo(norm.dtype).tiny))


class OptaxState(NamedTuple):
    """State of `from_optax`: the model W (d, n) and the transformation's own state."""

    params: Array
    inner: Any


def from_optax(
    tx: optax.GradientTransformation, project: Callable[[Array], Array] | None = None
) -> OnlineOptimizer:
    """Any optax optimizer, with a projection after each step.

    Args:
      tx: e.g. `optax.sgd(0.1)`; its hyperparameters may be traced.
      project: `(W) -> W`, e.g. `partial(project_ball, radius=5.0)`; None for none.

    Returns:
      An OnlineOptimizer with state `OptaxState`.

    Raises:
      TypeError: if `tx` is no gradient transformation, or `project` no function.
    """
    checks.kind("tx", tx, optax.GradientTransformation)
    if project is not None:
        checks.function("project", project, "(W) -> W")

    def init(params):
        inner = jax.tree.map(jnp.asarray, tx.init(params))
        return OptaxState(params, inner)

    def update(state, residual, x, stamp):
        del stamp
        gradient = residual[:, None] * x[None]
        with jax.numpy_dtype_promotion("standard"):  # optax's own code counts on it
            updates, inner = tx.update(gradient, state.inner, state.params)
            params = jnp.asarray(optax.apply_updates(state.params, updates))
        return OptaxState(params if project is None else project(params), inner)

    return OnlineOptimizer(init, lambda state: state.params, lambda state: (), update)
