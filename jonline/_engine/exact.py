"""Exactness: what makes the bits of a lane depend on nothing but its own equations.

XLA promises no order and no rounding. It fuses a product with the sum that follows, adds in the
order that suits its vectors, divides by reciprocals, computes in scalars what is left of a vector,
and hands large reduces to another library: all that by what else is computed, so by the metrics, a
delay, the number of lanes. Against each there is one cure, all of them here: the numbers that a sum
could be fused with are rounded by adding -0.0, of which the compiler does not know (it is one fused
instruction with the product alone, at no cost); sums have one order; divisors are hidden; what is
the same in all lanes and changes from round to round is held apart in each; blocks are full
vectors; and an option of the compiler keeps reduces in its own code.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

from jonline._engine import primitives
from jonline._engine.jaxprs import bind, is_float
from jonline._engine.primitives import Trait, has

# Lanes of a block and rounds of a chunk are a multiple: full vectors of float32.
LANE_MULTIPLE = 16

# The first keeps bits: reduces and dots by XLA's own code, whatever their size. The second keeps
# time: no copy of a buffer that is read and written in one round.
COMPILER_OPTIONS = {
    "xla_cpu_experimental_ynn_fusion_type": "",
    "xla_cpu_copy_insertion_use_region_analysis": True,
}

# What a value can differ by: a constant of the program; the call (the data); the round as well; for
# floating numbers the lane as well.
CONSTANT, FIXED, ALIKE, APART = range(4)


_LARGE = 2048  # numbers of a matrix whose products are left to the compiler


class Zeros(NamedTuple):
    """Numbers -0.0 of which the compiler does not know.

    Attributes:
      shared: the same in all lanes.
      own: one of each lane; None where nothing need be held apart.
    """

    shared: Any
    own: Any


class _Value(NamedTuple):
    """A value, what it can differ by, and whether it may lie where the carry of a loop lies."""

    value: Any
    kind: int = CONSTANT
    in_place: bool = False


def minus_zero(never: Any) -> Any:
    """Returns -0.0, of which the compiler cannot know: it does not know what never happens."""
    sign = jnp.uint32(1 << 31) | never.astype(jnp.uint32)
    return jax.lax.bitcast_convert_type(sign, jnp.float32)


def exact(
    closed: jex.ClosedJaxpr, fixed: Sequence[bool], carried: Sequence[bool], is_wide: bool = False
) -> jex.ClosedJaxpr:
    """Returns equations of the same values, whose bits depend on nothing else that is computed.

    They have two more arguments, before the others: `Zeros.shared` and `Zeros.own`. Calls in the
    bodies of loops and in branches are inlined. What a loop within a loop reads of the outer one's
    carry it reads from a copy: the compiler would write the new carry there too early.

    Args:
      closed: equations without calls.
      fixed: which arguments are the same in all rounds and lanes.
      carried: which arguments are the carry of the loop that the equations are the body of.
      is_wide: whether lanes are played one after another, so that a product with a matrix is left
        to the compiler, which knows nothing of lanes.
    """
    avals = zip(fixed, closed.in_avals, strict=True)
    kinds = [FIXED if flag else _moving(aval) for flag, aval in avals]
    ahead = before_examples(closed.jaxpr)
    return _traced(closed, kinds, carried, ahead, has_own=not is_wide)[0]


def _moving(aval: Any) -> int:
    return APART if _is_inexact(aval) else ALIKE


def _is_inexact(aval: Any) -> bool:
    return jnp.issubdtype(aval.dtype, jnp.inexact)


def before_examples(jaxpr: Any) -> frozenset:
    """Numbers of the equations that only examples are made of, which are drawn ahead."""
    needed = {var for var in jaxpr.outvars if not isinstance(var, jex.Literal)}
    found = []
    for i, eqn in reversed([*enumerate(jaxpr.eqns)]):
        if not any(var in needed for var in eqn.outvars):
            found.append(i)
        elif not primitives.is_drawn(eqn):
            needed.update(var for var in eqn.invars if not isinstance(var, jex.Literal))
    return frozenset(found)


def _traced(
    closed: jex.ClosedJaxpr,
    kinds: Sequence[int],
    carried: Sequence[bool],
    ahead: frozenset = frozenset(),
    has_own: bool = True,
) -> tuple[jex.ClosedJaxpr, list[int]]:
    """Returns exact equations, and the kinds of what they return."""
    of_outs: list[int] = []

    def function(shared, own, *args):
        zeros = Zeros(shared, own if has_own else None)
        values = [*map(_Value, args, kinds, carried)]
        out = _walk(closed.jaxpr, closed.consts, values, zeros, ahead)
        of_outs.extend(value.kind for value in out)
        return [value.value for value in out]

    zero = jax.ShapeDtypeStruct((), jnp.float32)
    avals = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in closed.in_avals]
    return jax.make_jaxpr(function)(zero, zero, *avals), of_outs


def _body(
    closed: jex.ClosedJaxpr, kinds: Sequence[int], carry: range, zeros: Zeros
) -> tuple[jex.ClosedJaxpr, list[int]]:
    """The same for the body of a loop: arguments `carry` and the first results are its carry."""
    carried = [i in carry for i in range(len(kinds))]
    exactly, of_outs = _traced(closed, kinds, carried, has_own=zeros.own is not None)

    def function(*args):
        args = [primitives.lanes_fastest(a) if i - 2 in carry else a for i, a in enumerate(args)]
        out = jex.jaxpr_as_fun(exactly)(*args)
        return [*map(primitives.lanes_fastest, out[: len(carry)]), *out[len(carry) :]]

    avals = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in exactly.in_avals]
    return jax.make_jaxpr(function)(*avals), of_outs


def _walk(
    jaxpr: Any,
    consts: Sequence[Any],
    args: Sequence[_Value],
    zeros: Zeros,
    ahead: frozenset = frozenset(),
) -> list[_Value]:
    """Evaluates a jaxpr with its calls inlined, each equation as its exactness asks for."""
    env = dict(zip(jaxpr.constvars, map(_Value, consts), strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(var):
        return _Value(var.val) if isinstance(var, jex.Literal) else env[var]

    for i, eqn in enumerate(jaxpr.eqns):
        values = [read(var) for var in eqn.invars]
        body = primitives.called(eqn)
        here = zeros._replace(own=None) if i in ahead else zeros
        if body is not None:
            out = _walk(getattr(body, "jaxpr", body), getattr(body, "consts", ()), values, here)
        elif eqn.primitive.name in _LOOPS:
            out = _LOOPS[eqn.primitive.name](eqn, values, here)
        else:
            out = _equation(eqn, values, here)
        env.update(zip(eqn.outvars, out, strict=True))
    return [read(var) for var in jaxpr.outvars]


def _equation(eqn: Any, values: Sequence[_Value], zeros: Zeros) -> list[_Value]:
    kind = max((value.kind for value in values), default=CONSTANT)
    in_place = has(eqn, Trait.VIEW) and any(value.in_place for value in values)
    out = _evaluated(eqn, values, zeros)
    if primitives.is_drawn(eqn):
        return [_Value(value, _moving(value)) for value in out]
    if kind == ALIKE:
        out = [_apart(value, zeros) for value in out]
    return [_Value(v, kind if kind <= FIXED else _moving(v), in_place) for v in out]


def _evaluated(eqn: Any, values: Sequence[_Value], zeros: Zeros) -> list:
    """The results of an equation, rounded where a sum could be fused with them."""
    name, plain = eqn.primitive.name, [value.value for value in values]
    if name == "dynamic_slice":
        return [primitives.take(*plain, slice_sizes=eqn.params["slice_sizes"])]
    if name == "dynamic_update_slice":
        return [primitives.put(*plain)]
    if name == "fft":
        return [primitives.in_order(bind(eqn, [primitives.in_order(plain[0])])[0])]
    if not any(is_float(var.aval) for var in eqn.outvars):
        return bind(eqn, plain)

    def rounded(value):
        return value + zeros.shared.astype(value.dtype) if is_float(value) else value

    if name == "reduce_sum":
        return [primitives.ordered_sum(plain[0], eqn.params["axes"])]
    if name == "dot_general" and _is_with_vector(eqn, zeros):
        return [_product_with_vector(eqn, plain, rounded)]
    if name == "rsqrt":  # else an approximate one, by vector width
        return [rounded(1 / rounded(jax.lax.sqrt(plain[0])))]
    if name == "div":
        plain = _with_hidden_divisor(plain, eqn.outvars[0].aval.shape)
    if name.startswith("scatter"):  # which the compiler makes a loop of
        plain = [plain[0], *_copied(values[1:], zeros.shared)]
    out = bind(eqn, plain)
    has_constant = any(value.kind == CONSTANT for value in values)
    reassociated = has_constant and name in ("add", "sub")
    return out if has(eqn, Trait.PLAIN) and not reassociated else [*map(rounded, out)]


def _apart(value: Any, zeros: Zeros) -> Any:
    """A floating number made of whole ones that all lanes may share, held apart in each."""
    if zeros.own is None or not _is_inexact(value):
        return value
    if jnp.iscomplexobj(value):
        return jax.lax.complex(_apart(value.real, zeros), _apart(value.imag, zeros))
    return value + zeros.own.astype(value.dtype)


def _is_with_vector(eqn: Any, zeros: Zeros) -> bool:
    """Whether an equation multiplies a vector with another, or with a matrix of many lanes.

    Numbers of less than 32 bits are left to JAX, which sums them in more.
    """
    (left, right), out = (var.aval for var in eqn.invars), eqn.outvars[0].aval
    most = _LARGE if zeros.own is not None else 0
    if min(left.ndim, right.ndim) != 1 or (out.shape and max(left.size, right.size) > most):
        return False
    (of_left, _), (batch, _) = eqn.params["dimension_numbers"]
    is_plain = is_float(out) and out.dtype.itemsize >= 4
    return is_plain and left.dtype == right.dtype == out.dtype and len(of_left) == 1 and not batch


def _product_with_vector(eqn: Any, values: Sequence[Any], rounded: Callable) -> Any:
    """A sum of rounded products."""
    left, right = map(jnp.asarray, values)
    (of_left, of_right), _ = eqn.params["dimension_numbers"]
    matrix, vector, axis = (right, left, of_right) if left.ndim == 1 else (left, right, of_left)
    spread = jax.lax.broadcast_in_dim(vector, matrix.shape, axis)
    factors = (spread, matrix) if left.ndim == 1 else (matrix, spread)
    return primitives.ordered_sum(rounded(factors[0] * factors[1]), axis)


def _with_hidden_divisor(values: list, shape: tuple) -> list:
    """Hides that a divisor is spread: of such a one the compiler takes the reciprocal."""
    by, divisor = values
    if isinstance(divisor, jax.Array) or abs(np.frexp(np.float64(divisor))[0]) != 0.5:
        whole = jnp.broadcast_to(divisor, shape).astype(jnp.asarray(by).dtype)
        return [*jax.lax.optimization_barrier((jnp.broadcast_to(by, shape), whole))]
    return values


def _copied(values: Sequence[_Value], zero: Any) -> list:
    """Returns values, those that may lie in a carry in other memory."""

    def copy(value):
        if is_float(value):
            return value + zero.astype(value.dtype)
        if jnp.iscomplexobj(value):
            return jax.lax.complex(copy(value.real), copy(value.imag))
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            data, impl = copy(jax.random.key_data(value)), jax.random.key_impl(value)
            return jax.random.wrap_key_data(data, impl=impl)
        nothing = jax.lax.bitcast_convert_type(zero, jnp.uint32) - jnp.uint32(1 << 31)
        return value ^ nothing.astype(value.dtype)

    return [copy(value.value) if value.in_place else value.value for value in values]


def _started(values: Sequence[_Value], zeros: Zeros) -> list:
    """What a loop's carry begins with; the floating numbers of it are held apart."""
    start = [v.value if v.kind == APART else _apart(jnp.asarray(v.value), zeros) for v in values]
    return [primitives.lanes_fastest(jnp.asarray(value)) for value in start]


