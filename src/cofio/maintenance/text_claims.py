"""Claims of a text, piece by piece: its words, its negations, its numbers and names with the words next to them.

The analysis is rough but deterministic: it serves to compare two texts, not to understand one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from cofio.text import lazy_re
from cofio.text.duplicates import VALUES, content_words, find_names, is_negated
from cofio.text.stemmer import stem
from cofio.text.tokens import STOP_WORDS, words

_REACH = 4  # words to either side that may be the subject of a number or a name


class Piece(NamedTuple):
    """Part of a sentence: its content words in order, and whether it negates."""

    words: tuple[str, ...]
    negated: bool
    twice: bool  # "never not"
    denied: frozenset[str]  # the words after the negation
    sentence: frozenset[str]  # words before the piece in its sentence
    text: str


class Value(NamedTuple):
    """Number or name, with the words next to it."""

    name: str
    beside: frozenset[str]
    around: frozenset[str]  # all words of its piece
    between: tuple[str, str]  # the words directly before and after it, of any kind


class TextClaims(NamedTuple):
    """Text prepared for comparison."""

    words: frozenset[str]
    pieces: tuple[Piece, ...]
    numbers: tuple[Value, ...]
    tokens: tuple[tuple[str, ...], ...]  # of each piece
    turns: frozenset[tuple[str, str]]  # "from", "over", "before" and similar, each with its object
    spans: tuple[str, ...]  # text in backticks
    names: frozenset[str]  # identifiers, names, weekdays, colours, environments: words without synonyms
    spoken: frozenset[str]  # all words in all their forms
    text: str
    source: str  # the original text


@lru_cache(maxsize=512)
def read(text: str) -> TextClaims:
    """Return the claims of the text."""
    clean = _normalise(text)
    parts = list(_split_pieces(clean))
    tokens = tuple(tuple(tokens) for _, tokens in parts)
    forms = {*find_names(clean), *words(clean), *content_words(clean)}
    forms |= {part for form in forms for part in re.split(r"[-/_.:]", form) if part}
    return TextClaims(
        words=frozenset(word for piece, _ in parts for word in piece.words),
        pieces=tuple(piece for piece, _ in parts),
        numbers=tuple(_find_values(tokens, _to_digits)),
        tokens=tokens,
        turns=frozenset(
            (token, behind[0])
            for piece in tokens
            for place, token in enumerate(piece)
            if token in _TURNING and (behind := _list_stems(piece[place + 1 :]))
        ),
        spans=tuple(" ".join(span.split()) for span in _SPAN.findall(text)),
        names=frozenset(_find_text_names(clean)),
        spoken=frozenset(forms | {stem(form) for form in forms} | {form.removesuffix("'s") for form in forms}),
        text=" ".join(text.replace("`", "").split()),
        source=text,
    )


def named(claims: TextClaims, names: frozenset[str]) -> list[Value]:
    """Return the occurrences of these names (stems) in the text."""
    return list(_find_values(claims.tokens, lambda token: stem(token) if stem(token) in names else ""))


@lru_cache(maxsize=512)
def marks(text: str) -> frozenset[str]:
    """Return the small words that change its meaning: bounds, quantities, obligations, times, doubts."""
    return _match_marks(_MARKS, text)


def implied(text: str) -> frozenset[str]:
    """Return the marks that a text implies without the word, or with an ambiguous word."""
    return _match_marks(_IMPLIED, text) | {"if"}


def _match_marks(patterns: Mapping[str, re.Pattern[str]], text: str) -> frozenset[str]:
    plain = text.lower().replace("’", "'")
    return frozenset(name for name, pattern in patterns.items() if pattern.search(plain))


def holds(claims: TextClaims, name: str) -> bool:
    """Return whether the text contains the name in any case and number; "end to end" matches "end-to-end"."""
    forms = {name, stem(name), name.removesuffix("'s")}
    if forms & claims.spoken:
        return True
    parts = re.split(r"[-/]", name)
    return len(parts) > 1 and all(part.isalpha() and stem(part) in claims.spoken for part in parts)


def _normalise(text: str) -> str:
    """Return the text with uniform units, negations and quotation marks; case is kept."""
    plain = text.replace("’", "'").replace("`", " ")
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", plain)
    plain = re.sub(r"n't\b", " not", re.sub(r"\b([Cc]an)(?:not|'t)\b", r"\1 not", plain))
    plain = re.sub(r"(?<=\d)\s?percent\b", "%", plain)
    plain = _UNIT.sub(lambda match: f"{match[1]} {_UNITS[match[2].lower()]}", plain)
    return re.sub(r"(?<=[a-z])[:=](?=\d)", " ", plain)


def _split_pieces(plain: str) -> Iterator[tuple[Piece, Sequence[str]]]:
    """Yield each piece with its tokens."""
    for sentence in _SENTENCE.split(plain):
        before: frozenset[str] = frozenset()
        is_negated_before = False
        for part in _PART.split(sentence):
            tokens = content_words(part)
            if not tokens:
                continue
            stems = _list_stems(tokens)
            denying = [place for place, token in enumerate(tokens) if _denies(token)]
            denied: tuple[str, ...] = ()
            if denying:
                denied = _list_stems(tokens[denying[0] + 1 :])
            is_listed = not denying and is_negated_before and len(stems) <= 2 and all(map(_is_listed, words(part)))
            if is_listed:
                denied = stems
            is_negated_before = bool(denying) or is_listed
            yield Piece(stems, is_negated_before, len(denying) > 1, frozenset(denied), before, part.strip()), tokens
            before |= frozenset(stems)


def _is_listed(word: str) -> bool:
    """Return whether the word may be part of a continued list: "secrets, tokens or keys"."""
    return word in ("or", "nor", "and", "any") or word not in STOP_WORDS


def _denies(token: str) -> bool:
    return token in _FORBIDDING or (is_negated(token) and token not in _ENDING)


def _list_stems(tokens: Iterable[str]) -> tuple[str, ...]:
    """Return the stems of the content words."""
    candidates = (token for token in tokens if token[:1].isalnum() and not _denies(token))
    return tuple(
        stem(token) for token in candidates if token not in STOP_WORDS and token not in _LIGHT and not _to_digits(token)
    )


def _to_digits(token: str) -> str:
    """Return the number in digits; "" if the token is not a number."""
    return token if _DIGITS.fullmatch(token) else _NUMBERS.get(token, "")


def _find_values(pieces: Iterable[Sequence[str]], value: Callable[[str], str]) -> Iterator[Value]:
    """Yield each number or name with the words around it."""
    for tokens in pieces:
        for place, token in enumerate(tokens):
            if name := value(token):
                left, right = tokens[:place][::-1], tokens[place + 1 :]
                yield Value(
                    name=name,
                    beside=_find_neighbours(left) | _find_neighbours(right),
                    around=frozenset(_list_stems(tokens)),
                    between=(left[0] if left else "", right[0] if right else ""),
                )


def _find_neighbours(tokens: Sequence[str]) -> frozenset[str]:
    """Return the next few content words, up to the next number and the next "and"."""
    stems: list[str] = []
    for token in tokens:
        if token in _DIVIDING or _to_digits(token) or len(stems) == _REACH:
            break
        stems += _list_stems([token])
    return frozenset(stems)


def _find_text_names(plain: str) -> Iterator[str]:
    """Yield the names in the text."""
    for name in find_names(plain):
        # A common word may be capitalised for emphasis; "Go" and GET are names.
        may_be_common = name in STOP_WORDS and not (name in ("get", "put") and name.upper() in plain)
        if may_be_common and re.search(rf"(?<=[a-z,] ){name.capitalize()}\b", plain) is None:
            continue
        if name not in _LIGHT and not _denies(name) and not _to_digits(name):
            yield name
    for match in _SUBJECT.finditer(plain):
        if match[1].lower() not in STOP_WORDS and not _denies(match[1].lower()):
            yield match[1].lower()
    for word in words(plain):
        if any(stem(word) in group for group in _KINDS):
            yield stem(word)


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_SPAN = lazy_re.compile(r"`([^`\n]{1,200})`")
_SENTENCE = lazy_re.compile(r"(?<=[.!?])\s+|\n+")
#: End of a part of a sentence that can be negated or stated separately.
_PART = lazy_re.compile(
    r"[,;:()]+(?:\s|$)|\s[–—-]+\s|\b(?:but|because|whereas|while|although|since)\b|(?=\b(?:instead of|rather than"
    r"|without|except|unless)\b)|\band\s+(?=(?:is |are |does |do |must |should |can |may |will )?(?:never|not|no|avoid"
    r"|only|always)\b)|\band\s+(?=(?:we|it|they|you)\b)",
    re.IGNORECASE,
)
#: A capital at the start of a sentence is a name if a verb follows: "Ann owns billing".
_SUBJECT = lazy_re.compile(r"(?:^|[.!?;:]\s+)([A-Z][a-z]+)(?:'s\b|\s+[a-z]{2,}s\b(?<!ss))")
_DIGITS = lazy_re.compile(r"[-+]?\d[\d.,:]*%?")
_UNITS = {
    form: name
    for name, forms in {
        "millisecond": "ms millisecond milliseconds",
        "second": "s sec secs second seconds",
        "minute": "min mins minute minutes",
        "hour": "h hr hrs hour hours",
        "kb": "kb kib kilobytes",
        "mb": "mb mib megabyte megabytes",
        "gb": "gb gib gigabyte gigabytes",
    }.items()
    for form in forms.split()
}
_UNIT = lazy_re.compile(
    rf"(?<![\w.])(\d+(?:\.\d+)?)[\s-]?({'|'.join(sorted(_UNITS, key=len, reverse=True))})\b", re.IGNORECASE
)
_NUMBERS = {
    word: str(number)
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
    if word != "one"  # "the one that" is not a number
} | {"twice": "2", "double": "2", "triple": "3", "twenty": "20", "thirty": "30", "fifty": "50", "hundred": "100"}
_FORBIDDING = frozenset(
    "forbid forbids forbidden ban bans banned prohibit prohibited disallow disallowed rather".split()
)
#: Negating verbs whose meaning is compared as a word, as with any other verb.
_ENDING = frozenset(
    "drop drops dropped remove removes removed refuse refuses refused former formerly previously hardly barely".split()
)
_LIGHT = frozenset(
    "using use used always should currently already now via per etc e.g i.e ensure sure every must also both new one"
    " project team user people".split()
)
_TURNING = frozenset("from over before after than into".split())
_DIVIDING = frozenset("and or plus versus vs".split())
#: Days, colours and environments. Units and "today" have many synonyms and are compared by number or time.
_KINDS = tuple(
    frozenset(map(stem, group - {"may", "test", "testing", "ci"}))
    for group in VALUES
    if not {"second", "today", "byte"} & group
)
#: Classes of small words; words of one class are interchangeable.
_MARKS = {
    name: lazy_re.compile(pattern)
    for name, pattern in {
        "at most": r"\b(?:at most|up to|no more than|max|maximum|below|less than|fewer than)\b|\bunder \d"
        r"|(?<![<>=-])<=?(?!\w*>)",
        "at least": r"\bat least\b|\bmin(?:imum)?\b|\babove\b|\bmore than\b(?<!no more than)|\bno (?:less|fewer) than\b"
        r"|\bover \d|(?<![-=<>\w])>=?",
        "all": r"\b(?:all|every|each|always|everyone|everything|everybody|whole|entire)\b",
        "some": r"\b(?:some|sometimes|(?<!at )most|mostly|usually|often|many|few|several|occasionally|rarely)\b",
        "must": r"\b(?:must|have to|has to|required|requires?|needs?|needed|mandatory)\b",
        "may": r"\b(?:may|might|could|optional|optionally|allowed)\b",
        "should": r"\b(?:should|ought|recommended)\b",
        "will": r"\b(?:will|going to|plans? to|planned|soon|upcoming)\b|\w'll\b",
        "formerly": r"\bused to (?!\w+(?:ing|ed)\b)|\b(?:formerly|previously|former)\b",
        "perhaps": r"\b(?:probably|likely|maybe|perhaps|seems?|apparently|presumably|suspect(?:s|ed)?|possibly)\b",
        "for now": r"\b(?:temporar(?:y|ily)|for now|until|for the time being|so far)\b",
        "or": r"\b(?:or|either)\b",
        "a.m.": r"\d\s?a\.?m\b",
        "p.m.": r"\d\s?p\.?m\b",
        "unless": r"\b(?:unless|except|other than|apart from)\b",
        "if": r"\b(?:if|when|whenever|once|while|during|in case)\b",
        "only": r"\b(?:only|solely|exclusively|just|alone)\b",
        "before": r"\b(?:before|prior to)\b",
        "after": r"\b(?:after|afterwards|following)\b",
    }.items()
}
#: Orders and bans imply "must"; "since" implies "after".
_IMPLIED = {
    name: lazy_re.compile(pattern)
    for name, pattern in {
        "must": r"\b(?:never|always|do not|don't|cannot|can't|not allowed|only)\b"
        r"|(?:^|[.;:]\s)(?:use|run|keep|avoid|put|write|add|prefer|make|set|check|call|do|follow|commit|push|test|deploy|open|create|start|send)\b",
        "or": r"\b(?:never|no|not|without)\b|n't\b",  # "neither of two" differs from "one or the other"
        "after": r"\bsince\b",
        "all": r"\b(?:any|never|no)\b",
    }.items()
}
