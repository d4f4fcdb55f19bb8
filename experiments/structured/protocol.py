"""What the experiments of one paper share: its methods by name, rates of exploration, records.

Source: arXiv:2502.18709, appendix H. Symbols: B `diameter`, Cx the longest x, T rounds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
import xarray as xr

import jonline
from experiments.shared import sweeps as _common
from jonline import optimizers, oracles, structured
from jonline.core import Environment, Learner, Oracle, Stream
from jonline.structured import theory

LARGE = 2048  # numbers of a model from which 16 lanes of it fill a core's cache
OFFSET = 1e-8  # added to the sum of squares in every step size
FURTHER_ROUNDS = 10**12  # so many more that no rate is capped

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
      oracle: `(space) -> Oracle`, what it hears.
      rate: `(space, diameter, radius, num_rounds) -> explore`, the theory's; None without a rate.
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


def _inverse_weighted_rate(space, diameter, radius, num_rounds):
    del radius
    return theory.inverse_weighted_rate(space, diameter=diameter, num_rounds=num_rounds)


def _pseudo_inverse_rate(space, diameter, radius, num_rounds):
    return theory.pseudo_inverse_rate(
        space, diameter=diameter, radius=radius, num_rounds=num_rounds
    )


def _gaptron_rate(space, diameter, radius, num_rounds):
    return structured.gaptron_rate(
        space.dim, radius=radius, diameter=diameter, num_rounds=num_rounds
    )


def _gappletron_rate(space, diameter, radius, num_rounds):
    del radius
    return structured.gappletron_rate(space.dim, diameter=diameter, num_rounds=num_rounds)


METHODS: dict[str, Method] = {
    INVERSE_WEIGHTED: _osp(
        structured.inverse_weighted, lambda space: oracles.mismatch(), _inverse_weighted_rate
    ),
    PSEUDO_INVERSE: _osp(
        structured.pseudo_inverse, lambda space: oracles.loss(space.target), _pseudo_inverse_rate
    ),
    LABELS: _osp(structured.full_information, lambda space: oracles.label(), None),
    "Gaptron, logistic": _gap(structured.gaptron, structured.logistic_gap, _gaptron_rate),
    "Gaptron, hinge": _gap(structured.gaptron, structured.hinge_gap, _gaptron_rate),
    "Gappletron, logistic": _gap(structured.gappletron, structured.logistic_gap, _gappletron_rate),
    "Gappletron, hinge": _gap(structured.gappletron, structured.hinge_gap, _gappletron_rate),
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


def sweep(
    options: _common.Options,
    name: str,
    space: structured.OutputSpace,
    grid: Mapping[str, Any],
    data: Any = None,
    *,
    num_features: int,
    diameter: float,
    stream: Callable[[Mapping[str, Any], Any], Stream],
    project: bool = False,
) -> Callable[[Any], jonline.SweepResult]:
    """Returns a function that plays a method on one device, for `_protocol.play_all`.

    `grid` has the axes of the grid, `explore` the last of them; the rest is as in `make`.
    """
    of_method = partial(
        make,
        name=name,
        space=space,
        num_features=num_features,
        diameter=diameter,
        stream=stream,
        project=project,
    )

    def play(device):
        return jonline.sweep(
            of_method,
            measure(name, space),
            jonline.product_grid(**grid),
            data=data,
            num_rounds=options.rounds,
            num_seeds=options.seeds,
            key=jax.random.key(options.key),
            record_every=options.record_every,
            block=16 if space.dim * num_features >= LARGE else None,
            devices=[device],
            # a call begins with what hangs on the seed alone, e.g. its order of the rows
            windows_per_call=min(25, options.windows),
            progress=True,
        )

    return play


def uncapped(rate: Callable[[int], float], num_rounds: int) -> float:
    """Returns what the formula of a rate gives, where the rate itself is at most 1.

    `rate` maps T to c T^-p, capped; its values at T f and T f^2 give that at T, whatever p is.
    """
    far, farther = (rate(num_rounds * FURTHER_ROUNDS**k) for k in (1, 2))
    return far * far / farther


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

    What is above 1 is played as 1, uniformly. A method that hears labels has the rate 0.
    """
    rate = METHODS[name].rate
    if rate is None:
        return [Rate(NO_RATE, 0.0, 0.0)]
    found = []
    for rule, B, Cx in ((THEORY, diameter, radius), (UNIT_THEORY, 1.0, 1.0)):
        formula = uncapped(lambda T, B=B, Cx=Cx: rate(space, B, Cx, T), num_rounds)
        found.append(Rate(rule, min(1.0, formula), formula))
    return found + [Rate(GRID, explore, np.nan) for explore in grid]


