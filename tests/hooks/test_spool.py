"""The spool: what was put in comes out, in order, whatever else lies there."""

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


def test_what_was_put_in_comes_out_byte_for_byte_and_oldest_first(tmp_path: Path) -> None:
    raws = [b"{}", b'{"x": "\xff\n\n\x00"}', b"x" * 100_000]
    for raw in raws:
        put(tmp_path, raw, project='/a "b"\n\\c/é')
    found = list(spool.entries(tmp_path))
    assert [each.raw for each in found] == raws
    first = found[0]
    assert (first.client, first.at, first.event) == ("codex", "2026-11-15T10:00:00.123Z", "Stop")
    assert first.project == '/a "b"\n\\c/é'


def test_what_is_done_is_gone_and_what_is_put_aside_is_kept(tmp_path: Path) -> None:
    for _ in range(3):
        put(tmp_path)
    done, aside, left = spool.entries(tmp_path)
    spool.remove_entry(done)
    spool.set_aside(aside)
    assert [entry.path for entry in spool.entries(tmp_path)] == [left.path]
    assert (tmp_path / "spool" / "bad" / aside.path.name).read_bytes().endswith(aside.raw)
    assert spool.count_bad(tmp_path) == 1


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = put(tmp_path / "new")
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent, tmp_path / "new")]
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
def test_what_is_no_delivery_is_put_aside_and_the_rest_is_read(tmp_path: Path, content: bytes) -> None:
    put(tmp_path)
    (tmp_path / "spool" / "00000000000000000001-1-aa.hook").write_bytes(content)
    put(tmp_path)
    assert len(list(spool.entries(tmp_path))) == 2
    (bad,) = (tmp_path / "spool" / "bad").iterdir()
    assert bad.read_bytes() == content


def test_half_a_file_is_known_as_one(tmp_path: Path) -> None:
    path = put(tmp_path, b'{"prompt": "something long"}')
    path.write_bytes(path.read_bytes()[:-5])
    assert list(spool.entries(tmp_path)) == []
    assert spool.count_bad(tmp_path) == 1


def test_files_of_others_and_links_are_put_aside_and_folders_are_left(tmp_path: Path) -> None:
    real = put(tmp_path)
    folder = tmp_path / "spool"
    (folder / "notes.txt").write_text("mine")
    (folder / "9.hook").symlink_to(real)
    (folder / "nowhere").symlink_to("/nowhere/at/all")
    (folder / "folder").mkdir()
    assert [entry.path for entry in spool.entries(tmp_path)] == [real]
    assert {path.name for path in folder.iterdir()} == {real.name, "bad", "folder", "nowhere"}
    assert {path.name for path in (folder / "bad").iterdir()} == {"notes.txt", "9.hook"}


def test_what_is_being_written_is_left_alone_and_what_was_left_half_written_is_not(tmp_path: Path) -> None:
    whole = put(tmp_path)
    content = whole.read_bytes()
    fresh, whole_one, half = ((tmp_path / "spool" / f".{name}.part") for name in ("1", "2", "3"))
    for path, kept in ((fresh, content), (whole_one, content), (half, content[:-1])):
        path.write_bytes(kept)
    for path in (whole_one, half):
        os.utime(path, (1, 1))
    assert {entry.path for entry in spool.entries(tmp_path)} == {whole, whole_one}
    assert fresh.exists()
    assert [each.name for each in (tmp_path / "spool" / "bad").iterdir()] == [half.name]


def test_what_finds_no_room_on_the_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: int, _content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(posix, "write", full)
    with pytest.raises(StoreError):
        put(tmp_path)
    assert list((tmp_path / "spool").iterdir()) == []


def test_empty_files_of_writers_that_died_are_swept_away_after_an_hour(tmp_path: Path) -> None:
    whole = put(tmp_path)
    fresh, old, filled = (tmp_path / "spool" / f".{name}.part" for name in ("1", "2", "3"))
    for path, hours, content in ((fresh, 0.5, b""), (old, 1.5, b""), (filled, 1.5, whole.read_bytes())):
        path.write_bytes(content)
        os.utime(path, (time.time() - 3_600 * hours,) * 2)
    put(tmp_path)
    assert (fresh.exists(), old.exists(), filled.exists()) == (True, False, True)
    assert len(list(spool.entries(tmp_path))) == 3
    assert (fresh.exists(), spool.count_bad(tmp_path)) == (False, 0)


def test_there_is_room_for_so_much_and_what_came_first_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MOST_FILES", 3)
    kept = [put(tmp_path) for _ in range(3)]
    with pytest.raises(spool.SpoolFull):
        put(tmp_path)
    assert [entry.path for entry in spool.entries(tmp_path)] == kept
    monkeypatch.undo()
    monkeypatch.setattr(spool, "MOST_BYTES", 10_000)
    with pytest.raises(spool.SpoolFull):
        put(tmp_path, b"x" * 10_000)
    put(tmp_path, b"x" * 1_000)


def test_a_spool_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("in the way")
    with pytest.raises(StoreError):
        put(tmp_path)
    assert list(spool.entries(tmp_path)) == []


def test_no_home_is_an_empty_spool(tmp_path: Path) -> None:
    assert list(spool.entries(tmp_path / "none")) == []
    assert spool.count_bad(tmp_path / "none") == 0


def test_the_header_is_a_line_of_json(tmp_path: Path) -> None:
    head, _, rest = put(tmp_path, b"{}\n{}").read_bytes().partition(b"\n")
    about = {"client": "codex", "at": "2026-11-15T10:00:00.123Z", "project": "/web", "event": "Stop", "bytes": 5}
    assert json.loads(head) == about
    assert rest == b"{}\n{}"
