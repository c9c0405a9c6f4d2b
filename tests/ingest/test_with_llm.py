"""With a model: at most two questions an exchange, and everything it leads to in one changeset."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import Misconfigured, NotConfigured, Unavailable, Unreadable
from cofio.ingest.pipeline import _ExchangeFacts
from cofio.models.exchange import Exchange, FactOutcome
from cofio.models.memory import Add, Delete, Fact, Noop, Update
from cofio.ports import LLM, Completion
from cofio.testing import FixedClock, MemoryStore, ScriptedLLM
from tests.ingest.conftest import Learning
from tests.judges import ValueJudge

SOURCE = "claude-code/shop"
TALK = "User: use drizzle\nAssistant: Done, Drizzle it is."


def facts(*texts: str, **about: Any) -> str:
    return json.dumps({"facts": [{"text": text, "category": "decision", **about} for text in texts]})


def decisions(*told: dict[str, Any]) -> str:
    return json.dumps({"decisions": list(told)})


def test_facts_are_added_updated_deleted_and_noted_in_one_changeset(learning: Learning) -> None:
    keeper = learning()
    known = [
        keeper.add(text, source=SOURCE).memory_id
        for text in (
            "The shop uses Prisma as its ORM",
            "TypeScript runs in strict mode",
            "Cron runs the nightly import",
        )
    ]
    llm = ScriptedLLM(
        [
            facts(
                "The shop uses Drizzle as its ORM",
                "TypeScript is run in strict mode",
                "The nightly import by cron was removed",
                "Deployments go through Fly machines",
            ),
            decisions(
                {
                    "fact": "f1",
                    "action": "UPDATE",
                    "memory": "m1",
                    "text": "The shop uses Drizzle as its ORM (was Prisma)",
                },
                {"fact": "f2", "action": "NOOP", "memory": "m2", "text": None},
                {"fact": "f3", "action": "DELETE", "memory": "m3", "text": None},
                {"fact": "f4", "action": "ADD", "memory": None, "text": None},
            ),
        ]
    )
    taught = learning(_ordinals(llm, keeper, known))
    result = taught.extract(TALK, source=SOURCE).as_dict()
    counts = {name: result[f"{name}_count"] for name in ("extracted", "stored", "updated", "deleted", "noop")}
    assert counts == {"extracted": 4, "stored": 1, "updated": 1, "deleted": 1, "noop": 1}
    update, noop, delete, add = result["actions"]
    assert (update["action"], update["old_id"]) == ("update", known[0])
    assert taught.get(update["new_id"]).previous_text == "The shop uses Prisma as its ORM"
    assert (noop["action"], noop["existing_id"]) == ("noop", known[1])
    assert (delete["action"], delete["old_id"]) == ("delete", known[2])
    assert taught.get(known[2]).archived
    assert taught.get(add["id"]).method == "llm"
    assert len(taught.changeset(result["changeset"]).changes) == 5
    assert result["usage"]["calls"] == 2
    assert len(llm.calls) == 2
    taught.undo(result["changeset"])
    assert sorted(memory.id for memory in taught) == sorted(known)


class _Ordinals:
    """The scripted model; its script calls the known memories m1, m2, … in the order in which they were made."""

    def __init__(self, llm: ScriptedLLM, texts: list[str]) -> None:
        self._llm, self._texts = llm, texts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._llm, name)

    def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
        reply = self._llm.complete(system, user, schema=schema)
        text = reply.text
        for number, each in enumerate(self._texts, 1):
            shown = next((line for line in user.splitlines() if each in line), "")
            ordinal = next((word.strip('",:[](){}') for word in shown.split() if _is_ordinal(word)), f"m{number}")
            text = text.replace(f'"m{number}"', f'"<{ordinal}>"')
        return reply._replace(text=text.replace('"<', '"').replace('>"', '"'))


def _is_ordinal(word: str) -> bool:
    plain = word.strip('",:[](){}')
    return plain[:1] == "m" and plain[1:].isdigit()


def _ordinals(llm: ScriptedLLM, keeper: Keeper, known: list[int]) -> LLM:
    wrapped: Any = _Ordinals(llm, [keeper.get(each).text for each in known])
    return wrapped  # type: ignore[no-any-return]


def test_the_model_is_not_asked_where_patterns_read_everything(learning: Learning) -> None:
    llm = ScriptedLLM([])
    captured = learning(llm).capture("Hi! I prefer tabs over spaces.", wait=True)
    assert captured.state == "stored"
    assert llm.calls == []


def test_what_the_model_says_better_is_not_kept_twice(learning: Learning) -> None:
    said = "I prefer tabs over spaces. Our team decided to adopt microservices for scalability."
    llm = ScriptedLLM([facts("User prefers tabs over spaces in every language", "The team adopts microservices")])
    keeper = learning(llm)
    keeper.capture(said, wait=True)
    assert sorted(memory.text for memory in keeper) == [
        "The team adopts microservices",
        "User prefers tabs over spaces in every language",
    ]


def test_what_the_model_leaves_out_is_not_kept(learning: Learning) -> None:
    said = "I prefer tabs over spaces. Our team decided to adopt microservices for scalability."
    keeper = learning(ScriptedLLM([facts("The team adopts microservices")]))
    keeper.capture(said, wait=True)
    assert {memory.text for memory in keeper} == {"The team adopts microservices"}


def test_what_patterns_read_is_kept_where_the_reply_was_cut_off(learning: Learning) -> None:
    said = "I prefer tabs over spaces. Our team decided to adopt microservices for scalability."
    keeper = learning(ScriptedLLM([Completion(facts("The team adopts microservices")[:-2], truncated=True)]))
    keeper.capture(said, wait=True)
    assert {memory.text for memory in keeper} == {"The team adopts microservices", "User prefers tabs over spaces"}


def test_before_a_compaction_the_model_reads_what_the_gate_would_pass_over(learning: Learning) -> None:
    llm = ScriptedLLM([facts("The retry queue lives in Redis")])
    keeper = learning(llm)
    said = "The queue thing we looked at, with Redis behind it"
    keeper.capture(said, wait=True, context="pre_compact")
    assert [memory.text for memory in keeper] == ["The retry queue lives in Redis"]
    assert "everything" in llm.calls[0][0].lower()


def test_a_model_that_cannot_reconcile_is_asked_once_and_known_facts_are_noted(learning: Learning) -> None:
    llm = ScriptedLLM([facts("Uses Drizzle ORM"), facts("Uses Drizzle ORM")], reconciles=False)
    keeper = learning(llm)
    assert keeper.extract(TALK, source=SOURCE).count("add") == 1
    assert keeper.extract(TALK, source=SOURCE).count("noop") == 1
    assert len(llm.calls) == 2


def test_a_reply_that_cannot_be_read_stores_nothing_and_says_so(learning: Learning) -> None:
    keeper = learning(ScriptedLLM(["Sorry, I can't extract facts from this."]))
    with pytest.raises(Unreadable, match="could not be read"):
        keeper.extract(TALK)
    assert keeper.changes() == []


def test_without_a_model_extraction_says_what_to_set(learning: Learning) -> None:
    with pytest.raises(NotConfigured, match="EXTRACT_PROVIDER"):
        learning().extract(TALK)


def test_when_the_second_question_fails_the_facts_are_not_lost(learning: Learning) -> None:
    keeper = learning()
    keeper.add("The shop uses Prisma as its ORM today", source=SOURCE)
    llm = ScriptedLLM([facts("The shop uses Prisma with an ORM layer"), Unavailable("down", "wait")])
    learned = learning(llm).extract(TALK, source=SOURCE)
    assert len(learned.actions) == 1
    assert learned.actions[0]["action"] in ("add", "noop", "update")
    assert "down" in learned.reason


class _Meddling(ScriptedLLM):
    """While it thinks, somebody else archives the memory that it decides about."""

    keeper: Keeper
    doomed: int

    def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
        reply = super().complete(system, user, schema=schema)
        if len(self.calls) == 2:
            self.keeper.delete(self.doomed)
        return reply


@pytest.mark.parametrize(("action", "expected"), [("UPDATE", "add"), ("NOOP", "add"), ("DELETE", "error")])
def test_a_memory_that_went_meanwhile_spoils_only_what_was_decided_about_it(
    learning: Learning, action: str, expected: str
) -> None:
    keeper = learning()
    doomed = keeper.add("The shop uses Prisma as its ORM", source=SOURCE).memory_id
    llm = _Meddling(
        [
            facts("The shop uses Drizzle as its ORM", "Deployments go through Fly machines"),
            decisions({"fact": "f1", "action": action, "memory": "m1", "text": None}),
        ]
    )
    llm.keeper, llm.doomed = keeper, doomed
    learned = learning(llm).extract(TALK, source=SOURCE)
    assert [each["action"] for each in learned.actions] == [expected, "add"]


def test_a_dry_run_asks_and_writes_nothing(learning: Learning) -> None:
    keeper = learning(ScriptedLLM([facts("Uses Drizzle ORM")]))
    learned = keeper.extract(TALK, dry_run=True)
    assert [(action["action"], action["id"]) for action in learned.actions] == [("add", None)]
    assert keeper.changes() == []


def test_every_exchange_is_told_with_how_and_how_long(learning: Learning) -> None:
    keeper = learning(ScriptedLLM([facts("Uses Drizzle ORM")]))
    heard = []
    keeper.on_learned(heard.append)
    keeper.extract(TALK)
    keeper.capture("I prefer tabs over spaces.", wait=True)
    keeper.learn("I prefer spaces.", dry_run=True)
    assert [(each.method, each.dry_run) for each in heard] == [("llm", False), ("pattern", False), ("pattern", True)]
    assert all(each.seconds > 0 for each in heard)


def test_of_what_the_model_says_in_one_reply_the_last_word_stands_also_where_it_may_not_reconcile(
    learning: Learning,
) -> None:
    llm = ScriptedLLM([facts("The staging port is 8080", "The staging port is 9090")], reconciles=False)
    keeper = learning(llm, judge=ValueJudge())
    keeper.extract("User: the staging port is 8080, no, the staging port is 9090", source=SOURCE)
    assert [memory.text for memory in keeper] == ["The staging port is 9090"]


def test_what_became_known_while_the_model_was_thinking_is_not_added_twice(learning: Learning) -> None:
    keeper = learning()
    keeper.add("The shop uses Prisma as its ORM", source=SOURCE)

    class Slow(ScriptedLLM):
        def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
            reply = super().complete(system, user, schema=schema)
            if len(self.calls) == 2:
                keeper.add("The shop uses Drizzle in its reports", source=SOURCE)
            return reply

    told = decisions({"fact": "f1", "action": "ADD", "memory": None, "text": None})
    learned = learning(Slow([facts("The shop uses Drizzle in its reports"), told])).extract(TALK, source=SOURCE)
    assert [action["action"] for action in learned.actions] == ["noop"]


def test_with_a_wrong_key_a_capture_waits_and_is_read_by_the_model_later(learning: Learning) -> None:
    said = "I prefer tabs over spaces. Our team decided to adopt microservices."
    found = facts("User prefers tabs over spaces", "The team adopts microservices")
    keeper = learning(ScriptedLLM([Misconfigured("The key is refused.", "Set ANTHROPIC_API_KEY."), found]))
    captured = keeper.capture(said, wait=True)
    assert captured.state == "pending"
    assert "The key is refused." in captured.reason
    assert [memory.text for memory in keeper] == ["User prefers tabs over spaces"]
    assert keeper.inbox_status().pending == 1
    keeper.services.captures.process(keeper.item(captured.id))
    assert keeper.item(captured.id).state == "stored"
    assert {memory.text for memory in keeper} == {"The team adopts microservices", "User prefers tabs over spaces"}


@pytest.mark.parametrize("action", ["UPDATE", "DELETE"])
def test_an_assistants_words_replace_no_memory(learning: Learning, action: str) -> None:
    keeper = learning()
    mine = keeper.add("The shop uses Prisma as its ORM", source=SOURCE).memory_id
    told = decisions({"fact": "f1", "action": action, "memory": "m1", "text": None})
    llm = ScriptedLLM([facts("The shop uses Drizzle as its ORM", said_by="assistant"), told])
    taught = learning(llm)
    taught.extract(TALK, source=SOURCE)
    assert len(llm.calls) == 2
    assert not taught.get(mine).archived


@pytest.mark.parametrize(
    ("decision", "left"),
    [
        ({"action": "DELETE", "memory": "m1", "text": None}, set()),
        ({"action": "UPDATE", "memory": "m1", "text": None}, set()),
        ({"action": "UPDATE", "memory": "m1", "text": "The shop uses Redis"}, {"The shop uses Redis"}),
        ({"action": "UPDATE", "memory": "m1", "text": "The shop uses Valkey"}, set()),
        ({"action": "ADD", "memory": None, "text": None}, {"The shop uses Redis and Solr"}),
    ],
)
def test_a_retraction_ends_a_memory_and_is_not_stored(
    learning: Learning, decision: dict[str, Any], left: set[str]
) -> None:
    learning().add("The shop uses Redis and Solr", source=SOURCE)
    llm = ScriptedLLM([facts("The shop does not use Solr", kind="retraction"), decisions({"fact": "f1", **decision})])
    keeper = learning(llm)
    keeper.extract("User: drop solr", source=SOURCE)
    assert '"kind": "retraction"' in llm.calls[1][1]
    assert {memory.text for memory in keeper} == left


def test_a_retraction_of_what_is_not_known_is_not_stored(learning: Learning) -> None:
    keeper = learning(ScriptedLLM([facts("The shop does not use Solr", kind="retraction")]))
    learned = keeper.extract("User: drop solr", source=SOURCE)
    assert [action["action"] for action in learned.actions] == ["rejected"]
    assert not list(keeper)


def test_the_model_is_shown_the_turns_before_and_related_memories(learning: Learning) -> None:
    llm = ScriptedLLM(["[]", "[]", "[]"])
    keeper = learning(llm)
    keeper.add("The staging port is 8080", source=SOURCE)
    where: dict[str, Any] = {"source": SOURCE, "client": "claude-code", "context": "pre_compact", "wait": True}
    keeper.capture("Who owns the staging port?", session="s1", turn="1", **where)
    keeper.capture("Something else entirely", session="s2", turn="1", **where)
    keeper.capture("the staging port moved", session="s1", turn="2", **where)
    *_, (_, user, _) = llm.calls
    earlier = user.partition("<earlier>")[2].partition("</earlier>")[0]
    assert "Who owns the staging port?" in earlier
    assert "Something else" not in user
    assert "- The staging port is 8080" in user.partition("</known>")[0]


def test_turns_of_another_project_or_visibility_are_not_shown(learning: Learning) -> None:
    llm = ScriptedLLM(["[]", "[]", "[]"])
    keeper = learning(llm)
    where: dict[str, Any] = {"source": SOURCE, "client": "claude-code", "session": "s1", "context": "pre_compact"}
    keeper.capture("The launch code is tulip", project="p1", turn="1", wait=True, **where)
    for number, other in enumerate(({"project": "p2"}, {"project": "p1", "visibility": "global"}), 2):
        keeper.capture("What comes next?", turn=str(number), wait=True, **where, **other)
        assert "tulip" not in llm.calls[-1][1]


def test_further_memories_that_a_fact_makes_untrue_are_archived_in_the_same_changeset(by_value: Keeper) -> None:
    keeper = by_value
    old = [
        keeper.add(text, source=SOURCE, dedup=False).memory_id
        for text in ("The staging port is 8080", "Port of staging is 7070")
    ]
    captured = keeper.capture("The staging port is 9090.", wait=True, source=SOURCE)
    assert sorted(each["action"] for each in captured.result["actions"]) == ["delete", "update"]
    assert all(keeper.get(each).archived for each in old)
    assert [memory.text for memory in keeper] == ["The staging port is 9090"]
    keeper.undo(captured.result["changeset"])
    assert sorted(memory.id for memory in keeper) == sorted(old)


def test_what_two_facts_make_untrue_is_retired_once(learning: Learning) -> None:
    keeper = learning()
    for text in ("The staging port is 8080", "Port of staging is 7070", "The port for staging is 6060"):
        keeper.add(text, source=SOURCE, dedup=False)
    llm = ScriptedLLM([facts("The staging port is 9090", "The staging port is 9191"), "no decisions, sorry"])
    learned = learning(llm).extract("User: the staging port is 9090, then 9191", source=SOURCE)
    assert not [action for action in learned.actions if action["action"] == "error"]
    gone = [action["old_id"] for action in learned.actions if "old_id" in action]
    assert len(gone) == len(set(gone))


@pytest.mark.parametrize("change", [{"pinned": True}, {"text": "The shop uses Prisma 7 as its ORM"}])
@pytest.mark.parametrize("action", ["UPDATE", "DELETE"])
def test_a_memory_that_a_person_pins_or_edits_meanwhile_is_left_alone(
    learning: Learning, change: dict[str, Any], action: str
) -> None:
    keeper = learning()
    mine = keeper.add("The shop uses Prisma as its ORM", source=SOURCE).memory_id

    class Slow(ScriptedLLM):
        def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
            reply = super().complete(system, user, schema=schema)
            if len(self.calls) == 2:
                keeper.update(mine, **change)
            return reply

    told = decisions({"fact": "f1", "action": action, "memory": "m1", "text": None})
    taught = learning(Slow([facts("The shop drops its ORM layer for reports"), told]))
    taught.extract(TALK, source=SOURCE)
    assert not taught.get(mine).archived


def test_a_further_retirement_gives_way_to_what_another_fact_says_of_the_memory() -> None:
    gone = (Delete(1, "out of date"), Delete(2, "out of date"), Delete(3, "out of date"))
    fact = Fact(text="The staging port is 9090")
    batch = _ExchangeFacts(Exchange(messages=()), [], [fact] * 3, None, MemoryStore(FixedClock()))
    batch.settled = [
        FactOutcome(fact=fact, decision=Noop(3), also=gone[:2]),
        FactOutcome(fact=fact, decision=Update(2, fact), also=()),
        FactOutcome(fact=fact, decision=Add(fact), also=gone),
    ]
    batch.retire_each_once()
    assert [[each.id for each in one.also] for one in batch.settled] == [[1], [], []]
