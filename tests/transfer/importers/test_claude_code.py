"""Importing Claude Code's own memory. The samples are hand-written after published files of Claude Code 2.x."""

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
    """Create a ~/.claude with the memory of one project and a transcript."""
    shutil.copytree(SAMPLES / "claude-code", tmp_path / ".claude" / "projects")
    lines = ["no json", json.dumps({"cwd": "/somewhere/else"}), json.dumps({"type": "user", "cwd": "/srv/shop"})]
    (tmp_path / ".claude" / "projects" / "-srv-shop" / "s.jsonl").write_text("\n".join(lines))
    return tmp_path / ".claude"


@pytest.mark.parametrize("below", [".", "projects", "projects/-srv-shop", "projects/-srv-shop/memory"])
def test_memory_is_found_from_each_of_its_folders(home: Path, below: str) -> None:
    path = home / below
    assert sniff(path) == "claude-code"
    assert len(facts("claude-code", path)) == READERS["claude-code"].count(path) == 10


def test_topics_become_facts_of_the_project(home: Path) -> None:
    results = {fact.text.split("\n")[0]: fact for fact in facts("claude-code", home)}
    rule = results["An implicit wait of 15 seconds is a failed test, not a slow one."]
    assert rule.text.endswith("**Why:** The element is on the screen while the driver waits.")
    assert (rule.project, rule.kind, rule.category) == ("/srv/shop", "policy", "decision")
    assert rule.context == "feedback_timeouts > UI test timeouts: 5s Windows, 10s Android"
    assert rule.session == "9bcb5645-bb7a-4eb5-8136-ff774166a95e"
    assert rule.created_at == "2026-07-30T07:40:18.191000+00:00"
    assert rule.source == "claude-code/shop"
    assert rule.origin.startswith("claude-code/-srv-shop/feedback_timeouts.md#")
    limit = results["Android: 10s max, slower rendering"]
    assert limit.context.endswith("> Limits")


def test_user_facts_apply_to_every_project(home: Path) -> None:
    (ada,) = [fact for fact in facts("claude-code", home) if fact.metadata.get("type") == "user"]
    assert (ada.project, ada.kind) == ("", "preference")


def test_index_lines_that_link_elsewhere_are_skipped(home: Path) -> None:
    index = [fact.text for fact in facts("claude-code", home) if fact.metadata["file"] == "MEMORY.md"]
    assert index == [
        "The API listens on port 4100",
        "Databases: orders in Postgres 16",
        "Databases: sessions in Redis",
        "Build:\n```bash\nmake all\n```",
    ]


def test_topic_without_body_uses_its_description(home: Path) -> None:
    assert "Pipeline bugs are tracked in Linear project INGEST" in {fact.text for fact in facts("claude-code", home)}


def test_project_is_derived_from_local_folders_without_transcript(tmp_path: Path) -> None:
    tree = tmp_path / "my.shop" / "api_v2"
    tree.mkdir(parents=True)
    slug = "".join(item if item.isalnum() else "-" for item in str(tree))
    memory = tmp_path / "projects" / slug / "memory"
    memory.mkdir(parents=True)
    (memory / "MEMORY.md").write_text("- The API listens on port 4100\n")
    assert facts("claude-code", memory)[0].project == str(tree)
    tree.rmdir()
    assert facts("claude-code", memory)[0].project == slug


def test_other_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no memory of Claude Code"):
        list(READERS["claude-code"].read(tmp_path))
    with pytest.raises(InvalidInput, match="does not exist"):
        list(READERS["claude-code"].read(tmp_path / "missing"))


def test_unknown_path_error_lists_what_was_searched(tmp_path: Path) -> None:
    path = tmp_path / "notes.docx"
    path.write_bytes(b"PK")
    with pytest.raises(InvalidInput) as error_info:
        sniff(path)
    assert all(name in str(error_info.value) for name in READERS)
    with pytest.raises(InvalidInput, match="does not exist"):
        sniff(tmp_path / "missing")


def test_reader_names_equal_those_of_the_command_line() -> None:
    assert list(READERS) == ["mem0", "mem0-qdrant", "mcp-memory-service", "claude-mem", "claude-code", "markdown"]
    assert all(reader.name == name and reader.says for name, reader in READERS.items())
