"""Stores, memories of every kind, and import and export helpers for the transfer tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from cofio.models.memory import (
    CATEGORIES,
    KINDS,
    METHODS,
    VISIBILITIES,
    Add,
    Adopt,
    Anchor,
    Delete,
    Edit,
    Fact,
    Memory,
    Merge,
    Noop,
    Occurrence,
    Retrieval,
    Update,
    to_utc_iso,
)
from cofio.ports import Matrix, Store
from cofio.stores.sqlite.store import SqliteStore
from cofio.testing import FixedClock
from cofio.text.tokens import embedding_text
from cofio.transfer import export
from cofio.transfer.importer import ImportResult, import_lines
from tests.stores.contract import EMBEDDER, add, apply, vector

SIGNATURE = EMBEDDER.signature


def open_store(path: Path) -> SqliteStore:
    return SqliteStore(path, FixedClock())


def embed(texts: Any) -> Matrix:
    return EMBEDDER.embed(texts, "document")


def export_lines(store: Store, *, vectors: bool = False) -> list[str]:
    return list(export.export_lines(store, vectors=vectors))


def import_exported(store: Store, lines: list[str], name: str = "file.jsonl", **how: Any) -> ImportResult:
    def signing(texts: Any) -> Matrix:
        store.set_signature(SIGNATURE)
        return embed(texts)

    return import_lines(store, signing, lines, name=name, signature=SIGNATURE, **how)


def fill(store: Store) -> None:
    """Add memories with all kinds of histories."""
    store.set_signature(SIGNATURE)
    plain = add(store, "We deploy with Fly.io — «тест» 🌊", source="codex/acme", tags=("deploy",), entities=("Fly.io",))
    fact = Fact(text="The database is MySQL", kind="technology", project="/srv/acme", speaker="Ada")
    old = store.apply([Add(fact)], {0: vector(embedding_text(fact.text, "Ada"))}, by="test", why="").changes[0].memory
    apply(store, Update(old.id, Fact(text="The database is PostgreSQL", kind="technology", project="/srv/acme")))
    apply(store, Edit(plain.id, {"pinned": True, "metadata": {"b": [1, None, 0.5], "a": {"x": "y\n\u2028z"}}}))
    for agent in ("zoe", "ada"):
        apply(store, Noop(plain.id, Occurrence(agent, "s-1", to_utc_iso("2026-03-01T00:00:00Z"))))
    one, two = add(store, "Tests run on PostgreSQL 16"), add(store, "Tests run in parallel")
    merged = Fact(text="Tests run on PostgreSQL 16, in parallel", metadata={"consolidated_from": [one.id, two.id]})
    store.apply([Merge((one.id, two.id), merged)], {0: vector(merged.text)}, by="test", why="consolidate")
    apply(store, Delete(add(store, "Nobody needs this").id, "not needed"))
    anchor = Anchor(kind="file", name="app.py", path="src/app.py", hash="0123")
    add(store, "The entry is app.py", anchors=(anchor,), origin="mem0/8f3a", agent="a", session="s", visibility="team")
    store.note([Retrieval(plain.id, "where do we deploy?", "cli", to_utc_iso("2026-04-01T00:00:00Z"))])


_text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
_said = _text.filter(lambda text: bool(text.strip()))
_time = st.datetimes().map(to_utc_iso)
_label = _text.map(str.strip)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 53), 1 << 53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=6,
)
_sighting = st.builds(Occurrence, _label, _label, _time)


@st.composite
def histories(draw: st.DrawFn) -> list[Adopt]:
    """Draw memories with every field, by ascending id."""
    ids = sorted(draw(st.sets(st.integers(1, 2_000), max_size=8)))
    return [draw(_adopted(memory_id, ids)) for memory_id in ids]


@st.composite
def _adopted(draw: st.DrawFn, number: int, ids: list[int]) -> Adopt:
    others: list[int | None] = [None, *(memory_id for memory_id in ids if memory_id != number)]
    other = st.sampled_from(others)
    fact = Fact(
        text=draw(_said),
        source=draw(_label),
        project=draw(_label),
        kind=draw(st.sampled_from(KINDS)),
        category=draw(st.sampled_from(CATEGORIES)),
        confidence=draw(st.floats(0, 1)),
        method=draw(st.sampled_from(METHODS)),
        entities=tuple(draw(st.lists(_label, max_size=3))),
        tags=tuple(draw(st.lists(_label, max_size=3))),
        session=draw(_label),
        agent=draw(_label),
        visibility=draw(st.sampled_from(VISIBILITIES)),
        metadata=draw(st.dictionaries(_text, _json, max_size=3)),
        speaker=draw(_label),
        context=draw(_text),
        created_at=draw(_time),
        anchors=tuple(draw(st.lists(st.builds(Anchor, kind=_label, name=_text, path=_text, hash=_text), max_size=2))),
        origin=draw(st.just("") | st.just(f"mem0/{number}")),
    )
    memory = Memory(
        id=number,
        **{name: getattr(fact, name) for name in Fact.__dataclass_fields__},
        updated_at=draw(_time),
        pinned=draw(st.booleans()),
        archived_at=draw(st.none() | _time),
        supersedes=draw(other),
        superseded_by=draw(other),
        previous_text=draw(st.none() | _text),
        occurrences=draw(st.integers(1, 1 << 40)),
        retrieval_count=draw(st.integers(0, 1 << 40)),
        last_retrieved_at=draw(st.none() | _time),
    )
    return Adopt(memory, tuple(draw(st.lists(_sighting, max_size=3))))


def add_decisions(*texts: str, **about: Any) -> list[Add]:
    return [Add(Fact(text=text, **about)) for text in texts]
