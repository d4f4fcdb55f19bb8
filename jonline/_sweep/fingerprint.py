"""What a sweep is, as text: what its bits depend on, and apart from that how far it goes.

Two sweeps with equal entries of both give equal results; where the first are equal, so is each lane
that both have.
"""

import hashlib
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jonline import runtime
from jonline._sweep.checkpoint import to_host
from jonline._sweep.folder import FORMAT

# They change where and by how many a program runs, or what is written down of it, and no number.
HARMLESS_FLAGS = ("--xla_force_host_platform_device_count", "--xla_dump_to")


def entries_of(arrays: dict[str, Any], numbers: dict[str, int], device: Any) -> dict[str, str]:
    """Returns what the bits of each lane of a sweep depend on, name -> text.

    Args:
      arrays: pytrees by name; each counts by the SHA-256 of its leaves, a string by its own.
      numbers: by name.
      device: the kind of device counts, not which one or how many.
    """
    around = runtime.versions()
    counted = ("jonline", "jax", "jaxlib", "optimization") + (
        ("cpu",) if device.platform == "cpu" else ()
    )
    entries = {"format": str(FORMAT)} | {name: around[name] for name in counted}
    entries |= {
        "XLA_FLAGS": counted_flags(around["XLA_FLAGS"]),
        "device": f"{device.platform} {device.device_kind}",
        "source of jonline": _source_of_jonline(),
    }
    return entries | extent_of(arrays, numbers)


def extent_of(arrays: dict[str, Any], numbers: dict[str, int]) -> dict[str, str]:
    """Returns how far a sweep goes, name -> text; `arrays` and `numbers` as for `entries_of`."""
    digests = {name: _digest(tree) for name, tree in arrays.items()}
    return digests | {name: str(number) for name, number in numbers.items()}


def counted_flags(flags: str) -> str:
    """Returns the flags of XLA that may change numbers: all but `HARMLESS_FLAGS`, in order."""
    kept = [flag for flag in flags.split() if flag.partition("=")[0] not in HARMLESS_FLAGS]
    return " ".join(sorted(kept))


def _digest(tree: Any) -> str:
    digest = hashlib.sha256()
    for where, leaf in jax.tree_util.tree_leaves_with_path(tree):
        array = to_host(leaf) if hasattr(leaf, "dtype") else np.asarray(leaf)
        if array.dtype.kind == "U":
            array = np.frombuffer(str(array).encode(), np.uint8)
        digest.update(f"{jax.tree_util.keystr(where)} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()[:16]


def _source_of_jonline(root: Path = Path(__file__).parents[1]) -> str:
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
