"""The best fixed model in hindsight, and regret against it."""

from jonline.comparators.linear import Regret, best_linear, examples, loss_curve, surrogate_regret
from jonline.comparators.minimise import Comparator

__all__ = [
    "Comparator",
    "Regret",
    "best_linear",
    "examples",
    "loss_curve",
    "surrogate_regret",
]
