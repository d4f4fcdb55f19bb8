"""Checks of output spaces, by all their outputs."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jonline import oracles
from jonline.structured import (
    OutputSpace,
    decode,
    expected_output,
    explore,
    inverse_weighted,
    prob,
    pseudo_inverse,
    sample,
    second_moment,
    semi_bandit,
    theory,
)
from jonline.testing.rules import at_most, holds, rule

NUM_DRAWS = 4000


class Prediction(NamedTuple):
    """What an oracle and an estimator read."""

    output: Any
    mean: Any
    aux: Any


def check_space(space: OutputSpace, outputs: Any) -> None:
    """Raises AssertionError unless the space is what `OutputSpace` and the theory say.

    All expectations are sums over the outputs, for scores of many sizes and with ties.

    Args:
      space: an output space.
      outputs: (K, d), every output once.
    """
    outputs = np.asarray(outputs, np.float64)
    with rule("outputs are (size, dim), every output once", "see `OutputSpace`"):
        holds(outputs.shape == (space.size, space.dim), f"{outputs.shape}, {space.size} outputs")
    with rule("`encode` makes vertices of labels and names the row of one that is none", "see it"):
        _check_encode(space, outputs)
    scores = some_scores(space, outputs)
    # eps = 1e-16 and 6e-8, times some hundred roundings; what grows with the scores or with K / q
    # is measured by that
    for x64, tol in ((True, 1e-12), (False, 1e-5)):
        with rule(
            "all functions compile, and give finite numbers of the dtype that they are given",
            "no float64 literals; dtypes from the scores; guard divisions by jnp.where",
        ):
            seen = measure(space, outputs, scores, x64)
            kinds = {leaf.dtype.type for leaf in jax.tree.leaves(seen)}
            allowed = {np.float64 if x64 else np.float32, np.bool_}  # whether it is of an answer
            holds(kinds == allowed, f"dtypes {kinds}")
            holds(all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(seen)), "NaN or infinite")
        seen = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), seen)
        slack = tol * (1 + np.abs(scores).max(axis=1))
        with rule(_LOSS, "compute gamma, nu, kappa and the parts of the SELF from the definitions"):
            _check_loss_and_norm(space, outputs, seen, tol)
        with rule(_MIXTURES, "`decompose` writes the mean as a mixture of vertices, and no other"):
            _check_mean_and_mixtures(space, outputs, seen, tol)
        with rule(
            _SURROGATE,
            "S = Omega*(theta) + Omega(y) - <theta, y>, its mean grad Omega*; or strong_convexity",
        ):
            _check_surrogate(space, outputs, scores, seen, tol)
        with rule(_LEMMAS, "strong_convexity, gamma and nu must belong to one norm"):
            _check_lemmas(space, outputs, seen, slack)
        with rule(_ESTIMATES, "omega, b and `dual` come from the uniform second moment"):
            _check_estimates(space, outputs, scores, seen, tol)
    with rule("`sample` and `draw_uniform` draw outputs as often as they should", "see them"):
        _check_draws(outputs, seen)


_LOSS = "the target loss is its SELF, in [0, 1], 0 for equals; gamma, nu, kappa are right"
_MIXTURES = "means lie in the hull, and mixtures are those of algorithms 1 and 2 of the paper"
_SURROGATE = "S is a Fenchel-Young loss of a strongly convex function, affine in the output"
_LEMMAS = "lemmas 2.4 and 3.1 hold: the expected loss is at most its bound by the surrogate"
_ESTIMATES = "estimates are unbiased, with second moments as the theory says"


def some_scores(space: OutputSpace, outputs: np.ndarray) -> np.ndarray:
    """Returns scores (N, d): random ones of four sizes, ties, near an output, and large ones."""
    rng = np.random.default_rng(0)
    random = [scale * rng.normal(size=(6, space.dim)) for scale in (0.1, 0.5, 2.0, 10.0)]
    near = [y + share * (space.uniform_mean - y) for share in (0.1, 0.9) for y in outputs[:2]]
    between = [(outputs[0] + outputs[-1]) / 2, 3 * (outputs[0] + outputs[1])]
    constant = [np.zeros(space.dim), np.full(space.dim, 0.5), np.full(space.dim, 50.0)]
    return np.concatenate([*random, near, between, constant, [100.0 * outputs[-1]]])


def measure(space: OutputSpace, outputs: np.ndarray, scores: np.ndarray, x64: bool) -> Any:
    """Returns all that the checks look at, by score and output, as one compiled program has it."""
    rates = np.resize([1.0, 0.5, 0.1, 0.02], len(scores))
    points = np.random.default_rng(1).normal(size=(len(scores), 2, space.dim))
    with jax.enable_x64(x64):
        dtype = jnp.float64 if x64 else jnp.float32
        arrays = [jnp.asarray(array, dtype) for array in (outputs, scores, rates, points)]
        return jax.tree.map(
            np.asarray, jax.jit(_measured, static_argnums=0)(_Static(space), *arrays)
        )


class _Static:
    """A space as a static argument: NumPy arrays in it cannot be hashed."""

    def __init__(self, space):
        self.space = space


def _measured(static, outputs, scores, rates, points):
    space, key = static.space, jax.random.key(0)
    on_all = lambda function: jax.vmap(function)(outputs)  # noqa: E731
    on_pairs = lambda function: on_all(lambda first: on_all(lambda y: function(first, y)))  # noqa: E731
    loss, in_span = oracles.loss(space.target), outputs[0] - outputs[-1] / 2
    estimators = {
        "inverse_weighted": (inverse_weighted(space), oracles.mismatch()),
        "pseudo_inverse": (pseudo_inverse(space), loss),
        "around uniform": (pseudo_inverse(space, origin=space.uniform_mean), loss),
        "around a point": (pseudo_inverse(space, origin=in_span), loss),
        "semi_bandit": (semi_bandit(space), oracles.coordinates()),
    }

    def of_score(theta, rate, pair):
        mean = space.mean(theta)
        decoded = decode(space, mean)
        mixture = explore(decoded, rate)
        all_uniform = explore(decoded, 1.0)

        def estimate(estimator, oracle, output, y):
            prediction = Prediction(output, mean, estimator.prepare(mixture, output))
            return estimator.estimate(prediction, oracle(y, prediction, key))

        estimates = {
            name: on_pairs(functools.partial(estimate, *how)) for name, how in estimators.items()
        }
        at = [estimates[name].label.reshape(-1, space.dim) for name in sorted(estimates)]
        at = jnp.concatenate([outputs, _corners(pair), *at])
        surrogate, gradient = jax.vmap(lambda y: jax.value_and_grad(space.surrogate)(theta, y))(at)
        return dict(
            rate=rate,
            mean=mean,
            nearest=space.nearest(mean),
            drawn=space.decompose(mean)._replace(uniform=0 * rate),
            mixture=mixture,
            decoded=on_all(lambda y: prob(space, decoded, y)),
            prob=on_all(lambda y: prob(space, mixture, y)),
            all_uniform=on_all(lambda y: prob(space, all_uniform, y)),
            expected=expected_output(space, mixture),
            second_moment=second_moment(space, mixture),
            gap=on_all(lambda y: space.gap(y, mean)),
            half_gap=on_all(lambda y: space.gap(y, (y + mean) / 2)),
            to_mean=on_all(lambda y: space.target(mean, y)),
            target_corners=on_all(lambda y: jax.vmap(space.target, (0, None))(_corners(pair), y)),
            estimates=estimates,
            surrogate=surrogate,
            gradient=gradient[: len(outputs)],
            dual=on_all(lambda y: space.dual(all_uniform, y)),
        )

    seen = jax.vmap(of_score)(scores, rates, points)
    means = seen["mean"]
    seen["mean_gap"] = jax.vmap(lambda m: jax.vmap(lambda n: space.gap(m, n))(means))(means)
    seen["target"], seen["distance"] = on_pairs(space.target), on_pairs(space.gap)
    keys = jax.random.split(key, NUM_DRAWS)
    mixture = jax.tree.map(lambda leaf: leaf[6], seen.pop("mixture"))  # 6: explores at 0.1
    seen["draws"] = jax.vmap(lambda k: sample(space, mixture, k))(keys)
    seen["uniform_draws"] = jax.vmap(space.draw_uniform)(keys)
    return seen


def _corners(pair):
    """Where a function f must have f_0 + f_1 = f_2 + f_3 if it is affine."""
    return jnp.stack([pair[0] + pair[1], 0 * pair[0], pair[0], pair[1]])


_close = functools.partial(np.testing.assert_allclose, rtol=0)


def _check_encode(space, outputs):
    vertices = space.encode(outputs.astype(int))
    np.testing.assert_array_equal(vertices, outputs)
    holds(vertices.dtype == np.float32, "not vertices.dtype == np.float32")
    bad = outputs.copy()
    bad[1] = 0.5
    longer = np.concatenate([outputs, outputs[:, :1]], axis=1)
    for wrong, said in ((bad, "in row 1"), (longer, "(N, ")):
        try:
            space.encode(wrong)
            message = "no error"
        except ValueError as error:
            message = str(error)
        holds(said in message, f"{message!r} does not say {said!r}")


def _check_loss_and_norm(space, outputs, seen, tol):
    loss, constants = space.loss, space.constants
    same = np.eye(len(outputs), dtype=bool)
    bilinear = outputs @ loss.bilinear @ outputs.T + (outputs @ loss.on_output)[:, None]
    _close(seen["target"], bilinear + outputs @ loss.on_label + loss.constant, atol=tol)
    holds(
        np.all(np.abs(seen["target"][same]) <= tol) and np.all(seen["target"][~same] > 0.01),
        "not np.all(np.abs(seen['target'][same]) <= tol) and np.all(seen['target'][~same] > 0.01)",
    )
    at_most(seen["target"], 1 + tol, "seen['target'] <= 1 + tol")
    at_most(np.abs(seen["distance"][same]), tol, "np.abs(seen['distance'][same]) <= tol")
    _close(seen["distance"][~same].min(), constants.nu, atol=4 * tol)
    euclidean = np.linalg.norm(outputs[:, None] - outputs, axis=-1)
    at_most(
        euclidean,
        constants.kappa * seen["distance"] + tol,
        "euclidean <= constants.kappa * seen['distance'] + tol",
    )
    at_most(
        seen["target"],
        constants.gamma * seen["distance"] + tol,
        "seen['target'] <= constants.gamma * seen['distance'] + tol",
    )
    at_most(
        seen["to_mean"],
        constants.gamma * seen["gap"] + tol,
        "seen['to_mean'] <= constants.gamma * seen['gap'] + tol",
    )
    holds(
        np.all((seen["to_mean"] >= -tol) & (seen["to_mean"] <= 1 + tol)),
        "not np.all((seen['to_mean'] >= -tol) & (seen['to_mean'] <= 1 + tol))",
    )
    _close(seen["half_gap"], seen["gap"] / 2, atol=tol)
    corners = seen["target_corners"] @ [1, 1, -1, -1]
    _close(corners, 0, atol=10 * tol)
    _close(space.uniform_mean, outputs.mean(axis=0), atol=1e-12)
    moment = outputs.T @ outputs / len(outputs)
    _close(space.uniform_second_moment, moment, atol=1e-12)


def _check_mean_and_mixtures(space, outputs, seen, tol):
    weights, atoms, rate = seen["drawn"].weights, seen["drawn"].atoms, seen["rate"][:, None]
    is_atom = np.abs(atoms[:, :, None] - outputs).sum(axis=-1) == 0
    holds(
        np.all(is_atom.any(axis=-1) | (weights == 0)),
        "not np.all(is_atom.any(axis=-1) | (weights == 0))",
    )
    at_most(0, weights, "0 <= weights")
    _close(weights.sum(axis=1), 1, atol=tol)
    _close(np.einsum("na,nad->nd", weights, atoms), seen["mean"], atol=tol)
    shares = np.einsum("na,nak->nk", weights, is_atom)  # of the outputs in the decomposition

    least = np.sort(seen["gap"], axis=1)
    nearest = np.abs(seen["nearest"][:, None] - outputs).sum(axis=-1) == 0
    holds(np.all(nearest.sum(axis=1) == 1), "not np.all(nearest.sum(axis=1) == 1)")
    _close(np.sum(seen["gap"] * nearest, axis=1), least[:, 0], atol=tol)
    at_most(
        space.constants.nu - tol,
        least[:, 0] + least[:, 1],
        "space.constants.nu - tol <= least[:, 0] + least[:, 1]",
    )  # a tie makes p = 1
    p = np.minimum(1, 2 * least[:, :1] / space.constants.nu)
    phi = (1 - p) * nearest + p * shares
    psi = (1 - rate) * phi + rate / space.size
    _close(seen["decoded"], phi, atol=4 * tol)
    _close(seen["prob"], psi, atol=4 * tol)
    _close(seen["prob"].sum(axis=1), 1, atol=tol)
    at_most(
        rate / space.size * (1 - tol), seen["prob"], "rate / space.size * (1 - tol) <= seen['prob']"
    )
    _close(seen["all_uniform"], 1 / space.size, atol=tol)
    center = (1 - rate) * ((1 - p) * seen["nearest"] + p * seen["mean"])
    center = center + rate * outputs.mean(axis=0)
    _close(seen["expected"], center, atol=4 * tol)
    moment = np.einsum("nk,ki,kj->nij", seen["prob"], outputs, outputs)
    _close(seen["second_moment"], moment, atol=tol)


def _check_surrogate(space, outputs, scores, seen, tol):
    constants = space.constants
    size = 1 + np.abs(scores).max(axis=1, keepdims=True)  # S is a difference of numbers like these
    S, residual = seen["surrogate"][:, : len(outputs)], seen["mean"][:, None] - outputs
    holds(
        np.all(S >= -tol * size) and S[-1, -1] <= tol * size[-1],
        "not np.all(S >= -tol * size) and S[-1, -1] <= tol * size[-1]",
    )  # 0 where y is the mean
    gained = np.einsum("ijd,ijd->ij", *(v[:, None] - v for v in (seen["mean"], scores)))
    at_most(
        constants.strong_convexity * seen["mean_gap"] ** 2,
        gained + tol * size,
        "constants.strong_convexity * seen['mean_gap'] ** 2 <= gained + tol * size",
    )
    at_most(
        constants.strong_convexity / 2 * seen["gap"] ** 2,
        S + tol * size,
        "constants.strong_convexity / 2 * seen['gap'] ** 2 <= S + tol * size",
    )
    _close(seen["gradient"], residual, atol=tol)
    b = theory.smoothness(constants, 1.0)
    at_most(
        np.sum(residual**2, axis=-1),
        b * (S + tol * size),
        "np.sum(residual**2, axis=-1) <= b * (S + tol * size)",
    )
    corners = seen["surrogate"][:, len(outputs) : len(outputs) + 4] @ [1, 1, -1, -1]
    at_most(
        np.abs(corners),
        10 * space.dim * tol * size[:, 0],
        "np.abs(corners) <= 10 * space.dim * tol * size[:, 0]",
    )


def _check_lemmas(space, outputs, seen, slack):
    decoded, explored = seen["decoded"] @ seen["target"], seen["prob"] @ seen["target"]
    bound = 1 - theory.margin(space.constants)
    S, rate, slack = seen["surrogate"][:, : len(outputs)], seen["rate"][:, None], slack[:, None]
    at_most(decoded, bound * S + slack, "decoded <= bound * S + slack")  # lemma 2.4
    uniform = rate * (1 - 1 / space.size)
    at_most(
        explored,
        bound * (1 - rate) * S + uniform + slack,
        "explored <= bound * (1 - rate) * S + uniform + slack",
    )  # lemma 3.1


def _check_estimates(space, outputs, scores, seen, tol):
    size = 1 + np.abs(scores).max(axis=1)
    p, rate, omega = seen["prob"], seen["rate"], space.constants.omega
    slack = tol * space.size / rate  # largest estimates are like K / q
    at_labels = seen["surrogate"][:, len(outputs) + 4 :].reshape(len(p), -1, *seen["target"].shape)
    for i, (name, estimate) in enumerate(sorted(seen["estimates"].items())):
        residual = seen["mean"][:, None, None] - estimate.label
        error = np.einsum("nk,nky,nkyi->nyi", p, estimate.weight, residual)
        error = error - (seen["mean"][:, None] - outputs)
        at_most(np.abs(error), slack[:, None, None], f"bias of the gradient of {name} <= slack")
        error = np.einsum("nk,nky,nky->ny", p, estimate.weight, at_labels[:, i])
        error = error - seen["surrogate"][:, : len(outputs)]
        at_most(np.abs(error), (slack * size)[:, None], f"bias of the loss of {name} <= slack")
    rows = outputs @ space.loss.bilinear + space.loss.on_label
    S = seen["surrogate"][:, : len(outputs)] + (tol * size)[:, None]
    b = theory.smoothness(space.constants, 1.0)
    variance = {  # E ||gradient||^2
        name: np.einsum(
            "nk,nky,nkyi->ny",
            p,
            seen["estimates"][name].weight ** 2,
            (seen["mean"][:, None, None] - seen["estimates"][name].label) ** 2,
        )
        for name in ("inverse_weighted", "pseudo_inverse")
    }
    most = b * space.size / rate[:, None] * S  # section 3.3
    at_most(
        variance["inverse_weighted"],
        most * (1 + 10 * tol),
        "variance['inverse_weighted'] <= most * (1 + 10 * tol)",
    )
    most = 2 * b * S + 2 * omega / rate[:, None]  # lemma D.7
    at_most(
        variance["pseudo_inverse"],
        most * (1 + 10 * tol),
        "variance['pseudo_inverse'] <= most * (1 + 10 * tol)",
    )
    square = np.sum(seen["estimates"]["pseudo_inverse"].label ** 2, axis=-1)
    square = np.einsum("nk,nky->ny", p, square) * rate[:, None]
    at_most(square, omega * (1 + 10 * tol), "square <= omega * (1 + 10 * tol)")  # lemma D.6
    # A^+ of the theory, from its definition
    expected = rows @ np.linalg.pinv(rows.T @ rows / space.size, rcond=1e-6)
    _close(seen["dual"] - expected, 0, atol=10 * tol * np.abs(expected).max())


def _check_draws(outputs, seen):
    for draws, share in (("uniform_draws", np.full(len(outputs), 1 / len(outputs))),
                         ("draws", seen["prob"][6])):  # fmt: skip
        equal = np.abs(seen[draws][:, None] - outputs).sum(axis=-1) == 0
        holds(np.all(equal.sum(axis=1) == 1), "not np.all(equal.sum(axis=1) == 1)")
        five_errors = 5 * np.sqrt(share * np.maximum(1 - share, 0) / NUM_DRAWS)
        at_most(
            np.abs(equal.mean(axis=0) - share),
            five_errors + 1e-6,
            "np.abs(equal.mean(axis=0) - share) <= five_errors + 1e-6",
        )
