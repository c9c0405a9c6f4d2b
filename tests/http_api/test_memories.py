"""Memories over HTTP: add, edit, delete and list."""

from __future__ import annotations

import pytest

from tests.http_api.caller import Caller

FRIDAYS = "We deploy on Fridays, after lunch."
MONDAYS = "The retrospective takes place on Monday morning."
ANN = "Ann reviews every change of the billing module."


def add_memory(service: Caller, text: str, **fields: object) -> int:
    return service.post("/memory/add", {"text": text, **fields}).json["id"]


def count_memories(service: Caller) -> int:
    return service.get("/health").json["memories"]


# ── add ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_add_stores_all_fields(service: Caller) -> None:
    about = {
        "source": "claude/web", "kind": "policy", "confidence": 0.5, "method": "import", "entities": ["Friday"],
        "tags": ["release", "ops"], "session": "s1", "agent": "a1", "visibility": "team", "metadata": {"pr": [1, None]},
        "speaker": "Ann", "context": "When do we ship?", "project": "/srv/web",
    }  # fmt: skip
    response = service.post("/memory/add", {"text": FRIDAYS, **about, "why": "she said so"})
    assert response.status == 201
    assert response.json["action"] == "add"
    memory = response.json["memory"]
    assert {name: memory[name] for name in about} == about
    assert memory["category"] == "decision"
    assert service.get(f"/memory/{response.json['id']}").json == memory
    assert service.get(f"/changes/{response.json['changeset']}").json["why"] == "she said so"


def test_add_of_duplicate_increments_occurrences(service: Caller) -> None:
    first = service.post("/memory/add", {"text": FRIDAYS})
    response = service.post("/memory/add", {"text": FRIDAYS})
    assert response.status == 200
    assert response.json["action"] == "noop"
    assert response.json["id"] == first.json["id"]
    assert response.json["memory"]["occurrences"] == 2
    assert count_memories(service) == 1


def test_add_with_deduplicate_false_creates_duplicate(service: Caller) -> None:
    first = add_memory(service, FRIDAYS)
    response = service.post("/memory/add", {"text": FRIDAYS, "deduplicate": False})
    assert response.status == 201
    assert response.json["id"] != first


@pytest.mark.parametrize("name", ["created_at", "timestamp"])
@pytest.mark.parametrize("value", ["2024-05-06T07:08:09Z", 1714979289, 1714979289000, 1714979289.0])
def test_created_at_accepts_iso_text_seconds_and_milliseconds(service: Caller, name: str, value: object) -> None:
    memory = service.post("/memory/add", {"text": FRIDAYS, name: value}).json["memory"]
    assert memory["created_at"] == memory["timestamp"] == "2024-05-06T07:08:09.000000+00:00"


def test_created_at_zero_is_1970(service: Caller) -> None:
    assert service.post("/memory/add", {"text": FRIDAYS, "created_at": 0}).json["memory"]["created_at"][:4] == "1970"


def test_client_header_is_recorded_in_changeset(service: Caller) -> None:
    response = service.post("/memory/add", {"text": FRIDAYS}, {"X-Cofio-Client": "codex"})
    assert service.get(f"/changes/{response.json['changeset']}").json["by"] == "codex"
    assert service.get(f"/changes/{service.post('/memory/add', {'text': ANN}).json['changeset']}").json["by"] == "http"


# ── add-batch ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_batch_is_one_changeset(service: Caller) -> None:
    response = service.post("/memory/add-batch", {"memories": [{"text": FRIDAYS}, {"text": ANN}, {"text": FRIDAYS}]})
    assert (response.json["added"], response.json["duplicates"]) == (2, 1)
    first, _, third = response.json["results"]
    assert third["id"] == first["id"]
    assert third["action"] == "noop"
    assert len(service.get("/changes").json["changesets"]) == 1


@pytest.mark.parametrize(
    "invalid_item",
    [{"text": ""}, {"text": "x", "kind": "whim"}, {"text": 1}, {"txt": "x"}, {"text": "x", "timestamp": "then"}],
)
def test_invalid_batch_item_rejects_the_batch_and_is_named(service: Caller, invalid_item: dict[str, object]) -> None:
    response = service.post(
        "/memory/add-batch", {"memories": [{"text": FRIDAYS}, {"text": ANN}, {"text": MONDAYS}, invalid_item]}
    )
    assert response.status == 400
    assert "memories[3]" in response.error["message"]
    assert count_memories(service) == 0


