"""Property tests of domain knowledge: undoing everything restores the start; filters and histories match the rows."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from cofio.errors import Conflict, NotFound
from cofio.models.domain_knowledge import (
    CLAIMS,
    TABLES,
    Claim,
    Correlation,
    Feedback,
    Knowledge,
    Pattern,
    Seasonal,
    Table,
    Threshold,
    fold,
    named_words,
    sees,
    words_of,
)
from cofio.models.memory import DeleteRow, PurgeRow, PutRow, RevertRow, RowDecision, Viewer
from cofio.ports import Store
from cofio.stores.postgres import PostgresStore
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
        about=st.lists(st.sampled_from(("patterns/a", "thresholds/aapl.volume.above")), unique=True).map(tuple),
        processed=st.booleans(),
    ),
)
VIEWERS = (None, Viewer(user="ada", team="web"), Viewer(agent="bot", prefixes=("acme/web",)))


class KnowledgeMachine(RuleBasedStateMachine):
    """Apply and undo random decisions, and undo all of them at the end."""

    @initialize()
    def start(self) -> None:
        self.store = MemoryStore(FixedClock())
        self.open: list[tuple[int, dict[str, list[Knowledge]]]] = []  # changesets in effect, with the state before each
        self.undid: dict[int, int] = {}  # changesets in effect that undo another one
        self.refs: set[tuple[Table, str]] = set()

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        self.filters_match_the_rows()
        self.histories_are_complete()
        replacements: dict[int, int] = {}  # replacements of changesets that were undone and redone
        for changeset, before in reversed(self.open):
            result = undo_knowledge(self.store, replacements.get(changeset, changeset))
            assert all_rows(self.store) == before
            if changeset in self.undid:
                replacements[self.undid[changeset]] = result.id
        assert self.store.domain.counts() == dict.fromkeys(TABLES, 0)
        assert self.store.domain.naming(WORDS) == []
        self.store.close()

    def _do(self, *decisions: RowDecision) -> None:
        before = all_rows(self.store)
        try:
            changeset = apply_knowledge(self.store, *decisions)
        except NotFound:
            assert all_rows(self.store) == before
            return
        recorded = tuple(change for change in changeset.knowledge if change.action != "noop")
        assert self.store.changeset(changeset.id).knowledge == recorded
        self.open.append((changeset.id, before))
        self.refs |= {(change.table, change.key) for change in recorded}

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
        there = [known for rows in all_rows(self.store).values() for known in rows]
        if there:
            known = data.draw(st.sampled_from(there))
            self._do(DeleteRow(known.TABLE, known.id))

    @rule(data=st.data())
    def undo_any(self, data: st.DataObject) -> None:
        """Undo a changeset that may have later ones. The undo becomes a changeset in effect."""
        if not self.open:
            return
        changeset, _ = data.draw(st.sampled_from(self.open))
        before = all_rows(self.store)
        try:
            undo = undo_knowledge(self.store, changeset)
        except Conflict:
            assert all_rows(self.store) == before
            return
        self.open.append((undo.id, before))
        self.undid[undo.id] = changeset

    @rule()
    def undo_and_redo(self) -> None:
        if not self.open:
            return
        changeset, before = self.open[-1]
        now = all_rows(self.store)
        undo = undo_knowledge(self.store, changeset)
        assert all_rows(self.store) == before
        redone = undo_knowledge(self.store, undo.id)
        assert all_rows(self.store) == now
        self.open[-1] = (redone.id, before)  # replaces the original changeset
        if changeset in self.undid:
            self.undid[redone.id] = self.undid.pop(changeset)

    @rule()
    def filters_match_the_rows(self) -> None:
        domain, rows = self.store.domain, all_rows(self.store)
        claims = [row for table in CLAIMS for row in rows[table]]
        for viewer in VIEWERS:
            visible = {table: [row for row in rows[table] if sees(viewer, row)] for table in TABLES}
            assert {table: domain.rows(table, viewer=viewer) for table in TABLES} == visible
            assert domain.counts(viewer=viewer) == {table: len(visible[table]) for table in TABLES}
            for word in WORDS:
                named = domain.naming([word], viewer=viewer)
                expected = [row for row in claims if word in named_words(row) and sees(viewer, row)]
                assert {row.ref: row for row in named} == {row.ref: row for row in expected}
                assert [_confidence(row) for row in named] == sorted(map(_confidence, expected), reverse=True)
        for name in NAMES:
            for table in CLAIMS:
                column = "source_b" if table == "correlations" else "source"
                expected = [row for row in rows[table] if fold(getattr(row, column)) == fold(name)]
                assert domain.rows(table, where={column: name}) == expected

    @rule()
    def histories_are_complete(self) -> None:
        rows = {(row.TABLE, row.id): row for rows in all_rows(self.store).values() for row in rows}
        for table, key in self.refs:
            changes = self.store.domain.history(table, key)
            assert changes[0].before is None
            assert [change.before for change in changes[1:]] == [change.after for change in changes[:-1]]
            assert changes[-1].after == rows.get((table, key))


def _confidence(row: Knowledge) -> float:
    assert isinstance(row, Claim)
    return row.confidence


TestKnown = KnowledgeMachine.TestCase
TestKnown.settings = settings(
    max_examples=25, stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@given(
    told=st.lists(st.lists(ROWS, min_size=1, max_size=3), min_size=1, max_size=4),
    erased=st.integers(0, 3),
)
@settings(max_examples=25, deadline=None)
def test_purged_row_is_in_no_changeset(told: list[list[Knowledge]], erased: int) -> None:
    store = MemoryStore(FixedClock())
    deleted = told[erased % len(told)][0]
    for rows in told:
        apply_knowledge(store, *rows)
    others = [row for row in _all_refs(store) if row != deleted.ref]
    apply_knowledge(store, PurgeRow(deleted.TABLE, deleted.id))
    assert _all_refs(store) == others
    for changeset in store.changesets(99):
        for change in store.changeset(changeset.id).knowledge:
            for row in filter(None, (change.before, change.after)):
                assert row.ref != deleted.ref
                assert not isinstance(row, Feedback) or deleted.ref not in row.about
    for rows in told:
        apply_knowledge(store, *rows)
    assert sorted(_all_refs(store)) == sorted([*others, deleted.ref])
    store.close()


def _all_refs(store: Store) -> list[str]:
    return [row.ref for rows in all_rows(store).values() for row in rows]


def test_undoing_everything_restores_the_start_in_postgres(postgres_url: str) -> None:
    store, other = PostgresStore(postgres_url, FixedClock()), MemoryStore(FixedClock())

    @given(told=st.lists(st.lists(ROWS, min_size=1, max_size=3), min_size=1, max_size=4), data=st.data())
    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def check(told: list[list[Knowledge]], data: st.DataObject) -> None:
        start, standing = all_rows(store), []
        for rows in told:
            before = all_rows(store)
            standing.append((apply_knowledge(store, *rows).id, before))
            apply_knowledge(other, *rows)
            there = [known for rows in all_rows(store).values() for known in rows]
            known, before = data.draw(st.sampled_from(there)), all_rows(store)
            standing.append((apply_knowledge(store, DeleteRow(known.TABLE, known.id)).id, before))
            apply_knowledge(other, DeleteRow(known.TABLE, known.id))
        assert _rows_without_times(store) == _rows_without_times(other)
        for changeset, before in reversed(standing):
            undo_knowledge(store, changeset)
            assert all_rows(store) == before
        assert all_rows(store) == start
        for number in [changeset.id for changeset in other.changesets(len(standing))]:
            lines = reversed(other.changeset(number).knowledge)
            apply_knowledge(other, *(RevertRow(line.id) for line in lines), undoes=number)

    check()
    store.close()
    other.close()


def _rows_without_times(store: Store) -> dict[str, list[Knowledge]]:
    """Return the rows without their times, sorted by id."""
    rows = {table: store.domain.rows(table) for table in TABLES}
    return {
        table: sorted((replace(known, created_at="", updated_at="") for known in each), key=lambda known: known.id)
        for table, each in rows.items()
    }
