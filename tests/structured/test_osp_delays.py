"""OSP when answers come late: fixed and variable delays, from labels and from bandit feedback."""

import jax
import numpy as np
import pytest

import jonline
from jonline import Environment, delays, optimizers, oracles, streams, structured
from jonline.core import Example

N, B, DELAY = 4, 20.0, 5
CLASSES = structured.multiclass(3)
KINDS = {
    "labels": (structured.full_information(CLASSES), oracles.label()),
    "right or wrong": (structured.inverse_weighted(CLASSES), oracles.mismatch()),
    "loss": (structured.pseudo_inverse(CLASSES), oracles.loss(CLASSES.target)),
}
FIXED = {
    "odaftrl": optimizers.odaftrl(B, delay=DELAY),
    "bold": optimizers.bold(optimizers.adaptive_ogd(B, project=True), delay=DELAY),
    "solid": optimizers.solid_ogd(B, gradient_bound=2.0, max_delay=DELAY),
}


def planted(num_rows=200, seed=0):
    """Three classes in corners that a model of the ball tells apart; rows of about unit norm."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, num_rows)
    x = np.eye(3, N)[label] + 0.1 * rng.normal(size=(num_rows, N))
    return Example(x.astype(np.float32), np.eye(3, dtype=np.float32)[label])


def maker(kind, optimizer, delay=None, explore=0.2):
    estimator, oracle = KINDS[kind]

    def make(point, data):
        learner = structured.osp(CLASSES, estimator, optimizer, num_features=N, explore=explore)
        return learner, Environment(streams.resample(data), oracle, delay)

    return make


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delay", ["fixed", "variable"])
@pytest.mark.slow
def test_learns_in_every_setting_of_the_paper(kind, delay):
    if delay == "fixed":
        optimizer, late = FIXED["odaftrl"], delays.fixed(DELAY)
    else:
        optimizer, late = FIXED["solid"], delays.uniform(DELAY)
    result = jonline.sweep(
        maker(kind, optimizer, late), structured.losses(CLASSES), {}, data=planted(),
        num_rounds=600, num_seeds=16, key=0, record_every=100,
    )  # fmt: skip
    loss = result.records["expected_target_loss"][0] / 100
    assert not result.non_finite
    above = loss - 0.2 * 2 / 3  # what exploring alone costs
    assert np.all(above > 0) and np.all(above[:, -1] < 0.7 * above[:, 0])
    waiting = result.undelivered
    assert np.all(waiting == DELAY) if delay == "fixed" else np.all(waiting <= DELAY)


def test_answers_beyond_the_last_round_leave_the_model_as_it_began():
    T = 20
    result = jonline.run(
        maker("right or wrong", optimizers.odaftrl(B, delay=T), delays.fixed(T)),
        structured.losses(CLASSES), {}, data=planted(), num_rounds=T, key=0, record_every=T,
    )  # fmt: skip
    assert result.undelivered.item() == T
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(result.states))
