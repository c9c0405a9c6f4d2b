"""Authorization wrapper of a store: a viewer reads only what they may see, and owns what they write.

    Scope ─ with the viewer in it ─▶ the store's own queries        ids, changes, items ─ Viewer.sees ─▶ filtered
    Decision, row of knowledge ─ stamped with user, agent and team, or refused ─▶ store.apply

Reads are filtered inside the store's queries, so that a search for k still finds k. Results of look-ups by id are
checked before they are returned. Hidden objects raise NotFound, as if they did not exist; visible objects with a
forbidden operation raise Forbidden.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from types import MappingProxyType
from typing import Any, NoReturn

from cofio.errors import Forbidden, NotFound
from cofio.models.dashboard import Agent, ChangeCounters, DailyCount, Injection, InjectionCount, MapSource
from cofio.models.domain_knowledge import (
    MAX_ID,
    Drop,
    Erase,
    Knowledge,
    KnowledgeChange,
    KnowledgeDecision,
    Put,
    Table,
    Withdraw,
    audience_of,
    owns,
    sees,
)
from cofio.models.episodes import Episode, EpisodeCounts, ExportedEpisode, Passage, shown_client
from cofio.models.exchange import Batching, Exchange, InboxStatus, Item, ItemResolution, Receipt, State, Task
from cofio.models.maintenance import ExportedMemory, UsageTracking, View
from cofio.models.memory import (
    CATEGORIES,
    KINDS,
    MAX_LABEL,
    VISIBILITIES,
    Add,
    Adopt,
    Candidate,
    Change,
    Changeset,
    Decision,
    Delete,
    Edit,
    Fact,
    Matching,
    Memory,
    Merge,
    Noop,
    Occurrence,
    Purge,
    Restore,
    Retrieval,
    Revert,
    Scope,
    Update,
    Viewer,
    apply_edit,
    merge_scope,
)
from cofio.models.sessions import AgentSession, is_own
from cofio.ports import (
    DashboardQueries,
    EpisodeIndex,
    Inbox,
    Keys,
    KnowledgeTables,
    LLMCalls,
    Notes,
    Runs,
    Settles,
    Snapshots,
    Store,
    TokenEmbeddings,
    UsageQueries,
    Vector,
)

_PAGE = 500  # rows checked per query
_ADMIN = "Use an admin key."


def of_teller(store: Store, exchange: Exchange) -> Store:
    """Return the store as seen by the exchange's speaker; unchanged if the exchange has no owner."""
    if not exchange.user and not exchange.agent:
        return store
    viewer = Viewer(agent=exchange.agent, user=exchange.user, team=exchange.team, prefixes=exchange.reach)
    return ScopedStore(store, viewer)


def refuse(subject: str, verb: str = "is") -> NoReturn:
    """Raise Forbidden for an operation that viewers may not use."""
    raise Forbidden(f"{subject} {verb} not allowed with this key.", _ADMIN)


