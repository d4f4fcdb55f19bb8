"""What the theory of online structured prediction asks for and promises, from a space's constants.

Source: arXiv:2502.18709, sections 2, 3 and 5, appendices D and G.

Symbols: as in `jonline.structured.spaces.space`, and
  B     diameter of the domain of W (a ball of radius R = B/2)
  Cx    bound on the Euclidean norm of x
  T     number of rounds
  D     delay of an answer in rounds
  q     `explore`
  a     E[L] <= (1 - a) S + q for outputs drawn by randomized decoding with exploration q
  b     ||gradient of S in W||^2 <= b S
"""

import warnings
from typing import Any

import numpy as np

from jonline import checks
from jonline.structured.gaps import SurrogateGap
from jonline.structured.spaces.space import Constants, OutputSpace


def margin(constants: Constants) -> float:
    """Returns a = 1 - 4 gamma / (lambda nu); regret bounds need a > 0.

    Source: arXiv:2502.18709, lemma 2.4 and assumption 3.2.
    """
    checks.kind("constants", constants, Constants)
    return 1 - 4 * constants.gamma / (constants.strong_convexity * constants.nu)


def smoothness(constants: Constants, radius: float) -> float:
    """Returns b = 2 Cx^2 kappa^2 / lambda.

    Args:
      constants: of a space.
      radius: Cx > 0.

    Raises:
      TypeError, ValueError: if `radius` is out of range.

    Source: arXiv:2502.18709, eq. (1).
    """
    checks.kind("constants", constants, Constants)
    radius = checks.positive("radius", radius, static=True)
    return 2 * radius**2 * constants.kappa**2 / constants.strong_convexity


def inverse_weighted_rate(
    space: OutputSpace,
    *,
    diameter: float,
    radius: float = 1.0,
    num_rounds: int,
    delay: int = 0,
    cut: float = 1.0,
) -> float:
    """Returns the `explore` for `inverse_weighted` estimates: q = B sqrt(K / T).

    All rates have these arguments; this one does not depend on `radius` and `delay`.

    Args:
      space: the output space.
      diameter: B > 0.
      radius: Cx > 0.
      num_rounds: T >= 1.
      delay: D >= 0.
      cut: the most to return, in (0, 1], with a warning where the formula is above; inf for the
        formula.

    Raises:
      TypeError, ValueError: if an argument is out of range.

    Source: arXiv:2502.18709, section 3.3. Differs: the paper assumes that the rate is at most 1.
    """
    K, B, _, T, _ = _checked(space, diameter, radius, num_rounds, delay)
    return _cut("B sqrt(K / T)", B * np.sqrt(K / T), cut)


def pseudo_inverse_rate(
    space: OutputSpace,
    *,
    diameter: float,
    radius: float,
    num_rounds: int,
    delay: int = 0,
    cut: float = 1.0,
) -> float:
    """Returns the `explore` for `pseudo_inverse` estimates.

        q = (4 omega B^2 Cx^2 / T)^(1/3)      for D = 0,
        q = (omega B^2 Cx^2 D / T)^(1/3)      for D >= 1.

    Args, Raises: as `inverse_weighted_rate`.

    Source: arXiv:2502.18709, sections 3.4 and 5.2. Differs: the paper assumes that the rate is at
    most 1.
    """
    _, B, Cx, T, D = _checked(space, diameter, radius, num_rounds, delay)
    factor, formula = (D, "omega B^2 Cx^2 D") if D else (4, "4 omega B^2 Cx^2")
    scale = space.constants.omega * (B * Cx) ** 2
    return _cut(f"({formula} / T)^(1/3)", np.cbrt(factor * scale / T), cut)


def solid_inverse_weighted_rate(
    space: OutputSpace,
    *,
    diameter: float,
    radius: float = 1.0,
    num_rounds: int,
    delay: int = 0,
    cut: float = 1.0,
) -> float:
    """Returns the `explore` for `inverse_weighted` estimates under SOLID: q = (B/2) sqrt(K / T).

    It does not depend on `radius` and `delay`. Args, Raises: as `inverse_weighted_rate`.

    Source: arXiv:2502.18709, appendix G.3.1. Differs: the paper assumes that the rate is at most 1.
    """
    K, B, _, T, _ = _checked(space, diameter, radius, num_rounds, delay)
    return _cut("(B/2) sqrt(K / T)", B / 2 * np.sqrt(K / T), cut)


