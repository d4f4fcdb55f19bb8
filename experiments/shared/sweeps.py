"""What all experiments share: their options, the files they write, and their statistics."""

import csv
import dataclasses
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.stats
import xarray as xr

import jonline
from jonline import checks

CHECKOUT = Path(__file__).parents[2]
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito 2008

Row = Mapping[str, Any]

written: list[Path] = []  # files that `save` has put in place


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What every experiment can be told."""

    smoke: bool = False
    """A capped size that ends within 20 seconds: shows that it runs, its numbers mean nothing."""
    seeds: int = 10
    """Independent runs of every point, >= 1."""
    rounds: int = 10_000
    """Rounds of every run, a multiple of `windows`."""
    windows: int = 50
    """Points of every curve: sums are kept over this many equal parts of a run."""
    key: int = 0
    """Seed of the root random key."""
    data: Path | None = None
    """Folder with the data files. Default: $JONLINE_DATA, else the cache, else a download; a smoke
    run makes up its data instead."""
    out: Path | None = None
    """Folder for the results, made if it is missing. Default: results/NAME, or results/NAME-smoke
    of a smoke run."""

    def __post_init__(self):
        for name in ("seeds", "rounds", "windows"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name} must be >= 1, got {getattr(self, name)}")
        if self.key < 0:
            raise ValueError(f"--key must be >= 0, got {self.key}")
        if self.data is not None and not checks.path("--data", self.data).is_dir():
            raise ValueError(f"--data must be a folder that exists, got {self.data}")
        if not self.smoke and self.rounds % self.windows:
            below = self.rounds // self.windows * self.windows
            nearest = f"{below} or {below + self.windows}" if below else f"{self.windows}"
            raise ValueError(
                f"rounds={self.rounds} is not a multiple of windows={self.windows}; use {nearest}"
            )

    def capped(self, *, seeds: int = 2, rounds: int = 400, windows: int = 4):
        """Returns these options, with `--smoke` cut down to at most the given size."""
        if not self.smoke:
            return self
        windows = min(self.windows, windows)
        rounds = max(1, min(self.rounds, rounds) // windows) * windows
        return dataclasses.replace(
            self, seeds=min(self.seeds, seeds), rounds=rounds, windows=windows
        )

    @property
    def record_every(self) -> int:
        """Rounds of a window."""
        return self.rounds // self.windows

    def folder(self) -> Path:
        """Returns the folder for the results, made if it was missing.

        Raises:
          ValueError: if no file can be made there.
        """
        name = type(self).__module__.rpartition(".")[2] + "-smoke" * self.smoke
        folder = Path("results") / name if self.out is None else checks.path("--out", self.out)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise ValueError(
                f"--out must be a folder to write in, got {folder} ({error.strerror})"
            ) from error
        return folder


class Interval(NamedTuple):
    """A mean over seeds and the ends of its 95 % interval, all of one shape."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def mean_interval(values: np.ndarray, *, axis: int = -1, level: float = 0.95) -> Interval:
    """Returns the mean over `axis` with Student's t-interval, `mean ± t_{n-1} s / sqrt(n)`.

    The interval is for the mean over seeds, each seed one independent value; with one seed its ends
    are NaN.
    """
    values = np.asarray(values, np.float64)
    num = values.shape[axis]
    mean = values.mean(axis)
    if num == 1:
        return Interval(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))
    half = scipy.stats.t.ppf((1 + level) / 2, num - 1) * values.std(axis, ddof=1) / np.sqrt(num)
    return Interval(mean, mean - half, mean + half)


def records(results: Mapping[str, jonline.SweepResult]) -> xr.Dataset:
    """Returns `SweepResult.to_xarray()` of several sweeps, their points one after another.

    Args:
      results: sweeps by name of the learner, all of the same metrics, seeds and windows.

    Returns:
      Variables (point, seed, round), with the coordinate `learner` along `point`; a grid axis that
      a sweep does not have is NaN there.
    """
    parts = [
        result.to_xarray()
        .drop_vars("point")
        .assign_coords(learner=("point", _repeated(name, result)))
        for name, result in results.items()
    ]
    axes = {axis for result in results.values() for axis in result.grid}
    for part in parts:
        missing = np.full(part.sizes["point"], np.nan, np.float32)
        for axis in sorted(axes - set(part.coords)):  # in one order, for equal bytes
            part.coords[axis] = ("point", missing)
    return xr.concat(parts, "point", join="exact", combine_attrs="identical")


