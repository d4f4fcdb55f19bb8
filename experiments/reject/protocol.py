"""What the experiments of one paper share: its data sets, its learners, the choice of step sizes.

Source: arXiv:1906.06166, section 4. Symbols: d `cost`, eta `step_size`, gamma `slope`, T rounds.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import optax
import xarray as xr

import jonline
from experiments.shared.options import SharedOptions, at_least
from experiments.shared.records import bounds, joint_records, mean_curve, mean_interval, plain
from experiments.shared.sweeps import on_device, play_all
from jonline import checks, hypotheses, oracles, reject, streams
from jonline import data as datasets

Name = Literal["phishing", "svmguide1", "mnist_4_9", "gisette"]
Scaling = Literal["default", "unscaled", "standardise", "min_max", "unit_rows", "unit_indicators"]
Learner = Literal["DRAL", "DRAL, exact gradient", "DSAL", "DSOL"]

DRAL, EXACT, DSAL, DSOL = LEARNERS = Learner.__args__
TITLES = {
    "phishing": "Phishing",
    "svmguide1": "Guide",
    "mnist_4_9": "MNIST, 4 or 9 (for Gisette)",
    "gisette": "Gisette",
}
COSTS = (0.1, 0.25, 0.4)
STEP_SIZES = (0.01, 0.05, 0.1, 0.5)
SLOPES = (0.5, 1.0, 2.0, 4.0)
LARGE = 2048  # features from which a run of 16 lanes fills a core's cache


@dataclasses.dataclass(frozen=True, kw_only=True)
class TunedOptions(SharedOptions):
    """Options of comparisons of learners whose step sizes and slopes are chosen."""

    learners: tuple[Learner, ...] = LEARNERS
    """Learners to play."""
    step_size: tuple[float, ...] = STEP_SIZES
    """eta_0 to choose from, each > 0."""
    slope: tuple[float, ...] = SLOPES
    """Slopes of the sigmoid to choose from, each > 0."""
    tuning_seeds: int = 20
    """Seeds of the choice, others than those of the result."""
    slack: float = 0.001
    """How far above the least risk a point may be to be chosen for asking less, >= 0."""

    def __post_init__(self):
        super().__post_init__()
        self.check(checks.positive, "step_size", "slope")
        self.check(at_least(1), "tuning_seeds")
        self.check(checks.non_negative, "slack")

    def grid(self, name: str, **axes: Any) -> dict[str, np.ndarray]:
        """Returns all points to try, without the slope for DRAL, which has none."""
        axes |= {"step_size": self.step_size, "slope": self.slope}
        if name in (DRAL, EXACT):
            del axes["slope"]
        return jonline.product_grid(**axes)


class Source(NamedTuple):
    """The examples of a data set.

    Attributes:
      table: rows to draw from.
      scaling: how the features were scaled.
    """

    table: datasets.Dataset
    scaling: str

    @property
    def title(self) -> str:
        """The paper's name of the data, and what stands in for it."""
        return TITLES.get(self.table.name, self.table.name)


def load(options: SharedOptions, name: str, scaling: str = "default") -> Source:
    """Returns the examples of a data set; a smoke run without `--data` makes up a table.

    The default scaling is the catalog's, and `standardise` for Guide, whose features are of very
    different size.
    """
    if options.smoke and options.data is None:
        return Source(made_up(), "as made")
    if scaling == "default":
        scaling = "standardise" if name == "svmguide1" else ""
    scale = getattr(datasets, scaling) if scaling else None
    return Source(datasets.load(name, options.data, scale=scale), scaling or "as in the catalog")


