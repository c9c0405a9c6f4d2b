"""Whatever was done to a store by whomever, no way out tells a viewer of what they may not see; and all else is told.

Every text, reason and note of the journal holds a word of its own. What comes out of every way is looked through for
words that the viewer has no business to know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cofio.client import Client
from cofio.core import Keeper
from cofio.errors import CofioError, Forbidden
from cofio.models.auth import Grant
from cofio.models.domain_knowledge import (
    TABLES,
    DeleteRow,
    Knowledge,
    Pattern,
    PurgeRow,
    PutRow,
    RowDecision,
    Table,
    Threshold,
    sees,
)
from cofio.models.episodes import Episode
from cofio.models.memory import (
    VISIBILITIES,
    Add,
    Changeset,
    Decision,
    Delete,
    Edit,
    Fact,
    Memory,
    Merge,
    Noop,
    Occurrence,
    Purge,
    Query,
    Restore,
    Scope,
    Update,
    Viewer,
)
from cofio.ports import KnowledgeTables, Store
from cofio.server.mcp.caller import Caller as Asking
from cofio.server.mcp.tools import answer
from cofio.stores.postgres import PostgresStore
from cofio.stores.scoped import ScopedStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder, MemoryStore
from tests import postgres
from tests.http_api.caller import Caller
from tests.http_api.conftest import serving

USERS, AGENTS, TEAMS = ("", "ada", "bob"), ("", "codex", "bot"), ("", "red", "blue")
SOURCES = ("", "work/web", "work/web/api", "work/website", "other")
PROJECTS = ("", "/srv/web")
QUESTION = "When does the vault open?"
ROWS = ("one", "two", "three")  # ids of what is known of a domain
WORD = re.compile(r"\b(?:told|note|why)\d{4}\b")


@contextmanager
def in_memory(_folder: Path) -> Iterator[Store]:
    store = MemoryStore(FixedClock())
    yield store
    store.close()


@contextmanager
def in_sqlite(folder: Path) -> Iterator[Store]:
    store = SqliteStore(folder / "cofio.db", FixedClock())
    yield store
    store.close()


DATABASE: list[str] = []  # one for all, in which each store is a tenant of its own


@pytest.fixture(scope="module", autouse=True)
def one_database(postgres_server: str, postgres_template: str) -> Iterator[None]:
    with postgres.database(postgres_server, postgres_template) as url:
        DATABASE.append(url)
        yield
        DATABASE.clear()


@contextmanager
def in_postgres(_folder: Path) -> Iterator[Store]:
    store = PostgresStore(f"{DATABASE[0]}?tenant={uuid4().hex}", FixedClock())
    yield store
    store.close()


#: How each store is made; one line more for another adapter.
STORES: dict[str, Callable[[Path], Any]] = {"memory": in_memory, "sqlite": in_sqlite, "postgres": in_postgres}


# ── what is done to the store ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Deed:
    """Something that is done to a memory, or to two, in words of its own."""

    kind: str
    first: int
    second: int
    about: dict[str, Any]


KINDS = ("add", "add", "add", "text", "audience", "supersede", "merge", "into", "delete", "restore", "again", "purge",
         "undo", "two", "learn")  # fmt: skip
KNOWN_KINDS = ("know", "know", "know", "know both", "tell", "drop", "erase")
ABOUT = st.fixed_dictionaries(
    {
        "user": st.sampled_from(USERS),
        "agent": st.sampled_from(AGENTS),
        "team": st.sampled_from(TEAMS),
        "visibility": st.sampled_from(VISIBILITIES),
        "source": st.sampled_from(SOURCES),
        "project": st.sampled_from(PROJECTS),
    }
)
DEEDS = st.lists(
    st.builds(Deed, st.sampled_from(KINDS + KNOWN_KINDS), st.integers(0, 30), st.integers(0, 30), ABOUT), max_size=25
)
VIEWERS = st.builds(
    Viewer,
    user=st.sampled_from(USERS[1:]),
    agent=st.sampled_from(AGENTS),
    team=st.sampled_from(TEAMS),
    prefixes=st.sampled_from(((), (), ("work/web",), ("other", "work"))),
) | st.builds(Viewer, agent=st.sampled_from(AGENTS[1:]), team=st.sampled_from(TEAMS))


class Filled:
    """A store that people did things to, as its owner sees it."""

    def __init__(self, store: Store, keeper: Keeper, deeds: Iterable[Deed]) -> None:
        self.store = store
        self.keeper = keeper
        self._words = count(1)
        self.ids: list[int] = []
        for number, deed in enumerate(deeds):
            with suppress(CofioError):  # gone, archived, undone before: then nothing is done
                self._do(deed, f"why{number:04}")

    def _do(self, deed: Deed, why: str) -> None:
        if deed.kind == "undo":
            done = self.keeper.undo(1 + deed.first % (1 + len(self.keeper.changes(limit=1_000))), why=why)
        elif deed.kind == "learn":
            said = f"User: We switched from {self._text().split()[3]} to told{next(self._words):04}."
            self.keeper.learn(said, **deed.about)
            done = self.keeper.changeset(self.keeper.changes(limit=1)[0].id)
        elif deed.kind in ("add", "two"):
            facts = [self._fact(deed.about) for _ in range(1 + (deed.kind == "two"))]
            other = {**deed.about, "user": "bob", "visibility": "private"}
            added = self.keeper.add_all([*facts[:1], *(Fact(text=fact.text, **other) for fact in facts[1:])],
                                        dedup=False, why=why)  # fmt: skip
            done = self.keeper.changeset(added[0].changeset)
        elif deed.kind in KNOWN_KINDS:
            facts = [self._fact(deed.about)] if deed.kind == "tell" else []
            done = self.keeper.apply(
                [Add(fact) for fact in facts], by="owner", why=why, knowledge=list(self._known(deed))
            )
        else:
            done = self.keeper.apply([self._decision(deed)], by="owner", why=why)
        self.ids += [change.memory_id for change in done.changes if change.memory_id not in self.ids]

    def _decision(self, deed: Deed) -> Decision:
        one, other = (self.ids[each % len(self.ids)] if self.ids else 1 for each in (deed.first, deed.second))
        reason = f"note{next(self._words):04}"
        decisions: dict[str, Callable[[], Decision]] = {
            "text": lambda: Edit(one, {"text": self._text()}, reason),
            "audience": lambda: Edit(one, deed.about, reason),
            "supersede": lambda: Update(one, self._fact(deed.about), reason),
            "merge": lambda: Merge((one, other), self._fact(deed.about), reason),
            "into": lambda: Delete(one, reason, into=other),
            "delete": lambda: Delete(one, reason),
            "restore": lambda: Restore(one, reason),
            "again": lambda: Noop(one, Occurrence(deed.about["agent"]), reason),
            "purge": lambda: Purge(one, reason),
        }
        return decisions[deed.kind]()

    def _known(self, deed: Deed) -> Iterator[RowDecision]:
        """Something about one row, or two of different people: ids are few, so that one is put over another."""
        key, reason = ROWS[deed.first % len(ROWS)], f"note{next(self._words):04}"
        about = {name: value for name, value in deed.about.items() if name not in ("source", "project")}
        about["place"] = deed.about["source"]
        if deed.kind == "drop":
            yield DeleteRow("patterns", key, reason)
        elif deed.kind == "erase":
            yield PurgeRow("patterns", key, reason)
        else:
            yield PutRow(self._pattern(key, about), reason, stated_by=0 if deed.kind == "tell" else None)
        if deed.kind == "know both":
            word = self._text().split()[3]
            bobs = {**about, "user": "bob", "visibility": "private"}
            yield PutRow(Threshold(source=word, metric="volume", value=1, direction="above", unit=word, id=key, **bobs))

    def _pattern(self, key: str, about: dict[str, Any]) -> Pattern:
        text = self._text()
        return Pattern(pattern=text, source=f"vault {text.split()[3]}", id=key, **about)

    def _fact(self, about: dict[str, Any]) -> Fact:
        text = self._text()
        word = text.split()[3]
        return Fact(text=text, context=f"Before: {word}", tags=(word,), metadata={"of": word}, **about)

    def _text(self) -> str:
        return f"The vault of told{next(self._words):04} opens at noon"

    # ── what may be known ─────────────────────────────────────────────────────────────────────────────────────────────

    def live(self, viewer: Viewer) -> set[int]:
        """The live memories that the viewer may see."""
        return {memory.id for memory in self.keeper if viewer.sees(memory)}

    def allowed(self, viewer: Viewer) -> set[str]:
        """The words of all states that they may see, of memories that they may see as they are now."""
        words: set[str] = set()
        for done in (self.keeper.changeset(each.id) for each in self.keeper.changes(limit=1_000)):
            states = [(change, [state for state in (change.before, change.after) if state]) for change in done.changes]
            seen = [
                (change, some)
                for change, some in states
                if some and all(map(viewer.sees, some)) and self._is_open(change.memory_id, viewer)
            ]
            known = [
                change
                for change in done.knowledge
                if any((change.before, change.after)) and self._is_open_row(change.table, change.key, viewer)
                if all(sees(viewer, state) for state in (change.before, change.after) if state)
            ]
            whole = (len(seen), len(known)) == (len(done.changes), len(done.knowledge))
            words |= {word for _, some in seen for state in some for word in _words_of(state)}
            words |= {word for change in known for word in WORD.findall(f"{change.before} {change.after}")}
            if whole and not viewer.prefixes:
                words |= {word for change in (*done.changes, *done.knowledge) for word in WORD.findall(change.reason)}
            words |= set(WORD.findall(done.why)) if whole else set()
        words |= {word for episode in self.episodes() if viewer.sees(episode) for word in WORD.findall(episode.text)}
        words |= {word for row in self.rows() if sees(viewer, row) for word in WORD.findall(repr(row))}
        return words | {word for memory in self._rows() if viewer.sees(memory) for word in _words_of(memory)}

    def words(self) -> list[str]:
        """Every word of its own that there can be, and the others that rows are named by."""
        return ["vault", *(f"told{number:04}" for number in range(1, next(self._words)))]

    def changesets(self) -> list[int]:
        return [change.id for change in self.keeper.changes(limit=1_000)]

    def last(self, done: Changeset) -> list[Knowledge]:
        """The rows that it changed, as they are now, or were last."""
        lines = [self.store.domain.history(change.table, change.key) for change in done.knowledge]
        states = [[state for line in each for state in (line.before, line.after) if state] for each in lines]
        return [some[-1] for some in states if some]

    def capture(self, about: dict[str, Any]) -> None:
        """Capture a turn of which no fact is made."""
        word = f"told{next(self._words):04}"
        self.keeper.capture(f"Does the vault of {word} open at noon?", wait=True, session="s1", **about)

    def episodes(self) -> list[Episode]:
        """Every episode."""
        return [episode.episode for episode in self.store.snapshots.episodes(0, 1_000)]

    def rows(self) -> list[Knowledge]:
        """All that is known of a domain."""
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
    """What a memory says, but for what another said before it."""
    return set(WORD.findall(f"{memory.text} {memory.context} {memory.tags} {memory.metadata}"))


# ── the ways out ──────────────────────────────────────────────────────────────────────────────────────────────────────


def told(seen: Keeper, ids: Sequence[int]) -> Iterator[tuple[str, Any]]:
    """Everything that a keeper tells of these memories, and of all."""
    yield "search", seen.search(QUESTION, k=100, explain=True, include_archived=True)
    yield "search_all", seen.search_all([Query(text=QUESTION, k=3), Query(text="noon", hybrid=False)])
    yield "list", list(_pages(seen))
    yield "iteration", list(seen)
    yield "recall at start", seen.recall(project=PROJECTS[1])
    yield "recall at prompt", seen.recall(QUESTION, project=PROJECTS[1])
    yield "enrich", seen.enrich_prompt(QUESTION, include_team=True, max_facts=20)
    yield "novelty", seen.is_novel("The vault opens at noon", threshold=0.1)
    yield "export", list(seen.export_lines())
    yield "usage", [seen.usage(view, days=0, include_archived=True) for view in ("never", "most", "stale")]
    yield "patterns", seen.detect_cross_agent_patterns(min_occurrences=1)
    yield "team", seen.get_team_facts()
    yield "overview", seen.dashboard.overview()
    yield "dots", seen.services.access.store.dashboard.dots(Scope(), 100, 1_000)
    yield "changes", seen.changes(limit=100)
    yield "duplicates", seen.find_duplicates(threshold=0.5)
    yield "all", seen.services.memories.plan_delete_all()
    yield "stats", seen.stats()
    yield "items", seen.items()
    source = (*(seen.viewer.prefixes if seen.viewer else ()), "")[0]
    said: dict[str, Any] = {"source": source, "project": PROJECTS[1], "visibility": "team", "dry_run": True}
    yield "learning", seen.learn("User: We switched from the vault to the cellar.", **said)
    yield "texts", seen.services.memories.texts(ids)
    yield "context", seen.recall_context(QUESTION, max_memories=20, max_patterns=20, max_thresholds=20)
    yield "knowledge", [seen.knowledge.list(table, limit=100) for table in TABLES]
    yield "counts", seen.knowledge.counts()
    yield "evaluated", [seen.knowledge.evaluate(f"told{each:04}", "volume", 9) for each in range(30)]
    yield "related", seen.knowledge.related("vault")
    for each in ids:
        for way in (seen.get, seen.history, seen.occurrences, seen.freshness):
            with suppress(CofioError):
                yield f"{way.__name__} {each}", way(each)
    for number in range(1, 60):
        for look in (seen.changeset, seen.item):
            with suppress(CofioError):
                yield f"{look.__name__} {number}", look(number)


def told_of_episodes(seen: Keeper, ids: Sequence[int], episodes: Sequence[int]) -> Iterator[tuple[str, Any]]:
    """Everything that a keeper tells of episodes."""
    yield "search_episodes", seen.search_episodes(QUESTION, k=100)
    yield "passages", seen.services.access.store.episodes.passages(range(2 * max(episodes, default=0)))
    yield "resume", [seen.resume().as_dict(), *(seen.resume(each).as_dict() for each in PROJECTS)]
    for session in seen.sessions(limit=1_000):
        yield "sessions", session
        yield "session", seen.session(session.session, client=session.client, owner=session.owner)
    for episode in episodes:
        with suppress(CofioError):
            yield f"episode {episode}", seen.episode(episode)
    for each in ids:
        with suppress(CofioError):
            yield f"episode_of {each}", seen.episode_of(each)


def told_of_domain(domain: KnowledgeTables, ids: Sequence[int], words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Everything that a store tells of what is known of a domain."""
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


