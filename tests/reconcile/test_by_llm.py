"""Decisions by an LLM about facts: parsing, validation, and what is applied."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from cofio.errors import CofioError, Misconfigured, Unavailable
from cofio.ingest.extract import by_llm as by_model
from cofio.ingest.reconcile import decide
from cofio.ingest.reconcile.by_llm import SCHEMA, SHOWN, decide_by_llm
from cofio.ingest.reconcile.compare import WordComparer
from cofio.models.exchange import Exchange, FactOutcome, LearningResult, Message, TokenUsage
from cofio.models.memory import Add, Delete, Fact, Noop, Occurrence, Update, to_plain
from cofio.ports import Completion, Profile, Store, Vector
from cofio.testing import ScriptedLLM
from cofio.text.duplicates import LONG
from tests.reconcile.fixtures import (
    DRIZZLE,
    NOW,
    PRISMA,
    SOURCE,
    answer,
    apply_outcomes,
    ask_llm,
    decisions_for,
    embed,
    fact,
    is_by_rule,
    live_memories,
    novelty_check,
    open_store,
    parse_rows,
    remember,
)


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store() as store:
        yield store


# ── The four decisions ────────────────────────────────────────────────────────────────────────────────────────────────


def test_fact_without_similar_memories_is_added_without_llm(store: Store) -> None:
    outcomes, problem, calls = ask_llm(store, [{"action": "ADD", "fact_index": 0}], "Uses Drizzle ORM")
    assert [outcome.action for outcome in outcomes] == ["add"]
    assert calls == []
    assert problem == ""


def test_new_fact_next_to_similar_memories_is_added(store: Store) -> None:
    remember(store, PRISMA)
    (added,) = decisions_for(store, [{"action": "ADD", "fact_index": 0}], "The project uses Redis as its cache")
    assert isinstance(added, Add)
    assert added.unless_known
    assert not is_by_rule(added)


@pytest.mark.parametrize(
    "reply",
    [
        [{"action": "NOOP", "fact_index": 0, "existing_id": "m1"}],
        [{"action": "noop", "fact_index": "0", "existing_id": 1}],
        {"decisions": [answer("f1", "NOOP", "m1")]},
        {"decisions": [answer("F1", " Noop ", "M1", "ignored")]},
        {"decisions": [answer(1, "NOOP", "1")]},
        {"action": "NOOP", "fact_index": "f1", "memory_id": "m1"},
        "```json\n" + json.dumps([answer("f1", "NOOP", "m1")]) + "\n```",
    ],
)
def test_known_fact_in_other_words_is_recorded_as_occurrence(store: Store, reply: Any) -> None:
    (known,) = remember(store, fact("The project uses Drizzle as its ORM", agent="a", session="r"))
    (noop,) = decisions_for(store, reply, fact("As an ORM, Drizzle is used", agent="a", session="s"))
    assert isinstance(noop, Noop)
    assert not is_by_rule(noop)
    assert (noop.id, noop.occurrence) == (known, Occurrence("a", "s", ""))


@pytest.mark.parametrize(
    "reply",
    [
        [{"action": "UPDATE", "fact_index": 0, "old_id": "m1", "new_text": "Uses Drizzle ORM (switched from Prisma)"}],
        {"decisions": [answer("f1", "UPDATE", "m1", "Uses Drizzle ORM (switched from Prisma)")]},
    ],
)
def test_changed_fact_replaces_the_memory(store: Store, reply: Any) -> None:
    (old,) = remember(store, PRISMA)
    new = fact("Switched from Prisma to Drizzle ORM", kind="technology", entities=("Drizzle",))
    outcomes, _, _ = ask_llm(store, reply, new)
    update = outcomes[0].decision
    assert isinstance(update, Update)
    assert update.id == old
    assert update.fact == replace(new, text="Uses Drizzle ORM (switched from Prisma)")
    stored = apply_outcomes(store, outcomes).changes[0].memory
    assert (stored.supersedes, stored.previous_text) == (old, PRISMA)
    assert [memory.id for memory in live_memories(store)] == [stored.id]


def test_update_without_text_uses_the_text_of_the_fact(store: Store) -> None:
    remember(store, PRISMA)
    (update,) = decisions_for(store, [answer("f1", "UPDATE", "m1")], DRIZZLE)
    assert isinstance(update, Update)
    assert update.fact.text == DRIZZLE


def test_reworded_update_has_the_least_trusted_provenance_of_both(store: Store) -> None:
    remember(store, fact("Uses Prisma", provenance="pasted"))
    new = fact("Uses Drizzle", provenance="user")
    (own,) = decisions_for(store, [answer("f1", "UPDATE", "m1")], new)
    assert (own.fact.text, own.fact.provenance) == ("Uses Drizzle", "user")
    reply = [answer("f1", "UPDATE", "m1", "Uses Drizzle (switched from Prisma)")]
    (reworded,) = decisions_for(store, reply, new)
    assert reworded.fact.provenance == "pasted"


def test_contradicted_memory_is_archived_with_the_reason(store: Store) -> None:
    (old,) = remember(store, PRISMA)
    outcomes, _, _ = ask_llm(
        store, [{"action": "DELETE", "fact_index": 0, "old_id": "m1"}], "Prisma is no longer an ORM here"
    )
    assert isinstance(outcomes[0].decision, Delete)
    assert outcomes[0].decision.id == old
    assert "Prisma is no longer an ORM here" in outcomes[0].decision.reason
    apply_outcomes(store, outcomes)
    assert store.get([old])[0].archived


@pytest.mark.parametrize("order", [("DELETE", "ADD"), ("ADD", "DELETE")])
def test_delete_and_add_of_one_fact_are_an_update(store: Store, order: tuple[str, str]) -> None:
    (old,) = remember(store, PRISMA)
    reply = [answer("f1", action, "m1" if action == "DELETE" else None) for action in order]
    (update,) = decisions_for(store, reply, DRIZZLE)
    assert isinstance(update, Update)
    assert (update.id, update.fact.text) == (old, DRIZZLE)


def test_first_of_contradictory_decisions_is_used(store: Store) -> None:
    remember(store, PRISMA)
    (first,) = decisions_for(store, [answer("f1", "ADD"), answer("f1", "NOOP", "m1")], DRIZZLE)
    assert isinstance(first, Add)


# ── Decisions without the LLM ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["Uses Drizzle ORM", "uses  drizzle orm", "It uses the Drizzle ORM."])
def test_fact_known_in_the_same_words_is_decided_without_llm(store: Store, text: str) -> None:
    (known,) = remember(store, "Uses Drizzle ORM")
    outcomes, _, calls = ask_llm(store, "never read", text)
    assert isinstance(outcomes[0].decision, Noop)
    assert outcomes[0].decision.id == known
    assert calls == []


def test_overlong_text_known_verbatim_is_recorded_as_occurrence(store: Store) -> None:
    long_text = "The api listens on port 8080. " * (LONG // 20)
    (known,) = remember(store, long_text)
    (noop,) = decisions_for(store, "never read", long_text.upper())
    assert isinstance(noop, Noop)
    assert noop.id == known


def test_llm_that_cannot_reconcile_is_not_called(store: Store) -> None:
    (known,) = remember(store, "Existing fact about the build")
    checked: list[str] = []

    def novel(fact: Fact, vector: Vector) -> FactOutcome:
        checked.append(fact.text)
        return novelty_check(store)(fact, vector)

    new, old = "New fact about the tests", "Existing fact about the build"
    outcomes, problem, calls = ask_llm(store, "[]", new, old, reconciles=False, novel=novel)
    assert [outcome.action for outcome in outcomes] == ["add", "noop"]
    assert isinstance(outcomes[1].decision, Noop)
    assert outcomes[1].decision.id == known
    assert checked == [new, old]
    assert calls == []
    assert problem == ""


def test_no_facts_need_no_call(store: Store) -> None:
    assert ask_llm(store, "never read") == ([], "", [])


def test_memory_below_the_similarity_floor_is_not_a_candidate(store: Store) -> None:
    remember(store, PRISMA)
    outcomes, _, calls = ask_llm(store, "never read", "Deployments happen on Fridays", floor=0.6)
    assert outcomes[0].action == "add"
    assert calls == []


# ── The prompt ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_any_number_of_facts_needs_one_call(store: Store) -> None:
    remember(store, *(f"Service {name} listens on port {port}" for port, name in enumerate("abcdefghij", 8000)))
    new = [f"Service {name} now listens on port {port}" for port, name in enumerate("abcdefghij" * 5, 9000)]
    reply = [answer(f"f{number + 1}", "ADD") for number in range(len(new))]
    outcomes, problem, calls = ask_llm(store, reply, *new)
    assert len(calls) == 1
    assert [outcome.action for outcome in outcomes] == ["add"] * 50
    assert problem == ""


def test_prompt_contains_short_names_categories_kinds_and_similarities(store: Store) -> None:
    ids = remember(store, *(f"Service number {number} listens on a port" for number in range(50)))
    new = fact("Service number 7 listens on port 9090", category="detail", kind="technology")
    second = fact("Service number 7 listens for Ada", category="decision", kind="policy")
    _, _, calls = ask_llm(store, "[]", new, second)
    system, user, schema = calls[0]
    assert schema == SCHEMA
    assert all(action in system for action in ("ADD", "UPDATE", "DELETE", "NOOP"))
    memories, facts = parse_rows(user, "memories"), parse_rows(user, "facts")
    assert [memory["memory"] for memory in memories] == [f"m{number}" for number in range(1, len(memories) + 1)]
    assert [(row["fact"], row["category"], row["kind"]) for row in facts] == [
        ("f1", "detail", "technology"),
        ("f2", "decision", "policy"),
    ]
    by_name = {memory["memory"]: memory["text"] for memory in memories}
    for row, new_fact in zip(facts, (new, second), strict=True):
        assert len(row["similar"]) == SHOWN
        for similar in row["similar"]:
            cosine = float(embed([by_name[similar["memory"]]])[0] @ embed([new_fact.text])[0])
            assert similar["similarity"] == pytest.approx(cosine, abs=0.0006)
            assert len(str(similar["similarity"])) <= len("0.123")
    assert len(memories) < 2 * SHOWN  # memories similar to both are sent once
    assert len(ids) == 50


def test_database_ids_are_not_sent(store: Store) -> None:
    remember(store, *(f"Filler about {number} things" for number in range(300)))
    (known,) = remember(store, fact("The api listens on a port", source="elsewhere"))
    _, _, calls = ask_llm(store, "[]", fact("The api listens on another port", source="elsewhere"))
    assert str(known) not in calls[0][1]


def test_only_live_memories_of_the_same_scope_are_sent(store: Store) -> None:
    scopes: list[dict[str, Any]] = [
        {},
        {"source": "other/project"},
        {"visibility": "team"},
        {"agent": "somebody else"},
        {"speaker": "Ada"},
    ]
    ids = remember(
        store, *(fact(f"The api listens on port {port}", **fields) for port, fields in enumerate(scopes, 8080))
    )
    (archived,) = remember(store, "The api listens on port 7070")
    store.apply([Delete(archived)], {}, by="t", why="t")
    _, _, calls = ask_llm(store, "[]", "The api listens on port 9090")
    assert [row["text"] for row in parse_rows(calls[0][1], "memories")] == ["The api listens on port 8080"]
    assert len(ids) == 5


def test_overlong_memory_is_not_sent_and_not_replaced(store: Store) -> None:
    long_text = "The api listens on port 8080. " + "And more about the api. " * (LONG // 20)
    (known,) = remember(store, long_text)
    outcomes, _, calls = ask_llm(store, [answer("f1", "UPDATE", "m1")], "The api listens on port 9090")
    assert calls == []
    assert outcomes[0].action == "add"
    apply_outcomes(store, outcomes)
    assert not store.get([known])[0].archived


def test_schema_is_sent_only_if_the_model_supports_it(store: Store) -> None:
    remember(store, PRISMA)
    llm = ScriptedLLM(["[]"])
    llm.profile = Profile(json_schema=False, reconciles=True, context=32_000)
    decide_by_llm(llm, [fact(DRIZZLE)], embed([DRIZZLE]), store, novel=novelty_check(store), now=NOW)
    assert llm.calls[0][2] is None


def test_facts_beyond_the_context_size_are_decided_without_llm(store: Store) -> None:
    remember(store, *(f"Service {number} listens on a port" + " indeed" * 140 for number in range(40)))
    new = [fact(f"Service {number} listens on port {number + 8000}") for number in range(40)]
    llm = ScriptedLLM([json.dumps([answer(f"f{number}", "ADD") for number in range(1, 41)])])
    llm.profile = Profile(json_schema=True, reconciles=True, context=4_000)
    outcomes, _, problem = decide_by_llm(
        llm, new, embed([new_fact.text for new_fact in new]), store, novel=novelty_check(store), now=NOW
    )
    assert len(llm.calls[0][0]) + len(llm.calls[0][1]) < 3 * 4_000
    assert 0 < sum(is_by_rule(outcome.decision) for outcome in outcomes) < 40
    assert "without a valid model decision" in problem


def test_fact_numbers_are_stable_if_others_are_decided_early(store: Store) -> None:
    remember(store, "TypeScript strict mode", PRISMA)
    reply = [answer("f1", "ADD"), answer("f2", "UPDATE", "m1")]
    outcomes, _, calls = ask_llm(store, reply, "TypeScript strict mode", DRIZZLE)
    assert [row["fact"] for row in parse_rows(calls[0][1], "facts")] == ["f2"]
    assert [outcome.action for outcome in outcomes] == ["noop", "update"]


# ── Several facts and one memory ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("first", ["UPDATE", "DELETE"])
@pytest.mark.parametrize("second", ["UPDATE", "DELETE", "NOOP"])
def test_first_of_two_facts_about_one_memory_changes_it(store: Store, first: str, second: str) -> None:
    (old,) = remember(store, "The api listens on port 8080")
    new = ["The api listens on port 9090 instead", "The api, on port 8080, listens"]
    outcomes, _, _ = ask_llm(store, [answer("f1", first, "m1"), answer("f2", second, "m1")], *new)
    assert outcomes[0].action == first.lower()
    assert isinstance(outcomes[1].decision, Add)
    apply_outcomes(store, outcomes)
    assert store.get([old])[0].archived
    assert new[1] in [memory.text for memory in live_memories(store)]


def test_fact_whose_memory_was_taken_is_checked_against_others(store: Store) -> None:
    _, other = remember(store, "The api listens on port 8080", "Ada says the api listens on port 7070")
    new = ["The api listens on port 9090 instead", "The api listens on port 7070, Ada says"]

    checked: list[str] = []

    def novel(fact: Fact, vector: Vector) -> FactOutcome:
        """Return Add before the model is asked, Noop afterwards."""
        checked.append(fact.text)
        if checked.count(fact.text) == 1:
            return FactOutcome(fact=fact, decision=Add(fact, "by rule: new"))
        return FactOutcome(fact=fact, decision=Noop(other, Occurrence(), "by rule: known"))

    outcomes, _, _ = ask_llm(store, [answer("f1", "UPDATE", "m1"), answer("f2", "UPDATE", "m1")], *new, novel=novel)
    assert [outcome.action for outcome in outcomes] == ["update", "noop"]


def test_memory_changed_by_the_novelty_check_is_not_changed_again(store: Store) -> None:
    (old,) = remember(store, "The api listens on port 8080")

    def novel(fact: Fact, vector: Vector) -> FactOutcome:
        return FactOutcome(fact=fact, decision=Update(old, fact, "by rule: corrects it"))

    new = [f"The api listens on port {port}" for port in (9090, 9091, 9092)]
    outcomes, _, _ = ask_llm(store, [answer("f3", "DELETE", "m1")], *new, novel=novel)
    assert [outcome.action for outcome in outcomes] == ["update", "add", "add"]
    apply_outcomes(store, outcomes)
    assert [memory.text for memory in live_memories(store)] == new


def test_memory_with_new_occurrence_may_be_changed_by_a_later_fact(store: Store) -> None:
    remember(store, "The api listens on port 8080")
    reply = [answer("f1", "NOOP", "m1"), answer("f2", "UPDATE", "m1")]
    outcomes, _, _ = ask_llm(store, reply, "Port 8080 is the api", "The api now listens on port 9090")
    assert [outcome.action for outcome in outcomes] == ["noop", "update"]
    apply_outcomes(store, outcomes)
    assert [memory.text for memory in live_memories(store)] == ["The api now listens on port 9090"]


# ── Failures ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_unreadable_reply_falls_back_to_the_novelty_check(store: Store) -> None:
    remember(store, PRISMA, "Redis caches the sessions")
    outcomes, problem, calls = ask_llm(
        store, "I would rather not.", DRIZZLE, "Redis caches the sessions now", "Ada is the owner"
    )
    assert len(calls) == 1
    assert all(is_by_rule(outcome.decision) for outcome in outcomes)
    assert problem == "the model's decisions could not be read; facts without a valid model decision: 3 of 3"


@pytest.mark.parametrize("truncated", [True, False])
def test_complete_decisions_of_a_truncated_reply_are_used(store: Store, truncated: bool) -> None:
    (old, _) = remember(store, PRISMA, "Redis caches the sessions")
    reply = '{"decisions": [' + json.dumps(answer("f1", "UPDATE", "m1")) + ', {"fact": "f2", "action": "DEL'
    outcomes, problem, _ = ask_llm(
        store, Completion(reply, truncated=truncated), DRIZZLE, "Redis caches the queries as well"
    )
    assert isinstance(outcomes[0].decision, Update)
    assert outcomes[0].decision.id == old
    assert is_by_rule(outcomes[1].decision)
    assert problem == "the model's decisions were cut off; facts without a valid model decision: 1 of 2"


@pytest.mark.parametrize("error", [Unavailable("The provider is down."), Misconfigured("The key is wrong.")])
def test_facts_are_kept_if_the_llm_call_fails(store: Store, error: CofioError) -> None:
    remember(store, PRISMA)
    outcomes, problem, _ = ask_llm(store, error, DRIZZLE)
    assert is_by_rule(outcomes[0].decision)
    assert problem == f"the model call for reconciliation failed: {error.message}"


def test_token_usage_is_returned(store: Store) -> None:
    remember(store, PRISMA)
    llm = ScriptedLLM([Completion("[]", usage=TokenUsage(1, 500, 20))])
    _, usage, _ = decide_by_llm(llm, [fact(DRIZZLE)], embed([DRIZZLE]), store, novel=novelty_check(store), now=NOW)
    assert usage == TokenUsage(1, 500, 20)


# ── From the conversation to the store ────────────────────────────────────────────────────────────────────────────────


def test_two_calls_turn_a_conversation_into_memories(store: Store) -> None:
    (strict, prisma) = remember(store, "TypeScript strict mode is on", PRISMA)
    llm = ScriptedLLM(
        [
            json.dumps(["Uses Drizzle ORM", "Strict mode of TypeScript is on"]),
            json.dumps([{"action": "ADD", "fact_index": 0}, {"action": "NOOP", "fact_index": 1, "existing_id": "m2"}]),
        ]
    )
    exchange = Exchange(messages=(Message("user", "use drizzle"), Message("assistant", "Done")), source=SOURCE)
    (extracted,) = by_model.facts(llm, [exchange]).found
    facts = [fact(item.text, category=item.category) for item in extracted]
    vectors = embed([item.text for item in facts])
    outcomes, usage, problem = decide_by_llm(llm, facts, vectors, store, novel=novelty_check(store), now=NOW)
    names = {row["text"]: row["memory"] for row in parse_rows(llm.calls[1][1], "memories")}
    assert names == {PRISMA: "m1", "TypeScript strict mode is on": "m2"}
    result = LearningResult(
        actions=tuple(to_plain(outcome.decision) for outcome in outcomes if outcome.decision), usage=usage
    ).as_dict()
    assert (result["extracted_count"], result["stored_count"], len(result["actions"])) == (2, 1, 2)
    assert (result["updated_count"], result["deleted_count"]) == (0, 0)
    assert len(llm.calls) == 2
    assert problem == ""
    apply_outcomes(store, outcomes)
    assert len(live_memories(store)) == 3
    assert {strict, prisma} <= {memory.id for memory in live_memories(store)}


def test_all_four_decisions_are_applied_in_one_transaction(store: Store) -> None:
    old = remember(
        store, PRISMA, "Redis caches the sessions", "Deploys happen on Fridays", "The api listens on port 8080"
    )
    new = [
        "The project uses Drizzle as its ORM",
        "Sessions are cached by Redis",
        "No deploys happen on Fridays any more",
    ]
    _, _, calls = ask_llm(store, "[]", *new, "The worker listens on port 9090")
    names = {row["text"]: row["memory"] for row in parse_rows(calls[0][1], "memories")}
    reply = [
        answer("f1", "UPDATE", names[PRISMA]),
        answer("f2", "NOOP", names["Redis caches the sessions"]),
        answer("f3", "DELETE", names["Deploys happen on Fridays"]),
        answer("f4", "ADD"),
    ]
    outcomes, problem, _ = ask_llm(store, reply, *new, "The worker listens on port 9090")
    assert problem == ""
    result = LearningResult(
        actions=tuple(to_plain(outcome.decision) for outcome in outcomes if outcome.decision)
    ).as_dict()
    assert [result[f"{name}_count"] for name in ("extracted", "stored", "updated", "deleted", "noop")] == [
        4,
        1,
        1,
        1,
        1,
    ]
    changeset = apply_outcomes(store, outcomes)
    assert [change.action for change in changeset.changes] == ["update", "delete", "noop", "delete", "add"]
    assert [memory.id for memory in store.get(old) if memory.archived] == [old[0], old[2]]
    assert store.get([old[1]])[0].occurrences == 2
    assert {memory.text for memory in live_memories(store)} == {
        "The project uses Drizzle as its ORM",
        "Redis caches the sessions",
        "The api listens on port 8080",
        "The worker listens on port 9090",
    }


# ── Projects ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_memories_of_the_project_are_sent_and_others_are_not(store: Store) -> None:
    own = fact(PRISMA, project="/srv/web", source="codex/web")
    remember(store, own, fact(PRISMA + ", they say", project="/srv/api"), PRISMA + ", as everybody does")
    reply = [answer("f1", "UPDATE", "m1")]
    outcomes, problem, calls = ask_llm(store, reply, fact(DRIZZLE, project="/srv/web", source="claude-code/web"))
    assert problem == ""
    assert [row["text"] for row in parse_rows(calls[0][1], "memories")] == [PRISMA]
    assert isinstance(outcomes[0].decision, Update)


@pytest.mark.parametrize("scope", [{}, {"visibility": "global", "project": "/srv/api"}])
def test_fact_known_globally_is_decided_without_llm(store: Store, scope: dict[str, str]) -> None:
    [known, _] = remember(store, fact(PRISMA, **scope), fact("The project uses Redis as its cache", project="/srv/web"))

    def by_rules(new_fact: Fact, vector: Vector) -> FactOutcome:
        return decide.decide_outcomes([new_fact], vector.reshape(1, -1), store, WordComparer(0.9), now=NOW)[0]

    outcomes, problem, calls = ask_llm(store, [], fact(PRISMA, project="/srv/web"), novel=by_rules)
    assert (calls, problem) == ([], "")
    assert isinstance(outcomes[0].decision, Noop)
    assert outcomes[0].decision.id == known
