"""Checks of learners."""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jonline import delays
from jonline._sweep.api import product_grid, run, sweep
from jonline._sweep.result import SweepResult
from jonline._sweep.trace import trace
from jonline.core import Environment, Learner, Make, Metrics, step
from jonline.testing.rules import has_own_dtypes, holds, rule

FLAGS = ("observed", "answered")  # fields of a feedback that say whether it has a value
REPORT = (
    "draw random numbers from the key alone and read nothing that changes between calls; if that "
    "is so, the learner has found a fault of jonline: report it"
)
# With 16 points the pieces are played by the program of the run alone, which compiles once.
_SCALES = np.asarray([1.5, 1.0, *np.linspace(0.75, 1.4, 14)])


class Case(NamedTuple):
    """A learner in an environment where it can be played.

    Attributes:
      make: `(point, data) -> (learner, environment)`, without a delay.
      point: its hyperparameters, one number each.
      data: what `make` needs.
      metrics: as for `jonline.sweep`.
      num_rounds: long enough for the learner to do all that it does.
    """

    make: Make
    point: dict[str, float]
    data: Any
    metrics: Metrics
    num_rounds: int = 96


def check_learner(case: Case) -> None:
    """Raises AssertionError unless the learner keeps every rule of `jonline.core`.

    It is played alone and in lanes, in float64, in sweeps of other widths, orders and pieces, late,
    never answered, and with answers that have no value, in some ten seconds. Two faults no run
    shows: an `update` that makes the prediction anew, from a state that has moved on, and a key
    that is made in the learner and not given.
    """
    _check_round(case)
    _check_unobserved(case)
    _check_key_reuse(case)
    _check_delays(case, _check_bits(case))


def _check_round(case: Case) -> None:
    learner, environment = _made(case)
    keys = jax.random.split(jax.random.key(1), 4)
    example = environment.stream.draw(environment.stream.init(keys[0]), jnp.int32(0))
    with rule(
        "the state of `init` holds arrays with a dtype of their own",
        "jnp.zeros(()) or jnp.asarray(value, dtype) instead of a Python number",
    ):
        state = learner.init(keys[1])
        has_own_dtypes(state)
    with rule(
        "`predict` is a pure function, whose prediction has what is played as `.output`",
        "return a NamedTuple with a field output; draw random numbers from the key alone; take "
        "jnp.where instead of `if` on what is traced",
    ):
        prediction = learner.predict(state, example.x, keys[2])
        again = _made(case)[0].predict(state, example.x, keys[2])  # traced anew
        chex.assert_trees_all_equal(prediction, again)
        holds(hasattr(prediction, "output"), f"{prediction}")
    feedback = environment.oracle(example.y, prediction, keys[3])
    kept = (
        "`update` keeps structure, shapes and dtypes of the state",
        "jnp.where instead of `if`; .astype(state.leaf.dtype) where two kinds of numbers meet",
    )
    with rule(*kept):
        new = learner.update(state, example.x, prediction, feedback, keys[3])
        chex.assert_trees_all_equal_shapes_and_dtypes(state, new)
        has_own_dtypes(new)

    def traced(point, state, key):
        learner, environment = case.make(point, case.data)
        answer = lambda prediction, k: environment.oracle(example.y, prediction, k)  # noqa: E731
        return step(learner, state, example.x, answer, key)

    with rule(
        "hyperparameters may be traced, and a round in lanes is the round alone, up to rounding",
        "no `if`, float() or NumPy on hyperparameters, features or states; nothing from outside of "
        "these, such as a counter or numpy.random; check values with jonline.checks, which passes "
        "over traced ones",
    ):
        alone = jax.jit(traced)(case.point, state, keys[0])
        twice = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), (case.point, state, keys[0]))
        both = jax.jit(jax.vmap(traced))(*twice)
        chex.assert_trees_all_close(jax.tree.map(lambda leaf: leaf[1], both), alone, rtol=1e-5)
    with rule(
        f"{kept[0]}, also under jax_enable_x64", "take dtypes of the state, or jnp.zeros(())"
    ):
        with jax.enable_x64(True):
            learner, _ = _made(case)
            state = learner.init(keys[1])
            x = jnp.asarray(example.x, jnp.float64)
            new = learner.update(state, x, learner.predict(state, x, keys[2]), feedback, keys[3])
            chex.assert_trees_all_equal_shapes_and_dtypes(state, new)


def _check_unobserved(case: Case) -> None:
    learner, environment = _made(case)
    source = environment.stream.init(jax.random.key(3))
    state = learner.init(jax.random.key(4))
    for t in range(6):
        k_predict, k_oracle, k_update = jax.random.split(jax.random.key(5 + t), 3)
        x, y = environment.stream.draw(source, jnp.int32(t))
        prediction = learner.predict(state, x, k_predict)
        feedback = environment.oracle(y, prediction, k_oracle)
        if not hasattr(feedback, "observed"):
            return  # a kind of feedback that always comes
        before, state = state, learner.update(state, x, prediction, feedback, k_update)
    empty = jax.tree.map(jnp.zeros_like, feedback)
    flags = {name: getattr(empty, name) for name in feedback._fields if name in FLAGS}
    cure = "end update with oracles.where_observed(feedback.observed, new, state)"
    with rule("of an answer without a value nothing but `observed` is read", cure):
        after, other = (
            learner.update(before, x, prediction, answer, k_update)
            for answer in (empty, feedback._replace(**flags))
        )
        chex.assert_trees_all_equal(after, other)
    with rule("from an answer without a value nothing is learned", cure):
        if hasattr(case.make(case.point, case.data)[0].update, "needs_every_answer"):
            scores = [learner.predict(state, x, k_predict).score for state in (before, after)]
            # the state counts the round, so a sum of gradients may be split anew
            np.testing.assert_allclose(*scores, rtol=1e-5, atol=1e-6)
            return
        leaves = (jax.tree_util.tree_leaves_with_path(tree) for tree in (before, after))
        for (path, old), (_, new) in zip(*leaves, strict=True):
            counts = jnp.issubdtype(new.dtype, jnp.integer)
            same = (new >= old) & (new <= old + 1) if counts else new == old
            holds(np.all(same), f"state{jax.tree_util.keystr(path)} went from {old} to {new}")


