import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import delays


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: delays.fixed(-1), ValueError, "delay must be in 0….*got -1"),
        (lambda: delays.fixed(1.5), TypeError, "delay must be an integer, got float64"),
        (lambda: delays.fixed("3"), TypeError, "delay must be an integer, got <U1"),
        (lambda: delays.fixed(np.array([1, 2])), ValueError, r"delay must be one.*shape \(2,\)"),
        (lambda: delays.fixed(5, max_rounds=4), ValueError, "delay must be in 0…4, got 5"),
        (lambda: delays.fixed(rounds=2**31 - 1), ValueError, "delay must be in 0…2147483646, got"),
        (lambda: delays.fixed(1, max_rounds=-1), ValueError, "max_rounds must be >= 0, got -1"),
        (lambda: delays.fixed(1, max_rounds="4"), TypeError, "max_rounds must be a Python int"),
        (lambda: delays.fixed(1, max_rounds=4.0), TypeError, "max_rounds must be a Python int"),
        (lambda: delays.uniform(-1), ValueError, "max_rounds must be >= 0"),
        (lambda: delays.uniform(2**31 - 1), ValueError, r"max_rounds must be < 2\^31 - 1, got"),
        (lambda: delays.table([0, 1, -2]), ValueError, "got -2 in round 2"),
        (lambda: delays.table([0.5]), TypeError, "delay must be an integer, got float64"),
        (lambda: delays.table([0, 9], max_rounds=3), ValueError, "0…3, got 9 in round 1"),
        (lambda: delays.table([], max_rounds=3), ValueError, "delay must have at least one entry"),
        (lambda: delays.table([[1, 2]]), ValueError, r"delay must have shape \(T,\), got \(1, 2\)"),
        (lambda: delays.table(3), ValueError, r"delay must have shape \(T,\), got \(\)"),
        (lambda: delays.table([1], max_rounds="9"), TypeError, "max_rounds must be a Python"),
    ],
)
def test_bad_delays_are_errors(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_traced_delay_needs_a_bound():
    with pytest.raises(TypeError, match="max_rounds must be given"):
        jax.jit(lambda d: delays.fixed(d).sample(None, 0))(3)
    assert jax.jit(lambda d: delays.fixed(d, max_rounds=9).sample(None, 0))(3) == 3
    with pytest.raises(TypeError, match="max_rounds must be given"):
        jax.jit(lambda d: delays.table(d).sample(None, 0))(jnp.arange(3))
    with pytest.raises(ValueError, match="max_rounds must be >= 0, got -1"):
        jax.jit(lambda d: delays.fixed(d, max_rounds=-1).sample(None, 0))(3)


def test_uniform_delays_take_every_value_equally_often():
    bound, draws = 4, 20_000
    keys = jax.random.split(jax.random.key(0), draws)
    waits = jax.vmap(delays.uniform(bound).sample, in_axes=(0, None))(keys, 0)
    expected = draws / (bound + 1)
    sigma = np.sqrt(expected * (1 - 1 / (bound + 1)))
    assert np.abs(np.bincount(waits, minlength=bound + 1) - expected).max() < 5 * sigma


def test_table_gives_its_entries():
    delay = delays.table([3, 0, 2])
    assert [int(delay.sample(None, t)) for t in range(3)] == [3, 0, 2]
    assert delay.max_rounds == 3 and not delay.is_fixed and delay.num_rounds == 3
