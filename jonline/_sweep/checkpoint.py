"""The blocks of a sweep in progress on disk, by orbax-checkpoint.

Each has a folder of its own with its last two checkpoints, numbered by the windows played. A
checkpoint is written beside the others and renamed when it is whole, so one that was cut short is
never read. Its file says by itself what it is: the lanes, what their bits depend on, the arrays,
and a checksum of all.
"""

import dataclasses
import functools
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jonline._sweep import files
from jonline._sweep.folder import FINGERPRINT, Folder, orbax

_KEPT = 2


class BlockFolder(NamedTuple):
    """Where a block is saved, and what tells it from others.

    Attributes:
      folder: of the sweep.
      number: of the block.
      lanes: name -> array: the values of its points, the words of its seeds' keys, its sides.
    """

    folder: Folder
    number: int
    lanes: dict[str, np.ndarray]


class Saved(NamedTuple):
    """A block after some windows.

    Attributes:
      windows: how many.
      carry: leaves of the carry.
      records: name -> (points, seeds, windows) of the block.
      bad: (point, seed, window, name) of its runs that were not finite.
    """

    windows: int
    carry: list[np.ndarray]
    records: dict[str, np.ndarray]
    bad: list[tuple[int, int, int, str]]


def save(place: BlockFolder, saved: Saved) -> None:
    """Writes a checkpoint of a block, and removes all but the last two.

    Raises:
      OSError: if it cannot be written; the earlier ones are still there.
    """
    arrays = _arrays(place, saved)
    about = {
        "bits": place.folder.bits,
        "windows": saved.windows,
        "arrays": _kinds(arrays),
        "bad": saved.bad,
    }
    Save, _ = _handler_of_arrays()
    try:
        with _manager(place) as manager:
            manager.save(
                saved.windows, args=Save(arrays | {"about": np.asarray(json.dumps(about))})
            )
    except (OSError, ValueError, RuntimeError) as error:
        raise OSError(
            f"the checkpoint of block {place.number} after {saved.windows} windows cannot be "
            f"written to {str(place.folder.path)!r}: {error}; {_left(place)}"
        ) from error


def latest(place: BlockFolder, like: Saved) -> Saved | None:
    """Returns the last checkpoint of a block, None if there is none.

    Args:
      place: of the block.
      like: arrays as they are at the end of this sweep; only shapes and dtypes are read.

    Raises:
      ValueError: if what is there is another sweep's, another block's, or of other arrays.
      OSError: if the file is damaged, e.g. by a machine that lost its power; the one before it is
        taken when it is removed.
    """
    folder = _block_path(place)
    restored = _restored(place)
    if restored is None:
        return None
    step, found, about = restored
    misfit = _misfit(place, found, about, step, like)
    if misfit:
        if place.folder.is_new:  # a sweep that is refused leaves the folder as it was
            (place.folder.path / FINGERPRINT).unlink(missing_ok=True)
        raise ValueError(
            f"the checkpoint {str(folder / str(step))!r} is not of block {place.number} of this "
            f"sweep: {misfit}. Give another folder, or remove {str(folder)!r} to play the block "
            "anew"
        )
    carry = [found[f"carry {i:04}"] for i in range(len(like.carry))]
    records = {name: found[f"records {name}"] for name in like.records}
    bad = [(int(p), int(s), int(w), str(name)) for p, s, w, name in about["bad"]]
    return Saved(step, carry, records, bad)


