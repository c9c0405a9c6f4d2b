"""Maintenance over HTTP: dry run by default, execution on request, history of runs."""

from __future__ import annotations

from tests.http_api.caller import Caller
from tests.http_api.conftest import Serve


def add_twice(caller: Caller, text: str, source: str = "acme/web") -> list[int]:
    """Add the same memory twice and return both ids."""
    fact = {"text": text, "source": source, "deduplicate": False}
    return [caller.post("/memory/add", fact).json["id"] for _ in range(2)]


def test_consolidate_is_a_dry_run_by_default(serve: Serve) -> None:
    caller = serve()
    low, high = add_twice(caller, "We deploy with Fly.io")
    for path in ("/maintenance/consolidate", "/maintenance/consolidate?dry_run=true&source_prefix=acme"):
        payload = caller.post(path).json
        assert (payload["dry_run"], payload["count"], payload["changeset"]) == (True, 1, None)
        assert {payload["decisions"][0]["id"], payload["decisions"][0]["into"]} == {low, high}
    assert caller.post("/maintenance/consolidate?source_prefix=other").json["count"] == 0
    assert caller.get("/memories").json["total"] == 2
    body = caller.post("/maintenance/consolidate?dry_run=false").json
    assert (body["dry_run"], body["count"]) == (False, 1)
    assert caller.get("/memories").json["total"] == 1
    caller.post(f"/changes/{body['changeset']}/undo")
    assert caller.get("/memories").json["total"] == 2
    nothing = caller.post("/maintenance/consolidate?dry_run=false&source_prefix=other").json
    assert (nothing["dry_run"], nothing["count"], nothing["changeset"]) == (False, 0, None)


def test_prune_without_candidates_returns_a_note(serve: Serve) -> None:
    caller = serve()
    add_twice(caller, "We deploy with Fly.io")
    for path in ("/maintenance/prune", "/maintenance/prune?dry_run=false"):
        body = caller.post(path).json
        assert (body["count"], body["changeset"]) == (0, None)
        assert body["note"]


def test_runs_are_listed_newest_first(serve: Serve) -> None:
    caller = serve()
    caller.post("/maintenance/prune?dry_run=false", headers={"X-Cofio-Client": "ann"})
    caller.post("/maintenance/consolidate?dry_run=false")
    runs = caller.get("/maintenance/runs").json["runs"]
    assert [(run["chore"], run["outcome"]) for run in runs] == [("consolidate", "done"), ("prune", "done")]
    assert runs[1]["by"] == "ann"
    assert [run["chore"] for run in caller.get("/maintenance/runs", chore="prune").json["runs"]] == ["prune"]
    assert caller.get("/maintenance/runs", chore="dust").status == 400


def test_usage_view_is_filtered(serve: Serve) -> None:
    caller = serve()
    caller.post("/memory/add", {"text": "we use tabs", "source": "acme/web"})
    caller.post("/memory/add", {"text": "the port is 8080", "source": "acme/api"})
    caller.post("/search", {"query": "tabs", "k": 1})

    def list_texts(**filters: str) -> list[str]:
        return [memory["text"] for memory in caller.get("/maintenance/usage", **filters).json["memories"]]

    assert list_texts() == list_texts(view="most") == ["we use tabs"]
    assert list_texts(view="never") == ["the port is 8080"]
    assert list_texts(view="never", source_prefix="acme/web") == []
    assert list_texts(view="stale") == []
    assert caller.get("/maintenance/usage", view="worst").status == 400


def test_audit_counts_findings_and_returns_examples(serve: Serve) -> None:
    caller = serve()
    add_twice(caller, "We deploy with Fly.io")
    body = caller.get("/maintenance/audit", examples=1).json
    results = {finding["name"]: finding for finding in body["findings"]}
    assert body["memories"] == 2
    assert results["exact_duplicates"]["count"] >= 1
    assert len(results["exact_duplicates"]["examples"]) == 1


def test_invalid_maintenance_request_is_rejected(serve: Serve) -> None:
    caller = serve()
    for path in ("consolidate?dry_run=perhaps", "prune?days=3", "consolidate?source_prefix=a&source_prefix=b"):
        assert caller.post(f"/maintenance/{path}").status == 400
    assert caller.get("/maintenance/audit", examples=1000).status == 400
    narrowed = caller.post("/maintenance/consolidate?dry_run=false", {"source_prefix": "acme"})
    assert (narrowed.status, narrowed.error["message"]) == (400, "/maintenance/consolidate accepts no body.")
