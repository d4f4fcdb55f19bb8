"""What is measured over a window: sums of metrics, and what is not finite at its end."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jonline._engine.rounds import Carry
from jonline.core import Array


class Windows(NamedTuple):
    """What a call measured, (capacity, lanes) each, of which the first rows are filled.

    Attributes:
      sums: metrics, summed over each window: int32 for integers and booleans, else floating.
      overflown: for each of the whole ones, whether a sum passed the ends of int32.
      bad: numbers in the state that are not finite at the end of each window, int32.
    """

    sums: dict[str, Array]
    overflown: dict[str, Array]
    bad: Array


class Sums(NamedTuple):
    """Sums over a window so far.

    Attributes:
      total: of all metrics.
      lost: what rounding took from the floating ones (Kahan).
      overflown: negative where a sum of whole numbers has passed the ends of int32.
    """

    total: dict[str, Array]
    lost: dict[str, Array]
    overflown: dict[str, Array]


def shapes(dtypes: dict[str, Any], rows: tuple[int, int]) -> Any:
    """Returns the `Windows` of metrics of these dtypes, (capacity, lanes), as ShapeDtypeStructs."""
    sums = {name: jax.ShapeDtypeStruct(rows, dtype) for name, dtype in dtypes.items()}
    whole = {name: jax.ShapeDtypeStruct(rows, bool) for name in sums if _is_whole(sums[name])}
    row: Any = sums, whole, jax.ShapeDtypeStruct(rows, jnp.int32)
    return Windows(*row)


def nothing(zeros: dict[str, Array]) -> Sums:
    """Returns the sums before the first round of a window, given a 0 of each metric."""
    return Sums(
        zeros,
        {name: zero for name, zero in zeros.items() if jnp.issubdtype(zero.dtype, jnp.floating)},
        {name: zero for name, zero in zeros.items() if _is_whole(zero)},
    )


def add(sums: Sums, new: dict[str, Array]) -> Sums:
    """Returns the sums with those of a round added."""
    total, lost, overflown = {}, {}, {}
    for name, value in new.items():
        before = sums.total[name]
        if name in sums.lost:
            value = value - sums.lost[name]
            total[name] = before + value
            rest = (total[name] - before) - value
            lost[name] = jnp.where(jnp.isfinite(total[name]), rest, 0.0)  # inf stays inf
        else:
            total[name] = before + value
            signs = (before ^ total[name]) & (value ^ total[name])
            overflown[name] = sums.overflown[name] | signs
    return Sums(total, lost, overflown)


def end(sums: Sums, carry: Carry) -> Windows:
    """Returns the row of a window, given the carry of all lanes, lane axis last, at its end."""
    overflown = {name: signs < 0 for name, signs in sums.overflown.items()}
    return Windows(sums.total, overflown, _count_non_finite(carry))


def summands(measured: Any) -> dict[str, Array]:
    """Returns what metrics gave for one round as int32 and floating scalars; raises unless so."""
    if not isinstance(measured, dict):
        raise TypeError(f"metrics must return a dict of scalars, got {measured!r:.100}")
    return {name: _summand(name, value) for name, value in measured.items()}


def _summand(name: Any, value: Any) -> Array:
    if not isinstance(name, str) or not name:
        raise ValueError(f"names of metrics must be non-empty strings, got {name!r}")
    value = jnp.asarray(value)
    if value.shape != ():
        raise ValueError(f"metric {name!r} must be a scalar, got shape {value.shape}")
    if jnp.issubdtype(value.dtype, jnp.floating):
        return value.astype(jnp.zeros(()).dtype)
    if not (jnp.issubdtype(value.dtype, jnp.integer) or value.dtype == bool):
        raise TypeError(f"metric {name!r} must be a real number or a bool, got {value.dtype}")
    if value.dtype in (jnp.uint32, jnp.uint64):
        raise TypeError(
            f"metric {name!r} must fit into int32, got {value.dtype}; cast it to int32 or float"
        )
    return value.astype(jnp.int32)


def _is_whole(value: Any) -> bool:
    return value.dtype == jnp.int32


def _count_non_finite(carry: Carry) -> Array:
    (num_lanes,) = carry.num_pending.shape
    leaves = jax.tree.leaves(carry.state)
    leaves = [leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    bad = [~jnp.isfinite(leaf).reshape(-1, num_lanes) for leaf in leaves]
    counts = [jnp.sum(part, axis=0, dtype=jnp.int32) for part in bad]
    return sum(counts, jnp.zeros(num_lanes, jnp.int32))
