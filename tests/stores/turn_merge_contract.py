"""What every Inbox must do with a turn that is told in parts. Give a `store` fixture."""

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
from tests.stores.inbox_contract import FOR_EVER, ending, receive, settling

HOUR = 3600.0


def turn(*said: tuple[str, str], name: str = "t1", **about: Any) -> Exchange:
    """A telling of a turn: who said what."""
    messages = tuple(Message(role, text) for role, text in said)
    return Exchange(messages=messages, **{"client": "cc", "session": "s1", "turn": name, **about})


def user(text: str) -> tuple[str, str]:
    return "user", text


def agent(text: str) -> tuple[str, str]:
    return "assistant", text


def said(store: Store, item: int) -> list[tuple[str, str]]:
    exchange = store.inbox.item(item).exchange
    return [(message.role, message.text) for message in exchange.messages] if exchange else []


class AmendContract:
    """The suite."""

    # ── while it waits ────────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_turn_that_never_came_is_received_and_held(self, store: Store) -> None:
        exchange = turn(user("We use tabs"), project="/srv/web", context="prompt", injected=("known",))
        receipt = store.inbox.amend(exchange, hold=HOUR)
        assert receipt.new
        item = store.inbox.item(receipt.id)
        assert (item.task, item.state, item.attempts) == ("learn", "pending", 0)
        assert item.exchange is not None
        assert item.exchange.project == "/srv/web"
        assert said(store, receipt.id) == [user("We use tabs")]
        assert store.inbox.due(10) == []
        assert store.inbox.receive([exchange]) == [Receipt(receipt.id, False)]

    def test_what_comes_later_joins_the_item_and_sets_its_time(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs"), injected=("a",)), hold=HOUR)
        again = store.inbox.amend(turn(agent("Noted."), injected=("b", "a")))
        assert again == Receipt(first.id, False)
        assert said(store, first.id) == [user("We use tabs"), agent("Noted.")]
        (item,) = store.inbox.due(10)
        assert item.exchange is not None
        assert item.exchange.injected == ("a", "b")
        assert store.inbox.status().captured == 1

    def test_what_is_told_again_changes_nothing_but_can_be_due_sooner(self, store: Store) -> None:
        whole = turn(user("We use tabs"), agent("Noted."))
        first = store.inbox.amend(whole, hold=HOUR)
        before = store.inbox.item(first.id)
        assert store.inbox.amend(turn(user(" We  use\ttabs\n")), hold=2 * HOUR) == Receipt(first.id, False)
        assert store.inbox.item(first.id) == before
        store.inbox.amend(whole, hold=60.0)
        sooner = store.inbox.item(first.id)
        assert sooner.exchange == before.exchange
        assert sooner.due_at < before.due_at

    def test_a_longer_telling_takes_the_place_of_a_shorter(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs"), agent("Looking.")))
        store.inbox.amend(turn(user("Always semicolons")))
        store.inbox.amend(turn(user("We use tabs\n\nAlways semicolons"), agent("Looking.\n\nDone.")))
        assert said(store, first.id) == [user("We use tabs\n\nAlways semicolons"), agent("Looking.\n\nDone.")]
        store.inbox.amend(turn(user("Always semicolons"), agent("Done.")))
        assert said(store, first.id) == [user("We use tabs\n\nAlways semicolons"), agent("Looking.\n\nDone.")]

    def test_words_that_stand_in_another_sentence_are_another_message(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("Do not use tabs")))
        store.inbox.amend(turn(user("use tabs")))
        store.inbox.amend(turn(agent("use tabs")))
        assert said(store, first.id) == [user("Do not use tabs"), user("use tabs"), agent("use tabs")]

    def test_the_end_of_a_long_message_is_known_wherever_it_begins(self, store: Store) -> None:
        long = " ".join(f"sentence number {place}." for place in range(100))
        first = store.inbox.amend(turn(user(long)))
        store.inbox.amend(turn(user(long[-800:].strip()), agent("Noted.")))
        assert said(store, first.id) == [user(long), agent("Noted.")]

    def test_a_turn_begins_with_the_user_whoever_is_heard_first(self, store: Store) -> None:
        first = store.inbox.amend(turn(agent("Noted.")))
        store.inbox.amend(turn(user("We use tabs")))
        assert said(store, first.id) == [user("We use tabs"), agent("Noted.")]

    def test_a_whole_telling_sets_the_order(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("one"), agent("three")))
        whole = [user("one"), agent("two"), agent("three"), user("four")]
        store.inbox.amend(turn(*whole))
        assert said(store, first.id) == whole

    def test_whoever_asks_for_thoroughness_gets_it_and_labels_are_filled_in(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs"), context="prompt"), hold=HOUR)
        store.inbox.amend(turn(user("We use tabs"), context="pre_compact", source="cc/web", project="/srv/web"))
        store.inbox.amend(turn(agent("Noted."), context="stop", source="elsewhere"))
        exchange = store.inbox.item(first.id).exchange
        assert exchange is not None
        assert (exchange.context, exchange.source, exchange.project) == ("pre_compact", "cc/web", "/srv/web")

    def test_attempts_are_kept_and_a_parked_turn_goes_on_when_there_is_more_of_it(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs")))
        store.inbox.postpone(first.id, HOUR, "down", fault=True)
        store.inbox.park(first.id, "too often")
        store.inbox.amend(turn(user("We use tabs")))
        assert store.inbox.item(first.id).state == "parked"  # nothing new: it would fail again
        store.inbox.amend(turn(agent("Noted.")))
        item = store.inbox.item(first.id)
        assert (item.state, item.attempts, item.faults) == ("pending", 1, 1)
        assert [each.id for each in store.inbox.due(10)] == [first.id]

    def test_an_exchange_that_names_no_turn_is_always_new(self, store: Store) -> None:
        for nameless in (turn(user("a"), name=""), turn(user("a"), client="", session="")):
            assert all(store.inbox.amend(nameless).new for _ in range(2))

    def test_turns_of_the_other_task_and_of_other_sessions_are_others(self, store: Store) -> None:
        store.inbox.receive([turn(user("We use tabs"))], task="extract")
        assert store.inbox.amend(turn(user("We use tabs"))).new
        assert store.inbox.amend(turn(user("We use tabs"), session="s2")).new
        assert store.inbox.amend(turn(user("We use tabs"), client="codex")).new

    # ── when it is too late ───────────────────────────────────────────────────────────────────────────────────────────

    def test_what_comes_after_the_end_becomes_an_item_of_its_own_with_nothing_twice(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs")))
        store.inbox.settle(ending(first.id))
        further = store.inbox.amend(turn(user("We use tabs"), agent("Noted.")), hold=HOUR)
        assert further.new
        assert said(store, further.id) == [agent("Noted.")]
        exchange = store.inbox.item(further.id).exchange
        assert exchange is not None
        assert exchange.turn == "t1+1"
        more = store.inbox.amend(turn(user("We use tabs\nAlways semicolons"), agent("Noted.")))
        assert more == Receipt(further.id, False)
        assert said(store, further.id) == [user("Always semicolons"), agent("Noted.")]
        store.inbox.settle(ending(further.id))
        last = store.inbox.amend(turn(user("We use tabs\n\nAlways semicolons"), agent("Bye.")))
        assert said(store, last.id) == [agent("Bye.")]
        assert store.inbox.turns("cc", "s1") == {"t1", "t1+1", "t1+2"}

    def test_what_is_all_known_of_a_settled_turn_is_answered_with_its_item(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs"), user("Always")))
        store.inbox.settle(ending(first.id, "rejected"))
        before = store.inbox.item(first.id)
        for known in (turn(user("Always")), turn(user("We use tabs\n\nAlways")), turn(), turn(injected=("new",))):
            assert store.inbox.amend(known) == Receipt(first.id, False)
        assert store.inbox.item(first.id) == before

    def test_a_sentence_is_not_cut_up_for_what_was_said_before(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("No")))
        store.inbox.settle(ending(first.id))
        further = store.inbox.amend(turn(user("No tabs please")))
        assert said(store, further.id) == [user("No tabs please")]

    def test_what_is_learned_halfway_stays_as_it_is(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs")))
        apply(store, Add(Fact(text="We use tabs")), settles=settling(first.id, "pending"))
        before = store.inbox.item(first.id)
        further = store.inbox.amend(turn(user("We use tabs"), user("Always semicolons")))
        assert further.new
        assert said(store, further.id) == [user("Always semicolons")]
        assert store.inbox.item(first.id) == before

    def test_a_turn_that_grows_too_long_goes_on_in_another_item(self, store: Store) -> None:
        halves = ["a" * (MAX_SAID - 10), "b" * 100]
        store.inbox.amend(turn(user(halves[0])))
        further = store.inbox.amend(turn(user(halves[0]), agent(halves[1])))
        assert further.new
        assert said(store, further.id) == [agent(halves[1])]

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_a_message_that_was_cut_to_another_length_is_the_same_message(
        self, store: Store, order: tuple[int, int]
    ) -> None:
        text = "\n".join(f"Line {number} of what was pasted." for number in range(1_200))
        tellings = [turn(user(truncate_middle(text, room)), agent("Noted.")) for room in (20_000, 10_000)]
        first = store.inbox.amend(tellings[order[0]])
        assert store.inbox.amend(tellings[order[1]]) == Receipt(first.id, False)
        assert said(store, first.id) == [user(truncate_middle(text, 20_000)), agent("Noted.")]
        store.inbox.settle(ending(first.id))
        assert store.inbox.amend(tellings[1]) == Receipt(first.id, False)

    def test_of_a_message_that_was_cut_the_middle_is_new_where_it_comes_later(self, store: Store) -> None:
        text = "\n".join(f"Line {number} of what was pasted." for number in range(1_200))
        first = store.inbox.amend(turn(user(truncate_middle(text, 20_000))))
        store.inbox.settle(ending(first.id))
        further = store.inbox.amend(turn(user(text)))
        [(_, middle)] = said(store, further.id)
        assert f"\n{middle}\n" in text
        assert len(text) - 20_000 <= len(middle) < len(text) - 19_800

    def test_a_full_inbox_takes_no_further_item_but_lets_those_that_wait_grow(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs")), most=1)
        assert store.inbox.amend(turn(agent("Noted.")), most=1) == Receipt(first.id, False)
        with pytest.raises(TooBusy):
            store.inbox.amend(turn(user("another"), name="t2"), most=1)
        store.inbox.settle(ending(first.id))
        receive(store, "waits")
        with pytest.raises(TooBusy):
            store.inbox.amend(turn(agent("Too late.")), most=1)
        assert store.inbox.amend(turn(agent("Noted.")), most=1) == Receipt(first.id, False)
        assert store.inbox.status().captured == 2

    def test_whoever_has_read_a_turn_before_it_grew_does_not_settle_it(self, store: Store) -> None:
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

    # ── what is forgotten ─────────────────────────────────────────────────────────────────────────────────────────────

    def test_of_what_is_forgotten_nothing_more_is_taken_in(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs")))
        store.inbox.settle(ending(first.id))
        store.inbox.forget(FOR_EVER)
        assert store.inbox.amend(turn(user("We use tabs"), agent("Noted."))) == Receipt(first.id, False)
        assert store.inbox.status().captured == 1

    def test_what_was_purged_from_a_turn_does_not_come_back_with_the_next_telling(self, store: Store) -> None:
        memory = add(store, "The key is hunter2")
        known = turn(user("The key is hunter2. We use tabs."), injected=("The key is hunter2",))
        first = store.inbox.amend(known, hold=HOUR)
        apply(store, Purge(memory.id))
        for _ in range(2):
            store.inbox.amend(turn(*[(message.role, message.text) for message in known.messages], agent("Noted.")))
            store.inbox.amend(known)
        assert said(store, first.id) == [user(". We use tabs."), agent("Noted.")]
        store.inbox.settle(ending(first.id))
        store.inbox.amend(known)
        assert "hunter2" not in repr(store.inbox.items())

    def test_a_settled_turn_that_a_purge_emptied_is_not_told_again(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("The key is hunter2")))
        done = apply(store, Add(Fact(text="The key is hunter2")), settles=settling(first.id))
        apply(store, Purge(done.changes[0].memory_id))
        assert store.inbox.amend(turn(user("The key is hunter2"))) == Receipt(first.id, False)
        assert "hunter2" not in repr(store.inbox.items())

    # ── release, turns ────────────────────────────────────────────────────────────────────────────────────────────────

    def test_what_is_held_of_a_session_is_released_at_once(self, store: Store) -> None:
        held = [store.inbox.amend(turn(user(name), name=name), hold=HOUR).id for name in ("t1", "t2")]
        (nameless,) = store.inbox.receive([turn(user("no turn"), name="")], hold=HOUR)
        store.inbox.amend(turn(user("elsewhere"), session="s2"), hold=HOUR)
        parked = store.inbox.amend(turn(user("parked"), name="t3")).id
        store.inbox.park(parked, "odd")
        assert store.inbox.release("cc", "s1") == 3
        assert [item.id for item in store.inbox.due(10)] == [*held, nameless.id]
        assert store.inbox.release("cc", "s1") == store.inbox.release("cc", "unheard of") == 0
        assert store.inbox.item(parked).state == "parked"

    def test_turns_that_wait_for_their_session_wait_longer_with_each_one(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("one")), hold=HOUR).id
        prompt = store.inbox.amend(turn(user("asks"), name="t2"), hold=3 * HOUR).id
        failed = store.inbox.amend(turn(user("failed"), name="t3")).id
        store.inbox.postpone(failed, 50.0, "down")
        elsewhere = store.inbox.amend(turn(user("elsewhere"), session="s2"), hold=HOUR).id
        before = {each: store.inbox.item(each).due_at for each in (first, prompt, failed, elsewhere)}
        store.inbox.hold("cc", "s1", Batching(2 * HOUR, turns=3))
        assert store.inbox.item(prompt).due_at == before[prompt]
        store.inbox.hold("cc", "s1", Batching(2 * HOUR, turns=3), broken_off=True)
        after = {each: store.inbox.item(each).due_at for each in before}
        assert before[first] < after[first] == after[prompt] < before[prompt]
        assert (after[failed], after[elsewhere]) == (before[failed], before[elsewhere])

    def test_a_full_batch_of_a_session_is_due_at_once(self, store: Store) -> None:
        batching = Batching(HOUR, turns=2)
        first = store.inbox.amend(turn(user("one")), hold=HOUR).id
        asked = store.inbox.amend(turn(user("asked, not answered"), name="t2"), hold=2 * HOUR).id
        store.inbox.amend(turn(user("elsewhere"), session="s2"), hold=HOUR)
        store.inbox.hold("cc", "s1", batching._replace(seconds=60.0), broken_off=True)
        assert store.inbox.due(10) == []
        store.inbox.hold("cc", "s1", batching)
        assert [item.id for item in store.inbox.due(10)] == [first, asked]

    def test_every_turn_that_ever_came_in_is_known(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("one")))
        store.inbox.receive([turn(user("two"), name="t2"), turn(user("nameless"), name="")])
        store.inbox.receive([turn(user("three"), name="t3")], task="extract")
        store.inbox.amend(turn(user("elsewhere"), name="t4", session="s2"))
        store.inbox.settle(ending(first.id))
        store.inbox.forget(FOR_EVER)
        assert store.inbox.turns("cc", "s1") == {"t1", "t2", "t3"}
        assert store.inbox.turns("codex", "s1") == set()

    def test_turns_of_which_words_were_purged_are_known(self, store: Store) -> None:
        store.inbox.amend(turn(user("We use tabs"), name="whole"))
        store.inbox.amend(turn(user('the words "cut" and cut'), name="quoting"))
        settled = store.inbox.amend(turn(user("The key is hunter2"), name="settled"))
        done = apply(store, Add(Fact(text="The key is hunter2")), settles=settling(settled.id))
        store.inbox.amend(turn(user("The key is hunter2. We use tabs."), name="waits"))
        assert store.inbox.purged_turns("cc", "s1") == set()
        apply(store, Purge(done.changes[0].memory_id))
        assert store.inbox.purged_turns("cc", "s1") == {"settled", "waits"}
        assert store.inbox.purged_turns("cc", "s2") == set()

    def test_turns_that_came_with_a_key_are_told_where_any_key_counts(self, store: Store) -> None:
        for client in ("cc", "cc~0123456789ab", "cc~ba9876543210", "ccx", "cc-x~0123456789ab"):
            store.inbox.amend(turn(user("one"), name=client[-3:], client=client))
        assert store.inbox.turns("cc", "s1") == {"cc"}
        assert store.inbox.turns("cc", "s1", any_key=True) == {"cc", "9ab", "210"}
        assert store.inbox.turns("cc", "s2", any_key=True) == set()
        assert store.inbox.turns("c", "s1", any_key=True) == set()

    # ── what cannot be ────────────────────────────────────────────────────────────────────────────────────────────────

    def test_what_no_store_can_keep_is_refused_and_leaves_the_turn_as_it_was(self, store: Store) -> None:
        first = store.inbox.amend(turn(user("We use tabs")))
        before = store.inbox.item(first.id)
        with pytest.raises(InvalidInput, match="surrogate"):
            store.inbox.amend(turn(agent("half \ud800 of a pair")))
        with pytest.raises(InvalidInput, match="seconds"):
            store.inbox.amend(turn(agent("Noted.")), hold=float("nan"))
        assert store.inbox.item(first.id) == before

    def test_threads_that_tell_a_turn_at_once_tell_it_once(self, store: Store) -> None:
        start = threading.Barrier(8)

        def tell(number: int) -> None:
            start.wait()
            for place in range(5):
                store.inbox.amend(turn(user(f"mine {number}"), user("ours"), name=f"t{place}"))

        threads = [threading.Thread(target=tell, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        items = store.inbox.items(limit=100)
        assert len(items) == 5
        everyone = sorted([user("ours"), *(user(f"mine {number}") for number in range(8))])
        assert all(sorted(said(store, item.id)) == everyone for item in items)

    def test_a_closed_inbox_takes_nothing_more(self, store: Store) -> None:
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
