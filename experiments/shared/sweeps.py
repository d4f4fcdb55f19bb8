"""Sweeps of an experiment: each on one device, many of them side by side."""

import queue
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax

import jonline
from experiments.shared.options import SharedOptions


def on_device(
    options: SharedOptions,
    make: Callable,
    measure: Callable,
    grid: Mapping[str, Any],
    table: Any = None,
    *,
    seeds: int | None = None,
    apart: int = 0,
    block: int | None = None,
    windows_per_call: int | None = None,
) -> Callable[[Any], jonline.SweepResult]:
    """Returns a function that plays a sweep on one device, for `play_all`.

    Args:
      options: rounds, windows, seeds and key.
      make, measure, grid, table: as `make`, `metrics`, `grid` and `data` of `jonline.sweep`.
      seeds: how many, if not those of the options.
      apart: numbers independent sets of seeds.
      block, windows_per_call: as for `jonline.sweep`.
    """
    key = jax.random.key(options.key)

    def play(device):
        return jonline.sweep(
            make,
            measure,
            dict(grid),
            data=table,
            num_rounds=options.rounds,
            num_seeds=options.seeds if seeds is None else seeds,
            key=jax.random.fold_in(key, apart) if apart else key,
            record_every=options.record_every,
            block=block,
            windows_per_call=windows_per_call,
            devices=[device],
            progress=True,
        )

    return play


def play_all(sweeps: Mapping[Any, Callable]) -> dict[Any, jonline.SweepResult]:
    """Returns the results of many sweeps; each device takes the next one when it is free.

    For sweeps of few lanes, which would not fill the devices one after another. Several processes
    must play the same sweeps in the same order, so there it is one after another on one device.
    """
    devices: queue.SimpleQueue = queue.SimpleQueue()
    used = jax.local_devices() if jax.process_count() == 1 else jax.local_devices()[:1]
    for device in used:
        devices.put(device)

    def play(one):
        device = devices.get()
        try:
            return one(device)
        finally:
            devices.put(device)

    pool = ThreadPoolExecutor(len(used))
    try:
        return dict(zip(sweeps, pool.map(play, sweeps.values()), strict=True))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
