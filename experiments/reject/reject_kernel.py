"""DRAL, DSAL and DSOL with a Gaussian kernel of few terms, against linear models.

Two rings, on which no linear model does better than chance, and Guide, whose classes a kernel tells
apart better. A budget is the number of terms that are held, the newest; only rounds that learn take
one, so a learner that asks for few labels keeps its terms longer.

The rings are 10 000 points at radius 1 or 2 with noise 0.2 in both coordinates. Guide is
standardised. Step sizes stay as they are over a run: with falling ones late terms, which are small,
would push early ones out, which are not. They and the slopes are chosen on other seeds as in
`reject_active`, for each budget and the linear model.

k(x, x) = 1 is small beside the width of 1 at which learners begin. DRAL's width then sinks to -1 as
printed; with the exact gradient it rises, on the rings out of reach of f. After either no label is
asked for.

A smoke run plays the rings alone, unless `--data` is given.

Source: arXiv:1906.06166, algorithms 3 and 4; the experiment is beyond it.
"""

import dataclasses
from functools import partial
from typing import Literal

import numpy as np
import xarray as xr

from experiments.reject import protocol
from experiments.shared.figures import COLOURS, new_figure, plot_curve
from experiments.shared.options import at_least, is_cost
from experiments.shared.outputs import write
from experiments.shared.records import joint_records, select
from jonline import checks, data, hypotheses, kernels

Name = Literal["rings", "svmguide1"]
TITLES = {"rings": "Two rings", "svmguide1": "Guide"}
LINEAR = 0  # in place of a budget


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(protocol.TunedOptions):
    """Options of the comparison."""

    datasets: tuple[Name, ...] = ("rings", "svmguide1")
    """Data sets to play."""
    budget: tuple[int, ...] = (100, 300, 1000)
    """Numbers of terms held, each >= 1."""
    width: float = 1.0
    """Width of the Gaussian kernel, > 0."""
    cost: float = 0.25
    """d, cost of a rejection, in (0, 0.5)."""
    step_size: tuple[float, ...] = (0.1, 0.5, 2.0, 8.0)
    """eta_0 to choose from, each > 0."""
    slope: tuple[float, ...] = (1.0, 2.0)
    """Slopes of the sigmoid to choose from, each > 0."""
    tuning_seeds: int = 2
    """Seeds of the choice, others than those of the result."""

    def __post_init__(self):
        super().__post_init__()
        self.check(at_least(1), "budget")
        self.check(checks.positive, "width")
        self.check(is_cost, "cost")


def main(options: Options) -> None:
    """Chooses the points, plays them; writes records, table and figure."""
    options = options.capped()
    real = not options.smoke or options.data is not None
    names = [name for name in options.datasets if name == "rings" or real]
    tables = {
        name: rings(options) if name == "rings" else protocol.load(options, name).table
        for name in names
    }
    makes, points = {}, {}
    for name in names:
        for learner in options.learners:
            for budget in (LINEAR, *options.budget):
                key = (name, learner, budget)
                makes[key] = partial(
                    protocol.make,
                    name=learner,
                    num_rounds=options.rounds,
                    fall=1.0,
                    space=space(options, tables[name].x.shape[1], budget),
                )
                points[key] = options.grid(learner, cost=options.cost)
    played, _ = protocol.tuned(options, makes, points, {key: tables[key[0]] for key in makes})
    joint = joint_records(played, ("dataset", "learner", "budget"))
    names_of = ("dataset", "learner", "budget", "step_size", "slope")
    write(
        options,
        table=protocol.table(joint, names_of),
        figure=draw(options, joint, names),
        records=joint,
        checksums={one.name: one.provenance.sha256 or "made up" for one in tables.values()},
    )


def rings(options: Options) -> data.Dataset:
    """Returns points on two rings, the outer one +1."""
    rng = np.random.default_rng(options.key)
    y = np.where(rng.random(10_000) < 0.5, 1, -1)
    angle = rng.uniform(0, 2 * np.pi, len(y))
    radius = np.where(y > 0, 2.0, 1.0)
    x = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return data.from_arrays(x + 0.2 * rng.standard_normal(x.shape), y, name="rings")


def space(options: Options, num_features: int, budget: int) -> hypotheses.Hypothesis:
    """Returns the model of a budget of terms, or the linear one."""
    if budget == LINEAR:
        return hypotheses.linear(num_features)
    k = kernels.gaussian(options.width)
    return hypotheses.kernel(k, budget, num_features, keep_norm=False)


def draw(options: Options, joint: xr.Dataset, names: list[str]):
    """Returns the figure: risk over the rounds by budget, a column for each learner."""
    figure, axes = new_figure(
        nrows=len(names),
        ncols=len(options.learners),
        figsize=(3.7 * len(options.learners), 3.3 * len(names) + 0.6),
        squeeze=False,
        sharey="row",
    )
    colours = ("0.3", *COLOURS)
    for line, name in zip(axes, names, strict=True):
        for panel, learner in zip(line, options.learners, strict=True):
            for colour, budget in zip(colours, (LINEAR, *options.budget), strict=False):
                run = select(joint, dataset=name, learner=learner, budget=budget)
                asked = protocol.curve(run, "asked")[0, :, -1].mean()
                label = f"{budget} terms" if budget else "linear"
                plot_curve(
                    panel,
                    run["round"].values,
                    protocol.curve(run, "risk")[0],
                    colour=colour,
                    label=f"{label}, asked for {asked:.0%}",
                )
            panel.set_title(f"{TITLES[name]}: {learner}", fontsize=9)
            panel.set(xscale="log", xlabel="round")
            panel.legend(frameon=False, fontsize=8)
        line[0].set(ylabel="average risk so far", ylim=(0, None))
    figure.suptitle(
        f"Gaussian kernel or linear, d = {options.cost:g}, {options.seeds} seeds, 95 % intervals"
    )
    return figure
