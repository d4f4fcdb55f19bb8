"""`python -m experiments compare A B`."""

import json
import shutil

import numpy as np
import pytest

from experiments import compare
from experiments.__main__ import main, names
from experiments.shared.records import joint_records
from jonline import SweepResult


def result(**changes):
    """One of 3 points, 2 seeds and 4 windows of 5 rounds."""
    loss = np.linspace(0, 1, 24, dtype=np.float32).reshape(3, 2, 4)
    return SweepResult(
        **{
            "records": {"loss": loss, "errors": np.arange(24, dtype=np.int32).reshape(3, 2, 4)},
            "states": {"w": np.ones((3, 2, 7), np.float32)},
            "grid": {"reg": np.array([1.0, 2.0, 4.0], np.float32)},
            "record_every": 5,
            "undelivered": np.zeros((3, 2), np.int32),
            "environment": {"jax": "1", "device": "1 x cpu"},
        }
        | changes
    )


def compared(tmp_path, capsys, other):
    """Exit status and output for `result()` and another."""
    result().save(tmp_path / "a.nc")
    other.save(tmp_path / "b.nc")
    status = main(["compare", str(tmp_path / "a.nc"), str(tmp_path / "b.nc")])
    return status, capsys.readouterr().out.strip()


def records_with(*places, name="loss", by=1.0):
    records = {name: sums.copy() for name, sums in result().records.items()}
    for place in places:
        records[name][place] += np.asarray(by, records[name].dtype)
    return result(records=records)


def test_equal_results_are_equal(tmp_path, capsys):
    status, shown = compared(tmp_path, capsys, result())
    assert (status, shown) == (0, "equal to the bit: 3 points x 2 seeds x 4 windows")


def test_first_window_then_lane_then_metric_is_named(tmp_path, capsys):
    status, shown = compared(tmp_path, capsys, records_with((0, 1, 3), (2, 1, 2), (1, 0, 2)))
    assert status == 1
    assert shown == (
        "they part in window 2 (rounds 10 to 14), at point 1 {'reg': 2.0}, seed 0, in 'loss': "
        f"{float(result().records['loss'][1, 0, 2])!r} / "
        f"{float(result().records['loss'][1, 0, 2] + np.float32(1))!r}; "
        "3 of 6 runs differ somewhere, in 'loss'"
    )


def test_one_last_bit_counts_and_so_does_the_sign_of_zero(tmp_path, capsys):
    records = {name: sums.copy() for name, sums in result().records.items()}
    records["loss"][0, 0, 0] = -0.0
    status, shown = compared(tmp_path, capsys, result(records=records))
    assert status == 1 and "window 0 (rounds 0 to 4), at point 0" in shown and "0.0 / -0.0" in shown
    status, shown = compared(tmp_path, capsys, records_with((2, 0, 1), name="errors", by=1))
    assert status == 1 and "in 'errors': 17.0 / 18.0; 1 of 6 runs" in shown


def test_equal_nans_are_equal(tmp_path, capsys):
    records = {"loss": np.full((3, 2, 4), np.nan, np.float32)}
    for name in ("a.nc", "b.nc"):
        result(records=records).save(tmp_path / name)
    assert main(["compare", str(tmp_path / "a.nc"), str(tmp_path / "b.nc")]) == 0
    assert capsys.readouterr().out.startswith("equal")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (dict(states={"w": np.zeros((3, 2, 7), np.float32)}), "\"state['w']\" differs, over point"),
        (dict(undelivered=np.ones((3, 2), np.int32)), "'undelivered' differs, over point, seed"),
        (dict(grid={"reg": np.array([1.0, 2.0, 5.0], np.float32)}), "'reg' differs, over point"),
        (dict(grid={"explore": np.ones(3, np.float32)}), "only a has 'reg'"),
        (dict(records={"loss": result().records["loss"]}), "only a has 'errors'"),
        (dict(record_every=10), "'round' differs, over round"),
        (
            dict(records={n: v.astype(np.float64) for n, v in result().records.items()}),
            "'loss' is of float32 / float64",
        ),
        (
            dict(records={n: v[..., :3] for n, v in result().records.items()}),
            "they have 4 / 3 rounds",
        ),
    ],
)
def test_other_grids_and_shapes_are_named(changes, line, tmp_path, capsys):
    status, shown = compared(tmp_path, capsys, result(**changes))
    assert status == 1 and any(found.startswith(line) for found in shown.splitlines()), shown


def test_other_environment_is_named_and_is_no_difference(tmp_path, capsys):
    other = result(environment={"jax": "2", "device": "1 x cpu", "x64": "True"})
    status, shown = compared(tmp_path, capsys, other)
    assert status == 0
    assert shown.splitlines()[:2] == [
        "environment, jax: 1 / 2",
        "environment, x64: not known / True",
    ]


def test_records_of_experiments_are_compared_with_their_environments(tmp_path, capsys):
    folders = []
    for name, jax in (("one", "1"), ("two", "2")):
        folders.append(tmp_path / name)
        folders[-1].mkdir()
        dataset = joint_records({("first",): result(), ("second",): result(grid={})}, ("learner",))
        dataset.to_netcdf(folders[-1] / "records.nc", engine="h5netcdf")
        text = json.dumps({"environment": {"jax": jax}})
        (folders[-1] / "provenance.json").write_text(text)
    files = [str(folder / "records.nc") for folder in folders]
    assert main(["compare", *files]) == 0
    assert "environment, jax: 1 / 2" in capsys.readouterr().out
    dataset = joint_records(
        {("first",): result(), ("second",): records_with((1, 1, 0))}, ("learner",)
    )
    dataset.to_netcdf(files[1], engine="h5netcdf")
    assert main(["compare", *files]) == 1
    shown = capsys.readouterr().out
    assert "'reg' differs" in shown and "window 0 (rounds 0 to 4), at point 4" in shown
    assert "'learner': 'second'" in shown


def test_file_that_is_no_result_is_an_error(tmp_path, capsys):
    result().save(tmp_path / "a.nc")
    (tmp_path / "text.nc").write_text("no NetCDF")
    for name, message in (("none.nc", "none.nc"), ("text.nc", "text.nc' is no result")):
        assert main(["compare", str(tmp_path / "a.nc"), str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err


def test_command_is_listed_and_is_no_experiment(tmp_path, capsys):
    assert "compare" not in names()
    main([])
    first = compare.__doc__.splitlines()[0]
    assert any(line.split() == ["compare", *first.split()]
               for line in capsys.readouterr().out.splitlines())  # fmt: skip
    shutil.rmtree(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(["compare", "a.nc"])
