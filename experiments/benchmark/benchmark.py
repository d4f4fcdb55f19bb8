"""How fast jonline plays, beside NumPy loops, numba kernels and peers, measured in one run.

The first task: DFORD-linear on a table of 20 640 rows and 8 features with 10 labels, rows drawn
with replacement. A lane is one run of one point with one seed.

* NumPy: one run, round by round.
* numba, single: one run at a time; numba, lanes: all runs side by side, the physical reference.
* jonline: 1 to 1 200 lanes. "shared" is 24 points x 10 seeds, which share their examples and random
  numbers; "own" is 240 seeds of one point.
* "kernel 500", "kernel 2000": the same with a kernel, of `_contest_kernel`, over so many terms.
* "OSP", "subsets", "rankings", "solve": structured prediction, of `_contest_structured`.
* "OGD", "ODAFTRL", "SOLID": late answers, of `_contest_delay`.
* "digits": one bandit stream beside river and Vowpal Wabbit, of `_contest_peers`.

Repetitions are interleaved and medians taken; the first call, which compiles, is reported apart.
One thread is measured in CPU time, two in wall time, and two devices are those of another process:
with two, XLA's pool has two threads, which slow a single device down. Memory and compile time are
those of fresh processes. Every contestant's mean loss must beat that of the best constant output.
`--seeds`, `--key` and `--data` change nothing.
"""

import dataclasses
import functools
import itertools
import multiprocessing
import resource
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import jonline
from experiments.benchmark import kernel as _contest_kernel
from experiments.benchmark import late as _contest_delay
from experiments.benchmark import peers as _contest_peers
from experiments.benchmark import structured as _contest_structured
from experiments.benchmark.contest import (
    Contestant,
    Target,
    as_dataset,
    best_constant,
    compile_seconds,
    nanoseconds,
    play_jonline,
    time_all,
    verdict,
)
from experiments.benchmark.references import dford as _reference
from experiments.benchmark.references import kernel as _reference_kernel
from experiments.shared import sweeps as _common
from jonline import hypotheses, oracles, ordinal, streams

CLIP = 10.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(_common.Options):
    """Options of the measurement."""

    rounds: int = 50_000
    """Rounds of a jonline or numba call, a multiple of `windows`; NumPy plays a twentieth. With a
    kernel half of it, and NumPy a tenth; for the other tasks see their modules."""
    windows: int = 10
    """Windows of a jonline call."""
    data: Path | None = None
    """Changes nothing here: the table is drawn at random."""
    repetitions: int = 7
    """Timed calls of every contestant, >= 1; the median counts."""
    long_rounds: int = 3_000_000
    """Rounds of the long run for memory and compile time; the short one has a hundredth."""

    def __post_init__(self):
        super().__post_init__()
        if self.repetitions < 1:
            raise ValueError(f"--repetitions must be >= 1, got {self.repetitions}")
        if self.long_rounds < 100 or self.long_rounds % 100:
            raise ValueError(f"--long-rounds must be a multiple of 100, got {self.long_rounds}")


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
    return as_dataset(_reference.make_table())


def play_two_devices(num_seeds: int, num_rounds: int, record_every: int, block: int) -> float:
    """Plays 24 points on both devices of this process; returns the mean loss."""
    args = (make, grid(24), own_dataset(), num_seeds, num_rounds, record_every)
    return play_jonline(*args, block=block)


def fresh_processes(workers: int, **options: Any) -> ProcessPoolExecutor:
    """Returns a pool of new processes, which Ctrl-C ends without a traceback of their own."""
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_DFL),
        **options,
    )


