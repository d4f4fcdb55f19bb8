"""What the theory of DFORD speaks of: regularised hinge regret, and its bound.

Source: arXiv:2512.19550, sections 3 and 5.

Symbols: as in `jonline.ordinal.thresholds`, and
  u            a model (f, theta); u^t the learner's in round t
  R            bound on the norm of k(x, .): R^2 >= k(x, x)
  gamma        `explore`
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from jonline import checks
from jonline.core import Array
from jonline.hypotheses import Hypothesis
from jonline.ordinal.thresholds import OrdinalState, regularised_loss


class HingeRegret(NamedTuple):
    """Regret in the hinge loss over a stretch of rounds.

    Attributes:
      instantaneous: (n,) L_reg(u^t) - L_reg(u) of each round.
      cumulative: (n,) float64, its sums so far.
    """

    instantaneous: np.ndarray
    cumulative: np.ndarray


def regularised_loss_metric(
    reg: Any, hypothesis: Hypothesis, comparator: OrdinalState | None = None
) -> Callable[..., dict[str, Array]]:
    """Returns a metrics function for sweeps: the regularised loss, and what a fixed model had lost.

    L_reg(u) = L^H(f, theta, x, y) + (lambda/2) (||f||^2 + ||theta||^2).

    Args:
      reg: lambda > 0.
      hypothesis: the learner's model of f.
      comparator: the fixed model; its `round` is not read. None is u = 0, which is the best one:
        its L_reg is 0 and no L_reg is less.

    Returns:
      `(example, prediction, feedback, state) -> {"regularised_loss", "regret"}`, floats: the
      learner's L_reg, and by how much it is above the comparator's.

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind or out of range.

    Source: arXiv:2512.19550, eq. (4) and section 5.
    """
    reg = checks.positive("reg", reg)
    checks.kind("hypothesis", hypothesis, Hypothesis)
    if comparator is not None:
        checks.kind("comparator", comparator, OrdinalState)
        comparator = jax.tree.map(checks.own, comparator)

    def loss(score, model, y):
        sq_norm = hypothesis.sq_norm(model.f)
        return regularised_loss(score, model.thresholds, sq_norm, y, reg)

    def metric(example, prediction, feedback, state):
        del feedback
        mine = loss(prediction.score, state, example.y)
        if comparator is None:
            return {"regularised_loss": mine, "regret": mine}
        score = hypothesis.value(comparator.f, example.x)
        return {"regularised_loss": mine, "regret": mine - loss(score, comparator, example.y)}

    return metric


def regret(
    trace: Any, reg: Any, hypothesis: Hypothesis, comparator: OrdinalState | None = None
) -> HingeRegret:
    """Returns the regularised hinge regret in the rounds of a trace.

    Args:
      trace: from `jonline.trace`, of an ordinal learner; one from round 0 has the whole regret.
      reg, hypothesis, comparator: as for `regularised_loss_metric`.

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind or out of range.
    """
    metric = regularised_loss_metric(reg, hypothesis, comparator)
    checks.fields("trace", trace, "example", "prediction", "feedback", "state")
    rounds = jax.vmap(metric)(trace.example, trace.prediction, trace.feedback, trace.state)
    each = np.array(rounds["regret"])
    return HingeRegret(each, np.cumsum(each, dtype=np.float64))


def regret_bound(
    num_classes: int, sq_radius: float, num_rounds: Any, *, reg: float, explore: float
) -> np.ndarray:
    """Returns the bound on DFORD's expected regret after `num_rounds` rounds, float64.

        16 K^2 (R^2 + 1) ln K ln T / (lambda gamma)                    for K >= 3 and T >= 3,
        4 K^2 (R^2 + 1) (1 + ln K) (1 + ln T) / (lambda gamma)         else.

    Args:
      num_classes: K >= 2.
      sq_radius: R^2 >= 0, at least every k(x, x).
      num_rounds: T >= 1, any shape.
      reg: lambda > 0.
      explore: gamma in (0, 1].

    Raises:
      ValueError: if an argument is out of range.

    Source: arXiv:2512.19550, theorems 2 and 3.
    Differs: for K = 2 or T < 3 the printed form is less than what its proof shows, the second form.
    """
    num_classes = checks.at_least("num_classes", num_classes, 2)
    sq_radius = checks.non_negative("sq_radius", sq_radius, static=True)
    reg = checks.positive("reg", reg, static=True)
    explore = checks.real(
        "explore", explore, "be in (0, 1]", lambda q: (q > 0) & (q <= 1), static=True
    )
    num_rounds = checks.numbers("num_rounds", num_rounds, 1)
    log_rounds = np.log(num_rounds)
    log_classes = np.log(num_classes)
    printed = 16 * log_classes * log_rounds
    shown = 4 * (1 + log_classes) * (1 + log_rounds)
    is_enough = (num_classes >= 3) & (num_rounds >= 3)
    return (
        float(num_classes) ** 2
        * (sq_radius + 1)
        / (reg * explore)
        * np.where(is_enough, printed, shown)
    )
