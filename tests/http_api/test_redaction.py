"""Secrets that a caller sends are stored nowhere, whichever way they come in, and the caller learns of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.markdown_notes.service import NotesOptions
from cofio.models.auth import Grant
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.http_api.caller import Caller, Response
from tests.http_api.conftest import serving

TOKEN = "gh" + "p_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5"
SAYS = f"The crane team reaches the gateway with {TOKEN}"
MARK = "[redacted:github-token]"
LABELS = {
    "tags": [TOKEN],
    "entities": [TOKEN],
    "metadata": {TOKEN: [{"deep": TOKEN}]},
    "source": f"mcp/{TOKEN}",
    "project": f"/home/{TOKEN}",
    "session": TOKEN,
    "agent": TOKEN,
    "speaker": TOKEN,
    "context": SAYS,
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def service(home: Path) -> Iterator[Caller]:
    clock = FixedClock()
    store = SqliteStore(home / "cofio.db", clock)
    with Keeper(store, HashEmbedder(), clock, notes=NotesOptions(home / "notes")) as keeper:
        keeper.add("We deploy on Fridays.")
        with serving(keeper, clock, home=home, api_key="owner") as url:
            yield Caller(url, {"X-API-Key": "owner"})


def files_with_token(home: Path) -> list[str]:
    return [path.name for path in home.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]


ROW = {"pattern": f"volume doubles when {TOKEN} is used", "source": f"{TOKEN}", "why": SAYS}


def send(service: Caller, method: str, path: str, body: dict[str, Any]) -> Response:
    return service.patch(path, body) if method == "PATCH" else service.post(path, body)


WAYS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "add": ("POST", "/memory/add", {"text": SAYS, **LABELS, "why": SAYS}),
    "add-batch": ("POST", "/memory/add-batch", {"memories": [{"text": SAYS, **LABELS}]}),
    "supersede": ("POST", "/memory/supersede", {"old_id": 1, "new_text": SAYS, **LABELS}),
    "edit": ("PATCH", "/memory/1", {"text": SAYS, **LABELS}),
    "bulk edit": ("POST", "/memories/bulk", {"ids": [1], "action": "edit", "changes": {"source": SAYS}}),
    "bulk tag": ("POST", "/memories/bulk", {"ids": [1], "action": "tag", "tags": [SAYS]}),
    "note": ("POST", "/notes/flush", {"summary": SAYS, "tags": [TOKEN]}),
    "knowledge": ("POST", "/knowledge/patterns", ROW),
    "feedback": ("POST", "/knowledge/feedback", {"anomaly": SAYS, "verdict": "note", "note": SAYS}),
}


@pytest.mark.parametrize("way", WAYS)
def test_secret_is_stored_nowhere_and_reported(service: Caller, home: Path, way: str) -> None:
    method, path, body = WAYS[way]
    reply = send(service, method, path, body)
    assert reply.status in (200, 201), reply.json
    assert b"github-token" in reply.body
    assert '"redacted":["github-token"]' in reply.body.decode().replace(" ", "")
    assert files_with_token(home) == []


@pytest.mark.parametrize("way", ["/capture", "/observe"])
def test_secret_in_the_labels_of_a_capture_is_stored_nowhere(service: Caller, home: Path, way: str) -> None:
    labels = {name: LABELS[name] for name in ("source", "project", "session", "agent")}
    said = {"messages": SAYS, "turn": TOKEN, "client": TOKEN} if way == "/capture" else {}
    observed = {"validated_intent": SAYS, "response": SAYS} if way == "/observe" else {}
    reply = service.post(way, {**labels, **said, **observed, "wait": True})
    assert reply.status == 200, reply.json
    assert files_with_token(home) == []


def test_nothing_is_reported_without_a_secret(service: Caller) -> None:
    assert "redacted" not in service.post("/memory/add", {"text": "Ann reviews."}).json


def test_owner_may_keep_a_secret_and_agents_may_not(tmp_path: Path) -> None:
    clock = FixedClock()
    store = SqliteStore(tmp_path / "cofio.db", clock)
    with Keeper(store, HashEmbedder(), clock) as keeper, serving(keeper, clock, api_key="owner") as url:
        _, secret = keeper.create_key(Grant(name="crane", agent="crane"))
        owner, agent = Caller(url, {"X-API-Key": "owner"}), Caller(url, {"X-API-Key": secret})
        body = {"text": SAYS, "keep_secret": True}
        assert agent.post("/memory/add", body).status == 403
        kept = owner.post("/memory/add", body).json
        assert kept["memory"]["text"] == SAYS
        # It stays editable: other fields, and the same text again, change nothing of it.
        edited = owner.patch(f"/memory/{kept['id']}", {"text": SAYS, "tags": ["crane"]}).json
        assert (edited["memory"]["text"], edited["memory"]["tags"]) == (SAYS, ["crane"])
        assert owner.patch(f"/memory/{kept['id']}", {"text": f"{SAYS}!"}).json["memory"]["text"] == (
            SAYS.replace(TOKEN, MARK) + "!"
        )
