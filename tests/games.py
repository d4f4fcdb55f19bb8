"""Small learners and environments of the tests."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jonline import Environment, Learner, Stream, hypotheses, oracles, ordinal, streams
from jonline.core import Example

K, N = 5, 3


def table(num_rows=64, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_rows, N)).astype(np.float32)
    y = 1 + np.digitize(x @ np.array([1.0, -1.0, 0.5]), [-1.5, -0.5, 0.5, 1.5])
    return Example(x, y.astype(np.int32))


def make_dford(point, data):
    learner = ordinal.dford(
        hypotheses.linear(N), K, reg=point["reg"], explore=point["explore"], clip=10.0
    )
    return learner, Environment(streams.resample(data), oracles.directional())


class Output(NamedTuple):
    output: jax.Array


class Log(NamedTuple):
    rounds: jax.Array
    count: jax.Array


def clock() -> Stream:
    """x is the round's number."""
    return Stream(
        init=lambda key: key,
        draw=lambda key, t: Example(jnp.asarray(t, float)[None], jnp.asarray(t, jnp.int32)),
    )


def logger(num_rounds: int) -> Learner:
    """Plays the round's number and writes down the rounds whose answers come, in order."""

    def update(state, x, prediction, feedback, key):
        del key
        right = (prediction.output == x[0]) & (feedback.value == prediction.output)
        entry = jnp.where(right, prediction.output, -2)  # -2: not the x or answer of that round
        here = jnp.arange(num_rounds) == state.count
        return Log(jnp.where(here, entry, state.rounds), state.count + 1)

    return Learner(
        init=lambda key: Log(jnp.full(num_rounds, -1), jnp.zeros((), jnp.int32)),
        predict=lambda state, x, key: Output(x[0].astype(jnp.int32)),
        update=update,
    )


def no_metrics(example, prediction, feedback, state):
    return {"rounds": 1}