def solid_pseudo_inverse_rate(
    space: OutputSpace,
    *,
    diameter: float,
    radius: float,
    num_rounds: int,
    delay: int = 0,
    cut: float = 1.0,
) -> float:
    """Returns the `explore` for `pseudo_inverse` under SOLID: q = (omega (B/2)^2 Cx^2 / T)^(1/3).

    It does not depend on `delay`. Args, Raises: as `inverse_weighted_rate`.

    Source: arXiv:2502.18709, appendix G.3.2. Differs: the paper assumes that the rate is at most 1.
    """
    _, B, Cx, T, _ = _checked(space, diameter, radius, num_rounds, delay)
    scale = space.constants.omega * (B / 2 * Cx) ** 2
    return _cut("(omega (B/2)^2 Cx^2 / T)^(1/3)", np.cbrt(scale / T), cut)


def gaptron_rate(
    space: OutputSpace,
    *,
    diameter: float,
    radius: float,
    num_rounds: int,
    delay: int = 0,
    cut: float = 1.0,
) -> float:
    """Returns the `explore` for Gaptron from one bit: gamma = K Cx B / (2 sqrt(T ln 2)).

    It makes the two last terms of Gaptron's bound equal for the logistic loss in base 2, and their
    sum K Cx B sqrt(T / ln 2). `space` is of classes; the rate does not depend on `delay`. Args,
    Raises: as `inverse_weighted_rate`.

    Source: arXiv:2007.12618. The constant is what the gap inequality and `gaptron_step_size` give;
    the paper's may be another.
    """
    K, B, Cx, T, _ = _checked(space, diameter, radius, num_rounds, delay, of_classes=True)
    return _cut("K Cx B / (2 sqrt(T ln 2))", K * Cx * B / (2 * np.sqrt(T * np.log(2))), cut)


def gappletron_rate(
    space: OutputSpace,
    *,
    diameter: float,
    radius: float = 1.0,
    num_rounds: int,
    delay: int = 0,
    cut: float = 1.0,
) -> float:
    """Returns the `explore` for Gappletron from one bit: gamma = B K / sqrt(T).

    `space` is of classes; the rate does not depend on `radius` and `delay`. Args, Raises: as
    `inverse_weighted_rate`.

    Source: the bound B sqrt(rho K T) that arXiv:2106.03596 states for a graph with rho = K, as one
    bit has; the paper's own constant may be another. The bound of `gappletron` is least at
    B Cx sqrt(K L / (2 delta T)), which for the logistic loss in base 2 is B Cx K / sqrt(T ln 2).
    """
    K, B, _, T, _ = _checked(space, diameter, radius, num_rounds, delay, of_classes=True)
    return _cut("B K / sqrt(T)", B * K / np.sqrt(T), cut)


def gaptron_step_size(loss: SurrogateGap, *, radius: float, explore: float | None = None) -> float:
    """Returns the step size of Gaptron's theory.

        eta = 2 delta / (L Cx^2)             with labels: ln 2 / (2 K Cx^2) for the logistic loss,
                                             (1 - kappa) / (K Cx^2) for hinge, kappa >= 1/(K-1);
        eta = 2 delta gamma / (K L Cx^2)     with one bit.

    Args:
      loss: the learner's, of slack > 0 and finite L.
      radius: Cx > 0.
      explore: gamma in (0, 1] of the learner for `Mismatch`; None for `Label`.

    Raises:
      TypeError, ValueError: if an argument is out of range, or the loss has no such step size.

    Source: arXiv:2007.12618, theorems for the full information and the bandit setting.
    """
    checks.kind("loss", loss, SurrogateGap)
    radius = checks.positive("radius", radius, static=True)
    if not (loss.gaptron.slack > 0 and np.isfinite(loss.smoothness)):
        raise ValueError(
            "loss must have slack > 0 and finite smoothness for a step size, got "
            f"slack={loss.gaptron.slack:g} and smoothness={loss.smoothness:g}"
        )
    eta = 2 * loss.gaptron.slack / (loss.smoothness * radius**2)
    if explore is None:
        return eta
    ok = lambda q: (q > 0) & (q <= 1)  # noqa: E731
    return eta * checks.real("explore", explore, "be in (0, 1]", ok, static=True) / loss.num_classes


