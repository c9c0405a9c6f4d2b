"""The house rules, as tests: who imports whom, what is light, who reads the environment."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import cofio

SOURCE = Path(cofio.__file__).parent

WORDS = {"model", "conversation", "ports", "errors", "version", "wording", "sameness", "stems",
         "sentences", "salvage", "prompts", "briefing", "chores", "literals", "schedule", "access",
         "addresses", "domain", "notes", "picture", "checkup", "late", "episodes",
         "llm_calls", "sessions"}  # fmt: skip
STEPS = {"hygiene", "gate", "extract", "search", "recall", "reconcile", "retrievals", "deeds", "upkeep", "freshness",
         "enrichment", "knowledge", "markdown", "layout", "bulk"}  # fmt: skip
#: Who may import what of ours, by the first part of the module's name. A package may always import itself.
MAY_IMPORT = {
    **dict.fromkeys(WORDS, WORDS),
    **dict.fromkeys(STEPS, WORDS),
    "judgement": WORDS | {"embedders"},
    "extract": WORDS | {"judgement"},
    "reconcile": WORDS | {"judgement"},
    "upkeep": WORDS | {"reconcile"},
    "settings": WORDS,
    "stores": WORDS,
    "web": WORDS,
    "embedders": WORDS | {"web"},
    "llms": WORDS | {"web"},
    "transcripts": WORDS,
    "hooks": WORDS,
    "testing": WORDS | {"stores"},
    "seen": WORDS,
    "learning": WORDS | STEPS | {"judgement", "seen", "tabling"},
    "tabling": WORDS | {"extract", "knowledge", "reconcile", "seen"},
    "intake": WORDS | {"learning"},
    "housekeeping": WORDS | STEPS,
    "episode_service": WORDS | {"search"},
    "session_service": WORDS,
    "keeper": WORDS
    | STEPS
    | {"learning", "intake", "housekeeping", "transfer", "seen", "knowing", "noting", "outlook", "episode_service"}
    | {"session_service"},
    "knowing": WORDS | STEPS,
    "noting": WORDS | STEPS,
    "outlook": WORDS | STEPS | {"stores"},  # how many threads a map may take
    "caretaker": WORDS | {"keeper"},
    "librarian": WORDS | {"keeper"},
    "transfer": WORDS | {"stores", "markdown"},  # front matter is read by one reader
    "worker": WORDS | {"keeper"},
    "attend": WORDS | {"keeper", "hooks", "transcripts"},
    "backfill": WORDS | {"attend", "hooks", "hygiene", "markdown", "transcripts", "transfer"},
    "assemble": WORDS
    | STEPS
    | {"keeper", "housekeeping", "noting", "transfer", "settings", "stores", "embedders", "judgement", "llms", "hooks"},
    "client": WORDS | {"settings", "client_knowledge"},
    "client_knowledge": WORDS,
    "chat": WORDS,
    "upstream": WORDS | {"web"},
    "api": WORDS
    | {
        "chat",
        "upstream",
        "keeper",
        "mcp",
        "assemble",
        "settings",
        "client",
        "search",
        "bulk",
        "worker",
        "caretaker",
        "librarian",
        "attend",
        "hooks",
        "page",
    },
    # asks the keeper as any program would; single decisions are measured at the step that makes them
    "evaluation": WORDS | {"keeper", "assemble", "settings", "embedders", "judgement", "extract", "reconcile"},
    "page": set(),  # files for browsers, which call us like any client
    "daemon": WORDS | {"keeper", "assemble", "settings", "client", "api", "worker", "hooks"},
    "mcp": WORDS | {"hooks"},
    "install": WORDS | {"settings", "client", "daemon", "hooks", "judgement", "llms"},
    "cli": WORDS
    | {
        "keeper",
        "assemble",
        "settings",
        "client",
        "api",
        "daemon",
        "transcripts",
        "mcp",
        "hooks",
        "install",
        "transfer",
        "librarian",
        "evaluation",
        "backfill",
        "worker",
    },
    "__main__": {"cli", "hooks"},
    "__init__": WORDS | {"keeper", "assemble", "settings", "knowledge", "extract"},
}
READERS = {"settings.py", "hooks/around.py"}  # a hook has no time for the settings


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The parts of ours that a module imports, lazy imports included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("cofio.")}
        elif isinstance(node, ast.ImportFrom) and node.module == "cofio":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cofio."):
            found.add((node.module or "").split(".")[1])
    return found - {"__version__"}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path: Path) -> None:
    part = part_of(path)
    assert imported(path) - {part} <= MAY_IMPORT[part]


def test_the_environment_is_read_in_one_place() -> None:
    readers = {
        str(path.relative_to(SOURCE))
        for path in modules()
        if any(way in path.read_text() for way in ("os.environ", "posix.environ", "getenv("))
    }
    assert readers == READERS


def test_a_blanket_except_stands_in_few_places_and_logs() -> None:
    found = [
        (path, node)
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or getattr(node.type, "id", "") in ("Exception", "BaseException"))
    ]
    swallowing = [
        path.name
        for path, node in found
        if not any(isinstance(each, ast.Raise) for each in ast.walk(node)) and "log" not in ast.unparse(node)
    ]
    assert swallowing == []


def test_every_module_says_what_it_is() -> None:
    assert [path for path in modules() if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_the_public_names_are_sorted_and_there() -> None:
    assert cofio.__all__ == sorted(cofio.__all__)
    assert all(hasattr(cofio, name) for name in cofio.__all__)


def test_importing_cofio_loads_nothing_outside_the_standard_library() -> None:
    script = (
        "import sys; before = set(sys.modules); import cofio, cofio.client, cofio.settings;"
        "new = {name.split('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(new - set(sys.stdlib_module_names) - {'cofio'}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_nothing_names_a_registry_or_a_machine() -> None:
    root = SOURCE.parents[1]
    tracked = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    hosts = ("pypi" + ".org", "python" + "hosted", "registry." + "npmjs", "deb." + "debian")
    for name in tracked.stdout.splitlines():
        path = root / name
        if path.suffix in (".py", ".toml", ".lock", ".md", ".sql", ".txt", ".in", "") and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            assert not any(host in text for host in hosts), name
