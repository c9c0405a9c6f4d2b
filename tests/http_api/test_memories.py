"""Adding, changing, removing and listing memories over HTTP."""

from __future__ import annotations

import pytest

from tests.http_api.caller import Caller

FRIDAYS = "We deploy on Fridays, after lunch."
MONDAYS = "The retrospective takes place on Monday morning."
ANN = "Ann reviews every change of the billing module."


def added(service: Caller, text: str, **about: object) -> int:
    return service.post("/memory/add", {"text": text, **about}).json["id"]


def count(service: Caller) -> int:
    return service.get("/health").json["memories"]


# ── add ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_fact_is_created_with_all_that_was_said_about_it(service: Caller) -> None:
    about = {
        "source": "claude/web", "kind": "policy", "confidence": 0.5, "method": "import", "entities": ["Friday"],
        "tags": ["release", "ops"], "session": "s1", "agent": "a1", "visibility": "team", "metadata": {"pr": [1, None]},
        "speaker": "Ann", "context": "When do we ship?", "project": "/srv/web",
    }  # fmt: skip
    answer = service.post("/memory/add", {"text": FRIDAYS, **about, "why": "she said so"})
    assert answer.status == 201
    assert answer.json["action"] == "add"
    memory = answer.json["memory"]
    assert {name: memory[name] for name in about} == about
    assert memory["category"] == "decision"
    assert service.get(f"/memory/{answer.json['id']}").json == memory
    assert service.get(f"/changes/{answer.json['changeset']}").json["why"] == "she said so"


def test_the_same_fact_again_is_noted_and_not_kept_twice(service: Caller) -> None:
    first = service.post("/memory/add", {"text": FRIDAYS})
    again = service.post("/memory/add", {"text": FRIDAYS})
    assert again.status == 200
    assert again.json["action"] == "noop"
    assert again.json["id"] == first.json["id"]
    assert again.json["memory"]["occurrences"] == 2
    assert count(service) == 1


def test_without_deduplication_the_same_fact_is_kept_twice(service: Caller) -> None:
    first = added(service, FRIDAYS)
    again = service.post("/memory/add", {"text": FRIDAYS, "deduplicate": False})
    assert again.status == 201
    assert again.json["id"] != first


@pytest.mark.parametrize("name", ["created_at", "timestamp"])
@pytest.mark.parametrize("value", ["2024-05-06T07:08:09Z", 1714979289, 1714979289000, 1714979289.0])
def test_a_time_may_be_iso_text_or_seconds_or_milliseconds(service: Caller, name: str, value: object) -> None:
    memory = service.post("/memory/add", {"text": FRIDAYS, name: value}).json["memory"]
    assert memory["created_at"] == memory["timestamp"] == "2024-05-06T07:08:09.000000+00:00"


def test_the_first_second_of_1970_is_a_time_too(service: Caller) -> None:
    assert service.post("/memory/add", {"text": FRIDAYS, "created_at": 0}).json["memory"]["created_at"][:4] == "1970"


def test_the_client_is_named_in_the_journal(service: Caller) -> None:
    answer = service.post("/memory/add", {"text": FRIDAYS}, {"X-Cofio-Client": "codex"})
    assert service.get(f"/changes/{answer.json['changeset']}").json["by"] == "codex"
    assert service.get(f"/changes/{service.post('/memory/add', {'text': ANN}).json['changeset']}").json["by"] == "http"


# ── add-batch ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_is_one_changeset(service: Caller) -> None:
    answer = service.post("/memory/add-batch", {"memories": [{"text": FRIDAYS}, {"text": ANN}, {"text": FRIDAYS}]})
    assert (answer.json["added"], answer.json["duplicates"]) == (2, 1)
    first, _, third = answer.json["results"]
    assert third["id"] == first["id"]
    assert third["action"] == "noop"
    assert len(service.get("/changes").json["changesets"]) == 1


@pytest.mark.parametrize(
    "bad", [{"text": ""}, {"text": "x", "kind": "whim"}, {"text": 1}, {"txt": "x"}, {"text": "x", "timestamp": "then"}]
)
def test_a_bad_item_refuses_the_whole_batch_and_is_named(service: Caller, bad: dict[str, object]) -> None:
    answer = service.post("/memory/add-batch", {"memories": [{"text": FRIDAYS}, {"text": ANN}, {"text": MONDAYS}, bad]})
    assert answer.status == 400
    assert "memories[3]" in answer.error["message"]
    assert count(service) == 0


