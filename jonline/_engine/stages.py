"""Splits a traced round into what can be computed ahead and what must wait for the state.

A round is one pure function of (data, run key, round number, point, carry). Its equations are
sorted by what they depend on, and each sort is evaluated where it costs least:

  shared   the data alone                     once a call
  seed     the run key                        once a block and seed
  lane     the point (and the run key)        once a call and lane
  draw     the run key and the round number   a chunk of rounds ahead, once a seed
  example  the round number, in an example    in the round, once for all lanes
  round    the carry, or several of the above in the round, for all lanes

Of what a learner makes of an example only that is computed ahead whose bits are the same everywhere
(products, comparisons, whole numbers): a sum would have others than in the round, where a late
answer needs it.

What depends on nothing or, but for examples, on the round number alone is recomputed wherever it is
read. So examples, random words and whatever else depends on the seed alone are computed once per
seed and in long vectors, though learners and streams are written for one lane and one round. The
arithmetic is that of the traced round: nothing is reordered or approximated.

Whole numbers in the carry that begin equal in all lanes and that only the round number and their
like change (the place in a ring) are *uniform*: the round computes them once, for all lanes.
"""

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from jonline._engine import jaxprs, programs

SEED, TIME, LANE, CARRY, EXAMPLE, UNIFORM = 1, 2, 4, 8, 16, 32
ORDER = ("shared", "seed", "lane", "draw", "example", "round")
_FREE = ("nothing", "time")  # recomputed where they are read

_ELEMENTWISE = frozenset(
    """
    abs add and broadcast_in_dim clamp convert_element_type copy div eq ge gt integer_pow
    iota is_finite le lt max min mul ne neg not optimization_barrier or reshape rem select_n
    sign squeeze stop_gradient sub xor
    """.split()
)
_TAKES = frozenset(("drawn", "dynamic_slice", "gather"))
_LARGE = 2048  # numbers of a matrix with which a round is evaluated with the lanes first
_SAME_ANYWHERE = frozenset(
    """
    abs broadcast_in_dim concatenate convert_element_type copy dynamic_slice gather max min
    mul neg optimization_barrier pad reshape rev select_n sign slice squeeze stop_gradient
    transpose
    """.split()
)


class Stage(NamedTuple):
    """Equations in order, what they read from elsewhere, and what later stages read of them."""

    eqns: tuple
    inputs: tuple
    residuals: tuple


class Stages(NamedTuple):
    """A round in stages; see the module's docstring. `out_tree` is that of the round."""

    jaxpr: Any  # the closed one that they are stages of
    minus_zero: Any  # the variable of -0.0, see `jaxprs.exact`
    inputs: tuple  # the variables of (data, key, time, point, carry), a tuple each
    uniform: tuple  # which leaves of the carry are
    lanes_first: bool  # whether the round multiplies a large matrix
    effects: tuple  # primitives that do more than return a value, which no stage has
    constants: dict
    shared: Stage
    seed: Stage
    lane: Stage
    draw: Stage
    example: Stage
    round: Stage
    outs: tuple
    out_tree: Any


def same_everywhere(jaxpr: Any, data: Any, key: Any, point: Any) -> tuple[bool, ...]:
    """Returns which results of a jaxpr of (data, key, point) depend on neither key nor point."""
    inputs = _grouped(jaxpr.invars, (data, key, point))
    depends, _ = _dependencies(jaxpr, inputs, (0, SEED, LANE), None)
    return tuple(not _bits(depends, var) for var in jaxpr.outvars)


