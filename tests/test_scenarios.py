"""What users do with sweeps, where no other test holds it; docs/scenarios.md has the whole list."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import Environment, Learner, hypotheses, metrics, oracles, ordinal, streams
from jonline.core import Example
from tests.games import K, N, Output, clock, make_dford, no_metrics, table
from tests.small_sweep import ROOT

POINT = {"reg": 1.0, "explore": 0.5}


def test_recording_every_thousandth_round_keeps_the_last_point_and_exact_sums():
    settings = dict(data=table(), num_rounds=5000, key=0)
    fine = jonline.run(make_dford, metrics.ordinal, POINT, record_every=1, **settings)
    coarse = jonline.run(make_dford, metrics.ordinal, POINT, record_every=1000, **settings)
    counts = fine.records["output_error"][0, 0]
    np.testing.assert_array_equal(
        coarse.records["output_error"][0, 0], counts.reshape(5, 1000).sum(axis=1)
    )
    np.testing.assert_array_equal(coarse.to_xarray()["round"], [1000, 2000, 3000, 4000, 5000])


def test_nan_at_round_83214_is_named_with_its_window_and_traced():
    at = 83_214

    def make(point, data):
        def update(state, x, prediction, feedback, key):
            return jnp.where(x[0] == point["at"], jnp.nan, state + 1.0)

        learner = Learner(lambda key: jnp.zeros(()), lambda s, x, k: Output(s), update)
        return learner, Environment(clock(), oracles.label())

    def of_state(example, prediction, feedback, state):
        return {"state": state}

    settings = dict(num_rounds=90_000, num_seeds=2, key=0, record_every=1000)
    with pytest.warns(RuntimeWarning, match=r"point 1 .*window 83 \(rounds 83000 to 83999\)"):
        result = jonline.sweep(make, of_state, {"at": [-1.0, float(at)]}, **settings)
    assert [found[:3] for found in result.non_finite] == [(1, 0, 83), (1, 1, 83)]
    seen = jonline.trace(make, {"at": float(at)}, key=0, first=at - 1, last=at + 3)
    np.testing.assert_array_equal(seen.state, [at - 1, at, np.nan, np.nan])
    alone = jonline.sweep(make, of_state, {"at": [-1.0]}, **settings)
    np.testing.assert_array_equal(result.records["state"][0], alone.records["state"][0])


def test_bias_column_beside_thresholds_is_learned():
    data = table(256)
    x = np.concatenate([data.x, np.ones((256, 1), np.float32)], axis=1)

    def make(point, data):
        hypothesis = hypotheses.linear(N + 1)
        learner = ordinal.dford(hypothesis, K, reg=point["reg"], explore=point["explore"])
        return learner, Environment(streams.resample(data), oracles.directional())

    settings = dict(num_rounds=4000, num_seeds=16, key=0, record_every=2000)
    grid = {"reg": [1.0], "explore": [0.5]}
    biased = jonline.sweep(make, metrics.ordinal, grid, data=Example(x, data.y), **settings)
    first, last = (biased.records["loss"][0, :, i].mean() for i in (0, 1))
    assert last < first and not biased.non_finite


def test_model_that_is_loaded_predicts_the_same_twice_with_one_key(tmp_path):
    settings = dict(data=table(), num_rounds=200, key=0, record_every=200)
    result = jonline.run(make_dford, metrics.ordinal, POINT, **settings)
    result.save(tmp_path / "model.nc")
    loaded = jonline.load(tmp_path / "model.nc")
    learner, _ = make_dford(POINT, table())
    tree = jax.tree.structure(result.states)
    state = jax.tree.unflatten(tree, [leaf[0, 0] for leaf in loaded.states.values()])
    x, key = table().x[0], jax.random.key(3)
    twice = [learner.predict(state, x, key) for _ in range(2)]
    here = learner.predict(jax.tree.map(lambda leaf: leaf[0, 0], result.states), x, key)
    for other in (twice[1], here):
        for a, b in zip(jax.tree.leaves(twice[0]), jax.tree.leaves(other), strict=True):
            np.testing.assert_array_equal(a, b)


def test_result_says_which_kind_of_keys_it_was_made_with(tmp_path):
    settings = dict(num_rounds=1, key=0, record_every=1)
    result = jonline.run(make_dford, no_metrics, POINT, data=table(), **settings)
    result.save(tmp_path / "a.nc")
    assert jonline.load(tmp_path / "a.nc").environment["prng_impl"] == "threefry2x32"


MEMORY = """
import resource, sys
import numpy as np, jax, jonline
jonline.configure(threads=1)
from jonline import metrics
from tests.games import make_dford, table


def peak():
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used * (1 if sys.platform == "darwin" else 1024)


def play(rounds, windows):
    grid = jonline.product_grid(reg=np.linspace(1, 5, 100), explore=0.5)
    return jonline.sweep(make_dford, metrics.ordinal, grid, data=table(), num_rounds=rounds,
                         num_seeds=100, key=0, record_every=rounds // windows, block=256)


play(8, 2)  # compiles
before = peak()
short = play(800, 200)
held = sum(leaf.nbytes for leaf in jax.tree.leaves((short.records, short.states)))
after = peak()
del short
play(4000, 200)
print(held, after - before, peak() - after)
"""


def test_memory_of_ten_thousand_lanes_is_their_records_and_a_block_for_any_number_of_rounds():
    """The bound of docs/large_sweeps.md, with 800 and 4 000 rounds for 1 000 000."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], cwd=ROOT, capture_output=True, text=True, check=True
    )
    held, more, more_with_rounds = map(int, done.stdout.split())
    assert held > 10_000 * 200 * 6 * 4
    # a block: 256 lanes x 256 windows x 7 sums x 4 bytes, twice; 16 MiB for the allocator
    assert more < held + 2 * 256 * 256 * 7 * 4 + 2**24
    assert more_with_rounds < 2**24  # of the 128 MB that one number of each round would be
