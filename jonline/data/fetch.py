"""Finds the file of a data set, or downloads it, and checks that it is the file it should be."""

import hashlib
import os
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from jonline import checks
from jonline.data.files import missing_extra, read_bytes


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
    """

    path: str
    origin: str
    sha256: str = ""
    url: str = ""
    member: str = ""
    archive_sha256: str = ""


def digest(content: bytes) -> str:
    """Returns the SHA-256 of bytes in hex."""
    return hashlib.sha256(content).hexdigest()


def _unpack(path: Path, member: str) -> bytes:
    """Returns the uncompressed content of a file or, from a zip or tar archive, of its member."""
    try:
        if member and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return archive.read(_pick(archive.namelist(), member))
        if member and tarfile.is_tarfile(path):
            with tarfile.open(path) as archive:
                packed = archive.extractfile(_pick(archive.getnames(), member))
                return packed.read() if packed else b""
        return read_bytes(path)
    except (OSError, EOFError, KeyError, zipfile.BadZipFile, tarfile.TarError) as error:
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
    content = _unpack(path, file.member)
    got = digest(content)
    if got == file.sha256:
        return content
    if file.sha256 == digest(content.replace(b"\r\n", b"\n").replace(b",\n", b"\n")):
        return content
    if file.archive_sha256:
        with path.open("rb") as archive:
            if hashlib.file_digest(archive, "sha256").hexdigest() == file.archive_sha256:
                return content
    raise ValueError(
        f"{path} is not the file it should be: SHA-256 {got}, expected "
        f"{file.sha256 or file.archive_sha256}; delete it and load again, or get it from "
        f"{file.origin}"
    )


def _archive(file: File) -> str:
    """Returns the file name at the end of the URL."""
    return unquote(file.url.rsplit("/", 1)[-1])


def _on_disk(file: File, folders: list[Path]) -> Path | None:
    """Returns the path of the file, gzipped or in its archive, in the first folder with one."""
    names = [file.path, Path(file.path).name]
    names += [name + ".gz" for name in names]
    if file.url:
        names.append(_archive(file))
    for folder in folders:
        for name in names:
            if (folder / name).is_file():
                return folder / name
    return None


def _download(file: File, looked: str) -> Path:
    """Returns the path of the file or its archive in pooch's cache, downloading it if need be."""
    by_hand = (
        f"get it from {file.url or file.origin} by hand, put it in a folder and pass directory="
    )
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

    Looks in `directory`, then in $JONLINE_DATA, then in pooch's cache, then downloads it. In a
    folder the file may be at the top or in the subfolder of `file.path`, gzipped or not, or still
    in its archive.

    Args:
      file: what to find.
      directory: a folder of this machine, also with "~", or None.

    Returns:
      the content.

    Raises:
      TypeError, ValueError: `directory` is no path, or an empty one.
      NotADirectoryError: `directory` or $JONLINE_DATA is not a folder.
      FileNotFoundError: not found, and to be had by hand only.
      ConnectionError: not found, and the download failed.
      ImportError: not found, and pooch is not installed.
      ValueError: found or downloaded, but with another checksum; a download is deleted again.
    """
    places = {"directory": directory, "$JONLINE_DATA": os.environ.get("JONLINE_DATA") or None}
    folders = [(name, checks.path(name, p)) for name, p in places.items() if p is not None]
    for name, folder in folders:
        if not folder.is_dir():
            raise NotADirectoryError(f"{name} must be a folder, got {str(folder)!r}")
    path = _on_disk(file, [folder for _, folder in folders])
    if path is not None:
        return _checked(file, path)
    looked = " or ".join(str(folder) for _, folder in folders) or "directory= or $JONLINE_DATA"
    path = _download(file, looked)
    try:
        return _checked(file, path)
    except ValueError:
        path.unlink()
        raise
