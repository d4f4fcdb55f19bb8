"""Gappletron: Gaptron's successor, whose gap is the loss of the class it would play.

Source: van der Hoeven, Fusco and Cesa-Bianchi, "Beyond bandit feedback in online multiclass
classification", arXiv:2106.03596. Symbols: as in `jonline.structured.gaps` and
`jonline.structured.gaptron`.
"""

import math

from jonline import checks
from jonline.core import Array, Learner
from jonline.optimizers import OnlineOptimizer
from jonline.structured.gaps import SurrogateGap, gap_learner
from jonline.structured.theory import capped_rate


def gappletron(
    num_classes: int,
    num_features: int,
    *,
    diameter: float | Array,
    explore: float | Array,
    loss: SurrogateGap,
    optimizer: OnlineOptimizer | None = None,
) -> Learner:
    """Multiclass classification by Gappletron, from one bit or from the label.

        P = (1 - gamma) q + gamma/K,   q = (1 - a) k* + a/K,   a = loss.gappletron(W x);
        G = w residual(W x, y) x^T,   W <- W - B G / sqrt(2 (1e-8 + sum ||G||^2)),
    with w = [output = y] / P(output) and y = output from a `Mismatch` (an unbiased estimate of the
    gradient), w = 1 from a `Label`. For models U with ||U|| <= B/2 and W kept in that ball, with
    delta and L of the loss:
        Label, gamma = 0   E mistakes <= sum loss(U) + B^2 L X^2 / (2 delta)
        Mismatch           E mistakes <= sum loss(U) + K B^2 L X^2 / (2 delta gamma) + gamma T

    Args:
      num_classes: K >= 2, static.
      num_features: n >= 1, static. W (K, n) starts at 0.
      diameter: B > 0 of the step size; not read where `optimizer` is given.
      explore: gamma in [0, 1]; > 0 for `Mismatch`, 0 will do for `Label`. See `gappletron_rate`.
      loss: `logistic_gap(K)` or `hinge_gap(K)`.
      optimizer: None for `optimizers.adaptive_ogd(diameter, offset=1e-8)`, without a projection;
        `adaptive_ogd(diameter, project=True)` has the bounds above.

    Returns:
      A Learner. State: the optimizer's. Prediction: `GapPrediction`. Reads `Mismatch` or `Label`
      with unit vectors (K,) as labels; an answer without a value leaves the state as it is.

    Raises:
      ValueError: if a concrete argument is out of range, or `loss` has another K; at trace time if
        `explore` is 0 and a `Mismatch` comes, or x or a label has another shape.
      TypeError: if an argument is of the wrong kind; at trace time for feedback of another kind.

    Source: arXiv:2106.03596, for bandit feedback and for the label; arXiv:2502.18709, appendix H.1.
    Differs: graph feedback in general is not here.
    """
    checks.kind("loss", loss, SurrogateGap)
    return gap_learner(
        "gappletron",
        loss.gappletron,
        lambda gap, rate: gap + rate * (1 - gap),
        num_classes,
        num_features,
        diameter=diameter,
        explore=explore,
        loss=loss,
        optimizer=optimizer,
    )


def gappletron_rate(num_classes: int, *, diameter: float, num_rounds: int) -> float:
    """Returns the exploration rate gamma = min(1, B K / sqrt(T)) for one bit.

    Args:
      num_classes: K >= 2.
      diameter: B > 0.
      num_rounds: T >= 1.

    Raises:
      TypeError, ValueError: if an argument is out of range. A rate above 1 is a warning.

    Source: the bound B sqrt(rho K T) that arXiv:2106.03596 states for a graph with rho = K, as one
    bit has; the paper's own constant may be another. The bound of `gappletron` is least at
    B X sqrt(K L / (2 delta T)), which for the logistic loss in base 2 is B X K / sqrt(T ln 2).
    """
    num_classes = checks.at_least("num_classes", num_classes, 2)
    diameter = checks.positive("diameter", diameter, static=True)
    num_rounds = checks.at_least("num_rounds", num_rounds, 1)
    value = diameter * num_classes / math.sqrt(num_rounds)
    return capped_rate("B K / sqrt(T)", value)
