"""MCP protocol layer on the official SDK, which this module imports; it is slow to load."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol, TextIO, TypeVar, cast

import anyio
import anyio.to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from cofio.errors import CofioError, Conflict, InvalidInput, NotFound
from cofio.server.mcp.caller import KNOWN_AS
from cofio.server.mcp.dispatcher import Dispatcher
from cofio.server.mcp.prompts import PROMPTS
from cofio.server.mcp.resources import TEMPLATES
from cofio.server.mcp.tool_results import shorten
from cofio.server.mcp.tools import TOOLS, instructions
from cofio.version import __version__
from mcp import types

_AT_ONCE = 8  # concurrent calls; others wait
_THEIRS = (InvalidInput, NotFound, Conflict)  # errors caused by the request
_WRONG = "An internal error occurred in cofio. See the log of cofio for details."
_Context = ServerRequestContext[Any]
_PageParams = types.PaginatedRequestParams | None
_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)


class RunInThread(Protocol):
    """Function that runs blocking work and awaits it."""

    def __call__(self, work: Callable[..., _Result], *args: Any) -> Awaitable[_Result]: ...


def server(dispatcher: Dispatcher, run: RunInThread | None = None) -> Server[Any]:
    """Return an SDK server for any transport; by default, work runs in threads."""
    at_once = anyio.CapacityLimiter(_AT_ONCE)

    async def run_in_thread(work: Callable[..., _Result], *args: Any) -> _Result:
        # Calls whose client has gone may be aborted: every write is one transaction.
        return await anyio.to_thread.run_sync(work, *args, abandon_on_cancel=True, limiter=at_once)

    handlers = _SdkHandlers(dispatcher, run or run_in_thread)
    return Server(
        "cofio",
        version=__version__,
        title="cofio memory",
        instructions=instructions(),
        get_tool_input_schema=lambda name: next((tool.input_schema for tool in TOOLS if tool.name == name), None),
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_completion=handlers.complete,
    )


class _SdkHandlers:
    """Handlers of the SDK, which call the dispatcher."""

    def __init__(self, dispatcher: Dispatcher, run: RunInThread) -> None:
        self._dispatcher, self._run = dispatcher, run

    async def list_tools(self, _context: _Context, _params: _PageParams) -> types.ListToolsResult:
        return types.ListToolsResult.model_validate({"tools": [tool.as_listed() for tool in TOOLS]})

    async def call_tool(self, context: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return await self._run(_call_tool, self._dispatcher, params.name, params.arguments or {}, _read_client(context))

    async def list_prompts(self, _context: _Context, _params: _PageParams) -> types.ListPromptsResult:
        return types.ListPromptsResult.model_validate({"prompts": list(PROMPTS)})

    async def get_prompt(self, context: _Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        result = await self._run_checked(
            self._dispatcher.asked, params.name, params.arguments or {}, _read_client(context)
        )
        content = types.TextContent(text=result.text)
        return types.GetPromptResult(
            description=result.title, messages=[types.PromptMessage(role="user", content=content)]
        )

    async def list_resources(self, _context: _Context, params: _PageParams) -> types.ListResourcesResult:
        cursor = (params.cursor if params else None) or ""
        return types.ListResourcesResult.model_validate(await self._run_checked(self._dispatcher.listed, cursor))

    async def list_templates(self, _context: _Context, _params: _PageParams) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult.model_validate({"resourceTemplates": list(TEMPLATES)})

    async def read_resource(
        self, context: _Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        result = await self._run_checked(self._dispatcher.read, params.uri, _read_client(context))
        data = json.dumps(result.data, ensure_ascii=False)
        return types.ReadResourceResult(
            contents=[
                types.TextResourceContents(uri=params.uri, mime_type="text/plain", text=result.text),
                types.TextResourceContents(uri=params.uri, mime_type="application/json", text=data),
            ]
        )

    async def complete(self, _context: _Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        about = params.ref.name if isinstance(params.ref, types.PromptReference) else params.ref.uri
        suggestions = await self._run_checked(
            self._dispatcher.completed, about, params.argument.name, params.argument.value
        )
        more = suggestions.total > len(suggestions.values)
        return types.CompleteResult(
            completion=types.Completion(values=list(suggestions.values), total=suggestions.total, has_more=more)
        )

    async def _run_checked(self, ask: Callable[..., _Result], *args: Any) -> _Result:
        """Return the result; convert errors to protocol errors, which clients show to people."""
        return await self._run(_convert_errors, ask, *args)


def _call_tool(dispatcher: Dispatcher, name: str, arguments: Mapping[str, Any], client: str) -> types.CallToolResult:
    """Return the result of a tool; errors are results too, as the model sees only results."""
    try:
        result = dispatcher.call(name, arguments, client)
    except CofioError as error:
        problem = f"{error.message} {error.hint}"
    except Exception:  # noqa: BLE001 - a failing call must not stop the others
        _log.exception("%s failed", name)
        problem = _WRONG
    else:
        return types.CallToolResult(content=[types.TextContent(text=result.text)], structured_content=result.data)
    return types.CallToolResult(content=[types.TextContent(text=shorten(problem))], is_error=True)


def _convert_errors(ask: Callable[..., _Result], *args: Any) -> _Result:
    try:
        return ask(*args)
    except CofioError as error:
        code = types.INVALID_PARAMS if isinstance(error, _THEIRS) else types.INTERNAL_ERROR
        raise MCPError(code, shorten(str(error))) from error
    except Exception as error:
        _log.exception("%s failed", getattr(ask, "__name__", "request"))
        raise MCPError(types.INTERNAL_ERROR, _WRONG) from error


def _read_client(context: _Context) -> str:
    """Return the client's own name; "" if it sends none."""
    info = context.session.client_params
    name = shorten(info.client_info.name, 64).replace("/", "-") if info else ""
    return KNOWN_AS.get(name, name)


