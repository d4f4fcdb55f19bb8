"""Reads the IDX format of the MNIST files: arrays of one kind of number, big-endian.

The first four bytes are 0, 0, the kind of number and the number of axes; the length of each axis
follows in four bytes, then the numbers, last axis fastest.
"""

import math
import os

import numpy as np

from jonline.data.parsers.tables import Table
from jonline.data.parsers.unpack import named, read_bytes

_KINDS = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(source: str | os.PathLike | bytes) -> np.ndarray:
    """Returns the array in an IDX file, in the kind of number that it has there.

    Args:
      source: path or content; it may be gzipped.

    Returns:
      an array of as many axes as the file says, native byte order.

    Raises:
      FileNotFoundError: no such path.
      ValueError: the content does not begin as IDX does, or is shorter or longer than it says.
    """
    content = read_bytes(source)
    with named(source):
        return _idx(content)


def _idx(content: bytes) -> np.ndarray:
    """Returns the array in the content of a file; see `read_idx`."""
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _KINDS or not content[3]:
        raise ValueError(
            "an IDX file must begin with two bytes 0, a kind of number and a number of axes, got "
            f"{content[:4].hex(' ') or 'no bytes'}"
        )
    kind, begin = np.dtype(_KINDS[content[2]]), 4 + 4 * content[3]
    if len(content) < begin:
        raise ValueError(
            f"an IDX file of {content[3]} axes has {begin} bytes before its numbers, "
            f"got {len(content)} bytes in all"
        )
    shape = tuple(np.frombuffer(content[4:begin], ">u4").tolist())
    size = begin + math.prod(shape) * kind.itemsize
    if len(content) != size:
        raise ValueError(f"an IDX file of shape {shape} has {size} bytes, got {len(content)}")
    return np.frombuffer(content, kind, offset=begin).reshape(shape).astype(kind.newbyteorder("="))


def read_images(images: str | os.PathLike | bytes, labels: str | os.PathLike | bytes) -> Table:
    """Returns the table in two IDX files, one of images and one of labels.

    Args:
      images: path or content: an array (N, ...), one image an entry.
      labels: path or content: an array (N,).

    Returns:
      Table(x, y) in the kinds of number of the files; a row of x is an image, row after row.

    Raises:
      FileNotFoundError: no such path.
      ValueError: a file is not IDX, or the arrays have other shapes.
    """
    x, y = read_idx(images), read_idx(labels)
    with named(images), named(labels):
        if x.ndim < 2 or y.shape != x.shape[:1]:
            raise ValueError(
                f"images (N, ...) need labels (N,), got shapes {x.shape} and {y.shape}"
            )
    return Table(x.reshape(len(x), math.prod(x.shape[1:])), y)
