"""The plugin and the hooks of the other clients name projects alike, and spool alike."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cofio.hooks import project
from tests.openclaw.conftest import ROOT, Load, Plugin


def git(where: Path, *arguments: str) -> None:
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *who, *arguments], cwd=where, check=True, capture_output=True)


def repository(path: Path) -> Path:
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    git(path, "commit", "-q", "--allow-empty", "-m", "Start")
    return path


def _worktree(home: Path) -> Path:
    git(repository(home / "web"), "worktree", "add", "-q", str(home / "web-fix"))
    return home / "web-fix"


def _subfolder(home: Path) -> Path:
    (repository(home / "web") / "src" / "deep").mkdir(parents=True)
    return home / "web" / "src" / "deep"


def _bare(home: Path) -> Path:
    git(home, "clone", "-q", "--bare", str(repository(home / "web")), str(home / "store.git"))
    git(home / "store.git", "worktree", "add", "-q", str(home / "tree"), "main")
    return home / "tree"


def _submodule(home: Path) -> Path:
    git(repository(home / "web"), "submodule", "add", "-q", str(repository(home / "lib")), "vendor/lib")
    return home / "web" / "vendor" / "lib"


def _link(home: Path) -> Path:
    (home / "link").symlink_to(repository(home / "web"))
    return home / "link"


def _plain(home: Path) -> Path:
    (home / "notes").mkdir()
    return home / "notes"


def _empty_git(home: Path) -> Path:
    (home / "odd" / ".git").mkdir(parents=True)
    return home / "odd"


def _broken_pointer(home: Path) -> Path:
    (home / "odd").mkdir()
    (home / "odd" / ".git").write_text("gitdir: /nowhere/at/all\n")
    return home / "odd"


PLACES = [_worktree, _subfolder, _bare, _submodule, _link, _plain, _empty_git, _broken_pointer,
          lambda home: home, lambda _: Path("/")]  # fmt: skip


def asked(plugin: Plugin, name: str, given: str) -> str:
    return str(plugin.do("import", path=str(ROOT / "js" / "project.js"), name=name, given=[given]))


@pytest.mark.parametrize("place", [*PLACES, lambda home: home / "gone"])
def test_a_folder_belongs_to_the_same_project_in_every_client(
    load: Load, ann: dict[str, str], place: Callable[[Path], Path]
) -> None:
    folder = str(place(Path(ann["HOME"])))
    named = asked(load(), "projectOf", folder)
    assert named == project.project_of(folder, user=ann["HOME"])
    assert asked(load(), "sourceOf", named) == ("openclaw/" + project.name(named)).rstrip("/")


def test_the_variable_names_the_project_instead(load: Load) -> None:
    assert asked(load(env={"COFIO_PROJECT": "team-web"}), "projectOf", "/home/ann/web") == "team-web"


def test_a_path_that_is_not_absolute_is_no_project(load: Load) -> None:
    assert asked(load(), "projectOf", "work/web") == ""
