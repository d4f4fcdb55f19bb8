"""PRank: ordinal regression from the true label.

Sources: Crammer and Singer, "Pranking with Ranking", NIPS 2001 (the perceptron); arXiv:2512.19550,
appendix B.1 (the regularised form).

Symbols: as in `jonline.ordinal.thresholds`.
"""

import jax.numpy as jnp

from jonline import checks
from jonline.core import Array, Learner
from jonline.hypotheses import Hypothesis
from jonline.oracles import Label, where_observed
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


def prank(
    hypothesis: Hypothesis,
    num_classes: int,
    *,
    reg: float | Array | None = None,
    tie: str = "<",
) -> Learner:
    """Ordinal regression from the true label.

    With tau_i = z_i [z_i (f(x) - theta_i) <= 0]:
        reg=None  f <- f + sum_i tau_i k(x, .), theta <- theta - tau, only where output != y;
        reg       f <- (1 - eta lambda) f + eta sum_i tau_i k(x, .),
                  theta <- (1 - eta lambda) theta - eta tau, eta = 1/(lambda t).
    Without delay the first keeps the thresholds ordered and makes at most (K-1) (R^2+1) / margin^2
    errors, each counted by its size, on a stream that a unit model separates by a margin. In the
    second lambda only scales the state: its predictions are those of the perceptron that moves in
    every round.

    Args:
      hypothesis: model of f; `hypotheses.linear(n)` for inputs of shape (n,).
      num_classes: K in 2…2^24, static. Labels are 1…K; pass the data's own `num_classes`,
        since a label above K is noticed by `metrics.ordinal` alone.
      reg: lambda > 0, or None for the perceptron of 2001.
      tie: "<" predicts min{i: f(x) < theta_i}, "<=" min{i: f(x) <= theta_i}.

    Returns:
      A Learner. State: `OrdinalState`. Prediction: `OrdinalPrediction`. Reads
      `Label(value, observed)`; an answer without a label changes nothing, and t counts the others.

    Raises:
      ValueError: if a concrete argument is out of range (traced values are not checked).
      TypeError: if an argument is of the wrong kind, or, at trace time, an answer no `Label`.

    Source: Crammer and Singer, "Pranking with ranking", 2001; arXiv:2512.19550, appendix B.1.
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
        checks.feedback("prank", feedback, Label)
        y = feedback.value
        tau = hinge_tau(label_signs(y, y, num_classes), prediction.score, prediction.thresholds)
        if reg is None:
            tau = jnp.where(prediction.output != y, tau, 0.0)
        decay, rate = step_size(state, reg)
        moved = descend(hypothesis, state, x, tau, jnp.sum(tau), decay, rate)
        return where_observed(feedback.observed, moved, state)

    return Learner(init, predict, update)
