"""Folders that a sweep cannot use: another sweep's, full, read-only, or damaged."""

import errno
import importlib.util
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline._sweep import fingerprint
from tests._engine.test_block import make_game
from tests.games import no_metrics
from tests.small_sweep import CALLS, CALLS_IN_ALL, bits, play, stopped


@pytest.fixture(scope="module")
def whole():
    return bits(play())


def elsewhere(tmp_path, name, body):
    """A function that another file holds."""
    path = tmp_path / f"{name}.py"
    path.write_text(body, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.function


GRAPH = "from tests.small_sweep import make, metrics\ndef function(*args):\n    return "


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (dict(key=8), ["keys"]),
        (dict(num_seeds=19), ["keys", "num_seeds"]),
        (dict(grid={"rate": [0.1, 0.5, 0.8]}), ["grid"]),
        (dict(data=np.arange(3)), ["data"]),
        (dict(num_rounds=240), ["num_rounds"]),
        (dict(record_every=20), ["record_every"]),
        (dict(block=32), ["block"]),
        (dict(block=None), ["block"]),
        (dict(metrics=GRAPH + "{'walk': 2 * metrics(*args)['walk']}\n"), ["program"]),
        (dict(key=8, num_rounds=240, block=48), ["block", "keys", "num_rounds"]),
    ],
)
def test_folder_of_another_sweep_is_an_error_that_names_what_differs(changes, named, begun):
    folder, whole = begun
    for name in ("make", "metrics"):
        if name in changes:
            changes = {name: elsewhere(folder.parent, name, changes[name])}
    with pytest.raises(ValueError, match="holds another sweep, which differs in ") as caught:
        play(folder, **changes)
    listed = str(caught.value).partition("differs in ")[2].partition(". Give")[0]
    assert [entry.partition(": ")[0] for entry in listed.split("; ")] == named
    assert all(" there, " in entry and entry.endswith(" here") for entry in listed.split("; "))
    assert bits(play(folder)) == whole


def test_functions_of_another_file_that_say_the_same_go_on(begun, stop_at):
    folder, whole = begun
    functions = {
        name: elsewhere(folder.parent, name, GRAPH + f"{name}(*args)\n")
        for name in ("make", "metrics")
    }
    calls = stop_at(None)
    assert bits(play(folder, **functions)) == whole and not calls


@pytest.fixture(scope="module")
def begun(tmp_path_factory, whole):
    folder = tmp_path_factory.mktemp("begun") / "sweep"
    play(folder)
    return folder, whole


def test_data_of_every_dtype_are_told_apart():
    device, digests = jax.local_devices()[0], set()
    for dtype in (jnp.bfloat16, jnp.float32, jnp.int32, bool):
        for size in (3, 4):
            data = {"a": jnp.ones(size, dtype), "b": np.zeros((0, 2), dtype), "c": None, "d": 1.5}
            digests.add(fingerprint.entries_of({"data": data}, {}, device)["data"])
    assert len(digests) == 8


@pytest.mark.parametrize("of", ["make", "metrics"])
def test_value_that_is_closed_over_is_seen_in_the_program(of, tmp_path):
    def closing(size):
        def add(example, prediction, feedback, state):
            return {"size": state * size}

        own = make_game(update=lambda state, *_: state + size) if of == "make" else make_game()
        return dict(make=own, metrics=add if of == "metrics" else no_metrics)

    play(tmp_path, **closing(1.0))
    with pytest.raises(ValueError, match="differs in program: "):
        play(tmp_path, **closing(2.0))
    play(tmp_path, **closing(1.0))  # another function of the same text and values


def full_disk(monkeypatch, after):
    """Lets the disk be full after a number of checkpoints, in the middle of the next."""
    real, calls = np.savez, []

    def savez(file, **arrays):
        if len(calls) == after:
            file.write(b"PK half of a file")
            raise OSError(errno.ENOSPC, "No space left on device")
        calls.append(file)
        return real(file, **arrays)

    monkeypatch.setattr(np, "savez", savez)


@pytest.mark.parametrize("after", [0, 1, 5])
def test_full_disk_is_an_error_and_the_last_checkpoint_is_whole(
    after, whole, tmp_path, stop_at, monkeypatch
):
    with monkeypatch.context() as patch:
        full_disk(patch, after)
        with pytest.raises(OSError, match=r"block \d after \d+ windows cannot .*No space left"):
            play(tmp_path)
    calls = stop_at(None)
    assert bits(play(tmp_path)) == whole
    assert len(calls) == CALLS_IN_ALL - after


def test_folder_that_became_read_only_is_an_error_and_the_last_checkpoint_is_whole(
    whole, tmp_path, stop_at, monkeypatch
):
    stopped(tmp_path, stop_at, 5)
    real = type(tmp_path).mkdir

    def mkdir(path, *args, **kwargs):
        if "block-000002" in str(path):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return real(path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(type(tmp_path), "mkdir", mkdir)
        with pytest.raises(OSError, match="block 2 after 4 windows cannot be written.*Read-only"):
            play(tmp_path)
    calls = stop_at(None)
    assert bits(play(tmp_path)) == whole
    assert len(calls) == CALLS_IN_ALL - 2 * CALLS


def test_folder_that_cannot_be_made_is_an_error_before_anything_is_played(tmp_path, stop_at):
    (tmp_path / "file").write_text("kept")
    stop_at(0)
    for below in ("file", "file/below"):
        with pytest.raises(OSError, match=r"checkpoint='.*file.*' cannot be used"):
            play(tmp_path / below)
    assert (tmp_path / "file").read_text() == "kept"


def test_failed_save_says_what_is_still_there(tmp_path, monkeypatch):
    for after, left in ((1, "those after 4 windows are still there"), (0, "has none before")):
        with monkeypatch.context() as patch:
            full_disk(patch, after)
            with pytest.raises(OSError, match=f"cannot be written to .*No space left.*{left}"):
                play(tmp_path / str(after))


def test_disk_that_is_full_at_once_leaves_no_file(tmp_path, monkeypatch):
    def dump(content, file, **_):
        file.write('{"half": ')
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(json, "dump", dump)
        with pytest.raises(OSError, match="cannot be used.*No space left"):
            play(tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_folder_with_something_else_is_named(tmp_path):
    (tmp_path / "fingerprint.json").write_text("no JSON")
    with pytest.raises(OSError, match="fingerprint.json' is no file of a sweep"):
        play(tmp_path)


def test_seconds_between_checkpoints_are_positive(tmp_path):
    with pytest.raises(ValueError, match="checkpoint_seconds must be > 0"):
        play(tmp_path, seconds=0.0)


def test_missing_orbax_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    with pytest.raises(ImportError, match=r'pip install "jonline\[checkpoint\]"'):
        play(tmp_path / "none")
    assert not (tmp_path / "none").exists()
