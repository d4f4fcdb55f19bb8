"""Scalings of features, computed over the whole table in float64.

A constant column and a row of zeros become zeros, not NaN. Magnitudes beyond the square root of the
float64 range, 1e-150 to 1e150, are not catered for.
"""

from typing import Any

import numpy as np


def _table(x: Any) -> np.ndarray:
    """Returns x as an (N, n) float64 array, or raises ValueError."""
    array = np.asarray(x, dtype=float)
    if array.ndim != 2:
        raise ValueError(f"x must have shape (N, n), got {array.shape}")
    return array


def unscaled(x: Any) -> np.ndarray:
    """Returns x, (N, n), as it is."""
    return _table(x)


def standardise(x: Any) -> np.ndarray:
    """Returns (x − mean) / std per column (std with 1/N); a constant column becomes 0.

    Args:
      x: (N, n) finite numbers.

    Returns:
      (N, n) float64.

    Raises:
      ValueError: x is not (N, n).
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
      ValueError: x is not (N, n).
    """
    array = _table(x)
    width = np.ptp(array, axis=0)
    return (array - array.min(axis=0)) / np.where(width == 0, 1.0, width)


def unit_rows(x: Any) -> np.ndarray:
    """Returns x / ‖x‖₂ per row; a zero row stays 0.

    Args:
      x: (N, n) finite numbers.

    Returns:
      (N, n) float64.

    Raises:
      ValueError: x is not (N, n).
    """
    array = _table(x)
    norm = np.linalg.norm(array, axis=1, keepdims=True)
    return array / np.where(norm == 0, 1.0, norm)
