"""The main jobs of the three papers on real data that comes inside packages: no download.

Lecturers are rated 1 to 5; PRank observes each rating, PRIL an interval, DFORD only whether the
rating is above the one it named. Less can win here: no threshold model fits these ratings, and
PRank moves its model most often. Which of ten digits is it? OSP observes the digit, or one bit. Is
a tumour malignant? DSAL may reject and asks for the labels it wants, DSOL observes them all.
"""

import dataclasses
import math
from pathlib import Path

import jax
import optax

import jonline
from experiments.shared.options import SharedOptions, is_cost
from experiments.shared.outputs import save_records, write
from experiments.shared.quickstart_outputs import draw, table
from experiments.shared.records import joint_records
from jonline import checks, hypotheses, metrics, oracles, ordinal, reject, streams, structured
from jonline.data import packaged
from jonline.optimizers import adaptive_ogd


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(SharedOptions):
    """Options of the sweeps."""

    rounds: int = 20_000
    """Rounds of every run, a multiple of `windows`."""
    windows: int = 100
    """Points of every curve: sums are kept over this many equal parts of a run."""
    data: Path | None = None
    """Changes nothing here: the data come inside packages."""
    reg: tuple[float, ...] = (0.5, 1.0, 4.0, 16.0)
    """Regularisations of the ordinal learners, each > 0."""
    explore: tuple[float, ...] = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
    """Weights of the exploring part of DFORD's draw, each in [0, 1]."""
    clip: float = 10.0
    """Bound on the norm of DFORD's gradients, > 0."""
    diameter: float = 10.0
    """B > 0 of OSP: of its step sizes, and of its exploration B sqrt(K / T)."""
    cost: float = 0.1
    """Cost of a rejection, in (0, 0.5); a wrong label costs 1."""

    def __post_init__(self):
        super().__post_init__()
        self.check(checks.positive, "reg", "diameter")
        self.check(checks.probability, "explore")
        self.check(lambda name, clip: checks.require(clip > 0, name, "be > 0", clip), "clip")
        self.check(is_cost, "cost")


def main(options: Options) -> None:
    """Plays a sweep of each learner; writes records, table and figure."""
    options = options.capped()
    lev, images, tumours = packaged.lev(), packaged.digits(), packaged.breast_cancer()
    f, K = hypotheses.linear(lev.x.shape[1]), lev.num_classes
    reg = {"reg": options.reg}
    space, n = structured.multiclass(images.num_classes), images.x.shape[1]
    digits = dataclasses.replace(images, y=space.encode(images.y), num_classes=None)
    bit, told = structured.inverse_weighted(space), structured.full_information(space)
    ogd = adaptive_ogd(options.diameter, offset=1e-8)
    size = {"diameter": options.diameter, "num_rounds": options.rounds}
    theory = min(1.0, structured.theory.inverse_weighted_rate(space, **size, cut=math.inf))
    g = hypotheses.linear(tumours.x.shape[1])
    fall = lambda size: optax.linear_schedule(size, size / 100, options.rounds)  # noqa: E731
    point = {"cost": options.cost, "step_size": 0.1, "slope": 1.0}

    def counts(*round):
        found = reject.losses(options.cost)(*round)
        return {name: found[name] for name in ("asked", "misclassified", "rejected")}

    def play(learner, oracle, grid, data, measure):  # all points and seeds: one compiled call
        return jonline.sweep(
            lambda p, rows: (learner(p), jonline.Environment(streams.resample(rows), oracle)),
            measure, jonline.product_grid(**grid), data=data, num_rounds=options.rounds,
            num_seeds=options.seeds, key=jax.random.key(options.key),
            record_every=options.record_every, progress=True,
        )  # fmt: skip

    ratings = {
        "DFORD": play(lambda p: ordinal.dford(f, K, clip=options.clip, **p), oracles.directional(),
                      reg | {"explore": options.explore}, lev, metrics.ordinal),
        "PRank": play(lambda p: ordinal.prank(f, K, **p), oracles.label(), reg, lev,
                      metrics.ordinal),
        "PRIL": play(lambda p: ordinal.pril(f, K, **p), oracles.interval(K), reg, lev,
                     metrics.ordinal),
    }  # fmt: skip
    classes = {
        name: play(lambda p, told=told: structured.osp(space, told, ogd, num_features=n, **p),
                   oracle, {"explore": q}, digits, structured.losses(space))
        for name, told, oracle, q in (("OSP, inverse-weighted", bit, oracles.mismatch(), theory),
                                      ("OSP, labels", told, oracles.label(), 0.0))
    }  # fmt: skip
    rejecting = {
        name: play(lambda p, make=make: make(g, **p | {"step_size": fall(p["step_size"])}),
                   oracles.label_if_asked(), point, tumours, counts)
        for name, make in (("DSAL", reject.dsal), ("DSOL", reject.dsol))
    }  # fmt: skip
    rows = [row for name, result in ratings.items() for row in table(name, result)]
    shown = [row for row in rows if row["reg"] == rows[0]["reg"]]
    tables = lev, images, tumours
    folder = write(
        options,
        table=rows,
        shown=shown,
        figure=draw(options, ratings, classes, rejecting, tables),
        records=joint_records(ratings, ("learner",)),
        checksums={data.name: data.provenance.sha256 for data in tables},
    )
    save_records(folder / "digits.nc", joint_records(classes, ("learner",)))
    save_records(folder / "tumours.nc", joint_records(rejecting, ("learner",)))
    print(f"reg = {rows[0]['reg']} shown; less can win here: no threshold model fits (see --help)")
