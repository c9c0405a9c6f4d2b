"""Echoes among memories: injected context that was learned again as if it were a statement.

A memory is an echo if it carries the marks of text inserted by cofio or a client, or if it was learned from a
conversation and repeats, word for word, a boot file of the project or an older memory of another speaker or agent that
was visible there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from cofio.models.memory import Memory
from cofio.text import lazy_re
from cofio.text.briefing import NOTICE, TAG
from cofio.text.duplicates import LONG, content_words
from cofio.text.tokens import fingerprint

_FEWEST = 3  # words; shorter statements such as "uses Python" may coincide
_LEARNED = ("pattern", "llm")
_ASSISTANT = lazy_re.compile(
    r"(?:assistant|agent|ai|bot|model|claude|codex|cursor|copilot|chatgpt|gemini)\b", re.IGNORECASE
)


class EchoCandidate(NamedTuple):
    """Notes on a memory for detecting echoes."""

    id: int
    place: int
    project: str
    shared: bool  # visible from every project
    learned: bool  # learned from a conversation, not typed
    at: str


def find_mark(text: str) -> str:
    """Return the mark of injected text that the text carries; "" if it has none."""
    if NOTICE in text:
        return "it holds the notice of cofio's own block"
    for says, pattern in _MARKS:
        if pattern.search(text):
            return says
    return ""


def echo_candidate(memory: Memory, place: int) -> EchoCandidate:
    """Return the notes on a memory. A named person's statement is never an echo."""
    learned = bool(_ASSISTANT.match(memory.speaker)) if memory.speaker else memory.method in _LEARNED
    shared = not memory.project or memory.visibility == "global"
    return EchoCandidate(memory.id, place, memory.project, shared, learned, memory.created_at)


def words_of(text: str) -> int | None:
    """Return a number that is equal for texts with the same words; None for texts of fewer than three words."""
    tokens = content_words(text) if len(text) <= LONG else text.split()
    return fingerprint(" ".join(tokens)) if len(tokens) >= _FEWEST else None


def boot_lines(project: str) -> Iterator[tuple[str, str]]:
    """Yield each line of the project's boot files, without its bullet, and the file name; none if the tree is not here.

    The caller must have checked that files on this machine may be read on its behalf.
    """
    for name in BOOT_FILES if Path(project).is_absolute() else ():
        path = Path(project) / name
        try:
            if not path.is_file():
                continue
            with path.open("rb") as file:
                content = file.read(_MOST_READ).decode(errors="replace")
        except (OSError, ValueError):
            continue
        for line in content.splitlines():
            if text := _BULLET.sub("", line).replace("**", "").strip():
                yield text, name


def repeated(same_words: Iterable[EchoCandidate]) -> Iterator[tuple[EchoCandidate, EchoCandidate]]:
    """Yield each echo with an older memory that it repeats, among memories with the same words; one per place."""
    first: dict[str, EchoCandidate] = {}  # by project in which it is visible
    settled: set[int] = set()
    for same_word in sorted(same_words, key=lambda candidate: (candidate.at, candidate.id)):
        if same_word.place in settled:
            continue  # a duplicate in its own place
        settled.add(same_word.place)
        older = first.get(same_word.project) or first.get(_ANYWHERE)
        if same_word.learned and older:
            yield same_word, older
        first.setdefault(_ANYWHERE if same_word.shared else same_word.project, same_word)


BOOT_FILES = (
    *("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", "AGENTS.md", "AGENT.md", "GEMINI.md", "MEMORY.md"),
    *(".cursorrules", ".windsurfrules", ".clinerules", ".github/copilot-instructions.md"),
)
_MOST_READ = 262_144  # bytes of a boot file
_BULLET = lazy_re.compile(r"^[ \t]*(?:[#>|]+[ \t]*)*(?:(?:[-*•+]|\d{1,3}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?")
_ANYWHERE = "\0"  # cannot be a project name
_HEADINGS = r"(?:Relevant|Retrieved) Memories|Relevant (?:Personal|Team) Context|Known Patterns|Active Thresholds"
_BOOT_FILE = r"(?:CLAUDE(?:\.local)?|AGENTS?|MEMORY|GEMINI|copilot-instructions)\.md|\.(?:cursor|windsurf|cline)rules"
_WRAPPERS = (
    r"system-reminder|INSTRUCTIONS|\w+_instructions|permissions instructions|environment_context"
    r"|user-prompt-submit-hook|local-command-\w+|command-(?:name|message|args)|(?:task-|subagent_)notification"
)
#: Marks at the start of a line; within a line, a tag or file name is part of a sentence.
_MARKS = (
    (
        "it holds cofio's own block",
        lazy_re.compile(rf"^[ \t]*</?(?:{TAG}|relevant-context|memory-context)\b", re.MULTILINE),
    ),
    (
        "it holds a heading of recalled memories",
        lazy_re.compile(rf"^#{{1,4}}[ \t]+(?:{_HEADINGS}):?[ \t]*$", re.MULTILINE),
    ),
    (
        "it begins like a recalled line",
        lazy_re.compile(r"\A\s*(?:[-*•][ \t]+)?\[(?:[01]\.\d\d|[^\]\n]{1,200}, \d{4}-\d\d-\d\d[^\]\n]{0,80})\][ \t]"),
    ),
    ("it holds context that a client injects", lazy_re.compile(rf"^[ \t]*</?(?:{_WRAPPERS})>", re.MULTILINE)),
    (
        "it is a boot file, or a part of one",
        lazy_re.compile(
            rf"^[ \t]*(?:Contents of \S*(?:{_BOOT_FILE})\b|#[ \t]+(?:{_BOOT_FILE})(?:[ \t]+instructions\b.*)?[ \t]*$"
            r"|Codebase and user instructions are shown below)",
            re.MULTILINE,
        ),
    ),
)
