"""The engine: rounds in windows, for a block of lanes, as compiled programs.

A *lane* is one run: a point of the grid with a seed. A *block* is a rectangle of seeds x points;
all its lanes run in one program whose width is a multiple of 16, so that a lane's bits do not
depend on where it stands or on who runs beside it. `advance` plays windows first…last-1 of a block
and returns their sums; its bounds are traced, so a run that is whole, in pieces or resumed is the
same executable with other integers.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

from jonline._engine import program, programs, rounds, windows
from jonline._engine.rounds import Carry, RoundRecord
from jonline._engine.windows import Windows
from jonline.core import Array, ArrayTree, Make, Metrics, PRNGKey

ENDLESS = 2**31 - 1


class Plan(NamedTuple):
    """What is static in the programs of a block.

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


class Inputs(NamedTuple):
    """What all calls of a block read.

    Attributes:
      data: the data set, a pytree of arrays.
      keys: (seeds,) run keys.
      points: name -> (points,); seeds x points is a multiple of `LANE_MULTIPLE`.
      wanted: (2,) int32, how many of the seeds and of the points are; None for all. The others may
        not be played.
    """

    data: Any
    keys: PRNGKey
    points: dict[str, Any]
    wanted: Any = None


class Running(NamedTuple):
    """A block between two calls.

    Attributes:
      inputs: what all calls read.
      ahead: what depends on the seeds alone, a stream's permutation, say: made once.
      carry: of all lanes, every leaf with the lane axis last.
    """

    inputs: Inputs
    ahead: list[Array]
    carry: Carry


class Built(NamedTuple):
    """The compiled programs of all blocks of a shape on a device.

    Attributes:
      start: `(inputs, 0) -> (carry, ahead)`.
      advance: `(inputs, ahead, carry, first, last) -> (carry, windows)`.
      out: shapes and dtypes of what `advance` returns.
    """

    start: Callable
    advance: Callable
    out: tuple[Carry, Windows]


def build(plan: Plan, inputs: Inputs) -> Built:
    """Compiles what blocks like that of `inputs` need, on the device that holds these.

    Raises:
      TypeError: if a round has effects, such as printing; or what `make` and `metrics` raise.
    """
    staged = stage_round(plan, inputs)
    programs.check_effects(staged.stages.effects)
    start = _compiled_start(plan, staged, inputs)
    measured = jax.tree.unflatten(staged.stages.out_tree, staged.stages.outs)[1]
    rows = (plan.capacity, plan.num_points * len(inputs.keys))
    dtypes = {name: var.aval.dtype for name, var in measured.items()}
    out = start.out[0], windows.shapes(dtypes, rows)
    advance = programs.compiled(
        lambda *args: _advance(plan, staged.stages, *args),
        inputs, start.out[1], start.out[0], np.int32(0), np.int32(0),
        donate=(2,),
        origin=_origin("advance", plan, staged, out),
    )  # fmt: skip
    return Built(start.call, advance.call, out)


def stage_round(plan: Plan, inputs: Inputs) -> program.Staged:
    """Returns a round of a block in stages: what `build` compiles."""
    return _staged(plan, inputs, _measured(plan))


def _staged(plan: Plan, inputs: Inputs, one_round: Callable) -> program.Staged:
    is_cpu = all(device.platform == "cpu" for device in inputs.keys.devices())
    return program.stage(_first_carry(plan), one_round, *inputs[:3], may_be_wide=is_cpu)


def _compiled_start(plan: Plan, staged: program.Staged, inputs: Inputs) -> programs.Program:
    num_seeds, num_lanes = len(inputs.keys), plan.num_points * len(inputs.keys)
    ahead = [
        jax.ShapeDtypeStruct((num_seeds, *var.aval.shape), var.aval.dtype)
        for var in staged.stages.seed.residuals
    ]
    carry = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((*leaf.shape, num_lanes), leaf.dtype), staged.carry
    )
    return programs.compiled(
        lambda *args: _start(plan, staged, *args),
        inputs, np.int32(0),
        origin=_origin("start", plan, staged, (carry, ahead)),
    )  # fmt: skip


