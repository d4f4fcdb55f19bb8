"""Rates and bounds of the theory: by hand, where they are capped, and where they are void."""

import numpy as np
import pytest

from jonline import structured
from jonline.structured import theory

CLASSES = structured.multiclass(4)  # K = 4, omega = 4 (3 + 1/9) = 112/9


def test_margin_and_smoothness_by_hand():
    constants = structured.Constants(0.25, 2.0, 4.0, 3.0, 1.0)
    assert theory.margin(constants) == 1 - 1 / 8
    assert theory.smoothness(constants, 2.0) == 2 * 4 * 9 / 4
    assert theory.margin(CLASSES.constants) == pytest.approx(1 - np.log(2), rel=1e-12)
    assert theory.smoothness(CLASSES.constants, 2.0) == pytest.approx(8 * np.log(2), rel=1e-12)
    rankings = structured.rankings_constants(3, 1.5)
    assert theory.margin(rankings) == pytest.approx(1 - 1.5 / 2, rel=1e-12)
    for d, m, expected in ((10, 5, 0.894), (24, 5, 0.469)):
        lost = 1 - theory.margin(structured.subsets_constants(d, m))
        assert lost == pytest.approx(expected, abs=5e-4)
    assert theory.margin(structured.multilabel_constants(64)) == 0.5


RATES = (
    theory.inverse_weighted_rate,
    theory.pseudo_inverse_rate,
    theory.solid_inverse_weighted_rate,
    theory.solid_pseudo_inverse_rate,
    theory.gaptron_rate,
    theory.gappletron_rate,
)


@pytest.mark.parametrize("rate", RATES)
def test_rate_is_cut(rate):
    size = {"diameter": 1.0, "radius": 1.0, "num_rounds": 10_000}
    with pytest.warns(UserWarning, match="is above 0.001 and was set to 0.001; take"):
        assert rate(CLASSES, **size, cut=0.001) == 0.001
    assert 0.001 < rate(CLASSES, **size, cut=0.9) == rate(CLASSES, **size) < 0.9
    few = size | {"num_rounds": 1, "diameter": 100.0}
    assert rate(CLASSES, **few, cut=np.inf) > 1  # the formula


def test_rates_by_hand():
    rate = theory.inverse_weighted_rate(CLASSES, diameter=3.0, radius=0.5, num_rounds=400)
    assert rate == pytest.approx(0.3, rel=1e-12)
    rate = theory.pseudo_inverse_rate(CLASSES, diameter=3.0, radius=0.5, num_rounds=7000)
    assert rate == pytest.approx(0.016 ** (1 / 3), rel=1e-12)  # 4 * 112/9 * 9/4 = 112
    late = theory.pseudo_inverse_rate(CLASSES, diameter=3.0, radius=0.5, num_rounds=7000, delay=2)
    assert late == pytest.approx(0.008 ** (1 / 3), rel=1e-12)
    solid = theory.solid_inverse_weighted_rate(CLASSES, diameter=3.0, radius=0.5, num_rounds=400)
    assert solid == pytest.approx(0.15, rel=1e-12)
    solid = theory.solid_pseudo_inverse_rate(CLASSES, diameter=6.0, radius=0.5, num_rounds=28000)
    assert solid == pytest.approx(0.1, rel=1e-12)  # 112/9 * 9/4 = 28


@pytest.mark.parametrize(
    ("rate", "options", "formula", "value"),
    [
        (theory.inverse_weighted_rate, {}, r"B sqrt\(K / T\)", "2"),
        (theory.pseudo_inverse_rate, {"radius": 1.5}, r"\(4 omega B\^2 Cx\^2 / T\)", "4.82"),
        (theory.pseudo_inverse_rate, {"radius": 1.5, "delay": 1}, r"\(omega B\^2 Cx\^2 D", "3.037"),
        (theory.solid_inverse_weighted_rate, {"diameter": 20.0}, r"\(B/2\) sqrt", "2"),
        (theory.solid_pseudo_inverse_rate, {"radius": 1.5}, r"\(omega \(B/2\)\^2 Cx\^2", "1.913"),
    ],
)
def test_rate_above_one_is_capped_with_a_warning(rate, options, formula, value):
    options = {"diameter": 10.0, "radius": 1.0, "num_rounds": 100} | options
    message = rf"explore = {formula}.* = {value}\d* is above 1 and was set to 1.*more rounds"
    with pytest.warns(UserWarning, match=message) as record:
        assert rate(CLASSES, **options) == 1.0
    assert record[0].filename == __file__


def test_rate_of_exactly_one_is_no_warning():
    assert theory.inverse_weighted_rate(CLASSES, diameter=5.0, radius=1.0, num_rounds=100) == 1.0


def test_bounds_by_hand():
    # a = 3/4, b = 2 * 4 / (1/4) = 32, B sqrt(K T) = 3 sqrt(4 T)
    space = CLASSES._replace(constants=structured.Constants(1 / 32, 2.0, 0.25, 1.0, 8.0))
    inverse = theory.inverse_weighted_bound(space, diameter=3.0, radius=2.0, num_rounds=[1, 25])
    np.testing.assert_allclose(inverse, (32 / 1.5 + 1) * np.array([6.0, 30.0]), rtol=1e-12)
    pseudo = theory.pseudo_inverse_bound(space, diameter=3.0, radius=2.0, num_rounds=36)
    np.testing.assert_allclose(pseudo, 384 + 2 ** (5 / 3) * 2 * 36, rtol=1e-12)


