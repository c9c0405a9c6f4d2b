"""A real browser on the real service, with a real store. Whatever a test does, the page stays clean."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.http_api.caller import Caller
from tests.http_api.conftest import run_in_background, serve, shared_service  # noqa: F401 - fixtures
from tests.ui import browser

PATIENCE = 30_000  # milliseconds, for what takes some ten; the machine may be busy
LEGIBLE = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
PHONE = {"width": 360, "height": 740}
#: Where pictures of the pages are written, for whoever wants to look at them.
PICTURES = Path(__file__).resolve().parents[2] / "artefacts" / "pages"
WATCH = "addEventListener('securitypolicyviolation', (it) => console.error(`violates ${it.violatedDirective}`))"
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """One for all of these tests. Without a browser they are skipped; in CI that is a failure.

    It goes with the last of them: as long as it lives, no other event loop can run in this thread.
    """
    try:
        browser.installed()
    except browser.Missing as why:
        if os.environ.get("CI"):
            pytest.fail(str(why))
        pytest.skip(str(why))
    with browser.running() as running:
        yield running


class Visitor:
    """Opens the page, and notes whatever a page of ours never does."""

    def __init__(self, chromium: Browser) -> None:
        self._chromium = chromium
        self._contexts: list[BrowserContext] = []
        self.expected: set[int] = set()  # statuses that a test provokes
        self.faults: list[str] = []

    def __call__(self, service: Caller, where: str = "/ui/knowledge", **how: Any) -> Page:
        """A new tab of a browser that was never here."""
        context = self._chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **how})
        context.set_default_timeout(PATIENCE)
        self._contexts.append(context)
        context.add_init_script(WATCH)
        context.on("request", lambda each: self._look_at(each.url, service.url))
        page = context.new_page()
        page.on("console", lambda each: each.type in ("error", "warning") and self._heard(each.text))
        page.on("pageerror", lambda each: self.faults.append(str(each)))
        page.on("dialog", lambda each: (self.faults.append(f"a dialog: {each.message}"), each.dismiss()))
        page.goto(f"{service.url}{where}")
        return page

    def _look_at(self, url: str, home: str) -> None:
        if not url.startswith(f"{home}/"):
            self.faults.append(f"it asked {url}")

    def _heard(self, text: str) -> None:
        status = re.search(r"responded with a status of (\d+)", text)
        if not status or int(status[1]) not in self.expected:
            self.faults.append(text)

    def leave(self) -> None:
        for context in self._contexts:
            context.close()


def at(page: Page, now: Any) -> Page:
    """The page as somebody sees it at that time, and from then on."""
    page.clock.set_fixed_time(now)
    page.reload()
    return page


def picture(page: Page, name: str) -> None:
    """Write what the page shows to the artefacts: "map", "map-dark", "map-phone"."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True, animations="disabled")


def hindrances(page: Page) -> list[str]:
    """What axe finds that keeps people out: none, on a page of ours. In the dark, only colours differ from light."""
    is_dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    about = {"runOnly": COLOURS if is_dark else LEGIBLE, "resultTypes": ["violations"]}
    found = Axe().run(page, options=about).response["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window; 0, on a page of ours."""
    width: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visitor]:
    visitor = Visitor(chromium)
    yield visitor
    visitor.leave()
    assert visitor.faults == []


@pytest.fixture
def service(serve: Callable[..., Caller]) -> Caller:  # noqa: F811
    """A fresh and open service."""
    return serve()
