"""The `cofio ui` command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from cofio.cli.web_pages import PAGES
from cofio.core import Keeper
from cofio.models.auth import Grant
from cofio.server import ui
from cofio.settings import Settings

from ..install.conftest import Machine, hanging
from .conftest import InProcessCli, Shell, running_service


@pytest.fixture
def keeper(new_keeper: Callable[[str], Keeper]) -> Keeper:
    return new_keeper("served")


@pytest.fixture
def url(keeper: Keeper, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of a service without keys."""
    with running_service(keeper, Settings(home=tmp_path, port=0)) as url:
        yield url


@pytest.fixture
def opened_url(tmp_path: Path, shell: Shell) -> Callable[[], str]:
    """Configure a fake browser, and return a function that returns the URL it was given."""
    browser, note = tmp_path / "browser", tmp_path / "note"
    browser.write_text(f'#!/bin/sh\necho "$1" > {note}\n', encoding="utf-8")
    browser.chmod(0o700)
    shell.env["BROWSER"] = f"{browser} %s"
    return lambda: note.read_text(encoding="utf-8").strip() if note.exists() else ""


def test_page_names_equal_those_of_the_server() -> None:
    assert tuple(ui.PAGES) == PAGES


def test_browser_opens_the_named_service(shell: Shell, url: str, opened_url: Callable[[], str]) -> None:
    result = shell("ui", "--url", url)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{url}/ui\n", "")
    assert opened_url() == f"{url}/ui"
    assert shell("ui", "map", "--url", f"{url}/").stdout == f"{url}/ui/map\n"
    assert opened_url() == f"{url}/ui/map"


def test_print_option_prints_the_url_only(shell: Shell, url: str, opened_url: Callable[[], str]) -> None:
    assert shell("ui", "--print", "--url", url).stdout == f"{url}/ui\n"
    payload = json.loads(shell("ui", "agents", "--print", "--json", "--url", url).stdout)
    assert payload == {"url": f"{url}/ui/agents", "opened": False}
    assert opened_url() == ""
    assert json.loads(shell("ui", "--json", "--url", url).stdout) == {"url": f"{url}/ui", "opened": True}
    assert opened_url() == f"{url}/ui"


@pytest.mark.parametrize("browser", ["", "/nowhere/browser %s", "{folder}/lynx %s"])
def test_url_is_printed_without_a_graphical_browser(shell: Shell, url: str, tmp_path: Path, browser: str) -> None:
    terminals = tmp_path / "lynx"
    terminals.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n", encoding="utf-8")
    terminals.chmod(0o700)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        shell.env.pop(name, None)
    shell.env |= {"BROWSER": browser.format(folder=tmp_path), "PATH": str(tmp_path)}
    result = shell("ui", "--url", url)
    assert (result.returncode, result.stdout) == (0, f"{url}/ui\n")
    assert "Open this URL yourself" in result.stderr
    assert not (tmp_path / "ran").exists()  # a text browser cannot show the page


def test_required_key_is_mentioned_and_not_part_of_the_url(
    shell: Shell, url: str, keeper: Keeper, opened_url: Callable[[], str]
) -> None:
    _, secret = keeper.create_key(Grant(name="root", role="admin"))
    for arguments in ((), ("--api-key", secret)):
        result = shell("ui", "--url", url, *arguments)
        assert (result.returncode, result.stdout) == (0, f"{url}/ui\n")
        assert "asks for a key" in result.stderr
        assert opened_url() == f"{url}/ui"


def test_running_service_is_used_and_none_is_started(shell: Shell, opened_url: Callable[[], str]) -> None:
    result = shell("ui")
    assert (result.returncode, result.stdout) == (1, "")
    assert "Start the service with `cofio up`" in result.stderr
    assert "error" in json.loads(shell("ui", "--json").stderr)
    assert opened_url() == ""
    assert json.loads(shell("status", "--json").stdout)["running"] is False
    started = json.loads(shell("up", "--json").stdout)
    link = shell("ui", "settings").stdout.strip()
    assert link.startswith(f"{started['url']}/ui/open?code=")
    assert link.endswith("&page=settings")
    assert opened_url() == link
    with urlopen(link) as page:
        assert b"url=settings" in page.read()


def test_unresponsive_service_is_reported(cofio: InProcessCli, machine: Machine) -> None:
    result = cofio("ui", "--url", "http://127.0.0.1:9")
    assert result.exit_code == 1
    assert "No service answers at http://127.0.0.1:9" in result.stderr
    with hanging(machine):
        result = machine("ui", "--print")
    assert result.exit_code == 1
    assert "does not answer" in result.stderr
    assert "cofio down --force" in result.stderr


def test_unknown_page_is_rejected_with_valid_names(cofio: InProcessCli) -> None:
    result = cofio("ui", "nowhere")
    assert result.exit_code == 2
    assert "'memories'" in result.stderr


def test_shell_completes_page_names(shell: Shell) -> None:
    shell.env |= {"_COFIO_COMPLETE": "bash_complete", "COMP_WORDS": "cofio ui m", "COMP_CWORD": "2"}
    script = "import sys; sys.argv = ['cofio']; from cofio.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", script], env=shell.env, capture_output=True, text=True, check=False)
    assert result.stdout.split() == ["plain,memories", "plain,map"]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")
