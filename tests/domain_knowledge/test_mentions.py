"""What a prompt names exactly, and the values that it tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.domain_knowledge.extract.quantities import quantities
from cofio.domain_knowledge.mentions import MentionedClaim, find_mentions
from cofio.models.domain_knowledge import (
    Claim,
    Correlation,
    Knowledge,
    Pattern,
    PutRow,
    Seasonal,
    Threshold,
    name_prefix,
)
from cofio.models.memory import Viewer
from cofio.ports import KnowledgeTables
from cofio.testing import FixedClock, MemoryStore


def threshold(source: str, metric: str, value: float, direction: str = "above", **more: Any) -> Threshold:
    return Threshold(source=source, metric=metric, value=value, direction=direction, **more)


def correlation(one: str, other: str, **more: Any) -> Correlation:
    return Correlation(source_a=one, source_b=other, rule=f"{one} goes with {other}", **more)


def holding(*rows: Knowledge) -> KnowledgeTables:
    store = MemoryStore(FixedClock())
    store.apply([], {}, by="test", why="", knowledge=[PutRow(row) for row in rows])
    return store.domain


def found(prompt: str, *rows: Claim) -> list[MentionedClaim]:
    return find_mentions(prompt, holding(*rows), None, quantities)


def refs(prompt: str, *rows: Claim) -> list[str]:
    return [each.known.ref for each in found(prompt, *rows)]


# ── names ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


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
def test_a_name_stands_in_a_prompt_in_any_case(name: str, prompt: str) -> None:
    assert refs(prompt, Pattern(pattern="it moves", source=name))


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
def test_a_word_in_common_names_nothing(name: str, prompt: str) -> None:
    assert refs(prompt, Pattern(pattern="it moves", source=name)) == []


def test_what_has_no_name_is_never_named() -> None:
    assert refs("anything moves", Pattern(pattern="anything moves")) == []


@pytest.mark.parametrize("prompt", ["", "   ", "what is it?", "3", "?!", "1 2 3"])
def test_a_prompt_without_a_telling_word_is_not_looked_up(prompt: str) -> None:
    class Untouched:
        def naming(self, words: Sequence[str], *, viewer: Viewer | None = None) -> list[Knowledge]:
            raise AssertionError(words, viewer)

    assert find_mentions(prompt, Untouched()) == []  # type: ignore[arg-type]


def test_a_code_that_is_a_word_counts_as_it_is_written_with_its_metric() -> None:
    row = threshold("NOW", "volume", 1e6)
    assert refs("NOW volume looks high", row) == [row.ref]
    assert refs("what is the volume now?", row) == []
    assert refs("DO IT NOW", row) == []


def test_correlations_tell_which_side_is_named() -> None:
    row = correlation("BTC price", "COIN stock")
    assert [each.sides for each in found("is COIN stock moving with btc?", row)] == [("BTC price", "COIN stock")]
    assert [(each.sides, each.whole) for each in found("what about COIN?", row)] == [(("COIN stock",), False)]


def test_a_threshold_for_every_source_is_named_by_its_metric() -> None:
    row = threshold("*", "error rate", 5, unit="%")
    assert refs("the error_rate is odd", row) == [row.ref]
    assert refs("an error", row) == []


def test_thresholds_whose_metric_stands_there_come_first_and_firing_ones_before_them() -> None:
    volume, price = threshold("AAPL", "volume", 5e6, confidence=0.3), threshold("AAPL", "price", 200, confidence=0.9)
    delay = threshold("AAPL", "delay", 15, confidence=0.95)
    sure = Pattern(pattern="moves", source="AAPL", confidence=1.0)
    rows = (sure, delay, price, volume)
    assert refs("AAPL price is 150, volume is 6M", *rows) == [volume.ref, price.ref, sure.ref, delay.ref]
    assert refs("AAPL?", *rows) == [sure.ref, delay.ref, price.ref, volume.ref]


def test_of_equals_the_order_is_the_same_each_time() -> None:
    rows = [Pattern(pattern=f"moves {each}", source="AAPL") for each in range(9)]
    assert refs("AAPL", *rows) == refs("AAPL", *reversed(rows))


def test_a_viewer_is_told_of_what_they_see() -> None:
    rows = [Pattern(pattern="ada's", source="AAPL", user="ada"), Pattern(pattern="bob's", source="AAPL", user="bob")]
    everybody = Seasonal(pattern="all's", period="daily", source="AAPL", visibility="global")
    seen = find_mentions("AAPL", holding(*rows, everybody), Viewer(user="ada"))
    assert sorted(each.known.says for each in seen) == ["ada's", "all's (daily)"]


def test_of_a_long_prompt_both_ends_are_read() -> None:
    row = Pattern(pattern="moves", source="AAPL")
    assert refs("AAPL\n" + "some text and more " * 5_000, row)
    assert refs("some text and more " * 5_000 + "\nAAPL", row)


@given(st.text(max_size=300), st.text(min_size=1, max_size=30))
def test_any_prompt_and_any_name_can_be_compared(prompt: str, source: str) -> None:
    plain = "".join(sign for sign in source if sign.isprintable()).strip()
    if plain and not any(0xD800 <= ord(sign) <= 0xDFFF for sign in plain):
        row = threshold(plain, "volume", 5)
        for each in found(f"{prompt} {plain} volume is 6 {prompt}", row):
            assert each.known.source == plain  # type: ignore[attr-defined]


# ── values ────────────────────────────────────────────────────────────────────────────────────────────────────────────


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
def test_a_value_that_is_told_of_a_metric_is_held_against_the_threshold(prompt: str) -> None:
    [each] = found(prompt, threshold("AAPL", "volume", 5e6))
    assert each.fires is not None
    assert each.fires.value == 6.2e6


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
def test_what_is_compared_denied_or_told_of_something_else_fires_nothing(prompt: str) -> None:
    [each] = found(prompt, threshold("AAPL", "volume", 5e6))
    assert each.metric
    assert each.fires is None


def test_a_number_in_words_is_no_value_of_a_price() -> None:
    [each] = found("AAPL price is one of the things I watch", threshold("AAPL", "price", 100, "below"))
    assert each.fires is None


def test_a_value_of_each_source_is_told_apart() -> None:
    rows = [threshold("AAPL", "volume", 5e6), threshold("TSLA", "volume", 5e6), threshold("MSFT", "volume", 5e6)]
    told = found("AAPL volume is 6M, TSLA volume is 3M. MSFT volume is 9M.", *rows)
    assert {each.known.source: each.fires and each.fires.value for each in told} == {  # type: ignore[attr-defined]
        "AAPL": 6e6,
        "TSLA": None,
        "MSFT": 9e6,
    }


def test_a_threshold_for_every_source_fires_for_one_that_is_named() -> None:
    [each] = found("cpu load on db-7 is 93%", threshold("*", "cpu load", 90, unit="%"))
    assert each.fires
    assert each.fires.value == 93


def test_another_unit_fires_nothing() -> None:
    assert found("api latency is 300 ms", threshold("api", "latency", 250, unit="ms"))[0].fires
    assert not found("api latency is 300 s", threshold("api", "latency", 250, unit="ms"))[0].fires
    assert not found("api latency is 3%", threshold("api", "latency", 250, "below", unit="ms"))[0].fires


# ── what is looked up ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_common_word_brings_up_only_the_names_that_open_with_it() -> None:
    many = [correlation(f"SYM{each} price", f"SYM{each} stock") for each in range(30)]
    hosts = [Pattern(pattern=f"slow {each}", source=f"web-{each}") for each in range(30)]
    oil = correlation("price of oil", "the economy")
    domain = holding(*many, *hosts, oil)
    by = lambda *words: [each.id for each in domain.naming([name_prefix(words)])]  # noqa: E731
    assert len(domain.naming(["price"])) == 31
    assert (by("price"), by("web"), by("web", "7")) == ([oil.id], [], [hosts[7].id])
    assert [find_mention.known.id for find_mention in find_mentions("is web-7 up?", domain)] == [hosts[7].id]
    assert [find_mention.sides for find_mention in find_mentions("what will the economy do?", domain)] == [
        ("the economy",)
    ]
