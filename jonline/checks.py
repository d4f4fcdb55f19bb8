"""Checks of arguments: they speak about concrete values and let traced ones pass.

Each returns what may be kept of its argument: a count as a Python int, whose arithmetic cannot
wrap, a number or an array that its owner can no longer change.
"""

import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer


def concrete(value: Any) -> np.ndarray | None:
    """Returns `value` as a NumPy array, or None while it is being traced."""
    return None if isinstance(value, Tracer) else np.asarray(value)


def plain(number: np.generic) -> Any:
    """Returns a NumPy number as a Python one that shows no more digits than it has."""
    return float(str(number)) if jnp.issubdtype(number.dtype, jnp.floating) else number.item()


def shown(value: Any) -> str:
    """Returns kind and value of an argument, for messages."""
    return f"{type(value).__name__} {value!r:.100}"


def require(ok: Any, name: str, rule: str, value: Any) -> None:
    """Raises ValueError "name must rule, got value" unless every entry of `ok` holds."""
    if not np.all(ok):
        raise ValueError(f"{name} must {rule}, got {value!s}")


def has_numbers(dtype: Any) -> bool:
    """Returns whether a dtype is one of real numbers (bool is none)."""
    floats = jnp.issubdtype(dtype, jnp.floating)  # bfloat16 is of kind "V", a key of none
    return floats or getattr(dtype, "kind", "") in ("i", "u")


def _traced(name: str, rule: str) -> TypeError:
    return TypeError(
        f"{name} must be {rule}, got a traced value (a grid's hyperparameters are traced: loop "
        "over static choices in Python)"
    )


def on_host(name: str, value: Any) -> None:
    """Raises TypeError if an argument of `sweep`, `run` or `trace` is traced."""
    if isinstance(value, Tracer):
        raise TypeError(
            f"{name} is traced, but sweep, run and trace are host code that compiles by itself; "
            "call them outside jit, vmap and grad"
        )


def array(name: str, value: Any) -> np.ndarray:
    """Returns `value` as a NumPy array of its own.

    Raises:
      TypeError: if it is traced, or no array can be made of it.
    """
    if isinstance(value, Tracer):
        raise _traced(name, "known before tracing")
    unmasked(name, value)
    try:
        return np.array(value)
    except Exception as error:  # ragged lists, keys, whatever an object's own conversion raises
        raise TypeError(f"{name} must be an array of numbers, got {shown(value)}") from error


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
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        require(abs(value) < 10**300, name, "be < 10^300", "more")
        value = float(value)
    known = value if isinstance(value, Tracer) else array(name, value)
    if not has_numbers(known.dtype):
        raise TypeError(f"{name} must be a number, got {value!r:.100}")
    require(known.shape == (), name, "be a scalar", f"shape {known.shape}")
    return None if isinstance(known, Tracer) else known


def real(name: str, value: Any, rule: str, ok: Callable, *, static: bool = False) -> Any:
    """Returns a number that the rule holds for, on the device too, as it may be kept.

    An integer comes back as a Python int (beyond int32, as a float), NumPy's array as a copy.

    Args:
      name, rule: for messages.
      value: traced, or a number.
      ok: `(number) -> bool`.
      static: whether a traced value is an error, and a float comes back as a Python float.

    Raises:
      TypeError, ValueError: as `scalar`; if the rule does not hold.
    """
    number = scalar(name, value)
    if number is None:
        if static:
            raise _traced(name, "known before tracing")
        return value
    require(ok(number), name, rule, value)
    with np.errstate(over="ignore", under="ignore"):
        narrow = number.astype(jax.dtypes.canonicalize_dtype(number.dtype))
    if number.dtype.kind == "f":
        fits(name, number, narrow)
        require(ok(narrow), name, f"{rule} in {narrow.dtype}", value)
    if number.dtype.kind in "iu":
        whole = int(number)
        return whole if abs(whole) < 2**31 else float(whole)
    if static or isinstance(value, int):
        return float(number)
    return number if isinstance(value, np.ndarray) else value


