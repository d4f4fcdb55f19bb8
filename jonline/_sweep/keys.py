"""Keys of runs: what `sweep`, `run` and `trace` take for one, and the key of each seed."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.core import PRNGKey


def _root(key: Any) -> PRNGKey:
    """Returns typed keys, shape () or (S,), from an int, an old uint32 key or typed keys."""
    checks.on_host("key", key)
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
        checks.on_host("key", root)  # within jit any key is
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
        checks.warn(
            f"keys of kind {jax.random.key_impl(root)} give bits that may depend on how many lanes "
            "run together, so that a lane is not its run; threefry keys do not"
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
