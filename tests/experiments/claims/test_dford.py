"""The ledger's verdicts on made-up records, where they are known, and a smoke run of everything."""

import json

import numpy as np
import pytest
import xarray as xr

from experiments.__main__ import main
from experiments.claims import dford, dford_judges, ledger
from experiments.claims.ledger import FAILS, HOLDS, UNTESTED
from experiments.ordinal import dford_exploration as exploration
from experiments.ordinal import protocol
from experiments.shared.records import Interval, mean_interval
from jonline import ordinal

SEEDS = 6
NAMES = list(protocol.TASKS)
CLAIMS = {claim.id: claim for claim in dford.CLAIMS}
ROUNDS = np.array([100, 1000, 10_000])


def verdict(id_, **records):
    return ledger.settle(CLAIMS[id_], records).verdict


def noise(*shape, size=1e-3, seed=0):
    return size * np.random.default_rng(seed).standard_normal(shape)


def curves(loss, *, thresholds=None, sums=None, played=0.5):
    """Records as of `dford_curves`; `loss` is a level for each learner, and by data set too."""
    pairs = [(name, learner) for name in NAMES for learner in protocol.LEARNERS]
    levels = np.array([loss.get(pair, loss.get(pair[1], 1.0)) for pair in pairs])
    level = levels[:, None, None] + noise(len(pairs), SEEDS, 1)
    counts = np.diff(ROUNDS, prepend=0)
    shape = (len(pairs), SEEDS, 3)
    if sums is None:
        sums = np.diff(np.log(ROUNDS), prepend=0.0)
    gaps = np.ones(4) if thresholds is None else thresholds
    dims = ("point", "seed", "round")
    return xr.Dataset(
        {
            "loss": (dims, level * counts),
            "greedy_error": (dims, level * counts),
            "output_error": (dims, (level + played + noise(*shape[:2], 1, seed=1)) * counts),
            "violations": (dims, np.zeros(shape)),
            "regularised_loss": (dims, np.broadcast_to(sums, shape) * (1 + noise(*shape))),
            "thresholds": (
                ("point", "seed", "threshold"),
                np.cumsum(gaps) + noise(*shape[:2], len(gaps), seed=3),
            ),
        },
        {
            "dataset": ("point", [name for name, _ in pairs]),
            "learner": ("point", [learner for _, learner in pairs]),
            "title": ("point", [name for name, _ in pairs]),
            "num_classes": ("point", np.full(len(pairs), len(gaps) + 1)),
            "sq_radius": ("point", np.ones(len(pairs))),
            "round": ROUNDS,
        },
    )


def test_inside():
    def at(low, high):
        return Interval(*map(np.asarray, ((low + high) / 2, low, high)))

    assert ledger.inside(at(-2, -1), high=0) == HOLDS
    assert ledger.inside(at(1, 2), high=0) == FAILS
    assert ledger.inside(at(-1, 2), high=0) == UNTESTED
    assert ledger.inside(at(0.0, 0.0), high=0) == HOLDS
    assert ledger.inside(at(0.02, 0.05), 0, 0.1) == HOLDS
    assert ledger.inside(at(0.2, 0.5), 0, 0.1) == FAILS
    assert ledger.inside(mean_interval(np.array([-5.0])), high=0) == UNTESTED


def test_verdicts_together():
    assert ledger.all_of([HOLDS, HOLDS]) == HOLDS
    assert ledger.all_of([HOLDS, UNTESTED]) == UNTESTED
    assert ledger.all_of([HOLDS, UNTESTED, FAILS]) == FAILS
    assert ledger.all_of([]) == UNTESTED
    assert ledger.at_least(2, [HOLDS, HOLDS, FAILS]) == HOLDS
    assert ledger.at_least(2, [HOLDS, UNTESTED, FAILS]) == UNTESTED
    assert ledger.at_least(2, [HOLDS, FAILS, FAILS]) == FAILS


