from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import oracles

NUM = 20_000
KEYS = jax.random.split(jax.random.key(7), NUM)


def _answers(oracle, y, output=1):
    prediction = SimpleNamespace(output=jnp.int32(output))
    return jax.vmap(lambda key: oracle(jnp.int32(y), prediction, key))(KEYS)


def _assert_share(hits, prob):
    """Five standard errors of a frequency."""
    assert abs(np.mean(hits) - prob) <= 5 * np.sqrt(prob * (1 - prob) / NUM)


def test_label_is_the_label():
    answer = _answers(oracles.label(), 3)
    assert np.all(answer.value == 3)
    assert np.all(answer.observed)


def test_noisy_label_is_uniform_with_the_given_probability():
    answer = _answers(oracles.label(num_classes=4, noise=0.4), 3)
    for value in (1, 2, 4):
        _assert_share(answer.value == value, 0.1)
    _assert_share(answer.value == 3, 0.7)
    assert answer.value.dtype == jnp.int32
    assert np.all(answer.observed)
    answer = _answers(oracles.label(num_classes=4, noise=1.0), 3)
    for value in (1, 2, 3, 4):
        _assert_share(answer.value == value, 0.25)


def test_direction_is_whether_the_output_is_below_the_label():
    for output in range(1, 6):
        assert np.all(_answers(oracles.directional(), 3, output).above == (output < 3))


def test_noisy_direction_is_flipped_with_the_given_probability():
    oracle = oracles.directional(noise=0.2)
    for output in (2, 3, 4):
        flipped = _answers(oracle, 3, output).above != (output < 3)
        _assert_share(flipped, 0.2)
    flipped = _answers(oracles.directional(noise=1.0), 3, 2).above
    assert not np.any(flipped)


def test_neighbouring_intervals():
    answer = _answers(oracles.interval(5), 3)
    for low, high in ((2, 3), (3, 4), (2, 4)):
        _assert_share((answer.low == low) & (answer.high == high), 1 / 3)
    answer = _answers(oracles.interval(5), 1)  # clipped: [1, 1], [1, 2], [1, 2]
    assert np.all(answer.low == 1)
    _assert_share(answer.high == 1, 1 / 3)
    _assert_share(answer.high == 2, 2 / 3)
    answer = _answers(oracles.interval(5), 5)
    assert np.all(answer.high == 5)
    _assert_share(answer.low == 5, 1 / 3)
    assert answer.low.dtype == answer.high.dtype == jnp.int32


def test_uniform_intervals():
    answer = _answers(oracles.interval(5, ends=oracles.uniform_ends), 2)
    for low in (1, 2):
        for high in (2, 3, 4, 5):
            _assert_share((answer.low == low) & (answer.high == high), 1 / 8)


def test_a_fraction_of_intervals_is_wide():
    answer = _answers(oracles.interval(5, fraction=0.3), 3)
    _assert_share(answer.low < answer.high, 0.3)
    assert np.all((answer.low <= 3) & (3 <= answer.high))
    answer = _answers(oracles.interval(5, fraction=0.0), 3)
    assert np.all((answer.low == 3) & (answer.high == 3))


def test_noisy_intervals_lie_around_another_label():
    answer = _answers(oracles.interval(4, fraction=0.0, noise=0.4), 2)
    assert np.all(answer.low == answer.high)
    _assert_share(answer.low == 2, 0.7)
    for value in (1, 3, 4):
        _assert_share(answer.low == value, 0.1)


@pytest.mark.parametrize("ends", [oracles.neighbours, oracles.uniform_ends])
@pytest.mark.parametrize("y", [1, 2, 3])
def test_intervals_hold_the_label_and_stay_in_range(ends, y):
    answer = _answers(oracles.interval(3, ends=ends), y)
    assert np.all((answer.low >= 1) & (answer.low <= y) & (y <= answer.high) & (answer.high <= 3))


def test_noise_may_be_traced():
    prediction = SimpleNamespace(output=jnp.int32(1))

    def flipped(noise):
        oracle = oracles.directional(noise=noise)
        return jax.vmap(lambda key: oracle(jnp.int32(2), prediction, key).above)(KEYS)

    above = jax.vmap(flipped)(jnp.array([0.0, 0.25, 1.0]))
    assert np.all(above[0])
    _assert_share(above[1], 0.75)
    assert not np.any(above[2])

    def changed(noise):
        oracle = oracles.label(num_classes=4, noise=noise)
        return jax.vmap(lambda key: oracle(jnp.int32(2), prediction, key).value)(KEYS)

    value = jax.vmap(changed)(jnp.array([0.0, 0.8]))
    assert np.all(value[0] == 2)
    _assert_share(value[1] == 2, 0.4)


def test_bad_arguments_are_named():
    for factory in (oracles.directional, oracles.label):
        with pytest.raises(ValueError, match=r"noise must be in \[0, 1\], got 1.5"):
            factory(noise=1.5)
    with pytest.raises(ValueError, match="num_classes must be given with noise"):
        oracles.label(noise=0.1)
    with pytest.raises(ValueError, match="num_classes must be >= 2, got 1"):
        oracles.interval(1)
    with pytest.raises(ValueError, match="num_classes must be >= 2, got 0"):
        oracles.label(num_classes=0, noise=0.1)
    with pytest.raises(TypeError, match="num_classes must be a Python int, got float 1.5"):
        oracles.label(num_classes=1.5, noise=0.1)
    with pytest.raises(TypeError, match="noise must be a number, got '0.1'"):
        oracles.directional(noise="0.1")
    with pytest.raises(ValueError, match=r"fraction must be in \[0, 1\], got -0.5"):
        oracles.interval(3, fraction=-0.5)
    with pytest.raises(ValueError, match=r"noise must be in \[0, 1\], got 2"):
        oracles.interval(3, noise=2)
