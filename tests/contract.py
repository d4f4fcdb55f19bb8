"""Checks that any learner, stream or oracle passes by being handed to them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

import jonline
from jonline import delays
from jonline._engine import jaxprs as equations
from jonline._engine import rounds
from jonline.core import Learner, Stream
from tests.contract_space import check_space as check_space

FLAGS = ("observed", "answered")  # fields of a feedback that say whether it has a value


class Case(NamedTuple):
    """A learner in an environment where it can be played.

    Attributes:
      make: `(point, data) -> (learner, environment)`, without a delay.
      point: its hyperparameters, one number each.
      data: what `make` needs.
      metrics: as for `jonline.sweep`.
      num_rounds: long enough for the learner to do all that it does.
    """

    make: Callable[[dict[str, Any], Any], tuple[Learner, jonline.Environment]]
    point: dict[str, float]
    data: Any
    metrics: Callable
    num_rounds: int = 96


def check_learner(case: Case) -> None:
    """Raises AssertionError unless the learner keeps every rule of `jonline.core`."""
    _check_round(case)
    _check_key_reuse(case)
    _check_square_roots(case)
    _check_bits(case)
    _check_delays(case)


def check_stream(stream: Stream, num_features: int, num_rounds: int = 64) -> None:
    """Raises AssertionError unless rounds are the same in any order, alone or in vectors.

    Whole numbers must be equal; floating ones may differ by the rounding of vector instructions.
    """
    source = stream.init(jax.random.key(3))
    rounds = np.arange(num_rounds)
    in_order = jax.vmap(lambda t: stream.draw(source, t))(rounds)
    shuffled = np.random.default_rng(0).permutation(num_rounds)
    out_of_order = jax.jit(lambda t: jax.lax.map(lambda i: stream.draw(source, i), t))(shuffled)
    in_same_order = jax.tree.map(lambda leaf: leaf[shuffled], in_order)
    chex.assert_trees_all_close(in_same_order.x, out_of_order.x, rtol=1e-5, atol=1e-6)
    chex.assert_trees_all_equal(in_same_order.y, out_of_order.y)
    chex.assert_shape(in_order.x, (num_rounds, num_features))
    assert np.isfinite(in_order.x).all()
    other = jax.vmap(lambda t: stream.draw(stream.init(jax.random.key(4)), t))(rounds)
    assert not np.array_equal(in_order.x, other.x)


def check_oracle(oracle: jonline.core.Oracle, label: Any, prediction: Any) -> None:
    """Raises AssertionError unless the oracle is pure and reads `output` and `ask` alone."""
    key = jax.random.key(5)
    answer = oracle(label, prediction, key)
    chex.assert_trees_all_equal(answer, jax.jit(lambda k: oracle(label, prediction, k))(key))

    class Bare(NamedTuple):
        output: Any
        ask: Any

    bare = Bare(prediction.output, getattr(prediction, "ask", jnp.asarray(True)))
    chex.assert_trees_all_equal(answer, oracle(label, bare, key))
    if not np.any(getattr(answer, "observed", True)):
        assert not any(map(np.any, jax.tree.leaves(answer))), "an empty answer is zero throughout"


def _check_round(case: Case) -> None:
    learner, environment = _made(case)
    keys = jax.random.split(jax.random.key(1), 4)
    example = environment.stream.draw(environment.stream.init(keys[0]), jnp.int32(0))
    state = learner.init(keys[1])
    assert all(not jnp.asarray(leaf).weak_type for leaf in jax.tree.leaves(state))
    prediction = learner.predict(state, example.x, keys[2])
    chex.assert_trees_all_equal(prediction, learner.predict(state, example.x, keys[2]))
    assert hasattr(prediction, "output")
    feedback = environment.oracle(example.y, prediction, keys[3])
    new = learner.update(state, example.x, prediction, feedback, keys[3])
    assert all(not jnp.asarray(leaf).weak_type for leaf in jax.tree.leaves(new))
    chex.assert_trees_all_equal_structs(state, new)
    chex.assert_trees_all_equal_shapes_and_dtypes(state, new)

    _check_unobserved(case, learner, environment)

    def traced(point, state, key):  # hyperparameters may be traced; lanes equal the single round
        learner, environment = case.make(point, case.data)
        answer = lambda prediction, k: environment.oracle(example.y, prediction, k)  # noqa: E731
        return jonline.step(learner, state, example.x, answer, key)

    alone = jax.jit(traced)(case.point, state, keys[0])
    twice = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), (case.point, state, keys[0]))
    both = jax.jit(jax.vmap(traced))(*twice)
    chex.assert_trees_all_close(jax.tree.map(lambda leaf: leaf[1], both), alone, rtol=1e-5)
    with jax.enable_x64(True):
        learner, _ = _made(case)
        wide = learner.init(keys[1])
        x = jnp.asarray(example.x, jnp.float64)
        new = learner.update(wide, x, learner.predict(wide, x, keys[2]), feedback, keys[3])
        chex.assert_trees_all_equal_shapes_and_dtypes(wide, new)


def _check_unobserved(case: Case, learner: Learner, environment: jonline.Environment) -> None:
    """Of an answer without a value nothing is read, and nothing is learned."""
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
    after = [
        learner.update(before, x, prediction, answer, k_update)
        for answer in (empty, feedback._replace(**flags))
    ]
    chex.assert_trees_all_equal(*after)
    if hasattr(case.make(case.point, case.data)[0].update, "needs_every_answer"):
        scores = [learner.predict(state, x, k_predict).score for state in (before, after[0])]
        # the state counts the round, so a sum of gradients may be split anew
        np.testing.assert_allclose(*scores, rtol=1e-5, atol=1e-6)
        return
    leaves = (jax.tree_util.tree_leaves_with_path(tree) for tree in (before, after[0]))
    for (path, old), (_, new) in zip(*leaves, strict=True):
        counts = jnp.issubdtype(new.dtype, jnp.integer)
        same = (new >= old) & (new <= old + 1) if counts else new == old
        assert np.all(same), f"state{jax.tree_util.keystr(path)} moved without a value"


def _check_key_reuse(case: Case) -> None:
    with jax.debug_key_reuse(True):

        def one_round(k_init, k_source, k_step):
            learner, environment = case.make(case.point, case.data)
            example = environment.stream.draw(environment.stream.init(k_source), jnp.int32(0))
            answer = lambda prediction, k: environment.oracle(example.y, prediction, k)  # noqa: E731
            return jonline.step(learner, learner.init(k_init), example.x, answer, k_step)

        jax.jit(one_round)(*jax.random.split(jax.random.key(2), 3))


def _check_bits(case: Case) -> None:
    """A run has the same bits alone, in a wide sweep, in another block, order and in pieces."""
    every = case.num_rounds // 4
    settings = _settings(case)
    grid = {
        name: np.asarray([value * 1.5, value, value * 0.75]) for name, value in case.point.items()
    }
    turned = {name: axis[::-1] for name, axis in grid.items()}
    alone = jonline.run(case.make, case.metrics, _at(grid, 1), seed=4, **settings)
    assert not alone.non_finite
    wide = jonline.sweep(case.make, case.metrics, grid, num_seeds=7, **settings)
    pieces = jonline.sweep(
        case.make, case.metrics, turned, num_seeds=5, block=16, windows_per_call=1, **settings
    )
    for result in (wide, pieces):
        point = min(1, len(result.undelivered) - 1)  # a learner without hyperparameters has one
        for name, sums in alone.records.items():
            np.testing.assert_array_equal(result.records[name][point, 4], sums[0, 0], name)
        chex.assert_trees_all_equal(_lane(result.states, point, 4), _lane(alone.states, 0, 0))
    traced = jonline.trace(
        case.make, _at(grid, 1), data=case.data, key=11, seed=4, first=every, last=2 * every
    )
    measured = jax.vmap(case.metrics)(*(jax.tree.map(jnp.asarray, part) for part in traced[1:5]))
    for name, values in measured.items():
        total = np.sum(np.asarray(values), dtype=np.float64)
        np.testing.assert_allclose(alone.records[name][0, 0, 1], total, rtol=1e-5, err_msg=name)


def _check_delays(case: Case) -> None:
    """Delay 0 has the bits of no delay; one beyond the last round leaves the initial state."""
    settings, T = _settings(case) | {"num_seeds": 8}, case.num_rounds
    here = {name: [value] for name, value in case.point.items()}

    def late(delay):
        def make(point, data):
            # traced as without a delay: the compiler folds what is constant, with other bits
            learner, environment = case.make({name: point[name] for name in case.point}, data)
            return learner, environment._replace(delay=delay(point))

        grid = jonline.product_grid(delay=[0, T], **case.point)
        return jonline.sweep(make, case.metrics, grid, **settings)

    now = jonline.sweep(case.make, case.metrics, here, **settings)
    fixed = late(lambda point: delays.fixed(point["delay"], max_rounds=T))
    variable = late(lambda point: delays.table(np.zeros(T, int), max_rounds=2))
    for result in (fixed, variable):
        for name, sums in now.records.items():
            np.testing.assert_array_equal(result.records[name][0], sums[0], name)
        first = [jax.tree.map(lambda leaf: leaf[0], r.states) for r in (result, now)]
        chex.assert_trees_all_equal(*first)
        assert not result.undelivered[0].any()
    learner, _ = case.make(case.point, case.data)
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(11), 0), 0)
    chex.assert_trees_all_equal(_lane(fixed.states, 1, 0), learner.init(key))
    assert (fixed.undelivered[1] == T).all()


def _made(case: Case) -> tuple[Learner, jonline.Environment]:
    learner, environment = case.make(case.point, case.data)
    return Learner(*map(jax.jit, learner)), environment


def _settings(case: Case) -> dict[str, Any]:
    return dict(
        data=case.data, num_rounds=case.num_rounds, key=11, record_every=case.num_rounds // 4
    )


def _check_square_roots(case: Case) -> None:
    """No division by a bare square root: XLA would take an approximate one, by vector width."""

    def one_round(point, key):
        made = case.make(point, case.data)
        carry = rounds.begin(made, key, case.num_rounds)
        return rounds.play(made, case.metrics, key, jnp.int32(0), carry)

    point = {name: jnp.asarray(value, float) for name, value in case.point.items()}
    eqns = equations.inlined(one_round, point, jax.random.key(0)).jaxpr.eqns
    roots = {var for eqn in eqns if eqn.primitive.name == "sqrt" for var in eqn.outvars}
    for eqn in eqns:
        assert eqn.primitive.name != "rsqrt", "write a / maximum(sqrt(b), tiny), not rsqrt(b)"
        bare = eqn.primitive.name == "div" and any(eqn.invars[1] is root for root in roots)
        assert not bare, "write a / maximum(sqrt(b), tiny), not a / sqrt(b)"


def _at(grid: dict[str, np.ndarray], i: int) -> dict[str, Any]:
    return {name: axis[i] for name, axis in grid.items()}


def _lane(states: Any, point: int, seed: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[point, seed], states)
