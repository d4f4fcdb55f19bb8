"""Primitives: what is known of those of JAX, in one table, and a few of our own.

A primitive that is not in the table works: it has none of the traits, each of which allows
something. Those of our own have a batching rule that keeps what `jax.vmap` would give up: the order
of a sum, a slice as a slice.
"""

import enum
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint
from jax.extend import core as jex
from jax.interpreters import batching, mlir

_COLUMNS = 32  # in which a long sum is taken
_LONG = 128
_UNROLLED = 64  # most slices of a long sum
_MATRIX = 256  # numbers of a lane that accelerators keep together
_WIDE = 64  # numbers of a sum that is written as a chain of slices


class Trait(enum.Flag):
    """What a primitive allows.

    Attributes:
      PLAIN: no compiler makes one instruction of it with a sum that follows.
      EXACT: its floating results have the same bits wherever it is evaluated.
      CHEAP: it is computed again rather than handed over.
      VIEW: its result may lie where its operand lies.
      MOVE: it computes nothing.
      TAKE: it takes a part of its first operand.
    """

    NONE = 0
    PLAIN = enum.auto()
    EXACT = enum.auto()
    CHEAP = enum.auto()
    VIEW = enum.auto()
    MOVE = enum.auto()
    TAKE = enum.auto()


_SAME = Trait.PLAIN | Trait.EXACT
_MOVE = _SAME | Trait.MOVE
_GROUPS = {
    "broadcast_in_dim convert_element_type copy optimization_barrier reshape squeeze "
    "stop_gradient": _MOVE | Trait.VIEW | Trait.CHEAP,
    "bitcast_convert_type slice transpose": _MOVE | Trait.VIEW,
    "select_n": _MOVE | Trait.CHEAP,
    "concatenate dynamic_update_slice pad put rev split": _MOVE,
    "drawn dynamic_slice gather take": _MOVE | Trait.TAKE,
    "iota": Trait.PLAIN | Trait.MOVE | Trait.CHEAP,
    "abs add clamp max min neg sign sub": _SAME | Trait.CHEAP,
    "ceil floor ordered_sum reduce_max reduce_min round": _SAME,
    "div mul square": Trait.EXACT | Trait.CHEAP,
    "sqrt": Trait.EXACT,
    "add_any cummax cummin nextafter reduce_precision scatter scatter-add scatter-max scatter-min "
    "sort top_k": Trait.PLAIN,
    "and eq ge gt integer_pow is_finite le lt ne not or rem xor": Trait.CHEAP,
}
_TRAITS = {name: traits for names, traits in _GROUPS.items() for name in names.split()}
_CALLS = {
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "remat2": "jaxpr",
}


def has(eqn: Any, trait: Trait) -> bool:
    """Whether the primitive of an equation has a trait."""
    return bool(_TRAITS.get(eqn.primitive.name, Trait.NONE) & trait)


def called(eqn: Any) -> Any:
    """The equations of a call, a jaxpr closed or not; None where the equation is no call."""
    return eqn.params.get(_CALLS.get(eqn.primitive.name, ""))


def bodies(eqn: Any) -> Iterator[Any]:
    """Yields the jaxprs, closed or not, among the parameters of an equation."""
    return filter(is_body, jax.tree.leaves(eqn.params, is_leaf=is_body))


def is_body(value: Any) -> bool:
    """Whether a parameter is a jaxpr, closed or not."""
    return hasattr(value, "eqns")


def drawn(example: Any) -> Any:
    """Marks the leaves of an example: what is made of them is the learner's and the oracle's."""
    return jax.tree.map(_DRAWN.bind, example)


def is_drawn(eqn: Any) -> bool:
    """Whether an equation marks a leaf of an example."""
    return eqn.primitive is _DRAWN


