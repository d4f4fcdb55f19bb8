"""Rankings out of documents whose relevance to a query was graded."""

from typing import Any

import numpy as np

from jonline import checks
from jonline.data.arrays import features, numbers
from jonline.data.dataset import VertexTable


def query_rankings(
    x: Any, grades: Any, groups: Any, *, num_items: int = 3, seed: int = 0
) -> VertexTable:
    """Returns examples of m documents of one query, no two of the same grade, to be put in order.

    A document is in at most one example, and a query gives as many examples as can be had of it:
    each takes one document from each of the m grades with most documents left. Which documents, and
    in what order they stand, is random.

    Args:
      x: features of the documents, (N, n) finite numbers.
      grades: (N,) finite numbers, higher is more relevant.
      groups: (N,) query of each document, of any kind that can be sorted.
      num_items: m ≥ 2.
      seed: ≥ 0, of a NumPy generator: the same seed gives the same examples.

    Returns:
      VertexTable(x (M, m n) float32, the features of the m documents one after another, y (M, m m)
      float32, the m x m permutation matrix row after row): y[:, m i + j] = 1 where document i has
      place j, the place 0 that of the highest grade. Examples are in the order of the queries.

    Warns:
      RuntimeWarning: as `from_arrays`.

    Raises:
      TypeError: num_items or seed is no int, or x or grades are not numbers.
      ValueError: arrays of other shapes or not finite, m < 2, or no query has m grades.
    """
    num_items = checks.at_least("num_items", num_items, 2)
    seed = checks.at_least("seed", seed, 0)
    x, grades, groups = features(x), numbers("grades", grades, 1), np.asarray(groups)
    if grades.shape != x.shape[:1] or groups.shape != x.shape[:1]:
        raise ValueError(
            "x must be (N, n), grades and groups (N,), got "
            f"{x.shape}, {grades.shape} and {groups.shape}"
        )
    checks.finite("grades", grades)
    rng = np.random.default_rng(seed)
    examples, most = [], 0
    for group in np.unique(groups):
        rows = rng.permutation(np.flatnonzero(groups == group))
        piles = [rows[grades[rows] == grade].tolist() for grade in np.unique(grades[rows])]
        most = max(most, len(piles))
        while sum(map(bool, piles)) >= num_items:
            fullest = sorted(piles, key=len, reverse=True)[:num_items]
            examples.append(rng.permutation([pile.pop() for pile in fullest]))
    if not examples:
        raise ValueError(
            f"num_items must be at most {most}, the most grades that one query has, got {num_items}"
        )
    rows = np.stack(examples)
    from_last = np.argsort(np.argsort(grades[rows], axis=1), axis=1)
    matrices = np.eye(num_items, dtype=np.float32)[num_items - 1 - from_last]
    shape = len(rows), -1
    return VertexTable(x[rows].reshape(shape).astype(np.float32), matrices.reshape(shape))
