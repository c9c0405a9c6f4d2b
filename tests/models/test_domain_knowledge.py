"""Rows of domain knowledge: validation and the ids derived from their content."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.errors import InvalidInput
from cofio.models.domain_knowledge import (
    ANY,
    Correlation,
    Feedback,
    Pattern,
    Seasonal,
    Threshold,
    fold,
    make_row,
    parse_ref,
)


def threshold(source: str, metric: str = "volume", **fields: Any) -> Threshold:
    return Threshold(source=source, metric=metric, value=5e6, direction="above", **fields)


@pytest.mark.parametrize(
    ("row", "ref"),
    [
        (threshold("AAPL"), "thresholds/aapl.volume.above"),
        (threshold("web-1", "disk usage"), "thresholds/web-1.disk_usage.above"),
        (threshold("api", "http_requests"), "thresholds/api.http__requests.above"),
        (threshold(ANY, "cpu"), "thresholds/~any.cpu.above"),
        (Feedback(anomaly="AAPL 2026-03-11", verdict="note"), "feedback/aapl_2026-03-11"),
    ],
)
def test_ref_is_readable(row: Threshold | Feedback, ref: str) -> None:
    assert row.ref == ref


@given(st.lists(st.text("ab1 _-.~*/ßé", min_size=1, max_size=8).filter(str.strip), min_size=2, max_size=2))
def test_distinct_names_have_distinct_ids(names: list[str]) -> None:
    first, second = (threshold(name) for name in names)
    assert (first.id == second.id) == (fold(first.source) == fold(second.source))


def test_id_ignores_case_and_white_space() -> None:
    assert threshold("Web  1").id == threshold("web 1").id != threshold("web-1").id


def test_symmetric_correlation_has_one_id_in_both_directions() -> None:
    def correlation_id(source_a: str, source_b: str, relation: str) -> str:
        return Correlation(source_a=source_a, source_b=source_b, rule="so", relation=relation).id

    assert correlation_id("BTC", "gold", "with") == correlation_id("gold", "BTC", "with") == "btc.with.gold"
    assert correlation_id("BTC", "gold", "leads") != correlation_id("gold", "BTC", "leads")


def test_rows_of_different_owners_have_different_ids() -> None:
    ids = {threshold("AAPL", **owner).id for owner in ({}, {"user": "ann"}, {"user": "bob"}, {"agent": "bob"})}
    assert len(ids) == 4
    assert threshold("AAPL", user="ann", visibility="global").id == threshold("AAPL").id


@pytest.mark.parametrize(
    ("table", "fields", "message"),
    [
        ("seasonal", {}, "A row of seasonal lacks pattern, period."),
        ("patterns", {"source": "AAPL"}, "A row of patterns lacks pattern."),
        ("thresholds", {"source": "AAPL", "colour": "red"}, "Rows of thresholds have no field colour."),
        ("stars", {}, "There is no table 'stars'."),
        ("patterns", {"pattern": "x", "id": ".."}, "'..' is not a valid id"),
        ("patterns", {"pattern": "x", "id": "a/b"}, "'a/b' is not a valid id"),
        ("patterns", {"pattern": "x", "confidence": 1.1}, "confidence is 1.1."),
        ("correlations", {"source_a": "BTC", "source_b": "btc ", "rule": "x"}, "source_a and source_b are both 'BTC'."),
    ],
)
def test_invalid_row_raises_with_message_and_hint(table: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message.replace(".", r"\.")) as caught:
        make_row(table, fields)
    assert caught.value.hint


@pytest.mark.parametrize("ref", ["", "thresholds", "thresholds/", "feedback/a", "stars/a", "thresholds/a b", 7])
def test_invalid_ref_is_rejected(ref: Any) -> None:
    with pytest.raises(InvalidInput, match="is not a reference"):
        parse_ref(ref)


def test_id_of_patterns_and_seasons_depends_on_their_text() -> None:
    assert Pattern(pattern="Spikes  before earnings").id == Pattern(pattern="spikes before earnings").id
    assert Pattern(pattern="x").id != Seasonal(pattern="x", period="daily").id


def test_json_form_of_a_row_has_its_fields_only() -> None:
    row = Threshold(source="AAPL", metric="volume", direction="above", value=5e6)
    assert row.as_dict() == {field.name: getattr(row, field.name) for field in fields(row)}
