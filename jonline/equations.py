"""Equations of a traced function: flattened, without repeats, exact, and evaluated one by one.

The compiler fuses some products with some sums, reorders sums of sums and of constants, and divides
by reciprocals; which ones depends on what else is computed: on the metrics, on a delay. `exact`
writes equations so that it cannot.
"""

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
# What comes out of these no compiler makes one instruction of with a sum that follows.
_PLAIN = frozenset(
    """
    abs add add_any bitcast_convert_type broadcast_in_dim ceil clamp concatenate
    convert_element_type copy cummax cummin dynamic_slice dynamic_update_slice floor gather iota max
    min neg nextafter optimization_barrier pad reduce_max reduce_min reduce_precision reshape rev
    round scatter scatter-add scatter-max scatter-min select_n sign slice sort split squeeze
    stop_gradient sub top_k transpose
    """.split()
)

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


def is_float(aval: Any) -> bool:
    """Whether a value holds real floating numbers."""
    return jnp.issubdtype(aval.dtype, jnp.floating)


def is_sum(eqn: Any) -> bool:
    """Whether an equation is a sum over axes as `ordered_sum` writes it."""
    if eqn.primitive.name != "reduce" or len(eqn.invars) != 2:
        return False
    start, steps = eqn.invars[1], eqn.params["jaxpr"].eqns
    is_zero = isinstance(start, jex.Literal) and start.val == 0
    return is_zero and [step.primitive.name for step in steps] == ["neg", "sub"]


def is_with_vector(eqn: Any) -> bool:
    """Whether an equation multiplies with a vector, and its sums may be `ordered_sum`s.

    Numbers of less than 32 bits are left to JAX, which sums them in more.
    """
    (left, right), out = (var.aval for var in eqn.invars), eqn.outvars[0].aval
    if eqn.primitive.name != "dot_general" or min(left.ndim, right.ndim) != 1:
        return False
    (of_left, of_right), (batch, _) = eqn.params["dimension_numbers"]
    is_plain = is_float(out) and out.dtype.itemsize >= 4 and left.dtype == right.dtype == out.dtype
    return is_plain and len(of_left) == len(of_right) == 1 and not batch


def ordered_sum(values: Any, axes: Sequence[int]) -> Any:
    """Returns the sum over axes, whose order is that of the indices.

    The compiler takes a sum of sums in an order of its own, which depends on what else is computed.
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
        out = bind(eqn, [read(env, var) for var in eqn.invars])
        env.update(zip(eqn.outvars, out, strict=True))
    return env


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


def _inlined(
    jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], minus_zero: Any = None
) -> list:
    """Evaluates a jaxpr with its calls inlined, as `exact` says where it is given -0.0."""
    env = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    constant = set(jaxpr.constvars)
    for eqn in jaxpr.eqns:
        values = [read(env, var) for var in eqn.invars]
        body = eqn.params.get(_CALLS.get(eqn.primitive.name, ""))
        fixed = [isinstance(var, jex.Literal) or var in constant for var in eqn.invars]
        constant.update(eqn.outvars if all(fixed) else ())
        if eqn.primitive is DRAWN:
            out = [DRAWN.bind(*values)]
        elif isinstance(body, jex.ClosedJaxpr):
            out = _inlined(body.jaxpr, body.consts, values, minus_zero)
        elif body is not None:
            out = _inlined(body, (), values, minus_zero)
        elif minus_zero is None:
            out = bind(eqn, values)
        else:
            out = _exact(eqn, values, any(fixed), minus_zero)
        env.update(zip(eqn.outvars, out, strict=True))
    return [read(env, var) for var in jaxpr.outvars]


def exact(closed: jex.ClosedJaxpr) -> jex.ClosedJaxpr:
    """Returns equations of the same values, whose bits depend on nothing else that is computed.

    Their first argument is -0.0, of which the compiler must not know: it is added to what a sum
    that follows could be fused with, at no cost, since that makes one fused instruction with the
    product alone. Floating sums become `ordered_sum`s. Calls in the bodies of loops and in branches
    are inlined.
    """

    def function(minus_zero, *args):
        return _inlined(closed.jaxpr, closed.consts, args, minus_zero)

    return jax.make_jaxpr(function)(*_with_minus_zero(closed))


def _with_minus_zero(closed: jex.ClosedJaxpr) -> list:
    avals = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in closed.in_avals]
    return [jax.ShapeDtypeStruct((), jnp.float32), *avals]


def _exact(eqn: Any, values: list, has_constant: bool, minus_zero: Any) -> list:
    name, (aval, *_) = eqn.primitive.name, [var.aval for var in (*eqn.outvars, *eqn.invars)]
    if name in ("while", "scan", "cond"):
        return _with_exact_bodies(eqn, values, minus_zero)
    if name == "reduce_sum" and is_float(aval):
        axes = eqn.params["axes"]
        return [ordered_sum(values[0], axes) if axes else values[0]]

    def rounded(value):
        return value + minus_zero.astype(value.dtype) if is_float(value) else value

    if name == "rsqrt" and is_float(aval):  # else an approximate one, by vector width
        return [rounded(1 / rounded(jax.lax.sqrt(values[0])))]
    if name == "div" and is_float(aval):
        values = _with_hidden_divisor(values, aval.shape)
    out = bind(eqn, values)
    reassociated = has_constant and name in ("add", "sub")
    return out if name in _PLAIN and not reassociated else [*map(rounded, out)]


def _with_hidden_divisor(values: list, shape: tuple) -> list:
    """Hides that a divisor is spread: of such a one the compiler takes the reciprocal."""
    by, divisor = values
    if isinstance(divisor, jax.Array) or abs(np.frexp(np.float64(divisor))[0]) != 0.5:
        whole = jnp.broadcast_to(divisor, shape).astype(jnp.asarray(by).dtype)
        return [*jax.lax.optimization_barrier((jnp.broadcast_to(by, shape), whole))]
    return values


def _with_exact_bodies(eqn: Any, values: list, minus_zero: Any) -> list:
    p = eqn.params

    def exact_bodies(*names):
        return {name: exact(p[name]) for name in names}

    if eqn.primitive.name == "while":
        at, more = p["cond_nconsts"], {"cond_nconsts": p["cond_nconsts"] + 1}
        values = [minus_zero, *values[:at], minus_zero, *values[at:]]
        more |= {"body_nconsts": p["body_nconsts"] + 1, **exact_bodies("cond_jaxpr", "body_jaxpr")}
    elif eqn.primitive.name == "scan":
        values = [minus_zero, *values]
        more = {"num_consts": p["num_consts"] + 1, **exact_bodies("jaxpr")}
    else:
        values = [values[0], minus_zero, *values[1:]]
        more = {"branches": tuple(map(exact, p["branches"]))}
    return bind(eqn.replace(params=p | more), values)
