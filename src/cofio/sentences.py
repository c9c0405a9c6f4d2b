"""The sentences of a text, and what kind each one is: a question, code, something supposed, a passing status.

Part of the words, so that the gate and the patterns judge alike: pure functions over str. Each is linear in its text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from cofio import late

LONGEST = 400  # characters; what runs on for longer is cut there


def split(text: str) -> list[str]:
    """Sentence by sentence and line by line, without bullets; fenced code, quotations and tables are left out."""
    found: list[str] = []
    fenced = False
    for raw in text.splitlines():
        line = " ".join(raw.split())
        if "```" in line or line[:3] == "~~~":
            line, fenced = _at_fence(line, fenced)
        elif fenced:
            continue
        if line and line[0] not in ">|":
            _take(line, found)
    return found


@lru_cache(maxsize=8)  # the gate and the patterns ask for the same sentence's, one after the other
def tokens(text: str) -> tuple[str, ...]:
    """The lower-case words of a sentence, quickly: without the punctuation around them, not without that inside."""
    lower = text.lower()
    plain = lower if lower.isascii() else lower.translate(_TYPED)
    found = [each if each.isalpha() else each.strip(_AROUND) for each in plain.split()]  # most words are bare
    return tuple(found) if all(found) else tuple([word for word in found if word])


def bare(sentence: str) -> str:
    """The sentence without the filler that opens it ("ok so", "btw") and the full stop that ends it."""
    plain = " ".join(sentence.replace("’", "'").split()).rstrip(" .!…;,:")
    first, last = plain.split(" ", 1)[0], plain[plain.rfind(" ") + 1 :]
    filler = _FILLER.match(plain) if first.lower().rstrip(_AFTER_FILLER) in _FILLER_OPENS else None
    start = filler.end() if filler else 0
    trailer = _TRAILER.search(plain, max(start, len(plain) - 24)) if last.lower() in _TRAILER_ENDS else None
    return plain[start : trailer.start() if trailer else None]


def capitalised(text: str) -> str:
    """The text with a capital first letter, unless its first word is a name that is written small: pnpm, iOS, x.py."""
    first = text.split(" ", 1)[0].rstrip(",:;")
    plain_word = first.replace("'", "").replace("-", "").isalpha() and first[1:].islower() and _VOWEL.search(first)
    return text[:1].upper() + text[1:] if plain_word or len(first) == 1 else text


def asks(sentence: str) -> bool:
    """Whether it is a question, with a question mark or without."""
    if "?" in sentence[-4:] and sentence.rstrip(_AFTER_END).endswith("?"):
        return True
    first = tokens(sentence)[:1]
    return not _ASKING_WORDS.isdisjoint(first) and _ASKING.match(sentence) is not None


def supposes(opening: str) -> bool:
    """Whether what follows this opening is not stated: supposed, asked, hoped, denied, or said by somebody else."""
    if not opening:
        return False
    held = tokens(opening)
    if not _SUPPOSING.isdisjoint(held) or "?" in opening:
        return True
    said = f" {' '.join(held)} "
    if any(phrase in said for phrase in _SUPPOSING_PHRASES):
        return True
    if "'" in opening and _QUOTE_OPENS.search(opening):
        return True
    return opening.count('"') % 2 == 1 or opening.count("`") % 2 == 1 or opening.count("“") > opening.count("”")


def is_code(sentence: str) -> bool:
    """Whether it is code, markup, JSON, a stack trace or a line of a log rather than prose."""
    plain = _SPAN.sub("x", sentence).strip() if "`" in sentence else sentence.strip()
    if not plain or plain[0] in "<{}[;$=&\\" or plain[-1] in "{};([\\<>=|" or _CODE_OPENS.match(plain):
        return True
    return _CODE_SIGN.search(plain) is not None and _CODE.search(plain) is not None


def is_passing(sentence: str) -> bool:
    """Whether it tells where the work stands, which will not matter in a month."""
    held = tokens(sentence)
    if not _PASSING_WORDS.isdisjoint(held) and (_reads_as_passing(sentence, held) or _tells_a_state(held)):
        return True
    return _DIGIT.search(sentence) is not None and _holds_passing_figure(held)


def is_hollow(phrase: str) -> bool:
    """Whether it points at something ("that one", "option B", "do this") instead of naming it."""
    held = [word.strip(_AROUND) for word in phrase.split()]
    if _POINTS.match(phrase) or (not _POINTING.isdisjoint(held) and _POINTS_INSIDE.search(phrase)):
        return True
    return all((word.lower() in _LIGHT and word != "Go") or (len(word) == 1 and word.isalpha()) for word in held)


def _reads_as_passing(sentence: str, held: tuple[str, ...]) -> bool:
    plain = sentence.replace("’", "'")
    for word in _PASSING_WORDS.intersection(held):
        for row in _PASSING.get(word, ()):
            if (not row.also or not row.also.isdisjoint(held)) and row.pattern.search(plain):
                return True
    return False


def _tells_a_state(held: tuple[str, ...]) -> bool:
    """Whether something that is worked on is said to pass or fail, or somebody met with trouble."""
    for place, token in enumerate(held):
        if token in _STATES and (held[place + 1 : place + 2] or ("now",))[0] in _BEHIND:
            before = [each for each in held[max(0, place - 4) : place] if each not in _BETWEEN]
            if before and before[-1] in _WORKED_ON and _ON_CONDITION.isdisjoint(before[-3:-1]):
                return True
        elif token in _TROUBLE:
            near = held[max(0, place - 5) : place]
            if any(verb in _MET and which in _WHICH for verb, which in pairwise(near)):
                return True
    return False


def _holds_passing_figure(held: tuple[str, ...]) -> bool:
    """Whether the number of an issue, a hash or a count of something is in it; "at most 400 lines" is a rule."""
    for place, token in enumerate(held):
        if token.isdigit():
            if place and held[place - 1] in _NUMBERED:
                return True
            if not _COUNTED.isdisjoint(held[place + 1 : place + 3]) and _BOUNDS.isdisjoint(held):
                return True
        elif _ISSUE_OR_HASH.fullmatch(token):
            return True
    return False


# ── parts of the splitting ────────────────────────────────────────────────────────────────────────────────────────────


def _at_fence(line: str, fenced: bool) -> tuple[str, bool]:
    """What of a line with a fence is prose, and whether code goes on behind it.

    A fence that names a language opens, whatever was thought before: of a text whose head is cut off, no more than
    the first part is taken the wrong way round.
    """
    mark = "```" if "```" in line else "~~~"
    before, _, behind = line.partition(mark)
    if mark in behind:  # opened and closed on one line
        return ("" if fenced else before.strip()), fenced
    if fenced:
        return "", bool(behind)
    return before.strip(), True


def _take(line: str, found: list[str]) -> None:
    """Put the sentences of a line behind those that were found."""
    if line[0] in _BULLETS:
        line = _BULLET.sub("", line)
    if "**" in line:
        line = line.replace("**", "")
    start = 0
    for stop in _STOP.finditer(line):
        if line[stop.start()] != "." or _ends(line, stop.start(), stop.end()):
            _keep(line[start : stop.end()], found)
            start = stop.end()
    _keep(line[start:], found)


def _ends(line: str, dot: int, after: int) -> bool:
    """Whether a sentence ends at this full stop: not after "e.g." nor after an initial."""
    word = line[line.rfind(" ", 0, dot) + 1 : dot].lstrip("(\"'“")
    capital = line[after : after + 1].isupper()
    if word in _SHORT_FOR:
        return False
    if word in _SHORT_AT_END or (len(word) == 1 and word.isupper() and word != "I"):
        return capital and len(word) > 1
    return True


def _keep(piece: str, found: list[str]) -> None:
    piece = piece.strip()
    if not _LETTER.search(piece):
        return
    if len(piece) > LONGEST:
        found.extend(_cut(piece))
    elif piece[-1] == "?" and (hung_on := _HUNG_ON.search(piece)):
        found.append(piece[: hung_on.start()])  # "we use uv, can you fix the build?" states something before it asks
        found.append(piece[hung_on.end() :])
    else:
        found.append(piece)


def _cut(piece: str) -> list[str]:
    pieces, start = [], 0
    while len(piece) - start > LONGEST:
        blank = piece.rfind(" ", start + LONGEST // 2, start + LONGEST)
        end = blank if blank > 0 else start + LONGEST
        pieces.append(piece[start:end].strip())
        start = end
    return [*pieces, piece[start:].strip()]


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _any(words: str) -> str:
    """One of these, divided by blanks; "_" stands for a blank inside."""
    return "(?:" + "|".join(each.replace("_", " ") for each in words.split()) + ")"


_AFTER_END = " \"'`)]*_!.…”’"
_AROUND = ",;:!?()[]{}\"'….*`_<>"
_TYPED = str.maketrans({**dict.fromkeys("“”…–—", " "), "’": "'", "‘": "'"})
_LETTER = late.compile(r"[^\W_]")
_VOWEL = late.compile(r"[aeiouyAEIOUY]|[^\x00-\x7f]")
_BULLETS = frozenset("-*+•◦▪‣–0123456789#[")
_BULLET = late.compile(r"^(?:(?:[-*+•◦▪‣–]|\d{1,3}[.)]|#{1,6}|\[[ xX]?\]) )+")
_STOP = late.compile(r"[.!?…][\"')\]*_”’]* ")
_SHORT_FOR = frozenset("e.g i.e eg ie vs cf approx resp incl Mr Mrs Ms Dr Prof Fig al".split())
_SHORT_AT_END = frozenset("etc Inc Ltd Co Corp Jr Sr a.m p.m".split())
_HUNG_ON = late.compile(
    r"(?:[,;]| [–—-]+) (?=(?:and |but |so |then )?(?:(?:can|could|would|will|should|do|does|did|is|are|have|has) "
    r"(?:you|i|we|it|there|this|that|the|they|someone|anyone)\b|(?:what|how|why|which|where|who)\b|any (?:idea|tips)))",
    re.I,
)
_FILLERS = (
    "ok okay so well btw by_the_way also and but actually basically yeah oh ah hm hmm alright anyway anyways thanks"
    " thank_you um uh like_i_said as_i_said honestly to_be_honest for_context just_so_you_know to_be_clear to_clarify"
    " i_meant_that i_meant i_mean_that i_mean you_forgot_that currently as_of_today as_of_now in_this_repo"
    " in_this_repository in_this_project in_this_codebase"
)
#: These are filler only with a mark behind: "no, use spaces", but "no secrets in logs".
_FILLERS_WITH_MARK = (
    "yes yep no nope right sure great cool nice perfect again correct sorry in_general wait no_wait oops whoops"
    " correction update small_correction you_forgot my_mistake my_bad that's_wrong that's_not_right not_quite nein"
)
_AFTER_FILLER = ",.:;!–—-"
_FILLER = late.compile(
    rf"^(?:(?:(?:hi|hey|hello)(?: [\w'-]{{1,20}}){{0,2}}[,!]|{_any(_FILLERS)}[{_AFTER_FILLER}]{{0,3}}"
    rf"|{_any(_FILLERS_WITH_MARK)}[{_AFTER_FILLER}]{{1,3}}) ){{1,4}}",
    re.I,
)
#: The first words of those, and the last of these: without one there is nothing to look for.
_FILLER_OPENS = frozenset(
    ["hi", "hey", "hello", *(each.split("_")[0] for each in f"{_FILLERS} {_FILLERS_WITH_MARK}".split())]
)
_TRAILER_ENDS = frozenset(
    "btw way fyi thanks you please ok okay lol though tho :) :-) :d :-d sorry mistake bad misremembered misspoke wrong"
    " gone".split()
)
_TRAILER = late.compile(
    r",? (?:btw|by the way|fyi|thanks|thank you|please|ok|okay|lol|though|tho|:-?[)D])$"
    r"|[,;] (?:sorry|my (?:mistake|bad)|i (?:misremembered|misspoke|was wrong|got (?:that|it) wrong)|that was wrong"
    r"|(?:the|that) rule is gone)$",
    re.I,
)

_ASKING = late.compile(
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

_QUOTE_OPENS = late.compile(r"(?:^|[\s(:])'[^']*$")
_SUPPOSING = frozenset(
    """
    if unless whether suppose supposing imagine assuming assume maybe perhaps might could would wish hope hopefully
    wonder wondering pretend why hypothetically until consider considering thinking unsure doubt explain asked say says
    said saying claim claims claimed suggests suggested recommends recommended according reads wrote told without here
    thinks believes thought believed assumes assumed
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

