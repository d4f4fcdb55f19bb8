from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import oracles
from jonline.testing import check_oracle

NUM = 20_000
KEYS = jax.random.split(jax.random.key(7), NUM)


def _answers(oracle, y, output=1):
    prediction = SimpleNamespace(output=jnp.int32(output))
    return jax.jit(jax.vmap(lambda key: oracle(jnp.int32(y), prediction, key)))(KEYS)


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


def _asked_for(oracle, y, ask):
    prediction = SimpleNamespace(output=jnp.int32(0), ask=jnp.asarray(ask))
    return jax.jit(jax.vmap(lambda key: oracle(jnp.int32(y), prediction, key)))(KEYS)


@pytest.mark.parametrize("y", [-1, 1])
def test_label_comes_only_where_it_is_asked_for(y):
    answer = _asked_for(oracles.label_if_asked(), y, True)
    assert np.all(answer.value == y) and np.all(answer.observed)
    assert answer.value.dtype == jnp.int32 and answer.observed.dtype == bool
    for noise in (0.0, 0.2):
        answer = _asked_for(oracles.label_if_asked(noise=noise), y, False)
        assert not np.any(answer.value) and not np.any(answer.observed)


def test_noisy_label_that_is_asked_for_is_flipped_with_the_given_probability():
    answer = _asked_for(oracles.label_if_asked(noise=0.2), -1, True)
    _assert_share(answer.value == 1, 0.2)
    _assert_share(answer.value == -1, 0.8)
    assert np.all(_asked_for(oracles.label_if_asked(noise=1.0), -1, True).value == 1)


def test_label_that_is_asked_for_is_a_sign():
    asked = SimpleNamespace(output=0, ask=True)
    with pytest.raises(ValueError, match="must be -1 or 1, got 0; jonline.data.encode_signs"):
        oracles.label_if_asked()(jnp.int32(0), asked, KEYS[0])
    with pytest.raises(TypeError, match="needs a prediction with .ask, got SimpleNamespace"):
        _answers(oracles.label_if_asked(), 1)


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


def _of_vertices(oracle, y, output):
    prediction = SimpleNamespace(output=jnp.asarray(output, float))
    return jax.jit(jax.vmap(lambda key: oracle(jnp.asarray(y, float), prediction, key)))(KEYS)


def _weighed(output, y):
    """Not symmetric, so that a swap of output and label shows."""
    return jnp.sum(output * jnp.array([1.0, 2.0, 4.0])) - jnp.sum(y) / 2


def test_loss_is_the_target_of_what_was_played():
    answer = _of_vertices(oracles.loss(_weighed), [1, 1, 0], [0, 1, 1])
    np.testing.assert_array_equal(answer.value, np.full(NUM, 5.0))


def test_noise_of_the_loss_is_normal():
    value = _of_vertices(oracles.loss(_weighed, noise=0.5), [1, 1, 0], [0, 1, 1]).value
    assert abs(np.mean(value) - 5.0) <= 5 * 0.5 / np.sqrt(NUM)
    assert abs(np.var(value) - 0.25) <= 5 * 0.25 * np.sqrt(2 / NUM)
    _assert_share(value > 5.5, 0.1587)  # one standard deviation


def test_mismatch_is_whether_any_part_is_wrong():
    oracle = oracles.mismatch()
    for output, wrong in (([0, 1, 1], False), ([0, 1, 0], True), ([1, 0, 0], True)):
        answer = _of_vertices(oracle, [0, 1, 1], output).wrong
        assert answer.dtype == bool and np.all(answer == wrong)
    assert not np.any(_answers(oracle, 3, 3).wrong)
    assert np.all(_answers(oracle, 3, 2).wrong)


def test_noisy_mismatch_is_flipped_with_the_given_probability():
    oracle = oracles.mismatch(noise=0.2)
    _assert_share(_of_vertices(oracle, [0, 1, 1], [0, 1, 1]).wrong, 0.2)
    _assert_share(_of_vertices(oracle, [0, 1, 1], [0, 1, 0]).wrong, 0.8)
    assert np.all(_answers(oracles.mismatch(noise=1.0), 3, 3).wrong)


def test_coordinates_are_the_label_where_played():
    answer = _of_vertices(oracles.coordinates(), [1, 0, 1], [1, 1, 0])
    np.testing.assert_array_equal(answer.value, np.tile([1.0, 0.0, 0.0], (NUM, 1)))
    np.testing.assert_array_equal(answer.observed, np.tile([True, True, False], (NUM, 1)))


@pytest.mark.parametrize(
    "oracle",
    [
        oracles.loss(_weighed),
        oracles.loss(_weighed, noise=0.5),
        oracles.mismatch(),
        oracles.mismatch(noise=0.5),
        oracles.coordinates(),
    ],
)
def test_answers_about_vertices_are_pure_and_read_the_output_alone(oracle):
    prediction = SimpleNamespace(output=jnp.array([1.0, 1.0, 0.0]), mean=jnp.ones(3))
    check_oracle(oracle, jnp.array([0.0, 1.0, 1.0]), prediction)


VERTEX = jnp.array([1.0, 1.0, 0.0])
KINDS = {
    "label": (oracles.label(), jnp.int32(3), jnp.int32(1)),
    "label if asked": (oracles.label_if_asked(noise=0.2), jnp.int32(-1), jnp.int32(1)),
    "interval": (oracles.interval(4, noise=0.1), jnp.int32(3), jnp.int32(1)),
    "directional": (oracles.directional(noise=0.2), jnp.int32(3), jnp.int32(1)),
    "loss": (oracles.loss(_weighed, noise=0.5), VERTEX, VERTEX),
    "mismatch": (oracles.mismatch(noise=0.2), jnp.int32(3), jnp.int32(1)),
    "coordinates": (oracles.coordinates(), VERTEX, VERTEX),
}


