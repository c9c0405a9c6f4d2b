"""HTTP client of the domain knowledge tables: `client.knowledge`, with the methods of `keeper.knowledge`."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Unpack, cast
from urllib.parse import quote

from cofio.client.transport import HttpTransport
from cofio.errors import InvalidInput, NotFound
from cofio.models.domain_knowledge import (
    ActivePattern,
    CorrelationStep,
    Feedback,
    FiringThreshold,
    Knowledge,
    KnowledgeChange,
    KnowledgeReading,
    OwnerKwargs,
    RowKwargs,
    check_table,
    row_from_dict,
)
from cofio.models.json_values import decode
from cofio.models.memory import Changeset
from cofio.models.typed_knowledge import TypedKnowledge

_PAGE = 1_000  # page size limit of the service
_EMPTY_MEANS_NONE = ("user", "team")  # of these, a blank value means none


class ClientKnowledge(TypedKnowledge):
    """Structured domain knowledge of a keeper in another process."""

    def __init__(self, wire: HttpTransport) -> None:
        self._wire = wire

    # ── the tables ────────────────────────────────────────────────────────────────────────────────────────────────────

    def put(self, table: str, *, by: str = "library", why: str = "", **fields: Unpack[RowKwargs]) -> KnowledgeChange:
        """Store a row of a table; replaces the row with the same id."""
        if check_table(table) == "feedback":
            verdict: dict[str, Any] = {"anomaly": "", "verdict": ""}  # fields left out keep their stored values
            with suppress(NotFound):
                old = self.get("feedback", fields["id"]).as_dict() if fields.get("id") else {}
                verdict.update({name: old[name] for name in verdict if name in old})
            return self.feedback(**{**verdict, **fields}, by=by, why=why).knowledge[0]
        return self._wire.post(KnowledgeChange, _path(table), by=by, **{**fields, "why": why})

    def get(self, table: str, key: str) -> Knowledge:
        """Return a row. NotFound if it does not exist."""
        return row_from_dict(table, self._wire.ask("GET", _path(table, key)))

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
        for name, value in where.items():
            if value is None or (value == "" and name not in _EMPTY_MEANS_NONE):  # a query string has no empty value
                hint = f"Omit {name}, or open the store directly with `cofio.open`."
                raise InvalidInput(f"Over HTTP, rows cannot be filtered by an empty {name}.", hint)
        params: dict[str, Any] = {"limit": limit, "after": after, "min_confidence": min_confidence or None, **where}
        return [row_from_dict(table, row) for row in self._wire.ask("GET", _path(table), **params)["rows"]]

    def delete(self, table: str, key: str, *, by: str = "library", why: str = "") -> KnowledgeChange:
        """Remove a row; `undo` of its changeset restores it. Removing a processed verdict reverts its effect."""
        return KnowledgeChange.from_dict(self._wire.ask("DELETE", _path(table, key), by=by, why=why or None))

    def purge(self, table: str, key: str, *, by: str = "library", why: str = "") -> KnowledgeChange:
        """Erase a row permanently, from the journal too."""
        return self._wire.post(KnowledgeChange, _path(table, key, "purge"), by=by, why=why)

    def history(self, table: str, key: str) -> builtins.list[KnowledgeChange]:
        """Return every change of a row, oldest first."""
        return self._wire.get(builtins.list[KnowledgeChange], _path(table, key, "history"), "changes")

    def counts(self) -> dict[str, int]:
        """Return the number of rows in each table."""
        return self._wire.get(dict[str, int], "/knowledge")

    # ── evaluation ────────────────────────────────────────────────────────────────────────────────────────────────

    def evaluate(self, source: str, metric: str, value: float, *, unit: str = "") -> builtins.list[FiringThreshold]:
        """Return the thresholds that this value crosses, highest confidence first."""
        body: dict[str, Any] = {"source": source, "metric": metric, "value": value, "unit": unit}
        return self._wire.post(builtins.list[FiringThreshold], "/knowledge/evaluate", "firing", **body)

    def active(self, at: str = "", *, source: str = "") -> builtins.list[ActivePattern]:
        """Return the seasonal patterns active at a time (default: now), highest confidence first."""
        return self._wire.get(builtins.list[ActivePattern], "/knowledge/active", "active", at=at, source=source)

    def related(self, source: str, *, depth: int = 1) -> builtins.list[CorrelationStep]:
        """Return correlations of a source, in either direction, up to `depth` steps away; nearest first."""
        steps = builtins.list[CorrelationStep]
        return self._wire.get(steps, "/knowledge/related", "related", source=source, depth=depth)

    def read(self, text: str) -> builtins.list[KnowledgeReading]:
        """Return the rows that capture would store or drop for a text. Changes nothing."""
        return self._wire.post(builtins.list[KnowledgeReading], "/knowledge/read", "readings", text=text)

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
        return self._wire.post(Changeset, "/knowledge/feedback", by=by, why=why, **body)

    def process_feedback(self, *, by: str = "library", why: str = "") -> Changeset | None:
        """Apply every stored but unprocessed verdict once; return None if there are none."""
        reply = self._wire.ask("POST", "/knowledge/feedback/process", {"why": why}, by=by)["changeset"]
        return decode(Changeset, reply) if reply else None

    def pending_feedback(self) -> builtins.list[Feedback]:
        """Return the verdicts that are not yet processed, oldest first."""
        verdicts = page = self.list("feedback", limit=_PAGE, processed=False)
        while len(page) == _PAGE:
            page = self.list("feedback", limit=_PAGE, after=page[-1].id, processed=False)
            verdicts = verdicts + page
        return sorted(cast(builtins.list[Feedback], verdicts), key=lambda verdict: (verdict.created_at, verdict.id))


def _path(table: str, *more: str) -> str:
    return "/".join(["/knowledge", check_table(table), *(quote(part, safe="") for part in more)])
