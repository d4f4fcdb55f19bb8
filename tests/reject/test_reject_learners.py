"""DRAL, DSAL and DSOL, round by round."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import hypotheses, oracles, reject
from tests.reject.games import LEARNERS, LINEAR, D, N, play, table

KEY = jax.random.key(0)


def one_round(learner, state, x, y, key=KEY):
    """The state after a round whose label is given, asked for or not; and the prediction."""
    x = jnp.asarray(x, float)
    prediction = learner.predict(state, x, key)
    answer = oracles.Label(jnp.int32(y), jnp.asarray(True))
    return learner.update(state, x, prediction, answer, key), prediction


def test_dral_example():
    learner = reject.dral(hypotheses.linear(2), cost=0.25, step_size=0.5)
    state = learner.init(KEY)
    for x, y, f, width, ask in (
        ((2, 0), 1, (0.25, 0), 0.875, True),
        ((-4, 0), 1, (-1.25, 0), 1.25, True),
        ((4, 0), 1, (-1.25, 0), 1.25, False),
    ):
        state, prediction = one_round(learner, state, x, y)
        np.testing.assert_array_equal(state.f, f)
        assert state.width == width and prediction.ask == ask
    assert prediction.score == -5 and prediction.output == -1 and prediction.prob == 0
    assert state.round == 3


@pytest.mark.parametrize("y, f, width", [(1, 1.26, 1.01), (-1, 0.58, 1.33)])
def test_dsal_example(y, f, width):
    slope = np.log(3)
    learner = reject.dsal(hypotheses.linear(2), cost=0.25, slope=slope, step_size=1 / slope)
    state = learner.init(KEY)._replace(f=jnp.array([1.0, 0.0]))
    state, prediction = one_round(learner, state, (1, 0), y)
    assert prediction.prob == 1 and prediction.ask and prediction.output == 0
    np.testing.assert_allclose([state.f[0], state.width], [f, width], rtol=1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_step_is_that_of_the_gradient(name):
    """In (w, rho) by jax.grad of the loss; DRAL for rho >= 1, off the kinks."""
    learner = LEARNERS[name](step_size=0.3)
    rng = np.random.default_rng(0)
    f, x = rng.normal(size=(2, 500, N)).astype(np.float32)
    width = rng.uniform(1, 3, 500).astype(np.float32)
    y = rng.choice([-1, 1], 500)

    def loss(model, x, y):
        z = y * jnp.sum(model[0] * x)
        if name == "dral":
            return reject.double_ramp_loss(z, model[1], D)
        return reject.double_sigmoid_loss(z, model[1], D, 2.0)

    def steps(f, width, x, y):
        state = reject.RejectState(f, width, jnp.int32(0))
        new, prediction = one_round(learner, state, x, y)
        return (new.f - f, new.width - width), jax.grad(loss)((f, width), x, y), prediction

    found, gradient, prediction = jax.jit(jax.vmap(steps))(f, width, x, y)
    for step, slope in zip(found, gradient, strict=True):
        np.testing.assert_allclose(step, -0.3 * slope, atol=1e-6)  # a difference of float32
    silent = ~np.asarray(prediction.ask)
    if name == "dral":
        assert 20 < np.sum(silent) < 480
        assert not np.any(found[0][silent]) and not np.any(found[1][silent])
    elif name == "dsol":
        assert not np.any(silent)


def test_dsal_asks_as_often_as_it_says():
    learner = reject.dsal(LINEAR, cost=D, slope=2.0, step_size=0.1)
    state = learner.init(KEY)
    keys = jax.random.split(jax.random.key(1), 20_000)
    asked = jax.jit(jax.vmap(lambda key: learner.predict(state, jnp.ones(N), key).ask))(keys)
    prob = float(learner.predict(state, jnp.ones(N), KEY).prob)
    np.testing.assert_allclose(prob, 1 / np.cosh(1) ** 2, rtol=1e-6)
    assert abs(np.mean(asked) - prob) <= 5 * np.sqrt(prob * (1 - prob) / len(keys))


@pytest.mark.parametrize("name", LEARNERS)
def test_late_answer_takes_the_gradient_of_its_prediction_and_the_step_of_its_update(name):
    learner = LEARNERS[name](step_size=lambda t: 0.4 / (t + 1))
    x = jnp.array([0.5, -0.5, 0.25])
    early = reject.RejectState(jnp.array([1.0, 0.0, 2.0]), jnp.float32(1.5), jnp.int32(0))
    prediction = learner.predict(early, x, KEY)
    answer = oracles.Label(jnp.int32(-1), jnp.asarray(True))
    now = learner.update(early, x, prediction, answer, KEY)
    late = reject.RejectState(-early.f, jnp.float32(0.25), jnp.int32(7))
    then = learner.update(late, x, prediction, answer, KEY)
    assert np.any(now.f != early.f)
    np.testing.assert_allclose(then.f - late.f, (now.f - early.f) / 8, atol=1e-6)
    np.testing.assert_allclose(then.width - late.width, (now.width - early.width) / 8, atol=1e-6)


@pytest.mark.parametrize("factory", [reject.dral, reject.dsal, reject.dsol])
def test_bad_arguments_are_named(factory):
    good = dict(cost=0.25, step_size=0.1) | ({} if factory is reject.dral else {"slope": 1.0})
    for cost in (0.0, 0.5, -0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match=rf"cost must be in \(0, 1/2\), got {cost}"):
            factory(LINEAR, **good | {"cost": cost})
    with pytest.raises(TypeError, match="cost must be a number, got '0.1'"):
        factory(LINEAR, **good | {"cost": "0.1"})
    with pytest.raises(TypeError, match="hypothesis must be Hypothesis, got int 3"):
        factory(3, **good)
    with pytest.raises(ValueError, match="step_size must be > 0 and finite, got 0"):
        factory(LINEAR, **good | {"step_size": 0})
    pair = factory(LINEAR, **good | {"step_size": lambda t: jnp.ones(2)})
    with pytest.raises(ValueError, match=r"step_size\(t\) must be a number, got shape \(2,\)"):
        play(lambda point: pair, {"any": [0.0]}, table(2))
    with pytest.raises(TypeError, match="project must be bool, got int 1"):
        factory(LINEAR, **good | {"project": 1})
    if factory is reject.dral:
        with pytest.raises(TypeError, match="exact_gradient must be bool, got str 'yes'"):
            factory(LINEAR, **good, exact_gradient="yes")
    else:
        with pytest.raises(ValueError, match="slope must be > 0 and finite, got -1"):
            factory(LINEAR, **good | {"slope": -1})


@pytest.mark.parametrize("name", LEARNERS)
def test_feedback_of_another_kind_is_an_error_that_names_the_right_one(name):
    learner = LEARNERS[name]()
    state = learner.init(KEY)
    prediction = learner.predict(state, jnp.ones(N), KEY)
    wrong = oracles.mismatch()(jnp.int32(1), prediction, KEY)
    message = rf"{name} reads Label, got Mismatch; use oracles.label_if_asked\(\)"
    with pytest.raises(TypeError, match=message):
        learner.update(state, jnp.ones(N), prediction, wrong, KEY)
