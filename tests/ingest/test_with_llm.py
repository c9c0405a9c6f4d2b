"""Learning with an LLM: at most two calls per exchange, and one changeset."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import Misconfigured, NotConfigured, Unavailable, Unreadable
from cofio.ingest.exchange_facts import ExchangeFacts
from cofio.models.exchange import Exchange, FactOutcome
from cofio.models.memory import Add, Delete, Fact, Noop, Update
from cofio.ports import LLM, Completion
from cofio.testing import FixedClock, MemoryStore, ScriptedLLM
from tests.ingest.conftest import KeeperFactory
from tests.judges import ValueJudge

SOURCE = "claude-code/shop"
TALK = "User: use drizzle\nAssistant: Done, Drizzle it is."


def facts(*texts: str, **fields: Any) -> str:
    return json.dumps({"facts": [{"text": text, "category": "decision", **fields} for text in texts]})


def decisions(*items: dict[str, Any]) -> str:
    return json.dumps({"decisions": list(items)})


def test_facts_are_added_updated_deleted_and_noted_in_one_changeset(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    memory_ids = [
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
    llm_keeper = make_keeper(_ordinals(llm, keeper, memory_ids))
    result = llm_keeper.extract(TALK, source=SOURCE).as_dict()
    counts = {name: result[f"{name}_count"] for name in ("extracted", "stored", "updated", "deleted", "noop")}
    assert counts == {"extracted": 4, "stored": 1, "updated": 1, "deleted": 1, "noop": 1}
    update, noop, delete, add = result["actions"]
    assert (update["action"], update["old_id"]) == ("update", memory_ids[0])
    assert llm_keeper.get(update["new_id"]).previous_text == "The shop uses Prisma as its ORM"
    assert (noop["action"], noop["existing_id"]) == ("noop", memory_ids[1])
    assert (delete["action"], delete["old_id"]) == ("delete", memory_ids[2])
    assert llm_keeper.get(memory_ids[2]).archived
    assert llm_keeper.get(add["id"]).method == "llm"
    assert len(llm_keeper.changeset(result["changeset"]).changes) == 5
    assert result["usage"]["calls"] == 2
    assert len(llm.calls) == 2
    llm_keeper.undo(result["changeset"])
    assert sorted(memory.id for memory in llm_keeper) == sorted(memory_ids)


class _OrdinalLLM:
    """Rename m1, m2, … in the script to the names that the prompt gives the known memories."""

    def __init__(self, llm: ScriptedLLM, texts: list[str]) -> None:
        self._llm, self._texts = llm, texts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._llm, name)

    def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
        reply = self._llm.complete(system, user, schema=schema)
        text = reply.text
        for number, known_text in enumerate(self._texts, 1):
            shown = next((line for line in user.splitlines() if known_text in line), "")
            ordinal = next((word.strip('",:[](){}') for word in shown.split() if _is_ordinal(word)), f"m{number}")
            text = text.replace(f'"m{number}"', f'"<{ordinal}>"')
        return reply._replace(text=text.replace('"<', '"').replace('>"', '"'))


def _is_ordinal(word: str) -> bool:
    plain = word.strip('",:[](){}')
    return plain[:1] == "m" and plain[1:].isdigit()


def _ordinals(llm: ScriptedLLM, keeper: Keeper, memory_ids: list[int]) -> LLM:
    wrapped: Any = _OrdinalLLM(llm, [keeper.get(memory_id).text for memory_id in memory_ids])
    return wrapped  # type: ignore[no-any-return]


def test_llm_is_not_called_if_patterns_match_everything(make_keeper: KeeperFactory) -> None:
    llm = ScriptedLLM([])
    captured = make_keeper(llm).capture("Hi! I prefer tabs over spaces.", wait=True)
    assert captured.state == "stored"
    assert llm.calls == []


def test_better_wording_by_the_llm_replaces_the_pattern_fact(make_keeper: KeeperFactory) -> None:
    text = "I prefer tabs over spaces. Our team decided to adopt microservices for scalability."
    llm = ScriptedLLM([facts("User prefers tabs over spaces in every language", "The team adopts microservices")])
    keeper = make_keeper(llm)
    keeper.capture(text, wait=True)
    assert sorted(memory.text for memory in keeper) == [
        "The team adopts microservices",
        "User prefers tabs over spaces in every language",
    ]


def test_fact_omitted_by_the_llm_is_not_stored(make_keeper: KeeperFactory) -> None:
    text = "I prefer tabs over spaces. Our team decided to adopt microservices for scalability."
    keeper = make_keeper(ScriptedLLM([facts("The team adopts microservices")]))
    keeper.capture(text, wait=True)
    assert {memory.text for memory in keeper} == {"The team adopts microservices"}


def test_truncated_reply_keeps_pattern_facts(make_keeper: KeeperFactory) -> None:
    text = "I prefer tabs over spaces. Our team decided to adopt microservices for scalability."
    keeper = make_keeper(ScriptedLLM([Completion(facts("The team adopts microservices")[:-2], truncated=True)]))
    keeper.capture(text, wait=True)
    assert {memory.text for memory in keeper} == {"The team adopts microservices", "User prefers tabs over spaces"}


def test_pre_compact_capture_is_read_by_the_llm_without_the_gate(make_keeper: KeeperFactory) -> None:
    llm = ScriptedLLM([facts("The retry queue lives in Redis")])
    keeper = make_keeper(llm)
    text = "The queue thing we looked at, with Redis behind it"
    keeper.capture(text, wait=True, context="pre_compact")
    assert [memory.text for memory in keeper] == ["The retry queue lives in Redis"]
    assert "everything" in llm.calls[0][0].lower()


def test_llm_that_cannot_reconcile_is_called_once_and_known_facts_are_noted(make_keeper: KeeperFactory) -> None:
    llm = ScriptedLLM([facts("Uses Drizzle ORM"), facts("Uses Drizzle ORM")], reconciles=False)
    keeper = make_keeper(llm)
    assert keeper.extract(TALK, source=SOURCE).count("add") == 1
    assert keeper.extract(TALK, source=SOURCE).count("noop") == 1
    assert len(llm.calls) == 2


def test_unreadable_reply_raises_and_stores_nothing(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper(ScriptedLLM(["Sorry, I can't extract facts from this."]))
    with pytest.raises(Unreadable, match="could not be read"):
        keeper.extract(TALK)
    assert keeper.changes() == []


def test_extraction_without_an_llm_names_the_setting(make_keeper: KeeperFactory) -> None:
    with pytest.raises(NotConfigured, match="EXTRACT_PROVIDER"):
        make_keeper().extract(TALK)


def test_facts_are_stored_if_the_reconciliation_call_fails(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    keeper.add("The shop uses Prisma as its ORM today", source=SOURCE)
    llm = ScriptedLLM([facts("The shop uses Prisma with an ORM layer"), Unavailable("down", "wait")])
    learned = make_keeper(llm).extract(TALK, source=SOURCE)
    assert len(learned.actions) == 1
    assert learned.actions[0]["action"] in ("add", "noop", "update")
    assert "down" in learned.reason


class _InterferingLLM(ScriptedLLM):
    """Archive a memory during the call that decides about it."""

    keeper: Keeper
    memory_id: int

    def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
        reply = super().complete(system, user, schema=schema)
        if len(self.calls) == 2:
            self.keeper.delete(self.memory_id)
        return reply


@pytest.mark.parametrize(("action", "expected"), [("UPDATE", "add"), ("NOOP", "add"), ("DELETE", "error")])
def test_memory_archived_during_the_call_affects_only_its_own_decision(
    make_keeper: KeeperFactory, action: str, expected: str
) -> None:
    keeper = make_keeper()
    memory_id = keeper.add("The shop uses Prisma as its ORM", source=SOURCE).memory_id
    llm = _InterferingLLM(
        [
            facts("The shop uses Drizzle as its ORM", "Deployments go through Fly machines"),
            decisions({"fact": "f1", "action": action, "memory": "m1", "text": None}),
        ]
    )
    llm.keeper, llm.memory_id = keeper, memory_id
    learned = make_keeper(llm).extract(TALK, source=SOURCE)
    assert [performed["action"] for performed in learned.actions] == [expected, "add"]


def test_dry_run_calls_the_llm_and_writes_nothing(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper(ScriptedLLM([facts("Uses Drizzle ORM")]))
    learned = keeper.extract(TALK, dry_run=True)
    assert [(action["action"], action["id"]) for action in learned.actions] == [("add", None)]
    assert keeper.changes() == []


def test_listeners_receive_method_and_duration_of_every_exchange(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper(ScriptedLLM([facts("Uses Drizzle ORM")]))
    results = []
    keeper.on_learned(results.append)
    keeper.extract(TALK)
    keeper.capture("I prefer tabs over spaces.", wait=True)
    keeper.learn("I prefer spaces.", dry_run=True)
    assert [(result.method, result.dry_run) for result in results] == [
        ("llm", False),
        ("pattern", False),
        ("pattern", True),
    ]
    assert all(result.seconds > 0 for result in results)


def test_last_of_contradictory_facts_in_one_reply_is_stored_without_reconciliation(
    make_keeper: KeeperFactory,
) -> None:
    llm = ScriptedLLM([facts("The staging port is 8080", "The staging port is 9090")], reconciles=False)
    keeper = make_keeper(llm, judge=ValueJudge())
    keeper.extract("User: the staging port is 8080, no, the staging port is 9090", source=SOURCE)
    assert [memory.text for memory in keeper] == ["The staging port is 9090"]


def test_memory_added_during_the_call_is_not_duplicated(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    keeper.add("The shop uses Prisma as its ORM", source=SOURCE)

    class SlowLLM(ScriptedLLM):
        def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
            reply = super().complete(system, user, schema=schema)
            if len(self.calls) == 2:
                keeper.add("The shop uses Drizzle in its reports", source=SOURCE)
            return reply

    decision = decisions({"fact": "f1", "action": "ADD", "memory": None, "text": None})
    learned = make_keeper(SlowLLM([facts("The shop uses Drizzle in its reports"), decision])).extract(
        TALK, source=SOURCE
    )
    assert [action["action"] for action in learned.actions] == ["noop"]


def test_capture_waits_while_the_key_is_rejected(make_keeper: KeeperFactory) -> None:
    text = "I prefer tabs over spaces. Our team decided to adopt microservices."
    extracted = facts("User prefers tabs over spaces", "The team adopts microservices")
    keeper = make_keeper(ScriptedLLM([Misconfigured("The key is refused.", "Set ANTHROPIC_API_KEY."), extracted]))
    captured = keeper.capture(text, wait=True)
    assert captured.state == "pending"
    assert "The key is refused." in captured.reason
    assert [memory.text for memory in keeper] == ["User prefers tabs over spaces"]
    assert keeper.inbox_status().pending == 1
    keeper.services.captures.process(keeper.item(captured.id))
    assert keeper.item(captured.id).state == "stored"
    assert {memory.text for memory in keeper} == {"The team adopts microservices", "User prefers tabs over spaces"}


@pytest.mark.parametrize("action", ["UPDATE", "DELETE"])
def test_assistant_statement_replaces_no_memory(make_keeper: KeeperFactory, action: str) -> None:
    keeper = make_keeper()
    memory_id = keeper.add("The shop uses Prisma as its ORM", source=SOURCE).memory_id
    decision = decisions({"fact": "f1", "action": action, "memory": "m1", "text": None})
    llm = ScriptedLLM([facts("The shop uses Drizzle as its ORM", said_by="assistant"), decision])
    llm_keeper = make_keeper(llm)
    llm_keeper.extract(TALK, source=SOURCE)
    assert len(llm.calls) == 2
    assert not llm_keeper.get(memory_id).archived


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        ({"action": "DELETE", "memory": "m1", "text": None}, set()),
        ({"action": "UPDATE", "memory": "m1", "text": None}, set()),
        ({"action": "UPDATE", "memory": "m1", "text": "The shop uses Redis"}, {"The shop uses Redis"}),
        ({"action": "UPDATE", "memory": "m1", "text": "The shop uses Valkey"}, set()),
        ({"action": "ADD", "memory": None, "text": None}, {"The shop uses Redis and Solr"}),
    ],
)
def test_retraction_ends_a_memory_and_is_not_stored(
    make_keeper: KeeperFactory, decision: dict[str, Any], expected: set[str]
) -> None:
    make_keeper().add("The shop uses Redis and Solr", source=SOURCE)
    llm = ScriptedLLM([facts("The shop does not use Solr", kind="retraction"), decisions({"fact": "f1", **decision})])
    keeper = make_keeper(llm)
    keeper.extract("User: drop solr", source=SOURCE)
    assert '"kind": "retraction"' in llm.calls[1][1]
    assert {memory.text for memory in keeper} == expected


def test_retraction_without_a_matching_memory_is_rejected(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper(ScriptedLLM([facts("The shop does not use Solr", kind="retraction")]))
    learned = keeper.extract("User: drop solr", source=SOURCE)
    assert [action["action"] for action in learned.actions] == ["rejected"]
    assert not list(keeper)


def test_prompt_includes_earlier_turns_and_related_memories(make_keeper: KeeperFactory) -> None:
    llm = ScriptedLLM(["[]", "[]", "[]"])
    keeper = make_keeper(llm)
    keeper.add("The staging port is 8080", source=SOURCE)
    arguments: dict[str, Any] = {"source": SOURCE, "client": "claude-code", "context": "pre_compact", "wait": True}
    keeper.capture("Who owns the staging port?", session="s1", turn="1", **arguments)
    keeper.capture("Something else entirely", session="s2", turn="1", **arguments)
    keeper.capture("the staging port moved", session="s1", turn="2", **arguments)
    *_, (_, user, _) = llm.calls
    earlier = user.partition("<earlier>")[2].partition("</earlier>")[0]
    assert "Who owns the staging port?" in earlier
    assert "Something else" not in user
    assert "- The staging port is 8080" in user.partition("</known>")[0]


def test_prompt_excludes_turns_of_other_projects_or_visibilities(make_keeper: KeeperFactory) -> None:
    llm = ScriptedLLM(["[]", "[]", "[]"])
    keeper = make_keeper(llm)
    arguments: dict[str, Any] = {"source": SOURCE, "client": "claude-code", "session": "s1", "context": "pre_compact"}
    keeper.capture("The launch code is tulip", project="p1", turn="1", wait=True, **arguments)
    for number, scope in enumerate(({"project": "p2"}, {"project": "p1", "visibility": "global"}), 2):
        keeper.capture("What comes next?", turn=str(number), wait=True, **arguments, **scope)
        assert "tulip" not in llm.calls[-1][1]


def test_all_outdated_memories_are_archived_in_one_changeset(value_keeper: Keeper) -> None:
    keeper = value_keeper
    memory_ids = [
        keeper.add(text, source=SOURCE, dedup=False).memory_id
        for text in ("The staging port is 8080", "Port of staging is 7070")
    ]
    captured = keeper.capture("The staging port is 9090.", wait=True, source=SOURCE)
    assert sorted(performed["action"] for performed in captured.result["actions"]) == ["delete", "update"]
    assert all(keeper.get(memory_id).archived for memory_id in memory_ids)
    assert [memory.text for memory in keeper] == ["The staging port is 9090"]
    keeper.undo(captured.result["changeset"])
    assert sorted(memory.id for memory in keeper) == sorted(memory_ids)


def test_memory_outdated_by_two_facts_is_archived_once(make_keeper: KeeperFactory) -> None:
    keeper = make_keeper()
    for text in ("The staging port is 8080", "Port of staging is 7070", "The port for staging is 6060"):
        keeper.add(text, source=SOURCE, dedup=False)
    llm = ScriptedLLM([facts("The staging port is 9090", "The staging port is 9191"), "no decisions, sorry"])
    learned = make_keeper(llm).extract("User: the staging port is 9090, then 9191", source=SOURCE)
    assert not [action for action in learned.actions if action["action"] == "error"]
    archived_ids = [action["old_id"] for action in learned.actions if "old_id" in action]
    assert len(archived_ids) == len(set(archived_ids))


@pytest.mark.parametrize("change", [{"pinned": True}, {"text": "The shop uses Prisma 7 as its ORM"}])
@pytest.mark.parametrize("action", ["UPDATE", "DELETE"])
def test_memory_pinned_or_edited_during_the_call_is_unchanged(
    make_keeper: KeeperFactory, change: dict[str, Any], action: str
) -> None:
    keeper = make_keeper()
    memory_id = keeper.add("The shop uses Prisma as its ORM", source=SOURCE).memory_id

    class SlowLLM(ScriptedLLM):
        def complete(self, system: str, user: str, *, schema: Any = None) -> Completion:
            reply = super().complete(system, user, schema=schema)
            if len(self.calls) == 2:
                keeper.update(memory_id, **change)
            return reply

    decision = decisions({"fact": "f1", "action": action, "memory": "m1", "text": None})
    llm_keeper = make_keeper(SlowLLM([facts("The shop drops its ORM layer for reports"), decision]))
    llm_keeper.extract(TALK, source=SOURCE)
    assert not llm_keeper.get(memory_id).archived


def test_decision_about_a_memory_precedes_its_retirement_by_another_fact() -> None:
    deletions = (Delete(1, "out of date"), Delete(2, "out of date"), Delete(3, "out of date"))
    fact = Fact(text="The staging port is 9090")
    batch = ExchangeFacts(Exchange(messages=()), [], [fact] * 3, None, MemoryStore(FixedClock()))
    batch.settled = [
        FactOutcome(fact=fact, decision=Noop(3), also=deletions[:2]),
        FactOutcome(fact=fact, decision=Update(2, fact), also=()),
        FactOutcome(fact=fact, decision=Add(fact), also=deletions),
    ]
    batch.drop_repeated_retirements()
    assert [[deletion.id for deletion in outcome.also] for outcome in batch.settled] == [[1], [], []]
