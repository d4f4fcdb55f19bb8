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
    compiled = (
        jax.jit(lanes).lower(jax.jit(jax.vmap(learner.init))(keys), *arguments[1:3], keys).compile()
    )
    assert "rsqrt" not in compiled.as_text()


@pytest.mark.parametrize("name", list(_learners()))
def test_feedback_of_another_kind_is_an_error_that_names_the_right_one(name):
    learner, own = _learners()[name]
    key = jax.random.key(0)
    state, y = learner.init(key), jnp.int32(2)
    prediction = learner.predict(state, jnp.ones(3), key)
    kind = type(own(y, prediction, key)).__name__
    for oracle in (oracles.label(), oracles.interval(4), oracles.directional()):
        answer = oracle(y, prediction, key)
        if type(answer).__name__ != kind:
            message = rf" reads {kind}, got {type(answer).__name__}; use oracles.{kind.lower()}"
            with pytest.raises(TypeError, match=message):
                learner.update(state, jnp.ones(3), prediction, answer, key)


@pytest.mark.parametrize("factory", [ordinal.dford, ordinal.prank, ordinal.pril])
def test_arguments_of_another_kind_are_named(factory):
    rest = {"explore": 0.5} if factory is ordinal.dford else {}
    message = r"hypothesis must be Hypothesis, got int 3; hypotheses.linear\(n\)"
    with pytest.raises(TypeError, match=message):
        factory(3, 4, reg=1.0, **rest)
    with pytest.raises(TypeError, match="reg must be a number, got '1'"):
        factory(hypotheses.linear(3), 4, reg="1", **rest)
    with pytest.raises(ValueError, match=r"reg must be a scalar, got shape \(2,\)"):
        factory(hypotheses.linear(3), 4, reg=jnp.ones(2), **rest)


def test_arguments_of_dford_of_another_kind_are_named():
    for bad, message in (
        (dict(reg=None), "reg must be a number, got None"),
        (dict(explore="0.5"), "explore must be a number, got '0.5'"),
        (dict(clip="1"), "clip must be a number, got '1'"),
        (
            dict(clip_rule="bound"),
            r"clip_rule must be a function \(norm, clip\) -> factor, got 'bound'",
        ),
    ):
        with pytest.raises(TypeError, match=message):
            ordinal.dford(hypotheses.linear(3), 4, **(dict(reg=1.0, explore=0.5) | bad))
