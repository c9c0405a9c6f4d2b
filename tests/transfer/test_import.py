"""Importing into stores with existing memories: no losses and no duplicates, also after interruptions."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cofio.core import Keeper
from cofio.errors import Conflict, InvalidInput, StoreError, Unavailable
from cofio.models.memory import MAY_REPLACE, Delete, Edit, Fact, Memory, Purge, Scope, Update
from cofio.ports import Matrix, Store
from cofio.testing import FixedClock
from cofio.transfer import importer
from cofio.transfer.importer import BATCH, import_facts, import_lines
from cofio.transfer.jsonl_format import MAX_LINE, BadRecord, JsonlFile
from tests.stores.contract import EMBEDDER, EVERYTHING, add, apply, everything, vector
from tests.transfer.fixtures import SIGNATURE, embed, export_lines, fill, import_exported, open_store

Make = Callable[[], Store]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Return a factory of new stores."""
    created: list[Store] = []

    def new() -> Store:
        created.append(open_store(tmp_path / f"{len(created)}.db"))
        return created[-1]

    yield new
    for item in created:
        item.close()


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "BATCH", 2)


def sorted_texts(store: Store) -> list[str]:
    return sorted(memory.text for memory in everything(store))


def by_text(store: Store) -> dict[str, Memory]:
    return {memory.text: memory for memory in everything(store)}


def line(**about: Any) -> str:
    return json.dumps(about) + "\n"


# ── into a store with other memories ──────────────────────────────────────────────────────────────────────────────────


