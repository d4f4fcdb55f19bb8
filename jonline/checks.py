"""Range checks of factory arguments: they speak about concrete values and let traced ones pass."""

from typing import Any

import numpy as np
from jax.core import Tracer


def concrete(value: Any) -> np.ndarray | None:
    """Returns `value` as a NumPy array, or None while it is being traced."""
    return None if isinstance(value, Tracer) else np.asarray(value)


def require(ok: Any, name: str, rule: str, value: Any) -> None:
    """Raises ValueError "name must rule, got value" unless every entry of `ok` holds."""
    if not np.all(ok):
        raise ValueError(f"{name} must {rule}, got {value}")


def positive(name: str, value: Any) -> None:
    """Raises ValueError unless a concrete `value` is finite and > 0."""
    number = concrete(value)
    if number is not None:
        require((number > 0) & np.isfinite(number), name, "be > 0 and finite", value)


def non_negative(name: str, value: Any) -> None:
    """Raises ValueError unless a concrete `value` is finite and >= 0."""
    number = concrete(value)
    if number is not None:
        require((number >= 0) & np.isfinite(number), name, "be >= 0 and finite", value)


def probability(name: str, value: Any) -> None:
    """Raises ValueError unless a concrete `value` is in [0, 1]."""
    number = concrete(value)
    if number is not None:
        require((number >= 0) & (number <= 1), name, "be in [0, 1]", value)


def at_least(name: str, value: Any, least: int) -> None:
    """Raises unless `value` is a static Python int >= `least`.

    Raises:
      TypeError: if it is traced or not an integer; it fixes a shape.
      ValueError: if it is smaller than `least`.
    """
    if isinstance(value, (bool, Tracer)) or not isinstance(value, (int, np.integer)):
        raise TypeError(
            f"{name} must be a Python int, since it fixes a shape; got {type(value).__name__}"
        )
    require(value >= least, name, f"be >= {least}", value)


def labels(values: np.ndarray, num_classes: int) -> None:
    """Raises ValueError unless every label of `values` (N,) is in 1…num_classes."""
    bad = np.flatnonzero((values < 1) | (values > num_classes))
    if bad.size:
        raise ValueError(
            f"labels must be in 1…{num_classes}, got {values[bad[0]]} in row {bad[0]}; "
            "jonline.data.encode_labels maps yours to that range"
        )


def finite(name: str, values: np.ndarray) -> None:
    """Raises ValueError that names row and column unless every entry of `values` is finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(values)):
            return
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        at = bad[0].tolist()
        places = ["", " in row {}", " in row {}, column {}"]
        where = places[len(at)].format(*at) if len(at) < 3 else f" in entry {tuple(at)}"
        raise ValueError(
            f"{name} must be finite, got {values[tuple(at)]}{where} ({len(bad)} such "
            "entries); jonline.data.drop_bad_rows leaves such rows out"
        )
