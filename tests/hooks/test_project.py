"""Which project a folder belongs to: what git itself makes is read without git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cofio.hooks import project


def git(*arguments: str, at: Path) -> None:
    around = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *who, *arguments], cwd=at, env=around, check=True, capture_output=True)


@pytest.fixture
def at(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def web(at: Path) -> Path:
    """A repository with a commit."""
    web = at / "web"
    web.mkdir()
    git("init", at=web)
    git("commit", "--allow-empty", "-m", "first", at=web)
    return web


def of(path: Path, **how: str) -> str:
    return project.project_of(str(path), **how)


def test_a_repository_is_one_project_from_its_root_to_its_last_folder(web: Path) -> None:
    (web / "src" / "deep").mkdir(parents=True)
    assert of(web) == of(web / "src" / "deep") == of(web / ".git") == str(web)


def test_a_worktree_is_the_project_of_the_main_tree_wherever_it_lies(at: Path, web: Path) -> None:
    git("worktree", "add", str(at / "elsewhere" / "fix"), at=web)
    (at / "elsewhere" / "fix" / "src").mkdir()
    assert of(at / "elsewhere" / "fix" / "src") == str(web)


def test_namesakes_are_two_projects(at: Path, web: Path) -> None:
    other = at / "other" / "web"
    other.mkdir(parents=True)
    git("init", at=other)
    assert of(other) == str(other) != of(web)
    assert project.name(of(other)) == project.name(of(web)) == "web"


def test_a_submodule_is_a_project_of_its_own_and_its_worktrees_agree(at: Path, web: Path) -> None:
    whole = at / "whole"
    whole.mkdir()
    git("init", at=whole)
    git("submodule", "add", str(web), "parts/web", at=whole)
    git("worktree", "add", str(at / "fix"), at=whole / "parts" / "web")
    assert of(whole / "parts" / "web") == of(at / "fix") == str(whole / "parts" / "web")
    assert of(whole / "parts") == str(whole)


def test_worktrees_of_a_bare_repository_are_named_by_it(at: Path, web: Path) -> None:
    git("clone", "--bare", str(web), str(at / "shop.git"), at=at)
    git("worktree", "add", str(at / "one"), "-b", "one", at=at / "shop.git")
    git("worktree", "add", str(at / "two"), "-b", "two", at=at / "shop.git")
    assert (
        of(at / "one") == of(at / "two") == of(at / "shop.git") == of(at / "shop.git" / "refs") == str(at / "shop.git")
    )
    assert project.name(of(at / "one")) == "shop"


def test_a_bare_repository_beside_its_worktrees_gives_the_folder_its_name(at: Path, web: Path) -> None:
    shop = at / "shop"
    shop.mkdir()
    git("clone", "--bare", str(web), str(shop / ".bare"), at=at)
    (shop / ".git").write_text("gitdir: ./.bare\n")
    git("worktree", "add", "one", "-b", "one", at=shop)
    assert of(shop) == of(shop / "one") == str(shop / ".bare")
    assert project.name(of(shop)) == "shop"


def test_a_git_directory_that_lies_apart_is_one_project_with_its_worktrees(at: Path) -> None:
    (at / "tree").mkdir()
    git("init", "--separate-git-dir", str(at / "store"), at=at / "tree")
    git("commit", "--allow-empty", "-m", "first", at=at / "tree")
    git("worktree", "add", str(at / "fix"), at=at / "tree")
    assert of(at / "tree") == of(at / "fix") == str(at / "store")


def test_links_lead_to_the_same_project(at: Path, web: Path) -> None:
    (at / "link").symlink_to(web)
    (at / "round").symlink_to(at / "round")
    assert of(at / "link") == str(web)
    assert of(at / "link" / ".." / "web" / ".") == str(web)
    assert of(at / "round") == str(at / "round")


def test_without_git_the_folder_is_the_project(at: Path) -> None:
    (at / "notes").mkdir()
    assert of(at / "notes") == str(at / "notes")
    assert of(at / "never" / "made") == str(at / "never" / "made")


@pytest.mark.parametrize("content", ["", "gitdir:", "gitdir: /nowhere/at/all", "hello", "gitdir: ../.."])
def test_a_git_file_that_leads_nowhere_makes_no_repository(at: Path, content: str) -> None:
    (at / "odd").mkdir()
    (at / "odd" / ".git").write_text(content)
    assert of(at / "odd") == str(at / "odd")


def test_an_empty_git_folder_makes_no_repository(web: Path) -> None:
    (web / "sub" / ".git").mkdir(parents=True)
    assert of(web / "sub") == str(web)


def test_the_home_folder_and_the_root_are_no_projects(at: Path, web: Path) -> None:
    assert of(at, user=str(at)) == ""
    assert project.project_of("/") == ""
    git("init", at=at)  # dotfiles: what lies in the home folder is not all one project
    (at / "notes").mkdir()
    assert of(at, user=str(at)) == ""
    assert of(at / "notes", user=str(at)) == str(at / "notes")
    assert of(web, user=str(at)) == str(web)


@pytest.mark.parametrize("path", ["", ".", "src", "C:\\work", "/a\0b"])
def test_what_is_no_absolute_path_is_no_project(path: str) -> None:
    assert project.project_of(path) == ""


def test_a_name_in_any_bytes_becomes_text_that_can_be_stored(at: Path) -> None:
    odd = os.fsencode(at) + b"/caf\xe9 \xc3\xa9"
    Path(os.fsdecode(odd)).mkdir()
    assert project.project_of(os.fsdecode(odd)).encode().decode() == f"{at}/caf\ufffd é"


def test_a_project_is_called_by_its_last_part() -> None:
    assert [project.name(each) for each in ("", "/", "/a/web/", "team-web", "/a/.git", "/.git")] == [
        *("", "", "web", "team-web", "a", ".git")
    ]
