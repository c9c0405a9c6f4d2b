"""Secrets in a text: their positions, and the text without them.

    tokens (vendors' shapes) + private keys + headers + URLs + numbers (cards, accounts) + named passwords
        ─▶ spans ─▶ [redacted:KIND]

Both kinds of error are costly: a stored secret leaks, and a false positive destroys useful text. So a unique shape is
sufficient, while the word "password" needs a value after it that looks like one (`secret_heuristics`).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from cofio.ingest.sanitize.labelled_secrets import Span, find_labelled_secrets, value_at
from cofio.ingest.sanitize.pii_numbers import find_pii_numbers
from cofio.ingest.sanitize.secret_heuristics import looks_random, looks_secret
from cofio.ingest.sanitize.secret_patterns import PATTERNS
from cofio.ingest.sanitize.vendor_tokens import find_tokens
from cofio.text import lazy_re

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


def find_secrets(text: str) -> list[Span]:
    """Return the positions of the secrets, in order; overlapping ones are merged, with the more specific kind."""
    if (text.isascii() and "\\u" not in text) or not _DISGUISE.search(text):
        return _find_spans(text)
    plain, starts, ends = _remove_disguises(text)
    return [(kind, starts[start], ends[end - 1]) for kind, start, end in _find_spans(plain)]


def _remove_disguises(text: str) -> tuple[str, list[int], list[int]]:
    """Return the text without disguises, and for each character its start and end in the original text.

    Zero-width characters, full-width letters and escape sequences hide a word from a program.
    """
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
    low = _lower(text)
    spans: list[Span] = [*find_tokens(text)]
    if "-----" in text:
        spans += _find_private_keys(text)
    if any(word in low for word in _AWS_HINTS):
        spans += _find_aws_secrets(text)
    if any(word in low for word in _HEADER_HINTS):
        spans += _find_header_secrets(text)
    if " -p" in low or "redis-cli" in low:
        spans += _find_option_passwords(text)
    if "://" in text:
        spans += _find_url_passwords(text)
    if "cookie" in low or "sess" in low:
        spans += _find_cookies(text)
    spans += find_pii_numbers(text)
    spans += find_labelled_secrets(text, low)
    return _merge(spans) if spans else []


def _lower(text: str) -> str:
    """Return the lower case with the same length, so that positions are valid in both."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(sign.lower() if sign < "\x80" else sign for sign in text)


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


# ── blocks, headers, addresses ────────────────────────────────────────────────────────────────────────────────────────


def _find_private_keys(text: str) -> Iterator[Span]:
    """Yield whole PEM blocks, and the remainder of truncated ones."""
    heads = list(PATTERNS["pem_head"].finditer(text))
    for place, head in enumerate(heads):
        limit = heads[place + 1].start() if place + 1 < len(heads) else len(text)
        tail = PATTERNS["pem_tail"].search(text, head.end(), limit)
        if tail and PATTERNS["pem_line"].search(text, head.end(), tail.start()):
            yield "private-key", head.start(), tail.end()
        body = None if tail else PATTERNS["pem_body"].match(text, head.end(), limit)
        if body and body.end() > head.end() + 15:
            yield "private-key", head.start(), body.end()


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
        value = text[start:end]
        if looks_random(value) and looks_secret(value, "set", of_password=False):
            yield "bearer-token", start, end


def _find_option_passwords(text: str) -> Iterator[Span]:
    """Yield passwords given by one-letter command options."""
    for match in PATTERNS["shell_password"].finditer(text):
        value = value_at(text, match.end())
        if value and looks_secret(text[value[0] : value[1]], "quoted" if value[2] else "set", of_password=True):
            yield "password", value[0], value[1]


def _find_cookies(text: str) -> Iterator[Span]:
    """Yield session ids, in cookie headers and in assignments to a session id."""
    for line in PATTERNS["cookies"].finditer(text):
        for match in PATTERNS["cookie_pair"].finditer(text, *line.span("cookies")):
            least = 8 if PATTERNS["session_name"].search(match["name"]) else 24
            if len(match["value"]) >= least and _is_cookie(match["value"]):
                yield "session-cookie", *match.span("value")
    for match in PATTERNS["session"].finditer(text):
        if _is_cookie(match["value"]):
            yield "session-cookie", *match.span("value")


def _is_cookie(value: str) -> bool:
    return looks_random(value) and looks_secret(value, "set", of_password=False)


def _is_basic(value: str) -> bool:
    """Return whether the value is "user:password" in base64, which prose never is."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in decoded and decoded.isprintable()


def _find_url_passwords(text: str) -> Iterator[Span]:
    """Yield passwords in URLs, except for local and example hosts."""
    for match in PATTERNS["url_password"].finditer(text):
        user, password, host = match.groups()
        is_harmless = (
            len(password) < 3
            or password.lower() in (user.lower(), "password", "pass", "pw", "pwd")
            or PATTERNS["harmless_host"].fullmatch(host)
        )
        if not is_harmless and not PATTERNS["url_filler"].search(password):
            yield "url-password", *match.span(2)


_AWS_HINTS = ("aws", "secret", "akia", "asia")
_HEADER_HINTS = ("basic ", '"auth', "_auth", "bearer", "authorization", "curl")

_NO_WIDTH = lazy_re.compile("[\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff]")
_DISGUISE = lazy_re.compile(rf"{_NO_WIDTH.pattern}|[\uff01-\uff5e]|\\{{1,7}}u(?![dD][89a-fA-F])([0-9a-fA-F]{{4}})")
_WIDE = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}
