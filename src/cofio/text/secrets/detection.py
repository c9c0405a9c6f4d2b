"""Secrets in a text: their positions, and the text without them.

    tokens (vendors' shapes) + private keys + headers + URLs + numbers (cards, accounts) + named passwords
        ─▶ spans ─▶ [redacted:KIND]

Both kinds of error are costly: a stored secret leaks, and a false positive destroys useful text. So a unique shape is
sufficient, while the word "password" needs a value after it that looks like one (`heuristics`). Any long number
passes a checksum now and then, so a card must also have the prefix and length of an issuer, and an account the length
of its country; timestamps, barcodes and message ids do not.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from functools import lru_cache

from cofio.text import lazy_re
from cofio.text.secrets.contexts import find_in_context
from cofio.text.secrets.heuristics import is_placeholder, looks_random, looks_secret
from cofio.text.secrets.labelled import Span, find_labelled_secrets, value_at
from cofio.text.secrets.patterns import PATTERNS, TOKENS

_SHORTEST_TOKEN = 14  # characters
_TOKEN_HINTS = tuple((hint, place) for place, token in enumerate(TOKENS) for hint in token.hints)
_LONGEST_KEY = 16_000  # characters of a private key
_ROUNDS = 8  # a replacement may expose another secret, rarely twice; the bound protects against crafted texts


def redact(text: str) -> str:
    """Return the text with each secret replaced by `[redacted:KIND]`. Redacting it again changes nothing."""
    for _ in range(_ROUNDS):
        secrets = find_secrets(text)
        if not secrets:
            break
        parts, last = [], 0
        for kind, start, end in secrets:
            parts += [text[last:start], f"[redacted:{kind}]"]
            last = end
        text = "".join(parts) + text[last:]
    return text


@lru_cache(maxsize=4096)
def redact_shown(text: str) -> str:
    """As `redact`, for short texts that are shown again and again."""
    return redact(text)


def find_secrets(text: str) -> list[Span]:
    """Return the positions of the secrets, in order; overlapping ones are merged, with the more specific kind."""
    if (text.isascii() and "\\u" not in text) or not _DISGUISE.search(text):
        return _find_spans(text)
    plain, starts, ends = _remove_disguises(text)
    return [(kind, starts[start], ends[end - 1]) for kind, start, end in _find_spans(plain)]


def _remove_disguises(text: str) -> tuple[str, list[int], list[int]]:
    """Return the text without signs that hide a word from a program, and the original place of each character."""
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    last = 0
    for match in _DISGUISE.finditer(text):
        sign = chr(int(match[1], 16)) if match[1] else match[0]
        sign = "" if _NO_WIDTH.match(sign) else sign.translate(_WIDE)
        parts += [text[last : match.start()], sign]
        starts += [*range(last, match.start()), *([match.start()] if sign else [])]
        ends += [*range(last + 1, match.start() + 1), *([match.end()] if sign else [])]
        last = match.end()
    plain = "".join(parts) + text[last:]
    return plain, [*starts, *range(last, len(text))], [*ends, *range(last + 1, len(text) + 1)]


def _find_spans(text: str) -> list[Span]:
    low = text.lower()
    if len(low) != len(text):  # positions must be valid in both
        low = "".join(sign.lower() if sign < "\x80" else sign for sign in text)
    spans: list[Span] = [*find_tokens(text)]
    if "-----" in text:
        spans += _find_private_keys(text)
    if any(word in low for word in _AWS_HINTS):
        spans += _find_aws_secrets(text)
    if any(word in low for word in _HEADER_HINTS):
        spans += _find_header_secrets(text)
    if any(word in low for word in _SHELL_HINTS):
        spans += _find_option_passwords(text)
    if "://" in text:
        spans += _find_url_passwords(text)
    if "cookie" in low or "sess" in low:
        spans += _find_cookies(text)
    if PATTERNS["number_hint"].search(text):
        spans += _find_pii_numbers(text)
    spans += find_labelled_secrets(text, low)
    spans += find_in_context(text, low)
    return _merge(spans) if spans else []


def _merge(spans: list[Span]) -> list[Span]:
    ranked = sorted((start, end, rank, kind) for rank, (kind, start, end) in enumerate(spans))
    merged: list[tuple[int, int, int, str]] = []
    for start, end, rank, kind in ranked:
        if merged and start < merged[-1][1]:
            previous = merged.pop()
            rank, kind = min((previous[2], previous[3]), (rank, kind))
            start, end = previous[0], max(previous[1], end)
        merged.append((start, end, rank, kind))
    return [(kind, start, end) for start, end, _, kind in merged]


def find_tokens(text: str) -> Iterator[Span]:
    """Yield the tokens that vendors made recognisable by a prefix and a length.

    A pattern is searched only if one of its hints is in the text, which is a cheap test.
    """
    if max(map(len, text.split()), default=0) < _SHORTEST_TOKEN:
        return  # true for almost all prose
    for place in sorted({place for hint, place in _TOKEN_HINTS if hint in text}):
        row = TOKENS[place]
        for match in row.pattern.finditer(text):
            start, end = match.span(match.lastindex or 0)
            token = text[start:end]
            if not PATTERNS["token_filler"].search(token) and all(re.search(kind, token) for kind in row.needs):
                yield row.kind, start, end


def _find_private_keys(text: str) -> Iterator[Span]:
    heads = list(PATTERNS["pem_head"].finditer(text))
    for place, head in enumerate(heads):
        limit = heads[place + 1].start() if place + 1 < len(heads) else len(text)
        tail = PATTERNS["pem_tail"].search(text, head.end(), limit)
        if tail and PATTERNS["pem_line"].search(text, head.end(), tail.start()):
            yield "private-key", head.start(), tail.end()
        body = None if tail else PATTERNS["pem_body"].match(text, head.end(), limit)
        if body and body.end() > head.end() + 15:
            yield "private-key", head.start(), body.end()
    end = 0
    for tail in PATTERNS["pem_tail"].finditer(text):  # the end of a key whose beginning was cut off
        if not any(end <= head.start() < tail.start() for head in heads):
            yield "private-key", _find_key_start(text, max(end, tail.start() - _LONGEST_KEY), tail.start()), tail.end()
        end = tail.end()


def _find_key_start(text: str, lowest: int, start: int) -> int:
    """Return where the lines of base64 begin that end at `start`."""
    for line in reversed(text[lowest:start].splitlines(keepends=True)):
        if not PATTERNS["pem_line"].search(line) or " " in line.strip():
            break
        start -= len(line)
    return start


def _find_aws_secrets(text: str) -> Iterator[Span]:
    for match in PATTERNS["aws_secret"].finditer(text):
        if looks_random(match[1]):
            yield "aws-secret", *match.span(1)
    for match in PATTERNS["beside_aws_id"].finditer(text):
        if all(re.search(kind, match[1]) for kind in ("[a-z]", "[A-Z]", "[0-9]")):
            yield "aws-secret", *match.span(1)


def _find_header_secrets(text: str) -> Iterator[Span]:
    for match in PATTERNS["basic_auth"].finditer(text):
        if _is_basic(match[1]):
            yield "basic-auth", *match.span(1)
    for match in PATTERNS["curl_user"].finditer(text):
        if match[1] != match[2] and looks_secret(match[2], "set", of_password=True):
            yield "basic-auth", *match.span(2)
    for match in PATTERNS["bearer"].finditer(text):
        start, end = match.span(match.lastindex or 0)
        if _is_generated(text[start:end]):
            yield "bearer-token", start, end


def _find_option_passwords(text: str) -> Iterator[Span]:
    for match in PATTERNS["shell_password"].finditer(text):
        value = value_at(text, match.end())
        if value and looks_secret(text[value[0] : value[1]], "quoted" if value[2] else "set", of_password=True):
            yield "password", value[0], value[1]


def _find_cookies(text: str) -> Iterator[Span]:
    for line in PATTERNS["cookies"].finditer(text):
        for match in PATTERNS["cookie_pair"].finditer(text, *line.span("cookies")):
            least = 8 if PATTERNS["session_name"].search(match["name"]) else 24
            if len(match["value"]) >= least and _is_generated(match["value"]):
                yield "session-cookie", *match.span("value")
    for match in PATTERNS["session"].finditer(text):
        if _is_generated(match["value"]):
            yield "session-cookie", *match.span("value")


def _is_generated(value: str) -> bool:
    return looks_random(value) and looks_secret(value, "set", of_password=False)


def _is_basic(value: str) -> bool:
    """Return whether the value is "user:password" in base64, which prose never is."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in decoded and decoded.isprintable()


