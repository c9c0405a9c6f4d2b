"""Validation of memories, facts, scopes and queries."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from cofio.errors import CofioError, InvalidInput, NotFound, TooLarge, WrongKey, class_for_code
from cofio.models.memory import MAX_TEXT, Fact, Memory, Query, Scope, category_of, merge_scope, same_place, to_utc_iso


@pytest.mark.parametrize(
    ("kind", "category"),
    [
        ("preference", "decision"), ("policy", "decision"), ("technology", "decision"), ("decision", "decision"),
        ("pattern", "learning"), ("correlation", "learning"), ("learning", "learning"), ("temporal", "detail"),
        ("threshold", "detail"), ("observation", "detail"), ("other", "detail"), ("never heard of", "detail"),
    ],
)  # fmt: skip
def test_kind_determines_the_category(kind: str, category: str) -> None:
    assert category_of(kind) == category


def test_explicit_category_overrides_the_kind() -> None:
    assert Fact(text="x", kind="policy").category == "decision"
    assert Fact(text="x", kind="policy", category="learning").category == "learning"
    assert Fact(text="x").category == "detail"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-02-20T06:44:28Z", "2026-02-20T06:44:28.000000+00:00"),
        ("2026-02-20T07:44:28+01:00", "2026-02-20T06:44:28.000000+00:00"),
        ("2026-02-20", "2026-02-20T00:00:00.000000+00:00"),
        (1771569868, "2026-02-20T06:44:28.000000+00:00"),
        (1771569868123, "2026-02-20T06:44:28.123000+00:00"),
        (datetime(2026, 2, 20, 7, 44, 28, tzinfo=timezone(timedelta(hours=1))), "2026-02-20T06:44:28.000000+00:00"),
    ],
)
def test_timestamps_are_normalized_to_utc(value: Any, expected: str) -> None:
    assert to_utc_iso(value) == expected


@pytest.mark.parametrize("value", ["", "yesterday", "2026-13-01", float("nan"), float("inf"), 1e300, True, None, []])
def test_invalid_timestamp_is_rejected_with_the_expected_format(value: Any) -> None:
    with pytest.raises(InvalidInput, match="ISO 8601"):
        to_utc_iso(value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text": ""}, "empty"),
        ({"text": " \n\t "}, "empty"),
        ({"text": "a\x00b"}, "NUL"),
        ({"text": "\ud800"}, "surrogate"),
        ({"text": 5}, "must be a text"),
        ({"text": "x", "source": "a\x00"}, "NUL"),
        ({"text": "x", "project": "a\x00"}, "NUL"),
        ({"text": "x", "confidence": 1.5}, "0 to 1"),
        ({"text": "x", "confidence": True}, "0 to 1"),
        ({"text": "x", "confidence": float("nan")}, "0 to 1"),
        ({"text": "x", "kind": "nonsense"}, "one of"),
        ({"text": "x", "visibility": "public"}, "one of"),
        ({"text": "x", "tags": "a,b"}, "list"),
        ({"text": "x", "tags": [1]}, "must be a text"),
        ({"text": "x", "metadata": []}, "object"),
        ({"text": "x", "metadata": {"a": float("nan")}}, "JSON"),
        ({"text": "x", "metadata": {"a": object()}}, "JSON"),
        ({"text": "x", "metadata": {1: "a"}}, "key that is not a text"),
        ({"text": "x", "metadata": {"a": "\x00"}}, "NUL"),
        ({"text": "x", "metadata": {"a": "\udfff"}}, "surrogate"),
        ({"text": "x", "created_at": "soon"}, "ISO 8601"),
    ],
)
def test_invalid_fact_is_rejected_with_a_message(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Fact(**fields)


def test_text_over_the_limit_is_too_large() -> None:
    assert len(Fact(text="x" * MAX_TEXT).text) == MAX_TEXT
    with pytest.raises(TooLarge, match="At most"):
        Fact(text="x" * (MAX_TEXT + 1))


def test_metadata_cannot_override_fields() -> None:
    fact = Fact(text="x", metadata={"id": 7, "text": "y", "timestamp": "z", "created_at": 1, "mine": 2})
    assert fact.metadata == {"mine": 2}
    assert Fact(text="x", metadata={"project": "theirs"}).metadata == {
        "project": "theirs"
    }  # written before these fields existed


def test_tags_are_stripped_and_deduplicated() -> None:
    assert Fact(text="x", tags=["b", " a ", "b", ""]).tags == ("b", "a")  # type: ignore[arg-type]


def test_memory_round_trips_through_json() -> None:
    memory = Memory(id=3, text="x", tags=("a",), metadata={"k": [1]}, created_at="c", updated_at="u", supersedes=2)
    data = memory.as_dict()
    assert data["timestamp"] == "c"
    assert Memory.from_dict({**data, "field_of_a_later_version": 1}) == memory


@pytest.mark.parametrize(
    ("first_fields", "second_fields", "expected"),
    [
        ({"source": "cc/a"}, {"source": "cc/a"}, True),
        ({"source": "cc/a"}, {"source": "cc/b"}, False),
        ({"source": "cc/a", "project": "/a"}, {"source": "codex/a", "project": "/a"}, True),
        ({"source": "cc/a", "project": "/a"}, {"source": "cc/a", "project": "/b/a"}, False),
        ({"source": "cc/a", "project": "/a"}, {"source": "cc/a"}, False),
        ({"project": "/a", "agent": "one"}, {"project": "/a", "agent": "two"}, False),
        ({"project": "/a", "agent": "one", "visibility": "team"}, {"project": "/a", "visibility": "team"}, True),
        ({"project": "/a", "visibility": "team"}, {"project": "/a"}, False),
        ({"project": "/a", "speaker": "Ann"}, {"project": "/a"}, False),
    ],
)
def test_place_is_the_project_or_else_the_source(first_fields: Any, second_fields: Any, expected: bool) -> None:
    first, second = Fact(text="x", **first_fields), Fact(text="x", **second_fields)
    assert same_place(first, second) is same_place(second, first) is expected


def test_scope_narrows_if_it_names_a_project() -> None:
    assert not Scope().narrows
    for scope in (Scope(project=""), Scope(project="/a"), Scope(visible_in=""), Scope(visible_in="/a")):
        assert scope.narrows
    assert merge_scope(Fact(text="x", project="/a", source="cc/a")).source is None
    assert merge_scope(Fact(text="x", source="cc/a")) == Scope(
        source="cc/a", project="", visibility=("private",), user=""
    )


@pytest.mark.parametrize("k", [0, -1, 1001, True, "5", 2.0])
def test_number_of_hits_is_validated(k: Any) -> None:
    with pytest.raises(InvalidInput):
        Query(text="x", k=k)


def test_empty_query_or_invalid_scope_is_rejected() -> None:
    for build in (
        lambda: Query(text="  "),
        lambda: Scope(category="x"),
        lambda: Scope(since="x"),
        lambda: Scope(project="a\x00"),
        lambda: Scope(visible_in=5),  # type: ignore[arg-type]
        lambda: Scope(visibility=("all",)),
    ):
        with pytest.raises(InvalidInput):
            build()


def test_errors_have_codes_and_hints() -> None:
    assert class_for_code("not_found") is NotFound
    assert class_for_code("wrong_key") is WrongKey
    assert class_for_code("never heard of") is CofioError
    assert str(NotFound("There is no memory 5.", "Look again.")) == "There is no memory 5. Look again."
