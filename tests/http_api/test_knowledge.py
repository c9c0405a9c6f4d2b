"""Domain knowledge over HTTP: its tables, the exact lane, feedback, and who may."""

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
from tests.http_api.caller import Answer, Caller
from tests.http_api.conftest import serving

VOLUME = {"source": "AAPL", "metric": "volume", "value": 5_000_000, "direction": "above"}
NOON, FOUR = "2026-02-20T12:00:00.000000+00:00", "2026-02-20T16:00:00.000000+00:00"
REF = "thresholds/aapl.volume.above"


def keep(service: Caller, table: str, **known: Any) -> dict[str, Any]:
    """The row as it is kept."""
    answer = service.post(f"/knowledge/{table}", known)
    assert answer.status in (200, 201), answer.json
    row: dict[str, Any] = answer.json["after"]
    return row


def plainly(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what it is called by and what it says, once they are known to be so."""
    assert row["ref"].endswith(f"/{row['id']}")
    assert row["says"]
    return {name: value for name, value in row.items() if name not in ("ref", "says")}


def listed(service: Caller, table: str, **where: Any) -> list[str]:
    return [each["id"] for each in service.get(f"/knowledge/{table}", **where).json["rows"]]


# ── the tables ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_row_is_kept_once_and_changed_in_place(service: Caller) -> None:
    new = service.post("/knowledge/thresholds", {**VOLUME, "why": "said so"})
    again = service.post("/knowledge/thresholds", VOLUME)
    changed = service.post("/knowledge/thresholds", {**VOLUME, "value": 6e6})
    assert [(each.status, each.json["action"]) for each in (new, again, changed)] == [
        (201, "add"), (200, "noop"), (200, "update"),
    ]  # fmt: skip
    assert (new.json["key"], new.json["why"], new.json["before"]) == ("aapl.volume.above", "said so", None)
    assert changed.json["before"] == new.json["after"]
    row = service.get(f"/knowledge/{REF}").json
    assert plainly(row) == changed.json["after"]
    assert (row["value"], row["created_at"]) == (6_000_000, new.json["after"]["created_at"])
    assert row["updated_at"] > row["created_at"]
    counts = service.get("/knowledge").json
    assert counts == {**dict.fromkeys(TABLES, 0), "thresholds": 1}


def test_every_table_takes_its_rows(service: Caller) -> None:
    pattern = keep(service, "patterns", pattern="volume spikes before earnings", source="AAPL", confidence=0.8)
    pair = keep(service, "correlations", source_a="BTC", source_b="COIN", rule="BTC leads COIN", relation="leads")
    season = keep(
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
        assert plainly(service.get(f"/knowledge/{table}/{row['id']}").json) == row


def test_a_table_is_listed_by_confidence_and_narrowed(service: Caller) -> None:
    for source, metric, confidence in (("AAPL", "volume", 0.4), ("AAPL", "price", 0.9), ("MSFT", "volume", 0.7)):
        keep(service, "thresholds", **{**VOLUME, "source": source, "metric": metric, "confidence": confidence})
    assert listed(service, "thresholds") == ["aapl.price.above", "msft.volume.above", "aapl.volume.above"]
    assert listed(service, "thresholds", min_confidence=0.7) == ["aapl.price.above", "msft.volume.above"]
    assert listed(service, "thresholds", source="aapl") == ["aapl.price.above", "aapl.volume.above"]
    assert listed(service, "thresholds", source="AAPL", metric="volume") == ["aapl.volume.above"]
    assert listed(service, "thresholds", direction="below") == []


def test_pages_show_every_row_once(service: Caller) -> None:
    for number in range(7):
        keep(service, "patterns", pattern=f"pattern {number}", id=f"p{number}", confidence=(number % 3) / 4)
    seen: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = service.get("/knowledge/patterns", limit=2, **after).json
        seen += [each["id"] for each in page["rows"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert seen == ["p2", "p5", "p1", "p4", "p0", "p3", "p6"]
    assert listed(service, "patterns", limit=1_000) == seen


def test_what_is_not_there_is_not_found(service: Caller) -> None:
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
    ("table", "sent"),
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
def test_what_makes_no_sense_is_refused_and_nothing_kept(served: Caller, table: str, sent: dict[str, Any]) -> None:
    before = served.get("/knowledge").json, served.get("/changes", limit=1).json
    answer = served.post(f"/knowledge/{table}", sent)
    assert (answer.status, answer.error["code"]) in ((400, "invalid_input"), (413, "too_large")), answer.json
    assert (served.get("/knowledge").json, served.get("/changes", limit=1).json) == before


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1e999", "1" * 400, "0x10", "5_000"])
def test_a_number_that_json_cannot_carry_is_refused(served: Caller, number: str) -> None:
    for path, body in (
        ("thresholds", f'{{"source": "AAPL", "metric": "volume", "direction": "above", "value": {number}}}'),
        ("evaluate", f'{{"source": "AAPL", "metric": "volume", "value": {number}}}'),
        ("patterns", f'{{"pattern": "up and up", "confidence": {number}}}'),
    ):
        answer = served.send("POST", f"/knowledge/{path}", body.encode())
        assert (answer.status, answer.error["code"]) == (400, "invalid_input"), answer.json
    assert served.get("/knowledge/thresholds", min_confidence=number).status == 400
    assert served.get("/knowledge").json == dict.fromkeys(TABLES, 0)


# ── history ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_row_is_removed_and_undo_brings_it_back(service: Caller) -> None:
    row = keep(service, "thresholds", **VOLUME)
    gone = service.delete(f"/knowledge/{REF}", why="outdated").json
    assert (gone["action"], gone["why"], gone["before"], gone["after"]) == ("delete", "outdated", row, None)
    assert service.get(f"/knowledge/{REF}").status == 404
    undone = service.post(f"/changes/{gone['changeset']}/undo").json
    assert [(each["table"], each["key"], each["after"]) for each in undone["knowledge"]] == [
        ("thresholds", "aapl.volume.above", row)
    ]
    assert plainly(service.get(f"/knowledge/{REF}").json) == row
    told = service.get(f"/knowledge/{REF}/history").json
    assert (told["table"], told["key"]) == ("thresholds", "aapl.volume.above")
    assert [each["action"] for each in told["changes"]] == ["add", "delete", "revert"]
    assert service.post(f"/changes/{gone['changeset']}/undo").status == 409


def test_a_purged_row_is_gone_from_the_journal_too(service: Caller) -> None:
    row = keep(service, "patterns", pattern="the vault opens at midnight", confidence=0.9)
    keep(service, "patterns", pattern="the vault opens at midnight", confidence=0.2)
    erased = service.post(f"/knowledge/patterns/{row['id']}/purge", {"why": "secret"}).json
    assert (erased["action"], erased["before"], erased["after"]) == ("purge", None, None)
    for answer in (service.get("/changes"), service.get(f"/knowledge/patterns/{row['id']}/history")):
        assert b"midnight" not in answer.body
    for each in service.get("/changes").json["changesets"]:
        assert b"midnight" not in service.get(f"/changes/{each['id']}").body
    assert service.get(f"/knowledge/patterns/{row['id']}").status == 404


# ── the exact lane ────────────────────────────────────────────────────────────────────────────────────────────────────


def fired(service: Caller, source: str, metric: str, value: float, **more: Any) -> list[tuple[str, float]]:
    told = service.post("/knowledge/evaluate", {"source": source, "metric": metric, "value": value, **more}).json
    return [(each["threshold"]["id"], each["by"]) for each in told["firing"]]


def test_a_value_is_held_against_the_thresholds(service: Caller) -> None:
    keep(service, "thresholds", **VOLUME, confidence=0.9)
    keep(service, "thresholds", source="AAPL", metric="volume", value=1_000_000, direction="below")
    keep(service, "thresholds", source="*", metric="volume", value=4_000_000, direction="above", confidence=0.6)
    keep(service, "thresholds", source="web", metric="latency", value=250, direction="above", unit="ms", inclusive=True)
    assert fired(service, "aapl", "Volume", 6_200_000) == [
        ("aapl.volume.above", 1_200_000), ("~any.volume.above", 2_200_000),
    ]  # fmt: skip
    assert fired(service, "AAPL", "volume", 5_000_000) == [("~any.volume.above", 1_000_000)]  # 5M itself is not above
    assert fired(service, "AAPL", "volume", 999_999.5) == [("aapl.volume.below", 0.5)]
    assert fired(service, "AAPL", "volume", 2_000_000) == []
    assert fired(service, "web", "latency", 250) == [("web.latency.above", 0)]
    assert fired(service, "web", "latency", 300, unit="s") == []
    assert service.post("/knowledge/evaluate", {"source": "AAPL", "metric": "volume"}).status == 400


def test_seasonal_patterns_are_told_while_they_are_on(service: Caller) -> None:
    keep(service, "seasonal", pattern="low volume", period="weekly", during="fri 12:00-16:00", source="AAPL")
    during = service.get("/knowledge/active", at="2026-02-20T13:00:00Z").json["active"]
    assert [(each["seasonal"]["pattern"], each["since"], each["until"]) for each in during] == [
        ("low volume", NOON, FOUR)
    ]
    elsewhere = service.send("GET", "/knowledge/active?at=2026-02-20T14:00:00+01:00").json["active"]
    assert elsewhere == during
    assert service.get("/knowledge/active", at="2026-02-20T17:00:00Z").json["active"] == []
    assert service.get("/knowledge/active", at="2026-02-20T13:00:00Z", source="MSFT").json["active"] == []
    assert service.get("/knowledge/active").status == 200
    assert service.get("/knowledge/active", at="tomorrow").status == 400


def test_correlations_are_walked_from_either_side(service: Caller) -> None:
    rule = {"relation": "leads", "confidence": 0.5}
    keep(service, "correlations", source_a="BTC", source_b="COIN", rule="BTC leads COIN", **rule)
    keep(service, "correlations", source_a="COIN", source_b="HOOD", rule="COIN leads HOOD", **rule, inverse=True)

    def walked(source: str, **how: Any) -> list[tuple[str, bool, int, float, bool]]:
        told = service.get("/knowledge/related", source=source, **how).json["related"]
        return [(e["there"], e["forward"], e["depth"], e["confidence"], e["inverse"]) for e in told]

    assert walked("BTC") == [("COIN", True, 1, 0.5, False)]
    assert walked("btc", depth=2) == [("COIN", True, 1, 0.5, False), ("HOOD", True, 2, 0.25, True)]
    assert walked("HOOD", depth=2) == [("COIN", False, 1, 0.5, True), ("BTC", False, 2, 0.25, True)]
    assert walked("gold") == []
    for wrong in ({"source": "BTC", "depth": 0}, {"source": "BTC", "depth": 10**9}, {}):
        assert service.get("/knowledge/related", **wrong).status == 400


def test_a_text_is_read_and_nothing_kept(service: Caller) -> None:
    told = service.post("/knowledge/read", {"text": "Threshold: flag AAPL if volume exceeds 5M. All is well."}).json
    [reading] = told["readings"]
    assert (reading["table"], reading["denied"], reading["confidence"]) == ("thresholds", False, 0.7)
    assert {name: reading["fields"][name] for name in VOLUME} == VOLUME
    [denial] = service.post("/knowledge/read", {"text": "Do not flag AAPL volume any more."}).json["readings"]
    assert (denial["table"], denial["denied"], denial["fields"]["source"]) == ("thresholds", True, "AAPL")
    assert service.post("/knowledge/read", {"text": "Good morning."}).json == {"readings": []}
    assert service.get("/knowledge").json["thresholds"] == 0


# ── feedback ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def confidence(service: Caller) -> float:
    return float(service.get(f"/knowledge/{REF}").json["confidence"])


def test_a_verdict_moves_what_it_judges_once(service: Caller) -> None:
    keep(service, "thresholds", **VOLUME)
    said = {"anomaly": "AAPL monday", "verdict": "confirmed", "about": [REF], "note": "earnings leak"}
    done = service.post("/knowledge/feedback", said).json
    assert {each["table"] for each in done["knowledge"]} == {"thresholds", "feedback"}
    moved = confidence(service)
    assert moved > 0.5
    service.post("/knowledge/feedback", said)
    assert service.post("/knowledge/feedback/process").json == {"changeset": None}
    assert confidence(service) == moved
    [row] = service.get("/knowledge/feedback").json["rows"]
    assert (row["anomaly"], row["processed"], row["note"], row["about"]) == (
        "AAPL monday",
        True,
        "earnings leak",
        [REF],
    )
    service.post(f"/changes/{done['id']}/undo")
    assert confidence(service) == 0.5
    assert listed(service, "feedback") == []


def test_a_verdict_may_wait_until_it_is_processed(service: Caller) -> None:
    keep(service, "thresholds", **VOLUME)
    said = {"anomaly": "AAPL friday", "verdict": "false_alarm", "about": [REF], "process": False}
    service.post("/knowledge/feedback", said)
    assert confidence(service) == 0.5
    assert listed(service, "feedback", processed="false") == ["aapl_friday"]
    done = service.post("/knowledge/feedback/process", {"why": "the week is over"}).json["changeset"]
    assert done["why"] == "the week is over"
    assert confidence(service) < 0.5
    assert listed(service, "feedback", processed="false") == []
    assert listed(service, "feedback", verdict="false_alarm") == ["aapl_friday"]


def test_an_anomaly_may_be_called_as_a_route_is(service: Caller) -> None:
    service.post("/knowledge/feedback", {"anomaly": "process", "verdict": "note", "note": "a name like any other"})
    assert service.get("/knowledge/feedback/process").json["anomaly"] == "process"
    assert service.get("/knowledge/feedback/process/history").json["key"] == "process"
    assert service.delete("/knowledge/feedback/process").json["action"] == "delete"
    assert service.get("/knowledge/feedback/process").status == 404


def test_a_row_may_be_changed_in_part_by_its_name(service: Caller) -> None:
    row = keep(service, "thresholds", **VOLUME, created_at="2020-01-01")
    changed = keep(service, "thresholds", id=row["id"], confidence=0.9)
    assert changed["value"] == VOLUME["value"]
    assert (changed["confidence"], changed["created_at"][:10]) == (0.9, "2020-01-01")


def test_what_a_table_does_not_have_narrows_nothing_silently(service: Caller) -> None:
    keep(service, "patterns", pattern="volume spikes before earnings")
    for where in ({"metric": "volume"}, {"direction": "above"}, {"unheard": "of"}, {"limit": 0}, {"limit": 1_001}):
        assert service.get("/knowledge/patterns", **where).status == 400, where
    assert service.get("/knowledge/feedback", min_confidence=0.5).status == 400


def test_the_server_store_answers_the_same(postgres_url: str) -> None:
    clock = FixedClock()
    with Keeper(PostgresStore(postgres_url, clock), HashEmbedder(), clock) as keeper, serving(keeper) as url:
        service = Caller(url)
        keep(service, "thresholds", **VOLUME, confidence=0.9)
        keep(service, "thresholds", source="*", metric="volume", value=4_000_000, direction="above")
        assert listed(service, "thresholds", limit=1) == ["aapl.volume.above"]
        assert listed(service, "thresholds", limit=1, after="aapl.volume.above") == ["~any.volume.above"]
        assert listed(service, "thresholds", source="aapl", metric="VOLUME") == ["aapl.volume.above"]
        assert fired(service, "AAPL", "volume", 6e6) == [("aapl.volume.above", 1e6), ("~any.volume.above", 2e6)]
        for name, process in (("one", True), ("two", False)):
            said = {"anomaly": name, "verdict": "confirmed", "about": [REF], "process": process}
            service.post("/knowledge/feedback", said)
        assert listed(service, "feedback", processed="false") == ["two"]
        assert listed(service, "feedback", verdict="confirmed") == ["two", "one"]
        gone = service.delete(f"/knowledge/{REF}").json
        service.post(f"/changes/{gone['changeset']}/undo")
        assert plainly(service.get(f"/knowledge/{REF}").json) == gone["before"]
        service.post(f"/knowledge/{REF}/purge")
        assert service.get("/knowledge").json["thresholds"] == 1


# ── who may ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class House:
    """A service with keys."""

    def __init__(self, keeper: Keeper, caller: Caller) -> None:
        self.keeper, self.caller = keeper, caller

    def key(self, name: str, **about: Any) -> Caller:
        _, secret = self.keeper.create_key(Grant(name=name, **about))
        return self.caller.having(secret)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    clock = FixedClock()
    keeper = Keeper(SqliteStore(tmp_path / "cofio.db", clock), HashEmbedder(), clock)
    with keeper, serving(keeper, clock) as url:
        yield House(keeper, Caller(url))


def refused(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.error["code"]


def test_a_key_that_reads_does_not_write(house: House) -> None:
    root, reader = house.key("root", role="admin"), house.key("reader", role="read", user="ada")
    keep(root, "thresholds", **VOLUME, visibility="global")
    assert reader.get(f"/knowledge/{REF}").status == 200
    assert fired(reader, "AAPL", "volume", 6e6) == [("aapl.volume.above", 1e6)]
    for answer in (
        reader.post("/knowledge/thresholds", VOLUME),
        reader.delete(f"/knowledge/{REF}"),
        reader.post(f"/knowledge/{REF}/purge"),
        reader.post("/knowledge/feedback", {"anomaly": "a1", "verdict": "confirmed"}),
        reader.post("/knowledge/feedback/process"),
    ):
        assert refused(answer) == (403, "forbidden")
    assert house.caller.get("/knowledge").status == 401


def test_what_is_private_is_there_for_its_owner_alone(house: House) -> None:
    ada, bob = house.key("ada", user="ada", team="desk"), house.key("bob", user="bob", team="desk")
    root = house.key("root", role="admin")
    mine = keep(ada, "thresholds", **VOLUME, visibility="private")
    ours = keep(ada, "thresholds", **{**VOLUME, "metric": "price"}, visibility="team")
    season = keep(ada, "seasonal", pattern="ada's lunch", period="daily", during="", visibility="private")
    pair = keep(ada, "correlations", source_a="BTC", source_b="COIN", rule="secret", visibility="private")
    verdict = ada.post("/knowledge/feedback", {"anomaly": "a1", "verdict": "note", "note": "secret"})
    assert verdict.json["knowledge"][0]["after"]["user"] == "ada"
    assert (mine["user"], ours["team"]) == ("ada", "desk")
    assert [who.get("/knowledge").json["thresholds"] for who in (ada, bob, root)] == [2, 1, 2]
    assert bob.get("/knowledge").json == {**dict.fromkeys(TABLES, 0), "thresholds": 1}
    assert listed(bob, "thresholds") == [ours["id"]]
    assert fired(bob, "AAPL", "volume", 6e6) == []
    assert bob.get("/knowledge/active").json == {"active": []}
    assert bob.get("/knowledge/related", source="BTC").json == {"related": []}
    assert listed(bob, "feedback") == []
    for table, row in (("thresholds", mine), ("seasonal", season), ("correlations", pair)):
        path = f"/knowledge/{table}/{row['id']}"
        assert [each.status for each in (bob.get(path), bob.get(f"{path}/history"), bob.delete(path))] == [404] * 3
        assert bob.post(f"{path}/purge").status == 404
        assert plainly(ada.get(path).json) == plainly(root.get(path).json) == row
    assert b"secret" not in bob.get("/changes").body


def test_a_key_for_some_sources_sees_what_was_told_there(house: House) -> None:
    root = house.key("root", role="admin")
    web = house.key("web", user="ada", prefixes=("acme/web",))
    keep(root, "patterns", pattern="told in the api", place="acme/api", visibility="global", id="api")
    keep(root, "patterns", pattern="told in the web", place="acme/web/shop", visibility="global", id="web")
    assert listed(web, "patterns") == ["web"]
    assert web.get("/knowledge/patterns/api").status == 404
    assert keep(web, "patterns", pattern="x", place="acme/api")["place"] == "acme/web/acme/api"
    assert keep(web, "patterns", pattern="y", place="acme/web")["place"] == "acme/web"


def test_the_audit_log_names_the_table_and_never_the_words(house: House) -> None:
    ada = house.key("ada", user="ada")
    row = keep(ada, "thresholds", **VOLUME)
    ada.delete(f"/knowledge/thresholds/{row['id']}")
    entries = house.keeper.audit_entries(limit=2)
    assert [(entry.act, entry.outcome, entry.what) for entry in entries] == [
        ("DELETE /knowledge/thresholds/{row}", "done", "changeset 2"),
        ("POST /knowledge/thresholds", "done", "changeset 1"),
    ]


def test_the_journal_names_who_kept_it(house: House) -> None:
    ada = house.key("ada", user="ada")
    made = ada.post("/knowledge/thresholds", VOLUME, {"X-Cofio-Client": "watcher"}).json
    assert made["by"] == "ada (key 1) · watcher"
    assert house.keeper.changeset(made["changeset"]).by == made["by"]


def test_the_document_names_the_tables(served: Caller) -> None:
    document = served.get("/openapi.json").json
    [table] = [each for each in document["paths"]["/knowledge/{table}"]["post"]["parameters"] if each["in"] == "path"]
    assert table["schema"]["enum"] == list(TABLES)
    fields = document["components"]["schemas"]["NewKnowledgeRequest"]["properties"]
    assert fields["direction"]["enum"] == ["above", "below"]
