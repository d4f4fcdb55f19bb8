"""Estimates from feedback: golden examples, what each reads, and labels that were not observed.

That the estimates are unbiased, with which second moments, is in `jonline.testing.check_space`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import oracles, structured
from jonline.oracles import Coordinates, Directional, Label, Loss, Mismatch
from jonline.structured.learner import StructuredPrediction

E1, E2, E3 = jnp.eye(3)
SPACE = structured.multiclass(3)


def predicted(estimator, output, theta=(1.0, 0.0, 0.0), rate=0.5, space=SPACE):
    """The prediction of `osp` at scores theta, with its output given."""
    mean = space.mean(jnp.asarray(theta))
    mixture = structured.explore(structured.decode(space, mean), rate)
    aux = estimator.prepare(mixture, output)
    return StructuredPrediction(output, jnp.asarray(theta), mean, mean, aux, ())


def estimated(estimator, oracle, output, y, **options):
    prediction = predicted(estimator, output, **options)
    return estimator.estimate(prediction, oracle(y, prediction, jax.random.key(0)))


def test_pseudo_inverse_of_classes_by_hand():
    estimator, oracle = structured.pseudo_inverse(SPACE), oracles.loss(SPACE.target)
    wrong = estimated(estimator, oracle, E2, E1)  # p(e2) = 7/24
    np.testing.assert_allclose(wrong.label, [12 / 7, -12 / 7, 12 / 7], rtol=1e-6)
    assert wrong.weight == 1
    right = estimated(estimator, oracle, E2, E2)
    np.testing.assert_array_equal(right.label, np.zeros(3))


def test_pseudo_inverse_of_rankings_by_hand():
    space, y = structured.rankings(2), jnp.eye(2).ravel()
    estimator = structured.pseudo_inverse(space)
    options = dict(theta=np.log(3.0) * np.eye(2, dtype=np.float32).ravel(), rate=0.5, space=space)
    estimate = estimated(estimator, oracles.loss(space.target), y, y, **options)
    np.testing.assert_allclose(estimate.label, 16 / 11 * y, rtol=1e-5)  # a Sinkhorn mean


def test_pseudo_inverse_around_the_label_has_no_variance():
    for space in (SPACE, structured.multilabel(3), structured.subsets(3, 1)):
        estimator = structured.pseudo_inverse(space, origin=E1)
        for output in (E1, E2, E3):
            estimate = estimated(estimator, oracles.loss(space.target), output, E1, space=space)
            np.testing.assert_allclose(estimate.label, E1, atol=1e-5)  # float32 through Cholesky


def test_inverse_weighted_by_hand():
    estimator = structured.inverse_weighted(SPACE)
    right = estimated(estimator, oracles.mismatch(), E1, E1)
    np.testing.assert_allclose(right.weight, 12 / 5, rtol=1e-6)
    np.testing.assert_array_equal(right.label, E1)
    assert estimated(estimator, oracles.mismatch(), E2, E1).weight == 0


def test_semi_bandit_by_hand():
    space, y = structured.multilabel(3), jnp.array([1.0, 1.0, 0.0])
    estimator = structured.semi_bandit(space)
    # theta = (1, 1/4, 0) is its own mean: D* = 1/4, p = 1/2, expected (1, 1/8, 0); with q = 1/2
    # P(output_i = 1) = (3/4, 5/16, 1/4)
    output = jnp.array([1.0, 1.0, 1.0])
    options = dict(theta=(1.0, 0.25, 0.0), space=space)
    estimate = estimated(estimator, oracles.coordinates(), output, y, **options)
    np.testing.assert_allclose(estimate.label, [4 / 3, 16 / 5, 0], rtol=1e-6)
    estimate = estimated(estimator, oracles.coordinates(), jnp.zeros(3), y, **options)
    np.testing.assert_array_equal(estimate.label, np.zeros(3))


def test_full_information_is_the_label_or_nothing():
    estimator = structured.full_information(SPACE)
    estimate = estimated(estimator, oracles.label(), E2, E3)
    assert estimate.weight == 1
    np.testing.assert_array_equal(estimate.label, E3)
    prediction = predicted(estimator, E2)
    for value in (E3, jnp.zeros(3)):  # the value of a label that was not observed is not read
        silent = estimator.estimate(prediction, Label(value, jnp.asarray(False)))
        assert silent.weight == 0
        np.testing.assert_array_equal(silent.label, np.zeros(3))
    assert not estimator.explores


@pytest.mark.parametrize(
    ("factory", "reads"),
    [
        (structured.full_information, Label),
        (structured.inverse_weighted, Mismatch),
        (structured.pseudo_inverse, Loss),
        (structured.semi_bandit, Coordinates),
    ],
)
def test_feedback_of_another_kind_is_an_error(factory, reads):
    answers = [
        Label(E1, jnp.asarray(True)),
        Mismatch(jnp.asarray(True)),
        Loss(jnp.float32(1.0)),
        Coordinates(E1, E1 > 0),
        Directional(jnp.asarray(True)),
    ]
    estimator = factory(SPACE)
    prediction = predicted(estimator, E1)
    for answer in answers:
        if isinstance(answer, reads):
            estimator.estimate(prediction, answer)
            continue
        message = f"^{factory.__name__} reads {reads.__name__}, got {type(answer).__name__}"
        with pytest.raises(TypeError, match=message):
            jax.jit(estimator.estimate)(prediction, answer)
    assert estimator.explores == (factory is not structured.full_information)
