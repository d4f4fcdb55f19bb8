"""Programs are remembered by what they are; what they may not do is refused."""

import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

import jonline
from jonline import Environment, Learner, Stream, oracles
from jonline._engine import programs
from jonline._sweep import fingerprint
from jonline.core import Example
from tests._engine.test_block import make_game, play
from tests.games import Output, clock, no_metrics
from tests.test_runtime import child

RATE = 0.1


def make_with_a_global(point, data):
    learner = Learner(
        init=lambda key: jnp.zeros(()),
        predict=lambda state, x, key: Output(state),
        update=lambda state, x, *_: state + RATE * x[0],
    )
    return learner, Environment(clock(), oracles.label())


def measure_with_a_global(example, prediction, feedback, state):
    return {"score": RATE * example.x[0]}


def test_a_global_that_changed_is_seen_by_sweep_run_and_trace(monkeypatch):
    settings = dict(num_rounds=12, key=0, record_every=12)
    for rate in (0.25, 0.5, 0.25):
        monkeypatch.setitem(globals(), "RATE", rate)
        make, metrics = make_with_a_global, measure_with_a_global
        total = rate * sum(range(12))
        for found in (
            jonline.sweep(make, metrics, {}, num_seeds=2, **settings),
            jonline.run(make, metrics, {}, **settings),
        ):
            np.testing.assert_array_equal(found.records["score"], total)
            np.testing.assert_array_equal(found.states, total)
        seen = jonline.trace(make, {}, key=0, first=0, last=4)
        np.testing.assert_array_equal(seen.state, rate * np.array([0, 0, 1, 3]))


def test_a_global_that_changed_is_seen_by_examples_and_comparators(monkeypatch):
    drifting = Stream(lambda key: key, lambda key, t: Example(RATE * jnp.ones(1), jnp.ones(1)))
    shifted = lambda theta, y: jnp.sum((theta - y - RATE) ** 2)  # noqa: E731
    rows = Example(np.ones((8, 1)), np.ones((8, 1)))
    for rate in (0.25, 0.5):
        monkeypatch.setitem(globals(), "RATE", rate)
        found = jonline.comparators.examples(drifting, 0, 0, 3)
        np.testing.assert_array_equal(found.x, np.full((3, 1), rate))
        best = jonline.comparators.best_linear(shifted, rows)
        np.testing.assert_allclose(best.params, 1 + rate, atol=1e-2)
        losses = jonline.comparators.loss_curve(shifted, np.ones((1, 1)), rows, 8)
        np.testing.assert_allclose(losses, 8 * rate**2)


def test_a_checkpoint_of_another_global_is_refused(monkeypatch, tmp_path):
    monkeypatch.setitem(globals(), "RATE", 0.25)
    settings = dict(num_rounds=12, num_seeds=2, key=0, record_every=12, checkpoint=tmp_path)
    jonline.sweep(make_with_a_global, no_metrics, {}, **settings)
    monkeypatch.setitem(globals(), "RATE", 0.5)
    with pytest.raises(ValueError, match="differs in program"):
        jonline.sweep(make_with_a_global, no_metrics, {}, **settings)


def test_a_function_defined_again_compiles_nothing_and_has_its_own_types():
    def defined_again():
        class State(NamedTuple):
            total: jax.Array

        return State, make_game(
            init=lambda key: State(jnp.zeros(())),
            update=lambda state, x, *_: State(state.total * 0.75 + x[0]),
        )

    _, make = defined_again()
    play(make)
    known = {*programs._kept}
    State, make = defined_again()
    assert type(play(make).states) is State
    assert {*programs._kept} == known


def test_host_callbacks_that_look_alike_are_told_apart():
    def make_with(factor):
        def on_host(x):
            return np.asarray(x * factor, np.float32)

        def update(state, x, *_):
            shape = jax.ShapeDtypeStruct((), jnp.float32)
            return state + jax.pure_callback(on_host, shape, x[0], vmap_method="expand_dims")

        return make_game(update=update)

    for factor in (1, 2):
        np.testing.assert_array_equal(play(make_with(factor)).states, factor * sum(range(12)))


