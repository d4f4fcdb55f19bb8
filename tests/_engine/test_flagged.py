"""What cannot be seen before tracing leaves a run that is reported as not finite."""

import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import Environment, hypotheses, optimizers, oracles, reject, streams, structured
from jonline.core import Example

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)).astype(np.float32)


def play(learner, y, metrics, oracle=None, num_rounds=60):
    environment = Environment(streams.resample(Example(X, y)), oracle or oracles.label_if_asked())
    settings = dict(num_rounds=num_rounds, num_seeds=2, key=0, record_every=20)
    return jonline.sweep(lambda point, data: (learner, environment), metrics, {}, **settings)


def dral(step_size=0.1):
    return reject.dral(hypotheses.linear(3), cost=0.2, step_size=step_size)


def test_labels_of_another_kind_than_plus_and_minus_one_are_reported():
    y = (X[:, 0] > 0).astype(np.int32)
    assert not play(dral(), 2 * y - 1, reject.losses(0.2)).non_finite
    with pytest.warns(RuntimeWarning, match="not finite"):
        assert play(dral(), y + 1, reject.losses(0.2)).non_finite[0].window == 0
    with pytest.raises(ValueError, match="got 0 in row .*encode_signs"):
        play(dral(), y, reject.losses(0.2))


def test_step_size_that_turns_negative_late_is_reported_where_it_does():
    y = np.where(X[:, 0] > 0, 1, -1).astype(np.int32)
    falls = lambda t: jnp.where(t < 1000, 0.1, -0.1)  # noqa: E731
    learner = reject.dsol(hypotheses.linear(3), cost=0.2, slope=1.0, step_size=falls)
    assert not play(learner, y, reject.losses(0.2), num_rounds=1000).non_finite
    with pytest.warns(RuntimeWarning, match="not finite"):
        found = play(learner, y, reject.losses(0.2), num_rounds=2000).non_finite
    assert found[0].window >= 1000 // 20


def test_estimator_of_another_space_is_an_error():
    space, other = structured.multiclass(3), structured.multiclass(5)
    with pytest.raises(ValueError, match="estimator must be of the same space, multiclass of dim"):
        structured.osp(
            space,
            structured.inverse_weighted(other),
            optimizers.adaptive_ogd(1.0),
            num_features=3,
            explore=0.1,
        )


def test_data_in_lists_are_an_error():
    with pytest.raises(TypeError, match=r"data\.x must be an array, got list"):
        streams.resample(Example([[1.0, 2.0]], np.ones(1)))
