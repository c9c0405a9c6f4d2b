"""MCP protocol layer on the official SDK, which this module imports; it is slow to load."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import anyio
import anyio.to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    PromptMessage,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
)

from cofio.errors import CofioError, Conflict, InvalidInput, NotFound
from cofio.server.mcp.dispatcher import Dispatcher
from cofio.server.mcp.early_handshake import NAME, TITLE, LineSource, input_schema, prompts, templates, tools
from cofio.server.mcp.tool_handlers import KNOWN_AS
from cofio.server.mcp.tool_results import shorten
from cofio.server.mcp.tools import instructions
from cofio.version import __version__

_AT_ONCE = 8  # concurrent calls; others wait
_THEIRS = (InvalidInput, NotFound, Conflict)  # errors caused by the request
_WRONG = "Something went wrong inside cofio.", "See its log."
_Context = ServerRequestContext[Any]
_Told = TypeVar("_Told")
_log = logging.getLogger(__name__)


class RunInThread(Protocol):
    """Function that runs blocking work and awaits it."""

    def __call__(self, work: Callable[..., _Told], *given: Any) -> Awaitable[_Told]: ...


def server(counter: Dispatcher, run: RunInThread | None = None) -> Server[Any]:
    """Return an SDK server for any transport; by default, work runs in threads."""
    told = _SdkHandlers(counter, run or _in_threads())
    return Server(
        NAME,
        version=__version__,
        title=TITLE,
        instructions=instructions(),
        get_tool_input_schema=input_schema,
        on_list_tools=told.list_tools,
        on_call_tool=told.call_tool,
        on_list_prompts=told.list_prompts,
        on_get_prompt=told.get_prompt,
        on_list_resources=told.list_resources,
        on_list_resource_templates=told.list_templates,
        on_read_resource=told.read_resource,
        on_completion=told.complete,
    )


class _SdkHandlers:
    """Handlers of the SDK, which call the dispatcher."""

    def __init__(self, counter: Dispatcher, run: RunInThread) -> None:
        self._counter, self._run = counter, run

    async def list_tools(self, _context: _Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult.model_validate(tools())

    async def call_tool(self, context: _Context, params: CallToolRequestParams) -> CallToolResult:
        return await self._run(_called, self._counter, params.name, params.arguments or {}, _client(context))

    async def list_prompts(self, _context: _Context, _params: PaginatedRequestParams | None) -> ListPromptsResult:
        return ListPromptsResult.model_validate(prompts())

    async def get_prompt(self, context: _Context, params: GetPromptRequestParams) -> GetPromptResult:
        told = await self._told(self._counter.asked, params.name, params.arguments or {}, _client(context))
        content = TextContent(text=told.text)
        return GetPromptResult(description=told.title, messages=[PromptMessage(role="user", content=content)])

    async def list_resources(self, _context: _Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        cursor = (params.cursor if params else None) or ""
        return ListResourcesResult.model_validate(await self._told(self._counter.listed, cursor))

    async def list_templates(
        self, _context: _Context, _params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult.model_validate(templates())

    async def read_resource(self, context: _Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        told = await self._told(self._counter.read, params.uri, _client(context))
        data = json.dumps(told.data, ensure_ascii=False)
        return ReadResourceResult(
            contents=[
                TextResourceContents(uri=params.uri, mime_type="text/plain", text=told.text),
                TextResourceContents(uri=params.uri, mime_type="application/json", text=data),
            ]
        )

    async def complete(self, _context: _Context, params: CompleteRequestParams) -> CompleteResult:
        about = params.ref.name if isinstance(params.ref, PromptReference) else params.ref.uri
        told = await self._told(self._counter.completed, about, params.argument.name, params.argument.value)
        more = told.total > len(told.values)
        return CompleteResult(completion=Completion(values=list(told.values), total=told.total, has_more=more))

    async def _told(self, ask: Callable[..., _Told], *given: Any) -> _Told:
        """Return the result; convert errors to protocol errors, which clients show to people."""
        return await self._run(_in_protocol, ask, *given)


def _called(counter: Dispatcher, name: str, arguments: Mapping[str, Any], client: str) -> CallToolResult:
    """Return the result of a tool; errors are results too, as the model sees only results."""
    try:
        answer = counter.call(name, arguments, client)
    except CofioError as error:
        return _refusal(error.message, error.hint)
    except Exception:  # noqa: BLE001 - a failing call must not stop the others
        _log.exception("%s failed", name)
        return _refusal(*_WRONG)
    return CallToolResult(content=[TextContent(text=answer.text)], structured_content=answer.data)


def _refusal(message: str, hint: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=shorten(f"{message} {hint}"))], is_error=True)


def _in_protocol(ask: Callable[..., _Told], *given: Any) -> _Told:
    try:
        return ask(*given)
    except CofioError as error:
        code = INVALID_PARAMS if isinstance(error, _THEIRS) else INTERNAL_ERROR
        raise MCPError(code, shorten(str(error))) from error
    except Exception as error:
        _log.exception("%s failed", getattr(ask, "__name__", "a question"))
        raise MCPError(INTERNAL_ERROR, " ".join(_WRONG)) from error


def _client(context: _Context) -> str:
    """Return the client's own name; "" if it sends none."""
    told = context.session.client_params
    name = shorten(told.client_info.name, 64).replace("/", "-") if told else ""
    return KNOWN_AS.get(name, name)


