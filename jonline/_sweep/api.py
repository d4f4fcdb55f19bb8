"""Sweeps: all points of a grid with all seeds, in blocks of lanes, on all local devices."""

import functools
import math
import os
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jonline import checks, runtime
from jonline._engine.block import ENDLESS, Inputs, program_text
from jonline._sweep import arguments, blocks, driver, fingerprint, partial, processes
from jonline._sweep.folder import open_folder
from jonline._sweep.keys import one_key, seed_keys
from jonline._sweep.result import SweepResult
from jonline.core import Make, Metrics, PRNGKey

_MOST_POINTS = 10**8


def product_grid(**axes: Any) -> dict[str, np.ndarray]:
    """Returns all combinations of the axes' values, (G,) each; the last axis varies fastest.

    The values stay as they are given: the device's precision is taken where a sweep computes.

    Args:
      axes: name -> a number or a 1-D sequence of numbers.

    Raises:
      TypeError: if an axis does not hold numbers.
      ValueError: if an axis is empty or has more than one dimension.
    """
    columns = {
        name: np.atleast_1d(arguments.check_axis(name, values)) for name, values in axes.items()
    }
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
    num_rounds, record_every = arguments.check_rounds(num_rounds, record_every)
    num_windows = num_rounds // record_every
    driver.check_history(1, num_seeds, num_windows, 1)  # before keys are made
    if windows_per_call is not None:
        windows_per_call = checks.at_least("windows_per_call", windows_per_call, 1, driver.CAPACITY)
    seconds = checks.positive("checkpoint_seconds", checkpoint_seconds, static=True)
    path = None if checkpoint is None else checks.path("checkpoint", checkpoint)
    keys = seed_keys(key, num_seeds)
    block = None if block is None else blocks.checked(block)
    progress = None if progress is None else checks.flag("progress", progress)
    devices = driver.check_devices(devices)
    checks.function("make", make, arguments.MAKE)
    checks.function("metrics", metrics, "(example, prediction, feedback, state) -> dict")
    with arguments.explaining(make, grid, data):
        arguments.check_compiles()
        labels, data = arguments.check_grid(grid), arguments.check_data(data)
        num_points = len(next(iter(labels.values()))) if labels else 1
        driver.check_history(num_points, num_seeds, num_windows, 1)
        longest, state_bytes = arguments.check_points(make, labels, data, num_rounds)
        job = driver.Job(
            make=make,
            metrics=metrics,
            grid=arguments.on_device(labels),
            num_points=num_points,
            keys=keys,
            data_on=functools.cache(lambda device: jax.device_put(data, device)),
            record_every=record_every,
            num_windows=num_windows,
            horizon=num_rounds if longest > num_rounds else ENDLESS,
            state_bytes=state_bytes,
        )
        sides, folder = driver.sides_of_blocks(job, block, devices), None
        if path is not None or jax.process_count() > 1:
            bits, extent = _identity(job, data, num_rounds, block)
            processes.check_same_sweep(bits | extent)
            if path is not None:
                folder = open_folder(path, bits, extent, runtime.settings(), seconds, sides)
                sides = folder.sides
        played = driver.play_blocks(job, sides, devices, windows_per_call, progress, folder)
    bad = tuple(sorted(played.non_finite.values()))
    partial.warn_non_finite(bad, played.undelivered.size, labels, record_every)
    return SweepResult(
        played.records,
        played.states,
        labels,
        record_every,
        played.undelivered,
        bad,
        runtime.versions(),
    )


def _identity(
    job: driver.Job, data: Any, num_rounds: int, block: int | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns what the bits of a sweep's lanes depend on, and how far it goes."""
    lane = Inputs(data, job.keys, {name: axis[:1] for name, axis in job.grid.items()})
    bits = fingerprint.entries_of(
        {"data": data, "program": program_text(job.plan(1), lane)},
        {"record_every": job.record_every},
        jax.local_devices()[0],
    )
    numbers = {"num_rounds": num_rounds, "num_seeds": len(job.keys)}
    numbers |= {} if block is None else {"block": block}
    return bits, fingerprint.extent_of({"grid": job.grid, "keys": job.keys}, numbers)


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
    return sweep(
        make,
        metrics,
        arguments.one_point(point),
        data=data,
        num_rounds=num_rounds,
        num_seeds=1,
        key=one_key(key, seed),
        record_every=record_every,
    )
