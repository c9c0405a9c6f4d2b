"""Context block for agents that monitor something: memories, patterns and thresholds.

    query ─ search ─▶ hits ┐
    claims of the domain ──┴─▶ <relevant-context> … </relevant-context>

A pure function of its sources, which the keeper provides. Texts are neutralized as in every injected block, and the
block is removed from captured text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cofio.domain_knowledge.mentions import MentionedClaim
from cofio.domain_knowledge.seasonal_times import active
from cofio.models.domain_knowledge import (
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
from cofio.text.briefing import NOTICE, BriefingLine, RemainingSpace, build_section, exact_id, list_item
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSources:
    """Sources of the block. Each returns its rows best first; rows beyond the limits are not shown."""

    search: Callable[[str], Sequence[Scored]]
    get_patterns: Callable[[], Sequence[Pattern]]
    get_thresholds: Callable[[], Sequence[Threshold | FiringThreshold]]  # a Firing includes the value
    get_related: Callable[[], Sequence[CorrelationStep]] = tuple
    get_seasons: Callable[[], Sequence[ActivePattern]] = tuple
    reader: str = ""  # name of the user who reads the block


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
    room = RemainingSpace(f"<{TAG}>\n{NOTICE}\n", f"</{TAG}>")
    items = {
        THRESHOLDS: [threshold_item(threshold) for threshold in thresholds],
        PATTERNS: [list_item(pattern.pattern, score=pattern.confidence) for pattern in patterns],
        SEASONS: [list_item(season_text(season), score=season.seasonal.confidence) for season in seasons],
        RELATED: [list_item(related_text(step.correlation), score=step.confidence) for step in related],
        MEMORIES: [memory_item(memory, sources.reader) for memory in memories],
    }
    sections = {}
    for heading, section in items.items():
        lines = [f"{item}\n" for item in dict.fromkeys(filter(None, section))]
        sections[heading] = build_section(f"{heading}\n", lines, room, gap="\n")[0]
    shown = [sections[heading] for heading in (MEMORIES, PATTERNS, THRESHOLDS, RELATED, SEASONS) if sections[heading]]
    content = f"{NOTICE}\n{chr(10).join(shown)}" if shown else f"{NOTHING}\n"
    return f"<{TAG}>\n{content}</{TAG}>"


def memory_item(item: Scored, reader: str = "") -> str:
    """Return a line such as `- [0.80] AAPL reports on Thursday`.

    A memory includes its speaker, stale references, and whose words it holds, for the user who reads it.
    """
    if isinstance(item, Hit):
        text = embedding_text(item.text, item.memory.speaker)
        said = item.memory.provenance_label(reader)
        return list_item(text, item.stale, doubtful=item.freshness == "vanished", score=item.score, said=said)
    return list_item(item.text, score=item.score)


def threshold_item(item: Threshold | FiringThreshold) -> str:
    """Return a line such as `- AAPL/volume: above 5000000 (fires: 6200000)`."""
    if isinstance(item, FiringThreshold):
        return list_item(item.threshold.says, [firing_note(item.value)])
    return list_item(item.says)


def firing_note(value: float) -> str:
    """Return the note for a threshold crossed by a value."""
    return f"fires: {plain_number(value)}"


def season_text(active: ActivePattern) -> str:
    """Return pattern and source of an active season, and its end."""
    return f"{of_source(active.seasonal.pattern, active.seasonal.source)} (until {_format_time(active.until)})"


def related_text(row: Correlation) -> str:
    """Return the rule, preceded by both sides if it does not name them."""
    rule = fold(row.rule)
    if fold(row.source_a) in rule and fold(row.source_b) in rule:
        return row.rule
    return f"{row.source_a} {'leads' if row.relation == 'leads' else 'and'} {row.source_b}: {row.rule}"


def of_source(text: str, source: str) -> str:
    """Return the text, preceded by the source if it does not name it."""
    return text if fold(source) in fold(text) else f"{source}: {text}"


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
        rows: list[Claim] = [
            *self.patterns,
            *(row.threshold if isinstance(row, FiringThreshold) else row for row in self.thresholds),
            *(step.correlation for step in self.related),
            *(season.seasonal for season in self.seasons),
        ]
        return frozenset(row.memory for row in rows if row.memory is not None)

    def beside(self, memories: Sequence[Scored], reader: str = "") -> RecallSources:
        """Return the rows as sources, together with these memories, for the user who reads them."""
        return RecallSources(
            search=lambda _query: memories,
            get_patterns=lambda: self.patterns,
            get_thresholds=lambda: self.thresholds,
            get_related=lambda: self.related,
            get_seasons=lambda: self.seasons,
            reader=reader,
        )


def shown_rows(
    mentions: Sequence[MentionedClaim],
    domain: KnowledgeTables,
    at: str,
    config: AutoRecallConfig,
    viewer: Viewer | None = None,
) -> ShownRows:
    """Select the rows to show for a query that names `mentions`.

    Patterns and thresholds: named ones first, then by confidence. Correlations: named ones. Seasons: active ones that
    are named or have no source.
    """
    patterns = [mention.claim for mention in mentions if isinstance(mention.claim, Pattern)]
    thresholds = [mention.fires or mention.claim for mention in mentions if isinstance(mention.claim, Threshold)]
    related = [
        _build_step(mention.claim, mention.sides) for mention in mentions if isinstance(mention.claim, Correlation)
    ]
    refs = {mention.claim.ref for mention in mentions}

    def more(table: Table, cap: int) -> list[Knowledge]:
        rows = domain.rows(table, limit=cap + len(refs), viewer=viewer) if cap else []
        return [row for row in rows if row.ref not in refs]

    seasonal = [mention.claim for mention in mentions if isinstance(mention.claim, Seasonal)]
    few = _SEASONS_LOOKED_AT if config.max_seasons else 0
    anywhere = domain.rows("seasonal", where={"source": ""}, limit=few, viewer=viewer) if few else []
    seasonal += [row for row in anywhere if isinstance(row, Seasonal)]
    patterns += [row for row in more("patterns", config.max_patterns) if isinstance(row, Pattern)]
    thresholds += [row for row in more("thresholds", config.max_thresholds) if isinstance(row, Threshold)]
    return ShownRows(
        patterns=patterns[: config.max_patterns],
        thresholds=thresholds[: config.max_thresholds],
        related=related[: config.max_related],
        seasons=active(seasonal, at)[: config.max_seasons] if seasonal else (),
    )


def _build_step(correlation: Correlation, sides: Sequence[str]) -> CorrelationStep:
    """Return the step from the named side to the other."""
    here, there, forward = correlation.source_a, correlation.source_b, correlation.source_a in sides
    if not forward:
        here, there = there, here
    return CorrelationStep(here, there, correlation, forward, 1, correlation.confidence, correlation.inverse)


def briefing_lines(mentions: Sequence[MentionedClaim], at: Clock) -> list[tuple[BriefingLine, int | None]]:
    """Return the rows named by a prompt as block lines, each with its memory; inactive seasons come last."""
    seasonal = [mention.claim for mention in mentions if isinstance(mention.claim, Seasonal)]
    on = {pattern.seasonal.id: pattern for pattern in active(seasonal, at())} if seasonal else {}

    def is_off(mention: MentionedClaim) -> bool:
        return isinstance(mention.claim, Seasonal) and mention.claim.id not in on

    return [(_build_line(mention, on), mention.claim.memory) for mention in sorted(mentions, key=is_off)]


def _build_line(mention: MentionedClaim, on: Mapping[str, ActivePattern]) -> BriefingLine:
    claim = mention.claim
    text, note, score = claim.says, "", f"{claim.confidence:.2f}"
    match claim:
        case Threshold():
            note, score = firing_note(mention.fires.value) if mention.fires else "", ""
        case Correlation():
            text = related_text(claim)
        case Pattern():
            text = of_source(claim.pattern, claim.source)
        case Seasonal():
            text = of_source(claim.says, claim.source)
            note = f"on until {_format_time(on[claim.id].until)}" if claim.id in on else ""
    return BriefingLine(exact_id(f"{claim.ref} {text}", noted=bool(note)), text, score, note=note)


def _format_time(at: str) -> str:
    """Format a UTC time to the second: 2026-01-05T16:00:00Z."""
    return f"{at[:19]}Z"
