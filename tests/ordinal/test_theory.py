"""Regret and its bound: by hand, against a trace, and on a stream made for it."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import data, hypotheses, oracles, ordinal
from jonline.core import Environment, Example
from jonline.ordinal.thresholds import OrdinalPrediction, OrdinalState

NUM_FEATURES, NUM_CLASSES, REG, EXPLORE = 3, 4, 0.5, 0.4
LINEAR = hypotheses.linear(NUM_FEATURES)
COMPARATOR = OrdinalState(jnp.array([0.5, 0.0, -1.0]), jnp.array([-1.0, 0.0, 1.0]), jnp.int32(0))


def make(point, data_):
    del data_
    learner = ordinal.dford(LINEAR, NUM_CLASSES, reg=REG, explore=point["explore"])
    stream = data.linear_teacher(NUM_FEATURES, NUM_CLASSES, margin=0.05)
    return learner, Environment(stream, oracles.directional())


def test_bound_by_hand():
    # K = 3, R^2 = 3, T = e^2 rounded up to 8: 16 * 9 * 4 * ln 3 * ln 8 / (2 * 0.5)
    printed = ordinal.regret_bound(3, 3.0, 8, reg=2.0, explore=0.5)
    np.testing.assert_allclose(printed, 576 * np.log(3) * np.log(8), rtol=1e-12)
    two = ordinal.regret_bound(2, 3.0, np.array([1, 8]), reg=2.0, explore=0.5)
    np.testing.assert_allclose(two, 64 * (1 + np.log(2)) * (1 + np.log([1, 8])), rtol=1e-12)
    early = ordinal.regret_bound(3, 3.0, [2, 3], reg=1.0, explore=1.0)
    by_hand = [144 * (1 + np.log(3)) * (1 + np.log(2)), 576 * np.log(3) * np.log(3)]
    np.testing.assert_allclose(early, by_hand, rtol=1e-12)


def test_regret_of_one_round_by_hand():
    state = OrdinalState(jnp.array([1.0, 0.0, 2.0]), jnp.array([-1.0, 1.0, 4.0]), jnp.int32(7))
    example = Example(jnp.array([1.0, 1.0, 1.0]), jnp.int32(1))
    prediction = OrdinalPrediction(jnp.int32(3), jnp.float32(3.0), state.thresholds)
    metric = ordinal.regularised_loss_metric(REG, LINEAR, COMPARATOR)
    measured = metric(example, prediction, None, state)
    mine = (4 + 2 + 0) + REG / 2 * (5 + 18)  # y = 1: every threshold ought to be above f = 3
    theirs = (0.5 + 0 + 0) + REG / 2 * (1.25 + 2)  # f = -1/2
    assert measured["regularised_loss"] == mine
    assert measured["regret"] == mine - theirs


def test_against_zero_regret_is_the_loss_sum_to_the_bit():
    trace = jonline.trace(make, {"explore": EXPLORE}, key=0, first=0, last=50)
    none = ordinal.regret(trace, REG, LINEAR)
    zero = ordinal.regret(trace, REG, LINEAR, ordinal.thresholds.zero_state(LINEAR, NUM_CLASSES))
    np.testing.assert_array_equal(zero.instantaneous, none.instantaneous)
    losses = [
        ordinal.regularised_loss(score, thresholds, jnp.sum(w * w), y, REG)
        for score, w, thresholds, y in zip(
            trace.prediction.score,
            trace.state.f,
            trace.state.thresholds,
            trace.example.y,
            strict=True,
        )
    ]
    np.testing.assert_array_equal(none.instantaneous, losses)
    np.testing.assert_array_equal(none.cumulative, np.cumsum(losses, dtype=np.float64))
    assert none.instantaneous[0] == 0 and none.cumulative[-1] > 0


@pytest.fixture(scope="module")
def played():
    sweep = partial(jonline.sweep, make, num_rounds=2000, num_seeds=32, key=1, record_every=50)
    metric = ordinal.regularised_loss_metric(REG, LINEAR, COMPARATOR)
    return sweep(metric, jonline.product_grid(explore=[EXPLORE, 1.0]))


def test_sweep_and_trace_agree(played):
    trace = jonline.trace(make, {"explore": EXPLORE}, key=1, first=0, last=50)
    traced = ordinal.regret(trace, REG, LINEAR, COMPARATOR)
    first = played.records["regret"][0, 0, 0]
    np.testing.assert_allclose(traced.cumulative[-1], first, rtol=1e-5)  # sums in float32


def test_dford_stays_under_the_bound_on_its_stream(played):
    rounds = played.record_every * np.arange(1, 41)
    total = played.records["regularised_loss"].cumsum(axis=-1).mean(axis=1)  # against u = 0
    for curve, explore in zip(total, played.grid["explore"], strict=True):
        bound = ordinal.regret_bound(NUM_CLASSES, 1.0, rounds, reg=REG, explore=explore)
        assert np.all(curve <= bound)


def test_no_model_loses_less_than_zero(played):
    assert np.all(played.records["regret"] <= played.records["regularised_loss"])
    assert np.all(played.records["regularised_loss"] >= 0)
