"""A round of a whole block of lanes: its stages evaluated where they cost least, and the loop.

Lane u * num_points + p is seed u of the block with point p. What depends on the seed alone is
evaluated per seed and then repeated over the points.

Rounds are evaluated with the lane axis last (`lanes`), those that multiply a large matrix as
`lanes_first` says. Which of the two is a property of the round alone, so a run has one program
whoever runs beside it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jonline._engine import jaxprs, lanes, lanes_first, loops, programs, stages
from jonline._engine.loops import Lanes
from jonline._engine.rounds import Carry
from jonline.core import Array, PRNGKey

# Lanes of a block and rounds of a chunk are a multiple: full vectors of float32.
LANE_MULTIPLE = 16
CHUNK = 1024  # rounds drawn ahead at most
_CHUNK_BYTES = 1 << 19  # what is drawn ahead stays in the cache


class PreparedRound(NamedTuple):
    """A round in stages, with all that can be computed before the first round computed.

    Attributes:
      staged: the stages.
      env: what the round reads of earlier stages: variable -> shared value or Lanes.
      draw: `(rounds (C,)) -> list` of what is drawn for them, with lanes, (C, ...).
      context: how it is evaluated for many lanes.
    """

    staged: stages.Stages
    env: dict
    draw: Callable[[Array], list]
    context: loops.LaneContext


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
    first_carry: Callable, one_round: Callable, data: Any, keys: PRNGKey, points: dict[str, Any]
) -> Staged:
    """Splits a round into stages, for blocks with the shapes of these.

    Args:
      first_carry: `(data, run_key, point) -> carry`, for one lane.
      one_round: `(data, run_key, t, point, carry) -> (carry, rest)`, for one lane.
      data: shared by all lanes.
      keys: (seeds,) run keys.
      points: (points,) each.
    """
    data = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), data)
    key, point = _one(keys), jax.tree.map(_one, points)
    closed, tree = jaxprs.flat_jaxpr(first_carry, data, key, point)
    programs.check_effects(programs.names_of_effects(closed.jaxpr))
    leaves = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in closed.out_avals]
    carry = jax.tree.unflatten(tree, leaves)
    now = jax.ShapeDtypeStruct((), jnp.int32)
    same = stages.same_everywhere(closed.jaxpr, data, key, point)
    split = stages.split(one_round, data, key, now, point, carry, starts_equal=same)
    return Staged(split, closed, carry)


def ahead(staged: stages.Stages, data: Any, keys: PRNGKey, zero: Array) -> list[Array]:
    """Returns what a round reads of what depends on the seeds alone, (seeds, ...) each.

    `zero` is a traced 0.
    """
    shared = _shared(staged, data, _minus_zero(zero < 0))

    def of_seed(key):
        env = jaxprs.evaluate(staged.seed.eqns, shared | {staged.inputs[1][0]: key})
        return [env[var] for var in staged.seed.residuals]

    return jax.vmap(of_seed)(keys)


def _shared(staged: stages.Stages, data: Any, minus_zero: Array) -> dict:
    env = staged.constants | {staged.minus_zero: minus_zero}
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
) -> PreparedRound:
    """Evaluates the stages that come before the rounds.

    Args:
      staged: from `stage`.
      ahead: from `ahead`, of this block.
      data, keys, points: of this block.
      num_points: how many there are.
      first: a traced number >= 0.
    """
    num_seeds = len(keys)
    num_lanes = num_seeds * num_points
    _, of_key, of_time, of_point, _ = staged.inputs
    evaluate, lane_axis = lanes.evaluate, loops.last_axis
    if staged.lanes_first:
        evaluate, lane_axis = lanes_first.evaluate, lanes_first.lane_axis
    of_lanes = _minus_zero(first < -jnp.arange(num_lanes, dtype=jnp.int32))
    context = loops.LaneContext(num_lanes, _minus_zero(first < 0), of_lanes, evaluate, lane_axis)
    shared = _shared(staged, data, context.minus_zero)
    seed_vars = (*of_key, *staged.seed.residuals)
    seed_values = (keys, *ahead)

    def to_lanes(value):  # (seeds, ...) -> (..., lanes)
        value = jnp.moveaxis(value, 0, -1)
        repeated = jnp.broadcast_to(value[..., None], (*value.shape, num_points))
        return repeated.reshape(*value.shape[:-1], num_lanes)

    read_by_lanes = {*staged.lane.inputs, *staged.round.inputs}
    env = dict(shared)
    for var, value in zip(seed_vars, seed_values, strict=True):
        if var in read_by_lanes:
            env[var] = Lanes(to_lanes(value))
    for var, of_points in zip(of_point, jax.tree.leaves(points), strict=True):
        env[var] = Lanes(jnp.tile(of_points, num_seeds))
    env = lanes.evaluate(
        staged.lane.eqns, env, context._replace(evaluate=lanes.evaluate, lane_axis=loops.last_axis)
    )
    for var, value in env.items():
        if isinstance(value, Lanes):
            env[var] = Lanes(jnp.moveaxis(value.value, -1, lane_axis(var.aval)))

    def draw(rounds):
        def one(t, *values):
            env = shared | dict(zip(seed_vars, values, strict=True)) | {of_time[0]: t}
            env = jaxprs.evaluate(staged.draw.eqns, env)
            return [env[var] for var in staged.draw.residuals]

        fixed = [None] * len(seed_vars)
        of_rounds = jax.vmap(one, in_axes=(0, *fixed))
        of_seeds = jax.vmap(of_rounds, in_axes=(None, *(0 for _ in seed_vars)))
        drawn = of_seeds(rounds, *seed_values)  # (seeds, rounds, ...) each
        drawn = [jax.vmap(to_lanes)(jnp.moveaxis(value, 1, 0)) for value in drawn]
        return [
            value if lane_axis(var.aval) == -1 else jnp.moveaxis(value, -1, 1)
            for value, var in zip(drawn, staged.draw.residuals, strict=True)
        ]

    return PreparedRound(staged, env, draw, context)


def _minus_zero(never: Array) -> Array:
    """Returns -0.0, of which the compiler cannot know: it does not know what never happens."""
    sign = jnp.uint32(1 << 31) | never.astype(jnp.uint32)
    return jax.lax.bitcast_convert_type(sign, jnp.float32)


def evaluate_round(prepared: PreparedRound, drawn: list, t: Array, carry: Any) -> tuple[Any, Any]:
    """Evaluates round t of all lanes; returns (carry, rest).

    The carry is as `to_round` returns it, the rest has the lane axis last.
    """
    staged, context = prepared.staged, prepared.context
    env = prepared.env | dict(zip(staged.draw.residuals, map(Lanes, drawn), strict=True))
    env[staged.inputs[2][0]] = t
    of_example = jaxprs.evaluate(staged.example.eqns, env)
    env |= {var: loops.changing(of_example[var], context) for var in staged.example.residuals}
    env[staged.inputs[2][0]] = loops.Alike(t)
    for var, leaf, same in zip(
        staged.inputs[4], jax.tree.leaves(carry), staged.uniform, strict=True
    ):
        env[var] = loops.Alike(leaf) if same else Lanes(leaf)
    env = context.evaluate(staged.round.eqns, env, context)
    return jax.tree.unflatten(
        staged.out_tree, [_out(prepared, env, i) for i in range(len(staged.outs))]
    )


def _out(prepared: PreparedRound, env: dict, i: int) -> Array:
    staged, context = prepared.staged, prepared.context
    aval, value = staged.outs[i].aval, jaxprs.read(env, staged.outs[i])
    is_carry = i < len(staged.uniform)
    if is_carry and staged.uniform[i]:
        return loops.shared(value)
    value = loops.spread_at(value, aval, context).value
    return value if is_carry else jnp.moveaxis(value, context.lane_axis(aval), -1)


def to_round(prepared: PreparedRound, carry: Any) -> Any:
    """Returns a carry as rounds want it: uniform leaves once, others with their own lane axis."""
    leaves, tree = jax.tree.flatten(carry)
    staged = prepared.staged
    triples = zip(leaves, staged.uniform, staged.inputs[4], strict=True)
    return jax.tree.unflatten(
        tree,
        [
            leaf[..., 0] if same else jnp.moveaxis(leaf, -1, prepared.context.lane_axis(var.aval))
            for leaf, same, var in triples
        ],
    )


def to_carry(prepared: PreparedRound, carry: Any) -> Any:
    """Undoes `to_round`: the lane axis of every leaf is the last."""
    leaves, tree = jax.tree.flatten(carry)
    staged = prepared.staged
    triples = zip(leaves, staged.uniform, staged.inputs[4], strict=True)
    return jax.tree.unflatten(
        tree,
        [
            loops.spread(leaf, prepared.context.num_lanes).value
            if same
            else jnp.moveaxis(leaf, prepared.context.lane_axis(var.aval), -1)
            for leaf, same, var in triples
        ],
    )


def zeros(prepared: PreparedRound) -> Any:
    """Returns zeros of the shapes of the rest that `evaluate_round` returns."""
    avals = [var.aval for var in prepared.staged.outs]
    leaves = [jnp.zeros((*aval.shape, prepared.context.num_lanes), aval.dtype) for aval in avals]
    return jax.tree.unflatten(prepared.staged.out_tree, leaves)[1]


def loop(
    prepared: PreparedRound,
    begin: Array | int,
    end: Array | int,
    body: Callable[[Array, Any, list], Any],
    start: Any,
    most: int,
) -> Any:
    """Runs `value = body(t, value, drawn)` for rounds begin…end-1, drawing a chunk of them ahead.

    `most`, static, bounds end - begin where a bound is known; it keeps chunks short.
    """
    drawn = jax.eval_shape(prepared.draw, jax.ShapeDtypeStruct((LANE_MULTIPLE,), jnp.int32))
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in drawn) // LANE_MULTIPLE
    chunk = max(min(CHUNK, most, _CHUNK_BYTES // max(size, 1)), 1)
    chunk = -(-most // -(-most // chunk))  # equal chunks
    chunk = -(-chunk // LANE_MULTIPLE) * LANE_MULTIPLE

    def one_chunk(c, value):
        t = begin + c * chunk
        drawn = prepared.draw(t + jnp.arange(chunk, dtype=jnp.int32))

        def one(i, value):
            now = [jax.lax.dynamic_index_in_dim(leaf, i, 0, False) for leaf in drawn]
            return body(t + i, value, now)

        return jax.lax.fori_loop(0, jnp.minimum(chunk, end - t), one, value)

    return jax.lax.fori_loop(0, -(-(end - begin) // chunk), one_chunk, start)


def _one(axis: Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(axis.shape[1:], axis.dtype)
