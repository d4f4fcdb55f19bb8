"""Surrogates with a gap to the zero-one loss, for Gaptron and Gappletron.

Sources: van der Hoeven, "Exploiting the surrogate gap in online multiclass classification",
arXiv:2007.12618 (Gaptron); van der Hoeven, Fusco and Cesa-Bianchi, "Beyond bandit feedback in
online multiclass classification", arXiv:2106.03596 (Gappletron); arXiv:2502.18709, appendix H.1,
which compares with both.

Symbols:
  theta    scores (K,), W x for the linear model W (K, n)
  y        label, a unit vector (K,)
  k*       class of the highest score, the first of several
  a        gap, in [0, 1]: how far to mix k* with the uniform distribution
  delta    slack: the part of the loss that the gap leaves over
  L        ||residual||^2 <= L loss
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jonline import checks
from jonline.core import Array


class GapMap(NamedTuple):
    """A gap a for which (1 - a) [k* != y] + a (K - 1)/K <= (1 - delta) loss.

    Attributes:
      value: `(scores) -> a` ().
      slack: delta; 0 where no such inequality is known.
    """

    value: Callable[[Array], Array]
    slack: float


class SurrogateGap(NamedTuple):
    """A surrogate of the zero-one loss, with the gap that each algorithm takes of it.

    Attributes:
      num_classes: K.
      loss: `(scores, y) -> scalar`.
      residual: `(scores, y) -> (K,)`, its gradient in the scores.
      gaptron: the gap of Gaptron.
      gappletron: the gap of Gappletron, min(1, loss of the scores at k*).
      smoothness: L; inf where there is none.
    """

    num_classes: int
    loss: Callable[[Array, Array], Array]
    residual: Callable[[Array, Array], Array]
    gaptron: GapMap
    gappletron: GapMap
    smoothness: float


def logistic_gap(num_classes: int, *, base: float = 2.0) -> SurrogateGap:
    """Returns the logistic loss -log_b sigma_y with sigma = softmax(theta), natural exponentials.

        residual    (sigma - y) / ln b                       L = 2 / ln b
        gaptron     a = 1 - p* if p* >= 1/2 else 1           delta = 1 - (1 - 1/(2K)) log2 b
        gappletron  a = min(1, -log_b p*)                    delta = 1/K for b <= 2

    with p* = max sigma.

    Args:
      num_classes: K >= 2, static.
      base: b > 1, static. A slack that would be negative, or is not known, is 0. With b = K >= 5 no
        learner whatever has the guarantee: on a fair coin between two of the classes it errs half
        of the time, and the loss can be log_K 2 < 1/2.

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind or out of range.

    Source: arXiv:2007.12618 (base 2); arXiv:2502.18709, appendices C and H.1.
    Differs: appendix C of arXiv:2502.18709 has the guarantee of Gappletron for the base K, which
    cannot be for the loss -log_K sigma_y; see `base`.
    """
    num_classes = checks.at_least("num_classes", num_classes, 2)
    ok = lambda b: (b > 1) & (b < math.inf)  # noqa: E731
    log_base = math.log(checks.real("base", base, "be > 1 and finite", ok, static=True))

    def loss(scores, y):
        return (jax.nn.logsumexp(scores) - jnp.sum(scores * y)) / log_base

    def residual(scores, y):
        return (jax.nn.softmax(scores) - y) / log_base

    def odds(scores):  # (1 - p*) / p*
        others = jnp.exp(scores - jnp.max(scores))
        return jnp.sum(jnp.where(highest(scores), 0.0, others))

    def gaptron(scores):
        against = odds(scores)
        return jnp.where(against <= 1, against / (1 + against), jnp.minimum(against, 1.0))

    def gappletron(scores):
        return jnp.minimum(1.0, jnp.log1p(odds(scores)) / log_base)

    to_base_2 = log_base / math.log(2)
    return SurrogateGap(
        num_classes=num_classes,
        loss=loss,
        residual=residual,
        gaptron=GapMap(gaptron, max(0.0, 1 - (1 - 0.5 / num_classes) * to_base_2)),
        gappletron=GapMap(gappletron, 1 / num_classes if to_base_2 <= 1 else 0.0),
        smoothness=2 / log_base,
    )


def hinge_gap(num_classes: int, *, cutoff: float = 0.5) -> SurrogateGap:
    """Returns the hinge loss of the margin m(y) = theta_y - max_{k != y} theta_k, cut off at kappa.

        loss        0 if m(y) > kappa else 1 - m(y)
        residual    0 if m(y) > kappa else e_k - y with k the best other class
                                                             L = 2 / (1 - kappa)
        both gaps   a = 0 if m* > kappa else 1 - m*          delta = min(1/K, kappa / (1 + kappa))

    with m* = m(k*) >= 0. The theory holds the round's cut-off fixed by the learner's scores; a
    comparator's loss is then at most its hinge loss [1 - m(y)]_+.

    Args:
      num_classes: K >= 2, static.
      cutoff: kappa in (0, 1], static; 1 is the hinge loss without a cut-off, which has no L.

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind or out of range.

    Source: arXiv:2007.12618, with kappa = 1/2; for the gap of Gappletron the rule of the logistic
    loss, min(1, loss at k*), which here is that of Gaptron.
    """
    num_classes = checks.at_least("num_classes", num_classes, 2)
    ok = lambda cut: (cut > 0) & (cut <= 1)  # noqa: E731
    kappa = checks.real("cutoff", cutoff, "be in (0, 1]", ok, static=True)

    def others(scores, y):
        return jnp.where(y > 0.5, -jnp.inf, scores)

    def cut_hinge(scores, y):
        own = jnp.sum(jnp.where(y > 0.5, scores, 0.0))
        margin = own - jnp.max(others(scores, y))
        return jnp.where(margin > kappa, 0.0, 1 - margin)

    def residual(scores, y):
        rival = highest(others(scores, y)).astype(scores.dtype)
        return jnp.where(cut_hinge(scores, y) > 0, rival - y, 0.0)

    def gap(scores):
        return cut_hinge(scores, highest(scores).astype(scores.dtype))

    map_of_both = GapMap(gap, min(1 / num_classes, kappa / (1 + kappa)))
    return SurrogateGap(
        num_classes=num_classes,
        loss=cut_hinge,
        residual=residual,
        gaptron=map_of_both,
        gappletron=map_of_both,
        smoothness=2 / (1 - kappa) if kappa < 1 else math.inf,
    )


def highest(scores: Array) -> Array:
    """Returns (K,) bool, True at k* alone."""
    return jnp.arange(scores.shape[0], dtype=jnp.int32) == jnp.argmax(scores)
