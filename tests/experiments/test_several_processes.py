"""Experiments in several processes, as their environment variables say."""

import os
import subprocess
import sys
import time

import jax
import pytest

from experiments import __main__ as command
from experiments import compare
from experiments.shared.sweeps import play_all
from tests.small_sweep import ROOT, free_port

NAMES = ("JONLINE_COORDINATOR", "JONLINE_PROCESSES", "JONLINE_PROCESS")


def test_several_processes_play_sweeps_one_after_another_in_order(monkeypatch):
    monkeypatch.setattr(jax, "local_devices", lambda: ["one", "two"])
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    at_work, order = [], []

    def sweep(name):
        def play(device):
            assert device == "one" and not at_work
            at_work.append(name)
            time.sleep(0.01)
            order.append(at_work.pop())

        return play

    play_all({name: sweep(name) for name in "abcdefgh"})
    assert order == [*"abcdefgh"]


def test_variables_are_given_all_or_none(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("SLURM_STEP_NUM_TASKS", raising=False)
    command._join_others()
    monkeypatch.setenv(NAMES[0], "localhost:1")
    with pytest.raises(ValueError, match="JONLINE_PROCESS: all or none"):
        command._join_others()


@pytest.mark.slow  # three processes that compile three learners each
def test_two_processes_write_what_one_does(tmp_path):
    arguments = [sys.executable, "-m", "experiments", "dford_curves", "--smoke", "--out"]
    environ = {name: text for name, text in os.environ.items() if name not in NAMES}
    subprocess.run([*arguments, str(tmp_path / "one")], cwd=ROOT, env=environ, check=True)
    values = (f"localhost:{free_port()}", "2")
    started = [
        subprocess.Popen(
            [*arguments, str(tmp_path / "two")],
            cwd=ROOT,
            env=environ | dict(zip(NAMES, (*values, str(i)), strict=True)),
        )
        for i in range(2)
    ]
    assert [process.wait(300) for process in started] == [0, 0]
    files = [tmp_path / name / "records.nc" for name in ("one", "two")]
    assert compare.main(compare.Options(*files)) == 0
    assert files[0].read_bytes() == files[1].read_bytes()
