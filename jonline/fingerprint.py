"""What a sweep is, as text: what its bits depend on, and apart from that how far it goes.

Two sweeps with equal entries of both give equal results; where the first are equal, so is each lane
that both have.
"""

import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jonline import runtime
from jonline.checkpoint import to_host
from jonline.folder import FORMAT


def entries_of(
    functions: dict[str, Callable], arrays: dict[str, Any], numbers: dict[str, int], device: Any
) -> dict[str, str]:
    """Returns what the bits of each lane of a sweep depend on, name -> text.

    Args:
      functions: by name; each counts by the text of the file that it is written in.
      arrays: pytrees by name; each counts by the SHA-256 of its leaves, a string by its own.
      numbers: by name.
      device: the kind of device counts, not which one or how many.
    """
    around = runtime.environment()
    counted = ("jonline", "jax", "jaxlib", "numpy", "prng_impl", "x64", "XLA_FLAGS")
    entries = {"format": str(FORMAT)} | {name: around[name] for name in counted}
    entries |= {
        "device": f"{device.platform} {device.device_kind}",
        "source of jonline": _source_of_jonline(),
    }
    entries |= {f"source of {name}": _source(function) for name, function in functions.items()}
    return entries | extent_of(arrays, numbers)


def extent_of(arrays: dict[str, Any], numbers: dict[str, int]) -> dict[str, str]:
    """Returns how far a sweep goes, name -> text; `arrays` and `numbers` as for `entries_of`."""
    digests = {name: _digest(tree) for name, tree in arrays.items()}
    return digests | {name: str(number) for name, number in numbers.items()}


def _digest(tree: Any) -> str:
    digest = hashlib.sha256()
    for where, leaf in jax.tree_util.tree_leaves_with_path(tree):
        array = to_host(leaf) if hasattr(leaf, "dtype") else np.asarray(leaf)
        if array.dtype.kind == "U":
            array = np.frombuffer(str(array).encode(), np.uint8)
        digest.update(f"{jax.tree_util.keystr(where)} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()[:16]


def _source(function: Callable) -> str:
    while not inspect.isfunction(function) and hasattr(function, "func"):
        function = function.func  # a partial
    try:
        file = inspect.getsourcefile(inspect.unwrap(function))
        text = Path(file or "").read_bytes()
    except (OSError, TypeError):
        return "unknown"
    return hashlib.sha256(text).hexdigest()[:16]


def _source_of_jonline() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
