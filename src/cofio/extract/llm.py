"""Facts by a language model: exchanges of a session in, what is worth keeping of each out. One call for all of them.

The reply is held to a schema where the provider can, and read with forgiveness everywhere. What cannot be read is told
as a problem: no facts, and no answer, are not the same.
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

from cofio import prompts, salvage
from cofio.conversation import ANALYSIS, OBSERVATION, REVIEW, ROLES, Exchange, Found, Message, Usage
from cofio.errors import TooLarge
from cofio.judgement.labels import RETRACTION
from cofio.model import CATEGORIES, KINDS, category_of
from cofio.ports import LLM, Completion
from cofio.wording import both_ends, end_of, fingerprint, telling, words

MOST_FACTS = 50  # of one exchange; more is a transcript told again
LONGEST_FACT = 1_000  # characters; what is longer is no fact
MOST_ENTITIES, LONGEST_ENTITY = 10, 100
THOROUGH = ("pre_compact", REVIEW)  # the events after which what was said is gone
_WHOLE = (*THOROUGH, ANALYSIS, OBSERVATION)  # the events where the assistant's words are read to their end

_MOSTLY, _COPIED = 0.5, 0.9  # of a fact's words, in what the user said and in what the assistant said
_LETTERS = 3  # in a token of English, at least
_ROOM = 4_096  # tokens for the reply, where the model has that many
_KNOWN = 2_000  # characters of related memories and of what the assistant was shown
_EARLIER, _EARLIER_TURN = 1_200, 400  # characters of the turns before, and of one message of them
_ASSISTANT = 2_000  # characters of one message of the assistant's, where the conversation goes on
_LEAST = 600  # characters of the conversation, however small the model
_UNBOUNDED = 1 << 30
_BELIEVED = "The answer was checked and is confirmed: what it states counts as if the user had said it."
_CONFIDENCE = {"low": 0.6, "medium": 0.8, "high": 0.95}
_KIND_OF = {"decision": "decision", "learning": "learning"}  # by category, where the model names no kind
_TEXTS = ("text", "fact", "content", "memory")  # what models call the sentence
#: The kinds that the model is offered; a correlation is a pattern to it, and an observation is seldom worth keeping.
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
class Extraction:
    """What a model found in each exchange, what that cost, and what went wrong on the way."""

    found: tuple[tuple[Found, ...], ...] = ()
    usage: Usage = Usage()
    problem: str = ""
    complete: bool = True  # the reply could be read to its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """What is known around an exchange: the messages before it in its session, and memories that it may be about."""

    earlier: tuple[Message, ...] = ()
    memories: tuple[str, ...] = ()


_NO_BACKGROUND = Background()


def facts(llm: LLM, exchanges: Sequence[Exchange], background: Background = _NO_BACKGROUND) -> Extraction:
    """Return what the model finds worth keeping of exchanges of one session, oldest first, in one call.

    TooLarge when several do not fit into one. Unavailable or Misconfigured when the model does not answer at all.
    """
    said = [exchange for exchange in exchanges if any(message.text.strip() for message in exchange.messages)]
    if not said:
        return Extraction(found=((),) * len(exchanges))
    if len(said) > 1 and not _fits(llm, said, background):
        raise TooLarge(f"{len(said)} turns are too long for one call.", "They are read in halves.")
    reply = _understood(_asked(llm, said, background), said)
    found = iter(reply.found)
    return replace(reply, found=tuple(next(found) if exchange in said else () for exchange in exchanges))


def _fits(llm: LLM, exchanges: Sequence[Exchange], background: Background) -> bool:
    whole = _user(exchanges, background, _UNBOUNDED)
    return len(whole) <= _room(llm, _system(exchanges), exchanges)


def _asked(llm: LLM, exchanges: Sequence[Exchange], background: Background) -> Completion:
    """The reply. A server that reads less than its kind mostly does says so when given more: then it gets less."""
    thought = llm.profile.context
    system = _system(exchanges)
    schema = SCHEMA if llm.profile.json_schema else None
    try:
        return llm.complete(system, _user(exchanges, background, _room(llm, system, exchanges)), schema=schema)
    except TooLarge:
        if llm.profile.context >= thought or len(exchanges) > 1:
            raise
        return llm.complete(system, _user(exchanges, background, _room(llm, system, exchanges)), schema=schema)


def _attributed(found: Found, exchange: Exchange) -> Found:
    """The fact with who said it: the assistant, where it is a copy of its words, whatever the model says.

    Else the model's word counts: it understands "yes, do that", and numbers that are spelled out.
    """
    wanted = set(telling(found.text))
    said = {
        role: wanted & set(words(" ".join(each.text for each in exchange.messages if each.role == role)))
        for role in ROLES
    }
    copied = len(said["assistant"]) >= _COPIED * len(wanted) and len(said["user"]) < _MOSTLY * len(wanted)
    return replace(found, role="assistant") if copied else found


# ── what the model is told ────────────────────────────────────────────────────────────────────────────────────────────


def _system(exchanges: Sequence[Exchange]) -> str:
    thorough = any(each.context in THOROUGH for each in exchanges)
    project = _project(exchanges[0].project or exchanges[0].source)
    name = "extract_thorough" if thorough else "extract"
    return prompts.read(name, project=project, rules=prompts.read("extract_rules"))


def _project(path: str) -> str:
    """How the project is called in a sentence: "/srv/memories" and "claude-code/memories" are the project memories."""
    name = " ".join(path.rstrip("/").rpartition("/")[2].split())[:80]
    return f'the project "{name}"' if name else "this project"


def _room(llm: LLM, system: str, exchanges: Sequence[Exchange]) -> int:
    """Characters that there are for the conversation; fewer where letters are not Latin, and each is a token."""
    tokens = llm.profile.context - len(system) // _LETTERS - min(_ROOM, llm.profile.context // 4)
    said = "".join(message.text for each in exchanges for message in each.messages)
    ascii_share = len(said.encode("ascii", "ignore")) / max(1, len(said))
    return max(_LEAST, int(tokens * (1 + (_LETTERS - 1) * ascii_share**2)))


def _user(exchanges: Sequence[Exchange], background: Background, room: int) -> str:
    shown = [text for each in exchanges for text in each.injected]
    known = _known((*background.memories, *shown), min(_KNOWN, room // 4))
    earlier = _earlier(background.earlier, min(_EARLIER, room // 8))
    left = room - len(known) - len(earlier)
    said = "\n".join(_exchange(f"t{number}", each, left) for number, each in enumerate(exchanges, 1))
    believed = f"{_BELIEVED} " if any(each.context == OBSERVATION for each in exchanges) else ""
    asks = f"{believed}Write down what lasts. Reply with the JSON object only."
    return f"{known}{earlier}<transcript>\n{said}\n</transcript>\n\n{asks}"


def _exchange(name: str, exchange: Exchange, room: int) -> str:
    """One exchange with its name and its date."""
    messages = exchange.messages
    if exchange.context not in _WHOLE:
        messages = tuple(Message(each.role, _shortened(each, _ASSISTANT)) for each in messages)
    turns = "\n".join(_turn(each) for each in _newest(messages, room))
    return f'<exchange id="{name}"{_dated(exchange.at)}>\n{turns}\n</exchange>'


def _known(texts: Sequence[str], room: int) -> str:
    distinct = {fingerprint(each): each for each in reversed(texts) if each.strip()}
    lines = "\n".join(_harmless(each) for each in reversed(distinct.values()))[:room]
    return f"<known>\n{lines}\n</known>\n\n" if lines else ""


def _earlier(messages: Sequence[Message], room: int) -> str:
    """The end of what was said before, every message cut short."""
    short = [Message(each.role, both_ends(each.text, _EARLIER_TURN)) for each in messages]
    turns = "\n".join(_turn(each) for each in _newest(short, room)) if room >= _EARLIER_TURN // 2 else ""
    return f"<earlier>\n{turns}\n</earlier>\n\n" if turns else ""


def _shortened(message: Message, most: int) -> str:
    """The text; of a long one of the assistant's both ends."""
    return both_ends(message.text, most) if message.role == "assistant" else message.text


