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
from cofio.ingest.sanitize.token_patterns import find_tokens
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
    heads = list(_PEM_HEAD.finditer(text))
    for place, head in enumerate(heads):
        limit = heads[place + 1].start() if place + 1 < len(heads) else len(text)
        tail = _PEM_TAIL.search(text, head.end(), limit)
        if tail and _PEM_LINE.search(text, head.end(), tail.start()):
            yield "private-key", head.start(), tail.end()
        elif not tail and (body := _PEM_BODY.match(text, head.end(), limit)) and body.end() > head.end() + 15:
            yield "private-key", head.start(), body.end()


def _find_aws_secrets(text: str) -> Iterator[Span]:
    for match in _AWS_SECRET.finditer(text):
        if looks_random(match[1]):
            yield "aws-secret", *match.span(1)
    for match in _BESIDE_AWS_ID.finditer(text):
        if all(re.search(kind, match[1]) for kind in ("[a-z]", "[A-Z]", "[0-9]")):
            yield "aws-secret", *match.span(1)


def _find_header_secrets(text: str) -> Iterator[Span]:
    for match in _BASIC.finditer(text):
        if _is_basic(match[1]):
            yield "basic-auth", *match.span(1)
    for match in _CURL_USER.finditer(text):
        if match[1] != match[2] and looks_secret(match[2], "set", of_password=True):
            yield "basic-auth", *match.span(2)
    for match in _BEARER.finditer(text):
        start, end = match.span(match.lastindex or 0)
        value = text[start:end]
        if looks_random(value) and looks_secret(value, "set", of_password=False):
            yield "bearer-token", start, end


def _find_option_passwords(text: str) -> Iterator[Span]:
    """Yield passwords given by one-letter command options."""
    for match in _SHELL_PASSWORD.finditer(text):
        value = value_at(text, match.end())
        if value and looks_secret(text[value[0] : value[1]], "quoted" if value[2] else "set", of_password=True):
            yield "password", value[0], value[1]


def _find_cookies(text: str) -> Iterator[Span]:
    """Yield session ids, in cookie headers and in assignments to a session id."""
    for line in _COOKIES.finditer(text):
        for match in _COOKIE.finditer(text, *line.span("cookies")):
            least = 8 if _OF_SESSION.search(match["name"]) else 24
            if len(match["value"]) >= least and _is_cookie(match["value"]):
                yield "session-cookie", *match.span("value")
    for match in _SESSION.finditer(text):
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
    for match in _URL.finditer(text):
        user, password, host = match.groups()
        is_harmless = (
            len(password) < 3
            or password.lower() in (user.lower(), "password", "pass", "pw", "pwd")
            or _HARMLESS_HOST.fullmatch(host)
        )
        if not is_harmless and not _URL_FILLER.search(password):
            yield "url-password", *match.span(2)


_PEM_HEAD = lazy_re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_TAIL = lazy_re.compile(r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_LINE = lazy_re.compile(r"[A-Za-z0-9+/=]{16}")
#: Lines of base64, plain or in a diff, a quotation or a string, with headers of an encrypted key.
_PEM_BODY = lazy_re.compile(
    r"(?:(?:\\[nr]|[\s>+|\"',\\]){0,40}"
    r"(?:(?:Proc-Type|DEK-Info|Comment|Version): [^\n\\]{0,100}|[A-Za-z0-9+/]{24,}={0,2}|[A-Za-z0-9+/]{1,23}={1,2}))*"
)
_AWS_SECRET = lazy_re.compile(
    r"(?i:aws.{0,30}(?:secret|key)|secret.?access.?key)"
    r"[\"'`\s:=>\w\\]{0,20}?[\"'`\s:=>]([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
)
#: The secret next to the id of the key, which may be redacted already.
_BESIDE_AWS_ID = lazy_re.compile(
    r"(?:A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])|\[redacted:aws-access-key\]).{1,60}?"
    r"(?<![A-Za-z0-9/+=])([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    re.DOTALL,
)
_AWS_HINTS = ("aws", "secret", "akia", "asia")
_HEADER_HINTS = ("basic ", '"auth', "_auth", "bearer", "authorization", "curl")
_BASIC = lazy_re.compile(
    r"(?i:basic[ \t]+|[\"_]auth\\{0,7}[\"']?[ \t]*[:=][ \t]*\\{0,7}[\"']?)([A-Za-z0-9+/]{8,}={0,2})(?![A-Za-z0-9+/])"
)
_BEARER = lazy_re.compile(
    r"(?i)\bbearer[ \t]+([\w.~+/-]{8,}=*)"
    r"|\bauthorization\\?[\"']?[ \t]*[:=][ \t]*\\?[\"']?(?:(?:token|api-?key|key)[ \t]+)?([\w.~+/-]{12,}=*)"
)
_CURL_USER = lazy_re.compile(r"\bcurl\b[^\n]{0,300}?[ \t](?:-u|--user)[ =]?[\"']?([^\s:\"']{1,100}):([^\s\"']{1,200})")
_SHELL_PASSWORD = lazy_re.compile(
    r"\b(?:(?:mysql|mariadb)[a-z-]{0,8}\b[^\n]{0,200}?[ \t]-p(?=[^\s])|sshpass[ \t]+-p[ \t]*"
    r"|(?:docker|podman|nerdctl|helm|oc|az)[ \t][a-z \t]{0,20}login\b[^\n]{0,200}?[ \t]-p[ =]?"
    r"|mongo[a-z]{0,10}\b[^\n]{0,200}?[ \t]-p[ \t]?|redis-cli\b[^\n]{0,200}?[ \t]-a[ \t])"
)
_COOKIES = lazy_re.compile(r"(?i)\bcookies?\\{0,7}[\"']?[ \t]*[:=][ \t]*\\{0,7}[\"']?(?P<cookies>[^\n]{1,8000})")
_COOKIE = lazy_re.compile(r"(?<![\w.%$-])(?P<name>[\w.%$-]{1,80})=(?P<value>[^\s;,\"'`\\<>|)]{8,4000})")
_OF_SESSION = lazy_re.compile(r"(?i)sess|sid\b|auth|token|jwt|remember|csrf|xsrf|login")
_SESSION = lazy_re.compile(
    r"(?i)(?<![a-z0-9])(?:php|j|asp\.net_)?sess(?:ion)?[_-]?id=(?!(?:[0-9a-f]+-){4})(?P<value>[^\s;,&\"'`\\<>|)]{16,4000})"
)
#: The password may contain an @: the last one before the host counts.
_URL = lazy_re.compile(r"://([^\s:/@\"'<>`]{0,100}):([^\s/\"'<>`]{1,200})@([A-Za-z0-9_.\[\]{}$-]{1,253})")
_URL_FILLER = lazy_re.compile(r"(?i)^\$|\$\{|\{\{|^[<{%\[(]|\*{3}|^x{3,}|\.\.\.|…|\[redacted|your[-_]?|^change[-_]?me$")
_HARMLESS_HOST = lazy_re.compile(
    r"(?i)localhost|127\.[\d.]+|0\.0\.0\.0|\[?::1\]?|(?:[\w-]+\.)*example(?:\.(?:com|org|net))?|host\.docker\.internal"
    r"|(?:host|hostname|server|db|database)|.*[{}$].*"
)

_NO_WIDTH = lazy_re.compile("[\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff]")
_DISGUISE = lazy_re.compile(rf"{_NO_WIDTH.pattern}|[\uff01-\uff5e]|\\{{1,7}}u(?![dD][89a-fA-F])([0-9a-fA-F]{{4}})")
_WIDE = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}
