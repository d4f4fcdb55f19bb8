"""The command line: listing, help, errors, and what a run leaves behind."""

import ast
import builtins
import dataclasses
import inspect
import json
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from experiments.__main__ import main, names
from experiments.claims import claims
from experiments.ordinal import label_distribution
from experiments.shared import commands
from experiments.shared.outputs import dump

TINY = ["--seeds", "2", "--rounds", "40", "--windows", "2", "--reg", "1", "--explore", "0.5"]


def test_lists_every_experiment_with_its_first_line(capsys):
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"quickstart", "label_distribution", "dford_exploration", "benchmark"} <= set(names())
    for name in names():
        source = commands.paths()[name].read_text(encoding="utf-8")
        summary = source.splitlines()[0].removeprefix('"""').removesuffix('"""')
        assert any(line.split() == [name, *summary.split()] for line in lines)


@pytest.mark.parametrize("name", names())
def test_help_shows_every_field_and_each_has_its_meaning(name, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    shown = capsys.readouterr().out
    options = commands.load(name).Options
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
        (["quickstart", "--explore", "2"], "--explore must be in [0, 1], got 2"),
        (["quickstart", "--reg", "1", "0"], "--reg must be > 0 and finite, got 0.0"),
        (["quickstart", "--clip", "-1"], "--clip must be > 0, got -1.0"),
        (["dford_grid", "--explore", "nan"], "--explore must be in [0, 1], got nan"),
        (["dford_grid", "--reg", "-1"], "--reg must be > 0 and finite, got -1.0"),
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


@pytest.mark.parametrize("out", ["/dev/null", "a_file", "a_file/below", "/proc/results"])
def test_bad_out_is_found_before_anything_is_played(out, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_file").write_text("kept")
    monkeypatch.setattr(label_distribution, "main", lambda options: pytest.fail("was played"))
    assert main(["label_distribution", "--out", out]) == 2
    assert f"--out must be a folder to write in, got {out} (" in capsys.readouterr().err
    assert (tmp_path / "a_file").read_text() == "kept"


def test_interrupted_run_says_so_in_one_line(capsys, tmp_path, monkeypatch):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(label_distribution, "main", interrupted)
    assert main(["label_distribution", "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "\ninterrupted; nothing was written\n"
    assert list(tmp_path.iterdir()) == []

    def interrupted_late(options):
        dump(options.folder() / "one.json", {})
        raise KeyboardInterrupt

    monkeypatch.setattr(label_distribution, "main", interrupted_late)
    assert main(["label_distribution", "--out", str(tmp_path)]) == 130
    found = capsys.readouterr()
    assert found.err == "\ninterrupted; not all was written\n"
    assert found.out == f"wrote {tmp_path / 'one.json'}\n"


def test_smoke_run_leaves_results_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["label_distribution", "--smoke"]) == 0
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["label_distribution-smoke"]
    assert claims.Options(smoke=True).folder().name == "claims-smoke"


@pytest.mark.parametrize("name", ["quickstart", "label_distribution", "benchmark"])
def test_help_says_where_data_changes_nothing(name, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "Changes nothing here" in shown and "JONLINE_DATA" not in shown


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


def twice_the_same(command, folder):
    """Runs a command here and in another process; returns the folder of the first."""
    first, second = folder / "first", folder / "second"
    assert main([*command, "--out", str(first)]) == 0
    subprocess.run(
        [sys.executable, "-m", "experiments", *command, "--out", str(second)],
        check=True,
        cwd=commands.HERE.parent,
        capture_output=True,
    )
    for name in ("records.nc", "table.csv"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    return first


def test_two_runs_of_one_command_give_equal_bytes(tmp_path, capsys):
    first = twice_the_same(["quickstart", *TINY], tmp_path)
    shown = capsys.readouterr()
    assert "compiling" in shown.err
    assert "less can win here" in shown.out
    assert f"wrote {first / 'figure.png'}" in shown.out
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


def test_an_experiment_gives_equal_bytes_in_another_process(tmp_path):
    twice_the_same(["label_distribution", "--smoke"], tmp_path)


def test_label_distribution_gives_the_bars_of_figure_1(tmp_path):
    assert main(["label_distribution", "--smoke", "--out", str(tmp_path)]) == 0
    with xr.open_dataset(tmp_path / "records.nc", engine="h5netcdf") as records:
        probs = records["probability"].values
    expected = [
        0.3 * np.eye(7)[4] + 0.7 * np.array([1, 2, 3, 4, 5, 4, 3]) / 22,
        0.3 * np.eye(7)[1] + 0.7 * np.array([5, 6, 5, 4, 3, 2, 1]) / 26,
    ]
    np.testing.assert_allclose(probs, expected, rtol=1e-6)  # float32


def test_dford_exploration_says_where_its_data_are_made_up(tmp_path, capsys):
    arguments = ["--smoke", "--rounds", "1000", "--windows", "1", "--out", str(tmp_path)]
    assert main(["dford_exploration", *arguments]) == 0
    shown = capsys.readouterr()
    assert "compiling" in shown.err
    assert not {"nan", "nan)", "nearest"} & set(shown.out.split())
    provenance = json.loads((tmp_path / "provenance.json").read_text("utf-8"))
    assert list(provenance["data"]) == ["EachMovie (here: made up)"]
    lines = (tmp_path / "table.csv").read_text("utf-8").splitlines()
    assert lines[0] == "dataset,protocol,explore,round,loss,low_95,high_95,paper,difference"
    assert [line.split(",")[0] for line in lines[1:]] == ["EachMovie (here: made up)"] * 3
