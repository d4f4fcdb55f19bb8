"""DFORD, PRank and PRIL with kernel hypotheses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import Environment, hypotheses, kernels, metrics, oracles, ordinal, streams
from tests.games import K, N, table

T = 200
LEARNERS = {
    "dford": (
        lambda h: ordinal.dford(h, K, reg=2.0, explore=0.5, clip=4.0),
        oracles.directional(),
    ),
    "prank": (lambda h: ordinal.prank(h, K), oracles.label()),
    "prank, regularised": (lambda h: ordinal.prank(h, K, reg=2.0), oracles.label()),
    "pril": (lambda h: ordinal.pril(h, K), oracles.interval(K)),
}


def played(learner, oracle, hypothesis):
    def make(point, data):
        return learner(hypothesis), Environment(streams.resample(data), oracle)

    return jonline.sweep(
        make, metrics.ordinal, {}, data=table(), num_rounds=T, num_seeds=4, key=3, record_every=20
    )


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.slow
def test_linear_kernel_plays_as_the_linear_learner(name):
    """Same keys: the same outputs in every round; thresholds within rounding of 200 terms."""
    linear = played(*LEARNERS[name], hypotheses.linear(N))
    kernel = played(*LEARNERS[name], hypotheses.kernel(kernels.linear, T, N))
    explicit = played(*LEARNERS[name], hypotheses.polynomial(N, degree=1, offset=0.0, budget=T))
    for other in (kernel, explicit):
        for metric in ("loss", "output_error"):
            np.testing.assert_array_equal(other.records[metric], linear.records[metric])
        thresholds = linear.states.thresholds
        scale = np.abs(thresholds).max()
        np.testing.assert_allclose(other.states.thresholds, thresholds, atol=1e-4 * scale)


def test_linear_kernel_is_the_linear_learner_in_float64():
    def learner(h):
        return ordinal.dford(h, K, reg=2.0, explore=0.5)  # the norm of a clip has its own rounding

    oracle = oracles.directional()
    with jax.enable_x64(True):
        hypothesis = hypotheses.kernel(kernels.linear, T, N)
        linear, kernel = (played(learner, oracle, h) for h in (hypotheses.linear(N), hypothesis))
        np.testing.assert_allclose(
            kernel.states.thresholds, linear.states.thresholds, rtol=1e-10, atol=1e-12
        )
        for seed in range(4):
            f = jax.tree.map(lambda leaf, seed=seed: leaf[0, seed], kernel.states.f)
            weights = [hypothesis.value(f, x) for x in jnp.eye(N)]
            np.testing.assert_allclose(weights, linear.states.f[0, seed], rtol=1e-10, atol=1e-12)
        norm = np.sum(linear.states.f**2, axis=-1)  # the recursion began with far larger ones
        np.testing.assert_allclose(kernel.states.f.sq_norm, norm, rtol=1e-5)


@pytest.mark.parametrize("budget", [30, 50])
def test_explicit_features_play_as_the_kernel_with_the_same_budget(budget):
    learner, oracle = LEARNERS["dford"]
    k = hypotheses.kernel(kernels.polynomial(2), budget, N)
    kernel = played(learner, oracle, k)
    explicit = played(learner, oracle, hypotheses.polynomial(N, degree=2, budget=budget))
    np.testing.assert_array_equal(kernel.records["loss"], explicit.records["loss"])
    np.testing.assert_array_equal(kernel.states.f.dropped, T - budget)
    np.testing.assert_array_equal(explicit.states.f.size, budget)


def test_budget_beyond_the_run_is_no_budget():
    learner, oracle = LEARNERS["dford"]
    results = [
        played(learner, oracle, hypotheses.kernel(kernels.gaussian(1.0), budget, N))
        for budget in (T, T + 7)
    ]
    np.testing.assert_array_equal(*(result.records["loss"] for result in results))
    np.testing.assert_array_equal(results[0].states.f.dropped, 0)


def test_kernel_learns_what_a_linear_model_cannot():
    """The label is the distance from the origin: a quadratic score, and no linear one."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2)).astype(np.float32)
    y = 1 + np.digitize(np.sum(x**2, axis=1), [0.5, 1.5, 3.0])
    data = jonline.data.from_arrays(x, y, 4)

    def loss(hypothesis):
        def make(point, data):
            learner = ordinal.dford(hypothesis, 4, reg=1.0, explore=0.4, clip=10.0)
            return learner, Environment(streams.resample(data), oracles.directional())

        result = jonline.run(
            make, metrics.ordinal, {}, data=data, num_rounds=4000, key=0, record_every=2000
        )
        return result.records["loss"][0, 0, 1] / 2000

    linear = loss(hypotheses.linear(2))
    assert loss(hypotheses.polynomial(2, degree=2)) < 0.6 * linear
    assert loss(hypotheses.kernel(kernels.polynomial(2), 500, 2)) < 0.6 * linear


def test_clipping_uses_the_norm_in_the_hilbert_space():
    """||g||^2 = ||lambda f - tau k(x, .)||^2 + ||lambda theta + tau e||^2, by explicit features."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        k = hypotheses.kernel(kernels.polynomial(2), 10, 2)
        f = k.init()
        weights = np.zeros(6)
        for x in rng.normal(size=(8, 2)):
            decay, coef = 0.1, rng.normal()
            f = k.move(f, jnp.asarray(x), decay, coef)
            weights = (1 - decay) * weights + coef * np.asarray(kernels.monomials(x, 2))
        x, tau, reg = jnp.asarray(rng.normal(size=2)), 3.0, 0.5
        thresholds = jnp.asarray([-1.0, 1.0])
        state = ordinal.OrdinalState(f, thresholds, jnp.int32(4))
        learner = ordinal.dford(k, 3, reg=reg, explore=0.5, clip=1.0)
        prediction = ordinal.DfordPrediction(
            output=jnp.int32(2), greedy=jnp.int32(2), prob=jnp.asarray(1 / tau),
            score=jnp.asarray(0.0), threshold=jnp.asarray(1.0),
        )  # fmt: skip
        new = learner.update(state, x, prediction, oracles.Directional(jnp.asarray(True)), None)
        g_f = reg * weights - tau * np.asarray(kernels.monomials(x, 2))
        g_theta = reg * np.asarray(thresholds) + tau * np.array([0.0, 1.0])
        norm = np.sqrt(g_f @ g_f + g_theta @ g_theta)
        eta = 1 / (reg * 5)
        np.testing.assert_allclose(
            new.thresholds, np.asarray(thresholds) - eta * g_theta / norm, rtol=1e-10
        )
        z = jnp.asarray(rng.normal(size=2))
        expected = (weights - eta * g_f / norm) @ np.asarray(kernels.monomials(z, 2))
        np.testing.assert_allclose(k.value(new.f, z), expected, rtol=1e-9)
