"""Claude Code's own memory. The samples are written by hand, after files of Claude Code 2.x that people published."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cofio.errors import InvalidInput
from cofio.transfer.importers import READERS, sniff
from tests.transfer.importers.stores import SAMPLES, facts


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A ~/.claude with the memory of one project and a transcript beside it."""
    shutil.copytree(SAMPLES / "claude-code", tmp_path / ".claude" / "projects")
    lines = ["no json", json.dumps({"cwd": "/somewhere/else"}), json.dumps({"type": "user", "cwd": "/srv/shop"})]
    (tmp_path / ".claude" / "projects" / "-srv-shop" / "s.jsonl").write_text("\n".join(lines))
    return tmp_path / ".claude"


@pytest.mark.parametrize("below", [".", "projects", "projects/-srv-shop", "projects/-srv-shop/memory"])
def test_it_is_found_from_each_of_its_folders(home: Path, below: str) -> None:
    path = home / below
    assert sniff(path) == "claude-code"
    assert len(facts("claude-code", path)) == READERS["claude-code"].count(path) == 10


def test_topics_become_facts_of_the_project(home: Path) -> None:
    found = {fact.text.split("\n")[0]: fact for fact in facts("claude-code", home)}
    rule = found["An implicit wait of 15 seconds is a failed test, not a slow one."]
    assert rule.text.endswith("**Why:** The element is on the screen while the driver waits.")
    assert (rule.project, rule.kind, rule.category) == ("/srv/shop", "policy", "decision")
    assert rule.context == "feedback_timeouts > UI test timeouts: 5s Windows, 10s Android"
    assert rule.session == "9bcb5645-bb7a-4eb5-8136-ff774166a95e"
    assert rule.created_at == "2026-07-30T07:40:18.191000+00:00"
    assert rule.source == "claude-code/shop"
    assert rule.origin.startswith("claude-code/-srv-shop/feedback_timeouts.md#")
    limit = found["Android: 10s max, slower rendering"]
    assert limit.context.endswith("> Limits")


def test_what_is_about_the_person_holds_in_every_project(home: Path) -> None:
    (ada,) = [fact for fact in facts("claude-code", home) if fact.metadata.get("type") == "user"]
    assert (ada.project, ada.kind) == ("", "preference")


def test_the_lines_of_the_index_that_lead_elsewhere_are_no_facts(home: Path) -> None:
    index = [fact.text for fact in facts("claude-code", home) if fact.metadata["file"] == "MEMORY.md"]
    assert index == [
        "The API listens on port 4100",
        "Databases: orders in Postgres 16",
        "Databases: sessions in Redis",
        "Build:\n```bash\nmake all\n```",
    ]


def test_a_topic_without_a_body_is_its_description(home: Path) -> None:
    assert "Pipeline bugs are tracked in Linear project INGEST" in {fact.text for fact in facts("claude-code", home)}


def test_without_a_transcript_the_folders_of_this_machine_tell_the_project(tmp_path: Path) -> None:
    tree = tmp_path / "my.shop" / "api_v2"
    tree.mkdir(parents=True)
    slug = "".join(each if each.isalnum() else "-" for each in str(tree))
    memory = tmp_path / "projects" / slug / "memory"
    memory.mkdir(parents=True)
    (memory / "MEMORY.md").write_text("- The API listens on port 4100\n")
    assert facts("claude-code", memory)[0].project == str(tree)
    tree.rmdir()
    assert facts("claude-code", memory)[0].project == slug


def test_a_folder_that_is_no_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no memory of Claude Code"):
        list(READERS["claude-code"].read(tmp_path))
    with pytest.raises(InvalidInput, match="does not exist"):
        list(READERS["claude-code"].read(tmp_path / "missing"))


def test_a_path_that_nobody_knows_says_what_was_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "notes.docx"
    path.write_bytes(b"PK")
    with pytest.raises(InvalidInput) as caught:
        sniff(path)
    assert all(name in str(caught.value) for name in READERS)
    with pytest.raises(InvalidInput, match="does not exist"):
        sniff(tmp_path / "missing")


def test_the_readers_are_named_as_the_command_line_names_them() -> None:
    assert list(READERS) == ["mem0", "mem0-qdrant", "mcp-memory-service", "claude-mem", "claude-code", "markdown"]
    assert all(reader.name == name and reader.says for name, reader in READERS.items())