def test_a_batch_has_from_one_to_a_thousand_memories(service: Caller) -> None:
    assert service.post("/memory/add-batch", {"memories": []}).status == 400
    assert service.post("/memory/add-batch", {"memories": [{"text": "x"}] * 1001}).status == 400
    many = [{"text": f"The port of service {each} is {9000 + each}."} for each in range(1000)]
    assert service.post("/memory/add-batch", {"memories": many}).json["added"] == 1000


# ── get, edit, delete, restore ────────────────────────────────────────────────────────────────────────────────────────


def test_an_edit_changes_only_what_it_names(service: Caller) -> None:
    memory_id = added(service, FRIDAYS, source="claude/web")
    before = service.get(f"/memory/{memory_id}").json
    answer = service.patch(f"/memory/{memory_id}", {"tags": ["release"], "pinned": True, "why": "tidying"})
    assert answer.json["action"] == "edit"
    after = service.get(f"/memory/{memory_id}").json
    assert answer.json["memory"] == after
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"tags", "pinned", "updated_at"}


def test_an_edited_text_is_found_by_its_new_words(service: Caller) -> None:
    memory_id = added(service, FRIDAYS)
    service.patch(f"/memory/{memory_id}", {"text": "Bananas are yellow."})
    assert service.post("/search", {"query": "yellow bananas"}).json["results"][0]["id"] == memory_id


@pytest.mark.parametrize(
    "changes", [{}, {"why": "for nothing"}, {"id": 7}, {"created_at": "2020"}, {"pinned": 1}, {"text": ""}]
)
def test_what_cannot_be_changed_is_refused(service: Caller, changes: dict[str, object]) -> None:
    memory_id = added(service, FRIDAYS)
    before = service.get(f"/memory/{memory_id}").json
    assert service.patch(f"/memory/{memory_id}", changes).status == 400
    assert service.get(f"/memory/{memory_id}").json == before


def test_delete_archives_and_restore_brings_back(service: Caller) -> None:
    memory_id = added(service, FRIDAYS)
    gone = service.delete(f"/memory/{memory_id}", why="stale")
    assert gone.json["action"] == "delete"
    assert service.get(f"/memory/{memory_id}").json["archived_at"]
    assert count(service) == 0
    assert service.delete(f"/memory/{memory_id}").status == 409
    back = service.post(f"/memory/{memory_id}/restore")
    assert back.json["action"] == "restore"
    assert back.json["memory"]["archived_at"] is None
    assert service.post(f"/memory/{memory_id}/restore").status == 409


def test_a_purge_leaves_nothing(service: Caller) -> None:
    memory_id = added(service, FRIDAYS)
    assert service.delete(f"/memory/{memory_id}", purge="true").json["action"] == "purge"
    assert service.get(f"/memory/{memory_id}").status == 404
    assert FRIDAYS not in service.get(f"/memory/{memory_id}/history").body.decode()


@pytest.mark.parametrize("unknown", ["7", "0", "-1", "9" * 30, "9" * 5000, "seven", "1.0", "%00", "%C3%A9", "٧", "1e3"])
def test_an_unknown_id_is_not_found_whatever_is_done_to_it(served: Caller, unknown: str) -> None:
    path = "/memory/" + "".join(f"%{byte:02X}" if byte > 127 else chr(byte) for byte in unknown.encode())
    for answer in (
        served.get(path),
        served.patch(path, {"pinned": True}),
        served.delete(path),
        served.post(f"{path}/restore"),
        served.get(f"{path}/history"),
        served.get(path.replace("memory", "changes")),
        served.post(f"{path.replace('memory', 'changes')}/undo"),
    ):
        assert answer.status == 404
        assert answer.error["code"] == "not_found"


