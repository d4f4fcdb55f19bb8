"""Every learner: the feedback that it reads, empty answers, and answers that never come."""

from types import SimpleNamespace
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jonline
from jonline import (
    Environment,
    delays,
    hypotheses,
    kernels,
    optimizers,
    oracles,
    ordinal,
    reject,
    streams,
    structured,
)
from jonline.core import Example, step

K, N, KEY = 3, 3, jax.random.key(0)
LINEAR = hypotheses.linear(N)
KERNEL = hypotheses.kernel(kernels.gaussian(1.0), 4, N)
CLASSES, LABELS = structured.multiclass(K), structured.multilabel(K)
LOGISTIC = structured.logistic_gap(K)
OGD = optimizers.adaptive_ogd(2.0, project=True)
SIGNS = dict(cost=0.25, step_size=0.5)
VERTEX, OTHER = jnp.array([0.0, 1.0, 0.0]), jnp.array([1.0, 1.0, 0.0])


def osp(estimator, optimizer=OGD, space=CLASSES):
    return structured.osp(space, estimator(space), optimizer, num_features=N, explore=0.5)


def gap(factory, optimizer=None):
    return factory(K, N, diameter=2.0, explore=0.5, loss=LOGISTIC, optimizer=optimizer)


ADAM = optimizers.from_optax(optax.adam(0.1))
INVERSE, SEMI = structured.inverse_weighted, structured.semi_bandit
SOLID = optimizers.solid_ogd(2.0, gradient_bound=2.0, max_delay=3)
LEARNERS = {  # name -> learner, oracle, label
    "dford": (ordinal.dford(LINEAR, K, reg=1.0, explore=0.5, clip=2.0), oracles.directional(), 2),
    "dford, kernel": (ordinal.dford(KERNEL, K, reg=1.0, explore=0.5), oracles.directional(), 2),
    "prank": (ordinal.prank(LINEAR, K, reg=1.0), oracles.label(), 2),
    "prank of 2001": (ordinal.prank(KERNEL, K), oracles.label(), 2),
    "pril": (ordinal.pril(LINEAR, K, reg=1.0), oracles.interval(K), 2),
    "pril, kernel": (ordinal.pril(KERNEL, K), oracles.interval(K), 2),
    "dral": (reject.dral(KERNEL, **SIGNS), oracles.label(), -1),
    "dsal": (reject.dsal(LINEAR, slope=2.0, **SIGNS), oracles.label_if_asked(), 1),
    "dsol": (reject.dsol(LINEAR, slope=2.0, project=True, **SIGNS), oracles.label(), 1),
    "always": (reject.always(reject.dral(LINEAR, **SIGNS)), oracles.label_if_asked(), 1),
    "at_random": (reject.at_random(reject.dral(LINEAR, **SIGNS), 0.5), oracles.label(), 1),
    "full information": (osp(structured.full_information), oracles.label(), VERTEX),
    "inverse-weighted": (osp(INVERSE), oracles.mismatch(), VERTEX),
    "pseudo-inverse": (osp(structured.pseudo_inverse), oracles.loss(CLASSES.target), VERTEX),
    "semi-bandit": (osp(SEMI, space=LABELS), oracles.coordinates(), OTHER),
    "adam": (osp(structured.full_information, ADAM), oracles.label(), VERTEX),
    "solid": (osp(INVERSE, SOLID), oracles.mismatch(), VERTEX),
    "gaptron": (gap(structured.gaptron), oracles.mismatch(), VERTEX),
    "gaptron, labels": (gap(structured.gaptron, ADAM), oracles.label(), VERTEX),
    "gappletron": (gap(structured.gappletron), oracles.mismatch(), VERTEX),
}  # fmt: skip
COUNTING = {
    "bold": osp(INVERSE, optimizers.bold(ADAM, delay=1)),
    "bold of bold": osp(INVERSE, optimizers.bold(optimizers.bold(OGD, delay=0), delay=1)),
    "odaftrl": osp(INVERSE, optimizers.odaftrl(2.0, delay=1)),
    "gaptron with odaftrl": gap(structured.gaptron, optimizers.odaftrl(2.0, delay=1)),
}


