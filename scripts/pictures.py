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
        with _start_service(folder) as url, browser.running() as chromium:
            for name, (path, prepare) in PICTURES.items():
                _take_picture(chromium, f"{url}/ui/{path}", prepare, target / f"{name}.png")
    return 0


@contextmanager
def _start_service(home: str) -> Iterator[str]:
    """Yield the URL of the service on this home, once it answers."""
    port = _find_free_port()
    environment = {"PATH": os.environ["PATH"], "HOME": home, "COFIO_HOME": home, "COFIO_PORT": str(port)}
    process = subprocess.Popen([sys.executable, "-m", "cofio", "serve"], env=environment)
    try:
        for _ in range(200):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _take_picture(chromium: Browser, url: str, prepare: Callable[[Page], None], target: Path) -> None:
    context = chromium.new_context(viewport=SIZE, reduced_motion="reduce")
    page = context.new_page()
    page.goto(url)
    expect(page.locator("#page")).to_be_visible()
    prepare(page)
    page.wait_for_timeout(_SETTLED)
    page.screenshot(path=target)
    context.close()


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# ── the pictures ──────────────────────────────────────────────────────────────────────────────────────────────────────


SAMPLE = """User: Hi! We switched payments from MySQL 8 to PostgreSQL 17. The staging port is 9090 now.
Assistant: Done, the migrations pass.
User: thanks! And we never deploy payments on a Friday."""


def _do_nothing(_page: Page) -> None:
    pass


def _open_first_hit(page: Page) -> None:
    page.get_by_role("option").first.click()


def _try_text(page: Page) -> None:
    page.get_by_role("textbox", name="A conversation, or plain notes").fill(SAMPLE)
    page.get_by_role("textbox", name="Project").fill("payments")
    page.get_by_role("button", name="See what would be learned").click()
    expect(page.get_by_role("button", name="Learn all of it")).to_be_visible()


PICTURES: dict[str, tuple[str, Callable[[Page], None]]] = {
    "overview": ("overview", _do_nothing),
    "memories": ("memories#/?q=how%20do%20we%20deploy%20payments%3F", _open_first_hit),
    "map": ("map", _do_nothing),
    "inbox": ("inbox#/try", _try_text),
}


if __name__ == "__main__":
    sys.exit(main())
