import json
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import Environment, Learner, metrics, oracles
from jonline._engine import programs
from jonline._engine.block import ENDLESS, Inputs, Plan, advance, build, start_block
from jonline._sweep import blocks, progress
from jonline.core import Example
from jonline.data import Dataset
from tests.games import K, N, Output, clock, make_dford, no_metrics, table

GRID = jonline.product_grid(reg=[1.0, 2.0, 4.0], explore=[0.25, 0.5])
SETTINGS = dict(data=table(), num_rounds=120, num_seeds=9, key=7, record_every=20)


@pytest.fixture(scope="module")
def whole():
    return jonline.sweep(make_dford, metrics.ordinal, GRID, **SETTINGS)


def equal(a, b):
    chex.assert_trees_all_equal(a.records, b.records)
    chex.assert_trees_all_equal(a.states, b.states)


def test_sweep_in_other_blocks_and_pieces_has_the_same_bits(whole):
    for settings in (
        dict(block=16),
        dict(block=32, windows_per_call=1),
        dict(block=256, windows_per_call=4),
    ):
        equal(jonline.sweep(make_dford, metrics.ordinal, GRID, **SETTINGS, **settings), whole)


def test_sweep_in_another_order_has_the_same_bits(whole):
    order = [4, 0, 5, 2, 1, 3]
    grid = {name: axis[order] for name, axis in GRID.items()}
    other = jonline.sweep(make_dford, metrics.ordinal, grid, **SETTINGS)
    for name, sums in other.records.items():
        np.testing.assert_array_equal(sums, whole.records[name][order])


def test_what_is_measured_does_not_touch_the_run(whole):
    def only_output(example, prediction, feedback, state):
        return {"output": prediction.output}

    other = jonline.sweep(make_dford, only_output, GRID, **SETTINGS)
    chex.assert_trees_all_equal(other.states, whole.states)


def test_run_alone_equals_its_lane(whole):
    settings = {name: value for name, value in SETTINGS.items() if name != "num_seeds"}
    for point, seed in ((0, 0), (3, 8)):
        at = {name: axis[point] for name, axis in GRID.items()}
        alone = jonline.run(make_dford, metrics.ordinal, at, seed=seed, **settings)
        for name, sums in alone.records.items():
            np.testing.assert_array_equal(sums[0, 0], whole.records[name][point, seed])


def test_run_resumed_from_a_saved_carry_has_the_same_bits(whole, tmp_path):
    plan = Plan(make_dford, metrics.ordinal, len(GRID["reg"]), 20, 8, ENDLESS)
    keys = jax.jit(jax.vmap(jax.random.fold_in, (None, 0)))(jax.random.key(7), jnp.arange(8))
    inputs = Inputs(SETTINGS["data"], keys, GRID)
    built = build(plan, inputs)
    for cut in (1, 2, 5):
        block, first = advance(built, start_block(built, inputs), 0, cut)
        np.savez(tmp_path / "carry.npz", *jax.tree.leaves(block.carry))
        with np.load(tmp_path / "carry.npz") as saved:
            leaves = [jnp.asarray(saved[name]) for name in saved.files]
        carry = jax.tree.unflatten(jax.tree.structure(block.carry), leaves)
        _, second = advance(built, block._replace(carry=carry), cut, 6)
        sums = np.concatenate([first.sums["loss"][:cut], second.sums["loss"][: 6 - cut]])
        np.testing.assert_array_equal(
            sums.reshape(6, 8, 6).transpose(2, 1, 0), whole.records["loss"][:, :8]
        )


def test_sweep_on_four_devices_has_the_same_bits(whole, tmp_path):
    """In a process with four simulated devices, and again with two threads a device."""
    script = """
import sys, numpy as np, jax, jonline
threads, out = int(sys.argv[1]), sys.argv[2]
jonline.configure(host_devices=4, threads=threads)
from tests._sweep.test_api import GRID, SETTINGS, make_dford
from jonline import metrics
assert len(jax.local_devices()) == 4
result = jonline.sweep(make_dford, metrics.ordinal, GRID, block=16, **SETTINGS)
np.savez(out, *jax.tree.leaves(result.states), **result.records)
"""
    for threads in (1, 2):
        out = tmp_path / f"{threads}.npz"
        subprocess.run(
            [sys.executable, "-c", script, str(threads), str(out)],
            check=True,
            cwd=Path(__file__).parents[2],
        )
        with np.load(out) as other:
            for name, sums in whole.records.items():
                np.testing.assert_array_equal(other[name], sums)
            for i, leaf in enumerate(jax.tree.leaves(whole.states)):
                np.testing.assert_array_equal(other[f"arr_{i}"], leaf)


