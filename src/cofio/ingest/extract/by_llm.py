"""Fact extraction by a language model: one call for all exchanges of a session, facts per exchange as the result.

The reply follows a schema if the provider supports that, and is parsed leniently in any case. An unreadable reply is
reported as a problem: no facts and no answer are different outcomes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from math import isfinite
from typing import Any, NamedTuple

from cofio.errors import TooLarge
from cofio.judgement.labels import RETRACTION
from cofio.models.exchange import ANALYSIS, OBSERVATION, REVIEW, ROLES, Exchange, ExtractedFact, Message, TokenUsage
from cofio.models.memory import CATEGORIES, KINDS, category_of
from cofio.ports import LLM, Completion
from cofio.providers import prompts
from cofio.text import json_repair
from cofio.text.tokens import fingerprint, search_terms, tail_of, truncate_middle, words

MOST_FACTS = 50  # per exchange; more means that the transcript is repeated
LONGEST_FACT = 1_000  # characters; longer texts are not facts
MOST_ENTITIES, LONGEST_ENTITY = 10, 100
THOROUGH = ("pre_compact", REVIEW)  # contexts after which the transcript is lost
_WHOLE = (*THOROUGH, ANALYSIS, OBSERVATION)  # contexts in which the assistant's messages are read completely

_MOSTLY, _COPIED = 0.5, 0.9  # share of a fact's words in the user's and in the assistant's messages
_LETTERS = 3  # minimum characters per token of English
_ROOM = 4_096  # tokens reserved for the reply, if the model has that many
_KNOWN = 2_000  # characters of related memories and injected context
_EARLIER, _EARLIER_TURN = 1_200, 400  # characters of the earlier turns, and of one message in them
_ASSISTANT = 2_000  # characters of one assistant message in an ongoing conversation
_LEAST = 600  # characters of the conversation, however small the model's context is
_UNBOUNDED = 1 << 30
_BELIEVED = "The answer was checked and is confirmed: what it states counts as if the user had said it."
_CONFIDENCE = {"low": 0.6, "medium": 0.8, "high": 0.95}
_KIND_OF = {"decision": "decision", "learning": "learning"}  # by category, if the model names no kind
_TEXTS = ("text", "fact", "content", "memory")  # names that models use for the sentence
#: Kinds offered to the model. Correlations are patterns to it, and observations are rarely worth keeping.
_OFFERED = (*(kind for kind in KINDS if kind not in ("correlation", "observation")), RETRACTION)

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["facts"],
    "properties": {
        "facts": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["exchange", "text", "category", "kind", "confidence", "said_by", "entities"],
                "properties": {
                    "exchange": {"type": "string"},
                    "text": {"type": "string"},
                    "category": {"type": "string", "enum": list(CATEGORIES)},
                    "kind": {"type": "string", "enum": list(_OFFERED)},
                    "confidence": {"type": "string", "enum": list(_CONFIDENCE)},
                    "said_by": {"type": "string", "enum": list(ROLES)},
                    "entities": {"type": "array", "items": {"type": "string"}},
                },
            },
        }
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMExtraction:
    """Facts in each exchange, with the usage and the problem of the call."""

    found: tuple[tuple[ExtractedFact, ...], ...] = ()
    usage: TokenUsage = TokenUsage()
    problem: str = ""
    complete: bool = True  # the reply could be read to its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """Context of an exchange: earlier messages of its session, and related memories."""

    earlier: tuple[Message, ...] = ()
    memories: tuple[str, ...] = ()


_NO_BACKGROUND = Background()


def facts(llm: LLM, exchanges: Sequence[Exchange], background: Background = _NO_BACKGROUND) -> LLMExtraction:
    """Return the facts in exchanges of one session, oldest first, from one call.

    Raise TooLarge if several exchanges do not fit into one call. Raise Unavailable or Misconfigured if the model does
    not answer.
    """
    said = [exchange for exchange in exchanges if any(message.text.strip() for message in exchange.messages)]
    if not said:
        return LLMExtraction(found=((),) * len(exchanges))
    if len(said) > 1 and not _fits(llm, said, background):
        raise TooLarge(f"{len(said)} turns are too long for one call.", "They are read in halves.")
    reply = _understood(_asked(llm, said, background), said)
    found = iter(reply.found)
    return replace(reply, found=tuple(next(found) if exchange in said else () for exchange in exchanges))


def _fits(llm: LLM, exchanges: Sequence[Exchange], background: Background) -> bool:
    whole = _user(exchanges, background, _UNBOUNDED)
    return len(whole) <= _room(llm, _system(exchanges), exchanges)


def _asked(llm: LLM, exchanges: Sequence[Exchange], background: Background) -> Completion:
    """Return the reply. If the server turns out to have a smaller context than assumed, retry once with less text."""
    thought = llm.profile.context
    system = _system(exchanges)
    schema = SCHEMA if llm.profile.json_schema else None
    try:
        return llm.complete(system, _user(exchanges, background, _room(llm, system, exchanges)), schema=schema)
    except TooLarge:
        if llm.profile.context >= thought or len(exchanges) > 1:
            raise
        return llm.complete(system, _user(exchanges, background, _room(llm, system, exchanges)), schema=schema)


def _attributed(found: ExtractedFact, exchange: Exchange) -> ExtractedFact:
    """Return the fact with its speaker: the assistant if it copies the assistant's words, else as the model says.

    The model understands "yes, do that", and numbers that are spelled out.
    """
    wanted = set(search_terms(found.text))
    said = {
        role: wanted & set(words(" ".join(message.text for message in exchange.messages if message.role == role)))
        for role in ROLES
    }
    copied = len(said["assistant"]) >= _COPIED * len(wanted) and len(said["user"]) < _MOSTLY * len(wanted)
    return replace(found, role="assistant") if copied else found


# ── the prompt ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _system(exchanges: Sequence[Exchange]) -> str:
    thorough = any(exchange.context in THOROUGH for exchange in exchanges)
    project = _project(exchanges[0].project or exchanges[0].source)
    name = "extract_thorough" if thorough else "extract"
    return prompts.read(name, project=project, rules=prompts.read("extract_rules"))


def _project(path: str) -> str:
    """Return the project name for a sentence: `the project "memories"` for "/srv/memories"."""
    name = " ".join(path.rstrip("/").rpartition("/")[2].split())[:80]
    return f'the project "{name}"' if name else "this project"


def _room(llm: LLM, system: str, exchanges: Sequence[Exchange]) -> int:
    """Return the characters available for the conversation; fewer for non-Latin text, with up to a token per letter."""
    tokens = llm.profile.context - len(system) // _LETTERS - min(_ROOM, llm.profile.context // 4)
    said = "".join(message.text for exchange in exchanges for message in exchange.messages)
    ascii_share = len(said.encode("ascii", "ignore")) / max(1, len(said))
    return max(_LEAST, int(tokens * (1 + (_LETTERS - 1) * ascii_share**2)))


def _user(exchanges: Sequence[Exchange], background: Background, room: int) -> str:
    shown = [text for exchange in exchanges for text in exchange.injected]
    known = _known((*background.memories, *shown), min(_KNOWN, room // 4))
    earlier = _earlier(background.earlier, min(_EARLIER, room // 8))
    left = room - len(known) - len(earlier)
    said = "\n".join(_exchange(f"t{number}", each, left) for number, each in enumerate(exchanges, 1))
    believed = f"{_BELIEVED} " if any(exchange.context == OBSERVATION for exchange in exchanges) else ""
    asks = f"{believed}Write down what lasts. Reply with the JSON object only."
    return f"{known}{earlier}<transcript>\n{said}\n</transcript>\n\n{asks}"


def _exchange(name: str, exchange: Exchange, room: int) -> str:
    """Return one exchange with its name and date."""
    messages = exchange.messages
    if exchange.context not in _WHOLE:
        messages = tuple(Message(message.role, _shortened(message, _ASSISTANT)) for message in messages)
    turns = "\n".join(_turn(each) for each in _newest(messages, room))
    return f'<exchange id="{name}"{_dated(exchange.at)}>\n{turns}\n</exchange>'


def _known(texts: Sequence[str], room: int) -> str:
    distinct = {fingerprint(text): text for text in reversed(texts) if text.strip()}
    lines = "\n".join(_harmless(each) for each in reversed(distinct.values()))[:room]
    return f"<known>\n{lines}\n</known>\n\n" if lines else ""


def _earlier(messages: Sequence[Message], room: int) -> str:
    """Return the end of the earlier conversation, with every message shortened."""
    short = [Message(message.role, truncate_middle(message.text, _EARLIER_TURN)) for message in messages]
    turns = "\n".join(_turn(each) for each in _newest(short, room)) if room >= _EARLIER_TURN // 2 else ""
    return f"<earlier>\n{turns}\n</earlier>\n\n" if turns else ""


def _shortened(message: Message, most: int) -> str:
    """Return the text; for a long assistant message only its beginning and end."""
    return truncate_middle(message.text, most) if message.role == "assistant" else message.text


def _dated(at: str) -> str:
    """Return the date attribute with the weekday, so that relative dates can be resolved."""
    return f' on="{date.fromisoformat(at[:10]):%A, %Y-%m-%d}"' if at else ""


def _newest(messages: Sequence[Message], room: int) -> list[Message]:
    """Return the end of the conversation that fits; the oldest message and the user's last one may be shortened."""
    kept: list[Message] = []
    asked = next((each for each in reversed(messages) if each.role == "user"), None)
    for message in reversed(messages):
        if room <= 0:
            break
        if message.text.strip():
            cut = truncate_middle if not kept or message is asked else tail_of
            kept.append(Message(message.role, cut(message.text, room)))
            room -= len(message.text) + 40  # including its tags
    return kept[::-1]


