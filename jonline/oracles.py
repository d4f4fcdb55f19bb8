"""Feedback oracles: pure functions `(label, prediction, key) -> feedback`.

An oracle reads `prediction.output` (and `prediction.ask` where a learner may stay silent) and
nothing else of the prediction. One that answers "nothing" says so by `observed`, False, and zeroes
the value.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.core import Array, ArrayTree, Feedback, Oracle, PRNGKey

ALWAYS: Any = np.True_  # a constant, so a run without missing answers is compiled without them


class Label(NamedTuple):
    """The true label.

    Attributes:
      value: the label, int32 () or a vertex (d,); 0 where `observed` is False.
      observed: bool (); False says that the round passes without a label.
    """

    value: Array
    observed: Array


class Interval(NamedTuple):
    """A set of consecutive labels; without noise the true one is in it.

    Attributes:
      low, high: its ends, int32 (); 0 where `observed` is False.
      observed: bool (), as in `Label`.
    """

    low: Array
    high: Array
    observed: Array = ALWAYS


class Directional(NamedTuple):
    """Whether the true label lies above the one that was played.

    Attributes:
      above: (output < y), bool (); False where `observed` is.
      observed: bool (), as in `Label`.
    """

    above: Array
    observed: Array = ALWAYS


class Loss(NamedTuple):
    """The value of the target loss of what was played.

    Attributes:
      value: float (); 0 where `observed` is False.
      observed: bool (), as in `Label`.
    """

    value: Array
    observed: Array = ALWAYS


class Mismatch(NamedTuple):
    """Whether what was played is not the true label.

    Attributes:
      wrong: bool (); False where `observed` is.
      observed: bool (), as in `Label`.
    """

    wrong: Array
    observed: Array = ALWAYS


class Coordinates(NamedTuple):
    """The true label at the coordinates that were played.

    Attributes:
      value: (d,) the label where `observed`, else 0.
      observed: (d,) bool, where the output is 1.
      answered: bool (); False says that the round passes without an answer, which `observed` alone
        does not where no coordinate was played.
    """

    value: Array
    observed: Array
    answered: Array = ALWAYS


def where_observed(observed: Any, seen: ArrayTree, unseen: ArrayTree) -> ArrayTree:
    """Returns the tree `seen` where `observed`, bool (), is True, else `unseen`."""
    if checks.known_true(observed):
        return seen
    return jax.tree.map(lambda a, b: jnp.where(observed, a, b), seen, unseen)


def missing(oracle: Oracle, prob: float | Array) -> Oracle:
    """An oracle some of whose answers come without a value.

    Whether one does is drawn for itself, after the noise and whatever else the oracle draws, and
    also where the oracle answers "nothing" anyhow. The answer comes when it would have come;
    `delays.never` is for answers that do not.

    Args:
      oracle: any whose answers have `observed`.
      prob: probability in [0, 1] of an answer without a value; it may be a grid axis. A concrete 0
        returns the oracle itself; with a traced one its random draws are others.

    Returns:
      An oracle of the same kind of feedback, `observed` False and all else 0 where the value is
      missing.

    Raises:
      TypeError: if `oracle` is no function, `prob` no number, or, when asked, if the answer has no
        `observed`.
      ValueError: if `prob` is outside [0, 1].
    """
    if not callable(oracle):
        raise TypeError(f"oracle must be a function, got {oracle!r:.100}")
    prob = checks.probability("prob", prob)
    if not _may_be_positive(prob):
        return oracle

    def with_gaps(y, prediction, key):
        k_oracle, k_missing = jax.random.split(key)
        answer: Feedback = oracle(y, prediction, k_oracle)
        if not hasattr(answer, "observed"):
            raise TypeError(
                "missing takes an oracle whose answers have .observed, got "
                f"{type(answer).__name__}; give the type such a field"
            )
        comes = jax.random.uniform(k_missing) >= prob
        return where_observed(comes, answer, jax.tree.map(jnp.zeros_like, answer))

    return with_gaps


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
        return Label(replace(y, key), ALWAYS)

    return oracle


def label_if_asked(*, noise: float | Array = 0.0) -> Oracle:
    """The label, -1 or +1, where the learner asks for it, and nothing elsewhere.

    Args:
      noise: probability in [0, 1] that the label is flipped.

    Returns:
      An oracle that answers `Label(value, observed=prediction.ask)`.

    Raises:
      ValueError: if `noise` is outside [0, 1]; when asked, if a concrete label is not -1 or 1.
      TypeError: when asked, if the prediction has no `.ask`.

    Source: arXiv:1906.06166, section 2.
    """
    noise = checks.probability("noise", noise)
    flips = _may_be_positive(noise)

    def oracle(y, prediction, key):
        if not hasattr(prediction, "ask"):
            raise TypeError(
                f"label_if_asked needs a prediction with .ask, got {type(prediction).__name__}; "
                "oracles.label answers in every round"
            )
        checks.signs(y)
        value = jnp.asarray(y)
        if flips:
            value = jnp.where(jax.random.uniform(key) < noise, -value, value)
        return Label(jnp.where(prediction.ask, value, 0), jnp.asarray(prediction.ask))

    return oracle


def neighbours(y: Array, num_classes: int, key: PRNGKey) -> tuple[Array, Array]:
    """Draws [y-1, y], [y, y+1] or [y-1, y+1] with equal chances, clipped to 1…K.

    Source: option (a) for the intervals of PRIL (Manwani 2019); its paper's own protocol is not
    public.
    """
    (y,) = checks.elementwise(y=y)
    num_classes = checks.at_least("num_classes", num_classes, 1, 2**30)
    checks.key("key", key)
    kind = jax.random.randint(key, (), 0, 3, jnp.int32)
    low = jnp.where(kind == 1, y, y - 1)
    high = jnp.where(kind == 0, y, y + 1)
    return jnp.maximum(low, 1), jnp.minimum(high, num_classes)


def uniform_ends(y: Array, num_classes: int, key: PRNGKey) -> tuple[Array, Array]:
    """Draws the lower end uniformly from 1…y and the upper end from y…K, independently."""
    (y,) = checks.elementwise(y=y)
    num_classes = checks.at_least("num_classes", num_classes, 1, 2**30)
    checks.require(jnp.shape(y) == (), "y", "be one label", f"shape {jnp.shape(y)}")
    checks.key("key", key)
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
    num_classes = checks.at_least("num_classes", num_classes, 2)
    fraction = checks.probability("fraction", fraction)
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
    noise = checks.probability("noise", noise)
    flips = _may_be_positive(noise)

    def oracle(y, prediction, key):
        above = prediction.output < y
        if flips:
            above = above ^ (jax.random.uniform(key) < noise)
        return Directional(above)

    return oracle


def loss(target: Callable[[Array, Array], Array], *, noise: float | Array = 0.0) -> Oracle:
    """Bandit feedback: the target loss of what was played, and nothing of other outputs.

    Args:
      target: `(output, y) -> scalar`, e.g. `space.target` of an output space.
      noise: standard deviation >= 0 of normal noise added to the value.

    Returns:
      An oracle that answers `Loss(value)`.

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind or out of range.

    Source: arXiv:2502.18709, section 3.
    """
    if not callable(target):
        raise TypeError(f"target must be a function (output, y) -> scalar, got {target!r:.100}")
    noise = checks.non_negative("noise", noise)
    is_noisy = _may_be_positive(noise)

    def oracle(y, prediction, key):
        value = target(prediction.output, y)
        if is_noisy:
            value = value + noise * jax.random.normal(key)
        return Loss(value)

    return oracle


def mismatch(*, noise: float | Array = 0.0) -> Oracle:
    """Bandit feedback: one bit, whether what was played is not the true label.

    Args:
      noise: probability in [0, 1] that the answer is flipped.

    Returns:
      An oracle that answers `Mismatch(wrong)`; outputs and labels are numbers () or vertices (d,).

    Raises:
      ValueError: if `noise` is outside [0, 1].

    Source: arXiv:2502.18709, section 3.3, which needs no more than this bit.
    """
    noise = checks.probability("noise", noise)
    flips = _may_be_positive(noise)

    def oracle(y, prediction, key):
        wrong = jnp.any(prediction.output != y)
        if flips:
            wrong = wrong ^ (jax.random.uniform(key) < noise)
        return Mismatch(wrong)

    return oracle


def coordinates() -> Oracle:
    """Semi-bandit feedback: the label at the coordinates that were played.

    Returns:
      An oracle that answers `Coordinates(value, observed)` for outputs and labels (d,) of 0 and 1.
    """

    def oracle(y, prediction, key):
        del key
        played = prediction.output > 0.5
        return Coordinates(jnp.where(played, y, 0.0), played)

    return oracle


def _may_be_positive(noise: Any) -> bool:
    number = checks.concrete(noise)
    return number is None or bool(number > 0)


def _label_noise(num_classes: int | None, noise: Any) -> Callable[[Array, PRNGKey], Array]:
    if num_classes is not None:
        num_classes = checks.at_least("num_classes", num_classes, 2)
    noise = checks.probability("noise", noise)
    if not _may_be_positive(noise):
        return lambda y, key: y
    if num_classes is None:
        raise ValueError("num_classes must be given with noise, since it is the range of labels")

    def replace(y, key):
        if jnp.shape(y) != ():
            raise ValueError(f"noise replaces labels 1…{num_classes}, got one of {jnp.shape(y)}")
        k_hit, k_new = jax.random.split(key)
        new = jax.random.randint(k_new, (), 1, num_classes + 1, jnp.int32)
        return jnp.where(jax.random.uniform(k_hit) < noise, new, y)

    return replace
