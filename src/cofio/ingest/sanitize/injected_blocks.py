"""Removal of the blocks that clients and cofio insert into messages: tagged blocks and recalled sections.

    text ─▶ the text without them, and the lines injected for the agent (recalled memories, boot files)

Facts learned from such a block would come back with the next recall and be learned again, endlessly. So if a block has
no end, all text that may belong to it is removed: a lost sentence can be repeated, a loop does not end by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cofio.text import lazy_re

LONGEST_LINE = 1_000  # characters kept of an injected line
_DEEPEST = 4  # nesting depth to which blocks are searched for injected lines


class StrippedText(NamedTuple):
    """Text without blocks, and the injected lines of the blocks, in order."""

    text: str
    injected: tuple[str, ...]


class _Block(NamedTuple):
    name: str
    start: int
    end: int
    inner: str


def strip_blocks(text: str) -> StrippedText:
    """Return the text without tagged blocks and recalled sections. A block without an end stays: see `unclosed`."""
    injected: list[str] = []
    if "<" in text:
        parts, last = [], 0
        for block in _find_blocks(text):
            injected += _list_injected(block)
            # A break in place of the block, so that the text around it does not run together.
            parts += [text[last : block.start], "\n" if "\n" in text[block.start : block.end] else " "]
            last = block.end
        text = "".join(parts) + text[last:]
    if "#" in text and _HEADING_HINT.search(text):
        injected += [line for section in _SECTION.finditer(text) for line in text_lines(section[0])]
        text = _SECTION.sub("\n", text)
    return StrippedText(text, tuple(injected))


def unclosed(text: str) -> StrippedText:
    """Return the text up to an unclosed block that begins at a line start.

    Call this after code is removed: a tag in a code fence begins no block. A tag within a line is part of the sentence
    and stays. For short wrappers, such as a command's name, only the line is removed.
    """
    text = _SHORT_UNCLOSED.sub("", text) if "<" in text else text
    cut = _LONG_UNCLOSED.search(text) if "<" in text else None
    if cut is None:
        return StrippedText(text, ())
    block = _Block(cut[1].lower(), cut.start(), len(text), text[cut.end() :])
    return StrippedText(text[: cut.start()], tuple(_list_injected(block)))


def text_lines(text: str) -> list[str]:
    """Return the sentences and list lines of a text, without bullets and leading `[source]` labels."""
    lines = []
    for line in _TAG.sub("\n", text).split("\n"):
        plain = _BULLET.sub("", line.strip())
        if plain and not _SECTION_NAME.fullmatch(plain):
            lines += [
                sentence[:LONGEST_LINE] for sentence in _SENTENCE_END.split(plain) if sentence.strip(" \t-*_=#|`")
            ]
    return lines


def boot_lines(text: str) -> list[str]:
    """Return the lines of a text that holds boot files, such as CLAUDE.md; none for other texts."""
    return text_lines(text) if _BOOT_FILE.search(text) else []


def _list_injected(block: _Block, depth: int = 0) -> list[str]:
    """Return the lines of an injected block; for another block, those of injected blocks inside it."""
    is_reminder = block.name in _REMINDERS and _BOOT_FILE.search(block.inner)
    if is_reminder or _OWN.match(block.name) or block.name in _INSTRUCTIONS:
        return text_lines(block.inner)
    if depth >= _DEEPEST or "<" not in block.inner:
        return []
    return [line for nested in _find_blocks(block.inner) for line in _list_injected(nested, depth + 1)]


def _find_blocks(text: str) -> Iterator[_Block]:
    """Yield the outermost closed blocks, and single end tags, in order."""
    tags = [tag for tag in _TAG.finditer(text) if text[tag.start() - 1 : tag.start()] != "`"]
    ends = _find_ends(tags)
    after = 0
    for place, tag in enumerate(tags):
        if tag.start() < after:
            continue
        name = tag[2].lower()
        if tag[1] or tag[3]:  # an end without a beginning, or an empty block
            after = tag.end()
            yield _Block(name, tag.start(), after, "")
        elif place in ends:
            last = tags[ends[place]]
            after = last.end()
            yield _Block(name, tag.start(), after, text[tag.end() : last.start()])


def _find_ends(tags: Sequence[re.Match[str]]) -> dict[int, int]:
    """Return the end tag of each start tag: its own, or else the next one of its name."""
    ends: dict[int, int] = {}
    opened: dict[str, list[int]] = {}
    for place, tag in enumerate(tags):
        waiting = opened.setdefault(tag[2].lower(), [])
        if tag[1] and waiting:
            ends[waiting.pop()] = place
        elif not tag[1] and not tag[3]:
            waiting.append(place)
    next_end: dict[str, int] = {}
    for place in range(len(tags) - 1, -1, -1):
        name = tags[place][2].lower()
        if tags[place][1]:
            next_end[name] = place
        elif name in next_end:
            ends.setdefault(place, next_end[name])
    return ends


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_OWN = lazy_re.compile(r"cofio|relevant-context$|memory-context$")
_INSTRUCTIONS = frozenset({"user_instructions", "instructions"})
_REMINDERS = frozenset({"system-reminder", "user-prompt-submit-hook", "environment_context", "startup_context"})

_LONG = (
    r"cofio[\w-]*|relevant-context|memory-context|system-reminder|user-prompt-submit-hook|local-command-[a-z]+"
    r"|bash-std(?:out|err)|task-notification|environment_context|user_instructions|(?-i:INSTRUCTIONS)|tool_results?"
    r"|function_results?|think|thinking|startup_context|goal_context|codex_internal_context|user_shell_command"
    r"|(?:apps|skills|plugins|environments)_instructions|collaboration_mode|multi_agent_mode"
)
_SHORT = r"command-[a-z]+|bash-input|ide_opened_file|ide_selection|turn_aborted"
_ATTRIBUTES = r"(?:\s[^<>]{0,500})?"
_TAG = lazy_re.compile(rf"<(/?)({_LONG}|{_SHORT}){_ATTRIBUTES}(/?)>", re.IGNORECASE)
_LONG_UNCLOSED = lazy_re.compile(rf"^[ \t]*<({_LONG}){_ATTRIBUTES}>", re.IGNORECASE | re.MULTILINE)
_SHORT_UNCLOSED = lazy_re.compile(rf"^[ \t]*<(?:{_SHORT}){_ATTRIBUTES}>.*$", re.IGNORECASE | re.MULTILINE)

_HEADINGS = (
    r"(?:Relevant|Retrieved) Memories|Relevant (?:Personal|Team) Context|Known (?:Patterns|Exactly)"
    r"|Active (?:Thresholds|Seasons)"
)
_HEADING_HINT = lazy_re.compile(_HEADINGS)
_SECTION_NAME = lazy_re.compile(rf"(?:{_HEADINGS}):?")
_ITEM = r"[ \t]*(?:[-*•+]|\d{1,3}[.)])[ \t][^\n]*(?:\n|\Z)"
_MORE_OF_ITEM = r"[ \t]{2,}\S[^\n]*(?:\n|\Z)"
_THRESHOLD = r"[\w.-]+/[\w./-]+: [^\n]*(?:\n|\Z)"
#: One of our headings with the list below it. A heading without a list is the author's own.
_SECTION = lazy_re.compile(
    rf"^#{{1,4}}[ \t]+(?:{_HEADINGS}):?[ \t]*\n(?:[ \t]*\n)?"
    rf"(?:{_ITEM}|{_THRESHOLD})(?:{_ITEM}|{_MORE_OF_ITEM}|{_THRESHOLD})*",
    re.MULTILINE,
)

_BOOT_FILE = lazy_re.compile(
    r"\b(?:CLAUDE(?:\.local)?|AGENTS?|MEMORY|GEMINI|SOUL|USER|IDENTITY|TOOLS|CONVENTIONS|copilot-instructions)\.md\b"
    r"|\.(?:cursor|windsurf|cline|roo)rules\b|\.cursor/rules\b",
)
_BULLET = lazy_re.compile(
    r"(?:[#>|]+[ \t]*)*(?:(?:[-*•+]|\d{1,3}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?(?:\[[^\]\n]{1,200}\](?!\()[ \t]*)*"
)
_SENTENCE_END = lazy_re.compile(r"(?<=[.!?])[ \t]+(?=[A-Z\"'(`\[])")
