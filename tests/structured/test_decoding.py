"""Randomized decoding: golden examples, and draws against exact probabilities."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jonline
from jonline import Environment, optimizers, oracles, streams, structured
from jonline.core import Example
from jonline.structured.spaces.space import Mixture

NUM = 20_000
SPACE = structured.multiclass(3)


def probabilities(mixture, space=SPACE):
    outputs = jnp.eye(space.dim)
    return jax.jit(jax.vmap(lambda y: structured.prob(space, mixture, y)))(outputs)


@pytest.mark.parametrize(
    ("theta", "mean", "phi", "rate", "psi"),
    [
        ([1, 0, 0], [1 / 2, 1 / 4, 1 / 4], [1 / 2, 1 / 4, 1 / 4], 1 / 2, [5 / 12, 7 / 24, 7 / 24]),
        ([2, 0, 0], [2 / 3, 1 / 6, 1 / 6], [7 / 9, 1 / 9, 1 / 9], 1 / 3, [17 / 27, 5 / 27, 5 / 27]),
    ],
)
def test_classes_by_hand(theta, mean, phi, rate, psi):
    point = SPACE.mean(jnp.array(theta, float))
    np.testing.assert_allclose(point, mean, rtol=1e-6)  # float32
    decoded = structured.decode(SPACE, point)
    np.testing.assert_allclose(probabilities(decoded), phi, rtol=1e-6)
    explored = structured.explore(decoded, rate)
    np.testing.assert_allclose(probabilities(explored), psi, rtol=1e-6)
    np.testing.assert_allclose(structured.expected_output(SPACE, explored), psi, rtol=1e-6)
    moment = structured.second_moment(SPACE, explored)
    np.testing.assert_allclose(moment, np.diag(psi), rtol=1e-6)


def test_an_output_as_mean_is_played_for_sure():
    for output in np.eye(3, dtype=np.float32):
        mixture = structured.decode(SPACE, jnp.asarray(output))
        np.testing.assert_array_equal(probabilities(mixture), output)


def test_decoding_reads_the_distance_of_the_constants():
    far = SPACE._replace(constants=SPACE.constants._replace(nu=4.0))
    point = jnp.array([0.75, 0.25, 0.0])  # D* = 1/2: p = 1/2, and 1/4 with nu = 4
    np.testing.assert_allclose(probabilities(structured.decode(SPACE, point)), [7 / 8, 1 / 8, 0])
    np.testing.assert_allclose(probabilities(structured.decode(far, point)), [15 / 16, 1 / 16, 0])


def test_exploring_twice_is_exploring_once_with_both_shares():
    mixture = structured.decode(SPACE, jnp.array([0.75, 0.25, 0.0]))
    twice = structured.explore(structured.explore(mixture, 0.5), 0.25)
    once = structured.explore(mixture, 1 - 0.5 * 0.75)
    np.testing.assert_allclose(probabilities(twice), probabilities(once), rtol=1e-6)


def draws(space, mixture, seed=0):
    keys = jax.random.split(jax.random.key(seed), NUM)
    return jax.jit(jax.vmap(lambda key: structured.sample(space, mixture, key)))(keys)


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_draws_have_the_exact_probabilities(rate):
    mixture = structured.explore(structured.decode(SPACE, jnp.array([0.6, 0.3, 0.1])), rate)
    share = np.asarray(probabilities(mixture), float)
    found = np.mean(draws(SPACE, mixture), axis=0)
    assert np.all(np.abs(found - share) <= 5 * np.sqrt(share * (1 - share) / NUM))


def test_outputs_of_weight_zero_are_never_drawn():
    atoms = jnp.eye(4)
    space = structured.multiclass(4)
    for weights in ([0, 0.5, 0, 0.5], [0, 1, 0, 0], [1e-30, 0, 0, 1], [0, 0, 1e-30, 0]):
        weights = np.array(weights, np.float32)
        outputs = draws(space, Mixture(atoms, jnp.asarray(weights), 0.0))
        assert np.all(np.sum(outputs, axis=1) == 1)
        assert not np.any(np.sum(outputs, axis=0)[weights == 0])


def test_the_largest_and_smallest_random_word_draw_an_output(monkeypatch):
    space, weights = structured.multiclass(4), jnp.array([0.0, 0.3, 0.7, 0.0])
    for word, expected in ((0, 1), (2**32 - 1, 2)):
        words = lambda *args, word=word: jnp.full(2, word, jnp.uint32)  # noqa: E731
        monkeypatch.setattr(jax.random, "bits", words)
        for total in (1.0, 1 / 3, 0.1):
            mixture = Mixture(jnp.eye(4), total * weights, 0.0)
            output = structured.sample(space, mixture, jax.random.key(0))
            np.testing.assert_array_equal(output, np.eye(4)[expected])


def test_a_rare_uniform_share_is_drawn_that_rarely():
    mixture = Mixture(jnp.eye(3)[:1], jnp.array([0.99]), 0.01)
    share = np.mean(np.any(draws(SPACE, mixture, seed=1) != jnp.eye(3)[0], axis=1))
    expected = 0.01 * 2 / 3
    assert abs(share - expected) <= 5 * np.sqrt(expected / NUM)


def test_an_output_that_is_an_atom_twice_has_both_weights():
    mixture = Mixture(jnp.eye(3)[np.array([0, 1, 0])], jnp.array([0.25, 0.25, 0.25]), 0.25)
    np.testing.assert_allclose(probabilities(mixture), [7 / 12, 4 / 12, 1 / 12], rtol=1e-6)


def test_weights_of_unit_vectors_are_those_of_atoms():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(5)).astype(np.float32)
    units = Mixture(jnp.eye(3)[2:], shares[:1], shares[4], units=jnp.asarray(shares[1:4]))
    atoms = Mixture(jnp.eye(3)[np.array([2, 0, 1, 2])], jnp.asarray(shares[:4]), shares[4])
    for mixture in (units, structured.explore(units, 0.3)):
        other = atoms if mixture is units else structured.explore(atoms, 0.3)
        np.testing.assert_allclose(probabilities(mixture), probabilities(other), rtol=1e-6)
        np.testing.assert_array_equal(draws(SPACE, mixture), draws(SPACE, other))
        for of in (structured.expected_output, structured.second_moment):
            np.testing.assert_allclose(of(SPACE, mixture), of(SPACE, other), rtol=1e-6)
        for output in jnp.eye(3):
            duals = (SPACE.dual(one, output) for one in (mixture, other))
            np.testing.assert_allclose(*duals, rtol=1e-6)
    outside = jnp.array([1.0, 1.0, 0.0])  # no unit vector
    assert structured.prob(SPACE, units, outside) == shares[4] / 3


def test_no_classification_has_a_matrix_of_classes():
    space = structured.multiclass(100)

    def one(theta, key):
        mixture = structured.explore(structured.decode(space, space.mean(theta)), 0.1)
        output = structured.sample(space, mixture, key)
        return structured.prob(space, mixture, output), space.dual(mixture, output)

    jaxpr = jax.make_jaxpr(one)(jnp.zeros(100), jax.random.key(0))
    assert "[100,100]" not in str(jaxpr)


SPACES = {
    "multiclass": SPACE,
    "multilabel": structured.multilabel(3),
    "subsets": structured.subsets(4, 2),
    "rankings": structured.rankings(2),
}


@pytest.mark.parametrize("name", SPACES)
def test_a_score_that_is_not_a_number_plays_no_output(name):
    space = SPACES[name]

    @jax.jit
    def play(theta, key):
        mean = space.mean(theta)
        mixture = structured.explore(structured.decode(space, mean), 0.3)
        return mean, structured.sample(space, mixture, key)

    theta = jnp.zeros(space.dim).at[1].set(jnp.nan)
    for key in jax.random.split(jax.random.key(0), 8):  # some of them explore
        mean, output = play(theta, key)
        assert np.isnan(mean).any()
        np.testing.assert_array_equal(output, np.full(space.dim, np.nan))


@pytest.mark.parametrize("name", SPACES)
def test_infinite_scores_have_the_limit_or_no_number_as_mean(name):
    space = SPACES[name]
    mean = jax.jit(space.mean)
    for value in (np.inf, -np.inf):
        for theta in (np.zeros(space.dim), np.linspace(-1, 1, space.dim)):
            theta = theta.copy()
            theta[1] = value
            limit = mean(jnp.asarray(theta).at[1].set(np.sign(value) * 1e30))
            got = mean(jnp.asarray(theta))
            if not np.isnan(got).any():
                np.testing.assert_allclose(got, limit, atol=1e-6)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "multilabel" else pytest.mark.slow) for n in SPACES]
)
def test_a_run_whose_scores_overflow_is_reported(name):
    """Of label sets the mean goes on to be the limit, so there the loss says it."""
    space = SPACES[name]
    labels = {"multiclass": [1, 3], "multilabel": [[1, 0, 1], [0, 1, 1]]} | {
        "subsets": [[1, 1, 0, 0], [0, 1, 0, 1]],
        "rankings": [[1, 2], [2, 1]],
    }
    data = Example(np.array([[1e3], [2e3]], np.float32), space.encode(np.array(labels[name])))

    def make(point, data):
        learner = structured.osp(
            space,
            structured.full_information(space),
            optimizers.from_optax(optax.sgd(1e33)),
            num_features=1,
        )
        return learner, Environment(streams.resample(data), oracles.label())

    with pytest.warns(RuntimeWarning, match="finite"):
        result = jonline.run(
            make, structured.losses(space), {}, data=data, num_rounds=32, key=0, record_every=16
        )
    assert result.non_finite
