"""The least of a sum of convex losses over a ball of linear models, in float64.

Symbols:
  S        convex surrogate loss (theta, y) -> scalar, theta = W x
  F(W)     sum_t S(W x_t, y_t) over the rounds
  R        radius of the ball ||W||_F <= R, infinite for none
  mu       multiplier of the ball: the best model in it minimises F(W) + (mu/2) ||W||^2
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jonline._engine import programs
from jonline.core import Array

Surrogate = Callable[[Array, Array], Array]

_BATCH = 1024  # rounds whose losses are evaluated together
_SHARE = 0.25  # of the tolerance, for the minimisation at a fixed multiplier
_MEMORY = 30  # steps that L-BFGS remembers; with few it is slow where features differ in scale


class Comparator(NamedTuple):
    """A fixed model in hindsight, and how far from the best it can be.

    Attributes:
      params: U (d, n) float64, in the ball.
      loss: F(U), the sum over the rounds.
      gap: F(U) - min F over the ball is in [0, gap].
      num_steps: steps of L-BFGS.
      converged: whether gap <= tolerance max(1, loss).
    """

    params: np.ndarray
    loss: float
    gap: float
    num_steps: int
    converged: bool


def search(
    surrogate: Surrogate,
    x: Array,
    y: Array,
    radius: float | None,
    tolerance: float,
    max_steps: int,
) -> Comparator:
    """Returns the best model of the ball, or the best found; must run under x64.

    Every minimisation starts where the one before came out. The multiplier is found by secants of
    log ||W(mu)|| in log mu, whose slope is in [-1, 0], within what is known to enclose it.

    Args:
      surrogate: S.
      x, y: (T, n) and (T, d).
      radius: R > 0, or None.
      tolerance: the search is over when gap <= tolerance max(1, F).
      max_steps: most steps of L-BFGS in all.
    """
    reach = np.float64(np.inf if radius is None else radius)
    params = jnp.zeros((y.shape[1], x.shape[1]))
    best = Comparator(np.array(params), np.inf, np.inf, 0, False)
    mu, low, high, before, num_steps = 0.0, 0.0, np.inf, None, 0
    tolerance = np.float64(tolerance)
    start = x, y, params, np.float64(mu), reach, tolerance, np.int64(max_steps)
    minimise = programs.compiled(partial(_minimise, surrogate), *start).call
    certify = programs.compiled(partial(_certify, surrogate), x, y, params, reach).call
    while True:
        limit = np.int64(max_steps - num_steps)
        params, count = minimise(x, y, params, np.float64(mu), reach, tolerance, limit)
        num_steps += max(int(count), 1)
        params, norm, loss, slope, gap = certify(x, y, params, reach)
        norm, loss, slope, gap = (float(number) for number in (norm, loss, slope, gap))
        converged = gap <= tolerance * max(1.0, loss)
        if gap < best.gap:
            best = Comparator(np.array(params), loss, gap, 0, converged)
        if converged or num_steps >= max_steps or not np.isfinite(norm * slope):
            return best._replace(num_steps=num_steps)
        if mu == 0:
            mu = slope / float(reach)  # exact once U is the best: then grad F = -mu U
            continue
        low, high = (mu, high) if norm > reach else (low, mu)
        here = np.log([mu, norm / reach])
        rate = -1.0 if before is None else np.clip(_rate(before, here), -1.0, -0.1)
        before, mu = here, float(np.exp(here[0] - here[1] / rate))
        if not low < mu < high:
            mu = float(np.sqrt(low * high))


def _rate(before: np.ndarray, here: np.ndarray) -> float:
    across, up = here - before
    return up / across if across else -1.0


def losses(surrogate, x, y, params):
    """Returns the loss of each round, (T,), for x (T, n), y (T, d) and params (d, n)."""

    def one(row):
        features, label = (value.astype(params.dtype) for value in row)
        loss = surrogate(params @ features, label)
        if jnp.shape(loss) != ():
            raise ValueError(f"surrogate must return a scalar, got shape {jnp.shape(loss)}")
        return loss

    return jax.lax.map(jax.checkpoint(one), (x, y), batch_size=_BATCH)


def _sum(surrogate, x, y, params):
    return jnp.sum(losses(surrogate, x, y, params))


def _minimise(surrogate, x, y, params, mu, radius, tolerance, max_steps):
    """Minimises F(W) + (mu/2) ||W||^2 from `params` on; without mu, until it is out of 2 R."""

    def objective(params):
        return _sum(surrogate, x, y, params) + mu / 2 * jnp.sum(params * params)

    optimizer = optax.lbfgs(memory_size=_MEMORY)
    value_and_grad = optax.value_and_grad_from_state(objective)

    def go_on(loop):
        params, value, gradient, _, count = loop
        norm = optax.tree.norm(params)
        slack = (_radius(radius, norm) + norm) * optax.tree.norm(gradient)
        is_rough = slack > _SHARE * tolerance * jnp.maximum(1.0, value)
        return is_rough & ((mu > 0) | (norm <= 2 * radius)) & (count < max_steps)

    def step(loop):
        params, value, gradient, state, count = loop
        with jax.numpy_dtype_promotion("standard"):  # optax's own code counts on it
            updates, state = optimizer.update(
                gradient, state, params, value=value, grad=gradient, value_fn=objective
            )
            params = optax.apply_updates(params, updates)
        value, gradient = value_and_grad(params, state=state)
        return params, value, gradient, state, count + 1

    value, gradient = jax.value_and_grad(objective)(params)
    start = (params, value, gradient, optimizer.init(params), 0)
    params, _, _, _, count = jax.lax.while_loop(go_on, step, start)
    return params, count


def _certify(surrogate, x, y, params, radius):
    """Returns the model scaled into the ball, its norm before, its loss, ||grad F|| and gap."""
    norm = optax.tree.norm(params)
    inside = params * jnp.minimum(1.0, radius / jnp.maximum(norm, jnp.finfo(norm.dtype).tiny))
    loss, gradient = jax.value_and_grad(partial(_sum, surrogate, x, y))(inside)
    slope = optax.tree.norm(gradient)
    gap = jnp.sum(gradient * inside) + _radius(radius, norm) * slope
    return inside, norm, loss, slope, jnp.maximum(gap, 0.0)


def _radius(radius, norm):
    return jnp.where(jnp.isinf(radius), jnp.maximum(1.0, 2 * norm), radius)