def test_two_processes_write_the_same_bytes(whole, tmp_path):
    script = """
import sys, jonline
from tests._sweep.test_api import GRID, SETTINGS, make_dford
from jonline import metrics
result = jonline.sweep(make_dford, metrics.ordinal, GRID, **SETTINGS)
open(sys.argv[1], "wb").write(b"".join(result.records[n].tobytes() for n in sorted(result.records)))
"""
    subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "other")],
        check=True,
        cwd=Path(__file__).parents[2],
    )
    mine = b"".join(whole.records[name].tobytes() for name in sorted(whole.records))
    assert (tmp_path / "other").read_bytes() == mine


def test_progress_bar_changes_no_bits_and_says_compiling_first(whole, capfd):
    equal(jonline.sweep(make_dford, metrics.ordinal, GRID, progress=True, **SETTINGS), whole)
    shown = capfd.readouterr().err
    assert shown.index("compiling") < shown.index("playing")
    assert "100%" in shown and "12/12" in shown


def test_progress_bars_of_several_threads_keep_their_lines(capfd):
    pytest.importorskip("tqdm")
    first, second = ExitStack(), ExitStack()
    first.enter_context(progress.bar(True, 3))(0)
    tick = second.enter_context(progress.bar(True, 1000))
    tick(0)
    first.close()  # the upper one
    tick(0)
    second.close()
    with progress.bar(True, 5) as tick:
        tick(0)
    lines = on_a_terminal(capfd.readouterr().err)
    assert all(line.startswith("playing") for line in lines)
    assert [re.findall(r"\d+/\d+|\]", line) for line in lines] == [
        ["0/3", "]"],
        ["0/1000", "]"],
        ["0/5", "]"],
    ]


def on_a_terminal(text):
    """Returns the lines that are to be seen at the end."""
    shown, row, column = np.full((20, 300), " "), 0, 0
    for token in re.findall(r"\x1b\[A|[\s\S]", text):
        if token == "\x1b[A":
            row -= 1
        elif token in "\r\n":
            row, column = row + (token == "\n"), 0
        else:
            shown[row, column] = token
            column += 1
    return [line for line in map("".join, shown) if line.strip()]


def test_grid_of_fifty_and_any_number_of_rounds_compile_once():
    grid = jonline.product_grid(reg=np.linspace(1, 5, 50), explore=0.5)
    settings = dict(data=table(), num_seeds=1, key=0, record_every=100)
    short = jonline.sweep(make_dford, metrics.ordinal, grid, num_rounds=1_000, **settings)
    known = {*programs._kept}
    long = jonline.sweep(make_dford, metrics.ordinal, grid, num_rounds=100_000, **settings)
    assert {*programs._kept} == known
    np.testing.assert_array_equal(long.records["loss"][..., :10], short.records["loss"])


def test_records_are_sums_over_windows_and_exact_for_counts(whole):
    seen = jonline.trace(
        make_dford, {"reg": 2.0, "explore": 0.5}, data=table(), key=7, seed=3, first=0, last=120
    )
    error = np.abs(seen.prediction.output - seen.example.y).reshape(6, 20).sum(axis=1)
    np.testing.assert_array_equal(whole.records["output_error"][3, 3], error)
    assert whole.records["output_error"].dtype == np.int32
    curve = whole.mean_curve("output_error")
    np.testing.assert_allclose(curve[3, 3], np.cumsum(error) / (20 * np.arange(1, 7)), rtol=1e-15)
    best = whole.best("output_error")
    finals = curve[..., -1].mean(axis=1)
    assert finals[best] == finals.min()


def test_trace_shows_the_rounds_of_a_lane_from_any_first_round(whole):
    at = dict(point={"reg": 2.0, "explore": 0.5}, data=table(), key=7, seed=3)
    all_rounds = jonline.trace(make_dford, first=0, last=120, **at)
    later = jonline.trace(make_dford, first=77, last=90, **at)
    chex.assert_trees_all_equal(jax.tree.map(lambda leaf: leaf[77:90], all_rounds), later)
    learner, _ = make_dford(at["point"], table())
    final = jax.tree.map(lambda leaf: leaf[-1], all_rounds)
    new = jax.jit(learner.update)(
        final.state, final.example.x, final.prediction, final.feedback, jax.random.key(0)
    )
    lane = jax.tree.map(lambda leaf: leaf[3, 3], whole.states)
    chex.assert_trees_all_close(new, lane, rtol=1e-6)


