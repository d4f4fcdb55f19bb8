"""Streams and tables whose labels are vertices."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import streams
from jonline.data import multilabel_table, plackett_luce, query_rankings, van_der_hoeven
from jonline.data.synthetic.structured import _choose
from jonline.testing import check_stream


def _rounds(stream, key, num_rounds):
    source = jax.jit(stream.init)(key)
    return source, jax.jit(jax.vmap(stream.draw, (None, 0)))(source, jnp.arange(num_rounds))


def test_exactly_so_many_places_are_chosen_even_if_all_words_are_equal():
    words = jnp.stack([jnp.zeros(60, jnp.uint32), jnp.full(60, 2**32 - 1, jnp.uint32)])
    num_chosen = jnp.arange(1, 61)
    choose = jax.jit(jax.vmap(jax.vmap(_choose, (None, 0)), (0, None)))
    np.testing.assert_array_equal(choose(words, num_chosen).sum(-1), [num_chosen, num_chosen])


def test_every_place_is_chosen_as_often():
    num_rounds, n, m = 20_000, 60, 10
    words = jax.random.bits(jax.random.key(0), (num_rounds, n), jnp.uint32)
    chosen = np.asarray(jax.jit(jax.vmap(lambda w: _choose(w, m)))(words))
    assert (chosen.sum(1) == m).all()
    prob = m / n
    assert (np.abs(chosen.mean(0) - prob) < 5 * np.sqrt(prob * (1 - prob) / num_rounds)).all()
    pair = m * (m - 1) / (n * (n - 1))  # that two given places are chosen together
    together = (chosen[:, 0] & chosen[:, 59]).mean()
    assert abs(together - pair) < 5 * np.sqrt(pair * (1 - pair) / num_rounds)


@pytest.mark.parametrize(("K", "scale"), [(637, 1), (48, 2)])
def test_prototypes_are_distinct_and_have_the_right_number_of_ones(K, scale):
    init = van_der_hoeven(K, scale).init
    prototypes = np.asarray(jax.jit(jax.vmap(init))(jax.random.split(jax.random.key(1), 3)).vectors)
    assert prototypes.shape == (3, K, 10 * scale) and set(np.unique(prototypes)) == {0, 1}
    for run in prototypes:  # at scale 1, 637 are all there are
        assert len(np.unique(run, axis=0)) == K
    ones = prototypes.sum(-1)
    assert ones.min() >= scale and ones.max() <= 5 * scale
    assert not np.array_equal(prototypes[0], prototypes[1])


def test_numbers_of_ones_of_prototypes_are_uniform():
    scale, num_runs = 4, 8000
    init = van_der_hoeven(2, scale).init
    keys = jax.random.split(jax.random.key(2), num_runs)
    first = np.asarray(jax.jit(jax.vmap(init))(keys).vectors)[:, 0].sum(-1).astype(int)
    prob = 1 / (4 * scale + 1)
    frequency = np.bincount(first, minlength=5 * scale + 1)[scale:] / num_runs
    assert (np.abs(frequency - prob) < 5 * np.sqrt(prob * (1 - prob) / num_runs)).all()


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_features_are_the_prototype_of_the_class_before_noise_and_exactly_5n_bits(noise):
    K, scale, num_rounds = 6, 2, 20_000
    source, (x, y) = _rounds(van_der_hoeven(K, scale, noise=noise), jax.random.key(3), num_rounds)
    x, y, vectors = np.asarray(x), np.asarray(y), np.asarray(source.vectors)
    assert x.shape == (num_rounds, 40 * scale) and set(np.unique(x)) == {0, 1}
    assert (x[:, 10 * scale :].sum(1) == 5 * scale).all()
    assert (y.sum(1) == 1).all() and set(np.unique(y)) == {0, 1}
    agrees = (x[:, None, : 10 * scale] == vectors).all(-1)
    assert (agrees.sum(1) == 1).all()
    prob = np.full(K, 1 / K)
    for classes in (agrees, y):
        error = np.abs(classes.mean(0) - prob)
        assert (error < 5 * np.sqrt(prob * (1 - prob) / num_rounds)).all()
    wrong, rate = (agrees != (y == 1)).any(1).mean(), noise * (1 - 1 / K)
    assert abs(wrong - rate) <= 5 * np.sqrt(rate * (1 - rate) / num_rounds)


@pytest.mark.parametrize(
    ("stream", "num_features"), [(van_der_hoeven(5, 2, noise=0.2), 80), (plackett_luce(4, 7), 7)]
)
def test_stream_keeps_the_contract(stream, num_features):
    check_stream(stream, num_features)


def test_items_without_noise_are_in_the_order_of_the_teacher():
    m, n = 5, 8
    source, (x, y) = _rounds(plackett_luce(m, n, noise=0.0), jax.random.key(4), 500)
    utility = np.asarray(x, float) @ np.asarray(source.weights, float).T
    order = np.argsort(-utility, axis=1)  # the item at each place
    matrices = np.asarray(y).reshape(-1, m, m)
    np.testing.assert_array_equal(matrices.argmax(1), order)
    assert (matrices.sum(1) == 1).all() and (matrices.sum(2) == 1).all()
    assert y.dtype == x.dtype == jnp.float32
    assert abs((np.asarray(x) ** 2).sum(1).mean() - 1) < 5 * np.sqrt(2 / n / 500)


@pytest.mark.parametrize("noise", [1.0, 0.4])
def test_first_two_items_follow_plackett_and_luce(noise):
    m, num_rounds = 4, 20_000
    source, (x, y) = _rounds(plackett_luce(m, 3, noise=noise), jax.random.key(5), num_rounds)
    strength = np.exp(np.asarray(x, float) @ np.asarray(source.weights, float).T / noise)
    matrices = np.asarray(y, float).reshape(-1, m, m)
    left = 1 - matrices[:, :, 0]
    first = strength / strength.sum(1, keepdims=True)
    second = strength * left / (strength * left).sum(1, keepdims=True)
    for place, prob in enumerate((first, second)):
        excess = np.sum(matrices[:, :, place] - prob, axis=0)
        assert (np.abs(excess) < 5 * np.sqrt(np.sum(prob * (1 - prob), axis=0))).all()


def test_items_of_equal_utility_have_different_places():
    stream = plackett_luce(3, 2, noise=0.0)
    source = stream.init(jax.random.key(0))
    y = stream.draw(source._replace(weights=jnp.zeros((3, 2))), 0).y
    np.testing.assert_array_equal(y.reshape(3, 3), np.eye(3))


def test_noise_may_be_traced():
    def shape(make):
        return jax.eval_shape(lambda v: make(v).draw(make(v).init(jax.random.key(0)), 0), 0.1)

    assert shape(lambda v: van_der_hoeven(3, 1, noise=v)).y.shape == (3,)
    assert shape(lambda v: plackett_luce(3, 4, noise=v)).y.shape == (9,)


def test_multilabel_rows_have_exactly_m_labels_and_count_words():
    table = multilabel_table(150, 20, 10, 4, seed=1)
    assert table.x.shape == (150, 20) and table.y.shape == (150, 10)
    assert table.x.dtype == table.y.dtype == np.float32
    assert (table.y.sum(1) == 4).all() and set(np.unique(table.y)) == {0, 1}
    np.testing.assert_array_equal(table.x, np.floor(table.x))
    assert abs(table.x.sum(1).mean() - 50) < 5 * np.sqrt(50 / 150)  # lengths are Poisson(50)
    assert streams.epochs(table).draw(jax.random.key(0), 3).y.shape == (10,)


def test_multilabel_rows_are_the_first_of_a_longer_table_and_change_with_the_seed():
    short, long, other = (
        multilabel_table(n, 6, 5, 2, seed=s) for n, s in ((9, 3), (80, 3), (9, 4))
    )
    np.testing.assert_array_equal(short.x, long.x[:9])
    np.testing.assert_array_equal(short.y, long.y[:9])
    assert not np.array_equal(short.x, other.x)
    unit = multilabel_table(9, 6, 5, 2, seed=3, unit_norm=True)
    norm = np.linalg.norm(short.x, axis=1, keepdims=True)
    np.testing.assert_allclose(unit.x, short.x / norm, rtol=1e-6)
    np.testing.assert_array_equal(unit.y, short.y)


def test_multilabel_table_may_have_every_label():
    assert (multilabel_table(5, 4, 3, 3, seed=0).y == 1).all()


def test_multilabel_table_without_scikit_learn_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r'scikit-learn; .*pip install "jonline\[data\]"'):
        multilabel_table(5, 4, 3, 2, seed=0)


def test_documents_of_one_query_and_different_grades_are_ranked():
    grades = np.array([0, 0, 0, 1, 1, 2, 0, 1, 2, 2, 1, 1], np.uint8)
    groups = np.array([7, 7, 7, 7, 7, 7, 2, 2, 2, 2, 9, 9])
    x = np.stack([np.arange(12), grades, groups], axis=1)
    table = query_rankings(x, grades, groups, num_items=3, seed=0)
    assert table.x.shape == (2, 9) and table.x.dtype == table.y.dtype == np.float32
    documents = table.x.reshape(2, 3, 3)
    np.testing.assert_array_equal(documents[:, :, 2], [[2] * 3, [7] * 3])
    # row i of a matrix has its 1 in the column of the place, the highest grade at place 0
    np.testing.assert_array_equal(table.y.reshape(2, 3, 3).argmax(2), 2 - documents[:, :, 1])
    pairs = query_rankings(x, grades, groups, num_items=2, seed=0)
    used = pairs.x.reshape(-1, 3)[:, 0]
    assert len(pairs.x) == 5 and len(np.unique(used)) == 10  # 3 of query 7, 2 of 2, 0 of 9
    assert streams.one_pass(table).draw(jnp.arange(2), 0).y.shape == (9,)


def test_documents_stand_in_an_order_that_the_seed_fixes():
    grades, groups = np.tile([0, 1, 2], 400), np.repeat(np.arange(400), 3)
    x = grades[:, None]
    table, again, other = (query_rankings(x, grades, groups, seed=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(table.x, again.x)
    assert not np.array_equal(table.x, other.x)
    _, counts = np.unique(table.y, axis=0, return_counts=True)
    prob = 1 / 6
    assert (np.abs(counts / 400 - prob) < 5 * np.sqrt(prob * (1 - prob) / 400)).all()
    assert len(counts) == 6


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: van_der_hoeven(1, 2), ValueError, "num_classes must be >= 2"),
        (lambda: van_der_hoeven(638, 1), ValueError, "at most 637, .* scale=1, got 638"),
        (lambda: van_der_hoeven(3, 0), ValueError, "scale must be >= 1"),
        (lambda: van_der_hoeven(3, 1.5), TypeError, "scale must be a Python int"),
        (lambda: van_der_hoeven(3, 1, noise=1.1), ValueError, r"noise must be in \[0, 1\]"),
        (lambda: plackett_luce(1, 2), ValueError, "num_items must be >= 2"),
        (lambda: plackett_luce(2, 0), ValueError, "num_features must be >= 1"),
        (lambda: plackett_luce(2, 2, noise=-1.0), ValueError, "noise must be >= 0"),
        (lambda: multilabel_table(0, 2, 2, 1, seed=0), ValueError, "num_rows must be >= 1"),
        (lambda: multilabel_table(1, 2, 3, 4, seed=0), ValueError, "num_labels = 3, got 4"),
        (lambda: multilabel_table(1, 2, 3, 0, seed=0), ValueError, "subset_size must be >= 1"),
        (lambda: multilabel_table(1, 2, 3, 2, seed=2**32), ValueError, r"seed must be < 2\^32"),
        (lambda: query_rankings([[1.0]], [1], [1]), ValueError, "at most 1, .* got 3"),
        (lambda: query_rankings([[1.0]], [1, 2], [1]), ValueError, r"got \(1, 1\), \(2,\)"),
        (lambda: query_rankings([[np.nan]], [1], [1]), ValueError, "x must be finite"),
        (lambda: query_rankings([[1.0]], [1], [1], num_items=1), ValueError, "must be >= 2"),
    ],
)
def test_wrong_argument_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
