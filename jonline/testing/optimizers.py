"""Checks of online optimizers."""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jonline.optimizers import OnlineOptimizer
from jonline.testing.rules import has_own_dtypes, holds, rule

_ANSWERS = 12


def check_optimizer(
    optimizer: OnlineOptimizer, num_outputs: int = 3, num_features: int = 4
) -> None:
    """Raises AssertionError unless the optimizer keeps the rules of `OnlineOptimizer`.

    It is given the answers of some rounds, one at a time, each with the stamp of its round.

    Args:
      optimizer: the optimizer.
      num_outputs, num_features: shape (d, n) of the model that it moves.
    """
    rng = np.random.default_rng(0)
    residuals = rng.normal(size=(_ANSWERS, num_outputs))
    xs = rng.normal(size=(_ANSWERS, num_features))
    for dtype in (jnp.float32, jnp.float64):
        with jax.enable_x64(dtype == jnp.float64):
            answers = jnp.asarray(residuals, dtype), jnp.asarray(xs, dtype)
            _check(optimizer, jnp.zeros((num_outputs, num_features), dtype), *answers)


def _check(optimizer: OnlineOptimizer, start: Any, residuals: Any, xs: Any) -> None:
    with rule(
        "the state holds arrays, and `params` of it is a model like the one that init was given",
        "make arrays of Python numbers, e.g. jnp.zeros((), params.dtype)",
    ):
        state = optimizer.init(start)
        has_own_dtypes(state)
        chex.assert_trees_all_equal_shapes_and_dtypes(optimizer.params(state), start)

    def after(state, residual, x):
        return optimizer.update(state, residual, x, optimizer.stamp(state))

    with rule(
        "`update` keeps structure, shapes and dtypes of the state, also under jax_enable_x64",
        "the gradient is residual[:, None] * x, (d, n); take dtypes from params or the residual",
    ):
        new = after(state, residuals[0], xs[0])
        has_own_dtypes(new)
        chex.assert_trees_all_equal_shapes_and_dtypes(state, new)
    with rule(
        "the first answer does not move the model up its gradient",
        "the gradient is residual x^T: step against it",
    ):
        moved = optimizer.params(new) - optimizer.params(state)
        slope = float(jnp.sum(moved * residuals[0][:, None] * xs[0]))
        holds(slope <= 0, f"<W_1 - W_0, G> = {slope}")

    def run(residuals, xs):
        last, models = jax.lax.scan(
            lambda state, answer: (after(state, *answer), optimizer.params(state)),
            state,
            (residuals, xs),
        )
        return last, models

    with rule("models stay finite", "guard divisions: jnp.where on the operand too"):
        holds(np.isfinite(jax.jit(run)(residuals, xs)[1]).all(), f"within {_ANSWERS} answers")
    with rule(
        "an optimizer is a pure function: alone, compiled and in lanes it comes to the same models",
        "no global state; jnp.where for what depends on numbers",
    ):
        last, models = jax.jit(run)(residuals, xs)
        chex.assert_trees_all_close(models[1], optimizer.params(new), rtol=1e-4, atol=1e-6)
        lanes = jax.jit(jax.vmap(run))(jnp.stack([residuals] * 2), jnp.stack([xs] * 2))[1]
        chex.assert_trees_all_close(lanes, jnp.stack([models] * 2), rtol=1e-4, atol=1e-6)
    if optimizer.scores is not None:
        with rule("`scores` are those of the model", "return what params(state) @ x is"):
            scores, expected = optimizer.scores(last, xs[0]), optimizer.params(last) @ xs[0]
            chex.assert_trees_all_close(scores, expected, rtol=1e-4, atol=1e-5)
    if optimizer.skip is not None:
        with rule("`skip` keeps structure, shapes and dtypes of the state", "as `update`"):
            chex.assert_trees_all_equal_shapes_and_dtypes(last, optimizer.skip(last))
