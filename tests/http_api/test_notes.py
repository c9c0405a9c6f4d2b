"""Notes over HTTP: writing summaries, indexing and exporting folders of the server's machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cofio import bootstrap
from cofio.core import Keeper
from cofio.models.auth import Grant
from cofio.settings import Settings
from cofio.testing import FixedClock, HashEmbedder
from tests.http_api.caller import Caller, Response
from tests.http_api.conftest import serving

DEPLOY = "# Releases\n\nWe deploy with Fly.io on Fridays.\n"
TABS = "# Style\n\nAda prefers tabs over spaces.\n"


@dataclass
class Backend:
    """A service with its keeper, its notes folder and another folder of its machine."""

    keeper: Keeper
    caller: Caller
    notes: Path
    vault: Path

    def key(self, **about: Any) -> Caller:
        _, secret = self.keeper.create_key(Grant(**{"name": "theirs", **about}))
        return self.caller.with_key(secret)

    def files(self) -> list[Path]:
        return sorted(self.notes.glob("*.md"))


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    vault = tmp_path / "vault"
    vault.mkdir()
    settings = Settings.load(
        {"home": tmp_path / "home"}, {"COFIO_NOTES_FOLDERS": str(vault), "COFIO_NOTES_POLL_SECONDS": "0"}
    )
    with (
        bootstrap.keeper(settings, embedder=HashEmbedder(), clock=FixedClock()) as keeper,
        serving(keeper, home=settings.home) as url,
    ):
        yield Backend(keeper, Caller(url, home=settings.home).owner, settings.notes_folder, vault)


def error_of(answer: Response) -> tuple[int, str]:
    return answer.status, answer.error["code"]


def memory_texts(caller: Caller) -> list[str]:
    return sorted(memory["text"] for memory in caller.get("/memories").json["memories"])


# ── flush ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_flush_creates_a_note_and_a_memory(backend: Backend) -> None:
    result = backend.caller.post(
        "/notes/flush", {"summary": "AAPL volume spiked on Monday.", "tags": ["AAPL", "volume"]}
    )
    assert result.status == 201
    [file] = backend.files()
    assert result.json["memory"]["source"] == f"file:{file.name}"
    assert result.json["memory"]["tags"] == ["AAPL", "volume"]
    assert "AAPL volume spiked on Monday." in file.read_text()
    body = backend.caller.post("/search", {"query": "AAPL volume", "tags": ["AAPL"]}).json["results"]
    assert [item["id"] for item in body] == [result.json["id"]]


def test_flush_accepts_all_fact_fields(backend: Backend) -> None:
    about = {"project": "/srv/web", "kind": "policy", "agent": "ci", "team": "web", "visibility": "team"}
    memory = backend.caller.post("/notes/flush", {"summary": "We deploy on Fridays.", **about}).json["memory"]
    assert {name: memory[name] for name in about} == about


@pytest.mark.parametrize(
    "body", [{}, {"summary": ""}, {"summary": "  \n"}, {"summary": 5}, {"summary": "x", "kind": "gossip"},
             {"summary": "x", "folder": "/tmp"}, {"summary": "a\0b"}, {"summary": "x" * 100_000}],
    ids=lambda value: repr(value)[:24],
)  # fmt: skip
def test_invalid_summary_creates_no_file(backend: Backend, body: dict[str, Any]) -> None:
    assert backend.caller.post("/notes/flush", body).status in (400, 413)
    assert backend.files() == []
    assert memory_texts(backend.caller) == []


def test_flushed_summary_belongs_to_the_keys_user(backend: Backend) -> None:
    ada, bob = (backend.key(name=name, user=name, team="web") for name in ("ada", "bob"))
    response = ada.post("/notes/flush", {"summary": "Ada looks for another job.", "tags": ["private"]})
    assert (response.status, response.json["memory"]["user"]) == (201, "ada")
    assert ada.post("/search", {"query": "another job"}).json["count"] == 1
    assert bob.post("/search", {"query": "another job"}).json["count"] == 0
    assert error_of(bob.get(f"/memory/{response.json['id']}")) == (404, "not_found")
    root = backend.key(name="root", role="admin")
    assert root.post("/notes/index").json["added"] == 0  # indexing the file keeps its owner
    assert bob.post("/search", {"query": "another job"}).json["count"] == 0
    assert backend.keeper.get(response.json["id"]).user == "ada"


def test_key_with_source_prefixes_cannot_flush_notes(backend: Backend) -> None:
    ci = backend.key(name="ci", agent="ci", prefixes=("ci/web",))
    assert error_of(ci.post("/notes/flush", {"summary": "The build is red."})) == (403, "forbidden")
    assert backend.files() == []


# ── index ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_folder_is_indexed_reindexed_and_undone(backend: Backend) -> None:
    (backend.vault / "deploy.md").write_text(DEPLOY)
    (backend.vault / "style.md").write_text(TABS)
    body = backend.caller.post("/notes/index", {"folder": str(backend.vault), "dry_run": True}).json
    assert (body["dry_run"], body["files"], body["read"], body["changeset"]) == (True, 2, 2, None)
    assert memory_texts(backend.caller) == []
    payload = backend.caller.post("/notes/index", {"folder": str(backend.vault)}).json
    assert (payload["added"], payload["skipped"]) == (body["added"], [])
    assert any("Fly.io" in text for text in memory_texts(backend.caller))
    (backend.vault / "style.md").unlink()
    gone = backend.caller.post("/notes/index", {"folder": str(backend.vault)}).json
    assert (gone["read"], gone["gone"], gone["archived"]) == (0, 1, 1)
    assert not any("tabs" in text for text in memory_texts(backend.caller))
    backend.caller.post(f"/changes/{gone['changeset']}/undo", {})
    assert any("tabs" in text for text in memory_texts(backend.caller))


def test_index_uses_notes_folder_by_default(backend: Backend) -> None:
    backend.caller.post("/notes/flush", {"summary": "AAPL volume spiked on Monday."})
    (backend.notes / "mine.md").write_text(TABS)
    body = backend.caller.post("/notes/index").json
    assert (body["folder"], body["files"], body["read"]) == (str(backend.notes), 2, 1)


def test_index_changeset_names_its_client(backend: Backend) -> None:
    (backend.vault / "deploy.md").write_text(DEPLOY)
    body = backend.caller.post("/notes/index", {"folder": str(backend.vault)}, {"X-Cofio-Client": "obsidian"}).json
    assert backend.keeper.changeset(body["changeset"]).by == "obsidian"


@pytest.mark.parametrize("path", ["/notes/index", "/notes/export"])
@pytest.mark.parametrize(
    ("folder", "status"),
    [("vault", 400), ("./vault", 400), ("~/vault", 400), ("{}/none", 404), ("{}/vault/file.md", 400), ("/", 400),
     ("/../", 400), ("{}/vault\0", 400), ("{}/vault/file.md/below", 400), ("/" + "x" * 5_000, 400), ("/\ud800", 400)],
    ids=lambda value: repr(value)[:24],
)  # fmt: skip
def test_invalid_folder_is_rejected(backend: Backend, path: str, folder: str, status: int) -> None:
    (backend.vault / "file.md").write_text(DEPLOY)
    answer = backend.caller.post(path, {"folder": folder.format(backend.vault.parent)})
    assert answer.status == status
    assert memory_texts(backend.caller) == []


# ── status ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_status_lists_folders_with_counts(backend: Backend, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "deploy.md").write_text(DEPLOY)
    backend.caller.post("/notes/index", {"folder": str(other)})
    other.rename(tmp_path / "away")
    backend.caller.post("/notes/flush", {"summary": "AAPL volume spiked on Monday."})
    result = {folder["folder"]: folder for folder in backend.caller.get("/notes").json["folders"]}
    assert result.keys() == {str(backend.vault), str(other), str(backend.notes)}
    assert result[str(backend.vault)] == {
        "folder": str(backend.vault), "followed": True, "there": True, "files": 0, "read_at": None,
    }  # fmt: skip
    assert (result[str(other)]["there"], result[str(other)]["followed"], result[str(other)]["files"]) == (
        False,
        False,
        1,
    )
    assert result[str(backend.notes)]["files"] == 1
    assert result[str(backend.notes)]["read_at"].startswith("2026-01-01")


# ── export ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_export_writes_notes_and_index_reads_edits_back(backend: Backend) -> None:
    backend.caller.post("/memory/add", {"text": "We deploy with Fly.io", "kind": "policy", "tags": ["infra"]})
    backend.caller.post("/memory/add", {"text": "Ada prefers tabs", "kind": "preference"})
    result = backend.caller.post("/notes/export", {"folder": str(backend.vault), "kind": "policy"})
    assert result.json == {"folder": str(backend.vault), "notes": 1, "written": 1, "removed": 0, "skipped": []}
    [note] = backend.vault.rglob("*.md")
    note.write_text(note.read_text().replace("Fly.io", "Render"))
    read = backend.caller.post("/notes/index", {"folder": str(backend.vault)}).json
    assert (read["added"], read["updated"]) == (0, 1)
    assert backend.caller.get("/memory/1").json["text"] == "We deploy with Render"


def test_folder_endpoints_require_an_admin_key(backend: Backend) -> None:
    ada = backend.key(name="ada", user="ada")
    for answer in (
        ada.get("/notes"),
        ada.post("/notes/index", {"folder": str(backend.vault)}),
        ada.post("/notes/export", {"folder": str(backend.vault)}),
    ):
        assert error_of(answer) == (403, "forbidden")
    root = backend.key(name="root", role="admin")
    assert root.get("/notes").status == 200