def _origin(name: str, plan: Plan, staged: program.Staged, out: Any) -> programs.Origin:
    numbers = plan._replace(make=None, metrics=None)
    return programs.Origin(name, (staged.stages.jaxpr, staged.first_carry), numbers, out)


def start_block(built: Built, inputs: Inputs) -> Running:
    """Returns a block before round 0."""
    carry, ahead = built.start(inputs, np.int32(0))
    return Running(inputs, ahead, carry)


def advance(built: Built, block: Running, first: int, last: int) -> tuple[Running, Windows]:
    """Plays windows first…last-1 of a block.

    Args:
      built: from `build`, for blocks of its shape on its device.
      block: from `start_block` or an earlier call; the memory of its carry is given away.
      first, last: window numbers, last - first <= plan.capacity.

    Returns:
      The block after window last-1, and what it measured, in the first last - first rows.
    """
    carry, measured = built.advance(*block, np.int32(first), np.int32(last))
    return block._replace(carry=carry), measured


def stretch(
    plan: Plan, inputs: Inputs, first: int, last: int, length: int
) -> Iterator[tuple[int, Carry, RoundRecord]]:
    """Plays rounds 0…first-1 unseen; yields rounds first…last-1, `length` at a time.

    Effects of a round, such as printing, are left out.

    Args:
      plan, inputs: as for `start_block`.
      first, last: 0-based rounds.
      length: static.

    Yields:
      The number of the first of the rounds, what the lanes carried before it, and what happened in
      all of them: leading axis rounds, last axis lanes.
    """
    staged = _staged(plan, inputs, _seen(plan))
    carry, ahead = _compiled_start(plan, staged, inputs).call(inputs, np.int32(0))
    args = inputs, ahead, carry, np.int32(0), np.int32(0), np.int32(0)
    call = programs.compiled(lambda *args: _stretch(plan, staged.stages, length, *args), *args).call
    after = 0
    for here in range(first, last, length):
        until = min(here + length, last)
        bounds = np.int32(after), np.int32(here), np.int32(until)
        before, carry, seen = call(inputs, ahead, carry, *bounds)
        yield here, before, jax.tree.map(lambda leaf, n=until - here: leaf[:n], seen)
        after = until


def plain_round(plan: Plan, inputs: Inputs) -> Callable[[int, Carry], None] | None:
    """Returns a function `(t, carry)` that has the effects of round t of lane 0, None without any.

    `carry` is that of all lanes before the round.
    """
    data, (key, point) = inputs.data, _first_lane(inputs)

    def one(t, carry):
        return rounds.play_round(plan.make(point, data), plan.metrics, key, t, carry)

    carry = jax.eval_shape(_first_carry(plan), data, key, point)
    if not jax.make_jaxpr(one)(jax.ShapeDtypeStruct((), jnp.int32), carry).effects:
        return None
    of_lane = jax.jit(lambda t, carry: one(t, jax.tree.map(lambda leaf: leaf[..., 0], carry)))

    def play(t: int, carry: Carry) -> None:
        jax.block_until_ready(of_lane(np.int32(t), carry))
        jax.effects_barrier()

    return play


def _start(plan, staged, inputs, zero):
    data, keys, points, _ = inputs
    tiled = {name: jnp.tile(axis, len(keys)) for name, axis in points.items()}

    def of_lane(data, key, point):
        leaves = jex.jaxpr_as_fun(staged.first_carry)(*jax.tree.leaves((data, key, point)))
        return jax.tree.unflatten(jax.tree.structure(staged.carry), leaves)

    of_lanes = jax.vmap(of_lane, (None, 0, 0), out_axes=-1)
    carry = of_lanes(data, jnp.repeat(keys, plan.num_points), tiled)
    return carry, program.ahead(staged.stages, data, keys, zero)


