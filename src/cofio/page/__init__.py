"""The pages that people open in a browser: plain files, with no build step, that call the HTTP API like any client.

A page is one HTML file, `knowledge.html`; what it loads stands beside it, and `/ui/` serves both. What the files share:
`api.js` calls the service, `dom.js` makes elements of text alone, `frame.js` has what stands around every page.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

#: What a browser may load on our pages: what we serve, and nothing else. No script or style may stand within a page,
#: and no text can become markup.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
}


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
