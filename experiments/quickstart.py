"""DFORD, PRank and PRIL on a real data set: many seeds and hyperparameters in one sweep each.

In 1000 evaluations students rated lecturers on four scales; the overall rating, 1 to 5, is learned
one at a time. PRank is told the true rating, PRIL an interval with the true rating in it, and DFORD
only whether the true rating is above the one it named. The data come inside the package skordinal,
so `--data` changes nothing and no network is needed.

DFORD is swept over `reg` x `explore`. From its zero start `reg` only scales the state, so curves
that differ in `reg` alone coincide.

Hearing less can win here. No threshold model fits these ratings, and PRank, which hears every
label, moves its model in half of the rounds; PRIL, and DFORD with explore >= 0.6, do in a fifth.
So PRank's model is shaken most, though its average over the second half of a run is as good as
theirs. With labels that a threshold model fits, on the same features, PRank has the lowest loss.
"""

import dataclasses
from functools import partial
from pathlib import Path

import jax
import numpy as np

import jonline
from experiments import _common, _packaged
from jonline import checks, hypotheses, metrics, oracles, ordinal, streams


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(_common.Options):
    """Options of the sweep."""

    rounds: int = 20_000
    """Rounds of every run, a multiple of `windows`."""
    windows: int = 100
    """Points of every curve: sums are kept over this many equal parts of a run."""
    data: Path | None = None
    """Changes nothing here: the data come inside a package."""
    reg: tuple[float, ...] = (0.5, 1.0, 4.0, 16.0)
    """Regularisations, each > 0."""
    explore: tuple[float, ...] = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
    """Weights of the exploring part of DFORD's draw, each in [0, 1]."""
    clip: float = 10.0
    """Bound on the norm of DFORD's gradients, > 0."""

    def __post_init__(self):
        super().__post_init__()
        for reg in self.reg:
            checks.positive("--reg", reg)
        for explore in self.explore:
            checks.probability("--explore", explore)
        checks.require(self.clip > 0, "--clip", "be > 0", self.clip)


def make_dford(point, data, *, clip: float):
    """Returns DFORD, which hears whether the true label is above the drawn one."""
    learner = ordinal.dford(
        hypotheses.linear(data.x.shape[1]),
        data.num_classes,
        reg=point["reg"],
        explore=point["explore"],
        clip=clip,
    )
    return learner, jonline.Environment(streams.resample(data), oracles.directional())


def make_prank(point, data):
    """Returns PRank, which hears the true label."""
    hypothesis = hypotheses.linear(data.x.shape[1])
    learner = ordinal.prank(hypothesis, data.num_classes, reg=point["reg"])
    return learner, jonline.Environment(streams.resample(data), oracles.label())


def make_pril(point, data):
    """Returns PRIL, which hears an interval of labels."""
    hypothesis = hypotheses.linear(data.x.shape[1])
    learner = ordinal.pril(hypothesis, data.num_classes, reg=point["reg"])
    return learner, jonline.Environment(streams.resample(data), oracles.interval(data.num_classes))


def main(options: Options) -> None:
    """Plays the three sweeps; writes records, table and figure."""
    options = options.capped()
    data = _packaged.lev()
    regs = jonline.product_grid(reg=np.asarray(options.reg))
    sweeps = {
        "DFORD": (
            partial(make_dford, clip=options.clip),
            jonline.product_grid(reg=np.asarray(options.reg), explore=np.asarray(options.explore)),
        ),
        "PRank": (make_prank, regs),
        "PRIL": (make_pril, regs),
    }
    results = {
        name: jonline.sweep(
            make,
            metrics.ordinal,
            grid,
            data=data,
            num_rounds=options.rounds,
            num_seeds=options.seeds,
            key=jax.random.key(options.key),
            record_every=options.record_every,
            progress=True,
        )
        for name, (make, grid) in sweeps.items()
    }
    rows = table(results)
    _common.write(
        options,
        table=rows,
        shown=[row for row in rows if row["reg"] == rows[0]["reg"]],
        figure=draw(options, results, data),
        records=_common.records(results),
        checksums={data.name: data.provenance.sha256},
    )
    print(f"shown: reg = {rows[0]['reg']}; table.csv has every value of reg")
    print(
        "hearing less can win here: no threshold model fits these ratings, and PRank, which hears "
        "every label, moves its model most often (more in --help)"
    )


