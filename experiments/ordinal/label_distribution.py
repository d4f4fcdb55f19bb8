"""How DFORD explores: the label it draws around the greedy one (Figure 1).

With K = 7 labels and explore = 0.7, for the greedy labels 5 and 2. A formula, no run: `--seeds`,
`--rounds`, `--windows`, `--key` and `--data` change nothing.

Source: arXiv:2512.19550, eq. (7) and figure 1.
"""

import dataclasses
from pathlib import Path

import numpy as np
import xarray as xr

from experiments.shared.figures import COLOURS, new_figure
from experiments.shared.options import SharedOptions, at_least, within
from experiments.shared.outputs import write
from jonline import checks, ordinal


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(SharedOptions):
    """Options of the figure."""

    data: Path | None = None
    """Changes nothing here: a formula needs no data."""
    num_classes: int = 7
    """Number of labels K, >= 2."""
    explore: float = 0.7
    """Weight of the exploring part, in [0, 1]."""
    greedy: tuple[int, ...] = (5, 2)
    """Greedy labels, each in 1…K: one panel each."""

    def __post_init__(self):
        super().__post_init__()
        self.check(at_least(2), "num_classes")
        self.check(checks.probability, "explore")
        self.check(within(f"1…{self.num_classes}", lambda k: 1 <= k <= self.num_classes), "greedy")


def main(options: Options) -> None:
    """Writes the probabilities and their bars."""
    labels = np.arange(1, options.num_classes + 1)
    setting = options.num_classes, options.explore
    probs = np.stack([ordinal.label_distribution(greedy, *setting) for greedy in options.greedy])
    write(
        options,
        table=[
            {"greedy": greedy, **{f"P({i})": float(p) for i, p in zip(labels, row, strict=True)}}
            for greedy, row in zip(options.greedy, probs, strict=True)
        ],
        figure=draw(options, labels, probs),
        records=xr.Dataset(
            {"probability": (("point", "label"), probs)},
            {"greedy": ("point", np.asarray(options.greedy)), "label": labels},
        ),
    )


def draw(options: Options, labels: np.ndarray, probs: np.ndarray):
    """Returns the figure: a panel of bars for each greedy label."""
    num = len(options.greedy)
    figure, axes = new_figure(ncols=num, figsize=(4 * num, 3.4), sharey=True, squeeze=False)
    for panel, greedy, row in zip(axes[0], options.greedy, probs, strict=True):
        colours = [COLOURS[int(label == greedy)] for label in labels]
        bars = panel.bar(labels, row, color=colours)
        panel.bar_label(bars, [f"{p:.3f}" for p in row], padding=2, fontsize=8)
        panel.set(title=f"greedy label {greedy}", xlabel="drawn label", xticks=labels)
    axes[0, 0].set_ylabel("probability")
    axes[0, 0].margins(y=0.12)
    figure.suptitle(f"K = {options.num_classes}, explore = {options.explore:g}")
    return figure
