"""The table of primitives, and those of our own, held to JAX's."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend import core as jex

from jonline._engine import primitives

SHAPES = [
    *(((length,), (0,)) for length in (0, 1, 7, 127, 128, 129, 784, 5000)),
    ((3, 200), (1,)), ((200, 3), (0,)), ((10, 784), (0,)), ((10, 784), (1,)), ((4, 5, 6), (0, 2)),
    ((9, 5, 40), (0, 2)), ((6, 0), (1,)), ((3, 70), (0,)),
]  # fmt: skip


def bits(values):
    return np.asarray(values).view(np.uint32)


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_sum_has_one_order_alone_in_lanes_and_drawn_ahead(shape, axes):
    values = np.random.default_rng(0).normal(size=(3, 16, *shape)).astype(np.float32)
    one = lambda value: primitives.ordered_sum(value, axes)  # noqa: E731
    found = jax.jit(jax.vmap(jax.vmap(one)))(values)
    expected = values.astype(np.float64).sum(axis=tuple(axis + 2 for axis in axes))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    last = jax.jit(jax.vmap(one, in_axes=-1, out_axes=-1))(np.moveaxis(values[1], 0, -1))
    np.testing.assert_array_equal(bits(last), bits(np.moveaxis(found[1], 0, -1)))
    for i, j in itertools.product((0, 2), (0, 5, 15)):
        np.testing.assert_array_equal(bits(jax.jit(one)(values[i, j])), bits(found[i, j]))


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_sum_of_nothing_but_zeros_is_that_of_jax(shape, axes):
    for zero in (0.0, -0.0):
        values = jnp.full(shape, zero)
        np.testing.assert_array_equal(
            bits(jax.jit(primitives.ordered_sum, static_argnums=1)(values, axes)),
            bits(jnp.sum(values, axes)),
        )


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_sum_passes_on_what_is_not_finite(special):
    values = np.ones(300, np.float32)
    values[[3, 290]] = special
    np.testing.assert_array_equal(primitives.ordered_sum(values, (0,)), special)


def test_sum_over_no_axis_is_the_value():
    values = jnp.arange(3.0)
    assert primitives.ordered_sum(values, ()) is values


STARTS = [(0, 0), (2, 3), (-1, 4), (100, -100)]


@pytest.mark.parametrize("lanes", [(0, None), (None, 0), (0, 0), (1, None), (2, 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, "key"])
def test_take_is_the_slice_of_jax(lanes, dtype):
    table = np.arange(4 * 5 * 6).reshape(4, 5, 6)
    if dtype == "key":
        table = jax.vmap(jax.random.key)(table.ravel()).reshape(table.shape)
    else:
        table = table.astype(dtype)
    of_table, of_start = lanes
    operand = table if of_table is not None else table[0]
    starts = np.asarray(STARTS, np.int32)
    size = operand.shape[of_table] if of_table is not None else len(starts)
    starts = np.resize(starts, (size, 2)) if of_start is not None else starts[1]

    def ours(operand, start):
        return primitives.take(operand, *start, slice_sizes=(2, 3))

    def theirs(operand, start):
        return lax.dynamic_slice(operand, list(start), (2, 3))

    found, expected = (
        jax.jit(jax.vmap(one, (of_table, of_start)))(operand, starts) for one in (ours, theirs)
    )
    assert bool(jnp.all(found == expected)) and found.shape == expected.shape


@pytest.mark.parametrize("lanes", [*itertools.product((None, 0), (None, 0, 1), (None, 0))][1:])
def test_put_is_the_update_of_jax(lanes):
    tables, rows = np.zeros((4, 5, 6), np.float32), np.arange(24, dtype=np.float32)
    operand = tables if lanes[0] is not None else tables[0]
    update = rows.reshape(4, 2, 3) if lanes[1] is not None else rows[:6].reshape(2, 3)
    update = np.moveaxis(update, 0, 1) if lanes[1] == 1 else update
    starts = np.asarray(STARTS, np.int32)
    starts = starts if lanes[2] is not None else starts[1]
    found, expected = (
        jax.jit(jax.vmap(one, lanes))(operand, update, starts)
        for one in (
            lambda operand, update, start: primitives.put(operand, update, *start),
            lambda operand, update, start: lax.dynamic_update_slice(operand, update, list(start)),
        )
    )
    np.testing.assert_array_equal(found, expected)


def test_at_a_place_that_all_lanes_share_slices_stay_slices():
    def one(table, row, i):
        table = primitives.put(table, row[None], i, 0)
        return primitives.take(table, i, 0, slice_sizes=(1, 3))

    args = jnp.zeros((16, 5, 3)), jnp.ones((16, 3)), 2
    text = str(jax.make_jaxpr(jax.vmap(one, (0, 0, None)))(*args))
    assert "gather" not in text and "scatter" not in text
    assert "gather" in str(jax.make_jaxpr(jax.vmap(one))(*args[:2], jnp.arange(16)))


def test_layout_of_lanes_changes_no_value():
    values = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    for function in (lambda f: f, jax.vmap, lambda f: jax.vmap(jax.vmap(f, 1), 0)):
        found = jax.jit(function(primitives.lanes_fastest))(values)
        expected = function(lambda x: x * 1)(values)
        np.testing.assert_array_equal(found, expected)
    key = jax.random.key(0)
    assert primitives.lanes_fastest(key) is key


@pytest.mark.parametrize(("platform", "large"), [("cpu", True), ("cuda", False)])
def test_an_accelerator_keeps_large_values_of_a_lane_together(platform, large):
    def laid_out(*shape):
        traced = jax.jit(primitives.with_lanes_fastest).trace(jnp.zeros(shape))
        return "LayoutConstraint" in traced.lower(lowering_platforms=(platform,)).as_text()

    assert laid_out(16, 8) and laid_out(16, 10, 784) == large


def test_every_name_in_the_table_is_a_primitive_of_this_jax():
    known = {getattr(value, "name", None) for value in vars(jex.primitives).values()}
    own = {"drawn", "ordered_sum", "put", "take"}
    missing = {*primitives._TRAITS} - known - own - {"optimization_barrier", "split"}
    assert not missing
