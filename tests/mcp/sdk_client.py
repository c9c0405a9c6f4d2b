"""An agent's end of the wire: the SDK's own client, called from the test's thread."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CallToolResult,
    GetPromptResult,
    Implementation,
    ListResourcesResult,
    Prompt,
    PromptReference,
    ResourceTemplate,
    ResourceTemplateReference,
    TextResourceContents,
    Tool,
)

from cofio.settings import settable

VARIABLES = {variable for each in settable() for variable in each.metadata["variables"]} | {"CLAUDE_PROJECT_DIR"}
COMMAND = (sys.executable, "-m", "cofio", "mcp")


def around(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment with nothing of this machine's settings in it, and a home of its own."""
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return {**kept, "HOME": str(home), "COFIO_HOME": str(home / "cofio"), **(more or {})}


class Agent:
    """A client with a server at the other end; `call` asks for a tool and waits."""

    def __init__(self, server: Any, *, mode: str = "auto", name: str = "claude-code") -> None:
        self._client = Client(server, mode=mode, client_info=Implementation(name=name, version="1"))
        self._stack = ExitStack()

    def __enter__(self) -> Agent:
        self._portal = self._stack.enter_context(start_blocking_portal())
        self._stack.enter_context(self._portal.wrap_async_context_manager(self._client))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def instructions(self) -> str:
        return self._client.instructions or ""

    @property
    def version(self) -> str:
        """The protocol's version that both ends speak."""
        return self._client.protocol_version

    def tools(self) -> list[Tool]:
        return self._portal.call(self._client.list_tools).tools

    def call(self, name: str, **arguments: Any) -> CallToolResult:
        return self.calls([(name, arguments)])[0]

    def calls(self, asked: Sequence[tuple[str, dict[str, Any]]]) -> list[CallToolResult]:
        """Ask for all of them at once; the results in the order of the questions."""
        return self._portal.call(self._at_once, asked)

    def told(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The data of an answer. The client has held it against the tool's schema."""
        result = self.call(name, **arguments)
        assert not result.is_error, result.content
        assert isinstance(result.structured_content, dict)
        assert text(result).startswith(result.structured_content["says"])
        return result.structured_content

    def refused(self, name: str, **arguments: Any) -> str:
        """What the agent is told where it cannot have what it asked for."""
        result = self.call(name, **arguments)
        assert result.is_error
        assert result.structured_content is None
        assert "Traceback" not in text(result)
        return text(result)

    def found(self, query: str, **how: Any) -> list[str]:
        return [each["text"] for each in self.told("memory_search", query=query, **how)["memories"]]

    # ── beside the tools ──────────────────────────────────────────────────────────────────────────────────────────────

    def prompts(self) -> list[Prompt]:
        return self._portal.call(self._client.list_prompts).prompts

    def prompt(self, name: str, **arguments: str) -> GetPromptResult:
        return self._portal.call(self._client.get_prompt, name, arguments)

    def templates(self) -> list[ResourceTemplate]:
        return self._portal.call(self._client.list_resource_templates).resource_templates

    def resources(self, cursor: str | None = None) -> ListResourcesResult:
        return self._portal.call(lambda: self._client.list_resources(cursor=cursor))

    def every_resource(self) -> list[str]:
        """The addresses of all that is listed, page after page."""
        page = self.resources()
        found = [resource.uri for resource in page.resources]
        while page.next_cursor:
            page = self.resources(page.next_cursor)
            found += [resource.uri for resource in page.resources]
        return found

    def read(self, uri: str) -> tuple[str, dict[str, Any]]:
        """What is there: as text, and as data."""
        as_text, as_data = self._portal.call(self._client.read_resource, uri).contents
        assert isinstance(as_text, TextResourceContents)
        assert isinstance(as_data, TextResourceContents)
        assert (as_text.mime_type, as_data.mime_type) == ("text/plain", "application/json")
        return as_text.text, json.loads(as_data.text)

    def completed(self, about: str, argument: str, begun: str) -> list[str]:
        """What may be meant: of a prompt, or of an address."""
        is_address = "://" in about
        reference = ResourceTemplateReference(uri=about) if is_address else PromptReference(name=about)
        told = self._portal.call(self._client.complete, reference, {"name": argument, "value": begun})
        return told.completion.values

    def wrong(self, ask: Callable[[], Any]) -> str:
        """What a person is told who asked wrongly."""
        with pytest.raises(MCPError) as told:
            ask()
        assert "Traceback" not in told.value.message
        return told.value.message

    async def _at_once(self, asked: Sequence[tuple[str, dict[str, Any]]]) -> list[CallToolResult]:
        results: dict[int, CallToolResult] = {}

        async def ask(place: int, name: str, arguments: dict[str, Any]) -> None:
            results[place] = await self._client.call_tool(name, arguments)

        async with anyio.create_task_group() as group:
            for place, (name, arguments) in enumerate(asked):
                group.start_soon(ask, place, name, arguments)
        return [results[place] for place in range(len(asked))]


class Calling(Agent):
    """An agent that calls /mcp of a service, with these headers."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None, **how: Any) -> None:
        self._http = create_mcp_http_client(headers=dict(headers or {}))
        super().__init__(streamable_http_client(f"{url}/mcp", http_client=self._http), **how)

    def __enter__(self) -> Calling:
        self._portal = self._stack.enter_context(start_blocking_portal())
        self._stack.enter_context(self._portal.wrap_async_context_manager(self._http))
        self._stack.enter_context(self._portal.wrap_async_context_manager(self._client))
        return self


class Started(Agent):
    """An agent that starts `cofio mcp` in a folder, as clients do. What it says on standard error is kept."""

    def __init__(self, home: Path, folder: Path, *flags: str, env: Mapping[str, str] | None = None, **how: Any) -> None:
        home.mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        command, *arguments = COMMAND
        self.folder = folder
        self._log = home / "stderr.txt"
        self._errors = self._log.open("w")
        server = StdioServerParameters(
            command=command, args=[*arguments, *flags], env=around(home, env), cwd=str(folder)
        )
        super().__init__(stdio_client(server, self._errors), **how)

    def __exit__(self, *end: Any) -> None:
        super().__exit__(*end)
        self._errors.close()

    @property
    def log(self) -> str:
        return self._log.read_text()


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert content.type == "text"
    return content.text
