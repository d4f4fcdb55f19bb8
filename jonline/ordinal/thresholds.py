"""What the ordinal learners share: threshold models, their losses, and one gradient step.

Source: arXiv:2512.19550 ("DFORD: Directional Feedback based Online Ordinal Regression Learning"),
sections 3 to 5. The target losses L^A and L^IA, eqs. (1) and (5), are in `jonline.metrics`.

Symbols:
  K            number of classes; labels are 1…K
  f(x)         score
  theta        thresholds (K-1,) on the scale of the score; theta_K = +inf is not stored
  y            true label; low <= y <= high an interval of labels around it
  z_i          +1 where the score ought to lie above theta_i, -1 where below, 0 where either will do
  tau_i        z_i [z_i (f(x) - theta_i) <= 0], minus the slope of the hinge in f(x)
  lambda       `reg`, strength of regularisation
  eta_t        step size, 1 / (lambda t), t = 1, 2, …
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from jonline import checks
from jonline.core import Array, ArrayTree
from jonline.hypotheses import Hypothesis

MOST_CLASSES = 1 << 24  # labels up to it are exact in float32


class OrdinalState(NamedTuple):
    """A threshold model and the number of answers it learned from.

    Attributes:
      f: hypothesis of the score.
      thresholds: theta, (K-1,) float, not always ordered.
      round: int32 (), answers observed so far; the next step is the one of t = round + 1. An answer
        without a value does not count: a step of 1/(lambda t) fits t observed ones.
    """

    f: ArrayTree
    thresholds: Array
    round: Array


class OrdinalPrediction(NamedTuple):
    """A predicted label, with what the update needs of the state it came from.

    Attributes:
      output: label in 1…K, int32 ().
      score: f(x).
      thresholds: theta at the time of the prediction, (K-1,).
    """

    output: Array
    score: Array
    thresholds: Array


def check_tie(tie: str) -> None:
    """Raises ValueError unless `tie` is "<" or "<="."""
    checks.choice("tie", tie, ("<", "<="))


def check_hypothesis(hypothesis: Any) -> None:
    """Raises TypeError unless `hypothesis` is one."""
    cure = "hypotheses.linear(n) makes one for n features"
    checks.kind("hypothesis", hypothesis, Hypothesis, cure)


def predict_label(score: Array, thresholds: Array, tie: str = "<") -> Array:
    """Returns the first label whose threshold lies above the score, int32 in 1…K.

    min{i: f(x) < theta_i}, K where there is none; with `tie="<="` a threshold equal to the score
    counts as above it. The first one is taken also where thresholds are out of order.

    Source: arXiv:2512.19550, section 4.1.
    """
    checks.elementwise(score=score, thresholds=thresholds)
    checks.vector("thresholds", thresholds)
    checks.require(len(thresholds) > 0, "thresholds", "have an entry", "none")
    check_tie(tie)
    num_classes = thresholds.shape[0] + 1
    index = jnp.arange(1, num_classes, dtype=jnp.int32)
    is_above = score < thresholds if tie == "<" else score <= thresholds
    return jnp.min(jnp.where(is_above, index, num_classes))


def label_signs(low: Array, high: Array, num_classes: int) -> Array:
    """Returns z (K-1,): +1 for i < low, -1 for i >= high, 0 between; low = high = y for a label.

    Source: arXiv:2512.19550, eq. (3) and section 7.2.
    """
    num_classes = checks.at_least("num_classes", num_classes, 1, MOST_CLASSES)
    index = jnp.arange(1, num_classes, dtype=jnp.int32)
    checks.elementwise(low=low, high=high, labels=index)
    return jnp.where(index < low, 1.0, jnp.where(index >= high, -1.0, 0.0))


def hinge_tau(z: Array, score: Array, thresholds: Array) -> Array:
    """Returns tau = z [z (f(x) - theta) <= 0], elementwise.

    -tau is a subgradient in f(x), and tau one in theta, of the hinge [-z (f(x) - theta)]_+.

    Source: arXiv:2512.19550, section 4.2.
    Differs: its heading prints "<" where the proof of its Theorem 1 has "<="; with "<" a learner
    that starts at zero stays there for ever.
    """
    checks.elementwise(z=z, score=score, thresholds=thresholds)
    is_wrong = jnp.where(z > 0, score <= thresholds, (z < 0) & (score >= thresholds))
    return jnp.where(is_wrong, z, 0.0)


def hinge_loss(score: Array, thresholds: Array, y: Array) -> Array:
    """Returns L^H = sum_i [-z_i (f(x) - theta_i)]_+ for the label y, without a margin.

    Source: arXiv:2512.19550, eq. (2).
    """
    return interval_hinge_loss(score, thresholds, y, y)


def interval_hinge_loss(score: Array, thresholds: Array, low: Array, high: Array) -> Array:
    """Returns L^IH = sum_{i<low} [theta_i - f(x)]_+ + sum_{i>=high} [f(x) - theta_i]_+.

    Source: arXiv:2512.19550, eq. (6).
    """
    checks.elementwise(score=score, thresholds=thresholds)
    checks.vector("thresholds", thresholds)
    z = label_signs(low, high, thresholds.shape[0] + 1)
    return jnp.sum(jnp.maximum(-z * (score - thresholds), 0.0))


def regularised_loss(
    score: Array, thresholds: Array, sq_norm: Array, y: Array, reg: float | Array
) -> Array:
    """Returns L_reg = L^H + (lambda/2) (||f||^2 + ||theta||^2), with `sq_norm` = ||f||^2.

    It is 0 at f = 0, theta = 0, so the regret against the best fixed model is its plain sum.

    Source: arXiv:2512.19550, eq. (4), with the factor 1/2 that the paper's gradient implies.
    """
    checks.elementwise(sq_norm=sq_norm, reg=reg)
    return hinge_loss(score, thresholds, y) + reg / 2 * (sq_norm + jnp.sum(thresholds**2))


def zero_state(hypothesis: Hypothesis, num_classes: int) -> OrdinalState:
    """Returns the state with f = 0, theta = 0 and no answers."""
    return OrdinalState(
        hypothesis.init(), jnp.zeros(num_classes - 1), jnp.zeros((), dtype=jnp.int32)
    )


def step_size(
    state: OrdinalState, reg: float | Array | None, factor: float | Array = 1.0
) -> tuple[Any, Any]:
    """Returns s (eta lambda, eta) of the next step: s (1/t, 1/(lambda t)), or (0, s) without `reg`.

    `factor` is s, what clipping leaves of the step.
    """
    if reg is None:
        return 0.0, factor
    decay = factor / (state.round + 1).astype(state.thresholds.dtype)
    return decay, decay * (1.0 / reg)


def descend(
    hypothesis: Hypothesis,
    state: OrdinalState,
    x: Array,
    tau: Array,
    tau_sum: Array,
    decay: Any,
    rate: Any,
) -> OrdinalState:
    """Returns the state after one step along tau (K-1,), one answer older; `tau_sum` = sum_i tau_i.

    f <- f - (decay f - rate sum_i tau_i k(x, .)),  theta <- theta - (decay theta + rate tau).
    """
    return OrdinalState(
        f=hypothesis.move(state.f, x, decay, rate * tau_sum),
        thresholds=state.thresholds - (decay * state.thresholds + rate * tau),
        round=state.round + 1,
    )
