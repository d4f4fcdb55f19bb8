"""The best fixed linear model in hindsight.

Symbols:
  S        convex surrogate loss (theta, y) -> scalar, theta = W x
  W, U     linear models (d, n); U the comparator
  F(W)     sum_t S(W x_t, y_t) over the rounds
  R        radius of the ball ||W||_F <= R
"""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline._engine import programs
from jonline._sweep import arguments
from jonline.comparators import minimise
from jonline.comparators.minimise import Comparator, Surrogate


def best_linear(
    surrogate: Surrogate,
    examples: Any,
    *,
    radius: float | None = None,
    tolerance: float = 1e-4,
    max_steps: int = 5000,
) -> Comparator:
    """Returns the linear model of least summed surrogate loss in a ball, with a bound on its gap.

    F is minimised by L-BFGS. If that leaves the ball, F(W) + (mu/2) ||W||^2 is, for the mu at which
    the minimiser lies on the sphere: a root of log ||W(mu)|| = log R in log mu, whose slope is in
    [-1, 0]. Whatever comes out is scaled into the ball, and by convexity

        F(U) - min F <= <grad F(U), U> + R ||grad F(U)|| = gap.

    Everything is computed in float64, a thousand rounds at a time; labels and features are kept as
    they are given. It runs on JAX's default device, which must have float64.

    Args:
      surrogate: S, `(theta, y) -> scalar`, convex in theta, e.g. `space.surrogate`.
      examples: (x, y) of all rounds, as `comparators.examples` returns them: x (T, n), y (T, d).
      radius: R > 0, or None for all models. Then the gap is with respect to the models of norm up
        to max(1, 2 ||U||); on data that some model separates there is no best one, and U is one
        that cannot be improved within that ball by more than the tolerance.
      tolerance: > 0: the search is over when gap <= tolerance max(1, F(U)).
      max_steps: most steps of L-BFGS in all, >= 1.

    Returns:
      A Comparator. A RuntimeWarning tells of one that is not within the tolerance.

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind or out of range, or a feature or
        label is not finite.
    """
    x, y = _checked(surrogate, examples)
    if radius is not None:
        radius = checks.positive("radius", radius, static=True)
    tolerance = checks.positive("tolerance", tolerance, static=True)
    max_steps = checks.at_least("max_steps", max_steps, 1)
    with jax.enable_x64(True):
        found = minimise.search(
            surrogate, jnp.asarray(x), jnp.asarray(y), radius, tolerance, max_steps
        )
    if not found.converged:
        warnings.warn(
            f"the comparator is not within its tolerance: gap={found.gap:.3g} after "
            f"{found.num_steps} steps, tolerance={tolerance} x max(1, loss={found.loss:.6g}); use "
            "a larger max_steps or tolerance, or report the gap",
            RuntimeWarning,
            stacklevel=2,
        )
    return found


def loss_curve(surrogate: Surrogate, params: Any, examples: Any, record_every: int) -> np.ndarray:
    """Returns the loss of a fixed model summed up to the end of each window, (windows,) float64.

    Args:
      surrogate, examples: as for `best_linear`.
      params: U (d, n).
      record_every: rounds of a window, as of the sweep to compare with; it divides T.

    Raises:
      TypeError, ValueError: as `best_linear`; also if the shapes do not fit.
    """
    x, y = _checked(surrogate, examples)
    _, record_every = arguments.check_rounds(len(x), record_every)
    params, shape = checks.numbers("params", params), (y.shape[1], x.shape[1])
    checks.require(params.shape == shape, "params", f"have shape {shape}", params.shape)
    with jax.enable_x64(True):
        args = x, y, params
        each = programs.compiled(lambda *args: minimise.losses(surrogate, *args), *args).call(*args)
    return np.cumsum(np.asarray(each).reshape(-1, record_every).sum(axis=1))


def _checked(surrogate: Any, examples: Any) -> tuple[Any, Any]:
    checks.function("surrogate", surrogate, "(theta, y) -> scalar")
    if not isinstance(examples, tuple) or len(examples) != 2:
        raise TypeError(f"examples must be (x, y), got {type(examples).__name__} {examples!r:.100}")
    x, y = (
        value if isinstance(value, jax.Array) else checks.array(name, value)
        for name, value in zip(("x", "y"), examples, strict=True)
    )
    for name, value in (("x", x), ("y", y)):
        checks.require(value.ndim == 2, name, "have two axes, rounds first", f"shape {value.shape}")
        if value.dtype.kind not in "biuf":
            raise TypeError(f"{name} must hold numbers, got {value.dtype}")
        checks.finite(name, np.asarray(value))
    checks.require(len(x) >= 1, "x", "have at least one row", f"shape {x.shape}")
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} rows and y {len(y)}; they must agree")
    return x, y
