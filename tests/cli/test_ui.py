"""`cofio ui`: the address of the pages, and the browser that is sent there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cofio.cli.ui import PAGES
from cofio.core import Keeper
from cofio.models.auth import Grant
from cofio.server import ui
from cofio.settings import Settings

from ..install.conftest import Machine, hanging
from .conftest import Cofio, Shell, served


@pytest.fixture
def keeper(new_keeper: Callable[[str], Keeper]) -> Keeper:
    return new_keeper("served")


@pytest.fixture
def url(keeper: Keeper, tmp_path: Path) -> Iterator[str]:
    """That of an open service."""
    with served(keeper, Settings(home=tmp_path, port=0)) as url:
        yield url


@pytest.fixture
def opened(tmp_path: Path, shell: Shell) -> Callable[[], str]:
    """Puts a browser on this machine; what it was sent to."""
    browser, note = tmp_path / "browser", tmp_path / "note"
    browser.write_text(f'#!/bin/sh\necho "$1" > {note}\n', encoding="utf-8")
    browser.chmod(0o700)
    shell.env["BROWSER"] = f"{browser} %s"
    return lambda: note.read_text(encoding="utf-8").strip() if note.exists() else ""


def test_the_pages_are_those_that_there_are() -> None:
    assert tuple(ui.PAGES) == PAGES


def test_the_browser_is_sent_to_the_service_that_is_named(shell: Shell, url: str, opened: Callable[[], str]) -> None:
    done = shell("ui", "--url", url)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{url}/ui\n", "")
    assert opened() == f"{url}/ui"
    assert shell("ui", "map", "--url", f"{url}/").stdout == f"{url}/ui/map\n"
    assert opened() == f"{url}/ui/map"


def test_only_the_address_is_printed_where_that_is_asked_for(shell: Shell, url: str, opened: Callable[[], str]) -> None:
    assert shell("ui", "--print", "--url", url).stdout == f"{url}/ui\n"
    told = json.loads(shell("ui", "agents", "--print", "--json", "--url", url).stdout)
    assert told == {"url": f"{url}/ui/agents", "opened": False}
    assert opened() == ""
    assert json.loads(shell("ui", "--json", "--url", url).stdout) == {"url": f"{url}/ui", "opened": True}
    assert opened() == f"{url}/ui"


@pytest.mark.parametrize("browser", ["", "/nowhere/browser %s", "{folder}/lynx %s"])
def test_without_a_browser_the_address_is_there_to_be_opened(
    shell: Shell, url: str, tmp_path: Path, browser: str
) -> None:
    terminals = tmp_path / "lynx"
    terminals.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n", encoding="utf-8")
    terminals.chmod(0o700)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        shell.env.pop(name, None)
    shell.env |= {"BROWSER": browser.format(folder=tmp_path), "PATH": str(tmp_path)}
    done = shell("ui", "--url", url)
    assert (done.returncode, done.stdout) == (0, f"{url}/ui\n")
    assert "Open this URL yourself" in done.stderr
    assert not (tmp_path / "ran").exists()  # a browser of the terminal shows none of it


def test_that_the_page_asks_for_a_key_is_said_and_no_key_is_in_the_address(
    shell: Shell, url: str, keeper: Keeper, opened: Callable[[], str]
) -> None:
    _, secret = keeper.create_key(Grant(name="root", role="admin"))
    for given in ((), ("--api-key", secret)):
        done = shell("ui", "--url", url, *given)
        assert (done.returncode, done.stdout) == (0, f"{url}/ui\n")
        assert "asks for a key" in done.stderr
        assert opened() == f"{url}/ui"


def test_the_service_of_the_store_is_found_and_none_is_started(shell: Shell, opened: Callable[[], str]) -> None:
    done = shell("ui")
    assert (done.returncode, done.stdout) == (1, "")
    assert "`cofio up` starts it" in done.stderr
    assert "error" in json.loads(shell("ui", "--json").stderr)
    assert opened() == ""
    assert json.loads(shell("status", "--json").stdout)["running"] is False
    started = json.loads(shell("up", "--json").stdout)
    assert shell("ui", "settings").stdout == f"{started['url']}/ui/settings\n"
    assert opened() == f"{started['url']}/ui/settings"


def test_a_service_that_does_not_answer_is_told(cofio: Cofio, machine: Machine) -> None:
    done = cofio("ui", "--url", "http://127.0.0.1:9")
    assert done.exit_code == 1
    assert "No service answers at http://127.0.0.1:9" in done.stderr
    with hanging(machine):
        done = machine("ui", "--print")
    assert done.exit_code == 1
    assert "does not answer" in done.stderr
    assert "cofio down --force" in done.stderr


def test_a_page_that_there_is_not_is_refused_with_those_that_there_are(cofio: Cofio) -> None:
    done = cofio("ui", "nowhere")
    assert done.exit_code == 2
    assert "'memories'" in done.stderr


def test_the_shell_completes_the_pages(shell: Shell) -> None:
    shell.env |= {"_COFIO_COMPLETE": "bash_complete", "COMP_WORDS": "cofio ui m", "COMP_CWORD": "2"}
    script = "import sys; sys.argv = ['cofio']; from cofio.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", script], env=shell.env, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["plain,memories", "plain,map"]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")
