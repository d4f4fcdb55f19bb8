"""One round of one run: predict, answer, measure, and deliver the answers that are due."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jonline import checks
from jonline._engine import jaxprs as equations
from jonline.core import (
    Array,
    ArrayTree,
    Environment,
    Example,
    Feedback,
    Learner,
    Prediction,
    PRNGKey,
    State,
)

PURPOSES = ("init", "source", "predict", "oracle", "update", "delay")

Make = Callable[[dict[str, Any], Any], tuple[Learner, Environment]]
Metrics = Callable[[Example, Prediction, Feedback, State], dict[str, Any]]


class Ring(NamedTuple):
    """Answers on their way: slot s holds the youngest round t with t mod size = s.

    `feedback` holds its leaves but for constants, see `_varying`; `due` is the round in which the
    answer comes, -1 where none does.
    """

    x: Array
    prediction: ArrayTree
    feedback: ArrayTree
    due: Array


class Carry(NamedTuple):
    """What a run takes from one round to the next.

    Attributes:
      state: the learner's.
      ring: pending answers, or () without a delay.
      num_pending: answers asked for and not delivered, those too that never come, int32.
    """

    state: State
    ring: Any
    num_pending: Array


class Seen(NamedTuple):
    """What happened in a round; `state` is the learner's before the update."""

    example: Example
    prediction: Prediction
    feedback: Feedback
    state: State
    delivered: Array


def purpose_keys(run_key: PRNGKey) -> dict[str, PRNGKey]:
    """Returns one key per purpose of a run; round t of a purpose folds t into it."""
    return {name: jax.random.fold_in(run_key, i) for i, name in enumerate(PURPOSES)}


def begin(made: tuple[Learner, Environment], run_key: PRNGKey, num_rounds: int) -> Carry:
    """Returns the carry before round 0 of a run of at most `num_rounds`."""
    learner, environment = made
    keys = purpose_keys(run_key)
    state = jax.tree_util.tree_map_with_path(_own_type, learner.init(keys["init"]))
    if environment.delay is None:
        return Carry(state, (), jnp.zeros((), jnp.int32))

    def ask():
        example = environment.stream.draw(environment.stream.init(keys["source"]), jnp.int32(0))
        prediction = _predict(learner, state, example.x, keys["predict"])
        feedback = environment.oracle(example.y, prediction, keys["oracle"])
        return example.x, prediction, _varying(feedback)

    # An answer that takes longer than the run never comes; it needs no slot.
    size = min(environment.delay.max_rounds, num_rounds) + 1
    slots = jax.tree.map(
        lambda leaf: jnp.zeros((size, *leaf.shape), leaf.dtype), jax.eval_shape(ask)
    )
    ring = Ring(*slots, due=jnp.full(size, -1, jnp.int32))
    return Carry(state, ring, jnp.zeros((), jnp.int32))


def play(
    made: tuple[Learner, Environment],
    metrics: Metrics,
    run_key: PRNGKey,
    t: Array,
    carry: Carry,
) -> tuple[Carry, dict[str, Any], Seen]:
    """Plays round t: predict, oracle, metrics, then `update` for every answer that is due.

    Args:
      made: learner and environment.
      metrics: `(example, prediction, feedback, state) -> dict of scalars`.
      run_key: key of the run.
      t: int32, 0-based.
      carry: as `begin` or the round before returned it.

    Returns:
      The carry, the metrics and what happened.

    Raises:
      TypeError: if a prediction has no `.output`, or `update` changes structure, shapes or dtypes
        of the state.
    """
    learner, (stream, oracle, delay) = made
    keys = purpose_keys(run_key)
    source = stream.init(keys["source"])
    example = equations.drawn(stream.draw(source, t))
    prediction = _predict(learner, carry.state, example.x, jax.random.fold_in(keys["predict"], t))
    feedback = oracle(example.y, prediction, jax.random.fold_in(keys["oracle"], t))
    measured = metrics(example, prediction, feedback, carry.state)

    def update(state, t, x, prediction, feedback):
        key = jax.random.fold_in(keys["update"], t)
        new = learner.update(state, x, prediction, feedback, key)
        _check_state(state, new)
        return new

    if delay is None:
        new = Carry(update(carry.state, t, example.x, prediction, feedback), (), carry.num_pending)
        return new, measured, Seen(example, prediction, feedback, carry.state, jnp.int32(1))

    wait = jnp.asarray(delay.sample(jax.random.fold_in(keys["delay"], t), t), jnp.int32)
    wait = jnp.clip(wait, -1 if delay.may_never else 0, delay.max_rounds)
    due = jnp.where(wait < 0, -1, t + wait) if delay.may_never else t + wait
    size = carry.ring.due.shape[0]
    ring = jax.tree.map(
        lambda slots, new: jax.lax.dynamic_update_index_in_dim(
            slots, jnp.asarray(new, slots.dtype), t % size, 0
        ),
        carry.ring,
        Ring(example.x, prediction, _varying(feedback), due),
    )

    def update_late(state, t, item):
        return update(state, t, item.x, item.prediction, _whole(feedback, item.feedback))

    deliver = _deliver_fixed if delay.is_fixed and not delay.may_never else _deliver_due
    state, delivered = deliver(update_late, carry.state, ring, t, wait)
    new = Carry(state, ring, carry.num_pending + 1 - delivered)
    return new, measured, Seen(example, prediction, feedback, carry.state, delivered)


