"""DRAL, DSAL and DSOL: classifiers that may reject, and ask for the labels they want.

Source: "Online Active Learning of Reject Option Classifiers", arXiv:1906.06166.

Symbols: as in `jonline.reject.formulas`, and
  eta      step size
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jonline import checks
from jonline.core import Array, ArrayTree, Learner
from jonline.hypotheses import Hypothesis
from jonline.oracles import Label
from jonline.reject.formulas import (
    decide,
    double_ramp_asks,
    double_ramp_gradient,
    double_sigmoid_gradient,
    double_sigmoid_query_prob,
)
from jonline.sampling import bernoulli, two_words

StepSize = float | Array | Callable[[Array], Any]


class RejectState(NamedTuple):
    """A score with the width of its rejection, and the number of answers, empty ones too.

    Attributes:
      f: hypothesis of the score.
      width: rho, float (); it can become negative, which decides as 0 does.
      round: int32 (), answers delivered so far.
    """

    f: ArrayTree
    width: Array
    round: Array


class RejectPrediction(NamedTuple):
    """A label or a rejection, with what the update needs of the state it came from.

    Attributes:
      output: -1, +1, or 0 for "reject", int32 ().
      ask: whether the label is asked for, bool ().
      prob: probability with which it was asked for.
      score: f(x).
      width: rho at the time of the prediction.
    """

    output: Array
    ask: Array
    prob: Array
    score: Array
    width: Array


def dral(
    hypothesis: Hypothesis,
    *,
    cost: float | Array,
    step_size: StepSize,
    exact_gradient: bool = False,
    project: bool = False,
) -> Learner:
    """Active learning with the double ramp loss.

    Asks where rho - 1 <= |f(x)| <= rho + 1, and then, from f = 0 and rho = 1, with z = y f(x):
        rho - 1 <= z <= rho + 1           f <- f + eta d y k(x, .),        rho <- rho - eta d,
        else -rho - 1 <= z <= -rho + 1    f <- f + eta (1 - d) y k(x, .),  rho <- rho + eta (1 - d).

    Args:
      hypothesis: model of f; `hypotheses.linear(n)` for inputs of shape (n,). Of a kernel only
        rounds that change f take a term.
      cost: d in (0, 1/2), cost of a rejection.
      step_size: eta > 0, or a schedule: `round -> eta >= 0` of the number of answers that came
        before, from 0, as optax's are. The paper's step "decreasing by a small constant",
        max(eta_min, eta_0 - (t - 1) (eta_0 - eta_min) / T), is
        `optax.linear_schedule(eta_0, eta_min, T)`.
      exact_gradient: where rho < 1 the two intervals overlap; True takes both steps there, as the
        gradient of the loss does, False the first, as the paper's algorithm. Static.
      project: put a negative rho to 0 after each step. Static. Without it rho can fall below -1,
        and then no label is asked for any more.

    Returns:
      A Learner. State: `RejectState`. Prediction: `RejectPrediction`. Reads
      `Label(value, observed)`, as `oracles.label_if_asked()` gives it: every observed label is
      learned from, asked for or not, and a round without one only counts. With late answers f(x),
      rho and so the gradient are those of the prediction, eta that of the update.

    Raises:
      ValueError: if a concrete argument is out of range (traced values are not checked).
      TypeError: if an argument is of the wrong kind, or, at trace time, an answer no `Label`.

    Source: arXiv:1906.06166, algorithms 1 and 3.
    Differs: the paper takes rho to be >= 0 and does not say what happens where a step makes it
    negative; here updates and queries go on with it as it is, and decisions with max(rho, 0).
    """
    exact_gradient, cost = checks.flag("exact_gradient", exact_gradient), check_cost(cost)

    def gradient(z, width):
        return double_ramp_gradient(z, width, cost, exact=exact_gradient)

    def query(score, width, key):
        del key
        ask = double_ramp_asks(score, width)
        return ask, ask.astype(score.dtype)

    return _learner("dral", hypothesis, step_size, project, gradient, query)


def dsal(
    hypothesis: Hypothesis,
    *,
    cost: float | Array,
    slope: float | Array,
    step_size: StepSize,
    project: bool = False,
) -> Learner:
    """Active learning with the double sigmoid loss.

    Asks with probability p = sech^2(gamma (|f(x)| - rho) / 2), and then, from f = 0 and rho = 1:
        f <- f + 2 eta gamma (A + B) y k(x, .),   rho <- rho - 2 eta gamma (A - B),
    with A = d s(z - rho), B = (1 - d) s(z + rho), s = sigma (1 - sigma), z = y f(x): the gradient
    step on L_ds, not weighted by 1/p.

    Args:
      slope: gamma > 0 of the sigmoid.
      hypothesis, cost, step_size, project: as for `dral`. The paper's alpha is eta gamma.

    Returns, Raises: as `dral`. With an oracle that answers unasked it is `dsol`.

    Source: arXiv:1906.06166, algorithms 2 and 4.
    Differs: the first f and rho, not given there, are those of DRAL; eqs. (6) and (7) have the
    opposite signs, against eq. (48) and what the paper says of them.
    """
    slope = checks.positive("slope", slope)

    def query(score, width, key):
        prob = double_sigmoid_query_prob(score, width, slope)
        return bernoulli(two_words(key)[0], prob), prob

    return _double_sigmoid("dsal", hypothesis, cost, slope, step_size, project, query)


def dsol(
    hypothesis: Hypothesis,
    *,
    cost: float | Array,
    slope: float | Array,
    step_size: StepSize,
    project: bool = False,
) -> Learner:
    """Online learning with the double sigmoid loss: DSAL that asks in every round.

    Args, Returns, Raises: as `dsal`.

    Source: arXiv:1906.06166, section 4.
    """

    def query(score, width, key):
        del width, key
        return jnp.asarray(True), jnp.ones_like(score)

    return _double_sigmoid("dsol", hypothesis, cost, slope, step_size, project, query)


def _double_sigmoid(name, hypothesis, cost, slope, step_size, project, query) -> Learner:
    slope, cost = checks.positive("slope", slope), check_cost(cost)

    def gradient(z, width):
        return double_sigmoid_gradient(z, width, cost, slope)

    return _learner(name, hypothesis, step_size, project, gradient, query)


def _learner(
    name: str,
    hypothesis: Hypothesis,
    step_size: StepSize,
    project: bool,
    gradient: Callable[[Array, Array], tuple[Array, Array]],
    query: Callable[[Array, Array, Any], tuple[Array, Array]],
) -> Learner:
    """Gradient steps on a loss of (z, rho), `gradient`, where `query` says to ask."""
    checks.kind("hypothesis", hypothesis, Hypothesis)
    project = checks.flag("project", project)
    if not callable(step_size):
        step_size = checks.positive("step_size", step_size)

    def init(key):
        del key
        return RejectState(hypothesis.init(), jnp.ones(()), jnp.zeros((), jnp.int32))

    def predict(state, x, key):
        score = hypothesis.value(state.f, x)
        ask, prob = query(score, state.width, key)
        return RejectPrediction(decide(score, state.width), ask, prob, score, state.width)

    def update(state, x, prediction, feedback, key):
        del key
        checks.feedback(name, feedback, Label, oracle="oracles.label_if_asked()")
        dtype = state.width.dtype
        y = jnp.asarray(feedback.value, dtype)
        # A label other than -1 and 1, and a step size below 0, leave a state that is not finite,
        # of which a sweep reports the run and the window.
        y = jnp.where(feedback.observed & (jnp.abs(y) != 1), jnp.nan, y)
        in_z, in_width = gradient(y * prediction.score, prediction.width)
        rate = jnp.asarray(step_size(state.round) if callable(step_size) else step_size, dtype)
        checks.require(rate.shape == (), "step_size(t)", "be a number", f"shape {rate.shape}")
        rate = jnp.where(rate >= 0, rate, jnp.nan)
        coef = -rate * in_z * y
        # Where nothing is learned the old f is kept, so that a kernel's terms are those of queries;
        # for a kernel the choice passes over all terms once more.
        learns = feedback.observed & ~(coef == 0)
        moved = hypothesis.move(state.f, x, 0.0, coef)
        width = state.width - jnp.where(learns, rate * in_width, 0.0).astype(dtype)
        return RejectState(
            f=jax.tree.map(lambda new, old: jnp.where(learns, new, old), moved, state.f),
            width=jnp.maximum(width, 0.0) if project else width,
            round=state.round + 1,
        )

    return Learner(init, predict, update)


def check_cost(cost: Any, *, static: bool = False) -> Any:
    """Returns a concrete `cost` in (0, 1/2), as `checks.real` does."""
    ok = lambda number: (number > 0) & (number < 0.5)  # noqa: E731
    return checks.real("cost", cost, "be in (0, 1/2)", ok, static=static)
