"""The first task: DFORD, linear, from a table of 20 640 rows and 8 features with 10 labels.

A lane is one run of one point with one seed. "shared" is 24 points x 10 seeds, which share their
examples and random numbers; "own" is 240 seeds of one point.
"""

import functools
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np

import jonline
from experiments.benchmark.contest import (
    Contestant,
    Target,
    as_dataset,
    best_constant,
    play_jonline,
)
from experiments.benchmark.references import dford as reference
from jonline import hypotheses, oracles, ordinal, streams

CLIP = 10.0


def make(point, data):
    """Returns the learner and the environment of the task."""
    learner = ordinal.dford(
        hypotheses.linear(data.x.shape[1]),
        data.num_classes,
        reg=point["reg"],
        explore=point["explore"],
        clip=CLIP,
    )
    return learner, jonline.Environment(streams.resample(data), oracles.directional())


def grid(num_points: int) -> dict[str, np.ndarray]:
    """Returns points that differ in `explore`; a single one has 0.6."""
    explore = np.linspace(0.2, 1.0, num_points) if num_points > 1 else np.asarray([0.6])
    return jonline.product_grid(reg=np.asarray([4.0]), explore=explore)


@functools.cache
def own_dataset():
    """Returns the task's data set, made once in a process."""
    return as_dataset(reference.make_table())


def play_two_devices(num_seeds: int, num_rounds: int, record_every: int, block: int) -> float:
    """Plays 24 points on both devices of this process; returns the mean loss."""
    args = (make, grid(24), own_dataset(), num_seeds, num_rounds, record_every)
    return play_jonline(*args, block=block)


def contestants(
    table: reference.Table,
    rounds: int,
    record_every: int,
    two_devices: ProcessPoolExecutor,
    *,
    smoke: bool,
) -> list[Contestant]:
    """Returns what plays the task; `two_devices` is the process that has two."""
    data, constant = as_dataset(table), best_constant(table)

    def lanes_of(num_points, num_seeds):
        point = grid(num_points)
        return reference.make_lanes(point["reg"], point["explore"], num_seeds, clip=CLIP)

    def entrant(name, lanes, play, *, rounds=rounds, workers=1, compiles=True):
        return Contestant(name, lanes, rounds, workers, constant, play, compiles)

    def sweep(name, num_points, num_seeds, **kwargs):
        lanes = num_points * num_seeds
        times = 1 if smoke else max(1, 20 // lanes)  # a call has a fixed part: tracing
        args = (make, grid(num_points), data, num_seeds, times * rounds, times * record_every)
        play = functools.partial(play_jonline, *args, **kwargs)
        return entrant(name, lanes, play, rounds=times * rounds)

    def sweep_on_two(name, num_seeds, block):
        def play():
            args = (num_seeds, rounds, record_every, block)
            return two_devices.submit(play_two_devices, *args).result()

        return entrant(name, 24 * num_seeds, play, workers=2)

    fewer = max(1, rounds // 20)

    def numpy_loop():
        return reference.numpy_loop(table, 0, lanes_of(1, 1), fewer)

    def numba_single():
        return float(reference.numba_single(table, lanes_of(1, 10), rounds).mean())

    def numba_lanes(lanes):
        return float(reference.numba_lanes(table, lanes, rounds).mean())

    def numba_two():
        with ThreadPoolExecutor(2) as pool:
            return sum(pool.map(numba_lanes, [lanes_of(24, 10)] * 2)) / 2

    small = [
        entrant("NumPy", 1, numpy_loop, rounds=fewer, compiles=False),
        entrant("numba, single", 10, numba_single),
        entrant("numba, lanes", 240, lambda: numba_lanes(lanes_of(24, 10))),
        sweep("jonline, 240 lanes, shared", 24, 10),
    ]
    if smoke:
        return small
    return [
        *small,
        entrant("numba, lanes, 2 threads", 480, numba_two, workers=2),
        sweep("jonline, 1 lane", 1, 1),
        sweep("jonline, 10 lanes", 1, 10),
        sweep("jonline, 24 lanes", 24, 1),
        sweep("jonline, 240 lanes, own", 1, 240),
        sweep("jonline, 480 lanes", 24, 20, block=240),
        sweep_on_two("jonline, 480 lanes, 2 devices", 20, block=240),
        sweep("jonline, 1200 lanes", 24, 50, block=240),
        sweep_on_two("jonline, 1200 lanes, 2 devices", 50, block=208),
    ]


def targets(ns: dict[str, float], wall: dict[str, float]) -> list[Target]:
    """Returns the bars, and ratios without one, whose contestants were timed."""
    shared, single, lanes = "jonline, 240 lanes, shared", "numba, single", "numba, lanes"
    bars = [
        Target("240 lanes, shared draws / numba lanes", ns[lanes] / ns[shared], 1.45, 3),
        Target("240 lanes, shared draws / NumPy", ns["NumPy"] / ns[shared], 300, 3500),
    ]
    if "jonline, 10 lanes" in ns:
        own, many = "jonline, 240 lanes, own", "jonline, 1200 lanes"
        scaling = 2 * wall[lanes] / (2 * wall["numba, lanes, 2 threads"])
        gain = wall["jonline, 480 lanes"] / wall["jonline, 480 lanes, 2 devices"]
        bars += [
            Target("240 lanes, own draws / numba lanes", ns[lanes] / ns[own], 0.75, 2),
            Target("1 lane / numba single", ns[single] / ns["jonline, 1 lane"], 0.2, 0.3),
            Target("10 lanes / numba single", ns[single] / ns["jonline, 10 lanes"], 0.9, 1.5),
            Target("time per lane, 1200 / 240 lanes", ns[many] / ns[shared], 1.15, 1, True),
            Target("2 devices / 1, of numba's gain by 2 threads", gain / scaling, 0.65, 0.95),
        ]
    return bars
