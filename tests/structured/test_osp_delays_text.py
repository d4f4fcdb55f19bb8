"""Late answers in whole runs of OSP, against the papers' recursions in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import delays, optimizers
from tests.optimizers.test_late_optimizers import adahedge, solid
from tests.structured.test_osp_delays import DELAY, FIXED, KINDS, B, maker, planted

pytestmark = pytest.mark.slow


def gradients(kind, seen):
    """Every round's gradient, from what its prediction and answer were: float64 (T, d, n)."""
    estimate = jax.jit(jax.vmap(KINDS[kind][0].estimate))(seen.prediction, seen.feedback)
    residual = seen.prediction.mean - np.asarray(estimate.label, np.float64)
    residual = residual * np.asarray(estimate.weight, np.float64)[:, None]
    return residual[:, :, None] * seen.example.x[:, None]


def models(optimizer, seen):
    return np.asarray(jax.jit(jax.vmap(optimizer.params))(jax.tree.map(jnp.asarray, seen.state)))


def test_odaftrl_receives_late_bits_as_the_text_has_it():
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


def test_solid_receives_late_losses_in_any_order_as_the_text_has_it():
    kind, optimizer, T = "loss", optimizers.solid_ogd(B, gradient_bound=5.0, max_delay=9), 150
    taus = np.random.default_rng(3).integers(0, 10, T)
    seen = jonline.trace(
        maker(kind, optimizer, delays.table(taus)), {}, data=planted(), key=1, first=0, last=T
    )
    W, _, num_received = solid(gradients(kind, seen), taus, B, 5.0, 9)
    np.testing.assert_allclose(models(optimizer, seen), W, atol=1e-4 * B)  # float32
    assert seen.delivered.sum() == num_received < T


def test_copies_of_bold_learn_nothing_of_each_other():
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
