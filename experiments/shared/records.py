"""Records of several sweeps as one data set, and statistics over seeds."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.stats
import xarray as xr

import jonline


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


def bounds(name: str, interval: Interval) -> dict[str, Any]:
    """Returns the columns of a table for an interval, whose mean is called `name`."""
    return {name: interval.mean, "low_95": interval.low, "high_95": interval.high}


def plain(value: Any) -> Any:
    """Returns a number without the digits that float32 cannot know, other values as they are."""
    if isinstance(value, np.floating):
        return float(f"{value:.6g}")
    return value.item() if isinstance(value, np.generic) else value


def joint_records(results: Mapping[Any, jonline.SweepResult], names: Sequence[str]) -> xr.Dataset:
    """Returns `SweepResult.to_xarray()` of several sweeps, their points one after another.

    Args:
      results: sweeps by key, all of the same metrics, seeds and windows.
      names: what the entries of a key are; one for a key that is no tuple.

    Returns:
      Variables (point, seed, round), and coordinates `names` along `point`; a grid axis that a
      sweep does not have is NaN there.
    """
    parts = [result.to_xarray().drop_vars("point") for result in results.values()]
    axes = {axis for result in results.values() for axis in result.grid}
    for part in parts:
        missing = np.full(part.sizes["point"], np.nan, np.float32)
        for axis in sorted(axes - set(part.coords)):  # in one order, for equal bytes
            part.coords[axis] = ("point", missing)
    joint = xr.concat(parts, "point", join="exact", combine_attrs="identical")
    keys = []
    for key, part in zip(results, parts, strict=True):
        keys += [key if isinstance(key, tuple) else (key,)] * part.sizes["point"]
    for i, name in enumerate(names):
        values = [key[i] for key in keys]
        kind = object if isinstance(values[0], str) else None
        joint.coords[name] = ("point", np.array(values, kind))
    return joint


def mean_curve(records: xr.Dataset, variable: str) -> np.ndarray:
    """Returns the running average over all rounds so far, (..., windows) float64."""
    return records[variable].values.cumsum(axis=-1, dtype=np.float64) / records["round"].values


def select(joint: xr.Dataset, **which: Any) -> xr.Dataset:
    """Returns the points whose coordinates have the given values."""
    keep = np.ones(joint.sizes["point"], bool)
    for name, value in which.items():
        found = joint[name].values
        keep &= np.isclose(found, value) if isinstance(value, float) else found == value
    return joint.isel(point=np.flatnonzero(keep))
