"""Notes over HTTP: a summary into a file, folders of the service's machine in and out."""

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
from tests.http_api.caller import Answer, Caller
from tests.http_api.conftest import serving

DEPLOY = "# Releases\n\nWe deploy with Fly.io on Fridays.\n"
TABS = "# Style\n\nAda prefers tabs over spaces.\n"


@dataclass
class House:
    """A service, its keeper, its notes folder, and another folder of its machine."""

    keeper: Keeper
    caller: Caller
    notes: Path
    vault: Path

    def key(self, **about: Any) -> Caller:
        _, secret = self.keeper.create_key(Grant(**{"name": "theirs", **about}))
        return self.caller.having(secret)

    def files(self) -> list[Path]:
        return sorted(self.notes.glob("*.md"))


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    vault = tmp_path / "vault"
    vault.mkdir()
    settings = Settings.load(
        {"home": tmp_path / "home"}, {"COFIO_NOTES_FOLDERS": str(vault), "COFIO_NOTES_POLL_SECONDS": "0"}
    )
    with bootstrap.keeper(settings, embedder=HashEmbedder(), clock=FixedClock()) as keeper, serving(keeper) as url:
        yield House(keeper, Caller(url), settings.notes_folder, vault)


def refused(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.error["code"]


def texts(caller: Caller) -> list[str]:
    return sorted(each["text"] for each in caller.get("/memories").json["memories"])


# ── flush ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_summary_becomes_a_file_and_a_memory(house: House) -> None:
    told = house.caller.post("/notes/flush", {"summary": "AAPL volume spiked on Monday.", "tags": ["AAPL", "volume"]})
    assert told.status == 201
    [file] = house.files()
    assert told.json["memory"]["source"] == f"file:{file.name}"
    assert told.json["memory"]["tags"] == ["AAPL", "volume"]
    assert "AAPL volume spiked on Monday." in file.read_text()
    found = house.caller.post("/search", {"query": "AAPL volume", "tags": ["AAPL"]}).json["results"]
    assert [each["id"] for each in found] == [told.json["id"]]


def test_what_can_be_said_of_a_fact_can_be_said_of_a_summary(house: House) -> None:
    about = {"project": "/srv/web", "kind": "policy", "agent": "ci", "team": "web", "visibility": "team"}
    memory = house.caller.post("/notes/flush", {"summary": "We deploy on Fridays.", **about}).json["memory"]
    assert {name: memory[name] for name in about} == about


@pytest.mark.parametrize(
    "body", [{}, {"summary": ""}, {"summary": "  \n"}, {"summary": 5}, {"summary": "x", "kind": "gossip"},
             {"summary": "x", "folder": "/tmp"}, {"summary": "a\0b"}, {"summary": "x" * 100_000}],
    ids=lambda value: repr(value)[:24],
)  # fmt: skip
def test_a_summary_that_cannot_be_taken_leaves_no_file(house: House, body: dict[str, Any]) -> None:
    assert house.caller.post("/notes/flush", body).status in (400, 413)
    assert house.files() == []
    assert texts(house.caller) == []


def test_a_summary_that_comes_with_a_key_is_its_holders(house: House) -> None:
    ada, bob = (house.key(name=name, user=name, team="web") for name in ("ada", "bob"))
    told = ada.post("/notes/flush", {"summary": "Ada looks for another job.", "tags": ["private"]})
    assert (told.status, told.json["memory"]["user"]) == (201, "ada")
    assert ada.post("/search", {"query": "another job"}).json["count"] == 1
    assert bob.post("/search", {"query": "another job"}).json["count"] == 0
    assert refused(bob.get(f"/memory/{told.json['id']}")) == (404, "not_found")
    root = house.key(name="root", role="admin")
    assert root.post("/notes/index").json["added"] == 0  # the file is known, and stays hers
    assert bob.post("/search", {"query": "another job"}).json["count"] == 0
    assert house.keeper.get(told.json["id"]).user == "ada"


def test_a_key_for_some_sources_writes_no_notes(house: House) -> None:
    ci = house.key(name="ci", agent="ci", prefixes=("ci/web",))
    assert refused(ci.post("/notes/flush", {"summary": "The build is red."})) == (403, "forbidden")
    assert house.files() == []


# ── index ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_folder_is_read_followed_and_undone(house: House) -> None:
    (house.vault / "deploy.md").write_text(DEPLOY)
    (house.vault / "style.md").write_text(TABS)
    shown = house.caller.post("/notes/index", {"folder": str(house.vault), "dry_run": True}).json
    assert (shown["dry_run"], shown["files"], shown["read"], shown["changeset"]) == (True, 2, 2, None)
    assert texts(house.caller) == []
    told = house.caller.post("/notes/index", {"folder": str(house.vault)}).json
    assert (told["added"], told["skipped"]) == (shown["added"], [])
    assert any("Fly.io" in text for text in texts(house.caller))
    (house.vault / "style.md").unlink()
    gone = house.caller.post("/notes/index", {"folder": str(house.vault)}).json
    assert (gone["read"], gone["gone"], gone["archived"]) == (0, 1, 1)
    assert not any("tabs" in text for text in texts(house.caller))
    house.caller.post(f"/changes/{gone['changeset']}/undo", {})
    assert any("tabs" in text for text in texts(house.caller))


def test_without_a_folder_it_is_the_notes_folder(house: House) -> None:
    house.caller.post("/notes/flush", {"summary": "AAPL volume spiked on Monday."})
    (house.notes / "mine.md").write_text(TABS)
    told = house.caller.post("/notes/index").json
    assert (told["folder"], told["files"], told["read"]) == (str(house.notes), 2, 1)


def test_what_happened_to_a_folder_names_its_caller(house: House) -> None:
    (house.vault / "deploy.md").write_text(DEPLOY)
    told = house.caller.post("/notes/index", {"folder": str(house.vault)}, {"X-Cofio-Client": "obsidian"}).json
    assert house.keeper.changeset(told["changeset"]).by == "obsidian"


@pytest.mark.parametrize("path", ["/notes/index", "/notes/export"])
@pytest.mark.parametrize(
    ("folder", "status"),
    [("vault", 400), ("./vault", 400), ("~/vault", 400), ("{}/none", 404), ("{}/vault/file.md", 400), ("/", 400),
     ("/../", 400), ("{}/vault\0", 400), ("{}/vault/file.md/below", 400), ("/" + "x" * 5_000, 400), ("/\ud800", 400)],
    ids=lambda value: repr(value)[:24],
)  # fmt: skip
def test_a_folder_must_be_one_of_this_machine(house: House, path: str, folder: str, status: int) -> None:
    (house.vault / "file.md").write_text(DEPLOY)
    answer = house.caller.post(path, {"folder": folder.format(house.vault.parent)})
    assert answer.status == status
    assert texts(house.caller) == []


# ── status ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_folders_are_told_with_what_was_read_of_them(house: House, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "deploy.md").write_text(DEPLOY)
    house.caller.post("/notes/index", {"folder": str(other)})
    other.rename(tmp_path / "away")
    house.caller.post("/notes/flush", {"summary": "AAPL volume spiked on Monday."})
    told = {each["folder"]: each for each in house.caller.get("/notes").json["folders"]}
    assert told.keys() == {str(house.vault), str(other), str(house.notes)}
    assert told[str(house.vault)] == {
        "folder": str(house.vault), "followed": True, "there": True, "files": 0, "read_at": None,
    }  # fmt: skip
    assert (told[str(other)]["there"], told[str(other)]["followed"], told[str(other)]["files"]) == (False, False, 1)
    assert told[str(house.notes)]["files"] == 1
    assert told[str(house.notes)]["read_at"].startswith("2026-01-01")


# ── export ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_memories_go_into_a_folder_and_edits_come_back(house: House) -> None:
    house.caller.post("/memory/add", {"text": "We deploy with Fly.io", "kind": "policy", "tags": ["infra"]})
    house.caller.post("/memory/add", {"text": "Ada prefers tabs", "kind": "preference"})
    told = house.caller.post("/notes/export", {"folder": str(house.vault), "kind": "policy"})
    assert told.json == {"folder": str(house.vault), "notes": 1, "written": 1, "removed": 0, "skipped": []}
    [note] = house.vault.rglob("*.md")
    note.write_text(note.read_text().replace("Fly.io", "Render"))
    read = house.caller.post("/notes/index", {"folder": str(house.vault)}).json
    assert (read["added"], read["updated"]) == (0, 1)
    assert house.caller.get("/memory/1").json["text"] == "We deploy with Render"


def test_only_admins_read_and_write_the_folders_of_the_machine(house: House) -> None:
    ada = house.key(name="ada", user="ada")
    for answer in (
        ada.get("/notes"),
        ada.post("/notes/index", {"folder": str(house.vault)}),
        ada.post("/notes/export", {"folder": str(house.vault)}),
    ):
        assert refused(answer) == (403, "forbidden")
    root = house.key(name="root", role="admin")
    assert root.get("/notes").status == 200
