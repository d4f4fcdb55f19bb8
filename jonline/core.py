"""The contract between learners, nature and the engine.

A learner is three pure functions, nature is three pure things (a stream of examples, an oracle that
answers the learner's choice with some weak feedback, a delay), and the engine plays them against
each other. An author writes `predict` and `update` apart, because the answer can come rounds after
the choice; `step` puts them together again for interactive use.

Rules a learner keeps, each checked by `jonline.testing.check_learner`:

* `predict` changes no state; all its randomness comes from its key.
* `update` is called exactly once for every answer that comes back, with the `x` and the
  `prediction` of the round that was asked.
* What `update` needs from the time of `predict` is in the prediction, never recomputed from a
  newer state.
* `update` returns the tree structure, shapes and dtypes of `init` (no weak types).
* Every prediction has `.output`, what is played and scored.
* An answer with `observed=False` is one without a value: the round passes, the value is not read,
  and what was learned stays as it is.
* A learner that cannot do without an answer in each round (one that counts them to know the round,
  say) has the reason, a sentence, as the attribute `needs_every_answer` of its function `update`,
  `vars(update).update(needs_every_answer=…)`; it is refused delays that may never end.
* Hyperparameters are keyword arguments of the factory and may be traced; whatever fixes a shape is
  a static Python int.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

Array: TypeAlias = jax.Array
ArrayTree: TypeAlias = Any  # a pytree of arrays
PRNGKey: TypeAlias = jax.Array  # a typed key, shape ()
Round: TypeAlias = Any  # int32 scalar, 0-based
Label: TypeAlias = Any
Prediction: TypeAlias = Any  # a NamedTuple with at least `.output`
Feedback: TypeAlias = Any  # a NamedTuple
State: TypeAlias = Any
Source: TypeAlias = Any


class Example(NamedTuple):
    """One round of nature: what the learner sees and what it does not.

    Attributes:
      x: features, (n,) float.
      y: hidden label: an int32 scalar (1…K for ordinal, ±1 for reject-option), or a vertex (d,) of
        an output space. It reaches the oracle and the metrics, never the learner.
    """

    x: Array
    y: ArrayTree


class Learner(NamedTuple):
    """An online algorithm as three pure functions.

    Attributes:
      init: `(key) -> state`.
      predict: `(state, x, key) -> prediction`, with `prediction.output` the choice that is played.
      update: `(state, x, prediction, feedback, key) -> state`, for the round that was asked.
    """

    init: Callable[[PRNGKey], State]
    predict: Callable[[State, Array, PRNGKey], Prediction]
    update: Callable[[State, Array, Prediction, Feedback, PRNGKey], State]


class Stream(NamedTuple):
    """Examples by round number.

    Attributes:
      init: `(key) -> source`: what is fixed for a whole run (a key, a permutation, a teacher).
      draw: `(source, t) -> Example`: round t (0-based int32), in any order, always the same.
    """

    init: Callable[[PRNGKey], Source]
    draw: Callable[[Source, Round], Example]


Oracle: TypeAlias = Callable[[Label, Prediction, PRNGKey], Feedback]


class Delay(NamedTuple):
    """How many rounds an answer takes.

    Attributes:
      sample: `(key, t) -> int32`, the rounds until the answer to round t comes, in
        0…max_rounds; 0 is at once. With `may_never` it may be -1: the answer never comes.
      max_rounds: static bound on `sample`; it fixes the size of the ring of pending answers.
      is_fixed: True if `sample` gives the same number in every round of a run.
      num_rounds: rounds for which `sample` is defined, 0…num_rounds - 1; None for all.
      may_never: whether `sample` may give -1.
    """

    sample: Callable[[PRNGKey, Round], Array]
    max_rounds: int
    is_fixed: bool
    num_rounds: int | None = None
    may_never: bool = False


class Environment(NamedTuple):
    """Nature: a stream of examples, an oracle, and how long its answers take (None: no delay)."""

    stream: Stream
    oracle: Oracle
    delay: Delay | None = None


class Info(NamedTuple):
    """What happened in one `step`: the learner's prediction and the feedback it got."""

    prediction: Prediction
    feedback: Feedback


Make: TypeAlias = Callable[[dict[str, Any], Any], tuple[Learner, Environment]]
Metrics: TypeAlias = Callable[[Example, Prediction, Feedback, State], dict[str, Any]]


def step(
    learner: Learner,
    state: State,
    x: Array,
    feedback: Callable[[Prediction, PRNGKey], Feedback],
    key: PRNGKey,
) -> tuple[State, Info]:
    """Plays one round: predict, receive the answer, update.

    `functools.partial(step, learner)` is a pure `(state, x, feedback, key) -> (state, info)` step
    for `lax.scan` and `vmap`.

    Args:
      learner: the learner.
      state: its state, as `learner.init` or an earlier `step` returned it.
      x: features, (n,).
      feedback: `(prediction, key) -> feedback`: the oracle with the round's label bound in.
      key: typed PRNG key of this round, another one in every round, e.g.
        `jax.random.fold_in(jax.random.key(0), t)`; predict, oracle and update get a key of their
        own from it. Learners and streams read words of keys, so these must be random words, as
        those of threefry (JAX's default) are; those that "unsafe_rbg" splits or folds are not.

    Returns:
      The new state and the round's `Info(prediction, feedback)`.

    Raises:
      TypeError: if the learner, the feedback or the key is of the wrong kind.
    """
    if not isinstance(learner, Learner):
        raise TypeError(f"learner must be Learner, got {learner!r:.100}")
    if not callable(feedback):
        raise TypeError(
            f"feedback must be a function (prediction, key) -> feedback, got {feedback!r:.100}"
        )
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    is_typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if not (is_typed and shape == () or dtype == "uint32" and shape in ((2,), (4,))):
        raise TypeError(f"key must be one key, as jax.random.key(0) is, got {key!r:.100}")
    k_predict, k_oracle, k_update = jax.random.split(key, 3)
    prediction = learner.predict(state, x, k_predict)
    answer = feedback(prediction, k_oracle)
    return learner.update(state, x, prediction, answer, k_update), Info(prediction, answer)
