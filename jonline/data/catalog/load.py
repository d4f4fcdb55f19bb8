"""Loads the real data sets by name, as tasks with labels 1…K or -1 and 1, and one as rankings.

`load` makes the task as the paper describes it; `telemonitoring` and `movielens` have the
options of theirs; any other variant is `load_entry(ENTRIES[name]._replace(…))`. `lambdarank` makes
rankings.
"""

import difflib
import os
from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
import numpy as np

from jonline.data.catalog.entries import ENTRIES, Entry
from jonline.data.catalog.fetch import digest, fetch
from jonline.data.dataset import Dataset, Provenance, from_arrays
from jonline.data.discretise import equal_frequency
from jonline.data.parsers.ratings import one_user
from jonline.data.parsers.tables import Table, read_csv
from jonline.data.rankings import query_rankings


def load_entry(
    entry: Entry,
    directory: str | os.PathLike | None = None,
    *,
    scale: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Dataset:
    """Returns the data set of an entry: fetched, checked, read, labelled, scaled.

    Args:
      entry: one of `ENTRIES`, or a variant of one.
      directory: folder that has the files, or None; see `load`.
      scale: features (N, n) to scaled features; None is the entry's.

    Returns:
      a Dataset; its provenance has the SHA-256 of what was read. If the file is not found and the
      entry has a stand-in, the Dataset is the stand-in's and bears its name.

    Raises:
      as `fetch`, the entry's reader, and `from_arrays`.
    """
    try:
        table, digests = _read(entry, directory)
    except FileNotFoundError as error:
        if not entry.stand_in:
            raise
        try:
            return load_entry(ENTRIES[entry.stand_in], directory, scale=scale)
        except FileNotFoundError:
            raise error from None
    task = entry.task
    if scale is None:
        scale = entry.scale
    elif scale is not entry.scale:
        task += f"; features scaled by {_name(scale)} instead"
    provenance = Provenance(entry.file.origin, entry.terms, digests, task)
    labels = entry.label(table.y)
    return from_arrays(
        scale(table.x), labels, entry.num_classes, name=entry.name, provenance=provenance
    )


def _read(entry: Entry, directory: str | os.PathLike | None) -> tuple[Table, str]:
    """Returns the table of an entry, and the digests of its files with a space between them."""
    contents = [fetch(file, directory) for file in (entry.file, *entry.more)]
    return entry.read(*contents), " ".join(map(digest, contents))


def _name(scale: Callable) -> str:
    return str(getattr(scale, "__name__", scale))


def load(
    name: str,
    directory: str | os.PathLike | None = None,
    *,
    scale: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Dataset:
    """Returns a data set by name, as a task with labels 1…K, or -1 and 1.

    The labels are in order but for mnist, whose digits 0…9 are the labels 1…10 in name alone, and
    for those of -1 and 1.

    Looks in `directory`, then in $JONLINE_DATA; where neither is given, in pooch's cache, and
    downloads it there. The SHA-256 is always checked. In a folder, files may be gzipped or still in
    their archive, of which no more is unpacked than the size of the file lets expect.

    Args:
      name: a key of `ENTRIES`: abalone (K = 4), telemonitoring (10), movielens (10; the stand-in
        for EachMovie), movielens100k (5), mslr (5; its origin's MSLR-WEB10K.zip, which you get by
        hand, else the sample), mslr_sample (5), california, computer_activity, bank, bank32nh (10),
        mnist, mnist_test (10), lambdarank, lambdarank_test (5); with labels -1 and 1 phishing,
        svmguide1, svmguide1_test, gisette, gisette_valid, and the stand-in for Gisette, mnist_4_9,
        mnist_4_9_test.
      directory: folder that has the files, "~" being the home folder, or None.
      scale: features (N, n) to scaled features. None does as the paper: `standardise`, but
        `unscaled` for abalone, movielens, lambdarank, phishing and svmguide1, pixels / 255 for
        mnist and mnist_4_9, / 999 for gisette. `unit_indicators` makes LIBSVM's phishing.

    Returns:
      a Dataset.

    Raises:
      ValueError: no such name, a file with a wrong checksum, or a folder's name that is empty.
      NotADirectoryError: `directory` or $JONLINE_DATA is not a folder.
      FileNotFoundError: the file is not in the folders given, or has to be got by hand.
      ConnectionError: no folder is given and the file cannot be downloaded.
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


def lambdarank(
    directory: str | os.PathLike | None = None,
    *,
    num_items: int = 3,
    seed: int = 0,
    scale: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Dataset:
    """Returns rankings of documents by relevance, out of LightGBM's example: see `query_rankings`.

    Of both parts of the example, 3773 documents of 251 queries. There are 1525, 553, 138 and 23
    examples for m = 2, 3, 4 and 5.

    Args:
      directory: as in `load`.
      num_items: m in 2…5, documents of an example.
      seed: ≥ 0; which documents meet, and in what order they stand.
      scale: features (N, 300) of the documents to scaled features; None leaves them in [0, 1].

    Returns:
      a Dataset of x (N, 300 m) and y (N, m m), flattened permutation matrices float32; its
      num_classes is None.

    Raises:
      ValueError: m is not in 2…5.
      others as `load`.
    """
    entries = [ENTRIES[name] for name in ("lambdarank", "lambdarank_test")]
    tables, digests = zip(*(_read(entry, directory) for entry in entries), strict=True)
    scaled = (entries[0].scale if scale is None else scale)(
        np.concatenate([table.x for table in tables])
    )
    part = np.repeat(range(2), [len(table.y) for table in tables])
    query = np.concatenate([table.groups for table in tables])
    data = from_arrays(scaled, entries[0].label(np.concatenate([table.y for table in tables])), 5)
    x, y = query_rankings(
        np.asarray(data.x), data.y, query + part * (1 + query.max()), num_items=num_items, seed=seed
    )
    task = (
        f"{num_items} documents of one query in a random order, of different relevance; "
        f"features {'unscaled, in [0, 1]' if scale is None else f'scaled by {_name(scale)}'}; "
        f"seed {seed}"
    )
    provenance = Provenance(entries[0].file.origin, entries[0].terms, " ".join(digests), task)
    return Dataset(jnp.asarray(x), jnp.asarray(y), None, "lambdarank", provenance)
