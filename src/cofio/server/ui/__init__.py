"""Web UI: static files without a build step that call the HTTP API like any other client.

A page is an HTML fragment, `memories.html`, inserted into the common `app-shell.html`; its script and stylesheet
have its name. Shared files: `api.js` calls the service, `dom.js` creates elements from text only, `app-shell.js` has
the frame of every page, `events.js` listens for changes, `style.css` has the common styles.
"""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import NamedTuple

#: Pages in the order of the menu: names in URLs, and titles.
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
#: Content security policy: only our own files. Inline scripts and styles are blocked,
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


class StaticFile(NamedTuple):
    """File of the web UI, as sent to a browser."""

    content: bytes
    media: str


@cache
def static_files() -> dict[str, StaticFile]:
    """Return every file by its name. Files are read once: request data never becomes a path."""
    by_name = {}
    for path in files(__name__).iterdir():
        ending = path.name[path.name.rfind(".") :]
        if ending in _MEDIA:
            by_name[path.name] = StaticFile(path.read_bytes(), _MEDIA[ending])
    return by_name


@cache
def pages() -> dict[str, StaticFile]:
    """Return every complete page by its name."""
    return {name: StaticFile(_render_page(name).encode(), _HTML) for name in PAGES}


def _render_page(name: str) -> str:
    """Return the page inside the common frame."""
    folder = files(__name__)
    frame = Template((folder / "app-shell.html").read_text("utf-8"))
    entries = []
    for page, title in PAGES.items():
        here = ' aria-current="page"' if page == name else ""
        entries.append(f'    <a href="{page}"{here}>{escape(title)}</a>')
    return frame.substitute(
        title=escape(PAGES[name]),
        name=name,
        style=f'\n<link rel="stylesheet" href="{name}.css">' if f"{name}.css" in static_files() else "",
        menu="\n".join(entries),
        page=(folder / f"{name}.html").read_text("utf-8").rstrip(),
    )
