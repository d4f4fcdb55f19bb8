"""Gaptron and Gappletron: classes, of which a uniform one is played as often as the loss allows.

Sources: van der Hoeven, "Exploiting the surrogate gap in online multiclass classification",
arXiv:2007.12618 (Gaptron); van der Hoeven, Fusco and Cesa-Bianchi, "Beyond bandit feedback in
online multiclass classification", arXiv:2106.03596 (Gappletron).

Symbols: as in `jonline.structured.gaps`, and
  gamma    `explore`
  u        share of the uniform distribution in what is played
  B        diameter of the set of models
  X        bound on ||x||
  T        number of rounds
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from jonline import checks
from jonline.core import Array, Learner
from jonline.optimizers import OnlineOptimizer, adaptive_ogd
from jonline.optimizers.online import declare, receive
from jonline.oracles import Label, Mismatch
from jonline.sampling import bernoulli, two_words, uniform_index
from jonline.structured.gaps import SurrogateGap, highest


class GapPrediction(NamedTuple):
    """A drawn class, with what the update needs of the state it came from.

    Attributes:
      output: drawn class, a unit vector (K,); NaN where a score is.
      score: theta (K,).
      prob: probability with which `output` was drawn.
      gap: a.
      expected: (K,) the distribution of `output`, which is its mean.
      stamp: what the optimizer keeps.
    """

    output: Array
    score: Array
    prob: Array
    gap: Array
    expected: Array
    stamp: Any


def gaptron(
    num_classes: int,
    num_features: int,
    *,
    diameter: float | Array,
    explore: float | Array,
    loss: SurrogateGap,
    optimizer: OnlineOptimizer | None = None,
) -> Learner:
    """Multiclass classification by Gaptron, from one bit or from the label.

        P = (1 - u) k* + u/K,   u = max(a, gamma),   a = loss.gaptron(W x);
        G = w residual(W x, y) x^T,   W <- W - eta G,
    with w = [output = y] / P(output) and y = output from a `Mismatch` (an unbiased estimate of the
    gradient), w = 1 from a `Label`. With `gaptron_step_size`, delta and L of the loss, for every U:
        Label, gamma = 0   E mistakes <= sum loss(U) + L X^2 ||U||^2 / (4 delta)
        Mismatch           E mistakes <= sum loss(U) + K L X^2 ||U||^2 / (4 delta gamma) + gamma T

    Args:
      num_classes: K >= 2, static.
      num_features: n >= 1, static. W (K, n) starts at 0.
      diameter: B > 0 of the step size; not read where `optimizer` is given.
      explore: gamma in [0, 1]; > 0 for `Mismatch`, 0 will do for `Label`. See `gaptron_rate`.
      loss: `logistic_gap(K)` or `hinge_gap(K)`.
      optimizer: None for `optimizers.adaptive_ogd(diameter, offset=1e-8)`, without a projection;
        `optimizers.from_optax(optax.sgd(gaptron_step_size(...)))` has the bounds above.

    Returns:
      A Learner. State: the optimizer's. Prediction: `GapPrediction`. Reads `Mismatch` or `Label`
      with unit vectors (K,) as labels; an answer without a value leaves the state as it is.

    Raises:
      ValueError: if a concrete argument is out of range, or `loss` has another K; at trace time if
        `explore` is 0 and a `Mismatch` comes, or x or a label has another shape.
      TypeError: if an argument is of the wrong kind; at trace time for feedback of another kind.

    Source: arXiv:2007.12618, algorithm 1; arXiv:2502.18709, appendix H.1, for the default step.
    Differs: it has a fixed step size, which is an option here; the default is the one that
    appendix H.1 of arXiv:2502.18709 compares with.
    """
    sizes = num_classes, num_features
    return _gap_learner("gaptron", jnp.maximum, *sizes, diameter, explore, loss, optimizer)


def gappletron(
    num_classes: int,
    num_features: int,
    *,
    diameter: float | Array,
    explore: float | Array,
    loss: SurrogateGap,
    optimizer: OnlineOptimizer | None = None,
) -> Learner:
    """Multiclass classification by Gappletron, Gaptron's successor, from one bit or from the label.

    Its gap is the loss that the class it would play has.

        P = (1 - u) k* + u/K,   u = a + gamma (1 - a),   a = loss.gappletron(W x);
        W <- W - B G / sqrt(2 (1e-8 + sum ||G||^2)),   G as for `gaptron`.
    For models U with ||U|| <= B/2 and W kept in that ball, with delta and L of the loss:
        Label, gamma = 0   E mistakes <= sum loss(U) + B^2 L X^2 / (2 delta)
        Mismatch           E mistakes <= sum loss(U) + K B^2 L X^2 / (2 delta gamma) + gamma T

    Args:
      num_classes, num_features, diameter, explore, loss: as for `gaptron`; see `gappletron_rate`.
      optimizer: None for `optimizers.adaptive_ogd(diameter, offset=1e-8)`, without a projection;
        `adaptive_ogd(diameter, project=True)` has the bounds above.

    Returns, Raises: as `gaptron`.

    Source: arXiv:2106.03596, for bandit feedback and for the label; arXiv:2502.18709, appendix H.1.
    Differs: graph feedback in general is not here.
    """
    sizes, blend = (num_classes, num_features), lambda gap, rate: gap + rate * (1 - gap)
    return _gap_learner("gappletron", blend, *sizes, diameter, explore, loss, optimizer)


def _gap_learner(
    name: str,
    blend: Callable[[Array, float | Array], Array],
    num_classes: int,
    num_features: int,
    diameter: float | Array,
    explore: float | Array,
    loss: SurrogateGap,
    optimizer: OnlineOptimizer | None,
) -> Learner:
    """Returns a learner that plays with u = blend(a, gamma), >= gamma where a is in [0, 1]."""
    checks.kind("loss", loss, SurrogateGap)
    gap = getattr(loss, name)
    num_classes = checks.at_least("num_classes", num_classes, 2)
    num_features = checks.at_least("num_features", num_features, 1)
    diameter = checks.positive("diameter", diameter)
    explore = checks.probability("explore", explore)
    if loss.num_classes != num_classes:
        raise ValueError(
            f"loss must be one of num_classes={num_classes} classes, got one of {loss.num_classes}"
        )
    if optimizer is None:
        optimizer = adaptive_ogd(diameter, offset=1e-8)
    checks.kind("optimizer", optimizer, OnlineOptimizer)
    rate = checks.concrete(explore)

    def init(key):
        del key
        return optimizer.init(jnp.zeros((num_classes, num_features)))

    def predict(state, x, key):
        if jnp.shape(x) != (num_features,):
            raise ValueError(f"x must have shape ({num_features},), got {jnp.shape(x)}")
        score = jnp.sum(optimizer.params(state) * x[None], axis=1)
        a = gap.value(score)
        u = blend(a, explore)
        words = two_words(key)
        classes = jnp.arange(num_classes, dtype=jnp.int32)
        uniform = classes == uniform_index(words[1], num_classes)
        drawn = jnp.where(bernoulli(words[0], u), uniform, highest(score))
        expected = jnp.where(highest(score), 1 - u, 0.0) + u / num_classes
        return GapPrediction(
            output=jnp.where(a >= 0, drawn.astype(score.dtype), a),
            score=score,
            prob=jnp.sum(jnp.where(drawn, expected, 0.0)),
            gap=a,
            expected=expected,
            stamp=optimizer.stamp(state),
        )

    def update(state, x, prediction, feedback, key):
        del key
        checks.feedback(name, feedback, Mismatch, Label)
        if isinstance(feedback, Mismatch):
            if rate is not None and rate == 0:
                raise ValueError(f"explore must be > 0 where {name} reads Mismatch, got {explore}")
            prob = jnp.maximum(prediction.prob, jnp.finfo(prediction.prob.dtype).tiny)
            weight, y = jnp.where(feedback.wrong, 0.0, 1 / prob), prediction.output
        else:
            weight, y = jnp.where(feedback.observed, 1.0, 0.0), feedback.value
            if jnp.shape(y) != (num_classes,):
                raise ValueError(
                    f"labels must be unit vectors of shape ({num_classes},), got {jnp.shape(y)}; "
                    f"structured.multiclass({num_classes}).encode makes them of 1…{num_classes}"
                )
        residual = jnp.where(weight > 0, weight * loss.residual(prediction.score, y), 0.0)
        return receive(optimizer, state, residual, x, prediction.stamp, feedback.observed)

    declare(optimizer, update)
    return Learner(init, predict, update)
