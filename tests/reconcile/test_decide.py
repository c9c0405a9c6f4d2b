"""Decisions about facts, given verdicts: update, delete, noop or add; audiences; batches; novelty; echoes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.ingest.reconcile import decide
from cofio.ingest.reconcile.compare import Comparison, JudgedComparer, Kind
from cofio.models.exchange import FactOutcome
from cofio.models.memory import MAY_REPLACE, Add, Delete, Edit, Fact, Memory, Noop, Occurrence, Scope, Update
from cofio.ports import Store
from tests.judges import ValueJudge
from tests.reconcile.fixtures import SOURCE, embedded, fact, live, opened, remember

WEB, API = "/srv/web", "/srv/api"
OLD, NEW = "The staging port is 8080", "The staging port is 9090"
BY_VALUE = JudgedComparer(ValueJudge())
PERSON = {"about": "person", "said_in": WEB}


class Scripted:
    """Gives the verdict that was written down for a statement and a memory, "add" otherwise."""

    def __init__(self, kinds: dict[tuple[str, str], Kind], chance: float = 0.9) -> None:
        self._kinds, self._chance = kinds, chance
        self.asked: list[tuple[str, str]] = []

    def compare(self, statement: str, memory: str, cosine: float, *, retracts: bool = False) -> Comparison:
        self.asked.append((statement, memory))
        kind = self._kinds.get((statement, memory), "add")
        return Comparison(kind, self._chance, "as scripted", self._chance if kind == "doubtful" else 0.0)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with opened(request.param, tmp_path) as found:
        yield found


def settle(store: Store, *facts: str | Fact, comparer: Any = BY_VALUE) -> list[FactOutcome]:
    given = [fact(each) if isinstance(each, str) else each for each in facts]
    settled = decide.decide_outcomes(given, embedded([each.text for each in given]), store, comparer)
    assert [each.fact for each in settled] == given
    return settled


def typed(store: Store, *facts: str | Fact, comparer: Any = BY_VALUE) -> decide.TypedFacts:
    given = [fact(each) if isinstance(each, str) else each for each in facts]
    return decide.decide_typed(given, embedded([each.text for each in given]), store, comparer)


def update(settled: FactOutcome) -> Update:
    assert isinstance(settled.decision, Update), settled
    return settled.decision


def noop(settled: FactOutcome) -> Noop:
    assert isinstance(settled.decision, Noop), settled
    return settled.decision


# ── one fact ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_fact_is_added(store: Store) -> None:
    [settled] = settle(store, NEW)
    assert settled.decision == Add(settled.fact, "new", unless_known=True)


def test_a_known_fact_is_noted_with_its_sighting(store: Store) -> None:
    [known] = remember(store, fact(OLD, agent="a"))
    said = fact(OLD.upper(), agent="a", session="s", created_at="2027-02-01T00:00:00Z")
    [settled] = settle(store, said)
    assert (noop(settled).id, noop(settled).occurrence) == (known, Occurrence("a", "s", said.created_at))


def test_an_update_names_the_memory_and_keeps_its_tags(store: Store) -> None:
    known, _ = remember(store, fact(OLD, tags=("ops",)), "The production port is 80")
    [settled] = settle(store, fact(NEW, tags=("net",)))
    assert update(settled).id == known
    assert update(settled).fact.tags == ("net", "ops")
    assert update(settled).reason == "it has changed (0.98)"
    assert settled.also == ()


def test_a_memory_that_has_ended_is_replaced_by_the_fact_that_says_so(store: Store) -> None:
    [known] = remember(store, "The staging port is open")
    [settled] = settle(store, "The staging port is no longer open")
    assert update(settled).id == known


def test_further_outdated_memories_are_archived(store: Store) -> None:
    old = remember(store, OLD, "The port of staging is 7070")
    [settled] = settle(store, NEW)
    assert {update(settled).id, *(gone.id for gone in settled.also)} == set(old)


def test_a_known_fact_archives_what_says_otherwise(store: Store) -> None:
    stale, known = remember(store, OLD, "The port of staging is 9090")
    [settled] = settle(store, NEW)
    assert noop(settled).id == known
    assert [gone.id for gone in settled.also] == [stale]


def test_a_retraction_archives_one_memory_and_is_not_stored(store: Store) -> None:
    known, _ = remember(store, OLD, "The production port is 80")
    [settled] = settle(store, fact("Cancelled: staging port", metadata={"retracts": True}))
    assert isinstance(settled.decision, Delete)
    assert (settled.decision.id, settled.also) == (known, ())


def test_a_retraction_of_nothing_known_is_rejected(store: Store) -> None:
    remember(store, "The production port is 80")
    [settled] = settle(store, fact("Cancelled: staging port", metadata={"retracts": True}))
    assert (settled.decision, settled.also) == (None, ())
    assert "no memory" in settled.reason


def test_a_doubtful_change_keeps_both(store: Store) -> None:
    [known] = remember(store, OLD)
    doubtful = Scripted({(NEW, OLD): "doubtful"})
    [settled] = settle(store, NEW, comparer=doubtful)
    assert isinstance(settled.decision, Add)
    assert (f"may replace memory {known}" in settled.decision.reason, settled.also) == (True, ())
    assert [memory.id for memory in typed(store, NEW, comparer=doubtful).near[0]] == [known]


def test_what_replaces_a_memory_is_found_by_its_words_unless_it_has_a_context(store: Store) -> None:
    remember(store, OLD)
    changed = Scripted({(NEW, OLD): "update"})
    assert update(settle(store, NEW, comparer=changed)[0]).fact.context == OLD
    assert (
        update(settle(store, fact(NEW, context="Mind the port"), comparer=changed)[0]).fact.context == "Mind the port"
    )


def test_a_probable_change_notes_what_it_may_replace(store: Store) -> None:
    [known] = remember(store, OLD)
    [settled] = settle(store, NEW, comparer=Scripted({(NEW, OLD): "doubtful"}))
    assert isinstance(settled.decision, Add)
    assert (settled.decision.fact.metadata, settled.chance) == ({MAY_REPLACE: [known]}, 0.9)
    [unlikely] = settle(store, NEW, comparer=Scripted({(NEW, OLD): "doubtful"}, chance=0.14))
    assert isinstance(unlikely.decision, Add)
    assert unlikely.decision.fact.metadata == {}


def test_a_memory_with_another_value_is_noted_though_the_model_sees_a_repetition(store: Store) -> None:
    class Guarded:
        def compare(self, *_: Any, **__: Any) -> Comparison:
            return Comparison("doubtful", 0.7, "it names another number: 9090")

    [known] = remember(store, OLD)
    [settled] = settle(store, NEW, comparer=Guarded())
    assert isinstance(settled.decision, Add)
    assert (settled.decision.fact.metadata, settled.chance) == ({MAY_REPLACE: [known]}, 0.0)


def test_a_change_that_is_told_by_the_whole_message_counts(store: Store) -> None:
    [known] = remember(store, OLD)
    message = "Mind the staging port. It moved, so 9090"
    comparer = Scripted({(message, OLD): "update"})
    [settled] = settle(store, fact("The port moved, so 9090", context=message), comparer=comparer)
    assert update(settled).id == known


def test_what_a_message_changes_is_changed_by_its_nearest_fact(store: Store) -> None:
    [known] = remember(store, OLD)
    message = "We like tea. The staging port moved"
    comparer = Scripted({(message, OLD): "update"})
    tea, port = (fact(each, context=message) for each in ("We like tea at staging", "The staging port moved"))
    first, second = settle(store, tea, port, comparer=comparer)
    assert isinstance(first.decision, Add)
    assert update(second).id == known


def test_facts_of_a_message_that_leaves_a_memory_alone_are_not_compared_with_it(store: Store) -> None:
    remember(store, OLD)
    message, said = "Tea is better. The cafe is near the park", "The cafe is near the park"
    comparer = Scripted({}, chance=0.97)
    settle(store, fact(said, context=message), comparer=comparer)
    assert comparer.asked == [(message, OLD)]


def test_memories_that_share_words_are_compared_though_others_are_nearer(store: Store) -> None:
    numbers = "old new third fourth fifth sixth seventh eighth ninth".split()
    remember(store, *(f"The {number} staging port is open" for number in numbers))
    [wanted] = remember(store, "Grafana was bought in spring by somebody who left the company long before that")
    near = decide.candidates(fact("The staging port of Grafana is open"), embedded([NEW])[0], store)
    assert (len(near), wanted in [memory.id for memory, _ in near]) == (decide.CANDIDATES, True)


def test_a_pinned_memory_is_never_replaced(store: Store) -> None:
    [known] = remember(store, OLD)
    store.apply([Edit(known, {"pinned": True})], {}, by="t", why="t")
    for settled in (*settle(store, NEW), *settle(store, fact("Cancelled: staging port", metadata={"retracts": True}))):
        assert not isinstance(settled.decision, Update | Delete)
        assert settled.also == ()


def test_an_older_statement_does_not_overwrite_a_newer_memory(store: Store) -> None:
    [known] = remember(store, fact(NEW, created_at="2026-03-02T00:00:00Z"))
    [settled] = settle(store, fact(OLD, created_at="2026-03-01T00:00:00Z"))
    assert (settled.decision, settled.reason) == (None, f"memory {known} is newer and says otherwise")


def test_a_memory_that_was_said_again_since_is_not_overwritten(store: Store) -> None:
    [known] = remember(store, OLD)
    store.apply([Noop(known, Occurrence("", "s", "2027-03-03T00:00:00Z"))], {}, by="t", why="t")
    [settled] = settle(store, fact(NEW, created_at="2027-03-02T00:00:00Z"))
    assert (settled.decision, settled.reason) == (None, f"memory {known} is newer and says otherwise")


def test_an_archived_memory_is_not_compared(store: Store) -> None:
    [known] = remember(store, OLD)
    store.apply([Delete(known)], {}, by="t", why="t")
    assert isinstance(settle(store, OLD)[0].decision, Add)


def test_a_fact_that_says_nothing_alone_is_compared_with_its_sentence(store: Store) -> None:
    [known] = remember(store, OLD)
    [settled] = settle(store, fact("It is 9090", context=NEW))
    assert update(settled).id == known


# ── whose it is ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "theirs",
    [{"user": "bob"}, {"user": "", "agent": "codex"}, {"visibility": "team", "team": "red"}, {"speaker": "Bob"}],
)
def test_the_memory_of_another_audience_is_neither_compared_nor_replaced(store: Store, theirs: dict[str, str]) -> None:
    remember(store, fact(OLD, **{"user": "ada", "agent": "claude", **theirs}))
    asked = Scripted({(NEW, OLD): "update", (OLD, OLD): "same"})
    for text in (OLD, NEW):
        [settled] = settle(store, fact(text, user="ada", agent="claude"), comparer=asked)
        assert isinstance(settled.decision, Add)
        assert settled.also == ()
        assert typed(store, fact(text, user="ada", agent="claude"), comparer=asked).near[0] == ()
    assert asked.asked == []


def test_two_teams_do_not_share_memories(store: Store) -> None:
    remember(store, fact(OLD, visibility="team", team="red", project=WEB))
    [settled] = settle(store, fact(NEW, visibility="team", team="blue", project=WEB))
    assert isinstance(settled.decision, Add)
    [settled] = settle(store, fact(NEW, visibility="team", team="red", project=WEB))
    assert isinstance(settled.decision, Update)


def test_clients_of_one_project_correct_each_other(store: Store) -> None:
    [known] = remember(store, fact(OLD, project=WEB, source="codex/web"))
    assert noop(settle(store, fact(OLD, project=WEB, source="claude-code/web"))[0]).id == known
    assert update(settle(store, fact(NEW, project=WEB, source="claude-code/web"))[0]).id == known


@pytest.mark.parametrize("elsewhere", [{"project": API}, {"source": "test/other"}])
def test_another_project_or_source_is_left_alone(store: Store, elsewhere: dict[str, str]) -> None:
    remember(store, fact(OLD, **elsewhere))
    own = {"project": WEB} if "project" in elsewhere else {}
    for text in (OLD, NEW):
        assert isinstance(settle(store, fact(text, **own))[0].decision, Add)


@pytest.mark.parametrize("beyond", [{}, {"visibility": "global"}, {"visibility": "global", "project": API}])
def test_a_memory_that_holds_beyond_the_project_is_noted_and_not_replaced(store: Store, beyond: dict[str, str]) -> None:
    [known] = remember(store, fact(OLD, **beyond))
    assert noop(settle(store, fact(OLD, project=WEB))[0]).id == known
    [settled] = settle(store, fact(NEW, project=WEB))
    assert isinstance(settled.decision, Add)
    assert settled.also == ()


def test_a_newer_memory_beyond_the_project_does_not_reject_a_fact(store: Store) -> None:
    remember(store, fact(OLD, visibility="global", created_at="2026-03-02T00:00:00Z"))
    [settled] = settle(store, fact(NEW, project=WEB, created_at="2026-03-01T00:00:00Z"))
    assert isinstance(settled.decision, Add)


def test_a_project_that_returns_to_what_holds_everywhere_archives_its_own(store: Store) -> None:
    everywhere, own = remember(store, OLD, fact(NEW, project=WEB))
    [settled] = settle(store, fact(OLD, project=WEB))
    assert noop(settled).id == everywhere
    assert [gone.id for gone in settled.also] == [own]


def test_facts_about_the_person_are_replaced_from_any_project_and_client(store: Store) -> None:
    [known] = remember(store, fact("I work 5 days", source="codex/web", metadata=PERSON))
    elsewhere = fact("I work 4 days", source="claude-code/api", metadata={"about": "person", "said_in": API})
    assert update(settle(store, elsewhere)[0]).id == known
    again = fact("I work 5 days", source="claude-code/api", metadata={"about": "person", "said_in": API})
    assert noop(settle(store, again)[0]).id == known


def test_a_person_does_not_replace_the_facts_of_another_one(store: Store) -> None:
    remember(store, fact("I work 5 days", user="bob", metadata=PERSON))
    remember(store, fact("I work 3 days", user="bob", visibility="global", metadata=PERSON))
    [settled] = settle(store, fact("I work 4 days", user="ada", metadata=PERSON))
    assert isinstance(settled.decision, Add)
    assert settled.also == ()


# ── a batch ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_repetition_within_an_exchange_is_left_out(store: Store) -> None:
    first, again = settle(store, NEW, "The port of staging is 9090")
    assert isinstance(first.decision, Add)
    assert (again.decision, again.reason) == (None, "said before in the same exchange")


def test_a_correction_within_an_exchange_leaves_the_last_word(store: Store) -> None:
    first, last = settle(store, OLD, NEW)
    assert (first.decision, first.reason) == (None, "corrected in the same exchange")
    assert isinstance(last.decision, Add)


def test_related_facts_of_an_exchange_are_both_kept(store: Store) -> None:
    facts = ("The outdoor unit is faster: 19200, parity stays even", "USART2 is set to 19200 baud")
    settled = settle(store, *facts, comparer=Scripted({(facts[1], facts[0]): "update"}))
    assert [each.action for each in settled] == ["add", "add"]


def test_a_correction_takes_over_what_the_corrected_fact_replaced(store: Store) -> None:
    known = remember(store, "The team uses Prisma", "Every query goes through Prisma")
    first, last = "The team uses Drizzle for every query", "No, the team uses Kysely for every query"
    comparer = Scripted(
        {
            (first, "The team uses Prisma"): "update",
            (first, "Every query goes through Prisma"): "delete",
            (last, first): "update",
        }
    )
    withdrawn, correction = settle(store, first, last, comparer=comparer)
    assert (withdrawn.decision, withdrawn.also) == (None, ())
    assert (update(correction).id, update(correction).fact.text) == (known[0], last)
    assert [gone.id for gone in correction.also] == known[1:]


def test_a_retraction_leaves_the_other_facts_of_its_exchange(store: Store) -> None:
    first, last = settle(store, NEW, fact("Cancelled: staging port", metadata={"retracts": True}))
    assert isinstance(first.decision, Add)
    assert last.decision is None


def test_a_memory_makes_way_for_one_fact_only(store: Store) -> None:
    [known] = remember(store, "Redis caches pages")
    facts = ("Valkey caches pages", "Redis is gone")
    comparer = Scripted({(each, "Redis caches pages"): "update" for each in facts})
    first, second = settle(store, *facts, comparer=comparer)
    assert update(first).id == known
    assert isinstance(second.decision, Add)


def test_nothing_is_decided_about_no_facts(store: Store) -> None:
    assert decide.decide_outcomes([], embedded([]), store, BY_VALUE) == []


def test_typed_repetitions_are_sightings_of_one_memory(store: Store) -> None:
    batch = typed(store, fact(NEW, session="a"), "Redis caches pages", fact(NEW, session="b"))
    assert batch.settled_by == [0, 1, 0]
    first = batch.decisions[0]
    assert isinstance(first, Add)
    assert [seen.session for seen in first.again] == ["b"]
    done = apply(store, batch)
    assert [change.action for change in done] == ["add", "add", "noop"]
    assert next(each for each in live(store) if each.text == NEW).occurrences == 2


def test_typed_repetitions_of_a_known_memory_are_noted_each(store: Store) -> None:
    [known] = remember(store, NEW)
    batch = typed(store, fact(NEW, session="a"), fact(NEW, session="b"))
    assert [change.action for change in apply(store, batch)] == ["noop", "noop"]
    assert [seen.session for seen in store.occurrences(known)] == ["", "a", "b"]


def test_a_typed_fact_replaces_a_memory_and_archives_others(store: Store) -> None:
    old = remember(store, OLD, "The port of staging is 7070")
    batch = typed(store, NEW, "Redis caches pages")
    assert [change.action for change in apply(store, batch)] == ["update", "add"]
    assert sorted(memory.text for memory in live(store)) == ["Redis caches pages", NEW]
    assert all(memory.archived for memory in store.get(old))


def apply(store: Store, batch: decide.TypedFacts) -> list[Any]:
    texts = {place: each.fact.text for place, each in enumerate(batch.decisions) if isinstance(each, Add | Update)}
    vectors = dict(zip(texts, embedded(list(texts.values())), strict=True))
    return batch.changes(store.apply(batch.decisions, vectors, by="t", why="t").changes)


# ── novelty ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def novelty(store: Store, text: str, least: float = 0.0) -> Any:
    return decide.novelty(fact(text), embedded([text])[0], store, Scope(source=SOURCE), BY_VALUE, least)


def test_novelty_returns_the_memory_that_says_the_same(store: Store) -> None:
    [known] = remember(store, NEW)
    for text in (NEW, NEW.lower(), "The port of staging is 9090"):
        told = novelty(store, text)
        assert (told.novel, told.match.id) == (False, known)


def test_a_fact_that_changes_a_memory_is_novel(store: Store) -> None:
    [known] = remember(store, OLD)
    told = novelty(store, NEW)
    assert (told.novel, told.match.id) == (True, known)
    assert "it has changed" in told.reason


def test_a_match_below_the_least_cosine_is_novel(store: Store) -> None:
    remember(store, NEW)
    assert novelty(store, "The port of staging is 9090", least=0.999).novel


def test_everything_is_novel_to_an_empty_store(store: Store) -> None:
    told = novelty(store, NEW)
    assert (told.novel, told.match, told.similarity) == (True, None, 0.0)


# ── echoes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def echo(store: Store | None, text: str, *injected: str, **about: str) -> str:
    return decide.echo_reason(fact(text, **about), embedded([text])[0], store, injected, BY_VALUE)


@pytest.mark.parametrize(
    "said",
    [
        "The auth service listens on port 8080",
        'I remember: "The auth service listens on port 8080"',
        "As noted, the auth service listens on port 8080, so we keep to that.",
        "The port that the auth service listens on is 8080",
    ],
)
def test_what_the_agent_repeats_is_an_echo(store: Store, said: str) -> None:
    [known] = remember(store, "The auth service listens on port 8080")
    assert echo(store, said) == f"the agent repeats memory {known}"
    line = "- [test/project] The auth service listens on port 8080"
    assert echo(None, said, f"## Relevant Memories\n\n{line}\n- [0.80] User likes tea") != ""


@pytest.mark.parametrize(
    "said",
    [
        "The auth service listens on port 9090",
        "The auth service does not listen on port 8080",
        "The auth service listens on port 8080 and talks to Kafka through Envoy on port 9092",
        "Deploys wait for approval",
    ],
)
def test_what_the_agent_adds_or_corrects_is_no_echo(store: Store, said: str) -> None:
    remember(store, "The auth service listens on port 8080")
    assert echo(store, said) == ""
    assert echo(None, said, "- [0.91] The auth service listens on port 8080") == ""


def test_another_project_is_not_echoed_but_a_global_memory_is(store: Store) -> None:
    text = "Deploys wait for approval"
    remember(store, fact(text, project=API))
    assert echo(store, text, project=WEB) == ""
    seen: Memory
    for about in ({"project": WEB}, {}, {"visibility": "global", "project": API}):
        [known] = remember(store, fact(text, **about))
        [seen] = store.get([known])
        assert str(seen.id) in echo(store, text, project=WEB), about
        store.apply([Delete(known)], {}, by="t", why="t")


def test_thresholds_of_different_things_do_not_replace_each_other(store: Store) -> None:
    old = "Flag ACME if volume exceeds 3600000"
    remember(store, fact(old, kind="threshold"))
    other, newer = "Flag COVE if volume exceeds 7300000", "Flag ACME if volume exceeds 4000000"
    comparer = Scripted({(other, old): "update", (newer, old): "update"})
    [settled] = settle(store, fact(other, kind="threshold"), comparer=comparer)
    assert isinstance(settled.decision, Add)
    [settled] = settle(store, fact(newer, kind="threshold"), comparer=comparer)
    assert isinstance(settled.decision, Update)


def test_limit_told_in_another_form_replaces_the_old_one(store: Store) -> None:
    old, new = "Dr Okafor put me on 5 mg in the morning", "Since Thursday it is 10 mg, she was worried"
    remember(store, fact(old, kind="threshold"))
    [settled] = settle(store, fact(new, kind="threshold"), comparer=Scripted({(new, old): "update"}))
    assert isinstance(settled.decision, Update)