def undone(seen: Keeper, changesets: int) -> Iterator[tuple[str, Any]]:
    """What undoing tells, and refusing to."""
    for number in range(1, changesets + 1):
        try:
            yield f"undo {number}", seen.undo(number)
        except CofioError as error:
            yield f"undo {number}", str(error)


SEARCHED: dict[str, Any] = {"query": QUESTION, "project": "*", "limit": 20}


def by_tools(seen: Keeper, ids: Sequence[int], searched: dict[str, Any] = SEARCHED) -> Iterator[tuple[str, Any]]:
    """Everything that an agent is told."""

    @contextmanager
    def reach(*, new: bool) -> Iterator[Keeper]:
        yield seen

    def ask(name: str, **arguments: Any) -> Any:
        try:
            return answer(name, arguments, Asking(PROJECTS[1], "codex"), reach)
        except CofioError as error:
            return str(error)

    yield "memory_search", ask("memory_search", **searched)
    yield "memory_add", ask("memory_add", text="The cellar is dry")
    yield "memory_extract", ask("memory_extract", text="User: We switched from the vault to the cellar.")
    for each in ids:
        yield f"memory_history {each}", ask("memory_history", id=each)
    for each in ids[:3]:
        yield f"memory_update {each}", ask("memory_update", id=each, text="The cellar is wet")
        yield f"memory_forget {each}", ask("memory_forget", id=each)