def test_batch_size_is_limited_to_1000(service: Caller) -> None:
    assert service.post("/memory/add-batch", {"memories": []}).status == 400
    assert service.post("/memory/add-batch", {"memories": [{"text": "x"}] * 1001}).status == 400
    many = [{"text": f"The port of service {index} is {9000 + index}."} for index in range(1000)]
    assert service.post("/memory/add-batch", {"memories": many}).json["added"] == 1000


# ── get, edit, delete, restore ────────────────────────────────────────────────────────────────────────────────────────


def test_edit_changes_only_given_fields(service: Caller) -> None:
    memory_id = add_memory(service, FRIDAYS, source="claude/web")
    before = service.get(f"/memory/{memory_id}").json
    response = service.patch(f"/memory/{memory_id}", {"tags": ["release"], "pinned": True, "why": "tidying"})
    assert response.json["action"] == "edit"
    after = service.get(f"/memory/{memory_id}").json
    assert response.json["memory"] == after
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"tags", "pinned", "updated_at"}


def test_edited_text_is_searchable(service: Caller) -> None:
    memory_id = add_memory(service, FRIDAYS)
    service.patch(f"/memory/{memory_id}", {"text": "Bananas are yellow."})
    assert service.post("/search", {"query": "yellow bananas"}).json["results"][0]["id"] == memory_id


@pytest.mark.parametrize(
    "changes", [{}, {"why": "for nothing"}, {"id": 7}, {"created_at": "2020"}, {"pinned": 1}, {"text": ""}]
)
def test_invalid_edit_is_rejected(service: Caller, changes: dict[str, object]) -> None:
    memory_id = add_memory(service, FRIDAYS)
    before = service.get(f"/memory/{memory_id}").json
    assert service.patch(f"/memory/{memory_id}", changes).status == 400
    assert service.get(f"/memory/{memory_id}").json == before


def test_delete_archives_and_restore_reactivates(service: Caller) -> None:
    memory_id = add_memory(service, FRIDAYS)
    response = service.delete(f"/memory/{memory_id}", why="stale")
    assert response.json["action"] == "delete"
    assert service.get(f"/memory/{memory_id}").json["archived_at"]
    assert count_memories(service) == 0
    assert service.delete(f"/memory/{memory_id}").status == 409
    back = service.post(f"/memory/{memory_id}/restore")
    assert back.json["action"] == "restore"
    assert back.json["memory"]["archived_at"] is None
    assert service.post(f"/memory/{memory_id}/restore").status == 409


def test_purge_removes_memory_and_history(service: Caller) -> None:
    memory_id = add_memory(service, FRIDAYS)
    assert service.delete(f"/memory/{memory_id}", purge="true").json["action"] == "purge"
    assert service.get(f"/memory/{memory_id}").status == 404
    assert FRIDAYS not in service.get(f"/memory/{memory_id}/history").body.decode()


@pytest.mark.parametrize("unknown", ["7", "0", "-1", "9" * 30, "9" * 5000, "seven", "1.0", "%00", "%C3%A9", "٧", "1e3"])
def test_unknown_id_returns_404(shared_service: Caller, unknown: str) -> None:
    path = "/memory/" + "".join(f"%{byte:02X}" if byte > 127 else chr(byte) for byte in unknown.encode())
    for answer in (
        shared_service.get(path),
        shared_service.patch(path, {"pinned": True}),
        shared_service.delete(path),
        shared_service.post(f"{path}/restore"),
        shared_service.get(f"{path}/history"),
        shared_service.get(path.replace("memory", "changes")),
        shared_service.post(f"{path.replace('memory', 'changes')}/undo"),
    ):
        assert answer.status == 404
        assert answer.error["code"] == "not_found"


# ── supersede ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_supersede_links_both_memories(service: Caller) -> None:
    old = add_memory(service, FRIDAYS, source="claude/web", tags=["release"])
    response = service.post("/memory/supersede", {"old_id": old, "new_text": "We deploy on Mondays.", "why": "changed"})
    new = response.json["memory"]
    assert (response.json["old_id"], response.json["new_id"]) == (old, new["id"])
    assert response.json["previous_text"] == new["previous_text"] == FRIDAYS
    assert (new["supersedes"], new["source"], new["tags"]) == (old, "claude/web", ["release"])
    assert service.get(f"/memory/{old}").json["superseded_by"] == new["id"]
    assert count_memories(service) == 1


