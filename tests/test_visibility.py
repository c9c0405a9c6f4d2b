"""Property tests of access control: read paths return all visible data, and nothing that the viewer may not see.

Every text, reason and note contains a unique word. The output of every read path is searched for words that the viewer
must not see.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cofio.client import Client
from cofio.core import Keeper
from cofio.errors import CofioError, Forbidden
from cofio.models.auth import Grant
from cofio.models.domain_knowledge import TABLES, Knowledge, Pattern, Table, Threshold, sees
from cofio.models.episodes import Episode
from cofio.models.memory import (
    VISIBILITIES,
    Add,
    Changeset,
    Decision,
    Delete,
    DeleteRow,
    Edit,
    Fact,
    Memory,
    Merge,
    Noop,
    Occurrence,
    Purge,
    PurgeRow,
    PutRow,
    Query,
    Restore,
    RowDecision,
    Scope,
    Update,
    Viewer,
)
from cofio.ports import KnowledgeTables, Store
from cofio.server.mcp.caller import Caller as Asking
from cofio.server.mcp.tools import answer
from cofio.stores.postgres import PostgresStore
from cofio.stores.scoped import ScopedStore
from cofio.testing import FixedClock, HashEmbedder, MemoryStore
from tests import postgres
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving

USERS, AGENTS, TEAMS = ("", "ada", "bob"), ("", "codex", "bot"), ("", "red", "blue")
SOURCES = ("", "work/web", "work/web/api", "work/website", "other")
PROJECTS = ("", "/srv/web")
QUESTION = "When does the vault open?"
ROWS = ("one", "two", "three")  # ids of knowledge rows
WORD = re.compile(r"\b(?:told|note|why)\d{4}\b")


@contextmanager
def in_sqlite() -> Iterator[Store]:
    store = MemoryStore(FixedClock())
    yield store
    store.close()


DATABASE: list[str] = []  # one shared database; each store is its own tenant


@pytest.fixture(scope="module", autouse=True)
def shared_database(postgres_server: str, postgres_template: str) -> Iterator[None]:
    with postgres.database(postgres_server, postgres_template) as url:
        DATABASE.append(url)
        yield
        DATABASE.clear()


@contextmanager
def in_postgres() -> Iterator[Store]:
    store = PostgresStore(f"{DATABASE[0]}?tenant={uuid4().hex}", FixedClock())
    yield store
    store.close()


#: Store factories; add one line per adapter.
STORES: dict[str, Callable[[], Any]] = {"sqlite": in_sqlite, "postgres": in_postgres}


# ── operations on the store ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Operation:
    """One operation on one or two memories."""

    kind: str
    first: int
    second: int
    about: dict[str, Any]


KINDS = ("add", "add", "add", "text", "audience", "supersede", "merge", "into", "delete", "restore", "again", "purge",
         "undo", "two", "learn")  # fmt: skip
KNOWLEDGE_KINDS = ("know", "know", "know", "know both", "tell", "drop", "erase")
ATTRIBUTES = st.fixed_dictionaries(
    {
        "user": st.sampled_from(USERS),
        "agent": st.sampled_from(AGENTS),
        "team": st.sampled_from(TEAMS),
        "visibility": st.sampled_from(VISIBILITIES),
        "source": st.sampled_from(SOURCES),
        "project": st.sampled_from(PROJECTS),
    }
)
OPERATIONS = st.lists(
    st.builds(Operation, st.sampled_from(KINDS + KNOWLEDGE_KINDS), st.integers(0, 30), st.integers(0, 30), ATTRIBUTES),
    max_size=25,
)
VIEWERS = st.builds(
    Viewer,
    user=st.sampled_from(USERS[1:]),
    agent=st.sampled_from(AGENTS),
    team=st.sampled_from(TEAMS),
    prefixes=st.sampled_from(((), (), ("work/web",), ("other", "work"))),
) | st.builds(Viewer, agent=st.sampled_from(AGENTS[1:]), team=st.sampled_from(TEAMS))


class StoreUnderTest:
    """A store on which operations were executed, with the owner's full view of it."""

    def __init__(self, store: Store, keeper: Keeper, operations: Iterable[Operation]) -> None:
        self.store = store
        self.keeper = keeper
        self._words = count(1)
        self.ids: list[int] = []
        for number, operation in enumerate(operations):
            with suppress(CofioError):  # memory missing, archived or already undone: skip the operation
                self._do(operation, f"why{number:04}")

    def _do(self, operation: Operation, why: str) -> None:
        if operation.kind == "undo":
            changeset = self.keeper.undo(1 + operation.first % (1 + len(self.keeper.changes(limit=1_000))), why=why)
        elif operation.kind == "learn":
            transcript = f"User: We switched from {self._text().split()[3]} to told{next(self._words):04}."
            self.keeper.learn(transcript, **operation.about)
            changeset = self.keeper.changeset(self.keeper.changes(limit=1)[0].id)
        elif operation.kind in ("add", "two"):
            facts = [self._fact(operation.about) for _ in range(1 + (operation.kind == "two"))]
            other = {**operation.about, "user": "bob", "visibility": "private"}
            added = self.keeper.add_all([*facts[:1], *(Fact(text=fact.text, **other) for fact in facts[1:])],
                                        dedup=False, why=why)  # fmt: skip
            changeset = self.keeper.changeset(added[0].changeset)
        elif operation.kind in KNOWLEDGE_KINDS:
            facts = [self._fact(operation.about)] if operation.kind == "tell" else []
            changeset = self.keeper.apply([*map(Add, facts), *self._known(operation)], by="owner", why=why)
        else:
            changeset = self.keeper.apply([self._decision(operation)], by="owner", why=why)
        self.ids += [change.memory_id for change in changeset.changes if change.memory_id not in self.ids]

    def _decision(self, operation: Operation) -> Decision:
        first, second = (
            self.ids[position % len(self.ids)] if self.ids else 1 for position in (operation.first, operation.second)
        )
        reason = f"note{next(self._words):04}"
        decisions: dict[str, Callable[[], Decision]] = {
            "text": lambda: Edit(first, {"text": self._text()}, reason),
            "audience": lambda: Edit(first, operation.about, reason),
            "supersede": lambda: Update(first, self._fact(operation.about), reason),
            "merge": lambda: Merge((first, second), self._fact(operation.about), reason),
            "into": lambda: Delete(first, reason, into=second),
            "delete": lambda: Delete(first, reason),
            "restore": lambda: Restore(first, reason),
            "again": lambda: Noop(first, Occurrence(operation.about["agent"]), reason),
            "purge": lambda: Purge(first, reason),
        }
        return decisions[operation.kind]()

    def _known(self, operation: Operation) -> Iterator[RowDecision]:
        """Yield decisions about one row, or about two rows of different users. The few ids make rows overwrite each
        other."""
        key, reason = ROWS[operation.first % len(ROWS)], f"note{next(self._words):04}"
        attributes = {name: value for name, value in operation.about.items() if name not in ("source", "project")}
        attributes["place"] = operation.about["source"]
        if operation.kind == "drop":
            yield DeleteRow("patterns", key, reason)
        elif operation.kind == "erase":
            yield PurgeRow("patterns", key, reason)
        else:
            yield PutRow(self._pattern(key, attributes), reason, stated_by=0 if operation.kind == "tell" else None)
        if operation.kind == "know both":
            word = self._text().split()[3]
            bob_attributes = {**attributes, "user": "bob", "visibility": "private"}
            yield PutRow(
                Threshold(source=word, metric="volume", value=1, direction="above", unit=word, id=key, **bob_attributes)
            )

    def _pattern(self, key: str, about: dict[str, Any]) -> Pattern:
        text = self._text()
        return Pattern(pattern=text, source=f"vault {text.split()[3]}", id=key, **about)

    def _fact(self, about: dict[str, Any]) -> Fact:
        text = self._text()
        word = text.split()[3]
        return Fact(text=text, context=f"Before: {word}", tags=(word,), metadata={"of": word}, **about)

    def _text(self) -> str:
        return f"The vault of told{next(self._words):04} opens at noon"

    # ── visible words ─────────────────────────────────────────────────────────────────────────────────────────────────

    def live(self, viewer: Viewer) -> set[int]:
        """Return the ids of the live memories that the viewer may see."""
        return {memory.id for memory in self.keeper if viewer.sees(memory)}

    def allowed(self, viewer: Viewer) -> set[str]:
        """Return the words of all visible states of memories that are visible now."""
        words: set[str] = set()
        for changeset in (self.keeper.changeset(entry.id) for entry in self.keeper.changes(limit=1_000)):
            states = [
                (change, [state for state in (change.before, change.after) if state]) for change in changeset.changes
            ]
            visible = [
                (change, visible_states)
                for change, visible_states in states
                if visible_states and all(map(viewer.sees, visible_states)) and self._is_open(change.memory_id, viewer)
            ]
            visible_knowledge = [
                change
                for change in changeset.knowledge
                if any((change.before, change.after)) and self._is_open_row(change.table, change.key, viewer)
                if all(sees(viewer, state) for state in (change.before, change.after) if state)
            ]
            is_fully_visible = (len(visible), len(visible_knowledge)) == (
                len(changeset.changes),
                len(changeset.knowledge),
            )
            words |= {word for _, visible_states in visible for state in visible_states for word in _words_of(state)}
            words |= {word for change in visible_knowledge for word in WORD.findall(f"{change.before} {change.after}")}
            if is_fully_visible and not viewer.prefixes:
                words |= {
                    word
                    for change in (*changeset.changes, *changeset.knowledge)
                    for word in WORD.findall(change.reason)
                }
            words |= set(WORD.findall(changeset.why)) if is_fully_visible else set()
        words |= {word for episode in self.episodes() if viewer.sees(episode) for word in WORD.findall(episode.text)}
        words |= {word for row in self.rows() if sees(viewer, row) for word in WORD.findall(repr(row))}
        return words | {word for memory in self._rows() if viewer.sees(memory) for word in _words_of(memory)}

    def words(self) -> list[str]:
        """Return every unique word, and the other words that name rows."""
        return ["vault", *(f"told{number:04}" for number in range(1, next(self._words)))]

    def changesets(self) -> list[int]:
        return [change.id for change in self.keeper.changes(limit=1_000)]

    def last(self, changeset: Changeset) -> list[Knowledge]:
        """Return the current or last state of the rows that the changeset changed."""
        lines = [self.store.domain.history(change.table, change.key) for change in changeset.knowledge]
        states = [[state for line in history for state in (line.before, line.after) if state] for history in lines]
        return [versions[-1] for versions in states if versions]

    def capture(self, about: dict[str, Any]) -> None:
        """Capture a turn from which no fact is extracted."""
        word = f"told{next(self._words):04}"
        self.keeper.capture(f"Does the vault of {word} open at noon?", wait=True, session="s1", **about)

    def episodes(self) -> list[Episode]:
        """Return all episodes."""
        return [episode.episode for episode in self.store.snapshots.episodes(0, 1_000)]

    def rows(self) -> list[Knowledge]:
        """Return all knowledge rows."""
        return [row for table in TABLES for row in self.store.domain.rows(table)]

    def _is_open_row(self, table: Table, key: str, viewer: Viewer) -> bool:
        lines = self.store.domain.history(table, key)
        last = [state for change in lines for state in (change.before, change.after) if state][-1:]
        return bool(last) and sees(viewer, last[0])

    def _is_open(self, memory_id: int, viewer: Viewer) -> bool:
        own = [change for change in self.keeper.history(memory_id) if change.memory_id == memory_id]
        last = [state for change in own for state in (change.before, change.after) if state][-1:]
        return bool(last) and viewer.sees(last[0])

    def _rows(self) -> list[Memory]:
        return list(self.keeper.list(limit=1_000, include_archived=True).memories)