class ScopedStore:
    """Store limited to what a viewer may see and do."""

    def __init__(self, store: Store, viewer: Viewer) -> None:
        self._store = store
        self._sight = _ReadPolicy(store, viewer)
        self._hand = _WritePolicy(self._sight)
        self.viewer = viewer
        self.inbox: Inbox = _ScopedInbox(store.inbox, self._hand)
        self.uses: UsageQueries = _ScopedUsageQueries(store.uses, self._sight)
        self.carrying: Snapshots = _ScopedSnapshots(store.carrying, self._sight)

    @property
    def runs(self) -> Runs:
        refuse("Upkeep")

    @property
    def llm_calls(self) -> LLMCalls:
        refuse("The log of language model calls")

    @property
    def keys(self) -> Keys:
        refuse("Keys", "are")

    @property
    def notes(self) -> Notes:
        refuse("Notes", "are")

    @property
    def domain(self) -> KnowledgeTables:
        return _ScopedKnowledgeTables(self._store.domain, self._sight)

    @property
    def pictures(self) -> DashboardQueries:
        return _ScopedDashboardQueries(self._store.pictures, self._sight)

    @property
    def readings(self) -> TokenEmbeddings:
        return _ScopedTokenEmbeddings(self._store.readings)

    @property
    def episodes(self) -> EpisodeIndex:
        return _ScopedEpisodeIndex(self._store.episodes, self._sight)

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def fact(self, fact: Fact) -> Fact:
        """Return the fact owned by the viewer. Forbidden if its source is out of reach."""
        return self._hand.fact(fact)

    def exchange(self, exchange: Exchange) -> Exchange:
        """Return the exchange owned by the viewer. Forbidden if its source is out of reach."""
        return self._hand.exchange(exchange)

    def row(self, row: Knowledge) -> Knowledge:
        """Return the row owned by the viewer, with the id that follows from it. Forbidden if it belongs to another."""
        return self._hand.row(row)

    def apply(
        self,
        decisions: Sequence[Decision],
        vectors: Mapping[int, Vector],
        *,
        by: str,
        why: str,
        undoes: int | None = None,
        part_of: int | None = None,
        settles: Settles | None = None,
        knowledge: Sequence[KnowledgeDecision] = (),
    ) -> Changeset:
        if undoes is not None or any(isinstance(decision, Revert | Withdraw) for decision in (*decisions, *knowledge)):
            self._hand.refuse_undo(undoes, decisions, knowledge)
        if part_of is not None and not self._sight.in_full(self._store.changeset(part_of)):
            raise NotFound(f"There is no changeset {part_of}.", "`cofio history` lists the newest.")
        permitted = [self._hand.decision(decision) for decision in decisions]
        rows = self._hand.rows(knowledge)
        changeset = self._store.apply(
            permitted, vectors, by=by, why=why, undoes=undoes, part_of=part_of, settles=settles, knowledge=rows
        )
        visible = tuple(change for change in changeset.knowledge if self._sight.sees_row(change))
        return replace(changeset, changes=tuple(self._sight.done(changeset.changes)), knowledge=visible)

    # ── finding ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, ids: Sequence[int]) -> list[Memory]:
        return self._sight.memories(self._store.get(ids))

    def said(self, ids: Sequence[int]) -> dict[int, tuple[str, str]]:
        return self._store.said(self._sight.ids(ids))

    def has_speakers(self) -> bool:
        return self._store.has_speakers()

    def page(self, scope: Scope, *, limit: int, after: int | None = None, skip: int = 0) -> tuple[list[Memory], int]:
        memories, total = self._store.page(self._sight.scope(scope), limit=limit, after=after, skip=skip)
        return self._sight.memories(memories), total

    def newest(self, scope: Scope, limit: int) -> list[Memory]:
        return self._sight.memories(self._store.newest(self._sight.scope(scope), limit))

    def latest(self, scope: Scope, limit: int) -> list[Memory]:
        return self._sight.memories(self._store.latest(self._sight.scope(scope), limit))

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        return self._store.nearest(vector, k, self._sight.scope(scope), also=self._sight.ids(list(also)))

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        return self._store.matching(words, k, self._sight.scope(scope))

    def holding(self, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        matches = self._store.holding(words, self._sight.ids(ids))
        return {memory_id: matches.get(memory_id, []) for memory_id in ids}

    def known(self, text: str, scope: Scope) -> list[int]:
        return self._store.known(text, self._sight.scope(scope))

    def pairs(self, threshold: float, scope: Scope) -> Iterator[tuple[int, int, float]]:
        return self._store.pairs(threshold, self._sight.scope(scope))

    def neighbours(self, ids: Sequence[int], threshold: float, k: int) -> Iterator[tuple[int, list[Candidate]]]:
        return self._store.neighbours(self._sight.ids(ids), threshold, k)

    # ── the journal ───────────────────────────────────────────────────────────────────────────────────────────────────

    def history(self, memory_id: int) -> list[Change]:
        changes = self._sight.changes(self._store.history(memory_id))
        if not any(change.memory_id == memory_id for change in changes):
            raise NotFound(f"There is no memory {memory_id}.", "`cofio list` lists the memories.")
        return changes

    def occurrences(self, memory_id: int) -> list[Occurrence]:
        return self._store.occurrences(memory_id) if self._sight.ids([memory_id]) else []

    def projects(self, scope: Scope, limit: int, after: str = "") -> list[tuple[str, int]]:
        return self._store.projects(self._sight.scope(scope), limit, after)

    def repeated(self, least: int, limit: int, scope: Scope) -> list[tuple[str, int, int]]:
        return self._store.repeated(least, limit, self._sight.scope(scope))

    def changeset(self, changeset_id: int) -> Changeset:
        changeset = self._sight.changeset(self._store.changeset(changeset_id))
        if changeset is None:
            raise NotFound(f"There is no changeset {changeset_id}.", "`cofio history` lists the newest.")
        return changeset

    def changesets(self, limit: int, *, within: Scope | None = None) -> list[Changeset]:
        """Return the newest changesets with visible changes.

        One that changed a memory before it became visible may be missing.
        """
        scope, page_size = self._sight.scope(within or Scope(include_archived=True)), limit
        visible_by_id: dict[int, Changeset | None] = {}
        while True:
            changesets = self._store.changesets(page_size, within=scope)
            for changeset in changesets:
                if changeset.id not in visible_by_id:
                    visible_by_id[changeset.id] = self._sight.changeset(self._store.changeset(changeset.id))
            results = [
                replace(visible, changes=()) for changeset in changesets if (visible := visible_by_id[changeset.id])
            ]
            if len(results) >= limit or len(changesets) < page_size:
                return results[:limit]
            page_size *= 2

    # ── what is derived ───────────────────────────────────────────────────────────────────────────────────────────────

    def note(self, retrievals: Sequence[Retrieval]) -> None:
        visible_ids = set(self._sight.ids([retrieval.memory_id for retrieval in retrievals]))
        self._store.note([retrieval for retrieval in retrievals if retrieval.memory_id in visible_ids])

    def unembedded(self, limit: int, *, among: Sequence[int] | None = None) -> list[Memory]:
        if among is None:
            refuse("Embedding every memory")
        return self._sight.memories(self._store.unembedded(limit, among=self._sight.ids(among)))

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        self._store.put_vectors({memory_id: vectors[memory_id] for memory_id in self._sight.ids(list(vectors))})

    def set_signature(self, signature: str, *, reset: bool = False) -> None:
        if reset:
            refuse("Re-embedding every memory")
        self._store.set_signature(signature)

    def given(self, client: str, session: str) -> dict[int, str]:
        digests = self._store.given(self._hand.client(client), session)
        return {memory_id: digests[memory_id] for memory_id in self._sight.ids(list(digests))}

    def give(self, client: str, session: str, given: Mapping[int, str]) -> None:
        visible = {memory_id: given[memory_id] for memory_id in self._sight.ids(list(given))}
        self._store.give(self._hand.client(client), session, visible)

    def forget_given(self, client: str, session: str) -> None:
        self._store.forget_given(self._hand.client(client), session)

    def forget_given_before(self, before: str) -> int:  # noqa: ARG002
        refuse("Deleting records of injected memories")

    def stats(self) -> dict[str, Any]:
        """Return counts of what is visible.

        Counts that exist for the whole store only (vectors, retrievals, size) are 0.
        """
        live, everything = self._count(), self._count(include_archived=True)
        groups = (("category", CATEGORIES), ("kind", KINDS), ("visibility", VISIBILITIES))
        return {
            "store": "",
            "memories": live,
            "archived": everything - live,
            "vectors": 0,
            "changesets": 0,
            "retrievals": 0,
            "inbox_pending": 0,
            "embedder": self._store.stats()["embedder"],
            "bytes": 0,
            "by_source": _sort_counts({prefix: self._count(source_prefix=prefix) for prefix in self.viewer.prefixes}),
            **{
                f"by_{name}": _sort_counts({value: self._count(**_only(name, value)) for value in of})
                for name, of in groups
            },
        }

    def _count(self, **within: Any) -> int:
        return self._store.page(self._sight.scope(Scope(**within)), limit=1)[1]

    def close(self) -> None:
        """Do nothing: the store is closed by its owner."""


def _only(name: str, value: str) -> dict[str, Any]:
    return {name: (value,) if name == "visibility" else value}


def _sort_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the non-zero counts, highest first."""
    return dict(sorted(((name, n) for name, n in counts.items() if n), key=lambda pair: (-pair[1], pair[0])))


class _ReadPolicy:
    """Read permissions of a viewer in a store."""

    def __init__(self, store: Store, viewer: Viewer) -> None:
        self.store = store
        self.viewer = viewer

    def scope(self, scope: Scope) -> Scope:
        """Return the scope limited to what the viewer sees."""
        return replace(scope, viewer=self.viewer)

    def ids(self, ids: Sequence[int]) -> list[int]:
        """Return the visible ones of these memories, in order."""
        if not ids:
            return []
        visible_ids = {memory.id for memory in self.store.get(list(dict.fromkeys(ids))) if self.viewer.sees(memory)}
        return [memory_id for memory_id in ids if memory_id in visible_ids]

    def memories(self, memories: Iterable[Memory]) -> list[Memory]:
        """Return the visible memories; without the previous text, if the memory they replaced is hidden."""
        visible = [memory for memory in memories if self.viewer.sees(memory)]
        superseded = {
            memory.supersedes
            for memory in visible
            if memory.previous_text is not None and memory.supersedes is not None
        }
        visible_ids = set(self.ids(sorted(superseded)))
        return [
            memory
            if memory.previous_text is None or memory.supersedes in visible_ids
            else replace(memory, previous_text=None)
            for memory in visible
        ]

    # ── changes ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def changes(self, changes: Sequence[Change]) -> list[Change]:
        """Return the visible changes. Reasons are included only if the whole changeset is visible."""
        visible = self._filter_seen(changes)
        whole_by_id = {
            changeset_id: self.in_full(self.store.changeset(changeset_id))
            for changeset_id in dict.fromkeys(c.changeset for c in visible)
        }
        return [self._redact(change, whole=whole_by_id[change.changeset]) for change in visible]

    def changeset(self, changeset: Changeset) -> Changeset | None:
        """Return the visible part of the changeset; None if nothing is visible."""
        visible, rows = self._filter_seen(changeset.changes), self._filter_seen_rows(changeset.knowledge)
        if not visible and not rows:
            return None
        is_whole = (len(visible), len(rows)) == (len(changeset.changes), len(changeset.knowledge))
        changes = tuple(self._redact(change, whole=is_whole) for change in visible)
        knowledge = tuple(self._redact_row(change, whole=is_whole) for change in rows)
        return replace(changeset, changes=changes, knowledge=knowledge, why=changeset.why if is_whole else "")

    def in_full(self, changeset: Changeset) -> bool:
        """Return whether the changeset is not empty and fully visible."""
        visible, rows = self._filter_seen(changeset.changes), self._filter_seen_rows(changeset.knowledge)
        return bool(visible or rows) and (len(visible), len(rows)) == (len(changeset.changes), len(changeset.knowledge))

    def done(self, changes: Sequence[Change]) -> list[Change]:
        """Return the visible changes of the viewer's own write: a restore may change counts of a hidden memory."""
        return [replace(change, **self._states(change)) for change in changes if self._sees(change)]

    def _filter_seen(self, changes: Sequence[Change]) -> list[Change]:
        """Return the changes whose before and after are visible, of memories that are still visible."""
        open_ = [change for change in changes if self._sees(change)]
        standing = self._find_standing({change.memory_id for change in open_})
        return [change for change in open_ if change.memory_id in standing]

    def _sees(self, change: Change) -> bool:
        """Return whether both states are visible. A purged memory has no owner any more."""
        states = [state for state in (change.before, change.after) if state]
        purged_now = change.action == "purge"
        return (bool(states) or purged_now) and all(self.viewer.sees(state) for state in states)

    def _find_standing(self, ids: set[int]) -> set[int]:
        """Return those that are visible now; deleted ones count by their last state."""
        memory_by_id = {memory.id: memory for memory in self.store.get(sorted(ids))}
        last = {memory_id: memory_by_id.get(memory_id) or self._find_last(memory_id) for memory_id in ids}
        return {memory_id for memory_id, memory in last.items() if memory and self.viewer.sees(memory)}

    def _find_last(self, memory_id: int) -> Memory | None:
        own = [change for change in self.store.history(memory_id) if change.memory_id == memory_id]
        return next((state for change in reversed(own) if (state := change.after or change.before)), None)

    def _redact(self, change: Change, *, whole: bool) -> Change:
        """Return the change as the viewer may read it. A reason may quote hidden memories that led to it."""
        reason = change.reason if whole and not self.viewer.prefixes else ""
        return replace(change, **self._states(change), reason=reason, why=change.why if whole else "")

    def _states(self, change: Change) -> dict[str, Any]:
        return {
            name: self.memories([state])[0]
            for name, state in (("before", change.before), ("after", change.after))
            if state is not None
        }

    # ── changes of domain knowledge ───────────────────────────────────────────────────────────────────────────────────

    def rows(self, changes: Sequence[KnowledgeChange]) -> list[KnowledgeChange]:
        """Return the visible changes, by the rules of `changes`."""
        visible = self._filter_seen_rows(changes)
        whole_by_id = {
            changeset_id: self.in_full(self.store.changeset(changeset_id))
            for changeset_id in dict.fromkeys(c.changeset for c in visible)
        }
        return [self._redact_row(change, whole=whole_by_id[change.changeset]) for change in visible]

    def sees_row(self, change: KnowledgeChange) -> bool:
        """Return whether before and after are visible. An erased row has no owner any more."""
        states = [state for state in (change.before, change.after) if state]
        return (bool(states) or change.action == "purge") and all(sees(self.viewer, state) for state in states)

    def last_row(self, table: Table, key: str) -> Knowledge | None:
        """Return the current row; if deleted, its last state; None if nothing is known of it."""
        current = self.store.domain.get(table, [key])
        past = [] if current else self.row_states(table, key)
        return current[0] if current else past[-1] if past else None

    def row_states(self, table: Table, key: str) -> list[Knowledge]:
        """Return all known states of the row, oldest first. An id may have belonged to several owners."""
        try:
            lines = self.store.domain.history(table, key)
        except NotFound:
            return []
        return [state for line in lines for state in (line.before, line.after) if state]

    def _filter_seen_rows(self, changes: Sequence[KnowledgeChange]) -> list[KnowledgeChange]:
        """Filter as `_filter_seen` does; but an id may be reused, so an erasure cannot be attributed to an owner."""
        open_ = [change for change in changes if (change.before or change.after) and self.sees_row(change)]
        last = {key: self.last_row(*key) for key in {(change.table, change.key) for change in open_}}
        standing = {key for key, row in last.items() if row and sees(self.viewer, row)}
        return [change for change in open_ if (change.table, change.key) in standing]

    def _redact_row(self, change: KnowledgeChange, *, whole: bool) -> KnowledgeChange:
        """Return the row change as `_redact` does."""
        reason = change.reason if whole and not self.viewer.prefixes else ""
        return replace(change, reason=reason, why=change.why if whole else "")


class _WritePolicy:
    """Write permissions of a viewer, and the ownership marks of what they write."""

    def __init__(self, sight: _ReadPolicy) -> None:
        self._sight = sight
        self._viewer = sight.viewer
        owner = "\x1f".join((self._viewer.user, self._viewer.agent, self._viewer.team, *self._viewer.prefixes))
        self._mark = "~" + hashlib.blake2b(owner.encode(), digest_size=6).hexdigest()
        name = f"user\x1f{self._viewer.user}" if self._viewer.user else f"agent\x1f{self._viewer.agent}"
        self._name = (
            "~" + hashlib.blake2b(name.encode(), digest_size=3).hexdigest()
        )  # the same for all keys of this owner

    def _whose(self, agent: str = "") -> dict[str, Any]:
        """Return the owner fields. A user's key that is not bound to an agent accepts the agent given."""
        return {"user": self._viewer.user, "agent": self._viewer.agent or agent, "team": self._viewer.team}

    def fact(self, fact: Fact) -> Fact:
        self._check_source(fact.source)
        return replace(fact, **self._whose(fact.agent))

    def exchange(self, exchange: Exchange) -> Exchange:
        self._check_source(exchange.source)
        return replace(exchange, **self._whose(exchange.agent), reach=self._viewer.prefixes, by_key=True)

    def client(self, client: str) -> str:
        """Return the client name with the viewer's mark: sessions of two users may have the same name."""
        return client[: MAX_LABEL - len(self._mark)].removesuffix(self._mark) + self._mark

    def marked(self, exchange: Exchange) -> Exchange:
        """Return the exchange as stored. Without client and session it stays unmarked."""
        scoped = self.exchange(exchange)
        has_name = scoped.client or scoped.session
        return replace(scoped, client=self.client(scoped.client)) if has_name else scoped

    def unmarked(self, item: Item) -> Item:
        """Return the item as delivered, without the injected context: it may no longer be visible to the viewer."""
        exchange = item.exchange
        if exchange is None:
            return item
        return replace(item, exchange=replace(exchange, client=exchange.client.removesuffix(self._mark), injected=()))

    def told(self, item: Item) -> bool:
        """Return whether the item is the viewer's: captured by them, and learned from with no more access than they
        have.
        """
        exchange, viewer = item.exchange, self._viewer
        if exchange is None or not viewer.reaches(exchange.source):
            return False
        is_owner = exchange.user == viewer.user if exchange.user else exchange.agent == viewer.agent != ""
        is_owner = (
            is_owner and exchange.team == viewer.team
        )  # the team decides what it was compared with, and where memories of it go
        return is_owner and (not viewer.prefixes or (bool(exchange.reach) and all(map(viewer.reaches, exchange.reach))))

    # ── decisions ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def decision(self, decision: Decision) -> Decision:
        """Return the decision with the viewer as owner. Raise NotFound or Forbidden if it is not allowed."""
        match decision:
            case Add():
                return self._add(decision)
            case Update():
                self._get_target(decision.id)
                return replace(decision, fact=self.fact(decision.fact))
            case Merge():
                for memory_id in decision.ids:
                    self._get_target(memory_id)
                return replace(decision, fact=self.fact(decision.fact))
            case Adopt():
                return self._adopt(decision)
            case Purge():
                self._check(decision)
                return replace(decision, viewer=self._viewer)
            case Noop():
                self._get_target(decision.id)
                return replace(decision, occurrence=self._sighting(decision.occurrence))
            case _:
                self._check(decision)
                return decision

    def _check(self, decision: Edit | Delete | Restore | Purge | Revert) -> None:
        """Raise if the viewer may not change this memory so."""
        match decision:
            case Edit():
                self._check_edit(decision)
            case Delete():
                self._get_target(decision.id)
                if decision.into is not None:
                    self._get_target(decision.into)
            case Restore():
                self._get_target(decision.id)
            case Purge():
                if self._get_target(decision.id).visibility != "private":
                    raise Forbidden(
                        f"Memory {decision.id} is not private to you.", f"Archive it; to erase it, {_TAKES}."
                    )

    def _add(self, decision: Add) -> Add:
        fact = self.fact(decision.fact)
        again = tuple(self._sighting(occurrence) for occurrence in decision.again)
        return replace(
            decision, fact=fact, again=again, unless_known=decision.unless_known and self._may_be_known(fact)
        )

    def _may_be_known(self, fact: Fact) -> bool:
        """Return whether an existing memory with the same text may stand in for this one. Within a project, sources do
        not matter for that: if the viewer is limited to sources, the existing memory must be visible.
        """
        if not self._viewer.prefixes or not fact.project:
            return True
        store = self._sight.store
        twins = [twin for twin in store.get(store.known(fact.text, merge_scope(fact))) if twin.speaker == fact.speaker]
        return bool(twins) and self._viewer.sees(twins[0])

    def _adopt(self, decision: Adopt) -> Adopt:
        memory = decision.memory
        if memory.id:
            raise Forbidden("Memory ids cannot be set with this key.", f"Leave the id 0; otherwise {_TAKES}.")
        self._check_source(memory.source)
        for link in (memory.supersedes, memory.superseded_by):
            if link is not None:
                self._get_target(link)
        before = memory.previous_text if memory.supersedes is not None else None
        sightings = tuple(self._sighting(sighting) for sighting in decision.sightings)
        return replace(
            decision, memory=replace(memory, **self._whose(memory.agent), previous_text=before), sightings=sightings
        )

    def _check_edit(self, decision: Edit) -> None:
        before = self._get_target(decision.id)
        after = apply_edit(before, decision.fields)
        if any(getattr(before, name) != getattr(after, name) for name in _WHOSE):
            raise Forbidden("The owner of a memory cannot be changed with this key.", _ADMIN)
        if before.visibility != after.visibility and not self._viewer.owns(before):
            raise Forbidden(f"Memory {before.id} belongs to another user.", "Only its owner can change its visibility.")
        self._check_source(after.source)
        if not self._viewer.sees(after):
            raise Forbidden(
                "After this change, you could no longer see it.", f"Keep it visible to you; otherwise {_TAKES}."
            )

    def refuse_undo(
        self, undoes: int | None, decisions: Sequence[Decision], knowledge: Sequence[KnowledgeDecision]
    ) -> None:
        """Raise if the viewer cannot see the whole changeset, undoes only part of it, or needs admin rights for it."""
        if undoes is None:
            raise Forbidden("A single change of a changeset cannot be reverted.", "Undo the whole changeset.")
        changeset = self._sight.store.changeset(undoes)
        if self._sight.changeset(changeset) is None:
            raise NotFound(f"There is no changeset {undoes}.", "`cofio history` lists the newest.")
        if not self._sight.in_full(changeset):
            raise Forbidden(f"Changeset {undoes} changed memories that you may not see.", f"To undo it, {_TAKES}.")
        reverted = {decision.change_id if isinstance(decision, Revert) else None for decision in decisions}
        withdrawn = {decision.change_id if isinstance(decision, Withdraw) else None for decision in knowledge}
        if (reverted, withdrawn) != (
            {change.id for change in changeset.changes},
            {change.id for change in changeset.knowledge},
        ):
            raise Forbidden(
                f"The decisions do not revert exactly changeset {undoes}.", "Undo the whole changeset, and only that."
            )
        if not all(map(self._may_take_back, changeset.changes)) or not all(
            map(self._may_take_back, changeset.knowledge)
        ):
            message = f"Changeset {undoes} changed an owner, or the visibility of another user's memory."
            raise Forbidden(message, f"The owner can undo a change of visibility; otherwise {_TAKES}.")

    def _may_take_back(self, change: Change | KnowledgeChange) -> bool:
        before, after = change.before, change.after
        if before is None or after is None:
            return True
        if any(getattr(before, name) != getattr(after, name) for name in _WHOSE):
            return False  # set by the store's owner
        return before.visibility == after.visibility or self._owns(before)

    def _owns(self, owned: Memory | Knowledge) -> bool:
        return owns(self._viewer, owned) if isinstance(owned, Knowledge) else self._viewer.owns(owned)

    # ── domain knowledge ──────────────────────────────────────────────────────────────────────────────────────────────

    def rows(self, decisions: Sequence[KnowledgeDecision]) -> list[KnowledgeDecision]:
        """Return the decisions with the viewer as owner. Raise NotFound or Forbidden if one is not allowed."""
        new: set[str] = set()  # rows created by these decisions
        return [self._row_decision(decision, new) for decision in decisions]

    def _row_decision(self, decision: KnowledgeDecision, new: set[str]) -> KnowledgeDecision:
        match decision:
            case Put():
                return self._put(decision, new)
            case Drop():
                if f"{decision.table}/{decision.id}" not in new:
                    self._get_row_target(decision.table, decision.id)
            case Erase():
                last = self._sight.last_row(decision.table, decision.id)
                if last is None or not sees(self._viewer, last):
                    raise _no_row(decision.table, decision.id)
                if last.visibility != "private" or not self._had_alone(last):
                    raise Forbidden(f"{last.ref} is not private to you.", f"Remove it; to erase it, {_TAKES}.")
        return decision  # a withdrawn change was checked with its changeset

    def _had_alone(self, row: Knowledge) -> bool:
        """Return whether the viewer owned the row in all its states."""
        states = self._sight.row_states(row.TABLE, row.id)
        return all(sees(self._viewer, state) and owns(self._viewer, state) for state in states)

    def _put(self, decision: Put, new: set[str]) -> Put:
        row = self.row(decision.known)
        current = self._get_seen_row(row.TABLE, row.id)
        memory = getattr(row, "memory", None)
        if memory is not None and memory != getattr(current, "memory", None):
            self._get_target(memory)
        if current or row.ref in new:
            return replace(decision, known=row)
        new.add(row.ref)
        return replace(
            decision, known=row, as_of=""
        )  # if another viewer took the id meanwhile, their row is not overwritten

    def row(self, row: Knowledge) -> Knowledge:
        """Return the row with the viewer as owner.

        An existing row keeps its owner; an id taken by another gets a suffix.
        """
        is_derived = replace(row, id="").id == row.id  # derived from content and owner: it differs for other owners
        current = self._get_seen_row(row.TABLE, row.id)
        if current and (not is_derived or audience_of(row) == audience_of(current)):
            return self._restate(row, current)
        owner_columns: dict[str, Any] = {**self._whose(row.agent), "place": self._viewer.below(row.place).rstrip("/")}
        own_row = replace(row, **owner_columns, id="" if is_derived else row.id)
        if current := self._get_seen_row(own_row.TABLE, own_row.id):
            return self._restate(own_row, current)
        return replace(own_row, id=self._free_id(own_row.TABLE, own_row.id))

    def _restate(self, row: Knowledge, current: Knowledge) -> Knowledge:
        """Return the new state of an existing row, by the rules of an Edit."""
        place = row.place if self._viewer.reaches(row.place) else current.place
        after = replace(row, **{name: getattr(current, name) for name in _WHOSE}, place=place)
        if after.visibility != current.visibility and not owns(self._viewer, current):
            raise Forbidden(f"{current.ref} belongs to another user.", "Only its owner can change its visibility.")
        if not sees(self._viewer, after):
            raise Forbidden(
                "After this change, you could no longer see it.", f"Keep it visible to you; otherwise {_TAKES}."
            )
        return after

    def _free_id(self, table: Table, key: str) -> str:
        """Return the id; with a suffix if it is or was used by an owner hidden from the viewer."""
        ends = (self._name + (str(number) if number else "") for number in count())
        candidate = key
        while (last := self._sight.last_row(table, candidate)) and not sees(self._viewer, last):
            end = next(ends)
            candidate = key[: MAX_ID - len(end)] + end
        return candidate

    def _get_seen_row(self, table: Table, key: str) -> Knowledge | None:
        rows = self._sight.store.domain.get(table, [key], viewer=self._viewer)
        return rows[0] if rows else None

    def _get_row_target(self, table: Table, key: str) -> Knowledge:
        row = self._get_seen_row(table, key)
        if row is None:
            raise _no_row(table, key)
        return row

    # ── where it may go ───────────────────────────────────────────────────────────────────────────────────────────────

    def _get_target(self, memory_id: int) -> Memory:
        memories = self._sight.memories(self._sight.store.get([memory_id]))
        if not memories:
            raise NotFound(
                f"There is no memory {memory_id}.", "It may have been purged; `cofio list` lists the others."
            )
        return memories[0]

    def _sighting(self, occurrence: Occurrence) -> Occurrence:
        return replace(occurrence, agent=self._viewer.agent or occurrence.agent)

    def _check_source(self, source: str) -> None:
        if not self._viewer.reaches(source):
            subject = f"The source {source!r} is" if source else "An empty source is"
            raise Forbidden(
                f"{subject} not allowed with this key.", f"Give a source below: {', '.join(self._viewer.prefixes)}."
            )


def _no_row(table: Table, key: str) -> NotFound:
    return NotFound(f"There is no {table}/{key}.", f"`cofio knowledge list {table}` lists the rows.")


_TAKES = "use an admin key"
_WHOSE = ("user", "agent", "team")  # the owner fields


class _ScopedInbox:
    """Inbox limited to the viewer's own captures."""

    def __init__(self, inbox: Inbox, hand: _WritePolicy) -> None:
        self._inbox = inbox
        self._hand = hand

    def receive(
        self, exchanges: Sequence[Exchange], *, task: Task = "learn", most: int | None = None, hold: float = 0.0
    ) -> list[Receipt]:
        return self._inbox.receive(
            [self._hand.marked(exchange) for exchange in exchanges], task=task, most=most, hold=hold
        )

    def amend(self, exchange: Exchange, *, hold: float = 0.0, most: int | None = None) -> Receipt:
        return self._inbox.amend(self._hand.marked(exchange), hold=hold, most=most)

    def release(self, client: str, session: str) -> int:
        return self._inbox.release(self._hand.client(client), session)

    def hold(self, client: str, session: str, batching: Batching, *, broken_off: bool = False) -> None:
        self._inbox.hold(self._hand.client(client), session, batching, broken_off=broken_off)

    def turns(self, client: str, session: str, *, any_key: bool = False) -> set[str]:  # noqa: ARG002
        return self._inbox.turns(self._hand.client(client), session)

    def purged_turns(self, client: str, session: str) -> set[str]:
        return self._inbox.purged_turns(self._hand.client(client), session)

    def item(self, item_id: int) -> Item:
        return self._hand.unmarked(self._own(item_id))

    def items(self, state: State | None = None, *, limit: int = 50, after: int | None = None) -> list[Item]:
        own: list[Item] = []
        while len(own) < limit and (page := self._inbox.items(state, limit=_PAGE, after=after)):
            own += [self._hand.unmarked(item) for item in page if self._hand.told(item)]
            after = page[-1].id
        return own[:limit]

    def retry(self, item_id: int) -> Item:
        self._own(item_id)
        return self._hand.unmarked(self._inbox.retry(item_id))

    def _own(self, item_id: int) -> Item:
        item = self._inbox.item(item_id)
        if not self._hand.told(item):
            raise NotFound(f"There is no capture {item_id}.", "It may belong to another store.")
        return item

    def due(self, limit: int) -> list[Item]:  # noqa: ARG002
        refuse("Working on the inbox")

    def claim(self, limit: int, together: int = 1) -> list[Item]:  # noqa: ARG002
        refuse("Working on the inbox")

    def give_back(self, items: Sequence[Item]) -> None:  # noqa: ARG002
        refuse("Working on the inbox")

    def settle(self, settlement: ItemResolution) -> None:  # noqa: ARG002
        refuse("Working on the inbox")

    def postpone(
        self,
        item_id: int,  # noqa: ARG002
        seconds: float,  # noqa: ARG002
        reason: str,  # noqa: ARG002
        *,
        fault: bool = False,  # noqa: ARG002
        attempt: bool = True,  # noqa: ARG002
    ) -> None:
        refuse("Working on the inbox")

    def park(self, item_id: int, reason: str) -> None:  # noqa: ARG002
        refuse("Working on the inbox")

    def settled_by(self, changeset_id: int) -> Item | None:
        item = self._inbox.settled_by(changeset_id)
        return self._hand.unmarked(item) if item and self._hand.told(item) else None

    def status(self) -> InboxStatus:
        refuse("The inbox status")

    def forget(self, before: str) -> int:  # noqa: ARG002
        refuse("Deleting captures")


class _ScopedKnowledgeTables:
    """Domain knowledge limited to what the viewer may see, even if another viewer is given."""

    def __init__(self, domain: KnowledgeTables, sight: _ReadPolicy) -> None:
        self._domain = domain
        self._sight = sight
        self._viewer = sight.viewer

    def get(self, table: Table, keys: Sequence[str], *, viewer: Viewer | None = None) -> list[Knowledge]:  # noqa: ARG002
        return self._domain.get(table, keys, viewer=self._viewer)

    def rows(
        self,
        table: Table,
        *,
        least: float = 0.0,
        where: Mapping[str, Any] = MappingProxyType({}),
        limit: int | None = None,
        after: str | None = None,
        viewer: Viewer | None = None,  # noqa: ARG002
    ) -> list[Knowledge]:
        return self._domain.rows(table, least=least, where=where, limit=limit, after=after, viewer=self._viewer)

    def naming(self, words: Sequence[str], *, viewer: Viewer | None = None) -> list[Knowledge]:  # noqa: ARG002
        return self._domain.naming(words, viewer=self._viewer)

    def told_by(self, memories: Sequence[int]) -> list[Knowledge]:
        return [claim for claim in self._domain.told_by(memories) if sees(self._viewer, claim)]

    def history(self, table: Table, key: str) -> list[KnowledgeChange]:
        lines = self._sight.rows(self._domain.history(table, key))
        if not lines:
            raise _no_row(table, key)
        return lines

    def counts(self, *, viewer: Viewer | None = None) -> dict[str, int]:  # noqa: ARG002
        return self._domain.counts(viewer=self._viewer)


class _ScopedUsageQueries:
    """Recall counts of visible memories. Queries, and who made them, are hidden."""

    def __init__(self, uses: UsageQueries, sight: _ReadPolicy) -> None:
        self._uses = uses
        self._sight = sight

    def view(self, view: View, scope: Scope, limit: int, before: str) -> list[Memory]:
        return self._sight.memories(self._uses.view(view, self._sight.scope(scope), limit, before))

    def tracking(self, since: str) -> UsageTracking:
        return self._uses.tracking(since)

    def unused(self, category: str, before: str, limit: int) -> list[Memory]:  # noqa: ARG002
        refuse("Upkeep")

    def touched(self, ids: Sequence[int], after: int) -> set[int]:  # noqa: ARG002
        refuse("Upkeep")

    def queries(self, ids: Sequence[int], limit: int) -> list[str]:  # noqa: ARG002
        refuse("Reading logged queries")

    def forget(self, before: str) -> int:  # noqa: ARG002
        refuse("Deleting logged queries")


class _ScopedDashboardQueries:
    """Dashboard data of visible memories. Activity of others is for the owner only."""

    def __init__(self, pictures: DashboardQueries, sight: _ReadPolicy) -> None:
        self._pictures, self._sight = pictures, sight

    def arrived(self, since: str, scope: Scope) -> list[DailyCount]:
        return self._pictures.arrived(since, self._sight.scope(scope))

    def dots(self, scope: Scope, most: int, characters: int) -> MapSource:
        return self._pictures.dots(self._sight.scope(scope), most, characters)

    def pulse(self) -> ChangeCounters:
        return self._pictures.pulse()  # reveals only that something has changed

    def inject(self, injections: Sequence[Injection]) -> None:
        self._pictures.inject(injections)

    def done(self, since: str) -> dict[str, int]:  # noqa: ARG002
        refuse("Reading the activity of others")

    def injected(self, since: str) -> list[InjectionCount]:  # noqa: ARG002
        refuse("Reading the activity of others")

    def forget_injected(self, before: str) -> int:  # noqa: ARG002
        refuse("Upkeep")

    def agents(self, limit: int) -> list[Agent]:  # noqa: ARG002
        refuse("Listing agents")


class _ScopedTokenEmbeddings:
    """Token embeddings of search candidates, which are already visible; nothing else."""

    def __init__(self, readings: TokenEmbeddings) -> None:
        self._readings = readings

    def get(self, ids: Sequence[int], by: str) -> dict[int, bytes]:
        return self._readings.get(ids, by)

    def set_signature(self, signature: str) -> None:  # noqa: ARG002
        refuse("Computing token embeddings")

    def unread(self, limit: int) -> list[Memory]:  # noqa: ARG002
        refuse("Computing token embeddings")

    def put(self, readings: Sequence[tuple[Memory, bytes]], by: str) -> bool:  # noqa: ARG002
        refuse("Computing token embeddings")

    def counts(self) -> tuple[int, int]:
        refuse("Computing token embeddings")


class _ScopedEpisodeIndex:
    """Episodes visible to the viewer. Indexing and bulk removal are for the owner only."""

    def __init__(self, index: EpisodeIndex, sight: _ReadPolicy) -> None:
        self._index = index
        self._sight = sight

    def get(self, ids: Sequence[int]) -> list[Episode]:
        episodes = [episode for episode in self._index.get(ids) if self._sight.viewer.sees(episode)]
        return [replace(episode, client=shown_client(episode.client)) for episode in episodes]

    def passages(self, ids: Sequence[int]) -> list[Passage]:
        passages = self._index.passages(ids)
        visible = {episode.id for episode in self.get(list({passage.episode for passage in passages}))}
        return [passage for passage in passages if passage.episode in visible]

    def of_memory(self, memory_id: int) -> int | None:
        number = self._index.of_memory(memory_id) if self._sight.ids([memory_id]) else None
        return number if number is not None and self.get([number]) else None

    def sessions(
        self,
        limit: int,
        *,
        client: str = "",
        project: str | None = None,
        prefix: str = "",
        since: str = "",
        viewer: Viewer | None = None,  # noqa: ARG002
        own: Viewer | None = None,
    ) -> list[AgentSession]:
        how: dict[str, Any] = {"viewer": self._sight.viewer, "own": own}
        return self._index.sessions(limit, client=client, project=project, prefix=prefix, since=since, **how)

    def turns(
        self,
        session: AgentSession,
        limit: int,
        *,
        summaries: bool = False,
        viewer: Viewer | None = None,  # noqa: ARG002
    ) -> list[Episode]:
        return self._index.turns(session, limit, summaries=summaries, viewer=self._sight.viewer)

    def changesets(self, session: AgentSession, limit: int) -> list[int]:
        """Return the changesets with visible parts, if the session has visible turns."""
        if not any(self.turns(session, 1, summaries=summaries) for summaries in (False, True)):
            return []
        numbers = self._index.changesets(session, limit)
        return [number for number in numbers if self._sight.changeset(self._sight.store.changeset(number))]

    def given(self, session: AgentSession) -> list[int]:
        """Return what the viewer's own session received; nothing for sessions of others."""
        return self._sight.ids(self._index.given(session)) if is_own(session, self._sight.viewer) else []

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        visible = [passage.id for passage in self.passages(list(also))]
        return self._index.nearest(vector, k, self._sight.scope(scope), also=visible)

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        return self._index.matching(words, k, self._sight.scope(scope))

    def remove(self, ids: Sequence[int]) -> int:
        episodes = self.get(ids)
        for episode in episodes:
            if episode.visibility != "private" or not self._sight.viewer.owns(episode):
                raise Forbidden(f"Episode {episode.id} is not private to you.", f"To erase it, {_TAKES}.")
        return self._index.remove([episode.id for episode in episodes]) if episodes else 0

    def unindexed(self, limit: int) -> list[int]:  # noqa: ARG002
        refuse("Indexing episodes")

    def index(self, capture: int) -> int | None:  # noqa: ARG002
        refuse("Indexing episodes")

    def unembedded(self, limit: int) -> list[Passage]:  # noqa: ARG002
        refuse("Embedding every episode")

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:  # noqa: ARG002
        refuse("Embedding every episode")

    def forget(self, before: str, most_bytes: int) -> int:  # noqa: ARG002
        refuse("Removing episodes")

    def adopt(self, episodes: Sequence[ExportedEpisode]) -> None:  # noqa: ARG002
        refuse("Importing an export")

    def counts(self) -> EpisodeCounts:
        refuse("Counting episodes")


class _ScopedSnapshots:
    """Export access limited to visible memories. Names and ids of the store cannot be set."""

    def __init__(self, carrying: Snapshots, sight: _ReadPolicy) -> None:
        self._carrying = carrying
        self._sight = sight

    @contextmanager
    def still(self) -> Iterator[Snapshots]:
        with self._carrying.still() as frozen:
            yield _ScopedSnapshots(frozen, self._sight)

    def identity(self) -> str:
        return self._carrying.identity()

    def adopt_identity(self, identity: str) -> bool:  # noqa: ARG002
        refuse("Importing an export")

    def reserve(self, count: int) -> int:
        if count:
            refuse("Importing an export")
        return self._carrying.reserve(0)

    def room(self, name: str, last: int) -> list[tuple[int, int]]:  # noqa: ARG002
        if last:
            refuse("Importing an export")
        return []

    def origins(self, origins: Sequence[str]) -> dict[str, int]:
        id_by_origin = self._carrying.origins(origins)
        visible = set(self._sight.ids(list(id_by_origin.values())))
        return {origin: memory_id for origin, memory_id in id_by_origin.items() if memory_id in visible}

    def rows(self, after: int, limit: int, *, vectors: bool = False) -> list[ExportedMemory]:
        rows: list[ExportedMemory] = []
        for row in self._all(after, vectors=vectors):
            rows.append(row)
            if len(rows) == limit:
                break
        return rows

    def _all(self, after: int, *, vectors: bool) -> Iterator[ExportedMemory]:
        """Yield the visible ones, page by page."""
        while page := self._carrying.rows(after, _PAGE, vectors=vectors):
            visible = {memory.id: memory for memory in self._sight.memories(row.memory for row in page)}
            yield from (replace(row, memory=visible[row.memory.id]) for row in page if row.memory.id in visible)
            after = page[-1].memory.id

    def counts(self) -> tuple[int, int]:
        number, last = 0, 0
        for row in self._all(0, vectors=False):
            number, last = number + 1, row.memory.id
        return number, last

    def knowledge(self, table: Table, after: str, limit: int) -> list[Knowledge]:
        rows: list[Knowledge] = []
        while len(rows) < limit and (page := self._carrying.knowledge(table, after, _PAGE)):
            rows += [row for row in page if sees(self._sight.viewer, row)]
            after = page[-1].id
        return rows[:limit]

    def episodes(self, after: int, limit: int) -> list[ExportedEpisode]:  # noqa: ARG002
        refuse("Copying episodes")

    def parts(self, changeset_id: int) -> list[int]:
        parts = self._carrying.parts(changeset_id)
        if not parts or self._sight.changeset(self._sight.store.changeset(changeset_id)) is None:
            return []
        return parts
