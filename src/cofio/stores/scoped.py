"""Authorization wrapper of a store: a viewer reads only what they may see, and owns what they write.

    Scope ─ with the viewer in it ─▶ the store's own queries        ids, changes, items ─ Viewer.sees ─▶ filtered
    Decision, row of knowledge ─ with user, agent and team, or refused ─▶ store.apply

Reads are filtered inside the store's queries, so that a search for k still finds k. Results of look-ups by id are
checked before they are returned.

Access is denied by default: each part lists the methods that a viewer may call, and the arguments that are limited.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from itertools import islice
from typing import Any, ClassVar, Concatenate, NoReturn, ParamSpec, Self, TypeVar

from cofio.errors import Forbidden, NotFound
from cofio.models.diagnostics import StoreDamage
from cofio.models.domain_knowledge import Knowledge, KnowledgeChange, Table, sees
from cofio.models.episodes import Episode, Passage, shown_client
from cofio.models.exchange import Exchange, Item, Receipt, State, Task
from cofio.models.maintenance import ExportedMemory
from cofio.models.memory import (
    CATEGORIES,
    KINDS,
    VISIBILITIES,
    Candidate,
    Change,
    Changeset,
    Decision,
    Memory,
    Occurrence,
    Retrieval,
    Revert,
    RevertRow,
    Scope,
    Viewer,
)
from cofio.models.sessions import AgentSession, is_own
from cofio.ports import (
    Basis,
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
from cofio.stores.permissions import ADMIN_KEY, ReadPolicy, WritePolicy
from cofio.stores.row_mapping import no_changeset, no_row

_PAGE = 500  # rows checked per query
Params = ParamSpec("Params")
Result = TypeVar("Result")
#: Return the value of an argument as the viewer may pass it, by the name of the argument.
_LIMITS: Mapping[str, Callable[[ReadPolicy, WritePolicy, Any], Any]] = {
    "scope": lambda read, _, scope: read.scope(scope),
    "viewer": lambda read, _, __: read.viewer,
    "ids": lambda read, _, ids: read.ids(ids),
    "also": lambda read, _, ids: read.ids(ids),
    "client": lambda _, write, client: write.client(client),
    "any_key": lambda *_: False,
}
_MANDATORY = ("scope", "viewer", "any_key")  # arguments that have to be limited wherever they occur


def scope_to_owner(store: Store, exchange: Exchange) -> Store:
    """Return the store as seen by the exchange's speaker; unchanged if the exchange has no owner."""
    if not exchange.user and not exchange.agent:
        return store
    viewer = Viewer(agent=exchange.agent, user=exchange.user, team=exchange.team, prefixes=exchange.reach)
    return ScopedStore(store, viewer)


def refuse(subject: str, verb: str = "is") -> NoReturn:
    """Raise Forbidden for an operation that viewers may not use."""
    raise Forbidden(f"{subject} {verb} not allowed with this key.", "Use an admin key.")


