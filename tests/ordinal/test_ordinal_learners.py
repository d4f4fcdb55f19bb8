"""What holds for every learner of the family alike."""

import jax
import jax.numpy as jnp
import pytest

from jonline import hypotheses, oracles, ordinal


def _learners():
    hypothesis = hypotheses.linear(3)
    label = oracles.label()
    return {
        "dford": (ordinal.dford(hypothesis, 4, reg=0.1, explore=0.5), oracles.directional()),
        "clipped": (
            ordinal.dford(hypothesis, 4, reg=0.1, explore=0.5, clip=2.0, init="random"),
            oracles.directional(),
        ),
        "prank": (ordinal.prank(hypothesis, 4), label),
        "regularised prank": (ordinal.prank(hypothesis, 4, reg=0.1), label),
        "pril": (ordinal.pril(hypothesis, 4), oracles.interval(4)),
        "regularised pril": (ordinal.pril(hypothesis, 4, reg=0.1), oracles.interval(4)),
    }


def _round(learner, oracle):
    def one(state, x, y, key):
        prediction = learner.predict(state, x, key)
        return learner.update(state, x, prediction, oracle(y, prediction, key), key)

    return one


@pytest.mark.parametrize("name", list(_learners()))
@pytest.mark.parametrize("x64", [False, True])
def test_update_keeps_shapes_and_types(name, x64):
    with jax.enable_x64(x64):
        learner, oracle = _learners()[name]
        key = jax.random.key(0)
        before = learner.init(key)
        after = jax.eval_shape(_round(learner, oracle), before, jnp.ones(3), jnp.int32(2), key)
        for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
            assert (old.shape, old.dtype) == (new.shape, new.dtype)
            assert not new.weak_type
        assert before.thresholds.dtype == (jnp.float64 if x64 else jnp.float32)
        assert before.round.dtype == jnp.int32
        prediction = learner.predict(before, jnp.ones(3), key)
        assert prediction.output.dtype == jnp.int32
        # Another kind of float for the data changes nothing.
        after = jax.eval_shape(
            _round(learner, oracle), before, jnp.ones(3, jnp.float32), jnp.int32(2), key
        )
        assert after.f.dtype == before.f.dtype


@pytest.mark.parametrize("name", list(_learners()))
def test_a_round_is_elementwise_operations_and_reductions(name):
    learner, oracle = _learners()[name]
    key = jax.random.key(0)
    arguments = (learner.init(key), jnp.ones(3), jnp.int32(2), key)
    text = str(jax.make_jaxpr(_round(learner, oracle))(*arguments))
    assert "reduce_sum" in text
    for primitive in ("dot_general", "gather", "scatter", "sort", "cumsum", "dynamic_slice"):
        assert f" {primitive}[" not in text
    keys = jax.random.split(key, 16)
    lanes = jax.vmap(_round(learner, oracle), (0, None, None, 0))
    compiled = jax.jit(lanes).lower(jax.vmap(learner.init)(keys), *arguments[1:3], keys).compile()
    assert "rsqrt" not in compiled.as_text()
