"""Numbers from random words, exact where `jax.random` rounds."""

import jax
import jax.numpy as jnp

from jonline.core import Array, PRNGKey


def two_words(key: PRNGKey) -> Array:
    """Returns two random 32-bit words from a key, (2,) uint32, at the price of one hash."""
    return jax.random.key_data(jax.random.fold_in(key, 0))[:2]


def uniform_index(words: Array, bound: int | Array) -> Array:
    """Returns floor(words * bound / 2^32): a number in 0…bound-1 from a 32-bit random word.

    Args:
      words: uint32, any shape.
      bound: number of values, 1…2^31 - 1; it may be traced. The odds of two values differ by at
        most bound / 2^32, relative.

    Returns:
      int32 of the shape of `words`. 16-bit halves keep it exact without 64-bit integers.
    """
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
    """
    number = words.astype(float) * 2.0**-32
    return (number < prob) | (jnp.asarray(prob) >= 1)