def split(function: Any, *args: Any, starts_equal: Sequence[bool] = ()) -> Stages:
    """Traces `function(data, key, time, point, carry) -> (carry, rest)` once, sorts its equations.

    Args:
      function: one round for one lane.
      args: its five arguments for one lane: arrays, tracers or ShapeDtypeStructs.
      starts_equal: for each leaf of the carry whether all lanes begin with the same value; by
        default none does.

    Returns:
      The stages of its `jaxprs.exact` equations, with every call inlined.
    """
    closed, out_tree = jaxprs.flat_jaxpr(function, *args)
    effects = programs.names_of_effects(closed.jaxpr)
    num_rest = len(closed.jaxpr.invars) - len(jax.tree.leaves(args[-1]))
    is_carry = [i >= num_rest for i in range(len(closed.jaxpr.invars))]
    closed = jaxprs.exact(programs.without_effects(closed) if effects else closed, is_carry)
    jaxpr = closed.jaxpr
    minus_zero, *rest = jaxpr.invars
    inputs = _grouped(rest, args)
    uniform = tuple(starts_equal) or (False,) * len(inputs[-1])
    whole = [not jnp.issubdtype(var.aval.dtype, jnp.inexact) for var in inputs[-1]]
    uniform = tuple(map(operator.and_, uniform, whole))
    while True:
        of_carry = [UNIFORM << i if same else CARRY for i, same in enumerate(uniform)]
        bits = (0, SEED, TIME, LANE, of_carry)
        depends, of_eqns = _dependencies(jaxpr, inputs, bits, minus_zero)
        if not any(uniform):
            break
        after = [_bits(depends, out) & (SEED | LANE | CARRY) for out in jaxpr.outvars]
        still = tuple(same and not after[i] for i, same in enumerate(uniform))
        if still == uniform:
            break
        uniform = still
    stage_of = {var: _stage_of(bits) for var, bits in depends.items()}

    lanes_first = _multiplies_large(jaxpr, of_eqns, jaxpr.outvars[: len(uniform)])
    stored = _stored(jaxpr, stage_of, depends, lanes_first)
    outs = tuple(jaxpr.outvars)
    stages: dict = {}
    wanted: dict = {name: {} for name in ORDER}  # ordered sets
    wanted["round"].update((var, None) for var in outs if not isinstance(var, jex.Literal))
    for name in reversed(ORDER):
        needed, own = dict(wanted[name]), []
        for eqn, where in zip(reversed(jaxpr.eqns), reversed(of_eqns), strict=True):
            hit = any(var in needed for var in eqn.outvars)
            if hit and (where in (name, *_FREE) or not all(var in stored for var in eqn.outvars)):
                own.append(eqn)
                needed.update((v, None) for v in eqn.invars if not isinstance(v, jex.Literal))
        made = {var for eqn in own for var in eqn.outvars}
        read = tuple(
            var
            for var in needed
            if var not in made and (stage_of[var] not in _FREE or var in inputs[2])
        )
        for var in read:
            if var not in _flat(inputs):
                wanted[stage_of[var]][var] = None
        stages[name] = Stage(tuple(reversed(own)), read, tuple(wanted[name]))
    return Stages(
        jaxpr=closed,
        minus_zero=minus_zero,
        inputs=inputs,
        uniform=uniform,
        lanes_first=lanes_first,
        effects=effects,
        constants=dict(zip(jaxpr.constvars, closed.consts, strict=True)),
        outs=outs,
        out_tree=out_tree,
        **stages,
    )


def _grouped(variables: Sequence[Any], args: Sequence[Any]) -> tuple:
    """The variables of the leaves of each argument."""
    rest = iter(variables)
    return tuple(tuple(next(rest) for _ in jax.tree.leaves(arg)) for arg in args)


def _dependencies(
    jaxpr: Any, inputs: Sequence[tuple], bits: Sequence[Any], minus_zero: Any
) -> tuple[dict, list]:
    """Returns variable -> what it depends on (None: nothing, not even data), and each stage."""
    depends: dict = dict.fromkeys((*jaxpr.constvars, minus_zero))
    for group, of_group in zip(inputs, bits, strict=True):
        each = of_group if isinstance(of_group, list) else [of_group] * len(group)
        depends.update(zip(group, each, strict=True))
    of_eqns, zeros = [], {minus_zero}
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "convert_element_type" and any(v is eqn.invars[0] for v in zeros):
            zeros.update(eqn.outvars)
        known = {depends[var] for var in eqn.invars if not isinstance(var, jex.Literal)} - {None}
        union = functools.reduce(operator.or_, known) if known else None
        if eqn.primitive is jaxprs.DRAWN:
            union = (union or TIME) | EXAMPLE
        elif union and union & EXAMPLE and not _is_same_anywhere(eqn, zeros):
            union |= CARRY
        depends.update(dict.fromkeys(eqn.outvars, union))
        of_eqns.append(_stage_of(union))
    return depends, of_eqns


