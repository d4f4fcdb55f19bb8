"""What is claimed of OSP: verdicts on made-up records, where they are known; rates; rankings."""

import dataclasses
import itertools
import json

import jax
import numpy as np
import pytest
import xarray as xr

from experiments.__main__ import main
from experiments.claims import ledger, osp, osp_theory_judges
from experiments.claims.ledger import FAILS, HOLDS, UNTESTED
from experiments.claims.osp_judges import ALL_OTHERS, RULES, SET_UP
from experiments.shared.records import select
from experiments.structured import methods, osp_mnist, osp_rates, slopes
from experiments.structured.methods import INVERSE_WEIGHTED, PSEUDO_INVERSE
from jonline import data, structured
from jonline.data.dataset import Dataset, Provenance

SEEDS = 6
CLAIMS = {claim.id: claim for claim in osp.CLAIMS}
UNIT = methods.UNIT_THEORY


def settled(id_, **records):
    return ledger.settle(CLAIMS[id_], records)


def verdict(id_, **records):
    return settled(id_, **records).verdict


def records(points, level, explore=None, size=1.0):
    """Records as of `protocol.records`: losses about `level(point)`, of two windows."""
    rng = np.random.default_rng(0)
    levels = np.array([level(point) for point in points], float)[:, None, None]
    explores = [0.1 if explore is None else explore(point) for point in points]
    coords = {name: ("point", [point[name] for point in points]) for name in points[0]}
    coords |= {"explore": ("point", explores), "round": [500, 1000]}
    losses = levels / 2 + size * rng.standard_normal((len(points), SEEDS, 2))
    dims = ("point", "seed", "round")
    return xr.Dataset({"target_loss": (dims, losses)}, coords, {"dataset": "mnist"})


def mnist(level, **more):
    names = (INVERSE_WEIGHTED, *SET_UP)
    points = [{"learner": name, "rule": rule} for name in names for rule in RULES.values()]
    return records(points, level, **more)


def multiclass(level, **more):
    names = (INVERSE_WEIGHTED, *ALL_OTHERS)
    axes = itertools.product(
        names, RULES.values(), (2, 4), (0.0, np.float32(0.1)), (6, 12, 24, 48, 96)
    )
    keys = ("learner", "rule", "scale", "noise", "num_classes")
    return records([dict(zip(keys, values, strict=True)) for values in axes], level, **more)


def multilabel(level, **more):
    names = (INVERSE_WEIGHTED, PSEUDO_INVERSE)
    axes = itertools.product(names, RULES.values(), (10, 16, 24))
    keys = ("learner", "rule", "num_labels")
    return records([dict(zip(keys, values, strict=True)) for values in axes], level, **more)


