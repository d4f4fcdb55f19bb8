"""Synthetic streams."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline.data import crammer_singer, linear_teacher, plackett_luce, van_der_hoeven


def _rounds(stream, key, num_rounds):
    source = jax.jit(stream.init)(key)
    return source, jax.jit(jax.vmap(stream.draw, (None, 0)))(source, jnp.arange(num_rounds))


def test_score_without_noise_is_cut_at_the_papers_thresholds():
    _, (x, y) = _rounds(crammer_singer(noise=0.0), jax.random.key(0), 1000)
    score = 10 * (x[:, 0] - 0.5) * (x[:, 1] - 0.5)
    edges = np.array([-1, -0.1, 0.25, 1], np.float32)
    np.testing.assert_array_equal(y, 1 + np.sum(np.asarray(score)[:, None] > edges, axis=1))


def test_class_frequencies_are_those_of_crammer_and_singer():
    num_rounds = 100_000
    _, (x, y) = _rounds(crammer_singer(), jax.random.key(1), num_rounds)
    prob = np.array([0.11832, 0.31107, 0.22838, 0.22391, 0.11832])  # by quadrature
    sigma = np.sqrt(prob * (1 - prob) / num_rounds)
    frequency = np.bincount(y, minlength=6)[1:] / num_rounds
    assert (np.abs(frequency - prob) < 4 * sigma).all()
    assert x.min() >= 0 and x.max() <= 1 and y.dtype == jnp.int32


@pytest.mark.parametrize("stream", [crammer_singer(), linear_teacher(3, 4, margin=0.1)])
def test_a_round_is_the_same_whenever_it_is_drawn(stream):
    source, (x, y) = _rounds(stream, jax.random.key(2), 20)
    draw = jax.jit(stream.draw)
    for t in (13, 2, 13):
        example = draw(source, t)
        # a batched draw may round the last bit differently from a single one
        np.testing.assert_allclose(example.x, x[t], rtol=1e-5, atol=1e-6)
        assert example.y == y[t]
    other = draw(jax.jit(stream.init)(jax.random.key(3)), 13)
    assert not np.array_equal(other.x, x[13])


@pytest.mark.parametrize(("n", "K", "margin"), [(1, 2, 0.3), (2, 5, 0.0), (10, 4, 0.2)])
def test_teacher_separates_its_stream_with_the_margin(n, K, margin):
    teacher, (x, y) = _rounds(linear_teacher(n, K, margin=margin), jax.random.key(4), 2000)
    w, b = np.asarray(teacher.weights, float), np.asarray(teacher.thresholds, float)
    assert abs(np.linalg.norm(w) - 1) < 1e-6 and (np.diff(b) > 0).all()
    gap = np.asarray(x, float) @ w - b[:, None]
    sign = np.where(np.asarray(y) > np.arange(1, K)[:, None], 1, -1)
    assert (sign * gap > margin - 1e-5).all()  # float32 scores of order 1
    norm = np.linalg.norm(x, axis=1)
    assert norm.max() < 1 + 1e-5 and (n == 1 or norm.min() > 1 - 1e-5)
    sigma = np.sqrt((1 / K) * (1 - 1 / K) / len(y))
    assert (np.abs(np.bincount(y, minlength=K + 1)[1:] / len(y) - 1 / K) < 5 * sigma).all()


def test_noise_and_margin_may_be_traced():
    def shape(make):
        return jax.eval_shape(lambda v: make(v).draw(make(v).init(jax.random.key(0)), 0), 0.1)

    assert shape(lambda v: crammer_singer(noise=v)).x.shape == (2,)
    assert shape(lambda v: linear_teacher(3, 4, margin=v)).x.shape == (3,)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: crammer_singer(noise=-1.0), ValueError, "noise must be >= 0"),
        (lambda: linear_teacher(0, 3), ValueError, "num_features must be >= 1"),
        (lambda: linear_teacher(2, 1), ValueError, "num_classes must be >= 2"),
        (lambda: linear_teacher(2.0, 2), TypeError, "num_features must be a Python int"),
        (lambda: linear_teacher(2, 4, margin=0.25), ValueError, r"\[0, 0\.25\), got 0.25"),
        (lambda: linear_teacher(2, 4, margin=-0.1), ValueError, "margin must be in"),
    ],
)
def test_wrong_argument_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    "build",
    [
        lambda v: crammer_singer(noise=v),
        lambda v: linear_teacher(3, 4, margin=v),
        lambda v: van_der_hoeven(3, 1, noise=v),
        lambda v: plackett_luce(3, 4, noise=v),
    ],
)
def test_stream_does_not_change_with_the_callers_array(build):
    value = np.array(0.2, np.float32)
    stream = build(value)
    source = jax.eval_shape(stream.init, jax.random.key(0))

    def program():
        return str(jax.make_jaxpr(lambda *args: stream.draw(*args))(source, 0))

    before = program()
    value[()] = 0.1
    assert program() == before


def test_counts_of_streams_may_be_integers_of_numpy():
    for build, counts in (
        (linear_teacher, (100, 100)),
        (van_der_hoeven, (100, 8)),
        (plackett_luce, (16, 100)),
    ):
        shapes = []
        for kind in (int, np.int8):
            stream = build(*map(kind, counts))
            source = jax.eval_shape(stream.init, jax.random.key(0))
            shapes.append((source, jax.eval_shape(stream.draw, source, 0)))
        assert shapes[0] == shapes[1]
