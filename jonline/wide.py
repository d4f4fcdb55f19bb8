"""Evaluates a round that multiplies a large matrix: large values with the lane axis first.

The few numbers of a small learner lie best with the lane axis last (`jonline.lanes`). A matrix of
thousands of numbers does not: with the lane axis first that of one lane lies together, and a
product with it is a real one. So here each value is held as its size asks for, and an equation
with a large value in it is evaluated by `jax.vmap`.

A long sum is taken 32 columns at a time, in full vectors. A small value that large ones are made of
is computed once, for which it goes through a loop of one iteration: else the compiler would compute
it again for every number of the large one.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jonline import equations, lanes, loops
from jonline.loops import Lanes

_LARGE = 256  # numbers of one lane
_COLUMNS = 32


def is_large(aval: Any) -> bool:
    """Whether a value of one lane is held with the lane axis first."""
    return math.prod(aval.shape) >= _LARGE


def place(aval: Any) -> int:
    """Where the lane axis of a value is: 0 or -1."""
    return 0 if is_large(aval) else -1


def evaluate(eqns: Sequence[Any], env: dict, num_lanes: int) -> dict:
    """Returns `env` with the results of `eqns`; the lane axis of each value is at its `place`."""
    env = dict(env)
    done: dict = {}  # the small values that large ones are made of

    def finished(var):
        value = equations.read(env, var)
        is_float = jnp.issubdtype(var.aval.dtype, jnp.floating)
        if not isinstance(value, Lanes) or is_large(var.aval) or not is_float:
            return value
        if var not in done:
            done[var] = Lanes(_once(value.value, env[equations.MINUS_ZERO]))
        return done[var]

    for eqn in eqns:
        if not any(is_large(var.aval) for var in (*eqn.invars, *eqn.outvars)):
            env = lanes.evaluate([eqn], env, num_lanes)
            continue
        values = [finished(var) for var in eqn.invars]
        if not any(isinstance(value, Lanes) for value in values):
            env = equations.evaluate([eqn], env)
            continue
        if eqn.primitive.name in ("while", "scan"):
            within = loops.Within(evaluate, place, env)
            out = lanes.LOOPS[eqn.primitive.name](eqn, values, num_lanes, within)
        elif _is_long_sum(eqn):
            out = [_long_sum(eqn, values, num_lanes, env)]
        else:
            out = map(Lanes, equations.rounded(eqn, _by_vmap(eqn, values, num_lanes), env))
        env.update(zip(eqn.outvars, out, strict=True))
    return env


def _once(value: Any, minus_zero: Any) -> Any:
    """Returns `value`, which nothing that reads it can be fused with."""
    num_rounds = 1 + (minus_zero != 0).astype(jnp.int32)

    def body(carry):
        i, before = carry
        return i + 1, before + minus_zero.astype(before.dtype)

    return jax.lax.while_loop(lambda carry: carry[0] < num_rounds, body, (jnp.int32(0), value))[1]


def _by_vmap(eqn: Any, values: list, num_lanes: int) -> list:
    axes = [
        place(var.aval) if isinstance(value, Lanes) else None
        for var, value in zip(eqn.invars, values, strict=True)
    ]
    plain = [value.value if isinstance(value, Lanes) else value for value in values]
    out_axes = [place(var.aval) for var in eqn.outvars]
    one = lambda *args: equations.bind(eqn, args)  # noqa: E731
    return jax.vmap(one, axes, out_axes, axis_size=num_lanes)(*plain)


def _is_long_sum(eqn: Any) -> bool:
    vectors = all(var.aval.ndim == 1 for var in eqn.invars)
    return equations.is_sum(eqn) or (eqn.primitive.name == "dot_general" and vectors)


def _long_sum(eqn: Any, values: list, num_lanes: int, env: dict) -> Lanes:
    axes = [axis + 1 for axis in eqn.params.get("axes", (0,))]
    factors = [
        jnp.moveaxis(value.value, place(var.aval), 0) if isinstance(value, Lanes) else value
        for var, value in zip(eqn.invars, values, strict=True)
    ]
    terms = math.prod(factors[1:], start=factors[0])
    minus_zero = env[equations.MINUS_ZERO].astype(terms.dtype)
    if len(values) > 1:
        terms = terms + minus_zero
    kept = [axis for axis in range(terms.ndim) if axis not in axes]
    terms = terms.transpose(*kept, *axes)
    total = _sum_of_columns(terms.reshape(*terms.shape[: len(kept)], -1), minus_zero)
    return Lanes(jnp.moveaxis(total, 0, place(eqn.outvars[0].aval)))


def _sum_of_columns(values: Any, minus_zero: Any) -> Any:
    """Returns the sum over the last axis; -0.0 keeps the compiler from making one sum of all."""
    length = values.shape[-1]
    if length <= _COLUMNS:
        return equations.ordered_sum(values, (values.ndim - 1,))
    width = length // _COLUMNS
    table = values[..., : _COLUMNS * width].reshape(*values.shape[:-1], _COLUMNS, width)
    table = equations.ordered_sum(table, (table.ndim - 2,)) + minus_zero
    rest = equations.ordered_sum(values[..., _COLUMNS * width :], (values.ndim - 1,)) + minus_zero
    return _sum_of_columns(table, minus_zero) + rest
