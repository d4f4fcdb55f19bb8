"""The bounds of the theorems hold on streams made for them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import Environment, hypotheses, oracles, reject, streams
from jonline.core import Example
from jonline.reject.theory import (
    Separator,
    local_regret,
    local_regret_bound,
    misclassified_bound,
    rejected_bound,
    smooth_step_size,
)
from tests.reject.games import play

T, N = 4000, 4
W, WIDTH = np.array([3.0, 1.5, 0.0, 0.0]), 1.0
POINTS = {"cost": [0.1, 0.25, 0.4, 0.25, 0.4], "step_size": [0.5, 0.5, 0.5, 0.1, 1.0]}


def stream(margin, flipped=0, seed=0):
    """Rows of norm at most 4 with |<w, x>| >= margin; their signs, some of the first flipped."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(20 * T, N)) * 2
    keep = (np.abs(x @ W) >= margin) & (np.sum(x**2, axis=1) <= 16)
    x = x[keep][:T].astype(np.float32)
    y = np.where(x @ W > 0, 1, -1).astype(np.int32)
    y[rng.permutation(10 * flipped)[:flipped]] *= -1
    assert len(x) == T
    return Example(x, y)


def counts(data, **options):
    """Of each point: rejections where it asked, rounds in which rho grew, wrong ones of these."""
    states, predictions, _, last = play(lambda p: reject.dral(
        hypotheses.linear(N), **p, **options), POINTS, data)  # fmt: skip
    width = np.concatenate([states.width, last.width[:, None]], 1)
    grew = np.diff(width, axis=1) > 0
    ask, output = np.asarray(predictions.ask), np.asarray(predictions.output)
    wrong = grew & (output * data.y < 0)
    return [np.sum(hits, axis=1) for hits in (ask, ask & (output == 0), grew, wrong)]


def bounds(function, data, comparator, **options):
    return np.array([
        function(comparator, cost=d, step_size=eta,
                 sq_radius=float(np.max(np.sum(data.x**2, axis=1))), **options)
        for d, eta in zip(POINTS["cost"], POINTS["step_size"], strict=True)
    ])  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"project": True}])
def test_counts_on_a_separable_stream_are_below_the_bounds(options):
    """Theorem 2, as printed and as the margin gives it; they do not grow with T."""
    data = stream(WIDTH + 1)
    comparator = Separator(W @ W, WIDTH)
    asked, rejected, grew, wrong = counts(data, **options)
    for tight in (False, True):
        bound = bounds(rejected_bound, data, comparator, tight=tight)
        assert np.all(rejected <= asked) and np.all(asked <= bound)
        bound = bounds(misclassified_bound, data, comparator, tight=tight)
        assert np.all(wrong <= grew) and np.all(grew <= bound)
    assert np.all(bound < T / 4) and np.any(wrong > 0) and np.all(asked > 0)


def test_counts_on_a_noisy_stream_are_below_the_bounds():
    """Theorem 3, with the loss of the comparator."""
    data = stream(WIDTH + 1, flipped=20)
    asked, rejected, grew, wrong = counts(data)
    z = data.y * (data.x @ W)
    for cost, eta, *found in zip(*POINTS.values(), asked, rejected, grew, wrong, strict=True):
        loss = float(np.sum(reject.double_ramp_loss(jnp.asarray(z), jnp.float32(WIDTH), cost)))
        assert 39 < loss < 41  # 20 examples with the whole loss of 2
        of_paper = dict(cost=cost, step_size=eta, sq_radius=16.0)
        comparator = Separator(float(W @ W), WIDTH, loss)
        assert found[1] <= found[0] <= rejected_bound(comparator, **of_paper)
        bound = misclassified_bound(comparator, **of_paper)
        assert found[3] <= found[2] <= bound < T
    assert np.sum(wrong) > 10


def test_bounds_by_hand():
    """d = 1/4, eta = 1, R^2 = 3, ||w||^2 = 3, rho = 1: W R = 3, eta d = 1/4."""
    comparator, more = Separator(3.0, 1.0), dict(cost=0.25, step_size=1.0, sq_radius=3.0)
    # m21 (1 + d) = min(6/5, 3/2/3) = 1/2, m22 (1 - d) = max(2/5, 9/2/6) = 3/4: m21.. / m22 = 1/2
    least, k = (1 + 0.25 + 0.5) / 0.5, (1 + 2.25 + 1.5) / (2 * 0.5)
    assert k == 4.75 and least == 3.5
    np.testing.assert_allclose(rejected_bound(comparator, **more), 3 * 4.75**2 + 3.75**2)
    # the margin gives (1 - d) (2 rho + 1) = 9/4 in place of 1/2
    np.testing.assert_allclose(rejected_bound(comparator, **more, tight=True), 3 * 3.5**2 + 2.5**2)
    alpha = max((1 + 2) / 2, 4.75 / 4.5)
    np.testing.assert_allclose(
        misclassified_bound(comparator, **more, tight=True), 3 * alpha**2 + (1 - alpha) ** 2
    )
    # m1 = min(1, 2 / (5/4)) = 1, m22 = 1
    np.testing.assert_allclose(
        rejected_bound(comparator._replace(loss=2.0), **more),
        3 * 4.75**2 + 3.75**2 + 2 * 4.75 * 2.0,
    )


