"""A home or store that is missing, broken, locked or full: the hook does what it can and exits with 0.

Every run is a new process, and `check_result` in conftest checks exit code, duration and output.
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
    reply_with,
    reply_with_context,
    without_privileges,
    write_script,
)

Listening = Callable[..., Listener]


# ── home folder ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_disabled_hook_does_nothing(hook: Hook, listen: Listening) -> None:
    service = listen(reply_with_context())
    for off in ("off", "0", "OFF"):
        assert hook(PROMPT, env={"COFIO_HOOKS": off}).out == b""
    assert (service.requests, hook.log, hook.spooled) == ([], [], [])


def test_home_is_read_from_the_user_database_without_variable(hook: Hook, tmp_path: Path) -> None:
    results = f"pwd.getpwuid = lambda number: types.SimpleNamespace(pw_dir={str(tmp_path)!r})"
    script = write_script(tmp_path, "import pwd, types", results)
    hook.run([sys.executable, str(script), "claude-code"], json.dumps(STOP).encode(), env={"COFIO_AUTOSTART": "off"})
    assert [json.loads(entry.raw) for entry in spool.entries(tmp_path / ".cofio")] == [STOP]


def test_cofio_home_variable_is_sufficient(hook: Hook) -> None:
    command = [item for item in hook.command("claude-code") if item not in ("--home", str(hook.home))]
    hook.run(command, json.dumps(PROMPT).encode(), env={"COFIO_HOME": str(hook.home), "COFIO_AUTOSTART": "off"})
    assert hook.spooled == [PROMPT]


def test_user_without_home_is_ignored(hook: Hook, tmp_path: Path) -> None:
    script = write_script(
        tmp_path,
        "import pwd",
        "def unknown(number): raise KeyError(number)",
        "pwd.getpwuid = unknown",
    )
    hook.run([sys.executable, str(script), "claude-code"], json.dumps(PROMPT).encode(), env={}, cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == [script.name]


def test_home_is_found_by_variable_and_below_the_user_home(hook: Hook) -> None:
    command = [item for item in hook.command("claude-code") if item not in ("--home", str(hook.home))]
    for env in ({"HOME": str(hook.home)}, {"HOME": str(hook.home), "COFIO_HOME": "~/other"}):
        hook.run(command, json.dumps(STOP).encode(), env={**env, "COFIO_AUTOSTART": "off"})
    for folder in (".cofio", "other"):
        assert [json.loads(entry.raw) for entry in spool.entries(hook.home / folder)] == [STOP]


@pytest.mark.parametrize("event", [PROMPT, START, STOP], ids=lambda event: str(event["hook_event_name"]))
def test_unwritable_home_is_not_a_failure(hook: Hook, event: Any) -> None:
    hook.home.chmod(0o500)
    try:
        assert hook(event, preexec_fn=without_privileges).out == b""
        if os.getuid() == 0 and hook.log:
            pytest.skip("root's privileges cannot be dropped here")
        assert list(hook.home.iterdir()) == []
    finally:
        hook.home.chmod(0o700)


@pytest.mark.parametrize("home", ["/dev/null/x", "/proc/nothing/here", "relative", ""])
def test_invalid_home_is_not_a_failure(hook: Hook, tmp_path: Path, home: str) -> None:
    command = [*hook.command()[:-1], home, "claude-code"]
    hook.run(command, json.dumps(PROMPT).encode(), env=hook.environment(), cwd=tmp_path)


def test_special_characters_in_paths_work(tmp_path: Path, listen: Listening) -> None:
    home = tmp_path / 'it\'s "my" $HOME; `x` \\ ü'
    home.mkdir()
    hook = Hook(home)
    hook({**PROMPT, "cwd": str(home)})
    (entry,) = spool.entries(home)
    assert entry.project == str(home)


def test_created_files_are_private(hook: Hook, listen: Listening) -> None:
    listen(reply_with(b"garbage"))
    hook(PROMPT)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in hook.home.rglob("*")}
    for name in ("hook.at", "cofio.db.service"):  # written by the test
        del modes[name]
    assert modes.pop("spool") == 0o700
    assert set(modes) >= {"hooks.log", "hook.rest"}
    assert set(modes.values()) == {0o600}


def test_corrupt_spool_accepts_new_deliveries(hook: Hook) -> None:
    folder = hook.home / "spool"
    folder.mkdir()
    for name in ("00000000000000000001-1-a.hook", "junk", ".9.part"):
        (folder / name).write_bytes(b"\x00\xffjunk")
    hook(STOP)
    assert hook.spooled == [STOP]


def test_file_in_place_of_the_spool_is_logged(hook: Hook) -> None:
    (hook.home / "spool").write_text("x")
    hook(STOP)
    assert (hook.rung, hook.why) == ("failed", "down unwritable")


def test_full_spool_keeps_older_deliveries_and_logs_it(hook: Hook) -> None:
    folder = hook.home / "spool"
    folder.mkdir()
    with (folder / "00000000000000000001-1-a.hook").open("wb") as file:
        file.truncate(spool.MOST_BYTES)
    hook(STOP)
    assert (hook.rung, hook.why) == ("failed", "down full")
    assert len(list(folder.iterdir())) == 1


# ── store file ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def locked(hook: Hook) -> Iterator[Path]:
    """Yield the path of a store that another connection locks exclusively."""
    path = hook.home / "cofio.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("CREATE TABLE memories (id INTEGER PRIMARY KEY, text TEXT)")
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute("INSERT INTO memories (text) VALUES ('x')")
    yield path
    connection.close()


@pytest.mark.parametrize("event", [PROMPT, START], ids=lambda event: str(event["hook_event_name"]))
def test_locked_store_is_skipped_without_waiting(hook: Hook, locked: Path, event: Any) -> None:
    assert hook(event).out == b""
    assert hook.rung == "nothing"
    assert hook.spooled == ([PROMPT] if event is PROMPT else [])


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00" + b"\x00" * 5_000, b"\xff" * 9_000, None])
@pytest.mark.parametrize("event", [PROMPT, START], ids=lambda event: str(event["hook_event_name"]))
def test_corrupt_store_is_skipped(hook: Hook, event: Any, content: bytes | None) -> None:
    store = hook.home / "cofio.db"
    store.mkdir() if content is None else store.write_bytes(content)
    before = store.stat()
    assert hook(event).out == b""
    assert hook.rung == "nothing"
    assert (store.stat().st_size, store.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
