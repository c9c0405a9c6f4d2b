"""What the commands on the journal, and those that move memories, tell of domain knowledge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cofio.core import Keeper
from cofio.models.domain_knowledge import Pattern, PurgeRow, PutRow, Threshold
from cofio.models.memory import Add, Fact
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock, HashEmbedder
from tests.cli.conftest import Cofio


def flag(value: float) -> Threshold:
    return Threshold(source="AAPL", metric="volume", value=value, direction="above")


@pytest.fixture
def known(cofio: Cofio) -> Cofio:
    """A store in which a threshold was put, changed, and a pattern was told by a memory and erased since."""
    cofio.lines("add", "We deploy on Fridays")
    with Keeper(SqliteStore(cofio.home / "cofio.db", FixedClock()), HashEmbedder(), FixedClock()) as keeper:
        keeper.apply([], by="ada", why="first", knowledge=[PutRow(flag(5_000_000))])
        keeper.apply([], by="ada", why="second", knowledge=[PutRow(flag(6_000_000), "it fired too often")])
        spikes = Pattern(pattern="Volume spikes")
        keeper.apply([Add(Fact(text="Volume spikes"))], by="ada", why="third", knowledge=[PutRow(spikes, stated_by=0)])
        keeper.apply([], by="ada", why="fourth", knowledge=[PurgeRow("patterns", spikes.id)])
    return cofio


def test_history_tells_of_rows(known: Cofio) -> None:
    fourth, third, second, first, _ = [line.split("\t")[4] for line in known.lines("history")]
    assert first == "thresholds/aapl.volume.above: AAPL/volume: above 5000000"
    assert second == "thresholds/aapl.volume.above: AAPL/volume: above 6000000"
    assert third == "2: Volume spikes and 1 more"
    assert fourth == "patterns: (erased)"
    [line] = known.lines("history", "--changeset", "3")
    told = line.split("\t")
    assert told[2:] == ["thresholds/aapl.volume.above", "update", "ada", "AAPL/volume: above 6000000 (value)"]
    assert len(known.lines("history", "--changeset", "4")) == 2
    plain = known.json("history", "--changeset", "3")
    assert [each["key"] for each in plain["knowledge"]] == ["aapl.volume.above"]
    assert plain["changes"] == []


def test_undo_shows_the_rows_that_go_and_takes_them_back(known: Cofio) -> None:
    asked = known("undo", "3", says="y\n")
    assert asked.exit_code == 0, asked.output
    assert "  update thresholds/aapl.volume.above: AAPL/volume: above 6000000 (value)" in asked.stderr
    told = known.json("history", "--changeset", "6")
    assert [each["after"]["value"] for each in told["knowledge"]] == [5_000_000]
    assert known("undo", "5", "--yes").exit_code == 1  # erased for good


def test_forgetting_what_told_a_row_takes_the_row(cofio: Cofio) -> None:
    cofio.lines("add", "We deploy on Fridays")
    with Keeper(SqliteStore(cofio.home / "cofio.db", FixedClock()), HashEmbedder(), FixedClock()) as keeper:
        keeper.apply([Add(Fact(text="Flag AAPL"))], by="ada", why="", knowledge=[PutRow(flag(1), stated_by=0)])
    cofio.lines("forget", "2", "--yes")
    assert [each["action"] for each in cofio.json("history", "--changeset", "3")["knowledge"]] == ["delete"]


def test_rows_are_exported_imported_and_copied(known: Cofio, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    done = known("export", str(file))
    assert "2 memories and 1 row of domain knowledge exported" in done.stderr
    assert known.json("export", str(file), "--force")["knowledge"] == 1
    assert json.loads(file.read_text().splitlines()[-1])["knowledge"] == "thresholds"
    other = Cofio(tmp_path / "other")
    assert (
        "2 memories and 1 row of domain knowledge would be imported" in other("import", str(file), "--dry-run").stderr
    )
    assert "2 memories and 1 row of domain knowledge imported; `cofio undo 1`" in other("import", str(file)).stderr
    assert "0 memories imported, 3 known already" in other("import", str(file)).stderr
    copied = known("copy", str(known.home / "cofio.db"), str(tmp_path / "copy.db"))
    assert "2 memories (2 new), 1 row of domain knowledge" in copied.stderr
    assert "the index of note files" in copied.stderr
