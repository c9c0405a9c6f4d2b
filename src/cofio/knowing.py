"""What is known exactly of a domain, for whoever keeps it: `keeper.knowledge`.

    fields ─ made, restated ─▶ Put ┐
    verdict ─ belief ─▶ Put, Put … ├─ keeper.apply ─▶ KnowledgeChange      value, time, name ─ exact lane ─▶ what holds
    id ─▶ Drop, Erase ─────────────┘

It strings the steps of `knowledge` together; what they decide is theirs. Whatever is decided on a row is decided again
when another process changes that row meanwhile: each decision says what it was made on, and the store refuses it else.
"""

from __future__ import annotations

import builtins
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from typing import Any, Literal, NamedTuple, NoReturn, Protocol, TypeAlias, cast

from cofio.domain import (
    ANY,
    Active,
    Claim,
    Correlation,
    Drop,
    Erase,
    Feedback,
    Firing,
    Knowledge,
    KnowledgeChange,
    KnowledgeDecision,
    Pattern,
    Put,
    Reading,
    Seasonal,
    Step,
    Table,
    Threshold,
    checked_table,
    fold,
    leading,
    made,
    parsed,
    same,
)
from cofio.errors import Conflict, Forbidden, InvalidInput, NotFound
from cofio.extract.knowledge import extract_knowledge
from cofio.knowledge import belief, lane, seasons
from cofio.model import MAX_LABEL, MAX_TEXT, Changeset, Viewer, checked_text, moment, truth, whole
from cofio.ports import Clock, Domain

MAX_PAGE = 1_000
MAX_DEPTH = 10  # steps of a walk
_TRIES = 20  # of a decision that others were in the way of: whenever they are, one of them gets on
_FOLLOWS = {"prior", "confirmed", "refuted", "processed"}  # what nobody sets: it comes of confidence and verdicts
_SIDES = ("source_a", "source_b")
#: Decides, on what is there.
_Decide: TypeAlias = Callable[[], Sequence[KnowledgeDecision]]


class Apply(Protocol):
    """`Keeper.apply`."""

    def __call__(
        self, decisions: Sequence[Any], *, by: str, why: str, knowledge: Sequence[KnowledgeDecision]
    ) -> Changeset: ...


class Lent(NamedTuple):
    """What a keeper lends to its knowledge."""

    domain: Domain
    apply: Apply
    own: Callable[[Knowledge], Knowledge]  # the row as whoever puts it may keep it
    clock: Clock
    deciding: AbstractContextManager[Any]
    viewer: Viewer | None  # who looks; None for the owner, who sees everything


