"""The comparator: against other solvers, its certificate, and regret against it."""

import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from sklearn.linear_model import LogisticRegression

import jonline
from jonline import comparators, data, optimizers, oracles, streams, structured
from jonline.core import Environment, Example, Learner

SPACE = structured.multiclass(3)
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(300, 4)).astype(np.float32)
SCORES = FEATURES @ RNG.normal(size=(4, 3))
SEPARABLE = (FEATURES, SPACE.encode(1 + np.argmax(SCORES, axis=1)))
NOISY = (FEATURES, SPACE.encode(1 + np.argmax(SCORES + 2 * RNG.gumbel(size=(300, 3)), axis=1)))


def squares(theta, y):
    """The Fenchel-Young loss of Omega = ||.||^2 / 2 on all of R^d."""
    return jnp.sum((theta - y) ** 2) / 2


def logistic(params, examples):
    """Summed loss in base 2 and its gradient, in float64."""
    x, y = (np.asarray(part, np.float64) for part in examples)
    powers = np.exp2(x @ params.T)
    mean = powers / powers.sum(axis=1, keepdims=True)
    loss = np.sum(np.log2(powers.sum(axis=1)) - np.sum(x @ params.T * y, axis=1))
    return loss, (mean - y).T @ x


def test_logistic_in_base_2_is_that_of_scikit_learn():
    # log2 sum_i 2^theta_i - theta_y = (1/ln 2) times the natural loss of ln 2 theta. So the least
    # loss is 1/ln 2 times the natural one, at W = V / ln 2; V is centred over the classes, as W is.
    found = comparators.best_linear(SPACE.surrogate, NOISY, tolerance=1e-9)
    labels = np.argmax(NOISY[1], axis=1)
    model = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the names of its arguments
        V = model.fit(FEATURES.astype(np.float64), labels).coef_
    prob = model.predict_proba(FEATURES.astype(np.float64))[np.arange(300), labels]
    assert found.converged
    assert abs(found.loss + np.sum(np.log(prob)) / np.log(2)) < 1e-6  # their tolerance
    V = V - V.mean(axis=0)
    np.testing.assert_allclose(found.params, V / np.log(2), atol=1e-4)  # curvature > 1 here


def test_least_squares_in_closed_form():
    x, y = FEATURES.astype(np.float64), SCORES + 1.0
    W = np.linalg.lstsq(x, y)[0].T
    loss = np.sum((x @ W.T - y) ** 2) / 2
    free = comparators.best_linear(squares, (x, y), tolerance=1e-10)
    np.testing.assert_allclose(free.loss, loss, rtol=1e-9)  # the tolerance, and 10 to spare
    np.testing.assert_allclose(free.params, W, atol=1e-5)  # sqrt of it over the least curvature

    radius = np.linalg.norm(W) / 3
    gram, cross = x.T @ x, x.T @ y

    def ridge(mu):
        return np.linalg.solve(gram + mu * np.eye(4), cross).T

    mu = brentq(lambda mu: np.linalg.norm(ridge(mu)) - radius, 0, 1e6, xtol=1e-12)
    ball = comparators.best_linear(squares, (x, y), radius=radius, tolerance=1e-10)
    assert free.converged and ball.converged
    np.testing.assert_allclose(ball.loss, np.sum((x @ ridge(mu).T - y) ** 2) / 2, rtol=1e-9)
    np.testing.assert_allclose(ball.params, ridge(mu), atol=1e-5)


@pytest.mark.parametrize("radius", [0.5, 5.0, 100.0])
def test_on_separable_data_the_gradient_points_out_of_the_ball(radius):
    found = comparators.best_linear(SPACE.surrogate, SEPARABLE, radius=radius, tolerance=1e-8)
    loss, gradient = logistic(found.params, SEPARABLE)
    size, slope = np.linalg.norm(found.params), np.linalg.norm(gradient)
    assert found.converged and radius * (1 - 1e-6) < size <= radius * (1 + 1e-12)
    np.testing.assert_allclose(found.loss, loss, rtol=1e-9)
    # gap = R ||g|| (1 - cos) on the sphere, so cos is within tolerance max(1, F) / (R ||g||) of 1
    cos = -np.sum(gradient * found.params) / (size * slope)
    assert 1 - cos <= 1.01e-8 * max(1, loss) / (radius * slope)


def test_separable_data_without_a_ball_are_fitted_to_the_tolerance():
    found = comparators.best_linear(SPACE.surrogate, SEPARABLE)
    assert found.converged and 0 <= found.loss < 1e-4


