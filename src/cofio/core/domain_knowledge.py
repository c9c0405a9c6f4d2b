"""Domain knowledge of a keeper: `keeper.knowledge`.

Combines the functions of `knowledge`. Decisions carry the version of the row they are based on; if another process
changes the row meanwhile, the store rejects them and they are made again.
"""

from __future__ import annotations

import builtins
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, NoReturn, TypeAlias, Unpack, cast

from cofio.domain_knowledge import confidence, lookup, seasonal_times
from cofio.domain_knowledge.from_text.extraction import extract_knowledge
from cofio.errors import Conflict, Forbidden, InvalidInput, NotFound
from cofio.ingest.writer import Writer
from cofio.models.domain_knowledge import (
    ANY,
    ActivePattern,
    Claim,
    Correlation,
    CorrelationStep,
    Feedback,
    FiringThreshold,
    Knowledge,
    KnowledgeChange,
    KnowledgeReading,
    OwnerKwargs,
    RowKwargs,
    Seasonal,
    Table,
    Threshold,
    check_table,
    fold,
    is_same_row,
    make_row,
    parse_ref,
    prefix_key,
)
from cofio.models.memory import (
    MAX_LABEL,
    MAX_PAGE,
    MAX_TEXT,
    Changeset,
    DeleteRow,
    PurgeRow,
    PutRow,
    RowDecision,
    check_bool,
    check_int,
    check_text,
    to_utc_iso,
)
from cofio.models.typed_knowledge import TypedKnowledge
from cofio.ports import Clock

MAX_DEPTH = 10  # steps of a walk
_TRIES = 20  # attempts per decision; in every conflict one process succeeds
_FOLLOWS = {"prior", "confirmed", "refuted", "processed"}  # derived from confidence and verdicts; not settable
_SIDES = ("source_a", "source_b")
#: Makes decisions based on the current rows.
_Decide: TypeAlias = Callable[[], Sequence[RowDecision]]


