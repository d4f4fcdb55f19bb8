"""Ordinal regression: labels 1…K, learned from labels, intervals, or directions."""

from jonline.metrics import absolute_loss, interval_absolute_loss
from jonline.ordinal.dford import (
    DfordPrediction,
    bound_norm,
    dford,
    draw_label,
    fix_norm,
    label_distribution,
    label_prob,
)
from jonline.ordinal.prank import prank
from jonline.ordinal.pril import pril
from jonline.ordinal.theory import HingeRegret, regret, regret_bound, regularised_loss_metric
from jonline.ordinal.thresholds import (
    OrdinalPrediction,
    OrdinalState,
    hinge_loss,
    hinge_tau,
    interval_hinge_loss,
    label_signs,
    predict_label,
    regularised_loss,
)

__all__ = [
    "DfordPrediction",
    "HingeRegret",
    "OrdinalPrediction",
    "OrdinalState",
    "absolute_loss",
    "bound_norm",
    "dford",
    "draw_label",
    "fix_norm",
    "hinge_loss",
    "hinge_tau",
    "interval_absolute_loss",
    "interval_hinge_loss",
    "label_distribution",
    "label_prob",
    "label_signs",
    "prank",
    "predict_label",
    "pril",
    "regret",
    "regret_bound",
    "regularised_loss",
    "regularised_loss_metric",
]
