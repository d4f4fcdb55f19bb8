"""What the functions keep of their arguments: counts that cannot wrap, numbers of their own."""

import functools
import inspect
import math
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import Environment, Learner, delays, kernels, oracles, ordinal, streams, structured
from jonline._sweep import arguments as checked
from jonline.core import Example
from tests.calls import X, Y, arguments, called, public_functions
from tests.games import Output, clock, make_dford, no_metrics, table

FORMULAS = (jax.Array, tuple[jax.Array, jax.Array], structured.Mixture, ordinal.OrdinalState)
FACTORIES = {
    name: function
    for name, function in public_functions().items()
    if not name.startswith(
        ("jonline.data.", "jonline._sweep.", "jonline.runtime.", "jonline.core.")
    )
    and not name.startswith(("jonline.comparators.", "jonline.structured.spaces.birkhoff."))
    and inspect.signature(function).return_annotation not in FORMULAS
    and "path" not in inspect.signature(function).parameters
}


def kept(value, seen=None):
    """Yields the numbers and arrays in a result, also those its functions close over."""
    seen = {} if seen is None else seen
    if id(value) in seen or isinstance(value, types.ModuleType):
        return
    seen[id(value)] = value
    parts = ()
    if isinstance(value, functools.partial):
        parts = (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, types.FunctionType):
        if value.__module__ is not None and value.__module__.startswith("jonline"):
            parts = [cell.cell_contents for cell in value.__closure__ or ()]
            parts += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    elif isinstance(value, (tuple, list)):
        parts = value
    elif isinstance(value, dict):
        parts = value.values()
    else:
        yield value
    for part in parts:
        yield from kept(part, seen)


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool)


@pytest.mark.filterwarnings("ignore:explore = ")
@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint32, np.int64])
def test_counts_of_every_width_are_kept_as_python_ints(kind):
    for name, function in FACTORIES.items():
        values, axes = arguments(name, function)
        counts = {key: kind(value) for key, value in values.items() if is_count(value)}
        if not counts or name.startswith(("jonline.oracles", "jonline.metrics")):
            continue
        made = called(function, values | counts, axes)
        if any(callable(part) for part in jax.tree.leaves(made)):
            narrow = [part for part in kept(made) if isinstance(part, np.integer)]
            assert not narrow, (name, narrow)
        else:
            expected = called(function, values, axes)
            jax.tree.map(np.testing.assert_array_equal, made, expected)


@pytest.mark.slow
def test_counts_of_runs_can_be_of_any_width():
    small = dict(key=0, num_rounds=240, record_every=60)
    rows = jonline.sweep(make_dford, no_metrics, {"reg": [1.0], "explore": [0.5]}, data=table(),
                         num_seeds=1, **small).records["rounds"]  # fmt: skip
    for kind in (np.uint8, np.uint32, np.int64):
        new = {name: kind(value) for name, value in small.items()}
        other = jonline.sweep(make_dford, no_metrics, {"reg": [1.0], "explore": [0.5]},
                              data=table(), num_seeds=kind(1), block=kind(16),
                              windows_per_call=kind(3), **new)  # fmt: skip
        np.testing.assert_array_equal(other.records["rounds"], rows)
        assert type(other.record_every) is int
    seen = jonline.trace(
        make_dford, {"reg": 1.0, "explore": 0.5}, data=table(), key=0, first=np.uint8(250),
        last=np.int64(260), seed=np.int8(0),
    )  # fmt: skip
    np.testing.assert_array_equal(seen.rounds, np.arange(250, 260))


def test_arithmetic_with_narrow_numbers_does_not_wrap():
    def make(point, data):
        learner = Learner(
            init=lambda key: point["n"] * point["n"],
            predict=lambda state, x, key: Output(state),
            update=lambda state, *_: state,
        )
        return learner, Environment(clock(), oracles.label())

    for kind in (np.int8, np.uint8, np.uint16, np.int64):
        result = jonline.sweep(make, no_metrics, {"n": np.array([100, 120], kind)}, num_rounds=1,
                               num_seeds=1, key=0, record_every=1)  # fmt: skip
        np.testing.assert_array_equal(result.states[:, 0], [10_000, 14_400])
        assert result.grid["n"].dtype == kind
    assert jonline.metrics.label_error(np.uint8(1), np.uint8(3)) == 2
    square = jonline.optimizers.solid_ogd(1.0, gradient_bound=np.int8(100), max_delay=np.int8(100))
    assert np.isfinite(square.update(
        square.init(jnp.zeros((1, 1))), jnp.ones(1), jnp.ones(1),
        square.stamp(square.init(jnp.zeros((1, 1)))),
    ).params).all()  # fmt: skip