# ── supersede ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_superseded_memory_is_linked_both_ways(service: Caller) -> None:
    old = added(service, FRIDAYS, source="claude/web", tags=["release"])
    answer = service.post("/memory/supersede", {"old_id": old, "new_text": "We deploy on Mondays.", "why": "changed"})
    new = answer.json["memory"]
    assert (answer.json["old_id"], answer.json["new_id"]) == (old, new["id"])
    assert answer.json["previous_text"] == new["previous_text"] == FRIDAYS
    assert (new["supersedes"], new["source"], new["tags"]) == (old, "claude/web", ["release"])
    assert service.get(f"/memory/{old}").json["superseded_by"] == new["id"]
    assert count(service) == 1


def test_what_is_said_about_the_new_memory_wins(service: Caller) -> None:
    old = added(service, FRIDAYS, source="claude/web")
    about = {"source": "codex/web", "context": "in the meeting", "created_at": "2024-01-01T00:00:00Z"}
    memory = service.post("/memory/supersede", {"old_id": old, "new_text": ANN, **about}).json["memory"]
    assert (memory["source"], memory["context"], memory["created_at"][:4]) == ("codex/web", "in the meeting", "2024")


@pytest.mark.parametrize("old_id", [1_000_000, 2**62])
def test_an_unknown_memory_cannot_be_superseded(service: Caller, old_id: int) -> None:
    assert service.post("/memory/supersede", {"old_id": old_id, "new_text": ANN}).status == 404


@pytest.mark.parametrize("old_id", [-1, 0, 2**70, "1", None, 1.0, True])
def test_what_is_no_id_cannot_be_superseded(service: Caller, old_id: object) -> None:
    assert service.post("/memory/supersede", {"old_id": old_id, "new_text": ANN}).status == 400


# ── duplicates ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_deduplicate_only_tells_unless_it_is_told_to_do(service: Caller) -> None:
    first = added(service, FRIDAYS)
    second = added(service, FRIDAYS, deduplicate=False)
    for dry in (service.post("/memory/deduplicate"), service.post("/memory/deduplicate", {"dry_run": True})):
        assert (dry.json["dry_run"], dry.json["count"], dry.json["changeset"]) == (True, 1, None)
        assert dry.json["decisions"][0]["id"] == second
        assert dry.json["decisions"][0]["into"] == first
    assert count(service) == 2
    done = service.post("/memory/deduplicate", {"dry_run": False})
    assert done.json["decisions"] == dry.json["decisions"]
    assert count(service) == 1
    assert service.post(f"/changes/{done.json['changeset']}/undo").status == 200
    assert count(service) == 2


def test_where_there_are_no_duplicates_nothing_is_changed(service: Caller) -> None:
    added(service, FRIDAYS)
    done = service.post("/memory/deduplicate", {"dry_run": False})
    assert done.json == {"dry_run": False, "count": 0, "decisions": [], "changeset": None}


def test_duplicates_are_sought_within_a_source(service: Caller) -> None:
    for source in ("claude/web", "codex/web"):
        added(service, FRIDAYS, source=source)
        added(service, FRIDAYS, source=source, deduplicate=False)
    assert service.post("/memory/deduplicate", {"source_prefix": "codex"}).json["count"] == 1
    assert service.post("/memory/deduplicate", {"threshold": 0.99}).json["count"] == 2


# ── listing, and deleting a source ────────────────────────────────────────────────────────────────────────────────────


