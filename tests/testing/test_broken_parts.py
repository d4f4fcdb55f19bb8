"""The checks of `jonline.testing` find parts that break a rule, and say which."""

import subprocess
import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import Environment, Learner, oracles, streams, structured
from jonline.core import Example, Stream
from jonline.optimizers import OnlineOptimizer, adaptive_ogd
from jonline.testing import (
    Case,
    check_learner,
    check_optimizer,
    check_oracle,
    check_space,
    check_stream,
)

RNG = np.random.default_rng(0)
TABLE = Example(RNG.normal(size=(20, 3)).astype(np.float32), RNG.choice([-1, 1], 20))


class Prediction(NamedTuple):
    output: jax.Array


class Bare(NamedTuple):
    choice: jax.Array


def predict(w, x, key):
    return Prediction(jnp.where(jnp.sum(w * x) >= 0, 1, -1))


def update(w, x, prediction, feedback, key):
    new = w + jnp.where(feedback.value != prediction.output, 0.1 * feedback.value, 0.0) * x
    return oracles.where_observed(feedback.observed, new, w)


def learner(init=lambda key: jnp.zeros(3), predict=predict, update=update):
    return Learner(init, predict, update)


def case(learner, **point):
    def make(point, data):
        return learner if isinstance(learner, Learner) else learner(**point), Environment(
            streams.resample(data), oracles.label()
        )

    def metrics(example, prediction, feedback, state):
        return {"wrong": prediction.output != example.y}

    return Case(make, point, TABLE, metrics, num_rounds=16)


def with_branch(rate):
    def branching(w, x, prediction, feedback, key):
        return update(w, x, prediction, feedback, key) if rate > 0 else w

    return learner(update=branching)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (
            case(learner(init=lambda key: 0.0)),
            "state of `init` holds arrays.*leaf of the state",
        ),
        (case(learner(predict=lambda w, x, key: Bare(w[0]))), "what is played as `.output`"),
        (
            case(learner(update=lambda w, x, p, f, key: jnp.stack([w, w]))),
            "`update` keeps structure, shapes and dtypes.*jnp.where instead of `if`",
        ),
        (case(with_branch, rate=0.5), "hyperparameters may be traced.*no `if`"),
        (
            case(learner(update=lambda w, x, p, f, key: w + 0.1 * f.value * x)),
            "an answer without a value.*where_observed",
        ),
        (
            case(
                learner(
                    predict=lambda w, x, key: Prediction(
                        jnp.sign(jax.random.normal(key) + jax.random.normal(key))
                    )
                )
            ),
            "each key is used once.*split",
        ),
        (
            case(learner(update=lambda w, x, p, f, key: jnp.where(f.observed, 1e30 * (w + x), w))),
            "a run stays finite",
        ),
    ],
)
def test_learner_that_breaks_a_rule_is_told_which(broken, said):
    with pytest.raises(AssertionError, match=f"(?s){said}") as caught:
        check_learner(broken)
    assert "\n\nfound: " in str(caught.value) and "\n\nlikely cure: " in str(caught.value)


def test_sound_learner_passes():
    check_learner(case(learner()))


def test_streams_and_oracles_that_break_a_rule():
    whole = streams.resample(TABLE)
    check_stream(whole, 3)
    with pytest.raises(AssertionError, match="another run's key shows other rounds"):
        check_stream(
            Stream(lambda key: (), lambda source, t: Example(jnp.asarray(TABLE.x)[t % 20], 1)), 3
        )
    with pytest.raises(AssertionError, match=r"x is \(4,\) finite numbers"):
        check_stream(whole, 4)
    with pytest.raises(AssertionError, match="from its source and t alone"):
        check_stream(
            Stream(whole.init, lambda s, t: Example(jnp.asarray(RNG.normal(size=3)), 1)), 3
        )

    class Rich(NamedTuple):
        output: int
        score: float

    with pytest.raises(AssertionError, match="reads `output` and `ask`"):
        check_oracle(lambda y, p, key: oracles.Loss(p.score), 1, Rich(1, 2.0))
    with pytest.raises(AssertionError, match="zero throughout"):
        check_oracle(lambda y, p, key: oracles.Label(y, jnp.asarray(False)), 1, Rich(1, 2.0))


def test_optimizer_that_breaks_a_rule():
    ogd = adaptive_ogd(1.0)
    check_optimizer(ogd)

    def ascends(state, residual, x, stamp):
        return ogd.update(state, -residual, x, stamp)

    with pytest.raises(AssertionError, match="does not move the model up"):
        check_optimizer(ogd._replace(update=ascends))
    with pytest.raises(AssertionError, match="the state holds arrays"):
        check_optimizer(ogd._replace(init=lambda params: (params, 0.0)))
    with pytest.raises(AssertionError, match="keeps structure, shapes and dtypes"):
        check_optimizer(
            OnlineOptimizer(
                lambda W: W, lambda W: W, lambda W: (), lambda W, r, x, s: W.astype(jnp.float16)
            )
        )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda space: dict(mean=lambda theta: theta), "means lie in the hull|compile"),
        (lambda space: dict(target=lambda y, label: 2 * space.target(y, label)), "is its SELF"),
        (
            lambda space: dict(encode=lambda labels: np.asarray(labels, np.float32)),
            "`encode`",
        ),
        (lambda space: dict(surrogate=lambda theta, y: jnp.sum((theta - y) ** 2)), "Fenchel-Young"),
    ],
)
def test_space_that_breaks_a_rule(change, said):
    space = structured.multiclass(2)
    with pytest.raises(AssertionError, match=said):
        check_space(space._replace(**change(space)), np.eye(2))


def test_needs_nothing_but_the_core():
    script = """
import sys
for name in ("pytest", "pooch", "sklearn", "scipy", "tqdm", "xarray", "pandas", "matplotlib"):
    sys.modules[name] = None
import jonline.testing
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)
