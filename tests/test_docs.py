"""Check the documentation: examples run, the generated reference is current, links resolve."""

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


def code_blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def console_commands(page: Path) -> list[list[str]]:
    lines = "\n".join(code_blocks(page, "console")).splitlines()
    return [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ cofio ")]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return environment variables with a temporary home and a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return {
        "HOME": str(tmp_path),
        "COFIO_HOME": str(tmp_path / "home"),
        "COFIO_PORT": str(port),
        "PATH": "/usr/bin:/bin",
    }


@pytest.mark.parametrize("page", [page for page in PAGES if console_commands(page)], ids=lambda page: page.name)
def test_console_commands_of_page_run(page: Path, env: dict[str, str]) -> None:
    if page.name == "search.md":  # it asks for what the quickstart added
        run_in_this_process(["cofio", "add", "never ship on friday"], env)
    for command in console_commands(page):
        run_in_this_process(command, env)


def test_readme_commands_run_in_a_new_process(env: dict[str, str]) -> None:
    for command in console_commands(ROOT / "README.md"):
        run_in_new_process(command, env)


def run_in_new_process(command: list[str], env: dict[str, str]) -> None:
    result = subprocess.run(
        [sys.executable, "-m", *command], env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, f"{command}: {result.stdout} {result.stderr}"


def run_in_this_process(command: list[str], env: dict[str, str]) -> None:
    """Run the command in this process: a new process for each of more than a hundred commands would take minutes.

    Commands that start, stop or inspect processes run in a new process.
    """
    if command[1] in ("up", "down", "status", "ui", "install", "uninstall", "doctor"):
        run_in_new_process(command, env)
        return
    environment = {**dict.fromkeys(os.environ), **env}
    result = CliRunner().invoke(cli, command[1:], env=environment, prog_name="cofio", catch_exceptions=False)
    assert result.exit_code == 0, f"{command}: {result.output}"


@pytest.mark.parametrize("page", [page for page in PAGES if code_blocks(page, "python")], ids=lambda page: page.name)
def test_python_examples_of_page_run(page: Path, env: dict[str, str]) -> None:
    if page.name == "python.md" and page.parent.name == "reference":
        return  # signatures, not examples
    script = "\n".join(code_blocks(page, "python"))
    if page == ROOT / "README.md":
        result = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        output = result.stdout
    else:
        with patch.dict(os.environ, env, clear=True), redirect_stdout(StringIO()) as printed:
            exec(
                compile(script, page.name, "exec"), {"__name__": "__main__"}
            )  # like `python -c`, without starting a process
        output = printed.getvalue()
    assert "friday" in output.lower()


def test_generated_reference_is_up_to_date() -> None:
    result = subprocess.run(
        [sys.executable, ROOT / "scripts" / "reference.py", "--check"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_demo_prints_the_documented_answers(env: dict[str, str]) -> None:
    result = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py"], env=env, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    answers = [line.strip() for line in result.stdout.splitlines() if line.startswith("    ")]
    assert answers[0].startswith("We deploy to Fly.io in Frankfurt, never on a Friday")
    assert answers[-1] == "We use Prisma as the ORM"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_of_page_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("example", sorted((ROOT / "docs" / "examples").glob("*.patch")), ids=lambda path: path.stem)
def test_example_commit_applies_and_touches_at_most_seven_files(example: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "apply", "--check", str(example)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert example.read_text(encoding="utf-8").count("\ndiff --git ") < 7


def test_makefile_documents_every_target_and_ci_runs_the_suite() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony
    for target in phony.group(1).split():
        assert re.search(rf"^{target}:.*## ", text, re.MULTILINE), target
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
