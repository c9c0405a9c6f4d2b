r"""How a row of the table is written, and made into a regular expression.

How a sentence reads is a regular expression in which `(a|b)` groups without capturing, case does not matter, and these
marks stand for more:

    <what>          a thing: up to eight words that name something, without a verb
    <rule...>       a clause: all the rest, up to thirty words; <choice...?> is as short as can be
    <how=a|b>       one of these words
    <end>           where a thing ends: at "for", "when", "because", at a comma, at the end
    <stop>          the same, but "for" and "when" belong to the thing: what limits a statement is not cut off
    <adv>           words that change nothing: "really", "also", "currently"
    <we>            the team, with or without "have", as the subject of what follows
    <project>       the team's work as a subject: "our backend", "this repo"
    <person>        a name with a capital, as the part {name}
    <contrast>      what is not meant, where it is said: ", never npm", as the part {but}

What is kept fills the parts into a text; "[ over {than}]" stands only where that part was said, and "" keeps the
sentence as it was said.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from cofio.model import Kind


class Row(NamedTuple):
    kind: Kind
    confidence: float
    words: str  # one of these is in the sentence; "don't+like": both are; "#": a digit
    reads: str
    keeps: str = ""
    entities: str = ""
    who: Literal["user", "anyone"] = "user"


class Wish(NamedTuple):
    """An opening that asks for what follows to be kept."""

    confidence: float
    words: str
    reads: str


def both(some: str, others: str) -> str:
    """The words of a row that asks for one of these and one of those."""
    return " ".join(f"{one}+{other}" for one in some.split() for other in others.split())


class Reading(NamedTuple):
    """A row, ready to be used."""

    row: Row
    pattern: re.Pattern[str]
    anchored: bool  # it reads a sentence from its beginning
    things: tuple[str, ...]
    clauses: tuple[str, ...]


def compiled(row: Row) -> Reading:
    """The row with its regular expression, and which of its parts are things and which are clauses."""
    things: list[str] = []
    clauses: list[str] = []

    def part(mark: re.Match[str]) -> str:
        name, clause, words = mark["name"], mark["clause"], mark["words"]
        if words:
            return f"(?P<{name}>{words})"
        if clause:
            clauses.append(name)
            lazy = clause[3:]
            return rf"(?P<{name}>\S++(?: \S++){{0,29}}{lazy}){'' if lazy else '$'}"
        things.append(name)
        return f"(?P<{name}>{_THING}{_LIST if name == 'what' else ''})"

    return Reading(row, pattern(_MARK.sub(part, _with_marks(row.reads))), row.reads[0] == "^", (*things,), (*clauses,))


def pattern(reads: str) -> re.Pattern[str]:
    """A regular expression in which plain groups do not capture, and case does not matter."""
    return re.compile(_GROUP.sub("(?:", reads), re.IGNORECASE)


def _with_marks(reads: str) -> str:
    for mark, stands_for in _MARKS.items():
        reads = reads.replace(mark, stands_for)
    return reads


_GROUP = re.compile(r"(?<!\\)\((?!\?)")
_MARK = re.compile(r"(?<!\?P)<(?P<name>\w+)(?:(?P<clause>\.{3}\??)|=(?P<words>[^<>]+))?>")

_WORD = r"([^\s,;:!?\(\)\"“”]|[:?!,](?=\S))++"  # a dot, a plus or a slash inside belongs to a name
_THING = rf"{_WORD}( {_WORD}){{0,7}}?"
_LIST = rf"((, {_WORD}){{1,5}},? (and|or) {_WORD})?"  # "Rust, Go and Zig"
_BREAK = (
    r"(?= (because|since|but|so|although|though|while|whereas|especially|which|please|thanks)\b"
    r"| and (i|we|it|they|you|he|she|then|please|that|the|now|my|our|\w+ing)\b|[,;:]? ?(btw|by the way)\b"
    r"| (last|this|next) (week|month|year|quarter|sprint|spring|summer|autumn|fall|winter)\b"
    r"| (yesterday|recently|\d+ \w+ ago|a while ago)\b"
    r"| (better|more|best|a lot|the most|too|as well|very much|instead)$|[,;:!?]( |$)| ?[\(\)]| [-–—]+ |$)"
)
#: What does not begin the name of something: "not sure why", "never lost a key".
_NO_THING = (
    r"sure|yet|really|always|only|just|that|this|it|because|since|mind|on|in|at|for|to|from|with|by|when|if|as|an?|the"
    r"|my|our|all|any\w*|so|very|quite|too|even|ideal|great|perfect|pretty|again|once|much|many|\w+ed|lost|saw|seen|got"
    r"|been|found|made|went|ran|see|get|had|have|need|needs|think|look|be|is|was|were|do|does|did|i|we|you|they"
)
_MARKS = {
    "<end>": rf"((?= (for|when|whenever|as|if|unless)\b)|{_BREAK})",
    "<stop>": _BREAK,
    "<adv>": r"((really|strongly|generally|usually|also|still|personally|definitely|much|just|now|currently|recently"
    r"|finally|already|actually|all|both|simply|normally|typically|have|tend to|absolutely|mutually|eventually) ){0,2}",
    "<we>": r"\b(we|our team|the team)('ve| have| has)? ((just|recently|finally|already|now|actually|also|all) )?",
    "<project>": r"(our (team|[\w-]+)|the (team|project|app|backend|frontend|codebase|repo|repository|api|service)"
    r"|(this|my) (project|repo|repository|codebase|app))",
    "<contrast>": rf"(,? (and )?(not|never|instead of|rather than) <but=(?!({_NO_THING})\b)[\w@][\w@./+#-]*"
    rf"( (?!({_NO_THING})\b)[\w@./+#-]+){{0,3}}>(?=$|,? (because|since|so)\b))?",
    "<person>": r"(?!(It|This|That|He|She|They|We|The|Who|What|There|Each|Nobody|Everyone|Someone|One|My|Our)\b)"
    r"(?P<name>(?-i:[A-Z][\w'-]+( [A-Z][\w'-]+)?))",
}
