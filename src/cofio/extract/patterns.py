"""Facts that are worded as facts are, found by the table's rows, without a model.

A sentence that asks, supposes, quotes, is code or tells where the work stands yields nothing, whatever it is worded
like; nor does one that points instead of naming ("we always do this"). A fact that is missed may be said again; junk
is served for months.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from cofio import late, sentences
from cofio.conversation import Found
from cofio.extract.changes import LISTING, listed, written_out
from cofio.extract.sayings import Reading, Row, Wish, compiled, pattern
from cofio.extract.table import ROWS, WISHES

MOST = 8  # facts of one sentence; where rows read more, it is no sentence
_MOSTLY = 0.6  # of the characters that somebody asked to be kept


class Said(NamedTuple):
    """A sentence, what of it is read, and whose it is."""

    sentence: str
    plain: str
    role: str

    def found(self, text: str, kind: str, confidence: float, entities: tuple[str, ...] = ()) -> Found:
        """The fact in it, with the names of the sentence where no part of it is an entity."""
        return Found(
            text=sentences.capitalised(_NOW.sub("", text).replace(" from off ", " from ")),
            kind=kind,
            confidence=confidence,
            entities=entities or named(self.plain),
            said=self.sentence,
            role=self.role,
        )


def find(sentence: str, kind: str | None = None, role: str = "user") -> list[Found]:
    """Every fact that the rows read in one sentence of this side's, in the order in which they are said."""
    held = sentences.tokens(sentence)
    if len(sentence) > sentences.LONGEST:
        return []
    if role == "user" and held and held[0] in LISTING and (parts := _of_list(sentence, kind)):
        return parts
    if _LEADING[role == "user"].isdisjoint(held) and not _DIGIT.search(sentence):
        return []
    readings = _worth_a_look(held, kind, role)
    wishes = [_WISHES[word] for word in held if word in _WISHES] if role == "user" else []
    if not readings and not wishes:
        return []
    if not wishes and ("," in sentence or " and " in sentence or ";" in sentence):
        apart = _of_each(_CLAUSES.split(written_out(sentence, held)), kind, role)
        if apart:
            return [replace(each, said=sentence) for each in apart]
    plain = _as_it_is(sentences.bare(sentence), held)
    told = Said(sentence, plain, role)
    found = next((kept for wish in wishes if (kept := _wished(told, wish, kind))), None) or _read(told, readings)
    return found if found and _is_statement(sentence, plain) else []


def facts(text: str, kind: str | None = None, role: str = "user") -> list[Found]:
    """Every fact that the rows read in a text."""
    return [found for sentence in sentences.split(text) for found in find(sentence, kind, role)]


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_each(clauses: Sequence[str], kind: str | None, role: str) -> list[Found]:
    """The facts of the clauses, read one by one; none unless several of them tell one."""
    if len(clauses) == 1 or sum(bool(_worth_a_look(sentences.tokens(each), kind, role)) for each in clauses) < 2:
        return []  # told cheaply, and most are
    if any(sentences.supposes(clause) for clause in clauses):
        return []
    found = [facts for clause in clauses if (facts := find(clause, kind, role))]
    return [fact for facts in found for fact in facts][:MOST] if len(found) > 1 else []


def _of_list(sentence: str, kind: str | None) -> list[Found]:
    """What a list of the parts of a project says of each."""
    if kind not in (None, "technology"):
        return []
    plain = sentences.bare(sentence)
    said = Said(sentence, plain, "user")
    found = [said.found(text, "technology", 0.85, named(text)) for text in listed(plain)]
    return found[:MOST] if found and _is_statement(sentence, plain) else []


def _worth_a_look(held: Sequence[str], kind: str | None, role: str) -> list[Reading]:
    """The readings of which the words are there, in the order of the table."""
    there = set(held)
    if not all(map(str.isalpha, held)) and _DIGIT.search(" ".join(held)):
        there.add("#")
    places = set()
    by_word = _BY_WORD[role == "user"]
    for word in there & by_word.keys():
        for place, other in by_word[word]:
            if not other or other in there:
                places.add(place)
    if not places:
        return []
    return [_reading(place) for place in sorted(places) if kind is None or ROWS[place].kind == kind]


def _read(said: Said, readings: Iterable[Reading]) -> list[Found]:
    """What the rows make of it, from left to right; words that one row has read are not read again by another."""
    matches = [(match, reading) for reading in readings for match in _matches(reading, said.plain)]
    matches.sort(key=lambda each: each[0].start())  # stable: of those that begin together the earlier row comes first
    found: dict[str, Found] = {}
    read = 0
    for match, reading in matches:
        if match.start() >= read and _holds(said.plain, reading, match):
            read = match.end()
            fact = _fact(said, reading.row, match)
            found.setdefault(fact.text, fact)
    return list(found.values())[:MOST]


