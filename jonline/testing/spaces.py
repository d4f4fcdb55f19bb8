"""Checks of output spaces, by all their outputs."""

import functools
from typing import Any

import jax
import numpy as np

from jonline.structured import OutputSpace, theory
from jonline.testing.rules import at_most, holds, rule
from jonline.testing.space_measures import NUM_DRAWS, measure, some_scores


def check_space(space: OutputSpace, outputs: Any) -> None:
    """Raises AssertionError unless the space is what `OutputSpace` and the theory say.

    All expectations are sums over the outputs, for scores of many sizes and with ties.

    Args:
      space: an output space.
      outputs: (K, d), every output once.
    """
    outputs = np.asarray(outputs, np.float64)
    with rule("outputs are (size, dim), every output once", "size is K, dim is d"):
        holds(outputs.shape == (space.size, space.dim), f"{outputs.shape}, {space.size} outputs")
    with rule(
        "`encode` makes vertices of labels and names the row of one that is none",
        "structured.spaces.space.checked_vertices does most of it",
    ):
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
    with rule(
        "outputs are drawn as often as they should",
        "`decompose` has the weights of its atoms, `draw_uniform` 1/K for each output",
    ):
        _check_draws(outputs, seen)


_LOSS = "the target loss is its SELF, in [0, 1], 0 for equals; gamma, nu, kappa are right"
_MIXTURES = "means lie in the hull, and mixtures are those of algorithms 1 and 2 of the paper"
_SURROGATE = "S is a Fenchel-Young loss of a strongly convex function, affine in the output"
_LEMMAS = "lemmas 2.4 and 3.1 hold: the expected loss is at most its bound by the surrogate"
_ESTIMATES = "estimates are unbiased, with second moments as the theory says"


_close = functools.partial(np.testing.assert_allclose, rtol=0)


def _check_encode(space, outputs):
    vertices = space.encode(outputs.astype(int))
    np.testing.assert_array_equal(vertices, outputs)
    holds(vertices.dtype == np.float32, f"vertices of {vertices.dtype}, not of float32")
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
    at_most(np.abs(seen["target"][same]), tol, "target(y, y) = 0")
    holds(np.all(seen["target"][~same] > 0.01), "target(y, y') = 0 for outputs that differ")
    at_most(seen["target"], 1 + tol, "target <= 1")
    at_most(np.abs(seen["distance"][same]), tol, "gap(y, y) = 0")
    _close(seen["distance"][~same].min(), constants.nu, atol=4 * tol)
    euclidean = np.linalg.norm(outputs[:, None] - outputs, axis=-1)
    at_most(euclidean, constants.kappa * seen["distance"] + tol, "L2 distance <= kappa gap")
    at_most(seen["target"], constants.gamma * seen["distance"] + tol, "target <= gamma gap")
    at_most(seen["to_mean"], constants.gamma * seen["gap"] + tol, "target of means <= gamma gap")
    at_most(-tol, seen["to_mean"], "target of means >= 0")
    at_most(seen["to_mean"], 1 + tol, "target of means <= 1")
    _close(seen["half_gap"], seen["gap"] / 2, atol=tol)
    corners = seen["target_corners"] @ [1, 1, -1, -1]
    _close(corners, 0, atol=10 * tol)
    _close(space.uniform_mean, outputs.mean(axis=0), atol=1e-12)
    moment = outputs.T @ outputs / len(outputs)
    _close(space.uniform_second_moment, moment, atol=1e-12)


