"""Comparison of a text with a fact in other words: does the text state the fact?"""

from __future__ import annotations

from cofio.text import lazy_re
from cofio.text.tokens import STOP_WORDS, search_terms, words

MIN_SHARE = 0.6  # share of a fact's content words from which a text states the fact


def states_fact(text: str, fact: str, replaced: str = "") -> bool:
    """Return whether the text states the fact: enough of its content words, and all its numbers and names.

    Those of the fact that it replaces may be missing: "goes from 10 to 25 MB" may be stored as "is 25 MB".
    """
    roots, needed = _find_roots(text), _find_roots(fact)
    return len(needed & roots) >= MIN_SHARE * len(needed) and _find_fixed(fact) - _find_roots(replaced) <= roots


def _find_roots(text: str) -> set[str]:
    """Return the content words without their endings, and without words for the owner of the fact."""
    plain = _separate_units(text)
    content_words = [word.removesuffix("'s") for word in words(plain) if word not in STOP_WORDS]
    return {_stem(word) for word in content_words or search_terms(plain)} - _OWNERS


def _find_fixed(text: str) -> set[str]:
    """Return the numbers and names; a capitalised word at the start of a sentence does not count as a name."""
    tokens = _separate_units(text).split()
    marks = [
        word.strip(_AROUND) for place, word in enumerate(tokens) if _NUMBER.search(word) or (place and _is_name(word))
    ]
    return {_stem(word) for mark in marks for word in search_terms(mark) if word not in STOP_WORDS} - _OWNERS


def _is_name(word: str) -> bool:
    plain = word.strip(_AROUND)
    return len(plain) > 1 and (plain[0].isupper() or _INSIDE.search(plain) is not None)


def _separate_units(text: str) -> str:
    """Return the text with units separated from numbers: "300ms" equals "300 ms"."""
    return _UNIT.sub(r"\1 \2", text.replace("’", "'").replace("`", ""))


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s", "d", "e"):
        if word.isalpha() and word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


_OWNERS = {_stem(word) for word in ("user", "team", "project", "policy", "decided", "repo", "app")}
_AROUND = ".,;:!?()[]{}\"'“”‘’*"
_NUMBER = lazy_re.compile(r"\d")
_INSIDE = lazy_re.compile(r"\w[._/@#-]\w|\w[A-Z]")
_UNIT = lazy_re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)([A-Za-z]{1,4})(?!\w)")
