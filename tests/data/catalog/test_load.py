"""The catalog, on small files laid out like the real ones and, where they are at hand, on those."""

import gzip
import hashlib
import io
import os
import subprocess
import sys
import zipfile
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from jonline.data import (
    ENTRIES,
    lambdarank,
    load,
    load_entry,
    min_max,
    movielens,
    standardise,
    telemonitoring,
    unit_indicators,
    unit_rows,
    unscaled,
)
from jonline.data.catalog import load as catalog
from jonline.data.catalog.fetch import fetch
from jonline.data.parsers.ratings import one_user
from jonline.structured import multiclass

REAL = Path(
    os.environ.get("JONLINE_TEST_DATA")
    or Path(__file__).resolve().parents[3].parent / "shared" / "data"
)
SHAPES = {  # name: (rows, features, K, rows of each class)
    "abalone": (4177, 10, 4, [839, 1257, 1388, 693]),
    "telemonitoring": (5875, 19, 10, [191, 316, 769, 912, 1153, 937, 591, 562, 231, 213]),
    "movielens": (2698, 100, 10, [1, 40, 20, 398, 122, 658, 232, 903, 76, 248]),
    "mslr_sample": (5000, 136, 5, [2792, 1458, 665, 55, 30]),
    "california": (20640, 8, 10, None),
    "computer_activity": (8192, 21, 10, None),
    "bank": (8192, 8, 10, None),
    "bank32nh": (8192, 32, 10, None),
    "mnist": (60000, 784, 10, [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
    "mnist_test": (10000, 784, 10, [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
    "lambdarank": (3005, 300, 5, [645, 1211, 858, 222, 69]),
    "lambdarank_test": (768, 300, 5, [206, 256, 252, 44, 10]),
    "phishing": (11055, 30, None, [4898, 6157]),
    "svmguide1": (3089, 4, None, [1089, 2000]),
    "svmguide1_test": (4000, 4, None, [2000, 2000]),
    "mnist_4_9": (11791, 784, None, [5842, 5949]),
    "mnist_4_9_test": (1991, 784, None, [982, 1009]),
}


def _arff(num_features):
    rng = np.random.default_rng(num_features)
    names = [f"@attribute a{i} numeric" for i in range(num_features)]
    rows = [",".join(f"{v:.4f}" for v in row) for row in rng.normal(size=(30, num_features + 1))]
    return "\n".join(
        ["% made", "@relation toy", *names, "@attribute y numeric", "@data", *rows, ""]
    )


def _telemonitoring():
    names = ["subject#", "age", "sex", "test_time", "motor_UPDRS", "total_UPDRS"]
    names += [f"v{i}" for i in range(16)]
    rng = np.random.default_rng(0)
    rows = rng.uniform(7, 55, (30, 22)).round(3).astype(str)
    return "\n".join([",".join(names), *map(",".join, rows), ""])


def _libsvm(num_rows=20):
    rng = np.random.default_rng(1)
    values = [" ".join(f"{i}:{rng.normal():.3f}" for i in range(1, 137)) for _ in range(num_rows)]
    return "".join(f"{t % 5} qid:{t // 4} {v}\r\n" for t, v in enumerate(values))


def _ratings(head, delimiter, factor):
    rng = np.random.default_rng(2)
    lines = [
        delimiter.join(map(str, (user, film, rng.integers(1, 6) * factor, 0)))
        for user in range(1, 106)
        for film in range(user % 7, 10)
    ]
    return head + "\r\n".join(lines) + "\r\n"


def _idx(array):
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return head + array.astype("u1").tobytes()


def _images(num_rows):
    rng = np.random.default_rng(3)
    digits = np.arange(num_rows) % 10
    return _idx(rng.integers(0, 256, (num_rows, 28, 28))), _idx(digits)


def _graded(num_queries):
    """Queries of 5 documents, of the relevances 0, 1, 2, 2, 3, with the first feature to match."""
    lines = [
        f"{grade} 1:0.{grade} 300:0.{q}\n" for q in range(num_queries) for grade in (0, 1, 2, 2, 3)
    ]
    return "".join(lines).encode(), b"5\n" * num_queries


def _phishing():
    """30 features, 8 of three values and 22 of two, all of them within the first three rows."""
    names = [f"@attribute a{i} {{ -1, 0, 1 }}" for i in range(30)]
    rows = [
        ",".join(map(str, [*[value] * 8, *[max(value, 0)] * 22, sign]))
        for value, sign in ((1, -1), (-1, 1), (0, -1), (1, 1))
    ]
    return "\n".join(
        ["@relation toy", *names, "@attribute Result { -1, 1 }", "@data", *rows, ""]
    ).encode()


def _guide(num_rows):
    return "".join(f"{t % 2} 1:{t}.5 4:2\n" for t in range(num_rows)).encode()


def _gisette(num_rows):
    rows = np.random.default_rng(4).integers(0, 1000, (num_rows, 5000))
    data = "".join(" ".join(map(str, row)) + " \n" for row in rows)
    return data.encode(), "".join(f"{1 - 2 * (t % 2)}\n" for t in range(num_rows)).encode()


@cache
def _small_files():
    """The contents of an entry's files, by its name."""
    files = {
        "abalone": "".join(f"{'MFI'[t % 3]}{',0.5' * 7},{t}\n" for t in range(1, 30)),
        "telemonitoring": _telemonitoring(),
        "movielens": _ratings("userId,movieId,rating,timestamp\r\n", ",", 1.0),
        "movielens100k": _ratings("", "\t", 1),
        "mslr": _libsvm(),
        "mslr_sample": _libsvm(),
        "california": "".join(f"{t}{',1.5' * 7},{t}.25\n" for t in range(30)),
        "computer_activity": _arff(21),
        "bank": _arff(8),
        "bank32nh": _arff(32),
    }
    return {name: (text.encode(),) for name, text in files.items()} | {
        "mnist": _images(20),
        "mnist_test": _images(10),
        "lambdarank": _graded(4),
        "lambdarank_test": _graded(3),
        "phishing": (_phishing(),),
        "svmguide1": (_guide(6),),
        "svmguide1_test": (_guide(4),),
        "gisette": _gisette(4),
        "gisette_valid": _gisette(2),
        "mnist_4_9": _images(20),
        "mnist_4_9_test": _images(10),
    }


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A folder of small files laid out like the real ones, and the catalog with their checksums."""
    monkeypatch.delenv("JONLINE_DATA", raising=False)
    for i, (name, contents) in enumerate(_small_files().items()):
        files = [
            _written(file, content, tmp_path, zipped=i % 2)
            for file, content in zip(_files(ENTRIES[name]), contents, strict=True)
        ]
        entry = ENTRIES[name]._replace(file=files[0], more=tuple(files[1:]))
        monkeypatch.setitem(catalog.ENTRIES, name, entry)
    return tmp_path


def _files(entry):
    return (entry.file, *entry.more)


def _written(file, content, folder, *, zipped):
    """Writes a file as its origin has it, or gzipped; returns it with its checksum."""
    path = folder / file.path
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(file.member, content)
        path.write_bytes(buffer.getvalue())
        return file._replace(archive_sha256=hashlib.sha256(buffer.getvalue()).hexdigest())
    if zipped:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(content))
    else:
        path.write_bytes(content)
    return file._replace(sha256=hashlib.sha256(content).hexdigest(), size=len(content))


@pytest.fixture
def real(monkeypatch):
    monkeypatch.delenv("JONLINE_DATA", raising=False)
    if not REAL.is_dir():
        pytest.skip(f"the real files are not in {REAL}; set JONLINE_TEST_DATA to their folder")
    return REAL


def _check(data, entry):
    x, y = np.asarray(data.x), np.asarray(data.y)
    assert data.name == entry.name and data.num_classes == entry.num_classes
    labels = range(1, data.num_classes + 1) if data.num_classes else (-1, 1)
    assert np.isfinite(x).all() and set(y.tolist()) <= set(labels)
    if entry.scale is standardise:
        np.testing.assert_allclose(x.mean(0), 0, atol=1e-4)  # float32 sums over the rows
    provenance = data.provenance
    assert provenance.origin.startswith(("https://", "http://yann"))
    assert provenance.terms and provenance.task and hash(provenance) is not None
    assert [len(sha256) for sha256 in provenance.sha256.split(" ")] == [64] * len(_files(entry))


@pytest.mark.parametrize("name", ENTRIES)
def test_entry_loads_from_small_files(small, name):
    data = load(name, small)
    _check(data, catalog.ENTRIES[name])
    if name in SHAPES:
        assert data.x.shape[1] == SHAPES[name][1]


@pytest.mark.parametrize("name", SHAPES)
def test_entry_loads_from_real_files(real, name):
    num_rows, num_features, num_classes, counts = SHAPES[name]
    data = load(name, real)
    _check(data, ENTRIES[name])
    assert data.x.shape == (num_rows, num_features) and data.num_classes == num_classes
    assert data.provenance.sha256 == " ".join(file.sha256 for file in _files(ENTRIES[name]))
    if counts:
        labels, found = np.unique(data.y, return_counts=True)
        np.testing.assert_array_equal(
            labels, np.arange(1, num_classes + 1) if num_classes else [-1, 1]
        )
        np.testing.assert_array_equal(found, counts)


def test_sizes_of_the_real_files_are_those_of_the_list(real):
    entries = [ENTRIES[name] for name in SHAPES if "4_9" not in name]
    for file in {file for entry in entries for file in _files(entry)}:
        assert len(fetch(file, real)) == file.size, file.path


@pytest.mark.parametrize("scale", [unscaled, standardise, min_max, unit_rows])
def test_no_real_table_is_said_to_lose_values_in_float32(real, scale):
    """Warnings are errors here."""
    for name in ("abalone", "telemonitoring", "mslr_sample", "california", "computer_activity"):
        load(name, real, scale=scale)


def test_real_targets_without_ties_are_cut_into_equal_classes(real):
    counts = np.bincount(load("bank", real).y)[1:]
    assert counts.min() == 819 and counts.max() == 820


def test_abalone_is_cut_at_7_9_and_12_rings(small):
    data = load("abalone", small)
    np.testing.assert_array_equal(np.bincount(data.y)[1:], [7, 2, 3, 17])
    np.testing.assert_array_equal(data.x[0, :3], [1, 0, 0])  # F of F, I, M


def test_telemonitoring_has_the_options_of_its_task(small):
    assert telemonitoring(small).x.shape[1] == 19
    data = telemonitoring(small, keep_motor=True, num_classes=10, scale=min_max)
    assert data.x.shape[1] == 20 and data.num_classes == 10
    np.testing.assert_array_equal(np.bincount(data.y)[1:], 3)
    assert float(data.x.min()) == 0 and float(data.x.max()) == 1
    assert "equi-frequent" in data.provenance.task and "min_max" in data.provenance.task


def test_movielens_target_user_and_width_can_be_chosen(small):
    data = movielens(small, user=3, num_users=5)
    assert data.x.shape == (7, 5) and "user 3, 5 others" in data.provenance.task
    assert "stand-in for EachMovie" in data.provenance.task
    assert set(np.asarray(data.y).tolist()) <= {2, 4, 6, 8, 10}  # whole stars


def test_variant_of_an_entry_loads(small):
    entry = catalog.ENTRIES["movielens100k"]
    variant = entry._replace(
        read=partial(one_user, lowest=1.0, highest=5.0, delimiter="\t", header=False, num_users=2)
    )
    assert load_entry(variant, small).x.shape[1] == 2


def test_mslr_falls_back_to_the_sample_and_says_so(small):
    assert load("mslr", small).name == "mslr"
    (small / "MSLR-WEB10K.zip").unlink()
    assert load("mslr", small).name == "mslr_sample"
    (small / "mslr" / "msn1.fold1.train.5k.txt").unlink(missing_ok=True)
    (small / "mslr" / "msn1.fold1.train.5k.txt.gz").unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError, match="MSLR-WEB10K.zip .* by hand"):
        load("mslr", small)


def test_pixels_are_divided_by_255_and_digits_become_labels_from_1_on(small):
    data = load("mnist", small)
    assert data.x.dtype == np.float32 and 0 <= data.x.min() and data.x.max() == 1
    pixels = np.frombuffer(_images(20)[0], np.uint8, offset=16).reshape(20, 784)
    np.testing.assert_array_equal(np.asarray(data.x) * 255, pixels)  # whole numbers: exact
    np.testing.assert_array_equal(data.y, np.arange(20) % 10 + 1)
    np.testing.assert_array_equal(multiclass(10).encode(data.y).argmax(1) + 1, data.y)


def test_entry_of_two_files_needs_both(small):
    for path in (small / "mnist").glob("train-labels*"):
        path.unlink()
    file = catalog.ENTRIES["mnist"].more[0]._replace(url="")
    entry = catalog.ENTRIES["mnist"]._replace(more=(file,))
    with pytest.raises(FileNotFoundError, match="train-labels-idx1-ubyte is not in"):
        load_entry(entry, small)


def test_fours_and_nines_stand_in_for_gisette_and_say_so(small):
    data, whole = load("mnist_4_9", small), load("mnist", small)
    np.testing.assert_array_equal(data.y, [-1, 1, -1, 1])
    np.testing.assert_array_equal(data.x, np.asarray(whole.x)[[4, 9, 14, 19]])
    assert data.name == "mnist_4_9" and "stand-in for Gisette" in data.provenance.task
    assert data.provenance.sha256 == whole.provenance.sha256


def test_gisette_is_read_from_its_two_files_or_from_their_archive(small, tmp_path_factory):
    data = load("gisette", small)
    assert data.x.shape == (4, 5000)
    numbers, _ = _small_files()["gisette"]
    expected = np.array(numbers.split(), float).reshape(4, 5000)
    np.testing.assert_array_equal(data.x, np.float32(expected) / np.float32(999))
    np.testing.assert_array_equal(data.y, [1, -1, 1, -1])
    folder = tmp_path_factory.mktemp("archive")
    with zipfile.ZipFile(folder / "gisette.zip", "w") as archive:
        for kind, content in zip(("data", "labels"), _small_files()["gisette"], strict=True):
            archive.writestr(f"GISETTE/gisette_train.{kind}", content)
    np.testing.assert_array_equal(load("gisette", folder).x, data.x)


def test_phishing_has_libsvms_form(small):
    """New pairs of feature and value are numbered row by row, as LIBSVM's file has them."""
    raw = np.asarray(load("phishing", small).x)
    data = load("phishing", small, scale=unit_indicators)
    code, expected = {}, np.zeros((4, 68))
    for t, row in enumerate(raw):
        for pair in enumerate(row):
            expected[t, code.setdefault(pair, len(code))] = 1 / np.sqrt(30)
    assert len(code) == 68
    np.testing.assert_allclose(data.x, expected, rtol=1e-6)  # float32
    assert "unit_indicators" in data.provenance.task


def test_real_phishing_has_the_68_columns_of_libsvms_form(real):
    x = np.asarray(load("phishing", real, scale=unit_indicators).x)
    assert x.shape == (11055, 68)
    np.testing.assert_allclose(np.sum(x**2, axis=1), 1, rtol=1e-5)  # 30 float32 terms


def test_rankings_are_made_of_both_parts_of_the_example(small):
    data = lambdarank(small, num_items=4, seed=1)
    assert data.x.shape == (7, 1200) and data.y.shape == (7, 16) and data.num_classes is None
    relevance = np.asarray(data.x).reshape(7, 4, 300)[:, :, 0]
    best_first = np.einsum("bij,bi->bj", np.asarray(data.y).reshape(7, 4, 4), relevance)
    np.testing.assert_allclose(best_first, np.tile([0.3, 0.2, 0.1, 0], (7, 1)), rtol=1e-6)
    assert len(np.unique(np.asarray(data.y), axis=0)) > 1
    assert len(data.provenance.sha256.split(" ")) == 4 and "seed 1" in data.provenance.task
    assert lambdarank(small, scale=standardise).provenance.task.count("scaled by standardise") == 1


@pytest.mark.parametrize(("num_items", "num_rows"), [(2, 1525), (3, 553), (4, 138), (5, 23)])
def test_real_example_gives_this_many_rankings(real, num_items, num_rows):
    data = lambdarank(real, num_items=num_items)
    assert data.x.shape == (num_rows, 300 * num_items) and 0 <= data.x.min() <= data.x.max() <= 1
    matrices = np.asarray(data.y).reshape(-1, num_items, num_items)
    assert (matrices.sum(1) == 1).all() and (matrices.sum(2) == 1).all()


def test_wrong_file_is_refused(small):
    (small / "abalone.data").write_bytes(b"M,1\n")
    with pytest.raises(ValueError, match="abalone.data is not the file it should be"):
        load("abalone", small)


def test_unknown_name_lists_the_names_and_the_nearest():
    with pytest.raises(ValueError, match="'abalon'; did you mean 'abalone'; .*abalone, telemon"):
        load("abalon")
    with pytest.raises(ValueError, match="'zzz'; the names are"):
        load("zzz")


def test_import_needs_no_package_of_the_extra():
    script = (
        "import sys, jonline.data\n"
        "print([m for m in ('pooch', 'scipy.io', 'sklearn', 'pandas') if m in sys.modules])"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
