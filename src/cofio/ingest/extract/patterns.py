"""Facts in a few fixed wordings, found by regular expressions.

They give common statements a canonical text ("Team switched from JWT to Clerk") and replace the judgement model if it
is missing. Questions, suppositions, quotes and code yield nothing.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cofio.models.exchange import ExtractedFact
from cofio.text import lazy_re, sentences

MOST = 8  # facts or names per sentence


class FactPattern(NamedTuple):
    """Wording of a fact: kind, confidence, pattern, text template, and the parts that are entities.

    Without a template the sentence is kept verbatim.
    """

    kind: str
    confidence: float
    pattern: re.Pattern[str]
    template: str
    entities: str
    by_assistant: bool = False


_WORD = r"[^\s,;:!?()\"“”]+"
_THING = rf"{_WORD}(?: {_WORD}){{0,7}}?"
_NO_THING = r"(?!(?:it|this|that|these|those|you|how|when|if|to (?:think|see|say)|option|a bit)\b)"
_ADVERB = r"(?:(?:really|strongly|also|still|now|currently|just|all|both|much|usually|generally) ){0,2}"
_END = (
    r"(?=(?:,? (?:for|when|because|since|as|but|so|although|while|if|unless|except|any ?more|please|and (?:i|we)"
    r"|(?:last|this) (?:week|month|year|quarter|sprint|spring|summer|autumn|fall|winter))\b"
    r"|[,;:!?]? ?[()]|[,;:!?](?: |$)| [-–—]+ |$))"
)


def _row(
    kind: str, confidence: float, expression: str, template: str, entities: str, *, by_assistant: bool = False
) -> FactPattern:
    """Make a row. <what> is a placeholder for up to eight words, <rest...> for the rest of the sentence."""
    pattern = expression.replace("<adv>", _ADVERB).replace("<end>", _END)
    pattern = re.sub(r"<(\w+)\.\.\.>", lambda mark: f"(?P<{mark[1]}>(?!(?:it|this|that)\\b).{{3,300}})$", pattern)
    pattern = re.sub(r"(?<!\?P)<(\w+)>", lambda mark: f"(?P<{mark[1]}>{_NO_THING}{_THING})", pattern)
    return FactPattern(kind, confidence, lazy_re.compile(pattern, re.IGNORECASE), template, entities, by_assistant)


ROWS = (
    _row("preference", 0.9, r"\bI(?:'d| would)? <adv>prefer <what>(?: (?:over|instead of|rather than) <than>)?<end>",
         "User prefers {what}[ over {than}]", "what than"),
    _row("preference", 0.85, r"\bI <adv>(?:like|love|always use) (?!the )<what><end>", "User likes {what}", "what"),
    _row("preference", 0.85, r"\bI <adv>(?:hate|dislike|never use|avoid|don't like) (?!the )<what><end>",
         "User dislikes {what}", "what"),
    _row("policy", 0.85, r"\bwe <adv>(?:(?:should|must) )?(?P<how>always|never) (?P<verb>use|include|add|check) "
         r"<what><end>(?P<rest>.{0,200})$", "Team policy: {how} {verb} {what}{rest}", "what"),
    _row("policy", 0.85, r"\bwe <adv>(?P<how>(?:should|must)(?: not|n't)?|shouldn't|mustn't) (?P<verb>use|include|add"
         r"|check) <what><end>(?P<rest>.{0,200})$", "Team policy: {how} {verb} {what}{rest}", "what"),
    _row("policy", 0.85, r"\bwe (?P<how>always|never) (?!(?:get|had|have|saw|see|finished|did)\b)<rest...>",
         "Team policy: {how} {rest}", ""),
    _row("policy", 0.9, r"\bour (?:\w+ )?(?:standard|convention|policy|rule|practice) is (?:to )?<rest...>",
         "Team policy: {rest}", "rest"),
    _row("policy", 0.9, r"^from now on,? (?:please )?<rest...>", "{rest}", ""),
    _row("technology", 0.9, r"\bI(?:'ve| have)? <adv>(?P<verb>switched|moved|migrated|changed|upgraded) from <old> to "
         r"<new><end>", "User {verb} from {old} to {new}", "old new"),
    _row("technology", 0.9, r"(?:\bwe(?:'ve| have)? <adv>|^)(?P<verb>switched|moved|migrated|changed|upgraded) from "
         r"<old> to <new><end>", "Team {verb} from {old} to {new}", "old new"),
    _row("technology", 0.9, r"(?:\bwe(?:'ve| have)? <adv>|^)migrated (?:off |from )?<old> to <new><end>",
         "Team migrated from {old} to {new}", "old new"),
    _row("technology", 0.85, r"(?:\bwe(?:'re| are)? <adv>us(?:e|ing)|^using) <what> (?:for|to handle|to manage) <aim>"
         r"(?: now| currently)?<end>(?P<rest>(?:,? (?:not|never|instead of|rather than|but not) .{2,80})?)",
         "Team uses {what} for {aim}{rest}", "what aim"),
    _row("technology", 0.85, r"\bwe(?:'re| are)? <adv>us(?:e|ing) <what><end>", "", "what"),
    _row("decision", 0.85, r"\bwe(?:'ve| have)? (?:decided|chose|agreed) to <what>(?:,? (?:because|since|as) "
         r"(?P<why>[^.;!?]{3,200}))?(?=[.,;!?]|$)", "Team decided to {what}[ because {why}]", "what"),
    _row("decision", 0.85, r"\bfound (?:a )?(?:workaround|solution|fix) for <what> by <rest...>",
         "Found workaround for {what} by {rest}", "what rest", by_assistant=True),
    _row("temporal", 0.8, r"\bstarted using <what> (?P<when>(?:last|this) \w+|\d+ \w+ ago)",
         "Started using {what} {when}", "what"),
    _row("temporal", 0.8, r"\bbeen using <what> for (?:about |~)?(?P<span>\d+ \w+)", "Been using {what} for {span}",
         "what"),
    _row("other", 0.85, r"^(?:the|our|my) <what> (?:(?:runs|listens|lives) (?:on|in|at)|(?:is|are)(?= \S*[\d/`@_]"
         r"| (?-i:[A-Z]))) <value><end>", "", ""),
    _row("other", 0.85, r"^(?P<name>(?-i:[A-Z])[\w'-]+) (?:owns|leads|maintains) <what><end>", "", "name what"),
    _row("other", 0.95, r"^(?:please )?(?:remember|don't forget|note|keep in mind)(?:,|:| that) <rest...>", "{rest}",
         ""),
)  # fmt: skip

_OPTIONAL = lazy_re.compile(r"\[([^\]{]*\{(\w+)\})\]")
#: Words that limit the preceding statement: the fact would be too general without them.
_LIMIT = lazy_re.compile(
    r",? (?:but|except|unless|though|although|apart from|other than|as long as|only|instead|temporarily"
    r"|for (?:now|an? \w+)|and (?:then )?back|any ?more)\b",
    re.IGNORECASE,
)
_NAME = lazy_re.compile(r"\w[._/\\@#-]\w|\w#|\d|\w[A-Z]")
_NO_NAMES = frozenset(("I", "I'm", "I've", "I'd", "I'll", ""))


def find(sentence: str, kind: str | None = None, role: str = "user") -> list[ExtractedFact]:
    """Return all facts that the rows find in one sentence, in order and without overlap."""
    if len(sentence) > sentences.LONGEST or sentences.is_question(sentence) or sentences.is_code(sentence):
        return []
    plain = sentence.replace("’", "'").strip().rstrip(" .!;,:")
    extracted: list[ExtractedFact] = []
    end = 0
    rows = [row for row in ROWS if kind in (None, row.kind) and (role == "user" or row.by_assistant)]
    matches = [(match, row) for row in rows for match in row.pattern.finditer(plain)]
    for match, row in sorted(matches, key=lambda pair: pair[0].start()):  # for equal starts in the order of the rows
        if match.start() < end or sentences.is_hypothetical(plain[: match.start()]):
            continue
        as_said = not row.template or _LIMIT.match(plain, match.end()) is not None
        end = len(plain) if as_said else match.end()
        parts = {name: part.strip("`").rstrip(" .,") for name, part in match.groupdict("").items()}
        extracted.append(
            ExtractedFact(
                text=sentences.capitalised(plain[match.start() :] if as_said else _fill(row.template, parts)),
                kind=row.kind,
                confidence=row.confidence,
                entities=tuple(parts[name] for name in row.entities.split() if parts[name]) or names_in(plain),
                said=sentence,
                role=role,
            )
        )
    return extracted[:MOST]


def facts(text: str, kind: str | None = None, role: str = "user") -> list[ExtractedFact]:
    """Return all facts that the rows find in a text."""
    return [fact for sentence in sentences.split(text) for fact in find(sentence, kind, role)]


def names_in(plain: str) -> tuple[str, ...]:
    """Return the names in a text: words capitalised inside the sentence, or with a digit or sign inside."""
    names = []
    for place, token in enumerate(plain.split()):
        name = token.strip(".,;:!?()[]{}\"'`“”‘’*")
        if _NAME.search(name) or (place and name[:1].isupper() and name not in _NO_NAMES):
            names.append(name)
    return tuple(dict.fromkeys(names))[:MOST]


def _fill(template: str, parts: dict[str, str]) -> str:
    """Return a template filled with its parts; "[ over {than}]" only if that part is present."""
    return _OPTIONAL.sub(lambda match: match[1] if parts[match[2]] else "", template).format_map(parts)
