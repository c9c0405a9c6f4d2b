"""Context block for agents that monitor something: memories, patterns and thresholds.

    query ─ search ─▶ hits ┐
    claims of the domain ──┴─▶ <relevant-context> … </relevant-context>

A pure function of its sources, which the keeper provides. Texts are neutralized as in every injected block, and the
block is removed from captured text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cofio.knowledge.mentions import MentionedClaim
from cofio.knowledge.recurrence import active
from cofio.models.knowledge import (
    ActivePattern,
    Claim,
    Correlation,
    CorrelationStep,
    FiringThreshold,
    Knowledge,
    Pattern,
    Seasonal,
    Table,
    Threshold,
    fold,
    plain_number,
)
from cofio.models.memory import Hit, Viewer, check_int
from cofio.ports import Clock, KnowledgeTables
from cofio.text.briefing import BriefingLine, RemainingSpace, exact_id, list_item
from cofio.text.tokens import embedding_text

TAG = "relevant-context"
NOTHING = "No prior context found."
MEMORIES, PATTERNS, THRESHOLDS = "## Relevant Memories", "## Known Patterns", "## Active Thresholds"
RELATED, SEASONS = "## Related", "## Active Seasons"
MOST = 50  # maximum lines of a section
_SEASONS_LOOKED_AT = 20  # seasons without a source to evaluate, by confidence; evaluation can be slow


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoRecallConfig:
    """Maximum number of lines per section."""

    max_memory_results: int = 3
    max_patterns: int = 5
    max_thresholds: int = 5
    max_related: int = 5
    max_seasons: int = 5

    def __post_init__(self) -> None:
        for name in self.__slots__:
            check_int(getattr(self, name), name, least=0, most=MOST)


class Scored(Protocol):
    """Search result: a text and its score. `Hit` is one."""

    @property
    def text(self) -> str: ...

    @property
    def score(self) -> float: ...


def _none() -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSources:
    """Sources of the block. Each returns its rows best first; rows beyond the limits are not shown."""

    search: Callable[[str], Sequence[Scored]]
    get_patterns: Callable[[], Sequence[Pattern]]
    get_thresholds: Callable[[], Sequence[Threshold | FiringThreshold]]  # a Firing includes the value
    get_related: Callable[[], Sequence[CorrelationStep]] = _none
    get_seasons: Callable[[], Sequence[ActivePattern]] = _none


_USUAL = AutoRecallConfig()


def build_recall_context(query: str, sources: RecallSources, config: AutoRecallConfig = _USUAL) -> str:
    """Build the context block for a query, in sections inside a tag. It says so if there is nothing to show.

    The result is deterministic. No line can end the block or open a tag; long texts are shortened. What does not fit is
    dropped, memories before domain knowledge.
    """
    memories = sources.search(query)[: config.max_memory_results]
    patterns = sources.get_patterns()[: config.max_patterns]
    thresholds = sources.get_thresholds()[: config.max_thresholds]
    related = sources.get_related()[: config.max_related]
    seasons = sources.get_seasons()[: config.max_seasons]
    room = RemainingSpace(f"<{TAG}>\n", f"</{TAG}>")
    filled = {
        heading: _section(heading, lines, room)
        for heading, lines in (
            (THRESHOLDS, (threshold_item(threshold) for threshold in thresholds)),
            (PATTERNS, (list_item(pattern.pattern, score=pattern.confidence) for pattern in patterns)),
            (SEASONS, (list_item(season_text(season), score=season.seasonal.confidence) for season in seasons)),
            (RELATED, (list_item(related_text(each.correlation), score=each.confidence) for each in related)),
            (MEMORIES, (memory_item(memory) for memory in memories)),
        )
    }
    sections = [filled[each] for each in (MEMORIES, PATTERNS, THRESHOLDS, RELATED, SEASONS) if filled[each]]
    return f"<{TAG}>\n{chr(10).join(sections) or NOTHING + chr(10)}</{TAG}>"


def _section(heading: str, items: Iterable[str], room: RemainingSpace) -> str:
    """Return the heading and the distinct lines that fit, or ""."""
    lines: list[str] = []
    for fromkey in dict.fromkeys(item for item in items if item):
        if not room.takes(f"{fromkey}\n" if lines else f"{heading}\n{fromkey}\n\n"):
            break
        lines.append(f"{fromkey}\n")
    return f"{heading}\n{''.join(lines)}" if lines else ""


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def memory_item(found: Scored) -> str:
    """Return a line such as `- [0.80] AAPL reports on Thursday`; a memory includes speaker and stale references."""
    if isinstance(found, Hit):
        text = embedding_text(found.text, found.memory.speaker)
        return list_item(text, found.stale, doubtful=found.freshness == "vanished", score=found.score)
    return list_item(found.text, score=found.score)


def threshold_item(known: Threshold | FiringThreshold) -> str:
    """Return a line such as `- AAPL/volume: above 5000000 (fires: 6200000)`."""
    if isinstance(known, FiringThreshold):
        return list_item(known.threshold.says, [firing_note(known.value)])
    return list_item(known.says)


def firing_note(value: float) -> str:
    """Return the note for a threshold crossed by a value."""
    return f"fires: {plain_number(value)}"


def season_text(active: ActivePattern) -> str:
    """Return pattern and source of an active season, and its end."""
    return f"{of_source(active.seasonal.pattern, active.seasonal.source)} (until {_moment(active.until)})"


def related_text(known: Correlation) -> str:
    """Return the rule, preceded by both sides if it does not name them."""
    held = fold(known.rule)
    if fold(known.source_a) in held and fold(known.source_b) in held:
        return known.rule
    return f"{known.source_a} {'leads' if known.relation == 'leads' else 'and'} {known.source_b}: {known.rule}"


def of_source(text: str, source: str) -> str:
    """Return the text, preceded by the source if it does not name it."""
    return text if fold(source) in fold(text) else f"{source}: {text}"


# ── rows for a query ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRows:
    """Rows shown for a query, each section within its limit."""

    patterns: Sequence[Pattern]
    thresholds: Sequence[Threshold | FiringThreshold]
    related: Sequence[CorrelationStep]
    seasons: Sequence[ActivePattern]

    @property
    def memories(self) -> frozenset[int]:
        """Return the memories that state these rows in words."""
        thresholds = [
            threshold.threshold if isinstance(threshold, FiringThreshold) else threshold
            for threshold in self.thresholds
        ]
        steps, on = [each.correlation for each in self.related], [season.seasonal for season in self.seasons]
        rows: list[Claim] = [*self.patterns, *thresholds, *steps, *on]
        return frozenset(row.memory for row in rows if row.memory is not None)

    def beside(self, search: Callable[[str], Sequence[Scored]]) -> RecallSources:
        """Return the rows as sources, together with this search."""
        return RecallSources(
            search=search,
            get_patterns=lambda: self.patterns,
            get_thresholds=lambda: self.thresholds,
            get_related=lambda: self.related,
            get_seasons=lambda: self.seasons,
        )


def shown_rows(
    found: Sequence[MentionedClaim],
    domain: KnowledgeTables,
    at: str,
    config: AutoRecallConfig,
    viewer: Viewer | None = None,
) -> ShownRows:
    """Select the rows to show for a query that names `found`.

    Patterns and thresholds: named ones first, then by confidence. Correlations: named ones. Seasons: active ones that
    are named or have no source.
    """
    patterns = [each.known for each in found if isinstance(each.known, Pattern)]
    thresholds = [each.fires or each.known for each in found if isinstance(each.known, Threshold)]
    related = [_step(each.known, each.sides) for each in found if isinstance(each.known, Correlation)]
    named = {each.known.ref for each in found}

    def more(table: Table, cap: int) -> list[Knowledge]:
        rows = domain.rows(table, limit=cap + len(named), viewer=viewer) if cap else []
        return [row for row in rows if row.ref not in named]

    seasonal = [each.known for each in found if isinstance(each.known, Seasonal)]
    few = _SEASONS_LOOKED_AT if config.max_seasons else 0
    anywhere = domain.rows("seasonal", where={"source": ""}, limit=few, viewer=viewer) if few else []
    seasonal += [each for each in anywhere if isinstance(each, Seasonal)]
    patterns += [each for each in more("patterns", config.max_patterns) if isinstance(each, Pattern)]
    thresholds += [each for each in more("thresholds", config.max_thresholds) if isinstance(each, Threshold)]
    return ShownRows(
        patterns=patterns[: config.max_patterns],
        thresholds=thresholds[: config.max_thresholds],
        related=related[: config.max_related],
        seasons=active(seasonal, at)[: config.max_seasons] if seasonal else (),
    )


def _step(known: Correlation, sides: Sequence[str]) -> CorrelationStep:
    """Return the step from the named side to the other."""
    forward = known.source_a in sides
    here, there = (known.source_a, known.source_b) if forward else (known.source_b, known.source_a)
    return CorrelationStep(here, there, known, forward, 1, known.confidence, known.inverse)


def briefing_lines(found: Sequence[MentionedClaim], at: Clock) -> list[tuple[BriefingLine, int | None]]:
    """Return the rows named by a prompt as block lines, each with its memory; inactive seasons come last."""
    seasonal = [each.known for each in found if isinstance(each.known, Seasonal)]
    on = {each.seasonal.id: each for each in active(seasonal, at())} if seasonal else {}

    def is_off(each: MentionedClaim) -> bool:
        return isinstance(each.known, Seasonal) and each.known.id not in on

    return [(_line(each, on), each.known.memory) for each in sorted(found, key=is_off)]


def _line(each: MentionedClaim, on: Mapping[str, ActivePattern]) -> BriefingLine:
    known = each.known
    text, note, score = known.says, "", f"{known.confidence:.2f}"
    match known:
        case Threshold():
            note, score = firing_note(each.fires.value) if each.fires else "", ""
        case Correlation():
            text = related_text(known)
        case Pattern():
            text = of_source(known.pattern, known.source)
        case Seasonal():
            text = of_source(known.says, known.source)
            note = f"on until {_moment(on[known.id].until)}" if known.id in on else ""
    return BriefingLine(exact_id(f"{known.ref} {text}", noted=bool(note)), text, score, note=note)


def _moment(at: str) -> str:
    """Format a UTC time to the second: 2026-01-05T16:00:00Z."""
    return f"{at[:19]}Z"
