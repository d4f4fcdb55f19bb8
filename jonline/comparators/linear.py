"""The best fixed linear model in hindsight, and regret against it.

A second pass: `examples` brings back what a run of a sweep was shown, `best_linear` finds the model
U of least summed surrogate loss, and `surrogate_regret` compares with what the learner lost.

Symbols:
  S        convex surrogate loss (theta, y) -> scalar, theta = W x
  W, U     linear models (d, n); U the comparator
  F(W)     sum_t S(W x_t, y_t) over the rounds
  R        radius of the ball ||W||_F <= R
"""

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline._engine import block as engine
from jonline._engine import jaxprs as equations
from jonline._engine import program, programs, rounds
from jonline._sweep import arguments as door
from jonline._sweep.keys import one_key
from jonline.comparators import minimise as ball
from jonline.comparators.minimise import Comparator, Surrogate
from jonline.core import Example, PRNGKey, Stream

_MOST_BYTES = 1 << 33  # of examples


class Regret(NamedTuple):
    """Surrogate regret up to the end of each window, float64.

    The regret against the best model of the comparator's ball is larger than it by at most `gap`.

    Attributes:
      realised: (points, seeds, windows) sum of L(output; y) - sum of S(U x, y).
      expected: the same with E[L] over the learner's own draws; its noise is that of the examples
        and of what the learner heard before.
      comparator_loss: (windows,) or (seeds, windows), the sums of S(U x, y).
      gap: of the comparator, over all rounds.
    """

    realised: np.ndarray
    expected: np.ndarray
    comparator_loss: np.ndarray
    gap: np.ndarray


def examples(stream: Stream, key: PRNGKey | int, seed: int, num_rounds: int) -> Example:
    """Returns what a run was shown in rounds 0…num_rounds-1, to the bit as `jonline.trace` has it.

    It needs the memory of its result, num_rounds (n + d) numbers, and a copy of the data set that
    the stream reads.

    Args:
      stream: that of the run's environment.
      key: the root of the sweep, as `sweep` takes it.
      seed: which seed of the sweep, >= 0.
      num_rounds: T >= 1.

    Returns:
      An Example with leading axis T.

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind or out of range.
      RuntimeError: if `jax_disable_jit` is set.
    """
    door.check_compiles()
    checks.kind("stream", stream, Stream)
    num_rounds = checks.at_least("num_rounds", num_rounds, 1)
    checks.require(num_rounds < 2**31, "num_rounds", "be < 2^31", num_rounds)
    run_key = one_key(key, seed)
    row = jax.eval_shape(lambda k: stream.draw(stream.init(k), jnp.int32(0)), run_key[0])
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(row))
    rule = f"be <= {_MOST_BYTES // max(size, 1)} (a round has {size} bytes)"
    checks.require(num_rounds * size <= _MOST_BYTES, "num_rounds", rule, num_rounds)
    args = run_key, np.int32(0)
    examples = programs.compiled(lambda *args: _examples(stream, num_rounds, *args), *args)
    return examples.call(*args)


def _examples(stream, num_rounds, run_key, zero):
    """The engine's loop over rounds that draw an example and do nothing else."""

    def one_round(data, key, t, point, carry):
        source = stream.init(rounds.purpose_keys(key)["source"])
        return carry, equations.drawn(stream.draw(source, t))

    def begin(data, key, point):
        return rounds.Carry((), (), jnp.int32(0))

    lanes = {"lane": jnp.zeros(engine.WIDTH, jnp.int32)}
    staged = program.stage(begin, one_round, (), run_key, lanes).stages
    ahead = program.ahead(staged, (), run_key, zero)
    prepared = program.prepare(staged, ahead, (), run_key, lanes, engine.WIDTH, zero)
    carry = program.narrow(prepared, rounds.Carry((), (), lanes["lane"]))

    def one(t, buffer, drawn):
        _, example = program.play(prepared, drawn, t, carry)
        put = jax.lax.dynamic_update_index_in_dim
        return jax.tree.map(lambda rows, leaf: put(rows, leaf[..., 0], t, 0), buffer, example)

    row = program.zeros(prepared)
    room = jax.tree.map(lambda leaf: jnp.zeros((num_rounds, *leaf.shape[:-1]), leaf.dtype), row)
    return program.loop(prepared, 0, num_rounds, one, room, num_rounds)


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
        found = ball.search(surrogate, jnp.asarray(x), jnp.asarray(y), radius, tolerance, max_steps)
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
    _, record_every = door.check_rounds(len(x), record_every)
    params, shape = checks.numbers("params", params), (y.shape[1], x.shape[1])
    checks.require(params.shape == shape, "params", f"have shape {shape}", params.shape)
    with jax.enable_x64(True):
        args = x, y, params
        each = programs.compiled(lambda *args: ball.losses(surrogate, *args), *args).call(*args)
    return np.cumsum(np.asarray(each).reshape(-1, record_every).sum(axis=1))


def surrogate_regret(records: dict[str, Any], comparator_loss: Any, gap: Any) -> Regret:
    """Returns the regret of all runs of a sweep against fixed comparators, window by window.

    R_t = sum_{s<=t} L(output_s; y_s) - sum_{s<=t} S(U x_s, y_s), and its expectation.

    Args:
      records: of a `SweepResult` measured by `structured.losses`.
      comparator_loss: (windows,) from `loss_curve`, or (seeds, windows), one row for each seed: it
        must be of the examples of that seed.
      gap: () or (seeds,), of the comparators.

    Raises:
      ValueError: if a column is missing, or the shapes do not fit.

    Source: arXiv:2502.18709, section 2.1.
    """
    names = ("target_loss", "expected_target_loss")
    checks.columns("records", records, names, "structured.losses")
    realised, expected = (np.cumsum(records[name], axis=-1, dtype=np.float64) for name in names)
    curve = checks.numbers("comparator_loss", comparator_loss)
    gap = checks.numbers("gap", gap)
    shape = realised.shape
    checks.require(realised.ndim == 3, "records", "be (points, seeds, windows)", f"shape {shape}")
    seeds, windows = shape[1:]
    rule = f"have shape ({windows},) or ({seeds}, {windows})"
    fits = curve.shape in ((windows,), (seeds, windows))
    checks.require(fits, "comparator_loss", rule, curve.shape)
    rule = f"be one number >= 0, or one for each of the {seeds} seeds"
    checks.require(gap.shape in ((), (seeds,)) and np.all(gap >= 0), "gap", rule, gap)
    return Regret(realised - curve, expected - curve, curve, gap)


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
