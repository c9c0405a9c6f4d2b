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
from typing import Any

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
OTHERS_TEXT = "Text of somebody else"  # mark of the beginning of a pasted text
_WHOLE = (*THOROUGH, ANALYSIS, OBSERVATION)  # contexts in which the assistant's messages are read completely

_MOSTLY, _COPIED = 0.5, 0.9  # share of a fact's words in the user's and in the assistant's messages
_LETTERS = 3  # minimum characters per token of English
_ROOM = 4_096  # tokens reserved for the reply, if the model has that many
_KNOWN = 2_000  # characters of related memories and injected context
_EARLIER, _EARLIER_TURN = 1_200, 400  # characters of the earlier turns, and of one message in them
_ASSISTANT = 2_000  # characters of one assistant message in an ongoing conversation
_LEAST = 600  # characters of the conversation, however small the model's context is
_UNBOUNDED = 1 << 30
_OBSERVED = "The answer was checked: write down what it states too, with said_by assistant."
_OTHERS = (
    f'"[{OTHERS_TEXT}: ...]" is the beginning of a page, mail, log or quotation that the user pasted: extract'
    f" nothing from "
    "it, only what the user says about it."
)
_CONFIDENCE = {"low": 0.6, "medium": 0.8, "high": 0.95}
_KIND_OF = {"decision": "decision", "learning": "learning"}  # by category, if the model names no kind
_UNREADABLE = "the model's reply could not be read"
EXAMPLE = re.compile(r'"text": "([^"]+)"')
_TAG = re.compile(r"<(?=\s*/?\s*(?:transcript|exchange|turn|known|earlier)\b)", re.IGNORECASE)
#: Time stamp before the text. Time has a field of its own; in the text it hampers search.
_STAMP = re.compile(r"^[\[(]\d{4}-\d\d-\d\d[^\])]{0,40}[\])]\s*:?\s*")
_TEXTS = ("text", "fact", "content", "memory")  # names that models use for the sentence
#: Kinds offered to the model. Correlations are patterns to it, and observations are rarely worth keeping.
_OFFERED = (*(kind for kind in KINDS if kind not in ("correlation", "observation")), RETRACTION)

SCHEMA = prompts.list_schema(
    "facts",
    exchange={"type": "string"},
    text={"type": "string"},
    category={"type": "string", "enum": list(CATEGORIES)},
    kind={"type": "string", "enum": list(_OFFERED)},
    confidence={"type": "string", "enum": list(_CONFIDENCE)},
    said_by={"type": "string", "enum": list(ROLES)},
    entities={"type": "array", "items": {"type": "string"}},
)


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
    spoken = [exchange for exchange in exchanges if any(message.text.strip() for message in exchange.messages)]
    if not spoken:
        return LLMExtraction(found=((),) * len(exchanges))
    system = _build_system(spoken)
    if len(spoken) > 1 and len(_build_prompt(spoken, background, _UNBOUNDED)) > _compute_room(llm, system, spoken):
        raise TooLarge(
            f"{len(spoken)} turns are too long for one call of the language model.", "They are processed in two calls."
        )
    reply = _parse_reply(_call_model(llm, system, spoken, background), spoken)
    by_exchange = iter(reply.found)
    return replace(reply, found=tuple(next(by_exchange) if exchange in spoken else () for exchange in exchanges))


def _call_model(llm: LLM, system: str, exchanges: Sequence[Exchange], background: Background) -> Completion:
    assumed = llm.profile.context
    schema = SCHEMA if llm.profile.json_schema else None

    def complete() -> Completion:
        prompt = _build_prompt(exchanges, background, _compute_room(llm, system, exchanges))
        return llm.complete(system, prompt, schema=schema)

    try:
        return complete()
    except TooLarge:  # if the server has a smaller context than assumed, retry once with less text
        if llm.profile.context >= assumed or len(exchanges) > 1:
            raise
        return complete()


# ── the prompt ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _build_system(exchanges: Sequence[Exchange]) -> str:
    path = exchanges[0].project or exchanges[0].source
    name = " ".join(path.rstrip("/").rpartition("/")[2].split())[:80]
    project = f'the project "{name}"' if name else "this project"
    thorough = any(exchange.context in THOROUGH for exchange in exchanges)
    prompt = "extract_thorough" if thorough else "extract"
    return prompts.read(prompt, project=project, rules=prompts.read("extract_rules"))


