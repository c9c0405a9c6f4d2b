"""Audit of a store: duplicates, echoes, secrets, outdated and unused memories.

    every memory, a page at a time ─▶ findings about it alone, and light notes ─▶ duplicates, echoes
    the notes in one scope ─ pairs ─▶ near duplicates, contradictions

Nothing is changed. Examples are shown without secrets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from cofio.ingest.reconcile.compare import Comparer
from cofio.maintenance import echo_detection, pair_finder, suspicions
from cofio.maintenance.pair_finder import DuplicateIndex, MemoryPair, Moved, Redact
from cofio.models.maintenance import Audit, Finding
from cofio.models.memory import CATEGORIES, Memory, Scope, days_before, to_utc_iso
from cofio.ports import MemoryQueries, Store

Stale: TypeAlias = Callable[[Sequence[Memory]], dict[int, list[str]]]
Boot: TypeAlias = Callable[[str], Iterable[tuple[str, str]]]
Progress: TypeAlias = Callable[[int, int], None]

OLD = 30  # days
LONG = 2_000  # characters
_PAGE = 1_000
_MOST_UNEMBEDDED = 5_000
_SHOWN = 240  # characters of a text
_AROUND = 60  # characters before and after a secret


class _Case(NamedTuple):
    """Case of a finding."""

    ids: tuple[int, ...]
    reason: str


@dataclass(slots=True)
class _AuditIndex:
    """Notes on all memories, kept instead of the memories themselves: ids by the keys of comparison."""

    live: int = 0
    copies: DuplicateIndex = field(default_factory=DuplicateIndex)
    heard: dict[int, list[echo_detection.EchoCandidate]] = field(default_factory=dict)
    marked: list[_Case] = field(default_factory=list)
    secrets: list[_Case] = field(default_factory=list)
    stale: list[_Case] = field(default_factory=list)
    oversized: list[_Case] = field(default_factory=list)
    suspicious: dict[str, list[_Case]] = field(default_factory=lambda: {name: [] for name in suspicions.SAYS})


def profile(
    store: Store,
    *,
    redact: Redact,
    stale: Stale,
    comparer: Comparer,
    boot: Boot | None = None,
    examples: int = 5,
    now: str = "",
    progress: Progress | None = None,
) -> Audit:
    """Return the findings, each with its count and some examples, the most severe first.

    `stale` returns the changed anchors of memories; `boot` returns the lines of a project's boot files with the file
    names. `now` defaults to the current time. `progress` is called with percentages.
    """

    def report(part: int, count: int, total: int) -> None:
        if progress:
            progress(int(100 * (part + count / max(count, total, 1)) / 3), 100)

    at = now or to_utc_iso(datetime.now(UTC))
    index = _read(store, redact, stale, at, report)
    pairs = pair_finder.compare_pairs(store, index.copies, redact, comparer, report)
    unembedded = store.unembedded(_MOST_UNEMBEDDED)
    copies, redundant = _group_copies(index)
    never_recalled, never_recalled_count = _find_never_recalled(store, at, examples)
    cases_by_name = {
        "secrets": index.secrets,
        **index.suspicious,
        "exact_duplicates": copies,
        "near_duplicates": _find_near_duplicates(pairs.same),
        "contradictions": [_describe_pair(pair) for pair in pairs.against],
        "echoes": index.marked + _find_restated(index, boot) + _find_echoes(index),
        "stale_anchors": index.stale,
        "never_recalled": never_recalled,
        "unembedded": [_Case((memory.id,), "it has no vector") for memory in unembedded if not memory.archived],
        "oversized": index.oversized,
    }
    counts = {"exact_duplicates": redundant, "never_recalled": never_recalled_count}
    says = {**SAYS, "never_recalled": _describe_never_recalled(store, at)}
    findings = [
        Finding(
            name=name,
            says=says[name],
            count=counts.get(name, len(cases)),
            examples=tuple(_build_example(case, store, redact) for case in cases[:examples]),
        )
        for name, cases in cases_by_name.items()
    ]
    notes = [pairs.note]
    if len(unembedded) == _MOST_UNEMBEDDED:
        notes.append(f"Only the first {_MOST_UNEMBEDDED:,} memories without a vector were counted.")
    return Audit(memories=index.live, findings=tuple(findings), note=" ".join(filter(None, notes)))


def _read(store: MemoryQueries, redact: Redact, stale: Stale, at: str, report: Moved) -> _AuditIndex:
    """Return the notes on all memories, newest first; archived ones are only searched for secrets."""
    index, count, after = _AuditIndex(), 0, None
    while True:
        memories, total = store.page(Scope(include_archived=True), limit=_PAGE, after=after)
        if not memories:
            return index
        after = memories[-1].id
        live = [memory for memory in memories if not memory.archived]
        index.secrets += [_Case((memory.id,), why) for memory in memories if (why := _find_secret(memory, redact))]
        for memory in live:
            place = index.copies.note(memory)
            for name, reason in suspicions.find_suspicions(memory, at):
                index.suspicious[name].append(_Case((memory.id,), reason))
            if len(memory.text) > LONG:
                index.oversized.append(_Case((memory.id,), f"{len(memory.text):,} characters"))
            if mark := echo_detection.find_mark(memory.text):
                index.marked.append(_Case((memory.id,), mark))
            elif words := echo_detection.words_of(memory.text):
                index.heard.setdefault(words, []).append(echo_detection.echo_candidate(memory, place))
        index.live += len(live)
        notes = stale([memory for memory in live if memory.anchors])
        index.stale += [_Case((memory.id,), "; ".join(notes[memory.id])) for memory in live if notes.get(memory.id)]
        count += len(memories)
        report(0, count, total)


def _find_secret(memory: Memory, redact: Redact) -> str:
    """Return the field of a memory that holds a secret, with an excerpt around it; "" if there is none."""
    texts = [("text", memory.text), ("context", memory.context), ("previous text", memory.previous_text or "")]
    if memory.metadata:
        texts.append(("metadata", json.dumps(dict(memory.metadata), ensure_ascii=False)))
    texts += [("tags", tag) for tag in memory.tags] + [("entities", entity) for entity in memory.entities]
    for name, text in texts:
        safe = redact(text)
        if safe != text:
            start = next((place for place, (one, two) in enumerate(zip(text, safe, strict=False)) if one != two), 0)
            excerpt = safe[max(0, start - _AROUND) : start + _AROUND].strip()
            archived = ", archived" if memory.archived else ""
            return f"in its {name}{archived}: {' '.join(excerpt.split())}"
    return ""


def _group_copies(index: _AuditIndex) -> tuple[list[_Case], int]:
    """Return the groups of exact copies, the largest first, and the number of redundant memories."""
    groups = sorted((ids for ids in index.copies.ids.values() if len(ids) > 1), key=lambda ids: (-len(ids), -ids[0]))
    cases = [_Case(tuple(sorted(ids)[:2]), f"{len(ids)} memories have exactly this text") for ids in groups]
    return cases, sum(len(ids) - 1 for ids in groups)


def _find_restated(index: _AuditIndex, boot: Boot | None) -> list[_Case]:
    """Return learned memories that repeat a boot file of their project, and remove them from the echo candidates."""
    if boot is None:
        return []
    files: dict[str, dict[int, str]] = {}  # by project, each line's words and its file
    cases = []
    for words, same_words in index.heard.items():
        for candidate in [candidate for candidate in same_words if candidate.learned and candidate.project]:
            if candidate.project not in files:
                lines = ((echo_detection.words_of(line), name) for line, name in boot(candidate.project))
                files[candidate.project] = {line_words: name for line_words, name in lines if line_words is not None}
            if name := files[candidate.project].get(words):
                cases.append(_Case((candidate.id,), f"{name} says so"))
                same_words.remove(candidate)
    return sorted(cases, reverse=True)


def _find_echoes(index: _AuditIndex) -> list[_Case]:
    several = (group for group in index.heard.values() if len(group) > 1)
    pairs = [pair for same_words in several for pair in echo_detection.repeated(same_words)]
    pairs.sort(key=lambda pair: -pair[0].id)
    return [_Case((echo.id, first.id), f"learned after memory {first.id}, and says the same") for echo, first in pairs]


def _find_never_recalled(store: Store, at: str, examples: int) -> tuple[list[_Case], int]:
    """Return the oldest memories that were never retrieved, and the number of all."""
    before, oldest, count = days_before(at, OLD), [], 0
    for category in CATEGORIES:
        unused = store.usage.unused(category, before, limit=1 << 31)
        count += len(unused)
        oldest += [(memory.created_at, memory.id) for memory in unused[:examples]]
    return [_Case((memory_id,), f"since {when[:10]}") for when, memory_id in sorted(oldest)], count


def _describe_never_recalled(store: Store, at: str) -> str:
    text = f"at least {OLD} days old and never returned by a search or a recall"
    since = store.usage.tracking(days_before(at, OLD)).since
    if since is None:
        return f"{text}; no search was ever recorded, so this is not conclusive"
    days = (datetime.fromisoformat(at) - datetime.fromisoformat(since)).days
    short = "; too short to be conclusive" if days < OLD else ""
    return f"{text}; recorded since {since[:10]}, {max(days, 0)} days{short}"


def _find_near_duplicates(same: Iterable[MemoryPair]) -> list[_Case]:
    """Return each memory that repeats another of its place, with the nearest of those, the nearest first."""
    best: dict[int, MemoryPair] = {}
    for pair in same:
        if pair.newer not in best or pair.cosine > best[pair.newer].cosine:
            best[pair.newer] = pair
    return [_describe_pair(pair) for pair in sorted(best.values(), key=lambda pair: (-pair.cosine, pair.newer))]


def _describe_pair(pair: MemoryPair) -> _Case:
    return _Case((pair.newer, pair.older), f"{pair.reason} (cosine {pair.cosine:.2f})".strip())


def _build_example(case: _Case, store: Store, redact: Redact) -> dict[str, Any]:
    """Return the memories of a case in the format of the report."""
    memories = store.get(case.ids)
    texts = [" ".join(redact(memory.text).split()) for memory in memories]
    return {
        "ids": [memory.id for memory in memories],
        "texts": [text if len(text) <= _SHOWN else text[:_SHOWN].rstrip() + " …" for text in texts],
        "created_at": [memory.created_at for memory in memories],
        "reason": case.reason,
    }


#: Description of each finding. That of "never_recalled" depends on how long retrievals have been recorded.
SAYS = {
    **suspicions.SAYS,
    "secrets": "a password, key or token in the text, its context or its metadata; archived memories count too",
    "exact_duplicates": "equal to another memory in the same scope, except for case and white space",
    "near_duplicates": "says the same as another memory in the same scope, in other words",
    "contradictions": "two memories in one scope that contradict each other; the newer comes first",
    "echoes": "holds injected context, or was learned from a boot file or another memory",
    "stale_anchors": "refers to a file, a definition or a command that has changed or is gone",
    "unembedded": "has no vector, so search finds it by its words but not by its meaning",
    "oversized": f"longer than {LONG:,} characters: semantic search sees only the beginning",
}
