"""Streams with structured labels. Round t depends on the run's key and t alone."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jonline import checks
from jonline.core import Array, Example, PRNGKey, Round, Stream
from jonline.sampling import bernoulli, uniform_index


class Prototypes(NamedTuple):
    """What `van_der_hoeven` fixes for a run.

    Attributes:
      key: key of the draws.
      vectors: (K, 10 n') of 0 and 1, no two rows equal.
    """

    key: PRNGKey
    vectors: Array


class Utilities(NamedTuple):
    """What `plackett_luce` fixes for a run: key of the draws, and weights (m, n) of the items."""

    key: PRNGKey
    weights: Array


def van_der_hoeven(num_classes: int, scale: int, *, noise: float | Array = 0.0) -> Stream:
    """Returns the synthetic multiclass stream of van der Hoeven et al.

        x = (prototype of c, bits),   c ~ U{1…K},   y = e_c; with probability r, y = e_c', c' ~ U.

    Of a prototype's 10 n' entries s ~ U{n'…5n'} are 1, drawn anew until the prototype is none of
    the earlier ones. Of the 30 n' bits, which say nothing of the label, exactly 5 n' are 1. So
    6 n' <= ||x||^2 <= 10 n'.

    Args:
      num_classes: K ≥ 2, static, at most the number of such prototypes (637 for n' = 1).
      scale: n' ≥ 1, static.
      noise: r in [0, 1], the probability that the label is drawn anew (it may stay); may be traced.

    Returns:
      A Stream of x (40 n',) of 0 and 1, and y (K,), a unit vector. Its source is `Prototypes`.

    Raises:
      TypeError: if K or n' is no static int.
      ValueError: if K < 2, n' < 1, a concrete noise is outside [0, 1], or there are fewer than K
        prototypes.

    Source: arXiv:2502.18709, appendix H.1.2, with n' in {2, 4} and r in {0, 0.1}.
    """
    num_classes = checks.at_least("num_classes", num_classes, 2)
    scale = checks.at_least("scale", scale, 1)
    checks.probability("noise", noise)
    noise = checks.own(noise)
    size, most = 10 * scale, 5 * scale
    num_vectors = sum(math.comb(size, s) for s in range(scale, most + 1))
    rule = f"be at most {num_vectors}, the number of prototypes at scale={scale}"
    checks.require(num_classes <= num_vectors, "num_classes", rule, num_classes)
    classes = jnp.arange(num_classes, dtype=jnp.int32)

    def candidate(key: PRNGKey) -> Array:
        words = jax.random.bits(key, (1 + size,), jnp.uint32)
        return _choose(words[1:], scale + uniform_index(words[0], most - scale + 1)).astype(float)

    def init(key: PRNGKey) -> Prototypes:
        k_vectors, k_draws = jax.random.split(key)

        def add(carry):
            vectors, found, num_drawn = carry
            new = candidate(jax.random.fold_in(k_vectors, num_drawn))
            known = jnp.any(
                jnp.all(vectors == new[None], axis=1)
            )  # rows not yet found are 0, new is not
            here = (classes == found) & ~known
            vectors = jnp.where(here[:, None], new[None], vectors)
            return vectors, found + jnp.where(known, 0, 1), num_drawn + 1

        begin = jnp.zeros((num_classes, size)), jnp.int32(0), jnp.int32(0)
        return Prototypes(
            k_draws, jax.lax.while_loop(lambda carry: carry[1] < num_classes, add, begin)[0]
        )

    def draw(source: Prototypes, t: Round) -> Example:
        k_label, k_bits = jax.random.split(jax.random.fold_in(source.key, t))
        words = jax.random.bits(k_label, (3,), jnp.uint32)
        c, other = uniform_index(words[0], num_classes), uniform_index(words[1], num_classes)
        label = jnp.where(bernoulli(words[2], noise), other, c)
        bits = _choose(jax.random.bits(k_bits, (30 * scale,), jnp.uint32), 5 * scale)
        x = jnp.concatenate([source.vectors[c], bits.astype(source.vectors.dtype)])
        return Example(x, (classes == label).astype(x.dtype))

    return Stream(init, draw)


def plackett_luce(num_items: int, num_features: int, *, noise: float | Array = 1.0) -> Stream:
    """Returns a stream of rankings by a linear teacher with noise of Plackett and Luce.

        v_i = <u_i, x> + noise * Gumbel,   y[i, j] = 1 where v_i is the (j+1)-th highest.

    The teacher's weights u_i ~ N(0, I_n) and the features x ~ N(0, I_n / n), so that ||x|| is about
    1 and a utility <u_i, x> about N(0, 1). At noise > 0 an item is first with probability
    softmax(<u, x> / noise)_i, and so on among those left; at noise = 0 the order is the teacher's.

    Args:
      num_items: m ≥ 2, static.
      num_features: n ≥ 1, static.
      noise: factor ≥ 0; may be traced.

    Returns:
      A Stream of x (n,) and y (m m,), the permutation matrix of items by places, row after row:
      y[m i + j] = 1 where item i has place j, the place 0 that of the highest utility. Its source
      is `Utilities`.

    Raises:
      TypeError: if m or n is no static int.
      ValueError: if m < 2, n < 1, or a concrete noise is negative.
    """
    num_items = checks.at_least("num_items", num_items, 2)
    num_features = checks.at_least("num_features", num_features, 1)
    checks.non_negative("noise", noise)
    noise = checks.own(noise)
    items = jnp.arange(num_items, dtype=jnp.int32)

    def init(key: PRNGKey) -> Utilities:
        k_weights, k_draws = jax.random.split(key)
        return Utilities(k_draws, jax.random.normal(k_weights, (num_items, num_features)))

    def draw(source: Utilities, t: Round) -> Example:
        k_x, k_noise = jax.random.split(jax.random.fold_in(source.key, t))
        x = jax.random.normal(k_x, (num_features,)) * num_features**-0.5
        # Not over the last axis: outside the engine jaxlib 0.10.2 gets that, with the noise added,
        # wrong for many rounds at once on a CPU (jax-ml/jax#39103).
        utility = jnp.sum(source.weights.T * x[:, None], axis=0)
        utility = utility + noise * jax.random.gumbel(k_noise, (num_items,))
        mine, theirs = utility[:, None], utility[None]
        before = (theirs > mine) | ((theirs == mine) & (items[None] < items[:, None]))
        place = jnp.sum(before, axis=1, dtype=jnp.int32)
        return Example(x, (place[:, None] == items[None]).astype(x.dtype).reshape(-1))

    return Stream(init, draw)


def _choose(words: Array, num_chosen: int | Array) -> Array:
    """Returns which of n places are chosen, (n,) bool, exactly `num_chosen` of them, at random.

    They are those of the smallest words. The low bits of a word, (n,) uint32, make room for its
    place, so that no two are equal; the highest word that is chosen is then found bit by bit.
    """
    n = len(words)
    width = (n - 1).bit_length()
    words = ((words >> width) << width) | jnp.arange(n, dtype=jnp.uint32)

    def one_bit(i, below):
        higher = below | (jnp.uint32(1) << jnp.asarray(31 - i, jnp.uint32))
        return jnp.where(jnp.sum(words < higher, dtype=jnp.int32) < num_chosen, higher, below)

    return words <= jax.lax.fori_loop(0, 32, one_bit, jnp.uint32(0))
