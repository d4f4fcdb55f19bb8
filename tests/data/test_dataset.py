"""The door: what `from_arrays` accepts, and what it says when it does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline.data import (
    Dataset,
    Provenance,
    drop_bad_rows,
    encode_labels,
    from_arrays,
    standardise,
    unit_rows,
)

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
    with pytest.raises(
        ValueError, match=r"got 0 in row 1; .*jonline.data.encode_signs\(y\).labels"
    ):
        from_arrays(X, [1, 0, 1, 0])
    with pytest.raises(ValueError, match=r"jonline.data.encode_signs\(y\).labels"):
        from_arrays(X, [1, 2, 2, 1])
    with pytest.raises(ValueError, match=r"got 2 in row 1; .*num_classes=len\(order\)"):
        from_arrays(X, [1, 2, 3, 1])


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


def test_frame_of_polars_keeps_its_columns_and_names_them():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"b": [1, 2, 3, 4], "a": [0.5, 1, 2, None]})
    data = from_arrays(frame[:3], polars.Series([1, 2, 3]), 3)
    np.testing.assert_array_equal(data.x, [[1, 0.5], [2, 1], [3, 2]])
    with pytest.raises(ValueError, match=r"got nan in row 3, column 1 \('a'\); 1 rows are bad"):
        from_arrays(frame, polars.Series(Y), 3)
    kept = drop_bad_rows(frame, polars.Series(list("wxyz")))
    assert kept.x.columns == ["b", "a"] and kept.y.to_list() == ["w", "x", "y"]


def _columns(values):
    """A column with missing values in every kind that can hold it."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    kinds = {
        "list": list(values),
        "tuple": tuple(values),
        "objects": np.array(values, object),
        "pandas": pandas.Series(values, index=range(9, 9 + len(values))),
        "pandas objects": pandas.Series(values, dtype=object),
        "pandas array": pandas.array(values),
        "NA": [pandas.NA if value is None else value for value in values],
        "NaN": [float("nan") if value is None else value for value in values],
        "categories": pandas.Series(values, dtype="category"),
        "bare categories": pandas.Categorical(values),
        "polars": polars.Series(values),
    }
    if isinstance(values[0], str):
        order = sorted({value for value in values if value is not None})
        kinds["enum"] = polars.Series(values, dtype=polars.Enum(order))
        kinds["categories of polars"] = polars.Series(values, dtype=polars.Categorical)
        kinds["text"] = pandas.Series(values, dtype="string")
        kinds["ordered"] = pandas.Categorical(values, order, ordered=True)
    return kinds


def _follow(x, y, num_classes):
    """Does what the messages say until the data are taken; returns them and what was said."""
    pandas = pytest.importorskip("pandas")
    scope = {"x": x, "y": y, "order": None, "jonline": jonline, "numpy": np, "pandas": pandas}
    said = []
    for _ in range(9):
        try:
            code = said[-1].partition("for example ")[2].replace("values", "y") if said else ""
            said += [] if code else [""]
            exec(code, scope)
            if "num_classes=len(order)" in said[-1]:
                num_classes = len(scope["order"])
            return from_arrays(scope["x"], scope["y"], num_classes), said[1:]
        except (TypeError, ValueError, RuntimeWarning) as error:
            assert "for example " in str(error)
            said.append(str(error))
    raise AssertionError(said)


@pytest.mark.parametrize("values", [[2, None, 1, 3], ["b", None, "a", "c"]])
def test_labels_of_every_kind_are_taken_once_the_messages_are_followed(values):
    for kind, y in _columns(values).items():
        data, said = _follow(X, y, 3)
        assert data.y.tolist() == [2, 1, 3], kind
        np.testing.assert_array_equal(data.x, X[[0, 2, 3]])
        assert any("row 1" in message for message in said), (kind, said)


def test_missing_labels_of_every_kind_are_dropped_and_the_rest_stay_what_they_are():
    for values in ([2, None, 1, 3], ["b", None, "a", "c"]):
        for kind, y in _columns(values).items():
            kept = drop_bad_rows(X, y)
            assert kept.num_dropped == 1, kind
            assert kind == "tuple" or type(kept.y) is type(y), kind
            assert encode_labels(kept.y, sorted({*values} - {None})).labels.tolist() == [2, 1, 3]
            with pytest.raises(ValueError, match=r"row 1 has value .*drop_bad_rows"):
                encode_labels(y, sorted({*values} - {None}))


