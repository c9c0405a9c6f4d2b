"""The real Claude Code and Codex as LLM providers: they only return a reply, while cofio's hooks are installed in
both."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError

import pytest

from cofio.errors import Misconfigured, Unavailable
from cofio.providers.llms import MODELS
from cofio.providers.llms.agent_cli import AgentCLI, ClaudeCLI, CodexCLI
from tests.acceptance.laptop import Laptop, wait_for
from tests.acceptance.models import ErrorReply, ModelRequest, Models, TextReply

FACT = "We decided to deploy with Nomad."
REPLY = json.dumps({"facts": [{"text": FACT}]})
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["facts"],
    "properties": {"facts": {"type": "array", "items": {"type": "string"}}},
}
KINDS: dict[str, type[AgentCLI]] = {"claude-cli": ClaudeCLI, "codex-cli": CodexCLI}
MARK = "another program's hook ran"


@dataclass(frozen=True)
class Machine:
    """A laptop with cofio's and another program's hooks, and one client as the LLM provider."""

    laptop: Laptop
    provider: str

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment without the service's keys. Claude Code logs in by token, Codex by options."""
        stored = {name: value for name, value in self.laptop.env.items() if not name.endswith("_API_KEY")}
        return {**stored, "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-made-up"}

    def model(self, timeout: float = 60.0) -> AgentCLI:
        server = f'{{name="loopback",base_url="{self.laptop.models.url}/v1",wire_api="responses"}}'
        options = ("-c", "model_provider=loopback", "-c", f"model_providers.loopback={server}")
        return KINDS[self.provider](
            MODELS[self.provider],
            environ=self.environ,
            timeout=timeout,
            options=options if self.provider == "codex-cli" else (),
        )

    def traces(self) -> set[str]:
        """Return every trace that a session, hook or capture would leave."""
        home = self.laptop.home
        sessions = [home / ".claude" / "projects", home / ".codex" / "sessions", home / ".codex" / "history.jsonl"]
        files = [path for top in sessions for path in [top, *top.rglob("*")] if path.is_file()]
        return {str(path) for path in files} | {f"hook: {line}" for line in self.laptop.rungs()} | marks(self.laptop)


def marks(laptop: Laptop) -> set[str]:
    """Return what the other program's hook wrote, one line per run."""
    path = laptop.home / "mark"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {f"{MARK} {number}" for number in range(len(lines))}


@pytest.fixture(scope="module")
def prepared(laptop: Laptop) -> Laptop:
    """Add another program's hook to Claude Code, and user instructions to both clients."""
    settings = laptop.home / ".claude" / "settings.json"
    payload = json.loads(settings.read_text("utf-8"))
    mark = laptop.home / "mark"
    hook = {"type": "command", "command": f"echo \"{MARK}\" >> '{mark}'"}
    for event in ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"):
        payload["hooks"].setdefault(event, []).append({"hooks": [hook]})
    settings.write_text(json.dumps(payload), encoding="utf-8")
    (laptop.home / ".claude" / "CLAUDE.md").write_text("Always answer in rhyme.", encoding="utf-8")
    (laptop.home / ".codex" / "AGENTS.md").write_text("Always answer in rhyme.", encoding="utf-8")
    return laptop


@pytest.fixture(params=KINDS)
def machine(request: pytest.FixtureRequest, prepared: Laptop) -> Machine:
    return Machine(prepared, request.param)


def words(machine: Machine, what: str) -> str:
    return f"{what} of {machine.provider}: we deploy with Nomad, and nobody objects."


def tools(asked: ModelRequest) -> list[object]:
    own = [item for item in asked.body.get("input", []) if isinstance(item, dict) and item.get("tools")]
    return [*asked.body.get("tools", []), *own]


def test_reply_is_returned_without_side_effects(machine: Machine, models: Models) -> None:
    text = words(machine, "The plain call")
    models.when(text, TextReply(REPLY))
    before, pending = machine.traces(), machine.laptop.inbox_status()
    reply = machine.model().complete("You extract facts.", text, schema=SCHEMA)
    assert json.loads(reply.text) == json.loads(REPLY)
    assert (reply.usage.calls, reply.truncated) == (1, False)
    time.sleep(1.0)  # for a hook that would continue in the background
    assert machine.traces() == before
    assert machine.laptop.inbox_status() == pending
    assert not machine.laptop.spooled()
    assert not machine.laptop.known("Nomad")


def test_request_is_small_and_offers_no_tools(machine: Machine, models: Models) -> None:
    text = words(machine, "The small request")
    models.when(text, TextReply(REPLY))
    machine.model().complete("You extract facts.", text, schema=SCHEMA)
    [asked] = models.about(text)  # one request per call
    assert len(json.dumps(asked.body)) < 4_000
    assert tools(asked) == []
    assert "You extract facts." in asked.text
    assert ("rhyme" in asked.text) is (machine.provider == "codex-cli")  # Codex's own AGENTS.md cannot be disabled
    assert "facts" in json.dumps(asked.body["text"]["format"] if "text" in asked.body else asked.body["system"])
    assert "x-api-key" not in asked.headers


