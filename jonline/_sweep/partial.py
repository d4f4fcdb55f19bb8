"""The results of a sweep that is running, which blocks write into and are saved from."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jonline import checks
from jonline._sweep import arguments, checkpoint, processes
from jonline._sweep.blocks import Block
from jonline._sweep.folder import Folder
from jonline._sweep.result import NonFinite

_SHOWN = 3  # runs that a warning describes


class PartialResult(NamedTuple):
    """Results of all blocks on the host, leading axes (points, seeds).

    `non_finite` maps (point, seed) to the first window in which the run was not finite.
    """

    records: dict[str, np.ndarray]
    states: Any
    undelivered: np.ndarray
    non_finite: dict[tuple[int, int], NonFinite]


def note_non_finite(
    partial: PartialResult, block: Block, name: str, first: int, bad: np.ndarray
) -> None:
    """Notes the runs of a block that are not finite; `bad` is (points, seeds, windows)."""
    for point, seed in np.argwhere(bad.any(axis=-1)):
        window = first + int(np.argmax(bad[point, seed]))
        found = NonFinite(block.point + int(point), block.seed + int(seed), window, name)
        known = partial.non_finite.get(found[:2])
        if known is None or window < known.window:
            partial.non_finite[found[:2]] = found


def block_folder(
    folder: Folder, number: int, block: Block, grid: dict[str, np.ndarray], keys: Any
) -> checkpoint.BlockFolder:
    """Returns where a block is saved; its lanes are its points' values and its seeds' keys."""
    words = checkpoint.to_host(keys[block.seed : block.seed + block.seeds])
    points = slice(block.point, block.point + block.points)
    lanes = {f"point {name}": axis[points] for name, axis in grid.items()}
    return checkpoint.BlockFolder(
        folder, number, lanes | {"seeds": words, "sides": np.asarray(block.sides)}
    )


def save(
    folder: checkpoint.BlockFolder, block: Block, partial: PartialResult, carry: Any, windows: int
) -> None:
    """Writes a checkpoint of a block: what it carries and has measured after some windows."""
    found = [bad for bad in [*partial.non_finite.values()] if block.has(bad.point, bad.seed)]
    bad = [(bad.point, bad.seed, bad.window, bad.name) for bad in found]
    checkpoint.save(folder, _of_block(block, partial, carry, windows)._replace(bad=bad))


def resume(
    folder: checkpoint.BlockFolder,
    block: Block,
    partial: PartialResult,
    carry: Any,
    num_windows: int,
    device: Any,
) -> tuple[int, Any]:
    """Returns the windows of a block that were played before, and its carry then."""
    leaves, tree = jax.tree.flatten(carry)
    saved = checkpoint.latest(folder, _of_block(block, partial, carry, num_windows))
    if saved is None:
        return 0, carry
    for name, sums in saved.records.items():
        partial.records[name][*block.where, : saved.windows] = sums
    found = [NonFinite(*row) for row in saved.bad]
    partial.non_finite.update({bad[:2]: bad for bad in found})
    pairs = zip(saved.carry, leaves, strict=True)
    there = jax.device_put([checkpoint.from_host(leaf, like) for leaf, like in pairs], device)
    return saved.windows, jax.tree.unflatten(tree, there)


def of_all_processes(partial: PartialResult, blocks: Sequence[Block]) -> PartialResult:
    """Returns the results of all processes' blocks."""
    if jax.process_count() == 1:
        return partial
    results = (partial.records, partial.states, partial.undelivered)
    rows = processes.gathered_rows([list(bad) for bad in partial.non_finite.values()])
    found = [NonFinite(*row) for row in rows]
    records, states, undelivered = processes.gathered(results, blocks)
    return PartialResult(records, states, undelivered, {bad[:2]: bad for bad in found})


def _of_block(block: Block, partial: PartialResult, carry: Any, windows: int) -> checkpoint.Saved:
    leaves = [checkpoint.to_host(leaf) for leaf in jax.tree.leaves(carry)]
    records = {name: sums[*block.where, :windows] for name, sums in partial.records.items()}
    return checkpoint.Saved(windows, leaves, records, [])


def warn_non_finite(
    found: Sequence[NonFinite], num_runs: int, grid: dict[str, np.ndarray], record_every: int
) -> None:
    """Warns once of all runs of a sweep that are not finite, if there are any."""
    if not found:
        return

    def line(bad: NonFinite) -> str:
        at = arguments.as_written({axis: values[bad.point] for axis, values in grid.items()})
        begin = bad.window * record_every
        return (
            f"point {bad.point} {at}, seed {bad.seed}, in window {bad.window} (rounds {begin} to "
            f"{begin + record_every - 1})"
        )

    names = ", ".join(repr(name) for name in sorted({bad.name for bad in found}))
    rest = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    checks.warn(
        f"{len(found)} of {num_runs} runs are not finite in {names}: "
        f"{'; '.join(map(line, found[:_SHOWN]))}{rest}. SweepResult.non_finite has all of them, "
        "trace() shows their rounds"
    )
