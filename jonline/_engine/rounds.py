"""One round of one run: predict, answer, measure, and deliver the answers that are due."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jonline._engine import pending, primitives
from jonline.core import (
    Array,
    Environment,
    Example,
    Feedback,
    Learner,
    Metrics,
    Prediction,
    PRNGKey,
    State,
)

PURPOSES = ("init", "source", "predict", "oracle", "update", "delay")


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


class RoundRecord(NamedTuple):
    """What happened in a round; `state` is the learner's before the update."""

    example: Example
    prediction: Prediction
    feedback: Feedback
    state: State
    delivered: Array


def purpose_keys(run_key: PRNGKey) -> dict[str, PRNGKey]:
    """Returns one key per purpose of a run; round t of a purpose folds t into it."""
    return {name: jax.random.fold_in(run_key, i) for i, name in enumerate(PURPOSES)}


def first_carry(made: tuple[Learner, Environment], run_key: PRNGKey, num_rounds: int) -> Carry:
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
        return example.x, prediction, pending.varying(feedback)

    ring = pending.empty_ring(environment.delay, jax.eval_shape(ask), num_rounds)
    return Carry(state, ring, jnp.zeros((), jnp.int32))


def play_round(
    made: tuple[Learner, Environment],
    metrics: Metrics,
    run_key: PRNGKey,
    t: Array,
    carry: Carry,
) -> tuple[Carry, dict[str, Any], RoundRecord]:
    """Plays round t: predict, oracle, metrics, then `update` for every answer that is due.

    Args:
      made: learner and environment.
      metrics: `(example, prediction, feedback, state) -> dict of scalars`.
      run_key: key of the run.
      t: int32, 0-based.
      carry: as `first_carry` or the round before returned it.

    Returns:
      The carry, the metrics and what happened.

    Raises:
      TypeError: if a prediction has no `.output`, or `update` changes structure, shapes or dtypes
        of the state.
    """
    learner, (stream, oracle, delay) = made
    keys = purpose_keys(run_key)
    source = stream.init(keys["source"])
    example = primitives.drawn(stream.draw(source, t))
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
        return new, measured, RoundRecord(example, prediction, feedback, carry.state, jnp.int32(1))

    state, ring, delivered = pending.deliver(
        delay, jax.random.fold_in(keys["delay"], t), t, carry.ring,
        (example.x, prediction, feedback), carry.state, update,
    )  # fmt: skip
    new = Carry(state, ring, carry.num_pending + 1 - delivered)
    return new, measured, RoundRecord(example, prediction, feedback, carry.state, delivered)


def _predict(learner: Learner, state: State, x: Array, key: PRNGKey) -> Prediction:
    prediction = learner.predict(state, x, key)
    if not hasattr(prediction, "output"):
        raise TypeError(
            "predict must return a NamedTuple that has what is played as .output, got "
            f"{type(prediction).__name__} {prediction!r:.100}"
        )
    return prediction


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