def _matches(reading: Reading, plain: str) -> Iterable[re.Match[str]]:
    if not reading.anchored:
        return reading.pattern.finditer(plain)
    match = reading.pattern.match(plain)
    return (match,) if match else ()


def _holds(plain: str, reading: Reading, match: re.Match[str]) -> bool:
    """Whether the words state something, and name what they state it of."""
    opening = plain[: match.start()]
    if opening and (sentences.supposes(opening) or _SUBORDINATE.search(opening)):
        return False
    if _TAKEN_BACK.search(plain, match.start()):
        return False
    things = [thing for name in reading.things if (thing := match[name])]
    clauses = [clause for name in reading.clauses if (clause := match[name])]
    if any(sentences.is_hollow(part) for part in (*things, *clauses)):
        return False
    if any(_FINITE.search(thing) for thing in things):
        return False
    if "value" in reading.things and not _is_value(match["value"]):
        return False
    if reading.row.kind == "learning":
        return not any(_VAGUE.match(part) for part in (*things, *clauses))
    return reading.row.kind not in ("policy", "preference") or not any(_NO_RULE.match(clause) for clause in clauses)


def _fact(said: Said, row: Row, match: re.Match[str]) -> Found:
    parts = {name: _unquoted(part) for name, part in match.groupdict("").items()}
    parts |= {name: parts[name].lower() for name in ("how", "verb") if name in parts}
    text = said.plain
    if row.keeps and _SCOPE.match(text[: match.start()]):
        text = text[: match.end()]  # "for tests, we always ..." is true of tests alone
    elif row.keeps and _LIMIT.match(text[match.end() :]):
        text = text[match.start() :]  # without its exception it would say too much
    elif row.keeps:
        text = _filled(row.keeps, parts)
        if row.keeps.startswith(("User", "Team")):
            text = _OWN.sub("their", text)
    entities = dict.fromkeys(parts[name] for name in row.entities.split() if parts[name])
    return said.found(text, row.kind, row.confidence, tuple(entities))


def _unquoted(part: str) -> str:
    part = part.strip()
    return part[1:-1] if part[:1] in "`'" and part[-1:] == part[:1] and part.count(part[:1]) == 2 else part


def _filled(keeps: str, said: dict[str, str]) -> str:
    def optional(part: re.Match[str]) -> str:
        return part[1] if all(said[name] for name in _PART.findall(part[1])) else ""

    return _OPTIONAL.sub(optional, keeps).format_map(said)


def _wished(said: Said, wish: Wish, kind: str | None) -> list[Found]:
    """What is asked to be kept: as a row reads it, or, where the rows leave much of it out, as it was said."""
    opening = _opening(wish).match(said.plain)
    rest = said.plain[opening.end() :] if opening else ""
    if rest.count(" ") < 1 or "?" in rest or sentences.asks(rest) or sentences.is_hollow(rest):
        return []
    wished = said._replace(plain=rest)
    read = _read(wished, _worth_a_look(sentences.tokens(rest), kind, said.role))
    if sum(len(each.text) for each in read) >= _MOSTLY * len(rest):
        return [replace(each, confidence=max(wish.confidence, each.confidence)) for each in read]
    told = "policy" if said.plain[: -len(rest)].endswith(" to ") else _kind_of(rest)
    return [wished.found(rest, told, wish.confidence)] if kind in (None, told) else []


def _as_it_is(plain: str, held: Sequence[str]) -> str:
    """The sentence without "now", when every fact holds, without what no longer does and what is to be done."""
    if not _TO_BE_DONE.isdisjoint(held):
        plain = _THEN_DO.sub("", plain)
    if "(" in plain:
        plain = _FORMERLY.sub("", plain)
    return plain if _AT_PRESENT.isdisjoint(held) else _NOW.sub("", _IS_NOW.sub(r"\1\2", plain))


# ── judging ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_statement(sentence: str, plain: str) -> bool:
    if sentences.asks(sentence) or sentences.asks(plain) or sentence.lstrip()[:1] == ">" or _IRONIC.match(sentence):
        return False
    return not sentences.is_code(sentence) and not sentences.is_passing(plain) and not _AT_THIS_SPOT.search(plain)


