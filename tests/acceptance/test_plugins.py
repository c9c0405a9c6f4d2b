"""The plugins under integrations/, in the real clients, from this checkout and without any network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.laptop import Laptop
from tests.acceptance.proxy import Outside

ROOT = Path(__file__).parents[2]
CLAUDE = ROOT / "integrations" / "claude-code"
#: Codex fetches a catalogue of plugins as soon as it may have any; nothing turns that off alone.
CATALOGUE = {"CONNECT github.com:443", "CONNECT api.github.com:443", "CONNECT chatgpt.com:443"}
MEMORY = "We decided to keep money in integers, in cents."


@pytest.fixture(scope="module")
def outside() -> Iterator[Outside]:
    """The way out. Nobody asked for anything there but that catalogue."""
    with Outside() as outside:
        yield outside
        assert set(outside.asked) <= CATALOGUE


@pytest.fixture
def laptop(new_laptop: Callable[[], Laptop]) -> Iterator[Laptop]:
    """With the service up, and nothing installed but what a plugin brings."""
    laptop = new_laptop()
    laptop.up()
    yield laptop
    laptop.down()


@pytest.fixture
def web(laptop: Laptop) -> Path:
    web = laptop.project("web")
    laptop.remember(MEMORY, web)
    return web


def in_claude(laptop: Laptop, *commands: str) -> None:
    for command in commands:
        done = laptop.run("claude", "plugin", *command.split(), at=laptop.home)
        assert done.code == 0, done.out + done.err


def check(laptop: Laptop, web: Path, run: Callable[[str], str]) -> None:
    """What is known comes, and what is said is learned."""
    assert MEMORY in run("Continue.")
    run("We use Vitest for unit tests.")
    laptop.settled()
    assert sorted("Vitest" in memory["text"] for memory in laptop.of(web)) == [False, True]


def test_the_plugin_of_claude_code_works_from_its_folder(laptop: Laptop, web: Path) -> None:
    check(laptop, web, lambda prompt: laptop.claude(prompt, "--plugin-dir", str(CLAUDE), at=web).read)


def test_the_plugin_of_claude_code_works_from_the_marketplace_and_goes_again(laptop: Laptop, web: Path) -> None:
    in_claude(laptop, f"validate {CLAUDE}", f"marketplace add {ROOT}", "install cofio@cofio")
    check(laptop, web, lambda prompt: laptop.claude(prompt, at=web).read)
    told = laptop.cofio("install", "claude-code", "--yes", "--provider", "skip").stdout
    assert "plugin" in told  # and no hooks beside it, which would do everything twice
    assert "hooks" not in (laptop.home / ".claude/settings.json").read_text(encoding="utf-8")
    in_claude(laptop, "uninstall cofio@cofio", "marketplace remove cofio")
    assert MEMORY not in laptop.claude("Continue.", at=web).read


def test_the_plugin_beside_installed_hooks_still_learns_once(laptop: Laptop, web: Path) -> None:
    laptop.cofio("install", "claude-code", "--yes", "--provider", "skip")
    before = laptop.inbox_status()["captured"]
    ran = laptop.claude("We use Vitest for unit tests.", "--plugin-dir", str(CLAUDE), at=web)
    assert ran.read.count(MEMORY) == 1
    laptop.settled()
    assert laptop.inbox_status()["captured"] - before == 1
    assert len(laptop.of(web)) == 2


def test_the_plugin_of_codex_works_once_its_hooks_are_approved(laptop: Laptop, web: Path) -> None:
    config = laptop.home / ".codex/config.toml"
    config.write_text(config.read_text(encoding="utf-8").replace("plugins = false", "plugins = true"), encoding="utf-8")
    for command in (f"marketplace add {ROOT}", "add cofio@cofio"):
        done = laptop.run("codex", "plugin", *command.split(), at=laptop.home)
        assert done.code == 0, done.out + done.err
    assert MEMORY not in laptop.codex("Continue.", at=web).read  # nobody has approved them
    laptop.trust()
    check(laptop, web, lambda prompt: laptop.codex(prompt, at=web).read)
