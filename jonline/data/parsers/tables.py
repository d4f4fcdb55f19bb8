"""Parsers of the text formats that data sets come in.

Each takes a path, or the content of a file as bytes, and returns a `Table`. A path may be gzipped,
and "x.gz" is found where "x" was asked for. Missing values become NaN, which `from_arrays` reports
and `drop_bad_rows` drops. A file that cannot be read is a ValueError that begins with its path, as
is one that unpacks to more than MOST_BYTES, 2 GiB, or whose table takes more memory than that by
what a few of its bytes say.
"""

import csv
import io
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jonline import checks
from jonline.data.parsers.unpack import MOST_BYTES, missing_extra, named, read_bytes

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null")


class Table(NamedTuple):
    """A file as read.

    Attributes:
      x: features, (N, n) float64; of images, the numbers of the file.
      y: target as in the file, (N,): numbers, or strings.
      names: n names of the features, or empty if the file has none.
      groups: query id of each row, (N,), or None.
    """

    x: np.ndarray
    y: np.ndarray
    names: tuple[str, ...] = ()
    groups: np.ndarray | None = None


def _numbers(cells: list[str]) -> np.ndarray:
    """Returns cells as float64, NaN where missing; ValueError if one is not a number."""
    return np.array([np.nan if cell in MISSING else float(cell) for cell in cells])


def _check_size(num_rows: int, num_columns: int, what: str) -> None:
    """Raises ValueError where a table of float64 takes more than MOST_BYTES."""
    size = 8 * num_rows * num_columns
    if size > MOST_BYTES:
        raise ValueError(f"{what} needs {size / 2**30:.3g} GiB, more than {MOST_BYTES / 2**30:g}")


def _is_number(cell: str) -> bool:
    """Returns whether a cell is a number or missing."""
    try:
        _numbers([cell])
    except ValueError:
        return False
    return True


def _one_hot(cells: list[str], values: Sequence[str]) -> np.ndarray:
    """Returns (N, len(values)) with one 1 per row, or a row of NaN where the cell is missing."""
    table = np.array([[float(cell == value) for value in values] for cell in cells])
    table[[cell in MISSING for cell in cells]] = np.nan
    return table


def read_csv(
    source: str | os.PathLike | bytes,
    *,
    target: str | int = -1,
    header: bool = True,
    drop: Sequence[str | int] = (),
    categorical: Sequence[str | int] = (),
    delimiter: str = ",",
) -> Table:
    """Returns the table in a file of separated values.

    Args:
      source: path or content.
      target: column of the target: name (with a header) or 0-based position (negative: from the
        end). Its text is kept if it is not all numbers.
      header: whether the first line names the columns; else they are named "0", "1", ….
      drop: columns to leave out.
      categorical: columns of text to turn one-hot, one column per value in sorted order, named
        "column=value", at the place of the column.
      delimiter: one character.

    Returns:
      Table(x, y, names).

    Raises:
      ValueError: no rows, lines of different length, an unknown column, or text where a number
        should be (names line and column).
    """
    content = read_bytes(source)
    with named(source):
        return _csv(content.decode("utf-8-sig"), target, header, drop, categorical, delimiter)


