"""Evaluates one-lane equations for many lanes at once, with the lane axis last.

A value of shape s in one lane is held as s + (L,): the few numbers of a lane lie apart, the same
number of all lanes lies side by side, so elementwise operations and reduces run in full vectors
across lanes whatever s is. `jax.vmap` would put the lane axis first or move it back and forth; here
the frequent primitives are evaluated in place and only the rest goes through `vmap`, one primitive
at a time.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex

from jonline import equations

_ELEMENTWISE = frozenset(
    """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e
    cbrt ceil clamp clz convert_element_type copy cos cosh digamma div eq erf erf_inv
    erfc exp exp2 expm1 floor ge gt igamma igammac integer_pow is_finite le lgamma log
    log1p logistic lt max min mul ne neg nextafter not or polygamma population_count pow
    reduce_precision regularized_incomplete_beta rem round rsqrt select_n shift_left
    shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient
    sub tan tanh xor zeta
    """.split()
)
_SAME_PARAMS = frozenset(
    """
    argmax argmin cumlogsumexp cummax cummin cumprod cumsum reduce_and reduce_max reduce_min
    reduce_or reduce_prod reduce_sum rev squeeze
    """.split()
)


class Lanes(NamedTuple):
    """A value that differs between lanes: `value` is s + (L,) where one lane has s."""

    value: Any


def spread(value: Any, num_lanes: int) -> Lanes:
    """Returns a value with the lane axis last, copying it to all lanes where it is shared."""
    if isinstance(value, Lanes):
        return value
    value = jnp.asarray(value)
    return Lanes(jnp.broadcast_to(value[..., None], (*value.shape, num_lanes)))


def evaluate(eqns: Sequence[Any], env: dict, num_lanes: int) -> dict:
    """Returns `env` (variable -> Lanes or shared value) with the results of `eqns`."""
    env = dict(env)
    for eqn in eqns:
        values = [equations.read(env, var) for var in eqn.invars]
        if any(isinstance(value, Lanes) for value in values):
            loop = _LOOPS.get(eqn.primitive.name)
            if loop is not None:
                out = loop(eqn, values, num_lanes, env.get(equations.MINUS_ZERO))
            else:
                out = _RULES.get(eqn.primitive.name, _by_vmap)(eqn, values, num_lanes)
                out = [*map(Lanes, equations.rounded(eqn, out, env))]
        else:
            out = equations.rounded(eqn, equations.bind(eqn, values), env)
        env.update(zip(eqn.outvars, out, strict=True))
    return env


def _bind(eqn: Any, values: Sequence[Any], **changed: Any) -> list:
    with eqn.ctx.manager:
        out = eqn.primitive.bind(*values, **{**eqn.params, **changed})
    return list(out) if eqn.primitive.multiple_results else [out]


def _by_vmap(eqn: Any, values: list, num_lanes: int) -> list:
    del num_lanes
    axes = [-1 if isinstance(v, Lanes) else None for v in values]
    plain = [v.value if isinstance(v, Lanes) else v for v in values]
    return jax.vmap(lambda *args: equations.bind(eqn, args), in_axes=axes, out_axes=-1)(*plain)


def _elementwise(eqn: Any, values: list, num_lanes: int) -> list:
    shape = (*eqn.outvars[0].aval.shape, num_lanes)
    return _bind(eqn, [_to_shape(v, shape) for v in values])


def _to_shape(value: Any, shape: tuple) -> Any:
    """Broadcasts a value to `shape`, its own axes first (a scalar per lane goes to every entry)."""
    if isinstance(value, Lanes):
        value = value.value
        dims = (*range(value.ndim - 1), len(shape) - 1)
    else:
        value = jnp.asarray(value)
        dims = tuple(range(value.ndim))
    return value if value.shape == shape else lax.broadcast_in_dim(value, shape, dims)


def _bitcast(eqn: Any, values: list, num_lanes: int) -> list:
    """To another width it makes or takes a last axis, which here is not the lanes'."""
    if eqn.invars[0].aval.dtype.itemsize == eqn.outvars[0].aval.dtype.itemsize:
        return _elementwise(eqn, values, num_lanes)
    lanes_first = jnp.moveaxis(values[0].value, -1, 0)
    return [jnp.moveaxis(out, 0, -1) for out in _bind(eqn, [lanes_first])]


def _same_params(eqn: Any, values: list, num_lanes: int) -> list:
    del num_lanes
    return _bind(eqn, [values[0].value])


def _broadcast_in_dim(eqn: Any, values: list, num_lanes: int) -> list:
    if len(values) > 1 or not isinstance(values[0], Lanes):
        return _by_vmap(eqn, values, num_lanes)
    shape, dims = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    return [lax.broadcast_in_dim(values[0].value, (*shape, num_lanes), (*dims, len(shape)))]


def _reshape(eqn: Any, values: list, num_lanes: int) -> list:
    if eqn.params["dimensions"] is not None:
        return _by_vmap(eqn, values, num_lanes)
    return [lax.reshape(values[0].value, (*eqn.params["new_sizes"], num_lanes))]


def _slice(eqn: Any, values: list, num_lanes: int) -> list:
    p = eqn.params
    strides = None if p["strides"] is None else (*p["strides"], 1)
    start, limit = (*p["start_indices"], 0), (*p["limit_indices"], num_lanes)
    return [lax.slice(values[0].value, start, limit, strides)]


