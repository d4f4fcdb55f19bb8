"""Metrics of structured prediction: losses that were had, were expected, and are estimated.

Source: arXiv:2502.18709, section 2. Symbols: as in `jonline.structured.spaces.space`.
"""

from collections.abc import Callable

import jax.numpy as jnp

from jonline import checks
from jonline.core import Array
from jonline.structured.estimators import Estimator
from jonline.structured.spaces.space import OutputSpace


def losses(
    space: OutputSpace, estimator: Estimator | None = None
) -> Callable[..., dict[str, Array]]:
    """Returns a metrics function for sweeps: the losses of a round, each under its own name.

    Args:
      space: the learner's output space.
      estimator: the learner's; with it the loss is also estimated from the feedback of the round,
        which must be what the estimator reads, and the prediction `osp`'s.

    Returns:
      `(example, prediction, feedback, state) -> dict` with
        target_loss: L(output; y) of what was played, float;
        zero_one: output != y, int32;
        expected_target_loss: E[L] over the learner's own draw, L(prediction.expected; y), float;
        surrogate_loss: S(prediction.score, y) with the space's S, float; for a learner with another
          surrogate pass `space._replace(surrogate=...)`;
        estimated_loss: w S(prediction.score, y~) of the estimate, float; only with an estimator.
          Over the learner's own draw its mean is the surrogate loss (without noise in the
          feedback), and a single one may be far off, or negative.
      A prediction without `expected` or `score` has not the column made of it.

    Raises:
      TypeError: if an argument is of the wrong kind; at trace time for feedback of another kind.
      ValueError: at trace time unless labels and outputs have shape (d,).
    """
    checks.kind("space", space, OutputSpace)
    if estimator is not None:
        checks.kind("estimator", estimator, Estimator)

    def metrics(example, prediction, feedback, state):
        del state
        y = example.y
        for name, value in (("example.y", y), ("prediction.output", prediction.output)):
            if jnp.shape(value) != (space.dim,):
                raise ValueError(
                    f"{name} must be a vertex of shape ({space.dim},), got {jnp.shape(value)}; "
                    "space.encode makes vertices of labels"
                )
        columns = {
            "target_loss": space.target(prediction.output, y),
            "zero_one": jnp.any(prediction.output != y).astype(jnp.int32),
        }
        if hasattr(prediction, "expected"):
            columns["expected_target_loss"] = space.target(prediction.expected, y)
        if hasattr(prediction, "score"):
            columns["surrogate_loss"] = space.surrogate(prediction.score, y)
        if estimator is not None:
            weight, label, _ = estimator.estimate(prediction, feedback)
            columns["estimated_loss"] = weight * space.surrogate(prediction.score, label)
        return columns

    return metrics
