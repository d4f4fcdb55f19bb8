import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import oracles, streams, structured
from jonline.core import Example
from jonline.optimizers import adaptive_ogd
from tests.contract import Case, check_learner

K, N = 3, 2


def _predict(loss, scores, explore):
    learner = structured.gappletron(loss.num_classes, 1, diameter=1.0, explore=explore, loss=loss)
    state = learner.init(None)._replace(params=jnp.asarray(scores)[:, None])
    return learner.predict(state, jnp.ones(1), jax.random.key(0))


def _metrics(example, prediction, feedback, state):
    del feedback, state
    return {
        "risk": 1 - jnp.sum(prediction.expected * example.y),
        "wrong": jnp.any(prediction.output != example.y).astype(jnp.int32),
    }


def _table(num_rows=40):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_rows, N)).astype(np.float32)
    return Example(x, np.eye(K, dtype=np.float32)[rng.integers(K, size=num_rows)])


# Formulas.


def test_distribution_by_hand():
    loss = structured.logistic_gap(3)
    with jax.enable_x64(True):
        half = _predict(loss, np.log([1 / 2, 1 / 4, 1 / 4]), 0.25)
        most = _predict(loss, np.log([3 / 4, 1 / 8, 1 / 8]), 0.25)
        hinge = _predict(structured.hinge_gap(3), np.array([0.1, 0.5, -2.0]), 0.5)
    # 1e-15: rounding; the others are printed to six digits.
    np.testing.assert_allclose(half.expected, [1 / 3] * 3, atol=1e-15)
    np.testing.assert_allclose(most.gap, 2 - np.log2(3), rtol=1e-14)
    np.testing.assert_allclose(most.expected, [0.625815, 0.187093, 0.187093], atol=6e-7)
    # m* = .4: q = .4 e_2 + .6/3, P = .2 e_2 + .3/3 + .5/3.
    np.testing.assert_allclose(hinge.expected, [0.8 / 3, 0.2 + 0.8 / 3, 0.8 / 3], rtol=1e-14)


def test_exploration_is_on_top_of_the_gap_while_gaptron_takes_the_larger():
    loss, scores = structured.hinge_gap(3), np.array([0.3, 0.0, 0.0], np.float32)
    mine = _predict(loss, scores, 0.7)
    learner = structured.gaptron(3, 1, diameter=1.0, explore=0.7, loss=loss)
    state = learner.init(None)._replace(params=jnp.asarray(scores)[:, None])
    other = learner.predict(state, jnp.ones(1), jax.random.key(0))
    # u = .7 + .7 * .3 = .91, and max(.7, .7) = .7. rtol: float32.
    np.testing.assert_allclose(mine.expected[1] * 3, 0.91, rtol=1e-6)
    np.testing.assert_allclose(other.expected[1] * 3, 0.7, rtol=1e-6)


def test_rate():
    rate = structured.gappletron_rate(5, diameter=2.0, num_rounds=400)
    assert rate == pytest.approx(0.5)
    with pytest.warns(UserWarning, match=r"B K / sqrt\(T\) = 2 is above 1"):
        assert structured.gappletron_rate(5, diameter=2.0, num_rounds=25) == 1
    with pytest.raises(ValueError, match="diameter must be > 0 and finite, got -1.0"):
        structured.gappletron_rate(5, diameter=-1.0, num_rounds=25)


# Contract.


@pytest.mark.slow
def test_bandit_contract():
    def make(point, data):
        loss = structured.hinge_gap(K)
        learner = structured.gappletron(K, N, loss=loss, **point)
        return learner, jonline.Environment(streams.resample(data), oracles.mismatch())

    check_learner(Case(make, dict(diameter=4.0, explore=0.4), _table(), _metrics))


@pytest.mark.slow
def test_label_contract():
    def make(point, data):
        loss = structured.logistic_gap(K)
        learner = structured.gappletron(K, N, loss=loss, explore=0.0, **point)
        return learner, jonline.Environment(streams.resample(data), oracles.label())

    check_learner(Case(make, dict(diameter=4.0), _table(), _metrics))


# Behaviour.


def test_mistakes_are_bounded():
    """Of projected adaptive gradient descent, from labels and from one bit."""
    K, T, B = 3, 20_000, 8.0
    rng = np.random.default_rng(6)
    U = jnp.asarray((np.eye(K) - 1 / K) * B / 2 / np.sqrt(K - 1))  # norm B/2
    classes = jnp.eye(K)[rng.integers(K, size=T)]
    loss, rate = structured.logistic_gap(K), 0.5

    def run(oracle, explore, key):
        learner = structured.gappletron(
            K, K, diameter=B, explore=explore, loss=loss, optimizer=adaptive_ogd(B, project=True)
        )

        def one(state, data):
            y, key = data
            prediction = learner.predict(state, y, key)
            risk = 1 - jnp.sum(prediction.expected * y)
            return learner.update(state, y, prediction, oracle(y, prediction, key), key), risk

        data = (classes, jax.random.split(key, T))
        return jnp.sum(jax.lax.scan(one, learner.init(key), data)[1])

    compared = T * loss.loss(U[0], jnp.eye(K)[0])
    regret = B**2 * loss.smoothness / (2 * loss.gappletron.slack)
    keys = jax.random.split(jax.random.key(7), 8)
    labels = jax.jit(lambda key: run(oracles.label(), 0.0, key))(keys[0])
    assert labels <= compared + regret < T * (1 - 1 / K)
    bits = np.asarray(jax.jit(jax.vmap(lambda k: run(oracles.mismatch(), rate, k)))(keys))
    explored = rate * (K - 1) / K * T  # mistakes of the exploration alone
    bound = (1 - rate) * (compared + K / rate * regret) + explored
    assert bits.mean() + 5 * bits.std() / np.sqrt(8) < bound < T * (1 - 1 / K)