def _check_mean_and_mixtures(space, outputs, seen, tol):
    (atoms, weights), rate = seen["drawn"], seen["rate"][:, None]
    is_atom = np.abs(atoms[:, :, None] - outputs).sum(axis=-1) == 0
    holds(np.all(is_atom.any(axis=-1) | (weights == 0)), "an atom with weight is no output")
    at_most(0, weights, "weights >= 0")
    _close(weights.sum(axis=1), 1, atol=tol)
    _close(np.einsum("na,nad->nd", weights, atoms), seen["mean"], atol=tol)
    shares = np.einsum("na,nak->nk", weights, is_atom)  # of the outputs in the decomposition

    least = np.sort(seen["gap"], axis=1)
    nearest = np.abs(seen["nearest"][:, None] - outputs).sum(axis=-1) == 0
    holds(np.all(nearest.sum(axis=1) == 1), "what `nearest` returns is no output")
    _close(np.sum(seen["gap"] * nearest, axis=1), least[:, 0], atol=tol)
    # a tie makes p = 1
    at_most(space.constants.nu - tol, least[:, 0] + least[:, 1], "two least gaps >= nu together")
    p = np.minimum(1, 2 * least[:, :1] / space.constants.nu)
    phi = (1 - p) * nearest + p * shares
    psi = (1 - rate) * phi + rate / space.size
    _close(seen["decoded"], phi, atol=4 * tol)
    _close(seen["prob"], psi, atol=4 * tol)
    _close(seen["prob"].sum(axis=1), 1, atol=tol)
    at_most(rate / space.size * (1 - tol), seen["prob"], "prob >= explore / K")
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
    at_most(-tol * size, S, "S >= 0")
    at_most(S[-1, -1], tol * size[-1], "S = 0 where y is the mean")
    gained = np.einsum("ijd,ijd->ij", *(v[:, None] - v for v in (seen["mean"], scores)))
    convexity = constants.strong_convexity
    strongly = "lambda gap(means)^2 <= <means apart, scores apart>"
    at_most(convexity * seen["mean_gap"] ** 2, gained + tol * size, strongly)
    at_most(convexity / 2 * seen["gap"] ** 2, S + tol * size, "lambda / 2 gap(y, mean)^2 <= S")
    _close(seen["gradient"], residual, atol=tol)
    b = theory.smoothness(constants, 1.0)
    at_most(np.sum(residual**2, axis=-1), b * (S + tol * size), "||mean - y||^2 <= b S")
    corners = seen["surrogate"][:, len(outputs) : len(outputs) + 4] @ [1, 1, -1, -1]
    at_most(np.abs(corners), 10 * space.dim * tol * size[:, 0], "S affine in y")


def _check_lemmas(space, outputs, seen, slack):
    decoded, explored = seen["decoded"] @ seen["target"], seen["prob"] @ seen["target"]
    bound = 1 - theory.margin(space.constants)
    S, rate, slack = seen["surrogate"][:, : len(outputs)], seen["rate"][:, None], slack[:, None]
    at_most(decoded, bound * S + slack, "lemma 2.4")
    uniform = rate * (1 - 1 / space.size)
    at_most(explored, bound * (1 - rate) * S + uniform + slack, "lemma 3.1")


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
    most = b * space.size / rate[:, None] * S * (1 + 10 * tol)
    at_most(variance["inverse_weighted"], most, "second moment of section 3.3")
    most = (2 * b * S + 2 * omega / rate[:, None]) * (1 + 10 * tol)
    at_most(variance["pseudo_inverse"], most, "second moment of lemma D.7")
    square = np.sum(seen["estimates"]["pseudo_inverse"].label ** 2, axis=-1)
    square = np.einsum("nk,nky->ny", p, square) * rate[:, None]
    at_most(square, omega * (1 + 10 * tol), "E ||label||^2 explore <= omega, lemma D.6")
    # A^+ of the theory, from its definition
    expected = rows @ np.linalg.pinv(rows.T @ rows / space.size, rcond=1e-6)
    _close(seen["dual"] - expected, 0, atol=10 * tol * np.abs(expected).max())


def _check_draws(outputs, seen):
    for draws, share in (("uniform_draws", np.full(len(outputs), 1 / len(outputs))),
                         ("draws", seen["prob"][6])):  # fmt: skip
        equal = np.abs(seen[draws][:, None] - outputs).sum(axis=-1) == 0
        holds(np.all(equal.sum(axis=1) == 1), f"of {draws} one is no output")
        five_errors = 5 * np.sqrt(share * np.maximum(1 - share, 0) / NUM_DRAWS)
        off = np.abs(equal.mean(axis=0) - share)
        at_most(off, five_errors + 1e-6, f"frequencies of {draws} within five errors")
