"""OSP when answers come late: fixed and variable delays, from labels and from bandit feedback."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import Environment, delays, optimizers, oracles, streams, structured
from jonline.core import Example
from tests.test_delayed_optimizers import adahedge, solid

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


def gradients(kind, seen):
    """Every round's gradient, from what its prediction and answer were: float64 (T, d, n)."""
    estimate = jax.vmap(KINDS[kind][0].estimate)(seen.prediction, seen.feedback)
    residual = seen.prediction.mean - np.asarray(estimate.label, np.float64)
    residual = residual * np.asarray(estimate.weight, np.float64)[:, None]
    return residual[:, :, None] * seen.example.x[:, None]


def models(optimizer, seen):
    return np.asarray(jax.vmap(optimizer.params)(jax.tree.map(jnp.asarray, seen.state)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delay", ["fixed", "variable"])
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
    # of uniform play a class is wrong in 2/3, and exploring alone costs 0.2 * 2/3
    assert np.all(loss[:, 0] > 0.2 * 2 / 3) and loss[:, -1].mean() < 0.7 * loss[:, 0].mean()
    waiting = result.undelivered
    assert np.all(waiting == DELAY) if delay == "fixed" else np.all(waiting <= DELAY)


def test_odaftrl_hears_late_bits_as_the_text_has_it():
    """Gradients are of the rounds asked: made of the model and the distribution of that time."""
    kind, optimizer = "right or wrong", FIXED["odaftrl"]
    seen = jonline.trace(
        maker(kind, optimizer, delays.fixed(DELAY)), {}, data=planted(), key=1, first=0, last=150
    )
    G = gradients(kind, seen)
    W, regs = adahedge(G, DELAY, B)
    # float32 against float64, with sums of 150 gradients of norm up to 15
    np.testing.assert_allclose(models(optimizer, seen), W, atol=1e-4 * B)
    np.testing.assert_allclose(seen.state.reg, regs, rtol=1e-4, atol=1e-4)
    assert not W[: DELAY + 1].any() and W[DELAY + 8 :].any()


def test_solid_hears_late_losses_in_any_order_as_the_text_has_it():
    kind, optimizer, T = "loss", optimizers.solid_ogd(B, gradient_bound=5.0, max_delay=9), 150
    taus = np.random.default_rng(3).integers(0, 10, T)
    seen = jonline.trace(
        maker(kind, optimizer, delays.table(taus)), {}, data=planted(), key=1, first=0, last=T
    )
    W, _, num_heard = solid(gradients(kind, seen), taus, B, 5.0, 9)
    np.testing.assert_allclose(models(optimizer, seen), W, atol=1e-4 * B)  # float32
    assert seen.delivered.sum() == num_heard < T


def test_copies_of_bold_never_hear_of_each_other():
    kind, optimizer = "labels", FIXED["bold"]
    seen = jonline.trace(
        maker(kind, optimizer, delays.fixed(DELAY)), {}, data=planted(), key=1, first=0, last=120
    )
    G, W = gradients(kind, seen), models(optimizer, seen)
    for copy in range(DELAY + 1):
        mine = slice(copy, None, DELAY + 1)
        alone, *_ = solid(G[mine], np.zeros(len(G[mine]), int), B, 0.0, 0)  # is adaptive OGD
        np.testing.assert_allclose(W[mine], alone, atol=1e-5 * B)  # float32 against float64


def test_effective_delays_add_up_to_the_delays():
    """The answer that is k-th to come was asked when `stamp.count` had come: tau~ = k - count."""
    T, num_tables = 60, 40
    rng = np.random.default_rng(0)
    left = np.arange(T - 1, -1, -1)  # every answer comes
    taus = np.minimum(rng.integers(0, rng.integers(1, 20, (num_tables, 1)), (num_tables, T)), left)
    optimizer = optimizers.solid_ogd(B, gradient_bound=2.0, max_delay=20)

    def make(point, data):
        rows, table = data
        late = delays.table(table[point["table"]], max_rounds=20)
        return maker("labels", optimizer, late)(point, rows)

    def metrics(example, prediction, feedback, state):
        del example, feedback, state
        return {"count": prediction.stamp.count}

    result = jonline.sweep(
        make, metrics, {"table": np.arange(num_tables)}, data=(planted(), taus), num_rounds=T,
        num_seeds=1, key=0, record_every=T,
    )  # fmt: skip
    assert not result.undelivered.any() and (result.states.count == T).all()
    effective = T * (T - 1) // 2 - result.records["count"][:, 0, 0]
    np.testing.assert_array_equal(effective, taus.sum(axis=1))
    assert len(np.unique(effective)) > num_tables / 2


def test_answers_beyond_the_last_round_leave_every_model_as_it_began():
    T = 20
    for name, optimizer in (
        ("odaftrl", optimizers.odaftrl(B, delay=T)),
        ("bold", optimizers.bold(optimizers.adaptive_ogd(B), delay=T)),
    ):
        result = jonline.run(
            maker("right or wrong", optimizer, delays.fixed(T)), structured.losses(CLASSES), {},
            data=planted(), num_rounds=T, key=0, record_every=T,
        )  # fmt: skip
        assert result.undelivered.item() == T, name
        for leaf in jax.tree.leaves(result.states):
            assert not np.any(leaf), name
