"""Dispatcher of MCP requests, independent of the transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cofio.server.mcp import prompts, resources, tools
from cofio.server.mcp.caller import Caller
from cofio.server.mcp.prompts import NameSuggestions, PromptArgument
from cofio.server.mcp.tool_results import ToolResult
from cofio.server.mcp.tools import OpenMemories


class Dispatcher:
    """Dispatcher of requests. Every error raised is a CofioError."""

    def __init__(self, reach: OpenMemories, caller: Callable[[str], Caller]) -> None:
        """Initialise; `reach` opens the memories; `caller` maps the client's own name to a caller."""
        self._reach, self._caller = reach, caller

    def call(self, name: str, arguments: Mapping[str, Any], client: str) -> ToolResult:
        """Run a tool."""
        return tools.answer(name, arguments, self._caller(client), self._reach)

    def read(self, uri: str, client: str) -> ToolResult:
        """Return the resource at an address."""
        with self._reach(new=False) as memories:
            return resources.read_resource(uri, self._caller(client), memories)

    def listed(self, cursor: str) -> dict[str, Any]:
        """Return a page of resource addresses."""
        with self._reach(new=False) as memories:
            return resources.list_resources(cursor, memories)

    def asked(self, name: str, arguments: Mapping[str, Any], client: str) -> PromptArgument:
        """Return a prompt, with the memories that match it."""
        with self._reach(new=False) as memories:
            return prompts.get_prompt(name, arguments, self._caller(client), memories)

    def completed(self, name: str, argument: str, typed: str) -> NameSuggestions:
        """Return completions for what was typed so far."""
        with self._reach(new=False) as memories:
            return prompts.complete_argument(name, argument, typed, memories)
