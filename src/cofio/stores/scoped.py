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
from cofio.models.episodes import Episode, EpisodeCounts, ExportedEpisode, Passage, shown_client
from cofio.models.exchange import Batching, Exchange, Item, ItemResolution, Ledger, Receipt, State, Task
from cofio.models.knowledge import (
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


def refuse(what: str, verb: str = "is") -> NoReturn:
    """Raise Forbidden for an operation that viewers may not use."""
    raise Forbidden(f"{what} {verb} not allowed with this key.", _ADMIN)


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

    def row(self, known: Knowledge) -> Knowledge:
        """Return the row owned by the viewer, with the id that follows from it. Forbidden if it belongs to another."""
        return self._hand.row(known)

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
            raise NotFound(f"There is no changeset {part_of}.", "cofio history shows the newest.")
        mine = [self._hand.decision(decision) for decision in decisions]
        rows = self._hand.rows(knowledge)
        done = self._store.apply(
            mine, vectors, by=by, why=why, undoes=undoes, part_of=part_of, settles=settles, knowledge=rows
        )
        left = tuple(each for each in done.knowledge if self._sight.sees_row(each))
        return replace(done, changes=tuple(self._sight.done(done.changes)), knowledge=left)

    # ── finding ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, ids: Sequence[int]) -> list[Memory]:
        return self._sight.memories(self._store.get(ids))

    def said(self, ids: Sequence[int]) -> dict[int, tuple[str, str]]:
        return self._store.said(self._sight.ids(ids))

    def has_speakers(self) -> bool:
        return self._store.has_speakers()

    def page(self, scope: Scope, *, limit: int, after: int | None = None, skip: int = 0) -> tuple[list[Memory], int]:
        found, total = self._store.page(self._sight.scope(scope), limit=limit, after=after, skip=skip)
        return self._sight.memories(found), total

    def newest(self, scope: Scope, limit: int) -> list[Memory]:
        return self._sight.memories(self._store.newest(self._sight.scope(scope), limit))

    def latest(self, scope: Scope, limit: int) -> list[Memory]:
        return self._sight.memories(self._store.latest(self._sight.scope(scope), limit))

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        return self._store.nearest(vector, k, self._sight.scope(scope), also=self._sight.ids(list(also)))

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        return self._store.matching(words, k, self._sight.scope(scope))

    def holding(self, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        held = self._store.holding(words, self._sight.ids(ids))
        return {each: held.get(each, []) for each in ids}

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
            raise NotFound(f"There is no memory {memory_id}.", "cofio list shows what there is.")
        return changes

    def sightings(self, memory_id: int) -> list[Occurrence]:
        return self._store.sightings(memory_id) if self._sight.ids([memory_id]) else []

    def projects(self, scope: Scope, limit: int, after: str = "") -> list[tuple[str, int]]:
        return self._store.projects(self._sight.scope(scope), limit, after)

    def repeated(self, least: int, limit: int, scope: Scope) -> list[tuple[str, int, int]]:
        return self._store.repeated(least, limit, self._sight.scope(scope))

    def changeset(self, changeset_id: int) -> Changeset:
        told = self._sight.changeset(self._store.changeset(changeset_id))
        if told is None:
            raise NotFound(f"There is no changeset {changeset_id}.", "cofio history shows the newest.")
        return told

    def changesets(self, limit: int, *, within: Scope | None = None) -> list[Changeset]:
        """Return the newest changesets with visible changes.

        One that changed a memory before it became visible may be missing.
        """
        scope, asked = self._sight.scope(within or Scope(include_archived=True)), limit
        known: dict[int, Changeset | None] = {}
        while True:
            found = self._store.changesets(asked, within=scope)
            for each in found:
                if each.id not in known:
                    known[each.id] = self._sight.changeset(self._store.changeset(each.id))
            told = [replace(whole, changes=()) for each in found if (whole := known[each.id])]
            if len(told) >= limit or len(found) < asked:
                return told[:limit]
            asked *= 2

    # ── what is derived ───────────────────────────────────────────────────────────────────────────────────────────────

    def note(self, retrievals: Sequence[Retrieval]) -> None:
        there = set(self._sight.ids([retrieval.memory_id for retrieval in retrievals]))
        self._store.note([retrieval for retrieval in retrievals if retrieval.memory_id in there])

    def unembedded(self, limit: int, *, among: Sequence[int] | None = None) -> list[Memory]:
        if among is None:
            refuse("Embedding every memory")
        return self._sight.memories(self._store.unembedded(limit, among=self._sight.ids(among)))

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        self._store.put_vectors({each: vectors[each] for each in self._sight.ids(list(vectors))})

    def sign(self, signature: str, *, anew: bool = False) -> None:
        if anew:
            refuse("Re-embedding every memory")
        self._store.sign(signature)

    def given(self, client: str, session: str) -> dict[int, str]:
        given = self._store.given(self._hand.client(client), session)
        return {each: given[each] for each in self._sight.ids(list(given))}

    def give(self, client: str, session: str, given: Mapping[int, str]) -> None:
        there = {each: given[each] for each in self._sight.ids(list(given))}
        self._store.give(self._hand.client(client), session, there)

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
            "by_source": _counted({prefix: self._count(source_prefix=prefix) for prefix in self.viewer.prefixes}),
            **{f"by_{name}": _counted({each: self._count(**_only(name, each)) for each in of}) for name, of in groups},
        }

    def _count(self, **within: Any) -> int:
        return self._store.page(self._sight.scope(Scope(**within)), limit=1)[1]

    def close(self) -> None:
        """Do nothing: the store is closed by its owner."""


def _only(name: str, value: str) -> dict[str, Any]:
    return {name: (value,) if name == "visibility" else value}


def _counted(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the non-zero counts, highest first."""
    return dict(sorted(((name, n) for name, n in counts.items() if n), key=lambda each: (-each[1], each[0])))


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
        seen = {memory.id for memory in self.store.get(list(dict.fromkeys(ids))) if self.viewer.sees(memory)}
        return [each for each in ids if each in seen]

    def memories(self, found: Iterable[Memory]) -> list[Memory]:
        """Return the visible memories; without the previous text, if the memory they replaced is hidden."""
        seen = [memory for memory in found if self.viewer.sees(memory)]
        asked = {each.supersedes for each in seen if each.previous_text is not None and each.supersedes is not None}
        known = set(self.ids(sorted(asked)))
        return [
            memory
            if memory.previous_text is None or memory.supersedes in known
            else replace(memory, previous_text=None)
            for memory in seen
        ]

    # ── changes ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def changes(self, changes: Sequence[Change]) -> list[Change]:
        """Return the visible changes. Reasons are included only if the whole changeset is visible."""
        left = self._seen(changes)
        whole = {
            fromkey: self.in_full(self.store.changeset(fromkey)) for fromkey in dict.fromkeys(c.changeset for c in left)
        }
        return [self._told(change, whole=whole[change.changeset]) for change in left]

    def changeset(self, done: Changeset) -> Changeset | None:
        """Return the visible part of the changeset; None if nothing is visible."""
        left, rows = self._seen(done.changes), self._seen_rows(done.knowledge)
        if not left and not rows:
            return None
        whole = (len(left), len(rows)) == (len(done.changes), len(done.knowledge))
        changes = tuple(self._told(change, whole=whole) for change in left)
        knowledge = tuple(self._told_row(change, whole=whole) for change in rows)
        return replace(done, changes=changes, knowledge=knowledge, why=done.why if whole else "")

    def in_full(self, done: Changeset) -> bool:
        """Return whether the changeset is not empty and fully visible."""
        left, rows = self._seen(done.changes), self._seen_rows(done.knowledge)
        return bool(left or rows) and (len(left), len(rows)) == (len(done.changes), len(done.knowledge))

    def done(self, changes: Sequence[Change]) -> list[Change]:
        """Return the visible changes of the viewer's own write: a restore may change counts of a hidden memory."""
        return [replace(change, **self._states(change)) for change in changes if self._sees(change)]

    def _seen(self, changes: Sequence[Change]) -> list[Change]:
        """Return the changes whose before and after are visible, of memories that are still visible."""
        open_ = [change for change in changes if self._sees(change)]
        standing = self._standing({change.memory_id for change in open_})
        return [change for change in open_ if change.memory_id in standing]

    def _sees(self, change: Change) -> bool:
        """Return whether both states are visible. A purged memory has no owner any more."""
        states = [each for each in (change.before, change.after) if each]
        purged_now = change.action == "purge"
        return (bool(states) or purged_now) and all(self.viewer.sees(state) for state in states)

    def _standing(self, ids: set[int]) -> set[int]:
        """Return those that are visible now; deleted ones count by their last state."""
        there = {memory.id: memory for memory in self.store.get(sorted(ids))}
        last = {each: there.get(each) or self._last_of(each) for each in ids}
        return {each for each, memory in last.items() if memory and self.viewer.sees(memory)}

    def _last_of(self, memory_id: int) -> Memory | None:
        own = [change for change in self.store.history(memory_id) if change.memory_id == memory_id]
        return next((state for change in reversed(own) if (state := change.after or change.before)), None)

    def _told(self, change: Change, *, whole: bool) -> Change:
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
        left = self._seen_rows(changes)
        whole = {
            fromkey: self.in_full(self.store.changeset(fromkey)) for fromkey in dict.fromkeys(c.changeset for c in left)
        }
        return [self._told_row(change, whole=whole[change.changeset]) for change in left]

    def sees_row(self, change: KnowledgeChange) -> bool:
        """Return whether before and after are visible. An erased row has no owner any more."""
        states = [each for each in (change.before, change.after) if each]
        return (bool(states) or change.action == "purge") and all(sees(self.viewer, state) for state in states)

    def last_row(self, table: Table, key: str) -> Knowledge | None:
        """Return the current row; if deleted, its last state; None if nothing is known of it."""
        there = self.store.domain.get(table, [key])
        past = [] if there else self.row_states(table, key)
        return there[0] if there else past[-1] if past else None

    def row_states(self, table: Table, key: str) -> list[Knowledge]:
        """Return all known states of the row, oldest first. An id may have belonged to several owners."""
        try:
            lines = self.store.domain.history(table, key)
        except NotFound:
            return []
        return [state for line in lines for state in (line.before, line.after) if state]

    def _seen_rows(self, changes: Sequence[KnowledgeChange]) -> list[KnowledgeChange]:
        """Filter as `_seen` does; but an id may be reused, so an erasure cannot be attributed to an owner."""
        open_ = [change for change in changes if (change.before or change.after) and self.sees_row(change)]
        last = {each: self.last_row(*each) for each in {(change.table, change.key) for change in open_}}
        standing = {each for each, row in last.items() if row and sees(self.viewer, row)}
        return [change for change in open_ if (change.table, change.key) in standing]

    def _told_row(self, change: KnowledgeChange, *, whole: bool) -> KnowledgeChange:
        """Return the row change as `_told` does."""
        reason = change.reason if whole and not self.viewer.prefixes else ""
        return replace(change, reason=reason, why=change.why if whole else "")


class _WritePolicy:
    """Write permissions of a viewer, and the ownership marks of what they write."""

    def __init__(self, sight: _ReadPolicy) -> None:
        self._sight = sight
        self._viewer = sight.viewer
        told = "\x1f".join((self._viewer.user, self._viewer.agent, self._viewer.team, *self._viewer.prefixes))
        self._mark = "~" + hashlib.blake2b(told.encode(), digest_size=6).hexdigest()
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
        theirs = self.exchange(exchange)
        named = theirs.client or theirs.session
        return replace(theirs, client=self.client(theirs.client)) if named else theirs

    def unmarked(self, item: Item) -> Item:
        """Return the item as delivered, without the injected context: it may no longer be visible to the viewer."""
        said = item.exchange
        if said is None:
            return item
        return replace(item, exchange=replace(said, client=said.client.removesuffix(self._mark), injected=()))

    def told(self, item: Item) -> bool:
        """Return whether the item is the viewer's: captured by them, and learned from with no more access than they
        have.
        """
        said, viewer = item.exchange, self._viewer
        if said is None or not viewer.reaches(said.source):
            return False
        mine = said.user == viewer.user if said.user else said.agent == viewer.agent != ""
        mine = (
            mine and said.team == viewer.team
        )  # the team decides what it was compared with, and where memories of it go
        return mine and (not viewer.prefixes or (bool(said.reach) and all(map(viewer.reaches, said.reach))))

    # ── decisions ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def decision(self, decision: Decision) -> Decision:
        """Return the decision with the viewer as owner. Raise NotFound or Forbidden if it is not allowed."""
        match decision:
            case Add():
                return self._add(decision)
            case Update():
                self._target(decision.id)
                return replace(decision, fact=self.fact(decision.fact))
            case Merge():
                for each in decision.ids:
                    self._target(each)
                return replace(decision, fact=self.fact(decision.fact))
            case Adopt():
                return self._adopt(decision)
            case Purge():
                self._check(decision)
                return replace(decision, viewer=self._viewer)
            case Noop():
                self._target(decision.id)
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
                self._target(decision.id)
                if decision.into is not None:
                    self._target(decision.into)
            case Restore():
                self._target(decision.id)
            case Purge():
                if self._target(decision.id).visibility != "private":
                    raise Forbidden(
                        f"Memory {decision.id} is not private to you.", f"Archive it; to erase it, {_TAKES}."
                    )

    def _add(self, decision: Add) -> Add:
        fact = self.fact(decision.fact)
        again = tuple(self._sighting(each) for each in decision.again)
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
        twins = [each for each in store.get(store.known(fact.text, merge_scope(fact))) if each.speaker == fact.speaker]
        return bool(twins) and self._viewer.sees(twins[0])

    def _adopt(self, decision: Adopt) -> Adopt:
        memory = decision.memory
        if memory.id:
            raise Forbidden("Memory ids cannot be set with this key.", f"Leave the id 0; otherwise {_TAKES}.")
        self._check_source(memory.source)
        for link in (memory.supersedes, memory.superseded_by):
            if link is not None:
                self._target(link)
        before = memory.previous_text if memory.supersedes is not None else None
        sightings = tuple(self._sighting(sighting) for sighting in decision.sightings)
        return replace(
            decision, memory=replace(memory, **self._whose(memory.agent), previous_text=before), sightings=sightings
        )

    def _check_edit(self, decision: Edit) -> None:
        before = self._target(decision.id)
        after = apply_edit(before, decision.fields)
        if any(getattr(before, name) != getattr(after, name) for name in _WHOSE):
            raise Forbidden("The owner of a memory cannot be changed with this key.", _ADMIN)
        if before.visibility != after.visibility and not self._viewer.owns(before):
            raise Forbidden(f"Memory {before.id} belongs to another user.", "Only its owner can change its visibility.")
        self._check_source(after.source)
        if not self._viewer.sees(after):
            raise Forbidden("The change would hide it from you.", f"Keep it visible to you; otherwise {_TAKES}.")

    def refuse_undo(
        self, undoes: int | None, decisions: Sequence[Decision], knowledge: Sequence[KnowledgeDecision]
    ) -> None:
        """Raise if the viewer cannot see the whole changeset, undoes only part of it, or needs admin rights for it."""
        if undoes is None:
            raise Forbidden("A single change of a changeset cannot be reverted.", "Undo the whole changeset.")
        done = self._sight.store.changeset(undoes)
        if self._sight.changeset(done) is None:
            raise NotFound(f"There is no changeset {undoes}.", "cofio history shows the newest.")
        if not self._sight.in_full(done):
            raise Forbidden(f"Changeset {undoes} changed memories that you may not see.", f"To undo it, {_TAKES}.")
        reverted = {decision.change_id if isinstance(decision, Revert) else None for decision in decisions}
        withdrawn = {each.change_id if isinstance(each, Withdraw) else None for each in knowledge}
        if (reverted, withdrawn) != ({change.id for change in done.changes}, {each.id for each in done.knowledge}):
            raise Forbidden(
                f"The decisions do not revert exactly changeset {undoes}.", "Undo the whole changeset, and only that."
            )
        if not all(map(self._may_take_back, done.changes)) or not all(map(self._may_take_back, done.knowledge)):
            told = f"Changeset {undoes} changed an owner, or the visibility of another user's memory."
            raise Forbidden(told, f"The owner can undo a change of visibility; otherwise {_TAKES}.")

    def _may_take_back(self, change: Change | KnowledgeChange) -> bool:
        before, after = change.before, change.after
        if before is None or after is None:
            return True
        if any(getattr(before, name) != getattr(after, name) for name in _WHOSE):
            return False  # set by the store's owner
        return before.visibility == after.visibility or self._owns(before)

    def _owns(self, known: Memory | Knowledge) -> bool:
        return owns(self._viewer, known) if isinstance(known, Knowledge) else self._viewer.owns(known)

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
                    self._row_target(decision.table, decision.id)
            case Erase():
                last = self._sight.last_row(decision.table, decision.id)
                if last is None or not sees(self._viewer, last):
                    raise _no_row(decision.table, decision.id)
                if last.visibility != "private" or not self._had_alone(last):
                    raise Forbidden(f"{last.ref} is not private to you.", f"Remove it; to erase it, {_TAKES}.")
        return decision  # a withdrawn change was checked with its changeset

    def _had_alone(self, known: Knowledge) -> bool:
        """Return whether the viewer owned the row in all its states."""
        states = self._sight.row_states(known.TABLE, known.id)
        return all(sees(self._viewer, state) and owns(self._viewer, state) for state in states)

    def _put(self, decision: Put, new: set[str]) -> Put:
        row = self.row(decision.known)
        there = self._seen_row(row.TABLE, row.id)
        memory = getattr(row, "memory", None)
        if memory is not None and memory != getattr(there, "memory", None):
            self._target(memory)
        if there or row.ref in new:
            return replace(decision, known=row)
        new.add(row.ref)
        return replace(
            decision, known=row, as_of=""
        )  # if another viewer took the id meanwhile, their row is not overwritten

    def row(self, known: Knowledge) -> Knowledge:
        """Return the row with the viewer as owner.

        An existing row keeps its owner; an id taken by another gets a suffix.
        """
        made = replace(known, id="").id == known.id  # derived from content and owner: it differs for other owners
        there = self._seen_row(known.TABLE, known.id)
        if there and (not made or audience_of(known) == audience_of(there)):
            return self._restated(known, there)
        theirs: dict[str, Any] = {**self._whose(known.agent), "place": self._viewer.below(known.place).rstrip("/")}
        mine = replace(known, **theirs, id="" if made else known.id)
        if there := self._seen_row(mine.TABLE, mine.id):
            return self._restated(mine, there)
        return replace(mine, id=self._free_id(mine.TABLE, mine.id))

    def _restated(self, known: Knowledge, there: Knowledge) -> Knowledge:
        """Return the new state of an existing row, by the rules of an Edit."""
        place = known.place if self._viewer.reaches(known.place) else there.place
        after = replace(known, **{name: getattr(there, name) for name in _WHOSE}, place=place)
        if after.visibility != there.visibility and not owns(self._viewer, there):
            raise Forbidden(f"{there.ref} belongs to another user.", "Only its owner can change its visibility.")
        if not sees(self._viewer, after):
            raise Forbidden("The change would hide it from you.", f"Keep it visible to you; otherwise {_TAKES}.")
        return after

    def _free_id(self, table: Table, key: str) -> str:
        """Return the id; with a suffix if it is or was used by an owner hidden from the viewer."""
        ends = (self._name + (str(number) if number else "") for number in count())
        wanted = key
        while (last := self._sight.last_row(table, wanted)) and not sees(self._viewer, last):
            end = next(ends)
            wanted = key[: MAX_ID - len(end)] + end
        return wanted

    def _seen_row(self, table: Table, key: str) -> Knowledge | None:
        found = self._sight.store.domain.get(table, [key], viewer=self._viewer)
        return found[0] if found else None

    def _row_target(self, table: Table, key: str) -> Knowledge:
        found = self._seen_row(table, key)
        if found is None:
            raise _no_row(table, key)
        return found

    # ── where it may go ───────────────────────────────────────────────────────────────────────────────────────────────

    def _target(self, memory_id: int) -> Memory:
        found = self._sight.memories(self._sight.store.get([memory_id]))
        if not found:
            raise NotFound(
                f"There is no memory {memory_id}.", "It may have been purged; cofio list shows what there is."
            )
        return found[0]

    def _sighting(self, seen: Occurrence) -> Occurrence:
        return replace(seen, agent=self._viewer.agent or seen.agent)

    def _check_source(self, source: str) -> None:
        if not self._viewer.reaches(source):
            told = f"The source {source!r} is" if source else "An empty source is"
            raise Forbidden(
                f"{told} out of reach of this key.", f"Give a source below: {', '.join(self._viewer.prefixes)}."
            )


def _no_row(table: Table, key: str) -> NotFound:
    return NotFound(f"There is no {table}/{key}.", f"cofio knowledge list {table} shows what there is.")


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
        while len(own) < limit and (found := self._inbox.items(state, limit=_PAGE, after=after)):
            own += [self._hand.unmarked(each) for each in found if self._hand.told(each)]
            after = found[-1].id
        return own[:limit]

    def retry(self, item_id: int) -> Item:
        self._own(item_id)
        return self._hand.unmarked(self._inbox.retry(item_id))

    def _own(self, item_id: int) -> Item:
        item = self._inbox.item(item_id)
        if not self._hand.told(item):
            raise NotFound(f"There is no item {item_id} in the inbox.", "It may belong to another store.")
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

    def ledger(self) -> Ledger:
        refuse("The ledger")

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
        return [each for each in self._domain.told_by(memories) if sees(self._viewer, each)]

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

    def sign(self, signature: str) -> None:  # noqa: ARG002
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
        seen = [episode for episode in self._index.get(ids) if self._sight.viewer.sees(episode)]
        return [replace(episode, client=shown_client(episode.client)) for episode in seen]

    def passages(self, ids: Sequence[int]) -> list[Passage]:
        found = self._index.passages(ids)
        seen = {episode.id for episode in self.get(list({each.episode for each in found}))}
        return [each for each in found if each.episode in seen]

    def of_memory(self, memory_id: int) -> int | None:
        found = self._index.of_memory(memory_id) if self._sight.ids([memory_id]) else None
        return found if found is not None and self.get([found]) else None

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
        if not any(self.turns(session, 1, summaries=each) for each in (False, True)):
            return []
        found = self._index.changesets(session, limit)
        return [each for each in found if self._sight.changeset(self._sight.store.changeset(each))]

    def given(self, session: AgentSession) -> list[int]:
        """Return what the viewer's own session received; nothing for sessions of others."""
        return self._sight.ids(self._index.given(session)) if is_own(session, self._sight.viewer) else []

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        seen = [passage.id for passage in self.passages(list(also))]
        return self._index.nearest(vector, k, self._sight.scope(scope), also=seen)

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        return self._index.matching(words, k, self._sight.scope(scope))

    def remove(self, ids: Sequence[int]) -> int:
        mine = self.get(ids)
        for episode in mine:
            if episode.visibility != "private" or not self._sight.viewer.owns(episode):
                raise Forbidden(f"Episode {episode.id} is not private to you.", f"To erase it, {_TAKES}.")
        return self._index.remove([episode.id for episode in mine]) if mine else 0

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
        found = self._carrying.origins(origins)
        there = set(self._sight.ids(list(found.values())))
        return {origin: each for origin, each in found.items() if each in there}

    def rows(self, after: int, limit: int, *, vectors: bool = False) -> list[ExportedMemory]:
        told: list[ExportedMemory] = []
        for each in self._all(after, vectors=vectors):
            told.append(each)
            if len(told) == limit:
                break
        return told

    def _all(self, after: int, *, vectors: bool) -> Iterator[ExportedMemory]:
        """Yield the visible ones, page by page."""
        while found := self._carrying.rows(after, _PAGE, vectors=vectors):
            shown = {memory.id: memory for memory in self._sight.memories(each.memory for each in found)}
            yield from (replace(each, memory=shown[each.memory.id]) for each in found if each.memory.id in shown)
            after = found[-1].memory.id

    def counts(self) -> tuple[int, int]:
        number, last = 0, 0
        for each in self._all(0, vectors=False):
            number, last = number + 1, each.memory.id
        return number, last

    def knowledge(self, table: Table, after: str, limit: int) -> list[Knowledge]:
        told: list[Knowledge] = []
        while len(told) < limit and (found := self._carrying.knowledge(table, after, _PAGE)):
            told += [each for each in found if sees(self._sight.viewer, each)]
            after = found[-1].id
        return told[:limit]

    def episodes(self, after: int, limit: int) -> list[ExportedEpisode]:  # noqa: ARG002
        refuse("Copying episodes")

    def parts(self, changeset_id: int) -> list[int]:
        found = self._carrying.parts(changeset_id)
        if not found or self._sight.changeset(self._sight.store.changeset(changeset_id)) is None:
            return []
        return found
