"""DFORD beside PRank and PRIL on eight data sets, three million rounds (Figure 4).

DFORD observes whether the true label is above the one it drew, PRank the label, PRIL an interval of
one or two neighbours; a fourth learner, not in the figure, is DFORD with the gradient clipping that
the paper prints, which brings every gradient to one norm. Hyperparameters and kernels are those of
the paper's Table 1; data sets and their scaling are those of `dford_grid`. Besides the curves,
`regret.png` has the sum of DFORD's regularised losses, which is its regret, under the bound of the
paper's Theorem 2.

A smoke run plays one data set; without `--data` it makes up a table.

Source: arXiv:2512.19550, section 7.6.
"""

import dataclasses
from typing import get_args

import numpy as np
import xarray as xr

import jonline
from experiments.ordinal import protocol
from experiments.shared.figures import COLOURS, plot_curve
from experiments.shared.options import SharedOptions
from experiments.shared.outputs import save_figure, write
from experiments.shared.records import bounds, joint_records, mean_interval
from experiments.shared.sweeps import play_all
from jonline import metrics, ordinal

PRINTED = "DFORD, printed clip"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(SharedOptions):
    """Options of the comparison."""

    rounds: int = 3_000_000
    """Rounds of every run, a multiple of `windows`."""
    windows: int = 100
    """Points of every curve: sums are kept over this many equal parts of a run."""
    datasets: tuple[protocol.Name, ...] = tuple(protocol.TASKS)
    """Data sets to play."""
    learners: tuple[protocol.Learner, ...] = get_args(protocol.Learner)
    """Learners to play."""
    scaling: protocol.Scaling = "default"
    """Scaling of the features. `unit`: standardised, then rows of norm 1."""


def main(options: Options) -> None:
    """Plays all learners on all data sets; writes records, table and figures."""
    options = options.capped()
    sources = protocol.load_all(options, options.datasets, options.scaling)
    results = play_all(
        {
            (name, learner): protocol.play(
                options, source, protocol.LEARNERS[learner], measure=measure(source)
            )
            for name, source in sources.items()
            for learner in options.learners
        }
    )
    joint = records(sources, results)
    folder = write(
        options,
        table=table(sources, results),
        figure=draw(options, sources, results),
        records=joint,
        checksums=protocol.checksums(sources),
    )
    if "DFORD" in options.learners:
        save_figure(folder / "regret.png", draw_regret(sources, joint))


def measure(source: protocol.Source):
    """Returns the metrics: those of ordinal regression, and the regularised loss."""
    hypothesis, _ = protocol.space(source.task, source.table)
    regularised = ordinal.regularised_loss_metric(source.task.reg, hypothesis)

    def both(example, prediction, feedback, state):
        loss = regularised(example, prediction, feedback, state)["regularised_loss"]
        usual = metrics.ordinal(example, prediction, feedback, state)
        return usual | {"regularised_loss": loss}

    return both


def sq_radius(source: protocol.Source) -> float:
    """Returns R^2, the greatest k(x, x) of a task's examples."""
    longest = 2.0 if source.table is None else np.max(np.sum(source.table.x**2.0, axis=1))
    return float(longest if source.task.degree is None else (1 + longest) ** source.task.degree)


def records(sources: dict, results: dict[tuple[str, str], jonline.SweepResult]) -> xr.Dataset:
    """Returns the records, the final thresholds, and what the bound on the regret needs."""
    joint = joint_records(results, ("dataset", "learner"))
    thresholds = [np.asarray(result.states.thresholds)[0] for result in results.values()]
    most = max(one.shape[-1] for one in thresholds)
    padded = [
        np.pad(one, ((0, 0), (0, most - one.shape[-1])), constant_values=np.nan)
        for one in thresholds
    ]
    joint["thresholds"] = (("point", "seed", "threshold"), np.stack(padded))
    return joint.assign_coords(
        title=("point", [sources[name].title for name, _ in results]),
        num_classes=("point", [one.shape[-1] + 1 for one in thresholds]),
        sq_radius=("point", [sq_radius(sources[name]) for name, _ in results]),
    )


def table(sources: dict, results: dict[tuple[str, str], jonline.SweepResult]) -> list[dict]:
    """Returns a row for each data set and learner: means over all rounds, the loss's interval."""
    rows = []
    for (name, learner), result in results.items():
        source, loss = sources[name], mean_interval(protocol.final(result)[0])
        means = {of: protocol.final(result, of)[0].mean() for of in ("output_error", "violations")}
        rows.append(
            {"dataset": source.title, "scaling": source.scaling, "learner": learner}
            | bounds("mean_loss", loss)
            | {"played_error": means["output_error"], "violations": means["violations"]}
        )
    return rows


def draw(options: Options, sources: dict, results: dict):
    """Returns the figure: running means of the loss, a panel for each data set.

    It leaves out the clipping as printed, unless there is nothing else: it lies far above the rest.
    """
    shown = [name for name in options.learners if name != PRINTED] or options.learners
    figure, axes = protocol.panels(len(sources))
    rounds = options.record_every * np.arange(1, options.windows + 1)
    for panel, (name, source) in zip(axes.flat, sources.items(), strict=False):
        for learner, colour in zip(shown, COLOURS, strict=False):
            loss = results[name, learner].mean_curve("loss")[0]
            plot_curve(panel, rounds, loss, colour=colour, label=learner)
        panel.set(xscale="log", xlabel="round")
        panel.set_title(source.title, fontsize=9)
    axes[0, 0].set_ylabel("mean absolute error so far")
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.suptitle(f"{options.seeds} seeds, 95 % intervals")
    return figure


def draw_regret(sources: dict, joint: xr.Dataset):
    """Returns the second figure: DFORD's summed regularised losses and the bound on their mean."""
    figure, axes = protocol.panels(len(sources))
    rounds = joint["round"].values
    for panel, (name, source) in zip(axes.flat, sources.items(), strict=False):
        run = protocol.select(joint, name, "DFORD")
        total = run["regularised_loss"].values.astype(np.float64).cumsum(axis=-1)
        bound = ordinal.regret_bound(
            int(run["num_classes"]), float(run["sq_radius"]), rounds, **source.task.point
        )
        plot_curve(panel, rounds, total, colour=COLOURS[0], label="DFORD")
        panel.plot(rounds, bound, color="0.3", linestyle="--", label="bound of Theorem 2")
        panel.set(xscale="log", yscale="log", xlabel="round")
        panel.set_title(source.title, fontsize=9)
    axes[0, 0].set_ylabel("regret: sum of regularised losses")
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure
