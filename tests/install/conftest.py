"""A simulated machine with clients, in its own folder."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cofio.cli import CliContext, cli
from cofio.core import Keeper
from cofio.install import clients, jsonc, plan
from cofio.install.manifest import Manifest
from cofio.settings import Settings
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.acceptance import clients as acceptance

from ..cli.conftest import VARIABLES, running_service

FOLDERS = {"claude-code": ".claude", "codex": ".codex", "openclaw": ".openclaw", "cursor": ".cursor"}


class Machine:
    """A user's home folder with client folders. Runs cofio in this process, or only plans changes."""

    def __init__(self, root: Path) -> None:
        self.user = root / "jane doe's"
        self.home = self.user / ".cofio"
        self.env = {"HOME": str(self.user), "COFIO_HOME": str(self.home), "PATH": "/usr/bin:/bin"}
        self.user.mkdir(parents=True)

    @property
    def settings(self) -> Settings:
        by_name = {
            name: str(self.user / folder)
            for name, folder in (("claude_home", ".claude"), ("codex_home", ".codex"), ("cursor_home", ".cursor"),
                                 ("openclaw_home", ".openclaw"))
        }  # fmt: skip
        return Settings.load({"home": self.home, **by_name}, self.env)

    def has(self, client: str) -> Path:
        folder = self.user / FOLDERS[client]
        folder.mkdir(exist_ok=True)
        return folder

    def files(self) -> dict[str, bytes]:
        """Return every file outside the cofio home."""
        results = (path for path in self.user.rglob("*") if path.is_file() and self.home not in path.parents)
        return {str(path.relative_to(self.user)): path.read_bytes() for path in results}

    def folders(self) -> set[str]:
        results = (path for path in self.user.rglob("*") if path.is_dir() and self.home not in (path, *path.parents))
        return {str(path.relative_to(self.user)) for path in results}

    def install(self, client: str, **wishes: bool) -> list[plan.FileResult]:
        planned = clients.plan_install(client, self.settings, clients.InstallOptions(**wishes))
        return plan.carry_out(planned, Manifest.load(self.home), clients.TAKES)

    def uninstall(self, client: str) -> list[plan.FileResult]:
        done, problems = clients.uninstall(client, self.settings, Manifest.load(self.home))
        assert problems == []
        return done

    def json(self, path: str) -> Any:
        return jsonc.loads((self.user / path).read_text(encoding="utf-8"))

    def __call__(self, *arguments: str, says: str | None = None, env: dict[str, str] | None = None) -> Result:
        clean: dict[str, str | None] = {**dict.fromkeys(VARIABLES), **self.env, **(env or {})}
        return CliRunner().invoke(cli, list(arguments), input=says, env=clean, obj=CliContext())

    def told(self, *arguments: str, **how: Any) -> Any:
        result = self(*arguments, "--json", **how)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@contextmanager
def hanging(machine: Machine) -> Iterator[socket.socket]:
    """Yield a socket of a local service that does not respond. Pending requests can be read from it."""
    machine.home.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as listening, (machine.home / "cofio.db.service").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        json.dump({"pid": os.getpid(), "url": url, "host": platform.node()}, lock)
        lock.flush()
        yield listening


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def service(machine: Machine) -> Iterator[str]:
    """Yield the URL of a real service with the hashing embedder."""
    machine.home.mkdir()
    clock = FixedClock()
    keeper = Keeper(SqliteStore(machine.home / "cofio.db", clock), HashEmbedder(), clock)
    settings = Settings.load({"home": machine.home, "port": 0, "api_key": "the service's key"}, machine.env)
    with running_service(keeper, settings) as url:
        yield url


@pytest.fixture(scope="session")
def client_programs() -> Path:
    """Return the folder of the real `claude` and `codex`. Without npm the tests are skipped; in CI that is a
    failure."""
    try:
        return acceptance.installed()
    except acceptance.Missing as why:
        if os.environ.get("CI"):
            pytest.fail(str(why))
        pytest.skip(str(why))
