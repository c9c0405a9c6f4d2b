"""Contract suite of the Inbox port."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from cofio.errors import Conflict, InvalidInput, NotFound, StoreError, TooBusy
from cofio.models.exchange import SETTLED, Exchange, Item, ItemResolution, Message, Receipt, State
from cofio.models.memory import Add, Changeset, Delete, Edit, Fact, Noop, Purge, Restore, Update, to_utc_iso
from cofio.ports import Inbox, Settles, Store
from tests.stores.contract import EVERYTHING, add, apply, everything

FAR_FUTURE = "2100-01-01T00:00:00Z"


def make_exchange(text: str = "We use tabs", turn: str = "", **fields: Any) -> Exchange:
    fields_with_client = {"client": "cc", **fields} if turn else fields
    return Exchange(messages=(Message("user", text), Message("assistant", "Noted.")), turn=turn, **fields_with_client)


def receive(store: Store, *texts: str, **options: Any) -> list[int]:
    return [receipt.id for receipt in store.inbox.receive([make_exchange(text) for text in texts], **options)]


def resolution(item: int, state: State = "stored", **fields: Any) -> ItemResolution:
    return ItemResolution(item=item, state=state, **fields)


def resolve_with(item: int, state: State = "stored", **fields: Any) -> Settles:
    return lambda _: resolution(item, state, **fields)


def learn(store: Store, item: int, *texts: str) -> Changeset:
    """Add facts and resolve the item with that changeset."""
    return apply(store, *(Add(Fact(text=text)) for text in texts), settles=resolve_with(item))


def first_texts(items: list[Item]) -> list[str]:
    return [item.exchange.messages[0].text if item.exchange else "" for item in items]


class InboxContract:
    """Tests of receiving, claiming, resolving and forgetting captures. Subclasses define a `store` fixture."""

    # ── receiving ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_new_inbox_is_empty(self, store: Store) -> None:
        assert store.inbox.items() == store.inbox.due(10) == []
        assert store.inbox.receive([]) == []
        inbox_status = store.inbox.status()
        assert (inbox_status.captured, inbox_status.pending, inbox_status.oldest, dict(inbox_status.reasons)) == (
            0,
            0,
            None,
            {},
        )

    def test_received_exchange_is_returned_with_every_field(self, store: Store) -> None:
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
        assert item.received_at == to_utc_iso(item.received_at)  # fixed width, so that times sort as text

    def test_live_captures_are_due_before_backfill_captures(self, store: Store) -> None:
        exchanges = [
            make_exchange("old", series=7),
            make_exchange("older", series=7),
            make_exchange("live"),
            make_exchange("later", series=9),
        ]
        store.inbox.receive(exchanges)
        assert first_texts(store.inbox.due(10)) == ["live", "old", "older", "later"]
        assert first_texts(store.inbox.due(1)) == first_texts(store.inbox.claim(1)) == ["live"]

    def test_backfill_turn_that_is_also_live_is_due_as_live(self, store: Store) -> None:
        store.inbox.receive([make_exchange("old", series=7), make_exchange("both", "1", series=7)])
        store.inbox.amend(Exchange(messages=(Message("user", "both and more"),), client="cc", turn="1"))
        assert [item.exchange.series for item in store.inbox.due(10) if item.exchange] == [0, 7]

    def test_missing_time_defaults_to_time_of_receipt(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        item = store.inbox.item(number)
        assert item.exchange
        assert item.exchange.at == item.received_at

    def test_receipts_are_in_order_of_the_exchanges(self, store: Store) -> None:
        numbers = receive(store, *(f"number {index}" for index in range(20)))
        assert numbers == sorted(set(numbers))
        assert first_texts([store.inbox.item(number) for number in numbers]) == [
            f"number {index}" for index in range(20)
        ]

    def test_repeated_turn_is_stored_once(self, store: Store) -> None:
        first = make_exchange("We use tabs", "t1", client="cc", session="s")
        (kept,) = store.inbox.receive([first])
        assert kept.new
        assert store.inbox.receive([make_exchange("in other words", "t1", client="cc", session="s")]) == [
            Receipt(kept.id, False)
        ]
        again, new, twice = store.inbox.receive([first, *[make_exchange("new", "t2", client="cc", session="s")] * 2])
        assert again == Receipt(kept.id, False)
        assert (new.new, twice) == (True, Receipt(new.id, False))
        assert store.inbox.status().captured == 2
        assert first_texts([store.inbox.item(kept.id)]) == ["We use tabs"]

    def test_turn_stays_known_after_it_is_settled_and_forgotten(self, store: Store) -> None:
        (kept,) = store.inbox.receive([make_exchange(turn="t1")])
        store.inbox.settle(resolution(kept.id, "rejected"))
        store.inbox.forget(FAR_FUTURE)
        assert store.inbox.receive([make_exchange(turn="t1")]) == [Receipt(kept.id, False)]

    def test_same_turn_id_of_another_client_or_session_is_new(self, store: Store) -> None:
        places = [("cc", "s"), ("codex", "s"), ("cc", "s2"), ("", "")]
        receipts = store.inbox.receive(
            [make_exchange(turn="t1", client=client, session=session) for client, session in places]
        )
        assert all(receipt.new for receipt in receipts)

    def test_exchange_without_turn_id_is_always_new(self, store: Store) -> None:
        receipts = store.inbox.receive([make_exchange(client="cc", session="s")] * 3)
        assert all(receipt.new for receipt in receipts)
        assert store.inbox.status().captured == 3

    def test_full_inbox_rejects_new_exchanges(self, store: Store) -> None:
        receive(store, "one", "two")
        assert len(receive(store, "three", "four", most=3)) == 2  # not full before this call
        with pytest.raises(TooBusy, match="Try again in a moment"):
            receive(store, "five", most=4)
        with pytest.raises(TooBusy):
            receive(store, "five", most=0)
        assert store.inbox.status().captured == 4
        assert receive(store, "five", most=5)
        assert receive(store, "six")  # no limit by default

    def test_full_inbox_still_acknowledges_known_turns(self, store: Store) -> None:
        (kept,) = store.inbox.receive([make_exchange(turn="t1")])
        assert store.inbox.receive([make_exchange(turn="t1")], most=1) == [Receipt(kept.id, False)]
        with pytest.raises(TooBusy):
            store.inbox.receive([make_exchange(turn="t1"), make_exchange(turn="t2")], most=1)
        assert store.inbox.status().captured == 1

    def test_parked_and_settled_items_do_not_count_towards_the_limit(self, store: Store) -> None:
        parked, settled = receive(store, "parked", "settled")
        store.inbox.park(parked, "odd")
        store.inbox.settle(resolution(settled))
        assert receive(store, "next", most=1)
        with pytest.raises(TooBusy):
            receive(store, "too many", most=1)

    def test_held_item_is_not_due_until_the_hold_ends(self, store: Store) -> None:
        (held,) = receive(store, "held", hold=8)
        (free,) = receive(store, "free")
        assert [item.id for item in store.inbox.due(10)] == [free]
        assert store.inbox.item(held).state == "pending"
        looks = [
            [item.id for item in store.inbox.due(10)] for _ in range(10)
        ]  # each call advances the clock by a second or two
        assert looks[0] == [free]
        assert looks[-1] == [held, free]

    def test_batch_with_an_invalid_exchange_is_rejected_completely(self, store: Store) -> None:
        with pytest.raises(InvalidInput, match="surrogate"):
            store.inbox.receive([make_exchange("fine"), make_exchange("half \ud800 of a pair")])
        assert store.inbox.status().captured == 0

    def test_concurrent_deliveries_get_their_own_receipts(self, store: Store) -> None:
        stored: dict[str, int] = {}
        start = threading.Barrier(16)

        def deliver(name: int) -> None:
            start.wait()
            for index in range(10):
                batch = [make_exchange(f"{name}.{index}.{part}", f"{name}.{index}.{part}") for part in range(2)]
                receipts = store.inbox.receive(
                    [*batch, make_exchange("everybody's", f"everybody's {index}")], most=10_000
                )
                stored.update({each.turn: receipt.id for each, receipt in zip(batch, receipts, strict=False)})

        threads = [threading.Thread(target=deliver, args=(name,)) for name in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        items = store.inbox.items(limit=1_000)
        assert len(items) == store.inbox.status().captured == 16 * 10 * 2 + 10
        by_turn = {item.exchange.turn: item.id for item in items if item.exchange}
        assert len(by_turn) == len(items)
        assert stored.items() <= by_turn.items()
        assert all(stored[f"{n}.{p}.0"] < stored[f"{n}.{p}.1"] for n in range(16) for p in range(10))

    # ── due items ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_due_items_are_sorted_oldest_first(self, store: Store) -> None:
        first, second, third = receive(store, "one", "two", "three")
        store.inbox.postpone(first, 0, "a hiccup")  # due later than the others, but older
        assert [item.id for item in store.inbox.due(10)] == [first, second, third]
        assert [item.id for item in store.inbox.due(2)] == [first, second]

    def test_due_item_stays_due_until_settled(self, store: Store) -> None:
        (number,) = receive(store, "once")
        assert store.inbox.due(10) == store.inbox.due(10) == [store.inbox.item(number)]

    def test_postponed_item_counts_the_attempt_and_is_due_later(self, store: Store) -> None:
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

    def test_invalid_delay_is_rejected(self, store: Store) -> None:
        (number,) = receive(store, "later")
        for seconds in (float("nan"), float("inf"), 1e300):
            with pytest.raises(InvalidInput, match="seconds"):
                store.inbox.postpone(number, seconds, "")
            with pytest.raises(InvalidInput, match="seconds"):
                receive(store, "never", hold=seconds)
        assert store.inbox.status().captured == 1
        assert store.inbox.item(number).attempts == 0

    def test_parked_item_is_not_due_and_counts_as_parked(self, store: Store) -> None:
        parked, other = receive(store, "odd", "even")
        store.inbox.park(parked, "Nothing usable came back")
        assert [item.id for item in store.inbox.due(10)] == [other]
        item = store.inbox.item(parked)
        assert (item.state, item.reason, item.finished_at) == ("parked", "Nothing usable came back", None)
        assert first_texts([item]) == ["odd"]
        inbox_status = store.inbox.status()
        assert (inbox_status.pending, inbox_status.parked) == (2, 1)

    def test_retried_item_is_reset(self, store: Store) -> None:
        parked, rejected = receive(store, "parked", "rejected")
        store.inbox.postpone(parked, 100, "first")
        store.inbox.park(parked, "second")
        store.inbox.settle(resolution(rejected, "rejected", reason="Small talk", result={"actions": []}))
        for number, text in ((parked, "parked"), (rejected, "rejected")):
            item = store.inbox.retry(number)
            assert item == store.inbox.item(number)
            assert (item.state, item.attempts, item.reason) == ("pending", 0, "")
            assert (dict(item.result), item.finished_at, item.changeset) == ({}, None, None)
            assert first_texts([item]) == [text]
        assert [item.id for item in store.inbox.due(10)] == [parked, rejected]
        assert store.inbox.status().pending == 2

    def test_only_parked_and_rejected_items_can_be_retried(self, store: Store) -> None:
        stored, merged, pending = receive(store, "a", "b", "c")
        store.inbox.settle(resolution(stored, "stored"))
        store.inbox.settle(resolution(merged, "merged"))
        for number in (stored, merged, pending):
            before = store.inbox.item(number)
            with pytest.raises(Conflict):
                store.inbox.retry(number)
            assert store.inbox.item(number) == before

    def test_forgotten_item_cannot_be_retried(self, store: Store) -> None:
        (number,) = receive(store, "gone")
        store.inbox.settle(resolution(number, "rejected"))
        store.inbox.forget(FAR_FUTURE)
        with pytest.raises(Conflict, match="Its text was deleted"):
            store.inbox.retry(number)

    # ── settling ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("state", SETTLED)
    def test_settled_item_has_state_reason_and_time(self, store: Store, state: State) -> None:
        (number,) = receive(store, "We use tabs")
        store.inbox.settle(resolution(number, state, reason="Said before", result={"actions": [{"text": "«тест» 🌊"}]}))
        item = store.inbox.item(number)
        assert (item.state, item.reason, item.changeset) == (state, "Said before", None)
        assert item.result == {"actions": [{"text": "«тест» 🌊"}]}
        assert item.finished_at
        assert item.finished_at > item.received_at
        assert store.inbox.due(10) == []

    def test_items_that_are_not_pending_cannot_be_processed(self, store: Store) -> None:
        parked, settled = receive(store, "parked", "settled")
        store.inbox.park(parked, "odd")
        store.inbox.settle(resolution(settled, "rejected", reason="Small talk"))
        for number, why in ((parked, "is parked"), (settled, f"Capture {settled} is already processed")):
            before = store.inbox.item(number)
            with pytest.raises(Conflict, match=why):
                store.inbox.settle(resolution(number))
            with pytest.raises(Conflict, match=why):
                store.inbox.postpone(number, 1, "again")
            with pytest.raises(Conflict, match=why):
                store.inbox.park(number, "again")
            assert store.inbox.item(number) == before

    def test_item_can_be_settled_only_with_a_final_state(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        for state in ("parked", "lost"):
            with pytest.raises(InvalidInput, match="cannot end"):
                store.inbox.settle(resolution(number, state))  # type: ignore[arg-type]
        assert store.inbox.item(number).state == "pending"

    def test_partly_processed_item_stays_pending_with_its_result(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        result = apply(store, Add(Fact(text="We use tabs")), settles=resolve_with(number, "pending"))
        item = store.inbox.item(number)
        assert (item.state, item.changeset, item.finished_at) == ("pending", result.id, None)
        assert item.result["changeset"] == result.id
        store.inbox.settle(resolution(number, "stored", result=item.result))
        assert store.inbox.item(number).changeset == result.id
        assert store.inbox.status().stored == 1

    def test_parked_item_resumes_from_its_partial_result(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        apply(store, Add(Fact(text="We use tabs")), settles=resolve_with(number, "pending"))
        store.inbox.park(number, "too often")
        assert store.inbox.retry(number).result["changeset"]

    def test_item_can_be_postponed_without_counting_an_attempt(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        store.inbox.postpone(number, 3_600, "The daily limit is reached", attempt=False)
        item = store.inbox.item(number)
        assert (item.state, item.attempts, item.faults, item.reason) == ("pending", 0, 0, "The daily limit is reached")
        assert store.inbox.due(10) == []

    def test_faults_are_counted_separately_from_attempts(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        store.inbox.postpone(number, 0, "down")
        store.inbox.postpone(number, 0, "unreadable", fault=True)
        assert (store.inbox.item(number).attempts, store.inbox.item(number).faults) == (2, 1)
        store.inbox.park(number, "unreadable")
        assert store.inbox.retry(number).faults == 0

    def test_turn_is_identified_by_task_client_and_id(self, store: Store) -> None:
        turn = make_exchange("We use tabs", "1")
        first = store.inbox.receive([turn])[0]
        assert store.inbox.receive([turn], task="extract")[0].new
        assert store.inbox.receive([turn])[0] == Receipt(first.id, False)
        alone = Exchange(messages=turn.messages, turn="1")
        assert all(store.inbox.receive([alone])[0].new for _ in range(2))

    def test_invalid_characters_in_results_are_replaced(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        store.inbox.postpone(number, 0, "half \ud800 of a pair")
        store.inbox.settle(resolution(number, reason="\ud800", result={"actions": ({"text": "\udfff"},)}))
        assert store.inbox.item(number).result == {"actions": [{"text": "?"}]}

    @pytest.mark.parametrize("unknown", [-1, 0, 999, 1 << 80])
    def test_unknown_items_raise_not_found(self, store: Store, unknown: int) -> None:
        receive(store, "something")
        inbox = store.inbox
        for attempt in (
            lambda: inbox.item(unknown),
            lambda: inbox.retry(unknown),
            lambda: inbox.park(unknown, ""),
            lambda: inbox.postpone(unknown, 1, ""),
            lambda: inbox.settle(resolution(unknown)),
            lambda: learn(store, unknown, "never"),
        ):
            with pytest.raises(NotFound, match="no capture"):
                attempt()
        assert everything(store) == []

    # ── settled by a changeset ────────────────────────────────────────────────────────────────────────────────────────

    def test_item_is_settled_together_with_its_changeset(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs and semicolons")
        result: list[Changeset] = []

        def settles(done: Changeset) -> ItemResolution:
            result.append(done)
            return resolution(number, result={"ids": [change.memory_id for change in done.changes], "changeset": None})

        done = apply(store, Add(Fact(text="tabs")), Add(Fact(text="semicolons")), settles=settles)
        item = store.inbox.item(number)
        assert result == [done]
        assert (item.state, item.changeset, item.finished_at) == ("stored", done.id, done.at)
        assert item.result == {"ids": [change.memory_id for change in done.changes], "changeset": done.id}

    def test_settled_by_returns_the_item_of_a_changeset(self, store: Store) -> None:
        first, second, third = receive(store, "one", "two", "three")
        result = learn(store, first, "a fact")
        other = learn(store, second, "another")
        by_hand = apply(store, Add(Fact(text="by hand")))
        store.inbox.settle(resolution(third, "rejected"))
        results = [store.inbox.settled_by(item.id) for item in (result, other, by_hand)]
        assert results == [store.inbox.item(first), store.inbox.item(second), None]
        assert store.inbox.settled_by(999) is None
        store.inbox.forget(FAR_FUTURE)
        assert store.inbox.settled_by(result.id) is None

    def test_item_settled_later_is_found_by_its_first_changeset(self, store: Store) -> None:
        [item] = receive(store, "one")
        result = apply(store, Add(Fact(text="a fact")), settles=resolve_with(item, "pending"))
        assert store.inbox.settled_by(result.id) is None  # still in progress
        store.inbox.settle(resolution(item, "stored"))
        assert store.inbox.settled_by(result.id) == store.inbox.item(item)

    def test_failed_apply_leaves_the_item_unchanged(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        before = store.inbox.item(number)
        with pytest.raises(NotFound):
            apply(store, Add(Fact(text="never")), Delete(999), settles=resolve_with(number))
        assert store.inbox.item(number) == before
        assert everything(store) == []

    def test_second_apply_for_a_settled_item_changes_nothing(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        learn(store, number, "tabs")
        settled, memories = store.inbox.item(number), everything(store)
        with pytest.raises(Conflict, match=f"Capture {number} is already processed"):
            apply(store, Edit(memories[0].id, {"text": "never"}), Add(Fact(text="never")), settles=resolve_with(number))
        assert store.inbox.item(number) == settled
        assert everything(store) == memories
        assert len(store.changesets(10)) == 1
        assert store.matching(["never"], 5, EVERYTHING).candidates == ()

    def test_error_while_settling_rolls_back_the_changes(self, store: Store) -> None:
        (number,) = receive(store, "We use tabs")
        with pytest.raises(ZeroDivisionError):
            apply(store, Add(Fact(text="never")), settles=lambda _: resolution(number, result={"x": 1 // 0}))
        assert everything(store) == []
        assert store.inbox.item(number).state == "pending"

    # ── listing ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_items_are_listed_newest_first_by_state_and_page(self, store: Store) -> None:
        numbers = receive(store, *(f"number {index}" for index in range(7)))
        for number in numbers[::2]:
            store.inbox.settle(resolution(number, "rejected"))
        assert [item.id for item in store.inbox.items()] == numbers[::-1]
        assert [item.id for item in store.inbox.items("rejected")] == numbers[::-2]
        assert [item.id for item in store.inbox.items("pending", limit=2)] == [numbers[5], numbers[3]]
        assert [item.id for item in store.inbox.items("pending", limit=2, after=numbers[3])] == [numbers[1]]
        assert store.inbox.items("stored") == []
        observed: list[int] = []
        while page := store.inbox.items(limit=3, after=observed[-1] if observed else None):
            observed += [item.id for item in page]
        assert observed == numbers[::-1]

    def test_ledger_counts_captures_by_state(self, store: Store) -> None:
        numbers = receive(store, *"abcdefg")
        oldest = store.inbox.item(numbers[0]).received_at
        assert store.inbox.status().oldest == oldest
        learn(store, numbers[0], "a")
        store.inbox.settle(resolution(numbers[1], "merged", reason="Said before"))
        store.inbox.settle(resolution(numbers[2], "rejected", reason="Small talk"))
        store.inbox.settle(resolution(numbers[3], "rejected", reason="Small talk"))
        store.inbox.settle(resolution(numbers[4], "rejected", reason="A question"))
        store.inbox.park(numbers[5], "odd")
        inbox_status = store.inbox.status()
        assert inbox_status.balanced
        assert (inbox_status.captured, inbox_status.stored, inbox_status.merged, inbox_status.rejected) == (7, 1, 1, 3)
        assert (inbox_status.pending, inbox_status.parked, store.stats()["inbox_pending"]) == (2, 1, 1)
        assert inbox_status.reasons == {"Small talk": 2, "A question": 1}
        assert inbox_status.oldest == store.inbox.item(numbers[5]).received_at
        store.inbox.settle(resolution(numbers[6]))
        assert store.inbox.status().oldest == store.inbox.item(numbers[5]).received_at

    def test_ledger_sums_up_the_rarest_reasons(self, store: Store) -> None:
        reasons = [f"reason {index:02}" for index in range(25) for _ in range(25 - index)]
        for number, reason in zip(receive(store, *reasons), reasons, strict=True):
            store.inbox.settle(resolution(number, "rejected", reason=reason))
        result = store.inbox.status().reasons
        assert len(result) == 21
        assert result["reason 00"] == 25
        assert result["other"] == 5 + 4 + 3 + 2 + 1
        assert sum(result.values()) == len(reasons)

    # ── forgetting ────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_forget_erases_texts_and_keeps_counts(self, store: Store) -> None:
        old, parked, pending = receive(store, "old", "parked", "pending")
        store.inbox.settle(resolution(old, "rejected", reason="Small talk", result={"actions": []}))
        store.inbox.park(parked, "odd")
        finished = store.inbox.item(old).finished_at
        assert finished
        (new,) = receive(store, "new")
        learn(store, new, "new")
        before = store.inbox.status()
        assert store.inbox.forget(finished) == 0  # the limit is exclusive
        later = store.inbox.item(new).finished_at
        assert later
        assert store.inbox.forget(later) == 1
        item = store.inbox.item(old)
        assert (item.exchange, dict(item.result), item.state, item.reason) == (None, {}, "rejected", "Small talk")
        assert first_texts([store.inbox.item(item) for item in (parked, pending, new)]) == ["parked", "pending", "new"]
        assert store.inbox.forget(FAR_FUTURE) == 1
        assert store.inbox.forget(FAR_FUTURE) == 0
        assert store.inbox.status() == before
        assert first_texts(store.inbox.items()) == ["", "pending", "parked", ""]

    def test_forget_rejects_an_invalid_time(self, store: Store) -> None:
        (number,) = receive(store, "kept")
        store.inbox.settle(resolution(number))
        with pytest.raises(InvalidInput, match="not a time"):
            store.inbox.forget("yesterday")
        assert first_texts([store.inbox.item(number)]) == ["kept"]

    # ── purging ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_purge_erases_captures_of_the_memory(self, store: Store) -> None:
        first, again, other = receive(store, "he likes quixotic food", "as I said", "the zebra stays")
        memory = learn(store, first, "Likes quixotic food").changes[0].memory
        apply(store, Noop(memory.id), settles=resolve_with(again, "merged", reason="Likes quixotic food, said before"))
        learn(store, other, "the zebra stays")
        apply(store, Purge(memory.id))
        assert first_texts([store.inbox.item(item) for item in (first, again, other)]) == ["", "", "the zebra stays"]
        assert "quixotic" not in repr([store.inbox.item(first), store.inbox.item(again)])
        assert store.inbox.status().balanced

    def test_purge_erases_settled_captures_with_the_same_text(self, store: Store) -> None:
        memory = add(store, 'The "key"\tis hunter2', context="What is the key?")
        apply(store, Edit(memory.id, {"text": "The key is hunter3"}))
        saying = receive(
            store, 'Hear: The "key"\tis hunter2!', "The key is hunter3", "What is the key? Forty-two", "The zebra stays"
        )
        (told,) = receive(store, "only the result says it")
        for number in saying:
            store.inbox.settle(resolution(number, "rejected", reason="Small talk"))
        result = {"actions": [{"text": "The key is hunter3"}]}
        store.inbox.settle(resolution(told, "rejected", reason="Left: The key is hunter3", result=result))
        apply(store, Purge(memory.id))
        assert first_texts([store.inbox.item(item) for item in saying]) == ["", "", "", "The zebra stays"]
        assert "hunter" not in repr(store.inbox.items())
        assert store.inbox.status().reasons == {"Small talk": 4, "": 1}

    def test_purge_keeps_text_of_the_replaced_memory(self, store: Store) -> None:
        (told,) = receive(store, "Tea is served at four")
        old = learn(store, told, "Tea is served at four").changes[0].memory
        fact = Fact(text="It moved to five", context=old.text)
        new = apply(store, Update(old.id, fact)).changes[0].memory
        apply(store, Purge(new.id))
        assert first_texts([store.inbox.item(told)]) == ["Tea is served at four"]
        replaced = apply(store, Restore(old.id), Update(old.id, fact)).changes[1].memory
        assert store.get([replaced.id])[0].context == old.text
        apply(store, Purge(old.id))
        assert store.get([replaced.id])[0].context == ""
        assert first_texts([store.inbox.item(told)]) == [""]

    def test_purge_redacts_pending_captures_and_keeps_their_other_text(self, store: Store) -> None:
        memory = add(store, "The key is hunter2")
        known = make_exchange("Note: The key is hunter2. We use tabs.", injected=("The key is hunter2", "We use tabs"))
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
        assert first_texts([store.inbox.item(other)]) == ["The key is hunter22"]  # a different word
        assert [item.id for item in store.inbox.due(10)] == [pending, other]

    # ── closing ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_closed_inbox_raises_store_error(self, store: Store) -> None:
        (number,) = receive(store, "something")
        inbox: Inbox = store.inbox
        store.close()
        for attempt in (
            lambda: inbox.receive([make_exchange()]),
            lambda: inbox.due(1),
            lambda: inbox.item(number),
            lambda: inbox.settle(resolution(number)),
            inbox.status,
        ):
            with pytest.raises(StoreError, match="closed"):
                attempt()
