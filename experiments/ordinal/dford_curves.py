"""DFORD beside PRank and PRIL on eight data sets, three million rounds (Figure 4).

DFORD hears whether the true label is above the one it drew, PRank the label, PRIL an interval of
one or two neighbours; a fourth learner, not in the figure, is DFORD with the gradient clipping that
the paper prints, which brings every gradient to one norm. Hyperparameters and kernels are those of
the paper's Table 1; data sets and their scaling are those of `dford_grid`. Besides the curves,
`regret.png` has the sum of DFORD's regularised losses, which is its regret, under the bound of the
paper's Theorem 2.

A smoke run plays one data set; without `--data` it makes up a table.

Source: arXiv:2512.19550, section 7.6.
"""

import dataclasses
from functools import partial
from typing import get_args

import numpy as np
import xarray as xr

import jonline
from experiments.ordinal import protocol as _protocol
from experiments.shared import sweeps as _common
from jonline import metrics, ordinal

PRINTED = "DFORD, printed clip"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(_common.Options):
    """Options of the comparison."""

    rounds: int = 3_000_000
    """Rounds of every run, a multiple of `windows`."""
    windows: int = 100
    """Points of every curve: sums are kept over this many equal parts of a run."""
    datasets: tuple[_protocol.Name, ...] = tuple(_protocol.TASKS)
    """Data sets to play."""
    learners: tuple[_protocol.Learner, ...] = get_args(_protocol.Learner)
    """Learners to play."""
    scaling: _protocol.Scaling = "default"
    """Scaling of the features. `unit`: standardised, then rows of norm 1."""


def main(options: Options) -> None:
    """Plays all learners on all data sets; writes records, table and figures."""
    options = options.capped()
    names = options.datasets[:1] if options.smoke else options.datasets
    sources = {name: _protocol.load(options, name, options.scaling) for name in names}
    results = _protocol.play_all(
        {
            (name, learner): _protocol.sweep(
                options,
                partial(_protocol.LEARNERS[learner], task=source.task),
                measure(source),
                source.task.point,
                source.table,
            )
            for name, source in sources.items()
            for learner in options.learners
        }
    )
    joint = records(sources, results)
    folder = _common.write(
        options,
        table=table(sources, results),
        figure=draw(options, sources, results),
        records=joint,
        checksums={source.title: source.content for source in sources.values()},
    )
    if "DFORD" in options.learners:
        regret = draw_regret(sources, joint)
        _common.save_figure(folder / "regret.png", regret)


def measure(source: _protocol.Source):
    """Returns the metrics: those of ordinal regression, and the regularised loss."""
    hypothesis, _ = _protocol.space(source.task, source.table)
    regularised = ordinal.regularised_loss_metric(source.task.reg, hypothesis)

    def both(example, prediction, feedback, state):
        loss = regularised(example, prediction, feedback, state)["regularised_loss"]
        usual = metrics.ordinal(example, prediction, feedback, state)
        return usual | {"regularised_loss": loss}

    return both


def sq_radius(source: _protocol.Source) -> float:
    """Returns R^2, the greatest k(x, x) of a task's examples."""
    longest = 2.0 if source.table is None else np.max(np.sum(source.table.x**2.0, axis=1))
    return float(longest if source.task.degree is None else (1 + longest) ** source.task.degree)


def records(sources: dict, results: dict[tuple[str, str], jonline.SweepResult]) -> xr.Dataset:
    """Returns the records, the final thresholds, and what the bound on the regret needs."""
    joint = _protocol.records(results)
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
        loss = _common.mean_interval(result.mean_curve("loss")[0, :, -1])
        rows.append(
            {
                "dataset": sources[name].title,
                "scaling": sources[name].scaling,
                "learner": learner,
                "mean_loss": loss.mean,
                "low_95": loss.low,
                "high_95": loss.high,
                "played_error": result.mean_curve("output_error")[0, :, -1].mean(),
                "violations": result.mean_curve("violations")[0, :, -1].mean(),
            }
        )
    return rows


def panels(num: int):
    """Returns a figure and its panels, four in a line."""
    columns = min(4, num)
    lines = -(-num // columns)
    size = (3.8 * columns, 3.2 * lines + 0.5)
    figure, axes = _common.new_figure(nrows=lines, ncols=columns, figsize=size, squeeze=False)
    for panel in axes.flat[num:]:
        panel.set_axis_off()
    return figure, axes.flat[:num]


def draw(options: Options, sources: dict, results: dict):
    """Returns the figure: running means of the loss, a panel for each data set.

    It leaves out the clipping as printed, unless there is nothing else: it lies far above the rest.
    """
    shown = [name for name in options.learners if name != PRINTED] or options.learners
    figure, axes = panels(len(sources))
    rounds = options.record_every * np.arange(1, options.windows + 1)
    for panel, (name, source) in zip(axes, sources.items(), strict=True):
        for learner, colour in zip(shown, _common.COLOURS, strict=False):
            loss = results[name, learner].mean_curve("loss")[0]
            _common.plot_curve(panel, rounds, loss, colour=colour, label=learner)
        panel.set(xscale="log", xlabel="round")
        panel.set_title(source.title, fontsize=9)
    axes[0].set_ylabel("mean absolute error so far")
    axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle(f"{options.seeds} seeds, 95 % intervals")
    return figure


def draw_regret(sources: dict, joint: xr.Dataset):
    """Returns the second figure: DFORD's summed regularised losses and the bound on their mean."""
    figure, axes = panels(len(sources))
    rounds = joint["round"].values
    for panel, (name, source) in zip(axes, sources.items(), strict=True):
        run = _protocol.select(joint, name, "DFORD")
        total = run["regularised_loss"].values.astype(np.float64).cumsum(axis=-1)
        bound = ordinal.regret_bound(
            int(run["num_classes"]), float(run["sq_radius"]), rounds, **source.task.point
        )
        _common.plot_curve(panel, rounds, total, colour=_common.COLOURS[0], label="DFORD")
        panel.plot(rounds, bound, color="0.3", linestyle="--", label="bound of Theorem 2")
        panel.set(xscale="log", yscale="log", xlabel="round")
        panel.set_title(source.title, fontsize=9)
    axes[0].set_ylabel("regret: sum of regularised losses")
    axes[0].legend(frameon=False, fontsize=8)
    return figure
