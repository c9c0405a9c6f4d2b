"""The tools on the wire: the official SDK, told of them. This module loads it, and it is large."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

import anyio
import anyio.to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)

from cofio.errors import CofioError
from cofio.mcp.acts import BY
from cofio.mcp.answers import Answer, short
from cofio.mcp.front import NAME, TITLE, Lines, listed
from cofio.mcp.tools import instructions
from cofio.version import __version__

#: Does what a client asks for: the tool's name, its arguments, and who asks.
Ask = Callable[[str, Mapping[str, Any], str], Answer]

_AT_ONCE = 8  # calls; more wait
#: What clients call themselves, where the hooks know them by another name.
_CLIENTS = {"codex-mcp-client": "codex"}
_log = logging.getLogger(__name__)


def server(ask: Ask) -> Server[Any]:
    """The tools as the SDK serves them, over whatever transport."""
    at_once = anyio.CapacityLimiter(_AT_ONCE)

    async def list_tools(
        _context: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult.model_validate(listed())

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        given = (ask, params.name, params.arguments or {}, _client(context))
        # What nobody waits for any more may end by itself: every write is one transaction.
        return await anyio.to_thread.run_sync(_result, *given, abandon_on_cancel=True, limiter=at_once)

    return Server(
        NAME,
        version=__version__,
        title=TITLE,
        instructions=instructions(),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def over(ask: Ask, reading: Lines, writing: Any) -> None:
    """Serve the client at the other end of these lines, until it is gone."""

    async def serve() -> None:
        made = server(ask)
        wrapped = (anyio.wrap_file(cast("Any", each)) for each in (reading, writing))
        async with stdio_server(*wrapped) as (heard, told):
            await made.run(heard, told, made.create_initialization_options())

    try:
        anyio.run(serve)
    except* OSError as gone:  # it went without reading what it had asked for
        _log.info("the client is gone: %s", gone.exceptions[0])


def _result(ask: Ask, name: str, arguments: Mapping[str, Any], client: str) -> CallToolResult:
    """The answer; what went wrong is one too, for the model reads answers alone."""
    try:
        answer = ask(name, arguments, client)
    except CofioError as error:
        return _refusal(error.message, error.hint)
    except Exception:  # noqa: BLE001 - whatever is wrong with one call, the others go on
        _log.exception("%s failed", name)
        return _refusal("Something went wrong inside cofio.", "Its log, on standard error, says what.")
    return CallToolResult(content=[TextContent(text=answer.text)], structured_content=answer.data)


def _refusal(message: str, hint: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=short(f"{message} {hint}"))], is_error=True)


def _client(context: ServerRequestContext[Any]) -> str:
    """Who asks, by the name that it gives itself."""
    told = context.session.client_params
    name = short(told.client_info.name, 64).replace("/", "-") if told else ""
    return _CLIENTS.get(name, name) or BY