@pytest.mark.parametrize(
    ("means", "size", "expected"),
    [
        ([3, 2, 1, 2, 3], 0.01, HOLDS),
        ([5, 4, 3, 2, 1], 0.01, FAILS),
        ([1, 2, 3, 4, 5], 0.01, FAILS),
        ([3, 2, 1, 1.0001, 1.0001], 0.5, UNTESTED),
        ([3, 2, 1.001, 1.0005, 1], 0.5, UNTESTED),
    ],
)
def test_falls_then_rises(means, size, expected):
    values = np.array(means)[:, None] + noise(5, SEEDS, size=size) - noise(5, 1, size=size)
    values += np.array(means)[:, None] - values.mean(axis=1, keepdims=True)
    assert ledger.falls_then_rises(values).verdict == expected


def test_one_more_run_by_hand():
    found = ledger.one_more_run(np.array([1.0, 2.0, 3.0]))
    half = 4.302652729911275 * np.sqrt(4 / 3)  # t_{2, 0.975} from a table, s = 1
    np.testing.assert_allclose(np.ravel(found), [2, 2 - half, 2 + half])
    assert np.isnan(ledger.one_more_run(np.array([1.0])).low)


@pytest.mark.parametrize(("power", "ratio"), [(0.0, 1.0), (0.5, np.sqrt(10)), (1.0, 10.0)])
def test_slowdown_tells_a_logarithm_from_a_power(power, ratio):
    sums = np.log(ROUNDS) if power == 0 else ROUNDS**power
    early, late, factor = ledger.slowdown(sums[None], ROUNDS)
    np.testing.assert_allclose([late / early, [factor**power]], ratio)
    with pytest.raises(ledger.CannotTestError, match="three"):
        ledger.slowdown(sums[None, :2], ROUNDS[:2])


def test_missing_and_smoke_records_give_no_verdict():
    found = ledger.settle(CLAIMS["A5"], {})
    assert found.verdict == UNTESTED
    assert found.why == "run python -m experiments dford_curves first"
    records = {"dford_curves": curves({})}
    assert ledger.settle(CLAIMS["A5"], records).verdict == HOLDS
    assert ledger.settle(CLAIMS["A5"], records, ["dford_curves"]).verdict == UNTESTED
    old = {"dford_curves": records["dford_curves"].drop_vars("loss")}
    assert "another version; run python" in ledger.settle(CLAIMS["A5"], old).why
    part = {"dford_curves": records["dford_curves"].isel(point=slice(0, 8))}
    found = ledger.settle(CLAIMS["A5"], part)
    assert found.verdict == UNTESTED and "not played on mslr" in found.why
    assert ledger.settle(CLAIMS["A2 bank"], part).verdict == UNTESTED


def test_against_pril():
    below = {"PRIL": 1.5}
    assert verdict("A1", dford_curves=curves(below)) == HOLDS
    two = below | {(name, "PRIL"): 0.5 for name in NAMES[:2]}
    assert verdict("A1", dford_curves=curves(two)) == HOLDS
    three = below | {(name, "PRIL"): 0.5 for name in NAMES[:3]}
    assert verdict("A1", dford_curves=curves(three)) == FAILS
    assert verdict("A1", dford_curves=curves({"PRIL": 1.0})) == UNTESTED


@pytest.mark.parametrize(
    ("prank", "equal", "far", "behind"),
    [
        (1.5, HOLDS, HOLDS, FAILS),
        (1.05, HOLDS, FAILS, FAILS),
        (0.95, FAILS, FAILS, HOLDS),
        (0.5, FAILS, FAILS, FAILS),
    ],
)
def test_against_prank(prank, equal, far, behind):
    records = curves({"PRank": prank})
    assert verdict("A2 bank", dford_curves=records) == equal
    assert verdict("A3 mslr", dford_curves=records) == far
    assert verdict("A4 california", dford_curves=records) == behind
    assert verdict("A5", dford_curves=records) == (FAILS if prank == 0.5 else HOLDS)
    withdrawn = ledger.settle(CLAIMS["A3 movielens"], {"dford_curves": records})
    assert withdrawn.verdict == UNTESTED and f": {far}" in withdrawn.why
    titles = [f"{title} (here: mslr_sample)" for title in records["title"].values]
    sample = records.assign(title=("point", titles))
    withheld = ledger.settle(CLAIMS["A3 mslr"], {"dford_curves": sample})
    assert withheld.verdict == UNTESTED and f"on that: {far}" in withheld.why


