"""Surrogate losses with a gap, and what holds for Gaptron and Gappletron alike."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jonline import oracles, structured
from jonline.optimizers import OgdState, from_optax

ALGORITHMS = {"gaptron": structured.gaptron, "gappletron": structured.gappletron}
LOSSES = {"logistic": structured.logistic_gap, "hinge": structured.hinge_gap}


def _many_scores(num_classes, num=3000, seed=0):
    """Scores of many scales, all equal, near-ties of two classes, margins at the cut-off."""
    rng = np.random.default_rng([seed, num_classes])
    scores = rng.normal(size=(num, num_classes)) * 10 ** rng.uniform(-2, 1.5, (num, 1))
    scores[0] = 0
    two = np.arange(num) % 3 == 1
    scores[two, 2:] -= 40
    scores[two, 1] = scores[two, 0] + rng.uniform(-1.2, 1.2, two.sum()) ** 3
    return scores


def _learner(algorithm, loss, explore, step=1.0):
    optimizer = from_optax(optax.sgd(step))
    return ALGORITHMS[algorithm](
        loss.num_classes, 2, diameter=1.0, explore=explore, loss=loss, optimizer=optimizer
    )


# Formulas.


def test_losses_by_hand():
    def table(loss, scores):  # of every label
        y = jnp.eye(3)
        each = jax.vmap(jax.vmap(loss.loss, (None, 0)), (0, None))(scores, y)
        residuals = jax.vmap(jax.vmap(loss.residual, (None, 0)), (0, None))(scores, y)
        return each, residuals, jax.vmap(loss.gaptron.value)(scores)

    hinge, plain = structured.hinge_gap(3), structured.hinge_gap(3, cutoff=1.0)
    with jax.enable_x64(True):
        tables = jax.jit(
            lambda a, b: (table(structured.logistic_gap(3), a), table(hinge, b), table(plain, b))
        )
        # sigma = (1/2, 1/4, 1/4) and (3/4, 1/8, 1/8).
        of_sigma = np.log([[4.0, 2.0, 2.0], [6.0, 1.0, 1.0]])
        scores = np.array([[0.25, 0.0, -1.0], [0.75, 0.0, -1.0]])
        logistic, hinge, plain = jax.device_get(tables(of_sigma, scores))
    # rtol: rounding of float64.
    np.testing.assert_allclose(logistic[0], [[1, 2, 2], [2 - np.log2(3), 3, 3]], rtol=1e-14)
    residual = logistic[1][1, 1] * np.log(2)
    np.testing.assert_allclose(residual, [3 / 4, -7 / 8, 1 / 8], rtol=1e-14)
    np.testing.assert_array_equal(hinge[0], [[0.75, 1.25, 2.25], [0, 1.75, 2.75]])
    np.testing.assert_array_equal(hinge[1][0], [[-1, 1, 0], [1, -1, 0], [1, 0, -1]])
    np.testing.assert_array_equal(hinge[1][1], [[0, 0, 0], [1, -1, 0], [1, 0, -1]])
    np.testing.assert_array_equal(hinge[2], [0.75, 0])
    np.testing.assert_array_equal(plain[0], [[0.75, 1.25, 2.25], [0.25, 1.75, 2.75]])
    np.testing.assert_array_equal(plain[2], [0.75, 0.25])


@pytest.mark.parametrize("num_classes", range(2, 13))
def test_gap_inequality(num_classes):
    """(1 - a)[k* != y] + a (K - 1)/K <= (1 - delta) loss, and no larger delta would do."""
    K = num_classes
    losses = [
        structured.logistic_gap(K),
        structured.hinge_gap(K),
        structured.hinge_gap(K, cutoff=1.0),
    ]
    slacks = [(1 / (2 * K), 1 / K), (min(1 / K, 1 / 3),) * 2, (1 / K,) * 2]

    def excess(scores, y):
        wrong = 1 - y[jnp.argmax(scores)]
        pairs = []
        for loss in losses:
            for gap in (loss.gaptron, loss.gappletron):
                a = gap.value(scores)
                risk = (1 - a) * wrong + a * (K - 1) / K
                pairs.append((a, risk, loss.loss(scores, y)))
        return pairs

    with jax.enable_x64(True):
        each_label = jax.vmap(jax.vmap(excess, (None, 0)), (0, None))
        values = jax.device_get(jax.jit(each_label)(_many_scores(K), jnp.eye(K)))
    stated = [gap.slack for loss in losses for gap in (loss.gaptron, loss.gappletron)]
    np.testing.assert_allclose(stated, np.ravel(slacks), rtol=1e-15)
    for (a, risk, loss), slack in zip(values, stated, strict=True):
        assert np.all((a >= 0) & (a <= 1)) and np.all(loss >= 0)
        # 1e-12: float64 rounding of risks up to 1.
        assert np.all(risk <= (1 - slack) * loss + 1e-12)
        # Some of the scores come within 2 % of equality.
        ratio = np.max(risk[loss > 1e-6] / loss[loss > 1e-6])
        assert ratio > 0.98 * (1 - slack)


def test_residual_is_the_gradient_and_is_bounded_by_the_loss():
    K = 5
    losses = [
        structured.logistic_gap(K),
        structured.logistic_gap(K, base=5.0),
        structured.hinge_gap(K),
        structured.hinge_gap(K, cutoff=0.9),
    ]

    def both(scores, y):
        return [
            (loss.residual(scores, y), jax.grad(loss.loss)(scores, y), loss.loss(scores, y))
            for loss in losses
        ]

    scores = _many_scores(K)[1:]
    with jax.enable_x64(True):
        values = jax.jit(jax.vmap(jax.vmap(both, (None, 0)), (0, None)))(scores, jnp.eye(K))
        values = jax.device_get(values)
    for (residual, grad, value), loss in zip(values, losses, strict=True):
        # 1e-13: float64 rounding of numbers below 10.
        np.testing.assert_allclose(residual, grad, atol=1e-13)
        assert np.all(np.sum(residual**2, axis=-1) <= loss.smoothness * value + 1e-13)
    assert losses[0].smoothness == pytest.approx(2 / np.log(2))
    assert losses[2].smoothness == 4
    # Some scores come within 5 % of the cut-off, where the bound of the hinge loss is met.
    residual, _, value = values[2]
    assert np.any(np.sum(residual**2, axis=-1) > 0.95 * 4 * value + 1e-13)
    assert structured.hinge_gap(K, cutoff=1.0).smoothness == np.inf


def test_slack_of_other_bases():
    assert structured.logistic_gap(4, base=1.5).gappletron.slack == 0.25
    assert structured.logistic_gap(4, base=1.5).gaptron.slack > 1 / 8
    for K in (3, 5, 10):
        wide = structured.logistic_gap(K, base=float(K))
        assert wide.gaptron.slack == wide.gappletron.slack == 0


# Expectation.


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("loss", LOSSES)
def test_bandit_gradient_is_that_of_the_label_in_expectation(algorithm, loss):
    K, explore = 4, 0.3
    surrogate = LOSSES[loss](K)
    learner = _learner(algorithm, surrogate, explore)
    eye = jnp.eye(K)

    def moments(W, x, y):
        state = learner.init(None)._replace(params=W)
        prediction = learner.predict(state, x, jax.random.key(0))

        def gradient(feedback, output, prob):
            asked = prediction._replace(output=output, prob=prob)
            return W - learner.update(state, x, asked, feedback, None).params

        def of_output(k):
            wrong = jnp.any(eye[k] != y)
            return gradient(oracles.Mismatch(wrong), eye[k], prediction.expected[k])

        each = jax.vmap(of_output)(jnp.arange(K))
        P = prediction.expected
        full = gradient(oracles.Label(y, jnp.asarray(True)), eye[0], P[0])
        second = jnp.sum(P * jnp.sum(each**2, axis=(1, 2)))
        value = surrogate.loss(prediction.score, y) * jnp.sum(x**2)
        return P, jnp.einsum("k,kij->ij", P, each), full, second, value

    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        Ws, xs = rng.normal(size=(50, K, 2)), rng.normal(size=(50, 2))
        Ws[0] = 0
        eye = jnp.eye(K)
        labels = eye[rng.integers(K, size=50)]
        values = jax.device_get(jax.jit(jax.vmap(moments))(Ws, xs, labels))
    P, mean, full, second, value = values
    # 1e-14, 1e-13: float64 rounding; gradients are below 30.
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-14)
    assert np.all(P >= explore / K - 1e-15)
    np.testing.assert_allclose(mean, full, atol=1e-13)
    assert np.any(np.abs(full) > 0.1)
    assert np.all(second <= K / explore * surrogate.smoothness * value + 1e-12)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_outputs_are_drawn_by_the_distribution(algorithm):
    K, num = 3, 40_000
    learner = _learner(algorithm, structured.logistic_gap(K), 0.25)
    W = jnp.log(jnp.asarray([[3.0, 1.0], [1.0, 1.0], [0.5, 1.0]]))
    state = learner.init(None)._replace(params=W)
    x = jnp.asarray([1.0, 0.0])
    keys = jax.random.split(jax.random.key(2), num)
    drawn = jax.jit(jax.vmap(learner.predict, (None, None, 0)))(state, x, keys)
    P = np.asarray(drawn.expected[0], float)
    frequency = np.mean(drawn.output, axis=0, dtype=float)
    assert np.all(np.abs(frequency - P) < 5 * np.sqrt(P * (1 - P) / num))
    np.testing.assert_array_equal(drawn.output.sum(axis=1), 1)
    np.testing.assert_array_equal(drawn.prob, np.asarray(drawn.expected)[drawn.output == 1])


# Contract.


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_score_that_is_not_a_number_plays_no_class(algorithm, loss):
    learner = _learner(algorithm, LOSSES[loss](3), 0.5)
    state = learner.init(jax.random.key(0))
    state = state._replace(params=state.params.at[1].set(jnp.nan))
    predict = jax.jit(jax.vmap(learner.predict, (None, None, 0)))
    output = predict(state, jnp.ones(2), jax.random.split(jax.random.key(0), 8)).output
    np.testing.assert_array_equal(output, np.full((8, 3), np.nan))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_default_optimizer_is_that_of_the_comparison(algorithm):
    loss = structured.logistic_gap(2)
    learner = ALGORITHMS[algorithm](2, 1, diameter=6.0, explore=0.5, loss=loss)
    x, key = jnp.asarray([2.0]), jax.random.key(0)
    state = learner.init(key)
    assert isinstance(state, OgdState)
    label = oracles.Label(jnp.asarray([1.0, 0.0]), jnp.asarray(True))
    state = learner.update(state, x, learner.predict(state, x, key), label, key)
    # eta ||G|| = 6 / sqrt 2 in the first round, along (1, -1) / sqrt 2. rtol: float32.
    np.testing.assert_allclose(state.params, [[3.0], [-3.0]], rtol=1e-6)
    silent = oracles.Label(jnp.asarray([0.0, 1.0]), jnp.asarray(False))
    same = learner.update(state, x, learner.predict(state, x, key), silent, key)
    np.testing.assert_array_equal(same.params, state.params)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_feedback_that_cannot_be_used_is_an_error(algorithm):
    x, key, loss = jnp.ones(2), jax.random.key(0), structured.hinge_gap(3)
    learner = _learner(algorithm, loss, 0.0)
    state = learner.init(key)
    prediction = learner.predict(state, x, key)
    wrong = oracles.Mismatch(jnp.asarray(True))
    with pytest.raises(
        ValueError, match=f"explore must be > 0 where {algorithm} reads Mismatch, got 0.0"
    ):
        learner.update(state, x, prediction, wrong, key)
    number = oracles.Label(jnp.int32(2), jnp.asarray(True))
    with pytest.raises(ValueError, match=r"unit vectors of shape \(3,\), got \(\); structured"):
        learner.update(state, x, prediction, number, key)
    message = f"{algorithm} reads Mismatch or Label, got Loss; use oracles.mismatch or"
    with pytest.raises(TypeError, match=message):
        learner.update(state, x, prediction, oracles.Loss(jnp.ones(())), key)
    with pytest.raises(ValueError, match=r"x must have shape \(2,\), got \(3,\)"):
        learner.predict(state, jnp.ones(3), key)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_arguments_out_of_range_are_named(algorithm):
    good = dict(
        num_classes=3, num_features=2, diameter=1.0, explore=0.5, loss=structured.logistic_gap(3)
    )
    for bad, error, message in (
        (dict(num_classes=1), ValueError, "num_classes must be >= 2, got 1"),
        (dict(num_features=0), ValueError, "num_features must be >= 1, got 0"),
        (dict(diameter=0.0), ValueError, "diameter must be > 0 and finite, got 0.0"),
        (dict(explore=1.5), ValueError, r"explore must be in \[0, 1\], got 1.5"),
        (dict(num_classes=4), ValueError, "of num_classes=4 classes, got one of 3"),
        (dict(loss="logistic"), TypeError, "loss must be SurrogateGap, got str 'logistic'"),
        (dict(optimizer="sgd"), TypeError, "optimizer must be OnlineOptimizer, got str"),
    ):
        with pytest.raises(error, match=message):
            ALGORITHMS[algorithm](**(good | bad))


def test_arguments_of_losses_out_of_range_are_named():
    for make in LOSSES.values():
        with pytest.raises(ValueError, match="num_classes must be >= 2, got 1"):
            make(1)
    with pytest.raises(ValueError, match="base must be > 1 and finite, got 1.0"):
        structured.logistic_gap(3, base=1.0)
    with pytest.raises(ValueError, match=r"cutoff must be in \(0, 1\], got 0"):
        structured.hinge_gap(3, cutoff=0)
    with pytest.raises(TypeError, match="base must be known before tracing, got a traced value"):
        jax.jit(lambda base: structured.logistic_gap(3, base=base).smoothness)(2.0)


# Behaviour.


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_guarantee_for_the_logistic_loss_in_base_k(algorithm):
    """A fair coin between two of ten classes: mistakes exceed the loss by .5 - log10 2 a round."""
    K, T = 10, 2000
    coin = np.random.default_rng(3).integers(2, size=T)

    def mistakes(loss):
        learner = ALGORITHMS[algorithm](K, 1, diameter=10.0, explore=0.0, loss=loss)
        x, eye = jnp.ones(1), jnp.eye(K)

        def one(state, k):
            prediction = learner.predict(state, x, jax.random.key(0))
            label = oracles.Label(eye[k], jnp.asarray(True))
            mean = 1 - jnp.mean(prediction.expected[:2])  # over the coin too
            return learner.update(state, x, prediction, label, None), mean

        return np.asarray(jax.jit(lambda k: jax.lax.scan(one, learner.init(None), k)[1])(coin))

    wide, two = structured.logistic_gap(K, base=10.0), structured.logistic_gap(K)
    best = jnp.asarray([20.0, 20.0] + [-20.0] * 8)
    each = mistakes(wide)
    assert np.all(each >= 0.5 - 1e-6)
    # 1e-6: float32.
    assert wide.loss(best, jnp.eye(K)[0]) == pytest.approx(np.log10(2), abs=1e-6)
    for rounds in (each[:500], each[-500:]):
        assert rounds.mean() - wide.loss(best, jnp.eye(K)[0]) >= 0.5 - 0.30103 - 1e-5
    assert mistakes(two)[-500:].mean() < two.loss(best, jnp.eye(K)[0])
