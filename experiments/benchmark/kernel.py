"""Kernel DFORD in the benchmark: its task, its contestants and its bars.

The task: a made table of 4 177 rows, 10 features and 4 labels, the kernel (1 + <x, z>)^3 over the
terms of the last `budget` rounds, 10 seeds of one point. "ring" is `hypotheses.kernel`, which like
"numba, sparse" holds those with a coefficient alone, "explicit" is `hypotheses.polynomial`; numba
holds a term for every round.
"""

from functools import partial

import numpy as np

import jonline
from experiments.benchmark import contest
from experiments.benchmark.contest import Contestant, Target
from experiments.benchmark.references import dford as reference
from experiments.benchmark.references import kernel as kernel_reference
from jonline import hypotheses, kernels, oracles, ordinal, streams

POINT = {"reg": np.asarray([32.0]), "explore": np.asarray([0.2])}
CLIP, DEGREE, SEEDS = 11.0, 3, 10
BUDGETS = (500, 2000)
BARS = {"ring": (0.8, 1.2), "explicit": (None, None)}  # over "numba, sparse": first, ambition


def make(hypothesis, point, data):
    """Returns the learner and the environment of the task."""
    learner = ordinal.dford(hypothesis, data.num_classes, **point, clip=CLIP)
    return learner, jonline.Environment(streams.resample(data), oracles.directional())


def both(budget: int, num_features: int) -> dict[str, hypotheses.Hypothesis]:
    """Returns the two ways to hold the same score."""
    polynomial = kernels.polynomial(DEGREE)
    return {
        "ring": hypotheses.kernel(polynomial, budget, num_features),
        "explicit": hypotheses.polynomial(num_features, degree=DEGREE, budget=budget),
    }


def make_lanes(num_seeds: int = SEEDS) -> reference.Lanes:
    """Returns the runs of the references."""
    return reference.make_lanes(POINT["reg"], POINT["explore"], num_seeds, clip=CLIP)


def contestants(budget: int, table: reference.Table, rounds: int) -> list[Contestant]:
    """Returns what is timed at one budget; NumPy plays one lane and a fifth of the rounds."""
    data, lanes = contest.as_dataset(table), make_lanes()
    constant, fewer = contest.best_constant(table), max(1, rounds // 5)

    def numpy_loop():
        return kernel_reference.kernel_numpy(table, budget, 0, lanes, fewer)

    def numba(sparse):
        played = kernel_reference.kernel_numba(table, budget, lanes, rounds, sparse=sparse)
        return float(played.mean())

    def entrant(who, play):
        return Contestant(f"{who}, kernel {budget}", SEEDS, rounds, 1, constant, play)

    def sweep(way, hypothesis):
        args = (partial(make, hypothesis), POINT, data, SEEDS, rounds, rounds)
        return entrant(f"jonline, {way}", partial(contest.play_jonline, *args))

    return [
        entrant("NumPy", numpy_loop)._replace(lanes=1, rounds=fewer, compiles=False),
        entrant("numba", partial(numba, False)),
        entrant("numba, sparse", partial(numba, True)),
        *(sweep(*way) for way in both(budget, table.x.shape[1]).items()),
    ]


def targets(ns: dict[str, float]) -> list[Target]:
    """Returns the bars of the budgets that were timed."""
    return [
        Target(
            f"kernel {budget}, {way}, 10 lanes / numba, sparse",
            ns[f"numba, sparse, kernel {budget}"] / ns[f"jonline, {way}, kernel {budget}"],
            *bar,
        )
        for budget in BUDGETS
        for way, bar in BARS.items()
        if f"numba, sparse, kernel {budget}" in ns
    ]
