"""Which digit is it? OSP beside Gaptron and Gappletron, told only right or wrong (Figure 1).

One pass over the 60 000 images of MNIST in an order drawn for each run, pixels in [0, 1]. All
methods hear one bit, and step by the same adaptive gradient descent with B = 10, no projection; a
further one, OSP that hears the labels, shows what the bit costs.

Each is played at the exploration of its theory, at that of the same formula with B = Cx = 1, and at
every rate of `--explore`, of which the figure has the best. Gaptron's own grows with the longest
image, and is above 1: played as 1, which is uniformly. A smoke run plays scikit-learn's digits.

Source: arXiv:2502.18709, appendix H.1.1. Differs: the paper does not say which rates it took.
"""

import dataclasses
from pathlib import Path
from typing import Literal

import numpy as np
import xarray as xr

from experiments.ordinal import protocol as _protocol
from experiments.shared import sweeps as _common
from experiments.structured import figures as _structured_figures
from experiments.structured import protocol as _structured
from jonline import checks, data, streams, structured
from jonline.data import packaged as _packaged

LEARNERS = (
    "OSP, inverse-weighted",
    "Gaptron, logistic",
    "Gappletron, logistic",
    "Gappletron, hinge",
    "OSP, labels",
)
Learner = Literal[(*_structured.BANDITS, _structured.LABELS)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(_common.Options):
    """Options of the comparison on MNIST."""

    seeds: int = 20
    """Independent runs of every point, >= 1."""
    rounds: int = 60_000
    """Rounds of every run, a multiple of `windows`."""
    data: Path | None = None
    """Folder with the data files. Default: $JONLINE_DATA, else the cache, else a download; a smoke
    run takes scikit-learn's digits instead."""
    learners: tuple[Learner, ...] = LEARNERS
    """Methods to play."""
    diameter: float = 10.0
    """B > 0, of the step sizes and the theory's exploration."""
    explore: tuple[float, ...] = (0.1,)
    """Further rates of exploration for every method, each in (0, 1]."""
    unit_norm: bool = False
    """Divide every image by its Euclidean norm."""

    def __post_init__(self):
        super().__post_init__()
        checks.positive("--diameter", self.diameter)
        for explore in self.explore:
            checks.require(0 < explore <= 1, "--explore", "be in (0, 1]", explore)


def main(options: Options) -> None:
    """Plays all methods; writes records, table, summary and figure."""
    options = options.capped()
    images = load(options)
    space = structured.multiclass(images.num_classes)
    radius = float(np.sqrt(np.max(np.sum(np.square(images.x), axis=1))))
    table = dataclasses.replace(images, y=space.encode(images.y), num_classes=None)
    played = {
        (name,): _structured.rates(
            name,
            space,
            diameter=options.diameter,
            radius=radius,
            num_rounds=options.rounds,
            grid=options.explore,
        )
        for name in options.learners
    }
    results = _protocol.play_all(
        {
            key: _structured.sweep(
                options,
                key[0],
                space,
                {"explore": [rate.explore for rate in rates]},
                table,
                num_features=table.x.shape[1],
                diameter=options.diameter,
                stream=one_pass,
            )
            for key, rates in played.items()
        }
    )
    joint = _structured.records(results, played, ("learner",)).assign_attrs(
        dataset=images.name, radius=radius
    )
    rows = _structured.table(joint, ("learner",))
    folder = _common.write(
        options,
        table=rows,
        figure=draw(options, joint),
        records=joint,
        checksums={images.name: images.provenance.sha256},
    )
    _common.dump(folder / "summary.json", rows)


def one_pass(point, table):
    """Returns the rows in an order drawn for the run."""
    del point
    return streams.one_pass(table)


def load(options: Options) -> data.Dataset:
    """Returns MNIST; a smoke run without `--data` gets scikit-learn's digits."""
    if options.smoke and options.data is None:
        return _packaged.digits()
    scale = _unit if options.unit_norm else None
    return data.load("mnist", options.data, scale=scale)


def _unit(x):
    return data.unit_rows(x)


def draw(options: Options, joint: xr.Dataset):
    """Returns the figure: box plots of the error rates, and error rates over the rounds."""
    figure, (left, right) = _common.new_figure(ncols=2, figsize=(12, 4.8))
    rounds, colours = joint["round"].values, _structured_figures.colours(options.learners)
    styles = {_structured.NO_RATE: "-"}
    styles |= {rule: line for rule, (line, _) in _structured_figures.STYLES.items()}
    boxes, labels = [], []
    for name, colour in colours.items():
        for rule, style in styles.items():
            one = _structured.select(joint, learner=name, rule=rule)
            if not one.sizes["point"]:
                continue
            errors = one["zero_one"].values[0].cumsum(axis=-1, dtype=np.float64) / rounds
            explore = one["explore"].values[0]
            boxes.append((errors[:, -1], colour, style))
            what = "" if rule == _structured.NO_RATE else f"\n{rule}: {explore:.3g}"
            labels.append(name + what)
            label = name if style == "-" else None
            _common.plot_curve(right, rounds, errors, colour=colour, label=label, linestyle=style)
    drawn = left.boxplot([box[0] for box in boxes], orientation="horizontal", widths=0.6)
    for i, (_, colour, style) in enumerate(boxes):
        for part in (drawn["boxes"][i], drawn["medians"][i]):
            part.set(color=colour, linestyle=style)
    left.set_yticks(range(1, len(labels) + 1), labels, fontsize=8)
    left.invert_yaxis()
    left.grid(axis="x", color="0.9")
    left.set(xlabel=f"error rate after {options.rounds:,} rounds", xlim=(0, 1))
    left.set_title(f"{options.seeds} seeds", fontsize=10)
    right.set(xscale="log", xlabel="round", ylabel="error rate so far", ylim=(0, 1))
    right.set_title("solid: theory; dashed: B = Cx = 1; dotted: best of grid", fontsize=10)
    right.legend(frameon=False, fontsize=8)
    figure.suptitle(f"{joint.attrs['dataset']}, told only right or wrong (grey: told the label)")
    return figure