def rates(power, *, noise=(0.0,), factor=1.0, learner=INVERSE_WEIGHTED):
    """Records as of `osp_rates`: regrets factor T^power, bounds 10 T^(1/2)."""
    T = np.repeat(2 ** np.arange(8, 13), len(noise))
    one = np.ones((len(T), SEEDS)) + 1e-3 * np.random.default_rng(0).standard_normal(
        (len(T), SEEDS)
    )
    regret = factor * T[:, None] ** power * one
    dims, zeros = ("point", "seed"), np.zeros_like(one)
    return xr.Dataset(
        {"expected_regret": (dims, regret), "gap": (dims, zeros), "surrogate_excess": (dims, one)},
        {
            "learner": ("point", [learner] * len(T)),
            "noise": ("point", [*noise] * (len(T) // len(noise))),
            "horizon": ("point", T),
            "explore": ("point", 1 / np.sqrt(T)),
            "bound": ("point", 10 * np.sqrt(T)),
        },
        {"num_classes": 2},
    )


def osp_at(mine, others):
    return lambda point: mine if point["learner"] == INVERSE_WEIGHTED else others


def test_lowest_on_mnist():
    assert verdict("B1 theory", osp_mnist=mnist(osp_at(100, 200))) == HOLDS
    assert verdict("B1 unit", osp_mnist=mnist(osp_at(300, 200))) == FAILS
    assert verdict("B1 grid", osp_mnist=mnist(osp_at(200, 200), size=5)) == UNTESTED
    one_better = mnist(lambda point: 50 if point["learner"] == SET_UP[2] else 100)
    assert verdict("B1 theory", osp_mnist=one_better) == FAILS
    capped = mnist(osp_at(100, 200), explore=osp_at(0.1, 1.0))
    found = settled("B1 theory", osp_mnist=capped)
    assert found.verdict == HOLDS and "uniformly played: Gaptron" in found.why
    digits = mnist(osp_at(100, 200)).assign_attrs(dataset="digits")
    assert verdict("B1 theory", osp_mnist=digits) == UNTESTED
    part = select(mnist(osp_at(100, 200)), learner=INVERSE_WEIGHTED)
    assert "0 points of learner Gaptron" in settled("B1 theory", osp_mnist=part).why


def test_few_and_many_classes():
    ahead = multiclass(osp_at(105, 100), size=0.1)
    assert verdict("B2 unit", osp_multiclass=ahead) == HOLDS
    assert verdict("B3 unit", osp_multiclass=ahead) == HOLDS
    assert verdict("B2 unit", osp_multiclass=multiclass(osp_at(120, 100), size=0.1)) == FAILS
    assert verdict("B2 unit", osp_multiclass=multiclass(osp_at(110, 100), size=9)) == UNTESTED
    assert verdict("B3 unit", osp_multiclass=multiclass(osp_at(90, 100), size=0.1)) == FAILS

    def one_pair(point):  # behind one of the two at one K only
        is_it = (point["learner"], point["num_classes"]) == ("Gappletron, logistic", 48)
        return 110 if is_it else osp_at(105, 100)(point)

    assert verdict("B3 unit", osp_multiclass=multiclass(one_pair, size=0.1)) == FAILS
    assert verdict("B2 unit", osp_multiclass=multiclass(one_pair, size=0.1)) == HOLDS
    uniform = multiclass(osp_at(100, 100), explore=lambda point: 1.0)
    assert verdict("B2 theory", osp_multiclass=uniform) == UNTESTED
    fewer = select(ahead, scale=2)
    assert "(n', r) in" in settled("B2 unit", osp_multiclass=fewer).why


def test_estimates_of_label_sets():
    def crossing(point):
        inverse = point["learner"] == INVERSE_WEIGHTED
        return 100 if inverse == (point["num_labels"] == 10) else 120

    assert verdict("B4 unit", osp_multilabel=multilabel(crossing)) == HOLDS
    assert verdict("B5 unit", osp_multilabel=multilabel(crossing)) == HOLDS
    turned = multilabel(lambda point: 220 - crossing(point))
    assert verdict("B4 grid", osp_multilabel=turned) == FAILS
    assert verdict("B5 grid", osp_multilabel=turned) == FAILS
    both = multilabel(lambda point: 100, explore=lambda point: 1.0, size=0.0)
    found = settled("B4 theory", osp_multilabel=both)
    assert found.verdict == UNTESTED and "played uniformly" in found.why


def test_rates_and_bounds():
    assert verdict("B7 rate", osp_rates=rates(0.5)) == HOLDS
    assert verdict("B7 rate", osp_rates=rates(0.7)) == FAILS
    assert verdict("B8 rate", osp_rates=rates(0.7, learner=PSEUDO_INVERSE)) == HOLDS
    assert verdict("B8 rate", osp_rates=rates(0.7)) == UNTESTED
    assert verdict("B7 rate", osp_rates=rates(0.5, factor=-1)) == UNTESTED
    assert verdict("B7 bound", osp_rates=rates(0.5)) == HOLDS
    assert verdict("B7 bound", osp_rates=rates(0.5, factor=-1)) == HOLDS
    assert verdict("B7 bound", osp_rates=rates(0.5, factor=20)) == FAILS
    assert verdict("B7 bound", osp_rates=rates(0.5, factor=10)) == UNTESTED
    assert "50.0% to 50.0%" in settled("B7 rate", osp_rates=rates(0.5, noise=(0.0, 0.1))).why


@pytest.mark.parametrize(
    ("id_", "expected"),
    [
        ("B6", FAILS),
        ("B9 multiclass", HOLDS),
        ("B9 m labels", FAILS),
        ("B10 multiclass", FAILS),
        ("B10 ranking", HOLDS),
        ("B11", HOLDS),
        ("B12", FAILS),
    ],
)
def test_claims_of_formulas(id_, expected):
    assert verdict(id_) == expected


def test_decoding_is_within_the_lemma_with_the_constants_of_the_spaces():
    space, paper, outputs = osp_theory_judges.some_space("m labels")
    bound = 4 * space.constants.gamma / space.constants.nu
    assert bound - 0.1 < osp_theory_judges.largest_ratio(space, outputs) < bound + 1e-3  # float32
    assert paper.gamma < space.constants.gamma


def test_slope_of_a_power():
    T = np.array([256, 512, 1024, 2048])
    values = np.array([3.0, 1.0]) * T[:, None] ** np.array([0.5, 0.75])
    np.testing.assert_allclose(slopes.slope(values, T), [0.5, 0.75])
    assert slopes.slope(values - 60, T) is None


def test_planted_classes():
    K, stream = 3, osp_rates.planted(3, 4, noise=0.0)
    x, y = jax.vmap(lambda t: stream.draw(stream.init(jax.random.key(1)), t))(np.arange(300))
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, rtol=1e-5)  # float32
    np.testing.assert_array_equal(np.argmax(x[:, :K], axis=1), np.argmax(y, axis=1))
    corners = np.unique(np.round(x[:, :K], 5), axis=0)
    assert len(corners) == K
    np.testing.assert_allclose(corners @ corners.T, 0.81 * (1.5 * np.eye(K) - 0.5), atol=1e-4)
    noisy = osp_rates.planted(3, 4, noise=1.0)
    labels = jax.vmap(lambda t: noisy.draw(noisy.init(jax.random.key(1)), t).y)(np.arange(300))
    same = np.mean(np.argmax(labels, axis=1) == np.argmax(y, axis=1))
    assert abs(same - 1 / K) < 5 * np.sqrt(2 / 9 / 300)


@pytest.mark.slow
def test_osp_rates(tmp_path):
    arguments = ["--smoke", "--learners", INVERSE_WEIGHTED, "--noise", "0", "--halvings", "1"]
    assert main(["osp_rates", *arguments, "--out", str(tmp_path)]) == 0
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    with xr.open_dataset(tmp_path / "records.nc", engine="h5netcdf") as file:
        found = file.load()
    assert found["horizon"].values.tolist() == [512, 1024]
    space = structured.multiclass(2)
    expected = [
        structured.theory.inverse_weighted_rate(space, diameter=2.0, radius=1.0, num_rounds=T)
        for T in (512, 1024)
    ]
    np.testing.assert_allclose(found["explore"], expected)
    lost = found["target_loss"] - found["comparator_loss"]
    np.testing.assert_allclose(found["realised_regret"], lost, atol=1e-6)
    np.testing.assert_array_equal(found["target_loss"], found["target_loss"].round())
    # fewer examples of the same stream cost a comparator less
    loss = found["comparator_loss"].values
    assert np.all(loss[0] < loss[1]) and np.all(found["gap"] <= 1e-3 * loss)
    # the learner's surrogate loss is that of models in the ball, played one after another
    assert np.all(found["surrogate_excess"] > -found["gap"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["osp_rates", "--rounds", "1000"], "--rounds must be a multiple of 2^halvings = 64"),
        (["osp_ranking", "--num-items", "6"], "--num-items must be in 2…5, got 6"),
    ],
)
def test_bad_arguments_are_named(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_rates_too_large_for_a_slope_are_an_error(capsys, tmp_path):
    assert main(["osp_rates", "--diameter", "1000", "--out", str(tmp_path)]) == 2
    assert "is below 1 at 0 of the 7 T" in capsys.readouterr().err


@pytest.mark.slow
def test_osp_ranking(tmp_path, monkeypatch):
    def rows(directory, num_items):
        if num_items > 2:
            raise FileNotFoundError("not there")
        rng = np.random.default_rng(0)
        y = np.eye(2, dtype=np.float32)[rng.integers(2, size=20)]
        source = Provenance("nowhere", "none", "0" * 64, "made up")
        x = rng.standard_normal((20, 3)).astype(np.float32)
        return Dataset(x, np.concatenate([y, 1 - y], axis=1), None, "lambdarank", source)

    monkeypatch.setattr(data, "lambdarank", rows)
    command = ["osp_ranking", "--smoke", "--seeds", "2", "--rounds", "40", "--windows", "2"]
    command += ["--learners", PSEUDO_INVERSE, "--explore", "0.5", "--sources", "lambdarank"]
    assert main([*command, "--data", str(tmp_path), "--out", str(tmp_path)]) == 0
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    with xr.open_dataset(tmp_path / "records.nc", engine="h5netcdf") as file:
        found = file.load()
    assert found["rule"].values.tolist() == [methods.THEORY, UNIT, methods.BEST]
    assert set(found["num_rows"].values) == {20} and set(found["num_items"].values) == {2}
    # of two items both or none are misplaced
    np.testing.assert_array_equal(found["target_loss"], found["zero_one"])
    command += ["--num-items", "3", "--data", str(tmp_path), "--out", str(tmp_path)]
    assert main(command) == 2  # no files, and nothing else to play


def test_ledger_reads_what_the_experiments_left(tmp_path):
    folder = tmp_path / "osp_mnist"
    folder.mkdir()
    mnist(osp_at(100, 200)).to_netcdf(folder / "records.nc", engine="h5netcdf")
    arguments = dataclasses.asdict(osp_mnist.Options(seeds=7))
    provenance = {"arguments": arguments, "commit": "abc", "uncommitted_changes": False}
    provenance["environment"] = {"jax": "0", "device": "none", "system": "none"}
    (folder / "provenance.json").write_text(json.dumps(provenance, default=str), "utf-8")
    out = tmp_path / "claims"
    command = ["claims", "--papers", "osp", "--results", str(tmp_path), "--out", str(out)]
    assert main(command) == 0
    rows = {row["id"]: row for row in json.loads((out / "claims.json").read_text())["claims"]}
    assert list(rows) == list(CLAIMS) and len(CLAIMS) == len(osp.CLAIMS)
    assert rows["B1 theory"]["verdict"] == HOLDS
    assert rows["B1 theory"]["why"].endswith("osp_mnist was played with seeds=7 instead of 20")
    assert rows["B7 rate"]["why"] == "run python -m experiments osp_rates first"
    page = (out / "claims.md").read_text("utf-8")
    assert f"## {osp.TITLE}" in page and "| B12 |" in page
