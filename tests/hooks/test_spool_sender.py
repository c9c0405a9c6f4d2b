"""What waits in the spool goes to a service that is elsewhere, once it answers; one of this home takes it in itself."""

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
    answers,
    hangs,
    http,
    said,
    tells,
    unused_url,
)

Listening = Callable[..., Listener]
AT = "2026-11-15T10:00:00.123Z"
TAKEN = answers(http("204 No Content"))


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert happened()


def put(hook: Hook, *texts: str) -> list[bytes]:
    raws = [json.dumps({**PROMPT, "prompt": text}).encode() for text in texts]
    for raw in raws:
        spool.store_delivery(hook.home, "claude-code", raw, at=AT, project="/the shop", event="UserPromptSubmit")
    return raws


def names(hook: Hook) -> list[str]:
    """What somebody said and nobody took."""
    return [json.loads(entry.raw)["prompt"] for entry in spool.entries(hook.home)]


def is_elsewhere(hook: Hook, url: str, key: str = "") -> None:
    """As `cofio install` says it of a service that is not of this home."""
    (hook.home / "hook.at").write_text(f"{url}\n{key}\n800 300\n\n")


def drain(hook: Hook, **env: str) -> None:
    subprocess.run(hook.command("--drain"), env=hook.around(env), timeout=60, check=True, stdin=subprocess.DEVNULL)


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Does each of these in turn, and the last of them from then on."""
    left = list(behaviours)

    def behave(connection: socket.socket) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(connection)

    return behave


@pytest.fixture
def elsewhere(hook: Hook, listening: Listening) -> Listening:
    """Makes a listener that the hook finds elsewhere."""

    def make(behaviour: Behaviour) -> Listener:
        service = listening(behaviour)
        is_elsewhere(hook, service.url, "secret")
        return service

    return make


# ── who starts it ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("told", [START, STOP], ids=lambda each: str(each["hook_event_name"]))
def test_what_waited_is_delivered_once_the_service_elsewhere_answers(
    hook: Hook, elsewhere: Listening, told: dict[str, object]
) -> None:
    is_elsewhere(hook, unused_url())
    hook(PROMPT)
    hook(said("Stop", last_assistant_message="Fly.io"))
    (prompt, _) = spool.entries(hook.home)
    service = elsewhere(TAKEN)
    hook(told)
    wait_for(lambda: not names_of_files(hook))
    assert [json.loads(body) for _, body in service.requests] == [
        told,
        PROMPT,
        said("Stop", last_assistant_message="Fly.io"),
    ]
    head = service.requests[1][0].split("\r\n")
    assert head[0] == "POST /hooks/claude-code HTTP/1.1"
    assert {"X-API-Key: secret", "X-Cofio-Client: hook", "X-Cofio-Project: ", f"X-Cofio-At: {prompt.at}"} <= set(head)
    assert "X-Cofio-At" not in service.requests[0][0]


def names_of_files(hook: Hook) -> list[str]:
    return [path.name for path in (hook.home / "spool").iterdir() if path.is_file()]


def test_a_service_that_a_variable_or_the_config_names_is_elsewhere_too(hook: Hook, listening: Listening) -> None:
    service = listening(TAKEN)
    (hook.home / "hook.at").unlink()
    put(hook, "one")
    hook(START, env={"COFIO_URL": service.url, "COFIO_API_KEY": "theirs"})
    wait_for(lambda: len(service.requests) == 2)
    (hook.home / "config.toml").write_text(f'url = "{service.url}"\napi_key = "written"\n')
    (hook.home / "hook.drain").unlink()
    wait_for(lambda: not names_of_files(hook))
    put(hook, "two")
    hook(START)
    wait_for(lambda: len(service.requests) == 4)
    keys = [line for head, _ in service.requests for line in head.split("\r\n") if line.startswith("X-API-Key")]
    assert keys == ["X-API-Key: theirs"] * 2 + ["X-API-Key: written"] * 2


def test_a_service_of_this_home_is_left_to_take_in_its_spool(hook: Hook, listening: Listening) -> None:
    service = listening(TAKEN)
    put(hook, "one")
    same = service.url.replace("127.0.0.1", "localhost")
    for env in ({}, {"COFIO_URL": service.url + "/"}, {"COFIO_URL": same}, {"COFIO_URL": listening(TAKEN).url}):
        hook.finds(service.url)
        hook(START, env=env)
        drain(hook, **env)
    assert not (hook.home / "hook.drain").exists()
    assert names(hook) == ["one"]


def test_it_is_not_started_at_a_prompt_nor_for_nothing_nor_without_an_answer(hook: Hook, elsewhere: Listening) -> None:
    elsewhere(tells())
    hook(START)
    put(hook, "one")
    hook(PROMPT)
    is_elsewhere(hook, unused_url())
    hook(START)
    assert not (hook.home / "hook.drain").exists()


def test_it_is_started_once_in_a_while(hook: Hook, elsewhere: Listening) -> None:
    service = elsewhere(TAKEN)
    put(hook, "one")
    hook(START)
    wait_for(lambda: not names_of_files(hook))
    put(hook, "two")
    hook(START)
    time.sleep(0.3)
    assert names(hook) == ["two"]
    before = time.time() - detached_process.EVERY - 1
    os.utime(hook.home / "hook.drain", (before, before))
    hook(START)
    wait_for(lambda: not names_of_files(hook))
    assert len(service.requests) == 5


def test_the_client_does_not_wait_for_it(hook: Hook, elsewhere: Listening) -> None:
    """Neither for its end nor for its pipes: the first delivery hangs."""
    service = elsewhere(in_turn(TAKEN, hangs))
    put(hook, "one")
    hook(START)  # its output is read to the end
    wait_for(lambda: len(service.requests) == 2)
    assert names(hook) == ["one"]


# ── what it does ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_deliveries_go_as_they_came_and_oldest_first(hook: Hook, elsewhere: Listening) -> None:
    service = elsewhere(TAKEN)
    raws = put(hook, "one", "two\n", "three ü")
    drain(hook)
    assert [body for _, body in service.requests] == raws
    assert f"X-Cofio-At: {AT}" in service.requests[0][0]
    assert "X-Cofio-Project: /the%20shop" in service.requests[0][0]
    assert names(hook) == []


@pytest.mark.parametrize("status", ["400 Bad Request", "413 Content Too Large"])
def test_what_is_refused_for_good_is_set_aside(hook: Hook, elsewhere: Listening, status: str) -> None:
    elsewhere(in_turn(answers(http(status, b"{}")), TAKEN))
    put(hook, "one", "two")
    drain(hook)
    assert (names(hook), spool.count_bad(hook.home)) == ([], 1)


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
def test_anything_else_stops_it_and_nothing_is_lost(hook: Hook, elsewhere: Listening, reply: bytes) -> None:
    service = elsewhere(in_turn(TAKEN, answers(reply)))
    put(hook, "one", "two", "three")
    drain(hook)
    assert len(service.requests) == 2
    assert (names(hook), spool.count_bad(hook.home)) == (["two", "three"], 0)


def test_a_client_that_nobody_knows_does_not_block_the_others(hook: Hook, elsewhere: Listening) -> None:
    elsewhere(TAKEN)
    spool.store_delivery(hook.home, "../x", b"{}", at=AT, project="", event="")
    put(hook, "one")
    drain(hook)
    assert (names(hook), spool.count_bad(hook.home)) == ([], 1)


def test_one_drains_at_a_time(hook: Hook, elsewhere: Listening) -> None:
    service = elsewhere(TAKEN)
    put(hook, "one")
    with (hook.home / "hook.draining").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        drain(hook)
        assert service.requests == []
    drain(hook)
    assert len(service.requests) == 1


def test_a_service_that_rests_is_left_alone(hook: Hook, elsewhere: Listening) -> None:
    service = elsewhere(TAKEN)
    hook.started(60)
    put(hook, "one")
    circuit_breaker.begin(os.fsencode(hook.home))
    drain(hook)
    assert (service.requests, names(hook)) == ([], ["one"])


def test_the_key_is_in_no_argument_of_the_process_that_is_started(
    hook: Hook, elsewhere: Listening, tmp_path: Path
) -> None:
    elsewhere(TAKEN)
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
    hook.run(command, json.dumps(START).encode(), env=hook.around())
    wait_for(log.exists)
    arguments, key, leads = json.loads(log.read_text())
    assert (arguments[:2], arguments[-3:]) == (["-I", "-S"], ["--home", str(hook.home), "--drain"])
    assert (key, leads) == ("secret", True)
