"""The project of a folder, read from git's files without running git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cofio.hooks import project


def git(*arguments: str, at: Path) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *who, *arguments], cwd=at, env=env, check=True, capture_output=True)


@pytest.fixture
def at(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def web(at: Path) -> Path:
    """Create a repository with one commit."""
    web = at / "web"
    web.mkdir()
    git("init", at=web)
    git("commit", "--allow-empty", "-m", "first", at=web)
    return web


def project_of(path: Path, **how: str) -> str:
    return project.project_of(str(path), **how)


def test_all_folders_of_a_repository_are_one_project(web: Path) -> None:
    (web / "src" / "deep").mkdir(parents=True)
    assert project_of(web) == project_of(web / "src" / "deep") == project_of(web / ".git") == str(web)


def test_worktree_belongs_to_the_main_repository(at: Path, web: Path) -> None:
    git("worktree", "add", str(at / "elsewhere" / "fix"), at=web)
    (at / "elsewhere" / "fix" / "src").mkdir()
    assert project_of(at / "elsewhere" / "fix" / "src") == str(web)


def test_folders_with_the_same_name_are_two_projects(at: Path, web: Path) -> None:
    other = at / "other" / "web"
    other.mkdir(parents=True)
    git("init", at=other)
    assert project_of(other) == str(other) != project_of(web)
    assert project.name(project_of(other)) == project.name(project_of(web)) == "web"


def test_submodule_and_its_worktrees_are_their_own_project(at: Path, web: Path) -> None:
    complete = at / "whole"
    complete.mkdir()
    git("init", at=complete)
    git("submodule", "add", str(web), "parts/web", at=complete)
    git("worktree", "add", str(at / "fix"), at=complete / "parts" / "web")
    assert project_of(complete / "parts" / "web") == project_of(at / "fix") == str(complete / "parts" / "web")
    assert project_of(complete / "parts") == str(complete)


def test_worktrees_of_a_bare_repository_are_named_after_it(at: Path, web: Path) -> None:
    git("clone", "--bare", str(web), str(at / "shop.git"), at=at)
    git("worktree", "add", str(at / "one"), "-b", "one", at=at / "shop.git")
    git("worktree", "add", str(at / "two"), "-b", "two", at=at / "shop.git")
    assert (
        project_of(at / "one")
        == project_of(at / "two")
        == project_of(at / "shop.git")
        == project_of(at / "shop.git" / "refs")
        == str(at / "shop.git")
    )
    assert project.name(project_of(at / "one")) == "shop"


def test_bare_repository_next_to_its_worktrees_uses_the_folder(at: Path, web: Path) -> None:
    shop = at / "shop"
    shop.mkdir()
    git("clone", "--bare", str(web), str(shop / ".bare"), at=at)
    (shop / ".git").write_text("gitdir: ./.bare\n")
    git("worktree", "add", "one", "-b", "one", at=shop)
    assert project_of(shop) == project_of(shop / "one") == str(shop / ".bare")
    assert project.name(project_of(shop)) == "shop"


def test_separate_git_dir_belongs_to_its_tree(at: Path) -> None:
    """Nothing in such a git directory names the tree; with `core.worktree` its worktrees belong to the tree too."""
    (at / "tree" / "src").mkdir(parents=True)
    git("init", "--separate-git-dir", str(at / "store"), at=at / "tree")
    git("commit", "--allow-empty", "-m", "first", at=at / "tree")
    git("worktree", "add", str(at / "fix"), at=at / "tree")
    assert project_of(at / "tree") == project_of(at / "tree" / "src") == str(at / "tree")
    assert project_of(at / "fix") == str(at / "store")
    git("config", "core.worktree", str(at / "tree"), at=at / "tree")
    assert project_of(at / "fix") == project_of(at / "tree") == project_of(at / "store") == str(at / "tree")


def test_absorbed_submodule_keeps_its_project(at: Path, web: Path) -> None:
    git("clone", str(web), str(web / "lib"), at=at)
    assert project_of(web / "lib") == str(web / "lib")
    git("submodule", "add", "./lib", at=web)
    git("submodule", "absorbgitdirs", at=web)
    assert (web / "lib" / ".git").is_file()
    assert project_of(web / "lib") == project_of(web / ".git" / "modules" / "lib") == str(web / "lib")
    git("config", "extensions.worktreeConfig", "true", at=web / "lib")
    worktree = (web / ".git" / "modules" / "lib" / "config").read_text()
    (web / ".git" / "modules" / "lib" / "config.worktree").write_text("[core]\n\tworktree = ../../../lib\n")
    (web / ".git" / "modules" / "lib" / "config").write_text(worktree.replace("worktree = ", "other = "))
    git("worktree", "add", str(at / "fix"), at=web / "lib")
    assert project_of(at / "fix") == project_of(web / "lib") == str(web / "lib")


# ── folders that somebody else has made ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def payroll(at: Path) -> Path:
    """Create another project, with a linked worktree and a bare clone."""
    payroll = at / "payroll"
    payroll.mkdir()
    git("init", at=payroll)
    git("commit", "--allow-empty", "-m", "first", at=payroll)
    git("worktree", "add", str(at / "payroll-fix"), at=payroll)
    git("clone", "--bare", str(payroll), str(at / "payroll.git"), at=at)
    return payroll


def make_bare(folder: Path, worktree: str) -> Path:
    """Create what git takes for a bare repository; a clone may contain it."""
    for part in ("objects", "refs"):
        (folder / part).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text(f"[core]\n\tworktree = {worktree}\n")
    return folder


def test_bare_repository_inside_a_clone_is_ignored(at: Path, web: Path, payroll: Path) -> None:
    inner = make_bare(web / "packages" / "sub", "../../../payroll")
    assert project_of(inner) == project_of(inner / "refs") == str(web) != str(payroll)


def test_bare_repository_cannot_name_another_tree(at: Path, payroll: Path) -> None:
    alone = make_bare(at / "alone", "../payroll")
    assert project_of(alone) == project_of(alone / "refs") == str(alone)


@pytest.mark.parametrize(
    "target", ["../payroll/.git", "../payroll/.git/worktrees/payroll-fix", "../payroll.git", "../payroll-fix/.git"]
)
def test_git_file_cannot_name_another_repository(at: Path, payroll: Path, target: str) -> None:
    (at / "odd").mkdir()
    (at / "odd" / ".git").write_text(f"gitdir: {target}\n")
    assert project_of(at / "odd") == str(at / "odd")


def test_link_to_the_git_file_of_a_worktree_does_not_name_its_repository(at: Path, payroll: Path) -> None:
    (at / "odd").mkdir()
    (at / "odd" / ".git").symlink_to(at / "payroll-fix" / ".git")
    assert project_of(at / "odd") == str(at / "odd")


def test_forged_worktree_cannot_name_another_repository(at: Path, payroll: Path) -> None:
    """The forged git directory lies in the folder itself and names the folder, but its common directory does not."""
    odd = at / "odd"
    forged = make_bare(odd / "store" / "worktrees" / "odd", "../../../../payroll")
    make_bare(odd / "store", "../../payroll")
    (odd / ".git").write_text("gitdir: store/worktrees/odd\n")
    (forged / "gitdir").write_text(f"{odd}/.git\n")
    for common, expected in (("../../../../payroll/.git", odd), ("../..", odd / "store")):
        (forged / "commondir").write_text(common)
        assert project_of(odd) == str(expected)


def test_links_resolve_to_the_same_project(at: Path, web: Path) -> None:
    (at / "link").symlink_to(web)
    (at / "round").symlink_to(at / "round")
    assert project_of(at / "link") == str(web)
    assert project_of(at / "link" / ".." / "web" / ".") == str(web)
    assert project_of(at / "round") == str(at / "round")


def test_folder_without_git_is_its_own_project(at: Path) -> None:
    (at / "notes").mkdir()
    assert project_of(at / "notes") == str(at / "notes")
    assert project_of(at / "never" / "made") == str(at / "never" / "made")


@pytest.mark.parametrize("content", ["", "gitdir:", "gitdir: /nowhere/at/all", "hello", "gitdir: ../.."])
def test_broken_git_file_is_ignored(at: Path, content: str) -> None:
    (at / "odd").mkdir()
    (at / "odd" / ".git").write_text(content)
    assert project_of(at / "odd") == str(at / "odd")


def test_empty_git_folder_is_ignored(web: Path) -> None:
    (web / "sub" / ".git").mkdir(parents=True)
    assert project_of(web / "sub") == str(web)


def test_home_and_root_are_not_projects(at: Path, web: Path) -> None:
    assert project_of(at, user=str(at)) == ""
    assert project.project_of("/") == ""
    git("init", at=at)  # dotfiles: the home folder is not a project
    (at / "notes").mkdir()
    assert project_of(at, user=str(at)) == ""
    assert project_of(at / "notes", user=str(at)) == str(at / "notes")
    assert project_of(web, user=str(at)) == str(web)


@pytest.mark.parametrize("path", ["", ".", "src", "C:\\work", "/a\0b"])
def test_relative_or_invalid_path_is_not_a_project(path: str) -> None:
    assert project.project_of(path) == ""


def test_undecodable_path_is_converted_to_text(at: Path) -> None:
    odd = os.fsencode(at) + b"/caf\xe9 \xc3\xa9"
    Path(os.fsdecode(odd)).mkdir()
    assert project.project_of(os.fsdecode(odd)).encode().decode() == f"{at}/caf\ufffd é"


def test_project_name_is_the_last_path_part() -> None:
    assert [project.name(item) for item in ("", "/", "/a/web/", "team-web", "/a/.git", "/.git")] == [
        *("", "", "web", "team-web", "a", ".git")
    ]
