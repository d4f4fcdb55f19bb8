"""Discretisation, scaling, and label codes."""

from functools import partial

import numpy as np
import pytest

from jonline.data import (
    by_edges,
    by_multiples,
    decode_labels,
    divided,
    encode_labels,
    encode_signs,
    equal_frequency,
    from_arrays,
    min_max,
    multilabel_table,
    query_rankings,
    standardise,
    unit_indicators,
    unit_rows,
    unscaled,
)


def test_intervals_are_closed_on_the_right():
    np.testing.assert_array_equal(
        by_edges([1, 7, 8, 9, 10, 12, 13], [7, 9, 12]), [1, 1, 2, 2, 3, 3, 4]
    )


@pytest.mark.parametrize(("num_values", "num_classes"), [(20, 10), (23, 10), (7, 7), (101, 3)])
def test_equal_frequency_sizes_differ_by_at_most_one(num_values, num_classes):
    values = np.random.default_rng(0).permutation(num_values)
    counts = np.bincount(equal_frequency(values, num_classes), minlength=num_classes + 1)[1:]
    assert len(counts) == num_classes and np.ptp(counts) <= 1


def test_equal_values_get_the_lowest_label_and_leave_the_next_empty():
    np.testing.assert_array_equal(
        equal_frequency([0, 0, 0, 1, 2, 3, 4, 5, 6, 7], 5), [1, 1, 1, 2, 3, 3, 4, 4, 5, 5]
    )
    np.testing.assert_array_equal(
        equal_frequency([0, 0, 0, 0, 0, 3, 4, 5, 6, 7], 5), [1, 1, 1, 1, 1, 3, 4, 4, 5, 5]
    )


def test_equal_frequency_keeps_the_order_of_values():
    values = np.random.default_rng(1).integers(0, 30, 500)
    labels = equal_frequency(values, 10)
    order = np.argsort(values, kind="stable")
    assert (np.diff(labels[order]) >= 0).all()


def test_multiples_are_numbered_from_the_lowest_one_and_begin_their_class():
    np.testing.assert_array_equal(by_multiples([7.0, 9.9, 10.0, 54.992], 5), [1, 1, 2, 10])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: by_edges([1, np.nan], [0]), "must be finite, got nan in row 1"),
        (lambda: by_edges([1], [2, 1]), "edges must be"),
        (lambda: by_edges([[1]], [2]), r"shape \(N,\)"),
        (lambda: equal_frequency([1, 2], 3), "num_classes=3 is more than the 2 values"),
        (lambda: equal_frequency([1, 2], 1), "num_classes must be >= 2"),
        (lambda: by_multiples([1, 2], 0), "step must be > 0"),
        (lambda: standardise([1, 2]), r"x must have shape \(N, n\)"),
    ],
)
def test_wrong_values_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_standardised_columns_have_mean_0_and_std_1_and_constants_become_0():
    x = np.random.default_rng(2).normal(5, 3, (100, 3))
    x[:, 1] = 0.1  # 0.1 has a std of 1e-17 in floating point
    z = standardise(x)
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-12)  # rounding of 100 terms of order 1
    np.testing.assert_allclose(z.std(0), [1, 0, 1], atol=1e-12)
    np.testing.assert_array_equal(z[:, 1], 0)


def test_min_max_columns_fill_0_to_1_and_constants_become_0():
    np.testing.assert_array_equal(
        min_max([[2, 7, 1], [4, 7, 0], [3, 7, 0]]), [[0, 0, 1], [1, 0, 0], [0.5, 0, 0]]
    )


def test_unit_rows_have_norm_1_and_zero_rows_stay_0():
    np.testing.assert_array_equal(unit_rows([[3, 4], [0, 0]]), [[0.6, 0.8], [0, 0]])
    np.testing.assert_array_equal(unscaled([[3, 4]]), [[3, 4]])


@pytest.mark.parametrize(
    ("values", "order", "labels"),
    [
        ([3, 7, 5, 3], None, [1, 3, 2, 1]),
        ([0, 2, 1], None, [1, 3, 2]),
        (["mid", "low", "high", "low"], ["low", "mid", "high"], [2, 1, 3, 1]),
        ([3, 7, 5], [7, 5, 3], [3, 1, 2]),
        ([0.5, 5.0], np.arange(1, 11) / 2, [1, 10]),
        ([0.5, 1, 0], None, [2, 3, 1]),
        ([None, "b"], [None, "b"], [1, 2]),
    ],
)
def test_labels_round_trip(values, order, labels):
    code = encode_labels(values, order)
    np.testing.assert_array_equal(code.labels, labels)
    np.testing.assert_array_equal(decode_labels(code.labels, code.order), values)
    from_arrays(np.zeros((len(values), 1)), code.labels, len(code.order))


