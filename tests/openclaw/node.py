"""Node and what npm brings, in a cache folder of this machine: the compiler, and what OpenClaw declares of itself."""

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
NODE = "24.21.0"  # OpenClaw wants a newer one than many machines have
NEEDED = "The tests of the OpenClaw plugin need node 20 or newer, and npm."


def cannot(why: str) -> None:
    """Skip, visibly; in CI this is a failure."""
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


def node() -> str:
    """Node, 20 or newer."""
    found = shutil.which("node")
    if not found:
        cannot(NEEDED)
    said = subprocess.run([str(found), "--version"], capture_output=True, text=True, check=False).stdout
    if int(said.strip().lstrip("v").partition(".")[0] or 0) < 20:
        cannot(f"{NEEDED} This is node {said.strip()}.")
    return str(found)


def compiler() -> Path:
    """A folder with `typescript` and the types of Node in its node_modules."""
    return _cached(
        f"typescript-{TYPESCRIPT}", lambda place: _npm(place, f"typescript@{TYPESCRIPT}", f"@types/node@{NODE_TYPES}")
    )


def declarations() -> Path:
    """OpenClaw's own package, with nothing in it but what it declares: the rest takes a gigabyte."""

    def fetch(place: Path) -> None:
        _run(["npm", "pack", f"openclaw@{OPENCLAW}", "--silent"], place)
        (packed,) = place.glob("openclaw-*.tgz")
        with tarfile.open(packed) as archive:
            wanted = [
                each for each in archive if each.isfile() and each.name.endswith((".d.ts", "package/package.json"))
            ]
            archive.extractall(place, wanted, filter="data")
        packed.unlink()

    return _cached(f"openclaw-declares-{OPENCLAW}", fetch) / "package"


def openclaw() -> Path:
    """OpenClaw itself with a Node that it takes, where somebody asked for it."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    runtime = f"node-{os.uname().sysname.lower()}-{machine}@{NODE}"
    return _cached(f"openclaw-{OPENCLAW}", lambda place: _npm(place, runtime, f"openclaw@{OPENCLAW}"))


def folder(name: str) -> Path:
    told = os.environ.get("COFIO_TEST_CACHE")
    return (Path(told).absolute() if told else Path.home() / ".cache" / "cofio") / name


def _cached(name: str, fetch: Callable[[Path], None]) -> Path:
    place = folder(name)
    place.mkdir(parents=True, exist_ok=True)
    with _alone(place / ".lock"):
        if not (place / ".whole").exists():
            if not shutil.which("npm"):
                cannot(NEEDED)
            fetch(place)
            (place / ".whole").touch()
    return place


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Two runs of the suite at once fetch once."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _npm(place: Path, *packages: str) -> None:
    (place / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    _run(["npm", "install", *options, *packages], place)


def _run(command: list[str], place: Path) -> None:
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=280, check=False)
    if done.returncode:
        cannot(f"npm does not come through: {done.stderr.strip()[-300:]}")
