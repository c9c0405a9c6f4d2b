"""OpenClaw itself, with the plugin in it: a turn of a real agent against a model server on loopback.

It takes a gigabyte and a newer Node than most machines have, so it is asked for: COFIO_TEST_OPENCLAW=1 installs both
into the cache, and from then on these tests run.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.hooks import spool
from cofio.hooks.client_events import event
from tests.acceptance.models import Models, TextReply, ToolCallReply
from tests.acceptance.proxy import Outside
from tests.http_api.caller import Caller
from tests.openclaw import node
from tests.openclaw.conftest import ROOT, Plugin, captured

SAID = "We switched from Prisma to Drizzle."


@pytest.fixture(scope="module")
def package() -> Path:
    """Where OpenClaw is, and a Node that runs it."""
    if not os.environ.get("COFIO_TEST_OPENCLAW") and not (node.folder(f"openclaw-{node.OPENCLAW}") / ".whole").exists():
        pytest.skip(f"OpenClaw itself is not run: COFIO_TEST_OPENCLAW=1 installs {node.OPENCLAW}, about a gigabyte.")
    return node.openclaw() / "node_modules"


class Gateway:
    """OpenClaw in a home of its own, with a model server on loopback."""

    def __init__(self, package: Path, env: dict[str, str], models: Models, outside: Outside) -> None:
        (self.node,) = package.glob("node-*/bin/node")
        self._entry = package / "openclaw" / "openclaw.mjs"
        self.home = Path(env["HOME"])
        self.work = self.home / "work"
        self.work.mkdir()
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), outside.url)
        loopback = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost,::1")
        self._env = {**env, **proxies, **loopback, "PATH": f"{self.node.parent}:/usr/bin:/bin", "NO_COLOR": "1"}
        self._write(models.url)

    def _write(self, url: str) -> None:
        cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
        model = {"id": "m1", "name": "m1", "reasoning": False, "input": ["text"], "cost": cost,
                 "contextWindow": 100_000, "maxTokens": 4_096}  # fmt: skip
        loop = {"baseUrl": url, "apiKey": "dummy", "api": "anthropic-messages", "models": [model]}
        usual = {"workspace": str(self.work), "model": {"primary": "loop/m1"}, "skipBootstrap": True}
        config = {"models": {"mode": "merge", "providers": {"loop": loop}}, "agents": {"defaults": usual}}
        (self.home / ".openclaw").mkdir()
        (self.home / ".openclaw" / "openclaw.json").write_text(json.dumps(config))

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(self.node), str(self._entry), *arguments],
            env=self._env, cwd=self.work, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def config(self) -> Any:
        return json.loads((self.home / ".openclaw" / "openclaw.json").read_text())

    def say(self, words: str) -> str:
        return self.run("agent", "--local", "--session-key", "agent:main:main", "--message", words)


@pytest.fixture
def models() -> Iterator[Models]:
    with Models() as models:
        yield models


@pytest.fixture
def gateway(package: Path, ann: dict[str, str], models: Models) -> Iterator[Gateway]:
    with Outside() as outside:
        yield Gateway(package, ann, models, outside)


@pytest.fixture
def installed(gateway: Gateway) -> Gateway:
    """With the plugin, as the README says."""
    gateway.run("plugins", "install", str(ROOT), "--force", "--accept-capabilities")
    gateway.run("config", "set", "plugins.entries.cofio.hooks.allowConversationAccess", "true")
    return gateway


def test_it_takes_the_plugin_and_gives_it_the_memory_slot(installed: Gateway) -> None:
    config = installed.config()["plugins"]
    assert config["slots"]["memory"] == "cofio"
    assert config["entries"]["cofio"]["enabled"] is True
    told = json.loads(installed.run("plugins", "inspect", "cofio", "--runtime", "--json"))
    assert told["plugin"]["status"] == "loaded"
    assert told["plugin"]["memorySlotSelected"] is True
    assert told["plugin"]["source"].endswith("js/index.js")
    assert sorted(told["plugin"]["toolNames"]) == ["memory_forget", "memory_recall", "memory_store"]
    hooks = {each["name"] for each in told["typedHooks"]}
    assert hooks == {"agent_end", "before_compaction", "before_prompt_build", "gateway_stop", "session_end"}
    assert told["diagnostics"] == []


@pytest.mark.timeout(900)
def test_a_memory_reaches_the_model_and_what_the_user_says_is_learned(
    installed: Gateway, models: Models, service: Caller
) -> None:
    service.post("/memory/add", {"text": "We deploy with Fly.io on Fridays.", "source": "claude-code/web"})
    models.when(
        "xylophone",
        ToolCallReply("tool_call", {"id": "memory_recall", "args": {"query": "deploy Fly.io"}}),
        TextReply("Ok."),
    )

    installed.say("How do we deploy with Fly.io?")
    assert "We deploy with Fly.io on Fridays." in models.asked()[-1].text
    assert "claude-code/web" in models.asked()[-1].text

    installed.say(SAID)
    installed.say("And when do we deploy with Fly.io? Play the xylophone.")
    assert "Found in Memory" in models.asked()[-1].text
    first, second, third = captured(service, 3)
    assert {each["client"] for each in (first, second, third)} == {"openclaw"}
    assert [message["text"] for message in second["messages"] if message["role"] == "user"] == [SAID]
    assert any("Drizzle" in each["text"] for each in service.get("/memories").json["memories"])


@pytest.mark.timeout(900)
def test_without_the_service_the_agent_answers_and_the_turn_is_spooled(installed: Gateway, models: Models) -> None:
    models.when(SAID, TextReply("Good choice."))
    assert "Good choice." in installed.say(SAID)
    (entry,) = spool.entries(installed.home / ".cofio")
    told = event(entry.client, entry.raw)
    assert (told.kind, told.prompt, told.reply) == ("stop", SAID, "Good choice.")
    assert entry.project == str(installed.work)


def test_its_node_runs_the_source_as_it_is(package: Path, ann: dict[str, str]) -> None:
    (binary,) = package.glob("node-*/bin/node")
    plugin = Plugin(str(binary), ann, ROOT / "src/index.ts")
    assert "agent_end" in plugin.do("register", config={})["hooks"]
    plugin.close()
