"""Handlers of the web UI: its pages and their files."""

from __future__ import annotations

from collections.abc import Callable

from cofio.errors import NotFound
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.responses import HandlerReply
from cofio.server.ui import PAGES, POLICY, StaticFile, pages, static_files

_FIRST = next(iter(PAGES))


def redirect_to_ui(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    """Redirect to the first page, by a relative URL, so that it works behind a proxy's prefix."""
    return HandlerReply(b"", 307, media="text/html; charset=utf-8", headers={"Location": f"ui/{_FIRST}"})


def page_of(name: str) -> Callable[[AppState, None, RequestContext], HandlerReply]:
    """Return the handler of this page."""

    def whole_page(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
        return _send_file(pages()[name])

    whole_page.__name__ = f"{name}_page"  # operation names must be unique
    return whole_page


def page_file(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    """Return a script, stylesheet or image. NotFound for any other name."""
    if context.file not in static_files():
        raise NotFound("The web UI has no such file.", "Open /ui for its start page.")
    return _send_file(static_files()[context.file])


def _send_file(file: StaticFile) -> HandlerReply:
    return HandlerReply(file.content, media=file.media, headers={"Content-Security-Policy": POLICY})
