"""Whether what a memory speaks of is still as it was."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace

import pytest

from cofio.models.memory import Anchor
from cofio.staleness import FreshnessResult, StalenessChecker
from tests.staleness.conftest import NET, Repository


def test_what_has_not_changed_is_fresh(repo: Repository) -> None:
    memory = repo.memory("`make test` runs src/net.py and `parse_config()`")
    assert len(memory.anchors) == 3
    assert repo.freshness.check(memory) == FreshnessResult("fresh", ())


def test_a_file_that_was_written_to_has_changed_and_one_that_is_gone_has_vanished(repo: Repository) -> None:
    memory = repo.memory("The retry limit is in src/net.py.")
    path = repo.write("src/net.py", NET + "\n")
    assert (repo.state(memory), repo.notes(memory)) == ("changed", ("src/net.py has changed since",))
    repo.write("src/net.py", NET)
    assert repo.state(memory) == "fresh"
    path.rename(path.with_name("network.py"))
    assert (repo.state(memory), repo.notes(memory)) == ("vanished", ("src/net.py is gone",))


def test_a_file_that_is_touched_but_not_changed_is_fresh(repo: Repository) -> None:
    memory = repo.memory("The retry limit is in src/net.py.")
    (repo.root / "src/net.py").touch()
    assert repo.state(memory) == "fresh"


def test_a_folder_or_a_link_out_in_the_place_of_a_file_is_not_the_file(repo: Repository) -> None:
    memory = repo.memory("The retry limit is in src/net.py.")
    path = repo.root / "src/net.py"
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert repo.state(memory) == "vanished"
    path.unlink()
    path.mkdir()
    assert repo.state(memory) == "vanished"


def test_on_another_branch_what_is_missing_there_has_vanished(repo: Repository) -> None:
    repo.git("checkout", "-q", "-b", "feature")
    repo.write("src/new.py", "def brand_new(): ...\n")
    repo.commit()
    memory = repo.memory("`brand_new()` is in src/new.py, `make test` tests it")
    repo.git("checkout", "-q", "main")
    assert repo.state(memory) == "vanished"
    repo.git("checkout", "-q", "feature")
    assert repo.state(memory) == "fresh"


# ── definitions ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_change_elsewhere_in_the_file_is_no_change_of_the_definition(repo: Repository) -> None:
    memory = repo.memory("`RetryPolicy.next_delay` doubles")
    repo.write("src/net.py", "import os\n" + NET.replace("RETRIES = 3", "RETRIES = 9  ") + "\n\nX = 1\n")
    assert repo.state(memory) == "fresh"
    repo.write("src/net.py", NET.replace("attempt * 2", "attempt * 3"))
    assert (repo.state(memory), repo.notes(memory)) == ("changed", ("RetryPolicy.next_delay has changed since",))


def test_white_space_at_the_ends_of_lines_is_no_change(repo: Repository) -> None:
    memory = repo.memory("`connect()` is patient")
    repo.write("src/net.py", NET.replace("\n", "  \r\n"))
    assert repo.state(memory) == "fresh"


def test_a_definition_that_moved_is_told_where_it_is_and_one_that_is_gone_has_vanished(repo: Repository) -> None:
    memory = repo.memory("`parse_config()` reads the file")
    content = (repo.root / "src/config.py").read_text()
    repo.write("src/config.py", "def other(): ...\n")
    repo.write("lib/settings.py", f"import os\n\n\n{content}")
    assert StalenessChecker().check(memory) == FreshnessResult("changed", ("parse_config is in lib/settings.py now",))
    (repo.root / "lib/settings.py").unlink()
    told = StalenessChecker().check(memory)
    assert told == FreshnessResult("vanished", ("parse_config is gone from src/config.py",))
    (repo.root / "src/config.py").unlink()
    assert StalenessChecker().check(memory).state == "vanished"


# ── commands ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "path", "old", "new", "other"),
    [
        ("Run `make test`", "Makefile", "pytest -q", "pytest -x", ("cc main.c", "cc other.c")),
        ("Run npm run lint", "package.json", "eslint .", "biome .", ("vitest", "jest")),
        ("Run `just release`", "justfile", "git tag", "git push", ("just --list", "just -l")),
        ("Run `webctl`", "pyproject.toml", "web.cli:main", "web.cli:run", ('name = "web"', 'name = "shop"')),
    ],
)
def test_a_command_changes_with_its_own_recipe_alone(
    repo: Repository, text: str, path: str, old: str, new: str, other: tuple[str, str]
) -> None:
    memory = repo.memory(text)
    content = (repo.root / path).read_text()
    repo.write(path, content.replace(*other))
    assert repo.state(memory) == "fresh"
    repo.write(path, content.replace(old, new))
    assert repo.state(memory) == "changed"
    repo.write(path, "")
    assert repo.state(memory) == "vanished"
    repo.write(path, content)
    assert repo.state(memory) == "fresh"


# ── several, and none ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_several_anchors_the_worst_counts_and_each_stale_one_is_noted(repo: Repository) -> None:
    memory = repo.memory("README.md, src/net.py and the Dockerfile say so")
    repo.write("src/net.py", "")
    assert (repo.state(memory), repo.notes(memory)) == ("changed", ("src/net.py has changed since",))
    (repo.root / "Dockerfile").unlink()
    assert repo.state(memory) == "vanished"
    assert repo.notes(memory) == ("src/net.py has changed since", "Dockerfile is gone")


def test_nobody_can_tell_without_anchors_without_a_tree_or_without_reading(repo: Repository) -> None:
    memory = repo.memory("The retry limit is in src/net.py.")
    assert repo.freshness.check(replace(memory, anchors=())) == FreshnessResult()
    assert StalenessChecker(reads=False).check(memory) == FreshnessResult()
    assert repo.freshness.check(replace(memory, project="")) == FreshnessResult()
    assert repo.freshness.check(replace(memory, project="web")) == FreshnessResult()
    shutil.rmtree(repo.root)
    assert repo.freshness.check(memory) == FreshnessResult()
    repo.root.mkdir()  # where a disk is mounted on other days
    assert repo.freshness.check(memory) == FreshnessResult()


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/passwd", "src/../../secret.txt", "", ".", "a\0b", "x" * 5_000])
def test_an_anchor_that_leads_out_of_the_tree_is_never_followed(repo: Repository, path: str) -> None:
    """Anchors are imported too: what they say is anybody's."""
    (repo.root.parent / "secret.txt").write_text("x")
    memory = repo.memory("README.md")
    for kind in ("file", "symbol", "command"):
        anchor = Anchor(kind=kind, name="secret", path=path, hash="0" * 16)
        assert repo.freshness.check(replace(memory, anchors=(anchor,))).state == "vanished"


def test_an_anchor_of_a_later_version_says_nothing(repo: Repository) -> None:
    anchor = Anchor(kind="table", name="users", path="schema.sql", hash="0" * 16)
    memory = replace(repo.memory("README.md"), anchors=(anchor,))
    assert repo.freshness.check(memory) == FreshnessResult()


def test_ten_memories_are_checked_in_no_time(repo: Repository) -> None:
    memories = [repo.memory("`make test` runs src/net.py and `parse_config()`") for _ in range(10)]
    for memory in memories:
        repo.freshness.check(memory)
    began = time.thread_time()
    for memory in memories:
        repo.freshness.check(memory)
    assert time.thread_time() - began < 0.1
