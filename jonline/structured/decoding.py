"""Randomized decoding, as operations on distributions over outputs.

Source: arXiv:2502.18709, algorithms 1 and 2. Symbols: as in `jonline.structured.spaces.space`, and
  y*       an output next to mean(theta)
  p        probability of drawing rather than playing y*
  q        probability of exploring uniformly
"""

import jax
import jax.numpy as jnp

from jonline import checks
from jonline.core import Array, PRNGKey
from jonline.sampling import bernoulli
from jonline.structured.spaces.space import Mixture, OutputSpace


def decode(space: OutputSpace, point: Array) -> Mixture:
    """Returns the distribution of randomized decoding (phi) at a point of conv(Y).

    With p = min(1, 2 ||y* - point|| / nu): y* with probability 1 - p, else an output drawn with
    mean `point`. Two outputs as near as each other make p = 1, so ties do not matter.

    Args:
      space: the output space; nu is `space.constants.nu`.
      point: (d,) in conv(Y), as `space.mean` returns it.

    Source: arXiv:2502.18709, algorithm 1.
    """
    checks.kind("space", space, OutputSpace)
    checks.vector("point", point, space.dim)
    nearest = space.nearest(point)
    p = jnp.minimum(1.0, 2 * space.gap(nearest, point) / space.constants.nu)
    drawn = space.decompose(point)
    return Mixture(
        atoms=jnp.concatenate([nearest[None], drawn.atoms]),
        weights=jnp.concatenate([(1 - p)[None], p * drawn.weights]),
        uniform=drawn.uniform,
        units=None if drawn.units is None else p * drawn.units,
    )


def explore(mixture: Mixture, rate: float | Array) -> Mixture:
    """Returns the mixture with a share `rate` (q in [0, 1]) given to the uniform distribution.

    `explore(decode(space, point), q)` is the distribution of RDUE (psi).

    Source: arXiv:2502.18709, algorithm 2.
    """
    checks.kind("mixture", mixture, Mixture)
    checks.elementwise(rate=rate, weights=mixture.weights)
    rest = 1 - rate
    units = None if mixture.units is None else rest * mixture.units
    uniform = rate + rest * mixture.uniform
    return Mixture(mixture.atoms, rest * mixture.weights, uniform, units)


def sample(space: OutputSpace, mixture: Mixture, key: PRNGKey) -> Array:
    """Returns an output (d,) drawn from the mixture; NaN where a weight is."""
    _check(space, mixture)
    checks.key("key", key)
    k_words, k_uniform = jax.random.split(key)
    words = jax.random.bits(k_words, (2,), jnp.uint32)
    num_atoms, units = len(mixture.weights), mixture.units
    weights = mixture.weights if units is None else jnp.concatenate([mixture.weights, units])
    below = jnp.cumsum(weights)
    total = below[-1]
    last = jnp.nextafter(total, jnp.zeros_like(total))  # so that no atom of weight 0 is drawn
    place = jnp.minimum(words[1].astype(total.dtype) * 2.0**-32 * total, last)
    index = jnp.sum(below <= place, dtype=jnp.int32)
    here = jnp.arange(num_atoms, dtype=jnp.int32) == index
    drawn = jnp.sum(jnp.where(here[:, None], mixture.atoms, 0.0), axis=0)
    if units is not None:
        here = jnp.arange(len(units), dtype=jnp.int32) == index - num_atoms
        drawn = drawn + here.astype(drawn.dtype)
    uniform = jnp.asarray(mixture.uniform, total.dtype)
    output = jnp.where(bernoulli(words[0], uniform), space.draw_uniform(k_uniform), drawn)
    return jnp.where(total >= 0, output, total)


def prob(space: OutputSpace, mixture: Mixture, output: Array) -> Array:
    """Returns the probability of an output: p(y) = uniform / K + sum of the weights at y."""
    _check(space, mixture)
    checks.vector("output", output, space.dim)
    equal = jnp.sum(jnp.abs(mixture.atoms - output[None]), axis=-1) < 0.5
    drawn = jnp.sum(jnp.where(equal, mixture.weights, 0.0))
    if mixture.units is not None:
        rest = jnp.sum(jnp.abs(output)) - jnp.abs(output)
        equal = rest + jnp.abs(output - 1) < 0.5
        drawn = drawn + jnp.sum(jnp.where(equal, mixture.units, 0.0))
    return drawn + mixture.uniform / space.size


def expected_output(space: OutputSpace, mixture: Mixture) -> Array:
    """Returns the mean (d,) of the mixture."""
    _check(space, mixture)
    drawn = jnp.sum(mixture.weights[:, None] * mixture.atoms, axis=0)
    drawn = drawn if mixture.units is None else drawn + mixture.units
    return drawn + mixture.uniform * jnp.asarray(space.uniform_mean, drawn.dtype)


def second_moment(space: OutputSpace, mixture: Mixture) -> Array:
    """Returns P = E[y y^T], (d, d), under the mixture."""
    _check(space, mixture)
    drawn = (mixture.atoms * mixture.weights[:, None]).T @ mixture.atoms
    drawn = drawn if mixture.units is None else drawn + jnp.diag(mixture.units)
    return drawn + mixture.uniform * jnp.asarray(space.uniform_second_moment, drawn.dtype)


def _check(space: OutputSpace, mixture: Mixture) -> None:
    checks.kind("space", space, OutputSpace)
    checks.kind("mixture", mixture, Mixture)