def _turn(message: Message) -> str:
    by = message.role if message.role in ROLES else "other"
    return f'<turn by="{by}">\n{_harmless(message.text.strip())}\n</turn>'


_TAG = re.compile(r"<(?=\s*/?\s*(?:transcript|exchange|turn|known|earlier)\b)", re.IGNORECASE)


def _harmless(text: str) -> str:
    """Return the text without tags that could close its block or imitate another turn."""
    return _TAG.sub("‹", text)


# ── the reply ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _UnusableEntry(NamedTuple):
    """Entry that is not a fact, with the reason."""

    why: str


_UNREADABLE = "the model's reply could not be read"


def _understood(reply: Completion, exchanges: Sequence[Exchange]) -> LLMExtraction:
    nothing = LLMExtraction(found=((),) * len(exchanges), usage=reply.usage)
    read = json_repair.parse_reply(reply.text)
    if read.entries is None:
        problem = "the model's reply was cut off before the first fact" if reply.truncated else _UNREADABLE
        return replace(nothing, problem=problem, complete=False)
    found, unusable = _distinct(read.entries)
    cut = reply.truncated or not read.whole
    problem = _problem(found, unusable, cut=cut)
    by_place: list[list[ExtractedFact]] = [[] for _ in exchanges]
    for each, entry in found:
        place = _place(entry, each, exchanges)
        by_place[place].append(_attributed(each, exchanges[place]))
    return replace(
        nothing, found=tuple(map(tuple, by_place)), problem=problem, complete=not cut and problem != _UNREADABLE
    )


