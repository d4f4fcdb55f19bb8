"""Fixtures of all tests, and one cache of compiled programs for all processes of a run of them."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest

if "PYTEST_XDIST_WORKER" not in os.environ:  # before JAX is imported, here and in the workers
    cache = tempfile.mkdtemp(prefix="jonline-tests-")
    atexit.register(shutil.rmtree, cache, ignore_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = cache
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

from jonline._sweep import driver
from tests.small_sweep import StopError, counting


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
