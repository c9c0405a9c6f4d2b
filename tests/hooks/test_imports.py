"""Modules that the hook loads on the fast path, JSON peeking, and the run log."""

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
from tests.hooks.conftest import PROMPT, Hook, Listener, reply_with_context

#: Modules that a hook may load when the service responds; each takes less than a millisecond.
LIGHT = {"__future__", "_json", "_socket", "_thread", "cofio", "fcntl", "posix", "pwd", "select", "sys", "time"}
OURS = {
    "circuit_breaker",
    "environment",
    "http",
    "json_peek",
    "project",
    "reply_format",
    "run_log",
    "runner",
    "service_lock",
}


def test_fast_path_imports_only_light_modules(hook: Hook, listen: Callable[..., Listener], tmp_path: Path) -> None:
    listen(reply_with_context())
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
    hook.run([sys.executable, "-I", "-S", "-c", script], json.dumps(PROMPT).encode(), env=hook.environment())
    modules = set((tmp_path / "loaded").read_text().split())
    assert hook.rung == "service"
    assert modules - LIGHT == {"cofio.hooks", *(f"cofio.hooks.{name}" for name in OURS)}


def test_runner_and_parser_know_the_same_event_kinds() -> None:
    assert runner.RECALLS == client_events.INJECTS
    assert set(runner.NAMED.values()) | {"failure", "summary"} == set(json_peek.KINDS.values())


def test_fallback_and_recall_inject_the_same_number_of_memories() -> None:
    assert fallback.AT_PROMPT == recall.AT_PROMPT


def test_global_options_are_equal_in_both_command_line_parsers() -> None:
    assert __main__._OPTIONS == runner._OPTIONS == tuple(name for name, *_ in shared_options._WHERE)


texts = st.text(max_size=60) | st.sampled_from(
    ['"', '\\"', '"event": "Stop"', '{"hook_event_name": "Stop"}', "\\", "\\\\"]
)


@given(
    st.dictionaries(texts, texts | st.integers() | st.lists(texts)),
    st.sampled_from(sorted(json_peek.KINDS)),
    st.booleans(),
)
def test_peek_finds_the_event_among_other_fields(more: dict[str, Any], name: str, spaced: bool) -> None:
    more = {
        key: value for key, value in more.items() if key not in ("hook_event_name", "hookEventName", "event", "type")
    }
    raw = json.dumps({**more, "hook_event_name": name}, indent=2 if spaced else None).encode()
    assert json_peek.event(raw) == name


@given(st.text(max_size=200), st.booleans())
def test_peek_decodes_text_like_json(folder: str, plain: bool) -> None:
    raw = json.dumps({"prompt": '"cwd": "/wrong"', "cwd": folder}, ensure_ascii=plain).encode("utf-8", "surrogatepass")
    assert json_peek.text(raw, "cwd") == json.loads(raw.decode("utf-8", "replace"))["cwd"]


@given(st.binary(max_size=300))
def test_peek_never_raises(raw: bytes) -> None:
    json_peek.event(raw)
    json_peek.text(raw, "cwd")
    try:
        expected = json.loads(raw.decode())
    except (ValueError, RecursionError):
        expected = None
    assert json_peek.parse_object(raw) == (expected if isinstance(expected, dict) else None)


def test_project_header_is_percent_encoded() -> None:
    assert http.percent_encode("/a b/é%\r\nX: 1") == "/a%20b/%C3%A9%25%0D%0AX%3A%201"


# ── run log ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def log_run(home: Path, rung: str, ms: int, *why: str, event: str = "Stop") -> None:
    run_log.append_run(str(home).encode(), "codex", event, rung, ms / 1000, *why)


def test_log_line_has_client_event_result_and_duration(tmp_path: Path) -> None:
    log_run(tmp_path, "file", 61, "refused", "", "spooled")
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


def test_summary_counts_results_of_one_day(tmp_path: Path) -> None:
    old = "2020-01-01T00:00:00.000Z codex Stop service 9000ms\n"
    (tmp_path / "hooks.log").write_text(f"{old}junk\n\x00\n{old[:30]}\n")
    for ms in range(1, 101):
        log_run(tmp_path, "service", ms)
    log_run(tmp_path, "failed", 5, "503", "unwritable")
    log_run(tmp_path, "failed", 6, "down", "full")
    log_run(tmp_path, "failed", 7, "full")
    spool.store_delivery(tmp_path, "codex", b"{}", at="", project="", event="Stop")
    circuit_breaker.begin(str(tmp_path).encode())
    results = run_log.summary(tmp_path)
    assert results["last"]["rung"] == "failed"
    assert results["rungs"] == {
        "service": {"count": 100, "p50_ms": 51, "p95_ms": 96},
        "failed": {"count": 3, "p50_ms": 6, "p95_ms": 7},
    }
    assert results["failed"] == {"full": 2, "unwritable": 1}
    assert (results["spool"], results["bad"]) == (1, 0)
    assert 0 < _seconds(results["resting_until"]) - time.time() <= circuit_breaker.FIRST


def test_summary_of_a_new_home_is_empty(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"last": None, "rungs": {}, "failed": {}, "spool": 0, "bad": 0, "resting_until": None}
    assert run_log.summary(tmp_path / "none") == nothing


def test_long_log_is_rotated_and_still_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "MOST_BYTES", 500)
    for ms in range(25):
        log_run(tmp_path, "service", ms)
    assert {path.name for path in tmp_path.iterdir()} == {"hooks.log", "hooks.log.1"}
    assert (tmp_path / "hooks.log.1").stat().st_size < 700
    assert [run["ms"] for run in run_log.recent(tmp_path, 12)] == list(range(13, 25))


def test_concurrent_hooks_write_complete_lines(hook: Hook) -> None:
    running = [
        subprocess.Popen(hook.command("claude-code"), stdin=subprocess.DEVNULL, env=hook.environment())
        for _ in range(20)
    ]
    assert [item.wait(30) for item in running] == [0] * 20
    assert len(hook.log) == 20 == len((hook.home / "hooks.log").read_text().splitlines())
