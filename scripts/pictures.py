"""Screenshots for the docs: the pages in a real browser, on the real service, with ninety days of a fictional team.

python scripts/pictures.py [FOLDER]      # default: docs/pictures
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "examples")]

from playwright.sync_api import Browser, Page, expect  # noqa: E402
from showcase import fill  # noqa: E402
from tests.ui import browser  # noqa: E402

SIZE = {"width": 1280, "height": 800}
_SETTLED = 1_500  # milliseconds until everything is drawn


def main() -> int:
    target = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs" / "pictures"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder))
        with _served(folder) as url, browser.running() as chromium:
            for name, (where, prepared) in PICTURES.items():
                _taken(chromium, f"{url}/ui/{where}", prepared, target / f"{name}.png")
    return 0


@contextmanager
def _served(home: str) -> Iterator[str]:
    """Yield the URL of the service on this home, once it answers."""
    port = _free()
    around = {"PATH": os.environ["PATH"], "HOME": home, "COFIO_HOME": home, "COFIO_PORT": str(port)}
    running = subprocess.Popen([sys.executable, "-m", "cofio", "serve"], env=around)
    try:
        for _ in range(200):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait()


def _taken(chromium: Browser, url: str, prepared: Callable[[Page], None], target: Path) -> None:
    context = chromium.new_context(viewport=SIZE, reduced_motion="reduce")
    page = context.new_page()
    page.goto(url)
    expect(page.locator("#page")).to_be_visible()
    prepared(page)
    page.wait_for_timeout(_SETTLED)
    page.screenshot(path=target)
    context.close()


def _free() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


# ── the pictures ──────────────────────────────────────────────────────────────────────────────────────────────────────


SAID = """User: Hi! We switched payments from MySQL 8 to PostgreSQL 17. The staging port is 9090 now.
Assistant: Done, the migrations pass.
User: thanks! And we never deploy payments on a Friday."""


def _as_it_opens(_page: Page) -> None:
    pass


def _first_hit(page: Page) -> None:
    page.get_by_role("option").first.click()


def _tried(page: Page) -> None:
    page.get_by_role("textbox", name="A conversation, or plain notes").fill(SAID)
    page.get_by_role("textbox", name="Project").fill("payments")
    page.get_by_role("button", name="See what would be learned").click()
    expect(page.get_by_role("button", name="Learn all of it")).to_be_visible()


PICTURES: dict[str, tuple[str, Callable[[Page], None]]] = {
    "overview": ("overview", _as_it_opens),
    "memories": ("memories#/?q=how%20do%20we%20deploy%20payments%3F", _first_hit),
    "map": ("map", _as_it_opens),
    "inbox": ("inbox#/try", _tried),
}


if __name__ == "__main__":
    sys.exit(main())
