import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import hypotheses, kernels

RNG = np.random.default_rng(0)
KERNELS = {
    "linear": (kernels.linear, lambda x, z: x @ z),
    "polynomial": (kernels.polynomial(3, offset=0.5), lambda x, z: (0.5 + x @ z) ** 3),
    "gaussian": (kernels.gaussian(1.5), lambda x, z: np.exp(-np.sum((x - z) ** 2) / 4.5)),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_has_its_formula_and_is_positive(name):
    k, formula = KERNELS[name]
    points = RNG.normal(size=(6, 4))
    gram = np.array([[float(k(jnp.asarray(x), jnp.asarray(z))) for z in points] for x in points])
    expected = np.array([[formula(x, z) for z in points] for x in points])
    np.testing.assert_allclose(gram, expected, rtol=1e-5)
    assert np.linalg.eigvalsh(gram).min() > -1e-4 * np.abs(gram).max()


@pytest.mark.parametrize("num_features", [1, 2, 5])
@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.parametrize("offset", [0.0, 1.0, 0.25])
def test_monomials_are_the_features_of_the_polynomial_kernel(num_features, degree, offset):
    with jax.enable_x64(True):
        x, z = jnp.asarray(RNG.normal(size=(2, num_features)))
        phi, psi = (kernels.monomials(v, degree, offset=offset) for v in (x, z))
        assert phi.shape == (kernels.num_monomials(num_features, degree),)
        expected = kernels.polynomial(degree, offset=offset)(x, z)
        np.testing.assert_allclose(phi @ psi, expected, rtol=1e-10, atol=1e-12)


def moves(num, seed=0, num_features=3):
    """Points, decays 1/t as DFORD's (the first wipes everything) and some coefficients 0."""
    rng = np.random.default_rng(seed)
    coefs = rng.normal(size=num) * (rng.random(num) < 0.7)
    return rng.normal(size=(num, num_features)), 1 / np.arange(1, num + 1), coefs


def expansion(points, decays, coefs, budget):
    """The terms (point, coefficient) that are left, by the definition, in float64."""
    terms = []
    for x, decay, coef in zip(points, decays, coefs, strict=True):
        terms = [*((p, c * (1 - decay)) for p, c in terms), (x, coef)][-budget:]
    return terms


def played(hypothesis, points, decays, coefs):
    def one(f, now):
        return hypothesis.move(f, *now), None

    args = (jnp.asarray(points), jnp.asarray(decays), jnp.asarray(coefs))
    return jax.jit(lambda args: jax.lax.scan(one, hypothesis.init(), args)[0])(args)


HELD = {
    "linear": lambda budget: hypotheses.kernel(kernels.linear, budget, 3),
    "polynomial": lambda budget: hypotheses.kernel(kernels.polynomial(2), budget, 3),
    "gaussian": lambda budget: hypotheses.kernel(kernels.gaussian(1.0), budget, 3),
    "explicit": lambda budget: hypotheses.polynomial(3, degree=2, budget=budget),
}
FORMULAS = {
    "linear": lambda x, z: x @ z,
    "polynomial": lambda x, z: (1 + x @ z) ** 2,
    "gaussian": lambda x, z: np.exp(-np.sum((x - z) ** 2) / 2),
    "explicit": lambda x, z: (1 + x @ z) ** 2,
}


@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize("budget", [1, 4, 30, 50])
def test_hypothesis_is_the_sum_of_its_newest_terms_with_its_norm(name, budget):
    """Values and ||f||^2 by the definition, before, at and after the first term is dropped."""
    num, k = 30, FORMULAS[name]
    with jax.enable_x64(True):
        hypothesis = HELD[name](budget)
        f = played(hypothesis, *moves(num))
        terms = expansion(*moves(num), budget)
        for z in np.random.default_rng(1).normal(size=(3, 3)):
            value = sum(c * k(p, z) for p, c in terms)
            np.testing.assert_allclose(hypothesis.value(f, jnp.asarray(z)), value, rtol=1e-9)
        norm = sum(c * d * k(p, q) for p, c in terms for q, d in terms)
        np.testing.assert_allclose(hypothesis.sq_norm(f), norm, rtol=1e-9)
        assert int(f.dropped) == max(num - budget, 0)
        z = jnp.asarray(RNG.normal(size=3))
        np.testing.assert_allclose(hypothesis.diagonal(z), k(np.asarray(z), np.asarray(z)))


def test_explicit_features_equal_the_kernel_in_float32():
    """Over 2 000 moves with drops, within 1e-4 of the largest value: rounding adds up."""
    budget, num = 100, 2000
    ring, flat = HELD["polynomial"](budget), HELD["explicit"](budget)
    args = moves(num)
    f, g = (played(hypothesis, *map(np.float32, args)) for hypothesis in (ring, flat))
    zs = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    a = np.array([ring.value(f, z) for z in zs])
    b = np.array([flat.value(g, z) for z in zs])
    np.testing.assert_allclose(a, b, atol=1e-4 * np.abs(a).max())
    np.testing.assert_allclose(ring.sq_norm(f), flat.sq_norm(g), rtol=1e-3)


def test_explicit_features_without_a_budget_are_weights_alone():
    unbounded, bounded = hypotheses.polynomial(3, degree=2), HELD["explicit"](1000)
    args = [np.float32(part) for part in moves(200)]
    w, f = played(unbounded, *args), played(bounded, *args)
    np.testing.assert_array_equal(w, f.weights)
    assert w.shape == (10,) and int(f.size) == 200 and int(f.dropped) == 0


def test_budget_that_no_run_exceeds_changes_nothing():
    args = [np.float32(part) for part in moves(60)]
    for name in HELD:
        states = [played(HELD[name](budget), *args) for budget in (60, 99)]
        z = np.float32([0.5, -1.0, 2.0])
        values = [HELD[name](b).value(f, z) for b, f in zip((60, 99), states, strict=True)]
        np.testing.assert_allclose(*values, rtol=1e-5)


def test_first_rounds_agree_for_any_budget():
    args = [part[:20] for part in moves(40)]
    z = np.float32([0.5, -1.0, 2.0])
    for name in HELD:
        values = [float(HELD[name](b).value(played(HELD[name](b), *args), z)) for b in (20, 35)]
        np.testing.assert_allclose(*values, rtol=1e-5)


def test_decays_beyond_one_turn_the_sign():
    """The printed clipping can take more than everything away; both forms follow."""
    points, _, coefs = moves(12)
    decays = np.array([0.0, 0.0, 1.5, 0.0, 0.7, 1.0, 0.2, 1.2, 1.3, 0.0, 0.0, 0.1])
    with jax.enable_x64(True):
        for budget in (2, 3, 20):
            terms = expansion(points, decays, coefs, budget)
            z = np.random.default_rng(1).normal(size=3)
            value = sum(c * FORMULAS["polynomial"](p, z) for p, c in terms)
            for name in ("polynomial", "explicit"):
                f = played(HELD[name](budget), points, decays, coefs)
                np.testing.assert_allclose(HELD[name](budget).value(f, z), value, rtol=1e-9)


def test_dropped_term_leaves_some_1e_6_of_itself_even_late():
    """One term late in 53 000 moves with decay 1/t and a budget of 2 000: what is left of it."""
    budget, late, num = 2000, 50_000, 53_000
    t = jnp.arange(1, num + 1)
    x = jnp.array([0.5, -0.5])
    hypothesis = hypotheses.polynomial(2, degree=2, budget=budget)

    def one(f, t):
        f = hypothesis.move(f, x, 1.0 / t, jnp.where(t == late, 1.0, 0.0))
        return f, hypothesis.value(f, x)

    values = np.asarray(jax.jit(lambda t: jax.lax.scan(one, hypothesis.init(), t)[1])(t))
    assert np.abs(values[late + budget :]).max() < 1e-5 * values[late - 1]


def test_empty_slot_asks_nothing_of_the_kernel():
    def cosine(x, z):
        return jnp.sum(x * z) / jnp.sqrt(jnp.sum(x * x) * jnp.sum(z * z))

    hypothesis = hypotheses.kernel(cosine, 50, 3)
    points, decays, coefs = (part[:10] for part in moves(10))
    f = played(hypothesis, points, decays, coefs)
    terms = expansion(points, decays, coefs, 50)
    z = np.array([0.3, 1.0, -2.0])
    value = sum(c * (p @ z) / np.sqrt((p @ p) * (z @ z)) for p, c in terms)
    np.testing.assert_allclose(hypothesis.value(f, z), value, rtol=1e-5)
    assert np.isfinite(f.sq_norm)


@pytest.mark.parametrize("keep_norm", [True, False])
def test_kernel_that_is_no_scalar_function_is_an_error(keep_norm):
    hypothesis = hypotheses.kernel(lambda x, z: x * z, 3, 3, keep_norm=keep_norm)
    with pytest.raises(ValueError, match=r"k must return a scalar, got shape \(3,\)"):
        hypothesis.value(hypothesis.init(), jnp.ones(3))
    with pytest.raises(TypeError, match="k must be a function"):
        hypotheses.kernel("rbf", 3, 3)
    with pytest.raises(ValueError, match=r"x must have shape \(3,\), got \(1,\)"):
        hypothesis.move(hypothesis.init(), jnp.ones(1), 0.0, 1.0)


def test_norm_that_is_not_kept_is_an_error_where_it_is_asked_for():
    hypothesis = hypotheses.kernel(kernels.linear, 5, 2, keep_norm=False)
    assert hypothesis.init().sq_norm == ()
    with pytest.raises(ValueError, match="keep_norm must be True"):
        hypothesis.sq_norm(hypothesis.init())


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: kernels.polynomial(0), ValueError, "degree must be >= 1, got 0"),
        (lambda: kernels.polynomial(2, offset=-1.0), ValueError, "offset must be >= 0"),
        (lambda: kernels.gaussian(0.0), ValueError, "width must be > 0"),
        (lambda: hypotheses.kernel(kernels.linear, 0, 2), ValueError, "budget must be >= 1"),
        (lambda: hypotheses.kernel(kernels.linear, 1.5, 2), TypeError, "budget must be"),
        (lambda: hypotheses.polynomial(2, degree=2, budget=0), ValueError, "budget must be >= 1"),
        (lambda: hypotheses.polynomial(0, degree=2), ValueError, "num_features must be >= 1"),
        (
            lambda: HELD["explicit"](3).value(HELD["explicit"](3).init(), jnp.ones(2)),
            ValueError,
            r"x must have shape \(3,\), got \(2,\)",
        ),
    ],
)
def test_bad_arguments_are_errors(build, error, message):
    with pytest.raises(error, match=message):
        build()
