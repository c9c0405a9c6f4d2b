"""Decisions about facts from comparisons: update, delete, noop or add; audiences; batches; novelty; echoes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cofio.ingest.reconcile import decide
from cofio.ingest.reconcile.compare import Comparison, JudgedComparer, Kind
from cofio.models.exchange import FactOutcome
from cofio.models.memory import MAY_REPLACE, Add, Delete, Edit, Fact, Memory, Noop, Occurrence, Scope, Update
from cofio.ports import Store
from tests.judges import ValueJudge
from tests.reconcile.fixtures import NOW, SOURCE, embed, fact, live_memories, open_store, remember

WEB, API = "/srv/web", "/srv/api"
OLD, NEW = "The staging port is 8080", "The staging port is 9090"
VALUE_COMPARER = JudgedComparer(ValueJudge())
PERSON = {"about": "person", "said_in": WEB}


class ScriptedComparer:
    """Return the scripted verdict for a statement and a memory, otherwise "add"."""

    def __init__(self, kinds: dict[tuple[str, str], Kind], probability: float = 0.9) -> None:
        self._kinds, self._probability = kinds, probability
        self.compared: list[tuple[str, str]] = []

    def compare(self, statement: str, memory: str, cosine: float, *, retracts: bool = False) -> Comparison:
        self.compared.append((statement, memory))
        kind = self._kinds.get((statement, memory), "add")
        return Comparison(kind, self._probability, "as scripted", self._probability if kind == "doubtful" else 0.0)


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store() as opened_store:
        yield opened_store


def decide_all(store: Store, *facts: str | Fact, comparer: Any = VALUE_COMPARER) -> list[FactOutcome]:
    new_facts = [fact(item) if isinstance(item, str) else item for item in facts]
    outcomes = decide.decide_outcomes(
        new_facts, embed([new_fact.text for new_fact in new_facts]), store, comparer, now=NOW
    )
    assert [outcome.fact for outcome in outcomes] == new_facts
    return outcomes


def decide_batch(store: Store, *facts: str | Fact, comparer: Any = VALUE_COMPARER) -> decide.TypedFacts:
    new_facts = [fact(item) if isinstance(item, str) else item for item in facts]
    return decide.decide_typed(new_facts, embed([new_fact.text for new_fact in new_facts]), store, comparer, now=NOW)


def as_update(outcome: FactOutcome) -> Update:
    assert isinstance(outcome.decision, Update), outcome
    return outcome.decision


def as_noop(outcome: FactOutcome) -> Noop:
    assert isinstance(outcome.decision, Noop), outcome
    return outcome.decision


# ── One fact ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_new_fact_is_added(store: Store) -> None:
    [outcome] = decide_all(store, NEW)
    assert outcome.decision == Add(outcome.fact, "new", unless_known=True)


def test_known_fact_is_recorded_as_occurrence(store: Store) -> None:
    [known] = remember(store, fact(OLD, agent="a"))
    repeated = fact(OLD.upper(), agent="a", session="s", created_at="2027-02-01T00:00:00Z")
    [outcome] = decide_all(store, repeated)
    assert (as_noop(outcome).id, as_noop(outcome).occurrence) == (known, Occurrence("a", "s", repeated.created_at))


def test_update_names_the_memory_and_keeps_its_tags(store: Store) -> None:
    known, _ = remember(store, fact(OLD, tags=("ops",)), "The production port is 80")
    [outcome] = decide_all(store, fact(NEW, tags=("net",)))
    assert as_update(outcome).id == known
    assert as_update(outcome).fact.tags == ("net", "ops")
    assert as_update(outcome).reason == "it has changed (0.98)"
    assert outcome.also == ()


def test_fact_that_ends_a_memory_replaces_it(store: Store) -> None:
    [known] = remember(store, "The staging port is open")
    [outcome] = decide_all(store, "The staging port is no longer open")
    assert as_update(outcome).id == known


def test_further_outdated_memories_are_archived(store: Store) -> None:
    old = remember(store, OLD, "The port of staging is 7070")
    [outcome] = decide_all(store, NEW)
    assert {as_update(outcome).id, *(deletion.id for deletion in outcome.also)} == set(old)


def test_known_fact_archives_contradicting_memories(store: Store) -> None:
    stale, known = remember(store, OLD, "The port of staging is 9090")
    [outcome] = decide_all(store, NEW)
    assert as_noop(outcome).id == known
    assert [deletion.id for deletion in outcome.also] == [stale]


def test_retraction_archives_one_memory_and_is_not_stored(store: Store) -> None:
    known, _ = remember(store, OLD, "The production port is 80")
    [outcome] = decide_all(store, fact("Cancelled: staging port", metadata={"retracts": True}))
    assert isinstance(outcome.decision, Delete)
    assert (outcome.decision.id, outcome.also) == (known, ())


def test_retraction_without_a_matching_memory_is_rejected(store: Store) -> None:
    remember(store, "The production port is 80")
    [outcome] = decide_all(store, fact("Cancelled: staging port", metadata={"retracts": True}))
    assert (outcome.decision, outcome.also) == (None, ())
    assert "no memory" in outcome.reason


def test_doubtful_change_keeps_both(store: Store) -> None:
    [known] = remember(store, OLD)
    doubtful = ScriptedComparer({(NEW, OLD): "doubtful"})
    [outcome] = decide_all(store, NEW, comparer=doubtful)
    assert isinstance(outcome.decision, Add)
    assert (f"may replace memory {known}" in outcome.decision.reason, outcome.also) == (True, ())
    assert [memory.id for memory in decide_batch(store, NEW, comparer=doubtful).near[0]] == [known]


def test_context_of_an_update_defaults_to_the_replaced_text(store: Store) -> None:
    remember(store, OLD)
    comparer = ScriptedComparer({(NEW, OLD): "update"})
    assert as_update(decide_all(store, NEW, comparer=comparer)[0]).fact.context == OLD
    assert (
        as_update(decide_all(store, fact(NEW, context="Mind the port"), comparer=comparer)[0]).fact.context
        == "Mind the port"
    )


def test_possible_replacement_is_recorded_in_the_metadata(store: Store) -> None:
    [known] = remember(store, OLD)
    [outcome] = decide_all(store, NEW, comparer=ScriptedComparer({(NEW, OLD): "doubtful"}))
    assert isinstance(outcome.decision, Add)
    assert (outcome.decision.fact.metadata, outcome.chance) == ({MAY_REPLACE: [known]}, 0.9)
    [unlikely] = decide_all(store, NEW, comparer=ScriptedComparer({(NEW, OLD): "doubtful"}, probability=0.14))
    assert isinstance(unlikely.decision, Add)
    assert unlikely.decision.fact.metadata == {}


def test_different_value_is_recorded_as_possible_replacement(store: Store) -> None:
    class Guarded:
        def compare(self, *_: Any, **__: Any) -> Comparison:
            return Comparison("doubtful", 0.7, "it names another number: 9090")

    [known] = remember(store, OLD)
    [outcome] = decide_all(store, NEW, comparer=Guarded())
    assert isinstance(outcome.decision, Add)
    assert (outcome.decision.fact.metadata, outcome.chance) == ({MAY_REPLACE: [known]}, 0.0)


def test_change_stated_by_the_whole_message_is_used(store: Store) -> None:
    [known] = remember(store, OLD)
    message = "Mind the staging port. It moved, so 9090"
    comparer = ScriptedComparer({(message, OLD): "update"})
    [outcome] = decide_all(store, fact("The port moved, so 9090", context=message), comparer=comparer)
    assert as_update(outcome).id == known


def test_change_by_a_message_is_applied_by_its_nearest_fact(store: Store) -> None:
    [known] = remember(store, OLD)
    message = "We like tea. The staging port moved"
    comparer = ScriptedComparer({(message, OLD): "update"})
    tea, port = (fact(text, context=message) for text in ("We like tea at staging", "The staging port moved"))
    first, second = decide_all(store, tea, port, comparer=comparer)
    assert isinstance(first.decision, Add)
    assert as_update(second).id == known


def test_facts_of_an_unrelated_message_are_not_compared(store: Store) -> None:
    remember(store, OLD)
    message, statement = "Tea is better. The cafe is near the park", "The cafe is near the park"
    comparer = ScriptedComparer({}, probability=0.97)
    decide_all(store, fact(statement, context=message), comparer=comparer)
    assert comparer.compared == [(message, OLD)]


def test_memories_that_share_words_are_candidates(store: Store) -> None:
    numbers = "old new third fourth fifth sixth seventh eighth ninth".split()
    remember(store, *(f"The {number} staging port is open" for number in numbers))
    [expected] = remember(store, "Grafana was bought in spring by somebody who left the company long before that")
    near = decide.candidates(fact("The staging port of Grafana is open"), embed([NEW])[0], store)
    assert (len(near), expected in [memory.id for memory, _ in near]) == (decide.CANDIDATES, True)


def test_pinned_memory_is_not_replaced(store: Store) -> None:
    [known] = remember(store, OLD)
    store.apply([Edit(known, {"pinned": True})], {}, by="t", why="t")
    for outcome in (
        *decide_all(store, NEW),
        *decide_all(store, fact("Cancelled: staging port", metadata={"retracts": True})),
    ):
        assert not isinstance(outcome.decision, Update | Delete)
        assert outcome.also == ()


def test_older_statement_does_not_replace_a_newer_memory(store: Store) -> None:
    [known] = remember(store, fact(NEW, created_at="2026-03-02T00:00:00Z"))
    [outcome] = decide_all(store, fact(OLD, created_at="2026-03-01T00:00:00Z"))
    assert (outcome.decision, outcome.reason) == (None, f"memory {known} is newer and says otherwise")


def test_memory_repeated_since_is_not_replaced(store: Store) -> None:
    [known] = remember(store, OLD)
    store.apply([Noop(known, Occurrence("", "s", "2027-03-03T00:00:00Z"))], {}, by="t", why="t")
    [outcome] = decide_all(store, fact(NEW, created_at="2027-03-02T00:00:00Z"))
    assert (outcome.decision, outcome.reason) == (None, f"memory {known} is newer and says otherwise")


def test_archived_memory_is_not_compared(store: Store) -> None:
    [known] = remember(store, OLD)
    store.apply([Delete(known)], {}, by="t", why="t")
    assert isinstance(decide_all(store, OLD)[0].decision, Add)


def test_incomplete_fact_is_compared_by_its_sentence(store: Store) -> None:
    [known] = remember(store, OLD)
    [outcome] = decide_all(store, fact("It is 9090", context=NEW))
    assert as_update(outcome).id == known


# ── Audiences ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "fields",
    [{"user": "bob"}, {"user": "", "agent": "codex"}, {"visibility": "team", "team": "red"}, {"speaker": "Bob"}],
)
def test_memory_of_another_audience_is_neither_compared_nor_replaced(store: Store, fields: dict[str, str]) -> None:
    remember(store, fact(OLD, **{"user": "ada", "agent": "claude", **fields}))
    comparer = ScriptedComparer({(NEW, OLD): "update", (OLD, OLD): "same"})
    for text in (OLD, NEW):
        [outcome] = decide_all(store, fact(text, user="ada", agent="claude"), comparer=comparer)
        assert isinstance(outcome.decision, Add)
        assert outcome.also == ()
        assert decide_batch(store, fact(text, user="ada", agent="claude"), comparer=comparer).near[0] == ()
    assert comparer.compared == []


def test_two_teams_do_not_share_memories(store: Store) -> None:
    remember(store, fact(OLD, visibility="team", team="red", project=WEB))
    [outcome] = decide_all(store, fact(NEW, visibility="team", team="blue", project=WEB))
    assert isinstance(outcome.decision, Add)
    [outcome] = decide_all(store, fact(NEW, visibility="team", team="red", project=WEB))
    assert isinstance(outcome.decision, Update)


def test_clients_of_one_project_correct_each_other(store: Store) -> None:
    [known] = remember(store, fact(OLD, project=WEB, source="codex/web"))
    assert as_noop(decide_all(store, fact(OLD, project=WEB, source="claude-code/web"))[0]).id == known
    assert as_update(decide_all(store, fact(NEW, project=WEB, source="claude-code/web"))[0]).id == known


@pytest.mark.parametrize("fields", [{"project": API}, {"source": "test/other"}])
def test_memory_of_another_project_or_source_is_unchanged(store: Store, fields: dict[str, str]) -> None:
    remember(store, fact(OLD, **fields))
    own = {"project": WEB} if "project" in fields else {}
    for text in (OLD, NEW):
        assert isinstance(decide_all(store, fact(text, **own))[0].decision, Add)


@pytest.mark.parametrize("fields", [{}, {"visibility": "global"}, {"visibility": "global", "project": API}])
def test_global_memory_gets_an_occurrence_and_is_not_replaced(store: Store, fields: dict[str, str]) -> None:
    [known] = remember(store, fact(OLD, **fields))
    assert as_noop(decide_all(store, fact(OLD, project=WEB))[0]).id == known
    [outcome] = decide_all(store, fact(NEW, project=WEB))
    assert isinstance(outcome.decision, Add)
    assert outcome.also == ()


def test_newer_global_memory_does_not_reject_a_project_fact(store: Store) -> None:
    remember(store, fact(OLD, visibility="global", created_at="2026-03-02T00:00:00Z"))
    [outcome] = decide_all(store, fact(NEW, project=WEB, created_at="2026-03-01T00:00:00Z"))
    assert isinstance(outcome.decision, Add)


def test_fact_equal_to_a_global_memory_archives_the_projects_own(store: Store) -> None:
    everywhere, own = remember(store, OLD, fact(NEW, project=WEB))
    [outcome] = decide_all(store, fact(OLD, project=WEB))
    assert as_noop(outcome).id == everywhere
    assert [deletion.id for deletion in outcome.also] == [own]


def test_facts_about_the_person_are_replaced_from_any_project_and_client(store: Store) -> None:
    [known] = remember(store, fact("I work 5 days", source="codex/web", metadata=PERSON))
    changed = fact("I work 4 days", source="claude-code/api", metadata={"about": "person", "said_in": API})
    assert as_update(decide_all(store, changed)[0]).id == known
    repeated = fact("I work 5 days", source="claude-code/api", metadata={"about": "person", "said_in": API})
    assert as_noop(decide_all(store, repeated)[0]).id == known


def test_facts_about_the_person_of_another_user_are_not_replaced(store: Store) -> None:
    remember(store, fact("I work 5 days", user="bob", metadata=PERSON))
    remember(store, fact("I work 3 days", user="bob", visibility="global", metadata=PERSON))
    [outcome] = decide_all(store, fact("I work 4 days", user="ada", metadata=PERSON))
    assert isinstance(outcome.decision, Add)
    assert outcome.also == ()


# ── Batches ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_duplicate_within_an_exchange_is_dropped(store: Store) -> None:
    first, repeated = decide_all(store, NEW, "The port of staging is 9090")
    assert isinstance(first.decision, Add)
    assert (repeated.decision, repeated.reason) == (None, "said before in the same exchange")


def test_correction_within_an_exchange_keeps_the_last_statement(store: Store) -> None:
    first, last = decide_all(store, OLD, NEW)
    assert (first.decision, first.reason) == (None, "corrected in the same exchange")
    assert isinstance(last.decision, Add)


def test_related_facts_of_an_exchange_are_both_added(store: Store) -> None:
    facts = ("The outdoor unit is faster: 19200, parity stays even", "USART2 is set to 19200 baud")
    outcomes = decide_all(store, *facts, comparer=ScriptedComparer({(facts[1], facts[0]): "update"}))
    assert [outcome.action for outcome in outcomes] == ["add", "add"]


def test_correction_replaces_the_memories_of_the_corrected_fact(store: Store) -> None:
    known = remember(store, "The team uses Prisma", "Every query goes through Prisma")
    first, last = "The team uses Drizzle for every query", "No, the team uses Kysely for every query"
    comparer = ScriptedComparer(
        {
            (first, "The team uses Prisma"): "update",
            (first, "Every query goes through Prisma"): "delete",
            (last, first): "update",
        }
    )
    withdrawn, correction = decide_all(store, first, last, comparer=comparer)
    assert (withdrawn.decision, withdrawn.also) == (None, ())
    assert (as_update(correction).id, as_update(correction).fact.text) == (known[0], last)
    assert [deletion.id for deletion in correction.also] == known[1:]


def test_retraction_keeps_the_other_facts_of_its_exchange(store: Store) -> None:
    first, last = decide_all(store, NEW, fact("Cancelled: staging port", metadata={"retracts": True}))
    assert isinstance(first.decision, Add)
    assert last.decision is None


def test_memory_is_replaced_by_one_fact_only(store: Store) -> None:
    [known] = remember(store, "Redis caches pages")
    facts = ("Valkey caches pages", "Redis is gone")
    comparer = ScriptedComparer({(text, "Redis caches pages"): "update" for text in facts})
    first, second = decide_all(store, *facts, comparer=comparer)
    assert as_update(first).id == known
    assert isinstance(second.decision, Add)


def test_no_facts_give_no_outcomes(store: Store) -> None:
    assert decide.decide_outcomes([], embed([]), store, VALUE_COMPARER, now=NOW) == []


def test_duplicate_typed_facts_are_occurrences_of_one_memory(store: Store) -> None:
    batch = decide_batch(store, fact(NEW, session="a"), "Redis caches pages", fact(NEW, session="b"))
    assert batch.settled_by == [0, 1, 0]
    first = batch.decisions[0]
    assert isinstance(first, Add)
    assert [occurrence.session for occurrence in first.again] == ["b"]
    changes = apply(store, batch)
    assert [change.action for change in changes] == ["add", "add", "noop"]
    assert next(memory for memory in live_memories(store) if memory.text == NEW).occurrences == 2


def test_typed_duplicates_of_a_known_memory_are_all_recorded(store: Store) -> None:
    [known] = remember(store, NEW)
    batch = decide_batch(store, fact(NEW, session="a"), fact(NEW, session="b"))
    assert [change.action for change in apply(store, batch)] == ["noop", "noop"]
    assert [occurrence.session for occurrence in store.occurrences(known)] == ["", "a", "b"]


def test_typed_fact_replaces_a_memory_and_archives_others(store: Store) -> None:
    old = remember(store, OLD, "The port of staging is 7070")
    batch = decide_batch(store, NEW, "Redis caches pages")
    assert [change.action for change in apply(store, batch)] == ["update", "add"]
    assert sorted(memory.text for memory in live_memories(store)) == ["Redis caches pages", NEW]
    assert all(memory.archived for memory in store.get(old))


def apply(store: Store, batch: decide.TypedFacts) -> list[Any]:
    texts = {
        index: decision.fact.text
        for index, decision in enumerate(batch.decisions)
        if isinstance(decision, Add | Update)
    }
    vectors = dict(zip(texts, embed(list(texts.values())), strict=True))
    return batch.changes(store.apply(batch.decisions, vectors, by="t", why="t").changes)


# ── Novelty ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def check_novelty(store: Store, text: str, min_cosine: float = 0.0) -> Any:
    return decide.novelty(fact(text), embed([text])[0], store, Scope(source=SOURCE), VALUE_COMPARER, min_cosine)


def test_novelty_returns_the_memory_that_says_the_same(store: Store) -> None:
    [known] = remember(store, NEW)
    for text in (NEW, NEW.lower(), "The port of staging is 9090"):
        novelty = check_novelty(store, text)
        assert (novelty.novel, novelty.match.id) == (False, known)


def test_fact_that_changes_a_memory_is_novel(store: Store) -> None:
    [known] = remember(store, OLD)
    novelty = check_novelty(store, NEW)
    assert (novelty.novel, novelty.match.id) == (True, known)
    assert "it has changed" in novelty.reason


def test_match_below_the_minimum_cosine_is_novel(store: Store) -> None:
    remember(store, NEW)
    assert check_novelty(store, "The port of staging is 9090", min_cosine=0.999).novel


def test_everything_is_novel_to_an_empty_store(store: Store) -> None:
    novelty = check_novelty(store, NEW)
    assert (novelty.novel, novelty.match, novelty.similarity) == (True, None, 0.0)


# ── Echoes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def echo(store: Store | None, text: str, *injected: str, **fields: str) -> str:
    return decide.echo_reason(fact(text, **fields), embed([text])[0], store, injected, VALUE_COMPARER)


@pytest.mark.parametrize(
    "text",
    [
        "The auth service listens on port 8080",
        'I remember: "The auth service listens on port 8080"',
        "As noted, the auth service listens on port 8080, so we keep to that.",
        "The port that the auth service listens on is 8080",
    ],
)
def test_repeated_memory_is_an_echo(store: Store, text: str) -> None:
    [known] = remember(store, "The auth service listens on port 8080")
    assert echo(store, text) == f"the agent repeats memory {known}"
    line = "- [test/project] The auth service listens on port 8080"
    assert echo(None, text, f"## Relevant Memories\n\n{line}\n- [0.80] User likes tea") != ""


@pytest.mark.parametrize(
    "text",
    [
        "The auth service listens on port 9090",
        "The auth service does not listen on port 8080",
        "The auth service listens on port 8080 and talks to Kafka through Envoy on port 9092",
        "Deploys wait for approval",
    ],
)
def test_addition_or_correction_by_the_agent_is_not_an_echo(store: Store, text: str) -> None:
    remember(store, "The auth service listens on port 8080")
    assert echo(store, text) == ""
    assert echo(None, text, "- [0.91] The auth service listens on port 8080") == ""


def test_memory_of_another_project_is_not_an_echo_but_a_global_one_is(store: Store) -> None:
    text = "Deploys wait for approval"
    remember(store, fact(text, project=API))
    assert echo(store, text, project=WEB) == ""
    seen: Memory
    for fields in ({"project": WEB}, {}, {"visibility": "global", "project": API}):
        [known] = remember(store, fact(text, **fields))
        [seen] = store.get([known])
        assert str(seen.id) in echo(store, text, project=WEB), fields
        store.apply([Delete(known)], {}, by="t", why="t")


def test_thresholds_of_different_sources_do_not_replace_each_other(store: Store) -> None:
    old = "Flag ACME if volume exceeds 3600000"
    remember(store, fact(old, kind="threshold"))
    other, newer = "Flag COVE if volume exceeds 7300000", "Flag ACME if volume exceeds 4000000"
    comparer = ScriptedComparer({(other, old): "update", (newer, old): "update"})
    [outcome] = decide_all(store, fact(other, kind="threshold"), comparer=comparer)
    assert isinstance(outcome.decision, Add)
    [outcome] = decide_all(store, fact(newer, kind="threshold"), comparer=comparer)
    assert isinstance(outcome.decision, Update)


def test_limit_in_another_wording_replaces_the_old_one(store: Store) -> None:
    old, new = "Dr Okafor put me on 5 mg in the morning", "Since Thursday it is 10 mg, she was worried"
    remember(store, fact(old, kind="threshold"))
    [outcome] = decide_all(store, fact(new, kind="threshold"), comparer=ScriptedComparer({(new, old): "update"}))
    assert isinstance(outcome.decision, Update)


def test_memory_dated_after_now_can_be_corrected(store: Store) -> None:
    (old,) = remember(store, fact(OLD, created_at="2099-01-01T00:00:00Z"))
    new_fact = fact(NEW, created_at="2026-06-01T00:00:00Z")
    (outcome,) = decide_all(store, new_fact)
    assert as_update(outcome).id == old


def test_sighting_dated_after_now_does_not_protect_a_memory(store: Store) -> None:
    (old,) = remember(store, fact(OLD, created_at="2026-01-01T00:00:00Z"))
    store.apply([Noop(old, Occurrence(at="2099-01-01T00:00:00.000000+00:00"))], {}, by="t", why="t")
    (outcome,) = decide_all(store, fact(NEW, created_at="2026-06-01T00:00:00Z"))
    assert as_update(outcome).id == old
