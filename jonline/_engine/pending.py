"""Answers on their way: the ring that holds them, and what is delivered in a round."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jonline import checks
from jonline.core import Array, ArrayTree, Delay, Feedback, PRNGKey, State


class Ring(NamedTuple):
    """Answers on their way: slot s holds the youngest round t with t mod size = s.

    `feedback` holds its leaves but for constants, see `varying`; `due` is the round in which the
    answer comes, -1 where none does.
    """

    x: Array
    prediction: ArrayTree
    feedback: ArrayTree
    due: Array


def empty_ring(delay: Delay, asked: tuple, num_rounds: int) -> Ring:
    """Returns the ring before round 0 of a run of at most `num_rounds`.

    Args:
      delay: of the environment.
      asked: shapes of (x, prediction, `varying` feedback) of a round.
      num_rounds: an answer that takes longer never comes; it needs no slot.
    """
    size = min(delay.max_rounds, num_rounds) + 1
    slots = jax.tree.map(lambda leaf: jnp.zeros((size, *leaf.shape), leaf.dtype), asked)
    return Ring(*slots, due=jnp.full(size, -1, jnp.int32))


def deliver(
    delay: Delay, key: PRNGKey, t: Array, ring: Ring, asked: tuple, state: State, update: Callable
) -> tuple[State, Ring, Array]:
    """Puts what was asked in round t into the ring; returns what is there after all that is due.

    Args:
      delay: of the environment.
      key: of the round's delay.
      t: int32, the round.
      ring: as it was before the round.
      asked: (x, prediction, feedback) of the round.
      state: the learner's.
      update: `(state, t, x, prediction, feedback) -> state`, t the round that was asked.

    Returns:
      The state, the ring, and the number of answers that were delivered.
    """
    x, prediction, feedback = asked
    wait = jnp.asarray(delay.sample(key, t), jnp.int32)
    wait = jnp.clip(wait, -1 if delay.may_never else 0, delay.max_rounds)
    due = jnp.where(wait < 0, -1, t + wait) if delay.may_never else t + wait
    size = ring.due.shape[0]
    ring = jax.tree.map(
        lambda slots, new: jax.lax.dynamic_update_index_in_dim(
            slots, jnp.asarray(new, slots.dtype), t % size, 0
        ),
        ring,
        Ring(x, prediction, varying(feedback), due),
    )

    def update_late(state, t, item):
        return update(state, t, item.x, item.prediction, _whole(feedback, item.feedback))

    is_fixed = delay.is_fixed and not delay.may_never
    state, delivered = (_deliver_fixed if is_fixed else _deliver_due)(
        update_late, state, ring, t, wait
    )
    return state, ring, delivered


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


def varying(feedback: Feedback) -> list:
    """Returns the leaves of a feedback that are not True in every round, which no ring holds."""
    return [leaf for leaf in jax.tree.leaves(feedback) if not checks.known_true(leaf)]


def _whole(like: Feedback, varying: list) -> Feedback:
    """Returns the feedback, in the form of `like`, of which `varying` is left."""
    left, (leaves, tree) = iter(varying), jax.tree.flatten(like)
    return tree.unflatten([leaf if checks.known_true(leaf) else next(left) for leaf in leaves])


def _slot(ring: Ring, i: Array) -> Ring:
    return jax.tree.map(lambda slots: jax.lax.dynamic_index_in_dim(slots, i, 0, False), ring)
