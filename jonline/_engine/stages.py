"""Splits a traced round into what can be computed ahead and what must wait for the state.

A round is one pure function of (data, run key, round number, point, carry). Its equations are
sorted by what they depend on, and each sort is evaluated where it costs least:

  shared   the data alone                     once a call
  seed     the run key                        once a block and seed
  lane     the point (and the run key)        once a call and lane
  draw     the run key and the round number,  a chunk of rounds ahead, once a seed
           or an example
  round    the carry, or several of the above in the round, for each lane

Of what a learner makes of an example only that is computed ahead whose bits are the same everywhere
(what IEEE 754 rounds, ordered sums, whole numbers): the rest has others than in the round, where a
late answer needs it.

What depends on nothing or, but for examples, on the round number alone is recomputed wherever it is
read. So examples, random words and whatever else depends on the seed alone are computed once per
seed and in long vectors, though learners and streams are written for one lane and one round. The
arithmetic is that of the traced round: nothing is reordered or approximated.

A round is *wide* if it computes with a hundred floating numbers or more at once: on a CPU its lanes
are played one after another, and it takes the rows of the data itself. In one that is not, whole
numbers in the carry that begin equal in all lanes and that only the round number and their like
change (the place in a ring) are *uniform*: computed once, for all lanes.
"""

import dataclasses
import functools
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from jonline._engine import exact, jaxprs, primitives, programs
from jonline._engine.primitives import Trait, has

SEED, TIME, LANE, CARRY, EXAMPLE, OWN, UNIFORM = 1, 2, 4, 8, 16, 32, 64
ORDER = ("shared", "seed", "lane", "draw", "round")
_FREE = ("nothing", "time")  # recomputed where they are read
_WIDE = 100  # floating numbers at once


class Stage(NamedTuple):
    """Equations in order, what they read from elsewhere, and what later stages read of them."""

    eqns: tuple
    inputs: tuple
    residuals: tuple


class Stages(NamedTuple):
    """A round in stages; see the module's docstring. `out_tree` is that of the round."""

    jaxpr: Any  # the closed one that they are stages of
    zeros: exact.Zeros  # its variables
    inputs: tuple  # the variables of (data, key, time, point, carry), a tuple each
    uniform: tuple  # which leaves of the carry are
    is_wide: bool
    effects: tuple  # primitives that do more than return a value, which no stage has
    constants: dict
    shared: Stage
    seed: Stage
    lane: Stage
    draw: Stage
    round: Stage
    outs: tuple
    out_tree: Any


def same_everywhere(jaxpr: Any, data: Any, key: Any, point: Any) -> tuple[bool, ...]:
    """Returns which results of a jaxpr of (data, key, point) depend on neither key nor point."""
    sizes = [len(jax.tree.leaves(arg)) for arg in (data, key, point)]
    inputs = _grouped(jaxpr.invars, sizes)
    depends, _ = _dependencies(jaxpr, inputs, (0, SEED, LANE), ())
    return tuple(not _bits(depends, var) for var in jaxpr.outvars)


def split(
    function: Any, *args: Any, starts_equal: Sequence[bool] = (), may_be_wide: bool = False
) -> Stages:
    """Traces `function(data, key, time, point, carry) -> (carry, rest)` once, sorts its equations.

    Args:
      function: one round for one lane.
      args: its five arguments for one lane: arrays, tracers or ShapeDtypeStructs.
      starts_equal: for each leaf of the carry whether all lanes begin with the same value; by
        default none does.
      may_be_wide: whether lanes may be played one after another.

    Returns:
      The stages of its `exact` equations, with every call inlined.
    """
    closed, out_tree = jaxprs.flat_jaxpr(function, *args)
    sizes = tuple(len(jax.tree.leaves(arg)) for arg in args)
    what = jaxprs.digest([closed]), sizes, tuple(starts_equal), may_be_wide, programs.settings()
    return _split(_Flat(what, closed))._replace(out_tree=out_tree)


@dataclasses.dataclass(frozen=True)
class _Flat:
    """A round's equations; two are equal if they say the same."""

    what: tuple
    closed: Any = dataclasses.field(compare=False)


@functools.lru_cache(maxsize=programs.MOST)
def _split(flat: _Flat) -> Stages:
    """Does what `split` says, once for equations that say the same; `out_tree` is None."""
    closed, (_, sizes, starts_equal, may_be_wide, _) = flat.closed, flat.what
    effects = programs.names_of_effects(closed.jaxpr)
    closed = programs.without_effects(closed) if effects else closed
    groups = _grouped(closed.jaxpr.invars, sizes)
    fixed = [var in groups[0] for var in closed.jaxpr.invars]
    carried = [var in groups[-1] for var in closed.jaxpr.invars]
    is_wide = may_be_wide and _is_wide(closed.jaxpr, groups)
    closed = exact.exact(closed, fixed, carried, is_wide)
    jaxpr = closed.jaxpr
    zeros, inputs = exact.Zeros(*jaxpr.invars[:2]), _grouped(jaxpr.invars[2:], sizes)
    uniform = (starts_equal or (False,) * len(inputs[-1])) if not is_wide else ()
    whole = [not jnp.issubdtype(var.aval.dtype, jnp.inexact) for var in inputs[-1]]
    uniform = tuple(a and b for a, b in itertools.zip_longest(uniform, whole, fillvalue=False))
    while True:
        of_carry = [UNIFORM << i if same else CARRY for i, same in enumerate(uniform)]
        bits = (0, SEED, TIME, LANE, of_carry)
        depends, of_eqns = _dependencies(jaxpr, inputs, bits, zeros, is_wide)
        if not any(uniform):
            break
        after = [_bits(depends, out) & (SEED | LANE | CARRY | OWN) for out in jaxpr.outvars]
        still = tuple(same and not after[i] for i, same in enumerate(uniform))
        if still == uniform:
            break
        uniform = still
    stage_of = {var: _stage_of(bits) for var, bits in depends.items()}

    stored = _stored(jaxpr, stage_of, depends, is_wide)
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
        zeros=zeros,
        inputs=inputs,
        uniform=uniform,
        is_wide=is_wide,
        effects=effects,
        constants=dict(zip(jaxpr.constvars, closed.consts, strict=True)),
        outs=outs,
        out_tree=None,
        **stages,
    )