def _distinct(entries: Iterable[Any]) -> tuple[list[tuple[ExtractedFact, Any]], Counter[str]]:
    """Return the distinct facts with their entries, up to the limit, and the number of unusable entries by reason."""
    found: dict[int, tuple[ExtractedFact, Any]] = {}
    examples = _examples()
    unusable: Counter[str] = Counter()
    for entry in entries:
        each = _fact(entry)
        if isinstance(each, _UnusableEntry):
            unusable[each.why] += 1
        elif each and (mark := fingerprint(each.text)) not in found and mark not in examples:
            if len(found) < MOST_FACTS:
                found[mark] = each, entry
            else:
                unusable["too many"] += 1
    return list(found.values()), unusable


def _place(entry: Any, found: ExtractedFact, exchanges: Sequence[Exchange]) -> int:
    """Return the index of a fact's exchange: as named by the model, else the last one with the most of its words."""
    number = prompts.number(entry.get("exchange"), "t") if isinstance(entry, dict) else None
    if number is not None and 1 <= number <= len(exchanges):
        return number - 1
    wanted = set(search_terms(found.text))
    shared = [
        len(wanted & set(words(" ".join(message.text for message in exchange.messages)))) for exchange in exchanges
    ]
    return max(range(len(exchanges)), key=lambda place: (shared[place], place))


