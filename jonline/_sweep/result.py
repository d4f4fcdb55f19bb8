"""What a sweep measured, in memory and on disk."""

import importlib
import json
import math
import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jonline import checks
from jonline._sweep import files
from jonline.core import ArrayTree, Learner

_OF_NETCDF = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
_OF_NETCDF |= {"float32", "float64"}  # other dtypes are stored as their bytes


class NonFinite(NamedTuple):
    """Where a run first was not finite: its point, seed and window, in a metric or the state."""

    point: int
    seed: int
    window: int
    name: str


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
      environment: versions, devices and flags, as `jonline.versions()` reports them.
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
        known = isinstance(name, str) and name in self.records
        checks.require(known, "name", f"be one of {[*self.records]}", repr(name))
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

    def state(self, point: int, seed: int, learner: Learner) -> ArrayTree:
        """Returns the final state of one run as the tree of `learner`, also after `load`.

        Args:
          point, seed: numbers of the run, from 0.
          learner: one as `make` returns for the run; only the shapes of its `init` are read.

        Returns:
          What `learner.init` returns, e.g. a NamedTuple, of new arrays on JAX's default device.

        Raises:
          TypeError: if an argument is of another kind.
          ValueError: if there is no such run, or the states are not of this learner.
        """
        for name, value, count in zip(
            ("point", "seed"), (point, seed), self.undelivered.shape, strict=True
        ):
            checks.at_least(name, value, 0)
            checks.require(value < count, name, f"be < {count}, the number of {name}s", value)
        checks.kind("learner", learner, Learner)
        shapes = jax.eval_shape(learner.init, jax.random.key(0))
        wanted = {
            jax.tree_util.keystr(where): like
            for where, like in jax.tree_util.tree_leaves_with_path(shapes)
        }
        found = dict(_leaves(self.states))
        if found.keys() != wanted.keys() and isinstance(self.states, dict):
            found = self.states  # of `load`: by place
        there = {where: f"{leaf.dtype}{[*leaf.shape[2:]]}" for where, leaf in found.items()}
        here = {where: f"{like.dtype}{[*like.shape]}" for where, like in wanted.items()}
        if there != here:
            raise ValueError(f"the states must be those of learner, {here}, got {there}")
        leaves = [jnp.array(found[where][point, seed]) for where in wanted]
        return jax.tree.unflatten(jax.tree.structure(shapes), leaves)

    def to_xarray(self) -> Any:
        """Returns the records as an `xarray.Dataset` with dimensions point, seed, round.

        `round` is the number of rounds played at the end of each window; the grid's axes are
        coordinates of `point`. A metric or an axis whose name is taken (e.g. an axis called like a
        metric) has a "_" behind it. Needs the extra `experiments`.
        """
        xarray = _needs("xarray", "to_xarray")
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

        Behind its end stands a checksum, which other readers of NetCDF do not see.
        Needs the extra `experiments`.

        Args:
          path: of this machine, also with "~"; a file that is there is replaced.

        Raises:
          OSError: if the file cannot be written; it says whether one is there.
        """
        dataset, path, names = self.to_xarray(), checks.path("path", path), _names(self)
        for where, leaf in _leaves(self.states):
            raw = leaf if str(leaf.dtype) in _OF_NETCDF else leaf[..., None].view(np.uint8)
            own = [f"{names['states'][where]} axis {i}" for i in range(raw.ndim - 2)]
            attrs = {"kind": str(leaf.dtype)}
            dataset[names["states"][where]] = (("point", "seed", *own), raw, attrs)
        dataset.attrs["names"] = json.dumps(names)
        dataset.attrs["non_finite"] = json.dumps([list(bad) for bad in self.non_finite])
        dataset.attrs["environment"] = json.dumps(self.environment)
        try:
            with files.beside(path) as part:
                dataset.to_netcdf(part, engine="h5netcdf")
                files.seal(part)
                os.replace(part, path)
        except (OSError, RuntimeError) as error:  # HDF5's own are of both kinds
            left = "what was there is unchanged" if os.path.exists(path) else "nothing is there"
            raise OSError(f"{str(path)!r} cannot be written: {error}; {left}") from error


def load(path: str | os.PathLike) -> SweepResult:
    """Returns a result that `SweepResult.save` wrote, to the bit.

    Its `states` is a dict from the place of each leaf, e.g. ".thresholds", to (points, seeds, ...);
    `SweepResult.state` returns them as the learner's own. What a file says is not trusted: no
    other file is read, and no more memory is taken than the file is large.
    Needs the extra `experiments`.

    Raises:
      OSError: if there is no such file, or it is none of these, or damaged.
    """
    h5py, path = _needs("h5py", "load"), checks.path("path", path)
    try:
        files.check(path)
        with h5py.File(path, "r") as file:
            return _read(file, os.path.getsize(path))
    except Exception as error:  # what HDF5, JSON and NumPy raise
        if isinstance(error, OSError) and error.filename is not None:
            raise  # e.g. FileNotFoundError
        raise OSError(
            f"{str(path)!r} is no file of SweepResult.save, or a damaged one: {error}"
        ) from error


def _read(file: Any, size: int) -> SweepResult:
    """Returns the result in an open file of `size` bytes."""
    names, bad, around = (
        json.loads(_attribute(file, name, size)) for name in ("names", "non_finite", "environment")
    )
    kinds = ("records", "states", "grid")
    wanted = [there for kind in kinds for there in names[kind].values()] + ["undelivered"]
    if len(set(wanted)) < len(wanted):
        raise ValueError("it has one array for two things")
    arrays = {there: _dataset(file, there) for there in wanted}
    total = sum(map(_bytes, arrays.values()))
    if total > size:
        raise ValueError(f"its arrays would need {total} bytes, and it has {size}")
    records, states, grid = (
        {name: _values(arrays[there]) for name, there in names[kind].items()} for kind in kinds
    )
    undelivered = _values(arrays["undelivered"])
    for where, there in names["states"].items():
        dtype = jnp.dtype(_attribute(arrays[there], "kind", size))
        if states[where].dtype != dtype:
            states[where] = states[where].view(dtype)[..., 0]
    runs, own = undelivered.shape, [*records.values(), *states.values()]
    if any(array.shape[:2] != runs for array in own) or any(
        axis.shape != runs[:1] for axis in grid.values()
    ):
        raise ValueError("its arrays are not of the same points and seeds")
    return SweepResult(
        records=records,
        states=states,
        grid=grid,
        record_every=int(_attribute(file, "record_every", size)),
        undelivered=undelivered,
        non_finite=tuple(NonFinite(int(p), int(s), int(w), str(name)) for p, s, w, name in bad),
        environment=around,
    )


def _dataset(file: Any, name: str) -> Any:
    """Returns an array of an HDF5 file, not yet read; raises ValueError if it is elsewhere."""
    h5py = _needs("h5py", "load")
    try:  # of the link itself: to ask whether the name is there would follow it
        link = file.id.links.get_info(name.encode()).type
    except (KeyError, RuntimeError) as error:
        raise ValueError(f"{name!r} is not there") from error
    if "/" in name or link != h5py.h5l.TYPE_HARD:
        raise ValueError(f"{name!r} is a link")
    array = file[name]
    if not isinstance(array, h5py.Dataset):
        raise ValueError(f"{name!r} is no array")
    plan = array.id.get_create_plist()
    if plan.get_layout() == h5py.h5d.VIRTUAL or plan.get_external_count():
        raise ValueError(f"{name!r} is kept in another file")
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name!r} does not hold numbers")
    return array


def _bytes(array: Any) -> int:
    return math.prod(array.shape) * array.dtype.itemsize


def _values(array: Any) -> np.ndarray:
    """Returns the numbers of an array, whose bytes must be in the file as they are."""
    h5py = _needs("h5py", "load")
    plain = array.id.get_create_plist().get_layout() in (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT)
    if _bytes(array) and not (plain and array.id.get_storage_size() == _bytes(array)):
        raise ValueError(f"{array.name!r} is compressed, or not all there")
    return array[()]


def _attribute(of: Any, name: str, size: int) -> Any:
    """Returns an attribute of one number or text; the file is of `size` bytes."""
    if name not in of.attrs:
        raise ValueError(f"it does not say {name!r}")
    found = of.attrs.get_id(name)
    if found.shape not in ((), (1,)) or found.get_storage_size() > size:
        raise ValueError(f"{name!r} is not one number or text")
    return np.ravel(of.attrs[name])[0]


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


def _needs(package: str, name: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(f'{name} needs {package}: pip install "jonline[experiments]"') from error
