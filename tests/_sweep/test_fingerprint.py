"""Folders that are not what they say: blocks of other lanes, damaged files, other formats."""

import errno
import hashlib
import json
import os
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline._sweep import driver, files, fingerprint
from tests.games import no_metrics
from tests.small_sweep import CALLS, CALLS_IN_ALL, GRID, StopError, bits, play, stopped

FINGERPRINT = "fingerprint.json"


@pytest.fixture(scope="module")
def whole():
    return bits(play())


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "sweep"
    play(folder)
    return folder


@pytest.fixture
def folder(finished, tmp_path):
    """One that is the test's own, with all blocks."""
    return shutil.copytree(finished, tmp_path / "sweep")


def arrays_of(folder, block, windows=12):
    return next((folder / f"block-{block:06}" / str(windows)).rglob("arrays.npz"))


def listing(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (dict(key=8), "lanes have other seeds"),
        (dict(grid={"rate": [0.1, 0.5, 0.8]}), "lanes have other point rate"),
        (dict(grid={"rate": [0.5, 0.1, 0.9]}), "lanes have other point rate"),
        (dict(num_rounds=60), "goes beyond the 6 windows"),
        (dict(metrics=no_metrics), "another program, data, versions or settings"),
        *(
            pytest.param(changes, why, marks=pytest.mark.slow)
            for changes, why in (
                (dict(block=48), r"lanes \w+ is .* there, .* here"),
                (dict(num_rounds=60, record_every=5), "another program, data, versions or"),
                (dict(data=np.arange(3)), "another program, data, versions or settings"),
            )
        ),
    ],
)
def test_blocks_of_another_sweep_are_refused_without_a_fingerprint(changes, why, whole, folder):
    (folder / FINGERPRINT).unlink()
    before = listing(folder)
    with pytest.raises(ValueError, match=rf"block-\d+/12' is not of block \d of this .*{why}"):
        play(folder, **changes)
    assert listing(folder) == before
    assert bits(play(folder)) == whole


def test_blocks_of_another_sweep_are_refused_under_its_fingerprint(folder, tmp_path, stop_at):
    stopped(tmp_path / "other", stop_at, 1, key=8)
    stop_at(None)
    shutil.copy(tmp_path / "other" / FINGERPRINT, folder)
    before = listing(folder)
    with pytest.raises(ValueError, match="block-000000/12' is not of block 0.* other seeds"):
        play(folder, key=8)
    assert listing(folder) == before


def test_identity_of_blocks_is_apart_from_how_far_the_sweep_goes(folder, stop_at):
    (folder / FINGERPRINT).unlink()
    longer = bits(play(num_rounds=240))
    calls = stop_at(None)
    assert bits(play(folder, num_rounds=240)) == longer
    assert len(calls) == CALLS_IN_ALL


def test_fingerprint_tells_what_makes_the_bits_from_how_far_the_sweep_goes(
    finished, tmp_path, monkeypatch
):
    def stop(*_):
        raise StopError

    monkeypatch.setattr(driver, "_empty", stop)  # before anything is compiled
    changes = dict(num_rounds=240, num_seeds=19, key=8, grid={"rate": [0.3, 0.4]}, block=32)
    with pytest.raises(StopError):
        play(tmp_path, **changes)
    one, two = (json.loads((at / FINGERPRINT).read_text()) for at in (finished, tmp_path))
    assert one["bits"] == two["bits"]
    assert {name for name in one["extent"] if one["extent"][name] != two["extent"][name]} == {
        "num_rounds", "num_seeds", "keys", "grid", "block"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        ("block-000000", "block-000001", "lanes have other|is .* there"),
        ("block-000004", "block-000000", "lanes have other|is .* there"),
        ("block-000001/8", "block-000001/12", "made after 8 windows"),
        ("block-000001/12", "block-000001/40", "made after 12 windows"),
    ],
)
def test_block_copied_into_anothers_place_is_refused(source, target, why, folder):
    shutil.rmtree(folder / target, ignore_errors=True)
    shutil.copytree(folder / source, folder / target)
    name = target if "/" in target else target + "/12"
    with pytest.raises(ValueError, match=f"{name}' is not of block .*({why})"):
        play(folder)


