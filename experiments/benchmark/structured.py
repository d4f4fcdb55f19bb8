"""Structured prediction in the benchmark: its tasks, its contestants and its bars.

All tables are made clusters with one output each. jonline and numba play 20 lanes, seeds of one
point with their own draws, and NumPy plays one.

* "OSP K=10", "OSP K=96": classes, 784 features, inverse-weighted. Every round's gradient is taken,
  by "numba, skipping" only one that is not 0, as those of wrong answers are.
* "subsets", "rankings": 5 of 24 labels, 5 items; 50 features, pseudo-inverse.
* "solve": the step of "subsets" that finds the estimate's direction, on 240 lanes, beside
  `jnp.linalg.pinv` under `vmap`; both make P first. A round is one solve, and the loss the largest
  error over the largest entry of the solutions in float64, which has to be below 1 %.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_limits

import jonline
from experiments.benchmark import contest
from experiments.benchmark.contest import Contestant, Target
from experiments.benchmark.references import estimates
from experiments.benchmark.references import structured as reference
from experiments.benchmark.references.structured import Setting, Table
from jonline import data as datasets
from jonline import optimizers, oracles, streams, structured
from jonline.core import Delay

SEEDS, SOLVED = 20, 240
TOLERANCE = 0.01
BARS = {  # jonline's task: (contestant, first, ambition) of each ratio
    "OSP K=10": (("NumPy", 30, 100), ("numba", 0.65, 1.1), ("numba, skipping", None, None)),
    "OSP K=96": (("numba", 1.0, 1.2), ("numba, skipping", 0.45, 1.0)),
    "subsets": (("NumPy", 16, 60),),
    "rankings": (("NumPy", 25, 60),),
    "solve": (("pinv", 15, 90),),
}


class Task(NamedTuple):
    """A table with its output space, and what is told to every contestant."""

    name: str
    space: structured.OutputSpace
    table: Table
    setting: Setting

    @property
    def constant(self) -> float:
        """Mean loss of the best constant output, which is the one nearest to the mean label."""
        output = self.space.nearest(jnp.asarray(self.table.y.mean(axis=0)))
        return float(jax.vmap(self.space.target, (None, 0))(output, self.table.y).mean())


def classes(num_classes: int, num_features: int = 784, diameter: float = 100.0) -> Task:
    """Returns a task of classification."""
    table = reference.make_table(np.eye(num_classes), num_features)
    space = structured.multiclass(num_classes)
    return Task(f"OSP K={num_classes}", space, table, Setting(0.1, diameter))


def subsets(d: int = 24, m: int = 5) -> Task:
    """Returns the task of choosing m of d labels; no two clusters share one."""
    outputs = np.asarray([np.roll(np.arange(d) < m, m * k) for k in range(d // m)])
    table = reference.make_table(outputs, 50)
    return Task("subsets", structured.subsets(d, m), table, Setting(0.2, 15.0))


def rankings(m: int = 5) -> Task:
    """Returns the task of ranking m items; every item has every place in one cluster."""
    outputs = np.asarray([np.roll(np.eye(m), k, axis=0).ravel() for k in range(m)])
    table = reference.make_table(outputs, 50)
    return Task("rankings", structured.rankings(m), table, Setting(0.2, 10.0))


def make(
    space: structured.OutputSpace,
    point: dict[str, Any],
    data: Any,
    *,
    optimizer: Callable[[Any], optimizers.OnlineOptimizer] = optimizers.adaptive_ogd,
    delay: Delay | None = None,
):
    """Returns the learner, with `optimizer` of the point's diameter, and the environment."""
    if space.name == "multiclass":
        estimator, oracle = structured.inverse_weighted(space), oracles.mismatch()
    else:
        estimator, oracle = structured.pseudo_inverse(space), oracles.loss(space.target)
    learner = structured.osp(
        space,
        estimator,
        optimizer(point["diameter"]),
        num_features=data.x.shape[1],
        explore=point["explore"],
    )
    return learner, jonline.Environment(streams.resample(data), oracle, delay)


def measure(space: structured.OutputSpace, example, prediction, feedback, state):
    """Returns the loss of what was played, as the references do."""
    del feedback, state
    return {"loss": space.target(prediction.output, example.y)}


def sweeper(task: Task, rounds: int, name: str = "", **how: Any) -> Contestant:
    """Returns jonline as a contestant, named by the task if not by `name`; `how` as for `make`."""
    play = partial(
        contest.play_jonline,
        partial(make, task.space, **how),
        {name: np.asarray([value]) for name, value in task.setting._asdict().items()},
        datasets.Dataset(*task.table, name=task.name),
        SEEDS,
        rounds,
        rounds,
        measure=partial(measure, task.space),
    )
    name = f"jonline, {name or task.name}"
    return Contestant(name, SEEDS, rounds, 1, task.constant, play)


