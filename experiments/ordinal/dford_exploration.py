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
from typing import Literal, NamedTuple

import numpy as np

import jonline
from experiments.ordinal import protocol
from experiments.shared.figures import COLOURS, new_figure, plot_curve
from experiments.shared.options import SharedOptions
from experiments.shared.outputs import write
from experiments.shared.records import Interval, bounds, joint_records, mean_interval
from experiments.shared.sweeps import play_all
from jonline import data as datasets

SCALINGS = ("standardise", "min_max", "unit")
EXPLORES = (0.0, 0.4, 0.8)


PUBLISHED = {  # rows of table 2: loss after 1 000, …, 10 000 rounds for each explore
    "movielens": (
        (2.014, 1.979, 1.995, 1.992, 1.976, 1.976, 1.977, 1.987, 1.982, 1.994),
        (1.877, 1.873, 1.852, 1.864, 1.851, 1.842, 1.84, 1.843, 1.839, 1.839),
        (1.805, 1.843, 1.819, 1.82, 1.819, 1.805, 1.805, 1.802, 1.795, 1.796),
    ),
    "california": (
        (3.247, 3.437, 3.493, 3.506, 3.525, 3.537, 3.543, 3.552, 3.549, 3.561),
        (1.729, 1.642, 1.624, 1.614, 1.605, 1.604, 1.596, 1.583, 1.585, 1.577),
        (1.713, 1.634, 1.627, 1.616, 1.611, 1.612, 1.604, 1.593, 1.597, 1.59),
    ),
    "telemonitoring": (
        (2.151, 2.45, 2.576, 2.649, 2.685, 2.722, 2.747, 2.78, 2.801, 2.808),
        (1.101, 0.959, 0.911, 0.884, 0.881, 0.885, 0.885, 0.881, 0.878, 0.882),
        (1.167, 1.047, 0.992, 0.955, 0.948, 0.95, 0.945, 0.934, 0.928, 0.931),
    ),
}
EVERY = 1_000  # rounds between two published numbers
MADE_UP = "made up"  # the protocol of a smoke run without data


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(SharedOptions):
    """Options of the table."""

    windows: int = 10
    """Points of every curve: sums are kept over this many equal parts of a run."""
    datasets: tuple[Literal["movielens", "california", "telemonitoring"], ...] = tuple(PUBLISHED)
    """Data sets to play."""
    scalings: tuple[Literal["standardise", "min_max", "unit"], ...] = SCALINGS
    """Scalings of the features to try. `unit`: standardised, then rows of norm 1."""
    motor: tuple[Literal["dropped", "kept"], ...] = ("dropped", "kept")
    """Whether `motor_UPDRS` stays among Telemonitoring's features."""


class Played(NamedTuple):
    """One protocol of one data set: mean loss (explores, seeds, windows), and its two sweeps."""

    name: str
    title: str
    protocol: str
    loss: np.ndarray
    sweeps: dict[tuple[str, str], jonline.SweepResult]
    sha256: str

    def distance(self, rounds: np.ndarray) -> float:
        """Returns `distance` of its losses."""
        return distance(self.name, self.loss, rounds)


def distance(name: str, loss: np.ndarray, rounds: np.ndarray) -> float:
    """Returns the mean |ours - paper| over the exploring rows at the published rounds.

    NaN if there is none; `loss` is (explores, seeds, windows), `rounds` the ends of the windows.
    """
    ours, paper = at_published(loss.mean(1), rounds), np.asarray(PUBLISHED[name])
    num = ours.shape[-1]
    return float(np.mean(np.abs(ours[1:] - paper[1:, :num]))) if num else np.nan


def protocols(options: Options, name: str):
    """Yields the name and the data of each protocol of a data set."""
    if options.smoke and options.data is None:
        yield MADE_UP, protocol.made_up()
        return
    for scaling in options.scalings:
        scale = protocol.SCALINGS[scaling]
        if name != "telemonitoring":
            yield scaling, datasets.load(name, options.data, scale=scale)
            continue
        for motor in options.motor:
            keep = motor == "kept"
            data = datasets.telemonitoring(options.data, keep_motor=keep, scale=scale)
            yield f"{scaling}, motor {motor}", data


