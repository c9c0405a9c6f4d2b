"""The fast path is light: what a hook loads when the service answers, and that its glance agrees with a real look."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio import __main__
from cofio.cli import shared_options
from cofio.hooks import circuit_breaker, client_events, fallback, http, json_peek, launcher, run_log, runner, spool
from cofio.retrieval import recall
from tests.hooks.conftest import PROMPT, Hook, Listener, tells

#: Everything that a hook may load when the service answers; each of these costs less than a millisecond.
LIGHT = {"__future__", "_json", "_socket", "_thread", "cofio", "posix", "pwd", "select", "sys", "time"}
OURS = {"circuit_breaker", "environment", "http", "json_peek", "project", "run_log", "runner"}


def test_the_fast_path_loads_next_to_nothing(hook: Hook, listening: Callable[..., Listener], tmp_path: Path) -> None:
    listening(tells())
    script = (
        "import posix, sys\n"
        "before = set(sys.modules)\n"
        "def told(code):\n"
        f"    file = posix.open({str(tmp_path / 'loaded')!r}, posix.O_WRONLY | posix.O_CREAT, 0o600)\n"
        "    posix.write(file, ' '.join(sorted(set(sys.modules) - before)).encode())\n"
        "    end(code)\n"
        "end, posix._exit = posix._exit, told\n"
        f"__file__ = {str(launcher.ENTRY)!r}\n"
        f"sys.argv = ['entry', '--home', {str(hook.home)!r}, 'claude-code']\n"
        "exec(compile(open(__file__).read(), __file__, 'exec'))\n"
    )
    hook.run([sys.executable, "-I", "-S", "-c", script], json.dumps(PROMPT).encode(), env=hook.around())
    loaded = set((tmp_path / "loaded").read_text().split())
    assert hook.rung == "service"
    assert loaded - LIGHT == {"cofio.hooks", *(f"cofio.hooks.{name}" for name in OURS)}


def test_the_kinds_of_events_are_those_of_the_clients() -> None:
    tables = (client_events._CLAUDE, client_events._CURSOR, client_events._OPENCLAW)
    assert {**{name: kind for table in tables for name, kind in table.items()}, "notify": "stop"} == json_peek.KINDS
    assert tuple(client_events._READERS) == tuple(client_events._WRITERS) == json_peek.CLIENTS
    assert runner.RECALLS == client_events.INJECTS
    assert set(runner.NAMED.values()) | {"failure", "summary"} == set(json_peek.KINDS.values())


def test_a_fallback_gives_as_many_memories_as_recall_does() -> None:
    assert fallback.AT_PROMPT == recall.AT_PROMPT


def test_what_stands_before_a_command_is_the_same_to_both_readers_of_the_command_line() -> None:
    assert __main__._OPTIONS == runner._OPTIONS == tuple(name for name, *_ in shared_options._WHERE)


texts = st.text(max_size=60) | st.sampled_from(
    ['"', '\\"', '"event": "Stop"', '{"hook_event_name": "Stop"}', "\\", "\\\\"]
)


@given(
    st.dictionaries(texts, texts | st.integers() | st.lists(texts)),
    st.sampled_from(sorted(json_peek.KINDS)),
    st.booleans(),
)
def test_the_glance_finds_the_event_whatever_else_is_said(more: dict[str, Any], name: str, spaced: bool) -> None:
    more = {
        key: value for key, value in more.items() if key not in ("hook_event_name", "hookEventName", "event", "type")
    }
    raw = json.dumps({**more, "hook_event_name": name}, indent=2 if spaced else None).encode()
    assert json_peek.event(raw) == name


@given(st.text(max_size=200), st.booleans())
def test_the_glance_reads_a_text_as_it_was_meant(folder: str, plain: bool) -> None:
    raw = json.dumps({"prompt": '"cwd": "/wrong"', "cwd": folder}, ensure_ascii=plain).encode("utf-8", "surrogatepass")
    assert json_peek.text(raw, "cwd") == json.loads(raw.decode("utf-8", "replace"))["cwd"]


@given(st.binary(max_size=300))
def test_a_glance_at_anything_never_fails(raw: bytes) -> None:
    json_peek.event(raw)
    json_peek.text(raw, "cwd")
    try:
        expected = json.loads(raw.decode())
    except (ValueError, RecursionError):
        expected = None
    assert json_peek.parse_object(raw) == (expected if isinstance(expected, dict) else None)


def test_a_header_holds_any_project() -> None:
    assert http.percent_encode("/a b/é%\r\nX: 1") == "/a%20b/%C3%A9%25%0D%0AX%3A%201"


# ── the log ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def note(home: Path, rung: str, ms: int, *why: str, event: str = "Stop") -> None:
    run_log.append_run(str(home).encode(), "codex", event, rung, ms / 1000, *why)


def test_a_line_of_the_log_says_who_what_how_and_how_long(tmp_path: Path) -> None:
    note(tmp_path, "file", 61, "refused", "", "spooled")
    line = (tmp_path / "hooks.log").read_text()
    at, rest_of_it = line.split(" ", 1)
    assert rest_of_it == "codex Stop file 61ms refused spooled\n"
    assert abs(time.time() - _seconds(at)) < 60
    (run,) = run_log.recent(tmp_path)
    expected = {"client": "codex", "event": "Stop", "rung": "file", "ms": 61, "why": "refused spooled"}
    assert run == {"at": at, **expected}


def _seconds(at: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(at).timestamp()


def test_the_summary_counts_a_day_by_rung(tmp_path: Path) -> None:
    old = "2020-01-01T00:00:00.000Z codex Stop service 9000ms\n"
    (tmp_path / "hooks.log").write_text(f"{old}junk\n\x00\n{old[:30]}\n")
    for ms in range(1, 101):
        note(tmp_path, "service", ms)
    note(tmp_path, "failed", 5, "503", "unwritable")
    note(tmp_path, "failed", 6, "down", "full")
    note(tmp_path, "failed", 7, "full")
    spool.store_delivery(tmp_path, "codex", b"{}", at="", project="", event="Stop")
    circuit_breaker.begin(str(tmp_path).encode())
    found = run_log.summary(tmp_path)
    assert found["last"]["rung"] == "failed"
    assert found["rungs"] == {
        "service": {"count": 100, "p50_ms": 51, "p95_ms": 96},
        "failed": {"count": 3, "p50_ms": 6, "p95_ms": 7},
    }
    assert found["failed"] == {"full": 2, "unwritable": 1}
    assert (found["spool"], found["bad"]) == (1, 0)
    assert 0 < _seconds(found["resting_until"]) - time.time() <= circuit_breaker.FIRST


def test_nothing_has_happened_in_a_new_home(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"last": None, "rungs": {}, "failed": {}, "spool": 0, "bad": 0, "resting_until": None}
    assert run_log.summary(tmp_path / "none") == nothing


def test_a_long_log_is_put_aside_and_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "MOST_BYTES", 500)
    for ms in range(25):
        note(tmp_path, "service", ms)
    assert {path.name for path in tmp_path.iterdir()} == {"hooks.log", "hooks.log.1"}
    assert (tmp_path / "hooks.log.1").stat().st_size < 700
    assert [run["ms"] for run in run_log.recent(tmp_path, 12)] == list(range(13, 25))


def test_many_hooks_at_once_leave_whole_lines(hook: Hook) -> None:
    running = [
        subprocess.Popen(hook.command("claude-code"), stdin=subprocess.DEVNULL, env=hook.around()) for _ in range(20)
    ]
    assert [each.wait(30) for each in running] == [0] * 20
    assert len(hook.log) == 20 == len((hook.home / "hooks.log").read_text().splitlines())