def _while(eqn: Any, values: Sequence[_Value], zeros: Zeros) -> list[_Value]:
    p = eqn.params
    of_cond, of_body = p["cond_nconsts"], p["body_nconsts"]
    consts, start = values[: of_cond + of_body], values[of_cond + of_body :]
    read_only, moving = _copied(consts, zeros.shared), [_moving(var.aval) for var in eqn.outvars]
    kinds = [value.kind for value in consts]
    of_test = [*kinds[:of_cond], *moving]
    has_own = zeros.own is not None
    cond, _ = _traced(p["cond_jaxpr"], of_test, [False] * len(of_test), has_own=has_own)
    carry = range(of_body, of_body + len(moving))
    body, _ = _body(p["body_jaxpr"], [*kinds[of_cond:], *moving], carry, zeros)
    more = {"cond_nconsts": of_cond + 2, "cond_jaxpr": cond}
    more |= {"body_nconsts": of_body + 2, "body_jaxpr": body}
    both = _both(zeros)
    args = [*both, *read_only[:of_cond], *both, *read_only[of_cond:], *_started(start, zeros)]
    out = bind(eqn.replace(params=p | more), args)
    return [*map(_Value, out, moving)]


def _scan(eqn: Any, values: Sequence[_Value], zeros: Zeros) -> list[_Value]:
    p = eqn.params
    num_consts, end = p["num_consts"], p["num_consts"] + p["num_carry"]
    consts, start, xs = values[:num_consts], values[num_consts:end], values[end:]
    moving = [_moving(var.aval) for var in eqn.outvars[: len(start)]]
    kinds = [*(v.kind for v in consts), *moving, *(max(v.kind, FIXED) for v in xs)]
    body, of_outs = _body(p["jaxpr"], kinds, range(num_consts, end), zeros)
    more = {"num_consts": num_consts + 2, "jaxpr": body}
    read_only = _copied(consts, zeros.shared), _copied(xs, zeros.shared)
    args = [*_both(zeros), *read_only[0], *_started(start, zeros), *read_only[1]]
    out = bind(eqn.replace(params=p | more), args)
    return [*map(_Value, out, [*moving, *of_outs[len(start) :]])]


def _cond(eqn: Any, values: Sequence[_Value], zeros: Zeros) -> list[_Value]:
    which, *operands = values
    kinds, carried = [v.kind for v in operands], [v.in_place for v in operands]
    has_own = zeros.own is not None
    traced = [_traced(b, kinds, carried, has_own=has_own) for b in eqn.params["branches"]]
    params = eqn.params | {"branches": tuple(branch for branch, _ in traced)}
    args = [which.value, *_both(zeros), *(value.value for value in operands)]
    found = []
    of_branches = zip(*(of_outs for _, of_outs in traced), strict=True)
    for value, of_out in zip(bind(eqn.replace(params=params), args), of_branches, strict=True):
        kind = max(which.kind, *of_out)
        if kind > FIXED:
            is_apart = min(of_out) == APART
            value, kind = value if is_apart else _apart(value, zeros), _moving(value)
        found.append(_Value(value, max(kind, FIXED)))
    return found


def _both(zeros: Zeros) -> tuple:
    return zeros.shared, zeros.shared if zeros.own is None else zeros.own


_LOOPS = {"while": _while, "scan": _scan, "cond": _cond}