def ordered_sum(values: Any, axes: Sequence[int]) -> Any:
    """Returns the sum over axes in an order that depends on nothing but how many it sums.

    The compiler takes a sum of sums in an order of its own, which depends on what else is computed.
    It does not where the sum is written as differences. One of 128 numbers or more is taken in 32
    columns, which are summed in full vectors.
    """
    axes = tuple(sorted(axis % values.ndim for axis in axes))
    return _ORDERED_SUM.bind(values, axes=axes, is_batched=False) if axes else values


def take(operand: Any, *start: Any, slice_sizes: Sequence[int]) -> Any:
    """`jax.lax.dynamic_slice`; at a place that is the same in all lanes it stays a slice."""
    return _TAKE.bind(operand, *start, slice_sizes=tuple(slice_sizes))


def put(operand: Any, update: Any, *start: Any) -> Any:
    """`jax.lax.dynamic_update_slice`; at a place that is the same in all lanes it stays one."""
    return _PUT.bind(operand, update, *start)


def lanes_fastest(value: Any) -> Any:
    """Returns a value; that of all lanes lies with the numbers of all lanes side by side."""
    if value.ndim == 0 or _is_key(value):
        return value
    return _LAID_OUT.bind(value, lanes_fastest=True, batched=0)


def in_order(value: Any) -> Any:
    """Returns a value that lies with its last axis fastest, as XLA's Fourier transform wants it."""
    return _LAID_OUT.bind(value, lanes_fastest=False, batched=0)


def with_lanes_fastest(values: Any) -> Any:
    """The same for an array (lanes, ...)."""
    if values.ndim < 2 or _is_key(values):
        return values
    return _LAID_OUT.bind(values, lanes_fastest=True, batched=1)


def _is_key(value: Any) -> bool:
    return jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def _primitive(name: str, function: Callable, shape: Callable, batch: Callable) -> Any:
    primitive = jex.Primitive(name)
    primitive.def_impl(function)
    primitive.def_abstract_eval(shape)
    mlir.register_lowering(primitive, mlir.lower_fun(function, multiple_results=False))
    batching.primitive_batchers[primitive] = batch
    return primitive


def _sum(values: Any, *, axes: tuple, is_batched: bool) -> Any:
    length = math.prod(values.shape[axis] for axis in axes)
    kept = [axis for axis in range(values.ndim) if axis not in axes]
    shape = [values.shape[axis] for axis in kept]
    if length >= _LONG:
        values = values.transpose(*kept, *axes).reshape(*shape, length)
        return _sum_of_columns(values)
    if not is_batched and length > 1 and math.prod(shape) >= _WIDE and kept:
        values = values.transpose(*axes, *kept).reshape(length, *shape)
        return _positive_zero(_chain([values[i] for i in range(length)]))
    return _in_order(values, axes)


