"""What a sweep measured, in memory and on disk."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jonline import checks
from jonline.board import NonFinite
from jonline.core import ArrayTree

_STATE = "state"  # begins the names of the states' leaves in a file


class SweepResult(NamedTuple):
    """What a sweep measured.

    Attributes:
      records: name -> (points, seeds, windows): each metric's sum over the rounds of a window,
        int32 for counts, else float32 (float64 under x64).
      states: final states, a pytree with leading axes (points, seeds).
      grid: name -> (points,): the hyperparameters.
      record_every: rounds of a window.
      undelivered: (points, seeds) int32: answers still on their way at the end.
      non_finite: runs that became NaN or infinite, each with the first window in which it shows.
      environment: versions, devices and flags, as `jonline.environment()` reports them.
    """

    records: dict[str, np.ndarray]
    states: ArrayTree
    grid: dict[str, np.ndarray]
    record_every: int
    undelivered: np.ndarray
    non_finite: tuple[NonFinite, ...] = ()
    environment: dict[str, str] = {}

    def mean_curve(self, name: str) -> np.ndarray:
        """Returns the running average over all rounds so far, (points, seeds, windows) float64.

        Raises:
          ValueError: if there is no metric of that name.
        """
        checks.require(name in self.records, "name", f"be one of {[*self.records]}", repr(name))
        sums = self.records[name]
        rounds = self.record_every * np.arange(1, sums.shape[-1] + 1, dtype=np.float64)
        with np.errstate(invalid="ignore"):  # inf - inf in a run that is not finite
            return np.cumsum(sums, axis=-1, dtype=np.float64) / rounds

    def best(self, name: str) -> int:
        """Returns the number of the point with the lowest average over all rounds and seeds.

        Points with a run that is not finite are passed over, unless there is no other.

        Raises:
          ValueError: if there is no metric of that name.
        """
        with np.errstate(invalid="ignore"):
            means = self.mean_curve(name)[..., -1].mean(axis=-1)
        means[[bad.point for bad in self.non_finite]] = np.inf
        return int(np.nanargmin(means))

    def to_xarray(self) -> Any:
        """Returns the records as an `xarray.Dataset` with dimensions point, seed, round.

        `round` is the number of rounds played at the end of each window; the grid's axes are
        coordinates of `point`. Needs the extra `experiments`.
        """
        xarray = _xarray("to_xarray")
        dims = ("point", "seed", "round")
        points, seeds = self.undelivered.shape
        windows = max((sums.shape[-1] for sums in self.records.values()), default=0)
        coords = {
            "point": np.arange(points),
            "seed": np.arange(seeds),
            "round": self.record_every * np.arange(1, windows + 1),
        }
        coords |= {name: ("point", axis) for name, axis in self.grid.items()}
        variables: dict[str, Any] = {name: (dims, sums) for name, sums in self.records.items()}
        variables["undelivered"] = (dims[:2], self.undelivered)
        attrs = {"record_every": self.record_every}
        return xarray.Dataset(variables, coords=coords, attrs=attrs)

    def save(self, path: str | os.PathLike) -> None:
        """Writes the result to a NetCDF file, which `jonline.load` reads; whole or not at all.

        Needs the extra `experiments`.

        Raises:
          OSError: if the file cannot be written.
        """
        dataset, path = self.to_xarray(), Path(path)
        for where, leaf in jax.tree_util.tree_leaves_with_path(self.states):
            name = _STATE + jax.tree_util.keystr(where)
            own = [f"{name} axis {i}" for i in range(leaf.ndim - 2)]
            as_int = leaf.astype(np.uint8) if leaf.dtype == bool else leaf
            dataset[name] = (("point", "seed", *own), as_int, {"bool": int(leaf.dtype == bool)})
        dataset.attrs["non_finite"] = json.dumps([list(bad) for bad in self.non_finite])
        dataset.attrs["environment"] = json.dumps(self.environment)
        dataset.attrs["grid"] = json.dumps([*self.grid])
        part = path.with_name(path.name + ".part")
        try:
            dataset.to_netcdf(part, engine="h5netcdf")
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)


def load(path: str | os.PathLike) -> SweepResult:
    """Returns a result that `SweepResult.save` wrote, to the bit.

    Its `states` is a dict from the place of each leaf, e.g. ".thresholds", to (points, seeds, ...).
    Needs the extra `experiments`.

    Raises:
      OSError: if there is no such file, or it is none of these.
    """
    xarray = _xarray("load")
    with xarray.open_dataset(path, engine="h5netcdf") as file:
        dataset = file.load()
    records, states = {}, {}
    for name, variable in dataset.data_vars.items():
        if name.startswith(_STATE):
            values = variable.values
            states[name.removeprefix(_STATE)] = (
                values.astype(bool) if variable.attrs["bool"] else values
            )
        elif name != "undelivered":
            records[name] = variable.values
    return SweepResult(
        records=records,
        states=states,
        grid={name: dataset[name].values for name in json.loads(dataset.attrs["grid"])},
        record_every=int(dataset.attrs["record_every"]),
        undelivered=dataset["undelivered"].values,
        non_finite=tuple(NonFinite(*row) for row in json.loads(dataset.attrs["non_finite"])),
        environment=json.loads(dataset.attrs["environment"]),
    )


def _xarray(name: str) -> Any:
    try:
        import xarray
    except ImportError as error:
        raise ImportError(f'{name} needs xarray: pip install "jonline[experiments]"') from error
    return xarray