class Above(NamedTuple):
    """Of no kind, though it has fields of all of them."""

    above: jax.Array
    observed: jax.Array
    value: jax.Array
    low: jax.Array
    high: jax.Array
    wrong: jax.Array


NO = jnp.asarray(False)
ANSWERS = (
    oracles.Label(VERTEX, NO),
    oracles.Interval(jnp.int32(1), jnp.int32(2)),
    oracles.Directional(NO),
    oracles.Loss(jnp.float32(1)),
    oracles.Mismatch(NO),
    oracles.Coordinates(VERTEX, VERTEX > 0),
    Above(NO, NO, VERTEX, jnp.int32(1), jnp.int32(2), NO),
)


def after(learner, oracle, y, num_rounds=7):
    """The state after some rounds, with the last prediction and a label's answer to it."""

    def one(state, key):
        x = jax.random.normal(key, (N,))
        state, info = step(learner, state, x, lambda p, k: oracle(jnp.asarray(y), p, k), key)
        return state, (x, info)

    keys = jax.random.split(jax.random.key(1), num_rounds)
    state, (xs, infos) = jax.jit(lambda: jax.lax.scan(one, learner.init(KEY), keys))()
    return state, xs[-1], *jax.tree.map(lambda leaf: leaf[-1], (infos.prediction, infos.feedback))


def few(names, *fast):
    """All names, those but the fast ones slow."""
    return [pytest.param(n, marks=[] if n in fast else [pytest.mark.slow]) for n in names]


@pytest.mark.parametrize("name", LEARNERS)
def test_feedback_of_another_kind_is_an_error_that_says_what_is_read(name):
    learner, oracle, y = LEARNERS[name]
    state, x = learner.init(KEY), jnp.ones(N)
    prediction = jax.eval_shape(learner.predict, state, x, KEY)
    own = type(jax.eval_shape(lambda p: oracle(jnp.asarray(y), p, KEY), prediction))
    reads = (own, oracles.Label, oracles.Mismatch) if "gap" in name else (own,)
    for answer in ANSWERS:
        if isinstance(answer, reads):
            continue
        message = f" reads .*{own.__name__}.*, got {type(answer).__name__}; use .*oracles."
        with pytest.raises(TypeError, match=message + own.__name__.lower()):
            jax.eval_shape(learner.update, state, x, prediction, answer, KEY)


def test_run_with_feedback_of_another_kind_ends_before_it_plays(monkeypatch):
    def make(point, data):
        oracle = lambda y, prediction, key: ANSWERS[-1]  # noqa: E731
        return LEARNERS["dford"][0], Environment(streams.resample(data), oracle)

    compiled = []
    monkeypatch.setattr(jax.stages.Lowered, "compile", lambda *_: compiled.append(1))
    data = Example(np.ones((4, N), np.float32), np.ones(4, np.int32))
    with pytest.raises(TypeError, match="dford reads Directional, got Above; use oracles.direct"):
        jonline.run(make, lambda *_: {}, {}, data=data, num_rounds=4, key=0, record_every=2)
    assert not compiled


@pytest.mark.parametrize("name", few(LEARNERS, "dford, kernel", "pril", "dsol", "adam"))
def test_answer_without_a_value_is_not_read_and_changes_what_counts_alone(name):
    learner, oracle, y = LEARNERS[name]
    state, x, prediction, feedback = after(learner, oracle, y)
    assert not np.all([np.all(a == b) for a, b in zip(
        jax.tree.leaves(state), jax.tree.leaves(learner.init(KEY)), strict=True
    )])  # fmt: skip
    empty = jax.tree.map(jnp.zeros_like, feedback)
    flags = {f: getattr(empty, f) for f in feedback._fields if f in ("observed", "answered")}
    garbage = jax.tree.map(
        lambda leaf: jnp.full_like(leaf, jnp.nan if leaf.dtype == float else True), feedback
    )
    new = [
        jax.jit(learner.update)(state, x, prediction, answer, KEY)
        for answer in (empty, feedback._replace(**flags), garbage._replace(**flags))
    ]
    for other in new:
        expected = state
        if isinstance(state, reject.RejectState):
            expected = state._replace(round=state.round + 1)  # its schedules count rounds
        chex.assert_trees_all_equal(other, expected)


