from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import hypotheses, oracles, ordinal
from jonline.ordinal.dford import _cumulative

DISTRIBUTION = jax.jit(ordinal.label_distribution, static_argnums=1)
DRAW = jax.jit(jax.vmap(ordinal.draw_label, (0, None, None, None)), static_argnums=2)
K_AND_EXPLORE = [(k, explore) for k in (2, 3, 4, 7, 10) for explore in (0.0, 0.01, 0.3, 1.0)]


def _all_answers(learner, state, x, y, num_classes, explore):
    """States after each of the K labels, and the probabilities with which they are played."""
    score = jnp.sum(state.f * x)
    greedy = ordinal.predict_label(score, state.thresholds)
    labels = jnp.arange(1, num_classes + 1, dtype=jnp.int32)
    prob = ordinal.label_distribution(greedy, num_classes, explore)
    threshold = jnp.append(state.thresholds, 0.0)

    def after(label, prob, threshold):
        prediction = ordinal.DfordPrediction(label, greedy, prob, score, threshold)
        return learner.update(state, x, prediction, oracles.Directional(label < y), None)

    return jax.jit(jax.vmap(after))(labels, prob, threshold), prob


def _random_states(num, num_features, num_classes, seed=0):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=(num, num_features))
    thresholds = rng.normal(size=(num, num_classes - 1))
    thresholds[::2].sort(axis=1)
    f[:5], thresholds[:5] = 0, 0  # the exact ties of the first round
    state = ordinal.OrdinalState(
        jnp.asarray(f), jnp.asarray(thresholds), jnp.asarray(rng.integers(0, 40, num), jnp.int32)
    )
    xs = jnp.asarray(rng.normal(size=(num, num_features)))
    return state, xs, jnp.asarray(rng.integers(1, num_classes + 1, num), jnp.int32)


# Formulas.


@pytest.mark.parametrize(
    ("num_classes", "greedy", "weights"),
    [
        (3, 1, [3, 2, 1]),
        (3, 2, [1, 2, 1]),
        (3, 3, [1, 2, 3]),
        (2, 1, [2, 1]),
        (2, 2, [1, 2]),
        (7, 5, [1, 2, 3, 4, 5, 4, 3]),
        (7, 2, [5, 6, 5, 4, 3, 2, 1]),
    ],
)
def test_exploring_weights(num_classes, greedy, weights):
    weights = np.array(weights) / sum(weights)
    # rtol: a few roundings of float32.
    explored = ordinal.label_distribution(jnp.int32(greedy), num_classes, 1.0)
    np.testing.assert_allclose(explored, weights, rtol=3e-7)
    mixed = 0.3 * (np.arange(1, num_classes + 1) == greedy) + 0.7 * weights
    np.testing.assert_allclose(
        ordinal.label_distribution(jnp.int32(greedy), num_classes, 0.7), mixed, rtol=3e-7
    )


@pytest.mark.parametrize(("num_classes", "explore"), K_AND_EXPLORE)
def test_distribution_is_a_triangle_around_the_greedy_label(num_classes, explore):
    labels = np.arange(1, num_classes + 1)
    with jax.enable_x64(True):
        P = np.stack([DISTRIBUTION(y, num_classes, explore) for y in labels])
    assert np.all(P >= 0)
    # 1e-15: float64 rounding of K numbers below one.
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-15)
    np.testing.assert_array_equal(P.argmax(axis=1) + 1, labels)
    np.testing.assert_allclose(P, P[::-1, ::-1], atol=1e-15)
    if explore == 0:
        np.testing.assert_array_equal(P, np.eye(num_classes))
    else:
        assert np.all(P > 0)
    for greedy, row in enumerate(P):
        np.testing.assert_allclose(np.diff(row[:greedy], 2), 0, atol=1e-15)
        np.testing.assert_allclose(np.diff(row[greedy + 1 :], 2), 0, atol=1e-15)
        if 0 < explore and 1 < greedy < num_classes - 2:  # one slope on both sides
            left, right = row[greedy - 1] - row[greedy - 2], row[greedy + 1] - row[greedy + 2]
            np.testing.assert_allclose(left, right, atol=1e-15)


