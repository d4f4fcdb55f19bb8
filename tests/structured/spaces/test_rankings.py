from functools import cache, partial
from math import factorial, log

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special

from jonline import oracles, structured
from jonline.structured.spaces import birkhoff

SIZES = (2, 3, 4, 5, 6)
MILD, LARGE, HUGE = slice(0, 20), slice(20, 30), slice(30, 90)  # of `scaled`
IDENTITY, SWAP = jnp.array([1.0, 0, 0, 1]), jnp.array([0.0, 1, 1, 0])


def random_scores(m, scale, num=60, seed=0):
    return np.random.default_rng(seed).normal(size=(num, m, m)) * scale


def extreme_scores(m):
    rng = np.random.default_rng(1)
    few = [
        np.zeros((m, m)),
        1000 * np.eye(m),
        -1000 * np.tril(np.ones((m, m)), -1),  # one permutation only, and slow without Newton
        1000 * np.eye(m) + 1000 * np.eye(m, k=1),
        1000 * rng.normal(size=(m, 1)) * np.ones(m),
        np.eye(m) * 1e-30,
    ]
    ties = rng.integers(-1, 2, size=(40, m, m)) * rng.choice([3, 30, 1000], size=(40, 1, 1))
    return np.concatenate([few, ties])


@cache
def scaled(m, x64):
    """Scores and what they are scaled to: point, residual, iterations."""
    parts = [random_scores(m, 1.0, 20), random_scores(m, 20.0, 10), random_scores(m, 1000.0)]
    scores = np.concatenate([*parts, extreme_scores(m)])
    with jax.enable_x64(x64):
        got = jax.jit(jax.vmap(birkhoff.sinkhorn))(jnp.asarray(scores))
        return scores, *map(np.asarray, got)


def all_vertices(m):
    return birkhoff.permutation_matrices(m)


def objective(scores, point):
    return (scores * point).sum((-2, -1)) + scipy.special.entr(point).sum((-2, -1))


def dual_objective(f, scores):
    """At least the objective at every doubly stochastic matrix, whatever f is."""
    return scipy.special.logsumexp(scores + f[:, None], axis=0).sum() - f.sum()


# Formulas.


def test_golden_example_with_two_items():
    space = structured.rankings(2)
    estimator = structured.pseudo_inverse(space)
    theta = log(3) * IDENTITY

    @jax.jit
    def play():
        mean = space.mean(theta)
        decoded = structured.decode(space, mean)
        mixture = structured.explore(decoded, 0.5)
        prob = [
            structured.prob(space, mix, y) for mix in (decoded, mixture) for y in (IDENTITY, SWAP)
        ]
        aux = estimator.prepare(mixture, IDENTITY)
        prediction = structured.StructuredPrediction(IDENTITY, theta, mean, mean, aux, ())
        loss = oracles.Loss(space.target(IDENTITY, IDENTITY))
        return mean, decoded.weights[0], prob, estimator.estimate(prediction, loss)

    mean, sure, prob, estimate = play()
    # rtol: the residual at which the iteration may end, and what 1 - p makes of it.
    np.testing.assert_allclose(mean, [3 / 4, 1 / 4, 1 / 4, 3 / 4], rtol=2e-6)
    np.testing.assert_allclose(sure, 1 / 2, rtol=5e-6)
    np.testing.assert_allclose(prob, [7 / 8, 1 / 8, 11 / 16, 5 / 16], rtol=5e-6)
    assert estimate.weight == 1
    np.testing.assert_allclose(estimate.label, 16 / 11 * IDENTITY, rtol=5e-6, atol=1e-6)
    S = jax.jit(space.surrogate)(theta, IDENTITY)
    np.testing.assert_allclose(S, 2 * log(4 / 3), rtol=2e-6)


@pytest.mark.parametrize(("m", "x64"), [(m, False) for m in SIZES] + [(3, True), (5, True)])
def test_mean_is_doubly_stochastic_up_to_permutations(m, x64):
    _, point, residual, iterations = scaled(m, x64)
    margin = 1e-14 if x64 else 1e-6  # a few roundings
    assert point.min() >= 0
    np.testing.assert_array_less(abs(point.sum(1) - 1), margin)
    np.testing.assert_array_less(abs(point.sum(2) - 1), margin)
    assert residual.max() <= (1e-10 if x64 else 1e-6)
    assert iterations.max() < 60  # well below the cap