def test_exploration_thresholds_and_printed_clip():
    assert verdict("A6", dford_curves=curves({}, played=0.5)) == FAILS
    assert verdict("A6", dford_curves=curves({}, played=-0.5)) == HOLDS
    assert verdict("A14", dford_curves=curves({})) == HOLDS
    assert verdict("A14", dford_curves=curves({}, thresholds=np.array([1, 1, -1, 1]))) == FAILS
    assert verdict("A14", dford_curves=curves({}, thresholds=np.array([1, 0, 1, 1]))) == UNTESTED
    assert verdict("A18", dford_curves=curves({"DFORD, printed clip": 3.0})) == FAILS
    assert verdict("A18", dford_curves=curves({})) == HOLDS


def test_regret():
    linear = np.diff(ROUNDS, prepend=0)
    assert verdict("A16", dford_curves=curves({})) == HOLDS
    assert verdict("A16", dford_curves=curves({}, sums=linear)) == FAILS
    assert verdict("A15", dford_curves=curves({})) == HOLDS
    least = min(
        ordinal.regret_bound(5, 1.0, ROUNDS[-1], **task.point) for task in protocol.TASKS.values()
    )
    over = curves({}, sums=linear * 2 * least / ROUNDS[-1])
    assert verdict("A15", dford_curves=over) == FAILS


def grid(by_explore, *, changed=False):
    """Records as of `dford_grid`, equal for all `reg`s but for one count if `changed`."""
    regs, explores = np.array([1.0, 2.0]), np.array([0.2, 0.4, 0.6, 0.8])
    points = [(name, reg, k) for name in NAMES for reg in regs for k in range(4)]
    counts = np.array([round(1000 * by_explore(name)[k]) for name, _, k in points])
    counts = counts[:, None, None] + np.arange(SEEDS)[:, None] % 3
    counts = np.broadcast_to(counts, (len(points), SEEDS, 1)).astype(np.int32)
    loss = counts.copy()
    loss[-1, 0, 0] += changed
    dims = ("point", "seed", "round")
    others = ("greedy_error", "output_error", "violations")
    return xr.Dataset(
        {"loss": (dims, loss)} | {one: (dims, counts) for one in others},
        {
            "dataset": ("point", [name for name, _, _ in points]),
            "reg": ("point", [reg for _, reg, _ in points]),
            "explore": ("point", [explores[k] for _, _, k in points]),
            "round": [1000],
        },
    )


def test_grid():
    def as_paper(name):
        return 1 + abs(np.array([0.2, 0.4, 0.6, 0.8]) - protocol.TASKS[name].explore)

    assert verdict("A7", dford_grid=grid(as_paper)) == FAILS
    assert verdict("A7", dford_grid=grid(as_paper, changed=True)) == HOLDS
    assert verdict("A8", dford_grid=grid(as_paper)) == HOLDS
    assert verdict("A8", dford_grid=grid(lambda name: np.ones(4))) == FAILS
    assert verdict("A9", dford_grid=grid(as_paper)) == HOLDS
    assert verdict("A9", dford_grid=grid(lambda name: np.array([4.0, 3, 2, 1]))) == FAILS


def test_truncation():
    budgets = [100.0, 500.0, 1000.0, np.inf]

    def records(means):
        loss = 1000 * (np.array(means)[:, None, None] + noise(4, SEEDS, 1))
        return xr.Dataset(
            {"loss": (("point", "seed", "round"), loss)},
            {"dataset": ("point", ["abalone"] * 4), "budget": ("point", budgets), "round": [1000]},
        )

    assert verdict("A10 abalone", dford_truncation=records([2, 1, 3, 0])) == HOLDS
    assert verdict("A10 abalone", dford_truncation=records([3, 2, 1, 2])) == FAILS
    assert verdict("A10 synthetic", dford_truncation=records([2, 1, 3, 0])) == UNTESTED


