"""Learners drawn at random, of random sizes, against a plain Python loop, and their bits.

A learner is a few random steps, each an idiom of somebody's code, on a matrix W (k, n), vectors
w (n,) and b (k,) and a count.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests._engine.test_strangers import Stranger, by_seed, check_bits, check_values, in_order

# Around the sizes from which a sum, a product or a whole round is evaluated otherwise.
SIZES = [1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 99, 100, 101, 127, 128, 129, 255, 300, 784, 1000]


def _gradient(s, x, y, c):
    grad = jax.grad(lambda W: jnp.sum(jax.nn.softplus(W @ x + s["b"])) - c * jnp.sum(W[0]))(s["W"])
    return s | {"W": s["W"] - 0.1 * grad}


def _ball(s, x, y, c):
    norm = jnp.sqrt(jnp.sum(s["W"] ** 2))
    return s | {"W": s["W"] * jnp.minimum(1.0, c / jnp.maximum(norm, 1e-6))}


def _scores(s, x, y, c):
    p = jax.nn.softmax(s["W"] @ x)
    return s | {"b": 0.9 * s["b"] + p - c * (jnp.arange(len(p)) == y % len(p))}


def _rate(s, x, y, c):
    eta = c / jnp.sqrt(s["t"] + 1.0)
    return s | {"w": (1 - 0.1 * eta) * s["w"] - eta * (s["w"] @ x - y) * x / (1 + x @ x)}


def _branch(s, x, y, c):
    w = lax.cond(x[0] > 0, lambda w: w + c * x, lambda w: w * 0.9 - x / 3.0, s["w"])
    w = jnp.where(s["t"] % 3 == 1, w / (1.0 + s["t"]), w)
    return s | {"w": lax.switch(y, [lambda w: w, lambda w: w + 0.1 * c, lambda w: -w], w)}


def _fori(s, x, y, c):
    body = lambda i, b: b * 0.8 + c * s["w"][i % len(x)] / (i + 2.0)  # noqa: E731
    return s | {"b": lax.fori_loop(0, y + 2, body, s["b"])}


def _while(s, x, y, c):
    def body(loop):
        i, total = loop
        return i + 1, 0.5 * total + 0.1 * x[i % len(x)]

    i, total = lax.while_loop(lambda loop: (loop[0] < 5) & (loop[1] < 1), body, (0, s["b"][0]))
    return s | {"w": s["w"] + 0.01 * i + c * total * x}


def _rows(s, x, y, c):
    def body(carry, row):
        carry = 0.5 * carry + row @ x
        return carry, row - 0.05 * c * carry * x

    last, W = lax.scan(body, s["b"][0], s["W"])
    return s | {"W": W, "b": 0.9 * s["b"] + 0.1 * last}


def _scatter(s, x, y, c):
    i = (y + s["t"]) % len(s["b"])
    return s | {"W": s["W"].at[i].add(c * x), "b": s["b"].at[i].multiply(0.7)}


def _sums(s, x, y, c):
    total = jnp.sum(s["W"]) + jnp.mean(s["w"]) + jnp.max(jnp.cumsum(x))
    columns = jnp.sum(s["W"] * s["b"][:, None], axis=0)
    return s | {"w": 0.9 * s["w"] + 0.01 * jnp.tanh(columns) + 0.01 * c * jnp.tanh(total)}


def _moments(s, x, y, c):
    s = s | {"w": 0.9 * s["w"] + 0.1 * x**2}
    return s | {"W": s["W"] - 0.01 * c * x / (jnp.sqrt(jnp.abs(s["w"])) + 1e-3)}


def _clip(s, x, y, c):
    return jax.tree.map(lambda leaf: jnp.clip(leaf, -3, 3), s)


def _log(s, x, y, c):
    return s | {"b": s["b"] + 0.1 * c * jnp.log(s["t"] + 2.0) * jnp.exp(-s["t"] / 7.0)}


STEPS = [
    _gradient, _ball, _scores, _rate, _branch, _fori, _while, _rows, _scatter, _sums, _moments,
    _clip, _log,
]  # fmt: skip


def random_learner(number: int) -> Stranger:
    rng = np.random.default_rng(number)
    n = int(rng.choice(SIZES))
    k = int(rng.choice([size for size in SIZES if size * n <= 3000]))
    chosen = rng.choice(len(STEPS), size=int(rng.integers(1, 6)), replace=False)
    constants = np.round(rng.uniform(0.1, 1.0, len(chosen)), 3)

    def update(state, x, y, _):
        for step, c in zip(chosen, constants, strict=True):
            state = STEPS[step](state, x, y, float(c))
        return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), state) | {"t": state["t"] + 1}

    start = {name: rng.normal(size=size).astype(np.float32) / 10
             for name, size in dict(W=(k, n), w=n, b=k).items()}  # fmt: skip

    def init():
        return jax.tree.map(jnp.asarray, start) | {"t": jnp.int32(0)}

    return Stranger(init, update, n)


def check(number: int) -> None:
    stranger = random_learner(number)
    stream = (by_seed, in_order)[number % 2]
    check_bits(stranger, stream, check_values(stranger, stream, 1e-3))


@pytest.mark.parametrize("number", range(2))
def test_random_learner_is_a_plain_loop_and_has_its_bits_everywhere(number):
    check(number)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2, 60))
def test_many_random_learners_are(number):
    check(number)
