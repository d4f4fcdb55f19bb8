"""Which five of d labels? OSP told only right or wrong, and told how many are wrong (Figure 3).

Documents with exactly m = 5 labels, by scikit-learn's generator: one table for each d, in an order
drawn for each run. The inverse-weighted estimate reads whether the output was the label, the
pseudo-inverse one the share of wrong labels. Both step by adaptive gradient descent with B = 50 and
projection on the ball of that diameter.

The theory's exploration with B = 50 is above 1 at every d, and played as 1: uniformly, with which
nothing learned shows. So both are also played at the same formula with B = Cx = 1, and at every
rate of `--explore`; the figure has these three, of the last the best.

Source: arXiv:2502.18709, appendix H.2. Differs: one table for all seeds; the paper does not say.
"""

import dataclasses
from pathlib import Path
from typing import Literal

import jax.numpy as jnp
import numpy as np
import xarray as xr

from experiments.ordinal import protocol as _protocol
from experiments.shared import sweeps as _common
from experiments.structured import figures as _structured_figures
from experiments.structured import protocol as _structured
from jonline import checks, data, streams, structured

Learner = Literal["OSP, inverse-weighted", "OSP, pseudo-inverse"]
LEARNERS: tuple[Learner, ...] = ("OSP, inverse-weighted", "OSP, pseudo-inverse")
KEY = ("num_labels", "learner")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(_common.Options):
    """Options of the comparison over the number of labels."""

    windows: int = 20
    """Points of every curve: sums are kept over this many equal parts of a run."""
    data: Path | None = None
    """Changes nothing here: the data are made by scikit-learn's generator."""
    learners: tuple[Learner, ...] = LEARNERS
    """Methods to play."""
    num_labels: tuple[int, ...] = (10, 12, 16, 20, 24)
    """Numbers d of labels, each > `subset_size`."""
    subset_size: int = 5
    """Labels m of every document, >= 1."""
    num_features: int = 50
    """Words n, the features, >= 1."""
    diameter: float = 50.0
    """B > 0, of the step sizes, the ball and the theory's exploration."""
    explore: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3)
    """Further rates of exploration for both methods, each in (0, 1]."""
    unit_norm: bool = False
    """Divide every x, which counts words, by its Euclidean norm."""

    def __post_init__(self):
        super().__post_init__()
        for name in ("num_labels", "learners"):
            checks.require(len(getattr(self, name)) > 0, f"--{name}", "name at least one", "none")
        checks.at_least("--subset-size", self.subset_size, 1)
        for num_labels in self.num_labels:
            checks.at_least("--num-labels", num_labels, self.subset_size + 1)
        checks.at_least("--num-features", self.num_features, 1)
        checks.positive("--diameter", self.diameter)
        for explore in self.explore:
            checks.require(0 < explore <= 1, "--explore", "be in (0, 1]", explore)


def main(options: Options) -> None:
    """Plays both methods for every d; writes records, table, summary and figure."""
    options = options.capped()
    if options.smoke:
        options = dataclasses.replace(options, num_labels=options.num_labels[:1])
    played, sweeps, radii = {}, {}, {}
    for num_labels in options.num_labels:
        space = structured.subsets(num_labels, options.subset_size)
        table = data.multilabel_table(
            options.rounds,
            options.num_features,
            num_labels,
            options.subset_size,
            seed=options.key,
            unit_norm=options.unit_norm,
        )
        radii[num_labels] = float(np.sqrt(np.max(np.sum(np.square(table.x), axis=1))))
        table = table._replace(x=jnp.asarray(table.x), y=jnp.asarray(space.encode(table.y)))
        for name in options.learners:
            rates = _structured.rates(
                name,
                space,
                diameter=options.diameter,
                radius=radii[num_labels],
                num_rounds=options.rounds,
                grid=options.explore,
            )
            played[num_labels, name] = rates
            sweeps[num_labels, name] = _structured.sweep(
                options,
                name,
                space,
                {"explore": [rate.explore for rate in rates]},
                table,
                num_features=options.num_features,
                diameter=options.diameter,
                stream=one_pass,
                project=True,
            )
    joint = _structured.records(_protocol.play_all(sweeps), played, KEY)
    joint.coords["radius"] = ("point", [radii[int(d)] for d in joint["num_labels"].values])
    rows = _structured.table(joint, ("num_labels", "radius"))
    folder = _common.write(
        options,
        table=rows,
        shown=[row for row in rows if row["rule"] != _structured.GRID],
        figure=draw(options, joint),
        records=joint,
        checksums={"documents": f"jonline.data.multilabel_table, seed {options.key}"},
    )
    print("shown: of the grid the best; table.csv has every rate")
    _common.dump(folder / "summary.json", rows)


def one_pass(point, table):
    """Returns the rows in an order drawn for the run."""
    del point
    return streams.one_pass(table)


def draw(options: Options, joint: xr.Dataset):
    """Returns the figure: total losses over d with standard errors."""
    figure, axes = _common.new_figure(figsize=(7.5, 4.8))
    _structured_figures.plot_totals(axes, joint, "num_labels", options.learners)
    axes.set(xlabel="number of labels d", ylabel="cumulative target loss")
    axes.set_xticks(options.num_labels)
    _structured_figures.legend(figure, axes)
    figure.suptitle(f"{options.rounds:,} rounds, {options.seeds} seeds, standard errors")
    return figure
