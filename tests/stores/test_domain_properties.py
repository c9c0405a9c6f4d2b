"""Whatever becomes known in whatever order: taken back in reverse, everything is as it was; and the stores agree."""

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
from tests.stores.domain_contract import all_known, know, take_back

NAMES = ("AAPL", "aapl", "Ünïcode 🌊", "a b", "ß", "SS", "ﬁx", "*", "x'y\"z")
WORDS = sorted({word for name in NAMES for word in words_of(name)})
_NAMES, _SHARES = st.sampled_from(NAMES), st.sampled_from((0.0, 0.25, 0.5, 1.0))
_WHOSE = st.sampled_from(
    (
        {},
        {"user": "ada"},
        {"user": "bob", "visibility": "global"},
        {"agent": "bot", "place": "acme/web"},
        {"team": "web", "visibility": "team", "place": "acme"},
    )
)


def _with_whose(kind: type[Knowledge], **about: st.SearchStrategy[object]) -> st.SearchStrategy[Knowledge]:
    return st.builds(lambda told, whose: kind(**told, **whose), st.fixed_dictionaries(about), _WHOSE)  # type: ignore[arg-type]


ROWS: st.SearchStrategy[Knowledge] = st.one_of(
    _with_whose(Pattern, pattern=_NAMES, source=_NAMES, confidence=_SHARES),
    _with_whose(Correlation, source_a=st.just("left"), source_b=_NAMES, rule=_NAMES, confidence=_SHARES),
    _with_whose(
        Threshold,
        source=_NAMES,
        metric=st.sampled_from(("volume", "Price")),
        value=st.floats(allow_nan=False, allow_infinity=False),
        direction=st.sampled_from(("above", "below")),
        inclusive=st.booleans(),
        confidence=_SHARES,
    ),
    _with_whose(Seasonal, pattern=_NAMES, period=st.just("daily"), lasts=st.integers(1, 99), confidence=_SHARES),
    _with_whose(
        Feedback,
        anomaly=_NAMES,
        verdict=st.sampled_from(("confirmed", "note")),
        about=st.lists(st.sampled_from(("patterns/a", "thresholds/aapl.volume.above")), unique=True).map(tuple),
        processed=st.booleans(),
    ),
)
VIEWERS = (None, Viewer(user="ada", team="web"), Viewer(agent="bot", prefixes=("acme/web",)))


class Known(RuleBasedStateMachine):
    """Any decisions and any taking back, in the fake and in the file at once; at the end all of it is taken back."""

    @initialize()
    def start(self) -> None:
        self.folder = TemporaryDirectory()
        self.tick, self.now = FixedClock(), ""  # one time for both, whoever asks how often
        file = SqliteStore(Path(self.folder.name) / "cofio.db", lambda: self.now)
        self.stores: tuple[Store, Store] = (MemoryStore(lambda: self.now), file)
        self.open: list[tuple[int, dict[str, list[Knowledge]]]] = []  # what stands, and what was before it
        self.undid: dict[int, int] = {}  # of those that stand, which took back which
        self.refs: set[tuple[str, str]] = set()

    def teardown(self) -> None:
        if not hasattr(self, "stores"):
            return
        self.the_stores_find_the_same()
        self.the_journals_tell_the_same()
        again: dict[int, int] = {}  # what stands for one that was taken back, once that is taken back in turn
        for changeset, before in reversed(self.open):
            for store in self.stores:
                done = take_back(store, again.get(changeset, changeset))
                assert all_known(store) == before
            if changeset in self.undid:
                again[self.undid[changeset]] = done.id
        for store in self.stores:
            assert store.domain.counts() == dict.fromkeys(TABLES, 0)
            assert store.domain.naming(WORDS) == []
            store.close()
        self.folder.cleanup()

    def _do(self, *decisions: RowDecision) -> None:
        self.now, before, done = self.tick(), all_known(self.stores[1]), []
        for store in self.stores:
            try:
                done.append(know(store, *decisions))
            except NotFound:
                assert all_known(store) == before
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
    def several_at_once(self, row: Knowledge, other: Knowledge) -> None:
        self._do(PutRow(row), PutRow(other), DeleteRow(row.TABLE, row.id), PutRow(other), PutRow(row))

    @rule(data=st.data())
    def drop_what_is_there(self, data: st.DataObject) -> None:
        there = [known for rows in all_known(self.stores[1]).values() for known in rows]
        if there:
            known = data.draw(st.sampled_from(there))
            self._do(DeleteRow(known.TABLE, known.id))

    @rule(data=st.data())
    def take_back_any(self, data: st.DataObject) -> None:
        """One in the middle is taken back where nothing came after; then that is what stands."""
        if not self.open:
            return
        changeset, _ = data.draw(st.sampled_from(self.open))
        self.now, before, done = self.tick(), all_known(self.stores[1]), []
        for store in self.stores:
            try:
                done.append(take_back(store, changeset))
            except Conflict:
                assert all_known(store) == before
        assert len(done) != 1
        if done:
            assert done[0] == done[1]
            self.open.append((done[0].id, before))
            self.undid[done[0].id] = changeset

    @rule()
    def take_back_and_again(self) -> None:
        if not self.open:
            return
        changeset, before = self.open[-1]
        self.now, now = self.tick(), all_known(self.stores[1])
        for store in self.stores:
            undone = take_back(store, changeset)
            assert all_known(store) == before
            redone = take_back(store, undone.id)
            assert all_known(store) == now
        self.open[-1] = (redone.id, before)  # stands for the original now
        if changeset in self.undid:
            self.undid[redone.id] = self.undid.pop(changeset)

    @invariant()
    def what_is_known_is_the_same(self) -> None:
        if hasattr(self, "stores"):
            fake, file = map(all_known, self.stores)
            assert fake == file

    @rule()
    def the_stores_find_the_same(self) -> None:
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
    def the_journals_tell_the_same(self) -> None:
        fake, file = (store.domain for store in self.stores)
        for table, key in self.refs:
            assert fake.history(table, key) == file.history(table, key)  # type: ignore[arg-type]
        if self.open:
            one, other = (store.changeset(self.open[-1][0]) for store in self.stores)
            assert one == other