def inverse_weighted_bound(
    space: OutputSpace, *, diameter: float, radius: float, num_rounds: Any
) -> np.ndarray:
    """Returns (b / (2a) + 1) B sqrt(K T), float64: a bound on the expected surrogate regret.

    E[sum_t L_t] <= sum_t S_t(U) + bound, for every U with ||U|| <= B/2, by projected adaptive
    gradient descent and `explore` at `inverse_weighted_rate`. Where that is capped, the bound is
    above T and says nothing.

    Args:
      space: the output space.
      diameter: B > 0.
      radius: Cx > 0.
      num_rounds: T >= 1, whole numbers, any shape; the rate has to be that of the same T.

    Raises:
      TypeError, ValueError: if an argument is out of range, or a <= 0.

    Source: arXiv:2502.18709, theorem 3.5.
    Differs: "p(y) >= K/q" in the proof must be q/K; the theorem is right.
    """
    T = checks.numbers("num_rounds", num_rounds, 1)
    diameter = checks.positive("diameter", diameter, static=True)
    a, b = needed_margin(space), smoothness(space.constants, radius)
    return (b / (2 * a) + 1) * diameter * np.sqrt(space.size * T)


def pseudo_inverse_bound(
    space: OutputSpace, *, diameter: float, radius: float, num_rounds: Any
) -> np.ndarray:
    """Returns b B^2 / a + 2^(5/3) omega^(1/3) (B Cx T)^(2/3), float64: as `inverse_weighted_bound`.

    It is for `explore` at `pseudo_inverse_rate` without a delay. Args and Raises as there.

    Source: arXiv:2502.18709, theorem D.4.
    Differs: "sqrt(omega / q)" in the proof must be sqrt(omega T / q); the theorem is right.
    """
    T = checks.numbers("num_rounds", num_rounds, 1)
    diameter = checks.positive("diameter", diameter, static=True)
    a, b = needed_margin(space), smoothness(space.constants, radius)
    explored = 2 ** (5 / 3) * np.cbrt(space.constants.omega) * np.cbrt(diameter * radius * T) ** 2
    return b * diameter**2 / a + explored


def _cut(formula: str, rate: Any, cut: float) -> float:
    """Returns `rate`, at most `cut`, with a warning that names the formula where it was above."""
    ok = lambda number: (number > 0) & ((number <= 1) | np.isinf(number))  # noqa: E731
    cut = checks.real("cut", cut, "be in (0, 1], or inf", ok, static=True)
    if rate > cut:
        uniform = ": every output is drawn uniformly, and nothing learned is played" * (cut == 1)
        warnings.warn(
            f"explore = {formula} = {rate:.4g} is above {cut:g} and was set to {cut:g}{uniform}; "
            "take more rounds, a smaller diameter, or search a grid of explore",
            stacklevel=3,
        )
    return float(min(cut, rate))


def needed_margin(space: OutputSpace) -> float:
    """Returns a; ValueError unless it is > 0."""
    checks.kind("space", space, OutputSpace)
    a = margin(space.constants)
    if a <= 0:
        raise ValueError(
            f"the theory is void: a = 1 - 4 gamma / (lambda nu) must be > 0, got {a:.4g} for "
            f"{space.name}"
        )
    return a


def _checked(space, diameter, radius, num_rounds, delay, *, of_classes: bool = False) -> tuple:
    """Returns K, and the numbers as Python ones."""
    checks.kind("space", space, OutputSpace)
    if of_classes:
        checks.require(space.name == "multiclass", "space", "be a multiclass space", space.name)
    B = checks.positive("diameter", diameter, static=True)
    Cx = checks.positive("radius", radius, static=True)
    T, D = checks.at_least("num_rounds", num_rounds, 1), checks.at_least("delay", delay, 0)
    return space.size, B, Cx, float(T), D
