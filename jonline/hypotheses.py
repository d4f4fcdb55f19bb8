"""Hypotheses: score functions f in a Hilbert space with reproducing kernel k.

The ordinal and the reject-option learners touch f only through the functions of a `Hypothesis`, so
one learner serves linear and kernel models alike.

Symbols: f the hypothesis, x the features (n,), k the kernel with <f, k(x, .)> = f(x).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from jonline import checks
from jonline.core import Array, ArrayTree


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
    checks.at_least("num_features", num_features, 1)

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


def _check_features(x: Array, num_features: int) -> None:
    if jnp.shape(x) != (num_features,):
        raise ValueError(f"x must have shape ({num_features},), got {jnp.shape(x)}")
