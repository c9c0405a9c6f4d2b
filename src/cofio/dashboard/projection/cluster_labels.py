"""Names of groups: words that their members use and other memories do not.

texts ─ words ─▶ which text has which word ─ relative frequency in the group ─▶ a few words per group
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from cofio.text import lazy_re
from cofio.text.tokens import STOP_WORDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cofio.dashboard.projection.clusters import Labels

    Scores: TypeAlias = NDArray[np.float64]  # one row per group, one column per word

#: Minimum and maximum words of a name; words beyond the minimum need this share of the first word's score.
FEWEST, MOST, PART = 2, 3, 0.3
#: Minimum number and share of members that have a word for it to name the group.
MEMBERS, SHARE = 2, 0.04
#: Best words per group that are considered.
LOOKED_AT = 24

#: Words, including compounds such as "Next.js", "C#" and "pre-commit". Excludes parts of paths, addresses and links.
_WORD = lazy_re.compile(r"(?<![\w./@:-])[^\W\d_]\w*(?:[.'’-]\w+)*(?:\+\+|#)?(?![\w/@])")
_DIGITS = lazy_re.compile(r"\d.*\d")  # at least two digits: a version, a date, a ticket
_HEXADECIMAL = lazy_re.compile(r"[0-9a-f]{7,}", re.IGNORECASE)
_SHORTEST, _LONGEST = 3, 24  # characters of a word on a label; shorter words in capitals, such as "CI", count too
_ALIKE = 5  # two words of a name must differ within these first letters
#: Common words that name nothing, in addition to the stop words.
_FILLERS = STOP_WORDS | set(
    """
    already always another back best better came come day days even first found good great http https keep keeps kept
    last later less long lot lots may maybe never new next nice old part right second set since soon sure time times
    today tomorrow two used uses user users using went www year years yesterday
    """.split()
)


def label_clusters(texts: Sequence[str], group: Labels) -> list[tuple[str, ...]]:
    """Return the names of groups 0, 1, …: a few words each, most distinctive first, mostly unique to the group."""
    if group.max(initial=-1) < 0:
        return []
    words = _count_terms(texts)
    scores = _score_terms(words, group)
    best_group = scores.argmax(axis=0) if scores.size else np.zeros(0, np.int64)  # of each word
    return [
        tuple(words.written[term] for term in _pick_terms(row, best_group == number, words.written))
        for number, row in enumerate(scores)
    ]


class _TermCounts(NamedTuple):
    """Words of the texts: their most frequent spelling, and pairs of text index and word index."""

    written: list[str]
    text: NDArray[np.int64]
    word: NDArray[np.int64]


def _count_terms(texts: Sequence[str]) -> _TermCounts:
    token_lists = [_WORD.findall(text) for text in texts]
    # Not the first word, which is capitalized.
    inside = Counter(chain.from_iterable(tokens[1:] for tokens in token_lists))
    forms = sorted(filter(_can_name, set(chain.from_iterable(token_lists))), key=lambda form: (-inside[form], form))
    place: dict[str, int] = {}
    word_of = {form: place.setdefault(_root(form), len(place)) for form in forms}
    written = dict(reversed([(word_of[form], form) for form in forms]))
    term_ids = [list({word_of[form] for form in tokens if form in word_of}) for tokens in token_lists]
    rows = np.repeat(np.arange(len(texts)), [len(ids) for ids in term_ids])
    columns = np.fromiter(chain.from_iterable(term_ids), np.int64, len(rows))
    return _TermCounts([written[number] for number in range(len(place))], rows, columns)


def _can_name(form: str) -> bool:
    long_enough = len(form) >= _SHORTEST or (len(form) > 1 and form.isupper())
    cryptic = _DIGITS.search(form) or _HEXADECIMAL.fullmatch(form)
    return long_enough and len(form) <= _LONGEST and not cryptic and form.lower().replace("’", "'") not in _FILLERS


def _root(form: str) -> str:
    """Return the part that a word and its plural share."""
    word = form.lower().replace("’", "'").removesuffix("'s")
    return word[:-1] if len(word) > _SHORTEST and word.endswith("s") and not word.endswith("ss") else word


def _score_terms(words: _TermCounts, group: Labels) -> Scores:
    """Score how well each word distinguishes each group: its share among members times its log gain over all texts."""
    groups, count = int(group.max()) + 1, len(words.written)
    within = group[words.text] >= 0
    cells = group[words.text[within]] * count + words.word[within]
    members = np.bincount(cells, minlength=groups * count).reshape(groups, count)
    share = members / np.bincount(group[group >= 0], minlength=groups)[:, np.newaxis]
    general = np.bincount(words.word, minlength=count) / len(group)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(members > 0, np.log(share / general), 0)
    often = (members >= MEMBERS) & (share >= SHARE)
    scores: Scores = np.where(often, share * np.maximum(gain, 0), 0)
    return scores


def _pick_terms(scores: NDArray[np.float64], in_cluster: NDArray[np.bool_], written: Sequence[str]) -> list[int]:
    """Return the words of a group: those that score highest in it, then others if these are too few."""
    best = np.argsort(-scores, kind="stable")[:LOOKED_AT]
    best = best[scores[best] > 0]
    terms: list[int] = []
    for term in [*best[in_cluster[best]].tolist(), *best[~in_cluster[best]].tolist()]:
        is_distinct = len(terms) < FEWEST or (in_cluster[term] and scores[term] >= PART * scores[terms[0]])
        start = written[term].lower()[:_ALIKE]
        if is_distinct and all(written[earlier].lower()[:_ALIKE] != start for earlier in terms):
            terms.append(term)
    return terms[:MOST]