def _grouped(variables: Sequence[Any], sizes: Sequence[int]) -> tuple:
    """The variables of each argument, which has so many leaves."""
    rest = iter(variables)
    return tuple(tuple(itertools.islice(rest, size)) for size in sizes)


def _dependencies(
    jaxpr: Any,
    inputs: Sequence[tuple],
    bits: Sequence[Any],
    zeros: Sequence[Any],
    is_wide: bool = False,
) -> tuple[dict, list]:
    """Returns variable -> what it depends on (None: nothing, not even data), and each stage.

    What may come to the round by another way, in a late answer, has to have the same bits there: if
    not, it depends on the carry. In a wide round that is all but examples.
    """
    depends: dict = dict.fromkeys((*jaxpr.constvars, *zeros[:1])) | dict.fromkeys(zeros[1:], OWN)
    for group, of_group in zip(inputs, bits, strict=True):
        each = of_group if isinstance(of_group, list) else [of_group] * len(group)
        depends.update(zip(group, each, strict=True))
    ahead = exact.before_examples(jaxpr)
    of_eqns = []
    for i, eqn in enumerate(jaxpr.eqns):
        known = {depends[var] for var in eqn.invars if not isinstance(var, jex.Literal)} - {None}
        union = functools.reduce(operator.or_, known) if known else None
        if primitives.is_drawn(eqn):
            union = (union or 0) | SEED | TIME | EXAMPLE
        elif union and i not in ahead and union & (EXAMPLE | TIME * is_wide):
            ahead_is_better = not is_wide or _widest(eqn) < _WIDE
            union |= 0 if _is_same_anywhere(eqn) and ahead_is_better else CARRY
        depends.update(dict.fromkeys(eqn.outvars, union))
        of_eqns.append(_stage_of(union))
    return depends, of_eqns


def _is_same_anywhere(eqn: Any) -> bool:
    if has(eqn, Trait.EXACT):
        return True
    has_body = any("jaxpr" in name or name == "branches" for name in eqn.params)
    return not has_body and not any(
        jnp.issubdtype(var.aval.dtype, jnp.inexact) for var in eqn.outvars
    )


def _bits(depends: dict, var: Any) -> int:
    return 0 if isinstance(var, jex.Literal) else depends[var] or 0


def _stage_of(bits: int | None) -> str:
    if bits is None or bits == OWN:
        return "nothing"
    bits &= ~(EXAMPLE | OWN)
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


def _is_wide(jaxpr: Any, inputs: Sequence[tuple]) -> bool:
    """Whether the carry is made by computing with `_WIDE` floating numbers or more in the round.

    What only the metrics compute does not count, nor what an example is made of, and no moves: so a
    delay changes nothing.
    """
    depends, _ = _dependencies(jaxpr, inputs, (0, 0, TIME, 0, CARRY), ())
    needed = {var for var in jaxpr.outvars[: len(inputs[-1])] if not isinstance(var, jex.Literal)}
    for eqn in reversed(jaxpr.eqns):
        if primitives.is_drawn(eqn) or not any(var in needed for var in eqn.outvars):
            continue
        needed.update(var for var in eqn.invars if not isinstance(var, jex.Literal))
        if _bits(depends, eqn.outvars[0]) and _widest(eqn) >= _WIDE:
            return True
    return False


def _widest(eqn: Any) -> int:
    """How many floating numbers an equation computes with at once, also in the body of a loop."""
    inner = [step for body in primitives.bodies(eqn) for step in body.eqns]
    if inner or has(eqn, Trait.MOVE):
        return max(map(_widest, inner), default=0)
    variables = (*eqn.invars, *eqn.outvars)
    sizes = [math.prod(var.aval.shape) for var in variables if jaxprs.is_float(var.aval)]
    return max(sizes, default=0)


def _stored(jaxpr: Any, stage_of: dict, depends: dict, is_wide: bool) -> set:
    """The variables worth handing from a stage to a later one; others are recomputed there.

    A result of cheap equations is recomputed wherever what it is made of takes less room than
    itself: masks, one-hot rows, broadcasts. What a learner makes of an example is so too where it
    takes the same room, since the round reads the example anyhow. In a wide round a row of the data
    is one, made of its number.
    """
    made_of: dict = {}
    stored = set(stage_of)
    cheap = Trait.CHEAP | Trait.TAKE if is_wide else Trait.CHEAP
    for eqn in jaxpr.eqns:
        ins = [v for v in eqn.invars if not isinstance(v, jex.Literal) and stage_of[v] not in _FREE]
        if is_wide and ins and has(eqn, Trait.TAKE) and stage_of[ins[0]] == "shared":
            ins = ins[1:]
        if has(eqn, cheap) and len({stage_of[v] for v in ins}) <= 1:
            parts = set().union(*(made_of.get(v, {v}) for v in ins))
            room = _size(eqn.outvars[0]) + bool(_bits(depends, eqn.outvars[0]) & EXAMPLE)
            if sum(map(_size, parts)) < room:
                made_of[eqn.outvars[0]] = parts
                stored.discard(eqn.outvars[0])
    return stored
