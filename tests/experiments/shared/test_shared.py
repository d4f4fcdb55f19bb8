"""Statistics and options that all experiments share."""

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from experiments.shared.figures import new_figure
from experiments.shared.options import SharedOptions
from experiments.shared.outputs import save, save_figure
from experiments.shared.records import mean_interval


def test_mean_interval_is_students():
    interval = mean_interval(np.array([[1.0, 2.0, 3.0]]))
    half = 4.302652729911275 / np.sqrt(3)  # t_{2, 0.975} from a table, s = 1
    np.testing.assert_allclose(np.ravel(interval), [2.0, 2.0 - half, 2.0 + half])


def test_one_seed_has_no_interval():
    interval = mean_interval(np.array([[1.0], [2.0]]))
    np.testing.assert_array_equal(interval.mean, [1.0, 2.0])
    assert np.isnan(interval.low).all() and np.isnan(interval.high).all()


@pytest.mark.parametrize(("rounds", "windows"), [(10_000, 50), (30, 1), (3, 3)])
def test_smoke_caps_and_keeps_the_windows_whole(rounds, windows):
    options = SharedOptions(smoke=True, rounds=rounds, windows=windows).capped()
    assert options.rounds <= min(rounds, 400)
    assert options.rounds % options.windows == 0
    assert options.rounds == options.record_every * options.windows


def test_without_smoke_nothing_is_capped():
    options = SharedOptions(seeds=3)
    assert options.capped() is options


def test_folders_are_paths_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert SharedOptions(out=Path("~/runs"), data=Path("~")).folder() == tmp_path / "runs"
    with pytest.raises(ValueError, match="^--out must be a path of this machine"):
        SharedOptions(out=Path("gs://bucket/run")).folder()
    with pytest.raises(ValueError, match="^--data must be a path of this machine"):
        SharedOptions(data=Path("gs://bucket"))


def test_file_is_replaced_whole_or_not_at_all(tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_text("old")

    def broken(to):
        to.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        save(path, broken)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    assert capsys.readouterr().out == ""

    save(path, lambda to: to.write_text("new"))
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]
    assert capsys.readouterr().out == f"wrote {path}\n"


def test_nothing_of_a_figure_is_cut_off(tmp_path, capsys):
    figure, axes = new_figure(figsize=(2, 2))
    for name in "abc":
        axes.plot([1, 2], label=f"{name}: a long name that a panel has no room for")
    handles = axes.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle("a title that is longer than a panel is wide")
    save_figure(tmp_path / "figure.png", figure)
    shown = matplotlib.image.imread(tmp_path / "figure.png")
    for edge in (shown[0], shown[-1], shown[:, 0], shown[:, -1]):
        np.testing.assert_array_equal(edge, np.ones_like(edge))  # white
