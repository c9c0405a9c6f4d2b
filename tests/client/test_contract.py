"""Contract suite of Keeper and Client: every scenario returns the same with the library and through a real service."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import pytest

from cofio.client import Client, ClientNotes
from cofio.client.knowledge import ClientKnowledge
from cofio.core import Keeper
from cofio.core.domain_knowledge import KnowledgeBase
from cofio.errors import Conflict, InvalidInput, NotConfigured, NotFound, TooLarge
from cofio.markdown_notes.service import NotesService
from cofio.models.auth import ROLES, Grant
from cofio.models.domain_knowledge import Pattern
from cofio.models.memory import Delete, Fact, Page, Query
from cofio.server.http.routes import ROUTES
from cofio.settings import Settings
from tests.cli.conftest import running_service

Memories = Keeper | Client


class Scenario(Protocol):
    __name__: str

    def __call__(self, memories: Memories) -> Any: ...


_SCENARIOS: list[Scenario] = []


def scenario(function: Scenario) -> Scenario:
    _SCENARIOS.append(function)
    return function


@pytest.fixture
def client(new_keeper: Callable[[str], Keeper]) -> Iterator[Client]:
    settings = Settings.load({"port": 0, "api_key": "the key"}, environ={})
    with running_service(new_keeper("served"), settings) as url, Client(url, "the key") as client:
        yield client


@pytest.mark.parametrize("scenario", _SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_client_returns_the_same_as_the_keeper(
    scenario: Scenario, new_keeper: Callable[[str], Keeper], client: Client
) -> None:
    assert to_plain(scenario(client)) == to_plain(scenario(new_keeper("direct")))


def to_plain(value: Any) -> Any:
    """Convert results to JSON values, with scores rounded as in responses."""
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if hasattr(value, "as_dict"):
        return {"a": type(value).__name__, **value.as_dict()}
    if is_dataclass(value):
        return {name: to_plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return round(value, 6) if isinstance(value, float) else value


def expect_error(kind: type[Exception], operation: Callable[[], Any]) -> tuple[str, str]:
    with pytest.raises(kind) as error_info:
        operation()
    assert type(error_info.value) is kind
    return error_info.value.message, error_info.value.hint  # type: ignore[attr-defined]


# ── adding and changing ───────────────────────────────────────────────────────────────────────────────────────────────


@scenario
def duplicate_fact_is_stored_once(memories: Memories) -> Any:
    first = memories.add("We deploy with Fly.io", source="acme/web", by="tester", why="said so")
    repeated = memories.add("We deploy with Fly.io", source="acme/web")
    stored = memories.add("We deploy with Fly.io", source="acme/web", dedup=False)
    assert [first.action, repeated.action, stored.action] == ["add", "noop", "add"]
    assert (first.by, first.why, repeated.by) == ("tester", "said so", "library")
    return [first, repeated, stored, memories.get(first.memory_id)]


@scenario
def fact_keeps_every_field(memories: Memories) -> Any:
    fact = Fact(
        text="Adä drinks tea 🍵\nat four",
        source="acme/web",
        project="/srv/wëb app",
        kind="preference",
        confidence=0.7,
        method="import",
        entities=("Ada", "tea"),
        tags=("drinks", "a,b"),
        session="s1",
        agent="a1",
        visibility="team",
        metadata={"deep": {"list": [1, None, "x"]}},
        speaker="Ada",
        context="What do you drink?",
        created_at="2026-02-20T06:44:28Z",
    )
    change = memories.add(fact)
    assert change.after is not None
    assert change.after.metadata == {"deep": {"list": [1, None, "x"]}}
    return change


@scenario
def add_all_creates_one_changeset(memories: Memories) -> Any:
    memories.add("Bob likes coffee")
    texts = ["Ada likes tea", "Bob likes coffee", "Ada likes tea", "Eve likes water", "Bob likes coffee"]
    changes = memories.add_all(texts, by="tester", why="many")
    assert [change.action for change in changes] == ["add", "noop", "noop", "add", "noop"]
    assert len({change.changeset for change in changes}) == 1
    return [changes, memories.add_all([])]


@scenario
def update_changes_fields(memories: Memories) -> Any:
    memory_id = memories.add("We deploy with Fly.io").memory_id
    text = memories.update(memory_id, text="We deploy with Render", kind="technology", why="moved")
    labels = memories.update(memory_id, pinned=True, tags=("infra",), entities=["Render"], metadata={"a": 1})
    return [text, labels, memories.get(memory_id), memories.search("render")]


@scenario
def sessions_are_listed_and_resumed(memories: Memories) -> Any:
    about = {"client": "claude", "session": "s1/a b", "project": "/srv/web", "source": "acme/web"}
    memories.capture("I prefer tabs over spaces.", wait=True, turn="1", **about)
    memories.capture("Where were we?", wait=True, turn="2", **{**about, "session": "s2", "project": ""})
    assert [session.turns for session in memories.sessions(project="/srv/web")] == [1]
    (learned,) = memories.session("s1/a b", client="claude").learned
    assert "tabs" in learned.text
    return [
        [session.session for session in memories.sessions(limit=5, client="claude", since="2020-01-01")],
        [session.session for session in memories.sessions(project="")],
        memories.session("s1").session.turns,
        [session.session.session for session in memories.resume("/srv/web").sessions],
        memories.resume("").project,
        len(memories.resume(limit=1, max_tokens=200).sessions),
        expect_error(NotFound, lambda: memories.session("another")),
        expect_error(NotFound, lambda: memories.session("s1", owner="ada")),
        expect_error(Conflict, lambda: memories.session("s")),
    ]


@scenario
def episodes_are_searched_and_purged(memories: Memories) -> Any:
    about = {"client": "claude", "session": "s1", "project": "/srv/web", "source": "acme/web"}
    memories.capture("Shall we meet at the harbour?", wait=True, turn="1", **about)
    memories.capture("I prefer tabs over spaces.", wait=True, turn="2", **about)
    hits = memories.search_episodes("harbour", k=1, project="/srv/web", since="2020-01-01")
    assert [hit.passage.session for hit in hits] == ["s1"]
    memory = memories.search("tabs")[0].id
    results = memories.episode_of(memory)
    assert results is not None
    memories.purge_episode(results)
    return [
        [hit.passage._asdict() for hit in hits],  # scores depend on what the service has embedded so far
        memories.episode(hits[0].episode),
        memories.episode_of(memory),
        memories.search_episodes("harbour", session="another"),
        expect_error(NotFound, lambda: memories.episode(results)),
        expect_error(NotFound, lambda: memories.purge_episode(results)),
        expect_error(InvalidInput, lambda: memories.search_episodes("harbour", k=0)),
    ]


@scenario
def supersede_links_both_memories(memories: Memories) -> Any:
    old = memories.add("We use JWT", source="acme/web", kind="technology", tags=["auth"]).memory_id
    written, archived = memories.supersede(old, "We use Clerk", why="switched")
    assert (archived.memory_id, written.memory.supersedes) == (old, old)
    fact = Fact(text="We use Ory", source="acme/api", kind="technology")
    return [written, archived, memories.supersede(written.memory_id, fact), memories.get(old)]


@scenario
def delete_restore_and_purge(memories: Memories) -> Any:
    memory_id = memories.add("We deploy with Fly.io").memory_id
    deleted = memories.delete(memory_id, by="tester", why="old")
    back = memories.restore(memory_id, by="tester", why="not so old")
    deletion = memories.purge(memory_id, by="tester", why="secret")
    assert [deleted.why, back.why, deletion.why] == ["old", "not so old", "secret"]
    message = expect_error(NotFound, lambda: memories.get(memory_id))
    return [deleted, back, deletion.memory_id, deletion.action, deletion.before, message]


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _add_samples(memories: Memories) -> None:
    memories.add("We deploy with Fly.io on Fridays", source="acme/web", kind="technology", tags=["infra", "ops"])
    memories.add("We deploy the docs with Netlify", source="acme/docs", kind="technology", visibility="team")
    memories.add("Ada prefers tabs over spaces", source="acme/web", kind="preference", agent="a1", session="s1")
    memories.add("Bob prefers spaces", source="other", kind="preference", tags=["infra"])
    memories.update(4, pinned=True)


@scenario
def search_returns_explained_hits(memories: Memories) -> Any:
    _add_samples(memories)
    hits = memories.search("where do we deploy?", explain=True, k=3)
    assert hits[0].why is not None
    assert "deploy" in hits[0].why.words
    narrowed = memories.search("prefers", source_prefix="acme", kind="preference", hybrid=False, threshold=0.1)
    query = Query(text="deploy", k=1, min_score=0.05)
    return [hits, narrowed, memories.search(query), memories.search("deploy", visibility=["team"], tags=["none"])]


@scenario
def search_all_keeps_the_order(memories: Memories) -> Any:
    _add_samples(memories)
    queries = [Query(text=f"deploy {number}", k=1) for number in range(130)]
    answers = memories.search_all(queries)
    assert len(answers) == 130
    return [answers[:3], memories.search_all([])]


@scenario
def search_counts_a_retrieval(memories: Memories) -> Any:
    _add_samples(memories)
    memories.search("tabs over spaces", k=1)
    memory = memories.get(3)
    assert memory.retrieval_count == 1
    return memory


@scenario
def team_facts_and_patterns_are_returned(memories: Memories) -> Any:
    for team in ("red", "red", "blue"):
        memories.add("Add a null check", kind="policy", agent="agent-1", visibility="team", team=team)
    memories.add("We ship on mondays", visibility="team", team="red", created_at="2020-01-01")
    memories.add("Ada prefers tabs")
    facts = memories.get_team_facts(team="red")
    assert [fact.text for fact in facts] == ["Add a null check", "We ship on mondays"]
    patterns = memories.detect_cross_agent_patterns(team="red")
    assert [(pattern.agent, pattern.occurrences) for pattern in patterns] == [("agent-1", 2)]
    expect_error(InvalidInput, lambda: memories.get_team_facts(limit=0))
    expect_error(InvalidInput, lambda: memories.detect_cross_agent_patterns(min_occurrences=0))
    unknown = expect_error(InvalidInput, lambda: memories.get_team_facts(category="gossip"))
    every = [memories.get_team_facts(limit=1), memories.get_team_facts(category="policy"), memories.get_team_facts()]
    counted = [memories.detect_cross_agent_patterns(limit=1), memories.detect_cross_agent_patterns(min_occurrences=4)]
    return [facts, patterns, unknown, every, counted, memories.get_team_facts(team="green")]


@scenario
def enrich_prompt_adds_context(memories: Memories) -> Any:
    memories.add("The database of billing is PostgreSQL", session="s1")
    memories.add("Billing migrates its database on mondays", visibility="team")
    query = "When does billing migrate its database, and which is it?"
    texts = [memories.enrich_prompt(query, "s1"), memories.enrich_prompt(query, include_team=True, max_facts=1)]
    assert all("## Relevant Personal Context:" in text for text in texts)
    expect_error(InvalidInput, lambda: memories.enrich_prompt(query, max_facts=0))
    return [texts, memories.enrich_prompt("what is for lunch?"), memories.enrich_prompt(""), memories.get(1)]


@scenario
def recall_context_returns_a_block(memories: Memories) -> Any:
    memories.add("AAPL reports its earnings on thursday")
    query = "when does AAPL report its earnings?"
    result = memories.recall_context(query)
    assert "## Relevant Memories\n- [" in result
    expect_error(InvalidInput, lambda: memories.recall_context(query, max_patterns=-1))
    few = memories.recall_context(query, max_memories=0, max_patterns=0, max_thresholds=0, by="tester")
    assert "No prior context found." in few
    return [result, few, memories.recall_context(""), memories.get(1)]


@scenario
def is_novel_returns_the_match(memories: Memories) -> Any:
    _add_samples(memories)
    known = memories.is_novel("ada prefers TABS over spaces")
    strict = memories.is_novel(Fact(text="Ada prefers tabs", speaker="Ada"), threshold=0.2)
    other = memories.is_novel("Ada prefers tabs over spaces", source="other")
    assert (known.novel, other.novel) == (False, True)
    return [known, strict, other]


@scenario
def memories_are_listed_by_page_and_scope(memories: Memories) -> Any:
    _add_samples(memories)
    memories.delete(2)
    first = memories.list(limit=2)
    assert isinstance(first, Page)
    scopes: list[dict[str, Any]] = [
        {"source": "acme/web"},
        {"source_prefix": "acme", "include_archived": True},
        {"tags": ("infra", "ops")},
        {"visibility": ["team", "global"], "include_archived": True},
        {"pinned": True},
        {"pinned": False, "kind": "preference", "category": "decision", "agent": "a1", "session": "s1"},
        {"since": "2026-01-01T00:00:02Z", "until": "2026-01-01T00:00:03+00:00", "method": "manual"},
    ]
    return [first, memories.list(limit=2, after=first.next), [memories.list(**scope) for scope in scopes]]


@scenario
def projects_are_listed_by_name_and_page(memories: Memories) -> Any:
    for project in ("/srv/web", "/srv/wëb app", "acme/web", "", "/srv/web"):
        memories.add(f"Something about {project or 'nothing'}", project=project, dedup=False)
    results = memories.projects()
    assert [(item.name, item.memories) for item in results] == [("/srv/web", 2), ("/srv/wëb app", 1), ("acme/web", 1)]
    expect_error(InvalidInput, lambda: memories.projects(limit=0))
    return [results, memories.projects(limit=1), memories.projects(after="/srv/wëb app")]


@scenario
def search_skip_continues_the_results(memories: Memories) -> Any:
    for number in range(9):
        memories.add(f"Host {number} is patched")
    pages = [memories.search("which host is patched?", k=4, skip=skip) for skip in (0, 4, 8, 12)]
    assert [len(page) for page in pages] == [4, 4, 1, 0]
    assert len({hit.id for page in pages for hit in page}) == 9
    return pages


@scenario
def bulk_change_is_one_changeset(memories: Memories) -> Any:
    _add_samples(memories)
    tagged = memories.bulk([1, 3, 4], "tag", tags=["infra"], by="tester", why="sorted")
    assert [change.memory_id for change in tagged.changes] == [3]  # the others had this tag already
    updated = memories.bulk([1, 2], "edit", changes={"category": "detail", "project": "/srv/web"})
    deleted = memories.bulk([3, 4], "archive")
    same = [
        expect_error(Conflict, lambda: memories.bulk([3], "archive")),
        expect_error(NotFound, lambda: memories.bulk([1, 99], "pin")),
        expect_error(InvalidInput, lambda: memories.bulk([1], "paint")),
        expect_error(InvalidInput, lambda: memories.bulk([1], "edit", changes={"text": "all the same"})),
    ]
    return [tagged, updated, deleted, same, memories.undo(deleted.id), memories.list()]


@scenario
def search_without_noting_counts_no_retrieval(memories: Memories) -> Any:
    _add_samples(memories)
    looked = memories.search("tabs over spaces", k=1, log=False)
    assert looked[0].id == 3
    memories.search_all([Query(text="tabs over spaces", k=1, log=False), Query(text="spaces", k=1)])
    assert memories.get(3).retrieval_count + memories.get(4).retrieval_count == 1
    return [looked, memories.get(3), memories.get(4)]


@scenario
def list_skip_offsets_the_page(memories: Memories) -> Any:
    _add_samples(memories)
    page = memories.list(limit=2, skip=1)
    assert [memory.id for memory in page.memories] == [3, 2]
    expect_error(InvalidInput, lambda: memories.list(skip=-1))
    return [page, memories.list(limit=2, skip=1, after=3), memories.list(skip=9)]


@scenario
def learned_from_returns_the_exchange(memories: Memories) -> Any:
    texts = [{"role": "user", "content": "We switched from Prisma to Drizzle."}]
    memories.capture(texts, wait=True, client="cc", session="s1", turn="1")
    memories.add("Ada prefers tabs")
    newest, learned = memories.list().memories
    item = memories.learned_from(learned.id)
    assert item is not None
    assert item.exchange is not None
    return [item, memories.learned_from(newest.id), expect_error(NotFound, lambda: memories.learned_from(99))]


@scenario
def project_and_seen_from_scopes_differ(memories: Memories) -> Any:
    memories.add("We deploy with Fly.io", project="/srv/web", source="claude-code/web")
    repeated = memories.add("We deploy with Fly.io", project="/srv/web", source="codex/web")
    other = memories.add("We deploy with Fly.io", project="/srv/api")
    memories.add("We deploy on Fridays")
    memories.update(other.memory_id, visibility="global")
    assert (repeated.action, other.action) == ("noop", "add")
    scopes: list[dict[str, Any]] = [
        {"project": "/srv/web"}, {"project": ""}, {"visible_in": "/srv/web"}, {"visible_in": "/srv/api"},
        {"visible_in": ""}, {"visible_in": "/srv/web", "project": "/srv/web"},
    ]  # fmt: skip
    results = [[memory.id for memory in memories.list(**scope).memories] for scope in scopes]
    assert results == [[1], [3], [3, 2, 1], [3, 2], [3, 2], [1]]
    assert results == [sorted((hit.id for hit in memories.search("deploy", **scope)), reverse=True) for scope in scopes]
    updated = memories.update(1, project="/srv/api")
    written, _ = memories.supersede(1, "We deploy with Render")
    assert written.memory.project == "/srv/api"
    away = memories.update(written.memory_id, project="")
    return [repeated, updated, written, away, memories.is_novel("We deploy with Render", project="/srv/api")]


@scenario
def stats_are_equal(memories: Memories) -> Any:
    _add_samples(memories)
    result = memories.stats()
    return {name: value for name, value in result.items() if name not in ("bytes", "version", "uptime_seconds")}


# ── history and maintenance ───────────────────────────────────────────────────────────────────────────────────────────


@scenario
def history_is_read_and_undone(memories: Memories) -> Any:
    added = memories.add("We use JWT")
    written, _ = memories.supersede(added.memory_id, "We use Clerk")
    memories.update(written.memory_id, pinned=True)
    undo = memories.undo(written.changeset + 1, by="tester", why="not pinned")
    assert undo.undoes == written.changeset + 1
    conflict = expect_error(Conflict, lambda: memories.undo(written.changeset + 1))
    return [
        memories.history(written.memory_id),
        memories.occurrences(written.memory_id),
        memories.changes(limit=3),
        memories.changes(),
        memories.changeset(written.changeset),
        undo,
        memories.undo(undo.id),
        conflict,
    ]


@scenario
def backfill_is_one_series_and_undone_at_once(memories: Memories) -> Any:
    series = memories.begin_backfill(by="tester")
    assert memories.begin_backfill() == series
    named = {"client": "codex", "session": "s"}
    for turn, said in (("1", "We use tabs."), ("2", "We switched from Prisma to Drizzle.")):
        memories.capture(said, wait=True, turn=turn, series=series, **named)
    memories.end_backfill(series, by="tester")
    assert memories.turns("codex", "s") == {"1", "2"}
    assert memories.turns("codex", "s", any_key=True) == {"1", "2"}
    assert memories.turns("codex", "t") == set()
    stored = [memory.text for memory in memories.list().memories]
    assert len(stored) == 2
    memories.undo(series)
    assert memories.list().memories == ()
    conflict = expect_error(Conflict, lambda: memories.undo(series))
    return [stored, series, memories.begin_backfill() != series, conflict]


@scenario
def duplicates_are_found_and_merged(memories: Memories) -> Any:
    assert memories.merge_duplicates() is None
    for text in ("We deploy with Fly.io", "we deploy with Fly.io", "Ada likes tea"):
        memories.add(text, source="acme/web", dedup=False)
    results = memories.find_duplicates(threshold=0.95)
    assert results == [Delete(2, results[0].reason, into=1)]
    assert memories.find_duplicates(source_prefix="other") == []
    result = memories.merge_duplicates(threshold=0.95, source_prefix="acme", by="tester", why="tidy")
    assert result is not None
    assert (result.by, result.why) == ("tester", "tidy")
    return [results, result, memories.get(1), memories.get(2)]


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@scenario
def keys_are_created_listed_and_revoked(memories: Memories) -> Any:
    grant = Grant(name="Ada's", role="read", user="ada", team="web", prefixes=("acme/web",), expires_at="2999-01-01")
    key, secret = memories.create_key(grant, by="tester")
    other, another = memories.create_key(Grant(name="root", role="admin"))
    assert (key.grant, key.created_by, len({secret, another})) == (grant, "tester", 2)
    assert (secret[:12], another[:12]) == (key.hint, other.hint)
    deleted = memories.revoke_key(key.id, by="tester")
    result = [key, other, deleted, *memories.keys()]
    assert memories.keys() == [other, deleted]
    same = [
        expect_error(Conflict, lambda: memories.create_key(Grant(name="root", role="admin"))),
        expect_error(Conflict, lambda: memories.revoke_key(key.id)),
        expect_error(NotFound, lambda: memories.revoke_key(99)),
        expect_error(InvalidInput, lambda: memories.create_key(Grant(name="x", user="x", expires_at="2020-01-01"))),
    ]
    return [same, [{**item.as_dict(), "hint": ""} for item in result]]


@scenario
def audit_log_is_listed(memories: Memories) -> Any:
    for name in ("one", "two", "three"):
        memories.create_key(Grant(name=name, user="ada"), by="tester")
    newest = memories.audit_entries(limit=2)
    assert [item.what for item in newest] == ["key 3 (three), write", "key 2 (two), write"]
    before = memories.audit_entries(after=newest[-1].id)
    expect_error(InvalidInput, lambda: memories.audit_entries(limit=0))
    result = [(item.act, item.what, item.outcome, item.id) for item in newest + before]
    return [result, memories.audit_entries(key=1)]


# ── domain knowledge ──────────────────────────────────────────────────────────────────────────────────────────────────


REF = "thresholds/aapl.volume.above"


@scenario
def rows_are_put_listed_and_deleted(memories: Memories) -> Any:
    known = memories.knowledge
    first = known.put("thresholds", source="AAPL", metric="volume", value=5e6, direction="above", by="ann", why="so")
    repeated = known.put("thresholds", source="AAPL", metric="volume", value=5e6, direction="above")
    changed = known.put("thresholds", source="AAPL", metric="volume", value=6e6, direction="above", confidence=0.7)
    assert [item.action for item in (first, repeated, changed)] == ["add", "noop", "update"]
    created = [
        known.upsert_threshold("web", "latency", 250, "above", unit="ms", inclusive=True, by="ann"),
        known.upsert_pattern("the queue grows after a deploy", source="web", confidence=0.8, visibility="global"),
        known.upsert_pattern("volume spikes before earnings", id="spïke", user="ada", team="desk", place="acme/web"),
        known.upsert_correlation("BTC", "COIN", "BTC leads COIN", relation="leads", agent="watcher"),
        known.upsert_seasonal("low volume", "weekly", during="fri 12:00-16:00", timezone="America/New_York"),
    ]
    assert isinstance(created[1], Pattern)
    deleted = known.delete("thresholds", "web.latency.above", by="ann", why="outdated")
    deletion = known.purge("patterns", "spïke", by="ann", why="secret")
    assert [deleted.why, deletion.why] == ["outdated", "secret"]
    lists = [
        known.list("thresholds"), known.list("patterns", min_confidence=0.6), known.patterns(0.9), known.patterns(),
        known.list("correlations", relation="leads"), known.list("seasonal", period="weekly", limit=1),
        known.list("thresholds", source="aapl", metric="VOLUME"), known.list("patterns", team=""),
    ]  # fmt: skip
    history = [known.history("thresholds", "web.latency.above"), known.history("patterns", "spïke")]
    undo = memories.undo(deleted.changeset)
    same = [
        first,
        repeated,
        changed,
        created,
        deleted,
        deletion,
        lists,
        history,
        undo,
        known.counts(),
        memories.changes(),
    ]
    return [same, known.get("thresholds", "web.latency.above"), memories.changeset(deleted.changeset)]


@scenario
def table_is_paginated(memories: Memories) -> Any:
    known = memories.knowledge
    for number in range(5):
        known.upsert_pattern(f"pattern {number}", id=f"p{number}", confidence=(number % 2) / 2)
    pages = [known.list("patterns", limit=2)]
    while pages[-1]:
        pages.append(known.list("patterns", limit=2, after=pages[-1][-1].id))
    assert [item.id for page in pages for item in page] == ["p1", "p3", "p0", "p2", "p4"]
    return pages


@scenario
def thresholds_correlations_and_seasons_are_evaluated(memories: Memories) -> Any:
    known = memories.knowledge
    known.upsert_threshold("AAPL", "volume", 5e6, "above", confidence=0.9)
    known.upsert_threshold("*", "volume", 4e6, "above")
    known.upsert_correlation("BTC", "COIN", "BTC leads COIN", relation="leads", confidence=0.5)
    known.upsert_correlation("COIN", "HOOD", "opposite", inverse=True, confidence=0.4)
    known.upsert_seasonal("low volume", "weekly", during="fri 12:00-16:00", source="AAPL")
    fired = known.evaluate("aapl", "volume", 6.2e6)
    assert [item.by for item in fired] == [1.2e6, 2.2e6]
    walked = known.related("HOOD", depth=2)
    assert [item.there for item in walked] == ["COIN", "BTC"]
    on = known.active("2026-02-20T13:00:00+00:00")
    assert [item.until for item in on] == ["2026-02-20T16:00:00.000000+00:00"]
    read = known.read("Threshold: flag MSFT if volume exceeds 7M.")
    assert [(item.table, item.fields["value"], item.denied) for item in read] == [("thresholds", 7e6, False)]
    nothing = [known.evaluate("AAPL", "volume", 1), known.related("gold"), known.active("2026-02-21", source="x")]
    return [fired, known.evaluate("AAPL", "volume", 9e9, unit="$"), walked, on, read, nothing, known.active()]


@scenario
def feedback_is_processed(memories: Memories) -> Any:
    known = memories.knowledge
    known.upsert_threshold("AAPL", "volume", 5e6, "above")
    result = [known.process_feedback()]
    outcome = known.feedback("AAPL monday", "confirmed", about=[REF], note="earnings", by="ann", why="looked at it")
    repeated = known.feedback("AAPL monday", "confirmed", about=[REF], note="earnings")
    for day in ("tuesday", "wednesday"):
        known.feedback(f"AAPL {day}", "false_alarm", about=(REF,), process=False, user="ada")
    pending = known.pending_feedback()
    assert [item.anomaly for item in pending] == ["AAPL tuesday", "AAPL wednesday"]
    result += [known.get("thresholds", "aapl.volume.above"), known.process_feedback(by="ann", why="the week is over")]
    assert known.pending_feedback() == []
    result += [known.list("feedback"), known.list("feedback", verdict="confirmed", processed=True), pending]
    return [result, outcome, repeated, known.get("thresholds", "aapl.volume.above"), known.history(*REF.split("/"))]


@scenario
def feedback_row_is_put_like_any_row(memories: Memories) -> Any:
    known = memories.knowledge
    known.upsert_threshold("AAPL", "volume", 5e6, "above")
    first = known.put("feedback", anomaly="a1", verdict="confirmed", about=[REF], by="ann")
    later = known.put("feedback", id="a1", verdict="false_alarm", note="after all")
    assert later.after is not None
    assert later.after.as_dict()["about"] == [REF]
    expect_error(InvalidInput, lambda: known.put("feedback", id="a2", verdict="confirmed"))
    return [first, later, known.get("thresholds", "aapl.volume.above"), known.delete("feedback", "a1"), known.counts()]


def test_both_knowledge_classes_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        public = {name: each for name, each in vars(kind).items() if callable(each) and name[0] != "_"}
        return {name: list(inspect.signature(each).parameters) for name, each in public.items()}

    assert methods(ClientKnowledge) == methods(KnowledgeBase)


#: Classes of the methods that routes stand for, in the service and in the client.
SURFACES: dict[str, tuple[type, type]] = {
    "": (Keeper, Client),
    "knowledge": (KnowledgeBase, ClientKnowledge),
    "notes": (NotesService, ClientNotes),
}
#: Routes without a method: pages, streams, other protocols, and what only the service's own pages need.
WITHOUT_METHOD = (
    "/overview", "/events", "/map", "/agents", "/metrics", "/openapi.json", "/docs", "/ui", "/v1/", "/mcp", "/hooks/",
    "/settings", "/doctor", "/health", "DELETE /memories", "GET /memory/extract/{id}",
)  # fmt: skip


def test_every_route_has_a_role_a_reference_entry_and_the_same_method_in_keeper_and_client() -> None:
    reference = (Path(__file__).parents[2] / "docs/reference/http.md").read_text(encoding="utf-8")
    for route in ROUTES:
        assert route.role in ROLES
        assert f"\n## {route.method} {route.path}\n" in reference
        if route.path.startswith(WITHOUT_METHOD) or f"{route.method} {route.path}" in WITHOUT_METHOD:
            continue
        owner, _, name = route.client_method.rpartition(".")
        keeper, client = (inspect.signature(getattr(kind, name)).parameters for kind in SURFACES[owner])
        assert client.keys() <= keeper.keys(), route
        if route.is_derived and route.request:
            assert set(route.request.__struct_fields__) <= client.keys(), route


@scenario
def invalid_knowledge_is_rejected(memories: Memories) -> Any:
    known = memories.knowledge
    threshold = {"source": "AAPL", "metric": "volume", "value": 5e6, "direction": "above"}
    known.put("thresholds", **threshold)
    same = [
        expect_error(InvalidInput, lambda: known.put("hunches", pattern="x")),
        expect_error(InvalidInput, lambda: known.list("hunches")),
        expect_error(InvalidInput, lambda: known.get("hunches", "x")),
        expect_error(NotFound, lambda: known.get("thresholds", "none")),
        expect_error(NotFound, lambda: known.delete("thresholds", "none")),
        expect_error(NotFound, lambda: known.purge("thresholds", "none")),
        expect_error(NotFound, lambda: known.history("thresholds", "none")),
        expect_error(InvalidInput, lambda: known.put("thresholds", **{**threshold, "direction": "sideways"})),
        expect_error(InvalidInput, lambda: known.upsert_correlation("BTC", "btc", "with itself")),
        expect_error(InvalidInput, lambda: known.upsert_seasonal("low volume", "weekly", during="someday")),
        expect_error(InvalidInput, lambda: known.feedback("a1", "perhaps")),
        expect_error(InvalidInput, lambda: known.feedback("a1", "confirmed", about=["nothing"])),
        expect_error(NotFound, lambda: known.feedback("a1", "confirmed", about=["thresholds/none"])),
    ]
    for act in (  # both reject these, with different messages
        lambda: known.put("thresholds", **threshold, unheard="of"),
        lambda: known.put("thresholds", **{**threshold, "value": float("nan")}),
        lambda: known.put("thresholds", **{**threshold, "value": "5M"}),
        lambda: known.put("thresholds", **threshold, confidence=1.5),
        lambda: known.list("thresholds", limit=0),
        lambda: known.list("thresholds", unheard="of"),
        lambda: known.list("thresholds", min_confidence=2),
        lambda: known.evaluate("AAPL", "volume", float("inf")),
        lambda: known.related("BTC", depth=0),
        lambda: known.active("someday"),
    ):
        expect_error(InvalidInput, act)
    assert memories.knowledge.counts()["thresholds"] == 1
    return [same, memories.knowledge.counts()]


# ── errors ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@scenario
def errors_have_the_same_type_and_message(memories: Memories) -> Any:
    memories.add("We deploy with Fly.io")
    same = [
        expect_error(InvalidInput, lambda: memories.add("  ")),
        expect_error(TooLarge, lambda: memories.add("x" * 70_000)),
        expect_error(InvalidInput, lambda: memories.add("a\x00b")),
        expect_error(InvalidInput, lambda: memories.add("a\ud800b")),
        expect_error(InvalidInput, lambda: memories.add("x", kind="no kind")),
        expect_error(InvalidInput, lambda: memories.add("x", unheard="of")),
        expect_error(InvalidInput, lambda: memories.add_all(["good", ""])),
        expect_error(InvalidInput, lambda: memories.search("")),
        expect_error(InvalidInput, lambda: memories.search("x", k=0)),
        expect_error(InvalidInput, lambda: memories.update(1, kind="no kind")),
        expect_error(NotFound, lambda: memories.get(99)),
        expect_error(NotFound, lambda: memories.history(99)),
        expect_error(NotFound, lambda: memories.changeset(99)),
        expect_error(NotFound, lambda: memories.undo(99)),
        expect_error(NotFound, lambda: memories.delete(99)),
        expect_error(NotFound, lambda: memories.supersede(99, "x")),
        expect_error(Conflict, lambda: memories.restore(1)),
    ]
    for act in (  # both reject these, with different messages
        lambda: memories.list(limit=0),
        lambda: memories.update(1, text="a\ud800b"),
        lambda: memories.update(1, unheard="of"),
        lambda: memories.update(1, metadata={"a": float("nan")}),
        lambda: memories.update(1, metadata={"a": object()}),
    ):
        expect_error(InvalidInput, act)
    expect_error(NotFound, lambda: memories.get(-1))
    assert memories.stats()["memories"] == 1
    return [same, memories.get(1)]


# ── learning ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@scenario
def capture_is_learned(memories: Memories) -> Any:
    turn = {"client": "test", "session": "s", "turn": "1", "source": "acme/web", "at": "2026-03-01T10:00:00Z"}
    turn["project"] = "/srv/web"
    first = memories.capture("I prefer tabs over spaces. Hi there!", wait=True, by="tester", **turn)
    repeated = memories.capture([{"role": "user", "content": "anything"}], wait=True, **turn)
    nothing = memories.capture("Sounds good!", wait=True)
    assert (first.state, repeated.new, nothing.state) == ("stored", False, "rejected")
    assert [memory.project for memory in memories.list().memories] == ["/srv/web"]
    learned = {name: value for name, value in first.result.items() if name != "usage"}
    return [first[:4], learned, repeated[:4], nothing[:4], memories.list(limit=5).memories[0].text]


@scenario
def observation_belongs_to_the_team(memories: Memories) -> Any:
    about = {"session": "activity-7", "turn": "d1", "client": "watcher", "agent": "agent-1", "team": "web"}
    first = memories.observe("How do we sign in?", "We switched from JWT to Clerk for auth.", wait=True, **about)
    repeated = memories.observe("How do we sign in?", "anything", wait=True, **about)
    private = memories.observe("", "I prefer tabs over spaces.", wait=True, visibility="private")
    assert (first.state, first.result["method"], repeated.new, private.state) == ("stored", "pattern", False, "stored")
    stored = memories.list().memories
    assert [(item.visibility, item.session, item.team) for item in stored] == [
        ("private", "", ""), ("team", "activity-7", "web"),
    ]  # fmt: skip
    empty = expect_error(InvalidInput, lambda: memories.observe("x", " "))
    number = expect_error(InvalidInput, lambda: memories.observe("x", 5))  # type: ignore[arg-type]
    return [first[:4], repeated[:4], private[:4], [memory.text for memory in stored], empty, number]


@scenario
def dry_run_returns_decisions(memories: Memories) -> Any:
    learned = memories.learn("I prefer tabs over spaces. What is React?", dry_run=True, source="acme/web")
    return [learned, memories.list().total]


@scenario
def ledger_and_items_are_returned(memories: Memories) -> Any:
    capture = memories.capture("Sounds good!", wait=True, session="s")
    inbox_status = memories.inbox_status()
    [item] = memories.items("rejected")
    assert item.id == capture.id
    repeated = memories.retry(item.id)
    assert (inbox_status.balanced, repeated.state) == (True, "pending")
    return [
        inbox_status,
        item.exchange.messages if item.exchange else None,
        memories.items("stored"),
        expect_error(NotFound, lambda: memories.item(99)),
        expect_error(NotFound, lambda: memories.retry(99)),
        expect_error(InvalidInput, lambda: memories.capture(5)),  # type: ignore[arg-type]
    ][1:3]


@scenario
def llm_usage_is_returned(memories: Memories) -> Any:
    expect_error(InvalidInput, lambda: memories.llm_usage(limit=0))
    return [replace(memories.llm_usage(limit=5), resets_at=""), expect_error(NotFound, lambda: memories.llm_call(1))]


@scenario
def extraction_without_provider_is_rejected(memories: Memories) -> Any:
    return [
        memories.extraction(),
        expect_error(NotConfigured, lambda: memories.extract("User: use drizzle")),
        expect_error(NotConfigured, lambda: memories.submit("User: use drizzle")),
    ]


# ── notes ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@scenario
def notes_folder_is_indexed_and_exported(memories: Memories) -> Any:
    with TemporaryDirectory() as created:
        vault, out = Path(created) / "vault", Path(created) / "out"
        vault.mkdir()
        out.mkdir()
        (vault / "deploy.md").write_text("---\ntags: [infra]\n---\n# Releases\n\nWe deploy with Fly.io.\n")
        (vault / "style.md").write_text("# Style\n\nBob prefers spaces over tabs.\n")
        (vault / "broken.md").write_bytes(b"\xff\x00")
        first = memories.notes.index(vault, label="handbook", by="tester")
        (vault / "deploy.md").unlink()
        preview = memories.notes.index(vault, dry_run=True)
        deleted = memories.notes.index(str(vault))
        memories.add("Ada prefers tabs", kind="preference")
        memories.add("We ship on mondays", kind="policy")
        content = memories.notes.export(out, kind="policy")
        repeated = memories.notes.export(str(out), kind="policy")
        assert (first.added, preview.archived, deleted.archived, content.written, repeated.written) == (2, 1, 1, 1, 0)
        assert (preview.dry_run, preview.changeset, len(first.skipped)) == (True, None, 1)
        folders = [folder for folder in memories.notes.folders() if Path(folder.folder).parent == Path(created)]
        assert [(Path(folder.folder).name, folder.followed, folder.there) for folder in folders] == [
            ("out", False, True),
            ("vault", False, True),
        ]
        for act in (lambda: memories.notes.index(vault / "none"), lambda: memories.notes.index(f"{created}/none")):
            expect_error(NotFound, act)
        expect_error(InvalidInput, lambda: memories.notes.index(vault / "broken.md"))
        expect_error(InvalidInput, lambda: memories.notes.export(out, kind="gossip"))
        result = [replace(folder, folder="") for folder in (first, preview, deleted, *folders)]
        changeset = memories.changeset(first.changeset or 0)
        assert (changeset.by, changeset.changes[0].memory.source) == ("tester", "file:handbook/deploy.md")
        return [result, [replace(item, folder="") for item in (content, repeated)], changeset]


@scenario
def flush_without_notes_folder_is_rejected(memories: Memories) -> Any:
    return [
        expect_error(NotConfigured, lambda: memories.notes.flush("We chose Drizzle.", ["orm"])),
        expect_error(NotConfigured, lambda: memories.notes.index()),
        memories.list().total,
    ]


# ── maintenance ───────────────────────────────────────────────────────────────────────────────────────────────────────


@scenario
def consolidation_is_previewed_executed_and_undone(memories: Memories) -> Any:
    for _ in range(3):
        memories.add("We deploy with Fly.io", source="acme/web", dedup=False)
    preview = memories.consolidate(source_prefix="acme")
    result = memories.consolidate(dry_run=False, by="ann", why="tidy")
    assert result.changeset is not None
    undo = memories.undo(result.changeset.id)
    return [preview, result, result.changeset, undo, memories.runs(), memories.runs(chore="prune")]


@scenario
def selected_decisions_are_approved(memories: Memories) -> Any:
    for text in ("We deploy with Fly.io", "We deploy with Fly.io", "Lint with ruff", "Lint with ruff"):
        memories.add(text, source="acme/web", dedup=False)
    preview = memories.consolidate()
    result = memories.approve("consolidate", preview.decisions[:1], as_of=preview.as_of, by="ann", why="these repeat")
    late = expect_error(Conflict, lambda: memories.approve("consolidate", preview.decisions, as_of=preview.as_of))
    early = expect_error(InvalidInput, lambda: memories.approve("consolidate", preview.decisions, as_of=99))
    return [preview, result, late, early, memories.undo(result.id)]


@scenario
def contradictions_are_listed_and_resolved(memories: Memories) -> Any:
    for text in ("The staging API listens on port 8080", "The staging API listens on port 9090"):
        memories.add(text, source="acme/web", dedup=False)
    preview = memories.contradictions(limit=5)
    agreed = memories.dismiss_contradiction([1, 2], by="ann")
    calm = memories.contradictions()
    memories.undo(agreed.id)
    holds = Delete(1, "the newer holds", 2)
    resolved = memories.approve("contradictions", [holds], as_of=memories.contradictions().as_of)
    return [preview, agreed, calm, resolved, expect_error(InvalidInput, lambda: memories.dismiss_contradiction([1]))]


@scenario
def prune_returns_a_note_when_there_is_nothing_to_do(memories: Memories) -> Any:
    memories.add("We deploy with Fly.io")
    return [memories.prune(), memories.prune(dry_run=False, by="ann")]


@scenario
def usage_views_are_returned(memories: Memories) -> Any:
    memories.add_all(["Ada likes tea", "the port is 8080"])
    memories.search("tea", k=1)
    expect_error(InvalidInput, lambda: memories.usage("most", limit=0))
    return [memories.usage(), memories.usage("never", source_prefix="x"), memories.usage("stale", days=1)]


@scenario
def audit_profiles_the_store(memories: Memories) -> Any:
    for _ in range(2):
        memories.add("We deploy with Fly.io", dedup=False)
    return memories.audit(examples=2)
