"""The files that an experiment writes, each whole or not at all."""

import csv
import dataclasses
import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr

import jonline
from experiments.shared.commands import HERE
from experiments.shared.options import SharedOptions

Row = Mapping[str, Any]

written: list[Path] = []  # files that `save` has put in place


def write(
    options: SharedOptions,
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
        save_records(folder / "records.nc", records)
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


def save_records(path: Path, records: xr.Dataset) -> None:
    """Saves records as netCDF-4; the same records are the same bytes."""
    save(path, partial(records.to_netcdf, engine="h5netcdf"))


def save_figure(path: Path, figure) -> None:
    """Saves a figure, with all of a legend or title that is wider than its panels."""
    save(path, partial(figure.savefig, dpi=160, bbox_inches="tight"))


def write_csv(table: Sequence[Row], path: Path) -> None:
    """Writes rows of equal columns; for `save`."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


def provenance(options: SharedOptions, checksums: Mapping[str, str]) -> dict[str, Any]:
    """Returns where results come from: commit, versions, device, key, arguments, data."""
    changes = _git("status", "--porcelain")
    return {
        "experiment": type(options).__module__.rpartition(".")[2],
        "arguments": dataclasses.asdict(options),
        "key": options.key,
        "data": dict(checksums),
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": None if changes is None else bool(changes),
        "environment": jonline.versions(),
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


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(HERE), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
