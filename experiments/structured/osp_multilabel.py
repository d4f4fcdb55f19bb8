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
import xarray as xr

from experiments.shared.figures import new_figure
from experiments.shared.options import at_least
from experiments.structured import figures, protocol
from jonline import data, structured

Learner = Literal["OSP, inverse-weighted", "OSP, pseudo-inverse"]
LEARNERS: tuple[Learner, ...] = ("OSP, inverse-weighted", "OSP, pseudo-inverse")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(protocol.MethodOptions):
    """Options of the comparison over the number of labels."""

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
        self.check_some("num_labels", "learners")
        self.check(at_least(1), "subset_size", "num_features")
        self.check(at_least(self.subset_size + 1), "num_labels")


def main(options: Options) -> None:
    """Plays both methods for every d; writes records, table, summary and figure."""
    options = options.capped()
    if options.smoke:
        options = dataclasses.replace(options, num_labels=options.num_labels[:1])
    settings = {(d,): setting(options, d) for d in options.num_labels}
    joint = protocol.compare(options, settings, ("num_labels",), project=True)
    radii = [settings[int(d),].radius for d in joint["num_labels"].values]
    joint.coords["radius"] = ("point", radii)
    content = {"documents": f"jonline.data.multilabel_table, seed {options.key}"}
    protocol.report(options, joint, ("num_labels", "radius"), draw(options, joint), content)


def setting(options: Options, num_labels: int) -> protocol.Setting:
    """Returns the documents with one number of labels."""
    n, m = options.num_features, options.subset_size
    more = {"seed": options.key, "unit_norm": options.unit_norm}
    space = structured.subsets(num_labels, m)
    table = data.multilabel_table(options.rounds, n, num_labels, m, **more)
    rows = table._replace(x=jnp.asarray(table.x), y=jnp.asarray(space.encode(table.y)))
    return protocol.Setting(space, n, protocol.one_pass, protocol.longest(table.x), rows)


def draw(options: Options, joint: xr.Dataset):
    """Returns the figure: total losses over d with standard errors."""
    figure, axes = new_figure(figsize=(7.5, 4.8))
    figures.plot_totals(axes, joint, "num_labels", options.learners)
    axes.set(xlabel="number of labels d", ylabel="cumulative target loss")
    axes.set_xticks(options.num_labels)
    figures.legend(figure, axes)
    figure.suptitle(f"{options.rounds:,} rounds, {options.seeds} seeds, standard errors")
    return figure
