"""Behaviour that needs a real terminal or process: tables, broken pipes, SIGINT and lazy imports."""

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

from tests.cli.conftest import InProcessCli, Shell
from tests.cli.test_commands import CONTROL_TEXT


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def filled(home: Path) -> InProcessCli:
    """Return a CLI whose store was filled with the hashing embedder; showing it needs no model."""
    filled = InProcessCli(home)
    filled.json(
        "add", CONTROL_TEXT, "We deploy with Fly.io, and have done so for years, on every Friday that there was"
    )
    return filled


def on_terminal(shell: Shell, *arguments: str, width: int = 60, env: dict[str, str] | None = None) -> str:
    """Return the output of the command on a terminal of this width."""
    master, slave = pty.openpty()
    environment = {**shell.env, "COLUMNS": str(width), "TERM": "xterm-256color", **(env or {})}
    command = [sys.executable, "-m", "cofio", *arguments]
    with subprocess.Popen(command, env=environment, stdin=slave, stdout=slave, stderr=subprocess.PIPE) as process:
        os.close(slave)
        output = b""
        while True:
            try:
                part = os.read(master, 65_536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            output += part
        os.close(master)
        assert process.stderr is not None
        errors = process.stderr.read()
    assert process.returncode == 0, errors
    return output.decode()


COLOR_CODES = re.compile("\x1b\\[[0-9;]*m")


@pytest.mark.parametrize("command", [["list"], ["show", "1"], ["history", "1"], ["history", "--changeset", "1"]])
def test_terminal_output_escapes_markup_and_control_characters(
    filled: InProcessCli, shell: Shell, command: list[str]
) -> None:
    output = on_terminal(shell, *command, width=200)
    plain = COLOR_CODES.sub("", output)
    assert r"[bold red]x[/bold red] \x1b]0;owned\x07 \x1b[31mred\r\u202eabc \x9b2J :smile:" in plain
    assert not set(plain) & set("\x1b\x07\x9b\u202e")


def test_list_is_a_wrapped_table_with_relative_times(filled: InProcessCli, shell: Shell) -> None:
    output = COLOR_CODES.sub("", on_terminal(shell, "list"))
    lines = output.replace("\r", "").splitlines()
    assert lines[0].split() == ["id", "memory", "kind", "source", "when", "provenance"]
    assert "just now" in output
    assert max(len(line) for line in lines) <= 60
    assert "Friday" in output


def test_no_color_disables_colors(filled: InProcessCli, shell: Shell) -> None:
    assert "\x1b[36m" in on_terminal(shell, "list")
    assert not re.search("\x1b\\[[0-9;]*3[0-9]", on_terminal(shell, "list", env={"NO_COLOR": "1"}))


def test_edit_without_options_opens_the_editor(shell: Shell, tmp_path: Path) -> None:
    shell.json("add", "We deploy with Fly.io")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i.bak "s/Fly.io/Render/" "$1"\n')
    editor.chmod(0o755)
    output = on_terminal(shell, "edit", "1", env={"EDITOR": str(editor), "VISUAL": ""})
    assert "We deploy with Render" in output
    assert shell.json("show", "1")["text"] == "We deploy with Render"
    assert on_terminal(shell, "edit", "1", env={"EDITOR": "true", "VISUAL": ""}) == ""  # unchanged text


def test_long_text_is_truncated_in_list_and_complete_in_show(filled: InProcessCli, shell: Shell) -> None:
    number = filled.json("add", "word " * 1_000 + "end")["results"][0]["id"]
    assert "…" in on_terminal(shell, "list")
    assert "end" not in on_terminal(shell, "list")
    assert "end" in on_terminal(shell, "show", str(number))


def test_json_on_a_terminal_is_valid_json(filled: InProcessCli, shell: Shell) -> None:
    assert on_terminal(shell, "stats", "--json").startswith("{")


def test_broken_pipe_is_not_an_error(home: Path, shell: Shell) -> None:
    InProcessCli(home).json(
        "add", "-", "--no-dedup", input_text="".join(f"Fact {number} {'x' * 500}\n" for number in range(900))
    )
    for arguments in ("list -n 900", "list -n 900 --json"):
        command = f"{shlex.quote(sys.executable)} -m cofio {arguments} | head -c 100 > /dev/null"
        result = subprocess.run(["bash", "-c", command], env=shell.env, capture_output=True, text=True, timeout=60)
        assert (result.stdout, result.stderr) == ("", "")


def test_interrupt_prints_no_traceback(filled: InProcessCli, shell: Shell) -> None:
    asking = shell.start("undo", stdin=subprocess.PIPE)
    assert asking.stderr is not None
    query = ""
    while "[y/N]" not in query:
        query += asking.stderr.read(1)
    asking.send_signal(signal.SIGINT)
    output, errors = asking.communicate(timeout=60)
    assert asking.returncode == 130
    assert (output, "Traceback" in errors) == ("", False)
    assert filled.json("list")["total"] == 2


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["search", "--help"], ["completion", "zsh"]])
def test_help_and_version_load_no_heavy_modules(shell: Shell, arguments: list[str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "cofio", *arguments]
    result = subprocess.run(command, env=shell.env, capture_output=True, text=True, check=True)
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in result.stderr.splitlines()}
    outside = {"numpy", "onnxruntime", "rich", "uvicorn", "starlette", "msgspec", "sqlite3", "asyncio"}
    assert names & outside == set()


def test_real_model_finds_by_meaning(shell: Shell) -> None:
    shell.json("add", "Our production database is PostgreSQL", "Ada likes green tea")
    assert shell.json("search", "which beverage does she enjoy?", "-k", "1")["results"][0]["id"] == 2
