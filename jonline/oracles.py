"""Feedback oracles: pure functions `(label, prediction, key) -> feedback`.

An oracle reads `prediction.output` (and `prediction.ask` where a learner may stay silent) and
nothing else of the prediction. One that answers "nothing" zeroes the value.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jonline import checks
from jonline.core import Array, Oracle, PRNGKey


class Label(NamedTuple):
    """The true label.

    Attributes:
      value: the label, int32 () or a vertex (d,); 0 where `observed` is False.
      observed: bool (); False says that the round passes without a label.
    """

    value: Array
    observed: Array


class Interval(NamedTuple):
    """A set of consecutive labels low…high, both int32 (); without noise the true one is in it."""

    low: Array
    high: Array


class Directional(NamedTuple):
    """Whether the true label lies above the one that was played: above = (output < y), bool ()."""

    above: Array


def label(*, num_classes: int | None = None, noise: float | Array = 0.0) -> Oracle:
    """Full information: the label itself.

    Args:
      num_classes: K, static; needed with noise.
      noise: probability in [0, 1] that the label is replaced by a uniform one of 1…K (which may be
        the true one).

    Returns:
      An oracle that answers `Label(value, observed=True)`.

    Raises:
      TypeError: if `num_classes` is not an int, or `noise` not a number.
      ValueError: if `noise` is outside [0, 1], or may be positive while `num_classes` is None; if
        K < 2.
    """
    replace = _label_noise(num_classes, noise)

    def oracle(y, prediction, key):
        del prediction
        return Label(replace(y, key), jnp.asarray(True))

    return oracle


def neighbours(y: Array, num_classes: int, key: PRNGKey) -> tuple[Array, Array]:
    """Draws [y-1, y], [y, y+1] or [y-1, y+1] with equal chances, clipped to 1…K.

    Source: option (a) for the intervals of PRIL (Manwani 2019); its paper's own protocol is not
    public.
    """
    kind = jax.random.randint(key, (), 0, 3, jnp.int32)
    low = jnp.where(kind == 1, y, y - 1)
    high = jnp.where(kind == 0, y, y + 1)
    return jnp.maximum(low, 1), jnp.minimum(high, num_classes)


def uniform_ends(y: Array, num_classes: int, key: PRNGKey) -> tuple[Array, Array]:
    """Draws the lower end uniformly from 1…y and the upper end from y…K, independently."""
    k_low, k_high = jax.random.split(key)
    low = jax.random.randint(k_low, (), 1, y + 1, jnp.int32)
    high = jax.random.randint(k_high, (), y, num_classes + 1, jnp.int32)
    return low, high


def interval(
    num_classes: int,
    *,
    ends: Callable[[Array, int, PRNGKey], tuple[Array, Array]] = neighbours,
    fraction: float | Array = 1.0,
    noise: float | Array = 0.0,
) -> Oracle:
    """An interval of labels around the true one.

    Args:
      num_classes: K >= 2, static.
      ends: `(y, num_classes, key) -> (low, high)`: `neighbours` or `uniform_ends`, or your own.
      fraction: probability in [0, 1] that the answer is an interval; else it is exact, low = high.
      noise: probability in [0, 1] that the label is replaced by a uniform one of 1…K before the
        interval is drawn.

    Returns:
      An oracle that answers `Interval(low, high)`.

    Raises:
      ValueError: if an argument is out of range.
    """
    checks.at_least("num_classes", num_classes, 2)
    checks.probability("fraction", fraction)
    replace = _label_noise(num_classes, noise)

    def oracle(y, prediction, key):
        del prediction
        k_noise, k_ends, k_fraction = jax.random.split(key, 3)
        y = replace(y, k_noise)
        low, high = ends(y, num_classes, k_ends)
        wide = jax.random.uniform(k_fraction) < fraction
        return Interval(jnp.where(wide, low, y), jnp.where(wide, high, y))

    return oracle


def directional(*, noise: float | Array = 0.0) -> Oracle:
    """Only whether the true label is above the one that was played.

    Args:
      noise: probability in [0, 1] that the answer is flipped.

    Returns:
      An oracle that answers `Directional(above)`.

    Raises:
      ValueError: if `noise` is outside [0, 1].

    Source: arXiv:2512.19550, section 4.
    """
    checks.probability("noise", noise)
    flips = _may_be_positive(noise)

    def oracle(y, prediction, key):
        above = prediction.output < y
        if flips:
            above = above ^ (jax.random.uniform(key) < noise)
        return Directional(above)

    return oracle


def _may_be_positive(noise: Any) -> bool:
    number = checks.concrete(noise)
    return number is None or bool(number > 0)


def _label_noise(num_classes: int | None, noise: Any) -> Callable[[Array, PRNGKey], Array]:
    if num_classes is not None:
        checks.at_least("num_classes", num_classes, 2)
    checks.probability("noise", noise)
    if not _may_be_positive(noise):
        return lambda y, key: y
    if num_classes is None:
        raise ValueError("num_classes must be given with noise, since it is the range of labels")

    def replace(y, key):
        k_hit, k_new = jax.random.split(key)
        new = jax.random.randint(k_new, jnp.shape(y), 1, num_classes + 1, jnp.int32)
        return jnp.where(jax.random.uniform(k_hit) < noise, new, y)

    return replace
