"""The host's loop of a sweep: it plays the blocks on the local devices and collects their sums."""

import functools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, NamedTuple

import jax
import numpy as np

from jonline import checks
from jonline._engine.block import (
    Built,
    Inputs,
    Plan,
    advance,
    build,
    bytes_of_a_lane,
    start_block,
)
from jonline._engine.exact import LANE_MULTIPLE
from jonline._engine.windows import Windows
from jonline._sweep import processes
from jonline._sweep.blocks import Block, cut, rounded_up, shape
from jonline._sweep.checkpoint import BlockFolder
from jonline._sweep.folder import Folder
from jonline._sweep.partial import (
    PartialResult,
    block_folder,
    note_non_finite,
    of_all_processes,
    resume,
    save,
)
from jonline._sweep.progress import bar
from jonline.core import Make, Metrics

CAPACITY = 256  # most windows of a call; fixed, so that another number of rounds compiles nothing
MAX_HISTORY = 2_000_000_000  # bytes of records beyond which a sweep is refused
_CPU_LANES = 256
_CPU_CACHE = 1 << 19  # bytes of the states of a block
_COPIES = 8  # of the carry: its update, and what a round holds besides
_CALL_SECONDS = 1.0


class Job(NamedTuple):
    """All runs of a sweep, checked.

    Attributes:
      make, metrics, record_every: as for `jonline.sweep`.
      grid: name -> (num_points,).
      keys: (seeds,) run keys.
      data_on: `(device) -> data` there.
      horizon: as in `Plan`.
      state_bytes: of the state of one run.
    """

    make: Make
    metrics: Metrics
    grid: dict[str, np.ndarray]
    num_points: int
    keys: Any
    data_on: Callable[[Any], Any]
    record_every: int
    num_windows: int
    horizon: int
    state_bytes: int

    def plan(self, num_points: int) -> Plan:
        """The program for blocks with `num_points` points."""
        return Plan(self.make, self.metrics, num_points, self.record_every, CAPACITY, self.horizon)


def check_devices(devices: Sequence[Any] | None) -> Sequence[Any]:
    """Returns the devices to play on, by default all local ones; raises unless they are some."""
    devices = jax.local_devices() if devices is None else devices
    if not isinstance(devices, Sequence) or not all(isinstance(d, jax.Device) for d in devices):
        raise TypeError(f"devices must be a list of JAX devices, got {devices!r:.100}")
    checks.require(len(devices) > 0, "devices", "name at least one device", devices)
    return devices


def sides_of_blocks(job: Job, block: int | None, devices: Sequence[Any]) -> tuple[int, int]:
    """Returns the seeds and points of the blocks of a sweep, of `block` lanes where it is given."""
    most = _most_lanes(job, devices) if block is None else 0
    return shape(len(job.keys), job.num_points, block, most)


def play_blocks(
    job: Job,
    sides: tuple[int, int],
    devices: Sequence[Any],
    windows_per_call: int | None,
    progress: bool | None,
    folder: Folder | None,
) -> PartialResult:
    """Plays all blocks of a sweep; each device takes the next block when it is done with one.

    Args:
      job: the sweep.
      sides: seeds and points of its blocks.
      devices, windows_per_call, progress: as for `jonline.sweep`, checked.
      folder: of its checkpoints.

    Raises:
      ValueError: if the records would be too large, or the processes differ in their blocks.
      ImportError: if a progress bar is wanted and tqdm is missing.
    """
    processes.check_same_blocks(sides)
    blocks = cut(len(job.keys), job.num_points, sides)
    own = processes.own_blocks(blocks)
    devices = devices[: max(len(own), 1)]
    waiting, lock, stop = iter(own), threading.Lock(), threading.Event()

    with bar(progress, len(own) * job.num_windows) as tick:
        built = functools.cache(lambda device: _build(job, blocks[0], device))
        partial = _empty(job, built(devices[0]).out)
        tick(0)

        def work(device: Any) -> None:
            while not stop.is_set():
                with lock:
                    number, block = next(waiting, (0, None))
                if block is None:
                    return
                saved = folder and block_folder(folder, number, block, job.grid, job.keys)
                for count in _play_block(
                    job, built(device), block, device, partial, windows_per_call, saved
                ):
                    with lock:
                        tick(count)
                    if stop.is_set():
                        return

        if len(devices) == 1:
            work(devices[0])
        else:
            with ThreadPoolExecutor(len(devices)) as pool:
                there = _with_settings_of_here(work)
                try:
                    for done in as_completed([pool.submit(there, device) for device in devices]):
                        done.result()
                finally:
                    stop.set()
    return of_all_processes(partial, blocks)


def check_history(num_points: int, num_seeds: int, num_windows: int, num_metrics: int) -> None:
    """Raises ValueError if the records would need more than MAX_HISTORY bytes."""
    size = 4 * num_points * num_seeds * num_windows * num_metrics
    if size > MAX_HISTORY:
        raise ValueError(
            f"the records would need {size} bytes ({num_points} points x {num_seeds} seeds x "
            f"{num_windows} windows x {num_metrics} metrics x 4), more than {MAX_HISTORY}; use a "
            "larger record_every (record_every=num_rounds keeps only the final sums) or fewer "
            "metrics"
        )


def check_stretch(num_rounds: int, size: int) -> None:
    """Raises ValueError if a trace of rounds of `size` bytes would need more than MAX_HISTORY."""
    if num_rounds * size > MAX_HISTORY:
        raise ValueError(
            f"the trace would need {num_rounds * size} bytes ({num_rounds} rounds x {size}), more "
            f"than {MAX_HISTORY}; use a stretch of at most {MAX_HISTORY // size} rounds"
        )


