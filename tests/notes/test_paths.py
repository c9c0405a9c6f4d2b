"""File names of notes and labels of folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.errors import InvalidInput
from cofio.markdown_notes import paths
from cofio.markdown_notes.paths import FolderPath
from cofio.models.memory import Memory

AT = "2026-01-31T23:59:59.999999+00:00"


def name_of(text: str, memory_id: int = 12) -> str:
    return paths.note_name(Memory(id=memory_id, text=text, created_at=AT, updated_at=AT))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("We deploy with Fly.io.", "We deploy with Fly.io (12).md"),
        ("one two three four five six seven eight nine ten", "one two three four five six seven eight nine (12).md"),
        ("First line\nsecond line", "First line (12).md"),
        ("../../etc/passwd", "etc passwd (12).md"),
        (".hidden", "hidden (12).md"),
        ("a/b: c* <d>? | #e [[f]] \"g\" `h`", "a b c d e f g h (12).md"),
        ("???", "Memory (12).md"),
        ("x" * 500, "Memory (12).md"),
        ("e\u0301te\u0301", "\u00e9t\u00e9 (12).md"),
    ],
)  # fmt: skip
def test_note_name_has_first_words_and_id(text: str, name: str) -> None:
    assert name_of(text) == name


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1))
def test_random_text_makes_a_valid_file_name(text: str) -> None:
    name = name_of(text, 1 << 60)
    assert name == Path(name).name
    assert not name.startswith((".", " ", "-"))
    assert len(name.encode()) < 255
    assert not set(name) & set('\\/:*?"<>|#^[]\n\r\0')


@pytest.mark.parametrize("label", ["", "vault", "my notes", "übung"])
def test_folder_key_round_trips(label: str) -> None:
    for path in ("/home/ada/vault", "/srv/a=b/c", "/x"):
        place = FolderPath(label, Path(path))
        assert FolderPath.of(place.key) == place


def test_source_contains_the_label() -> None:
    assert FolderPath("", Path("/n")).source("a/b.md") == "file:a/b.md"
    assert FolderPath("wiki", Path("/n")).source("a/b.md") == "file:wiki/a/b.md"


@pytest.mark.parametrize("label", ["a/b", "a=b", "a,b", "a\nb", "x" * 300])
def test_invalid_label_is_rejected(label: str) -> None:
    with pytest.raises(InvalidInput):
        paths.label_of(label)


def test_label_defaults_to_the_folder_name() -> None:
    assert paths.free_label(Path("/srv/docs"), []) == "docs"
    assert paths.free_label(Path("/srv/docs"), ["docs", "docs-2", "x"]) == "docs-3"
    assert paths.free_label(Path("/srv/a=b,c"), []) == "a b c"
    assert paths.free_label(Path("/"), []) == "notes"


def test_hour_is_taken_from_the_timestamp() -> None:
    assert paths.hour_of(AT) == "2026-01-31-23"