class Knowing:
    """The tables of domain knowledge. Belongs to a keeper, and sees what that sees."""

    def __init__(self, lent: Lent) -> None:
        self._domain, self._apply, self._own, self._clock, self._deciding, self._viewer = lent

    # ── the tables ────────────────────────────────────────────────────────────────────────────────────────────────────

    def put(self, table: str, *, by: str = "library", why: str = "", **known: Any) -> KnowledgeChange:
        """Keep a row of a table: new, or in the place of what has its id.

        What is kept stays what it was where the fields say nothing new. A confidence that is given counts from now on,
        and the verdicts so far do not; one that is not given stays, and with it the verdicts unless what it says has
        changed (`knowledge.belief.restated`). Where nothing changes, nothing is written: the changeset is 0.
        """
        if checked_table(table) == "feedback":
            old = cast(Feedback | None, self._there("feedback", known.get("id")))
            said = {"anomaly": old.anomaly if old else "", "verdict": old.verdict if old else "", **known}
            return self.feedback(**said, by=by, why=why).knowledge[0]
        _refuse_what_follows(known)
        done = self._decided(lambda: [self._put(checked_table(table), known)], by, why or "put")
        return done.knowledge[0]

    def _put(self, table: Table, given: Mapping[str, Any]) -> Put:
        old = self._there(table, given.get("id"))
        if old is None:
            new = self._own(made(table, given))
            old = self._there(table, new.id)
        if old is not None:
            new = _changed(old, given)
        if isinstance(new, Seasonal):
            seasons.check(new)
        return _put(new, old)

    def upsert_pattern(self, pattern: str, **known: Any) -> Pattern:
        """Keep a pattern; as it is kept."""
        return cast(Pattern, self.put("patterns", pattern=pattern, **known).after)

    def upsert_correlation(self, source_a: str, source_b: str, rule: str, **known: Any) -> Correlation:
        """Keep a correlation; as it is kept."""
        sides = {"source_a": source_a, "source_b": source_b}
        return cast(Correlation, self.put("correlations", **sides, rule=rule, **known).after)

    def upsert_threshold(self, source: str, metric: str, value: float, direction: str, **known: Any) -> Threshold:
        """Keep a threshold; as it is kept."""
        about = {"source": source, "metric": metric, "direction": direction}
        return cast(Threshold, self.put("thresholds", **about, value=value, **known).after)

    def upsert_seasonal(self, pattern: str, period: str, **known: Any) -> Seasonal:
        """Keep a seasonal pattern; as it is kept. InvalidInput when its times make no sense."""
        return cast(Seasonal, self.put("seasonal", pattern=pattern, period=period, **known).after)

    def get(self, table: str, key: str) -> Knowledge:
        """A row. NotFound when there is none."""
        return self._there(checked_table(table), key) or _refuse_unknown(f"{table}/{key}")

    def list(
        self, table: str, *, min_confidence: float = 0.0, limit: int = 50, after: str | None = None, **where: Any
    ) -> builtins.list[Knowledge]:
        """The rows of a table, claims by confidence (the highest first), feedback newest first."""
        whole(limit, "limit", least=1, most=MAX_PAGE)
        return self._domain.rows(checked_table(table), least=min_confidence, where=where, limit=limit, after=after)

    def patterns(self, min_confidence: float = 0.0, **how: Any) -> builtins.list[Pattern]:
        """The patterns, the surest first."""
        return cast(builtins.list[Pattern], self.list("patterns", min_confidence=min_confidence, **how))

    def delete(self, table: str, key: str, *, by: str = "library", why: str = "") -> KnowledgeChange:
        """Remove a row; `undo` of its changeset brings it back. What a processed verdict moved moves back with it."""

        def decide() -> builtins.list[KnowledgeDecision]:
            row = self.get(table, key)
            return [Drop(row.TABLE, key, why, as_of=row.updated_at), *self._moved_back(row)]

        return self._decided(decide, by, why or "delete").knowledge[0]

    def purge(self, table: str, key: str, *, by: str = "library", why: str = "") -> KnowledgeChange:
        """Erase a row for good, from the journal too. What a processed verdict moved moves back with it."""

        def decide() -> builtins.list[KnowledgeDecision]:
            row = self._there(checked_table(table), key)  # what was removed before can be erased too
            return [Erase(checked_table(table), key, why), *(self._moved_back(row) if row else ())]

        return self._decided(decide, by, why or "purge").knowledge[0]

    def history(self, table: str, key: str) -> builtins.list[KnowledgeChange]:
        """Every change of a row, oldest first."""
        return self._domain.history(checked_table(table), key)

    def counts(self) -> dict[str, int]:
        """How many rows each table has."""
        return self._domain.counts()

    # ── the exact lane ────────────────────────────────────────────────────────────────────────────────────────────────

    def evaluate(self, source: str, metric: str, value: float, *, unit: str = "") -> builtins.list[Firing]:
        """The thresholds that this value crosses, the surest first: those of the source, and those of every source."""
        for name, given in (("source", source), ("metric", metric), ("unit", unit)):
            checked_text(given, name, MAX_LABEL)
        found = [
            row
            for each in dict.fromkeys((source, ANY))
            for row in self._domain.rows("thresholds", where={"source": each, "metric": metric})
        ]
        return lane.firing(cast(Iterable[Threshold], found), value, unit)

    def active(self, at: str = "", *, source: str = "") -> builtins.list[Active]:
        """The seasonal patterns that are on at a time (default: now), the surest first.

        With a source, those of that source and those that name none.
        """
        checked_text(source, "source", MAX_LABEL)
        when = moment(at) if at else self._clock()
        asked: builtins.list[dict[str, Any]] = [{"source": source}, {"source": ""}] if source else [{}]
        found = [row for where in asked for row in self._domain.rows("seasonal", where=where)]
        return seasons.active(cast(Iterable[Seasonal], found), when)

    def related(self, source: str, *, depth: int = 1) -> builtins.list[Step]:
        """What goes together with a source, from either side, up to so many steps away; nearest first."""
        if not checked_text(source, "source", MAX_LABEL).strip():
            raise InvalidInput("source is empty.", "Say which source is meant.")
        return lane.walk(_Sides(self._domain), source, whole(depth, "depth", least=1, most=MAX_DEPTH))

    def read(self, text: str) -> builtins.list[Reading]:
        """What capture would read in a text: rows that it would keep, and those that it would drop. Changes nothing."""
        found = extract_knowledge(checked_text(text, "text", MAX_TEXT))
        return [
            Reading(each.content, checked_table(each.table), each.fields, each.denied, each.confidence)
            for each in found
            if each.table
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
        **whose: Any,
    ) -> Changeset:
        """Keep a verdict on an anomaly, and have the claims that it names move by it: all in one changeset.

        A later verdict on the same anomaly takes its place, and what it moved moves back; where that names no claims,
        it is about the same ones. The same again changes nothing, and its changeset is 0.
        """
        truth(process, "process")
        _refuse_what_follows(whose)
        said = {"anomaly": anomaly, "verdict": verdict, "note": note, "about": about, **whose}
        return self._decided(lambda: self._judged(said, process=process), by, why or "feedback")

    def _judged(self, said: Mapping[str, Any], *, process: bool) -> builtins.list[KnowledgeDecision]:
        """The decisions that a verdict comes to. NotFound when it is about a claim that is not there."""
        new = cast(Feedback, self._own(made("feedback", said)))
        old = cast(Feedback | None, self._there("feedback", new.id))
        if old:
            new = _replacing(old, new.verdict, said)
        again = old is not None and old.processed and (old.verdict, old.about) == (new.verdict, new.about)
        new = replace(new, processed=process or again)
        claims = _Claims(self._there)
        if old and not again:
            self._take_back(old, claims)
        for ref in new.about:
            claim = claims.get(ref) or _refuse_unknown(ref)
            if process and not again:
                claims.move(claim, new.verdict)
        return [_put(new, old), *claims.decisions()]

    def process_feedback(self, *, by: str = "library", why: str = "") -> Changeset | None:
        """Have every verdict that was only kept so far move what it names, once; None when there is none.

        Claims that are gone by now are passed over. A verdict on what may not be seen waits for somebody who may.
        """

        def decide() -> builtins.list[KnowledgeDecision]:
            claims = _Claims(self._there)
            pending = [each for each in self.pending_feedback() if not self._hidden(each)]
            for each in pending:
                for claim in filter(None, map(claims.get, each.about)):
                    claims.move(claim, each.verdict)
            return [*(_put(replace(each, processed=True), each) for each in pending), *claims.decisions()]

        return self._decided_if_any(decide, by, why or "process feedback")

    def pending_feedback(self) -> builtins.list[Feedback]:
        """The verdicts that have not moved anything yet, oldest first."""
        found = cast(builtins.list[Feedback], self._domain.rows("feedback", where={"processed": False}))
        return sorted(found, key=lambda each: (each.created_at, each.id))

    def _moved_back(self, row: Knowledge) -> Iterator[KnowledgeDecision]:
        """What undoes the moves of a verdict; nothing for any other row."""
        claims = _Claims(self._there)
        if isinstance(row, Feedback):
            self._take_back(row, claims)
        return claims.decisions()

    def _take_back(self, verdict: Feedback, claims: _Claims) -> None:
        """Move back what a verdict moved: the claims that are still there, and in which it still counts."""
        if not verdict.processed:
            return
        if hidden := self._hidden(verdict):
            raise Forbidden(f"{verdict.ref} judges {hidden[0]}, which you may not see.", "It takes an admin key.")
        past = self._domain.history("feedback", verdict.id)
        for claim in filter(None, map(claims.get, verdict.about)):
            if belief.counts(past, self._domain.history(claim.TABLE, claim.id), claim.ref):
                claims.move(claim, verdict.verdict, -1, "a verdict was taken back")

    def _hidden(self, verdict: Feedback) -> builtins.list[str]:
        """The claims that it judges and that are not for who looks: neither they nor what became of them are seen."""
        refs = verdict.about if self._viewer else ()
        return [ref for ref in refs if not self._there(*parsed(ref)) and not self._past(*parsed(ref))]

    def _past(self, table: Table, key: str) -> Sequence[KnowledgeChange]:
        """The history of a row; nothing of one that never was."""
        try:
            return self._domain.history(table, key)
        except NotFound:
            return ()

    # ── deciding ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _there(self, table: Table, key: Any) -> Knowledge | None:
        found = self._domain.get(table, [key]) if isinstance(key, str) and key else []
        return found[0] if found else None

    def _decided(self, decide: _Decide, by: str, why: str) -> Changeset:
        return cast(Changeset, self._decided_if_any(decide, by, why))

    def _decided_if_any(self, decide: _Decide, by: str, why: str) -> Changeset | None:
        """Do what is decided. What another process was in the way of is decided anew, on what is there by then."""
        for tries in range(1, _TRIES + 1):
            try:
                with self._deciding:
                    decisions = decide()
                    if not decisions:
                        return None
                    known = self._known_already(decisions, by, why)
                    return known or self._apply([], by=by, why=why, knowledge=decisions)
            except Conflict:
                if tries == _TRIES:
                    raise
                pause = random.uniform(0, min(0.1, 0.002 * 2**tries))  # noqa: S311  # else two would meet again and again
                time.sleep(pause)
        return None

    def _known_already(self, decisions: Sequence[KnowledgeDecision], by: str, why: str) -> Changeset | None:
        """What comes of decisions that put only what is there just so: noops of a changeset 0, and nothing is written.

        None where anything is to be done.
        """
        rows = [row for each in decisions if (row := self._there_just_so(each))]
        if len(rows) < len(decisions):
            return None
        checked_text(by, "by", MAX_LABEL)
        checked_text(why, "why", MAX_TEXT)
        at = self._clock()
        noops = (
            KnowledgeChange(
                id=0,
                changeset=0,
                action="noop",
                table=row.TABLE,
                key=row.id,
                at=at,
                by=by,
                why=why,
                before=row,
                after=row,
            )
            for row in rows
        )
        return Changeset(id=0, at=at, by=by, why=why, knowledge=tuple(noops))

    def _there_just_so(self, decision: KnowledgeDecision) -> Knowledge | None:
        """The row that is there, where the decision puts the same; None else."""
        if not isinstance(decision, Put):
            return None
        there = self._there(decision.known.TABLE, decision.known.id)
        return there if there and same(there, decision.known) else None


