"""All output spaces by enumeration, and against each other."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import structured
from jonline.structured import theory
from jonline.structured.decoding import decode, expected_output, explore
from jonline.testing import check_space
from jonline.testing.space_measures import some_scores


def cube(d):
    return np.array(list(itertools.product([0.0, 1.0], repeat=d)))


def choices(d, m):
    return np.array([row for row in cube(d) if row.sum() == m])


def permutations(m):
    return np.array([np.eye(m)[list(p)].ravel() for p in itertools.permutations(range(m))])


SPACES = {
    **{f"multiclass {d}": (structured.multiclass(d), np.eye(d)) for d in (2, 3, 5)},
    **{f"multilabel {d}": (structured.multilabel(d), cube(d)) for d in (1, 3, 4)},
    **{
        f"subsets {d}, {m}": (structured.subsets(d, m), choices(d, m))
        for d, m in ((5, 2), (4, 3), (6, 1))
    },
    **{f"rankings {m}": (structured.rankings(m), permutations(m)) for m in (2, 3, 4)},
}
PAPER = {
    **{f"multiclass {d}": structured.multiclass_paper_constants(d) for d in (2, 3, 5)},
    **{
        f"subsets {d}, {m}": structured.subsets_paper_constants(d, m)
        for d, m in ((5, 2), (4, 3), (6, 1))
    },
    **{f"rankings {m}": structured.rankings_paper_constants(m) for m in (2, 3, 4)},
}


AT_THE_ENDS = ("multiclass 5", "multilabel 4", "subsets 5, 2", "rankings 4")  # the rest are slow


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in AT_THE_ENDS else [pytest.mark.slow]) for n in SPACES],
)
def test_space_keeps_the_contract(name):
    check_space(*SPACES[name])


@pytest.mark.parametrize("x64", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["multiclass 5", "multilabel 4", "subsets 5, 2", "rankings 3"])
def test_mean_of_huge_scores_is_the_best_output(name, x64):
    space, outputs = SPACES[name]
    scales = [1e6, 1e12, 1e30, 5e37] + [1e60, 1e300] * x64
    scores = np.random.default_rng(0).normal(size=(60, space.dim))
    best = outputs[np.argmax(scores @ outputs.T, axis=1)]
    with jax.enable_x64(x64):
        mean = jax.jit(jax.vmap(space.mean))
        for scale in scales:
            np.testing.assert_allclose(mean(jnp.asarray(scores * scale, float)), best, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "theta", "mean"),
    [
        ("multiclass 3", [1, 0, 1], [1 / 2, 0, 1 / 2]),
        ("multilabel 3", [1, 0, -1], [1, 0, 0]),
        ("subsets 5, 2", [1, 1, 1, 0, 0], [2 / 3, 2 / 3, 2 / 3, 0, 0]),
        ("subsets 5, 2", [1, 0, -1, 0, 0], [1, 1 / 3, 0, 1 / 3, 1 / 3]),
        ("rankings 2", [1, -1, 1, -1], [1 / 2] * 4),
        ("rankings 3", [2, 1, 1, 1, 0, 0, 1, 0, 0], [1 / 3] * 9),
    ],
)
def test_mean_of_huge_scores_that_tie_shares_equally(name, theta, mean):
    compiled = jax.jit(SPACES[name][0].mean)
    for scale in (1e12, 1e30, 1.5e38):
        got = compiled(jnp.array(theta) * jnp.float32(scale))
        np.testing.assert_allclose(got, mean, atol=1e-6)  # roundings


def opposites(outputs):
    """The mean of the outputs least like each: there the loss of subsets and cube is steepest."""
    overlap = outputs @ (2 * outputs.T - 1)
    return np.array([outputs[row == row.min()].mean(axis=0) for row in overlap.T])


@pytest.mark.parametrize("name", SPACES)
def test_slope_and_variance_are_the_least_that_hold(name):
    space, outputs = SPACES[name]
    rows = outputs @ space.loss.bilinear + space.loss.on_label
    points, norm = opposites(outputs), 1 if space.name in ("multiclass", "rankings") else 2
    loss = np.sum((points @ space.loss.bilinear + space.loss.on_label) * outputs, axis=1)
    loss = loss + points @ space.loss.on_output + space.loss.constant
    slopes = loss / np.linalg.norm(points - outputs, ord=norm, axis=1)
    np.testing.assert_allclose(slopes, space.constants.gamma, rtol=1e-12)
    trace = np.trace(np.linalg.pinv(rows.T @ rows / len(rows), rcond=1e-9))
    omega = trace * max(1.0, np.abs(rows @ outputs.T).max()) ** 2
    np.testing.assert_allclose(space.constants.omega, omega, rtol=1e-10)
    if name in PAPER:
        assert trace <= PAPER[name].omega * (1 + 1e-12)


def lost_share(space, outputs, scores):
    """Returns E[L] / (4 gamma / (lambda nu) S) of randomized decoding; lemma 2.4 says <= 1."""

    def share(theta, y):
        expected = expected_output(space, decode(space, space.mean(theta)))
        bound = (1 - theory.margin(space.constants)) * space.surrogate(theta, y)
        return space.target(expected, y) / bound

    with jax.enable_x64(True):
        return np.asarray(jax.jit(jax.vmap(share))(jnp.asarray(scores), jnp.asarray(outputs)))


@pytest.mark.parametrize(
    ("name", "paper", "ratio"),
    [
        ("multilabel 4", structured.multilabel_paper_constants(4), 2.0),
        ("subsets 5, 2", structured.subsets_paper_constants(5, 2), 2 * np.sqrt(6 / 5)),
        ("subsets 4, 3", structured.subsets_paper_constants(4, 3), np.sqrt(3)),
    ],
)
def test_lemma_is_tight_and_fails_with_the_constants_of_the_paper(name, paper, ratio):
    """With gamma = 1/d (and nu = 1) the loss of decoding is above its bound."""
    space, outputs = SPACES[name]
    scores = outputs + 0.1 * (opposites(outputs) - outputs)
    np.testing.assert_allclose(lost_share(space, outputs, scores), 1, rtol=1e-9)
    of_paper = space._replace(constants=paper)
    assert ratio > 1
    np.testing.assert_allclose(lost_share(of_paper, outputs, scores), ratio, rtol=1e-9)


def test_two_classes_are_binary_logistic_regression():
    space, difference = structured.multiclass(2), np.linspace(-30, 30, 25)
    theta = np.stack([difference + 3, np.full_like(difference, 3)], axis=1)
    mean, loss = jax.jit(
        jax.vmap(lambda t: (space.mean(t), space.surrogate(t, jnp.array([1.0, 0.0]))))
    )(theta.astype(np.float32))
    sigmoid = 1 / (1 + 2.0**-difference)
    np.testing.assert_allclose(mean[:, 0], sigmoid, atol=1e-6)  # eps times an exponent of 30
    np.testing.assert_allclose(loss, -np.log2(sigmoid), atol=1e-5)  # eps times scores of 33


def test_single_subsets_are_the_classes():
    subsets, classes = structured.subsets(6, 1), structured.multiclass(6)
    assert subsets.size == classes.size
    labels = np.arange(1, 7)
    np.testing.assert_array_equal(subsets.encode(classes.encode(labels)), np.eye(6))
    points = np.random.default_rng(0).dirichlet(np.ones(6), size=20).astype(np.float32)
    for space in (subsets, classes):
        nearest = jax.jit(jax.vmap(space.nearest))(points)
        np.testing.assert_array_equal(nearest, np.eye(6)[points.argmax(axis=1)])
        np.testing.assert_allclose(space.uniform_second_moment, np.eye(6) / 6, atol=1e-15)


def test_direct_dual_of_classes_is_the_general_one_and_that_of_the_paper():
    space, outputs = SPACES["multiclass 5"]
    general = structured.cholesky_dual(space.loss, space.uniform_mean, space.uniform_second_moment)

    def duals(theta):
        mixture = explore(decode(space, space.mean(theta)), 0.2)
        both = jax.vmap(lambda y: (space.dual(mixture, y), general(mixture, y)))(
            jnp.asarray(outputs)
        )
        return *both, structured.second_moment(space, mixture)

    with jax.enable_x64(True):
        scores = jnp.asarray(some_scores(space, outputs))
        direct, general, moment = map(np.asarray, jax.jit(jax.vmap(duals))(scores))
    paper = np.linalg.inv(space.loss.bilinear) @ np.linalg.pinv(moment)
    np.testing.assert_allclose(direct, np.swapaxes(paper, 1, 2), atol=1e-11)  # entries up to 25
    np.testing.assert_allclose(general, direct, atol=1e-11)


@pytest.mark.parametrize(
    ("name", "spectrum"),
    [
        ("multiclass 5", [1 / 5] * 5),
        ("multilabel 4", [1 / 4] * 3 + [5 / 4]),
        ("subsets 5, 2", [6 / 20] * 4 + [4 / 5]),
        ("rankings 4", [0.0] * 6 + [1 / 3] * 9 + [1.0]),
    ],
)
def test_spectrum_of_the_uniform_second_moment(name, spectrum):
    values = np.linalg.eigvalsh(SPACES[name][0].uniform_second_moment)
    np.testing.assert_allclose(values, spectrum, atol=1e-12)
