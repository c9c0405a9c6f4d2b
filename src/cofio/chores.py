"""The words of upkeep: what a chore would do, what it did, and when chores ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cofio.model import Changeset, Decision, Memory, plain

Chore = Literal["consolidate", "prune", "backup"]
CHORES: tuple[Chore, ...] = ("consolidate", "prune", "backup")
BACKFILL = "backfill"  # the name of its runs, and the reason of the changeset that begins its series
Outcome = Literal["running", "done", "failed", "died", "began"]
View = Literal["never", "most", "stale"]
VIEWS: tuple[View, ...] = ("never", "most", "stale")
#: What a person may approve of, one by one: what these would do.
Proposed = Literal["consolidate", "prune", "contradictions"]
PROPOSED: tuple[Proposed, ...] = ("consolidate", "prune", "contradictions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Something that a chore looked at and left as it is, and why."""

    ids: tuple[int, ...]
    reason: str
    proposed: tuple[str, ...] = ()  # the texts that were refused

    def as_dict(self) -> dict[str, Any]:
        return {"ids": list(self.ids), "reason": self.reason, "proposed": list(self.proposed)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a chore decided, what it refused, and, once it was done, the changeset that did it."""

    chore: Chore
    decisions: tuple[Decision, ...] = ()
    refused: tuple[Refusal, ...] = ()
    examined: int = 0  # memories that were looked at
    note: str = ""  # what holds for all of it: why nothing was done, or what was left for the next time
    settled: tuple[str, ...] = ()  # names of what was refused for good: not asked about again as long as it is the same
    dry_run: bool = True
    changeset: Changeset | None = None
    as_of: int = 0  # the newest changeset when it was made; 0 when there was none

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "chore": self.chore,
            "dry_run": self.dry_run,
            "count": len(self.decisions),
            "examined": self.examined,
            "note": self.note,
            "decisions": [plain(each) for each in self.decisions],
            "refused": [each.as_dict() for each in self.refused],
            "changeset": self.changeset.id if self.changeset else None,
            "as_of": self.as_of,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One time that a chore ran: for a slot of the schedule, or ("") because somebody asked for it."""

    id: int
    chore: str
    slot: str
    by: str
    started_at: str
    finished_at: str | None = None
    outcome: Outcome = "running"
    told: Mapping[str, Any] = field(default_factory=dict)
    changeset: int | None = None

    def as_dict(self) -> dict[str, Any]:
        names = ("id", "chore", "slot", "by", "started_at", "finished_at", "outcome", "changeset")
        return {**{name: getattr(self, name) for name in names}, "told": dict(self.told)}


@dataclass(frozen=True, slots=True)
class Tracking:
    """Since when retrievals are noted, and on how many different days there were some since a given time."""

    since: str | None  # None when none was ever noted
    days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that an audit looked for: how many it found, and some of them."""

    name: str
    says: str  # what it means, for people
    count: int
    examples: tuple[Mapping[str, Any], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "says": self.says, "count": self.count, "examples": [dict(e) for e in self.examples]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The profile of a store."""

    memories: int  # live ones that were looked at
    findings: tuple[Finding, ...]
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {"memories": self.memories, "note": self.note, "findings": [each.as_dict() for each in self.findings]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two memories of one place that cannot both hold, and why."""

    newer: Memory
    older: Memory
    reason: str
    cosine: float

    def as_dict(self) -> dict[str, Any]:
        told = {"reason": self.reason, "cosine": round(self.cosine, 6)}
        return {"newer": self.newer.as_dict(), "older": self.older.as_dict(), **told}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradictions:
    """The newest of them, and how many there are."""

    pairs: tuple[Contradiction, ...]
    count: int
    note: str = ""
    as_of: int = 0  # as of Plan

    def as_dict(self) -> dict[str, Any]:
        pairs = [each.as_dict() for each in self.pairs]
        return {"pairs": pairs, "count": self.count, "note": self.note, "as_of": self.as_of}


@dataclass(frozen=True, slots=True)
class Carried:
    """A memory as it is exported: with its further sightings and, where asked for, its vector."""

    memory: Memory
    sightings: tuple[Any, ...] = ()
    vector: bytes | None = None
