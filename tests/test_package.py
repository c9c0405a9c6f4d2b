"""Tests of the built wheel: it contains every file and works without the source."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import cofio

SOURCE = Path(cofio.__file__).parent
ROOT = SOURCE.parents[1]
SCRIPT = """
import sys, tempfile, cofio
from cofio.testing import HashEmbedder
assert cofio.__file__.startswith(sys.argv[1]), cofio.__file__
with cofio.open(f"sqlite://{tempfile.mkdtemp()}/x.db", embedder=HashEmbedder()) as keeper:
    keeper.add("we deploy on mondays")
    print(keeper.search("deploy")[0].text)
import cofio.server.http.app, cofio.cli, cofio.server.daemon
import cofio.providers.embedders.local, cofio.providers.embedders.remote
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        str(ROOT),
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        str(folder),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_wheel_contains_every_file_of_the_package(wheel: Path) -> None:
    shipped = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        str(path.relative_to(SOURCE.parent))
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert expected <= shipped


def test_installed_wheel_works_without_the_source(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "unpacked")
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "unpacked"), "COFIO_HOME": str(tmp_path / "home")}
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], env=env, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "we deploy on mondays"
