"""Recall: selection of memories to inject into an agent's context without being asked.

    prompt ─ names ─▶ (domain knowledge) ─▶ lines ─ exact ──────────────────────┐
    prompt ─ questions ─▶ (search) ─▶ candidates ─ Relevance ─▶ relevant hits ──┤
    start ─ at_start ─▶ memories of the project within a token budget ──────────┴─ brief ─▶ Briefing

At a prompt: first domain knowledge that it names, found without vectors; then memories that help with it, by the
probability of the judgement model or, without a model, by the search score. At the start of a session there is no
query, so `briefing.select_start` decides. Memories that the session was given or that were learned from it are skipped:
the injected context only grows, so prompt caches stay valid.

A memory whose referenced code has changed is labelled. If the code has vanished, the memory comes last at a prompt,
with the reason, and is omitted at the start of a session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from math import exp
from typing import Any, NamedTuple, TypeAlias, TypeVar

from cofio.models import episodes
from cofio.models.episodes import EpisodeHit
from cofio.models.memory import MAX_HITS, Briefing, FreshnessResult, Hit, Memory, Query, Scope
from cofio.ports import Judge, MemoryQueries
from cofio.text.briefing import (
    DUE_DAYS,
    BriefingEntry,
    BriefingLine,
    StartRule,
    build_block,
    digest,
    estimate_tokens,
    exact_digest,
    exact_id,
    is_new,
    is_trivial,
    select_start,
)
from cofio.text.tokens import embedding_text

AT_PROMPT = 5  # maximum number of memories
CANDIDATES = 16  # memories per prompt that the model judges, about 2 ms each
FURTHER = 0.5  # share of the first memory's minimum probability that further memories need
EXACTLY = 5  # maximum number of domain knowledge lines
LEAST_SURE = 0.2  # minimum confidence of injected rows; excludes rows refuted repeatedly
SAID = 2  # maximum number of passages of earlier sessions
SAID_SCORE = 0.5  # minimum score of such a passage; higher because passages are not kept up to date
SAID_EARLIER = "## Said Earlier"
ANSWERS = 0.4  # minimum score without re-ranking for a memory to answer a question
MIN_SCORE = 0.24  # minimum hit score (0 to 1) without a judgement model, measured by `evals/recall.py`
MOST = 50  # maximum number of memories per request
SPARE = 3  # extra hits, used instead of memories whose subject has vanished
LOOKED_THROUGH = 100  # newest memories of each group that are considered at the start of a session

#: Function that returns the freshness of a memory.
Fresh = Callable[[Memory], FreshnessResult]
#: A memory and its freshness.
CheckedMemory: TypeAlias = tuple[Memory, FreshnessResult]
_Item = TypeVar("_Item", Hit, Memory)
_GONE = "vanished"

_WHOLE = 150  # tokens of a prompt that is embedded as a whole (20 ms)
_PART = 75  # tokens taken from each end of a longer prompt
_NEAR = 4_000  # characters read from each end


def undecided_relevance(_memory: Memory) -> FreshnessResult:
    """Return unknown freshness."""
    return FreshnessResult()


def questions(prompt: str) -> list[str]:
    """Return the search queries of a prompt: the prompt itself or, if long, the prose at its beginning and at its end.

    Each end is a separate query, because pasted text in between would dominate: with 20,000 characters of log, code or
    JSON, a question finds less than half of what it finds alone (docs/explanation/recall.md).
    """
    if is_trivial(prompt):
        return []
    text = prompt.strip().encode("utf-8", "ignore").decode().replace("\x00", "")
    if len(text) <= 8 * _WHOLE and estimate_tokens(text) <= _WHOLE:
        return [text]
    first = _cut_beginning(" ".join(_own_words(text[:_NEAR].splitlines())))
    last = _cut_end(" ".join([*_own_words(text[-_NEAR:].splitlines()[::-1])][::-1]))
    parts = [part for part in (first, last) if part and not is_trivial(part)]
    return list(dict.fromkeys(parts or (_cut_beginning(text), _cut_end(text))))


class CurrentSession(NamedTuple):
    """Session that receives memories; `since` is when the agent last lost its context."""

    client: str = ""
    session: str = ""
    since: str = ""

    def has(self, memory: Memory) -> bool:
        """Return whether the memory was learned in this session from text still in the agent's context."""
        if not self.session or memory.session != self.session or memory.created_at < self.since:
            return False
        return not self.client or self.client in memory.source.split("/")


