"""Streams with labels -1 and 1, and whole runs of many lanes in one compiled call."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jonline import hypotheses, oracles, reject
from jonline.core import Example, step

N, D = 3, 0.25
LINEAR = hypotheses.linear(N)
LEARNERS = {
    "dral": lambda h=LINEAR, **more: reject.dral(h, **dict(cost=D, step_size=0.1) | more),
    "dsal": lambda h=LINEAR, **more: reject.dsal(
        h, **dict(cost=D, step_size=0.1, slope=2.0) | more
    ),
    "dsol": lambda h=LINEAR, **more: reject.dsol(
        h, **dict(cost=D, step_size=0.1, slope=2.0) | more
    ),
}


def table(num_rows=64, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_rows, N)).astype(np.float32)
    y = np.where(x @ np.array([1.0, -1.0, 0.5]) > 0, 1, -1)
    y = np.where(rng.random(num_rows) < noise, -y, y)
    return Example(x, y.astype(np.int32))


def play(make, points, data, key=0, oracle=None):
    """Plays `make(point)` once through `data` for each point; leading axes (points, rounds).

    Returns the states before each round, predictions, feedback, and the last states.
    """
    oracle = oracles.label_if_asked() if oracle is None else oracle

    def one(point):
        learner = make(point)

        def body(state, at):
            x, y, key = at
            after, info = step(learner, state, x, partial(oracle, y), key)
            return after, (state, info)

        keys = jax.random.split(jax.random.key(key), len(data.y))
        first = learner.init(jax.random.key(key))
        last, (states, infos) = jax.lax.scan(body, first, (data.x, data.y, keys))
        return states, infos.prediction, infos.feedback, last

    points = {name: jnp.asarray(axis, float) for name, axis in points.items()}
    return jax.jit(jax.vmap(one))(points)
