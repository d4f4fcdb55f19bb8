"""What the theory of DRAL, DSAL and DSOL promises.

Source: arXiv:1906.06166, sections 2 and 3, appendices B to F.

Symbols: as in `jonline.reject.formulas`, and
  R        bound on the norm of k(x, .): R^2 >= k(x, x)
  w, W     a fixed model f = <w, .> to compare with; W a bound on its norm, here the norm itself
  eta      step size, constant
  T        number of rounds
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.core import Array
from jonline.hypotheses import Hypothesis
from jonline.reject.formulas import double_sigmoid_gradient
from jonline.reject.learner import check_cost


class Separator(NamedTuple):
    """A fixed model to compare with.

    Attributes:
      sq_norm: ||w||^2 > 0.
      width: its rho > 0.
      loss: sum of its L_dr over the rounds, >= 0; 0 is a stream that it separates with a margin.
    """

    sq_norm: float
    width: float
    loss: float = 0.0


def rejected_bound(
    comparator: Separator, *, cost: float, step_size: float, sq_radius: float, tight: bool = False
) -> float:
    """Returns a bound on the rejections of DRAL in the rounds in which it asked.

        alpha^2 ||w||^2 + (1 - alpha rho)^2 + (2 eta alpha / m) sum_t L_dr(comparator),
        alpha = max((1 + eta^2 d^2 (R^2 + 1) + 2 eta d) / (2 eta d), k).
    It bounds the number of all rounds with a step, too.

    Args:
      comparator: the fixed model.
      cost: d in (0, 1/2).
      step_size: eta > 0, constant.
      sq_radius: R^2, at least every k(x, x).
      tight: for a comparator without loss, the smaller k that its margin gives in place of the
        paper's.

    Raises:
      TypeError, ValueError: if an argument is out of range; if W R < rho + 1; if a comparator with
        loss has rho < 1 or is to be `tight`.

    Source: arXiv:1906.06166, theorems 2 and 3, with lemmas 8 and 9 for k and m.
    Differs: lemma 9 fails for W R < rho + 1, where the paper asks for W R > rho, and both it and
    lemma 8 for rho < 1, which matters to a comparator with loss; one without has W R >= rho + 1.
    The learner's own rho may be any: the steps have to be counted in the branch that was taken,
    where the paper takes its intervals for disjoint.
    """
    args = _checked(comparator, cost, step_size, sq_radius, tight)
    _, cost, step_size, sq_radius, _ = args
    eta_d = step_size * cost
    least = (1 + eta_d**2 * (sq_radius + 1) + 2 * eta_d) / (2 * eta_d)
    return _bound(least, *args)


def misclassified_bound(
    comparator: Separator, *, cost: float, step_size: float, sq_radius: float, tight: bool = False
) -> float:
    """Returns a bound on the wrong labels of DRAL in the rounds in which it asked.

    As `rejected_bound`, with alpha = max((eta d (R^2 + 1) + 2) / 2, k). It counts the rounds in
    which rho grew, which are the wrong ones (and some rejections) while rho >= 1/2; below that a
    wrong label can take the other branch.
    """
    args = _checked(comparator, cost, step_size, sq_radius, tight)
    _, cost, step_size, sq_radius, _ = args
    least = (step_size * cost * (sq_radius + 1) + 2) / 2
    return _bound(least, *args)


def _bound(
    least: float, comparator: Separator, d: float, eta: float, sq_radius: float, tight: bool
) -> float:
    sq_norm, rho, loss = comparator
    reach = np.sqrt(sq_norm * sq_radius)  # W R
    over = reach - rho
    m1 = min(1 / rho, 2 / (d * (1 + rho + reach)))
    m21 = min(2 * (2 * rho + 1) / (reach + rho + 1), (1 + d * over) / (over + 1)) / (1 + d)
    m22 = max(2 / (reach + rho + 1), ((2 - d) * over + 1) / ((over + 1) * over)) / (1 - d)
    ratio = m21 * (1 + d) / m22
    if tight:
        ratio = (1 - d) * (2 * rho + 1)
    eta_1d = eta * (1 - d)
    k = (1 + eta_1d**2 * (sq_radius + 1) + 2 * eta_1d) / (2 * eta * ratio)
    alpha = max(least, k)
    return alpha**2 * sq_norm + (1 - alpha * rho) ** 2 + 2 * eta * alpha / min(m1, m22) * loss


def _checked(comparator, cost, step_size, sq_radius, tight) -> tuple:
    """Returns the arguments as Python numbers."""
    checks.kind("comparator", comparator, Separator)
    comparator = Separator(
        sq_norm=checks.positive("sq_norm", comparator.sq_norm, static=True),
        width=checks.positive("width", comparator.width, static=True),
        loss=checks.non_negative("loss", comparator.loss, static=True),
    )
    cost = check_cost(cost, static=True)
    step_size = checks.positive("step_size", step_size, static=True)
    sq_radius = checks.positive("sq_radius", sq_radius, static=True)
    tight = checks.flag("tight", tight)
    reach = np.sqrt(comparator.sq_norm * sq_radius)
    enough = reach >= (comparator.width + 1) * (1 - 1e-6)  # up to the rounding of a norm
    checks.require(enough, "W R", f"be >= rho + 1 = {comparator.width + 1}", reach)
    if comparator.loss > 0:
        checks.require(
            comparator.width >= 1, "width", "be >= 1 where there is loss", comparator.width
        )
        checks.require(not tight, "tight", "be False where there is loss", tight)
    return comparator, cost, step_size, sq_radius, tight


def smoothness(*, slope: float, sq_radius: float) -> float:
    """Returns beta = gamma^2 (R^2 + 1) / 5, which no eigenvalue of the Hessian of L_ds exceeds.

    Args:
      slope: gamma > 0.
      sq_radius: R^2, at least every k(x, x).

    Raises:
      TypeError, ValueError: if an argument is out of range.

    Source: arXiv:1906.06166, lemma 4.
    """
    slope = checks.positive("slope", slope, static=True)
    sq_radius = checks.positive("sq_radius", sq_radius, static=True)
    return slope**2 * (sq_radius + 1) / 5


def smooth_step_size(*, slope: float, sq_radius: float) -> float:
    """Returns eta = 1 / beta, the step size of theorem 6. Args and Raises as `smoothness`."""
    return 1 / smoothness(slope=slope, sq_radius=sq_radius)


def local_regret_bound(
    *, slope: float, sq_radius: float, num_rounds: Any, tight: bool = False
) -> np.ndarray:
    """Returns a bound on the sum of the squared gradients of L_ds over T rounds, float64.

        4 gamma^2 / 5 (R^2 + 1) (T + 1),   or with `tight` gamma^2 / 4 (R^2 + 1) T.

    Args:
      slope, sq_radius: as for `smoothness`.
      num_rounds: T >= 1, any shape.
      tight: the second, smaller one.

    Raises:
      TypeError, ValueError: if an argument is out of range.

    Source: arXiv:1906.06166, theorem 6.
    Differs: both hold for every learner and step size, since no squared gradient exceeds
    gamma^2 (R^2 + 1) / 4. The paper's proof replaces a probability by 1 on the wrong side.
    """
    beta = smoothness(slope=slope, sq_radius=sq_radius)
    T = checks.numbers("num_rounds", num_rounds, 1)
    tight = checks.flag("tight", tight)
    return 5 / 4 * beta * T if tight else 4 * beta * (T + 1)


def local_regret(
    hypothesis: Hypothesis, *, cost: float | Array, slope: float | Array
) -> Callable[..., dict[str, Array]]:
    """Returns a metrics function for sweeps: the squared gradient of L_ds in (f, rho).

    Args:
      hypothesis: the learner's model of f.
      cost, slope: the learner's d and gamma.

    Returns:
      `(example, prediction, feedback, state) -> {"local_regret"}`, float, with the gradient at the
      prediction, asked or not: (dL/dz)^2 k(x, x) + (dL/drho)^2.

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind or out of range.

    Source: arXiv:1906.06166, definition 5.
    """
    checks.kind("hypothesis", hypothesis, Hypothesis)
    cost, slope = check_cost(cost), checks.positive("slope", slope)

    def metrics(example, prediction, feedback, state):
        del feedback, state
        z = jnp.asarray(example.y, prediction.score.dtype) * prediction.score
        in_z, in_width = double_sigmoid_gradient(z, prediction.width, cost, slope)
        return {"local_regret": in_z**2 * hypothesis.diagonal(example.x) + in_width**2}

    return metrics
