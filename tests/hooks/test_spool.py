"""The spool: deliveries are returned in order, whatever else is in the folder."""

from __future__ import annotations

import errno
import json
import os
import posix
import stat
import time
from pathlib import Path

import pytest

from cofio.errors import StoreError
from cofio.hooks import spool


def put(home: Path, raw: bytes = b'{"a": 1}', *, project: str = "/web", event: str = "Stop") -> Path:
    return spool.store_delivery(home, "codex", raw, at="2026-11-15T10:00:00.123Z", project=project, event=event)


def test_deliveries_are_returned_unchanged_oldest_first(tmp_path: Path) -> None:
    raws = [b"{}", b'{"x": "\xff\n\n\x00"}', b"x" * 100_000]
    for raw in raws:
        put(tmp_path, raw, project='/a "b"\n\\c/é')
    results = list(spool.entries(tmp_path))
    assert [item.raw for item in results] == raws
    first = results[0]
    assert (first.client, first.at, first.event) == ("codex", "2026-11-15T10:00:00.123Z", "Stop")
    assert first.project == '/a "b"\n\\c/é'


def test_processed_deliveries_are_deleted_and_rejected_ones_kept(tmp_path: Path) -> None:
    for _ in range(3):
        put(tmp_path)
    done, aside, left = spool.entries(tmp_path)
    spool.remove_entry(done)
    spool.set_aside(aside)
    assert [entry.path for entry in spool.entries(tmp_path)] == [left.path]
    assert (tmp_path / "spool" / "bad" / aside.path.name).read_bytes().endswith(aside.raw)
    assert spool.count_bad(tmp_path) == 1


def test_spool_files_are_private(tmp_path: Path) -> None:
    path = put(tmp_path / "new")
    modes = [stat.S_IMODE(item.stat().st_mode) for item in (path, path.parent, tmp_path / "new")]
    assert modes == [0o600, 0o700, 0o700]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"no JSON\n{}",
        b"[1]\n{}",
        b'{"client": "codex"}\n{}',
        b'{"client": 1, "at": "", "project": "", "event": "", "bytes": 2}\n{}',
        b'{"client": "codex", "at": "", "project": "", "event": "", "bytes": 0}\n',
        b'{"client": "codex", "at": "", "project": "", "event": "", "bytes": "2"}\n{}',
        b"\x00" * 5_000,
        b"[" * 100_000,
    ],
)
def test_invalid_file_is_moved_aside_and_others_are_read(tmp_path: Path, content: bytes) -> None:
    put(tmp_path)
    (tmp_path / "spool" / "00000000000000000001-1-aa.hook").write_bytes(content)
    put(tmp_path)
    assert len(list(spool.entries(tmp_path))) == 2
    (bad,) = (tmp_path / "spool" / "bad").iterdir()
    assert bad.read_bytes() == content


def test_truncated_file_is_detected(tmp_path: Path) -> None:
    path = put(tmp_path, b'{"prompt": "something long"}')
    path.write_bytes(path.read_bytes()[:-5])
    assert list(spool.entries(tmp_path)) == []
    assert spool.count_bad(tmp_path) == 1


def test_foreign_files_and_links_are_moved_aside_and_folders_kept(tmp_path: Path) -> None:
    real = put(tmp_path)
    folder = tmp_path / "spool"
    (folder / "notes.txt").write_text("mine")
    (folder / "9.hook").symlink_to(real)
    (folder / "nowhere").symlink_to("/nowhere/at/all")
    (folder / "folder").mkdir()
    assert [entry.path for entry in spool.entries(tmp_path)] == [real]
    assert {path.name for path in folder.iterdir()} == {real.name, "bad", "folder", "nowhere"}
    assert {path.name for path in (folder / "bad").iterdir()} == {"notes.txt", "9.hook"}


def test_partial_files_in_progress_are_kept_and_abandoned_ones_recovered(tmp_path: Path) -> None:
    complete = put(tmp_path)
    content = complete.read_bytes()
    fresh, whole_one, half = ((tmp_path / "spool" / f".{name}.part") for name in ("1", "2", "3"))
    for path, kept in ((fresh, content), (whole_one, content), (half, content[:-1])):
        path.write_bytes(kept)
    for path in (whole_one, half):
        os.utime(path, (1, 1))
    assert {entry.path for entry in spool.entries(tmp_path)} == {complete, whole_one}
    assert fresh.exists()
    assert [path.name for path in (tmp_path / "spool" / "bad").iterdir()] == [half.name]


def test_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: int, _content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(posix, "write", full)
    with pytest.raises(StoreError):
        put(tmp_path)
    assert list((tmp_path / "spool").iterdir()) == []


def test_empty_partial_files_are_deleted_after_an_hour(tmp_path: Path) -> None:
    complete = put(tmp_path)
    fresh, old, filled = (tmp_path / "spool" / f".{name}.part" for name in ("1", "2", "3"))
    for path, hours, content in ((fresh, 0.5, b""), (old, 1.5, b""), (filled, 1.5, complete.read_bytes())):
        path.write_bytes(content)
        os.utime(path, (time.time() - 3_600 * hours,) * 2)
    put(tmp_path)
    assert (fresh.exists(), old.exists(), filled.exists()) == (True, False, True)
    assert len(list(spool.entries(tmp_path))) == 3
    assert (fresh.exists(), spool.count_bad(tmp_path)) == (False, 0)


def test_full_spool_keeps_older_deliveries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MOST_FILES", 3)
    stored = [put(tmp_path) for _ in range(3)]
    with pytest.raises(spool.SpoolFull):
        put(tmp_path)
    assert [entry.path for entry in spool.entries(tmp_path)] == stored
    monkeypatch.undo()
    monkeypatch.setattr(spool, "MOST_BYTES", 10_000)
    with pytest.raises(spool.SpoolFull):
        put(tmp_path, b"x" * 10_000)
    put(tmp_path, b"x" * 1_000)


def test_unwritable_spool_raises_error(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("in the way")
    with pytest.raises(StoreError):
        put(tmp_path)
    assert list(spool.entries(tmp_path)) == []


def test_missing_home_is_an_empty_spool(tmp_path: Path) -> None:
    assert list(spool.entries(tmp_path / "none")) == []
    assert spool.count_bad(tmp_path / "none") == 0


def test_header_is_one_line_of_json(tmp_path: Path) -> None:
    head, _, rest = put(tmp_path, b"{}\n{}").read_bytes().partition(b"\n")
    about = {
        "client": "codex",
        "at": "2026-11-15T10:00:00.123Z",
        "project": "/web",
        "event": "Stop",
        "bytes": 5,
        "redacted": True,
    }
    assert json.loads(head) == about
    assert rest == b"{}\n{}"
