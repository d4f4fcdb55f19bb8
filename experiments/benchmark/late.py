"""Late answers in the benchmark: what a delay costs, over the same learner without one.

The task is "OSP K=10" of `structured`: 784 features, inverse-weighted, 20 seeds of one
point. "fixed" is a delay of 100 rounds, "variable" one drawn uniformly from 0…50.

* OGD takes gradients as they come.
* ODAFTRL is told the fixed delay, and is timed without one at `delay=0`.
* SOLID is told the longest delay.
"""

from functools import partial
from typing import Any

import numpy as np

from experiments.benchmark.contest import Contestant, Target
from experiments.benchmark.structured import Task, classes, sweeper
from jonline import delays, optimizers
from jonline.core import Delay

LONG, SHORT = 100, 50
NONE, FIXED, VARIABLE = "no delay", f"D={LONG}", f"up to {SHORT}"
LATE: dict[str, Delay | None] = {
    NONE: None,
    FIXED: delays.fixed(LONG),
    VARIABLE: delays.uniform(SHORT),
}
PLAYED = {"OGD": (NONE, FIXED, VARIABLE), "ODAFTRL": (NONE, FIXED), "SOLID": [*LATE]}
BARS = {("OGD", FIXED): (1.15, 1.02)}  # first, ambition
OVER_OGD = {NONE: (1.6, 1.2), FIXED: (2.5, 2.0)}  # of ODAFTRL under the same delay


def optimizer_of(name: str, late: str, diameter: Any) -> optimizers.OnlineOptimizer:
    """Returns an optimizer, told of the delay what it has to know."""
    delay = LATE[late]
    most = 0 if delay is None else delay.max_rounds
    if name == "ODAFTRL":
        return optimizers.odaftrl(diameter, delay=most)
    if name == "SOLID":
        # Cx is about 1 on this table, and two classes are sqrt(2) apart
        bound = float(np.sqrt(2))
        return optimizers.solid_ogd(diameter, gradient_bound=bound, max_delay=most, project=False)
    return optimizers.adaptive_ogd(diameter)


def contestants(rounds: int, *, smoke: bool) -> list[Contestant]:
    """Returns what is timed; a smoke run has a smaller table and plain OGD alone.

    Args:
      rounds: of the contests on DFORD; a fifth of them is played here.
      smoke: whether the numbers need not mean anything.
    """
    some = max(1, rounds // 5)
    if smoke:
        return [sweep(classes(10, 64), "OGD", late, some) for late in LATE]
    task = classes(10, diameter=30.0)
    return [sweep(task, name, late, some) for name, played in PLAYED.items() for late in played]


def sweep(task: Task, name: str, late: str, rounds: int) -> Contestant:
    """Returns jonline as a contestant."""
    optimizer = partial(optimizer_of, name, late)
    return sweeper(task, rounds, f"{name}, {late}", optimizer=optimizer, delay=LATE[late])


def targets(ns: dict[str, float]) -> list[Target]:
    """Returns how many times as long a round takes with a delay, or with ODAFTRL."""
    over_ogd = [
        Target(
            f"ODAFTRL / OGD, {late}",
            ns[f"jonline, ODAFTRL, {late}"] / ns[f"jonline, OGD, {late}"],
            *bar,
            smaller_is_better=True,
        )
        for late, bar in OVER_OGD.items()
        if f"jonline, ODAFTRL, {late}" in ns
    ]
    return over_ogd + [
        Target(
            f"{name}, {late} / {NONE}",
            ns[f"jonline, {name}, {late}"] / ns[f"jonline, {name}, {NONE}"],
            *BARS.get((name, late), (None, None)),
            smaller_is_better=True,
        )
        for name in PLAYED
        for late in (FIXED, VARIABLE)
        if f"jonline, {name}, {late}" in ns
    ]
