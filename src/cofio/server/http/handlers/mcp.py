"""Handler of MCP over HTTP: the same dispatcher as `cofio mcp`, with the permissions of the caller's key.

    POST /mcp ─ guard, as every route ─▶ exchange ─ the SDK, in this thread ─▶ counter ─ the keeper, as the key sees it

There are no sessions: every request is self-contained and answered with JSON, so GET and DELETE are not supported. The
SDK is imported by the first request, in its thread.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Unpack, cast

from cofio.errors import CofioError, Forbidden, InvalidInput, NotConfigured
from cofio.models.auth import allows
from cofio.models.exchange import CaptureStatus, ExchangeKwargs
from cofio.server.http import auth
from cofio.server.http.context import AppState, RequestContext, summarize_response
from cofio.server.http.handlers.hooks import CALLED
from cofio.server.http.handlers.ingest import store_capture
from cofio.server.http.responses import JSON, HandlerReply, redact_for_stranger
from cofio.server.mcp import SDK
from cofio.server.mcp.caller import BY, KNOWN_AS, Caller, MemoriesLike, folder_or_name
from cofio.server.mcp.dispatcher import Dispatcher
from cofio.server.mcp.tool_results import ToolResult
from cofio.server.mcp.tools import find_tool

_READ = ("accept", "content-type")  # headers read, besides the protocol's own
_OWN = "mcp-"


def exchange(state: AppState, request: bytes, context: RequestContext) -> HandlerReply:
    """Return the SDK's reply to this message. NotConfigured if the SDK is not installed."""
    sdk_server = _import_sdk()
    headers = {name: value for name, value in context.headers.items() if name in _READ or name.startswith(_OWN)}
    reply = sdk_server.handle_post(RequestDispatcher(state.as_assistant(), context), headers, request)
    if reply.status >= 400 and not reply.media.startswith(JSON):
        raise InvalidInput(
            "The request is not a valid MCP request.", f"Send Accept: {JSON}, and one message per request."
        )
    return HandlerReply(reply.body, reply.status, reply.media or JSON)


def _import_sdk() -> ModuleType:
    """Import the module with the SDK: takes about a second, once."""
    try:
        from cofio.server.mcp import sdk_server
    except ImportError as error:
        if (error.name or "").startswith("cofio"):
            raise
        message = f"/mcp needs the MCP SDK, which is not installed or too old ({error.name} is missing)."
        raise NotConfigured(message, f"Install it beside cofio, where the service runs: pip install '{SDK}'.") from None
    logging.getLogger("mcp").setLevel(logging.WARNING)  # it would log every request again
    return sdk_server


class RequestDispatcher(Dispatcher):
    """Tools for one request, with the permissions of the caller's key; calls are recorded in the audit log."""

    def __init__(self, state: AppState, context: RequestContext) -> None:
        super().__init__(self._open, self._build_caller)
        self._state, self._call = state, context
        self._named = (
            folder_or_name if context.local and context.viewer is None else str
        )  # paths of this machine, or names

    def call(self, name: str, arguments: Mapping[str, Any], client: str) -> ToolResult:
        """Run a tool. Forbidden for a read-only key if the tool writes."""
        tool = find_tool(name)
        act = f"POST /mcp {name}"
        try:
            if not tool.reads and not allows(self._call.role, "write"):
                raise auth.insufficient_role("write", self._call.role)
            result = super().call(name, arguments, client)
        except Forbidden as error:
            self._state.audit(self._call, act, "refused", error.message)
            raise
        if not tool.reads:
            self._state.audit(self._call, act, "done", summarize_response(result.data))
        return result

    @contextmanager
    def _open(self, *, new: bool) -> Iterator[MemoriesLike]:  # noqa: ARG002 - the service has its store
        try:
            yield cast(MemoriesLike, _LimitedMemories(self._state))
        except CofioError as error:
            raise redact_for_stranger(error) if self._call.viewer else error from None

    def _build_caller(self, client: str) -> Caller:
        headers, viewer = self._call.headers, self._call.viewer
        # In the older protocol, requests do not name their client.
        product = headers.get("user-agent", "").partition("/")[0].strip()
        product = KNOWN_AS.get(product, product)
        name = client or headers.get("x-cofio-client", "").strip() or (product if product in CALLED else BY)
        return Caller(
            self._named(self._call.project) or None,
            name,
            self._named,
            auth.caller(headers, self._call.key, BY),
            viewer.below if viewer else str,
        )


class _LimitedMemories:
    """Keeper as the tools use it; calls that wait for the model queue with all others."""

    def __init__(self, state: AppState) -> None:
        self._state = state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state.keeper, name)

    def capture(
        self, messages: str, *, wait: bool = False, by: str = BY, **fields: Unpack[ExchangeKwargs]
    ) -> CaptureStatus:
        return store_capture(self._state, messages, wait=wait, by=by, about=dict(fields))