def _dated(at: str) -> str:
    """When it was said, with the day of the week, so that relative dates can be resolved."""
    return f' on="{date.fromisoformat(at[:10]):%A, %Y-%m-%d}"' if at else ""


def _newest(messages: Sequence[Message], room: int) -> list[Message]:
    """The end of the conversation, as much as there is room for; the oldest of it may be cut, what is last in half."""
    kept: list[Message] = []
    asked = next((each for each in reversed(messages) if each.role == "user"), None)
    for message in reversed(messages):
        if room <= 0:
            break
        if message.text.strip():
            cut = both_ends if not kept or message is asked else end_of
            kept.append(Message(message.role, cut(message.text, room)))
            room -= len(message.text) + 40  # with its tags
    return kept[::-1]


def _turn(message: Message) -> str:
    by = message.role if message.role in ROLES else "other"
    return f'<turn by="{by}">\n{_harmless(message.text.strip())}\n</turn>'


_TAG = re.compile(r"<(?=\s*/?\s*(?:transcript|exchange|turn|known|earlier)\b)", re.IGNORECASE)


def _harmless(text: str) -> str:
    """The text, unable to end the place where it stands or to pose as somebody else's turn."""
    return _TAG.sub("‹", text)


# ── what it says ──────────────────────────────────────────────────────────────────────────────────────────────────────


class _Unusable(NamedTuple):
    """An entry that is no fact, and why."""

    why: str


_UNREADABLE = "the model's reply could not be read"


