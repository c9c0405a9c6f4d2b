"""Tests of the source layout: import direction, lightweight imports, environment access."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import cofio

SOURCE = Path(cofio.__file__).parent
EVALUATION = SOURCE.parents[1] / "packages" / "cofio-eval" / "src" / "cofio_eval"

#: Parts of the package from the bottom up. A part may import parts of lower layers and itself, not its own layer.
LAYERS = (
    "errors version text",
    "models",
    "client hooks ports staleness",
    "providers stores",
    "domain_knowledge retrieval",
    "dashboard judgement settings testing",
    "ingest",
    "maintenance markdown_notes",
    "transfer",
    "core",
    "bootstrap",
    "__init__ server",
    "install",
    "cli",
    "__main__",
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts.split()}
ENVIRONMENT_READERS = {"settings.py", "hooks/environment.py"}  # hooks avoid the cost of loading the settings


def source_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def all_source_files() -> list[Path]:
    """Return the files of cofio and of cofio-eval."""
    return [*source_files(), *sorted(EVALUATION.rglob("*.py"))]


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """Return the parts that a module imports, lazy imports included."""
    parts: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            parts |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("cofio.")}
        elif isinstance(node, ast.ImportFrom) and node.module == "cofio":
            parts |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cofio."):
            parts.add((node.module or "").split(".")[1])
    return parts - {"__version__"}


def test_imports_point_to_lower_layers() -> None:
    upward = [
        f"{path.relative_to(SOURCE)} imports {part}"
        for path in source_files()
        for part in imported_parts(path) - {part_of(path)}
        if LEVEL[part] >= LEVEL[part_of(path)]
    ]
    assert upward == []


def test_number_of_parts_and_import_edges_is_limited() -> None:
    edges = {(part_of(path), part) for path in source_files() for part in imported_parts(path) - {part_of(path)}}
    assert {part_of(path) for path in source_files()} == set(LEVEL)
    assert len(LEVEL) <= 30
    assert len(edges) <= 160


def test_cofio_does_not_import_cofio_eval() -> None:
    assert [path for path in source_files() if "cofio_eval" in path.read_text(encoding="utf-8")] == []


def test_class_names_are_unique() -> None:
    names = Counter(
        node.name.lstrip("_")
        for path in all_source_files()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_environment_is_read_only_in_allowed_modules() -> None:
    readers = {
        path
        for path in all_source_files()
        if any(access in path.read_text() for access in ("os.environ", "posix.environ", "getenv("))
    }
    assert readers == {SOURCE / name for name in ENVIRONMENT_READERS}


def test_blanket_excepts_are_few_and_log_or_raise() -> None:
    handlers = [
        (path, node)
        for path in all_source_files()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or getattr(node.type, "id", "") in ("Exception", "BaseException"))
    ]
    swallowing = [
        path.name
        for path, node in handlers
        if not any(isinstance(item, ast.Raise) for item in ast.walk(node)) and "log" not in ast.unparse(node)
    ]
    assert swallowing == []


def test_every_module_has_a_docstring() -> None:
    assert [path for path in all_source_files() if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_public_names_are_sorted_and_defined() -> None:
    assert cofio.__all__ == sorted(cofio.__all__)
    assert all(hasattr(cofio, name) for name in cofio.__all__)


def test_importing_cofio_loads_only_the_standard_library() -> None:
    script = (
        "import sys; before = set(sys.modules); import cofio, cofio.client, cofio.settings;"
        "new = {name.split('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(new - set(sys.stdlib_module_names) - {'cofio'}))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_no_file_names_a_package_registry_host() -> None:
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