_SPAN = late.compile(r"`[^`]{1,120}`")
_CODE_OPENS = late.compile(
    r"(?:import|export|package|namespace|#include|from [\w.]+ import|return|raise|throw|elif|else:|try:|def \w+\(|"
    r"class \w+[(:{ ]*$|(?:async )?function\b[ \w]*\(|(?:const|let|var|int|auto|final|val) \w+ ?[:=]|"
    r"(?:public|private|protected|static) \w+|at [\w.$<>/]+ ?\(|File \"|Traceback|Caused by|\w*(?:Error|Exception):|"
    r"\[?(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE|FATAL)\b|\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d\b|"
    r"\+\+\+ |--- |@@ |diff --git|//|/\*|\*/|>>> |\"[\w$-]+\" ?:|'[\w$-]+' ?:|[\w.$-]+@[\w.-]+:\S*[$#] )"
)
_CODE_SIGN = late.compile(r"[=;<{}&|]|::")
_CODE = late.compile(
    r"[\w)\]] (?:=|==|!=|===|!==|\+=|-=|:=|&&|\|\||=>) ?[\w(\"'{\[]|\(\)[;{. ]*(?:=>|;|\{)|\);|</\w|/>|\w::\w"
    r"|<\w+[_-]\w+|\w=\"|\{\{|\}\}"
)

