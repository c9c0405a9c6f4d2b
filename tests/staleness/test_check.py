"""Freshness checks: whether the files, definitions and commands named by a memory have changed."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace

import pytest

from cofio.models.memory import Anchor
from cofio.staleness import FreshnessResult, StalenessChecker
from tests.staleness.conftest import NET, Repository


def test_unchanged_anchors_are_fresh(repo: Repository) -> None:
    memory = repo.memory("`make test` runs src/net.py and `parse_config()`")
    assert len(memory.anchors) == 3
    assert repo.freshness.check(memory) == FreshnessResult("fresh", ())


def test_written_file_is_changed_and_removed_file_is_vanished(repo: Repository) -> None:
    memory = repo.memory("The retry limit is in src/net.py.")
    path = repo.write("src/net.py", NET + "\n")
    assert (repo.state(memory), repo.notes(memory)) == ("changed", ("src/net.py has changed since",))
    repo.write("src/net.py", NET)
    assert repo.state(memory) == "fresh"
    path.rename(path.with_name("network.py"))
    assert (repo.state(memory), repo.notes(memory)) == ("vanished", ("src/net.py is gone",))


def test_touched_file_without_changes_is_fresh(repo: Repository) -> None:
    memory = repo.memory("The retry limit is in src/net.py.")
    (repo.root / "src/net.py").touch()
    assert repo.state(memory) == "fresh"


def test_folder_or_external_link_in_place_of_a_file_is_vanished(repo: Repository) -> None:
    memory = repo.memory("The retry limit is in src/net.py.")
    path = repo.root / "src/net.py"
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert repo.state(memory) == "vanished"
    path.unlink()
    path.mkdir()
    assert repo.state(memory) == "vanished"


def test_file_missing_on_another_branch_is_vanished(repo: Repository) -> None:
    repo.git("checkout", "-q", "-b", "feature")
    repo.write("src/new.py", "def brand_new(): ...\n")
    repo.commit()
    memory = repo.memory("`brand_new()` is in src/new.py, `make test` tests it")
    repo.git("checkout", "-q", "main")
    assert repo.state(memory) == "vanished"
    repo.git("checkout", "-q", "feature")
    assert repo.state(memory) == "fresh"


# ── Definitions ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_change_elsewhere_in_the_file_does_not_change_a_definition(repo: Repository) -> None:
    memory = repo.memory("`RetryPolicy.next_delay` doubles")
    repo.write("src/net.py", "import os\n" + NET.replace("RETRIES = 3", "RETRIES = 9  ") + "\n\nX = 1\n")
    assert repo.state(memory) == "fresh"
    repo.write("src/net.py", NET.replace("attempt * 2", "attempt * 3"))
    assert (repo.state(memory), repo.notes(memory)) == ("changed", ("RetryPolicy.next_delay has changed since",))


def test_trailing_white_space_does_not_change_a_definition(repo: Repository) -> None:
    memory = repo.memory("`connect()` is patient")
    repo.write("src/net.py", NET.replace("\n", "  \r\n"))
    assert repo.state(memory) == "fresh"


def test_moved_definition_is_changed_and_removed_definition_is_vanished(repo: Repository) -> None:
    memory = repo.memory("`parse_config()` reads the file")
    content = (repo.root / "src/config.py").read_text()
    repo.write("src/config.py", "def other(): ...\n")
    repo.write("lib/settings.py", f"import os\n\n\n{content}")
    assert StalenessChecker().check(memory) == FreshnessResult("changed", ("parse_config is in lib/settings.py now",))
    (repo.root / "lib/settings.py").unlink()
    result = StalenessChecker().check(memory)
    assert result == FreshnessResult("vanished", ("parse_config is gone from src/config.py",))
    (repo.root / "src/config.py").unlink()
    assert StalenessChecker().check(memory).state == "vanished"


# ── Commands ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "path", "old", "new", "unrelated"),
    [
        ("Run `make test`", "Makefile", "pytest -q", "pytest -x", ("cc main.c", "cc other.c")),
        ("Run npm run lint", "package.json", "eslint .", "biome .", ("vitest", "jest")),
        ("Run `just release`", "justfile", "git tag", "git push", ("just --list", "just -l")),
        ("Run `webctl`", "pyproject.toml", "web.cli:main", "web.cli:run", ('name = "web"', 'name = "shop"')),
    ],
)
def test_command_changes_only_with_its_own_recipe(
    repo: Repository, text: str, path: str, old: str, new: str, unrelated: tuple[str, str]
) -> None:
    memory = repo.memory(text)
    content = (repo.root / path).read_text()
    repo.write(path, content.replace(*unrelated))
    assert repo.state(memory) == "fresh"
    repo.write(path, content.replace(old, new))
    assert repo.state(memory) == "changed"
    repo.write(path, "")
    assert repo.state(memory) == "vanished"
    repo.write(path, content)
    assert repo.state(memory) == "fresh"


# ── Several anchors, no anchors ───────────────────────────────────────────────────────────────────────────────────────


def test_worst_of_several_anchors_counts_and_each_stale_one_is_noted(repo: Repository) -> None:
    memory = repo.memory("README.md, src/net.py and the Dockerfile say so")
    repo.write("src/net.py", "")
    assert (repo.state(memory), repo.notes(memory)) == ("changed", ("src/net.py has changed since",))
    (repo.root / "Dockerfile").unlink()
    assert repo.state(memory) == "vanished"
    assert repo.notes(memory) == ("src/net.py has changed since", "Dockerfile is gone")


def test_freshness_is_unknown_without_anchors_tree_or_access(repo: Repository) -> None:
    memory = repo.memory("The retry limit is in src/net.py.")
    assert repo.freshness.check(replace(memory, anchors=())) == FreshnessResult()
    assert StalenessChecker(reads=False).check(memory) == FreshnessResult()
    assert repo.freshness.check(replace(memory, project="")) == FreshnessResult()
    assert repo.freshness.check(replace(memory, project="web")) == FreshnessResult()
    shutil.rmtree(repo.root)
    assert repo.freshness.check(memory) == FreshnessResult()
    repo.root.mkdir()  # for example an empty mount point
    assert repo.freshness.check(memory) == FreshnessResult()


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/passwd", "src/../../secret.txt", "", ".", "a\0b", "x" * 5_000])
def test_anchor_outside_the_tree_is_not_followed(repo: Repository, path: str) -> None:
    """Anchors can be imported, so their paths are untrusted."""
    (repo.root.parent / "secret.txt").write_text("x")
    memory = repo.memory("README.md")
    for kind in ("file", "symbol", "command"):
        anchor = Anchor(kind=kind, name="secret", path=path, hash="0" * 16)
        assert repo.freshness.check(replace(memory, anchors=(anchor,))).state == "vanished"


def test_anchor_of_an_unknown_kind_is_ignored(repo: Repository) -> None:
    anchor = Anchor(kind="table", name="users", path="schema.sql", hash="0" * 16)
    memory = replace(repo.memory("README.md"), anchors=(anchor,))
    assert repo.freshness.check(memory) == FreshnessResult()


def test_ten_memories_are_checked_quickly(repo: Repository) -> None:
    memories = [repo.memory("`make test` runs src/net.py and `parse_config()`") for _ in range(10)]
    for memory in memories:
        repo.freshness.check(memory)
    started = time.thread_time()
    for memory in memories:
        repo.freshness.check(memory)
    assert time.thread_time() - started < 0.1
