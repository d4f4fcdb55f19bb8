"""One user's film ratings as an ordinal task: predict them from what other users gave."""

import os

import numpy as np

from jonline import checks
from jonline.data.parsers.tables import Table, read_csv
from jonline.data.parsers.unpack import named


def one_user(
    source: str | os.PathLike | bytes,
    *,
    lowest: float,
    highest: float,
    user: int | None = None,
    num_users: int = 100,
    delimiter: str = ",",
    header: bool = True,
) -> Table:
    """Returns the films that one user rated, with other users' ratings as features.

    A row is a film, rows in the order of the film ids. Its features are the ratings of the
    `num_users` most active other users (most ratings first, equal ones by id), moved and scaled to
    [−½, ½]: (rating − middle) / (highest − lowest). A missing rating is the middle of the scale, 0.

    Args:
      source: path or content: columns user, film, rating, and others that are not read.
      lowest, highest: ends of the scale of the ratings.
      user: id of the user whose ratings are the target; None is the most active one.
      num_users: n ≥ 1.
      delimiter, header: of the file.

    Returns:
      Table(x (N, num_users), y (N,) ratings, names = ids of the other users).

    Raises:
      ValueError: no such user, or fewer than num_users others.

    Source: the set-up of Crammer and Singer, "Pranking with ranking", NIPS 2001.
    Differs: they took other users by a least number of ratings; here n is given.
    """
    num_users = checks.at_least("num_users", num_users, 1)
    if user is not None:
        user = checks.at_least("user", user, 0)
    columns = read_csv(source, target=2, delimiter=delimiter, header=header)
    with named(source):
        return _one_user(columns, (lowest, highest), user, num_users)


def _one_user(
    columns: Table, scale: tuple[float, float], user: int | None, num_users: int
) -> Table:
    """Returns the films one user rated of the ratings in a table; see `one_user`."""
    if columns.y.dtype.kind != "f" or not np.isfinite(columns.y).all():
        raise ValueError("the third column must hold ratings, finite numbers")
    checks.finite("users and films", columns.x[:, :2])
    users, films = columns.x[:, 0].astype(int), columns.x[:, 1].astype(int)
    ratings = columns.y
    ids, counts = np.unique(users, return_counts=True)
    ids = ids[np.argsort(-counts, kind="stable")]
    target = int(ids[0]) if user is None else user
    if target not in ids:
        raise ValueError(f"no user {user} in the file; the most active are {ids[:5].tolist()}")
    others = ids[ids != target]
    if num_users > len(others):
        raise ValueError(f"num_users={num_users} is more than the {len(others)} other users")
    others = others[:num_users]

    own = users == target
    order = np.argsort(films[own])
    rows, y = films[own][order], ratings[own][order]
    x = np.zeros((len(rows), num_users))
    lowest, highest = scale
    middle, width = (lowest + highest) / 2, highest - lowest
    for column, other in enumerate(others):
        theirs = (users == other) & np.isin(films, rows)
        x[np.searchsorted(rows, films[theirs]), column] = (ratings[theirs] - middle) / width
    return Table(x, y, tuple(str(other) for other in others))
