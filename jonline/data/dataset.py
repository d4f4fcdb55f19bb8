"""The container of a data set, and the door at which arrays are checked.

Everything behind the door relies on what `from_arrays` checks here, before any tracing: features
are a dense, finite (N, n) array and labels are integers 1…K (or ±1 for a two-sided task).
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.core import Array


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


class Kept(NamedTuple):
    """What `drop_bad_rows` kept: x (M, n), y (M,), and how many rows it dropped."""

    x: Any
    y: Any
    num_dropped: int


def _array(name: str, values: Any) -> np.ndarray:
    """Returns `values` as a NumPy array of numbers, NaN where a frame has a missing value."""
    if checks.concrete(values) is None:
        raise TypeError(f"{name} is traced; make the Dataset outside jit and pass it in")
    checks.unmasked(name, values)
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        size = 4 * np.prod(values.shape, dtype=float) / 2**30
        raise TypeError(
            f"{name} is sparse, and jonline is dense only; a dense float32 copy of shape "
            f"{tuple(values.shape)} needs {size:.3g} GiB: pass {name}.toarray() if it fits"
        )
    if hasattr(values, "iloc"):  # a pandas frame or series
        kinds = [values.dtype] if values.ndim == 1 else list(values.dtypes)
        if values.ndim == 2:
            texts = [
                str(c) for c, d in zip(values.columns, kinds, strict=True) if d.kind not in "biuf"
            ]
            if texts:
                raise TypeError(
                    f"{name} has columns that are not numbers: {texts}; encode them, for example "
                    f"{name} = pandas.get_dummies({name}, columns={texts}, dtype=float)"
                )
        if all(d.kind in "biuf" for d in kinds):
            return values.to_numpy(dtype=float, na_value=np.nan)
    array = np.asarray(values)
    if array.dtype.kind == "O":
        try:
            array = array.astype(float)
        except (TypeError, ValueError):
            pass
    if array.dtype.kind not in "biuf":
        fix = (
            "encode them with jonline.data.encode_labels(y, order), lowest label first"
            if name == "y"
            else "encode columns of text as numbers, for example one-hot"
        )
        raise TypeError(f"{name} must hold numbers, got dtype {array.dtype}; {fix}")
    return array


def _features(x: Any) -> np.ndarray:
    """Returns x as a finite (N, n) array of the default float dtype, or raises."""
    array = _array("x", x)
    if array.ndim != 2:
        fix = "; for a single feature pass x.reshape(-1, 1)" if array.ndim == 1 else ""
        raise ValueError(f"x must have shape (N, n), got {array.shape}{fix}")
    if 0 in array.shape:
        raise ValueError(f"x must have at least one row and one column, got shape {array.shape}")
    finite = np.isfinite(array)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        label = f" ({x.columns[column]!r})" if hasattr(x, "iloc") else ""
        raise ValueError(
            f"x must be finite, got {array[row, column]!s} in row {row}, column {column}{label}; "
            f"{np.sum(~finite.all(1))} rows are bad: jonline.data.drop_bad_rows(x, y) drops them"
        )
    with np.errstate(over="ignore"):
        narrow = array.astype(jnp.zeros(()).dtype, copy=False)
    checks.fits("x", array, narrow)
    return narrow


def _labels(y: Any, num_rows: int, num_classes: int | None) -> np.ndarray:
    """Returns y as (N,) int32 labels 1…K, or ±1 if `num_classes` is None; or raises."""
    array = _array("y", y)
    if array.ndim != 1:
        fix = "; pass y.ravel()" if array.shape == (num_rows, 1) else ""
        raise ValueError(f"y must have shape (N,), got {array.shape}{fix}")
    if len(array) != num_rows:
        raise ValueError(f"x has {num_rows} rows but y has {len(array)} labels")
    if num_classes is None:
        ok = np.isin(array, (-1, 1))
        rule = "labels -1 and 1 (num_classes is None)"
        fix = (
            "for ordinal labels give num_classes, for 0/1 labels pass 2 * y - 1, for any two "
            "values jonline.data.encode_signs(y).labels"
        )
    else:
        ok = (array >= 1) & (array <= num_classes) & (array == np.floor(array))
        rule = f"integer labels 1..{num_classes}"
        fix = "jonline.data.encode_labels(y) gives labels 1..K"
    if not ok.all():
        row = int(np.argmin(ok))
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
    """Returns a `Dataset` of arrays that were checked.

    Args:
      x: features, (N, n): array, or pandas frame (its columns in order). Finite numbers, dense.
      y: labels, (N,): array or pandas series of integers 1…K, or of ±1 if `num_classes` is None.
      num_classes: K ≥ 2, static, or None for a task with labels ±1.
      name: for tables and figures.
      provenance: where the data come from.

    Returns:
      a Dataset; x float32 (float64 if JAX has x64 enabled), y int32.

    Raises:
      TypeError: x sparse, masked, traced or not numbers; y masked or not numbers; num_classes not
        an int.
      ValueError: NaN, infinity or a number beyond float32 in x (names row and column), a label
        outside 1…K (names row, value and encoder), lengths that differ, a wrong rank, no rows, or
        K < 2.
    """
    if num_classes is not None:
        checks.at_least("num_classes", num_classes, 2)
        num_classes = int(num_classes)
    features = _features(x)
    labels = _labels(y, len(features), num_classes)
    return Dataset(jnp.asarray(features), jnp.asarray(labels), num_classes, name, provenance)


def drop_bad_rows(x: Any, y: Any) -> Kept:
    """Returns x and y without the rows that have a NaN or an infinity, and how many those were.

    Args:
      x: features, (N, n): array or pandas frame of numbers.
      y: labels, (N,), of any kind; NaN counts if they are numbers.

    Returns:
      Kept(x, y, num_dropped), of the kinds that came in.

    Raises:
      TypeError: x is sparse or has columns that are not numbers; x or y is masked.
      ValueError: x is not (N, n) or the lengths differ.
    """
    checks.unmasked("y", y)
    array, labels = _array("x", x), np.asarray(y)
    if array.ndim != 2 or labels.shape != array.shape[:1]:
        raise ValueError(f"x must be (N, n) and y (N,), got {array.shape} and {labels.shape}")
    good = np.isfinite(array).all(axis=1)
    if labels.dtype.kind in "biuf":
        good &= np.isfinite(labels)
    if not hasattr(x, "iloc"):
        x = array
    if not hasattr(y, "iloc"):
        y = labels
    return Kept(x[good], y[good], int(np.sum(~good)))
