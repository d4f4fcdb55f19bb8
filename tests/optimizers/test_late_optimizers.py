"""Optimizers under delay against float64 transliterations of their papers' boxes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import optimizers

D, N, T, B = 3, 4, 200, 2.0
DELAYS = (0, 1, 3, 7)


def gradients(seed=0, num_rounds=T):
    """Residuals and features of a regret-like sequence: drifting, with some rounds of zeros."""
    rng = np.random.default_rng(seed)
    residuals = rng.normal(size=(num_rounds, D)) + 0.5 * np.sin(np.arange(num_rounds) / 15)[:, None]
    residuals *= rng.random((num_rounds, 1)) < 0.8
    xs = rng.normal(size=(num_rounds, N))
    return residuals.astype(np.float32), xs.astype(np.float32)


def play(optimizer, residuals, xs, delay):
    """The models (T, d, n) that are played, and the states, under a fixed delay."""

    def one(carry, t):
        state, stamps = carry
        stamps = jax.tree.map(lambda ring, s: ring.at[t].set(s), stamps, optimizer.stamp(state))
        asked = jnp.maximum(t - delay, 0)
        stamp = jax.tree.map(lambda ring: ring[asked], stamps)
        new = optimizer.update(state, residuals[asked], xs[asked], stamp)
        kept = jax.tree.map(lambda a, b: jnp.where(t >= delay, a, b), new, state)
        return (kept, stamps), (optimizer.params(state), state)

    state = optimizer.init(jnp.zeros((D, N)))
    num_rounds = len(xs)
    stamps = jax.tree.map(
        lambda s: jnp.zeros((num_rounds, *jnp.shape(s)), jnp.asarray(s).dtype),
        optimizer.stamp(state),
    )
    residuals, xs = jnp.asarray(residuals), jnp.asarray(xs)
    run = jax.jit(lambda: jax.lax.scan(one, (state, stamps), jnp.arange(num_rounds)))
    return jax.tree.map(np.asarray, run()[1])


def least(cum, reg, radius):
    """argmin over the ball of reg ||W||^2 / 2 + <cum, W>, the shortest one."""
    norm = np.linalg.norm(cum)
    if norm == 0:
        return np.zeros_like(cum)
    return -cum * (radius / norm if reg == 0 else min(1 / reg, radius / norm))


def adahedge(G, delay, diameter):
    """Models W_1…W_T and lambda_1…lambda_T by the text of the papers, in float64."""
    radius, alpha = diameter / 2, diameter**2 / 2
    W, regs, total = [np.zeros(G.shape[1:])], [0.0], 0.0
    sums = np.concatenate([np.zeros((1, *G.shape[1:])), np.cumsum(G, axis=0)])
    for t in range(1, len(G)):  # the end of round t; 1-based
        s = t - delay
        if s >= 1:
            cum, g, reg, W_s = sums[s], G[s - 1], regs[s - 1], W[s - 1]
            recent = sums[s] - sums[max(0, s - 1 - delay)]
            F = lambda V: reg * (V * V).sum() / 2 + (cum * V).sum()  # noqa: E731, B023
            size = np.linalg.norm(recent)
            ratio = 1.0 if size == 0 else min(1.0, np.linalg.norm(g) / size)
            bar, hat = least(cum, reg, radius), least(cum - ratio * recent, reg, radius)
            terms = (
                F(W_s) - F(bar),
                (g * (W_s - bar)).sum(),
                F(hat) - F(bar) + (g * (W_s - hat)).sum(),
            )
            total += max(0.0, min(terms))
        regs.append(total / alpha)
        W.append(least(sums[max(s, 0)], regs[-1], radius))
    return np.array(W), np.array(regs)


@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("diameter", [B, 12.0])
def test_odaftrl_is_the_papers_recursion(delay, diameter):
    residuals, xs = gradients()
    G = residuals[:, :, None].astype(float) * xs[:, None, :]
    W, regs = adahedge(G, delay, diameter)
    played, states = play(optimizers.odaftrl(diameter, delay=delay), residuals, xs, delay)
    # float32 against float64, with sums of 200 gradients of norm about 4
    np.testing.assert_allclose(states.reg, regs, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(played, W, atol=1e-5 * diameter)
    assert (np.diff(states.reg) >= 0).all()
    assert (np.linalg.norm(played, axis=(1, 2)) <= diameter / 2 * (1 + 1e-6)).all()
    assert regs[-1] > 0


@pytest.mark.parametrize(
    ("num_rounds", "delay"),
    [
        (5000, 0),
        (5000, 7),
        pytest.param(100_000, 0, marks=pytest.mark.slow),
        pytest.param(100_000, 100, marks=pytest.mark.slow),
    ],
)
def test_products_by_recursion_stay_those_of_the_sums(num_rounds, delay):
    """Gradients of sizes that change by 100 and back; lambda and the models after many answers."""
    residuals, xs = gradients(1, num_rounds)
    residuals *= 10.0 ** np.round(2 * np.sin(np.arange(num_rounds) / 700))[:, None]
    residuals = residuals.astype(np.float32)
    W, regs = adahedge(residuals[:, :, None].astype(float) * xs[:, None, :], delay, B)
    played, states = play(optimizers.odaftrl(B, delay=delay), residuals, xs, delay)
    np.testing.assert_allclose(states.reg, regs, rtol=1e-3)
    assert np.abs(played - W).max() <= 1e-3 * B
    total = states.old + (states.recent if delay else 0)
    sq_sum = states.products.old + 2 * states.products.cross + states.products.recent
    found, expected = np.sqrt(sq_sum), np.linalg.norm(total.astype(float), axis=(1, 2))
    assert np.abs(found - expected).max() <= 1e-4 * expected.max()


def test_scores_are_those_of_the_model():
    residuals, xs = gradients(2, 50)
    for delay in DELAYS:
        optimizer = optimizers.odaftrl(B, delay=delay)
        state = optimizer.init(jnp.zeros((D, N)))
        for residual, x in zip(residuals, xs, strict=True):
            state = optimizer.update(state, residual, x, optimizer.stamp(state))
            expected = optimizer.params(state) @ x
            np.testing.assert_allclose(optimizer.scores(state, x), expected, rtol=1e-4, atol=1e-6)


def test_odaftrl_golden_example():
    optimizer = optimizers.odaftrl(2.0, delay=1)
    state = optimizer.init(jnp.zeros((1, 1)))
    regs, models, stamps = [], [], []
    for t in range(5):
        stamps.append(optimizer.stamp(state))
        regs.append(float(state.reg))
        models.append(float(optimizer.params(state)[0, 0]))
        if t >= 1:
            g = jnp.asarray([[2.0], [-1.0], [-3.0], [0.0]][t - 1])
            state = optimizer.update(state, g, jnp.ones(1), stamps[t - 1])
    assert regs == [0, 0, 1, 1, 3]
    # 2/3 in float32; with lambda_4 instead of lambda_5 it would be 1
    np.testing.assert_allclose(models, [0, 0, -1, -1, 2 / 3], rtol=1e-6)


def solid(G, taus, diameter, bound, most):
    """Models by the text of the papers, in float64, with answers in the order they come."""
    radius, W = diameter / 2, np.zeros(G.shape[1:])
    norms = np.linalg.norm(G, axis=(1, 2))
    order = sorted(range(len(G)), key=lambda s: (s + taus[s], s))
    arrival = {s: s + taus[s] for s in range(len(G))}
    Z, played, late, k = 0.0, [], [], 0
    for t in range(len(G)):
        played.append(W.copy())
        while k < len(order) and arrival[order[k]] == t:
            rho = order[k]
            tilde = k - sum(arrival[s] < rho for s in range(rho))
            between = sum(norms[order[i]] for i in range(k - tilde, k))
            Z += norms[rho] ** 2 + 2 * norms[rho] * between
            eta = np.sqrt(2) * radius / np.sqrt(Z + bound**2 * (most**2 + most)) if Z else 0.0
            W = W - eta * G[rho]
            W = W * min(1.0, radius / max(np.linalg.norm(W), 1e-300))
            late.append(tilde)
            k += 1
    return np.array(played), np.array(late), k


@pytest.mark.parametrize("delay", DELAYS)
def test_solid_is_the_papers_recursion_under_a_fixed_delay(delay):
    residuals, xs = gradients(1)
    G = residuals[:, :, None].astype(float) * xs[:, None, :]
    W, late, _ = solid(G, np.full(T, delay), B, 5.0, delay)
    optimizer = optimizers.solid_ogd(B, gradient_bound=5.0, max_delay=delay)
    played, states = play(optimizer, residuals, xs, delay)
    np.testing.assert_allclose(played, W, atol=1e-5 * B)  # float32 against float64
    assert late[2 * delay :].tolist() == [delay] * len(late[2 * delay :])
    assert states.count[-1] == T - 1 - delay


def test_solid_is_the_papers_recursion_under_delays_that_vary():
    residuals, xs = gradients(2)
    G = residuals[:, :, None].astype(float) * xs[:, None, :]
    taus = np.random.default_rng(3).integers(0, 9, T)
    taus[-9:] = np.minimum(taus[-9:], np.arange(8, -1, -1))  # every answer comes
    W, late, num_heard = solid(G, taus, B, 5.0, 8)
    optimizer = optimizers.solid_ogd(B, gradient_bound=5.0, max_delay=8)
    update, state = jax.jit(optimizer.update), optimizer.init(jnp.zeros((D, N)))
    played, stamps, seen = [], [], []
    for t in range(T):
        played.append(optimizer.params(state))
        stamps.append(optimizer.stamp(state))
        for s in range(t + 1):
            if s + taus[s] == t:
                seen.append(int(state.count - stamps[s].count))
                state = update(state, residuals[s], xs[s], stamps[s])
    np.testing.assert_allclose(np.asarray(played), W, atol=1e-5 * B)  # float32 against float64
    assert seen == late.tolist() and num_heard == T
    assert sum(seen) == taus.sum()  # the effective delays add up to the delays


def test_solid_takes_a_bound_on_the_delay_whose_square_no_int32_holds():
    most, bound = 50_000, 2.0

    def model(gradient_bound, max_delay):
        optimizer = optimizers.solid_ogd(B, gradient_bound=gradient_bound, max_delay=max_delay)
        state = optimizer.init(jnp.zeros((1, 1)))
        new = optimizer.update(state, jnp.ones(1), jnp.ones(1), optimizer.stamp(state))
        return optimizer.params(new)

    want = -B / np.sqrt(2 * (1 + bound**2 * most * (most + 1.0)))
    for W in (
        model(bound, most),
        model(jnp.float32(bound), most),
        jax.jit(model)(jnp.float32(bound), jnp.int32(most)),
    ):
        np.testing.assert_allclose(W, [[want]], rtol=1e-6)


def test_undelayed_solid_is_adaptive_ogd():
    residuals, xs = gradients(4)
    played = play(optimizers.solid_ogd(B, gradient_bound=5.0, max_delay=0), residuals, xs, 0)[0]
    ogd = play(optimizers.adaptive_ogd(B, project=True), residuals, xs, 0)[0]
    # two programs, each with products and sums fused in its own way
    np.testing.assert_allclose(played, ogd, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("delay", DELAYS)
def test_bold_is_one_learner_for_each_residue_of_the_round(delay):
    residuals, xs = gradients(5)
    played = play(
        optimizers.bold(optimizers.adaptive_ogd(B, project=True), delay=delay), residuals, xs, delay
    )[0]
    for copy in range(delay + 1):
        mine = slice(copy, None, delay + 1)
        alone = play(optimizers.adaptive_ogd(B, project=True), residuals[mine], xs[mine], 0)[0]
        np.testing.assert_allclose(played[mine], alone, rtol=1e-5, atol=1e-6)  # other programs


def test_delay_beyond_the_last_round_leaves_the_model_at_zero():
    residuals, xs = gradients(6, 20)
    for optimizer in (
        optimizers.odaftrl(B, delay=20),
        optimizers.solid_ogd(B, gradient_bound=5.0, max_delay=20),
        optimizers.bold(optimizers.adaptive_ogd(B), delay=20),
    ):
        assert not play(optimizer, residuals, xs, 20)[0].any()


@pytest.mark.parametrize("delay", DELAYS)
def test_odaftrl_meets_its_regret_bound(delay):
    residuals, xs = gradients(7)
    G = residuals[:, :, None].astype(float) * xs[:, None, :]
    played = play(optimizers.odaftrl(B, delay=delay), residuals, xs, delay)[0]
    regret = (G * played).sum() + B / 2 * np.linalg.norm(G.sum(0))  # against the best in the ball
    norms = np.linalg.norm(G, axis=(1, 2))
    windows = [np.linalg.norm(G[max(0, t - delay) : t + 1].sum(0)) for t in range(T)]
    a = B * np.minimum(windows, norms)
    b = np.minimum(np.square(windows) / 2, windows * norms)
    ahead = max(a[max(0, t - delay) : t].sum() for t in range(T))
    bound = 2 * (2 * ahead + np.sqrt((a**2).sum() + B**2 * b.sum()))
    assert -1e-3 < regret < bound  # no model in the ball does better on these gradients


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: optimizers.odaftrl(0.0, delay=1), ValueError, "diameter must be > 0"),
        (lambda: optimizers.odaftrl(1.0, delay=-1), ValueError, "must be >= 0, got -1"),
        (lambda: optimizers.odaftrl(1.0, delay=1.5), TypeError, "must be a Python int"),
        (lambda: optimizers.odaftrl(1.0, delay=1, scale=0.0), ValueError, "scale must be > 0"),
        (
            lambda: optimizers.solid_ogd(1.0, gradient_bound=-1.0, max_delay=1),
            ValueError,
            "gradient_bound must be >= 0",
        ),
        (
            lambda: optimizers.solid_ogd(1.0, gradient_bound=1.0, max_delay=-2),
            ValueError,
            "max_delay must be >= 0",
        ),
        (lambda: optimizers.bold(None, delay=1), TypeError, "base must be OnlineOptimizer"),
        (
            lambda: optimizers.bold(optimizers.adaptive_ogd(1.0), delay=-1),
            ValueError,
            "must be >= 0",
        ),
    ],
)
def test_bad_arguments_are_named(build, error, message):
    with pytest.raises(error, match=message):
        build()
