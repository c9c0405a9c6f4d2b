"""A home or a store that is missing, broken, locked or full: a hook does what it can, and ends with 0.

Every run is a process of its own, and `checked` in conftest holds for each: 0, in time, valid JSON or nothing.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.hooks import spool
from tests.hooks.conftest import (
    PROMPT,
    START,
    STOP,
    Hook,
    Listener,
    answers,
    driven,
    tells,
    without_privileges,
)

Listening = Callable[..., Listener]


# ── the home ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_switched_off_it_does_nothing(hook: Hook, listening: Listening) -> None:
    service = listening(tells())
    for off in ("off", "0", "OFF"):
        assert hook(PROMPT, env={"COFIO_HOOKS": off}).out == b""
    assert (service.requests, hook.log, hook.spooled) == ([], [], [])


def test_without_a_home_variable_the_user_database_tells(hook: Hook, tmp_path: Path) -> None:
    found = f"pwd.getpwuid = lambda number: types.SimpleNamespace(pw_dir={str(tmp_path)!r})"
    script = driven(tmp_path, "import pwd, types", found)
    hook.run([sys.executable, str(script), "claude-code"], json.dumps(STOP).encode(), env={"COFIO_AUTOSTART": "off"})
    assert [json.loads(entry.raw) for entry in spool.entries(tmp_path / ".cofio")] == [STOP]


def test_without_a_home_variable_cofios_own_is_enough(hook: Hook) -> None:
    command = [each for each in hook.command("claude-code") if each not in ("--home", str(hook.home))]
    hook.run(command, json.dumps(PROMPT).encode(), env={"COFIO_HOME": str(hook.home), "COFIO_AUTOSTART": "off"})
    assert hook.spooled == [PROMPT]


def test_somebody_without_any_home_is_left_in_peace(hook: Hook, tmp_path: Path) -> None:
    script = driven(
        tmp_path,
        "import pwd",
        "def unknown(number): raise KeyError(number)",
        "pwd.getpwuid = unknown",
    )
    hook.run([sys.executable, str(script), "claude-code"], json.dumps(PROMPT).encode(), env={}, cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == [script.name]


def test_home_is_found_by_its_variable_and_by_the_users_folder(hook: Hook) -> None:
    command = [each for each in hook.command("claude-code") if each not in ("--home", str(hook.home))]
    for env in ({"HOME": str(hook.home)}, {"HOME": str(hook.home), "COFIO_HOME": "~/other"}):
        hook.run(command, json.dumps(STOP).encode(), env={**env, "COFIO_AUTOSTART": "off"})
    for folder in (".cofio", "other"):
        assert [json.loads(entry.raw) for entry in spool.entries(hook.home / folder)] == [STOP]


@pytest.mark.parametrize("event", [PROMPT, START, STOP], ids=lambda each: str(each["hook_event_name"]))
def test_a_home_that_cannot_be_written_is_no_failure(hook: Hook, event: Any) -> None:
    hook.home.chmod(0o500)
    try:
        assert hook(event, preexec_fn=without_privileges).out == b""
        if os.getuid() == 0 and hook.log:
            pytest.skip("root's privileges cannot be dropped here")
        assert list(hook.home.iterdir()) == []
    finally:
        hook.home.chmod(0o700)


@pytest.mark.parametrize("home", ["/dev/null/x", "/proc/nothing/here", "relative", ""])
def test_a_home_that_cannot_be_is_no_failure(hook: Hook, tmp_path: Path, home: str) -> None:
    command = [*hook.command()[:-1], home, "claude-code"]
    hook.run(command, json.dumps(PROMPT).encode(), env=hook.around(), cwd=tmp_path)


def test_spaces_and_quotes_in_paths_are_nothing_special(tmp_path: Path, listening: Listening) -> None:
    home = tmp_path / 'it\'s "my" $HOME; `x` \\ ü'
    home.mkdir()
    hook = Hook(home)
    hook({**PROMPT, "cwd": str(home)})
    (entry,) = spool.entries(home)
    assert entry.project == str(home)


def test_files_are_for_their_owner_alone(hook: Hook, listening: Listening) -> None:
    listening(answers(b"garbage"))
    hook(PROMPT)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in hook.home.rglob("*") if path.name != "hook.at"}
    assert modes.pop("spool") == 0o700
    assert set(modes) >= {"hooks.log", "hook.rest"}
    assert set(modes.values()) == {0o600}


def test_a_spool_that_is_corrupt_takes_new_deliveries(hook: Hook) -> None:
    folder = hook.home / "spool"
    folder.mkdir()
    for name in ("00000000000000000001-1-a.hook", "junk", ".9.part"):
        (folder / name).write_bytes(b"\x00\xffjunk")
    hook(STOP)
    assert hook.spooled == [STOP]


def test_a_file_in_the_place_of_the_spool_is_said_to_be_in_the_way(hook: Hook) -> None:
    (hook.home / "spool").write_text("x")
    hook(STOP)
    assert (hook.rung, hook.why) == ("failed", "down unwritable")


def test_a_full_spool_keeps_what_came_first_and_says_so(hook: Hook) -> None:
    folder = hook.home / "spool"
    folder.mkdir()
    with (folder / "00000000000000000001-1-a.hook").open("wb") as file:
        file.truncate(spool.MOST_BYTES)
    hook(STOP)
    assert (hook.rung, hook.why) == ("failed", "down full")
    assert len(list(folder.iterdir())) == 1


# ── the store's file ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def locked(hook: Hook) -> Iterator[Path]:
    """A store that another connection holds, so that nobody can even read."""
    path = hook.home / "cofio.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("CREATE TABLE memories (id INTEGER PRIMARY KEY, text TEXT)")
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute("INSERT INTO memories (text) VALUES ('x')")
    yield path
    connection.close()


@pytest.mark.parametrize("event", [PROMPT, START], ids=lambda each: str(each["hook_event_name"]))
def test_a_locked_store_is_not_waited_for(hook: Hook, locked: Path, event: Any) -> None:
    assert hook(event).out == b""
    assert hook.rung == "nothing"
    assert hook.spooled == ([PROMPT] if event is PROMPT else [])


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00" + b"\x00" * 5_000, b"\xff" * 9_000, None])
@pytest.mark.parametrize("event", [PROMPT, START], ids=lambda each: str(each["hook_event_name"]))
def test_a_corrupt_store_is_passed_over(hook: Hook, event: Any, content: bytes | None) -> None:
    store = hook.home / "cofio.db"
    store.mkdir() if content is None else store.write_bytes(content)
    before = store.stat()
    assert hook(event).out == b""
    assert hook.rung == "nothing"
    assert (store.stat().st_size, store.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
