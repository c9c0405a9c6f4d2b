"""Generator of docs/reference/ from the code: command line, HTTP, settings, Python, modules. `--check` only compares.

python scripts/reference.py [--check]
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import cofio
import cofio_eval
from cofio.cli import cli
from cofio.core import Keeper
from cofio.models import memory
from cofio.server.http import openapi
from cofio.server.http.routes import ROUTES
from cofio.settings import settable

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
MADE = "<!-- Made by scripts/reference.py (make docs); edit the code instead. -->\n\n"
WIDTH = 100


def main() -> int:
    """Write the pages; with --check, print the outdated ones and return 1 if there are any."""
    pages = {
        "cli.md": command_line(),
        "http.md": http(),
        "settings.md": settings(),
        "python.md": python(),
        "modules.md": modules(),
    }
    stale = [name for name, text in pages.items() if not _same(FOLDER / name, text)]
    if "--check" in sys.argv[1:]:
        sys.stdout.write("".join(f"docs/reference/{name} is out of date: run make docs\n" for name in stale))
        return bool(stale)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


def command_line() -> str:
    """Return the help of every command, as printed by the command."""
    parts = [f"# Command line\n\n{MADE}"]
    for words, command in _commands(cli, ("cofio",)):
        if command.hidden:
            continue
        context = click.Context(command, info_name=" ".join(words), max_content_width=WIDTH, terminal_width=WIDTH)
        text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        parts.append(f"## {' '.join(words)}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def _commands(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            assert subcommand
            yield from _commands(subcommand, (*words, name))


def http() -> str:
    """Return every route with its fields; the running service has the same at /docs and /openapi.json."""
    document = openapi.document(ROUTES)
    parts = [
        f"# HTTP\n\n{MADE}JSON in, JSON out. A key, where one is set, goes as `X-API-Key` or `Authorization: Bearer`; "
        "`X-Cofio-Client` names the caller in the journal. A key of `cofio keys` has to have the role that is named, "
        "or a higher one. Every error has one shape: "
        '`{"error": {"code", "message", "hint"}}`. The service describes itself at `/docs` and `/openapi.json`.\n'
    ]
    for route in ROUTES:
        role = "" if route.public else f" Role: {route.role}."
        parts.append(f"## {route.method} {route.path}\n\n{route.summary}{role}\n")
        fields = list(_fields(document, route.method, route.path))
        if fields:
            parts.append("| field | type | default | what |\n|---|---|---|---|\n" + "\n".join(fields) + "\n")
        if route.example:
            parts.append(f"```json\n{json.dumps(route.example, ensure_ascii=False)}\n```\n")
    return "\n".join(parts)


def _fields(document: dict[str, Any], method: str, path: str) -> Iterator[str]:
    about = document["paths"][path][method.lower()]
    for each in about.get("parameters", ()):
        if each["in"] == "query":
            yield _row(each["name"], each["schema"], each.get("required", False))
    body = about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    schema = document["components"]["schemas"].get(body.get("$ref", "").rpartition("/")[2], body)
    for name, each in schema.get("properties", {}).items():
        yield _row(name, each, name in schema.get("required", ()))


def _row(name: str, schema: dict[str, Any], required: bool) -> str:
    default = "required" if required else json.dumps(schema["default"]) if schema.get("default") is not None else ""
    says = schema.get("description", "")
    if schema.get("enum"):
        says += " One of: " + ", ".join(str(each) for each in schema["enum"]) + "."
    return f"| `{name}` | {_type(schema)} | {default} | {says.strip()} |"


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type") or schema.get("$ref", "any").rpartition("/")[2])


def settings() -> str:
    """Return every setting: its name in config.toml, its variable, its default and its description."""
    rows = [
        f"| `{each.name}` | {', '.join(f'`{name}`' for name in each.metadata['variables'])} "
        f"| {f'`{each.default}`' if each.default != '' else ''} | {each.metadata['says']} |"
        for each in settable()
    ]
    head = "| in `config.toml` | variable | default | what |\n|---|---|---|---|\n"
    return (
        f"# Settings\n\n{MADE}Flags win over variables, variables over `config.toml` in the home, and that over the "
        f"defaults. `cofio config` shows what is in force and where it comes from.\n\n{head}" + "\n".join(rows) + "\n"
    )


def python() -> str:
    """Return the keeper's methods and the data classes of the model."""
    parts = [
        f"# Python\n\n{MADE}`cofio.open(store=None, *, embedder=None, **settings)` gives a `Keeper`.\n\n## Keeper\n"
    ]
    for name, method in inspect.getmembers(Keeper, inspect.isfunction):
        if not name.startswith("_"):
            signature = (
                str(inspect.signature(method))
                .replace("builtins.", "")
                .replace("'", "")
                .replace("(self, ", "(")
                .replace("(self)", "()")
            )
            parts.append(f"### {name}\n\n```python\n{name}{signature}\n```\n\n{inspect.getdoc(method)}\n")
    parts.append("## The words\n")
    for kind in (
        memory.Fact,
        memory.Memory,
        memory.Query,
        memory.Scope,
        memory.Hit,
        memory.Change,
        memory.Changeset,
        memory.Novelty,
    ):
        names = ", ".join(f"`{field.name}`" for field in dataclasses.fields(kind))
        parts.append(f"### {kind.__name__}\n\n{inspect.getdoc(kind)}\n\n{names}\n")
    return "\n".join(parts)


def modules() -> str:
    """Return the modules of the package with the first sentence of their docstrings, by folder."""
    walks = "[Architecture](../explanation/design.md) shows how they work together."
    parts = [f"# Modules\n\n{MADE}The modules of `src/cofio` and of `packages/cofio-eval`, by folder. {walks}\n"]
    for package in (cofio, cofio_eval):
        root = Path(str(package.__file__)).parent
        for folder in sorted({path.parent for path in root.rglob("*.py")}):
            name = package.__name__ if folder == root else str(folder.relative_to(root))
            rows = [f"\n## {name}\n", "| module | contents |", "|---|---|"]
            for path in sorted(folder.glob("*.py")):
                lines = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n\n")[0]
                sentence = " ".join(lines.split()).replace("|", "\\|")
                rows.append(f"| `{path.stem}` | {sentence} |")
            parts.append("\n".join(rows) + "\n")
    return "".join(parts)


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
