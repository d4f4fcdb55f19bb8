"""What the experiments of one paper share: its data sets, their hyperparameters, its learners.

Source: arXiv:2512.19550, section 7 and table 1.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr

import jonline
from experiments.shared.figures import new_figure
from experiments.shared.options import SharedOptions
from experiments.shared.records import select as records_of
from experiments.shared.sweeps import on_device
from jonline import data as datasets
from jonline import hypotheses, metrics, oracles, ordinal, streams

Scaling = Literal["default", "unscaled", "standardise", "min_max", "unit"]
Learner = Literal["DFORD", "DFORD, printed clip", "PRank", "PRIL"]


def unit(x):
    """Returns standardised features, then rows of norm 1."""
    return datasets.unit_rows(datasets.standardise(x))


SCALINGS: dict[str, Callable] = {
    "unscaled": datasets.unscaled,
    "standardise": datasets.standardise,
    "min_max": datasets.min_max,
    "unit": unit,
}


class Task(NamedTuple):
    """A data set of the paper with its row of table 1.

    Attributes:
      title: its name in the paper.
      degree: of the kernel (1 + <x, x'>)^degree; None for the linear kernel <x, x'>.
      clip: alpha.
      reg, explore: lambda and gamma.
      scaling: the default, a key of `SCALINGS`.
    """

    title: str
    degree: int | None
    clip: float
    reg: float
    explore: float
    scaling: str = "standardise"

    @property
    def point(self) -> dict[str, float]:
        """Its chosen point of a grid."""
        return {"reg": self.reg, "explore": self.explore}


Name = Literal[
    "movielens",
    "telemonitoring",
    "mslr",
    "california",
    "computer_activity",
    "bank",
    "abalone",
    "synthetic",
]
TASKS: dict[str, Task] = {
    "movielens": Task("EachMovie", None, 4.0, 4.0, 0.6, "unscaled"),
    "telemonitoring": Task("Telemonitoring", None, 13.0, 32.0, 0.8, "unit"),
    "mslr": Task("MSLR Web 10K", None, 7.0, 16.0, 0.4),
    "california": Task("California Housing", None, 10.0, 16.0, 0.8),
    "computer_activity": Task("Computer Activity", None, 10.0, 8.0, 0.4),
    "bank": Task("Bank", None, 7.0, 32.0, 0.8),
    "abalone": Task("Abalone", 3, 11.0, 32.0, 0.2, "unscaled"),
    "synthetic": Task("Synthetic", 2, 11.0, 4.0, 0.2),
}


class Source(NamedTuple):
    """Where a task's examples come from.

    Attributes:
      name: key of `TASKS`.
      table: rows to draw from, or None for the synthetic stream, which has no table.
      scaling: how the features were scaled.
    """

    name: str
    table: datasets.Dataset | None
    scaling: str

    @property
    def task(self) -> Task:
        """The task."""
        return TASKS[self.name]

    @property
    def title(self) -> str:
        """The paper's name of the data, and what stands in for it."""
        found = self.table.name if self.table else ""
        return self.task.title + (f" (here: {found})" if found in STAND_INS else "")

    @property
    def content(self) -> str:
        """What identifies the examples: a checksum, or the name of the generator."""
        return self.table.provenance.sha256 if self.table else "jonline.data.crammer_singer"


STAND_INS = ("movielens", "mslr_sample", "made up")


def load(options: SharedOptions, name: str, scaling: str = "default") -> Source:
    """Returns the examples of a task; a smoke run without `--data` makes up a table.

    The synthetic ones are drawn afresh, and never scaled. Telemonitoring keeps `motor_UPDRS`, which
    with its default scaling is nearest to the paper's table 2 (see `dford_exploration`).
    """
    if name == "synthetic":
        return Source(name, None, "as drawn")
    if scaling == "default":
        scaling = TASKS[name].scaling
    if options.smoke and options.data is None:
        return Source(name, made_up(), "as made")
    get = datasets.telemonitoring if name == "telemonitoring" else datasets.load
    kwargs: dict[str, Any] = {"keep_motor": True} if name == "telemonitoring" else {"name": name}
    return Source(name, get(directory=options.data, scale=SCALINGS[scaling], **kwargs), scaling)


def load_all(
    options: SharedOptions, names: Sequence[str], scaling: str = "default"
) -> dict[str, Source]:
    """Returns the examples of tasks by name; a smoke run has the first alone."""
    return {name: load(options, name, scaling) for name in names[: 1 if options.smoke else None]}


def checksums(sources: dict[str, Source]) -> dict[str, str]:
    """Returns what identifies the examples, by the paper's name of the data."""
    return {source.title: source.content for source in sources.values()}


def made_up() -> datasets.Dataset:
    """Returns a small table of no meaning, so that a smoke run needs no file."""
    x = np.random.default_rng(0).standard_normal((500, 8))
    y = datasets.equal_frequency(x.sum(axis=1), 10)
    return datasets.from_arrays(x, y, 10, name="made up")


def space(task: Task, table, budget: int | None = None) -> tuple[hypotheses.Hypothesis, int]:
    """Returns the hypothesis of a task with its kernel, and the number of classes.

    Polynomial kernels are held as weights of their monomials: the same function as the expansion,
    up to rounding, at a cost that does not grow with the budget.
    """
    num_features, num_classes = (2, 5) if table is None else (table.x.shape[1], table.num_classes)
    if task.degree is None:
        return hypotheses.linear(num_features), num_classes
    return hypotheses.polynomial(num_features, degree=task.degree, budget=budget), num_classes


def make_dford(
    point, table, *, task: Task, budget=None, clip_rule=ordinal.bound_norm, init="zeros"
):
    """Returns DFORD, which observes whether the true label is above the drawn one."""
    hypothesis, num_classes = space(task, table, budget)
    learner = ordinal.dford(
        hypothesis,
        num_classes,
        reg=point["reg"],
        explore=point["explore"],
        clip=task.clip,
        clip_rule=clip_rule,
        init=init,
    )
    return learner, jonline.Environment(stream(table), oracles.directional())


def make_printed(point, table, *, task: Task):
    """Returns DFORD with every gradient brought to the norm alpha, as section 6.1 prints it."""
    return make_dford(point, table, task=task, clip_rule=ordinal.fix_norm)


def make_prank(point, table, *, task: Task):
    """Returns regularised PRank (appendix B.1), which observes the true label."""
    hypothesis, num_classes = space(task, table)
    learner = ordinal.prank(hypothesis, num_classes, reg=point["reg"])
    return learner, jonline.Environment(stream(table), oracles.label())


def make_pril(point, table, *, task: Task):
    """Returns PRIL, which observes an interval of one or two neighbours of the true label."""
    del point
    hypothesis, num_classes = space(task, table)
    learner = ordinal.pril(hypothesis, num_classes)
    return learner, jonline.Environment(stream(table), oracles.interval(num_classes))


LEARNERS: dict[str, Callable] = {
    "DFORD": make_dford,
    "DFORD, printed clip": make_printed,
    "PRank": make_prank,
    "PRIL": make_pril,
}


def stream(table) -> jonline.Stream:
    """Returns rows drawn with replacement, or the synthetic stream."""
    return datasets.crammer_singer() if table is None else streams.resample(table)


def play(
    options: SharedOptions,
    source: Source,
    make: Callable,
    grid: Any = None,
    *,
    measure: Callable = metrics.ordinal,
    **more: Any,
):
    """Returns a function that plays `make(point, table, task=…)` on one device, for `play_all`.

    Args:
      make: of a learner, as those of `LEARNERS`.
      grid: points; the task's own if not given.
      measure: metrics.
      more: what `make` is told besides.
    """
    points = jonline.product_grid(**source.task.point) if grid is None else grid
    of_task = partial(make, task=source.task, **more)
    return on_device(options, of_task, measure, points, source.table)


def final(result: jonline.SweepResult, variable: str = "loss") -> np.ndarray:
    """Returns a metric's mean over all rounds, (points, seeds)."""
    return result.mean_curve(variable)[..., -1]


def panels(num: int, width: float = 3.8, height: float = 3.2):
    """Returns a figure and its panels, four in a line."""
    columns = min(4, num)
    lines = -(-num // columns)
    size = (width * columns, height * lines + 0.5)
    figure, axes = new_figure(nrows=lines, ncols=columns, figsize=size, squeeze=False)
    for panel in axes.flat[num:]:
        panel.set_axis_off()
    return figure, axes


def select(records: xr.Dataset, name: str, learner: str) -> xr.Dataset:
    """Returns the records of one data set and learner, which have one point.

    Raises:
      KeyError: if there is none.
    """
    found = records_of(records, dataset=name, learner=learner)
    if not found.sizes["point"]:
        raise KeyError(f"no records of {learner} on {name}")
    return found.isel(point=0)