def _pages(seen: Keeper) -> Iterator[Memory]:
    after = None
    while True:
        page = seen.list(limit=2, after=after, include_archived=True)
        yield from page.memories
        if page.next is None:
            return
        after = page.next


def assert_nothing_slips_out(ways: Iterable[tuple[str, Any]], allowed: set[str]) -> None:
    for way, out in ways:
        leaked = set(WORD.findall(out if isinstance(out, str) else repr(out))) - allowed
        assert not leaked, (way, leaked, out)


@contextmanager
def filled(make: Callable[[Path], Any], deeds: Iterable[Deed]) -> Iterator[Filled]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        store = stack.enter_context(make(folder))
        yield Filled(store, stack.enter_context(Keeper(store, HashEmbedder(64), FixedClock())), deeds)


KNOWING = st.lists(
    st.builds(Deed, st.sampled_from((*KNOWN_KINDS, "undo")), st.integers(0, 30), st.integers(0, 30), ABOUT), max_size=20
)
SOMETIMES = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
@SOMETIMES
@given(deeds=DEEDS, viewers=st.lists(VIEWERS, min_size=1, max_size=3))
def test_no_way_out_tells_of_what_may_not_be_seen(
    make: Callable[[Path], Any], deeds: list[Deed], viewers: list[Viewer]
) -> None:
    with filled(make, deeds) as store:
        for viewer in viewers:
            seen = store.keeper.as_viewer(viewer)
            allowed = store.allowed(viewer)
            assert_nothing_slips_out(told(seen, store.ids), allowed)
            domain = ScopedStore(store.store, viewer).domain
            assert_nothing_slips_out(told_of_domain(domain, store.ids, store.words()), allowed)
        allowed = store.allowed(viewers[0])  # what the tools write may archive what others see
        assert_nothing_slips_out(by_tools(store.keeper.as_viewer(viewers[0]), store.ids), allowed)


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
@SOMETIMES
@given(abouts=st.lists(ABOUT, max_size=12), viewers=st.lists(VIEWERS, min_size=1, max_size=3))
def test_episodes_are_seen_as_memories_are(
    make: Callable[[Path], Any], abouts: list[dict[str, Any]], viewers: list[Viewer]
) -> None:
    with filled(make, ()) as store:
        for about in abouts:
            store.capture(about)
        store.keeper.services.episodes.embed_missing()
        for viewer in viewers:
            seen = store.keeper.as_viewer(viewer)
            mine = {episode.id for episode in store.episodes() if viewer.sees(episode)}
            ids = [episode.id for episode in store.episodes()]
            assert_nothing_slips_out(told_of_episodes(seen, store.ids, ids), store.allowed(viewer))
            for k in (1, 3, 100):
                assert len(seen.search_episodes("vault noon", k=k)) == min(k, len(mine))
            assert {hit.episode for hit in seen.search_episodes("vault noon", k=100)} == mine
            assert {each for each in ids if _is_told(seen, each)} == mine
            assert sum(session.turns for session in seen.sessions(limit=1_000)) == len(mine)
        asked = {"query": QUESTION, "project": "*", "limit": 20, "episodes": True, "resume": True}
        assert_nothing_slips_out(by_tools(seen, store.ids, asked), store.allowed(viewer))