def _find_url_passwords(text: str) -> Iterator[Span]:
    for match in PATTERNS["url_password"].finditer(text):
        user, password, host = match.groups()
        if len(password) < 3 or password.lower() == user.lower() or is_placeholder(password):
            continue
        if not PATTERNS["harmless_host"].fullmatch(host) and not PATTERNS["url_filler"].search(password):
            yield "url-password", *match.span(2)


def _find_pii_numbers(text: str) -> Iterator[Span]:
    for match in PATTERNS["card_number"].finditer(text):
        ends = (match.end(), max(0, match.start("more")))  # the last group may be the security code
        if end := next((place for place in ends if _is_card(text[match.start() : place])), 0):
            yield "card-number", match.start(), end
    for match in PATTERNS["iban"].finditer(text):
        if length := _measure_iban(match[0]):
            yield "iban", match.start(), match.start() + length
    for match in PATTERNS["ssn"].finditer(text):
        yield "ssn", *match.span()


def _is_card(number: str) -> bool:
    """Return whether the number is of a card issuer and passes the Luhn check."""
    digits = number.replace(" ", "").replace("-", "")
    if not PATTERNS["card_issuer"].fullmatch(digits):
        return False
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(int(digit) for digit in digits[-1::-2]) + sum(doubled)) % 10 == 0


