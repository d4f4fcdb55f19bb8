import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import hypotheses


def test_linear_is_the_inner_product_and_its_norm():
    hypothesis = hypotheses.linear(3)
    assert hypothesis.num_features == 3
    np.testing.assert_array_equal(hypothesis.init(), np.zeros(3))
    w, x = jnp.array([1.0, -2.0, 3.0]), jnp.array([2.0, 1.0, 0.5])
    assert hypothesis.value(w, x) == 1.5
    assert hypothesis.sq_norm(w) == 14
    assert hypothesis.diagonal(x) == 5.25


def test_move_decays_and_adds_the_kernel_section():
    hypothesis = hypotheses.linear(2)
    w, x = jnp.array([4.0, -2.0]), jnp.array([1.0, 3.0])
    np.testing.assert_array_equal(hypothesis.move(w, x, 0.25, 0.5), [3.5, 0.0])
    np.testing.assert_array_equal(hypothesis.move(w, x, 0.0, 0.0), w)
    np.testing.assert_array_equal(hypothesis.move(w, x, 1.0, 2.0), 2 * x)


def test_reproducing_property():
    hypothesis = hypotheses.linear(4)
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        w, x, z = jnp.asarray(rng.normal(size=(3, 4)))
        moved = hypothesis.move(w, x, 0.1, 0.7)
        section = hypothesis.move(hypothesis.init(), x, 0.0, 1.0)
        # 1e-14: float64 rounding.
        np.testing.assert_allclose(
            hypothesis.value(moved, z),
            0.9 * hypothesis.value(w, z) + 0.7 * hypothesis.value(section, z),
            rtol=1e-14,
        )
        np.testing.assert_allclose(
            hypothesis.sq_norm(moved),
            0.81 * hypothesis.sq_norm(w)
            + 2 * 0.9 * 0.7 * hypothesis.value(w, x)
            + 0.49 * hypothesis.diagonal(x),
            rtol=1e-14,
        )


def test_a_small_decay_keeps_its_digits():
    hypothesis = hypotheses.linear(1)
    w = jnp.full(1, 1.6)  # where (1 - decay) w, with 1 - decay in float32, is a digit off
    moved = hypothesis.move(w, jnp.ones(1), jnp.float32(1 / 3e6), 0.0)
    exact = float(w[0]) * (1 - 1 / 3e6)
    # The rounding of the result, and a hundredth of it for the product.
    assert abs(float(moved[0]) - exact) <= 1.01 * 2**-24


def test_wrong_shapes_are_named_at_trace_time():
    hypothesis = hypotheses.linear(8)
    w = hypothesis.init()
    for function in (
        lambda x: hypothesis.value(w, x),
        lambda x: hypothesis.move(w, x, 0.0, 1.0),
        hypothesis.diagonal,
    ):
        with pytest.raises(ValueError, match=r"^x must have shape \(8,\), got \(7,\)"):
            jax.eval_shape(function, jnp.ones(7))
        with pytest.raises(ValueError, match=r"^x must have shape \(8,\), got \(8, 1\)"):
            jax.eval_shape(function, jnp.ones((8, 1)))


def test_number_of_features_is_checked():
    with pytest.raises(ValueError, match="num_features must be >= 1, got 0"):
        hypotheses.linear(0)
    with pytest.raises(TypeError, match="num_features must be a Python int"):
        hypotheses.linear(2.0)
