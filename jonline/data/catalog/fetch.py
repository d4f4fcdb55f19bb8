"""Finds the file of a data set, or downloads it, and checks that it is the file it should be."""

import hashlib
import io
import os
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from jonline import checks
from jonline.data.parsers.unpack import MOST_BYTES, gunzipped, missing_extra, up_to


class File(NamedTuple):
    """A file as its origin publishes it.

    At least one of the two checksums is given; a file that matches either is accepted.

    Attributes:
      path: name, with the folder it may be in, below the directory of the data: "mslr/train.txt".
      origin: address of the page that describes it.
      sha256: hex digest of its uncompressed content.
      url: where the file or its archive is downloaded; "" if only by hand.
      member: its name inside the archive; "" if it is not in one.
      archive_sha256: hex digest of the archive.
      size: bytes of its uncompressed content, the bound of what is unpacked; 0 if it is not known,
        where the bound is `unpack.MOST_BYTES`.
    """

    path: str
    origin: str
    sha256: str = ""
    url: str = ""
    member: str = ""
    archive_sha256: str = ""
    size: int = 0


def digest(content: bytes) -> str:
    """Returns the SHA-256 of bytes in hex."""
    return hashlib.sha256(content).hexdigest()


def _unpack(path: Path, member: str, limit: int) -> bytes:
    """Returns the uncompressed content of a file or, from a zip or tar archive, of its member.

    No more than `limit` bytes are unpacked, of a tar archive that is gzipped all its members.
    """
    try:
        if member and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                info = archive.getinfo(_pick(archive.namelist(), member))
                if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ValueError(
                        "neither stored nor deflated"
                    )  # zipfile has no bound on others
                with archive.open(info) as packed:
                    return up_to(packed, limit)
        with path.open("rb") as stream:
            content = up_to(gunzipped(stream), limit)
        if member and tarfile.is_tarfile(io.BytesIO(content)):
            with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
                packed = archive.extractfile(_pick(archive.getnames(), member))
                return up_to(packed, limit) if packed else b""
        return content
    except Exception as error:  # each unpacker has its own kinds for what is damaged
        raise ValueError(
            f"{path} cannot be unpacked ({error}); delete it and load again"
        ) from error


def _pick(names: list[str], member: str) -> str:
    """Returns the name in an archive that is `member`, at the top or in any folder."""
    for name in names:
        if name == member or name.endswith("/" + member):
            return name
    raise KeyError(f"no {member} in the archive")


def _checked(file: File, path: Path) -> bytes:
    """Returns the content at `path` if it has one of the checksums of `file`, or raises.

    A copy whose lines end in CRLF, or in a comma before the line end, is the same file if it has
    the checksum without them.
    """
    found = ""
    if file.archive_sha256:
        with path.open("rb") as archive:
            found = hashlib.file_digest(archive, "sha256").hexdigest()
    is_archive = found != "" and found == file.archive_sha256
    if is_archive or file.sha256:
        # Such line ends make a copy three times as long at most.
        limit = 3 * file.size if file.size and not is_archive else MOST_BYTES
        content = _unpack(path, file.member, limit)
        found = digest(content)
        if is_archive or found == file.sha256:
            return content
        if file.sha256 == digest(content.replace(b"\r\n", b"\n").replace(b",\n", b"\n")):
            return content
    raise ValueError(
        f"{path} is not the file it should be: SHA-256 {found}, expected "
        f"{file.sha256 or file.archive_sha256}; delete it and load again, or get it from "
        f"{file.origin}"
    )


def _archive(file: File) -> str:
    """Returns the file name at the end of the URL."""
    return unquote(file.url.rsplit("/", 1)[-1])


def _names(file: File) -> list[str]:
    """Returns the names under which the file may be in a folder: also gzipped, or its archive."""
    names = [file.path, Path(file.path).name]
    names += [name + ".gz" for name in names] + ([_archive(file)] if file.url else [])
    return [*dict.fromkeys(names)]


def _by_hand(file: File) -> str:
    return f"get it from {file.url or file.origin} by hand, put it in a folder and pass directory="


def _download(file: File) -> Path:
    """Returns the path of the file or its archive in pooch's cache, downloading it if need be."""
    looked = "directory= or $JONLINE_DATA"
    by_hand = _by_hand(file)
    if not file.url:
        raise FileNotFoundError(
            f"{file.path} is not in {looked} and cannot be downloaded; {by_hand}"
        )
    try:
        import pooch
    except ImportError as error:
        raise missing_extra("pooch", f"{file.path} is not in {looked}; downloading it") from error
    name = pooch.utils.unique_file_name(file.url)
    cache = pooch.create(
        pooch.os_cache("jonline"),
        base_url="",
        registry={name: file.archive_sha256 or None},
        urls={name: file.url},
    )
    try:
        return Path(cache.fetch(name, progressbar=True))
    except OSError as error:
        raise ConnectionError(
            f"{file.path} is not in {looked} and {file.url} cannot be downloaded ({error}); "
            f"try again with a network, or {by_hand}"
        ) from error
    except ValueError as error:
        raise ValueError(f"{file.url} did not send the file it should: {error}") from error


def fetch(file: File, directory: str | os.PathLike | None = None) -> bytes:
    """Returns the uncompressed, checked content of a file.

    Looks in `directory`, then in $JONLINE_DATA. Where neither is given it looks in pooch's cache,
    and downloads it there. In a folder the file may be at the top or in the subfolder of
    `file.path`, gzipped or not, or still in its archive. Of what is packed no more is unpacked than
    `file.size` lets expect, and nothing if the checksum of the archive is the only one and wrong.

    Args:
      file: what to find.
      directory: a folder, or None; "~" is the home folder.

    Returns:
      the content.

    Raises:
      TypeError, ValueError: `directory` is no path, or an empty one.
      NotADirectoryError: `directory` or $JONLINE_DATA is not a folder.
      FileNotFoundError: not in the folders that are given, or to be had by hand only.
      ConnectionError: no folder is given, and the download failed.
      ImportError: no folder is given, and pooch is not installed.
      ValueError: `directory` or $JONLINE_DATA is empty or an address; found or downloaded, but
        damaged or with another checksum; a download is deleted again.
    """
    places = {"directory": directory, "$JONLINE_DATA": os.environ.get("JONLINE_DATA")}
    folders = [checks.path(name, place) for name, place in places.items() if place is not None]
    given = [name for name, place in places.items() if place is not None]
    for name, folder in zip(given, folders, strict=True):
        if not folder.is_dir():
            raise NotADirectoryError(f"{name} must be a folder, got {str(folder)!r}")
        for path in (folder / path for path in _names(file)):
            if path.is_file():
                return _checked(file, path)
    if folders:
        raise FileNotFoundError(
            f"{file.path} is not in {' or '.join(map(str, folders))}, neither by that name nor as "
            f"{', '.join(_names(file)[1:])}; {_by_hand(file)}"
            + (f"; without {' and '.join(given)} it is downloaded" if file.url else "")
        )
    path = _download(file)
    try:
        return _checked(file, path)
    except ValueError:
        path.unlink()
        raise
