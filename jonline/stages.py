"""Splits a traced round into what can be computed ahead and what must wait for the state.

A round is one pure function of (data, run key, round number, point, carry). Its equations are
sorted by what they depend on, and each sort is evaluated where it costs least:

  shared   the data alone                     once a call
  seed     the run key                        once a call and seed
  lane     the point (and the run key)        once a call and lane
  draw     the round number (and the run key) a chunk of rounds ahead, once a seed
  round    the carry, or several of the above in the round, for all lanes

So examples, random words and whatever else hangs on the seed alone are computed once per seed and
in wide vectors, though learners and streams are written for one lane and one round. The arithmetic
is that of the traced round: nothing is reordered or approximated.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from jax.extend import core as jex

SEED, TIME, LANE, CARRY = 1, 2, 4, 8

_CALLS = {
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "remat2": "jaxpr",
}
_ELEMENTWISE = frozenset(
    """
    abs add and broadcast_in_dim clamp convert_element_type copy div eq ge gt integer_pow
    iota is_finite le lt max min mul ne neg not or reshape rem select_n sign squeeze
    stop_gradient sub xor
    """.split()
)


class Stage(NamedTuple):
    """Equations in order, the variables they read from elsewhere, those that others read."""

    eqns: tuple
    reads: tuple
    gives: tuple


class Stages(NamedTuple):
    """A round in five stages; see the module's docstring. `out_tree` is that of the round."""

    inputs: tuple  # the variables of (data, key, time, point, carry), a tuple each
    constants: dict
    shared: Stage
    seed: Stage
    lane: Stage
    draw: Stage
    round: Stage
    outs: tuple
    out_tree: Any


def bind(eqn: Any, values: Sequence[Any]) -> list:
    """Evaluates one equation."""
    with eqn.ctx.manager:
        out = eqn.primitive.bind(*values, **eqn.primitive.get_bind_params(eqn.params))
    return list(out) if eqn.primitive.multiple_results else [out]


def read(env: dict, var: Any) -> Any:
    """The value of a variable or literal."""
    return var.val if isinstance(var, jex.Literal) else env[var]


def evaluate(eqns: Sequence[Any], env: dict) -> dict:
    """Returns `env` with the results of `eqns`, evaluated in order."""
    env = dict(env)
    for eqn in eqns:
        values = bind(eqn, [read(env, var) for var in eqn.invars])
        env.update(zip(eqn.outvars, values, strict=True))
    return env


def split(function: Any, *args: Any) -> Stages:
    """Traces `function(data, key, time, point, carry)` once and sorts its equations.

    Args:
      function: one round for one lane.
      args: its five arguments for one lane: arrays, tracers or ShapeDtypeStructs.

    Returns:
      The stages, with every call inlined.
    """
    closed, out_tree = _flat_jaxpr(function, *args)
    jaxpr = closed.jaxpr
    counts = [len(jax.tree.leaves(arg)) for arg in args]
    inputs, start = [], 0
    for count in counts:
        inputs.append(tuple(jaxpr.invars[start : start + count]))
        start += count

    depends: dict = {}  # variable -> set of bits; None: on nothing at all
    for var in jaxpr.constvars:
        depends[var] = None
    for group, bit in zip(inputs, (0, SEED, TIME, LANE, CARRY), strict=True):
        depends.update(dict.fromkeys(group, bit))
    home = {var: _home(bits) for var, bits in depends.items()}
    homes = []
    for eqn in jaxpr.eqns:
        known = [depends[var] for var in eqn.invars if not isinstance(var, jex.Literal)]
        known = [bits for bits in known if bits is not None]
        bits = None
        for other in known:
            bits = other if bits is None else bits | other
        homes.append(_home(bits))
        for var in eqn.outvars:
            depends[var] = bits
            home[var] = homes[-1]

    stored = _stored(jaxpr, home)
    outs = tuple(jaxpr.outvars)
    stages: dict = {}
    wanted: dict = {name: {} for name in _ORDER}  # ordered sets
    wanted["round"].update((var, None) for var in outs if not isinstance(var, jex.Literal))
    for name in reversed(_ORDER):
        needed, mine = dict(wanted[name]), []
        for eqn, where in zip(reversed(jaxpr.eqns), reversed(homes), strict=True):
            hit = any(var in needed for var in eqn.outvars)
            if hit and (
                where in (name, "nothing") or not all(var in stored for var in eqn.outvars)
            ):
                mine.append(eqn)
                needed.update((v, None) for v in eqn.invars if not isinstance(v, jex.Literal))
        made = {var for eqn in mine for var in eqn.outvars}
        reads = tuple(var for var in needed if var not in made and home[var] != "nothing")
        for var in reads:
            if var not in _flat(inputs):
                wanted[home[var]][var] = None
        stages[name] = Stage(tuple(reversed(mine)), reads, tuple(wanted[name]))
    return Stages(
        inputs=tuple(inputs),
        constants=dict(zip(jaxpr.constvars, closed.consts, strict=True)),
        outs=outs,
        out_tree=out_tree,
        **stages,
    )