def to_host(leaf: Any) -> np.ndarray:
    """Returns an array of a carry on the host; a typed key as its words."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def from_host(leaf: np.ndarray, like: Any) -> Any:
    """Undoes `to_host` for a leaf like `like`."""
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(leaf), impl=jax.random.key_impl(like))
    return leaf


@functools.cache
def _handler_of_arrays() -> tuple[Any, Any]:
    """Returns orbax's arguments to save and to restore a dict of arrays as one file.

    Its own handler of NumPy arrays writes in process 0 alone.
    """
    ocp = orbax()

    class Handler(ocp.CheckpointHandler):
        def save(self, directory, args):
            path = os.path.join(directory, "arrays.npz")
            with open(path, "wb") as file:
                np.savez(file, **args.arrays)
            files.seal(path)

        def restore(self, directory, args=None):
            path = os.path.join(directory, "arrays.npz")
            files.check(path)
            with np.load(path, allow_pickle=False) as arrays:
                return dict(arrays)

    @ocp.args.register_with_handler(Handler, for_save=True)
    @dataclasses.dataclass
    class Save(ocp.args.CheckpointArgs):
        arrays: dict[str, np.ndarray]

    @ocp.args.register_with_handler(Handler, for_restore=True)
    @dataclasses.dataclass
    class Restore(ocp.args.CheckpointArgs):
        pass

    return Save, Restore


def _block_path(place: BlockFolder) -> Path:
    return place.folder.path / f"block-{place.number:06}"


def _left(place: BlockFolder) -> str:
    """Says which checkpoints of a block are there."""
    there = sorted(int(path.name) for path in _block_path(place).glob("*") if path.name.isdecimal())
    after = " and ".join(map(str, there))
    return f"those after {after} windows are still there" if there else "the block has none before"


def _arrays(place: BlockFolder, saved: Saved) -> dict[str, np.ndarray]:
    """Returns all arrays of a checkpoint by the names that they have in its file."""
    arrays = {f"lanes {name}": array for name, array in place.lanes.items()}
    arrays |= {f"carry {i:04}": leaf for i, leaf in enumerate(saved.carry)}
    return arrays | {
        f"records {name}": sums[..., : saved.windows] for name, sums in saved.records.items()
    }


def _kinds(arrays: dict[str, np.ndarray]) -> dict[str, str]:
    return {name: f"{array.dtype}{[*array.shape]}" for name, array in arrays.items()}


def _restored(place: BlockFolder) -> tuple[int, dict[str, np.ndarray], dict[str, Any]] | None:
    """Returns windows, arrays and what is said about them of a block's last checkpoint."""
    folder, step = _block_path(place), ""
    if not folder.exists():
        return None
    _, Restore = _handler_of_arrays()
    try:
        with _manager(place) as manager:
            step = manager.latest_step()
            if step is None:
                return None
            found = manager.restore(step, args=Restore())
        about = json.loads(str(found["about"]))
        listed = about["arrays"]
        dtypes = {name: jnp.dtype(kind.partition("[")[0]) for name, kind in listed.items()}
        arrays = {name: found[name].view(dtype) for name, dtype in dtypes.items()}
        if _kinds(arrays) != listed:
            raise ValueError("its arrays are not those that it lists")
        return int(step), arrays, about
    except Exception as error:  # what zipfile, json, numpy and orbax raise
        raise OSError(
            f"the checkpoint {str(folder / str(step))!r} is damaged: {error}; remove it, and the "
            "sweep goes on from the one before"
        ) from error


def _misfit(
    place: BlockFolder, found: dict[str, np.ndarray], about: dict[str, Any], step: int, like: Saved
) -> str:
    """Says why a checkpoint is not one of this block of this sweep; "" if it is."""
    if about["bits"] != place.folder.bits:
        return "its lanes are of another program, data, versions or settings"
    if about["windows"] != step:
        return f"it was made after {about['windows']} windows"
    if step > like.windows:
        return f"it goes beyond the {like.windows} windows of this one"
    expected = _arrays(place, like._replace(windows=step))
    there, here = _kinds(found), _kinds(expected)
    for name in {**here, **there}:
        if there.get(name) != here.get(name):
            return f"{name} is {there.get(name, 'none')} there, {here.get(name, 'none')} here"
        if name.startswith("lanes ") and found[name].tobytes() != expected[name].tobytes():
            return f"its lanes have other {name.removeprefix('lanes ')}"
    return ""


def _manager(place: BlockFolder) -> Any:
    ocp = orbax()
    here = jax.process_index()
    alone = ocp.options.MultiprocessingOptions(
        primary_host=here, active_processes={here}, barrier_sync_key_prefix=f"block{place.number}"
    )
    several = jax.process_count() > 1
    options = ocp.CheckpointManagerOptions(
        max_to_keep=_KEPT,
        create=False,  # it would wait for all processes
        enable_async_checkpointing=False,
        multiprocessing_options=alone if several else ocp.options.MultiprocessingOptions(),
    )
    path = _block_path(place)
    path.mkdir(exist_ok=True)
    return ocp.CheckpointManager(path, options=options)
