"""The content of files that may be packed, up to a bound; errors begin with their path."""

import csv
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from jonline import checks

MOST_BYTES = 2**31


def gunzipped(stream: IO[bytes]) -> IO[bytes]:
    """Returns a stream of the uncompressed content of a stream that may be gzipped."""
    is_gzip = stream.read(2) == b"\x1f\x8b"
    stream.seek(0)
    return gzip.GzipFile(fileobj=stream) if is_gzip else stream  # pyright: ignore[reportReturnType]


def up_to(stream: IO[bytes], limit: int) -> bytes:
    """Returns the rest of a stream; ValueError where that is more than `limit` bytes."""
    content = bytearray()
    while chunk := stream.read(2**20):
        content += chunk
        if len(content) > limit:
            raise ValueError(f"unpacked it has more than {limit} bytes")
    return bytes(content)


@contextmanager
def named(source: str | os.PathLike | bytes) -> Iterator[None]:
    """Raises what is wrong with the content of a file as ValueError that begins with its path."""
    try:
        yield
    except (ValueError, OverflowError, EOFError, gzip.BadGzipFile, zlib.error, csv.Error) as error:
        name = "" if isinstance(source, bytes) else f"{os.fspath(source)}: "
        text = str(error)
        if isinstance(error, UnicodeDecodeError):
            text = f"byte {error.start} is not UTF-8; save the file as text in UTF-8"
        raise ValueError(text if text.startswith(name) else name + text) from error


def read_bytes(source: str | os.PathLike | bytes) -> bytes:
    """Returns the uncompressed content of a file that may be gzipped.

    Args:
      source: a path, or a file's content. If the path does not exist, path + ".gz" is read.

    Raises:
      FileNotFoundError: neither exists.
      ValueError: what is gzipped is damaged or has more than MOST_BYTES; gunzip the latter by hand.
    """
    if isinstance(source, bytes):
        stream = io.BytesIO(source)
    else:
        path = checks.path("source", source)
        zipped = path.with_name(path.name + ".gz")
        if not path.exists() and not zipped.exists():
            raise FileNotFoundError(f"neither {path} nor {zipped.name} beside it exists")
        stream = (path if path.exists() else zipped).open("rb")
    with named(source), stream:
        content = gunzipped(stream)
        return content.read() if content is stream else up_to(content, MOST_BYTES)


def missing_extra(package: str, purpose: str) -> ImportError:
    """Returns the error for a package of the extra `data` that is not installed."""
    return ImportError(f'{purpose} needs {package}; install it with pip install "jonline[data]"')