def _csv(
    text: str,
    target: str | int,
    header: bool,
    drop: Sequence[str | int],
    categorical: Sequence[str | int],
    delimiter: str,
) -> Table:
    """Returns the table in the text of a file; see `read_csv`."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    lines, rows = [], []
    for row in reader:
        if row:
            lines.append(reader.line_num)
            rows.append(row)
    names = [name.strip() for name in rows.pop(0)] if header and rows else []
    if not rows:
        raise ValueError("the file has no rows of data")
    lines = lines[-len(rows) :]
    names = names or [str(i) for i in range(len(rows[0]))]
    for number, row in zip(lines, rows, strict=True):
        if len(row) != len(names):
            raise ValueError(f"line {number} has {len(row)} values, expected {len(names)}")
    cells = [[cell.strip() for cell in column] for column in zip(*rows, strict=True)]

    def position(column: str | int) -> int:
        if isinstance(column, np.integer):
            column = int(column)
        if isinstance(column, int) and not isinstance(column, bool):
            if -len(names) <= column < len(names):
                return column % len(names)
        if column not in names:
            raise ValueError(f"no column {column!r}; the columns are {names}")
        return names.index(str(column))

    skipped = {position(column) for column in (*drop, target)}
    coded = {position(column) for column in categorical}
    blocks, labels = [], []
    for i in sorted(set(range(len(names))) - skipped):
        if i in coded:
            values = sorted(set(cells[i]) - set(MISSING))
            _check_size(
                len(rows), len(values), f"column {names[i]!r} one-hot, of {len(values)} values,"
            )
            blocks.append(_one_hot(cells[i], values))
            labels += [f"{names[i]}={value}" for value in values]
            continue
        try:
            blocks.append(_numbers(cells[i])[:, None])
        except ValueError as error:
            row = next(r for r, cell in enumerate(cells[i]) if not _is_number(cell))
            raise ValueError(
                f"line {lines[row]} has {cells[i][row]!r} in column {names[i]!r}, which is "
                "not a number; name the column in `categorical` or `drop`"
            ) from error
        labels.append(names[i])
    answer = cells[position(target)]
    y = _numbers(answer) if all(map(_is_number, answer)) else np.array(answer)
    x = np.concatenate(blocks, axis=1) if blocks else np.zeros((len(rows), 0))
    return Table(x, y, tuple(labels))


def read_arff(source: str | os.PathLike | bytes, *, target: str | None = None) -> Table:
    """Returns the table in an ARFF file (dense form), as `scipy.io.arff` reads it.

    Nominal attributes whose values are all numbers are read as numbers, others become one-hot in
    the order in which they are declared. A comma at the end of a data line is ignored.

    Args:
      source: path or content.
      target: name of the target attribute; None is the last one.

    Returns:
      Table(x, y, names); y holds strings if the target is nominal and not all numbers.

    Raises:
      ImportError: SciPy is not installed.
      ValueError: no such target, or text that is not ARFF.
    """
    try:
        from scipy.io import arff
    except ImportError as error:
        raise missing_extra("scipy", "reading ARFF files") from error
    content = read_bytes(source)
    with named(source):
        lines = (line.rstrip().rstrip(",") for line in content.decode().splitlines())
        try:
            data, meta = arff.loadarff(io.StringIO("\n".join(lines) + "\n"))
        except Exception as error:  # SciPy lets out whatever its parser runs into
            raise ValueError(f"the file is not ARFF in dense form: {error}") from error
        return _arff(data, meta, target)


def _arff(data: np.ndarray, meta: Any, target: str | None) -> Table:
    """Returns the table of what SciPy read; see `read_arff`."""
    names = list(meta.names())
    target = names[-1] if target is None and names else target
    if target is None or target not in names:
        raise ValueError(f"no attribute {target!r}; the attributes are {names}")

    def column(name: str) -> tuple[Any, Sequence[str] | None]:
        kind, values = meta[name]
        if kind == "numeric":
            return data[name].astype(float), None
        if kind != "nominal":
            raise ValueError(f"attribute {name!r} is of the kind {kind}, not numeric or nominal")
        cells = [cell.decode() for cell in data[name].tolist()]
        return (_numbers(cells), None) if all(map(_is_number, values)) else (cells, values)

    blocks, labels = [], []
    for name in names:
        if name == target:
            continue
        cells, values = column(name)
        blocks.append(cells[:, None] if values is None else _one_hot(cells, values))
        labels += [name] if values is None else [f"{name}={value}" for value in values]
    x = np.concatenate(blocks, axis=1) if blocks else np.zeros((len(data), 0))
    return Table(x, np.asarray(column(target)[0]), tuple(labels))


def read_numbers(source: str | os.PathLike | bytes, labels: str | os.PathLike | bytes) -> Table:
    """Returns the table in two files of numbers with spaces between them, features and target.

    Args:
      source: path or content: a row of numbers a line, of one length.
      labels: path or content: a number a line.

    Returns:
      Table(x, y), x float32.

    Raises:
      ValueError: no rows, rows of different length, text that is no number, or another number of
        labels than rows.
    """
    cells, content = read_bytes(labels).split(), read_bytes(source)
    with named(labels):
        y = np.array([float(cell) for cell in cells])
    lines = [line for line in content.splitlines() if line.strip()]
    with named(source), named(labels):
        if not lines or len(lines) != len(y):
            raise ValueError(f"there are {len(lines)} rows and {len(y)} labels")
    with named(source):
        rows = [np.array(line.split(), np.float32) for line in lines]
        for i, row in enumerate(rows):
            if len(row) != len(rows[0]):
                raise ValueError(f"row {i} has {len(row)} numbers, expected {len(rows[0])}")
        return Table(np.stack(rows), y)


def read_libsvm(
    source: str | os.PathLike | bytes,
    query_sizes: str | os.PathLike | bytes | None = None,
    *,
    num_features: int | None = None,
) -> Table:
    """Returns the table in a LIBSVM or SVMrank file, made dense, as scikit-learn reads it.

    Args:
      source: path or content: lines "label [qid:q] index:value …", indices from 1.
      query_sizes: path or content of the file of LightGBM that says beside it how many rows each
        query has, one number a line, in the order of the rows.
      num_features: n; None is the highest index in the file. Give it for a test file.

    Returns:
      Table(x, y, groups=query ids), the ids 0, 1, … if `query_sizes` is given; groups is None
      without it if the file has no "qid:".

    Raises:
      ImportError: scikit-learn is not installed.
      ValueError: a line that is not of this form, an index above num_features, or query sizes that
        do not make up the rows.
    """
    try:
        from sklearn.datasets import load_svmlight_file
    except ImportError as error:
        raise missing_extra("scikit-learn", "reading LIBSVM files") from error
    if num_features is not None:
        num_features = checks.at_least("num_features", num_features, 1)
    content = read_bytes(source)
    with named(source):
        x, y, *groups = load_svmlight_file(
            io.BytesIO(content),
            n_features=num_features,
            zero_based=False,  # pyright: ignore[reportArgumentType]
            query_id=True,
        )
        if num_features is None:
            what = f"a dense table of {len(y)} rows with an index {x.shape[1]}, the highest,"
            _check_size(len(y), x.shape[1], what)
    if query_sizes is None:
        return Table(x.toarray(), y, groups=groups[0] if b" qid:" in content else None)
    cells = read_bytes(query_sizes).split()
    with named(query_sizes):
        sizes = [int(cell) for cell in cells]
        if min(sizes, default=0) < 0 or sum(sizes) != len(y):
            raise ValueError(f"the query sizes add up to {sum(sizes)}, but there are {len(y)} rows")
        return Table(x.toarray(), y, groups=np.repeat(np.arange(len(sizes)), sizes))
