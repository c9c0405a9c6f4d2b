"""Domain knowledge in history, undo, export, import and copy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cofio.core import Keeper
from cofio.models.domain_knowledge import Pattern, Threshold
from cofio.models.memory import Add, Fact, PurgeRow, PutRow
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.cli.conftest import InProcessCli


def threshold(value: float) -> Threshold:
    return Threshold(source="AAPL", metric="volume", value=value, direction="above")


@pytest.fixture
def cli_with_knowledge(cofio: InProcessCli) -> InProcessCli:
    """Return a CLI whose store has a changed threshold and a purged pattern stated by a memory."""
    cofio.lines("add", "We deploy on Fridays")
    with Keeper(SqliteStore(cofio.home / "cofio.db", FixedClock()), HashEmbedder(), FixedClock()) as keeper:
        keeper.apply([PutRow(threshold(5_000_000))], by="ada", why="first")
        keeper.apply([PutRow(threshold(6_000_000), "it fired too often")], by="ada", why="second")
        spikes = Pattern(pattern="Volume spikes")
        keeper.apply([Add(Fact(text="Volume spikes")), PutRow(spikes, stated_by=0)], by="ada", why="third")
        keeper.apply([PurgeRow("patterns", spikes.id)], by="ada", why="fourth")
    return cofio


def test_history_contains_rows(cli_with_knowledge: InProcessCli) -> None:
    fourth, third, second, first, _ = [line.split("\t")[4] for line in cli_with_knowledge.lines("history")]
    assert first == "thresholds/aapl.volume.above: AAPL/volume: above 5000000"
    assert second == "thresholds/aapl.volume.above: AAPL/volume: above 6000000"
    assert third == "2: Volume spikes and 1 more"
    assert fourth == "patterns: (erased)"
    [line] = cli_with_knowledge.lines("history", "--changeset", "3")
    result = line.split("\t")
    assert result[2:] == ["thresholds/aapl.volume.above", "update", "ada", "AAPL/volume: above 6000000 (value)"]
    assert len(cli_with_knowledge.lines("history", "--changeset", "4")) == 2
    plain = cli_with_knowledge.json("history", "--changeset", "3")
    assert [item["key"] for item in plain["knowledge"]] == ["aapl.volume.above"]
    assert plain["changes"] == []


def test_undo_shows_and_reverts_rows(cli_with_knowledge: InProcessCli) -> None:
    request = cli_with_knowledge("undo", "3", input_text="y\n")
    assert request.exit_code == 0, request.output
    assert "  update thresholds/aapl.volume.above: AAPL/volume: above 6000000 (value)" in request.stderr
    output = cli_with_knowledge.json("history", "--changeset", "6")
    assert [item["after"]["value"] for item in output["knowledge"]] == [5_000_000]
    assert cli_with_knowledge("undo", "5", "--yes").exit_code == 1  # purged permanently


def test_forgetting_a_memory_deletes_its_row(cofio: InProcessCli) -> None:
    cofio.lines("add", "We deploy on Fridays")
    with Keeper(SqliteStore(cofio.home / "cofio.db", FixedClock()), HashEmbedder(), FixedClock()) as keeper:
        keeper.apply([Add(Fact(text="Flag AAPL")), PutRow(threshold(1), stated_by=0)], by="ada", why="")
    cofio.lines("forget", "2", "--yes")
    assert [item["action"] for item in cofio.json("history", "--changeset", "3")["knowledge"]] == ["delete"]


def test_rows_are_exported_imported_and_copied(cli_with_knowledge: InProcessCli, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    result = cli_with_knowledge("export", str(file))
    assert "2 memories and 1 row of domain knowledge exported" in result.stderr
    assert cli_with_knowledge.json("export", str(file), "--force")["knowledge"] == 1
    assert json.loads(file.read_text().splitlines()[-1])["knowledge"] == "thresholds"
    other = InProcessCli(tmp_path / "other")
    assert (
        "2 memories and 1 row of domain knowledge would be imported" in other("import", str(file), "--dry-run").stderr
    )
    assert "2 memories and 1 row of domain knowledge imported; `cofio undo 1`" in other("import", str(file)).stderr
    assert "0 memories imported, 3 known already" in other("import", str(file)).stderr
    copied = cli_with_knowledge("copy", str(cli_with_knowledge.home / "cofio.db"), str(tmp_path / "copy.db"))
    assert "2 memories (2 new), 1 row of domain knowledge" in copied.stderr
    assert "the index of note files" in copied.stderr
