"""Bounds of the theory under delay: by hand, and where they are what the proofs balance."""

import numpy as np
import pytest

from jonline import structured
from jonline.structured import delayed_theory, theory

CLASSES = structured.multiclass(4)
# a = 3/4, b = 2 * 4 / (1/4) = 32 at Cx = 2
BY_HAND = CLASSES._replace(constants=structured.Constants(1 / 32, 2.0, 0.25, 1.0, 8.0))
SIZE = dict(diameter=3.0, radius=2.0, extent=1.5)  # Cx Cy = 3, B = 3, R = 3/2


def test_bounds_by_hand():
    late = delayed_theory.odaftrl_bound(BY_HAND, **SIZE, num_rounds=10**9, delay=[0, 1])
    # 36 D + 768 + 384 (D+1)^2, as T is large
    np.testing.assert_allclose(late, [768 + 384, 36 + 768 + 4 * 384], rtol=1e-12)
    late = delayed_theory.odaftrl_bound(BY_HAND, **SIZE, num_rounds=48, delay=2)
    # (3/2) (32 * 81 * 9 * 9 * 48 * 4/3)^(1/3) = (3/2) (2^11 3^8)^(1/3)
    np.testing.assert_allclose(late, 72 + 768 + 1.5 * np.cbrt(2.0**11 * 3**8), rtol=1e-12)
    late = delayed_theory.odaftrl_inverse_weighted_bound(
        BY_HAND, **SIZE, num_rounds=[9, 25], delay=[4, 0]
    )
    middle = (128 * 4 / 3 + 1) * 3 * np.sqrt([36.0, 100.0])
    np.testing.assert_allclose(late, middle + [36 * 4 + 18 * 6, 0], rtol=1e-12)
    late = delayed_theory.solid_bound(BY_HAND, **SIZE, total_delay=[0, 100], max_delay=[0, 8])
    np.testing.assert_allclose(late, [192, 192 + 4.5 * (40 + 12)], rtol=1e-12)
    late = delayed_theory.solid_inverse_weighted_bound(
        BY_HAND, **SIZE, num_rounds=25, total_delay=100, max_delay=8
    )
    np.testing.assert_allclose(late, (64 * 4 / 3 + 1) * 15 + 4.5 * (40 + 12), rtol=1e-12)


def test_bounds_are_what_the_proofs_balance():
    """c1 sqrt(S) - (a/2) S and c1 S^(1/4) - (a/2) S at the best S, S the summed surrogate loss."""
    B, Cx, Cy, T, D = 2.0, 0.5, np.sqrt(2), 10**5, 7
    a, b = theory.margin(CLASSES.constants), theory.smoothness(CLASSES.constants, Cx)
    S = np.logspace(-3, 9, 400_001)
    size = dict(diameter=B, radius=Cx, extent=Cy)
    # lemma E.1 with sum b_t <= b (D+1)^2 S / 2 and <= Cx Cy (D+1) sqrt(b T S)
    two = [2 * B * np.sqrt(b * (D + 1) ** 2 * S / 2)]
    two += [2 * B * np.sqrt(Cx * Cy * (D + 1) * np.sqrt(b * T * S))]
    rest = np.max(2 * B * np.sqrt(b * S) - a / 2 * S)
    most = 4 * B * Cx * Cy * D + rest + min(np.max(one - a / 2 * S) for one in two)
    bound = delayed_theory.odaftrl_bound(CLASSES, **size, num_rounds=T, delay=D)
    assert most <= bound * (1 + 1e-9)
    np.testing.assert_allclose(bound, most, rtol=1e-6)  # of the grid of S
    q = theory.inverse_weighted_rate(CLASSES, diameter=B, radius=1.0, num_rounds=T)
    most = np.max(4 * B * np.sqrt(b * CLASSES.size / q * S) - a * S) + q * T
    bound = delayed_theory.odaftrl_inverse_weighted_bound(CLASSES, **size, num_rounds=T, delay=0)
    np.testing.assert_allclose(bound, most, rtol=1e-6)
    q = theory.solid_inverse_weighted_rate(CLASSES, diameter=B, radius=1.0, num_rounds=T)
    most = np.max(np.sqrt(2) * B * np.sqrt(b * CLASSES.size / q * S) - a * S) + q * T
    bound = delayed_theory.solid_inverse_weighted_bound(
        CLASSES, **size, num_rounds=T, total_delay=0, max_delay=0
    )
    np.testing.assert_allclose(bound, most, rtol=1e-6)
    most = np.max(np.sqrt(2) * B * np.sqrt(b * S) - a * S)
    bound = delayed_theory.solid_bound(CLASSES, **size, total_delay=0, max_delay=0)
    np.testing.assert_allclose(bound, most, rtol=1e-6)


def test_extent_of_every_space_is_that_of_the_docstring():
    def extent(outputs):
        y = np.asarray(outputs, float)
        apart = np.linalg.norm(y[:, None] - y[None], axis=-1)
        return max(apart.max(), np.linalg.norm(y, axis=-1).max())

    cube = np.array(np.meshgrid(*[[0, 1]] * 5)).reshape(5, -1).T
    orders = np.eye(3)[[[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1], [2, 1, 0], [1, 0, 2]]]
    np.testing.assert_allclose(extent(np.eye(4)), np.sqrt(2))
    np.testing.assert_allclose(extent(cube), np.sqrt(5))
    np.testing.assert_allclose(extent(orders.reshape(6, 9)), np.sqrt(6))
    for m in (1, 2, 4):
        chosen = cube[cube.sum(axis=1) == m]
        np.testing.assert_allclose(extent(chosen), max(np.sqrt(2 * min(m, 5 - m)), np.sqrt(m)))


@pytest.mark.parametrize(
    ("bound", "counts"),
    [
        (delayed_theory.odaftrl_bound, dict(num_rounds=9, delay=1)),
        (delayed_theory.odaftrl_inverse_weighted_bound, dict(num_rounds=9, delay=1)),
        (delayed_theory.solid_bound, dict(total_delay=9, max_delay=1)),
        (
            delayed_theory.solid_inverse_weighted_bound,
            dict(num_rounds=9, total_delay=9, max_delay=1),
        ),
    ],
)
def test_bad_arguments_are_named(bound, counts):
    for name in SIZE:
        with pytest.raises(ValueError, match=f"{name} must be > 0 and finite, got -1.0"):
            bound(CLASSES, **SIZE | {name: -1.0}, **counts)
    for name in counts:
        least = 1 if name == "num_rounds" else 0
        with pytest.raises(ValueError, match=f"{name} must be >= {least}, got -1"):
            bound(CLASSES, **SIZE, **counts | {name: -1})
    if "num_rounds" in counts:
        with pytest.raises(ValueError, match="num_rounds must be >= 1, got 0"):
            bound(CLASSES, **SIZE, **counts | {"num_rounds": 0})
    with pytest.raises(ValueError, match="the theory is void"):
        bound(structured.multilabel(16), **SIZE, **counts)
