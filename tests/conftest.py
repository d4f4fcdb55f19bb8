"""Fixtures of all tests."""

import pytest

from jonline._sweep import driver as host
from tests.kept import StopError, counting


@pytest.fixture
def stop_at(monkeypatch):
    """`stop_at(n)` lets the n-th call that plays raise; returns the calls."""
    real = host.engine.advance

    def arm(number):
        monkeypatch.setattr(host.engine, "advance", real)
        return counting(stop, number)

    def stop():
        raise StopError

    monkeypatch.setattr(host.engine, "advance", real)  # put back at the end
    return arm
