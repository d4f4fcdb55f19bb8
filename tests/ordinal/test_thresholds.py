import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import ordinal


@pytest.mark.parametrize(
    ("score", "thresholds", "strict", "loose"),
    [
        (-1.0, [0.0, 1.0], 1, 1),
        (0.0, [0.0, 1.0], 2, 1),
        (0.5, [0.0, 1.0], 2, 2),
        (1.0, [0.0, 1.0], 3, 2),
        (2.0, [0.0, 1.0], 3, 3),
        (0.0, [0.0, 0.0], 3, 1),
        (0.5, [1.0, 0.0], 1, 1),  # out of order: the first threshold above the score
        (1.0, [0.0, 2.0, 0.5], 2, 2),
    ],
)
def test_label_is_the_first_whose_threshold_is_above_the_score(score, thresholds, strict, loose):
    thresholds = jnp.array(thresholds)
    label = ordinal.predict_label(jnp.float32(score), thresholds, "<")
    assert label == strict
    assert label.dtype == jnp.int32
    assert ordinal.predict_label(jnp.float32(score), thresholds, "<=") == loose


def test_signs_of_labels_and_intervals():
    signs = [ordinal.label_signs(y, y, 4) for y in range(1, 5)]
    expected = [[-1, -1, -1], [1, -1, -1], [1, 1, -1], [1, 1, 1]]
    np.testing.assert_array_equal(signs, expected)
    np.testing.assert_array_equal(ordinal.label_signs(2, 3, 4), [1, 0, -1])
    np.testing.assert_array_equal(ordinal.label_signs(1, 4, 4), [0, 0, 0])


def test_tau_counts_a_tie_as_wrong_on_both_sides():
    thresholds = jnp.array([-1.0, 0.0, 1.0])
    tau = ordinal.hinge_tau(jnp.ones(3), jnp.float32(0), thresholds)
    np.testing.assert_array_equal(tau, [0, 1, 1])
    tau = ordinal.hinge_tau(-jnp.ones(3), jnp.float32(0), thresholds)
    np.testing.assert_array_equal(tau, [-1, -1, 0])
    np.testing.assert_array_equal(ordinal.hinge_tau(jnp.zeros(3), jnp.float32(0), thresholds), 0)


def _models(num_classes, num, ordered):
    rng = np.random.default_rng(num_classes)
    thresholds = rng.normal(size=(num, num_classes - 1)).astype(np.float32)
    if ordered:
        thresholds.sort(axis=1)
    score = rng.normal(size=num).astype(np.float32)
    return score, thresholds, rng.integers(1, num_classes + 1, num).astype(np.int32)


def test_losses_against_numpy():
    for num_classes in (2, 3, 6):
        scores, thresholds, ys = _models(num_classes, 40, ordered=False)
        highs = np.minimum(ys + 1, num_classes)
        for score, theta, low, high in zip(scores, thresholds, ys, highs, strict=True):
            absolute = sum(score < theta[i - 1] for i in range(1, low))
            absolute += sum(score >= theta[i - 1] for i in range(high, num_classes))
            hinge = sum(max(theta[i - 1] - score, 0) for i in range(1, low))
            hinge += sum(max(score - theta[i - 1], 0) for i in range(high, num_classes))
            assert ordinal.interval_absolute_loss(score, theta, low, high) == absolute
            # rtol: float32 sums in another order.
            np.testing.assert_allclose(
                ordinal.interval_hinge_loss(score, theta, low, high), hinge, rtol=1e-5, atol=1e-6
            )
            assert ordinal.interval_hinge_loss(score, theta, low, low) == ordinal.hinge_loss(
                score, theta, low
            )
            assert ordinal.interval_absolute_loss(score, theta, low, low) == ordinal.absolute_loss(
                score, theta, low
            )


def test_absolute_loss_is_the_label_error_for_ordered_thresholds():
    for num_classes in (2, 3, 6):
        scores, thresholds, ys = _models(num_classes, 200, ordered=True)
        scores[:20] = thresholds[:20, 0]  # exact ties as well
        loss = jax.jit(jax.vmap(ordinal.absolute_loss))(scores, thresholds, ys)
        labels = jax.jit(jax.vmap(ordinal.predict_label))(scores, thresholds)
        np.testing.assert_array_equal(loss, np.abs(labels - ys))


def test_hinge_loss_is_non_negative_and_the_regularised_loss_zero_at_zero():
    scores, thresholds, ys = _models(5, 200, ordered=False)
    assert np.all(jax.jit(jax.vmap(ordinal.hinge_loss))(scores, thresholds, ys) >= 0)
    for y in range(1, 6):
        assert ordinal.regularised_loss(jnp.float32(0), jnp.zeros(4), jnp.float32(0), y, 3.0) == 0
    loss = ordinal.regularised_loss(jnp.float32(1), jnp.array([0.0, 2.0]), jnp.float32(5), 1, 0.5)
    assert loss == 1 + 0.25 * (5 + 4)


def test_tau_is_the_gradient_of_the_hinge_loss():
    scores, thresholds, ys = _models(5, 100, ordered=False)
    grad_score, grad_thresholds = jax.jit(jax.vmap(jax.grad(ordinal.hinge_loss, argnums=(0, 1))))(
        scores, thresholds, ys
    )
    z = jax.vmap(ordinal.label_signs, (0, 0, None))(ys, ys, 5)
    tau = jax.jit(jax.vmap(ordinal.hinge_tau))(z, scores, thresholds)
    np.testing.assert_array_equal(grad_score, -tau.sum(axis=1))
    np.testing.assert_array_equal(grad_thresholds, tau)


def test_tau_gives_a_subgradient_of_the_regularised_loss():
    reg, num_classes = 0.7, 4
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        loss = jax.jit(
            lambda w, theta, x, y: ordinal.regularised_loss(
                jnp.sum(w * x), theta, jnp.sum(w * w), y, reg
            )
        )
        for _ in range(100):
            w, v = rng.normal(size=(2, 3))
            theta, phi = rng.normal(size=(2, num_classes - 1))
            x, y = rng.normal(size=3), rng.integers(1, num_classes + 1)
            w = w if rng.random() < 0.5 else np.zeros(3)  # kinks too
            theta = theta if rng.random() < 0.5 else np.zeros(num_classes - 1)
            tau = np.asarray(
                ordinal.hinge_tau(ordinal.label_signs(y, y, num_classes), w @ x, theta)
            )
            slope = (reg * w - tau.sum() * x) @ (v - w) + (reg * theta + tau) @ (phi - theta)
            # 1e-12: float64 rounding of terms of order one.
            assert loss(v, phi, x, y) >= loss(w, theta, x, y) + slope - 1e-12


def test_two_classes_give_the_perceptron_loss():
    for score in (-1.5, 0.0, 0.25):
        for y, sign in ((1, -1), (2, 1)):
            loss = ordinal.hinge_loss(jnp.float32(score), jnp.array([0.5]), y)
            assert loss == max(0, -sign * (score - 0.5))