def _is_told(seen: Keeper, episode: int) -> bool:
    try:
        return seen.episode(episode).id == episode
    except CofioError:
        return False


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
@SOMETIMES
@given(deeds=DEEDS, viewer=VIEWERS)
def test_all_that_may_be_seen_is_found(make: Callable[[Path], Any], deeds: list[Deed], viewer: Viewer) -> None:
    with filled(make, deeds) as store:
        seen, live = store.keeper.as_viewer(viewer), store.live(viewer)
        assert {memory.id for memory in seen} == live
        assert seen.count() == len(live)
        assert {hit.id for hit in seen.search("vault noon switched", k=100)} == live
        for k in (1, 3):
            assert len(seen.search("vault noon switched", k=k)) == min(k, len(live))
            assert len(seen.search("vault noon switched", k=k, hybrid=False)) == min(k, len(live))
        told_of = seen.dashboard.overview()
        assert sum(each.count for each in told_of.arrived) == told_of.live == len(live)
        for most in (1, 100):
            dots = seen.services.access.store.dashboard.dots(Scope(), most, 9)
            assert (list(dots.ids), dots.total) == (sorted(live, reverse=True)[:most], len(live))
        lines = [json.loads(line) for line in seen.export_lines()]
        everything = store.keeper.list(limit=1_000, include_archived=True).memories
        told_ids = [line["id"] for line in lines[1:] if "knowledge" not in line]
        assert told_ids == sorted(each.id for each in everything if viewer.sees(each))
        assert lines[0]["memories"] == len(told_ids)


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
@SOMETIMES
@given(deeds=KNOWING, viewer=VIEWERS)
def test_all_that_may_be_seen_of_a_domain_is_found(
    make: Callable[[Path], Any], deeds: list[Deed], viewer: Viewer
) -> None:
    with filled(make, deeds) as store:
        domain, mine = ScopedStore(store.store, viewer).domain, [row for row in store.rows() if sees(viewer, row)]
        assert [row for table in TABLES for row in domain.rows(table)] == mine
        assert sum(domain.counts().values()) == len(mine)
        assert {row.ref for row in domain.naming(store.words())} == {row.ref for row in mine}
        lines = [json.loads(line) for line in store.keeper.as_viewer(viewer).export_lines()]
        assert sorted(
            f"{each['knowledge']}/{each['id']}" for each in lines if "id" in each and "knowledge" in each
        ) == (sorted(row.ref for row in mine))
        for done in map(store.keeper.changeset, store.changesets()):
            states = [state for line in done.knowledge for state in (line.before, line.after) if state]
            if states and not done.changes and all(sees(viewer, state) for state in states + store.last(done)):
                listed = [change.id for change in store.keeper.as_viewer(viewer).changes(limit=100)]
                assert done.id in listed, (done, listed)


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
@SOMETIMES
@given(deeds=KNOWING, viewer=VIEWERS)
def test_nothing_that_a_viewer_does_touches_what_they_may_not_see(
    make: Callable[[Path], Any], deeds: list[Deed], viewer: Viewer
) -> None:
    with filled(make, deeds) as store:
        seen, allowed = store.keeper.as_viewer(viewer), store.allowed(viewer)
        others = [row for row in store.rows() if not sees(viewer, row)]
        past = {changeset: store.keeper.changeset(changeset) for changeset in store.changesets()}
        assert_nothing_slips_out(undone(seen, len(past)), allowed)
        for key in ROWS:
            mine = Pattern(pattern="The cellar is dry", id=key, place=(*viewer.prefixes, "")[0])
            for decision in (PutRow(mine), DeleteRow("patterns", key), PutRow(mine), PurgeRow("patterns", key)):
                with suppress(CofioError):
                    done = seen.apply([], by="them", why="", knowledge=[decision])
                    assert_nothing_slips_out([("done", done)], allowed)
        assert [row for row in store.rows() if not sees(viewer, row)] == others
        for number, before in past.items():
            hidden = [line for line in before.knowledge if line.before and not sees(viewer, line.before)]
            assert [line.before for line in store.keeper.changeset(number).knowledge if line.before in
                    [each.before for each in hidden]] == [line.before for line in hidden]  # fmt: skip


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
@SOMETIMES
@given(deeds=DEEDS, viewer=VIEWERS)
def test_what_another_knows_is_new_to_the_viewer(
    make: Callable[[Path], Any], deeds: list[Deed], viewer: Viewer
) -> None:
    with filled(make, deeds) as store:
        seen = store.keeper.as_viewer(viewer)
        known = {memory.text for memory in store.keeper if viewer.sees(memory)}
        for memory in store.keeper:
            if memory.text not in known:
                novelty = seen.is_novel(memory.text, threshold=0.99)
                assert novelty.novel
                assert all(viewer.sees(hit.memory) for hit in seen.search(memory.text))
                source = (*viewer.prefixes, "")[0]
                where: dict[str, Any] = {"project": memory.project, "visibility": memory.visibility, "source": source}
                assert seen.add(memory.text, **where).action == "add"
                break


