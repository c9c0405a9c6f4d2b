"""Duplicate detection by words; vector similarity alone is not sufficient.

A correction is as close to its original as a paraphrase: "port 8080" and "port 9090", "tea over coffee" and "coffee
over tea", "monday" and "tuesday" all have a cosine above 0.9. Treating a correction as a duplicate loses it; treating a
duplicate as new costs one line. Two texts are therefore duplicates if they use the same words in the same order,
ignoring words without content ("the", "is", plurals, "repo" for "repository"), or if their meaning is almost identical
and they differ in nothing that could be a value.

Pure functions over str.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from cofio.text import lazy_re
from cofio.text.code_literals import missing_literal
from cofio.text.tokens import words

#: Minimum cosine for texts in different ordinary words to be duplicates.
SURE = 0.95
#: Characters; the embedding of a longer text may not cover its end.
LONG = 1_200


def difference_reason(new: str, old: str, cosine: float, *, sure: float = SURE) -> str:
    """Return the reason why a new text is not a duplicate of an old one; "" if it is."""
    new_words, old_words = content_words(new), content_words(old)
    if new_words == old_words:
        return missing_literal(new, old)
    if max(len(new), len(old)) > LONG:
        return "texts of this length must match word for word"
    if against := find_conflict(new, old) or missing_literal(new, old):
        return against
    if cosine < sure:
        return "it is phrased in other words"
    added = [word for word in new_words if word not in old_words]
    return f"it adds: {', '.join(added)}" if len(new_words) > len(old_words) else ""


@lru_cache(maxsize=4096)
def content_words(text: str) -> tuple[str, ...]:
    """Return the content words of a text, in order."""
    plain = _THOUSANDS.sub("", text.lower().replace("’", "'"))
    plain = _SHORT_NOT.sub(" not", plain.replace("cannot", "can not"))
    tokens = (match.strip("-") if match[-1:] == "-" else match for match in _TOKEN.findall(plain))
    return tuple(normalize_word(token) for token in tokens if token not in _SILENT)


def normalize_word(word: str) -> str:
    """Return the canonical form of a lower-case word: singular, "repository" for "repo"."""
    if word in _CALLED:
        return _CALLED[word]
    plural = len(word) > 3 and word.isascii() and word.isalpha() and word[-1] == "s" and word[-2] not in "sui"
    singular = word[:-1] if plural else word
    return _CALLED.get(singular, singular)


def find_conflict(one: str, other: str) -> str:
    """Return a difference that makes two texts incompatible: number, name, negation, opposite or order; "" if none."""
    for kind, first, second in (
        ("number", find_numbers(one), find_numbers(other)),
        ("name", *_find_shared_names(one, other)),
        ("sign or a word of another script", _find_foreign(one), _find_foreign(other)),
    ):
        if first != second:  # ordered: from 1 to 2 is not from 2 to 1
            return f"they differ in a {kind}: {', '.join(first) or 'none'} and {', '.join(second) or 'none'}"
    if is_negated(one) != is_negated(other):
        return "only one of them is negated"
    first, second = list(content_words(one)), list(content_words(other))
    if first != second and sorted(first) == sorted(second):
        return "the words are in a different order"
    return find_opposite(set(first) - set(second), set(second) - set(first))


def find_numbers(text: str) -> list[str]:
    """Return the numbers in order, with sign and counted noun: "-5", "10 second", "two replica"."""
    tokens = content_words(text)
    numbers = []
    for place, token in enumerate(tokens):
        if token[-1].isdigit() or token in _NUMBER_WORDS or re.fullmatch(r"[-+]?\d[\d.,:]*%", token):
            counted = tokens[place + 1] if place + 1 < len(tokens) else ""
            numbers.append(token if not counted.isalpha() or counted in _BETWEEN else f"{token} {counted}")
    return numbers


def find_figures(text: str) -> set[str]:
    """Return the numbers in a text, without the things they count."""
    return {number.split()[0] for number in find_numbers(text)}


def find_names(text: str) -> list[str]:
    """Return the distinct identifiers and names in order, in lower case.

    Words with a digit, dot, hyphen, underscore, slash or inner capitals, or capitalized inside a sentence.
    """
    names: dict[str, None] = {}
    opening = True
    for match in re.finditer(r"\S+", text):
        token = match.group().strip(".,;:!?()[]{}\"'`“”‘’*")
        capital = token[:1].isupper() and not opening and token not in ("I", "I'm", "I've", "I'd", "I'll")
        if token and (capital or _is_identifier(token)):
            names[token.lower()] = None
        opening = match.group()[-1] in ".!?:"
    return list(names)


def is_negated(text: str) -> bool:
    """Return whether a text is negated. The kind of negation does not matter: "never" equals "does not"."""
    return negations(text) > 0


def negations(text: str) -> int:
    """Return the number of negations in a text."""
    return sum(word in _NEGATIONS for word in content_words(text))


def _find_shared_names(one: str, other: str) -> tuple[list[str], list[str]]:
    """Return the names in each text; a word that is a name in one text counts as a name in the other in any case."""
    either = set(find_names(one)) | set(find_names(other))

    def select(text: str) -> list[str]:
        return [word for word in dict.fromkeys([*words(text), *find_names(text)]) if word in either]

    return select(one), select(other)


def _is_identifier(token: str) -> bool:
    inner = token[1:]
    return (
        any(sign in inner[:-1] for sign in "_./\\@#-")
        or "#" in inner
        or (any(letter.isdigit() for letter in token) and any(letter.isalpha() for letter in token))
        or (any(letter.isupper() for letter in inner) and any(letter.isalpha() for letter in inner))
    )


def _find_foreign(text: str) -> list[str]:
    """Return tokens that embedding models barely distinguish: symbols, emoji, non-Latin letters."""
    return [
        token
        for token in content_words(text)
        if any(ord(letter) > 0x24F and unicodedata.category(letter)[0] not in "PZ" for letter in token)
    ]


def find_opposite(only_one: set[str], only_other: set[str]) -> str:
    """Return why words unique to one text contradict words unique to the other; "" if they do not."""
    for values in VALUES:
        if values & only_one and values & only_other:
            return f"{min(values & only_one)} is not {min(values & only_other)}"
    for left, right in OPPOSITES:
        if (left in only_one and right in only_other) or (right in only_one and left in only_other):
            return f"{left} and {right} are opposites"
    for one in only_one:
        for other in only_other:
            short, long = sorted((one, other), key=len)
            if long.endswith(short) and long.removesuffix(short) in REVERSING:
                return f"{one} and {other} are opposites"
    return ""


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_TOKEN = lazy_re.compile(
    r"(?<![\w.])[-+]?\d+(?:[.,:]\d+)*%?(?![\w])"  # a number, with its sign
    r"|[^\W_]+(?:[._'+#/:@-]+[^\W_]+)*(?:\+\+|#)?"  # a word, an identifier, a path
    r"|[^\w\s.,;:!?()\[\]{}\"'`“”‘’…–—/-]"  # any other non-punctuation sign
)
_THOUSANDS = lazy_re.compile(r"(?<=\d),(?=\d{3}\b)")
_SHORT_NOT = lazy_re.compile(r"n't\b")

#: Words without content of their own. "Was", "from", "before", "or" and similar words carry meaning.
_SILENT = frozenset(
    "a an the is are be been being am do does has have we our us that this it its there also just really very please"
    " so indeed".split()
)

#: Synonyms, mapped to the first of each group; no words that users may want to distinguish.
_CALLED = {
    synonym: group.split("/")[0]
    for group in """
    repository/repo database/db application/app configuration/config directory/folder/dir documentation/docs/doc
    environment/env parameter/param authentication/auth kubernetes/k8s postgresql/postgres javascript/js typescript/ts
    python/py function/func request/req not/never using/use/uses/utilize/utilizes prefer/prefers likes/like
    """.split()
    for synonym in group.split("/")
}

#: Negations in common languages.
_NEGATIONS = frozenset(
    normalize_word(word)
    for word in """
    no not never none nobody nothing nowhere neither nor without cannot dont doesnt didnt isnt arent wasnt wont wouldnt
    shouldnt couldnt cant stop stops stopped avoid avoids avoided drop dropped drops refuse refuses refused remove
    removed removes unlike except instead unless hardly barely former formerly previously
    kein keine keinen keiner nicht nie niemals ohne ne pas jamais aucun aucune sans nunca jamás sin ningún ninguna non
    mai senza nessun não nenhum sem niet geen nooit zonder inte ingen aldrig utan ikke ej bez
    не нет никогда нельзя без ні ніколи
    """.split()
)

#: Pairs that are close in every vector space and mean the opposite.
OPPOSITES = tuple(
    tuple(map(normalize_word, pair.split("/")))  # canonical forms, as in `gist`
    for pair in """
    always/never always/not enable/disable enabled/disabled on/off true/false allow/deny allowed/forbidden allow/forbid
    above/below before/after left/right increase/decrease increased/decreased minimum/maximum min/max first/last
    add/remove open/closed open/close start/stop public/private sync/async synchronous/asynchronous likes/dislike
    love/hate with/without up/down more/less inside/outside yes/no accept/reject accepted/rejected required/optional
    required/forbidden internal/external old/new tab/space read/write input/output client/server horizontal/vertical
    light/dark upper/lower uppercase/lowercase ascending/descending morning/evening day/night hot/cold fast/slow
    sit/stand sitting/standing man/woman boy/girl men/women he/she his/her many/few all/none everybody/nobody
    often/rarely often/seldom usually/rarely sometimes/always good/bad better/worse best/worst high/low long/short
    early/late big/small large/small dry/wet full/empty clean/dirty cheap/expensive few/lot manual/automatic
    strict/lenient most/least thick/thin simple/complex verbose/terse shallow/deep single/married
    success/failure pass/fail passes/fails win/lose buy/sell push/pull import/export encode/decode local/remote
    """.split()
)

#: Groups of mutually exclusive values.
VALUES = tuple(
    frozenset(group.split())
    for group in (
        "monday tuesday wednesday thursday friday saturday sunday weekday weekend",
        "january february march april may june july august september october november december",
        "second minute hour day week month quarter year millisecond ms sec min hr daily weekly monthly yearly hourly",
        "byte kb mb gb tb kib mib gib tib kilobyte megabyte gigabyte",
        "black white red green blue yellow orange purple violet pink brown grey gray",
        "production staging development prod dev test testing ci qa preview",
        "today yesterday tomorrow",
        "mother father sister brother son daughter wife husband",
    )
)

_NUMBER_WORDS = frozenset(
    "zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty hundred thousand"
    " million half twice once double triple first third fourth fifth".split()
)
#: Words that can follow a number without being the counted noun.
_BETWEEN = frozenset("and or in on at to from of for with by as per not but when if then than".split())
REVERSING = frozenset("un in im ir il dis non non- de anti anti- mis in- un-".split())
