"""Odd learners, streams, metrics, numbers and interruptions that the engine must survive."""

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import Environment, Learner, Stream, delays, oracles
from jonline._engine.block import ENDLESS, Inputs, Plan, advance, build, start_block
from jonline._sweep import driver
from jonline.core import Example
from tests.games import Output, clock, no_metrics

SETTINGS = dict(num_rounds=12, num_seeds=2, key=0, record_every=4)


def make_game(
    init=lambda key: jnp.zeros(()),
    predict=lambda state, x, key: Output(jnp.int32(1)),
    update=lambda state, *_: state + 1.0,
    **environment,
):
    environment = dict(stream=clock(), oracle=oracles.label()) | environment

    def make(point, data):
        return Learner(init, predict, update), Environment(**environment)

    return make


def play(make, metrics=no_metrics, grid=None, **settings):
    return jonline.sweep(make, metrics, grid or {}, **(SETTINGS | settings))


class Reply(NamedTuple):
    output: Any
    extra: Any = None


@pytest.mark.parametrize("delay", [None, delays.fixed(2)])
def test_learner_without_state(delay):
    make = make_game(init=lambda key: (), update=lambda state, *_: state, delay=delay)
    result = play(make)
    assert result.states == () and not result.non_finite
    np.testing.assert_array_equal(result.records["rounds"], np.full((1, 2, 3), 4))


@pytest.mark.parametrize("delay", [None, delays.fixed(2)])
def test_state_of_many_dtypes_without_a_float(delay):
    def update(state, *_):
        flag, count, none, words = state
        return ~flag, count + 1, none, words + jnp.uint8(255)

    init = lambda key: (jnp.array(False), jnp.int32(0), None, jnp.zeros(3, jnp.uint8))  # noqa: E731
    result = play(make_game(init, update=update, delay=delay))
    flag, count, none, words = result.states
    assert (flag.dtype, count.dtype, none, words.dtype) == (bool, np.int32, None, np.uint8)
    np.testing.assert_array_equal(count + result.undelivered, 12)
    np.testing.assert_array_equal(flag, count % 2 == 1)
    np.testing.assert_array_equal(words[..., 0], (-count) % 256)


def test_state_of_python_numbers_compiles_once():
    traces = []

    def update(state, *_):
        traces.append(state)
        return state * 2

    result = play(make_game(init=lambda key: 1.0, update=update), windows_per_call=1)
    np.testing.assert_array_equal(result.states, np.full((1, 2), 2.0**12))
    assert len(traces) == 1


def test_state_with_leaves_that_are_one_array_or_an_argument():
    """Their memory is given away, each time once."""

    def make(point, data):
        learner = Learner(
            init=lambda key: {"a": point["a"], "b": point["a"], "c": data, "d": jnp.zeros(())},
            predict=lambda state, x, key: Output(jnp.int32(1)),
            update=lambda state, *_: state | {"d": state["d"] + state["a"], "b": state["d"]},
        )
        return learner, Environment(clock(), oracles.label())

    grid, data = {"a": np.arange(16.0)}, np.arange(3.0)
    settings = dict(num_seeds=1, data=data, windows_per_call=1)
    states = play(make, grid=grid, **settings).states
    again = play(make, grid=grid, **settings).states
    chex.assert_trees_all_equal(states, again)
    np.testing.assert_array_equal(states["a"][:, 0], grid["a"])
    np.testing.assert_array_equal(states["b"][:, 0], 11 * grid["a"])
    np.testing.assert_array_equal(states["c"], np.broadcast_to(data, (16, 1, 3)))
    np.testing.assert_array_equal(states["d"][:, 0], 12 * grid["a"])


def test_key_in_the_state_is_an_error():
    with pytest.raises(TypeError, match=r"state\['key'\] must be no random key"):
        play(make_game(init=lambda key: {"key": key}))


@pytest.mark.parametrize("delay", [None, delays.uniform(2)])
def test_predictions_may_hold_none_python_numbers_and_keys(delay):
    predict = lambda state, x, key: Reply(1, (None, 3, True, x > 2, key))  # noqa: E731
    result = play(make_game(predict=predict, delay=delay))
    np.testing.assert_array_equal(result.states + result.undelivered, 12)


