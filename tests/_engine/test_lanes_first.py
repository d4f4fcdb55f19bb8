"""Rounds that multiply a large matrix: lanes go first, and nothing else changes."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import Environment, optimizers, oracles, streams
from jonline import structured as st
from jonline._engine import jaxprs, lanes, loops, rounds, stages
from jonline.core import Example
from jonline.testing import Case, check_learner

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
    space = st.multiclass(K)
    return {
        "wrong": feedback.wrong,
        "surrogate": space.surrogate(prediction.score, example.y),
        "norm": jnp.sum(state.params**2),
    }


POINT = {"diameter": 10.0, "explore": 0.5}


def split_round(data):
    def one_round(data, key, t, point, carry):
        new, measured, _ = rounds.play_round(make(point, data), metrics, key, t, carry)
        return new, measured

    key, point = jax.random.key(0), {name: jnp.asarray(v) for name, v in POINT.items()}
    carry = rounds.first_carry(make(point, data), key, 100)
    data = jax.tree.map(jnp.asarray, data)
    return stages.split(one_round, data, key, jnp.int32(0), point, carry)


def test_round_with_a_large_matrix_has_the_lanes_first_and_takes_its_rows_itself(table):
    staged = split_round(table)
    assert staged.lanes_first
    assert max(np.prod(var.aval.shape) for var in staged.draw.residuals) < N


def test_small_round_has_the_lanes_last(table):
    def one_round(data, key, t, point, carry):
        return carry + data.x[0, :5] @ carry, 0.0

    staged = stages.split(one_round, table, jax.random.key(0), jnp.int32(0), {}, jnp.zeros(5))
    assert not staged.lanes_first


def test_learner_with_the_lanes_first_keeps_the_contract(table):
    check_learner(Case(make, POINT, table, metrics))


class Product(NamedTuple):
    left: tuple
    right: tuple


@pytest.mark.parametrize(
    "product",
    [
        Product((4, 5), (5,)),
        Product((4,), (4, 3)),
        Product((6,), (6,)),
        Product((2, 3, 4), (4,)),
        Product((3, 4), (4, 2)),
    ],
)
@pytest.mark.parametrize("apart", [(True, True), (True, False), (False, True)])
def test_product_with_lanes_last_is_that_of_each_lane(product, apart):
    rng = np.random.default_rng(1)
    values = [rng.normal(size=shape).astype(np.float32) for shape in product]
    jaxpr = jaxprs.inlined(lambda a, b: a @ b, *values).jaxpr
    wide = [
        rng.normal(size=(*value.shape, 16)).astype(np.float32) if differs else value
        for value, differs in zip(values, apart, strict=True)
    ]
    given = [
        loops.Lanes(value) if differs else value for value, differs in zip(wide, apart, strict=True)
    ]
    zero = jnp.float32(-0.0)
    block = loops.LaneContext(16, zero, jnp.full(16, zero), lanes.evaluate, loops.last_axis)
    env = lanes.evaluate(jaxpr.eqns, dict(zip(jaxpr.invars, given, strict=True)), block)
    got = env[jaxpr.outvars[0]].value
    for lane in range(16):
        of_lane = [v[..., lane] if d else v for v, d in zip(wide, apart, strict=True)]
        # sums of at most 6 products of numbers of order 1, in another order
        np.testing.assert_allclose(got[..., lane], of_lane[0] @ of_lane[1], rtol=1e-5, atol=1e-5)