@pytest.mark.parametrize("examples", [NOISY, SEPARABLE])
@pytest.mark.parametrize("radius", [0.3, 3.0])
def test_gap_bounds_what_a_longer_solve_gains(examples, radius):
    best = comparators.best_linear(SPACE.surrogate, examples, radius=radius, tolerance=1e-10)
    excesses = []
    for tolerance, max_steps in [(1e-12, 1), (1e-12, 2), (1e-1, 500), (1e-2, 500), (1e-3, 500)]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = comparators.best_linear(
                SPACE.surrogate, examples, radius=radius, tolerance=tolerance, max_steps=max_steps
            )
        assert np.linalg.norm(found.params) <= radius * (1 + 1e-12)
        assert found.num_steps <= max_steps
        excess = found.loss - best.loss
        assert -best.gap <= excess <= found.gap
        assert found.converged == (found.gap <= tolerance * max(1, found.loss))
        excesses.append(excess)
    assert max(excesses) > 1e-3  # they are not all the best


def test_what_is_not_converged_is_kept_and_told():
    with pytest.warns(RuntimeWarning, match=r"gap=.* after 1 steps, tolerance=1e-12"):
        found = comparators.best_linear(SPACE.surrogate, NOISY, tolerance=1e-12, max_steps=1)
    assert not found.converged and found.gap > 0 and found.num_steps == 1
    assert found.loss < 300 * np.log2(3) and found.params.shape == (3, 4)  # better than W = 0


class Nothing(NamedTuple):
    output: jax.Array


def _played(stream, rounds):
    """What `trace` has of a learner that plays 0 and learns nothing."""
    learner = Learner(
        init=lambda key: jnp.zeros(()),
        predict=lambda state, x, key: Nothing(state),
        update=lambda state, x, prediction, feedback, key: state,
    )

    def make(point, data):
        return learner, Environment(stream, lambda y, prediction, key: Nothing(prediction.output))

    return jonline.trace(make, {}, key=7, first=rounds[0], last=rounds[1], seed=3).example


@pytest.mark.parametrize(
    "stream",
    [
        streams.resample(Example(*NOISY)),
        streams.one_pass(Example(*NOISY)),
        data.linear_teacher(30, 4, margin=0.05),  # drawn by normals, norms and products
    ],
    ids=["resample", "one_pass", "linear_teacher"],
)
def test_examples_are_those_of_the_run_to_the_bit(stream):
    again = comparators.examples(stream, 7, 3, 1500)  # more than one chunk of the engine's
    seen = _played(stream, (1200, 1500))
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[1200:], b), again, seen)
    kinds = jax.tree.map(lambda leaf: leaf.dtype, again)
    assert kinds == jax.tree.map(lambda leaf: leaf.dtype, seen)
    other = comparators.examples(stream, jax.random.key(7), 4, 1500)
    assert not np.array_equal(other.x, again.x)


DIAMETER, NUM_ROUNDS, WINDOW = 6.0, 600, 100
STREAM = streams.resample(Example(*NOISY))


def make(point, data_):
    del data_
    optimizer = optimizers.adaptive_ogd(point["diameter"], project=True)
    learner = structured.osp(SPACE, structured.full_information(SPACE), optimizer, num_features=4)
    return learner, Environment(STREAM, oracles.label())


@pytest.fixture(scope="module")
def played():
    return jonline.sweep(
        make, structured.losses(SPACE), {"diameter": [DIAMETER / 4, DIAMETER]},
        num_rounds=NUM_ROUNDS, num_seeds=2, key=5, record_every=WINDOW,
    )  # fmt: skip


@pytest.fixture(scope="module")
def hindsight():
    """For each seed its examples, its comparator in the ball of the learners, and its losses."""
    found = []
    for seed in range(2):
        examples = comparators.examples(STREAM, 5, seed, NUM_ROUNDS)
        best = comparators.best_linear(
            SPACE.surrogate, examples, radius=DIAMETER / 2, tolerance=1e-7
        )
        curve = comparators.loss_curve(SPACE.surrogate, best.params, examples, WINDOW)
        found.append((examples, best, curve))
    return found


