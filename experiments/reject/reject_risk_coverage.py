"""Errors against coverage, and risk against labels asked for, by other rules of asking.

Left, a larger cost of rejection d accepts more and errs more: each learner's wrong labels among
those it predicted over the share of rounds in which it predicted one, d from 0.05 to 0.45.
`reject_active` has the paper's three d over the rounds.

Beside it, at one d, learners that choose their labels against the same learners with labels asked
for otherwise: at random with the same rate or another, in every round, and by their own rule with a
budget. A budget of p allows a fraction p of the rounds so far to be asked.

Step sizes and slopes are chosen on other seeds as in `reject_active`, for each d or rate.

Source: beyond arXiv:1906.06166, whose learners these are.
"""

import dataclasses
from functools import partial

import numpy as np
import xarray as xr

from experiments.reject import protocol
from experiments.reject.protocol import DRAL, DSAL, DSOL, EXACT
from experiments.shared.figures import COLOURS, new_figure
from experiments.shared.options import is_cost, positive_rate
from experiments.shared.outputs import write
from experiments.shared.records import joint_records, mean_interval, select
from experiments.shared.sweeps import play_all
from jonline import reject

COVERAGE, LABELS = "coverage", "labels"  # the two parts
OWN, RANDOM, SAME, BUDGET = "own rule", "at random", "at random, own rate", "own rule, budget"
ALWAYS = "every round"
STYLES = {DRAL: ("-", 0), EXACT: ("--", 0), DSAL: ("-", 1), DSOL: ("-", 2)}
NAMES = ("part", "learner", "rule", "cost", "rate", "step_size", "slope")
RULES = (OWN, SAME, RANDOM, BUDGET, ALWAYS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(protocol.TunedOptions):
    """Options of the comparison."""

    seeds: int = 50
    """Independent runs of every point, >= 1."""
    windows: int = 10
    """Points of every curve: sums are kept over this many equal parts of a run."""
    dataset: protocol.Name = "phishing"
    """Data set to play."""
    scaling: protocol.Scaling = "default"
    """Scaling of the features."""
    askers: tuple[protocol.Learner, ...] = (EXACT, DSAL)
    """Learners whose rules of asking are compared, a panel each."""
    cost: tuple[float, ...] = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
    """d of the left panel, each in (0, 0.5)."""
    cost_of_labels: float = 0.25
    """d of the other panels, in (0, 0.5)."""
    rate: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
    """Rates of asking at random, and budgets, each in (0, 1]."""
    tuning_seeds: int = 10
    """Seeds of the choice, others than those of the result."""
    slack: float = 0.0
    """How far above the least risk a point may be to be chosen for asking less, >= 0."""

    def __post_init__(self):
        super().__post_init__()
        self.check(is_cost, "cost", "cost_of_labels")
        self.check(positive_rate, "rate")


def asking(learner, point, *, rule: str):
    """Returns the learner with another rule of asking; the point has its `rate`."""
    if rule == ALWAYS:
        return reject.always(learner)
    if rule == BUDGET:
        return reject.budget(learner, fraction=point["rate"])
    return reject.at_random(learner, point["rate"]) if rule in (RANDOM, SAME) else learner


def make(options: Options, learner: str, rule: str):
    """Returns the maker of a learner with a rule of asking, for `jonline.sweep`."""
    rules = partial(asking, rule=rule)
    return partial(protocol.make, name=learner, num_rounds=options.rounds, asking=rules)


def main(options: Options) -> None:
    """Plays both parts; writes records, table and figure."""
    options = options.capped()
    source = protocol.load(options, options.dataset, options.scaling)
    makes, points = {}, {}
    for learner in options.learners:
        key = (COVERAGE, learner, OWN)
        makes[key] = make(options, learner, OWN)
        points[key] = options.grid(learner, cost=options.cost)
    for learner in options.askers:
        for rule in (OWN, RANDOM, BUDGET, ALWAYS):
            key = (LABELS, learner, rule)
            makes[key] = make(options, learner, rule)
            rate = options.rate if rule in (RANDOM, BUDGET) else 1.0
            points[key] = options.grid(learner, cost=options.cost_of_labels, rate=rate)
    results = {}
    for part, by in ((COVERAGE, ("cost",)), (LABELS, ("rate",))):
        mine = [key for key in makes if key[0] == part]
        chosen = [{key: of[key] for key in mine} for of in (makes, points)]
        results |= protocol.tuned(options, *chosen, dict.fromkeys(mine, source.table), by=by)[0]
    results |= same_rate(options, source, results)
    joint = joint_records(results, ("part", "learner", "rule"))
    write(
        options,
        table=protocol.table(joint, NAMES),
        figure=draw(options, source, joint),
        records=joint,
        checksums={source.title: source.table.provenance.sha256},
    )


def same_rate(options: Options, source: protocol.Source, results: dict) -> dict:
    """Returns the learners asked at random as often as they asked by themselves, at their points.

    Each seed has the mean rate of all.
    """
    sweeps = {}
    for learner in options.askers:
        own = results[LABELS, learner, OWN]
        rate = protocol.mean(own, "asked").mean(axis=-1)
        sweeps[LABELS, learner, SAME] = protocol.play(
            options, make(options, learner, SAME), own.grid | {"rate": rate}, source.table
        )
    return play_all(sweeps)


def draw(options: Options, source: protocol.Source, joint: xr.Dataset):
    """Returns the figure: error over coverage on the left, risk over labels on the right."""
    figure, (left, *right) = new_figure(
        ncols=1 + len(options.askers), figsize=(4.9 * (1 + len(options.askers)), 4.8)
    )
    for learner in options.learners:
        line, colour = STYLES[learner]
        one = select(joint, part=COVERAGE, learner=learner).sortby("cost")
        accepted = 1 - protocol.curve(one, "rejected")[..., -1].mean(axis=-1)
        wrong = protocol.curve(one, "misclassified")[..., -1].mean(axis=-1)
        kept = accepted > 0
        left.plot(
            accepted[kept],
            wrong[kept] / accepted[kept],
            color=COLOURS[colour],
            linestyle=line,
            marker="o",
            markersize=3,
            label=learner,
        )
    left.set(
        xlabel="coverage: share of rounds with a predicted label",
        ylabel="wrong among the predicted labels",
        title=f"d = {min(options.cost):g} to {max(options.cost):g}",
    )
    left.legend(frameon=False, fontsize=8)
    for panel, learner in zip(right, options.askers, strict=True):
        for rule, marker, colour in zip(RULES, "o^.sD", COLOURS, strict=False):
            one = select(joint, part=LABELS, learner=learner, rule=rule)
            asked = protocol.curve(one, "asked")[..., -1].mean(axis=-1)
            risk = mean_interval(protocol.curve(one, "risk")[..., -1])
            order = np.argsort(asked)
            panel.errorbar(
                asked[order],
                risk.mean[order],
                yerr=(risk.high - risk.mean)[order],
                color=colour,
                marker=marker,
                markersize=6,
                linestyle="-" if len(order) > 1 else "none",
                label=rule,
            )
        panel.set(
            xscale="log",
            xlabel="fraction of labels asked for",
            title=f"{learner}, d = {options.cost_of_labels:g}",
        )
        panel.legend(frameon=False, fontsize=8)
    right[0].set_ylabel("mean risk over the run")
    for panel in right[1:]:
        panel.sharey(right[0])
    figure.suptitle(
        f"{source.title}: {options.rounds:,} rounds, {options.seeds} seeds, 95 % intervals"
    )
    return figure
