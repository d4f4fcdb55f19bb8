"""Tables and columns of any kind as NumPy arrays of numbers, and what counts as missing.

Frames of pandas and polars are known by what they offer, so neither is imported.
"""

import math
from collections.abc import Hashable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jonline import checks

DROP = "x, y, _ = jonline.data.drop_bad_rows(x, y)"


def is_missing(item: Any) -> bool:
    """Returns whether a value is None, NaN, or pandas' NA or NaT: what does not equal itself."""
    try:
        return item is None or bool(item != item)
    except TypeError:  # NA is neither equal to itself nor not
        return True


def is_bad(item: Any) -> bool:
    """Returns whether a value is missing, or an infinite float."""
    return is_missing(item) or (isinstance(item, float) and math.isinf(item))


def items(name: str, values: Any, size: str) -> list:
    """Returns the entries of a column as they are (those of an array as Python's), or raises."""
    shape = getattr(values, "shape", None)
    if shape is not None and len(shape) != 1:
        fix = f"; for example {name} = numpy.ravel({name})" if shape[1:] == (1,) else ""
        raise ValueError(f"{name} must have shape ({size},), got {tuple(shape)}{fix}")
    for method in ("to_list", "tolist"):
        if hasattr(values, method):
            values = getattr(values, method)()
            break
    entries = list(values) if isinstance(values, Sequence) else None
    if entries is None or not all(isinstance(item, Hashable) for item in entries):
        raise ValueError(
            f"{name} must have shape ({size},) and hashable entries, got {values!r:.100}"
        )
    return entries


def _number(item: Any) -> float:
    """Returns an entry as a float, NaN where it is missing; TypeError unless it is a number."""
    if is_missing(item):
        return np.nan
    if isinstance(item, (str, bytes)):
        raise TypeError("text")
    return float(item)


def numbers(name: str, values: Any, ndim: int) -> np.ndarray:
    """Returns `values`, of 1 or 2 axes, as real numbers or bools, NaN where one is missing.

    It may be the caller's own array.

    Raises:
      TypeError: traced, masked or sparse; no array; or an entry is no number (names the first, and
        a way for the columns of a frame).
      ValueError: rows of different length, or another number of axes.
    """
    if isinstance(values, Tracer):
        raise TypeError(f"{name} is traced; make the Dataset outside jit and pass it in")
    checks.unmasked(name, values)
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        size = 4 * np.prod(values.shape, dtype=float) / 2**30
        raise TypeError(
            f"{name} is sparse, and jonline is dense only; a dense float32 copy of shape "
            f"{tuple(values.shape)} needs {size:.3g} GiB; if it fits, for example "
            f"{name} = {name}.toarray()"
        )
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must have rows of one length: {error}") from error
    if array.ndim == 0:
        raise TypeError(f"{name} must be an array or a table, got {type(values).__name__}")
    if array.ndim != ndim:
        fix = ""
        if array.shape[ndim:] == (1,):
            fix = f"; for example {name} = numpy.ravel({name})"
        elif array.ndim == 1:
            fix = f"; for a single feature, for example {name} = numpy.asarray({name})[:, None]"
        shape = "(N,)" if ndim == 1 else "(N, n)"
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}{fix}")
    if array.dtype.kind in "biuf":  # a frame's columns of whole numbers as among columns of floats
        return array.astype(float) if hasattr(values, "columns") else array
    if isinstance(values, Sequence):  # NumPy made text of all the entries if one was
        array = np.asarray(values, dtype=object)
    return _converted(name, values, array)


def _converted(name: str, values: Any, array: np.ndarray) -> np.ndarray:
    """Returns an array of other objects as float64, or raises TypeError that names the first."""
    array = array.astype(object)
    found, bad = np.empty(array.size), []
    for i, item in enumerate(array.ravel()):
        try:
            found[i] = _number(item)
        except (TypeError, ValueError, OverflowError):
            bad.append(i)
    if not bad:
        return found.reshape(array.shape)
    at = np.unravel_index(bad, array.shape)
    first = tuple(int(i[0]) for i in at)
    fix = _encoder(name, values, np.unique(at[-1]).tolist())
    raise TypeError(
        f"{name} must hold numbers, got {array[first]!r:.100}{place(values, first)}; {fix}"
    )


def _encoder(name: str, values: Any, columns: list[int]) -> str:
    """Returns how to make numbers of text, in a column of labels or in such columns of a table."""
    if hasattr(values, "columns"):
        names = [list(values.columns)[i] for i in columns]
        code = f"pandas.get_dummies({name}, columns={names}, dtype=float)"
        if hasattr(values, "to_dummies"):
            code = f"{name}.to_dummies({names})"
        return f"encode text, for example {name} = {code}"
    if np.ndim(values) > 1:
        return f"encode columns {columns} as numbers, such as one-hot"
    code = f"jonline.data.encode_labels({name}, order).labels"
    return f"give labels an order, the lowest first, for example {name} = {code}"


def place(values: Any, at: tuple[int, ...]) -> str:
    """Returns " in row r, column c" for messages, with the column's name if it has one."""
    known = f" ({list(values.columns)[at[1]]!r})" if hasattr(values, "columns") else ""
    return checks.place(np.array(at)) + known


def features(x: Any) -> np.ndarray:
    """Returns x as a finite (N, n) array of the default float dtype, or raises."""
    array = numbers("x", x, 2)
    if 0 in array.shape:
        raise ValueError(f"x must have at least one row and one column, got shape {array.shape}")
    finite = np.isfinite(array)
    if not finite.all():
        at = tuple(np.argwhere(~finite)[0])
        raise ValueError(
            f"x must be finite, got {array[at]!s}{place(x, at)}; {np.sum(~finite.all(1))} rows are "
            f"bad: leave them out, for example {DROP}"
        )
    with np.errstate(over="ignore"):
        narrow = array.astype(jnp.zeros(()).dtype, copy=False)
    checks.fits("x", array, narrow)
    if array.dtype.kind == "f":
        _warn_collapsed(x, array, narrow)
    return narrow


def _warn_collapsed(x: Any, wide: np.ndarray, narrow: np.ndarray) -> None:
    """Warns of columns of `wide` (N, n) of whose different values `narrow` has at most half.

    Values closer than 2^-44 of their size count as one: a sum in another order differs by that.
    """
    lost = []
    for i, (column, rounded) in enumerate(zip(wide.T, narrow.T, strict=True)):
        if np.array_equal(column, rounded):
            continue
        column = np.sort(column)
        gaps = np.diff(column)
        num_wide = 1 + np.sum(gaps > 2.0**-44 * np.abs(column[1:]))
        num_narrow = 1 + np.sum(np.diff(column.astype(narrow.dtype)) > 0)
        if 2 * num_narrow <= num_wide:
            label = f"{list(x.columns)[i]!r}" if hasattr(x, "columns") else str(i)
            lost.append(
                f"column {label} has {num_wide} different values, {num_narrow} of them left"
            )
    if lost:
        more = f" (and {len(lost) - 5} more columns)" if len(lost) > 5 else ""
        checks.warn(
            f"x loses values in {narrow.dtype}: {'; '.join(lost[:5])}{more}; subtract the mean "
            "first, for example x = jonline.data.standardise(x)"
        )
