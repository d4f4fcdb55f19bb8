"""Delays: how many rounds the answer to a round takes.

A delay of 0 is an answer within the round. Answers that arrive in the same round are delivered in
the order in which they were asked.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.core import Array, Delay


def fixed(num_rounds: int | Array, *, max_rounds: int | None = None) -> Delay:
    """The same delay in every round.

    Args:
      num_rounds: the delay D >= 0. It may be traced (a grid axis) if `max_rounds` is given.
      max_rounds: static bound on D; by default D itself.

    Returns:
      A Delay with `is_fixed=True`.

    Raises:
      TypeError: if `num_rounds` is not an integer, or traced without `max_rounds`.
      ValueError: if it is negative or greater than `max_rounds`.
    """
    bound = _bound("num_rounds", num_rounds, max_rounds)
    return Delay(lambda key, t: jnp.asarray(num_rounds, jnp.int32), bound, True)


def uniform(max_rounds: int) -> Delay:
    """Delays drawn uniformly from 0…max_rounds, independent over rounds.

    Raises:
      TypeError, ValueError: if `max_rounds` is not a static integer >= 0.
    """
    checks.at_least("max_rounds", max_rounds, 0)

    def sample(key, t):
        del t
        return jax.random.randint(key, (), 0, max_rounds + 1, jnp.int32)

    return Delay(sample, max_rounds, False)


def table(rounds: np.ndarray | Array, *, max_rounds: int | None = None) -> Delay:
    """Delays given round by round.

    Args:
      rounds: (T,) integers >= 0; entry t is the delay of round t. A run must not be longer.
      max_rounds: static bound on the entries; needed when `rounds` is traced (part of the data).

    Returns:
      A Delay.

    Raises:
      TypeError: if the entries are not integers, or `rounds` is traced without `max_rounds`.
      ValueError: if an entry is negative or greater than `max_rounds`; it names the round.
    """
    bound = _bound("rounds", rounds, max_rounds)
    entries = jnp.asarray(rounds, jnp.int32)
    return Delay(lambda key, t: entries[t], bound, False)


def _bound(name: str, rounds: Any, max_rounds: int | None) -> int:
    """Checks delays, one or many, where they are concrete; returns a bound on them."""
    number = checks.concrete(rounds)
    if number is None:
        if max_rounds is None:
            raise TypeError(f"max_rounds must be given when {name} is traced (a grid axis, say)")
        return max_rounds
    checks.require(number.size > 0, name, "have at least one entry", number)
    if not np.issubdtype(number.dtype, np.integer):
        raise TypeError(f"{name} must be integers, got {number.dtype}")
    most = np.iinfo(np.int32).max if max_rounds is None else max_rounds
    bad = np.flatnonzero((number < 0) | (number > most))
    if bad.size:
        where = f" in round {bad[0]}" if number.ndim else ""
        raise ValueError(f"{name} must be in 0…{most}, got {number.flat[bad[0]]}{where}")
    return int(number.max()) if max_rounds is None else max_rounds