def _measure_iban(number: str) -> int:
    """Return the number of characters of an IBAN at the start, including blanks; 0 if there is none."""
    signs = [place for place, sign in enumerate(number, start=1) if sign != " "]
    length = _IBAN_LENGTHS.get(number[:2], 0)
    if not length or len(signs) < length or number[(end := signs[length - 1]) : end + 1].isalnum():
        return 0
    iban = number[:end].replace(" ", "")
    return end if int("".join(str(int(sign, 36)) for sign in iban[4:] + iban[:4])) % 97 == 1 else 0


_AWS_HINTS = ("aws", "secret", "akia", "asia")
_SHELL_HINTS = (
    " -p",
    "redis-cli",
    "pass ",
    "pass=",
    "htpasswd",
    " -u",
    " -w ",
    " login ",
    "echo ",
    "printf ",
    "stdin",
    "with-token",
    "chpasswd",
    "7z",
)
_HEADER_HINTS = ("basic ", '"auth', "_auth", "bearer", "authorization", "curl")

_NO_WIDTH = lazy_re.compile("[\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff]")
_DISGUISE = lazy_re.compile(rf"{_NO_WIDTH.pattern}|[\uff01-\uff5e]|\\{{1,7}}u(?![dD][89a-fA-F])([0-9a-fA-F]{{4}})")
_WIDE = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FO GL NL", 19: "MK SI", 20: "AT BA EE KZ LT LU XK",
        21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS", 23: "AE GI IL IQ", 24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST", 26: "IS TR", 27: "FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HU LB PL SV", 29: "BR PS QA UA",
        30: "JO KW MU", 31: "MT SC", 32: "LC",
    }.items()
    for country in countries.split()
}  # fmt: skip
