"""Writers of Claude Code and Codex transcripts in the format of the recorded samples, and a runner of the CLI."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cofio.settings import settable

#: Run `cofio ARGUMENTS` in a new process with the hashing embedder.
PROGRAM = """
import sys
from cofio import bootstrap as assemble
from cofio.cli import CliContext as Session, cli
from cofio.testing import HashEmbedder

cli.main(sys.argv[1:], obj=Session(open_keeper=lambda settings: assemble.keeper(settings, embedder=HashEmbedder())))
"""
#: Time and text of a prompt.
TimedPrompt = tuple[str, str]


def unique(*parts: Any) -> str:
    return str(uuid5(NAMESPACE_URL, "/".join(map(str, parts))))


def write_claude_transcript(
    home: Path, session: str, prompts: Sequence[TimedPrompt], *, cwd: str = "/home/ann/web", **fields: Any
) -> Path:
    """Write a transcript of Claude Code with a turn for each prompt."""
    lines: list[dict[str, Any]] = []
    for number, (at, text) in enumerate(prompts):
        common = {"sessionId": session, "cwd": cwd, "isSidechain": False, **({"timestamp": at} if at else {}), **fields}
        prompt, reply = unique(session, number), unique(session, number, "reply")
        lines.append({"type": "user", "uuid": unique(prompt), "promptId": prompt, **common,
                      "message": {"role": "user", "content": text}})  # fmt: skip
        lines.append({"type": "assistant", "uuid": reply, **common,
                      "message": {"id": reply, "role": "assistant", "model": "m",
                                  "content": [{"type": "text", "text": "Noted."}]}})  # fmt: skip
    return _write_lines(home / "projects" / cwd.replace("/", "-") / f"{session}.jsonl", lines)


def write_codex_transcript(
    home: Path, session: str, prompts: Sequence[TimedPrompt], *, cwd: str = "/home/ann/api", **meta: Any
) -> Path:
    """Write a rollout of Codex with a turn for each prompt."""
    lines: list[dict[str, Any]] = [{"type": "session_meta", "payload": {"id": session, "cwd": cwd, **meta}}]
    for number, (at, text) in enumerate(prompts):
        for role, kind, words in (("user", "input_text", text), ("assistant", "output_text", "Noted.")):
            if role == "user":
                started = {"type": "task_started", "turn_id": unique(session, number)}
                lines.append({"timestamp": at, "type": "event_msg", "payload": started})
            message = {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}
            lines.append({"timestamp": at, "type": "response_item", "payload": message})
    return _write_lines(
        home / "sessions" / "2026" / "01" / "02" / f"rollout-2026-01-02T00-00-00-{session}.jsonl", lines
    )


def _write_lines(path: Path, lines: Sequence[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(path, (1_700_000_000, 1_700_000_000))  # old enough that no turn counts as unfinished
    return path


def write_transcripts(root: Path, files: int) -> int:
    """Write transcripts, half of them for each client, with file names in random order. Return the number of turns."""
    turns = 0
    for number in range(files):
        session = unique("session", number)
        minute = f"2026-01-{1 + number // 60 % 28:02}T{number // 60 % 24:02}:{number % 60:02}"
        texts = [
            (f"{minute}:10Z", f"The port of service{number} is {8000 + number}."),
            (f"{minute}:20Z", f"The port of service{number // 2} is {8000 + number // 2}."),
            (f"{minute}:30Z", "Hi there!"),
        ][: 1 + number % 3]
        turns += len(texts)
        if number % 2:
            write_codex_transcript(root / "codex", session, texts)
        else:
            write_claude_transcript(root / "claude", session, texts)
    return turns


class Workspace:
    """A cofio home next to the homes of the clients."""

    def __init__(self, home: Path, root: Path) -> None:
        variables = {variable for setting in settable() for variable in setting.metadata["variables"]}
        stored = {name: value for name, value in os.environ.items() if name not in variables}
        homes = {"COFIO_CLAUDE_HOME": str(root / "claude"), "COFIO_CODEX_HOME": str(root / "codex")}
        self.env = {**stored, "COFIO_HOME": str(home), "COFIO_PORT": "0", "COFIO_JUDGE": "false", **homes}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROGRAM, *arguments]
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env=self.env, text=True, **pipes)

    def kill_at(self, captures: int, *arguments: str) -> None:
        """Run the command and kill it after this many captures."""
        process = self.start(*arguments)
        while self.count_captures() < captures:
            assert process.poll() is None, "it ended before it was killed"
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def count_captures(self) -> int:
        """Return the number of turns in the inbox, read by this process."""
        path = Path(self.env["COFIO_HOME"]) / "cofio.db"
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
            return int(store.execute("SELECT count(*) FROM inbox").fetchone()[0])
        return 0

    def json(self, *arguments: str) -> Any:
        process = self.start(*arguments, "--json")
        out, error = process.communicate(timeout=300)
        assert process.returncode == 0, error
        return json.loads(out)

    def memories(self) -> list[tuple[Any, ...]]:
        """Return text, place, time and count of every memory."""
        names = ("text", "source", "project", "created_at", "occurrences", "session")
        exported = self.start("export", "-")
        out, error = exported.communicate(timeout=300)
        assert exported.returncode == 0, error
        rows = [json.loads(line) for line in out.splitlines()]
        return sorted(tuple(str(row.get(name)) for name in names) for row in rows if "text" in row)
