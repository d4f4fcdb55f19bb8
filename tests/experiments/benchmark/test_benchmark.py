"""The benchmark's references play the same game as jonline, and its smoke run ends well."""

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from experiments.benchmark import contest
from experiments.benchmark import dford as of_dford
from experiments.benchmark import kernel as of_kernel
from experiments.benchmark import peers as of_peers
from experiments.benchmark import structured as of_outputs
from experiments.benchmark.references import dford as reference
from experiments.benchmark.references import estimates
from experiments.benchmark.references import kernel as kernel_reference
from experiments.benchmark.references import structured as output_reference
from experiments.shared.commands import HERE
from jonline import structured

pytestmark = pytest.mark.slow

ROUNDS = 1000


@pytest.fixture(scope="module")
def table():
    return reference.make_table(2000)


@pytest.fixture(scope="module")
def lanes():
    return reference.make_lanes(np.asarray([4.0, 4.0]), np.asarray([0.3, 0.8]), 3)


def test_draws_are_uniform():
    rows, uniforms = reference.draws(3, 100_000, 7)
    counts = np.bincount(rows, minlength=7)
    assert np.max(np.abs(counts - 1e5 / 7)) < 5 * np.sqrt(1e5 / 7)
    assert abs(uniforms.mean() - 0.5) < 5 / np.sqrt(12e5)
    assert abs(np.corrcoef(rows, uniforms)[0, 1]) < 5 / np.sqrt(1e5)


def test_all_references_play_the_same_rounds(table, lanes):
    loop = [reference.numpy_loop(table, k, lanes, ROUNDS) for k in range(6)]
    # the loop is float64, the kernels float32 in another order: a score that all but ties with a
    # threshold may fall on either side
    for kernel in (reference.numba_single, reference.numba_lanes):
        np.testing.assert_allclose(kernel(table, lanes, ROUNDS), loop, atol=0.02)


def test_lanes_beyond_a_tile_play_as_those_in_it(table):
    point = np.asarray([4.0]), np.asarray([0.5])
    many = reference.make_lanes(*point, reference.TILE + 10)
    alone = reference.Lanes(*(entry[-1:] for entry in many))
    together = reference.numba_lanes(table, many, 50)
    np.testing.assert_allclose(together[-1:], reference.numba_single(table, alone, 50), atol=0.05)


def test_jonline_learns_what_the_references_learn(table):
    data, num_seeds = contest.as_dataset(table), 30
    grid = of_dford.grid(2)
    lanes = reference.make_lanes(grid["reg"], grid["explore"], num_seeds, clip=of_dford.CLIP)
    theirs = reference.numba_lanes(table, lanes, ROUNDS).reshape(2, num_seeds)
    ours = contest.play_jonline(of_dford.make, grid, data, num_seeds, ROUNDS, ROUNDS)
    error = np.sqrt(theirs.var(axis=1, ddof=1).mean() / 2 / num_seeds)
    assert abs(ours - theirs.mean()) < 5 * np.sqrt(2) * error


@pytest.fixture(scope="module")
def small_table():
    return kernel_reference.make_small_table()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("budget", [1, 50, 200])  # 64 terms are added up together
def test_kernel_references_play_the_same_rounds(small_table, budget, sparse):
    lanes = of_kernel.make_lanes(4)
    loop = [kernel_reference.kernel_numpy(small_table, budget, k, lanes, ROUNDS) for k in range(4)]
    played = kernel_reference.kernel_numba(small_table, budget, lanes, ROUNDS, sparse=sparse)
    # float64 against float32: a score that all but ties with a threshold may fall on either side
    np.testing.assert_allclose(played, loop, atol=0.02)


def test_kernel_reference_pads_its_features(small_table):
    narrow = small_table._replace(x=small_table.x[:, :7])
    lanes = of_kernel.make_lanes(1)
    loop = kernel_reference.kernel_numpy(narrow, 100, 0, lanes, ROUNDS)
    played = kernel_reference.kernel_numba(narrow, 100, lanes, ROUNDS)
    np.testing.assert_allclose(played, loop, atol=0.02)


@pytest.mark.parametrize("way", ["ring", "explicit"])
def test_jonline_learns_with_a_kernel_what_the_references_learn(small_table, way):
    budget, num_seeds, data = 100, 32, contest.as_dataset(small_table)
    hypothesis = of_kernel.both(budget, 10)[way]
    theirs = kernel_reference.kernel_numba(
        small_table, budget, of_kernel.make_lanes(num_seeds), ROUNDS
    )
    ours = contest.play_jonline(
        partial(of_kernel.make, hypothesis), of_kernel.POINT, data, num_seeds, ROUNDS, ROUNDS
    )
    error = np.sqrt(theirs.var(ddof=1) / num_seeds)
    assert abs(ours - theirs.mean()) < 5 * np.sqrt(2) * error


