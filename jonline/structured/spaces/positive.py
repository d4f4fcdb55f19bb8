"""Linear equations with a positive definite matrix, in plain operations.

LAPACK's routines are calls that no compiler looks into: a loop over rounds with one in it is no
single kernel, and for matrices of some twenty rows the call costs more than the work.
"""

import jax.numpy as jnp
from jax import lax

from jonline.core import Array

_COLUMNS = 32  # a multiple of the numbers in a vector


def solve(matrix: Array, right: Array) -> Array:
    """Returns the x (d,) with matrix x = right, by Gauss-Jordan elimination.

    Without pivots, which a positive definite matrix does not need. What a step eliminates is
    replaced by the inverse, as in the sweep operator, so that the table stays symmetric and its
    column i, which lies apart in memory, is read as its row i.

    Args:
      matrix: (d, d), symmetric and positive definite; else the result means nothing.
      right: (d,).

    Source: Goodnight 1979 (The American Statistician 33), "A tutorial on the sweep operator".
    """
    d = len(right)
    spare = -(d + 1) % _COLUMNS  # else the last vector of a row is computed in scalars
    table = jnp.concatenate([matrix, right[:, None], jnp.zeros((d, spare), matrix.dtype)], axis=1)
    columns = jnp.arange(table.shape[1], dtype=jnp.int32)

    def sweep(i, table):
        row = lax.dynamic_index_in_dim(table, i, 0, False)
        inverse = 1 / lax.dynamic_index_in_dim(row, i, 0, False)
        scaled = row * inverse
        here = columns == i
        others = jnp.where(here[None], scaled[:d, None], table - row[:d, None] * scaled[None])
        return jnp.where(here[:d, None], jnp.where(here, -inverse, scaled)[None], others)

    return lax.fori_loop(0, d, sweep, table)[:, d]
