"""Small real repositories, and a keeper that reads them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.core import Keeper
from cofio.models.memory import Memory
from cofio.staleness import StalenessChecker
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder

NET = '''"""The network."""

RETRIES = 3


def connect(host):
    """Connect, patiently."""
    for _ in range(RETRIES):
        dial(host)


class RetryPolicy:
    limit = 5

    def next_delay(self, attempt):
        return attempt * 2
'''
FILES = {
    "src/net.py": NET,
    "src/config.py": "def parse_config(path):\n    return read(path)\n",
    "config/prod.yaml": "retries: 3\n",
    "scripts/deploy.sh": "#!/bin/sh\nfly deploy\n",
    "README.md": "# Web\n",
    "Dockerfile": "FROM scratch\n",
    "Makefile": "VERSION := 1\n.PHONY: test\ntest: build\n\tpytest -q\n\nbuild:\n\tcc main.c\n",
    "package.json": '{"name": "web", "scripts": {"lint": "eslint .", "test": "vitest"}}',
    "justfile": "default:\n    just --list\n\n@release version='1':\n    git tag {{version}}\n",
    "pyproject.toml": '[project]\nname = "web"\n[project.scripts]\nwebctl = "web.cli:main"\n',
}


class Repository:
    """A git repository, and a staleness checker for it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.freshness = StalenessChecker()
        root.mkdir()
        self.git("init", "-q", "-b", "main")
        for name, content in FILES.items():
            self.write(name, content)
        self.commit()

    def git(self, *arguments: str) -> None:
        identities = {
            f"GIT_{role}_{field}": "ada@example.com" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")
        }
        no_configuration = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(
            ["git", *arguments], cwd=self.root, env={**os.environ, **identities, **no_configuration}, check=True
        )

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "as it is")

    def write(self, name: str, content: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        return path

    def anchors_of(self, text: str) -> list[tuple[str, str, str]]:
        """Return the anchors of a text without their hashes, as a new process finds them."""
        anchors = StalenessChecker().anchors(text, str(self.root))
        assert all(len(anchor.hash) == 16 for anchor in anchors)
        return [(anchor.kind, anchor.name, anchor.path) for anchor in anchors]

    def memory(self, text: str) -> Memory:
        """Return a memory of this text with anchors of the current tree."""
        anchors = self.freshness.anchors(text, str(self.root))
        assert anchors
        return Memory(id=1, text=text, project=str(self.root), created_at="", updated_at="", anchors=anchors)

    def state(self, memory: Memory) -> str:
        """Return the state as seen by a used checker and by a new one."""
        result = self.freshness.check(memory)
        assert StalenessChecker().check(memory) == result
        return result.state

    def notes(self, memory: Memory) -> tuple[str, ...]:
        return self.freshness.check(memory).notes


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "web")


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    """Return a keeper on a real store that reads working trees."""
    clock = FixedClock()
    store = SqliteStore(tmp_path / "cofio.db", clock)
    with Keeper(store, HashEmbedder(), clock, staleness=StalenessChecker()) as keeper:
        yield keeper
