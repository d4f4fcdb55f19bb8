"""Labels of any kind to 1…K and back."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jonline.data.arrays import is_bad, items


class Encoding(NamedTuple):
    """Ordinal labels and what they stand for.

    Attributes:
      labels: (N,) int32 in 1…K; from `encode_signs` -1 and 1.
      order: the K values, lowest first: label k stands for `order[k - 1]`, and -1 and 1 for the
        first and the second of two.
    """

    labels: np.ndarray
    order: tuple


def _own_order(values: Any, entries: list) -> Any:
    """Returns the order of ordered categories, else that of numbers, or raises ValueError."""
    dtype: Any = getattr(values, "dtype", None)
    if getattr(dtype, "ordered", type(dtype).__name__ == "Enum"):  # of pandas, of polars
        return dtype.categories
    present = [item for item in entries if not is_bad(item)]
    if not all(isinstance(item, (int, float, np.integer, np.floating)) for item in present):
        seen = sorted(set(present), key=str)
        raise ValueError(
            "order must be given, lowest first, for labels that are not numbers; "
            f"put these in order, for example order = {seen}"
        )
    return sorted(set(present))


def encode_labels(values: Any, order: Sequence | None = None) -> Encoding:
    """Returns labels 1…K for values of any kind, with the order that decodes them.

    Args:
      values: (N,) numbers, strings or other hashable values; a list, array, or series of pandas or
        polars. A missing one (None, NaN, NA) is an error unless it is in the order.
      order: the K ≥ 2 different values, lowest first. None takes the order of an ordered pandas
        categorical or of a polars Enum; otherwise it sorts the values that occur, which is allowed
        for numbers only: the order of names is not in the names.

    Returns:
      Encoding(labels, order); K is `len(order)`.

    Raises:
      ValueError: values not (N,), no order for values that are not numbers, an order with fewer
        than 2 or with repeated values, or a value that is not in the order (names its row).
    """
    entries = items("values", values, "N")
    order = _own_order(values, entries) if order is None else order
    order = tuple(items("order", order, "K"))
    code = {value: k for k, value in enumerate(order, start=1)}
    for row, item in enumerate(entries):
        if is_bad(item) and item not in code:
            raise ValueError(
                f"row {row} has value {item!r}, which is no label; leave such rows out, for "
                "example x, values, _ = jonline.data.drop_bad_rows(x, values)"
            )
    if len(order) < 2 or len(code) < len(order):
        raise ValueError(f"order must have at least 2 values, each once, got {list(order)}")
    for row, item in enumerate(entries):
        if item not in code:
            raise ValueError(f"row {row} has value {item!r}, which is not in order={list(order)}")
    return Encoding(np.array([code[item] for item in entries], np.int32), order)


def encode_signs(values: Any, order: Sequence | None = None) -> Encoding:
    """Returns labels -1 and 1 for two values of any kind, such as 0 and 1.

    Args:
      values: as for `encode_labels`.
      order: the two values, that of -1 first; None as for `encode_labels`.

    Returns:
      Encoding(labels, order).

    Raises:
      ValueError: as `encode_labels`; if there are more than two values.
    """
    labels, order = encode_labels(values, order)
    if len(order) != 2:
        raise ValueError(f"order must have 2 values, for -1 and 1, got {list(order)}")
    return Encoding((2 * labels - 3).astype(np.int32), order)


def decode_labels(labels: Any, order: Sequence) -> np.ndarray:
    """Returns the values that labels 1…K stand for: `order[label - 1]`.

    Args:
      labels: integers 1…K, any shape.
      order: the K values, lowest first, as `encode_labels` returned them.

    Returns:
      an array of the shape of `labels`.

    Raises:
      TypeError: labels are not integers.
      ValueError: a label is outside 1…K.
    """
    array = np.asarray(labels)
    if array.dtype.kind not in "iu":
        raise TypeError(f"labels must be integers, got dtype {array.dtype}")
    bad = (array < 1) | (array > len(order))
    if bad.any():
        raise ValueError(f"labels must be in 1..{len(order)}, got {array[bad][0]}")
    entries = items("order", order, "K")
    kinds = (int, float, np.number), str
    alike = any(all(isinstance(item, kind) for item in entries) for kind in kinds)
    table = np.asarray(entries) if alike else np.fromiter(entries, object, len(entries))
    return table[array - 1]
