import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jonline import checks

RANGES = [
    (checks.positive, [1e-9, 1, 1e30], [0, -1.0, np.inf, np.nan], "be > 0 and finite"),
    (checks.non_negative, [0, 1e30], [-1e-9, np.inf, np.nan], "be >= 0 and finite"),
    (checks.probability, [0, 0.5, 1], [-1e-9, 1.0001, np.nan, np.inf], r"be in \[0, 1\]"),
]


@pytest.mark.parametrize(("check", "good", "bad", "rule"), RANGES)
def test_range_is_checked_with_name_rule_and_value(check, good, bad, rule):
    for value in good:
        check("reg", value)
        check("reg", np.float32(value))
        check("reg", jnp.asarray(value))
    for value in bad:
        with pytest.raises(ValueError, match=f"^reg must {rule}, got {value}$"):
            check("reg", value)


@pytest.mark.parametrize("check", [row[0] for row in RANGES])
def test_what_is_not_one_real_number_is_an_error(check):
    for bad in (None, "1", True, 1j, b"1"):
        with pytest.raises(TypeError, match=f"^reg must be a number, got {re.escape(repr(bad))}$"):
            check("reg", bad)
    for bad in ([0.5], np.ones(2), jnp.ones((1, 1))):
        with pytest.raises(ValueError, match=r"^reg must be a scalar, got shape \("):
            check("reg", bad)
    with pytest.raises(ValueError, match=r"^reg must be a scalar, got shape \(2,\)"):
        jax.jit(lambda value: check("reg", value))(np.ones(2))


def test_numbers_are_shown_with_the_digits_they_have():
    for kind in (np.float32, jnp.float32, np.float16):
        with pytest.raises(ValueError, match=r"got 1\.1$"):
            checks.probability("noise", kind(1.1))
    assert repr(checks.plain(np.float32(1.1))) == "1.1" and repr(checks.plain(np.int32(3))) == "3"


@pytest.mark.parametrize("check", [row[0] for row in RANGES])
def test_traced_values_pass(check):
    jax.jit(lambda value: check("reg", value))(-1.0)
    jax.jit(jax.vmap(lambda value: check("reg", value)))(jnp.array([-1.0, jnp.nan]))


def test_concrete_is_none_only_while_tracing():
    assert checks.concrete(2) == 2 and checks.concrete(jnp.ones(2)).tolist() == [1, 1]
    seen = []
    jax.jit(lambda value: seen.append(checks.concrete(value)))(1.0)
    assert seen == [None]


def test_at_least_takes_static_integers_only():
    checks.at_least("num", 3, 3)
    checks.at_least("num", np.int64(4), 3)
    with pytest.raises(ValueError, match="^num must be >= 3, got 2$"):
        checks.at_least("num", 2, 3)
    for bad in (3.0, True, "3", None, np.float64(3), np.array([3]), jnp.int32(3)):
        with pytest.raises(
            TypeError, match=f"^num must be a Python int, got {type(bad).__name__} "
        ):
            checks.at_least("num", bad, 3)
    with pytest.raises(TypeError, match="^num must be a Python int, got float 1000.0$"):
        checks.at_least("num", 1e3, 1)
    with pytest.raises(TypeError, match="num must be a Python int"):
        jax.jit(lambda num: checks.at_least("num", num, 3))(4)


def test_kind_names_what_was_passed():
    checks.kind("x", 3, int)
    checks.kind("x", True, int)
    with pytest.raises(TypeError, match="^x must be int, got float 3.0$"):
        checks.kind("x", 3.0, int)
    with pytest.raises(TypeError, match="^x must be tuple, got NoneType None$"):
        checks.kind("x", None, tuple)
    with pytest.raises(TypeError, match=f"^x must be int, got str '{'a' * 99}$"):
        checks.kind("x", "a" * 1000, int)


def test_require_needs_every_entry():
    checks.require([True, True], "x", "be good", 1)
    checks.require([], "x", "be good", 1)
    with pytest.raises(ValueError, match="^x must be good, got 7$"):
        checks.require([True, False], "x", "be good", 7)


def test_labels_name_the_first_bad_row():
    checks.labels(np.array([1, 5, 3]), 5)
    checks.labels(np.array([], int), 5)
    with pytest.raises(ValueError, match="labels must be in 1…5, got 6 in row 1"):
        checks.labels(np.array([1, 6, 0]), 5)
    with pytest.raises(ValueError, match="got 0 in row 0"):
        checks.labels(np.array([0, 1]), 5)


def test_signs_are_minus_1_and_1():
    checks.signs(np.array([1, -1, 1]))
    checks.signs(jnp.float32(-1))
    jax.jit(lambda y: checks.signs(y))(0)  # traced: not known
    with pytest.raises(ValueError, match="labels must be -1 or 1, got 2; .*encode_signs maps two"):
        checks.signs(np.array([1, 2, 0]))
    with pytest.raises(ValueError, match="labels must be -1 or 1, got 0;"):
        checks.signs(0)


@pytest.mark.parametrize(
    ("shape", "at", "where"),
    [
        ((4,), (2,), r"in row 2 \(1 such"),
        ((4, 3), (2, 1), r"in row 2, column 1 \(1 such"),
        ((4, 3, 2), (2, 1, 0), r"in entry \(2, 1, 0\) \(1 such"),
    ],
)
def test_finite_names_the_first_bad_entry(shape, at, where):
    values = np.zeros(shape)
    checks.finite("x", values)
    values[at] = np.nan
    with pytest.raises(ValueError, match=f"^x must be finite, got nan {where}"):
        checks.finite("x", values)


def test_finite_of_a_single_number_and_of_nothing():
    checks.finite("x", np.array(1.0))
    checks.finite("x", np.zeros((0, 3)))
    with pytest.raises(ValueError, match="^x must be finite, got inf"):
        checks.finite("x", np.array(np.inf))


def test_finite_numbers_whose_sum_is_not_pass():
    checks.finite("x", np.full(4, np.finfo(np.float32).max, np.float32))
    checks.finite("x", np.array([np.finfo(np.float64).max] * 2))
    with pytest.raises(ValueError, match="got -inf in row 1"):
        checks.finite("x", np.array([np.inf, -np.inf, 1.0])[[2, 1, 0]])


def test_path_is_expanded_and_one_of_this_machine(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for good, path in (
        ("~/a", tmp_path / "a"),
        (Path("~/a"), tmp_path / "a"),
        ("a/~/b", Path("a/~/b")),
        ("a:b", Path("a:b")),
        (r"C:/runs", Path("C:/runs")),
        (tmp_path, tmp_path),
    ):
        assert checks.path("out", good) == path
    for bad in ("", "gs://b/x", "s3://b", "file:///x", "hdfs://h", Path("gs://b/x"), "a\0b"):
        with pytest.raises(ValueError, match="^out must be a path of this machine, such as '~/ru"):
            checks.path("out", bad)
    with pytest.raises(ValueError, match="^out must be a path .* got '~nobody-of-this-name/x': "):
        checks.path("out", "~nobody-of-this-name/x")
    for bad in (None, 3, b"x", ["x"]):
        with pytest.raises(TypeError, match="^out must be a path, got"):
            checks.path("out", bad)
