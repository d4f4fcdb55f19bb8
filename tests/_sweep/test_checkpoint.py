"""A sweep that stops and goes on from its folder, within one process."""

import shutil
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import Environment, Learner, delays, oracles
from jonline._sweep import driver
from tests._engine.test_block import Reply, make_game
from tests.games import Output, clock, no_metrics
from tests.small_sweep import (
    CALLS,
    CALLS_IN_ALL,
    GRID,
    NUM_BLOCKS,
    SETTINGS,
    StopError,
    bits,
    make,
    metrics,
    play,
    stopped,
)


@pytest.fixture(scope="module")
def whole():
    return bits(play())


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 7, CALLS_IN_ALL - 1])
def test_stopped_sweep_goes_on_where_it_was_to_the_same_bits(cut, whole, tmp_path, stop_at):
    calls = stopped(tmp_path, stop_at, cut)
    assert bits(play(tmp_path)) == whole
    assert len(calls) == CALLS_IN_ALL - cut


def test_finished_sweep_is_read_from_its_folder(whole, tmp_path, stop_at):
    assert bits(play(tmp_path)) == whole
    calls = stop_at(None)
    assert bits(play(tmp_path)) == whole
    assert calls == []


def test_block_is_kept_at_its_end_however_short_it_was(whole, tmp_path, stop_at):
    calls = stopped(tmp_path, stop_at, 2 * CALLS + 1, seconds=3600.0)
    assert bits(play(tmp_path)) == whole
    assert len(calls) == CALLS_IN_ALL - 2 * CALLS


def test_two_checkpoints_of_a_block_are_left(tmp_path):
    play(tmp_path)
    assert len([*tmp_path.glob("block-*")]) == NUM_BLOCKS
    for block in tmp_path.glob("block-*"):
        assert {path.name for path in block.iterdir()} == {"8", "12"}


def test_error_in_the_progress_bar_stops_and_the_sweep_goes_on(whole, tmp_path, monkeypatch):
    tqdm = pytest.importorskip("tqdm.auto").tqdm
    ticks = []

    def update(self, count=1):
        ticks.append(count)
        if len(ticks) == 8:
            raise StopError

    with monkeypatch.context() as patch:
        patch.setattr(tqdm, "update", update)
        with pytest.raises(StopError):
            play(tmp_path, progress=True)
    assert bits(play(tmp_path)) == whole


def test_progress_bar_counts_what_was_played_before(tmp_path, stop_at, capfd):
    stopped(tmp_path, stop_at, 9)
    play(tmp_path, progress=True)
    assert f"{12 * NUM_BLOCKS}/{12 * NUM_BLOCKS}" in capfd.readouterr().err


@pytest.mark.parametrize("cut", [2, 10])
def test_number_of_windows_of_a_call_may_change(cut, whole, tmp_path, stop_at):
    stopped(tmp_path, stop_at, cut)
    assert bits(play(tmp_path, windows_per_call=5)) == whole


def test_partial_folder_of_a_checkpoint_is_not_taken_for_one(whole, tmp_path, stop_at):
    stopped(tmp_path, stop_at, 2)
    block = tmp_path / "block-000000"
    for name in ("9.orbax-checkpoint-tmp", "10.orbax-checkpoint-tmp-1234567", "12.tmp"):
        shutil.copytree(block / "8", block / name)
        next((block / name).rglob("arrays.npz")).write_bytes(b"PK half of a file")
    (block / "unfinished").write_bytes(b"")
    calls = stop_at(None)
    assert bits(play(tmp_path)) == whole
    assert len(calls) == CALLS_IN_ALL - 2


def test_damaged_checkpoint_is_named_and_the_one_before_serves(whole, tmp_path, stop_at):
    stopped(tmp_path, stop_at, 2)
    file = next((tmp_path / "block-000000" / "8").rglob("arrays.npz"))
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(OSError, match=r"block-000000/8'.* is damaged.*remove it"):
        play(tmp_path)
    shutil.rmtree(tmp_path / "block-000000" / "8")
    calls = stop_at(None)
    assert bits(play(tmp_path)) == whole
    assert len(calls) == CALLS_IN_ALL - 1