def test_colliding_ids_are_reassigned_and_links_follow(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    own = [add(two, f"own {number}") for number in range(20)]
    report = import_exported(two, export_lines(one))
    theirs, ours = by_text(one), by_text(two)
    assert report.added == len(theirs)
    assert two.get([item.id for item in own]) == own
    for text, memory in theirs.items():
        here = ours[text]
        assert here.id > own[-1].id
        assert here.origin == (memory.origin or f"{one.snapshots.identity()}/{memory.id}")
        for theirs_link, link in ((memory.supersedes, here.supersedes), (memory.superseded_by, here.superseded_by)):
            assert (one.get([theirs_link])[0].text if theirs_link else None) == (
                two.get([link])[0].text if link else None
            )
    assert set(two.occurrences(ours["We deploy with Fly.io — «тест» 🌊"].id)) == set(one.occurrences(1))
    assert two.nearest(vector("The entry is app.py"), 1, Scope())[0].id == ours["The entry is app.py"].id


def test_second_import_adds_nothing(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    add(two, "own")
    lines = export_lines(one)
    import_exported(two, lines)
    before, changes = export_lines(two), two.changesets(100)
    report = import_exported(two, lines)
    assert (report.added, report.known, report.changesets, report.first) == (0, len(lines) - 1, 0, None)
    assert export_lines(two) == before
    assert two.changesets(100) == changes


def test_extended_export_adds_new_memories_with_links(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    add(two, "own")
    import_exported(two, export_lines(one))
    add(two, "own and later")  # the ids after the first import are taken
    old = add(one, "old")
    apply(one, Update(old.id, Fact(text="new")))
    report = import_exported(two, export_lines(one))
    assert report.added == 2
    here = by_text(two)
    assert here["old"].superseded_by == here["new"].id
    assert here["new"].supersedes == here["old"].id


def test_superseded_links_use_local_ids(make: Make) -> None:
    one, two = make(), make()
    add(two, "own")
    old = add(one, "old")
    add(one, "new", metadata={MAY_REPLACE: [old.id, 77]})
    import_exported(two, export_lines(one))
    here = by_text(two)
    assert here["new"].may_replace == [here["old"].id]
    assert here["old"].id != old.id


def test_links_to_missing_memories_are_dropped(make: Make) -> None:
    one, two = make(), make()
    old = add(one, "old")
    new = apply(one, Update(old.id, Fact(text="new"))).changes[0].memory
    add(two, "own")
    import_exported(two, [export_line for export_line in export_lines(one) if f'"id":{new.id},' not in export_line])
    assert by_text(two)["old"].superseded_by is None
    assert by_text(two)["old"].archived


@pytest.mark.usefixtures("small_batches")
def test_interrupted_import_resumes_at_any_batch(make: Make) -> None:
    one, whole = make(), make()
    fill(one)
    add(whole, "own")
    lines = export_lines(one)
    batches = import_exported(whole, lines).changesets
    assert batches == 4
    for stop in range(batches):
        two = make()
        add(two, "own")
        embedded = iter(range(stop))

        def stopping(texts: Sequence[str], left: Iterator[int] = embedded) -> Matrix:
            if next(left, None) is None:
                raise Unavailable("The model is gone.", "Start it.")
            return embed(texts)

        with pytest.raises(Unavailable):
            import_lines(two, stopping, lines, name="file")
        assert len(everything(two)) == 1 + 2 * stop
        report = import_exported(two, lines)
        assert (report.added, report.known) == (len(lines) - 1 - 2 * stop, 2 * stop)
        assert sorted_texts(two) == sorted_texts(whole)
        theirs, ours = by_text(one), by_text(two)
        for text, memory in theirs.items():
            link = memory.superseded_by and one.get([memory.superseded_by])[0].text
            assert (ours[text].superseded_by and two.get([ours[text].superseded_by or 0])[0].text) == link
        assert import_exported(two, lines).added == 0


@pytest.mark.usefixtures("small_batches")
def test_interrupted_copy_is_identical_after_resuming(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    lines = export_lines(one)
    with pytest.raises(BadRecord, match="Line 6"):
        import_exported(two, [*lines[:5], "half a line"])
    assert len(everything(two)) == 4
    import_exported(two, lines)
    assert export_lines(two) == lines


@pytest.mark.usefixtures("small_batches")
def test_concurrent_imports_add_no_duplicates(make: Make, tmp_path: Path) -> None:
    one, two = make(), make()
    fill(one)
    lines = export_lines(one)
    add(two, "own")
    met = threading.Barrier(2)

    def embedding(texts: Sequence[str]) -> Matrix:
        with suppress(threading.BrokenBarrierError):
            met.wait(2)  # both have read, none has written
        return embed(texts)

    def importing_it() -> None:
        store = open_store(tmp_path / "1.db")
        with suppress(Conflict):  # the second one stops and could resume
            import_lines(store, embedding, lines, name="file")
        store.close()

    threads = [threading.Thread(target=importing_it) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    import_exported(two, lines)
    assert sorted_texts(two) == sorted([*sorted_texts(one), "own"])


def test_memories_imported_through_another_store_are_recognized(make: Make) -> None:
    a, b, c = make(), make(), make()
    fill(a)
    for store in (b, c):
        add(store, "own of both")
    import_exported(b, export_lines(a))
    add(b, "of b")
    import_exported(c, export_lines(b))
    number = len(everything(c))
    assert import_exported(c, export_lines(a)).added == 0
    assert import_exported(c, export_lines(b)).added == 0
    assert len(everything(c)) == number == len(everything(b)) + 1
    assert import_exported(a, export_lines(b)).added == 2  # only the other store's memories are new
    assert len(everything(a)) == len(everything(b))


# ── into the same store ───────────────────────────────────────────────────────────────────────────────────────────────


def test_import_into_the_source_restores_purged_memories_only(make: Make) -> None:
    store = make()
    fill(store)
    lines = export_lines(store)
    deleted = by_text(store)["The entry is app.py"]
    apply(store, Purge(deleted.id))
    apply(store, Edit(1, {"text": "edited since"}))
    report = import_exported(store, lines)
    assert (report.added, report.known) == (1, len(lines) - 2)
    assert store.get([deleted.id]) == [deleted]
    assert store.get([1])[0].text == "edited since"


def test_diverged_copies_lose_nothing(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    import_exported(two, export_lines(one))
    add(one, "only in one")
    old = add(two, "only in two, old")  # same id as the other store's memory
    apply(two, Update(old.id, Fact(text="only in two, new")))
    report = import_exported(one, export_lines(two))
    assert report.added == 2
    assert sorted_texts(one) == sorted({*sorted_texts(two), "only in one"})
    here = by_text(one)
    assert here["only in two, old"].superseded_by == here["only in two, new"].id
    assert here["only in two, new"].supersedes == here["only in two, old"].id
    assert import_exported(one, export_lines(two)).added == 0


# ── invalid lines ─────────────────────────────────────────────────────────────────────────────────────────────────────

GOOD = {"id": 1, "text": "good", "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
HEADER = {"cofio": "export", "version": 1, "store": "s", "memories": 2, "last_id": 2}
BAD = {
    "The line is not JSON": "{half\n",
    "The file ends in the middle": '{"id": 2, "te',
    "not an object": "[1]\n",
    "field text is missing": line(**{**GOOD, "text": None}),
    "field created_at is missing": line(id=2, text="t", updated_at="2026-01-01"),
    "text must be a text, not a number": line(**{**GOOD, "text": 7}),
    "tags must be a list of texts": line(**GOOD, tags="x"),
    "kind is": line(**GOOD, kind="nonsense"),
    "confidence is": line(**GOOD, confidence=2),
    "not a time": line(**GOOD, archived_at="yesterday"),
    "pinned must be true or false": line(**GOOD, pinned="yes"),
    "occurrences is": line(**GOOD, occurrences=0),
    "supersedes is": line(**GOOD, supersedes="1"),
    "id is": line(**{**GOOD, "id": -4}),
    "NUL": line(**{**GOOD, "text": "a\0b"}),
    "surrogate": line(**{**GOOD, "text": "a\ud800b"}),
    "65,537 characters": line(**{**GOOD, "text": "a" * 65_537}),
    "A sighting is not": line(**GOOD, sightings=[{"agent": "a"}]),
    "An anchor is not": line(**GOOD, anchors=["app.py"]),
    "not base64": line(**GOOD, vector="%%%"),
    "vector is damaged": line(**GOOD, vector="AAA="),
    "A second export": line(**HEADER),
    "metadata cannot be": line(**GOOD, metadata=[]).replace("[]", '{"a": 1e999}'),
}


@pytest.mark.parametrize("problem", BAD)
def test_invalid_line_stops_the_import_with_number_and_reason(make: Make, problem: str) -> None:
    store = make()
    lines = [line(**HEADER), line(**GOOD), BAD[problem]]
    with pytest.raises(BadRecord, match=r"^Line 3: ") as error_info:
        import_exported(store, lines)
    assert problem in error_info.value.message
    assert "--skip-bad" in error_info.value.hint
    assert "were imported (1); `cofio undo 1`" in error_info.value.hint
    assert sorted_texts(store) == ["good"]
    mended = {**GOOD, "id": 2, "text": "mended"}
    assert import_exported(store, [*lines[:2], line(**mended)]).added == 1
    assert sorted_texts(store) == ["good", "mended"]


@pytest.mark.parametrize("problem", BAD)
def test_invalid_lines_can_be_skipped_and_are_reported(make: Make, problem: str) -> None:
    store = make()
    last = {**GOOD, "id": 3, "text": "the last"}
    bad = BAD[problem] if BAD[problem].endswith("\n") else BAD[problem] + "\n"
    report = import_exported(store, [line(**HEADER), line(**GOOD), bad, line(**last)], skip_bad=True)
    assert (report.read, report.added, report.skipped) == (2, 2, 1)
    assert report.bad[0].startswith("Line 3: ")
    assert sorted_texts(store) == ["good", "the last"]


def test_non_utf8_and_oversized_lines_are_invalid(make: Make, tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    good = line(**HEADER).encode(), line(**GOOD).encode()
    last = line(**{**GOOD, "id": 2, "text": "the last"}).encode()
    file.write_bytes(b"".join([*good, b'{"text": "\xff"}\n', b"x" * (MAX_LINE + 100) + b"\n", b"\n", last]))
    store = make()
    report = import_lines(store, embed, JsonlFile(file), name="f", skip_bad=True)
    assert [item.partition(": ")[2] for item in report.bad] == [
        "The line is not UTF-8.",
        "The line is longer than 16,777,216 bytes.",
    ]
    assert sorted_texts(store) == ["good", "the last"]


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ({**HEADER, "version": 3}, "newer cofio"),
        ({**HEADER, "version": "1"}, "version is"),
        ({**HEADER, "store": ""}, "lacks the field store"),
        ({**HEADER, "cofio": "backup"}, "backup"),
    ],
)
def test_unsupported_header_stops_the_import(make: Make, header: dict[str, Any], problem: str) -> None:
    store = make()
    with pytest.raises(BadRecord, match="Line 1") as error_info:
        import_exported(store, [line(**header), line(**GOOD)], skip_bad=True)
    assert problem in error_info.value.message
    assert everything(store) == []


def test_invalid_first_line_is_never_skipped(make: Make) -> None:
    with pytest.raises(BadRecord, match="Line 1"):
        import_exported(make(), ["{half\n", line(**GOOD)], skip_bad=True)


def test_truncated_file_reports_missing_memories(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    assert import_exported(two, export_lines(one)[:-2]).missing == 2


def test_empty_file_imports_nothing(make: Make) -> None:
    assert import_exported(make(), []).read == 0


def test_one_shot_iterator_is_rejected(make: Make) -> None:
    with pytest.raises(InvalidInput, match="only once"):
        import_exported(make(), iter([line(**HEADER)]))  # type: ignore[arg-type]


# ── dry runs and vectors ──────────────────────────────────────────────────────────────────────────────────────────────


def test_dry_run_reports_the_same_and_changes_nothing(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    own = two.snapshots.identity()
    report = import_exported(two, export_lines(one), dry_run=True)
    assert (report.added, report.changesets, report.dry_run) == (8, 0, True)
    assert two.snapshots.identity() == own
    assert two.snapshots.reserve(0) == 0
    assert two.changesets(10) == []


def test_vectors_of_the_same_embedder_are_reused(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    import_lines(two, _never, export_lines(one, vectors=True), name="f", signature=SIGNATURE)
    assert two.unembedded(10) == []
    assert two.nearest(vector("The entry is app.py"), 1, Scope())[0].score > 0.99


def test_vectors_of_another_embedder_are_recomputed(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    lines = export_lines(one, vectors=True)
    requests: list[str] = []

    def noting(texts: Sequence[str]) -> Matrix:
        requests.extend(texts)
        return embed(texts)

    import_lines(two, noting, lines, name="f", signature="another:one:64")
    assert len(requests) == len(lines) - 1
    assert "Ada: The database is MySQL" in requests


def test_vectors_can_be_left_for_later(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    report = import_lines(two, None, export_lines(one), name="f")
    assert len(two.unembedded(100)) == report.added == 8
    keeper = Keeper(two, EMBEDDER, FixedClock())
    assert keeper.embed_missing() == 8


def _never(texts: Sequence[str]) -> Matrix:
    raise AssertionError(f"embedded: {texts}")


# ── plain facts ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_lines_without_header_are_plain_facts(make: Make) -> None:
    store = make()
    lines = [
        line(text="We deploy on Mondays", project="acme", tags=["deploy"], created_at=1_700_000_000),
        line(text="Said by its number", id=7),
        line(text="We deploy on Mondays", project="acme"),
        line(text="We deploy on Mondays", project="another"),
    ]
    report = import_exported(store, lines, name="facts.jsonl")
    assert (report.read, report.added, report.known) == (4, 3, 1)
    first = everything(store)[-1]
    assert (first.project, first.tags, first.method, first.created_at[:10]) == (
        "acme",
        ("deploy",),
        "import",
        "2023-11-14",
    )
    assert any(item.origin.startswith("lines/facts.jsonl:7:") for item in everything(store))
    before = export_lines(store)
    assert import_exported(store, lines, name="facts.jsonl").added == 0
    assert export_lines(store) == before
    assert import_exported(store, [line(text="Another file of that name", id=7)], name="facts.jsonl").added == 1


def test_error_reports_what_was_imported_before(make: Make) -> None:
    def broken(texts: Sequence[str]) -> Matrix:
        raise Unavailable("The model is not there.", "Nothing was changed.")

    store = make()
    import_lines(store, embed, [line(text="the first")], name="facts.jsonl")
    with pytest.raises(Unavailable) as error_info:
        import_lines(store, broken, [line(text="a"), line(text="b")], name="facts.jsonl")
    assert error_info.value.hint == "Nothing was changed."  # and it is stored

    def facts() -> Iterator[Fact]:
        yield from (Fact(text=f"fact {n}", origin=f"mem0/{n}") for n in range(BATCH))
        raise StoreError("The disk is full.", "Nothing was changed.")

    with pytest.raises(StoreError, match="disk is full") as stopped:
        import_facts(store, embed, facts(), name="mem0")
    assert "were imported (500); `cofio undo 2`" in stopped.value.hint
    assert "Run it again" in stopped.value.hint


def test_concurrent_imports_of_plain_facts_add_no_duplicates(tmp_path: Path) -> None:
    other = open_store(tmp_path / "other.db")
    fill(other)
    lines = export_lines(other)
    first, second = open_store(tmp_path / "one.db"), open_store(tmp_path / "one.db")

    def meanwhile(texts: Sequence[str]) -> Matrix:
        first.set_signature(SIGNATURE)
        if not first.snapshots.counts()[0]:
            import_exported(second, lines)  # another process imports while this one embeds
        return embed(texts)

    report = import_lines(first, meanwhile, lines, name="file.jsonl", signature=SIGNATURE)
    assert (report.added, report.known) == (0, len(lines) - 1)
    assert export_lines(first) == lines
    for item in (other, first, second):
        item.close()


def test_unknown_field_is_an_invalid_line(make: Make) -> None:
    with pytest.raises(BadRecord, match="Line 2: A fact has no field tag"):
        import_exported(make(), [line(text="a"), line(text="b", tag="x")])


def test_repeated_import_adds_no_occurrences(make: Make) -> None:
    store = make()
    mine = add(store, "We deploy on Mondays")
    report = import_facts(store, embed, [Fact(text="we deploy on  mondays", origin="mem0/1")], name="mem0")
    assert (report.added, report.known) == (0, 1)
    assert store.get([mine.id]) == [mine]


def test_imported_and_deleted_fact_stays_deleted(make: Make) -> None:
    store = make()
    facts = [Fact(text="We deploy on Mondays", origin="mem0/1")]
    import_facts(store, embed, facts, name="mem0")
    apply(store, Delete(1))
    assert import_facts(store, embed, facts, name="mem0").known == 1
    assert store.page(EVERYTHING, limit=10)[1] == 1


def test_texts_are_redacted(make: Make) -> None:
    store = make()
    secret = "password=" + "hunter2x"
    about = {"raw": [secret, {"deep": secret}], "n": 1}
    facts = [Fact(text=f"Use {secret}", context=f"say {secret}", metadata=about, origin="mem0/1")]
    import_facts(store, embed, facts, name="mem0")
    (kept,) = everything(store)
    clean = "password=[redacted:password]"
    assert (kept.text, kept.context) == (f"Use {clean}", f"say {clean}")
    assert kept.metadata == {"raw": [clean, {"deep": clean}], "n": 1}


# ── undo of a series ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("small_batches")
def test_undo_names_the_blocking_change_and_can_be_resumed(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    add(two, "own")
    report = import_exported(two, export_lines(one))
    assert report.first is not None
    keeper = Keeper(two, EMBEDDER, FixedClock())
    changed = keeper.update(by_text(two)["The database is MySQL"].id, text="The database was MySQL")
    with pytest.raises(Conflict, match="3 of the 4 changesets are undone") as error_info:
        keeper.undo(report.first)
    assert f"Undo changeset {changed.changeset} first" in error_info.value.hint
    keeper.undo(changed.changeset)
    keeper.undo(report.first)
    assert sorted_texts(two) == ["own"]
    with pytest.raises(Conflict, match="undone already"):
        keeper.undo(report.first)


# ── kills ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_IMPORTER = """
import sys
from pathlib import Path
from cofio.transfer import importer as importing
from cofio.transfer.jsonl_format import JsonlFile as Lines
from tests.transfer.fixtures import embed, open_store
importing.BATCH = 20
store = open_store(Path(sys.argv[1]))
lines = Lines(Path(sys.argv[2]))
importing.import_lines(store, embed, lines, name="file", progress=lambda done: print(done, flush=True))
"""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("copy", [True, False])
def test_repeatedly_killed_import_is_complete(make: Make, tmp_path: Path, copy: bool) -> None:
    one, two = make(), make()
    for number in range(200):
        old = add(one, f"the port of service {number} is {number}")
        apply(one, Update(old.id, Fact(text=f"the port of service {number} is {9000 + number}")))
    lines = export_lines(one)
    file = tmp_path / "export.jsonl"
    file.write_text("".join(lines))
    if not copy:
        add(two, "own")
    kills = 0
    while kills < 8:
        command = [sys.executable, "-c", _IMPORTER, str(tmp_path / "1.db"), str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as victim:
            assert victim.stdout
            for _ in range(random.randint(1, 12)):
                assert victim.stdout.readline()  # number of batches that were started
            time.sleep(random.uniform(0, 0.02))
            victim.kill()
            kills += 1
    report = import_exported(two, lines)
    assert report.read == 400
    assert export_lines(two) == lines if copy else len(everything(two)) == 401
    here = by_text(two)
    for number in range(200):
        old, new = (here[f"the port of service {number} is {port}"] for port in (number, 9000 + number))
        assert (old.superseded_by, new.supersedes) == (new.id, old.id)
