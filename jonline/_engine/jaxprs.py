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

# What comes out of these may lie where what goes in lies.
_VIEWS = frozenset(
    """
    bitcast_convert_type broadcast_in_dim convert_element_type copy optimization_barrier reshape
    slice squeeze stop_gradient transpose
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
    jaxpr: Any,
    consts: Sequence[Any],
    args: Sequence[Any],
    minus_zero: Any = None,
    carried: Sequence[bool] = (),
) -> list:
    """Evaluates a jaxpr with its calls inlined, as `exact` says where it is given -0.0."""
    env = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    constant = set(jaxpr.constvars)
    in_place = {var for var, flag in zip(jaxpr.invars, carried, strict=False) if flag}
    for eqn in jaxpr.eqns:
        values = [read(env, var) for var in eqn.invars]
        body = eqn.params.get(_CALLS.get(eqn.primitive.name, ""))
        fixed = [isinstance(var, jex.Literal) or var in constant for var in eqn.invars]
        flags = [not isinstance(var, jex.Literal) and var in in_place for var in eqn.invars]
        constant.update(eqn.outvars if all(fixed) else ())
        in_place.update(eqn.outvars if any(flags) and eqn.primitive.name in _VIEWS else ())
        if eqn.primitive is DRAWN:
            out = [DRAWN.bind(*values)]
        elif isinstance(body, jex.ClosedJaxpr):
            out = _inlined(body.jaxpr, body.consts, values, minus_zero, flags)
        elif body is not None:
            out = _inlined(body, (), values, minus_zero, flags)
        elif minus_zero is None:
            out = bind(eqn, values)
        else:
            out = _exact(eqn, values, any(fixed), flags, minus_zero)
        env.update(zip(eqn.outvars, out, strict=True))
    return [read(env, var) for var in jaxpr.outvars]


def exact(closed: jex.ClosedJaxpr, carried: Sequence[bool] = ()) -> jex.ClosedJaxpr:
    """Returns equations of the same values, whose bits depend on nothing else that is computed.

    Their first argument is -0.0, of which the compiler must not know: it is added to what a sum
    that follows could be fused with, at no cost, since that makes one fused instruction with the
    product alone. Floating sums become `ordered_sum`s. Calls in the bodies of loops and in branches
    are inlined. What a loop within a loop reads of the outer one's carry it reads from a copy: the
    compiler would write the new carry there too early.

    Args:
      closed: equations.
      carried: which arguments are the carry of a loop that the equations are the body of.
    """

    def function(minus_zero, *args):
        return _inlined(closed.jaxpr, closed.consts, args, minus_zero, carried)

    avals = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in closed.in_avals]
    return jax.make_jaxpr(function)(jax.ShapeDtypeStruct((), jnp.float32), *avals)


def _exact(
    eqn: Any, values: list, has_constant: bool, carried: Sequence[bool], minus_zero: Any
) -> list:
    name = eqn.primitive.name
    if name in ("while", "scan", "cond"):
        return _with_exact_bodies(eqn, values, carried, minus_zero)
    if not any(is_float(var.aval) for var in eqn.outvars):
        return bind(eqn, values)

    def rounded(value):
        return value + minus_zero.astype(value.dtype) if is_float(value) else value

    if name == "reduce_sum":
        axes = eqn.params["axes"]
        return [ordered_sum(values[0], axes) if axes else values[0]]
    if name == "rsqrt":  # else an approximate one, by vector width
        return [rounded(1 / rounded(jax.lax.sqrt(values[0])))]
    if name == "div":
        values = _with_hidden_divisor(values, eqn.outvars[0].aval.shape)
    if name.startswith("scatter"):  # which the compiler makes a loop of
        values = [values[0], *_copied(values[1:], carried[1:], minus_zero)]
    out = bind(eqn, values)
    reassociated = has_constant and name in ("add", "sub")
    return out if name in _PLAIN and not reassociated else [*map(rounded, out)]


def _copied(values: Sequence[Any], flags: Sequence[bool], minus_zero: Any) -> list:
    """Returns values, those that are flagged in other memory."""

    def copy(value):
        if is_float(value):
            return value + minus_zero.astype(value.dtype)
        if jnp.iscomplexobj(value):
            return jax.lax.complex(copy(value.real), copy(value.imag))
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            data, impl = copy(jax.random.key_data(value)), jax.random.key_impl(value)
            return jax.random.wrap_key_data(data, impl=impl)
        zero = jax.lax.bitcast_convert_type(minus_zero, jnp.uint32) - jnp.uint32(1 << 31)
        return value ^ zero.astype(value.dtype)

    return [copy(value) if flag else value for value, flag in zip(values, flags, strict=True)]


def _with_hidden_divisor(values: list, shape: tuple) -> list:
    """Hides that a divisor is spread: of such a one the compiler takes the reciprocal."""
    by, divisor = values
    if isinstance(divisor, jax.Array) or abs(np.frexp(np.float64(divisor))[0]) != 0.5:
        whole = jnp.broadcast_to(divisor, shape).astype(jnp.asarray(by).dtype)
        return [*jax.lax.optimization_barrier((jnp.broadcast_to(by, shape), whole))]
    return values


def _with_exact_bodies(eqn: Any, values: list, carried: Sequence[bool], minus_zero: Any) -> list:
    p = eqn.params
    if eqn.primitive.name == "cond":
        values = [values[0], minus_zero, *values[1:]]
        more = {"branches": tuple(exact(branch, carried[1:]) for branch in p["branches"])}
    elif eqn.primitive.name == "scan":
        num_consts, num_carry = p["num_consts"], p["num_carry"]
        is_carry = [num_consts <= i < num_consts + num_carry for i in range(len(values))]
        read_only = [flag and not c for flag, c in zip(carried, is_carry, strict=True)]
        values = [minus_zero, *_copied(values, read_only, minus_zero)]
        more = {"num_consts": num_consts + 1, "jaxpr": exact(p["jaxpr"], is_carry)}
    else:
        of_cond, of_body = p["cond_nconsts"], p["body_nconsts"]
        consts = of_cond + of_body
        copied = _copied(values[:consts], carried[:consts], minus_zero)
        values = [minus_zero, *copied[:of_cond], minus_zero, *copied[of_cond:], *values[consts:]]
        more = {"cond_nconsts": of_cond + 1, "cond_jaxpr": exact(p["cond_jaxpr"])}
        is_carry = [i >= of_body for i in range(len(p["body_jaxpr"].in_avals))]
        more |= {"body_nconsts": of_body + 1, "body_jaxpr": exact(p["body_jaxpr"], is_carry)}
    return bind(eqn.replace(params=p | more), values)
