from functools import partial

import jax
import pytest

from jonline.core import step


def _play(learner, oracle, xs, ys, key):
    """Plays the rounds of `xs`, `ys`; returns the final state, and all states (before), infos."""

    def body(state, data):
        x, y, key = data
        after, info = step(learner, state, x, partial(oracle, y), key)
        return after, (state, info)

    k_init, k_rounds = jax.random.split(key)
    keys = jax.random.split(k_rounds, len(ys))
    state, (states, infos) = jax.jit(
        lambda state, xs, ys, keys: jax.lax.scan(body, state, (xs, ys, keys))
    )(learner.init(k_init), xs, ys, keys)
    return state, states, infos


@pytest.fixture(scope="session")
def play():
    return _play