def contestants_of_classes(task: Task, rounds: int, fewer: int) -> list[Contestant]:
    """Returns what is timed on a task of classification; NumPy plays `fewer` rounds."""
    args = task.table, task.setting

    def numpy_loop():
        with threadpool_limits(1):  # of its linear algebra
            return float(reference.classes_numpy(*args, 0, fewer))

    def numba(skip):
        played = reference.classes_numba(*args, SEEDS, rounds, skip=skip)
        return float(played.mean())

    ours = sweeper(task, rounds)
    return [
        ours._replace(
            name=f"NumPy, {task.name}", lanes=1, rounds=fewer, play=numpy_loop, compiles=False
        ),
        ours._replace(name=f"numba, {task.name}", play=partial(numba, False)),
        ours._replace(name=f"numba, skipping, {task.name}", play=partial(numba, True)),
        ours,
    ]


def contestants_of_estimates(
    task: Task, space: estimates.Space, rounds: int, fewer: int
) -> list[Contestant]:
    """Returns what is timed on sets or rankings; NumPy plays `fewer` rounds."""
    moments = task.space.uniform_mean, task.space.uniform_second_moment

    def numpy_loop():
        with threadpool_limits(1):
            return estimates.play(
                space, tuple(task.space.loss), moments, task.table, task.setting, 0, fewer
            )

    ours = sweeper(task, rounds)
    return [
        ours._replace(
            name=f"NumPy, {task.name}", lanes=1, rounds=fewer, play=numpy_loop, compiles=False
        ),
        ours,
    ]


def solvers(space: structured.OutputSpace, rounds: int) -> list[Contestant]:
    """Returns the two ways from a distribution over outputs to the direction of the estimate.

    They get the same distributions, of random scores, and the output that is the nearest one.
    """
    scores = jax.random.normal(jax.random.key(0), (rounds, SOLVED, space.dim))

    def situation(theta):
        mixture = structured.explore(structured.decode(space, space.mean(theta)), 0.2)
        return mixture, mixture.atoms[0]

    mixtures, outputs = jax.jit(jax.vmap(jax.vmap(situation)))(scores)

    def by_pinv(mixture, output):
        P = structured.second_moment(space, mixture)
        inverse = jnp.linalg.inv(jnp.asarray(space.loss.bilinear, float))
        return inverse @ (jnp.linalg.pinv(P) @ output)

    def in_float64():
        atoms, weights = (np.asarray(one, np.float64) for one in mixtures[:2])
        rest = np.asarray(mixtures.uniform, np.float64)[..., None, None]
        P = (atoms * weights[..., None]).swapaxes(-1, -2) @ atoms
        P += rest * space.uniform_second_moment
        inverse = np.linalg.inv(space.loss.bilinear)
        solved = np.linalg.solve(P, np.asarray(outputs, np.float64)[..., None])
        return (inverse @ solved)[..., 0]

    wanted = in_float64()

    def entrant(name, solve):
        run = jax.jit(lambda *args: jax.lax.map(lambda one: jax.vmap(solve)(*one), args))

        def play():
            solved = np.asarray(run(mixtures, outputs))
            return float(np.abs(solved - wanted).max() / np.abs(wanted).max())

        return Contestant(f"{name}, solve", SOLVED, rounds, 1, TOLERANCE, play)

    return [entrant("pinv", by_pinv), entrant("jonline", space.dual)]


def contestants(rounds: int, *, smoke: bool) -> list[Contestant]:
    """Returns what is timed; a smoke run has a smaller table and no tasks that compile for long.

    Args:
      rounds: of the contests on DFORD, cut down here by what a round costs.
      smoke: whether the numbers need not mean anything.
    """
    many, some, few = (max(1, rounds * by // 100) for by in (40, 10, 3))
    solves = solvers(subsets().space, max(1, rounds // 2000))
    if smoke:
        return contestants_of_classes(classes(10, 64), many, few) + solves
    return [
        *contestants_of_classes(classes(10, diameter=30.0), many, few),
        *contestants_of_classes(classes(96), some, few),
        *contestants_of_estimates(subsets(), estimates.subsets(24, 5), some, few),
        *contestants_of_estimates(rankings(), estimates.rankings(5), some, few),
        *solves,
    ]


def targets(ns: dict[str, float]) -> list[Target]:
    """Returns the bars of what was timed, and ratios without a bar."""
    return [
        Target(f"{task} / {who}", ns[f"{who}, {task}"] / ns[f"jonline, {task}"], *bar)
        for task, bars in BARS.items()
        for who, *bar in bars
        if f"jonline, {task}" in ns
    ]
