"""Wide rounds: which are, what is not played in them, and that nothing else changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import Environment, Learner, delays, optimizers, oracles, streams
from jonline import structured as st
from jonline._engine import block, rounds, stages
from jonline.core import Example
from jonline.testing import Case, check_learner
from tests.games import Output, no_metrics

K, N = 3, 700


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    label = rng.integers(0, K, 64)
    x = rng.normal(size=(K, N))[label] + rng.normal(size=(64, N))
    return Example((x / 40).astype(np.float32), np.eye(K, dtype=np.float32)[label])


def make(point, data):
    space = st.multiclass(K)
    optimizer = optimizers.adaptive_ogd(point["diameter"], project=True)
    learner = st.osp(
        space, st.inverse_weighted(space), optimizer, num_features=N, explore=point["explore"]
    )
    return learner, Environment(streams.resample(data), oracles.mismatch())


def metrics(example, prediction, feedback, state):
    return {"wrong": feedback.wrong, "norm": jnp.sum(state.params**2)}


POINT = {"diameter": 10.0, "explore": 0.5}


def split_round(make, data, point=POINT, metrics=metrics, may_be_wide=True):
    def one_round(data, key, t, point, carry):
        new, measured, _ = rounds.play_round(make(point, data), metrics, key, t, carry)
        return new, measured

    key, point = jax.random.key(0), {name: jnp.asarray(v) for name, v in point.items()}
    data = jax.tree.map(jnp.asarray, data)
    carry = rounds.first_carry(make(point, data), key, 100)
    args = data, key, jnp.int32(0), point, carry
    return stages.split(one_round, *args, may_be_wide=may_be_wide)


def test_wide_round_takes_its_rows_itself(table):
    staged = split_round(make, table)
    assert staged.is_wide
    assert max(np.prod(var.aval.shape) for var in staged.draw.residuals) < N
    assert not split_round(make, table, may_be_wide=False).is_wide


def adder(size):
    def made(point, data):
        learner = Learner(
            lambda key: jnp.zeros(size),
            lambda state, x, key: Output(jnp.int32(1)),
            lambda state, *_: state + 1.0,
        )
        return learner, Environment(streams.resample(data), oracles.label())

    return made


@pytest.mark.parametrize("delay", [None, delays.fixed(0), delays.fixed(3), delays.uniform(5)])
@pytest.mark.parametrize("size", [1, 99, 100, 5000])
def test_neither_a_delay_nor_a_metric_makes_a_round_wide(size, delay, table):
    def late(point, data):
        learner, environment = adder(size)(point, data)
        return learner, environment._replace(delay=delay)

    def large(example, prediction, feedback, state):
        return {"sum": jnp.sum(jnp.outer(example.x, example.x))}

    for measured in (no_metrics, large):
        assert split_round(late, table, {}, measured).is_wide == (size >= 100)


def test_lanes_that_are_not_wanted_are_not_played(table):
    data = jax.tree.map(jnp.asarray, table)
    points = {"a": jnp.zeros(8)}
    wanted = np.array([1, 3], np.int32)
    inputs = block.Inputs(data, jax.random.split(jax.random.key(0), 2), points, wanted)
    plan = block.Plan(adder(200), no_metrics, 8, 5, 4, block.ENDLESS)
    built = block.build(plan, inputs)
    running, _ = block.advance(built, block.start_block(built, inputs), 0, 2)
    played = np.asarray(running.carry.state)[0].reshape(2, 8)
    np.testing.assert_array_equal(played[0], [10, 10, 10, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(played[1], 0)


def test_learner_in_wide_rounds_keeps_the_contract(table):
    check_learner(Case(make, POINT, table, metrics))
