"""Are two results equal to the bit, and if not, where do they part first?

Reads `records.nc` of an experiment or a file of `SweepResult.save`. The exit status is 0 where they
are equal and 1 where they are not. Other environments are named, and are no difference.
"""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tyro
import xarray as xr

from jonline import checks

DIMS = ("point", "seed", "round")


@dataclasses.dataclass(frozen=True)
class Options:
    """Two files."""

    a: tyro.conf.Positional[Path]
    """The one file."""
    b: tyro.conf.Positional[Path]
    """The other."""


def main(options: Options) -> int:
    """Prints how the files differ; returns 1 if they do, else 0."""
    files = checks.path("A", options.a), checks.path("B", options.b)
    a, b = map(read, files)
    for line in other_environments(environment(files[0], a), environment(files[1], b)):
        print(line)
    found = [*differences(a, b)]
    for line in found or [equal(a)]:
        print(line)
    return 1 if found else 0


def read(path: Path) -> xr.Dataset:
    """Returns what a file holds, undecoded.

    Raises:
      OSError: if there is no such file, or it is no result.
    """
    try:
        with xr.open_dataset(path, engine="h5netcdf", decode_cf=False) as file:
            dataset = file.load()
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise OSError(f"{str(path)!r} is no result: {error}") from error
    if not set(DIMS) <= set(dataset.sizes):
        raise OSError(f"{str(path)!r} is no result: it has the dimensions {[*dataset.sizes]}")
    return dataset


def environment(path: Path, dataset: xr.Dataset) -> dict[str, str]:
    """Returns the environment that a result was made in, {} if it is not known."""
    if "environment" in dataset.attrs:
        return json.loads(dataset.attrs["environment"])
    beside = path.with_name("provenance.json")
    return json.loads(beside.read_text("utf-8"))["environment"] if beside.exists() else {}


def other_environments(a: dict[str, str], b: dict[str, str]) -> Iterator[str]:
    """Yields a line for each entry in which the environments differ."""
    for name in sorted({*a, *b}):
        if a.get(name) != b.get(name):
            yield f"environment, {name}: {a.get(name, 'not known')} / {b.get(name, 'not known')}"


def differences(a: xr.Dataset, b: xr.Dataset) -> Iterator[str]:
    """Yields a line for each thing that differs; if sizes do, nothing else is looked at."""
    sizes = {dim: (a.sizes[dim], b.sizes[dim]) for dim in DIMS}
    other = {dim: pair for dim, pair in sizes.items() if pair[0] != pair[1]}
    for dim, pair in other.items():
        yield f"they have {pair[0]} / {pair[1]} {dim}s"
    for name in sorted({*a.variables} ^ {*b.variables}, key=str):
        yield f"only {'a' if name in a.variables else 'b'} has {name!r}"
    if other:
        return
    both = [name for name in a.variables if name in b.variables]
    records = [name for name in both if a[name].dims == b[name].dims == DIMS]
    for name in both:
        if name not in records and apart(a[name].values, b[name].values).any():
            yield f"{name!r} differs, over {', '.join(map(str, a[name].dims))}"
    if line := first_part(a, b, [name for name in records if _same_kind(a[name], b[name])]):
        yield line
    for name in records:
        if not _same_kind(a[name], b[name]):
            yield f"{name!r} is of {a[name].dtype} / {b[name].dtype}"


def first_part(a: xr.Dataset, b: xr.Dataset, names: list) -> str:
    """Returns where records first differ: the first window, there the first lane, then the metric.

    "" if they do not.
    """
    masks = {name: apart(a[name].values, b[name].values) for name in names}
    if not any(mask.any() for mask in masks.values()):
        return ""
    of_all = np.stack([*masks.values()])
    window = int(np.flatnonzero(of_all.any(axis=(0, 1, 2)))[0])
    point, seed = map(int, np.argwhere(of_all[..., window].any(axis=0))[0])
    name = names[int(np.flatnonzero(of_all[:, point, seed, window])[0])]
    left, right = (float(one[name].values[point, seed, window]) for one in (a, b))
    end = a["round"].values
    begin = end[window - 1] if window else 0
    grid = {
        axis: np.asarray(values.values[point]).item()
        for axis, values in a.variables.items()
        if values.dims == ("point",) and axis != "point"
    }
    runs = int(of_all.any(axis=(0, 3)).sum())
    return (
        f"they part in window {window} (rounds {begin} to {end[window] - 1}), at point {point} "
        f"{grid}, seed {seed}, in {name!r}: {left!r} / {right!r}; {runs} of "
        f"{of_all[0, :, :, 0].size} runs differ somewhere, in "
        f"{', '.join(repr(name) for name, mask in masks.items() if mask.any())}"
    )


def apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns where two arrays have other bits; one True if their shapes or dtypes differ."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return np.array(True)
    if a.dtype.kind in "fiub":
        words = np.dtype(f"u{a.dtype.itemsize}")
        return a.view(words) != b.view(words)
    return np.asarray(a != b)


def equal(a: xr.Dataset) -> str:
    """The line of two results that are equal."""
    points, seeds, windows = (a.sizes[dim] for dim in DIMS)
    return f"equal to the bit: {points} points x {seeds} seeds x {windows} windows"


def _same_kind(a: Any, b: Any) -> bool:
    return a.dtype == b.dtype
