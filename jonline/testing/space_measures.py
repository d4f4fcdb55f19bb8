"""What the checks of output spaces look at, for many scores and all outputs."""

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
)
from jonline.structured.spaces.space import all_atoms

NUM_DRAWS = 4000


class Prediction(NamedTuple):
    """What an oracle and an estimator read."""

    output: Any
    mean: Any
    aux: Any


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
            drawn=all_atoms(space.decompose(mean)),
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
