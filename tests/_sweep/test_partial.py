"""What is said of runs that are not finite."""

import re
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import jonline
from jonline import Environment, Learner, oracles
from tests.games import Output, clock

SETTINGS = dict(num_rounds=40, key=0, record_every=10)


def make(point, data):
    """Diverges in round `at`."""
    del data
    learner = Learner(
        init=lambda key: jnp.zeros(()),
        predict=lambda state, x, key: Output(state),
        update=lambda state, x, *_: jnp.where(x[0] >= point["at"], jnp.nan, state + 1.0),
    )
    return learner, Environment(clock(), oracles.label())


def metrics(example, prediction, feedback, state):
    return {"own": state, "rounds": 1}


def said(play, **settings):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = play(make, metrics, **SETTINGS | settings)
    return result, found


@pytest.mark.parametrize("devices", [1, 3])
def test_one_warning_of_all_runs_is_located_at_the_caller(devices):
    grid = {"at": [1e9, *[5.0] * 11, 25.0]}
    devices = jax.local_devices() * devices
    result, found = said(jonline.sweep, grid=grid, num_seeds=20, block=16, devices=devices)
    assert len(result.non_finite) == 240
    (warning,) = found
    assert warning.category is RuntimeWarning and warning.filename == __file__
    at = "point 1 {'at': 5.0}, seed"
    text = re.escape(
        "240 of 260 runs are not finite in 'state': "
        f"{at} 0, in window 0 (rounds 0 to 9); {at} 1, in window 0 (rounds 0 to 9); "
        f"{at} 2, in window 0 (rounds 0 to 9); and 237 more. SweepResult.non_finite has all"
    )
    assert re.match(text, str(warning.message))


def test_warning_of_one_run_is_located_at_the_caller():
    _, (warning,) = said(jonline.run, point={"at": 3.0})
    assert warning.filename == __file__
    assert str(warning.message).startswith("1 of 1 runs are not finite in 'state': point 0 {'at'")
    assert "more" not in str(warning.message)


def test_finite_runs_are_not_warned_of():
    assert said(jonline.run, point={"at": 1e9})[1] == []


@pytest.mark.parametrize("folder", ["jonline", "jonline_of_a_user"])
def test_warning_is_located_outside_of_jonline_only(folder):
    inner = str(Path(jonline.__file__).parent / "deep.py")
    outer = str(Path(jonline.__file__).parents[1] / folder / "file.py")
    names = {"warn": jonline.checks.warn}
    exec(compile("def inner():\n    warn('said')", inner, "exec"), names)
    exec(compile("def outer():\n    inner()", outer, "exec"), names)
    with pytest.warns(RuntimeWarning, match="said") as found:
        names["outer"]()
    assert found[0].filename == (__file__ if folder == "jonline" else outer)