def _repeated(name: str, result: jonline.SweepResult) -> np.ndarray:
    return np.full(len(result.undelivered), name, dtype=object)


def write(
    options: Options,
    *,
    table: Sequence[Row],
    figure=None,
    records: xr.Dataset | None = None,
    checksums: Mapping[str, str] | None = None,
    shown: Sequence[Row] | None = None,
) -> Path:
    """Prints the table, and writes what an experiment leaves.

    Args:
      options: the options it ran under.
      table: rows of equal columns; `table.csv`.
      figure: matplotlib figure; `figure.png`.
      records: `records.nc`, netCDF-4; the same records are the same bytes.
      checksums: name of each data set -> what identifies its content; in `provenance.json`.
      shown: the rows to print, if not the whole table.

    Returns:
      The folder.
    """
    folder = options.folder()
    print(as_text(table if shown is None else shown))
    save(folder / "table.csv", partial(write_csv, table))
    if records is not None:
        save(folder / "records.nc", partial(records.to_netcdf, engine="h5netcdf"))
    if figure is not None:
        save_figure(folder / "figure.png", figure)
    dump(folder / "provenance.json", provenance(options, checksums or {}))
    return folder


def save(path: Path, write: Callable[[Path], Any]) -> None:
    """Lets `write` make a file beside `path`, puts it in the place of `path`, and says so.

    Whatever goes wrong, what lies at `path` is whole. Of several processes the first writes.
    """
    if jax.process_index():
        return  # of several processes the first writes
    unfinished = path.with_name(f"unfinished-{os.getpid()}-{path.name}")
    try:
        write(unfinished)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    written.append(path)
    print(f"wrote {path}")


def save_figure(path: Path, figure) -> None:
    """Saves a figure, with all of a legend or title that is wider than its panels."""
    save(path, partial(figure.savefig, dpi=160, bbox_inches="tight"))


def write_csv(table: Sequence[Row], path: Path) -> None:
    """Writes rows of equal columns; for `save`."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


def provenance(options: Options, checksums: Mapping[str, str]) -> dict[str, Any]:
    """Returns where results come from: commit, versions, device, key, arguments, data."""
    changes = _git("status", "--porcelain")
    return {
        "experiment": type(options).__module__.rpartition(".")[2],
        "arguments": dataclasses.asdict(options),
        "key": options.key,
        "data": dict(checksums),
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": None if changes is None else bool(changes),
        "environment": jonline.environment(),
    }


def dump(path: Path, value: Any) -> None:
    """Writes `value` as JSON, what JSON does not know as its `str`."""
    text = json.dumps(value, indent=2, sort_keys=True, default=str) + "\n"
    save(path, lambda to: to.write_text(text, "utf-8"))


def as_text(table: Iterable[Row]) -> str:
    """Returns the rows as aligned text, numbers to four digits."""
    rows = [{name: _cell(value) for name, value in row.items()} for row in table]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    lines = [[name.rjust(width) for name, width in widths.items()]]
    lines += [[row[name].rjust(width) for name, width in widths.items()] for row in rows]
    return "\n".join("  ".join(line) for line in lines)


def plot_curve(axes, rounds: np.ndarray, curves: np.ndarray, *, colour: str, label: str, **style):
    """Draws the mean over seeds of `curves` (seeds, windows) and shades its 95 % interval."""
    mean, low, high = mean_interval(curves, axis=0)
    axes.plot(rounds, mean, color=colour, label=label, **style)
    axes.fill_between(rounds, low, high, color=colour, alpha=0.2, linewidth=0)


def new_figure(**kwargs):
    """Returns `(figure, axes)` of a figure that needs no screen; arguments as `Figure.subplots`."""
    import matplotlib.figure

    figsize = kwargs.pop("figsize", (7, 4.5))
    figure = matplotlib.figure.Figure(figsize=figsize, layout="constrained")
    axes = figure.subplots(**kwargs)
    for one in np.atleast_1d(axes).flat:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(axis="y", color="0.9")
        one.set_axisbelow(True)
    return figure, axes


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(CHECKOUT), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
