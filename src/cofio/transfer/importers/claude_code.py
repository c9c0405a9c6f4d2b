"""Reader of Claude Code's own memory: the Markdown under ~/.claude/projects/PROJECT/memory.

    MEMORY.md   an index; lines that link to the other files are not facts, the rest is
    NAME.md     front matter (name, description, type) and the memory; "Why" and "How to apply" stay with it

Each bullet and paragraph is a fact, identified by its words: a second import after an edit adds only what is new.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

from cofio.errors import InvalidInput
from cofio.markdown_notes.frontmatter import text_of
from cofio.transfer.importers import markdown_folder
from cofio.transfer.importers.base import Found, Importer, as_absolute_path, check_exists, object_of, to_fact
from cofio.transfer.importers.markdown import Chunk, chunks, split_front_matter

_INDEX = "MEMORY.md"
_LINKED = re.compile(r"[\[(|*`\s-]*\[?\[[^\]\n]{1,300}\](?:\]|\([^)\n]{1,300}\.md(?:#[^)\n]{0,100})?\))")
_PAGE = re.compile(r"\.md\b|\[\[")
_LINES = 200  # lines of a transcript that are searched for its folder
_LONGEST_LINE = 1 << 20
#: Kind and category of each type. Facts about the person apply to every project.
_KIND_OF = {
    "user": ("preference", "decision"),
    "feedback": ("policy", "decision"),
    "project": ("observation", "learning"),
    "reference": ("observation", "learning"),
}


def _read(path: Path) -> Iterator[Found]:
    memories = _find_folders(check_exists(path, "~/.claude, ~/.claude/projects or one project's memory"))
    if not memories:
        hint = "Give a folder named `memory` that contains MEMORY.md, or a folder above such ones."
        raise InvalidInput(f"{path} contains no memory of Claude Code.", hint)
    for memory in memories:
        yield from markdown_folder.read_pages(
            memory, partial(_make_facts, memory=memory, project=_find_project(memory.parent))
        )


def _make_facts(page: Path, text: str, *, memory: Path, project: str) -> Iterator[Found]:
    matter, body, line = split_front_matter(text)
    description, page_type = text_of(matter, "description"), text_of(matter, "type")
    title = text_of(matter, "name") or page.stem
    page_chunks = list(chunks(body, line))
    if page.name == _INDEX:
        title = ""
        page_chunks = [chunk for chunk in page_chunks if not _is_link(chunk)]
    elif not page_chunks and description:
        page_chunks = [Chunk(description)]
    kind, category = _KIND_OF.get(page_type, ("other", "learning"))
    below = page.relative_to(memory).as_posix()
    for name, chunk in markdown_folder.name_chunks(page_chunks):
        yield to_fact(
            "claude-code",
            f"{memory.parent.name}/{below}#{name}",
            chunk.statement,
            source=f"claude-code/{Path(project).name}",
            project="" if page_type == "user" else project,
            kind=kind,
            category=category,
            session=text_of(matter, "originSessionId"),
            context=markdown_folder.context_of(chunk, title, description if description != chunk.text else ""),
            created_at=markdown_folder.page_date(matter, page),
            notes={"type": page_type, "file": below, "line": chunk.line},
        )


def _is_link(chunk: Chunk) -> bool:
    """Return whether every line begins with a link to another page; in a table, whether every row contains one."""
    lines = [line for line in chunk.text.split("\n") if any(letter.isalnum() for letter in line)]
    if chunk.kind == "table":
        return all(_PAGE.search(line) for line in lines[1:])
    return all(_LINKED.match(line[:1_000]) for line in lines)


def _find_folders(path: Path) -> list[Path]:
    """Return the memory folders at or below a path of Claude Code's."""
    top = path.resolve()
    if top.name == "memory" and _is_memory(top):
        return [top]
    for pattern in ("memory", "*/memory", "projects/*/memory"):
        matches = [folder.resolve() for folder in sorted(top.glob(pattern))]
        if memories := [folder for folder in matches if _is_memory(folder) and folder.is_relative_to(top)]:
            return memories
    return []


def _is_memory(path: Path) -> bool:
    return path.is_dir() and (
        (path / _INDEX).is_file() or (path.parent.parent.name == "projects" and any(path.glob("*.md")))
    )


def _find_project(home: Path) -> str:
    """Return the project's working tree, from a transcript or the only such folder here; else the folder's name.

    Claude Code names the folder after the path, with a dash for all but letters and digits, which cannot be reversed.
    """
    slug = home.name
    for transcript in sorted(home.glob("*.jsonl")):
        with suppress(OSError), transcript.open(encoding="utf-8", errors="replace") as file:
            for line in islice(iter(partial(file.readline, _LONGEST_LINE), ""), _LINES):
                if '"cwd"' in line and _to_slug(cwd := as_absolute_path(object_of(line).get("cwd"))) == slug:
                    return cwd
    folders = ["/"]
    while folders and not any(_to_slug(folder) == slug for folder in folders):
        folders = [below for folder in folders for below in _list_towards(folder, slug)][:64]
    exact = [folder for folder in folders if _to_slug(folder) == slug]
    return exact[0] if len(exact) == 1 else slug


def _to_slug(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", path)


def _list_towards(folder: str, slug: str) -> list[str]:
    try:
        names = [entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    paths = [f"{folder.rstrip('/')}/{name}" for name in names]
    return [path for path in paths if slug == _to_slug(path) or slug.startswith(_to_slug(path) + "-")]


READER = Importer(
    name="claude-code",
    says="Claude Code's own memory (~/.claude/projects/PROJECT/memory)",
    read=_read,
    count=lambda path: sum(1 for _ in _read(path)),
    fits=lambda path: path.is_dir() and bool(_find_folders(path)),
)
