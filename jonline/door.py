"""What `sweep`, `run` and `trace` check and bring into form before anything is traced."""

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jonline import checks
from jonline.core import Delay, Environment, Learner, PRNGKey
from jonline.rounds import Make

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


def _on_host(name: str, value: Any) -> None:
    if isinstance(value, Tracer):
        raise TypeError(
            f"{name} is traced, but sweep, run and trace are host code that compiles by itself; "
            "call them outside jit, vmap and grad"
        )


def check_axis(name: str, values: Any) -> np.ndarray:
    """Returns an axis of a grid, () or (G,), as it is given; raises unless the device can have it.

    These are the labels of the points; `on_device` makes of them what is computed with.
    """
    called = f"grid axis {name!r}"
    _on_host(called, values)
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
        _on_host(name, leaf)
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


def _root(key: Any) -> PRNGKey:
    """Returns typed keys, shape () or (S,), from an int, an old uint32 key or typed keys."""
    _on_host("key", key)
    root = _typed(key)
    if not _folds_by_hash(jax.random.key_impl(root)):
        raise TypeError(
            "key must be of a kind whose fold_in is a hash, as jax.random.key(seed, "
            f'impl="threefry2x32") is, got {jax.random.key_impl(root)}: the random words of its '
            "rounds are not independent"
        )
    return root


def _folds_by_hash(impl: Any) -> bool:
    """Returns whether `fold_in` of a kind of keys mixes the key with the number.

    Where it only adds it, as "unsafe_rbg" does (by XOR), two keys differ by the same after every
    number. So any kind is judged, one's own too, by what it does and not by its name.
    """
    ones, twos = (jax.random.key(seed, impl=impl) for seed in (1, 2))
    apart = []
    for number in (0, 1):
        one, two = (
            np.asarray(jax.random.key_data(jax.random.fold_in(key, number))) for key in (ones, twos)
        )
        apart.append((one ^ two, one - two))
    return not any(np.array_equal(*pair) for pair in zip(*apart, strict=True))


def _typed(key: Any) -> PRNGKey:
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        checks.require(0 <= key < 2**32, "key", "be in 0…2^32 - 1", key)
        root = jax.random.key(int(key))
        _on_host("key", root)  # within jit any key is
        return root
    if isinstance(key, (jax.Array, np.ndarray)):
        if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
            return jnp.asarray(key)
        if key.dtype == np.uint32:
            words = jax.random.key_data(jax.random.key(0)).shape
            if key.shape != words and key.shape[1:] != words:
                raise TypeError(
                    f"key must be an old uint32 key {words} or a row of them, got shape {key.shape}"
                )
            return jax.random.wrap_key_data(jnp.array(key))
    raise TypeError(
        "key must be an int, jax.random.key(...) or an old uint32 key, got "
        f"{type(key).__name__} {key!r:.100}"
    )


def seed_keys(key: Any, num_seeds: int) -> PRNGKey:
    """One key per run: folded from a root, or given one by one."""
    root = _root(key)
    if "threefry" not in str(jax.random.key_impl(root)):
        warnings.warn(
            f"keys of kind {jax.random.key_impl(root)} give bits that may depend on how many lanes "
            "run together, so that a lane is not its run; threefry keys do not",
            RuntimeWarning,
            stacklevel=3,
        )
    if root.ndim == 0:
        return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(root, jnp.arange(num_seeds))
    if root.shape != (num_seeds,):
        raise ValueError(
            f"key must be one key or num_seeds={num_seeds} of them, got shape {root.shape}"
        )
    words = np.asarray(jax.random.key_data(root))
    _, index, count = np.unique(words, axis=0, return_inverse=True, return_counts=True)
    same = np.flatnonzero(count[index.ravel()] > 1)
    if same.size:
        raise ValueError(
            f"keys of the seeds must differ, got the same for seeds {same.tolist()[:10]}"
        )
    return root


def one_key(key: Any, seed: int) -> PRNGKey:
    """Returns the run key of a seed, shape (1,): the one that `seed_keys` gives a sweep."""
    seed = checks.at_least("seed", seed, 0)
    checks.require(seed < 2**31, "seed", "be < 2^31", seed)
    root = _root(key)
    if root.ndim == 0:
        return jax.random.fold_in(root, seed)[None]
    checks.require(
        root.ndim == 1 and seed < len(root), "seed", f"be < {len(root)}, the number of keys", seed
    )
    return root[seed][None]
