"""Recall: which memories are put before an agent that did not ask.

    prompt ─ names ─▶ (domain knowledge) ─▶ lines ─ exact ──────────────────────┐
    prompt ─ questions ─▶ (search) ─▶ candidates ─ Relevance ─▶ relevant hits ──┤
    start ─ at_start ─▶ memories of the project within a token budget ──────────┴─ brief ─▶ Briefing

At a prompt, first what is known exactly of what it names, which takes no vector; then the memories that help with it,
by the probability of the judgement model, without a model by the score of the search. At the start of a session there
is nothing to compare with, so `briefing.select_start` decides. Memories that the session has already, because they were
given to it or learned from it, are left out: the text before the agent only grows, and prompt caches hold.

A memory that speaks of something that has changed since says so. One whose subject has vanished is no fact any more: at
a prompt it comes last and says why, at the start of a session it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from math import exp
from typing import Any, NamedTuple, TypeAlias

from cofio import episodes
from cofio.briefing import (
    DUE_DAYS,
    Entry,
    Line,
    StartRule,
    block,
    digest,
    exact_digest,
    exact_id,
    is_new,
    is_trivial,
    select_start,
    tokens,
)
from cofio.episodes import EpisodeHit
from cofio.model import MAX_HITS, Briefing, Freshly, Hit, Memory, Query, Scope
from cofio.ports import Judge, Store
from cofio.wording import passage

AT_PROMPT = 5  # memories at most
CANDIDATES = 16  # memories of a prompt whose relevance is judged, about 2 ms each
FURTHER = 0.5  # of the least probability that the first memory needs: what the next ones need beside it
EXACTLY = 5  # lines at most of what is known exactly
LEAST_SURE = 0.2  # confidence of what is put in unasked: what was refuted again and again is not
SAID = 2  # passages of earlier sessions, at most
SAID_SCORE = 0.5  # least score of such a passage: it is what was said, not a fact that somebody keeps current
SAID_EARLIER = "## Said Earlier"
ANSWERS = 0.4  # score without re-ranking from which a memory answers a question
MIN_SCORE = 0.24  # of a hit, from 0 to 1, without a judgement model; `evals/recall.py` chose it
MOST = 50  # memories that may be asked for
SPARE = 3  # answers more than are wanted: they go before those whose subject has vanished
LOOKED_THROUGH = 100  # newest memories of each group that are considered at the start of a session

#: How what a memory speaks of stands now.
Fresh = Callable[[Memory], Freshly]
#: A memory, and how what it speaks of stands now.
Looked: TypeAlias = tuple[Memory, Freshly]
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


class CurrentSession(NamedTuple):
    """The session that is to be given memories; `since` is when the agent last lost sight of what was said before."""

    client: str = ""
    session: str = ""
    since: str = ""

    def has(self, memory: Memory) -> bool:
        """Return whether the memory was learned in this session from something that the agent still has before it."""
        if not self.session or memory.session != self.session or memory.created_at < self.since:
            return False
        return not self.client or self.client in memory.source.split("/")


@dataclass(frozen=True, slots=True)
class Relevance:
    """Decides which candidates help with a prompt: by the judgement model, without one by the score of the search."""

    judge: Judge | None
    chosen: float = 0.0  # the least probability or score; 0 for the usual one

    @property
    def least(self) -> float:
        """The probability, or without a model the score, from which on a memory is injected."""
        usual = self.judge.thresholds["relevant"] if self.judge else MIN_SCORE
        return self.chosen or usual

    def queries(self, questions: Sequence[str], scope: Scope, most: int, spare: int = 0) -> list[Query]:
        """Return a search for the candidates of each question; `spare` of them may be left out later."""
        if self.judge:
            k = min(MAX_HITS, max(CANDIDATES, most) + spare)
            return [Query(text=each, k=k, closely=False, scope=scope) for each in questions]
        k = min(MAX_HITS, most + SPARE + spare)
        return [Query(text=each, k=k, min_score=self.least, scope=scope) for each in questions]

    def relevant(self, questions: Sequence[str], candidates: Sequence[Hit], most: int) -> list[Hit]:
        """Return the candidates that help with any of the questions, best first; of equals the newer first.

        The score of each becomes the best of its probabilities: that it helps with a task, by the model, and that it
        answers a question, by the score of the search. A task hardly shares words with the memory that it needs; a
        question does. Where one memory helps, the prompt is about the project, and further ones need less.
        """
        if self.judge is None:
            return list(candidates)
        judged = candidates[: max(CANDIDATES, most)]
        texts = [passage(hit.text, hit.memory.speaker) for hit in judged]
        columns = [self.judge.relevance(question, texts) for question in questions]
        hits = [replace(hit, score=max(answers(hit.score), *of)) for hit, *of in zip(judged, *columns, strict=True)]
        hits.sort(key=lambda hit: (-hit.score, -hit.id))
        if not hits or hits[0].score < self.least:
            return []
        least = self.chosen or FURTHER * self.least
        return [hit for hit in hits if hit.score >= least]


def answers(score: float) -> float:
    """Return the probability that a memory found with this score answers the prompt; 0 where the score is low."""
    return 1 / (1 + exp(-(15.0 * score - 4.5))) if score >= ANSWERS else 0.0


def merge(answers: Iterable[Sequence[Hit]]) -> list[Hit]:
    """Return the hits of several questions, each memory once with the best of its scores, best first."""
    hits: dict[int, Hit] = {}
    for hit in (each for answer in answers for each in answer):
        if hit.id not in hits or hits[hit.id].score < hit.score:
            hits[hit.id] = hit
    return sorted(hits.values(), key=lambda hit: (-hit.score, -hit.id))


def distinct(hits: Iterable[Hit], most: int) -> list[Hit]:
    """Return the first hits, each text once."""
    kept: dict[str, Hit] = {}
    for hit in hits:
        kept.setdefault(digest(hit.text), hit)
    return list(kept.values())[:most]


def new(memories: Iterable[Memory], given: Mapping[int, str]) -> list[Memory]:
    """Return the memories whose texts the session was not given, each text once. An edited memory is new again."""
    known = set(given.values())
    fresh: dict[str, Memory] = {}
    for memory in memories:
        if (words := digest(memory.text)) not in known:
            fresh.setdefault(words, memory)
    return list(fresh.values())


def start_rule(tokens: int, now: str, most: int | None = None) -> StartRule:
    """Return the bounds of a block at the start of a session at this time."""
    until = date.fromisoformat(now[:10]) + timedelta(days=DUE_DAYS)
    return StartRule(tokens, now[:10], until.isoformat(), most)


def at_start(store: Store, project: str, rule: StartRule, fresh: Fresh = nobody_can_tell) -> list[Looked]:
    """Return the memories for the start of a session in the project, in order, without those that have vanished.

    Memories that were given are among them: a resumed session has them, and is not given others in their place.
    """
    memories = {
        memory.id: memory
        for group in _GROUPS
        for memory in store.newest(Scope(seen_from=project, **group), LOOKED_THROUGH)
    }

    looked: dict[int, Looked] = {}

    def finish(entry: Entry) -> Line | None:
        memory, freshly = looked[entry.line.id] = (memories[entry.line.id], fresh(memories[entry.line.id]))
        return None if freshly.state == _GONE else _line(memory, freshly)

    lines = select_start([_entry(each) for each in memories.values()], project, rule, finish)
    return [looked[line.id] for line in lines]


def _entry(memory: Memory) -> Entry:
    line = _line(memory, Freshly())
    return Entry(line, memory.category, memory.project, memory.visibility, memory.occurrences)


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


def brief(chosen: Sequence[Looked], heading: str, *, exactly: Sequence[Line] = ()) -> Briefing:
    """Return the block: what is known exactly, then these memories, in order, each with how its subject stands."""
    text, ids = block([_line(memory, freshly) for memory, freshly in chosen], heading, exactly)
    shown = {memory.id: digest(memory.text) for memory, _ in chosen}
    shown.update((line.id, exact_digest(line)) for line in exactly)
    said = tuple(line.text for line in exactly if line.id in ids)
    return Briefing(text, {each: shown[each] for each in ids}, tokens(text), said)


def brief_said(hits: Sequence[EpisodeHit], given: Mapping[int, str]) -> Briefing:
    """Return the block of passages from earlier sessions, each marked with its date and session."""
    best = {hit.episode: hit for hit in sorted(hits, key=lambda hit: hit.score)}
    lines = [
        Line(exact_id(f"episode {hit.episode}", noted=False), episodes.line(hit), hit.passage.source, hit.passage.at)
        for hit in sorted(best.values(), key=lambda hit: -hit.score)
    ]
    text, ids = block([each for each in lines if each.id not in given][:SAID], SAID_EARLIER)
    digests = {each.id: digest(each.text) for each in lines}
    return Briefing(text, {each: digests[each] for each in ids}, tokens(text))


def first(memories: Sequence[Memory], most: int, fresh: Fresh = nobody_can_tell) -> list[Looked]:
    """Return the first of these, each with how its subject stands; those whose subject has vanished come last.

    No more are looked at than are needed.
    """
    firm: list[Looked] = []
    gone: list[Looked] = []
    for memory in memories:
        if len(firm) == most:
            break
        freshly = fresh(memory)
        (gone if freshly.state == _GONE else firm).append((memory, freshly))
    return (firm + gone)[:most]


def _line(memory: Memory, told: Freshly) -> Line:
    text, note = passage(memory.text, memory.speaker), "; ".join(told.notes)
    about = (memory.source, memory.created_at, memory.kind, memory.pinned)
    return Line(memory.id, text, *about, note=note, doubtful=told.state == _GONE)


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


_GROUPS: tuple[dict[str, Any], ...] = (
    {"pinned": True},
    {"category": "decision", "kind": "preference"},
    {"category": "decision", "kind": "policy"},
    {"category": "detail", "kind": "temporal"},
    *({"category": each} for each in ("decision", "learning", "detail")),
)
_PROSE = re.compile(r"[^\W\d_]|[ .,?!:'’]")
_WORDS = re.compile(r"[^\W\d_]{2,}")