def positive(name: str, value: Any, *, static: bool = False) -> Any:
    """Returns a concrete `value` that is finite and > 0, as `real` does."""
    ok = lambda number: (number > 0) & np.isfinite(number)  # noqa: E731
    return real(name, value, "be > 0 and finite", ok, static=static)


def non_negative(name: str, value: Any, *, static: bool = False) -> Any:
    """Returns a concrete `value` that is finite and >= 0, as `real` does."""
    ok = lambda number: (number >= 0) & np.isfinite(number)  # noqa: E731
    return real(name, value, "be >= 0 and finite", ok, static=static)


def probability(name: str, value: Any, *, static: bool = False) -> Any:
    """Returns a concrete `value` in [0, 1], as `real` does."""
    ok = lambda number: (number >= 0) & (number <= 1)  # noqa: E731
    return real(name, value, "be in [0, 1]", ok, static=static)


def at_least(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Returns a count, a Python or NumPy integer in least…most, as a Python int.

    Raises:
      TypeError: if it is traced or no integer; an array is none, a bool neither.
      ValueError: if it is out of range.
    """
    if isinstance(value, Tracer):
        raise _traced(name, "a Python int")
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a Python int, got {type(value).__name__} {value!s:.100}")
    count = int(value)
    require(count >= least, name, f"be >= {least}", value)
    require(most is None or count <= most, name, f"be <= {most}", value)
    return count


def delay_bound(value: Any, name: str = "max_rounds") -> int:
    """Returns the bound of a delay, a static integer in 0…2^31 - 2, as a Python int."""
    bound = at_least(name, value, 0)
    require(bound < 2**31 - 1, name, "be < 2^31 - 1", value)
    return bound


def flag(name: str, value: Any) -> bool:
    """Returns `value`, True or False; else raises TypeError."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be bool, got {shown(value)}")
    return bool(value)


def choice(name: str, value: Any, options: Sequence[str]) -> None:
    """Raises ValueError unless `value` is one of the words."""
    known = isinstance(value, str) and value in options
    require(known, name, "be " + " or ".join(f'"{word}"' for word in options), f"{value!r:.100}")


def function(name: str, value: Any, signature: str) -> None:
    """Raises TypeError unless `value` can be called."""
    if not callable(value):
        raise TypeError(f"{name} must be a function {signature}, got {value!r:.100}")


def kind(name: str, value: Any, expected: type, cure: str = "") -> None:
    """Raises TypeError unless `value` is an instance of `expected`."""
    if not isinstance(value, expected):
        cure = cure and f"; {cure}"
        raise TypeError(f"{name} must be {expected.__name__}, got {shown(value)}{cure}")


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


def numbers(name: str, value: Any, least: float | None = None) -> np.ndarray:
    """Returns finite numbers, of any shape and >= `least`, as float64 of its own.

    Raises:
      TypeError, ValueError: if they are traced, no numbers, not finite or less.
    """
    known = array(name, value)
    if not has_numbers(known.dtype):
        raise TypeError(f"{name} must hold numbers, got {shown(value)}")
    require(np.isfinite(known), name, "be finite", value)
    if least is not None:
        require(known >= least, name, f"be >= {least}", value)
    return known.astype(np.float64)


def fields(name: str, value: Any, *wanted: str) -> None:
    """Raises TypeError unless `value` has all these attributes."""
    missing = [field for field in wanted if not hasattr(value, field)]
    if missing:
        raise TypeError(f"{name} must have .{missing[0]}, got {shown(value)}")


def key(name: str, value: Any) -> None:
    """Raises TypeError unless `value` is one key, typed or an old uint32 one, or is traced."""
    is_array = isinstance(value, (jax.Array, np.ndarray))
    is_typed = is_array and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    is_old = is_array and value.dtype == np.uint32 and value.shape in ((2,), (4,))
    if not (is_typed and value.shape == ()) and not is_old:
        raise TypeError(f"{name} must be one key, as jax.random.key(0) is, got {shown(value)}")


