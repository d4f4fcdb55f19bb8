"""The host loop of a sweep: it plays the blocks on the local devices and collects their sums."""

import functools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np

from jonline import checks
from jonline._engine import block as engine
from jonline._engine.block import WIDTH
from jonline._engine.rounds import Make, Metrics
from jonline._sweep import checkpoint, processes
from jonline._sweep.blocks import Block, cut, rounded_up, shape
from jonline._sweep.folder import Folder
from jonline._sweep.partial import Played, note_bad, of_all_processes, place, resume, save

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
      horizon: as in `engine.Plan`.
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

    def plan(self, num_points: int) -> engine.Plan:
        """The program for blocks with `num_points` points."""
        return engine.Plan(
            self.make, self.metrics, num_points, self.record_every, CAPACITY, self.horizon
        )


def play(
    job: Job,
    block: int | None = None,
    devices: Sequence[Any] | None = None,
    windows_per_call: int | None = None,
    progress: bool | None = None,
    folder: Callable[[Callable[[], tuple[int, int]]], Folder] | None = None,
) -> Played:
    """Plays all blocks of a sweep; each device takes the next block when it is done with one.

    Args:
      job: the sweep.
      block, devices, windows_per_call, progress: as for `jonline.sweep`.
      folder: opens the folder of checkpoints, given a function that returns the sides of a block.

    Raises:
      ValueError: if an argument is out of range or the records would be too large.
      ImportError: if a progress bar is wanted and tqdm is missing.
    """
    devices = jax.local_devices() if devices is None else devices
    if not isinstance(devices, Sequence) or not all(isinstance(d, jax.Device) for d in devices):
        raise TypeError(f"devices must be a list of JAX devices, got {devices!r:.100}")
    checks.require(len(devices) > 0, "devices", "name at least one device", devices)

    def sides() -> tuple[int, int]:
        most = _most_lanes(job, all_devices) if block is None else 0
        return shape(len(job.keys), job.num_points, block, most)

    all_devices = devices
    kept = None if folder is None else folder(sides)
    lanes = processes.agreed(sides() if kept is None else kept.sides)
    blocks = cut(len(job.keys), job.num_points, lanes)
    todo = processes.mine(blocks)
    devices = devices[: max(len(todo), 1)]
    waiting, lock, stop = iter(todo), threading.Lock(), threading.Event()

    with _bar(progress, len(todo) * job.num_windows) as tick:
        build = functools.cache(lambda device: _build(job, blocks[0], device))
        board = _board(job, build(devices[0]).out)
        tick(0)

        def work(device: Any) -> None:
            while not stop.is_set():
                with lock:
                    number, mine = next(waiting, (0, None))
                if mine is None:
                    return
                keep = None if kept is None else place(kept, number, mine, job.grid, job.keys)
                for count in _play_block(
                    job, build(device), mine, device, board, windows_per_call, keep
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
    return of_all_processes(board, blocks)


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
    built: engine.Built,
    block: Block,
    device: Any,
    board: Played,
    windows_per_call: int | None,
    keep: checkpoint.Place | None,
) -> Iterator[int]:
    """Plays one block into the board; yields the number of windows after each call."""
    running = engine.begin(built, _inputs(job, block, device))
    first, count = 0, windows_per_call or 1
    if keep is not None:
        carry = running.carry
        first, carry = resume(keep, block, board, carry, job.num_windows, device)
        running = running._replace(carry=carry)
        yield first
    saved_at = time.monotonic()
    while first < job.num_windows:
        last = min(first + count, job.num_windows)
        begin = time.perf_counter()
        running, windows = engine.advance(built, running, first, last)
        rows = jax.tree.map(lambda rows, n=last - first: np.asarray(rows)[:n], windows)
        of_runs = jax.tree.map(block.runs, rows)
        _check_sums(job, block, first, of_runs.overflown)
        note_bad(board, block, "state", first, of_runs.bad > 0)
        for name, sums in of_runs.sums.items():
            board.records[name][*block.where, first:last] = sums
            note_bad(board, block, name, first, ~np.isfinite(sums))
        if windows_per_call is None:
            seconds = (time.perf_counter() - begin) / (last - first)
            count = int(np.clip(_CALL_SECONDS / max(seconds, 1e-9), 1, CAPACITY))
        due = last == job.num_windows
        if keep is not None and (due or time.monotonic() - saved_at >= keep.folder.seconds):
            save(keep, block, board, running.carry, last)
            saved_at = time.monotonic()
        yield last - first
        first = last

    def store(all_runs: np.ndarray, leaf: Any) -> None:
        all_runs[block.where] = block.runs(leaf)

    store(board.undelivered, running.carry.num_pending)
    jax.tree.map(store, board.states, running.carry.state)


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


def _build(job: Job, block: Block, device: Any) -> engine.Built:
    return engine.build(job.plan(block.sides[1]), _inputs(job, block, device))


def _inputs(job: Job, block: Block, device: Any) -> engine.Inputs:
    """The block's inputs on the device; padding repeats the last seed and point."""
    seeds = block.seed + np.minimum(np.arange(block.sides[0]), block.seeds - 1)
    points = block.point + np.minimum(np.arange(block.sides[1]), block.points - 1)
    mine = {name: axis[points] for name, axis in job.grid.items()}
    keys, mine = jax.device_put((job.keys[seeds], mine), device)
    return engine.Inputs(job.data_on(device), keys, mine)


def _board(job: Job, out: tuple[Any, engine.Windows]) -> Played:
    """Returns host memory for the results of all blocks; `out` is what a call returns."""
    carry, windows = out
    runs = (job.num_points, len(job.keys))
    check_history(*runs, job.num_windows, len(windows.sums))

    def room(leaf: Any) -> np.ndarray:
        return np.zeros((*runs, *leaf.shape[:-1]), leaf.dtype)

    records = {
        name: np.zeros((*runs, job.num_windows), rows.dtype) for name, rows in windows.sums.items()
    }
    return Played(records, jax.tree.map(room, carry.state), room(carry.num_pending), {})


def _most_lanes(job: Job, devices: Sequence[Any]) -> int:
    """Lanes of a block if nobody says: an even share that memory holds, on a CPU the cache."""
    shares = len(devices) * jax.process_count()
    share = rounded_up(-(-len(job.keys) * job.num_points // shares))
    if devices[0].platform == "cpu":
        held = min(_CPU_LANES, _CPU_CACHE // max(job.state_bytes, 1))
    else:
        inputs = _inputs(job, Block(0, 0, 1, 1, (1, WIDTH)), devices[0])
        lane = engine.bytes_of_a_lane(job.plan(WIDTH), inputs)
        stats = devices[0].memory_stats() or {}
        held = stats.get("bytes_limit", 1 << 32) // (_COPIES * (lane + 4 * CAPACITY))
    return max(min(share, held // WIDTH * WIDTH), WIDTH)


@contextmanager
def _bar(progress: bool | None, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar over windows that says "compiling" until its first tick."""
    if not progress:
        yield lambda count: None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError('progress=True needs tqdm: pip install "jonline[experiments]"') from error
    with tqdm(total=total, desc="compiling", unit="window", leave=False) as bar:

        def tick(count: int) -> None:
            bar.set_description("playing", refresh=count == 0)
            bar.update(count)

        try:
            yield tick
        finally:  # left above the bars of other threads, in whose lines tqdm would leave it
            shown = f"\r{bar}"
            bar.close()
            tqdm.write(shown, file=bar.fp)