class _Sides:
    """The correlations with a side that is of some name or begins with it, as one walk asks for them. Many names are
    found by the same word: what that finds is read once a walk, and its sides are folded once."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._found: dict[str, list[tuple[Correlation, list[list[str]]]]] = {}

    def __call__(self, name: str) -> Sequence[Correlation]:
        asked, word = fold(name).split(), leading(name)
        if not word:
            found = [row for side in _SIDES for row in self._domain.rows("correlations", where={side: name})]
            return cast(builtins.list[Correlation], found)
        if word not in self._found:
            rows = [row for row in self._domain.naming([word]) if isinstance(row, Correlation)]
            self._found[word] = [(row, [fold(side).split() for side in row.names]) for row in rows]
        return [row for row, sides in self._found[word] if any(side[: len(asked)] == asked for side in sides)]


class _Claims:
    """Claims as verdicts move them: each is put once, however many verdicts do."""

    def __init__(self, there: Callable[[Table, str], Knowledge | None]) -> None:
        self._there = there
        self._old: dict[str, Claim | None] = {}
        self._new: dict[str, tuple[Claim, str]] = {}

    def get(self, ref: str) -> Claim | None:
        """The claim as it has been moved so far; None when it is not there."""
        if ref not in self._old:
            self._old[ref] = cast(Claim | None, self._there(*parsed(ref)))
        return self._new[ref][0] if ref in self._new else self._old[ref]

    def move(self, claim: Claim, verdict: str, times: Literal[1, -1] = 1, reason: str = "") -> None:
        """Move it by a verdict, or back. The reason holds no word of the verdict's: that may be erased some day."""
        self._new[claim.ref] = (belief.judged(claim, verdict, times), reason or verdict.replace("_", " "))

    def decisions(self) -> Iterator[KnowledgeDecision]:
        """What puts the moved ones in the place of what they were."""
        for ref, (new, reason) in self._new.items():
            old = self._old[ref]
            if old is not None and new != old:
                yield _put(new, old, reason)