def test_kernel_bars_are_those_of_the_budgets_timed():
    names = ["numba, sparse", "jonline, ring", "jonline, explicit"]
    ns = {f"{name}, kernel 500": 2.0**k for k, name in enumerate(names)}
    assert [bar.reached for bar in of_kernel.targets(ns)] == [0.5, 0.25]
    assert of_kernel.targets({}) == []


@pytest.mark.parametrize("skip", [False, True])
def test_references_of_classes_play_the_same_rounds(skip):
    task = of_outputs.classes(5, 30)
    args = task.table, task.setting
    loop = [output_reference.classes_numpy(*args, k, ROUNDS, skip=skip) for k in range(4)]
    played = output_reference.classes_numba(*args, 4, ROUNDS, skip=skip)
    # float64 against float32: a uniform number may fall on the other side of a sum of P
    np.testing.assert_allclose(played, loop, atol=0.01)


def test_jonline_learns_classes_as_the_references_do():
    task, num_seeds = of_outputs.classes(5, 30), of_outputs.SEEDS
    theirs = output_reference.classes_numba(task.table, task.setting, 200, ROUNDS)
    ours = of_outputs.sweeper(task, ROUNDS).play()
    error = np.sqrt(theirs.var(ddof=1) * (1 / num_seeds + 1 / 200))
    assert abs(ours - theirs.mean()) < 5 * error
    assert theirs.mean() + 5 * error < task.constant


@pytest.mark.parametrize("name", ["subsets", "rankings"])
def test_jonline_learns_from_the_loss_alone_what_numpy_learns(name):
    spaces = {"subsets": ((8, 2), estimates.subsets), "rankings": ((3,), estimates.rankings)}
    sizes, make_space = spaces[name]
    task, rounds = getattr(of_outputs, name)(*sizes), 500
    moments = task.space.uniform_mean, task.space.uniform_second_moment
    theirs = [
        estimates.play(
            make_space(*sizes), task.space.loss, moments, task.table, task.setting, seed, rounds
        )
        for seed in range(10)
    ]
    ours = of_outputs.sweeper(task, rounds).play()  # the mean of 20 seeds
    error = np.std(theirs, ddof=1) * np.sqrt(1 / 10 + 1 / 20)
    assert abs(ours - np.mean(theirs)) < 5 * error
    assert max(ours, np.mean(theirs)) < task.constant


@pytest.mark.parametrize("theta", [np.zeros(6), np.arange(6.0), np.array([5, 5, 5, -9, -9, 0.2])])
def test_numpys_subset_means_are_projections(theta):
    point = estimates.subsets(6, 2).mean(theta)
    expected = structured.subsets(6, 2).mean(np.float32(theta))
    np.testing.assert_allclose(point, expected, atol=1e-5)


def test_peers_learn_the_stream():
    x, y = of_peers.make_stream(1500)
    constant = 1 - np.bincount(y).max() / len(y)
    for package, player in (
        ("river", of_peers.river_player),
        ("vowpalwabbit", of_peers.vowpal_player),
    ):
        pytest.importorskip(package)
        assert player(x, y)() < constant - 0.2


def test_peer_that_is_not_installed_is_left_out_and_named(monkeypatch):
    monkeypatch.setattr(of_peers, "find_spec", lambda module: None)
    assert of_peers.missing() == ["river, digits", "Vowpal Wabbit, digits"]
    names = [one.name for one in of_peers.contestants(50, smoke=False)]
    assert len(names) == 4 and all(name.startswith("jonline") for name in names)


def test_ratio_without_an_aim_has_no_verdict():
    ns = {"river, digits": 8.0, "jonline, semi-bandit, digits, 1 lane": 2.0}
    (ratio,) = of_peers.targets(ns)
    assert contest.verdict(ratio) == {
        "name": "digits, 1 lane / river",
        "reached": 4.0,
        "first": "",
        "ambition": "",
        "met": "",
    }


def test_first_call_is_blank_where_nothing_compiles():
    timing = contest.Timing(1.5, [0.5], [0.5], 0.0)
    one = contest.Contestant("compiled", 1, 1, 1, 1.0, lambda: 0.0)
    assert contest.compile_seconds(one, timing) == 1.0
    assert contest.compile_seconds(one._replace(compiles=False), timing) == ""


@pytest.mark.slow
def test_smoke_run_writes_contestants_and_targets(tmp_path):
    command = ["benchmark", "--smoke", "--repetitions", "1", "--long-rounds", "10000"]
    done = subprocess.run(
        [sys.executable, "-m", "experiments", *command, "--out", str(tmp_path)],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "benchmark.json").read_text("utf-8"))
    names = {"NumPy", "numba, lanes", "jonline, 240 lanes, shared", "jonline, ring, kernel 50"}
    names |= {"jonline, OSP K=10", "pinv, solve", "jonline, semi-bandit, digits, 20 lanes"}
    assert names <= set(report["contestants"])
    assert all(target["reached"] == target["reached"] for target in report["targets"])
    assert report["provenance"]["environment"]["NPROC"] == "1"
