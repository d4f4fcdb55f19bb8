"""DRAL, DSAL and DSOL with kernel hypotheses."""

import jax
import numpy as np
import pytest

import jonline
from jonline import Environment, hypotheses, kernels, oracles, reject, streams
from tests.reject.games import LEARNERS, N, play, table

pytestmark = pytest.mark.slow

T = 200
POINTS = {"step_size": [0.05, 0.2, 0.5]}


@pytest.mark.parametrize("name", LEARNERS)
def test_linear_kernel_plays_as_the_linear_learner(name):
    """Same keys: the same queries and outputs; widths within rounding of float64."""
    with jax.enable_x64(True):
        data = table(T)
        results = [
            play(lambda p, h=h: LEARNERS[name](h, **p), POINTS, data)
            for h in (
                hypotheses.linear(N),
                hypotheses.kernel(kernels.linear, T, N),
                hypotheses.polynomial(N, degree=1, offset=0.0),
            )
        ]
        for _, predictions, _, last in results[1:]:
            for field in ("output", "ask"):
                np.testing.assert_array_equal(
                    getattr(predictions, field), getattr(results[0][1], field)
                )
            np.testing.assert_allclose(predictions.score, results[0][1].score, atol=1e-12)
            np.testing.assert_allclose(last.width, results[0][3].width, atol=1e-12)


def test_only_rounds_that_learn_take_a_term():
    """With room for 10 terms the newest 10 queries are held, whatever went by unasked."""
    budget = 10
    hypothesis = hypotheses.kernel(kernels.gaussian(1.0), budget, N, keep_norm=False)
    data = table(T)
    _, predictions, _, last = play(lambda p: LEARNERS["dral"](hypothesis, **p), POINTS, data)
    asks = np.asarray(predictions.ask)
    num = np.sum(asks, axis=1)
    assert np.all(num > budget) and np.any(num < T)
    np.testing.assert_array_equal(last.f.size + last.f.dropped, num)
    np.testing.assert_array_equal(last.f.size, budget)
    assert np.all(last.f.coefs != 0)
    for i in range(len(num)):
        newest = data.x[asks[i]][-budget:]
        held = np.asarray(last.f.points[i]).T
        np.testing.assert_array_equal(held[np.lexsort(held.T)], newest[np.lexsort(newest.T)])


def test_a_label_that_teaches_nothing_takes_no_term():
    """DRAL asked in every round: outside of its band it has no gradient."""
    hypothesis = hypotheses.kernel(kernels.gaussian(1.0), T, N, keep_norm=False)
    states, _, _, last = play(
        lambda p: reject.always(LEARNERS["dral"](hypothesis, **p, project=True)), POINTS, table(T)
    )
    width = np.concatenate([states.width, last.width[:, None]], 1)
    num = np.sum(np.diff(width, axis=1) != 0, axis=1)
    assert np.any((num > 0) & (num < T))
    num_terms = np.asarray(last.f.size)
    assert np.all(num <= num_terms) and num_terms[-1] < T


@pytest.mark.parametrize("name", ["dral", "dsal"])
def test_kernel_learns_what_a_linear_model_cannot(name):
    """Inside or outside of a circle."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2)).astype(np.float32)
    y = np.where(np.sum(x**2, axis=1) > 1.4, 1, -1)
    data = jonline.data.from_arrays(x, y)

    def risk(hypothesis):
        def make(point, data):
            learner = LEARNERS[name](hypothesis)
            return learner, Environment(streams.resample(data), oracles.label_if_asked())

        result = jonline.run(
            make, reject.losses(0.25), {}, data=data, num_rounds=3000, key=0, record_every=1000
        )
        return result.records["risk"][0, 0, 2] / 1000

    linear = risk(hypotheses.linear(2))
    assert risk(hypotheses.polynomial(2, degree=2)) < 0.5 * linear
    assert risk(hypotheses.kernel(kernels.gaussian(1.0), 500, 2, keep_norm=False)) < 0.7 * linear
