"""Other rules of asking than the learner's own, and budgets of labels.

Each takes a learner whose prediction has `.ask` and returns one that asks otherwise; what is
learned from a label stays the same. A budget has to be the outermost: what is put around it asks
without it. A label that was asked for and came without a value is spent.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.core import Array, Learner, Prediction, State
from jonline.sampling import bernoulli, two_words


class BudgetState(NamedTuple):
    """A learner's state, with what it has spent.

    Attributes:
      inner: the learner's own state.
      asked: int32 (), labels asked for in the rounds that were answered.
      round: int32 (), answers delivered so far, empty ones too.
    """

    inner: State
    asked: Array
    round: Array


def always(learner: Learner) -> Learner:
    """Asks in every round.

    Args:
      learner: one whose prediction has `.ask`, e.g. `reject.dral(...)`.

    Returns:
      A Learner with the state and prediction of `learner`, `ask` True and `prob` 1.

    Raises:
      TypeError: if `learner` is none, or, at trace time, if its prediction has no `.ask`.
    """

    def rule(key, prediction):
        del key
        return jnp.asarray(True), jnp.ones_like(prediction.prob)

    return _asking("always", learner, rule)


def at_random(learner: Learner, rate: float | Array) -> Learner:
    """Asks with one probability in every round, whatever the score.

    Args:
      learner: as for `always`.
      rate: probability in [0, 1].

    Returns:
      A Learner with the state and prediction of `learner`, `prob` the rate.

    Raises:
      TypeError, ValueError: as `always`; if a concrete `rate` is out of range.
    """
    rate = checks.probability("rate", rate)

    def rule(key, prediction):
        ask = bernoulli(two_words(key)[0], rate)
        return ask, jnp.full_like(prediction.prob, rate)

    return _asking("at_random", learner, rule)


def budget(
    learner: Learner,
    *,
    most: int | Array | None = None,
    fraction: float | Array | None = None,
    max_delay: int = 0,
) -> Learner:
    """Asks as the learner does, while there are labels left.

    Without delay a label is asked for in round t = 1, 2, … if the learner asks and, with `asked`
    the labels asked for before,
        asked + 1 <= most   and   asked + 1 <= ceil(p t),   p = fraction.
    So neither is ever exceeded, a fraction p > 0 allows the first round's label, p = 0 or most = 0
    none, and p = 1 all.

    With late answers the state does not know of the rounds that are still unanswered, of which
    there are at most D = `max_delay`; each could have asked. With n answers delivered,
        asked + D + 1 <= most   and   asked + D + 1 <= ceil(p (n + D + 1))
    holds the budget in every case. The price: up to D labels of `most` are never asked for (none at
    all are if most <= D), and with p < 1 the first is asked for only after some D (1 - p) / p
    answers.

    Args:
      learner: as for `always`.
      most: number of labels >= 0, a whole number; None for no such bound.
      fraction: p in [0, 1]; None for no such bound.
      max_delay: D >= 0, static: the `max_rounds` of the environment's delay. If answers take
        longer, the budget can be exceeded.

    Returns:
      A Learner. State: `BudgetState`. Prediction: the learner's, `prob` 0 where nothing is left.
      In place of p stands (1 - 10^-6) p, so that a p such as 0.1, not exact in binary, asks for no
      label too many.

    Raises:
      TypeError, ValueError: as `always`; if a concrete argument is out of range, or neither `most`
        nor `fraction` is given. A sweep refuses it a delay that may never end.
    """
    _check_learner("budget", learner)
    if most is None and fraction is None:
        raise ValueError("budget needs most, fraction or both, got neither")
    if most is not None:
        is_whole = lambda n: (n >= 0) & (n == np.floor(n)) & (n < 2**31)  # noqa: E731
        most = checks.real("most", most, "be a whole number in 0…2^31 - 1", is_whole)
    if fraction is not None:
        fraction = checks.probability("fraction", fraction)
    max_delay = checks.delay_bound(max_delay, "max_delay")

    def has_left(state):
        open_rounds = max_delay + 1
        rounds = jnp.minimum(state.round, 2**31 - 1 - open_rounds) + open_rounds
        left = jnp.asarray(True)
        if most is not None:  # taken from the right side, where no sum can be beyond int32
            left = state.asked <= jnp.asarray(most).astype(jnp.int32) - open_rounds
        if fraction is not None:
            allowed = jnp.ceil(fraction * (1 - 1e-6) * rounds.astype(float)).astype(jnp.int32)
            within = state.asked <= allowed - open_rounds
            left = left & (within | (jnp.asarray(fraction) >= 1))
        return left

    def init(key):
        none = jnp.zeros((), jnp.int32)
        return BudgetState(learner.init(key), none, none)

    def predict(state, x, key):
        prediction = _asked("budget", learner.predict(state.inner, x, key))
        left = has_left(state)
        prob = jnp.where(left, prediction.prob, jnp.zeros_like(prediction.prob))
        return prediction._replace(ask=prediction.ask & left, prob=prob)

    def update(state, x, prediction, feedback, key):
        return BudgetState(
            inner=learner.update(state.inner, x, prediction, feedback, key),
            asked=state.asked + prediction.ask.astype(jnp.int32),
            round=state.round + 1,
        )

    reason = "budget counts what was asked for by the answers, and would spend more than it has"
    vars(update).update(needs_every_answer=reason)
    return Learner(init, predict, update)


def _asking(name: str, learner: Learner, rule: Any) -> Learner:
    """The learner with `rule`, `(key, prediction) -> (ask, prob)`, in place of its own."""
    _check_learner(name, learner)

    def predict(state, x, key):
        k_inner, k_ask = jax.random.split(key)
        prediction = _asked(name, learner.predict(state, x, k_inner))
        ask, prob = rule(k_ask, prediction)
        return prediction._replace(ask=ask, prob=prob)

    return learner._replace(predict=predict)


def _check_learner(name: str, learner: Any) -> None:
    if not isinstance(learner, Learner):
        raise TypeError(f"{name} takes a Learner, got {type(learner).__name__} {learner!r:.100}")


def _asked(name: str, prediction: Prediction) -> Prediction:
    if not (hasattr(prediction, "ask") and hasattr(prediction, "prob")):
        raise TypeError(
            f"{name} takes a learner whose prediction has .ask and .prob, as reject.dral's, got "
            f"{type(prediction).__name__}"
        )
    return prediction