def key_in_the_answer(delay):
    """Predictions that hold a key, which is used when the answer comes."""
    return make_game(
        predict=lambda state, x, key: Reply(jnp.float32(0), (None, key)),
        update=lambda state, x, reply, feedback, key: state + jax.random.normal(reply.extra[1]),
        delay=delay,
    )


@pytest.mark.parametrize("cut", [1, 2])
def test_keys_that_wait_in_a_late_answer_survive(cut, tmp_path, stop_at):
    settings = dict(make=key_in_the_answer(delays.fixed(13)), metrics=no_metrics)
    expected = play(**settings)
    assert np.unique(expected.states[0]).size == 20  # the keys count
    stopped(tmp_path, stop_at, cut, **settings)
    assert bits(play(tmp_path, **settings)) == bits(expected)


def test_states_of_many_dtypes_survive(tmp_path, stop_at):
    def update(state, x, prediction, feedback, key):
        bits_ = jax.random.bits(key, (3,), jnp.uint8)
        return {
            "half": state["half"] + jax.random.normal(key).astype(jnp.bfloat16),
            "flag": ~state["flag"], "words": state["words"] + bits_, "none": None, "empty": (),
        }  # fmt: skip

    def init(key):
        half, flag, words = jnp.bfloat16(0), jnp.array(False), jnp.zeros(3, jnp.uint8)
        return {"half": half, "flag": flag, "words": words, "none": None, "empty": ()}

    settings = dict(make=make_game(init, update=update), metrics=lambda *_: {})
    expected = play(**settings)
    stopped(tmp_path, stop_at, 2, **settings)
    assert bits(play(tmp_path, **settings)) == bits(expected)


def test_x64_survives_and_is_told_apart(tmp_path, stop_at):
    with jax.enable_x64(True):
        expected = play()
        assert expected.states[0].dtype == np.float64
        stopped(tmp_path, stop_at, 8)
        assert bits(play(tmp_path)) == bits(expected)
    with pytest.raises(ValueError, match="jax_enable_x64: True there, False here"):
        play(tmp_path)


def test_runs_that_are_not_finite_are_reported_again(tmp_path, stop_at):
    def bad(point, data):
        update = lambda state, x, *_: jnp.where(x[0] == point["at"], jnp.nan, state + 1)  # noqa: E731
        learner = Learner(lambda key: jnp.zeros(()), lambda s, x, k: Output(s), update)
        return learner, Environment(clock(), oracles.label())

    settings = dict(make=bad, metrics=no_metrics, grid={"at": [-1.0, 35.0, 107.0]})
    with pytest.warns(RuntimeWarning, match="not finite in 'state'"):
        expected = play(**settings)
    assert {found[0]: found[2] for found in expected.non_finite} == {1: 3, 2: 10}
    stopped(tmp_path, stop_at, 8, **settings)
    for _ in range(2):  # the second is all read
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            again = play(tmp_path, **settings)
        assert bits(again) == bits(expected)
        (text,) = [str(warning.message) for warning in found]
        assert "point 1 {'at': 35.0}, seed 0, in window 3 (rounds 30 to 39)" in text


def test_two_devices_share_a_folder(whole, tmp_path, stop_at):
    two = jax.local_devices() * 2
    stop_at(7)
    with pytest.raises(StopError):
        play(tmp_path, devices=two)
    stop_at(None)
    assert bits(play(tmp_path, devices=two)) == whole


def test_default_block_is_that_of_the_folder(whole, tmp_path, stop_at, monkeypatch):
    """Though a machine with another cache or other devices would choose another."""
    with monkeypatch.context() as patch:
        patch.setattr(driver, "_CPU_LANES", 16)
        stopped(tmp_path, stop_at, 3, block=None)
    assert bits(play(tmp_path, block=None)) == whole
    assert len([*tmp_path.glob("block-*")]) == NUM_BLOCKS


def test_sweep_without_a_folder_writes_nothing_and_needs_no_orbax(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jonline.sweep(make, metrics, GRID, **SETTINGS)
    assert [*tmp_path.iterdir()] == []