@pytest.mark.parametrize(
    "y",
    [
        [0, 1, 2, 2],
        [1, 2, 3, 4],
        [1.5, 1, 2, 3],
        [np.inf, 1, 2, 3],
        np.array([0, 1, 2, 255], np.uint8),
        np.array([[1], [2], [3], [3]]),
        [[1], [2], [3], [3]],
        [[None], [2], [1], [3]],
        np.array([["b"], ["a"], ["b"], ["c"]]),
        ["b", 1, "a", 2],
        [b"x", b"y", b"x", b"y"],
        [True, False, True, True],
        np.ma.array([1, 2, 3, 3], mask=[0, 1, 0, 0]),
        np.ma.array(["a", "b", "c", "c"], mask=[0, 1, 0, 0]),
    ],
)
def test_following_the_messages_about_labels_leads_to_data(y):
    data, said = _follow(X, y, 3)
    assert said and data.num_classes >= 2


@pytest.mark.parametrize("y", [[0, 1, 0, 1], np.array([0, 1, 0, 1], np.uint8), [1, 2, 2, 1]])
def test_following_the_message_about_signs_leads_to_signs(y):
    data, said = _follow(X, y, None)
    assert len(said) == 1 and sorted(set(data.y.tolist())) == [-1, 1]


def test_following_the_messages_about_features_leads_to_data():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    sparse = pytest.importorskip("scipy.sparse")
    text = {"a": [1, 2, None, 4], "Sex": ["M", None, "F", "I"]}
    tables = [
        pandas.DataFrame(text),
        pandas.DataFrame(text).astype({"Sex": "category", "a": "Int64"}),
        pandas.DataFrame(text).rename(columns={"Sex": 3, "a": 1.5}),
        pandas.DataFrame(text).set_axis(["a", "a"], axis=1),
        pandas.DataFrame(text).set_axis(
            pandas.MultiIndex.from_tuples([("a", 1), ("b", 2)]), axis=1
        ),
        polars.DataFrame(text),
        polars.DataFrame(text, schema_overrides={"Sex": polars.Categorical}),
        sparse.csr_matrix(X),
        np.ma.array(X, mask=X == 3),
        np.ma.array(X.astype(int), mask=X == 3),
        [[1, None], [1, 2], [1, 2], [1, 2]],
        [[1, pandas.NA], [1, 2], [1, 2], [1, 2]],
        X[:, 0],
        X[:, 0].tolist(),
        pandas.Series(X[:, 0]),
        polars.Series(X[:, 0]),
        X + 1.7e9,
        pandas.DataFrame(X + 1.7e9),
    ]
    for x in tables:
        data, said = _follow(x, [1, 2, 3, 3], 3)
        assert said and len(data.x) >= 3


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


@pytest.mark.parametrize("wrap", [np.asarray, "pandas", "polars"])
def test_values_that_become_equal_in_float32_are_said_once_with_column_and_cure(wrap):
    times = np.array([1.7e9, 1.7e9 + 1, 1.7e9 + 60, 1.7e9])
    x = {"a": [0.0, 1, 2, 3], "time": times, "more": 2 * times}
    if wrap is np.asarray:
        x, label = np.stack([*x.values()], axis=1), "column 1 has"
    else:
        x, label = pytest.importorskip(wrap).DataFrame(x), "column 'time' has"
    with pytest.warns(RuntimeWarning, match=f"{label} 3 different values, 1 of them") as caught:
        assert np.ptp(from_arrays(x, Y, 3).x[:, 1]) == 0
    assert len(caught) == 1 and caught[0].filename == __file__
    from_arrays(standardise(x), Y, 3)
    with jax.enable_x64(True):
        assert len(np.unique(from_arrays(x, Y, 3).x[:, 1])) == 3


def test_times_of_a_shuffled_day_are_said():
    seconds = 1.7e9 + np.random.default_rng(0).permutation(86_400)
    with pytest.warns(RuntimeWarning, match="86400 different values, 67[0-9] of them"):
        from_arrays(seconds[:, None], np.ones(86_400), 2)


