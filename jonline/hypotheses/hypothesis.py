"""The contract of hypotheses: score functions f in a Hilbert space with reproducing kernel k.

The ordinal and the reject-option learners touch f only through the functions of a `Hypothesis`, so
one learner serves linear and kernel models alike.

Symbols: f the hypothesis, x the features (n,), k the kernel with <f, k(x, .)> = f(x).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from jonline.core import Array, ArrayTree

MOST = 2**31 - 1


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