def test_swapped_blocks_are_refused(folder):
    for a, b in ((0, "x"), (1, 0), ("x", 1)):
        os.rename(folder / f"block-00000{a}", folder / f"block-00000{b}")
    with pytest.raises(ValueError, match="block-000000/12' is not of block 0"):
        play(folder)


def resealed(path, change):
    """Writes the arrays anew as `change` leaves them, with a checksum that fits."""
    with np.load(path) as file:
        arrays = dict(file)
    change(arrays)
    with open(path, "wb") as file:
        np.savez(file, **arrays)
    files.seal(path)


def lost(arrays):
    arrays.pop("carry 0002")


def other_shape(arrays):
    arrays["carry 0002"] = arrays["carry 0002"][..., :8]


def said_too(change):
    """The same, and the list of the arrays says so."""

    def both(arrays):
        change(arrays)
        about = json.loads(str(arrays["about"]))
        about["arrays"] = {n: f"{a.dtype}{[*a.shape]}" for n, a in arrays.items() if n != "about"}
        arrays["about"] = np.asarray(json.dumps(about))

    return both


@pytest.mark.parametrize(
    ("change", "error", "why"),
    [
        (lost, OSError, "damaged: .*carry 0002"),
        (other_shape, OSError, "damaged: its arrays are not those that it lists"),
        (lambda arrays: arrays.pop("about"), OSError, "damaged: .*about"),
        (said_too(lost), ValueError, "carry 0002 is none there"),
        (said_too(other_shape), ValueError, r"carry 0002 is .*8\] there, .*16\] here"),
        (said_too(lambda a: a.pop("records walk")), ValueError, "records walk is none there"),
        (said_too(lambda a: a.update({"records new": a["records walk"]})),
         ValueError, "records new is .* there, none here"),
    ],
)  # fmt: skip
def test_arrays_that_are_missing_or_of_other_shapes_are_named(change, error, why, folder):
    resealed(arrays_of(folder, 2), change)
    with pytest.raises(error, match=f"block-000002/12' is .*{why}"):
        play(folder)


def flipped(path, bit):
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def refused_or_equal(folder, whole, name):
    """Whether a sweep refuses its folder, in a sentence with the file's name."""
    try:
        assert bits(play(folder)) == whole
    except (OSError, ValueError) as error:
        assert type(error) in (OSError, ValueError) and name in str(error), repr(error)
        return True
    return False


@pytest.mark.parametrize("flips", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_flipped_bit_of_a_block_is_refused(flips, whole, folder):
    path = arrays_of(folder, 0)
    content = path.read_bytes()
    for bit in np.random.default_rng(0).integers(0, 8 * len(content), flips):
        flipped(path, bit)
        assert refused_or_equal(folder, whole, "block-000000/12'"), bit
        path.write_bytes(content)
    assert bits(play(folder)) == whole


@pytest.mark.parametrize("flips", [8, pytest.param(50, marks=pytest.mark.slow)])
def test_flipped_bit_of_any_other_file_is_refused_or_harmless(flips, whole, folder):
    rng = np.random.default_rng(0)
    others = [FINGERPRINT, *(p for p in (folder / "block-000000" / "12").rglob("*") if p.is_file())]
    others = [folder / path for path in others if "arrays.npz" not in str(path)]
    assert len(others) > 1
    for path in others:
        content = path.read_bytes()
        for bit in rng.integers(0, 8 * len(content), flips) if content else ():
            flipped(path, bit)
            refused_or_equal(folder, whole, "sweep")
            path.write_bytes(content)


def test_every_flipped_bit_and_every_cut_of_a_sealed_file_is_seen(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"content")
    files.seal(path)
    files.check(path)
    content = path.read_bytes()
    for bit in range(8 * len(content)):
        flipped(path, bit)
        with pytest.raises(ValueError, match="checksum"):
            files.check(path)
        path.write_bytes(content)
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match="checksum"):
            files.check(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(ValueError, match="checksum"):
        files.check(path)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"no JSON",
        b"\xff\xfe\x00",
        b"[]",
        b"3",
        b"null",
        b"{}",
        b"[" * 100_000,
        b'{"format": 2}',
    ],
)
def test_damaged_fingerprint_is_named_and_the_blocks_serve_without_it(text, whole, folder):
    (folder / FINGERPRINT).write_bytes(text)
    with pytest.raises(OSError, match=f"{FINGERPRINT}' is no file of a sweep, or a damaged one"):
        play(folder)
    (folder / FINGERPRINT).unlink()
    assert bits(play(folder)) == whole


