"""The real clients list and call cofio's MCP tools over stdio and HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.laptop import COFIO, ClientRun, Laptop
from tests.acceptance.models import ModelRequest, Models, TextReply, ToolCallReply

KEY = "what-ann-chose-for-a-key"
TOOLS = {f"memory_{item}" for item in ("search", "add", "update", "forget", "history", "extract")}
KNOWN = "The invoice PDFs are rendered by Typst."
NOTICE = "These are notes from earlier work, kept as data."
TRANSPORTS = ("stdio", "http")
#: Claude Code starts before its MCP servers are ready by default; the tests wait for them.
WAITS = {"MCP_CONNECTION_NONBLOCKING": "0", "MCP_CONNECT_TIMEOUT_MS": "60000", "MCP_TIMEOUT": "60000"}


@pytest.fixture(scope="module")
def laptop(new_laptop: Callable[[], Laptop]) -> Laptop:
    """Return a laptop with a service that requires a key, and no cofio in the clients."""
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
    """Return the URL of the service."""
    return (laptop.cofio_home / "hook.at").read_text(encoding="utf-8").splitlines()[0]


@contextmanager
def added(laptop: Laptop, client: str, web: Path, *server: str) -> Iterator[None]:
    """Register the MCP server with a client, and remove it at the end."""
    result = laptop.run(client, "mcp", "add", *server, at=web)
    assert result.code == 0, result.out + result.err
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
def test_claude_code_lists_and_calls_the_tools(laptop: Laptop, models: Models, web: Path, transport: str) -> None:
    fact = f"We keep the fonts of {transport} in assets/fonts."
    models.when(
        f"by {transport}, please",
        ToolCallReply("mcp__cofio__memory_search", {"query": "how are invoices rendered?"}),
        ToolCallReply("mcp__cofio__memory_add", {"text": fact, "kind": "decision"}),
        ToolCallReply("ReadMcpResourceTool", {"server": "cofio", "uri": "cofio://memory/1"}),
        TextReply("It is Typst."),
    )
    allowed = "mcp__cofio__memory_search,mcp__cofio__memory_add,ReadMcpResourceTool"
    result = ("--output-format", "stream-json", "--verbose", "--allowedTools", allowed)
    with added(laptop, "claude", web, *to_claude(laptop, web, transport)):
        run = laptop.run("claude", "-p", f"Look it up by {transport}, please.", *result, at=web)
    begun = next(event for event in events(run) if event.get("subtype") == "init")
    assert {"name": "cofio", "status": "connected"} in [
        {name: mcp_server[name] for name in ("name", "status")} for mcp_server in begun["mcp_servers"]
    ]
    assert {f"mcp__cofio__{tool}" for tool in TOOLS} <= set(begun["tools"])
    assert "mcp__cofio__what_do_we_know" in begun["slash_commands"]
    found, kept, read = (item.last for item in run.asked[1:4])
    assert KNOWN in found
    assert NOTICE in found
    assert "Remembered as memory" in kept
    assert KNOWN in read
    assert NOTICE in read
    memory = newest(laptop)
    assert (memory["text"], memory["project"], memory["source"]) == (fact, str(web), "claude-code/web")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_prompt_is_a_command_of_claude_code(laptop: Laptop, web: Path, transport: str) -> None:
    with added(laptop, "claude", web, *to_claude(laptop, web, transport)):
        run = laptop.claude("/mcp__cofio__what_do_we_know invoices", at=web)
    assert run.code == 0
    request = run.asked[-1].last
    assert "What do we know about invoices?" in request
    assert KNOWN in request
    assert NOTICE in request


def test_claude_code_distinguishes_valid_and_invalid_keys(laptop: Laptop, web: Path) -> None:
    for key, connected in ((KEY, True), ("guessed", False)):
        with added(laptop, "claude", web, *to_claude(laptop, web, "http", key)):
            result = laptop.run("claude", "mcp", "list", at=web).out
        (line,) = [line for line in result.splitlines() if line.startswith("cofio:")]
        assert ("Connected" in line) is connected


def events(ran: ClientRun) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.out.splitlines() if line.startswith("{")]


# ── Codex ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


#: Codex calls the model without the tools of a slow server, unless it is required and has time to start.
AWAITED = ("-c", "mcp_servers.cofio.required=true", "-c", "mcp_servers.cofio.startup_timeout_sec=120")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_codex_lists_and_calls_the_tools(laptop: Laptop, models: Models, web: Path, transport: str) -> None:
    fact = f"We print the labels of {transport} on Zebra printers."
    models.when(
        f"in Codex by {transport}, please",
        ToolCallReply("memory_search", {"query": "how are invoices rendered?"}, "mcp__cofio"),
        ToolCallReply("memory_add", {"text": fact, "kind": "decision"}, "mcp__cofio"),
        ToolCallReply("read_mcp_resource", {"server": "cofio", "uri": "cofio://memory/1"}),
        TextReply("It is Typst."),
    )
    with added(laptop, "codex", web, *to_codex(laptop, transport)):
        listing = laptop.run("codex", "mcp", "list", at=web).out
        run = laptop.codex(f"Look it up in Codex by {transport}, please.", *AWAITED, at=web)
    assert [line for line in listing.splitlines() if line.startswith("cofio") and "enabled" in line]
    assert run.code == 0
    assert offered(run.asked[0]) == TOOLS
    found, kept, read = (output(item) for item in run.asked[1:4])
    assert KNOWN in found
    assert NOTICE in found
    assert "Remembered as memory" in kept
    assert KNOWN in read
    assert NOTICE in read
    memory = newest(laptop)
    where, source = (str(web), "codex/web") if transport == "stdio" else ("", "codex")  # a URL has no working folder
    assert (memory["text"], memory["project"], memory["source"]) == (fact, where, source)


def offered(asked: ModelRequest) -> set[str]:
    """Return the cofio tools offered to the model."""
    (ours,) = [tool for tool in asked.body["tools"] if tool.get("name") == "mcp__cofio"]
    return {tool["name"] for tool in ours["tools"]}


def output(asked: ModelRequest) -> str:
    """Return the last tool result."""
    last = asked.body["input"][-1]
    assert last["type"] == "function_call_output", last
    return json.dumps(last["output"], ensure_ascii=False)
