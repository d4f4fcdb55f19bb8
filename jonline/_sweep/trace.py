"""What one run does, round by round: all of it, or the examples alone."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline._engine import block, primitives, program, programs, rounds
from jonline._engine.exact import LANE_MULTIPLE
from jonline._sweep import arguments, driver
from jonline._sweep.keys import one_key
from jonline.core import Example, Make, PRNGKey, Stream

_AT_ONCE = 1 << 28  # bytes of the rounds that a trace holds on the device
_MOST_BYTES = 1 << 33  # of examples


class Trace(NamedTuple):
    """Every round of a short stretch of one run, leading axis = rounds.

    Attributes:
      rounds: (n,) round numbers, 0-based.
      example, prediction, feedback: what nature showed, the learner chose, the oracle answered.
      state: the learner's state before the round's update.
      delivered: (n,) int32 answers delivered at the end of the round.
    """

    rounds: np.ndarray
    example: Any
    prediction: Any
    feedback: Any
    state: Any
    delivered: np.ndarray


def trace(
    make: Make,
    point: dict[str, Any],
    *,
    data: Any = None,
    key: PRNGKey | int,
    first: int,
    last: int,
    seed: int = 0,
) -> Trace:
    """Plays one run and returns everything that happened in rounds first…last-1.

    Args:
      make, point, data, key, seed: as for `run`.
      first, last: 0-based rounds, 0 <= first < last. Rounds before `first` are played unseen.
        Effects of the others, `jax.debug.print` for one, happen once in each; those that return
        values are refused.

    Returns:
      A Trace on the host, last - first rounds long.

    Raises:
      ValueError, TypeError: as `sweep`; also if the stretch needs too much memory.
    """
    arguments.check_compiles()
    checks.function("make", make, arguments.MAKE)
    first = checks.at_least("first", first, 0)
    last = checks.at_least("last", last, first + 1)
    checks.require(last < 2**31, "last", "be < 2^31", last)
    run_key = one_key(key, seed)
    labels, data = arguments.one_point(point), arguments.check_data(data)
    grid = arguments.on_device(labels)
    longest, _ = arguments.check_points(make, labels, data, last)
    horizon = last if longest > last else block.ENDLESS
    plan = block.Plan(make, _no_metrics, LANE_MULTIPLE, 1, 1, horizon)
    points = {name: np.repeat(axis, LANE_MULTIPLE) for name, axis in grid.items()}
    parts = []
    with arguments.explaining(make, grid, data):
        inputs = jax.device_put(block.Inputs(data, run_key, points, np.ones(2, np.int32)))
        row = block.bytes_of_a_round(plan, inputs)
        driver.check_stretch(last - first, row)
        effects = block.plain_round(plan, inputs)
        at_once = _AT_ONCE // (row * LANE_MULTIPLE + 1) if effects is None else 1
        length = max(1, min(at_once, last - first))
        for t, carry, seen in block.stretch(plan, inputs, first, last, length):
            if effects is not None:
                effects(t, carry)
            parts.append(jax.tree.map(lambda leaf: np.asarray(leaf[..., 0]), seen))
    seen = jax.tree.map(lambda *rows: np.concatenate(rows), *parts)
    return Trace(np.arange(first, last), *seen)


def _no_metrics(example, prediction, feedback, state):
    del example, prediction, feedback, state
    return {}


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
    arguments.check_compiles()
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
        return carry, primitives.drawn(stream.draw(source, t))

    def first_carry(data, key, point):
        return rounds.Carry((), (), jnp.int32(0))

    staged = program.stage(first_carry, one_round, (), run_key, {}).stages
    ahead = program.ahead(staged, (), run_key, zero)
    prepared = program.prepare(staged, ahead, (), run_key, {}, 1, zero, (1, 1))
    carry = program.to_rounds(staged, rounds.Carry((), (), jnp.zeros(1, jnp.int32)))

    def put(t, buffer, example):
        return jax.tree.map(lambda rows, row: program.put_row(rows, row, t), buffer, example)

    room = jax.tree.map(
        lambda leaf: jnp.zeros((1, num_rounds, *leaf.shape), leaf.dtype), program.zeros(prepared)
    )
    _, buffer = program.play(prepared, 0, num_rounds, carry, room, put, num_rounds)
    return jax.tree.map(lambda rows: rows[0], buffer)
