"""What exploration gives DFORD in its first 10 000 rounds, beside the paper's numbers (Table 2).

The mean loss after 1 000, …, 10 000 rounds with explore 0, 0.4 and 0.8 on the stand-in for
EachMovie (withdrawn by its owner), California Housing and Parkinson's Telemonitoring. The paper
does not say how features were scaled, nor whether the second target of Telemonitoring,
`motor_UPDRS`, was a feature. Every combination of `--scalings` and `--motor` is a protocol; all are
played, and the nearest to the paper's rows of explore 0.4 and 0.8 is drawn. A smoke run plays one
protocol of the first data set; without `--data` it makes up a table.

Explore 0 starts from a random state: from zeros it names the highest label for ever.

Source: arXiv:2512.19550, tables 1 and 2.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import jax
import numpy as np

import jonline
from experiments import _common
from jonline import data as datasets
from jonline import hypotheses, metrics, oracles, ordinal, streams


def unit(x):
    """Returns standardised features, then rows of norm 1."""
    return datasets.unit_rows(datasets.standardise(x))


SCALINGS: dict[str, Callable] = {
    "standardise": datasets.standardise,
    "min_max": datasets.min_max,
    "unit": unit,
}
EXPLORES = (0.0, 0.4, 0.8)


class Published(NamedTuple):
    """A data set's rows of tables 1 and 2: loss after 1 000, …, 10 000 rounds for each explore."""

    title: str
    reg: float
    clip: float
    loss: tuple[tuple[float, ...], ...]


PUBLISHED = {
    "movielens": Published(
        "EachMovie (here: MovieLens)",
        4.0,
        4.0,
        (
            (2.014, 1.979, 1.995, 1.992, 1.976, 1.976, 1.977, 1.987, 1.982, 1.994),
            (1.877, 1.873, 1.852, 1.864, 1.851, 1.842, 1.84, 1.843, 1.839, 1.839),
            (1.805, 1.843, 1.819, 1.82, 1.819, 1.805, 1.805, 1.802, 1.795, 1.796),
        ),
    ),
    "california": Published(
        "California Housing",
        16.0,
        10.0,
        (
            (3.247, 3.437, 3.493, 3.506, 3.525, 3.537, 3.543, 3.552, 3.549, 3.561),
            (1.729, 1.642, 1.624, 1.614, 1.605, 1.604, 1.596, 1.583, 1.585, 1.577),
            (1.713, 1.634, 1.627, 1.616, 1.611, 1.612, 1.604, 1.593, 1.597, 1.59),
        ),
    ),
    "telemonitoring": Published(
        "Telemonitoring",
        32.0,
        13.0,
        (
            (2.151, 2.45, 2.576, 2.649, 2.685, 2.722, 2.747, 2.78, 2.801, 2.808),
            (1.101, 0.959, 0.911, 0.884, 0.881, 0.885, 0.885, 0.881, 0.878, 0.882),
            (1.167, 1.047, 0.992, 0.955, 0.948, 0.95, 0.945, 0.934, 0.928, 0.931),
        ),
    ),
}
EVERY = 1_000  # rounds between two published numbers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(_common.Options):
    """Options of the table."""

    windows: int = 10
    """Points of every curve: sums are kept over this many equal parts of a run."""
    datasets: tuple[Literal["movielens", "california", "telemonitoring"], ...] = tuple(PUBLISHED)
    """Data sets to play."""
    scalings: tuple[Literal["standardise", "min_max", "unit"], ...] = tuple(SCALINGS)
    """Scalings of the features to try. `unit`: standardised, then rows of norm 1."""
    motor: tuple[Literal["dropped", "kept"], ...] = ("dropped", "kept")
    """Whether `motor_UPDRS` stays among Telemonitoring's features."""


class Played(NamedTuple):
    """One protocol of one data set: mean loss (explores, seeds, windows), and its two sweeps."""

    name: str
    protocol: str
    loss: np.ndarray
    sweeps: dict[str, jonline.SweepResult]
    sha256: str

    def distance(self, rounds: np.ndarray) -> float:
        """Returns the mean |ours - paper| over the exploring rows at the published rounds."""
        ours, paper = at_published(self.loss.mean(1), rounds), PUBLISHED[self.name].loss
        num = ours.shape[-1]
        return float(np.mean(np.abs(ours[1:] - np.asarray(paper)[1:, :num]))) if num else np.nan


def make(point, data, *, clip: float, init: str):
    """Returns DFORD on rows drawn with replacement."""
    learner = ordinal.dford(
        hypotheses.linear(data.x.shape[1]),
        data.num_classes,
        reg=point["reg"],
        explore=point["explore"],
        clip=clip,
        init=init,
    )
    return learner, jonline.Environment(streams.resample(data), oracles.directional())


