"""Fixtures of all tests, and one cache of compiled programs for all workers of a run of them.

Processes that a test starts do not use it: where their bits are compared, each has to compile.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import jax
import pytest

from jonline._sweep import driver
from tests.small_sweep import StopError, counting

if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["JONLINE_TESTS_CACHE"] = tempfile.mkdtemp(prefix="jonline-tests-")
    atexit.register(shutil.rmtree, os.environ["JONLINE_TESTS_CACHE"], ignore_errors=True)
jax.config.update("jax_compilation_cache_dir", os.environ["JONLINE_TESTS_CACHE"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Marks the tests of slow.txt, which says how."""
    cases = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for line in Path(__file__).with_name("slow.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        name, _, ends = line.partition("[")
        first, _, last = ends.rstrip("]").partition(":")
        for item in cases.get(name, [])[slice(int(first or 0), int(last) if last else None)]:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def stop_at(monkeypatch):
    """`stop_at(n)` lets the n-th call that plays raise; returns the calls."""
    real = driver.advance

    def arm(number):
        monkeypatch.setattr(driver, "advance", real)
        return counting(stop, number)

    def stop():
        raise StopError

    monkeypatch.setattr(driver, "advance", real)  # put back at the end
    return arm
