"""Commands of other packages: entry points of the group `cofio.commands`."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import click
import pytest

from cofio.cli import cli
from tests.cli.conftest import InProcessCli

PLUGIN = '''
import click

@click.command("greet")
@click.pass_obj
def greet(session):
    """Print a greeting."""
    click.echo(f"Hello from {session.settings.home.name}")

wrong = "no command"
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a package with three commands, two of which are broken, and return its metadata."""
    site = tmp_path / "site"
    (site / "greeter-1.0.dist-info").mkdir(parents=True)
    (site / "greeter.py").write_text(PLUGIN, encoding="utf-8")
    (site / "greeter-1.0.dist-info" / "METADATA").write_text("Name: greeter\nVersion: 1.0\n", encoding="utf-8")
    entry_points = "[cofio.commands]\ngreet = greeter:greet\nlost = greeter:missing\nwrong = greeter:wrong\n"
    (site / "greeter-1.0.dist-info" / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    monkeypatch.syspath_prepend(site)
    return site


@pytest.fixture
def without_cofio_eval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "entry_points", lambda **_query: ())


@pytest.mark.usefixtures("package")
def test_command_of_an_installed_package_runs_with_the_session(cofio: InProcessCli) -> None:
    assert cofio.lines("greet") == ["Hello from home"]
    assert "Print a greeting." in cofio("greet", "--help").stdout


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(("name", "reason"), [("lost", "has no attribute 'missing'"), ("wrong", "not a click command")])
def test_broken_command_names_its_package(cofio: InProcessCli, name: str, reason: str) -> None:
    result = cofio(name, "--json")
    error = json.loads(result.stderr)["error"]
    assert (result.exit_code, error["code"]) == (1, "misconfigured")
    assert f"`cofio {name}`" in error["message"]
    assert reason in error["message"]
    assert error["hint"] == "Update the package greeter, or uninstall it."


@pytest.mark.usefixtures("without_cofio_eval")
@pytest.mark.parametrize("arguments", [[], ["--help"], ["retrieval", "FILE", "--limit", "3"]])
def test_eval_without_its_package_says_how_to_install_it(cofio: InProcessCli, arguments: list[str]) -> None:
    result = cofio("eval", *arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: `cofio eval` is not installed.\nRun: pip install 'cofio[eval]'.\n"
    assert json.loads(cofio("eval", *arguments, "--json").stderr)["error"]["code"] == "misconfigured"


def test_help_lists_eval_as_its_package_describes_it() -> None:
    installed = cli.get_command(click.Context(cli), "eval")
    assert isinstance(installed, click.Group)
    assert installed.get_short_help_str(90) == cli.commands["eval"].get_short_help_str(90)


def test_own_commands_and_help_load_no_metadata() -> None:
    for arguments in (["--help"], ["stats", "--help"]):
        script = f"import sys; sys.argv[1:] = {arguments}\ntry:\n    from cofio.cli import main; main()\nfinally:\n    "
        script += "assert not {'importlib.metadata', 'cofio_eval'} & set(sys.modules)"
        result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