def play(options: Options) -> list[Played]:
    """Returns the runs of all protocols."""
    found = [
        protocol.Source(name, data, reading)
        for name in options.datasets
        for reading, data in protocols(options, name)
    ]
    results = play_all(
        {
            (one.name, f"{one.scaling}, {init} start"): protocol.play(
                options,
                one,
                protocol.make_dford,
                jonline.product_grid(reg=one.task.reg, explore=explores),
                init=init,
            )
            for one in found
            for init, explores in (("random", EXPLORES[:1]), ("zeros", EXPLORES[1:]))
        }
    )
    played = []
    for one in found:
        pairs = [(one.name, f"{one.scaling}, {init} start") for init in ("random", "zeros")]
        mine = {pair: results[pair] for pair in pairs}
        loss = np.concatenate([result.mean_curve("loss") for result in mine.values()])
        played.append(Played(one.name, one.title, one.scaling, loss, mine, one.content))
    return played


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
    played = play(options)
    nearest = {
        name: min((p for p in played if p.name == name), key=lambda p: p.distance(rounds))
        for name in options.datasets
    }
    rows = [row for one in played for row in table(one, rounds)]
    sweeps = {key: sweep for one in played for key, sweep in one.sweeps.items()}
    write(
        options,
        table=rows,
        shown=[row for row in rows if row["round"] == rounds[-1]],
        figure=draw(rounds, list(nearest.values())),
        records=joint_records(sweeps, ("dataset", "learner")),
        checksums={one.title: one.sha256 for one in played},
    )
    for one in nearest.values():
        distance = one.distance(rounds)
        if np.isfinite(distance):
            print(f"nearest on {one.title}: {one.protocol} (mean difference {distance:.3f})")


def at_published(curve: np.ndarray, rounds: np.ndarray) -> np.ndarray:
    """Returns the entries of a curve (..., windows) at the published rounds that were played."""
    return curve[..., (rounds % EVERY == 0) & (rounds <= 10 * EVERY)]


def table(one: Played, rounds: np.ndarray) -> list[dict]:
    """Returns a row for each explore and window, with the paper's number where it gives one."""
    ours = mean_interval(one.loss, axis=1)
    rows = []
    for i, explore in enumerate(EXPLORES):
        for j, t in enumerate(rounds):
            row = {"dataset": one.title, "protocol": one.protocol, "explore": explore}
            row |= {"round": int(t)} | bounds("loss", Interval(*(end[i, j] for end in ours)))
            paper, difference = "", ""
            if t % EVERY == 0 and t <= 10 * EVERY:
                paper = PUBLISHED[one.name][i][t // EVERY - 1]
                difference = ours.mean[i, j] - paper
            rows.append(row | {"paper": paper, "difference": difference})
    return rows


def draw(rounds: np.ndarray, shown: list[Played]):
    """Returns the figure: a panel for each data set, ours as lines and the paper as marks."""
    num = len(shown)
    figure, axes = new_figure(ncols=num, figsize=(4 * num, 4), squeeze=False)
    for panel, one in zip(axes[0], shown, strict=True):
        published = PUBLISHED[one.name]
        for i, (explore, colour) in enumerate(zip(EXPLORES, COLOURS, strict=False)):
            label = f"explore = {explore:g}"
            plot_curve(panel, rounds, one.loss[i], colour=colour, label=label)
            if one.protocol != MADE_UP:
                marks = EVERY * np.arange(1, 11)
                panel.plot(marks, published[i], "o", color=colour, mfc="white", markersize=5)
        if one.protocol != MADE_UP:
            panel.plot([], [], "o", color="0.3", mfc="white", label="paper")
        panel.set(title=f"{one.title}\n{one.protocol}", xlabel="round", ylim=(0, None))
    axes[0, 0].set_ylabel("mean absolute error so far")
    axes[0, -1].legend(frameon=False, fontsize=8)
    return figure