def test_stream_of_python_and_numpy_values():
    stream = Stream(init=lambda key: None, draw=lambda source, t: Example(np.ones(2, np.int32), 1))
    for delay in (None, delays.fixed(1)):
        make = make_game(stream=stream, oracle=lambda y, prediction, key: y, delay=delay)
        result = play(make, lambda e, p, f, s: {"y": f, "x": e.x[0]})
        np.testing.assert_array_equal(result.records["y"], 4)
        np.testing.assert_array_equal(result.records["x"], 4)


def test_metrics_may_be_python_and_numpy_numbers():
    def metrics(example, prediction, feedback, state):
        return dict(a=1, b=True, c=0.5, d=np.float64(2), e=jnp.bool_(False), f=np.int64(3))

    records = play(make_game(), metrics).records
    expected = dict(a=4, b=4, c=2.0, d=8.0, e=0, f=12)
    for name, value in expected.items():
        kind = np.int32 if isinstance(value, int) else np.float32
        np.testing.assert_array_equal(records[name], np.full((1, 2, 3), value))
        assert records[name].dtype == kind


def test_sweep_without_metrics_returns_states():
    result = play(make_game(), lambda *_: {})
    assert result.records == {}
    np.testing.assert_array_equal(result.states, 12)
    labelled = result.to_xarray()
    assert dict(labelled.sizes) == {"point": 1, "seed": 2, "round": 0}


@pytest.mark.parametrize(
    ("measured", "error", "message"),
    [
        (None, TypeError, "metrics must return a dict of scalars, got None"),
        ((1.0,), TypeError, r"metrics must return a dict of scalars, got \(1.0,\)"),
        ({"": 1.0}, ValueError, "names of metrics must be non-empty strings, got ''"),
        ({1: 1.0}, ValueError, "names of metrics must be non-empty strings, got 1"),
        ({"a": 1j}, TypeError, "metric 'a' must be a real number or a bool, got complex64"),
        ({"a": jnp.uint32(1)}, TypeError, "metric 'a' must fit into int32, got uint32"),
    ],
)
def test_metrics_of_another_form_are_an_error(measured, error, message):
    with pytest.raises(error, match=message):
        play(make_game(), lambda *_: measured)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (dict(devices=["cpu"]), TypeError, "devices must be a list of JAX devices"),
        (dict(devices=jax.local_devices()[0]), TypeError, "devices must be a list of JAX devices"),
        (dict(grid=[("a", 1)]), TypeError, "grid must be a dict of numbers by name"),
        (dict(grid={"a": [1, 2**40]}), ValueError, r"'a' must fit into int32, got 10995"),
        (
            dict(data=np.array([1, 2**31])),
            ValueError,
            "data must fit into int32, got 2147483648 in",
        ),
        (dict(data=np.array([1, 1e300])), ValueError, r"fit into float32, got 1e\+300 in row 1"),
        (dict(data=np.float64(1e300)), ValueError, r"data must fit into float32, got 1e\+300$"),
        (dict(data=np.array([1e300, np.nan])), ValueError, "data must be finite, got nan in row 1"),
        (dict(grid={"a": [1e300]}), ValueError, r"'a' must fit into float32, got 1e\+300"),
        (dict(data=np.ma.array([1, 2])), TypeError, "data must be without a mask, got MaskedArray"),
        (dict(data=np.array([1j])), TypeError, "data must hold numbers"),
    ],
)
def test_bad_arguments_are_named(settings, error, message):
    with pytest.raises(error, match=message):
        play(make_game(), **settings)


def test_numbers_beyond_int32_are_named():
    for settings in (dict(first=2**31, last=2**31 + 1), dict(first=0, last=1, seed=2**40)):
        with pytest.raises(ValueError, match="must be < 2.31, got"):
            jonline.trace(make_game(), {}, key=0, **settings)
    with pytest.raises(ValueError, match="num_rounds must be < 2.31, got"):
        play(make_game(), num_rounds=2**31, record_every=2**31)
    with pytest.raises(TypeError, match="point must be a dict"):
        jonline.trace(make_game(), None, key=0, first=0, last=1)


