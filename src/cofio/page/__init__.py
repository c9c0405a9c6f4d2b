"""The pages that people open in a browser: plain files, with no build step, that call the HTTP API like any client.

A page is a part of HTML, `memories.html`, that `frame.html` is put around, the same for all; its script and its style
have its name. What the files share: `api.js` calls the service, `dom.js` makes elements of text alone, `frame.js` has
what stands around every page, `live.js` hears that something has moved, `style.css` has the look.
"""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import NamedTuple

#: The pages, in the order of the menu: their names in addresses, and what people call them.
PAGES = {
    "overview": "Overview",
    "memories": "Memories",
    "map": "Map",
    "sessions": "Sessions",
    "inbox": "Inbox",
    "upkeep": "Upkeep",
    "knowledge": "Knowledge",
    "team": "Team",
    "agents": "Agents and keys",
    "settings": "Settings",
}
#: What a browser may load on our pages: what we serve, and nothing else. No script or style may stand within a page,
#: and no text can become markup.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_HTML = "text/html; charset=utf-8"
_MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
}
_STYLE = '\n<link rel="stylesheet" href="{name}.css">'


class File(NamedTuple):
    """A file of the pages, as a browser gets it."""

    content: bytes
    media: str


@cache
def shipped() -> dict[str, File]:
    """Every file by its name. They are read once: nothing that is asked for ever becomes a path."""
    found = {}
    for each in files(__name__).iterdir():
        ending = each.name[each.name.rfind(".") :]
        if ending in _MEDIA:
            found[each.name] = File(each.read_bytes(), _MEDIA[ending])
    return found


@cache
def pages() -> dict[str, File]:
    """Every page by its name, whole."""
    return {name: File(_framed(name).encode(), _HTML) for name in PAGES}


def _framed(name: str) -> str:
    """The page with what stands around every one of them."""
    folder = files(__name__)
    frame = Template((folder / "frame.html").read_text("utf-8"))
    return frame.substitute(
        title=escape(PAGES[name]),
        name=name,
        style=_STYLE.format(name=name) if f"{name}.css" in shipped() else "",
        menu="\n".join(_entry(each, name) for each in PAGES),
        page=(folder / f"{name}.html").read_text("utf-8").rstrip(),
    )


def _entry(name: str, current: str) -> str:
    here = ' aria-current="page"' if name == current else ""
    return f'    <a href="{name}"{here}>{escape(PAGES[name])}</a>'
