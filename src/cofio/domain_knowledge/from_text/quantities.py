"""Quantities as people write them: `5M`, `$1.2bn`, `5 000 000`, `80%`, `500 ms`, `half a million`, `9 errors a minute`.

Ambiguous expressions are skipped: `5m` (million, metres, minutes), `3,5`, `1.2.3`, `2024-01-01`, `5-10`, `3x`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from math import isfinite
from typing import NamedTuple

from cofio.text import lazy_re


class TextQuantity(NamedTuple):
    """Number with its unit as written, and its position in the text."""

    value: float
    unit: str
    start: int
    end: int


def quantities(text: str) -> list[TextQuantity]:
    """Return all quantities in the text, in order."""
    results: list[TextQuantity] = []
    for match in _NUMBER.finditer(text):
        if results and match.start() < results[-1].end:
            continue  # "five hundred" is one quantity
        if quantity := _read(match, text):
            results.append(quantity)
    return results


def _read(match: re.Match[str], text: str) -> TextQuantity | None:
    """Return the quantity that begins with this number; None if it is ambiguous."""
    currency = match["currency"] or ""
    scale, end = _parse_scale(text, match.end(), bool(currency))
    unit, end = _parse_unit(text, end, scaled=scale != 1) if not currency else ("", end)
    code = _CODE.match(text, end) if currency else None
    end = code.end() if code else end
    if unit is None or _GOES_ON.match(text, end):
        return None
    per = _PER.match(text, end)
    value = _parse_value(match, scale)
    if value is None:
        return None
    label = currency or unit
    if per:
        label, end = f"{label}{' ' if label and not per[0].startswith('/') else ''}{per[0].strip()}", per.end()
    return TextQuantity(value, label, match.start(), end)


def _parse_value(match: re.Match[str], scale: int) -> float | None:
    if match["word"]:
        number = _WORDS[" ".join(match["word"].lower().split())]
        if scale == 1 and number < 1:
            return None  # "half" alone
    else:
        number = Decimal(re.sub(r"[,_\s]", "", match["digits"]))
    value = float(number * scale)
    negative = (match["sign"] or match["inner"] or "") in ("-", "−")
    return (-value if negative else value) if isfinite(value) else None


def _parse_scale(text: str, at: int, money: bool) -> tuple[int, int]:
    """Return the factor of the number, and the position after it."""
    match = _SCALE.match(text, at)
    if match is None:
        return 1, at
    if match["word"]:
        return _SCALES[match["word"].lower()], match.end()
    sign = match["sign"]
    if (match["gap"] and sign != "M") or (sign in "mb" and not money):
        return 1, at  # "300 K" and "500 B" have a unit, and "5m" is ambiguous
    return _SCALES[sign], match.end()


def _parse_unit(text: str, at: int, *, scaled: bool) -> tuple[str | None, int]:
    """Return the unit as written and its end; None if it may also be a scale."""
    match = _UNIT.match(text, at)
    if match is None:
        return "", at
    token = match["unit"]
    if longer := _LONGER_UNIT.match(text, at):
        return _SHORT_FOR.get(longer["unit"].lower(), longer["unit"]), longer.end()
    if token.lower() in _SHORT_FOR:
        return _SHORT_FOR[token.lower()], match.end()
    for spelling in (token, token.partition("/")[0]):  # "GB/day" is a unit and a rate
        if spelling in _UNITS or spelling.lower() in _UNIT_WORDS:
            return spelling, match.start("unit") + len(spelling)
    attached = match[0][0] not in " \u00a0\u202f"
    if attached or (token in _EITHER and not scaled):
        return None, at
    return "", at


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_ONES = "zero one two three four five six seven eight nine ten eleven twelve".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_WORDS = {
    **{word: Decimal(number) for number, word in enumerate(_ONES)},
    **{word: Decimal(10 * number) for number, word in enumerate(_TENS, 2)},
    "half a": Decimal("0.5"),
    "a quarter": Decimal("0.25"),
    "a": Decimal(1),
    "fifteen": Decimal(15),
    "hundred": Decimal(100),
}
_BIG = "hundred|thousand|million|billion|trillion"
_SCALES = {
    "k": 10**3, "K": 10**3, "M": 10**6, "MM": 10**6, "m": 10**6, "B": 10**9, "b": 10**9, "T": 10**12,
    "mn": 10**6, "mln": 10**6, "mio": 10**6, "bn": 10**9, "tn": 10**12, "hundred": 100, "thousand": 10**3,
    "million": 10**6, "millions": 10**6, "billion": 10**9, "billions": 10**9, "trillion": 10**12,
}  # fmt: skip
_SCALE = lazy_re.compile(
    rf"[ \u00a0\u202f]?(?P<word>(?i:{_BIG}|millions|billions|mn|mln|mio|bn|tn))(?![\w°])"
    r"|(?P<gap>[ \u00a0\u202f]?)(?P<sign>MM|[kKMmBbT])(?![\w°])"
)
_GROUPED = r"\d{1,3}(?:,\d{3}){1,8}(?:\.\d{1,20})?|\d{1,3}(?:[ \u00a0\u202f]\d{3}){1,8}(?!\d|,\d)(?:\.\d{1,20})?"
_DIGITS = (
    rf"(?:{_GROUPED}|\d{{1,3}}(?:_\d{{3}}){{1,8}}|\d{{1,30}}(?:\.\d{{1,20}})?(?:[eE][+-]?\d{{1,3}})?|\.\d{{1,20}})"
)
_NUMBER = lazy_re.compile(
    r"(?<![\w.,:/#@~^–—-])(?P<sign>[-−+])?(?:(?P<currency>(?:US|A|C)?\$|[€£¥₿₹]) ?)?(?P<inner>[-−])?"
    rf"(?:(?P<digits>{_DIGITS})"
    rf"|(?P<word>(?i:half a|a quarter|a)(?= (?i:{_BIG})\b)|(?i:\b(?:{'|'.join(_ONES + _TENS)}|fifteen|hundred)\b)))"
)
#: Continuations of a number: a version, a date, a time, a range, a multiple, a longer number.
_GOES_ON = lazy_re.compile(
    r"[.,:/]?\d|[-–—/:]\s?[\d$€£]|-[a-z]|\s[–—-]\s\d|\s?(?:x|×)(?!\w)|[A-Za-z_]|\s?[~^*]| to [\d$€£.]"
    rf"|[ -](?:and )?(?:{'|'.join(_ONES + _TENS)}|{_BIG})\b",
    re.I,
)
_CODE = lazy_re.compile(r" ?(?:USD|EUR|GBP|JPY|CHF|CAD|AUD|INR|CNY)\b")
_UNIT = lazy_re.compile(
    r"[ \u00a0\u202f]?(?P<unit>[%‰€£¥₿₹$]|°[CFK]?|[A-Za-zµμΩ][A-Za-z0-9²³]{0,20}(?:/[A-Za-z]{1,8}²?)?)(?!\w)"
)
_LONGER_UNIT = lazy_re.compile(
    r" ?(?P<unit>per cent|percentage points?|basis points?|degrees (?:celsius|fahrenheit|kelvin|[CF]))\b", re.I
)
_SHORT_FOR = {"percent": "%", "pct": "%", "per cent": "%", "basis point": "bps", "basis points": "bps"}
_EITHER = frozenset("m K B b T G g k x sigma σ".split())
_UNITS = frozenset(
    """
    % ‰ € £ ¥ ₿ ₹ $ USD EUR GBP JPY CHF CAD AUD INR CNY BTC ETH
    ns us µs μs ms s sec secs min mins h hr hrs d
    B KB kB MB GB TB PB KiB MiB GiB TiB kb Mb Gb kbps Mbps Gbps kbit Mbit Gbit MB/s GB/s KB/s kB/s Mb/s
    °C °F °K ° C F mm cm km km/h m/s mph kn hPa kPa MPa Pa bar mbar psi V mV kV A mA W kW MW GW Wh kWh MWh Hz kHz MHz
    GHz rpm ppm ppb dB dBm dBA lux lx Ω kΩ N Nm kg mg µg l ml L g/l mg/l µg/m3 m2 m3
    rps qps tps iops req/s requests/s msg/s ops/s errors/s pt pts
    """.split()
)
_UNIT_WORDS = frozenset(
    """
    nanoseconds microseconds milliseconds millisecond seconds second minutes minute hours hour days day weeks week
    months month years year bytes kilobytes megabytes gigabytes terabytes dollars dollar euros euro pounds cents yen
    degrees celsius fahrenheit kelvin metres meters kilometres kilometers litres liters kilograms grams tonnes tons
    volts amps watts kilowatts hertz shares contracts lots units barrels ounces coins tokens points ticks
    requests errors failures exceptions timeouts connections sessions users orders trades messages jobs items events
    queries retries restarts packets threads processes transactions calls records rows files visits clicks
    """.split()
)
_PER = lazy_re.compile(
    r" ?(?:/ ?|per (?=[a-z])| an? (?=[a-z]))(?:second|minute|hour|day|week|month|quarter|year|sec|min|hr|s|h|d)\b", re.I
)
