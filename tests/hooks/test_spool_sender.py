"""The spool sender: deliveries for a remote service are sent once it responds. A local service reads its own spool."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cofio.hooks import circuit_breaker, detached_process, spool
from tests.hooks.conftest import (
    PROMPT,
    START,
    STOP,
    Behaviour,
    Hook,
    Listener,
    hang,
    http,
    make_event,
    reply_with,
    reply_with_context,
    unused_url,
)

Listening = Callable[..., Listener]
AT = "2026-11-15T10:00:00.123Z"
ACCEPT = reply_with(http("204 No Content"))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def put(hook: Hook, *texts: str) -> list[bytes]:
    raws = [json.dumps({**PROMPT, "prompt": text}).encode() for text in texts]
    for raw in raws:
        spool.store_delivery(hook.home, "claude-code", raw, at=AT, project="/the shop", event="UserPromptSubmit")
    return raws


def spooled_prompts(hook: Hook) -> list[str]:
    """Return the prompts in the spool."""
    return [json.loads(entry.raw)["prompt"] for entry in spool.entries(hook.home)]


def set_remote_endpoint(hook: Hook, url: str, key: str = "") -> None:
    """Write an endpoint file as `cofio install` does for a remote service."""
    (hook.home / "hook.at").write_text(f"{url}\n{key}\n800 300\n\n")


def drain(hook: Hook, **env: str) -> None:
    subprocess.run(hook.command("--drain"), env=hook.environment(env), timeout=60, check=True, stdin=subprocess.DEVNULL)


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Follow each behaviour in turn, then repeat the last one."""
    left = list(behaviours)

    def behave(connection: socket.socket) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(connection)

    return behave


@pytest.fixture
def listen_remotely(hook: Hook, listen: Listening) -> Listening:
    """Return a function that starts a listener as a remote endpoint."""

    def make(behaviour: Behaviour) -> Listener:
        service = listen(behaviour)
        set_remote_endpoint(hook, service.url, "secret")
        return service

    return make


# ── starting the sender ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("event", [START, STOP], ids=lambda event: str(event["hook_event_name"]))
def test_spooled_events_are_delivered_when_the_remote_service_responds(
    hook: Hook, listen_remotely: Listening, event: dict[str, object]
) -> None:
    set_remote_endpoint(hook, unused_url())
    hook(PROMPT)
    hook(make_event("Stop", last_assistant_message="Fly.io"))
    (prompt, _) = spool.entries(hook.home)
    service = listen_remotely(ACCEPT)
    hook(event)
    wait_for(lambda: not spooled_files(hook))
    assert [json.loads(body) for _, body in service.requests] == [
        event,
        PROMPT,
        make_event("Stop", last_assistant_message="Fly.io"),
    ]
    head = service.requests[1][0].split("\r\n")
    assert head[0] == "POST /hooks/claude-code HTTP/1.1"
    assert {"X-API-Key: secret", "X-Cofio-Client: hook", "X-Cofio-Project: ", f"X-Cofio-At: {prompt.at}"} <= set(head)
    assert "X-Cofio-At" not in service.requests[0][0]


def spooled_files(hook: Hook) -> list[str]:
    return [path.name for path in (hook.home / "spool").iterdir() if path.is_file()]


def test_service_named_by_variable_or_config_is_remote(hook: Hook, listen: Listening) -> None:
    service = listen(ACCEPT)
    (hook.home / "hook.at").unlink()
    put(hook, "one")
    hook(START, env={"COFIO_URL": service.url, "COFIO_API_KEY": "theirs"})
    wait_for(lambda: len(service.requests) == 2)
    (hook.home / "config.toml").write_text(f'url = "{service.url}"\napi_key = "written"\n')
    (hook.home / "hook.drain").unlink()
    wait_for(lambda: not spooled_files(hook))
    put(hook, "two")
    hook(START)
    wait_for(lambda: len(service.requests) == 4)
    keys = [line for head, _ in service.requests for line in head.split("\r\n") if line.startswith("X-API-Key")]
    assert keys == ["X-API-Key: theirs"] * 2 + ["X-API-Key: written"] * 2


def test_local_service_reads_its_own_spool(hook: Hook, listen: Listening) -> None:
    service = listen(ACCEPT)
    put(hook, "one")
    same = service.url.replace("127.0.0.1", "localhost")
    for env in ({}, {"COFIO_URL": service.url + "/"}, {"COFIO_URL": same}, {"COFIO_URL": listen(ACCEPT).url}):
        hook.set_endpoint(service.url)
        hook(START, env=env)
        drain(hook, **env)
    assert not (hook.home / "hook.drain").exists()
    assert spooled_prompts(hook) == ["one"]


def test_sender_starts_only_for_a_nonempty_spool_after_a_reply(hook: Hook, listen_remotely: Listening) -> None:
    listen_remotely(reply_with_context())
    hook(START)
    put(hook, "one")
    hook(PROMPT)
    set_remote_endpoint(hook, unused_url())
    hook(START)
    assert not (hook.home / "hook.drain").exists()