def test_lemmas_hold_at_every_score():
    """L_dr >= m1 d (1 + rho - z) and >= m21 (1 + d) - m22 (1 - d) (rho + z) within W R."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        d, rho = rng.uniform(0.01, 0.49), 1 + rng.exponential()
        over = 1 + rng.exponential()
        reach = rho + over
        m1 = min(1 / rho, 2 / (d * (1 + rho + reach)))
        m21 = min(2 * (2 * rho + 1) / (reach + rho + 1), (1 + d * over) / (over + 1)) / (1 + d)
        m22 = max(2 / (reach + rho + 1), ((2 - d) * over + 1) / ((over + 1) * over)) / (1 - d)
        z = np.linspace(-reach, reach, 400)
        ramp = [np.clip(1 - a, 0, 2) for a in (z - rho, z + rho)]
        loss = d * ramp[0] + (1 - d) * ramp[1]
        assert np.all(loss >= m1 * d * (1 + rho - z) - 1e-12)
        assert np.all(loss >= m21 * (1 + d) - m22 * (1 - d) * (rho + z) - 1e-12)


@pytest.mark.parametrize("factory", [reject.dsal, reject.dsol])
def test_local_regret_is_below_its_bound(factory):
    data, sq_radius, slope = stream(0.0, flipped=400), 16.0, 2.0
    step_size = smooth_step_size(slope=slope, sq_radius=sq_radius)
    np.testing.assert_allclose(step_size, 5 / (4 * 17))
    hypothesis = hypotheses.linear(N)

    def make(point, data):
        learner = factory(hypothesis, cost=0.25, slope=slope, step_size=step_size)
        return learner, Environment(streams.resample(data), oracles.label_if_asked())

    result = jonline.run(
        make, local_regret(hypothesis, cost=0.25, slope=slope), {}, data=data, num_rounds=T,
        key=0, record_every=T // 4,
    )  # fmt: skip
    regret = np.cumsum(result.records["local_regret"][0, 0])
    rounds = T // 4 * np.arange(1, 5)
    tight, printed = (
        local_regret_bound(slope=slope, sq_radius=sq_radius, num_rounds=rounds, tight=tight)
        for tight in (True, False)
    )
    assert np.all(regret > 0) and np.all(regret <= tight) and np.all(tight <= printed)
    np.testing.assert_allclose(printed, 4 * 4 / 5 * 17 * (rounds + 1))


def test_local_regret_is_the_squared_gradient():
    hypothesis = hypotheses.linear(N)
    w, x, y = jnp.array([0.5, -1.0, 0.0, 2.0]), jnp.array([1.0, 0.5, -0.25, 0.25]), jnp.int32(-1)
    width = jnp.float32(0.75)

    def loss(w, width):
        return reject.double_sigmoid_loss(y * jnp.sum(w * x), width, 0.25, 3.0)

    in_w, in_width = jax.grad(loss, (0, 1))(w, width)
    prediction = reject.RejectPrediction(0, True, 1.0, jnp.sum(w * x), width)
    metric = local_regret(hypothesis, cost=0.25, slope=3.0)
    found = metric(Example(x, y), prediction, None, None)["local_regret"]
    np.testing.assert_allclose(found, jnp.sum(in_w**2) + in_width**2, rtol=1e-5)


def test_bad_arguments_are_named():
    good = dict(cost=0.25, step_size=0.1, sq_radius=4.0)
    for comparator, message in (
        (Separator(0.0, 1.0), "sq_norm must be > 0"),
        (Separator(1.0, -1.0), "width must be > 0"),
        (Separator(1.0, 1.5), r"W R must be >= rho \+ 1 = 2.5, got 2.0"),
        (Separator(1.0, 0.5, 1.0), "width must be >= 1 where there is loss, got 0.5"),
    ):
        for bound in (rejected_bound, misclassified_bound):
            with pytest.raises(ValueError, match=message):
                bound(comparator, **good)
    with pytest.raises(ValueError, match="tight must be False where there is loss"):
        rejected_bound(Separator(1.0, 1.0, 1.0), **good, tight=True)
    with pytest.raises(TypeError, match="comparator must be Separator, got float 1.0"):
        rejected_bound(1.0, **good)
    with pytest.raises(ValueError, match="num_rounds must be >= 1, got 0"):
        local_regret_bound(slope=1.0, sq_radius=1.0, num_rounds=0)
