"""PRank: ordinal regression from the true label.

Sources: Crammer and Singer, "Pranking with Ranking", NIPS 2001 (the perceptron); arXiv:2512.19550,
appendix B.1 (the regularised form).

Symbols: as in `jonline.ordinal.thresholds`.
"""

import jax.numpy as jnp

from jonline import checks
from jonline.core import Array, Learner
from jonline.hypotheses import Hypothesis
from jonline.oracles import Label
from jonline.ordinal.thresholds import (
    OrdinalPrediction,
    check_feedback,
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
    second lambda only scales the state: where every label is observed, its predictions are those of
    the perceptron that moves in every round.

    Args:
      hypothesis: model of f; `hypotheses.linear(n)` for inputs of shape (n,).
      num_classes: K >= 2, static. Labels are 1…K; pass the data's own `num_classes`, since a
        label above K is noticed by `metrics.ordinal` alone.
      reg: lambda > 0, or None for the perceptron of 2001.
      tie: "<" predicts min{i: f(x) < theta_i}, "<=" min{i: f(x) <= theta_i}.

    Returns:
      A Learner. State: `OrdinalState`. Prediction: `OrdinalPrediction`. Reads
      `Label(value, observed)`; a round without a label only passes: it counts towards t.

    Raises:
      ValueError: if a concrete argument is out of range (traced values are not checked).
      TypeError: if an argument is of the wrong kind, or, at trace time, an answer no `Label`.

    Source: Crammer and Singer, "Pranking with ranking", 2001; arXiv:2512.19550, appendix B.1.
    """
    check_hypothesis(hypothesis)
    checks.at_least("num_classes", num_classes, 2)
    if reg is not None:
        checks.positive("reg", reg)
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
        check_feedback("prank", Label, feedback)
        y = feedback.value
        tau = hinge_tau(label_signs(y, y, num_classes), prediction.score, prediction.thresholds)
        learns = feedback.observed
        if reg is None:
            learns = learns & (prediction.output != y)
        tau = jnp.where(learns, tau, 0.0)
        decay, rate = step_size(state, reg)
        decay = jnp.where(learns, decay, 0.0)
        return descend(hypothesis, state, x, tau, jnp.sum(tau), decay, rate)

    return Learner(init, predict, update)
