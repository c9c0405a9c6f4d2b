"""Sentence splitting and classification: questions, code, hypothetical statements.

Pure functions, linear in the length of the text.
"""

from __future__ import annotations

import re
from functools import lru_cache

from cofio.text import lazy_re

LONGEST = 400  # characters; longer sentences are cut


def split(text: str) -> list[str]:
    """Split a text into sentences and lines, without bullets; fenced code, quotations and tables are skipped."""
    pieces: list[str] = []
    fenced = False
    for raw in text.splitlines():
        line = " ".join(raw.split())
        if "```" in line or line[:3] == "~~~":
            line, fenced = _split_fence(line, fenced)
        elif fenced:
            continue
        if line and line[0] not in ">|":
            _take(line, pieces)
    return pieces


@lru_cache(maxsize=8)  # the gate and the patterns tokenize the same sentence in turn
def tokens(text: str) -> tuple[str, ...]:
    """Return the lower-case words of a sentence without surrounding punctuation; inner punctuation is kept."""
    lower = text.lower()
    plain = lower if lower.isascii() else lower.translate(_TYPED)
    stripped = [word if word.isalpha() else word.strip(_AROUND) for word in plain.split()]  # most words are plain
    return tuple(stripped) if all(stripped) else tuple([word for word in stripped if word])


def capitalised(text: str) -> str:
    """Capitalize the first letter, unless the first word is a lower-case name: pnpm, iOS, x.py."""
    first = text.split(" ", 1)[0].rstrip(",:;")
    plain_word = first.replace("'", "").replace("-", "").isalpha() and first[1:].islower() and _VOWEL.search(first)
    return text[:1].upper() + text[1:] if plain_word or len(first) == 1 else text


def is_question(sentence: str) -> bool:
    """Return whether it is a question, with or without a question mark."""
    if "?" in sentence[-4:] and sentence.rstrip(_AFTER_END).endswith("?"):
        return True
    first = tokens(sentence)[:1]
    return not _ASKING_WORDS.isdisjoint(first) and _ASKING.match(sentence) is not None


def is_hypothetical(opening: str) -> bool:
    """Return whether text after this opening is not asserted: supposed, asked, hoped, denied or attributed."""
    if not opening:
        return False
    words = tokens(opening)
    if not _SUPPOSING.isdisjoint(words) or "?" in opening:
        return True
    padded = f" {' '.join(words)} "
    if any(phrase in padded for phrase in _SUPPOSING_PHRASES) or ("'" in opening and _QUOTE_OPENS.search(opening)):
        return True
    return opening.count('"') % 2 == 1 or opening.count("`") % 2 == 1 or opening.count("“") > opening.count("”")


def is_code(sentence: str) -> bool:
    """Return whether it is code, markup, JSON, a stack trace or a log line rather than prose."""
    plain = _SPAN.sub("x", sentence).strip() if "`" in sentence else sentence.strip()
    if not plain or plain[0] in "<{}[;$=&\\" or plain[-1] in "{};([\\<>=|" or _CODE_OPENS.match(plain):
        return True
    return _CODE_SIGN.search(plain) is not None and _CODE.search(plain) is not None


def _split_fence(line: str, fenced: bool) -> tuple[str, bool]:
    """Return the prose of a line with a fence, and whether code continues after it."""
    mark = "```" if "```" in line else "~~~"
    before, _, behind = line.partition(mark)
    if mark in behind:  # opened and closed on one line
        return ("" if fenced else before.strip()), fenced
    if fenced:
        return "", bool(behind)
    return before.strip(), True


def _take(line: str, pieces: list[str]) -> None:
    if line[0] in _BULLETS:
        line = _BULLET.sub("", line)
    if "**" in line:
        line = line.replace("**", "")
    start = 0
    for stop in _STOP.finditer(line):
        if line[stop.start()] != "." or _ends_sentence(line, stop.start(), stop.end()):
            _keep(line[start : stop.end()], pieces)
            start = stop.end()
    _keep(line[start:], pieces)


def _ends_sentence(line: str, dot: int, after: int) -> bool:
    """Return whether the full stop ends a sentence; not after "e.g." or an initial."""
    word = line[line.rfind(" ", 0, dot) + 1 : dot].lstrip("(\"'“")
    capital = line[after : after + 1].isupper()
    if word in _SHORT_FOR:
        return False
    if word in _SHORT_AT_END or (len(word) == 1 and word.isupper() and word != "I"):
        return capital and len(word) > 1
    return True