def _words_of(memory: Memory) -> set[str]:
    """Return the words in a memory, without words from earlier states."""
    return set(WORD.findall(f"{memory.text} {memory.context} {memory.tags} {memory.metadata}"))


# ── read paths ────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_memories(keeper: Keeper, ids: Sequence[int]) -> Iterator[tuple[str, Any]]:
    """Yield the result of every read method for these memories and for lists."""
    yield "search", keeper.search(QUESTION, k=100, explain=True, include_archived=True)
    yield "search_all", keeper.search_all([Query(text=QUESTION, k=3), Query(text="noon", hybrid=False)])
    yield "list", list(_pages(keeper))
    yield "iteration", list(keeper)
    yield "recall at start", keeper.recall(project=PROJECTS[1])
    yield "recall at prompt", keeper.recall(QUESTION, project=PROJECTS[1])
    yield "enrich", keeper.enrich_prompt(QUESTION, include_team=True, max_facts=20)
    yield "novelty", keeper.is_novel("The vault opens at noon", threshold=0.1)
    yield "export", list(keeper.export_lines())
    yield "usage", [keeper.usage(view, days=0, include_archived=True) for view in ("never", "most", "stale")]
    yield "patterns", keeper.detect_cross_agent_patterns(min_occurrences=1)
    yield "team", keeper.get_team_facts()
    yield "overview", keeper.dashboard.overview()
    yield "dots", keeper.services.access.store.dashboard.dots(Scope(), 100, 1_000)
    yield "changes", keeper.changes(limit=100)
    yield "duplicates", keeper.find_duplicates(threshold=0.5)
    yield "all", keeper.services.memories.plan_delete_all()
    yield "stats", keeper.stats()
    yield "items", keeper.items()
    source = (*(keeper.viewer.prefixes if keeper.viewer else ()), "")[0]
    arguments: dict[str, Any] = {"source": source, "project": PROJECTS[1], "visibility": "team", "dry_run": True}
    yield "learning", keeper.learn("User: We switched from the vault to the cellar.", **arguments)
    yield "texts", keeper.services.memories.texts(ids)
    yield "context", keeper.recall_context(QUESTION, max_memories=20, max_patterns=20, max_thresholds=20)
    yield "knowledge", [keeper.knowledge.list(table, limit=100) for table in TABLES]
    yield "counts", keeper.knowledge.counts()
    yield "evaluated", [keeper.knowledge.evaluate(f"told{memory_id:04}", "volume", 9) for memory_id in range(30)]
    yield "related", keeper.knowledge.related("vault")
    for memory_id in ids:
        for method in (keeper.get, keeper.history, keeper.occurrences, keeper.freshness):
            with suppress(CofioError):
                yield f"{method.__name__} {memory_id}", method(memory_id)
    for number in range(1, 60):
        for method_by_number in (keeper.changeset, keeper.item):
            with suppress(CofioError):
                yield f"{method_by_number.__name__} {number}", method_by_number(number)


