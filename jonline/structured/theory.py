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


def inverse_weighted_rate(space: OutputSpace, *, diameter: float, num_rounds: int) -> float:
    """Returns the `explore` for `inverse_weighted` estimates: q = B sqrt(K / T), at most 1.

    Args:
      space: the output space.
      diameter: B > 0.
      num_rounds: T >= 1.

    Raises:
      TypeError, ValueError: if an argument is out of range. A rate above 1 is a warning.

    Source: arXiv:2502.18709, section 3.3. Differs: the paper assumes that the rate is at most 1.
    """
    diameter, num_rounds, _ = _checked(space, diameter, num_rounds)
    return capped_rate("B sqrt(K / T)", diameter * np.sqrt(space.size / num_rounds))


def pseudo_inverse_rate(
    space: OutputSpace, *, diameter: float, radius: float, num_rounds: int, delay: int = 0
) -> float:
    """Returns the `explore` for `pseudo_inverse` estimates, at most 1.

        q = (4 omega B^2 Cx^2 / T)^(1/3)      for D = 0,
        q = (omega B^2 Cx^2 D / T)^(1/3)      for D >= 1.

    Args:
      space: the output space.
      diameter: B > 0.
      radius: Cx > 0.
      num_rounds: T >= 1.
      delay: D >= 0.

    Raises:
      TypeError, ValueError: if an argument is out of range. A rate above 1 is a warning.

    Source: arXiv:2502.18709, sections 3.4 and 5.2. Differs: the paper assumes that the rate is at
    most 1.
    """
    diameter, num_rounds, radius = _checked(space, diameter, num_rounds, radius)
    delay = checks.at_least("delay", delay, 0)
    factor, formula = (delay, "omega B^2 Cx^2 D") if delay else (4, "4 omega B^2 Cx^2")
    scale = space.constants.omega * (diameter * radius) ** 2
    return capped_rate(f"({formula} / T)^(1/3)", np.cbrt(factor * scale / num_rounds))


def solid_inverse_weighted_rate(space: OutputSpace, *, diameter: float, num_rounds: int) -> float:
    """Returns the `explore` for `inverse_weighted` estimates under SOLID: q = R sqrt(K / T).

    R = B/2; at most 1. Args and Raises as `inverse_weighted_rate`.

    Source: arXiv:2502.18709, appendix G.3.1. Differs: the paper assumes that the rate is at most 1.
    """
    diameter, num_rounds, _ = _checked(space, diameter, num_rounds)
    return capped_rate("(B/2) sqrt(K / T)", diameter / 2 * np.sqrt(space.size / num_rounds))


def solid_pseudo_inverse_rate(
    space: OutputSpace, *, diameter: float, radius: float, num_rounds: int
) -> float:
    """Returns the `explore` for `pseudo_inverse` under SOLID: q = (omega R^2 Cx^2 / T)^(1/3).

    R = B/2; at most 1. Args and Raises as `pseudo_inverse_rate`.

    Source: arXiv:2502.18709, appendix G.3.2. Differs: the paper assumes that the rate is at most 1.
    """
    diameter, num_rounds, radius = _checked(space, diameter, num_rounds, radius)
    scale = space.constants.omega * (diameter / 2 * radius) ** 2
    return capped_rate("(omega (B/2)^2 Cx^2 / T)^(1/3)", np.cbrt(scale / num_rounds))


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
    T, diameter = _many_rounds(diameter, num_rounds)
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
    T, diameter = _many_rounds(diameter, num_rounds)
    a, b = needed_margin(space), smoothness(space.constants, radius)
    explored = 2 ** (5 / 3) * np.cbrt(space.constants.omega) * np.cbrt(diameter * radius * T) ** 2
    return b * diameter**2 / a + explored


def capped_rate(formula: str, rate: Any) -> float:
    """Returns `rate`, at most 1, with a warning that names the formula where it was above."""
    rate = checks.non_negative("rate", rate, static=True)
    if rate > 1:
        warnings.warn(
            f"explore = {formula} = {rate:.4g} is above 1 and was set to 1: every output is drawn "
            "uniformly, and nothing learned is played; take more rounds, a smaller diameter, or "
            "search a grid of explore",
            stacklevel=3,
        )
    return min(1.0, float(rate))


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


def _checked(space: Any, diameter: Any, num_rounds: Any, radius: Any = 1.0) -> tuple:
    """Returns the numbers as Python ones."""
    checks.kind("space", space, OutputSpace)
    return (
        checks.positive("diameter", diameter, static=True),
        checks.at_least("num_rounds", num_rounds, 1),
        checks.positive("radius", radius, static=True),
    )


def _many_rounds(diameter: Any, num_rounds: Any) -> tuple[np.ndarray, Any]:
    rounds = checks.numbers("num_rounds", num_rounds, 1)
    return rounds, checks.positive("diameter", diameter, static=True)