def _concatenate(eqn: Any, values: list, num_lanes: int) -> list:
    parts = [spread(v, num_lanes).value for v in values]
    return [lax.concatenate(parts, eqn.params["dimension"])]


def _transpose(eqn: Any, values: list, num_lanes: int) -> list:
    del num_lanes
    order = eqn.params["permutation"]
    return [lax.transpose(values[0].value, (*order, len(order)))]


def _dynamic_slice(eqn: Any, values: list, num_lanes: int) -> list:
    operand, *index = values
    if not isinstance(operand, Lanes) or any(isinstance(i, Lanes) for i in index):
        return _by_vmap(eqn, values, num_lanes)
    index.append(jnp.zeros_like(index[0]) if index else 0)
    sizes = (*eqn.params["slice_sizes"], num_lanes)
    return [lax.dynamic_slice(operand.value, index, sizes)]


def _dynamic_update_slice(eqn: Any, values: list, num_lanes: int) -> list:
    operand, update, *index = values
    if any(isinstance(i, Lanes) for i in index):
        return _by_vmap(eqn, values, num_lanes)
    index.append(jnp.zeros_like(index[0]) if index else 0)
    operand, update = spread(operand, num_lanes), spread(update, num_lanes)
    return [lax.dynamic_update_slice(operand.value, update.value, index)]


def _call(closed: Any, values: Sequence[Any], num_lanes: int, minus_zero: Any) -> list:
    env = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    if minus_zero is not None:
        env[equations.MINUS_ZERO] = minus_zero
    env.update(zip(closed.jaxpr.invars, values, strict=True))
    env = evaluate(closed.jaxpr.eqns, env, num_lanes)
    return [equations.read(env, var) for var in closed.jaxpr.outvars]


def _while(eqn: Any, values: list, num_lanes: int, minus_zero: Any) -> list:
    """All lanes go on until the last is done; a lane that is done keeps its values."""
    p = eqn.params
    n_cond, n_body = p["cond_nconsts"], p["body_nconsts"]
    cond_consts, body_consts = values[:n_cond], values[n_cond : n_cond + n_body]

    start = values[n_cond + n_body :]
    flags = _flags(start)
    while True:
        (ends_apart,) = _differ(p["cond_jaxpr"], _flags(cond_consts) + flags)
        after = _differ(p["body_jaxpr"], _flags(body_consts) + flags)
        more = [a or b or ends_apart for a, b in zip(flags, after, strict=True)]
        if more == flags:
            break
        flags = more

    def goes_on(carry):
        (on,) = _call(
            p["cond_jaxpr"], [*cond_consts, *_marked(carry, flags)], num_lanes, minus_zero
        )
        return on.value if isinstance(on, Lanes) else on

    def body(carry):
        new = _call(p["body_jaxpr"], [*body_consts, *_marked(carry, flags)], num_lanes, minus_zero)
        new = _plain(new, flags, num_lanes)
        if not ends_apart:
            return new
        on = goes_on(carry)
        return [jnp.where(on, a, b) for a, b in zip(new, carry, strict=True)]

    start = _plain(start, flags, num_lanes)
    last = lax.while_loop(lambda carry: jnp.any(goes_on(carry)), body, start)
    return _marked(last, flags)


def _scan(eqn: Any, values: list, num_lanes: int, minus_zero: Any) -> list:
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

    def body(carry, now):
        args = [*consts, *_marked(carry, flags), *_marked(now, _flags(xs))]
        out = _call(p["jaxpr"], args, num_lanes, minus_zero)
        return _plain(out[:n_carry], flags, num_lanes), _plain(out[n_carry:], of_ys, num_lanes)

    start = _plain(carry, flags, num_lanes)
    plain = [x.value if isinstance(x, Lanes) else x for x in xs]
    last, ys = lax.scan(body, start, plain, p["length"], p["reverse"], p["unroll"])
    return [*_marked(last, flags), *_marked(ys, of_ys)]


def _flags(values: Sequence[Any]) -> list[bool]:
    return [isinstance(value, Lanes) for value in values]


def _marked(values: Sequence[Any], flags: Sequence[bool]) -> list:
    return [Lanes(v) if differs else v for v, differs in zip(values, flags, strict=True)]


def _plain(values: Sequence[Any], flags: Sequence[bool], num_lanes: int) -> list:
    """The arrays of values, spread over the lanes where `flags` says that lanes may differ."""
    pairs = zip(values, flags, strict=True)
    return [spread(v, num_lanes).value if differs else v for v, differs in pairs]


def _differ(closed: Any, flags: Sequence[bool]) -> list[bool]:
    """Which results of a jaxpr may differ between lanes, if the flagged arguments do."""
    differs = dict(zip(closed.jaxpr.invars, flags, strict=True))
    for eqn in closed.jaxpr.eqns:
        any_differs = any(differs.get(v) for v in eqn.invars if not isinstance(v, jex.Literal))
        differs.update(dict.fromkeys(eqn.outvars, any_differs))
    outs = closed.jaxpr.outvars
    return [not isinstance(v, jex.Literal) and bool(differs.get(v)) for v in outs]


_RULES: dict[str, Callable[[Any, list, int], list]] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    **dict.fromkeys(_SAME_PARAMS, _same_params),
    "bitcast_convert_type": _bitcast,
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": _reshape,
    "slice": _slice,
    "concatenate": _concatenate,
    "transpose": _transpose,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
}

# These tell themselves which results differ between lanes.
_LOOPS: dict[str, Callable[[Any, list, int, Any], list]] = {"while": _while, "scan": _scan}
