"""A text as clauses of tokens: each word by its stem, with what kind of word it is.

Numbers lose their spelling ("two", "1,000", "30s"), times become one token ("5 pm", "July 18"), possessives and hyphens
are opened.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from cofio import late
from cofio.relation import tables as t
from cofio.relation.plain import plain
from cofio.relation.stems import stem
from cofio.sameness import called


class Token(NamedTuple):
    """A word by its stem, as it was written, and what kind of word it is."""

    word: str
    said: str
    kind: str  # word, name, number, unit, when, be, help, not, the, bind, join, mark, own, team or user
    low: str = ""  # as it was written, in small letters


Tokens: TypeAlias = Sequence[Token]
NOTHING = Token("", "", "")


def clauses(text: str) -> tuple[list[list[Token]], bool]:
    """The clauses of a text that state something, and whether that is all of it: what asks, states nothing."""
    parts = [part for whole in _BREAK.split(plain(text)) for part in _at_speaker(whole) if part.strip()]
    stated = [part for part in parts if not _asks(part)]
    read = (_tokens(_LEAD.sub("", part)) for part in stated)
    found = [_with_team(tokens) for tokens in read if any(each.kind != "mark" for each in tokens)]
    return found, len(stated) == len(parts)


def _at_speaker(part: str) -> list[str]:
    """ "A is out, we use B" is two statements; "For the ORM, we use B" is one."""
    return [part] if part.split(" ", 1)[0].lower() in t.BINDING else _SPEAKER.split(part)


def _asks(part: str) -> bool:
    if part.rstrip().endswith("?") or _WONDER.search(part):
        return True
    first, second = (*part.lower().split(), "", "")[:2]
    return first in t.ASKING and second in ("i", "you", "we", "do", "does", "can", "should")


def _tokens(part: str) -> list[Token]:
    found: list[Token] = []
    for match in _TOKEN.finditer(part):
        token = _token(match.group(), not found)
        if token.kind == "name" and "-" in token.said:
            found += _opened(token)
        else:
            _append(found, token)
    return found


@lru_cache(maxsize=16_384)
def _token(said: str, opening: bool) -> Token:
    low = said.lower()
    if low in _KINDS and (said != "May" or opening):
        kind = _KINDS[low]
        return Token("user" if kind == "user" else low, said, kind, low)
    if low in t.NUMBER_WORDS:
        return Token(t.NUMBER_WORDS[low], said, "number", low)
    if said[0].isdigit() or said[0] in "+-":
        return Token(low, said, "when" if _CLOCK.fullmatch(low) else "number" if low[-1].isdigit() else "name", low)
    if not said[0].isalnum():
        return Token(said, said, "own" if low == "'s" else "mark" if said in _MARKS else "name", low)
    capital = said[0].isupper() and not opening
    day = t.SHORT.get(low, "") if capital else ""
    day = day or called(low)
    if day in t.WHEN and (day != "may" or capital):
        return Token(day, said, "when", low)
    inner = len(said) > 1 and not said[1:].islower()
    exact = "_" in said or (inner and not said[:-1].isupper())  # get_users and getUsers are not get_user and getUser
    return Token(low if exact else stem(low), said, "name" if capital or inner or not said.isalpha() else "word", low)


def _append(found: list[Token], token: Token) -> None:
    """Units by one name; a month and its day or year are one token."""
    before = found[-1] if found else NOTHING
    if before.kind == "number" and token.low in t.UNITS:
        found.append(Token(t.UNITS[token.low], token.said, "unit", token.low))
    elif before.word.isdigit() and token.kind == "when" and token.word in t.MONTHS:
        found[-1] = Token(f"{token.word} {before.word}", f"{before.said} {token.said}", "when")
    elif token.word.isdigit() and before.word.split(" ")[0] in t.MONTHS:
        found[-1] = Token(f"{before.word} {token.word}", f"{before.said} {token.said}", "when")
    else:
        found.append(token)


def _opened(token: Token) -> list[Token]:
    """ "auth-service" may be said as "auth service"; the number of "web-2" belongs to its name."""
    parts = token.said.split("-")
    if not all(part.isalnum() for part in parts):
        return [token]
    found: list[Token] = []
    for part in parts:
        if part.isdigit() and found:
            before = found[-1]
            found[-1] = Token(f"{before.word} {part}", f"{before.said}-{part}", "name", f"{before.low}-{part}")
        else:
            found.append(Token(stem(part.lower()), part, "name", part.lower()))
    return found


def _with_team(tokens: list[Token]) -> list[Token]:
    """ "Team uses", "the team decided", "our team has" and "this project uses" are "we"."""
    for place, token in enumerate(tokens[:-1]):
        first = place == 0 or tokens[place - 1].kind in ("the", "mark")
        after = tokens[place + 1]
        ours = token.low == "team" or (place == 1 and token.low in t.OURS and after.word in t.USING)
        done = after.kind in ("help", "be", "not") or after.low.endswith(("s", "ed")) or after.low in t.PAST
        if first and ours and done:
            tokens[place] = Token("we", token.said, "team", "team")
    return tokens


_TOKEN = late.compile(
    r"\d{4}-\d\d-\d\d|(?<![\w.])[-+]?\d+(?:[.:]\d+)*(?!\w)"  # a date, a number, a time of day
    r"|'s\b|->|[=:,;()$€£]"
    r"|\w+(?:[.'+#/@:-]+\w+)*(?:\+\+|#)?"
    r"|[^\w\s.!?\[\]{}\"'-]"
)
_MARKS = frozenset(",;:()=$€£|~")
_CLOCK = late.compile(r"\d{1,2}:\d\d|\d{4}-\d\d-\d\d")
#: Where one statement ends and another begins.
_BREAK = late.compile(
    r"(?<=[.!?])\s+|;\s+|\n+|,?\s+but\s+|,\s+(?:and|so)\s+(?=(?:i|we|you|he|she|they|it|the|my|our|that)\b)"
    r"|,\s+(?:and\s+|so\s+)?(?=(?:can|could|would|how|what|do|should|maybe|though|however)\b)",
    re.IGNORECASE,
)
_SPEAKER = late.compile(
    r",\s+(?=(?:we|i)\b|(?:the|our)\s+(?:[\w-]+\s+){1,3}(?:is|are|was|were|gets|has been)\s)"
    r"|,\s+(?=(?-i:[A-Z])\w+\s+(?:is|owns|leads|took over)\s)",
    re.IGNORECASE,
)
_WONDER = late.compile(r"\b(?:wondering|can you|could you|help me|do you think|not sure)\b", re.IGNORECASE)
_LEAD = late.compile(
    r"""^\W*(?:(?:please\s+)?(?:note|remember|fyi|btw|by\ the\ way|actually|update|correction|reminder|heads[- ]up
    |for\ the\ record|as\ (?:noted|mentioned|a\ reminder|i\ said)|(?:just\ )?to\ (?:confirm|be\ clear|clarify)
    |(?:team\ )?(?:policy|rule|decision|convention)|starting\ (?:now|today)|these\ days|nowadays|currently|right\ now
    |it\ turns\ out|turns\ out|in\ fact|i\ (?:just\ )?(?:found\ out|learned|noticed|think|believe))
    (?:\s+that)?\b[\s:,]*)+""",
    re.IGNORECASE | re.VERBOSE,
)
_KINDS = {
    word: kind
    for words, kind in (
        (t.BINDING, "bind"),
        (t.DETERMINERS, "the"),
        (t.HELPERS, "help"),
        (t.BE, "be"),
        (t.NOT, "not"),
        (t.USER, "user"),
        (t.TEAM, "team"),
        (("and", "or", "&"), "join"),
    )
    for word in words
}
