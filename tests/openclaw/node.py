"""Node and the npm packages in a cache folder: the TypeScript compiler, OpenClaw, and its type declarations.

npm/ has a package.json and a package-lock.json with digests for each.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NPM = Path(__file__).with_name("npm")


def _locked(name: str, package: str) -> dict[str, str]:
    """Return version and digest of a package in a lock file."""
    packages = json.loads((NPM / name / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    entry: dict[str, str] = packages[f"node_modules/{package}"]
    return entry


OPENCLAW = _locked("openclaw", "openclaw")["version"]
TYPESCRIPT = _locked("compiler", "typescript")["version"]
REQUIREMENT = "The tests of the OpenClaw plugin need node 20 or newer, and npm."


def skip_or_fail(reason: str) -> None:
    """Skip with a reason; fail in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def node() -> str:
    """Return the path of Node 20 or newer."""
    binary = shutil.which("node")
    if not binary:
        skip_or_fail(REQUIREMENT)
    version = subprocess.run([str(binary), "--version"], capture_output=True, text=True, check=False).stdout
    if int(version.strip().lstrip("v").partition(".")[0] or 0) < 20:
        skip_or_fail(f"{REQUIREMENT} This is node {version.strip()}.")
    return str(binary)


def compiler() -> Path:
    """Return a folder with `typescript` and the types of Node in its node_modules."""
    return _cached(f"typescript-{TYPESCRIPT}", lambda folder: _npm_ci(folder, "compiler"))


def declarations() -> Path:
    """Return OpenClaw's package with its type declarations only: the rest takes one gigabyte."""

    def fetch(folder: Path) -> None:
        _run(["npm", "pack", f"openclaw@{OPENCLAW}", "--silent"], folder)
        (archive_file,) = folder.glob("openclaw-*.tgz")
        digest = base64.b64encode(hashlib.sha512(archive_file.read_bytes()).digest()).decode()
        assert _locked("openclaw", "openclaw")["integrity"] == f"sha512-{digest}"
        with tarfile.open(archive_file) as archive:
            members = [
                member
                for member in archive
                if member.isfile() and member.name.endswith((".d.ts", "package/package.json"))
            ]
            archive.extractall(folder, members, filter="data")
        archive_file.unlink()

    return _cached(f"openclaw-declares-{OPENCLAW}", fetch) / "package"


def openclaw() -> Path:
    """Return OpenClaw itself with a suitable Node: it requires a newer one than most machines have."""
    return _cached(f"openclaw-{OPENCLAW}", lambda folder: _npm_ci(folder, "openclaw"))


def cache_folder(name: str) -> Path:
    configured = os.environ.get("COFIO_TEST_CACHE")
    return (Path(configured).absolute() if configured else Path.home() / ".cache" / "cofio") / name


def _cached(name: str, fetch: Callable[[Path], None]) -> Path:
    target = cache_folder(name)
    target.mkdir(parents=True, exist_ok=True)
    with _exclusive(target / ".lock"):
        if not (target / ".whole").exists():
            if not shutil.which("npm"):
                skip_or_fail(REQUIREMENT)
            fetch(target)
            (target / ".whole").touch()
    return target


@contextmanager
def _exclusive(lock: Path) -> Iterator[None]:
    """Lock the folder, so that concurrent test runs download only once."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _npm_ci(folder: Path, name: str) -> None:
    for path in (NPM / name).iterdir():
        shutil.copy(path, folder)
    _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], folder)


def _run(command: list[str], folder: Path) -> None:
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280, check=False)
    if process.returncode:
        skip_or_fail(f"npm does not come through: {process.stderr.strip()[-300:]}")
