"""The hook and the real service together: what is recalled, what is captured, and what becomes of the spool."""

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
from tests.hooks.conftest import END, PROMPT, STOP, Hook, said

FACT = "The web shop is deployed with Fly.io"
ASKS = "Where is the web shop deployed, with Fly.io?"


@pytest.fixture
def keeper(hook: Hook) -> Iterator[Keeper]:
    hook.env["COFIO_HOOK_RECALL_TIMEOUT_MS"] = "5000"  # for busy machines
    clock = FixedClock()
    with Keeper(SqliteStore(hook.home / "cofio.db", clock), HashEmbedder(), clock) as keeper:
        keeper.add(Fact(text=FACT, kind="decision", project="/srv/web"))
        yield keeper


@pytest.fixture
def service(hook: Hook, keeper: Keeper) -> Iterator[str]:
    settings = Settings.load({"home": str(hook.home), "port": 0}, environ={})
    with running_service(keeper, settings) as url:
        hook.finds(url)
        yield url


def context(done: Any) -> str:
    return str(done.told["hookSpecificOutput"]["additionalContext"]) if done.told else ""


def eventually(holds: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


def test_what_is_known_of_the_project_is_put_before_the_agent(hook: Hook, service: str) -> None:
    start = said("SessionStart", source="startup", cwd="/srv/web")
    assert FACT in context(hook(start))
    assert (hook.rung, hook.log[-1]["event"]) == ("service", "SessionStart")
    assert context(hook({**start, "cwd": "/srv/other", "session_id": "s2"})) == ""


def test_a_prompt_is_answered_and_kept_and_its_answer_joins_it(hook: Hook, service: str, keeper: Keeper) -> None:
    prompt = said("UserPromptSubmit", prompt=ASKS, cwd="/srv/web")
    assert FACT in context(hook(prompt))
    assert context(hook({**prompt, "prompt_id": "p2"})) == ""  # each memory once a session
    assert hook({**STOP, "prompt_id": "p2", "cwd": "/srv/web"}).out == b""
    assert keeper.turns("claude-code", "s1") == {"p1", "p2"}
    assert {run["rung"] for run in hook.log} == {"service"}
    assert hook.spooled == []


def test_what_was_said_while_the_service_was_down_comes_in_once(hook: Hook, keeper: Keeper) -> None:
    for event in (PROMPT, STOP, PROMPT, END):
        hook({**event, "transcript_path": ""})
    (hook.home / "spool" / "00000000000000000001-1-aa.hook").write_bytes(b"corrupt")
    settings = Settings.load({"home": str(hook.home), "port": 0}, environ={})
    with running_service(keeper, settings) as url:
        hook.finds(url)
        assert eventually(lambda: not spool.waiting_files(hook.home))
    assert keeper.turns("claude-code", "s1") == {"p1"}
    assert len(keeper.items()) == 1
    assert spool.count_bad(hook.home) == 1


def test_garbage_is_refused_and_does_not_stay(hook: Hook, service: str) -> None:
    assert hook(b'{"hook_event_name": "Stop", ').out == b""
    assert (hook.rung, hook.why, hook.spooled) == ("skipped", "400 broken aside", [])
    assert hook(said("SomethingNew")).out == b""
    assert hook.rung == "service"


def test_a_wrong_key_is_seen_in_the_log_and_nothing_is_lost(hook: Hook, keeper: Keeper) -> None:
    settings = Settings.load({"home": str(hook.home), "port": 0, "api_key": "secret"}, environ={})
    with running_service(keeper, settings) as url:
        hook.finds(url, key="wrong")
        hook(STOP)
        assert (hook.rung, hook.why) == ("spooled", "401")
        hook.finds(url, key="secret")
        hook(STOP)
        assert hook.rung == "service"


def test_a_stopped_service_costs_a_deadline_and_comes_back(hook: Hook, tmp_path: Path) -> None:
    """The whole of it in processes of their own: `cofio serve` is frozen, thawed and asked again."""
    command = [sys.executable, "-m", "cofio", "--home", str(hook.home), "serve", "--port", "0", "--json"]
    around = {**os.environ, "COFIO_HOME": str(hook.home), "COFIO_MODEL_DOWNLOAD": "false", "COFIO_LOG_LEVEL": "error"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=around) as serving:
        try:
            assert serving.stdout
            url = json.loads(serving.stdout.readline())["url"]
            assert eventually((hook.home / "hook").exists)
            assert (hook.home / "hook.at").read_text().startswith(f"{url}\n\n800 300\n{hook.home}/cofio.db")
            run = [str(hook.home / launcher.NAME), "claude-code"]
            patient = {"HOME": str(tmp_path), "COFIO_HOOK_CAPTURE_TIMEOUT_MS": "5000"}  # it is loading its model
            hook.run(run, json.dumps(STOP).encode(), env=patient, limit=5)
            assert hook.rung == "service"
            hook.started(60)
            serving.send_signal(signal.SIGSTOP)
            frozen = {
                "HOME": str(tmp_path),
                "COFIO_HOOK_RECALL_TIMEOUT_MS": "3000",
            }  # long enough for a busy machine to ask
            for _ in range(20):
                hook.run(run, json.dumps({**PROMPT, "prompt_id": "p2"}).encode(), env=frozen, limit=5)
                if not hook.why.startswith("deadline"):  # out of time before it had asked
                    break
                (hook.home / "hook.rest").unlink(missing_ok=True)
            assert (hook.rung, hook.why) == ("nothing", "timeout spooled")
            serving.send_signal(signal.SIGCONT)
            hook.run(run, json.dumps({**STOP, "prompt_id": "p2"}).encode(), env={"HOME": str(tmp_path)})
            assert hook.why == "resting"
            assert eventually(lambda: not spool.waiting_files(hook.home))  # it fetches what lies there by itself
        finally:
            serving.send_signal(signal.SIGCONT)
            serving.terminate()
            serving.wait(30)
    assert not (hook.home / "hook.at").exists()
    assert daemon.find(Settings.load({"home": str(hook.home)}, environ={})) is None
