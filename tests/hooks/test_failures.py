"""Whatever goes wrong around a hook: it ends with 0, in time, with valid JSON or nothing, and nothing said is lost.

Every run is a process of its own, and `checked` in conftest holds for each of them.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import sqlite3
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.hooks import rest, spool
from tests.hooks.conftest import (
    CAPTURE,
    CONTEXT,
    END,
    PROMPT,
    RECALL,
    START,
    STOP,
    Hook,
    Listener,
    answers,
    checked,
    drips,
    hangs,
    http,
    said,
    tells,
    unused_url,
    without_privileges,
)

Listening = Callable[..., Listener]
CAPTURED = [PROMPT, STOP, said("StopFailure", error="rate_limit"), said("PreCompact", trigger="auto"), END]


# ── the service is well ───────────────────────────────────────────────────────────────────────────────────────────────


def test_what_the_client_said_goes_out_as_it_came_and_the_reply_comes_back(hook: Hook, listening: Listening) -> None:
    service = listening(tells())
    raw = json.dumps(PROMPT, indent=3).encode() + b"\n"
    assert hook(raw, env={"COFIO_PROJECT": "the shop/ü"}).told == CONTEXT
    ((head, body),) = service.requests
    assert body == raw
    assert head.startswith("POST /hooks/claude-code HTTP/1.1\r\n")
    assert {"X-Cofio-Client: hook", "X-Cofio-Project: the%20shop/%C3%BC", "Connection: close"} <= set(
        head.split("\r\n")
    )
    assert "X-API-Key" not in head
    assert (hook.rung, hook.why, hook.spooled) == ("service", "", [])


def test_the_reply_is_printed_byte_for_byte(hook: Hook, listening: Listening) -> None:
    body = '{"hookSpecificOutput": {"additionalContext": "Größe — 大 \\n"}}'.encode()
    listening(answers(http("200 OK", body)))
    assert hook(PROMPT).out == body


def test_no_content_prints_nothing(hook: Hook, listening: Listening) -> None:
    listening(answers(b"HTTP/1.1 204 No Content\r\n\r\n"))
    assert hook(PROMPT).out == b""
    assert (hook.rung, hook.spooled) == ("service", [])


@pytest.mark.parametrize(
    "event", [STOP, END, said("PreCompact"), said("Notification")], ids=lambda each: str(each["hook_event_name"])
)
def test_at_other_events_nothing_is_printed_even_if_somebody_answers(
    hook: Hook, listening: Listening, event: Any
) -> None:
    listening(tells())
    assert hook(event).out == b""
    assert (hook.rung, hook.spooled) == ("service", [])


def test_the_key_is_sent_to_whom_it_belongs_and_to_nobody_else(hook: Hook, listening: Listening) -> None:
    ours, other = listening(tells()), listening(tells())
    hook.finds(ours.url, key="secret")
    hook(PROMPT)
    hook(PROMPT, env={"COFIO_URL": other.url})
    hook(PROMPT, env={"FAISS_URL": other.url + "/", "FAISS_API_KEY": "theirs"})
    assert "X-API-Key: secret" in ours.requests[0][0]
    assert ["X-API-Key: theirs" in head for head, _ in other.requests] == [False, True]
    assert not any("secret" in head for head, _ in other.requests)


def test_a_notification_comes_as_the_last_argument(hook: Hook, listening: Listening) -> None:
    service = listening(answers(http("204 No Content")))
    told = json.dumps({"type": "agent-turn-complete", "thread-id": "t", "last-assistant-message": 'a "b" ü'})
    hook(b"", "codex", "notify", told)
    assert service.requests[0][1] == told.encode()
    assert hook.log[-1]["event"] == "notify"


def test_a_service_behind_an_ipv6_address_or_a_unix_socket_is_found(hook: Hook, tmp_path: Path) -> None:
    made = []
    with socket.socket(socket.AF_UNIX) as server:
        short = os.path.relpath(tmp_path / "s")  # such paths have a limit
        server.bind(short)
        server.listen()
        made.append((server, f"unix://{tmp_path / 's'}"))
        if socket.has_ipv6:
            six = socket.create_server(("::1", 0), family=socket.AF_INET6)
            made.append((six, f"http://[::1]:{six.getsockname()[1]}"))
        for listener, url in made:
            hook.finds(url)
            with subprocess.Popen(
                hook.command("claude-code"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=hook.around()
            ) as running:
                assert running.stdin
                assert running.stdout
                running.stdin.write(json.dumps(PROMPT).encode())
                running.stdin.close()
                connection, _ = listener.accept()
                connection.sendall(http("200 OK", json.dumps(CONTEXT).encode()))
                connection.close()
                assert json.loads(running.stdout.read()) == CONTEXT
            listener.close()


def test_a_service_behind_https_is_found_and_one_that_cannot_prove_itself_is_not_trusted(
    hook: Hook, tmp_path: Path, listening: Listening
) -> None:
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl here to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*make, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    guarded = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    guarded.load_cert_chain(certificate, key)

    def behind(connection: socket.socket) -> None:
        with guarded.wrap_socket(connection, server_side=True) as secure:
            while not secure.recv(65_536).endswith(b"}"):
                continue
            secure.sendall(http("200 OK", json.dumps(CONTEXT).encode()))

    service = listening(behind, reads=False)
    around = {"COFIO_URL": service.url.replace("http:", "https:"), "COFIO_HOOK_RECALL_MS": "5000"}
    assert hook(PROMPT, env={**around, "SSL_CERT_FILE": str(certificate)}).told == CONTEXT
    assert hook(PROMPT, env=around).out == b""
    assert (hook.why, hook.spooled) == ("broken spooled", [PROMPT])


# ── the service is not well ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("event", CAPTURED, ids=lambda each: str(each["hook_event_name"]))
@pytest.mark.parametrize("known", [False, True], ids=["ended", "crashed"])
def test_with_the_service_down_what_was_said_is_spooled(hook: Hook, event: Any, known: bool) -> None:
    if known:
        hook.finds(unused_url())
    assert hook(event, limit=RECALL if event is PROMPT else CAPTURE).out == b""
    assert hook.spooled == [event]
    assert hook.log[-1]["rung"] == ("nothing" if event is PROMPT else "spooled")
    assert hook.why == ("refused" if known else "down") + (" spooled" if event is PROMPT else "")
    assert not (hook.home / "hook.rest").exists()  # to be refused costs nothing


def test_the_spool_tells_client_project_event_and_time(hook: Hook) -> None:
    hook(said("Stop", cwd="/somewhere/else", last_assistant_message="x"), "codex")
    (entry,) = spool.entries(hook.home)
    assert (entry.client, entry.project, entry.event) == ("codex", "/somewhere/else", "Stop")
    assert time.strftime("%Y-%m-%d", time.gmtime()) in (
        entry.at[:10],
        time.strftime("%Y-%m-%d", time.gmtime(time.time() - 60)),
    )


@pytest.mark.parametrize("reads", [True, False], ids=["silent", "deaf"])
def test_a_hung_service_costs_one_deadline_and_is_left_alone_then(
    hook: Hook, listening: Listening, reads: bool
) -> None:
    service = listening(hangs, reads=reads)
    assert hook(PROMPT).out == b""
    assert (hook.rung, hook.why, hook.spooled) == ("nothing", "timeout spooled", [PROMPT])
    assert 0 < rest.until(os.fsencode(hook.home)) - time.time() <= rest.FIRST
    asked = len(service.requests)
    assert hook(STOP).out == b""
    assert (hook.rung, hook.why, len(service.requests)) == ("spooled", "resting", asked)
    assert hook.spooled == [PROMPT, STOP]


def test_a_hung_service_does_not_hold_up_a_capture(hook: Hook, listening: Listening) -> None:
    listening(hangs)
    hook(END, limit=CAPTURE)
    assert (hook.rung, hook.why, hook.spooled) == ("spooled", "timeout", [END])
    assert not (hook.home / "hook.rest").exists()  # so short a wait may be the machine's fault


def test_a_service_that_drips_is_taken_for_hung(hook: Hook, listening: Listening) -> None:
    listening(drips)
    assert hook(PROMPT).out == b""
    assert (hook.why, hook.spooled) == ("timeout spooled", [PROMPT])


@pytest.mark.parametrize(
    ("reply", "why", "sick"),
    [
        (b"\x00\xff garbage \r\n\r\n" * 50, "garbage", True),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "garbage", True),
        (http("200 OK", b"<html>hello</html>"), "garbage", True),
        (http("200 OK", b'{"a": '), "garbage", True),
        (http("200 OK", b'{"a": NaN}'), "garbage", True),
        (http("200 OK", b'["a"]'), "garbage", True),
        (http("200 OK", json.dumps(CONTEXT).encode()[:20], length=len(json.dumps(CONTEXT))), "half", True),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "half", True),
        (b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps(CONTEXT).encode(), "garbage", True),
        (http("200 OK", length=10**12), "garbage", True),
        (b"", "broken", False),
        (http("500 Internal Server Error", b'{"detail": "x"}'), "500", False),
        (http("401 Unauthorized", b'{"detail": "x"}'), "401", False),
        (http("404 Not Found", b"{}"), "404", False),
        (http("302 Found", b""), "302", False),
        (http("429 Too Many Requests", b"{}"), "429", False),
    ],
)
def test_a_reply_that_is_none_is_not_printed_and_what_was_said_is_spooled(
    hook: Hook, listening: Listening, reply: bytes, why: str, sick: bool
) -> None:
    listening(answers(reply))
    assert hook(PROMPT).out == b""
    assert (hook.why, hook.spooled) == (f"{why} spooled", [PROMPT])
    assert bool(rest.until(os.fsencode(hook.home))) is sick


def test_somebody_who_hangs_up_before_reading_may_still_have_said_why(hook: Hook, listening: Listening) -> None:
    listening(answers(http("413 Content Too Large", b"{}")), reads=False)
    big = {**PROMPT, "prompt": "x" * 5_000_000}
    hook(big)
    assert hook.why in ("413 spooled", "broken spooled")
    assert hook.spooled == [big]


@pytest.mark.parametrize(
    "url", ["http://", "ftp://127.0.0.1", "nonsense", "http://127.0.0.1:port", "http://..:1", "unix:///none"]
)
def test_an_address_that_is_none_is_nobodys(hook: Hook, url: str) -> None:
    hook.finds(url)
    hook(STOP)
    assert hook.spooled == [STOP]
    assert hook.rung == "spooled"


# ── resting ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rests_grow_longer_and_the_first_answer_ends_them(hook: Hook, listening: Listening) -> None:
    home = os.fsencode(hook.home)
    lengths = []
    for _ in range(6):
        rest.begin(home)
        lengths.append(round(rest.until(home) - time.time(), -1))
    assert lengths == [30, 60, 120, 240, 300, 300]
    (hook.home / "hook.rest").write_text(f"{time.time() - 1:.0f} 6\n")
    listening(tells())
    assert hook(PROMPT).told == CONTEXT
    assert not (hook.home / "hook.rest").exists()


def test_a_service_that_has_started_since_is_asked_at_once(hook: Hook, listening: Listening) -> None:
    listening(tells())
    rest.begin(os.fsencode(hook.home))
    assert hook(PROMPT).out == b""
    assert hook.why == "resting spooled"
    hook.started(-1)
    assert hook(PROMPT).told == CONTEXT


def test_a_service_that_has_only_just_started_may_be_slow(hook: Hook, listening: Listening) -> None:
    listening(hangs)
    hook.started(5)
    hook(PROMPT)
    assert hook.why == "timeout spooled"
    assert not (hook.home / "hook.rest").exists()


@pytest.mark.parametrize("content", ["", "soon", "99999999999 1", "-5 x", "\x00"])
def test_a_rest_that_cannot_be_meant_is_none(hook: Hook, listening: Listening, content: str) -> None:
    listening(tells())
    (hook.home / "hook.rest").write_text(content)
    assert hook(PROMPT).told == CONTEXT


def test_a_wait_that_was_cut_short_says_nothing_about_the_service(hook: Hook, listening: Listening) -> None:
    listening(hangs)
    hook(PROMPT, env={"COFIO_HOOK_RECALL_MS": "60"})
    assert PROMPT in hook.spooled
    assert not (hook.home / "hook.rest").exists()


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
        (json.dumps(STOP).encode()[:-3], "down broken"),
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


@pytest.mark.parametrize("arguments", [("emacs",), ("--help",), ("Claude-Code", "query"), ("-h", "x", "y", "z")])
def test_an_unknown_client_is_skipped(hook: Hook, arguments: tuple[str, ...]) -> None:
    assert hook(PROMPT, *arguments).out == b""
    assert (hook.rung, hook.why, hook.spooled) == ("skipped", "client", [])


@pytest.mark.parametrize(
    "event",
    [
        {**PROMPT, "agent_id": "a1", "agent_type": "Explore"},
        {**STOP, "agent_id": ""},
        {**said("afterAgentResponse"), "cursor_version": "3", "is_background_agent": True},
    ],
)
def test_what_happens_in_a_subagent_is_not_kept(hook: Hook, event: Any) -> None:
    assert hook(event).out == b""
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


def driven(folder: Path, *lines: str) -> Path:
    """A script that does this and then runs the hook: some things happen on bad days alone."""
    path = folder / "driven.py"
    run = "import sys; from cofio.hooks import entry; entry.main(sys.argv[1:])"
    path.write_text("\n".join((*lines, run)))
    return path


# ── the home ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_switched_off_it_does_nothing(hook: Hook, listening: Listening) -> None:
    service = listening(tells())
    for off in ("off", "0", "OFF"):
        assert hook(PROMPT, env={"COFIO_HOOKS": off}).out == b""
    assert (service.requests, hook.log, hook.spooled) == ([], [], [])


def test_without_home_the_user_database_tells_or_nothing_is_done(hook: Hook, tmp_path: Path) -> None:
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
