"""What a person may give as --project: a folder of it in any spelling, or a name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Cofio


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in the home folder, with a subfolder and a link to it; we stand in the subfolder."""
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
def test_any_folder_of_a_repository_means_its_main_tree(cofio: Cofio, tree: Path, spelling: str) -> None:
    given = spelling.format(app=tree)
    cofio.lines("add", "We deploy with Fly.io", "--project", given)
    cofio.lines("ingest", "-", "--project", given, says="We never deploy on a Friday.")
    assert {each["project"] for each in cofio.json("list")["memories"]} == {str(tree)}
    assert cofio.json("list", "--project", given)["total"] == 2
    assert cofio.json("search", "deploy with Fly.io", "--project", given)["results"][0]["id"] == 1
    assert cofio.json("recall", "--project", given)["ids"] == cofio.json("recall")["ids"] != []
    cofio.lines("edit", "1", "--project", "")
    assert cofio.json("edit", "1", "--project", given)["memory"]["project"] == str(tree)


@pytest.mark.parametrize("given", ["web", "acme/web", "team web", "a.b", "x" * 500, "src2/"])
def test_a_name_stays_a_name(cofio: Cofio, tree: Path, given: str) -> None:
    cofio.lines("add", "We deploy with Fly.io", "--project", given)
    cofio.lines("ingest", "-", "--project", given, says="We never deploy on a Friday.")
    assert {each["project"] for each in cofio.json("list", "--project", given)["memories"]} == {given}
    assert len(cofio.json("recall", "--project", given)["ids"]) == 2


def test_no_project_stays_none(cofio: Cofio, tree: Path) -> None:
    cofio.lines("add", "We deploy with Fly.io", "--project", "")
    cofio.lines("ingest", "-", says="We never deploy on a Friday.")
    assert {each["project"] for each in cofio.json("list", "--project", "")["memories"]} == {""}
    assert cofio.json("list", "--project", "~")["total"] == 2  # the home folder is no project


def test_a_folder_that_is_there_goes_before_a_name(cofio: Cofio, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree.parent)
    cofio.lines("add", "We deploy with Fly.io", "--project", "app")
    assert cofio.json("list")["memories"][0]["project"] == str(tree)


def test_a_path_that_is_not_there_is_written_out(cofio: Cofio, tree: Path) -> None:
    cofio.lines("add", "We deploy with Fly.io", "--project", "~/gone/../later/")
    assert cofio.json("list")["memories"][0]["project"] == str(tree.parent / "later")


def test_a_link_is_followed_before_what_goes_up(cofio: Cofio, tree: Path) -> None:
    cofio.lines("add", "We deploy with Fly.io", "--project", "../elsewhere/../nearby")
    assert cofio.json("list")["memories"][0]["project"] == str(tree.parents[1] / "nearby")


def test_the_project_at_hand_is_called_as_the_hooks_call_it(cofio: Cofio, tree: Path) -> None:
    team = {"COFIO_PROJECT": "acme/web"}
    cofio.lines("add", "We deploy with Fly.io", "--project", "..", env=team)
    cofio.lines("add", "We deploy docs with Netlify", "--project", "~/other", env=team)
    projects = [each["project"] for each in cofio.json("list")["memories"]]
    assert projects == [str(tree.parent / "other"), "acme/web"]
    assert cofio.json("recall", env=team)["ids"] == [1]


@pytest.mark.parametrize("change", [("--visibility", "global"), ("--project", "")])
def test_a_memory_can_be_made_to_hold_in_every_project(cofio: Cofio, tree: Path, change: tuple[str, str]) -> None:
    cofio.lines("add", "Ada prefers short commit messages", "--project", "~/app")
    for prompt in ("", "how long are commit messages of Ada?"):
        assert cofio.json("recall", prompt, "--project", "~/app")["ids"] == [1]
        assert cofio.json("recall", prompt, "--project", "~/another")["ids"] == []
    cofio.lines("edit", "1", *change)
    for project in ("~/app", "~/another", "web", ""):
        for prompt in ("", "how long are commit messages of Ada?"):
            assert cofio.json("recall", prompt, "--project", project)["ids"] == [1]


def test_the_home_of_somebody_who_is_not_there_is_refused(cofio: Cofio, tree: Path) -> None:
    done = cofio("add", "We deploy with Fly.io", "--project", "~no-such-user/app")
    assert done.exit_code != 0
    assert "~no-such-user/app" in done.stderr
