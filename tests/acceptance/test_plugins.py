"""The plugins in integrations/ in the real clients, from this checkout and without network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.laptop import Laptop
from tests.acceptance.proxy import Outside

ROOT = Path(__file__).parents[2]
CLAUDE = ROOT / "integrations" / "claude-code"
#: Codex fetches a plugin catalogue as soon as plugins are enabled; it cannot be disabled alone.
CATALOGUE = {"CONNECT github.com:443", "CONNECT api.github.com:443", "CONNECT chatgpt.com:443"}
MEMORY = "We decided to keep money in integers, in cents."


@pytest.fixture(scope="module")
def outside() -> Iterator[Outside]:
    """Yield a blocking proxy. Only the catalogue may be requested."""
    with Outside() as outside:
        yield outside
        assert set(outside.asked) <= CATALOGUE


@pytest.fixture
def laptop(new_laptop: Callable[[], Laptop]) -> Iterator[Laptop]:
    """Return a laptop with a running service and nothing else installed."""
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
        result = laptop.run("claude", "plugin", *command.split(), at=laptop.home)
        assert result.code == 0, result.out + result.err


def check(laptop: Laptop, web: Path, run: Callable[[str], str]) -> None:
    """Check that memories are recalled and statements learned."""
    assert MEMORY in run("Continue.")
    run("We use Vitest for unit tests.")
    laptop.settled()
    assert sorted("Vitest" in memory["text"] for memory in laptop.of(web)) == [False, True]


def test_claude_code_plugin_works_from_its_folder(laptop: Laptop, web: Path) -> None:
    check(laptop, web, lambda prompt: laptop.claude(prompt, "--plugin-dir", str(CLAUDE), at=web).read)


def test_claude_code_plugin_works_from_the_marketplace_and_is_removable(laptop: Laptop, web: Path) -> None:
    in_claude(laptop, f"validate {CLAUDE}", f"marketplace add {ROOT}", "install cofio@cofio")
    check(laptop, web, lambda prompt: laptop.claude(prompt, at=web).read)
    output = laptop.cofio("install", "claude-code", "--yes", "--provider", "skip").stdout
    assert "plugin" in output  # without installed hooks, which would run everything twice
    assert "hooks" not in (laptop.home / ".claude/settings.json").read_text(encoding="utf-8")
    in_claude(laptop, "uninstall cofio@cofio", "marketplace remove cofio")
    assert MEMORY not in laptop.claude("Continue.", at=web).read


def test_plugin_with_installed_hooks_learns_once(laptop: Laptop, web: Path) -> None:
    laptop.cofio("install", "claude-code", "--yes", "--provider", "skip")
    before = laptop.inbox_status()["captured"]
    run = laptop.claude("We use Vitest for unit tests.", "--plugin-dir", str(CLAUDE), at=web)
    assert run.read.count(MEMORY) == 1
    laptop.settled()
    assert laptop.inbox_status()["captured"] - before == 1
    assert len(laptop.of(web)) == 2


def test_codex_plugin_works_once_its_hooks_are_approved(laptop: Laptop, web: Path) -> None:
    config = laptop.home / ".codex/config.toml"
    config.write_text(config.read_text(encoding="utf-8").replace("plugins = false", "plugins = true"), encoding="utf-8")
    for command in (f"marketplace add {ROOT}", "add cofio@cofio"):
        result = laptop.run("codex", "plugin", *command.split(), at=laptop.home)
        assert result.code == 0, result.out + result.err
    assert MEMORY not in laptop.codex("Continue.", at=web).read  # not approved yet
    laptop.trust()
    check(laptop, web, lambda prompt: laptop.codex(prompt, at=web).read)