def _check_key_reuse(case: Case) -> None:
    def one_round(k_init, k_source, k_step):
        learner, environment = case.make(case.point, case.data)
        example = environment.stream.draw(environment.stream.init(k_source), jnp.int32(0))
        answer = lambda prediction, k: environment.oracle(example.y, prediction, k)  # noqa: E731
        return step(learner, learner.init(k_init), example.x, answer, k_step)

    with rule("each key is used once", "k_one, k_two = jax.random.split(key)"):
        with jax.debug_key_reuse(True):
            jax.jit(one_round)(*jax.random.split(jax.random.key(2), 3))


def _check_bits(case: Case) -> SweepResult:
    """Returns a sweep of 7 seeds, whose point `_own` is the case's."""
    every = case.num_rounds // 4
    settings = _settings(case)
    grid = {name: value * _SCALES for name, value in case.point.items()}
    turned = {name: axis[::-1] for name, axis in grid.items()}
    with rule("a run stays finite", "guard divisions: jnp.where on the operand, not on the result"):
        alone = run(case.make, case.metrics, _at(grid, 1), seed=4, **settings)
        holds(not alone.non_finite, f"{alone.non_finite}")
    with rule(
        "a run has the same bits alone, in a wide sweep, in other blocks and orders, in pieces",
        REPORT,
    ):
        wide = sweep(case.make, case.metrics, grid, num_seeds=7, **settings)
        pieces = sweep(
            case.make, case.metrics, turned, num_seeds=5, block=16, windows_per_call=1, **settings
        )
        for result, point in ((wide, _own(case)), (pieces, len(_SCALES) - 2 if grid else 0)):
            for name, sums in alone.records.items():
                np.testing.assert_array_equal(result.records[name][point, 4], sums[0, 0], name)
            chex.assert_trees_all_equal(_lane(result.states, point, 4), _lane(alone.states, 0, 0))
    with rule(
        "the rounds of a trace are those whose metrics a sweep adds up",
        "metrics are functions of example, prediction, feedback and state alone",
    ):
        traced = trace(
            case.make, _at(grid, 1), data=case.data, key=11, seed=4, first=every, last=2 * every
        )
        parts = (jax.tree.map(jnp.asarray, part) for part in traced[1:5])
        for name, values in jax.vmap(case.metrics)(*parts).items():
            total = np.sum(np.asarray(values), dtype=np.float64)
            np.testing.assert_allclose(alone.records[name][0, 0, 1], total, rtol=1e-5, err_msg=name)
    return wide


def _check_delays(case: Case, now: SweepResult) -> None:
    settings, T = _settings(case), case.num_rounds

    def late(delay):
        def make(point, data):
            # traced as without a delay: the compiler folds what is constant, with other bits
            learner, environment = case.make({name: point[name] for name in case.point}, data)
            return learner, environment._replace(delay=delay(point))

        grid = product_grid(delay=[0, T], **{name: float(v) for name, v in case.point.items()})
        return sweep(make, case.metrics, grid, num_seeds=7, **settings)

    cure = "take what update needs of the round that was asked from `prediction`, not the state"
    with rule("answers that come in their own round have the bits of no delay", REPORT):
        fixed = late(lambda point: delays.fixed(point["delay"], max_rounds=T))
        variable = late(lambda point: delays.table(np.zeros(T, int), max_rounds=2))
        for result in (fixed, variable):
            for name, sums in now.records.items():
                np.testing.assert_array_equal(result.records[name][0], sums[_own(case)], name)
            chex.assert_trees_all_equal(
                jax.tree.map(lambda leaf: leaf[0], result.states),
                jax.tree.map(lambda leaf: leaf[_own(case)], now.states),
            )
            holds(not result.undelivered[0].any(), "answers that did not come")
    with rule("a learner that is never answered keeps its first state", cure):
        learner, _ = case.make(case.point, case.data)
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(11), 0), 0)
        chex.assert_trees_all_equal(_lane(fixed.states, 1, 0), learner.init(key))
        holds((fixed.undelivered[1] == T).all(), f"undelivered {fixed.undelivered[1]}")


def _own(case: Case) -> int:
    """Returns which point of `_check_bits` is the case's; without hyperparameters there is one."""
    return 1 if case.point else 0


def _made(case: Case) -> tuple[Learner, Environment]:
    learner, environment = case.make(case.point, case.data)
    return Learner(*map(jax.jit, learner)), environment


def _settings(case: Case) -> dict[str, Any]:
    return dict(
        data=case.data, num_rounds=case.num_rounds, key=11, record_every=case.num_rounds // 4
    )


def _at(grid: dict[str, np.ndarray], i: int) -> dict[str, Any]:
    return {name: axis[i] for name, axis in grid.items()}


def _lane(states: Any, point: int, seed: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[point, seed], states)