def _advance(plan, staged, inputs, ahead, carry, first, last):
    prepared = _prepared(plan, staged, inputs, ahead, first)
    start = windows.nothing(program.zeros(prepared))
    num_lanes = plan.num_points * len(inputs.keys)
    start = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, num_lanes), start)

    def window(w, value):
        carry, buffer = value
        begin, every = w * plan.record_every, plan.record_every
        carry, sums = program.play(
            prepared, begin, begin + every, carry, start, lambda t, *args: windows.add(*args), every
        )
        return carry, _put(buffer, windows.end(sums, program.to_carry(prepared, carry)), w - first)

    row = windows.end(start, carry)
    room = jax.tree.map(lambda leaf: jnp.zeros((plan.capacity, *leaf.shape), leaf.dtype), row)
    value = program.to_rounds(staged, carry), room
    carry, buffer = jax.lax.fori_loop(first, last, window, value)
    return program.to_carry(prepared, carry), buffer


def _stretch(plan, staged, length, inputs, ahead, carry, after, first, last):
    prepared = _prepared(plan, staged, inputs, ahead, after)
    carry = program.to_rounds(staged, carry)
    before, _ = program.play(
        prepared, after, first, carry, (), lambda t, rest, row: rest, program.CHUNK
    )
    lanes = plan.num_points * len(inputs.keys)
    room = jax.tree.map(
        lambda leaf: jnp.zeros((lanes, length, *leaf.shape), leaf.dtype), program.zeros(prepared)
    )
    carry, buffer = program.play(
        prepared, first, last, before, room, lambda t, rows, row: _put(rows, row, t - first), length
    )
    seen = jax.tree.map(lambda rows: jnp.moveaxis(rows, 0, -1), buffer)
    return program.to_carry(prepared, before), program.to_carry(prepared, carry), seen


def _prepared(plan, staged, inputs, ahead, first):
    data, keys, points, wanted = inputs
    wanted = (len(keys), plan.num_points) if wanted is None else wanted
    return program.prepare(staged, ahead, data, keys, points, plan.num_points, first, wanted)


def bytes_of_a_round(plan: Plan, inputs: Inputs) -> int:
    """Returns how many bytes a lane needs for each round that `stretch` yields; plays nothing."""

    def one(data, key, point):
        carry = _first_carry(plan)(data, key, point)
        return rounds.play_round(plan.make(point, data), plan.metrics, key, jnp.int32(0), carry)[2]

    return _bytes(jax.eval_shape(one, inputs.data, *_first_lane(inputs)))


def bytes_of_a_lane(plan: Plan, inputs: Inputs) -> int:
    """Returns the bytes that one lane carries from round to round; plays nothing."""
    return _bytes(jax.eval_shape(_first_carry(plan), inputs.data, *_first_lane(inputs)))


def program_text(plan: Plan, inputs: Inputs) -> str:
    """Returns a digest of what a run is, whatever its block: of its first round, lowered.

    What `make` and `metrics` close over is in it. Plays nothing.

    Raises:
      ValueError: if the round calls functions of the host, which nothing tells apart.
    """

    def one(data, key, point, t):
        carry = _first_carry(plan)(data, key, point)
        return carry, rounds.play_round(plan.make(point, data), plan.metrics, key, t, carry)[:2]

    traced = jax.jit(one).trace(inputs.data, *_first_lane(inputs), np.int32(0))
    return programs.text_of(traced)


def _measured(plan: Plan) -> Callable:
    def one_round(data, key, t, point, carry):
        new, measured, _ = rounds.play_round(plan.make(point, data), plan.metrics, key, t, carry)
        return new, windows.summands(measured)

    return one_round


def _seen(plan: Plan) -> Callable:
    def one_round(data, key, t, point, carry):
        new, _, seen = rounds.play_round(plan.make(point, data), plan.metrics, key, t, carry)
        return new, seen

    return one_round


def _first_lane(inputs: Inputs) -> tuple[PRNGKey, dict[str, Any]]:
    return inputs.keys[0], {name: axis[0] for name, axis in inputs.points.items()}


def _bytes(tree: ArrayTree) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _first_carry(plan: Plan) -> Callable:
    return lambda data, key, point: rounds.first_carry(plan.make(point, data), key, plan.horizon)


def _put(buffer: ArrayTree, row: ArrayTree, i: Array) -> ArrayTree:
    return jax.tree.map(lambda rows, leaf: program.put_row(rows, leaf, i), buffer, row)
