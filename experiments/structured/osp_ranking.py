"""Which order of m items? OSP told only right or wrong, and told how many are misplaced.

Two sources of rankings: a linear teacher with noise of Plackett and Luce, and documents of one
query by relevance, from LightGBM's example, drawn with replacement. Of these there are fewer
examples the more items (1525, 553, 138, 23 for m = 2, 3, 4, 5), so that their losses over m tell of
both. The inverse-weighted estimate reads whether the output was the label, one bit, the
pseudo-inverse one the share of misplaced items; OSP that observes the order shows what that costs.
All step by adaptive gradient descent with projection on the ball of diameter B.

Both estimates are played at the exploration of their theory (above 1, so 1, where T is too small),
at the same formula with B = Cx = 1, and at every rate of `--explore`, of which the figure has the
best.

Source: spaces and estimates of arXiv:2502.18709, which has no experiment on rankings.
"""

import dataclasses
from pathlib import Path
from typing import Literal

import numpy as np
import xarray as xr

from experiments.shared.figures import new_figure
from experiments.shared.options import at_least, within
from experiments.shared.records import select
from experiments.structured import figures, methods, protocol
from jonline import checks, data, streams, structured

Learner = Literal["OSP, inverse-weighted", "OSP, pseudo-inverse", "OSP, labels"]
LEARNERS: tuple[Learner, ...] = ("OSP, inverse-weighted", "OSP, pseudo-inverse", "OSP, labels")
Source = Literal["plackett_luce", "lambdarank"]
FAR = 4.5  # a standard normal is farther from 0 once in 150 000 times


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(protocol.MethodOptions):
    """Options of the comparison over the number of items."""

    data: Path | None = None
    """Folder with the files of lambdarank. Default: $JONLINE_DATA, else the cache, else a download;
    without them, and in a smoke run without `--data`, plackett_luce is played alone."""
    learners: tuple[Learner, ...] = LEARNERS
    """Methods to play."""
    sources: tuple[Source, ...] = ("plackett_luce", "lambdarank")
    """Where the rankings come from."""
    num_items: tuple[int, ...] = (2, 3, 4, 5)
    """Numbers m of items, each in 2…5."""
    num_features: int = 10
    """Features n of plackett_luce, >= 1."""
    noise: float = 0.25
    """Factor >= 0 of the noise of plackett_luce, whose utilities have variance 1."""
    explore: tuple[float, ...] = (0.03, 0.1, 0.3)
    """Further rates of exploration for both estimates, each in (0, 1]."""

    def __post_init__(self):
        super().__post_init__()
        self.check_some("num_items", "learners", "sources")
        self.check(within("2…5", lambda m: 2 <= m <= 5), "num_items")
        self.check(at_least(1), "num_features")
        self.check(checks.non_negative, "noise")


def main(options: Options) -> None:
    """Plays all methods on both sources for every m; writes records, table, summary, figure."""
    options = options.capped()
    if options.smoke:
        options = dataclasses.replace(options, num_items=options.num_items[:1])
    settings = load(options)
    joint = protocol.compare(options, settings, ("source", "num_items"), project=True)
    keys = zip(joint["source"].values, joint["num_items"].values, strict=True)
    found = [settings[str(source), int(m)] for source, m in keys]
    joint.coords["radius"] = ("point", [one.radius for one in found])
    joint.coords["num_rows"] = ("point", [num_rows(one) for one in found])
    content = {
        f"{source}, m = {m}": one.table.provenance.sha256
        if one.table is not None
        else "jonline.data.plackett_luce"
        for (source, m), one in settings.items()
    }
    names = ("source", "num_items", "num_rows", "radius")
    protocol.report(options, joint, names, draw(options, joint), content)


def load(options: Options) -> dict[tuple, protocol.Setting]:
    """Returns the examples by source and m; lambdarank's only where its files can be had."""
    found = {}
    for source in options.sources:
        for m in options.num_items:
            table, n = None, options.num_features
            radius = float(np.sqrt(1 + FAR * np.sqrt(2 / n)))  # ||x||^2: mean 1, variance 2/n
            if source == "lambdarank":
                if options.smoke and options.data is None:
                    continue
                try:
                    table = data.lambdarank(options.data, num_items=m)
                except OSError as error:
                    print(f"{source} is not played: {error}")
                    break
                n, radius = table.x.shape[1], protocol.longest(np.asarray(table.x))
            stream = make_stream(m, options)
            found[source, m] = protocol.Setting(structured.rankings(m), n, stream, radius, table)
    if not found:
        raise ValueError("--sources has nothing to play: lambdarank could not be had")
    return found


def num_rows(setting: protocol.Setting) -> int:
    """Returns the rows of the table, 0 without one."""
    return 0 if setting.table is None else len(setting.table.x)


def make_stream(num_items: int, options: Options):
    """Returns `(point, table) -> Stream`: rows with replacement, or the teacher's without them."""

    def stream(point, table):
        del point
        if table is not None:
            return streams.resample(table)
        return data.plackett_luce(num_items, options.num_features, noise=options.noise)

    return stream


def titled(here: xr.Dataset) -> str:
    """Returns the name of a source with the numbers of its examples, where it has a table."""
    rows = dict(zip(here["num_items"].values, here["num_rows"].values, strict=True))
    counts = f" ({', '.join(map(str, rows.values()))} examples)" if any(rows.values()) else ""
    return f"{here['source'].values[0]}{counts}"


def draw(options: Options, joint: xr.Dataset):
    """Returns the figure: total losses over m with standard errors, a panel for each source."""
    sources = list(dict.fromkeys(joint["source"].values))
    figure, axes = new_figure(ncols=len(sources), figsize=(5.6 * len(sources), 5.0), squeeze=False)
    for panel, source in zip(axes[0], sources, strict=True):
        here = select(joint, source=source)
        bandits = [name for name in options.learners if name != methods.LABELS]
        figures.plot_totals(panel, here, "num_items", bandits)
        told = select(here, learner=methods.LABELS)
        if told.sizes["point"]:
            loss = protocol.total(told)
            panel.plot(told["num_items"], loss.mean(axis=-1), color="0.3", marker="D", ls="-.")
            first = told["num_items"].values[0], loss[0].mean()
            style = {"textcoords": "offset points", "fontsize": 8, "color": "0.3"}
            panel.annotate("told the order", first, xytext=(4, -14), **style)
        panel.set(xlabel="number of items m", ylim=(0, None), title=titled(here))
        panel.set_xticks(options.num_items)
    axes[0, 0].set_ylabel("cumulative target loss")
    figures.legend(figure, axes[0, 0])
    figure.suptitle(f"{options.rounds:,} rounds, {options.seeds} seeds, standard errors")
    return figure
