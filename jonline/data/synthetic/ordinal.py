"""Streams with a planted ordinal teacher. Round t depends on the run's key and t alone."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jonline import checks
from jonline.core import Array, Example, PRNGKey, Round, Stream

_EDGES = (-1.0, -0.1, 0.25, 1.0)


class Teacher(NamedTuple):
    """What `linear_teacher` fixes for a run.

    Attributes:
      key: key of the draws.
      weights: (n,), of norm 1.
      thresholds: (K−1,), increasing; y = 1 + #{r : ⟨weights, x⟩ > thresholds[r]}.
    """

    key: PRNGKey
    weights: Array
    thresholds: Array


def crammer_singer(*, noise: Any = 0.125) -> Stream:
    """Returns the synthetic ordinal stream of Crammer and Singer.

        x ~ U[0, 1]²,   s = 10 (x₁ − ½)(x₂ − ½) + N(0, noise²),
        y = max {r : s > b_r},   b = (−∞, −1, −0.1, 0.25, 1).

    Five classes with frequencies .118, .311, .228, .224, .118 at the default noise.

    Args:
      noise: standard deviation ≥ 0 of the score; may be traced.

    Returns:
      a Stream of x (2,) in [0, 1]² and y in 1…5. Its source is the run's key.

    Raises:
      ValueError: a concrete noise is negative.

    Source: Crammer and Singer, "Pranking with ranking", NIPS 2001.
    """
    checks.non_negative("noise", noise)
    noise = checks.own(noise)

    def init(key: PRNGKey) -> PRNGKey:
        return key

    def draw(source: PRNGKey, t: Round) -> Example:
        k_x, k_noise = jax.random.split(jax.random.fold_in(source, t))
        x = jax.random.uniform(k_x, (2,))
        score = 10 * (x[0] - 0.5) * (x[1] - 0.5) + noise * jax.random.normal(k_noise)
        return Example(x, 1 + jnp.sum(score > jnp.array(_EDGES), dtype=jnp.int32))

    return Stream(init, draw)


def linear_teacher(num_features: int, num_classes: int, *, margin: Any = 0.0) -> Stream:
    """Returns an ordinal stream that a linear teacher separates with a margin.

    The teacher w is uniform on the unit sphere, its thresholds are b_r = 2r/K − 1, r = 1…K−1.
    Each round draws y uniformly in 1…K, the score s uniformly in (b_{y−1} + margin, b_y − margin)
    with b_0 = −1 and b_K = 1, and x = s w + √(1 − s²) u with u uniform on the unit sphere
    orthogonal to w. So ‖x‖ = 1 (for n = 1, x = s w), all labels are equally likely, and
    |⟨w, x⟩ − b_r| ≥ margin for every r, up to rounding.

    Args:
      num_features: n ≥ 1, static.
      num_classes: K ≥ 2, static.
      margin: in [0, 1/K); may be traced.

    Returns:
      a Stream of x (n,) and y in 1…K. Its source is a `Teacher`.

    Raises:
      TypeError: n or K is not a static int.
      ValueError: n < 1, K < 2, or a concrete margin outside [0, 1/K).
    """
    num_features = checks.at_least("num_features", num_features, 1)
    num_classes = checks.at_least("num_classes", num_classes, 2)
    margin = checks.own(margin)
    number = checks.concrete(margin)
    if number is not None:
        rule = f"be in [0, 1/num_classes) = [0, {1 / num_classes:.4g})"
        checks.require((number >= 0) & (number < 1 / num_classes), "margin", rule, margin)

    def unit(vector: Array) -> Array:
        norm = jnp.linalg.norm(vector)
        return jnp.where(norm > 0, vector / jnp.where(norm > 0, norm, 1), 0)

    def aside(vector: Array, w: Array) -> Array:
        return unit(vector - jnp.vdot(vector, w) * w)

    def init(key: PRNGKey) -> Teacher:
        k_weights, k_draws = jax.random.split(key)
        weights = unit(jax.random.normal(k_weights, (num_features,)))
        thresholds = 2 * jnp.arange(1, num_classes) / num_classes - 1
        return Teacher(k_draws, weights, thresholds)

    def draw(source: Teacher, t: Round) -> Example:
        k_y, k_score, k_x = jax.random.split(jax.random.fold_in(source.key, t), 3)
        y = jax.random.randint(k_y, (), 1, num_classes + 1, dtype=jnp.int32)
        middle, half = (2 * y - 1) / num_classes - 1, 1 / num_classes - margin
        score = middle + half * jax.random.uniform(k_score, minval=-1, maxval=1)
        w = source.weights
        direction = jax.random.normal(k_x, (num_features,))
        across = aside(aside(direction, w), w) if num_features > 1 else 0 * w  # twice: rounding
        return Example(score * w + jnp.sqrt(jnp.maximum(1 - score**2, 0)) * across, y)

    return Stream(init, draw)
