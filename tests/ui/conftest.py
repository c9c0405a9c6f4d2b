"""A real browser on the real service with a real store. Every page must stay free of errors."""

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

TIMEOUT = 30_000  # milliseconds; most steps take about ten, but the machine may be busy
ACCESSIBILITY_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
COLOUR_RULES = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
PHONE = {"width": 360, "height": 740}
#: Screenshots of the pages.
PICTURES = Path(__file__).resolve().parents[2] / "artefacts" / "pages"
REPORT_VIOLATIONS = (
    "addEventListener('securitypolicyviolation', (it) => console.error(`violates ${it.violatedDirective}`))"
)
expect.set_options(timeout=TIMEOUT)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Return a browser for all UI tests. Without one they are skipped, or fail in CI.

    It is closed after the last UI test: while it runs, no other event loop can run in this thread.

    """
    try:
        browser.find_browser()
    except browser.Missing as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
    with browser.running() as running:
        yield running


class Visitor:
    """Open pages, and record everything a page must not do."""

    def __init__(self, chromium: Browser) -> None:
        self._chromium = chromium
        self._contexts: list[BrowserContext] = []
        self.expected: set[int] = set()  # statuses that a test provokes
        self.errors: list[str] = []

    def __call__(self, service: Caller, path: str = "/ui/knowledge", **options: Any) -> Page:
        """Open a new tab with an empty profile."""
        context = self._chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(TIMEOUT)
        self._contexts.append(context)
        context.add_init_script(REPORT_VIOLATIONS)
        context.on("request", lambda request: self._check_request(request.url, service.url))
        page = context.new_page()
        page.on(
            "console",
            lambda console_message: (
                console_message.type in ("error", "warning") and self._record_message(console_message.text)
            ),
        )
        page.on("pageerror", lambda page_error: self.errors.append(str(page_error)))
        page.on("dialog", lambda dialog: (self.errors.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(f"{service.url}{path}")
        return page

    def as_owner(self, service: Caller, path: str, **options: Any) -> Page:
        """Open the page with a link of the service's home, as `cofio ui` does."""
        link = service.owner.post("/ui/links", {}).json["path"]
        page = self(service, f"/{link}", **options)
        page.wait_for_url("**/ui/overview")
        page.goto(f"{service.url}{path}")
        return page

    def _check_request(self, url: str, home: str) -> None:
        if not url.startswith(f"{home}/"):
            self.errors.append(f"it asked {url}")

    def _record_message(self, text: str) -> None:
        status = re.search(r"responded with a status of (\d+)", text)
        if not status or int(status[1]) not in self.expected:
            self.errors.append(text)

    def close(self) -> None:
        for context in self._contexts:
            context.close()


def set_clock(page: Page, time: Any) -> Page:
    """Reload the page with a fixed clock."""
    page.clock.set_fixed_time(time)
    page.reload()
    return page


def screenshot(page: Page, name: str) -> None:
    """Save a screenshot of the page: "map", "map-dark", "map-phone"."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", full_page=True, animations="disabled")


def accessibility_violations(page: Page) -> list[str]:
    """Return the accessibility violations found by axe. In dark mode only colours are checked."""
    is_dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    options = {"runOnly": COLOUR_RULES if is_dark else ACCESSIBILITY_RULES, "resultTypes": ["violations"]}
    violations = Axe().run(page, options=options).response["violations"]
    return [f"{violation['id']}: {node['html'][:200]}" for violation in violations for node in violation["nodes"]]


def overflow(page: Page) -> int:
    """Return by how many pixels the page is wider than its window."""
    width: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visitor]:
    visitor = Visitor(chromium)
    yield visitor
    visitor.close()
    assert visitor.errors == []


@pytest.fixture
def service(serve: Callable[..., Caller]) -> Caller:  # noqa: F811
    """Return an open service with an empty store."""
    return serve()