def read_episodes(keeper: Keeper, ids: Sequence[int], episodes: Sequence[int]) -> Iterator[tuple[str, Any]]:
    """Yield the result of every read method for episodes."""
    yield "search_episodes", keeper.search_episodes(QUESTION, k=100)
    yield "passages", keeper.services.access.store.episodes.passages(range(2 * max(episodes, default=0)))
    yield "resume", [keeper.resume().as_dict(), *(keeper.resume(project).as_dict() for project in PROJECTS)]
    for session in keeper.sessions(limit=1_000):
        yield "sessions", session
        yield "session", keeper.session(session.session, client=session.client, owner=session.owner)
    for episode in episodes:
        with suppress(CofioError):
            yield f"episode {episode}", keeper.episode(episode)
    for memory_id in ids:
        with suppress(CofioError):
            yield f"episode_of {memory_id}", keeper.episode_of(memory_id)


def read_knowledge(domain: KnowledgeTables, ids: Sequence[int], words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the result of every read method of the knowledge tables."""
    yield "naming", domain.naming(["vault", "volume", *words])
    yield "told by", domain.stated_by(ids)
    yield "counts", domain.counts()
    for table in TABLES:
        yield f"rows of {table}", domain.rows(table)
        yield f"get {table}", domain.get(table, ROWS)
        for key in ROWS:
            with suppress(CofioError):
                yield f"history {table}/{key}", domain.history(table, key)
            with suppress(CofioError):
                yield f"rows after {table}/{key}", domain.rows(table, after=key)


def undo_all(keeper: Keeper, changesets: int) -> Iterator[tuple[str, Any]]:
    """Yield the result or error of undoing each changeset."""
    for number in range(1, changesets + 1):
        try:
            yield f"undo {number}", keeper.undo(number)
        except CofioError as error:
            yield f"undo {number}", str(error)


SEARCH_ARGUMENTS: dict[str, Any] = {"query": QUESTION, "project": "*", "limit": 20}


def call_tools(
    keeper: Keeper, ids: Sequence[int], search_arguments: dict[str, Any] = SEARCH_ARGUMENTS
) -> Iterator[tuple[str, Any]]:
    """Yield the result of every MCP tool that agents call."""

    @contextmanager
    def open_keeper(*, new: bool) -> Iterator[Keeper]:
        yield keeper

    def call(name: str, **arguments: Any) -> Any:
        try:
            return answer(name, arguments, Asking(PROJECTS[1], "codex"), open_keeper)
        except CofioError as error:
            return str(error)

    yield "memory_search", call("memory_search", **search_arguments)
    yield "memory_add", call("memory_add", text="The cellar is dry")
    yield "memory_extract", call("memory_extract", text="User: We switched from the vault to the cellar.")
    for memory_id in ids:
        yield f"memory_history {memory_id}", call("memory_history", id=memory_id)
    for memory_id in ids[:3]:
        yield f"memory_update {memory_id}", call("memory_update", id=memory_id, text="The cellar is wet")
        yield f"memory_forget {memory_id}", call("memory_forget", id=memory_id)


def _pages(keeper: Keeper) -> Iterator[Memory]:
    after = None
    while True:
        page = keeper.list(limit=2, after=after, include_archived=True)
        yield from page.memories
        if page.next is None:
            return
        after = page.next


def assert_no_leak(results: Iterable[tuple[str, Any]], allowed: set[str]) -> None:
    for name, output in results:
        leaked = set(WORD.findall(output if isinstance(output, str) else repr(output))) - allowed
        assert not leaked, (name, leaked, output)


@contextmanager
def prepare_store(make_store: Callable[[], Any], operations: Iterable[Operation]) -> Iterator[StoreUnderTest]:
    with ExitStack() as stack:
        store = stack.enter_context(make_store())
        yield StoreUnderTest(store, stack.enter_context(Keeper(store, HashEmbedder(64), FixedClock())), operations)


KNOWLEDGE_OPERATIONS = st.lists(
    st.builds(
        Operation, st.sampled_from((*KNOWLEDGE_KINDS, "undo")), st.integers(0, 30), st.integers(0, 30), ATTRIBUTES
    ),
    max_size=20,
)
FEW_EXAMPLES = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("make_store", STORES.values(), ids=STORES)
@FEW_EXAMPLES
@given(operations=OPERATIONS, viewers=st.lists(VIEWERS, min_size=1, max_size=3))
def test_read_paths_return_only_visible_data(
    make_store: Callable[[], Any], operations: list[Operation], viewers: list[Viewer]
) -> None:
    with prepare_store(make_store, operations) as store:
        for viewer in viewers:
            viewer_keeper = store.keeper.as_viewer(viewer)
            allowed = store.allowed(viewer)
            assert_no_leak(read_memories(viewer_keeper, store.ids), allowed)
            domain = ScopedStore(store.store, viewer).domain
            assert_no_leak(read_knowledge(domain, store.ids, store.words()), allowed)
        allowed = store.allowed(viewers[0])  # what the tools write may archive what others see
        assert_no_leak(call_tools(store.keeper.as_viewer(viewers[0]), store.ids), allowed)


@pytest.mark.parametrize("make_store", STORES.values(), ids=STORES)
@FEW_EXAMPLES
@given(abouts=st.lists(ATTRIBUTES, max_size=12), viewers=st.lists(VIEWERS, min_size=1, max_size=3))
def test_episodes_follow_memory_visibility(
    make_store: Callable[[], Any], abouts: list[dict[str, Any]], viewers: list[Viewer]
) -> None:
    with prepare_store(make_store, ()) as store:
        for about in abouts:
            store.capture(about)
        store.keeper.services.episodes.embed_missing()
        for viewer in viewers:
            viewer_keeper = store.keeper.as_viewer(viewer)
            visible_ids = {episode.id for episode in store.episodes() if viewer.sees(episode)}
            ids = [episode.id for episode in store.episodes()]
            assert_no_leak(read_episodes(viewer_keeper, store.ids, ids), store.allowed(viewer))
            for k in (1, 3, 100):
                assert len(viewer_keeper.search_episodes("vault noon", k=k)) == min(k, len(visible_ids))
            assert {hit.episode for hit in viewer_keeper.search_episodes("vault noon", k=100)} == visible_ids
            assert {memory_id for memory_id in ids if _can_read_episode(viewer_keeper, memory_id)} == visible_ids
            assert sum(session.turns for session in viewer_keeper.sessions(limit=1_000)) == len(visible_ids)
        request = {"query": QUESTION, "project": "*", "limit": 20, "episodes": True, "resume": True}
        assert_no_leak(call_tools(viewer_keeper, store.ids, request), store.allowed(viewer))


def _can_read_episode(keeper: Keeper, episode: int) -> bool:
    try:
        return keeper.episode(episode).id == episode
    except CofioError:
        return False


@pytest.mark.parametrize("make_store", STORES.values(), ids=STORES)
@FEW_EXAMPLES
@given(operations=OPERATIONS, viewer=VIEWERS)
def test_all_visible_memories_are_found(
    make_store: Callable[[], Any], operations: list[Operation], viewer: Viewer
) -> None:
    with prepare_store(make_store, operations) as store:
        viewer_keeper, live = store.keeper.as_viewer(viewer), store.live(viewer)
        assert {memory.id for memory in viewer_keeper} == live
        assert viewer_keeper.count() == len(live)
        assert {hit.id for hit in viewer_keeper.search("vault noon switched", k=100)} == live
        for k in (1, 3):
            assert len(viewer_keeper.search("vault noon switched", k=k)) == min(k, len(live))
            assert len(viewer_keeper.search("vault noon switched", k=k, hybrid=False)) == min(k, len(live))
        overview = viewer_keeper.dashboard.overview()
        assert sum(item.count for item in overview.arrived) == overview.live == len(live)
        for most in (1, 100):
            dots = viewer_keeper.services.access.store.dashboard.dots(Scope(), most, 9)
            assert (list(dots.ids), dots.total) == (sorted(live, reverse=True)[:most], len(live))
        lines = [json.loads(line) for line in viewer_keeper.export_lines()]
        everything = store.keeper.list(limit=1_000, include_archived=True).memories
        told_ids = [line["id"] for line in lines[1:] if "knowledge" not in line]
        assert told_ids == sorted(item.id for item in everything if viewer.sees(item))
        assert lines[0]["memories"] == len(told_ids)


@pytest.mark.parametrize("make_store", STORES.values(), ids=STORES)
@FEW_EXAMPLES
@given(operations=KNOWLEDGE_OPERATIONS, viewer=VIEWERS)
def test_all_visible_knowledge_rows_are_found(
    make_store: Callable[[], Any], operations: list[Operation], viewer: Viewer
) -> None:
    with prepare_store(make_store, operations) as store:
        domain, visible_rows = (
            ScopedStore(store.store, viewer).domain,
            [row for row in store.rows() if sees(viewer, row)],
        )
        assert [row for table in TABLES for row in domain.rows(table)] == visible_rows
        assert sum(domain.counts().values()) == len(visible_rows)
        assert {row.ref for row in domain.naming(store.words())} == {row.ref for row in visible_rows}
        lines = [json.loads(line) for line in store.keeper.as_viewer(viewer).export_lines()]
        assert sorted(
            f"{line['knowledge']}/{line['id']}" for line in lines if "id" in line and "knowledge" in line
        ) == (sorted(row.ref for row in visible_rows))
        for done in map(store.keeper.changeset, store.changesets()):
            states = [state for line in done.knowledge for state in (line.before, line.after) if state]
            if states and not done.changes and all(sees(viewer, state) for state in states + store.last(done)):
                listing = [change.id for change in store.keeper.as_viewer(viewer).changes(limit=100)]
                assert done.id in listing, (done, listing)


@pytest.mark.parametrize("make_store", STORES.values(), ids=STORES)
@FEW_EXAMPLES
@given(operations=KNOWLEDGE_OPERATIONS, viewer=VIEWERS)
def test_viewer_operations_do_not_change_invisible_rows(
    make_store: Callable[[], Any], operations: list[Operation], viewer: Viewer
) -> None:
    with prepare_store(make_store, operations) as store:
        viewer_keeper, allowed = store.keeper.as_viewer(viewer), store.allowed(viewer)
        invisible_rows = [row for row in store.rows() if not sees(viewer, row)]
        changesets = {changeset: store.keeper.changeset(changeset) for changeset in store.changesets()}
        assert_no_leak(undo_all(viewer_keeper, len(changesets)), allowed)
        for key in ROWS:
            pattern = Pattern(pattern="The cellar is dry", id=key, place=(*viewer.prefixes, "")[0])
            for decision in (PutRow(pattern), DeleteRow("patterns", key), PutRow(pattern), PurgeRow("patterns", key)):
                with suppress(CofioError):
                    result = viewer_keeper.apply([decision], by="them", why="")
                    assert_no_leak([("done", result)], allowed)
        assert [row for row in store.rows() if not sees(viewer, row)] == invisible_rows
        for number, before in changesets.items():
            hidden = [line for line in before.knowledge if line.before and not sees(viewer, line.before)]
            assert [line.before for line in store.keeper.changeset(number).knowledge if line.before in
                    [item.before for item in hidden]] == [line.before for line in hidden]  # fmt: skip


@pytest.mark.parametrize("make_store", STORES.values(), ids=STORES)
@FEW_EXAMPLES
@given(operations=OPERATIONS, viewer=VIEWERS)
def test_is_novel_ignores_invisible_memories(
    make_store: Callable[[], Any], operations: list[Operation], viewer: Viewer
) -> None:
    with prepare_store(make_store, operations) as store:
        viewer_keeper = store.keeper.as_viewer(viewer)
        visible_texts = {memory.text for memory in store.keeper if viewer.sees(memory)}
        for memory in store.keeper:
            if memory.text not in visible_texts:
                novelty = viewer_keeper.is_novel(memory.text, threshold=0.99)
                assert novelty.novel
                assert all(viewer.sees(hit.memory) for hit in viewer_keeper.search(memory.text))
                source = (*viewer.prefixes, "")[0]
                where: dict[str, Any] = {"project": memory.project, "visibility": memory.visibility, "source": source}
                assert viewer_keeper.add(memory.text, **where).action == "add"
                break


# ── over HTTP ─────────────────────────────────────────────────────────────────────────────────────────────────────────

FIELDS = ("user", "agent", "team", "visibility", "source", "project")
FIXED_OPERATIONS = [
    Operation(kind, first, second, dict(zip(FIELDS, about.split("|"), strict=True)))
    for kind, first, second, about in (
        ("add", 0, 0, "ada|codex|red|private|work/web|/srv/web"),
        ("add", 0, 0, "bob|codex|red|private|work/web|/srv/web"),
        ("add", 0, 0, "|bot|blue|private|other|/srv/web"),
        ("add", 0, 0, "bob|bot|red|team|work/web/api|/srv/web"),
        ("add", 0, 0, "|bot|blue|team|other|"),
        ("add", 0, 0, "bob|||global|work/website|/srv/web"),
        ("two", 0, 0, "ada|codex|red|global|work/web|"),
        ("supersede", 1, 0, "bob|codex|red|global|work/web|/srv/web"),
        ("text", 3, 0, "|||private||"),
        ("audience", 0, 0, "ada|codex|red|team|work/web|/srv/web"),
        ("merge", 2, 4, "|bot|blue|private|other|"),
        ("again", 3, 0, "|bot||private||"),
        ("delete", 5, 0, "|||private||"),
        ("undo", 8, 0, "|||private||"),
        ("learn", 0, 0, "bob|codex|red|private|other|/srv/web"),
        ("know", 0, 0, "ada|codex|red|private|work/web|"),
        ("know both", 1, 0, "ada|codex|red|global|work/web|"),
        ("tell", 2, 0, "bob|codex|red|team|other|"),
        ("know", 0, 0, "bob|codex|red|private|work/web|"),
        ("drop", 1, 0, "|||private||"),
    )
]
GRANTS = (
    Grant(name="ada", role="write", user="ada", agent="codex", team="red"),
    Grant(name="ada, to read", role="read", user="ada", team="red", prefixes=("work/web",)),
    Grant(name="bob", role="write", user="bob", team="blue"),
    Grant(name="bot", role="write", agent="bot", team="red"),
    Grant(name="nobody much", role="read", user="zoe", team="green"),
)


GET_PATHS = (
    "/memories?include_archived=true",
    "/export",
    "/stats",
    "/overview",
    "/agents",
    "/health",
    "/team/facts",
    "/team/patterns?min_occurrences=1",
    "/maintenance/usage?view=never",
    "/maintenance/usage?view=most",
    "/maintenance/audit",
    "/maintenance/contradictions",
    "/maintenance/runs",
    "/sessions",
    "/session?session=s1",
    "/resume",
    "/llm/usage",
    "/llm/usage/1",
    "/changes?limit=100",
    "/inbox",
    "/inbox/status",
    "/metrics",
    "/keys",
    "/knowledge",
    *(f"/knowledge/{table}" for table in TABLES),
    *(f"/knowledge/patterns/{key}{what}" for key in ROWS for what in ("", "/history")),
    *(f"/knowledge/thresholds/{key}{what}" for key in ROWS for what in ("", "/history")),
    "/knowledge/active",
    "/knowledge/related?source=vault",
    "/notes",
)


def request_all_endpoints(service: Caller, ids: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Yield the response of every HTTP endpoint."""
    post_requests: list[tuple[str, Any]] = [
        ("/search", {"query": QUESTION, "k": 100, "include_archived": True}),
        ("/search/batch", {"queries": [QUESTION]}),
        ("/episodes/search", {"query": QUESTION, "k": 100}),
        ("/recall", {"project": PROJECTS[1]}),
        ("/recall", {"prompt": QUESTION, "project": PROJECTS[1]}),
        ("/enrich", {"query": QUESTION, "include_team": True}),
        ("/memory/is-novel", {"text": "The vault opens at noon", "threshold": 0.1}),
        ("/memory/deduplicate", {"threshold": 0.5}),
        ("/capture", {"messages": "User: We switched from vaults to cellars.", "source": "work/web", "dry_run": True}),
        ("/capture", {"messages": "User: We switched from vaults to cellars.", "source": "work/web", "wait": True}),
        ("/hooks/codex", {"hook_event_name": "SessionStart", "session_id": "s1", "source": "startup"}),
        ("/hooks/codex", {"hook_event_name": "UserPromptSubmit", "session_id": "s2", "prompt": QUESTION}),
        ("/recall/context", {"query": QUESTION}),
        ("/knowledge/read", {"text": "Flag the vault if volume exceeds 5M."}),
        ("/knowledge/evaluate", {"source": "vault", "metric": "volume", "value": 9}),
        ("/maintenance/consolidate", None),
        ("/maintenance/prune", None),
    ]
    for path, body in post_requests:
        yield path, service.post(path, body, {"X-Cofio-Project": "%2Fsrv%2Fweb"}).body.decode()
    for path in GET_PATHS:
        yield path, service.get(path).body.decode()
    for memory_id in ids:
        for path in (
            f"/memory/{memory_id}",
            *(f"/memory/{memory_id}/{resource}" for resource in ("history", "occurrences", "freshness")),
        ):
            yield path, service.get(path).body.decode()
    for number in range(1, 60):
        for resource in ("changes", "inbox", "memory/extract", "episodes"):
            path = f"/{resource}/{number}"
            yield path, service.get(path).body.decode()


@pytest.mark.parametrize("make_store", STORES.values(), ids=STORES)
def test_http_responses_contain_only_data_visible_to_the_key(make_store: Callable[[], Any]) -> None:
    with prepare_store(make_store, FIXED_OPERATIONS) as store, serving(store.keeper) as url:
        for operation in FIXED_OPERATIONS:
            store.capture(operation.about)
        keys = {grant: store.keeper.create_key(grant)[1] for grant in GRANTS}
        for grant, secret in keys.items():
            viewer = grant.viewer
            assert viewer
            service = Caller(url, {"X-API-Key": secret})
            allowed, live = store.allowed(viewer), store.live(viewer)
            body = service.get("/memories", limit=1000).json
            assert {memory["id"] for memory in body["memories"]} == live
            assert_no_leak(request_all_endpoints(service, store.ids), allowed)


def test_client_purge_removes_own_memory_and_rejects_shared_memory() -> None:
    with prepare_store(in_sqlite, ()) as store, serving(store.keeper) as url:
        own_id = store.keeper.as_viewer(Viewer(user="ada")).add("The vault opens at noon").memory_id
        shared_id = store.keeper.add("The cellar is dry", visibility="global").memory_id
        secret = store.keeper.create_key(Grant(name="ada", user="ada"))[1]
        with Client(url, secret) as client:
            change = client.purge(own_id)
            with pytest.raises(Forbidden):
                client.purge(shared_id)
        assert (change.action, change.memory_id) == ("purge", own_id)
        assert [memory.id for memory in store.keeper] == [shared_id]
