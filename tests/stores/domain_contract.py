"""Contract suite of the domain knowledge tables. Subclass it with a `store` fixture that yields an empty store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cofio.errors import Conflict, InvalidInput, NotFound
from cofio.models.domain_knowledge import (
    ANY,
    TABLES,
    Correlation,
    Feedback,
    Knowledge,
    KnowledgeChange,
    Pattern,
    Seasonal,
    Threshold,
    sees,
)
from cofio.models.exchange import ItemResolution
from cofio.models.memory import Add, Changeset, DeleteRow, Fact, PurgeRow, PutRow, RevertRow, RowDecision, Scope, Viewer
from cofio.ports import Store
from tests.stores.contract import add, everything, vector
from tests.stores.inbox_contract import receive, resolution

ADA, BOB = Viewer(user="ada", team="web"), Viewer(user="bob", team="ops")


def apply_knowledge(store: Store, *decisions: RowDecision | Knowledge, why: str = "", **options: Any) -> Changeset:
    """Apply knowledge decisions. A row is short for putting it."""
    puts = [PutRow(decision) if isinstance(decision, Knowledge) else decision for decision in decisions]
    return store.apply(puts, {}, by="test", why=why, **options)


def put_row(store: Store, row: Knowledge) -> Knowledge:
    """Put a row and return it as stored."""
    after = apply_knowledge(store, row).knowledge[0].after
    assert after is not None
    return after


def undo_knowledge(store: Store, changeset: int) -> Changeset:
    lines = reversed(store.changeset(changeset).knowledge)
    return apply_knowledge(store, *(RevertRow(line.id) for line in lines), undoes=changeset)


def all_rows(store: Store) -> dict[str, list[Knowledge]]:
    return {table: store.domain.rows(table) for table in TABLES}


def volume(value: float = 5e6, **about: Any) -> Threshold:
    return Threshold(**{"source": "AAPL", "metric": "volume", "direction": "above", **about, "value": value})


def row_ids(found: list[Knowledge]) -> list[str]:
    return [known.id for known in found]


SAMPLE_ROWS = (
    Pattern(pattern="Volume spikes before earnings, “oft”\nund überall 🌊", source="NYSE", confidence=0.8, memory=7),
    Correlation(
        source_a="BTC price", source_b="ETH price", rule="BTC leads ETH by 2 h", relation="leads", inverse=True
    ),
    volume(
        0.1 + 0.2, inclusive=True, unit="%", confidence=1 / 3, prior=2 / 3, confirmed=3, refuted=(1 << 62), team="web"
    ),
    Seasonal(pattern="Backups run", period="cron", during="0 3 * * *", lasts=90, timezone="Europe/Paris", source="db1"),
    Feedback(
        anomaly="AAPL 2026-02-20",
        verdict="false_alarm",
        note="a split",
        about=("thresholds/aapl.volume.above", "patterns/b", "patterns/a"),
        processed=True,
        user="ada",
        place="acme/web",
        visibility="team",
        team="web",
    ),
)


class KnowledgeContract:
    """Tests of the knowledge tables."""

    # ── putting ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("row", SAMPLE_ROWS, ids=lambda known: known.TABLE)
    def test_put_row_is_returned_with_every_field(self, store: Store, row: Knowledge) -> None:
        result = apply_knowledge(store, row, why="said so")
        stored = replace(row, created_at=result.at, updated_at=result.at)
        assert store.domain.get(row.TABLE, [row.id]) == [stored]
        assert store.domain.rows(row.TABLE) == [stored]
        (change,) = result.knowledge
        assert (change.action, change.table, change.key, change.ref) == ("add", row.TABLE, row.id, row.ref)
        assert (change.before, change.after, change.by, change.why) == (None, stored, "test", "said so")
        assert (change.changeset, change.at) == (result.id, result.at)
        assert change.id > 0
        assert store.domain.history(row.TABLE, row.id) == [change]
        assert store.changeset(result.id).knowledge == (change,)
        assert KnowledgeChange.from_dict(change.as_dict()) == change

    def test_empty_store_has_no_rows(self, store: Store) -> None:
        assert store.domain.counts() == dict.fromkeys(TABLES, 0)
        assert all_rows(store) == {table: [] for table in TABLES}
        assert store.domain.naming(["aapl"]) == store.domain.stated_by([1]) == store.domain.get("patterns", ["a"]) == []

    def test_repeated_put_updates_in_place_and_keeps_created_at(self, store: Store) -> None:
        first = put_row(store, volume(5e6))
        result = apply_knowledge(store, PutRow(volume(6e6, confidence=0.9), "raised"))
        (change,) = result.knowledge
        assert (change.action, change.before, change.reason) == ("update", first, "raised")
        assert change.after == replace(volume(6e6, confidence=0.9), created_at=first.created_at, updated_at=result.at)
        assert result.at > first.updated_at
        assert store.domain.rows("thresholds") == [change.after]
        assert [line.action for line in store.domain.history("thresholds", first.id)] == ["add", "update"]

    def test_identical_put_is_a_noop_without_history(self, store: Store) -> None:
        first = put_row(store, volume())
        result = apply_knowledge(store, replace(volume(), created_at="2020-01-01", updated_at="2020-01-02"))
        (change,) = result.knowledge
        assert (change.id, change.action, change.before, change.after) == (0, "noop", first, first)
        assert store.domain.rows("thresholds") == [first]
        assert len(store.domain.history("thresholds", first.id)) == 1
        assert store.changeset(result.id).knowledge == ()

    def test_given_times_are_kept_for_new_rows_only(self, store: Store) -> None:
        old = replace(volume(), created_at="2020-01-01", updated_at="2020-01-02")
        stored = put_row(store, old)
        assert (stored.created_at[:10], stored.updated_at[:10]) == ("2020-01-01", "2020-01-02")
        result = apply_knowledge(store, replace(volume(7e6), created_at="2021-01-01", updated_at="2021-01-02"))
        (again,) = store.domain.rows("thresholds")
        assert (again.created_at, again.updated_at) == (stored.created_at, result.at)

    def test_ids_are_unique_per_table(self, store: Store) -> None:
        pattern, seasonal = (
            Pattern(id="same", pattern="it rains"),
            Seasonal(id="same", pattern="it rains", period="daily"),
        )
        apply_knowledge(store, pattern, seasonal)
        assert (
            row_ids(store.domain.get("patterns", ["same"]))
            == row_ids(store.domain.get("seasonal", ["same"]))
            == ["same"]
        )
        apply_knowledge(store, DeleteRow("patterns", "same"))
        assert store.domain.get("patterns", ["same"]) == []
        assert row_ids(store.domain.get("seasonal", ["same"])) == ["same"]
        assert [line.action for line in store.domain.history("seasonal", "same")] == ["add"]

    def test_ids_are_case_sensitive(self, store: Store) -> None:
        apply_knowledge(store, Pattern(id="a", pattern="one"), Pattern(id="A", pattern="two"))
        assert {known.id: known.says for known in store.domain.rows("patterns")} == {"a": "one", "A": "two"}

    @pytest.mark.parametrize("value", [0.0, -1.5, 1e300, 5e-324, -1.7976931348623157e308, 123456789.123456789, 1e15])
    def test_float_values_round_trip_exactly(self, store: Store, value: float) -> None:
        known = put_row(store, volume(value))
        assert store.domain.rows("thresholds", where={"value": value}) == [known]
        apply_knowledge(store, volume(value, confidence=0.1))
        assert store.domain.history("thresholds", known.id)[1].before == known

    def test_decisions_are_applied_in_order_in_one_changeset(self, store: Store) -> None:
        result = apply_knowledge(
            store, volume(1), volume(2), DeleteRow("thresholds", volume().id), volume(3), Pattern(pattern="it rains")
        )
        assert [change.action for change in result.knowledge] == ["add", "update", "delete", "add", "add"]
        assert store.changeset(result.id).knowledge == result.knowledge
        assert [known.value for known in store.domain.rows("thresholds")] == [3]  # type: ignore[attr-defined]

    # ── rows and memories ─────────────────────────────────────────────────────────────────────────────────────────────

    def test_row_links_to_the_memory_that_states_it(self, store: Store) -> None:
        memories = [Add(Fact(text="hello")), Add(Fact(text="flag AAPL if volume exceeds 5M"))]
        rows = [PutRow(volume(), stated_by=1), PutRow(Pattern(pattern="p"))]
        result = store.apply([*memories, *rows], {}, by="test", why="")
        row, other = (change.after for change in result.knowledge)
        assert isinstance(row, Threshold)
        assert isinstance(other, Pattern)
        assert (row.memory, other.memory) == (result.changes[1].memory_id, None)
        assert store.domain.stated_by([result.changes[1].memory_id]) == [row]
        assert store.domain.stated_by([result.changes[0].memory_id, 1 << 70]) == store.domain.stated_by([]) == []
        read = store.changeset(result.id)
        assert (read.changes, read.knowledge) == (result.changes, result.knowledge)

    def test_rows_are_changed_after_memories(self, store: Store) -> None:
        decisions = [PutRow(volume(), stated_by=1), Add(Fact(text="flag AAPL if volume exceeds 5M"))]
        result = store.apply(decisions, {1: vector("flag AAPL")}, by="test", why="")
        assert row_ids(store.domain.stated_by([result.changes[0].memory_id])) == [result.knowledge[0].key]
        assert store.unembedded(9) == []

    def test_row_links_to_the_existing_memory_of_a_duplicate(self, store: Store) -> None:
        first = add(store, "flag AAPL if volume exceeds 5M")
        repeated = Add(Fact(text="Flag AAPL if volume exceeds 5M"), unless_known=True)
        result = store.apply([repeated, PutRow(volume(), stated_by=0)], {}, by="test", why="")
        assert row_ids(store.domain.stated_by([first.id])) == [result.knowledge[0].key]

    @pytest.mark.parametrize(
        ("decision", "error"),
        [
            (PutRow(volume(), stated_by=1), InvalidInput),
            (PutRow(volume(), stated_by=-1), InvalidInput),
            (PutRow(volume(), stated_by=9), InvalidInput),
            (PutRow(Feedback(anomaly="a", verdict="note"), stated_by=0), InvalidInput),
            (DeleteRow("thresholds", "nowhere"), NotFound),
            (PurgeRow("thresholds", "nowhere"), NotFound),
            (DeleteRow("patterns", "a\x00b\ud800"), NotFound),
            (PurgeRow("patterns", "a\x00b\ud800"), NotFound),
            (RevertRow(999), NotFound),
            (RevertRow(1 << 70), NotFound),
            (DeleteRow("nothing", "a"), InvalidInput),  # type: ignore[arg-type]
        ],
    )
    def test_invalid_decision_changes_nothing(
        self, store: Store, decision: RowDecision, error: type[Exception]
    ) -> None:
        stored = put_row(store, Pattern(pattern="it rains"))
        before = store.stats()["changesets"]
        with pytest.raises(error):
            store.apply(
                [Add(Fact(text="hello")), PutRow(volume(9)), DeleteRow("patterns", stored.id), decision],
                {},
                by="test",
                why="",
            )
        assert everything(store) == []
        assert store.stats()["changesets"] == before
        assert all_rows(store) == {table: [stored] if table == "patterns" else [] for table in TABLES}
        assert len(store.domain.history("patterns", stored.id)) == 1

    def test_knowledge_changes_resolve_an_inbox_item(self, store: Store) -> None:
        item = receive(store, "flag AAPL if volume exceeds 5M")[0]
        observed: list[Changeset] = []

        def settles(done: Changeset) -> ItemResolution:
            observed.append(done)
            return resolution(item, "stored")

        done = apply_knowledge(store, volume(), settles=settles)
        assert [item.knowledge for item in observed] == [done.knowledge]
        assert store.inbox.item(item).changeset == done.id

    # ── deleting and undoing ──────────────────────────────────────────────────────────────────────────────────────────

    def test_deleted_rows_are_restored_and_deleted_again_by_undo(self, store: Store) -> None:
        apply_knowledge(store, *SAMPLE_ROWS)
        before = all_rows(store)
        dropped = apply_knowledge(store, *(DeleteRow(known.TABLE, known.id, "no more") for known in SAMPLE_ROWS))
        assert [(line.action, line.after, line.reason) for line in dropped.knowledge] == [
            ("delete", None, "no more")
        ] * 5
        assert all_rows(store) == {table: [] for table in TABLES}
        back = undo_knowledge(store, dropped.id)
        assert {line.action for line in back.knowledge} == {"revert"}
        assert [line.after for line in back.knowledge] == [line.before for line in reversed(dropped.knowledge)]
        assert all_rows(store) == before
        assert row_ids(store.domain.naming(["aapl"])) == [volume().id]
        repeated = undo_knowledge(store, back.id)
        assert all_rows(store) == {table: [] for table in TABLES}
        undo_knowledge(store, repeated.id)
        assert all_rows(store) == before
        assert store.changeset(dropped.id).undone_by == back.id

    def test_undo_removes_new_rows_and_restores_old_ones(self, store: Store) -> None:
        first = apply_knowledge(store, volume(1))
        second = apply_knowledge(store, volume(2, source="AAPL"), Pattern(pattern="it rains"))
        undo_knowledge(store, second.id)
        assert all_rows(store)["thresholds"] == [first.knowledge[0].after]
        assert all_rows(store)["patterns"] == []
        undo_knowledge(store, first.id)
        assert store.domain.counts() == dict.fromkeys(TABLES, 0)
        assert store.domain.naming(["aapl"]) == []
        actions = [line.action for line in store.domain.history("thresholds", volume().id)]
        assert actions == ["add", "update", "revert", "revert"]

    def test_undo_after_later_change_raises_conflict_that_names_it(self, store: Store) -> None:
        first, second = apply_knowledge(store, volume(1)), apply_knowledge(store, volume(2))
        third = apply_knowledge(store, DeleteRow("thresholds", volume().id))
        with pytest.raises(Conflict, match=rf"thresholds/aapl.volume.above .*changeset {second.id}"):
            undo_knowledge(store, first.id)
        with pytest.raises(Conflict, match=str(third.id)):
            undo_knowledge(store, second.id)
        assert store.domain.rows("thresholds") == []
        for done in (third, second, first):
            undo_knowledge(store, done.id)
        assert store.domain.rows("thresholds") == []

    def test_undone_change_does_not_block_undo(self, store: Store) -> None:
        first, second = apply_knowledge(store, volume(1)), apply_knowledge(store, volume(2))
        undo_knowledge(store, second.id)
        undo_knowledge(store, first.id)
        assert store.domain.rows("thresholds") == []

    def test_changeset_can_be_undone_only_once(self, store: Store) -> None:
        result = apply_knowledge(store, volume())
        undo_knowledge(store, result.id)
        with pytest.raises(Conflict, match="undone already"):
            apply_knowledge(store, undoes=result.id)

    def test_history_returns_the_state_after_each_change(self, store: Store) -> None:
        apply_knowledge(store, volume(1))
        apply_knowledge(store, volume(2), Pattern(pattern="it rains"))
        apply_knowledge(store, DeleteRow("thresholds", volume().id))
        lines = store.domain.history("thresholds", volume().id)
        assert [getattr(line.after, "value", None) for line in lines] == [1, 2, None]
        assert [getattr(line.before, "value", None) for line in lines] == [None, 1, 2]
        result = [store.changeset(line.changeset).knowledge[0] for line in lines]
        assert result == lines

    def test_unknown_row_has_no_history(self, store: Store) -> None:
        for key in ("nowhere", "", "a\x00b", "\ud800"):
            with pytest.raises(NotFound):
                store.domain.history("thresholds", key)
        with pytest.raises(InvalidInput, match="no table"):
            store.domain.history("nothing", "a")  # type: ignore[arg-type]

    # ── purging ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_purged_row_is_removed_from_history(self, store: Store) -> None:
        apply_knowledge(store, PutRow(volume(1), "because of AAPL"))
        apply_knowledge(store, volume(2))
        result = apply_knowledge(store, PurgeRow("thresholds", volume().id, "AAPL wants it"))
        (change,) = result.knowledge
        assert (change.action, change.ref, change.before, change.after) == ("purge", volume().ref, None, None)
        assert store.domain.rows("thresholds") == store.domain.naming(["aapl"]) == []
        lines = store.domain.history("thresholds", volume().id)
        assert [(line.action, line.before, line.after, line.reason) for line in lines] == [
            (action, None, None, "") for action in ("add", "update", "purge")
        ]
        for line in lines:
            (told,) = store.changeset(line.changeset).knowledge
            assert "aapl" not in repr(told).lower()

    def test_purge_cannot_be_undone(self, store: Store) -> None:
        apply_knowledge(store, volume(1))
        second = apply_knowledge(store, volume(2), Pattern(pattern="it rains"))
        deletion = apply_knowledge(store, PurgeRow("thresholds", volume().id))
        with pytest.raises(Conflict, match="purge"):
            undo_knowledge(store, deletion.id)
        left = undo_knowledge(store, second.id)  # the rest of the changeset is undone
        assert [(line.action, line.table) for line in left.knowledge] == [("revert", "patterns")]
        assert store.domain.counts() == dict.fromkeys(TABLES, 0)

    def test_deleted_row_can_be_purged(self, store: Store) -> None:
        dropped = (apply_knowledge(store, volume()), apply_knowledge(store, DeleteRow("thresholds", volume().id)))[1]
        apply_knowledge(store, PurgeRow("thresholds", volume().id))
        assert [line.before for line in store.domain.history("thresholds", volume().id)] == [None, None, None]
        assert undo_knowledge(store, dropped.id).knowledge == ()
        with pytest.raises(NotFound):
            apply_knowledge(store, PurgeRow("thresholds", volume().id))  # nothing is left

    def test_purged_row_can_be_put_again_without_link_to_the_old_one(self, store: Store) -> None:
        old = apply_knowledge(store, volume(1))
        apply_knowledge(store, PurgeRow("thresholds", volume().id))
        new = apply_knowledge(store, volume(2))
        assert undo_knowledge(store, old.id).knowledge == ()
        assert [known.value for known in store.domain.rows("thresholds")] == [2]  # type: ignore[attr-defined]
        lines = store.domain.history("thresholds", volume().id)
        assert [(line.action, getattr(line.after, "value", None)) for line in lines] == [
            ("add", None),
            ("purge", None),
            ("add", 2),
        ]
        assert {line.key for line in lines} == {volume().id}
        undo_knowledge(store, new.id)
        assert store.domain.rows("thresholds") == []
        apply_knowledge(store, PurgeRow("thresholds", volume().id))
        assert {line.after for line in store.domain.history("thresholds", volume().id)} == {None}

    def test_purged_row_is_removed_from_feedback(self, store: Store) -> None:
        verdict = Feedback(anomaly="x", verdict="confirmed", about=("patterns/p", volume().ref, "seasonal/s"))
        apply_knowledge(store, volume(), verdict)
        judged = apply_knowledge(store, replace(verdict, processed=True))
        apply_knowledge(store, PurgeRow("thresholds", volume().id))
        (left,) = store.domain.rows("feedback")
        assert isinstance(left, Feedback)
        assert left.about == ("patterns/p", "seasonal/s")
        assert volume().id not in repr(store.domain.history("feedback", verdict.id))
        undo_knowledge(store, judged.id)
        assert store.domain.rows("feedback", where={"processed": False, "about": ["seasonal/s", "patterns/p"]})

    # ── finding ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_get_keeps_order_and_skips_unknown_ids(self, store: Store) -> None:
        apply_knowledge(store, *(Pattern(id=key, pattern=key) for key in "abc"))
        odd = ["c", "x", "a", "", "a\x00", "\ud800", "A", "a" * 5_000]
        assert row_ids(store.domain.get("patterns", odd)) == ["c", "a"]
        assert store.domain.get("patterns", []) == store.domain.get("seasonal", ["a"]) == []
        with pytest.raises(InvalidInput, match="no table"):
            store.domain.get("nothing", ["a"])  # type: ignore[arg-type]

    def test_claims_are_sorted_by_confidence_then_id(self, store: Store) -> None:
        far_up = "𝔸"  # outside the Basic Multilingual Plane
        claims = {"b": 0.5, far_up: 0.5, "a": 0.5, "é": 0.5, "ｱ": 0.5, "Z": 0.5, "low": 0.1, "high": 1.0, "none": 0}
        for key, confidence in claims.items():
            apply_knowledge(store, Pattern(id=key, pattern=f"about {key}", confidence=confidence))
        assert row_ids(store.domain.rows("patterns")) == ["high", "Z", "a", "b", "é", "ｱ", far_up, "low", "none"]
        assert row_ids(store.domain.rows("patterns", least=0.5)) == ["high", "Z", "a", "b", "é", "ｱ", far_up]
        assert row_ids(store.domain.rows("patterns", least=1.0)) == ["high"]

    def test_feedback_is_sorted_newest_first(self, store: Store) -> None:
        for name, at in (("old", "2026-01-01"), ("b", "2026-02-01"), ("a", "2026-02-01"), ("new", "2026-03-01")):
            apply_knowledge(store, Feedback(anomaly=name, verdict="note", created_at=at))
        apply_knowledge(store, Feedback(anomaly="old", verdict="confirmed"))  # changed, but created_at is unchanged
        assert row_ids(store.domain.rows("feedback")) == ["new", "a", "b", "old"]
        assert row_ids(store.domain.rows("feedback", least=0.9)) == ["new", "a", "b", "old"]

    def test_pages_cover_all_rows_once(self, store: Store) -> None:
        apply_knowledge(
            store, *(Pattern(id=f"p{index}", pattern=f"p {index}", confidence=index % 3 / 2) for index in range(10))
        )
        apply_knowledge(store, *(Feedback(anomaly=f"f{index}", verdict="note") for index in range(4)))
        for table in ("patterns", "feedback"):
            complete = store.domain.rows(table)  # type: ignore[arg-type]
            paged: list[Knowledge] = []
            while page := store.domain.rows(table, limit=3, after=paged[-1].id if paged else None):  # type: ignore[arg-type]
                paged += page
            assert paged == complete
        where = {"source": ""}
        assert row_ids(store.domain.rows("patterns", least=0.5, where=where, after="p8", limit=2)) == ["p1", "p4"]
        assert store.domain.rows("patterns", limit=0) == []

    def test_page_after_a_deleted_row_is_rejected_with_hint(self, store: Store) -> None:
        apply_knowledge(store, Pattern(id="a", pattern="a"), Pattern(id="b", pattern="b", user="ada"))
        apply_knowledge(store, DeleteRow("patterns", "a"))
        for after, viewer in (("a", None), ("", None), ("a\x00", None), ("b", BOB)):
            with pytest.raises(InvalidInput, match="does not exist") as refused:
                store.domain.rows("patterns", after=after, viewer=viewer)
            assert refused.value.hint

    def test_rows_are_filtered_case_insensitively(self, store: Store) -> None:
        apply_knowledge(
            store, volume(), volume(source="MSFT"), volume(1, metric="Trade  Volume"), volume(2, source=ANY)
        )
        apply_knowledge(
            store, volume(3, direction="below", inclusive=True, unit="Mio", memory=7, place="Acme", user="Ada")
        )
        find = lambda **where: sorted(  # noqa: E731
            known.value  # type: ignore[attr-defined]
            for known in store.domain.rows("thresholds", where=where)
        )
        assert find(source="aapl", metric="VOLUME") == [3, 5e6]
        assert find(source=" ａａｐｌ ") == [1, 3, 5e6]  # NFKC: full-width letters equal ASCII letters
        assert find(metric="trade volume") == [1]
        assert find(source="*") == [2]
        assert find(source="aap") == find(source="%") == []
        assert find(value=5e6) == find(value=5_000_000) == [5e6, 5e6]
        assert find(direction=" Below ") == find(inclusive=True) == find(unit="mio") == find(memory=7) == [3]
        assert find(memory=None) == [1, 2, 5e6, 5e6]
        assert find(place="Acme") == find(user="Ada") == find(id=volume(direction="below", user="Ada").id) == [3]
        assert find(place="acme") == find(user="ada") == []  # ownership fields match exactly
        assert find(created_at=store.domain.rows("thresholds", where={"value": 2})[0].created_at) != []
        assert find(confidence=0.5, prior=0.5, confirmed=0, refuted=0, visibility="private", team="", agent="") != []

    def test_correlations_are_found_from_either_side(self, store: Store) -> None:
        apply_knowledge(store, Correlation(source_a="Gold", source_b="Dollar", rule="Gold falls", inverse=True))
        for where in ({"source_a": "gold"}, {"source_b": "DOLLAR"}, {"rule": "gold  FALLS"}, {"inverse": True}):
            assert len(store.domain.rows("correlations", where=where)) == 1
        assert store.domain.rows("correlations", where={"relation": "leads"}) == []

    def test_feedback_is_filtered_by_subject(self, store: Store) -> None:
        apply_knowledge(
            store, Feedback(anomaly="One Two", verdict="false_alarm", about=("patterns/a", "patterns/b"), note="Nope")
        )
        apply_knowledge(store, Feedback(anomaly="three", verdict="confirmed", processed=True))
        for where in (
            {"about": "patterns/b"},
            {"about": ["patterns/b", "patterns/a"]},
            {"anomaly": "one two"},
            {"verdict": "False Alarm"},
            {"note": "NOPE"},
            {"processed": False},
        ):
            assert row_ids(store.domain.rows("feedback", where=where)) == ["one_two"]
        assert store.domain.rows("feedback", where={"about": "patterns/c"}) == []
        assert store.domain.rows("feedback", where={"about": ["patterns/a", "patterns/c"]}) == []

    def test_long_texts_are_compared_completely(self, store: Store) -> None:
        texts = [f"{'long ' * 700}{end}" for end in ("one", "two")]
        apply_knowledge(store, *(Pattern(pattern=text, source="Ŝ" * 1_000 + text[-3:]) for text in texts))
        for text in texts:
            for where in ({"pattern": text.upper()}, {"source": "ŝ" * 1_000 + text[-3:]}):
                assert [known.says for known in store.domain.rows("patterns", where=where)] == [text]
            assert len(store.domain.naming(["ŝ" * 1_000 + text[-3:]])) == 1

    @pytest.mark.parametrize(
        "where",
        [
            {"colour": "red"},
            {"direction": "above"},
            {"source": 5},
            {"source": None},
            {"source": "a\x00b"},
            {"pattern": "\ud800"},
            {"confidence": "high"},
            {"confidence": True},
            {"confidence": float("nan")},
            {"confirmed": 1.5},
            {"confirmed": 1 << 70},
            {"memory": "seven"},
            {"visibility": "everybody"},
            {"created_at": "yesterday"},
            {"id": 1},
        ],
    )
    def test_invalid_filter_is_rejected_with_hint(self, store: Store, where: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput) as refused:
            store.domain.rows("patterns", where=where)
        assert refused.value.hint

    def test_invalid_query_option_is_rejected(self, store: Store) -> None:
        for asked in ({"least": 2}, {"least": -0.1}, {"limit": -1}, {"limit": 1.5}):
            with pytest.raises(InvalidInput):
                store.domain.rows("patterns", **asked)  # type: ignore[arg-type]
        for where in ({"processed": 1}, {"about": 5}, {"about": [None]}):
            with pytest.raises(InvalidInput, match=next(iter(where))):
                store.domain.rows("feedback", where=where)
        with pytest.raises(InvalidInput, match="no table"):
            store.domain.rows("memories")  # type: ignore[arg-type]

    def test_claims_are_found_by_a_word_of_their_names_most_confident_first(self, store: Store) -> None:
        apply_knowledge(
            store,
            Correlation(source_a="BTC price", source_b="ETH-price", rule="together", confidence=0.4),
            Threshold(source="BTC", metric="price", value=1, direction="above", confidence=0.9),
            Threshold(source=ANY, metric="Price", value=1, direction="below", confidence=0.2),
            Pattern(pattern="the price of BTC rises", confidence=1.0),  # has no name
            Pattern(pattern="it rises", source="btc", confidence=0.9),
            Seasonal(pattern="it sleeps", period="weekly", source="ETH", confidence=0.5),
            Feedback(anomaly="btc", verdict="note"),
        )
        names = lambda *words: [known.TABLE for known in store.domain.naming(words)]  # noqa: E731
        assert names("btc") == ["patterns", "thresholds", "correlations"]
        assert names("eth") == ["seasonal", "correlations"]
        assert names("eth", "btc", "btc", "unknown") == ["patterns", "thresholds", "seasonal", "correlations"]
        assert names("price") == ["correlations", "thresholds"]
        assert names() == names("") == names("unknown") == names("bt") == names("b%", "\x00", "\ud800") == []

    def test_name_index_follows_changes_of_the_row(self, store: Store) -> None:
        apply_knowledge(store, Pattern(id="p", pattern="it rains", source="Paris"))
        updated = apply_knowledge(store, Pattern(id="p", pattern="it rains", source="Rome"))
        assert (row_ids(store.domain.naming(["paris"])), row_ids(store.domain.naming(["rome"]))) == ([], ["p"])
        undo_knowledge(store, updated.id)
        assert (row_ids(store.domain.naming(["paris"])), row_ids(store.domain.naming(["rome"]))) == (["p"], [])
        apply_knowledge(store, DeleteRow("patterns", "p"))
        assert store.domain.naming(["paris", "rome"]) == []

    # ── visibility ────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_viewer_finds_exactly_the_visible_rows(self, store: Store) -> None:
        owners: list[dict[str, str]] = [
            {"visibility": visibility, "user": user, "agent": agent, "team": team, "place": place}
            for visibility in ("private", "team", "global")
            for user in ("", "ada", "bob")
            for agent in ("", "bot")
            for team in ("", "web")
            for place in ("", "acme/web", "acme/webshop", "acme/web/front")
        ]
        rows = [
            Pattern(id=f"p{place}", pattern=f"number {place}", source="Paris", **whose)  # type: ignore[arg-type]
            for place, whose in enumerate(owners)
        ]
        apply_knowledge(store, *rows)
        for viewer in (
            ADA,
            BOB,
            Viewer(agent="bot"),
            Viewer(user="ada", agent="bot", team="web"),
            Viewer(user="ada", team="web", prefixes=("acme/web",)),
            Viewer(agent="bot", prefixes=("acme/web/front", "other")),
        ):
            mine = sorted(known.id for known in rows if sees(viewer, known))
            assert row_ids(store.domain.rows("patterns", viewer=viewer)) == mine
            assert row_ids(store.domain.naming(["paris"], viewer=viewer)) == mine
            assert sorted(row_ids(store.domain.get("patterns", [known.id for known in rows], viewer=viewer))) == mine
            assert store.domain.counts(viewer=viewer) == {**dict.fromkeys(TABLES, 0), "patterns": len(mine)}
            assert 0 < len(mine) < len(rows)
            assert row_ids(store.domain.rows("patterns", viewer=viewer, limit=2, after=mine[0])) == mine[1:3]

    def test_scoped_changesets_are_those_with_visible_changes(self, store: Store) -> None:
        ada_changeset = apply_knowledge(store, volume(user="ada"))
        bob_changeset = apply_knowledge(store, Pattern(pattern="it rains", user="bob"))
        add(store, "hello", user="ada")
        deleted = apply_knowledge(store, DeleteRow("thresholds", ada_changeset.knowledge[0].key))
        newest = [changeset.id for changeset in store.changesets(9)]
        assert newest == [deleted.id, bob_changeset.id + 1, bob_changeset.id, ada_changeset.id]
        observed = [changeset.id for changeset in store.changesets(9, within=Scope(include_archived=True, viewer=ADA))]
        assert observed == [deleted.id, bob_changeset.id + 1, ada_changeset.id]
        observed = [changeset.id for changeset in store.changesets(9, within=Scope(viewer=BOB))]
        assert observed == [bob_changeset.id]
        assert store.changesets(9, within=Scope(project="/srv/web", viewer=ADA)) == []
        assert store.changesets(9, within=Scope(category="decision")) == []
        assert all(changeset.knowledge == changeset.changes == () for changeset in store.changesets(9))

    # ── copying ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_rows_are_read_for_copying_in_order_of_ids(self, store: Store) -> None:
        apply_knowledge(
            store, *(Pattern(id=key, pattern=key, confidence=0.1) for key in ("b", "𝔸", "a", "é", "Z", "ｱ"))
        )
        carrying, after, carried = store.snapshots, "", list[Knowledge]()
        while rows := carrying.knowledge("patterns", after, 2):
            carried, after = carried + rows, rows[-1].id
        assert row_ids(carried) == ["Z", "a", "b", "é", "ｱ", "𝔸"]
        assert sorted(carried, key=lambda known: known.id) == store.domain.rows("patterns")
        with carrying.snapshot() as still:
            apply_knowledge(store, Pattern(id="c", pattern="c"), DeleteRow("patterns", "a"))
            assert still.knowledge("patterns", "", 99) == carried
        assert row_ids(carrying.knowledge("patterns", "b", 99)) == ["c", "é", "ｱ", "𝔸"]
        with pytest.raises(InvalidInput, match="no table"):
            carrying.knowledge("nothing", "", 1)  # type: ignore[arg-type]

    # ── memories ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_memory_search_is_unaffected_by_knowledge_changes(self, store: Store) -> None:
        memory = add(store, "the zebra stays")
        apply_knowledge(store, volume())
        assert [candidate.id for candidate in store.matching(["zebra"], 5, Scope()).candidates] == [memory.id]
        assert store.stats()["changesets"] == 2
        assert store.domain.counts() == {**dict.fromkeys(TABLES, 0), "thresholds": 1}
