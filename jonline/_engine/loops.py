"""Values of many lanes, and loops in which all lanes go round together.

How the equations of a loop's body are evaluated, and which axis of a value is the lanes', is said
by the round that the loop is in (`LaneContext`).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex

from jonline._engine import jaxprs


class Lanes(NamedTuple):
    """A value that differs between lanes: `value` is s + (L,) where one lane has s."""

    value: Any


class Alike(NamedTuple):
    """Whole numbers that are the same in all lanes and other ones in another round.

    What becomes a floating number of them is held apart for every lane, as it is where an answer
    comes late: arithmetic with a shared number has other bits.
    """

    value: Any


class LaneContext(NamedTuple):
    """How the equations of a round are evaluated for many lanes.

    Attributes:
      num_lanes: L.
      minus_zero: -0.0, of which the compiler does not know.
      of_lanes: (L,) of the same.
      evaluate: `(eqns, env, context) -> env`.
      lane_axis: `(aval) -> axis`, which one of a value `evaluate` has for the lanes: 0 or -1.
    """

    num_lanes: int
    minus_zero: Any
    of_lanes: Any
    evaluate: Callable[[Sequence[Any], dict, Any], dict]
    lane_axis: Callable[[Any], int]


def last_axis(aval: Any) -> int:
    del aval
    return -1


def spread(value: Any, num_lanes: int) -> Lanes:
    """Returns a value with the lane axis last, copying it to all lanes where it is shared."""
    if isinstance(value, Lanes):
        return value
    value = jnp.asarray(shared(value))
    return Lanes(jnp.broadcast_to(value[..., None], (*value.shape, num_lanes)))


def shared(value: Any) -> Any:
    """The value of a shared one, which may change from round to round."""
    return value.value if isinstance(value, Alike) else value


def changing(value: Any, context: LaneContext) -> Lanes | Alike:
    """Marks a shared value that changes from round to round."""
    value = jnp.asarray(value)
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        return Alike(value)
    apart = spread(value, context.num_lanes).value
    if jaxprs.is_float(value):
        apart = apart + context.of_lanes.astype(value.dtype)  # to the compiler no copies of one
    return Lanes(jnp.moveaxis(apart, -1, context.lane_axis(value)))


def spread_at(value: Any, aval: Any, context: LaneContext) -> Lanes:
    """Returns a value with the lane axis that the context gives it."""
    if isinstance(value, Lanes):
        return value
    return Lanes(jnp.moveaxis(spread(value, context.num_lanes).value, -1, context.lane_axis(aval)))


def operands(eqn: Any, values: Sequence[Any], context: LaneContext) -> list:
    """The operands of an equation of lanes: Lanes, or shared arrays.

    In the branches of a condition, which JAX evaluates, floating numbers may be made of them.
    """
    if eqn.primitive.name != "cond":
        return [*map(shared, values)]
    pairs = zip(values[1:], eqn.invars[1:], strict=True)
    rest = [spread_at(v, var.aval, context) if isinstance(v, Alike) else v for v, var in pairs]
    return [shared(values[0]), *rest]


def of_shared(eqn: Any, values: Sequence[Any], context: LaneContext) -> list:
    """Evaluates an equation none of whose operands differs between lanes."""
    out = jaxprs.bind(eqn, [shared(value) for value in values])
    changes = eqn.primitive is jaxprs.DRAWN or any(isinstance(v, Alike) for v in values)
    return [changing(value, context) for value in out] if changes else out


def _call(closed: Any, values: Sequence[Any], context: LaneContext) -> list:
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(closed.jaxpr.invars, _marked(values, [False] * len(values)), strict=True))
    env = context.evaluate(closed.jaxpr.eqns, env, context)
    return [jaxprs.read(env, var) for var in closed.jaxpr.outvars]


def while_loop(eqn: Any, values: list, context: LaneContext) -> list:
    """All lanes go on until the last is done; a lane that is done keeps its values."""
    p = eqn.params
    n_cond, n_body = p["cond_nconsts"], p["body_nconsts"]
    cond_consts, body_consts = values[:n_cond], values[n_cond : n_cond + n_body]

    start = values[n_cond + n_body :]
    lane_axes = [context.lane_axis(var.aval) for var in eqn.outvars]
    flags = [a or _is_inexact(var) for a, var in zip(_flags(start), eqn.outvars, strict=True)]
    while True:
        (ends_apart,) = _differ(p["cond_jaxpr"], _flags(cond_consts) + flags)
        after = _differ(p["body_jaxpr"], _flags(body_consts) + flags)
        more = [a or b or ends_apart for a, b in zip(flags, after, strict=True)]
        if more == flags:
            break
        flags = more

    def goes_on(carry):
        (on,) = _call(p["cond_jaxpr"], [*cond_consts, *_marked(carry, flags)], context)
        return on.value if isinstance(on, Lanes) else shared(on)

    def body(carry):
        new = _call(p["body_jaxpr"], [*body_consts, *_marked(carry, flags)], context)
        new = _plain(new, flags, eqn.outvars, context)
        if not ends_apart:
            return new
        on = goes_on(carry)
        return [
            jnp.where(on if lane_axis == -1 else on.reshape(-1, *[1] * (a.ndim - 1)), a, b)
            for a, b, lane_axis in zip(new, carry, lane_axes, strict=True)
        ]

    start = _plain(start, flags, eqn.outvars, context)
    last = lax.while_loop(lambda carry: jnp.any(goes_on(carry)), body, start)
    return _marked(last, flags)


def scan(eqn: Any, values: list, context: LaneContext) -> list:
    p = eqn.params
    n_consts, n_carry = p["num_consts"], p["num_carry"]
    consts, carry, xs = (
        values[:n_consts],
        values[n_consts : n_consts + n_carry],
        values[n_consts + n_carry :],
    )
    flags = [a or _is_inexact(var) for a, var in zip(_flags(carry), eqn.outvars, strict=False)]
    while True:
        after = _differ(p["jaxpr"], _flags(consts) + flags + _flags(xs))
        more = [a or b for a, b in zip(flags, after[:n_carry], strict=True)]
        if more == flags:
            break
        flags = more
    of_ys, of_xs = after[n_carry:], _flags(xs)
    of_carry, whole_ys = eqn.outvars[:n_carry], eqn.outvars[n_carry:]
    of_one, ys_of_one = p["jaxpr"].jaxpr.invars[n_consts + n_carry :], p["jaxpr"].jaxpr.outvars

    def body(carry, now):
        now = _with_lanes(now, of_xs, [-1] * len(xs), _lane_axes(of_one, context))
        args = [*consts, *_marked(carry, flags), *_marked(now, of_xs)]
        out = _call(p["jaxpr"], args, context)
        ys = _plain(out[n_carry:], of_ys, ys_of_one[n_carry:], context)
        ys = _with_lanes(ys, of_ys, _lane_axes(ys_of_one[n_carry:], context), [-1] * len(ys))
        return _plain(out[:n_carry], flags, of_carry, context), ys

    start = _plain(carry, flags, of_carry, context)
    arrays = [x.value if isinstance(x, Lanes) else x for x in xs]
    whole = _lane_axes(eqn.invars[n_consts + n_carry :], context)
    arrays = _with_lanes(arrays, of_xs, whole, [-1] * len(xs))
    last, ys = lax.scan(body, start, arrays, p["length"], p["reverse"], p["unroll"])
    ys = _with_lanes(ys, of_ys, [-1] * len(ys), _lane_axes(whole_ys, context))
    return [*_marked(last, flags), *_marked(ys, of_ys)]


def _lane_axes(variables: Sequence[Any], context: LaneContext) -> list[int]:
    return [context.lane_axis(var.aval) for var in variables]


def _with_lanes(
    values: Sequence[Any], flags: Sequence[bool], here: Sequence[int], there: Sequence[int]
) -> list:
    """Moves the lane axis of the flagged values from `here` to `there`."""
    each = zip(values, flags, here, there, strict=True)
    return [jnp.moveaxis(v, a, b) if differs else v for v, differs, a, b in each]


def _flags(values: Sequence[Any]) -> list[bool]:
    return [isinstance(value, Lanes) for value in values]


def _marked(values: Sequence[Any], flags: Sequence[bool]) -> list:
    """Marks arrays that differ between lanes, and whole numbers, which change in the loop."""

    def marked(value, differs):
        if differs:
            return Lanes(value)
        is_marked = isinstance(value, Lanes | Alike)
        is_plain = is_marked or jnp.issubdtype(jnp.asarray(value).dtype, jnp.inexact)
        return value if is_plain else Alike(value)

    return [*map(marked, values, flags)]


def _plain(
    values: Sequence[Any], flags: Sequence[bool], variables: Sequence[Any], context: LaneContext
) -> list:
    """The arrays of values, spread over the lanes where `flags` says that lanes may differ."""
    each = zip(values, flags, variables, strict=True)
    return [spread_at(v, var.aval, context).value if f else shared(v) for v, f, var in each]


def _differ(closed: Any, flags: Sequence[bool]) -> list[bool]:
    """Which results of a jaxpr may differ between lanes, if the flagged arguments do."""
    differs = dict(zip(closed.jaxpr.invars, flags, strict=True))
    for eqn in closed.jaxpr.eqns:
        any_differs = any(differs.get(v) for v in eqn.invars if not isinstance(v, jex.Literal))
        differs.update((var, any_differs or _is_inexact(var)) for var in eqn.outvars)
    outs = closed.jaxpr.outvars
    return [not isinstance(v, jex.Literal) and bool(differs.get(v)) for v in outs]


def _is_inexact(var: Any) -> bool:
    return jnp.issubdtype(var.aval.dtype, jnp.inexact)
