import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jonline
from jonline import oracles, streams, structured
from jonline.core import Example
from jonline.optimizers import adaptive_ogd, from_optax
from jonline.testing import Case, check_learner

K, N = 3, 2
FIVE = structured.multiclass(5)


def _predict(loss, scores, explore, algorithm=structured.gaptron):
    """What is predicted where W x = scores."""
    learner = algorithm(loss.num_classes, 1, diameter=1.0, explore=explore, loss=loss)
    state = learner.init(None)._replace(params=jnp.asarray(scores)[:, None])
    return jax.jit(learner.predict)(state, jnp.ones(1), jax.random.key(0))


def _expected(loss, sigma, explore):
    """What Gaptron predicts where softmax(W x) = sigma."""
    return _predict(loss, jnp.log(jnp.asarray(sigma)), explore)


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


@pytest.mark.parametrize("explore", [0.0, 0.1, 0.25])
def test_distribution_by_hand(explore):
    loss = structured.logistic_gap(3)
    with jax.enable_x64(True):
        # sigma = (1/2, 1/4, 1/4) is where the gap jumps to 1; a hair above it a is 1/2.
        half = _expected(loss, np.array([0.5 + 1e-12, 0.25, 0.25]), explore)
        most = _expected(loss, np.array([3 / 4, 1 / 8, 1 / 8]), explore)
        below = _expected(loss, np.array([0.49, 0.26, 0.25]), explore)
        # 1e-11: by how far half is off 1/2.
        np.testing.assert_allclose(half.expected, [2 / 3, 1 / 6, 1 / 6], atol=1e-11)
        np.testing.assert_allclose(most.expected, [10 / 12, 1 / 12, 1 / 12], rtol=1e-14)
        np.testing.assert_allclose(below.expected, [1 / 3] * 3, rtol=1e-14)
        explored = _expected(loss, np.array([3 / 4, 1 / 8, 1 / 8]), 0.4)
        np.testing.assert_allclose(explored.expected, np.array([11, 2, 2]) / 15, rtol=1e-14)
    assert most.gap == pytest.approx(1 / 4)


def test_two_classes_without_scores_are_a_fair_coin():
    # sigma = (1/2, 1/2): a = 1/2, all on the first class but for its uniform share.
    tied = _expected(structured.logistic_gap(2), np.ones(2, np.float32), 0.0)
    np.testing.assert_array_equal(tied.expected, [0.75, 0.25])


def test_distribution_of_gappletron_by_hand():
    loss = structured.logistic_gap(3)
    with jax.enable_x64(True):
        half = _predict(loss, np.log([1 / 2, 1 / 4, 1 / 4]), 0.25, structured.gappletron)
        most = _predict(loss, np.log([3 / 4, 1 / 8, 1 / 8]), 0.25, structured.gappletron)
        hinge = _predict(
            structured.hinge_gap(3), np.array([0.1, 0.5, -2.0]), 0.5, structured.gappletron
        )
    # 1e-15: rounding; the others are printed to six digits.
    np.testing.assert_allclose(half.expected, [1 / 3] * 3, atol=1e-15)
    np.testing.assert_allclose(most.gap, 2 - np.log2(3), rtol=1e-14)
    np.testing.assert_allclose(most.expected, [0.625815, 0.187093, 0.187093], atol=6e-7)
    # m* = .4: q = .4 e_2 + .6/3, P = .2 e_2 + .3/3 + .5/3.
    np.testing.assert_allclose(hinge.expected, [0.8 / 3, 0.2 + 0.8 / 3, 0.8 / 3], rtol=1e-14)


def test_exploration_is_on_top_of_the_gap_while_gaptron_takes_the_larger():
    loss, scores = structured.hinge_gap(3), np.array([0.3, 0.0, 0.0], np.float32)
    mine = _predict(loss, scores, 0.7, structured.gappletron)
    other = _predict(loss, scores, 0.7)
    # u = .7 + .7 * .3 = .91, and max(.7, .7) = .7. rtol: float32.
    np.testing.assert_allclose(mine.expected[1] * 3, 0.91, rtol=1e-6)
    np.testing.assert_allclose(other.expected[1] * 3, 0.7, rtol=1e-6)


