import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jonline
from jonline import hypotheses, metrics, ordinal
from jonline._sweep import arguments, keys
from tests.games import clock, make_dford, table

GRID = jonline.product_grid(reg=[1.0, 2.0], explore=[0.25, 0.5])
SETTINGS = dict(data=table(), num_rounds=120, num_seeds=2, key=7, record_every=20)


def never_traced(point, data):
    raise AssertionError


def test_labels_of_a_grid_stay_as_they_are_given(tmp_path):
    """The device takes its own precision, so the bits are those of the float32 axis."""
    grid = jonline.product_grid(reg=[1.0], explore=[0.1, 0.30000000004])
    device = {name: axis.astype(np.float32) for name, axis in grid.items()}
    results = [jonline.sweep(make_dford, metrics.ordinal, g, **SETTINGS) for g in (grid, device)]
    for name, sums in results[0].records.items():
        np.testing.assert_array_equal(sums, results[1].records[name])
    results[0].save(tmp_path / "result.nc")
    for result in (results[0], jonline.load(tmp_path / "result.nc")):
        assert result.grid["explore"].tolist() == [0.1, 0.30000000004]
        assert result.grid["explore"].dtype == np.float64
    point = arguments.one_point({"reg": 1, "explore": 0.1})
    assert point["explore"].tolist() == [0.1] and point["reg"].dtype == np.int64


def test_messages_show_labels():
    with pytest.raises(ValueError, match="explore must be in") as caught:
        jonline.sweep(
            make_dford, metrics.ordinal, {"reg": [1.0], "explore": [1.0000001234]}, **SETTINGS
        )
    assert "'explore': 1.0000001234" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match=r"'n' must fit into int32, got 2147483648"):
        jonline.product_grid(n=[2**31])
    with pytest.raises(ValueError, match=r"'n' must fit into float32, got 1e\+300"):
        jonline.product_grid(n=[1e300])


def _if_in(point, data):
    return make_dford(point, data) if point["reg"] > 0 else make_dford(point, data)


def _float_of(point, data):
    return make_dford(point | {"explore": float(point["explore"])}, data)


def _count_of(point, data):
    return ordinal.prank(hypotheses.linear(3), point["classes"]), make_dford(point, data)[1]


@pytest.mark.parametrize(
    ("make", "named"), [(_if_in, "'reg'"), (_float_of, "'explore'"), (_count_of, "num_classes")]
)
def test_a_hyperparameter_whose_value_is_needed_is_named_with_the_way(make, named):
    point = {"reg": 1.0, "explore": 0.5, "classes": 5}
    settings = dict(data=table(), key=0)
    for play in (
        lambda: jonline.sweep(
            make, metrics.ordinal, {name: [value] for name, value in point.items()},
            num_rounds=2, num_seeds=1, record_every=1, **settings,
        ),
        lambda: jonline.run(
            make, metrics.ordinal, point, num_rounds=2, record_every=1, **settings
        ),
        lambda: jonline.trace(make, point, first=0, last=1, **settings),
    ):  # fmt: skip
        with pytest.raises(Exception) as caught:
            play()
        text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
        assert named in text and "over" in text and "in Python" in text


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (dict(make=None), TypeError, r"make must be a function \(point, data\) .*, got None"),
        (dict(metrics=5), TypeError, r"metrics must be a function \(example, .*, got 5"),
        (
            dict(grid={"a": None}),
            TypeError,
            "'a' must hold numbers, got NoneType None; .*loop",
        ),
        (dict(grid={"a": "text"}), TypeError, "'a' must hold numbers, got str 'text'; .*loop"),
        (dict(grid={"a": [[1], [1, 2]]}), TypeError, "'a' must be an array of numbers, got list"),
        (dict(grid={1: [1.0]}), TypeError, "name of a grid axis must be str, got int 1"),
        (dict(grid={"a": np.ma.masked_array([1.0], [1])}), TypeError, "must be without a mask"),
        (dict(block=2**31), ValueError, "block must be <= 1048576, got 2147483648"),
        (dict(num_seeds=2**31), ValueError, "would need 51539607552 bytes"),
        (dict(windows_per_call=True), TypeError, "windows_per_call must be a Python int, got bool"),
        (dict(progress="yes"), TypeError, "progress must be bool, got str 'yes'"),
    ],
)
def test_what_cannot_be_played_is_said_at_once(changes, error, message):
    settings = dict(make=never_traced, metrics=metrics.ordinal, grid=GRID, **SETTINGS) | changes
    began = time.monotonic()
    with pytest.raises(error, match=message):
        jonline.sweep(**settings)
    assert time.monotonic() - began < 2


def test_keys_whose_fold_in_is_no_hash_are_refused():
    message = r"key must be .*jax.random.key\(seed, impl=.threefry2x32.\).*, got unsafe_rbg"
    key = jax.random.key(0, impl="unsafe_rbg")
    small = dict(num_rounds=2, record_every=1)

    def all_refuse(key):
        with pytest.raises(TypeError, match=message):
            jonline.sweep(make_dford, metrics.ordinal, GRID, **SETTINGS | {"key": key})
        with pytest.raises(TypeError, match=message):
            jonline.run(never_traced, metrics.ordinal, {}, key=key, **small)
        with pytest.raises(TypeError, match=message):
            jonline.trace(never_traced, {}, key=key, first=0, last=1)
        with pytest.raises(TypeError, match=message):
            jonline.comparators.examples(clock(), key, 0, 2)

    all_refuse(key)
    all_refuse(jax.random.split(key, SETTINGS["num_seeds"]))
    with jax.default_prng_impl("unsafe_rbg"):
        all_refuse(0)


def test_any_kind_of_key_is_judged_by_what_its_fold_in_does():
    from jax.extend import random as kinds

    def mixing(key, number):  # by multiplication and addition, of both
        return (key * jnp.uint32(2654435761)) ^ (key + number) * jnp.uint32(40503)

    def adding(key, number):
        return key + number

    for fold_in, is_hash in ((mixing, True), (adding, False)):
        kind = kinds.define_prng_impl(
            key_shape=(2,),
            seed=lambda seed: jnp.stack([seed.astype(jnp.uint32), jnp.uint32(7)]),
            split=lambda key, shape: jnp.broadcast_to(key, (*shape, 2)),
            random_bits=lambda key, width, shape: jnp.zeros(shape, jnp.uint32),
            fold_in=fold_in,
            name=fold_in.__name__,
            tag="own",
        )
        assert keys._folds_by_hash(kind) == is_hash
    assert keys._folds_by_hash("rbg") and keys._folds_by_hash("threefry2x32")


def test_rbg_keys_stay_with_a_warning_that_a_lane_is_not_its_run():
    with pytest.warns(RuntimeWarning, match="keys of kind rbg .*a lane is not its run"):
        keys.seed_keys(jax.random.key(0, impl="rbg"), 2)
