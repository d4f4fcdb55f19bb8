"""Streams over a data set: with replacement, one pass, shuffled epochs.

Each takes whatever has `.x` (N, n) and `.y` (N, ...) arrays, e.g. `jonline.data.Dataset`; where it
also has `.num_classes`, concrete labels are checked to be in 1…num_classes. Without it K is not
known here: whole labels (N,) are checked to be 1 or higher, or else -1 and 1, and one above the
learner's K is reported by `metrics.ordinal` alone. Other labels of your own learner are bools,
floats or rows. A row number is the high word of a 32 x 32 bit product, or comes from a permutation
made once per run.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.core import Array, Example, PRNGKey, Round, Stream
from jonline.sampling import uniform_index


def resample(data: Any) -> Stream:
    """Rows drawn uniformly with replacement, independent over rounds.

    Args:
      data: `.x` (N, n), `.y` (N, ...), N >= 1.

    Returns:
      A Stream of `Example(x[i], y[i])`.

    Raises:
      TypeError: if `data` has no `.x` and `.y`.
      ValueError: if there is no row, the lengths differ, or a label is outside 1…num_classes
        (without num_classes: below 1 and not of -1 and 1).
    """
    data, num_rows = _checked(data)

    def draw(source, t):
        return _row(data, uniform_index(_word(source, t), num_rows))

    return Stream(init=lambda key: key, draw=draw)


def one_pass(data: Any, *, shuffle: bool = True) -> Stream:
    """Every row once, in an order drawn for the run (or as stored, with `shuffle=False`).

    A run longer than the data set goes through the same order again.

    Args:
      data: `.x` (N, n), `.y` (N, ...), N >= 1.
      shuffle: whether each run permutes the rows.

    Returns:
      A Stream of `Example(x[i], y[i])`.

    Raises:
      TypeError, ValueError: as `resample`.
    """
    data, num_rows = _checked(data)
    shuffle = checks.flag("shuffle", shuffle)

    def init(key):
        if shuffle:
            return jax.random.permutation(key, num_rows).astype(jnp.int32)
        return jnp.arange(num_rows, dtype=jnp.int32)

    return Stream(init=init, draw=lambda order, t: _row(data, order[t % num_rows]))


def epochs(data: Any) -> Stream:
    """Passes over the whole data set, each in a fresh order.

    The order of an epoch is a keyed bijection of 0…N-1 (an eight-round Feistel network on the next
    power of four, walked until it lands below N), so that round t can be drawn alone and nothing of
    size N is kept per run. It is a pseudo-random permutation, not an exactly uniform one.

    Args:
      data: `.x` (N, n), `.y` (N, ...), N >= 1.

    Returns:
      A Stream of `Example(x[i], y[i])`; every row appears once in each epoch of N rounds.

    Raises:
      TypeError, ValueError: as `resample`.
    """
    data, num_rows = _checked(data)
    half = max(1, ((num_rows - 1).bit_length() + 1) // 2)
    mask = jnp.uint32((1 << half) - 1)

    def permute(keys, i):
        left, right = i >> half, i & mask
        for key in keys:
            left, right = right, left ^ (_mix(right ^ key) & mask)
        return (left << half) | right

    def draw(source, t):
        epoch_key = jax.random.fold_in(source, t // num_rows)
        keys = jax.random.bits(epoch_key, (8,), jnp.uint32)
        i = permute(keys, jnp.asarray(t % num_rows).astype(jnp.uint32))
        i = jax.lax.while_loop(lambda i: i >= num_rows, lambda i: permute(keys, i), i)
        return _row(data, i.astype(jnp.int32))

    return Stream(init=lambda key: key, draw=draw)


def _word(key: PRNGKey, t: Round) -> Array:
    """The first 32-bit word of the key of round t."""
    return jax.random.key_data(jax.random.fold_in(key, t))[0]


def _mix(word: Array) -> Array:
    """A bijective 32-bit hash (the finaliser of MurmurHash3)."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)


def _row(data: Example, i: Array) -> Example:
    x, y = jnp.asarray(data.x), jnp.asarray(data.y)
    return Example(x[i], y[i])


def _checked(data: Any) -> tuple[Example, int]:
    """Returns the rows, which nobody else can change any more, and their number."""
    if not (hasattr(data, "x") and hasattr(data, "y")):
        raise TypeError(
            "data must have .x and .y, as jonline.data.from_arrays(x, y, num_classes) returns, got "
            f"{type(data).__name__}"
        )
    for name, part in (("x", data.x), ("y", data.y)):
        if not isinstance(part, (np.ndarray, jax.Array)):
            raise TypeError(f"data.{name} must be an array, got {type(part).__name__}")
        checks.require(np.ndim(part) > 0, f"data.{name}", "have rows", f"shape {np.shape(part)}")
    num_rows, num_labels = len(data.x), len(data.y)
    checks.require(num_rows >= 1, "data", "have at least one row", num_rows)
    checks.require(num_rows < 2**31, "data", "have less than 2^31 rows", num_rows)
    if num_labels != num_rows:
        raise ValueError(f"data.x has {num_rows} rows and data.y {num_labels}; they must agree")
    num_classes = getattr(data, "num_classes", None)
    labels = checks.concrete(data.y)
    if num_classes is not None and labels is not None and labels.ndim == 1:
        checks.labels(labels, checks.at_least("data.num_classes", num_classes, 1))
    elif labels is not None and labels.ndim == 1 and labels.dtype.kind in "iu":
        _check_whole(labels)
    return Example(checks.own(data.x), checks.own(data.y)), num_rows


def _check_whole(labels: np.ndarray) -> None:
    """Raises ValueError for whole labels of unknown K that are neither 1 or higher nor -1 and 1."""
    if labels.min() < 1 and not np.isin(labels, (-1, 1)).all():
        row = int(np.argmax(labels < 1))
        raise ValueError(
            f"whole labels must be 1…K, or -1 and 1, got {labels[row]} in row {row}; "
            "jonline.data.encode_labels and encode_signs map yours to these"
        )
