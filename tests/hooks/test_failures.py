"""Whatever comes in, does not go out, or ends the hook: it ends with 0, and nothing said is lost.

Every run is a process of its own, and `checked` in conftest holds for each: 0, in time, valid JSON or nothing.
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
    answers,
    checked,
    driven,
    hangs,
    http,
    said,
    tells,
)

Listening = Callable[..., Listener]


# ── what comes in ─────────────────────────────────────────────────────────────────────────────────────────────────────


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
        (json.dumps(said("SomethingNew", prompt="x")).encode(), "down event"),
        (json.dumps(said("PostToolUse", tool_input={"hook_event_name": "Stop"})).encode(), "down event"),
        (json.dumps({"hook_event_name": 5}).encode(), "down event"),
        (json.dumps({"hook_event_name": "A B\n" * 99}).encode(), "down event"),
    ],
)
def test_what_is_no_event_of_ours_is_skipped(hook: Hook, raw: bytes, why: str) -> None:
    assert hook(raw).out == b""
    assert (hook.rung, hook.why, hook.spooled) == ("skipped", why, [])


@pytest.mark.parametrize("ending", [b"", b', "a": ' + b"[" * 99_999], ids=["half", "deep"])
def test_what_was_said_and_cannot_be_read_is_put_aside(hook: Hook, ending: bytes) -> None:
    raw = json.dumps(STOP).encode()[:-1] + ending
    hook(raw)
    (kept,) = (hook.home / "spool" / "bad").iterdir()
    assert kept.read_bytes().endswith(b"\n" + raw)
    assert kept.stat().st_mode & 0o777 == 0o600


def test_there_is_room_aside_for_so_much(hook: Hook) -> None:
    folder = hook.home / "spool" / "bad"
    folder.mkdir(parents=True)
    with (folder / "1").open("wb") as file:
        file.truncate(spool.MOST_BAD_BYTES)
    hook(json.dumps(STOP).encode()[:-3])
    assert (hook.rung, hook.why, len(list(folder.iterdir()))) == ("skipped", "down broken full", 1)


def test_what_is_larger_than_is_taken_is_put_aside(hook: Hook) -> None:
    raw = json.dumps({**STOP, "last_assistant_message": "x" * runner._MOST}).encode()
    hook(raw, env={"COFIO_HOOK_CAPTURE_TIMEOUT_MS": "5000"}, limit=5.0)  # writing 32 MB takes long on a busy machine
    (kept,) = (hook.home / "spool" / "bad").iterdir()
    assert raw[: runner._MOST] in kept.read_bytes()
    assert hook.log[-1]["event"] == "Stop"


@pytest.mark.parametrize(
    "said", [b'"last_assistant_message": "We use Fly", "cost": NaN', b'"last_assistant_message": "We use\n\tFly"']
)
def test_what_is_no_strict_json_is_kept_all_the_same(hook: Hook, said: bytes) -> None:
    raw = b'{"hook_event_name": "Stop", "session_id": "s", ' + said + b"}"
    hook(raw)
    (entry,) = spool.entries(hook.home)
    assert (entry.raw, hook.rung) == (raw, "spooled")
    assert event("claude-code", raw).reply.startswith("We use")


def test_what_would_take_long_to_parse_is_spooled_as_it_came(hook: Hook) -> None:
    """Nobody watches the clock while the scanner in C runs: three million objects take it seconds."""
    raw = json.dumps(STOP).encode()[:-1] + b', "more": [' + b'{"a":1},' * 3_000_000 + b"0]}"
    began = time.monotonic()
    assert json_peek.parse_object(raw, lax=True)
    parsing = time.monotonic() - began
    done = hook(raw)
    assert done.seconds < parsing
    (entry,) = spool.entries(hook.home)
    assert (entry.raw, hook.rung) == (raw, "spooled")


def test_a_large_prompt_of_a_client_that_never_closes_its_pipe_is_kept(hook: Hook) -> None:
    raw = json.dumps({**PROMPT, "prompt": "x" * 2_000_000}).encode()
    with subprocess.Popen(hook.command("claude-code"), stdin=subprocess.PIPE, env=hook.around()) as running:
        assert running.stdin
        running.stdin.write(raw)
        running.stdin.flush()
        assert running.wait(20) == 0
    (entry,) = spool.entries(hook.home)
    assert entry.raw == raw


@pytest.mark.parametrize("arguments", [("emacs",), ("--help",), ("Claude-Code", "query"), ("-h", "x", "y", "z")])
def test_an_unknown_client_is_skipped(hook: Hook, arguments: tuple[str, ...]) -> None:
    assert hook(PROMPT, *arguments).out == b""
    assert (hook.rung, hook.why, hook.spooled) == ("skipped", "client", [])


@pytest.mark.parametrize(
    "told",
    [
        {**PROMPT, "agent_id": "a1", "agent_type": "Explore"},
        {**STOP, "agent_id": ""},
        {**said("afterAgentResponse"), "cursor_version": "3", "is_background_agent": True},
    ],
)
def test_what_happens_in_a_subagent_is_not_kept(hook: Hook, told: Any) -> None:
    assert hook(told).out == b""
    assert (hook.rung, hook.why, hook.spooled) == ("skipped", "down subagent", [])


def test_words_in_a_prompt_are_not_taken_for_fields(hook: Hook) -> None:
    tricky = {"prompt": '"agent_id": "x", "hook_event_name": "Stop", {"agent_id"', **said("UserPromptSubmit")}
    hook(tricky)
    assert hook.log[-1]["event"] == "UserPromptSubmit"
    assert hook.spooled == [tricky]


def test_a_prompt_of_five_megabytes_is_delivered_or_kept(hook: Hook, listening: Listening) -> None:
    big = {**PROMPT, "prompt": "we deploy with Fly.io \n" * 220_000}
    hook(big)
    assert hook.spooled == [big]
    service = listening(tells())
    assert hook(big).told == CONTEXT
    assert json.loads(service.requests[0][1]) == big


def test_a_transcript_is_not_touched_however_long_or_broken_it_is(hook: Hook, tmp_path: Path) -> None:
    transcript = tmp_path / "t.jsonl"
    with transcript.open("wb") as file:
        file.truncate(50_000_000)
    half = tmp_path / "half.jsonl"
    half.write_bytes(b'{"type": "user", "message": {"ro')
    for path in (transcript, half, tmp_path / "none", tmp_path):
        hook({**END, "transcript_path": str(path)}, limit=CAPTURE)
    assert [each["transcript_path"] for each in hook.spooled] == [
        *(str(path) for path in (transcript, half, tmp_path / "none", tmp_path))
    ]


def test_a_client_that_never_closes_its_pipe_is_served_all_the_same(hook: Hook, listening: Listening) -> None:
    service = listening(tells())
    done = held_open(hook, json.dumps(PROMPT).encode())
    assert done.told == CONTEXT
    assert service.requests[0][1] == json.dumps(PROMPT).encode()


@pytest.mark.parametrize("raw", [b"", json.dumps(PROMPT).encode()[:-9], json.dumps(PROMPT).encode() + b"x"])
def test_a_client_that_never_ends_is_left_at_the_deadline(hook: Hook, raw: bytes) -> None:
    assert held_open(hook, raw).out == b""
    assert (hook.rung, hook.why, hook.spooled) == ("failed", "deadline", [])


def held_open(hook: Hook, raw: bytes) -> Any:
    reading, writing = os.pipe()
    try:
        os.write(writing, raw)
        started = time.monotonic()
        running = subprocess.run(
            hook.command("claude-code"), stdin=reading, capture_output=True, env=hook.around(), timeout=60, check=False
        )
        return checked(running.returncode, running.stdout, running.stderr, time.monotonic() - started, RECALL)
    finally:
        os.close(reading)
        os.close(writing)


# ── what goes out ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_client_that_does_not_listen_any_more_is_no_failure(hook: Hook, listening: Listening) -> None:
    listening(tells())
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            hook.command("claude-code"),
            input=json.dumps(PROMPT).encode(),
            stdout=writing,
            env=hook.around(),
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, hook.rung) == (0, "service")


def test_a_client_that_never_reads_is_left_at_the_deadline(hook: Hook, listening: Listening) -> None:
    listening(answers(http("200 OK", json.dumps({"x": "y" * 300_000}).encode())))
    with subprocess.Popen(
        hook.command("claude-code"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=hook.around()
    ) as running:
        assert running.stdin
        running.stdin.write(json.dumps(PROMPT).encode())
        running.stdin.close()
        assert running.wait(10 * RECALL) == 0
    assert (hook.rung, hook.why, hook.spooled) == ("failed", "deadline", [])  # the service has it


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_failure_and_nothing_is_written_where_it_does_not_belong(
    hook: Hook, listening: Listening, closed: str
) -> None:
    listening(tells())
    (hook.home / "said").write_text(json.dumps(PROMPT))
    command = " ".join(f"'{each}'" for each in hook.command("claude-code"))
    source = "" if "<" in closed else f"< '{hook.home}/said'"
    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} {source} {closed}"], capture_output=True, env=hook.around(), check=False
    )
    assert done.returncode == 0
    assert done.stderr == b""
    assert done.stdout == (json.dumps(CONTEXT).encode() if closed == "2>&-" else b"")
    assert hook.rung == ("skipped" if "<" in closed else "service")
    assert (hook.home / "said").read_text() == json.dumps(PROMPT)


# ── signals, and worse ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_hook_that_is_told_to_end_does_so_with_0_and_keeps_what_was_said(
    hook: Hook, listening: Listening, number: signal.Signals
) -> None:
    service = listening(hangs)
    with subprocess.Popen(
        hook.command("claude-code"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=hook.around(),
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
def test_a_second_signal_does_not_end_what_the_first_began(
    hook: Hook, listening: Listening, tmp_path: Path, second: signal.Signals
) -> None:
    service = listening(hangs)
    script = driven(
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
    around = hook.around({"COFIO_HOOK_RECALL_TIMEOUT_MS": "9000"})
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=around) as running:
        assert running.stdin
        running.stdin.write(json.dumps(PROMPT).encode())
        running.stdin.close()
        wait_for(lambda: bool(service.requests))
        running.send_signal(signal.SIGHUP)
        wait_for((tmp_path / "spooling").exists)
        running.send_signal(second)
        assert running.wait(20) == 0
    assert hook.spooled == [PROMPT]


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert happened()


def test_too_little_memory_ends_with_0(hook: Hook) -> None:
    def little() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (60_000_000, 60_000_000))

    done = subprocess.run(
        hook.command("claude-code"),
        input=json.dumps({**PROMPT, "prompt": "x" * 20_000_000}).encode(),
        capture_output=True,
        env=hook.around(),
        preexec_fn=little,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"")


def test_the_deadline_holds_while_the_disk_hangs_and_the_file_is_there_already(hook: Hook, tmp_path: Path) -> None:
    """A spool whose sync never comes back: the file has its name by then."""
    script = driven(tmp_path, "import posix, time", "posix.fsync = lambda file: time.sleep(60)")
    command = [sys.executable, str(script), "--home", str(hook.home), "claude-code"]
    hook.run(command, json.dumps(STOP).encode(), limit=CAPTURE, env=hook.around())
    assert (hook.rung, hook.why, hook.spooled) == ("spooled", "deadline", [STOP])
