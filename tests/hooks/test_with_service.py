"""The hook with the real service: recall, capture and the spool."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.hooks import launcher, spool
from cofio.models.memory import Fact
from cofio.server import daemon
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.cli.conftest import running_service
from tests.hooks.conftest import END, PROMPT, STOP, Hook, make_event

FACT = "The web shop is deployed with Fly.io"
QUESTION = "Where is the web shop deployed, with Fly.io?"


@pytest.fixture
def keeper(hook: Hook) -> Iterator[Keeper]:
    hook.env["COFIO_HOOK_RECALL_TIMEOUT_MS"] = "5000"  # for loaded machines
    clock = FixedClock()
    with Keeper(SqliteStore(hook.home / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        keeper.add(Fact(text=FACT, kind="decision", project="/srv/web"))
        yield keeper


@pytest.fixture
def service(hook: Hook, keeper: Keeper) -> Iterator[str]:
    settings = Settings.load({"home": str(hook.home), "port": 0}, environ={})
    with running_service(keeper, settings) as url:
        hook.set_endpoint(url)
        yield url


def context(result: Any) -> str:
    return str(result.reply["hookSpecificOutput"]["additionalContext"]) if result.reply else ""


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_session_start_injects_project_memories(hook: Hook, service: str) -> None:
    start = make_event("SessionStart", source="startup", cwd="/srv/web")
    assert FACT in context(hook(start))
    assert (hook.rung, hook.log[-1]["event"]) == ("service", "SessionStart")
    assert context(hook({**start, "cwd": "/srv/other", "session_id": "s2"})) == ""


def test_prompt_is_answered_and_captured_with_its_reply(hook: Hook, service: str, keeper: Keeper) -> None:
    prompt = make_event("UserPromptSubmit", prompt=QUESTION, cwd="/srv/web")
    assert FACT in context(hook(prompt))
    assert context(hook({**prompt, "prompt_id": "p2"})) == ""  # each memory once per session
    assert hook({**STOP, "prompt_id": "p2", "cwd": "/srv/web"}).out == b""
    assert keeper.turns("claude-code", "s1") == {"p1", "p2"}
    assert {run["rung"] for run in hook.log} == {"service"}
    assert hook.spooled == []


def test_events_during_an_outage_are_captured_once(hook: Hook, keeper: Keeper) -> None:
    for event in (PROMPT, STOP, PROMPT, END):
        hook({**event, "transcript_path": ""})
    (hook.home / "spool" / "00000000000000000001-1-aa.hook").write_bytes(b"corrupt")
    settings = Settings.load({"home": str(hook.home), "port": 0}, environ={})
    with running_service(keeper, settings) as url:
        hook.set_endpoint(url)
        assert wait_for(lambda: not spool.waiting_files(hook.home))
    assert keeper.turns("claude-code", "s1") == {"p1"}
    assert len(keeper.items()) == 1
    assert spool.count_bad(hook.home) == 1


def test_invalid_event_is_rejected_and_not_kept(hook: Hook, service: str) -> None:
    assert hook(b'{"hook_event_name": "Stop", ').out == b""
    assert (hook.rung, hook.why, hook.spooled) == ("skipped", "400 broken aside", [])
    assert hook(make_event("SomethingNew")).out == b""
    assert hook.rung == "service"


def test_wrong_key_is_logged_and_no_event_is_lost(hook: Hook, keeper: Keeper) -> None:
    settings = Settings.load({"home": str(hook.home), "port": 0, "api_key": "secret"}, environ={})
    with running_service(keeper, settings) as url:
        hook.set_endpoint(url, key="wrong")
        hook(STOP)
        assert (hook.rung, hook.why) == ("spooled", "401")
        hook.set_endpoint(url, key="secret")
        hook(STOP)
        assert hook.rung == "service"


def test_frozen_service_costs_one_deadline_and_recovers(hook: Hook, tmp_path: Path) -> None:
    """Uses real processes: `cofio serve` is stopped, continued and called again."""
    command = [sys.executable, "-m", "cofio", "--home", str(hook.home), "serve", "--port", "0", "--json"]
    env = {**os.environ, "COFIO_HOME": str(hook.home), "COFIO_MODEL_DOWNLOAD": "false", "COFIO_LOG_LEVEL": "error"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as serving:
        try:
            assert serving.stdout
            url = json.loads(serving.stdout.readline())["url"]
            assert wait_for((hook.home / "hook").exists)
            key = (hook.home / "service.key").read_text()
            assert (hook.home / "hook.at").read_text().startswith(f"{url}\n{key}800 300\n{hook.home}/cofio.db\n")
            run = [str(hook.home / launcher.NAME), "claude-code"]
            patient = {"HOME": str(tmp_path), "COFIO_HOOK_CAPTURE_TIMEOUT_MS": "5000"}  # it is loading its model
            hook.run(run, json.dumps(STOP).encode(), env=patient, limit=5)
            assert hook.rung == "service"
            hook.set_service_age(60)
            serving.send_signal(signal.SIGSTOP)
            frozen = {
                "HOME": str(tmp_path),
                "COFIO_HOOK_RECALL_TIMEOUT_MS": "3000",
            }  # long enough for a loaded machine to send the request
            for _ in range(20):
                hook.run(run, json.dumps({**PROMPT, "prompt_id": "p2"}).encode(), env=frozen, limit=5)
                if not hook.why.startswith("deadline"):  # the deadline passed before the request was sent
                    break
                (hook.home / "hook.rest").unlink(missing_ok=True)
            assert (hook.rung, hook.why) == ("nothing", "timeout spooled")
            serving.send_signal(signal.SIGCONT)
            hook.run(run, json.dumps({**STOP, "prompt_id": "p2"}).encode(), env={"HOME": str(tmp_path)})
            assert hook.why == "resting"
            assert wait_for(lambda: not spool.waiting_files(hook.home))  # the service reads the spool by itself
        finally:
            serving.send_signal(signal.SIGCONT)
            serving.terminate()
            serving.wait(30)
    assert not (hook.home / "hook.at").exists()
    assert daemon.find(Settings.load({"home": str(hook.home)}, environ={})) is None
