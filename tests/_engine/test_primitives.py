"""One operation of JAX as a learner's `update`, with parameters drawn at random, against plain JAX.

Operands are shared by all lanes (constants, or examples that all lanes see), or differ between them
(a seed's examples, or the carry). With a large matrix multiplied beside it the round is wide.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st
from jax import lax

import jonline
from jonline import Environment, Learner, Stream, oracles
from jonline.core import Example

T = 3
ROWS = 4
SIZES = (1, 15, 16, 17, 32, 33, 255, 256, 257, 2047, 2048, 2049)
FLOATS = ("float32", "float32", "float32", "bfloat16")
INTS = ("int32", "uint8", "int16", "uint32")


class Output(NamedTuple):
    output: jax.Array


class Operation(NamedTuple):
    """A function of arrays and the shapes, dtypes and ranges of what it is given."""

    name: str
    function: Callable
    operands: tuple  # (shape, dtype, low, high) each


def played(operation: Operation, where: tuple, by_seed: bool, wide: bool) -> None:
    """Compares T rounds of a learner that does one operation with a loop of plain JAX."""
    rng = np.random.default_rng(0)
    tables = tuple(_numbers(rng, (ROWS, *shape), *rest) for shape, *rest in operation.operands)
    constants = tuple(values[0] for values in tables)
    large = rng.normal(size=(32, 64)).astype(np.float32) / 8

    def update(state, x):
        before, _, v = state
        kinds = zip(where, constants, x, before, strict=True)
        chosen = [
            dict(constant=jnp.asarray(c), example=e, carry=b)[kind] for kind, c, e, b in kinds
        ]
        v = large_of(state) @ jnp.concatenate([v, v]) if wide else v
        return x, operation.function(*chosen), v

    def large_of(state):  # differs between rounds, so that it is no constant
        return large + state[2][0] * 1e-3

    def init():
        out = jax.eval_shape(operation.function, *constants)
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), out)
        return jax.tree.map(jnp.asarray, constants), zeros, jnp.ones(32) / 32

    def draw(key, t):
        i = jax.random.randint(jax.random.fold_in(key, t), (), 0, ROWS) if by_seed else t % ROWS
        return Example(jax.tree.map(lambda table: jnp.asarray(table)[i], tables), i)

    def make(point, data):
        learner = Learner(
            lambda key: init(),
            lambda state, x, key: Output(jnp.int32(0)),
            lambda state, x, prediction, feedback, key: update(state, x),
        )
        return learner, Environment(Stream(lambda key: key, draw), oracles.label())

    def row(example, prediction, feedback, state):
        return {"row": example.y}

    result = jonline.sweep(make, row, {}, num_rounds=T, num_seeds=2, key=0, record_every=1)
    found = jax.tree.map(lambda leaf: leaf[0, 1], result.states)
    state, step = init(), jax.jit(update)
    for i in result.records["row"][0, 1]:
        state = step(state, jax.tree.map(lambda table, i=i: table[i], tables))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(state), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape, operation.name
        _check_close(np.asarray(a), np.asarray(b), operation.name)


def _check_close(a: np.ndarray, b: np.ndarray, name: str) -> None:
    if not jnp.issubdtype(a.dtype, jnp.inexact):
        np.testing.assert_array_equal(a, b, name)
        return
    eps = float(jnp.finfo(a.dtype).eps)
    a, b = a.astype(complex), b.astype(complex)
    largest = np.abs(b[np.isfinite(b)]).max(initial=0)
    # sums of up to 2 049 numbers in another order, other instructions for the same function
    np.testing.assert_allclose(a, b, rtol=64 * eps, atol=64 * eps * largest, err_msg=name)


def _numbers(rng: Any, shape: tuple, dtype: Any, low: float, high: float) -> np.ndarray:
    if jnp.issubdtype(dtype, jnp.floating) or jnp.issubdtype(dtype, jnp.complexfloating):
        return rng.uniform(low, high, shape).astype(jnp.dtype(dtype))
    if dtype == "bool":
        return rng.random(shape) < 0.5
    low = max(low, 0) if "uint" in str(dtype) else low
    return rng.integers(int(low), int(high) + 1, shape).astype(dtype)


@st.composite
def shapes(draw, least=0, most=3):
    """Of few axes, some of length 0 or 1, some with a number of entries at a threshold."""
    rank = draw(st.integers(least, most))
    shape = [draw(st.sampled_from((0, 1, 2, 2, 3, 3, 4, 5))) for _ in range(rank)]
    if rank and draw(st.booleans()):
        shape = [draw(st.sampled_from((1, 1, 2))) for _ in range(rank)]
        shape[draw(st.integers(0, rank - 1))] = draw(st.sampled_from(SIZES))
    return tuple(shape)


def some(draw, values, least=0):
    values = list(values)
    return draw(st.permutations(values))[: draw(st.integers(min(least, len(values)), len(values)))]


UNARY = (
    "abs sign floor ceil round exp log sin cos tan tanh sqrt rsqrt cbrt exp2 expm1 log1p logistic "
    "erf erf_inv lgamma digamma neg square is_finite asin acosh atan sinh bessel_i1e"
).split()
BINARY = "add sub mul div max min rem pow atan2 nextafter eq ne lt ge".split()
WHOLE = "add sub mul div max min rem bitwise_and bitwise_or bitwise_xor eq lt shift_left".split()


@st.composite
def elementwise(draw):
    shape, is_float = draw(shapes()), draw(st.booleans())
    dtype = draw(st.sampled_from(FLOATS if is_float else INTS))
    operand = (shape, dtype, -2 if is_float else 1, 3 if is_float else 9)
    if is_float and draw(st.booleans()):
        name = draw(st.sampled_from(UNARY))
        return Operation(name, getattr(lax, name), (operand,))
    name = draw(st.sampled_from(BINARY if is_float else WHOLE))
    function = getattr(lax, name)
    kind = draw(st.sampled_from(("two", "number left", "number right", "spread")))
    number = np.dtype(jnp.dtype(dtype)).type(3)
    if kind == "number left":
        return Operation(name, lambda a: function(number, a), (operand,))
    if kind == "number right":
        return Operation(name, lambda a: function(a, number), (operand,))
    if kind == "spread":
        return Operation(
            name,
            lambda a, b: function(a, jnp.broadcast_to(b, shape)),
            (operand, ((), *operand[1:])),
        )
    return Operation(name, function, (operand, operand))


@st.composite
def product(draw):
    """A `dot_general` of any dimension numbers."""
    batch = [draw(st.sampled_from((1, 2, 3))) for _ in range(draw(st.sampled_from((0, 0, 1, 2))))]
    summed = [
        draw(st.sampled_from((0, 1, 2, 5, 16, 17, 33)))
        for _ in range(draw(st.sampled_from((0, 1, 1, 1, 2))))
    ]
    if len(summed) == 1 and not batch and draw(st.booleans()):
        summed = [draw(st.sampled_from(SIZES))]
    sides, axes = [], []
    for _ in range(2):
        free = [draw(st.sampled_from((1, 2, 4, 7, 64))) for _ in range(draw(st.integers(0, 2)))]
        if batch or sum(summed) > 300:
            free = free[:1]
        if len(free) == 2:
            free[1] = min(free[1], 4)
        dims = [*(("b", i) for i in range(len(batch))), *(("s", i) for i in range(len(summed)))]
        dims += [("f", i) for i in range(len(free))]
        dims = draw(st.permutations(dims))
        size = {"b": batch, "s": summed, "f": free}
        sides.append(tuple(size[kind][i] for kind, i in dims))
        axes.append([[dims.index((kind, i)) for i in range(len(size[kind]))] for kind in "sb"])
    numbers = ((axes[0][0], axes[1][0]), (axes[0][1], axes[1][1]))
    left = draw(st.sampled_from((*FLOATS, "int32", "float16", "complex64")))
    wider = {"float32": None, "int32": "float32", "complex64": None}.get(left, "float32")
    preferred = draw(st.sampled_from((None, wider)))
    precision = draw(st.sampled_from((None, "highest")))

    def function(a, b):
        return lax.dot_general(a, b, numbers, precision, preferred_element_type=preferred)

    name = f"dot_general {sides} {numbers} {left} {preferred}"
    return Operation(name, function, tuple((side, left, -2, 2) for side in sides))


@st.composite
def reduction(draw):
    shape = draw(shapes(1))
    axes = tuple(some(draw, range(len(shape))))
    axis = draw(st.integers(0, len(shape) - 1))
    flag = draw(st.booleans())
    dtype = draw(st.sampled_from((*FLOATS, "int32", "uint8", "bool")))
    operand = (shape, dtype, 0.5 if dtype in FLOATS else 0, 1.5 if dtype in FLOATS else 5)
    index = draw(st.sampled_from(("int32", "uint8", "int16")))
    functions = dict(
        sum=lambda a: jnp.sum(a, axes),
        min=lambda a: jnp.min(a, axes, initial=1),
        prod=lambda a: jnp.prod(a, axes),
        any=lambda a: jnp.any(a, axes),
        mean=lambda a: jnp.mean(a, axes),
        var=lambda a: jnp.var(a, axes),
        cumsum=lambda a: jnp.cumsum(a, axis - len(shape)),
    )
    if dtype != "bool":
        functions |= dict(
            reverse_cumsum=lambda a: lax.cumsum(a, axis, flag),
            cummax=lambda a: lax.cummax(a, axis, flag),
            cumprod=lambda a: lax.cumprod(a, axis, flag),
            reduce=lambda a: lax.reduce(a, np.zeros((), a.dtype), lambda p, q: p + q * q, (axis,)),
            raw_sum=lambda a: lax.reduce_sum(a, axes),
            sort=lambda a: jnp.sort(a, axis, descending=flag),
            argsort=lambda a: jnp.argsort(a, axis),
        )
        if shape[axis]:
            functions |= dict(
                argmax=lambda a: lax.argmax(a, axis, index),
                argmin=lambda a: lax.argmin(a, axis, index),
                top_k=lambda a: lax.top_k(a, min(3, a.shape[-1])),
                window=lambda a: lax.reduce_window(
                    a, np.zeros((), a.dtype), lax.add, (2,) * a.ndim, (1,) * a.ndim, "SAME"
                ),
            )
    if dtype in FLOATS:
        functions |= dict(
            logsumexp=lambda a: jax.nn.logsumexp(a, axes),
            cumlogsumexp=lambda a: lax.cumlogsumexp(a, axis, flag),
            norm=lambda a: jnp.sqrt(jnp.sum(a * a, axes)),
        )
    name = draw(st.sampled_from(sorted(functions)))
    return Operation(f"{name} {shape} {axes} {axis} {dtype}", functions[name], (operand,))


@st.composite
def form(draw):
    shape = draw(shapes(1))
    rank = len(shape)
    dtype = draw(st.sampled_from((*FLOATS, "int32", "bool", "uint8")))
    order = tuple(draw(st.permutations(range(rank))))
    axes = tuple(some(draw, range(rank)))
    starts = [draw(st.integers(0, n)) for n in shape]
    limits = [draw(st.integers(a, n)) for a, n in zip(starts, shape, strict=True)]
    strides = [draw(st.sampled_from((1, 2, 3))) for _ in shape]
    padding = [
        (draw(st.integers(-1, 2)), draw(st.integers(0, 2)), draw(st.integers(0, 1))) for _ in shape
    ]
    if any(n + a < 0 or n == 0 for n, (a, _, _) in zip(shape, padding, strict=True)):
        padding = [(0, 1, 0)] * rank
    axis = draw(st.integers(0, rank - 1))
    more = draw(st.sampled_from((1, 2, 3)))
    functions = dict(
        transpose=lambda a: lax.transpose(a, order),
        reverse=lambda a: lax.rev(a, axes),
        slice=lambda a: lax.slice(a, starts, limits, strides),
        pad=lambda a: lax.pad(a, np.ones((), a.dtype), padding),
        reshape=lambda a: a.reshape(*(shape[i] for i in order)),
        ravel=lambda a: a.reshape(-1, order="F"),
        broadcast=lambda a: jnp.broadcast_to(a, (more, *shape)),
        broadcast_in_dim=lambda a: lax.broadcast_in_dim(a, (*shape, more), range(rank)),
        squeeze=lambda a: jnp.squeeze(a),
        expand=lambda a: jnp.expand_dims(a, axes),
        concatenate=lambda a: lax.concatenate([a, a[::-1], np.ones(shape, a.dtype)], axis),
        tile=lambda a: jnp.tile(a, more),
        roll=lambda a: jnp.roll(a, more, axis),
        split=lambda a: jnp.array_split(a, 2, axis),
        cast=lambda a: a.astype(jnp.int32),
        bits=lambda a: lax.bitcast_convert_type(a, jnp.uint8) if a.dtype != bool else a,
        where=lambda a: jnp.where(a > 1, a, np.ones((), a.dtype)),
        one_hot=lambda a: jax.nn.one_hot(a[..., :1], 3),
        stack=lambda a: jnp.stack([a, a * 0], axis),
        triangle=lambda a: jnp.tril(a[None]),
    )
    name = draw(st.sampled_from(sorted(functions)))
    return Operation(f"{name} {shape} {dtype}", functions[name], ((shape, dtype, 0, 5),))


@st.composite
def place(draw):
    """Reads and writes at places that are shared or not, within and out of range."""
    shape = draw(shapes(1).filter(lambda shape: 0 not in shape))
    sizes = [draw(st.integers(1, n)) for n in shape]
    dtype = draw(st.sampled_from(("float32", "int32", "bfloat16", "bool")))
    index = draw(st.sampled_from(("int32", "uint8", "int16", "uint32")))
    low, high = draw(st.sampled_from(((0, min(shape[0] - 1, 99)), (-7, 9))))
    operand, new = (shape, dtype, 0, 5), (tuple(sizes), dtype, 0, 5)
    several = draw(st.sampled_from(((), (1,), (3,), (2, 2))))
    row = (shape[1:], dtype, 0, 5)
    mode = draw(st.sampled_from(("clip", "fill", "drop")))
    at, ats = ((), index, low, high), (several, index, low, high)
    others = (0,) * (len(shape) - 1)

    def index_of(i):
        return (i, *(np.zeros((), i.dtype) for _ in others))

    functions = dict(
        slice=(lambda a, i: lax.dynamic_slice(a, index_of(i), sizes), (operand, at)),
        update=(lambda a, b, i: lax.dynamic_update_slice(a, b, index_of(i)), (operand, new, at)),
        take=(lambda a, i: a.at[i].get(mode="fill" if mode == "drop" else mode), (operand, ats)),
        set=(lambda a, b, i: a.at[i].set(b, mode=mode), (operand, row, at)),
        many=(lambda a, i: a.at[i].set(np.ones((), a.dtype), mode=mode), (operand, ats)),
        last=(lambda a, i: jnp.take(a, i, axis=-1, mode="clip"), (operand, ats)),
        index=(lambda a, i: lax.dynamic_index_in_dim(a, i, 0, False), (operand, at)),
    )
    if dtype != "bool":
        functions |= dict(
            add=(lambda a, b, i: a.at[i].add(b, mode=mode), (operand, row, ats)),
            max=(lambda a, b, i: a.at[i].max(b, mode=mode), (operand, row, ats)),
            mul=(lambda a, b, i: a.at[i].multiply(b, mode=mode), (operand, row, at)),
        )
    name = draw(st.sampled_from(sorted(functions)))
    return Operation(f"{name} {shape} {dtype} {index} {several} {mode}", *functions[name])


@st.composite
def choice(draw):
    """Choices and bounds, of one number or many."""
    shape, one = draw(shapes()), draw(st.booleans())
    bound = (() if one else shape, "float32", -1, 1)
    functions = dict(
        clamp=(lax.clamp, (bound, (shape, "float32", -2, 2), bound)),
        select=(
            lax.select_n,
            (((() if one else shape), "bool", 0, 1), *[(shape, "float32", -2, 2)] * 2),
        ),
        select_of_three=(
            lax.select_n,
            ((() if one else shape, "int32", 0, 2), *[(shape, "float32", -2, 2)] * 3),
        ),
    )
    name = draw(st.sampled_from(sorted(functions)))
    return Operation(f"{name} {shape} {one}", *functions[name])


@st.composite
def control(draw):
    """Loops and branches with products and sums in calls in their bodies."""
    n, length = draw(st.sampled_from((1, 2, 17, 257))), draw(st.sampled_from((0, 1, 2, 5)))
    reverse, unroll = draw(st.booleans()), draw(st.sampled_from((1, 2, 3)))
    vector, number, rows = (
        ((n,), "float32", -1, 1),
        ((), "int32", -1, 5),
        ((length, n), "float32", -1, 1),
    )

    @jax.jit
    def mixed(a, b):
        return a * b + b / (2 + jnp.sum(a * a))

    def body(scale):
        return lambda carry, x: (mixed(carry, x) * scale, (jnp.sum(carry * x), x, carry))

    functions = dict(
        scan=(
            lambda c, x, s: lax.scan(body(s), c, x, reverse=reverse, unroll=unroll),
            (vector, rows, ((), "float32", -1, 1)),
        ),
        length=(
            lambda c, k: lax.scan(
                lambda c, _: (mixed(c, c) + k, c[0]), c, length=length, reverse=reverse
            ),
            (vector, number),
        ),
        only_xs=(lambda x, s: lax.scan(lambda c, x: (c, mixed(x, s)), (), x), (rows, vector)),
        map=(lambda x, s: lax.map(lambda x: mixed(x, s), x), (rows, vector)),
        fori=(
            lambda c, k: lax.fori_loop(0, k, lambda i, c: mixed(c, c + i) / (i + 2), c),
            (vector, number),
        ),
        counted=(
            lambda c, k: lax.fori_loop(k, 7, lambda i, s: (s[0] + i, s[1] + c * s[0]), (0, c)),
            (vector, number),
        ),
        loop=(
            lambda c, k: lax.while_loop(
                lambda s: (s[0] < k) & (jnp.sum(s[1] * s[1]) < 50),
                lambda s: (s[0] + 1, mixed(s[1] + 1, c)),
                (0, c),
            ),
            (vector, number),
        ),
        cond=(
            lambda c, k: lax.cond(k > 1, lambda c: mixed(c, c + k), lambda c: c / (k + 7.0), c),
            (vector, number),
        ),
        switch=(
            lambda c, d, k: lax.switch(
                k, [mixed, lambda a, b: a @ b * a, lambda a, b: jnp.outer(a, b)[0]], c, d
            ),
            (vector, vector, number),
        ),
        grad=(
            lambda c, x: jax.grad(
                lambda c: jnp.sum(lax.scan(lambda h, r: (jnp.tanh(h + r), jnp.sum(h)), c, x)[0])
            )(c),
            (vector, rows),
        ),
        associative=(lambda x: lax.associative_scan(jnp.multiply, x, reverse=reverse), (rows,)),
    )
    name = draw(st.sampled_from(sorted(functions)))
    return Operation(f"{name} {n} {length} {reverse} {unroll}", *functions[name])


@st.composite
def convolution(draw):
    batch, channels, features, groups = (
        1,
        draw(st.sampled_from((1, 2))),
        draw(st.sampled_from((1, 2, 4))),
        1,
    )
    if draw(st.booleans()):
        groups, features = channels, channels * 2
    spatial = draw(st.integers(1, 2))
    size = tuple(draw(st.sampled_from((3, 5, 17))) for _ in range(spatial))
    window = tuple(draw(st.sampled_from((1, 2, 3))) for _ in range(spatial))
    strides = tuple(draw(st.sampled_from((1, 2))) for _ in range(spatial))
    padding = draw(st.sampled_from(("SAME", "VALID")))
    dilation = (
        tuple(draw(st.sampled_from((1, 2))) for _ in range(spatial)) if padding == "SAME" else None
    )

    def function(a, b):
        return lax.conv_general_dilated(
            a, b, strides, padding, rhs_dilation=dilation, feature_group_count=groups
        )

    image = ((batch, channels, *size), "float32", -1, 1)
    kernel = ((features, channels // groups, *window), "float32", -1, 1)
    return Operation(f"conv {size} {window} {strides} {groups}", function, (image, kernel))


@st.composite
def cases(draw, operations):
    operation = draw(operations)
    kinds = st.sampled_from(("constant", "example", "carry"))
    where = tuple(draw(kinds) for _ in operation.operands)
    return operation, where, draw(st.booleans()), draw(st.booleans())


def drawn(strategy: Any, examples: int) -> Callable:
    """The same examples in every run; compiling them takes what it takes."""

    def decorated(function):
        settings = hypothesis.settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=[*hypothesis.HealthCheck],
        )
        return settings(hypothesis.given(cases(strategy))(function))

    return decorated


@drawn(product(), 4)
def test_products_equal_those_of_jax(case):
    played(*case)


KINDS = [elementwise, product, reduction, form, place, choice, control, convolution]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_operations_equal_those_of_jax(kind):
    drawn(kind(), 25)(lambda case: played(*case))()