def test_points_of_a_seed_share_their_examples():
    def make(point, data):
        _, environment = make_dford({"reg": 1.0, "explore": point["explore"]}, data)
        return make_dford({"reg": 1.0, "explore": point["explore"]}, data)[0], environment

    def labels(example, prediction, feedback, state):
        return {"label": example.y}

    grid = jonline.product_grid(explore=[0.1, 0.5, 0.9])
    result = jonline.sweep(
        make, labels, grid, data=table(), num_rounds=40, num_seeds=3, key=0, record_every=1
    )
    for point in (1, 2):
        np.testing.assert_array_equal(result.records["label"][0], result.records["label"][point])
    assert not np.array_equal(result.records["label"][0, 0], result.records["label"][0, 1])


def test_one_seed_one_round_one_point_without_hyperparameters():
    def make(point, data):
        assert point == {}
        return make_dford({"reg": 1.0, "explore": 0.5}, data)

    settings = dict(data=table(), num_rounds=1, key=0, record_every=1)
    result = jonline.sweep(make, metrics.ordinal, {}, num_seeds=1, **settings)
    assert result.records["loss"].shape == (1, 1, 1)
    equal(result, jonline.run(make, metrics.ordinal, {}, **settings))


def test_keys_of_every_kind_mean_the_same_root():
    roots = [7, np.int64(7), jax.random.key(7), jax.random.PRNGKey(7)]
    results = [
        jonline.run(
            make_dford, metrics.ordinal, {"reg": 1.0, "explore": 0.5}, data=table(),
            num_rounds=20, key=root, record_every=20,
        )
        for root in roots
    ]  # fmt: skip
    for other in results[1:]:
        equal(results[0], other)


def test_keys_given_one_by_one_are_the_seeds(whole):
    keys = jax.jit(jax.vmap(jax.random.fold_in, (None, 0)))(jax.random.key(7), jnp.arange(9))
    settings = SETTINGS | {"key": keys}
    equal(jonline.sweep(make_dford, metrics.ordinal, GRID, **settings), whole)


def test_run_that_is_not_finite_is_named_and_the_others_are_untouched():
    def make(point, data):
        learner = Learner(
            init=lambda key: jnp.zeros(()),
            predict=lambda state, x, key: Output(jnp.int32(1)),
            update=lambda state, x, *_: jnp.where(x[0] > point["last"], jnp.nan, state + 1.0),
        )
        return learner, Environment(clock(), oracles.label())

    def state_metric(example, prediction, feedback, state):
        return {"state": state, "rounds": 1}

    settings = dict(num_rounds=100, num_seeds=2, key=0, record_every=10)
    grid = jonline.product_grid(last=[1000.0, 57.0])
    with pytest.warns(RuntimeWarning, match=r"point 1 \{'last': 57.0\}, seed 0, in window 5"):
        result = jonline.sweep(make, state_metric, grid, **settings)
    assert result.non_finite == ((1, 0, 5, "state"), (1, 1, 5, "state"))
    alone = jonline.sweep(make, state_metric, {"last": [1000.0]}, **settings)
    np.testing.assert_array_equal(result.records["state"][:1], alone.records["state"])
    assert result.best("rounds") == 0


def test_features_too_large_for_the_learner_are_flagged():
    x = np.full((4, N), 1e30, np.float32)
    data = Example(x, np.array([1, 2, 3, 4], np.int32))
    with pytest.warns(RuntimeWarning, match="not finite in 'state'"):
        result = jonline.run(
            make_dford, metrics.ordinal, {"reg": 1e-9, "explore": 0.5}, data=data,
            num_rounds=50, key=0, record_every=10,
        )  # fmt: skip
    assert result.non_finite


def test_product_grid_has_all_combinations_last_axis_fastest():
    grid = jonline.product_grid(a=[1, 2], b=[0.5, 1.5, 2.5], c=7)
    np.testing.assert_array_equal(grid["a"], [1, 1, 1, 2, 2, 2])
    np.testing.assert_array_equal(grid["b"], [0.5, 1.5, 2.5] * 2)
    np.testing.assert_array_equal(grid["c"], [7] * 6)
    assert grid["b"].dtype == np.float64 and grid["a"].dtype == np.int64
    assert jonline.product_grid() == {}


