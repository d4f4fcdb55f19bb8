"""Metrics: what a round is scored by.

A metrics function is pure, `(example, prediction, feedback, state) -> dict` of scalars, with the
state before the round's update; the engine adds each entry over a window of rounds. The small
formulas below are for building one's own. Counts are int32.

Symbols: f(x) the score, theta the thresholds (K-1,), y the label in 1…K.
"""

import jax.numpy as jnp

from jonline import checks
from jonline.core import Array, Example, Feedback, Prediction, State


def absolute_loss(score: Array, thresholds: Array, y: Array) -> Array:
    """Returns the number of thresholds on the wrong side of the score, int32 in 0…K-1.

    L^A = sum_{i<y} [f(x) < theta_i] + sum_{i>=y} [f(x) >= theta_i]. It is |greedy - y| where the
    thresholds are ordered (and the tie rule of the greedy label is "<").

    Source: arXiv:2512.19550, eq. (1), with theta_K = +inf.
    """
    return interval_absolute_loss(score, thresholds, y, y)


def interval_absolute_loss(score: Array, thresholds: Array, low: Array, high: Array) -> Array:
    """Returns the absolute loss against an interval of labels, int32 in 0…K-1.

    L^IA = sum_{i<low} [f(x) < theta_i] + sum_{i>=high} [f(x) >= theta_i].

    Source: arXiv:2512.19550, eq. (5), with theta_K = +inf.
    """
    checks.vector("thresholds", thresholds)
    checks.elementwise(score=score, thresholds=thresholds, low=low, high=high)
    index = jnp.arange(1, thresholds.shape[0] + 1, dtype=jnp.int32)
    below = score < thresholds  # a score that is NaN is below none, as the greedy label has it
    wrong = ((index < low) & below) | ((index >= high) & ~below)
    return jnp.sum(wrong, dtype=jnp.int32)


def label_error(label: Array, y: Array) -> Array:
    """Returns |label - y|, int32."""
    checks.elementwise(label=label, y=y)
    wide = jnp.result_type(label, y, jnp.int32)  # of 8 bits, a difference can wrap
    return jnp.abs(jnp.asarray(label, wide) - jnp.asarray(y, wide)).astype(jnp.int32)


def zero_one(output: Array, y: Array) -> Array:
    """Returns 1 where the output is not the true label, else 0; int32."""
    checks.elementwise(output=output, y=y)
    return jnp.not_equal(output, y).astype(jnp.int32)


def violations(thresholds: Array) -> Array:
    """Returns the number of neighbouring thresholds out of order, int32 in 0…K-2.

    #{i <= K-2: theta_i > theta_{i+1}}. Source: arXiv:2512.19550, section 7.3.
    """
    checks.vector("thresholds", thresholds)
    return jnp.sum(thresholds[:-1] > thresholds[1:], dtype=jnp.int32)


def largest_gap(thresholds: Array) -> Array:
    """Returns how far neighbouring thresholds are out of order at most, 0 where none is.

    max_i [theta_i - theta_{i+1}]_+, on the scale of the score.
    """
    checks.vector("thresholds", thresholds)
    return jnp.max(thresholds[:-1] - thresholds[1:], initial=0.0)


def ordinal(
    example: Example, prediction: Prediction, feedback: Feedback, state: State
) -> dict[str, Array]:
    """Returns the metrics of one round of ordinal regression.

    Returns:
      loss: L^A of the score, int32; the papers' MAE is its average over rounds.
      greedy_error: |greedy - y|, int32; the output stands for greedy where a learner has none.
      output_error: |output - y|, int32; it differs from the loss by the exploration.
      violations: neighbouring thresholds out of order, int32.
      largest_gap: by how much at most, float; NaN, which a run reports, where y is not in 1…K.
      zero_one: output != y, int32.
    """
    del feedback
    checks.fields("example", example, "y")
    checks.fields("prediction", prediction, "output", "score")
    checks.fields("state", state, "thresholds")
    is_label = (example.y >= 1) & (example.y <= state.thresholds.shape[0] + 1)
    return {
        "loss": absolute_loss(prediction.score, state.thresholds, example.y),
        "greedy_error": label_error(getattr(prediction, "greedy", prediction.output), example.y),
        "output_error": label_error(prediction.output, example.y),
        "violations": violations(state.thresholds),
        "largest_gap": jnp.where(is_label, largest_gap(state.thresholds), jnp.nan),
        "zero_one": zero_one(prediction.output, example.y),
    }