def test_hanging_child_is_killed_with_its_group(machine: Machine, models: Models) -> None:
    text = words(machine, "The hung call")
    models.when(text, TextReply(REPLY, after=60.0))
    with pytest.raises(Unavailable, match="within 5 seconds"):
        machine.model(timeout=5.0).complete("You extract facts.", text)
    wait_for(lambda: not running(machine.laptop), "no process of it is left")


def running(laptop: Laptop) -> list[str]:
    """Return the processes started as models on this laptop."""
    results = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            environ = path.read_bytes()
        except OSError:
            continue
        if f"HOME={laptop.home}\0".encode() in environ and b"COFIO_HOOKS=off\0" in environ:
            results.append(path.parent.name)
    return results


def test_plan_limit_is_unavailable(machine: Machine, models: Models) -> None:
    text = words(machine, "The call beyond the limit")
    models.when(text, ErrorReply(429, "rate_limit_error", "You have reached your limit."))
    with pytest.raises(Unavailable, match="limit is reached"):
        machine.model().complete("You extract facts.", text)


def test_rejected_login_is_misconfigured(machine: Machine, models: Models) -> None:
    text = words(machine, "The call without a login")
    models.when(text, ErrorReply(401, "authentication_error", "invalid bearer token"))
    with pytest.raises(Misconfigured, match="not logged in"):
        machine.model().complete("You extract facts.", text)


def test_health_checks_the_clients_login(machine: Machine) -> None:
    logged_in = machine.provider == "claude-cli"  # Claude Code by token; nobody is logged in to Codex
    assert bool(machine.model().health_check()) is logged_in
    bare = {name: value for name, value in machine.environ.items() if name != "CLAUDE_CODE_OAUTH_TOKEN"}
    health = KINDS[machine.provider](MODELS[machine.provider], environ=bare).health_check()
    assert "is not logged in" in health.problem


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_marked_prompt_is_rejected_even_if_hooks_run(prepared: Laptop, models: Models, client: str) -> None:
    """As if the child's guards had all failed: an ordinary session, with hooks, that begins with our prompt."""
    laptop = prepared
    hooks, others = len(laptop.rungs()), len(marks(laptop))
    web = laptop.project(f"guarded-{client}")
    text = f"<cofio-request>\nWe decided to deploy {client} with Kubernetes.\n</cofio-request>"
    models.when(text, TextReply("We decided to deploy everything with Kubernetes."))
    run = laptop.prompt(client, text, at=web)
    assert run.code == 0
    assert len(laptop.rungs()) > hooks
    assert client == "codex" or len(marks(laptop)) > others
    laptop.settled()
    assert not laptop.known("Kubernetes")
    assert laptop.of(web) == []


def test_claude_code_is_captured_until_cofio_is_uninstalled(new_laptop: Callable[[], Laptop], models: Models) -> None:
    laptop = new_laptop()
    laptop.env["CLAUDE_CODE_OAUTH_TOKEN"] = "sk-ant-oat01-made-up"
    laptop.cofio("install", "claude-code", "--yes", "--provider", "claude-cli", "--no-mcp")
    web = laptop.project("web")
    fact = {"text": FACT, "category": "decision", "kind": "decision", "confidence": "high", "said_by": "user",
            "entities": ["Nomad"]}  # fmt: skip
    models.when("<cofio-request>", TextReply(json.dumps({"facts": [fact]})))
    run = laptop.claude("Nomad it is: from now on we deploy everything with it.", at=web)
    assert run.code == 0
    laptop.settled()
    assert [memory["text"] for memory in laptop.of(web)] == [FACT]
    assert laptop.ask("GET", "/extract/status")["provider"] == "claude-cli"
    assert len(list((laptop.home / ".claude" / "projects").rglob("*.jsonl"))) == 1  # the user's session
    assert laptop.inbox_status()["pending"] == 0
    requests = [memory for memory in models.asked() if "<cofio-request>" in memory.text]

    result = laptop.cofio("uninstall")
    assert "claude-cli is no longer called" in result.stdout + result.stderr
    assert not laptop.ask("GET", "/extract/status")["enabled"]
    assert "claude-cli" not in (laptop.cofio_home / "config.toml").read_text("utf-8")
    with pytest.raises(HTTPError, match="501"):
        laptop.ask("POST", "/memory/extract", {"messages": "User: We moved from Nomad to Kubernetes.", "source": "ann"})
    assert [memory for memory in models.asked() if "<cofio-request>" in memory.text] == requests
