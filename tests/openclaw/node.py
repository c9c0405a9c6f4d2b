"""Node and the npm packages in a cache folder: the TypeScript compiler, and OpenClaw's type declarations."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

OPENCLAW = "2026.9.6"
TYPESCRIPT = "5.9.3"
NODE_TYPES = "24.19.2"
NODE = "24.21.0"  # OpenClaw requires a newer one than most machines have
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
    return _cached(
        f"typescript-{TYPESCRIPT}", lambda folder: _npm(folder, f"typescript@{TYPESCRIPT}", f"@types/node@{NODE_TYPES}")
    )


def declarations() -> Path:
    """Return OpenClaw's package with its type declarations only: the rest takes one gigabyte."""

    def fetch(folder: Path) -> None:
        _run(["npm", "pack", f"openclaw@{OPENCLAW}", "--silent"], folder)
        (archive_file,) = folder.glob("openclaw-*.tgz")
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
    """Return OpenClaw itself with a suitable Node."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    runtime = f"node-{os.uname().sysname.lower()}-{machine}@{NODE}"
    return _cached(f"openclaw-{OPENCLAW}", lambda folder: _npm(folder, runtime, f"openclaw@{OPENCLAW}"))


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


def _npm(folder: Path, *packages: str) -> None:
    (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    _run(["npm", "install", *options, *packages], folder)


def _run(command: list[str], folder: Path) -> None:
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280, check=False)
    if process.returncode:
        skip_or_fail(f"npm does not come through: {process.stderr.strip()[-300:]}")