def test_pages_follow_one_another_until_the_end(service: Caller) -> None:
    texts = [{"text": f"The port of service {each} is {9000 + each}."} for each in range(5)]
    ids = [each["id"] for each in service.post("/memory/add-batch", {"memories": texts}).json["results"]]
    seen: list[int] = []
    query: dict[str, object] = {"limit": 2}
    while True:
        page = service.get("/memories", **query).json
        assert page["total"] == 5
        seen += [memory["id"] for memory in page["memories"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert seen == ids[::-1]


def test_a_listing_is_narrowed_by_every_filter(service: Caller) -> None:
    about = {
        "source": "claude/web", "kind": "policy", "method": "import", "tags": ["a", "b"], "session": "s", "agent": "x",
        "visibility": "team", "created_at": "2024-01-01T00:00:00Z",
    }  # fmt: skip
    memory_id = added(service, FRIDAYS, **about)
    service.patch(f"/memory/{memory_id}", {"pinned": True})
    added(service, ANN)
    filters = {
        "source": "claude/web", "source_prefix": "claude", "category": "decision", "kind": "policy", "method": "import",
        "tags": "b,a", "session": "s", "agent": "x", "visibility": "team,global", "until": "2024-12-31T00:00:00Z",
        "pinned": "true",
    }  # fmt: skip
    for name, value in filters.items():
        page = service.get("/memories", **{name: value}).json
        assert [each["id"] for each in page["memories"]] == [memory_id], name
    assert service.get("/memories", **filters).json["total"] == 1
    assert service.get("/memories?tags=a&tags=b").json["total"] == 1
    assert service.get("/memories", since="2025-01-01T00:00:00Z").json["total"] == 1
    assert service.get("/memories", since="1735689600").json["total"] == 1
    assert service.get("/memories?since=2025-01-01T00:00:00+00:00").json["total"] == 1
    assert service.get("/memories", pinned="false").json["total"] == 1


def test_archived_memories_are_listed_when_asked_for(service: Caller) -> None:
    service.delete(f"/memory/{added(service, FRIDAYS)}")
    assert service.get("/memories").json["total"] == 0
    assert service.get("/memories", include_archived="true").json["total"] == 1


def test_a_blank_parameter_is_one_that_was_not_given(service: Caller) -> None:
    added(service, FRIDAYS, source="claude/web")
    assert service.get("/memories?limit=&after=&source=&tags=&pinned=").json["total"] == 1


def test_memories_are_listed_by_project_and_by_what_is_seen_from_one(service: Caller) -> None:
    own, none = added(service, FRIDAYS, project="/srv/web"), added(service, MONDAYS)
    other, shared = added(service, ANN, project="/srv/api"), added(service, ANN, project="/s", visibility="global")

    def listed(**query: str) -> set[int]:
        return {memory["id"] for memory in service.get("/memories", **query).json["memories"]}

    assert listed(project="/srv/web") == {own}
    assert listed(project="") == {none}
    assert listed(visible_in="/srv/web") == {own, none, shared}
    assert listed(visible_in="") == {none, shared}
    assert listed(visible_in="/srv/api") == {none, other, shared}


def test_a_memory_is_moved_to_another_project(service: Caller) -> None:
    memory = added(service, FRIDAYS, project="/srv/web")
    for project in ("/srv/api", ""):
        assert service.patch(f"/memory/{memory}", {"project": project}).json["memory"]["project"] == project


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=1001", "limit=x", "after=-1", f"after={2**70}", "kind=whim", "pinned=maybe", "sorce=x",
     "limit=1&limit=2", "since=then", "source=%00", "source=%ff", "visibility=mine", "a=1&" * 200],
)  # fmt: skip
def test_a_listing_refuses_what_it_does_not_understand(served: Caller, query: str) -> None:
    assert served.get(f"/memories?{query}").status == 400


def test_deleting_a_source_only_tells_unless_it_is_told_to_do(service: Caller) -> None:
    ids = {added(service, FRIDAYS, source="claude/web"), added(service, ANN, source="claude/web/api")}
    kept = added(service, MONDAYS, source="claude/webshop")
    dry = service.delete("/memories", source="claude/web")
    assert (dry.json["dry_run"], dry.json["count"], dry.json["changeset"]) == (True, 2, None)
    assert {each["id"] for each in dry.json["decisions"]} == ids
    assert count(service) == 3
    done = service.delete("/memories", source="claude/web", dry_run="false", why="project ended")
    assert [each["id"] for each in service.get("/memories").json["memories"]] == [kept]
    assert service.get(f"/changes/{done.json['changeset']}").json["why"] == "project ended"
    service.post(f"/changes/{done.json['changeset']}/undo")
    assert count(service) == 3


@pytest.mark.parametrize("source", ["", "/", "//", "%20", "%20/%20"])
def test_deleting_everything_by_an_empty_source_is_refused(service: Caller, source: str) -> None:
    added(service, FRIDAYS)
    answer = service.delete(f"/memories?source={source}&dry_run=false")
    assert answer.status == 400
    assert service.delete("/memories?dry_run=false").status == 400
    assert count(service) == 1


def test_deleting_a_source_that_has_nothing_changes_nothing(service: Caller) -> None:
    done = service.delete("/memories", source="nobody", dry_run="false")
    assert done.json == {"dry_run": False, "count": 0, "decisions": [], "changeset": None}