# ── standard input and output ─────────────────────────────────────────────────────────────────────────────────────────


def serve_streams(dispatcher: Dispatcher, reading: TextIO, writing: TextIO) -> None:
    """Serve the client on these lines until it disconnects."""

    async def serve() -> None:
        sdk = server(dispatcher)
        streams = (anyio.wrap_file(cast("Any", stream)) for stream in (reading, writing))
        async with stdio_server(*streams) as (incoming, outgoing):
            await sdk.run(incoming, outgoing, sdk.create_initialization_options())

    try:
        anyio.run(serve)
    except* OSError as errors:  # the client disconnected without reading the reply
        _log.info("the client disconnected: %s", errors.exceptions[0])


# ── HTTP ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


class HttpReply(NamedTuple):
    """Reply to an HTTP request."""

    status: int
    media: str
    body: bytes


def handle_post(dispatcher: Dispatcher, headers: Mapping[str, str], body: bytes) -> HttpReply:
    """Answer one POST, which is self-contained: no state is left for the next.

    Blocking, to be run in its own thread, outside the service's event loop: that thread also runs the tool.
    """
    pending = [{"type": "http.request", "body": body, "more_body": False}]
    status, media, content = 500, "", bytearray()

    async def receive() -> dict[str, Any]:
        if not pending:
            await anyio.sleep_forever()
        return pending.pop()

    async def send(message: Any) -> None:
        nonlocal status, media
        if message["type"] == "http.response.start":
            status = message["status"]
            media = dict(message["headers"]).get(b"content-type", b"").decode("latin-1")
        else:
            content.extend(message.get("body", b""))

    async def run_here(work: Callable[..., _Result], *args: Any) -> _Result:
        return work(*args)

    async def exchange() -> None:
        size = max(1, len(body))  # already checked on receipt
        manager = StreamableHTTPSessionManager(
            server(dispatcher, run_here), json_response=True, stateless=True, max_request_body_size=size
        )
        raw_headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": raw_headers}
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    anyio.run(exchange)
    return HttpReply(status, media, bytes(content))
