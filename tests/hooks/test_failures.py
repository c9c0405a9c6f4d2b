"""Failures of input, output and the process: the hook exits with 0 and loses no captured text.

Every run is a new process, and `check_result` in conftest checks exit code, duration and output.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cofio.hooks import json_peek, runner, spool
from cofio.hooks.client_events import event
from tests.hooks.conftest import (
    CAPTURE,
    CONTEXT,
    END,
    PROMPT,
    RECALL,
    STOP,
    Hook,
    Listener,
    check_result,
    hang,
    http,
    make_context,
    make_event,
    reply_with,
    reply_with_context,
    write_script,
)

Listening = Callable[..., Listener]


# ── input ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"{", "down broken"),
        (b"not JSON", "down broken"),
        (b"[1, 2]", "down broken"),
        (b"\xff\xfe\x00", "down broken"),
        (json.dumps(STOP).encode()[:-3], "down broken aside"),
        (b"[" * 200_000, "down broken"),
        (b"{}", "down event"),
        (json.dumps(make_event("SomethingNew", prompt="x")).encode(), "down event"),
        (json.dumps(make_event("PostToolUse", tool_input={"hook_event_name": "Stop"})).encode(), "down event"),
        (json.dumps({"hook_event_name": 5}).encode(), "down event"),
        (json.dumps({"hook_event_name": "A B\n" * 99}).encode(), "down event"),
    ],
)
def test_unsupported_input_is_skipped(hook: Hook, raw: bytes, why: str) -> None:
    assert hook(raw).out == b""
    assert (hook.rung, hook.why, hook.spooled) == ("skipped", why, [])


@pytest.mark.parametrize("ending", [b"", b', "a": ' + b"[" * 99_999], ids=["half", "deep"])
def test_truncated_event_is_moved_aside(hook: Hook, ending: bytes) -> None:
    raw = json.dumps(STOP).encode()[:-1] + ending
    hook(raw)
    (kept,) = (hook.home / "spool" / "bad").iterdir()
    assert kept.read_bytes().endswith(b"\n" + raw)
    assert kept.stat().st_mode & 0o777 == 0o600


def test_folder_for_bad_input_is_limited(hook: Hook) -> None:
    folder = hook.home / "spool" / "bad"
    folder.mkdir(parents=True)
    with (folder / "1").open("wb") as file:
        file.truncate(spool.MOST_BAD_BYTES)
    hook(json.dumps(STOP).encode()[:-3])
    assert (hook.rung, hook.why, len(list(folder.iterdir()))) == ("skipped", "down broken full", 1)


def test_oversized_event_is_moved_aside(hook: Hook) -> None:
    raw = json.dumps({**STOP, "last_assistant_message": "x" * runner._MOST}).encode()
    hook(raw, env={"COFIO_HOOK_CAPTURE_TIMEOUT_MS": "5000"}, limit=5.0)  # writing 32 MB is slow on a loaded machine
    (kept,) = (hook.home / "spool" / "bad").iterdir()
    assert raw[: runner._MOST] in kept.read_bytes()
    assert hook.log[-1]["event"] == "Stop"


@pytest.mark.parametrize(
    "said", [b'"last_assistant_message": "We use Fly", "cost": NaN', b'"last_assistant_message": "We use\n\tFly"']
)
def test_lenient_json_is_spooled(hook: Hook, said: bytes) -> None:
    raw = b'{"hook_event_name": "Stop", "session_id": "s", ' + said + b"}"
    hook(raw)
    (entry,) = spool.entries(hook.home)
    assert (entry.raw, hook.rung) == (raw, "spooled")
    assert event("claude-code", raw).reply.startswith("We use")


def test_slow_to_parse_event_is_spooled_unparsed(hook: Hook) -> None:
    """The JSON scanner in C cannot be interrupted: three million objects take it seconds."""
    raw = json.dumps(STOP).encode()[:-1] + b', "more": [' + b'{"a":1},' * 3_000_000 + b"0]}"
    start_time = time.monotonic()
    assert json_peek.parse_object(raw, lax=True)
    parsing = time.monotonic() - start_time
    result = hook(raw)
    assert result.seconds < parsing
    (entry,) = spool.entries(hook.home)
    assert (entry.raw, hook.rung) == (raw, "spooled")


def test_large_prompt_is_kept_when_the_client_does_not_close_the_pipe(hook: Hook) -> None:
    raw = json.dumps({**PROMPT, "prompt": "x" * 2_000_000}).encode()
    with subprocess.Popen(hook.command("claude-code"), stdin=subprocess.PIPE, env=hook.environment()) as running:
        assert running.stdin
        running.stdin.write(raw)
        running.stdin.flush()
        assert running.wait(20) == 0
    (entry,) = spool.entries(hook.home)
    assert entry.raw == raw


@pytest.mark.parametrize("arguments", [("emacs",), ("--help",), ("Claude-Code", "query"), ("-h", "x", "y", "z")])
def test_unknown_client_is_skipped(hook: Hook, arguments: tuple[str, ...]) -> None:
    assert hook(PROMPT, *arguments).out == b""
    assert (hook.rung, hook.why, hook.spooled) == ("skipped", "client", [])


@pytest.mark.parametrize(
    "event",
    [
        {**PROMPT, "agent_id": "a1", "agent_type": "Explore"},
        {**STOP, "agent_id": ""},
        {**make_event("afterAgentResponse"), "cursor_version": "3", "is_background_agent": True},
    ],
)
def test_subagent_event_is_not_captured(hook: Hook, event: Any) -> None:
    assert hook(event).out == b""
    assert (hook.rung, hook.why, hook.spooled) == ("skipped", "down subagent", [])


def test_text_in_a_prompt_is_not_parsed_as_fields(hook: Hook) -> None:
    tricky = {"prompt": '"agent_id": "x", "hook_event_name": "Stop", {"agent_id"', **make_event("UserPromptSubmit")}
    hook(tricky)
    assert hook.log[-1]["event"] == "UserPromptSubmit"
    assert hook.spooled == [tricky]


def test_prompt_of_five_megabytes_is_delivered_or_spooled(hook: Hook, listen: Listening) -> None:
    big = {**PROMPT, "prompt": "we deploy with Fly.io \n" * 220_000}
    hook(big)
    assert hook.spooled == [big]
    service = listen(reply_with_context())
    assert hook(big).reply == CONTEXT
    assert json.loads(service.requests[0][1]) == big


def test_long_or_broken_transcript_is_not_read(hook: Hook, tmp_path: Path) -> None:
    transcript = tmp_path / "t.jsonl"
    with transcript.open("wb") as file:
        file.truncate(50_000_000)
    half = tmp_path / "half.jsonl"
    half.write_bytes(b'{"type": "user", "message": {"ro')
    for path in (transcript, half, tmp_path / "none", tmp_path):
        hook({**END, "transcript_path": str(path)}, limit=CAPTURE)
    assert [item["transcript_path"] for item in hook.spooled] == [
        *(str(path) for path in (transcript, half, tmp_path / "none", tmp_path))
    ]


def test_reply_is_sent_when_the_client_does_not_close_the_pipe(hook: Hook, listen: Listening) -> None:
    service = listen(reply_with_context())
    result = run_with_open_pipe(hook, json.dumps(PROMPT).encode())
    assert result.reply == CONTEXT
    assert service.requests[0][1] == json.dumps(PROMPT).encode()


@pytest.mark.parametrize("raw", [b"", json.dumps(PROMPT).encode()[:-9], json.dumps(PROMPT).encode() + b"x"])
def test_incomplete_input_ends_at_the_deadline(hook: Hook, raw: bytes) -> None:
    assert run_with_open_pipe(hook, raw).out == b""
    assert (hook.rung, hook.why, hook.spooled) == ("failed", "deadline", [])


def run_with_open_pipe(hook: Hook, raw: bytes) -> Any:
    reading, writing = os.pipe()
    try:
        os.write(writing, raw)
        start_time = time.monotonic()
        running = subprocess.run(
            hook.command("claude-code"),
            stdin=reading,
            capture_output=True,
            env=hook.environment(),
            timeout=60,
            check=False,
        )
        return check_result(running.returncode, running.stdout, running.stderr, time.monotonic() - start_time, RECALL)
    finally:
        os.close(reading)
        os.close(writing)


# ── output ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_closed_output_pipe_is_not_a_failure(hook: Hook, listen: Listening) -> None:
    listen(reply_with_context())
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = subprocess.run(
            hook.command("claude-code"),
            input=json.dumps(PROMPT).encode(),
            stdout=writing,
            env=hook.environment(),
            check=False,
        )
    finally:
        os.close(writing)
    assert (result.returncode, hook.rung) == (0, "service")


def test_client_that_does_not_read_ends_at_the_deadline(hook: Hook, listen: Listening) -> None:
    listen(reply_with(http("200 OK", json.dumps(make_context("y" * 300_000)).encode())))
    with subprocess.Popen(
        hook.command("claude-code"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=hook.environment()
    ) as running:
        assert running.stdin
        running.stdin.write(json.dumps(PROMPT).encode())
        running.stdin.close()
        assert running.wait(10 * RECALL) == 0
    assert (hook.rung, hook.why, hook.spooled) == ("failed", "deadline", [])  # delivered to the service


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_not_a_failure(hook: Hook, listen: Listening, closed: str) -> None:
    listen(reply_with_context())
    (hook.home / "said").write_text(json.dumps(PROMPT))
    command = " ".join(f"'{item}'" for item in hook.command("claude-code"))
    source = "" if "<" in closed else f"< '{hook.home}/said'"
    result = subprocess.run(
        ["/bin/sh", "-c", f"{command} {source} {closed}"], capture_output=True, env=hook.environment(), check=False
    )
    assert result.returncode == 0
    assert result.stderr == b""
    assert result.stdout == (json.dumps(CONTEXT).encode() if closed == "2>&-" else b"")
    assert hook.rung == ("skipped" if "<" in closed else "service")
    assert (hook.home / "said").read_text() == json.dumps(PROMPT)


# ── signals and resource limits ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_exits_with_zero_and_spools_the_event(hook: Hook, listen: Listening, number: signal.Signals) -> None:
    service = listen(hang)
    with subprocess.Popen(
        hook.command("claude-code"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=hook.environment(),
    ) as running:
        assert running.stdin
        running.stdin.write(json.dumps(PROMPT).encode())
        running.stdin.close()
        deadline = time.monotonic() + 10
        while not service.requests and time.monotonic() < deadline:
            time.sleep(0.005)
        running.send_signal(number)
        assert running.wait(10) == 0
        assert [stream.read() for stream in (running.stdout, running.stderr) if stream] == [b"", b""]
    assert hook.spooled == [PROMPT]


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_second_signal_does_not_interrupt_the_spooling(
    hook: Hook, listen: Listening, tmp_path: Path, second: signal.Signals
) -> None:
    service = listen(hang)
    script = write_script(
        tmp_path,
        "import posix, time",
        "from cofio.hooks import spool",
        "write = spool.write",
        "def slowly(*given, **more):",
        f"    posix.mkdir({str(tmp_path / 'spooling')!r})",
        "    time.sleep(0.2)",
        "    return write(*given, **more)",
        "spool.write = slowly",
    )
    command = [sys.executable, str(script), "--home", str(hook.home), "claude-code"]
    env = hook.environment({"COFIO_HOOK_RECALL_TIMEOUT_MS": "9000"})
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=env) as running:
        assert running.stdin
        running.stdin.write(json.dumps(PROMPT).encode())
        running.stdin.close()
        wait_for(lambda: bool(service.requests))
        running.send_signal(signal.SIGHUP)
        wait_for((tmp_path / "spooling").exists)
        running.send_signal(second)
        assert running.wait(20) == 0
    assert hook.spooled == [PROMPT]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert condition()


def test_memory_limit_exits_with_zero(hook: Hook) -> None:
    def limit_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (60_000_000, 60_000_000))

    result = subprocess.run(
        hook.command("claude-code"),
        input=json.dumps({**PROMPT, "prompt": "x" * 20_000_000}).encode(),
        capture_output=True,
        env=hook.environment(),
        preexec_fn=limit_memory,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, b"")


def test_deadline_holds_while_fsync_hangs(hook: Hook, tmp_path: Path) -> None:
    """The sync of the spooled file never returns, but the file already has its final name."""
    script = write_script(tmp_path, "import posix, time", "posix.fsync = lambda file: time.sleep(60)")
    command = [sys.executable, str(script), "--home", str(hook.home), "claude-code"]
    hook.run(command, json.dumps(STOP).encode(), limit=CAPTURE, env=hook.environment())
    assert (hook.rung, hook.why, hook.spooled) == ("spooled", "deadline", [STOP])
