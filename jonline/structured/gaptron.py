"""Gaptron: multiclass classification that mixes with the uniform class as far as the loss allows.

Source: van der Hoeven, "Exploiting the surrogate gap in online multiclass classification",
arXiv:2007.12618. Symbols: as in `jonline.structured.gaps`, and
  B        diameter of the set of models
  D        bound on ||U|| for the models U compared with
  X        bound on ||x||
  T        number of rounds
  eta      step size
"""

import math

import jax.numpy as jnp

from jonline import checks
from jonline.core import Array, Learner
from jonline.optimizers import OnlineOptimizer
from jonline.structured.gaps import SurrogateGap, gap_learner
from jonline.structured.theory import capped_rate


def gaptron(
    num_classes: int,
    num_features: int,
    *,
    diameter: float | Array,
    explore: float | Array,
    loss: SurrogateGap,
    optimizer: OnlineOptimizer | None = None,
) -> Learner:
    """Multiclass classification by Gaptron, from one bit or from the label.

        P = (1 - max(a, gamma)) k* + max(a, gamma)/K,   a = loss.gaptron(W x);
        G = w residual(W x, y) x^T,   W <- W - eta G,
    with w = [output = y] / P(output) and y = output from a `Mismatch` (an unbiased estimate of the
    gradient), w = 1 from a `Label`. With `gaptron_step_size`, delta and L of the loss:
        Label, gamma = 0   E mistakes <= sum loss(U) + L X^2 ||U||^2 / (4 delta)
        Mismatch           E mistakes <= sum loss(U) + K L X^2 ||U||^2 / (4 delta gamma) + gamma T

    Args:
      num_classes: K >= 2, static.
      num_features: n >= 1, static. W (K, n) starts at 0.
      diameter: B > 0 of the step size; not read where `optimizer` is given.
      explore: gamma in [0, 1]; > 0 for `Mismatch`, 0 will do for `Label`. See `gaptron_rate`.
      loss: `logistic_gap(K)` or `hinge_gap(K)`.
      optimizer: None for `optimizers.adaptive_ogd(diameter, offset=1e-8)`, without a projection;
        `optimizers.from_optax(optax.sgd(gaptron_step_size(...)))` has the bounds above.

    Returns:
      A Learner. State: the optimizer's. Prediction: `GapPrediction`. Reads `Mismatch` or `Label`
      with unit vectors (K,) as labels; an answer without a value leaves the state as it is.

    Raises:
      ValueError: if a concrete argument is out of range, or `loss` has another K; at trace time if
        `explore` is 0 and a `Mismatch` comes, or x or a label has another shape.
      TypeError: if an argument is of the wrong kind; at trace time for feedback of another kind.

    Source: arXiv:2007.12618, algorithm 1; arXiv:2502.18709, appendix H.1, for the default step.
    Differs: it has a fixed step size, which is an option here; the default is the one that
    appendix H.1 of arXiv:2502.18709 compares with.
    """
    checks.kind("loss", loss, SurrogateGap)
    return gap_learner(
        "gaptron",
        loss.gaptron,
        jnp.maximum,
        num_classes,
        num_features,
        diameter=diameter,
        explore=explore,
        loss=loss,
        optimizer=optimizer,
    )


def gaptron_step_size(loss: SurrogateGap, *, radius: float, explore: float | None = None) -> float:
    """Returns the step size of Gaptron's theory.

        eta = 2 delta / (L X^2)               with labels: ln 2 / (2 K X^2) for the logistic loss,
                                              (1 - kappa) / (K X^2) for hinge with kappa >= 1/(K-1);
        eta = 2 delta gamma / (K L X^2)       with one bit.

    Args:
      loss: the learner's, of slack > 0 and finite L.
      radius: X > 0.
      explore: gamma in (0, 1] of the learner for `Mismatch`; None for `Label`.

    Raises:
      TypeError, ValueError: if an argument is out of range, or the loss has no such step size.

    Source: arXiv:2007.12618, theorems for the full information and the bandit setting.
    """
    checks.kind("loss", loss, SurrogateGap)
    radius = checks.positive("radius", radius, static=True)
    if not (loss.gaptron.slack > 0 and math.isfinite(loss.smoothness)):
        raise ValueError(
            "loss must have slack > 0 and finite smoothness for a step size, got "
            f"slack={loss.gaptron.slack:g} and smoothness={loss.smoothness:g}"
        )
    eta = 2 * loss.gaptron.slack / (loss.smoothness * radius**2)
    if explore is None:
        return eta
    ok = lambda q: (q > 0) & (q <= 1)  # noqa: E731
    return eta * checks.real("explore", explore, "be in (0, 1]", ok, static=True) / loss.num_classes


def gaptron_rate(num_classes: int, *, radius: float, diameter: float, num_rounds: int) -> float:
    """Returns the exploration rate gamma = min(1, K X B / (2 sqrt(T ln 2))) for one bit.

    It makes the two last terms of Gaptron's bound equal for the logistic loss in base 2, and their
    sum K X B sqrt(T / ln 2).

    Args:
      num_classes: K >= 2.
      radius: X > 0.
      diameter: B > 0, of a ball around 0 that the comparator is in.
      num_rounds: T >= 1.

    Raises:
      TypeError, ValueError: if an argument is out of range. A rate above 1 is a warning.

    Source: arXiv:2007.12618. The constant is what the gap inequality and the step size above give;
    the paper's may be another.
    """
    num_classes = checks.at_least("num_classes", num_classes, 2)
    radius = checks.positive("radius", radius, static=True)
    diameter = checks.positive("diameter", diameter, static=True)
    num_rounds = checks.at_least("num_rounds", num_rounds, 1)
    value = num_classes * radius * diameter / (2 * math.sqrt(num_rounds * math.log(2)))
    return capped_rate("K X B / (2 sqrt(T ln 2))", value)
