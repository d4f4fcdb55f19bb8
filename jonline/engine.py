"""The engine: rounds in windows, for a block of lanes, as one compiled program.

A *lane* is one run: a point of the grid with a seed. A *block* is a rectangle of seeds x points;
all its lanes run in one program whose width is a multiple of 16, so that a lane's bits do not
depend on where it stands or on who runs beside it. `advance` plays windows first…last-1 of a block
and returns their sums; its bounds are traced, so a run that is whole, in pieces or resumed is the
same executable with other integers.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jonline import equations, program, rounds
from jonline.core import Array, ArrayTree, PRNGKey
from jonline.program import WIDTH
from jonline.rounds import Carry, Make, Metrics, Seen

ENDLESS = 2**31 - 1

# The first keeps bits: reduces and dots by XLA's own code, whatever their size. The second keeps
# time: no copy of a buffer that is read and written in one round.
COMPILER_OPTIONS = {
    "xla_cpu_experimental_ynn_fusion_type": "",
    "xla_cpu_copy_insertion_use_region_analysis": True,
}


__all__ = [
    "COMPILER_OPTIONS",
    "ENDLESS",
    "WIDTH",
    "Plan",
    "advance",
    "bytes_of_a_lane",
    "bytes_of_a_round",
    "start",
    "trace",
    "written_out",
]


class Plan(NamedTuple):
    """What is static in the program of a block.

    Attributes:
      make: `(point, data) -> (learner, environment)`.
      metrics: `(example, prediction, feedback, state) -> dict of scalars`.
      num_points: points of a block.
      record_every: rounds of a window.
      capacity: windows that one call can return.
      horizon: bound on the rounds of a run, `ENDLESS` unless a delay may be longer than the run.
    """

    make: Make
    metrics: Metrics
    num_points: int
    record_every: int
    capacity: int
    horizon: int


def start(plan: Plan, data: Any, keys: PRNGKey, points: dict[str, Any]) -> Carry:
    """Returns the carry of a block before round 0, every leaf with the lane axis last.

    Args:
      plan: static.
      data: the data set, a pytree of arrays.
      keys: (seeds,) run keys.
      points: name -> (points,); seeds x points is a multiple of `WIDTH`.
    """
    return _start(plan, data, keys, points)


def advance(
    plan: Plan,
    data: Any,
    keys: PRNGKey,
    points: dict[str, Any],
    carry: Carry,
    first: int,
    last: int,
) -> tuple[Carry, dict[str, Array]]:
    """Plays windows first…last-1 of a block.

    Args:
      plan: static.
      data, keys, points: as for `start`.
      carry: from `start` or an earlier call; its memory is given away.
      first, last: window numbers, last - first <= plan.capacity.

    Returns:
      The carry after window last-1, and the sums over each window, (capacity, lanes) each, of which
      the first last - first rows are filled: int32 for integers and booleans, else floating. The
      entry "" counts the non-finite numbers in the state at the end of each window.
    """
    return _advance(plan, data, keys, points, carry, jnp.int32(first), jnp.int32(last))


def trace(
    plan: Plan, length: int, data: Any, keys: PRNGKey, points: dict[str, Any], first: int
) -> Seen:
    """Plays rounds 0…first-1 unseen and returns all of the next `length` rounds.

    Args:
      plan: static.
      length: rounds to return, static.
      data, keys, points: as for `start`.
      first: 0-based number of the first round to return.

    Returns:
      What happened, leading axis `length`, last axis lanes.
    """
    carry = start(plan, data, keys, points)
    return _trace(plan, length, data, keys, points, carry, jnp.int32(first))


@partial(jax.jit, static_argnums=0, compiler_options=COMPILER_OPTIONS)
def _start(plan, data, keys, points):
    points = {name: jnp.tile(axis, len(keys)) for name, axis in points.items()}
    of_lanes = jax.vmap(_begin(plan), (None, 0, 0), out_axes=-1)
    return of_lanes(data, jnp.repeat(keys, plan.num_points), points)


@partial(jax.jit, static_argnums=0, donate_argnums=4, compiler_options=COMPILER_OPTIONS)
def _advance(plan, data, keys, points, carry, first, last):
    def one_round(data, key, t, point, carry):
        new, measured, _ = rounds.play(plan.make(point, data), plan.metrics, key, t, carry)
        return new, _summands(measured)

    prepared = program.prepare(_begin(plan), one_round, data, keys, points, carry, first)
    zeros = program.zeros(prepared)
    no_loss = {
        name: zero for name, zero in zeros.items() if jnp.issubdtype(zero.dtype, jnp.floating)
    }

    def one(t, value, drawn):
        carry, sums, lost = value
        carry, new = program.play(prepared, drawn, t, carry)
        return carry, *_add(sums, lost, new)

    def window(w, value):
        carry, buffer = value
        begin, every = w * plan.record_every, plan.record_every
        value = (carry, zeros, no_loss)
        carry, sums, _ = program.loop(prepared, begin, begin + every, one, value, every)
        bad = {"": _count_non_finite(program.widen(prepared, carry))}
        return carry, _put(buffer, sums | bad, w - first)

    buffer = _room(zeros | {"": _count_non_finite(carry)}, plan.capacity)
    value = (program.narrow(prepared, carry), buffer)
    carry, buffer = jax.lax.fori_loop(first, last, window, value)
    return program.widen(prepared, carry), buffer


@partial(jax.jit, static_argnums=(0, 1), compiler_options=COMPILER_OPTIONS)
def _trace(plan, length, data, keys, points, carry, first):
    def one_round(data, key, t, point, carry):
        new, _, seen = rounds.play(plan.make(point, data), plan.metrics, key, t, carry)
        return new, seen

    prepared = program.prepare(_begin(plan), one_round, data, keys, points, carry, first)
    zeros = program.zeros(prepared)

    def unseen(t, carry, drawn):
        return program.play(prepared, drawn, t, carry)[0]

    def seen(t, value, drawn):
        carry, buffer = value
        carry, row = program.play(prepared, drawn, t, carry)
        return carry, _put(buffer, row, t - first)

    carry = program.narrow(prepared, carry)
    carry = program.loop(prepared, 0, first, unseen, carry, program.CHUNK)
    value = (carry, _room(zeros, length))
    return program.loop(prepared, first, first + length, seen, value, length)[1]


def bytes_of_a_round(plan: Plan, data: Any, keys: PRNGKey, points: dict[str, Any]) -> int:
    """Returns how many bytes `trace` needs for each round that it returns; plays nothing.

    Args:
      plan, data, keys, points: as for `start`.
    """

    def one(data, key, point):
        carry = _begin(plan)(data, key, point)
        made = plan.make(point, data)
        return rounds.play(made, plan.metrics, key, jnp.int32(0), carry)[2]

    seen = jax.eval_shape(one, data, *_first_lane(keys, points))
    return _bytes(seen) * plan.num_points * len(keys)


def bytes_of_a_lane(plan: Plan, data: Any, keys: PRNGKey, points: dict[str, Any]) -> int:
    """Returns the bytes that one lane carries from round to round; plays nothing.

    Args:
      plan, data, keys, points: as for `start`.
    """
    return _bytes(jax.eval_shape(_begin(plan), data, *_first_lane(keys, points)))


def written_out(
    plan: Plan, data: Any, keys: PRNGKey, points: dict[str, Any]
) -> tuple[str, list[Any]]:
    """Returns the equations of a run as text, and the constants in them; plays nothing.

    What `make` and `metrics` close over is in one or the other.

    Args:
      plan, data, keys, points: as for `start`.
    """

    def one(data, key, point, t):
        carry = _begin(plan)(data, key, point)
        made = plan.make(point, data)
        return carry, rounds.play(made, plan.metrics, key, t, carry)[:2]

    closed = equations.inlined(one, data, *_first_lane(keys, points), jnp.int32(0))
    text = re.sub(r"0x[0-9a-f]+", "", str(closed.jaxpr))  # places in memory
    return text, list(closed.consts)


def _first_lane(keys: PRNGKey, points: dict[str, Any]) -> tuple[PRNGKey, dict[str, Any]]:
    return keys[0], {name: axis[0] for name, axis in points.items()}


def _bytes(tree: ArrayTree) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _begin(plan: Plan) -> Callable:
    return lambda data, key, point: rounds.begin(plan.make(point, data), key, plan.horizon)


def _room(row: ArrayTree, size: int) -> ArrayTree:
    return jax.tree.map(lambda leaf: jnp.zeros((size, *leaf.shape), leaf.dtype), row)


def _put(buffer: ArrayTree, row: ArrayTree, i: Array) -> ArrayTree:
    put = jax.lax.dynamic_update_index_in_dim
    return jax.tree.map(lambda rows, leaf: put(rows, leaf, i, 0), buffer, row)


def _add(sums: dict, lost: dict, new: dict) -> tuple[dict, dict]:
    """Adds `new` to the sums; `lost` holds what rounding took from the floating ones (Kahan)."""
    put = {name: value - lost[name] if name in lost else value for name, value in new.items()}
    after = {name: sums[name] + value for name, value in put.items()}
    return after, {name: (after[name] - sums[name]) - put[name] for name in lost}


def _summands(measured: Any) -> dict[str, Array]:
    if not isinstance(measured, dict):
        raise TypeError(f"metrics must return a dict of scalars, got {measured!r:.100}")
    return {name: _summand(name, value) for name, value in measured.items()}


def _summand(name: Any, value: Any) -> Array:
    if not isinstance(name, str) or not name:
        raise ValueError(f"names of metrics must be non-empty strings, got {name!r}")
    value = jnp.asarray(value)
    if value.shape != ():
        raise ValueError(f"metric {name!r} must be a scalar, got shape {value.shape}")
    if jnp.issubdtype(value.dtype, jnp.floating):
        return value.astype(jnp.zeros(()).dtype)
    if not (jnp.issubdtype(value.dtype, jnp.integer) or value.dtype == bool):
        raise TypeError(f"metric {name!r} must be a real number or a bool, got {value.dtype}")
    if value.dtype in (jnp.uint32, jnp.uint64):
        raise TypeError(
            f"metric {name!r} must fit into int32, got {value.dtype}; cast it to int32 or float"
        )
    return value.astype(jnp.int32)


def _count_non_finite(carry: Carry) -> Array:
    (num_lanes,) = carry.num_pending.shape
    leaves = jax.tree.leaves(carry.state)
    leaves = [leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    bad = [~jnp.isfinite(leaf).reshape(-1, num_lanes) for leaf in leaves]
    counts = [jnp.sum(part, axis=0, dtype=jnp.int32) for part in bad]
    return sum(counts, jnp.zeros(num_lanes, jnp.int32))
