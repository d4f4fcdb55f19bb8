"""Classification with the option to reject, from labels that are asked for."""

from jonline.reject import theory
from jonline.reject.formulas import (
    decide,
    decision_loss,
    double_ramp_asks,
    double_ramp_gradient,
    double_ramp_loss,
    double_sigmoid_gradient,
    double_sigmoid_loss,
    double_sigmoid_query_prob,
)
from jonline.reject.learner import RejectPrediction, RejectState, dral, dsal, dsol
from jonline.reject.metrics import Rates, losses, rates
from jonline.reject.queries import BudgetState, always, at_random, budget

__all__ = [
    "BudgetState",
    "Rates",
    "RejectPrediction",
    "RejectState",
    "always",
    "at_random",
    "budget",
    "decide",
    "decision_loss",
    "double_ramp_asks",
    "double_ramp_gradient",
    "double_ramp_loss",
    "double_sigmoid_gradient",
    "double_sigmoid_loss",
    "double_sigmoid_query_prob",
    "dral",
    "dsal",
    "dsol",
    "losses",
    "rates",
    "theory",
]
