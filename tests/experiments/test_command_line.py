"""The command line: listing, help, errors, and what a run leaves behind."""

import ast
import builtins
import dataclasses
import importlib
import inspect
import json
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from experiments.__main__ import HERE, main, names

TINY = ["--seeds", "2", "--rounds", "40", "--windows", "2", "--reg", "1", "--explore", "0.5"]


def test_lists_every_experiment_with_its_first_line(capsys):
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"quickstart", "label_distribution", "dford_exploration", "benchmark"} <= set(names())
    for name in names():
        source = (HERE / f"{name}.py").read_text(encoding="utf-8")
        summary = source.splitlines()[0].removeprefix('"""').removesuffix('"""')
        assert any(line.split() == [name, *summary.split()] for line in lines)


@pytest.mark.parametrize("name", names())
def test_help_shows_every_field_and_each_has_its_meaning(name, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    shown = capsys.readouterr().out
    options = importlib.import_module(f"experiments.{name}").Options
    for field in dataclasses.fields(options):
        assert f"--{field.name.replace('_', '-')}" in shown
    for cls in options.__mro__[:-1]:
        body = ast.parse(inspect.getsource(cls)).body[0].body
        for field, doc in zip(body, body[1:], strict=False):
            if isinstance(field, ast.AnnAssign):
                assert isinstance(doc, ast.Expr), f"{field.target.id} has no docstring"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "there is no experiment 'nothing'"),
        (["quickstart", "--seeds", "0"], "seeds must be >= 1, got 0"),
        (["quickstart", "--rounds", "-5"], "rounds must be >= 1, got -5"),
        (["quickstart", "--rounds", "250"], "not a multiple of windows=100; use 200 or 300"),
        (["quickstart", "--data", "no/such/folder"], "data must be a folder that exists"),
        (["quickstart", "--smoke", "--explore", "2"], "explore must be in [0, 1], got 2"),
        (["label_distribution", "--greedy", "9"], "greedy must be in 1…7, got 9"),
    ],
)
def test_says_what_is_wrong(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        status = main(arguments)
    except SystemExit as stop:  # from the parser, in a box
        status = stop.code
    assert status == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_unknown_experiment_gets_the_list(capsys):
    main(["nothing"])
    assert "quickstart" in capsys.readouterr().err


def test_rounds_that_are_no_number_are_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["quickstart", "--rounds", "many"])
    assert "many" in capsys.readouterr().err


def test_says_how_to_install_a_missing_package(capsys, monkeypatch):
    real = builtins.__import__

    def without_tyro(name, *args, **kwargs):
        if name == "tyro":
            raise ModuleNotFoundError("No module named 'tyro'", name="tyro")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_tyro)
    assert main(["quickstart"]) == 2
    assert 'needs the package tyro: pip install -e ".[all]"' in capsys.readouterr().err


def test_two_runs_of_one_command_give_equal_bytes(tmp_path, capsys):
    first, second = tmp_path / "first", tmp_path / "second"
    command = ["quickstart", *TINY, "--out"]
    assert main([*command, str(first)]) == 0
    subprocess.run(
        [sys.executable, "-m", "experiments", *command, str(second)],
        check=True,
        cwd=HERE.parent,
        capture_output=True,
    )
    for name in ("records.nc", "table.csv"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert str(first / "figure.png") in capsys.readouterr().out
    assert (first / "figure.png").read_bytes().startswith(b"\x89PNG")

    with xr.open_dataset(first / "records.nc", engine="h5netcdf") as records:
        assert dict(records.sizes) == {"point": 3, "seed": 2, "round": 2}
        assert records["round"].values.tolist() == [20, 40]
        assert records["learner"].values.tolist() == ["DFORD", "PRank", "PRIL"]
        assert np.isnan(records["explore"].values[1:]).all()
        assert records["loss"].dtype == np.int32

    provenance = json.loads((first / "provenance.json").read_text("utf-8"))
    assert provenance["arguments"]["rounds"] == 40
    assert provenance["key"] == 0
    assert len(provenance["data"]["lev"]) == 64
    assert {"commit", "uncommitted_changes", "environment"} <= set(provenance)


def test_label_distribution_gives_the_bars_of_figure_1(tmp_path):
    assert main(["label_distribution", "--smoke", "--out", str(tmp_path)]) == 0
    with xr.open_dataset(tmp_path / "records.nc", engine="h5netcdf") as records:
        probs = records["probability"].values
    expected = [
        0.3 * np.eye(7)[4] + 0.7 * np.array([1, 2, 3, 4, 5, 4, 3]) / 22,
        0.3 * np.eye(7)[1] + 0.7 * np.array([5, 6, 5, 4, 3, 2, 1]) / 26,
    ]
    np.testing.assert_allclose(probs, expected, rtol=1e-6)  # float32


def test_dford_exploration_puts_the_published_numbers_beside_ours(tmp_path):
    arguments = ["--smoke", "--rounds", "1000", "--windows", "1", "--out", str(tmp_path)]
    assert main(["dford_exploration", *arguments]) == 0
    lines = (tmp_path / "table.csv").read_text("utf-8").splitlines()
    assert lines[0] == "dataset,protocol,explore,round,loss,low_95,high_95,paper,difference"
    assert len(lines) == 4
