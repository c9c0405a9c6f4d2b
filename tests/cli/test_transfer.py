"""export, import, backup and restore as a person types them."""

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
from tests.cli.conftest import Cofio, Shell, hashing_keeper

FACTS = ("We deploy with Fly.io", "Ada likes tea", "The port is 8080 – «тест» 🌊")


@pytest.fixture
def cofio(tmp_path: Path) -> Cofio:
    made = Cofio(tmp_path / "home")
    made.lines("add", *FACTS)
    return made


@pytest.fixture
def other(tmp_path: Path) -> Cofio:
    return Cofio(tmp_path / "other")


def texts(cofio: Cofio) -> set[str]:
    return {each["text"] for each in cofio.json("list")["memories"]}


def test_an_export_goes_to_a_file_of_its_owner_and_replaces_none_unless_forced(cofio: Cofio, tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    told = cofio.json("export", str(file))
    assert (told["path"], told["memories"], told["bytes"]) == (str(file), 3, file.stat().st_size)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    written = file.read_bytes()
    refused = cofio("export", str(file))
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert cofio("export", str(file), "--force").exit_code == 0
    assert cofio("export").stdout_bytes == written == file.read_bytes()
    assert cofio("export", str(tmp_path)).exit_code == 1
    assert cofio("export", str(tmp_path / "no" / "folder.jsonl")).exit_code == 1
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["memories.jsonl"]


def test_what_is_exported_is_imported_elsewhere_and_taken_back(cofio: Cofio, other: Cofio, tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    cofio.lines("export", str(file), "--vectors")
    other.lines("add", "its own")
    shown = other("import", str(file), "--dry-run")
    assert "3 memories would be imported." in shown.stderr
    assert texts(other) == {"its own"}
    told = other.json("import", str(file))
    assert (told["added"], told["known"], told["changesets"]) == (3, 0, 1)
    assert texts(other) == {"its own", *FACTS}
    assert "0 memories imported, 3 known already." in other("import", str(file)).stderr
    assert "Ada likes tea" in other.lines("search", "tea", "-k", "1")[0]
    assert other("undo", str(told["first"]), "--yes").exit_code == 0
    assert texts(other) == {"its own"}
    assert "3 memories imported; `cofio undo" in other("import", str(file)).stderr


def test_an_import_without_vectors_says_how_they_are_made(cofio: Cofio, other: Cofio, tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    cofio.lines("export", str(file))
    assert "cofio reembed --missing" in other("import", str(file), "--no-embed").stderr
    assert other.json("stats")["vectors"] == 0
    assert other.json("reembed", "--missing")["embedded"] == 3


def test_lines_of_anything_become_facts_of_a_project_with_their_secrets_cut_out(cofio: Cofio, tmp_path: Path) -> None:
    file = tmp_path / "facts.jsonl"
    lines = [{"text": "we ship on mondays"}, {"text": "the token is ghp_" + "a1B2" * 9}, {"text": ""}]
    file.write_text("\n".join(json.dumps(line) for line in lines))
    stopped = cofio("import", str(file), "--project", "acme", "--source", "notes")
    assert stopped.exit_code == 1
    assert "Line 3: It has no text." in stopped.stderr
    assert "cofio undo" in stopped.stderr
    done = cofio("import", str(file), "--project", "acme", "--skip-bad")
    assert "Skipped: Line 3" in done.stderr
    assert "0 memories imported, 2 known already." in done.stderr
    found = cofio.json("list", "--project", "acme")["memories"]
    assert {each["source"] for each in found} == {"notes"}
    assert not any("ghp_" in each["text"] for each in found)


def test_a_field_that_no_fact_has_is_named(cofio: Cofio, tmp_path: Path) -> None:
    file = tmp_path / "facts.jsonl"
    file.write_text('{"text": "we ship on mondays", "tag": "shipping"}\n')
    assert "Line 1: A fact has no field tag" in cofio("import", str(file)).stderr


def test_an_export_keeps_its_own_projects(cofio: Cofio, other: Cofio, tmp_path: Path) -> None:
    file = tmp_path / "memories.jsonl"
    cofio.lines("export", str(file))
    assert "Omit: project" in other("import", str(file), "--project", "acme").stderr


def test_another_tool_s_memories_are_known_by_their_look(cofio: Cofio, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "deploy.md").write_text("# Deploying\n\n- We never deploy on a Friday\n")
    before = texts(cofio)
    told = cofio.json("import", str(folder))
    assert told["added"] >= 1
    assert cofio.json("import", str(folder))["added"] == 0
    cofio("undo", str(told["first"]), "--yes")
    assert texts(cofio) == before
    assert cofio("import", str(folder), "--format", "nonsense").exit_code == 2
    assert cofio("import", str(folder), "--format", "cofio").exit_code == 1
    assert cofio("import", str(tmp_path / "nowhere")).exit_code == 1


def test_a_backup_is_made_listed_and_restored(cofio: Cofio) -> None:
    (path,) = cofio.lines("backup")
    assert Path(path).parent == cofio.home / "backups"
    assert cofio.json("backup", "--list")["backups"][0]["path"] == path
    cofio.lines("add", "learned after the backup")
    asked = cofio("restore", "latest", says="n\n")
    assert "Nothing was changed." in asked.stderr
    assert "learned after the backup" in texts(cofio)
    told = cofio.json("restore", "latest", "--yes")
    assert (told["from"], told["memories"]) == (path, 3)
    assert texts(cofio) == set(FACTS)
    kept = Path(told["kept"])
    assert "The previous store is in" in cofio("restore", kept.name, "--yes").stderr
    assert texts(cofio) == {*FACTS, "learned after the backup"}


def test_backups_go_to_a_folder_and_old_ones_are_removed(cofio: Cofio, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    old = folder / "cofio-20200101T000000Z.db"
    old.write_text("x")
    told = cofio.json("backup", "--to", str(folder), "--keep-days", "30")
    assert told["removed"] == [str(old)]
    assert [path.name for path in folder.iterdir()] == [Path(told["path"]).name]
    assert cofio.lines("backup", "--list", "--to", str(folder))[0].endswith(told["path"])
    assert "no backups yet" in cofio("backup", "--list").stderr
    assert cofio("backup", "--keep-days", "0").exit_code == 2
    assert cofio.json("restore", str(folder), "--yes")["from"] == told["path"]


def test_what_is_no_backup_is_refused_before_anybody_is_asked(cofio: Cofio, tmp_path: Path) -> None:
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
    assert texts(cofio) == set(FACTS)


def test_ids_still_bring_memories_back(cofio: Cofio) -> None:
    cofio("forget", "1")
    assert cofio.json("restore", "1")["results"][0]["action"] == "restore"


def test_they_work_on_the_store_and_say_so_where_a_service_is_named(cofio: Cofio, tmp_path: Path) -> None:
    for words in (("export",), ("import", str(tmp_path)), ("backup",), ("restore", "latest")):
        (tmp_path / "note.md").write_text("- a note")
        refused = cofio(*words, "--url", "http://127.0.0.1:1")
        assert refused.exit_code == 1, words
        assert "works on the store itself" in refused.stderr


def test_a_named_store_that_is_not_there_is_not_made_by_an_export(cofio: Cofio, tmp_path: Path) -> None:
    missing = tmp_path / "typo.db"
    for words in (("export",), ("backup",)):
        assert cofio(*words, "--store", str(missing)).exit_code == 1
    assert not missing.exists()


@pytest.mark.timeout(120)
def test_a_store_that_is_served_is_backed_up_and_exported_but_not_replaced(shell: Shell, tmp_path: Path) -> None:
    assert shell("up").returncode == 0
    assert shell("add", "we ship on mondays").returncode == 0
    made = shell.json("backup")
    file = tmp_path / "facts.jsonl"
    file.write_text('{"text": "imported while it is served"}\n')
    assert shell.json("import", str(file))["added"] == 1
    assert "imported while it is served" in shell("search", "imported while served", "-k", "1").stdout
    assert len(shell("export").stdout.splitlines()) == 3
    refused = shell("restore", made["path"], "--yes")
    assert refused.returncode == 1
    assert "cofio down" in refused.stderr
    assert shell("down").returncode == 0
    assert shell.json("restore", "latest", "--yes")["memories"] == 1


def test_the_formats_that_the_help_names_are_those_that_are_read() -> None:
    assert set(FORMATS) == {"auto", "cofio", *READERS}


def test_what_is_no_file_is_neither_read_nor_replaced(cofio: Cofio, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "neither a file" in cofio("import", str(pipe)).stderr
    assert "not a regular file" in cofio("export", str(pipe), "--force").stderr
    assert pipe.is_fifo()
    target, link = tmp_path / "target.jsonl", tmp_path / "link.jsonl"
    target.touch()
    link.symlink_to(target)
    assert cofio("export", str(link), "--force").exit_code == 0
    assert link.is_symlink()
    assert target.stat().st_size > 0


def test_each_store_has_backups_of_its_own(cofio: Cofio, tmp_path: Path) -> None:
    cofio.lines("add", "in the store of the home")
    other = str(tmp_path / "other.db")
    cofio.lines("--store", other, "add", "in another store")
    (path,) = cofio.lines("--store", other, "backup")
    assert Path(path).parent == tmp_path / "other.db.backups"
    assert "no backup" in cofio("restore", "latest", "--yes").stderr


def test_a_series_is_undone_brought_back_and_undone_again(cofio: Cofio, tmp_path: Path) -> None:
    lines = tmp_path / "facts.jsonl"
    lines.write_text("".join(json.dumps({"text": f"fact number {n}"}) + "\n" for n in range(1_100)))
    first = cofio.json("import", str(lines))["first"]
    asked = cofio("undo", str(first), says="n\n")
    assert "a series of 3 changesets" in asked.stderr
    everything = cofio.json("stats")["memories"]
    cofio("edit", "600", "--pin")
    blocked = cofio("undo", str(first), "--yes")
    assert "1 of the 3 changesets are undone" in blocked.stderr
    cofio("undo", "--yes")  # the pin
    undone = cofio("undo", str(first), "--yes").stderr
    assert cofio.json("stats")["memories"] == everything - 1_100
    back = re.search(r"`cofio undo ([0-9]+)` redoes it", undone)
    assert back is not None
    cofio("undo", back[1], "--yes")
    assert cofio.json("stats")["memories"] == everything
    again = cofio("undo", str(first), "--yes").stderr
    assert "was undone and then restored" in again
    away = re.search(r"undo changeset ([0-9]+)", again)
    assert away is not None
    cofio("undo", away[1], "--yes")
    assert cofio.json("stats")["memories"] == everything - 1_100


# ── copy ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_store_is_copied_and_the_digest_told(cofio: Cofio, tmp_path: Path) -> None:
    here, there = cofio.home / "cofio.db", tmp_path / "copy.db"
    done = cofio("copy", f"sqlite://{here}", str(there))
    assert done.exit_code == 0, done.output
    assert "3 memories (3 new)." in done.stderr
    assert re.search(r"the digest [0-9a-f]{64}\.", done.stderr)
    assert "Not copied: the history" in done.stderr
    again = cofio.json("copy", str(here), str(there))
    assert (again["memories"], again["added"], again["known"], again["keys"]) == (3, 0, 3, 0)
    assert again["digest"] in done.stderr
    assert texts(cofio) == {each["text"] for each in cofio.json("list", "--store", str(there))["memories"]}
    assert cofio.lines("search", "tea", "--store", str(there))  # its vectors came along


def test_a_copy_that_cannot_be_is_told_why_and_makes_nothing(cofio: Cofio, other: Cofio, tmp_path: Path) -> None:
    other.lines("add", "its own")
    here, taken = str(cofio.home / "cofio.db"), str(other.home / "cofio.db")
    refused = {
        "cannot be copied into itself": (here, f"sqlite://{here}"),
        "There is no store at": (str(tmp_path / "none.db"), str(tmp_path / "new.db")),
        "memories of its own": (here, taken),
        "not a store URL that cofio supports": (here, "mysql://localhost/x"),
    }
    for says, (source, target) in refused.items():
        done = cofio("copy", source, target)
        assert done.exit_code == 1
        assert says in done.stderr
    assert texts(other) == {"its own"}
    assert not (tmp_path / "none.db").exists()
    assert not (tmp_path / "new.db").exists()
    assert cofio("copy", here, taken, "--url", "http://localhost:1").exit_code == 1
    assert cofio("copy", here).exit_code == 2


def test_a_copy_tells_of_what_waits_to_be_learned_from(cofio: Cofio, tmp_path: Path) -> None:
    with hashing_keeper(Settings(home=cofio.home, store=str(cofio.home / "cofio.db"))) as keeper:
        keeper.capture("I prefer tabs over spaces", client="test", session="s", turn="1")
    done = cofio("copy", str(cofio.home / "cofio.db"), str(tmp_path / "copy.db"))
    assert "has 1 capture: let the service process" in done.stderr