def _is_value(value: str) -> bool:
    """Whether it is what a setting is set to, rather than the state that something is in."""
    if _STATE.match(value):
        return False
    return " " not in value or _SET.search(value) is not None


def _kind_of(plain: str) -> str:
    held = set(sentences.tokens(plain))
    of_oneself = not held.isdisjoint(("i've", "i")) and "we" not in held  # "I've never been to Rome" is no policy
    kinds = (kind for kind, telling in _TELLS.items() if telling & held and not (of_oneself and kind == "policy"))
    return next(kinds, "other")


def named(plain: str) -> tuple[str, ...]:
    """The names in it: what has a capital inside the sentence, or a digit, a dot, a hyphen or a slash inside."""
    found = []
    for place, token in enumerate(plain.split()):
        name = token.strip(".,;:!?()[]{}\"'`“”‘’*")
        if _NAME.search(name) or (place and name[:1].isupper() and name not in _NO_NAMES):
            found.append(name)
    return tuple(dict.fromkeys(found))[:MOST]


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def _reading(place: int) -> Reading:
    """The row at this place, ready to be used: made at the first use, or every command would wait 0.3 s for all."""
    return compiled(ROWS[place])


@cache
def _opening(wish: Wish) -> re.Pattern[str]:
    """How the wish reads; likewise."""
    return pattern(wish.reads)


def _indexed(by_user: bool) -> dict[str, list[tuple[int, str]]]:
    """By a word, the places of this side's rows that it leads to, each with the word that must be there too."""
    found: dict[str, list[tuple[int, str]]] = {}
    for place, row in enumerate(ROWS):
        for words in row.words.split() if by_user or row.who == "anyone" else ():
            word, _, other = words.partition("+")
            found.setdefault(word, []).append((place, other))
    return found


#: By whether it is the user who speaks.
_BY_WORD = {by_user: _indexed(by_user) for by_user in (True, False)}
_WISHES = {word: wish for wish in WISHES for word in wish.words.split()}
#: A sentence without any of these is not looked at.
_LEADING = {True: frozenset(_BY_WORD[True]) | frozenset(_WISHES), False: frozenset(_BY_WORD[False])}

#: Between statements that could each stand alone: "we moved to pnpm, and the CI port is 9090".
_CLAUSES = late.compile(
    r"(?:[,;] (?:and |but |so )?| and )(?=(?:the|our|my|we|I|staging|prod|production)\b"
    r"|(?-i:[A-Z][\w'-]+ (?:took|takes|owns|left|leads|maintains|handles)\b|ask [A-Z]))",
    re.IGNORECASE,
)
_DIGIT = late.compile(r"\d")
_NAME = late.compile(r"\w[._/\\@#-]\w|\w#|\d|\w[A-Z]")
_NO_NAMES = frozenset(("I", "I'm", "I've", "I'd", "I'll", ""))
_SCOPE = late.compile(r"(?:for|in|on|at|with|within|inside|during|under|when|whenever|before|after)\b", re.IGNORECASE)
#: What follows limits what was said before it.
_LIMIT = late.compile(
    r",? (?:but not|but only|but never|except|unless|though not|although not|apart from|other than|as long as"
    r"|only (?:for|in|on|when|if)|temporarily|for now|for the time being)\b",
    re.IGNORECASE,
)
#: What was done and undone is no news.
_TAKEN_BACK = late.compile(
    r"\b(?:roll(?:ed|ing)? (?:it |that |this )?back|revert(?:ed|ing)?|had to revert|back again|and back|gave (?:it )?up"
    r"|undid|undone|backed out|changed (?:it )?back|switched back|went back|moved back)\b",
    re.IGNORECASE,
)
_NOW = late.compile(
    r",? (?:now|currently|nowadays|these days|from now on|as of (?:now|today)|any ?more|any(?<!never use any))$",
    re.IGNORECASE,
)
_IS_NOW = late.compile(
    r"\b(is|are|runs?|lives?|uses?|owns?|listens|'s|'re)(?: now| currently)(?= \S)"
    r"|( )(?:now|currently) (?=(?:is|are|runs?|lives?|uses?|owns?|listens)\b)",
    re.IGNORECASE,
)
_FORMERLY = late.compile(r" \((?:not|was|formerly|previously|used to be) [^()]{1,40}\)$", re.IGNORECASE)
_TO_BE_DONE = frozenset("fix update change adjust correct".split())
_THEN_DO = late.compile(
    r"(?:,|;| so| and)(?: (?:so|and|then|please)){0,3} (?:fix|update|change|adjust|correct) "
    r"(?:the|this|that|it|your|my|all)\b[^,;]*$",
    re.IGNORECASE,
)
_AT_PRESENT = frozenset("now currently nowadays days today".split())
#: What follows is told in passing: "before we switched from Go to Rust, things were slow".
_SUBORDINATE = late.compile(r"\b(?:before|after|until|once|when|whenever|while)\s*$", re.IGNORECASE)
_OWN = late.compile(r"\b(?:my|our)\b", re.IGNORECASE)
_OPTIONAL = late.compile(r"\[([^\]]*)\]")
_PART = late.compile(r"\{(\w+)\}")

