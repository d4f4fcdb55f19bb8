"""Sweeps: all points of a grid with all seeds, in blocks of lanes, on all local devices."""

import functools
import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jonline import checks, runtime
from jonline._engine import block as engine
from jonline._engine.rounds import Make, Metrics
from jonline._sweep import arguments as door
from jonline._sweep import blocks, fingerprint, processes
from jonline._sweep import driver as host
from jonline._sweep import partial as board
from jonline._sweep.folder import open_folder
from jonline._sweep.keys import one_key, seed_keys
from jonline._sweep.result import SweepResult
from jonline.core import PRNGKey

_AT_ONCE = 1 << 28  # bytes of the rounds that a trace holds on the device
_MOST_POINTS = 10**8
_MAKE = "(point, data) -> (learner, environment)"


class Trace(NamedTuple):
    """Every round of a short stretch of one run, leading axis = rounds.

    Attributes:
      rounds: (n,) round numbers, 0-based.
      example, prediction, feedback: what nature showed, the learner chose, the oracle answered.
      state: the learner's state before the round's update.
      delivered: (n,) int32 answers delivered at the end of the round.
    """

    rounds: np.ndarray
    example: Any
    prediction: Any
    feedback: Any
    state: Any
    delivered: np.ndarray


def product_grid(**axes: Any) -> dict[str, np.ndarray]:
    """Returns all combinations of the axes' values, (G,) each; the last axis varies fastest.

    The values stay as they are given: the device's precision is taken where a sweep computes.

    Args:
      axes: name -> a number or a 1-D sequence of numbers.

    Raises:
      TypeError: if an axis does not hold numbers.
      ValueError: if an axis is empty or has more than one dimension.
    """
    columns = {name: np.atleast_1d(door.check_axis(name, values)) for name, values in axes.items()}
    size = math.prod(len(column) for column in columns.values())
    checks.require(size <= _MOST_POINTS, "product_grid", f"have <= {_MOST_POINTS} points", size)
    mesh = np.meshgrid(*columns.values(), indexing="ij")
    return {name: grid.ravel() for name, grid in zip(columns, mesh, strict=True)}