def test_supersede_fields_override_those_of_old_memory(service: Caller) -> None:
    old = add_memory(service, FRIDAYS, source="claude/web")
    about = {"source": "codex/web", "context": "in the meeting", "created_at": "2024-01-01T00:00:00Z"}
    memory = service.post("/memory/supersede", {"old_id": old, "new_text": ANN, **about}).json["memory"]
    assert (memory["source"], memory["context"], memory["created_at"][:4]) == ("codex/web", "in the meeting", "2024")


@pytest.mark.parametrize("old_id", [1_000_000, 2**62])
def test_supersede_of_unknown_memory_returns_404(service: Caller, old_id: int) -> None:
    assert service.post("/memory/supersede", {"old_id": old_id, "new_text": ANN}).status == 404


@pytest.mark.parametrize("old_id", [-1, 0, 2**70, "1", None, 1.0, True])
def test_supersede_of_invalid_id_is_rejected(service: Caller, old_id: object) -> None:
    assert service.post("/memory/supersede", {"old_id": old_id, "new_text": ANN}).status == 400


# ── duplicates ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_deduplicate_is_a_dry_run_by_default(service: Caller) -> None:
    first = add_memory(service, FRIDAYS)
    second = add_memory(service, FRIDAYS, deduplicate=False)
    for dry in (service.post("/memory/deduplicate"), service.post("/memory/deduplicate", {"dry_run": True})):
        assert (dry.json["dry_run"], dry.json["count"], dry.json["changeset"]) == (True, 1, None)
        assert dry.json["decisions"][0]["id"] == second
        assert dry.json["decisions"][0]["into"] == first
    assert count_memories(service) == 2
    response = service.post("/memory/deduplicate", {"dry_run": False})
    assert response.json["decisions"] == dry.json["decisions"]
    assert count_memories(service) == 1
    assert service.post(f"/changes/{response.json['changeset']}/undo").status == 200
    assert count_memories(service) == 2


def test_deduplicate_without_duplicates_changes_nothing(service: Caller) -> None:
    add_memory(service, FRIDAYS)
    response = service.post("/memory/deduplicate", {"dry_run": False})
    assert response.json == {"dry_run": False, "count": 0, "decisions": [], "changeset": None}


def test_deduplicate_compares_within_a_source(service: Caller) -> None:
    for source in ("claude/web", "codex/web"):
        add_memory(service, FRIDAYS, source=source)
        add_memory(service, FRIDAYS, source=source, deduplicate=False)
    assert service.post("/memory/deduplicate", {"source_prefix": "codex"}).json["count"] == 1
    assert service.post("/memory/deduplicate", {"threshold": 0.99}).json["count"] == 2


# ── list, delete by source ────────────────────────────────────────────────────────────────────────────────────────────