def bad_data(**changes):
    data = table()
    x, y = data.x.copy(), data.y.copy()
    for (row, column), value in changes.get("x", {}).items():
        x[row, column] = value
    for row, value in changes.get("y", {}).items():
        y[row] = value
    return Dataset(x, y, K)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (dict(data=bad_data(x={(5, 2): np.nan})), ValueError, "finite, got nan in row 5, column 2"),
        (dict(data=bad_data(x={(0, 0): np.inf})), ValueError, "finite, got inf in row 0, column 0"),
        (dict(data=bad_data(y={3: 0})), ValueError, "labels must be in 1…5, got 0 in row 3"),
        (dict(data=bad_data(y={9: 6})), ValueError, "labels must be in 1…5, got 6 in row 9"),
        (dict(data=Example(["a"], [1])), TypeError, "must be an array"),
        (dict(data=Example(np.array(["a"]), np.array([1]))), TypeError, "must hold numbers"),
        (dict(grid={"reg": [1.0], "explore": [1.5]}), ValueError, r"explore must be in \[0, 1\]"),
        (dict(grid={"reg": [0.0], "explore": [0.5]}), ValueError, "reg must be > 0"),
        (dict(grid={"reg": ["a"], "explore": [0.5]}), TypeError, "'reg' must hold numbers"),
        (dict(grid={"reg": [1.0, 2.0], "explore": [0.5]}), ValueError, "must have one length"),
        (dict(grid={"reg": [], "explore": []}), ValueError, "'reg' must be a non-empty"),
        (dict(grid={"reg": [True], "explore": [0.5]}), TypeError, "'reg' must hold numbers"),
        (dict(record_every=50), ValueError, "not a multiple of record_every=50; use 100 or 150"),
        (dict(record_every=500), ValueError, "record_every=500; use 500"),
        (dict(record_every=0), ValueError, "record_every must be >= 1, got 0"),
        (dict(num_rounds=0), ValueError, "num_rounds must be >= 1, got 0"),
        (dict(num_rounds=1e3), TypeError, "num_rounds must be a Python int, got float 1000.0"),
        (dict(grid=None), TypeError, "grid must be a dict of numbers by name, got None"),
        (dict(data=[1, 2]), TypeError, r"data must have .x and .y, .*from_arrays.*, got list"),
        (dict(grid={"reg": [1.0], "explore": [1.1]}), ValueError, r"in \[0, 1\], got 1\.1\n"),
        (dict(num_seeds=0), ValueError, "num_seeds must be >= 1, got 0"),
        (dict(key=None), TypeError, "key must be an int, jax.random.key"),
        (dict(key=True), TypeError, "key must be an int"),
        (dict(key=1.5), TypeError, "key must be an int"),
        (dict(key=jax.random.split(jax.random.key(0), 3)), ValueError, "num_seeds=9 of them"),
        (dict(key=jnp.stack([jax.random.key(1)] * 9)), ValueError, "must differ.*0, 1, 2"),
        (dict(block=20), ValueError, "block must be a multiple of 16, got 20"),
        (dict(block=0), ValueError, "block must be >= 16, got 0"),
        (dict(devices=[]), ValueError, "devices must name at least one"),
        (dict(windows_per_call=0), ValueError, "windows_per_call must be >= 1"),
    ],
)
def test_bad_input_is_an_error_before_tracing(changes, error, message):
    settings = dict(grid=GRID, **SETTINGS) | changes
    with pytest.raises(error, match=message):
        jonline.sweep(never_traced, metrics.ordinal, settings.pop("grid"), **settings)


def never_traced(point, data):
    assert not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((point, data)))
    return make_dford(point, data)


def test_error_of_a_factory_names_the_point():
    grid = jonline.product_grid(reg=[1.0, 2.0, -3.0], explore=0.5)
    with pytest.raises(ValueError, match="reg must be > 0 and finite, got -3.0") as caught:
        jonline.sweep(make_dford, metrics.ordinal, grid, **SETTINGS)
    assert caught.value.__notes__ == ["at point 2 of the grid, {'reg': -3.0, 'explore': 0.5}"]


def test_note_shows_numbers_with_the_digits_they_have():
    with pytest.raises(ValueError) as caught:
        jonline.sweep(make_dford, metrics.ordinal, {"reg": [0.1], "explore": [1.1]}, **SETTINGS)
    assert caught.value.__notes__ == ["at point 0 of the grid, {'reg': 0.1, 'explore': 1.1}"]


