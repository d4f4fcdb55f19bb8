"""Wrong and extreme arguments of every public function: each error is a sentence of jonline's."""

import linecache
import time
import types
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from tests.calls import DRAL, LINEAR, OGD, SPACE, TABLE, arguments, called, public_functions

ROOT = Path(jonline.__file__).parent
KINDS = (ValueError, TypeError, OSError, ImportError)
FREE = {"jonline.core.step.state"}  # known to the learner alone

BAD = [
    None, "abc", "", b"x", True, False, -1, 0, 1, 2, 7, 16, 300, 2**31 - 1, 2**31, 2**63, 10**30,
    -(2**31), 10**400, 0.5, -0.5, 1.5, np.nan, np.inf, -np.inf, 1e-300, 1e300, 1j, [], (), {},
    [1, 2], [[1], [1, 2]], [None], ["a"], {"a": 1}, {"a": None}, {1: [2]}, object(),
    np.zeros(3), np.ones((2, 2)), np.zeros(0), np.array(0.5), np.array("abc"), np.array([None]),
    np.array([1, 300]), np.full(3, np.nan), np.ones(3, np.int8), np.int8(12), np.uint8(3),
    np.uint32(2), np.int64(2), np.float16(0.5), np.float64(0.5), np.bool_(True),
    np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]), np.array([1j]), np.datetime64("2020-01-01"),
    jnp.float32(0.5), jnp.int32(2), jnp.ones(3), jnp.ones(3, jnp.bfloat16), jax.random.key(0),
    jax.random.key(0, impl="unsafe_rbg"), LINEAR, OGD, DRAL, SPACE, TABLE, types,
]  # fmt: skip


def fault(error):
    """What is wrong with an error, "" where it is one of jonline's own sentences."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    file = Path(trace.tb_frame.f_code.co_filename)
    line = linecache.getline(str(file), trace.tb_lineno).strip()
    if not file.is_relative_to(ROOT):
        return f"raised in {file.name}:{trace.tb_lineno}"
    if not line.startswith("raise"):
        return f"not raised by jonline, but at {file.name}:{trace.tb_lineno}: {line}"
    if not isinstance(error, KINDS) and type(error) is not RuntimeError:
        return "of a kind that says nothing"
    return "" if len(str(error).split()) > 3 else "without a sentence"


def fuzz(names, calls_each, seed):
    """Plays calls with one or two arguments changed; returns (calls, errors, faults)."""
    rng, functions = np.random.default_rng(seed), public_functions()
    calls, errors, faults = 0, 0, []
    for name in names:
        function = functions[name]
        values, axes = arguments(name, function)
        if calls_each > 10:
            jax.clear_caches()  # of thousands of small programs
        keys = [key for key in [*values, *axes] if f"{name}.{key}" not in FREE]
        for i in range(calls_each if keys else 0):
            changed = rng.choice(keys, size=1 if i % 4 else min(2, len(keys)), replace=False)
            new = {str(key): BAD[rng.integers(len(BAD))] for key in changed}
            if any(callable(bad) and callable(values.get(key)) for key, bad in new.items()):
                continue  # a function of the caller's, whose errors are the caller's
            mine = {key: new.get(key, value) for key, value in values.items()}
            its_axes = {key: new.get(key, value) for key, value in axes.items()}
            calls, began, wrong = calls + 1, time.monotonic(), ""
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    called(function, mine, its_axes)
            except Exception as error:
                errors, wrong = errors + 1, fault(error)
                if wrong:
                    wrong += f": {type(error).__name__} {error!s:.90}"
            seconds = time.monotonic() - began
            if seconds > 20:
                wrong += f" took {seconds:.0f} s"
            if wrong:
                faults.append(f"{name}({new!r:.100}) {wrong}")
    return calls, errors, faults


# What reads files; and a function of trees between the library's own parts.
LEFT_OUT = ("jonline.data.", "jonline._sweep.result.", "jonline.oracles.where_observed")
# What compiles a program anew for many a good argument.
SLOW = ("jonline._sweep.", "jonline.comparators.", "jonline.structured.spaces.birkhoff.")


def names(without):
    return [name for name in public_functions() if not name.startswith(without)]


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No call reaches the network, another process or the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jax.distributed, "initialize", lambda *args: None)


@pytest.mark.slow
def test_good_arguments_are_good(nowhere):
    """Else the fuzz below would only ever meet the first check."""
    functions = public_functions()
    for name in names((*LEFT_OUT, "jonline.runtime.")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            called(functions[name], *arguments(name, functions[name]))


def test_wrong_arguments_are_errors_in_sentences(nowhere):
    calls, errors, faults = fuzz(names((*LEFT_OUT, *SLOW)), 2, 0)
    assert calls > 200 and errors > 100 and not faults, faults


@pytest.mark.slow
def test_twenty_thousand_wrong_arguments_are_errors_in_sentences(nowhere):
    calls, errors, faults = fuzz(names(LEFT_OUT), 155, 1)
    assert calls > 19_500 and errors > 10_000 and len(faults) < 20, faults
    assert not [fault for fault in faults if "took" in fault or "without" in fault], faults
