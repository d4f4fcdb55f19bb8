"""Online structured prediction: golden steps, what is stored, bad input, and the paper's bounds."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jonline
from jonline import Environment, optimizers, oracles, streams, structured
from jonline.core import Example, Learner
from jonline.structured import theory

N = 3
ESTIMATORS = {
    "full_information": lambda space: oracles.label(),
    "inverse_weighted": lambda space: oracles.mismatch(),
    "pseudo_inverse": lambda space: oracles.loss(space.target),
    "semi_bandit": lambda space: oracles.coordinates(),
}
CLASSES = structured.multiclass(3)


def estimator_and_oracle(name, space=CLASSES):
    return getattr(structured, name)(space), ESTIMATORS[name](space)


def sgd_learner(name, space=CLASSES):
    estimator, oracle = estimator_and_oracle(name, space)
    optimizer = optimizers.from_optax(optax.sgd(1.0))
    learner = structured.osp(space, estimator, optimizer, num_features=N, explore=0.5)
    return Learner(*map(jax.jit, learner)), oracle


def test_first_step_by_hand():
    # W = 0: mean = (1/3, 1/3, 1/3), a tie, so every class is drawn with probability 1/3;
    # G = 3 (mean - e1) = (-2, 1, 1), eta = sqrt(12) / sqrt(2 * 6) = 1
    optimizer = optimizers.adaptive_ogd(np.sqrt(12.0))
    learner = structured.osp(
        CLASSES, structured.inverse_weighted(CLASSES), optimizer, num_features=1, explore=0.25
    )
    learner = Learner(*map(jax.jit, learner))
    x, keys = jnp.ones(1), jax.random.split(jax.random.key(0), 32)
    state = learner.init(keys[0])
    np.testing.assert_array_equal(state.params, np.zeros((3, 1)))
    played = jax.jit(jax.vmap(lambda key: learner.predict(state, x, key)))(keys)
    np.testing.assert_allclose(played.expected, np.full((32, 3), 1 / 3), rtol=1e-6)
    first = jax.tree.map(lambda leaf: leaf[np.argmax(played.output[:, 0])], played)
    np.testing.assert_array_equal(first.output, [1, 0, 0])
    np.testing.assert_allclose(first.aux, 1 / 3, rtol=1e-6)
    right, wrong = (oracles.Mismatch(jnp.asarray(wrong)) for wrong in (False, True))
    moved = learner.update(state, x, first, right, keys[0])
    np.testing.assert_allclose(moved.params, [[2], [-1], [-1]], rtol=1e-6)
    still = learner.update(state, x, first, wrong, keys[0])
    np.testing.assert_array_equal(still.params, np.zeros((3, 1)))


def test_prediction_is_that_of_the_model_and_the_space():
    learner, _ = sgd_learner("pseudo_inverse")
    W, x = np.random.default_rng(0).normal(size=(3, N)), np.array([1.0, -2.0, 4.0])
    state = learner.init(jax.random.key(0))._replace(params=jnp.asarray(W, jnp.float32))
    keys = jax.random.split(jax.random.key(1), 4000)
    seen = jax.jit(jax.vmap(lambda key: learner.predict(state, jnp.asarray(x, float), key)))(keys)
    np.testing.assert_allclose(seen.score[0], W @ x, rtol=1e-5)  # float32
    mean = 2 ** (W @ x) / np.sum(2 ** (W @ x))
    np.testing.assert_allclose(seen.mean[0], mean, rtol=1e-5)
    distance = np.sum(np.abs(np.eye(3)[mean.argmax()] - mean))
    p = 0.5 / 3 + 0.5 * ((1 - distance) * np.eye(3)[mean.argmax()] + distance * mean)
    assert distance < 1  # nu = 2
    np.testing.assert_allclose(seen.expected[0], p, rtol=1e-5)
    share = np.mean(seen.output, axis=0)
    assert np.all(np.abs(share - p) <= 5 * np.sqrt(p * (1 - p) / len(keys)))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_answer_is_weighed_by_what_was_stored_at_the_prediction(name):
    """Whatever W has become, G is made of the old mean and the old distribution."""
    learner, oracle = sgd_learner(name)
    rng = np.random.default_rng(2)
    x, y = jnp.asarray(rng.normal(size=N), float), jnp.eye(3)[0]

    def steps(key, later):
        state = learner.init(key)
        asked = state._replace(params=jnp.ones((3, N)) * jnp.arange(3.0)[:, None] / 4)
        prediction = learner.predict(asked, x, key)
        answer = oracle(y, prediction, key)
        moved = learner.update(state._replace(params=later), x, prediction, answer, key)
        return moved.params - later, prediction.mean - y

    keys = jax.random.split(jax.random.key(0), 64)
    models = jnp.asarray(rng.normal(size=(2, 3, N)), float) * jnp.array([0.0, 1.0])[:, None, None]
    step, residual = jax.jit(
        jax.vmap(jax.vmap(steps, (0, None)), (None, 0))
    )(keys, models)  # fmt: skip
    np.testing.assert_allclose(step[1], step[0], atol=1e-5)  # W + step - W in float32
    assert np.any(step[0] != 0)
    if name == "full_information":
        expected = -residual[0][:, :, None] * x
        np.testing.assert_allclose(step[0], expected, rtol=1e-6)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_features_of_norm_zero_change_nothing(name):
    estimator, oracle = estimator_and_oracle(name)
    x, key = jnp.zeros(N), jax.random.key(0)
    learner = structured.osp(
        CLASSES, estimator, optimizers.adaptive_ogd(2.0), num_features=N, explore=0.1
    )
    state = learner.init(key)
    after, info = jonline.step(
        learner, state, x, lambda prediction, key: oracle(jnp.eye(3)[1], prediction, key), key
    )
    for before, now in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        np.testing.assert_array_equal(before, now)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(info.prediction))


def test_bad_arguments_are_named():
    estimator, optimizer = structured.inverse_weighted(CLASSES), optimizers.adaptive_ogd(1.0)
    good = dict(num_features=N, explore=0.5)
    with pytest.raises(TypeError, match="space must be OutputSpace, got int 3"):
        structured.osp(3, estimator, optimizer, **good)
    with pytest.raises(TypeError, match="estimator must be Estimator, got function"):
        structured.osp(CLASSES, structured.inverse_weighted, optimizer, **good)
    with pytest.raises(TypeError, match="optimizer must be OnlineOptimizer, got Gradient"):
        structured.osp(CLASSES, estimator, optax.sgd(0.1), **good)
    with pytest.raises(ValueError, match="num_features must be >= 1, got 0"):
        structured.osp(CLASSES, estimator, optimizer, num_features=0, explore=0.5)
    with pytest.raises(ValueError, match=r"explore must be in \[0, 1\], got 1.5"):
        structured.osp(CLASSES, estimator, optimizer, num_features=N, explore=1.5)
    for name in ESTIMATORS:
        estimator, _ = estimator_and_oracle(name)
        if name == "full_information":
            structured.osp(CLASSES, estimator, optimizer, num_features=N)
            continue
        for explore in ({}, {"explore": 0.0}, {"explore": jnp.zeros(())}):
            with pytest.raises(ValueError, match=r"explore must be > 0 with an estimator .* 0.0"):
                structured.osp(CLASSES, estimator, optimizer, num_features=N, **explore)


def test_features_of_another_shape_are_an_error():
    learner, _ = sgd_learner("pseudo_inverse")
    key = jax.random.key(0)
    for shape in ((N + 1,), (1,), (), (1, N)):
        with pytest.raises(ValueError, match=r"x must have shape \(3,\), got \("):
            learner.predict(learner.init(key), jnp.ones(shape), key)


def planted(diameter, num_rows=500):
    """Two classes on the unit circle, off their border, and a good U with ||U|| = B/2."""
    rng = np.random.default_rng(5)
    side = rng.integers(0, 2, num_rows)
    angle = rng.uniform(-0.4, 0.4, num_rows) + np.pi * side
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    U = diameter / 2 * np.array([[1.0, 0.0], [-1.0, 0.0]]) / np.sqrt(2)
    return Example(x, np.eye(2, dtype=np.float32)[side]), U


@pytest.mark.parametrize(
    ("name", "diameter", "num_rounds"),
    [("inverse_weighted", 6.0, 7200), ("pseudo_inverse", 4.0, 76_800)],  # q = 0.1 and 0.15
)
def test_regret_is_below_the_bound_of_the_paper(name, diameter, num_rounds):
    """On a stream where a learner that goes uphill is above the bound."""
    space = structured.multiclass(2)
    estimator, oracle = estimator_and_oracle(name, space)
    data, U = planted(diameter)
    options = dict(diameter=diameter, radius=1.0, num_rounds=num_rounds)
    if name == "inverse_weighted":
        rate = theory.inverse_weighted_rate(space, **options)
        bound = theory.inverse_weighted_bound(space, **options)
    else:
        rate = theory.pseudo_inverse_rate(space, **options)
        bound = theory.pseudo_inverse_bound(space, **options)
    assert rate < 0.2

    def make(point, data):
        optimizer = optimizers.adaptive_ogd(diameter, project=True)
        learner = structured.osp(
            space, estimator, optimizer, num_features=2, explore=point["explore"]
        )
        return learner, Environment(streams.resample(data), oracle)

    def metrics(example, prediction, feedback, state):
        del feedback, state
        best = space.surrogate(jnp.sum(jnp.asarray(U, float) * example.x, axis=1), example.y)
        return {"loss": space.target(prediction.output, example.y), "best": best}

    result = jonline.sweep(
        make, metrics, {"explore": [rate]}, data=data, num_rounds=num_rounds, num_seeds=16, key=0,
        record_every=400,
    )  # fmt: skip
    loss, best = (
        result.records[column].sum(axis=-1, dtype=np.float64) for column in ("loss", "best")
    )
    regret = loss - best
    assert regret.mean() <= bound
    uphill = num_rounds * (1 - rate / 2 - 0.05) - best.mean()
    assert uphill > bound
    explored = rate / 2 * num_rounds  # of which every learner loses as much
    assert explored * 0.9 <= loss.mean() <= 1.5 * explored


def test_regret_against_the_best_of_the_ball_is_below_that_of_gradient_descent():
    """sum <G, W_t - U> <= sqrt2 B sqrt(sum ||G||^2) for the estimates that a run had."""
    B = 3.0
    estimator, oracle = estimator_and_oracle("pseudo_inverse")
    rng = np.random.default_rng(3)
    data = Example(
        rng.normal(size=(50, N)).astype(np.float32),
        np.eye(3, dtype=np.float32)[rng.integers(0, 3, 50)],
    )

    def make(point, data):
        optimizer = optimizers.adaptive_ogd(point["diameter"], project=True)
        learner = structured.osp(CLASSES, estimator, optimizer, num_features=N, explore=0.3)
        return learner, Environment(streams.resample(data), oracle)

    seen = jonline.trace(make, {"diameter": B}, data=data, key=1, first=0, last=400)
    estimate = jax.jit(jax.vmap(estimator.estimate))(seen.prediction, seen.feedback)
    residual = seen.prediction.mean - np.asarray(estimate.label, np.float64)
    G = residual[:, :, None] * seen.example.x[:, None]
    models = np.asarray(seen.state.params, np.float64)
    assert np.all(np.linalg.norm(models, axis=(1, 2)) <= B / 2 * (1 + 1e-6))  # float32
    regret = np.sum(G * models) + B / 2 * np.linalg.norm(G.sum(axis=0))
    assert 0 < regret <= np.sqrt(2) * B * np.sqrt(np.sum(G**2))
