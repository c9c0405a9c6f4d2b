"""Where a name is defined, told by the look of a line; and the block that belongs to it, told by indentation.

No parser: a few patterns a language. They miss what is made by macros, and that is no harm: what is not found is not
anchored. Every repetition in them is bounded, for the files are anybody's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from cofio import late

_LONGEST_LINE = 2_000  # characters; longer ones are made by programs, and so are their files
_LONGEST_BLOCK = 3_000  # lines


def language(path: str) -> re.Pattern[str] | None:
    """The pattern that finds definitions in such a file; None where there is none."""
    return _LANGUAGES.get(path.rpartition("/")[2].rpartition(".")[2].lower()) if "." in path else None


def names(path: str) -> Callable[[bytes], frozenset[str]] | None:
    """What reads every name that a file of this path defines; None where such a file defines nothing."""
    pattern = language(path)
    if pattern is None:
        return None
    return lambda content: frozenset(_name(found) for found in pattern.finditer(_text(content))) - _KEYWORDS


def block(path: str, content: bytes, name: str) -> str | None:
    """The definition of the name in the file, without white space at the ends of lines; None when it has none.

    Of `Keeper.recall`, `Keeper::recall` and `recall.brief` the last part is looked for: in the block of the part before
    it, else in the whole file, where that part names the file, its folder or something in it.
    """
    pattern = language(path)
    text = _text(content) if pattern else ""
    if not pattern or not text:
        return None
    *owners, last = _parts(name)
    lines, starts = text.split("\n"), list(_starts(pattern, text))
    if not owners:
        return _joined(lines, [line for line, each in starts if each == last])
    owner = owners[-1]
    spans = [(line, line + len(_block(lines, line))) for line, each in starts if each == owner]
    inside = [line for line, each in starts if each == last and any(a < line < b for a, b in spans)]
    stem = path.rpartition("/")[2].partition(".")[0]
    if inside or spans or owner in (stem, path.rpartition("/")[0].rpartition("/")[2]):
        return _joined(lines, inside or [line for line, each in starts if each == last])
    return None


def _starts(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, str]]:
    """Every definition: the number of its line, and its name."""
    line, place = 0, 0
    for found in pattern.finditer(text):
        line += text.count("\n", place, found.start())
        place = found.start()
        yield line, _name(found)


def last_part(name: str) -> str:
    """The name itself, without what it belongs to."""
    return _parts(name)[-1]


def _parts(name: str) -> list[str]:
    return [part for part in _QUALIFIED.split(name) if part] or [name]


def _name(found: re.Match[str]) -> str:
    return found[found.lastindex or 0]


@lru_cache(maxsize=8)
def _text(content: bytes) -> str:
    """The file as text with plain line ends; "" for what is not written by people."""
    if b"\0" in content[:8_000]:
        return ""
    text = content.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    return text if max(map(len, text.split("\n"))) <= _LONGEST_LINE else ""


# ── blocks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _joined(lines: list[str], starts: list[int]) -> str | None:
    """The blocks that start at these lines, one after the other: a name may be defined for each of several cases."""
    return "\n".join(line for start in starts for line in _block(lines, start)) if starts else None


def _block(lines: list[str], start: int) -> list[str]:
    """The line and all that is indented below it, with the line that closes it."""
    depth = _indent(lines[start])
    kept, waiting = [lines[start].rstrip()], list[str]()
    for line in lines[start + 1 : start + _LONGEST_BLOCK]:
        said = line.strip()
        if not said or (_indent(line) <= depth and _BESIDE.match(said)):
            waiting.append(line.rstrip())  # it belongs here if more follows that does
            continue
        closing = _indent(line) == depth and _CLOSING.match(said)
        if _indent(line) <= depth and not closing:
            break
        kept += [*waiting, line.rstrip()]
        waiting = []
        if closing and said[-1] not in "{([:," and said != "where":
            break
    return kept


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_QUALIFIED = late.compile(r"::|[.#]")
_BESIDE = late.compile(r"#|//|/\*|\*|(?:public|private|protected)\s*:")
_CLOSING = late.compile(r"[)\]}{]|end\b|where\b")
_KEYWORDS = frozenset(
    "if for while switch catch return else do try function new throw await with until unless elif except".split()
)

_PYTHON = late.compile(
    r"^[ \t]{0,80}(?:async[ \t]{1,9})?(?:def|class)[ \t]{1,9}([^\W\d]\w{0,200})"
    r"|^([^\W\d]\w{0,200})[ \t]{0,9}(?::[^=\n]{1,200})?=(?!=)",
    re.MULTILINE,
)
_SCRIPT = late.compile(
    r"^(?:[ \t]{0,80}(?:(?:export|default|declare|abstract|async)[ \t]{1,9}){0,5}"
    r"(?:function\*?|class|interface|enum|namespace)[ \t]{1,9}([\w$]{1,200})"
    r"|(?:(?:export|declare)[ \t]{1,9}){0,2}(?:const|let|var|type)[ \t]{1,9}([\w$]{1,200})"
    r"|[ \t]{1,80}(?:(?:public|private|protected|static|async|get|set|readonly|override)[ \t]{1,9}){0,5}"
    r"(?!(?:if|for|while|switch|catch|function|return|with)\b)"
    r"#?([\w$]{1,200})(?:<[^\n>]{0,200}>)?\([^\n;]{0,400}\{[ \t]*$)",
    re.MULTILINE,
)
_GO = late.compile(
    r"^(?:func[ \t]{1,9}(?:\([^)\n]{0,200}\)[ \t]{0,9})?|(?:type|var|const)[ \t]{1,9})([^\W\d]\w{0,200})", re.MULTILINE
)
_RUST = late.compile(
    r"^[ \t]{0,80}(?:pub(?:\([^)\n]{0,80}\))?[ \t]{1,9})?(?:(?:async|unsafe|const|default|extern)[ \t]{1,9}){0,4}"
    r"(?:fn|struct|enum|trait|type|union|mod|macro_rules!|static|const)[ \t]{1,9}([^\W\d]\w{0,200})",
    re.MULTILINE,
)
_JAVA = late.compile(
    r"^[ \t]{0,80}(?:(?:public|private|protected|static|final|abstract|sealed|strictfp)[ \t]{1,9}){0,6}"
    r"(?:class|interface|@interface|enum|record)[ \t]{1,9}([^\W\d]\w{0,200})"
    r"|^[ \t]{1,80}(?!(?:return|throw|new|else|assert|case|yield)\b)(?:[\w<>\[\],.?&@]{1,100}[ \t]{1,9}){1,8}"
    r"([^\W\d]\w{0,200})[ \t]{0,9}\((?![^\n]{0,400};[ \t]*$)",
    re.MULTILINE,
)
_C = late.compile(
    r"^#[ \t]{0,9}define[ \t]{1,9}([^\W\d]\w{0,200})"
    r"|^[ \t]{0,80}(?:typedef[ \t]{1,9})?(?:enum[ \t]{1,9})?(?:struct|class|enum|union|namespace)[ \t]{1,9}"
    r"([^\W\d]\w{0,200})(?![^\n]{0,400};[ \t]*$)"
    r"|^(?!(?:return|else|typedef|using|case)\b)[^\W\d][\w \t*&:<>,~]{0,160}?[ \t*&:~]([^\W\d]\w{0,200})[ \t]{0,9}\("
    r"(?![^\n]{0,400};[ \t]*$)",
    re.MULTILINE,
)
_RUBY = late.compile(
    r"^[ \t]{0,80}(?:def[ \t]{1,9}(?:self\.)?|(?:class|module)[ \t]{1,9})(\w{1,200}[?!]?)", re.MULTILINE
)
_SHELL = late.compile(
    r"^[ \t]{0,80}(?:function[ \t]{1,9}([\w-]{1,200})|([\w-]{1,200})[ \t]{0,9}\([ \t]{0,9}\))", re.MULTILINE
)
_LANGUAGES = {
    ending: pattern
    for endings, pattern in (
        ("py pyi", _PYTHON),
        ("js jsx ts tsx mjs cjs mts cts", _SCRIPT),
        ("go", _GO),
        ("rs", _RUST),
        ("java", _JAVA),
        ("c h cc cpp cxx hh hpp hxx", _C),
        ("rb rake", _RUBY),
        ("sh bash zsh", _SHELL),
    )
    for ending in endings.split()
}
