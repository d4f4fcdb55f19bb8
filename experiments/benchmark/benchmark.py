"""How fast jonline plays, beside NumPy loops, numba kernels and peers, measured in one run.

The first task, of `dford`: DFORD-linear on a table of 20 640 rows and 8 features with 10 labels,
rows drawn with replacement. A lane is one run of one point with one seed.

* NumPy: one run, round by round.
* numba, single: one run at a time; numba, lanes: all runs side by side, the physical reference.
* jonline: 1 to 1 200 lanes. "shared" is 24 points x 10 seeds, which share their examples and random
  numbers; "own" is 240 seeds of one point.
* "kernel 500", "kernel 2000": the same with a kernel, of `kernel`, over so many terms.
* "OSP", "subsets", "rankings", "solve": structured prediction, of `structured`.
* "OGD", "ODAFTRL", "SOLID": late answers, of `late`.
* "digits": one bandit stream beside river and Vowpal Wabbit, of `peers`.

Repetitions are interleaved and medians taken; the first call, which compiles, is reported apart.
One thread is measured in CPU time, two in wall time, and two devices are those of another process:
with two, XLA's pool has two threads, which slow a single device down. Memory and compile time are
those of fresh processes, and so are the CPU seconds of a first sweep. Every contestant's mean loss
must beat that of the best constant output.
`--seeds`, `--key` and `--data` change nothing.
"""

import dataclasses
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import jonline
from experiments.benchmark import dford, kernel, late, peers, structured
from experiments.benchmark.contest import (
    Contestant,
    compile_seconds,
    nanoseconds,
    time_all,
    verdict,
)
from experiments.benchmark.probe import (
    first_sweeps,
    fresh_processes,
    probe_all,
    targets,
    targets_of_sweeps,
)
from experiments.benchmark.references import dford as reference
from experiments.benchmark.references.kernel import make_small_table
from experiments.shared.figures import COLOURS, new_figure
from experiments.shared.options import SharedOptions
from experiments.shared.outputs import as_text, dump, provenance, write


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(SharedOptions):
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


def main(options: Options) -> None:
    """Measures everything; writes table, figure and `benchmark.json`."""
    options = options.capped(rounds=4_000, windows=4)
    repetitions, long_rounds = options.repetitions, options.long_rounds
    if options.smoke:
        repetitions, long_rounds = min(3, repetitions), 100_000
    every = long_rounds // 100
    jobs = [(long_rounds // 100, every), (long_rounds, every)]
    short, long = probe_all(jobs, workers=2 if options.smoke else 1)
    sweeps = {} if options.smoke else first_sweeps()
    jonline.configure(threads=1, host_devices=1)
    table = reference.make_table()
    with fresh_processes(1) as two_devices:
        two_devices.submit(jonline.configure, threads=1, host_devices=2)
        entrants = contestants(options, table, two_devices)
        timings = time_all(entrants, repetitions)
    ns = {one.name: nanoseconds(one, timings[one.name]) for one in entrants}
    wall = {one.name: nanoseconds(one, timings[one.name], wall=True) for one in entrants}
    bars = dford.targets(ns, wall) + targets(short, long) + targets_of_sweeps(sweeps)
    bars += [bar for one in (kernel, structured, late, peers) for bar in one.targets(ns)]
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
        dict.fromkeys(rows[0], "") | {"contestant": name, "learned": peers.MISSING}
        for name in peers.missing()
    ]
    folder = write(options, table=rows, figure=draw(ns))
    print("\n" + as_text([verdict(bar) for bar in bars]))
    everything = {
        "contestants": {
            one.name: one._asdict() | timings[one.name]._asdict() | {"play": None}
            for one in entrants
        },
        "nanoseconds": ns,
        "targets": [verdict(bar) for bar in bars],
        "probes": {"T": short._asdict(), "100 T": long._asdict()},
        "first_sweeps": sweeps,
        "provenance": provenance(options, {}),
    }
    dump(folder / "benchmark.json", everything)
    lost = [row["contestant"] for row in rows if not row["learned"]]
    if lost and not options.smoke:
        raise ValueError(f"did not learn, so that their times mean nothing: {lost}")


def contestants(
    options: Options, table: reference.Table, two_devices: ProcessPoolExecutor
) -> list[Contestant]:
    """Returns everything that is timed; `two_devices` is the process that has two."""
    rounds, smoke = options.rounds, options.smoke
    small = make_small_table()
    found = dford.contestants(table, rounds, options.record_every, two_devices, smoke=smoke)
    for budget in (50,) if smoke else kernel.BUDGETS:
        found += kernel.contestants(budget, small, rounds // 2)
    found += structured.contestants(rounds, smoke=smoke)
    found += late.contestants(rounds, smoke=smoke)
    return found + peers.contestants(max(1, rounds // 10), smoke=smoke)


def draw(ns: dict[str, float]):
    """Returns the figure: rounds x lanes per second of every contestant."""
    figure, axes = new_figure(figsize=(8, 0.4 * len(ns) + 1.2))
    names = sorted(ns, key=lambda name: -ns[name])
    colours = [COLOURS[not name.startswith("jonline")] for name in names]
    bars = axes.barh(names, [1e9 / ns[name] for name in names], color=colours)
    axes.bar_label(bars, [f"{1e9 / ns[name]:.2g}" for name in names], padding=3, fontsize=8)
    axes.set(xscale="log", xlabel="rounds x lanes per second")
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.15)
    return figure
