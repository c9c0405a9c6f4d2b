"""What every Inbox must do, that of the fake too: every sentence of the port, as a test. Give a `store` fixture."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from cofio.errors import Conflict, InvalidInput, NotFound, StoreError, TooBusy
from cofio.models.exchange import SETTLED, Exchange, Item, ItemResolution, Message, Receipt, State
from cofio.models.memory import Add, Changeset, Delete, Edit, Fact, Noop, Purge, Restore, Update, to_utc_iso
from cofio.ports import Inbox, Settles, Store
from tests.stores.contract import EVERYTHING, add, apply, everything

FOR_EVER = "2100-01-01T00:00:00Z"


def said(text: str = "We use tabs", turn: str = "", **about: Any) -> Exchange:
    named = {"client": "cc", **about} if turn else about
    return Exchange(messages=(Message("user", text), Message("assistant", "Noted.")), turn=turn, **named)


def receive(store: Store, *texts: str, **how: Any) -> list[int]:
    return [receipt.id for receipt in store.inbox.receive([said(text) for text in texts], **how)]


def ending(item: int, state: State = "stored", **more: Any) -> ItemResolution:
    return ItemResolution(item=item, state=state, **more)


def settling(item: int, state: State = "stored", **more: Any) -> Settles:
    return lambda _: ending(item, state, **more)


def learn(store: Store, item: int, *texts: str) -> Changeset:
    """Keep these facts, and settle the item by it."""
    return apply(store, *(Add(Fact(text=text)) for text in texts), settles=settling(item))


def texts(items: list[Item]) -> list[str]:
    return [item.exchange.messages[0].text if item.exchange else "" for item in items]


class InboxContract:
    """The suite."""

    # ── receiving ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_new_inbox_is_empty(self, store: Store) -> None:
        assert store.inbox.items() == store.inbox.due(10) == []
        assert store.inbox.receive([]) == []
        inbox_status = store.inbox.status()
        assert (inbox_status.captured, inbox_status.pending, inbox_status.oldest, dict(inbox_status.reasons)) == (
            0,
            0,
            None,
            {},
        )

    def test_what_is_received_comes_back_with_every_field(self, store: Store) -> None:
        exchange = Exchange(
            messages=(Message("user", 'We "use"\ttabs – «тест» 🌊\n'), Message("assistant", "")),
            source="codex/finwatch",
            project="/srv/finwatch",
            context="pre_compact",
            client="codex",
            session="s-1",
            turn="t-1",
            agent="agent-1",
            visibility="team",
            at="2025-02-20T06:44:28Z",
            injected=("the zebra stays",),
        )
        (receipt,) = store.inbox.receive([exchange], task="extract")
        item = store.inbox.item(receipt.id)
        assert item == Item(
            id=receipt.id, task="extract", state="pending", exchange=exchange, received_at=item.received_at,
            due_at=item.received_at,
        )  # fmt: skip
        assert item.received_at == to_utc_iso(item.received_at)  # of one width, so that it sorts

    def test_captures_of_a_backfill_are_given_out_after_live_ones(self, store: Store) -> None:
        exchanges = [said("old", series=7), said("older", series=7), said("live"), said("later", series=9)]
        store.inbox.receive(exchanges)
        assert texts(store.inbox.due(10)) == ["live", "old", "older", "later"]
        assert texts(store.inbox.due(1)) == texts(store.inbox.claim(1)) == ["live"]

    def test_a_turn_of_a_backfill_that_is_told_live_too_is_given_out_as_live(self, store: Store) -> None:
        store.inbox.receive([said("old", series=7), said("both", "1", series=7)])
        store.inbox.amend(Exchange(messages=(Message("user", "both and more"),), client="cc", turn="1"))
        assert [item.exchange.series for item in store.inbox.due(10) if item.exchange] == [0, 7]

    def test_what_does_not_say_when_it_was_said_was_said_when_it_came(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        item = store.inbox.item(number)
        assert item.exchange
        assert item.exchange.at == item.received_at

    def test_every_exchange_has_a_receipt_in_its_order(self, store: Store) -> None:
        numbers = receive(store, *(f"number {place}" for place in range(20)))
        assert numbers == sorted(set(numbers))
        assert texts([store.inbox.item(number) for number in numbers]) == [f"number {place}" for place in range(20)]

    def test_a_turn_that_is_delivered_twice_is_kept_once(self, store: Store) -> None:
        first = said("We use tabs", "t1", client="cc", session="s")
        (kept,) = store.inbox.receive([first])
        assert kept.new
        assert store.inbox.receive([said("in other words", "t1", client="cc", session="s")]) == [
            Receipt(kept.id, False)
        ]
        again, new, twice = store.inbox.receive([first, *[said("new", "t2", client="cc", session="s")] * 2])
        assert again == Receipt(kept.id, False)
        assert (new.new, twice) == (True, Receipt(new.id, False))
        assert store.inbox.status().captured == 2
        assert texts([store.inbox.item(kept.id)]) == ["We use tabs"]

    def test_a_turn_stays_known_when_it_is_settled_and_forgotten(self, store: Store) -> None:
        (kept,) = store.inbox.receive([said(turn="t1")])
        store.inbox.settle(ending(kept.id, "rejected"))
        store.inbox.forget(FOR_EVER)
        assert store.inbox.receive([said(turn="t1")]) == [Receipt(kept.id, False)]

    def test_the_same_turn_of_another_client_or_session_is_another(self, store: Store) -> None:
        places = [("cc", "s"), ("codex", "s"), ("cc", "s2"), ("", "")]
        receipts = store.inbox.receive([said(turn="t1", client=client, session=session) for client, session in places])
        assert all(receipt.new for receipt in receipts)

    def test_an_exchange_without_a_turn_is_always_new(self, store: Store) -> None:
        receipts = store.inbox.receive([said(client="cc", session="s")] * 3)
        assert all(receipt.new for receipt in receipts)
        assert store.inbox.status().captured == 3

    def test_when_enough_is_waiting_nothing_more_is_kept(self, store: Store) -> None:
        receive(store, "one", "two")
        assert len(receive(store, "three", "four", most=3)) == 2  # it is not full before
        with pytest.raises(TooBusy, match="Try again in a moment"):
            receive(store, "five", most=4)
        with pytest.raises(TooBusy):
            receive(store, "five", most=0)
        assert store.inbox.status().captured == 4
        assert receive(store, "five", most=5)
        assert receive(store, "six")  # whoever sets no limit has none

    def test_a_turn_that_came_before_is_answered_even_when_enough_is_waiting(self, store: Store) -> None:
        (kept,) = store.inbox.receive([said(turn="t1")])
        assert store.inbox.receive([said(turn="t1")], most=1) == [Receipt(kept.id, False)]
        with pytest.raises(TooBusy):
            store.inbox.receive([said(turn="t1"), said(turn="t2")], most=1)
        assert store.inbox.status().captured == 1

    def test_what_is_parked_or_settled_is_not_waiting(self, store: Store) -> None:
        parked, settled = receive(store, "parked", "settled")
        store.inbox.park(parked, "odd")
        store.inbox.settle(ending(settled))
        assert receive(store, "next", most=1)
        with pytest.raises(TooBusy):
            receive(store, "too many", most=1)

    def test_what_is_held_is_not_given_out_meanwhile(self, store: Store) -> None:
        (held,) = receive(store, "held", hold=5)
        (free,) = receive(store, "free")
        assert [item.id for item in store.inbox.due(10)] == [free]
        assert store.inbox.item(held).state == "pending"
        looks = [[item.id for item in store.inbox.due(10)] for _ in range(10)]  # the clock moves a second a look
        assert looks[0] == [free]
        assert looks[-1] == [held, free]

    def test_an_exchange_that_no_store_can_keep_is_refused_whole(self, store: Store) -> None:
        with pytest.raises(InvalidInput, match="surrogate"):
            store.inbox.receive([said("fine"), said("half \ud800 of a pair")])
        assert store.inbox.status().captured == 0

    def test_threads_that_deliver_at_once_each_get_their_own(self, store: Store) -> None:
        kept: dict[str, int] = {}
        start = threading.Barrier(16)

        def deliver(name: int) -> None:
            start.wait()
            for place in range(10):
                batch = [said(f"{name}.{place}.{part}", f"{name}.{place}.{part}") for part in range(2)]
                receipts = store.inbox.receive([*batch, said("everybody's", f"everybody's {place}")], most=10_000)
                kept.update({each.turn: receipt.id for each, receipt in zip(batch, receipts, strict=False)})

        threads = [threading.Thread(target=deliver, args=(name,)) for name in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        items = store.inbox.items(limit=1_000)
        assert len(items) == store.inbox.status().captured == 16 * 10 * 2 + 10
        by_turn = {item.exchange.turn: item.id for item in items if item.exchange}
        assert len(by_turn) == len(items)
        assert kept.items() <= by_turn.items()
        assert all(kept[f"{n}.{p}.0"] < kept[f"{n}.{p}.1"] for n in range(16) for p in range(10))

    # ── giving out ────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_what_is_due_comes_oldest_first(self, store: Store) -> None:
        one, two, three = receive(store, "one", "two", "three")
        store.inbox.postpone(one, 0, "a hiccup")  # due later than the others, but older
        assert [item.id for item in store.inbox.due(10)] == [one, two, three]
        assert [item.id for item in store.inbox.due(2)] == [one, two]

    def test_what_is_given_out_stays_until_it_is_settled(self, store: Store) -> None:
        (number,) = receive(store, "once")
        assert store.inbox.due(10) == store.inbox.due(10) == [store.inbox.item(number)]

    def test_a_postponed_item_counts_the_attempt_and_comes_again_later(self, store: Store) -> None:
        (number,) = receive(store, "later")
        store.inbox.postpone(number, 4, "The model is away")
        item = store.inbox.item(number)
        assert (item.state, item.attempts, item.reason) == ("pending", 1, "The model is away")
        assert item.due_at > item.received_at
        assert store.inbox.due(10) == []
        looks = [store.inbox.due(10) for _ in range(10)]
        assert looks[-1] == [item]
        store.inbox.postpone(number, 1, "Still away")
        assert store.inbox.item(number).attempts == 2

    def test_a_time_to_wait_that_is_none_is_refused(self, store: Store) -> None:
        (number,) = receive(store, "later")
        for seconds in (float("nan"), float("inf"), 1e300):
            with pytest.raises(InvalidInput, match="seconds"):
                store.inbox.postpone(number, seconds, "")
            with pytest.raises(InvalidInput, match="seconds"):
                receive(store, "never", hold=seconds)
        assert store.inbox.status().captured == 1
        assert store.inbox.item(number).attempts == 0

    def test_a_parked_item_waits_for_a_person_and_is_counted_as_pending(self, store: Store) -> None:
        parked, other = receive(store, "odd", "even")
        store.inbox.park(parked, "Nothing usable came back")
        assert [item.id for item in store.inbox.due(10)] == [other]
        item = store.inbox.item(parked)
        assert (item.state, item.reason, item.finished_at) == ("parked", "Nothing usable came back", None)
        assert texts([item]) == ["odd"]
        inbox_status = store.inbox.status()
        assert (inbox_status.pending, inbox_status.parked) == (2, 1)

    def test_what_is_retried_is_as_new(self, store: Store) -> None:
        parked, rejected = receive(store, "parked", "rejected")
        store.inbox.postpone(parked, 100, "first")
        store.inbox.park(parked, "second")
        store.inbox.settle(ending(rejected, "rejected", reason="Small talk", result={"actions": []}))
        for number, text in ((parked, "parked"), (rejected, "rejected")):
            item = store.inbox.retry(number)
            assert item == store.inbox.item(number)
            assert (item.state, item.attempts, item.reason) == ("pending", 0, "")
            assert (dict(item.result), item.finished_at, item.changeset) == ({}, None, None)
            assert texts([item]) == [text]
        assert [item.id for item in store.inbox.due(10)] == [parked, rejected]
        assert store.inbox.status().pending == 2

    def test_what_is_stored_merged_or_pending_is_not_retried(self, store: Store) -> None:
        stored, merged, pending = receive(store, "a", "b", "c")
        store.inbox.settle(ending(stored, "stored"))
        store.inbox.settle(ending(merged, "merged"))
        for number in (stored, merged, pending):
            before = store.inbox.item(number)
            with pytest.raises(Conflict):
                store.inbox.retry(number)
            assert store.inbox.item(number) == before

    def test_what_is_forgotten_is_not_retried_for_there_is_nothing_to_read(self, store: Store) -> None:
        (number,) = receive(store, "gone")
        store.inbox.settle(ending(number, "rejected"))
        store.inbox.forget(FOR_EVER)
        with pytest.raises(Conflict, match="forgotten"):
            store.inbox.retry(number)

    # ── settling ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("state", SETTLED)
    def test_a_settled_item_says_how_why_and_when(self, store: Store, state: State) -> None:
        (number,) = receive(store, "We use tabs")
        store.inbox.settle(ending(number, state, reason="Said before", result={"actions": [{"text": "«тест» 🌊"}]}))
        item = store.inbox.item(number)
        assert (item.state, item.reason, item.changeset) == (state, "Said before", None)
        assert item.result == {"actions": [{"text": "«тест» 🌊"}]}
        assert item.finished_at
        assert item.finished_at > item.received_at
        assert store.inbox.due(10) == []

    def test_what_is_not_pending_is_not_worked_on(self, store: Store) -> None:
        parked, settled = receive(store, "parked", "settled")
        store.inbox.park(parked, "odd")
        store.inbox.settle(ending(settled, "rejected", reason="Small talk"))
        for number, why in ((parked, "is parked"), (settled, f"Item {settled} is already processed")):
            before = store.inbox.item(number)
            with pytest.raises(Conflict, match=why):
                store.inbox.settle(ending(number))
            with pytest.raises(Conflict, match=why):
                store.inbox.postpone(number, 1, "again")
            with pytest.raises(Conflict, match=why):
                store.inbox.park(number, "again")
            assert store.inbox.item(number) == before

    def test_an_item_ends_as_one_of_the_settled_states_alone(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        for state in ("parked", "lost"):
            with pytest.raises(InvalidInput, match="cannot end"):
                store.inbox.settle(ending(number, state))  # type: ignore[arg-type]
        assert store.inbox.item(number).state == "pending"

    def test_an_item_that_got_halfway_stays_pending_with_what_it_got_to(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        done = apply(store, Add(Fact(text="We use tabs")), settles=settling(number, "pending"))
        item = store.inbox.item(number)
        assert (item.state, item.changeset, item.finished_at) == ("pending", done.id, None)
        assert item.result["changeset"] == done.id
        store.inbox.settle(ending(number, "stored", result=item.result))
        assert store.inbox.item(number).changeset == done.id
        assert store.inbox.status().stored == 1

    def test_what_is_parked_halfway_goes_on_from_there(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        apply(store, Add(Fact(text="We use tabs")), settles=settling(number, "pending"))
        store.inbox.park(number, "too often")
        assert store.inbox.retry(number).result["changeset"]

    def test_a_postponed_item_may_have_no_attempt_counted(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        store.inbox.postpone(number, 3_600, "The daily limit is reached", attempt=False)
        item = store.inbox.item(number)
        assert (item.state, item.attempts, item.faults, item.reason) == ("pending", 0, 0, "The daily limit is reached")
        assert store.inbox.due(10) == []

    def test_faults_are_counted_apart_from_attempts(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        store.inbox.postpone(number, 0, "down")
        store.inbox.postpone(number, 0, "unreadable", fault=True)
        assert (store.inbox.item(number).attempts, store.inbox.item(number).faults) == (2, 1)
        store.inbox.park(number, "unreadable")
        assert store.inbox.retry(number).faults == 0

    def test_a_turn_is_known_for_its_task_and_not_by_its_number_alone(self, store: Store) -> None:
        turn = said("We use tabs", "1")
        first = store.inbox.receive([turn])[0]
        assert store.inbox.receive([turn], task="extract")[0].new
        assert store.inbox.receive([turn])[0] == Receipt(first.id, False)
        alone = Exchange(messages=turn.messages, turn="1")
        assert all(store.inbox.receive([alone])[0].new for _ in range(2))

    def test_no_reply_of_a_model_keeps_an_item_from_being_settled(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        store.inbox.postpone(number, 0, "half \ud800 of a pair")
        store.inbox.settle(ending(number, reason="\ud800", result={"actions": ({"text": "\udfff"},)}))
        assert store.inbox.item(number).result == {"actions": [{"text": "?"}]}

    @pytest.mark.parametrize("unknown", [-1, 0, 999, 1 << 80])
    def test_unknown_items_are_not_found(self, store: Store, unknown: int) -> None:
        receive(store, "something")
        inbox = store.inbox
        for attempt in (
            lambda: inbox.item(unknown),
            lambda: inbox.retry(unknown),
            lambda: inbox.park(unknown, ""),
            lambda: inbox.postpone(unknown, 1, ""),
            lambda: inbox.settle(ending(unknown)),
            lambda: learn(store, unknown, "never"),
        ):
            with pytest.raises(NotFound, match="no capture"):
                attempt()
        assert everything(store) == []

    # ── settled by a changeset ────────────────────────────────────────────────────────────────────────────────────────

    def test_an_item_is_settled_with_what_it_changed(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs and semicolons")
        told: list[Changeset] = []

        def settles(done: Changeset) -> ItemResolution:
            told.append(done)
            return ending(number, result={"ids": [change.memory_id for change in done.changes], "changeset": None})

        done = apply(store, Add(Fact(text="tabs")), Add(Fact(text="semicolons")), settles=settles)
        item = store.inbox.item(number)
        assert told == [done]
        assert (item.state, item.changeset, item.finished_at) == ("stored", done.id, done.at)
        assert item.result == {"ids": [change.memory_id for change in done.changes], "changeset": done.id}

    def test_the_item_is_found_that_a_changeset_settled(self, store: Store) -> None:
        first, second, third = receive(store, "one", "two", "three")
        done = learn(store, first, "a fact")
        other = learn(store, second, "another")
        by_hand = apply(store, Add(Fact(text="by hand")))
        store.inbox.settle(ending(third, "rejected"))
        found = [store.inbox.settled_by(each.id) for each in (done, other, by_hand)]
        assert found == [store.inbox.item(first), store.inbox.item(second), None]
        assert store.inbox.settled_by(999) is None
        store.inbox.forget(FOR_EVER)
        assert store.inbox.settled_by(done.id) is None

    def test_an_item_that_is_settled_later_is_found_by_what_it_had_changed(self, store: Store) -> None:
        [item] = receive(store, "one")
        done = apply(store, Add(Fact(text="a fact")), settles=settling(item, "pending"))
        assert store.inbox.settled_by(done.id) is None  # it goes on
        store.inbox.settle(ending(item, "stored"))
        assert store.inbox.settled_by(done.id) == store.inbox.item(item)

    def test_an_item_of_changes_that_fail_stays_as_it_was(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        before = store.inbox.item(number)
        with pytest.raises(NotFound):
            apply(store, Add(Fact(text="never")), Delete(999), settles=settling(number))
        assert store.inbox.item(number) == before
        assert everything(store) == []

    def test_a_settled_item_refuses_a_second_apply_which_then_changes_nothing(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        learn(store, number, "tabs")
        settled, memories = store.inbox.item(number), everything(store)
        with pytest.raises(Conflict, match=f"Item {number} is already processed"):
            apply(store, Edit(memories[0].id, {"text": "never"}), Add(Fact(text="never")), settles=settling(number))
        assert store.inbox.item(number) == settled
        assert everything(store) == memories
        assert len(store.changesets(10)) == 1
        assert store.matching(["never"], 5, EVERYTHING).candidates == ()

    def test_what_cannot_be_told_of_the_changes_undoes_them(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        with pytest.raises(ZeroDivisionError):
            apply(store, Add(Fact(text="never")), settles=lambda _: ending(number, result={"x": 1 // 0}))
        assert everything(store) == []
        assert store.inbox.item(number).state == "pending"

    # ── looking ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_items_come_newest_first_by_state_and_page_by_page(self, store: Store) -> None:
        numbers = receive(store, *(f"number {place}" for place in range(7)))
        for number in numbers[::2]:
            store.inbox.settle(ending(number, "rejected"))
        assert [item.id for item in store.inbox.items()] == numbers[::-1]
        assert [item.id for item in store.inbox.items("rejected")] == numbers[::-2]
        assert [item.id for item in store.inbox.items("pending", limit=2)] == [numbers[5], numbers[3]]
        assert [item.id for item in store.inbox.items("pending", limit=2, after=numbers[3])] == [numbers[1]]
        assert store.inbox.items("stored") == []
        seen: list[int] = []
        while page := store.inbox.items(limit=3, after=seen[-1] if seen else None):
            seen += [item.id for item in page]
        assert seen == numbers[::-1]

    def test_status_counts_every_capture_once(self, store: Store) -> None:
        numbers = receive(store, *"abcdefg")
        oldest = store.inbox.item(numbers[0]).received_at
        assert store.inbox.status().oldest == oldest
        learn(store, numbers[0], "a")
        store.inbox.settle(ending(numbers[1], "merged", reason="Said before"))
        store.inbox.settle(ending(numbers[2], "rejected", reason="Small talk"))
        store.inbox.settle(ending(numbers[3], "rejected", reason="Small talk"))
        store.inbox.settle(ending(numbers[4], "rejected", reason="A question"))
        store.inbox.park(numbers[5], "odd")
        inbox_status = store.inbox.status()
        assert inbox_status.balanced
        assert (inbox_status.captured, inbox_status.stored, inbox_status.merged, inbox_status.rejected) == (7, 1, 1, 3)
        assert (inbox_status.pending, inbox_status.parked, store.stats()["inbox_pending"]) == (2, 1, 1)
        assert inbox_status.reasons == {"Small talk": 2, "A question": 1}
        assert inbox_status.oldest == store.inbox.item(numbers[5]).received_at
        store.inbox.settle(ending(numbers[6]))
        assert store.inbox.status().oldest == store.inbox.item(numbers[5]).received_at

    def test_the_rarest_reasons_are_summed_up(self, store: Store) -> None:
        reasons = [f"reason {place:02}" for place in range(25) for _ in range(25 - place)]
        for number, reason in zip(receive(store, *reasons), reasons, strict=True):
            store.inbox.settle(ending(number, "rejected", reason=reason))
        told = store.inbox.status().reasons
        assert len(told) == 21
        assert told["reason 00"] == 25
        assert told["other"] == 5 + 4 + 3 + 2 + 1
        assert sum(told.values()) == len(reasons)

    # ── forgetting ────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_words_are_forgotten_and_the_count_is_kept(self, store: Store) -> None:
        old, parked, pending = receive(store, "old", "parked", "pending")
        store.inbox.settle(ending(old, "rejected", reason="Small talk", result={"actions": []}))
        store.inbox.park(parked, "odd")
        finished = store.inbox.item(old).finished_at
        assert finished
        (new,) = receive(store, "new")
        learn(store, new, "new")
        before = store.inbox.status()
        assert store.inbox.forget(finished) == 0  # not before that time, but at it
        later = store.inbox.item(new).finished_at
        assert later
        assert store.inbox.forget(later) == 1
        item = store.inbox.item(old)
        assert (item.exchange, dict(item.result), item.state, item.reason) == (None, {}, "rejected", "Small talk")
        assert texts([store.inbox.item(each) for each in (parked, pending, new)]) == ["parked", "pending", "new"]
        assert store.inbox.forget(FOR_EVER) == 1
        assert store.inbox.forget(FOR_EVER) == 0
        assert store.inbox.status() == before
        assert texts(store.inbox.items()) == ["", "pending", "parked", ""]

    def test_a_time_that_is_none_forgets_nothing(self, store: Store) -> None:
        (number,) = receive(store, "kept")
        store.inbox.settle(ending(number))
        with pytest.raises(InvalidInput, match="not a time"):
            store.inbox.forget("yesterday")
        assert texts([store.inbox.item(number)]) == ["kept"]

    # ── erasing ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_purge_forgets_the_captures_that_led_to_the_memory(self, store: Store) -> None:
        first, again, other = receive(store, "he likes quixotic food", "as I said", "the zebra stays")
        memory = learn(store, first, "Likes quixotic food").changes[0].memory
        apply(store, Noop(memory.id), settles=settling(again, "merged", reason="Likes quixotic food, said before"))
        learn(store, other, "the zebra stays")
        apply(store, Purge(memory.id))
        assert texts([store.inbox.item(each) for each in (first, again, other)]) == ["", "", "the zebra stays"]
        assert "quixotic" not in repr([store.inbox.item(first), store.inbox.item(again)])
        assert store.inbox.status().balanced

    def test_a_purge_forgets_what_was_settled_and_says_the_same(self, store: Store) -> None:
        memory = add(store, 'The "key"\tis hunter2', context="What is the key?")
        apply(store, Edit(memory.id, {"text": "The key is hunter3"}))
        saying = receive(
            store, 'Hear: The "key"\tis hunter2!', "The key is hunter3", "What is the key? Forty-two", "The zebra stays"
        )
        (told,) = receive(store, "only the result says it")
        for number in saying:
            store.inbox.settle(ending(number, "rejected", reason="Small talk"))
        result = {"actions": [{"text": "The key is hunter3"}]}
        store.inbox.settle(ending(told, "rejected", reason="Left: The key is hunter3", result=result))
        apply(store, Purge(memory.id))
        assert texts([store.inbox.item(each) for each in saying]) == ["", "", "", "The zebra stays"]
        assert "hunter" not in repr(store.inbox.items())
        assert store.inbox.status().reasons == {"Small talk": 4, "": 1}

    def test_a_purge_leaves_the_words_of_the_memory_that_was_replaced(self, store: Store) -> None:
        (told,) = receive(store, "Tea is served at four")
        old = learn(store, told, "Tea is served at four").changes[0].memory
        fact = Fact(text="It moved to five", context=old.text)
        new = apply(store, Update(old.id, fact)).changes[0].memory
        apply(store, Purge(new.id))
        assert texts([store.inbox.item(told)]) == ["Tea is served at four"]
        replaced = apply(store, Restore(old.id), Update(old.id, fact)).changes[1].memory
        assert store.get([replaced.id])[0].context == old.text
        apply(store, Purge(old.id))
        assert store.get([replaced.id])[0].context == ""
        assert texts([store.inbox.item(told)]) == [""]

    def test_a_purge_cuts_its_words_out_of_what_is_still_to_be_read_and_keeps_the_rest(self, store: Store) -> None:
        memory = add(store, "The key is hunter2")
        known = said("Note: The key is hunter2. We use tabs.", injected=("The key is hunter2", "We use tabs"))
        pending, parked = (receipt.id for receipt in store.inbox.receive([known, known]))
        (other,) = receive(store, "The key is hunter22")
        store.inbox.park(parked, "odd")
        store.inbox.postpone(pending, 0, "The model said: The key is hunter2")
        apply(store, Purge(memory.id))
        for number in (pending, parked):
            exchange = store.inbox.item(number).exchange
            assert exchange
            assert exchange.messages[0].text == "Note: . We use tabs."
            assert exchange.injected == ("", "We use tabs")
        assert store.inbox.item(pending).reason == ""
        assert texts([store.inbox.item(other)]) == ["The key is hunter22"]  # another word
        assert [item.id for item in store.inbox.due(10)] == [pending, other]

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_closed_inbox_says_so(self, store: Store) -> None:
        (number,) = receive(store, "something")
        inbox: Inbox = store.inbox
        store.close()
        for attempt in (
            lambda: inbox.receive([said()]),
            lambda: inbox.due(1),
            lambda: inbox.item(number),
            lambda: inbox.settle(ending(number)),
            inbox.status,
        ):
            with pytest.raises(StoreError, match="closed"):
                attempt()
