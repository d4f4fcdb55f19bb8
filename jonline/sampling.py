"""Numbers from random words, exact where `jax.random` rounds."""

from typing import Any

import jax
import jax.numpy as jnp

from jonline import checks
from jonline.core import Array, PRNGKey


def two_words(key: PRNGKey) -> Array:
    """Returns two random 32-bit words from a key, (2,) uint32, at the price of one hash.

    Raises:
      TypeError: if `key` is not one key.
    """
    checks.key("key", key)
    return jax.random.key_data(jax.random.fold_in(key, 0))[:2]


def uniform_index(words: Array, bound: int | Array) -> Array:
    """Returns floor(words * bound / 2^32): a number in 0…bound-1 from a 32-bit random word.

    Args:
      words: uint32, any shape.
      bound: number of values, 1…2^31 - 1; it may be traced. The odds of two values differ by at
        most bound / 2^32, relative.

    Returns:
      int32 of the shape of `words`. 16-bit halves keep it exact without 64-bit integers.

    Raises:
      TypeError, ValueError: if an argument is of another kind, or a concrete bound out of range.
    """
    _check_words(words)
    ok = lambda number: (number >= 1) & (number < 2**31) & (number == number // 1)  # noqa: E731
    bound = checks.real("bound", bound, "be whole, in 1…2^31 - 1", ok)
    bound = jnp.asarray(bound).astype(jnp.uint32)
    high, low = words >> 16, words & 0xFFFF
    bound_high, bound_low = bound >> 16, bound & 0xFFFF
    middle = high * bound_low + ((low * bound_low) >> 16)
    middle_low = (middle & 0xFFFF) + low * bound_high
    return (high * bound_high + (middle >> 16) + (middle_low >> 16)).astype(jnp.int32)


def bernoulli(words: Array, prob: float | Array) -> Array:
    """Returns True with a probability, from a 32-bit random word: word / 2^32 < prob, or prob = 1.

    `jax.random.uniform` knows multiples of 2^-23 only; here a small probability is off by at most
    2^-32.

    Args:
      words: uint32, any shape.
      prob: in [0, 1].

    Returns:
      bool of the shape of `words`.

    Raises:
      TypeError, ValueError: if an argument is of another kind, or a concrete `prob` out of range.
    """
    _check_words(words)
    prob = checks.probability("prob", prob)
    number = jnp.asarray(words).astype(float) * 2.0**-32
    return (number < prob) | (jnp.asarray(prob) >= 1)


def _check_words(words: Any) -> None:
    checks.unmasked("words", words)
    if getattr(words, "dtype", None) != jnp.uint32:
        raise TypeError(f"words must be uint32, got {checks.shown(words)}")
