"""What a sweep measured, in memory and on disk."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline.board import NonFinite
from jonline.core import ArrayTree

_OF_NETCDF = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
_OF_NETCDF |= {"float32", "float64"}  # other dtypes are stored as their bytes


class SweepResult(NamedTuple):
    """What a sweep measured.

    Attributes:
      records: name -> (points, seeds, windows): each metric's sum over the rounds of a window,
        int32 for counts, else float32 (float64 under x64).
      states: final states, a pytree with leading axes (points, seeds).
      grid: name -> (points,): the hyperparameters.
      record_every: rounds of a window.
      undelivered: (points, seeds) int32: answers that did not come within the run.
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
        coordinates of `point`. A metric or an axis whose name is taken (e.g. an axis called like a
        metric) has a "_" behind it. Needs the extra `experiments`.
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
        names = _names(self)
        coords |= {names["grid"][name]: ("point", axis) for name, axis in self.grid.items()}
        variables: dict[str, Any] = {
            names["records"][name]: (dims, sums) for name, sums in self.records.items()
        }
        variables["undelivered"] = (dims[:2], self.undelivered)
        attrs = {"record_every": self.record_every}
        return xarray.Dataset(variables, coords=coords, attrs=attrs)

    def save(self, path: str | os.PathLike) -> None:
        """Writes the result to a NetCDF file, which `jonline.load` reads; whole or not at all.

        Needs the extra `experiments`.

        Raises:
          OSError: if the file cannot be written.
        """
        dataset, path, names = self.to_xarray(), Path(path), _names(self)
        for where, leaf in _leaves(self.states):
            raw = leaf if str(leaf.dtype) in _OF_NETCDF else leaf[..., None].view(np.uint8)
            own = [f"{names['states'][where]} axis {i}" for i in range(raw.ndim - 2)]
            attrs = {"kind": str(leaf.dtype)}
            dataset[names["states"][where]] = (("point", "seed", *own), raw, attrs)
        dataset.attrs["names"] = json.dumps(names)
        dataset.attrs["non_finite"] = json.dumps([list(bad) for bad in self.non_finite])
        dataset.attrs["environment"] = json.dumps(self.environment)
        part = path.with_name(f"unfinished-{jax.process_index()}-{os.getpid()}-{path.name}")
        try:
            dataset.to_netcdf(part, engine="h5netcdf")
            os.replace(part, path)
        except (OSError, RuntimeError) as error:  # HDF5's own are of both kinds
            raise OSError(f"{str(path)!r} cannot be written: {error}") from error
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
    try:
        with xarray.open_dataset(path, engine="h5netcdf", decode_cf=False) as file:
            dataset = file.load()
        names = json.loads(dataset.attrs["names"])
        bad, around = (json.loads(dataset.attrs[name]) for name in ("non_finite", "environment"))
    except FileNotFoundError:
        raise
    except (OSError, KeyError, ValueError) as error:
        raise OSError(f"{str(path)!r} is no file of SweepResult.save: {error!r}") from error

    def leaf(name: str) -> np.ndarray:
        values, dtype = dataset[name].values, jnp.dtype(dataset[name].attrs["kind"])
        return values if values.dtype == dtype else values.view(dtype)[..., 0]

    return SweepResult(
        records={name: dataset[there].values for name, there in names["records"].items()},
        states={where: leaf(there) for where, there in names["states"].items()},
        grid={name: dataset[there].values for name, there in names["grid"].items()},
        record_every=int(dataset.attrs["record_every"]),
        undelivered=dataset["undelivered"].values,
        non_finite=tuple(NonFinite(*row) for row in bad),
        environment=around,
    )


def _leaves(states: ArrayTree) -> list[tuple[str, np.ndarray]]:
    """The leaves of the states, each with its place."""
    found = jax.tree_util.tree_leaves_with_path(states)
    return [(jax.tree_util.keystr(where), np.asarray(leaf)) for where, leaf in found]


def _names(result: SweepResult) -> dict[str, dict[str, str]]:
    """What records, grid axes and leaves of the states are called in a file: each differently."""
    taken = {"point", "seed", "round", "undelivered"}

    def free(name: str) -> str:
        name = name.replace("/", "_")  # a group of NetCDF
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    return {
        "records": {name: free(name) for name in result.records},
        "grid": {name: free(name) for name in result.grid},
        "states": {where: free(f"state{where}") for where, _ in _leaves(result.states)},
    }


def _xarray(name: str) -> Any:
    try:
        import xarray
    except ImportError as error:
        raise ImportError(f'{name} needs xarray: pip install "jonline[experiments]"') from error
    return xarray