def inlined(function: Any, *args: Any) -> jex.ClosedJaxpr:
    """Returns the equations of `function(*args)` with every call inlined."""
    return _flat_jaxpr(function, *args)[0]


def _flat_jaxpr(function: Any, *args: Any) -> tuple[jex.ClosedJaxpr, Any]:
    flat, tree = jax.tree.flatten(args)

    def of_leaves(*leaves):
        return function(*jax.tree.unflatten(tree, leaves))

    closed, out_shape = jax.make_jaxpr(of_leaves, return_shape=True)(*flat)
    flattened = jax.make_jaxpr(lambda *leaves: _inlined(closed.jaxpr, closed.consts, leaves))
    return flattened(*flat), jax.tree.structure(out_shape)


_ORDER = ("shared", "seed", "lane", "draw", "round")


def _home(bits: int | None) -> str:
    if bits is None:
        return "nothing"
    if bits == 0:
        return "shared"
    if bits == SEED:
        return "seed"
    if bits in (LANE, LANE | SEED):
        return "lane"
    if bits in (TIME, TIME | SEED):
        return "draw"
    return "round"


def _flat(groups: Sequence[tuple]) -> set:
    return {var for group in groups for var in group}


def _size(var: Any) -> int:
    size = 1
    for n in var.aval.shape:
        size *= n
    return size * getattr(var.aval.dtype, "itemsize", 8)


def _stored(jaxpr: Any, home: dict) -> set:
    """The variables worth handing from a stage to a later one; others are recomputed there.

    A result of cheap elementwise equations is recomputed wherever what it is made of takes less
    room than itself: masks, one-hot rows, broadcasts.
    """
    made_of: dict = {}
    stored = set(home)
    for eqn in jaxpr.eqns:
        ins = [v for v in eqn.invars if not isinstance(v, jex.Literal) and home[v] != "nothing"]
        if eqn.primitive.name in _ELEMENTWISE and len({home[v] for v in ins}) <= 1:
            parts = set().union(*(made_of.get(v, {v}) for v in ins))
            if sum(map(_size, parts)) < _size(eqn.outvars[0]):
                made_of[eqn.outvars[0]] = parts
                stored.discard(eqn.outvars[0])
    return stored


def _inlined(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list:
    env = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        values = [read(env, var) for var in eqn.invars]
        body = eqn.params.get(_CALLS.get(eqn.primitive.name, ""))
        if body is None:
            out = bind(eqn, values)
        elif isinstance(body, jex.ClosedJaxpr):
            out = _inlined(body.jaxpr, body.consts, values)
        else:
            out = _inlined(body, (), values)
        env.update(zip(eqn.outvars, out, strict=True))
    return [read(env, var) for var in jaxpr.outvars]