def test_nothing_played_is_an_answer_unless_it_is_missing():
    prediction = SimpleNamespace(output=jnp.zeros(N), aux=VERTEX + 0.5)
    for prob, weight in ((0.0, 1), (1.0, 0)):
        answer = oracles.missing(oracles.coordinates(), prob)(OTHER, prediction, KEY)
        estimate = SEMI(LABELS).estimate(prediction, answer)
        assert estimate.weight == weight and bool(estimate.observed) == bool(weight)


@pytest.mark.parametrize("name", few(COUNTING, "bold"))
def test_optimizers_that_count_take_an_empty_answer_for_a_gradient_of_zero(name):
    learner = COUNTING[name]
    state, x, prediction, feedback = after(learner, oracles.mismatch(), VERTEX)
    empty = jax.tree.map(jnp.zeros_like, feedback)
    new = jax.jit(learner.update)(state, x, prediction, empty, KEY)
    assert new.count == state.count + 1
    if "odaftrl" not in name:
        copies = [jax.tree.leaves(s.copies) for s in (new, state)]
        moved = [np.any(a != b) for a, b in zip(*copies, strict=True) if a.dtype == float]
        assert not any(moved)
        return
    totals = [s.old + s.recent for s in (new, state)]
    np.testing.assert_allclose(*totals, rtol=1e-5, atol=1e-6)  # summed in another order
    assert new.reg == state.reg and np.any(new.residuals != state.residuals)
    assert not new.residuals[state.count % 2].any()


def swept(learner, oracle, delay, y):
    """A sweep over the shares of answers that come empty and of those that never come."""

    def make(point, data):
        lossy = oracles.missing(oracle, point["empty"])
        return learner, Environment(streams.resample(data), lossy, delay(point["never"]))

    data = Example(np.eye(N, dtype=np.float32), np.stack([y] * N))
    grid = {"never": [0.0, 1.0, 0.0, 0.5], "empty": [0.0, 0.0, 1.0, 0.5]}
    return jonline.sweep(
        make, lambda *_: {}, grid, data=data, num_rounds=8, num_seeds=1, key=0, record_every=8
    )


BUDGET = reject.budget(reject.dsol(LINEAR, slope=2.0, **SIGNS), most=3)


@pytest.mark.parametrize("name", [*COUNTING, "budget"])
def test_answers_that_never_come_are_refused_where_they_are_counted(name):
    learner, oracle = COUNTING.get(name, BUDGET), oracles.mismatch()
    learner = learner._replace(predict=lambda *_: pytest.fail("was traced"))
    with pytest.raises(ValueError, match="delay must end.* got may_never=True: .* count"):
        swept(learner, oracle, lambda prob: delays.never(prob, delays.fixed(1)), VERTEX)
    with pytest.raises(ValueError, match="oracles.missing has answers"):
        swept(learner, oracle, lambda prob: delays.table([-1, *[0] * 7]), VERTEX)


def test_budget_holds_and_spends_what_was_asked_for_when_labels_are_missing():
    lossy = oracles.missing(oracles.label_if_asked(), 0.5)
    state, *_ = after(BUDGET, lossy, 1, num_rounds=30)
    assert state.asked == 3 and state.round == 30


@pytest.mark.parametrize("name", few(("dford", "dsal", "solid"), "dford"))
def test_answers_that_do_not_come_or_come_empty_leave_the_learner_as_it_began(name):
    learner, oracle, y = LEARNERS[name]
    result = swept(learner, oracle, lambda prob: delays.never(prob, delays.uniform(2)), y)
    start = jax.tree.map(np.asarray, learner.init(KEY))
    gone, empty = (jax.tree.map(lambda leaf: leaf[i, 0], result.states) for i in (1, 2))  # noqa: B023
    chex.assert_trees_all_equal(gone, start)
    if name == "dsal":
        assert empty.round == 8 - result.undelivered[2, 0]
        empty = empty._replace(round=start.round)
    chex.assert_trees_all_equal(empty, start)
    assert np.any(jax.tree.leaves(result.states)[0][0])
    np.testing.assert_array_less(result.undelivered[:, 0], [3, 9, 3, 8])
    assert result.undelivered[1, 0] == 8
