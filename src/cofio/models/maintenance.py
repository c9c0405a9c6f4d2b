"""Value types of maintenance: plans, results and runs of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cofio.models.json_values import JsonFields
from cofio.models.memory import Changeset, Decision, Memory, to_plain

Chore = Literal["consolidate", "prune", "backup"]
CHORES: tuple[Chore, ...] = ("consolidate", "prune", "backup")
BACKFILL = "backfill"  # name of its runs, and reason of the first changeset of its series
Outcome = Literal["running", "done", "failed", "died", "began"]
View = Literal["never", "most", "stale"]
VIEWS: tuple[View, ...] = ("never", "most", "stale")
#: Jobs whose decisions can be approved one by one.
Proposed = Literal["consolidate", "prune", "contradictions"]
PROPOSED: tuple[Proposed, ...] = ("consolidate", "prune", "contradictions")
#: Findings of an audit whose memories can be archived together.
ARCHIVABLE = ("secrets", "manipulation", "untrusted_rules", "future_dates", "imitating_sources")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(JsonFields):
    """Memories that a job examined and left unchanged, with the reason."""

    ids: tuple[int, ...]
    reason: str
    proposed: tuple[str, ...] = ()  # rejected texts


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePlan:
    """Decisions and refusals of a job and, once applied, the changeset."""

    chore: Chore
    decisions: tuple[Decision, ...] = ()
    refused: tuple[Refusal, ...] = ()
    examined: int = 0  # memories examined
    note: str = ""  # general remark: why nothing was done, or what is left for the next run
    settled: tuple[str, ...] = ()  # keys of final refusals, which are not examined again while unchanged
    dry_run: bool = True
    changeset: Changeset | None = None
    as_of: int = 0  # newest changeset when the plan was made; 0 if there was none

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "chore": self.chore,
            "dry_run": self.dry_run,
            "count": len(self.decisions),
            "examined": self.examined,
            "note": self.note,
            "decisions": [to_plain(decision) for decision in self.decisions],
            "refused": [refusal.as_dict() for refusal in self.refused],
            "changeset": self.changeset.id if self.changeset else None,
            "as_of": self.as_of,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceRun(JsonFields):
    """Run of a job: for a cron slot, or with slot "" on request."""

    id: int
    chore: str
    slot: str
    by: str
    started_at: str
    finished_at: str | None = None
    outcome: Outcome = "running"
    changeset: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UsageTracking:
    """Start of retrieval logging, and the number of days with retrievals since a given time."""

    since: str | None  # None if none was ever logged
    days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(JsonFields):
    """Result of one audit check: the number of matches and some examples."""

    name: str
    says: str  # explanation for people
    count: int
    examples: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(JsonFields):
    """Profile of a store."""

    memories: int  # live memories examined
    note: str = ""
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan(JsonFields):
    """Memories to archive and to restore, or those that were, with their changeset."""

    dry_run: bool
    decisions: tuple[Mapping[str, Any], ...] = ()  # action, id, reason and text of each
    changeset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two memories in one scope that contradict each other, with the reason."""

    newer: Memory
    older: Memory
    reason: str
    cosine: float

    def as_dict(self) -> dict[str, Any]:
        details = {"reason": self.reason, "cosine": round(self.cosine, 6)}
        return {"newer": self.newer.as_dict(), "older": self.older.as_dict(), **details}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradictions(JsonFields):
    """The newest contradictions, and their total number."""

    pairs: tuple[Contradiction, ...]
    count: int
    note: str = ""
    as_of: int = 0  # see Plan


@dataclass(frozen=True, slots=True)
class ExportedMemory:
    """Exported memory: with its further sightings and, on request, its vector."""

    memory: Memory
    sightings: tuple[Any, ...] = ()
    vector: bytes | None = None
