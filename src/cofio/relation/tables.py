"""The closed classes that a sentence is read with: small words, units, times, and families of verbs.

Nothing here names a product, a host or an attribute. What a fact is about is told by where its words stand.
"""

from __future__ import annotations

from cofio.relation.stems import stem, stems

# ── small words ───────────────────────────────────────────────────────────────────────────────────────────────────────

BE = frozenset("is are was were be been being am equals becomes became become remains remain =".split())
HELPERS = frozenset("has have had do does did will would shall should must can could may might".split())
TENTATIVE = frozenset("will would shall should could may might".split())
WAS = frozenset("was were had did formerly previously once".split())
BEFORE = frozenset("formerly previously once".split())
INDEFINITE = frozenset("a an some someone somebody person people one two three four five several few many".split())
NOT = frozenset("not never no none nobody nothing nowhere neither nor hardly barely".split())
DETERMINERS = frozenset("a an the this that these those our its their some any such own".split())
DEFINITE = frozenset("the our my this its their".split())
USER = frozenset("i me my mine user myself".split())
TEAM = frozenset("we us".split())
#: "This project uses" says what "we use" does.
OURS = frozenset("project repo repository codebase".split())
#: Prepositions and the like. What follows narrows a statement down, or hangs on its verb.
BINDING = frozenset(
    """
    of in on at to for from with without by as into onto over under within during across through via per between among
    behind near beside against about around before after until till since because when whenever while if unless whether
    inside outside above below upon off out toward towards along beyond despite than up down insteadof ->
    """.split()
)
#: Prepositions that join the words on either side to one phrase.
INSIDE = frozenset("of per up down off out than".split())
#: Prepositions that say little of their own; the others tell two statements apart.
FAINT = frozenset("of in on at for to by as per with -> insteadof".split())
REASONS = frozenset("because since although though while whereas".split())
OFTENNESS = frozenset("often rarely seldom usually sometimes frequently".split())
#: Of the moment, of the speaker's mood, for emphasis: no part of what is said.
SILENT = frozenset(
    """
    now currently just really very please so indeed already actually always simply basically today recently finally then
    there here still well ok okay yes presently henceforth officially yet again ever instead
    """.split()
)
RELATIVE = frozenset("which that who whom".split())
ADDING = frozenset("also too additionally another both further furthermore plus besides".split())
#: What asks, and so states nothing.
ASKING = frozenset("how what why where which who when can could would should do does is are will shall may".split())
#: Nouns that may be said or left out.
GENERIC = stems(
    "service environment value setting parameter version amount number level server application system choice tool"
    " instance"
)
#: What tells only that it was another before.
NEWNESS = frozenset("new current latest".split())
#: Of which one may have many.
MANY = stems(
    "friend colleague teammate coworker hobby client customer contact vendor competitor sister brother child son"
    " daughter cousin pet skill goal interest problem issue bug task example reason step idea"
)
#: Things that have many parts. What is used for one of them is not all that is used for it.
CONSUMERS = stems("service app project team site client customer repository module product")
ENVIRONMENTS = frozenset("production staging development prod dev qa preview".split())

# ── numbers and times ─────────────────────────────────────────────────────────────────────────────────────────────────

