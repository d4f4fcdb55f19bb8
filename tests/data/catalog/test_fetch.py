"""Finding, downloading and checking files; the network is a server on this machine."""

import gzip
import hashlib
import http.server
import io
import random
import sys
import tarfile
import threading
import tracemalloc
import zipfile
from functools import partial

import pytest

from jonline.data import load, read_csv
from jonline.data.catalog import fetch as fetching
from jonline.data.catalog.fetch import File, fetch
from jonline.data.parsers import unpack
from tests.data.parsers.damage import damaged

CONTENT = b"1,2\n3,4\n"
SHA = hashlib.sha256(CONTENT).hexdigest()
ORIGIN = "https://example.org/toy"
TOY = File("sub/toy.csv", ORIGIN, SHA)


def _zip(content, name="folder/toy.csv", method=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("other.txt", "no")
        archive.writestr(name, content)
    return buffer.getvalue()


def _tgz(content):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("folder/toy.csv")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("JONLINE_DATA", raising=False)
    pooch = pytest.importorskip("pooch")
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache" / name)
    return tmp_path / "cache" / "jonline"


@pytest.fixture
def server():
    files, asked = {}, []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            content = files.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    httpd.files, httpd.asked = files, asked
    httpd.address = f"http://127.0.0.1:{httpd.server_port}"
    yield httpd
    httpd.shutdown()
    httpd.server_close()
    thread.join()


@pytest.mark.parametrize("name", ["sub/toy.csv", "toy.csv", "sub/toy.csv.gz", "toy.csv.gz"])
def test_file_is_found_in_the_folder_or_its_subfolder_gzipped_or_not(tmp_path, cache, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(CONTENT) if name.endswith(".gz") else CONTENT)
    assert fetch(TOY, tmp_path) == CONTENT


def test_environment_variable_is_the_second_place(tmp_path, cache, monkeypatch):
    (tmp_path / "first").mkdir()
    (tmp_path / "toy.csv").write_bytes(CONTENT)
    monkeypatch.setenv("JONLINE_DATA", str(tmp_path))
    assert fetch(TOY) == CONTENT
    assert fetch(TOY, tmp_path / "first") == CONTENT
    (tmp_path / "first" / "toy.csv").write_bytes(b"changed")
    with pytest.raises(ValueError, match="first/toy.csv is not the file"):
        fetch(TOY, tmp_path / "first")


def test_folder_that_does_not_exist_is_named(tmp_path, cache, monkeypatch):
    with pytest.raises(NotADirectoryError, match="directory must be a folder, got '.*nowhere'"):
        fetch(TOY, tmp_path / "nowhere")
    monkeypatch.setenv("JONLINE_DATA", "/nowhere")
    with pytest.raises(NotADirectoryError, match=r"\$JONLINE_DATA must be a folder"):
        fetch(TOY)


@pytest.mark.parametrize("empty", ["", "gs://bucket/data", "s3:/x"])
def test_empty_folder_name_or_address_is_an_error_and_never_a_download(cache, monkeypatch, empty):
    for call in (partial(fetch, TOY), partial(load, "abalone")):
        with pytest.raises(ValueError, match="^directory must be a path of this machine"):
            call(directory=empty)
    monkeypatch.setenv("JONLINE_DATA", empty)
    with pytest.raises(ValueError, match=r"^\$JONLINE_DATA must be a path of this machine"):
        fetch(TOY)


def test_folder_without_the_file_is_an_error_that_says_what_was_looked_for(
    tmp_path, cache, server, monkeypatch
):
    server.files["/toy.zip"] = _zip(CONTENT)
    file = TOY._replace(url=server.address + "/toy.zip", member="toy.csv")
    names = "sub/toy.csv is not in .*, neither .* toy.csv, sub/toy.csv.gz, toy.csv.gz, toy.zip"
    with pytest.raises(FileNotFoundError, match=f"{names}; .* without directory it is downloaded"):
        fetch(file, tmp_path)
    monkeypatch.setenv("JONLINE_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"without \$JONLINE_DATA it is downloaded"):
        fetch(file)
    with pytest.raises(FileNotFoundError, match="without directory and .*JONLINE_DATA it"):
        fetch(file, tmp_path)
    assert server.asked == []
    with pytest.raises(NotADirectoryError, match="directory must be a folder, got '.*toy.csv'"):
        (tmp_path / "toy.csv").write_bytes(CONTENT)
        fetch(file, tmp_path / "toy.csv")
    monkeypatch.delenv("JONLINE_DATA")
    assert fetch(file) == CONTENT and server.asked == ["/toy.zip"]


def test_tilde_is_the_home_folder(tmp_path, cache, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "toys").mkdir()
    (tmp_path / "toys" / "toy.csv").write_bytes(CONTENT)
    assert fetch(TOY, "~/toys") == CONTENT
    monkeypatch.setenv("JONLINE_DATA", "~/toys")
    assert fetch(TOY) == CONTENT
    assert read_csv("~/toys/toy.csv", header=False).y.tolist() == [2, 4]


ZEROS = bytes(2**24)


def _peak(call):
    """Returns the most bytes that were held during a call, and what it raised."""
    tracemalloc.start()
    try:
        with pytest.raises((ValueError, OSError)) as caught:
            call()
        return tracemalloc.get_traced_memory()[1], str(caught.value)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("toy.csv.gz", gzip.compress),
        ("toy.zip", _zip),
        ("toy.tgz", _tgz),
        ("toy.csv", bytes),
        ("toy.zip", partial(_zip, method=zipfile.ZIP_BZIP2)),
        ("toy.zip", partial(_zip, method=zipfile.ZIP_LZMA)),
    ],
)
def test_no_more_is_unpacked_than_the_size_of_the_file_lets_expect(
    tmp_path, cache, monkeypatch, name, pack
):
    (tmp_path / name).write_bytes(pack(ZEROS))
    member = "toy.csv" if name.endswith(("zip", "tgz")) else ""
    file = TOY._replace(url=f"{ORIGIN}/{name}", member=member, size=len(CONTENT))
    peak, message = _peak(lambda: fetch(file, tmp_path))
    assert peak < 2**23 and f"{name} cannot be unpacked" in message
    for module in (unpack, fetching):
        monkeypatch.setattr(module, "MOST_BYTES", 2**20)
    peak, message = _peak(lambda: fetch(file._replace(size=0), tmp_path))
    assert peak < 2**23 and "cannot be unpacked" in message


