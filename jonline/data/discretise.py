"""Ordinal labels from a real target.

All three cut the line into intervals, so equal values always get equal labels.
"""

from typing import Any

import numpy as np

from jonline import checks
from jonline.data.arrays import numbers


def _target(values: Any) -> np.ndarray:
    """Returns `values` as a finite (N,) float64 array with N ≥ 1, or raises."""
    array = numbers("values", values, 1).astype(float)
    checks.require(len(array) >= 1, "values", "have shape (N,) with N >= 1", array.shape)
    checks.finite("values", array)
    return array


def by_edges(values: Any, edges: Any) -> np.ndarray:
    """Returns the interval each value is in: label 1 + #{k : value > edges[k]}.

    With edges e_1 ≤ … ≤ e_{K-1}: (−∞, e_1] → 1, (e_1, e_2] → 2, …, (e_{K-1}, ∞) → K.

    Args:
      values: (N,) finite numbers.
      edges: (K−1,) numbers that do not decrease; between equal edges a label stays empty.

    Returns:
      (N,) int32 labels in 1…K.

    Raises:
      TypeError: the values are not numbers.
      ValueError: a value is not finite, or the edges decrease.
    """
    cuts = numbers("edges", edges, 1).astype(float)
    if len(cuts) == 0 or not (np.diff(cuts) >= 0).all() or np.isnan(cuts).any():
        raise ValueError(f"edges must be one or more numbers that do not decrease, got {edges}")
    return (1 + np.searchsorted(cuts, _target(values), side="left")).astype(np.int32)


def equal_frequency(values: Any, num_classes: int) -> np.ndarray:
    """Returns labels of K classes with equally many values each, as far as ties allow.

    The edges are sample quantiles: e_k is the ⌈N k / K⌉-th smallest value. Without ties the sizes
    differ by at most one. Equal values get equal labels, the lowest one that their share reaches
    into, so a value that fills more than 1/K of the sample leaves labels above it empty; K stays.

    Args:
      values: (N,) finite numbers.
      num_classes: K ≥ 2.

    Returns:
      (N,) int32 labels in 1…K.

    Raises:
      TypeError: the values are not numbers.
      ValueError: a value is not finite, K < 2, or K > N.
    """
    num_classes = checks.at_least("num_classes", num_classes, 2)
    array = np.sort(_target(values))
    if num_classes > len(array):
        raise ValueError(f"num_classes={num_classes} is more than the {len(array)} values")
    ranks = -(-len(array) * np.arange(1, num_classes) // num_classes)  # ⌈N k / K⌉
    return by_edges(values, array[ranks - 1])


def by_multiples(values: Any, step: float) -> np.ndarray:
    """Returns labels of the multiples of `step` that the values have reached.

    m = ⌊value / step⌋, label = m − min m + 1: the lowest multiple that occurs is label 1, and K is
    the number of multiples from there to the highest one.

    Args:
      values: (N,) finite numbers.
      step: > 0, in the unit of the values.

    Returns:
      (N,) int32 labels in 1…K.

    Raises:
      TypeError: the values are not numbers.
      ValueError: a value is not finite, or step ≤ 0.
    """
    checks.positive("step", step)
    multiples = np.floor(_target(values) / step)
    return (multiples - multiples.min() + 1).astype(np.int32)
