"""BOLD: one copy of an optimizer for each round that an answer is on its way.

Source: Joulani, György and Szepesvári 2013, "Online Learning under Delayed Feedback", as used for
arXiv:2502.18709.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jonline import checks
from jonline.core import Array
from jonline.optimizers.online import OnlineOptimizer


class BoldState(NamedTuple):
    """State of `bold`: the states of all copies (D+1, ...), and the answers so far, int32."""

    copies: Any
    count: Array


def bold(base: OnlineOptimizer, *, delay: int) -> OnlineOptimizer:
    """D + 1 copies of an optimizer in turn, none of which ever waits for an answer.

    Copy t mod (D+1) plays round t and learns from its answer, which comes just before the copy's
    next turn. Under a fixed delay of D the answers come one a round, so their number tells the
    round: t = count + D once one has come, and before that all copies are as they began. So each
    answer has to come; one without a value counts, and leaves the copy as it is.

    Args:
      base: e.g. `adaptive_ogd(10.0, project=True)`.
      delay: D >= 0, static: the fixed delay of the environment.

    Returns:
      An OnlineOptimizer with state `BoldState`: D + 1 times the memory of `base`.

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind or out of range.
    """
    checks.kind("base", base, OnlineOptimizer)
    delay = checks.delay_bound(delay, "delay")
    num_copies = delay + 1

    def init(params):
        copies = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (num_copies, *jnp.shape(leaf))), base.init(params)
        )
        return BoldState(copies, jnp.zeros((), jnp.int32))

    def copy(state, index):
        take = jax.lax.dynamic_index_in_dim
        return jax.tree.map(lambda leaf: take(leaf, index, 0, False), state.copies)

    def playing(state):
        return copy(state, (state.count + delay) % num_copies)

    def answered(state, move):
        index = state.count % num_copies
        new = move(copy(state, index))
        put = jax.lax.dynamic_update_index_in_dim
        copies = jax.tree.map(lambda leaf, part: put(leaf, part, index, 0), state.copies, new)
        return BoldState(copies, state.count + 1)

    def update(state, residual, x, stamp):
        return answered(state, lambda one: base.update(one, residual, x, stamp))

    def skip(state):
        return answered(state, (lambda one: one) if base.skip is None else base.skip)

    return OnlineOptimizer(
        init=init,
        params=lambda state: base.params(playing(state)),
        stamp=lambda state: base.stamp(playing(state)),
        update=update,
        skip=skip,
    )
