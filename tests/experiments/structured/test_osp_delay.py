"""The experiments with delays: tiny runs, slopes, and the verdicts on made-up regrets."""

import csv

import numpy as np
import pytest
import xarray as xr

from experiments.__main__ import main
from experiments.benchmark import contest
from experiments.benchmark import late as of_late
from experiments.claims import ledger, osp_late
from experiments.claims.ledger import FAILS, HOLDS, UNTESTED
from experiments.structured import late, osp_delay
from experiments.structured.late import BIT, FIXED, LABELS, ODAFTRL, SOLID, VARIABLE

pytestmark = pytest.mark.slow

TINY = ["--smoke", "--seeds", "2"]
CLAIMS = {claim.id.removeprefix("B13 "): claim for claim in osp_late.CLAIMS}


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_osp_delay(tmp_path):
    command = ["osp_delay", *TINY, "--rounds", "400", "--feedback", "right or wrong"]
    command += ["--methods", "SOLID", "--delays", "0", "10", "--over-rounds", "10"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    with xr.open_dataset(tmp_path / "records.nc", engine="h5netcdf") as file:
        records = file.load()
    assert records.sizes == {"point": 16, "seed": 2, "round": 8}  # two kinds, two D, four T
    fixed = records["kind"].values == FIXED
    np.testing.assert_array_equal(records["undelivered"][fixed], [[0, 0]] * 4 + [[10, 10]] * 4)
    # without a delay both kinds are the same run
    now = records["delay"].values == 0
    np.testing.assert_allclose(
        records["regret"][fixed & now], records["regret"][~fixed & now], rtol=1e-6
    )
    table = rows(tmp_path / "table.csv")
    assert [row["rounds"] for row in table[:4]] == ["50", "100", "200", "400"]
    slopes = rows(tmp_path / "slopes.csv")
    assert [(row["kind"], row["over"], row["at"]) for row in slopes] == [
        (kind, "T", D) for kind in (FIXED, VARIABLE) for D in ("0", "10")
    ]
    assert all(row["points"] == "4" for row in slopes)  # at T = 50 the rate is 1


@pytest.mark.slow
def test_dford_delay(tmp_path):
    command = ["dford_delay", *TINY, "--rounds", "40", "--windows", "2", "--delays", "0", "30"]
    assert main([*command, "--exponents", "1", "--longest", "20", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    table = rows(tmp_path / "table.csv")
    assert [(row["learner"], row["delays"]) for row in table] == [
        (learner, kind)
        for learner in ("DFORD", "PRank")
        for kind in ("fixed", "fixed", "heavy-tailed")
    ]
    assert [float(row["undelivered"]) for row in table[:2]] == [0, 30]
    assert [row["delay"] for row in table[:3]] == ["0", "30", ""]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["osp_delay", "--delays", "1", "-1"], "--delays must be >= 0, got -1"),
        (["osp_delay", "--over-rounds", "7"], "--over-rounds must be one of"),
        (["osp_delay", "--windows", "10"], "--windows must be a multiple of 8, got 10"),
        (["osp_delay", "--features", "4"], "--features must be >= 5, got 4"),
        (["dford_delay", "--exponents", "0"], "--exponents must be > 0 and finite, got 0"),
        (["dford_delay", "--longest", "0"], "--longest must be >= 1, got 0"),
    ],
)
def test_bad_arguments_are_named(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_slope_of_a_power_is_its_exponent():
    sizes, scale = np.array([10, 32, 1000]), np.array([3.0, 5.0])
    slope = late.slope(sizes, scale * sizes[:, None] ** 0.5)
    np.testing.assert_allclose(slope, [0.5, 0.5, 0.5], rtol=1e-12)
    flat = late.slope(sizes, np.array([[-5.0, 0.0], [0.5, 1.0], [-1e3, 0.9]]))
    np.testing.assert_array_equal(flat, [0, 0, 0])  # less than one loss counts as one


def test_grid_has_the_rate_of_every_horizon():
    grid = late.grid(BIT, SOLID, (0, 7), 1600)
    np.testing.assert_array_equal(grid["delay"], [0] * 4 + [7] * 4)
    np.testing.assert_array_equal(grid["horizon"], [200, 400, 800, 1600] * 2)
    rates = 5 * np.sqrt(2 / grid["horizon"])  # R sqrt(K / T)
    np.testing.assert_allclose(grid["formula"], rates, rtol=1e-12)  # roundings
    grid = late.grid(late.LOSS, ODAFTRL, (1000,), 1600)
    assert np.all(grid["formula"] > 1) and np.all(grid["explore"] == 1)


def records(feedback, learner, kind, regret, formula=0.5):
    """Records as of `osp_delay`, with `regret(D, T)`."""
    horizons = (800,) if feedback == LABELS else (100, 200, 400, 800)
    at = [(D, T) for D in (0, 10, 100) for T in horizons]
    rounds = np.arange(100, 801, 100)
    noise = 1 + 1e-3 * np.random.default_rng(0).standard_normal((len(at), 5, 1))
    values = np.array([[regret(D, t) for t in rounds] for D, _ in at])[:, None]
    along = {"feedback": feedback, "learner": learner, "kind": kind}
    coords = {name: ("point", np.array([value] * len(at), object)) for name, value in along.items()}
    coords |= {"delay": ("point", [D for D, _ in at]), "horizon": ("point", [T for _, T in at])}
    coords |= {"formula": ("point", [formula] * len(at)), "gap": ("point", [0.0] * len(at))}
    regrets = {"regret": (("point", "seed", "round"), values * noise)}
    return {"osp_delay": xr.Dataset(regrets, coords | {"round": rounds})}


@pytest.mark.parametrize(
    ("id_", "power", "expected"),
    [
        ("5.1 over T", 0.5, HOLDS),
        ("5.1 over T", 0.7, FAILS),
        ("5.1 over D", 0.9, HOLDS),
        ("5.1 over D", 1.2, FAILS),
    ],
)
def test_slopes_are_judged_by_the_exponent(id_, power, expected):
    def regret(D, T):
        return 10 * (T if id_.endswith("T") else D + 1) ** power

    found = ledger.settle(CLAIMS[id_], records(BIT, ODAFTRL, FIXED, regret))
    assert found.verdict == expected
    capped = records(BIT, ODAFTRL, FIXED, regret, formula=1.5)
    assert ledger.settle(CLAIMS[id_], capped).verdict == UNTESTED


@pytest.mark.parametrize(
    ("id_", "feedback", "learner", "kind"),
    [
        ("4.3 bound", LABELS, ODAFTRL, FIXED),
        ("5.1 bound", BIT, ODAFTRL, FIXED),
        ("G.2 bound", LABELS, SOLID, VARIABLE),
        ("G.3 bound", BIT, SOLID, VARIABLE),
    ],
)
def test_regret_is_judged_by_the_bound(id_, feedback, learner, kind):
    for regret, expected in ((10.0, HOLDS), (1e6, FAILS)):
        made = records(feedback, learner, kind, lambda D, T, regret=regret: regret)
        assert ledger.settle(CLAIMS[id_], made).verdict == expected
    other = records(feedback, "OGD, late", kind, lambda D, T: 1.0)
    assert "was not played with" in ledger.settle(CLAIMS[id_], other).why


def test_bars_of_the_benchmark_are_over_the_learner_without_delay():
    ns = {"jonline, OGD, no delay": 2.0, "jonline, OGD, D=100": 3.0, "jonline, OGD, up to 50": 8.0}
    first, second = map(contest.verdict, of_late.targets(ns))
    assert (first["reached"], first["first"], first["met"]) == (1.5, 1.6, True)
    assert (second["reached"], second["met"]) == (4.0, "")
    assert of_late.targets({}) == []
    names = [one.name for one in of_late.contestants(100, smoke=False)]
    assert len(names) == len(set(names)) == 8


def test_every_theorem_judged_is_played():
    played = {
        (feedback, method, kind)
        for feedback, task in late.FEEDBACKS.items()
        for method in task.methods
        for kind in (FIXED, *([VARIABLE] if method in late.VARIED else []))
    }
    assert set(osp_delay.THEOREMS) <= played
