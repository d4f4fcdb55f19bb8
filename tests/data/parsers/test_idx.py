"""The parser of IDX files."""

import gzip

import numpy as np
import pytest

from jonline.data import read_idx, read_images

TWO_BY_THREE = bytes.fromhex("00 00 08 02  00 00 00 02  00 00 00 03  00 01 02 03 04 ff")


def test_bytes_are_read_in_the_shape_the_file_says(tmp_path):
    (tmp_path / "images-idx2-ubyte.gz").write_bytes(gzip.compress(TWO_BY_THREE))
    array = read_idx(tmp_path / "images-idx2-ubyte")
    assert array.dtype == np.uint8
    np.testing.assert_array_equal(array, [[0, 1, 2], [3, 4, 255]])


@pytest.mark.parametrize(
    ("kind", "dtype"), [(0x09, "i1"), (0x0B, "i2"), (0x0C, "i4"), (0x0D, "f4"), (0x0E, "f8")]
)
def test_other_kinds_of_number_are_big_endian(kind, dtype):
    values = np.array([1, -2, 100], dtype)
    content = bytes([0, 0, kind, 1, 0, 0, 0, 3]) + values.astype(f">{dtype}").tobytes()
    array = read_idx(content)
    assert array.dtype == values.dtype and array.dtype.isnative
    np.testing.assert_array_equal(array, values)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must begin with two bytes 0, .* got no bytes"),
        (b"\x89PNG" + TWO_BY_THREE, "got 89 50 4e 47"),
        (b"\0\0\x07" + TWO_BY_THREE[3:], "got 00 00 07 02"),
        (b"\0\0\x08\0", "got 00 00 08 00"),
        (TWO_BY_THREE[:9], "of 2 axes has 12 bytes before its numbers, got 9 bytes in all"),
        (TWO_BY_THREE[:-1], r"of shape \(2, 3\) has 18 bytes, got 17"),
        (TWO_BY_THREE + b"\0", r"of shape \(2, 3\) has 18 bytes, got 19"),
        (bytes.fromhex("00000803") + b"\xff" * 12, "has .* bytes, got 16"),
    ],
)
def test_content_that_is_not_idx_or_is_truncated_is_refused(content, message):
    with pytest.raises(ValueError, match=message):
        read_idx(content)


def test_images_become_rows_with_their_labels():
    images = bytes.fromhex("00 00 08 03  00 00 00 02  00 00 00 02  00 00 00 01  05 06 07 08")
    table = read_images(images, bytes.fromhex("00 00 08 01  00 00 00 02  09 00"))
    np.testing.assert_array_equal(table.x, [[5, 6], [7, 8]])
    np.testing.assert_array_equal(table.y, [9, 0])
    with pytest.raises(ValueError, match=r"shapes \(2, 2, 1\) and \(1,\)"):
        read_images(images, bytes.fromhex("00 00 08 01  00 00 00 01  09"))
