"""The folder of a sweep in progress: its `fingerprint.json` says which sweep it is."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from jonline._sweep import files

FORMAT = 2  # of the files; a change that older code cannot read is a new number
FINGERPRINT = "fingerprint.json"


class Folder(NamedTuple):
    """Where the blocks of a sweep are saved.

    Attributes:
      path: the folder.
      bits: SHA-256 of what the bits of its lanes depend on.
      sides: seeds and points of a block.
      seconds: time between two checkpoints of a block.
      is_new: whether its fingerprint was made by this call.
    """

    path: Path
    bits: str
    sides: tuple[int, int]
    seconds: float
    is_new: bool


def open_folder(
    path: Path,
    bits: dict[str, str],
    extent: dict[str, str],
    settings: dict[str, str],
    seconds: float,
    sides: tuple[int, int],
) -> Folder:
    """Opens the folder of a sweep, or makes it.

    Args:
      path: of the folder.
      bits: what the bits of each lane depend on, `fingerprint.entries_of`.
      extent: how far the sweep goes, `fingerprint.extent_of`.
      settings: JAX's, to name those by which the program differs.
      seconds: time between two checkpoints of a block.
      sides: seeds and points of a block, of a new folder; one that was there has its own.

    Raises:
      ImportError: if orbax-checkpoint is missing.
      ValueError: if the folder holds another sweep (it names the entries that differ), or one of
        another format.
      OSError: if the folder cannot be written, or its fingerprint is damaged.
    """
    orbax()
    path = path.absolute()
    is_new = False
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not (path / FINGERPRINT).exists():
            content = {"format": FORMAT, "bits": bits, "extent": extent, "settings": settings}
            content |= {"sides": sides}
            is_new = _write_once(path / FINGERPRINT, content | {"sha256": _digest(content)})
        text = (path / FINGERPRINT).read_bytes()
    except OSError as error:
        raise OSError(f"checkpoint={str(path)!r} cannot be used: {error}") from error
    found = _read(path, text)
    differing = _differing(found["bits"] | found["extent"], bits | extent)
    if any(name == "program" for name, _, _ in differing):
        differing += _differing(found["settings"], settings)
    if differing:
        listed = "; ".join(f"{name}: {there} there, {here} here" for name, there, here in differing)
        raise ValueError(
            f"checkpoint={str(path)!r} holds another sweep, which differs in {listed}. Give "
            "another folder, or remove this one to begin anew"
        )
    seeds, points = found["sides"]
    return Folder(path, _digest(bits), (seeds, points), seconds, is_new)


def orbax() -> Any:
    """Returns orbax.checkpoint; ImportError that names the extra if it is missing."""
    try:
        import orbax.checkpoint
    except ImportError as error:
        raise ImportError(
            'checkpoint needs orbax-checkpoint: pip install "jonline[checkpoint]"'
        ) from error
    return orbax.checkpoint


def _differing(there: dict[str, str], here: dict[str, str]) -> list[tuple[str, str, str]]:
    """Returns the entries that differ, by name."""
    names = sorted({*there, *here})
    pairs = [(name, there.get(name, "none"), here.get(name, "none")) for name in names]
    return [(name, one, other) for name, one, other in pairs if one != other]


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read(path: Path, text: bytes) -> dict[str, Any]:
    """Returns what a fingerprint says, whose checksum must fit."""
    try:
        found = json.loads(text)
        of_format = found.get("format", 1)
        whole = found.pop("sha256", None) == _digest(found)
    except (ValueError, AttributeError, RecursionError) as error:
        raise OSError(_damaged(path, str(error))) from error
    if of_format != FORMAT and (whole or "entries" in found):
        raise ValueError(
            f"checkpoint={str(path)!r} is of format {of_format}, which another version of jonline "
            f"wrote, and this one reads {FORMAT}. Give another folder, or remove this one to begin "
            "anew"
        )
    if not whole:
        raise OSError(_damaged(path, "it does not fit its checksum"))
    return found


def _damaged(path: Path, why: str) -> str:
    return (
        f"{str(path / FINGERPRINT)!r} is no file of a sweep, or a damaged one: {why}. If the "
        "folder is this sweep's, remove the file: the blocks say by themselves what they are"
    )


def _write_once(path: Path, content: dict[str, Any]) -> bool:
    """Writes a file unless it is there, whole or not at all, whoever else does so.

    Returns whether it did.
    """
    with files.beside(path) as part:
        with open(part, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(part, path)
        except FileExistsError:
            return False
        except OSError:  # a file system without links, such as a mounted bucket
            if path.exists():
                return False
            os.replace(part, path)
    return True
