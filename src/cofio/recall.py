"""Recall: which memories are put before an agent that did not ask.

    prompt ─ names ─▶ (domain knowledge) ─▶ lines ─ exact ─┐
    prompt ─ questions ─▶ (search) ─▶ hits ─ best ─────────┤
    start ─ standing memories of the project ──────────────┴─ brief ─▶ Briefing

At a prompt, first what is known exactly of what it names, which takes no vector; then what answers it well enough; of a
long prompt, what the person says in it. At the start of a session there is nothing to compare with (any text has a
cosine of 0.4 and more with any other), so the order in which memories stand decides. What a session was given already
is left out: the text before the agent only grows, and prompt caches hold.

A memory that speaks of something that has changed since says so. One whose subject has vanished is no fact any more: at
a prompt it comes last and says why, at the start of a session it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from cofio.briefing import START, Line, block, digest, exact_digest, is_new, is_trivial, standing, tokens
from cofio.model import MAX_HITS, Briefing, Freshly, Hit, Memory, Query, Scope
from cofio.ports import Store
from cofio.wording import passage

AT_START = 8  # memories at most
AT_PROMPT = 5
EXACTLY = 5  # lines at most of what is known exactly
LEAST_SURE = 0.2  # confidence of what is put in unasked: what was refuted again and again is not
MIN_SCORE = 0.24  # of a hit, from 0 to 1; `evals/recall.py` chose it
MOST = 50  # memories that may be asked for
SPARE = 3  # answers more than are wanted: they go before those whose subject has vanished
LOOKED_THROUGH = 500  # of each group, the newest, at the start of a session

#: How what a memory speaks of stands now.
Fresh = Callable[[Memory], Freshly]
_GONE = "vanished"

_WHOLE = 150  # tokens of a prompt that is taken as it is: 20 ms of embedding
_PART = 75  # tokens of either end of a longer one
_NEAR = 4_000  # characters from either end that are looked at


def nobody_can_tell(_memory: Memory) -> Freshly:
    """The answer where nobody looks."""
    return Freshly()


def questions(prompt: str) -> list[str]:
    """What to look for: the prompt; of a long one what the person says at its beginning and at its end; else nothing.

    Each end is a question of its own. Whatever is pasted between them would outweigh them: with 20,000 characters of
    log, code or JSON behind it, a question finds less than half of what it finds alone (docs/explanation/recall.md).
    """
    if is_trivial(prompt):
        return []
    said = prompt.strip().encode("utf-8", "ignore").decode().replace("\x00", "")
    if len(said) <= 8 * _WHOLE and tokens(said) <= _WHOLE:
        return [said]
    first = _beginning(" ".join(_own_words(said[:_NEAR].splitlines())))
    last = _end(" ".join([*_own_words(said[-_NEAR:].splitlines()[::-1])][::-1]))
    parts = [part for part in (first, last) if part and not is_trivial(part)]
    return list(dict.fromkeys(parts or (_beginning(said), _end(said))))


def queries(prompt: str, project: str, among: int, least: float) -> list[Query]:
    """A search for each question in the prompt, over what matters in the project.

    `among` how many hits the new ones are: as many as are wanted, and one more for each that was given.
    """
    scope, k = Scope(seen_from=project), min(MAX_HITS, among)
    return [Query(text=each, k=k, min_score=least, scope=scope) for each in questions(prompt)]


def best(found: Iterable[Sequence[Hit]]) -> list[Memory]:
    """The memories of all the hits, each once, by the best of its scores; of equals the newer first."""
    return [hit.memory for hit in _ranked(found)]


def answers(found: Iterable[Sequence[Hit]], most: int, told: Container[int] = ()) -> list[Hit]:
    """The best of all the hits, the same words once, without the memories that are told otherwise."""
    hits: dict[str, Hit] = {}
    for hit in _ranked(found):
        if hit.id not in told:
            hits.setdefault(digest(hit.text), hit)
    return list(hits.values())[:most]


def _ranked(found: Iterable[Sequence[Hit]]) -> list[Hit]:
    hits: dict[int, Hit] = {}
    for hit in (each for answer in found for each in answer):
        if hit.id not in hits or hits[hit.id].score < hit.score:
            hits[hit.id] = hit
    return sorted(hits.values(), key=lambda hit: (-hit.score, -hit.id))


def at_start(store: Store, project: str, most: int, fresh: Fresh = nobody_can_tell) -> list[Memory]:
    """The first of what stands in the project, in order, the same words once, without what has vanished.

    What was given is among them: a session that is resumed has it, and is not given what stands further down instead.
    One group after the other, until there are enough: the newest of each are looked through, and no more are read.
    """
    found: dict[str, Memory] = {}
    for group in _GROUPS:
        memories = store.newest(Scope(seen_from=project, **group), LOOKED_THROUGH)
        here = [memory for memory in memories if not memory.pinned or group is _PINNED]
        for memory in sorted(here, key=lambda memory: _place(memory, project)):
            if len(found) == most:
                break
            words = digest(memory.text)
            if words not in found and fresh(memory).state != _GONE:
                found[words] = memory
        if len(found) == most:
            break
    return list(found.values())


def exact(lines: Sequence[tuple[Line, int | None]], given: Mapping[int, str]) -> tuple[list[Line], set[int]]:
    """The first of the lines of what is known exactly that say something new to the session, and the memories that say
    no more than what it was given, now or before.

    Each line comes with the memory that says it in words. One that was given makes the line no news, but for its note.
    """
    chosen: list[Line] = []
    told: set[int] = set()
    for line, memory in lines:
        new = is_new(line, given) and (bool(line.note) or memory not in given)
        if new and len(chosen) == EXACTLY:
            continue
        if new:
            chosen.append(line)
        if memory is not None:
            told.add(memory)
    return chosen, told


def brief(
    memories: Sequence[Memory],
    heading: str,
    given: Mapping[int, str],
    most: int,
    fresh: Fresh = nobody_can_tell,
    *,
    exactly: Sequence[Line] = (),
) -> Briefing:
    """What is put before the agent: what is known exactly, then the first of the memories that say something new to the
    session, in order.

    Those whose subject has vanished come after all others; at the start of a session they are left out.
    """
    chosen = _looked_at(_new(memories, given), most, fresh, doubtful=heading != START)
    text, ids = block([_line(memory, told) for memory, told in chosen], heading, exactly)
    shown = {memory.id: digest(memory.text) for memory, _ in chosen}
    shown.update((line.id, exact_digest(line)) for line in exactly)
    said = tuple(line.text for line in exactly if line.id in ids)
    return Briefing(text, {each: shown[each] for each in ids}, tokens(text), said)


def _looked_at(memories: Sequence[Memory], most: int, fresh: Fresh, *, doubtful: bool) -> list[tuple[Memory, Freshly]]:
    """The first of these, each with how what it speaks of stands; no more are looked at than are needed."""
    firm: list[tuple[Memory, Freshly]] = []
    gone: list[tuple[Memory, Freshly]] = []
    for memory in memories:
        if len(firm) == most:
            break
        told = fresh(memory)
        (gone if told.state == _GONE else firm).append((memory, told))
    return (firm + gone)[:most] if doubtful else firm


def _new(memories: Iterable[Memory], given: Mapping[int, str] = MappingProxyType({})) -> list[Memory]:
    """Those whose words the session was not given yet, the same words once. One that was edited since is new again."""
    known = set(given.values())
    fresh: dict[str, Memory] = {}
    for memory in memories:
        if (words := digest(memory.text)) not in known:
            fresh.setdefault(words, memory)
    return list(fresh.values())


def _line(memory: Memory, told: Freshly) -> Line:
    text, note = passage(memory.text, memory.speaker), "; ".join(told.notes)
    about = (memory.source, memory.created_at, memory.kind, memory.pinned)
    return Line(memory.id, text, *about, note=note, doubtful=told.state == _GONE)


def _place(memory: Memory, project: str) -> tuple[bool, int, bool, float]:
    return standing(
        pinned=memory.pinned,
        category=memory.category,
        own=memory.project == project,
        occurrences=memory.occurrences,
        retrieved=memory.retrieval_count,
        at=memory.created_at,
    )


# ── long prompts ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _own_words(lines: Sequence[str]) -> Iterator[str]:
    """The lines from the first on that a person wrote, up to what is pasted or set apart."""
    begun = False
    for line in map(str.strip, lines):
        if _is_own(line):
            begun = True
            yield line
        elif line or begun:
            return


def _is_own(line: str) -> bool:
    """Whether it is prose: letters and what stands between words, nearly all of it."""
    plain = len(_PROSE.findall(line))
    worded = len(_WORDS.findall(line)) >= 2 or (plain >= 4 and not line.isascii())
    return worded and plain >= 0.9 * len(line) and not line.startswith("Traceback (")


def _beginning(text: str) -> str:
    """As much of the text as makes a question of the usual length, up to the end of a word."""
    kept = text[: _fitting(text[: 8 * _PART])]
    return kept if len(kept) == len(text) else kept[: kept.rfind(" ")] if " " in kept else kept


def _end(text: str) -> str:
    """The same from its end, from the start of a word."""
    kept = text[-_fitting(text[-8 * _PART :]) :]
    return kept if len(kept) == len(text) else kept[kept.find(" ") + 1 :]


def _fitting(text: str) -> int:
    """How many characters of such text make a question of the usual length."""
    return max(1, int(len(text) * min(1.0, _PART / max(1, tokens(text)))))


_PINNED: dict[str, Any] = {"pinned": True}
_GROUPS: tuple[dict[str, Any], ...] = (_PINNED, *({"category": each} for each in ("decision", "learning", "detail")))
_PROSE = re.compile(r"[^\W\d_]|[ .,?!:'’]")
_WORDS = re.compile(r"[^\W\d_]{2,}")
