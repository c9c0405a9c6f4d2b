"""Importing mem0's JSON and local Qdrant folder. Samples: mem0 0.1.118 and 2.2.1; qdrant-client 1.9.2 and 1.20.0."""

from __future__ import annotations

import json
import os
import pickle
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cofio.errors import InvalidInput
from cofio.transfer.importers import READERS, SkippedEntry, sniff
from tests.transfer.importers.stores import SAMPLES, facts, points, qdrant, skipped, traces, writers


def write_json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


@pytest.mark.parametrize("sample", ["mem0-0.1.118.json", "mem0-2.2.1.json"])
def test_get_all_output_becomes_facts(sample: str) -> None:
    path = SAMPLES / sample
    assert sniff(path) == "mem0"
    results = {fact.text: fact for fact in facts("mem0", path)}
    deploys = results["Deploys never happen on a Friday"]
    assert (deploys.source, deploys.agent, deploys.session) == ("mem0/ada", "codex", "run-1")
    assert (deploys.method, deploys.category) == ("import", "learning")
    assert deploys.origin.startswith("mem0/")
    assert deploys.created_at.startswith("2026-11-16T01:4")
    coffee = results["I prefer dark roast coffee"]
    assert coffee.metadata["topic"] == "coffee"
    assert coffee.metadata["role"] == "user"
    assert READERS["mem0"].count(path) == 3


ENTRY = {"id": "a", "memory": "Ada lives in Porto", "user_id": "ada", "categories": ["user_preferences", "travel"]}


@pytest.mark.parametrize(
    "shape",
    [
        [ENTRY],
        {"results": [ENTRY], "relations": [{"source": "ada", "target": "porto"}] * 3},
        {"relations": [], "count": 1, "next": None, "results": [ENTRY]},
        {"memories": [ENTRY]},
        ENTRY,
    ],
)
def test_every_export_shape_is_read(tmp_path: Path, shape: Any) -> None:
    path = write_json(tmp_path / "export.json", shape)
    assert sniff(path) == "mem0"
    (fact,) = facts("mem0", path)
    assert (fact.text, fact.kind, fact.tags) == ("Ada lives in Porto", "preference", ("user_preferences", "travel"))


def test_json_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    path.write_text("\ufeff" + "\r\n".join(json.dumps({**ENTRY, "id": item}) for item in "abc"), encoding="utf-8")
    assert [fact.origin for fact in facts("mem0", path)] == ["mem0/a", "mem0/b", "mem0/c"]


def test_invalid_entry_is_reported_and_others_read(tmp_path: Path) -> None:
    entries = [ENTRY, 7, {"id": "b"}, {"id": "c", "memory": "  "}, {**ENTRY, "id": "d"}]
    path = write_json(tmp_path / "export.json", {"results": entries})
    assert len(list(READERS["mem0"].read(path))) == 5
    assert [item.where for item in skipped("mem0", path)] == ["mem0/entry 2", "mem0/b", "mem0/c"]


def test_expired_memories_are_skipped(tmp_path: Path) -> None:
    deleted = [{**ENTRY, "expiration_date": "2020-01-01"}, {**ENTRY, "deleted_at": "2025-01-01"}]
    path = write_json(tmp_path / "export.json", [*deleted, {**ENTRY, "expiration_date": "2999-01-01"}])
    assert len(facts("mem0", path)) == 1


def test_oversized_fields_are_truncated_or_skipped_with_a_report(tmp_path: Path) -> None:
    deep: Any = []
    for _ in range(40):
        deep = [deep]
    entry = {
        **ENTRY,
        "memory": "first paragraph " * 3_000 + "\n\n" + "second " * 5_000,
        "created_at": "the day before yesterday",
        "metadata": {"deep": deep, "long": "x" * 60_000, "updated_at": "2025-01-01", "nul": "a\x00b", "kept": 1},
    }
    (fact,) = facts("mem0", write_json(tmp_path / "export.json", [entry]))
    assert fact.text.endswith("first paragraph")
    assert fact.metadata["cut_from"] == len(entry["memory"])
    assert fact.created_at == ""
    assert fact.metadata["bad_created_at"] == "the day before yesterday"
    assert fact.metadata["left_out"] == ["deep", "long"]
    assert (fact.metadata["mem0_updated_at"], fact.metadata["nul"], fact.metadata["kept"]) == ("2025-01-01", "a�b", 1)


