"""Metrics of classifiers that may reject, and the ratios that are made of them.

Source: arXiv:1906.06166, sections 1 and 4. Symbols: as in `jonline.reject.formulas`.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.core import Array
from jonline.reject.learner import check_cost


def losses(cost: float | Array) -> Callable[..., dict[str, Array]]:
    """Returns a metrics function for sweeps: the loss of a round, and what it is made of.

    Args:
      cost: d in (0, 1/2); the learner's own, if the risk is to be the one it learns.

    Returns:
      `(example, prediction, feedback, state) -> dict` with
        risk: L_d, float: misclassified + d rejected; NaN where the score is;
        asked: 1 where the label was asked for, int32;
        misclassified: 1 where a label was predicted and is wrong, int32;
        rejected, accepted: 1 where none, where one was predicted, int32;
        correct: 1 where a label was predicted and is right, int32.
      The paper's "fractions" are their averages over all rounds, rejected ones too.

    Raises:
      TypeError, ValueError: if a concrete `cost` is out of range.
    """
    cost = check_cost(cost)

    def metrics(example, prediction, feedback, state):
        del feedback, state
        rejected = prediction.output == 0
        correct = prediction.output == example.y
        misclassified = ~rejected & ~correct
        loss = jnp.where(rejected, cost, misclassified.astype(jnp.result_type(float)))
        counts = {
            "asked": prediction.ask,
            "misclassified": misclassified,
            "rejected": rejected,
            "accepted": ~rejected,
            "correct": correct,
        }
        return {
            "risk": jnp.where(jnp.isnan(prediction.score), jnp.nan, loss),
            **{name: jnp.asarray(hit).astype(jnp.int32) for name, hit in counts.items()},
        }

    return metrics


class Rates(NamedTuple):
    """Ratios of counts, float64 in the shape of the records.

    Attributes:
      coverage: rounds with a predicted label / rounds.
      accuracy: right / predicted labels; NaN where none was predicted.
      error: wrong / predicted labels; NaN where none was predicted.
      label_fraction: labels asked for / rounds.
    """

    coverage: np.ndarray
    accuracy: np.ndarray
    error: np.ndarray
    label_fraction: np.ndarray


def rates(records: Mapping[str, Any], *, running: bool = False) -> Rates:
    """Returns the ratios of what `losses` counted.

    Args:
      records: `result.records` of a sweep with `losses`, (..., windows).
      running: over all rounds up to the end of a window, as curves are drawn, in place of the
        window's rounds alone.

    Raises:
      ValueError: if a count is missing.
    """
    names = ("accepted", "rejected", "correct", "misclassified", "asked")
    checks.columns("records", records, names, "reject.losses")
    running = checks.flag("running", running)
    counts = {name: np.asarray(records[name], np.int64) for name in names}
    if running:
        counts = {name: np.cumsum(count, axis=-1) for name, count in counts.items()}
    rounds = counts["accepted"] + counts["rejected"]
    return Rates(
        coverage=_ratio(counts["accepted"], rounds),
        accuracy=_ratio(counts["correct"], counts["accepted"]),
        error=_ratio(counts["misclassified"], counts["accepted"]),
        label_fraction=_ratio(counts["asked"], rounds),
    )


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole, NaN where whole is 0."""
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)
