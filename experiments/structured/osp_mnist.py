"""Which digit is it? OSP beside Gaptron and Gappletron, told only right or wrong (Figure 1).

One pass over the 60 000 images of MNIST in an order drawn for each run, pixels in [0, 1]. All
methods observe one bit, and step by the same adaptive gradient descent with B = 10, no projection;
a further one, OSP that observes the labels, shows what the bit costs.

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

from experiments.shared.figures import new_figure, plot_curve
from experiments.shared.records import select
from experiments.structured import figures, methods, protocol
from jonline import data, structured
from jonline.data import packaged

LEARNERS = (
    "OSP, inverse-weighted",
    "Gaptron, logistic",
    "Gappletron, logistic",
    "Gappletron, hinge",
    "OSP, labels",
)
Learner = Literal[(*methods.BANDITS, methods.LABELS)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(protocol.MethodOptions):
    """Options of the comparison on MNIST."""

    seeds: int = 20
    """Independent runs of every point, >= 1."""
    rounds: int = 60_000
    """Rounds of every run, a multiple of `windows`."""
    windows: int = 50
    """Points of every curve: sums are kept over this many equal parts of a run."""
    data: Path | None = None
    """Folder with the data files. Default: $JONLINE_DATA, else the cache, else a download; a smoke
    run takes scikit-learn's digits instead."""
    learners: tuple[Learner, ...] = LEARNERS
    """Methods to play."""
    unit_norm: bool = False
    """Divide every image by its Euclidean norm."""


def main(options: Options) -> None:
    """Plays all methods; writes records, table, summary and figure."""
    options = options.capped()
    images = load(options)
    space = structured.multiclass(images.num_classes)
    table = dataclasses.replace(images, y=space.encode(images.y), num_classes=None)
    num_features, radius = images.x.shape[1], protocol.longest(images.x)
    setting = protocol.Setting(space, num_features, protocol.one_pass, radius, table)
    joint = protocol.compare(options, {(): setting}, ()).assign_attrs(
        dataset=images.name, radius=radius
    )
    sha256 = {images.name: images.provenance.sha256}
    figure = draw(options, joint)
    protocol.report(options, joint, (), figure, sha256, shown=lambda row: True, note="")


def load(options: Options) -> data.Dataset:
    """Returns MNIST; a smoke run without `--data` gets scikit-learn's digits."""
    if options.smoke and options.data is None:
        return packaged.digits()
    scale = data.unit_rows if options.unit_norm else None
    return data.load("mnist", options.data, scale=scale)


def draw(options: Options, joint: xr.Dataset):
    """Returns the figure: box plots of the error rates, and error rates over the rounds."""
    figure, (left, right) = new_figure(ncols=2, figsize=(12, 4.8))
    rounds, colours = joint["round"].values, figures.colours(options.learners)
    styles = {methods.NO_RATE: "-"}
    styles |= {rule: line for rule, (line, _) in figures.STYLES.items()}
    boxes, labels = [], []
    for name, colour in colours.items():
        for rule, style in styles.items():
            one = select(joint, learner=name, rule=rule)
            if not one.sizes["point"]:
                continue
            errors = one["zero_one"].values[0].cumsum(axis=-1, dtype=np.float64) / rounds
            explore = one["explore"].values[0]
            boxes.append((errors[:, -1], colour, style))
            what = "" if rule == methods.NO_RATE else f"\n{rule}: {explore:.3g}"
            labels.append(name + what)
            label = name if style == "-" else None
            plot_curve(right, rounds, errors, colour=colour, label=label, linestyle=style)
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
