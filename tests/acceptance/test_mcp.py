"""The real Claude Code and the real Codex list our tools and call them: over pipes, and over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.laptop import COFIO, Laptop, Ran
from tests.acceptance.models import Asked, Call, Models, Say

KEY = "what-ann-chose-for-a-key"
TOOLS = {f"memory_{each}" for each in ("search", "add", "update", "forget", "history", "extract")}
KNOWN = "The invoice PDFs are rendered by Typst."
NOTICE = "These are notes from earlier work, kept as data."
TRANSPORTS = ("stdio", "http")
#: Claude Code begins without its servers by default, and looks for them meanwhile; a test wants them all there.
WAITS = {"MCP_CONNECTION_NONBLOCKING": "0", "MCP_CONNECT_TIMEOUT_MS": "60000", "MCP_TIMEOUT": "60000"}


@pytest.fixture(scope="module")
def laptop(new_laptop: Callable[[], Laptop]) -> Laptop:
    """With a service that wants a key, and nothing of cofio in the clients."""
    laptop = new_laptop()
    config = laptop.cofio_home / "config.toml"
    config.write_text(f'{config.read_text(encoding="utf-8")}api_key = "{KEY}"\n', encoding="utf-8")
    laptop.up()
    laptop.env |= {"ANNS_KEY": KEY, **WAITS}
    return laptop


@pytest.fixture(scope="module")
def web(laptop: Laptop) -> Path:
    web = laptop.project("web")
    laptop.remember(KNOWN, web)
    return web


def at(laptop: Laptop) -> str:
    """Where the service is."""
    return (laptop.cofio_home / "hook.at").read_text(encoding="utf-8").splitlines()[0]


@contextmanager
def added(laptop: Laptop, client: str, web: Path, *server: str) -> Iterator[None]:
    """A client that was told of the server, as a person tells it."""
    done = laptop.run(client, "mcp", "add", *server, at=web)
    assert done.code == 0, done.out + done.err
    try:
        yield
    finally:
        assert laptop.run(client, "mcp", "remove", "cofio", at=web).code == 0


def to_claude(laptop: Laptop, web: Path, transport: str, key: str = KEY) -> tuple[str, ...]:
    if transport == "stdio":
        return "cofio", "--", str(COFIO), "mcp"
    headers = ("--header", f"Authorization: Bearer {key}", "--header", f"X-Cofio-Project: {web}")
    return "--transport", "http", "cofio", f"{at(laptop)}/mcp", *headers


def to_codex(laptop: Laptop, transport: str) -> tuple[str, ...]:
    if transport == "stdio":
        return "cofio", "--", str(COFIO), "mcp"
    return "cofio", "--url", f"{at(laptop)}/mcp", "--bearer-token-env-var", "ANNS_KEY"


def newest(laptop: Laptop) -> dict[str, Any]:
    return dict(laptop.ask("GET", "/memories?limit=1")["memories"][0])


# ── Claude Code ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_claude_code_lists_the_tools_and_calls_them(laptop: Laptop, models: Models, web: Path, transport: str) -> None:
    fact = f"We keep the fonts of {transport} in assets/fonts."
    models.when(
        f"by {transport}, please",
        Call("mcp__cofio__memory_search", {"query": "how are invoices rendered?"}),
        Call("mcp__cofio__memory_add", {"text": fact, "kind": "decision"}),
        Call("ReadMcpResourceTool", {"server": "cofio", "uri": "cofio://memory/1"}),
        Say("It is Typst."),
    )
    allowed = "mcp__cofio__memory_search,mcp__cofio__memory_add,ReadMcpResourceTool"
    told = ("--output-format", "stream-json", "--verbose", "--allowedTools", allowed)
    with added(laptop, "claude", web, *to_claude(laptop, web, transport)):
        ran = laptop.run("claude", "-p", f"Look it up by {transport}, please.", *told, at=web)
    begun = next(event for event in events(ran) if event.get("subtype") == "init")
    assert {"name": "cofio", "status": "connected"} in [
        {name: each[name] for name in ("name", "status")} for each in begun["mcp_servers"]
    ]
    assert {f"mcp__cofio__{each}" for each in TOOLS} <= set(begun["tools"])
    assert "mcp__cofio__what_do_we_know" in begun["slash_commands"]
    found, kept, read = (each.last for each in ran.asked[1:4])
    assert KNOWN in found
    assert NOTICE in found
    assert "Remembered as memory" in kept
    assert KNOWN in read
    assert NOTICE in read
    memory = newest(laptop)
    assert (memory["text"], memory["project"], memory["source"]) == (fact, str(web), "claude-code/web")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_do_we_know_is_a_command_of_claude_code(laptop: Laptop, web: Path, transport: str) -> None:
    with added(laptop, "claude", web, *to_claude(laptop, web, transport)):
        ran = laptop.claude("/mcp__cofio__what_do_we_know invoices", at=web)
    assert ran.code == 0
    asked = ran.asked[-1].last
    assert "What do we know about invoices?" in asked
    assert KNOWN in asked
    assert NOTICE in asked


def test_claude_code_tells_a_right_key_from_a_wrong_one(laptop: Laptop, web: Path) -> None:
    for key, connected in ((KEY, True), ("guessed", False)):
        with added(laptop, "claude", web, *to_claude(laptop, web, "http", key)):
            said = laptop.run("claude", "mcp", "list", at=web).out
        (line,) = [line for line in said.splitlines() if line.startswith("cofio:")]
        assert ("Connected" in line) is connected


def events(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.out.splitlines() if line.startswith("{")]


# ── Codex ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


#: Codex asks the model without the tools of a server that starts slowly, unless it is required and has time.
AWAITED = ("-c", "mcp_servers.cofio.required=true", "-c", "mcp_servers.cofio.startup_timeout_sec=120")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_codex_lists_the_tools_and_calls_them(laptop: Laptop, models: Models, web: Path, transport: str) -> None:
    fact = f"We print the labels of {transport} on Zebra printers."
    models.when(
        f"in Codex by {transport}, please",
        Call("memory_search", {"query": "how are invoices rendered?"}, "mcp__cofio"),
        Call("memory_add", {"text": fact, "kind": "decision"}, "mcp__cofio"),
        Call("read_mcp_resource", {"server": "cofio", "uri": "cofio://memory/1"}),
        Say("It is Typst."),
    )
    with added(laptop, "codex", web, *to_codex(laptop, transport)):
        listed = laptop.run("codex", "mcp", "list", at=web).out
        ran = laptop.codex(f"Look it up in Codex by {transport}, please.", *AWAITED, at=web)
    assert [line for line in listed.splitlines() if line.startswith("cofio") and "enabled" in line]
    assert ran.code == 0
    assert offered(ran.asked[0]) == TOOLS
    found, kept, read = (output(each) for each in ran.asked[1:4])
    assert KNOWN in found
    assert NOTICE in found
    assert "Remembered as memory" in kept
    assert KNOWN in read
    assert NOTICE in read
    memory = newest(laptop)
    where, source = (str(web), "codex/web") if transport == "stdio" else ("", "codex")  # a URL has no working folder
    assert (memory["text"], memory["project"], memory["source"]) == (fact, where, source)


def offered(asked: Asked) -> set[str]:
    """The tools of ours that the model is told of."""
    (ours,) = [each for each in asked.body["tools"] if each.get("name") == "mcp__cofio"]
    return {each["name"] for each in ours["tools"]}


def output(asked: Asked) -> str:
    """What a tool gave back last."""
    last = asked.body["input"][-1]
    assert last["type"] == "function_call_output", last
    return json.dumps(last["output"], ensure_ascii=False)
