"""What an agent that watches something should know before it looks: memories, patterns, thresholds, as one block.

    query ─ search ─▶ hits ┐
    claims of the domain ──┴─▶ <relevant-context> … </relevant-context>

A pure function over whatever sources it is given; the keeper gives it the real ones. Texts are made neutral, as in any
block that is put before an agent, and hygiene takes the whole block out again of what is captured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cofio.briefing import Line, Room, exact_id, item
from cofio.domain import (
    Active,
    Claim,
    Correlation,
    Firing,
    Knowledge,
    Pattern,
    Seasonal,
    Step,
    Table,
    Threshold,
    fold,
    plain_number,
)
from cofio.knowledge.naming import Named
from cofio.knowledge.seasons import active
from cofio.model import Hit, Viewer, whole
from cofio.ports import Clock, Domain
from cofio.wording import passage

TAG = "relevant-context"
NOTHING = "No prior context found."
MEMORIES, PATTERNS, THRESHOLDS = "## Relevant Memories", "## Known Patterns", "## Active Thresholds"
RELATED, SEASONS = "## Related", "## Active Seasons"
MOST = 50  # that may be asked for of any
_SEASONS_LOOKED_AT = 20  # of those without a source, the surest: to tell whether one is on may take a while


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoRecallConfig:
    """How many lines a section has at most."""

    max_memory_results: int = 3
    max_patterns: int = 5
    max_thresholds: int = 5
    max_related: int = 5
    max_seasons: int = 5

    def __post_init__(self) -> None:
        for name in self.__slots__:
            whole(getattr(self, name), name, least=0, most=MOST)


class Scored(Protocol):
    """What a search finds: a text and how well it answers. A `Hit` is one."""

    @property
    def text(self) -> str: ...

    @property
    def score(self) -> float: ...


def _none() -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSources:
    """Where it comes from. Each gives what it has, the best first; what is beyond the caps is not shown."""

    search: Callable[[str], Sequence[Scored]]
    get_patterns: Callable[[], Sequence[Pattern]]
    get_thresholds: Callable[[], Sequence[Threshold | Firing]]  # a firing says the value too
    get_related: Callable[[], Sequence[Step]] = _none
    get_seasons: Callable[[], Sequence[Active]] = _none


_USUAL = AutoRecallConfig()


def build_recall_context(query: str, sources: RecallSources, config: AutoRecallConfig = _USUAL) -> str:
    """All that is known to this query, in sections, inside a tag; it says so when there is nothing.

    The same sources give the same text. No line can end the block or open a tag; a text that is too long is shortened,
    and what does not fit into the block is left out, memories before what is known exactly.
    """
    memories = sources.search(query)[: config.max_memory_results]
    patterns = sources.get_patterns()[: config.max_patterns]
    thresholds = sources.get_thresholds()[: config.max_thresholds]
    related = sources.get_related()[: config.max_related]
    seasons = sources.get_seasons()[: config.max_seasons]
    room = Room(f"<{TAG}>\n", f"</{TAG}>")
    filled = {
        heading: _section(heading, lines, room)
        for heading, lines in (
            (THRESHOLDS, (threshold_item(each) for each in thresholds)),
            (PATTERNS, (item(each.pattern, score=each.confidence) for each in patterns)),
            (SEASONS, (item(season_text(each), score=each.seasonal.confidence) for each in seasons)),
            (RELATED, (item(related_text(each.correlation), score=each.confidence) for each in related)),
            (MEMORIES, (memory_item(each) for each in memories)),
        )
    }
    sections = [filled[each] for each in (MEMORIES, PATTERNS, THRESHOLDS, RELATED, SEASONS) if filled[each]]
    return f"<{TAG}>\n{chr(10).join(sections) or NOTHING + chr(10)}</{TAG}>"


def _section(heading: str, items: Iterable[str], room: Room) -> str:
    """The heading and the lines that there is room for, each once; "" when there is none."""
    lines: list[str] = []
    for each in dict.fromkeys(each for each in items if each):
        if not room.takes(f"{each}\n" if lines else f"{heading}\n{each}\n\n"):
            break
        lines.append(f"{each}\n")
    return f"{heading}\n{''.join(lines)}" if lines else ""


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def memory_item(found: Scored) -> str:
    """Such as `- [0.80] AAPL reports on Thursday`; of a memory, who said it and what of it has changed since."""
    if isinstance(found, Hit):
        text = passage(found.text, found.memory.speaker)
        return item(text, found.stale, doubtful=found.freshness == "vanished", score=found.score)
    return item(found.text, score=found.score)


def threshold_item(known: Threshold | Firing) -> str:
    """Such as `- AAPL/volume: above 5000000 (fires: 6200000)`."""
    if isinstance(known, Firing):
        return item(known.threshold.says, [fires(known.value)])
    return item(known.says)


def fires(value: float) -> str:
    """What is said behind a threshold that a value crosses."""
    return f"fires: {plain_number(value)}"


def season_text(active: Active) -> str:
    """What the season brings, of what, and until when."""
    return f"{of_source(active.seasonal.pattern, active.seasonal.source)} (until {_moment(active.until)})"


def related_text(known: Correlation) -> str:
    """The rule, after the two sides where it does not name them."""
    held = fold(known.rule)
    if fold(known.source_a) in held and fold(known.source_b) in held:
        return known.rule
    return f"{known.source_a} {'leads' if known.relation == 'leads' else 'and'} {known.source_b}: {known.rule}"


def of_source(text: str, source: str) -> str:
    """The text, after its source where it does not name that."""
    return text if fold(source) in fold(text) else f"{source}: {text}"


# ── what the keeper has to a query ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What of the tables is shown to a query, each within its cap."""

    patterns: Sequence[Pattern]
    thresholds: Sequence[Threshold | Firing]
    related: Sequence[Step]
    seasons: Sequence[Active]

    @property
    def memories(self) -> frozenset[int]:
        """The memories that say the same in words."""
        thresholds = [each.threshold if isinstance(each, Firing) else each for each in self.thresholds]
        steps, on = [each.correlation for each in self.related], [each.seasonal for each in self.seasons]
        rows: list[Claim] = [*self.patterns, *thresholds, *steps, *on]
        return frozenset(each.memory for each in rows if each.memory is not None)

    def beside(self, search: Callable[[str], Sequence[Scored]]) -> RecallSources:
        """All of it as sources, beside this search."""
        return RecallSources(
            search=search,
            get_patterns=lambda: self.patterns,
            get_thresholds=lambda: self.thresholds,
            get_related=lambda: self.related,
            get_seasons=lambda: self.seasons,
        )


