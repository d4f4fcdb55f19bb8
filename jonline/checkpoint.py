"""A sweep in progress on disk, by orbax-checkpoint.

A folder holds one sweep: `fingerprint.json` says which, and each block of lanes has a folder of its
own with its last two checkpoints, numbered by the windows played. A checkpoint is written beside
the others and renamed when it is whole, so one that was cut short is never read.
"""

import contextlib
import dataclasses
import functools
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

_KEPT = 2
_NAME = "fingerprint.json"


class Folder(NamedTuple):
    """Where the blocks of a sweep are kept.

    Attributes:
      path: the folder.
      sides: seeds and points of a block.
      seconds: time between two checkpoints of a block.
    """

    path: Path
    sides: tuple[int, int]
    seconds: float


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


def begin(
    path: str | os.PathLike,
    entries: dict[str, str],
    seconds: float,
    sides: Callable[[], tuple[int, int]],
) -> Folder:
    """Opens the folder of a sweep, or makes it.

    Args:
      path: of the folder.
      entries: its `fingerprint.entries_of`.
      seconds: time between two checkpoints of a block.
      sides: of a block, where the folder does not say (it does if it was there).

    Raises:
      ImportError: if orbax-checkpoint is missing.
      ValueError: if the folder holds another sweep; it names the entries that differ.
      OSError: if the folder cannot be written.
    """
    _orbax()
    path = Path(path).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not (path / _NAME).exists():
            _write_once(path / _NAME, {"entries": entries, "sides": sides()})
        text = (path / _NAME).read_text(encoding="utf-8")
    except OSError as error:
        raise OSError(f"checkpoint={str(path)!r} cannot be used: {error}") from error
    try:
        found = json.loads(text)
        there, (seeds, points) = found["entries"], found["sides"]
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"{str(path / _NAME)!r} is no file of a sweep: {error!r}") from error
    names = sorted(set(there) | set(entries))
    differing = [name for name in names if there.get(name) != entries.get(name)]
    if differing:
        listed = "; ".join(
            f"{name}: {there.get(name, 'none')} there, {entries.get(name, 'none')} here"
            for name in differing
        )
        raise ValueError(
            f"checkpoint={str(path)!r} holds another sweep, which differs in {listed}. Give "
            "another folder, or remove this one to begin anew"
        )
    return Folder(path, (seeds, points), seconds)


def save(folder: Folder, block: int, saved: Saved) -> None:
    """Writes a checkpoint of a block, and removes all but the last two.

    Raises:
      OSError: if it cannot be written; the earlier ones are still there.
    """
    arrays = {f"carry {i:04}": leaf for i, leaf in enumerate(saved.carry)}
    arrays |= {f"records {name}": sums for name, sums in saved.records.items()}
    arrays["bad"] = np.asarray(json.dumps([list(row) for row in saved.bad]))
    Save, _ = _handler_of_arrays()
    try:
        with _manager(folder, block) as manager:
            manager.save(saved.windows, args=Save(arrays))
    except (OSError, ValueError, RuntimeError) as error:
        raise OSError(
            f"the checkpoint of block {block} after {saved.windows} windows cannot be written to "
            f"{str(folder.path)!r}; the one before it is still there: {error}"
        ) from error


def latest(folder: Folder, block: int, carry: Sequence[Any]) -> Saved | None:
    """Returns the last checkpoint of a block, None if there is none.

    Args:
      folder, block: which.
      carry: leaves like those that were saved.

    Raises:
      ValueError: if the carry that was saved has other shapes or dtypes.
      OSError: if the file is damaged, e.g. by a machine that lost its power; the one before it is
        taken when it is removed.
    """
    if not _path(folder, block).exists():
        return None
    _, Restore = _handler_of_arrays()
    with _manager(folder, block) as manager:
        step = manager.latest_step()
        if step is None:
            return None
        try:
            found = manager.restore(step, args=Restore())
        except Exception as error:  # what zipfile, numpy and orbax raise
            raise OSError(
                f"the checkpoint {str(_path(folder, block) / str(step))!r} is damaged: {error}; "
                "remove it, and the sweep goes on from the one before"
            ) from error
    leaves = [found.pop(f"carry {i:04}", None) for i in range(len(carry))]
    for i, (leaf, like) in enumerate(zip(leaves, carry, strict=True)):
        if leaf is not None and leaf.dtype.kind == "V":  # a dtype that NumPy does not know
            leaves[i] = leaf = leaf.view(like.dtype)
        if leaf is None or leaf.shape != like.shape or leaf.dtype != like.dtype:
            raise ValueError(
                f"block {block} of {str(folder.path)!r} does not carry the {like.dtype}"
                f"{like.shape} that this sweep does"
            )
    rows = [(int(p), int(s), int(w), str(name)) for p, s, w, name in json.loads(str(found["bad"]))]
    begins = "records "
    records = {n.removeprefix(begins): v for n, v in found.items() if n.startswith(begins)}
    return Saved(int(step), [leaf for leaf in leaves if leaf is not None], records, rows)


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


def _orbax() -> Any:
    try:
        import orbax.checkpoint
    except ImportError as error:
        raise ImportError(
            'checkpoint needs orbax-checkpoint: pip install "jonline[checkpoint]"'
        ) from error
    return orbax.checkpoint


@functools.cache
def _handler_of_arrays() -> tuple[Any, Any]:
    """Returns orbax's arguments to save and to restore a dict of arrays as one file.

    Its own handler of NumPy arrays writes in process 0 alone.
    """
    ocp = _orbax()

    class Handler(ocp.CheckpointHandler):
        def save(self, directory, args):
            with open(os.path.join(directory, "arrays.npz"), "wb") as file:
                np.savez(file, **args.arrays)
                file.flush()
                os.fsync(file.fileno())

        def restore(self, directory, args=None):
            with (
                open(os.path.join(directory, "arrays.npz"), "rb") as file,
                np.load(file, allow_pickle=False) as arrays,
            ):
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


def _path(folder: Folder, block: int) -> Path:
    return folder.path / f"block-{block:06}"


def _manager(folder: Folder, block: int) -> Any:
    ocp = _orbax()
    here = jax.process_index()
    alone = ocp.options.MultiprocessingOptions(
        primary_host=here, active_processes={here}, barrier_sync_key_prefix=f"block{block}"
    )
    several = jax.process_count() > 1
    options = ocp.CheckpointManagerOptions(
        max_to_keep=_KEPT,
        create=False,  # it would wait for all processes
        enable_async_checkpointing=False,
        multiprocessing_options=alone if several else ocp.options.MultiprocessingOptions(),
    )
    path = _path(folder, block)
    path.mkdir(exist_ok=True)
    return ocp.CheckpointManager(path, options=options)


def _write_once(path: Path, content: dict[str, Any]) -> None:
    """Writes a file unless it is there, whole or not at all, whoever else does so."""
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=path.name, encoding="utf-8"
    ) as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(file.name, path)
