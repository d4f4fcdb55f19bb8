"""What late answers cost OSP: regret over the delay and over the rounds (sections 4, 5 and G).

Clusters around the corners of a simplex, 20 features; expected surrogate regret against the best
model of the ball of diameter B. ODAFTRL and BOLD are told the fixed delay D, SOLID only a bound on
the delay; "OGD, late" is plain adaptive gradient descent on gradients as they come. SOLID and OGD
also play delays drawn uniformly from 0…D. From labels (5 classes, B = 60), from one bit (2 classes,
B = 10, inverse-weighted), and from the loss (the same, pseudo-inverse, ODAFTRL and SOLID alone).

With bandit feedback the exploration is the theory's for T rounds, so that shorter runs are runs of
their own. `slopes.csv` has the slopes of ln regret in ln D and ln T, with 95 % intervals over
seeds, beside the exponents of the theorems; a regret below one loss counts as one.

Source: arXiv:2502.18709, sections 4 and 5, appendices E to G; the paper has no such experiment.
"""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr

import jonline
from experiments.shared.figures import COLOURS, new_figure
from experiments.shared.options import SharedOptions, at_least
from experiments.shared.outputs import save, write, write_csv
from experiments.shared.records import bounds, joint_records, mean_interval, select
from experiments.shared.sweeps import on_device, play_all
from experiments.structured import late
from experiments.structured.late import FEEDBACKS, FIXED, LATE, STATIC, VARIABLE, VARIED
from jonline import checks, structured