def published(off=0.0, none=0.0):
    """Records as of `dford_exploration`: the paper's numbers, a far protocol, and noise."""
    parts, rounds = [], exploration.EVERY * np.arange(1, 11)
    for name, paper in exploration.PUBLISHED.items():
        for reading, shift in (("near", off), ("far", 1.0)):
            means = np.asarray(paper) + shift + np.array([none, 0, 0])[:, None]
            sums = np.diff(means * rounds, prepend=0.0, axis=1)[:, None]
            sums = sums + noise(3, SEEDS, 1, size=10)
            starts = [f"{reading}, {init} start" for init in ("random", "zeros", "zeros")]
            parts.append(
                xr.Dataset(
                    {"loss": (("point", "seed", "round"), sums)},
                    {
                        "dataset": ("point", [name] * 3),
                        "learner": ("point", starts),
                        "explore": ("point", np.asarray(exploration.EXPLORES)),
                        "round": rounds,
                    },
                )
            )
    return xr.concat(parts, "point", join="exact")


def test_exploration_and_table_2():
    assert verdict("A12 california", dford_exploration=published()) == HOLDS
    assert verdict("A12 california", dford_exploration=published(none=-3.0)) == FAILS
    assert verdict("A12 movielens", dford_exploration=published()) == UNTESTED
    assert verdict("A13 telemonitoring", dford_exploration=published()) == HOLDS
    assert verdict("A13 telemonitoring", dford_exploration=published(off=0.3)) == FAILS
    found = ledger.settle(CLAIMS["A13 california"], {"dford_exploration": published()})
    assert "near" in found.why


def test_claims_of_counts_and_formulas():
    assert verdict("A11") == HOLDS
    found = ledger.settle(CLAIMS["A17"], {})
    assert found.verdict == HOLDS and "0, exact" in found.value


def test_every_data_set_has_its_row_of_table_1():
    assert len(protocol.TASKS) == 8
    assert {task.scaling for task in protocol.TASKS.values()} <= set(protocol.SCALINGS)
    assert set(exploration.PUBLISHED) <= set(protocol.TASKS)
    assert len(CLAIMS) == len(dford.CLAIMS)
    assert dford_judges.EQUAL < dford_judges.SMALL


@pytest.mark.slow
def test_smoke_run_plays_the_experiments_and_writes_the_ledger(tmp_path, capsys):
    assert main(["claims", "--smoke", "--papers", "dford", "--out", str(tmp_path)]) == 0
    ledger = json.loads((tmp_path / "claims.json").read_text("utf-8"))
    assert [row["id"] for row in ledger["claims"]] == list(CLAIMS)
    assert set(ledger["sources"]) == set(dford.SMOKE)
    for row in ledger["claims"]:
        assert row["verdict"] == UNTESTED or not CLAIMS[row["id"]].needs
    assert "| A1 |" in (tmp_path / "claims.md").read_text("utf-8")
    for name in dford.SMOKE:
        assert (tmp_path / name / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "dford_curves" / "regret.png").exists()

    with xr.open_dataset(tmp_path / "dford_grid" / "records.nc", engine="h5netcdf") as records:
        counts = records["loss"].values.reshape(6, 4, 2, 4)  # reg, explore, seed, window
    np.testing.assert_array_equal(counts, np.broadcast_to(counts[:1], counts.shape))
    with xr.open_dataset(tmp_path / "dford_curves" / "records.nc", engine="h5netcdf") as records:
        assert records["thresholds"].shape == (2, 2, 9)
        assert records["dataset"].values.tolist() == ["bank", "bank"]
        assert np.all(records["regularised_loss"] >= 0)
    table = (tmp_path / "dford_truncation" / "table.csv").read_text("utf-8").splitlines()
    assert [line.split(",")[1] for line in table[1:]] == ["50", "inf"]

    capsys.readouterr()
    out = tmp_path / "again"  # reads what is there
    again = ["claims", "--papers", "dford", "--results", str(tmp_path), "--out", str(out)]
    assert main(again) == 0
    again = json.loads((out / "claims.json").read_text("utf-8"))
    assert again["claims"] == ledger["claims"]
