"""Delays: how many rounds the answer to a round takes.

A delay of 0 is an answer within the round. Answers that arrive in the same round are delivered in
the order in which they were asked.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jonline import checks
from jonline.core import Array, Delay


def fixed(rounds: int | Array, *, max_rounds: int | None = None) -> Delay:
    """The same delay in every round.

    Args:
      rounds: the delay D >= 0. It may be traced (a grid axis) if `max_rounds` is given.
      max_rounds: static bound on D, < 2^31 - 1; by default D itself.

    Returns:
      A Delay with `is_fixed=True`.

    Raises:
      TypeError: if `rounds` is not an integer, or traced without `max_rounds`.
      ValueError: if it is not one number, negative or greater than `max_rounds`.
    """
    known, bound = _one(rounds, max_rounds)
    return Delay(lambda key, t: jnp.asarray(known, jnp.int32), bound, True)


def uniform(most: int | Array, *, max_rounds: int | None = None) -> Delay:
    """Delays drawn uniformly from 0…most, independent over rounds.

    Args:
      most: >= 0. It may be traced (a grid axis) if `max_rounds` is given.
      max_rounds: static bound on `most`, < 2^31 - 1; by default `most` itself.

    Returns:
      A Delay.

    Raises:
      TypeError, ValueError: as `fixed`.
    """
    known, bound = _one(most, max_rounds)

    def sample(key, t):
        del t
        return jax.random.randint(key, (), 0, jnp.asarray(known, jnp.int32) + 1, jnp.int32)

    return Delay(sample, bound, False)


def geometric(prob: float | Array, *, max_rounds: int) -> Delay:
    """Delays with P(delay >= k) = (1 - prob)^k, cut at `max_rounds`: an answer comes in each round
    with probability `prob`, and in round `max_rounds` at the latest.

    Args:
      prob: in (0, 1]; the mean of the uncut delay is (1 - prob) / prob.
      max_rounds: static bound, < 2^31 - 1.

    Returns:
      A Delay.

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind or out of range.
    """
    prob = checks.real("prob", prob, "be in (0, 1]", lambda p: (p > 0) & (p <= 1))
    max_rounds = checks.delay_bound(max_rounds)

    def sample(key, t):
        del t
        stays = jnp.asarray(prob) < 1
        rate = -jnp.log1p(-jnp.where(stays, jnp.asarray(prob, float), 0.5))
        return _cut(jnp.where(stays, jax.random.exponential(key) / rate, 0.0), max_rounds)

    return Delay(sample, max_rounds, False)


def heavy_tailed(exponent: float | Array, *, max_rounds: int) -> Delay:
    """Delays with P(delay >= k) = (1 + k)^-exponent, cut at `max_rounds`.

    Args:
      exponent: > 0; the uncut delay has no mean for exponent <= 1, no variance for exponent <= 2.
      max_rounds: static bound, < 2^31 - 1.

    Returns:
      A Delay.

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind or out of range.
    """
    exponent = checks.positive("exponent", exponent)
    max_rounds = checks.delay_bound(max_rounds)

    def sample(key, t):
        del t
        power = jax.random.exponential(key) / jnp.asarray(exponent, float)
        return _cut(jnp.expm1(jnp.minimum(power, 80.0)), max_rounds)

    return Delay(sample, max_rounds, False)


def never(prob: float | Array, delay: Delay | None = None) -> Delay:
    """Delays of answers some of which never come.

    The answer to a round takes as long as `delay` says, or with probability `prob`, drawn for each
    round by itself, never comes: it takes no room, the learner is not told, and
    `SweepResult.undelivered` counts it. (`oracles.missing` is for answers that come empty.)

    Args:
      prob: in [0, 1]; it may be a grid axis. A concrete 0 returns `delay` itself; with a traced one
        its random draws are others.
      delay: how long the others take; None for at once.

    Returns:
      A Delay with the bounds of `delay` and `may_never=True`. Learners that need every answer, as
      those with `optimizers.bold` or `odaftrl` do, are refused it.

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind or out of range.
    """
    prob = checks.probability("prob", prob)
    delay = fixed(0) if delay is None else delay
    checks.kind("delay", delay, Delay)
    number = checks.concrete(prob)
    if number is not None and number == 0:
        return delay

    def sample(key, t):
        k_never, k_delay = jax.random.split(key)
        comes = jax.random.uniform(k_never) >= prob
        return jnp.where(comes, delay.sample(k_delay, t), -1)

    return delay._replace(sample=sample, is_fixed=False, may_never=True)


def table(rounds: np.ndarray | Array, *, max_rounds: int | None = None) -> Delay:
    """Delays given round by round.

    Args:
      rounds: (T,) integers >= -1; entry t is the delay of round t, -1 if its answer never comes.
        A run must not be longer.
      max_rounds: static bound on the entries, < 2^31 - 1; needed when `rounds` is traced (part of
        the data).

    Returns:
      A Delay.

    Raises:
      TypeError: if the entries are not integers, or `rounds` is traced without `max_rounds`.
      ValueError: if `rounds` is not (T,), or an entry is below -1 or greater than `max_rounds`; it
        names the round.
    """
    known = _known(rounds)
    checks.require(known.ndim == 1, "delay", "have shape (T,)", known.shape)
    checks.require(len(known) > 0, "delay", "have at least one entry", known)
    bound = _bound(known, max_rounds, least=-1)
    entries = jnp.asarray(known, jnp.int32)
    may_never = isinstance(known, Tracer) or bool(np.any(known < 0))
    return Delay(lambda key, t: entries[t], bound, False, len(known), may_never)


def _cut(delay: Array, max_rounds: int) -> Array:
    """Returns floor(delay), at most `max_rounds`, int32."""
    most = min(max_rounds, 2**30)  # a float that int32 holds
    whole = jnp.minimum(jnp.floor(delay), float(most)).astype(jnp.int32)
    return jnp.minimum(whole, max_rounds)


def _one(rounds: Any, max_rounds: int | None) -> tuple[Any, int]:
    """Returns one delay, concrete or traced, and a static bound on it."""
    known = _known(rounds)
    rule = "be one number (table takes many)"
    checks.require(known.shape == (), "delay", rule, f"shape {known.shape}")
    return known, _bound(known, max_rounds)


def _known(rounds: Any) -> Any:
    """Returns delays as an array that nobody else can change, traced ones as they are."""
    return rounds if isinstance(rounds, Tracer) else checks.array("delay", rounds)


def _bound(rounds: Any, max_rounds: int | None, least: int = 0) -> int:
    """Checks delays, one or many, where they are concrete; returns a bound on them."""
    if max_rounds is not None:
        max_rounds = checks.delay_bound(max_rounds)
    number = checks.concrete(rounds)
    if number is None:
        if max_rounds is None:
            raise TypeError("max_rounds must be given when the delay is traced (a grid axis, say)")
        return max_rounds
    if not np.issubdtype(number.dtype, np.integer):
        raise TypeError(f"delay must be an integer, got {number.dtype}")
    most = 2**31 - 2 if max_rounds is None else max_rounds
    bad = np.flatnonzero((number < least) | (number > most))
    if bad.size:
        where = f" in round {bad[0]}" if number.ndim else ""
        also = "-1 (never) or " if least < 0 else ""
        raise ValueError(f"delay must be {also}in 0…{most}, got {number.flat[bad[0]]}{where}")
    return max(int(number.max()), 0) if max_rounds is None else max_rounds
