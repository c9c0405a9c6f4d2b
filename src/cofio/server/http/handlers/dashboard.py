"""Handlers of the web UI: its pages with their files, the overview and the event stream."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from cofio.errors import InvalidInput, NotFound, StoreBusy
from cofio.server.http import event_stream, requests
from cofio.server.http.auth import HOME_KEY
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.handlers.ingest import status
from cofio.server.http.page_sessions import LINK_SECONDS, cookie_name
from cofio.server.http.responses import HandlerReply
from cofio.server.ui import PAGES, POLICY, StaticFile, pages, static_files
from cofio.version import __version__

Plain = dict[str, Any]
_PATIENCE = 0.2  # seconds that a first request waits for the model's state


def overview(state: AppState, request: requests.RequestModel, context: RequestContext) -> Plain:
    content = state.keeper.dashboard.overview(**request.arguments()).as_dict()
    try:
        extraction = status(state, None, context, patience=_PATIENCE)
    except StoreBusy:  # the model's state is not known yet
        extraction = state.keeper.extraction()
    return {
        **content,
        "inbox": None if context.viewer else state.keeper.inbox_status().as_dict(),
        "extraction": extraction,
        "version": __version__,
        "uptime_seconds": round(time.monotonic() - state.began, 3),
    }


def events(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    return HandlerReply(event_stream.EventStream(state.news, state.keeper.dashboard.news(), still=event_stream.STILL))


def redirect_to_ui(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    """Redirect to the first page, by a relative URL, so that it works behind a proxy's prefix."""
    first = next(iter(PAGES))
    return HandlerReply(b"", 307, media="text/html; charset=utf-8", headers={"Location": f"ui/{first}"})


def create_page_link(state: AppState, request: requests.EmptyRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    """Return a link for the holder of the home's key only: the session would outlive another key."""
    if context.holder != HOME_KEY:
        hint = "Run `cofio ui` where the service runs, as its user."
        raise InvalidInput("The key is not that of the service's home.", hint)
    return {"path": f"ui/open?code={state.page_sessions.issue_code()}", "expires_in_seconds": LINK_SECONDS}


def open_page_link(state: AppState, request: requests.PageLinkRequest, context: RequestContext) -> HandlerReply:
    """Set the cookie of a new session, and go on to the page.

    By a refresh: after a redirect, a browser would not send the cookie if another site has opened the link.
    """
    session = state.page_sessions.redeem(request.code)
    if not session:
        raise NotFound("The link has been used, or is too old.", "Run `cofio ui` again.")
    page = request.page if request.page in PAGES else next(iter(PAGES))
    cookie = f"{cookie_name(context.headers)}={session}; Path=/; HttpOnly; SameSite=Strict"
    content = f'<!doctype html><meta http-equiv="refresh" content="0; url={page}"><a href="{page}">cofio</a>'
    return HandlerReply(content.encode(), media="text/html; charset=utf-8", headers={"Set-Cookie": cookie})


def page_of(name: str) -> Callable[[AppState, None, RequestContext], HandlerReply]:
    """Return the handler of this page."""
    return lambda _state, _request, _context: _send_file(pages()[name])


def page_file(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    """Return a script, stylesheet or image. NotFound for any other name."""
    if context.file not in static_files():
        raise NotFound("The web UI has no such file.", "Open /ui for its start page.")
    return _send_file(static_files()[context.file])


def _send_file(file: StaticFile) -> HandlerReply:
    return HandlerReply(file.content, media=file.media, headers={"Content-Security-Policy": POLICY})