def test_fingerprint_whose_sides_were_changed_is_named(folder):
    found = json.loads((folder / FINGERPRINT).read_text())
    (folder / FINGERPRINT).write_text(json.dumps(found | {"sides": [1, 1]}))
    with pytest.raises(OSError, match="damaged one: it does not fit its checksum"):
        play(folder)


def test_folder_of_another_format_is_refused_in_a_sentence(tmp_path):
    earlier = {"entries": {"format": "1"}, "sides": [16, 1]}
    later = {"format": 3, "new": 1}
    text = json.dumps(later, sort_keys=True).encode()
    later["sha256"] = hashlib.sha256(text).hexdigest()
    for number, content in ((1, earlier), (3, later)):
        (tmp_path / FINGERPRINT).write_text(json.dumps(content))
        with pytest.raises(ValueError, match=f"is of format {number}, .* this one reads 2"):
            play(tmp_path)


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.EMLINK])
def test_folder_on_a_file_system_without_links(number, whole, tmp_path, monkeypatch, stop_at):
    def link(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    calls = stopped(tmp_path, stop_at, 2 * CALLS)
    assert bits(play(tmp_path)) == whole
    assert len(calls) == CALLS_IN_ALL - 2 * CALLS
    assert all(path.name.startswith(("block-", FINGERPRINT)) for path in tmp_path.iterdir())


def test_path_with_a_tilde_is_in_the_home_folder(whole, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert bits(play("~/runs/first")) == whole
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert (tmp_path / "home" / "runs" / "first" / FINGERPRINT).exists()


@pytest.mark.parametrize("path", ["", "gs://bucket/run", "s3://bucket", "file:///run"])
def test_path_that_is_none_of_this_machine_is_refused_at_once(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="^checkpoint must be a path of this machine"):
        play(path, make=None)
    assert [*tmp_path.iterdir()] == []


def test_file_of_a_block_lists_its_lanes(finished):
    with np.load(arrays_of(finished, 0)) as file:
        words, rate = file["lanes seeds"], file["lanes point rate"]
    np.testing.assert_array_equal(rate, np.float32(GRID["rate"]), strict=True)
    keys = jax.jit(jax.vmap(jax.random.fold_in, (None, 0)))(
        jax.random.key(7), jnp.arange(len(words))
    )
    np.testing.assert_array_equal(words, jax.random.key_data(keys))


def test_a_changed_file_of_any_package_is_another_source(tmp_path):
    root = Path(jonline.__file__).parent
    copy = tmp_path / "jonline"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns("__pycache__"))
    before = fingerprint._source_of_jonline(copy)
    assert before == fingerprint._source_of_jonline()
    packages = {path.parent for path in copy.rglob("*.py")}
    assert {copy / "_engine", copy / "_sweep", copy / "data" / "catalog"} < packages
    for package in packages:
        path = max(package.glob("*.py"))
        content = path.read_bytes()
        path.write_bytes(content + b"# changed\n")
        assert fingerprint._source_of_jonline(copy) != before, path
        path.write_bytes(content)
