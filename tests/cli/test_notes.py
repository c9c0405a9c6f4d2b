"""Notes commands, and a service that watches a folder."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.cli.markdown_notes import _EVERY
from cofio.client import Client
from cofio.server import service_key
from cofio.server.background.notes_watcher import EVERY
from cofio.settings import Settings
from tests.cli.conftest import InProcessCli, Shell, hashing_keeper, running_service

DEPLOY = "---\ntags: [infra]\n---\n# Releases\n\nWe deploy with Fly.io on Fridays.\n"
TABS = "# Style\n\nAda prefers tabs over spaces.\n"
TIMEOUT_S = 120.0  # a service on a loaded machine loads a model first


def wait_until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
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
def any_cli(request: pytest.FixtureRequest, cofio: InProcessCli) -> Iterator[InProcessCli]:
    """Yield a CLI that works on the store, and one that uses a service."""
    if request.param == "store":
        yield cofio
        return
    settings = Settings.load({"home": cofio.home, "port": 0}, {})
    with hashing_keeper(settings) as keeper, running_service(keeper, settings) as url:
        # This service holds no lock, so the command line does not send it the key of the home by itself.
        service = {"COFIO_URL": url, "COFIO_API_KEY": service_key.read(cofio.home)}

        class ServiceCli(InProcessCli):
            def __call__(self, *arguments: str, **options: Any) -> Any:
                return super().__call__(*arguments, **{**options, "env": {**service, **(options.get("env") or {})}})

        yield ServiceCli(cofio.home)


def memory_texts(cofio: InProcessCli) -> list[str]:
    return [memory["text"] for memory in cofio.json("list")["memories"]]


# ── flush ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_flush_writes_a_note_and_a_memory(any_cli: InProcessCli) -> None:
    [name] = any_cli.lines("notes", "flush", "AAPL volume spiked.", "--tag", "AAPL", "--tag", "volume")
    file = any_cli.home / "notes" / name
    assert "AAPL volume spiked." in file.read_text()
    [memory] = any_cli.json("list", "--tag", "AAPL")["memories"]
    assert (memory["source"], memory["tags"]) == (f"file:{name}", ["AAPL", "volume"])


def test_flush_reads_the_complete_stdin(any_cli: InProcessCli) -> None:
    output = any_cli.json(
        "notes", "flush", "-", "--kind", "decision", input_text="We chose Drizzle.\n\nMigrations are SQL.\n"
    )
    assert output["action"] == "add"
    assert output["memory"]["kind"] == "decision"
    assert "Migrations are SQL." in output["memory"]["text"]
    piped = any_cli.json("notes", "flush", input_text="Ada likes tea.")
    assert "Ada likes tea." in piped["memory"]["text"]
    assert {path.name for path in (any_cli.home / "notes").glob("*.md")} == {output["file"], piped["file"]}


def test_flush_is_undone(any_cli: InProcessCli) -> None:
    output = any_cli.json("notes", "flush", "We chose Drizzle.")
    any_cli.lines("undo", str(output["changeset"]), "--yes")
    assert memory_texts(any_cli) == []


@pytest.mark.parametrize("content", ["", "  \n", b"\xff\xfe"])
def test_empty_or_invalid_summary_is_rejected(cofio: InProcessCli, content: str | bytes) -> None:
    result = cofio("notes", "flush", "-", input_text=content)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error:")
    assert not list(cofio.home.rglob("*.md"))


# ── index ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_folder_is_indexed_reindexed_and_undone(any_cli: InProcessCli, vault: Path) -> None:
    output = any_cli.json("notes", "index", str(vault))
    assert (output["files"], output["read"], output["folder"]) == (2, 2, str(vault))
    assert any("Fly.io" in text for text in memory_texts(any_cli))
    [memory] = any_cli.json("list", "--tag", "infra")["memories"]
    assert "Fly.io" in memory["text"]
    (vault / "style.md").unlink()
    repeated = any_cli("notes", "index", str(vault))
    assert (repeated.exit_code, repeated.stdout) == (0, "")
    assert "1 file, 0 new or changed, 1 deleted: 1 archived; `cofio undo" in repeated.stderr
    assert not any("tabs" in text for text in memory_texts(any_cli))
    changeset = repeated.stderr.partition("`cofio undo ")[2].partition("`")[0]
    any_cli.lines("undo", changeset, "--yes")
    assert any("tabs" in text for text in memory_texts(any_cli))
    (vault / "style.md").write_text(TABS)
    assert "no memory changes" in any_cli("notes", "index", str(vault)).stderr


def test_dry_run_changes_nothing(any_cli: InProcessCli, vault: Path) -> None:
    any_cli.json("add", "Ada likes tea")
    output = any_cli.json("notes", "index", str(vault), "--dry-run")
    assert (output["dry_run"], output["read"], output["changeset"]) == (True, 2, None)
    assert output["added"] >= 2
    assert memory_texts(any_cli) == ["Ada likes tea"]


def test_relative_path_is_relative_to_the_caller(
    any_cli: InProcessCli, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(vault.parent)
    assert any_cli.json("notes", "index", "vault")["folder"] == str(vault)
    monkeypatch.setenv("HOME", str(vault.parent))
    assert any_cli.json("notes", "index", "~/vault")["folder"] == str(vault)
    monkeypatch.chdir(vault)
    assert any_cli.json("notes", "index", ".", "--dry-run")["read"] == 0


def test_label_is_part_of_the_source(any_cli: InProcessCli, vault: Path) -> None:
    any_cli.json("notes", "index", str(vault), "--label", "handbook")
    sources = {memory["source"] for memory in any_cli.json("list")["memories"]}
    assert len(sources) == 2
    assert all("handbook" in source for source in sources)


@pytest.mark.parametrize("command", ["index", "watch"])
def test_missing_folder_reports_error(cofio: InProcessCli, vault: Path, command: str) -> None:
    for name in ("none", "deploy.md"):
        result = cofio("notes", command, str(vault / name))
        assert result.exit_code == 1, result.output
        assert str(vault / name) in result.stderr
    assert cofio.json("list")["total"] == 0


def test_unreadable_file_is_reported_and_others_are_indexed(any_cli: InProcessCli, vault: Path) -> None:
    (vault / "broken.md").write_bytes(b"# Broken\n\n\xff\xfe\x00\n")
    result = any_cli("notes", "index", str(vault))
    assert result.exit_code == 0
    assert "Skipped: broken.md: " in result.stderr
    assert any("Fly.io" in text for text in memory_texts(any_cli))


# ── status and export ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_status_lists_folders(any_cli: InProcessCli, vault: Path) -> None:
    nothing = any_cli("notes", "status")
    any_cli.json("notes", "index", str(vault))
    rows = [line.split("\t") for line in any_cli.lines("notes", "status")]
    assert [str(vault), "2"] in [row[:2] for row in rows]
    vault.rename(vault.with_name("away"))
    [row] = [row for row in (line.split("\t") for line in any_cli.lines("notes", "status")) if row[0] == str(vault)]
    assert row[3] == "missing"
    assert nothing.exit_code == 0
    [told] = [folder for folder in any_cli.json("notes", "status")["folders"] if folder["folder"] == str(vault)]
    assert (told["files"], told["there"], told["followed"]) == (2, False, False)


def test_export_and_index_round_trip(any_cli: InProcessCli, tmp_path: Path) -> None:
    any_cli.json("add", "We deploy with Fly.io", "--kind", "policy", "--tag", "infra")
    any_cli.json("add", "Ada prefers tabs", "--kind", "preference")
    out = tmp_path / "new" / "vault"
    out.parent.mkdir()
    out.mkdir()
    output = any_cli.json("notes", "export", str(out), "--kind", "policy")
    assert (output["notes"], output["written"]) == (1, 1)
    [note] = out.rglob("*.md")
    note.write_text(note.read_text().replace("Fly.io", "Render"))
    read = any_cli.json("notes", "index", str(out))
    assert (read["added"], read["updated"], read["archived"]) == (0, 1, 0)
    assert sorted(memory_texts(any_cli)) == ["Ada prefers tabs", "We deploy with Render"]
    assert any_cli.json("notes", "export", str(out), "--kind", "policy")["written"] == 0


def test_export_creates_the_folder(cofio: InProcessCli, tmp_path: Path) -> None:
    cofio.json("add", "We deploy with Fly.io")
    out = tmp_path / "new" / "vault"
    result = cofio("notes", "export", str(out))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "has 1 note: 1 written now" in result.stderr
    assert out.stat().st_mode & 0o077 == 0  # file names are derived from the texts
    file = tmp_path / "file"
    file.write_text("x")
    assert "is not a folder" in cofio("notes", "export", str(file)).stderr
    assert file.read_text() == "x"


# ── watch ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_watch_follows_a_folder_until_stopped(shell: Shell, vault: Path) -> None:
    watching = shell.start("notes", "watch", str(vault), "--every", "0.1", "--json")
    assert watching.stdout is not None
    try:
        first = json.loads(watching.stdout.readline())
        assert (first["files"], first["read"]) == (2, 2)
        (vault / "style.md").write_text(TABS.replace("Ada", "Bob"))
        second = json.loads(watching.stdout.readline())
        assert (second["read"], second["updated"] + second["added"]) == (1, 1)
        watching.send_signal(signal.SIGINT)
        out, told = watching.communicate(timeout=TIMEOUT_S)
    finally:
        watching.kill()
        watching.wait()
    assert (watching.returncode, out) == (0, "")
    assert "Following" in told
    assert "Stopped. The memories are kept" in told
    assert any("Bob" in memory["text"] for memory in shell.json("list")["memories"])


def test_watch_with_remote_service_is_rejected(cofio: InProcessCli, vault: Path) -> None:
    result = cofio("notes", "watch", str(vault), env={"COFIO_URL": "http://memory.example"})
    assert result.exit_code == 1
    assert "COFIO_NOTES_FOLDERS" in result.stderr


def test_default_interval_in_help_equals_the_setting() -> None:
    assert Settings().notes_poll_seconds == _EVERY == EVERY


# ── service with watched folders ──────────────────────────────────────────────────────────────────────────────────────


def test_service_indexes_changes_in_a_watched_folder(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "followed"
    shell.env |= {"COFIO_NOTES_FOLDERS": str(folder), "COFIO_NOTES_POLL_SECONDS": "0.2"}
    url = shell.json("up")["url"]  # before the folder exists
    folder.mkdir()
    with Client(url, service_key.read(shell.home)) as client:

        def found(words: str) -> bool:
            return any(words in hit.memory.text for hit in client.search("where do we deploy?"))

        file = folder / "deploy.md"
        file.write_text(DEPLOY)
        wait_until(lambda: found("Fly.io"))
        file.write_text(DEPLOY.replace("Fly.io", "Render"))
        wait_until(lambda: found("Render"))
        assert not found("Fly.io")
        [told] = [item for item in client.notes.folders() if item.folder == str(folder)]
        assert (told.followed, told.there, told.files) == (True, True, 1)
        file.unlink()
        wait_until(lambda: not found("Render"))
        assert client.list(include_archived=True).total >= 1
    assert shell.json("down")["stopped"] is True
    assert (shell.home / "service.log").read_text().count("until it is available again") == 1
