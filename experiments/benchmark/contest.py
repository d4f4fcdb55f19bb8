"""What the tasks of the benchmark share: contestants, how they are timed, and the bars."""

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import jonline
from experiments.benchmark.references import dford as reference
from jonline import data as datasets
from jonline import metrics


class Contestant(NamedTuple):
    """What is timed: `play()` plays `lanes` runs of `rounds` rounds and returns the mean loss.

    `constant` is the loss of the best constant label, and `compiles` says whether the first call
    has more to do than the others.
    """

    name: str
    lanes: int
    rounds: int
    workers: int
    constant: float
    play: Callable[[], float]
    compiles: bool = True


class Timing(NamedTuple):
    """Seconds of the first call, CPU and wall seconds of the others, and the mean loss."""

    first: float
    cpu: list[float]
    wall: list[float]
    loss: float


class Target(NamedTuple):
    """A bar: the value reached, and those aimed at first and in the end; None for no aim."""

    name: str
    reached: float
    first: float | None
    ambition: float | None
    smaller_is_better: bool = False


def as_dataset(table: reference.Table):
    """Returns the references' table as a data set."""
    return datasets.from_arrays(*table, name="planted linear")


def best_constant(table: reference.Table) -> float:
    """Returns the mean loss of the best constant label."""
    return float(min(np.abs(table.y - k).mean() for k in range(1, table.num_classes + 1)))


def measure(example, prediction, feedback, state):
    """Returns the loss alone, as the references do."""
    del feedback
    return {"loss": metrics.absolute_loss(prediction.score, state.thresholds, example.y)}


def play_jonline(
    make: Any,
    grid: dict[str, np.ndarray],
    data: Any,
    num_seeds: int,
    num_rounds: int,
    record_every: int,
    *,
    measure: Any = measure,
    **kwargs,
) -> float:
    """Returns the mean loss of a sweep.

    A `make` that was passed before with the same `measure` is not compiled again.
    """
    result = jonline.sweep(
        make,
        measure,
        grid,
        data=data,
        num_rounds=num_rounds,
        num_seeds=num_seeds,
        key=0,
        record_every=record_every,
        **kwargs,
    )
    return float(result.mean_curve("loss")[..., -1].mean())


def time_all(entrants: list[Contestant], repetitions: int) -> dict[str, Timing]:
    """Returns the times of every contestant, their repetitions interleaved."""
    timings = {}
    for one in entrants:
        start = time.perf_counter()
        loss = one.play()
        timings[one.name] = Timing(time.perf_counter() - start, [], [], loss)
    for _ in range(repetitions):
        for one in entrants:
            wall, cpu = time.perf_counter(), time.process_time()
            one.play()
            timings[one.name].cpu.append(time.process_time() - cpu)
            timings[one.name].wall.append(time.perf_counter() - wall)
    return timings


def nanoseconds(one: Contestant, timing: Timing, *, wall: bool = False) -> float:
    """Returns the median per lane and round, in CPU time if one thread plays."""
    seconds = timing.wall if wall or one.workers > 1 else timing.cpu
    return 1e9 * statistics.median(seconds) / (one.lanes * one.rounds)


def compile_seconds(one: Contestant, timing: Timing) -> float | str:
    """Returns by how much the first call was longer than the others; blank if nothing compiles."""
    return max(0.0, timing.first - statistics.median(timing.wall)) if one.compiles else ""


def verdict(bar: Target) -> dict[str, Any]:
    """Returns the bar as a row, with whether its first value is reached; blank without an aim."""
    sign = -1 if bar.smaller_is_better else 1
    row = bar._asdict()
    del row["smaller_is_better"]
    if bar.first is None:
        return row | {"first": "", "ambition": "", "met": ""}
    return row | {"met": sign * bar.reached >= sign * bar.first}
