"""Rules of asking around a learner: always, at random, within a budget; with delays."""

from fractions import Fraction
from math import ceil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import Environment, delays, oracles, ordinal, reject, streams
from tests.reject.games import LEARNERS, LINEAR, N, play, table

KEY = jax.random.key(0)
DATA = table(300)
FRACTIONS = ["0", "0.1", "0.3", "0.7", "0.003", "1"]


def eager():
    """A learner that asks in every round."""
    return LEARNERS["dsol"]()


def asked_so_far(predictions):
    return np.cumsum(np.asarray(predictions.ask), axis=-1)


def test_a_number_of_labels_is_asked_for_and_no_more():
    most = [0.0, 1.0, 7.0, 1000.0]
    states, predictions, feedback, last = play(
        lambda p: reject.budget(eager(), most=p["most"]), {"most": most}, DATA
    )
    expected = np.minimum(np.arange(1, 301), np.array(most)[:, None])
    np.testing.assert_array_equal(asked_so_far(predictions), expected)
    np.testing.assert_array_equal(feedback.observed, predictions.ask)
    np.testing.assert_array_equal(last.asked, [0, 1, 7, 300])
    np.testing.assert_array_equal(predictions.prob, predictions.ask)
    assert not np.any(last.inner.f[0]) and last.inner.width[0] == 1
    assert np.all(last.inner.round == 300)


def test_a_fraction_is_exact_in_every_round():
    """asked = ceil(p t) with p as written, though 0.1 and 0.3 are not exact in binary."""
    predictions = play(
        lambda p: reject.budget(eager(), fraction=p["fraction"]),
        {"fraction": [float(p) for p in FRACTIONS]},
        table(3000),
    )[1]
    exact = [[ceil(Fraction(p) * t) for t in range(1, 3001)] for p in FRACTIONS]
    np.testing.assert_array_equal(asked_so_far(predictions), exact)


def test_a_fraction_holds_after_very_many_rounds():
    learner = reject.budget(eager(), fraction=0.3)
    state = learner.init(KEY)

    def asks(t, asked):
        at = state._replace(round=jnp.int32(t - 1), asked=jnp.int32(asked))
        return bool(learner.predict(at, jnp.ones(N), KEY).ask)

    t = 2_000_000_010  # 2^24 is long past; p t = 600 000 003
    assert not asks(t, 600_000_003)
    assert asks(t, 599_990_000)
    every = reject.budget(eager(), fraction=1.0)
    at = every.init(KEY)._replace(round=jnp.int32(2_000_000_000), asked=jnp.int32(2_000_000_000))
    assert every.predict(at, jnp.ones(N), KEY).ask


def test_no_restriction_leaves_the_run_as_it_is_and_none_leaves_nothing():
    def make(point):
        return reject.budget(LEARNERS["dsal"](), **{kind: point[kind]})

    alone = play(lambda p: LEARNERS["dsal"](), {"unused": [0.0]}, DATA)
    for kind, values in (("fraction", [0.0, 1.0]), ("most", [0.0, 300.0])):
        states, predictions, _, last = play(make, {kind: values}, DATA)
        assert not np.any(predictions.ask[0]) and not np.any(last.inner.f[0])
        for a, b in zip(
            jax.tree.leaves((states.inner, predictions)), jax.tree.leaves(alone[:2]), strict=True
        ):
            np.testing.assert_array_equal(a[1], b[0])


def test_first_query_is_in_the_first_round():
    for most, fraction in ((1, None), (None, 1e-4), (5, 0.5)):
        learner = reject.budget(LEARNERS["dral"](), most=most, fraction=fraction)
        assert learner.predict(learner.init(KEY), jnp.ones(N), KEY).ask


MOST, SHARE = [0, 3, 20, 1000], [0.0, 0.1, 0.5, 1.0]


@pytest.mark.parametrize(
    "delay, promised",
    [("fixed", 6), ("uniform", 6), ("fixed", 0)],
    ids=["fixed", "uniform", "fixed, not declared"],
)
def test_budget_holds_with_late_answers(delay, promised):
    def make(point, data):
        learner = reject.budget(
            eager(), most=point["most"], fraction=point["share"], max_delay=promised
        )
        late = delays.fixed(6) if delay == "fixed" else delays.uniform(6)
        return learner, Environment(streams.resample(data), oracles.label_if_asked(), late)

    grid = jonline.product_grid(most=MOST, share=SHARE)
    result = jonline.sweep(
        make, reject.losses(0.25), grid, data=DATA, num_rounds=200, num_seeds=3, key=0,
        record_every=1,
    )  # fmt: skip
    asked = np.cumsum(result.records["asked"], axis=-1)
    rounds = np.arange(1, 201)
    bound = np.minimum(grid["most"][:, None], np.ceil(grid["share"][:, None] * rounds))
    within = np.all(asked <= bound[:, None], axis=(1, 2))
    if not promised:
        free = (
            (grid["most"] == 0)
            | (grid["share"] == 0)
            | ((grid["most"] == 1000) & (grid["share"] == 1))
        )
        np.testing.assert_array_equal(within, free)
        return
    assert np.all(within)
    total = asked[..., -1]
    bound = bound[:, -1, None]
    assert np.all((total >= bound - 12) | (bound <= 6))  # 6 lost to each rule
    assert np.all(total[grid["most"] == 3] == 0)  # as said, for most <= D
    unbound = (grid["most"] == 1000) & (grid["share"] == 1)
    assert np.all(total[unbound] == 200)


