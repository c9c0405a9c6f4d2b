"""Memories: add, correct, archive, erase, list and count them."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Unpack

from cofio.errors import Forbidden, HeldForReview, InvalidInput, NotFound
from cofio.ingest.extract import by_judgement
from cofio.ingest.manipulation import find_manipulation
from cofio.ingest.reconcile import decide
from cofio.ingest.reconcile.compare import Comparer, WordComparer
from cofio.ingest.review import approve_item, discard_item, read_candidate, require_harmless
from cofio.ingest.writer import Writer, check_author
from cofio.maintenance import bulk, consolidate
from cofio.models.exchange import Item, ItemResolution
from cofio.models.memory import (
    CATEGORIES,
    KINDS,
    MAX_LABEL,
    MAX_PAGE,
    Add,
    Change,
    Changeset,
    Decision,
    Delete,
    Edit,
    EditKwargs,
    Fact,
    FactKwargs,
    FreshnessResult,
    Memory,
    Novelty,
    Page,
    Project,
    Purge,
    RepeatedFact,
    Restore,
    Scope,
    ScopeKwargs,
    Update,
    as_fact,
    as_scope,
    check_fraction,
    check_int,
    check_text,
    fact_of,
    known_fields,
)
from cofio.ports import Basis, Clock, Judge, Settles, Store, Vector
from cofio.retrieval.log import RetrievalLog
from cofio.text.tokens import embedding_text


@dataclass(eq=False)
class MemoryService:
    """Reads and changes the memories that one caller may see."""

    writer: Writer
    log: RetrievalLog
    clock: Clock
    comparer: Comparer
    judge: Judge | None  # None: patterns and words decide
    duplicate_threshold: float
    novelty_threshold: float

    @property
    def _store(self) -> Store:
        return self.writer.access.store

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(
        self,
        fact: str | Fact,
        *,
        dedup: bool = True,
        keep_secret: bool = False,
        by: str = "library",
        why: str = "",
        **fields: Unpack[FactKwargs],
    ) -> Change:
        """Store a fact. The change is "add", "update" (it replaced a memory) or "noop" (a memory already says it).

        Secrets in it are redacted, as its `redacted` says; the owner may keep them. Raise HeldForReview, and hold the
        fact in the inbox, if it would manipulate an agent.
        """
        return self.add_all([as_fact(fact, fields)], dedup=dedup, keep_secret=keep_secret, by=by, why=why)[0]

    def add_all(
        self,
        facts: Sequence[str | Fact],
        *,
        dedup: bool = True,
        keep_secret: bool = False,
        by: str = "library",
        why: str = "",
    ) -> builtins.list[Change]:
        """Store many facts in one changeset; one change per fact, in order. Secrets are redacted as in `add`."""
        if isinstance(facts, str):
            raise InvalidInput("facts is one text.", "Give a list of facts; use `add` for a single fact.")
        writer = self.writer
        redactors = [writer.redactor(keep_secret=keep_secret) for _ in facts]
        clean = [redactor.record(as_fact(fact, {})) for redactor, fact in zip(redactors, facts, strict=True)]
        checked = [writer.add_anchors(self._own_fact(fact)) for fact in clean]
        if not checked:
            return []
        check_author(by, why)
        require_harmless(checked, self._store.inbox, parking=writer.access.whole.inbox)
        changes = self._commit_facts(checked, dedup, by, why or "add")
        return [
            replace(change, redacted=redactor.kinds) if redactor.kinds else change
            for redactor, change in zip(redactors, changes, strict=True)
        ]

    def approve(self, item_id: int, *, by: str = "library") -> Item:
        """Store a memory candidate that is held for review, as it was said."""
        item, inbox = self._get_held(item_id), self._store.inbox
        check_author(by)

        def settle(changeset: Changeset) -> ItemResolution:
            return approve_item(item, changeset.changes)

        self._commit_facts([read_candidate(item)], True, by, "approved in review", settle)
        return inbox.item(item.id)

    def discard(self, item_id: int) -> Item:
        """Reject a memory candidate that is held for review."""
        item = self._get_held(item_id)
        self.writer.access.whole.inbox.settle(discard_item(item))
        return self._store.inbox.item(item.id)

    def _get_held(self, item_id: int) -> Item:
        """Return an item of the caller. Raise Forbidden for an agent: a person decides."""
        if self.writer.access.provenance == "assistant":
            raise Forbidden("An agent cannot decide about held memories.", "Ask a person to review the inbox.")
        self._store.inbox.item(check_int(item_id, "id"))  # raises NotFound for the items of others
        return self.writer.access.whole.inbox.item(item_id)

    def _commit_facts(
        self, checked: Sequence[Fact], dedup: bool, by: str, why: str, settles: Settles | None = None
    ) -> builtins.list[Change]:
        """Store facts whose words are redacted; return one change per fact."""
        writer = self.writer
        vectors = writer.encoder.embed([embedding_text(fact.text, fact.speaker) for fact in checked])
        if not dedup:
            decisions = [Add(fact) for fact in checked]
            return list(writer.commit(decisions, dict(enumerate(vectors)), by=by, why=why).changes)
        # Repeats are logged as sightings, clearly replaced memories are archived.
        with_kinds = [self._detect_kind(fact) for fact in checked]
        typed = decide.TypedFacts([], [], [], {})

        def decide_facts() -> tuple[builtins.list[Decision], dict[int, Vector]]:
            nonlocal typed
            typed = decide.decide_typed(with_kinds, vectors, self._store, self.comparer, now=self.clock())
            needed = {
                place: vectors[number]
                for place, (number, decision) in enumerate(zip(typed.facts, typed.decisions, strict=True))
                if isinstance(decision, Add | Update)
            }
            return [*typed.decisions, *writer.removed_rows(typed.decisions)], needed

        with writer.lock:
            basis = Basis(self._store.newest_changeset(), decide_facts)
            changeset = writer.commit(*decide_facts(), by=by, why=why, basis=basis, settles=settles)
        return typed.changes(changeset.changes)

    def apply(
        self,
        decisions: Sequence[Decision],
        *,
        by: str,
        why: str,
        undoes: int | None = None,
        part_of: int | None = None,
        keep_secret: bool = False,
    ) -> Changeset:
        """Apply decisions in one transaction; those about domain knowledge are applied last.

        Secrets are redacted; only the owner may keep one.
        """
        own_decisions = [self.writer.access.own_decision(decision) for decision in decisions]
        return self.writer.apply(own_decisions, by=by, why=why, undoes=undoes, part_of=part_of, keep_secret=keep_secret)

    def _own_fact(self, fact: Fact) -> Fact:
        """Return the fact as the caller may store it. A time in the future becomes now: it could not be corrected."""
        own = self.writer.access.own_fact(fact)
        return replace(own, created_at=min(own.created_at, self.clock())) if own.created_at else own

    def _detect_kind(self, fact: Fact) -> Fact:
        """Return a typed-in fact with the kind detected from its text, if none was given."""
        if fact.kind != "other" or fact.category != "detail" or self.judge is None:
            return fact
        kind, _ = by_judgement.kind_of(fact.text, self.judge)
        return fact if kind == "other" else replace(fact, kind=kind, category="")

    def update(
        self,
        memory_id: int,
        *,
        keep_secret: bool = False,
        by: str = "library",
        why: str = "",
        **changes: Unpack[EditKwargs],
    ) -> Change:
        """Change fields of a memory in place. A new text drops the domain knowledge read from the old text.

        Secrets in the new values are redacted as in `add`; values that do not change are left alone.
        """
        _require_harmless_text(changes.get("text", ""))
        edits = [Edit(memory_id, changes, why, self.writer.access.provenance)]
        changeset = self.writer.apply_corrections(edits, by=by, why=why or "edit", keep_secret=keep_secret)
        return changeset.changes[0]

    def supersede(
        self, old_id: int, new: str | Fact, *, by: str = "library", why: str = "", **fields: Unpack[FactKwargs]
    ) -> tuple[Change, Change]:
        """Replace a memory by a new one. Return the change that wrote it and the one that archived the old memory.

        The domain knowledge read from the old memory is removed.
        """
        known_fields(fields, Fact, "fact")
        _require_harmless_text(new.text if isinstance(new, Fact) else new)

        def decide_update() -> builtins.list[Decision]:
            fact = as_fact(new, fields) if isinstance(new, Fact) else self._build_successor(old_id, new, fields)
            update = Update(old_id, self._own_fact(fact), why)
            return [update, *self.writer.removed_rows([update])]

        changeset = self.writer.decide_and_apply(decide_update, by=by, why=why or "supersede")
        written, archived = changeset.changes
        return written, archived

    def _build_successor(self, old_id: int, text: str, fields: FactKwargs) -> Fact:
        """Return the fact that replaces a memory: scope and labels carry over, the time does not."""
        changes: dict[str, Any] = {name: value for name, value in fields.items() if value not in (None, "")}
        if "kind" in changes:
            changes = {"category": "", **changes}  # a new kind sets its own category
        fresh = {"text": text, "created_at": "", "context": "", "origin": "", "anchors": ()}
        return replace(fact_of(self.writer.access.get_memory(old_id)), **{**fresh, **changes})

    def delete(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Archive a memory and drop the domain knowledge read from it; `restore` or `undo` brings both back."""
        return self.writer.apply_corrections([Delete(memory_id, why)], by=by, why=why or "delete").changes[0]

    def restore(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Restore an archived memory with the domain knowledge that was dropped with it."""
        restore = [Restore(memory_id, why)]
        return self.writer.decide_and_apply(
            lambda: [*restore, *self.writer.restored_rows(restore)], by=by, why=why or "restore"
        ).changes[0]

    def purge(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Erase a memory permanently, from the journal too, with the domain knowledge read from it."""
        self.log.flush_or_tell()  # queries with its words are erased, also those that are not written yet
        return self.writer.apply_corrections([Purge(memory_id, why)], by=by, why=why or "purge").changes[0]

    def mark_fresh(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Mark a memory as still valid: fingerprint its references again. InvalidInput if none of them exists."""

        def decide_edit() -> builtins.list[Decision]:
            memory = self.writer.access.get_memory(memory_id)
            anchors = self.writer.staleness.anchors(memory.text, memory.project)
            if not anchors:
                hint = "If it no longer holds, `cofio supersede` corrects it and `cofio forget` archives it."
                raise InvalidInput(
                    f"Memory {memory_id} refers to no file, definition or command that this machine has.", hint
                )
            return [Edit(memory_id, {"anchors": anchors}, why)]

        return self.writer.decide_and_apply(decide_edit, by=by, why=why or "mark fresh").changes[0]

    def bulk(
        self,
        ids: Sequence[int],
        action: str,
        *,
        changes: Mapping[str, Any] = MappingProxyType({}),
        tags: Sequence[str] = (),
        by: str = "library",
        why: str = "",
    ) -> Changeset:
        """Archive, restore, pin, unpin, edit, tag or untag many memories in one changeset.

        `changes` are the fields of an edit, `tags` are added or removed. Memories already in the wanted state are
        skipped; Conflict if all are. Domain knowledge is dropped and restored with the memories, as in `delete` and
        `restore`.
        """
        unique_ids = list(dict.fromkeys(check_int(memory_id, "id") for memory_id in ids))
        check_int(len(unique_ids), "The number of ids", least=1, most=bulk.MOST)

        def decide_bulk() -> builtins.list[Decision]:
            memories = self._store.get(unique_ids)
            if missing := sorted(set(unique_ids) - {memory.id for memory in memories}):
                listed = ", ".join(map(str, missing[:5])) + (" …" if len(missing) > 5 else "")
                hint = "Nothing was changed. `cofio list` lists the memories; a purged memory is gone for good."
                raise NotFound(f"There is no memory {listed}.", hint)
            decisions = bulk.decide(memories, action, changes, tags, why)
            return [*decisions, *self.writer.removed_rows(decisions), *self.writer.restored_rows(decisions)]

        return self.writer.decide_and_apply(decide_bulk, by=by, why=why or action)

    def plan_delete_all(self, why: str = "", **scope: Unpack[ScopeKwargs]) -> builtins.list[Delete]:
        """Return decisions that would archive every live memory of the scope. Changes nothing."""
        checked, after, decisions = as_scope(scope), None, []
        while memories := self._store.page(checked, limit=MAX_PAGE, after=after)[0]:
            decisions += [Delete(memory.id, why) for memory in memories if not memory.archived]
            after = memories[-1].id
        return decisions

    def find_duplicates(self, *, threshold: float | None = None, **scope: Unpack[ScopeKwargs]) -> builtins.list[Delete]:
        """Return decisions that would merge duplicates, with reasons. Changes nothing."""
        least = self.duplicate_threshold if threshold is None else check_fraction(threshold, "threshold", least=0.5)
        comparer = self.comparer if self.judge else WordComparer(least)
        return consolidate.decide_duplicates(self._store, as_scope(scope), least, comparer)

    def merge_duplicates(
        self, *, threshold: float | None = None, by: str = "library", why: str = "", **scope: Unpack[ScopeKwargs]
    ) -> Changeset | None:
        """Merge duplicates in one changeset; return None if there are none."""
        as_of = self._store.newest_changeset()
        decisions = [replace(delete, as_of=as_of) for delete in self.find_duplicates(threshold=threshold, **scope)]
        return self.writer.apply(decisions, by=by, why=why or "merge duplicates") if decisions else None

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, memory_id: int) -> Memory:
        """Return a memory, archived or not."""
        self.log.flush_or_tell()
        return self.writer.access.get_memory(memory_id)

    def texts(self, ids: Sequence[int]) -> builtins.list[str]:
        """Return the texts of these memories, in order; deleted ones are skipped."""
        return [memory.text for memory in self._store.get(ids)]

    def list(self, *, limit: int = 50, after: int | None = None, skip: int = 0, **scope: Unpack[ScopeKwargs]) -> Page:
        """Return a page of the scope's memories, newest first, after skipping the first `skip`."""
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        check_int(skip, "skip", least=0)
        below = after if after is None else check_int(after, "after")
        checked = as_scope(scope)
        self.log.flush_or_tell()
        memories, total = self._store.page(checked, limit=limit + 1, after=below, skip=skip)
        page = memories[:limit]
        return Page(tuple(page), page[-1].id if len(memories) > limit else None, total)

    def __iter__(self) -> Iterator[Memory]:
        """Yield every live memory, newest first."""
        after = None
        while memories := self._store.page(Scope(), limit=MAX_PAGE, after=after)[0]:
            yield from memories
            after = memories[-1].id

    def count(self) -> int:
        """Return the number of live memories."""
        return self._store.page(Scope(), limit=1)[1]

    def stats(self) -> dict[str, Any]:
        """Return counts of memories, changes and retrievals, and the size on disk."""
        self.log.flush_or_tell()
        return self._store.stats()

    def projects(self, *, limit: int = 100, after: str = "") -> builtins.list[Project]:
        """Return the projects of live memories by name, starting after `after`."""
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        check_text(after, "after", MAX_LABEL)
        return [Project(*project) for project in self._store.projects(Scope(), limit, after)]

    def freshness(self, memory_id: int) -> FreshnessResult:
        """Return whether the code that a memory references has changed."""
        return self.writer.staleness.check(self.get(memory_id))

    def is_novel(self, fact: str | Fact, *, threshold: float | None = None, **scope: Unpack[ScopeKwargs]) -> Novelty:
        """Return whether no memory of the scope says this yet. Does not count as a retrieval."""
        checked, within = as_fact(fact, {}), as_scope(scope)
        vector = self.writer.encoder.embed([embedding_text(checked.text, checked.speaker)])[0]
        least = 0.0 if threshold is None else check_fraction(threshold, "threshold")
        comparer = self.comparer if self.judge else WordComparer(least or self.novelty_threshold)
        return decide.novelty(checked, vector, self._store, within, comparer, least)

    def detect_cross_agent_patterns(
        self, *, min_occurrences: int = 2, limit: int = 20, category: str = "", team: str | None = None
    ) -> builtins.list[RepeatedFact]:
        """Return facts that agents repeatedly stated to the team, most frequent first; optionally of one category."""
        check_int(min_occurrences, "min_occurrences", least=1)
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        repeats = self._store.repeated(min_occurrences, limit, _team_scope(category, team))
        memories = {memory.id: memory for memory in self._store.get([repeat[1] for repeat in repeats])}
        known = [repeat for repeat in repeats if repeat[1] in memories]
        return [RepeatedFact(agent, memories[memory_id], times) for agent, memory_id, times in known]

    def get_team_facts(self, *, limit: int = 50, category: str = "", team: str | None = None) -> builtins.list[Memory]:
        """Return team memories, most recently stated first; optionally of a category or kind.

        A viewer with several teams may select one.
        """
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        self.log.flush_or_tell()
        return self._store.latest(_team_scope(category, team), limit)


def _team_scope(category: str, team: str | None) -> Scope:
    """Return the scope of the team's memories, or of one team's. A kind is accepted as category too."""
    if category in KINDS and category not in CATEGORIES:
        return Scope(visibility=("team",), kind=category, team=team)
    if category and category not in CATEGORIES:
        choices = ", ".join(dict.fromkeys((*CATEGORIES, *KINDS)))
        raise InvalidInput(f"There is no category {category!r}.", f"Give one of: {choices}.")
    return Scope(visibility=("team",), category=category, team=team)


def _require_harmless_text(text: object) -> None:
    """Raise HeldForReview if a new text of a memory would manipulate an agent."""
    if isinstance(text, str) and (reason := find_manipulation(text)):
        raise HeldForReview(f"Not changed: {reason}.", "Add it as a new memory: a person can then approve it.")
