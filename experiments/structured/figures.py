"""What the figures of arXiv:2502.18709's experiments share: colours, lines, legend."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from experiments.shared.figures import COLOURS
from experiments.shared.records import select
from experiments.structured import methods, protocol

STYLES = {  # line and marker of a rule that is shown
    methods.THEORY: ("-", "o"),
    methods.UNIT_THEORY: ("--", "s"),
    methods.BEST: (":", "^"),
}


def colours(learners: Sequence[str]) -> dict[str, str]:
    """Returns a colour for each method, the same in every figure of the paper."""
    known = dict(zip(methods.BANDITS, COLOURS, strict=False))
    known |= {methods.LABELS: "0.3", methods.PSEUDO_INVERSE: COLOURS[1]}
    return {name: known[name] for name in learners}


def plot_totals(axes, joint: xr.Dataset, axis: str, learners: Sequence[str]) -> None:
    """Draws total target losses with standard errors over a coordinate, by method and rule."""
    for name, colour in colours(learners).items():
        for rule, (line, marker) in STYLES.items():
            one = select(joint, learner=name, rule=rule)
            if not one.sizes["point"]:
                continue
            loss, num_seeds = protocol.total(one), one.sizes["seed"]
            spread = loss.std(axis=-1, ddof=1) if num_seeds > 1 else np.zeros(len(loss))
            axes.errorbar(
                one[axis].values,
                loss.mean(axis=-1),
                spread / np.sqrt(num_seeds),
                color=colour,
                linestyle=line,
                marker=marker,
                markersize=4,
                label=f"{name}; {rule}",
            )


def legend(figure, axes) -> None:
    """Puts one legend for all panels below them: a column for each rule."""
    handles, labels = axes.get_legend_handles_labels()
    rules = [label.rpartition("; ")[2] for label in labels]
    order = sorted(range(len(labels)), key=lambda i: [*STYLES].index(rules[i]))
    figure.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="outside lower center",
        ncols=len(set(rules)),
        frameon=False,
        fontsize=8,
    )