_TASKS = (
    "fix finish check test debug look see try wait run update merge push commit deploy release investigate rename"
    " remove delete refactor move review do get make talk discuss start stop continue revert clean add write create"
    " change implement handle improve rewrite rebase reproduce verify confirm double-check"
)
_DONE = (
    "done deployed merged pushed committed fixed finished completed implemented released shipped updated added removed"
    " renamed created refactored installed"
)
_DOING = "working debugging looking fixing testing trying investigating waiting"
#: How it sounds when somebody tells where the work stands: words of which one is in it, words of which one is in it too
#: (where that saves a look), and how it reads.
_PASSING_ROWS = (
    ("never nevermind", "", r"^never ?mind\b"),
    (_DONE, "",
     r"^(?:(?:it's|it is|all|everything(?:'s| is)?|that's|now|just|already|ok|great|and) ){0,3}" + _any(_DONE)
     + r"\b(?!.{0,300} by )"),
    (_DOING, "currently now still busy just", r"\b(?:currently|now|still|busy|just) " + _any(_DOING) + r"\b"),
    (_DOING + " going about stuck getting seeing done running", "i'm we're am are",
     r"\b(?:i'm|i am|we're|we are) (?:now )?(?:working on|debugging|looking (?:at|into|for)|trying|going to|about to"
     r"|stuck|testing|investigating|waiting|getting|seeing|done|running into)\b"),
    ("next", "step steps", r"\bnext steps? (?:is|are|would)\b"),
    ("now", "let's let i'll we'll i please", r"\bnow,? (?:let's|let us|i'll|we'll|i will|please)\b"),
    ("let", "me", r"\blet me (?!know)"),
    ("decided agreed opted chose", "to",
     r"\b(?:decided|agreed|opted|chose) to (?:meet|talk|wait|call|sync|chat|discuss|go (?:to|for|home|out)"
     r"|have (?:lunch|a)|grab|take a|catch up|revisit|move on|continue|postpone|try|see|look)\b"),
    ("once time", "this just only", r"\b(?:(?:just|only) )?(?:for )?this (?:once|time)\b|\b(?:just|only) once\b"),
    ("let's", "",
     r"\blet's (?:now|see|start|continue|move on|try|check|look|fix|run|test|begin|proceed|do|get|debug|add|make"
     r"|first|take|write|create|implement|update|finish|wait|revert|commit|push|merge)\b"),
    ("i'll we'll will", "i'll we'll i", r"\b(?:i'll|i will|we'll) "),
    ("should must need have gotta ought", "we you i we'll",
     r"\b(?:we|you|i)(?:'ll| will)? (?:should|must|need to|have to|gotta|ought to)(?: also| really| probably| first"
     r"| now| just)? " + _any(_TASKS) + r" (?:up |out |on |at |into |sure )?(?:the|this|that|it|these|those|my|your"
     r"|our|a|an|some|all|more|another)\b"),
    ("today tomorrow tonight asap yet week", "should must need have",
     r"\b(?:should|must|need to|have to)\b.{0,200}\b(?:today|tomorrow|tonight|asap|this week|yet)\b"),
    ("minute minutes hour hours seconds", "left next",
     r"\b(?:minutes?|hours?|seconds) left\b|\bfor the next [\w ]{1,12}(?:minutes|hours)\b"),
    ("only just", "this",
     r"\bfor this (?:experiment|run|session|demo|one|test) only\b"
     r"|\b(?:just|only) for this (?:experiment|run|session|demo)\b"),
    ("branch", "",
     r"\b(?:on|current|checked out|switched to|to) (?:the )?branch\b|\bbranch is (?:ahead|behind|up)"),
)  # fmt: skip
#: "The build (is still) failing": what is worked on, words between, the state, and what may come behind.
_WORKED_ON = frozenset(
    """
    test tests build builds ci pipeline check checks suite lint everything deploy deploys deployment job jobs workflow
    it they branch pr server site app
    """.split()
)
_ON_CONDITION = frozenset("or otherwise when whenever".split())  # "... or CI fails" is a rule
_BETWEEN = frozenset("is are was were has have all now still should just currently been keeps seems not".split())
_STATES = frozenset(
    """
    pass passes passed passing fail fails failed failing broken green red down done ready merged deployed pushed
    committed finished complete completed stuck fixed working running crashing blocked
    """.split()
)
_BEHIND = frozenset("now again locally on in with after because for so and but when at since".split())
#: "I get (the same) error".
_MET = frozenset("get gets getting got see seeing hit hitting have had having throw throws".split())
_WHICH = frozenset("this that the a an some same".split())
_TROUBLE = frozenset(
    """
    error errors exception exceptions warning warnings failure failures crash stacktrace bug bugs problem problems
    issue issues
    """.split()
)
#: "Issue 12", "44 tests" and "at most 400 lines", which is no count but a rule.
_NUMBERED = frozenset("pr mr issue ticket request line lines".split())
_COUNTED = frozenset("test tests file files error errors warning warnings failures commit commits lines".split())
_BOUNDS = frozenset("under below most max maximum minimum least per limit than exceed over above every up".split())
_ISSUE_OR_HASH = late.compile(r"#\d{1,5}|(?=[a-f]{0,40}\d)(?=\d{0,40}[a-f])[0-9a-f]{7,40}")
_DIGIT = late.compile(r"\d")


