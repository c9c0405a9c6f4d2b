"""Mentions: the rows that a prompt names, and the values it states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.domain_knowledge.mentions import MentionedClaim, find_mentions
from cofio.models.domain_knowledge import Claim, Correlation, Knowledge, Pattern, Seasonal, Threshold, name_prefix
from cofio.models.memory import PutRow, Viewer
from cofio.ports import KnowledgeTables
from cofio.testing import FixedClock, MemoryStore


def threshold(source: str, metric: str, value: float, direction: str = "above", **fields: Any) -> Threshold:
    return Threshold(source=source, metric=metric, value=value, direction=direction, **fields)


def correlation(source_a: str, source_b: str, **fields: Any) -> Correlation:
    return Correlation(source_a=source_a, source_b=source_b, rule=f"{source_a} goes with {source_b}", **fields)


def tables_with(*rows: Knowledge) -> KnowledgeTables:
    store = MemoryStore(FixedClock())
    store.apply([PutRow(row) for row in rows], {}, by="test", why="")
    return store.domain


def mentions_in(prompt: str, *rows: Claim) -> list[MentionedClaim]:
    return find_mentions(prompt, tables_with(*rows))


def refs_in(prompt: str, *rows: Claim) -> list[str]:
    return [mention.claim.ref for mention in mentions_in(prompt, *rows)]


# ── Names ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        ("AAPL", "why is aapl down?"),
        ("AAPL", "$AAPL's chart"),
        ("BTC/USD", "is btc-usd moving?"),
        ("web-1", "restart web-1, please"),
        ("New York", "what does new york say?"),
        ("BTC price", "what will BTC do?"),
        ("BTC price", "what will btc do?"),
        ("gold price", "is gold safe?"),
        ("S3 latency p99", "look at S3"),
        ("Zürich", "wie geht es ZÜRICH?"),
        ("ＡＡＰＬ", "AAPL?"),
    ],
)
def test_name_is_found_in_any_case(name: str, prompt: str) -> None:
    assert refs_in(prompt, Pattern(pattern="it moves", source=name))


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        ("AAPL", "why is it down?"),
        ("AAPL", "the AAPLE fell"),
        ("BTC price", "what is the price of the plan?"),
        ("price of oil", "what is the price?"),
        ("New York", "a new feature"),
        ("New York", "york is new"),
        ("New York", "what is new, York?"),
        ("sensor 12", "the sensor is new"),
        ("the office", "where is the file?"),
        ("NOW", "what shall we do now?"),
        ("ALL", "all of it"),
        ("US economy", "tell us everything"),
        ("7", "step 7 fails"),
        ("a", "request"),
    ],
)
def test_common_word_is_not_a_mention(name: str, prompt: str) -> None:
    assert refs_in(prompt, Pattern(pattern="it moves", source=name)) == []


def test_row_without_a_name_is_not_mentioned() -> None:
    assert refs_in("anything moves", Pattern(pattern="anything moves")) == []


@pytest.mark.parametrize("prompt", ["", "   ", "what is it?", "3", "?!", "1 2 3"])
def test_prompt_without_search_terms_needs_no_lookup(prompt: str) -> None:
    class UnusedTables:
        def naming(self, words: Sequence[str], *, viewer: Viewer | None = None) -> list[Knowledge]:
            raise AssertionError(words, viewer)

    assert find_mentions(prompt, UnusedTables()) == []  # type: ignore[arg-type]


def test_code_that_is_a_word_is_case_sensitive_and_needs_its_metric() -> None:
    row = threshold("NOW", "volume", 1e6)
    assert refs_in("NOW volume looks high", row) == [row.ref]
    assert refs_in("what is the volume now?", row) == []
    assert refs_in("DO IT NOW", row) == []


def test_correlation_reports_the_mentioned_sides() -> None:
    row = correlation("BTC price", "COIN stock")
    assert [mention.sides for mention in mentions_in("is COIN stock moving with btc?", row)] == [
        ("BTC price", "COIN stock")
    ]
    assert [(mention.sides, mention.is_complete) for mention in mentions_in("what about COIN?", row)] == [
        (("COIN stock",), False)
    ]


def test_threshold_for_every_source_is_mentioned_by_its_metric() -> None:
    row = threshold("*", "error rate", 5, unit="%")
    assert refs_in("the error_rate is odd", row) == [row.ref]
    assert refs_in("an error", row) == []


def test_thresholds_with_their_metric_come_first_and_firing_ones_before_them() -> None:
    volume, price = threshold("AAPL", "volume", 5e6, confidence=0.3), threshold("AAPL", "price", 200, confidence=0.9)
    delay = threshold("AAPL", "delay", 15, confidence=0.95)
    certain = Pattern(pattern="moves", source="AAPL", confidence=1.0)
    rows = (certain, delay, price, volume)
    assert refs_in("AAPL price is 150, volume is 6M", *rows) == [volume.ref, price.ref, certain.ref, delay.ref]
    assert refs_in("AAPL?", *rows) == [certain.ref, delay.ref, price.ref, volume.ref]


def test_order_of_equal_rows_is_deterministic() -> None:
    rows = [Pattern(pattern=f"moves {number}", source="AAPL") for number in range(9)]
    assert refs_in("AAPL", *rows) == refs_in("AAPL", *reversed(rows))


def test_viewer_gets_only_visible_rows() -> None:
    rows = [Pattern(pattern="ada's", source="AAPL", user="ada"), Pattern(pattern="bob's", source="AAPL", user="bob")]
    shared = Seasonal(pattern="all's", period="daily", source="AAPL", visibility="global")
    mentions = find_mentions("AAPL", tables_with(*rows, shared), Viewer(user="ada"))
    assert sorted(mention.claim.says for mention in mentions) == ["ada's", "all's (daily)"]


def test_both_ends_of_a_long_prompt_are_searched() -> None:
    row = Pattern(pattern="moves", source="AAPL")
    assert refs_in("AAPL\n" + "some text and more " * 5_000, row)
    assert refs_in("some text and more " * 5_000 + "\nAAPL", row)


@given(st.text(max_size=300), st.text(min_size=1, max_size=30))
def test_any_prompt_and_name_can_be_compared(prompt: str, source: str) -> None:
    name = "".join(character for character in source if character.isprintable()).strip()
    if name and not any(0xD800 <= ord(character) <= 0xDFFF for character in name):
        row = threshold(name, "volume", 5)
        for mention in mentions_in(f"{prompt} {name} volume is 6 {prompt}", row):
            assert mention.claim.source == name  # type: ignore[attr-defined]


# ── Values ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "prompt",
    [
        "AAPL volume is 6.2M",
        "AAPL volume: 6.2M",
        "AAPL/volume=6200000",
        "aapl's trading volume is now 6,200,000",
        "volume on AAPL just rose to 6.2M",
        "AAPL did 6.2M in volume",
        "a volume of 6.2M for AAPL",
        "AAPL: price 180, volume 6.2M",
        "AAPL price is 180 and volume is 6.2M.",
        "On 2026-01-02 AAPL volume was 6.2M.",
        "AAPL volume at 9:30 was 6.2M",
        "AAPL volume is 6.2 million shares today",
    ],
)
def test_stated_value_is_compared_with_the_threshold(prompt: str) -> None:
    [mention] = mentions_in(prompt, threshold("AAPL", "volume", 5e6))
    assert mention.fires is not None
    assert mention.fires.value == 6.2e6


@pytest.mark.parametrize(
    "prompt",
    [
        "AAPL volume is 4.9M",
        "AAPL volume is 5M",
        "flag AAPL if volume exceeds 6M",
        "AAPL volume is not 6.2M",
        "is AAPL volume above 6.2M?",
        "AAPL's volume rose by 6.2M",
        "AAPL's volume rose 6.2M",
        "AAPL volume is 3M, TSLA volume is 8M",
        "AAPL has 6.2M fans. What of its volume?",
        "AAPL price is 6.2M, volume is fine",
        "AAPL volume is up 900%",
        "AAPL volume on 2026-01-02",
        "AAPL volume, see 10.1.2.3",
    ],
)
def test_conditional_negated_or_unrelated_value_does_not_fire(prompt: str) -> None:
    [mention] = mentions_in(prompt, threshold("AAPL", "volume", 5e6))
    assert mention.metric
    assert mention.fires is None


def test_number_word_is_not_a_price() -> None:
    [mention] = mentions_in("AAPL price is one of the things I watch", threshold("AAPL", "price", 100, "below"))
    assert mention.fires is None


def test_values_of_several_sources_are_assigned_correctly() -> None:
    rows = [threshold("AAPL", "volume", 5e6), threshold("TSLA", "volume", 5e6), threshold("MSFT", "volume", 5e6)]
    mentions = mentions_in("AAPL volume is 6M, TSLA volume is 3M. MSFT volume is 9M.", *rows)
    assert {mention.claim.source: mention.fires and mention.fires.value for mention in mentions} == {  # type: ignore[attr-defined]
        "AAPL": 6e6,
        "TSLA": None,
        "MSFT": 9e6,
    }


def test_threshold_for_every_source_fires_for_a_named_one() -> None:
    [mention] = mentions_in("cpu load on db-7 is 93%", threshold("*", "cpu load", 90, unit="%"))
    assert mention.fires
    assert mention.fires.value == 93


def test_different_unit_does_not_fire() -> None:
    assert mentions_in("api latency is 300 ms", threshold("api", "latency", 250, unit="ms"))[0].fires
    assert not mentions_in("api latency is 300 s", threshold("api", "latency", 250, unit="ms"))[0].fires
    assert not mentions_in("api latency is 3%", threshold("api", "latency", 250, "below", unit="ms"))[0].fires


# ── Lookup ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_common_word_loads_only_names_that_start_with_it() -> None:
    correlations = [correlation(f"SYM{number} price", f"SYM{number} stock") for number in range(30)]
    hosts = [Pattern(pattern=f"slow {number}", source=f"web-{number}") for number in range(30)]
    oil = correlation("price of oil", "the economy")
    domain = tables_with(*correlations, *hosts, oil)
    ids_for = lambda *words: [row.id for row in domain.naming([name_prefix(words)])]  # noqa: E731
    assert len(domain.naming(["price"])) == 31
    assert (ids_for("price"), ids_for("web"), ids_for("web", "7")) == ([oil.id], [], [hosts[7].id])
    assert [mention.claim.id for mention in find_mentions("is web-7 up?", domain)] == [hosts[7].id]
    assert [mention.sides for mention in find_mentions("what will the economy do?", domain)] == [("the economy",)]
