"""Results on disk and back."""

import errno
import os
import re
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import jonline
from jonline import Environment, Learner, SweepResult, oracles
from tests.games import Output, clock, no_metrics
from tests.small_sweep import bits, play

FLOATS = np.array([[0.0, -0.0], [np.nan, -np.inf], [1e-45, 3e38]], np.float32)


class State(NamedTuple):
    weights: np.ndarray
    flag: np.ndarray


def result(**changes):
    """One of 3 points, 2 seeds and 4 windows."""
    rng = np.random.default_rng(0)
    return SweepResult(
        **{
            "records": {"loss": rng.normal(size=(3, 2, 4)).astype(np.float32)},
            "states": State(FLOATS, FLOATS > 0),
            "grid": {"reg": np.array([1.0, 0.1, 1e-8], np.float32)},
            "record_every": 5,
            "undelivered": np.arange(6, dtype=np.int32).reshape(3, 2),
            "environment": {"jax": "1", "XLA_FLAGS": ""},
        }
        | changes
    )


def returned(value, path):
    value.save(path)
    return jonline.load(path)


def same(loaded, value):
    """Values, dtypes and order, to the bit."""

    def content(tree):
        return [(k, leaf.dtype, leaf.shape, leaf.tobytes()) for k, leaf in tree.items()]

    assert content(loaded.records) == content(value.records)
    assert content(loaded.grid) == content(value.grid)
    leaves = jax.tree_util.tree_leaves_with_path(value.states)
    named = {jax.tree_util.keystr(where): np.asarray(leaf) for where, leaf in leaves}
    assert content(loaded.states) == content(named)
    assert loaded.undelivered.tobytes() == value.undelivered.tobytes()
    rest = ("record_every", "non_finite", "environment")
    assert [getattr(loaded, n) for n in rest] == [getattr(value, n) for n in rest]


def test_what_a_sweep_measured_comes_back_to_the_bit(tmp_path):
    played = play()
    same(returned(played, tmp_path / "a.nc"), played)
    assert played.environment == jonline.versions()


@pytest.mark.parametrize(
    "dtype",
    [bool, np.int8, np.int32, np.int64, np.uint8, np.uint32, np.float16, np.float32, np.float64,
     jnp.bfloat16],
)  # fmt: skip
def test_states_of_every_dtype_and_rank_come_back(dtype, tmp_path):
    words = np.random.default_rng(0).integers(0, 2, (3, 2, 2, 5)).astype(dtype)
    states = {"a": words, "b": (words[..., 0, 0], words[:, :, :0]), "c": None}
    same(returned(result(states=states), tmp_path / "a.nc"), result(states=states))


@pytest.mark.parametrize(
    "changes",
    [
        dict(grid={}),
        dict(records={}),
        dict(states=()),
        dict(states=FLOATS),  # one array, whose place has no name
        dict(non_finite=(jonline.NonFinite(2, 1, 3, "state"), jonline.NonFinite(0, 0, 0, "loss"))),
        dict(environment={}),
        dict(grid={"a": np.array([1, 2, 3], np.int32), "b": np.array([0.1, 0.2, 0.3])}),
        dict(grid={"loss": np.arange(3.0), "seed": np.arange(3.0), "state": np.arange(3.0)}),
        dict(grid={name: np.arange(3.0) for name in ("point", "round", "undelivered", "a/b")}),
        dict(
            records={
                name: np.full((3, 2, 4), i)
                for i, name in enumerate(["state", "undelivered", "seed", "a/b", "a_b", "état"])
            },
            states=FLOATS,
        ),
        dict(states={"a/b": FLOATS, "a": {"b": FLOATS}}),
        dict(records={"loss": np.where(np.arange(24).reshape(3, 2, 4) % 3, np.nan, -0.0)}),
    ],
)
def test_odd_results_come_back(changes, tmp_path):
    same(returned(result(**changes), tmp_path / "a.nc"), result(**changes))


def test_x64_comes_back(tmp_path):
    with jax.enable_x64(True):
        played = play()
    assert played.states[0].dtype == np.float64 and played.records["walk"].dtype == np.float64
    same(returned(played, tmp_path / "a.nc"), played)


def test_axis_called_like_a_metric_has_a_name_of_its_own_in_xarray():
    dataset = result(grid={"loss": np.arange(3.0)}).to_xarray()
    assert dataset["loss"].dims == ("point", "seed", "round")
    np.testing.assert_array_equal(dataset["loss_"], np.arange(3.0))


