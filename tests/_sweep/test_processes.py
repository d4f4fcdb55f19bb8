"""Several processes on this machine that share the blocks of a sweep."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import jonline
from jonline._sweep import blocks, processes
from tests.small_sweep import ROOT, child, free_port, play
from tests.test_runtime import child as script


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Results of two processes, one of which has two devices."""
    folder, port = tmp_path_factory.mktemp("two"), free_port()
    files = [folder / f"{i}.nc" for i in range(2)]
    started = [
        child(wait=False, processes=[port, 2, i], devices=1 + i, out=files[i], folder=folder / "c")
        for i in range(2)
    ]
    errors = [process.communicate(timeout=120)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], errors
    return [jonline.load(file) for file in files]


def test_every_process_has_the_results_of_one_to_the_bit(two):
    expected = play()
    states = dict(zip(("[0]", "[1]"), expected.states, strict=True))
    for result in two:
        for name, sums in expected.records.items():
            assert result.records[name].dtype == sums.dtype
            assert result.records[name].tobytes() == sums.tobytes()
        for name, leaf in states.items():
            assert result.states[name].dtype == leaf.dtype
            assert result.states[name].tobytes() == leaf.tobytes()
        np.testing.assert_array_equal(result.undelivered, expected.undelivered)
    assert [result.environment["device"] for result in two] == ["1 x cpu", "2 x cpu"]


TWO = """
import json, sys, warnings
import jax, jonline
port, i = sys.argv[1], int(sys.argv[2])
jonline.configure(threads=1, host_devices=1 + i)
jonline.join(f"localhost:{port}", 2, i)
import jax.numpy as jnp
import numpy as np
from jonline import Environment, Learner, oracles
from jonline._engine import programs
from jonline._engine.block import ENDLESS, Inputs, Plan, build
from tests.games import Output, clock, no_metrics
warnings.simplefilter("ignore")


def make(point, data):
    update = lambda state, x, *_: jnp.where(x[0] == point["at"], jnp.nan, state + 1)
    learner = Learner(lambda key: jnp.zeros(()), lambda s, x, k: Output(s), update)
    return learner, Environment(clock(), oracles.label())


def play(**settings):
    grid = {"at": [-1.0, 35.0, 7.0]}
    settings = dict(num_rounds=40, num_seeds=16, key=0, record_every=10) | settings
    return jonline.sweep(make, no_metrics, grid, **settings)


bad = [list(found) for found in play(block=16).non_finite]
try:
    play()
    message = ""
except ValueError as error:
    message = str(error)
plan = Plan(make, no_metrics, 1, 10, 4, ENDLESS)
keys = jax.random.split(jax.random.key(0), 16)
build(plan, Inputs(None, keys, {"at": np.zeros(1, np.float32)}))
text = [*programs._kept.values()][-1][1].as_text()
print(json.dumps([bad, message, text]))
"""


@pytest.fixture(scope="module")
def told():
    port = str(free_port())
    started = [
        subprocess.Popen(
            [sys.executable, "-c", TWO, port, str(i)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for i in range(2)
    ]  # fmt: skip
    spoken = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0, 0], spoken
    return [json.loads(out.splitlines()[-1]) for out, _ in spoken]


def test_runs_that_are_not_finite_are_known_to_all(told):
    expected = [[1, seed, 3, "state"] for seed in range(16)]
    expected += [[2, seed, 0, "state"] for seed in range(16)]
    assert [found[0] for found in told] == [expected, expected]


def test_processes_that_would_cut_a_sweep_differently_are_an_error(told):
    """They have other numbers of devices, and nobody has said how many lanes a block has."""
    for _, message, _ in told:
        assert re.match(
            r"the processes differ in their blocks \(seeds, points\): \[\[.*give all", message
        )


def test_program_of_a_block_holds_no_collective(told):
    for _, _, text in told:
        assert "while" in text and "fusion" in text
        assert not re.search(
            r"all-reduce|all-gather|all-to-all|reduce-scatter|collective|partition-id|replica-id",
            text,
        )


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (dict(coordinator="a:1"), ValueError, "must be given all or none"),
        (dict(num_processes=2, process_id=0), ValueError, "must be given all or none"),
        (dict(coordinator="a:1", num_processes=0, process_id=0), ValueError, "num_processes must"),
        (
            dict(coordinator="a:1", num_processes=2, process_id=2),
            ValueError,
            "process_id must be < 2",
        ),
        (dict(coordinator="a:1", num_processes=2, process_id=-1), ValueError, "process_id must"),
        (dict(coordinator="a:1", num_processes=2.0, process_id=0), TypeError, "num_processes"),
        (dict(coordinator="a:1", num_processes=2, process_id="0"), TypeError, "process_id"),
        (dict(coordinator=7, num_processes=2, process_id=0), TypeError, "coordinator must be"),
        (dict(coordinator="a", num_processes=2, process_id=0), ValueError, "coordinator must be"),
        (dict(coordinator="a:x", num_processes=2, process_id=0), ValueError, "coordinator must be"),
    ],
)
def test_bad_arguments_of_join_are_named(given, error, message):
    with pytest.raises(error, match=message):
        jonline.join(**given)


def test_join_after_the_first_array_is_an_error():
    found = script(f"""
import jax.numpy as jnp, jonline
jnp.zeros(())
try:
    jonline.join("localhost:{free_port()}", 1, 0)
except RuntimeError as error:
    print(json.dumps(str(error)))
""")
    assert "before" in found


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_gathered_blocks_lie_where_they_were(count, monkeypatch):
    """As if there were so many processes, each with its own blocks alone."""
    found = blocks.cut(7, 5, (4, 2))
    whole = np.arange(7 * 5 * 3, dtype=np.float32).reshape(5, 7, 3)
    monkeypatch.setattr(processes.jax, "process_count", lambda: count)
    sent = {}

    def gather(part):
        return np.stack([sent[i] for i in range(count)])

    for collect in (sent.__setitem__, None):
        for number in range(count):
            monkeypatch.setattr(processes.jax, "process_index", lambda number=number: number)
            leaf = np.full_like(whole, np.nan)
            for _, block in processes.own_blocks(found):
                leaf[block.where] = whole[block.where]
            if collect:

                def keep(part, number=number):
                    sent[number] = part
                    return np.stack([part] * count)

                monkeypatch.setattr(processes, "_of_processes", keep)
                processes.gathered(leaf, found)
            else:
                monkeypatch.setattr(processes, "_of_processes", gather)
                np.testing.assert_array_equal(processes.gathered(leaf, found), whole)
    assert sum(part.nbytes for part in sent.values()) <= (len(found) + count) * 4 * 2 * 3 * 4