def _predict(learner: Learner, state: State, x: Array, key: PRNGKey) -> Prediction:
    prediction = learner.predict(state, x, key)
    if not hasattr(prediction, "output"):
        raise TypeError(
            "predict must return a NamedTuple that has what is played as .output, got "
            f"{type(prediction).__name__} {prediction!r:.100}"
        )
    return prediction


def _deliver_fixed(
    update: Callable, state: State, ring: Ring, t: Array, wait: Array
) -> tuple[State, Array]:
    """Delivers the one answer that a fixed delay brings in round t, if that was asked at all."""
    size = ring.due.shape[0]
    asked = t - wait
    item = _slot(ring, asked % size)
    on = (asked >= 0) & (wait < size)
    new = update(state, asked, item)
    state = jax.tree.map(lambda a, b: jnp.where(on, a, b), new, state)
    return state, on.astype(jnp.int32)


def _deliver_due(
    update: Callable, state: State, ring: Ring, t: Array, wait: Array
) -> tuple[State, Array]:
    """Delivers all answers that are due in round t, in the order in which they were asked."""
    del wait
    size = ring.due.shape[0]
    ages = (t - jnp.arange(size)) % size

    def oldest_younger_than(age):
        return jnp.max(jnp.where((ring.due == t) & (ages < age), ages, -1))

    def deliver(loop):
        state, count, age = loop
        item = _slot(ring, (t - age) % size)
        state = update(state, t - age, item)
        return state, count + 1, oldest_younger_than(age)

    start = (state, jnp.int32(0), oldest_younger_than(size))
    state, delivered, _ = jax.lax.while_loop(lambda loop: loop[2] >= 0, deliver, start)
    return state, delivered


def _varying(feedback: Feedback) -> list:
    """Returns the leaves of a feedback that are not True in every round, which no ring holds."""
    return [leaf for leaf in jax.tree.leaves(feedback) if not checks.known_true(leaf)]


def _whole(like: Feedback, varying: list) -> Feedback:
    """Returns the feedback, in the form of `like`, of which `varying` is left."""
    left, (leaves, tree) = iter(varying), jax.tree.flatten(like)
    return tree.unflatten([leaf if checks.known_true(leaf) else next(left) for leaf in leaves])


def _slot(ring: Ring, i: Array) -> Ring:
    return jax.tree.map(lambda slots: jax.lax.dynamic_index_in_dim(slots, i, 0, False), ring)


def _own_type(path: Any, leaf: Any) -> Array:
    """Makes an array of a leaf of the first state, with the dtype it has and no weaker."""
    leaf = jnp.asarray(leaf)
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        raise TypeError(
            f"state{jax.tree_util.keystr(path)} must be no random key; predict and update get "
            "theirs with every round"
        )
    return jnp.asarray(leaf, leaf.dtype)


def _check_state(old: State, new: State) -> None:
    structures = jax.tree.structure(old), jax.tree.structure(new)
    if structures[0] != structures[1]:
        raise TypeError(
            f"update must return the structure of init, {structures[0]}, got {structures[1]}"
        )
    leaves = jax.tree_util.tree_leaves_with_path(old)
    for (path, before), after in zip(leaves, jax.tree.leaves(new), strict=True):
        kept = [jax.typeof(jnp.asarray(leaf)).str_short() for leaf in (before, after)]
        if kept[0] != kept[1]:
            raise TypeError(
                f"update must keep shape and dtype of state{jax.tree_util.keystr(path)}, "
                f"{kept[0]}, got {kept[1]}"
            )
