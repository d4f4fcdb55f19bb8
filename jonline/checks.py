"""Range checks of factory arguments: they speak about concrete values and let traced ones pass."""

import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer


def concrete(value: Any) -> np.ndarray | None:
    """Returns `value` as a NumPy array, or None while it is being traced."""
    return None if isinstance(value, Tracer) else np.asarray(value)


def plain(number: np.generic) -> Any:
    """Returns a NumPy number as a Python one that shows no more digits than it has."""
    return float(str(number)) if jnp.issubdtype(number.dtype, jnp.floating) else number.item()


def require(ok: Any, name: str, rule: str, value: Any) -> None:
    """Raises ValueError "name must rule, got value" unless every entry of `ok` holds."""
    if not np.all(ok):
        raise ValueError(f"{name} must {rule}, got {value!s}")


def own(values: Any) -> Any:
    """Returns an array that its owner cannot change: itself, or a read-only copy."""
    memory = values
    while isinstance(memory, np.ndarray) and not memory.flags.writeable:
        memory = memory.base
    if not isinstance(memory, np.ndarray):
        return values
    copy = values.copy()
    copy.flags.writeable = False
    return copy


def scalar(name: str, value: Any) -> np.ndarray | None:
    """Returns one real number as a NumPy array of shape (), or None while it is being traced.

    Raises:
      TypeError: if it is not a number (a bool is none).
      ValueError: if it is not one but several, traced or not.
    """
    array = value if isinstance(value, Tracer) else np.asarray(value)
    if array.dtype.kind not in "iu" and not jnp.issubdtype(array.dtype, jnp.floating):
        raise TypeError(f"{name} must be a number, got {value!r:.100}")
    require(array.shape == (), name, "be a scalar", f"shape {array.shape}")
    return concrete(value)


def positive(name: str, value: Any) -> None:
    """Raises ValueError unless a concrete `value` is finite and > 0; kinds as `scalar`."""
    number = scalar(name, value)
    if number is not None:
        require((number > 0) & np.isfinite(number), name, "be > 0 and finite", value)


def non_negative(name: str, value: Any) -> None:
    """Raises ValueError unless a concrete `value` is finite and >= 0; kinds as `scalar`."""
    number = scalar(name, value)
    if number is not None:
        require((number >= 0) & np.isfinite(number), name, "be >= 0 and finite", value)


def probability(name: str, value: Any) -> None:
    """Raises ValueError unless a concrete `value` is in [0, 1]; kinds as `scalar`."""
    number = scalar(name, value)
    if number is not None:
        require((number >= 0) & (number <= 1), name, "be in [0, 1]", value)


def at_least(name: str, value: Any, least: int) -> int:
    """Returns `value` as a Python int; raises unless it is a static integer >= `least`.

    Raises:
      TypeError: if it is traced or not an integer.
      ValueError: if it is smaller than `least`.
    """
    if isinstance(value, (bool, Tracer)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a Python int, got {type(value).__name__} {value!s:.100}")
    require(value >= least, name, f"be >= {least}", value)
    return int(value)


def kind(name: str, value: Any, expected: type) -> None:
    """Raises TypeError unless `value` is an instance of `expected`."""
    if not isinstance(value, expected):
        raise TypeError(
            f"{name} must be {expected.__name__}, got {type(value).__name__} {value!r:.100}"
        )


def path(name: str, value: Any) -> Path:
    """Returns a path of this machine's file system, with the home folder for "~".

    Raises:
      TypeError: if it is neither text nor a path.
      ValueError: if it is empty, or an address such as "gs://bucket/run".
    """
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a path, got {type(value).__name__} {value!r:.100}")
    is_local = bool(text) and "\0" not in text and not re.match(r"[A-Za-z][\w+.-]+:/", text)
    rule = "be a path of this machine, such as '~/runs/first' (a bucket's once it is mounted)"
    require(is_local, name, rule, repr(text))
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{name} must {rule}, got {text!r}: {error}") from error


def warn(message: str) -> None:
    """Gives a RuntimeWarning, located where jonline was called from."""
    here, frame, level = str(Path(__file__).parent) + os.sep, sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(here):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, RuntimeWarning, stacklevel=level)


def delay_bound(value: Any, name: str = "max_rounds") -> None:
    """Raises unless `value`, the bound of a delay, is a static Python int in 0…2^31 - 2."""
    at_least(name, value, 0)
    require(value < 2**31 - 1, name, "be < 2^31 - 1", value)


def labels(values: np.ndarray, num_classes: int) -> None:
    """Raises ValueError unless every label of `values` (N,) is in 1…num_classes."""
    bad = np.flatnonzero(~((values >= 1) & (values <= num_classes) & (values == np.floor(values))))
    if bad.size:
        raise ValueError(
            f"labels must be in 1…{num_classes}, got {values[bad[0]]} in row {bad[0]}; "
            "jonline.data.encode_labels maps yours to that range"
        )


def signs(values: Any) -> None:
    """Raises ValueError unless every concrete label of `values`, any shape, is -1 or 1."""
    array = concrete(values)
    if array is not None and not np.isin(array, (-1, 1)).all():
        bad = array[~np.isin(array, (-1, 1))]
        raise ValueError(
            f"labels must be -1 or 1, got {bad[0]}; jonline.data.encode_signs maps two values, "
            "such as 0 and 1, to these"
        )


def unmasked(name: str, values: Any) -> None:
    """Raises TypeError if `values` is a masked array, whose mask would be lost."""
    if isinstance(values, np.ma.MaskedArray):
        fill = "float).filled(numpy.nan)" if values.dtype.kind in "biuf" else "object).filled(None)"
        raise TypeError(
            f"{name} must be without a mask, got {type(values).__name__}; mark such entries as "
            f"missing and drop their rows, for example {name} = {name}.astype({fill}"
        )


def fits(name: str, values: np.ndarray, narrow: np.ndarray) -> None:
    """Raises ValueError unless `narrow` holds the numbers of `values`: finite, integers unchanged.

    It names row and column. Numbers that are not finite in `values` either are let pass.
    """
    if values.dtype == narrow.dtype:
        return
    is_float = jnp.issubdtype(values.dtype, jnp.floating)
    bad = np.isfinite(values) & ~np.isfinite(narrow) if is_float else narrow != values
    at = np.argwhere(bad)
    if len(at):
        value = values[tuple(at[0])]
        raise ValueError(f"{name} must fit into {narrow.dtype}, got {value!s}{place(at[0])}")


def place(at: np.ndarray) -> str:
    """Returns " in row r, column c" for an index, for messages."""
    places = ["", " in row {}", " in row {}, column {}"]
    return places[len(at)].format(*at) if len(at) < 3 else f" in entry {tuple(at.tolist())}"


def finite(name: str, values: np.ndarray) -> None:
    """Raises ValueError that names row and column unless every entry of `values` is finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(values)):
            return
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        value = values[tuple(bad[0])]
        raise ValueError(
            f"{name} must be finite, got {value!s}{place(bad[0])} ({len(bad)} such "
            "entries); jonline.data.drop_bad_rows leaves such rows out"
        )
