"""Handlers of the clients' hooks, in the clients' own JSON: hook input in, hook output out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cofio.hooks.client_events import event, reply
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.responses import HandlerReply

#: Display names of the clients.
CALLED: Mapping[str, str] = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "cursor": "Cursor",
    "openclaw": "OpenClaw",
}


def answer_to(client: str) -> Callable[[AppState, bytes, RequestContext], HandlerReply]:
    """Return the handler for hooks of this client."""

    def answer(state: AppState, request: bytes, call: RequestContext) -> HandlerReply:
        hook_event = event(client, request)
        context = state.sessions.handle(
            hook_event, call.project, raw=request, local=call.local, at=call.at, keeper=state.keeper
        )
        if hook_event.kind != "start":
            state.worker.wake()
        content = reply(hook_event, context)
        return HandlerReply(content) if content else HandlerReply(b"", 204)

    return answer
