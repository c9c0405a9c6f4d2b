"""Echoes among memories: what was once put before an agent and came back as if somebody had said it.

A memory is one when it carries the marks of what cofio or a client puts in, or when it was learned from a conversation
and says, word for word, what a boot file of the project says, or an older memory of another speaker or agent that could
be seen there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from cofio import late
from cofio.briefing import NOTICE, TAG
from cofio.model import Memory
from cofio.sameness import LONG, gist
from cofio.wording import fingerprint

_FEWEST = 3  # words; "uses Python" is soon said by anybody
_LEARNED = ("pattern", "llm")
_ASSISTANT = late.compile(
    r"(?:assistant|agent|ai|bot|model|claude|codex|cursor|copilot|chatgpt|gemini)\b", re.IGNORECASE
)


class Heard(NamedTuple):
    """What is kept of a memory to tell echoes by."""

    id: int
    place: int
    project: str
    shared: bool  # seen from every project
    learned: bool  # nobody typed it in
    at: str


def marked(text: str) -> str:
    """Which mark of what was put before an agent the text carries; "" when it carries none."""
    if NOTICE in text:
        return "it holds the notice of cofio's own block"
    for says, pattern in _MARKS:
        if pattern.search(text):
            return says
    return ""


def heard(memory: Memory, place: int) -> Heard:
    """The memory as far as echoes go. What a named person said is never one."""
    learned = bool(_ASSISTANT.match(memory.speaker)) if memory.speaker else memory.method in _LEARNED
    shared = not memory.project or memory.visibility == "global"
    return Heard(memory.id, place, memory.project, shared, learned, memory.created_at)


def words_of(text: str) -> int | None:
    """A number that is equal for texts that say the same word for word; None for texts of hardly a word."""
    said = gist(text) if len(text) <= LONG else text.split()
    return fingerprint(" ".join(said)) if len(said) >= _FEWEST else None


def boot_lines(project: str) -> Iterator[tuple[str, str]]:
    """Each line of the project's boot files, without its bullet, and the file's name; none where the tree is not here.

    Whoever calls it has seen to it that this machine's files may be read for the caller.
    """
    for name in BOOT_FILES if Path(project).is_absolute() else ():
        for line in _read(Path(project) / name).splitlines():
            if said := _BULLET.sub("", line).replace("**", "").strip():
                yield said, name


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_MOST_READ).decode(errors="replace")
    except (OSError, ValueError):
        return ""


def repeated(same_words: Iterable[Heard]) -> Iterator[tuple[Heard, Heard]]:
    """Of memories with the same words, each echo with an older memory that it repeats; at most one a place."""
    first: dict[str, Heard] = {}  # by where it could be seen
    settled: set[int] = set()
    for each in sorted(same_words, key=lambda one: (one.at, one.id)):
        if each.place in settled:
            continue  # it is a duplicate in its own place
        settled.add(each.place)
        older = first.get(each.project) or first.get(_ANYWHERE)
        if each.learned and older:
            yield each, older
        first.setdefault(_ANYWHERE if each.shared else each.project, each)


BOOT_FILES = (
    *("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", "AGENTS.md", "AGENT.md", "GEMINI.md", "MEMORY.md"),
    *(".cursorrules", ".windsurfrules", ".clinerules", ".github/copilot-instructions.md"),
)
_MOST_READ = 262_144  # bytes of a boot file
_BULLET = late.compile(r"^[ \t]*(?:[#>|]+[ \t]*)*(?:(?:[-*•+]|\d{1,3}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?")
_ANYWHERE = "\0"  # no project is called so
_HEADINGS = r"(?:Relevant|Retrieved) Memories|Relevant (?:Personal|Team) Context|Known Patterns|Active Thresholds"
_BOOT_FILE = r"(?:CLAUDE(?:\.local)?|AGENTS?|MEMORY|GEMINI|copilot-instructions)\.md|\.(?:cursor|windsurf|cline)rules"
_WRAPPERS = (
    r"system-reminder|INSTRUCTIONS|\w+_instructions|permissions instructions|environment_context"
    r"|user-prompt-submit-hook|local-command-\w+|command-(?:name|message|args)|(?:task-|subagent_)notification"
)
#: Each at the start of a line: a tag or a file that is named within one is talk about it.
_MARKS = (
    (
        "it holds cofio's own block",
        late.compile(rf"^[ \t]*</?(?:{TAG}|relevant-context|memory-context)\b", re.MULTILINE),
    ),
    (
        "it holds a heading of recalled memories",
        late.compile(rf"^#{{1,4}}[ \t]+(?:{_HEADINGS}):?[ \t]*$", re.MULTILINE),
    ),
    (
        "it begins as a recalled line does",
        late.compile(r"\A\s*(?:[-*•][ \t]+)?\[(?:[01]\.\d\d|[^\]\n]{1,200}, \d{4}-\d\d-\d\d[^\]\n]{0,80})\][ \t]"),
    ),
    ("it holds what a client puts before the agent", late.compile(rf"^[ \t]*</?(?:{_WRAPPERS})>", re.MULTILINE)),
    (
        "it is a boot file, or a part of one",
        late.compile(
            rf"^[ \t]*(?:Contents of \S*(?:{_BOOT_FILE})\b|#[ \t]+(?:{_BOOT_FILE})(?:[ \t]+instructions\b.*)?[ \t]*$"
            r"|Codebase and user instructions are shown below)",
            re.MULTILINE,
        ),
    ),
)
