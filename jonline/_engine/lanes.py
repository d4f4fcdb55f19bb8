"""Evaluates one-lane equations for many lanes at once, with the lane axis last.

A value of shape s in one lane is held as s + (L,): the few numbers of a lane lie apart, the same
number of all lanes lies side by side, so elementwise operations and reduces run in full vectors
across lanes whatever s is. `jax.vmap` would put the lane axis first or move it back and forth; here
the frequent primitives are evaluated in place and only the rest goes through `vmap`, one primitive
at a time.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jonline._engine import jaxprs
from jonline._engine.loops import LaneContext, Lanes, of_shared, operands, scan, spread, while_loop

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


def evaluate(eqns: Sequence[Any], env: dict, context: LaneContext) -> dict:
    """Returns `env` (variable -> Lanes, Alike or shared value) with the results of `eqns`."""
    env = dict(env)
    for eqn in eqns:
        values = [jaxprs.read(env, var) for var in eqn.invars]
        if any(isinstance(value, Lanes) for value in values):
            values = operands(eqn, values, context)
            if eqn.primitive.name in LOOPS:
                out = LOOPS[eqn.primitive.name](eqn, values, context)
            else:
                out = map(Lanes, _RULES.get(eqn.primitive.name, _by_vmap)(eqn, values, context))
        else:
            out = of_shared(eqn, values, context)
        env.update(zip(eqn.outvars, out, strict=True))
    return env


def _bind(eqn: Any, values: Sequence[Any], **changed: Any) -> list:
    with eqn.ctx.manager:
        out = eqn.primitive.bind(*values, **{**eqn.params, **changed})
    return list(out) if eqn.primitive.multiple_results else [out]


def _by_vmap(eqn: Any, values: list, context: LaneContext) -> list:
    del context
    axes = [-1 if isinstance(v, Lanes) else None for v in values]
    plain = [v.value if isinstance(v, Lanes) else v for v in values]
    return jax.vmap(lambda *args: jaxprs.bind(eqn, args), in_axes=axes, out_axes=-1)(*plain)


def _elementwise(eqn: Any, values: list, context: LaneContext) -> list:
    shape = (*eqn.outvars[0].aval.shape, context.num_lanes)
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


def _bitcast(eqn: Any, values: list, context: LaneContext) -> list:
    """To another width it makes or takes a last axis, which here is not the lanes'."""
    if eqn.invars[0].aval.dtype.itemsize == eqn.outvars[0].aval.dtype.itemsize:
        return _elementwise(eqn, values, context)
    lanes_first = jnp.moveaxis(values[0].value, -1, 0)
    return [jnp.moveaxis(out, 0, -1) for out in _bind(eqn, [lanes_first])]


def _same_params(eqn: Any, values: list, context: LaneContext) -> list:
    del context
    return _bind(eqn, [values[0].value])


def _reduce(eqn: Any, values: list, context: LaneContext) -> list:
    operands, starts = values[: len(values) // 2], values[len(values) // 2 :]
    if any(isinstance(start, Lanes) for start in starts):
        return _by_vmap(eqn, values, context)
    return _bind(eqn, [*(spread(v, context.num_lanes).value for v in operands), *starts])


def _optimization_barrier(eqn: Any, values: list, context: LaneContext) -> list:
    return _bind(eqn, [spread(v, context.num_lanes).value for v in values])


def _broadcast_in_dim(eqn: Any, values: list, context: LaneContext) -> list:
    if len(values) > 1 or not isinstance(values[0], Lanes):
        return _by_vmap(eqn, values, context)
    shape, dims = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    return [lax.broadcast_in_dim(values[0].value, (*shape, context.num_lanes), (*dims, len(shape)))]


def _reshape(eqn: Any, values: list, context: LaneContext) -> list:
    if eqn.params["dimensions"] is not None:
        return _by_vmap(eqn, values, context)
    return [lax.reshape(values[0].value, (*eqn.params["new_sizes"], context.num_lanes))]


def _slice(eqn: Any, values: list, context: LaneContext) -> list:
    p = eqn.params
    strides = None if p["strides"] is None else (*p["strides"], 1)
    start, limit = (*p["start_indices"], 0), (*p["limit_indices"], context.num_lanes)
    return [lax.slice(values[0].value, start, limit, strides)]


def _concatenate(eqn: Any, values: list, context: LaneContext) -> list:
    parts = [spread(v, context.num_lanes).value for v in values]
    return [lax.concatenate(parts, eqn.params["dimension"])]


def _transpose(eqn: Any, values: list, context: LaneContext) -> list:
    del context
    order = eqn.params["permutation"]
    return [lax.transpose(values[0].value, (*order, len(order)))]


def _dynamic_slice(eqn: Any, values: list, context: LaneContext) -> list:
    operand, *index = values
    if not isinstance(operand, Lanes) or any(isinstance(i, Lanes) for i in index):
        return _by_vmap(eqn, values, context)
    index.append(jnp.zeros_like(index[0]) if index else 0)
    sizes = (*eqn.params["slice_sizes"], context.num_lanes)
    return [lax.dynamic_slice(operand.value, index, sizes)]


def _dynamic_update_slice(eqn: Any, values: list, context: LaneContext) -> list:
    operand, update, *index = values
    if any(isinstance(i, Lanes) for i in index):
        return _by_vmap(eqn, values, context)
    index.append(jnp.zeros_like(index[0]) if index else 0)
    operand, update = spread(operand, context.num_lanes), spread(update, context.num_lanes)
    return [lax.dynamic_update_slice(operand.value, update.value, index)]


def _dot_general(eqn: Any, values: list, context: LaneContext) -> list:
    """A product with a vector is a sum of products; one of two matrices goes through `vmap`."""
    left, right = (var.aval for var in eqn.invars)
    if not jaxprs.is_with_vector(eqn):
        return _by_vmap(eqn, values, context)
    (of_left, of_right), _ = eqn.params["dimension_numbers"]
    ndim = max(left.ndim, right.ndim)
    axis = int((of_right if left.ndim == 1 else of_left)[0])
    wide = []
    for value, aval in zip(values, (left, right), strict=True):
        value = value.value if isinstance(value, Lanes) else jnp.asarray(value)[..., None]
        shape = [1] * ndim
        shape[axis] = aval.shape[0]
        wide.append(value if aval.ndim == ndim else value.reshape(*shape, value.shape[-1]))
    products = wide[0] * wide[1]
    products = products + context.minus_zero.astype(products.dtype)
    return [jaxprs.ordered_sum(products, (axis,))]


_RULES: dict[str, Callable[[Any, list, LaneContext], list]] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    **dict.fromkeys(_SAME_PARAMS, _same_params),
    "reduce": _reduce,
    "optimization_barrier": _optimization_barrier,
    "bitcast_convert_type": _bitcast,
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": _reshape,
    "slice": _slice,
    "concatenate": _concatenate,
    "transpose": _transpose,
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
}

# These tell themselves which results differ between lanes.
LOOPS: dict[str, Callable[[Any, list, LaneContext], list]] = {"while": while_loop, "scan": scan}
