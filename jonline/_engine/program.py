"""A round of a whole block of lanes: its stages evaluated where they cost least, and the loop.

Lane u * num_points + p is seed u of the block with point p. What depends on the seed alone is
evaluated per seed and then repeated over the points.

A round is evaluated by `jax.vmap`, the numbers of all lanes side by side in memory; a wide one
(`stages`) lane after lane, a chunk of rounds at a time, so that what a lane carries stays in the
first cache and no lane is played that is not wanted. Which of the two is a property of the round
alone, so a run has one program whoever runs beside it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jonline._engine import jaxprs, primitives, programs, stages
from jonline._engine.exact import LANE_MULTIPLE, minus_zero
from jonline._engine.rounds import Carry
from jonline.core import Array, PRNGKey

CHUNK = 1024  # rounds drawn ahead at most
_CHUNK_BYTES = 1 << 19  # what is drawn ahead stays in the cache


class PreparedRound(NamedTuple):
    """A round in stages, with all that can be computed before the first round computed.

    Attributes:
      staged: the stages.
      shared: variable -> value, of what the round reads that is the same in all lanes.
      of_seeds: variable -> (seeds, ...).
      of_lanes: variable -> (lanes, ...).
      draw: `(rounds (C,)) -> list` of what is drawn for them, (seeds, C, ...) each.
      sides: seeds and points of the block.
      wanted: how many of each are played, where lanes are played one after another.
    """

    staged: stages.Stages
    shared: dict
    of_seeds: dict
    of_lanes: dict
    draw: Callable[[Array], list]
    sides: tuple[int, int]
    wanted: Any


class Staged(NamedTuple):
    """A round in stages.

    Attributes:
      stages: of the round.
      first_carry: closed jaxpr of what a lane carries before the first round.
      carry: its shapes.
    """

    stages: stages.Stages
    first_carry: Any
    carry: Carry


def stage(
    first_carry: Callable,
    one_round: Callable,
    data: Any,
    keys: PRNGKey,
    points: dict[str, Any],
    *,
    may_be_wide: bool = False,
) -> Staged:
    """Splits a round into stages, for blocks with the shapes of these.

    Args:
      first_carry: `(data, run_key, point) -> carry`, for one lane.
      one_round: `(data, run_key, t, point, carry) -> (carry, rest)`, for one lane.
      data: shared by all lanes.
      keys: (seeds,) run keys.
      points: (points,) each.
      may_be_wide: whether lanes may be played one after another.
    """
    data = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), data)
    key, point = _one(keys), jax.tree.map(_one, points)
    closed, tree = jaxprs.flat_jaxpr(first_carry, data, key, point)
    programs.check_effects(programs.names_of_effects(closed.jaxpr))
    leaves = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in closed.out_avals]
    carry = jax.tree.unflatten(tree, leaves)
    now = jax.ShapeDtypeStruct((), jnp.int32)
    same = stages.same_everywhere(closed.jaxpr, data, key, point)
    split = stages.split(
        one_round, data, key, now, point, carry, starts_equal=same, may_be_wide=may_be_wide
    )
    return Staged(split, closed, carry)


def ahead(staged: stages.Stages, data: Any, keys: PRNGKey, zero: Array) -> list[Array]:
    """Returns what a round reads of what depends on the seeds alone, (seeds, ...) each.

    `zero` is a traced 0.
    """
    shared = _shared(staged, data, minus_zero(zero < 0))

    def of_seed(key):
        env = jaxprs.evaluate(staged.seed.eqns, shared | {staged.inputs[1][0]: key})
        return [env[var] for var in staged.seed.residuals]

    return jax.vmap(of_seed)(keys)


def _shared(staged: stages.Stages, data: Any, zero: Array) -> dict:
    env = staged.constants | dict.fromkeys(staged.zeros, zero)
    env |= dict(zip(staged.inputs[0], jax.tree.leaves(data), strict=True))
    return jaxprs.evaluate(staged.shared.eqns, env)


def prepare(
    staged: stages.Stages,
    ahead: list[Array],
    data: Any,
    keys: PRNGKey,
    points: dict[str, Any],
    num_points: int,
    first: Array,
    wanted: Any,
) -> PreparedRound:
    """Evaluates the stages that come before the rounds.

    Args:
      staged: from `stage`.
      ahead: from `ahead`, of this block.
      data, keys, points: of this block.
      num_points: how many there are.
      first: a traced number >= 0.
      wanted: how many of the seeds and of the points are.
    """
    num_seeds = len(keys)
    sides = num_seeds, num_points
    _, of_key, of_time, of_point, _ = staged.inputs
    shared = _shared(staged, data, minus_zero(first < 0))
    of_seeds = dict(zip((*of_key, *staged.seed.residuals), (keys, *ahead), strict=True))
    of_lanes = {
        var: jnp.tile(axis, num_seeds)
        for var, axis in zip(of_point, jax.tree.leaves(points), strict=True)
    }
    if not staged.is_wide:
        lanes = jnp.arange(num_seeds * num_points, dtype=jnp.int32)
        of_lanes[staged.zeros.own] = minus_zero(first < -lanes)
    spread = {
        var: _to_lanes(value, num_points)
        for var, value in of_seeds.items()
        if var in staged.lane.inputs
    }

    def of_lane(values):
        env = jaxprs.evaluate(staged.lane.eqns, shared | values)
        return [env[var] for var in staged.lane.residuals]

    made = _mapped(of_lane, spread | of_lanes, num_seeds * num_points)
    of_lanes |= dict(zip(staged.lane.residuals, made, strict=True))

    def draw(rounds):
        def of_seed(values):
            def one(t):
                env = jaxprs.evaluate(staged.draw.eqns, shared | values | {of_time[0]: t})
                return [env[var] for var in staged.draw.residuals]

            return jax.vmap(one)(rounds)

        return _mapped(of_seed, of_seeds, num_seeds)

    read = {var: value for var, value in of_seeds.items() if var in staged.round.inputs}
    return PreparedRound(staged, shared, read, of_lanes, draw, sides, wanted)


def _mapped(function: Callable[[dict], Any], values: dict, size: int) -> Any:
    """Maps a function of a dictionary of variables over the leading axis, of `size`, of each."""

    def of_leaves(leaves):
        return function(dict(zip(values, leaves, strict=True)))

    return jax.vmap(of_leaves, axis_size=size)([*values.values()])


def _to_lanes(value: Array, num_points: int) -> Array:
    """Takes (seeds, ...) to (lanes, ...), the lanes side by side."""
    value = jnp.moveaxis(value, 0, -1)
    repeated = jnp.broadcast_to(value[..., None], (*value.shape, num_points))
    return jnp.moveaxis(repeated.reshape(*value.shape[:-1], -1), -1, 0)


def _one_round(prepared: PreparedRound, t: Array, of_lane: dict, drawn: list, carry: list) -> list:
    """Plays round t of one lane; returns the leaves of (carry, rest)."""
    staged = prepared.staged
    env = prepared.shared | of_lane | {staged.inputs[2][0]: t}
    env |= dict(zip(staged.draw.residuals, drawn, strict=True))
    env |= dict(zip(staged.inputs[4], carry, strict=True))
    env = jaxprs.evaluate(staged.round.eqns, env)
    return [jnp.asarray(jaxprs.read(env, var)) for var in staged.outs]


def zeros(prepared: PreparedRound) -> Any:
    """Returns zeros of the shapes of the rest of a round of one lane."""
    leaves = [jnp.zeros(var.aval.shape, var.aval.dtype) for var in prepared.staged.outs]
    return jax.tree.unflatten(prepared.staged.out_tree, leaves)[1]


def play(
    prepared: PreparedRound,
    begin: Array | int,
    end: Array | int,
    carry: list,
    rest: Any,
    fold: Callable[[Array, Any, Any], Any],
    most: int,
) -> tuple[list, Any]:
    """Plays rounds begin…end-1, drawing a chunk of them ahead.

    Args:
      prepared: the round.
      begin, end: 0-based.
      carry: leaves, (lanes, ...) each, as `to_rounds` returns them.
      rest: a pytree of arrays (lanes, ...).
      fold: `(t, rest, new) -> rest`, for one lane: takes in what round t returned.
      most: static, bounds end - begin where a bound is known; it keeps chunks short.

    Returns:
      The carry after the rounds, and the rest.
    """
    chunk = _rounds_of_a_chunk(prepared, most)
    leaves, tree = jax.tree.flatten(rest)

    def one(t, of_lane, drawn, carry, rest):
        of_lane = dict(zip((*prepared.of_lanes, *prepared.of_seeds), of_lane, strict=True))
        out = _one_round(prepared, t, of_lane, drawn, carry)
        new = jax.tree.unflatten(prepared.staged.out_tree, out)[1]
        return out[: len(carry)], jax.tree.leaves(fold(t, jax.tree.unflatten(tree, rest), new))

    of_a_chunk = _lane_after_lane if prepared.staged.is_wide else _side_by_side

    def one_chunk(c, values):
        t = begin + c * chunk
        drawn = prepared.draw(t + jnp.arange(chunk, dtype=jnp.int32))
        return of_a_chunk(prepared, one, t, jnp.minimum(chunk, end - t), drawn, values)

    values = carry, leaves
    carry, leaves = lax.fori_loop(0, -(-(end - begin) // chunk), one_chunk, values)
    return carry, jax.tree.unflatten(tree, leaves)


def _rounds_of_a_chunk(prepared: PreparedRound, most: int) -> int:
    drawn = jax.eval_shape(prepared.draw, jax.ShapeDtypeStruct((LANE_MULTIPLE,), jnp.int32))
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in drawn) // LANE_MULTIPLE
    if not prepared.staged.is_wide:
        size *= prepared.sides[1]
    chunk = max(min(CHUNK, most, _CHUNK_BYTES // max(size, 1)), 1)
    chunk = -(-most // -(-most // chunk))  # equal chunks
    return -(-chunk // LANE_MULTIPLE) * LANE_MULTIPLE


def _side_by_side(
    prepared: PreparedRound, one: Callable, t: Array, count: Array, drawn: list, values: Any
) -> Any:
    """Plays a chunk of rounds of all lanes at once."""
    num_points = prepared.sides[1]
    of_seeds = [_to_lanes(value, num_points) for value in prepared.of_seeds.values()]
    of_lanes = [*prepared.of_lanes.values(), *of_seeds]
    axes = [None if same else 0 for same in prepared.staged.uniform]
    of_all = jax.vmap(one, (None, 0, 0, axes, 0), (axes, 0))
    drawn = [_rounds_first(value, num_points) for value in drawn]

    def one_round(i, values):
        now = [jnp.moveaxis(lax.dynamic_index_in_dim(leaf, i, 0, False), -1, 0) for leaf in drawn]
        carry, rest = of_all(t + i, of_lanes, now, *_fastest(values))
        return _fastest((carry, rest))

    return lax.fori_loop(0, count, one_round, values)


def _rounds_first(drawn: Array, num_points: int) -> Array:
    """Takes (seeds, C, ...) to (C, ..., lanes)."""
    return jax.vmap(lambda value: jnp.moveaxis(_to_lanes(value, num_points), 0, -1), 1)(drawn)


def _fastest(values: Any) -> Any:
    carry, rest = values
    return [*map(primitives.with_lanes_fastest, carry)], [*map(primitives.with_lanes_fastest, rest)]


def _lane_after_lane(
    prepared: PreparedRound, one: Callable, t: Array, count: Array, drawn: list, values: Any
) -> Any:
    """Plays a chunk of rounds of each wanted lane."""
    num_points = prepared.sides[1]
    num_seeds_wanted, num_points_wanted = prepared.wanted

    def one_lane(i, values):
        seed = i // num_points_wanted
        lane = seed * num_points + i % num_points_wanted
        at = lambda leaf: lax.dynamic_index_in_dim(leaf, lane, 0, False)  # noqa: E731
        of_seed = lambda leaf: lax.dynamic_index_in_dim(leaf, seed, 0, False)  # noqa: E731
        of_lane = [*map(at, prepared.of_lanes.values()), *map(of_seed, prepared.of_seeds.values())]

        def one_round(j, mine):
            place = lambda leaf: leaf[seed, j]  # noqa: E731
            return one(t + j, of_lane, [*map(place, drawn)], *mine)

        mine = lax.fori_loop(0, count, one_round, jax.tree.map(at, values))
        put = lax.dynamic_update_index_in_dim
        return jax.tree.map(lambda leaf, new: put(leaf, new, lane, 0), values, mine)

    return lax.fori_loop(0, num_seeds_wanted * num_points_wanted, one_lane, values)


def put_row(rows: Array, row: Array, i: Array) -> Array:
    """Returns `rows` with number i replaced."""
    start = (i, *[jnp.zeros_like(i)] * row.ndim)
    return primitives.put(rows, row[None], *start)


def to_rounds(staged: stages.Stages, carry: Any) -> list:
    """Returns the leaves of a carry, lane axis last, as rounds want them: lanes first.

    Uniform ones have no lanes.
    """
    leaves = jax.tree.leaves(carry)
    return [
        leaf[..., 0] if same else jnp.moveaxis(leaf, -1, 0)
        for leaf, same in zip(leaves, staged.uniform, strict=True)
    ]


def to_carry(prepared: PreparedRound, leaves: list) -> Any:
    """Undoes `to_rounds`: the lane axis of every leaf is the last."""
    staged, num_lanes = prepared.staged, prepared.sides[0] * prepared.sides[1]
    whole = [
        jnp.broadcast_to(leaf[..., None], (*leaf.shape, num_lanes))
        if same
        else jnp.moveaxis(leaf, 0, -1)
        for leaf, same in zip(leaves, staged.uniform, strict=True)
    ]
    outs = [*whole, *staged.outs[len(whole) :]]
    return jax.tree.unflatten(staged.out_tree, outs)[0]


def _one(axis: Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(axis.shape[1:], axis.dtype)
