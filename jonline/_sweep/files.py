"""Files that are written whole or not at all, and end with a checksum of what stands before it.

The end is a mark and the SHA-256, 40 bytes. Readers of HDF5 and of zip files pass over them.
"""

import contextlib
import hashlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

_MARK = b"\njonline"
_END = len(_MARK) + hashlib.sha256().digest_size
_CHUNK = 1 << 20


@contextlib.contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Yields a path beside `path` to write to; what is still there at the end is removed."""
    part = path.with_name(f"unfinished-{uuid.uuid4().hex}")
    try:
        yield part
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def seal(path: str | os.PathLike) -> None:
    """Writes the checksum behind the content of a file, and all of it to the disk."""
    with open(path, "r+b") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
        file.write(_MARK + digest)
        file.flush()
        os.fsync(file.fileno())


def check(path: str | os.PathLike) -> None:
    """Raises ValueError, which says why, unless a file is as `seal` left it."""
    with open(path, "rb") as file:
        left = max(file.seek(0, os.SEEK_END) - _END, 0)
        file.seek(left)
        end = file.read()
        if not end.startswith(_MARK):
            raise ValueError(
                "it does not end with a checksum: it was cut short, or is of another program or of "
                "an earlier version"
            )
        file.seek(0)
        digest = hashlib.sha256()
        while left and (chunk := file.read(min(left, _CHUNK))):
            digest.update(chunk)
            left -= len(chunk)
        if digest.digest() != end[len(_MARK) :]:
            raise ValueError("it does not fit the checksum at its end: it was damaged or altered")
