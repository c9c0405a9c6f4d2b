"""Secrets in a text: where they stand, and the text without them.

    tokens (vendors' shapes) + private keys + headers + URLs + what is called a password ─▶ spans ─▶ [redacted:KIND]

Both mistakes cost: a stored secret leaks, and a redactor that cries wolf eats what was worth keeping. So a shape that
nothing else has is enough, while the word "password" needs a value after it that looks like one (`values`).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import TypeAlias

from cofio.hygiene.tokens import tokens
from cofio.hygiene.values import Put, looks_random, looks_secret

Span: TypeAlias = tuple[str, int, int]  # kind, start, end

_ROUNDS = 8  # a replacement may lay bare another secret, hardly ever twice; the bound is for texts made to go on


def redact(text: str) -> str:
    """The text with each secret replaced by `[redacted:KIND]`. To do it twice changes nothing more."""
    for _ in range(_ROUNDS):
        found = secrets(text)
        if not found:
            break
        parts, last = [], 0
        for kind, start, end in found:
            parts += [text[last:start], f"[redacted:{kind}]"]
            last = end
        text = "".join(parts) + text[last:]
    return text


def secrets(text: str) -> list[Span]:
    """Where the secrets stand, in order; those that overlap are one, of the more telling kind."""
    low = _lower(text)
    found: list[Span] = [*tokens(text)]
    if "-----" in text:
        found += _private_keys(text)
    if "aws" in low or "secret" in low:
        found += _aws_secrets(text)
    if any(word in low for word in _HEADER_HINTS):
        found += _headers(text)
    if "://" in text:
        found += _url_passwords(text)
    if any(word in low for word in _KEY_HINTS):
        found += _called_secrets(text, low)
    return _merged(found) if found else []


def _lower(text: str) -> str:
    """Lower case of the same length, so that places mean the same in both."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(sign.lower() if sign < "\x80" else sign for sign in text)


def _merged(found: list[Span]) -> list[Span]:
    ranked = sorted((start, end, rank, kind) for rank, (kind, start, end) in enumerate(found))
    merged: list[tuple[int, int, int, str]] = []
    for start, end, rank, kind in ranked:
        if merged and start < merged[-1][1]:
            was = merged.pop()
            rank, kind = min((was[2], was[3]), (rank, kind))
            start, end = was[0], max(was[1], end)
        merged.append((start, end, rank, kind))
    return [(kind, start, end) for start, end, _, kind in merged]


# ── blocks, headers, addresses ────────────────────────────────────────────────────────────────────────────────────────


def _private_keys(text: str) -> Iterator[Span]:
    """Whole PEM blocks; of one that was cut off, what is left of it."""
    heads = list(_PEM_HEAD.finditer(text))
    for place, head in enumerate(heads):
        limit = heads[place + 1].start() if place + 1 < len(heads) else len(text)
        tail = _PEM_TAIL.search(text, head.end(), limit)
        if tail and _PEM_LINE.search(text, head.end(), tail.start()):
            yield "private-key", head.start(), tail.end()
        elif not tail and (body := _PEM_BODY.match(text, head.end(), limit)) and body.end() > head.end() + 15:
            yield "private-key", head.start(), body.end()


def _aws_secrets(text: str) -> Iterator[Span]:
    for match in _AWS_SECRET.finditer(text):
        if looks_random(match[1]):
            yield "aws-secret", *match.span(1)


def _headers(text: str) -> Iterator[Span]:
    for match in _BASIC.finditer(text):
        if _is_basic(match[1]):
            yield "basic-auth", *match.span(1)
    for match in _CURL_USER.finditer(text):
        if match[1] != match[2] and looks_secret(match[2], "set", of_password=True):
            yield "basic-auth", *match.span(2)
    for match in _SHELL_PASSWORD.finditer(text):
        if looks_secret(match[1], "set", of_password=True):
            yield "password", *match.span(1)
    for match in _BEARER.finditer(text):
        start, end = match.span(match.lastindex or 0)
        value = text[start:end]
        if looks_random(value) and looks_secret(value, "set", of_password=False):
            yield "bearer-token", start, end


def _is_basic(value: str) -> bool:
    """Whether it is "user:password" in base64, as no word of prose is."""
    try:
        told = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in told and told.isprintable()


