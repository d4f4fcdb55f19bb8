"""A sweep whose process dies, or that goes on in others, ends with the same bits."""

import subprocess
import time

import numpy as np
import pytest

from tests.small_sweep import NUM_BLOCKS, bits, child, free_port, play


@pytest.fixture(scope="module")
def whole():
    return bits(play())


def test_process_killed_in_a_save_and_before_a_rename(whole, tmp_path):
    """The second process goes on from the last checkpoint of the first, this one from its."""
    for die in ("in savez 3", "in rename 2"):
        child(folder=tmp_path, die=die)
    unfinished = {path.parent.parent.name for path in tmp_path.rglob("arrays.npz")}
    assert any(not name.isdigit() for name in unfinished)  # the deaths left folders behind
    assert len([*tmp_path.glob("block-*")]) < NUM_BLOCKS
    assert bits(play(tmp_path)) == whole


@pytest.mark.parametrize("moments", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_process_killed_at_any_moment(moments, whole, tmp_path):
    """Moments of a fixed seed, over the time that an undisturbed process takes."""
    begin = time.monotonic()
    child(folder=tmp_path / "undisturbed")
    lasted = time.monotonic() - begin
    played = set()
    for i, moment in enumerate(lasted * np.random.default_rng(0).uniform(0.3, 1.0, moments)):
        process = child(wait=False, folder=tmp_path / str(i))
        try:
            process.communicate(timeout=moment)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        played.add(len([*(tmp_path / str(i)).glob("block-*/*/*/arrays.npz")]))
        assert bits(play(tmp_path / str(i))) == whole
    assert moments < 20 or len(played) > 2  # they do fall between checkpoints


def test_other_numbers_of_devices_go_on_to_the_same_bits(whole, tmp_path):
    """Of devices that are killed in a window; this process has one."""
    for devices in (2, 8):
        child(folder=tmp_path, devices=devices, die="at call 4")
    assert bits(play(tmp_path)) == whole


def test_one_process_goes_on_where_two_were(whole, tmp_path):
    port, settings = free_port(), dict(folder=tmp_path, die="at call 2")
    two = [child(wait=False, processes=[port, 2, i], **settings) for i in range(2)]
    for process in two:
        process.communicate(timeout=120)
    assert [*tmp_path.glob("block-*/*/*/arrays.npz")]  # the first to die may take the other along
    assert bits(play(tmp_path)) == whole
