"""Chat completions: memories are added to an OpenAI request, an upstream answers, the exchange is captured.

request ─ enrich ─▶ upstream ─▶ answer, streamed through ─ capture ─▶ inbox
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from cofio.errors import CofioError, NotConfigured, Unavailable
from cofio.models.memory import MAX_LABEL
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.responses import JSON, HandlerReply, openai_error
from cofio.server.openai_proxy.types import ChatReply, ChatRequest, digest
from cofio.server.openai_proxy.upstream import Upstream, UpstreamCall

CLIENT = "chat"  # client name, if the caller sends none
_EVENTS = "text/event-stream"
_TURN_GOES_ON = 30.0  # seconds to hold a turn that ends in a tool call: its answer is still to come
#: Headers passed on to the upstream, and back to the caller. Keys and cookies are excluded.
_ONWARD = ("idempotency-key", "openai-beta")
_BACK = ("retry-after", "retry-after-ms", "x-should-retry", "x-request-id", "openai-version", "openai-processing-ms")
_LIMITS = "x-ratelimit-"
_log = logging.getLogger(__name__)


def completions(state: AppState, body: bytes, call: RequestContext) -> HandlerReply:
    upstream = _require_upstream(state)
    request = ChatRequest(body)
    context = ""
    if request.question.strip():
        try:
            context = state.keeper.enrich_prompt(request.question, include_team=True, by=call.by)
        except CofioError as error:  # the chat continues without memories
            _log.warning("chat request forwarded without memories: %s", error)
    headers = {name: call.headers[name] for name in _ONWARD if name in call.headers}
    upstream_call = upstream.prepare("/chat/completions", request.enriched(context), headers)
    about = _label_exchange(request, call, context)
    return HandlerReply(
        ForwardedReply(
            upstream_call, upstream.key, lambda answer: _capture(state, request.question, answer, call.by, about)
        )
    )


def models(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    upstream = _require_upstream(state)
    return HandlerReply(ForwardedReply(upstream.prepare("/models"), upstream.key))


def _require_upstream(state: AppState) -> Upstream:
    if state.upstream is None:
        hint = "Set CHAT_UPSTREAM_URL to an OpenAI-compatible server, such as https://api.openai.com/v1."
        raise NotConfigured("No model server is configured for chat completions.", state.upstream_problem or hint)
    return state.upstream


def _label_exchange(request: ChatRequest, call: RequestContext, context: str) -> dict[str, Any]:
    """Return the fields of the exchange besides its messages."""
    headers, viewer = call.headers, call.viewer
    owner = (viewer.user, viewer.agent, viewer.team) if viewer else ()
    source = f"chat/{request.model}".rstrip("/")
    session, named_source = (headers.get(f"x-cofio-{name}", "").strip()[:MAX_LABEL] for name in ("session", "source"))
    return {
        "client": headers.get("x-cofio-client", "").strip() or CLIENT,
        "session": session or request.session or f"chat-{request.conversation}",
        "turn": digest(*owner, request.turn),  # equal words of two callers are different turns
        "source": named_source or (viewer.below(source) if viewer else source),
        "project": call.project,
        "injected": (context,) if context else (),
    }


def _capture(state: AppState, question: str, answer: ChatReply, by: str, about: Mapping[str, Any]) -> None:
    """Capture the exchange. A failure is only logged: the client has its answer."""
    turn = [{"role": "user", "content": question}, {"role": "assistant", "content": answer.text}]
    messages = [message for message in turn if message["content"].strip()]
    if not messages:
        return
    try:
        state.keeper.amend(messages, hold=_TURN_GOES_ON if answer.is_tool_call else 0.0, by=by, **about)
        state.worker.wake()
    except CofioError as error:
        _log.warning("chat exchange not captured: %s", error)


class ForwardedReply:
    """Upstream answer passed on: at once, or line by line if streamed. Then it is given to `capture`."""

    def __init__(
        self, upstream_call: UpstreamCall, key: str, capture: Callable[[ChatReply], None] | None = None
    ) -> None:
        self._call = upstream_call
        self._key = key
        self._capture = capture
        self._answer = ChatReply()
        self._is_answered = self._broken = False
        self._rest = b""  # incomplete last line

    def head(self) -> HandlerReply:
        """Return the status and headers. Errors are passed on; an unreachable upstream is our error."""
        try:
            reply = self._call.open()
            headers = {
                name: value for name, value in reply.headers.items() if name in _BACK or name.startswith(_LIMITS)
            }
            if 300 <= reply.status < 400:
                hint = "Set CHAT_UPSTREAM_URL to the address it redirects to; redirects are not followed."
                raise Unavailable(f"The chat upstream answered {reply.status}, a redirect.", hint)
            if reply.status >= 400:
                return HandlerReply(self._refusal(reply.status), reply.status, JSON, headers)
            media = reply.headers.get("content-type", JSON)
            self._is_answered = True
            if media.startswith(_EVENTS):
                return HandlerReply(b"", reply.status, media, {**headers, "X-Accel-Buffering": "no"})
            body = self._call.read_all()
        except Unavailable as error:
            self._is_answered = False
            return HandlerReply(_fault(str(error), 502, "upstream_unavailable"), 502)
        self._answer.add_body(body)
        return HandlerReply(body or b"{}", reply.status, media, headers)

    def part(self) -> bytes:
        """Return the lines received, byte for byte; if the stream breaks, an error event and the end marker."""
        while not self._broken:
            try:
                more = self._call.read()
            except Unavailable as error:
                self._broken = True
                return b"\n" + b"data: " + _fault(str(error), 502, "upstream_broke_off") + b"\n\n"
            lines, end, rest = (self._rest + more).rpartition(b"\n")
            received, self._rest = (lines + end, rest) if more else (self._rest, b"")
            for line in received.splitlines():
                self._answer.add_line(line)
            if received or not more:
                return received
        return b""

    def done(self) -> None:
        self._call.close()
        if self._capture and self._is_answered:
            self._capture(self._answer)

    def stop(self) -> None:
        self._call.cancel()

    def _refusal(self, status: int) -> bytes:
        """Return the upstream's error in OpenAI's format, without the key."""
        raw = self._call.read_error()
        if self._key:
            raw = raw.replace(self._key.encode(), "…".encode())
        try:
            if isinstance(json.loads(raw)["error"], dict):
                return raw
        except (ValueError, RecursionError, TypeError, KeyError):
            pass  # no JSON, such as a gateway's page: converted to OpenAI's format
        text = " ".join(raw.decode("utf-8", "replace").split())[:300]
        return _fault(f"The chat upstream answered {status}: {text or 'an empty body'}", status, "upstream_error")


def _fault(message: str, status: int, code: str) -> bytes:
    return json.dumps({"error": {**openai_error(message, status), "param": None, "code": code}}).encode()
