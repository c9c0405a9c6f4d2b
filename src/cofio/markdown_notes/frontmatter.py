"""Front matter: fields at the top of a page between two lines of three dashes.

Supports the subset of YAML that people and Obsidian use: `key: value`, quoted strings, `[a, b]`, a list of dashes below
its key, and multi-line strings after `|` or `>`. Every value is a string or a list of strings: `no` is a word, and 1.10
is not 1.1. Other lines are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cofio.models.memory import CATEGORIES, KINDS
from cofio.text import lazy_re

FrontMatter: TypeAlias = dict[str, str | list[str]]

_MOST_LINES = 1_000
_LONGEST_KEY = 100
_QUOTED_KEY = lazy_re.compile(r"""(?:"(?:[^"\\]|\\.){1,100}"|'[^']{1,100}')[ \t]{0,9}(?=:(?:[ \t]|$))""")
_BLOCK = lazy_re.compile(r"[|>][+-]?\d?$")
_COMMENT = lazy_re.compile(r"(?<=\S)[ \t]+#.*$")
_NOTHING = ("", "~", "null", "Null", "NULL")
_PLAIN = lazy_re.compile(r"[^\W\d][\w./@+-]*(?: [\w./@+-]+)*")
_WORDS_OF_YAML = frozenset("true false null yes no on off y n".split())
_UNSEEN = lazy_re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")
_TAGS = lazy_re.compile(r"[#\s,]+")


@dataclass(frozen=True, slots=True)
class ParsedFrontMatter:
    """Fields of a page, each with its original lines."""

    fields: FrontMatter = field(default_factory=dict)
    lines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def split_front_matter(text: str) -> tuple[ParsedFrontMatter, str]:
    """Split a text into front matter and unchanged body. Front matter without an end line is part of the body."""
    plain = text.removeprefix("\ufeff")
    lines: list[str] = []
    at = plain.find("\n") + 1
    if not at or plain[:at].rstrip() != "---":
        return ParsedFrontMatter(), plain
    while at < len(plain) and len(lines) < _MOST_LINES:
        end = plain.find("\n", at)
        line, at = (plain[at:end], end + 1) if end >= 0 else (plain[at:], len(plain))
        if line.rstrip() in ("---", "..."):
            break
        lines.append(line.removesuffix("\r"))
    else:
        return ParsedFrontMatter(), plain
    fields: FrontMatter = {}
    raw_lines: dict[str, tuple[str, ...]] = {}
    for name, value, below in _split_blocks(lines):
        fields.update(_parse_fields(name, value, below[1:]))
        raw_lines[name] = tuple(below)
    return ParsedFrontMatter({name: value for name, value in fields.items() if value}, raw_lines), plain[at:]


