"""Names of files, definitions and commands in a text. Their existence is checked elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from cofio.text import lazy_re

_READ = 8_000  # characters of a text that are read
_MOST = 60  # maximum number of names


class Reference(NamedTuple):
    """Name of a file, symbol or command, and its offset in the text."""

    place: int
    kind: str  # file, symbol, command
    name: str


def find_references(text: str, root: str) -> list[Reference]:
    """List the names in the text in order, without duplicates. Absolute paths of files below the root count as well."""
    searched = text[:_READ].replace(f"{root}/", "")
    searched = _ELSEWHERE.sub(lambda match: " " * len(match[0]), searched)
    references = [*_find_commands(searched), *_find_files(searched), *_find_symbols(searched)]
    first: dict[tuple[str, str], Reference] = {}
    for reference in sorted(references, key=lambda reference: reference.place):
        first.setdefault((reference.kind, reference.name), reference)
    return list(first.values())[:_MOST]


def _find_files(text: str) -> Iterator[Reference]:
    for match in _SPAN.finditer(text):
        name = match[1].strip().removeprefix("./")
        if name and ("/" in match[1] or "." in match[1]):
            yield Reference(match.start(1), "file", name)
    for match in _PATH.finditer(text):
        name = match[0].rstrip(".-").removeprefix("./")
        leaf = name.rpartition("/")[2]
        if _LETTER.search(leaf) and ("/" in name or "." in leaf or leaf in _KNOWN):
            yield Reference(match.start(), "file", name)


def _find_commands(text: str) -> Iterator[Reference]:
    for match in _COMMAND.finditer(text):
        before = text[max(0, match.start() - 24) : match.start()]
        tool, *words = match[0].split()
        if tool in ("make", "just"):
            runs = bool(_QUOTED.search(before) or (tool == "make" and _ASKED.search(before)))
        else:
            runs = len(words) == 2 or (words[0] in _NPM_ITSELF if tool == "npm" else words[0] not in _BUILT_IN)
        if runs:
            yield Reference(match.start(), "command", " ".join((tool, *words)))
    for match in _SPAN.finditer(text):
        if program := _PROGRAM.match(match[1]):
            yield Reference(match.start(1), "command", program[0])


def _find_symbols(text: str) -> Iterator[Reference]:
    for match in _SPAN.finditer(text):
        symbol = _SYMBOL.fullmatch(match[1].strip())
        if symbol and (symbol[2] or _TELLING.search(symbol[1])):
            yield Reference(match.start(1), "symbol", symbol[1])
    for match in _CALLED.finditer(text):
        yield Reference(match.start(), "symbol", match[1])
    for match in _SNAKE.finditer(text):
        yield Reference(match.start(), "symbol", match[0])


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_ELSEWHERE = lazy_re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s`<>\"']{1,2000}|[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,64}")
_SPAN = lazy_re.compile(r"`([^`\n]{1,200})`")
_PATH = lazy_re.compile(r"(?<![\w/~.\\@+-])(?:\./)?(?:[\w.@+-]{1,100}/){0,20}[\w.@+-]{1,150}(?![\w/\\])")
_LETTER = lazy_re.compile(r"[^\W\d_]")
#: Well-known files without a file extension.
_KNOWN = frozenset(
    "Dockerfile Containerfile Makefile makefile GNUmakefile justfile Justfile Procfile Jenkinsfile Vagrantfile Gemfile"
    " Rakefile Brewfile Podfile Fastfile Tiltfile Caddyfile Pipfile LICENSE NOTICE CODEOWNERS BUILD WORKSPACE".split()
)

_COMMAND = lazy_re.compile(
    r"(?<![\w/.-])(?:(?:make|just)[ \t]{1,9}|(?:npm|pnpm|yarn|bun)[ \t]{1,9}(?:run(?:-script)?[ \t]{1,9})?(?!run\b))"
    r"[A-Za-z0-9][\w:./-]{0,79}(?<![.:/])"
)
_QUOTED = lazy_re.compile(r"[`\"'“‘$>&;(][ \t]*$")
#: Text before a command in prose; needed because "make" is also an English word.
_ASKED = lazy_re.compile(
    r"(?:^|[:,][ \t]+|\b(?:run|runs|running|ran|use|uses|using|with|via|by|through|execute|executes|call|calls|invoke"
    r"|type|and|then|is|are)[ \t]+)$",
    re.IGNORECASE,
)
_NPM_ITSELF = frozenset("test start stop restart".split())  # scripts that npm runs without "run"
_BUILT_IN = frozenset("install add remove i ci init publish exec dlx x up update upgrade why audit link pack".split())
_PROGRAM = lazy_re.compile(r"[A-Za-z][\w.-]{0,79}(?=\s|$)")

_IDENTIFIER = r"[^\W\d][\w$]{0,99}(?:(?:\.|::|#)[^\W\d][\w$]{0,99}){0,4}"
_SYMBOL = lazy_re.compile(rf"({_IDENTIFIER})(\([^\n]{{0,150}}\))?")
_TELLING = lazy_re.compile(r"\w_\w|[.:#]|[^\W\d_a-z]")  # has an underscore, a qualifier or a capital letter
_CALLED = lazy_re.compile(rf"(?<![\w.:#$/-])({_IDENTIFIER})\(")
_SNAKE = lazy_re.compile(r"(?<![\w./:#$-])[A-Za-z][^\W_]{1,60}(?:_[^\W_]{1,60}){1,8}(?![\w(/]|\.\w)")