def _keep(piece: str, pieces: list[str]) -> None:
    piece = piece.strip()
    if not _LETTER.search(piece):
        return
    if len(piece) > LONGEST:
        start = 0
        while len(piece) - start > LONGEST:
            blank = piece.rfind(" ", start + LONGEST // 2, start + LONGEST)
            end = blank if blank > 0 else start + LONGEST
            pieces.append(piece[start:end].strip())
            start = end
        pieces.append(piece[start:].strip())
    elif piece[-1] == "?" and (hung_on := _HUNG_ON.search(piece)):
        pieces.append(piece[: hung_on.start()])  # "we use uv, can you fix the build?": a statement, then a question
        pieces.append(piece[hung_on.end() :])
    else:
        pieces.append(piece)


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_AFTER_END = " \"'`)]*_!.…”’"
_AROUND = ",;:!?()[]{}\"'….*`_<>"
_TYPED = str.maketrans({**dict.fromkeys("“”…–—", " "), "’": "'", "‘": "'"})
_LETTER = lazy_re.compile(r"[^\W_]")
_VOWEL = lazy_re.compile(r"[aeiouyAEIOUY]|[^\x00-\x7f]")
_BULLETS = frozenset("-*+•◦▪‣–0123456789#[")
_BULLET = lazy_re.compile(r"^(?:(?:[-*+•◦▪‣–]|\d{1,3}[.)]|#{1,6}|\[[ xX]?\]) )+")
_STOP = lazy_re.compile(r"[.!?…][\"')\]*_”’]* ")
_SHORT_FOR = frozenset("e.g i.e eg ie vs cf approx resp incl Mr Mrs Ms Dr Prof Fig al".split())
_SHORT_AT_END = frozenset("etc Inc Ltd Co Corp Jr Sr a.m p.m".split())
_HUNG_ON = lazy_re.compile(
    r"(?:[,;]| [–—-]+) (?=(?:and |but |so |then )?(?:(?:can|could|would|will|should|do|does|did|is|are|have|has) "
    r"(?:you|i|we|it|there|this|that|the|they|someone|anyone)\b|(?:what|how|why|which|where|who)\b|any (?:idea|tips)))",
    re.I,
)
_ASKING = lazy_re.compile(
    r"\s*(?:(?:ok|okay|so|and|but|hey|well|also|hmm),? ){0,2}"
    r"(?:(?:what|why|how|who|whose|which|any idea)(?:['’]s|['’]re| |$)"
    r"|(?:where|when) (?:do|does|did|is|are|was|will|can|should)\b"
    r"|(?:can|could|would|should|shall|is|are|was|were|do|does|did|has|have|will|am|isn't|aren't|don't|doesn't"
    r"|shouldn't|can't|couldn't|won't|wouldn't) (?:you|we|i|it|he|she|they|there|this|that|these|those|the|our|my"
    r"|your|someone|anyone|anybody)\b)",
    re.I,
)

_ASKING_WORDS = frozenset(
    """
    ok okay so and but hey well also hmm what what's why why's how how's who who's whose which any where when can could
    would should shall is are was were do does did has have will am isn't aren't don't doesn't shouldn't can't couldn't
    won't wouldn't what're how're who're
    """.split()
)

_QUOTE_OPENS = lazy_re.compile(r"(?:^|[\s(:])'[^']*$")
_SUPPOSING = frozenset(
    """
    if unless whether suppose supposing imagine assuming assume maybe perhaps might could would wish hope hopefully
    wonder wondering pretend why hypothetically until consider considering thinking unsure doubt explain asked say says
    said saying claim claims claimed suggests suggested recommends recommended according reads wrote told without here
    thinks believes thought believed assumes assumed forget
    """.split()
)
_SUPPOSING_PHRASES = tuple(
    f" {phrase} "
    for phrase in (
        "in case,as though,once we,before we,after we,thought about,think about,not sure,can you,should we,do we,"
        "did we,shall we,can we,what if,how about,what about,tell me,let me,for example,e.g,for instance,not true,"
        "don't think,doesn't mean,not that,instead of,rather than,by not,try to,trying to,tried to,used to"
    ).split(",")
)

_SPAN = lazy_re.compile(r"`[^`]{1,120}`")
_CODE_OPENS = lazy_re.compile(
    r"(?:import|export|package|namespace|#include|from [\w.]+ import|return|raise|throw|elif|else:|try:|def \w+\(|"
    r"class \w+[(:{ ]*$|(?:async )?function\b[ \w]*\(|(?:const|let|var|int|auto|final|val) \w+ ?[:=]|"
    r"(?:public|private|protected|static) \w+|at [\w.$<>/]+ ?\(|File \"|Traceback|Caused by|\w*(?:Error|Exception):|"
    r"\[?(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE|FATAL)\b|\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d\b|"
    r"\+\+\+ |--- |@@ |diff --git|//|/\*|\*/|>>> |\"[\w$-]+\" ?:|'[\w$-]+' ?:|[\w.$-]+@[\w.-]+:\S*[$#] )"
)
_CODE_SIGN = lazy_re.compile(r"[=;<{}&|]|::")
_CODE = lazy_re.compile(
    r"[\w)\]] (?:=|==|!=|===|!==|\+=|-=|:=|&&|\|\||=>) ?[\w(\"'{\[]|\(\)[;{. ]*(?:=>|;|\{)|\);|</\w|/>|\w::\w"
    r"|<\w+[_-]\w+|\w=\"|\{\{|\}\}"
)