def test_grid_axes_have_at_least_single_precision():
    for kind in (np.float16, jnp.bfloat16):
        assert jonline.product_grid(a=np.ones(2, kind))["a"].dtype == np.float32
    with jax.enable_x64(True):
        assert jonline.product_grid(a=np.ones(2, np.float16))["a"].dtype == np.float32
        assert jonline.product_grid(a=[1.0])["a"].dtype == np.float64


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (-1, ValueError, r"key must be in 0…2\^32 - 1, got -1"),
        (2**32, ValueError, r"key must be in 0…2\^32 - 1, got 4294967296"),
        (2**64, ValueError, r"key must be in 0…2\^32 - 1"),
        (np.zeros(3, np.uint32), TypeError, r"uint32 key .*\(2,\).*, got shape \(3,\)"),
        (np.zeros((2, 2, 2), np.uint32), TypeError, r"uint32 key .*, got shape \(2, 2, 2\)"),
    ],
)
def test_bad_keys_are_named(key, error, message):
    with pytest.raises(error, match=message):
        play(make_game(), key=key)
    with pytest.raises(error, match=message):
        jonline.run(make_game(), no_metrics, {}, num_rounds=1, key=key, record_every=1)


def test_greatest_key_is_allowed():
    jonline.run(make_game(), no_metrics, {}, num_rounds=1, key=2**32 - 1, record_every=1)


@pytest.mark.parametrize("name", ["data", "grid", "key", None])
def test_sweep_within_jit_is_an_error(name):
    def within(value):
        settings = {} if name is None else {name: {"grid": {"a": value}}.get(name, value)}
        return play(make_game(), **settings).states

    value = jax.random.key(0) if name == "key" else jnp.ones(2)
    with pytest.raises(TypeError, match="is traced.*outside jit"):
        jax.jit(within)(value)


def test_trace_of_a_stretch_that_is_too_long_is_refused_with_its_size():
    make = make_game(init=lambda key: jnp.zeros(1000), update=lambda state, *_: state)
    with pytest.raises(ValueError, match=r"would need \d{10} bytes \(2000000 rounds x 4\d{3}\)"):
        jonline.trace(make, {}, key=0, first=0, last=2_000_000)


def test_numbers_of_other_widths_are_data_and_grids():
    def make(point, data):
        learner = Learner(
            init=lambda key: jnp.zeros(()),
            predict=lambda state, x, key: Output(jnp.int32(1)),
            update=lambda state, *_: (
                state + point["a"] + data["half"][0] + data["flag"] + data["n"]
            ),
        )
        return learner, Environment(clock(), oracles.label())

    data = {"half": jnp.ones(2, jnp.bfloat16), "flag": True, "n": 2, "none": None}
    for axis in (
        np.array([1, 2], np.uint8),
        np.array([1, 2], np.float16),
        jnp.array([1, 2]),
        jnp.array([1, 2], jnp.bfloat16),
    ):
        result = play(make, grid={"a": axis}, data=data)
        np.testing.assert_array_equal(result.states[:, 0], [60, 72])


def test_best_passes_over_points_that_are_not_finite_without_a_warning():
    sums = np.array([[[np.inf, -np.inf]], [[3, 3]], [[2, 1]]], np.float32)
    bad = (jonline.NonFinite(0, 0, 0, "a"),)
    result = jonline.SweepResult({"a": sums}, (), {}, 1, np.zeros((3, 1), np.int32), bad)
    assert result.best("a") == 2


def test_old_keys_are_the_new_ones():
    def random_metric(example, prediction, feedback, state):
        return {"word": prediction.output}

    make = make_game(predict=lambda state, x, key: Output(jax.random.uniform(key)))
    expected = play(make, random_metric).records["word"]
    old = jax.random.PRNGKey(0)
    for key in (old, np.asarray(old)):
        np.testing.assert_array_equal(play(make, random_metric, key=key).records["word"], expected)
    many = jax.jit(jax.vmap(jax.random.fold_in, (None, 0)))(jax.random.key(0), jnp.arange(2))
    found = play(make, random_metric, key=jax.random.key_data(many)).records["word"]
    np.testing.assert_array_equal(found, expected)