def test_random_queries_come_at_their_rate_and_learn_as_queries():
    learner = reject.at_random(LEARNERS["dsol"](), 0.3)
    states, predictions, _, last = play(lambda p: learner, {"unused": [0.0]}, table(3000))
    rate = np.mean(predictions.ask)
    assert abs(rate - 0.3) <= 5 * np.sqrt(0.3 * 0.7 / 3000)
    np.testing.assert_array_equal(predictions.prob, np.float32(0.3))
    changed = np.any(np.diff(states.f[0], axis=0) != 0, axis=1)
    asked = np.asarray(predictions.ask[0, :-1])
    assert np.all(asked[changed])
    assert np.sum(changed) > 0.95 * np.sum(asked)  # some steps are lost in float32


def test_asking_always_changes_nothing_for_dral_while_its_width_is_at_least_0():
    """Outside of its band there is nothing to learn."""
    points = {"step_size": [0.02, 0.1]}
    own = play(lambda p: LEARNERS["dral"](**p, project=True), points, DATA)
    asking = play(lambda p: reject.always(LEARNERS["dral"](**p, project=True)), points, DATA)
    np.testing.assert_array_equal(own[0].f, asking[0].f)
    np.testing.assert_array_equal(own[0].width, asking[0].width)
    assert np.all(asking[1].ask) and not np.all(own[1].ask)


def test_rules_go_around_each_other():
    def make(point):
        random = reject.at_random(LEARNERS["dral"](), point["rate"])
        return reject.budget(reject.budget(random, most=40), fraction=0.2)

    *_, predictions, _, last = play(make, {"rate": [0.1, 1.0]}, DATA)
    asked = asked_so_far(predictions)
    assert np.all(asked <= np.minimum(40, np.ceil(0.2 * np.arange(1, 301) - 1e-9)))
    np.testing.assert_array_equal(last.asked, asked[:, -1])
    np.testing.assert_array_equal(last.inner.asked, asked[:, -1])
    assert asked[1, -1] == 40 and 10 < asked[0, -1] <= 40


def test_a_budget_counts_what_was_asked_and_not_what_was_told():
    """An oracle that answers unasked spends nothing."""
    point = {"most": [40.0]}
    *_, predictions, feedback, last = play(
        lambda p: reject.budget(LEARNERS["dsal"](), **p), point, DATA, oracle=oracles.label()
    )
    assert np.all(feedback.observed)
    np.testing.assert_array_equal(last.asked, 40)
    assert np.sum(predictions.ask) == 40


def test_bad_arguments_are_named():
    learner = eager()
    with pytest.raises(ValueError, match="budget needs most, fraction or both, got neither"):
        reject.budget(learner)
    for most in (-1, 1.5):
        with pytest.raises(ValueError, match=rf"most must be a whole number .* got {most}"):
            reject.budget(learner, most=most)
    with pytest.raises(ValueError, match=r"fraction must be in \[0, 1\], got 1.1"):
        reject.budget(learner, fraction=1.1)
    with pytest.raises(ValueError, match=r"rate must be in \[0, 1\], got -1"):
        reject.at_random(learner, -1)
    with pytest.raises(TypeError, match="max_delay must be a Python int, got float 2.0"):
        reject.budget(learner, most=3, max_delay=2.0)
    with pytest.raises(ValueError, match="max_delay must be >= 0, got -1"):
        reject.budget(learner, most=3, max_delay=-1)
    with pytest.raises(TypeError, match="always takes a Learner, got Hypothesis"):
        reject.always(LINEAR)


def test_a_learner_that_never_asks_is_refused():
    silent = ordinal.prank(LINEAR, 3)
    for name, wrapped in (
        ("always", reject.always(silent)),
        ("at_random", reject.at_random(silent, 0.5)),
        ("budget", reject.budget(silent, most=3)),
    ):
        message = rf"{name} takes a learner whose prediction has .ask .* got OrdinalPrediction"
        with pytest.raises(TypeError, match=message):
            wrapped.predict(wrapped.init(KEY), jnp.ones(N), KEY)


def test_a_budget_does_not_wrap_at_the_ends_of_int32():
    most = 2**31 - 1
    learner = reject.budget(reject.always(LEARNERS["dral"]()), most=most, max_delay=most - 1)
    state, key = learner.init(jax.random.key(0)), jax.random.key(1)
    x = jnp.zeros(state.inner.f.shape)
    for asked, left in ((0, True), (1, False), (5, False), (most, False)):
        now = state._replace(asked=jnp.int32(asked), round=jnp.int32(asked))
        assert bool(learner.predict(now, x, key).ask) == left