def table(results) -> list[dict]:
    """Returns a row for each learner and point: mean loss over all rounds, with its interval."""
    rows = []
    for name, result in results.items():
        loss = _common.mean_interval(result.mean_curve("loss")[:, :, -1])
        hits = _common.mean_interval(1 - result.mean_curve("zero_one")[:, :, -1])
        crossed = _common.mean_interval(result.mean_curve("violations")[:, :, -1])
        for i in range(len(loss.mean)):
            point = {axis: f"{values[i]:g}" for axis, values in result.grid.items()}
            rows.append(
                {
                    "learner": name,
                    "reg": point["reg"],
                    "explore": point.get("explore", ""),
                    "mean_loss": loss.mean[i],
                    "low_95": loss.low[i],
                    "high_95": loss.high[i],
                    "played_right": hits.mean[i],
                    "violations": crossed.mean[i],
                }
            )
    return rows


def draw(options: Options, results, data):
    """Returns the figure: curves over the rounds, and the end of each over `explore`."""
    figure, (left, right) = _common.new_figure(ncols=2, figsize=(10.5, 4.4), sharey=True)
    dford = results["DFORD"]
    rounds = dford.record_every * np.arange(1, options.windows + 1)
    loss = {name: result.mean_curve("loss") for name, result in results.items()}

    first = np.flatnonzero(dford.grid["reg"] == dford.grid["reg"][0])
    shown = first[np.linspace(0, len(first) - 1, min(3, len(first))).astype(int)]
    for i, colour in zip(shown, _common.COLOURS[2:], strict=False):
        label = f"DFORD, explore = {dford.grid['explore'][i]:g}: hears higher or not"
        _common.plot_curve(left, rounds, loss["DFORD"][i], colour=colour, label=label)
    hears = {"PRank": "hears the label", "PRIL": "hears an interval"}
    for (name, what), colour in zip(hears.items(), _common.COLOURS, strict=False):
        style = {"colour": colour, "linestyle": "--"}
        _common.plot_curve(left, rounds, loss[name][0], label=f"{name}: {what}", **style)
        mean, low, high = _common.mean_interval(loss[name][0, :, -1])
        right.axhline(mean, color=colour, linestyle="--", label=name)
        right.axhspan(low, high, color=colour, alpha=0.2, linewidth=0)
    labels = np.asarray(data.y)
    constant = min(np.mean(np.abs(labels - k)) for k in range(1, data.num_classes + 1))
    for panel in (left, right):
        panel.axhline(constant, color="0.5", linestyle=":", label="best constant label")

    regs = np.unique(dford.grid["reg"])
    for k, (reg, marker) in enumerate(zip(regs, "osD^v<>ph*", strict=False)):
        points = np.flatnonzero(dford.grid["reg"] == reg)
        end = _common.mean_interval(loss["DFORD"][points, :, -1])
        shift = 0.012 * (k - (len(regs) - 1) / 2)
        right.errorbar(
            dford.grid["explore"][points] + shift,
            end.mean,
            yerr=end.high - end.mean,
            fmt=marker,
            markersize=4,
            color=_common.COLOURS[2 + k % 4],
            label=f"DFORD, reg = {reg:g}",
        )
    left.set(
        xscale="log",
        xlabel="round",
        ylabel="mean absolute error so far",
        title=f"Learning curves, {options.seeds} seeds, 95 % intervals",
    )
    right.set(xlabel="explore", title=f"After {options.rounds:,} rounds")
    for panel in (left, right):
        panel.legend(frameon=False, fontsize=8)
    figure.suptitle(f"Lecturer ratings ({data.name}): {len(labels)} rows, K = {data.num_classes}")
    return figure
