"""The export, import, backup, restore and copy commands."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
from pathlib import Path

import pytest

from cofio.cli.transfer import FORMATS
from cofio.settings import Settings
from cofio.transfer.importers import READERS
from tests.cli.conftest import InProcessCli, Shell, hashing_keeper

FACTS = ("We deploy with Fly.io", "Ada likes tea", "The port is 8080 – «тест» 🌊")


@pytest.fixture
def cofio(tmp_path: Path) -> InProcessCli:
    created = InProcessCli(tmp_path / "home")
    created.lines("add", *FACTS)
    return created


@pytest.fixture
def other(tmp_path: Path) -> InProcessCli:
    return InProcessCli(tmp_path / "other")


def memory_texts(cofio: InProcessCli) -> set[str]:
    return {memory["text"] for memory in cofio.json("list")["memories"]}


def test_export_file_is_private_and_replaced_only_with_force(cofio: InProcessCli, tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    output = cofio.json("export", str(file))
    assert (output["path"], output["memories"], output["bytes"]) == (str(file), 3, file.stat().st_size)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    content = file.read_bytes()
    refused = cofio("export", str(file))
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert cofio("export", str(file), "--force").exit_code == 0
    assert cofio("export").stdout_bytes == content == file.read_bytes()
    assert cofio("export", str(tmp_path)).exit_code == 1
    assert cofio("export", str(tmp_path / "no" / "folder.jsonl")).exit_code == 1
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["memories.jsonl"]


def test_export_is_imported_and_undone(cofio: InProcessCli, other: InProcessCli, tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    cofio.lines("export", str(file), "--vectors")
    other.lines("add", "its own")
    output = other("import", str(file), "--dry-run")
    assert "3 memories would be imported." in output.stderr
    assert memory_texts(other) == {"its own"}
    result = other.json("import", str(file))
    assert (result["added"], result["known"], result["changesets"]) == (3, 0, 1)
    assert memory_texts(other) == {"its own", *FACTS}
    assert "0 memories imported, 3 known already." in other("import", str(file)).stderr
    assert "Ada likes tea" in other.lines("search", "tea", "-k", "1")[0]
    assert other("undo", str(result["first"]), "--yes").exit_code == 0
    assert memory_texts(other) == {"its own"}
    assert "3 memories imported; `cofio undo" in other("import", str(file)).stderr


def test_import_without_embedding_has_a_hint(cofio: InProcessCli, other: InProcessCli, tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    cofio.lines("export", str(file))
    assert "cofio reembed --missing" in other("import", str(file), "--no-embed").stderr
    assert other.json("stats")["vectors"] == 0
    assert other.json("reembed", "--missing")["embedded"] == 3


def test_jsonl_facts_are_imported_with_redacted_secrets(cofio: InProcessCli, tmp_path: Path) -> None:
    file = tmp_path / "facts.jsonl"
    lines = [{"text": "we ship on mondays"}, {"text": "the token is ghp_" + "a1B2" * 9}, {"text": ""}]
    file.write_text("\n".join(json.dumps(line) for line in lines))
    stopped = cofio("import", str(file), "--project", "acme", "--source", "notes")
    assert stopped.exit_code == 1
    assert "Line 3: The field text is missing." in stopped.stderr
    assert "cofio undo" in stopped.stderr
    result = cofio("import", str(file), "--project", "acme", "--skip-bad")
    assert "Skipped: Line 3" in result.stderr
    assert "0 memories imported, 2 known already." in result.stderr
    output = cofio.json("list", "--project", "acme")["memories"]
    assert {item["source"] for item in output} == {"notes"}
    assert not any("ghp_" in memory["text"] for memory in output)


def test_unknown_field_is_named(cofio: InProcessCli, tmp_path: Path) -> None:
    file = tmp_path / "facts.jsonl"
    file.write_text('{"text": "we ship on mondays", "tag": "shipping"}\n')
    assert "Line 1: A fact has no field tag" in cofio("import", str(file)).stderr


def test_cofio_export_rejects_project_option(cofio: InProcessCli, other: InProcessCli, tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    cofio.lines("export", str(file))
    assert "Omit: project" in other("import", str(file), "--project", "acme").stderr


def test_import_detects_the_format(cofio: InProcessCli, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "deploy.md").write_text("# Deploying\n\n- We never deploy on a Friday\n")
    before = memory_texts(cofio)
    output = cofio.json("import", str(folder))
    assert output["added"] >= 1
    assert cofio.json("import", str(folder))["added"] == 0
    cofio("undo", str(output["first"]), "--yes")
    assert memory_texts(cofio) == before
    assert cofio("import", str(folder), "--format", "nonsense").exit_code == 2
    assert cofio("import", str(folder), "--format", "cofio").exit_code == 1
    assert cofio("import", str(tmp_path / "nowhere")).exit_code == 1


def test_backup_is_created_listed_and_restored(cofio: InProcessCli) -> None:
    (path,) = cofio.lines("backup")
    assert Path(path).parent == cofio.home / "backups"
    assert cofio.json("backup", "--list")["backups"][0]["path"] == path
    cofio.lines("add", "learned after the backup")
    request = cofio("restore", "latest", input_text="n\n")
    assert "Nothing was changed." in request.stderr
    assert "learned after the backup" in memory_texts(cofio)
    output = cofio.json("restore", "latest", "--yes")
    assert (output["from"], output["memories"]) == (path, 3)
    assert memory_texts(cofio) == set(FACTS)
    stored = Path(output["kept"])
    assert "The previous store is in" in cofio("restore", stored.name, "--yes").stderr
    assert memory_texts(cofio) == {*FACTS, "learned after the backup"}


def test_backup_to_a_folder_removes_old_backups(cofio: InProcessCli, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    old = folder / "cofio-20200101T000000Z.db"
    old.write_text("x")
    output = cofio.json("backup", "--to", str(folder), "--keep-days", "30")
    assert output["removed"] == [str(old)]
    assert [path.name for path in folder.iterdir()] == [Path(output["path"]).name]
    assert cofio.lines("backup", "--list", "--to", str(folder))[0].endswith(output["path"])
    assert "no backups yet" in cofio("backup", "--list").stderr
    assert cofio("backup", "--keep-days", "0").exit_code == 2
    assert cofio.json("restore", str(folder), "--yes")["from"] == output["path"]


def test_invalid_backup_is_rejected_before_confirmation(cofio: InProcessCli, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger.db"
    with sqlite3.connect(stranger) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    for wrong in (
        "latest",
        "nowhere.db",
        "../../etc/passwd",
        "/etc/passwd",
        str(stranger),
        str(cofio.home / "cofio.db"),
    ):
        refused = cofio("restore", wrong)
        assert refused.exit_code == 1, wrong
        assert "[y/N]" not in refused.stderr
    assert cofio("restore", "latest", "1").exit_code == 2
    assert memory_texts(cofio) == set(FACTS)


def test_restore_with_ids_reactivates_memories(cofio: InProcessCli) -> None:
    cofio("forget", "1")
    assert cofio.json("restore", "1")["results"][0]["action"] == "restore"


def test_transfer_commands_reject_a_service_url(cofio: InProcessCli, tmp_path: Path) -> None:
    for words in (("export",), ("import", str(tmp_path)), ("backup",), ("restore", "latest")):
        (tmp_path / "note.md").write_text("- a note")
        refused = cofio(*words, "--url", "http://127.0.0.1:1")
        assert refused.exit_code == 1, words
        assert "works on the store itself" in refused.stderr


def test_missing_store_is_not_created_by_export(cofio: InProcessCli, tmp_path: Path) -> None:
    missing = tmp_path / "typo.db"
    for words in (("export",), ("backup",)):
        assert cofio(*words, "--store", str(missing)).exit_code == 1
    assert not missing.exists()


@pytest.mark.timeout(120)
def test_served_store_is_backed_up_and_exported_but_not_restored(shell: Shell, tmp_path: Path) -> None:
    assert shell("up").returncode == 0
    assert shell("add", "we ship on mondays").returncode == 0
    output = shell.json("backup")
    file = tmp_path / "facts.jsonl"
    file.write_text('{"text": "imported while it is served"}\n')
    assert shell.json("import", str(file))["added"] == 1
    assert "imported while it is served" in shell("search", "imported while served", "-k", "1").stdout
    assert len(shell("export").stdout.splitlines()) == 3
    refused = shell("restore", output["path"], "--yes")
    assert refused.returncode == 1
    assert "cofio down" in refused.stderr
    assert shell("down").returncode == 0
    assert shell.json("restore", "latest", "--yes")["memories"] == 1


def test_help_names_all_import_formats() -> None:
    assert set(FORMATS) == {"auto", "cofio", *READERS}


def test_special_files_are_rejected(cofio: InProcessCli, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "not a regular file or a folder" in cofio("import", str(pipe)).stderr
    assert "not a regular file" in cofio("export", str(pipe), "--force").stderr
    assert pipe.is_fifo()
    target, link = tmp_path / "target.jsonl", tmp_path / "link.jsonl"
    target.touch()
    link.symlink_to(target)
    assert cofio("export", str(link), "--force").exit_code == 0
    assert link.is_symlink()
    assert target.stat().st_size > 0


def test_each_store_has_its_own_backups(cofio: InProcessCli, tmp_path: Path) -> None:
    cofio.lines("add", "in the store of the home")
    other = str(tmp_path / "other.db")
    cofio.lines("--store", other, "add", "in another store")
    (path,) = cofio.lines("--store", other, "backup")
    assert Path(path).parent == tmp_path / "other.db.backups"
    assert "no backup" in cofio("restore", "latest", "--yes").stderr


def test_import_series_is_undone_and_redone(cofio: InProcessCli, tmp_path: Path) -> None:
    lines = tmp_path / "facts.jsonl"
    lines.write_text("".join(json.dumps({"text": f"fact number {n}"}) + "\n" for n in range(1_100)))
    first = cofio.json("import", str(lines))["first"]
    request = cofio("undo", str(first), input_text="n\n")
    assert "a series of 3 changesets" in request.stderr
    everything = cofio.json("stats")["memories"]
    cofio("edit", "600", "--pin")
    blocked = cofio("undo", str(first), "--yes")
    assert "1 of the 3 changesets are undone" in blocked.stderr
    cofio("undo", "--yes")  # the pin
    undo = cofio("undo", str(first), "--yes").stderr
    assert cofio.json("stats")["memories"] == everything - 1_100
    back = re.search(r"`cofio undo ([0-9]+)` redoes it", undo)
    assert back is not None
    cofio("undo", back[1], "--yes")
    assert cofio.json("stats")["memories"] == everything
    repeated = cofio("undo", str(first), "--yes").stderr
    assert "was undone before, and then applied again" in repeated
    away = re.search(r"undo changeset ([0-9]+)", repeated)
    assert away is not None
    cofio("undo", away[1], "--yes")
    assert cofio.json("stats")["memories"] == everything - 1_100


# ── copy ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_copy_prints_the_digest(cofio: InProcessCli, tmp_path: Path) -> None:
    here, there = cofio.home / "cofio.db", tmp_path / "copy.db"
    result = cofio("copy", f"sqlite://{here}", str(there))
    assert result.exit_code == 0, result.output
    assert "3 memories (3 new)." in result.stderr
    assert re.search(r"the digest [0-9a-f]{64}\.", result.stderr)
    assert "Not copied: the history" in result.stderr
    repeated = cofio.json("copy", str(here), str(there))
    assert (repeated["memories"], repeated["added"], repeated["known"], repeated["keys"]) == (3, 0, 3, 0)
    assert repeated["digest"] in result.stderr
    assert memory_texts(cofio) == {memory["text"] for memory in cofio.json("list", "--store", str(there))["memories"]}
    assert cofio.lines("search", "tea", "--store", str(there))  # including the vectors


def test_invalid_copy_is_rejected_and_creates_nothing(cofio: InProcessCli, other: InProcessCli, tmp_path: Path) -> None:
    other.lines("add", "its own")
    here, taken = str(cofio.home / "cofio.db"), str(other.home / "cofio.db")
    refused = {
        "are the same store": (here, f"sqlite://{here}"),
        "There is no store at": (str(tmp_path / "none.db"), str(tmp_path / "new.db")),
        "memories of its own": (here, taken),
        "not a store URL that cofio supports": (here, "mysql://localhost/x"),
    }
    for says, (source, target) in refused.items():
        result = cofio("copy", source, target)
        assert result.exit_code == 1
        assert says in result.stderr
    assert memory_texts(other) == {"its own"}
    assert not (tmp_path / "none.db").exists()
    assert not (tmp_path / "new.db").exists()
    assert cofio("copy", here, taken, "--url", "http://localhost:1").exit_code == 1
    assert cofio("copy", here).exit_code == 2


def test_copy_reports_pending_captures(cofio: InProcessCli, tmp_path: Path) -> None:
    with hashing_keeper(Settings(home=cofio.home, store=str(cofio.home / "cofio.db"))) as keeper:
        keeper.capture("I prefer tabs over spaces", client="test", session="s", turn="1")
    result = cofio("copy", str(cofio.home / "cofio.db"), str(tmp_path / "copy.db"))
    assert "has 1 capture: let the service process" in result.stderr
