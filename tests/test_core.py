from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jonline
from jonline import Info, Learner, hypotheses, oracles, ordinal
from tests.games import K, N, Output, table


class Words(NamedTuple):
    output: jax.Array


class Answer(NamedTuple):
    value: jax.Array


def key_writer() -> Learner:
    """Keeps the words of the keys that predict, the oracle and update got."""
    return Learner(
        init=lambda key: jnp.zeros((3, 2), jnp.uint32),
        predict=lambda state, x, key: Words(jax.random.key_data(key)),
        update=lambda state, x, prediction, feedback, key: jnp.stack(
            [prediction.output, feedback.value, jax.random.key_data(key)]
        ),
    )


def test_step_returns_state_and_info():
    learner = key_writer()
    answer = lambda prediction, key: Answer(jax.random.key_data(key))  # noqa: E731
    state = learner.init(jax.random.key(0))
    new, info = jonline.step(learner, state, jnp.zeros(2), answer, jax.random.key(1))
    assert isinstance(info, Info)
    assert isinstance(info.prediction, Words) and isinstance(info.feedback, Answer)
    np.testing.assert_array_equal(new[0], info.prediction.output)
    np.testing.assert_array_equal(new[1], info.feedback.value)


def test_predict_oracle_and_update_get_keys_of_their_own():
    learner = key_writer()
    answer = lambda prediction, key: Answer(jax.random.key_data(key))  # noqa: E731
    states = []
    for seed in (1, 2):
        key = jax.random.key(seed)
        new, _ = jonline.step(learner, learner.init(key), jnp.zeros(2), answer, key)
        states.append(np.vstack([new, jax.random.key_data(key)]))
    assert len(np.unique(np.concatenate(states), axis=0)) == 8


def test_feedback_is_asked_about_the_prediction_that_is_updated():
    learner = Learner(
        init=lambda key: jnp.float32(1),
        predict=lambda state, x, key: Output(state * x[0]),
        update=lambda state, x, prediction, feedback, key: state + feedback * x[1],
    )
    new, info = jonline.step(
        learner,
        jnp.float32(3),
        jnp.array([2.0, 10.0]),
        lambda p, key: p.output + 1,
        jax.random.key(0),
    )
    assert info.prediction.output == 6 and info.feedback == 7 and new == 73


def test_step_runs_under_scan_and_vmap_as_a_partial():
    learner = ordinal.dford(hypotheses.linear(N), K, reg=1.0, explore=0.5, clip=10.0)
    data, oracle = table(20), oracles.directional()
    play = partial(jonline.step, learner)

    def run(key):
        def one_round(state, inputs):
            x, y, key = inputs
            return play(state, x, lambda prediction, k: oracle(y, prediction, k), key)

        keys = jax.random.split(key, 20)
        return jax.lax.scan(one_round, learner.init(key), (data.x, data.y, keys))

    keys = jax.random.split(jax.random.key(3), 4)
    states, infos = jax.jit(jax.vmap(run))(keys)
    assert isinstance(infos, Info)
    assert infos.prediction.output.shape == infos.feedback.above.shape == (4, 20)
    np.testing.assert_array_equal(states.round, [20] * 4)
    np.testing.assert_array_equal(infos.feedback.above, infos.prediction.output < data.y)
    assert len(np.unique(infos.prediction.output, axis=0)) == 4
    alone, info = jax.jit(run)(keys[2])
    np.testing.assert_array_equal(info.prediction.output, infos.prediction.output[2])
    # 1e-5: vectors of other widths round otherwise.
    np.testing.assert_allclose(alone.f, states.f[2], rtol=1e-5)
