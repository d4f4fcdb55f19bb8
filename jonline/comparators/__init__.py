"""The best fixed model in hindsight, and regret against it.

A second pass: `examples` brings back what a run of a sweep was shown, `best_linear` finds the model
U of least summed surrogate loss, and `surrogate_regret` compares with what the learner lost.
"""

from jonline._sweep.trace import examples
from jonline.comparators.linear import best_linear, loss_curve
from jonline.comparators.minimise import Comparator
from jonline.comparators.regret import Regret, surrogate_regret

__all__ = [
    "Comparator",
    "Regret",
    "best_linear",
    "examples",
    "loss_curve",
    "surrogate_regret",
]