@pytest.mark.parametrize(("m", "x64"), [(m, False) for m in SIZES] + [(3, True), (5, True)])
def test_mean_is_that_of_many_plain_iterations(m, x64):
    scores, point, *_ = scaled(m, x64)
    P = np.exp(scores[MILD])
    for _ in range(5000):
        P = P / P.sum(axis=2, keepdims=True)
        P = P / P.sum(axis=1, keepdims=True)
    assert abs(P.sum(2) - 1).max() < 1e-13  # so that it is a reference
    # atol: the residual, times a condition number of a few.
    np.testing.assert_allclose(point[MILD], P, atol=4e-10 if x64 else 4e-6)


@pytest.mark.parametrize("m", [3, 5])
def test_mean_of_large_scores_is_optimal(m):
    scores, point, *_ = scaled(m, True)
    for z, P in zip(scores[LARGE], point[LARGE], strict=True):
        f = -z[np.arange(m), scipy.optimize.linear_sum_assignment(z, maximize=True)[1]]
        bound = scipy.optimize.minimize(dual_objective, f, args=z, method="Powell", tol=1e-12).fun
        # The objective is 1/m-strongly concave in L1: a gap of 1e-7 is 1e-3 in P at most.
        assert -1e-12 * abs(bound) <= bound - objective(z, P) <= 1e-7


def test_mean_of_huge_scores_is_the_best_permutation():
    scores, point, *_ = (part[HUGE] for part in scaled(4, False))
    values = np.sort((all_vertices(4) * scores[:, None]).sum((2, 3)), axis=1)
    clear = values[:, -1] - values[:, -2] > 60  # e^-30 in every entry
    assert clear.sum() > 40
    best = all_vertices(4)[(all_vertices(4) * scores[:, None]).sum((2, 3)).argmax(axis=1)]
    np.testing.assert_allclose(point[clear], best[clear], atol=1e-6)  # the residual


def test_a_cut_off_iteration_tells_its_residual_and_stays_in_the_polytope():
    def scale(z, tolerance, cap):
        return birkhoff.sinkhorn(z, tolerance=tolerance, max_iterations=cap)

    scores = jnp.asarray(random_scores(4, 5.0, num=30))
    scale = jax.jit(jax.vmap(scale, (0, None, None)))
    cut, rough, fine = scale(scores, 1e-6, 1), scale(scores, 1e-2, 100), scale(scores, 1e-6, 100)
    assert (cut.iterations == 1).all() and cut.residual.min() > 1e-4
    np.testing.assert_allclose(cut.point.sum(1), 1, atol=1e-6)
    np.testing.assert_allclose(cut.point.sum(2), 1, atol=1e-6)
    assert 1e-4 < rough.residual.max() <= 1e-2
    assert rough.iterations.max() < fine.iterations.max()


def test_surrogate_is_the_supremum_over_mixtures_of_permutations():
    zeta, vertices = 1.3, all_vertices(3)
    space = structured.rankings(3, sharpness=zeta)
    thetas = random_scores(3, 1.5, num=12, seed=2)
    surrogate = jax.jit(jax.vmap(jax.vmap(space.surrogate, (None, 0)), (0, None)))
    with jax.enable_x64(True):
        S = surrogate(jnp.asarray(thetas.reshape(-1, 9)), jnp.asarray(vertices.reshape(-1, 9)))
        S = np.asarray(S)
    for theta, losses in zip(thetas, S, strict=True):

        def negative(a, theta=theta):
            point = np.tensordot(scipy.special.softmax(a), vertices, 1)
            return -objective(zeta * theta, point) / zeta

        supremum = -scipy.optimize.minimize(negative, np.zeros(6), tol=1e-9).fun
        # atol: what a quasi-Newton method on finite differences leaves.
        np.testing.assert_allclose(losses, supremum - (theta * vertices).sum((1, 2)), atol=1e-6)
    assert S.min() > 0


