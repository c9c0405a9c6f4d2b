"""Imports into stores that hold something already: nothing is lost, nothing comes twice, whatever stops them."""

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
from tests.transfer.fixtures import SIGNATURE, embed, exported, fill, imported, opened

Make = Callable[[], Store]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """New stores, as many as are wanted."""
    made: list[Store] = []

    def new() -> Store:
        made.append(opened(tmp_path / f"{len(made)}.db"))
        return made[-1]

    yield new
    for each in made:
        each.close()


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "BATCH", 2)


def said(store: Store) -> list[str]:
    return sorted(memory.text for memory in everything(store))


def by_text(store: Store) -> dict[str, Memory]:
    return {memory.text: memory for memory in everything(store)}


def line(**about: Any) -> str:
    return json.dumps(about) + "\n"


# ── into a store that has memories of its own ─────────────────────────────────────────────────────────────────────────


def test_ids_that_collide_are_new_here_and_links_follow(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    own = [add(two, f"own {number}") for number in range(20)]
    told = imported(two, exported(one))
    theirs, ours = by_text(one), by_text(two)
    assert told.added == len(theirs)
    assert two.get([each.id for each in own]) == own
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


def test_twice_is_once(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    add(two, "own")
    lines = exported(one)
    imported(two, lines)
    before, changes = exported(two), two.changesets(100)
    told = imported(two, lines)
    assert (told.added, told.known, told.changesets, told.first) == (0, len(lines) - 1, 0, None)
    assert exported(two) == before
    assert two.changesets(100) == changes


def test_a_grown_export_brings_what_is_new_with_its_links(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    add(two, "own")
    imported(two, exported(one))
    add(two, "own and later")  # the ids right above the first import are taken
    old = add(one, "old")
    apply(one, Update(old.id, Fact(text="new")))
    told = imported(two, exported(one))
    assert told.added == 2
    here = by_text(two)
    assert here["old"].superseded_by == here["new"].id
    assert here["new"].supersedes == here["old"].id


def test_what_a_memory_may_replace_is_called_by_its_id_here(make: Make) -> None:
    one, two = make(), make()
    add(two, "own")
    old = add(one, "old")
    add(one, "new", metadata={MAY_REPLACE: [old.id, 77]})
    imported(two, exported(one))
    here = by_text(two)
    assert here["new"].may_replace == [here["old"].id]
    assert here["old"].id != old.id


def test_links_to_what_is_not_in_the_file_are_dropped(make: Make) -> None:
    one, two = make(), make()
    old = add(one, "old")
    new = apply(one, Update(old.id, Fact(text="new"))).changes[0].memory
    add(two, "own")
    imported(two, [each for each in exported(one) if f'"id":{new.id},' not in each])
    assert by_text(two)["old"].superseded_by is None
    assert by_text(two)["old"].archived


@pytest.mark.usefixtures("small_batches")
def test_it_goes_on_after_a_stop_at_any_batch(make: Make) -> None:
    one, whole = make(), make()
    fill(one)
    add(whole, "own")
    lines = exported(one)
    batches = imported(whole, lines).changesets
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
        told = imported(two, lines)
        assert (told.added, told.known) == (len(lines) - 1 - 2 * stop, 2 * stop)
        assert said(two) == said(whole)
        theirs, ours = by_text(one), by_text(two)
        for text, memory in theirs.items():
            link = memory.superseded_by and one.get([memory.superseded_by])[0].text
            assert (ours[text].superseded_by and two.get([ours[text].superseded_by or 0])[0].text) == link
        assert imported(two, lines).added == 0


@pytest.mark.usefixtures("small_batches")
def test_a_copy_that_was_stopped_is_byte_for_byte_when_it_went_on(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    lines = exported(one)
    with pytest.raises(BadRecord, match="Line 6"):
        imported(two, [*lines[:5], "half a line"])
    assert len(everything(two)) == 4
    imported(two, lines)
    assert exported(two) == lines


@pytest.mark.usefixtures("small_batches")
def test_two_imports_of_the_same_at_once_bring_nothing_twice(make: Make, tmp_path: Path) -> None:
    one, two = make(), make()
    fill(one)
    lines = exported(one)
    add(two, "own")
    met = threading.Barrier(2)

    def embedding(texts: Sequence[str]) -> Matrix:
        with suppress(threading.BrokenBarrierError):
            met.wait(2)  # both have looked, neither has written
        return embed(texts)

    def importing_it() -> None:
        store = opened(tmp_path / "1.db")
        with suppress(Conflict):  # whoever comes second stops, and would go on
            import_lines(store, embedding, lines, name="file")
        store.close()

    threads = [threading.Thread(target=importing_it) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    imported(two, lines)
    assert said(two) == sorted([*said(one), "own"])


def test_what_came_by_way_of_another_store_is_known_when_it_comes_itself(make: Make) -> None:
    a, b, c = make(), make(), make()
    fill(a)
    for store in (b, c):
        add(store, "own of both")
    imported(b, exported(a))
    add(b, "of b")
    imported(c, exported(b))
    number = len(everything(c))
    assert imported(c, exported(a)).added == 0
    assert imported(c, exported(b)).added == 0
    assert len(everything(c)) == number == len(everything(b)) + 1
    assert imported(a, exported(b)).added == 2  # what is b's; a's own come home and are known
    assert len(everything(a)) == len(everything(b))


# ── into the same store ───────────────────────────────────────────────────────────────────────────────────────────────


def test_into_the_same_store_only_what_is_gone_comes_back_under_its_id(make: Make) -> None:
    store = make()
    fill(store)
    lines = exported(store)
    gone = by_text(store)["The entry is app.py"]
    apply(store, Purge(gone.id))
    apply(store, Edit(1, {"text": "edited since"}))
    told = imported(store, lines)
    assert (told.added, told.known) == (1, len(lines) - 2)
    assert store.get([gone.id]) == [gone]
    assert store.get([1])[0].text == "edited since"


def test_two_copies_that_went_on_apart_lose_nothing(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    imported(two, exported(one))
    add(one, "only in one")
    old = add(two, "only in two, old")  # the same id as the other's
    apply(two, Update(old.id, Fact(text="only in two, new")))
    told = imported(one, exported(two))
    assert told.added == 2
    assert said(one) == sorted({*said(two), "only in one"})
    here = by_text(one)
    assert here["only in two, old"].superseded_by == here["only in two, new"].id
    assert here["only in two, new"].supersedes == here["only in two, old"].id
    assert imported(one, exported(two)).added == 0


# ── bad lines ─────────────────────────────────────────────────────────────────────────────────────────────────────────

GOOD = {"id": 1, "text": "good", "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
HEADER = {"cofio": "export", "version": 1, "store": "s", "memories": 2, "last_id": 2}
BAD = {
    "It is not JSON": "{half\n",
    "The file ends in the middle": '{"id": 2, "te',
    "not an object": "[1]\n",
    "no text": line(**{**GOOD, "text": None}),
    "no created_at": line(id=2, text="t", updated_at="2026-01-01"),
    "text is int": line(**{**GOOD, "text": 7}),
    "tags is str": line(**GOOD, tags="x"),
    "kind is": line(**GOOD, kind="nonsense"),
    "confidence is": line(**GOOD, confidence=2),
    "not a time": line(**GOOD, archived_at="yesterday"),
    "pinned is": line(**GOOD, pinned="yes"),
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
def test_a_bad_line_stops_the_import_and_says_which_and_why(make: Make, problem: str) -> None:
    store = make()
    lines = [line(**HEADER), line(**GOOD), BAD[problem]]
    with pytest.raises(BadRecord, match=r"^Line 3: ") as caught:
        imported(store, lines)
    assert problem in caught.value.message
    assert "--skip-bad" in caught.value.hint
    assert "were imported (1); `cofio undo 1`" in caught.value.hint
    assert said(store) == ["good"]
    mended = {**GOOD, "id": 2, "text": "mended"}
    assert imported(store, [*lines[:2], line(**mended)]).added == 1
    assert said(store) == ["good", "mended"]


@pytest.mark.parametrize("problem", BAD)
def test_bad_lines_can_be_passed_over_and_are_shown(make: Make, problem: str) -> None:
    store = make()
    last = {**GOOD, "id": 3, "text": "the last"}
    bad = BAD[problem] if BAD[problem].endswith("\n") else BAD[problem] + "\n"
    told = imported(store, [line(**HEADER), line(**GOOD), bad, line(**last)], skip_bad=True)
    assert (told.read, told.added, told.skipped) == (2, 2, 1)
    assert told.bad[0].startswith("Line 3: ")
    assert said(store) == ["good", "the last"]


def test_what_is_not_utf8_or_too_long_for_memory_is_a_bad_line(make: Make, tmp_path: Path) -> None:
    file = tmp_path / "export.jsonl"
    good = line(**HEADER).encode(), line(**GOOD).encode()
    last = line(**{**GOOD, "id": 2, "text": "the last"}).encode()
    file.write_bytes(b"".join([*good, b'{"text": "\xff"}\n', b"x" * (MAX_LINE + 100) + b"\n", b"\n", last]))
    store = make()
    told = import_lines(store, embed, JsonlFile(file), name="f", skip_bad=True)
    assert [each.partition(": ")[2] for each in told.bad] == ["It is not UTF-8.", "It is longer than 16,777,216 bytes."]
    assert said(store) == ["good", "the last"]


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ({**HEADER, "version": 3}, "newer cofio"),
        ({**HEADER, "version": "1"}, "version is"),
        ({**HEADER, "store": ""}, "has no store name"),
        ({**HEADER, "cofio": "backup"}, "backup"),
    ],
)
def test_a_header_that_is_not_understood_stops_before_anything_is_done(
    make: Make, header: dict[str, Any], problem: str
) -> None:
    store = make()
    with pytest.raises(BadRecord, match="Line 1") as caught:
        imported(store, [line(**header), line(**GOOD)], skip_bad=True)
    assert problem in caught.value.message
    assert everything(store) == []


def test_a_first_line_that_is_broken_is_never_passed_over(make: Make) -> None:
    with pytest.raises(BadRecord, match="Line 1"):
        imported(make(), ["{half\n", line(**GOOD)], skip_bad=True)


def test_a_file_that_ends_early_says_how_many_are_missing(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    assert imported(two, exported(one)[:-2]).missing == 2


def test_an_empty_file_brings_nothing(make: Make) -> None:
    assert imported(make(), []).read == 0


def test_lines_that_can_be_read_only_once_are_refused(make: Make) -> None:
    with pytest.raises(InvalidInput, match="only once"):
        imported(make(), iter([line(**HEADER)]))  # type: ignore[arg-type]


# ── dry runs and vectors ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_dry_run_tells_the_same_and_changes_nothing(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    own = two.snapshots.identity()
    told = imported(two, exported(one), dry_run=True)
    assert (told.added, told.changesets, told.dry_run) == (8, 0, True)
    assert two.snapshots.identity() == own
    assert two.snapshots.reserve(0) == 0
    assert two.changesets(10) == []


def test_vectors_of_the_same_embedder_are_kept_and_nothing_is_embedded(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    import_lines(two, _never, exported(one, vectors=True), name="f", signature=SIGNATURE)
    assert two.unembedded(10) == []
    assert two.nearest(vector("The entry is app.py"), 1, Scope())[0].score > 0.99


def test_vectors_of_another_embedder_are_made_again(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    lines = exported(one, vectors=True)
    asked: list[str] = []

    def noting(texts: Sequence[str]) -> Matrix:
        asked.extend(texts)
        return embed(texts)

    import_lines(two, noting, lines, name="f", signature="another:one:64")
    assert len(asked) == len(lines) - 1
    assert "Ada: The database is MySQL" in asked


def test_without_embedding_the_vectors_are_left_for_later(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    told = import_lines(two, None, exported(one), name="f")
    assert len(two.unembedded(100)) == told.added == 8
    keeper = Keeper(two, EMBEDDER, FixedClock())
    assert keeper.embed_missing() == 8


def _never(texts: Sequence[str]) -> Matrix:
    raise AssertionError(f"embedded: {texts}")


# ── plain facts ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_lines_without_a_header_are_plain_facts(make: Make) -> None:
    store = make()
    lines = [
        line(text="We deploy on Mondays", project="acme", tags=["deploy"], created_at=1_700_000_000),
        line(text="Said by its number", id=7),
        line(text="We deploy on Mondays", project="acme"),
        line(text="We deploy on Mondays", project="another"),
    ]
    told = imported(store, lines, name="facts.jsonl")
    assert (told.read, told.added, told.known) == (4, 3, 1)
    first = everything(store)[-1]
    assert (first.project, first.tags, first.method, first.created_at[:10]) == (
        "acme",
        ("deploy",),
        "import",
        "2023-11-14",
    )
    assert any(each.origin.startswith("lines/facts.jsonl:7:") for each in everything(store))
    before = exported(store)
    assert imported(store, lines, name="facts.jsonl").added == 0
    assert exported(store) == before
    assert imported(store, [line(text="Another file of that name", id=7)], name="facts.jsonl").added == 1


def test_whatever_stops_an_import_says_what_was_done_until_then(make: Make) -> None:
    def broken(texts: Sequence[str]) -> Matrix:
        raise Unavailable("The model is not there.", "Nothing was changed.")

    store = make()
    import_lines(store, embed, [line(text="the first")], name="facts.jsonl")
    with pytest.raises(Unavailable) as caught:
        import_lines(store, broken, [line(text="a"), line(text="b")], name="facts.jsonl")
    assert caught.value.hint == "Nothing was changed."  # and that is so

    def facts() -> Iterator[Fact]:
        yield from (Fact(text=f"fact {n}", origin=f"mem0/{n}") for n in range(BATCH))
        raise StoreError("The disk is full.", "Nothing was changed.")

    with pytest.raises(StoreError, match="disk is full") as stopped:
        import_facts(store, embed, facts(), name="mem0")
    assert "were imported (500); `cofio undo 2`" in stopped.value.hint
    assert "Run it again" in stopped.value.hint


def test_two_that_import_the_same_at_once_bring_it_once(tmp_path: Path) -> None:
    other = opened(tmp_path / "other.db")
    fill(other)
    lines = exported(other)
    first, second = opened(tmp_path / "one.db"), opened(tmp_path / "one.db")

    def meanwhile(texts: Sequence[str]) -> Matrix:
        first.set_signature(SIGNATURE)
        if not first.snapshots.counts()[0]:
            imported(second, lines)  # another process does it while this one embeds
        return embed(texts)

    told = import_lines(first, meanwhile, lines, name="file.jsonl", signature=SIGNATURE)
    assert (told.added, told.known) == (0, len(lines) - 1)
    assert exported(first) == lines
    for each in (other, first, second):
        each.close()


def test_a_plain_fact_with_fields_that_none_has_is_a_bad_line(make: Make) -> None:
    with pytest.raises(BadRecord, match="Line 2: A fact has no field tag"):
        imported(make(), [line(text="a"), line(text="b", tag="x")])


def test_a_fact_that_is_known_is_not_seen_again_however_often_it_is_imported(make: Make) -> None:
    store = make()
    mine = add(store, "We deploy on Mondays")
    told = import_facts(store, embed, [Fact(text="we deploy on  mondays", origin="mem0/1")], name="mem0")
    assert (told.added, told.known) == (0, 1)
    assert store.get([mine.id]) == [mine]


def test_a_fact_that_was_imported_and_deleted_stays_deleted(make: Make) -> None:
    store = make()
    facts = [Fact(text="We deploy on Mondays", origin="mem0/1")]
    import_facts(store, embed, facts, name="mem0")
    apply(store, Delete(1))
    assert import_facts(store, embed, facts, name="mem0").known == 1
    assert store.page(EVERYTHING, limit=10)[1] == 1


def test_the_words_of_facts_go_through_the_redactor(make: Make) -> None:
    store = make()
    about = {"raw": ["hunter2", {"deep": "hunter2"}], "n": 1}
    facts = [Fact(text="the key is hunter2", context="say hunter2", metadata=about, origin="mem0/1")]
    import_facts(store, embed, facts, name="mem0", redact=lambda text: text.replace("hunter2", "[redacted]"))
    (kept,) = everything(store)
    assert (kept.text, kept.context) == ("the key is [redacted]", "say [redacted]")
    assert kept.metadata == {"raw": ["[redacted]", {"deep": "[redacted]"}], "n": 1}


# ── undo of a series ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("small_batches")
def test_what_is_in_the_way_of_an_undo_is_named_and_it_goes_on_afterwards(make: Make) -> None:
    one, two = make(), make()
    fill(one)
    add(two, "own")
    told = imported(two, exported(one))
    assert told.first is not None
    keeper = Keeper(two, EMBEDDER, FixedClock())
    changed = keeper.update(by_text(two)["The database is MySQL"].id, text="The database was MySQL")
    with pytest.raises(Conflict, match="3 of the 4 changesets are undone") as caught:
        keeper.undo(told.first)
    assert f"Undo changeset {changed.changeset} first" in caught.value.hint
    keeper.undo(changed.changeset)
    keeper.undo(told.first)
    assert said(two) == ["own"]
    with pytest.raises(Conflict, match="undone already"):
        keeper.undo(told.first)


# ── killed ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_IMPORTER = """
import sys
from pathlib import Path
from cofio.transfer import importer as importing
from cofio.transfer.jsonl_format import JsonlFile as Lines
from tests.transfer.fixtures import embed, opened
importing.BATCH = 20
store = opened(Path(sys.argv[1]))
lines = Lines(Path(sys.argv[2]))
importing.import_lines(store, embed, lines, name="file", progress=lambda done: print(done, flush=True))
"""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("copy", [True, False])
def test_an_import_that_is_killed_again_and_again_comes_to_the_same_end(make: Make, tmp_path: Path, copy: bool) -> None:
    one, two = make(), make()
    for number in range(200):
        old = add(one, f"the port of service {number} is {number}")
        apply(one, Update(old.id, Fact(text=f"the port of service {number} is {9000 + number}")))
    lines = exported(one)
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
                assert victim.stdout.readline()  # so many batches were looked at
            time.sleep(random.uniform(0, 0.02))
            victim.kill()
            kills += 1
    told = imported(two, lines)
    assert told.read == 400
    assert exported(two) == lines if copy else len(everything(two)) == 401
    here = by_text(two)
    for number in range(200):
        old, new = (here[f"the port of service {number} is {port}"] for port in (number, 9000 + number))
        assert (old.superseded_by, new.supersedes) == (new.id, old.id)