# ── standard input and output ─────────────────────────────────────────────────────────────────────────────────────────


def serve_streams(counter: Dispatcher, reading: LineSource, writing: Any) -> None:
    """Serve the client on these lines until it disconnects."""

    async def serve() -> None:
        made = server(counter)
        wrapped = (anyio.wrap_file(cast("Any", each)) for each in (reading, writing))
        async with stdio_server(*wrapped) as (heard, told):
            await made.run(heard, told, made.create_initialization_options())

    try:
        anyio.run(serve)
    except* OSError as gone:  # the client disconnected without reading the reply
        _log.info("the client disconnected: %s", gone.exceptions[0])


def _in_threads() -> RunInThread:
    at_once = anyio.CapacityLimiter(_AT_ONCE)

    async def run(work: Callable[..., _Told], *given: Any) -> _Told:
        # Calls whose client has gone may be aborted: every write is one transaction.
        return await anyio.to_thread.run_sync(work, *given, abandon_on_cancel=True, limiter=at_once)

    return run


# ── HTTP ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


class HttpReply(NamedTuple):
    """Reply to an HTTP request."""

    status: int
    media: str
    body: bytes


def handle_post(counter: Dispatcher, headers: Mapping[str, str], body: bytes) -> HttpReply:
    """Answer one POST, which is self-contained: no state is left for the next.

    Blocking, to be run in its own thread: the body is read and the reply written here, outside the service's event
    loop.
    """
    return anyio.run(_exchanged, counter, headers, body)


async def _exchanged(counter: Dispatcher, headers: Mapping[str, str], body: bytes) -> HttpReply:
    size = max(1, len(body))  # already checked on receipt
    manager = StreamableHTTPSessionManager(
        server(counter, _here), json_response=True, stateless=True, max_request_body_size=size
    )
    told = _BufferedRequest(body)
    named = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": named}
    async with manager.run():
        await manager.handle_request(scope, told.receive, told.send)
    return HttpReply(told.status, told.media, bytes(told.said))


class _BufferedRequest:
    """Both ends of an HTTP request for an in-process ASGI app: the body sent, and the reply received."""

    def __init__(self, body: bytes) -> None:
        self._sent = [{"type": "http.request", "body": body, "more_body": False}]
        self.status, self.media, self.said = 500, "", bytearray()

    async def receive(self) -> dict[str, Any]:
        if not self._sent:
            await anyio.sleep_forever()
        return self._sent.pop()

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.media = dict(message["headers"]).get(b"content-type", b"").decode("latin-1")
        else:
            self.said += message.get("body", b"")


async def _here(work: Callable[..., _Told], *given: Any) -> _Told:
    """Run in this thread, which has nothing else to do."""
    return work(*given)