NUMBER_WORDS = {
    word: str(number)
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split()
    )
} | {"twenty": "20", "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "hundred": "100", "thousand": "1000"}
UNITS = {
    form: forms.split("/")[0]
    for forms in """
    second/seconds/sec/secs/s millisecond/milliseconds/ms/msec minute/minutes/min/mins hour/hours/h/hr/hrs
    day/days/d week/weeks month/months quarter/quarters year/years/yr/yrs
    byte/bytes kilobyte/kilobytes/kb megabyte/megabytes/mb gigabyte/gigabytes/gb terabyte/terabytes/tb
    kib mib gib tib percent/% usd/dollar/dollars/$ euro/euros/eur/€ pound/pounds/gbp/£ kg/kilo/kilos/kilogram/kilograms
    gram/grams/g lb/lbs mile/miles km/kilometre/kilometres/kilometer/kilometers metre/metres/meter/meters/m
    cm mm px/pixel/pixels times/x degree/degrees mbit gbit
    """.split()
    for form in forms.split("/")
}
WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
MONTHS = "january february march april may june july august september october november december".split()
SHORT = {each[:3]: each for each in (*WEEKDAYS, *MONTHS)} | {
    "tues": "tuesday",
    "thurs": "thursday",
    "sept": "september",
}
OFTEN = frozenset("daily weekly monthly yearly hourly quarterly nightly biweekly annually".split())
WHEN = OFTEN.union(
    WEEKDAYS, MONTHS, "weekday weekend yesterday tomorrow morning afternoon evening noon midnight".split()
)
#: Since when something holds: the moment of a change, no part of what it is now.
EFFECTIVE = frozenset("starting beginning effective since".split())

#: Forms of the past that do not end in "ed".
PAST = frozenset(
    """
    went gone brought left chose chosen built sent made took taken gave given wrote written led met grew grown rose
    risen fell ran kept held paid spent found won lost began got bought sold taught thought saw knew spoke drove ate
    """.split()
)

UNCHANGED = frozenset("set cut put shut hit let read run".split())

# ── verbs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

#: One thing gives way to another: "from A to B", "to B".
CHANGING = stems(
    """
    switch migrate move change transition convert port upgrade downgrade bump raise increase decrease reduce lower
    extend shorten cut grow drop adjust update set reset go rise fall swap shift rename relocate improve expand trim
    tighten relax bring push double halve reschedule postpone amend revise correct configure slip pin
    """
)
#: "replaced A with B", "B replaces A".
REPLACING = stems("replace swap trade substitute supersede")
#: "dropped A", "ditched A for B".
LEAVING = stems("drop ditch abandon leave retire remove deprecate discontinue scrap quit axe")
#: "stopped using A", "avoids A".
STOPPING = stems("stop avoid quit cease refuse forbid ban prohibit")
USE, HAVE, LOCATE = stem("use"), stem("have"), stem("locate")
USING = stems("use adopt choose pick select employ standardise rely")
PREFERRING = stems("prefer favour favor want")
LIKING = {stem(each): True for each in "like love enjoy adore".split()} | {
    stem(each): False for each in "dislike hate detest loathe".split()
}
#: What is put into a state, or into the opposite one.
SWITCHING = stems("enable disable activate deactivate allow deny forbid block lock unlock include exclude show hide")
#: X does it: that is what X is used for.
HANDLING = stems("handle power serve provide cover")
MILD = stems("like dislike")
#: A thing has one such person or team at a time, and stands behind the verb. The noun goes with its verb.
OWNING: dict[str, str] = {
    stem(form): stem(forms.split("/")[0])
    for forms in "own/owner lead/leader manage/manager maintain/maintainer head/head chair/chair".split()
    for form in forms.split("/")
}
#: Where somebody or something is.
PLACING = stems(
    """
    live reside stay locate base host deploy move relocate sit run store publish save write rewrite work
    manage log define track document record keep register declare implement archive index monitor
    """
)
#: Of those, what says no more than that it is there.
BEING = stems("live reside stay locate base move relocate")
#: Of those, what is done in environments, of which there are many.
RUNNING = stems("run host deploy")
MOVING = stems("move relocate rewrite")
#: Behind which prepositions the place stands, and what kind of place it is.
WHERE = {"": frozenset("in on at to into onto with".split()), stem("work"): frozenset(("at", "for"))}
HOW = {stem("write"): "written", stem("rewrite"): "written", stem("work"): "work"}
HAVING = stems("use run get come start work operate have configure provision equip")
#: One at a time stands behind the verb, where it is a number or a time ...
SINGLE = stems(
    """
    weigh cost last take expire listen measure start end begin close open renew rotate run retain keep pay charge score
    earn sleep commute poll
    """
)
#: ... and where it is a name, too.
POINTING = stems("name call title report belong default point resolve equal")
DECIDING = stems("decide agree")
#: What is not yet so: it corrects nothing.
HOPING = stems("plan want intend hope consider think try wish propose suggest explore")
BEGINNING = stems("start begin")
#: Verbs that say of a thing only that it is done.
DOING = stems("do make run take perform handle process execute manage")
#: Verbs that another verb may follow, which is the one that tells.
LEADING = DECIDING | HOPING | STOPPING | BEGINNING
#: Verbs that say nothing of their own beside a number.
LIGHT = {"be", ""} | stems("have use run listen allow get") | (CHANGING - stems("move go bring push port double halve"))
#: What is done with several versions of a thing at a time.
SEVERAL = stems("support test")
#: Verbs of which the past says what is now.
RESULTING = CHANGING | REPLACING | LEAVING | USING | SWITCHING | stems("rewrite")
#: Verbs of which the passive says where, by whom or into what.
LEADING_ON: frozenset[str] = CHANGING | REPLACING | LEAVING | USING | SINGLE | POINTING | PLACING | OWNING.keys()
#: All that can be told for a verb by its form alone.
VERBS = (
    LEADING_ON | STOPPING | PREFERRING | LIKING.keys() | DECIDING | HOPING
    | stems(
        """
        need require support include contain provide allow expect handle send receive read create build make take give
        show return fail pass lint format document track log review merge squash commit release ship test monitor cache
        encrypt authenticate connect depend emit consume produce expose serve know speak learn visit
        attend solve complete meet finish reach achieve contribute retry
        """
    )
) - stems("owner leader manager maintainer")  # fmt: skip

# ── what describes ────────────────────────────────────────────────────────────────────────────────────────────────────

#: How words end that describe a thing, and so do not exclude each other.
DESCRIBING = ("ed", "ing", "able", "ible", "ful", "ous", "ive", "less", "ent", "ant", "ish", "ic", "al", "ly", "est")
DESCRIPTIONS = frozenset(
    """
    slow fast good bad big small large open ready down up safe broken flaky new old hard easy wrong right true false on
    off high low long short clean green red dead live done fine important busy full empty late early nice great
    """.split()
)
