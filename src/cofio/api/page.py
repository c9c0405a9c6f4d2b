"""The answers to browsers: the pages, and the files that they load."""

from __future__ import annotations

from cofio.api.desk import Call, Desk
from cofio.api.replies import Reply
from cofio.errors import NotFound
from cofio.page import POLICY, shipped

_PAGE = ".html"
_FIRST = "knowledge"


def first_page(desk: Desk, given: None, call: Call) -> Reply:  # noqa: ARG001
    """The way to the first page. It is told from here on, so that it leads there behind a proxy's prefix too."""
    return Reply(b"", 307, media="text/html; charset=utf-8", headers={"Location": f"ui/{_FIRST}"})


def knowledge_page(desk: Desk, given: None, call: Call) -> Reply:  # noqa: ARG001
    return _file(f"{_FIRST}{_PAGE}")


def page_file(desk: Desk, given: None, call: Call) -> Reply:  # noqa: ARG001
    """A script, a style or a picture. NotFound for what is none; a page has an address of its own."""
    if call.file not in shipped() or call.file.endswith(_PAGE):
        raise NotFound("There is nothing here.", "GET /ui is the way to the pages.")
    return _file(call.file)


def _file(name: str) -> Reply:
    content, media = shipped()[name]
    return Reply(content, media=media, headers={"Content-Security-Policy": POLICY})
