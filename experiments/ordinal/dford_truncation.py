"""How many terms the kernel expansion of DFORD needs (Figure 3).

DFORD with its polynomial kernels on Abalone and the synthetic data, at the paper's `reg` and
`explore`, keeping the terms of the last `--budgets` rounds (δ in the paper), and untruncated. The
paper does not say how many rounds it played.

A smoke run plays one budget; without `--data` it makes up a table for Abalone.

Source: arXiv:2512.19550, section 7.5.
"""

import dataclasses
from typing import Literal

import numpy as np
import xarray as xr

import jonline
from experiments.ordinal import protocol
from experiments.shared.figures import COLOURS, new_figure, plot_curve
from experiments.shared.options import SharedOptions
from experiments.shared.outputs import write
from experiments.shared.records import bounds, joint_records, mean_interval
from experiments.shared.sweeps import play_all

UNTRUNCATED = "inf"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(SharedOptions):
    """Options of the comparison."""

    rounds: int = 100_000
    """Rounds of every run, a multiple of `windows`."""
    windows: int = 100
    """Points of every curve: sums are kept over this many equal parts of a run."""
    budgets: tuple[int, ...] = (100, 500, 750, 1000, 2000)
    """Rounds whose terms are kept, each >= 1."""
    datasets: tuple[Literal["abalone", "synthetic"], ...] = ("abalone", "synthetic")
    """Data sets to play."""
    scaling: protocol.Scaling = "default"
    """Scaling of Abalone's features. `unit`: standardised, then rows of norm 1."""


def main(options: Options) -> None:
    """Plays every budget; writes records, table and figure."""
    options = options.capped()
    if options.smoke:
        options = dataclasses.replace(options, budgets=options.budgets[:1])
    sources = {name: protocol.load(options, name, options.scaling) for name in options.datasets}
    budgets = {str(budget): budget for budget in options.budgets} | {UNTRUNCATED: None}
    results = play_all(
        {
            (name, label): protocol.play(options, source, protocol.make_dford, budget=budget)
            for name, source in sources.items()
            for label, budget in budgets.items()
        }
    )
    write(
        options,
        table=table(sources, results),
        figure=draw(options, sources, results),
        records=records(results),
        checksums=protocol.checksums(sources),
    )


def records(results: dict[tuple[str, str], jonline.SweepResult]) -> xr.Dataset:
    """Returns the records with the coordinate `budget`, infinite for untruncated runs."""
    joint = joint_records(results, ("dataset", "budget"))
    return joint.assign_coords(budget=("point", joint["budget"].values.astype(float)))


def table(sources: dict, results: dict[tuple[str, str], jonline.SweepResult]) -> list[dict]:
    """Returns a row for each data set and budget: mean loss over all rounds, with its interval."""
    rows = []
    for (name, label), result in results.items():
        loss = mean_interval(protocol.final(result)[0])
        late = mean_interval(result.records["loss"][0, :, -1] / result.record_every)
        row = {"dataset": sources[name].title, "budget": label}
        rows.append(row | bounds("mean_loss", loss) | {"last_window": late.mean})
    return rows


def draw(options: Options, sources: dict, results: dict):
    """Returns the figure: curves over the rounds, and their ends over the budget."""
    num = len(sources)
    figure, axes = new_figure(nrows=2, ncols=num, figsize=(5.5 * num, 7.5), squeeze=False)
    rounds = options.record_every * np.arange(1, options.windows + 1)
    colours = dict(zip(map(str, options.budgets), COLOURS * 9, strict=False))
    for column, (name, source) in zip(axes.T, sources.items(), strict=True):
        curves, ends = column
        for label in [*colours, UNTRUNCATED]:
            loss = results[name, label].mean_curve("loss")[0]
            end = mean_interval(loss[:, -1])
            if label == UNTRUNCATED:
                style = {"colour": "0.3", "linestyle": "--", "label": "untruncated"}
                ends.axhline(end.mean, color="0.3", linestyle="--", label="untruncated")
                ends.axhspan(end.low, end.high, color="0.3", alpha=0.2, linewidth=0)
            else:
                style = {"colour": colours[label], "label": f"budget {label}"}
                half = end.high - end.mean
                ends.errorbar(int(label), end.mean, half, fmt="o", color=colours[label])
            plot_curve(curves, rounds, loss, **style)
        curves.set(title=source.title, xscale="log", xlabel="round")
        ends.set(xlabel="budget: rounds whose terms are kept", xscale="log")
        curves.set_ylabel("mean absolute error so far")
        ends.set_ylabel(f"mean absolute error after {options.rounds:,} rounds")
        curves.legend(frameon=False, fontsize=8)
        ends.legend(frameon=False, fontsize=8)
    figure.suptitle(f"Truncated kernel DFORD, {options.seeds} seeds, 95 % intervals")
    return figure