def shown(
    found: Sequence[Named], domain: Domain, at: str, config: AutoRecallConfig, viewer: Viewer | None = None
) -> Shown:
    """What of the tables is shown where a query names these: patterns and thresholds, first those that it names, then
    the surest; the correlations that it names, and the seasons that are on and that it names or that hold everywhere.
    """
    patterns = [each.known for each in found if isinstance(each.known, Pattern)]
    thresholds = [each.fires or each.known for each in found if isinstance(each.known, Threshold)]
    related = [_step(each.known, each.sides) for each in found if isinstance(each.known, Correlation)]
    named = {each.known.ref for each in found}

    def more(table: Table, cap: int) -> list[Knowledge]:
        rows = domain.rows(table, limit=cap + len(named), viewer=viewer) if cap else []
        return [each for each in rows if each.ref not in named]

    seasonal = [each.known for each in found if isinstance(each.known, Seasonal)]
    few = _SEASONS_LOOKED_AT if config.max_seasons else 0
    anywhere = domain.rows("seasonal", where={"source": ""}, limit=few, viewer=viewer) if few else []
    seasonal += [each for each in anywhere if isinstance(each, Seasonal)]
    patterns += [each for each in more("patterns", config.max_patterns) if isinstance(each, Pattern)]
    thresholds += [each for each in more("thresholds", config.max_thresholds) if isinstance(each, Threshold)]
    return Shown(
        patterns=patterns[: config.max_patterns],
        thresholds=thresholds[: config.max_thresholds],
        related=related[: config.max_related],
        seasons=active(seasonal, at)[: config.max_seasons] if seasonal else (),
    )


def _step(known: Correlation, sides: Sequence[str]) -> Step:
    """From the side that is named to the other."""
    forward = known.source_a in sides
    here, there = (known.source_a, known.source_b) if forward else (known.source_b, known.source_a)
    return Step(here, there, known, forward, 1, known.confidence, known.inverse)


def lines(found: Sequence[Named], at: Clock) -> list[tuple[Line, int | None]]:
    """What a prompt names, as lines for the block that recall makes, each with the memory that says it in words; the
    seasons that are not on come last."""
    seasonal = [each.known for each in found if isinstance(each.known, Seasonal)]
    on = {each.seasonal.id: each for each in active(seasonal, at())} if seasonal else {}

    def is_off(each: Named) -> bool:
        return isinstance(each.known, Seasonal) and each.known.id not in on

    return [(_line(each, on), each.known.memory) for each in sorted(found, key=is_off)]


def _line(each: Named, on: Mapping[str, Active]) -> Line:
    known = each.known
    text, note, score = known.says, "", f"{known.confidence:.2f}"
    match known:
        case Threshold():
            note, score = fires(each.fires.value) if each.fires else "", ""
        case Correlation():
            text = related_text(known)
        case Pattern():
            text = of_source(known.pattern, known.source)
        case Seasonal():
            text = of_source(known.says, known.source)
            note = f"on until {_moment(on[known.id].until)}" if known.id in on else ""
    return Line(exact_id(f"{known.ref} {text}", noted=bool(note)), text, score, note=note)


def _moment(at: str) -> str:
    """A UTC moment to the second, as people write it: 2026-01-05T16:00:00Z."""
    return f"{at[:19]}Z"