def columns(name: str, records: Any, wanted: Sequence[str], origin: str) -> None:
    """Raises unless `records` has all these columns, arrays of numbers, of a metrics function.

    Raises:
      TypeError: if it is no mapping, or a column holds no numbers.
      ValueError: if a column is missing, or they differ in shape.
    """
    kind(name, records, Mapping)
    for column in wanted:
        require(column in records, name, f"have {column!r} of {origin}", [*records])
        numbers_of = array(f"{name}[{column!r}]", records[column])
        if not has_numbers(numbers_of.dtype):
            raise TypeError(f"{name}[{column!r}] must hold numbers, got {numbers_of.dtype}")
    shapes = {column: np.shape(records[column]) for column in wanted}
    require(len({*shapes.values()}) == 1, name, "have columns of one shape", shapes)


def elementwise(**values: Any) -> list[Any]:
    """Returns numbers and arrays of numbers whose shapes fit each other.

    For the formulas, which say so while they are traced. NumPy's integers and bools come back with
    64 bits, in which a sum does not wrap and of which there is a negative.

    Raises:
      TypeError: if one is neither.
      ValueError: if the shapes do not broadcast, or a Python int is beyond 2^30.
    """
    for name, value in values.items():
        unmasked(name, value)
        is_array = isinstance(value, (jax.Array, np.ndarray, np.generic))
        if is_array and not isinstance(value, jax.Array) and value.dtype.kind in "biu":
            values[name] = value.astype(np.int64) if value.ndim else int(value)
        if is_array and (value.dtype == bool or has_numbers(value.dtype)):
            continue
        if not isinstance(value, (int, float)):
            raise TypeError(f"{name} must be numbers, got {shown(value)}")
        if isinstance(value, int):  # twice it is still an int32
            require(abs(value) <= 2**30, name, "be in -2^30…2^30", value)
    shapes = {name: np.shape(value) for name, value in values.items()}
    try:
        np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        raise ValueError(f"shapes must fit each other, got {shapes}") from error
    return [*values.values()]


def whole(**values: Any) -> None:
    """Raises ValueError unless all concrete ones, of any shape, are whole numbers below 2^31."""
    for name, value in values.items():
        known = concrete(value)
        if known is not None:
            ok = (known == np.floor(known)) & (np.abs(known.astype(np.float64)) < 2**31)
            require(ok, name, "be whole numbers below 2^31", value)


def vector(name: str, value: Any, length: int | None = None) -> None:
    """Raises as `elementwise`; also unless `value` has one axis (of that length)."""
    elementwise(**{name: value})
    shape, wanted = np.shape(value), "(n,)" if length is None else f"({length},)"
    ok = len(shape) == 1 and length in (None, *shape)
    require(ok, name, f"have shape {wanted}", shape)


def feedback(learner: str, value: Any, *kinds: type, oracle: str = "") -> None:
    """Raises TypeError unless `value` is of one of `kinds`, the feedback that a learner reads.

    Args:
      learner: its name.
      value: what it was given.
      kinds: types of `jonline.oracles`.
      oracle: the one to name that answers it; by default each kind's own.
    """
    if not isinstance(value, kinds):
        reads = [one.__name__ for one in kinds]
        use = oracle or " or ".join(f"oracles.{name.lower()}" for name in reads)
        raise TypeError(
            f"{learner} reads {' or '.join(reads)}, got {type(value).__name__}; use {use}"
        )


def known_true(value: Any) -> bool:
    """Returns whether `value` is Python's or NumPy's True, and so the same in every round."""
    return isinstance(value, (bool, np.bool_)) and bool(value)


def labels(values: np.ndarray, num_classes: int) -> None:
    """Raises ValueError unless every label of `values` (N,) is in 1…num_classes."""
    is_whole = values == np.floor(values)
    bad = np.flatnonzero(~((values >= 1) & (values <= num_classes) & is_whole))
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
