"""Reader of a folder of Markdown, or of one page.

Hidden folders and node_modules are left out. Links are not followed: they lead outside, or to pages that are read
anyway.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cofio.errors import InvalidInput
from cofio.markdown_notes.frontmatter import FrontMatter, kind_and_category, tags_of, text_of
from cofio.transfer.importers.base import Found, Importer, SkippedEntry, check_exists, fingerprint, to_fact, to_iso_time
from cofio.transfer.importers.markdown import Chunk, chunks, split_front_matter

ENDINGS = (".md", ".markdown", ".mdown")
BIGGEST = 4 << 20  # bytes of a page
_LEFT_OUT = ("node_modules", "__pycache__", "site-packages")
_COUNTED = 32 << 20  # bytes; a larger collection is not read twice
_DATES = ("created_at", "created", "date", "updated", "modified")


def pages(path: Path) -> Iterator[Path]:
    """Yield the Markdown files of a folder in order of their names, or the one file."""
    if path.is_file():
        yield path
        return
    for folder, inner, files in os.walk(path):
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name not in _LEFT_OUT)
        for name in sorted(files):
            if name.lower().endswith(ENDINGS) and not name.startswith("."):
                yield Path(folder) / name


def read_pages(path: Path, make_facts: Callable[[Path, str], Iterator[Found]]) -> Iterator[Found]:
    """Yield the facts of every page, or the reason why it is skipped."""
    for page in pages(path):
        text = _read_page(page)
        if isinstance(text, SkippedEntry):
            yield text
        else:
            yield from make_facts(page, text)


def _read_page(page: Path) -> str | SkippedEntry:
    """Return the text of a page in any encoding, or the reason why it is skipped."""
    try:
        about = page.lstat()
        if not stat.S_ISREG(about.st_mode):
            return SkippedEntry("The file is not a regular file.", str(page))
        if about.st_size > BIGGEST:
            return SkippedEntry(f"The file is larger than {BIGGEST >> 20} MB.", str(page))
        raw = page.read_bytes()
    except OSError as error:
        return SkippedEntry(f"The file cannot be read: {error.strerror}.", str(page))
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16", "replace")
    if b"\x00" in raw:
        return SkippedEntry("The file is not a text file.", str(page))
    return raw.decode("utf-8-sig", "replace")


def name_chunks(page_chunks: Iterable[Chunk]) -> Iterator[tuple[str, Chunk]]:
    """Yield each chunk with a name derived from its words, so that an edit changes no other names."""
    counts: Counter[str] = Counter()
    for chunk in page_chunks:
        name = fingerprint(chunk.text)
        counts[name] += 1
        yield (name if counts[name] == 1 else f"{name}-{counts[name]}"), chunk


def context_of(chunk: Chunk, *above: str) -> str:
    """Return the place on the page: title, headings and lead."""
    return " > ".join(dict.fromkeys(part for part in (*above, *chunk.where) if part))


def page_date(matter: FrontMatter, page: Path) -> Any:
    """Return the date in the front matter; without one, the time of the last modification."""
    dates = (text_of(matter, name) for name in _DATES)
    return next(filter(to_iso_time, dates), None) or page.stat().st_mtime


def _read(path: Path) -> Iterator[Found]:
    top = check_exists(path, "a folder of Markdown, or of one page").resolve()
    if path.is_dir() and not _fits(path):
        hint = f"Give a folder with files that end in {' or '.join(ENDINGS)}."
        raise InvalidInput(f"{path} contains no Markdown file.", hint)
    yield from read_pages(top, partial(_make_facts, folder=top if top.is_dir() else top.parent))


def _make_facts(page: Path, text: str, *, folder: Path) -> Iterator[Found]:
    matter, body, line = split_front_matter(text)
    title = str(matter.get("title") or "")
    kind, category = kind_and_category(matter)
    others = {name: value for name, value in matter.items() if name not in ("tags", "tag", "title", "kind", "category")}
    for name, chunk in name_chunks(chunks(body, line)):
        yield to_fact(
            "markdown",
            f"{page.as_posix().lstrip('/')}#{name}",
            chunk.statement,
            source=f"markdown/{folder.name}",
            kind=kind,
            category=category,
            tags=tags_of(matter),
            context=context_of(chunk, title or ("" if chunk.headings else page.stem)),
            created_at=page_date(matter, page),
            notes={**others, "file": page.relative_to(folder).as_posix(), "line": chunk.line},
        )


def _count(path: Path) -> int | None:
    size = 0
    for page in pages(path):
        size += page.lstat().st_size
        if size > _COUNTED:
            return None
    return sum(1 for _ in _read(path)) if size else 0


def _fits(path: Path) -> bool:
    if path.is_file():
        return path.name.lower().endswith(ENDINGS)
    return path.is_dir() and next(pages(path), None) is not None


READER = Importer(
    name="markdown", says="a folder of Markdown files, or one of them", read=_read, count=_count, fits=_fits
)