@dataclass(frozen=True, slots=True)
class Relevance:
    """Filter of candidates for a prompt: by the judgement model or, without one, by the search score."""

    judge: Judge | None
    chosen: float = 0.0  # minimum probability or score; 0 for the default

    @property
    def least(self) -> float:
        """Return the minimum probability or, without a model, the minimum score for injecting a memory."""
        usual = self.judge.thresholds["relevant"] if self.judge else MIN_SCORE
        return self.chosen or usual

    def queries(self, questions: Sequence[str], scope: Scope, most: int, spare: int = 0) -> list[Query]:
        """Return a candidate query per question; `spare` is the number of hits that may be dropped later."""
        if self.judge:
            k = min(MAX_HITS, max(CANDIDATES, most) + spare)
            return [Query(text=question, k=k, rerank=False, scope=scope) for question in questions]
        k = min(MAX_HITS, most + SPARE + spare)
        return [Query(text=question, k=k, min_score=self.least, scope=scope) for question in questions]

    def relevant(self, questions: Sequence[str], candidates: Sequence[Hit], most: int) -> list[Hit]:
        """Return the candidates that help with any of the questions, best first; of equals the newer first.

        The score of each becomes the highest of its probabilities: that it helps with a task, by the model, and that it
        answers a question, by the search score. A task shares few words with the memories it needs; a question shares
        many. If one memory helps, the prompt is about the project, so further memories need less.
        """
        if self.judge is None:
            return list(candidates)
        judged = candidates[: max(CANDIDATES, most)]
        texts = [embedding_text(hit.text, hit.memory.speaker) for hit in judged]
        columns = [self.judge.relevance(question, texts) for question in questions]
        hits = [
            replace(hit, score=max(answer_probability(hit.score), *of))
            for hit, *of in zip(judged, *columns, strict=True)
        ]
        hits.sort(key=lambda hit: (-hit.score, -hit.id))
        if not hits or hits[0].score < self.least:
            return []
        least = self.chosen or FURTHER * self.least
        return [hit for hit in hits if hit.score >= least]


def answer_probability(score: float) -> float:
    """Return the probability that a memory with this search score answers the prompt; 0 for low scores."""
    return 1 / (1 + exp(-(15.0 * score - 4.5))) if score >= ANSWERS else 0.0


def is_recallable(memory: Memory) -> bool:
    """Return whether a memory may be injected without being asked for; pasted text is only found by a search."""
    return memory.provenance != "pasted"


def merge(answers: Iterable[Sequence[Hit]]) -> list[Hit]:
    """Merge the hits of several questions, each memory once with its best score, best first."""
    hits: dict[int, Hit] = {}
    for hit in (hit for answer in answers for hit in answer):
        if hit.id not in hits or hits[hit.id].score < hit.score:
            hits[hit.id] = hit
    return sorted(hits.values(), key=lambda hit: (-hit.score, -hit.id))


def distinct(items: Iterable[_Item], excluded: Iterable[str] = ()) -> list[_Item]:
    """Return the first item of each text, without those whose text has an excluded digest."""
    excluded_digests = set(excluded)
    by_digest: dict[str, _Item] = {}
    for item in items:
        if (text_digest := digest(item.text)) not in excluded_digests:
            by_digest.setdefault(text_digest, item)
    return list(by_digest.values())


def start_rule(tokens: int, now: str, most: int | None = None) -> StartRule:
    """Return the limits of a block at the start of a session at this time."""
    until = date.fromisoformat(now[:10]) + timedelta(days=DUE_DAYS)
    return StartRule(tokens, now[:10], until.isoformat(), most)


def at_start(
    store: MemoryQueries, project: str, rule: StartRule, fresh: Fresh = undecided_relevance, reader: str = ""
) -> list[CheckedMemory]:
    """Return the memories for the start of a session in order, without those whose subject has vanished.

    Memories already given are included: a resumed session has them and must not receive others instead.
    """
    memories = {
        memory.id: memory
        for group in _GROUPS
        for memory in store.newest(Scope(visible_in=project, **group), LOOKED_THROUGH)
        if is_recallable(memory)
    }
    checked: dict[int, CheckedMemory] = {}

    def finish(entry: BriefingEntry) -> BriefingLine | None:
        memory, freshness = checked[entry.line.id] = (memories[entry.line.id], fresh(memories[entry.line.id]))
        return None if freshness.state == _GONE else build_line(memory, freshness, reader)

    entries = []
    for memory in memories.values():
        line = build_line(memory, FreshnessResult(), reader)
        entries.append(BriefingEntry(line, memory.category, memory.project, memory.visibility, memory.occurrences))
    return [checked[line.id] for line in select_start(entries, project, rule, finish)]