def test_copy_with_the_longest_line_ends_is_within_the_bound(tmp_path, cache):
    content = b"\n" * 1000
    file = TOY._replace(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    (tmp_path / "toy.csv.gz").write_bytes(gzip.compress(content.replace(b"\n", b",\r\n")))
    assert len(fetch(file, tmp_path)) == 3000


def test_checksum_of_an_archive_is_looked_at_before_it_is_unpacked(tmp_path, cache):
    archive = _zip(ZEROS)
    (tmp_path / "toy.zip").write_bytes(archive)
    file = File("toy.zip", ORIGIN, member="toy.csv", archive_sha256="0" * 64)
    peak, message = _peak(lambda: fetch(file, tmp_path))
    found = hashlib.sha256(archive).hexdigest()
    assert (
        peak < 2**23 and f"is not the file it should be: SHA-256 {found}, expected 0000" in message
    )


@pytest.mark.parametrize("pack", [gzip.compress, _zip, _tgz, bytes])
def test_damaged_archive_is_named_whatever_its_damage(tmp_path, cache, pack):
    name = {gzip.compress: "toy.csv.gz", _zip: "toy.zip", _tgz: "toy.tgz", bytes: "toy.csv"}[pack]
    member = "" if pack in (gzip.compress, bytes) else "toy.csv"
    file = TOY._replace(url=f"{ORIGIN}/{name}", member=member, size=len(CONTENT))
    whole, path = pack(CONTENT), tmp_path / name
    rng = random.Random(0)
    for _ in range(150):
        path.write_bytes(damaged(rng, whole))
        try:
            assert fetch(file, tmp_path).replace(b"\r", b"") == CONTENT
        except ValueError as error:
            assert name in str(error)


def test_wrong_checksum_names_both_sums_and_what_to_do(tmp_path, cache):
    (tmp_path / "toy.csv").write_bytes(CONTENT + b" ")
    with pytest.raises(ValueError, match=f"expected {SHA}; delete it .* get it from {ORIGIN}"):
        fetch(TOY, tmp_path)
    assert (tmp_path / "toy.csv").exists()


def test_line_ends_may_differ_and_nothing_else(tmp_path, cache):
    (tmp_path / "toy.csv").write_bytes(CONTENT.replace(b"\n", b",\r\n"))
    fetch(TOY, tmp_path)
    (tmp_path / "toy.csv").write_bytes(CONTENT.replace(b"\n", b" \r\n"))
    with pytest.raises(ValueError, match="is not the file"):
        fetch(TOY, tmp_path)


def test_archive_in_the_folder_is_read_and_its_own_checksum_is_enough(tmp_path, cache):
    archive = _zip(CONTENT)
    (tmp_path / "toy.zip").write_bytes(archive)
    file = File(
        "toy.zip", ORIGIN, member="toy.csv", archive_sha256=hashlib.sha256(archive).hexdigest()
    )
    assert fetch(file, tmp_path) == CONTENT
    with pytest.raises(ValueError, match=r"cannot be unpacked \('no b.csv in the archive'\)"):
        fetch(file._replace(member="b.csv"), tmp_path)
    (tmp_path / "toy.zip").write_bytes(_zip(b"changed"))
    with pytest.raises(ValueError, match="is not the file"):
        fetch(file, tmp_path)


def test_damaged_gzip_is_named(tmp_path, cache):
    (tmp_path / "toy.csv.gz").write_bytes(gzip.compress(CONTENT)[:-6])
    with pytest.raises(ValueError, match="toy.csv.gz cannot be unpacked .* delete it"):
        fetch(TOY, tmp_path)


@pytest.mark.parametrize(
    ("name", "pack", "member"),
    [("toy.csv", bytes, ""), ("toy.zip", _zip, "toy.csv"), ("toy.tgz", _tgz, "folder/toy.csv")],
)
def test_file_is_downloaded_once_and_checked(tmp_path, cache, server, capfd, name, pack, member):
    server.files["/" + name] = pack(CONTENT)
    file = TOY._replace(url=f"{server.address}/{name}", member=member)
    assert fetch(file) == CONTENT
    assert "100%" in capfd.readouterr().err  # the progress bar
    assert fetch(file) == CONTENT
    assert server.asked == ["/" + name]
    assert [path.name.rpartition("-")[2] for path in cache.iterdir()] == [name]


def test_download_with_a_wrong_checksum_is_deleted_and_can_be_repeated(cache, server):
    server.files["/toy.csv"] = b"damaged"
    file = TOY._replace(url=server.address + "/toy.csv")
    with pytest.raises(ValueError, match=f"expected {SHA}"):
        fetch(file)
    assert list(cache.iterdir()) == []
    server.files["/toy.csv"] = CONTENT
    assert fetch(file) == CONTENT


def test_download_of_another_archive_is_refused(cache, server):
    server.files["/toy.zip"] = _zip(b"damaged")
    file = TOY._replace(url=server.address + "/toy.zip", member="toy.csv", archive_sha256="0" * 64)
    with pytest.raises(ValueError, match="did not send the file it should"):
        fetch(file)
    assert list(cache.iterdir()) == []


def test_address_that_is_gone_is_named_with_the_way_by_hand(cache, server):
    with pytest.raises(ConnectionError, match="toy.csv cannot be downloaded .*404.* by hand"):
        fetch(TOY._replace(url=server.address + "/toy.csv"))


def test_no_network_is_named_with_the_way_by_hand(tmp_path, cache, server):
    server.shutdown()
    server.server_close()
    file = TOY._replace(url=server.address + "/toy.csv")
    with pytest.raises(ConnectionError, match="not in directory= .* and .* pass directory="):
        fetch(file)
    assert not cache.exists() or list(cache.iterdir()) == []


def test_file_to_be_had_by_hand_only_names_its_origin(cache):
    with pytest.raises(FileNotFoundError, match=f"get it from {ORIGIN} by hand"):
        fetch(TOY)


def test_missing_pooch_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.delenv("JONLINE_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "pooch", None)
    (tmp_path / "toy.csv").write_bytes(CONTENT)
    assert fetch(TOY, tmp_path) == CONTENT
    with pytest.raises(ImportError, match=r'pooch; .*pip install "jonline\[data\]"'):
        fetch(TOY._replace(url="http://127.0.0.1:1/toy.csv"))
