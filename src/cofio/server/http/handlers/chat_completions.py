"""Chat completions: memories are added to an OpenAI request, an upstream answers, the exchange is captured.

request ─ enrich ─▶ upstream ─▶ answer, streamed through ─ capture ─▶ inbox
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from cofio.errors import CofioError, NotConfigured, Unavailable
from cofio.models.memory import MAX_LABEL
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.error_responses import openai_error
from cofio.server.http.responses import JSON, HandlerReply
from cofio.server.openai_proxy.types import ChatReply, ChatRequest, digest
from cofio.server.openai_proxy.upstream import ReplyHead, Upstream, UpstreamCall

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
    context = _find_context(state, request, call)
    headers = {name: call.headers[name] for name in _ONWARD if name in call.headers}
    upstream_call = upstream.prepare("/chat/completions", request.enriched(context), headers)
    return HandlerReply(LearnedCompletion(upstream_call, upstream.key, ChatCall(state, call, request, context)))


def models(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    upstream = _require_upstream(state)
    return HandlerReply(ForwardedReply(upstream.prepare("/models"), upstream.key))


class ForwardedReply:
    """Upstream answer passed on: whole, or line by line if streamed."""

    def __init__(self, upstream_call: UpstreamCall, key: str) -> None:
        self._call = upstream_call
        self._key = key
        self._rest = b""  # incomplete last line
        self._broken = False

    def head(self) -> HandlerReply:
        """Return the status and headers. Errors are passed on; an unreachable upstream is our error."""
        try:
            reply = self._call.open()
            if 300 <= reply.status < 400:
                hint = "Set CHAT_UPSTREAM_URL to the address it redirects to; redirects are not followed."
                raise Unavailable(f"The chat upstream answered {reply.status}, a redirect.", hint)
            if reply.status >= 400:
                return HandlerReply(self._refusal(reply.status), reply.status, JSON, _select_headers(reply))
            media = reply.headers.get("content-type", JSON)
            if media.startswith(_EVENTS):
                return HandlerReply(b"", reply.status, media, {**_select_headers(reply), "X-Accel-Buffering": "no"})
            whole = self._call.read_all()
        except Unavailable as error:
            return HandlerReply(_fault(str(error), 502, "upstream_unavailable"), 502)
        self.on_body(whole)
        return HandlerReply(whole or b"{}", reply.status, media, _select_headers(reply))

    def part(self) -> bytes:
        """Return the lines received, byte for byte; if the stream breaks, an error event and the end marker."""
        while not self._broken:
            try:
                more = self._call.read()
            except Unavailable as error:
                self._broken = True
                return b"\n" + b"data: " + _fault(str(error), 502, "upstream_broke_off") + b"\n\n"
            lines, end, rest = (self._rest + more).rpartition(b"\n")
            whole, self._rest = (lines + end, rest) if more else (self._rest, b"")
            self.on_lines(whole)
            if whole or not more:
                return whole
        return b""

    def on_lines(self, lines: bytes) -> None:
        """Handle the lines of a stream that were passed on."""

    def on_body(self, body: bytes) -> None:
        """Handle a whole body that was passed on."""

    def done(self) -> None:
        self._call.close()

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


class LearnedCompletion(ForwardedReply):
    """Answer that is captured after it was passed on."""

    def __init__(self, upstream_call: UpstreamCall, key: str, talk: ChatCall) -> None:
        super().__init__(upstream_call, key)
        self._talk = talk
        self._answer = ChatReply()
        self._answered = False

    def head(self) -> HandlerReply:
        head = super().head()
        self._answered = head.status < 300
        return head

    def on_lines(self, lines: bytes) -> None:
        for line in lines.splitlines():
            self._answer.add_line(line)

    def on_body(self, body: bytes) -> None:
        self._answer.add_body(body)

    def done(self) -> None:
        """Capture the exchange. A failure is only logged: the client has its answer."""
        super().done()
        if self._answered:
            self._talk.capture(self._answer)


class ChatCall:
    """Caller, project and session of a chat."""

    def __init__(self, state: AppState, call: RequestContext, request: ChatRequest, context: str) -> None:
        self._state = state
        self._request = request
        self._by = call.by
        headers = call.headers
        viewer = call.viewer
        whose = (viewer.user, viewer.agent, viewer.team) if viewer else ()
        usual = f"chat/{request.model}".rstrip("/")
        self._about: dict[str, Any] = {
            "client": headers.get("x-cofio-client", "").strip() or CLIENT,
            "session": _read_label(headers, "x-cofio-session") or request.session or f"chat-{request.conversation}",
            "turn": digest(*whose, request.turn),  # equal words of two callers are different turns
            "source": _read_label(headers, "x-cofio-source") or (viewer.below(usual) if viewer else usual),
            "project": call.project,
            "injected": (context,) if context else (),
        }

    def capture(self, answer: ChatReply) -> None:
        turn = [{"role": "user", "content": self._request.question}, {"role": "assistant", "content": answer.text}]
        messages = [message for message in turn if message["content"].strip()]
        if not messages:
            return
        hold = _TURN_GOES_ON if answer.is_tool_call else 0.0
        try:
            self._state.keeper.amend(messages, hold=hold, by=self._by, **self._about)
            self._state.worker.wake()
        except CofioError as error:
            _log.warning("chat exchange not captured: %s", error)


def _require_upstream(state: AppState) -> Upstream:
    if state.upstream is None:
        hint = "Set CHAT_UPSTREAM_URL to an OpenAI-compatible server, such as https://api.openai.com/v1."
        raise NotConfigured("No chat upstream is configured.", state.upstream_problem or hint)
    return state.upstream


def _find_context(state: AppState, request: ChatRequest, context: RequestContext) -> str:
    """Return memories relevant to the last user message. If they cannot be read, the chat continues without."""
    question = request.question
    if not question.strip():
        return ""
    try:
        return state.keeper.enrich_prompt(question, include_team=True, by=context.by)
    except CofioError as error:
        _log.warning("chat request forwarded without memories: %s", error)
        return ""


def _read_label(headers: Mapping[str, str], name: str) -> str:
    return headers.get(name, "").strip()[:MAX_LABEL]


def _select_headers(reply: ReplyHead) -> dict[str, str]:
    headers = reply.headers.items()
    return {name: value for name, value in headers if name in _BACK or name.startswith(_LIMITS)}


def _fault(message: str, status: int, code: str) -> bytes:
    return json.dumps({"error": {**openai_error(message, status), "param": None, "code": code}}).encode()