def test_bounds_are_what_their_rates_balance():
    """At the rate q of the theory, what is lost by exploring and by variance is the bound."""
    B, Cx, T = 2.0, 0.5, 10**6
    a, b = theory.margin(CLASSES.constants), theory.smoothness(CLASSES.constants, Cx)
    q = theory.inverse_weighted_rate(CLASSES, diameter=B, radius=Cx, num_rounds=T)
    bound = theory.inverse_weighted_bound(CLASSES, diameter=B, radius=Cx, num_rounds=T)
    np.testing.assert_allclose(bound, b * B**2 * CLASSES.size / (2 * a * q) + q * T, rtol=1e-12)
    q = theory.pseudo_inverse_rate(CLASSES, diameter=B, radius=Cx, num_rounds=T)
    bound = theory.pseudo_inverse_bound(CLASSES, diameter=B, radius=Cx, num_rounds=T)
    lost = b * B**2 / a + 2 * B * Cx * np.sqrt(CLASSES.constants.omega * T / q) + q * T
    np.testing.assert_allclose(bound, lost, rtol=1e-12)


def test_bounds_are_above_the_number_of_rounds_where_rates_are_capped():
    for num_rounds in (1, 10, 99):
        with pytest.warns(UserWarning, match="above 1"):
            theory.inverse_weighted_rate(CLASSES, diameter=5.0, radius=1.0, num_rounds=num_rounds)
        options = dict(diameter=5.0, radius=1.0, num_rounds=num_rounds)
        assert theory.inverse_weighted_bound(CLASSES, **options) > num_rounds
        assert theory.pseudo_inverse_bound(CLASSES, **options) > num_rounds


def test_void_theory_is_an_error():
    void = CLASSES._replace(constants=structured.multiclass_paper_constants(4))
    assert theory.margin(void.constants) == 0
    for space in (void, structured.multilabel(16)):
        for bound in (theory.inverse_weighted_bound, theory.pseudo_inverse_bound):
            with pytest.raises(ValueError, match="the theory is void: a = 1 - 4 gamma / .* got 0"):
                bound(space, diameter=1.0, radius=1.0, num_rounds=10)
    assert theory.inverse_weighted_rate(void, diameter=1.0, radius=1.0, num_rounds=16) == 0.5


def test_bad_arguments_are_named():
    good = {"diameter": 1.0, "radius": 1.0, "num_rounds": 10}
    for rate in RATES:
        with pytest.raises(ValueError, match="num_rounds must be >= 1, got 0"):
            rate(CLASSES, **good | {"num_rounds": 0})
        with pytest.raises(TypeError, match="num_rounds must be a Python int, got float 100.0"):
            rate(CLASSES, **good | {"num_rounds": 100.0})
        with pytest.raises(ValueError, match="diameter must be > 0 and finite, got -1.0"):
            rate(CLASSES, **good | {"diameter": -1.0})
        with pytest.raises(ValueError, match="radius must be > 0 and finite, got 0.0"):
            rate(CLASSES, **good | {"radius": 0.0})
        with pytest.raises(ValueError, match="delay must be >= 0, got -1"):
            rate(CLASSES, **good, delay=-1)
        with pytest.raises(ValueError, match=r"cut must be in \(0, 1\], or inf, got 0.0"):
            rate(CLASSES, **good, cut=0.0)
        with pytest.raises(TypeError, match="space must be "):
            rate(4, **good)
    for rate in (theory.gaptron_rate, theory.gappletron_rate):
        with pytest.raises(ValueError, match="space must be a multiclass space, got multilabel"):
            rate(structured.multilabel(4), **good)
    with pytest.raises(ValueError, match="radius must be > 0 and finite, got 0"):
        theory.smoothness(CLASSES.constants, 0)
    for bound in (theory.inverse_weighted_bound, theory.pseudo_inverse_bound):
        with pytest.raises(ValueError, match="num_rounds must be >= 1, got "):
            bound(CLASSES, diameter=1.0, radius=1.0, num_rounds=np.array([3, 0]))
        with pytest.raises(ValueError, match="radius must be > 0 and finite, got -2.0"):
            bound(CLASSES, diameter=1.0, radius=-2.0, num_rounds=3)
        with pytest.raises(ValueError, match="diameter must be > 0 and finite, got 0"):
            bound(CLASSES, diameter=0, radius=1.0, num_rounds=3)


def test_rates_of_spaces_beyond_float32_are_cut():
    for space in (structured.multilabel(300), structured.subsets(400, 200)):
        for rate in (theory.inverse_weighted_rate, theory.solid_inverse_weighted_rate):
            with pytest.warns(UserWarning, match=r"sqrt\(K / T\) = .*e\+\d+ is above 1"):
                assert rate(space, diameter=1.0, radius=1.0, num_rounds=1000) == 1.0
    assert theory.gappletron_rate(CLASSES, diameter=1.0, num_rounds=10**30) < 1e-14
    with pytest.raises(ValueError, match=r"cut must be in \(0, 1\], or inf, got 2.0"):
        theory.gappletron_rate(CLASSES, diameter=1.0, num_rounds=10, cut=2.0)
