"""Property tests of the stores: undoing everything in reverse order restores the empty store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from cofio.errors import Conflict, NotFound
from cofio.models.memory import Add, Decision, Delete, Edit, Fact, Noop, Occurrence, Purge, Restore, Scope, Update
from cofio.ports import Store
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from tests.stores.contract import EVERYTHING, apply, everything, undo, vector
from tests.stores.test_sqlite import assert_consistent

WORDS = ("red", "green", "blue", "port 8080", "never", "C#", "Ünïcode 🌊", "'quoted'", 'a "b" c', "x\ny")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


class HistoryMachine(RuleBasedStateMachine):
    """Apply and undo random decisions, then undo everything and expect an empty store."""

    make: Callable[[Path], Store]
    ids: Bundle[int] = Bundle("ids")

    @initialize()
    def start(self) -> None:
        self.folder = TemporaryDirectory()
        self.store = type(self).make(Path(self.folder.name) / "cofio.db")
        self.open: list[int] = []  # changesets in effect, oldest first

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        for changeset in reversed(self.open):
            if any(change.action == "purge" for change in self.store.changeset(changeset).changes):
                continue  # a purge cannot be undone
            undo(self.store, changeset)
        assert everything(self.store) == []
        for text in WORDS:
            assert self.store.nearest(vector(text), 3, EVERYTHING) == []
            assert self.store.matching([text], 3, EVERYTHING).candidates == ()
        self.store.close()
        self.folder.cleanup()

    def _do(self, *decisions: Decision) -> list[int]:
        before = everything(self.store)
        try:
            result = apply(self.store, *decisions)
        except (Conflict, NotFound):
            assert everything(self.store) == before
            return []
        self.open.append(result.id)
        return [change.memory_id for change in result.changes if change.action in ("add", "update")]

    @rule(
        target=ids, texts=st.lists(TEXTS, min_size=1, max_size=3), unless_known=st.booleans(), repeats=st.integers(0, 2)
    )
    def add(self, texts: list[str], unless_known: bool, repeats: int) -> Any:
        sightings = tuple(Occurrence("a", str(index)) for index in range(repeats))
        return multiple(
            *self._do(*(Add(Fact(text=text), unless_known=unless_known, again=sightings) for text in texts))
        )

    @rule(target=ids, id=ids, text=TEXTS)
    def supersede(self, id: int, text: str) -> Any:  # noqa: A002
        return multiple(*self._do(Update(id, Fact(text=text))))

    @rule(id=ids, text=TEXTS, pinned=st.booleans())
    def edit(self, id: int, text: str, pinned: bool) -> None:  # noqa: A002
        self._do(Edit(id, {"text": text, "pinned": pinned}))

    @rule(id=ids, other=ids)
    def merge(self, id: int, other: int) -> None:  # noqa: A002
        if id != other:
            self._do(Delete(id, into=other))

    @rule(id=ids)
    def delete(self, id: int) -> None:  # noqa: A002
        self._do(Delete(id))

    @rule(id=ids)
    def restore(self, id: int) -> None:  # noqa: A002
        self._do(Restore(id))

    @rule(id=ids)
    def record_occurrence(self, id: int) -> None:  # noqa: A002
        self._do(Noop(id, Occurrence("agent", "session")))

    @rule(id=ids)
    def purge(self, id: int) -> None:  # noqa: A002
        self._do(Purge(id))

    @rule(id=ids, other=ids, text=TEXTS)
    def edit_and_delete(self, id: int, other: int, text: str) -> None:  # noqa: A002
        self._do(Edit(id, {"text": text}), Noop(other), Edit(id, {"tags": ["again"]}), Delete(other))

    @rule()
    def undo_and_redo(self) -> None:
        if not self.open:
            return
        before = everything(self.store)
        try:
            new_undo = undo(self.store, self.open[-1])
        except Conflict:
            assert everything(self.store) == before
            return
        redone = undo(self.store, new_undo.id)
        assert everything(self.store) == before
        self.open[-1] = redone.id  # replaces the original changeset

    @invariant()
    def search_finds_all_live_memories(self) -> None:
        if not hasattr(self, "store"):
            return
        memories = {memory.id: memory for memory in everything(self.store)}
        live = {number for number, memory in memories.items() if not memory.archived}
        results = self.store.nearest(vector("red"), 1_000, Scope())
        assert {item.id for item in results} == live
        for hit in results:
            expected = float(np.dot(vector(memories[hit.id].text), vector("red")))
            assert abs(hit.score - expected) < 1e-4
        holding = {candidate.id for candidate in self.store.matching(["green"], 1_000, Scope()).candidates}
        assert holding == {number for number in live if "green" in memories[number].text.split()}


class SqliteHistoryMachine(HistoryMachine):
    make = staticmethod(lambda path: SqliteStore(path, FixedClock()))

    def teardown(self) -> None:
        if hasattr(self, "store"):
            assert_consistent(Path(self.folder.name) / "cofio.db")
        super().teardown()


_SETTINGS = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestSqliteHistory = SqliteHistoryMachine.TestCase
TestSqliteHistory.settings = _SETTINGS