def _compute_room(llm: LLM, system: str, exchanges: Sequence[Exchange]) -> int:
    """Return the characters available for the conversation; fewer for non-Latin text, with up to a token per letter."""
    tokens = llm.profile.context - len(system) // _LETTERS - min(_ROOM, llm.profile.context // 4)
    text = "".join(message.text for exchange in exchanges for message in exchange.messages)
    ascii_share = len(text.encode("ascii", "ignore")) / max(1, len(text))
    return max(_LEAST, int(tokens * (1 + (_LETTERS - 1) * ascii_share**2)))


def _build_prompt(exchanges: Sequence[Exchange], background: Background, room: int) -> str:
    injected = [text for exchange in exchanges for text in exchange.injected]
    # Of equal texts the last is kept.
    distinct = {fingerprint(text): text for text in reversed((*background.memories, *injected)) if text.strip()}
    known = "\n".join(_escape_tags(text) for text in reversed(distinct.values()))[: min(_KNOWN, room // 4)]
    known_block = f"<known>\n{known}\n</known>\n\n" if known else ""

    short = [Message(role, truncate_middle(text, _EARLIER_TURN)) for role, text in background.earlier]
    room_earlier = min(_EARLIER, room // 8)
    turns = _format_turns(short, room_earlier) if room_earlier >= _EARLIER_TURN // 2 else ""
    earlier = f"<earlier>\n{turns}\n</earlier>\n\n" if turns else ""

    room_left = room - len(known_block) - len(earlier)
    transcript = "\n".join(
        _format_exchange(f"t{number}", exchange, room_left) for number, exchange in enumerate(exchanges, 1)
    )
    observed = f"{_OBSERVED} " if any(exchange.context == OBSERVATION for exchange in exchanges) else ""
    others = f"{_OTHERS} " if f"[{OTHERS_TEXT}: " in transcript else ""
    asks = f"{observed}{others}Write down what lasts. Reply with the JSON object only."
    return f"{known_block}{earlier}<transcript>\n{transcript}\n</transcript>\n\n{asks}"


def _format_exchange(name: str, exchange: Exchange, room: int) -> str:
    messages = exchange.messages
    if exchange.context not in _WHOLE:
        messages = tuple(
            Message(role, truncate_middle(text, _ASSISTANT) if role == "assistant" else text) for role, text in messages
        )
    # With the weekday, so that relative dates can be resolved.
    date_attribute = f' on="{date.fromisoformat(exchange.at[:10]):%A, %Y-%m-%d}"' if exchange.at else ""
    return f'<exchange id="{name}"{date_attribute}>\n{_format_turns(messages, room)}\n</exchange>'


def _format_turns(messages: Sequence[Message], room: int) -> str:
    """Return the end of the conversation that fits; the oldest message and the user's last one may be shortened."""
    turns: list[str] = []
    last_question = next((message for message in reversed(messages) if message.role == "user"), None)
    for message in reversed(messages):
        if room <= 0:
            break
        if message.text.strip():
            cut = truncate_middle if not turns or message is last_question else tail_of
            by = message.role if message.role in ROLES else "other"
            turns.append(f'<turn by="{by}">\n{_escape_tags(cut(message.text, room).strip())}\n</turn>')
            room -= len(message.text) + 40  # including its tags
    return "\n".join(reversed(turns))


def _escape_tags(text: str) -> str:
    """Return the text without tags that could close its block or imitate another turn."""
    return _TAG.sub("‹", text)


# ── the reply ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _parse_reply(reply: Completion, exchanges: Sequence[Exchange]) -> LLMExtraction:
    nothing = LLMExtraction(found=((),) * len(exchanges), usage=reply.usage)
    parsed = json_repair.parse_reply(reply.text)
    if parsed.entries is None:
        problem = "the model's reply was cut off before the first fact" if reply.truncated else _UNREADABLE
        return replace(nothing, problem=problem, complete=False)
    distinct, unusable = _collect_distinct(parsed.entries)
    cut = reply.truncated or not parsed.whole
    problems = [f"the model's reply was cut off; facts kept: {len(distinct)}"] if cut else []
    if unusable:
        problems.append("entries left out: " + ", ".join(f"{count} {why}" for why, count in sorted(unusable.items())))
    if not distinct and set(unusable) == {"unreadable"}:
        problems, cut = [_UNREADABLE], True
    by_place: list[list[ExtractedFact]] = [[] for _ in exchanges]
    for fact, entry in distinct:
        place = _find_exchange(entry, fact, exchanges)
        copied = fact.role == "user" and _copies_assistant(fact, exchanges[place])
        by_place[place].append(replace(fact, role="assistant") if copied else fact)
    return replace(nothing, found=tuple(map(tuple, by_place)), problem="; ".join(problems), complete=not cut)


def _collect_distinct(entries: Iterable[Any]) -> tuple[list[tuple[ExtractedFact, Any]], Counter[str]]:
    """Return the distinct facts with their entries, up to the limit, and the number of unusable entries by reason."""
    by_mark: dict[int, tuple[ExtractedFact, Any]] = {}
    examples = _read_examples()
    unusable: Counter[str] = Counter()
    for entry in entries:
        fact = _parse_fact(entry)
        if isinstance(fact, str):
            unusable[fact] += 1
        elif fact and (mark := fingerprint(fact.text)) not in by_mark and mark not in examples:
            if len(by_mark) < MOST_FACTS:
                by_mark[mark] = fact, entry
            else:
                unusable["too many"] += 1
    return list(by_mark.values()), unusable


def _find_exchange(entry: Any, fact: ExtractedFact, exchanges: Sequence[Exchange]) -> int:
    """Return the index of a fact's exchange: as named by the model, else the last one with the most of its words."""
    number = prompts.number(entry.get("exchange"), "t") if isinstance(entry, dict) else None
    if number is not None and 1 <= number <= len(exchanges):
        return number - 1
    terms = set(search_terms(fact.text))
    shared = [
        len(terms & set(words(" ".join(message.text for message in exchange.messages)))) for exchange in exchanges
    ]
    return max(range(len(exchanges)), key=lambda place: (shared[place], place))


def _copies_assistant(fact: ExtractedFact, exchange: Exchange) -> bool:
    """Return whether a fact has the assistant's words and few of the user's, who may only have said "yes, do that".

    In an observed dialogue every fact with few of the user's words is the assistant's.
    """
    terms = set(search_terms(fact.text))
    by_assistant, by_user = (
        len(terms & set(words(" ".join(message.text for message in exchange.messages if message.role == role))))
        for role in ("assistant", "user")
    )
    copied = 0.0 if exchange.context == OBSERVATION else _COPIED
    return by_assistant >= copied * len(terms) and by_user < _MOSTLY * len(terms)


@cache
def _read_examples() -> frozenset[int]:
    """Return the example facts of the prompt itself, which small models tend to repeat."""
    return frozenset(map(fingerprint, EXAMPLE.findall(" ".join(prompts.read("extract_rules").split()))))


def _parse_fact(entry: Any) -> ExtractedFact | str | None:
    """Return the fact in an entry; None if its text is empty, or the reason why the entry cannot be used."""
    fields = {"text": entry, "category": "detail"} if isinstance(entry, str) else entry
    texts = [fields[key] for key in _TEXTS if isinstance(fields.get(key), str)] if isinstance(fields, dict) else []
    if not texts:
        return "unreadable"
    text = _STAMP.sub("", " ".join(texts[0].split()))
    if len(text) > LONGEST_FACT:
        return "too long"
    if not any(letter.isalnum() for letter in text):
        return None
    kind, category = _normalize(fields.get("kind")), _normalize(fields.get("category"))
    if category in KINDS and category not in CATEGORIES:  # a kind in the category field is accepted
        kind, category = category, category_of(category)
    if category not in CATEGORIES:
        category = "detail" if category else category_of(kind)
    entities = fields.get("entities")
    names = [" ".join(name.split()) for name in entities if isinstance(name, str)] if isinstance(entities, list) else []
    return ExtractedFact(
        text=text,
        kind=kind if kind in KINDS or kind == RETRACTION else _KIND_OF.get(category, "other"),
        category=category,
        confidence=_parse_confidence(fields.get("confidence")),
        method="llm",
        entities=tuple(dict.fromkeys(name for name in names if 0 < len(name) <= LONGEST_ENTITY))[:MOST_ENTITIES],
        role="assistant" if _normalize(fields.get("said_by")) == "assistant" else "user",
    )


def _normalize(value: Any) -> str:
    return value.strip().lower() if isinstance(value, str) else ""


def _parse_confidence(value: Any) -> float:
    """Return the confidence from a word or a number from 0 to 1; medium for other values."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else -1.0
    except (ValueError, OverflowError):
        return _CONFIDENCE.get(_normalize(value), 0.8)
    return number if isfinite(number) and 0.0 <= number <= 1.0 else 0.8
