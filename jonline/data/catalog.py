"""Loads the real data sets by name, as ordinal tasks.

`load` makes the task as the paper describes it; `telemonitoring` and `movielens` have the
options of theirs; any other variant is `load_entry(ENTRIES[name]._replace(…))`.
"""

import difflib
import os
from collections.abc import Callable
from functools import partial

import numpy as np

from jonline.data.dataset import Dataset, Provenance, from_arrays
from jonline.data.discretise import equal_frequency
from jonline.data.entries import ENTRIES, Entry
from jonline.data.fetch import digest, fetch
from jonline.data.files import read_csv
from jonline.data.ratings import one_user


def load_entry(
    entry: Entry,
    directory: str | os.PathLike | None = None,
    *,
    scale: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Dataset:
    """Returns the data set of an entry: fetched, checked, read, labelled, scaled.

    Args:
      entry: one of `ENTRIES`, or a variant of one.
      directory: folder to look in first; see `load`.
      scale: features (N, n) to scaled features; None is the entry's.

    Returns:
      a Dataset; its provenance has the SHA-256 of what was read. If the file is not found and the
      entry has a stand-in, the Dataset is the stand-in's and bears its name.

    Raises:
      as `fetch`, the entry's reader, and `from_arrays`.
    """
    try:
        content = fetch(entry.file, directory)
    except FileNotFoundError as error:
        if not entry.stand_in:
            raise
        try:
            return load_entry(ENTRIES[entry.stand_in], directory, scale=scale)
        except FileNotFoundError:
            raise error from None
    table = entry.read(content)
    task = entry.task
    if scale is None:
        scale = entry.scale
    elif scale is not entry.scale:
        task += f"; features scaled by {getattr(scale, '__name__', scale)} instead"
    provenance = Provenance(entry.file.origin, entry.terms, digest(content), task)
    labels = entry.label(table.y)
    return from_arrays(
        scale(table.x), labels, entry.num_classes, name=entry.name, provenance=provenance
    )


def load(
    name: str,
    directory: str | os.PathLike | None = None,
    *,
    scale: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Dataset:
    """Returns a data set by name, as an ordinal task with labels 1…K.

    Looks in `directory`, then in $JONLINE_DATA, then in pooch's cache, then downloads it there.
    The SHA-256 is always checked. In a folder, files may be gzipped or still in their archive.

    Args:
      name: a key of `ENTRIES`: abalone (K = 4), telemonitoring (10), movielens (10; the stand-in
        for EachMovie), movielens100k (5), mslr (5; its origin's MSLR-WEB10K.zip, which you get by
        hand, else the sample), mslr_sample (5), california, computer_activity, bank, bank32nh (10).
      directory: folder to look in first, or None.
      scale: features (N, n) to scaled features. None does as the paper: `standardise`, but
        `unscaled` for abalone and movielens.

    Returns:
      a Dataset.

    Raises:
      ValueError: no such name, or a file with a wrong checksum.
      FileNotFoundError: the file is not there and has to be got by hand.
      ConnectionError: the file is not there and cannot be downloaded.
      ImportError: a package of the extra `data` is not installed.
    """
    if name not in ENTRIES:
        near = difflib.get_close_matches(name, ENTRIES, n=1)
        hint = f"; did you mean {near[0]!r}" if near else ""
        raise ValueError(f"no data set is named {name!r}{hint}; the names are {', '.join(ENTRIES)}")
    return load_entry(ENTRIES[name], directory, scale=scale)


def telemonitoring(
    directory: str | os.PathLike | None = None,
    *,
    keep_motor: bool = False,
    num_classes: int | None = None,
    scale: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Dataset:
    """Returns Parkinson's Telemonitoring with the options of its task.

    Args:
      directory: as in `load`.
      keep_motor: whether `motor_UPDRS`, the other target, is a feature (n = 20, else 19).
      num_classes: None cuts the target at multiples of 5 (K = 10), an int into that many
        equi-frequent classes; the paper says both.
      scale: as in `load`.

    Returns:
      a Dataset.

    Raises:
      as `load`.
    """
    entry = ENTRIES["telemonitoring"]
    if keep_motor:
        entry = entry._replace(
            read=partial(read_csv, target="total_UPDRS", drop=("subject#",)),
            task=entry.task.replace("without subject# and motor_UPDRS", "without subject#"),
        )
    if num_classes is not None:
        entry = entry._replace(
            label=partial(equal_frequency, num_classes=num_classes),
            num_classes=num_classes,
            task=entry.task.partition(";")[0]
            + f"; total_UPDRS in {num_classes} equi-frequent classes",
        )
    return load_entry(entry, directory, scale=scale)


def movielens(
    directory: str | os.PathLike | None = None,
    *,
    user: int | None = None,
    num_users: int = 100,
    scale: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Dataset:
    """Returns the stand-in for EachMovie for one user: see `ratings.one_user`.

    Args:
      directory: as in `load`.
      user: id of the user whose ratings are the labels; None is the most active one.
      num_users: n ≥ 1, how many other users' ratings are the features.
      scale: as in `load`.

    Returns:
      a Dataset: as many rows as the user rated films, in the order of the film ids; K = 10.

    Raises:
      ValueError: no such user, or fewer than num_users others.
      others as `load`.
    """
    entry = ENTRIES["movielens"]
    read = partial(one_user, lowest=0.5, highest=5.0, user=user, num_users=num_users)
    task = entry.task + f"; user {'most active' if user is None else user}, {num_users} others"
    return load_entry(entry._replace(read=read, task=task), directory, scale=scale)
