"""The --project option: a folder in any notation, or a name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import InProcessCli


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a repository in the home folder with a subfolder and a link, and change into the subfolder."""
    app = tmp_path.resolve() / "app"
    (app / "src").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(app)], check=True)
    (app.parent / "link").symlink_to(app)
    (app / "elsewhere").symlink_to(app.parent)
    monkeypatch.setenv("HOME", str(app.parent))
    monkeypatch.chdir(app / "src")
    return app


SPELLINGS = (
    ".",
    "./",
    "..",
    "../",
    "../src",
    "~/app",
    "~/app/",
    "~/app/src",
    "~/link",
    "{app}",
    "{app}/",
    "{app}//src",
)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_any_folder_of_a_repository_means_its_root(cofio: InProcessCli, tree: Path, spelling: str) -> None:
    project = spelling.format(app=tree)
    cofio.lines("add", "We deploy with Fly.io", "--project", project)
    cofio.lines("ingest", "-", "--project", project, input_text="We never deploy on a Friday.")
    assert {memory["project"] for memory in cofio.json("list")["memories"]} == {str(tree)}
    assert cofio.json("list", "--project", project)["total"] == 2
    assert cofio.json("search", "deploy with Fly.io", "--project", project)["results"][0]["id"] == 1
    assert cofio.json("recall", "--project", project)["ids"] == cofio.json("recall")["ids"] != []
    cofio.lines("edit", "1", "--project", "")
    assert cofio.json("edit", "1", "--project", project)["memory"]["project"] == str(tree)


@pytest.mark.parametrize("project", ["web", "acme/web", "team web", "a.b", "x" * 500, "src2/"])
def test_other_text_is_a_project_name(cofio: InProcessCli, tree: Path, project: str) -> None:
    cofio.lines("add", "We deploy with Fly.io", "--project", project)
    cofio.lines("ingest", "-", "--project", project, input_text="We never deploy on a Friday.")
    assert {memory["project"] for memory in cofio.json("list", "--project", project)["memories"]} == {project}
    assert len(cofio.json("recall", "--project", project)["ids"]) == 2


def test_project_is_empty_by_default(cofio: InProcessCli, tree: Path) -> None:
    cofio.lines("add", "We deploy with Fly.io", "--project", "")
    cofio.lines("ingest", "-", input_text="We never deploy on a Friday.")
    assert {memory["project"] for memory in cofio.json("list", "--project", "")["memories"]} == {""}
    assert cofio.json("list", "--project", "~")["total"] == 2  # the home folder is not a project


def test_existing_folder_takes_precedence_over_a_name(
    cofio: InProcessCli, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree.parent)
    cofio.lines("add", "We deploy with Fly.io", "--project", "app")
    assert cofio.json("list")["memories"][0]["project"] == str(tree)


def test_missing_path_is_made_absolute(cofio: InProcessCli, tree: Path) -> None:
    cofio.lines("add", "We deploy with Fly.io", "--project", "~/gone/../later/")
    assert cofio.json("list")["memories"][0]["project"] == str(tree.parent / "later")


def test_links_are_resolved_before_parent_references(cofio: InProcessCli, tree: Path) -> None:
    cofio.lines("add", "We deploy with Fly.io", "--project", "../elsewhere/../nearby")
    assert cofio.json("list")["memories"][0]["project"] == str(tree.parents[1] / "nearby")


def test_cofio_project_variable_names_the_current_project(cofio: InProcessCli, tree: Path) -> None:
    team = {"COFIO_PROJECT": "acme/web"}
    cofio.lines("add", "We deploy with Fly.io", "--project", "..", env=team)
    cofio.lines("add", "We deploy docs with Netlify", "--project", "~/other", env=team)
    projects = [memory["project"] for memory in cofio.json("list")["memories"]]
    assert projects == [str(tree.parent / "other"), "acme/web"]
    assert cofio.json("recall", env=team)["ids"] == [1]


@pytest.mark.parametrize("change", [("--visibility", "global"), ("--project", "")])
def test_memory_is_made_available_in_every_project(cofio: InProcessCli, tree: Path, change: tuple[str, str]) -> None:
    cofio.lines("add", "Ada prefers short commit messages", "--project", "~/app")
    for prompt in ("", "how long are commit messages of Ada?"):
        assert cofio.json("recall", prompt, "--project", "~/app")["ids"] == [1]
        assert cofio.json("recall", prompt, "--project", "~/another")["ids"] == []
    cofio.lines("edit", "1", *change)
    for project in ("~/app", "~/another", "web", ""):
        for prompt in ("", "how long are commit messages of Ada?"):
            assert cofio.json("recall", prompt, "--project", project)["ids"] == [1]


def test_home_of_unknown_user_is_rejected(cofio: InProcessCli, tree: Path) -> None:
    result = cofio("add", "We deploy with Fly.io", "--project", "~no-such-user/app")
    assert result.exit_code != 0
    assert "~no-such-user/app" in result.stderr