def _understood(reply: Completion, exchanges: Sequence[Exchange]) -> Extraction:
    nothing = Extraction(found=((),) * len(exchanges), usage=reply.usage)
    read = salvage.read(reply.text)
    if read.entries is None:
        problem = "the model's reply was cut off before the first fact" if reply.truncated else _UNREADABLE
        return replace(nothing, problem=problem, complete=False)
    found, unusable = _distinct(read.entries)
    cut = reply.truncated or not read.whole
    problem = _problem(found, unusable, cut=cut)
    by_place: list[list[Found]] = [[] for _ in exchanges]
    for each, entry in found:
        place = _place(entry, each, exchanges)
        by_place[place].append(_attributed(each, exchanges[place]))
    return replace(
        nothing, found=tuple(map(tuple, by_place)), problem=problem, complete=not cut and problem != _UNREADABLE
    )


def _distinct(entries: Iterable[Any]) -> tuple[list[tuple[Found, Any]], Counter[str]]:
    """The facts with their entries, each once and not too many; and how often an entry was unusable, by the reason."""
    found: dict[int, tuple[Found, Any]] = {}
    examples = _examples()
    unusable: Counter[str] = Counter()
    for entry in entries:
        each = _fact(entry)
        if isinstance(each, _Unusable):
            unusable[each.why] += 1
        elif each and (mark := fingerprint(each.text)) not in found and mark not in examples:
            if len(found) < MOST_FACTS:
                found[mark] = each, entry
            else:
                unusable["too many"] += 1
    return list(found.values()), unusable


def _place(entry: Any, found: Found, exchanges: Sequence[Exchange]) -> int:
    """Which exchange a fact is from: the one that the model names, else the last with the most of its words."""
    number = prompts.number(entry.get("exchange"), "t") if isinstance(entry, dict) else None
    if number is not None and 1 <= number <= len(exchanges):
        return number - 1
    wanted = set(telling(found.text))
    shared = [len(wanted & set(words(" ".join(message.text for message in each.messages)))) for each in exchanges]
    return max(range(len(exchanges)), key=lambda place: (shared[place], place))


EXAMPLE = re.compile(r'"text": "([^"]+)"')


@cache
def _examples() -> frozenset[int]:
    """The facts that the prompt itself gives as examples: small models like to hand them back."""
    return frozenset(map(fingerprint, EXAMPLE.findall(" ".join(prompts.read("extract_rules").split()))))


def _problem(found: Sequence[Any], unusable: Counter[str], *, cut: bool) -> str:
    if set(unusable) == {"unreadable"} and not found:
        return _UNREADABLE
    told = [f"the model's reply was cut off; facts kept: {len(found)}"] if cut else []
    if unusable:
        told.append("entries left out: " + ", ".join(f"{count} {why}" for why, count in sorted(unusable.items())))
    return "; ".join(told)


def _fact(entry: Any) -> Found | _Unusable | None:
    """The fact that an entry tells; None for one that says nothing."""
    told = {"text": entry, "category": "detail"} if isinstance(entry, str) else entry
    said = [told[key] for key in _TEXTS if isinstance(told.get(key), str)] if isinstance(told, dict) else []
    if not said:
        return _Unusable("unreadable")
    text = _STAMP.sub("", " ".join(said[0].split()))
    if len(text) > LONGEST_FACT:
        return _Unusable("too long")
    if not any(letter.isalnum() for letter in text):
        return None
    kind, category = _sort(_word(told.get("kind")), _word(told.get("category")))
    return Found(
        text=text,
        kind=kind,
        category=category,
        confidence=_confidence(told.get("confidence")),
        method="llm",
        entities=_entities(told.get("entities")),
        role="assistant" if _word(told.get("said_by")) == "assistant" else "user",
    )


#: When something was said, put before it all the same. Time has a field of its own; in the text it hides the rest.
_STAMP = re.compile(r"^[\[(]\d{4}-\d\d-\d\d[^\])]{0,40}[\])]\s*:?\s*")


def _sort(kind: str, category: str) -> tuple[str, str]:
    """Kind and category by what the model calls them; a kind in the place of the category is understood."""
    if category in KINDS and category not in CATEGORIES:
        kind, category = category, category_of(category)
    if category not in CATEGORIES:
        category = "detail" if category else category_of(kind)
    return (kind if kind in KINDS or kind == RETRACTION else _KIND_OF.get(category, "other")), category


def _word(value: Any) -> str:
    return value.strip().lower() if isinstance(value, str) else ""


def _confidence(value: Any) -> float:
    """From a word or a number from 0 to 1; medium for anything else."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else -1.0
    except (ValueError, OverflowError):
        return _CONFIDENCE.get(_word(value), 0.8)
    return number if isfinite(number) and 0.0 <= number <= 1.0 else 0.8


def _entities(value: Any) -> tuple[str, ...]:
    named = (" ".join(each.split()) for each in value if isinstance(each, str)) if isinstance(value, list) else ()
    return tuple(dict.fromkeys(each for each in named if 0 < len(each) <= LONGEST_ENTITY))[:MOST_ENTITIES]
