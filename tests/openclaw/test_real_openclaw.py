"""The real OpenClaw with the plugin: a turn of an agent against a model server on loopback.

It needs one gigabyte and a recent Node, so it is opt-in: COFIO_TEST_OPENCLAW=1 installs both into the cache, and
from then on these tests run.

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
from tests.openclaw.conftest import ROOT, Plugin, captured_exchanges

SAID = "We switched from Prisma to Drizzle."


@pytest.fixture(scope="module")
def package() -> Path:
    """Return the folder of OpenClaw with a Node that runs it."""
    if (
        not os.environ.get("COFIO_TEST_OPENCLAW")
        and not (node.cache_folder(f"openclaw-{node.OPENCLAW}") / ".whole").exists()
    ):
        pytest.skip(f"OpenClaw itself is not run: COFIO_TEST_OPENCLAW=1 installs {node.OPENCLAW}, about a gigabyte.")
    return node.openclaw() / "node_modules"


class Gateway:
    """OpenClaw in its own home, with a model server on loopback."""

    def __init__(self, package: Path, env: dict[str, str], models: Models, outside: Outside) -> None:
        (self.node,) = package.glob("node-*/bin/node")
        self._entry = package / "openclaw" / "openclaw.mjs"
        self.home = Path(env["HOME"])
        self.work = self.home / "work"
        self.work.mkdir()
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), outside.url)
        no_proxy = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost,::1")
        self._env = {**env, **proxies, **no_proxy, "PATH": f"{self.node.parent}:/usr/bin:/bin", "NO_COLOR": "1"}
        self._write(models.url)

    def _write(self, url: str) -> None:
        cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
        model = {"id": "m1", "name": "m1", "reasoning": False, "input": ["text"], "cost": cost,
                 "contextWindow": 100_000, "maxTokens": 4_096}  # fmt: skip
        provider = {"baseUrl": url, "apiKey": "dummy", "api": "anthropic-messages", "models": [model]}
        defaults = {"workspace": str(self.work), "model": {"primary": "loop/m1"}, "skipBootstrap": True}
        config = {"models": {"mode": "merge", "providers": {"loop": provider}}, "agents": {"defaults": defaults}}
        (self.home / ".openclaw").mkdir()
        (self.home / ".openclaw" / "openclaw.json").write_text(json.dumps(config))

    def run(self, *arguments: str) -> str:
        process = subprocess.run(
            [str(self.node), str(self._entry), *arguments],
            env=self._env, cwd=self.work, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert process.returncode == 0, f"{process.stdout}\n{process.stderr}"
        return process.stdout

    def config(self) -> Any:
        return json.loads((self.home / ".openclaw" / "openclaw.json").read_text())

    def say(self, text: str) -> str:
        return self.run("agent", "--local", "--session-key", "agent:main:main", "--message", text)


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
    """Install the plugin as described in the README."""
    gateway.run("plugins", "install", str(ROOT), "--force", "--accept-capabilities")
    gateway.run("config", "set", "plugins.entries.cofio.hooks.allowConversationAccess", "true")
    return gateway


def test_openclaw_loads_the_plugin_into_the_memory_slot(installed: Gateway) -> None:
    config = installed.config()["plugins"]
    assert config["slots"]["memory"] == "cofio"
    assert config["entries"]["cofio"]["enabled"] is True
    report = json.loads(installed.run("plugins", "inspect", "cofio", "--runtime", "--json"))
    assert report["plugin"]["status"] == "loaded"
    assert report["plugin"]["memorySlotSelected"] is True
    assert report["plugin"]["source"].endswith("js/index.js")
    assert sorted(report["plugin"]["toolNames"]) == ["memory_forget", "memory_recall", "memory_store"]
    hooks = {hook["name"] for hook in report["typedHooks"]}
    assert hooks == {"agent_end", "before_compaction", "before_prompt_build", "gateway_stop", "session_end"}
    assert report["diagnostics"] == []


@pytest.mark.timeout(900)
def test_memory_reaches_the_model_and_the_users_statement_is_learned(
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
    first, second, third = captured_exchanges(service, 3)
    assert {exchange["client"] for exchange in (first, second, third)} == {"openclaw"}
    assert [message["text"] for message in second["messages"] if message["role"] == "user"] == [SAID]
    assert any("Drizzle" in memory["text"] for memory in service.get("/memories").json["memories"])


@pytest.mark.timeout(900)
def test_turn_without_the_service_is_answered_and_spooled(installed: Gateway, models: Models) -> None:
    models.when(SAID, TextReply("Good choice."))
    assert "Good choice." in installed.say(SAID)
    (entry,) = spool.entries(installed.home / ".cofio")
    hook_event = event(entry.client, entry.raw)
    assert (hook_event.kind, hook_event.prompt, hook_event.reply) == ("stop", SAID, "Good choice.")
    assert entry.project == str(installed.work)


def test_bundled_node_runs_the_typescript_source(package: Path, ann: dict[str, str]) -> None:
    (binary,) = package.glob("node-*/bin/node")
    plugin = Plugin(str(binary), ann, ROOT / "src/index.ts")
    assert "agent_end" in plugin.do("register", config={})["hooks"]
    plugin.close()
