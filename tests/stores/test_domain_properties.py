"""Property tests of domain knowledge: undoing everything in reverse restores the start, and all stores agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cofio.errors import Conflict, NotFound
from cofio.models.domain_knowledge import (
    CLAIMS,
    TABLES,
    Correlation,
    DeleteRow,
    Feedback,
    Knowledge,
    Pattern,
    PurgeRow,
    PutRow,
    RevertRow,
    RowDecision,
    Seasonal,
    Threshold,
    words_of,
)
from cofio.models.memory import Viewer
from cofio.ports import Store
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, MemoryStore
from tests.stores.domain_contract import all_rows, apply_knowledge, undo_knowledge

NAMES = ("AAPL", "aapl", "Ünïcode 🌊", "a b", "ß", "SS", "ﬁx", "*", "x'y\"z")
WORDS = sorted({word for name in NAMES for word in words_of(name)})
_NAMES, _SHARES = st.sampled_from(NAMES), st.sampled_from((0.0, 0.25, 0.5, 1.0))
_OWNERS = st.sampled_from(
    (
        {},
        {"user": "ada"},
        {"user": "bob", "visibility": "global"},
        {"agent": "bot", "place": "acme/web"},
        {"team": "web", "visibility": "team", "place": "acme"},
    )
)


def _with_owner(kind: type[Knowledge], **strategies: st.SearchStrategy[object]) -> st.SearchStrategy[Knowledge]:
    return st.builds(lambda told, whose: kind(**told, **whose), st.fixed_dictionaries(strategies), _OWNERS)  # type: ignore[arg-type]


ROWS: st.SearchStrategy[Knowledge] = st.one_of(
    _with_owner(Pattern, pattern=_NAMES, source=_NAMES, confidence=_SHARES),
    _with_owner(Correlation, source_a=st.just("left"), source_b=_NAMES, rule=_NAMES, confidence=_SHARES),
    _with_owner(
        Threshold,
        source=_NAMES,
        metric=st.sampled_from(("volume", "Price")),
        value=st.floats(allow_nan=False, allow_infinity=False),
        direction=st.sampled_from(("above", "below")),
        inclusive=st.booleans(),
        confidence=_SHARES,
    ),
    _with_owner(Seasonal, pattern=_NAMES, period=st.just("daily"), lasts=st.integers(1, 99), confidence=_SHARES),
    _with_owner(
        Feedback,
        anomaly=_NAMES,
        verdict=st.sampled_from(("confirmed", "note")),
        strategies=st.lists(st.sampled_from(("patterns/a", "thresholds/aapl.volume.above")), unique=True).map(tuple),
        processed=st.booleans(),
    ),
)
VIEWERS = (None, Viewer(user="ada", team="web"), Viewer(agent="bot", prefixes=("acme/web",)))


class KnowledgeMachine(RuleBasedStateMachine):
    """Apply and undo random decisions in the fake and in SQLite, and undo all of them at the end."""

    @initialize()
    def start(self) -> None:
        self.folder = TemporaryDirectory()
        self.tick, self.now = FixedClock(), ""  # one time for both stores, however often each reads the clock
        file = SqliteStore(Path(self.folder.name) / "cofio.db", lambda: self.now)
        self.stores: tuple[Store, Store] = (MemoryStore(lambda: self.now), file)
        self.open: list[tuple[int, dict[str, list[Knowledge]]]] = []  # changesets in effect, with the state before each
        self.undid: dict[int, int] = {}  # changesets in effect that undo another one
        self.refs: set[tuple[str, str]] = set()

    def teardown(self) -> None:
        if not hasattr(self, "stores"):
            return
        self.stores_return_the_same_rows()
        self.histories_are_equal()
        replacements: dict[int, int] = {}  # replacements of changesets that were undone and redone
        for changeset, before in reversed(self.open):
            for store in self.stores:
                result = undo_knowledge(store, replacements.get(changeset, changeset))
                assert all_rows(store) == before
            if changeset in self.undid:
                replacements[self.undid[changeset]] = result.id
        for store in self.stores:
            assert store.domain.counts() == dict.fromkeys(TABLES, 0)
            assert store.domain.naming(WORDS) == []
            store.close()
        self.folder.cleanup()

    def _do(self, *decisions: RowDecision) -> None:
        self.now, before, done = self.tick(), all_rows(self.stores[1]), []
        for store in self.stores:
            try:
                done.append(apply_knowledge(store, *decisions))
            except NotFound:
                assert all_rows(store) == before
        assert len(done) != 1, "one store took what the other refused"
        if done:
            assert done[0] == done[1]
            self.open.append((done[0].id, before))
            self.refs |= {(change.table, change.key) for change in done[0].knowledge}

    @rule(rows=st.lists(ROWS, min_size=1, max_size=4))
    def put(self, rows: list[Knowledge]) -> None:
        self._do(*(PutRow(row, "said") for row in rows))

    @rule(row=ROWS)
    def drop(self, row: Knowledge) -> None:
        self._do(DeleteRow(row.TABLE, row.id))

    @rule(row=ROWS, other=ROWS)
    def put_and_drop_several(self, row: Knowledge, other: Knowledge) -> None:
        self._do(PutRow(row), PutRow(other), DeleteRow(row.TABLE, row.id), PutRow(other), PutRow(row))

    @rule(data=st.data())
    def drop_existing(self, data: st.DataObject) -> None:
        there = [known for rows in all_rows(self.stores[1]).values() for known in rows]
        if there:
            known = data.draw(st.sampled_from(there))
            self._do(DeleteRow(known.TABLE, known.id))

    @rule(data=st.data())
    def undo_any(self, data: st.DataObject) -> None:
        """Undo a changeset that may have later ones. The undo becomes a changeset in effect."""
        if not self.open:
            return
        changeset, _ = data.draw(st.sampled_from(self.open))
        self.now, before, done = self.tick(), all_rows(self.stores[1]), []
        for store in self.stores:
            try:
                done.append(undo_knowledge(store, changeset))
            except Conflict:
                assert all_rows(store) == before
        assert len(done) != 1
        if done:
            assert done[0] == done[1]
            self.open.append((done[0].id, before))
            self.undid[done[0].id] = changeset

    @rule()
    def undo_and_redo(self) -> None:
        if not self.open:
            return
        changeset, before = self.open[-1]
        self.now, now = self.tick(), all_rows(self.stores[1])
        for store in self.stores:
            undo = undo_knowledge(store, changeset)
            assert all_rows(store) == before
            redone = undo_knowledge(store, undo.id)
            assert all_rows(store) == now
        self.open[-1] = (redone.id, before)  # replaces the original changeset
        if changeset in self.undid:
            self.undid[redone.id] = self.undid.pop(changeset)

    @invariant()
    def stores_have_the_same_rows(self) -> None:
        if hasattr(self, "stores"):
            fake, file = map(all_rows, self.stores)
            assert fake == file

    @rule()
    def stores_return_the_same_rows(self) -> None:
        fake, file = (store.domain for store in self.stores)
        for viewer in VIEWERS:
            for table in TABLES:
                assert fake.rows(table, viewer=viewer) == file.rows(table, viewer=viewer)
            assert fake.counts(viewer=viewer) == file.counts(viewer=viewer)
            for word in WORDS:
                assert fake.naming([word], viewer=viewer) == file.naming([word], viewer=viewer)
        for name in NAMES:
            for table in CLAIMS:
                column = "source_b" if table == "correlations" else "source"
                assert fake.rows(table, where={column: name}) == file.rows(table, where={column: name})

    @rule()
    def histories_are_equal(self) -> None:
        fake, file = (store.domain for store in self.stores)
        for table, key in self.refs:
            assert fake.history(table, key) == file.history(table, key)  # type: ignore[arg-type]
        if self.open:
            one, other = (store.changeset(self.open[-1][0]) for store in self.stores)
            assert one == other


TestKnown = KnowledgeMachine.TestCase
TestKnown.settings = settings(
    max_examples=25, stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@given(
    told=st.lists(st.lists(ROWS, min_size=1, max_size=3), min_size=1, max_size=4),
    erased=st.integers(0, 3),
)
@settings(max_examples=25, deadline=None)
def test_stores_purge_the_same_rows(told: list[list[Knowledge]], erased: int) -> None:
    with TemporaryDirectory() as folder:
        stores: tuple[Store, Store] = (
            MemoryStore(FixedClock()),
            SqliteStore(Path(folder) / "cofio.db", FixedClock()),
        )
        deleted = told[erased % len(told)][0]
        for store in stores:
            for rows in told:
                apply_knowledge(store, *rows)
            apply_knowledge(store, PurgeRow(deleted.TABLE, deleted.id))
            for rows in told:
                apply_knowledge(store, *rows)
        numbers = [changeset.id for changeset in stores[0].changesets(99)]
        assert [stores[0].changeset(number) for number in numbers] == [
            stores[1].changeset(number) for number in numbers
        ]
        assert all_rows(stores[0]) == all_rows(stores[1])
        for store in stores:
            store.close()


def test_undoing_everything_restores_the_start_in_postgres(postgres_url: str) -> None:
    store, fake = PostgresStore(postgres_url, FixedClock()), MemoryStore(FixedClock())

    @given(told=st.lists(st.lists(ROWS, min_size=1, max_size=3), min_size=1, max_size=4), data=st.data())
    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def check(told: list[list[Knowledge]], data: st.DataObject) -> None:
        start, standing = all_rows(store), []
        for rows in told:
            before = all_rows(store)
            standing.append((apply_knowledge(store, *rows).id, before))
            apply_knowledge(fake, *rows)
            there = [known for rows in all_rows(store).values() for known in rows]
            known, before = data.draw(st.sampled_from(there)), all_rows(store)
            standing.append((apply_knowledge(store, DeleteRow(known.TABLE, known.id)).id, before))
            apply_knowledge(fake, DeleteRow(known.TABLE, known.id))
        assert _rows_without_times(store) == _rows_without_times(fake)
        for changeset, before in reversed(standing):
            undo_knowledge(store, changeset)
            assert all_rows(store) == before
        assert all_rows(store) == start
        for number in [changeset.id for changeset in fake.changesets(len(standing))]:
            lines = reversed(fake.changeset(number).knowledge)
            apply_knowledge(fake, *(RevertRow(line.id) for line in lines), undoes=number)

    check()
    store.close()
    fake.close()


def _rows_without_times(store: Store) -> dict[str, list[Knowledge]]:
    """Return the rows without their times, sorted by id."""
    rows = {table: store.domain.rows(table) for table in TABLES}
    return {
        table: sorted((replace(known, created_at="", updated_at="") for known in each), key=lambda known: known.id)
        for table, each in rows.items()
    }
