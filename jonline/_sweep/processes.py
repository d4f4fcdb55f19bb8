"""Several processes that share the blocks of a sweep, each playing its own on its own devices.

Block i belongs to process i mod P. Nothing is exchanged while blocks are played; at the start the
processes agree on the blocks, and at the end every one gets the results of all.
"""

import json
from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax import sharding

from jonline._sweep.blocks import Block

T = TypeVar("T")


def own_blocks(blocks: Sequence[T]) -> list[tuple[int, T]]:
    """Returns the blocks of this process, each with its number."""
    return [*enumerate(blocks)][jax.process_index() :: jax.process_count()]


def check_same_blocks(sides: tuple[int, int]) -> None:
    """Raises ValueError unless all processes have the same sides of blocks."""
    if jax.process_count() == 1:
        return
    found = gathered_rows([list(sides)])
    if any(other != found[0] for other in found):
        raise ValueError(
            f"the processes differ in their blocks (seeds, points): {found}; give all the same "
            "block, or one folder for checkpoints"
        )


def check_same_sweep(entries: dict[str, str]) -> None:
    """Raises ValueError, which names the entries, unless all processes have the same."""
    if jax.process_count() == 1:
        return
    found = gathered_rows([entries])
    differing = [name for name in entries if any(row.get(name) != entries[name] for row in found)]
    if differing:
        raise ValueError(
            f"the processes play different sweeps: they differ in {', '.join(differing)}; call the "
            "same sweeps in the same order in each"
        )


def gathered(results: Any, blocks: Sequence[Block]) -> Any:
    """Returns a pytree of (points, seeds, ...) arrays with each block from the process it is of.

    What travels is each block once, so that P processes need not hold P times the results.
    """
    count = jax.process_count()
    most = -(-len(blocks) // count)

    def of_all(leaf: np.ndarray) -> np.ndarray:
        seeds, points = blocks[0].sides
        own = np.zeros((most, points, seeds, *leaf.shape[2:]), leaf.dtype)
        for place, (_, block) in zip(own, own_blocks(blocks), strict=False):
            place[: block.points, : block.seeds] = leaf[block.where]
        parts, whole = _of_processes(own), np.empty_like(leaf)
        for i, block in enumerate(blocks):
            part = parts[i % count][i // count]
            whole[block.where] = part[: block.points, : block.seeds]
        return whole

    return jax.tree.map(of_all, results)


def gathered_rows(rows: list) -> list:
    """Returns the rows (of what JSON knows) of all processes."""
    text = np.frombuffer(json.dumps(rows).encode(), np.uint8)
    sizes = _of_processes(np.asarray([len(text)], np.int32))[:, 0]
    padded = np.zeros(max(sizes), np.uint8)
    padded[: len(text)] = text
    parts = zip(_of_processes(padded), sizes, strict=True)
    return [row for part, size in parts for row in json.loads(bytes(part[:size]))]


def _of_processes(leaf: np.ndarray) -> np.ndarray:
    """Returns the arrays of all processes, (P, ...)."""
    count = jax.process_count()
    if count == 1 or not leaf.size:
        return leaf[None].repeat(count, axis=0)
    # By one device of each: JAX's own process_allgather wants as many devices everywhere.
    of_process = {device.process_index: device for device in reversed(jax.devices())}
    mesh = sharding.Mesh([of_process[i] for i in range(count)], "process")
    apart = sharding.NamedSharding(mesh, sharding.PartitionSpec("process"))
    everywhere = sharding.NamedSharding(mesh, sharding.PartitionSpec())
    here = jax.device_put(leaf[None], of_process[jax.process_index()])
    parts = jax.make_array_from_single_device_arrays((count, *leaf.shape), apart, [here])
    return np.asarray(jax.jit(lambda x: x, out_shardings=everywhere)(parts).addressable_data(0))
