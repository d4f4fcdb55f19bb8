"""Several processes that share the blocks of a sweep, each playing its own on its own devices.

Block i belongs to process i mod P. Nothing is exchanged while blocks are played; at the end every
process gets the results of all.
"""

import json
from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import numpy as np

from jonline.blocks import Block

T = TypeVar("T")


def mine(blocks: Sequence[T]) -> list[tuple[int, T]]:
    """Returns the blocks of this process, each with its number."""
    return [*enumerate(blocks)][jax.process_index() :: jax.process_count()]


def gathered(results: Any, blocks: Sequence[Block]) -> Any:
    """Returns a pytree of (points, seeds, ...) arrays with each block from the process it is of."""

    def of_all(leaf: np.ndarray) -> np.ndarray:
        parts, whole = _of_processes(leaf), np.array(leaf)
        for i, block in enumerate(blocks):
            whole[block.where] = parts[i % len(parts)][block.where]
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
    if jax.process_count() == 1 or not leaf.size:
        return leaf[None].repeat(jax.process_count(), axis=0)
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(leaf))