class _Passing(NamedTuple):
    also: frozenset[str]
    pattern: re.Pattern[str]


def _by_word() -> dict[str, list[_Passing]]:
    found: dict[str, list[_Passing]] = {}
    for words, also, reads in _PASSING_ROWS:
        row = _Passing(frozenset(also.split()), late.compile(reads, re.I))
        for word in words.split():
            found.setdefault(word, []).append(row)
    return found


_PASSING = _by_word()
_PASSING_WORDS = frozenset(_PASSING) | _STATES | _TROUBLE

_POINTS = late.compile(
    r"(?:this|that(?! (?:we|the|all|every|each|our|an?|no|any|there)\b)|these|those|it|its|they|them|such|your|yours|he"
    r"|she|you|there|here|one|ones|both|either|neither|if|how|what|when|where|who|why|which|not|the (?:first|second"
    r"|third|last|other|latter|former|same|next|previous|new|old|above|following|current|existing|wrong|right"
    r"|correct|latest)|option \w|approach \w\b)(?: |$|'s|,)"
    r"|(?:to )?\w+ (?:(?:this|these|those|it|them)(?: |$|,)|that(?:$|,))",
    re.I,
)
_POINTS_INSIDE = late.compile(
    r"\b(?:this|that) (?:one|way|approach|option)\b|\bthis(?:$| (?:component|function|file|test|case|method|class|page"
    r"|line|step|example|pr|branch|commit|task)\b)|\boption [a-d1-9]\b|\bthe above\b|\bas is$|\blike (?:this|that)\b"
    r"|\bfor now\b|\bright now\b|\bhere$|\byet$|\bwhat you (?:said|did|have|suggested)"
    r"|\byour (?:suggestion|idea|approach|plan)",
    re.I,
)
_POINTING = frozenset("this one way approach option above is like now here yet you your".split())
#: Words that name nothing.
_LIGHT = frozenset(
    """
    a an the this that these those it its them they i we you me us my our your to of for in on at by with from as and or
    not no so then just now later today again also too very really only is are be was do does did doing done go going
    goes use uses using used keep keeps leave take takes make makes get gets try have has had want need like option
    options one ones approach way ways thing things stuff version idea first second third former latter same other
    both all some any each everything something nothing everyone here there please sure okay ok yes same them good
    better best fine more less work works working wait happen happens
    """.split()
)