def test_last_rounds_before_two_to_the_31_are_played():
    """Windows of a far stretch; what is drawn ahead beyond the last number is not played."""
    every = 50
    make = make_game(update=lambda state, x, prediction, feedback, key: feedback.value, init=zero)
    plan = Plan(make, of_label, 1, every, 4, ENDLESS)
    keys = jax.random.split(jax.random.key(0), 16)
    window = (2**31 - 1) // every
    inputs = Inputs(None, keys, {})
    built = build(plan, inputs)
    block, windows = advance(built, start_block(built, inputs), window - 2, window)
    np.testing.assert_array_equal(block.carry.state, window * every - 1)
    np.testing.assert_array_equal(windows.sums["odd"][:2], every // 2)
    np.testing.assert_array_equal(windows.sums["odd"][2:], 0)


def zero(key):
    return jnp.int32(0)


def of_label(example, prediction, feedback, state):
    return {"odd": example.y % 2}


def test_delay_longer_than_any_run_needs_no_slots():
    make = make_game(delay=delays.fixed(2**31 - 2))
    result = play(make)
    np.testing.assert_array_equal(result.undelivered, 12)
    np.testing.assert_array_equal(result.states, 0)


def accurate(example, prediction, feedback, state):
    return {"third": example.x[0] / 3, "state": state}


def test_x64_of_the_caller_reaches_every_device():
    two = [jax.local_devices()[0]] * 2
    with jax.enable_x64(True):
        make = make_game(update=lambda state, x, *_: state + x[0] / 3)
        settings = dict(num_seeds=40, block=16)
        shared = play(make, accurate, devices=two, **settings)
        alone = play(make, accurate, **settings)
    chex.assert_trees_all_equal(shared.records, alone.records)
    chex.assert_trees_all_equal(shared.states, alone.states)
    assert shared.states.dtype == np.float64
    np.testing.assert_allclose(shared.states, 22, rtol=1e-15)


def test_more_devices_than_blocks():
    devices = jax.local_devices() * 5
    np.testing.assert_array_equal(play(make_game(), devices=devices).states, 12)
    wide = play(make_game(), devices=devices, num_seeds=40)
    np.testing.assert_array_equal(wide.states, np.full((1, 40), 12))


def failing_advance(monkeypatch, error):
    """Lets the second call of a worker fail."""
    calls, real = [], driver.advance

    def advance(*args):
        if threading.current_thread() is not threading.main_thread():
            calls.append(args)
            if len(calls) == 2:
                raise error
        return real(*args)

    monkeypatch.setattr(driver, "advance", advance)
    return calls


@pytest.mark.parametrize("error", [ValueError("boom"), KeyboardInterrupt("boom")])
def test_error_on_one_device_stops_the_others(monkeypatch, error):
    calls = failing_advance(monkeypatch, error)
    with pytest.raises(type(error), match="boom"):
        play(
            make_game(), devices=jax.local_devices() * 2, num_seeds=64, block=16, num_rounds=4000,
            windows_per_call=1,
        )  # fmt: skip
    assert len(calls) < 1000  # of 4000 in all
    assert not any(thread.name.startswith("ThreadPool") for thread in threading.enumerate())


@pytest.mark.parametrize("devices", [1, 2])
def test_interrupt_ends_a_sweep(devices):
    script = f"""
import signal
import jax, jonline
from tests._engine.test_block import make_game, no_metrics
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
print("ready", flush=True)
try:
    jonline.sweep(make_game(), no_metrics, {{}}, num_rounds=2 * 10**9, num_seeds=32, key=0,
                  record_every=10**6, block=16, devices=jax.local_devices() * {devices})
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    root = Path(__file__).parents[2]
    child = subprocess.Popen(
        [sys.executable, "-u", "-c", script], cwd=root, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(2)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=20)
    finally:
        child.kill()
        child.communicate()
    assert out == "interrupted\n" and child.returncode == 0
