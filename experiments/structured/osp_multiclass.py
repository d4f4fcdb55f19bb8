"""How OSP, Gaptron and Gappletron take more classes, told only right or wrong (Figure 2).

The synthetic stream of van der Hoeven et al.: a class is a random set of bits, seen among three
times as many that say nothing; with probability r the label is drawn anew. All methods observe one
bit and step by the same adaptive gradient descent with B = 10, no projection.

Each is played at the exploration of its theory, which for Gaptron and from some K on for Gappletron
is above 1 and played as 1, uniformly; at that of the same formula with B = Cx = 1; and at every
rate of `--explore`, of which the figure has the best.

Source: arXiv:2502.18709, appendix H.1.2. Differs: the paper does not say how many rounds it played,
nor which rates it took.
"""

import dataclasses
import math
from pathlib import Path

import jax.numpy as jnp
import xarray as xr

from experiments.shared.figures import new_figure
from experiments.shared.options import at_least
from experiments.shared.records import select
from experiments.structured import figures, methods, protocol
from jonline import checks, data, structured
from jonline.core import Example, Stream


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(protocol.MethodOptions):
    """Options of the comparison over the number of classes."""

    seeds: int = 20
    """Independent runs of every point, >= 1."""
    data: Path | None = None
    """Changes nothing here: the data are drawn as they are played."""
    learners: tuple[methods.Bandit, ...] = methods.BANDITS
    """Methods to play."""
    num_classes: tuple[int, ...] = (6, 12, 24, 48, 96)
    """Numbers K of classes, each >= 2."""
    scales: tuple[int, ...] = (2, 4)
    """Sizes n' of the stream, which has 40 n' features; each >= 1."""
    noise: tuple[float, ...] = (0.0, 0.1)
    """Probabilities r that a label is drawn anew, each in [0, 1]."""
    unit_norm: bool = False
    """Divide every x by its Euclidean norm."""

    def __post_init__(self):
        super().__post_init__()
        self.check_some("num_classes", "scales", "noise", "learners")
        self.check(at_least(2), "num_classes")
        self.check(at_least(1), "scales")
        self.check(checks.probability, "noise")


def main(options: Options) -> None:
    """Plays all methods on all streams; writes records, table, summary and figure."""
    options = options.capped()
    if options.smoke:
        few = {"num_classes": options.num_classes[:1], "scales": options.scales[:1]}
        options = dataclasses.replace(options, **few)
    settings = {
        (scale, num_classes): protocol.Setting(
            structured.multiclass(num_classes),
            40 * scale,
            make_stream(num_classes, scale, unit_norm=options.unit_norm),
            radius=1.0 if options.unit_norm else math.sqrt(10 * scale),
            axes={"noise": options.noise},
        )
        for scale in options.scales
        for num_classes in options.num_classes
    }
    joint = protocol.compare(options, settings, ("scale", "num_classes"))
    last = options.num_classes[-1]
    protocol.report(
        options,
        joint,
        ("scale", "noise", "num_classes"),
        draw(options, joint),
        {"van der Hoeven et al.": "jonline.data.van_der_hoeven"},
        shown=lambda row: row["num_classes"] == last,
        note=f"shown: K = {last}; table.csv has every K",
    )


def make_stream(num_classes: int, scale: int, *, unit_norm: bool):
    """Returns `(point, data) -> Stream`, with the noise of the point."""

    def stream(point, table):
        del table
        whole = data.van_der_hoeven(num_classes, scale, noise=point["noise"])
        return unit(whole) if unit_norm else whole

    return stream


def unit(stream: Stream) -> Stream:
    """Returns a stream with every x, of norm > 0, divided by its Euclidean norm."""

    def draw(source, t):
        x, y = stream.draw(source, t)
        return Example(x / jnp.maximum(jnp.sqrt(jnp.sum(x * x)), jnp.finfo(x.dtype).tiny), y)

    return Stream(stream.init, draw)


def draw(options: Options, joint: xr.Dataset):
    """Returns the figure: total losses over K with standard errors, a panel for each stream."""
    lines, columns = len(options.scales), len(options.noise)
    figure, axes = new_figure(
        nrows=lines, ncols=columns, figsize=(5.2 * columns, 4.0 * lines + 0.6), squeeze=False
    )
    for i, scale in enumerate(options.scales):
        for j, noise in enumerate(options.noise):
            panel = axes[i, j]
            here = select(joint, scale=scale, noise=float(noise))
            figures.plot_totals(panel, here, "num_classes", options.learners)
            panel.set(xscale="log", title=f"n' = {scale}, r = {noise:g}", ylim=(0, None))
            panel.set_xticks(options.num_classes, map(str, options.num_classes))
            panel.minorticks_off()
    for panel in axes[-1]:
        panel.set_xlabel("number of classes K")
    for panel in axes[:, 0]:
        panel.set_ylabel("cumulative target loss")
    figures.legend(figure, axes[0, 0])
    figure.suptitle(f"{options.rounds:,} rounds, {options.seeds} seeds, standard errors")
    return figure
