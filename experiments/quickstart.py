"""The main jobs of the three papers on real data that comes inside packages: no download.

Lecturers are rated 1 to 5; PRank observes each rating, PRIL an interval, DFORD only whether the
rating is above the one it named. Less can win here: no threshold model fits these ratings, and
PRank moves its model most often. Which of ten digits is it? OSP observes the digit, or one bit. Is
a tumour malignant? DSAL may reject and asks for the labels it wants, DSOL observes them all.
"""

import dataclasses
from pathlib import Path

import jax
import optax

import jonline
from experiments.shared.options import SharedOptions, within
from experiments.shared.outputs import save_records, write
from experiments.shared.quickstart_figure import draw
from experiments.shared.records import bounds, joint_records, mean_interval
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
        self.check(within("(0, 0.5)", lambda cost: 0 < cost < 0.5), "cost")


def main(options: Options) -> None:
    """Plays a sweep of each learner; writes records, table and figure."""
    options = options.capped()
    tables = lev, images, tumours = packaged.lev(), packaged.digits(), packaged.breast_cancer()
    f, g, K = *(hypotheses.linear(data.x.shape[1]) for data in (lev, tumours)), lev.num_classes
    space, n = structured.multiclass(images.num_classes), images.x.shape[1]
    digits = dataclasses.replace(images, y=space.encode(images.y), num_classes=None)
    bit, told = structured.inverse_weighted(space), structured.full_information(space)
    ogd, reg = adaptive_ogd(options.diameter, offset=1e-8), {"reg": options.reg}
    theory = min(1.0, options.diameter * (space.size / options.rounds) ** 0.5)  # B sqrt(K / T)
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
    sums = {data.name: data.provenance.sha256 for data in tables}
    figure, by = draw(options, ratings, classes, rejecting, tables), ("learner",)
    known = {"records": joint_records(ratings, by), "checksums": sums, "shown": shown}
    folder = write(options, table=rows, figure=figure, **known)
    save_records(folder / "digits.nc", joint_records(classes, by))
    save_records(folder / "tumours.nc", joint_records(rejecting, by))
    print(f"reg = {rows[0]['reg']} shown; less can win here: no threshold model fits (see --help)")


def table(name: str, result: jonline.SweepResult) -> list[dict]:
    """Returns a row for each point: means over all rounds, the loss's interval."""
    end = {of: result.mean_curve(of)[..., -1] for of in ("loss", "zero_one", "violations")}
    rows = []
    for i, loss in enumerate(end["loss"]):
        p = {axis: f"{values[i]:g}" for axis, values in result.grid.items()}
        row = {"learner": name, "reg": p["reg"], "explore": p.get("explore", "")}
        row |= bounds("mean_loss", mean_interval(loss))
        right, crossed = (1 - end["zero_one"][i]).mean(), end["violations"][i].mean()
        rows.append(row | {"played_right": right, "violations": crossed})
    return rows
