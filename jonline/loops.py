"""Values of many lanes, and loops in which all lanes go round together.

How the equations of a loop's body are evaluated, and where the lane axis of a value is, is the
business of the round that the loop is in (`Within`).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex

from jonline import equations


class Lanes(NamedTuple):
    """A value that differs between lanes: `value` is s + (L,) where one lane has s."""

    value: Any


def spread(value: Any, num_lanes: int) -> Lanes:
    """Returns a value with the lane axis last, copying it to all lanes where it is shared."""
    if isinstance(value, Lanes):
        return value
    value = jnp.asarray(value)
    return Lanes(jnp.broadcast_to(value[..., None], (*value.shape, num_lanes)))


class Within(NamedTuple):
    """How the body of a loop is evaluated.

    Attributes:
      evaluate: `(eqns, env, num_lanes) -> env`, of the round that the loop is in.
      place: `(aval) -> axis`, where that holds the lane axis of a value.
      env: its environment.
    """

    evaluate: Callable[[Sequence[Any], dict, int], dict]
    place: Callable[[Any], int]
    env: dict


def last(aval: Any) -> int:
    del aval
    return -1


def _call(closed: Any, values: Sequence[Any], num_lanes: int, within: Within) -> list:
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    if equations.MINUS_ZERO in within.env:
        env[equations.MINUS_ZERO] = within.env[equations.MINUS_ZERO]
    env.update(zip(closed.jaxpr.invars, values, strict=True))
    env = within.evaluate(closed.jaxpr.eqns, env, num_lanes)
    return [equations.read(env, var) for var in closed.jaxpr.outvars]


def while_loop(eqn: Any, values: list, num_lanes: int, within: Within) -> list:
    """All lanes go on until the last is done; a lane that is done keeps its values."""
    p = eqn.params
    n_cond, n_body = p["cond_nconsts"], p["body_nconsts"]
    cond_consts, body_consts = values[:n_cond], values[n_cond : n_cond + n_body]

    start = values[n_cond + n_body :]
    places = [within.place(var.aval) for var in eqn.outvars]
    flags = _flags(start)
    while True:
        (ends_apart,) = _differ(p["cond_jaxpr"], _flags(cond_consts) + flags)
        after = _differ(p["body_jaxpr"], _flags(body_consts) + flags)
        more = [a or b or ends_apart for a, b in zip(flags, after, strict=True)]
        if more == flags:
            break
        flags = more

    def goes_on(carry):
        (on,) = _call(p["cond_jaxpr"], [*cond_consts, *_marked(carry, flags)], num_lanes, within)
        return on.value if isinstance(on, Lanes) else on

    def body(carry):
        new = _call(p["body_jaxpr"], [*body_consts, *_marked(carry, flags)], num_lanes, within)
        new = _plain(new, flags, num_lanes, places)
        if not ends_apart:
            return new
        on = goes_on(carry)
        return [
            jnp.where(on if place == -1 else on.reshape(-1, *[1] * (a.ndim - 1)), a, b)
            for a, b, place in zip(new, carry, places, strict=True)
        ]

    start = _plain(start, flags, num_lanes, places)
    last = lax.while_loop(lambda carry: jnp.any(goes_on(carry)), body, start)
    return _marked(last, flags)


def scan(eqn: Any, values: list, num_lanes: int, within: Within) -> list:
    p = eqn.params
    n_consts, n_carry = p["num_consts"], p["num_carry"]
    consts, carry, xs = (
        values[:n_consts],
        values[n_consts : n_consts + n_carry],
        values[n_consts + n_carry :],
    )
    flags = _flags(carry)
    while True:
        after = _differ(p["jaxpr"], _flags(consts) + flags + _flags(xs))
        more = [a or b for a, b in zip(flags, after[:n_carry], strict=True)]
        if more == flags:
            break
        flags = more
    of_ys = after[n_carry:]
    places = [within.place(var.aval) for var in eqn.outvars]
    of_one = [within.place(var.aval) for var in p["jaxpr"].jaxpr.invars[n_consts + n_carry :]]
    whole = [within.place(var.aval) for var in eqn.invars[n_consts + n_carry :]]
    ys_of_one = [within.place(var.aval) for var in p["jaxpr"].jaxpr.outvars[n_carry:]]

    def body(carry, now):
        now = [
            jnp.moveaxis(x, -1, place) if differs else x
            for x, differs, place in zip(now, _flags(xs), of_one, strict=True)
        ]
        args = [*consts, *_marked(carry, flags), *_marked(now, _flags(xs))]
        out = _call(p["jaxpr"], args, num_lanes, within)
        ys = _plain(out[n_carry:], of_ys, num_lanes, ys_of_one)
        ys = [
            jnp.moveaxis(y, place, -1) if differs else y
            for y, differs, place in zip(ys, of_ys, ys_of_one, strict=True)
        ]
        return _plain(out[:n_carry], flags, num_lanes, places[:n_carry]), ys

    start = _plain(carry, flags, num_lanes, places[:n_carry])
    plain = [
        jnp.moveaxis(x.value, place, -1) if isinstance(x, Lanes) else x
        for x, place in zip(xs, whole, strict=True)
    ]
    last, ys = lax.scan(body, start, plain, p["length"], p["reverse"], p["unroll"])
    ys = [
        jnp.moveaxis(y, -1, place) if differs else y
        for y, differs, place in zip(ys, of_ys, places[n_carry:], strict=True)
    ]
    return [*_marked(last, flags), *_marked(ys, of_ys)]


def _flags(values: Sequence[Any]) -> list[bool]:
    return [isinstance(value, Lanes) for value in values]


def _marked(values: Sequence[Any], flags: Sequence[bool]) -> list:
    return [Lanes(v) if differs else v for v, differs in zip(values, flags, strict=True)]


def _plain(
    values: Sequence[Any], flags: Sequence[bool], num_lanes: int, places: Sequence[int]
) -> list:
    """The arrays of values, spread over the lanes where `flags` says that lanes may differ."""
    plain = []
    for value, differs, place in zip(values, flags, places, strict=True):
        if isinstance(value, Lanes):
            plain.append(value.value)
        elif differs:
            plain.append(jnp.moveaxis(spread(value, num_lanes).value, -1, place))
        else:
            plain.append(value)
    return plain


def _differ(closed: Any, flags: Sequence[bool]) -> list[bool]:
    """Which results of a jaxpr may differ between lanes, if the flagged arguments do."""
    differs = dict(zip(closed.jaxpr.invars, flags, strict=True))
    for eqn in closed.jaxpr.eqns:
        any_differs = any(differs.get(v) for v in eqn.invars if not isinstance(v, jex.Literal))
        differs.update(dict.fromkeys(eqn.outvars, any_differs))
    outs = closed.jaxpr.outvars
    return [not isinstance(v, jex.Literal) and bool(differs.get(v)) for v in outs]
