"""Parsers of CSV, ARFF and LIBSVM files."""

import gzip
import sys

import numpy as np
import pytest

from jonline.data import read_arff, read_csv, read_libsvm, read_numbers
from jonline.data.parsers.ratings import one_user

CSV = b"sex,size,rings\r\nM,1.5,3\r\nF,3.38e-005,8\r\n\r\nI,,12\r\n"
ARFF = b"""% a comment
@relation toy

@attribute size numeric
@attribute kind { b, a }
@attribute sign { -1,  1 }
@attribute usr real

@data
1.5, a, -1, 90
?, b, 1, 7
"""


def test_csv_columns_are_split_into_features_target_and_one_hot():
    table = read_csv(CSV, categorical=("sex",))
    assert table.names == ("sex=F", "sex=I", "sex=M", "size")
    np.testing.assert_array_equal(table.x, [[0, 0, 1, 1.5], [1, 0, 0, 3.38e-5], [0, 1, 0, np.nan]])
    np.testing.assert_array_equal(table.y, [3, 8, 12])


def test_csv_target_and_dropped_columns_go_by_name_or_position():
    table = read_csv(CSV, target="size", drop=(0,))
    assert table.names == ("rings",)
    np.testing.assert_array_equal(table.y, [1.5, 3.38e-5, np.nan])
    assert read_csv(CSV, target="sex").y.tolist() == ["M", "F", "I"]


def test_csv_without_header_names_columns_by_position():
    table = read_csv(b"1\t2\t3\n4\t5\t6\n", header=False, target=0, delimiter="\t")
    assert table.names == ("1", "2") and table.y.tolist() == [1, 4]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (CSV, {}, r"line 2 has 'M' in column 'sex', .* `categorical` or `drop`"),
        (b"a,b\n1,2\n\nx,2\n", {}, "line 4 has 'x' in column 'a'"),
        (CSV, {"target": "ring"}, r"no column 'ring'; the columns are \['sex'"),
        (CSV, {"drop": (3,)}, "no column 3"),
        (b"a,b\n1,2\n1\n", {}, "line 3 has 1 values, expected 2"),
        (b"a,b\n", {}, "no rows"),
        (b"", {}, "no rows"),
    ],
)
def test_csv_that_cannot_be_read_says_where(content, options, message):
    with pytest.raises(ValueError, match=message):
        read_csv(content, **options)


def test_gzipped_file_is_read_and_found_beside_the_name(tmp_path):
    (tmp_path / "toy.csv.gz").write_bytes(gzip.compress(CSV))
    beside = read_csv(tmp_path / "toy.csv", drop=("sex",))
    named = read_csv(str(tmp_path / "toy.csv.gz"), drop=("sex",))
    np.testing.assert_array_equal(beside.x, named.x)
    with pytest.raises(FileNotFoundError, match="neither .*other.csv nor other.csv.gz"):
        read_csv(tmp_path / "other.csv")


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b",\n"])
def test_arff_numbers_stay_numbers_and_names_become_one_hot(end):
    head, data = ARFF.split(b"@data\n")
    table = read_arff(head + b"@data\n" + data.replace(b"\n", end))
    assert table.names == ("size", "kind=b", "kind=a", "sign")
    np.testing.assert_array_equal(table.x, [[1.5, 0, 1, -1], [np.nan, 1, 0, 1]])
    np.testing.assert_array_equal(table.y, [90, 7])


def test_arff_target_can_be_named_and_nominal():
    assert read_arff(ARFF, target="kind").y.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"no attribute 'y'; the attributes are \['size'"):
        read_arff(ARFF, target="y")


def test_text_that_is_not_arff_is_refused():
    with pytest.raises(ValueError, match="not ARFF"):
        read_arff(b"@relation x\n@attribute a strange\n@data\n1\n")


def test_libsvm_rows_are_dense_and_query_ids_kept(tmp_path):
    (tmp_path / "rank.txt").write_bytes(b"2 qid:1 1:3 3:0.5\r\n0 qid:16 2:-1\r\n")
    table = read_libsvm(tmp_path / "rank.txt", num_features=4)
    np.testing.assert_array_equal(table.x, [[3, 0, 0.5, 0], [0, -1, 0, 0]])
    np.testing.assert_array_equal(table.y, [2, 0])
    np.testing.assert_array_equal(table.groups, [1, 16])
    assert read_libsvm(b"1 1:2\n-1 2:3\n").groups is None


def test_query_sizes_beside_the_rows_give_the_groups():
    rows = b"2 1:3\n0 2:-1\n1 1:1\n"
    np.testing.assert_array_equal(read_libsvm(rows, b"2\r\n1\r\n").groups, [0, 0, 1])
    with pytest.raises(ValueError, match="the query sizes add up to 4, but there are 3 rows"):
        read_libsvm(rows, b"2\n2\n")


@pytest.mark.parametrize(
    ("module", "read", "package"),
    [("scipy.io", read_arff, "scipy"), ("sklearn.datasets", read_libsvm, "scikit-learn")],
)
def test_missing_package_names_the_extra(monkeypatch, module, read, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'{package}; .*pip install "jonline\[data\]"'):
        read(b"")


def test_numbers_and_labels_come_from_two_files():
    table = read_numbers(b"0 550 999 \r\n1 2 3\n\n", b"1\n-1\n")
    np.testing.assert_array_equal(table.x, [[0, 550, 999], [1, 2, 3]])
    assert table.y.tolist() == [1, -1]
    for content, labels, message in (
        (b"1 2\n3\n", b"1\n1\n", "row 1 has 1 numbers, expected 2"),
        (b"1 2\n", b"1\n1\n", "1 rows and 2 labels"),
        (b"\n", b"", "0 rows and 0 labels"),
        (b"1 x\n", b"1\n", "could not convert"),
    ):
        with pytest.raises(ValueError, match=message):
            read_numbers(content, labels)


RATINGS = b"""user,film,rating,time
7,30,5.0,0
7,10,0.5,0
7,20,3.0,0
1,10,5.0,0
1,30,0.5,0
2,20,2.75,0
2,99,5.0,0
3,10,4.0,0
"""


def test_one_users_films_have_other_users_ratings_as_features():
    table = one_user(RATINGS, lowest=0.5, highest=5.0, num_users=2)
    assert table.names == ("1", "2")
    np.testing.assert_array_equal(table.y, [0.5, 3, 5])  # films 10, 20, 30
    np.testing.assert_array_equal(table.x, [[0.5, 0], [0, 0], [-0.5, 0]])


def test_target_user_can_be_chosen_and_is_no_feature():
    table = one_user(RATINGS, lowest=0.5, highest=5.0, num_users=3, user=1)
    assert table.names == ("7", "2", "3")
    with pytest.raises(ValueError, match=r"no user 5 in the file; the most active are \[7, 1, 2"):
        one_user(RATINGS, lowest=0.5, highest=5.0, user=5)
    with pytest.raises(ValueError, match="num_users=4 is more than the 3 other users"):
        one_user(RATINGS, lowest=0.5, highest=5.0, num_users=4)