def test_step_size_and_rate():
    logistic, hinge = structured.logistic_gap(5), structured.hinge_gap(5)
    step = structured.gaptron_step_size
    assert step(logistic, radius=3.0) == pytest.approx(np.log(2) / (2 * 5 * 9))
    assert step(hinge, radius=3.0) == pytest.approx(0.5 / (5 * 9))
    assert step(logistic, radius=3.0, explore=0.1) == pytest.approx(0.1 * np.log(2) / 450)
    assert step(hinge, radius=3.0, explore=0.1) == pytest.approx(0.1 * 0.5 / (25 * 9))
    rate = structured.gaptron_rate(FIVE, radius=2.0, diameter=6.0, num_rounds=10_000)
    assert rate == pytest.approx(30 / np.sqrt(10_000 * np.log(2)))
    with pytest.warns(UserWarning, match=r"K Cx B / \(2 sqrt\(T ln 2\)\) = 3.603 is above 1"):
        assert structured.gaptron_rate(FIVE, radius=2.0, diameter=6.0, num_rounds=100) == 1
    with pytest.raises(ValueError, match="explore must be in \\(0, 1\\], got 0.0"):
        step(logistic, radius=1.0, explore=0.0)
    for loss in (structured.logistic_gap(5, base=5.0), structured.hinge_gap(5, cutoff=1.0)):
        with pytest.raises(ValueError, match="slack > 0 and finite smoothness for a step size"):
            step(loss, radius=1.0)
    with pytest.raises(ValueError, match="num_rounds must be >= 1, got 0"):
        structured.gaptron_rate(FIVE, radius=2.0, diameter=3.0, num_rounds=0)


def test_rate_of_gappletron():
    rate = structured.gappletron_rate(FIVE, diameter=2.0, num_rounds=400)
    assert rate == pytest.approx(0.5)
    with pytest.warns(UserWarning, match=r"B K / sqrt\(T\) = 2 is above 1"):
        assert structured.gappletron_rate(FIVE, diameter=2.0, num_rounds=25) == 1
    with pytest.raises(ValueError, match="diameter must be > 0 and finite, got -1.0"):
        structured.gappletron_rate(FIVE, diameter=-1.0, num_rounds=25)
    with pytest.raises(ValueError, match="space must be a multiclass space, got multilabel"):
        structured.gappletron_rate(structured.multilabel(5), diameter=2.0, num_rounds=25)
    with pytest.raises(TypeError, match="space must be OutputSpace, got int 5"):
        structured.gaptron_rate(5, radius=2.0, diameter=3.0, num_rounds=10)


# Contract.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("oracle", "explore"),
    [(oracles.mismatch(), 0.4), (oracles.label(), 0.4), (oracles.label(), 0.0)],
)
@pytest.mark.parametrize("loss", [structured.logistic_gap(K), structured.hinge_gap(K)])
@pytest.mark.parametrize("algorithm", [structured.gaptron, structured.gappletron])
def test_contract(algorithm, loss, oracle, explore):
    def make(point, data):
        learner = algorithm(K, N, loss=loss, **point)
        return learner, jonline.Environment(streams.resample(data), oracle)

    check_learner(Case(make, dict(diameter=4.0, explore=explore), _table(), _metrics))


# Behaviour.


def _planted(num_rounds, scale=8.0, seed=5):
    """Unit features around four centres, labels by a model U of norm `scale`, 4 % of them wrong."""
    rng = np.random.default_rng(seed)
    U = np.eye(4, 5) - np.pad(np.full((4, 4), 1 / 4), ((0, 0), (0, 1)))
    U *= scale / np.linalg.norm(U)
    x = np.eye(4, 5)[rng.integers(4, size=num_rounds)] + 0.2 * rng.normal(size=(num_rounds, 5))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.argmax(x @ U.T, axis=1)
    y = np.where(rng.random(num_rounds) < 0.05, rng.integers(4, size=num_rounds), y)
    return Example(jnp.asarray(x), jnp.eye(4)[y]), jnp.asarray(U)


