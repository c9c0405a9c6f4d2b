"""The answers to browsers: the pages, and the files that they load."""

from __future__ import annotations

from collections.abc import Callable

from cofio.api.desk import Call, Desk
from cofio.api.replies import Reply
from cofio.errors import NotFound
from cofio.page import PAGES, POLICY, File, pages, shipped

_FIRST = next(iter(PAGES))


def first_page(desk: Desk, given: None, call: Call) -> Reply:  # noqa: ARG001
    """The way to the first page. It is told from here on, so that it leads there behind a proxy's prefix too."""
    return Reply(b"", 307, media="text/html; charset=utf-8", headers={"Location": f"ui/{_FIRST}"})


def page_of(name: str) -> Callable[[Desk, None, Call], Reply]:
    """What answers with this page."""

    def whole_page(desk: Desk, given: None, call: Call) -> Reply:  # noqa: ARG001
        return _sent(pages()[name])

    whole_page.__name__ = f"{name}_page"  # every operation has a name of its own
    return whole_page


def page_file(desk: Desk, given: None, call: Call) -> Reply:  # noqa: ARG001
    """A script, a style or a picture. NotFound for what is none."""
    if call.file not in shipped():
        raise NotFound("There is nothing here.", "GET /ui is the way to the pages.")
    return _sent(shipped()[call.file])


def _sent(file: File) -> Reply:
    return Reply(file.content, media=file.media, headers={"Content-Security-Policy": POLICY})