def test_ordinary_columns_are_not_said_to_lose_values():
    rng = np.random.default_rng(0)
    noise = 0.1 + 2e-17 * np.arange(2000)  # two or three neighbours in float64
    assert len(np.unique(noise)) > 1
    columns = [
        rng.normal(size=2000),
        rng.uniform(100, 101, 2000),
        rng.integers(0, 2**24, 2000).astype(float),
        1e-30 * rng.exponential(size=2000),
        noise,
        np.full(2000, 1 / 3),
        rng.integers(0, 3, 2000) / 3,
        np.where(rng.random(2000) < 0.5, 0, 1.7e9 + 128 * rng.integers(0, 9, 2000)),
    ]
    x = np.stack(columns, axis=1)
    binary = rng.integers(0, 2, (2000, 30)).astype(float)
    from_arrays(
        np.hstack([x, unit_rows(binary), binary @ rng.normal(size=(30, 3))]), np.ones(2000), 2
    )


def test_data_set_owns_its_arrays():
    for x, y in ((X.copy(), Y.copy()), (X.astype(np.float32), Y.astype(np.int32))):
        data = from_arrays(x, y, 3)
        kept = drop_bad_rows(x, y)
        x[:], y[:] = -7, -7
        for part in (data, kept):
            np.testing.assert_array_equal(part.x, X)
            np.testing.assert_array_equal(part.y, Y)
    x, y = jnp.asarray(X), jnp.asarray(Y)
    data = from_arrays(x, y, 3)
    x.delete(), y.delete()
    np.testing.assert_array_equal(data.x, X)
    np.testing.assert_array_equal(data.y, Y)


def test_masked_arrays_are_refused():
    masked = np.ma.array(X, mask=X == 3)
    for build in (from_arrays, drop_bad_rows):
        with pytest.raises(TypeError, match="x must be without a mask, got MaskedArray.*filled"):
            build(masked, Y)
        with pytest.raises(TypeError, match="y must be without a mask"):
            build(X, np.ma.array(Y))


@pytest.mark.parametrize("bad", [0, 4, -1, 1.5, np.nan, np.inf])
def test_label_outside_the_classes_is_named_with_row_value_and_encoder(bad):
    cure = "encode_labels" if np.isfinite(bad) else "drop_bad_rows"
    with pytest.raises(ValueError, match=rf"labels 1\.\.3, got {bad} in row 3; .*{cure}"):
        from_arrays(X, [1, 2, 3, bad], 3)


@pytest.mark.parametrize(
    ("x", "y", "num_classes", "error", "message"),
    [
        (X, ["low", "mid", "high", "low"], 3, TypeError, r"encode_labels\(y, order\)"),
        (X, Y[:3], 3, ValueError, "x has 4 rows but y has 3 labels"),
        (X, Y[:, None], 3, ValueError, r"\(4, 1\); for example y = numpy.ravel\(y\)"),
        (X[:, 0], Y, 3, ValueError, r"\(4,\); for a single feature, .*\[:, None\]"),
        (X[None], Y, 3, ValueError, r"shape \(N, n\), got \(1, 4, 2\)"),
        (X[:0], Y[:0], 3, ValueError, "at least one row"),
        ([["a", "b"]], [1], 3, TypeError, "x must hold numbers"),
        (X * 1j, Y, 3, TypeError, "x must hold numbers, got 0j in row 0, column 0"),
        (X, Y, 1, ValueError, "num_classes must be >= 2, got 1"),
        (X, Y, 3.0, TypeError, "num_classes must be a Python int"),
        (X, Y, True, TypeError, "num_classes must be a Python int"),
        ([[1, 2], [3]], [1, 2], 3, ValueError, "x must have rows of one length"),
        ({"a": [1, 2]}, [1, 2], 3, TypeError, "x must be an array or a table, got dict"),
        (X, iter([1]), 3, TypeError, "y must be an array or a table, got list_iterator"),
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
    with pytest.raises(ValueError, match="x has 4 rows but y has 2 labels"):
        drop_bad_rows(X, Y[:2])


def test_bad_rows_of_a_frame_are_dropped_as_a_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, np.nan, 3, 4], "b": [0, 1, 2, 3]})
    kept = drop_bad_rows(frame, pandas.Series(list("wxyz")))
    assert list(kept.x.columns) == ["a", "b"] and list(kept.y) == ["w", "y", "z"]
    assert kept.num_dropped == 1