@pytest.mark.parametrize(
    ("values", "order", "labels"),
    [([0, 1, 1], None, [-1, 1, 1]), ([True, False], None, [1, -1]), (["no", "yes"], ["yes", "no"],
     [1, -1]), ([-1.0, 1.0], None, [-1, 1])],
)  # fmt: skip
def test_two_values_become_signs(values, order, labels):
    code = encode_signs(values, order)
    np.testing.assert_array_equal(code.labels, labels)
    assert code.labels.dtype == np.int32
    assert [code.order[(label + 1) // 2] for label in code.labels] == list(values)
    from_arrays(np.zeros((len(values), 1)), code.labels)


def test_values_and_order_stay_what_they_are():
    order = [(1, 2), (1,), "1", 1]
    code = encode_labels([1, "1", (1,)], order)
    assert code.order == tuple(order) and code.labels.tolist() == [4, 3, 2]
    assert decode_labels(code.labels, code.order).tolist() == [1, "1", (1,)]
    assert decode_labels([1, 2], (1, 2)).dtype.kind == "i"


def test_ordered_categories_know_their_order():
    pandas = pytest.importorskip("pandas")
    values = pandas.Categorical(["mid", "low", "mid"], ["low", "mid", "high"], ordered=True)
    for kind in (values, pandas.Series(values)):
        code = encode_labels(kind)
        assert code.order == ("low", "mid", "high") and code.labels.tolist() == [2, 1, 2]
    assert encode_labels(values, ["mid", "low"]).labels.tolist() == [1, 2, 1]
    with pytest.raises(ValueError, match="order must be given"):
        encode_labels(pandas.Series(["mid", "low"], dtype="category"))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: encode_labels(["mid", "low"]),
            ValueError,
            r"order must be given, .* put these in order, for example order = \['low', 'mid'\]",
        ),
        (lambda: encode_labels(["a", "z"], ["a", "b"]), ValueError, "row 1 has value 'z'"),
        (lambda: encode_labels([1, np.nan, 2]), ValueError, "row 1 has value nan"),
        (lambda: encode_labels([1, 1]), ValueError, "at least 2 values"),
        (lambda: encode_labels(["a"], ["a", "b", "a"]), ValueError, "each once"),
        (lambda: encode_labels([[1, 2]]), ValueError, r"shape \(N,\)"),
        (lambda: encode_labels(np.ones((2, 2))), ValueError, r"shape \(N,\)"),
        (lambda: encode_labels(3), ValueError, r"shape \(N,\)"),
        (lambda: encode_labels([[1], [2, 3]]), ValueError, r"shape \(N,\)"),
        (lambda: encode_labels([1], [[1], [2]]), ValueError, r"order must have shape \(K,\)"),
        (lambda: encode_signs([0, 1, 2]), ValueError, r"order must have 2 values, .* \[0, 1, 2\]"),
        (lambda: encode_signs([1, 1]), ValueError, "at least 2 values"),
        (lambda: decode_labels([0], "ab"), ValueError, r"in 1\.\.2, got 0"),
        (lambda: decode_labels([3], "ab"), ValueError, r"in 1\.\.2, got 3"),
        (lambda: decode_labels([1.0], "ab"), TypeError, "must be integers"),
    ],
)
def test_wrong_labels_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("dtype", [float, np.float32, int])
def test_results_are_not_the_callers_arrays(dtype):
    x = np.array([[3, 4], [0, 2], [3, 2]], dtype)
    y = np.array([1, 2, 1], dtype)
    calls = [
        unscaled,
        standardise,
        min_max,
        unit_rows,
        unit_indicators,
        partial(divided, divisor=2),
        lambda x: by_edges(x[:, 0], [1]),
        lambda x: equal_frequency(x[:, 0], 2),
        lambda x: by_multiples(x[:, 0], 1),
        lambda x: encode_labels(y).labels,
        lambda x: encode_signs(y).labels,
        lambda x: decode_labels(np.array([1, 2, 1]), y[:2]),
        lambda x: query_rankings(x, y, [1, 1, 1], num_items=2).x,
        lambda x: query_rankings(x, y, [1, 1, 1], num_items=2).y,
    ]
    for call in calls:
        result = call(x)
        assert not np.shares_memory(result, x) and not np.shares_memory(result, y)
        result[:] = 0
    assert x.tolist() == [[3, 4], [0, 2], [3, 2]] and y.tolist() == [1, 2, 1]


@pytest.mark.parametrize("scale", [unscaled, standardise, min_max, unit_rows, unit_indicators])
def test_scalings_take_frames_and_name_what_is_not_finite_or_no_number(scale):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": pandas.array([1, 2, 4], dtype="Int64"), "b": [0.5, 1, 0]})
    np.testing.assert_array_equal(scale(table), scale([[1, 0.5], [2, 1], [4, 0]]))
    with pytest.raises(ValueError, match="x must be finite, got nan in row 1, column 0"):
        scale(table.replace(2, pandas.NA))
    with pytest.raises(TypeError, match=r"x must hold numbers, got 'u' in row 0, column 1 \('c'\)"):
        scale(table[["a"]].assign(c=list("uvw")))


INTEGERS = [np.uint8, np.int8, np.uint32, np.int64]


@pytest.mark.parametrize("kind", INTEGERS)
def test_counts_may_be_integers_of_numpy(kind):
    values = np.arange(300.0)
    np.testing.assert_array_equal(equal_frequency(values, kind(100)), equal_frequency(values, 100))
    data = from_arrays(values[:, None], 1 + values % 100, kind(100))
    assert type(data.num_classes) is int
    grades, groups = np.tile([0, 1, 2], 3), np.repeat(range(3), 3)
    pairs = [
        query_rankings(grades[:, None], grades, groups, num_items=n(2), seed=n(3))
        for n in (int, kind)
    ]
    pairs += [multilabel_table(n(5), n(4), n(3), n(2), seed=n(7)) for n in (int, kind)]
    for i in (0, 2):
        np.testing.assert_array_equal(pairs[i].x, pairs[i + 1].x)
        np.testing.assert_array_equal(pairs[i].y, pairs[i + 1].y)


@pytest.mark.parametrize("bad", [True, np.True_, 2.0, np.float64(2), "2"])
def test_counts_that_are_no_integers_are_named(bad):
    for call in (
        lambda: equal_frequency([1, 2], bad),
        lambda: query_rankings([[1]], [1], [1], num_items=bad),
        lambda: query_rankings([[1]], [1], [1], seed=bad),
        lambda: multilabel_table(bad, 1, 2, 1, seed=0),
        lambda: multilabel_table(1, 1, 2, 1, seed=bad),
    ):
        with pytest.raises(TypeError, match="must be a Python int"):
            call()