def _played(output):
    return SimpleNamespace(output=output, ask=jnp.asarray(True))


@pytest.mark.parametrize("kind", KINDS)
def test_missing_answers_are_zero_and_the_others_are_the_oracles(kind):
    oracle, y, output = KINDS[kind]
    check_oracle(oracles.missing(oracle, 1.0), y, _played(output))

    def answers(prob):
        lossy = oracles.missing(oracle, prob)
        return jax.vmap(lambda key: lossy(y, _played(output), key))(KEYS)

    def whole(key):  # the oracle's own draws
        return oracle(y, _played(output), jax.random.split(key)[0])

    some, never, none = (jax.jit(answers)(prob) for prob in (0.3, 0.0, 1.0))
    expected = jax.jit(jax.vmap(whole))(KEYS)
    observed = np.asarray(some.observed).reshape(NUM, -1).any(axis=1)
    _assert_share(~observed, 0.3)
    for got, full, last, first in zip(some, expected, none, never, strict=True):
        np.testing.assert_array_equal(first, full)
        np.testing.assert_array_equal(np.asarray(got)[observed], np.asarray(full)[observed])
        assert not np.any(np.asarray(got)[~observed]) and not np.any(last)
        assert np.asarray(got).dtype == np.asarray(full).dtype


def test_noise_and_gaps_are_independent():
    lossy = oracles.missing(oracles.missing(oracles.directional(noise=0.2), 0.5), 0.5)
    answer = _answers(lossy, 3, 1)
    _assert_share(~answer.observed, 0.75)
    flipped = ~answer.above[np.asarray(answer.observed)]
    assert abs(np.mean(flipped) - 0.2) <= 5 * np.sqrt(0.16 / len(flipped))


def test_what_was_not_asked_for_stays_unobserved_when_answers_are_missing():
    lossy = oracles.missing(oracles.label_if_asked(), 0.5)
    assert not np.any(_asked_for(lossy, 1, False).observed)
    _assert_share(_asked_for(lossy, 1, True).observed, 0.5)


def test_missing_with_probability_0_is_the_oracle_itself():
    oracle = oracles.directional(noise=0.2)
    assert oracles.missing(oracle, 0.0) is oracle


def test_missing_needs_an_oracle_of_answers_that_can_be_empty():
    class Wrong(NamedTuple):
        wrong: jax.Array

    lossy = oracles.missing(lambda y, prediction, key: Wrong(prediction.output != y), 0.5)
    with pytest.raises(TypeError, match=r"answers have .observed, got Wrong; give the type such"):
        _answers(lossy, 1)
    with pytest.raises(TypeError, match="oracle must be a function, got 3"):
        oracles.missing(3, 0.5)
    for prob in (-0.1, 1.5, np.nan):
        with pytest.raises(ValueError, match=r"prob must be in \[0, 1\], got"):
            oracles.missing(oracles.label(), prob)


def test_noise_may_be_traced():
    prediction = SimpleNamespace(output=jnp.int32(1))

    def flipped(noise):
        oracle = oracles.directional(noise=noise)
        return jax.vmap(lambda key: oracle(jnp.int32(2), prediction, key).above)(KEYS)

    above = jax.jit(jax.vmap(flipped))(jnp.array([0.0, 0.25, 1.0]))
    assert np.all(above[0])
    _assert_share(above[1], 0.75)
    assert not np.any(above[2])

    def changed(noise):
        oracle = oracles.label(num_classes=4, noise=noise)
        return jax.vmap(lambda key: oracle(jnp.int32(2), prediction, key).value)(KEYS)

    value = jax.jit(jax.vmap(changed))(jnp.array([0.0, 0.8]))
    assert np.all(value[0] == 2)
    _assert_share(value[1] == 2, 0.4)

    def answers(noise):
        wrong = oracles.mismatch(noise=noise)
        loss = oracles.loss(lambda output, y: (output - y).astype(float), noise=noise)
        return jax.vmap(
            lambda key: (wrong(jnp.int32(2), prediction, key), loss(jnp.int32(2), prediction, key))
        )(KEYS)

    mismatch, loss = jax.jit(jax.vmap(answers))(jnp.array([0.0, 0.25]))
    assert np.all(mismatch.wrong[0]) and np.all(loss.value[0] == -1)
    _assert_share(mismatch.wrong[1], 0.75)
    assert abs(np.var(loss.value[1]) - 0.0625) <= 5 * 0.0625 * np.sqrt(2 / NUM)


def test_bad_arguments_are_named():
    noisy = (oracles.directional, oracles.label, oracles.mismatch, oracles.label_if_asked)
    for factory in noisy:
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
    with pytest.raises(
        TypeError, match=r"target must be a function \(output, y\) -> scalar, got 3"
    ):
        oracles.loss(3)
    with pytest.raises(ValueError, match="noise must be >= 0 and finite, got -1.0"):
        oracles.loss(_weighed, noise=-1.0)


def test_noise_for_labels_that_are_numbers_refuses_a_vertex():
    oracle = oracles.label(num_classes=3, noise=1.0)
    with pytest.raises(ValueError, match=r"noise replaces labels 1…3, got one of \(3,\)"):
        oracle(jnp.asarray([0.0, 1.0, 0.0]), None, jax.random.key(0))
