"""Upkeep over HTTP: dry by default, done on demand, with its history."""

from __future__ import annotations

from tests.http_api.caller import Caller
from tests.http_api.conftest import Serve


def twice(caller: Caller, text: str, source: str = "acme/web") -> list[int]:
    """The same memory two times."""
    fact = {"text": text, "source": source, "deduplicate": False}
    return [caller.post("/memory/add", fact).json["id"] for _ in range(2)]


def test_consolidation_is_shown_unless_it_is_asked_for(serve: Serve) -> None:
    caller = serve()
    low, high = twice(caller, "We deploy with Fly.io")
    for path in ("/maintenance/consolidate", "/maintenance/consolidate?dry_run=true&source_prefix=acme"):
        shown = caller.post(path).json
        assert (shown["dry_run"], shown["count"], shown["changeset"]) == (True, 1, None)
        assert {shown["decisions"][0]["id"], shown["decisions"][0]["into"]} == {low, high}
    assert caller.post("/maintenance/consolidate?source_prefix=other").json["count"] == 0
    assert caller.get("/memories").json["total"] == 2
    done = caller.post("/maintenance/consolidate?dry_run=false").json
    assert (done["dry_run"], done["count"]) == (False, 1)
    assert caller.get("/memories").json["total"] == 1
    caller.post(f"/changes/{done['changeset']}/undo")
    assert caller.get("/memories").json["total"] == 2
    nothing = caller.post("/maintenance/consolidate?dry_run=false&source_prefix=other").json
    assert (nothing["dry_run"], nothing["count"], nothing["changeset"]) == (False, 0, None)


def test_pruning_says_why_it_does_nothing(serve: Serve) -> None:
    caller = serve()
    twice(caller, "We deploy with Fly.io")
    for path in ("/maintenance/prune", "/maintenance/prune?dry_run=false"):
        told = caller.post(path).json
        assert (told["count"], told["changeset"]) == (0, None)
        assert told["note"]


def test_runs_are_listed_newest_first(serve: Serve) -> None:
    caller = serve()
    caller.post("/maintenance/prune?dry_run=false", headers={"X-Cofio-Client": "ann"})
    caller.post("/maintenance/consolidate?dry_run=false")
    runs = caller.get("/maintenance/runs").json["runs"]
    assert [(run["chore"], run["outcome"]) for run in runs] == [("consolidate", "done"), ("prune", "done")]
    assert runs[1]["by"] == "ann"
    assert [each["chore"] for each in caller.get("/maintenance/runs", chore="prune").json["runs"]] == ["prune"]
    assert caller.get("/maintenance/runs", chore="dust").status == 400


def test_use_is_shown_by_view_and_narrowed(serve: Serve) -> None:
    caller = serve()
    caller.post("/memory/add", {"text": "we use tabs", "source": "acme/web"})
    caller.post("/memory/add", {"text": "the port is 8080", "source": "acme/api"})
    caller.post("/search", {"query": "tabs", "k": 1})

    def seen(**how: str) -> list[str]:
        return [each["text"] for each in caller.get("/maintenance/usage", **how).json["memories"]]

    assert seen() == seen(view="most") == ["we use tabs"]
    assert seen(view="never") == ["the port is 8080"]
    assert seen(view="never", source_prefix="acme/web") == []
    assert seen(view="stale") == []
    assert caller.get("/maintenance/usage", view="worst").status == 400


def test_the_audit_counts_and_shows_examples(serve: Serve) -> None:
    caller = serve()
    twice(caller, "We deploy with Fly.io")
    told = caller.get("/maintenance/audit", examples=1).json
    found = {each["name"]: each for each in told["findings"]}
    assert told["memories"] == 2
    assert found["exact_duplicates"]["count"] >= 1
    assert len(found["exact_duplicates"]["examples"]) == 1


def test_what_is_not_taken_is_refused(serve: Serve) -> None:
    caller = serve()
    for path in ("consolidate?dry_run=perhaps", "prune?days=3", "consolidate?source_prefix=a&source_prefix=b"):
        assert caller.post(f"/maintenance/{path}").status == 400
    assert caller.get("/maintenance/audit", examples=1000).status == 400
    narrowed = caller.post("/maintenance/consolidate?dry_run=false", {"source_prefix": "acme"})
    assert (narrowed.status, narrowed.error["message"]) == (400, "/maintenance/consolidate accepts no body.")
