"""The words of domain knowledge: what they take, and the ids that are made of what they say."""

from __future__ import annotations

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


def flag(source: str, metric: str = "volume", **known: Any) -> Threshold:
    return Threshold(source=source, metric=metric, value=5e6, direction="above", **known)


@pytest.mark.parametrize(
    ("row", "ref"),
    [
        (flag("AAPL"), "thresholds/aapl.volume.above"),
        (flag("web-1", "disk usage"), "thresholds/web-1.disk_usage.above"),
        (flag("api", "http_requests"), "thresholds/api.http__requests.above"),
        (flag(ANY, "cpu"), "thresholds/~any.cpu.above"),
        (Feedback(anomaly="AAPL 2026-03-11", verdict="note"), "feedback/aapl_2026-03-11"),
    ],
)
def test_an_id_can_be_read(row: Threshold | Feedback, ref: str) -> None:
    assert row.ref == ref


@given(st.lists(st.text("ab1 _-.~*/ßé", min_size=1, max_size=8).filter(str.strip), min_size=2, max_size=2))
def test_what_is_told_apart_has_another_id(names: list[str]) -> None:
    one, other = (flag(name) for name in names)
    assert (one.id == other.id) == (fold(one.source) == fold(other.source))


def test_case_and_white_space_make_no_other_row() -> None:
    assert flag("Web  1").id == flag("web 1").id != flag("web-1").id


def test_what_goes_together_is_one_row_either_way_round_and_a_lead_is_not() -> None:
    def tied(one: str, other: str, relation: str) -> str:
        return Correlation(source_a=one, source_b=other, rule="so", relation=relation).id

    assert tied("BTC", "gold", "with") == tied("gold", "BTC", "with") == "btc.with.gold"
    assert tied("BTC", "gold", "leads") != tied("gold", "BTC", "leads")


def test_the_same_for_other_eyes_is_another_row() -> None:
    ids = {flag("AAPL", **whose).id for whose in ({}, {"user": "ann"}, {"user": "bob"}, {"agent": "bob"})}
    assert len(ids) == 4
    assert flag("AAPL", user="ann", visibility="global").id == flag("AAPL").id


@pytest.mark.parametrize(
    ("table", "given", "message"),
    [
        ("seasonal", {}, "pattern, period is missing."),
        ("patterns", {"source": "AAPL"}, "pattern is missing."),
        ("thresholds", {"source": "AAPL", "colour": "red"}, "thresholds have no colour."),
        ("stars", {}, "There is no table 'stars'."),
        ("patterns", {"pattern": "x", "id": ".."}, "id is '..'."),
        ("patterns", {"pattern": "x", "id": "a/b"}, "id is 'a/b'."),
        ("patterns", {"pattern": "x", "confidence": 1.1}, "confidence is 1.1."),
        ("correlations", {"source_a": "BTC", "source_b": "btc ", "rule": "x"}, "source_a and source_b are both 'BTC'."),
    ],
)
def test_what_is_wrong_is_said(table: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message.replace(".", r"\.")) as caught:
        make_row(table, given)
    assert caught.value.hint


@pytest.mark.parametrize("ref", ["", "thresholds", "thresholds/", "feedback/a", "stars/a", "thresholds/a b", 7])
def test_a_ref_that_names_no_claim_is_refused(ref: Any) -> None:
    with pytest.raises(InvalidInput, match="is not a reference"):
        parse_ref(ref)


def test_patterns_and_seasons_are_named_by_what_they_say() -> None:
    assert Pattern(pattern="Spikes  before earnings").id == Pattern(pattern="spikes before earnings").id
    assert Pattern(pattern="x").id != Seasonal(pattern="x", period="daily").id
