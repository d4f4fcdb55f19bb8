"""Files of results that are damaged, or made by somebody who means harm."""

import json

import h5py
import numpy as np
import pytest
import xarray as xr

import jonline
from jonline._sweep import files
from tests._sweep.test_result import result, returned, same


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "saved.nc"
    result().save(path)
    return path


def refused(path, why):
    with pytest.raises(OSError, match=f"{path.name}' is no file of SweepResult.save, .*{why}"):
        jonline.load(path)


@pytest.mark.parametrize("flips", [200, pytest.param(5_000, marks=pytest.mark.slow)])
def test_every_flipped_bit_is_refused(flips, saved):
    content = saved.read_bytes()
    for bit in np.random.default_rng(0).integers(0, 8 * len(content), flips):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        saved.write_bytes(changed)
        refused(saved, "checksum")


@pytest.mark.parametrize("at", [0, 1, 39, 40, 41, 0.1, 0.5, -40, -1])
def test_every_cut_is_refused(at, saved):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(at * len(content)) if isinstance(at, float) else at])
    refused(saved, "checksum")


def test_readers_of_netcdf_and_hdf5_do_not_see_the_checksum(saved):
    with xr.open_dataset(saved, engine="h5netcdf") as dataset, h5py.File(saved) as file:
        np.testing.assert_array_equal(dataset["loss"], result().records["loss"])
        np.testing.assert_array_equal(file["loss"][()], result().records["loss"])


def harmful(change):
    """A file whose checksum fits, after `change(open file, folder)`."""

    def make(path):
        content = path.read_bytes()
        path.write_bytes(content[:-40])
        with h5py.File(path, "r+") as file:
            change(file, path.parent)
        files.seal(path)

    return make


def anew(file, **how):
    """Replaces the array "loss"."""
    del file["loss"]
    return file.create_dataset("loss", **{"shape": (3, 2, 4), "dtype": "f4"} | how)


def external_storage(file, folder):
    (folder / "secret").write_bytes(bytes(96))
    anew(file, external=[(folder / "secret", 0, 96)])


def external_link(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["loss"] = np.zeros((3, 2, 4), np.float32)
    del file["loss"]
    file["loss"] = h5py.ExternalLink(folder / "other.h5", "loss")


def virtual(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["loss"] = np.zeros((3, 2, 4), np.float32)
    layout = h5py.VirtualLayout((3, 2, 4), "f4")
    layout[:] = h5py.VirtualSource(folder / "other.h5", "loss", (3, 2, 4))
    del file["loss"]
    file.create_virtual_dataset("loss", layout)


def soft_link(file, folder):
    del file["loss"]
    file["loss"] = h5py.SoftLink("/undelivered")


def group(file, folder):
    del file["loss"]
    file.create_group("loss")


def renamed(**to):
    def change(file, folder):
        names = json.loads(file.attrs["names"])
        file.attrs["names"] = json.dumps(names | to)

    return change


def attribute(name, value):
    def change(file, folder):
        file.attrs[name] = value

    return change


LARGE = (3, 2, 10**9)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (external_storage, "'loss' is kept in another file"),
        (external_link, "'loss' is a link"),
        (virtual, "'loss' is kept in another file"),
        (soft_link, "'loss' is a link"),
        (group, "'loss' is no array"),
        (lambda f, _: anew(f, shape=LARGE, chunks=(1, 1, 1000), compression="gzip"),
         r"its arrays would need 24\d{9} bytes, and it has \d{5}$"),
        (lambda f, _: anew(f, shape=LARGE, fillvalue=1.0), r"would need 24\d{9} bytes"),
        (lambda f, _: anew(f, shape=(2**33, 2**33, 2**33)), r"would need \d{29,} bytes"),
        (lambda f, _: anew(f, chunks=(3, 2, 4), compression="gzip"), "loss' is compressed"),
        (lambda f, _: anew(f, maxshape=(None,) * 3, chunks=(512,) * 3), "loss' is compressed"),
        (lambda f, _: anew(f, fillvalue=1.0), "loss' is compressed, or not all there"),
        (lambda f, _: anew(f, dtype=h5py.string_dtype()), "'loss' does not hold numbers"),
        (lambda f, _: anew(f, shape=(2, 2, 4), data=np.zeros((2, 2, 4))), "same points and seeds"),
        (lambda f, _: f.__delitem__("loss"), "'loss' is not there"),
        (renamed(records={"a": "loss", "b": "loss"}), "one array for two things"),
        (renamed(records={"a": "/loss"}), "'/loss' is a link"),
        (renamed(records={"a": "."}), ""),
        (renamed(records=[]), ""),
        (attribute("names", "{"), ""),
        (attribute("names", "[" * 50_000), ""),
        (attribute("names", 3), ""),
        (attribute("non_finite", "[[1]]"), ""),
        (attribute("record_every", np.ones(3)), "'record_every' is not one number or text"),
        (lambda f, _: f.attrs.__delitem__("environment"), "does not say 'environment'"),
        (lambda f, _: f["state.flag"].attrs.__setitem__("kind", "object"), ""),
        (lambda f, _: f["state.flag"].attrs.__setitem__("kind", "none such"), ""),
    ],
)  # fmt: skip
def test_file_made_to_harm_is_refused(change, why, saved):
    harmful(change)(saved)
    refused(saved, why)


def test_file_that_was_opened_and_left_as_it_is_loads(saved):
    harmful(lambda file, folder: None)(saved)
    same(jonline.load(saved), result())


def test_path_with_a_tilde_is_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    same(returned(result(), "~/a.nc"), result())
    assert [path.name for path in tmp_path.rglob("*")] == ["home", "a.nc"]


@pytest.mark.parametrize("path", ["", "gs://bucket/a.nc", "https://host/a.nc"])
def test_path_that_is_none_of_this_machine_is_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="^path must be a path of this machine"):
        result().save(path)
    with pytest.raises(ValueError, match="^path must be a path of this machine"):
        jonline.load(path)
    assert [*tmp_path.iterdir()] == []


def test_failed_save_says_what_is_there(tmp_path):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(OSError, match="a.nc' cannot be written: .*; nothing is there"):
        result().save(tmp_path / "file" / "a.nc")
    (tmp_path / "folder" / "full").mkdir(parents=True)
    with pytest.raises(OSError, match="folder' cannot be written: .*; what was there is unchanged"):
        result().save(tmp_path / "folder")
    assert {path.name for path in tmp_path.rglob("*")} == {"file", "folder", "full"}
