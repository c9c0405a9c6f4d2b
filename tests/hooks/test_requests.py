"""What is asked of the service, and what happens when its answer is late, wrong, or none; nothing said is lost.

Every run is a process of its own, and `checked` in conftest holds for each: 0, in time, valid JSON or nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cofio.hooks import circuit_breaker, spool
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
    drips,
    hangs,
    http,
    said,
    tells,
    unused_url,
)

Listening = Callable[..., Listener]
CAPTURED = [PROMPT, STOP, said("StopFailure", error="rate_limit"), said("PreCompact", trigger="auto"), END]
CAPTURED += [said("PostCompact", trigger="auto", compact_summary="We added retries.")]


def run_in_time(hook: Hook, event: Any, limit: float = RECALL) -> bytes:
    """Run a hook until one attempt was not out of time before it had asked, as happens on a busy machine."""
    for _ in range(20):
        out = hook(event, limit=limit).out
        if not hook.why.startswith("deadline"):
            break
        (hook.home / "hook.rest").unlink(missing_ok=True)
        for waiting in spool.waiting_files(hook.home):
            waiting.unlink()
    return out


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
    "event",
    [STOP, END, said("PreCompact"), said("PostCompact", compact_summary="x"), said("Notification")],
    ids=lambda each: str(each["hook_event_name"]),
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
                listener.settimeout(20)
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
    around = {"COFIO_URL": service.url.replace("http:", "https:"), "COFIO_HOOK_RECALL_TIMEOUT_MS": "5000"}
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
    assert run_in_time(hook, PROMPT) == b""
    assert (hook.rung, hook.why, hook.spooled) == ("nothing", "timeout spooled", [PROMPT])
    assert 0 < circuit_breaker.until(os.fsencode(hook.home)) - time.time() <= circuit_breaker.FIRST
    asked = len(service.requests)
    assert hook(STOP).out == b""
    assert (hook.rung, hook.why, len(service.requests)) == ("spooled", "resting", asked)
    assert hook.spooled == [PROMPT, STOP]


def test_a_hung_service_does_not_hold_up_a_capture(hook: Hook, listening: Listening) -> None:
    listening(hangs)
    run_in_time(hook, END, CAPTURE)
    assert (hook.rung, hook.why, hook.spooled) == ("spooled", "timeout", [END])
    assert not (hook.home / "hook.rest").exists()  # so short a wait may be the machine's fault


def test_a_service_that_drips_is_taken_for_hung(hook: Hook, listening: Listening) -> None:
    listening(drips)
    assert run_in_time(hook, PROMPT) == b""
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
    assert bool(circuit_breaker.until(os.fsencode(hook.home))) is sick


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
        circuit_breaker.begin(home)
        lengths.append(round(circuit_breaker.until(home) - time.time(), -1))
        rest_is_over(hook)
    assert lengths == [30, 60, 120, 240, 300, 300]
    listening(tells())
    assert hook(PROMPT).told == CONTEXT
    assert not (hook.home / "hook.rest").exists()


def rest_is_over(hook: Hook) -> None:
    path = hook.home / "hook.rest"
    failures = path.read_text().split()[1]
    path.write_text(f"{time.time() - 1:.0f} {failures}\n")


def test_hooks_that_wait_together_for_a_hung_service_count_as_one_failure(hook: Hook, listening: Listening) -> None:
    listening(hangs)
    running = [
        subprocess.Popen(hook.command("claude-code"), stdin=subprocess.PIPE, env=hook.around()) for _ in range(5)
    ]
    for each in running:
        assert each.stdin
        each.stdin.write(json.dumps(PROMPT).encode())
        each.stdin.close()
    assert [each.wait(20) for each in running] == [0] * 5
    assert (hook.home / "hook.rest").read_text().split()[1] == "1"
    assert circuit_breaker.until(os.fsencode(hook.home)) - time.time() <= circuit_breaker.FIRST


def test_a_service_that_has_started_since_is_asked_at_once(hook: Hook, listening: Listening) -> None:
    listening(tells())
    circuit_breaker.begin(os.fsencode(hook.home))
    assert hook(PROMPT).out == b""
    assert hook.why == "resting spooled"
    hook.started(-1)
    assert hook(PROMPT).told == CONTEXT


def test_a_service_that_has_only_just_started_may_be_slow(hook: Hook, listening: Listening) -> None:
    listening(hangs)
    hook.started(5)
    run_in_time(hook, PROMPT)
    assert hook.why == "timeout spooled"
    assert not (hook.home / "hook.rest").exists()


@pytest.mark.parametrize("content", ["", "soon", "99999999999 1", "-5 x", "\x00"])
def test_a_rest_that_cannot_be_meant_is_none(hook: Hook, listening: Listening, content: str) -> None:
    listening(tells())
    (hook.home / "hook.rest").write_text(content)
    assert hook(PROMPT).told == CONTEXT


def test_a_wait_that_was_cut_short_says_nothing_about_the_service(hook: Hook, listening: Listening) -> None:
    listening(hangs)
    hook(PROMPT, env={"COFIO_HOOK_RECALL_TIMEOUT_MS": "60"})
    assert PROMPT in hook.spooled
    assert not (hook.home / "hook.rest").exists()
