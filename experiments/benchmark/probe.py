"""What a sweep needs in a fresh process: memory, and time to compile."""

import functools
import multiprocessing
import resource
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import jax

import jonline
from experiments.benchmark import dford, structured
from experiments.benchmark.contest import Target, play_jonline

SWEEPS = {"DFORD": 1.2, "OSP": 2.0, "subsets": 3.0, "rankings": 3.0}  # first bar in CPU seconds


def fresh_processes(workers: int, **options: Any) -> ProcessPoolExecutor:
    """Returns a pool of new processes, which Ctrl-C ends without a traceback of their own."""
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_DFL),
        **options,
    )


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
    play_jonline(dford.make, dford.grid(24), dford.own_dataset(), 10, num_rounds, record_every)
    total = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    return Probe(peak, sum(compiling), total)


def probe_all(jobs: list[tuple[int, int]], workers: int) -> list[Probe]:
    """Returns `probe` of each (rounds, record_every), each in a fresh process."""
    with fresh_processes(workers, max_tasks_per_child=1) as pool:
        return list(pool.map(probe, *zip(*jobs, strict=True)))


def first_sweep(name: str) -> float:
    """Returns the CPU seconds of a short sweep, compiled and played, in a fresh process."""
    jonline.configure(threads=1)
    if name == "DFORD":
        args = dford.make, dford.grid(24), dford.own_dataset(), 10, 1000, 100
        play = functools.partial(play_jonline, *args)
    else:
        task = {
            "OSP": functools.partial(structured.classes, 10),
            "subsets": structured.subsets,
            "rankings": structured.rankings,
        }[name]
        play = structured.sweeper(task(), 100).play
    start = time.process_time()
    play()
    return time.process_time() - start


def first_sweeps() -> dict[str, float]:
    """Returns `first_sweep` of each task, one after another."""
    with fresh_processes(1, max_tasks_per_child=1) as pool:
        return dict(zip(SWEEPS, pool.map(first_sweep, SWEEPS), strict=True))


def targets_of_sweeps(seconds: dict[str, float]) -> list[Target]:
    """Returns the bars of first sweeps."""
    return [
        Target(f"first sweep, CPU s: {name}", value, SWEEPS[name], 0.8, True)
        for name, value in seconds.items()
    ]


def targets(short: Probe, long: Probe) -> list[Target]:
    """Returns the bars of a run of T rounds and one of 100 T."""
    return [
        Target("memory of 100 T - of T, MB", long.memory - short.memory, 10, 0, True),
        Target("compile time of 100 T / of T", long.compile / short.compile, 1.2, 1, True),
    ]
