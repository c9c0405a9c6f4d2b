"""Requests to the service, and late, wrong or missing replies; captured text is never lost.

Every run is a new process, and `check_result` in conftest checks exit code, duration and output.
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
    drip,
    hang,
    http,
    make_event,
    reply_with,
    reply_with_context,
    unused_url,
)

Listening = Callable[..., Listener]
CAPTURED = [PROMPT, STOP, make_event("StopFailure", error="rate_limit"), make_event("PreCompact", trigger="auto"), END]
CAPTURED += [make_event("PostCompact", trigger="auto", compact_summary="We added retries.")]


def run_in_time(hook: Hook, event: Any, limit: float = RECALL) -> bytes:
    """Run a hook, repeatedly if the deadline passed before the request was sent, as happens on a loaded machine."""
    for _ in range(20):
        out = hook(event, limit=limit).out
        if not hook.why.startswith("deadline"):
            break
        (hook.home / "hook.rest").unlink(missing_ok=True)
        for waiting in spool.waiting_files(hook.home):
            waiting.unlink()
    return out


# ── healthy service ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_event_is_forwarded_unchanged_and_the_reply_printed(hook: Hook, listen: Listening) -> None:
    service = listen(reply_with_context())
    raw = json.dumps(PROMPT, indent=3).encode() + b"\n"
    assert hook(raw, env={"COFIO_PROJECT": "the shop/ü"}).reply == CONTEXT
    ((head, body),) = service.requests
    assert body == raw
    assert head.startswith("POST /hooks/claude-code HTTP/1.1\r\n")
    assert {"X-Cofio-Client: hook", "X-Cofio-Project: the%20shop/%C3%BC", "Connection: close"} <= set(
        head.split("\r\n")
    )
    assert "X-API-Key" not in head
    assert (hook.rung, hook.why, hook.spooled) == ("service", "", [])


def test_reply_is_printed_byte_for_byte(hook: Hook, listen: Listening) -> None:
    context = "<cofio-memory>\\nGröße — 大 \\n</cofio-memory>"
    reply = f'{{"hookSpecificOutput":  {{"hookEventName": "UserPromptSubmit", "additionalContext": "{context}"}}}}'
    body = reply.encode()
    listen(reply_with(http("200 OK", body)))
    assert hook(PROMPT).out == body


def test_no_content_prints_nothing(hook: Hook, listen: Listening) -> None:
    listen(reply_with(b"HTTP/1.1 204 No Content\r\n\r\n"))
    assert hook(PROMPT).out == b""
    assert (hook.rung, hook.spooled) == ("service", [])


@pytest.mark.parametrize(
    "event",
    [STOP, END, make_event("PreCompact"), make_event("PostCompact", compact_summary="x"), make_event("Notification")],
    ids=lambda each: str(each["hook_event_name"]),
)
def test_replies_to_capture_events_are_not_printed(hook: Hook, listen: Listening, event: Any) -> None:
    listen(reply_with_context())
    assert hook(event).out == b""
    assert (hook.rung, hook.spooled) == ("service", [])


def test_key_is_sent_to_its_service_only(hook: Hook, listen: Listening) -> None:
    ours, other = listen(reply_with_context()), listen(reply_with_context())
    hook.set_endpoint(ours.url, key="secret")
    hook(PROMPT)
    hook(PROMPT, env={"COFIO_URL": other.url})
    hook(PROMPT, env={"FAISS_URL": other.url + "/", "FAISS_API_KEY": "theirs"})
    assert "X-API-Key: secret" in ours.requests[0][0]
    assert ["X-API-Key: theirs" in head for head, _ in other.requests] == [False, True]
    assert not any("secret" in head for head, _ in other.requests)


def test_notification_is_read_from_the_last_argument(hook: Hook, listen: Listening) -> None:
    service = listen(reply_with(http("204 No Content")))
    text = json.dumps({"type": "agent-turn-complete", "thread-id": "t", "last-assistant-message": 'a "b" ü'})
    hook(b"", "codex", "notify", text)
    assert service.requests[0][1] == text.encode()
    assert hook.log[-1]["event"] == "notify"


def test_ipv6_and_unix_socket_services_are_supported(hook: Hook, tmp_path: Path) -> None:
    created = []
    with socket.socket(socket.AF_UNIX) as server:
        short = os.path.relpath(tmp_path / "s")  # socket paths have a length limit
        server.bind(short)
        server.listen()
        created.append((server, f"unix://{tmp_path / 's'}"))
        if socket.has_ipv6:
            six = socket.create_server(("::1", 0), family=socket.AF_INET6)
            created.append((six, f"http://[::1]:{six.getsockname()[1]}"))
        for listener, url in created:
            hook.set_endpoint(url)
            with subprocess.Popen(
                hook.command("claude-code"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=hook.environment()
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


def test_https_service_is_used_and_untrusted_certificate_rejected(
    hook: Hook, tmp_path: Path, listen: Listening
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

    service = listen(behind, reads=False)
    env = {"COFIO_URL": service.url.replace("http:", "https:"), "COFIO_HOOK_RECALL_TIMEOUT_MS": "5000"}
    assert hook(PROMPT, env={**env, "SSL_CERT_FILE": str(certificate)}).reply == CONTEXT
    assert hook(PROMPT, env=env).out == b""
    assert (hook.why, hook.spooled) == ("broken spooled", [PROMPT])


# ── unhealthy service ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("event", CAPTURED, ids=lambda each: str(each["hook_event_name"]))
@pytest.mark.parametrize("known", [False, True], ids=["ended", "crashed"])
def test_event_is_spooled_when_the_service_is_down(hook: Hook, event: Any, known: bool) -> None:
    if known:
        hook.set_endpoint(unused_url())
    assert hook(event, limit=RECALL if event is PROMPT else CAPTURE).out == b""
    assert hook.spooled == [event]
    assert hook.log[-1]["rung"] == ("nothing" if event is PROMPT else "spooled")
    assert hook.why == ("refused" if known else "down") + (" spooled" if event is PROMPT else "")
    assert not (hook.home / "hook.rest").exists()  # a refused connection is fast


def test_spool_entry_has_client_project_event_and_time(hook: Hook) -> None:
    hook(make_event("Stop", cwd="/somewhere/else", last_assistant_message="x"), "codex")
    (entry,) = spool.entries(hook.home)
    assert (entry.client, entry.project, entry.event) == ("codex", "/somewhere/else", "Stop")
    assert time.strftime("%Y-%m-%d", time.gmtime()) in (
        entry.at[:10],
        time.strftime("%Y-%m-%d", time.gmtime(time.time() - 60)),
    )


@pytest.mark.parametrize("reads", [True, False], ids=["silent", "deaf"])
def test_hanging_service_costs_one_deadline_and_is_then_skipped(hook: Hook, listen: Listening, reads: bool) -> None:
    service = listen(hang, reads=reads)
    assert run_in_time(hook, PROMPT) == b""
    assert (hook.rung, hook.why, hook.spooled) == ("nothing", "timeout spooled", [PROMPT])
    assert 0 < circuit_breaker.until(os.fsencode(hook.home)) - time.time() <= circuit_breaker.FIRST
    request = len(service.requests)
    assert hook(STOP).out == b""
    assert (hook.rung, hook.why, len(service.requests)) == ("spooled", "resting", request)
    assert hook.spooled == [PROMPT, STOP]


def test_hanging_service_does_not_delay_captures(hook: Hook, listen: Listening) -> None:
    listen(hang)
    run_in_time(hook, END, CAPTURE)
    assert (hook.rung, hook.why, hook.spooled) == ("spooled", "timeout", [END])
    assert not (hook.home / "hook.rest").exists()  # so short a wait may be the machine's fault


def test_dripping_service_is_treated_as_hanging(hook: Hook, listen: Listening) -> None:
    listen(drip)
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
def test_invalid_reply_is_not_printed_and_the_event_spooled(
    hook: Hook, listen: Listening, reply: bytes, why: str, sick: bool
) -> None:
    listen(reply_with(reply))
    assert hook(PROMPT).out == b""
    assert (hook.why, hook.spooled) == (f"{why} spooled", [PROMPT])
    assert bool(circuit_breaker.until(os.fsencode(hook.home))) is sick


def test_early_error_reply_is_recognized(hook: Hook, listen: Listening) -> None:
    listen(reply_with(http("413 Content Too Large", b"{}")), reads=False)
    big = {**PROMPT, "prompt": "x" * 5_000_000}
    hook(big)
    assert hook.why in ("413 spooled", "broken spooled")
    assert hook.spooled == [big]


@pytest.mark.parametrize(
    "url", ["http://", "ftp://127.0.0.1", "nonsense", "http://127.0.0.1:port", "http://..:1", "unix:///none"]
)
def test_invalid_service_url_is_ignored(hook: Hook, url: str) -> None:
    hook.set_endpoint(url)
    hook(STOP)
    assert hook.spooled == [STOP]
    assert hook.rung == "spooled"


# ── circuit breaker ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_pauses_grow_and_end_with_the_first_reply(hook: Hook, listen: Listening) -> None:
    home = os.fsencode(hook.home)
    lengths = []
    for _ in range(6):
        circuit_breaker.begin(home)
        lengths.append(round(circuit_breaker.until(home) - time.time(), -1))
        end_pause(hook)
    assert lengths == [30, 60, 120, 240, 300, 300]
    listen(reply_with_context())
    assert hook(PROMPT).reply == CONTEXT
    assert not (hook.home / "hook.rest").exists()


def end_pause(hook: Hook) -> None:
    path = hook.home / "hook.rest"
    failures = path.read_text().split()[1]
    path.write_text(f"{time.time() - 1:.0f} {failures}\n")


def test_concurrent_timeouts_count_as_one_failure(hook: Hook, listen: Listening) -> None:
    listen(hang)
    running = [
        subprocess.Popen(hook.command("claude-code"), stdin=subprocess.PIPE, env=hook.environment()) for _ in range(5)
    ]
    for item in running:
        assert item.stdin
        item.stdin.write(json.dumps(PROMPT).encode())
        item.stdin.close()
    assert [item.wait(20) for item in running] == [0] * 5
    assert (hook.home / "hook.rest").read_text().split()[1] == "1"
    assert circuit_breaker.until(os.fsencode(hook.home)) - time.time() <= circuit_breaker.FIRST


def test_newly_started_service_is_tried_at_once(hook: Hook, listen: Listening) -> None:
    listen(reply_with_context())
    circuit_breaker.begin(os.fsencode(hook.home))
    assert hook(PROMPT).out == b""
    assert hook.why == "resting spooled"
    hook.set_service_age(-1)
    assert hook(PROMPT).reply == CONTEXT


def test_newly_started_service_may_be_slow(hook: Hook, listen: Listening) -> None:
    listen(hang)
    hook.set_service_age(5)
    run_in_time(hook, PROMPT)
    assert hook.why == "timeout spooled"
    assert not (hook.home / "hook.rest").exists()


@pytest.mark.parametrize("content", ["", "soon", "99999999999 1", "-5 x", "\x00"])
def test_invalid_pause_file_is_ignored(hook: Hook, listen: Listening, content: str) -> None:
    listen(reply_with_context())
    (hook.home / "hook.rest").write_text(content)
    assert hook(PROMPT).reply == CONTEXT


def test_shortened_deadline_does_not_open_the_circuit(hook: Hook, listen: Listening) -> None:
    listen(hang)
    hook(PROMPT, env={"COFIO_HOOK_RECALL_TIMEOUT_MS": "60"})
    assert PROMPT in hook.spooled
    assert not (hook.home / "hook.rest").exists()
