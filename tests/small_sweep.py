"""A small sweep of the tests of checkpoints, which other processes play too.

As a script it plays it under what a JSON object says: see `child`.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import Environment, Learner, delays, oracles
from jonline._sweep import driver
from tests.games import Output, clock

ROOT = Path(__file__).parents[1]
GRID = jonline.product_grid(rate=[0.1, 0.5, 0.9])
NUM_BLOCKS, CALLS = 5, 3  # calls of a block
CALLS_IN_ALL = NUM_BLOCKS * CALLS
SETTINGS: dict[str, Any] = dict(
    num_rounds=120, num_seeds=20, key=7, record_every=10, block=16, windows_per_call=4
)


class StopError(Exception):
    """Ends a sweep where a test wants it to."""


def make(point, data):
    """A random walk whose steps depend on late answers."""
    del data

    def update(state, x, prediction, feedback, key):
        walk, count = state
        step = jax.random.uniform(key) * prediction.output - feedback.value * 1e-3
        return walk * point["rate"] + step, count + 1

    learner = Learner(
        init=lambda key: (jax.random.uniform(key), jnp.zeros((), jnp.int32)),
        predict=lambda state, x, key: Output(1.0 - state[0]),
        update=update,
    )
    return learner, Environment(clock(), oracles.label(), delays.fixed(3))


def metrics(example, prediction, feedback, state):
    return {"walk": state[0], "late": example.y - state[1]}


def play(folder=None, *, seconds=1e-9, **changes):
    """Plays the sweep, with a checkpoint after every call."""
    settings = {"grid": GRID, "make": make, "metrics": metrics} | SETTINGS | changes
    if folder is not None:
        settings |= dict(checkpoint=folder, checkpoint_seconds=seconds)
    parts = [settings.pop(name) for name in ("make", "metrics", "grid")]
    return jonline.sweep(*parts, **settings)


def bits(result):
    """Everything that a sweep measured, as bytes by name."""
    found = {f"records {name}": sums.tobytes() for name, sums in result.records.items()}
    found |= {
        jax.tree_util.keystr(where): np.asarray(leaf).tobytes()
        for where, leaf in jax.tree_util.tree_leaves_with_path(result.states)
    }
    return found | {"undelivered": result.undelivered.tobytes(), "bad": repr(result.non_finite)}


def counting(then, after=None):
    """Lets `then()` be called before call number `after` that plays; returns the calls."""
    calls, real = [], driver.advance

    def advance(*args):
        if args[-1] > args[-2]:  # not the call that only compiles
            if len(calls) == after:
                then()
            calls.append(args[-2:])
        return real(*args)

    driver.advance = advance
    return calls


def stopped(folder, stop_at, number, **settings):
    """Leaves a sweep in the folder that was stopped after a number of calls."""
    stop_at(number)
    with pytest.raises(StopError):
        play(folder, **settings)
    return stop_at(None)


def child(wait=True, **told):
    """Starts a process that plays the sweep, and waits for it.

    Args:
      wait: or return the Popen at once.
      told: folder; devices: their number; processes: [port, P, i]; die: "at call N", "in savez N"
        or "in rename N", counted from 0, by SIGKILL; out: file for the result.
    """
    environ = {name: text for name, text in os.environ.items() if name != "XLA_FLAGS"}
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.small_sweep", json.dumps(told, default=str)],
        cwd=ROOT,
        env=environ | {"JAX_PLATFORMS": "cpu", "NPROC": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    if wait:
        errors = process.communicate(timeout=120)[1]
        assert process.returncode == (-signal.SIGKILL if "die" in told else 0), errors
    return process


def free_port():
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


def _die_in(place, number):
    if place == "call":
        counting(_die, number)
        return
    module, name = {"savez": (np, "savez"), "rename": (os, "rename")}[place]
    real, calls = getattr(module, name), []

    def dying(to, *args, **kwargs):
        if name == "savez" or "block-" in str(to):
            if len(calls) == number:
                if name == "savez":
                    to.write(b"PK half of a file")
                    to.flush()
                _die()
            calls.append(to)
        return real(to, *args, **kwargs)

    setattr(module, name, dying)


def main(told):
    jonline.configure(host_devices=told.get("devices", 1))
    if "processes" in told:
        port, count, number = told["processes"]
        jonline.join(f"localhost:{port}", count, number)
    if "die" in told:
        _, place, number = told["die"].split()
        _die_in(place, int(number))
    with warnings.catch_warnings():
        if "processes" in told:
            warnings.simplefilter("default")  # of gloo and orbax
        result = play(told.get("folder"), **told.get("changes", {}))
    if "out" in told:
        result.save(told["out"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
