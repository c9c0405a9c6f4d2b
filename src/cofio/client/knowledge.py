"""HTTP client of the domain knowledge tables: `client.knowledge`, with the methods of `keeper.knowledge`."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Unpack, cast
from urllib.parse import quote

from cofio.client.decoding import decode
from cofio.errors import InvalidInput, NotFound
from cofio.models.domain_knowledge import (
    ActivePattern,
    Correlation,
    CorrelationKwargs,
    CorrelationStep,
    Feedback,
    FiringThreshold,
    Knowledge,
    KnowledgeChange,
    KnowledgeReading,
    OwnerKwargs,
    Pattern,
    PatternKwargs,
    RowKwargs,
    Seasonal,
    SeasonalKwargs,
    Threshold,
    ThresholdKwargs,
    check_table,
    row_from_dict,
)
from cofio.models.memory import Changeset

_PAGE = 1_000  # page size limit of the service
_EMPTY_MEANS_NONE = ("user", "team")  # of these, a blank value means none


class ClientKnowledge:
    """Structured domain knowledge of a keeper in another process."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask

    # ── the tables ────────────────────────────────────────────────────────────────────────────────────────────────────

    def put(self, table: str, *, by: str = "library", why: str = "", **fields: Unpack[RowKwargs]) -> KnowledgeChange:
        """Store a row of a table; replaces the row with the same id."""
        if check_table(table) == "feedback":
            return self._put_feedback(fields, by, why)
        return KnowledgeChange.from_dict(self._ask("POST", _path(table), {**fields, "why": why}, by=by))

    def _put_feedback(self, fields: Mapping[str, Any], by: str, why: str) -> KnowledgeChange:
        """Store a verdict; fields left out keep their stored values."""
        verdict: dict[str, Any] = {"anomaly": "", "verdict": ""}
        with suppress(NotFound):
            old = self.get("feedback", fields["id"]).as_dict() if fields.get("id") else {}
            verdict.update({name: old[name] for name in verdict if name in old})
        return self.feedback(**{**verdict, **fields}, by=by, why=why).knowledge[0]

    def upsert_pattern(
        self, pattern: str, *, by: str = "library", why: str = "", **fields: Unpack[PatternKwargs]
    ) -> Pattern:
        """Store a pattern; return it as stored."""
        return cast(Pattern, self.put("patterns", pattern=pattern, by=by, why=why, **fields).after)

    def upsert_correlation(
        self,
        source_a: str,
        source_b: str,
        rule: str,
        *,
        by: str = "library",
        why: str = "",
        **fields: Unpack[CorrelationKwargs],
    ) -> Correlation:
        """Store a correlation; return it as stored."""
        return cast(
            Correlation,
            self.put("correlations", source_a=source_a, source_b=source_b, rule=rule, by=by, why=why, **fields).after,
        )

    def upsert_threshold(
        self,
        source: str,
        metric: str,
        value: float,
        direction: str,
        *,
        by: str = "library",
        why: str = "",
        **fields: Unpack[ThresholdKwargs],
    ) -> Threshold:
        """Store a threshold; return it as stored."""
        return cast(
            Threshold,
            self.put(
                "thresholds", source=source, metric=metric, value=value, direction=direction, by=by, why=why, **fields
            ).after,
        )

    def upsert_seasonal(
        self, pattern: str, period: str, *, by: str = "library", why: str = "", **fields: Unpack[SeasonalKwargs]
    ) -> Seasonal:
        """Store a seasonal pattern; return it as stored. InvalidInput if its times are inconsistent."""
        return cast(Seasonal, self.put("seasonal", pattern=pattern, period=period, by=by, why=why, **fields).after)

    def get(self, table: str, key: str) -> Knowledge:
        """Return a row. NotFound if it does not exist."""
        return row_from_dict(table, self._ask("GET", _path(table, key)))

    def list(
        self,
        table: str,
        *,
        min_confidence: float = 0.0,
        limit: int = 50,
        after: str | None = None,
        **where: Unpack[RowKwargs],
    ) -> builtins.list[Knowledge]:
        """Return the rows of a table: claims by confidence (highest first), feedback newest first."""
        params = {"limit": limit, "after": after, "min_confidence": min_confidence or None, **_check_listable(where)}
        return [row_from_dict(table, row) for row in self._ask("GET", _path(table), **params)["rows"]]

    def patterns(
        self, min_confidence: float = 0.0, *, limit: int = 50, after: str | None = None, **where: Unpack[RowKwargs]
    ) -> builtins.list[Pattern]:
        """Return the patterns, highest confidence first."""
        return cast(
            builtins.list[Pattern],
            self.list("patterns", min_confidence=min_confidence, limit=limit, after=after, **where),
        )

    def delete(self, table: str, key: str, *, by: str = "library", why: str = "") -> KnowledgeChange:
        """Remove a row; `undo` of its changeset restores it. Removing a processed verdict reverts its effect."""
        return KnowledgeChange.from_dict(self._ask("DELETE", _path(table, key), by=by, why=why or None))

    def purge(self, table: str, key: str, *, by: str = "library", why: str = "") -> KnowledgeChange:
        """Erase a row permanently, from the journal too."""
        return KnowledgeChange.from_dict(self._ask("POST", _path(table, key, "purge"), {"why": why}, by=by))

    def history(self, table: str, key: str) -> builtins.list[KnowledgeChange]:
        """Return every change of a row, oldest first."""
        return decode(builtins.list[KnowledgeChange], self._ask("GET", _path(table, key, "history"))["changes"])

    def counts(self) -> dict[str, int]:
        """Return the number of rows in each table."""
        return dict(self._ask("GET", "/knowledge"))

    # ── evaluation ────────────────────────────────────────────────────────────────────────────────────────────────

    def evaluate(self, source: str, metric: str, value: float, *, unit: str = "") -> builtins.list[FiringThreshold]:
        """Return the thresholds that this value crosses, highest confidence first."""
        body = {"source": source, "metric": metric, "value": value, "unit": unit}
        return decode(builtins.list[FiringThreshold], self._ask("POST", "/knowledge/evaluate", body)["firing"])

    def active(self, at: str = "", *, source: str = "") -> builtins.list[ActivePattern]:
        """Return the seasonal patterns active at a time (default: now), highest confidence first."""
        return decode(
            builtins.list[ActivePattern], self._ask("GET", "/knowledge/active", at=at, source=source)["active"]
        )

    def related(self, source: str, *, depth: int = 1) -> builtins.list[CorrelationStep]:
        """Return correlations of a source, in either direction, up to `depth` steps away; nearest first."""
        reply = self._ask("GET", "/knowledge/related", source=source, depth=depth)
        return decode(builtins.list[CorrelationStep], reply["related"])

    def read(self, text: str) -> builtins.list[KnowledgeReading]:
        """Return the rows that capture would store or drop for a text. Changes nothing."""
        return decode(builtins.list[KnowledgeReading], self._ask("POST", "/knowledge/read", {"text": text})["readings"])

    # ── feedback ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def feedback(
        self,
        anomaly: str,
        verdict: str,
        *,
        note: str = "",
        about: Sequence[str] = (),
        process: bool = True,
        by: str = "library",
        why: str = "",
        **owner: Unpack[OwnerKwargs],
    ) -> Changeset:
        """Store a verdict on an anomaly and adjust the confidence of the claims it names, in one changeset."""
        body = {"anomaly": anomaly, "verdict": verdict, "note": note, "about": about, "process": process, **owner}
        return decode(Changeset, self._ask("POST", "/knowledge/feedback", {**body, "why": why}, by=by))

    def process_feedback(self, *, by: str = "library", why: str = "") -> Changeset | None:
        """Apply every stored but unprocessed verdict once; return None if there are none."""
        reply = self._ask("POST", "/knowledge/feedback/process", {"why": why}, by=by)["changeset"]
        return decode(Changeset, reply) if reply else None

    def pending_feedback(self) -> builtins.list[Feedback]:
        """Return the verdicts that are not yet processed, oldest first."""
        verdicts: builtins.list[Knowledge] = []
        while len(
            page := self.list("feedback", limit=_PAGE, after=verdicts[-1].id if verdicts else None, processed=False)
        ):
            verdicts += page
            if len(page) < _PAGE:
                break
        return sorted(cast(builtins.list[Feedback], verdicts), key=lambda verdict: (verdict.created_at, verdict.id))


def _path(table: str, *more: str) -> str:
    return "/".join(["/knowledge", check_table(table), *(quote(part, safe="") for part in more)])


def _check_listable(where: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the filter as query parameters. Raise if it needs an empty value, which a query string cannot express."""
    for name, value in where.items():
        if value is None or (value == "" and name not in _EMPTY_MEANS_NONE):
            raise InvalidInput(
                f"Over HTTP, rows cannot be filtered by an empty {name}.",
                f"Omit {name}, or open the store directly with `cofio.open`.",
            )
    return where
