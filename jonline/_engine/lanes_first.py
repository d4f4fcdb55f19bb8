"""Evaluates a round that multiplies a large matrix: large values with the lane axis first.

The few numbers of a small learner lie best with the lane axis last (`lanes`). A matrix of thousands
of numbers does not: with the lane axis first that of one lane lies together, and a product with it
is a real one. So here each value is held as its size asks for, and an equation with a large value
in it is evaluated by `jax.vmap`.

A long sum is taken 32 columns at a time, in full vectors. A small value that large ones are made of
is computed once, for which it goes through a loop of one iteration: else the compiler would compute
it again for every number of the large one.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jonline._engine import jaxprs, lanes, loops
from jonline._engine.loops import LaneContext, Lanes

_LARGE = 256  # numbers of one lane
_COLUMNS = 32


def is_large(aval: Any) -> bool:
    """Whether a value of one lane is held with the lane axis first."""
    return math.prod(aval.shape) >= _LARGE


def lane_axis(aval: Any) -> int:
    """Returns which axis of a value is the lanes': 0 or -1."""
    return 0 if is_large(aval) else -1


def evaluate(eqns: Sequence[Any], env: dict, context: LaneContext) -> dict:
    """Returns `env` with the results of `eqns`; the lanes of each value are its `lane_axis`."""
    env = dict(env)
    done: dict = {}  # the small values that large ones are made of

    def finished(var):
        value = jaxprs.read(env, var)
        if not isinstance(value, Lanes) or is_large(var.aval) or not jaxprs.is_float(var.aval):
            return value
        if var not in done:
            done[var] = Lanes(_once(value.value, context.minus_zero))
        return done[var]

    for eqn in eqns:
        if not any(is_large(var.aval) for var in (*eqn.invars, *eqn.outvars)):
            env = lanes.evaluate([eqn], env, context)
            continue
        values = [finished(var) for var in eqn.invars]
        if not any(isinstance(value, Lanes) for value in values):
            out = loops.of_shared(eqn, values, context)
        else:
            values = loops.operands(eqn, values, context)
            if eqn.primitive.name in lanes.LOOPS:
                out = lanes.LOOPS[eqn.primitive.name](eqn, values, context)
            elif _is_long_sum(eqn):
                out = [_long_sum(eqn, values, context)]
            else:
                out = map(Lanes, _by_vmap(eqn, values, context))
        env.update(zip(eqn.outvars, out, strict=True))
    return env


def _once(value: Any, minus_zero: Any) -> Any:
    """Returns `value`, which nothing that reads it can be fused with."""
    num_rounds = 1 + (minus_zero != 0).astype(jnp.int32)

    def body(carry):
        i, before = carry
        return i + 1, before + minus_zero.astype(before.dtype)

    return jax.lax.while_loop(lambda carry: carry[0] < num_rounds, body, (jnp.int32(0), value))[1]


def _by_vmap(eqn: Any, values: list, context: LaneContext) -> list:
    if eqn.primitive.name == "optimization_barrier":
        values = [
            loops.spread_at(v, var.aval, context) for v, var in zip(values, eqn.invars, strict=True)
        ]
    axes = [
        lane_axis(var.aval) if isinstance(value, Lanes) else None
        for var, value in zip(eqn.invars, values, strict=True)
    ]
    plain = [value.value if isinstance(value, Lanes) else value for value in values]
    out_axes = [lane_axis(var.aval) for var in eqn.outvars]
    one = lambda *args: jaxprs.bind(eqn, args)  # noqa: E731
    return jax.vmap(one, axes, out_axes, axis_size=context.num_lanes)(*plain)


def _is_long_sum(eqn: Any) -> bool:
    if eqn.primitive.name == "dot_general":
        return jaxprs.is_with_vector(eqn) and not eqn.outvars[0].aval.shape
    return jaxprs.is_sum(eqn)


def _long_sum(eqn: Any, values: list, context: LaneContext) -> Lanes:
    """The sum over axes of a large value, or of the products of two vectors."""
    is_product = eqn.primitive.name == "dot_general"
    axes = [axis + 1 for axis in ((0,) if is_product else eqn.params["dimensions"])]
    factors = [
        jnp.moveaxis(value.value, lane_axis(var.aval), 0) if isinstance(value, Lanes) else value
        for var, value in zip(eqn.invars[: 1 + is_product], values, strict=False)
    ]
    terms = math.prod(factors[1:], start=factors[0])
    minus_zero = context.minus_zero.astype(terms.dtype)
    if is_product:
        terms = terms + minus_zero
    kept = [axis for axis in range(terms.ndim) if axis not in axes]
    terms = terms.transpose(*kept, *axes)
    total = _sum_of_columns(terms.reshape(*terms.shape[: len(kept)], -1), minus_zero)
    return Lanes(jnp.moveaxis(total, 0, lane_axis(eqn.outvars[0].aval)))


def _sum_of_columns(values: Any, minus_zero: Any) -> Any:
    """Returns the sum over the last axis; -0.0 keeps the compiler from making one sum of all."""
    length = values.shape[-1]
    if length <= _COLUMNS:
        return jaxprs.ordered_sum(values, (values.ndim - 1,))
    width = length // _COLUMNS
    table = values[..., : _COLUMNS * width].reshape(*values.shape[:-1], _COLUMNS, width)
    table = jaxprs.ordered_sum(table, (table.ndim - 2,)) + minus_zero
    rest = jaxprs.ordered_sum(values[..., _COLUMNS * width :], (values.ndim - 1,)) + minus_zero
    return _sum_of_columns(table, minus_zero) + rest
