"""What the list of real data sets says of each."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jonline.data.catalog.fetch import File
from jonline.data.parsers.tables import Table

NO_TERMS = "none stated by the origin"


class Entry(NamedTuple):
    """A data set and the task made from it.

    Attributes:
      name: its name.
      file: where it comes from.
      read: content of the file, and of those of `more`, to a Table.
      label: the table's target, (N,), to labels 1…num_classes, or -1 and 1.
      num_classes: K, or None if the labels are -1 and 1.
      scale: features (N, n) to scaled features, where `load` is not told otherwise.
      terms: terms of use as the origin states them.
      task: what `read`, `label` and `scale` do, in a sentence.
      stand_in: name of the entry to load if this one's file is not found, or "".
      more: files that `read` takes after the first.
    """

    name: str
    file: File
    read: Callable[..., Table]
    label: Callable[[np.ndarray], np.ndarray]
    num_classes: int | None
    scale: Callable[[np.ndarray], np.ndarray]
    terms: str
    task: str
    stand_in: str = ""
    more: tuple[File, ...] = ()


def above_zero(values: np.ndarray) -> np.ndarray:
    """Returns relevance 0…4, or digits 0…9, as labels from 1 on."""
    return values + 1
