"""The experiments of arXiv:2502.18709: rates, records, and a tiny run of each."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from experiments.__main__ import main
from experiments.structured import methods, osp_multiclass, protocol
from experiments.structured.methods import BEST, GRID, INVERSE_WEIGHTED, PSEUDO_INVERSE, THEORY
from jonline import structured
from jonline.oracles import Mismatch

pytestmark = pytest.mark.slow

TINY = ["--smoke", "--seeds", "2", "--rounds", "40", "--windows", "2"]


def play(name, folder, *arguments):
    assert main([name, *TINY, *arguments, "--out", str(folder)]) == 0
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    with xr.open_dataset(folder / "records.nc", engine="h5netcdf") as file:
        records = file.load()
    assert records["zero_one"].dtype == np.int32
    assert records.sizes["seed"] == records.sizes["round"] == 2
    return records, json.loads((folder / "summary.json").read_text("utf-8"))


def test_formulas_above_1_are_played_as_1():
    space, T = structured.subsets(10, 5), 10_000
    K, omega = 252, 10**3 / 4 * (1 / 25 + 81 / 25)
    expected = {
        INVERSE_WEIGHTED: (50 * np.sqrt(K / T), np.sqrt(K / T)),
        PSEUDO_INVERSE: (np.cbrt(4 * omega * 50**2 * 9 / T), np.cbrt(4 * omega / T)),
    }
    for name, formulas in expected.items():
        rates = methods.rates(name, space, diameter=50.0, radius=3.0, num_rounds=T, grid=[0.3])
        # roundings
        np.testing.assert_allclose([rate.formula for rate in rates[:2]], formulas, rtol=1e-14)
        assert [rate.explore for rate in rates] == [1.0, min(1.0, rates[1].formula), 0.3]
    assert methods.rates(methods.LABELS, space, diameter=50.0, radius=3.0, num_rounds=T) == [
        ("none", 0.0, 0.0)
    ]


def test_gap_methods_have_the_rates_of_their_algorithms():
    space, T = structured.multiclass(6), 10**6
    asked = {"diameter": 2.0, "radius": 3.0, "num_rounds": T}
    gaptron = methods.rates("Gaptron, hinge", space, **asked)[0].formula
    gappletron = methods.rates("Gappletron, hinge", space, **asked)[0].formula
    np.testing.assert_allclose(gaptron, 6 * 3 * 1 / np.sqrt(T * np.log(2)))  # D = B/2
    np.testing.assert_allclose(gappletron, 2 * 6 / np.sqrt(T))


@pytest.mark.parametrize("name", methods.BANDITS)
def test_every_method_steps_by_the_same_rule(name):
    learner, _ = methods.make(
        {"explore": 0.5},
        None,
        name=name,
        space=structured.multiclass(3),
        num_features=2,
        diameter=4.0,
        stream=lambda point, data: None,
    )

    @jax.jit
    def step(key):
        x, state = jnp.ones(2), learner.init(key)
        prediction = learner.predict(state, x, key)
        return learner.update(state, x, prediction, Mismatch(jnp.asarray(False)), key)

    # the first step is B / sqrt 2 long, whatever the gradient's norm
    np.testing.assert_allclose(
        jnp.linalg.norm(step(jax.random.key(0)).params), 4 / np.sqrt(2), rtol=1e-4
    )  # float32, and the offset in the root


def test_osp_mnist(tmp_path):
    records, rows = play("osp_mnist", tmp_path, "--learners", "Gappletron, hinge")
    assert records["learner"].values.tolist() == ["Gappletron, hinge"] * 3
    assert records.attrs["dataset"] == "digits"  # a smoke run needs no download
    assert [row["rule"] for row in rows] == [THEORY, methods.UNIT_THEORY, BEST]
    assert rows[0]["explore"] == 1.0 and rows[0]["formula"] > 1
    np.testing.assert_allclose(
        [row["error_rate"] for row in rows], records["zero_one"].sum(["seed", "round"]) / 80
    )


def test_osp_multiclass(tmp_path):
    records, rows = play(
        "osp_multiclass", tmp_path, "--learners", INVERSE_WEIGHTED, "--num-classes", "3",
        "--explore", "0.1", "0.5",
    )  # fmt: skip
    assert records.sizes["point"] == len(rows) == 8  # two noises, four rates
    np.testing.assert_array_equal(records["noise"], np.repeat([0.0, 0.1], 4).astype(np.float32))
    loss = protocol.total(records).mean(axis=-1).reshape(2, 4)
    for rules, losses in zip(records["rule"].values.reshape(2, 4), loss, strict=True):
        assert sorted(rules[2:]) == [BEST, GRID]
        assert rules[2 + np.argmin(losses[2:])] == BEST
    # the target loss of classes is 0 or 1, and the noise only changes labels
    np.testing.assert_array_equal(records["target_loss"], records["zero_one"])


def test_osp_multilabel(tmp_path):
    records, rows = play(
        "osp_multilabel", tmp_path, "--learners", PSEUDO_INVERSE, "--num-labels", "6",
        "--subset-size", "2", "--explore", "0.5",
    )  # fmt: skip
    assert records["rule"].values.tolist() == [THEORY, methods.UNIT_THEORY, BEST]
    assert rows[0]["formula"] > 1 and rows[0]["explore"] == 1.0
    # two subsets of equal size differ in an even number of the six labels
    wrong = records["target_loss"].values * 3
    np.testing.assert_allclose(wrong, wrong.round(), atol=1e-4)  # sums of float32 thirds
    assert (records["radius"].values > 0).all()


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("osp_mnist", ["--explore", "0"], "--explore must be in (0, 1], got 0"),
        ("osp_multiclass", ["--num-classes", "1"], "--num-classes must be >= 2, got 1"),
        ("osp_multilabel", ["--num-labels", "5"], "--num-labels must be >= 6, got 5"),
    ],
)
def test_bad_arguments_are_named(name, arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([name, *arguments])
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_unit_norm_stream_has_norm_1():
    stream = osp_multiclass.make_stream(3, 1, unit_norm=True)({"noise": 0.0}, None)
    example = stream.draw(stream.init(jax.random.key(0)), 5)
    np.testing.assert_allclose(np.linalg.norm(example.x), 1.0, rtol=1e-6)  # float32
