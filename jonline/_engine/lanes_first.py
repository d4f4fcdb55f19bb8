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

from jonline._engine import jaxprs as equations
from jonline._engine import lanes, loops
from jonline._engine.loops import Block, Lanes

_LARGE = 256  # numbers of one lane
_COLUMNS = 32


def is_large(aval: Any) -> bool:
    """Whether a value of one lane is held with the lane axis first."""
    return math.prod(aval.shape) >= _LARGE


def place(aval: Any) -> int:
    """Where the lane axis of a value is: 0 or -1."""
    return 0 if is_large(aval) else -1


def evaluate(eqns: Sequence[Any], env: dict, block: Block) -> dict:
    """Returns `env` with the results of `eqns`; the lane axis of each value is at its `place`."""
    env = dict(env)
    done: dict = {}  # the small values that large ones are made of

    def finished(var):
        value = equations.read(env, var)
        if not isinstance(value, Lanes) or is_large(var.aval) or not equations.is_float(var.aval):
            return value
        if var not in done:
            done[var] = Lanes(_once(value.value, block.minus_zero))
        return done[var]

    for eqn in eqns:
        if not any(is_large(var.aval) for var in (*eqn.invars, *eqn.outvars)):
            env = lanes.evaluate([eqn], env, block)
            continue
        values = [finished(var) for var in eqn.invars]
        if not any(isinstance(value, Lanes) for value in values):
            out = loops.of_shared(eqn, values, block)
        else:
            values = loops.operands(eqn, values, block)
            if eqn.primitive.name in lanes.LOOPS:
                out = lanes.LOOPS[eqn.primitive.name](eqn, values, block)
            elif _is_long_sum(eqn):
                out = [_long_sum(eqn, values, block)]
            else:
                out = map(Lanes, _by_vmap(eqn, values, block))
        env.update(zip(eqn.outvars, out, strict=True))
    return env


def _once(value: Any, minus_zero: Any) -> Any:
    """Returns `value`, which nothing that reads it can be fused with."""
    num_rounds = 1 + (minus_zero != 0).astype(jnp.int32)

    def body(carry):
        i, before = carry
        return i + 1, before + minus_zero.astype(before.dtype)

    return jax.lax.while_loop(lambda carry: carry[0] < num_rounds, body, (jnp.int32(0), value))[1]


def _by_vmap(eqn: Any, values: list, block: Block) -> list:
    if eqn.primitive.name == "optimization_barrier":
        values = [
            loops.spread_at(v, var.aval, block) for v, var in zip(values, eqn.invars, strict=True)
        ]
    axes = [
        place(var.aval) if isinstance(value, Lanes) else None
        for var, value in zip(eqn.invars, values, strict=True)
    ]
    plain = [value.value if isinstance(value, Lanes) else value for value in values]
    out_axes = [place(var.aval) for var in eqn.outvars]
    one = lambda *args: equations.bind(eqn, args)  # noqa: E731
    return jax.vmap(one, axes, out_axes, axis_size=block.num_lanes)(*plain)


def _is_long_sum(eqn: Any) -> bool:
    if eqn.primitive.name == "dot_general":
        return equations.is_with_vector(eqn) and not eqn.outvars[0].aval.shape
    return equations.is_sum(eqn)


def _long_sum(eqn: Any, values: list, block: Block) -> Lanes:
    """The sum over axes of a large value, or of the products of two vectors."""
    is_product = eqn.primitive.name == "dot_general"
    axes = [axis + 1 for axis in ((0,) if is_product else eqn.params["dimensions"])]
    factors = [
        jnp.moveaxis(value.value, place(var.aval), 0) if isinstance(value, Lanes) else value
        for var, value in zip(eqn.invars[: 1 + is_product], values, strict=False)
    ]
    terms = math.prod(factors[1:], start=factors[0])
    minus_zero = block.minus_zero.astype(terms.dtype)
    if is_product:
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
