"""DRAL, DSAL and DSOL: risk, labels asked for, wrong labels and rejections (Figures 4 to 6).

DRAL asks for the labels near the edges of its band of rejection, DSAL at random, most often there;
DSOL is told every label. All are linear, over a cost of rejection d. A fourth learner, not in the
paper, is DRAL with the exact gradient of its loss where the width is below 1: as printed, the width
sinks to -1 there if d is large, and then DRAL asks for no label any more.

The paper says of its step sizes only that they begin small and decrease by a constant, and of the
slope of the sigmoid (its alpha) that it is chosen for low risk and few labels. Here the step size
falls in a straight line from eta_0 to eta_0 / 100; eta_0 and the slope are chosen on other seeds,
for each data set, learner and d, in one sweep: of the points with nearly the least risk, the one
that asks least. `tuning.csv` has all of them. `figure.png` is of the first data set; the others
have a figure each, of its name.

The features are standardised for Guide, divided by 255 for the digits, and those of UCI for
Phishing. Gisette is not there without a download; the 4s and 9s of MNIST, which it was made of,
stand in for it unless `--datasets` names it.

A smoke run plays one data set; without `--data` it makes up a table.

Source: arXiv:1906.06166, section 4.
"""

import dataclasses
from functools import partial

import xarray as xr

from experiments.reject import protocol
from experiments.shared.figures import COLOURS, new_figure
from experiments.shared.options import is_cost
from experiments.shared.outputs import save, save_figure, write, write_csv
from experiments.shared.records import select

STYLES = dict(zip(protocol.LEARNERS, (("-", 0), ("--", 0), ("-", 1), ("-", 2)), strict=True))
NAMES = ("dataset", "learner", "cost", "step_size", "slope")
PANELS = (  # the columns of the paper's figures
    ("labels", "average risk", "labels asked for"),
    ("risk", "average risk", "round"),
    ("asked", "fraction of labels asked for", "round"),
    ("misclassified", "fraction of wrong labels", "round"),
    ("rejected", "fraction rejected", "round"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(protocol.TunedOptions):
    """Options of the comparison."""

    seeds: int = 100
    """Independent runs of every point, >= 1."""
    windows: int = 100
    """Points of every curve: sums are kept over this many equal parts of a run."""
    datasets: tuple[protocol.Name, ...] = ("phishing", "svmguide1", "mnist_4_9")
    """Data sets to play. `mnist_4_9` stands in for `gisette`, which is downloaded."""
    cost: tuple[float, ...] = protocol.COSTS
    """d, cost of a rejection, each in (0, 0.5)."""
    scaling: protocol.Scaling = "default"
    """Scaling of the features; `unit_indicators` makes LIBSVM's form of Phishing."""

    def __post_init__(self):
        super().__post_init__()
        self.check(is_cost, "cost")


def main(options: Options) -> None:
    """Chooses the points, plays them; writes records, tables and figures."""
    options = options.capped()
    names = options.datasets[:1] if options.smoke else options.datasets
    sources = {name: protocol.load(options, name, options.scaling) for name in names}
    makes = {
        (name, learner): partial(protocol.make, name=learner, num_rounds=options.rounds)
        for name in names
        for learner in options.learners
    }
    played, tried = protocol.tuned(
        options,
        makes,
        {key: options.grid(key[1], cost=options.cost) for key in makes},
        {key: sources[key[0]].table for key in makes},
    )
    joint = protocol.records(played)
    joint = joint.assign_coords(
        title=("point", [sources[name].title for name in joint["dataset"].values]),
        scaling=("point", [sources[name].scaling for name in joint["dataset"].values]),
    )
    folder = write(
        options,
        table=table(joint),
        figure=draw(options, joint, names[0]),
        records=joint,
        checksums={source.title: source.table.provenance.sha256 for source in sources.values()},
    )
    tuning = protocol.table(protocol.records(tried), NAMES)
    save(folder / "tuning.csv", partial(write_csv, tuning))
    for name in names[1:]:
        save_figure(folder / f"{name}.png", draw(options, joint, name))


def table(joint: xr.Dataset) -> list[dict]:
    """Returns a row for each data set, cost and learner."""
    widths = joint["width"].values
    rows = [
        row | {"last_width": float(width.mean())}
        for row, width in zip(protocol.table(joint, NAMES), widths, strict=True)
    ]
    return sorted(rows, key=lambda row: (row["dataset"], row["cost"]))


def draw(options: Options, joint: xr.Dataset, name: str):
    """Returns the figure of a data set: five panels for each cost, mean ± standard deviation."""
    figure, axes = new_figure(
        nrows=len(options.cost),
        ncols=len(PANELS),
        figsize=(3.1 * len(PANELS), 2.5 * len(options.cost) + 0.8),
        squeeze=False,
    )
    mine = select(joint, dataset=name)
    for line, cost in zip(axes, options.cost, strict=True):
        for learner in options.learners:
            run = select(mine, learner=learner, cost=float(cost))
            for panel, (what, _, _) in zip(line, PANELS, strict=True):
                plot(panel, run, what, learner)
        for panel, (what, label, along) in zip(line, PANELS, strict=True):
            panel.set(ylabel=label, xlabel=along)
            if what == "labels":
                panel.set_title(f"d = {cost:g}", fontsize=9, loc="left")
                panel.set_xscale("log")
            if what == "asked":
                panel.set_ylim(0, 1.02)
            else:
                panel.set_ylim(bottom=0)
            panel.tick_params(labelsize=8)
            for axis in (panel.xaxis, panel.yaxis):
                axis.label.set_size(8)
    title = f"{mine['title'].values[0]}: {options.seeds} seeds, mean ± standard deviation"
    figure.suptitle(title)
    handles, labels = axes[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def plot(panel, run: xr.Dataset, what: str, learner: str) -> None:
    """Draws one learner's running average, with its standard deviation over seeds."""
    line, colour = STYLES[learner]
    values = protocol.curve(run, "risk" if what == "labels" else what)[0]
    rounds = run["round"].values
    asked = protocol.curve(run, "asked")[0] * rounds
    x = asked.mean(axis=0) if what == "labels" else rounds
    centre, spread = values.mean(axis=0), values.std(axis=0)
    style = {"color": COLOURS[colour], "linestyle": line, "label": learner}
    panel.plot(x, centre, linewidth=1.2, **style)
    panel.fill_between(
        x, centre - spread, centre + spread, color=style["color"], alpha=0.15, linewidth=0
    )
