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
        (lambda: delays.uniform(-1), ValueError, "delay must be in 0…2147483646, got -1"),
        (lambda: delays.uniform(2**31 - 1), ValueError, "delay must be in 0…2147483646, got"),
        (
            lambda: delays.geometric(0.0, max_rounds=3),
            ValueError,
            r"prob must be in \(0, 1\], got 0",
        ),
        (lambda: delays.geometric(1.5, max_rounds=3), ValueError, r"prob must be in.*got 1.5"),
        (lambda: delays.geometric(np.nan, max_rounds=3), ValueError, r"prob must be in.*got nan"),
        (lambda: delays.geometric("1", max_rounds=3), TypeError, "prob must be a number, got '1'"),
        (lambda: delays.geometric(0.5, max_rounds=-1), ValueError, "max_rounds must be >= 0"),
        (lambda: delays.geometric(0.5, max_rounds=2.0), TypeError, "max_rounds must be a Python"),
        (lambda: delays.heavy_tailed(0.0, max_rounds=3), ValueError, "exponent must be > 0.*got 0"),
        (
            lambda: delays.heavy_tailed(np.inf, max_rounds=3),
            ValueError,
            "exponent.*finite, got inf",
        ),
        (lambda: delays.heavy_tailed([1.0], max_rounds=3), ValueError, "exponent must be a scalar"),
        (lambda: delays.heavy_tailed(1.0, max_rounds=None), TypeError, "max_rounds must be a Pyth"),
        (lambda: delays.table([0, 1, -2]), ValueError, "got -2 in round 2"),
        (lambda: delays.table([0.5]), TypeError, "delay must be an integer, got float64"),
        (lambda: delays.table([0, 9], max_rounds=3), ValueError, "0…3, got 9 in round 1"),
        (lambda: delays.table([], max_rounds=3), ValueError, "delay must have at least one entry"),
        (lambda: delays.table([[1, 2]]), ValueError, r"delay must have shape \(T,\), got \(1, 2\)"),
        (lambda: delays.table(3), ValueError, r"delay must have shape \(T,\), got \(\)"),
        (
            lambda: delays.table([0, -2, 9], max_rounds=3),
            ValueError,
            r"delay must be -1 \(never\) or in 0…3, got -2 in round 1",
        ),
        (
            lambda: delays.never(1.5, delays.fixed(1)),
            ValueError,
            r"prob must be in \[0, 1\], got 1.5",
        ),
        (lambda: delays.never("1", delays.fixed(1)), TypeError, "prob must be a number, got '1'"),
        (lambda: delays.never(0.5, 3), TypeError, "delay must be Delay, got int 3"),
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


@pytest.mark.parametrize("most", [np.uint8(255), np.int8(127), np.uint16(65535), np.int64(255)])
def test_uniform_delays_take_counts_of_any_width(most):
    keys = jax.random.split(jax.random.key(1), 2000)
    waits = jax.jit(jax.vmap(delays.uniform(most).sample, (0, None)))(keys, 0)
    assert np.mean(waits) == pytest.approx(float(most) / 2, rel=0.1)


def test_uniform_delays_of_a_traced_bound_are_those_of_a_number():
    keys = jax.random.split(jax.random.key(1), 500)
    for most in (6, 2**31 - 2):
        of_number = jax.jit(jax.vmap(delays.uniform(most).sample, (0, None)))(keys, 0)
        of_traced = jax.jit(
            lambda most: jax.vmap(delays.uniform(most, max_rounds=2**31 - 2).sample, (0, None))(
                keys, 0
            )
        )(most)
        np.testing.assert_array_equal(of_number, of_traced)


def test_uniform_delays_take_every_value_equally_often():
    bound, draws = 4, 20_000
    keys = jax.random.split(jax.random.key(0), draws)
    waits = jax.jit(jax.vmap(delays.uniform(bound).sample, in_axes=(0, None)))(keys, 0)
    expected = draws / (bound + 1)
    sigma = np.sqrt(expected * (1 - 1 / (bound + 1)))
    assert np.abs(np.bincount(waits, minlength=bound + 1) - expected).max() < 5 * sigma


