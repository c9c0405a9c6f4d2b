"""Literal tokens whose exact spelling matters: code, flags, paths, operators, names with inner capitals.

    "use docker ps -a" ─▶ {-a}        "`!user.admin` is checked" ─▶ {!user.admin}

`-d` differs from `-D`, `../dist` from `./dist`, `getUser` from `getUsers`, and `!=` from `=`, however similar the rest.

Pure functions over str.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from cofio.text import lazy_re


def missing_literal(one: str, other: str) -> str:
    """Return why the texts differ in literal tokens: a token that occurs in only one of them; "" if there is none.

    Stricter than `literals`: standalone signs and capitalized abbreviations count too.
    """
    for first, second in ((one, other), (other, one)):
        missing = sorted((literals(first) | signed_tokens(first)) - forms(second))
        if missing:
            return f"only one of them has {missing[0]}"
    return ""


@lru_cache(maxsize=8192)
def literals(text: str) -> frozenset[str]:
    """Return the tokens in backticks, and other tokens with code signs or inner capitals."""
    spans = (part for span in _SPAN.findall(text) for part in span.split())
    return frozenset(map(_normalize, spans)) | code_literals(text)


def code_literals(text: str) -> frozenset[str]:
    """Return the tokens with code signs or inner capitals, in backticks or not."""
    if not _ANYWHERE.search(text):  # fast path: most texts are plain
        return frozenset()
    parts = enumerate(text.split("`"))
    odd = ((token, place % 2) for place, part in parts for token in part.split() if not _PLAIN.match(token))
    cores = (token if quoted else _strip_punctuation(token) for token, quoted in odd)
    return frozenset(_normalize(core) for core in cores if core and _is_coded(core))


@lru_cache(maxsize=8192)
def signed_tokens(text: str) -> frozenset[str]:
    """Return the tokens with signs or in capitals, in backticks or not."""
    return frozenset(
        _normalize(token)
        for token, quoted in _find_tokens(text)
        if _is_coded(token) or _CAPITALS.match(token) or (not _WORD.search(token) and (quoted or token not in _PROSE))
    )


@lru_cache(maxsize=8192)
def forms(text: str) -> frozenset[str]:
    """Return every word and sign of the text in the form used by `literals`."""
    tokens = {_normalize(token) for token, _ in _find_tokens(text)}
    return frozenset(tokens | {_SHORT[token] for token in tokens if token in _SHORT})


def _find_tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each token without surrounding punctuation, and whether it was in backticks."""
    for place, part in enumerate(_BACKTICK.split(text)):
        for token in part.split():
            core = token if place % 2 else _strip_punctuation(token)
            if core:
                yield core, bool(place % 2)


def _strip_punctuation(token: str) -> str:
    """Return the token without quotation marks, surrounding brackets and trailing punctuation."""
    if not any(letter.isalnum() for letter in token):
        return "" if token in _PROSE else token
    plain = token.strip("\"'“”‘’…")
    if plain[:1] == "*" == plain.rstrip(".,;:!?")[-1:]:  # emphasis
        plain = plain.rstrip(".,;:!?").strip("*")
    plain = plain.lstrip("([{<").rstrip(".,;:!?")
    while plain and plain[-1] in ")]}>" and plain.count(plain[-1]) > plain.count(_OPENING[plain[-1]]):
        plain = plain[:-1].rstrip(".,;:!?\"'”’")
    return plain.removesuffix("()").strip("\"'“”‘’")


def _is_coded(token: str) -> bool:
    if not _WORD.search(token):
        return token not in _PROSE and token not in _BETWEEN
    return bool(_SIGNED.search(token)) and token.lower() not in _ABBREVIATED


def _normalize(token: str) -> str:
    """Return the comparison form: flags are case-sensitive, other tokens are not."""
    return token if token.startswith("-") else token.lower()


_SPAN = lazy_re.compile(r"`([^`\n]{1,200})`")
_BACKTICK = lazy_re.compile(r"`")
_OPENING = {")": "(", "]": "[", "}": "{", ">": "<"}
_PROSE = frozenset(("", "-", "–", "—", "•", "*", "…", "...", ".", ":", "!", "?", "(", ")"))
_SIGNED = lazy_re.compile(
    r"[_=<>!|$#@~^\\{}\[\];*]|^-{1,2}\w|\+\+|^\.{0,2}/|^\.\w|/.*[./]|\w\.\w|\w:\w|[a-z][A-Z]"  # signs used in code
)
_ANYWHERE = lazy_re.compile(
    r"[_=<>|$#@~^\\{}\[\];*%+&/]|!\S|(?<!\w)-{1,2}\w|\.[\w/.]|\w:\w|[a-z][A-Z]|(?<!\w)[^\w\s]+(?!\w)"
)
_PLAIN = lazy_re.compile(r"[(\"'“‘]*(?:[A-Z]+|[A-Z]?[^\W_A-Z]+)(?:[-'’][^\W_A-Z]+)*[.,;:!?)\"'”’]*\Z")
_CAPITALS = lazy_re.compile(r"[A-Z]{2,}$")
_WORD = lazy_re.compile(r"[^\W_]")
_BETWEEN = frozenset((",", ";", "/", "+", "&"))  # signs that also occur in prose
_ABBREVIATED = frozenset(("e.g", "i.e", "a.m", "p.m", "u.s", "etc."))
#: Short forms of names whose full form has inner capitals.
_SHORT = {"postgres": "postgresql", "js": "javascript", "ts": "typescript", "k8s": "kubernetes"}
