"""Damaged, truncated and foreign files: an error that names the file, and little memory."""

import gzip
import random
import tracemalloc

import numpy as np
import pytest

from jonline.data import read_arff, read_csv, read_idx, read_images, read_libsvm, read_numbers
from jonline.data.parsers.ratings import one_user
from tests.data.parsers.damage import damaged

CSV = b"sex,size,rings\r\nM,1.5,3\r\nF,3.38e-005,8\r\n\r\nI,,12\r\n"
ARFF = b"""@relation toy
@attribute size numeric
@attribute kind { b, a }
@attribute usr real
@data
1.5, a, 90
?, b, 7
"""
DATES = b"@relation toy\n@attribute day date yyyy\n@attribute y real\n@data\n2020, 1\n2021, 2\n"
LIBSVM = b"2 qid:1 1:3 3:0.5\r\n0 qid:16 2:-1\r\n1 qid:16 1:7 # a comment\r\n"
IDX = bytes.fromhex("00 00 08 03  00 00 00 02  00 00 00 02  00 00 00 01  05 06 07 08")
LABELS = bytes.fromhex("00 00 08 01  00 00 00 02  09 00")
RATINGS = b"user,film,rating,time\n7,30,5.0,0\n7,10,0.5,0\n1,10,5.0,0\n1,30,0.5,0\n2,20,2.7,0\n"
PLAIN = b"1 2 3\n4 5 6\n"
READERS = {
    "csv": (CSV, lambda path: read_csv(path, categorical=("sex",))),
    "csv without header": (CSV, lambda path: read_csv(path, header=False, categorical=(0, 1))),
    "csv of numbers": (b"1,2,3\n4,5,6\n7,,9\n", lambda path: read_csv(path, header=False)),
    "arff": (ARFF, read_arff),
    "arff with dates": (DATES, read_arff),
    "libsvm": (LIBSVM, read_libsvm),
    "query sizes": (b"2\n1\n", lambda path: read_libsvm(LIBSVM, path)),
    "idx": (IDX, read_idx),
    "images": (IDX, lambda path: read_images(path, LABELS)),
    "labels of images": (LABELS, lambda path: read_images(IDX, path)),
    "numbers": (PLAIN, lambda path: read_numbers(path, b"1\n2\n")),
    "labels of numbers": (b"1\n2\n", lambda path: read_numbers(PLAIN, path)),
    "ratings": (RATINGS, lambda path: one_user(path, lowest=0.5, highest=5.0, num_users=1)),
}
FOREIGN = [b"", b"\n", b"\xff\xfe\x00", b"PK\x03\x04", b"\x1f\x8b", b"%PDF-1.4 \xe9", b"[1, 2]"]
FOREIGN += [content for content, _ in READERS.values()]


def check(path, read):
    """Reads a file; it may go well or be an error that names it, and takes little memory."""
    tracemalloc.start()
    try:
        read(path)
    except (ValueError, OSError) as error:
        assert type(error) is not UnicodeDecodeError
        assert path.name in str(error), (path.read_bytes(), error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 2**23, (path.read_bytes(), peak)


def fuzz(name, path, num_files, seed):
    content, read = READERS[name]
    rng = random.Random(f"{name} {seed}")
    path.write_bytes(content)
    if name != "arff with dates":
        read(path)
    for foreign in FOREIGN:
        path.write_bytes(foreign)
        check(path, read)
    for _ in range(num_files):
        broken = damaged(rng, content)
        if rng.random() < 0.2:
            broken = damaged(rng, gzip.compress(broken, 1))
        path.write_bytes(broken)
        check(path, read)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy about huge numbers
@pytest.mark.parametrize("name", READERS)
def test_broken_file_is_an_error_that_names_it(tmp_path, name):
    fuzz(name, tmp_path / "broken.txt", 100, 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("name", READERS)
def test_many_broken_files_are_errors_that_name_them(tmp_path, name, seed):
    fuzz(name, tmp_path / "broken.txt", 1000, seed)


@pytest.mark.parametrize(
    ("content", "read", "message"),
    [
        (bytes.fromhex("00000801 ffffffff"), read_idx, "has 4294967303 bytes, got 8"),
        (b"1 1:1\n0 999999999:1\n", read_libsvm, "2 rows with an index 999999999, .* GiB"),
        (
            b"1 " * 100_000 + b"\n1" * 10_000,
            lambda path: read_numbers(path, b"1\n" * 10_001),
            "row 1",
        ),
        (
            b"".join(b"%d,1\n" % i for i in range(20_000)),
            lambda path: read_csv(path, header=False, categorical=(0,)),
            "column '0' one-hot, of 20000 values, needs 2.98 GiB, more than 2",
        ),
    ],
)
def test_few_bytes_that_claim_much_memory_are_refused(tmp_path, content, read, message):
    path = tmp_path / "claims.txt"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"claims.txt: .*{message}"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_gzipped_file_unpacks_to_a_bound_only(tmp_path, monkeypatch):
    path = tmp_path / "zeros.csv.gz"
    path.write_bytes(gzip.compress(bytes(2**24)))
    monkeypatch.setattr("jonline.data.parsers.unpack.MOST_BYTES", 2**20)
    with pytest.raises(ValueError, match="zeros.csv.gz: unpacked it has more than 1048576 bytes"):
        read_csv(path)


def test_columns_may_be_integers_of_numpy_and_no_bools():
    table = read_csv(CSV, target=np.uint8(2), drop=(np.int8(0),))
    assert table.names == ("size",)
    with pytest.raises(ValueError, match="no column True"):
        read_csv(CSV, target=True)
    assert read_libsvm(LIBSVM, num_features=np.uint8(4)).x.shape == (3, 4)
    with pytest.raises(TypeError, match="num_features must be a Python int"):
        read_libsvm(LIBSVM, num_features=True)
