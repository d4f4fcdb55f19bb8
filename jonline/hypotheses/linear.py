"""Linear hypotheses. Symbols: as in `hypothesis`."""

import jax.numpy as jnp

from jonline import checks
from jonline.hypotheses.hypothesis import MOST, Hypothesis


def linear(num_features: int) -> Hypothesis:
    """Linear scores f(x) = <w, x>; f is the weight vector w (n,), k(x, x') = <x, x'>.

    Args:
      num_features: n >= 1, static.

    Returns:
      A Hypothesis. Its functions of x raise ValueError at trace time unless x has shape (n,).

    Raises:
      TypeError, ValueError: if `num_features` is no Python int >= 1.
    """
    num_features = checks.at_least("num_features", num_features, 1, MOST)

    def init():
        return jnp.zeros(num_features)

    def value(w, x):
        checks.vector("x", x, num_features)
        return jnp.sum(w * x)

    def move(w, x, decay, coef):
        checks.vector("x", x, num_features)
        return w - (decay * w - coef * x)

    def sq_norm(w):
        return jnp.sum(w * w)

    def diagonal(x):
        checks.vector("x", x, num_features)
        return jnp.sum(x * x)

    return Hypothesis(init, value, move, sq_norm, num_features, diagonal)
