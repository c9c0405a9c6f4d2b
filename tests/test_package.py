"""Tests of the built wheels: they contain every file, and cofio works without the source."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import cofio
import cofio_eval

SOURCE = Path(cofio.__file__).parent
EVALUATION = Path(cofio_eval.__file__).parent
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


def build_wheel(project: Path, folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    subprocess.run([*pip, str(project), "-w", str(folder)], check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def files_of(package: Path) -> set[str]:
    files = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(package.parent)) for path in files}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


def test_wheel_contains_every_file_of_the_package(wheel: Path) -> None:
    shipped = set(zipfile.ZipFile(wheel).namelist())
    assert files_of(SOURCE) <= shipped
    assert not any(name.startswith("cofio_eval") for name in shipped)


def test_wheel_of_cofio_eval_has_its_files_its_command_and_cofios_version(tmp_path: Path) -> None:
    built = zipfile.ZipFile(build_wheel(EVALUATION.parents[1], tmp_path))
    assert files_of(EVALUATION) <= set(built.namelist())
    metadata = f"cofio_eval-{cofio.__version__}.dist-info"
    assert f"Requires-Dist: cofio=={cofio.__version__}\n" in built.read(f"{metadata}/METADATA").decode()
    assert "[cofio.commands]\neval = cofio_eval.cli:evaluation\n" in built.read(f"{metadata}/entry_points.txt").decode()


def test_installed_wheel_works_without_the_source(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "unpacked")
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "unpacked"), "COFIO_HOME": str(tmp_path / "home")}
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], env=env, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "we deploy on mondays"