def _with_settings_of_here(work: Callable[[Any], None]) -> Callable[[Any], None]:
    """Takes what `jax.enable_x64` and its like have set in this thread along to another."""
    here = dict(jax.config.values)

    def with_settings(device: Any) -> None:
        with (
            jax.enable_x64(here["jax_enable_x64"]),
            jax.threefry_partitionable(here["jax_threefry_partitionable"]),
            jax.default_matmul_precision(here["jax_default_matmul_precision"]),
        ):
            work(device)

    return with_settings


def _play_block(
    job: Job,
    built: Built,
    block: Block,
    device: Any,
    partial: PartialResult,
    windows_per_call: int | None,
    folder: BlockFolder | None,
) -> Iterator[int]:
    """Plays one block into the result; yields the number of windows after each call."""
    running = start_block(built, _inputs(job, block, device))
    first, count = 0, windows_per_call or 1
    if folder is not None:
        first, carry = resume(folder, block, partial, running.carry, job.num_windows, device)
        running = running._replace(carry=carry)
        yield first
    saved_at = time.monotonic()
    while first < job.num_windows:
        last = min(first + count, job.num_windows)
        begin = time.perf_counter()
        running, windows = advance(built, running, first, last)
        rows = jax.tree.map(lambda rows, n=last - first: np.asarray(rows)[:n], windows)
        of_runs = jax.tree.map(block.runs, rows)
        _check_sums(job, block, first, of_runs.overflown)
        note_non_finite(partial, block, "state", first, of_runs.bad > 0)
        for name, sums in of_runs.sums.items():
            partial.records[name][*block.where, first:last] = sums
            note_non_finite(partial, block, name, first, ~np.isfinite(sums))
        if windows_per_call is None:
            seconds = (time.perf_counter() - begin) / (last - first)
            count = int(np.clip(_CALL_SECONDS / max(seconds, 1e-9), 1, CAPACITY))
        due = last == job.num_windows
        if folder is not None and (due or time.monotonic() - saved_at >= folder.folder.seconds):
            save(folder, block, partial, running.carry, last)
            saved_at = time.monotonic()
        yield last - first
        first = last

    def store(all_runs: np.ndarray, leaf: Any) -> None:
        all_runs[block.where] = block.runs(leaf)

    store(partial.undelivered, running.carry.num_pending)
    jax.tree.map(store, partial.states, running.carry.state)


def _check_sums(job: Job, block: Block, first: int, overflown: dict[str, np.ndarray]) -> None:
    """Raises ValueError if a sum of whole numbers has passed the ends of int32."""
    for name, past in overflown.items():
        for point, seed, window in np.argwhere(past):
            begin = (first + int(window)) * job.record_every
            raise ValueError(
                f"metric {name!r} must sum to less than 2^31 within a window, but passes it in "
                f"rounds {begin} to {begin + job.record_every - 1} at point {block.point + point}, "
                f"seed {block.seed + seed}; use a smaller record_every, or return a float"
            )


def _build(job: Job, block: Block, device: Any) -> Built:
    return build(job.plan(block.sides[1]), _inputs(job, block, device))


def _inputs(job: Job, block: Block, device: Any) -> Inputs:
    """The block's inputs on the device; padding repeats the last seed and point."""
    seeds = block.seed + np.minimum(np.arange(block.sides[0]), block.seeds - 1)
    points = block.point + np.minimum(np.arange(block.sides[1]), block.points - 1)
    grid = {name: axis[points] for name, axis in job.grid.items()}
    wanted = np.array([block.seeds, block.points], np.int32)
    keys, grid, wanted = jax.device_put((job.keys[seeds], grid, wanted), device)
    return Inputs(job.data_on(device), keys, grid, wanted)


def _empty(job: Job, out: tuple[Any, Windows]) -> PartialResult:
    """Returns host memory for the results of all blocks; `out` is what a call returns."""
    carry, windows = out
    runs = (job.num_points, len(job.keys))
    check_history(*runs, job.num_windows, len(windows.sums))

    def room(leaf: Any) -> np.ndarray:
        return np.zeros((*runs, *leaf.shape[:-1]), leaf.dtype)

    records = {
        name: np.zeros((*runs, job.num_windows), rows.dtype) for name, rows in windows.sums.items()
    }
    return PartialResult(records, jax.tree.map(room, carry.state), room(carry.num_pending), {})


def _most_lanes(job: Job, devices: Sequence[Any]) -> int:
    """Lanes of a block if nobody says: an even share that memory holds, on a CPU the cache."""
    shares = len(devices) * jax.process_count()
    share = rounded_up(-(-len(job.keys) * job.num_points // shares))
    if devices[0].platform == "cpu":
        held = min(_CPU_LANES, _CPU_CACHE // max(job.state_bytes, 1))
    else:
        inputs = _inputs(job, Block(0, 0, 1, 1, (1, LANE_MULTIPLE)), devices[0])
        lane = bytes_of_a_lane(job.plan(LANE_MULTIPLE), inputs)
        stats = devices[0].memory_stats() or {}
        held = stats.get("bytes_limit", 1 << 32) // (_COPIES * (lane + 4 * CAPACITY))
    return max(min(share, held // LANE_MULTIPLE * LANE_MULTIPLE), LANE_MULTIPLE)
