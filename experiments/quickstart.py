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

A third panel has classes without order: which of ten digits is it, by OSP that is told the digit,
and by OSP that is told only right or wrong. A fourth has tumours, malignant or not, by DSAL, which
may reject and asks for the labels it wants, and by DSOL, which is told every label. Both data sets
come inside scikit-learn.
"""

import dataclasses
from functools import partial
from pathlib import Path

import jax
import numpy as np

import jonline
from experiments.ordinal import protocol as _protocol
from experiments.reject import protocol as _reject
from experiments.shared import sweeps as _common
from experiments.structured import protocol as _structured
from jonline import checks, hypotheses, metrics, oracles, ordinal, streams, structured
from jonline.data import packaged as _packaged

DIGITS = {  # methods on the digits, and what they hear
    _structured.INVERSE_WEIGHTED: "right or wrong",
    _structured.LABELS: "the digit",
}
REJECT = {"step_size": 0.1, "slope": 1.0}  # of DSAL and DSOL on the tumours


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
    diameter: float = 10.0
    """B > 0 of OSP: of its step sizes, and of its exploration B sqrt(K / T)."""
    cost: float = 0.1
    """d of DSAL and DSOL, cost of a rejection, in (0, 0.5); a wrong label costs 1."""

    def __post_init__(self):
        super().__post_init__()
        for reg in self.reg:
            checks.positive("--reg", reg)
        for explore in self.explore:
            checks.probability("--explore", explore)
        checks.require(self.clip > 0, "--clip", "be > 0", self.clip)
        checks.positive("--diameter", self.diameter)
        checks.require(0 < self.cost < 0.5, "--cost", "be in (0, 0.5)", self.cost)


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
    """Plays the sweeps; writes records, table and figure."""
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
    images = _packaged.digits()
    digits = play_digits(options, images)
    tumours = _packaged.breast_cancer()
    rejecting = play_tumours(options, tumours)
    rows = table(results)
    folder = _common.write(
        options,
        table=rows,
        shown=[row for row in rows if row["reg"] == rows[0]["reg"]],
        figure=draw(options, (results, data), (digits, images), (rejecting, tumours)),
        records=_common.records(results),
        checksums={one.name: one.provenance.sha256 for one in (data, images, tumours)},
    )
    for name, played in (("digits", digits), ("tumours", rejecting)):
        to_netcdf = partial(_common.records(played).to_netcdf, engine="h5netcdf")
        _common.save(folder / f"{name}.nc", to_netcdf)
    print(f"shown: reg = {rows[0]['reg']}; table.csv has every value of reg")
    print(
        "hearing less can win here: no threshold model fits these ratings, and PRank, which hears "
        "every label, moves its model most often (more in --help)"
    )


def play_digits(options: Options, images) -> dict[str, jonline.SweepResult]:
    """Returns what OSP made of the digits, by method."""
    space = structured.multiclass(images.num_classes)
    vertices = dataclasses.replace(images, y=space.encode(images.y), num_classes=None)
    played = {}
    for name in DIGITS:
        rate = _structured.rates(
            name, space, diameter=options.diameter, radius=1.0, num_rounds=options.rounds
        )[0]
        played[name] = _structured.sweep(
            options,
            name,
            space,
            {"explore": rate.explore},
            vertices,
            num_features=images.x.shape[1],
            diameter=options.diameter,
            stream=lambda point, table: streams.resample(table),
        )
    return _protocol.play_all(played)


def play_tumours(options: Options, tumours) -> dict[str, jonline.SweepResult]:
    """Returns what DSAL and DSOL made of the tumours."""
    point = jonline.product_grid(cost=options.cost, **REJECT)
    return _protocol.play_all(
        {
            name: _reject.sweep(
                options,
                partial(_reject.make, name=name, num_rounds=options.rounds),
                point,
                tumours,
                seeds=options.seeds,
            )
            for name in (_reject.DSAL, _reject.DSOL)
        }
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


def draw(options: Options, ratings, of_digits, of_tumours):
    """Returns the figure: the ratings over the rounds and over `explore`; digits; tumours.

    Each of the three is what was played, and its data.
    """
    (results, data), (digits, images), (rejecting, tumours) = ratings, of_digits, of_tumours
    figure, panels = _common.new_figure(nrows=2, ncols=2, figsize=(11, 8.6))
    left, right, last, fourth = panels.flat
    right.sharey(left)
    right.tick_params(labelleft=False)
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
    for (name, heard), colour in zip(DIGITS.items(), _common.COLOURS, strict=False):
        errors = digits[name].mean_curve("zero_one")[0]
        _common.plot_curve(last, rounds, errors, colour=colour, label=f"OSP: hears {heard}")
    draw_tumours(fourth, rounds, rejecting, options.cost)
    left.set(
        xscale="log",
        xlabel="round",
        ylabel="mean absolute error so far",
        title=f"Learning curves, {options.seeds} seeds, 95 % intervals",
    )
    right.set(xlabel="explore", title=f"After {options.rounds:,} rounds")
    last.set(
        xscale="log",
        ylim=(0, 1),
        xlabel="round",
        ylabel="error rate so far",
        title=f"OSP: which of ten digits is it? {len(images.y)} images",
    )
    fourth.set_title(f"Malignant, benign, or rejected? {len(tumours.y)} tumours")
    for panel in panels.flat:
        panel.legend(frameon=False, fontsize=8)
    figure.suptitle(
        f"Above, lecturer ratings ({data.name}): {len(labels)} rows, K = {data.num_classes}"
    )
    return figure


def draw_tumours(panel, rounds, rejecting: dict[str, jonline.SweepResult], cost: float) -> None:
    """Draws the risks of DSAL and DSOL, and how many labels DSAL asked for."""
    for (name, result), colour in zip(rejecting.items(), _common.COLOURS, strict=False):
        asked, wrong, rejected = (
            result.mean_curve(of)[0] for of in ("asked", "misclassified", "rejected")
        )
        rule = "asks for what it wants" if name == _reject.DSAL else "hears every label"
        label = f"{name}: {rule}; risk"
        _common.plot_curve(panel, rounds, wrong + cost * rejected, colour=colour, label=label)
        if name == _reject.DSAL:
            label = f"{name}: fraction of labels asked for"
            _common.plot_curve(panel, rounds, asked, colour=colour, label=label, linestyle="--")
    panel.set(xscale="log", yscale="log", xlabel="round", ylabel="average so far")
