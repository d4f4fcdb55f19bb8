"""PRIL: ordinal regression from intervals of labels.

Source: Manwani, "PRIL: Perceptron Ranking Using Interval Labels", CODS-COMAD 2019;
arXiv:2512.19550, section 7.2 and eq. (6).

Symbols: as in `jonline.ordinal.thresholds`.
"""

import jax.numpy as jnp

from jonline import checks
from jonline.core import Array, Learner
from jonline.hypotheses import Hypothesis
from jonline.oracles import Interval, where_observed
from jonline.ordinal.thresholds import (
    MOST_CLASSES,
    OrdinalPrediction,
    check_hypothesis,
    check_tie,
    descend,
    hinge_tau,
    label_signs,
    predict_label,
    step_size,
    zero_state,
)


def pril(
    hypothesis: Hypothesis,
    num_classes: int,
    *,
    reg: float | Array | None = None,
    tie: str = "<",
) -> Learner:
    """Ordinal regression from intervals of labels.

    With z_i = +1 for i < low, -1 for i >= high, 0 between, tau_i = z_i [z_i (f(x) - theta_i) <= 0]:
        reg=None  f <- f + sum_i tau_i k(x, .),  theta <- theta - tau;
        reg       f <- (1 - eta lambda) f + eta sum_i tau_i k(x, .),
                  theta <- (1 - eta lambda) theta - eta tau, eta = 1/(lambda t).
    Where low = high = y in every round the first is PRank, but for scores that hit a threshold
    exactly while the output is right, and the second is regularised PRank.

    Args:
      hypothesis: model of f; `hypotheses.linear(n)` for inputs of shape (n,).
      num_classes: K in 2…2^24, static. Labels are 1…K; pass the data's own `num_classes`,
        since a label above K is noticed by `metrics.ordinal` alone.
      reg: lambda > 0, or None for steps of size 1 without regularisation.
      tie: "<" predicts min{i: f(x) < theta_i}, "<=" min{i: f(x) <= theta_i}.

    Returns:
      A Learner. State: `OrdinalState`. Prediction: `OrdinalPrediction`. Reads
      `Interval(low, high, observed)`; an answer without a value changes nothing, and t counts the
      others.

    Raises:
      ValueError: if a concrete argument is out of range (traced values are not checked).
      TypeError: if an argument is of the wrong kind, or, at trace time, an answer no `Interval`.

    Source: Manwani, 2019; arXiv:2512.19550, section 7.2.
    Differs: the regularised form is none of the paper's; it is to PRIL what the regularised form of
    arXiv:2512.19550, appendix B.1, is to PRank.
    """
    check_hypothesis(hypothesis)
    num_classes = checks.at_least("num_classes", num_classes, 2, MOST_CLASSES)
    reg = None if reg is None else checks.positive("reg", reg)
    check_tie(tie)

    def init(key):
        del key
        return zero_state(hypothesis, num_classes)

    def predict(state, x, key):
        del key
        score = hypothesis.value(state.f, x)
        output = predict_label(score, state.thresholds, tie)
        return OrdinalPrediction(output, score, state.thresholds)

    def update(state, x, prediction, feedback, key):
        del key
        checks.feedback("pril", feedback, Interval)
        z = label_signs(feedback.low, feedback.high, num_classes)
        tau = hinge_tau(z, prediction.score, prediction.thresholds)
        decay, rate = step_size(state, reg)
        moved = descend(hypothesis, state, x, tau, jnp.sum(tau), decay, rate)
        return where_observed(feedback.observed, moved, state)

    return Learner(init, predict, update)
