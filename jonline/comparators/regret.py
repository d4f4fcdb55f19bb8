"""Regret against a fixed linear model.

Symbols: as in `linear`, and
  L        target loss of what is played
"""

from typing import Any, NamedTuple

import numpy as np

from jonline import checks


class Regret(NamedTuple):
    """Surrogate regret up to the end of each window, float64.

    The regret against the best model of the comparator's ball is larger than it by at most `gap`.

    Attributes:
      realised: (points, seeds, windows) sum of L(output; y) - sum of S(U x, y).
      expected: the same with E[L] over the learner's own draws; its noise is that of the examples
        and of what the learner observed before.
      comparator_loss: (windows,) or (seeds, windows), the sums of S(U x, y).
      gap: of the comparator, over all rounds.
    """

    realised: np.ndarray
    expected: np.ndarray
    comparator_loss: np.ndarray
    gap: np.ndarray


def surrogate_regret(records: dict[str, Any], comparator_loss: Any, gap: Any) -> Regret:
    """Returns the regret of all runs of a sweep against fixed comparators, window by window.

    R_t = sum_{s<=t} L(output_s; y_s) - sum_{s<=t} S(U x_s, y_s), and its expectation.

    Args:
      records: of a `SweepResult` measured by `structured.losses`.
      comparator_loss: (windows,) from `loss_curve`, or (seeds, windows), one row for each seed: it
        must be of the examples of that seed.
      gap: () or (seeds,), of the comparators.

    Raises:
      ValueError: if a column is missing, or the shapes do not fit.

    Source: arXiv:2502.18709, section 2.1.
    """
    names = ("target_loss", "expected_target_loss")
    checks.columns("records", records, names, "structured.losses")
    realised, expected = (np.cumsum(records[name], axis=-1, dtype=np.float64) for name in names)
    curve = checks.numbers("comparator_loss", comparator_loss)
    gap = checks.numbers("gap", gap)
    shape = realised.shape
    checks.require(realised.ndim == 3, "records", "be (points, seeds, windows)", f"shape {shape}")
    seeds, windows = shape[1:]
    rule = f"have shape ({windows},) or ({seeds}, {windows})"
    fits = curve.shape in ((windows,), (seeds, windows))
    checks.require(fits, "comparator_loss", rule, curve.shape)
    rule = f"be one number >= 0, or one for each of the {seeds} seeds"
    checks.require(gap.shape in ((), (seeds,)) and np.all(gap >= 0), "gap", rule, gap)
    return Regret(realised - curve, expected - curve, curve, gap)