#: A thing that holds a verb is no thing: "using a map for lookups is fast".
_FINITE = late.compile(
    r"\b(?:is|are|was|were|will|would|can|could|should|makes?|means?|seems?|does|did|has|had|gives?|works|helps?|allows"
    r"|causes?|requires|isn't|doesn't|won't|can't|i|you|we)\b",
    re.IGNORECASE,
)
#: After "always" or "never", what tells of the past or of trouble is no rule.
_NO_RULE = late.compile(
    r"(?:(?!need|embed|feed|seed|speed|shed)\w+ed|got|had|did|was|were|saw|made|found|ran|went|knew|thought|wrote"
    r"|gave|took|came|heard|been|seen|done|mind|again|get|gets|see|sees|end up|forget|fail|fails|have to|the|a"
    r"|an|happy|nice|good|on|in|so|want|know|understood|remember|wonder|think|love|look forward|run into|wait|too"
    r"|easy|hard|better|worse|more|less|going|gonna|be able|ready|really|quite|i|we|you|let's|as"
    r"|ask(?: me| us)?(?: first)?$)\b",
    re.IGNORECASE,
)
#: A cause or a fix that is not told.
_VAGUE = late.compile(
    r"(?:unclear|unknown|not|still|simple|easy|trivial|in (?:the|this|my)|ready|coming|done|deployed|merged|pushed"
    r"|working|on (?:its|the) way|the (?:bug|issue|problem|error|failure|crash|typo|tests?|build)$|hand$|accident$"
    r"|probably|likely|maybe|obvious|below|above|as follows|hard|weird|somewhere)\b",
    re.IGNORECASE,
)
_SET = late.compile(r"[\d`/_@]|[A-Z]|\w[.:-]\w")
#: A state that something is in; not what it is set to.
_STATE = late.compile(
    r"(?:not|already|now|still|being|wrong|down|up|broken|missing|in use|taken|busy|correct|fine|ok|okay|set|gone|empty"
    r"|unreachable|available|different|same|invalid|valid|too|very|so|done|ready|failing|passing|full|slow|fast|behind"
    r"|ahead|clean|dirty|stale|outdated|deprecated|required|optional|unknown|undefined|null|none|there|here|out|good"
    r"|bad|great|working|running|locked|protected|merged|deleted|created|the|a|an|where|what|how|because|probably"
    r"|just|only|corrupt\w*|unavailable|exposed|blocked|open|closed|safe|important|nice|weird|strange|huge|big|small"
    r"|long|short|correctly|hard-?coded|\w+ing|\w+ed)(?![\w./@:-])",
    re.IGNORECASE,
)

#: How irony opens: "yeah because we always have time for that".
_IRONIC = late.compile(
    r"\s*(?:oh,? (?:great|good|nice|wonderful|perfect|joy)|yeah,? (?:right|because|sure)|(?:brilliant|lovely),)",
    re.IGNORECASE,
)
#: About what is on the screen just now.
_AT_THIS_SPOT = late.compile(
    r"\bthe (?:other|new|old) (?:one|branch)\b|\bin (?:\d+|a few|an?|two|five|ten|thirty) (?:minutes?|hours?|secs?)\b"
    r"|\bthe (?:meeting|call|standup)\b|\b(?:here|there)(?=,| because\b| and\b|$)"
    r"|\bis called \w*(?:Error|Exception)\b|^the file is called\b|, I (?:think|guess|believe)$",
    re.IGNORECASE,
)
_TELLS = {
    "preference": frozenset("prefer prefers favourite favorite like likes love hate dislike".split()),
    "decision": frozenset("decided decide chose chosen picked agreed adopted settled".split()),
    "policy": frozenset("always never policy standard convention rule must should require requires".split()),
    "technology": frozenset(
        "use uses using used switched migrated moved replaced upgraded hosted deployed runs deploys written".split()
    ),
    "temporal": frozenset("started since ago".split()),
    "learning": frozenset("cause workaround learned".split()),
}
