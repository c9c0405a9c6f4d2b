"""Adapter in a child process, with JSON lines as protocol. Every failure is `Failed`, with a one-line reason."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.peers.sides import Side

ROOT = Path(__file__).parents[2]
_LONGEST = 200  # characters of a reason
_TO_OPEN = 300.0  # seconds; loading torch from a cold disk takes long
_QUIET = {
    "ANONYMIZED_TELEMETRY": "False",
    "CHROMA_TELEMETRY_IMPL": "none",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "MEM0_TELEMETRY": "False",
    "MCP_MDNS_ENABLED": "false",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_OFFLINE": "1",
    "TQDM_DISABLE": "1",
}
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "VECLIB_MAXIMUM")}
#: Dropped variables: user settings, and the flag that would prevent cached bytecode, which installed packages have.
_DROPPED = ("COFIO_", "MCP_", "OPENAI_", "CHROMA_", "MEM0_", "PYTHONDONTWRITEBYTECODE")


class Failed(Exception):
    """Failure of a side, with a one-line reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(tidy(reason))


def tidy(reason: str) -> str:
    """Return one short line without local paths."""
    short = " ".join(reason.split())
    for place, name in ((ROOT, "."), (Path.home(), "~")):
        short = short.replace(str(place), name)
    return short if len(short) <= _LONGEST else short[: _LONGEST - 1] + "…"


@contextmanager
def opened(side: Side, folder: Path, *, vectors: Path | None, url: str, python: Path | None = None) -> Iterator[Child]:
    """Yield the side's adapter with an open store in the folder; at the end it is closed, and killed if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    child = Child(side, folder, python or side.python)
    try:
        about: dict[str, Any] = {
            "folder": str(folder),
            "vectors": str(vectors or ""),
            "url": url,
            "options": dict(side.options),
        }
        child.opening = child.ask("open", within=_TO_OPEN, **about)
        yield child
        child.ask("close")
    finally:
        child.end()


class Child:
    """Running adapter process."""

    def __init__(self, side: Side, folder: Path, python: Path) -> None:
        if not python.exists():
            raise Failed(side.missing)
        self.opening: dict[str, Any] = {}
        self._log = folder / "stderr.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(python), str(side.adapter)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                encoding="utf-8",
                env=_around(folder),
                cwd=folder,
            )

    def ask(self, do: str, *, within: float = 120.0, **about: Any) -> dict[str, Any]:
        """Return the reply. Raise Failed if there is none within this many seconds, or if it is an error."""
        timer = threading.Timer(within, self._process.kill)
        timer.start()
        try:
            line = self._exchanged(json.dumps({"do": do, **about}))
        finally:
            in_time = timer.is_alive()
            timer.cancel()
        if not line:
            raise Failed(self._why() if in_time else f"{do} took more than {within:.0f} s")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failed(f"{do}: {answer['error']}")
        return answer

    def end(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                continue
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _exchanged(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return ""
        return self._process.stdout.readline()

    def _why(self) -> str:
        """Return the exit status and the last line of output."""
        status = self._process.wait(10)
        said = [line for line in self._log.read_text("utf-8", "replace").splitlines() if line.strip()]
        return f"ended with status {status}: {said[-1] if said else 'it said nothing'}"


def _around(folder: Path) -> dict[str, str]:
    """Return the environment of a child: no user settings, no telemetry, a home of its own, one BLAS thread."""
    kept: Mapping[str, str] = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    own = {"HOME": str(folder), "MEM0_DIR": str(folder / "mem0"), "COFIO_HOME": str(folder)}
    return {**kept, **_QUIET, **_ONE_THREAD, **own}
