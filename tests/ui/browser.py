"""The browser of the tests: the Chromium or Chrome of this machine, driven as a person would.

python -m tests.ui.browser    # tells where it is, or what is missing
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
NEEDED = (
    "The tests of the pages need Chromium or Chrome (Debian: apt-get install chromium; Ubuntu: Google Chrome's own "
    "package; macOS: brew install --cask google-chrome)."
)


class Missing(Exception):
    """There is no browser on this machine."""


def installed() -> str:
    """Where it is. Missing where there is none."""
    found = next(filter(None, map(shutil.which, (*NAMES, *PLACES))), None)
    if found is None:
        raise Missing(NEEDED)
    return found


@contextmanager
def running() -> Iterator[Browser]:
    """It, without a window."""
    flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=installed(), args=flags)
        yield browser
        browser.close()


def main() -> int:
    """0 where there is one, else 1 and what is missing."""
    try:
        print(installed())
    except Missing as why:
        print(why, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