NAMES = ("feedback", "learner", "kind")
THEOREMS = {  # exponents of D and of T in the O(...), and of D with the terms of lower order
    (late.LABELS, late.ODAFTRL, FIXED): ("4.3", 2 / 3, 1 / 3, 1),
    (late.BIT, late.ODAFTRL, FIXED): ("5.1", 1 / 2, 1 / 2, 1),
    (late.LOSS, late.ODAFTRL, FIXED): ("5.2", 1 / 3, 2 / 3, 1),
    (late.LABELS, late.SOLID, VARIABLE): ("G.2", 1 / 2, 1 / 2, 1),
    (late.BIT, late.SOLID, VARIABLE): ("G.3", 1 / 2, 1 / 2, 1),
    (late.LOSS, late.SOLID, VARIABLE): ("G.4", 1 / 2, 2 / 3, 1),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(SharedOptions):
    """Options of the comparison."""

    rounds: int = 16_000
    """Rounds of the longest runs, a multiple of `windows`."""
    windows: int = 16
    """Points of every curve, a multiple of 8: sums are kept over this many equal parts of a run."""
    data: Path | None = None
    """Changes nothing here: the table is drawn at random."""
    feedback: tuple[Literal["labels", "right or wrong", "loss"], ...] = tuple(FEEDBACKS)
    """What is observed."""
    methods: tuple[Literal["ODAFTRL", "SOLID", "BOLD", "OGD, late"], ...] = late.ALL
    """Methods to play; the loss is observed by ODAFTRL and SOLID alone."""
    delays: tuple[int, ...] = (0, 1, 10, 32, 100, 1000)
    """Delays D in rounds, each >= 0."""
    over_rounds: int = 32
    """The delay at which the regret is drawn over T; one of `delays`."""
    features: int = 20
    """Features of the stream, >= 5."""

    def __post_init__(self):
        super().__post_init__()
        self.check_some("feedback", "methods", "delays")
        self.check(at_least(0), "delays")
        self.check(at_least(5), "features")
        checks.require(len(set(self.delays)) == len(self.delays), "--delays", "differ", self.delays)
        known = self.over_rounds in self.delays
        checks.require(known, "--over-rounds", f"be one of {self.delays}", self.over_rounds)
        if not self.smoke:
            checks.require(self.windows % 8 == 0, "--windows", "be a multiple of 8", self.windows)


def main(options: Options) -> None:
    """Plays all methods under all delays; writes records, table, slopes and figure."""
    options = options.capped(rounds=400, windows=8)
    if options.smoke:
        whole = max(1, options.rounds // 8) * 8
        few = options.delays[:2]
        options = dataclasses.replace(
            options, rounds=whole, windows=8, delays=few, over_rounds=few[-1]
        )
    results, losses = {}, {}
    for feedback in options.feedback:
        task = FEEDBACKS[feedback]
        table = late.planted(task.num_classes, options.features)
        losses[feedback] = late.comparator_losses(feedback, table, options)
        methods = [method for method in task.methods if method in options.methods]
        kinds = [(method, FIXED) for method in methods]
        kinds += [(method, VARIABLE) for method in methods if method in VARIED]
        sweeps = {}
        for method, kind in kinds:
            each = [(D,) for D in options.delays] if method in STATIC else [options.delays]
            for some in each:
                key = (feedback, method, kind, some)
                sweeps[key] = sweep(options, feedback, method, kind, some, table)
        results |= play_all(sweeps)
    joint = records(results, losses)
    rows, slopes = table_of(options, joint), slopes_of(options, joint)
    folder = write(
        options,
        table=rows,
        shown=slopes or rows,
        figure=draw(options, joint),
        records=joint,
        checksums={"planted clusters": "experiments.structured.late.planted"},
    )
    if slopes:
        save(folder / "slopes.csv", partial(write_csv, slopes))


def sweep(options: Options, feedback: str, method: str, kind: str, some: tuple, table: Any):
    """Returns a function that plays a method under some delays on one device."""
    space = structured.multiclass(FEEDBACKS[feedback].num_classes)
    of_method = partial(late.make, feedback=feedback, method=method, kind=kind, most=max(some))

    points = late.grid(feedback, method, some, options.rounds)
    return on_device(options, of_method, structured.losses(space), points, table)


def records(results: dict[tuple, jonline.SweepResult], losses: dict[str, tuple]) -> xr.Dataset:
    """Returns the records with the regret, and what was played as coordinates along `point`."""
    joint = joint_records(results, NAMES)
    regret = [late.regret_of(result, losses[key[0]]) for key, result in results.items()]
    joint["regret"] = (("point", "seed", "round"), np.concatenate(regret))
    gaps = [losses[feedback][1].max() for feedback in joint["feedback"].values]
    return joint.assign_coords(gap=("point", np.array(gaps)))


def at_horizon(joint: xr.Dataset, feedback: str, learner: str, kind: str) -> list[dict[str, Any]]:
    """Returns the regrets at the end of runs of T rounds: dicts of delay, T, formula, regret."""
    here = select(joint, feedback=feedback, learner=learner, kind=kind)
    rounds, found = joint["round"].values, []
    for i in range(here.sizes["point"]):
        one, horizon = here.isel(point=i), int(here["horizon"].values[i])
        ends = [horizon]
        if not FEEDBACKS[feedback].rates:  # every round is the end of a run
            ends = [horizon // part for part in late.HORIZONS]
        for T in ends:
            regret = one["regret"].values[:, np.flatnonzero(rounds == T)[0]]
            row = dict(delay=int(one["delay"]), T=T, formula=float(one["formula"]))
            found.append(row | {"regret": regret})
    return found


def played(joint: xr.Dataset) -> list[tuple[str, str, str]]:
    """Returns (feedback, learner, kind) of all that was played, in order."""
    columns = (joint[name].values for name in NAMES)
    return list(dict.fromkeys(zip(*columns, strict=True)))


def table_of(options: Options, joint: xr.Dataset) -> list[dict[str, Any]]:
    """Returns a row for each method, delay and T: the regret with its interval."""
    rows = []
    for key in played(joint):
        for one in at_horizon(joint, *key):
            row = dict(zip(NAMES, key, strict=True)) | {"delay": one["delay"], "rounds": one["T"]}
            row |= {"explore": min(1.0, one["formula"]), "formula": one["formula"]}
            rows.append(row | bounds("regret", mean_interval(one["regret"])))
    return rows


def slopes_of(options: Options, joint: xr.Dataset) -> list[dict[str, Any]]:
    """Returns a row for each slope: in D over delays from `LATE` on at all rounds, in T at each D.

    Runs whose exploration is capped at 1 are left out.
    """
    rows = []
    for key in played(joint):
        ends = [one for one in at_horizon(joint, *key) if one["formula"] <= 1]
        name, in_delay, in_rounds, most = THEOREMS.get(key, ("", "", "", ""))
        groups = [
            ("D", options.rounds, in_delay, most, "delay",
             [one for one in ends if one["T"] == options.rounds and one["delay"] >= LATE]),
        ]  # fmt: skip
        groups += [
            ("T", D, in_rounds, in_rounds, "T", [one for one in ends if one["delay"] == D])
            for D in options.delays
        ]
        for over, at, rate, formal, size, group in groups:
            if len(group) < 2:
                continue
            regrets = np.stack([one["regret"] for one in group])
            slope = late.slope([one[size] for one in group], regrets)
            rows.append(
                dict(zip(NAMES, key, strict=True))
                | {"over": over, "at": at, "points": len(group)}
                | bounds("slope", slope)
                | {"theorem": name, "rate": rate, "rate_with_lower_order": formal}
            )
    return rows


def draw(options: Options, joint: xr.Dataset):
    """Returns the figure: regret over D above, over T below, a column for each feedback."""
    num = len(options.feedback)
    size = (4.4 * num + 1.5, 7.5)
    figure, axes = new_figure(nrows=2, ncols=num, figsize=size, squeeze=False)
    for column, feedback in zip(axes.T, options.feedback, strict=True):
        column[0].set(xscale="symlog", yscale="log")
        column[1].set(xscale="log", yscale="log")
        for key in [key for key in played(joint) if key[0] == feedback]:
            ends = at_horizon(joint, *key)
            over_delay = [one for one in ends if one["T"] == options.rounds]
            over_rounds = [one for one in ends if one["delay"] == options.over_rounds]
            plot(column[0], key, over_delay, "delay")
            plot(column[1], key, over_rounds, "T")
        ends = [options.rounds // part for part in late.HORIZONS]
        column[1].set_xticks(ends, [f"{T:,}" for T in ends])
        column[1].xaxis.minorticks_off()
        task = FEEDBACKS[feedback]
        column[0].set_title(f"{feedback} (K = {task.num_classes}, B = {task.diameter:g})")
        column[0].set_xlabel(f"delay D, at T = {options.rounds:,} rounds")
        column[1].set_xlabel(f"rounds T, at D = {options.over_rounds}")
    for panel in axes[:, 0]:
        panel.set_ylabel("expected surrogate regret, at least 1")
    shown = axes[0, 0].get_legend_handles_labels()
    figure.legend(*shown, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    seeds = f"{options.seeds} seeds, 95 % intervals; a cross: exploration capped at 1"
    figure.suptitle(seeds, fontsize=10)
    return figure


def plot(panel, key: tuple[str, str, str], ends: list[dict[str, Any]], size: str) -> None:
    """Draws the regrets of a method over a size, with a cross where exploration is capped."""
    _, learner, kind = key
    colour = dict(zip(late.ALL, COLOURS, strict=False))[learner]
    ends = sorted(ends, key=lambda one: one[size])
    sizes = np.array([one[size] for one in ends])
    interval = mean_interval(np.stack([one["regret"] for one in ends]))
    mean, low, high = (np.maximum(end, late.LEAST) for end in interval)
    wide = learner == late.ODAFTRL  # it is often hidden by another
    panel.plot(
        sizes,
        mean,
        color=colour,
        linestyle="-" if kind == FIXED else "--",
        linewidth=4 if wide else 1.5,
        alpha=0.5 if wide else 1,
        marker="o",
        markersize=8 if wide else 4,
        label=f"{learner}, {kind} D",
    )
    panel.fill_between(sizes, low, high, color=colour, alpha=0.15, linewidth=0)
    capped = [one["formula"] > 1 for one in ends]
    panel.plot(sizes[capped], mean[capped], "x", color="0.2", markersize=9)
