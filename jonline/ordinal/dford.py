"""DFORD: ordinal regression from directional feedback.

Source: arXiv:2512.19550, "DFORD: Directional Feedback based Online Ordinal Regression Learning".

Symbols: as in `jonline.ordinal.thresholds`, and
  greedy       y^, the label of the model
  output       y~, the label that is drawn around it and played
  explore      gamma, weight of the exploring part of the distribution of y~
  clip         alpha, bound on the norm of the gradient
  prob         P(y~)
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.core import Array, Learner
from jonline.hypotheses import Hypothesis
from jonline.oracles import Directional, where_observed
from jonline.ordinal.thresholds import (
    OrdinalState,
    check_hypothesis,
    check_tie,
    descend,
    hinge_tau,
    predict_label,
    step_size,
    zero_state,
)
from jonline.sampling import bernoulli, two_words, uniform_index

_MOST_CLASSES = 2**16 - 1


class DfordPrediction(NamedTuple):
    """A drawn label, with what the update needs of the state it came from.

    Attributes:
      output: drawn label in 1…K, int32 ().
      greedy: label of the model, int32 ().
      prob: probability with which `output` was drawn.
      score: f(x).
      threshold: theta at `output` at the time of the prediction; 0 for output = K, which has none.
    """

    output: Array
    greedy: Array
    prob: Array
    score: Array
    threshold: Array


def label_prob(label: Array, greedy: Array, num_classes: int, explore: float | Array) -> Array:
    """Returns the probability P of drawing `label` (any shape) when `greedy` is the model's.

    P(i) = (1 - gamma) [i = y^] + gamma (M - |i - y^|) / Z, with M = max(y^, K + 1 - y^) and Z the
    sum of the weights: highest at y^, linear on both sides with one slope, positive at every label.

    Source: arXiv:2512.19550, eq. (7).
    Differs: the paper's text describes the exploring part in words and by a figure; this is the
    triangle whose farthest label has weight 1, and from which the constant of its variance bound,
    6 K^2 (1 + ln K) / gamma, follows.
    """
    if not isinstance(num_classes, (np.ndarray, jax.Array)):  # an array of them is not checked
        num_classes = check_num_classes(num_classes)
    checks.elementwise(label=label, greedy=greedy, num_classes=num_classes, explore=explore)
    checks.whole(label=label, greedy=greedy)
    label, greedy = jnp.asarray(label, jnp.int32), jnp.asarray(greedy, jnp.int32)
    weight = jnp.maximum(greedy, num_classes + 1 - greedy) - jnp.abs(label - greedy)
    total = _cumulative(num_classes, greedy, num_classes)
    exploit = jnp.where(label == greedy, 1.0 - explore, 0.0)
    return exploit + explore * (weight.astype(float) / total.astype(float))


def label_distribution(greedy: Array, num_classes: int, explore: float | Array) -> Array:
    """Returns the distribution P (K,) of the drawn label; `label_prob` of 1…K."""
    labels = jnp.arange(1, check_num_classes(num_classes) + 1, dtype=jnp.int32)
    return label_prob(labels, greedy, num_classes, explore)


def draw_label(words: Array, greedy: Array, num_classes: int, explore: float | Array) -> Array:
    """Returns a label drawn by `label_distribution` from two random words, int32.

    The first word decides whether to explore, within 2^-32 of gamma; the second is a whole number
    r < Z, and the exploring label is 1 + #{i < K: w_1 + … + w_i <= r} for the weights w.

    Args:
      words: (2,) uint32.
      greedy: int32 () in 1…K.
      num_classes: K in 2…65 535, static.
      explore: gamma in [0, 1].
    """
    num_classes = check_num_classes(num_classes)
    checks.vector("words", words, 2)
    labels = jnp.arange(1, num_classes, dtype=jnp.int32)
    checks.elementwise(greedy=greedy, explore=explore, labels=labels)
    checks.whole(greedy=greedy)
    greedy = jnp.asarray(greedy, jnp.int32)
    r = uniform_index(words[1], _cumulative(num_classes, greedy, num_classes))
    below = _cumulative(labels, greedy, num_classes) <= r
    explored = 1 + jnp.sum(below, dtype=jnp.int32)
    return jnp.where(bernoulli(words[0], explore), explored, greedy)


def _cumulative(label, greedy, num_classes):
    """Returns sum_{j <= label} (M - |j - y^|), a whole number of at most K (K + 1) / 2 < 2^31.

    It is label M' + label (label + 1) / 2 - past (past + 1) with M' = M - y^. The sum of the first
    two can be beyond 32 bits, the products are not, and the difference is right modulo 2^32.
    """
    slack = jnp.maximum(greedy, num_classes + 1 - greedy) - greedy
    past = jnp.maximum(label - greedy, 0)
    label, slack, past = (jnp.asarray(n).astype(jnp.uint32) for n in (label, slack, past))
    up_to = label * slack + (label * (label + 1) >> 1)
    return (up_to - past * (past + 1)).astype(jnp.int32)


def check_num_classes(num_classes: int) -> int:
    """Returns K as a Python int; raises unless it is in 2…65 535, where Z < 2^31."""
    return checks.at_least("num_classes", num_classes, 2, _MOST_CLASSES)


def bound_norm(norm: Array, clip: float | Array) -> Array:
    """Returns the factor min(1, alpha / ||g||), which leaves short gradients alone."""
    checks.elementwise(norm=norm, clip=clip)
    norm = jnp.asarray(norm, jnp.result_type(norm, float))
    return jnp.minimum(1.0, clip / jnp.maximum(norm, jnp.finfo(norm.dtype).tiny))


def fix_norm(norm: Array, clip: float | Array) -> Array:
    """Returns the factor alpha / ||g||, 0 for g = 0, which gives every gradient the norm alpha.

    Source: arXiv:2512.19550, section 6.1, as it is printed.
    """
    checks.elementwise(norm=norm, clip=clip)
    norm = jnp.asarray(norm, jnp.result_type(norm, float))
    return jnp.where(norm > 0, clip / jnp.maximum(norm, jnp.finfo(norm.dtype).tiny), 0.0)


def dford(
    hypothesis: Hypothesis,
    num_classes: int,
    *,
    reg: float | Array,
    explore: float | Array,
    clip: float | Array | None = None,
    clip_rule: Callable[[Array, float | Array], Array] = bound_norm,
    tie: str = "<",
    init: str = "zeros",
) -> Learner:
    """Ordinal regression from directional feedback.

    Plays a label y~ drawn around the greedy one and observes only whether it is below the true one.
    With z = +1 if it does and -1 if not, 0 for y~ = K (whose threshold is +inf):
        tau = z [z (f(x) - theta_y~) <= 0] / P(y~),
        g = (lambda f - tau k(x, .), lambda theta + tau e_y~),
        (f, theta) <- (f, theta) - eta min(1, alpha / ||g||) g,   eta = 1/(lambda t), t = 1, 2, …
    In expectation over y~ the unclipped step is that of regularised PRank (if gamma > 0).

    Args:
      hypothesis: model of f; `hypotheses.linear(n)` for inputs of shape (n,).
      num_classes: K in 2…65 535, static. Labels are 1…K; pass the data's own `num_classes`,
        since a label above K is noticed by `metrics.ordinal` alone.
      reg: lambda > 0. From a zero start it only scales the state, with alpha in force or not: it
        changes no prediction.
      explore: gamma in [0, 1]; 0 always plays the greedy label, and the estimate of tau is biased.
      clip: alpha > 0, bound on the norm of the gradient; None for none.
      clip_rule: `(||g||, alpha) -> factor` of the gradient: `bound_norm` or `fix_norm`, static.
      tie: "<" predicts min{i: f(x) < theta_i}, "<=" min{i: f(x) <= theta_i}.
      init: "zeros", or "random" for a standard normal direction of f and sorted standard normal
        thresholds. The first step has eta lambda = 1 and wipes out either, unless it is clipped.

    Returns:
      A Learner. State: `OrdinalState`. Prediction: `DfordPrediction`. Reads `Directional`; an
      answer without a value changes nothing, and t counts the others. With late answers tau is the
      one of the prediction, and g has f and theta of the update.

    Raises:
      ValueError: if a concrete argument is out of range (traced values are not checked).
      TypeError: if an argument is of the wrong kind, or, at trace time, an answer no `Directional`.

    Source: arXiv:2512.19550, sections 4 to 6.
    Differs: section 6.1 prints the clipping as g <- alpha g / ||g|| without a condition, under
    which every gradient has the norm alpha; where it was tried the learner did not learn. That form
    is `clip_rule=fix_norm`.
    Differs: the constant 16 of its Theorems 2 and 3 needs K >= 3 and T >= 3; for smaller ones the
    bound is 4 (R^2 + 1) K^2 (1 + ln K) (1 + ln T) / (lambda gamma).
    Differs: at gamma = 0 a zero start with tie "<" predicts K for ever, unlike the row gamma = 0 of
    its Table 2. `tie="<="` learns something, and so does `init="random"` where alpha is small
    against lambda ||(f, theta)||, so that the first step does not wipe it out; the paper's numbers
    come from neither.
    """
    check_hypothesis(hypothesis)
    num_classes = check_num_classes(num_classes)
    reg = checks.positive("reg", reg)
    explore = checks.probability("explore", explore)
    if clip is not None:
        clip = checks.real("clip", clip, "be > 0", lambda bound: bound > 0)
    checks.function("clip_rule", clip_rule, "(norm, clip) -> factor")
    check_tie(tie)
    checks.choice("init", init, ("zeros", "random"))

    def initial(key):
        state = zero_state(hypothesis, num_classes)
        if init == "zeros":
            return state
        k_f, k_thresholds = jax.random.split(key)
        direction = jax.random.normal(k_f, (hypothesis.num_features,))
        thresholds = jnp.sort(jax.random.normal(k_thresholds, (num_classes - 1,)))
        return OrdinalState(hypothesis.move(state.f, direction, 0.0, 1.0), thresholds, state.round)

    def predict(state, x, key):
        score = hypothesis.value(state.f, x)
        greedy = predict_label(score, state.thresholds, tie)
        output = draw_label(two_words(key), greedy, num_classes, explore)
        return DfordPrediction(
            output=output,
            greedy=greedy,
            prob=label_prob(output, greedy, num_classes, explore),
            score=score,
            threshold=jnp.sum(jnp.where(one_hot(output), state.thresholds, 0.0)),
        )

    def update(state, x, prediction, feedback, key):
        del key
        checks.feedback("dford", feedback, Directional)
        z = jnp.where(feedback.above, 1.0, -1.0)
        z = jnp.where(prediction.output == num_classes, 0.0, z)
        tau = hinge_tau(z, prediction.score, prediction.threshold)
        tau = tau / jnp.maximum(prediction.prob, jnp.finfo(prediction.prob.dtype).tiny)
        taus = jnp.where(one_hot(prediction.output), tau, 0.0)
        factor = 1.0
        if clip is not None:
            factor = clip_rule(gradient_norm(state, x, tau, taus), clip)
        decay, rate = step_size(state, reg, factor)
        moved = descend(hypothesis, state, x, taus, tau, decay, rate)
        return where_observed(feedback.observed, moved, state)

    def one_hot(label):
        return jnp.arange(1, num_classes, dtype=jnp.int32) == label

    def gradient_norm(state, x, tau, taus):
        score = hypothesis.value(state.f, x)
        sq_f = reg * (reg * hypothesis.sq_norm(state.f) - 2 * tau * score)
        sq_f = sq_f + tau**2 * hypothesis.diagonal(x)
        sq_thresholds = jnp.sum((reg * state.thresholds + taus) ** 2)
        return jnp.sqrt(jnp.maximum(sq_f, 0.0) + sq_thresholds)

    return Learner(initial, predict, update)
