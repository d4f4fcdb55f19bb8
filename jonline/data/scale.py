"""Scalings of features, computed over the whole table, in float64 where not said otherwise.

Each returns an array of its own. A constant column and a row of zeros become zeros, not NaN.
Magnitudes beyond the square root of the float64 range, 1e-150 to 1e150, are not catered for.
"""

from typing import Any

import numpy as np

from jonline import checks
from jonline.data.arrays import numbers


def _table(x: Any) -> np.ndarray:
    """Returns x as an (N, n) float64 array of its own, or raises unless it is finite numbers."""
    array = numbers("x", x, 2).astype(float)
    checks.finite("x", array)
    return array


def unscaled(x: Any) -> np.ndarray:
    """Returns x, (N, n) finite numbers, as it is, in float64."""
    return _table(x)


def divided(x: Any, divisor: float) -> np.ndarray:
    """Returns x / divisor in float32, for whole numbers such as pixels.

    Args:
      x: (N, n) numbers that float32 holds.
      divisor: > 0.

    Returns:
      (N, n) float32.

    Raises:
      ValueError: x is not (N, n), or divisor ≤ 0.
    """
    checks.positive("divisor", divisor)
    return numbers("x", x, 2).astype(np.float32) / np.float32(divisor)


def standardise(x: Any) -> np.ndarray:
    """Returns (x − mean) / std per column (std with 1/N); a constant column becomes 0.

    Args:
      x: (N, n) finite numbers.

    Returns:
      (N, n) float64.

    Raises:
      TypeError: x is not numbers.
      ValueError: x is not (N, n) or not finite.
    """
    array = _table(x)
    constant = np.ptp(array, axis=0) == 0  # the std of a constant column need not round to 0
    spread = np.where(constant, 1.0, array.std(axis=0))
    return np.where(constant, 0.0, (array - array.mean(axis=0)) / spread)


def min_max(x: Any) -> np.ndarray:
    """Returns (x − min) / (max − min) per column, in [0, 1]; a constant column becomes 0.

    Args:
      x: (N, n) finite numbers.

    Returns:
      (N, n) float64.

    Raises:
      TypeError: x is not numbers.
      ValueError: x is not (N, n) or not finite.
    """
    array = _table(x)
    width = np.ptp(array, axis=0)
    return (array - array.min(axis=0)) / np.where(width == 0, 1.0, width)


def unit_indicators(x: Any) -> np.ndarray:
    """Returns a column for each value of each feature, 1/sqrt(n) where a row has it, else 0.

    So every row has norm 1. The columns are in the order in which the pairs (feature, value) first
    occur, row after row.

    Args:
      x: (N, n) numbers of few different values.

    Returns:
      (N, number of pairs) float64.

    Raises:
      TypeError: x is not numbers.
      ValueError: x is not (N, n) or not finite.
    """
    array = _table(x)
    found = []
    for feature, column in enumerate(array.T):
        values, first = np.unique(column, return_index=True)
        found += [(row, feature, value) for row, value in zip(first, values, strict=True)]
    pairs = [array[:, feature] == value for _, feature, value in sorted(found)]
    return np.stack(pairs, axis=1) / np.sqrt(array.shape[1])


def unit_rows(x: Any) -> np.ndarray:
    """Returns x / ‖x‖₂ per row; a zero row stays 0.

    Args:
      x: (N, n) finite numbers.

    Returns:
      (N, n) float64.

    Raises:
      TypeError: x is not numbers.
      ValueError: x is not (N, n) or not finite.
    """
    array = _table(x)
    norm = np.linalg.norm(array, axis=1, keepdims=True)
    return array / np.where(norm == 0, 1.0, norm)