class KnowledgeBase(TypedKnowledge):
    """Domain knowledge tables of a keeper, limited to what it may see."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer = writer
        self._domain = writer.access.store.domain
        self._viewer = writer.access.viewer
        self._clock = clock

    # ── the tables ────────────────────────────────────────────────────────────────────────────────────────────────────

    def put(self, table: str, *, by: str = "library", why: str = "", **fields: Unpack[RowKwargs]) -> KnowledgeChange:
        """Store a row in a table, replacing an existing row with the same id.

        Fields that are not given keep their values. A given confidence becomes the new prior and resets the verdicts;
        otherwise confidence is kept, and so are the verdicts unless the claim has changed. If nothing changes, nothing
        is written and the changeset is 0.
        """
        checked_table = check_table(table)
        if checked_table == "feedback":
            verdict = cast(Feedback | None, self._get_row("feedback", fields.get("id")))
            values: dict[str, Any] = {
                "anomaly": verdict.anomaly if verdict else "",
                "verdict": verdict.verdict if verdict else "",
                **fields,
            }
            return self.feedback(**values, by=by, why=why).knowledge[0]
        _refuse_derived(fields)
        redactor = self._writer.redactor()
        fields = redactor.value(fields)

        def decide() -> builtins.list[RowDecision]:
            old = self._get_row(checked_table, fields.get("id"))
            if old is None:
                new = self._writer.access.own_row(make_row(checked_table, fields))
                old = self._get_row(checked_table, new.id)
            if old is not None:
                new = _change_row(old, fields)
            if isinstance(new, Seasonal):
                seasonal_times.check(new)
            return [_put(new, old)]

        return self._commit(decide, by, why or "put").with_redacted(redactor.kinds).knowledge[0]

    def get(self, table: str, key: str) -> Knowledge:
        """Return a row. Raise NotFound if it does not exist."""
        return self._get_row(check_table(table), key) or _refuse_unknown(f"{table}/{key}")

    def list(
        self,
        table: str,
        *,
        min_confidence: float = 0.0,
        limit: int = 50,
        after: str | None = None,
        **where: Unpack[RowKwargs],
    ) -> builtins.list[Knowledge]:
        """List the rows of a table: claims by confidence in descending order, feedback newest first."""
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        return self._domain.rows(check_table(table), least=min_confidence, where=where, limit=limit, after=after)

    def delete(self, table: str, key: str, *, by: str = "library", why: str = "") -> KnowledgeChange:
        """Remove a row; undoing the changeset restores it. The effect of a processed verdict is reverted."""

        def decide() -> builtins.list[RowDecision]:
            row = self.get(table, key)
            return [DeleteRow(row.TABLE, key, why, as_of=row.updated_at), *self._take_back(row).decisions()]

        return self._commit(decide, by, why or "delete").knowledge[0]

    def purge(self, table: str, key: str, *, by: str = "library", why: str = "") -> KnowledgeChange:
        """Erase a row permanently, also from the journal. The effect of a processed verdict is reverted."""

        def decide() -> builtins.list[RowDecision]:
            row = self._get_row(check_table(table), key)  # rows removed earlier can be erased too
            return [PurgeRow(check_table(table), key, why), *self._take_back(row).decisions()]

        return self._commit(decide, by, why or "purge").knowledge[0]

    def history(self, table: str, key: str) -> builtins.list[KnowledgeChange]:
        """Return every change of a row, oldest first."""
        return self._domain.history(check_table(table), key)

    def counts(self) -> dict[str, int]:
        """Return the number of rows per table."""
        return self._domain.counts()

    # ── the exact lane ────────────────────────────────────────────────────────────────────────────────────────────────

    def evaluate(self, source: str, metric: str, value: float, *, unit: str = "") -> builtins.list[FiringThreshold]:
        """Return the thresholds of the source, or of any source, that this value crosses, by confidence."""
        for name, text in (("source", source), ("metric", metric), ("unit", unit)):
            check_text(text, name, MAX_LABEL)
        filters = [{"source": name, "metric": metric} for name in dict.fromkeys((source, ANY))]
        rows = [row for where in filters for row in self._domain.rows("thresholds", where=where)]
        return lookup.firing(cast(Iterable[Threshold], rows), value, unit)

    def active(self, at: str = "", *, source: str = "") -> builtins.list[ActivePattern]:
        """Return the seasonal patterns active at a time (default: now), by confidence.

        With a source, only patterns of that source and those without one.
        """
        check_text(source, "source", MAX_LABEL)
        when = to_utc_iso(at) if at else self._clock()
        filters: builtins.list[dict[str, str]] = [{"source": source}, {"source": ""}] if source else [{}]
        rows = [row for where in filters for row in self._domain.rows("seasonal", where=where)]
        return seasonal_times.active(cast(Iterable[Seasonal], rows), when)

    def related(self, source: str, *, depth: int = 1) -> builtins.list[CorrelationStep]:
        """Return the sources correlated with a source, in either direction, up to `depth` steps away; nearest first."""
        if not check_text(source, "source", MAX_LABEL).strip():
            hint = "Name the data source whose correlations are searched, such as aapl."
            raise InvalidInput("The source is empty.", hint)
        # Names with the same lookup word share one query. Sides are kept as lists of words.
        by_word: dict[str, builtins.list[tuple[Correlation, builtins.list[builtins.list[str]]]]] = {}

        def find_correlations(name: str) -> Sequence[Correlation]:
            """Return the correlations with a side that equals a name or begins with it."""
            lead, word = fold(name).split(), prefix_key(name)
            if not word:
                rows = [row for side in _SIDES for row in self._domain.rows("correlations", where={side: name})]
                return cast(builtins.list[Correlation], rows)
            if word not in by_word:
                named = [row for row in self._domain.naming([word]) if isinstance(row, Correlation)]
                by_word[word] = [(row, [fold(side).split() for side in row.names]) for row in named]
            return [row for row, sides in by_word[word] if any(side[: len(lead)] == lead for side in sides)]

        return lookup.walk(find_correlations, source, check_int(depth, "depth", least=1, most=MAX_DEPTH))

    def read(self, text: str) -> builtins.list[KnowledgeReading]:
        """Return the rows that capture would store or drop for a text. Changes nothing."""
        items = extract_knowledge(check_text(text, "text", MAX_TEXT))
        return [
            KnowledgeReading(item.content, check_table(item.table), item.fields, item.denied, item.confidence)
            for item in items
            if item.table
        ]

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
        """Store a verdict on an anomaly and apply it to the claims that it names, in one changeset.

        A later verdict on the same anomaly replaces it and reverts its effect; if it names no claims, it applies to the
        same ones. Repeating a verdict changes nothing and returns changeset 0.
        """
        check_bool(process, "process")
        _refuse_derived(owner)
        redactor = self._writer.redactor()
        values = redactor.value({"anomaly": anomaly, "verdict": verdict, "note": note, "about": about, **owner})

        def decide() -> builtins.list[RowDecision]:
            new = cast(Feedback, self._writer.access.own_row(make_row("feedback", values)))
            old = cast(Feedback | None, self._get_row("feedback", new.id))
            if old:  # it keeps the claims if the new verdict names none, and the note if that is the same verdict
                kept = {**_get_fields(old), "note": old.note if new.verdict == old.verdict else ""}
                updates = {name: value for name, value in values.items() if value or name not in ("note", "about")}
                origin = {"id": old.id, "created_at": old.created_at, "updated_at": old.updated_at}
                new = cast(Feedback, make_row("feedback", {**kept, **updates, **origin}))
            again = old is not None and old.processed and (old.verdict, old.about) == (new.verdict, new.about)
            new = replace(new, processed=process or again)
            claims = self._take_back(None if again else old)
            for ref in new.about:
                claim = claims.get(ref) or _refuse_unknown(ref)
                if process and not again:
                    claims.move(claim, new.verdict)
            return [_put(new, old), *claims.decisions()]

        return self._commit(decide, by, why or "feedback").with_redacted(redactor.kinds)

    def process_feedback(self, *, by: str = "library", why: str = "") -> Changeset | None:
        """Apply every pending verdict to its claims, once; return None if there are none.

        Claims that no longer exist are skipped. A verdict on claims hidden from the viewer stays pending.
        """

        def decide() -> builtins.list[RowDecision]:
            claims = _PendingClaims(self._get_row)
            pending = [verdict for verdict in self.pending_feedback() if not self._find_hidden(verdict)]
            for verdict in pending:
                for claim in filter(None, map(claims.get, verdict.about)):
                    claims.move(claim, verdict.verdict)
            return [*(_put(replace(verdict, processed=True), verdict) for verdict in pending), *claims.decisions()]

        return self._commit_if_any(decide, by, why or "process feedback")

    def pending_feedback(self) -> builtins.list[Feedback]:
        """List the verdicts that have not been applied yet, oldest first."""
        rows = cast(builtins.list[Feedback], self._domain.rows("feedback", where={"processed": False}))
        return sorted(rows, key=lambda row: (row.created_at, row.id))

    def _take_back(self, verdict: Knowledge | None) -> _PendingClaims:
        """Return the existing claims in which a verdict still counts, without its effect; none for other rows."""
        claims = _PendingClaims(self._get_row)
        if not isinstance(verdict, Feedback) or not verdict.processed:
            return claims
        if hidden := self._find_hidden(verdict):
            hint = "Use an admin key to change it."
            raise Forbidden(f"{verdict.ref} is about {hidden[0]}, which this key may not read.", hint)
        past = self._domain.history("feedback", verdict.id)
        for claim in filter(None, map(claims.get, verdict.about)):
            if confidence.verdict_counts(past, self._domain.history(claim.TABLE, claim.id), claim.ref):
                claims.move(claim, verdict.verdict, -1, "a verdict was taken back")
        return claims

    def _find_hidden(self, verdict: Feedback) -> builtins.list[str]:
        """Return the judged claims that the viewer cannot see, now or in the past."""
        hidden = []
        for ref in verdict.about if self._viewer else ():
            try:
                if not self._get_row(*parse_ref(ref)) and not self._domain.history(*parse_ref(ref)):
                    hidden.append(ref)
            except NotFound:  # a row that never existed
                hidden.append(ref)
        return hidden

    # ── deciding ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _get_row(self, table: Table, key: Any) -> Knowledge | None:
        rows = self._domain.get(table, [key]) if isinstance(key, str) and key else []
        return rows[0] if rows else None

    def _commit(self, decide: _Decide, by: str, why: str) -> Changeset:
        return cast(Changeset, self._commit_if_any(decide, by, why))

    def _commit_if_any(self, decide: _Decide, by: str, why: str) -> Changeset | None:
        """Make and apply decisions. On a conflict with another process, decide again on the current rows."""
        for tries in range(1, _TRIES + 1):
            try:
                with self._writer.lock:
                    decisions = decide()
                    if not decisions:
                        return None
                    unchanged = self._find_unchanged(decisions, by, why)
                    return unchanged or self._writer.apply(decisions, by=by, why=why)
            except Conflict:
                if tries == _TRIES:
                    raise
                pause = random.uniform(0, min(0.1, 0.002 * 2**tries))  # noqa: S311  # avoids repeated collisions
                time.sleep(pause)
        return None

    def _find_unchanged(self, decisions: Sequence[RowDecision], by: str, why: str) -> Changeset | None:
        """Return a changeset 0 of noops if the decisions only store rows that exist unchanged; else None."""
        rows: builtins.list[Knowledge] = []
        for decision in decisions:
            if not isinstance(decision, PutRow):
                return None
            row = self._get_row(decision.row.TABLE, decision.row.id)
            if row is None or not is_same_row(row, decision.row):
                return None
            rows.append(row)
        check_text(by, "by", MAX_LABEL)
        check_text(why, "why", MAX_TEXT)
        at = self._clock()
        shared: dict[str, Any] = {"id": 0, "changeset": 0, "action": "noop", "at": at, "by": by, "why": why}
        noops = [KnowledgeChange(table=row.TABLE, key=row.id, before=row, after=row, **shared) for row in rows]
        return Changeset(id=0, at=at, by=by, why=why, knowledge=tuple(noops))


class _PendingClaims:
    """Claims moved by verdicts; each is stored once, however many verdicts apply."""

    def __init__(self, get_row: Callable[[Table, str], Knowledge | None]) -> None:
        self._get_row = get_row
        self._old: dict[str, Claim | None] = {}
        self._new: dict[str, tuple[Claim, str]] = {}

    def get(self, ref: str) -> Claim | None:
        """Return the claim with the moves so far; None if it does not exist."""
        if ref not in self._old:
            self._old[ref] = cast(Claim | None, self._get_row(*parse_ref(ref)))
        return self._new[ref][0] if ref in self._new else self._old[ref]

    def move(self, claim: Claim, verdict: str, times: Literal[1, -1] = 1, reason: str = "") -> None:
        """Apply a verdict or revert it. The reason contains no text of the verdict, which may be erased later."""
        self._new[claim.ref] = (confidence.apply_verdict(claim, verdict, times), reason or verdict.replace("_", " "))

    def decisions(self) -> Iterator[RowDecision]:
        """Yield decisions that store the moved claims."""
        for ref, (new, reason) in self._new.items():
            old = self._old[ref]
            if old is not None and new != old:
                yield _put(new, old, reason)


def _put(new: Knowledge, old: Knowledge | None, reason: str = "") -> PutRow:
    return PutRow(new, reason, as_of=old.updated_at if old else "")


def _change_row(old: Knowledge, values: Mapping[str, Any]) -> Knowledge:
    """Return the row with new field values. A memory that no longer matches the content is unlinked."""
    updates = {name: value for name, value in values.items() if name not in ("created_at", "updated_at")}
    new = make_row(old.TABLE, {**_get_fields(old), **updates})
    if not isinstance(old, Claim) or not isinstance(new, Claim):
        return new
    if "memory" not in values and new.says != old.says:
        new = replace(new, memory=None)
    return confidence.carry_confidence(old, new, stated="confidence" in values)


def _get_fields(row: Knowledge) -> dict[str, Any]:
    return {field.name: getattr(row, field.name) for field in fields(row)}


def _refuse_derived(values: Mapping[str, Any]) -> None:
    if derived := sorted(_FOLLOWS & values.keys()):
        hint = "Set the confidence instead, or give feedback with `cofio knowledge feedback`."
        raise InvalidInput(f"{', '.join(derived)} cannot be set: cofio computes it from feedback.", hint)


def _refuse_unknown(ref: str) -> NoReturn:
    raise NotFound(f"There is no {ref}.", f"`cofio knowledge list {ref.partition('/')[0]}` lists the rows.")
