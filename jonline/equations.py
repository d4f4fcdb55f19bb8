"""Equations of a traced function: flattened, without repeats, and evaluated one by one."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex
from jax.interpreters import mlir

_CALLS = {
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "remat2": "jaxpr",
}
_PRODUCTS = ("mul", "integer_pow", "square", "div")
MINUS_ZERO = "minus zero"  # the key of -0.0 in an environment

DRAWN = jex.Primitive("drawn")
DRAWN.def_impl(lambda leaf: leaf)
DRAWN.def_abstract_eval(lambda leaf: leaf)
mlir.register_lowering(DRAWN, lambda ctx, leaf: [leaf])


def drawn(example: Any) -> Any:
    """Marks the leaves of an example: what is made of them is the learner's and the oracle's."""
    return jax.tree.map(DRAWN.bind, example)


def bind(eqn: Any, values: Sequence[Any]) -> list:
    """Evaluates one equation."""
    if eqn.primitive is DRAWN:
        return list(values)
    with eqn.ctx.manager:
        out = eqn.primitive.bind(*values, **eqn.primitive.get_bind_params(eqn.params))
    return list(out) if eqn.primitive.multiple_results else [out]


def is_sum(eqn: Any) -> bool:
    """Whether an equation is a sum of floating numbers over axes."""
    is_float = jnp.issubdtype(eqn.outvars[0].aval.dtype, jnp.floating)
    return eqn.primitive.name == "reduce_sum" and is_float


def ordered_sum(values: Any, axes: Sequence[int]) -> Any:
    """Returns the sum over axes, whose order is that of the indices.

    The compiler takes a sum of sums in an order of its own, which hangs on what else is computed.
    It does not where the sum is written as differences.
    """
    zero = jnp.zeros((), values.dtype)
    return jax.lax.reduce(values, zero, lambda a, b: a - (-b), tuple(axes))


def read(env: dict, var: Any) -> Any:
    """The value of a variable or literal."""
    return var.val if isinstance(var, jex.Literal) else env[var]


def evaluate(eqns: Sequence[Any], env: dict) -> dict:
    """Returns `env` with the results of `eqns`, evaluated in order."""
    env = dict(env)
    for eqn in eqns:
        values = [read(env, var) for var in eqn.invars]
        if is_sum(eqn):
            out = [ordered_sum(values[0], eqn.params["axes"])]
        else:
            out = rounded(eqn, bind(eqn, values), env)
        env.update(zip(eqn.outvars, out, strict=True))
    return env


def rounded(eqn: Any, values: list, env: dict) -> list:
    """Rounds a product before anything is added to it.

    The compiler would fuse some products with some sums, and which ones depends on what else is
    computed: on the metrics, on a delay. Here -0.0, whose value it does not know, is added first:
    at no cost, since that makes one fused instruction with the result of the product alone.
    """
    if eqn.primitive.name in _PRODUCTS and MINUS_ZERO in env:
        (value,) = values
        if jnp.issubdtype(value.dtype, jnp.floating):
            return [value + env[MINUS_ZERO].astype(value.dtype)]
    return values


def inlined(function: Any, *args: Any) -> jex.ClosedJaxpr:
    """Returns the equations of `function(*args)` with every call inlined."""
    return flat_jaxpr(function, *args)[0]


def flat_jaxpr(function: Any, *args: Any) -> tuple[jex.ClosedJaxpr, Any]:
    """Returns `inlined(function, *args)` and the tree of the result."""
    flat, tree = jax.tree.flatten(args)

    def of_leaves(*leaves):
        return function(*jax.tree.unflatten(tree, leaves))

    closed, out_shape = jax.make_jaxpr(of_leaves, return_shape=True)(*flat)
    flattened = jax.make_jaxpr(lambda *leaves: _inlined(closed.jaxpr, closed.consts, leaves))(*flat)
    return _without_repeats(flattened), jax.tree.structure(out_shape)


def _without_repeats(closed: jex.ClosedJaxpr) -> jex.ClosedJaxpr:
    """Computes once what several equations compute, `value(f, x)` in predict and update say."""
    seen: dict = {}
    same: dict = {}  # variable -> the earlier one with its value

    def renamed(var):
        return var if isinstance(var, jex.Literal) else same.get(var, var)

    def of_operand(var):
        if isinstance(var, jex.Literal):
            value = np.asarray(var.val)
            return value.dtype, value.shape, value.tobytes()
        return var

    eqns = []
    for eqn in closed.jaxpr.eqns:
        eqn = eqn.replace(invars=[renamed(var) for var in eqn.invars])
        key = (eqn.primitive, *map(of_operand, eqn.invars), *sorted(eqn.params.items()))
        try:
            earlier = seen.setdefault(key, eqn) if not eqn.effects else eqn
        except TypeError:  # a parameter that cannot be compared
            earlier = eqn
        if earlier is eqn:
            eqns.append(eqn)
        else:
            same.update(zip(eqn.outvars, earlier.outvars, strict=True))
    outvars = [renamed(var) for var in closed.jaxpr.outvars]
    return closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns, outvars=outvars))


def _inlined(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any]) -> list:
    env = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        values = [read(env, var) for var in eqn.invars]
        body = eqn.params.get(_CALLS.get(eqn.primitive.name, ""))
        if eqn.primitive is DRAWN:
            out = [DRAWN.bind(*values)]
        elif body is None:
            out = bind(eqn, values)
        elif isinstance(body, jex.ClosedJaxpr):
            out = _inlined(body.jaxpr, body.consts, values)
        else:
            out = _inlined(body, (), values)
        env.update(zip(eqn.outvars, out, strict=True))
    return [read(env, var) for var in jaxpr.outvars]
