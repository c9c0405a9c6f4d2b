"""The browser of the tests: the installed Chromium or Chrome.

python -m tests.ui.browser    # print its path, or what is missing

"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PLACES = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",)
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
REQUIREMENT = (
    "The tests of the pages need Chromium or Chrome (Debian: apt-get install chromium; Ubuntu: Google Chrome's own "
    "package; macOS: brew install --cask google-chrome)."
)


class Missing(Exception):
    """No browser is installed."""


def find_browser() -> str:
    """Return the path of the browser, or raise Missing."""
    path = next(filter(None, map(shutil.which, (*NAMES, *PLACES))), None)
    if path is None:
        raise Missing(REQUIREMENT)
    return path


@contextmanager
def running() -> Iterator[Browser]:
    """Run the browser without a window."""
    flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_browser(), args=flags)
        yield browser
        browser.close()


def main() -> int:
    """Print the path and return 0, or print what is missing and return 1."""
    try:
        print(find_browser())
    except Missing as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