TAILS = {
    "geometric, mean 4": (
        lambda most: delays.geometric(0.2, max_rounds=most),
        lambda k: 0.8**k,
    ),
    "geometric, rare": (
        lambda most: delays.geometric(1e-3, max_rounds=most),
        lambda k: 0.999**k,
    ),
    "heavy-tailed, no mean": (
        lambda most: delays.heavy_tailed(0.5, max_rounds=most),
        lambda k: (1 + k) ** -0.5,
    ),
    "heavy-tailed": (
        lambda most: delays.heavy_tailed(1.5, max_rounds=most),
        lambda k: (1 + k) ** -1.5,
    ),
}


def drawn(delay, num=40_000, seed=0):
    keys = jax.random.split(jax.random.key(seed), num)
    return np.asarray(jax.jit(jax.vmap(delay.sample, in_axes=(0, None)))(keys, 0))


@pytest.mark.parametrize("name", TAILS)
def test_tail_of_drawn_delays_is_exact(name):
    build, tail = TAILS[name]
    most = 40
    waits = drawn(build(most))
    assert waits.dtype == np.int32 and waits.min() == 0 and waits.max() == most
    ks = np.arange(1.0, most + 1)  # P(delay >= 0) = 1, and P(delay >= most) keeps all beyond it
    expected = tail(ks)
    seen = np.mean(waits[:, None] >= ks, axis=0)
    sigma = np.sqrt(expected * (1 - expected) / len(waits))
    assert np.all(np.abs(seen - expected) < 5 * sigma)


def test_extreme_delays_are_cut_and_stay_whole():
    most = 2**31 - 2
    for delay in (
        delays.geometric(1e-12, max_rounds=most),
        delays.heavy_tailed(1e-3, max_rounds=most),
    ):
        waits = drawn(delay, 500)
        assert waits.dtype == np.int32 and waits.min() >= 0
        assert waits.max() == 2**30  # the largest that is drawn
    assert not drawn(delays.geometric(1.0, max_rounds=9), 500).any()
    assert not drawn(delays.geometric(0.1, max_rounds=0), 500).any()
    assert not drawn(delays.heavy_tailed(0.1, max_rounds=0), 500).any()
    # one of 500 delays is 1 or more with probability 1e-27
    assert not drawn(delays.heavy_tailed(100.0, max_rounds=9), 500).any()


def test_shape_of_a_drawn_delay_may_be_traced():
    def sample(value):
        keys = jax.random.split(jax.random.key(1), 1000)
        delay = (
            delays.geometric(value, max_rounds=9),
            delays.heavy_tailed(value, max_rounds=9),
        )
        return [jax.vmap(one.sample, (0, None))(keys, 0) for one in delay]

    traced = jax.jit(jax.vmap(sample))(jnp.array([0.3, 1.0]))
    for i, value in enumerate((0.3, 1.0)):
        for together, alone in zip(traced, sample(value), strict=True):
            assert np.mean(np.asarray(together[i]) != alone) < 0.01  # a program that rounds apart
    assert not traced[0][1].any() and traced[1][1].any()


def test_answers_never_come_as_often_as_said():
    for inner in (delays.fixed(3), delays.uniform(6), delays.table([2]), None):
        delay = delays.never(0.3, inner)
        wait = drawn(delay)
        assert wait.dtype == np.int32 and wait.min() == -1
        assert abs(np.mean(wait < 0) - 0.3) < 5 * np.sqrt(0.21 / len(wait))
        others = np.setdiff1d(wait, [-1])
        assert others.min() >= 0 and others.max() == delay.max_rounds
    assert np.all(drawn(delays.never(1.0, delays.fixed(3))) == -1)


def test_never_keeps_what_the_delay_says_of_itself():
    inner = delays.table([4, 0, 1], max_rounds=9)
    delay = delays.never(0.5, inner)
    assert (delay.max_rounds, delay.num_rounds) == (9, 3) and delay.may_never
    assert not inner.may_never
    assert not delays.never(0.5, delays.fixed(4)).is_fixed
    assert delays.never(0.0, inner) is inner
    assert delays.never(0.5).max_rounds == 0


def test_table_says_which_answers_never_come():
    delay = delays.table([3, -1, 2])
    assert [int(delay.sample(None, t)) for t in range(3)] == [3, -1, 2]
    assert delay.may_never and delay.max_rounds == 3
    assert delays.table([-1, -1]).max_rounds == 0
    assert not delays.table([3, 2]).may_never


def test_table_gives_its_entries():
    delay = delays.table([3, 0, 2])
    assert [int(delay.sample(None, t)) for t in range(3)] == [3, 0, 2]
    assert delay.max_rounds == 3 and not delay.is_fixed and delay.num_rounds == 3
