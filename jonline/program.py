"""A round of a whole block of lanes: its stages evaluated where they cost least, and the loop.

Lane u * num_points + p is seed u of the block with point p. What hangs on the seed alone is
evaluated per seed and then repeated over the points.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jonline import lanes, stages
from jonline.core import Array, PRNGKey
from jonline.lanes import Lanes
from jonline.rounds import Carry

WIDTH = 16  # rounds of a chunk, like lanes of a block, are a multiple: full vectors of float32
CHUNK = 1024  # rounds drawn ahead at most
_CHUNK_BYTES = 1 << 19  # what is drawn ahead stays in the cache


class Program(NamedTuple):
    """A round in stages, with all that can be computed before the first round computed."""

    staged: stages.Stages
    env: dict  # what the round reads of earlier stages: variable -> shared value or Lanes
    draw: Callable[[Array], list]  # (C,) rounds -> what is drawn for them, (C, ..., lanes) each
    num_lanes: int


def prepare(
    one_round: Callable,
    data: Any,
    keys: PRNGKey,
    points: dict[str, Any],
    carry: Carry,
) -> Program:
    """Splits a round into stages and evaluates those that come before the rounds.

    Args:
      one_round: `(data, run_key, t, point, carry) -> tree`, for one lane.
      data: shared by all lanes.
      keys: (seeds,) run keys.
      points: (points,) each.
      carry: of all lanes, lane axis last.
    """
    num_seeds = len(keys)
    num_lanes = jax.tree.leaves(carry)[0].shape[-1]
    num_points = num_lanes // num_seeds
    staged = stages.split(
        one_round,
        data,
        _one(keys),
        jax.ShapeDtypeStruct((), jnp.int32),
        jax.tree.map(_one, points),
        jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[:-1], leaf.dtype), carry),
    )
    of_data, of_key, of_time, of_point, _ = staged.inputs
    shared = staged.constants | dict(zip(of_data, jax.tree.leaves(data), strict=True))
    shared = stages.evaluate(staged.shared.eqns, shared)

    def of_seed(key):
        env = stages.evaluate(staged.seed.eqns, shared | {of_key[0]: key})
        return [env[var] for var in staged.seed.gives]

    seed_vars = (*of_key, *staged.seed.gives)
    seed_values = (keys, *jax.vmap(of_seed)(keys))

    def to_lanes(value):  # (seeds, ...) -> (..., lanes)
        return jnp.repeat(jnp.moveaxis(value, 0, -1), num_points, -1, total_repeat_length=num_lanes)

    read_by_lanes = {*staged.lane.reads, *staged.round.reads}
    env = dict(shared)
    for var, value in zip(seed_vars, seed_values, strict=True):
        if var in read_by_lanes:
            env[var] = Lanes(to_lanes(value))
    for var, axis in zip(of_point, jax.tree.leaves(points), strict=True):
        env[var] = Lanes(jnp.tile(axis, num_seeds))
    env = lanes.evaluate(staged.lane.eqns, env, num_lanes)

    def draw(rounds):
        def one(t, *values):
            env = shared | dict(zip(seed_vars, values, strict=True)) | {of_time[0]: t}
            env = stages.evaluate(staged.draw.eqns, env)
            return [env[var] for var in staged.draw.gives]

        fixed = [None] * len(seed_vars)
        of_rounds = jax.vmap(one, in_axes=(0, *fixed))
        of_seeds = jax.vmap(of_rounds, in_axes=(None, *(0 for _ in seed_vars)))
        drawn = of_seeds(rounds, *seed_values)  # (seeds, rounds, ...) each
        return [jax.vmap(to_lanes)(jnp.moveaxis(value, 1, 0)) for value in drawn]

    return Program(staged, env, draw, num_lanes)


def play(program: Program, drawn: list, t: Array, carry: Carry) -> Any:
    """Plays round t of all lanes; returns what the round returns, lane axis last."""
    staged, num_lanes = program.staged, program.num_lanes
    env = program.env | dict(zip(staged.draw.gives, map(Lanes, drawn), strict=True))
    env[staged.inputs[2][0]] = t
    env.update(zip(staged.inputs[4], map(Lanes, jax.tree.leaves(carry)), strict=True))
    env = lanes.evaluate(staged.round.eqns, env, num_lanes)
    outs = [lanes.spread(stages.read(env, var), num_lanes).value for var in staged.outs]
    return jax.tree.unflatten(staged.out_tree, outs)


def zeros(program: Program) -> Any:
    """Returns zeros of the shapes that `play` returns."""
    avals = [var.aval for var in program.staged.outs]
    leaves = [jnp.zeros((*aval.shape, program.num_lanes), aval.dtype) for aval in avals]
    return jax.tree.unflatten(program.staged.out_tree, leaves)


def loop(
    program: Program,
    begin: Array | int,
    end: Array | int,
    body: Callable[[Array, Any, list], Any],
    start: Any,
    most: int,
) -> Any:
    """Runs `value = body(t, value, drawn)` for rounds begin…end-1, drawing a chunk of them ahead.

    `most`, static, bounds end - begin where a bound is known; it keeps chunks short.
    """
    drawn = jax.eval_shape(program.draw, jax.ShapeDtypeStruct((WIDTH,), jnp.int32))
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in drawn) // WIDTH
    chunk = max(min(CHUNK, most, _CHUNK_BYTES // max(size, 1)), 1)
    chunk = -(-most // -(-most // chunk))  # equal chunks
    chunk = -(-chunk // WIDTH) * WIDTH

    def one_chunk(c, value):
        t = begin + c * chunk
        drawn = program.draw(t + jnp.arange(chunk, dtype=jnp.int32))

        def one(i, value):
            now = [jax.lax.dynamic_index_in_dim(leaf, i, 0, False) for leaf in drawn]
            return body(t + i, value, now)

        return jax.lax.fori_loop(0, jnp.minimum(chunk, end - t), one, value)

    return jax.lax.fori_loop(0, -(-(end - begin) // chunk), one_chunk, start)


def _one(axis: Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(axis.shape[1:], axis.dtype)