def play(options: Options, name: str, protocol: str, data) -> Played:
    """Returns the runs of one protocol."""
    published = PUBLISHED[name]
    sweeps = {}
    for init, explores in (("random", EXPLORES[:1]), ("zeros", EXPLORES[1:])):
        sweeps[f"{name} {protocol} {init}"] = jonline.sweep(
            partial(make, clip=published.clip, init=init),
            metrics.ordinal,
            jonline.product_grid(reg=np.asarray([published.reg]), explore=np.asarray(explores)),
            data=data,
            num_rounds=options.rounds,
            num_seeds=options.seeds,
            key=jax.random.key(options.key),
            record_every=options.record_every,
        )
    loss = np.concatenate([result.mean_curve("loss") for result in sweeps.values()])
    return Played(name, protocol, loss, sweeps, data.provenance.sha256)


def protocols(options: Options, name: str):
    """Yields the name and the data of each protocol of a data set."""
    if options.smoke and options.data is None:
        yield "made up", made_up()
        return
    for scaling in options.scalings:
        scale = SCALINGS[scaling]
        if name != "telemonitoring":
            yield scaling, datasets.load(name, options.data, scale=scale)
            continue
        for motor in options.motor:
            keep = motor == "kept"
            data = datasets.telemonitoring(options.data, keep_motor=keep, scale=scale)
            yield f"{scaling}, motor {motor}", data


def made_up():
    """Returns a small table of no meaning, so that a smoke run needs no file."""
    x = np.random.default_rng(0).standard_normal((500, 8))
    y = datasets.equal_frequency(x.sum(axis=1), 10)
    return datasets.from_arrays(x, y, 10, name="made up")


def main(options: Options) -> None:
    """Plays every protocol; writes records, table and figure."""
    options = options.capped(windows=10)
    if options.smoke:
        options = dataclasses.replace(
            options,
            datasets=options.datasets[:1],
            scalings=options.scalings[:1],
            motor=options.motor[:1],
        )
    rounds = options.record_every * np.arange(1, options.windows + 1)
    played = [
        play(options, name, protocol, data)
        for name in options.datasets
        for protocol, data in protocols(options, name)
    ]
    nearest = {
        name: min((p for p in played if p.name == name), key=lambda p: p.distance(rounds))
        for name in options.datasets
    }
    rows = [row for one in played for row in table(one, rounds)]
    _common.write(
        options,
        table=rows,
        shown=[row for row in rows if row["round"] == rounds[-1]],
        figure=draw(rounds, list(nearest.values())),
        records=_common.records({k: v for one in played for k, v in one.sweeps.items()}),
        checksums={one.name: one.sha256 for one in played},
    )
    for one in nearest.values():
        distance = one.distance(rounds)
        print(f"nearest on {one.name}: {one.protocol} (mean difference {distance:.3f})")


def at_published(curve: np.ndarray, rounds: np.ndarray) -> np.ndarray:
    """Returns the entries of a curve (..., windows) at the published rounds that were played."""
    return curve[..., (rounds % EVERY == 0) & (rounds <= 10 * EVERY)]


def table(one: Played, rounds: np.ndarray) -> list[dict]:
    """Returns a row for each explore and window, with the paper's number where it gives one."""
    ours = _common.mean_interval(one.loss, axis=1)
    rows = []
    for i, explore in enumerate(EXPLORES):
        for j, t in enumerate(rounds):
            row = {
                "dataset": one.name,
                "protocol": one.protocol,
                "explore": explore,
                "round": int(t),
            }
            row |= {"loss": ours.mean[i, j], "low_95": ours.low[i, j], "high_95": ours.high[i, j]}
            paper, difference = "", ""
            if t % EVERY == 0 and t <= 10 * EVERY:
                paper = PUBLISHED[one.name].loss[i][t // EVERY - 1]
                difference = ours.mean[i, j] - paper
            rows.append(row | {"paper": paper, "difference": difference})
    return rows


def draw(rounds: np.ndarray, shown: list[Played]):
    """Returns the figure: a panel for each data set, ours as lines and the paper as marks."""
    num = len(shown)
    figure, axes = _common.new_figure(ncols=num, figsize=(4 * num, 4), squeeze=False)
    for panel, one in zip(axes[0], shown, strict=True):
        published = PUBLISHED[one.name]
        for i, (explore, colour) in enumerate(zip(EXPLORES, _common.COLOURS, strict=False)):
            label = f"explore = {explore:g}"
            _common.plot_curve(panel, rounds, one.loss[i], colour=colour, label=label)
            marks = EVERY * np.arange(1, 11)
            panel.plot(marks, published.loss[i], "o", color=colour, mfc="white", markersize=5)
        panel.plot([], [], "o", color="0.3", mfc="white", label="paper")
        panel.set(title=f"{published.title}\n{one.protocol}", xlabel="round", ylim=(0, None))
    axes[0, 0].set_ylabel("mean absolute error so far")
    axes[0, -1].legend(frameon=False, fontsize=8)
    return figure