def test_surrogate_is_affine_in_y_and_its_gradient_is_mean_minus_y():
    m, d = 4, 16
    space = structured.rankings(m, sharpness=0.8)
    rng = np.random.default_rng(3)
    with jax.enable_x64(True):
        theta = jnp.asarray(rng.normal(size=(20, d)) * 2)
        y, direction = jnp.asarray(rng.normal(size=(2, 20, d)))  # no vertices
        both = jax.jit(jax.vmap(jax.value_and_grad(space.surrogate)))
        gradient = both(theta, y)[1]

        def surrogate(theta, y):
            return both(theta, y)[0]

        np.testing.assert_allclose(gradient, jax.jit(jax.vmap(space.mean))(theta) - y, atol=1e-14)
        h = 1e-4
        slope = (surrogate(theta + h * direction, y) - surrogate(theta - h * direction, y)) / 2 / h
        # atol: h^2 of the central difference.
        np.testing.assert_allclose(slope, (gradient * direction).sum(1), atol=1e-6)
        half = (surrogate(theta, y) + surrogate(theta, direction)) / 2
        np.testing.assert_allclose(surrogate(theta, (y + direction) / 2), half, atol=1e-12)


def test_target_is_a_structured_encoding_loss_and_the_share_of_misplaced_items():
    space, Y = structured.rankings(3), all_vertices(3).reshape(6, 9)
    places = Y.reshape(6, 3, 3).argmax(axis=2)
    misplaced = (places[:, None] != places).mean(axis=2)
    V, b, e, c = space.loss
    np.testing.assert_allclose(Y @ V @ Y.T + (Y @ b)[:, None] + Y @ e + c, misplaced, atol=1e-15)
    target = jax.jit(jax.vmap(jax.vmap(space.target, (None, 0)), (0, None)))(
        jnp.asarray(Y), jnp.asarray(Y)
    )
    np.testing.assert_allclose(target, misplaced, atol=1e-7)  # float32
    # gamma = 1/(2m) is attained by every pair, nu = 4 by those that swap two items.
    apart = np.abs(Y[:, None] - Y).sum(axis=2)
    np.testing.assert_allclose(misplaced, space.constants.gamma * apart, atol=1e-15)
    assert apart[apart > 0].min() == space.constants.nu


@pytest.mark.parametrize("m", SIZES)
def test_uniform_moments_spectrum_and_omega(m):
    space = structured.rankings(m)
    Y = all_vertices(m).reshape(-1, m * m)
    assert space.size == factorial(m) and space.dim == m * m
    Q = space.uniform_second_moment
    np.testing.assert_allclose(Q, Y.T @ Y / len(Y), atol=1e-13)
    np.testing.assert_allclose(space.uniform_mean, Y.mean(axis=0), atol=1e-13)
    spectrum = np.r_[np.zeros(2 * (m - 1)), np.full((m - 1) ** 2, 1 / (m - 1)), 1]
    np.testing.assert_allclose(np.linalg.eigvalsh(Q), spectrum, atol=1e-12)
    inverse = np.linalg.inv(space.loss.bilinear)
    omega = np.trace(inverse @ np.linalg.pinv(Q, rcond=1e-9) @ inverse.T)
    np.testing.assert_allclose(space.constants.omega, omega, rtol=1e-10)
    # the directions of the estimate span what the outputs span
    uniform = structured.Mixture(jnp.zeros((1, m * m)), jnp.zeros(1), 1.0)
    u = jax.jit(jax.vmap(partial(space.dual, uniform)))(jnp.asarray(Y))
    assert np.linalg.matrix_rank(u, tol=1e-3) == (m - 1) ** 2 + 1


def test_constants_by_hand():
    got = structured.rankings_constants(3, 0.5)
    np.testing.assert_allclose(got, [1 / 6, 4, 2 / 3, 1, 81], rtol=1e-15)
    assert structured.rankings_paper_constants(3, 0.5) == got._replace(omega=243.0)
    assert structured.rankings(3, sharpness=0.5).constants == got


