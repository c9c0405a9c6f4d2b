"""notes as a person types them; and a service that follows a folder."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.cli.notes import _EVERY
from cofio.client import Client
from cofio.server.background.notes_watcher import EVERY
from cofio.settings import Settings
from tests.cli.conftest import Cofio, Shell, hashing_keeper, served

DEPLOY = "---\ntags: [infra]\n---\n# Releases\n\nWe deploy with Fly.io on Fridays.\n"
TABS = "# Style\n\nAda prefers tabs over spaces.\n"
PATIENCE = 120.0  # seconds; a service on a busy machine loads a model first


def until(done: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "deploy.md").write_text(DEPLOY)
    (folder / "style.md").write_text(TABS)
    return folder


@pytest.fixture(params=["store", "service"])
def anywhere(request: pytest.FixtureRequest, cofio: Cofio) -> Iterator[Cofio]:
    """Commands on the store itself, and on a service in front of it."""
    if request.param == "store":
        yield cofio
        return
    settings = Settings.load({"home": cofio.home, "port": 0}, {})
    with hashing_keeper(settings) as keeper, served(keeper, settings) as url:

        class Elsewhere(Cofio):
            def __call__(self, *arguments: str, **how: Any) -> Any:
                return super().__call__(*arguments, **{**how, "env": {"COFIO_URL": url, **(how.get("env") or {})}})

        yield Elsewhere(cofio.home)


def texts(cofio: Cofio) -> list[str]:
    return [each["text"] for each in cofio.json("list")["memories"]]


# ── flush ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_summary_is_written_and_remembered(anywhere: Cofio) -> None:
    [name] = anywhere.lines("notes", "flush", "AAPL volume spiked.", "--tag", "AAPL", "--tag", "volume")
    file = anywhere.home / "notes" / name
    assert "AAPL volume spiked." in file.read_text()
    [memory] = anywhere.json("list", "--tag", "AAPL")["memories"]
    assert (memory["source"], memory["tags"]) == (f"file:{name}", ["AAPL", "volume"])


def test_a_summary_comes_from_the_standard_input_whole(anywhere: Cofio) -> None:
    told = anywhere.json("notes", "flush", "-", "--kind", "decision", says="We chose Drizzle.\n\nMigrations are SQL.\n")
    assert told["action"] == "add"
    assert told["memory"]["kind"] == "decision"
    assert "Migrations are SQL." in told["memory"]["text"]
    piped = anywhere.json("notes", "flush", says="Ada likes tea.")
    assert "Ada likes tea." in piped["memory"]["text"]
    assert {path.name for path in (anywhere.home / "notes").glob("*.md")} == {told["file"], piped["file"]}


def test_a_flush_is_undone(anywhere: Cofio) -> None:
    told = anywhere.json("notes", "flush", "We chose Drizzle.")
    anywhere.lines("undo", str(told["changeset"]), "--yes")
    assert texts(anywhere) == []


@pytest.mark.parametrize("says", ["", "  \n", b"\xff\xfe"])
def test_a_summary_that_says_nothing_is_refused(cofio: Cofio, says: str | bytes) -> None:
    done = cofio("notes", "flush", "-", says=says)
    assert done.exit_code == 1
    assert done.stderr.startswith("Error:")
    assert not list(cofio.home.rglob("*.md"))


# ── index ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_folder_is_read_followed_and_undone(anywhere: Cofio, vault: Path) -> None:
    told = anywhere.json("notes", "index", str(vault))
    assert (told["files"], told["read"], told["folder"]) == (2, 2, str(vault))
    assert any("Fly.io" in text for text in texts(anywhere))
    [memory] = anywhere.json("list", "--tag", "infra")["memories"]
    assert "Fly.io" in memory["text"]
    (vault / "style.md").unlink()
    again = anywhere("notes", "index", str(vault))
    assert (again.exit_code, again.stdout) == (0, "")
    assert "1 file, 0 new or changed, 1 gone: 1 archived; `cofio undo" in again.stderr
    assert not any("tabs" in text for text in texts(anywhere))
    changeset = again.stderr.partition("`cofio undo ")[2].partition("`")[0]
    anywhere.lines("undo", changeset, "--yes")
    assert any("tabs" in text for text in texts(anywhere))
    (vault / "style.md").write_text(TABS)
    assert "no memory changes" in anywhere("notes", "index", str(vault)).stderr


def test_a_dry_run_changes_nothing(anywhere: Cofio, vault: Path) -> None:
    anywhere.json("add", "Ada likes tea")
    told = anywhere.json("notes", "index", str(vault), "--dry-run")
    assert (told["dry_run"], told["read"], told["changeset"]) == (True, 2, None)
    assert told["added"] >= 2
    assert texts(anywhere) == ["Ada likes tea"]


def test_a_path_is_meant_from_where_the_caller_stands(
    anywhere: Cofio, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(vault.parent)
    assert anywhere.json("notes", "index", "vault")["folder"] == str(vault)
    monkeypatch.setenv("HOME", str(vault.parent))
    assert anywhere.json("notes", "index", "~/vault")["folder"] == str(vault)
    monkeypatch.chdir(vault)
    assert anywhere.json("notes", "index", ".", "--dry-run")["read"] == 0


def test_a_label_is_in_the_sources(anywhere: Cofio, vault: Path) -> None:
    anywhere.json("notes", "index", str(vault), "--label", "handbook")
    sources = {each["source"] for each in anywhere.json("list")["memories"]}
    assert len(sources) == 2
    assert all("handbook" in source for source in sources)


@pytest.mark.parametrize("command", ["index", "watch"])
def test_a_folder_that_is_none_is_told(cofio: Cofio, vault: Path, command: str) -> None:
    for name in ("none", "deploy.md"):
        done = cofio("notes", command, str(vault / name))
        assert done.exit_code == 1, done.output
        assert str(vault / name) in done.stderr
    assert cofio.json("list")["total"] == 0


def test_what_cannot_be_read_is_told_and_the_rest_is_read(anywhere: Cofio, vault: Path) -> None:
    (vault / "broken.md").write_bytes(b"# Broken\n\n\xff\xfe\x00\n")
    done = anywhere("notes", "index", str(vault))
    assert done.exit_code == 0
    assert "Skipped: broken.md: " in done.stderr
    assert any("Fly.io" in text for text in texts(anywhere))


# ── status and export ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_folders_are_shown_with_how_they_stand(anywhere: Cofio, vault: Path) -> None:
    nothing = anywhere("notes", "status")
    anywhere.json("notes", "index", str(vault))
    rows = [line.split("\t") for line in anywhere.lines("notes", "status")]
    assert [str(vault), "2"] in [row[:2] for row in rows]
    vault.rename(vault.with_name("away"))
    [row] = [row for row in (line.split("\t") for line in anywhere.lines("notes", "status")) if row[0] == str(vault)]
    assert row[3] == "missing"
    assert nothing.exit_code == 0
    [told] = [each for each in anywhere.json("notes", "status")["folders"] if each["folder"] == str(vault)]
    assert (told["files"], told["there"], told["followed"]) == (2, False, False)


def test_a_vault_goes_there_and_back(anywhere: Cofio, tmp_path: Path) -> None:
    anywhere.json("add", "We deploy with Fly.io", "--kind", "policy", "--tag", "infra")
    anywhere.json("add", "Ada prefers tabs", "--kind", "preference")
    out = tmp_path / "new" / "vault"
    out.parent.mkdir()
    out.mkdir()
    told = anywhere.json("notes", "export", str(out), "--kind", "policy")
    assert (told["notes"], told["written"]) == (1, 1)
    [note] = out.rglob("*.md")
    note.write_text(note.read_text().replace("Fly.io", "Render"))
    read = anywhere.json("notes", "index", str(out))
    assert (read["added"], read["updated"], read["archived"]) == (0, 1, 0)
    assert sorted(texts(anywhere)) == ["Ada prefers tabs", "We deploy with Render"]
    assert anywhere.json("notes", "export", str(out), "--kind", "policy")["written"] == 0


def test_the_folder_of_an_export_is_made(cofio: Cofio, tmp_path: Path) -> None:
    cofio.json("add", "We deploy with Fly.io")
    out = tmp_path / "new" / "vault"
    done = cofio("notes", "export", str(out))
    assert (done.exit_code, done.stdout) == (0, "")
    assert "has 1 note: 1 written now" in done.stderr
    assert out.stat().st_mode & 0o077 == 0  # names say what memories say
    file = tmp_path / "file"
    file.write_text("x")
    assert "is not a folder" in cofio("notes", "export", str(file)).stderr
    assert file.read_text() == "x"


# ── watch ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_folder_is_followed_from_the_terminal_until_it_is_stopped(shell: Shell, vault: Path) -> None:
    watching = shell.start("notes", "watch", str(vault), "--every", "0.1", "--json")
    assert watching.stdout is not None
    try:
        first = json.loads(watching.stdout.readline())
        assert (first["files"], first["read"]) == (2, 2)
        (vault / "style.md").write_text(TABS.replace("Ada", "Bob"))
        second = json.loads(watching.stdout.readline())
        assert (second["read"], second["updated"] + second["added"]) == (1, 1)
        watching.send_signal(signal.SIGINT)
        out, told = watching.communicate(timeout=PATIENCE)
    finally:
        watching.kill()
        watching.wait()
    assert (watching.returncode, out) == (0, "")
    assert "Following" in told
    assert "Stopped. The memories are kept" in told
    assert any("Bob" in each["text"] for each in shell.json("list")["memories"])


def test_a_folder_here_is_not_followed_for_memories_elsewhere(cofio: Cofio, vault: Path) -> None:
    done = cofio("notes", "watch", str(vault), env={"COFIO_URL": "http://memory.example"})
    assert done.exit_code == 1
    assert "COFIO_NOTES_FOLDERS" in done.stderr


def test_the_help_tells_how_often_the_watcher_looks() -> None:
    assert Settings().notes_poll_seconds == _EVERY == EVERY


# ── a service that follows ────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_written_edited_and_deleted_in_a_followed_folder_shows_in_the_search_of_the_service(
    shell: Shell, tmp_path: Path
) -> None:
    folder = tmp_path / "followed"
    shell.env |= {"COFIO_NOTES_FOLDERS": str(folder), "COFIO_NOTES_POLL_SECONDS": "0.2"}
    url = shell.json("up")["url"]  # before there is such a folder
    folder.mkdir()
    with Client(url) as client:

        def found(words: str) -> bool:
            return any(words in hit.memory.text for hit in client.search("where do we deploy?"))

        file = folder / "deploy.md"
        file.write_text(DEPLOY)
        until(lambda: found("Fly.io"))
        file.write_text(DEPLOY.replace("Fly.io", "Render"))
        until(lambda: found("Render"))
        assert not found("Fly.io")
        [told] = [each for each in client.notes.folders() if each.folder == str(folder)]
        assert (told.followed, told.there, told.files) == (True, True, 1)
        file.unlink()
        until(lambda: not found("Render"))
        assert client.list(include_archived=True).total >= 1
    assert shell.json("down")["stopped"] is True
    assert (shell.home / "service.log").read_text().count("is not followed for now") == 1