def limited(
    method: Callable[Concatenate[Any, Params], Result],
    *arguments: str,
    show: Callable[[ReadPolicy, Any], Any] | None = None,
) -> Callable[Concatenate[Any, Params], Result]:
    """Return a method that calls the part of the store with these arguments limited to what the viewer may see.

    `show` filters the result.
    """
    signature = inspect.signature(method)
    names = signature.parameters.keys()
    missing = names & set(_MANDATORY) - set(arguments)
    if missing or not set(arguments) <= names:
        raise TypeError(f"{method.__qualname__}: {sorted(missing) or arguments} must be limited.")

    @wraps(method)
    def call(self: _Restricted, /, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        for name in arguments:
            bound.arguments[name] = _LIMITS[name](self._read, self._write, bound.arguments[name])
        result = getattr(self._part, method.__name__)(*bound.args[1:], **bound.kwargs)
        return show(self._read, result) if show else result  # type: ignore[no-any-return]

    return call


def _refused(subject: str, verb: str = "is") -> Any:
    return property(lambda _: refuse(subject, verb))


class _Restricted:
    """Part of a store for one viewer. Methods of its protocol that a subclass does not define raise Forbidden."""

    subject: ClassVar[str]  # of the error
    _part: Any

    def __init__(self, part: Any, read: ReadPolicy, write: WritePolicy) -> None:
        self._part, self._read, self._write = part, read, write

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()

        def deny(_: object, *args: object, **kwargs: object) -> NoReturn:  # noqa: ARG001
            refuse(cls.subject)

        for protocol in cls.__bases__[1:]:
            for name in vars(protocol).keys() - vars(cls).keys():
                if not name.startswith("_"):
                    setattr(cls, name, deny)

    @classmethod
    def limit(cls, part: object, read: ReadPolicy, write: WritePolicy) -> Self:
        return cls(part, read, write)


class ScopedStore(_Restricted):
    """Store limited to what a viewer may see and do."""

    subject = "This operation"
    _part: Store
    runs: Runs = _refused("Upkeep")
    llm_calls: LLMCalls = _refused("The log of language model calls")
    keys: Keys = _refused("Keys", "are")
    notes: Notes = _refused("Notes", "are")

    def __init__(self, store: Store, viewer: Viewer) -> None:
        read = ReadPolicy(store, viewer)
        write = WritePolicy(read)
        super().__init__(store, read, write)
        self.viewer = viewer
        self.fact, self.exchange, self.row = write.fact, write.exchange, write.row
        self.inbox: Inbox = _ScopedInbox.limit(store.inbox, read, write)
        self.usage: UsageQueries = _ScopedUsageQueries.limit(store.usage, read, write)
        self.snapshots: Snapshots = _ScopedSnapshots.limit(store.snapshots, read, write)
        self.domain: KnowledgeTables = _ScopedKnowledgeTables.limit(store.domain, read, write)
        self.dashboard: DashboardQueries = _ScopedDashboardQueries.limit(store.dashboard, read, write)
        self.token_embeddings: TokenEmbeddings = _ScopedTokenEmbeddings.limit(store.token_embeddings, read, write)
        self.episodes: EpisodeIndex = _ScopedEpisodeIndex.limit(store.episodes, read, write)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────

    get = limited(Store.get, show=ReadPolicy.memories)
    said = limited(Store.said, "ids")
    has_speakers = limited(Store.has_speakers)
    newest = limited(Store.newest, "scope", show=ReadPolicy.memories)
    latest = limited(Store.latest, "scope", show=ReadPolicy.memories)
    nearest = limited(Store.nearest, "scope", "also")
    matching = limited(Store.matching, "scope")
    known = limited(Store.known, "scope")
    pairs = limited(Store.pairs, "scope")
    neighbours = limited(Store.neighbours, "ids")
    newest_changeset = limited(Store.newest_changeset)
    projects = limited(Store.projects, "scope")
    repeated = limited(Store.repeated, "scope")
    clear_injected = limited(Store.clear_injected, "client")

    def page(self, scope: Scope, *, limit: int, after: int | None = None, skip: int = 0) -> tuple[list[Memory], int]:
        memories, total = self._part.page(self._read.scope(scope), limit=limit, after=after, skip=skip)
        return self._read.memories(memories), total

    def holding(self, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        matches = self._part.holding(words, self._read.ids(ids))
        return {memory_id: matches.get(memory_id, []) for memory_id in ids}

    def stats(self) -> dict[str, Any]:
        """Return counts of what is visible.

        Counts that exist for the whole store only (vectors, retrievals, size) are 0.
        """
        live, everything = self._count(), self._count(include_archived=True)
        hidden = dict.fromkeys(("vectors", "changesets", "retrievals", "inbox_pending", "bytes"), 0)
        return {
            "store": "",
            "memories": live,
            "archived": everything - live,
            "embedder": self._part.stats()["embedder"],
            **hidden,
            "by_source": _sort_counts({prefix: self._count(source_prefix=prefix) for prefix in self.viewer.prefixes}),
            "by_category": _sort_counts({name: self._count(category=name) for name in CATEGORIES}),
            "by_kind": _sort_counts({name: self._count(kind=name) for name in KINDS}),
            "by_visibility": _sort_counts({name: self._count(visibility=(name,)) for name in VISIBILITIES}),
        }

    def _count(self, **filters: Any) -> int:
        return self._part.page(self._read.scope(Scope(**filters)), limit=1)[1]

    # ── the journal ───────────────────────────────────────────────────────────────────────────────────────────────────

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
        basis: Basis | None = None,
    ) -> Changeset:
        if undoes is not None or any(isinstance(decision, Revert | RevertRow) for decision in decisions):
            self._write.check_undo(undoes, decisions)
        if part_of is not None and not self._read.sees_all(self._part.changeset(part_of)):
            raise no_changeset(part_of)
        changeset = self._part.apply(
            self._write.decisions(decisions),
            vectors,
            by=by,
            why=why,
            undoes=undoes,
            part_of=part_of,
            settles=settles,
            basis=basis and Basis(basis.as_of, lambda: self._own_decisions(*basis.decide())),
        )
        return self._read.own_changeset(changeset)

    def _own_decisions(
        self, decisions: Sequence[Decision], vectors: Mapping[int, Vector]
    ) -> tuple[Sequence[Decision], Mapping[int, Vector]]:
        return self._write.decisions(decisions), vectors

    def history(self, memory_id: int) -> list[Change]:
        changes = self._read.changes(self._part.history(memory_id))
        if not any(change.memory_id == memory_id for change in changes):
            raise NotFound(f"There is no memory {memory_id}.", "`cofio list` lists the memories.")
        return changes

    def occurrences(self, memory_id: int) -> list[Occurrence]:
        return self._part.occurrences(memory_id) if self._read.ids([memory_id]) else []

    def changeset(self, changeset_id: int) -> Changeset:
        changeset = self._read.changeset(self._part.changeset(changeset_id))
        if changeset is None:
            raise no_changeset(changeset_id)
        return changeset

    def changesets(self, limit: int, *, within: Scope | None = None) -> list[Changeset]:
        """Return the newest changesets with visible changes.

        One that changed a memory before it became visible may be missing.
        """
        scope, page_size = self._read.scope(within or Scope(include_archived=True)), limit
        visible_by_id: dict[int, Changeset | None] = {}
        while True:
            changesets = self._part.changesets(page_size, within=scope)
            for changeset in changesets:
                if changeset.id not in visible_by_id:
                    visible_by_id[changeset.id] = self._read.changeset(self._part.changeset(changeset.id))
            results = [
                replace(visible, changes=()) for changeset in changesets if (visible := visible_by_id[changeset.id])
            ]
            if len(results) >= limit or len(changesets) < page_size:
                return results[:limit]
            page_size *= 2

    # ── derived data ──────────────────────────────────────────────────────────────────────────────────────────────────

    def note(self, retrievals: Sequence[Retrieval]) -> None:
        visible_ids = set(self._read.ids(retrieval.memory_id for retrieval in retrievals))
        self._part.note([retrieval for retrieval in retrievals if retrieval.memory_id in visible_ids])

    def unembedded(self, limit: int, *, among: Sequence[int] | None = None) -> list[Memory]:
        if among is None:
            refuse("Embedding every memory")
        return self._read.memories(self._part.unembedded(limit, among=self._read.ids(among)))

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        self._part.put_vectors({memory_id: vectors[memory_id] for memory_id in self._read.ids(vectors)})

    def missing_vectors(self) -> int:
        refuse("Counting vectors")

    def damaged_vectors(self) -> list[int]:
        refuse("Verifying the store")

    def drop_damaged_vectors(self) -> int:
        refuse("Repairing the store")

    def verify(self) -> StoreDamage:
        refuse("Verifying the store")

    def set_signature(self, signature: str, *, reset: bool = False) -> None:
        if reset:
            refuse("Re-embedding every memory")
        self._part.set_signature(signature)

    def injected(self, client: str, session: str) -> dict[int, str]:
        digests = self._part.injected(self._write.client(client), session)
        return {memory_id: digests[memory_id] for memory_id in self._read.ids(digests)}

    def mark_injected(self, client: str, session: str, injected: Mapping[int, str]) -> None:
        visible = {memory_id: injected[memory_id] for memory_id in self._read.ids(injected)}
        self._part.mark_injected(self._write.client(client), session, visible)

    def forget_injected_before(self, before: str) -> int:  # noqa: ARG002
        refuse("Deleting records of injected memories")

    def close(self) -> None:
        """Do nothing: the store is closed by its owner."""


def _sort_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the non-zero counts, highest first."""
    return dict(sorted(((name, n) for name, n in counts.items() if n), key=lambda pair: (-pair[1], pair[0])))


class _ScopedInbox(_Restricted, Inbox):
    """Inbox limited to the viewer's own captures."""

    subject = "Working on the inbox"
    _part: Inbox
    release = limited(Inbox.release, "client")
    hold = limited(Inbox.hold, "client")
    turns = limited(Inbox.turns, "client", "any_key")
    purged_turns = limited(Inbox.purged_turns, "client")

    def receive(
        self, exchanges: Sequence[Exchange], *, task: Task = "learn", most: int | None = None, hold: float = 0.0
    ) -> list[Receipt]:
        stored = [self._write.to_stored(exchange) for exchange in exchanges]
        return self._part.receive(stored, task=task, most=most, hold=hold)

    def amend(self, exchange: Exchange, *, hold: float = 0.0, most: int | None = None) -> Receipt:
        return self._part.amend(self._write.to_stored(exchange), hold=hold, most=most)

    def item(self, item_id: int) -> Item:
        item = self._part.item(item_id)
        if not self._write.owns_item(item):
            raise NotFound(
                f"There is no capture {item_id}.", "`cofio inbox` lists the newest captures that you may see."
            )
        return self._write.to_delivered(item)

    def items(self, state: State | None = None, *, limit: int = 50, after: int | None = None) -> list[Item]:
        own: list[Item] = []
        while len(own) < limit and (page := self._part.items(state, limit=_PAGE, after=after)):
            own += [self._write.to_delivered(item) for item in page if self._write.owns_item(item)]
            after = page[-1].id
        return own[:limit]

    def retry(self, item_id: int) -> Item:
        self.item(item_id)
        return self._write.to_delivered(self._part.retry(item_id))

    def settled_by(self, changeset_id: int) -> Item | None:
        item = self._part.settled_by(changeset_id)
        return self._write.to_delivered(item) if item and self._write.owns_item(item) else None


class _ScopedKnowledgeTables(_Restricted, KnowledgeTables):
    """Domain knowledge limited to what the viewer may see, even if another viewer is given."""

    subject = "This operation"
    get = limited(KnowledgeTables.get, "viewer")
    rows = limited(KnowledgeTables.rows, "viewer")
    naming = limited(KnowledgeTables.naming, "viewer")
    counts = limited(KnowledgeTables.counts, "viewer")
    stated_by = limited(KnowledgeTables.stated_by, show=lambda read, claims: list(filter(read.sees, claims)))

    def history(self, table: Table, key: str) -> list[KnowledgeChange]:
        changes = self._read.changes(self._read.store.domain.history(table, key))
        if not changes:
            raise no_row(table, key)
        return changes


class _ScopedUsageQueries(_Restricted, UsageQueries):
    """Recall counts of visible memories. Queries, and who made them, are hidden."""

    subject = "Upkeep"
    view = limited(UsageQueries.view, "scope", show=ReadPolicy.memories)
    tracking = limited(UsageQueries.tracking)


class _ScopedDashboardQueries(_Restricted, DashboardQueries):
    """Dashboard data of visible memories. Activity of others is for the owner only."""

    subject = "Reading the activity of others"
    arrived = limited(DashboardQueries.arrived, "scope")
    dots = limited(DashboardQueries.dots, "scope")
    inject = limited(DashboardQueries.inject)


class _ScopedTokenEmbeddings(_Restricted, TokenEmbeddings):
    """Token embeddings of search candidates, which are already visible; nothing else."""

    subject = "Computing token embeddings"
    get = limited(TokenEmbeddings.get)


class _ScopedEpisodeIndex(_Restricted, EpisodeIndex):
    """Episodes visible to the viewer. Indexing and bulk removal are for the owner only."""

    subject = "Indexing or removing episodes"
    _part: EpisodeIndex
    sessions = limited(EpisodeIndex.sessions, "viewer")
    turns = limited(EpisodeIndex.turns, "viewer")
    matching = limited(EpisodeIndex.matching, "scope")

    def get(self, ids: Sequence[int]) -> list[Episode]:
        episodes = [episode for episode in self._part.get(ids) if self._read.viewer.sees(episode)]
        return [replace(episode, client=shown_client(episode.client)) for episode in episodes]

    def passages(self, ids: Sequence[int]) -> list[Passage]:
        passages = self._part.passages(ids)
        visible = {episode.id for episode in self.get(list({passage.episode for passage in passages}))}
        return [passage for passage in passages if passage.episode in visible]

    def of_memory(self, memory_id: int) -> int | None:
        number = self._part.of_memory(memory_id) if self._read.ids([memory_id]) else None
        return number if number is not None and self.get([number]) else None

    def changesets(self, session: AgentSession, limit: int) -> list[int]:
        """Return the changesets with visible parts, if the session has visible turns."""
        if not any(self.turns(session, 1, summaries=summaries) for summaries in (False, True)):
            return []
        numbers = self._part.changesets(session, limit)
        return [number for number in numbers if self._read.changeset(self._read.store.changeset(number))]

    def injected(self, session: AgentSession) -> list[int]:
        """Return what the viewer's own session received; nothing for sessions of others."""
        return self._read.ids(self._part.injected(session)) if is_own(session, self._read.viewer) else []

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        visible = [passage.id for passage in self.passages(list(also))]
        return self._part.nearest(vector, k, self._read.scope(scope), also=visible)

    def remove(self, ids: Sequence[int]) -> int:
        episodes = self.get(ids)
        for episode in episodes:
            if episode.visibility != "private" or not self._read.viewer.owns(episode):
                raise Forbidden(f"Episode {episode.id} is not private to you.", f"To erase it, {ADMIN_KEY}.")
        return self._part.remove([episode.id for episode in episodes]) if episodes else 0


class _ScopedSnapshots(_Restricted, Snapshots):
    """Export access limited to visible memories. Names and ids of the store cannot be set."""

    subject = "Importing an export or copying episodes"
    _part: Snapshots
    identity = limited(Snapshots.identity)

    @contextmanager
    def snapshot(self) -> Iterator[Snapshots]:
        with self._part.snapshot() as snapshot:
            yield _ScopedSnapshots.limit(snapshot, self._read, self._write)

    def reserve(self, count: int) -> int:
        if count:
            refuse("Importing an export")
        return self._part.reserve(0)

    def room(self, name: str, last: int) -> list[tuple[int, int]]:  # noqa: ARG002
        if last:
            refuse("Importing an export")
        return []

    def origins(self, origins: Sequence[str]) -> dict[str, int]:
        id_by_origin = self._part.origins(origins)
        visible = set(self._read.ids(id_by_origin.values()))
        return {origin: memory_id for origin, memory_id in id_by_origin.items() if memory_id in visible}

    def rows(self, after: int, limit: int, *, vectors: bool = False) -> list[ExportedMemory]:
        return list(islice(self._all(after, vectors=vectors), limit))

    def _all(self, after: int, *, vectors: bool) -> Iterator[ExportedMemory]:
        while page := self._part.rows(after, _PAGE, vectors=vectors):
            visible = {memory.id: memory for memory in self._read.memories(row.memory for row in page)}
            yield from (replace(row, memory=visible[row.memory.id]) for row in page if row.memory.id in visible)
            after = page[-1].memory.id

    def counts(self) -> tuple[int, int]:
        number, last = 0, 0
        for row in self._all(0, vectors=False):
            number, last = number + 1, row.memory.id
        return number, last

    def knowledge(self, table: Table, after: str, limit: int) -> list[Knowledge]:
        rows: list[Knowledge] = []
        while len(rows) < limit and (page := self._part.knowledge(table, after, _PAGE)):
            rows += [row for row in page if sees(self._read.viewer, row)]
            after = page[-1].id
        return rows[:limit]

    def parts(self, changeset_id: int) -> list[int]:
        parts = self._part.parts(changeset_id)
        visible = parts and self._read.changeset(self._read.store.changeset(changeset_id))
        return parts if visible else []
