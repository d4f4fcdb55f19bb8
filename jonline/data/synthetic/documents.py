"""Synthetic documents with exactly m labels each."""

import math

import numpy as np

from jonline import checks
from jonline.data.dataset import VertexTable
from jonline.data.parsers.unpack import missing_extra
from jonline.data.scale import unit_rows


def multilabel_table(
    num_rows: int,
    num_features: int,
    num_labels: int,
    subset_size: int,
    *,
    seed: int,
    unit_norm: bool = False,
) -> VertexTable:
    """Returns a table of scikit-learn's multilabel generator, rows with exactly m labels alone.

    A document of about 50 words draws its labels by their prior and its words by the mean of its
    labels' distributions; x counts the words. Fewer rows of the same seed are the first ones.

    Args:
      num_rows: N ≥ 1.
      num_features: n ≥ 1, number of words.
      num_labels: d ≥ 1.
      subset_size: m in 1…d, the mean number of labels of what is drawn, and the number of those
        that are kept.
      seed: in 0…2^32 - 1; it fixes the priors and the distributions of words too.
      unit_norm: whether every x is divided by its Euclidean norm.

    Returns:
      VertexTable(x (N, n) float32, y (N, d) float32 of 0 and 1, m ones a row).

    Raises:
      ImportError: scikit-learn is not installed.
      TypeError: a count or the seed is no int.
      ValueError: a count or the seed is out of range.

    Source: arXiv:2502.18709, appendix H.2, with n = 50, d in {10, 12, 16, 20, 24}, m = 5, N = 10^4.
    Differs: the paper repeats the generator until there are N rows, whereby priors and words change
    in the midst of a table if its seed does; here one call draws all.
    """
    num_rows = checks.at_least("num_rows", num_rows, 1)
    num_features = checks.at_least("num_features", num_features, 1)
    num_labels = checks.at_least("num_labels", num_labels, 1)
    subset_size = checks.at_least("subset_size", subset_size, 1)
    rule = f"be at most num_labels = {num_labels}"
    checks.require(subset_size <= num_labels, "subset_size", rule, subset_size)
    seed = checks.at_least("seed", seed, 0)
    checks.require(seed < 2**32, "seed", "be < 2^32", seed)
    try:
        from sklearn.datasets import make_multilabel_classification
    except ImportError as error:
        raise missing_extra("scikit-learn", "multilabel_table") from error
    m = subset_size
    share = math.exp(m * math.log(m) - m - math.lgamma(m + 1))  # of m under Poisson(m)
    num_drawn = math.ceil(1.1 * num_rows / share) + 50
    while True:  # a longer draw begins with the rows of a shorter one
        drawn = make_multilabel_classification(
            num_drawn, num_features, n_classes=num_labels, n_labels=m, random_state=seed
        )
        x, y = map(np.asarray, drawn[:2])
        kept = np.flatnonzero(y.sum(axis=1) == m)[:num_rows]
        if len(kept) == num_rows:
            break
        num_drawn *= 2
    features = unit_rows(x[kept]) if unit_norm else x[kept]
    return VertexTable(features.astype(np.float32), y[kept].astype(np.float32))