def test_surrogate_bounds_distance_by_its_strong_convexity():
    zeta = 1.5
    space, Y = structured.rankings(3, sharpness=zeta), jnp.asarray(all_vertices(3).reshape(6, 9))
    theta = jnp.asarray(random_scores(3, 2.0, num=200).reshape(-1, 9))
    both = jax.vmap(jax.vmap(jax.value_and_grad(space.surrogate), (None, 0)), (0, None))
    S, gradient = jax.jit(both)(theta, Y)
    far = jnp.sum(jnp.abs(gradient), axis=2)  # gradient: mean - y
    # 1e-5: float32 rounding of S, which is a difference of numbers up to 10.
    assert jnp.all(S >= space.constants.strong_convexity / 2 * far**2 - 1e-5)


# Expectations.


@pytest.mark.parametrize("m", SIZES)
def test_decomposition_is_of_permutations_and_has_the_mean(m):
    points = scaled(m, False)[1]
    some = np.random.default_rng(4).integers(factorial(m), size=(30, 3))  # on the boundary
    points = np.concatenate([points, all_vertices(m)[some].mean(axis=1)]).astype(np.float32)
    mixture = jax.jit(jax.vmap(birkhoff.decomposition))(jnp.asarray(points))
    num_atoms = (m - 1) ** 2 + 1
    atoms = np.asarray(mixture.atoms).reshape(-1, num_atoms, m, m)
    assert np.isin(atoms, [0, 1]).all()
    assert (atoms.sum(axis=2) == 1).all() and (atoms.sum(axis=3) == 1).all()
    weights = np.asarray(mixture.weights, np.float64)
    assert weights.min() >= 0 and mixture.uniform[0] == 0
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)
    # 2e-6: the margins of the point, and a rounding for every atom.
    mean = np.einsum("na,naij->nij", weights, atoms)
    np.testing.assert_allclose(mean, points, atol=2e-6)
    assert (weights[-30:] > 0).sum(axis=1).max() <= max(num_atoms, 3)


def test_decomposition_of_a_permutation_is_itself():
    permutation = jnp.asarray(all_vertices(4)[13])
    mixture = jax.jit(birkhoff.decomposition)(permutation)
    np.testing.assert_array_equal(mixture.weights, [1] + [0] * 9)
    np.testing.assert_array_equal(mixture.atoms[0], permutation.reshape(16))