def own_arrays(values):
    """The arguments with arrays and numbers as NumPy arrays that can be changed."""
    changed = {}
    for key, value in values.items():
        if isinstance(value, (np.ndarray, jax.Array, list, float)) and not isinstance(value, bool):
            dtype = getattr(value, "dtype", None)
            if dtype is None or not jnp.issubdtype(dtype, jax.dtypes.prng_key):
                changed[key] = np.array(value)
    return changed


@pytest.mark.filterwarnings("ignore:explore = ")
def test_no_factory_keeps_an_array_that_its_caller_can_change():
    checked = 0
    for name, function in FACTORIES.items():
        values, axes = arguments(name, function)
        mine = own_arrays(values)
        if not mine or name.startswith("jonline.oracles"):
            continue
        made = called(function, values | mine, axes)
        if not any(callable(part) for part in jax.tree.leaves(made)):
            continue
        for part in kept(made):
            if isinstance(part, (np.ndarray, jax.Array)):
                if not jnp.issubdtype(part.dtype, jax.dtypes.prng_key):
                    for key, array in mine.items():
                        shared = np.shares_memory(np.asarray(part), array)
                        assert not shared, f"{name} keeps {key}"
        checked += 1
    assert checked > 20


def test_a_delay_stays_as_it_was_given():
    rounds = np.full(5000, 3, np.int32)
    table_of, fixed = delays.table(rounds), delays.fixed(rounds[:1].reshape(()), max_rounds=4)
    rounds[:] = 0
    assert table_of.sample(jax.random.key(0), 7) == 3 and fixed.sample(jax.random.key(0), 7) == 3


@pytest.mark.parametrize("factory", [streams.resample, streams.one_pass, streams.epochs])
def test_a_stream_stays_as_it_was_given(factory):
    x, y = X.copy(), Y.copy()
    views = [Example(x, y), Example(x[:], y[:])]
    views[1].x.flags.writeable = False  # a view that cannot be written, of memory that can
    for data in views:
        stream = factory(data)
        x[:], y[:] = 0, 0
        shown = stream.draw(stream.init(jax.random.key(0)), 3)
        assert np.any(shown.x != 0) and shown.y != 0
        x[:], y[:] = X, Y


def test_data_that_nobody_can_change_are_not_copied_again():
    array = jnp.ones((4, 2))
    assert jonline.checks.own(array) is array
    fixed = np.ones(4)
    fixed.flags.writeable = False
    assert jonline.checks.own(fixed) is fixed
    data = checked.check_data({"x": np.ones((4, 2), np.float32)})
    assert jonline.checks.own(data["x"]) is data["x"]


@pytest.mark.slow
def test_results_own_their_arrays():
    axis, data = np.array([0.5, 0.25]), table()
    result = jonline.sweep(make_dford, no_metrics, {"reg": axis, "explore": [0.5, 1.0]}, data=data,
                           num_rounds=2, num_seeds=1, key=0, record_every=1)  # fmt: skip
    axis[:], data.x[:] = 0, 0
    np.testing.assert_array_equal(result.grid["reg"], [0.5, 0.25])
    seen = jonline.trace(make_dford, {"reg": 1.0, "explore": 0.5}, data=table(), key=0, first=0,
                         last=2)  # fmt: skip
    for leaf in (*jax.tree.leaves(tuple(result[:3])), *jax.tree.leaves(tuple(seen))):
        assert leaf.flags.writeable and not np.shares_memory(leaf, axis)


def test_weights_of_monomials_are_exact_beyond_64_bits():
    """20! 20! is more than 2^63, so that products of whole numbers would wrap."""
    expected = [math.sqrt(math.comb(40, i)) for i in range(41)]
    np.testing.assert_allclose(kernels._weights(2, 40), expected, rtol=1e-15)