def test_a_checkpoint_of_a_program_with_host_callbacks_is_refused(tmp_path):
    def update(state, x, *_):
        shape = jax.ShapeDtypeStruct((), jnp.float32)
        return jax.pure_callback(np.float32, shape, x[0], vmap_method="expand_dims")

    with pytest.raises(ValueError, match="checkpoint must be None where"):
        play(make_game(update=update), checkpoint=tmp_path / "a")


def test_settings_of_jax_that_change_numbers_are_seen(tmp_path):
    make = make_game(update=lambda state, x, p, f, key: state + jax.random.uniform(key, (3,)).sum())
    found = []
    for partitionable in (True, False):
        with jax.threefry_partitionable(partitionable):
            found.append(play(make).states)
    assert not np.array_equal(*found)
    with jax.threefry_partitionable(False):
        play(make, checkpoint=tmp_path)
    named = "differs in program: .*; jax_threefry_partitionable: False there, True here"
    with jax.threefry_partitionable(True), pytest.raises(ValueError, match=named):
        play(make, checkpoint=tmp_path)


def test_constants_beside_the_text_are_told_apart():
    found = child(
        """
import jax, numpy as np
from jonline._engine import programs
kept = []
for factor in (1, 2):
    values = np.arange(100, dtype=np.float32) * factor
    call = programs.compiled(lambda x: x + values, np.zeros(100, np.float32)).call
    kept.append(float(call(np.zeros(100, np.float32))[3]))
print(json.dumps(kept))
""",
        JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS="1",
    )
    assert found == [3.0, 6.0]


def test_the_programs_that_are_kept_have_a_bound(monkeypatch):
    monkeypatch.setattr(programs, "MOST", 3)
    for constant in range(5):
        programs.compiled(lambda x, c=constant: x + c, np.float32(0))
        assert len(programs._kept) <= 3
    call = programs.compiled(lambda x: x + 4, np.float32(0)).call
    assert len(programs._kept) == 3 and call(np.float32(1)) == 5


def prints(x):
    jax.debug.print("{}", x)
    return x


def calls_out(x):
    return io_callback(lambda x: np.float32(x), jax.ShapeDtypeStruct((), jnp.float32), x)


@pytest.mark.parametrize("place", ["init", "predict", "update", "oracle", "metrics"])
@pytest.mark.parametrize("effect", [prints, calls_out])
def test_effects_are_refused_with_their_names(place, effect):
    parts = {
        "init": lambda key: effect(jnp.float32(0)),
        "predict": lambda state, x, key: Output(effect(x[0])),
        "update": lambda state, x, *_: jax.lax.cond(x[0] > 3, lambda: effect(state), lambda: state),
        "oracle": lambda y, prediction, key: oracles.Label(effect(1.0 * y), jnp.asarray(True)),
    }
    metrics = no_metrics
    if place == "metrics":
        metrics = lambda example, *_: {"x": effect(example.x[0])}  # noqa: E731
    make = make_game(**{place: parts[place]} if place != "metrics" else {})
    name = "debug_print|debug_callback" if effect is prints else "io_callback"
    with pytest.raises(TypeError, match=f"must be pure, got ({name}).*`trace`"):
        play(make, metrics)
    with pytest.raises(TypeError, match="must be pure"):
        jonline.run(make, metrics, {}, num_rounds=4, key=0, record_every=4)


@pytest.mark.parametrize("delay", [None, jonline.delays.fixed(2), jonline.delays.uniform(3)])
def test_trace_has_the_effects_of_each_round_once(delay, capfd):
    def make_with(tell):
        def update(state, x, *_):
            tell("update of {} from {}", x[0], state)
            return state + x[0] / 3

        def predict(state, x, key):
            tell("predict {}", x[0])
            return Output(state)

        return make_game(predict=predict, update=update, delay=delay)

    loud = jonline.trace(make_with(jax.debug.print), {}, key=0, first=2, last=6)
    told = capfd.readouterr().out.splitlines()
    quiet = jonline.trace(make_with(lambda *_: None), {}, key=0, first=2, last=6)
    assert not capfd.readouterr().out
    jax.tree.map(np.testing.assert_array_equal, loud, quiet)
    assert [line for line in told if "predict" in line] == [f"predict {t}.0" for t in range(2, 6)]
    assert sum("update" in line for line in told) == quiet.delivered.sum()


