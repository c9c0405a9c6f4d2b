"""The clients, a model server, and a simulated laptop with cofio."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance import clients
from tests.acceptance.laptop import Laptop
from tests.acceptance.models import Models
from tests.acceptance.proxy import Outside


@pytest.fixture(scope="session")
def installed_clients() -> Path:
    """Return the folder of `claude` and `codex`. Without npm the tests are skipped; in CI that is a failure."""
    try:
        return clients.installed()
    except clients.Missing as why:
        if os.environ.get("CI"):
            pytest.fail(str(why))
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def models() -> Iterator[Models]:
    with Models() as models:
        yield models


@pytest.fixture(scope="module")
def outside() -> Iterator[Outside]:
    """Yield a blocking proxy. Check that the clients requested no external host."""
    with Outside() as outside:
        yield outside
        assert outside.asked == []


@pytest.fixture(scope="module")
def new_laptop(
    installed_clients: Path, models: Models, outside: Outside, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Laptop]]:
    """Yield a factory of laptops; stop their processes afterwards."""
    created: list[Laptop] = []

    def make() -> Laptop:
        root = tmp_path_factory.mktemp("laptop")
        created.append(Laptop(root, installed_clients, models, outside))
        return created[-1]

    yield make
    for laptop in created:
        laptop.down()
        shutil.rmtree(laptop.home.parent, ignore_errors=True)


@pytest.fixture(scope="module")
def laptop(new_laptop: Callable[[], Laptop]) -> Laptop:
    """One with the service up, and cofio installed in both clients as a person would who wants no questions.

    Without the MCP server, for which a session would wait; test_leaving and test_plugins have it too.
    """
    laptop = new_laptop()
    laptop.install("--no-mcp")  # which starts the service
    return laptop
