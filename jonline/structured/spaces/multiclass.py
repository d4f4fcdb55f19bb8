"""Multiclass classification: outputs e_1…e_d, logistic loss, zero-one loss.

Source: arXiv:2502.18709, sections 2.3 and 2.4. Symbols: as in `space`.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.sampling import two_words, uniform_index
from jonline.structured.spaces.space import (
    SELF,
    Constants,
    Mixture,
    OutputSpace,
    check_theta,
    checked_vertices,
    fenchel_young,
)

_LN2 = math.log(2.0)


def multiclass(num_classes: int) -> OutputSpace:
    """The d unit vectors, norm L1, with the logistic loss in base 2.

        mean(theta)_i = 2^theta_i / sum_j 2^theta_j,   S = log2 sum_i 2^theta_i - theta_y,
        L = [output != y].

    With a score of +inf the mean is NaN. Decoding draws from mean(theta) itself, and the estimate
    of y from L alone is (1/(d-1) 1 - e_c) L / p(c) for the class c that was played.

    Args:
      num_classes: d = K in 2…16384, static.

    Returns:
      An OutputSpace. `encode` takes labels (N,) in 1…K, or unit vectors (N, K).

    Raises:
      TypeError, ValueError: if `num_classes` is no Python int in that range.

    Source: arXiv:2502.18709, section 2.3.
    Differs: section 2.3 has lambda = 1, that of the natural logarithm, with which
    4 gamma / (lambda nu) = 1 and the bounds are void. In base 2, which section 3.3 and appendix C
    name, lambda = 1/ln 2 and 4 gamma / (lambda nu) = ln 2.
    """
    d = _size(num_classes)

    def below_top(theta):
        """(theta - max theta) ln 2, and (max theta) ln 2.

        The difference is one of rounded products, and 0 at the top even where the compiler fuses
        product and difference: what that leaves of huge scores has an exponential of 0 or inf.
        """
        check_theta(theta, d)
        top = jax.lax.stop_gradient(jnp.max(theta))
        below = jnp.minimum(theta * _LN2 - top * _LN2, 0.0)
        return jnp.where(theta < top, below, (theta - top) * _LN2), top * _LN2

    def mean(theta):
        return jax.nn.softmax(below_top(theta)[0])

    def conjugate(theta):
        below, top = below_top(theta)
        return (jax.nn.logsumexp(below) + top) / _LN2

    def nearest(point):
        return _one_hot(jnp.argmax(point), d)

    def draw_uniform(key):
        return _one_hot(uniform_index(two_words(key)[0], d), d)

    def dual(mixture, output):
        # every atom is a unit vector: P is diagonal, and so is its inverse
        hit = jnp.sum(mixture.atoms * output[None], -1)
        prob = jnp.sum(mixture.weights * hit) + mixture.uniform / d
        if mixture.units is not None:
            prob = prob + jnp.sum(mixture.units * output)
        return (1 / (d - 1) - output) / jnp.maximum(prob, jnp.finfo(prob.dtype).tiny)

    return OutputSpace(
        name="multiclass",
        dim=d,
        size=float(d),
        loss=SELF(1.0 - np.eye(d), np.zeros(d), np.zeros(d), 0.0),
        constants=multiclass_constants(d),
        uniform_mean=np.full(d, 1 / d),
        uniform_second_moment=np.eye(d) / d,
        mean=mean,
        surrogate=fenchel_young(conjugate),
        target=lambda output, y: 1.0 - jnp.sum(output * y),
        nearest=nearest,
        gap=lambda output, point: jnp.sum(jnp.abs(output - point)),
        decompose=lambda point: Mixture(jnp.zeros((0, d)), jnp.zeros(0), units=point),
        draw_uniform=draw_uniform,
        dual=dual,
        encode=lambda labels: _encode(labels, d),
    )


def multiclass_constants(num_classes: int) -> Constants:
    """Returns gamma = 1/2, nu = 2, lambda = 1/ln 2, kappa = 1, omega = d (d - 1 + 1/(d-1)^2).

    omega is tr(V^-1 Q^+ V^-T); the paper bounds it by d^2.
    """
    d = _size(num_classes)
    return Constants(0.5, 2.0, 1 / _LN2, 1.0, d * (d - 1 + 1 / (d - 1) ** 2))


def multiclass_paper_constants(num_classes: int) -> Constants:
    """Returns the constants as the paper has them: lambda = 1 as printed, omega = d^2."""
    d = _size(num_classes)
    return Constants(0.5, 2.0, 1.0, 1.0, float(d**2))


def _size(num_classes: int) -> int:
    return checks.at_least("num_classes", num_classes, 2, 1 << 14)  # V has K^2 numbers


def _one_hot(index, d):
    return (jnp.arange(d, dtype=jnp.int32) == index).astype(float)


def _encode(labels: Any, d: int) -> np.ndarray:
    array = np.asarray(labels)
    if array.ndim != 1:
        return checked_vertices(
            "multiclass", labels, d, lambda rows: rows.sum(axis=1) == 1, "have exactly one 1"
        )
    checks.unmasked("labels", labels)
    if array.dtype.kind not in "iuf":
        raise TypeError(
            f"labels of multiclass must be numbers 1…{d}, got {array.dtype}; "
            "jonline.data.encode_labels maps yours to that range"
        )
    checks.labels(array, d)
    whole = array.astype(np.int64)
    bad = np.flatnonzero(whole != array)
    if bad.size:
        raise ValueError(f"labels must be whole numbers, got {array[bad[0]]} in row {bad[0]}")
    return np.eye(d, dtype=np.float32)[whole - 1]