def contestants(
    options: Options, table: _reference.Table, two_devices: ProcessPoolExecutor
) -> list[Contestant]:
    """Returns everything that is timed; `two_devices` is the process that has two."""
    data, rounds, constant = as_dataset(table), options.rounds, best_constant(table)

    def lanes_of(num_points, num_seeds):
        point = grid(num_points)
        return _reference.make_lanes(point["reg"], point["explore"], num_seeds, clip=CLIP)

    def entrant(name, lanes, play, *, rounds=rounds, workers=1, compiles=True):
        return Contestant(name, lanes, rounds, workers, constant, play, compiles)

    def sweep(name, num_points, num_seeds, **kwargs):
        args = (make, grid(num_points), data, num_seeds, rounds, options.record_every)
        return entrant(
            name, num_points * num_seeds, functools.partial(play_jonline, *args, **kwargs)
        )

    def sweep_on_two(name, num_seeds, block):
        def play():
            args = (num_seeds, rounds, options.record_every, block)
            return two_devices.submit(play_two_devices, *args).result()

        return entrant(name, 24 * num_seeds, play, workers=2)

    def kernel_rows(*budgets):
        table = _reference_kernel.make_small_table()
        rows = [_contest_kernel.contestants(budget, table, rounds // 2) for budget in budgets]
        return list(itertools.chain(*rows))

    fewer = max(1, rounds // 20)

    def numpy_loop():
        return _reference.numpy_loop(table, 0, lanes_of(1, 1), fewer)

    def numba_single():
        return float(_reference.numba_single(table, lanes_of(1, 10), rounds).mean())

    def numba_lanes(lanes):
        return float(_reference.numba_lanes(table, lanes, rounds).mean())

    def numba_two():
        with ThreadPoolExecutor(2) as pool:
            return sum(pool.map(numba_lanes, [lanes_of(24, 10)] * 2)) / 2

    others = _contest_structured.contestants(rounds, smoke=options.smoke)
    others += _contest_delay.contestants(rounds, smoke=options.smoke)
    others += _contest_peers.contestants(max(1, rounds // 10), smoke=options.smoke)
    small = [
        entrant("NumPy", 1, numpy_loop, rounds=fewer, compiles=False),
        entrant("numba, single", 10, numba_single),
        entrant("numba, lanes", 240, lambda: numba_lanes(lanes_of(24, 10))),
        sweep("jonline, 240 lanes, shared", 24, 10),
    ]
    if options.smoke:
        return small + kernel_rows(50) + others
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
        *kernel_rows(*_contest_kernel.BARS),
        *others,
    ]


class Probe(NamedTuple):
    """What a fresh process needed: peak memory in MB, seconds of compilation and in all."""

    memory: float
    compile: float
    total: float


def probe(num_rounds: int, record_every: int) -> Probe:
    """Plays 240 lanes and returns what it took; to be run in a fresh process."""
    jonline.configure(threads=1)
    compiling = []

    def listen(event, seconds, **_):
        if event.endswith("backend_compile_duration"):
            compiling.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    start = time.perf_counter()
    data = as_dataset(_reference.make_table())
    play_jonline(make, grid(24), data, 10, num_rounds, record_every)
    total = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    return Probe(peak, sum(compiling), total)


def probe_all(jobs: list[tuple[int, int]], workers: int) -> list[Probe]:
    """Returns `probe` of each (rounds, record_every), each in a fresh process."""
    with fresh_processes(workers, max_tasks_per_child=1) as pool:
        return list(pool.map(probe, *zip(*jobs, strict=True)))


def targets(
    ns: dict[str, float], wall: dict[str, float], short: Probe, long: Probe
) -> list[Target]:
    """Returns the bars, and ratios without one, whose contestants were timed."""
    shared, single, lanes = "jonline, 240 lanes, shared", "numba, single", "numba, lanes"
    bars = [
        Target("240 lanes, shared draws / numba lanes", ns[lanes] / ns[shared], 0.4, 3),
        Target("240 lanes, shared draws / NumPy", ns["NumPy"] / ns[shared], 300, 3500),
        Target("memory of 100 T - of T, MB", long.memory - short.memory, 10, 0, True),
        Target("compile time of 100 T / of T", long.compile / short.compile, 1.2, 1, True),
    ]
    if "jonline, 10 lanes" in ns:
        own, many = "jonline, 240 lanes, own", "jonline, 1200 lanes"
        scaling = 2 * wall[lanes] / (2 * wall["numba, lanes, 2 threads"])
        gain = wall["jonline, 480 lanes"] / wall["jonline, 480 lanes, 2 devices"]
        bars += [
            Target("240 lanes, own draws / numba lanes", ns[lanes] / ns[own], 0.3, 2),
            Target("1 lane / numba single", ns[single] / ns["jonline, 1 lane"], 0.1, 0.3),
            Target("10 lanes / numba single", ns[single] / ns["jonline, 10 lanes"], 0.3, 1.5),
            Target("time per lane, 1200 / 240 lanes", ns[many] / ns[shared], 1.15, 1, True),
            Target("2 devices / 1, of numba's gain by 2 threads", gain / scaling, 0.65, 0.95),
        ]
    others = (_contest_kernel, _contest_structured, _contest_delay, _contest_peers)
    return bars + [bar for contest in others for bar in contest.targets(ns)]


def main(options: Options) -> None:
    """Measures everything; writes table, figure and `benchmark.json`."""
    options = options.capped(rounds=4_000, windows=4)
    repetitions, long_rounds = options.repetitions, options.long_rounds
    if options.smoke:
        repetitions, long_rounds = min(3, repetitions), 100_000
    every = long_rounds // 100
    jobs = [(long_rounds // 100, every), (long_rounds, every)]
    short, long = probe_all(jobs, workers=2 if options.smoke else 1)
    jonline.configure(threads=1, host_devices=1)
    table = _reference.make_table()
    with fresh_processes(1) as two_devices:
        two_devices.submit(jonline.configure, threads=1, host_devices=2)
        entrants = contestants(options, table, two_devices)
        timings = time_all(entrants, repetitions)
    ns = {one.name: nanoseconds(one, timings[one.name]) for one in entrants}
    wall = {one.name: nanoseconds(one, timings[one.name], wall=True) for one in entrants}
    bars = targets(ns, wall, short, long)
    rows = [
        {
            "contestant": one.name,
            "ns_per_lane_round": ns[one.name],
            "million_rounds_lanes_per_s": 1e3 / ns[one.name],
            "first_call_s": compile_seconds(one, timings[one.name]),
            "mean_loss": timings[one.name].loss,
            "learned": bool(timings[one.name].loss < one.constant),
        }
        for one in entrants
    ]
    rows += [
        dict.fromkeys(rows[0], "") | {"contestant": name, "learned": _contest_peers.MISSING}
        for name in _contest_peers.missing()
    ]
    folder = _common.write(options, table=rows, figure=draw(ns))
    print("\n" + _common.as_text([verdict(bar) for bar in bars]))
    everything = {
        "contestants": {
            one.name: one._asdict() | timings[one.name]._asdict() | {"play": None}
            for one in entrants
        },
        "nanoseconds": ns,
        "targets": [verdict(bar) for bar in bars],
        "probes": {"T": short._asdict(), "100 T": long._asdict()},
        "provenance": _common.provenance(options, {}),
    }
    _common.dump(folder / "benchmark.json", everything)
    lost = [row["contestant"] for row in rows if not row["learned"]]
    if lost and not options.smoke:
        raise ValueError(f"did not learn, so that their times mean nothing: {lost}")


def draw(ns: dict[str, float]):
    """Returns the figure: rounds x lanes per second of every contestant."""
    figure, axes = _common.new_figure(figsize=(8, 0.4 * len(ns) + 1.2))
    names = sorted(ns, key=lambda name: -ns[name])
    colours = [_common.COLOURS[not name.startswith("jonline")] for name in names]
    bars = axes.barh(names, [1e9 / ns[name] for name in names], color=colours)
    axes.bar_label(bars, [f"{1e9 / ns[name]:.2g}" for name in names], padding=3, fontsize=8)
    axes.set(xscale="log", xlabel="rounds x lanes per second")
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.15)
    return figure
