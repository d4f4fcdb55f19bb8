"""What `sweep`, `run` and `trace` check and bring into form before anything is traced."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.core import Delay, Environment, Learner, Make

MAKE = "(point, data) -> (learner, environment)"
_OF_TRACED = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


def check_compiles() -> None:
    """Raises RuntimeError where JAX compiles nothing: a round would take half a minute there."""
    if jax.config.values["jax_disable_jit"]:
        raise RuntimeError(
            "jax_disable_jit must be unset for sweep, run, trace and examples, got True; trace "
            "shows every round without it, and jonline.step plays single rounds by hand with it"
        )


def check_rounds(num_rounds: Any, record_every: Any) -> tuple[int, int]:
    """Returns both as Python ints; raises unless `record_every` divides `num_rounds`."""
    num_rounds = checks.at_least("num_rounds", num_rounds, 1)
    record_every = checks.at_least("record_every", record_every, 1)
    checks.require(num_rounds < 2**31, "num_rounds", "be < 2^31", num_rounds)
    if num_rounds % record_every:
        below = num_rounds // record_every * record_every
        nearest = [str(n) for n in (below, below + record_every) if n]
        raise ValueError(
            f"num_rounds={num_rounds} is not a multiple of record_every={record_every}; "
            f"use {' or '.join(nearest)}"
        )
    return num_rounds, record_every


def check_axis(name: str, values: Any) -> np.ndarray:
    """Returns an axis of a grid, () or (G,), as it is given; raises unless the device can have it.

    These are the labels of the points; `on_device` makes of them what is computed with.
    """
    called = f"grid axis {name!r}"
    checks.on_host(called, values)
    array = checks.array(called, values)
    if not checks.has_numbers(array.dtype):
        raise TypeError(
            f"{called} must hold numbers, got {checks.shown(values)}; for static choices, such as "
            "text, loop over sweeps in Python"
        )
    if array.ndim > 1 or array.size == 0:
        raise ValueError(f"{called} must be a non-empty 1-D sequence, got shape {array.shape}")
    if array.dtype.kind not in "iu" and array.dtype.itemsize < 4:
        array = array.astype(np.float32)  # files and frames do not know those of 16 bits
    _of_device(called, array)
    return array


def _of_device(name: str, axis: np.ndarray) -> np.ndarray:
    return _canonical(name, axis, np.int64 if axis.dtype.kind in "iu" else axis.dtype)


def _canonical(name: str, array: np.ndarray, dtype: Any) -> np.ndarray:
    """Returns numbers in the device's precision for a dtype, which must hold them."""
    dtype = jax.dtypes.canonicalize_dtype(dtype)
    with np.errstate(over="ignore"):
        narrow = checks.own(array) if array.dtype == dtype else array.astype(dtype)
    checks.fits(name, array, narrow)
    narrow.flags.writeable = False
    return narrow


