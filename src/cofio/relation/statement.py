"""What a clause says, as a value of a topic; and how its tokens become words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cofio.relation import tables as t
from cofio.relation.reading import NOTHING, Token, Tokens
from cofio.relation.stems import stem

Words = frozenset[str]
_NONE: Words = frozenset()
#: Words of a topic that may go without saying.
UNSAID: Words = t.GENERIC | {"it"}
_DATE = stem("date")
_SAYING = frozenset("word name when unit user number".split())


@dataclass(slots=True, kw_only=True)
class Statement:
    """What a clause says: of a topic, a value. Words are stems."""

    verb: str = ""  # a family (use, prefer, like, place, be), or the verb itself
    topic: Words = _NONE
    purpose: Words = _NONE  # what for
    value: tuple[str, ...] = ()
    sort: str = ""  # of the value: number, when, name or word; "" when there is none
    edition: str = ""  # the name of which the value is the version: "PostgreSQL 16"
    former: str = ""  # the same, of what gave way
    prior: tuple[str, ...] = ()  # what gave way to the value, or is liked less
    single: bool = False  # whether the topic has one value at a time
    alone: bool = False  # whether it may have: where the name that goes with a number is the value, or it says "now"
    changes: bool = False  # whether it says that something was otherwise before
    manner: str = ""  # the verb, where it adds to what is said
    ordered: bool = False  # whether it matters in which order its words stand
    doer: Words = _NONE  # whose doing it is, where that is said
    negated: bool = False
    never: bool = False  # whether it denies that it ever was
    past: bool = False
    adding: bool = False  # whether it says that it comes to something else
    tentative: bool = False  # whether it is only planned, or wished
    loose: Words = _NONE  # words of the topic that may be said or left out
    extra: Words = _NONE  # said beside: reasons, moments
    sequence: tuple[str, ...] = ()  # all that is said, in order
    about: str = ""  # the topic as written
    told: str = ""  # the value as written


def content(tokens: Iterable[Token]) -> list[Token]:
    """The tokens that say something."""
    return [
        each
        for each in tokens
        if (each.kind in _SAYING and each.word not in t.SILENT) or (each.kind == "bind" and each.word not in t.FAINT)
    ]


def words(tokens: Iterable[Token]) -> tuple[str, ...]:
    """The stems of the tokens that say something."""
    return tuple(each.word for each in content(tokens))


def said(tokens: Iterable[Token]) -> str:
    """The words as they were written."""
    return " ".join(each.said for each in tokens if each.kind not in ("mark", "the", "team", "help")).replace(
        " 's", "'s"
    )


def topic_of(tokens: Iterable[Token]) -> Words:
    """The words of a topic, whatever their order; "worker 3" is one word, and an owner is who owns."""
    found: list[str] = []
    for token in content(tokens):
        if token.kind == "number" and found:
            found[-1] = f"{found[-1]} {token.word}"
        else:
            found.append(t.OWNING.get(token.word, token.word))
    return frozenset(found)


# ── a value and its topic ─────────────────────────────────────────────────────────────────────────────────────────────


def valued(
    topic: Tokens, value: Tokens, *, prior: Tokens = (), verb: str = "be", single: bool = False, changes: bool = False
) -> Statement:
    """The statement with this value. Of a number's phrase, only the number and its unit are value."""
    sort = "number" if has(value, "number") else "when" if has(value, "when") else ""
    kept, others = _parted(value, sort)
    before, also = _parted(prior, sort)
    if prior and not before:
        before, also = list(prior), []
    tokens = [*topic, *others, *(each for each in also if each not in others)]
    about = topic_of(tokens)
    if not sort:
        named = any(each.kind == "name" or each.said[0].isupper() for each in kept if each.said)
        listed = any(each.kind == "join" or each.said == "," for each in kept)
        single = single and not listed
    return Statement(
        verb=verb,
        topic=about,
        value=words(kept),
        sort=sort or ("name" if named else "word"),
        prior=words(before),
        single=single or bool(sort),
        changes=changes or bool(prior and verb != "prefer"),
        loose=(_counted(value) if sort == "number" else _NONE) | (about & _unsaid(sort)) | _newness(topic),
        about=said(tokens),
        told=said(kept),
        edition=_edition(value) if sort == "number" else "",
        former=_edition(prior) if sort == "number" else "",
        alone=single,
    )


def in_full(told: Statement) -> Statement:
    """The same, where a name with its version is the value: of "PostgreSQL 16 for orders", not 16 alone."""
    if not told.edition:
        return told
    return replace(
        told,
        topic=told.topic - {told.edition, told.former},
        value=(told.edition, *told.value),
        prior=(told.former, *told.prior) if told.former else told.prior,
        sort="name",
        single=told.alone,
        edition="",
        former="",
        told=f"{told.edition} {told.told}",
    )


def _edition(value: Tokens) -> str:
    """The name that a number stands behind, where nothing follows that it could count."""
    name, number = (NOTHING, NOTHING, *value)[-2:]
    dotted = "." in number.word and name.word not in t.GENERIC  # alpine 3.18
    named = name.kind == "name" or (name.kind == "word" and (dotted or name.said[:1].isupper()))
    return name.word if named and number.kind == "number" else ""


def _unsaid(sort: str) -> Words:
    return UNSAID | {_DATE} if sort == "when" else UNSAID


def _newness(topic: Tokens) -> Words:
    """In "the new limit", "new" tells only that it was another before."""
    first = topic[1].low if len(topic) > 2 and (topic[0].kind == "the" or topic[0].low == "my") else ""
    return frozenset((first,)) if first in t.NEWNESS else _NONE


def has(tokens: Tokens, kind: str) -> bool:
    """Whether there is a token of this kind."""
    return any(each.kind == kind for each in tokens)


def _parted(tokens: Tokens, sort: str) -> tuple[list[Token], list[Token]]:
    """The tokens of the value itself, and those that belong to the topic."""
    if not sort:
        return list(tokens), []
    kept: list[Token] = []
    others: list[Token] = []
    for place, token in enumerate(tokens):
        if place and tokens[place - 1].word == "per" and token.low in t.UNITS:
            kept.append(Token(f"per {t.UNITS[token.low]}", f"per {token.said}", "unit"))
        elif token.kind == sort or (sort == "number" and (token.kind == "unit" or _is_moment(token))):
            kept.append(token)
        elif token.word != "per":
            others.append(token)
    return kept, others


def _is_moment(token: Token) -> bool:
    return token.kind == "when" and token.word not in t.OFTEN


def _counted(value: Tokens) -> Words:
    """What a number counts: with another number it may go without saying."""
    return topic_of(each for place, each in enumerate(value) if place and value[place - 1].kind in ("number", "unit"))
