"""Checks of streams and oracles."""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jonline.core import Oracle, Stream
from jonline.testing.rules import holds, rule


def check_stream(stream: Stream, num_features: int, num_rounds: int = 64) -> None:
    """Raises AssertionError unless rounds are the same in any order, alone or in vectors.

    A stream may show the same example in all rounds. Whole numbers must be equal; floating ones may
    differ by the rounding of vector instructions.

    Args:
      stream: the stream.
      num_features: n of its x (n,).
      num_rounds: how many of its rounds are drawn.
    """
    rounds = np.arange(num_rounds)
    shuffled = np.random.default_rng(0).permutation(num_rounds)
    with rule(
        "a stream draws round t from its source and t alone, traced or not",
        "return an Example; make what is random from a key in the source, folded with t; no NumPy",
    ):
        source = stream.init(jax.random.key(3))
        in_order = jax.jit(jax.vmap(lambda t: stream.draw(source, t)))(rounds)
        out_of_order = jax.jit(lambda t: jax.lax.map(lambda i: stream.draw(source, i), t))(shuffled)
        in_same_order = jax.tree.map(lambda leaf: leaf[shuffled], in_order)
        chex.assert_trees_all_close(in_same_order.x, out_of_order.x, rtol=1e-5, atol=1e-6)
        chex.assert_trees_all_equal(in_same_order.y, out_of_order.y)
    with rule("each key is used once", "k_one, k_two = jax.random.split(key)"):
        with jax.debug_key_reuse(True):
            jax.jit(lambda k: stream.draw(stream.init(k), jnp.int32(1)))(jax.random.key(3))
    with rule(f"x is ({num_features},) finite numbers in every round", "see x of the first round"):
        chex.assert_shape(in_order.x, (num_rounds, num_features))
        holds(np.isfinite(in_order.x).all(), f"x is not finite in {in_order.x}")
    with rule(
        "another run's key shows other rounds", "use the key that init gets, in the source or draw"
    ):
        source = stream.init(jax.random.key(4))
        other = jax.jit(jax.vmap(lambda t: stream.draw(source, t)))(rounds)
        holds(not np.array_equal(in_order.x, other.x), "the same x for two keys")


def check_oracle(oracle: Oracle, label: Any, prediction: Any) -> None:
    """Raises AssertionError unless the oracle is pure and reads `output` and `ask` alone.

    Args:
      oracle: the oracle.
      label: y, as a stream shows it.
      prediction: a learner's.
    """
    key = jax.random.key(5)
    with rule(
        "an oracle is a pure function of label, prediction and key",
        "make all that is random of the key; jnp.where for what depends on the label",
    ):
        answer = oracle(label, prediction, key)
        keys = jax.random.split(key, 32)
        first, second = (
            jax.jit(jax.vmap(lambda k, again=again: oracle(label, prediction, k)))(keys)
            for again in range(2)  # traced twice
        )
        chex.assert_trees_all_equal(first, second)
        chex.assert_trees_all_equal(answer, jax.jit(lambda k: oracle(label, prediction, k))(key))
    with rule("each key is used once", "k_one, k_two = jax.random.split(key)"):
        with jax.debug_key_reuse(True):
            jax.jit(lambda k: oracle(label, prediction, k))(jax.random.key(6))
    bare = _Bare(prediction.output, getattr(prediction, "ask", jnp.asarray(True)))
    with rule(
        "an oracle reads `output` and `ask` of a prediction alone",
        "what else a learner needs of its prediction it gets back with `update`",
    ):
        chex.assert_trees_all_equal(answer, oracle(label, bare, key))
    with rule(
        "an answer without a value is zero throughout",
        "oracles.missing(oracle, ...) makes empty answers of any oracle",
    ):
        if not np.any(getattr(answer, "observed", True)):
            holds(not any(map(np.any, jax.tree.leaves(answer))), f"{answer}")


class _Bare(NamedTuple):
    output: Any
    ask: Any