EXAMPLE = re.compile(r'"text": "([^"]+)"')


@cache
def _examples() -> frozenset[int]:
    """Return the example facts of the prompt itself, which small models tend to repeat."""
    return frozenset(map(fingerprint, EXAMPLE.findall(" ".join(prompts.read("extract_rules").split()))))


def _problem(found: Sequence[Any], unusable: Counter[str], *, cut: bool) -> str:
    if set(unusable) == {"unreadable"} and not found:
        return _UNREADABLE
    told = [f"the model's reply was cut off; facts kept: {len(found)}"] if cut else []
    if unusable:
        told.append("entries left out: " + ", ".join(f"{count} {why}" for why, count in sorted(unusable.items())))
    return "; ".join(told)


def _fact(entry: Any) -> ExtractedFact | _UnusableEntry | None:
    """Return the fact in an entry; None if its text is empty."""
    told = {"text": entry, "category": "detail"} if isinstance(entry, str) else entry
    said = [told[key] for key in _TEXTS if isinstance(told.get(key), str)] if isinstance(told, dict) else []
    if not said:
        return _UnusableEntry("unreadable")
    text = _STAMP.sub("", " ".join(said[0].split()))
    if len(text) > LONGEST_FACT:
        return _UnusableEntry("too long")
    if not any(letter.isalnum() for letter in text):
        return None
    kind, category = _sort(_word(told.get("kind")), _word(told.get("category")))
    return ExtractedFact(
        text=text,
        kind=kind,
        category=category,
        confidence=_confidence(told.get("confidence")),
        method="llm",
        entities=_entities(told.get("entities")),
        role="assistant" if _word(told.get("said_by")) == "assistant" else "user",
    )


#: Time stamp before the text. Time has a field of its own; in the text it hampers search.
_STAMP = re.compile(r"^[\[(]\d{4}-\d\d-\d\d[^\])]{0,40}[\])]\s*:?\s*")


def _sort(kind: str, category: str) -> tuple[str, str]:
    """Return kind and category by the model's names; a kind in the category field is accepted."""
    if category in KINDS and category not in CATEGORIES:
        kind, category = category, category_of(category)
    if category not in CATEGORIES:
        category = "detail" if category else category_of(kind)
    return (kind if kind in KINDS or kind == RETRACTION else _KIND_OF.get(category, "other")), category


def _word(value: Any) -> str:
    return value.strip().lower() if isinstance(value, str) else ""


def _confidence(value: Any) -> float:
    """Return the confidence from a word or a number from 0 to 1; medium for other values."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else -1.0
    except (ValueError, OverflowError):
        return _CONFIDENCE.get(_word(value), 0.8)
    return number if isfinite(number) and 0.0 <= number <= 1.0 else 0.8


def _entities(value: Any) -> tuple[str, ...]:
    named = (" ".join(each.split()) for each in value if isinstance(each, str)) if isinstance(value, list) else ()
    return tuple(dict.fromkeys(each for each in named if 0 < len(each) <= LONGEST_ENTITY))[:MOST_ENTITIES]