def test_file_is_read_by_xarray_alone(tmp_path):
    result().save(tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as dataset:
        assert dataset["loss"].dims == ("point", "seed", "round")
        np.testing.assert_array_equal(dataset["round"], [5, 10, 15, 20])
        np.testing.assert_array_equal(dataset["reg"], result().grid["reg"])


def test_same_result_is_the_same_bytes(tmp_path):
    for name in ("a.nc", "b.nc"):
        result().save(tmp_path / name)
    assert (tmp_path / "a.nc").read_bytes() == (tmp_path / "b.nc").read_bytes()


def test_loaded_result_is_read_and_saved_again(tmp_path):
    loaded = returned(result(), tmp_path / "a.nc")
    np.testing.assert_array_equal(loaded.mean_curve("loss"), result().mean_curve("loss"))
    assert loaded.best("loss") == result().best("loss")
    again = returned(loaded._replace(states={}), tmp_path / "b.nc")
    assert bits(again) == bits(loaded._replace(states={}))


def test_file_that_is_not_there_or_is_none_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.nc"):
        jonline.load(tmp_path / "none.nc")
    (tmp_path / "text.nc").write_text("no NetCDF")
    result().to_xarray().to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    result().save(tmp_path / "half.nc")
    whole = (tmp_path / "half.nc").read_bytes()
    (tmp_path / "half.nc").write_bytes(whole[: len(whole) // 2])
    for name in ("text.nc", "other.nc", "half.nc"):
        with pytest.raises(OSError, match=f"{name}' is no file of SweepResult.save"):
            jonline.load(tmp_path / name)


@pytest.mark.parametrize("fails", ["to_netcdf", "replace"])
def test_file_is_replaced_whole_or_not_at_all(fails, tmp_path, monkeypatch):
    result().save(tmp_path / "a.nc")
    before = (tmp_path / "a.nc").read_bytes()

    def full(self, path, **_):
        (path if fails == "replace" else self).exists()
        raise OSError(errno.ENOSPC, "No space left on device")

    def to_netcdf(self, path, **_):
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        if fails == "replace":
            patch.setattr(os, "replace", full)
        else:
            patch.setattr(xr.Dataset, "to_netcdf", to_netcdf)
        with pytest.raises(OSError, match="a.nc' cannot be written.*No space left"):
            result(record_every=7).save(tmp_path / "a.nc")
    assert (tmp_path / "a.nc").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.nc"]


def make_of(point, data):
    """A learner whose state is a NamedTuple with a tree inside."""
    del data

    def update(state, x, prediction, feedback, key):
        return state._replace(weights={"a": state.weights["a"] + point["rate"]})

    learner = Learner(
        lambda key: Tree({"a": jnp.zeros((2, 3))}, None, jnp.zeros((), jnp.int32)),
        lambda state, x, key: Output(state.weights["a"][0, 0]),
        update,
    )
    return learner, Environment(clock(), oracles.label())


class Tree(NamedTuple):
    weights: dict
    none: None
    round: jax.Array


def test_state_of_a_run_is_the_learners_own_tree_also_after_load(tmp_path):
    grid = {"rate": [0.5, 0.25]}
    settings = dict(num_rounds=8, num_seeds=2, key=0, record_every=8)
    played = jonline.sweep(make_of, no_metrics, grid, **settings)
    learner, _ = make_of({"rate": 0.0}, None)
    for found in (played, returned(played, tmp_path / "a.nc")):
        for point, rate in enumerate(grid["rate"]):
            state = found.state(point, 1, learner)
            assert isinstance(state, Tree) and state.none is None
            np.testing.assert_array_equal(state.weights["a"], np.full((2, 3), 8 * rate))
            key = jax.random.key(0)
            state, _ = jonline.step(learner, state, jnp.ones(1), lambda p, k: None, key)
            np.testing.assert_array_equal(state.weights["a"], np.full((2, 3), 8 * rate))


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.float32, jnp.bfloat16])
@pytest.mark.parametrize("tree", [lambda leaf: leaf, lambda leaf: {"a": (leaf,)}])
def test_state_of_every_tree_and_dtype(dtype, tree, tmp_path):
    words = np.random.default_rng(0).integers(0, 2, (3, 2, 4)).astype(dtype)
    learner = Learner(lambda key: tree(jnp.zeros(4, dtype)), len, len)
    value = result(states=tree(words))
    for found in (value, returned(value, tmp_path / "a.nc")):
        state = found.state(2, 1, learner)
        assert jax.tree.structure(state) == jax.tree.structure(tree(0))
        assert np.asarray(jax.tree.leaves(state)[0]).tobytes() == words[2, 1].tobytes()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(point=3), ValueError, "^point must be < 3, the number of points, got 3$"),
        (dict(seed=2), ValueError, "^seed must be < 2, the number of seeds, got 2$"),
        (dict(point=-1), ValueError, "^point must be >= 0, got -1$"),
        (dict(seed=0.0), TypeError, "^seed must be a Python int, got float"),
        (dict(learner=make_of), TypeError, "^learner must be Learner, got function"),
        (dict(init=lambda key: jnp.zeros(())), ValueError, "^the states must be those of learner"),
        (dict(init=lambda key: State(jnp.zeros(3), jnp.zeros((), bool))), ValueError,
         r"'\.weights': 'float32\[3\]'.*, got .*'\.weights': 'float32\[\]'"),
        (dict(init=lambda key: State(jnp.zeros(()), jnp.zeros(()))), ValueError, "'.flag': 'bool"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("after_load", [False, True])
def test_state_of_no_run_or_another_learner_is_an_error(
    after_load, arguments, error, message, tmp_path
):
    value = returned(result(), tmp_path / "a.nc") if after_load else result()
    init = arguments.get("init", lambda key: State(jnp.zeros(()), jnp.zeros((), bool)))
    good = dict(point=0, seed=0, learner=Learner(init, len, len))
    arguments = {name: a for name, a in arguments.items() if name != "init"}
    with pytest.raises(error, match=message):
        value.state(**good | arguments)


@pytest.mark.parametrize("name", ["lost", "", None, 3, ["loss"], np.array(["loss"])])
@pytest.mark.parametrize("of", [SweepResult.best, SweepResult.mean_curve])
def test_metric_that_there_is_not_is_an_error_that_names_those_there_are(name, of):
    message = r"^name must be one of \['loss'\], got " + re.escape(repr(name))
    with pytest.raises(ValueError, match=message):
        of(result(), name)


def test_folder_that_is_missing_is_an_error(tmp_path):
    with pytest.raises(OSError, match="none/a.nc' cannot be written"):
        result().save(tmp_path / "none" / "a.nc")