def test_name_that_is_no_metric_is_an_error_that_lists_them(whole):
    for read in (whole.best, whole.mean_curve):
        with pytest.raises(ValueError, match=r"name must be one of \['.*'loss'.*, got 'bogus'"):
            read("bogus")


def test_history_over_two_gigabytes_is_refused_with_its_size():
    with pytest.raises(ValueError, match="would need 8000000000 bytes.*record_every=num_rounds"):
        jonline.sweep(
            never_traced, metrics.ordinal, jonline.product_grid(reg=np.ones(50), explore=0.5),
            data=table(), num_rounds=10**6, num_seeds=40, key=0, record_every=1,
        )  # fmt: skip


def test_forgotten_key_is_a_type_error():
    with pytest.raises(TypeError, match="key"):
        jonline.sweep(make_dford, metrics.ordinal, GRID, num_rounds=1, num_seeds=1, record_every=1)


def test_make_that_returns_something_else_is_a_type_error():
    with pytest.raises(TypeError, match="make must return"):
        jonline.run(lambda p, d: None, no_metrics, {}, num_rounds=1, key=0, record_every=1)


def test_metric_that_is_no_scalar_is_an_error():
    with pytest.raises(ValueError, match="metric 'x' must be a scalar, got shape"):
        jonline.run(
            make_dford, lambda e, p, f, s: {"x": e.x}, {"reg": 1.0, "explore": 0.5},
            data=table(), num_rounds=1, key=0, record_every=1,
        )  # fmt: skip


def test_trace_needs_a_stretch():
    for first, last in ((-1, 3), (3, 3), (4, 2)):
        with pytest.raises(ValueError, match="must be >="):
            jonline.trace(make_dford, {"reg": 1.0, "explore": 0.5}, data=table(), key=0,
                          first=first, last=last)  # fmt: skip


def test_other_kinds_of_keys_are_warned_of():
    with pytest.warns(RuntimeWarning, match="keys of kind rbg"):
        jonline.sweep(
            make_dford, metrics.ordinal, GRID, **SETTINGS | {"key": jax.random.key(0, impl="rbg")}
        )


@pytest.mark.parametrize(
    ("seeds", "points", "block", "most", "sides"),
    [
        (10, 24, None, 256, (10, 24)),
        (50, 24, None, 256, (10, 24)),
        (1, 1, None, 16, (1, 16)),
        (240, 1, None, 240, (240, 1)),
        (10, 24, 32, 256, (4, 8)),
    ],
)
def test_blocks_waste_as_little_as_they_can(seeds, points, block, most, sides):
    assert blocks.shape(seeds, points, block, most) == sides


@pytest.mark.parametrize("seeds", [1, 3, 17])
@pytest.mark.parametrize("points", [1, 5, 33])
def test_blocks_cover_every_run_once(seeds, points):
    for block in (None, 16, 48):
        sides = blocks.shape(seeds, points, block, 64)
        assert (sides[0] * sides[1]) % 16 == 0
        covered = np.zeros((points, seeds), int)
        for part in blocks.cut(seeds, points, sides):
            covered[part.where] += 1
        np.testing.assert_array_equal(covered, 1)


def test_result_as_xarray_has_named_axes(whole):
    labelled = whole.to_xarray()
    assert labelled["loss"].dims == ("point", "seed", "round")
    np.testing.assert_array_equal(labelled["round"], 20 * np.arange(1, 7))
    np.testing.assert_array_equal(labelled["reg"], GRID["reg"])
    assert json.loads(json.dumps(labelled.attrs)) == {"record_every": 20}


def test_floating_sums_over_long_windows_lose_no_digits():
    def make(point, data):
        learner = Learner(lambda key: jnp.zeros(()), lambda s, x, k: Output(x), lambda s, *_: s)
        return learner, Environment(clock(), oracles.label())

    def tenth(example, prediction, feedback, state):
        return {"tenth": jnp.where(example.x[0] >= 0, 0.1, 0.0), "odd": example.y % 2 == 1}

    rounds = 500_000
    result = jonline.run(make, tenth, {}, num_rounds=rounds, key=0, record_every=rounds // 2)
    total = result.mean_curve("tenth")[0, 0, -1] * rounds
    np.testing.assert_allclose(total, rounds * float(np.float32(0.1)), rtol=1e-7)
    assert result.records["odd"].sum() == rounds // 2