@pytest.mark.parametrize("m", [2, 3, 5])
def test_table_and_hungarian_find_matchings_of_the_same_weight(m, monkeypatch):
    rng = np.random.default_rng(5)
    weights = rng.normal(size=(200, m, m))
    weights[:50] = rng.integers(3, size=(50, m, m))  # ties
    weights[50:100] = np.where(rng.random((50, m, m)) < 0.4, -1000, np.log(rng.random((50, m, m))))
    weights = jnp.asarray(weights, jnp.float32)
    table = jax.jit(jax.vmap(lambda w: birkhoff.matching(w)))(weights)
    monkeypatch.setattr(birkhoff, "_TABLE", 0)
    hungarian = jax.jit(jax.vmap(lambda w: birkhoff.matching(w)))(weights)
    for Y in (table, hungarian):
        assert jnp.isin(Y, jnp.array([0, 1])).all()
        assert (Y.sum(axis=1) == 1).all() and (Y.sum(axis=2) == 1).all()
    values = [jnp.sum(Y * weights, axis=(1, 2)) for Y in (table, hungarian)]
    np.testing.assert_allclose(*values, rtol=1e-6, atol=1e-6)  # the order of a float32 sum
    reference = (all_vertices(m) * np.asarray(weights)[:, None]).sum((2, 3)).max(axis=1)
    np.testing.assert_allclose(values[0], reference, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("m", [3, 6])
def test_nearest_is_next_to_the_point(m):
    space, Y = structured.rankings(m), all_vertices(m).reshape(-1, m * m)
    points = jnp.asarray(scaled(m, False)[1].reshape(-1, m * m))
    nearest = jax.jit(jax.vmap(space.nearest))(points)
    gaps = jax.jit(jax.vmap(space.gap))(nearest, points)
    apart = np.abs(np.asarray(points)[:, None] - Y).sum(axis=2)
    np.testing.assert_allclose(gaps, apart.min(axis=1), atol=1e-5)  # a float32 sum of m^2
    assert (np.abs(np.asarray(nearest)[:, None] - Y).sum(axis=2).min(axis=1) == 0).all()


def test_uniform_draws_are_uniform():
    num = 60_000
    draw = jax.jit(jax.vmap(structured.rankings(3).draw_uniform))
    drawn = np.asarray(draw(jax.random.split(jax.random.key(7), num)))
    which = drawn @ all_vertices(3).reshape(6, 9).T == 3
    assert (which.sum(axis=1) == 1).all()
    counts = which.sum(axis=0)
    standard_error = np.sqrt(num * (1 / 6) * (5 / 6))
    np.testing.assert_array_less(abs(counts - num / 6), 5 * standard_error)
    chi_square = ((counts - num / 6) ** 2 / (num / 6)).sum()
    assert chi_square < 5 + 5 * np.sqrt(10)  # mean 5 and variance 10 for 5 degrees of freedom


# Contract.


@pytest.mark.parametrize("m", [2, 3, 7])
def test_encode_reads_places_and_matrices(m):
    rng = np.random.default_rng(6)
    places = np.array([rng.permutation(m) + 1 for _ in range(5)])
    encode = structured.rankings(m).encode
    Y = encode(places)
    assert Y.dtype == np.float32 and Y.shape == (5, m * m)
    np.testing.assert_array_equal(Y.reshape(5, m, m).argmax(axis=2) + 1, places)
    np.testing.assert_array_equal(Y.sum(axis=1), m)
    np.testing.assert_array_equal(encode(Y.astype(np.float64)), Y)
    np.testing.assert_array_equal(encode(places.astype(float)), Y)
    assert encode(np.zeros((0, m))).shape == (0, m * m)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[1, 2, 3], [1, 2, 2]], "permutation of 1…3, got .1 2 2. in row 1"),
        ([[0, 1, 2]], "in row 0"),
        ([[1.5, 2, 3]], "in row 0"),
        ([[1, np.nan, 3]], "in row 0"),
        ([np.eye(3).reshape(9), np.ones(9)], "permutation matrix .3, 3., got .* in row 1"),
        ([[1, 0, 0, 1, 0, 0, 0, 0, 1]], "in row 0"),
        ([1, 2, 3], "must be .N, 3. or .N, 9., got .3,."),
        ([[1, 2]], "got .1, 2."),
    ],
)
def test_labels_that_are_no_permutation_are_named(labels, message):
    with pytest.raises(ValueError, match=message):
        structured.rankings(3).encode(np.array(labels))


def test_labels_of_another_kind_are_refused():
    with pytest.raises(TypeError, match="must be numbers"):
        structured.rankings(2).encode(np.array([["1", "2"]]))
    with pytest.raises(TypeError, match="without a mask"):
        structured.rankings(2).encode(np.ma.masked_array([[1, 2]], [[0, 1]]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_items": 1}, "num_items must be >= 2, got 1"),
        ({"num_items": 3, "sharpness": 0.0}, "sharpness must be > 0 and finite, got 0.0"),
        ({"num_items": 3, "sharpness": -1}, "sharpness must be > 0"),
        ({"num_items": 3, "tolerance": 0}, "tolerance must be > 0"),
        ({"num_items": 3, "max_iterations": 0}, "max_iterations must be >= 1, got 0"),
    ],
)
def test_values_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        structured.rankings(**arguments)


def test_kinds_and_shapes_are_refused():
    with pytest.raises(TypeError, match="num_items must be a Python int"):
        structured.rankings(3.0)  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match="sharpness must be known before tracing, got a traced value"
    ):
        jax.jit(lambda zeta: structured.rankings(3, sharpness=zeta).mean(jnp.zeros(9)))(1.0)
    space = structured.rankings(3)
    for theta in (jnp.zeros((3, 3)), jnp.zeros(3)):
        with pytest.raises(ValueError, match=r"theta must have shape \(9,\)"):
            space.mean(theta)
        with pytest.raises(ValueError, match=r"theta must have shape \(9,\)"):
            space.surrogate(theta, jnp.zeros(9))
    with pytest.raises(ValueError, match=r"scores must be square, got \(2, 3\)"):
        birkhoff.sinkhorn(jnp.zeros((2, 3)))
