"""Search for named secrets: the word password, token or key, and the value next to it.

    password: … | my password is … | "api_key": "…" | <password>…</password> | name: DB_PASSWORD, value: …
    use … as the password | our credentials are admin and …

This module finds the value and its syntactic form; `secret_heuristics` decides whether it is a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import TypeAlias

from cofio.ingest.sanitize.secret_heuristics import Put, is_plain_word, looks_random, looks_secret
from cofio.text import lazy_re

Span: TypeAlias = tuple[str, int, int]  # kind, start, end


def find_labelled_secrets(text: str, low: str) -> Iterator[Span]:
    """Yield the values of named passwords, tokens and keys. `low` is the text in lower case."""
    if any(word in low for word in _KEY_HINTS) or (not low.isascii() and any(word in low for word in _FOREIGN_HINTS)):
        yield from chain(
            _find_named(text, low), _find_elements(text), _find_long_hex(low), _find_value_first(text, low)
        )
    if any(word in low for word in _LOGIN_HINTS):
        yield from _find_logins(text)


def _find_named(text: str, low: str) -> Iterator[Span]:
    """Yield values that follow their name."""
    last = 0
    for match in _KEY.finditer(low):
        span = None if match.start() < last or not _is_key(text, low, match) else value_at(text, match.end())
        if span is None:
            continue
        start, end, quoted = span
        value, put = text[start : min(end, start + _LONGEST)], _put(text, low, match, quoted)
        if _fits(value, match, put, low) or (put == "noted" and _is_noted_word(text, match, start, end)):
            rest = None if quoted or end - start < _LONGEST else _REST.match(text, end)
            last = rest.end() if rest else end
            yield "password", start, last


def _fits(value: str, match: re.Match[str], put: Put, low: str) -> bool:
    """Return whether the value is a secret, given its name. "key" has many meanings, so it needs a clear value."""
    name = match["name"]
    if name == "key":
        return put in ("noted", "told", "told in quotes") and _is_key_value(
            value, low[max(0, match.start() - 24) : match.start()]
        )
    return looks_secret(value, put, of_password=name.startswith(_PASSWORDS) and not (name == "pass" and match["verb"]))


def _is_key_value(value: str, before: str) -> bool:
    if not looks_random(value) or not re.fullmatch(r"[\w+/=-]{16,}", value) or _UUID.fullmatch(value):
        return False
    if all(re.search(kind, value) for kind in ("[a-z]", "[A-Z]", r"\d")):
        return True
    return len(value) >= 20 and re.search(r"[a-z][ \t]$", before) is not None and not _NO_SECRET_KEY.search(before)


def _is_noted_word(text: str, match: re.Match[str], start: int, end: int) -> bool:
    """Return whether a plain word is a password note: on a line or in a column of its own, with no text after it."""
    if "=" in match["op"] or not match["op"].endswith((" ", "\t")):  # "user, password = split(line)"
        return False
    if match["name"] == "pass" or not match["name"].startswith(_PASSWORDS):
        return False
    if not is_plain_word(text[start:end]) or _MORE_IS_SAID.match(text, end):
        return False
    # "Password: Dragon" is a note; "password: Hash" is a field and its type.
    of_type = text[start].isupper() and not text[match.start()].isupper()
    return not of_type and _LABEL.search(text[max(0, match.start() - 40) : match.start()]) is not None


def _is_key(text: str, low: str, match: re.Match[str]) -> bool:
    """Return whether the word names a secret: it is neither inside another word nor a cursor."""
    start = match.start()
    inside = start > 0 and text[start - 1].isalnum() and text[start].islower() and not match["op"]
    return not inside and not low[max(0, start - 14) : start].rstrip(" _-").endswith(_OPEN)


def _put(text: str, low: str, match: re.Match[str], quoted: bool) -> Put:
    """Return the form in which the value follows this key."""
    if match["pair"]:
        return "quoted" if quoted else "set"
    if quoted and match["op"] and not match["down"]:
        return "quoted"
    before = low[max(0, match.start() - 60) : match.start()]
    if _OPTION.search(before):
        return "option" if match["gap"] else "set"
    if match["gap"] and _IN_USE.search(before):
        return "told"
    if match["gap"] or match["down"]:
        return "beside"
    if match["verb"]:
        return "told in quotes" if quoted else "told"
    if "=" not in match["op"] or " " in match["op"]:
        return "noted"
    return "declared" if text[match.start()].isupper() else "set"


def value_at(text: str, place: int) -> tuple[int, int, bool] | None:
    """Return start and end of the value that begins here, and whether it is quoted."""
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


def _find_elements(text: str) -> Iterator[Span]:
    """Yield the content of XML elements named like a password or token."""
    for match in _ELEMENT.finditer(text):
        if looks_secret(match["value"], "quoted", of_password=match["name"].lower().startswith(_PASSWORDS)):
            yield "password", *match.span("value")


def _find_long_hex(low: str) -> Iterator[Span]:
    """Yield long hexadecimal values of secret settings such as SECRET_KEY_BASE, but no hashes and ids."""
    for match in _HEX_SETTING.finditer(low):
        before = _NAME_BEFORE.search(low[max(0, match.start() - 40) : match.start()])
        name = (before[0] if before else "") + match["name"]
        if name != "key" and not _NO_SECRET_KEY.search(name):
            yield "password", *match.span("value")


def _find_value_first(text: str, low: str) -> Iterator[Span]:
    """Yield values before their name: "we use … as the shared secret"."""
    for match in _AS_SECRET.finditer(low):
        before = _LAST_WORD.search(text[max(0, match.start() - _LONGEST) : match.start()])
        of_password = match["name"].startswith(_PASSWORDS)
        if before and looks_secret(before["value"], "told", of_password=of_password):
            start = match.start() - len(before[0]) + before.start("value") - before.start()
            yield "password", start, start + len(before["value"])


def _find_logins(text: str) -> Iterator[Span]:
    """Yield the password of a login pair: "our credentials are admin and …", "creds: bob/…"."""
    for match in _LOGIN.finditer(text):
        span = value_at(text, match.end())
        put: Put = "noted" if match["noted"] else "told"
        value = text[span[0] : span[1]][:_LONGEST] if span else ""
        if span and value != match["user"] and looks_secret(value, put, of_password=True):
            yield "password", span[0], span[1]


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_LONGEST = 120  # characters of a value that are examined; the rest is redacted with them
_KEY_HINTS = (*"pass pwd pw: pw= secret token key wort contrase senha wachtwoord heslo".split(), "pw is")
_FOREIGN_HINTS = ("hasło", "пароль", "密码", "密碼", "パスワード")
_PASSWORDS = ("pass", "pw", "kennwort", "contra", "mot", "senha", "wacht", "hes", "has", "пар", "密", "パ")
#: Prefixes of tokens that are cursors or public.
_OPEN = tuple(
    "public publickey public_key next page nextpage continuation scroll sync cursor pagination resume".split()
)
#: Names of keys and tokens that are identifiers or public.
_NO_SECRET_KEY = lazy_re.compile(
    r"public|cache|hash|digest|fingerp|thumbp|checksum|primary|foreign|partition|idempot|dedup|commit|version|lookup|etag"
    r"|md5|cursor|(?<![a-z])(?:next|page|sha\d*|sort|range|object|row|index|shard|routing|request|trace|span|message|block"
    r"|contract|address|map|dict|sync|bucket|group|record|document|issue|s3|redis|ids?|name|path|file|type)(?![a-z])|id$"
)
_UUID = lazy_re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_KEY = lazy_re.compile(
    r"""
    (?P<name> pass(?:word|wd|phrase|code|wort|(?<![a-z]pass)(?=["'`\])*]{0,3}[ \t]*[=:]|[ \t]is[ \t]))
      | pwd | pw(?<![a-z]pw)(?=[ \t]*[=:]|[ \t]is[ \t]) | kennwort | contrase(?:ñ|n\u0303?)a | mot\ de\ passe | senha
      | wachtwoord | heslo | hasło | пароль | 密[码碼] | パスワード
      | secret(?:[ _-]?(?:access[ _-]?)?key)? | token | api[ _-]?key | access[ _-]?key | private[ _-]?key
      | auth[ _-]?key | encryption[ _-]?key | signing[ _-]?key | master[ _-]?key | key(?<![a-z]key) )
    (?: [_-]?(?:prod|production|staging|dev|test|live|new|old|value|default|main|primary|secondary|base64|b64)
      | _?\d{1,2} )?
    (?![a-z0-9_-])
    (?: [ \t]?\([^()\n]{1,40}\) )?
    (?: (?P<pair> \\{0,7}["']? ,? (?:\\{1,7}[nr]|[\s+>]){1,60} \\{0,7}["']? value \\{0,7}["']? [ \t]*[:=][ \t]* )
      | (?P<op> \\{0,7}["'`\])*]{0,3} [ \t]*
          (?: :[ \t]*&?(?:str|string|bytes|text|any|secretstr)(?:[ \t]*\|[ \t]*(?:none|null|undefined))?[ \t]*=(?![=~>])
            | => | := | \?= | [=:](?![=:~>]) )
          [ \t]* \*{0,2} [ \t]* (?P<down> \n[ \t]* )? )
      | (?P<verb> (?:[ \t]+(?:for|of|on|in|at|from|to|für|fuer|von|vom|zum|zur|im|auf|pour|de|du|des|sur|para|del|en|do)
            [ \t](?:[^\n.:=]|\.(?=\w)){1,60}?)?
          [ \t]+ (?:is|was|are|will[ ]be|ist|lautet|est|es|é|je|jest|это)
          (?:[ \t]+(?:now|still|currently|set[ ]to|just|again|jetzt|maintenant|ahora))? [ \t]*[:=]? [ \t]+
          | [ \t]+(?:to|[–—-])[ \t]+ | ['’]s[ \t]+ | [ \t]?[是は][ \t]?(?=[!-~]) )
      | (?P<gap> [ \t]+ ) )
    """,
    re.VERBOSE,
)
_OPTION = lazy_re.compile(r"--[\w-]*$")
#: "with user deploy and password …", "we use the password …"
_IN_USE = lazy_re.compile(
    r"\b(?:(?:user(?:name)?|login|account|as)[ \t:=]+\S{1,40}[ \t]*(?:,|/|and|with|und|et|y)?"
    r"|use|uses|using|with|mit|avec|con)[ \t]+(?:(?:the|das|dem|le|la)[ \t]+)?$"
)
_QUOTED = lazy_re.compile(r"[bru]{0,2}(?P<mark>\\{0,7}[\"']|`{1,2})(?P<value>(?:\\.|[^\n\\]){1,400}?)(?P=mark)")
_BARE = lazy_re.compile(r"\\{0,7}[\"'`]{0,2}(?P<value>[^\s\"'`]{1,120})")
_REST = lazy_re.compile(r"[^\s\"'`]*")
#: Ends of a bare value besides white space: the next setting of a list, a tag, an escaped line break.
_STOP = lazy_re.compile(r"[&;,|](?=[\w .-]{1,40}[=:])|</|<[a-z][\w-]{0,40}>|\\+[nrt\"]")

#: Beginning of a note: a line, a column or a list, with up to three words that say what it is for.
_LABEL = lazy_re.compile(r"(?:^|[\n|>({\[\"'`*+,;:/•-]|\\[nrt])[ \t]*(?:[^\W_][\w.'-]{0,20}[ \t]+){0,3}[\"'`*_]{0,3}$")
_MORE_IS_SAID = lazy_re.compile(r"[ \t]+[\w(=<$'\"]|[(\[=_<$](?!/)|[/:-]\w")

_ELEMENT = lazy_re.compile(
    r"<(?:\w{1,20}:)?(?:[a-z]{1,20}[_.-]?){0,2}?(?P<name>passw(?:or)?d|passphrase|pwd|secret(?:[_-]?key)?|token|api[_-]?key)"
    r"(?:\s[^<>]{0,200})?>\s{0,20}(?:<!\[CDATA\[)?(?P<value>[^<>\n]{4,200}?)\s{0,20}(?:\]\]>)?</",
    re.IGNORECASE,
)
_HEX_SETTING = lazy_re.compile(
    r"(?P<name>(?:secret|token|key)[\w-]{0,40})\\{0,7}[\"'`\])*]{0,3}[ \t]*(?:=>|:=|[=:](?![=:]))[ \t]*"
    r"\\{0,7}[\"'`]?(?P<value>0x[0-9a-f]{64}|[0-9a-f]{32,512})(?![\w-])"
)
_NAME_BEFORE = lazy_re.compile(r"[\w-]+$")
_AS_SECRET = lazy_re.compile(
    r" as[ \t]+(?:the|our|my|a|an|its|their)[ \t]+(?:[\w-]{1,30}[ \t]+){0,3}?"
    r"(?P<name>password|passphrase|passcode|pwd|pw|secret|token|key)\b"
    r"(?![ \t_-]+(?!(?:for|on|in|of|to|and|when|everywhere|there|with|but|at|by)\b)\w)"  # "as the password hash"
)
_LAST_WORD = lazy_re.compile(r"(?<![^\s\"'`(])(?P<value>[^\s\"'`(]{6,120})[\"'`]?[ \t]*$")
_LOGIN_HINTS = ("cred", "log in", "login", "logged in")
_LOGIN = lazy_re.compile(
    r"(?i)\b(?:cred(?:ential)?s[ \t]*(?:\([^()\n]{1,40}\)[ \t]*)?(?:are|is|(?P<noted>[:=]))"
    r"|log(?:ged)?[ -]?in[ \t]+(?:is|with|as|using))[ \t]*[:=]?[ \t]*"
    r"[\"'`]?(?P<user>[\w.@+-]{1,64})[\"'`]?(?:[ \t]+(?:and|with)[ \t]+|[ \t]*[/:,|][ \t]*)"
)
