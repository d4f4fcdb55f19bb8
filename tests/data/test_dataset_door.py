"""The door: what `from_arrays` accepts, and what it says when it does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline.data import Dataset, Provenance, drop_bad_rows, from_arrays

X = np.arange(8.0).reshape(4, 2)
Y = np.array([1, 2, 3, 3])


def test_arrays_become_float32_and_int32():
    data = from_arrays(X, Y, 3, name="toy", provenance=Provenance(origin="here"))
    assert data.x.dtype == jnp.float32 and data.y.dtype == jnp.int32
    np.testing.assert_array_equal(data.x, X)
    np.testing.assert_array_equal(data.y, Y)
    assert (data.num_classes, data.name, data.provenance.origin) == (3, "toy", "here")


def test_two_sided_labels_need_no_num_classes():
    assert from_arrays(X, [1, -1, 1.0, -1]).num_classes is None
    with pytest.raises(ValueError, match=r"got 0 in row 1; .* pass 2 \* y - 1"):
        from_arrays(X, [1, 0, 1, 0])
    with pytest.raises(ValueError, match=r"jonline.data.encode_signs\(y\).labels"):
        from_arrays(X, [1, 2, 2, 1])


def test_dataset_is_an_argument_of_a_jitted_program_and_compiles_once():
    count = []

    @jax.jit
    def total(data: Dataset):
        count.append(data.num_classes)
        return jnp.sum(data.x) + jnp.sum(data.y)

    assert total(from_arrays(X, Y, 3)) == 28 + 9
    assert total(from_arrays(2 * X, Y, 3)) == 56 + 9
    assert count == [3]
    total(from_arrays(X, Y, 4))
    assert count == [3, 4]


def test_frame_keeps_its_columns_in_order():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"b": [1, 2, 3, 4], "a": [0.5, 1, 2, 3]}, index=[9, 8, 7, 6])
    data = from_arrays(frame, pandas.Series(Y, index=[9, 8, 7, 6]), 3)
    np.testing.assert_array_equal(data.x, [[1, 0.5], [2, 1], [3, 2], [4, 3]])


def test_frame_with_text_is_refused_and_the_fix_it_names_works():
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame({"a": [1, 2, 3, 4], "Sex": list("MFIM")})
    with pytest.raises(TypeError, match=r"x = pandas.get_dummies\(x, columns=\['Sex'\]") as error:
        from_arrays(x, Y, 3)
    scope = {"x": x, "pandas": pandas}
    exec(str(error.value).partition("for example ")[2], scope)
    assert from_arrays(scope["x"], Y, 3).x.shape == (4, 4)


def test_missing_value_of_a_nullable_frame_is_named_with_its_column():
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame({"a": [1, 2, 3, 4], "b": pandas.array([1, None, 3, 4], dtype="Int64")})
    with pytest.raises(ValueError, match=r"got nan in row 1, column 1 \('b'\)"):
        from_arrays(x, Y, 3)


def test_sparse_is_refused_with_the_memory_a_dense_copy_needs():
    sparse = pytest.importorskip("scipy.sparse")
    x = sparse.csr_matrix((2**15, 10**5))
    with pytest.raises(TypeError, match=r"dense only; .* needs 12\.2 GiB"):
        from_arrays(x, np.ones(2**15), 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_value_that_is_not_finite_is_named_with_row_and_column(bad):
    x = X.copy()
    x[2, 1] = bad
    with pytest.raises(ValueError, match=r"row 2, column 1; 1 rows are bad: .*drop_bad_rows"):
        from_arrays(x, Y, 3)


def test_value_beyond_float32_is_shown_and_needs_x64():
    x = X.copy()
    x[2, 1] = 1e300
    with pytest.raises(
        ValueError, match=r"x must fit into float32, got 1e\+300 in row 2, column 1$"
    ):
        from_arrays(x, Y, 3)
    with jax.enable_x64(True):
        assert from_arrays(x, Y, 3).x[2, 1] == 1e300


def test_masked_arrays_are_refused():
    masked = np.ma.array(X, mask=X == 3)
    for build in (from_arrays, drop_bad_rows):
        with pytest.raises(TypeError, match="x must be without a mask, got MaskedArray.*filled"):
            build(masked, Y)
        with pytest.raises(TypeError, match="y must be without a mask"):
            build(X, np.ma.array(Y))


@pytest.mark.parametrize("bad", [0, 4, -1, 1.5, np.nan, np.inf])
def test_label_outside_the_classes_is_named_with_row_value_and_encoder(bad):
    with pytest.raises(ValueError, match=rf"labels 1\.\.3, got {bad} in row 3; .*encode_labels"):
        from_arrays(X, [1, 2, 3, bad], 3)


@pytest.mark.parametrize(
    ("x", "y", "num_classes", "error", "message"),
    [
        (X, ["low", "mid", "high", "low"], 3, TypeError, r"encode_labels\(y, order\)"),
        (X, Y[:3], 3, ValueError, "x has 4 rows but y has 3 labels"),
        (X, Y[:, None], 3, ValueError, r"\(4, 1\); pass y.ravel"),
        (X[:, 0], Y, 3, ValueError, r"\(4,\); for a single feature pass x.reshape\(-1, 1\)"),
        (X[None], Y, 3, ValueError, r"shape \(N, n\), got \(1, 4, 2\)"),
        (X[:0], Y[:0], 3, ValueError, "at least one row"),
        ([["a", "b"]], [1], 3, TypeError, "x must hold numbers"),
        (X * 1j, Y, 3, TypeError, "x must hold numbers, got dtype complex128"),
        (X, Y, 1, ValueError, "num_classes must be >= 2, got 1"),
        (X, Y, 3.0, TypeError, "num_classes must be a Python int"),
    ],
)
def test_wrong_argument_is_named(x, y, num_classes, error, message):
    with pytest.raises(error, match=message):
        from_arrays(x, y, num_classes)


def test_traced_arrays_are_refused():
    with pytest.raises(TypeError, match="outside jit"):
        jax.jit(lambda x: from_arrays(x, Y, 3).x)(X)


def test_bad_rows_are_dropped_and_counted():
    x = X.copy()
    x[1, 0], x[3, 1] = np.nan, np.inf
    kept = drop_bad_rows(x, Y)
    assert kept.num_dropped == 2
    np.testing.assert_array_equal(from_arrays(kept.x, kept.y, 3).x, X[[0, 2]])
    assert drop_bad_rows(X, [1, np.nan, 2, 3]).num_dropped == 1
    assert drop_bad_rows(X, Y).num_dropped == 0
    with pytest.raises(ValueError, match="x must be"):
        drop_bad_rows(X, Y[:2])


def test_bad_rows_of_a_frame_are_dropped_as_a_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, np.nan, 3, 4], "b": [0, 1, 2, 3]})
    kept = drop_bad_rows(frame, pandas.Series(list("wxyz")))
    assert list(kept.x.columns) == ["a", "b"] and list(kept.y) == ["w", "y", "z"]
    assert kept.num_dropped == 1
