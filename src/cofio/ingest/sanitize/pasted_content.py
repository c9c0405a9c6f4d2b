"""Removal of pasted and generated text: code, diffs, stack traces, logs, synthetic lines.

None of it is a statement of a person, so none of it is a fact. A line is removed only if it clearly is one of these;
`inline code` stays, since it often names the subject of a sentence.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator

from cofio.text import lazy_re


def strip_code(text: str) -> str:
    """Return the text without fenced code and pasted diffs, traces and log lines, with a blank line for each."""
    if "```" in text or "~~~" in text:
        text = "\n".join(_outside_fences(text.split("\n")))
    if text.startswith("at ") or any(hint in text for hint in _HINTS) or _LOG_HINT.search(text):
        text = "\n".join(_own_lines(text.split("\n")))
    return text


def strip_synthetic(text: str, role: str) -> str:
    """Return the text without lines that a client wrote in the speaker's name; "" if the whole text is synthetic."""
    start = text.lstrip()
    if start.startswith(_WHOLE) or (role == "assistant" and start.startswith("API Error:")):
        return ""
    return _SYNTHETIC.sub("", text) if any(hint in text for hint in _SYNTHETIC_HINTS) else text


def _outside_fences(lines: list[str]) -> Iterator[str]:
    """Yield the lines outside code fences, and a blank one for each fence.

    An unclosed fence with a language is code up to the end. One without a language is more likely the end of a nested
    fence or of one whose beginning was cut off: only the mark is removed.
    """
    closers = _closers(lines)
    place = 0
    while place < len(lines):
        fence = _FENCE.match(lines[place])
        if not fence:
            yield lines[place]
        else:
            yield ""
            place = closers.get(place, len(lines) if fence[2] else place)
        place += 1


def _closers(lines: list[str]) -> dict[int, int]:
    closers: dict[int, int] = {}
    opened: tuple[int, str] | None = None
    for place, line in enumerate(lines):
        fence = _FENCE.match(line)
        if not fence:
            continue
        mark = fence[1]
        if opened is None:
            opened = place, mark
        elif not fence[2] and mark[0] == opened[1][0] and len(mark) >= len(opened[1]):
            closers[opened[0]] = place
            opened = None
    return closers


def _own_lines(lines: list[str]) -> Iterator[str]:
    place = 0
    patch_ends = [at for at, line in enumerate(lines) if line.startswith("*** End Patch")]
    while place < len(lines):
        after = _pasted_until(lines, place, patch_ends)
        yield lines[place] if after == place else ""
        place = max(after, place + 1)


def _pasted_until(lines: list[str], place: int, patch_ends: list[int]) -> int:
    """Return the end of the pasted text that begins here; the same place if there is none."""
    line = lines[place]
    if hunk := _HUNK.match(line):
        return _after_hunk(lines, place + 1, int(hunk[1] or 1), int(hunk[2] or 1))
    if line.lstrip().startswith("Traceback (most recent call last):"):
        end = place + 1
        while end < len(lines) and lines[end][:1] in (" ", "\t"):
            end += 1
        return end + 1 if end < len(lines) and _EXCEPTION.match(lines[end]) else end
    if _FILE_DIFF.match(line):  # without hunk headers: up to the first line that is not added, removed or context
        end = place + 1
        while end < len(lines) and lines[end][:1] in ("+", "-", " ") and not _FILE_DIFF.match(lines[end]):
            end += 1
        return end
    if line.startswith("*** Begin Patch"):
        later = bisect(patch_ends, place)
        return patch_ends[later] + 1 if later < len(patch_ends) else place + 1
    return place + 1 if _PASTED.match(line) else place


def _after_hunk(lines: list[str], place: int, old: int, new: int) -> int:
    """Return the place after the hunk, whose header states the number of lines."""
    while place < len(lines) and (old > 0 or new > 0) and lines[place][:1] in (" ", "+", "-", "\\", ""):
        sign = lines[place][:1]
        old -= sign in (" ", "-", "")
        new -= sign in (" ", "+", "")
        place += 1
    return place


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_FENCE = lazy_re.compile(r"[ \t>]*(?:(?:[-*]|\d{1,3}[.)])[ \t]+)?(`{3,}|~{3,})[ \t]*([^`\s]?)[^`]*$")
_HUNK = lazy_re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_FILE_DIFF = lazy_re.compile(r"diff --git \S|(?:---|\+\+\+) (?:[ab]/|/dev/null)")
_EXCEPTION = lazy_re.compile(
    r"[A-Za-z_][\w.]*(?:Error|Exception|Warning|Interrupt|Exit|Iteration|Group|Expired|Timeout)\b|[a-z_]\w*(?:\.\w+)+: "
)

_HINTS = (
    "Traceback (most recent", "diff --git ", "@@ ", "*** Begin Patch", "  at ", "\tat ", "\nat ", 'File "',
    "goroutine ", "Caused by: ", "--- a/", "+++ b/", "panicked at",
)  # fmt: skip
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|PANIC)"
_LOG_HINT = lazy_re.compile(r":\d\d")  # a time of day; a cheap test
_PASTED = lazy_re.compile(
    rf"""
      diff\ --git\ \S | index\ [0-9a-f]{{7,40}}\.\.[0-9a-f]{{7,40}} | (?:---|\+\+\+)\ (?:[ab]/|/dev/null)
    | @@.*@@ | (?:new|deleted)\ file\ mode\ \d{{6}} | (?:rename|copy)\ (?:from|to)\ \S+$ | similarity\ index\ \d+%
    | \s*at\ [^()\n]{{1,200}}\([^()\n]*(?::\d+|Native\ Method|<anonymous>|Unknown\ Source)\)$
    | \s*at\ (?:async\ )?\S+:\d+:\d+$ | \s+at\ .{{1,300}}:line\ \d+$
    | \s*File\ ".+",\ line\ \d+ | \s+\.\.\.\ \d+\ more$ | Caused\ by:\ [\w.$]+(?:Exception|Error)
    | goroutine\ \d+\ \[ | \s+\S+\.go:\d+\ \+0x | thread\ '.{{1,80}}'\ panicked\ at
    | (?:The\ above\ exception\ was\ the\ direct\ cause|During\ handling\ of\ the\ above\ exception)
    | \[?\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?\S*\s.{{0,60}}?(?:\b{_LEVEL}\b|level=|\[(?:info|warn|error|debug)\])
    | \[?\d\d:\d\d:\d\d[.,\d]*\]?\s+\[?{_LEVEL}\b
    """,
    re.VERBOSE,
)

_WHOLE = (
    "This session is being continued from a previous conversation",
    "Stop hook feedback:",
    "Your task is to create a detailed summary of the conversation so far",
)
_SYNTHETIC_HINTS = (
    "Caveat: The",
    "[Request interrupted",
    "No response requested",
    "(no content)",
    "API Error:",
    "AGENTS.md instructions",
)
_SYNTHETIC = lazy_re.compile(
    r"^[ \t]*(?:Caveat: The messages below were generated by the user while running local commands"
    r"|\[Request interrupted by user|No response requested\.?[ \t]*$|\(no content\)[ \t]*$"
    r"|API Error: ?(?:\d{3}|Request|Connection|Claude)"
    r"|# AGENTS\.md instructions).*$",
    re.MULTILINE,
)
