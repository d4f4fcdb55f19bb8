"""Estimates of the gradient of the surrogate loss from feedback.

Every estimate is a weight w and a (possibly fractional) label y~: the gradient in theta is
w (mean - y~), and since S is affine in y, w S(theta, y~) is the estimate of the loss itself. Both
are unbiased, over the learner's own draw of its output. They are 0 for an answer without a value.

Source: arXiv:2502.18709, sections 3.3 and 3.4. Symbols: as in `jonline.structured.spaces.space`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import Tracer

from jonline import checks
from jonline.core import Array, Feedback, Prediction
from jonline.oracles import ALWAYS, Coordinates, Label, Loss, Mismatch, where_observed
from jonline.structured import decoding
from jonline.structured.spaces.space import Mixture, OutputSpace, measurement


class Estimate(NamedTuple):
    """What is known of the label of a round: w (), y~ (d,), and whether the answer had a value."""

    weight: Array
    label: Array
    observed: Array = ALWAYS


class Estimator(NamedTuple):
    """How feedback becomes an `Estimate`.

    Attributes:
      prepare: `(mixture, output) -> aux`, at the time of the prediction: what must be known of the
        distribution the output was drawn from. It is kept in the prediction.
      estimate: `(prediction, feedback) -> Estimate`, when the answer comes.
      explores: whether it divides by probabilities, which must be kept off 0 by exploration.
      space: (name, dim, size) of the space it is for; () for any.
    """

    prepare: Callable[[Mixture, Array], Any]
    estimate: Callable[[Prediction, Feedback], Estimate]
    explores: bool
    space: tuple = ()


def full_information(space: OutputSpace) -> Estimator:
    """The label itself; reads `Label`."""
    checks.kind("space", space, OutputSpace)

    def estimate(prediction, feedback):
        checks.feedback("full_information", feedback, Label)
        label = jnp.asarray(feedback.value, prediction.mean.dtype)
        return _estimate(1.0, label, feedback.observed)

    return Estimator(lambda mixture, output: (), estimate, False, space[:3])


def inverse_weighted(space: OutputSpace) -> Estimator:
    """[output = y] / p(output), with the output as the label; reads `Mismatch`.

    E ||gradient||^2 <= (K / q) ||mean - y||^2.

    Source: arXiv:2502.18709, section 3.3.
    """
    checks.kind("space", space, OutputSpace)

    def prepare(mixture, output):
        return decoding.prob(space, mixture, output)

    def estimate(prediction, feedback):
        checks.feedback("inverse_weighted", feedback, Mismatch)
        p = jnp.maximum(prediction.aux, jnp.finfo(prediction.aux.dtype).tiny)
        weight = jnp.where(feedback.wrong, 0.0, 1 / p)
        return _estimate(weight, prediction.output, feedback.observed)

    return Estimator(prepare, estimate, True, space[:3])


def pseudo_inverse(space: OutputSpace, *, origin: Any = None) -> Estimator:
    """y~ = o + V^-1 P^+ output <output, V (y - o)> with P = E[y y^T]; reads `Loss`.

    <output, V y> = L - <output, b> - c where the space's e is 0 (in general see `cholesky_dual`),
    so the value of the target loss suffices. E ||y~||^2 <= omega / q at o = 0. In float32 P is
    inverted well down to an exploration q of about 1e-4; at 1e-6 the estimate may not be finite.

    Args:
      space: the output space.
      origin: o (d,): the estimate is unbiased for any o in the span of Y, and has less variance for
        one near y, e.g. `space.uniform_mean`. None for 0.

    Raises:
      TypeError, ValueError: if an argument is of the wrong kind, or the origin of another shape.

    Source: arXiv:2502.18709, section 3.4, where o = 0.
    """
    checks.kind("space", space, OutputSpace)
    if origin is not None:
        origin = origin if isinstance(origin, Tracer) else checks.numbers("origin", origin)
        checks.vector("origin", origin, space.dim)

    def prepare(mixture, output):
        u = space.dual(mixture, output)
        loss = space.loss
        known = jnp.sum(output * jnp.asarray(loss.on_output, output.dtype)) + loss.constant
        return Dual(u, known)

    def estimate(prediction, feedback):
        checks.feedback("pseudo_inverse", feedback, Loss)
        inner = feedback.value - prediction.aux.known
        if origin is None:
            return _estimate(1.0, prediction.aux.direction * inner, feedback.observed)
        o = jnp.asarray(origin, prediction.mean.dtype)
        inner = inner - jnp.sum(measurement(space.loss, prediction.output) * o)
        return _estimate(1.0, o + prediction.aux.direction * inner, feedback.observed)

    return Estimator(prepare, estimate, True, space[:3])


class Dual(NamedTuple):
    """What the pseudo-inverse estimate keeps of a round.

    Attributes:
      direction: V^-1 P^+ output (d,).
      known: <output, b> + c, the part of the target loss that does not depend on y.
    """

    direction: Array
    known: Array


def semi_bandit(space: OutputSpace) -> Estimator:
    """y~_i = y_i [output_i = 1] / P(output_i = 1), of the coordinates played; reads `Coordinates`.

    Not in the paper: the estimate usual where the label is observed at the coordinates that were
    played, with a variance that knows neither K nor omega. An answer has no value if it says so
    (`answered`), or if of what was played nothing was observed.
    """
    checks.kind("space", space, OutputSpace)

    def prepare(mixture, output):
        del output
        return decoding.expected_output(space, mixture)

    def estimate(prediction, feedback):
        checks.feedback("semi_bandit", feedback, Coordinates)
        p = jnp.maximum(prediction.aux, jnp.finfo(prediction.aux.dtype).tiny)
        label = jnp.where(feedback.observed, feedback.value / p, 0.0)
        lost = jnp.any(prediction.output > 0.5) & ~jnp.any(feedback.observed)
        return _estimate(1.0, label, feedback.answered & ~lost)

    return Estimator(prepare, estimate, True, space[:3])


def _estimate(weight: Any, label: Array, observed: Any) -> Estimate:
    known = jnp.asarray(weight, label.dtype), label
    weight, label = where_observed(observed, known, jax.tree.map(jnp.zeros_like, known))
    return Estimate(weight, label, observed)