def test_long_document_is_streamed(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    with path.open("w") as file:
        file.write('{"results": [')
        for number in range(8_000):
            file.write(("," if number else "") + json.dumps({"id": str(number), "memory": "x" * 400}))
        file.write("]}")
    tracemalloc.start()
    number = sum(1 for _ in READERS["mem0"].read(path))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert number == 8_000
    assert most < path.stat().st_size / 4


@pytest.mark.parametrize(
    "text",
    ["", "[", '{"results": [{"id": 1}', '[{"id": 1} {"id": 2}]', "hello", "[" * 100_000, '{"a" 1}', "[1,,2]"],
)
def test_other_json_is_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "export.json"
    path.write_text(text)
    assert not READERS["mem0"].fits(path)
    if text:
        with pytest.raises(InvalidInput, match="cannot be parsed"):
            list(READERS["mem0"].read(path))


# ── local Qdrant folder ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("writer", writers())
def test_points_of_each_client_version_are_read_without_qdrant(tmp_path: Path, writer: str) -> None:
    folder = qdrant(tmp_path / "qdrant", points(writer))
    before = traces(folder)
    assert sniff(folder) == "mem0-qdrant"
    friday, tabs = facts("mem0-qdrant", folder)
    assert friday.text == "Deploys never happen on a Friday"
    assert friday.origin == "mem0/0b9f6f0e-5a0e-4a38-9d6b-5d3f1f0e7a11"
    assert friday.created_at == "2025-11-02T18:00:00.123456+00:00"
    assert (friday.source, friday.agent, friday.session) == ("mem0/ada", "codex", "run-1")
    assert friday.metadata["topic"] == "deploys"
    assert tabs.origin == "mem0/7"
    assert tabs.metadata["seen"].startswith("2025-11-03T10:00:00")  # one version returns a datetime, the other text
    assert traces(folder) == before


def test_point_has_the_same_origin_as_in_json(tmp_path: Path) -> None:
    folder = qdrant(tmp_path / "qdrant", points(writers()[0]))
    exported = write_json(
        tmp_path / "export.json", [{"id": "0b9f6f0e-5a0e-4a38-9d6b-5d3f1f0e7a11", "memory": "Deploys"}]
    )
    assert facts("mem0-qdrant", folder)[0].origin == facts("mem0", exported)[0].origin


class CallOnUnpickling:
    """A pickle that would call a function."""

    def __init__(self, function: Any, *given: Any) -> None:
        self.function, self.given = function, given

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.function, self.given


def _billion() -> bytes:
    """Return a point whose payload is small as a pickle and huge as JSON."""
    laugh: Any = ["ha"]
    for _ in range(10):
        laugh = [laugh] * 20
    inner = pickle.dumps({"data": "A point", "laugh": laugh}, protocol=4)[2:-1]
    name = b"\x8c\x1eqdrant_client.http.models.mode\x8c\x0bPointStruct\x93)\x81"
    return b"\x80\x04" + name + b"}\x8c\x08__dict__}\x8c\x07payload" + inner + b"ssb."


def _malicious(marker: Path) -> Iterator[bytes]:
    yield pickle.dumps(CallOnUnpickling(os.system, f"touch {marker}"))
    yield pickle.dumps(CallOnUnpickling(eval, f"open({str(marker)!r}, 'w')"), protocol=0)
    yield pickle.dumps(CallOnUnpickling(marker.write_text, "gone"))
    yield b"cqdrant_client.os\nsystem\n(S'touch " + str(marker).encode() + b"'\ntR."
    yield b"\x80\x04\x8c\x0dqdrant_client\x8c\x09os.system\x93."
    yield b"\x80\x04\x8c\x09builtins\x8c\x07getattr\x93."
    yield b"\x80\x02]r\xff\xff\xff\x7f."  # asks the C unpickler for a table of 16 GB
    yield b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7fabc."
    yield b"\x80\x04" + b"(" * 50_000 + b"t" * 50_000 + b"."
    yield b"\x80\x04\x82\x01."
    yield b"not a pickle"
    yield b""
    yield pickle.dumps({"payload": {"data": "a plain dict is no point"}})


def test_malicious_pickle_is_skipped_without_running(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    bad = list(_malicious(marker))
    good = points(writers()[0])[0]
    folder = qdrant(tmp_path / "qdrant", [*((str(n), blob) for n, blob in enumerate(bad)), ("good", good[1])])
    results = list(READERS["mem0-qdrant"].read(folder))
    assert not marker.exists()
    assert len(results) == len(bad) + 1
    assert all(isinstance(item, SkippedEntry) for item in results[:-1])
    assert "posix.system" in results[0].reason  # type: ignore[union-attr]


def test_exploding_payload_is_skipped(tmp_path: Path) -> None:
    (fact,) = facts("mem0-qdrant", qdrant(tmp_path / "qdrant", [("1", _billion())]))
    assert fact.text == "A point"
    assert fact.metadata["left_out"] == ["laugh"]


def test_very_large_point_is_skipped(tmp_path: Path) -> None:
    folder = qdrant(tmp_path / "qdrant", [("1", b"\x80\x04" + b"x" * (3 << 20))])
    (one,) = skipped("mem0-qdrant", folder)
    assert "too large" in one.reason


def test_other_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not a local Qdrant folder"):
        list(READERS["mem0-qdrant"].read(tmp_path))
    with pytest.raises(InvalidInput, match="does not exist"):
        list(READERS["mem0-qdrant"].read(tmp_path / "missing"))