def test_trace_in_pieces_has_the_same_bits(monkeypatch):
    make = make_game(
        update=lambda state, x, p, f, key: state / 3 + jax.random.uniform(key),
        delay=jonline.delays.fixed(2),
    )
    whole = jonline.trace(make, {}, key=0, first=3, last=40)
    monkeypatch.setattr(sys.modules["jonline._sweep.trace"], "_AT_ONCE", 16 * 200)
    jax.tree.map(
        np.testing.assert_array_equal, whole, jonline.trace(make, {}, key=0, first=3, last=40)
    )


def test_a_sum_of_whole_numbers_beyond_int32_is_an_error_and_one_below_is_exact():
    at_most = lambda example, *_: {"count": jnp.where(example.y == 5, 2**31 - 4, 1)}  # noqa: E731
    result = play(make_game(), at_most, num_rounds=4, record_every=4)
    np.testing.assert_array_equal(result.records["count"], 4)
    result = play(make_game(), at_most, num_rounds=8, record_every=4)
    np.testing.assert_array_equal(result.records["count"][..., 1], 2**31 - 1)
    for sign in (1, -1):
        more = lambda *args, sign=sign: {  # noqa: E731
            "count": sign * (at_most(*args)["count"] + 1)
        }
        with pytest.raises(
            ValueError, match=r"metric 'count' must .* in rounds 4 to 7 at point 0, seed 0"
        ):
            play(make_game(), more, num_rounds=12, record_every=4)


@pytest.mark.filterwarnings("ignore:.*not finite:RuntimeWarning")
def test_an_infinite_metric_is_recorded_as_infinite():
    once = lambda example, *_: {"up": jnp.where(example.y == 5, jnp.inf, 1.0)}  # noqa: E731
    result = play(make_game(), once, num_rounds=12, record_every=4)
    np.testing.assert_array_equal(result.records["up"][0, 0], [4.0, np.inf, 4.0])


def test_what_a_stream_makes_for_a_run_is_made_once_a_block():
    made = []

    def count(x):
        made.append(1)
        return x

    def init(key):
        order = jnp.arange(5.0) + jax.random.uniform(key)
        return jax.pure_callback(count, order, order, vmap_method="sequential")

    stream = Stream(init, lambda order, t: Example(order[t % 5][None], jnp.int32(t)))
    make = make_game(stream=stream, update=lambda state, x, *_: state + x[0])
    play(make, num_rounds=12, record_every=1, num_seeds=3, windows_per_call=1)
    assert 0 < len(made) <= 16  # seeds of the one block, with padding


@pytest.mark.slow
def test_flags_of_xla_that_are_called_harmless_change_no_bit(tmp_path):
    script = """
import jax, jonline, numpy as np
from tests.small_sweep import play, bits
import hashlib
found = bits(play(os.environ["FOLDER"] or None))
print(json.dumps(hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()))
"""

    flags = {"--xla_force_host_platform_device_count": "=3", "--xla_dump_to": f"={tmp_path / 'd'}"}
    assert {*flags} == {*fingerprint.HARMLESS_FLAGS}
    folder = str(tmp_path / "sweep")
    plain = child(script, FOLDER="")
    for name, value in flags.items():
        alone = child(script, FOLDER="", XLA_FLAGS=name + value)
        kept = child(script, FOLDER=folder, XLA_FLAGS=name + value)
        assert alone == kept == plain


def test_programs_are_kept_on_disk_for_other_processes(tmp_path):
    script = """
import jax, jonline
jonline.configure(cache=os.environ["CACHE"])
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name))
from tests._engine.test_block import make_game, play
states = play(make_game()).states
print(json.dumps([states.tolist(), sum("cache_hits" in name for name in hits)]))
"""
    (first, cold), (second, warm) = (child(script, CACHE=str(tmp_path)) for _ in range(2))
    assert first == second and cold == 0 and warm >= 2
