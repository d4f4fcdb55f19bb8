"""What the experiments of one paper share: its methods by name, rates of exploration, records.

Source: arXiv:2502.18709, appendix H. Symbols: B `diameter`, Cx the longest x, T rounds.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr

import jonline
from experiments.shared.options import SharedOptions, positive_rate
from experiments.shared.outputs import dump, write
from experiments.shared.records import bounds, joint_records, mean_interval, plain
from experiments.shared.sweeps import on_device, play_all
from jonline import checks, optimizers, oracles, streams, structured
from jonline.core import Environment, Learner, Oracle, Stream
from jonline.structured import theory

LARGE = 2048  # numbers of a model from which 16 lanes of it fill a core's cache
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class MethodOptions(SharedOptions):
    """Options of the comparisons of methods."""

    windows: int = 20
    """Points of every curve: sums are kept over this many equal parts of a run."""
    diameter: float = 10.0
    """B > 0, of the step sizes, the ball and the theory's exploration."""
    explore: tuple[float, ...] = (0.1,)
    """Further rates of exploration for every method that explores, each in (0, 1]."""

    def __post_init__(self):
        super().__post_init__()
        self.check(checks.positive, "diameter")
        self.check(positive_rate, "explore")


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
} | {
    f"{algorithm.__name__.capitalize()}, {name}": _gap(algorithm, loss, rate)
    for algorithm, rate in (
        (structured.gaptron, theory.gaptron_rate),
        (structured.gappletron, theory.gappletron_rate),
    )
    for name, loss in (("logistic", structured.logistic_gap), ("hinge", structured.hinge_gap))
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


class Setting(NamedTuple):
    """What methods are played on.

    Attributes:
      space, num_features, stream: as for `make`.
      radius: Cx of the theory's exploration.
      table: what `stream` gets as data.
      axes: of the grid, besides `explore`.
    """

    space: structured.OutputSpace
    num_features: int
    stream: Callable[[Mapping[str, Any], Any], Stream]
    radius: float
    table: Any = None
    axes: Mapping[str, Any] = MappingProxyType({})


def compare(
    options: Any, settings: Mapping[tuple, Setting], names: Sequence[str], *, project: bool = False
) -> xr.Dataset:
    """Returns the records of all methods in all settings, each at all its rates.

    Args:
      options: `MethodOptions` with `learners`.
      settings: by key; `names` are what its entries are.
      project: as for `make`.
    """
    played, sweeps = {}, {}
    for key, at in settings.items():
        for name in options.learners:
            size = dict(diameter=options.diameter, radius=at.radius, num_rounds=options.rounds)
            found = rates(name, at.space, grid=options.explore, **size)
            of_method = partial(
                make,
                name=name,
                space=at.space,
                num_features=at.num_features,
                diameter=options.diameter,
                stream=at.stream,
                project=project,
            )
            played[*key, name] = found
            sweeps[*key, name] = on_device(
                options,
                of_method,
                measure(name, at.space),
                jonline.product_grid(**at.axes, explore=[rate.explore for rate in found]),
                at.table,
                block=16 if at.space.dim * at.num_features >= LARGE else None,
                # a call begins with what depends on the seed alone, e.g. its order of the rows
                windows_per_call=min(25, options.windows),
            )
    return records(play_all(sweeps), played, (*names, "learner"))


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
    joint = joint_records(results, names)
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
    rows = []
    for i in range(joint.sizes["point"]):
        one = joint.isel(point=i)
        loss, formula = mean_interval(total(one)), float(one["formula"])
        rows.append(
            {name: plain(one[name].values[()]) for name in (*names, "learner", "rule", "explore")}
            | {"formula": "" if np.isnan(formula) else formula}
            | bounds("total_loss", loss)
            | {
                "mean_loss": loss.mean / rounds,
                "error_rate": (total(one, "zero_one") / rounds).mean(),
                "last_window": one["zero_one"].values[:, -1].mean() / joint.attrs["record_every"],
            }
        )
    return rows


def leave(
    options: SharedOptions,
    joint: xr.Dataset,
    names: Sequence[str],
    figure: Any,
    checksums: Mapping[str, str],
    *,
    shown: Callable[[Mapping[str, Any]], bool] = lambda row: row["rule"] != GRID,
    note: str = "shown: of the grid the best; table.csv has every rate",
) -> None:
    """Writes records, table, summary and figure; prints the rows that are to be shown."""
    rows = table(joint, names)
    visible = [row for row in rows if shown(row)]
    folder = write(
        options, table=rows, shown=visible, figure=figure, records=joint, checksums=checksums
    )
    if note:
        print(note)
    dump(folder / "summary.json", rows)


def longest(x: Any) -> float:
    """Returns the largest Euclidean norm of rows."""
    return float(np.sqrt(np.max(np.sum(np.square(x), axis=1))))


def one_pass(point: Mapping[str, Any], table: Any) -> Stream:
    """Returns the rows in an order drawn for the run."""
    del point
    return streams.one_pass(table)