def _put(new: Knowledge, old: Knowledge | None, reason: str = "") -> Put:
    return Put(new, reason, as_of=old.updated_at if old else "")


def _changed(old: Knowledge, given: Mapping[str, Any]) -> Knowledge:
    """The row with some of its fields anew. A memory that says what it no longer says is not its own any more."""
    told = {name: value for name, value in given.items() if name not in ("created_at", "updated_at")}
    new = made(old.TABLE, {**_fields(old), **told})
    if not isinstance(old, Claim) or not isinstance(new, Claim):
        return new
    if "memory" not in given and new.says != old.says:
        new = replace(new, memory=None)
    return belief.restated(old, new, stated="confidence" in given)


def _replacing(old: Feedback, verdict: str, said: Mapping[str, Any]) -> Feedback:
    """A later verdict in the place of an earlier one: about the same where it names nothing, and with its own note."""
    note = old.note if verdict == old.verdict else ""
    told = {name: value for name, value in said.items() if value or name not in ("note", "about")}
    times = {"created_at": old.created_at, "updated_at": old.updated_at}
    return cast(Feedback, made("feedback", {**_fields(old), "note": note, **told, "id": old.id, **times}))


def _fields(row: Knowledge) -> dict[str, Any]:
    return {each.name: getattr(row, each.name) for each in fields(row)}


def _refuse_what_follows(given: Mapping[str, Any]) -> None:
    if found := sorted(_FOLLOWS & given.keys()):
        hint = "State a confidence, or give a verdict on it: the rest follows."
        raise InvalidInput(f"{', '.join(found)} cannot be set.", hint)


def _refuse_unknown(ref: str) -> NoReturn:
    raise NotFound(f"There is no {ref}.", f"cofio knowledge list {ref.partition('/')[0]} shows what there is.")