def records(
    results: Mapping[tuple, jonline.SweepResult],
    played: Mapping[tuple, Sequence[Rate]],
    names: Sequence[str],
) -> xr.Dataset:
    """Returns the records by key, with coordinates along `point` for what belongs to one.

    Args:
      results: sweeps by key, one of whose entries is the method; `explore` is the axis of their
        grids that varies fastest.
      played: the rates of every sweep.
      names: what the entries of a key are; `learner` for the method.

    Returns:
      Variables (point, seed, round), and along `point` the grid's axes, `names`, `rule`, `formula`.
      The rule of the grid's rate with the least target loss is `BEST`, one for each key and each
      setting of the other axes.
    """
    joint = _common.records({str(i): result for i, result in enumerate(results.values())})
    which, keys = joint["learner"].values.astype(int), [*results]
    joint = joint.drop_vars("learner")
    for entry, name in enumerate(names):
        values = [keys[i][entry] for i in which]
        joint.coords[name] = ("point", np.array(values, object if name == "learner" else None))
    each = [
        rate
        for key, result in results.items()
        for rate in [*played[key]] * (len(result.undelivered) // len(played[key]))
    ]
    rule = np.array([rate.rule for rate in each], dtype=object)
    loss = total(joint).mean(axis=-1)
    begin = np.flatnonzero((rule == THEORY) | (rule == NO_RATE))  # of each setting
    for first, last in zip(begin, [*begin[1:], len(rule)], strict=True):
        of_grid = first + np.flatnonzero(rule[first:last] == GRID)
        if of_grid.size:
            rule[of_grid[np.argmin(loss[of_grid])]] = BEST
    formula = np.array([rate.formula for rate in each])
    return joint.assign_coords(rule=("point", rule), formula=("point", formula))


def total(joint: xr.Dataset, variable: str = "target_loss") -> np.ndarray:
    """Returns a metric's sum over all rounds, (points, seeds) float64."""
    return joint[variable].values.sum(axis=-1, dtype=np.float64)


def table(joint: xr.Dataset, names: Sequence[str]) -> list[dict[str, Any]]:
    """Returns a row for each point: what it is, its rates, its loss in sum and in the mean."""
    rounds = int(joint["round"][-1])
    loss = _common.mean_interval(total(joint))
    error, late = total(joint, "zero_one") / rounds, joint["zero_one"].values[..., -1]
    rows = []
    for i in range(joint.sizes["point"]):
        formula = float(joint["formula"].values[i])
        one = {name: _short(joint[name].values[i]) for name in names if name != "learner"}
        rows.append(
            one
            | {
                "learner": joint["learner"].values[i],
                "rule": joint["rule"].values[i],
                "explore": _short(joint["explore"].values[i]),
                "formula": "" if np.isnan(formula) else formula,
                "total_loss": loss.mean[i],
                "low_95": loss.low[i],
                "high_95": loss.high[i],
                "mean_loss": loss.mean[i] / rounds,
                "error_rate": error[i].mean(),
                "last_window": late[i].mean() / joint.attrs["record_every"],
            }
        )
    return rows


def _short(value: Any) -> Any:
    """Returns a number without the digits that float32 cannot know."""
    return float(f"{value:.6g}") if isinstance(value, np.floating) else value.item()


def select(joint: xr.Dataset, **which: Any) -> xr.Dataset:
    """Returns the points whose coordinates have the given values."""
    keep = np.ones(joint.sizes["point"], bool)
    for name, value in which.items():
        found = joint[name].values
        keep &= np.isclose(found, value) if isinstance(value, float) else found == value
    return joint.isel(point=np.flatnonzero(keep))
