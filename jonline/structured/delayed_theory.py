"""What the theory of online structured prediction promises when answers come late.

Every bound is on the expected surrogate regret: E[sum_t L_t] <= sum_t S_t(U) + bound for every U
with ||U|| <= B/2. The exploration that goes with them is in `jonline.structured.theory`.

Source: arXiv:2502.18709, sections 4 and 5, appendices E to G.

Symbols: as in `jonline.structured.theory`, and
  Cy       `extent`: the largest of all distances within conv(Y) and of all norms in it: sqrt(2) for
           classes, sqrt(d) on the cube, sqrt(2 m) for rankings of m items, and for m of d labels
           sqrt(2 min(m, d - m)) or sqrt(m), whichever is more
  tau_t    delay of round t; tau* the longest
"""

from typing import Any

import numpy as np

from jonline import checks
from jonline.structured import theory
from jonline.structured.spaces.space import OutputSpace


def odaftrl_bound(
    space: OutputSpace,
    *,
    diameter: float,
    radius: float,
    extent: float,
    num_rounds: Any,
    delay: Any,
) -> np.ndarray:
    """Returns the bound for labels and `optimizers.odaftrl` under a fixed delay D, float64:

        4 B Cx Cy D + 2 b B^2 / a
            + min(b B^2 (D+1)^2 / a, (3/2) (b B^4 Cx^2 Cy^2 (D+1)^2 T / a)^(1/3)).

    Args:
      space: the output space.
      diameter: B > 0.
      radius: Cx > 0.
      extent: Cy > 0.
      num_rounds: T >= 1, whole numbers, any shape.
      delay: D >= 0, whole numbers of a shape that fits.

    Raises:
      TypeError, ValueError: if an argument is out of range, or a <= 0.

    Source: arXiv:2502.18709, theorem E.2 (4.3).
    Differs: the theorem prints b (D+1)^2 / 2 as the first branch, its proof b (D+1)^2 / a; B^2 is
    lost on the way from lemma E.1.
    """
    T = checks.numbers("num_rounds", num_rounds, 1)
    diameter, radius, extent, D = _checked(diameter, radius, extent, delay=delay)
    a, b = theory.needed_margin(space), theory.smoothness(space.constants, radius)
    size = radius * extent
    first = b * (diameter * (D + 1)) ** 2 / a
    second = 1.5 * np.cbrt(b * diameter**4 * (size * (D + 1)) ** 2 * T / a)
    return 4 * diameter * size * D + 2 * b * diameter**2 / a + np.minimum(first, second)


def odaftrl_inverse_weighted_bound(
    space: OutputSpace,
    *,
    diameter: float,
    radius: float,
    extent: float,
    num_rounds: Any,
    delay: Any,
) -> np.ndarray:
    """Returns the bound for `inverse_weighted` estimates and `optimizers.odaftrl`, float64:

        4 B Cx Cy D + (4 b / a + 1) B sqrt(K T) + 2 B Cx Cy sqrt(D T).

    It is for `explore` at `theory.inverse_weighted_rate`. Args and Raises as `odaftrl_bound`.

    Source: arXiv:2502.18709, theorem F.1 (5.1).
    Differs: the theorem prints (4 b B / a + 1) sqrt(K T); what its proof gives has B outside. The
    proof takes the expectation of the largest of T sums for the largest of their expectations,
    which gives the first term; that is kept as printed.
    """
    T = checks.numbers("num_rounds", num_rounds, 1)
    diameter, radius, extent, D = _checked(diameter, radius, extent, delay=delay)
    a, b = theory.needed_margin(space), theory.smoothness(space.constants, radius)
    late = 2 * diameter * radius * extent * (2 * D + np.sqrt(D * T))
    return late + (4 * b / a + 1) * diameter * np.sqrt(space.size * T)


def solid_bound(
    space: OutputSpace,
    *,
    diameter: float,
    radius: float,
    extent: float,
    total_delay: Any,
    max_delay: Any,
) -> np.ndarray:
    """Returns the bound for labels and `optimizers.solid_ogd` under any delays, float64:

        2 b R^2 / a + Cx Cy R (4 sqrt(sum_t tau_t) + sqrt(2 (tau*^2 + tau*))),   R = B/2.

    Args:
      space: the output space.
      diameter: B > 0.
      radius: Cx > 0.
      extent: Cy > 0.
      total_delay: sum of the delays of all rounds, >= 0, any shape.
      max_delay: tau* >= 0, of a shape that fits.

    Raises:
      TypeError, ValueError: if an argument is out of range, or a <= 0.

    Source: arXiv:2502.18709, theorem G.2.
    Differs: the paper's R has to satisfy ||U - W_t|| <= 2 R at all times; in a ball of diameter B
    that is R = B/2.
    """
    late = _solid_delay(diameter, radius, extent, total_delay, max_delay)
    a, b = theory.needed_margin(space), theory.smoothness(space.constants, radius)
    return b * diameter**2 / (2 * a) + late


def solid_inverse_weighted_bound(
    space: OutputSpace,
    *,
    diameter: float,
    radius: float,
    extent: float,
    num_rounds: Any,
    total_delay: Any,
    max_delay: Any,
) -> np.ndarray:
    """Returns the bound for `inverse_weighted` estimates and `optimizers.solid_ogd`, float64:

        (2 b / a + 1) R sqrt(K T) + Cx Cy R (4 sqrt(sum_t tau_t) + sqrt(2 (tau*^2 + tau*))).

    It is for `explore` at `theory.solid_inverse_weighted_rate` of the same T.

    Args:
      num_rounds: T >= 1, whole numbers, any shape.
      space, diameter, radius, extent, total_delay, max_delay: as for `solid_bound`.

    Raises:
      TypeError, ValueError: as `solid_bound`.

    Source: arXiv:2502.18709, theorem G.3.
    Differs: R is B/2, as in `solid_bound`. The proof takes Cx Cy for a bound on every gradient,
    which for estimates holds in the mean alone; that is kept as printed.
    """
    late = _solid_delay(diameter, radius, extent, total_delay, max_delay)
    T = checks.numbers("num_rounds", num_rounds, 1)
    a, b = theory.needed_margin(space), theory.smoothness(space.constants, radius)
    return (2 * b / a + 1) * diameter / 2 * np.sqrt(space.size * T) + late


def _solid_delay(diameter, radius, extent, total_delay, max_delay) -> np.ndarray:
    diameter, radius, extent, total, most = _checked(
        diameter, radius, extent, total_delay=total_delay, max_delay=max_delay
    )
    longest = np.sqrt(2 * (most**2 + most))
    return radius * extent * diameter / 2 * (4 * np.sqrt(total) + longest)


def _checked(diameter: Any, radius: Any, extent: Any, **counts: Any) -> list[Any]:
    """Returns the sizes as Python numbers and the counts as float64."""
    sizes = {"diameter": diameter, "radius": radius, "extent": extent}
    known = [checks.positive(name, value, static=True) for name, value in sizes.items()]
    return [*known, *(checks.numbers(name, value, 0) for name, value in counts.items())]
