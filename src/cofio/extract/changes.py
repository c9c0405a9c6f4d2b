"""What a change sounds like, and what is listed in one breath: rows beside those of `table`, and clauses written out.

A change is kept as the state that it leads to, "the staging port is 9090", so that it takes the place of what was
known, whichever way that was said.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from cofio import late
from cofio.extract.sayings import Row, both

#: What is set to one value, and is called the same when the value changes.
_SET = (
    "port|url|uri|host|hostname|domain|endpoint|branch|region|zone|bucket|cluster|namespace|queue|topic|version|timeout"
    "|limit|ttl|retention|threshold|interval|quota|deadline|(release|launch|due) date|budget|prefix|channel|size|window"
    "|database|registry"
)
_NAMED = "service|project|app|product|package|repo|repository|team|table|company|module|library|api|frontend|backend"
_THING = rf"(?!new |old |current |next |branch )([\w./'-]+ ){{0,4}}?({_SET})"
_PLACE = "staging|prod|production|dev|development|qa|preprod|ci"
_COVERAGE = r"(the |our )?((test|code|line|unit test) )?coverage"
_PERCENT = r"<value=\d+(\.\d+)? ?(%|percent)>"
_SHIFTED = "changed|moved|switched|went( up| down)?|increased|decreased|dropped|rose"
_SHIFT = "changed|moved|bumped|raised|lowered|increased|decreased|reduced|set|switched|updated|renamed"
_DATE = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)|q[1-4]\b|\d{4}|(mon|tues|wednes|thurs|fri|satur|sun)day"

CHANGES = (
    Row("policy", .85, "coverage",
        rf"^{_COVERAGE} (has to|must|should|needs to) (stay|be|remain|not (drop|fall|go|be))( at)? "
        rf"(above|over|at least|below|under) {_PERCENT}",
        "The coverage threshold is {value}"),
    Row("policy", .85, "coverage",
        rf"^{_COVERAGE} (threshold|minimum|target|gate|limit|requirement)"
        rf"( is| (was |has )?(changed|went) to) {_PERCENT}",
        "The coverage threshold is {value}"),
    Row("policy", .85, "coverage",
        rf"<we>(bumped|raised|lowered|changed|increased|moved|set) {_COVERAGE}"
        r"( threshold| minimum| target| gate| limit)?"
        rf"( from \S+( percent)?)? to {_PERCENT}",
        "The coverage threshold is {value}"),
    Row("other", .9, both("changed moved switched went increased decreased dropped rose bumped raised lowered set",
                          "to"),
        rf"^<whose=the|our> <thing={_THING}> ((has |have )?(just |recently )?({_SHIFTED})"
        rf"|(was|has been|got) ({_SHIFT}))"
        r"( from <old>)? to <value><stop>",
        "{whose} {thing} is {value}", "value"),
    Row("other", .9, both("goes went", "to"),
        rf"^(the |our )?<thing={_THING}> (goes|went)( up| down)?( from <old>)? to <value=\S*\d\S*( \S+){{0,5}}?><stop>",
        "The {thing} is {value}", "value"),
    Row("other", .85, "goes+up goes+down",
        r"^(the |our )?<thing=[\w-]+( [\w-]+)?> goes (up|down)( from <old>)? to <value=\S*\d\S*( \S+){0,5}?><stop>",
        "The {thing} is {value}", "value"),
    Row("other", .85, both("extended postponed delayed rescheduled pushed", "to"),
        rf"^(the |our )?<thing> (is|was|got|has been) (extended|postponed|delayed|rescheduled|pushed back) to "
        rf"(?=([\w.]+ )?({_DATE}))<when><stop>",
        "The {thing} was moved to {when}", "when"),
    Row("other", .9, both("my", "changed moved"),
        r"^my <trait=([\w-]+ )?(name|email|e-mail|username|handle|editor|shell|job|role|title|timezone|phone|address)> "
        r"(has )?(just )?(changed|moved)( from <old>)? to <what><stop>",
        "User's {trait} is {what}", "what"),
    Row("other", .9, both(_SHIFT.replace("|", " "), "to"),
        rf"(<we>|^I('ve| have)? )(just )?({_SHIFT}) <whose=the|our> <thing={_THING}>( from <old>)? to <value><stop>",
        "{whose} {thing} is {value}", "value"),
    Row("other", .9, "isn't+it's isn't+but not+it's not+but aren't+they're",
        r"^<whose=the|our> <thing> (isn't|is not|aren't|are not) <old>(,| -| but) (it's |it is |they're |they are )?"
        r"<value><stop>",
        "{whose} {thing} is {value}", "value"),
    Row("other", .85, "#+on",
        r"^(the |our )?<thing=[\w-]+( [\w-]+)?> (is|runs|listens) on <value=\d{4,5}><stop>",
        "The {thing} port is {value}", "value"),
    Row("technology", .85, "#+on #+at",
        r"^<thing=(the |our )?[\w.-]+( [\w.-]+)?> (is|are|runs) <how=on|at> "
        r"<value=(version|Kubernetes|k8s) v?\d+(\.[\dx]+)*|v?\d+(\.[\dx]+)+><stop>",
        "{thing} is {how} {value}", "value"),
    Row("technology", .85, both("upgraded bumped updated moved", "to"),
        rf"<we>(upgraded|bumped|updated|moved) <place={_PLACE}>( from <old>)? to "
        r"<value=((version|Kubernetes|k8s) )?v?\d+(\.[\dx]+)*><stop>",
        "{place} is on {value}", "value"),
    Row("technology", .85, both("upgraded bumped updated", "on"),
        r"^<thing=(the |our )?[\w.-]+( [\w.-]+)?> (got|was|has been) (upgraded|bumped|updated)( too| as well)?,? "
        r"(and )?(it's|it is) (on|at) <value=(version )?v?\d+(\.[\dx]+)*>( as well| too)?<stop>",
        "{thing} is on {value}", "value"),
    Row("technology", .9, both("upgraded bumped updated", "to"),
        r"<we>(upgraded|bumped|updated (?!the |our )) ?(?!it |this |that |these )<thing>( from <old>)? to "
        r"(?=\S*\d|[\w.]+ v?\d)<new><stop>",
        "Team upgraded {thing} to {new}", "thing new"),
    Row("technology", .85, "renamed",
        rf"<we>renamed (?=the |our )<thing=(the|our) ([\w-]+ ){{0,3}}?({_NAMED})>( from <old>)? to <new><stop>",
        "Team renamed {thing} to {new}", "new"),
    Row("technology", .85, both("moved switched migrated changed", "from"),
        r"^(our <thing>|the ([\w-]+ )?(backend|frontend|app|api|service|site|website|database|pipeline|build|ci|project"
        r"|codebase|repo|docs|worker|cluster)) (has |have )?(moved|switched|migrated|changed) from <old> to "
        r"<new><stop>", "", "old new"),
    Row("other", .85, "moved+i",
        r"^I('ve| have)? <adv>moved to (?=(?-i:[A-Z]))(?!\S+ \d)<where><stop>",
        "User moved to {where}", "where"),
    Row("policy", .85, "can+now can+again",
        r"^we can (now |again )?"
        r"<rule=(deploy|release|ship|publish|merge|push) (on|at|during|without|outside|before|after) "
        r"[^,;]{2,60}?><stop>",
        "We can {rule}"),
    Row("technology", .85, both("ended", "using"),
        r"\bwe ended up not using <what><stop>",
        "Team does not use {what}", "what"),
    Row("other", .85, "took+over takes+over taking+over",
        r"^<person> (took|takes|is taking) over <what>( from <old>)?<stop>",
        "{name} owns {what}", "name what"),
    Row("other", .85, "owns",
        r"^<person> owns the <what=[\w-]+> (module|area|part|code)<stop>",
        "{name} owns {what}", "name what"),
    Row("other", .85, "left",
        r"^<person> (has )?left the <what=company|team|project><stop>",
        "{name} left the {what}", "name"),
)  # fmt: skip


# ── clauses written out ───────────────────────────────────────────────────────────────────────────────────────────────


def written_out(sentence: str, held: Collection[str]) -> str:
    """The sentence with what its clauses share said in each: "A listens on port 1 and B [listens] on port 2"."""
    for word, shared, instead in _SHARED:
        if word in held:
            sentence = shared.sub(instead, sentence, count=1)
    return sentence


def listed(plain: str) -> Iterator[str]:
    """What a list of the parts of a project says of each: "it's a Next.js app with Postgres 15, hosted on Vercel"."""
    opening = _OPENS_LIST.match(plain)
    parts = _BETWEEN_PARTS.split(plain[opening.end() :]) if opening else []
    if len(parts) < 2:
        return
    read = [_PART.fullmatch(part) if not _TROUBLE.search(part) else None for part in parts]
    for match in read if all(read) else ():
        if match and match["region"]:
            yield f"The region is {match['region']}"
        elif match:
            how = "is hosted on" if match["host"] else "runs on" if match["on"] else ""
            yield f"The project {how} {match['name']}" if how else f"Team uses {match['name']}"


#: A word that is there, what two clauses share, and how it reads when both say it.
_SHARED = (
    ("port",
     late.compile(r"\b(listens|runs|is) on port (\d+)(?:,| and|, and) ((?:the|our) [\w -]{2,40}?) on (?:port )?(\d+)",
                re.IGNORECASE),
     r"\1 on port \2, and \3 \1 on port \4"),
    ("never",
     late.compile(r"\bwe (\w+) ([^,;]{2,80}?),? (?:and|but) never (?=(?:on|in|from|to|at|during|before|after)\b)",
                re.IGNORECASE),
     r"we \1 \2, and we never \1 "),
    ("ask",
     late.compile(r"^([A-Z][\w'-]+) (\w+s) ([^,;]{2,80}), (?:so |and )?ask (?:her|him|them) (?=before (?!you |we ))"),
     r"\1 \2 \3, ask \1 "),
)  # fmt: skip
_TROUBLE = late.compile(r"(?:error|exception|bug|issue|problem)\b", re.IGNORECASE)
LISTING = frozenset("it's it this stack".split())
_OPENS_LIST = late.compile(
    r"(?:it's|it is|this is|this one's|this one is|(?:this|the|our) (?:project|repo|app) is|(?:our|the) stack is"
    r"|stack:) (?:an? )?(?=[A-Z])",
    re.IGNORECASE,
)
_BETWEEN_PARTS = late.compile(
    r",? (?:with|and|plus) (?:an? )?|, (?:an? )?"
    r"| (?=(?:hosted|deployed|running) on )|(?<!hosted)(?<!deployed)(?<!running) (?=on [A-Z])"
)
_PART = late.compile(
    r"(?:region (?P<region>[a-z]+(?:-[a-z]+)+-\d)|(?:(?P<host>(?:hosted|deployed|running) (?:on|to) )|(?P<on>on ))?"
    r"(?P<name>[A-Z][\w.+#-]*(?: [A-Z][\w.+#-]*)?(?: v?\d[\w.]*)?)"
    r"(?: (?:app|application|project|database|db|repo|backend|frontend|cluster|monorepo|service|site|shop|api))?)"
)