def _is_same_anywhere(eqn: Any, zeros: set) -> bool:
    if eqn.primitive.name in _SAME_ANYWHERE or (
        eqn.primitive.name == "add" and any(var is eqn.invars[1] for var in zeros)
    ):
        return True
    has_body = any("jaxpr" in name or name == "branches" for name in eqn.params)
    return not has_body and not any(
        jnp.issubdtype(var.aval.dtype, jnp.inexact) for var in eqn.outvars
    )


def _bits(depends: dict, var: Any) -> int:
    return 0 if isinstance(var, jex.Literal) else depends[var] or 0


def _stage_of(bits: int | None) -> str:
    if bits is None:
        return "nothing"
    if bits == TIME | EXAMPLE:
        return "example"
    bits &= ~EXAMPLE
    if bits == TIME:
        return "time"
    if bits == 0:
        return "shared"
    if bits == SEED:
        return "seed"
    if bits in (LANE, LANE | SEED):
        return "lane"
    if bits == TIME | SEED:
        return "draw"
    return "round"


def _flat(groups: Sequence[tuple]) -> set:
    return {var for group in groups for var in group}


def _size(var: Any) -> int:
    size = 1
    for n in var.aval.shape:
        size *= n
    return size * getattr(var.aval.dtype, "itemsize", 8)


def _multiplies_large(jaxpr: Any, of_eqns: Sequence[str], carry: Sequence[Any]) -> bool:
    """Whether the carry is made by multiplying a matrix of `_LARGE` numbers or more in the round.

    What only the metrics multiply does not count: they change no bits of a run.
    """
    needed = {var for var in carry if not isinstance(var, jex.Literal)}
    for eqn, stage in zip(reversed(jaxpr.eqns), reversed(of_eqns), strict=True):
        if not any(var in needed for var in eqn.outvars):
            continue
        needed.update(var for var in eqn.invars if not isinstance(var, jex.Literal))
        if stage == "round" and _largest_product(eqn) >= _LARGE:
            return True
    return False


def _largest_product(eqn: Any) -> int:
    """The numbers of the largest factor of a product, also of one in the body of a loop."""
    if eqn.primitive.name == "dot_general":
        return max(math.prod(var.aval.shape) for var in eqn.invars)
    bodies = [body for value in eqn.params.values() for body in _bodies(value)]
    return max((_largest_product(inner) for body in bodies for inner in body.eqns), default=0)


def _bodies(value: Any) -> list:
    closed = value if isinstance(value, tuple) else (value,)
    return [part.jaxpr for part in closed if isinstance(part, jex.ClosedJaxpr)]


def _stored(jaxpr: Any, stage_of: dict, depends: dict, lanes_first: bool) -> set:
    """The variables worth handing from a stage to a later one; others are recomputed there.

    A result of cheap elementwise equations is recomputed wherever what it is made of takes less
    room than itself: masks, one-hot rows, broadcasts. What a learner makes of an example is so too
    where it takes the same room, since the round reads the example anyhow. Where the lanes are
    first a row of the data is one, made of its number.
    """
    made_of: dict = {}
    stored = set(stage_of)
    cheap = _ELEMENTWISE | _TAKES if lanes_first else _ELEMENTWISE
    for eqn in jaxpr.eqns:
        ins = [v for v in eqn.invars if not isinstance(v, jex.Literal) and stage_of[v] not in _FREE]
        if lanes_first and ins and eqn.primitive.name in _TAKES and stage_of[ins[0]] == "shared":
            ins = ins[1:]
        is_cheap = eqn.primitive.name in cheap and stage_of[eqn.outvars[0]] != "example"
        if is_cheap and len({stage_of[v] for v in ins}) <= 1:
            parts = set().union(*(made_of.get(v, {v}) for v in ins))
            room = _size(eqn.outvars[0]) + bool(_bits(depends, eqn.outvars[0]) & EXAMPLE)
            if sum(map(_size, parts)) < room:
                made_of[eqn.outvars[0]] = parts
                stored.discard(eqn.outvars[0])
    return stored
