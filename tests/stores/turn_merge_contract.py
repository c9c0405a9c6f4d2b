"""Contract suite of turns that are delivered in parts. Subclasses define a `store` fixture."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from cofio.errors import Conflict, InvalidInput, StoreError, TooBusy
from cofio.models.exchange import MAX_SAID, Batching, Exchange, ItemResolution, Message, Receipt
from cofio.models.memory import Add, Fact, Purge
from cofio.ports import Store
from cofio.text.tokens import truncate_middle
from tests.stores.contract import add, apply, everything
from tests.stores.inbox_contract import FAR_FUTURE, receive, resolution, resolve_with

HOUR = 3600.0


def turn(*messages_with_roles: tuple[str, str], name: str = "t1", **fields: Any) -> Exchange:
    """Return an exchange with the given (role, text) messages."""
    messages = tuple(Message(role, text) for role, text in messages_with_roles)
    return Exchange(messages=messages, **{"client": "cc", "session": "s1", "turn": name, **fields})


def user(text: str) -> tuple[str, str]:
    return "user", text


def agent(text: str) -> tuple[str, str]:
    return "assistant", text


def stored_messages(store: Store, item: int) -> list[tuple[str, str]]:
    exchange = store.inbox.item(item).exchange
    return [(message.role, message.text) for message in exchange.messages] if exchange else []


class AmendContract:
    """Tests of amending, releasing and holding turns."""

    # ── pending turns ─────────────────────────────────────────────────────────────────────────────────────────────────

    def test_unknown_turn_is_received_and_held(self, store: Store) -> None:
        exchange = turn(user("We use tabs"), project="/srv/web", context="prompt", injected=("known",))
        receipt = store.inbox.amend(exchange, hold=HOUR)
        assert receipt.new
        item = store.inbox.item(receipt.id)
        assert (item.task, item.state, item.attempts) == ("learn", "pending", 0)
        assert item.exchange is not None
        assert item.exchange.project == "/srv/web"
        assert stored_messages(store, receipt.id) == [user("We use tabs")]
        assert store.inbox.due(10) == []
        assert store.inbox.receive([exchange]) == [Receipt(receipt.id, False)]

    def test_later_part_is_merged_and_sets_the_due_time(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs"), injected=("a",)), hold=HOUR)
        repeated = store.inbox.amend(turn(agent("Noted."), injected=("b", "a")))
        assert repeated == Receipt(first.id, False)
        assert stored_messages(store, first.id) == [user("We use tabs"), agent("Noted.")]
        (item,) = store.inbox.due(10)
        assert item.exchange is not None
        assert item.exchange.injected == ("a", "b")
        assert store.inbox.status().captured == 1

    def test_repeated_part_only_shortens_the_hold(self, store: Store) -> None:
        complete = turn(user("We use tabs"), agent("Noted."))
        first = store.inbox.amend(complete, hold=HOUR)
        before = store.inbox.item(first.id)
        assert store.inbox.amend(turn(user(" We  use\ttabs\n")), hold=2 * HOUR) == Receipt(first.id, False)
        assert store.inbox.item(first.id) == before
        store.inbox.amend(complete, hold=60.0)
        sooner = store.inbox.item(first.id)
        assert sooner.exchange == before.exchange
        assert sooner.due_at < before.due_at

    def test_longer_version_replaces_shorter_messages(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs"), agent("Looking.")))
        store.inbox.amend(turn(user("Always semicolons")))
        store.inbox.amend(turn(user("We use tabs\n\nAlways semicolons"), agent("Looking.\n\nDone.")))
        assert stored_messages(store, first.id) == [
            user("We use tabs\n\nAlways semicolons"),
            agent("Looking.\n\nDone."),
        ]
        store.inbox.amend(turn(user("Always semicolons"), agent("Done.")))
        assert stored_messages(store, first.id) == [
            user("We use tabs\n\nAlways semicolons"),
            agent("Looking.\n\nDone."),
        ]

    def test_words_inside_another_sentence_are_a_separate_message(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("Do not use tabs")))
        store.inbox.amend(turn(user("use tabs")))
        store.inbox.amend(turn(agent("use tabs")))
        assert stored_messages(store, first.id) == [user("Do not use tabs"), user("use tabs"), agent("use tabs")]

    def test_truncated_beginning_of_a_long_message_is_recognized(self, store: Store) -> None:
        long = " ".join(f"sentence number {index}." for index in range(100))
        first = store.inbox.amend(turn(user(long)))
        store.inbox.amend(turn(user(long[-800:].strip()), agent("Noted.")))
        assert stored_messages(store, first.id) == [user(long), agent("Noted.")]

    def test_user_message_comes_first_in_any_order_of_delivery(self, store: Store) -> None:
        first = store.inbox.amend(turn(agent("Noted.")))
        store.inbox.amend(turn(user("We use tabs")))
        assert stored_messages(store, first.id) == [user("We use tabs"), agent("Noted.")]

    def test_complete_version_determines_the_order(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("one"), agent("three")))
        complete = [user("one"), agent("two"), agent("three"), user("four")]
        store.inbox.amend(turn(*complete))
        assert stored_messages(store, first.id) == complete

    def test_most_thorough_context_wins_and_missing_fields_are_filled(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs"), context="prompt"), hold=HOUR)
        store.inbox.amend(turn(user("We use tabs"), context="pre_compact", source="cc/web", project="/srv/web"))
        store.inbox.amend(turn(agent("Noted."), context="stop", source="elsewhere"))
        exchange = store.inbox.item(first.id).exchange
        assert exchange is not None
        assert (exchange.context, exchange.source, exchange.project) == ("pre_compact", "cc/web", "/srv/web")

    def test_amendment_keeps_attempts_and_resumes_a_parked_turn(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs")))
        store.inbox.postpone(first.id, HOUR, "down", fault=True)
        store.inbox.park(first.id, "too often")
        store.inbox.amend(turn(user("We use tabs")))
        assert store.inbox.item(first.id).state == "parked"  # nothing new: it would fail again
        store.inbox.amend(turn(agent("Noted.")))
        item = store.inbox.item(first.id)
        assert (item.state, item.attempts, item.faults) == ("pending", 1, 1)
        assert [item.id for item in store.inbox.due(10)] == [first.id]

    def test_amendment_without_turn_id_is_always_new(self, store: Store) -> None:
        for nameless in (turn(user("a"), name=""), turn(user("a"), client="", session="")):
            assert all(store.inbox.amend(nameless).new for _ in range(2))

    def test_turns_of_other_tasks_and_sessions_are_separate(self, store: Store) -> None:
        store.inbox.receive([turn(user("We use tabs"))], task="extract")
        assert store.inbox.amend(turn(user("We use tabs"))).new
        assert store.inbox.amend(turn(user("We use tabs"), session="s2")).new
        assert store.inbox.amend(turn(user("We use tabs"), client="codex")).new

    # ── settled turns ─────────────────────────────────────────────────────────────────────────────────────────────────

    def test_part_after_settling_becomes_a_new_item_without_repeats(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs")))
        store.inbox.settle(resolution(first.id))
        further = store.inbox.amend(turn(user("We use tabs"), agent("Noted.")), hold=HOUR)
        assert further.new
        assert stored_messages(store, further.id) == [agent("Noted.")]
        exchange = store.inbox.item(further.id).exchange
        assert exchange is not None
        assert exchange.turn == "t1+1"
        more = store.inbox.amend(turn(user("We use tabs\nAlways semicolons"), agent("Noted.")))
        assert more == Receipt(further.id, False)
        assert stored_messages(store, further.id) == [user("Always semicolons"), agent("Noted.")]
        store.inbox.settle(resolution(further.id))
        last = store.inbox.amend(turn(user("We use tabs\n\nAlways semicolons"), agent("Bye.")))
        assert stored_messages(store, last.id) == [agent("Bye.")]
        assert store.inbox.turns("cc", "s1") == {"t1", "t1+1", "t1+2"}

    def test_known_part_of_a_settled_turn_returns_its_item(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs"), user("Always")))
        store.inbox.settle(resolution(first.id, "rejected"))
        before = store.inbox.item(first.id)
        for known in (turn(user("Always")), turn(user("We use tabs\n\nAlways")), turn(), turn(injected=("new",))):
            assert store.inbox.amend(known) == Receipt(first.id, False)
        assert store.inbox.item(first.id) == before

    def test_message_that_contains_a_settled_one_is_kept_completely(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("No")))
        store.inbox.settle(resolution(first.id))
        further = store.inbox.amend(turn(user("No tabs please")))
        assert stored_messages(store, further.id) == [user("No tabs please")]

    def test_partly_processed_item_is_not_amended(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs")))
        apply(store, Add(Fact(text="We use tabs")), settles=resolve_with(first.id, "pending"))
        before = store.inbox.item(first.id)
        further = store.inbox.amend(turn(user("We use tabs"), user("Always semicolons")))
        assert further.new
        assert stored_messages(store, further.id) == [user("Always semicolons")]
        assert store.inbox.item(first.id) == before

    def test_overlong_turn_continues_in_another_item(self, store: Store) -> None:
        halves = ["a" * (MAX_SAID - 10), "b" * 100]
        store.inbox.amend(turn(user(halves[0])))
        further = store.inbox.amend(turn(user(halves[0]), agent(halves[1])))
        assert further.new
        assert stored_messages(store, further.id) == [agent(halves[1])]

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_message_truncated_to_another_length_is_recognized(self, store: Store, order: tuple[int, int]) -> None:
        text = "\n".join(f"Line {number} of what was pasted." for number in range(1_200))
        tellings = [turn(user(truncate_middle(text, room)), agent("Noted.")) for room in (20_000, 10_000)]
        first = store.inbox.amend(tellings[order[0]])
        assert store.inbox.amend(tellings[order[1]]) == Receipt(first.id, False)
        assert stored_messages(store, first.id) == [user(truncate_middle(text, 20_000)), agent("Noted.")]
        store.inbox.settle(resolution(first.id))
        assert store.inbox.amend(tellings[1]) == Receipt(first.id, False)

    def test_truncated_middle_is_new_when_delivered_later(self, store: Store) -> None:
        text = "\n".join(f"Line {number} of what was pasted." for number in range(1_200))
        first = store.inbox.amend(turn(user(truncate_middle(text, 20_000))))
        store.inbox.settle(resolution(first.id))
        further = store.inbox.amend(turn(user(text)))
        [(_, middle)] = stored_messages(store, further.id)
        assert f"\n{middle}\n" in text
        assert len(text) - 20_000 <= len(middle) < len(text) - 19_800

    def test_full_inbox_rejects_new_items_but_accepts_amendments(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs")), most=1)
        assert store.inbox.amend(turn(agent("Noted.")), most=1) == Receipt(first.id, False)
        with pytest.raises(TooBusy):
            store.inbox.amend(turn(user("another"), name="t2"), most=1)
        store.inbox.settle(resolution(first.id))
        receive(store, "waits")
        with pytest.raises(TooBusy):
            store.inbox.amend(turn(agent("Too late.")), most=1)
        assert store.inbox.amend(turn(agent("Noted.")), most=1) == Receipt(first.id, False)
        assert store.inbox.status().captured == 2

    def test_item_read_before_an_amendment_cannot_be_settled(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs")))
        read = store.inbox.item(first.id)
        store.inbox.amend(turn(agent("Noted.")))
        ends = ItemResolution(item=first.id, state="stored", read=read)
        with pytest.raises(Conflict, match="has changed since"):
            apply(store, Add(Fact(text="We use tabs")), settles=lambda _: ends)
        with pytest.raises(Conflict, match="has changed since"):
            store.inbox.settle(ends)
        assert everything(store) == []
        store.inbox.settle(ItemResolution(item=first.id, state="stored", read=store.inbox.item(first.id)))

    # ── forgotten and purged text ─────────────────────────────────────────────────────────────────────────────────────

    def test_forgotten_turn_accepts_no_amendment(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs")))
        store.inbox.settle(resolution(first.id))
        store.inbox.forget(FAR_FUTURE)
        assert store.inbox.amend(turn(user("We use tabs"), agent("Noted."))) == Receipt(first.id, False)
        assert store.inbox.status().captured == 1

    def test_purged_text_does_not_return_with_the_next_part(self, store: Store) -> None:
        memory = add(store, "The key is hunter2")
        known = turn(user("The key is hunter2. We use tabs."), injected=("The key is hunter2",))
        first = store.inbox.amend(known, hold=HOUR)
        apply(store, Purge(memory.id))
        for _ in range(2):
            store.inbox.amend(turn(*[(message.role, message.text) for message in known.messages], agent("Noted.")))
            store.inbox.amend(known)
        assert stored_messages(store, first.id) == [user(". We use tabs."), agent("Noted.")]
        store.inbox.settle(resolution(first.id))
        store.inbox.amend(known)
        assert "hunter2" not in repr(store.inbox.items())

    def test_turn_emptied_by_a_purge_is_not_learned_again(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("The key is hunter2")))
        result = apply(store, Add(Fact(text="The key is hunter2")), settles=resolve_with(first.id))
        apply(store, Purge(result.changes[0].memory_id))
        assert store.inbox.amend(turn(user("The key is hunter2"))) == Receipt(first.id, False)
        assert "hunter2" not in repr(store.inbox.items())

    # ── release and turns ─────────────────────────────────────────────────────────────────────────────────────────────

    def test_release_makes_held_items_of_a_session_due(self, store: Store) -> None:
        held = [store.inbox.amend(turn(user(name), name=name), hold=HOUR).id for name in ("t1", "t2")]
        (nameless,) = store.inbox.receive([turn(user("no turn"), name="")], hold=HOUR)
        store.inbox.amend(turn(user("elsewhere"), session="s2"), hold=HOUR)
        parked = store.inbox.amend(turn(user("parked"), name="t3")).id
        store.inbox.park(parked, "odd")
        assert store.inbox.release("cc", "s1") == 3
        assert [item.id for item in store.inbox.due(10)] == [*held, nameless.id]
        assert store.inbox.release("cc", "s1") == store.inbox.release("cc", "unheard of") == 0
        assert store.inbox.item(parked).state == "parked"

    def test_hold_extends_waiting_items_of_the_session(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("one")), hold=HOUR).id
        prompt = store.inbox.amend(turn(user("asks"), name="t2"), hold=3 * HOUR).id
        failed = store.inbox.amend(turn(user("failed"), name="t3")).id
        store.inbox.postpone(failed, 50.0, "down")
        other = store.inbox.amend(turn(user("elsewhere"), session="s2"), hold=HOUR).id
        before = {item: store.inbox.item(item).due_at for item in (first, prompt, failed, other)}
        store.inbox.hold("cc", "s1", Batching(2 * HOUR, turns=3))
        assert store.inbox.item(prompt).due_at == before[prompt]
        store.inbox.hold("cc", "s1", Batching(2 * HOUR, turns=3), broken_off=True)
        after = {item: store.inbox.item(item).due_at for item in before}
        assert before[first] < after[first] == after[prompt] < before[prompt]
        assert (after[failed], after[other]) == (before[failed], before[other])

    def test_full_batch_of_a_session_is_due_at_once(self, store: Store) -> None:
        batching = Batching(HOUR, turns=2)
        first = store.inbox.amend(turn(user("one")), hold=HOUR).id
        request = store.inbox.amend(turn(user("asked, not answered"), name="t2"), hold=2 * HOUR).id
        store.inbox.amend(turn(user("elsewhere"), session="s2"), hold=HOUR)
        store.inbox.hold("cc", "s1", batching._replace(seconds=60.0), broken_off=True)
        assert store.inbox.due(10) == []
        store.inbox.hold("cc", "s1", batching)
        assert [item.id for item in store.inbox.due(10)] == [first, request]

    def test_turns_lists_every_received_turn(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("one")))
        store.inbox.receive([turn(user("two"), name="t2"), turn(user("nameless"), name="")])
        store.inbox.receive([turn(user("three"), name="t3")], task="extract")
        store.inbox.amend(turn(user("elsewhere"), name="t4", session="s2"))
        store.inbox.settle(resolution(first.id))
        store.inbox.forget(FAR_FUTURE)
        assert store.inbox.turns("cc", "s1") == {"t1", "t2", "t3"}
        assert store.inbox.turns("codex", "s1") == set()

    def test_turns_includes_turns_with_purged_text(self, store: Store) -> None:
        store.inbox.amend(turn(user("We use tabs"), name="whole"))
        store.inbox.amend(turn(user('the words "cut" and cut'), name="quoting"))
        resolved = store.inbox.amend(turn(user("The key is hunter2"), name="settled"))
        result = apply(store, Add(Fact(text="The key is hunter2")), settles=resolve_with(resolved.id))
        store.inbox.amend(turn(user("The key is hunter2. We use tabs."), name="waits"))
        assert store.inbox.purged_turns("cc", "s1") == set()
        apply(store, Purge(result.changes[0].memory_id))
        assert store.inbox.purged_turns("cc", "s1") == {"settled", "waits"}
        assert store.inbox.purged_turns("cc", "s2") == set()

    def test_turns_of_clients_with_keys_are_listed_on_request(self, store: Store) -> None:
        for client in ("cc", "cc~0123456789ab", "cc~ba9876543210", "ccx", "cc-x~0123456789ab"):
            store.inbox.amend(turn(user("one"), name=client[-3:], client=client))
        assert store.inbox.turns("cc", "s1") == {"cc"}
        assert store.inbox.turns("cc", "s1", any_key=True) == {"cc", "9ab", "210"}
        assert store.inbox.turns("cc", "s2", any_key=True) == set()
        assert store.inbox.turns("c", "s1", any_key=True) == set()

    # ── errors ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_invalid_part_is_rejected_and_changes_nothing(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs")))
        before = store.inbox.item(first.id)
        with pytest.raises(InvalidInput, match="surrogate"):
            store.inbox.amend(turn(agent("half \ud800 of a pair")))
        with pytest.raises(InvalidInput, match="seconds"):
            store.inbox.amend(turn(agent("Noted.")), hold=float("nan"))
        assert store.inbox.item(first.id) == before

    def test_concurrent_deliveries_store_each_message_once(self, store: Store) -> None:
        start = threading.Barrier(8)

        def deliver(worker: int) -> None:
            start.wait()
            for index in range(5):
                store.inbox.amend(turn(user(f"mine {worker}"), user("ours"), name=f"t{index}"))

        threads = [threading.Thread(target=deliver, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        items = store.inbox.items(limit=100)
        assert len(items) == 5
        everyone = sorted([user("ours"), *(user(f"mine {number}") for number in range(8))])
        assert all(sorted(stored_messages(store, item.id)) == everyone for item in items)

    def test_closed_inbox_accepts_nothing(self, store: Store) -> None:
        inbox = store.inbox
        store.close()
        for attempt in (
            lambda: inbox.amend(turn(user("late"))),
            lambda: inbox.release("cc", "s1"),
            lambda: inbox.hold("cc", "s1", Batching()),
            lambda: inbox.turns("cc", "s1"),
            lambda: inbox.purged_turns("cc", "s1"),
        ):
            with pytest.raises(StoreError, match="closed"):
                attempt()
