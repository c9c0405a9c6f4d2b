"""Domain knowledge over HTTP: tables, threshold evaluation, feedback and access control."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.models.auth import Grant
from cofio.models.domain_knowledge import TABLES
from cofio.stores.postgres import PostgresStore
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.http_api.caller import Caller, Response
from tests.http_api.conftest import serving

VOLUME = {"source": "AAPL", "metric": "volume", "value": 5_000_000, "direction": "above"}
NOON, FOUR = "2026-02-20T12:00:00.000000+00:00", "2026-02-20T16:00:00.000000+00:00"
REF = "thresholds/aapl.volume.above"


def put_row(service: Caller, table: str, **fields: Any) -> dict[str, Any]:
    """Create or update a row and return it."""
    response = service.post(f"/knowledge/{table}", fields)
    assert response.status in (200, 201), response.json
    row: dict[str, Any] = response.json["after"]
    return row


def without_derived_fields(row: dict[str, Any]) -> dict[str, Any]:
    """Check the derived fields `ref` and `says`, and return the row without them."""
    assert row["ref"].endswith(f"/{row['id']}")
    assert row["says"]
    return {name: value for name, value in row.items() if name not in ("ref", "says")}


def list_row_ids(service: Caller, table: str, **filters: Any) -> list[str]:
    return [row["id"] for row in service.get(f"/knowledge/{table}", **filters).json["rows"]]


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_repeated_row_is_noop_and_changed_row_is_updated(service: Caller) -> None:
    new = service.post("/knowledge/thresholds", {**VOLUME, "why": "said so"})
    response = service.post("/knowledge/thresholds", VOLUME)
    changed = service.post("/knowledge/thresholds", {**VOLUME, "value": 6e6})
    assert [(item.status, item.json["action"]) for item in (new, response, changed)] == [
        (201, "add"), (200, "noop"), (200, "update"),
    ]  # fmt: skip
    assert (new.json["key"], new.json["why"], new.json["before"]) == ("aapl.volume.above", "said so", None)
    assert changed.json["before"] == new.json["after"]
    row = service.get(f"/knowledge/{REF}").json
    assert without_derived_fields(row) == changed.json["after"]
    assert (row["value"], row["created_at"]) == (6_000_000, new.json["after"]["created_at"])
    assert row["updated_at"] > row["created_at"]
    counts = service.get("/knowledge").json
    assert counts == {**dict.fromkeys(TABLES, 0), "thresholds": 1}


def test_every_table_accepts_rows(service: Caller) -> None:
    pattern = put_row(service, "patterns", pattern="volume spikes before earnings", source="AAPL", confidence=0.8)
    pair = put_row(service, "correlations", source_a="BTC", source_b="COIN", rule="BTC leads COIN", relation="leads")
    season = put_row(
        service,
        "seasonal",
        pattern="low volume",
        period="weekly",
        during="fri 12:00-16:00",
        timezone="America/New_York",
    )
    assert (pattern["confidence"], pattern["prior"], pattern["source"]) == (0.8, 0.8, "AAPL")
    assert (pair["id"], pair["inverse"], pair["confidence"]) == ("btc.leads.coin", False, 0.5)
    assert (season["period"], season["timezone"]) == ("weekly", "America/New_York")
    for table, row in (("patterns", pattern), ("correlations", pair), ("seasonal", season)):
        assert without_derived_fields(service.get(f"/knowledge/{table}/{row['id']}").json) == row


def test_rows_are_sorted_by_confidence_and_filtered(service: Caller) -> None:
    for source, metric, confidence in (("AAPL", "volume", 0.4), ("AAPL", "price", 0.9), ("MSFT", "volume", 0.7)):
        put_row(service, "thresholds", **{**VOLUME, "source": source, "metric": metric, "confidence": confidence})
    assert list_row_ids(service, "thresholds") == ["aapl.price.above", "msft.volume.above", "aapl.volume.above"]
    assert list_row_ids(service, "thresholds", min_confidence=0.7) == ["aapl.price.above", "msft.volume.above"]
    assert list_row_ids(service, "thresholds", source="aapl") == ["aapl.price.above", "aapl.volume.above"]
    assert list_row_ids(service, "thresholds", source="AAPL", metric="volume") == ["aapl.volume.above"]
    assert list_row_ids(service, "thresholds", direction="below") == []


def test_pagination_returns_every_row_once(service: Caller) -> None:
    for number in range(7):
        put_row(service, "patterns", pattern=f"pattern {number}", id=f"p{number}", confidence=(number % 3) / 4)
    observed: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = service.get("/knowledge/patterns", limit=2, **after).json
        observed += [row["id"] for row in page["rows"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert observed == ["p2", "p5", "p1", "p4", "p0", "p3", "p6"]
    assert list_row_ids(service, "patterns", limit=1_000) == observed


def test_unknown_table_or_row_returns_404(service: Caller) -> None:
    for answer in (
        service.get("/knowledge/hunches"),
        service.post("/knowledge/hunches", {"pattern": "x"}),
        service.get("/knowledge/hunches/x"),
        service.delete("/knowledge/hunches/x"),
    ):
        assert (answer.status, answer.error["code"]) == (404, "not_found")
        assert "patterns, correlations, thresholds, seasonal, feedback" in answer.error["hint"]
    for answer in (
        service.get(f"/knowledge/{REF}"),
        service.get(f"/knowledge/{REF}/history"),
        service.delete(f"/knowledge/{REF}"),
        service.post(f"/knowledge/{REF}/purge"),
        service.get("/knowledge/patterns/%00"),
        service.get("/knowledge/patterns/" + "x" * 5_000),
    ):
        assert answer.status == 404, answer.json
    assert service.send("PUT", f"/knowledge/{REF}").status == 405
    assert service.get("/knowledge/evaluate").status == 405


@pytest.mark.parametrize(
    ("table", "body"),
    [
        ("thresholds", {}),
        ("thresholds", {**VOLUME, "value": "5M"}),
        ("thresholds", {**VOLUME, "value": True}),
        ("thresholds", {**VOLUME, "value": None}),
        ("thresholds", {**VOLUME, "direction": "sideways"}),
        ("thresholds", {**VOLUME, "metric": "  "}),
        ("thresholds", {**VOLUME, "confidence": 1.5}),
        ("thresholds", {**VOLUME, "confidence": -0.1}),
        ("thresholds", {**VOLUME, "pattern": "of another table"}),
        ("thresholds", {**VOLUME, "unheard": "of"}),
        ("thresholds", {**VOLUME, "id": "a/b"}),
        ("thresholds", {**VOLUME, "source": "a\x00b"}),
        ("patterns", {"pattern": ""}),
        ("patterns", {"pattern": "x" * 10_000}),
        ("correlations", {"source_a": "BTC", "source_b": "btc", "rule": "with itself"}),
        ("seasonal", {"pattern": "low volume", "period": "fortnightly"}),
        ("seasonal", {"pattern": "low volume", "period": "weekly", "during": "someday"}),
        ("seasonal", {"pattern": "low volume", "period": "daily", "timezone": "Mars/Olympus"}),
        ("feedback", {"anomaly": "a1", "verdict": "perhaps"}),
        ("feedback", {"anomaly": "a1", "verdict": "confirmed", "about": ["nothing"]}),
        ("feedback", {"anomaly": "a1", "verdict": "confirmed", "about": "thresholds/x"}),
        ("feedback", {"anomaly": "a1", "verdict": "confirmed", "processed": True}),
    ],
)
def test_invalid_row_is_rejected(shared_service: Caller, table: str, body: dict[str, Any]) -> None:
    before = shared_service.get("/knowledge").json, shared_service.get("/changes", limit=1).json
    answer = shared_service.post(f"/knowledge/{table}", body)
    assert (answer.status, answer.error["code"]) in ((400, "invalid_input"), (413, "too_large")), answer.json
    assert (shared_service.get("/knowledge").json, shared_service.get("/changes", limit=1).json) == before


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e999", "1" * 400, "0x10", "5_000"])
def test_non_finite_or_malformed_number_is_rejected(shared_service: Caller, number: str) -> None:
    for path, body in (
        ("thresholds", f'{{"source": "AAPL", "metric": "volume", "direction": "above", "value": {number}}}'),
        ("evaluate", f'{{"source": "AAPL", "metric": "volume", "value": {number}}}'),
        ("patterns", f'{{"pattern": "up and up", "confidence": {number}}}'),
    ):
        answer = shared_service.send("POST", f"/knowledge/{path}", body.encode())
        assert (answer.status, answer.error["code"]) == (400, "invalid_input"), answer.json
    assert shared_service.get("/knowledge/thresholds", min_confidence=number).status == 400
    assert shared_service.get("/knowledge").json == dict.fromkeys(TABLES, 0)


# ── history ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_deleted_row_is_restored_by_undo(service: Caller) -> None:
    row = put_row(service, "thresholds", **VOLUME)
    body = service.delete(f"/knowledge/{REF}", why="outdated").json
    assert (body["action"], body["why"], body["before"], body["after"]) == ("delete", "outdated", row, None)
    assert service.get(f"/knowledge/{REF}").status == 404
    payload = service.post(f"/changes/{body['changeset']}/undo").json
    assert [(item["table"], item["key"], item["after"]) for item in payload["knowledge"]] == [
        ("thresholds", "aapl.volume.above", row)
    ]
    assert without_derived_fields(service.get(f"/knowledge/{REF}").json) == row
    told = service.get(f"/knowledge/{REF}/history").json
    assert (told["table"], told["key"]) == ("thresholds", "aapl.volume.above")
    assert [change["action"] for change in told["changes"]] == ["add", "delete", "revert"]
    assert service.post(f"/changes/{body['changeset']}/undo").status == 409


def test_purged_row_is_removed_from_history(service: Caller) -> None:
    row = put_row(service, "patterns", pattern="the vault opens at midnight", confidence=0.9)
    put_row(service, "patterns", pattern="the vault opens at midnight", confidence=0.2)
    body = service.post(f"/knowledge/patterns/{row['id']}/purge", {"why": "secret"}).json
    assert (body["action"], body["before"], body["after"]) == ("purge", None, None)
    for answer in (service.get("/changes"), service.get(f"/knowledge/patterns/{row['id']}/history")):
        assert b"midnight" not in answer.body
    for changeset in service.get("/changes").json["changesets"]:
        assert b"midnight" not in service.get(f"/changes/{changeset['id']}").body
    assert service.get(f"/knowledge/patterns/{row['id']}").status == 404


# ── evaluation ────────────────────────────────────────────────────────────────────────────────────────────────────────


def fired(service: Caller, source: str, metric: str, value: float, **options: Any) -> list[tuple[str, float]]:
    body = service.post("/knowledge/evaluate", {"source": source, "metric": metric, "value": value, **options}).json
    return [(item["threshold"]["id"], item["by"]) for item in body["firing"]]


def test_value_is_evaluated_against_thresholds(service: Caller) -> None:
    put_row(service, "thresholds", **VOLUME, confidence=0.9)
    put_row(service, "thresholds", source="AAPL", metric="volume", value=1_000_000, direction="below")
    put_row(service, "thresholds", source="*", metric="volume", value=4_000_000, direction="above", confidence=0.6)
    put_row(
        service, "thresholds", source="web", metric="latency", value=250, direction="above", unit="ms", inclusive=True
    )
    assert fired(service, "aapl", "Volume", 6_200_000) == [
        ("aapl.volume.above", 1_200_000), ("~any.volume.above", 2_200_000),
    ]  # fmt: skip
    assert fired(service, "AAPL", "volume", 5_000_000) == [
        ("~any.volume.above", 1_000_000)
    ]  # the threshold is exclusive
    assert fired(service, "AAPL", "volume", 999_999.5) == [("aapl.volume.below", 0.5)]
    assert fired(service, "AAPL", "volume", 2_000_000) == []
    assert fired(service, "web", "latency", 250) == [("web.latency.above", 0)]
    assert fired(service, "web", "latency", 300, unit="s") == []
    assert service.post("/knowledge/evaluate", {"source": "AAPL", "metric": "volume"}).status == 400


def test_active_seasonal_patterns_are_listed(service: Caller) -> None:
    put_row(service, "seasonal", pattern="low volume", period="weekly", during="fri 12:00-16:00", source="AAPL")
    during = service.get("/knowledge/active", at="2026-02-20T13:00:00Z").json["active"]
    assert [(item["seasonal"]["pattern"], item["since"], item["until"]) for item in during] == [
        ("low volume", NOON, FOUR)
    ]
    other = service.send("GET", "/knowledge/active?at=2026-02-20T14:00:00+01:00").json["active"]
    assert other == during
    assert service.get("/knowledge/active", at="2026-02-20T17:00:00Z").json["active"] == []
    assert service.get("/knowledge/active", at="2026-02-20T13:00:00Z", source="MSFT").json["active"] == []
    assert service.get("/knowledge/active").status == 200
    assert service.get("/knowledge/active", at="tomorrow").status == 400


def test_related_follows_correlations_in_both_directions(service: Caller) -> None:
    rule = {"relation": "leads", "confidence": 0.5}
    put_row(service, "correlations", source_a="BTC", source_b="COIN", rule="BTC leads COIN", **rule)
    put_row(service, "correlations", source_a="COIN", source_b="HOOD", rule="COIN leads HOOD", **rule, inverse=True)

    def walked(source: str, **how: Any) -> list[tuple[str, bool, int, float, bool]]:
        body = service.get("/knowledge/related", source=source, **how).json["related"]
        return [(e["there"], e["forward"], e["depth"], e["confidence"], e["inverse"]) for e in body]

    assert walked("BTC") == [("COIN", True, 1, 0.5, False)]
    assert walked("btc", depth=2) == [("COIN", True, 1, 0.5, False), ("HOOD", True, 2, 0.25, True)]
    assert walked("HOOD", depth=2) == [("COIN", False, 1, 0.5, True), ("BTC", False, 2, 0.25, True)]
    assert walked("gold") == []
    for wrong in ({"source": "BTC", "depth": 0}, {"source": "BTC", "depth": 10**9}, {}):
        assert service.get("/knowledge/related", **wrong).status == 400


def test_read_parses_text_without_storing_it(service: Caller) -> None:
    body = service.post("/knowledge/read", {"text": "Threshold: flag AAPL if volume exceeds 5M. All is well."}).json
    [reading] = body["readings"]
    assert (reading["table"], reading["denied"], reading["confidence"]) == ("thresholds", False, 0.7)
    assert {name: reading["fields"][name] for name in VOLUME} == VOLUME
    [denial] = service.post("/knowledge/read", {"text": "Do not flag AAPL volume any more."}).json["readings"]
    assert (denial["table"], denial["denied"], denial["fields"]["source"]) == ("thresholds", True, "AAPL")
    assert service.post("/knowledge/read", {"text": "Good morning."}).json == {"readings": []}
    assert service.get("/knowledge").json["thresholds"] == 0


# ── feedback ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def confidence(service: Caller) -> float:
    return float(service.get(f"/knowledge/{REF}").json["confidence"])


def test_feedback_changes_confidence_once(service: Caller) -> None:
    put_row(service, "thresholds", **VOLUME)
    request = {"anomaly": "AAPL monday", "verdict": "confirmed", "about": [REF], "note": "earnings leak"}
    body = service.post("/knowledge/feedback", request).json
    assert {item["table"] for item in body["knowledge"]} == {"thresholds", "feedback"}
    updated = confidence(service)
    assert updated > 0.5
    service.post("/knowledge/feedback", request)
    assert service.post("/knowledge/feedback/process").json == {"changeset": None}
    assert confidence(service) == updated
    [row] = service.get("/knowledge/feedback").json["rows"]
    assert (row["anomaly"], row["processed"], row["note"], row["about"]) == (
        "AAPL monday",
        True,
        "earnings leak",
        [REF],
    )
    service.post(f"/changes/{body['id']}/undo")
    assert confidence(service) == 0.5
    assert list_row_ids(service, "feedback") == []


def test_feedback_with_process_false_waits_until_processed(service: Caller) -> None:
    put_row(service, "thresholds", **VOLUME)
    request = {"anomaly": "AAPL friday", "verdict": "false_alarm", "about": [REF], "process": False}
    service.post("/knowledge/feedback", request)
    assert confidence(service) == 0.5
    assert list_row_ids(service, "feedback", processed="false") == ["aapl_friday"]
    body = service.post("/knowledge/feedback/process", {"why": "the week is over"}).json["changeset"]
    assert body["why"] == "the week is over"
    assert confidence(service) < 0.5
    assert list_row_ids(service, "feedback", processed="false") == []
    assert list_row_ids(service, "feedback", verdict="false_alarm") == ["aapl_friday"]


def test_feedback_id_may_equal_a_route_name(service: Caller) -> None:
    service.post("/knowledge/feedback", {"anomaly": "process", "verdict": "note", "note": "a name like any other"})
    assert service.get("/knowledge/feedback/process").json["anomaly"] == "process"
    assert service.get("/knowledge/feedback/process/history").json["key"] == "process"
    assert service.delete("/knowledge/feedback/process").json["action"] == "delete"
    assert service.get("/knowledge/feedback/process").status == 404


def test_row_is_partially_updated_by_id(service: Caller) -> None:
    row = put_row(service, "thresholds", **VOLUME, created_at="2020-01-01")
    changed = put_row(service, "thresholds", id=row["id"], confidence=0.9)
    assert changed["value"] == VOLUME["value"]
    assert (changed["confidence"], changed["created_at"][:10]) == (0.9, "2020-01-01")


def test_unsupported_filter_is_rejected(service: Caller) -> None:
    put_row(service, "patterns", pattern="volume spikes before earnings")
    for where in ({"metric": "volume"}, {"direction": "above"}, {"unheard": "of"}, {"limit": 0}, {"limit": 1_001}):
        assert service.get("/knowledge/patterns", **where).status == 400, where
    assert service.get("/knowledge/feedback", min_confidence=0.5).status == 400


def test_postgres_store_returns_the_same_results(postgres_url: str) -> None:
    clock = FixedClock()
    with Keeper(PostgresStore(postgres_url, clock), HashEmbedder(), clock) as keeper, serving(keeper) as url:
        service = Caller(url)
        put_row(service, "thresholds", **VOLUME, confidence=0.9)
        put_row(service, "thresholds", source="*", metric="volume", value=4_000_000, direction="above")
        assert list_row_ids(service, "thresholds", limit=1) == ["aapl.volume.above"]
        assert list_row_ids(service, "thresholds", limit=1, after="aapl.volume.above") == ["~any.volume.above"]
        assert list_row_ids(service, "thresholds", source="aapl", metric="VOLUME") == ["aapl.volume.above"]
        assert fired(service, "AAPL", "volume", 6e6) == [("aapl.volume.above", 1e6), ("~any.volume.above", 2e6)]
        for name, process in (("one", True), ("two", False)):
            request = {"anomaly": name, "verdict": "confirmed", "about": [REF], "process": process}
            service.post("/knowledge/feedback", request)
        assert list_row_ids(service, "feedback", processed="false") == ["two"]
        assert list_row_ids(service, "feedback", verdict="confirmed") == ["two", "one"]
        body = service.delete(f"/knowledge/{REF}").json
        service.post(f"/changes/{body['changeset']}/undo")
        assert without_derived_fields(service.get(f"/knowledge/{REF}").json) == body["before"]
        service.post(f"/knowledge/{REF}/purge")
        assert service.get("/knowledge").json["thresholds"] == 1


# ── access control ────────────────────────────────────────────────────────────────────────────────────────────────────


class Backend:
    """A service with API keys."""

    def __init__(self, keeper: Keeper, caller: Caller) -> None:
        self.keeper, self.caller = keeper, caller

    def key(self, name: str, **about: Any) -> Caller:
        _, secret = self.keeper.create_key(Grant(name=name, **about))
        return self.caller.with_key(secret)


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    clock = FixedClock()
    keeper = Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock)
    with keeper, serving(keeper, clock) as url:
        yield Backend(keeper, Caller(url))


def error_of(answer: Response) -> tuple[int, str]:
    return answer.status, answer.error["code"]


def test_read_key_cannot_write(backend: Backend) -> None:
    root, reader = backend.key("root", role="admin"), backend.key("reader", role="read", user="ada")
    put_row(root, "thresholds", **VOLUME, visibility="global")
    assert reader.get(f"/knowledge/{REF}").status == 200
    assert fired(reader, "AAPL", "volume", 6e6) == [("aapl.volume.above", 1e6)]
    for answer in (
        reader.post("/knowledge/thresholds", VOLUME),
        reader.delete(f"/knowledge/{REF}"),
        reader.post(f"/knowledge/{REF}/purge"),
        reader.post("/knowledge/feedback", {"anomaly": "a1", "verdict": "confirmed"}),
        reader.post("/knowledge/feedback/process"),
    ):
        assert error_of(answer) == (403, "forbidden")
    assert backend.caller.get("/knowledge").status == 401


def test_private_row_is_visible_to_its_owner_only(backend: Backend) -> None:
    ada, bob = backend.key("ada", user="ada", team="desk"), backend.key("bob", user="bob", team="desk")
    root = backend.key("root", role="admin")
    mine = put_row(ada, "thresholds", **VOLUME, visibility="private")
    ours = put_row(ada, "thresholds", **{**VOLUME, "metric": "price"}, visibility="team")
    season = put_row(ada, "seasonal", pattern="ada's lunch", period="daily", during="", visibility="private")
    pair = put_row(ada, "correlations", source_a="BTC", source_b="COIN", rule="secret", visibility="private")
    verdict = ada.post("/knowledge/feedback", {"anomaly": "a1", "verdict": "note", "note": "secret"})
    assert verdict.json["knowledge"][0]["after"]["user"] == "ada"
    assert (mine["user"], ours["team"]) == ("ada", "desk")
    assert [who.get("/knowledge").json["thresholds"] for who in (ada, bob, root)] == [2, 1, 2]
    assert bob.get("/knowledge").json == {**dict.fromkeys(TABLES, 0), "thresholds": 1}
    assert list_row_ids(bob, "thresholds") == [ours["id"]]
    assert fired(bob, "AAPL", "volume", 6e6) == []
    assert bob.get("/knowledge/active").json == {"active": []}
    assert bob.get("/knowledge/related", source="BTC").json == {"related": []}
    assert list_row_ids(bob, "feedback") == []
    for table, row in (("thresholds", mine), ("seasonal", season), ("correlations", pair)):
        path = f"/knowledge/{table}/{row['id']}"
        assert [item.status for item in (bob.get(path), bob.get(f"{path}/history"), bob.delete(path))] == [404] * 3
        assert bob.post(f"{path}/purge").status == 404
        assert without_derived_fields(ada.get(path).json) == without_derived_fields(root.get(path).json) == row
    assert b"secret" not in bob.get("/changes").body


def test_key_with_source_prefixes_sees_rows_of_these_sources(backend: Backend) -> None:
    root = backend.key("root", role="admin")
    web = backend.key("web", user="ada", prefixes=("acme/web",))
    put_row(root, "patterns", pattern="told in the api", place="acme/api", visibility="global", id="api")
    put_row(root, "patterns", pattern="told in the web", place="acme/web/shop", visibility="global", id="web")
    assert list_row_ids(web, "patterns") == ["web"]
    assert web.get("/knowledge/patterns/api").status == 404
    assert put_row(web, "patterns", pattern="x", place="acme/api")["place"] == "acme/web/acme/api"
    assert put_row(web, "patterns", pattern="y", place="acme/web")["place"] == "acme/web"


def test_audit_log_names_the_table_and_no_content(backend: Backend) -> None:
    ada = backend.key("ada", user="ada")
    row = put_row(ada, "thresholds", **VOLUME)
    ada.delete(f"/knowledge/thresholds/{row['id']}")
    deeds = backend.keeper.audit_entries(limit=2)
    assert [(entry.act, entry.outcome, entry.what) for entry in deeds] == [
        ("DELETE /knowledge/thresholds/{row}", "done", "changeset 2"),
        ("POST /knowledge/thresholds", "done", "changeset 1"),
    ]


def test_changeset_author_is_the_key(backend: Backend) -> None:
    ada = backend.key("ada", user="ada")
    body = ada.post("/knowledge/thresholds", VOLUME, {"X-Cofio-Client": "watcher"}).json
    assert body["by"] == "ada (key 1) · watcher"
    assert backend.keeper.changeset(body["changeset"]).by == body["by"]


def test_openapi_lists_the_tables(shared_service: Caller) -> None:
    document = shared_service.get("/openapi.json").json
    [table] = [
        parameter
        for parameter in document["paths"]["/knowledge/{table}"]["post"]["parameters"]
        if parameter["in"] == "path"
    ]
    assert table["schema"]["enum"] == list(TABLES)
    fields = document["components"]["schemas"]["NewKnowledgeRequest"]["properties"]
    assert fields["direction"]["enum"] == ["above", "below"]
