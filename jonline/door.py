"""What `sweep`, `run` and `trace` check and bring into form before anything is traced."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jonline import checks
from jonline.core import Delay, Environment, Learner, PRNGKey
from jonline.rounds import Make


def check_compiles() -> None:
    """Raises RuntimeError where JAX compiles nothing: a round would take half a minute there."""
    if jax.config.values["jax_disable_jit"]:
        raise RuntimeError(
            "jax_disable_jit must be unset for sweep, run, trace and examples, got True; trace "
            "shows every round without it, and jonline.step plays single rounds by hand with it"
        )


def check_rounds(num_rounds: Any, record_every: Any) -> int:
    """Returns the number of windows; raises unless `record_every` divides `num_rounds`."""
    checks.at_least("num_rounds", num_rounds, 1)
    checks.at_least("record_every", record_every, 1)
    checks.require(num_rounds < 2**31, "num_rounds", "be < 2^31", num_rounds)
    if num_rounds % record_every:
        below = num_rounds // record_every * record_every
        nearest = [str(n) for n in (below, below + record_every) if n]
        raise ValueError(
            f"num_rounds={num_rounds} is not a multiple of record_every={record_every}; "
            f"use {' or '.join(nearest)}"
        )
    return num_rounds // record_every


def _on_host(name: str, value: Any) -> None:
    if isinstance(value, Tracer):
        raise TypeError(
            f"{name} is traced, but sweep, run and trace are host code that compiles by itself; "
            "call them outside jit, vmap and grad"
        )


def check_axis(name: str, values: Any) -> np.ndarray:
    """Returns an axis of a grid, () or (G,), in the device's precision; raises unless numbers."""
    _on_host(f"grid axis {name!r}", values)
    array = np.asarray(values)
    if jnp.issubdtype(array.dtype, jnp.floating) and array.dtype.itemsize < 4:
        array = array.astype(np.float32)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"grid axis {name!r} must hold numbers, got {array.dtype} {values!r}")
    if array.ndim > 1 or array.size == 0:
        raise ValueError(
            f"grid axis {name!r} must be a non-empty 1-D sequence, got shape {array.shape}"
        )
    return _canonical(f"grid axis {name!r}", array)


def _canonical(name: str, array: np.ndarray) -> np.ndarray:
    """Returns numbers in the device's precision, which must hold them."""
    with np.errstate(over="ignore"):
        narrow = array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)
    checks.fits(name, array, narrow)
    return narrow


def check_grid(grid: dict[str, Any]) -> dict[str, np.ndarray]:
    """Returns the grid's axes, (G,) each; raises unless they are numbers of one length."""
    if not isinstance(grid, dict):
        raise TypeError(f"grid must be a dict of numbers by name, got {grid!r:.100}")
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


def check_points(
    make: Make, grid: dict[str, np.ndarray], data: Any, num_rounds: int
) -> tuple[int, int]:
    """Calls `make` with the concrete numbers of each point, so that the factories' checks speak.

    Returns:
      The greatest `max_rounds` of the points' delays, 0 without any, and the bytes of the first
      point's state (0 where `init` fails, of which the run will tell).

    Raises:
      TypeError: if `make` does not return (Learner, Environment), or its delay is none.
      ValueError: if a delay is not defined for all `num_rounds`, or its bound is out of range.
      Exception: what `make` raises, with a note that names the point.
    """
    longest = size = 0
    for i in range(len(next(iter(grid.values()))) if grid else 1):
        point = {name: axis[i] for name, axis in grid.items()}
        try:
            made = make(point, data)
        except Exception as error:
            error.add_note(f"at point {i} of the grid, {as_written(point)}")
            raise
        learner, environment = made if isinstance(made, tuple) and len(made) == 2 else (None, None)
        if not isinstance(learner, Learner) or not isinstance(environment, Environment):
            raise TypeError(f"make must return (Learner, Environment), got {made!r:.200}")
        if environment.delay is not None:
            _check_delay(environment.delay, num_rounds)
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
    checks.delay_bound(delay.max_rounds)
    covers = delay.num_rounds is None or delay.num_rounds >= num_rounds
    rule = f"cover num_rounds={num_rounds}"
    checks.require(covers, "delay", rule, f"{delay.num_rounds} entries")


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
        array = np.asarray(leaf)
        is_float = jnp.issubdtype(array.dtype, jnp.floating)  # bfloat16 is one of kind "V"
        if array.dtype.kind not in "biu" and not is_float:
            raise TypeError(f"{name} must hold numbers, got {array.dtype}")
        if is_float:
            checks.finite(name, array)
        return _canonical(name, array)

    return jax.tree_util.tree_map_with_path(check, data)


def _root(key: Any) -> PRNGKey:
    """Returns typed keys, shape () or (S,), from an int, an old uint32 key or typed keys."""
    _on_host("key", key)
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
            return jax.random.wrap_key_data(jnp.asarray(key))
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
            "run together; threefry keys do not",
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
    checks.at_least("seed", seed, 0)
    checks.require(seed < 2**31, "seed", "be < 2^31", seed)
    root = _root(key)
    if root.ndim == 0:
        return jax.random.fold_in(root, seed)[None]
    checks.require(
        root.ndim == 1 and seed < len(root), "seed", f"be < {len(root)}, the number of keys", seed
    )
    return root[seed][None]