def _split_blocks(lines: Sequence[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each top-level key with its inline value and its lines."""
    name, value, below = "", "", list[str]()
    for line in lines:
        key_value = None if line.startswith((" ", "\t", "- ")) else _split_key(line)
        if key_value:
            if name:
                yield name, value, below
            name, value, below = *key_value, [line]
        elif name:
            below.append(line)
    if name:
        yield name, value, below


def _split_key(line: str) -> tuple[str, str] | None:
    """Return the key and the value on a line, or None."""
    quoted = _QUOTED_KEY.match(line)
    ends = (place for place, char in enumerate(line[: _LONGEST_KEY + 1]) if char == ":")
    at = quoted.end() if quoted else next((end for end in ends if line[end + 1 : end + 2] in ("", " ", "\t")), 0)
    if not 0 < at < len(line) or line[at] != ":" or line[0] in "#[]{}&*!|>%@`":
        return None
    name = _parse_scalar(line[:at])
    return (name, line[at + 1 :].strip()) if name else None


def _parse_fields(name: str, value: str, below: Sequence[str]) -> FrontMatter:
    """Return the value of a key; nested keys are returned under their own names."""
    if _BLOCK.fullmatch(value):
        indent = min((len(line) - len(line.lstrip()) for line in below if line.strip()), default=0)
        mark = "\n" if value[0] == "|" else " "
        return {name: mark.join(line[indent:].rstrip() for line in below).strip()}
    if value not in _NOTHING:
        return {name: _parse_value(value)}
    entries = [_parse_scalar(line.strip()[2:]) for line in below if line.strip().startswith("- ")]
    if entries:
        return {name: [entry for entry in entries if entry]}
    inner: FrontMatter = {}
    for line in below:
        if line.strip() and (key_value := _split_key(line.strip())):
            inner[key_value[0]] = _parse_value(key_value[1])
    return inner


def _parse_value(text: str) -> str | list[str]:
    bare = text if text.startswith(("#", '"', "'")) else _COMMENT.sub("", text)
    if bare.startswith("[") and bare.endswith("]") and not bare.startswith("[["):
        return [entry for entry in map(_parse_scalar, _split_entries(bare[1:-1])) if entry]
    return "" if bare in _NOTHING else _parse_scalar(bare)


def _split_entries(text: str) -> Iterator[str]:
    """Split at commas outside quotes."""
    quote, start, blank = "", 0, True  # blank: only white space since the last comma
    for place, char in enumerate(text):
        if quote:
            escaped = quote == '"' and text[place - 1] == "\\" and text[place - 2] != "\\"
            quote = "" if char == quote and not escaped else quote
        elif char in "\"'" and blank:
            quote, blank = char, False
        elif char == ",":
            yield text[start:place]
            start, blank = place + 1, True
        else:
            blank = blank and char.isspace()
    yield text[start:]


def _parse_scalar(text: str) -> str:
    bare = text.strip()
    if bare.startswith('"'):
        try:
            parsed, end = _DECODER.raw_decode(bare)
        except ValueError:
            return bare.strip('"').replace('\\"', '"')
        return str(parsed) if not bare[end:].split("#")[0].strip() else bare
    if len(bare) > 1 and bare[0] == "'" == bare[-1]:
        return bare[1:-1].replace("''", "'")
    return bare


_DECODER = json.JSONDecoder(strict=False)


def tags_of(fields: FrontMatter) -> list[str]:
    """Return the tags, given as a list or on one line, without leading "#"."""
    value = fields.get("tags", fields.get("tag", []))
    tags = value if isinstance(value, list) else _TAGS.split(value)
    return [tag.lstrip("#").strip() for tag in tags if tag.strip("# ")]


def text_of(fields: Mapping[str, Any], name: str) -> str:
    """Return the text of a field; "" if it is missing or a list."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def kind_and_category(fields: FrontMatter) -> tuple[str, str]:
    """Return the kind and category of a page; without valid ones, "other" and "learning"."""
    kind, category = text_of(fields, "kind"), text_of(fields, "category")
    if kind not in KINDS:
        return "other", category if category in CATEGORIES else "learning"
    return kind, category if category in CATEGORIES else ""


def to_list(value: str | list[str] | None) -> list[str]:
    """Return the values of a field that may hold one or several."""
    return value if isinstance(value, list) else [value] if value else []


def to_front_matter(fields: Iterable[tuple[str, str | Sequence[str]]]) -> list[str]:
    """Format fields as lines. Empty fields are omitted."""
    lines: list[str] = []
    for name, value in fields:
        if isinstance(value, str):
            lines += [f"{name}: {value}"] if value else []
        elif value:
            lines += [f"{name}:", *(f"  - {quote_value(item)}" for item in value)]
    return lines


def quote_value(text: str) -> str:
    """Quote a text so that every YAML reader returns exactly this text."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS_OF_YAML and not _UNSEEN.search(text):
        return text
    return _UNSEEN.sub(lambda char: f"\\u{ord(char.group()):04x}", json.dumps(text, ensure_ascii=False))