def _risks(learner, oracle, examples, key):
    """Probability of a mistake, and loss, in every round."""

    def one(state, data):
        example, key = data
        prediction = learner.predict(state, example.x, key)
        answer = oracle(example.y, prediction, key)
        risk = 1 - jnp.sum(prediction.expected * example.y)
        return learner.update(state, example.x, prediction, answer, key), risk

    keys = jax.random.split(key, len(examples.x))
    return jax.lax.scan(one, learner.init(key), (examples, keys))[1]


@pytest.mark.parametrize("make", [structured.logistic_gap, structured.hinge_gap])
def test_mistakes_from_labels_are_bounded(make):
    examples, U = _planted(num_rounds=6000)
    loss = make(4)

    def run(eta):
        optimizer = from_optax(optax.sgd(eta))
        learner = structured.gaptron(
            4, 5, diameter=1.0, explore=0.0, loss=loss, optimizer=optimizer
        )
        return jnp.sum(_risks(learner, oracles.label(), examples, jax.random.key(0)))

    eta = structured.gaptron_step_size(loss, radius=1.0)
    mistakes, still = jax.jit(jax.vmap(run))(jnp.asarray([eta, 1e-9]))
    scores = examples.x @ U.T
    plain = structured.hinge_gap(4, cutoff=1.0)
    surrogate = loss if make is structured.logistic_gap else plain  # the comparator has no cut-off
    compared = jnp.sum(jax.jit(jax.vmap(surrogate.loss))(scores, examples.y))
    regret = loss.smoothness * jnp.sum(U**2) / (4 * loss.gaptron.slack)
    if make is structured.logistic_gap:
        assert regret == pytest.approx(4 * 64 / np.log(2), rel=1e-5)
    bound = compared + regret
    assert mistakes <= bound < still


def test_mistakes_from_one_bit_are_bounded():
    K, T, D = 3, 10_000, 4.0
    rng = np.random.default_rng(6)
    U = jnp.asarray((np.eye(K) - 1 / K) * D / np.sqrt(K - 1))  # norm D
    classes = jnp.eye(K)[rng.integers(K, size=T)]
    examples, loss = Example(classes, classes), structured.logistic_gap(K)
    rate = structured.gaptron_rate(
        structured.multiclass(K), radius=1.0, diameter=2 * D, num_rounds=T
    )

    def run(eta, key):
        learner = structured.gaptron(
            K, K, diameter=D, explore=rate, loss=loss, optimizer=from_optax(optax.sgd(eta))
        )
        return jnp.sum(_risks(learner, oracles.mismatch(), examples, key))

    eta = structured.gaptron_step_size(loss, radius=1.0, explore=rate)
    keys = jax.random.split(jax.random.key(7), 8)
    lanes = jax.jit(jax.vmap(jax.vmap(run, (None, 0)), (0, None)))
    mistakes, still = np.asarray(lanes(jnp.asarray([eta, 1e-9]), keys))
    compared = T * loss.loss(U[0], jnp.eye(K)[0])
    bound = compared + 2 * K * D * np.sqrt(T / np.log(2))
    assert mistakes.mean() + 5 * mistakes.std() / np.sqrt(8) < bound < still.mean()


def test_default_step_learns_from_one_bit():
    examples, _ = _planted(num_rounds=4000, seed=8)
    learner = structured.gaptron(4, 5, diameter=10.0, explore=0.1, loss=structured.hinge_gap(4))
    run = jax.jit(lambda key: _risks(learner, oracles.mismatch(), examples, key))
    # Uniform play errs in 3/4 of the rounds; noise and exploration alone in about .11.
    assert run(jax.random.key(9))[-1000:].mean() < 0.3


def test_mistakes_of_gappletron_are_bounded():
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
