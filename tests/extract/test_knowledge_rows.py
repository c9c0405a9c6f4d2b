"""Parsing of sentences about markets, servers and sensors into rows of domain knowledge."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofio.domain_knowledge import seasonal_times
from cofio.domain_knowledge.from_text.extraction import extract_knowledge, facts, read_sentence
from cofio.domain_knowledge.from_text.quantities import quantities
from cofio.models.domain_knowledge import ANY, Seasonal, make_row

# ── Quantities ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("5M", 5e6, ""),
        ("5 million", 5e6, ""),
        ("2.5 M", 2.5e6, ""),
        ("1.2bn", 1.2e9, ""),
        ("1.1k", 1100, ""),
        ("5,000,000", 5e6, ""),
        ("5 000 000", 5e6, ""),
        ("5\u202f000\u202f000", 5e6, ""),
        ("1_000_000", 1e6, ""),
        ("5e6", 5e6, ""),
        ("$5M", 5e6, "$"),
        ("$5m", 5e6, "$"),
        ("€1,250.50", 1250.5, "€"),
        ("40k USD", 40_000, "USD"),
        ("80%", 80, "%"),
        ("80 per cent", 80, "%"),
        ("25 basis points", 25, "bps"),
        ("500 ms", 500, "ms"),
        ("500ms", 500, "ms"),
        ("2 GB", 2, "GB"),
        ("5MB", 5, "MB"),
        ("500 B", 500, "B"),
        ("-3.5", -3.5, ""),
        ("−3.5 °C", -3.5, "°C"),
        (".5", 0.5, ""),
        ("5M shares", 5e6, "shares"),
        ("100 errors a minute", 100, "errors a minute"),
        ("100/s", 100, "/s"),
        ("5 GB/day", 5, "GB/day"),
        ("3 per day", 3, "per day"),
        ("half a million", 500_000, ""),
        ("a million", 1e6, ""),
        ("five hundred", 500, ""),
        ("twelve", 12, ""),
    ],
)
def test_quantity_is_parsed_with_its_unit(text: str, value: float, unit: str) -> None:
    [quantity] = quantities(f"it exceeds {text}, they say")
    assert (quantity.value, quantity.unit) == (value, unit)


@pytest.mark.parametrize(
    "text",
    [
        "5m", "300 K", "3,5", "1.2.3", "v2.3", "2024-01-01", "12/31", "10:30", "5-10", "5–6%", "3x", "5th", "#12",
        "web-1", "20-day", "twenty-five", "1e999", "9" * 400, "5Q", "two x", "10.0.0.1",
    ],
)  # fmt: skip
def test_ambiguous_number_is_not_a_quantity(text: str) -> None:
    assert quantities(f"exceeds {text}") == []


# ── Thresholds ────────────────────────────────────────────────────────────────────────────────────────────────────────

ABOVE, BELOW, AT_LEAST, AT_MOST = ("above", False), ("below", False), ("above", True), ("below", True)

THRESHOLDS = [
    ("flag AAPL if volume exceeds 5M", "AAPL", "volume", ABOVE, 5e6, ""),
    ("Threshold recommendation: flag AAPL if volume exceeds 5M.", "AAPL", "volume", ABOVE, 5e6, ""),
    ("alert when CPU on web-1 is above 90%", "web-1", "CPU", ABOVE, 90, "%"),
    ("warn if latency of the checkout service goes over 300 ms for 5 minutes", "checkout service", "latency", ABOVE,
     300, "ms"),
    ("flag when AAPL's volume > 5M", "AAPL", "volume", ABOVE, 5e6, ""),
    ("flag when AAPL’s volume is > 5M", "AAPL", "volume", ABOVE, 5e6, ""),
    ("Threshold: BTC price below 40k", "BTC", "price", BELOW, 40_000, ""),
    ("alert if free disk on db-2 drops under 10 GB", "db-2", "free disk", BELOW, 10, "GB"),
    ("flag TSLA when price change is at least 5%", "TSLA", "price change", AT_LEAST, 5, "%"),
    ("flag TSLA when price change ≥ 5%", "TSLA", "price change", AT_LEAST, 5, "%"),
    ("flag TSLA when volume <= 100k", "TSLA", "volume", AT_MOST, 100_000, ""),
    ("alert if volume exceeds 5M", ANY, "volume", ABOVE, 5e6, ""),
    ("flag any stock if volume is 5M or more", ANY, "volume", AT_LEAST, 5e6, ""),
    ("flag volume of AAPL if it exceeds 5M", "AAPL", "volume", ABOVE, 5e6, ""),
    ("Flag AAPL volume when above 5M", "AAPL", "volume", ABOVE, 5e6, ""),
    ("Flag AAPL stock if its trading volume tops 5,000,000 shares", "AAPL", "trading volume", ABOVE, 5e6, "shares"),
    ("If volume exceeds 5M, flag AAPL", "AAPL", "volume", ABOVE, 5e6, ""),
    ("AAPL should be flagged if volume exceeds 5M", "AAPL", "volume", ABOVE, 5e6, ""),
    ("For AAPL, flag if volume exceeds 5M", "AAPL", "volume", ABOVE, 5e6, ""),
    ("We should flag BTC/USD when the price falls below $40,000", "BTC/USD", "price", BELOW, 40_000, "$"),
    ("I recommend flagging NVDA if RSI is over 70", "NVDA", "RSI", ABOVE, 70, ""),
    ("flag AAPL if price drops more than 5%", "AAPL", "price change", BELOW, -5, "%"),
    ("flag AAPL if price rises by at least 5%", "AAPL", "price change", AT_LEAST, 5, "%"),
    ("Flag AAPL if volume exceeds 5M, since that preceded the last three drops", "AAPL", "volume", ABOVE, 5e6, ""),
    ("Flag AAPL (Apple) if volume exceeds 5M (twice the usual)", "AAPL", "volume", ABOVE, 5e6, ""),
    ("alert if errors exceed 100 per minute on web-1", "web-1", "errors", ABOVE, 100, "per minute"),
    ("alert when there are more than 100 errors per minute", ANY, "errors", ABOVE, 100, "per minute"),
    ("alert the on-call team if error rate > 1%", ANY, "error rate", ABOVE, 1, "%"),
    ("page us when p99 latency of checkout-api reaches 2 s", "checkout-api", "p99 latency", AT_LEAST, 2, "s"),
    ("alert if the nightly job takes longer than 30 minutes", "nightly job", "duration", ABOVE, 30, "minutes"),
    ("notify ops once the number of connections on db-2 is greater than 500", "db-2", "number of connections", ABOVE,
     500, ""),
    ("alert if memory usage of web-1 does not exceed 5%", "web-1", "memory usage", AT_MOST, 5, "%"),
    ("Raise an alert when freezer 2 temperature climbs above -15 °C", "freezer 2", "temperature", ABOVE, -15, "°C"),
    ("alert if temperature in greenhouse 3 rises above 30 °C", "greenhouse 3", "temperature", ABOVE, 30, "°C"),
    ("warn when humidity in the cold room falls below 40%", "cold room", "humidity", BELOW, 40, "%"),
    ("flag pump-7 if pressure stays under 2 bar for 10 minutes", "pump-7", "pressure", BELOW, 2, "bar"),
    ("Alert if heap usage on jvm-3 stays above 85% for more than 10 minutes.", "jvm-3", "heap usage", ABOVE, 85, "%"),
    ("Warn when disk usage is at 90% or higher.", ANY, "disk usage", AT_LEAST, 90, "%"),
    ("Flag if soil moisture in field B is under 15%.", "field B", "soil moisture", BELOW, 15, "%"),
    ("Threshold for web-1: CPU above 90%", "web-1", "CPU", ABOVE, 90, "%"),
    ("Threshold: latency no more than 300 ms", ANY, "latency", ABOVE, 300, "ms"),
    ("Threshold: keep CPU on web-1 below 90%", "web-1", "CPU", AT_LEAST, 90, "%"),
    ("Threshold: checkout-api latency must not exceed 300 ms", "checkout-api", "latency", ABOVE, 300, "ms"),
    ("AAPL/volume: above 5000000", "AAPL", "volume", ABOVE, 5e6, ""),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "source", "metric", "comparison", "value", "unit"), THRESHOLDS)
def test_threshold_is_parsed(
    sentence: str, source: str, metric: str, comparison: tuple[str, bool], value: float, unit: str
) -> None:
    row = read_sentence(sentence)
    assert row is not None
    assert (row.table, row.denied) == ("thresholds", False)
    direction, inclusive = comparison
    assert row.fields == {
        "source": source, "metric": metric, "value": value, "direction": direction, "inclusive": inclusive, "unit": unit
    }  # fmt: skip
    make_row("thresholds", row.fields)


# ── Correlations ──────────────────────────────────────────────────────────────────────────────────────────────────────

CORRELATIONS = [
    ("Correlation: BTC price leads COIN stock.", "BTC price", "leads", "COIN stock", False),
    ("COIN follows BTC", "BTC", "leads", "COIN", False),
    ("BTC volume predicts COIN price", "BTC volume", "leads", "COIN price", False),
    ("BTC leads COIN by about 2 hours", "BTC", "leads", "COIN", False),
    ("Latency on web-1 lags behind queue depth on web-2", "web-2 queue depth", "leads", "web-1 Latency", False),
    ("db-1 replication lag follows write throughput on db-1", "db-1 write throughput", "leads", "db-1 replication lag",
     False),
    ("AAPL correlates with QQQ", "AAPL", "with", "QQQ", False),
    ("web-1 CPU strongly correlates with db-2 latency", "web-1 CPU", "with", "db-2 latency", False),
    ("AAPL price and MSFT price move together", "AAPL price", "with", "MSFT price", False),
    ("BTC is inversely correlated with DXY", "BTC", "with", "DXY", True),
    ("BTC correlates negatively with DXY", "BTC", "with", "DXY", True),
    ("when BTC price rises, gold price falls", "BTC price", "with", "gold price", True),
    ("when CPU on web-1 rises latency rises", "web-1 CPU", "with", "latency", False),
    ("Indoor humidity falls when outdoor temperature drops", "Indoor humidity", "with", "outdoor temperature", False),
    ("price of BTC leads price of COIN", "BTC price", "leads", "COIN price", False),
    ("Correlation: gold leads silver", "gold", "leads", "silver", False),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "source_a", "relation", "source_b", "inverse"), CORRELATIONS)
def test_correlation_is_parsed(sentence: str, source_a: str, relation: str, source_b: str, inverse: bool) -> None:
    row = read_sentence(sentence)
    assert row is not None
    assert (row.table, row.denied) == ("correlations", False)
    fields = row.fields
    assert (fields["source_a"], fields["relation"], fields["source_b"]) == (source_a, relation, source_b)
    assert fields["inverse"] is inverse
    assert fields["rule"] == sentence.removeprefix("Correlation: ").rstrip(".")
    make_row("correlations", fields)


# ── Patterns and seasons ──────────────────────────────────────────────────────────────────────────────────────────────

SEASONS = [
    ("volume is typically low on Fridays", "weekly", "fri"),
    ("traffic peaks every day between 09:00 and 11:00", "daily", "09:00-11:00"),
    ("sales rise every December", "yearly", "dec"),
    ("load is high at month end", "monthly", "last"),
    ("Pattern: latency spikes on the first Monday of every month", "monthly", "first mon"),
    ("traffic drops on weekends", "weekly", "sat,sun"),
    ("CPU is high on weekdays between 09:00 and 17:00", "weekly", "mon-fri 09:00-17:00"),
    ("errors rise daily from 9 to 11 am", "daily", "09:00-11:00"),
    ("energy consumption typically peaks in January and February", "yearly", "jan,feb"),
    ("demand is typically high from June to August", "yearly", "jun-aug"),
    ("sales always rise in Q4", "yearly", "q4"),
]


@pytest.mark.parametrize(("sentence", "period", "during"), SEASONS)
def test_seasonal_times_are_parsed(sentence: str, period: str, during: str) -> None:
    parsed = read_sentence(sentence)
    assert parsed is not None
    assert (parsed.table, parsed.fields["period"], parsed.fields["during"]) == ("seasonal", period, during)
    row = make_row("seasonal", parsed.fields)
    assert isinstance(row, Seasonal)
    seasonal_times.check(row)


def test_timezone_of_hours_is_parsed() -> None:
    parsed = read_sentence("AAPL volume is usually thin every day from 12:00 to 13:30 ET")
    assert parsed is not None
    assert (parsed.fields["timezone"], parsed.fields["source"]) == ("America/New_York", "AAPL")


@pytest.mark.parametrize(
    ("sentence", "source"),
    [
        ("Observation: AAPL volume spikes consistently before earnings.", "AAPL"),
        ("web-1 typically restarts after a deployment", "web-1"),
        ("Pattern: new thing detected in data", ""),
        ("volume typically rises from 9 to 5pm", ""),
        ("volume typically spikes every other Friday", ""),
        ("Pattern: volume was low on Friday", ""),
        ("Pattern: volume is high on Mondays and low on Fridays", ""),
        ("Pattern: sales rise every December and fall every January", ""),
    ],
)
def test_statement_without_definite_times_is_a_pattern(sentence: str, source: str) -> None:
    parsed = read_sentence(sentence)
    assert parsed is not None
    assert parsed.table == "patterns"
    assert parsed.fields.get("source", "") == source


# ── Denials ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("sentence", "table", "fields"),
    [
        ("do not flag AAPL if volume exceeds 5M", "thresholds",
         {"source": "AAPL", "metric": "volume", "direction": "above", "value": 5e6}),
        ("Do not flag AAPL volume any more", "thresholds", {"source": "AAPL", "metric": "volume"}),
        ("Stop flagging AAPL volume", "thresholds", {"source": "AAPL", "metric": "volume"}),
        ("We no longer flag AAPL", "thresholds", {"source": "AAPL"}),
        ("Don’t alert on CPU of web-1", "thresholds", {"source": "web-1", "metric": "CPU"}),
        ("remove the threshold on AAPL volume", "thresholds", {"source": "AAPL", "metric": "volume"}),
        ("Stop alerting when CPU exceeds 90% on web-1", "thresholds",
         {"source": "web-1", "metric": "CPU", "direction": "above", "value": 90}),
        ("Please stop alerting on CPU", "thresholds", {"source": ANY, "metric": "CPU"}),
        ("BTC no longer leads COIN", "correlations", {"source_a": "BTC", "source_b": "COIN", "relation": "leads"}),
        ("COIN does not follow BTC", "correlations", {"source_a": "BTC", "source_b": "COIN", "relation": "leads"}),
        ("AAPL and MSFT no longer move together", "correlations",
         {"source_a": "AAPL", "source_b": "MSFT", "relation": "with"}),
    ],
)  # fmt: skip
def test_denial_identifies_the_row(sentence: str, table: str, fields: dict[str, object]) -> None:
    parsed = read_sentence(sentence)
    assert parsed is not None
    assert (parsed.table, dict(parsed.fields), parsed.denied) == (table, fields, True)
    assert facts(sentence), "a denial is stored as text too"


# ── Sentences that must not be parsed ─────────────────────────────────────────────────────────────────────────────────

TRAPS = [
    # questions, hypothetical, past, reported
    "Should we flag AAPL if volume exceeds 5M?",
    "Would it help to flag AAPL if volume exceeds 5M?",
    "If we flagged AAPL when volume exceeds 5M we would be swamped",
    "We could flag AAPL if volume exceeds 5M",
    "Maybe flag AAPL if volume exceeds 5M",
    "The old rule was to flag AAPL if volume exceeds 5M",
    "We used to flag AAPL if volume exceeded 5M",
    "Bob wants to flag AAPL if volume exceeds 5M",
    "The vendor says: flag AAPL if volume exceeds 5M",
    "AAPL was flagged when volume exceeded 5M",
    # restricted, or several statements
    "Do not flag AAPL unless volume exceeds 5M",
    "Do not flag AAPL volume until Monday",
    "Flag AAPL if volume exceeds 5M, except on earnings days",
    "Flag AAPL if volume exceeds 5M during market hours",
    "Flag AAPL if volume exceeds 5M today",
    "Never alert on weekends",
    "I'd flag SPY if the VIX rises above 25",
    "Alert if more than 3 hosts are down",
    "Threshold update: lower the AAPL volume threshold to 4M",
    "Flag AAPL and TSLA if volume exceeds 5M",
    "Flag AAPL if volume exceeds 5M and price falls below 100",
    "Flag AAPL if volume is between 1M and 5M",
    "Flag AAPL if volume exceeds 5M to 6M",
    "Flag COIN if BTC price falls below 40k",
    "alert if error rate exceeds 5% in production",
    "flag AAPL if volume exceeds 5M three times",
    # no number, or a number that is not a value
    "Flag AAPL if volume is unusual",
    "Flag AAPL if volume exceeds its 20-day average",
    "Flag AAPL if volume exceeds 2x the average",
    "Flag AAPL if volume exceeds 3 sigma",
    "Flag AAPL if volume exceeds 2021 levels",
    "Flag AAPL if price exceeds 5m",
    "alert if TLS version is below 1.2",
    "alert when Python is older than 3.11.2",
    "flag releases after 2024-01-01",
    "alert when the certificate expires in less than 14 days",
    "alert if web-1 is down for more than 5 minutes",
    "warn if no heartbeat arrives within 30 seconds",
    "alert when the backup starts after 09:30",
    "flag days when volume exceeds 5M",
    # no source or metric
    "Flag TSLA if it exceeds 200",
    "Flag when VIX exceeds 30",
    "flag it if volume exceeds 5M",
    "alert Bob if volume exceeds 5M",
    "Alert fatigue grows when volume exceeds 5M",
    "An alert fired when CPU was above 90%",
    "Flag AAPL if rises over 5%",
    "Threshold: AAPL volume 5M",
    "Threshold: free disk at least 10 GB",
    "Alert if the queue has more than 10,000 messages",
    "Flag AAPL if RSI(14) > 70",
    "Alert if CPU is 10% above baseline",
    "Do not alert the team",
    "Stop flagging false positives",
    # not a correlation
    "BTC leads COIN and MSTR",
    "AAPL follows QQQ and SPY follows VIX",
    "The CEO leads AAPL",
    "AAPL leads tech stocks higher",
    "Does BTC lead COIN?",
    "If BTC leads COIN, we should act",
    "BTC might lead COIN",
    "BTC used to lead COIN",
    "Alice leads the data team",
    "This leads to higher costs",
    "AAPL follows a weekly cycle",
    "COIN follows suit",
    "NVDA leads the way",
    "AAPL leads by 3%",
    "The model predicts AAPL price",
    "Correlation: BTC leads BTC",
    # not a pattern
    "Pattern: none detected today",
    "Pattern: no clear pattern emerged",
    "Always check the logs first",
    "Check the volume every Friday",
    "I always review AAPL on Mondays",
    "volume is not low on Fridays",
    "AAPL volume no longer spikes before earnings",
    "No anomalies detected",
    "Everything looks normal",
    "volume was low on Friday",
    "",
    "?",
    "5M",
]


@pytest.mark.parametrize("sentence", TRAPS)
def test_ambiguous_sentence_is_not_parsed(sentence: str) -> None:
    assert read_sentence(sentence) is None


def test_test_data_is_large_enough() -> None:
    parsed_count = len(THRESHOLDS) + len(CORRELATIONS) + len(SEASONS)
    assert parsed_count + len(TRAPS) >= 80
    assert len(TRAPS) >= 40


# ── Any text ──────────────────────────────────────────────────────────────────────────────────────────────────────────

PIECES = [
    "flag", "alert", "do not", "stop flagging", "if", "when", "AAPL", "web-1", "volume", "price of", "'s", "exceeds",
    "is above", "drops by", "5M", "$", "90%", "300 ms", "for 5 minutes", "leads", "follows", "no longer", "and",
    "correlates with", "rises", "falls", "every", "Friday", "on Fridays", "09:00", "to", "between", "month end",
    "typically", "Threshold:", "Pattern for", ":", ",", ".", "(", ")", "?", "–", "’", "½", "٣", "\u202f", "1e9", "-",
]  # fmt: skip


@given(st.text(max_size=400) | st.lists(st.sampled_from(PIECES), max_size=40).map(" ".join))
def test_any_text_is_parsed_without_error(text: str) -> None:
    quantities(text)
    for knowledge in extract_knowledge(text):
        if knowledge.table and not knowledge.denied:
            row = make_row(knowledge.table, knowledge.fields)
            if isinstance(row, Seasonal):
                seasonal_times.check(row)


@given(st.lists(st.sampled_from(PIECES), max_size=40).map(" ".join))
def test_parsed_row_is_valid(sentence: str) -> None:
    parsed = read_sentence(sentence)
    if parsed is not None and not parsed.denied:
        make_row(parsed.table, parsed.fields)


@pytest.mark.parametrize(
    "piece",
    [
        "flag AAPL if volume exceeds 5M. ", "often ", "flag ", "BTC leads ", "1 000 ", "1,", "every Friday ", "(",
        "'s ", "when it rises ", "of the ", "alert if ", "AAPL/", "a.b-", "typically and ", "no longer ", "for AAPL, ",
        "Threshold: ", "- ", "9",
    ],
)  # fmt: skip
def test_time_is_linear_in_the_length(piece: str) -> None:
    short_text, long_text = (piece * (size // len(piece)) for size in (4_000, 64_000))
    assert seconds(long_text) < 16 * 10 * max(seconds(short_text), 0.005)


@pytest.mark.parametrize("piece", ["5M ", "1. ", "5+ "])
def test_sentence_of_numbers_is_parsed_quickly(piece: str) -> None:
    started = time.process_time()
    for _ in range(20):
        assert read_sentence(("flag AAPL if " + piece * 400)[:990]) is None
    assert time.process_time() - started < 5  # usually 0.2; each call once took a second


def seconds(text: str) -> float:
    started = time.perf_counter()
    extract_knowledge(text)
    read_sentence(text[:1_000])
    quantities(text)
    return time.perf_counter() - started