def made_up() -> datasets.Dataset:
    """Returns a small table of no meaning, so that a smoke run needs no file."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 8))
    y = np.where(x.sum(axis=1) + rng.standard_normal(500) > 0, 1, -1)
    return datasets.from_arrays(x, y, name="made up")


def learner(
    point: Mapping[str, Any],
    name: str,
    space: hypotheses.Hypothesis,
    num_rounds: int,
    fall: float = 100.0,
):
    """Returns a learner at the point's d, eta_0 and (but for DRAL) gamma.

    Its step size falls in a straight line from eta_0 to eta_0 / fall over the run; the paper says
    that it decreases by a small constant in every round.
    """
    eta = point["step_size"]
    shared = {
        "cost": point["cost"],
        "step_size": optax.linear_schedule(eta, eta / fall, num_rounds),
    }
    if name in (DRAL, EXACT):
        return reject.dral(space, exact_gradient=name == EXACT, **shared)
    make = reject.dsal if name == DSAL else reject.dsol
    return make(space, slope=point["slope"], **shared)


def make(
    point: Mapping[str, Any],
    table: Any,
    *,
    name: str,
    num_rounds: int,
    space: hypotheses.Hypothesis | None = None,
    fall: float = 100.0,
    asking: Callable = lambda learner, point: learner,
):
    """Returns a learner, asking as `asking(learner, point)` does, and rows of the table.

    `space` is linear in the features if it is not given.
    """
    space = hypotheses.linear(table.x.shape[1]) if space is None else space
    player = asking(learner(point, name, space, num_rounds, fall), point)
    environment = jonline.Environment(streams.resample(table), oracles.label_if_asked())
    return player, environment


def measure(example, prediction, feedback, state):
    """Returns the counts of a round, from which the risk follows at any d."""
    counts = reject.losses(0.25)(example, prediction, feedback, state)
    return {name: counts[name] for name in ("asked", "misclassified", "rejected")}


def play(
    options: SharedOptions, make: Callable, grid: Mapping[str, Any], table: Any, **more: Any
) -> Callable[[Any], jonline.SweepResult]:
    """Returns a function that plays a sweep on one device, for `play_all`; more as `on_device`."""
    block = 16 if table.x.shape[1] >= LARGE else None
    return on_device(options, make, measure, grid, table, block=block, **more)


def tuned(
    options: TunedOptions,
    makes: Mapping[Any, Callable],
    points: Mapping[Any, Mapping[str, np.ndarray]],
    tables: Mapping[Any, datasets.Dataset],
    *,
    by: tuple[str, ...] = ("cost",),
) -> tuple[dict[Any, jonline.SweepResult], dict[Any, jonline.SweepResult]]:
    """Returns what each maker played at its best points, and the sweep that chose them.

    Args:
      makes, points, tables: by one key each; a point has `cost` and all axes of the grid.
      by: axes of the grid whose every value has its own best point.
    """
    apart = {"seeds": min(options.tuning_seeds, options.seeds), "apart": 1}
    first = {key: play(options, makes[key], points[key], tables[key], **apart) for key in makes}
    tried = play_all(first)
    second = {}
    for key, result in tried.items():
        best = choose(result, options.slack, by)
        chosen = {axis: values[best] for axis, values in result.grid.items()}
        second[key] = play(options, makes[key], chosen, tables[key])
    return play_all(second), tried


def choose(result: jonline.SweepResult, slack: float, by: tuple[str, ...] = ("cost",)):
    """Returns the best point for each combination of the `by` axes, in their order.

    Of the points whose mean risk is at most `slack` above the least it is the one that asks for
    fewest labels; of those that ask equally often, the one of least risk.
    """
    risk, asked = (mean(result, of).mean(axis=-1) for of in ("risk", "asked"))
    axes = np.stack([result.grid[axis] for axis in by], axis=1)
    best = []
    for group in np.unique(axes, axis=0):
        mine = np.flatnonzero((axes == group).all(axis=1))
        near = mine[risk[mine] <= risk[mine].min() + slack]
        best.append(min(near, key=lambda i: (asked[i], risk[i])))
    return np.array(best)


def mean(result: jonline.SweepResult, of: str) -> np.ndarray:
    """Returns a quantity's mean over all rounds, (points, seeds) float64; `of` may be "risk"."""
    if of == "risk":
        cost = result.grid["cost"].astype(np.float64)[:, None]
        return mean(result, "misclassified") + cost * mean(result, "rejected")
    return result.mean_curve(of)[..., -1]


def records(results: Mapping[tuple[str, str], jonline.SweepResult]) -> xr.Dataset:
    """Returns the records by (data set, learner), with the last widths."""
    joint = joint_records(results, ("dataset", "learner"))
    widths = [np.asarray(result.states.width) for result in results.values()]
    joint["width"] = (("point", "seed"), np.concatenate(widths))
    return joint


def curve(joint: xr.Dataset, of: str) -> np.ndarray:
    """Returns the running average of a quantity, (..., windows) float64.

    `of` is a count, or "risk".
    """
    if of == "risk":
        cost = np.round(joint["cost"].values.astype(np.float64), 6)[..., None, None]
        return curve(joint, "misclassified") + cost * curve(joint, "rejected")
    return mean_curve(joint, of)


def table(joint: xr.Dataset, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Returns a row for each point."""
    return [row(joint, i, names) for i in range(joint.sizes["point"])]


def row(joint: xr.Dataset, i: int, names: tuple[str, ...]) -> dict[str, Any]:
    """Returns a row of a table for a point: coordinates, and means over the run.

    `error` is the share of wrong labels among those predicted by all seeds together.
    """
    one = joint.isel(point=[i])
    risk = mean_interval(curve(one, "risk")[0, :, -1])
    means = {of: curve(one, of)[0, :, -1].mean() for of in ("asked", "misclassified", "rejected")}
    accepted = 1 - means["rejected"]
    coordinates = {name: plain(one[name].values[0]) for name in names}
    error = means["misclassified"] / accepted if accepted > 0 else np.nan
    return coordinates | bounds("risk", risk) | means | {"error": error}
