"""Learners written by other people's habits, against a plain Python loop, and their bits.

`update(state, x, y) -> state` is all of a stranger. It is played through the public engine and
compared with the loop that anyone would write; then its bits are compared alone, in a wider sweep,
and with answers that are as late as in the round itself.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

import jonline
from jonline import Environment, Learner, Stream, delays, oracles
from jonline.core import Example

T = 12
ROWS = 16


class Shown(NamedTuple):
    """What is played, and what else a learner takes from `predict` to `update`."""

    output: jax.Array
    seen: Any


class Stranger(NamedTuple):
    """A learner's `init() -> state` and `update(state, x, y, seen) -> state`.

    `seen(state, x)` is what it takes with it from `predict`. Examples are x (features,), y int32.
    """

    init: Callable[[], Any]
    update: Callable[..., Any]
    features: int
    seen: Callable[[Any, Any], Any] = lambda state, x: ()


def table(features: int) -> Example:
    rng = np.random.default_rng(features)
    x = rng.normal(size=(ROWS, features)) / np.sqrt(features)
    return Example(x.astype(np.float32), rng.integers(0, 3, ROWS).astype(np.int32))


def in_order(data: Example) -> Stream:
    """All lanes see the same example."""
    return Stream(lambda key: key, lambda key, t: jax.tree.map(lambda a: a[t % ROWS], data))


def by_seed(data: Example) -> Stream:
    def draw(key, t):
        i = jax.random.randint(jax.random.fold_in(key, t), (), 0, ROWS)
        return jax.tree.map(lambda leaf: leaf[i], data)

    return Stream(lambda key: key, draw)


def make(stranger: Stranger, stream: Callable, delay: Any = None) -> Callable:
    def made(point, data):
        def predict(state, x, key):
            return Shown(jnp.int32(0), stranger.seen(state, x))

        def update(state, x, prediction, feedback, key):
            return stranger.update(state, x, feedback.value, prediction.seen)

        learner = Learner(lambda key: stranger.init(), predict, update)
        return learner, Environment(stream(data), oracles.label(), delay)

    return made


def no_metrics(*args):
    return {}


def played(stranger: Stranger, stream: Callable, delay: Any = None, seeds: int = 2) -> Any:
    result = jonline.sweep(
        make(stranger, stream, delay), no_metrics, {}, data=table(stranger.features),
        num_rounds=T, num_seeds=seeds, key=0, record_every=T,
    )  # fmt: skip
    return jax.tree.map(lambda leaf: np.asarray(leaf)[0, 1], result.states)


def by_hand(stranger: Stranger, stream: Callable) -> Any:
    """The loop that anyone would write, of the examples that seed 1 sees."""
    data = table(stranger.features)
    examples = jonline.trace(
        make(stranger, stream), {}, data=data, key=0, seed=1, first=0, last=T
    ).example
    state = jax.tree.map(jnp.asarray, stranger.init())
    step = jax.jit(lambda s, x, y: stranger.update(s, x, y, stranger.seen(s, x)))
    for x, y in zip(examples.x, examples.y, strict=True):
        state = step(state, x, y)
    return state


def check_values(stranger: Stranger, stream: Callable, rtol: float = 1e-4) -> Any:
    found, expected = played(stranger, stream), by_hand(stranger, stream)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        if not jnp.issubdtype(a.dtype, jnp.inexact):
            np.testing.assert_array_equal(a, b)
            continue
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        # T rounds in float32, whose sums run in other orders; bfloat16 has 2^-8
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(1.0, np.abs(b).max(initial=0)))
    return found


def check_bits(stranger: Stranger, stream: Callable, found: Any = None) -> None:
    found = played(stranger, stream) if found is None else found
    zeros = np.zeros(T, int)
    others = dict(
        wider=played(stranger, stream, seeds=23),
        fixed=played(stranger, stream, delays.fixed(0)),
        longer=played(stranger, stream, delays.fixed(jnp.int32(0), max_rounds=2)),
        table=played(stranger, stream, delays.table(zeros, max_rounds=2)),
    )
    for name, other in others.items():
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(other), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)


def softmax(n, k):
    """Softmax regression by `jax.grad`, the natural way to write a learner."""

    def loss(W, x, y):
        return -jax.nn.log_softmax(W @ x)[y]

    return Stranger(
        lambda: jnp.zeros((k, n)), lambda W, x, y, _: W - 0.1 * jax.grad(loss)(W, x, y), n
    )


def with_einsum(n, k):
    def update(state, x, y, _):
        W, A = state
        score = jnp.einsum("kn,n->k", W, x) - jax.nn.one_hot(y, k)
        A = 0.9 * A + jnp.einsum("i,j->ij", x, x)
        W = W - 0.1 * jnp.einsum("k,n,nm->km", score, x, A)
        return W, A

    return Stranger(lambda: (jnp.zeros((k, n)), jnp.eye(n)), update, n)


def with_tensordot(n, k):
    def update(W, x, y, _):
        X = jnp.stack([x, x[::-1]])
        scores = jnp.tensordot(W, X, axes=([1], [1]))
        full = jnp.tensordot(scores, X, axes=1)
        return 0.9 * W - 0.1 * full + 0.01 * jnp.tensordot(jnp.ones(k), x, axes=0) * y

    return Stranger(lambda: jnp.ones((k, n)), update, n)


def with_vmap(n, k):
    def update(W, x, y, _):
        def one(row, label):
            margin = jnp.where(label == y, 1.0, -1.0) * jnp.dot(row, x)
            return row + jnp.where(margin < 1, 0.1, 0.0) * x / (1 + jnp.vdot(x, x))

        return jax.vmap(one)(W, jnp.arange(k))

    return Stranger(lambda: jnp.zeros((k, n)), update, n)


def with_at(n, k):
    def update(state, x, y, _):
        W, counts, last = state
        counts = counts.at[y].add(1)
        W = W.at[y].add(x / counts[y]).at[:, 0].set(0.5).at[y % k, -1].multiply(1.5)
        return W, counts, last.at[counts[y] % 4].set(jnp.sum(x))

    return Stranger(
        lambda: (jnp.zeros((max(k, 3), n)), jnp.zeros(3, jnp.int32), jnp.zeros(4)), update, n
    )


def with_branches(n, k):
    def update(state, x, y, _):
        W, t = state
        score = W @ x
        W = lax.cond(
            score[0] > 0,
            lambda W: W - 0.1 * jnp.outer(score, x) / (1 + x @ x),
            lambda W: W * 0.9 + x,
            W,
        )
        W = lax.switch(y, [lambda W: W + 0.1, lambda W: W * 1.01 + x, lambda W: W - x * 0.3], W)
        W = lax.cond(t % 3 == 0, lambda W: W / (t + 1.0), lambda W: W + 1 / jnp.sqrt(t + 1.0), W)
        return W, t + 1

    return Stranger(lambda: (jnp.zeros((k, n)), jnp.int32(0)), update, n)


def with_loops(n, k):
    def update(state, x, y, _):
        W, count = state

        def body(carry, row):
            total = jax.jit(lambda a, b: a * b)(carry, 0.5) + row @ x
            return total, row - 0.1 * total * x

        total, W = lax.scan(body, jnp.float32(0), W, reverse=True)
        W = lax.fori_loop(0, y, lambda i, W: W * 0.9 + x / (i + 3.0), W)
        W = lax.map(lambda row: row / (1 + jnp.sum(row**2)), W)
        steps = lax.while_loop(
            lambda s: s[1] > 0.5, lambda s: (s[0] + 1, s[1] * 0.5), (count, jnp.abs(total))
        )
        W = lax.scan(lambda W, _: (W * 1.01 + x, None), W, length=2)[0]
        return W, steps[0]

    return Stranger(lambda: (jnp.zeros((k, n)), jnp.int32(0)), update, n)


def with_linalg(n, k):
    """Online ridge regression, by the factor and by the inverse."""

    def update(state, x, y, _):
        A, b, P = state
        A, b = A + jnp.outer(x, x), b + x * y
        w = jnp.linalg.solve(A, b)
        L = jnp.linalg.cholesky(A)
        v = jax.scipy.linalg.solve_triangular(L, x, lower=True)
        Px = P @ x
        P = P - jnp.outer(Px, Px) / (1 + x @ Px)
        return A, b + 0.01 * w + 0.01 * v, 0.5 * P + 0.5 * jnp.linalg.inv(A)

    return Stranger(lambda: (jnp.eye(n), jnp.zeros(n), jnp.eye(n)), update, n)


def with_sorting(n, k):
    def update(w, x, y, _):
        order = jnp.argsort(x)
        values, where = lax.top_k(jnp.abs(x), min(3, n))
        ranks = jnp.searchsorted(jnp.sort(w), x)
        w = w[order] * 0.9 + jnp.cumsum(jnp.sort(x)) * 0.1
        return w.at[where].add(values) + 0.01 * ranks + jnp.median(x)

    return Stranger(lambda: jnp.zeros(n), update, n)


def with_convolution(n, k):
    def update(state, x, y, _):
        kernel, w = state
        out = jnp.convolve(x, kernel, mode="same")
        image = lax.conv_general_dilated(out[None, None], kernel[None, None], (1,), "SAME")[0, 0]
        grad = jax.grad(lambda h: jnp.sum(jnp.convolve(x, h, mode="same") ** 2))(kernel)
        return 0.9 * kernel - 0.01 * grad / (1 + jnp.abs(grad)), 0.9 * w + image + y

    return Stranger(lambda: (jnp.ones(min(3, n)) / 3, jnp.zeros(n)), update, n)


def with_fourier(n, k):
    def update(state, x, y, _):
        real, imaginary, w = state
        z = lax.complex(0.9 * real, 0.9 * imaginary) + jnp.fft.fft(x + w) / (1 + jnp.abs(real))
        return z.real, z.imag, 0.5 * w + 0.1 * jnp.fft.ifft(z).real + y

    return Stranger(lambda: (jnp.zeros(n), jnp.zeros(n), jnp.zeros(n)), update, n)


def with_bfloat16(n, k):
    def update(W, x, y, _):
        x = x.astype(jnp.bfloat16)
        score = W @ x - jax.nn.one_hot(y, k, dtype=jnp.bfloat16)
        return W - (jnp.bfloat16(0.1) * score)[:, None] * x + jnp.sum(x) / (1 + jnp.sum(x * x))

    return Stranger(lambda: jnp.zeros((k, n), jnp.bfloat16), update, n)


def with_optax(n, k):
    optimizer = optax.adam(0.01)

    def loss(params, x, y):
        hidden = jnp.tanh(params["V"] @ x + params["b"])
        return optax.softmax_cross_entropy_with_integer_labels(params["W"] @ hidden, y)

    def update(state, x, y, _):
        params, opt = state
        grads = jax.grad(loss)(params, x, y)
        changes, opt = optimizer.update(grads, opt, params)
        return optax.apply_updates(params, changes), opt

    def init():
        params = {"V": jnp.full((k, n), 0.1), "b": jnp.arange(k) * 0.1, "W": jnp.eye(k + 2)[:, :k]}
        return params, optimizer.init(params)

    return Stranger(init, update, n)


def with_what_was_seen(n, k):
    """Constants, counts and scores go with the prediction."""

    def seen(state, x):
        W, t = state
        return dict(
            rate=1 / jnp.sqrt(t + 1.0),
            prob=jnp.float32(1 / 3),
            scale=jnp.full(n, 3.0),
            t=t,
            s=W @ x + 0.1,
        )

    def update(state, x, y, seen):
        W, t = state
        step = seen["rate"] * (seen["s"] + 0.7 - y) / seen["prob"]
        W = W - 0.01 * jnp.outer(step, x / seen["scale"])
        return W + jnp.exp(-seen["t"] / 7.0) / jnp.log(t + 2.0), t + 1

    return Stranger(lambda: (jnp.zeros((k, n)), jnp.int32(0)), update, n, seen)


def with_divisions(n, k):
    def update(state, x, y, _):
        A, var = state
        var = 0.9 * var + x * x
        A = A / (1 + jnp.sum(var)) + jnp.outer(x, x) / jnp.sqrt(1 + var[0])
        A = A / jnp.sqrt(1 + var) + x[:, None] / (1 + jnp.exp(-var))
        A = A * lax.rsqrt(1 + jnp.sum(x * x)) + (A / 3.0 / (1 + var[1])) / jnp.float32(7)
        return A, (var + 0.1) + 0.3

    return Stranger(lambda: (jnp.eye(n), jnp.zeros(n)), update, n)


def with_memory(n, k):
    """Loops read what the round replaces: the last x, and the one before."""

    def update(state, x, y, _):
        last, before, total = state

        def step(carry, row):
            return row, jnp.sum(lax.map(lambda number: number * carry[0], last)) + row

        spread = lax.fori_loop(0, n, lambda i, s: s + before[i] * last, x)
        return x, last, total + lax.scan(step, before, jnp.stack([last, x]))[1][0] / 9 + spread

    return Stranger(lambda: (jnp.zeros(n), jnp.ones(n), jnp.zeros(n)), update, n)


STRANGERS = dict(
    softmax=softmax, einsum=with_einsum, tensordot=with_tensordot, vmap=with_vmap, at=with_at,
    branches=with_branches, loops=with_loops, linalg=with_linalg, sorting=with_sorting,
    convolution=with_convolution, fourier=with_fourier, bfloat16=with_bfloat16, optax=with_optax,
    seen=with_what_was_seen, divisions=with_divisions, memory=with_memory,
)  # fmt: skip
# Small, around the sizes from which a round or a value is evaluated otherwise, and large.
SIZES = [(5, 4), (16, 16), (17, 3), (33, 32), (64, 31), (64, 32), (64, 64), (256, 8), (700, 3)]


@pytest.mark.parametrize(("n", "k"), [(64, 64), (64, 40)])
def test_gradient_of_a_large_matrix_is_that_of_a_plain_loop(n, k):
    check_values(softmax(n, k), by_seed)


@pytest.mark.parametrize("name", ["branches", "fourier", "loops", "memory"])
def test_stranger_is_a_plain_loop(name):
    check_values(STRANGERS[name](5, 4), by_seed)


def test_quotient_by_a_number_of_a_lane_has_the_bits_of_no_delay():
    zeros = np.zeros(T, int)
    stranger = with_divisions(48, 0)
    late = played(stranger, in_order, delays.table(zeros, max_rounds=2))
    for a, b in zip(late, played(stranger, in_order), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k"), SIZES)
@pytest.mark.parametrize("name", STRANGERS)
@pytest.mark.parametrize("stream", [by_seed, in_order])
def test_stranger_is_a_plain_loop_and_has_its_bits_everywhere(name, n, k, stream):
    stranger = STRANGERS[name](min(n, 80) if name == "linalg" else n, k)
    check_bits(
        stranger, stream, check_values(stranger, stream, 0.05 if name == "bfloat16" else 1e-4)
    )
