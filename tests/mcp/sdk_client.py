"""Synchronous wrapper of the MCP SDK's client."""

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

VARIABLES = {variable for setting in settable() for variable in setting.metadata["variables"]} | {"CLAUDE_PROJECT_DIR"}
COMMAND = (sys.executable, "-m", "cofio", "mcp")


def isolated_env(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment without this machine's settings and with its own home."""
    stored = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return {**stored, "HOME": str(home), "COFIO_HOME": str(home / "cofio"), **(extra or {})}


class Agent:
    """An MCP client connected to a server. `call` calls a tool and waits for the result."""

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
        """Return the negotiated protocol version."""
        return self._client.protocol_version

    def tools(self) -> list[Tool]:
        return self._portal.call(self._client.list_tools).tools

    def call(self, name: str, **arguments: Any) -> CallToolResult:
        return self.calls([(name, arguments)])[0]

    def calls(self, requests: Sequence[tuple[str, dict[str, Any]]]) -> list[CallToolResult]:
        """Call the tools concurrently. Return the results in order."""
        return self._portal.call(self._at_once, requests)

    def call_data(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return the data of a successful call. The client validates it against the tool's schema."""
        result = self.call(name, **arguments)
        assert not result.is_error, result.content
        assert isinstance(result.structured_content, dict)
        assert text(result).startswith(result.structured_content["says"])
        return result.structured_content

    def call_error(self, name: str, **arguments: Any) -> str:
        """Return the error text of a failed call."""
        result = self.call(name, **arguments)
        assert result.is_error
        assert result.structured_content is None
        assert "Traceback" not in text(result)
        return text(result)

    def search_texts(self, query: str, **options: Any) -> list[str]:
        return [memory["text"] for memory in self.call_data("memory_search", query=query, **options)["memories"]]

    # ── resources and prompts ─────────────────────────────────────────────────────────────────────────────────────────

    def prompts(self) -> list[Prompt]:
        return self._portal.call(self._client.list_prompts).prompts

    def prompt(self, name: str, **arguments: str) -> GetPromptResult:
        return self._portal.call(self._client.get_prompt, name, arguments)

    def templates(self) -> list[ResourceTemplate]:
        return self._portal.call(self._client.list_resource_templates).resource_templates

    def resources(self, cursor: str | None = None) -> ListResourcesResult:
        return self._portal.call(lambda: self._client.list_resources(cursor=cursor))

    def every_resource(self) -> list[str]:
        """Return the URIs of all listed resources, from all pages."""
        page = self.resources()
        results = [resource.uri for resource in page.resources]
        while page.next_cursor:
            page = self.resources(page.next_cursor)
            results += [resource.uri for resource in page.resources]
        return results

    def read(self, uri: str) -> tuple[str, dict[str, Any]]:
        """Return the text and the data of a resource."""
        as_text, as_data = self._portal.call(self._client.read_resource, uri).contents
        assert isinstance(as_text, TextResourceContents)
        assert isinstance(as_data, TextResourceContents)
        assert (as_text.mime_type, as_data.mime_type) == ("text/plain", "application/json")
        return as_text.text, json.loads(as_data.text)

    def complete(self, reference_name: str, argument: str, prefix: str) -> list[str]:
        """Return completions for an argument of a prompt or a resource template."""
        is_address = "://" in reference_name
        reference = (
            ResourceTemplateReference(uri=reference_name) if is_address else PromptReference(name=reference_name)
        )
        result = self._portal.call(self._client.complete, reference, {"name": argument, "value": prefix})
        return result.completion.values

    def error_message(self, operation: Callable[[], Any]) -> str:
        """Return the message of the protocol error that the operation raises."""
        with pytest.raises(MCPError) as result:
            operation()
        assert "Traceback" not in result.value.message
        return result.value.message

    async def _at_once(self, requests: Sequence[tuple[str, dict[str, Any]]]) -> list[CallToolResult]:
        results: dict[int, CallToolResult] = {}

        async def ask(place: int, name: str, arguments: dict[str, Any]) -> None:
            results[place] = await self._client.call_tool(name, arguments)

        async with anyio.create_task_group() as group:
            for place, (name, arguments) in enumerate(requests):
                group.start_soon(ask, place, name, arguments)
        return [results[index] for index in range(len(requests))]


class HttpAgent(Agent):
    """An agent that uses /mcp of a service with these headers."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None, **options: Any) -> None:
        self._http = create_mcp_http_client(headers=dict(headers or {}))
        super().__init__(streamable_http_client(f"{url}/mcp", http_client=self._http), **options)

    def __enter__(self) -> HttpAgent:
        self._portal = self._stack.enter_context(start_blocking_portal())
        self._stack.enter_context(self._portal.wrap_async_context_manager(self._http))
        self._stack.enter_context(self._portal.wrap_async_context_manager(self._client))
        return self


class StdioAgent(Agent):
    """An agent that starts `cofio mcp` in a folder, as clients do. The standard error output is kept."""

    def __init__(
        self, home: Path, folder: Path, *flags: str, env: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        command, *arguments = COMMAND
        self.folder = folder
        self._log = home / "stderr.txt"
        self._errors = self._log.open("w")
        server = StdioServerParameters(
            command=command, args=[*arguments, *flags], env=isolated_env(home, env), cwd=str(folder)
        )
        super().__init__(stdio_client(server, self._errors), **options)

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
