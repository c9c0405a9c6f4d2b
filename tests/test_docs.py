"""The docs are true: the examples run, the reference is current, the links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from cofio.cli import cli

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    lines = "\n".join(blocks(page, "console")).splitlines()
    return [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ cofio ")]


@pytest.fixture
def around(tmp_path: Path) -> dict[str, str]:
    """An environment with a home of its own and a port that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return {
        "HOME": str(tmp_path),
        "COFIO_HOME": str(tmp_path / "home"),
        "COFIO_PORT": str(port),
        "PATH": "/usr/bin:/bin",
    }


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_every_command_of_a_page_runs(page: Path, around: dict[str, str]) -> None:
    if page.name == "search.md":  # it asks for what the quickstart added
        run_here(["cofio", "add", "never ship on friday"], around)
    for command in commands(page):
        run_here(command, around)


def test_every_command_of_the_readme_runs_in_a_process_of_its_own(around: dict[str, str]) -> None:
    for command in commands(ROOT / "README.md"):
        run_apart(command, around)


def run_apart(command: list[str], around: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], env=around, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"


def run_here(command: list[str], around: dict[str, str]) -> None:
    """The command in this process, which has all of it loaded: more than a hundred starts would take minutes.

    What starts, stops or looks at processes is one of its own, as it would be.
    """
    if command[1] in ("up", "down", "status", "ui", "install", "uninstall", "doctor"):
        run_apart(command, around)
        return
    clean = {**dict.fromkeys(os.environ), **around}
    done = CliRunner().invoke(cli, command[1:], env=clean, prog_name="cofio", catch_exceptions=False)
    assert done.exit_code == 0, f"{command}: {done.output}"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_every_python_example_of_a_page_runs(page: Path, around: dict[str, str]) -> None:
    if page.name == "python.md" and page.parent.name == "reference":
        return  # signatures, not examples
    script = "\n".join(blocks(page, "python"))
    if page == ROOT / "README.md":
        done = subprocess.run([sys.executable, "-c", script], env=around, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said = done.stdout
    else:
        with patch.dict(os.environ, around, clear=True), redirect_stdout(StringIO()) as printed:
            exec(compile(script, page.name, "exec"), {"__name__": "__main__"})  # as `python -c` would, without a start
        said = printed.getvalue()
    assert "friday" in said.lower()


def test_the_reference_is_made_from_the_code_of_now() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "reference.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_demo_shows_its_point(around: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py"], env=around, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answers = [line.strip() for line in done.stdout.splitlines() if line.startswith("    ")]
    assert answers[0].startswith("We deploy to Fly.io in Frankfurt, never on a Friday")
    assert answers[-1] == "We use Prisma as the ORM"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_make_help_names_every_target_and_ci_runs_the_suite() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony
    for target in phony.group(1).split():
        assert re.search(rf"^{target}:.*## ", text, re.MULTILINE), target
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
