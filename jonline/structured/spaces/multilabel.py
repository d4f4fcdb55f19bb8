"""Multilabel classification: outputs {0, 1}^d, SparseMAP loss, Hamming loss.

Source: arXiv:2502.18709, sections 2.3 and 2.4. Symbols: as in `space`.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.structured.spaces.space import (
    SELF,
    Constants,
    Mixture,
    OutputSpace,
    check_theta,
    checked_vertices,
    cholesky_dual,
    euclidean,
    fenchel_young,
    hamming_loss,
    ranks,
)


def multilabel(num_labels: int) -> OutputSpace:
    """The cube {0, 1}^d, norm L2, with Omega = ||.||^2 / 2.

        mean(theta) = clip(theta, 0, 1),   S = ||y - theta||^2 / 2 - ||mean - theta||^2 / 2,
        L = number of wrong labels / d.

    The mean of an infinite score is 0 or 1, and S is not finite. S is continued from the outputs as
    an affine function of y, by ||y||^2 = <1, y>. Decoding draws one threshold for all labels: the
    outputs {i : point_i > u} with u uniform are at most d + 1.

    Args:
      num_labels: d in 1…1023, static.

    Returns:
      An OutputSpace. `encode` takes 0 and 1, (N, d).

    Raises:
      TypeError, ValueError: if `num_labels` is no Python int in that range.

    Source: arXiv:2502.18709, section 2.3.
    Differs: the pseudo-inverse estimate there wants a fixed number of true labels; here L is
    measured without it, as the mean of the label on signs: L = <1 - 2 y', y> / d + <1, y'> / d.
    """
    d = _size(num_labels)
    share = np.full(d, 1 / d)
    loss = SELF(-2 / d * np.eye(d), on_output=share, on_label=share, constant=0.0)
    uniform_mean = np.full(d, 0.5)
    uniform_second_moment = (np.ones((d, d)) + np.eye(d)) / 4

    def mean(theta):
        check_theta(theta, d)
        return jnp.clip(theta, 0.0, 1.0)

    def conjugate(theta):
        y = mean(theta)
        return jnp.sum(theta * y - y * y / 2)

    def decompose(point):
        rank = ranks(point)
        after = rank[None] > rank[:, None]
        rest = jnp.max(jnp.where(after, point[None], 0.0), axis=1, initial=0.0)
        atoms = jnp.concatenate([jnp.zeros((1, d)), (~after).astype(float)])
        return Mixture(atoms, jnp.concatenate([1 - jnp.max(point)[None], point - rest]))

    def draw_uniform(key):
        place = np.arange(d)
        words = jax.random.bits(key, ((d + 31) // 32,), jnp.uint32)
        return ((words[place // 32] >> (place % 32).astype(np.uint32)) & 1).astype(float)

    return OutputSpace(
        name="multilabel",
        dim=d,
        size=2.0**d,
        loss=loss,
        constants=multilabel_constants(d),
        uniform_mean=uniform_mean,
        uniform_second_moment=uniform_second_moment,
        mean=mean,
        surrogate=fenchel_young(conjugate, lambda y: jnp.sum(y) / 2),
        target=hamming_loss,
        nearest=lambda point: (point > 0.5).astype(float),
        gap=euclidean,
        decompose=decompose,
        draw_uniform=draw_uniform,
        dual=cholesky_dual(loss, uniform_mean, uniform_second_moment),
        encode=lambda labels: checked_vertices(
            "multilabel", labels, d, lambda rows: np.ones(len(rows), bool), "be of 0 and 1"
        ),
    )


def multilabel_constants(num_labels: int) -> Constants:
    """Returns gamma = 1/sqrt(d), nu = 1, lambda = 1, kappa = 1, omega = d^3.

    omega is tr A^+ for the measurements a = (1 - 2 y') / d under uniform y'; |<a, y>| <= 1.

    Differs: the paper has gamma = 1/d, with which L <= gamma ||y' - y|| fails as soon as more than
    one label is wrong.
    """
    d = _size(num_labels)
    return Constants(d**-0.5, 1.0, 1.0, 1.0, float(d**3))


def multilabel_paper_constants(num_labels: int) -> Constants:
    """Returns the constants as the paper has them: gamma = 1/d; it has no omega (here d^3)."""
    return multilabel_constants(num_labels)._replace(gamma=1 / _size(num_labels))


def _size(num_labels: int) -> int:
    return checks.at_least("num_labels", num_labels, 1, 1023)  # K is a float