def test_list_pages_cover_all_memories(service: Caller) -> None:
    texts = [{"text": f"The port of service {index} is {9000 + index}."} for index in range(5)]
    ids = [result["id"] for result in service.post("/memory/add-batch", {"memories": texts}).json["results"]]
    observed: list[int] = []
    query: dict[str, object] = {"limit": 2}
    while True:
        page = service.get("/memories", **query).json
        assert page["total"] == 5
        observed += [memory["id"] for memory in page["memories"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert observed == ids[::-1]


def test_list_supports_every_filter(service: Caller) -> None:
    about = {
        "source": "claude/web", "kind": "policy", "method": "import", "tags": ["a", "b"], "session": "s", "agent": "x",
        "visibility": "team", "created_at": "2024-01-01T00:00:00Z",
    }  # fmt: skip
    memory_id = add_memory(service, FRIDAYS, **about)
    service.patch(f"/memory/{memory_id}", {"pinned": True})
    add_memory(service, ANN)
    filters = {
        "source": "claude/web", "source_prefix": "claude", "category": "decision", "kind": "policy", "method": "import",
        "tags": "b,a", "session": "s", "agent": "x", "visibility": "team,global", "until": "2024-12-31T00:00:00Z",
        "pinned": "true",
    }  # fmt: skip
    for name, value in filters.items():
        page = service.get("/memories", **{name: value}).json
        assert [memory["id"] for memory in page["memories"]] == [memory_id], name
    assert service.get("/memories", **filters).json["total"] == 1
    assert service.get("/memories?tags=a&tags=b").json["total"] == 1
    assert service.get("/memories", since="2025-01-01T00:00:00Z").json["total"] == 1
    assert service.get("/memories", since="1735689600").json["total"] == 1
    assert service.get("/memories?since=2025-01-01T00:00:00+00:00").json["total"] == 1
    assert service.get("/memories", pinned="false").json["total"] == 1


def test_list_includes_archived_memories_on_request(service: Caller) -> None:
    service.delete(f"/memory/{add_memory(service, FRIDAYS)}")
    assert service.get("/memories").json["total"] == 0
    assert service.get("/memories", include_archived="true").json["total"] == 1


def test_empty_query_parameters_are_ignored(service: Caller) -> None:
    add_memory(service, FRIDAYS, source="claude/web")
    assert service.get("/memories?limit=&after=&source=&tags=&pinned=").json["total"] == 1


def test_list_filters_by_project_and_visibility_from_project(service: Caller) -> None:
    own, none = add_memory(service, FRIDAYS, project="/srv/web"), add_memory(service, MONDAYS)
    other, shared = (
        add_memory(service, ANN, project="/srv/api"),
        add_memory(service, ANN, project="/s", visibility="global"),
    )

    def list_ids(**query: str) -> set[int]:
        return {memory["id"] for memory in service.get("/memories", **query).json["memories"]}

    assert list_ids(project="/srv/web") == {own}
    assert list_ids(project="") == {none}
    assert list_ids(visible_in="/srv/web") == {own, none, shared}
    assert list_ids(visible_in="") == {none, shared}
    assert list_ids(visible_in="/srv/api") == {none, other, shared}


def test_memory_is_moved_to_another_project(service: Caller) -> None:
    memory = add_memory(service, FRIDAYS, project="/srv/web")
    for project in ("/srv/api", ""):
        assert service.patch(f"/memory/{memory}", {"project": project}).json["memory"]["project"] == project


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=1001", "limit=x", "after=-1", f"after={2**70}", "kind=whim", "pinned=maybe", "sorce=x",
     "limit=1&limit=2", "since=then", "source=%00", "source=%ff", "visibility=mine", "a=1&" * 200],
)  # fmt: skip
def test_invalid_list_query_is_rejected(shared_service: Caller, query: str) -> None:
    assert shared_service.get(f"/memories?{query}").status == 400


def test_delete_by_source_is_a_dry_run_by_default(service: Caller) -> None:
    ids = {add_memory(service, FRIDAYS, source="claude/web"), add_memory(service, ANN, source="claude/web/api")}
    stored = add_memory(service, MONDAYS, source="claude/webshop")
    dry = service.delete("/memories", source="claude/web")
    assert (dry.json["dry_run"], dry.json["count"], dry.json["changeset"]) == (True, 2, None)
    assert {decision["id"] for decision in dry.json["decisions"]} == ids
    assert count_memories(service) == 3
    response = service.delete("/memories", source="claude/web", dry_run="false", why="project ended")
    assert [memory["id"] for memory in service.get("/memories").json["memories"]] == [stored]
    assert service.get(f"/changes/{response.json['changeset']}").json["why"] == "project ended"
    service.post(f"/changes/{response.json['changeset']}/undo")
    assert count_memories(service) == 3


@pytest.mark.parametrize("source", ["", "/", "//", "%20", "%20/%20"])
def test_delete_by_empty_source_is_rejected(service: Caller, source: str) -> None:
    add_memory(service, FRIDAYS)
    response = service.delete(f"/memories?source={source}&dry_run=false")
    assert response.status == 400
    assert service.delete("/memories?dry_run=false").status == 400
    assert count_memories(service) == 1


def test_delete_by_unknown_source_changes_nothing(service: Caller) -> None:
    response = service.delete("/memories", source="nobody", dry_run="false")
    assert response.json == {"dry_run": False, "count": 0, "decisions": [], "changeset": None}