def _up_to_fifty_classes():
    """Numbers of classes (49, 1, 1), greedy labels (50, 1), labels (50,), and which exist."""
    num_classes, greedy, label = np.arange(2, 51)[:, None, None], *np.ogrid[1:51, 1:51]
    return num_classes, greedy, label, (greedy <= num_classes) & (label <= num_classes)


def test_normaliser_in_closed_form():
    num_classes, greedy, label, exists = _up_to_fifty_classes()
    top = np.maximum(greedy, num_classes + 1 - greedy)
    total = top + 2 * num_classes * top - top**2 - num_classes * (num_classes + 1) // 2
    weight = np.where(exists, top - abs(label - greedy), 0)
    known = exists.any(axis=2, keepdims=True)
    np.testing.assert_array_equal(weight.sum(axis=2, keepdims=True)[known], total[known])
    P = ordinal.label_prob(jnp.asarray(label), jnp.asarray(greedy), jnp.asarray(num_classes), 1.0)
    # rtol: roundings of float32.
    share = weight / np.where(known, total, 1)
    np.testing.assert_allclose(P[exists], share[exists], rtol=3e-7)


@pytest.mark.parametrize("num_classes", [2, 3, 10, 41])
def test_exploring_labels_are_drawn_by_their_weights_exactly(num_classes):
    """Over all whole numbers r < Z each label comes as often as its weight says."""
    for greedy in {1, 2, num_classes // 2 + 1, num_classes}:
        weights = np.rint(weights_of(greedy, num_classes)).astype(int)
        total = weights.sum()
        words = ((np.arange(total) * 2**32 + total - 1) // total).astype(np.uint32)  # of each r
        words = np.stack([np.zeros_like(words), words], axis=1)  # the first explores
        labels = DRAW(words, greedy, num_classes, 1e-6)
        assert labels.dtype == jnp.int32
        np.testing.assert_array_equal(np.bincount(labels, minlength=num_classes + 1)[1:], weights)


@pytest.mark.parametrize("explore", [0.0, 1e-6, 0.3, 1.0])
def test_exploring_is_decided_within_a_word(explore):
    """The words below explore * 2^32 explore, all of them at 1 and none at 0."""
    edge = int(np.float32(explore) * 2.0**32)
    near = np.clip([0, edge - 300, edge + 300, 2**32 - 1], 0, 2**32 - 1)
    words = np.stack([near, np.zeros(4)], axis=1).astype(np.uint32)  # the second draws label 1
    labels = DRAW(words, 3, 5, np.float32(explore))
    np.testing.assert_array_equal(labels == 1, (near < edge) | (explore == 1))


def test_labels_are_drawn_by_the_distribution():
    num_classes, greedy, explore, num = 5, 2, 0.4, 100_000
    words = jax.random.bits(jax.random.key(0), (num, 2), jnp.uint32)
    share = np.bincount(DRAW(words, greedy, num_classes, explore), minlength=6)[1:] / num
    P = np.asarray(DISTRIBUTION(greedy, num_classes, explore))
    assert np.all(np.abs(share - P) < 5 * np.sqrt(P * (1 - P) / num))


def weights_of(greedy, num_classes):
    """M - |i - y^|, by the paper's words: 1 at the farthest label, one more a step nearer."""
    labels = np.arange(1, num_classes + 1)
    distance = np.abs(labels - greedy)
    return distance.max() + 1 - distance


FIRST_X = jnp.array([1.0, 2.0])


def _first_step(output, **arguments):
    learner = ordinal.dford(hypotheses.linear(2), 3, reg=1.0, explore=0.5, **arguments)
    state = learner.init(jax.random.key(0))
    prob = ordinal.label_distribution(jnp.int32(3), 3, 0.5)[output - 1]
    prediction = ordinal.DfordPrediction(
        jnp.int32(output), jnp.int32(3), prob, jnp.float32(0), jnp.float32(0)
    )
    feedback = oracles.Directional(jnp.asarray(output < 2))
    return learner.update(state, FIRST_X, prediction, feedback, None)


def test_first_prediction_by_hand():
    learner = ordinal.dford(hypotheses.linear(2), 3, reg=1.0, explore=0.5)
    state = learner.init(jax.random.key(0))
    prediction = learner.predict(state, FIRST_X, jax.random.key(1))
    assert prediction.score == 0
    assert prediction.greedy == 3
    P = ordinal.label_distribution(prediction.greedy, 3, 0.5)
    np.testing.assert_allclose(P, [1 / 12, 1 / 6, 3 / 4], rtol=2e-7)  # two float32 roundings
    assert prediction.prob == P[prediction.output - 1]
    assert ordinal.absolute_loss(prediction.score, state.thresholds, 2) == 1


@pytest.mark.parametrize(
    ("output", "w", "thresholds"),
    [(1, [12, 24], [-12, 0]), (2, [-6, -12], [0, 6]), (3, [0, 0], [0, 0])],
)
def test_first_step_by_hand(output, w, thresholds):
    state = _first_step(output)
    # rtol: two float32 roundings of the probability.
    np.testing.assert_allclose(state.f, w, rtol=3e-7)
    np.testing.assert_allclose(state.thresholds, thresholds, rtol=3e-7)
    assert state.round == 1


@pytest.mark.parametrize(
    ("clip", "rule", "w"),
    [
        (6**0.5, ordinal.bound_norm, [1, 2]),
        (24 * 6**0.5, ordinal.bound_norm, [12, 24]),
        (24 * 6**0.5, ordinal.fix_norm, [24, 48]),
    ],
)
def test_first_clipped_step_by_hand(clip, rule, w):
    state = _first_step(1, clip=clip, clip_rule=rule)
    # rtol: float32 roundings of the probability and the norm.
    np.testing.assert_allclose(state.f, w, rtol=1e-6)
    np.testing.assert_allclose(state.thresholds, [-w[0], 0], rtol=1e-6)


def test_a_zero_gradient_leaves_the_state_under_either_rule():
    for rule in (ordinal.bound_norm, ordinal.fix_norm):
        state = _first_step(3, clip=1.0, clip_rule=rule)
        np.testing.assert_array_equal(state.f, 0)
        np.testing.assert_array_equal(state.thresholds, 0)


def test_clipping_bounds_the_gradient_and_leaves_short_ones_alone():
    num_classes, reg, explore, clip = 4, 0.5, 0.5, 3.0
    with jax.enable_x64(True):
        states, xs, ys = _random_states(200, 3, num_classes)

        def gradients(state, x, y, bound):
            learner = ordinal.dford(
                hypotheses.linear(3), num_classes, reg=reg, explore=explore, clip=bound
            )
            after, _ = _all_answers(learner, state, x, y, num_classes, explore)
            scale = reg * (state.round + 1)
            return jnp.concatenate(
                [(state.f - after.f) * scale, (state.thresholds - after.thresholds) * scale], 1
            )

        plain = jax.jit(jax.vmap(lambda *a: gradients(*a, None)))(states, xs, ys)
        clipped = jax.jit(jax.vmap(lambda *a: gradients(*a, clip)))(states, xs, ys)
        norm = jnp.linalg.norm(plain, axis=-1)
        # 1e-10: float64 rounding, times up to 20 by 1/eta.
        assert np.all(jnp.linalg.norm(clipped, axis=-1) <= clip + 1e-10)
        short = norm <= clip
        assert 0.1 < short.mean() < 0.9
        np.testing.assert_allclose(clipped[short], plain[short], atol=1e-10)
        np.testing.assert_allclose(
            clipped[~short], (plain * clip / norm[..., None])[~short], atol=1e-10
        )


def test_playing_the_last_label_only_shrinks():
    state = ordinal.OrdinalState(jnp.array([3.0, -1.0]), jnp.array([1.0, 2.0]), jnp.int32(4))
    learner = ordinal.dford(hypotheses.linear(2), 3, reg=1.0, explore=0.5)
    prediction = ordinal.DfordPrediction(
        jnp.int32(3), jnp.int32(3), jnp.float32(0.75), jnp.float32(0), jnp.float32(0)
    )
    for above in (False, True):  # True can only come from a noisy oracle
        after = learner.update(
            state, FIRST_X, prediction, oracles.Directional(jnp.asarray(above)), None
        )
        # rtol: float32 rounding of 1/5.
        np.testing.assert_allclose(after.f, state.f * 0.8, rtol=2e-7)
        np.testing.assert_allclose(after.thresholds, state.thresholds * 0.8, rtol=2e-7)
        assert after.round == 5


def test_two_classes_have_one_threshold_and_the_perceptron_step():
    learner = ordinal.dford(hypotheses.linear(2), 2, reg=1.0, explore=1.0)
    state = ordinal.OrdinalState(jnp.array([1.0, 1.0]), jnp.array([0.5]), jnp.int32(1))
    for x, y in ((FIRST_X, 1), (FIRST_X, 2), (-FIRST_X, 1), (-FIRST_X, 2)):
        after, P = _all_answers(learner, state, x, jnp.int32(y), 2, 1.0)
        sign = 2 * y - 3
        tau = sign / P[0] if sign * (state.f @ x - 0.5) <= 0 else 0.0
        np.testing.assert_allclose(after.f[0], state.f / 2 + tau * x / 2, rtol=1e-6)
        np.testing.assert_allclose(after.thresholds[0], state.thresholds / 2 - tau / 2, rtol=1e-6)
        np.testing.assert_array_equal(after.f[1], state.f / 2)
        np.testing.assert_array_equal(after.thresholds[1], state.thresholds / 2)


def test_late_answers_use_the_score_and_threshold_of_the_prediction():
    learner = ordinal.dford(hypotheses.linear(2), 3, reg=1.0, explore=0.5)
    asked = ordinal.OrdinalState(jnp.array([1.0, 0.0]), jnp.array([0.0, 2.0]), jnp.int32(1))
    prediction = learner.predict(asked, FIRST_X, jax.random.key(0))._replace(
        output=jnp.int32(2), prob=jnp.float32(0.5), threshold=jnp.float32(2)
    )
    now = ordinal.OrdinalState(jnp.array([9.0, 9.0]), jnp.array([5.0, 6.0]), jnp.int32(3))
    feedback = oracles.Directional(jnp.asarray(True))
    after = learner.update(now, FIRST_X, prediction, feedback, None)
    # Score 1 below threshold 2: tau = 2, though the score is 27 by now. Dyadic: exact.
    np.testing.assert_array_equal(after.f, 0.75 * now.f + 0.25 * 2 * FIRST_X)
    np.testing.assert_array_equal(after.thresholds, [3.75, 4.0])


# Expectations.


@pytest.mark.parametrize("num_classes", [2, 3, 5])
@pytest.mark.parametrize("explore", [0.1, 1.0])
def test_estimates_are_unbiased_and_bounded(num_classes, explore):
    rng = np.random.default_rng(0)
    labels = np.arange(1, num_classes + 1)
    with jax.enable_x64(True):
        for greedy in labels:
            P = np.asarray(DISTRIBUTION(greedy, num_classes, explore))
            for y in labels:
                z = np.where(labels < y, 1.0, -1.0)
                z_estimate = np.diag(np.where(labels < y, 1, -1) / P)  # (drawn, i)
                np.testing.assert_allclose(P @ z_estimate, z, rtol=1e-14)  # float64 rounding
                score, theta = rng.normal(), np.append(rng.normal(size=num_classes - 1), np.inf)
                tau_estimate = (
                    np.asarray(
                        ordinal.hinge_tau(jnp.asarray(z_estimate * P[:, None]), score, theta)
                    )
                    / P[:, None]
                )
                tau = np.asarray(ordinal.hinge_tau(jnp.asarray(z), score, theta))
                np.testing.assert_allclose(P @ tau_estimate, tau, rtol=1e-14)
                drawn = np.diagonal(tau_estimate)
                bound = 2 * num_classes**2 / explore * (1 + np.log(num_classes))
                assert P @ drawn**2 <= bound
                assert P @ np.abs(drawn) <= num_classes - 1 + 1e-12


def test_second_moment_bound_holds_up_to_fifty_classes():
    num_classes, greedy, label, exists = _up_to_fifty_classes()
    has_threshold = exists & (label < num_classes)
    for explore in (0.01, 0.2, 1.0):
        P = ordinal.label_prob(
            jnp.asarray(label), jnp.asarray(greedy), jnp.asarray(num_classes), explore
        )
        worst = np.sum(1 / np.where(has_threshold, P, np.inf), axis=2, keepdims=True)
        assert np.all(worst <= 2 * num_classes**2 / explore * (1 + np.log(num_classes)))


@pytest.mark.parametrize("num_classes", [2, 3, 6])
def test_expected_step_is_the_step_of_regularised_prank(num_classes):
    reg, explore = 0.7, 0.3
    with jax.enable_x64(True):
        hypothesis = hypotheses.linear(3)
        learner = ordinal.dford(hypothesis, num_classes, reg=reg, explore=explore)
        full = ordinal.prank(hypothesis, num_classes, reg=reg)

        def both(state, x, y):
            after, P = _all_answers(learner, state, x, y, num_classes, explore)
            prediction = full.predict(state, x, None)
            target = full.update(state, x, prediction, oracles.Label(y, jnp.asarray(True)), None)
            return P @ after.f, P @ after.thresholds, target

        states, xs, ys = _random_states(200, 3, num_classes)
        f, thresholds, target = jax.jit(jax.vmap(both))(states, xs, ys)
        # 1e-12: float64 rounding of terms of up to 1e2.
        np.testing.assert_allclose(f, target.f, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(thresholds, target.thresholds, rtol=1e-12, atol=1e-12)
        eta = 1 / (reg * (states.round + 1))[:, None]
        before = jnp.diff(states.thresholds, axis=1)
        assert np.all(jnp.diff(thresholds, axis=1) >= (1 - eta * reg) * before - eta - 1e-12)


def test_thresholds_far_enough_apart_stay_ordered_in_expectation():
    num_classes, reg, explore = 5, 0.7, 0.3
    with jax.enable_x64(True):
        states, xs, ys = _random_states(200, 3, num_classes)
        states = states._replace(round=jnp.maximum(states.round, 1))
        eta = 1 / (reg * (states.round + 1))[:, None]
        gap = num_classes * eta / (1 - eta * reg)
        states = states._replace(
            thresholds=states.thresholds[:, :1] + gap * jnp.arange(num_classes - 1)
        )
        learner = ordinal.dford(hypotheses.linear(3), num_classes, reg=reg, explore=explore)
        after, P = jax.jit(jax.vmap(lambda *a: _all_answers(learner, *a, num_classes, explore)))(
            states, xs, ys
        )
        mean = jnp.einsum("nk,nki->ni", P, after.thresholds)
        assert np.all(jnp.diff(mean, axis=1) >= 0)


@pytest.mark.parametrize("explore", [0.0, 0.4, 1.0])
def test_frequencies_of_played_labels(explore):
    num, num_classes = 20_000, 5
    learner = ordinal.dford(hypotheses.linear(1), num_classes, reg=1.0, explore=explore)
    state = ordinal.OrdinalState(jnp.ones(1), jnp.arange(4.0), jnp.int32(0))
    keys = jax.random.split(jax.random.key(0), num)
    one = partial(learner.predict, state, jnp.array([0.5]))
    prediction = jax.jit(jax.vmap(one))(keys)
    assert np.all(prediction.greedy == 2)
    P = np.asarray(DISTRIBUTION(2, num_classes, explore))
    share = np.bincount(prediction.output, minlength=num_classes + 1)[1:] / num
    assert np.all(np.abs(share - P) <= 5 * np.sqrt(P * (1 - P) / num))
    np.testing.assert_array_equal(prediction.prob, P[prediction.output - 1])
    np.testing.assert_array_equal(
        prediction.threshold, np.array([0, 1, 2, 3, 0])[prediction.output - 1]
    )


# Contract, as far as it is particular to this learner.


def test_small_steps_late_in_a_run_keep_their_digits():
    learner = ordinal.dford(hypotheses.linear(1), 2, reg=1.0, explore=0.5)
    w = jnp.full(1, 1.6)  # where (1 - 1/t) w, with 1 - 1/t in float32, is a digit off
    state = ordinal.OrdinalState(w, w, jnp.int32(2_999_999))
    prediction = ordinal.DfordPrediction(
        jnp.int32(2), jnp.int32(2), jnp.float32(1), jnp.float32(1), jnp.float32(0)
    )
    after = learner.update(
        state, jnp.ones(1), prediction, oracles.Directional(jnp.asarray(False)), None
    )
    exact = float(w[0]) * (1 - 1 / 3e6)
    # The rounding of the result, and a hundredth of it for the product.
    assert abs(float(after.f[0]) - exact) <= 1.01 * 2**-24
    assert abs(float(after.thresholds[0]) - exact) <= 1.01 * 2**-24


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 1}, "num_classes must be >= 2, got 1"),
        ({"reg": 0.0}, "reg must be > 0"),
        ({"reg": -1.0}, "reg must be > 0 and finite, got -1.0"),
        ({"explore": 1.5}, r"explore must be in \[0, 1\], got 1.5"),
        ({"explore": -0.1}, "explore must be in"),
        ({"clip": 0.0}, "clip must be > 0, got 0.0"),
        ({"clip": float("nan")}, "clip must be > 0, got nan"),
        ({"tie": ">"}, 'tie must be "<" or "<=", got \'>\''),
        ({"init": "ones"}, 'init must be "zeros" or "random"'),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    arguments = {"num_classes": 3, "reg": 1.0, "explore": 0.5} | arguments
    with pytest.raises(ValueError, match=message):
        ordinal.dford(hypotheses.linear(2), **arguments)


def test_number_of_classes_is_static():
    with pytest.raises(TypeError, match="num_classes must be a Python int"):
        ordinal.dford(hypotheses.linear(2), 3.0, reg=1.0, explore=0.5)


def test_random_start_is_standard_normal_with_ordered_thresholds():
    learner = ordinal.dford(hypotheses.linear(3), 4, reg=1.0, explore=0.5, init="random")
    states = jax.jit(jax.vmap(learner.init))(jax.random.split(jax.random.key(0), 2000))
    assert np.all(np.diff(states.thresholds, axis=1) >= 0)
    for values in (states.f, states.thresholds):
        num = values.size
        assert abs(values.mean()) <= 5 / np.sqrt(num)
        assert abs((values**2).mean() - 1) <= 5 * np.sqrt(2 / num)
    assert np.all(states.round == 0)


@pytest.mark.parametrize("num_classes", [26_755, 26_756, 46_341, 65_535])
def test_whole_numbers_are_right_up_to_65535_labels(num_classes):
    labels = np.arange(1, num_classes + 1)
    for greedy in (1, num_classes // 2, num_classes):
        weights = max(greedy, num_classes + 1 - greedy) - np.abs(labels - greedy)
        found = _cumulative(jnp.asarray(labels), jnp.int32(greedy), num_classes)
        np.testing.assert_array_equal(found, np.cumsum(weights))
    P = np.asarray(ordinal.label_distribution(1, num_classes, 1.0), np.float64)
    np.testing.assert_allclose(P, (num_classes + 1 - labels) / weights.sum(), rtol=3e-7)  # float32
    drawn = ordinal.draw_label(jnp.array([0, 2**32 - 1], jnp.uint32), 1, num_classes, 1.0)
    assert drawn == num_classes


def test_more_labels_than_whole_numbers_hold_are_refused():
    message = "num_classes must be <= 65535, got 100000"
    for call in (
        lambda: ordinal.dford(hypotheses.linear(3), 100_000, reg=1.0, explore=0.5),
        lambda: ordinal.label_distribution(1, 100_000, 1.0),
        lambda: ordinal.label_prob(1, 1, 100_000, 1.0),
        lambda: ordinal.draw_label(jnp.zeros(2, jnp.uint32), 1, 100_000, 1.0),
    ):
        with pytest.raises(ValueError, match=message):
            call()
