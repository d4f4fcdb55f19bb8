"""The methods of arXiv:2502.18709, its competitors, and the rates at which they explore.

Source: arXiv:2502.18709, appendix H. Symbols: B `diameter`, Cx the longest x, T rounds.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from jonline import optimizers, oracles, structured
from jonline.core import Environment, Learner, Oracle, Stream
from jonline.structured import theory

OFFSET = 1e-8  # added to the sum of squares in every step size

INVERSE_WEIGHTED = "OSP, inverse-weighted"
PSEUDO_INVERSE = "OSP, pseudo-inverse"
LABELS = "OSP, labels"

THEORY = "theory"
UNIT_THEORY = "theory, B = Cx = 1"
GRID = "grid"
BEST = "best of grid"
NO_RATE = "none"

Bandit = Literal[
    "OSP, inverse-weighted",
    "Gaptron, logistic",
    "Gaptron, hinge",
    "Gappletron, logistic",
    "Gappletron, hinge",
]
BANDITS: tuple[str, ...] = Bandit.__args__


class Method(NamedTuple):
    """A method by the parts it is made of.

    Attributes:
      learner: `(space, num_features, explore, optimizer) -> Learner`.
      oracle: `(space) -> Oracle`, what it observes.
      rate: of `structured.theory`; None without a rate.
      surrogate: `(space) -> (score, y) -> scalar`, the loss it descends on.
    """

    learner: Callable[..., Learner]
    oracle: Callable[..., Oracle]
    rate: Callable[..., float] | None
    surrogate: Callable[..., Callable]


class Rate(NamedTuple):
    """A rate of exploration.

    Attributes:
      rule: where it comes from.
      explore: what is played, in [0, 1].
      formula: what the formula gives, also above 1; NaN of a grid.
    """

    rule: str
    explore: float
    formula: float


def _osp(estimator: Callable, oracle: Callable, rate: Callable | None) -> Method:
    def learner(space, num_features, explore, optimizer):
        return structured.osp(
            space, estimator(space), optimizer, num_features=num_features, explore=explore
        )

    return Method(learner, oracle, rate, lambda space: space.surrogate)


def _gap(algorithm: Callable, loss: Callable, rate: Callable) -> Method:
    def learner(space, num_features, explore, optimizer):
        return algorithm(
            space.dim,
            num_features,
            diameter=1.0,  # of its own optimizer, which is not used
            explore=explore,
            loss=loss(space.dim),
            optimizer=optimizer,
        )

    return Method(
        learner, lambda space: oracles.mismatch(), rate, lambda space: loss(space.dim).loss
    )


METHODS: dict[str, Method] = {
    INVERSE_WEIGHTED: _osp(
        structured.inverse_weighted, lambda space: oracles.mismatch(), theory.inverse_weighted_rate
    ),
    PSEUDO_INVERSE: _osp(
        structured.pseudo_inverse,
        lambda space: oracles.loss(space.target),
        theory.pseudo_inverse_rate,
    ),
    LABELS: _osp(structured.full_information, lambda space: oracles.label(), None),
    "Gaptron, logistic": _gap(structured.gaptron, structured.logistic_gap, theory.gaptron_rate),
    "Gaptron, hinge": _gap(structured.gaptron, structured.hinge_gap, theory.gaptron_rate),
    "Gappletron, logistic": _gap(
        structured.gappletron, structured.logistic_gap, theory.gappletron_rate
    ),
    "Gappletron, hinge": _gap(structured.gappletron, structured.hinge_gap, theory.gappletron_rate),
}


def make(
    point: Mapping[str, Any],
    data: Any,
    *,
    name: str,
    space: structured.OutputSpace,
    num_features: int,
    diameter: float,
    stream: Callable[[Mapping[str, Any], Any], Stream],
    project: bool = False,
) -> tuple[Learner, Environment]:
    """Returns a method of `METHODS` at the point's `explore`, and what it plays against.

    All methods step by `adaptive_ogd`; `stream` is `(point, data) -> Stream`.
    """
    method = METHODS[name]
    optimizer = optimizers.adaptive_ogd(diameter, project=project, offset=OFFSET)
    learner = method.learner(space, num_features, point["explore"], optimizer)
    return learner, Environment(stream(point, data), method.oracle(space))


def measure(name: str, space: structured.OutputSpace) -> Callable:
    """Returns the metrics of a method: `structured.losses`, with its own surrogate."""
    return structured.losses(space._replace(surrogate=METHODS[name].surrogate(space)))


def rates(
    name: str,
    space: structured.OutputSpace,
    *,
    diameter: float,
    radius: float,
    num_rounds: int,
    grid: Iterable[float] = (),
) -> list[Rate]:
    """Returns the rates a method is played at: the theory's, that for B = Cx = 1, and a grid.

    What is above 1 is played as 1, uniformly. A method that observes labels has the rate 0.
    """
    rate = METHODS[name].rate
    if rate is None:
        return [Rate(NO_RATE, 0.0, 0.0)]
    found = []
    for rule, B, Cx in ((THEORY, diameter, radius), (UNIT_THEORY, 1.0, 1.0)):
        formula = rate(space, diameter=B, radius=Cx, num_rounds=num_rounds, cut=np.inf)
        found.append(Rate(rule, min(1.0, formula), formula))
    return found + [Rate(GRID, explore, np.nan) for explore in grid]
