"""Kernels: symmetric positive definite functions k(x, z) of two feature vectors.

A kernel is a plain function `(x, z) -> scalar` of vectors (n,); your own is as good as these.
"""

import itertools
import math
from collections.abc import Callable
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.core import Array

_MOST = 10**7  # monomials

Kernel: TypeAlias = Callable[[Array, Array], Array]


def linear(x: Array, z: Array) -> Array:
    """Returns <x, z>."""
    checks.elementwise(x=x, z=z)
    return jnp.dot(x, z)


def polynomial(degree: int, *, offset: float | Array = 1.0) -> Kernel:
    """Returns the kernel (offset + <x, z>)^degree.

    Args:
      degree: >= 1, static.
      offset: >= 0.

    Raises:
      TypeError, ValueError: if an argument is out of range.
    """
    degree = checks.at_least("degree", degree, 1)
    offset = checks.non_negative("offset", offset)
    return lambda x, z: (offset + jnp.dot(x, z)) ** degree


def gaussian(width: float | Array) -> Kernel:
    """Returns the kernel exp(-||x - z||^2 / (2 width^2)).

    Args:
      width: > 0, in the units of the features.

    Raises:
      ValueError: if `width` is out of range.
    """
    width = checks.positive("width", width)
    return lambda x, z: jnp.exp(-0.5 * jnp.sum(((x - z) / width) ** 2))


def num_monomials(num_features: int, degree: int) -> int:
    """Returns how many monomials of a degree up to `degree` there are: C(n + p, p)."""
    num_features = checks.at_least("num_features", num_features, 1)
    degree = checks.at_least("degree", degree, 1)
    # term by term, since the whole can be too long to be worked out
    count = 1
    for i in range(1, min(num_features, degree) + 1):
        count = count * (max(num_features, degree) + i) // i
        checks.require(count <= _MOST, "C(n + degree, degree)", f"be <= {_MOST}", "more")
    return count


def monomials(x: Array, degree: int, *, offset: float | Array = 1.0) -> Array:
    """Returns the features phi(x) of the polynomial kernel: <phi(x), phi(z)> = (offset + <x, z>)^p.

    phi_a(x) = sqrt(p! / prod_i a_i!) prod_i u_i^(a_i) over all exponents a with sum p, where
    u = (sqrt(offset), x).

    Args:
      x: (n,).
      degree: p >= 1, static.
      offset: >= 0.

    Returns:
      (C(n + p, p),) features.
    """
    checks.vector("x", x)
    num_monomials(max(len(x), 1), degree)  # its checks
    degree, offset = int(degree), checks.non_negative("offset", offset)
    x = jnp.asarray(x, jnp.promote_types(x.dtype, jnp.zeros(()).dtype))
    u = jnp.concatenate([jnp.sqrt(jnp.asarray(offset, x.dtype))[None], x])
    num = u.shape[0]
    products, starts = u, np.arange(num)
    for _ in range(degree - 1):  # u_i times the products whose smallest factor is u_i or later
        parts = [u[i] * products[start:] for i, start in enumerate(starts)]
        starts = np.cumsum([0, *(part.shape[0] for part in parts[:-1])])
        products = jnp.concatenate(parts)
    return jnp.asarray(_weights(num, degree), x.dtype) * products


def _weights(num: int, degree: int) -> np.ndarray:
    """sqrt(p! / prod_i a_i!) in the order of `monomials`."""
    orders = itertools.combinations_with_replacement(range(num), degree)
    counts = (np.bincount(factors, minlength=num) for factors in orders)
    whole = math.factorial(degree)
    return np.sqrt([whole / math.prod(math.factorial(int(i)) for i in a) for a in counts])
