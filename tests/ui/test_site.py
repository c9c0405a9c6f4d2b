"""The documentation site: built from docs/, complete, and free of external resources."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.http_api.caller import Caller
from tests.ui.conftest import Visitor, overflow, screenshot

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md"))


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site as built by `make site`."""
    target = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, ROOT / "scripts" / "site.py", target]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert process.returncode == 0, process.stdout + process.stderr
    return target


@pytest.fixture(scope="module")
def site(site_folder: Path) -> Iterator[Caller]:
    """Serve the site with a static file server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(site_folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Caller(f"http://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_page_exists_and_is_in_the_menu(site_folder: Path, page: Path) -> None:
    assert (site_folder / page.with_suffix(".html")).is_file()
    index = (site_folder / "index.html").read_text("utf-8")
    assert f'href="{page.with_suffix(".html")}"' in index or page.name == "index.md"


def test_internal_links_are_valid(site_folder: Path) -> None:
    for page in site_folder.rglob("*.html"):
        for target in re.findall(r'(?:href|src)="([^"#?]+)', page.read_text("utf-8")):
            if "://" not in target and not target.startswith(("data:", "mailto:", "/")):
                assert (page.parent / target).exists(), f"{page.relative_to(site_folder)}: {target}"


def test_site_loads_no_external_resources(site_folder: Path) -> None:
    for page in site_folder.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|link)[^>]*(?:src|href)="(https?://[^"]+)"', page.read_text("utf-8"))
        assert loaded == [], page.name


def test_site_is_read_and_searched(site: Caller, visit: Visitor) -> None:
    page = visit(site, "/index.html")
    expect(page.get_by_role("heading", name="cofio", level=1)).to_be_visible()
    page.get_by_role("link", name="Quickstart").first.click()
    expect(page.get_by_role("heading", name="Quickstart", level=1)).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("undo")
    expect(page.get_by_role("link", name=re.compile("undo", re.IGNORECASE)).first).to_be_visible()


def test_site_fits_a_phone(site: Caller, visit: Visitor) -> None:
    page = visit(site, "/how-to/mcp.html", viewport={"width": 360, "height": 740})
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert overflow(page) <= 0
    screenshot(page, "site-phone")
