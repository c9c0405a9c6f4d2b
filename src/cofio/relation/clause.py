"""A clause divided: subject, verb and the phrases that follow, with negation, tense, reasons and moments set aside."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from cofio.relation import tables as t
from cofio.relation.reading import NOTHING, Token, Tokens
from cofio.relation.statement import words


class Phrase(NamedTuple):
    """A part of the clause after the verb, and the preposition that it hangs on."""

    bind: str
    tokens: list[Token]


@dataclass(slots=True)
class Clause:
    """A clause, divided."""

    tokens: list[Token]
    negated: bool = False
    past: bool = False
    adding: bool = False
    now: bool = False
    tentative: bool = False
    extra: list[str] = field(default_factory=list)
    subject: list[Token] = field(default_factory=list)
    verb: str = ""
    listing: bool = False  # whether a colon is all the verb there is
    passive: bool = False
    rest: list[Token] = field(default_factory=list)
    parts: list[Phrase] = field(default_factory=list)  # the object, which may be empty, and the phrases behind it
    by: dict[str, list[Token]] = field(default_factory=dict)  # the same, by preposition

    def others(self, *binds: str) -> list[Phrase]:
        """The phrases that hang on none of these."""
        return [part for part in self.parts if part.bind not in binds]


def divided(tokens: Tokens) -> Clause:
    """The clause of these tokens."""
    clause = Clause(list(tokens))
    _set_aside(clause)
    _put_front_last(clause)
    place = _verb_place(clause.tokens)
    if place is None:
        clause.subject = clause.tokens
    else:
        token = clause.tokens[place]
        clause.subject, clause.rest = clause.tokens[:place], clause.tokens[place + 1 :]
        clause.verb = "be" if token.kind in ("be", "mark") else t.HAVE if token.kind == "help" else token.word
        clause.listing = token.said == ":"
        ended = token.low.endswith("ed") and not token.low.endswith(("eed", "embed"))
        clause.past |= (ended or token.low in t.PAST) and token.word not in t.RESULTING
    if clause.verb == "be":
        _follow_be(clause)
    clause.parts = phrases(clause.rest)
    clause.by = {part.bind: part.tokens for part in reversed(clause.parts)}
    return clause


def phrases(tokens: Tokens) -> list[Phrase]:
    """The object, with no preposition (it may be empty), and the phrases that follow it."""
    found = [Phrase("", [])]
    for place, token in enumerate(tokens):
        if token.kind == "bind" and token.word not in t.INSIDE:
            found.append(Phrase(token.word, []))
        elif token.kind != "mark" or place + 1 < len(tokens):
            found[-1].tokens.append(token)
    return found


# ── what is set aside ─────────────────────────────────────────────────────────────────────────────────────────────────


def _set_aside(clause: Clause) -> None:
    tokens, place = clause.tokens, 0
    kept: list[Token] = []
    while place < len(tokens):
        token = tokens[place]
        low = token.low
        after = tokens[place + 1] if place + 1 < len(tokens) else NOTHING
        if token.kind == "not":
            clause.negated = True
            kept += [Token("person", low, "word")] if low == "nobody" else []
        elif low in t.REASONS and kept and after.kind not in ("when", ""):
            clause.extra += words(tokens[place + 1 :])
            break
        elif _begins_moment(low, after):
            place = _end_of_moment(clause, place)
        elif low in t.ADDING:
            clause.adding = True
        else:
            clause.past |= low in t.WAS
            clause.now |= low == "now"
            clause.tentative |= token.kind == "help" and low in t.TENTATIVE  # and not the month of May
            kept += [] if low in t.SILENT or low in t.BEFORE else [token]
        place += 1
    if clause.tentative:
        clause.tentative = not any(each.low in ("now", "henceforth") for each in tokens)
    clause.tokens = kept
    if any(each.word in t.LEADING or each.low == "used" for each in kept):
        clause.tokens = _decided(clause, kept)


def _begins_moment(low: str, after: Token) -> bool:
    return (low in t.EFFECTIVE and after.kind in ("when", "number", "bind", "the")) or (
        low in ("last", "next", "this", "few") and after.low in t.UNITS
    )


def _end_of_moment(clause: Clause, place: int) -> int:
    tokens, end = clause.tokens, place + 1
    while end < len(tokens) and (
        tokens[end].kind in ("when", "number", "unit") or tokens[end].low in t.UNITS or tokens[end].low in ("on", "ago")
    ):
        end += 1
    clause.extra += [each.word for each in tokens[place + 1 : end]]
    return end - 1


def _decided(clause: Clause, tokens: list[Token]) -> list[Token]:
    """Without "decided to", "started" and "stopped", which say how it came about or turn it round."""
    kept: list[Token] = []
    passed = -1
    for place, token in enumerate(tokens):
        after = tokens[place + 1].low if place + 1 < len(tokens) else ""
        if place == passed:
            continue
        if token.word in t.HOPING and token.kind == "word" and (after == "to" or after.endswith("ing")):
            clause.tentative = True
        if (token.word in t.DECIDING or token.word in t.HOPING) and after in ("to", "against"):
            clause.extra.append(token.word)
            clause.negated ^= after == "against"
            passed = place + 1
            _drop_auxiliaries(kept)
            if after == "against" and not any(each.low.endswith("ing") for each in tokens[place + 2 : place + 3]):
                kept.append(Token(t.USE, "use", "word"))
        elif token.low == "used" and after == "to":
            clause.past, passed = True, place + 1
        elif token.word in t.STOPPING and token.kind == "word":
            clause.negated = not clause.negated
            _drop_auxiliaries(kept)
            kept += [] if after.endswith("ing") else [Token(t.USE, "use", "word")]
        elif token.word in t.BEGINNING and after.endswith("ing"):
            _drop_auxiliaries(kept)
        else:
            kept.append(token)
    return kept


def _drop_auxiliaries(kept: list[Token]) -> None:
    while kept and kept[-1].kind == "help":
        kept.pop()


def _put_front_last(clause: Clause) -> None:
    """In "In staging, the port is 8080", what narrows down is put last."""
    tokens = clause.tokens
    if not tokens or tokens[0].kind != "bind":
        return
    for place, token in enumerate(tokens[1:], start=1):
        if token.said == "," or (token.kind == "team" and place > 1):
            rest = tokens[place + (token.said == ",") :]
            clause.tokens = [*rest, *tokens[:place]] if rest else tokens
            return


# ── where the verb is ─────────────────────────────────────────────────────────────────────────────────────────────────


def _verb_place(tokens: Tokens) -> int | None:
    start = next((place for place, each in enumerate(tokens) if each.kind != "the"), len(tokens))
    if start < len(tokens) and _speaks(tokens, start):
        return _after_speaker(tokens, start)
    later = range(start + 1, len(tokens))
    found = next((place for place in later if tokens[place].kind == "be"), None)
    if found is None:
        found = next((place for place in later if tokens[place].said in (":", "=") and place + 1 < len(tokens)), None)
        first = start if found is None else found + 1
        verbs = (place for place in range(first, len(tokens) - 1) if _is_verb(tokens, place, start))
        found = next(verbs, found)
    if found is None:
        found = next((place for place in later if tokens[place].low in ("has", "have")), None)
    return found


def _speaks(tokens: Tokens, start: int) -> bool:
    """Whether we or the user do it, and not something of theirs: "my editor", "user sessions are"."""
    token, after, then = (*tokens[start : start + 3], NOTHING, NOTHING)[:3]
    noun = token.low == "my" or after.kind == "own" or (token.low == "user" and then.kind == "be")
    return token.kind == "team" or (token.kind == "user" and not noun)


def _after_speaker(tokens: Tokens, start: int) -> int | None:
    for place in range(start + 1, len(tokens)):
        token = tokens[place]
        after = tokens[place + 1] if place + 1 < len(tokens) else NOTHING
        if token.low in ("has", "have", "had") and not _is_participle(after):
            return place
        adverb = token.low.endswith("ly") and token.word not in t.VERBS
        if token.kind == "be" or (token.kind in ("word", "name") and not adverb):
            return place
    return None


def _is_participle(token: Token) -> bool:
    return token.kind == "be" or token.low.endswith(("ed", "en")) or token.low in t.PAST or token.low in t.UNCHANGED


def _is_verb(tokens: Tokens, place: int, start: int) -> bool:
    token, after = tokens[place], tokens[place + 1]
    if token.word not in t.VERBS or token.kind not in ("word", "name"):
        return False
    if place == start:  # do this
        return (
            start == 0
            and not token.low.endswith(("s", "ing"))
            and after.kind not in ("be", "own", "help")
            and not (after.low.endswith("ed") and after.word in t.CHANGING)  # "Release slipped to"
            and after.word != "of"
        )
    before, low = tokens[place - 1], token.low
    inflected = low.endswith(("s", "ed")) or low in t.PAST or low in t.UNCHANGED
    if before.low in ("has", "have", "had"):
        return _is_participle(token)
    many = before.low.endswith("s") or before.kind == "help"
    return before.kind not in ("the", "own", "bind") and (inflected or many)


def _follow_be(clause: Clause) -> None:
    """In "is hosted on", "was raised to" and "is playing", the verb is the one that follows."""
    rest = [each for each in clause.rest if each.kind not in ("be", "help")]
    clause.rest = rest
    if not rest or rest[0].kind not in ("word", "name"):
        return
    doing = rest[0].low.endswith("ing")
    hangs_on = len(rest) > 1 and rest[1].kind == "bind" and rest[1].word != "of"
    done_with = hangs_on and rest[1].word == "with" and rest[0].word in t.VERBS
    known = rest[0].word in t.LEADING_ON or done_with or any(each.word == "by" for each in rest)
    alone = len(rest) == 1 and rest[0].word in t.USING
    if doing or alone or (hangs_on and known and _is_participle(rest[0])):
        clause.verb, clause.passive, clause.rest = rest[0].word, not doing, rest[1:]