def _url_passwords(text: str) -> Iterator[Span]:
    """Passwords in addresses, except those of this machine and of examples, which everybody may know."""
    for match in _URL.finditer(text):
        user, password, host = match.groups()
        known = (
            len(password) < 3
            or password.lower() in (user.lower(), "password", "pass", "pw", "pwd")
            or _HARMLESS_HOST.fullmatch(host)
        )
        if not known and not _URL_FILLER.search(password):
            yield "url-password", *match.span(2)


_PEM_HEAD = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_TAIL = re.compile(r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_LINE = re.compile(r"[A-Za-z0-9+/=]{16}")
#: Lines of base64, as they are or in a diff, a quotation or a string; headers of an encrypted key among them.
_PEM_BODY = re.compile(
    r"(?:(?:\\[nr]|[\s>+|\"',\\]){0,40}"
    r"(?:(?:Proc-Type|DEK-Info|Comment|Version): [^\n\\]{0,100}|[A-Za-z0-9+/]{24,}={0,2}|[A-Za-z0-9+/]{1,23}={1,2}))*"
)
_AWS_SECRET = re.compile(
    r"(?i:aws.{0,30}(?:secret|key)|secret.?access.?key)"
    r"[\"'`\s:=>\w\\]{0,20}?[\"'`\s:=>]([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
)
_HEADER_HINTS = ("basic ", '"auth', "_auth", "bearer", "authorization", "curl", "mysql", "mariadb", "sshpass")
_BASIC = re.compile(
    r"(?i:basic[ \t]+|[\"_]auth\\{0,7}[\"']?[ \t]*[:=][ \t]*\\{0,7}[\"']?)([A-Za-z0-9+/]{8,}={0,2})(?![A-Za-z0-9+/])"
)
_BEARER = re.compile(
    r"(?i)\bbearer[ \t]+([\w.~+/-]{8,}=*)"
    r"|\bauthorization\\?[\"']?[ \t]*[:=][ \t]*\\?[\"']?(?:(?:token|api-?key|key)[ \t]+)?([\w.~+/-]{12,}=*)"
)
_CURL_USER = re.compile(r"\bcurl\b[^\n]{0,300}?[ \t](?:-u|--user)[ =]?[\"']?([^\s:\"']{1,100}):([^\s\"']{1,200})")
_SHELL_PASSWORD = re.compile(
    r"\b(?:(?:mysql|mariadb)[a-z-]{0,8}\b[^\n]{0,200}?[ \t]-p|sshpass[ \t]+-p[ \t]*)[\"']?([^\s\"']{4,200})"
)
#: The password may hold an @: the last one before the host counts.
_URL = re.compile(r"://([^\s:/@\"'<>`]{0,100}):([^\s/\"'<>`]{1,200})@([A-Za-z0-9_.\[\]{}$-]{1,253})")
_URL_FILLER = re.compile(r"(?i)^\$|\$\{|\{\{|^[<{%\[(]|\*{3}|^x{3,}|\.\.\.|…|\[redacted|your[-_]?|^change[-_]?me$")
_HARMLESS_HOST = re.compile(
    r"(?i)localhost|127\.[\d.]+|0\.0\.0\.0|\[?::1\]?|(?:[\w-]+\.)*example(?:\.(?:com|org|net))?|host\.docker\.internal"
    r"|(?:host|hostname|server|db|database)|.*[{}$].*"
)

# ── what is called a secret ───────────────────────────────────────────────────────────────────────────────────────────


def _called_secrets(text: str, low: str) -> Iterator[Span]:
    """Values of passwords, tokens and keys, wherever the words say that one follows."""
    last = 0
    for match in _KEY.finditer(low):
        value = None if match.start() < last or not _is_key(text, low, match) else _value(text, match.end())
        if value is None:
            continue
        start, end, quoted = value
        if _fits(text[start : min(end, start + _LONGEST)], match, _put(text, low, match, quoted)):
            rest = None if quoted or end - start < _LONGEST else _REST.match(text, end)
            last = rest.end() if rest else end
            yield "password", start, last


def _fits(value: str, match: re.Match[str], put: Put) -> bool:
    """Whether the value is a secret, given what it is called. Much is called a key, so there it must be plain."""
    if match["name"] != "key":
        return looks_secret(value, put, of_password=match["name"].startswith(_PASSWORDS))
    classes = ("[a-z]", "[A-Z]", r"\d", r"^[\w+/=-]{16,}$")
    return put in ("noted", "told") and all(re.search(kind, value) for kind in classes) and looks_random(value)


def _is_key(text: str, low: str, match: re.Match[str]) -> bool:
    """Whether the word stands for a secret: not as a part of another word in a sentence, not a cursor."""
    start = match.start()
    inside = start > 0 and text[start - 1].isalnum() and text[start].islower() and not match["op"]
    return not inside and not low[max(0, start - 14) : start].rstrip(" _-").endswith(_OPEN)


def _put(text: str, low: str, match: re.Match[str], quoted: bool) -> Put:
    """How the value after this key is put."""
    if quoted and match["op"] and not match["down"]:
        return "quoted"
    before = low[max(0, match.start() - 40) : match.start()]
    if _OPTION.search(before):
        return "option" if match["gap"] else "set"
    if match["gap"] or match["down"]:
        return "beside"
    if match["verb"]:
        return "told"
    if "=" not in match["op"] or " " in match["op"]:
        return "noted"
    return "declared" if text[match.start()].isupper() else "set"


def _value(text: str, place: int) -> tuple[int, int, bool] | None:
    """Start and end of the value that begins here, and whether it stands in quotation marks."""
    if quoted := _QUOTED.match(text, place):
        return *quoted.span("value"), True
    bare = _BARE.match(text, place)
    if not bare:
        return None
    start, end = bare.span("value")
    if stop := _STOP.search(text, start, end):
        end = stop.start()
    if end - start < _LONGEST:
        end = start + len(text[start:end].rstrip("\\").removesuffix("**").rstrip(".,;:)]}>"))
    return (start, end, False) if end > start else None


_LONGEST = 120  # characters of a value that are looked at; the rest goes with them
_KEY_HINTS = ("pass", "pwd", "pw:", "pw=", "secret", "token", "key", "wort", "contrase", "senha", "wachtwoord")
_PASSWORDS = ("pass", "pw", "kennwort", "contra", "mot", "senha", "wacht")
#: Tokens that only say where to go on, or are meant for everybody.
_OPEN = tuple(
    "public publickey public_key next page nextpage continuation scroll sync cursor pagination resume".split()
)

_KEY = re.compile(
    r"""
    (?P<name> pass(?:word|wd|phrase|code|wort|(?<![a-z]pass)(?=["'`\])*]{0,3}[ \t]*[=:]))
      | pwd | pw(?<![a-z]pw)(?=[ \t]*[=:]) | kennwort | contraseña | mot\ de\ passe | senha | wachtwoord
      | secret(?:[ _-]?(?:access[ _-]?)?key)? | token | api[ _-]?key | access[ _-]?key | private[ _-]?key
      | auth[ _-]?key | encryption[ _-]?key | signing[ _-]?key | master[ _-]?key | key(?<![a-z]key) )
    (?: [_-]?(?:prod|production|staging|dev|test|live|new|old|value|default|main|primary|secondary|base64|b64)
      | _?\d{1,2} )?
    (?![a-z0-9_-])
    (?: [ \t]?\([^()\n]{1,40}\) )?
    (?: (?P<op> \\{0,7}["'`\])*]{0,3} [ \t]*
          (?: :[ \t]*&?(?:str|string|bytes|text|any|secretstr)(?:[ \t]*\|[ \t]*(?:none|null|undefined))?[ \t]*=(?![=~>])
            | => | := | \?= | [=:](?![=:~>]) )
          [ \t]* \*{0,2} [ \t]* (?P<down> \n[ \t]* )? )
      | (?P<verb> (?:[ \t]+(?:for|of|on|in|at|from|to)[ \t](?:[^\n.:=]|\.(?=\w)){1,60}?)?
          [ \t]+ (?:is|was|are|will[ ]be|ist|lautet|est|es|é)
          (?:[ \t]+(?:now|still|currently|set[ ]to|just|again))? [ \t]*[:=]? [ \t]+
          | [ \t]+(?:to|[–—-])[ \t]+ | ['’]s[ \t]+ )
      | (?P<gap> [ \t]+ ) )
    """,
    re.VERBOSE,
)
_OPTION = re.compile(r"--[\w-]*$")
_QUOTED = re.compile(r"[bru]{0,2}(?P<mark>\\{0,7}[\"']|`{1,2})(?P<value>(?:\\.|[^\n\\]){1,400}?)(?P=mark)")
_BARE = re.compile(r"\\{0,7}[\"'`]{0,2}(?P<value>[^\s\"'`]{1,120})")
_REST = re.compile(r"[^\s\"'`]*")
#: What ends a bare value besides white space: the next of a list of settings, a tag, a line break written out.
_STOP = re.compile(r"[&;,|](?=[\w .-]{1,40}[=:])|</|<[a-z][\w-]{0,40}>|\\+[nrt\"]")