def test_sender_is_started_once_per_interval(hook: Hook, listen_remotely: Listening) -> None:
    service = listen_remotely(ACCEPT)
    put(hook, "one")
    hook(START)
    wait_for(lambda: not spooled_files(hook))
    put(hook, "two")
    hook(START)
    time.sleep(0.3)
    assert spooled_prompts(hook) == ["two"]
    before = time.time() - detached_process.EVERY - 1
    os.utime(hook.home / "hook.drain", (before, before))
    hook(START)
    wait_for(lambda: not spooled_files(hook))
    assert len(service.requests) == 5


def test_client_does_not_wait_for_the_sender(hook: Hook, listen_remotely: Listening) -> None:
    """Neither for its exit nor for its pipes: the first delivery hangs."""
    service = listen_remotely(in_turn(ACCEPT, hang))
    put(hook, "one")
    hook(START)  # the output is read to its end
    wait_for(lambda: len(service.requests) == 2)
    assert spooled_prompts(hook) == ["one"]


# ── sending ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_deliveries_are_sent_unchanged_oldest_first(hook: Hook, listen_remotely: Listening) -> None:
    service = listen_remotely(ACCEPT)
    raws = put(hook, "one", "two\n", "three ü")
    drain(hook)
    assert [body for _, body in service.requests] == raws
    assert f"X-Cofio-At: {AT}" in service.requests[0][0]
    assert "X-Cofio-Project: /the%20shop" in service.requests[0][0]
    assert spooled_prompts(hook) == []


@pytest.mark.parametrize("status", ["400 Bad Request", "413 Content Too Large"])
def test_permanently_rejected_delivery_is_moved_aside(hook: Hook, listen_remotely: Listening, status: str) -> None:
    listen_remotely(in_turn(reply_with(http(status, b"{}")), ACCEPT))
    put(hook, "one", "two")
    drain(hook)
    assert (spooled_prompts(hook), spool.count_bad(hook.home)) == ([], 1)


@pytest.mark.parametrize(
    "reply",
    [
        http("500 Internal Server Error", b"{}"),
        http("401 Unauthorized", b"{}"),
        http("404 Not Found", b"{}"),
        http("429 Too Many Requests", b"{}"),
        http("503 Service Unavailable", b"{}"),
        b"garbage",
        b"",
    ],
)
def test_other_errors_stop_the_sender_and_lose_nothing(hook: Hook, listen_remotely: Listening, reply: bytes) -> None:
    service = listen_remotely(in_turn(ACCEPT, reply_with(reply)))
    put(hook, "one", "two", "three")
    drain(hook)
    assert len(service.requests) == 2
    assert (spooled_prompts(hook), spool.count_bad(hook.home)) == (["two", "three"], 0)


def test_unknown_client_does_not_block_other_deliveries(hook: Hook, listen_remotely: Listening) -> None:
    listen_remotely(ACCEPT)
    spool.store_delivery(hook.home, "../x", b"{}", at=AT, project="", event="")
    put(hook, "one")
    drain(hook)
    assert (spooled_prompts(hook), spool.count_bad(hook.home)) == ([], 1)


def test_only_one_sender_runs_at_a_time(hook: Hook, listen_remotely: Listening) -> None:
    service = listen_remotely(ACCEPT)
    put(hook, "one")
    with (hook.home / "hook.draining").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        drain(hook)
        assert service.requests == []
    drain(hook)
    assert len(service.requests) == 1


def test_open_circuit_stops_the_sender(hook: Hook, listen_remotely: Listening) -> None:
    service = listen_remotely(ACCEPT)
    hook.set_service_age(60)
    put(hook, "one")
    circuit_breaker.begin(os.fsencode(hook.home))
    drain(hook)
    assert (service.requests, spooled_prompts(hook)) == ([], ["one"])


def test_key_is_not_in_the_arguments_of_the_sender_process(
    hook: Hook, listen_remotely: Listening, tmp_path: Path
) -> None:
    listen_remotely(ACCEPT)
    put(hook, "one")
    recorder, log = tmp_path / "recorder", tmp_path / "started"
    recorder.write_text(
        f"#!{sys.executable} -S\nimport json, os, sys\n"
        "told = [sys.argv[1:], os.environ['COFIO_API_KEY'], os.getsid(0) == os.getpid()]\n"
        f"open({str(log)!r} + '.part', 'w').write(json.dumps(told))\n"
        f"os.rename({str(log)!r} + '.part', {str(log)!r})\n"
    )
    recorder.chmod(0o755)
    script = tmp_path / "driven.py"
    script.write_text(
        f"import sys; sys.executable = {str(recorder)!r}; from cofio.hooks import entry; entry.main(sys.argv[1:])"
    )
    command = [sys.executable, str(script), "--home", str(hook.home), "claude-code"]
    hook.run(command, json.dumps(START).encode(), env=hook.environment())
    wait_for(log.exists)
    arguments, key, leads = json.loads(log.read_text())
    assert (arguments[:2], arguments[-3:]) == (["-I", "-S"], ["--home", str(hook.home), "--drain"])
    assert (key, leads) == ("secret", True)
