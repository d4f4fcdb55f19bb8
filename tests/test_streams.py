import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import sampling, streams
from jonline.core import Example
from jonline.data import Dataset
from tests.games import table


def rows(stream, num_rounds, key=0):
    """Row numbers that a stream over `numbered` shows."""
    source = stream.init(jax.random.key(key))
    return (
        np.asarray(jax.jit(jax.vmap(lambda t: stream.draw(source, t).y))(jnp.arange(num_rounds)))
        - 1
    )


def numbered(num_rows):
    """A table whose label is its row number, counted from 1."""
    return Example(np.zeros((num_rows, 2), np.float32), np.arange(1, num_rows + 1, dtype=np.int32))


@pytest.mark.parametrize("bound", [1, 2, 3, 20_640, 65_535, 65_536, 65_537, 2**31 - 1])
def test_uniform_index_is_the_high_word_of_the_product(bound):
    words = np.random.default_rng(0).integers(0, 2**32, 1000, dtype=np.uint64)
    words = np.concatenate([words, np.array([0, 1, 2**16, 2**32 - 1], np.uint64)])
    expected = (words * np.uint64(bound)) >> np.uint64(32)
    index = sampling.uniform_index(jnp.asarray(words.astype(np.uint32)), bound)
    np.testing.assert_array_equal(index, expected.astype(np.int64))


def test_resample_draws_every_row_equally_often():
    num_rows, draws = 20, 40_000
    counts = np.bincount(rows(streams.resample(numbered(num_rows)), draws), minlength=num_rows)
    sigma = np.sqrt(draws / num_rows * (1 - 1 / num_rows))
    assert np.abs(counts - draws / num_rows).max() < 5 * sigma


@pytest.mark.parametrize("num_rows", [1, 2, 3, 17, 64, 100])
def test_one_pass_and_epochs_show_every_row_once_a_pass(num_rows):
    for stream in (streams.one_pass(numbered(num_rows)), streams.epochs(numbered(num_rows))):
        seen = rows(stream, 3 * num_rows).reshape(3, num_rows)
        np.testing.assert_array_equal(np.sort(seen), np.tile(np.arange(num_rows), (3, 1)))


def test_one_pass_repeats_its_order_and_epochs_do_not():
    once = rows(streams.one_pass(numbered(50)), 100).reshape(2, 50)
    np.testing.assert_array_equal(once[0], once[1])
    fresh = rows(streams.epochs(numbered(50)), 100).reshape(2, 50)
    assert not np.array_equal(fresh[0], fresh[1])


def test_one_pass_as_stored_keeps_the_order_of_the_rows():
    stored = rows(streams.one_pass(numbered(5), shuffle=False), 7)
    np.testing.assert_array_equal(stored, [0, 1, 2, 3, 4, 0, 1])


def test_epochs_put_every_row_in_every_place_equally_often():
    num_rows, runs = 7, 3000
    stream = streams.epochs(numbered(num_rows))
    firsts = jax.jit(jax.vmap(lambda key: stream.draw(key, 0).y))(
        jax.random.split(jax.random.key(1), runs)
    )
    counts = np.bincount(firsts - 1, minlength=num_rows)
    sigma = np.sqrt(runs / num_rows * (1 - 1 / num_rows))
    assert np.abs(counts - runs / num_rows).max() < 5 * sigma


def test_example_is_the_row():
    data = table()
    stream = streams.epochs(data)
    example = stream.draw(stream.init(jax.random.key(0)), 3)
    row = np.flatnonzero((data.x == np.asarray(example.x)).all(axis=1))
    assert data.y[row[0]] == example.y


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros((0, 2)), np.zeros(0, int), "data must have at least one row"),
        (np.zeros((3, 2)), np.zeros(2, int), "data.x has 3 rows and data.y 2"),
        (np.zeros((3, 2)), np.array([1, 2, 5]), "labels must be in 1…4, got 5 in row 2"),
        (np.zeros((3, 2)), np.array([1, 0, 2]), r"got 0 in row 1; jonline.data.encode_labels"),
    ],
)
def test_bad_data_are_errors(x, y, message):
    for stream in (streams.resample, streams.one_pass, streams.epochs):
        with pytest.raises(ValueError, match=message):
            stream(Dataset(x, y, 4))


@pytest.mark.parametrize("labels", [[0, 1, 2], [3, -1, 1], [1, 0, 1], [-1, 1, 0], [2, 1, -7]])
@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray])
def test_whole_labels_of_a_plain_pair_that_no_learner_counts_from_are_errors(labels, kind):
    value = next(label for label in labels if label < 1)
    message = f"be 1…K, or -1 and 1, got {value} in row {labels.index(value)}; .*encode_labels"
    for stream in (streams.resample, streams.one_pass, streams.epochs):
        with pytest.raises(ValueError, match=message):
            stream(Example(np.zeros((3, 2)), kind(labels)))


@pytest.mark.parametrize(
    "labels", [[1, 2, 9], [-1, 1, 1], [-1, -1, -1], [0.0, 1.0, 2.5], [False, True, True], np.eye(3)]
)
def test_labels_of_the_three_kinds_and_of_ones_own_are_taken(labels):
    for stream in (streams.resample, streams.one_pass, streams.epochs):
        stream(Example(np.zeros((3, 2)), np.asarray(labels)))


@pytest.mark.parametrize("bad", [0, 5, 1.5, np.nan])
def test_label_that_is_none_of_the_classes_is_an_error_as_a_float_too(bad):
    with pytest.raises(ValueError, match=f"labels must be in 1…4, got {float(bad)} in row 1"):
        streams.resample(Dataset(np.zeros((2, 1)), np.array([4, bad], float), 4))


@pytest.mark.parametrize("data", [[1, 2], {"x": 1, "y": 2}, None])
def test_data_of_another_kind_are_an_error(data):
    for stream in (streams.resample, streams.one_pass, streams.epochs):
        with pytest.raises(TypeError, match=f"data must have .x and .y.*got {type(data).__name__}"):
            stream(data)