def on_device(grid: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns checked axes in the device's precision; an int is one of 32 bits, 64 under x64."""
    return {name: _of_device(f"grid axis {name!r}", axis) for name, axis in grid.items()}


def check_grid(grid: dict[str, Any]) -> dict[str, np.ndarray]:
    """Returns the grid's axes, (G,) each, as given; raises unless numbers of one length."""
    if not isinstance(grid, dict):
        raise TypeError(f"grid must be a dict of numbers by name, got {grid!r:.100}")
    for name in grid:
        checks.kind("name of a grid axis", name, str)
    axes = {name: np.atleast_1d(check_axis(name, values)) for name, values in grid.items()}
    sizes = {name: len(axis) for name, axis in axes.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(
            f"grid axes must have one length, got {sizes}; product_grid makes all combinations"
        )
    return axes


def one_point(point: dict[str, Any]) -> dict[str, np.ndarray]:
    """Returns a point as a grid of one; raises unless every entry is one number."""
    if not isinstance(point, dict):
        raise TypeError(f"point must be a dict of numbers by name, got {point!r:.100}")
    axes = {name: check_axis(name, value) for name, value in point.items()}
    for name, axis in axes.items():
        checks.require(axis.size == 1, f"point entry {name!r}", "be one number", axis)
    return {name: axis.reshape(1) for name, axis in axes.items()}


@contextlib.contextmanager
def explaining(make: Any, grid: Any, data: Any) -> Iterator[None]:
    """Adds to JAX's errors about the value of a traced number which one it is, and what to do."""
    try:
        yield
    except _OF_TRACED as error:
        names = [name for name in grid if _needs_value(make, name, grid, data)]
        which = ", ".join(repr(name) for name in names) or "something traced"
        error.add_note(
            f"the value of {which} is needed while the program is traced (by an `if` or a float(), "
            "say), but a grid's hyperparameters, states and features are traced: use jnp.where or "
            "jax.lax.cond; for static choices loop over sweeps in Python"
        )
        raise


def _needs_value(make: Any, name: str, grid: Any, data: Any) -> bool:
    """Returns whether `make` fails where this hyperparameter alone is traced."""
    point = {axis: np.ravel(values)[0] for axis, values in grid.items()}
    try:
        jax.eval_shape(lambda value: (make(point | {name: value}, data), None)[1], point[name])
    except _OF_TRACED:
        return True
    except Exception:
        return False
    return False


def check_points(
    make: Make, grid: dict[str, np.ndarray], data: Any, num_rounds: int
) -> tuple[int, int]:
    """Calls `make` with the concrete numbers of each point, so that the factories' checks speak.

    Args:
      make, data: of the sweep.
      grid: as `check_grid` returns it.
      num_rounds: of a run.

    Returns:
      The greatest `max_rounds` of the points' delays, 0 without any, and the bytes of the first
      point's state (0 where `init` fails, of which the run will tell).

    Raises:
      TypeError: if `make` does not return (Learner, Environment), or its delay is none.
      ValueError: if a delay is not defined for all `num_rounds`, its bound is out of range, or it
        may never end while the learner needs every answer.
      Exception: what `make` raises, with a note that names the point.
    """
    longest = size = 0
    numbers = on_device(grid)
    for i in range(len(next(iter(grid.values()))) if grid else 1):
        try:
            made = make({name: axis[i] for name, axis in numbers.items()}, data)
        except Exception as error:
            label = as_written({name: axis[i] for name, axis in grid.items()})
            error.add_note(f"at point {i} of the grid, {label}")
            raise
        learner, environment = made if isinstance(made, tuple) and len(made) == 2 else (None, None)
        if not isinstance(learner, Learner) or not isinstance(environment, Environment):
            raise TypeError(f"make must return (Learner, Environment), got {made!r:.200}")
        if environment.delay is not None:
            _check_delay(environment.delay, num_rounds)
            _check_never(learner, environment.delay)
            longest = max(longest, environment.delay.max_rounds)
        if i == 0:
            size = _size_of_state(learner)
    return longest, size


def _size_of_state(learner: Learner) -> int:
    try:
        state = jax.eval_shape(learner.init, jax.random.key(0))
    except Exception:  # the run will say it better
        return 0
    leaves = [leaf for leaf in jax.tree.leaves(state) if hasattr(leaf, "dtype")]
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)


def as_written(point: dict[str, Any]) -> dict[str, Any]:
    """Returns a point for messages, with Python numbers of as many digits as its own have."""
    return {name: checks.plain(value) for name, value in point.items()}


def _check_delay(delay: Any, num_rounds: int) -> None:
    if not isinstance(delay, Delay):
        raise TypeError(
            f"delay must be a Delay or None, got {delay!r:.100}; delays.fixed(3) is one of 3 rounds"
        )
    checks.function("delay.sample", delay.sample, "(key, t) -> int")
    checks.delay_bound(delay.max_rounds)
    covers = delay.num_rounds is None or delay.num_rounds >= num_rounds
    rule = f"cover num_rounds={num_rounds}"
    checks.require(covers, "delay", rule, f"{delay.num_rounds} entries")


def _check_never(learner: Learner, delay: Delay) -> None:
    reason = getattr(learner.update, "needs_every_answer", None)
    if delay.may_never and reason:
        raise ValueError(
            f"delay must end in every round for this learner, got may_never=True: {reason}; "
            "oracles.missing has answers that come without a value"
        )


def check_data(data: Any) -> Any:
    """Returns the data with NumPy leaves in the device's precision; numbers must be finite."""

    def check(path, leaf):
        name = "data" + jax.tree_util.keystr(path)
        checks.on_host(name, leaf)
        checks.unmasked(name, leaf)
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return leaf
        if not isinstance(leaf, (np.ndarray, np.generic, jax.Array, int, float)):
            raise TypeError(
                f"{name} must be an array, got {type(leaf).__name__}; "
                "jonline.data.from_arrays(x, y, num_classes) makes arrays of a table"
            )
        array = np.asarray(leaf)  # no copy yet: `_canonical` makes it
        is_float = jnp.issubdtype(array.dtype, jnp.floating)  # bfloat16 is one of kind "V"
        if array.dtype.kind not in "biu" and not is_float:
            raise TypeError(f"{name} must hold numbers, got {array.dtype}")
        if is_float:
            checks.finite(name, array)
        return _canonical(name, array, array.dtype)

    return jax.tree_util.tree_map_with_path(check, data)