def new_exact_lines(
    lines: Sequence[tuple[BriefingLine, int | None]], injected: Mapping[int, str]
) -> tuple[list[BriefingLine], set[int]]:
    """Select domain knowledge lines that are new to the session, and the memories that these or earlier lines cover.

    Each line comes with the memory that states it in words. If that memory was given, the line is new only for its
    note.
    """
    selected: list[BriefingLine] = []
    covered: set[int] = set()
    for line, memory in lines:
        new = is_new(line, injected) and (bool(line.note) or memory not in injected)
        if new and len(selected) == EXACTLY:
            continue
        if new:
            selected.append(line)
        if memory is not None:
            covered.add(memory)
    return selected, covered


def build_briefing(
    memories: Sequence[CheckedMemory], heading: str, *, exactly: Sequence[BriefingLine] = (), reader: str = ""
) -> Briefing:
    """Render the block for a user: domain knowledge, then these memories in order, with their freshness."""
    lines = [build_line(memory, freshness, reader) for memory, freshness in memories]
    text, ids = build_block(lines, heading, exactly)
    digests = {memory.id: digest(memory.text) for memory, _ in memories}
    digests.update((line.id, exact_digest(line)) for line in exactly)
    exact_texts = tuple(line.text for line in exactly if line.id in ids)
    return Briefing(text, {line_id: digests[line_id] for line_id in ids}, estimate_tokens(text), exact_texts)


def build_episode_briefing(hits: Sequence[EpisodeHit], injected: Mapping[int, str]) -> Briefing:
    """Render passages of earlier sessions, each with date and session."""
    best = {hit.episode: hit for hit in sorted(hits, key=lambda hit: hit.score)}
    lines = []
    for hit in sorted(best.values(), key=lambda hit: -hit.score):
        line_id = exact_id(f"episode {hit.episode}", noted=False)
        lines.append(BriefingLine(line_id, episodes.line(hit), hit.passage.source, hit.passage.at))
    text, ids = build_block([line for line in lines if line.id not in injected][:SAID], SAID_EARLIER)
    digests = {line.id: digest(line.text) for line in lines}
    return Briefing(text, {line_id: digests[line_id] for line_id in ids}, estimate_tokens(text))


def take_first(memories: Sequence[Memory], most: int, fresh: Fresh = undecided_relevance) -> list[CheckedMemory]:
    """Return the first memories with their freshness; those whose subject has vanished come last.

    Checks only as many as needed.
    """
    firm: list[CheckedMemory] = []
    stale: list[CheckedMemory] = []
    for memory in memories:
        if len(firm) == most:
            break
        freshness = fresh(memory)
        (stale if freshness.state == _GONE else firm).append((memory, freshness))
    return (firm + stale)[:most]


def build_line(memory: Memory, freshness: FreshnessResult, reader: str) -> BriefingLine:
    """Return the line of a memory, for the user who reads it."""
    text, note = embedding_text(memory.text, memory.speaker), "; ".join(freshness.notes)
    about = (memory.source, memory.created_at, memory.kind, memory.pinned)
    said = memory.provenance_label(reader)
    return BriefingLine(memory.id, text, *about, note=note, doubtful=freshness.state == _GONE, said=said)


# ── long prompts ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _own_words(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines from the first one of prose, which is almost only letters and punctuation, up to other text."""
    begun = False
    for line in map(str.strip, lines):
        plain = len(_PROSE.findall(line))
        worded = len(_WORDS.findall(line)) >= 2 or (plain >= 4 and not line.isascii())
        if worded and plain >= 0.9 * len(line) and not line.startswith("Traceback ("):
            begun = True
            yield line
        elif line or begun:
            return


def _cut_beginning(text: str) -> str:
    """Return the beginning, at the length of a query, up to a word end."""
    part = text[: _count_fitting(text[: 8 * _PART])]
    return part if len(part) == len(text) else part[: part.rfind(" ")] if " " in part else part


def _cut_end(text: str) -> str:
    """Return the end, at the length of a query, from a word start."""
    part = text[-_count_fitting(text[-8 * _PART :]) :]
    return part if len(part) == len(text) else part[part.find(" ") + 1 :]


def _count_fitting(text: str) -> int:
    """Return the number of characters of such text that fit into a query."""
    return max(1, int(len(text) * min(1.0, _PART / max(1, estimate_tokens(text)))))


_GROUPS: tuple[dict[str, Any], ...] = (
    {"pinned": True},
    {"category": "decision", "kind": "preference"},
    {"category": "decision", "kind": "policy"},
    {"category": "detail", "kind": "temporal"},
    *({"category": category} for category in ("decision", "learning", "detail")),
)
_PROSE = re.compile(r"[^\W\d_]|[ .,?!:'’]")
_WORDS = re.compile(r"[^\W\d_]{2,}")