def _sum_of_columns(values: Any) -> Any:
    """The sum over the last axis: number i in column i mod 32, then halves of the columns."""
    *shape, length = values.shape
    end = length // _COLUMNS * _COLUMNS
    if end <= _COLUMNS * _UNROLLED:  # as slices, so that what is summed is made in full vectors too
        total = _chain([values[..., i : i + _COLUMNS] for i in range(0, end, _COLUMNS)])
    else:
        table = values[..., :end].reshape(*shape, -1, _COLUMNS)
        total = _in_order(table, (table.ndim - 2,))
    while (half := total.shape[-1] // 2) > 0:
        total = total[..., :half] + total[..., half:]
    total = total[..., 0]
    total = total + _in_order(values[..., end:], (len(shape),)) if end < length else total
    return _positive_zero(total)


def _in_order(values: Any, axes: Sequence[int]) -> Any:
    zero = jnp.zeros((), values.dtype)
    return lax.reduce(values, zero, lambda a, b: a - (-b), tuple(axes))


def _chain(parts: Sequence[Any]) -> Any:
    total, *rest = parts
    for part in rest:
        total = total + part
    return total


def _positive_zero(total: Any) -> Any:
    """Of numbers that are all -0.0 the sum is 0.0, as in JAX."""
    return jnp.where(total == 0, 0, total).astype(total.dtype)


def _batch_sum(args: Any, dims: Any, *, axes: tuple, is_batched: bool) -> tuple:
    del is_batched
    values = jnp.moveaxis(args[0], dims[0], -1)
    total = _ORDERED_SUM.bind(values, axes=axes, is_batched=True)
    return total, total.ndim - 1


def _batch_take(args: Any, dims: Any, *, slice_sizes: tuple) -> tuple:
    (operand, *start), (dim, *others) = args, dims
    if dim is None or any(other is not None for other in others):
        one = lambda operand, *start: lax.dynamic_slice(operand, start, slice_sizes)  # noqa: E731
        return jax.vmap(one, dims)(*args), 0
    operand = batching.bdim_at_front(operand, dim, operand.shape[dim])
    zero = jnp.zeros_like(start[0]) if start else 0
    return take(operand, zero, *start, slice_sizes=(operand.shape[0], *slice_sizes)), 0


def _batch_put(args: Any, dims: Any) -> tuple:
    (operand, update, *start), (of_operand, of_update, *others) = args, dims
    if any(other is not None for other in others):
        one = lambda operand, update, *start: lax.dynamic_update_slice(operand, update, start)  # noqa: E731
        return jax.vmap(one, dims)(*args), 0
    size = operand.shape[of_operand] if of_operand is not None else update.shape[of_update]
    operand = batching.bdim_at_front(operand, of_operand, size)
    update = batching.bdim_at_front(update, of_update, size)
    zero = jnp.zeros_like(start[0]) if start else 0
    return put(operand, update, zero, *start), 0


def _laid_out(value: Any, *, lanes_fastest: bool, batched: int) -> Any:
    if not lanes_fastest:
        return with_layout_constraint(value, Layout(tuple(range(value.ndim))))
    if batched != 1 or value.ndim < 2:
        return value
    return with_layout_constraint(value, Layout((*range(1, value.ndim), 0)))


def _laid_out_elsewhere(value: Any, *, lanes_fastest: bool, batched: int) -> Any:
    """An accelerator multiplies a large matrix of many lanes where that of each lies together."""
    if lanes_fastest and value.size // max(value.shape[0], 1) >= _MATRIX:
        return value
    return _laid_out(value, lanes_fastest=lanes_fastest, batched=batched)


def _batch_laid_out(args: Any, dims: Any, *, lanes_fastest: bool, batched: int) -> tuple:
    value = jnp.moveaxis(args[0], dims[0], 0)
    return _LAID_OUT.bind(value, lanes_fastest=lanes_fastest, batched=batched + 1), 0


_DRAWN = _primitive(
    "drawn", lambda leaf: leaf, lambda leaf: leaf, lambda args, dims: (args[0], dims[0])
)
_ORDERED_SUM = _primitive(
    "ordered_sum",
    _sum,
    lambda values, *, axes, is_batched: values.update(
        shape=tuple(n for axis, n in enumerate(values.shape) if axis not in axes)
    ),
    _batch_sum,
)
_TAKE = _primitive(
    "take",
    lambda operand, *start, slice_sizes: lax.dynamic_slice(operand, start, slice_sizes),
    lambda operand, *start, slice_sizes: operand.update(shape=slice_sizes),
    _batch_take,
)
_PUT = _primitive(
    "put",
    lambda operand, update, *start: lax.dynamic_update_slice(operand, update, start),
    lambda operand, *others: operand,
    _batch_put,
)
_LAID_OUT = _primitive(
    "laid_out",
    _laid_out_elsewhere,
    lambda value, *, lanes_fastest, batched: value,
    _batch_laid_out,
)
mlir.register_lowering(_LAID_OUT, mlir.lower_fun(_laid_out, multiple_results=False), platform="cpu")
