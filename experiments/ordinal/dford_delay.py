"""How much DFORD and PRank lose when their answers come late.

The running mean absolute error after all rounds against the delay: a fixed delay D in one sweep,
and heavy-tailed delays, P(delay >= k) = (1 + k)^-a cut at `--longest`, for several a. The synthetic
data of Crammer and Singer, and with `--data` one real data set, each with the paper's kernel,
clipping, λ and γ. DFORD observes a direction, PRank the label.

Source: arXiv:2512.19550, section 7 for data and hyperparameters; the paper has no delays.
"""

import dataclasses
from typing import Any, Literal

import numpy as np
import xarray as xr

import jonline
from experiments.ordinal import protocol
from experiments.shared.figures import COLOURS, new_figure
from experiments.shared.options import SharedOptions, at_least
from experiments.shared.outputs import write
from experiments.shared.records import bounds, joint_records, mean_curve, mean_interval, select
from experiments.shared.sweeps import play_all
from jonline import checks, delays

FIXED, HEAVY = "fixed", "heavy-tailed"
LEARNERS: tuple[protocol.Learner, ...] = ("DFORD", "PRank")
LINES = {"DFORD": "o-", "PRank": "s--"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(SharedOptions):
    """Options of the comparison."""

    rounds: int = 20_000
    """Rounds of every run, a multiple of `windows`."""
    windows: int = 20
    """Points of every curve: sums are kept over this many equal parts of a run."""
    delays: tuple[int, ...] = (0, 1, 10, 32, 100, 316, 1000)
    """Fixed delays D in rounds, each >= 0."""
    exponents: tuple[float, ...] = (0.5, 1.0, 2.0)
    """Exponents a of heavy-tailed delays, each > 0; before the cut there is no mean for a <= 1."""
    longest: int = 1000
    """Rounds at which heavy-tailed delays are cut, >= 1."""
    real: Literal["california", "bank", "computer_activity", "abalone"] = "california"
    """The real data set that is played where `--data` is given."""

    def __post_init__(self):
        super().__post_init__()
        self.check(at_least(0), "delays")
        self.check(checks.positive, "exponents")
        self.check(at_least(1), "longest")


def main(options: Options) -> None:
    """Plays both learners under all delays; writes records, table and figure."""
    options = options.capped()
    names = ["synthetic", *([options.real] if options.data is not None else [])]
    sources = {name: protocol.load(options, name) for name in names}
    results = play_all(
        {
            (name, learner, kind): sweep(options, source, learner, kind)
            for name, source in sources.items()
            for learner in LEARNERS
            for kind in (FIXED, HEAVY)
        }
    )
    joint = joint_records(results, ("dataset", "learner", "kind"))
    write(
        options,
        table=table(sources, joint),
        figure=draw(options, sources, joint),
        records=joint,
        checksums=protocol.checksums(sources),
    )


def make(point, data, *, learner: str, task: protocol.Task, most: int):
    """Returns a learner, and nature with the point's fixed `delay` or `exponent` of the tail."""
    made, environment = protocol.LEARNERS[learner](point, data, task=task)
    if "delay" in point:
        late = delays.fixed(point["delay"], max_rounds=most)
    else:
        late = delays.heavy_tailed(point["exponent"], max_rounds=most)
    return made, environment._replace(delay=late)


def sweep(options: Options, source: protocol.Source, learner: str, kind: str):
    """Returns a function that plays a learner under all delays of a kind on one device."""
    if kind == FIXED:
        axis, most = {"delay": np.asarray(options.delays)}, max(options.delays)
    else:
        axis, most = {"exponent": options.exponents}, options.longest
    grid = jonline.product_grid(**source.task.point | axis)
    return protocol.play(options, source, make, grid, learner=learner, most=most)


def table(sources: dict[str, protocol.Source], joint: xr.Dataset) -> list[dict[str, Any]]:
    """Returns a row for each point: mean loss over all rounds and in the last window."""
    rows = []
    for i in range(joint.sizes["point"]):
        one = joint.isel(point=i)
        fixed = one["kind"].item() == FIXED
        rows.append(
            {
                "dataset": sources[one["dataset"].item()].title,
                "learner": one["learner"].item(),
                "delays": one["kind"].item(),
                "delay": int(one["delay"]) if fixed else "",
                "exponent": "" if fixed else round(float(one["exponent"]), 6),
            }
            | bounds("mean_loss", mean_interval(mean_curve(one, "loss")[:, -1]))
            | {
                "last_window": one["loss"].values[:, -1].mean() / joint.attrs["record_every"],
                "undelivered": one["undelivered"].values.mean(),
            }
        )
    return rows


def draw(options: Options, sources: dict[str, protocol.Source], joint: xr.Dataset):
    """Returns the figure: error over the fixed delay, and over the exponent of the tail."""
    num = len(sources)
    figure, axes = new_figure(nrows=2, ncols=num, figsize=(5 * num, 7), squeeze=False)
    for column, (name, source) in zip(axes.T, sources.items(), strict=True):
        for panel, kind, axis in zip(column, (FIXED, HEAVY), ("delay", "exponent"), strict=True):
            for learner, colour in zip(LEARNERS, COLOURS, strict=False):
                one = select(joint, dataset=name, learner=learner, kind=kind)
                loss = mean_interval(mean_curve(one, "loss")[..., -1])
                sizes = one[axis].values
                panel.errorbar(
                    sizes,
                    loss.mean,
                    loss.high - loss.mean,
                    fmt=LINES[learner],
                    color=colour,
                    markersize=4,
                    label=learner,
                )
        fixed, heavy = column
        fixed.set_title(source.title)
        fixed.set_xscale("symlog", linthresh=1)
        fixed.set_xlabel("fixed delay D in rounds")
        heavy.set_xlabel(f"exponent of heavy-tailed delays, cut at {options.longest:,}")
    for panel in axes[:, 0]:
        panel.set_ylabel("mean absolute error")
    axes[0, 0].legend(frameon=False)
    figure.suptitle(f"{options.rounds:,} rounds, {options.seeds} seeds, 95 % intervals")
    return figure
