"""The plugin and the hooks of other clients name projects identically."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cofio.hooks import project
from tests.openclaw.conftest import ROOT, Load, Plugin


def git(folder: Path, *arguments: str) -> None:
    options = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *options, *arguments], cwd=folder, check=True, capture_output=True)


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


def _foreign_worktree(home: Path) -> Path:
    _worktree(home)
    (home / "odd").mkdir()
    (home / "odd" / ".git").write_text((home / "web-fix" / ".git").read_text())
    return home / "odd"


def _separate_git_dir(home: Path) -> Path:
    (home / "tree").mkdir()
    git(home / "tree", "init", "-q", "--separate-git-dir", str(home / "store"))
    return home / "tree"


def _bare_beside_worktrees(home: Path) -> Path:
    git(home, "clone", "-q", "--bare", str(repository(home / "web")), str(home / "shop" / ".bare"))
    (home / "shop" / ".git").write_text("gitdir: ./.bare\n")
    return home / "shop"


def _bare_inside_a_clone(home: Path) -> Path:
    inner = repository(home / "web") / "sub"
    git(home, "clone", "-q", "--bare", str(repository(home / "payroll")), str(inner))
    git(inner, "config", "core.worktree", str(home / "payroll"))
    return inner


LAYOUTS = [_foreign_worktree, _separate_git_dir, _bare_beside_worktrees, _bare_inside_a_clone,
          _worktree, _subfolder, _bare, _submodule, _link, _plain, _empty_git, _broken_pointer,
          lambda home: home, lambda _: Path("/")]  # fmt: skip


def call_project(plugin: Plugin, name: str, argument: str) -> str:
    return str(plugin.do("import", path=str(ROOT / "js" / "project.js"), name=name, given=[argument]))


@pytest.mark.parametrize("layout", [*LAYOUTS, lambda home: home / "gone"])
def test_project_of_a_folder_is_the_same_in_every_client(
    load: Load, ann: dict[str, str], layout: Callable[[Path], Path]
) -> None:
    folder = str(layout(Path(ann["HOME"])))
    project_name = call_project(load(), "projectOf", folder)
    assert project_name == project.project_of(folder, user=ann["HOME"])
    assert call_project(load(), "sourceOf", project_name) == ("openclaw/" + project.name(project_name)).rstrip("/")


def test_environment_variable_overrides_the_project(load: Load) -> None:
    assert call_project(load(env={"COFIO_PROJECT": "team-web"}), "projectOf", "/home/ann/web") == "team-web"


def test_relative_path_is_not_a_project(load: Load) -> None:
    assert call_project(load(), "projectOf", "work/web") == ""