def test_loss_curve_ends_at_the_loss(hindsight):
    for examples, best, curve in hindsight:
        assert curve.shape == (NUM_ROUNDS // WINDOW,)
        np.testing.assert_allclose(curve[-1], best.loss, rtol=1e-12)  # the same numbers in float64
        half = NUM_ROUNDS // 2
        loss, _ = logistic(best.params, [part[:half] for part in examples])
        np.testing.assert_allclose(curve[half // WINDOW - 1], loss, rtol=1e-12)


def test_long_streams_are_summed_over_all_their_rounds():
    x = np.tile(FEATURES, (9, 1))[:2500]  # two and a half batches
    y = np.tile(NOISY[1], (9, 1))[:2500]
    params = RNG.normal(size=(3, 4))
    curve = comparators.loss_curve(SPACE.surrogate, params, (x, y), 500)
    np.testing.assert_allclose(curve[-1], logistic(params, (x, y))[0], rtol=1e-12)


def test_regret_is_what_was_lost_more_than_the_comparator(played, hindsight):
    curves = np.stack([curve for _, _, curve in hindsight])
    gaps = [best.gap for _, best, _ in hindsight]
    regret = comparators.surrogate_regret(played.records, curves, gaps)
    assert regret.realised.shape == regret.expected.shape == (2, 2, NUM_ROUNDS // WINDOW)
    mistakes = played.records["zero_one"].sum(axis=-1)
    losses = np.array([best.loss for _, best, _ in hindsight])
    # counts less a sum in float64, and a rounding of each window's sum
    np.testing.assert_allclose(regret.realised[..., -1], mistakes - losses, rtol=1e-9)
    trace = jonline.trace(make, {"diameter": DIAMETER}, key=5, first=0, last=2 * WINDOW, seed=1)
    y = trace.example.y.astype(float)
    expected = np.sum(1 - np.sum(trace.prediction.expected * y, axis=1)) - curves[1, 1]
    np.testing.assert_allclose(regret.expected[1, 1, 1], expected, atol=1e-3)  # float32 losses
    np.testing.assert_array_equal(regret.gap, gaps)
    same = comparators.surrogate_regret(played.records, curves[0], gaps[0])  # one for all seeds
    np.testing.assert_array_equal(same.realised[:, 0], regret.realised[:, 0])
    assert not np.array_equal(same.realised[:, 1], regret.realised[:, 1])


def test_descent_has_the_regret_of_its_bound_and_no_model_of_the_ball_more(played, hindsight):
    losses = played.records["surrogate_loss"][1].sum(axis=-1, dtype=np.float64)
    bound = np.sqrt(2) * DIAMETER * np.sqrt(played.states.sq_sum[1])
    for seed, (examples, best, _) in enumerate(hindsight):
        assert best.converged and losses[seed] - (best.loss - best.gap) <= bound[seed]
        last = played.states.params[1, seed].astype(np.float64)
        assert logistic(last, examples)[0] >= best.loss - best.gap


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"radius": 0.0}, ValueError, "radius must be > 0"),
        ({"radius": -1.0}, ValueError, "radius must be > 0"),
        ({"tolerance": 0.0}, ValueError, "tolerance must be > 0"),
        ({"max_steps": 0}, ValueError, "max_steps must be >= 1"),
        ({"surrogate": 3}, TypeError, "surrogate must be a function"),
        ({"examples": FEATURES}, TypeError, r"examples must be \(x, y\)"),
        ({"examples": (FEATURES, NOISY[1][:, 0])}, ValueError, "y must have two axes"),
        ({"examples": (FEATURES[:5], NOISY[1])}, ValueError, "x has 5 rows and y 300"),
        ({"examples": (FEATURES[:0], NOISY[1][:0])}, ValueError, "at least one row"),
        ({"examples": (FEATURES.astype(str), NOISY[1])}, TypeError, "x must hold numbers"),
        (
            {"examples": (np.full((300, 4), np.nan), NOISY[1])},
            ValueError,
            "x must be f",
        ),
        ({"surrogate": lambda theta, y: theta - y}, ValueError, "must return a scalar"),
        ({"examples": (FEATURES, NOISY[1][:, :2])}, ValueError, "theta must have shape"),
    ],
)
def test_bad_input_is_told(change, error, message):
    arguments = {"surrogate": SPACE.surrogate, "examples": NOISY} | change
    with pytest.raises(error, match=message):
        comparators.best_linear(**arguments)


def test_errors_of_the_other_functions(played):
    with pytest.raises(TypeError, match="stream must be Stream"):
        comparators.examples(NOISY, 0, 0, 10)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seed must be >= 0"):
        comparators.examples(STREAM, 0, -1, 10)
    with pytest.raises(ValueError, match="num_rounds must be >= 1"):
        comparators.examples(STREAM, 0, 0, 0)
    with pytest.raises(ValueError, match="num_rounds=300 is not a multiple of record_every=7"):
        comparators.loss_curve(SPACE.surrogate, np.zeros((3, 4)), NOISY, 7)
    with pytest.raises(ValueError, match=r"params must have shape \(3, 4\), got \(4, 3\)"):
        comparators.loss_curve(SPACE.surrogate, np.zeros((4, 3)), NOISY, 100)
    windows = NUM_ROUNDS // WINDOW
    with pytest.raises(ValueError, match="comparator_loss must have shape"):
        comparators.surrogate_regret(played.records, np.zeros(windows - 1), 0.0)
    with pytest.raises(ValueError, match="comparator_loss must have shape"):
        comparators.surrogate_regret(played.records, 3.0, 0.0)
    with pytest.raises(ValueError, match="gap must be one number >= 0"):
        comparators.surrogate_regret(played.records, np.zeros(windows), -1.0)
    with pytest.raises(ValueError, match="records must have 'target_loss'"):
        comparators.surrogate_regret({}, np.zeros(windows), 0.0)