# ── over the wire ─────────────────────────────────────────────────────────────────────────────────────────────────────

FIELDS = ("user", "agent", "team", "visibility", "source", "project")
FIXED = [
    Deed(kind, first, second, dict(zip(FIELDS, about.split("|"), strict=True)))
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


GOT = (
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


def by_wire(service: Caller, ids: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Everything that the service tells."""
    asked: list[tuple[str, Any]] = [
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
    for path, body in asked:
        yield path, service.post(path, body, {"X-Cofio-Project": "%2Fsrv%2Fweb"}).body.decode()
    for path in GOT:
        yield path, service.get(path).body.decode()
    for each in ids:
        for path in (
            f"/memory/{each}",
            *(f"/memory/{each}/{what}" for what in ("history", "occurrences", "freshness")),
        ):
            yield path, service.get(path).body.decode()
    for number in range(1, 60):
        for what in ("changes", "inbox", "memory/extract", "episodes"):
            path = f"/{what}/{number}"
            yield path, service.get(path).body.decode()


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
def test_the_service_tells_each_key_what_its_holder_may_see(make: Callable[[Path], Any]) -> None:
    with filled(make, FIXED) as store, serving(store.keeper) as url:
        for deed in FIXED:
            store.capture(deed.about)
        keys = {grant: store.keeper.create_key(grant)[1] for grant in GRANTS}
        for grant, secret in keys.items():
            viewer = grant.viewer
            assert viewer
            service = Caller(url, {"X-API-Key": secret})
            allowed, live = store.allowed(viewer), store.live(viewer)
            listed = service.get("/memories", limit=1000).json
            assert {each["id"] for each in listed["memories"]} == live
            assert_nothing_slips_out(by_wire(service, store.ids), allowed)


def test_what_is_erased_with_a_key_is_gone_and_its_client_hears_so() -> None:
    with filled(in_memory, ()) as store, serving(store.keeper) as url:
        own = store.keeper.as_viewer(Viewer(user="ada")).add("The vault opens at noon").memory_id
        shared = store.keeper.add("The cellar is dry", visibility="global").memory_id
        secret = store.keeper.create_key(Grant(name="ada", user="ada"))[1]
        with Client(url, secret) as client:
            change = client.purge(own)
            with pytest.raises(Forbidden):
                client.purge(shared)
        assert (change.action, change.memory_id) == ("purge", own)
        assert [memory.id for memory in store.keeper] == [shared]
