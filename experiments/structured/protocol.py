"""What the experiments of arXiv:2502.18709 share: how methods are compared, and their records."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

import jonline
from experiments.shared.options import SharedOptions, positive_rate
from experiments.shared.outputs import dump, write
from experiments.shared.records import bounds, joint_records, mean_interval, plain
from experiments.shared.sweeps import on_device, play_all
from experiments.structured.methods import (
    BEST,
    GRID,
    NO_RATE,
    THEORY,
    Rate,
    make,
    measure,
    rates,
)
from jonline import checks, streams, structured
from jonline.core import Stream

LARGE = 2048  # numbers of a model from which 16 lanes of it fill a core's cache


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


def report(
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
