"""What must be written as it is: code, flags, paths, operators, names with inner capitals. A sign makes another thing.

    "use docker ps -a" ─▶ {-a}        "`!user.admin` is checked" ─▶ {!user.admin}

`-d` is not `-D`, `../dist` not `./dist`, `getUser` not `getUsers`, `!=` not `=`, however much the rest is the same.

Part of the words: pure functions over str.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from cofio import late


def unlike(one: str, other: str) -> str:
    """What of one text is written nowhere in the other; "" when there is no such thing.

    Stricter than `literals`: any sign that stands alone counts, and any word in capitals.
    """
    for first, second in ((one, other), (other, one)):
        missing = sorted((literals(first) | signed(first)) - forms(second))
        if missing:
            return f"only one of them has {missing[0]}"
    return ""


@lru_cache(maxsize=8192)
def literals(text: str) -> frozenset[str]:
    """What stands in backticks, and whatever else has the signs of code or inner capitals."""
    spans = (part for span in _SPAN.findall(text) for part in span.split())
    return frozenset(map(_form, spans)) | coded(text)


def coded(text: str) -> frozenset[str]:
    """What has the signs of code or inner capitals, in backticks or not."""
    if not _ANYWHERE.search(text):  # most texts are plain, and there may be many
        return frozenset()
    parts = enumerate(text.split("`"))
    odd = ((token, place % 2) for place, part in parts for token in part.split() if not _PLAIN.match(token))
    cores = (token if quoted else _core(token) for token, quoted in odd)
    return frozenset(_form(core) for core in cores if core and _is_coded(core))


@lru_cache(maxsize=8192)
def signed(text: str) -> frozenset[str]:
    """What has signs or capitals, in backticks or not."""
    return frozenset(
        _form(token)
        for token, quoted in _tokens(text)
        if _is_coded(token) or _CAPITALS.match(token) or (not _WORD.search(token) and (quoted or token not in _PROSE))
    )


@lru_cache(maxsize=8192)
def forms(text: str) -> frozenset[str]:
    """Every word and sign of the text, as `literals` writes them."""
    found = {_form(token) for token, _ in _tokens(text)}
    return frozenset(found | {_SHORT[each] for each in found if each in _SHORT})


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Each token without what wraps it, and whether it stood in backticks."""
    for place, part in enumerate(_BACKTICK.split(text)):
        for token in part.split():
            core = token if place % 2 else _core(token)
            if core:
                yield core, bool(place % 2)


def _core(token: str) -> str:
    """The token without quotation marks, brackets around it and punctuation behind it."""
    if not any(letter.isalnum() for letter in token):
        return "" if token in _PROSE else token
    plain = token.strip("\"'“”‘’…")
    if plain[:1] == "*" == plain.rstrip(".,;:!?")[-1:]:  # it is stressed
        plain = plain.rstrip(".,;:!?").strip("*")
    plain = plain.lstrip("([{<").rstrip(".,;:!?")
    while plain and plain[-1] in ")]}>" and plain.count(plain[-1]) > plain.count(_OPENING[plain[-1]]):
        plain = plain[:-1].rstrip(".,;:!?\"'”’")
    return plain.removesuffix("()").strip("\"'“”‘’")


def _is_coded(token: str) -> bool:
    if not _WORD.search(token):
        return token not in _PROSE and token not in _BETWEEN
    return bool(_SIGNED.search(token)) and token.lower() not in _ABBREVIATED


def _form(token: str) -> str:
    """Flags are told apart by their case, nothing else is."""
    return token if token.startswith("-") else token.lower()


_SPAN = late.compile(r"`([^`\n]{1,200})`")
_BACKTICK = late.compile(r"`")
_OPENING = {")": "(", "]": "[", "}": "{", ">": "<"}
_PROSE = frozenset(("", "-", "–", "—", "•", "*", "…", "...", ".", ":", "!", "?", "(", ")"))
_SIGNED = late.compile(
    r"[_=<>!|$#@~^\\{}\[\];*]|^-{1,2}\w|\+\+|^\.{0,2}/|^\.\w|/.*[./]|\w\.\w|\w:\w|[a-z][A-Z]"  # signs that code has
)
_ANYWHERE = late.compile(
    r"[_=<>|$#@~^\\{}\[\];*%+&/]|!\S|(?<!\w)-{1,2}\w|\.[\w/.]|\w:\w|[a-z][A-Z]|(?<!\w)[^\w\s]+(?!\w)"
)
_PLAIN = late.compile(r"[(\"'“‘]*(?:[A-Z]+|[A-Z]?[^\W_A-Z]+)(?:[-'’][^\W_A-Z]+)*[.,;:!?)\"'”’]*\Z")
_CAPITALS = late.compile(r"[A-Z]{2,}$")
_WORD = late.compile(r"[^\W_]")
_BETWEEN = frozenset((",", ";", "/", "+", "&"))  # signs that may stand in prose too
_ABBREVIATED = frozenset(("e.g", "i.e", "a.m", "p.m", "u.s", "etc."))
#: Two names of one thing, of which one has inner capitals.
_SHORT = {"postgres": "postgresql", "js": "javascript", "ts": "typescript", "k8s": "kubernetes"}