TestKnown = Known.TestCase
TestKnown.settings = settings(
    max_examples=25, stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@given(
    told=st.lists(st.lists(ROWS, min_size=1, max_size=3), min_size=1, max_size=4),
    erased=st.integers(0, 3),
)
@settings(max_examples=25, deadline=None)
def test_both_stores_erase_the_same(told: list[list[Knowledge]], erased: int) -> None:
    with TemporaryDirectory() as folder:
        stores: tuple[Store, Store] = (
            MemoryStore(FixedClock()),
            SqliteStore(Path(folder) / "cofio.db", FixedClock()),
        )
        gone = told[erased % len(told)][0]
        for store in stores:
            for rows in told:
                know(store, *rows)
            know(store, PurgeRow(gone.TABLE, gone.id))
            for rows in told:
                know(store, *rows)
        numbers = [changeset.id for changeset in stores[0].changesets(99)]
        assert [stores[0].changeset(number) for number in numbers] == [
            stores[1].changeset(number) for number in numbers
        ]
        assert all_known(stores[0]) == all_known(stores[1])
        for store in stores:
            store.close()


def test_in_the_server_too_everything_is_as_it_was_once_it_is_taken_back(postgres_url: str) -> None:
    store, fake = PostgresStore(postgres_url, FixedClock()), MemoryStore(FixedClock())

    @given(told=st.lists(st.lists(ROWS, min_size=1, max_size=3), min_size=1, max_size=4), data=st.data())
    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def check(told: list[list[Knowledge]], data: st.DataObject) -> None:
        start, standing = all_known(store), []
        for rows in told:
            before = all_known(store)
            standing.append((know(store, *rows).id, before))
            know(fake, *rows)
            there = [known for rows in all_known(store).values() for known in rows]
            known, before = data.draw(st.sampled_from(there)), all_known(store)
            standing.append((know(store, DeleteRow(known.TABLE, known.id)).id, before))
            know(fake, DeleteRow(known.TABLE, known.id))
        assert _untimed(store) == _untimed(fake)
        for changeset, before in reversed(standing):
            take_back(store, changeset)
            assert all_known(store) == before
        assert all_known(store) == start
        for number in [each.id for each in fake.changesets(len(standing))]:
            lines = reversed(fake.changeset(number).knowledge)
            know(fake, *(RevertRow(line.id) for line in lines), undoes=number)

    check()
    store.close()
    fake.close()


def _untimed(store: Store) -> dict[str, list[Knowledge]]:
    """What is known, but for when it was said, in an order that does not depend on that."""
    rows = {table: store.domain.rows(table) for table in TABLES}
    return {
        table: sorted((replace(known, created_at="", updated_at="") for known in each), key=lambda known: known.id)
        for table, each in rows.items()
    }
