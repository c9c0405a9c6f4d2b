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

from bench.peers.systems import System

ROOT = Path(__file__).parents[2]
_MAX_REASON = 200  # characters of a reason
_OPEN_TIMEOUT = 300.0  # seconds; loading torch from a cold disk takes long
_NO_TELEMETRY = {
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


class SystemFailed(Exception):
    """Failure of a system, with a one-line reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(shorten_reason(reason))


def shorten_reason(reason: str) -> str:
    """Return one short line without local paths."""
    text = " ".join(reason.split())
    for path, name in ((ROOT, "."), (Path.home(), "~")):
        text = text.replace(str(path), name)
    return text if len(text) <= _MAX_REASON else text[: _MAX_REASON - 1] + "…"


@contextmanager
def open_adapter(
    system: System, folder: Path, *, vectors: Path | None, url: str, python: Path | None = None
) -> Iterator[Child]:
    """Yield the system's adapter with an open store in the folder; at the end it is closed, and killed if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    child = Child(system, folder, python or system.python)
    try:
        about: dict[str, Any] = {
            "folder": str(folder),
            "vectors": str(vectors or ""),
            "url": url,
            "options": dict(system.options),
        }
        child.opening = child.ask("open", timeout=_OPEN_TIMEOUT, **about)
        yield child
        child.ask("close")
    finally:
        child.end()


class Child:
    """Running adapter process."""

    def __init__(self, system: System, folder: Path, python: Path) -> None:
        if not python.exists():
            raise SystemFailed(system.missing_reason)
        self.opening: dict[str, Any] = {}
        self._log = folder / "stderr.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(python), str(system.adapter)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                encoding="utf-8",
                env=_environment(folder),
                cwd=folder,
            )

    def ask(self, operation: str, *, timeout: float = 120.0, **fields: Any) -> dict[str, Any]:
        """Return the reply. Raise Failed if there is none within this many seconds, or if it is an error."""
        timer = threading.Timer(timeout, self._process.kill)
        timer.start()
        try:
            line = self._exchange(json.dumps({"do": operation, **fields}))
        finally:
            in_time = timer.is_alive()
            timer.cancel()
        if not line:
            raise SystemFailed(self._exit_reason() if in_time else f"{operation} took more than {timeout:.0f} s")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise SystemFailed(f"{operation}: {answer['error']}")
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

    def _exchange(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return ""
        return self._process.stdout.readline()

    def _exit_reason(self) -> str:
        """Return the exit status and the last line of output."""
        status = self._process.wait(10)
        lines = [line for line in self._log.read_text("utf-8", "replace").splitlines() if line.strip()]
        return f"ended with status {status}: {lines[-1] if lines else 'it said nothing'}"


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of a child: no user settings, no telemetry, a home of its own, one BLAS thread."""
    inherited: Mapping[str, str] = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    folders = {"HOME": str(folder), "MEM0_DIR": str(folder / "mem0"), "COFIO_HOME": str(folder)}
    return {**inherited, **_NO_TELEMETRY, **_ONE_THREAD, **folders}
