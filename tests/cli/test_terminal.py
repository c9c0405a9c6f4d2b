"""What needs a process or a terminal of its own: tables, broken pipes, Ctrl-C, and what is loaded."""

from __future__ import annotations

import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cofio, Shell
from tests.cli.test_commands import EVIL


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def filled(home: Path) -> Cofio:
    """A store that was filled with the hashing embedder; what is shown of it needs no model."""
    filled = Cofio(home)
    filled.json("add", EVIL, "We deploy with Fly.io, and have done so for years, on every Friday that there was")
    return filled


def on_terminal(shell: Shell, *arguments: str, width: int = 60, env: dict[str, str] | None = None) -> str:
    """What the command shows on a terminal of this width."""
    master, slave = pty.openpty()
    around = {**shell.env, "COLUMNS": str(width), "TERM": "xterm-256color", **(env or {})}
    command = [sys.executable, "-m", "cofio", *arguments]
    with subprocess.Popen(command, env=around, stdin=slave, stdout=slave, stderr=subprocess.PIPE) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                part = os.read(master, 65_536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
        os.close(master)
        assert process.stderr is not None
        errors = process.stderr.read()
    assert process.returncode == 0, errors
    return shown.decode()


COLOURS = re.compile("\x1b\\[[0-9;]*m")


@pytest.mark.parametrize("command", [["list"], ["show", "1"], ["history", "1"], ["history", "--changeset", "1"]])
def test_on_a_terminal_a_memory_is_neither_markup_nor_an_escape_sequence(
    filled: Cofio, shell: Shell, command: list[str]
) -> None:
    shown = on_terminal(shell, *command, width=200)
    plain = COLOURS.sub("", shown)
    assert r"[bold red]x[/bold red] \x1b]0;owned\x07 \x1b[31mred\r\u202eabc \x9b2J :smile:" in plain
    assert not set(plain) & set("\x1b\x07\x9b\u202e")


def test_on_a_terminal_a_list_is_a_table_that_wraps_and_says_how_long_ago(filled: Cofio, shell: Shell) -> None:
    shown = COLOURS.sub("", on_terminal(shell, "list"))
    lines = shown.replace("\r", "").splitlines()
    assert lines[0].split() == ["id", "memory", "kind", "source", "when"]
    assert "just now" in shown
    assert max(len(line) for line in lines) <= 60
    assert "Friday" in shown


def test_colours_can_be_turned_off(filled: Cofio, shell: Shell) -> None:
    assert "\x1b[36m" in on_terminal(shell, "list")
    assert not re.search("\x1b\\[[0-9;]*3[0-9]", on_terminal(shell, "list", env={"NO_COLOR": "1"}))


def test_without_options_the_text_is_opened_in_the_editor(shell: Shell, tmp_path: Path) -> None:
    shell.json("add", "We deploy with Fly.io")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i.bak "s/Fly.io/Render/" "$1"\n')
    editor.chmod(0o755)
    shown = on_terminal(shell, "edit", "1", env={"EDITOR": str(editor), "VISUAL": ""})
    assert "We deploy with Render" in shown
    assert shell.json("show", "1")["text"] == "We deploy with Render"
    assert on_terminal(shell, "edit", "1", env={"EDITOR": "true", "VISUAL": ""}) == ""  # nothing was changed


def test_a_long_text_is_cut_in_a_table_and_whole_in_show(filled: Cofio, shell: Shell) -> None:
    number = filled.json("add", "word " * 1_000 + "end")["results"][0]["id"]
    assert "…" in on_terminal(shell, "list")
    assert "end" not in on_terminal(shell, "list")
    assert "end" in on_terminal(shell, "show", str(number))


def test_a_json_document_on_a_terminal_is_a_document(filled: Cofio, shell: Shell) -> None:
    assert on_terminal(shell, "stats", "--json").startswith("{")


def test_a_broken_pipe_is_the_end_and_no_error(home: Path, shell: Shell) -> None:
    Cofio(home).json("add", "-", "--no-dedup", says="".join(f"Fact {number} {'x' * 500}\n" for number in range(900)))
    for arguments in ("list -n 900", "list -n 900 --json"):
        command = f"{shlex.quote(sys.executable)} -m cofio {arguments} | head -c 100 > /dev/null"
        done = subprocess.run(["bash", "-c", command], env=shell.env, capture_output=True, text=True, timeout=60)
        assert (done.stdout, done.stderr) == ("", "")


def test_an_interrupt_ends_without_a_traceback(filled: Cofio, shell: Shell) -> None:
    asking = shell.start("undo", stdin=subprocess.PIPE)
    assert asking.stderr is not None
    asked = ""
    while "[y/N]" not in asked:
        asked += asking.stderr.read(1)
    asking.send_signal(signal.SIGINT)
    output, errors = asking.communicate(timeout=60)
    assert asking.returncode == 130
    assert (output, "Traceback" in errors) == ("", False)
    assert filled.json("list")["total"] == 2


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["search", "--help"], ["completion", "zsh"]])
def test_what_needs_no_memory_loads_nothing_heavy(shell: Shell, arguments: list[str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "cofio", *arguments]
    done = subprocess.run(command, env=shell.env, capture_output=True, text=True, check=True)
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    outside = {"numpy", "onnxruntime", "rich", "uvicorn", "starlette", "msgspec", "sqlite3", "asyncio"}
    assert names & outside == set()


def test_the_real_model_finds_by_meaning_from_the_store_itself(shell: Shell) -> None:
    shell.json("add", "Our production database is PostgreSQL", "Ada likes green tea")
    assert shell.json("search", "which beverage does she enjoy?", "-k", "1")["results"][0]["id"] == 2
