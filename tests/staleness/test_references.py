"""References: the files, definitions and commands of a repository that a text names."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cofio.staleness import MOST, StalenessChecker, symbols
from cofio.staleness.references import find_references
from tests.hooks.conftest import without_privileges
from tests.staleness.conftest import FILES, Repository


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("The retry limit is in src/net.py.", "src/net.py"),
        ("Set it in `config/prod.yaml`, never elsewhere", "config/prod.yaml"),
        ("./scripts/deploy.sh ships it", "scripts/deploy.sh"),
        ("Ship with bash scripts/deploy.sh", "scripts/deploy.sh"),
        ("see src/net.py:42", "src/net.py"),
        ("README.md says how", "README.md"),
        ("The Dockerfile is built nightly", "Dockerfile"),
        ("net.py holds the retries", "src/net.py"),
        ("(src/net.py)", "src/net.py"),
        ("Is it in src/net.py?", "src/net.py"),
    ],
)
def test_existing_file_is_anchored(repo: Repository, text: str, path: str) -> None:
    assert [(kind, anchor_path) for kind, _, anchor_path in repo.anchors_of(text)] == [("file", path)]


def test_absolute_path_inside_the_tree_is_a_relative_anchor(repo: Repository) -> None:
    assert repo.anchors_of(f"Look at {repo.root}/src/net.py") == [("file", "src/net.py", "src/net.py")]


def test_ambiguous_file_name_is_not_anchored(repo: Repository) -> None:
    repo.write("lib/net.py", "")
    assert repo.anchors_of("net.py holds the retries") == []
    assert repo.anchors_of("lib/net.py holds the retries") == [("file", "lib/net.py", "lib/net.py")]


@pytest.mark.parametrize("name", ["src/größe.py", "源/网络.py", "a b/c d.md", "app/[id]/page.tsx"])
def test_names_in_any_script_and_with_spaces_are_found(repo: Repository, name: str) -> None:
    repo.write(name, "x = 1\n")
    assert repo.anchors_of(f"The size is in `{name}`.") == [("file", name, name)]


@pytest.mark.parametrize(
    ("text", "name", "path"),
    [
        ("`parse_config()` reads the file", "parse_config", "src/config.py"),
        ("parse_config(path) reads the file", "parse_config", "src/config.py"),
        ("Call parse_config first", "parse_config", "src/config.py"),
        ("`RetryPolicy` decides", "RetryPolicy", "src/net.py"),
        ("`RetryPolicy.next_delay` doubles", "RetryPolicy.next_delay", "src/net.py"),
        ("`net.connect` is patient", "net.connect", "src/net.py"),
        ("`RETRIES` is three", "RETRIES", "src/net.py"),
    ],
)
def test_definition_is_anchored_at_its_file(repo: Repository, text: str, name: str, path: str) -> None:
    assert repo.anchors_of(text) == [("symbol", name, path)]


@pytest.mark.parametrize(
    "text",
    [
        "We connect every morning",  # a plain word, although it names a function
        "`connect` the cable",
        "`next_thing()` is nowhere",
        "`os.connect` is another's",
        "`web.connect` too",
        "",
        "Ada prefers tabs. We deploy on Fridays, e.g. at 3.30, with Node.js and Fly.io",
    ],
)
def test_plain_words_and_undefined_names_are_not_anchored(repo: Repository, text: str) -> None:
    assert repo.anchors_of(text) == []


def test_ambiguous_definition_is_resolved_outside_tests_or_by_a_named_file(repo: Repository) -> None:
    repo.write("tests/test_config.py", "def parse_config(path): ...\n")
    assert repo.anchors_of("`parse_config()` reads") == [("symbol", "parse_config", "src/config.py")]
    repo.write("lib/other.py", "def parse_config(path): ...\n")
    assert repo.anchors_of("`parse_config()` reads") == []
    assert repo.anchors_of("`parse_config()` in lib/other.py reads") == [("symbol", "parse_config", "lib/other.py")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.js", "export default async function loadAll(x) {\n  return x;\n}\n"),
        ("a.ts", "export const loadAll = async (x: number) => {\n  return x;\n};\n"),
        ("a.tsx", "class Box {\n  private async loadAll(x: number): Promise<void> {\n    go();\n  }\n}\n"),
        ("a.go", "func (s *Store) loadAll(x int) error {\n\treturn nil\n}\n"),
        ("a.rs", "    pub(crate) async fn loadAll<T>(x: T)\n    where\n        T: X,\n    {\n        x\n    }\n"),
        ("A.java", "  public static List<String> loadAll(int x) throws E {\n    return go();\n  }\n"),
        ("a.c", "static int *loadAll(int x)\n{\n    return 0;\n}\n"),
        ("a.cpp", "std::vector<int> Store::loadAll(int x) {\n  return {};\n}\n"),
        ("a.rb", "  def self.loadAll(x)\n    go\n  end\n"),
        ("a.sh", "loadAll() {\n  go\n}\n"),
        ("b.sh", "function loadAll {\n  go\n}\n"),
    ],
)
def test_definition_and_its_block_are_found_in_many_languages(repo: Repository, name: str, content: str) -> None:
    repo.write(name, f"{content}\nother = 1\n")
    assert repo.anchors_of("`loadAll()` does it") == [("symbol", "loadAll", name)]
    block = symbols.definition_block(name, f"{content}\nother = 1\n".encode(), "loadAll")
    assert block
    assert content.rstrip().endswith(block.rsplit("\n", 1)[-1]) or name == "a.tsx"
    assert "other" not in block


def test_call_or_prototype_is_not_a_definition() -> None:
    for name, content in (
        ("a.c", "int load_all(int x);\n"),
        ("A.java", "    return load_all(x);\n"),
        ("a.js", "  if (load_all(x)) {\n"),
        ("a.py", "x = load_all()\nload_all == 3\n"),
    ):
        assert symbols.definition_block(name, content.encode(), "load_all") is None


@pytest.mark.parametrize(
    ("text", "name", "path"),
    [
        ("Run `make test` before a push", "make test", "Makefile"),
        ("Run make test before a push", "make test", "Makefile"),
        ("Lint with npm run lint", "npm run lint", "package.json"),
        ("`pnpm lint` and nothing else", "pnpm lint", "package.json"),
        ("yarn test takes a minute", "yarn test", "package.json"),
        ("npm test takes a minute", "npm test", "package.json"),
        ("`just release` tags it", "just release", "justfile"),
        ("`webctl up --now` starts it", "webctl", "pyproject.toml"),
    ],
)
def test_command_is_anchored_where_it_is_defined(repo: Repository, text: str, name: str, path: str) -> None:
    assert repo.anchors_of(text) == [("command", name, path)]


@pytest.mark.parametrize(
    "text",
    [
        "We make test plans",
        "It is just release day",
        "make sure that it runs",
        "npm lint",
        "yarn install",
        "`make dist`",
    ],
)
def test_phrase_is_not_a_command(repo: Repository, text: str) -> None:
    assert repo.anchors_of(text) == []


def test_definition_replaces_the_file_named_with_it(repo: Repository) -> None:
    assert repo.anchors_of("`parse_config()` is in src/config.py") == [("symbol", "parse_config", "src/config.py")]
    assert repo.anchors_of("`make test` is in the Makefile") == [("command", "make test", "Makefile")]


def test_first_four_references_are_kept(repo: Repository) -> None:
    references = repo.anchors_of("README.md, Dockerfile, src/net.py, src/config.py, config/prod.yaml and `make test`")
    assert [path for _, _, path in references] == ["README.md", "Dockerfile", "src/net.py", "src/config.py"]
    assert len(references) == MOST


# ── No working tree ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_there_are_no_anchors_without_a_working_tree(repo: Repository, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "secret.txt").write_text("x")
    for project in ("", "web", "web/src", str(tmp_path / "none"), str(repo.root / "README.md"), str(plain), "/x\0y"):
        assert StalenessChecker().anchors("README.md and secret.txt", project) == ()
    assert StalenessChecker(reads=False).anchors("README.md", str(repo.root)) == ()


# ── Malicious input ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "../../etc/passwd holds it",
        "`../../../../../../etc/passwd`",
        "/etc/passwd holds it",
        "`/etc/passwd`",
        "~/.ssh/id_rsa",
        "src/../../outside.txt",
        "`src/../src/net.py`",
        "`.git/config` and .git/HEAD",
        "node_modules/left/index.js",
        "index.js",
        "https://example.com/src/net.py",
        "file:///src/net.py",
        "`src//net.py`",
        "src",
        "`src/`",
    ],
)
def test_nothing_outside_the_tree_or_in_git_internals_is_read(repo: Repository, tmp_path: Path, text: str) -> None:
    (tmp_path / "outside.txt").write_text("x")
    repo.write("node_modules/left/index.js", "x")
    assert repo.anchors_of(text) == []


def test_external_link_is_not_followed_and_internal_link_is(repo: Repository, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("x")
    (repo.root / "leak.txt").symlink_to("/etc/passwd")
    (repo.root / "leaks").symlink_to(tmp_path / "outside")
    (repo.root / "config.link").symlink_to(".git/config")
    (repo.root / "CLAUDE.md").symlink_to("README.md")
    (repo.root / "lib").symlink_to("src")
    assert repo.anchors_of("leak.txt, leaks/secret.txt, secret.txt and config.link") == []
    assert repo.anchors_of("CLAUDE.md and lib/net.py") == [
        ("file", "CLAUDE.md", "CLAUDE.md"),
        ("file", "lib/net.py", "lib/net.py"),
    ]


def test_link_loops_terminate(repo: Repository) -> None:
    (repo.root / "a.txt").symlink_to("b.txt")
    (repo.root / "b.txt").symlink_to("a.txt")
    (repo.root / "src" / "again").symlink_to("..")
    assert repo.anchors_of("a.txt and b.txt and net.py") == [("file", "net.py", "src/net.py")]


def test_named_pipe_does_not_block(repo: Repository) -> None:
    os.mkfifo(repo.root / "pipe.txt")
    os.mkfifo(repo.root / "pipe.py")
    results: list[object] = []
    thread = threading.Thread(
        target=lambda: results.append(repo.anchors_of("pipe.txt and `some_thing()`")), daemon=True
    )
    thread.start()
    thread.join(10)
    assert results == [[]]


def test_only_the_beginning_of_a_huge_file_is_read(repo: Repository) -> None:
    huge = repo.root / "huge.db"
    huge.touch()
    os.truncate(huge, 2 << 30)
    os.truncate(repo.write("huge.py", "def late(): ...\n"), 2 << 30)
    started = time.monotonic()
    memory = repo.memory("It is all in huge.db")
    assert repo.anchors_of("`late()`") == []
    assert time.monotonic() - started < 5
    assert repo.state(memory) == "fresh"
    os.truncate(huge, (2 << 30) + 1)
    assert repo.state(memory) == "changed"


def test_unreadable_file_is_not_anchored_and_its_freshness_is_unknown(
    repo: Repository,
) -> None:
    repo.write("src/net.py", "it has changed").chmod(0)
    script = (
        "import sys; from cofio.staleness import StalenessChecker; from cofio.models.memory import Anchor, Memory\n"
        "root = sys.argv[1]\n"
        "anchors = (Anchor(kind='file', name='src/net.py', path='src/net.py', hash='0' * 16),)\n"
        "memory = Memory(id=1, text='', project=root, created_at='', updated_at='', anchors=anchors)\n"
        "checker = StalenessChecker(); print(checker.anchors('src/net.py', root), checker.check(memory))\n"
    )
    command = [sys.executable, "-c", script, str(repo.root)]
    process = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=without_privileges)
    assert process.stdout.strip() == "() FreshnessResult(state='', notes=())"


def test_tree_with_too_many_files_is_listed_in_part(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofio.staleness.worktree.MOST_FILES", 5)
    assert repo.anchors_of("README.md") == [("file", "README.md", "README.md")]
    assert repo.anchors_of("net.py") == []  # there may be another one
    assert repo.anchors_of("`parse_config()`") == []
    assert repo.anchors_of("`parse_config()` in src/config.py") == [("symbol", "parse_config", "src/config.py")]


@pytest.mark.parametrize("ending", ["py", "js", "go", "rs", "java", "c", "rb", "sh"])
@pytest.mark.parametrize("line", ["a " * 900, "(" * 1_900, "<" * 1_900, "public " * 270, "x" * 1_900, " " * 1_900])
def test_any_line_of_a_file_is_read_quickly(ending: str, line: str) -> None:
    started = time.monotonic()
    read = symbols.name_reader(f"x.{ending}")
    assert read
    read(f"{line}\n".encode() * 50)
    assert time.monotonic() - started < 5


@given(st.text() | st.text("`./_(): amke", max_size=300))
@example("`./`")
def test_any_text_gives_valid_references(text: str) -> None:
    assert all(reference.name and 0 <= reference.place <= len(text) for reference in find_references(text, "/srv/web"))


@pytest.mark.parametrize("piece", ["a/", "`", "a_", "a.", "make ", "x(", "a@", "http://", "_"])
def test_any_text_is_searched_quickly(piece: str) -> None:
    started = time.monotonic()
    find_references(piece * 20_000, "/srv/web")
    assert time.monotonic() - started < 5


def test_every_file_of_the_repository_can_be_anchored(repo: Repository) -> None:
    for name in FILES:
        assert repo.anchors_of(f"`{name}`") == [("file", name, name)]
