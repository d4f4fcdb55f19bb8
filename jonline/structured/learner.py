"""Online structured prediction from full, bandit or semi-bandit feedback.

Source: "Bandit and Delayed Feedback in Online Structured Prediction", arXiv:2502.18709.

Symbols: as in `jonline.structured.spaces.space`, and
  W        linear model (d, n), theta = W x
  explore  q, share of the uniform distribution in what is played
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from jonline import checks
from jonline.core import Array, Learner
from jonline.optimizers import OnlineOptimizer
from jonline.optimizers.online import declare, receive
from jonline.structured import decoding
from jonline.structured.estimators import Estimator
from jonline.structured.spaces.space import OutputSpace


class StructuredPrediction(NamedTuple):
    """A drawn output, with what the update needs of the state it came from.

    Attributes:
      output: drawn output (d,), a vertex of the space.
      score: theta = W x (d,).
      mean: regularised prediction (d,) in conv(Y).
      expected: mean (d,) of the distribution that `output` was drawn from.
      aux: what the estimator keeps: (), the probability of `output`, a `Dual`, …
      stamp: what the optimizer keeps.
    """

    output: Array
    score: Array
    mean: Array
    expected: Array
    aux: Any
    stamp: Any


def osp(
    space: OutputSpace,
    estimator: Estimator,
    optimizer: OnlineOptimizer,
    *,
    num_features: int,
    explore: float | Array = 0.0,
) -> Learner:
    """Online structured prediction with randomized decoding.

    theta = W x; an output is drawn by randomized decoding of mean(theta), or with probability q
    uniformly; the answer gives an estimate G of the gradient (mean(theta) - y) x^T, and the
    optimizer moves W by it. An answer without a value leaves the optimizer's state as it is (of one
    that counts answers, its count goes on: the round's gradient is 0).

    Args:
      space: e.g. `structured.multiclass(K)`.
      estimator: `structured.full_information(space)`, `inverse_weighted`, `pseudo_inverse`, … of
        the same space.
      optimizer: e.g. `optimizers.adaptive_ogd(diameter=10.0)`.
      num_features: n >= 1, static. W starts at 0.
        (Labels are vertices; `space.encode` makes them of yours and checks them.)
      explore: q in [0, 1]; > 0 for an estimator that divides by probabilities. The rates of the
        theory are in `structured.theory`.

    Returns:
      A Learner. State: the optimizer's. Prediction: `StructuredPrediction`. Reads what the
      estimator reads.

    Raises:
      ValueError: if a concrete argument is out of range, or `explore` is 0 with such an estimator.
      TypeError: if an argument is of the wrong kind; at trace time for feedback of another kind.

    Source: arXiv:2502.18709, sections 3 to 5.
    """
    checks.kind("space", space, OutputSpace)
    checks.kind("estimator", estimator, Estimator)
    checks.kind("optimizer", optimizer, OnlineOptimizer)
    if estimator.space not in ((), space[:3]):
        name, dim, _ = estimator.space
        raise ValueError(
            f"estimator must be of the same space, {space.name} of dimension {space.dim}, got one "
            f"of {name} of dimension {dim}"
        )
    num_features = checks.at_least("num_features", num_features, 1)
    explore = checks.probability("explore", explore)
    rate = checks.concrete(explore)
    if estimator.explores and rate is not None and rate == 0:
        raise ValueError(
            "explore must be > 0 with an estimator that divides by the probability of an output, "
            f"got {explore}"
        )

    def init(key):
        del key
        return optimizer.init(jnp.zeros((space.dim, num_features)))

    def predict(state, x, key):
        if jnp.shape(x) != (num_features,):
            raise ValueError(f"x must have shape ({num_features},), got {jnp.shape(x)}")
        scores = optimizer.scores or (lambda state, x: optimizer.params(state) @ x)
        score = scores(state, x)
        mean = space.mean(score)
        mixture = decoding.explore(decoding.decode(space, mean), explore)
        output = decoding.sample(space, mixture, key)
        return StructuredPrediction(
            output=output,
            score=score,
            mean=mean,
            expected=decoding.expected_output(space, mixture),
            aux=estimator.prepare(mixture, output),
            stamp=optimizer.stamp(state),
        )

    def update(state, x, prediction, feedback, key):
        del key
        estimate = estimator.estimate(prediction, feedback)
        residual = estimate.weight * (prediction.mean - estimate.label)
        return receive(optimizer, state, residual, x, prediction.stamp, estimate.observed)

    declare(optimizer, update)
    return Learner(init, predict, update)
