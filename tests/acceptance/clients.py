"""The real clients, pinned with digests in package-lock.json, installed in a cache folder of this machine.

python -m tests.acceptance.clients    # install them, or print what is missing
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MANIFEST = Path(__file__).with_name("package.json")
LOCK = Path(__file__).with_name("package-lock.json")
PINNED: dict[str, str] = json.loads(MANIFEST.read_text(encoding="utf-8"))["dependencies"]
#: The only script that runs: it puts the binary of a platform package, checked like every package, in its place.
SCRIPT = "node_modules/@anthropic-ai/claude-code/install.cjs"
COMMANDS = {"claude": PINNED["@anthropic-ai/claude-code"], "codex": PINNED["@openai/codex"]}
TRIES = 3
NEEDED = (
    "The tests with the real Claude Code and Codex need node and npm (Debian, Ubuntu: apt-get install nodejs npm; "
    "macOS: brew install node)."
)


class Missing(Exception):
    """The clients are not available on this machine."""


def folder() -> Path:
    """Return the cache folder: COFIO_TEST_CACHE, or a folder in ~/.cache named after the versions."""
    result = os.environ.get("COFIO_TEST_CACHE")
    if result:
        return Path(result).absolute()
    return Path.home() / ".cache" / "cofio" / f"clients-{'-'.join(COMMANDS.values())}"


def installed() -> Path:
    """Return the folder with `claude` and `codex`. Raise Missing without npm or if the installation fails."""
    place = folder()
    place.mkdir(parents=True, exist_ok=True)
    with _alone(place / ".lock"):
        if not _is_whole(place):
            _install(place)
    return place / "node_modules" / ".bin"


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Lock the installation, so that concurrent test runs install once."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_whole(place: Path) -> bool:
    """Return True if both clients run with the pinned versions."""
    return all(_version(place, command) == version for command, version in COMMANDS.items())


def _version(place: Path, command: str) -> str:
    path = place / "node_modules" / ".bin" / command
    if not path.exists():
        return ""
    env = {"PATH": os.environ.get("PATH", ""), "HOME": str(place / "home")}
    try:
        text = subprocess.run([path, "--version"], env=env, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    results = re.search(r"\d+\.\d+\.\d+", text.stdout)
    return results[0] if results else ""


def _install(place: Path) -> None:
    if not shutil.which("npm") or not shutil.which("node"):
        raise Missing(NEEDED)
    shutil.copy(MANIFEST, place)
    shutil.copy(LOCK, place)
    install = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    text = ""
    for attempt in range(TRIES):
        time.sleep(5 * attempt)
        shutil.rmtree(place / "node_modules", ignore_errors=True)
        for command in (install, ["node", SCRIPT]):
            result = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
            if result.returncode:
                break
        if _is_whole(place):
            return
        text = result.stderr.strip()[-500:] or "what it installed does not run"
    raise Missing(f"npm does not install the clients: {text}")


def main() -> int:
    """Return 0 if the clients are available. Otherwise return 1 in CI and 0 elsewhere, where the tests are skipped."""
    if not _is_whole(folder()):
        print(f"Installing Claude Code {COMMANDS['claude']} and Codex {COMMANDS['codex']} into {folder()} ...")
    try:
        installed()
    except Missing as why:
        print(why, file=sys.stderr)
        return int(bool(os.environ.get("CI")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
