"""What every Store must do with domain knowledge. Subclass it with a `store` fixture that gives an empty store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cofio.errors import Conflict, InvalidInput, NotFound
from cofio.models.domain_knowledge import (
    ANY,
    TABLES,
    Correlation,
    DeleteRow,
    Feedback,
    Knowledge,
    KnowledgeChange,
    Pattern,
    PurgeRow,
    PutRow,
    RevertRow,
    RowDecision,
    Seasonal,
    Threshold,
    sees,
)
from cofio.models.exchange import ItemResolution
from cofio.models.memory import Add, Changeset, Fact, Scope, Viewer
from cofio.ports import Store
from tests.stores.contract import add, everything
from tests.stores.inbox_contract import ending, receive

ADA, BOB = Viewer(user="ada", team="web"), Viewer(user="bob", team="ops")


def know(store: Store, *decisions: RowDecision | Knowledge, why: str = "", **more: Any) -> Changeset:
    """Apply decisions about what is known; a row stands for putting it."""
    asked = [PutRow(decision) if isinstance(decision, Knowledge) else decision for decision in decisions]
    return store.apply([], {}, by="test", why=why, knowledge=asked, **more)


def put(store: Store, known: Knowledge) -> Knowledge:
    """The row as it is kept."""
    after = know(store, known).knowledge[0].after
    assert after is not None
    return after


def take_back(store: Store, changeset: int) -> Changeset:
    lines = reversed(store.changeset(changeset).knowledge)
    return know(store, *(RevertRow(line.id) for line in lines), undoes=changeset)


def all_known(store: Store) -> dict[str, list[Knowledge]]:
    return {table: store.domain.rows(table) for table in TABLES}


def volume(value: float = 5e6, **about: Any) -> Threshold:
    return Threshold(**{"source": "AAPL", "metric": "volume", "direction": "above", **about, "value": value})


def ids(found: list[Knowledge]) -> list[str]:
    return [known.id for known in found]


OF_EACH = (
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


class DomainContract:
    """The suite."""

    # ── putting ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("known", OF_EACH, ids=lambda known: known.TABLE)
    def test_what_is_put_is_there_with_every_field(self, store: Store, known: Knowledge) -> None:
        done = know(store, known, why="said so")
        kept = replace(known, created_at=done.at, updated_at=done.at)
        assert store.domain.get(known.TABLE, [known.id]) == [kept]
        assert store.domain.rows(known.TABLE) == [kept]
        (change,) = done.knowledge
        assert (change.action, change.table, change.key, change.ref) == ("add", known.TABLE, known.id, known.ref)
        assert (change.before, change.after, change.by, change.why) == (None, kept, "test", "said so")
        assert (change.changeset, change.at) == (done.id, done.at)
        assert change.id > 0
        assert store.domain.history(known.TABLE, known.id) == [change]
        assert store.changeset(done.id).knowledge == (change,)
        assert KnowledgeChange.from_dict(change.as_dict()) == change

    def test_an_empty_store_knows_nothing(self, store: Store) -> None:
        assert store.domain.counts() == dict.fromkeys(TABLES, 0)
        assert all_known(store) == {table: [] for table in TABLES}
        assert store.domain.naming(["aapl"]) == store.domain.stated_by([1]) == store.domain.get("patterns", ["a"]) == []

    def test_saying_it_again_changes_it_in_place_and_keeps_when_it_was_made(self, store: Store) -> None:
        first = put(store, volume(5e6))
        done = know(store, PutRow(volume(6e6, confidence=0.9), "raised"))
        (change,) = done.knowledge
        assert (change.action, change.before, change.reason) == ("update", first, "raised")
        assert change.after == replace(volume(6e6, confidence=0.9), created_at=first.created_at, updated_at=done.at)
        assert done.at > first.updated_at
        assert store.domain.rows("thresholds") == [change.after]
        assert [line.action for line in store.domain.history("thresholds", first.id)] == ["add", "update"]

    def test_the_same_again_changes_nothing_and_is_not_journalled(self, store: Store) -> None:
        first = put(store, volume())
        done = know(store, replace(volume(), created_at="2020-01-01", updated_at="2020-01-02"))
        (change,) = done.knowledge
        assert (change.id, change.action, change.before, change.after) == (0, "noop", first, first)
        assert store.domain.rows("thresholds") == [first]
        assert len(store.domain.history("thresholds", first.id)) == 1
        assert store.changeset(done.id).knowledge == ()

    def test_a_time_that_is_given_is_kept_when_it_is_new_and_not_afterwards(self, store: Store) -> None:
        old = replace(volume(), created_at="2020-01-01", updated_at="2020-01-02")
        kept = put(store, old)
        assert (kept.created_at[:10], kept.updated_at[:10]) == ("2020-01-01", "2020-01-02")
        done = know(store, replace(volume(7e6), created_at="2021-01-01", updated_at="2021-01-02"))
        (again,) = store.domain.rows("thresholds")
        assert (again.created_at, again.updated_at) == (kept.created_at, done.at)

    def test_an_id_is_of_its_table_alone(self, store: Store) -> None:
        one, other = Pattern(id="same", pattern="it rains"), Seasonal(id="same", pattern="it rains", period="daily")
        know(store, one, other)
        assert ids(store.domain.get("patterns", ["same"])) == ids(store.domain.get("seasonal", ["same"])) == ["same"]
        know(store, DeleteRow("patterns", "same"))
        assert store.domain.get("patterns", ["same"]) == []
        assert ids(store.domain.get("seasonal", ["same"])) == ["same"]
        assert [line.action for line in store.domain.history("seasonal", "same")] == ["add"]

    def test_ids_differ_by_case(self, store: Store) -> None:
        know(store, Pattern(id="a", pattern="one"), Pattern(id="A", pattern="two"))
        assert {known.id: known.says for known in store.domain.rows("patterns")} == {"a": "one", "A": "two"}

    @pytest.mark.parametrize("value", [0.0, -1.5, 1e300, 5e-324, -1.7976931348623157e308, 123456789.123456789, 1e15])
    def test_a_value_comes_back_to_the_last_bit(self, store: Store, value: float) -> None:
        known = put(store, volume(value))
        assert store.domain.rows("thresholds", where={"value": value}) == [known]
        know(store, volume(value, confidence=0.1))
        assert store.domain.history("thresholds", known.id)[1].before == known

    def test_several_are_done_in_order_in_one_changeset(self, store: Store) -> None:
        done = know(
            store, volume(1), volume(2), DeleteRow("thresholds", volume().id), volume(3), Pattern(pattern="it rains")
        )
        assert [change.action for change in done.knowledge] == ["add", "update", "delete", "add", "add"]
        assert store.changeset(done.id).knowledge == done.knowledge
        assert [known.value for known in store.domain.rows("thresholds")] == [3]  # type: ignore[attr-defined]

    # ── beside memories ───────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_row_knows_the_memory_that_says_it(self, store: Store) -> None:
        decisions = [Add(Fact(text="hello")), Add(Fact(text="flag AAPL if volume exceeds 5M"))]
        done = store.apply(
            decisions, {}, by="test", why="", knowledge=[PutRow(volume(), stated_by=1), PutRow(Pattern(pattern="p"))]
        )
        row, other = (change.after for change in done.knowledge)
        assert isinstance(row, Threshold)
        assert isinstance(other, Pattern)
        assert (row.memory, other.memory) == (done.changes[1].memory_id, None)
        assert store.domain.stated_by([done.changes[1].memory_id]) == [row]
        assert store.domain.stated_by([done.changes[0].memory_id, 1 << 70]) == store.domain.stated_by([]) == []
        read = store.changeset(done.id)
        assert (read.changes, read.knowledge) == (done.changes, done.knowledge)

    def test_what_was_said_before_is_told_by_that_memory(self, store: Store) -> None:
        first = add(store, "flag AAPL if volume exceeds 5M")
        again = [Add(Fact(text="Flag AAPL if volume exceeds 5M"), unless_known=True)]
        done = store.apply(again, {}, by="test", why="", knowledge=[PutRow(volume(), stated_by=0)])
        assert ids(store.domain.stated_by([first.id])) == [done.knowledge[0].key]

    @pytest.mark.parametrize(
        ("decision", "error"),
        [
            (PutRow(volume(), stated_by=1), InvalidInput),
            (PutRow(volume(), stated_by=-1), InvalidInput),
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
    def test_what_cannot_be_done_leaves_all_as_it_was(
        self, store: Store, decision: RowDecision, error: type[Exception]
    ) -> None:
        kept = put(store, Pattern(pattern="it rains"))
        before = store.stats()["changesets"]
        with pytest.raises(error):
            store.apply(
                [Add(Fact(text="hello"))],
                {},
                by="test",
                why="",
                knowledge=[PutRow(volume(9)), DeleteRow("patterns", kept.id), decision],
            )
        assert everything(store) == []
        assert store.stats()["changesets"] == before
        assert all_known(store) == {table: [kept] if table == "patterns" else [] for table in TABLES}
        assert len(store.domain.history("patterns", kept.id)) == 1

    def test_an_item_of_the_inbox_is_settled_by_what_became_known(self, store: Store) -> None:
        item = receive(store, "flag AAPL if volume exceeds 5M")[0]
        seen: list[Changeset] = []

        def settles(done: Changeset) -> ItemResolution:
            seen.append(done)
            return ending(item, "stored")

        done = know(store, volume(), settles=settles)
        assert [each.knowledge for each in seen] == [done.knowledge]
        assert store.inbox.item(item).changeset == done.id

    # ── removing and taking back ──────────────────────────────────────────────────────────────────────────────────────

    def test_what_was_dropped_comes_back_as_it_was_and_goes_again(self, store: Store) -> None:
        know(store, *OF_EACH)
        before = all_known(store)
        dropped = know(store, *(DeleteRow(known.TABLE, known.id, "no more") for known in OF_EACH))
        assert [(line.action, line.after, line.reason) for line in dropped.knowledge] == [
            ("delete", None, "no more")
        ] * 5
        assert all_known(store) == {table: [] for table in TABLES}
        back = take_back(store, dropped.id)
        assert {line.action for line in back.knowledge} == {"revert"}
        assert [line.after for line in back.knowledge] == [line.before for line in reversed(dropped.knowledge)]
        assert all_known(store) == before
        assert ids(store.domain.naming(["aapl"])) == [volume().id]
        again = take_back(store, back.id)
        assert all_known(store) == {table: [] for table in TABLES}
        take_back(store, again.id)
        assert all_known(store) == before
        assert store.changeset(dropped.id).undone_by == back.id

    def test_taking_back_a_new_row_removes_it_and_an_old_one_becomes_what_it_was(self, store: Store) -> None:
        first = know(store, volume(1))
        second = know(store, volume(2, source="AAPL"), Pattern(pattern="it rains"))
        take_back(store, second.id)
        assert all_known(store)["thresholds"] == [first.knowledge[0].after]
        assert all_known(store)["patterns"] == []
        take_back(store, first.id)
        assert store.domain.counts() == dict.fromkeys(TABLES, 0)
        assert store.domain.naming(["aapl"]) == []
        actions = [line.action for line in store.domain.history("thresholds", volume().id)]
        assert actions == ["add", "update", "revert", "revert"]

    def test_what_was_changed_since_is_not_taken_back_and_the_later_changeset_is_named(self, store: Store) -> None:
        first, second = know(store, volume(1)), know(store, volume(2))
        third = know(store, DeleteRow("thresholds", volume().id))
        with pytest.raises(Conflict, match=rf"thresholds/aapl.volume.above .*changeset {second.id}"):
            take_back(store, first.id)
        with pytest.raises(Conflict, match=str(third.id)):
            take_back(store, second.id)
        assert store.domain.rows("thresholds") == []
        for done in (third, second, first):
            take_back(store, done.id)
        assert store.domain.rows("thresholds") == []

    def test_a_change_that_was_taken_back_is_not_in_the_way(self, store: Store) -> None:
        first, second = know(store, volume(1)), know(store, volume(2))
        take_back(store, second.id)
        take_back(store, first.id)
        assert store.domain.rows("thresholds") == []

    def test_a_changeset_is_taken_back_once(self, store: Store) -> None:
        done = know(store, volume())
        take_back(store, done.id)
        with pytest.raises(Conflict, match="undone already"):
            know(store, undoes=done.id)

    def test_history_tells_what_came_after_each_change(self, store: Store) -> None:
        know(store, volume(1))
        know(store, volume(2), Pattern(pattern="it rains"))
        know(store, DeleteRow("thresholds", volume().id))
        lines = store.domain.history("thresholds", volume().id)
        assert [getattr(line.after, "value", None) for line in lines] == [1, 2, None]
        assert [getattr(line.before, "value", None) for line in lines] == [None, 1, 2]
        told = [store.changeset(line.changeset).knowledge[0] for line in lines]
        assert told == lines

    def test_what_never_was_has_no_history(self, store: Store) -> None:
        for key in ("nowhere", "", "a\x00b", "\ud800"):
            with pytest.raises(NotFound):
                store.domain.history("thresholds", key)
        with pytest.raises(InvalidInput, match="no table"):
            store.domain.history("nothing", "a")  # type: ignore[arg-type]

    # ── erasing ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_what_is_erased_is_gone_from_the_journal_too(self, store: Store) -> None:
        know(store, PutRow(volume(1), "because of AAPL"))
        know(store, volume(2))
        done = know(store, PurgeRow("thresholds", volume().id, "AAPL wants it"))
        (change,) = done.knowledge
        assert (change.action, change.ref, change.before, change.after) == ("purge", volume().ref, None, None)
        assert store.domain.rows("thresholds") == store.domain.naming(["aapl"]) == []
        lines = store.domain.history("thresholds", volume().id)
        assert [(line.action, line.before, line.after, line.reason) for line in lines] == [
            (action, None, None, "") for action in ("add", "update", "purge")
        ]
        for line in lines:
            (told,) = store.changeset(line.changeset).knowledge
            assert "aapl" not in repr(told).lower()

    def test_an_erasure_is_for_good(self, store: Store) -> None:
        know(store, volume(1))
        second = know(store, volume(2), Pattern(pattern="it rains"))
        erased = know(store, PurgeRow("thresholds", volume().id))
        with pytest.raises(Conflict, match="purge"):
            take_back(store, erased.id)
        left = take_back(store, second.id)  # what is left of it is taken back
        assert [(line.action, line.table) for line in left.knowledge] == [("revert", "patterns")]
        assert store.domain.counts() == dict.fromkeys(TABLES, 0)

    def test_what_was_dropped_before_can_be_erased(self, store: Store) -> None:
        dropped = (know(store, volume()), know(store, DeleteRow("thresholds", volume().id)))[1]
        know(store, PurgeRow("thresholds", volume().id))
        assert [line.before for line in store.domain.history("thresholds", volume().id)] == [None, None, None]
        assert take_back(store, dropped.id).knowledge == ()
        with pytest.raises(NotFound):
            know(store, PurgeRow("thresholds", volume().id))  # nothing of it is left

    def test_what_was_erased_can_be_said_anew_and_has_nothing_to_do_with_it(self, store: Store) -> None:
        old = know(store, volume(1))
        know(store, PurgeRow("thresholds", volume().id))
        new = know(store, volume(2))
        assert take_back(store, old.id).knowledge == ()
        assert [known.value for known in store.domain.rows("thresholds")] == [2]  # type: ignore[attr-defined]
        lines = store.domain.history("thresholds", volume().id)
        assert [(line.action, getattr(line.after, "value", None)) for line in lines] == [
            ("add", None),
            ("purge", None),
            ("add", 2),
        ]
        assert {line.key for line in lines} == {volume().id}
        take_back(store, new.id)
        assert store.domain.rows("thresholds") == []
        know(store, PurgeRow("thresholds", volume().id))
        assert {line.after for line in store.domain.history("thresholds", volume().id)} == {None}

    def test_an_erased_claim_is_named_by_no_verdict_any_more(self, store: Store) -> None:
        verdict = Feedback(anomaly="x", verdict="confirmed", about=("patterns/p", volume().ref, "seasonal/s"))
        know(store, volume(), verdict)
        judged = know(store, replace(verdict, processed=True))
        know(store, PurgeRow("thresholds", volume().id))
        (left,) = store.domain.rows("feedback")
        assert isinstance(left, Feedback)
        assert left.about == ("patterns/p", "seasonal/s")
        assert volume().id not in repr(store.domain.history("feedback", verdict.id))
        take_back(store, judged.id)
        assert store.domain.rows("feedback", where={"processed": False, "about": ["seasonal/s", "patterns/p"]})

    # ── finding ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_rows_come_in_the_order_asked_and_unknown_ones_are_passed_over(self, store: Store) -> None:
        know(store, *(Pattern(id=key, pattern=key) for key in "abc"))
        odd = ["c", "x", "a", "", "a\x00", "\ud800", "A", "a" * 5_000]
        assert ids(store.domain.get("patterns", odd)) == ["c", "a"]
        assert store.domain.get("patterns", []) == store.domain.get("seasonal", ["a"]) == []
        with pytest.raises(InvalidInput, match="no table"):
            store.domain.get("nothing", ["a"])  # type: ignore[arg-type]

    def test_claims_are_sorted_by_confidence_and_then_by_id(self, store: Store) -> None:
        far_up = "𝔸"  # beyond what UTF-16 holds in one
        claims = {"b": 0.5, far_up: 0.5, "a": 0.5, "é": 0.5, "ｱ": 0.5, "Z": 0.5, "low": 0.1, "high": 1.0, "none": 0}
        for key, confidence in claims.items():
            know(store, Pattern(id=key, pattern=f"about {key}", confidence=confidence))
        assert ids(store.domain.rows("patterns")) == ["high", "Z", "a", "b", "é", "ｱ", far_up, "low", "none"]
        assert ids(store.domain.rows("patterns", least=0.5)) == ["high", "Z", "a", "b", "é", "ｱ", far_up]
        assert ids(store.domain.rows("patterns", least=1.0)) == ["high"]

    def test_verdicts_are_sorted_newest_first_and_have_no_confidence(self, store: Store) -> None:
        for name, at in (("old", "2026-01-01"), ("b", "2026-02-01"), ("a", "2026-02-01"), ("new", "2026-03-01")):
            know(store, Feedback(anomaly=name, verdict="note", created_at=at))
        know(store, Feedback(anomaly="old", verdict="confirmed"))  # changed, but as old as it was
        assert ids(store.domain.rows("feedback")) == ["new", "a", "b", "old"]
        assert ids(store.domain.rows("feedback", least=0.9)) == ["new", "a", "b", "old"]

    def test_a_page_follows_the_last_row_of_the_one_before(self, store: Store) -> None:
        know(store, *(Pattern(id=f"p{place}", pattern=f"p {place}", confidence=place % 3 / 2) for place in range(10)))
        know(store, *(Feedback(anomaly=f"f{place}", verdict="note") for place in range(4)))
        for table in ("patterns", "feedback"):
            whole = store.domain.rows(table)  # type: ignore[arg-type]
            paged: list[Knowledge] = []
            while page := store.domain.rows(table, limit=3, after=paged[-1].id if paged else None):  # type: ignore[arg-type]
                paged += page
            assert paged == whole
        where = {"source": ""}
        assert ids(store.domain.rows("patterns", least=0.5, where=where, after="p8", limit=2)) == ["p1", "p4"]
        assert store.domain.rows("patterns", limit=0) == []

    def test_a_page_after_what_is_gone_is_refused_with_a_hint(self, store: Store) -> None:
        know(store, Pattern(id="a", pattern="a"), Pattern(id="b", pattern="b", user="ada"))
        know(store, DeleteRow("patterns", "a"))
        for after, viewer in (("a", None), ("", None), ("a\x00", None), ("b", BOB)):
            with pytest.raises(InvalidInput, match="does not exist") as refused:
                store.domain.rows("patterns", after=after, viewer=viewer)
            assert refused.value.hint

    def test_rows_are_found_by_what_they_have_without_regard_to_case(self, store: Store) -> None:
        know(store, volume(), volume(source="MSFT"), volume(1, metric="Trade  Volume"), volume(2, source=ANY))
        know(store, volume(3, direction="below", inclusive=True, unit="Mio", memory=7, place="Acme", user="Ada"))
        find = lambda **where: sorted(  # noqa: E731
            known.value  # type: ignore[attr-defined]
            for known in store.domain.rows("thresholds", where=where)
        )
        assert find(source="aapl", metric="VOLUME") == [3, 5e6]
        assert find(source=" ａａｐｌ ") == [1, 3, 5e6]  # NFKC: full-width letters are letters
        assert find(metric="trade volume") == [1]
        assert find(source="*") == [2]
        assert find(source="aap") == find(source="%") == []
        assert find(value=5e6) == find(value=5_000_000) == [5e6, 5e6]
        assert find(direction=" Below ") == find(inclusive=True) == find(unit="mio") == find(memory=7) == [3]
        assert find(memory=None) == [1, 2, 5e6, 5e6]
        assert find(place="Acme") == find(user="Ada") == find(id=volume(direction="below", user="Ada").id) == [3]
        assert find(place="acme") == find(user="ada") == []  # whose it is says it exactly
        assert find(created_at=store.domain.rows("thresholds", where={"value": 2})[0].created_at) != []
        assert find(confidence=0.5, prior=0.5, confirmed=0, refuted=0, visibility="private", team="", agent="") != []

    def test_correlations_are_found_from_either_side(self, store: Store) -> None:
        know(store, Correlation(source_a="Gold", source_b="Dollar", rule="Gold falls", inverse=True))
        for where in ({"source_a": "gold"}, {"source_b": "DOLLAR"}, {"rule": "gold  FALLS"}, {"inverse": True}):
            assert len(store.domain.rows("correlations", where=where)) == 1
        assert store.domain.rows("correlations", where={"relation": "leads"}) == []

    def test_verdicts_are_found_by_what_they_judge(self, store: Store) -> None:
        know(store, Feedback(anomaly="One Two", verdict="false_alarm", about=("patterns/a", "patterns/b"), note="Nope"))
        know(store, Feedback(anomaly="three", verdict="confirmed", processed=True))
        for where in (
            {"about": "patterns/b"},
            {"about": ["patterns/b", "patterns/a"]},
            {"anomaly": "one two"},
            {"verdict": "False Alarm"},
            {"note": "NOPE"},
            {"processed": False},
        ):
            assert ids(store.domain.rows("feedback", where=where)) == ["one_two"]
        assert store.domain.rows("feedback", where={"about": "patterns/c"}) == []
        assert store.domain.rows("feedback", where={"about": ["patterns/a", "patterns/c"]}) == []

    def test_long_texts_are_told_apart_to_the_end(self, store: Store) -> None:
        texts = [f"{'long ' * 700}{end}" for end in ("one", "two")]
        know(store, *(Pattern(pattern=text, source="Ŝ" * 1_000 + text[-3:]) for text in texts))
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
    def test_what_a_table_cannot_have_is_refused_with_a_hint(self, store: Store, where: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput) as refused:
            store.domain.rows("patterns", where=where)
        assert refused.value.hint

    def test_a_bad_question_is_refused(self, store: Store) -> None:
        for asked in ({"least": 2}, {"least": -0.1}, {"limit": -1}, {"limit": 1.5}):
            with pytest.raises(InvalidInput):
                store.domain.rows("patterns", **asked)  # type: ignore[arg-type]
        for where in ({"processed": 1}, {"about": 5}, {"about": [None]}):
            with pytest.raises(InvalidInput, match=next(iter(where))):
                store.domain.rows("feedback", where=where)
        with pytest.raises(InvalidInput, match="no table"):
            store.domain.rows("memories")  # type: ignore[arg-type]

    def test_claims_are_found_by_a_word_of_their_names_the_surest_first(self, store: Store) -> None:
        know(
            store,
            Correlation(source_a="BTC price", source_b="ETH-price", rule="together", confidence=0.4),
            Threshold(source="BTC", metric="price", value=1, direction="above", confidence=0.9),
            Threshold(source=ANY, metric="Price", value=1, direction="below", confidence=0.2),
            Pattern(pattern="the price of BTC rises", confidence=1.0),  # names nothing
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

    def test_names_follow_the_row(self, store: Store) -> None:
        know(store, Pattern(id="p", pattern="it rains", source="Paris"))
        moved = know(store, Pattern(id="p", pattern="it rains", source="Rome"))
        assert (ids(store.domain.naming(["paris"])), ids(store.domain.naming(["rome"]))) == ([], ["p"])
        take_back(store, moved.id)
        assert (ids(store.domain.naming(["paris"])), ids(store.domain.naming(["rome"]))) == (["p"], [])
        know(store, DeleteRow("patterns", "p"))
        assert store.domain.naming(["paris", "rome"]) == []

    # ── who may see it ────────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_viewer_finds_what_they_may_see_and_nothing_else(self, store: Store) -> None:
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
        know(store, *rows)
        for viewer in (
            ADA,
            BOB,
            Viewer(agent="bot"),
            Viewer(user="ada", agent="bot", team="web"),
            Viewer(user="ada", team="web", prefixes=("acme/web",)),
            Viewer(agent="bot", prefixes=("acme/web/front", "other")),
        ):
            mine = sorted(known.id for known in rows if sees(viewer, known))
            assert ids(store.domain.rows("patterns", viewer=viewer)) == mine
            assert ids(store.domain.naming(["paris"], viewer=viewer)) == mine
            assert sorted(ids(store.domain.get("patterns", [known.id for known in rows], viewer=viewer))) == mine
            assert store.domain.counts(viewer=viewer) == {**dict.fromkeys(TABLES, 0), "patterns": len(mine)}
            assert 0 < len(mine) < len(rows)
            assert ids(store.domain.rows("patterns", viewer=viewer, limit=2, after=mine[0])) == mine[1:3]

    def test_the_changesets_of_a_scope_are_those_that_changed_what_may_be_seen(self, store: Store) -> None:
        hers = know(store, volume(user="ada"))
        his = know(store, Pattern(pattern="it rains", user="bob"))
        add(store, "hello", user="ada")
        gone = know(store, DeleteRow("thresholds", hers.knowledge[0].key))
        newest = [changeset.id for changeset in store.changesets(9)]
        assert newest == [gone.id, his.id + 1, his.id, hers.id]
        seen = [changeset.id for changeset in store.changesets(9, within=Scope(include_archived=True, viewer=ADA))]
        assert seen == [gone.id, his.id + 1, hers.id]
        seen = [changeset.id for changeset in store.changesets(9, within=Scope(viewer=BOB))]
        assert seen == [his.id]
        assert store.changesets(9, within=Scope(project="/srv/web", viewer=ADA)) == []
        assert store.changesets(9, within=Scope(category="decision")) == []
        assert all(changeset.knowledge == changeset.changes == () for changeset in store.changesets(9))

    # ── from store to store ───────────────────────────────────────────────────────────────────────────────────────────

    def test_rows_are_carried_in_the_order_of_their_ids(self, store: Store) -> None:
        know(store, *(Pattern(id=key, pattern=key, confidence=0.1) for key in ("b", "𝔸", "a", "é", "Z", "ｱ")))
        carrying, after, carried = store.snapshots, "", list[Knowledge]()
        while rows := carrying.knowledge("patterns", after, 2):
            carried, after = carried + rows, rows[-1].id
        assert ids(carried) == ["Z", "a", "b", "é", "ｱ", "𝔸"]
        assert sorted(carried, key=lambda known: known.id) == store.domain.rows("patterns")
        with carrying.snapshot() as still:
            know(store, Pattern(id="c", pattern="c"), DeleteRow("patterns", "a"))
            assert still.knowledge("patterns", "", 99) == carried
        assert ids(carrying.knowledge("patterns", "b", 99)) == ["c", "é", "ｱ", "𝔸"]
        with pytest.raises(InvalidInput, match="no table"):
            carrying.knowledge("nothing", "", 1)  # type: ignore[arg-type]

    # ── the rest goes on ──────────────────────────────────────────────────────────────────────────────────────────────

    def test_memories_are_found_while_knowledge_changes(self, store: Store) -> None:
        memory = add(store, "the zebra stays")
        know(store, volume())
        assert [candidate.id for candidate in store.matching(["zebra"], 5, Scope()).candidates] == [memory.id]
        assert store.stats()["changesets"] == 2
        assert store.domain.counts() == {**dict.fromkeys(TABLES, 0), "thresholds": 1}
