"""Search for named secrets: the word password, token or key, and the value next to it.

    password: … | my password is … | "api_key": "…" | <password>…</password> | name: DB_PASSWORD, value: …
    use … as the password | our credentials are admin and …

This module finds the value and its syntactic form; `heuristics` decides whether it is a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from cofio.text.secrets.heuristics import ValueForm, is_plain_word, looks_random, looks_secret
from cofio.text.secrets.patterns import PATTERNS

Span: TypeAlias = tuple[str, int, int]  # kind, start, end


def find_labelled_secrets(text: str, low: str) -> Iterator[Span]:
    """Yield the values of named passwords, tokens and keys. `low` is the text in lower case."""
    if any(word in low for word in _KEY_HINTS) or (not low.isascii() and any(word in low for word in _FOREIGN_HINTS)):
        yield from _find_named(text, low)
        for match in PATTERNS["xml_element"].finditer(text):  # elements named like a password or token
            if looks_secret(match["value"], "quoted", of_password=match["name"].lower().startswith(_PASSWORDS)):
                yield "password", *match.span("value")
        yield from _find_long_hex(low)
        yield from _find_value_first(text, low)
    if any(word in low for word in _LOGIN_HINTS):
        yield from _find_logins(text)


def _find_named(text: str, low: str) -> Iterator[Span]:
    last = 0
    for match in PATTERNS["secret_name"].finditer(low):
        name_start = match.start()
        inside_word = name_start > 0 and text[name_start - 1].isalnum() and text[name_start].islower()
        is_open = low[max(0, name_start - 14) : name_start].rstrip(" _-").endswith(_OPEN)
        if name_start < last or (inside_word and not match["op"]) or is_open:
            continue
        if (span := value_at(text, match.end())) is None:
            continue
        start, end, quoted = span
        value, form = text[start : min(end, start + _LONGEST)], _find_form(text, low, match, quoted)
        if _fits(value, match, form, low) or (form == "noted" and _is_noted_word(text, match, start, end)):
            rest = None if quoted or end - start < _LONGEST else PATTERNS["rest_of_value"].match(text, end)
            last = rest.end() if rest else end
            yield "password", start, last


def _fits(value: str, match: re.Match[str], form: ValueForm, low: str) -> bool:
    name = match["name"]
    if name != "key":
        of_password = name.startswith(_PASSWORDS) and not (name == "pass" and match["verb"])
        return looks_secret(value, form, of_password=of_password)
    # "key" has many meanings, so it needs a clear value.
    before = low[max(0, match.start() - 24) : match.start()]
    if form not in ("noted", "stated", "stated in quotes") or not looks_random(value):
        return False
    if not re.fullmatch(r"[\w+/=-]{16,}", value) or PATTERNS["uuid"].fullmatch(value):
        return False
    if all(re.search(kind, value) for kind in ("[a-z]", "[A-Z]", r"\d")):
        return True
    is_after_word = re.search(r"[a-z][ \t]$", before) is not None
    return len(value) >= 20 and is_after_word and not PATTERNS["no_secret_key"].search(before)


def _is_noted_word(text: str, match: re.Match[str], start: int, end: int) -> bool:
    """Return whether a plain word is a password note: on a line or in a column of its own, with no text after it."""
    if "=" in match["op"] or not match["op"].endswith((" ", "\t")):  # "user, password = split(line)"
        return False
    if match["name"] == "pass" or not match["name"].startswith(_PASSWORDS):
        return False
    if not is_plain_word(text[start:end]) or PATTERNS["text_follows"].match(text, end):
        return False
    # "Password: Dragon" is a note; "password: Hash" is a field and its type.
    of_type = text[start].isupper() and not text[match.start()].isupper()
    return not of_type and PATTERNS["note_start"].search(text[max(0, match.start() - 40) : match.start()]) is not None


def _find_form(text: str, low: str, match: re.Match[str], quoted: bool) -> ValueForm:
    if match["pair"]:
        return "quoted" if quoted else "set"
    if quoted and match["op"] and not match["down"]:
        return "quoted"
    before = low[max(0, match.start() - 60) : match.start()]
    if PATTERNS["command_option"].search(before):
        return "option" if match["gap"] else "set"
    if match["gap"] and PATTERNS["use_of_secret"].search(before):
        return "stated"
    if match["gap"] or match["down"]:
        return "beside"
    if match["verb"]:
        return "stated in quotes" if quoted else "stated"
    if "=" not in match["op"] or " " in match["op"]:
        return "noted"
    return "declared" if text[match.start()].isupper() else "set"


def value_at(text: str, place: int) -> tuple[int, int, bool] | None:
    """Return start and end of the value that begins here, and whether it is quoted."""
    if quoted := PATTERNS["quoted_value"].match(text, place):
        return *quoted.span("value"), True
    bare = PATTERNS["bare_value"].match(text, place)
    if not bare:
        return None
    start, end = bare.span("value")
    if stop := PATTERNS["value_end"].search(text, start, end):
        end = stop.start()
    if end - start < _LONGEST:
        end = start + len(text[start:end].rstrip("\\").removesuffix("**").rstrip(".,;:)]}>»"))
    return (start, end, False) if end > start else None


def _find_long_hex(low: str) -> Iterator[Span]:
    """Yield long hexadecimal values of secret settings such as SECRET_KEY_BASE, but no hashes and ids."""
    for match in PATTERNS["hex_setting"].finditer(low):
        before = PATTERNS["name_before"].search(low[max(0, match.start() - 40) : match.start()])
        name = (before[0] if before else "") + match["name"]
        if name != "key" and not PATTERNS["no_secret_key"].search(name):
            yield "password", *match.span("value")


def _find_value_first(text: str, low: str) -> Iterator[Span]:
    """Yield values before their name: "we use … as the shared secret"."""
    for match in PATTERNS["as_secret"].finditer(low):
        before = PATTERNS["last_word"].search(text[max(0, match.start() - _LONGEST) : match.start()])
        of_password = match["name"].startswith(_PASSWORDS)
        if before and looks_secret(before["value"], "stated", of_password=of_password):
            start = match.start() - len(before[0]) + before.start("value") - before.start()
            yield "password", start, start + len(before["value"])


def _find_logins(text: str) -> Iterator[Span]:
    """Yield the password of a login pair: "our credentials are admin and …", "creds: bob/…"."""
    for match in PATTERNS["login_pair"].finditer(text):
        span = value_at(text, match.end())
        form: ValueForm = "noted" if match["noted"] else "stated"
        value = text[span[0] : span[1]][:_LONGEST] if span else ""
        if span and value != match["user"] and looks_secret(value, form, of_password=True):
            yield "password", span[0], span[1]


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_LONGEST = 120  # characters of a value that are examined; the rest is redacted with them
_KEY_HINTS = (
    *"pass pwd pw: pw= secret token key wort contrase senha wachtwoord heslo adgangskode salasana".split(),
    *"clave parol lozinka kodeord geheimnis psk mdp".split(),
    "pw ",
    "cle ",
)
_FOREIGN_HINTS = (
    *"hasło парол lösenord jelszó şifre clé khẩu κωδικός".split(),
    *("비밀번호", "密码", "密碼", "パスワード"),
)
_PASSWORDS = (
    *"pass pw kennwort contra mot senha wacht hes has пар lös adg sal jel şif clave parol kod loz psk mdp".split(),
    *("mật", "κωδ", "비", "密", "パ"),
)
#: Prefixes of tokens that are cursors or public.
_OPEN = tuple(
    "public publickey public_key next page nextpage continuation scroll sync cursor pagination resume".split()
)

_LOGIN_HINTS = ("cred", "log in", "login", "logged in")
