"""The results of a sweep on the host, which blocks are written into and kept from."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jonline import checkpoint, door, processes
from jonline.blocks import Block


class NonFinite(NamedTuple):
    """Where a run first was not finite: its point, seed and window, in a metric or the state."""

    point: int
    seed: int
    window: int
    name: str


class Played(NamedTuple):
    """Results of all blocks on the host, leading axes (points, seeds).

    `non_finite` maps (point, seed) to the first window in which the run was not finite.
    """

    records: dict[str, np.ndarray]
    states: Any
    undelivered: np.ndarray
    non_finite: dict[tuple[int, int], NonFinite]


def note_bad(
    board: Played,
    block: Block,
    grid: dict[str, np.ndarray],
    record_every: int,
    name: str,
    first: int,
    bad: np.ndarray,
) -> None:
    """Notes and warns of runs of a block that are not finite; `bad` is (points, seeds, windows)."""
    new = []
    for point, seed in np.argwhere(bad.any(axis=-1)):
        window = first + int(np.argmax(bad[point, seed]))
        found = NonFinite(block.point + int(point), block.seed + int(seed), window, name)
        known = board.non_finite.get(found[:2])
        if known is None or window < known.window:
            board.non_finite[found[:2]] = found
            new.append(found)
    _warn(new, grid, record_every)


def save(
    keep: tuple[checkpoint.Folder, int], block: Block, board: Played, carry: Any, windows: int
) -> None:
    """Writes a checkpoint of a block: what it carries and has measured after some windows."""
    leaves = [checkpoint.to_host(leaf) for leaf in jax.tree.leaves(carry)]
    records = {name: sums[*block.where, :windows] for name, sums in board.records.items()}
    found = [bad for bad in [*board.non_finite.values()] if block.has(bad.point, bad.seed)]
    bad = [(bad.point, bad.seed, bad.window, bad.name) for bad in found]
    checkpoint.save(*keep, checkpoint.Saved(windows, leaves, records, bad))


def resume(
    keep: tuple[checkpoint.Folder, int],
    block: Block,
    board: Played,
    grid: dict[str, np.ndarray],
    record_every: int,
    carry: Any,
    device: Any,
) -> tuple[int, Any]:
    """Returns the windows of a block that were played before, and its carry then.

    It warns again of the runs that were not finite.
    """
    leaves, tree = jax.tree.flatten(carry)
    saved = checkpoint.latest(*keep, [checkpoint.to_host(leaf) for leaf in leaves])
    if saved is None:
        return 0, carry
    for name, sums in saved.records.items():
        board.records[name][*block.where, : saved.windows] = sums
    found = [NonFinite(*row) for row in saved.bad]
    board.non_finite.update({bad[:2]: bad for bad in found})
    for name in sorted({bad.name for bad in found}):
        _warn([bad for bad in found if bad.name == name], grid, record_every)
    pairs = zip(saved.carry, leaves, strict=True)
    there = jax.device_put([checkpoint.from_host(leaf, like) for leaf, like in pairs], device)
    return saved.windows, jax.tree.unflatten(tree, there)


def of_all_processes(board: Played, blocks: Sequence[Block]) -> Played:
    """Returns the results of all processes' blocks."""
    if jax.process_count() == 1:
        return board
    results = (board.records, board.states, board.undelivered)
    rows = processes.gathered_rows([list(bad) for bad in board.non_finite.values()])
    found = [NonFinite(*row) for row in rows]
    records, states, undelivered = processes.gathered(results, blocks)
    return Played(records, states, undelivered, {bad[:2]: bad for bad in found})


def _warn(found: Sequence[NonFinite], grid: dict[str, np.ndarray], record_every: int) -> None:
    """Warns of runs that are not finite in one thing, if there are any."""
    if not found:
        return
    point, seed, window, name = found[0]
    at = door.as_written({axis: values[point] for axis, values in grid.items()})
    begin = window * record_every
    warnings.warn(
        f"{len(found)} runs are not finite in {name!r}, the first at point {point} {at}, seed "
        f"{seed}, in window {window} (rounds {begin} to {begin + record_every - 1}); trace() shows "
        "its rounds",
        RuntimeWarning,
        stacklevel=3,
    )
