"""What a model may decide about facts, and what becomes of them whatever it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
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
    PRISMA,
    SOURCE,
    answer,
    asked,
    by_rule,
    decided,
    done,
    embedded,
    fact,
    live,
    opened,
    remember,
    rows,
    without_a_model,
)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with opened(request.param, tmp_path) as store:
        yield store


# ── the four decisions ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fact_like_nothing_known_is_added_without_asking(store: Store) -> None:
    settled, problem, calls = asked(store, [{"action": "ADD", "fact_index": 0}], "Uses Drizzle ORM")
    assert [each.action for each in settled] == ["add"]
    assert calls == []
    assert problem == ""


def test_a_new_fact_beside_similar_ones_is_added(store: Store) -> None:
    remember(store, PRISMA)
    (added,) = decided(store, [{"action": "ADD", "fact_index": 0}], "The project uses Redis as its cache")
    assert isinstance(added, Add)
    assert added.unless_known
    assert not by_rule(added)


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
def test_a_fact_that_is_known_in_other_words_is_noted(store: Store, reply: Any) -> None:
    (kept,) = remember(store, fact("The project uses Drizzle as its ORM", agent="a", session="r"))
    (noted,) = decided(store, reply, fact("As an ORM, Drizzle is used", agent="a", session="s"))
    assert isinstance(noted, Noop)
    assert not by_rule(noted)
    assert (noted.id, noted.occurrence) == (kept, Occurrence("a", "s", ""))


@pytest.mark.parametrize(
    "reply",
    [
        [{"action": "UPDATE", "fact_index": 0, "old_id": "m1", "new_text": "Uses Drizzle ORM (switched from Prisma)"}],
        {"decisions": [answer("f1", "UPDATE", "m1", "Uses Drizzle ORM (switched from Prisma)")]},
    ],
)
def test_a_changed_fact_takes_the_old_ones_place(store: Store, reply: Any) -> None:
    (old,) = remember(store, PRISMA)
    new = fact("Switched from Prisma to Drizzle ORM", kind="technology", entities=("Drizzle",))
    settled, _, _ = asked(store, reply, new)
    changed = settled[0].decision
    assert isinstance(changed, Update)
    assert changed.id == old
    assert changed.fact == replace(new, text="Uses Drizzle ORM (switched from Prisma)")
    written = done(store, settled).changes[0].memory
    assert (written.supersedes, written.previous_text) == (old, PRISMA)
    assert [memory.id for memory in live(store)] == [written.id]


def test_an_update_without_a_text_keeps_the_facts_own(store: Store) -> None:
    remember(store, PRISMA)
    (changed,) = decided(store, [answer("f1", "UPDATE", "m1")], DRIZZLE)
    assert isinstance(changed, Update)
    assert changed.fact.text == DRIZZLE


def test_a_contradicted_memory_is_archived_with_the_reason(store: Store) -> None:
    (old,) = remember(store, PRISMA)
    settled, _, _ = asked(
        store, [{"action": "DELETE", "fact_index": 0, "old_id": "m1"}], "Prisma is no longer an ORM here"
    )
    assert isinstance(settled[0].decision, Delete)
    assert settled[0].decision.id == old
    assert "Prisma is no longer an ORM here" in settled[0].decision.reason
    done(store, settled)
    assert store.get([old])[0].archived


@pytest.mark.parametrize("order", [("DELETE", "ADD"), ("ADD", "DELETE")])
def test_to_delete_a_memory_and_add_the_fact_is_an_update(store: Store, order: tuple[str, str]) -> None:
    (old,) = remember(store, PRISMA)
    reply = [answer("f1", action, "m1" if action == "DELETE" else None) for action in order]
    (changed,) = decided(store, reply, DRIZZLE)
    assert isinstance(changed, Update)
    assert (changed.id, changed.fact.text) == (old, DRIZZLE)


def test_the_first_of_other_contradictory_decisions_counts(store: Store) -> None:
    remember(store, PRISMA)
    (first,) = decided(store, [answer("f1", "ADD"), answer("f1", "NOOP", "m1")], DRIZZLE)
    assert isinstance(first, Add)


# ── what is settled without the model ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["Uses Drizzle ORM", "uses  drizzle orm", "It uses the Drizzle ORM."])
def test_a_fact_known_in_the_same_words_is_settled_before_the_model(store: Store, text: str) -> None:
    (kept,) = remember(store, "Uses Drizzle ORM")
    settled, _, calls = asked(store, "never read", text)
    assert isinstance(settled[0].decision, Noop)
    assert settled[0].decision.id == kept
    assert calls == []


def test_a_text_known_word_for_word_is_noted_even_if_it_is_too_long_to_be_shown(store: Store) -> None:
    long = "The api listens on port 8080. " * (LONG // 20)
    (kept,) = remember(store, long)
    (noted,) = decided(store, "never read", long.upper())
    assert isinstance(noted, Noop)
    assert noted.id == kept


def test_a_model_that_cannot_reconcile_is_never_asked(store: Store) -> None:
    (kept,) = remember(store, "Existing fact about the build")
    seen: list[str] = []

    def novel(fact: Fact, vector: Vector) -> FactOutcome:
        seen.append(fact.text)
        return without_a_model(store)(fact, vector)

    new, old = "New fact about the tests", "Existing fact about the build"
    settled, problem, calls = asked(store, "[]", new, old, reconciles=False, novel=novel)
    assert [each.action for each in settled] == ["add", "noop"]
    assert isinstance(settled[1].decision, Noop)
    assert settled[1].decision.id == kept
    assert seen == [new, old]
    assert calls == []
    assert problem == ""


def test_no_facts_are_no_question(store: Store) -> None:
    assert asked(store, "never read") == ([], "", [])


def test_what_is_below_the_floor_is_not_similar(store: Store) -> None:
    remember(store, PRISMA)
    settled, _, calls = asked(store, "never read", "Deployments happen on Fridays", floor=0.6)
    assert settled[0].action == "add"
    assert calls == []


# ── the question ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_question_is_asked_for_any_number_of_facts(store: Store) -> None:
    remember(store, *(f"Service {name} listens on port {port}" for port, name in enumerate("abcdefghij", 8000)))
    new = [f"Service {name} now listens on port {port}" for port, name in enumerate("abcdefghij" * 5, 9000)]
    reply = [answer(f"f{number + 1}", "ADD") for number in range(len(new))]
    settled, problem, calls = asked(store, reply, *new)
    assert len(calls) == 1
    assert [each.action for each in settled] == ["add"] * 50
    assert problem == ""


def test_the_model_sees_short_names_categories_kinds_and_similarities(store: Store) -> None:
    ids = remember(store, *(f"Service number {number} listens on a port" for number in range(50)))
    new = fact("Service number 7 listens on port 9090", category="detail", kind="technology")
    other = fact("Service number 7 listens for Ada", category="decision", kind="policy")
    _, _, calls = asked(store, "[]", new, other)
    system, user, schema = calls[0]
    assert schema == SCHEMA
    assert all(action in system for action in ("ADD", "UPDATE", "DELETE", "NOOP"))
    memories, facts = rows(user, "memories"), rows(user, "facts")
    assert [memory["memory"] for memory in memories] == [f"m{number}" for number in range(1, len(memories) + 1)]
    assert [(each["fact"], each["category"], each["kind"]) for each in facts] == [
        ("f1", "detail", "technology"),
        ("f2", "decision", "policy"),
    ]
    by_name = {memory["memory"]: memory["text"] for memory in memories}
    for told, meant in zip(facts, (new, other), strict=True):
        assert len(told["similar"]) == SHOWN
        for each in told["similar"]:
            cosine = float(embedded([by_name[each["memory"]]])[0] @ embedded([meant.text])[0])
            assert each["similarity"] == pytest.approx(cosine, abs=0.0006)
            assert len(str(each["similarity"])) <= len("0.123")
    assert len(memories) < 2 * SHOWN  # some are similar to both, and shown once
    assert len(ids) == 50


def test_database_ids_are_not_shown(store: Store) -> None:
    remember(store, *(f"Filler about {number} things" for number in range(300)))
    (kept,) = remember(store, fact("The api listens on a port", source="elsewhere"))
    _, _, calls = asked(store, "[]", fact("The api listens on another port", source="elsewhere"))
    assert str(kept) not in calls[0][1]


def test_only_live_memories_of_the_same_place_are_shown(store: Store) -> None:
    about: list[dict[str, Any]] = [
        {},
        {"source": "other/project"},
        {"visibility": "team"},
        {"agent": "somebody else"},
        {"speaker": "Ada"},
    ]
    ids = remember(store, *(fact(f"The api listens on port {port}", **each) for port, each in enumerate(about, 8080)))
    (gone,) = remember(store, "The api listens on port 7070")
    store.apply([Delete(gone)], {}, by="t", why="t")
    _, _, calls = asked(store, "[]", "The api listens on port 9090")
    assert [row["text"] for row in rows(calls[0][1], "memories")] == ["The api listens on port 8080"]
    assert len(ids) == 5


def test_a_long_text_is_not_shown_and_so_never_replaced_by_one_fact(store: Store) -> None:
    long = "The api listens on port 8080. " + "And more about the api. " * (LONG // 20)
    (kept,) = remember(store, long)
    settled, _, calls = asked(store, [answer("f1", "UPDATE", "m1")], "The api listens on port 9090")
    assert calls == []
    assert settled[0].action == "add"
    done(store, settled)
    assert not store.get([kept])[0].archived


def test_the_schema_goes_along_only_where_the_model_can_be_held_to_it(store: Store) -> None:
    remember(store, PRISMA)
    llm = ScriptedLLM(["[]"])
    llm.profile = Profile(json_schema=False, reconciles=True, context=32_000)
    decide_by_llm(llm, [fact(DRIZZLE)], embedded([DRIZZLE]), store, novel=without_a_model(store))
    assert llm.calls[0][2] is None


def test_what_does_not_fit_into_the_models_context_is_settled_without_it(store: Store) -> None:
    remember(store, *(f"Service {number} listens on a port" + " indeed" * 140 for number in range(40)))
    new = [fact(f"Service {number} listens on port {number + 8000}") for number in range(40)]
    llm = ScriptedLLM([json.dumps([answer(f"f{number}", "ADD") for number in range(1, 41)])])
    llm.profile = Profile(json_schema=True, reconciles=True, context=4_000)
    settled, _, problem = decide_by_llm(
        llm, new, embedded([each.text for each in new]), store, novel=without_a_model(store)
    )
    assert len(llm.calls[0][0]) + len(llm.calls[0][1]) < 3 * 4_000
    assert 0 < sum(by_rule(each.decision) for each in settled) < 40
    assert "without a valid model decision" in problem


def test_a_fact_that_was_settled_early_keeps_its_number(store: Store) -> None:
    remember(store, "TypeScript strict mode", PRISMA)
    reply = [answer("f1", "ADD"), answer("f2", "UPDATE", "m1")]
    settled, _, calls = asked(store, reply, "TypeScript strict mode", DRIZZLE)
    assert [row["fact"] for row in rows(calls[0][1], "facts")] == ["f2"]
    assert [each.action for each in settled] == ["noop", "update"]


# ── several facts and one memory ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("first", ["UPDATE", "DELETE"])
@pytest.mark.parametrize("second", ["UPDATE", "DELETE", "NOOP"])
def test_of_two_facts_about_one_memory_the_first_has_it(store: Store, first: str, second: str) -> None:
    (old,) = remember(store, "The api listens on port 8080")
    new = ["The api listens on port 9090 instead", "The api, on port 8080, listens"]
    settled, _, _ = asked(store, [answer("f1", first, "m1"), answer("f2", second, "m1")], *new)
    assert settled[0].action == first.lower()
    assert isinstance(settled[1].decision, Add)
    done(store, settled)
    assert store.get([old])[0].archived
    assert new[1] in [memory.text for memory in live(store)]


def test_a_fact_that_comes_too_late_for_a_memory_may_be_known_from_another(store: Store) -> None:
    _, other = remember(store, "The api listens on port 8080", "Ada says the api listens on port 7070")
    new = ["The api listens on port 9090 instead", "The api listens on port 7070, Ada says"]

    checked: list[str] = []

    def novel(fact: Fact, vector: Vector) -> FactOutcome:
        """Return Add before the model is asked, Noop afterwards."""
        checked.append(fact.text)
        if checked.count(fact.text) == 1:
            return FactOutcome(fact=fact, decision=Add(fact, "by rule: new"))
        return FactOutcome(fact=fact, decision=Noop(other, Occurrence(), "by rule: known"))

    settled, _, _ = asked(store, [answer("f1", "UPDATE", "m1"), answer("f2", "UPDATE", "m1")], *new, novel=novel)
    assert [each.action for each in settled] == ["update", "noop"]


def test_what_the_check_without_a_model_changes_is_not_changed_again(store: Store) -> None:
    (old,) = remember(store, "The api listens on port 8080")

    def novel(fact: Fact, vector: Vector) -> FactOutcome:
        return FactOutcome(fact=fact, decision=Update(old, fact, "by rule: corrects it"))

    new = [f"The api listens on port {port}" for port in (9090, 9091, 9092)]
    settled, _, _ = asked(store, [answer("f3", "DELETE", "m1")], *new, novel=novel)
    assert [each.action for each in settled] == ["update", "add", "add"]
    done(store, settled)
    assert [memory.text for memory in live(store)] == new


def test_a_memory_noted_by_one_fact_may_still_be_changed_by_a_later_one(store: Store) -> None:
    remember(store, "The api listens on port 8080")
    reply = [answer("f1", "NOOP", "m1"), answer("f2", "UPDATE", "m1")]
    settled, _, _ = asked(store, reply, "Port 8080 is the api", "The api now listens on port 9090")
    assert [each.action for each in settled] == ["noop", "update"]
    done(store, settled)
    assert [memory.text for memory in live(store)] == ["The api now listens on port 9090"]


# ── when it goes wrong ────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_unreadable_reply_sends_every_fact_through_the_check_without_a_model(store: Store) -> None:
    remember(store, PRISMA, "Redis caches the sessions")
    settled, problem, calls = asked(
        store, "I would rather not.", DRIZZLE, "Redis caches the sessions now", "Ada is the owner"
    )
    assert len(calls) == 1
    assert all(by_rule(each.decision) for each in settled)
    assert problem == "the model's decisions could not be read; facts without a valid model decision: 3 of 3"


@pytest.mark.parametrize("truncated", [True, False])
def test_of_a_reply_that_was_cut_off_the_whole_decisions_count(store: Store, truncated: bool) -> None:
    (old, _) = remember(store, PRISMA, "Redis caches the sessions")
    reply = '{"decisions": [' + json.dumps(answer("f1", "UPDATE", "m1")) + ', {"fact": "f2", "action": "DEL'
    settled, problem, _ = asked(
        store, Completion(reply, truncated=truncated), DRIZZLE, "Redis caches the queries as well"
    )
    assert isinstance(settled[0].decision, Update)
    assert settled[0].decision.id == old
    assert by_rule(settled[1].decision)
    assert problem == "the model's decisions were cut off; facts without a valid model decision: 1 of 2"


@pytest.mark.parametrize("error", [Unavailable("The provider is down."), Misconfigured("The key is wrong.")])
def test_facts_are_not_lost_when_the_model_cannot_be_asked(store: Store, error: CofioError) -> None:
    remember(store, PRISMA)
    settled, problem, _ = asked(store, error, DRIZZLE)
    assert by_rule(settled[0].decision)
    assert problem == f"the model call for reconciliation failed: {error.message}"


def test_what_the_model_was_paid_for_is_told(store: Store) -> None:
    remember(store, PRISMA)
    llm = ScriptedLLM([Completion("[]", usage=TokenUsage(1, 500, 20))])
    _, usage, _ = decide_by_llm(llm, [fact(DRIZZLE)], embedded([DRIZZLE]), store, novel=without_a_model(store))
    assert usage == TokenUsage(1, 500, 20)


# ── from the conversation to the store ────────────────────────────────────────────────────────────────────────────────


def test_two_questions_lead_from_a_conversation_to_memories(store: Store) -> None:
    (strict, prisma) = remember(store, "TypeScript strict mode is on", PRISMA)
    llm = ScriptedLLM(
        [
            json.dumps(["Uses Drizzle ORM", "Strict mode of TypeScript is on"]),
            json.dumps([{"action": "ADD", "fact_index": 0}, {"action": "NOOP", "fact_index": 1, "existing_id": "m2"}]),
        ]
    )
    said = Exchange(messages=(Message("user", "use drizzle"), Message("assistant", "Done")), source=SOURCE)
    (found,) = by_model.facts(llm, [said]).found
    facts = [fact(each.text, category=each.category) for each in found]
    vectors = embedded([each.text for each in facts])
    settled, usage, problem = decide_by_llm(llm, facts, vectors, store, novel=without_a_model(store))
    names = {row["text"]: row["memory"] for row in rows(llm.calls[1][1], "memories")}
    assert names == {PRISMA: "m1", "TypeScript strict mode is on": "m2"}
    result = LearningResult(
        actions=tuple(to_plain(each.decision) for each in settled if each.decision), usage=usage
    ).as_dict()
    assert (result["extracted_count"], result["stored_count"], len(result["actions"])) == (2, 1, 2)
    assert (result["updated_count"], result["deleted_count"]) == (0, 0)
    assert len(llm.calls) == 2
    assert problem == ""
    done(store, settled)
    assert len(live(store)) == 3
    assert {strict, prisma} <= {memory.id for memory in live(store)}


def test_all_four_decisions_are_done_in_one_transaction_that_can_be_told_apart(store: Store) -> None:
    old = remember(
        store, PRISMA, "Redis caches the sessions", "Deploys happen on Fridays", "The api listens on port 8080"
    )
    new = [
        "The project uses Drizzle as its ORM",
        "Sessions are cached by Redis",
        "No deploys happen on Fridays any more",
    ]
    _, _, calls = asked(store, "[]", *new, "The worker listens on port 9090")
    names = {row["text"]: row["memory"] for row in rows(calls[0][1], "memories")}
    reply = [
        answer("f1", "UPDATE", names[PRISMA]),
        answer("f2", "NOOP", names["Redis caches the sessions"]),
        answer("f3", "DELETE", names["Deploys happen on Fridays"]),
        answer("f4", "ADD"),
    ]
    settled, problem, _ = asked(store, reply, *new, "The worker listens on port 9090")
    assert problem == ""
    result = LearningResult(actions=tuple(to_plain(each.decision) for each in settled if each.decision)).as_dict()
    assert [result[f"{name}_count"] for name in ("extracted", "stored", "updated", "deleted", "noop")] == [
        4,
        1,
        1,
        1,
        1,
    ]
    changeset = done(store, settled)
    assert [change.action for change in changeset.changes] == ["update", "delete", "noop", "delete", "add"]
    assert [memory.id for memory in store.get(old) if memory.archived] == [old[0], old[2]]
    assert store.get([old[1]])[0].occurrences == 2
    assert {memory.text for memory in live(store)} == {
        "The project uses Drizzle as its ORM",
        "Redis caches the sessions",
        "The api listens on port 8080",
        "The worker listens on port 9090",
    }


# ── in a project ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_model_is_shown_what_any_client_told_of_the_project_and_nothing_of_another(store: Store) -> None:
    own = fact(PRISMA, project="/srv/web", source="codex/web")
    remember(store, own, fact(PRISMA + ", they say", project="/srv/api"), PRISMA + ", as everybody does")
    reply = [answer("f1", "UPDATE", "m1")]
    settled, problem, calls = asked(store, reply, fact(DRIZZLE, project="/srv/web", source="claude-code/web"))
    assert problem == ""
    assert [row["text"] for row in rows(calls[0][1], "memories")] == [PRISMA]
    assert isinstance(settled[0].decision, Update)


@pytest.mark.parametrize("beyond", [{}, {"visibility": "global", "project": "/srv/api"}])
def test_what_is_known_beyond_the_project_needs_no_model(store: Store, beyond: dict[str, str]) -> None:
    [known, _] = remember(
        store, fact(PRISMA, **beyond), fact("The project uses Redis as its cache", project="/srv/web")
    )

    def by_rules(said: Fact, vector: Vector) -> FactOutcome:
        return decide.decide_outcomes([said], vector.reshape(1, -1), store, WordComparer(0.9))[0]

    settled, problem, calls = asked(store, [], fact(PRISMA, project="/srv/web"), novel=by_rules)
    assert (calls, problem) == ([], "")
    assert isinstance(settled[0].decision, Noop)
    assert settled[0].decision.id == known
