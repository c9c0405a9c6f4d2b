"""What becomes of facts without a model: noted, taking a memory's place, or added."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.conversation import Settled
from cofio.model import Add, Delete, Edit, Fact, Noop, Occurrence, Update
from cofio.ports import Store
from cofio.reconcile import rules
from tests.reconcile.asking import SOURCE, embedded, fact, opened, remember

WEB = "/srv/web"
GLOBAL_ELSEWHERE = {"visibility": "global", "project": "/srv/api", "agent": "somebody"}


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with opened(request.param, tmp_path) as found:
        yield found


def settle(store: Store, *texts: str | Fact, **how: Any) -> list[Settled]:
    facts = [fact(each) if isinstance(each, str) else each for each in texts]
    settled = rules.settle(facts, embedded([each.text for each in facts]), store, **how)
    assert [each.fact for each in settled] == facts
    return settled


def update(settled: Settled) -> Update:
    assert isinstance(settled.decision, Update), settled
    return settled.decision


# ── one fact ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fact_is_added_where_nothing_is_known(store: Store) -> None:
    [settled] = settle(store, "Team uses Prisma for the ORM")
    assert settled.decision == Add(settled.fact, "new", unless_known=True)


def test_a_fact_that_is_known_word_for_word_is_noted_with_who_said_it_and_when(store: Store) -> None:
    [known] = remember(store, fact("Team uses Prisma for the ORM", agent="a"))
    said = fact("team uses  PRISMA for the ORM", agent="a", session="s", created_at="2026-02-01T00:00:00Z")
    [settled] = settle(store, said)
    assert isinstance(settled.decision, Noop)
    assert settled.decision.id == known
    seen = settled.decision.occurrence
    assert (seen.agent, seen.session, seen.at) == ("a", "s", said.created_at)


def test_a_fact_that_is_known_in_other_words_is_noted(store: Store) -> None:
    [known] = remember(store, "The port of auth-service in staging is 8080")
    [settled] = settle(store, "In staging, auth-service's port is 8080")
    assert isinstance(settled.decision, Noop)
    assert settled.decision.id == known


def test_a_new_value_takes_the_place_of_the_old_one_and_the_reason_tells_which(store: Store) -> None:
    known, _ = remember(store, "The port of staging is 8080", "The port of production is 80")
    [settled] = settle(store, "The port of staging is 9090")
    assert update(settled).id == known
    assert update(settled).reason == "port of staging: 8080 → 9090"
    assert update(settled).fact == settled.fact


def test_a_switch_takes_the_place_of_what_was_used_for_that(store: Store) -> None:
    orm, auth = remember(store, "Team uses Prisma for the ORM", "Team uses JWT for authentication")
    assert update(settle(store, "We switched from JWT to Clerk")[0]).id == auth
    assert update(settle(store, "Team switched from Prisma to Drizzle")[0]).id == orm


def test_what_gave_way_may_be_named_first(store: Store) -> None:
    known, _ = remember(store, "Tests run with Jest in this repository", "End-to-end tests run with Playwright")
    [settled] = settle(store, "Not Jest - tests run with Vitest in this repo")
    assert (update(settled).id, settled.also) == (known, ())


def test_what_stands_beside_a_memory_is_added(store: Store) -> None:
    remember(store, "Team uses Redis for caching", "User likes React", "auth-service timeout is 30s")
    for text in ("Team uses PostgreSQL for storage", "User likes Vue", "billing-service timeout is 30s"):
        [settled] = settle(store, text)
        assert isinstance(settled.decision, Add), text


def test_a_memory_is_found_by_its_words_where_its_vector_is_far(store: Store) -> None:
    [known] = remember(store, "Team uses Prisma")
    remember(store, *(f"We switched from A{number} to B{number} long ago in team {number}" for number in range(30)))
    [settled] = settle(store, "We switched from Prisma to Drizzle", k=5)
    assert update(settled).id == known


def test_the_tags_of_the_old_memory_go_on(store: Store) -> None:
    remember(store, fact("The staging port is 8080", tags=("ops",), entities=("8080",)))
    [settled] = settle(store, fact("The staging port is 9090", tags=("net",), entities=("9090",)))
    assert update(settled).fact.tags == ("net", "ops")
    assert update(settled).fact.entities == ("9090",)


def test_further_memories_that_are_out_of_date_go_too(store: Store) -> None:
    first, second = remember(store, "The staging port is 8080", "The port of staging is 7070")
    [settled] = settle(store, "The staging port is 9090")
    assert {update(settled).id} < {first, second}
    other = ({first, second} - {update(settled).id}).pop()
    assert [gone.id for gone in settled.also] == [other]
    assert "out of date" in settled.also[0].reason


def test_where_one_memory_says_it_and_another_something_else_it_is_noted_and_the_other_goes(store: Store) -> None:
    stale, known = remember(store, "The staging port is 8080", "The port of staging is 9090")
    [settled] = settle(store, "The staging port is 9090")
    assert isinstance(settled.decision, Noop)
    assert settled.decision.id == known
    assert [gone.id for gone in settled.also] == [stale]


@pytest.mark.parametrize(
    "said",
    ["We also use PayPal for payments.", "We use PayPal for payments too.", "We use PayPal for payments as well."],
)
def test_what_is_said_beside_a_memory_does_not_take_its_place(store: Store, said: str) -> None:
    remember(store, "Team uses Stripe for payments")
    [settled] = settle(store, fact("Team uses PayPal for payments", context=said))
    assert isinstance(settled.decision, Add)
    assert settled.also == ()


def test_what_was_said_again_since_is_not_overwritten_by_what_came_late(store: Store) -> None:
    (known,) = remember(store, "The staging port is 8080")
    seen = Noop(known, Occurrence("", "s", "2027-03-03T00:00:00Z"))
    store.apply([seen], {}, by="test", why="said again")
    [settled] = settle(store, fact("The staging port is 9090", created_at="2027-03-02T00:00:00Z"))
    assert settled.decision is None
    assert settled.reason == f"memory {known} is newer and says otherwise"


# ── whose and when ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"source": "test/other"},
        {"visibility": "team"},
        {"agent": "somebody"},
        {"speaker": "Ann"},
    ],
)
def test_what_is_known_elsewhere_is_neither_noted_nor_replaced(store: Store, elsewhere: dict[str, str]) -> None:
    remember(store, fact("The staging port is 8080", **{"agent": "me", **elsewhere}))
    for text in ("The staging port is 8080", "The staging port is 9090"):
        [settled] = settle(store, fact(text, agent="me"))
        assert isinstance(settled.decision, Add)


# ── in a project ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_one_client_told_of_a_project_is_corrected_by_another(store: Store) -> None:
    [known] = remember(store, fact("The staging port is 8080", project=WEB, source="codex/web"))
    [again] = settle(store, fact("The staging port is 8080", project=WEB, source="claude-code/web"))
    assert isinstance(again.decision, Noop)
    [settled] = settle(store, fact("The staging port is 9090", project=WEB, source="claude-code/web"))
    assert update(settled).id == known
    assert update(settled).fact.project == WEB


def test_what_another_project_knows_is_neither_noted_nor_replaced(store: Store) -> None:
    remember(store, fact("The staging port is 8080", project="/home/ada/web"))
    for text in ("The staging port is 8080", "The staging port is 9090"):
        [settled] = settle(store, fact(text, project=WEB))
        assert isinstance(settled.decision, Add), text


@pytest.mark.parametrize("beyond", [{}, {"source": "codex"}, {"visibility": "global"}, GLOBAL_ELSEWHERE])
@pytest.mark.parametrize("text", ["User prefers tabs over spaces", "user prefers tabs over  spaces!"])
def test_what_is_known_beyond_the_project_is_noted_there_and_not_kept_again(
    store: Store, beyond: dict[str, str], text: str
) -> None:
    [known] = remember(store, fact("User prefers tabs over spaces", **beyond))
    [settled] = settle(store, fact(text, project=WEB))
    assert isinstance(settled.decision, Noop)
    assert settled.decision.id == known


@pytest.mark.parametrize("beyond", [{"agent": "somebody"}, {"visibility": "team"}, {"speaker": "Ann"}])
def test_what_somebody_else_keeps_beyond_the_project_is_not_noted(store: Store, beyond: dict[str, str]) -> None:
    remember(store, fact("User prefers tabs over spaces", **beyond))
    [settled] = settle(store, fact("User prefers tabs over spaces", project=WEB))
    assert isinstance(settled.decision, Add)


def test_what_a_project_says_otherwise_leaves_what_holds_beyond_it(store: Store) -> None:
    remember(store, fact("The staging port is 8080"), fact("The staging port is 8080", visibility="global"))
    [settled] = settle(store, fact("The staging port is 9090", project=WEB))
    assert isinstance(settled.decision, Add)


def test_a_project_that_comes_round_to_what_holds_everywhere_gives_up_its_own(store: Store) -> None:
    everywhere, own = remember(store, "The staging port is 8080", fact("The staging port is 9090", project=WEB))
    [settled] = settle(store, fact("The staging port is 8080", project=WEB))
    assert isinstance(settled.decision, Noop)
    assert settled.decision.id == everywhere
    assert [gone.id for gone in settled.also] == [own]


def test_what_belongs_to_no_project_does_not_look_into_any(store: Store) -> None:
    remember(store, fact("The staging port is 8080", project=WEB))
    [settled] = settle(store, "The staging port is 8080")
    assert isinstance(settled.decision, Add)


# ── when it was said ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_older_statement_never_overwrites_a_newer_memory(store: Store) -> None:
    [known] = remember(store, fact("The staging port is 9090", created_at="2026-03-02T00:00:00Z"))
    [settled] = settle(store, fact("The staging port is 8080", created_at="2026-03-01T00:00:00Z"))
    assert settled.decision is None
    assert settled.reason == f"memory {known} is newer and says otherwise"


def test_an_older_statement_of_the_same_is_still_noted(store: Store) -> None:
    remember(store, fact("The staging port is 9090", created_at="2026-03-02T00:00:00Z"))
    [settled] = settle(store, fact("The port of staging is 9090", created_at="2026-03-01T00:00:00Z"))
    assert settled.action == "noop"


def test_a_pinned_memory_is_not_replaced(store: Store) -> None:
    [known] = remember(store, "The staging port is 8080")
    store.apply([Edit(known, {"pinned": True})], {}, by="t", why="t")
    [settled] = settle(store, "The staging port is 9090")
    assert isinstance(settled.decision, Add)
    assert "pinned" in settled.decision.reason


def test_an_archived_memory_is_not_known(store: Store) -> None:
    [known] = remember(store, "The staging port is 8080")
    [first] = settle(store, "The staging port is 9090")
    store.apply([update(first)], {0: embedded([first.fact.text])[0]}, by="t", why="t")
    [settled] = settle(store, "The staging port is 8080")
    assert update(settled).id != known


# ── several facts of one exchange ─────────────────────────────────────────────────────────────────────────────────────


def test_what_the_exchange_repeats_is_left_out(store: Store) -> None:
    first, again = settle(store, "The staging port is 9090", "The port of staging is 9090")
    assert first.action == "add"
    assert (again.decision, again.reason) == (None, "said before in the same exchange")


def test_what_the_exchange_itself_corrects_is_left_out(store: Store) -> None:
    first, last = settle(store, "The staging port is 8080", "The staging port is 9090")
    assert (first.decision, first.reason) == (None, "corrected in the same exchange")
    assert isinstance(last.decision, Add)


def test_the_correction_takes_over_the_memory_that_the_corrected_one_would_have_replaced(store: Store) -> None:
    [known] = remember(store, "We use Prisma for the ORM")
    first, last = settle(store, "We switched from Prisma to Drizzle", "We switched from Drizzle to Kysely")
    assert first.decision is None
    assert update(last).id == known
    assert update(last).fact.text == "We switched from Drizzle to Kysely"


def test_two_facts_never_replace_the_same_memory(store: Store) -> None:
    [known] = remember(store, "Team uses Redis for caching")
    first, second = settle(store, "Team uses Valkey for caching", "Team no longer uses Redis")
    assert update(first).id == known
    assert isinstance(second.decision, Add)


def test_all_decisions_of_an_exchange_can_be_done_in_one_go(store: Store) -> None:
    remember(store, "Team uses Redis for caching", "The staging port is 8080", "User likes tea")
    settled = settle(
        store,
        "The staging port is 7070",
        "I like tea",
        "We replaced Redis with Valkey",
        "The staging port is 9090",
        "Ann owns billing",
        "Billing is owned by Ann",
    )
    assert [each.action for each in settled] == ["rejected", "noop", "update", "update", "add", "rejected"]
    decided = [each for each in settled if each.decision]
    vectors = {
        place: embedded([each.fact.text])[0] for place, each in enumerate(decided) if each.action in ("add", "update")
    }
    store.apply([each.decision for each in decided if each.decision], vectors, by="t", why="t")
    memories, _ = store.page(rules.Scope(source=SOURCE), limit=10)
    assert sorted(memory.text for memory in memories) == [
        "Ann owns billing",
        "The staging port is 9090",
        "User likes tea",
        "We replaced Redis with Valkey",
    ]


def test_nothing_is_made_of_nothing(store: Store) -> None:
    assert rules.settle([], embedded([]), store) == []


# ── echoes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def echo(store: Store | None, text: str, *injected: str) -> str:
    said = fact(text)
    return rules.echoes(said, embedded([text])[0], store, injected)


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
        "The billing service listens on port 8080",
        "The auth service does not listen on port 8080",
        "The auth service listens on port 8080 and talks to Kafka through Envoy on port 9092",
        "Deploys wait for approval",
    ],
)
def test_what_the_agent_adds_or_corrects_is_no_echo(store: Store, said: str) -> None:
    remember(store, "The auth service listens on port 8080")
    assert echo(store, said) == ""
    assert echo(None, said, "- [0.91] The auth service listens on port 8080") == ""


def test_opposites_are_no_echo(store: Store) -> None:
    remember(store, "The feature flag new-checkout is enabled in the demo environment")
    assert echo(store, "The feature flag new-checkout is disabled in the demo environment") == ""


def test_another_projects_memory_is_not_echoed_but_everybodys_is(store: Store) -> None:
    text = "Deploys wait for approval"
    remember(store, fact(text, source="test/other"))
    assert echo(store, text) == ""
    remember(store, fact(text, source="test/other", visibility="global"))
    assert echo(store, text) != ""


def test_in_a_project_whatever_is_seen_there_is_echoed(store: Store) -> None:
    text = "Deploys wait for approval"
    said = fact(text, project=WEB, source="claude-code/web")
    remember(store, fact(text, project="/srv/api", source="claude-code/web"))
    assert not rules.echoes(said, embedded([text])[0], store, ())
    for seen in ({"project": WEB, "source": "codex/web"}, {}, GLOBAL_ELSEWHERE):
        [known] = remember(store, fact(text, **seen))
        assert str(known) in rules.echoes(said, embedded([text])[0], store, ()), seen
        store.apply([Delete(known)], {}, by="t", why="t")


def test_what_is_said_besides_does_away_with_what_denied_it(store: Store) -> None:
    (known,) = remember(store, "Team policy: never deploy on Fridays")
    [settled] = settle(
        store, fact("We deploy on Fridays too", context="We deploy on Fridays too now, the rule is gone.")
    )
    assert update(settled).id == known
