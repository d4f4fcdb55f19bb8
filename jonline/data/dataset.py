"""The container of a data set, and the door at which arrays are checked.

Everything behind the door relies on what `from_arrays` checks here, before any tracing: features
are a dense, finite (N, n) array and labels are integers 1…K (or ±1 for a two-sided task).
"""

import dataclasses
from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.core import Array
from jonline.data.arrays import DROP, features, is_bad, items, numbers


class Provenance(NamedTuple):
    """Where a data set comes from; strings only, so that it can be static under `jit`.

    Attributes:
      origin: address of the page that publishes it.
      terms: terms of use as the origin states them.
      sha256: hex digest of the uncompressed file that was read; of several files, their digests
        with a space between them.
      task: how features and labels were made from it.
    """

    origin: str = ""
    terms: str = ""
    sha256: str = ""
    task: str = ""


_NOWHERE = Provenance()


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """A table of examples. A pytree: x and y are leaves, the rest is static.

    Nothing is checked here; `from_arrays` builds one from arrays that were.

    Attributes:
      x: features, (N, n) float32.
      y: labels, (N,) int32: 1…K for ordinal, ±1 for a two-sided task; or vertices of an output
        space, (N, d) float32.
      num_classes: K, or None if the labels are not 1…K.
      name: for tables and figures.
      provenance: where it comes from.
    """

    x: Array
    y: Array
    num_classes: int | None = None
    name: str = ""
    provenance: Provenance = _NOWHERE


jax.tree_util.register_dataclass(
    Dataset, data_fields=["x", "y"], meta_fields=["num_classes", "name", "provenance"]
)


class VertexTable(NamedTuple):
    """Examples whose labels are vertices of an output space.

    Attributes:
      x: features, (N, n) float32.
      y: vertices, (N, d) float32 of 0 and 1.
    """

    x: np.ndarray
    y: np.ndarray


class CleanRows(NamedTuple):
    """What `drop_bad_rows` kept: x (M, n), y (M,), and how many rows it dropped."""

    x: Any
    y: Any
    num_dropped: int


def _labels(y: Any, num_rows: int, num_classes: int | None) -> np.ndarray:
    """Returns y as (N,) int32 labels 1…K, or ±1 if `num_classes` is None; or raises."""
    array = numbers("y", y, 1)
    if len(array) != num_rows:
        raise ValueError(f"x has {num_rows} rows but y has {len(array)} labels")
    if num_classes is None:
        ok = np.isin(array, (-1, 1))
        rule = "labels -1 and 1 (num_classes is None)"
    else:
        ok = (array >= 1) & (array <= num_classes) & (array == np.floor(array))
        rule = f"integer labels 1..{num_classes}"
    if not ok.all():
        row = int(np.argmin(ok))
        if not np.isfinite(array).all():
            row = int(np.argmin(np.isfinite(array)))
            fix = f"leave such rows out, for example {DROP}"
        elif num_classes is None and len(np.unique(array)) == 2:
            fix = (
                "give num_classes if they are ordinal, or encode two values, for example "
                "y = jonline.data.encode_signs(y).labels"
            )
        else:
            fix = (
                "encode them as 1..K and give num_classes=len(order), for example "
                "y, order = jonline.data.encode_labels(y)"
            )
        raise ValueError(f"y must hold {rule}, got {array[row]!s} in row {row}; {fix}")
    return array.astype(np.int32)


def from_arrays(
    x: Any,
    y: Any,
    num_classes: int | None = None,
    *,
    name: str = "",
    provenance: Provenance = _NOWHERE,
) -> Dataset:
    """Returns a `Dataset` of arrays that were checked, as copies of its own.

    Args:
      x: features, (N, n): array, or frame of pandas or polars (its columns in order). Finite
        numbers, dense.
      y: labels, (N,): array or series of integers 1…K, or of ±1 if `num_classes` is None.
      num_classes: K ≥ 2, static, or None for a task with labels ±1.
      name: for tables and figures.
      provenance: where the data come from.

    Returns:
      a Dataset; x float32 (float64 if JAX has x64 enabled), y int32.

    Warns:
      RuntimeWarning: at least half of the different values of a column become equal in float32.

    Raises:
      TypeError: x sparse, masked, traced or not numbers; y masked or not numbers; num_classes not
        an int.
      ValueError: NaN, infinity or a number beyond float32 in x (names row and column), a label
        outside 1…K (names row, value and encoder), lengths that differ, a wrong rank, no rows, or
        K < 2.
    """
    if num_classes is not None:
        num_classes = checks.at_least("num_classes", num_classes, 2)
    values = features(x)
    labels = _labels(y, len(values), num_classes)
    return Dataset(jnp.array(values), jnp.array(labels), num_classes, name, provenance)


def drop_bad_rows(x: Any, y: Any) -> CleanRows:
    """Returns x and y without the rows where one is missing or infinite, and how many those were.

    Args:
      x: features, (N, n): array, or frame of pandas or polars, of numbers.
      y: labels, (N,), of any kind. None, NaN and pandas' NA and NaT are missing.

    Returns:
      CleanRows(x, y, num_dropped), of the kinds that came in.

    Raises:
      TypeError: x is sparse or has columns that are not numbers; x or y is masked.
      ValueError: x is not (N, n) or the lengths differ.
    """
    checks.unmasked("y", y)
    array, labels = numbers("x", x, 2), items("y", y, "N")
    if len(labels) != len(array):
        raise ValueError(f"x has {len(array)} rows but y has {len(labels)} labels")
    good = np.isfinite(array).all(axis=1) & ~np.array([is_bad(label) for label in labels], bool)
    return CleanRows(_kept(x, good), _kept(y, good), int(np.sum(~good)))


def _kept(values: Any, good: np.ndarray) -> Any:
    """Returns the rows that are good, of a sequence as a list."""
    if hasattr(values, "to_dummies"):  # a frame or series of polars
        return values.filter(good)
    return list(compress(values, good)) if isinstance(values, Sequence) else values[good]