def sweep(
    make: Make,
    metrics: Metrics,
    grid: dict[str, Any],
    *,
    data: Any = None,
    num_rounds: int,
    num_seeds: int,
    key: PRNGKey | int,
    record_every: int,
    block: int | None = None,
    devices: Sequence[Any] | None = None,
    windows_per_call: int | None = None,
    progress: bool | None = None,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_seconds: float = 60.0,
) -> SweepResult:
    """Plays every point of a grid with every seed.

    Seed s of every point meets the same examples and random numbers. A run's records and final
    state are the same bits alone, in any sweep, in any block, in any number of calls and on any
    number of devices, given the same commit, versions, kind of device and `record_every`.

    Args:
      make: `(point, data) -> (learner, environment)`. It is called once for each point with
        concrete numbers, so that the factories check them, and then traced, in every call anew: a
        program that was compiled before is known by what it is, whatever function it is made by.
      metrics: `(example, prediction, feedback, state) -> dict` of scalars, `state` before the
        update. Integers and bools are summed as int32; a sum that passes its ends is an error
        (return a float where it may). uint32 and uint64 are errors.
      grid: name -> (G,) numbers, e.g. from `product_grid`. {} is one point without hyperparameters.
        The result has them as they are given, the device in its precision (an integer as int32).
      data: a pytree of arrays handed to `make`; one copy per device.
      num_rounds: T >= 1, a multiple of `record_every`.
      num_seeds: S >= 1.
      key: the root of all randomness: a typed key, an old uint32 key or an int in 0…2^32 - 1; or
        `num_seeds` distinct keys, one for each seed. Keys whose `fold_in` is no hash, as that of
        "unsafe_rbg", are refused; threefry, JAX's default, is the kind that bits are promised for.
      record_every: rounds of a window >= 1; each metric is recorded as its sum over a window.
      block: lanes of a block, a multiple of 16 up to 2^20. By default up to 256 on a CPU, as many
        as have their states in the cache; elsewhere what memory holds.
      devices: local devices that share the blocks; by default all of them.
      windows_per_call: windows between two returns to the host; by default about a second's worth.
      progress: show a progress bar (needs the extra `experiments`).
      checkpoint: a folder, in which the sweep is kept while it runs (needs the extra
        `checkpoint`). Called again with the same arguments and folder, finished blocks are read
        from there and others go on where they were, to the same bits; with other arguments it is
        an error. A path of this machine, also with "~". See docs/large_sweeps.md.
      checkpoint_seconds: time between two checkpoints of a block, > 0; a block's end is one too.

    Returns:
      A SweepResult. Runs that become NaN or infinite are reported in it and by one RuntimeWarning
      at the end; other runs are not touched.

    Raises:
      ValueError, TypeError: on bad input, before anything is compiled, with name, rule and value;
        also if called within jit, vmap or grad; if a round has effects, such as printing; if the
        folder, or a block in it, is another sweep's.
      OSError: if a checkpoint cannot be written (earlier ones are still there) or is damaged.
      RuntimeError: if `jax_disable_jit` is set; `jonline.step` plays rounds by hand under it.
    """
    num_seeds = checks.at_least("num_seeds", num_seeds, 1)
    num_rounds, record_every = door.check_rounds(num_rounds, record_every)
    host.check_history(1, num_seeds, num_rounds // record_every, 1)  # before keys are made
    if windows_per_call is not None:
        windows_per_call = checks.at_least("windows_per_call", windows_per_call, 1, host.CAPACITY)
    checkpoint_seconds = checks.positive("checkpoint_seconds", checkpoint_seconds, static=True)
    folder = None if checkpoint is None else checks.path("checkpoint", checkpoint)
    keys = seed_keys(key, num_seeds)
    return _sweep(
        make,
        metrics,
        grid,
        data,
        num_rounds,
        keys,
        record_every,
        None if block is None else blocks.checked(block),
        devices,
        windows_per_call,
        None if progress is None else checks.flag("progress", progress),
        folder,
        checkpoint_seconds,
    )


def run(
    make: Make,
    metrics: Metrics,
    point: dict[str, Any],
    *,
    data: Any = None,
    num_rounds: int,
    key: PRNGKey | int,
    record_every: int,
    seed: int = 0,
) -> SweepResult:
    """Plays one run: the lane of `point` and `seed` that a sweep with the same key has, to the bit.

    Args:
      point: name -> number.
      seed: which seed of the sweep, >= 0.
      make, metrics, data, num_rounds, key, record_every: as for `sweep`.

    Returns:
      A SweepResult with one point and one seed.

    Raises:
      As `sweep`.
    """
    return _sweep(
        make,
        metrics,
        door.one_point(point),
        data,
        num_rounds,
        one_key(key, seed),
        record_every,
    )


def trace(
    make: Make,
    point: dict[str, Any],
    *,
    data: Any = None,
    key: PRNGKey | int,
    first: int,
    last: int,
    seed: int = 0,
) -> Trace:
    """Plays one run and returns everything that happened in rounds first…last-1.

    Args:
      make, point, data, key, seed: as for `run`.
      first, last: 0-based rounds, 0 <= first < last. Rounds before `first` are played unseen.
        Effects of the others, `jax.debug.print` for one, happen once in each; those that return
        values are refused.

    Returns:
      A Trace on the host, last - first rounds long.

    Raises:
      ValueError, TypeError: as `sweep`; also if the stretch needs too much memory.
    """
    door.check_compiles()
    checks.function("make", make, _MAKE)
    first = checks.at_least("first", first, 0)
    last = checks.at_least("last", last, first + 1)
    checks.require(last < 2**31, "last", "be < 2^31", last)
    run_key = one_key(key, seed)
    labels, data = door.one_point(point), door.check_data(data)
    grid = door.on_device(labels)
    longest, _ = door.check_points(make, labels, data, last)
    horizon = last if longest > last else engine.ENDLESS
    plan = engine.Plan(make, _no_metrics, engine.WIDTH, 1, 1, horizon)
    points = {name: np.repeat(axis, engine.WIDTH) for name, axis in grid.items()}
    parts = []
    with door.explaining(make, grid, data):
        inputs = jax.device_put(engine.Inputs(data, run_key, points))
        row = engine.bytes_of_a_round(plan, inputs)
        host.check_stretch(last - first, row)
        effects = engine.plain_round(plan, inputs)
        at_once = _AT_ONCE // (row * engine.WIDTH + 1) if effects is None else 1
        length = max(1, min(at_once, last - first))
        for t, carry, seen in engine.stretch(plan, inputs, first, last, length):
            if effects is not None:
                effects(t, carry)
            parts.append(jax.tree.map(lambda leaf: np.asarray(leaf[..., 0]), seen))
    seen = jax.tree.map(lambda *rows: np.concatenate(rows), *parts)
    return Trace(np.arange(first, last), *seen)


def _no_metrics(example, prediction, feedback, state):
    del example, prediction, feedback, state
    return {}


def _sweep(make, metrics, grid, data, *rest) -> SweepResult:
    checks.function("make", make, _MAKE)
    checks.function("metrics", metrics, "(example, prediction, feedback, state) -> dict")
    with door.explaining(make, grid, data):
        return _played(make, metrics, grid, data, *rest)


def _played(
    make, metrics, grid, data, num_rounds, keys, record_every,
    block=None, devices=None, windows_per_call=None, progress=None,
    folder: Any = None, seconds=60.0,
) -> SweepResult:  # fmt: skip
    door.check_compiles()
    num_rounds, record_every = door.check_rounds(num_rounds, record_every)
    num_windows = num_rounds // record_every
    labels, data = door.check_grid(grid), door.check_data(data)
    grid = door.on_device(labels)
    num_points = len(next(iter(grid.values()))) if grid else 1
    host.check_history(num_points, len(keys), num_windows, 1)
    longest, state_bytes = door.check_points(make, labels, data, num_rounds)
    job = host.Job(
        make=make,
        metrics=metrics,
        grid=grid,
        num_points=num_points,
        keys=keys,
        data_on=functools.cache(lambda device: jax.device_put(data, device)),
        record_every=record_every,
        num_windows=num_windows,
        horizon=num_rounds if longest > num_rounds else engine.ENDLESS,
        state_bytes=state_bytes,
    )
    opens = None
    if folder is not None or jax.process_count() > 1:
        lane = engine.Inputs(data, keys, {name: axis[:1] for name, axis in grid.items()})
        bits = fingerprint.entries_of(
            {"data": data, "program": engine.written_out(job.plan(1), lane)},
            {"record_every": record_every},
            jax.local_devices()[0],
        )
        extent = fingerprint.extent_of(
            {"grid": grid, "keys": keys},
            {"num_rounds": num_rounds, "num_seeds": len(keys)}
            | ({} if block is None else {"block": block}),
        )
        processes.check_same(bits | extent)
        if folder is not None:
            opens = functools.partial(
                open_folder, folder, bits, extent, runtime.settings(), seconds
            )
    played = host.play(job, block, devices, windows_per_call, progress, opens)
    bad = tuple(sorted(played.non_finite.values()))
    board.warn_of(bad, played.undelivered.size, labels, record_every)
    return SweepResult(
        played.records,
        played.states,
        labels,
        record_every,
        played.undelivered,
        bad,
        runtime.environment(),
    )
