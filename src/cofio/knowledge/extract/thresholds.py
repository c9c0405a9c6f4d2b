"""Thresholds in sentences: source, metric, value and direction.

    "flag AAPL if volume exceeds 5M" ─ what is flagged, the condition ─▶ source, metric ┐
                                       how it compares, the quantity ─▶ direction, value┴─▶ fields of a Threshold

A sentence is read completely or not at all: None if it has an unknown opening, two comparisons, or a further condition
after the value. It is then kept as a memory in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from cofio.knowledge.extract import metric_names
from cofio.knowledge.extract.metric_names import Subject
from cofio.knowledge.extract.quantities import TextQuantity, quantities
from cofio.models.knowledge import ANY
from cofio.text import lazy_re

Fields: TypeAlias = dict[str, Any]


class _Condition(NamedTuple):
    """Parts of a condition: what is compared, how, with what value, and the text after it."""

    what: str
    above: bool
    inclusive: bool
    quantity: TextQuantity
    tail: str
    verbless: bool = False  # "latency over 300 ms": the words before it may end in a verb
    limit: bool = False  # it states a limit to keep, not a value to flag
    moved: int = 0  # a change (+1 up, -1 down) rather than a level
    lasting: bool = False  # a duration is compared

    def opposite(self) -> _Condition:
        return self._replace(above=not self.above, inclusive=not self.inclusive)


def fields(said: str, *, labelled: bool = False, about: str = "") -> Fields | None:
    """Return the fields of the threshold.

    `about` is the source named in its label; without a label the text must name it.
    """
    if _LIMITED.search(said):
        return None
    told = _PARENTHESIS.sub(" ", said)
    if shown := _SHOWN.fullmatch(told):
        return _shown(shown)
    parts = _parts(told)
    if parts is not None:
        flagged, condition = parts
        compared = _compared(condition)
        return _of(flagged, compared, about) if compared and not compared.limit else None
    return _labelled(told, about) if labelled else None


def denied_fields(said: str) -> Fields | None:
    """Return the fields that identify the thresholds which the sentence revokes."""
    match = _DENIES.match(said)
    if not match or _LIMITED.search(said):
        return None
    rest = _NO_MORE.sub("", _PARENTHESIS.sub(" ", said[match.end() :])).strip(" ,.")
    if " if " in f" {rest}" or " when " in f" {rest}":
        told_of = fields(f"flag {rest}") or {}
        return {name: told_of[name] for name in ("source", "metric", "direction", "value") if name in told_of} or None
    told = metric_names.parse_subject(_ON.sub("", rest))
    if told is None or any(map(metric_names.is_time, rest.split())):
        return None
    if told.source is None and not metric_names.is_metric((told.metric or "").split()[-1]):
        return None  # "do not alert the team"
    found: Fields = {"source": told.source or ANY}
    return {**found, "metric": told.metric} if told.metric else found


# ── the parts of a sentence ───────────────────────────────────────────────────────────────────────────────────────────


def _parts(said: str) -> tuple[str, str] | None:
    """Return the object to flag and the condition; None if the sentence is not a rule to flag something."""
    if match := _FIRST.fullmatch(said):  # "if volume exceeds 5M, flag AAPL"
        return _object(match["verb"], match["what"] or ""), match["condition"]
    trigger = _TRIGGER.search(said)
    if trigger and _opens_well(said[: trigger.start()]):
        flagged = _object(trigger["verb"], trigger["what"] or "", said[: trigger.start()])
        return flagged, said[trigger.end() :]
    if match := _PASSIVE.fullmatch(said):  # "AAPL should be flagged if volume exceeds 5M"
        return (match["what"], match["condition"]) if match["condition"] else ("", match["what"])
    return None


def _opens_well(opening: str) -> bool:
    return _OPENING.fullmatch(opening.strip()) is not None


def _object(verb: str, what: str, opening: str = "") -> str:
    """Return the flagged object as a candidate source name; "" if it is the recipient of the alert."""
    said = _AS_WHAT.sub("", what.strip(" ,"))
    if prefixed := _FOR_WHICH.match(opening.strip()):
        return prefixed["name"] if not said else f"{prefixed['name']}?"  # two sources: rejected later
    if match := _ON.match(said):
        return said[match.end() :]
    if verb.lower() in ("flag", "flagging") or not said:
        return said
    return "" if _WHOM.fullmatch(said) else f"{said}?"  # "alert Bob if" is ambiguous; "?" makes it an invalid name


def _labelled(said: str, about: str) -> Fields | None:
    """Return the fields of a labelled condition, which is bare or states a limit to keep."""
    keep = _KEEP.match(said)
    compared = _compared(said[keep.end() :] if keep else said)
    if compared is None:
        return None
    if keep and not compared.limit:
        compared = compared.opposite()._replace(verbless=True)
    elif compared.limit is False and compared.verbless and _UNSAID.search(said[: compared.quantity.start]):
        return None  # "free disk at least 10 GB" may be a requirement or something to flag
    return _of("", compared, about)


# ── comparisons ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _compared(condition: str) -> _Condition | None:
    """Return the only comparison in the condition; None if there is none, or several."""
    if _BETWEEN.search(condition):
        return None
    found = list(_comparisons(condition))
    return found[0] if len(found) == 1 else None


def _comparisons(condition: str) -> Iterator[_Condition]:
    told = quantities(condition)
    for quantity in told if len(told) <= _MOST else ():
        before, tail = condition[: quantity.start].rstrip(), condition[quantity.end :]
        near = max(0, len(before) - _NEAR)
        if _FOR_LONGER.search(before, near):
            continue  # the minimum duration of the condition
        if (match := _COMPARES.search(before, near)) is not None:
            if (match["up"] or "").lower() == "over" and quantity.unit == "%":
                continue  # "rises over 5%" may mean "to" or "by"
            yield _completed(match, before, quantity, tail)
        elif (match := _OR_MORE.match(tail)) is not None:
            what = _REACHES.sub("", before)
            above = match["more"] is not None or match[0].strip() == "+"
            yield _Condition(what, above, True, quantity, tail[match.end() :], what == before)


def _completed(match: re.Match[str], before: str, quantity: TextQuantity, tail: str) -> _Condition:
    """Return the comparison, inverted if the words before it deny it or make it a requirement."""
    what = before[: match.start()].rstrip()
    found = _by_how(match, what, quantity, tail)
    limit = _is_limit(match)
    if denial := _NOT.search(what):
        what = what[: denial.start()].rstrip()
        found = found.opposite()._replace(verbless=False)
    if wanted := _WANTED.search(what):
        what, limit = what[: wanted.start()].rstrip(), True
        found = found._replace(verbless=False)
    elif auxiliary := _AUXILIARY.search(what):
        what = what[: auxiliary.start()].rstrip()
        found = found._replace(verbless=False)
    found = found.opposite() if limit else found
    return found._replace(what=what, limit=limit)


def _by_how(match: re.Match[str], what: str, quantity: TextQuantity, tail: str) -> _Condition:
    if match["moved"]:
        up = _RISING.match(match["moved"]) is not None
        inclusive = not _STRICTLY.search(match[0])
        return _Condition(what, up, inclusive, quantity, tail, moved=1 if up else -1)
    how = next(match[name] for name in ("how", "level", "up", "down", "than", "beyond") if match[name]).lower()
    how = " ".join(how.split())
    above = bool(match["up"]) or _ABOVE.fullmatch(how) is not None
    inclusive = _INCLUSIVE.fullmatch(how) is not None or how == "to"
    verbless = bool(match["how"]) and not match["is"]
    return _Condition(what, above, inclusive, quantity, tail, verbless, lasting=bool(match["than"]))


def _is_limit(match: re.Match[str]) -> bool:
    """Return whether the comparison is a limit to keep, as "no more than" without a verb is."""
    return bool(match["how"]) and not match["is"] and _KEPT_TO.fullmatch(match["how"]) is not None


# ── source and metric ─────────────────────────────────────────────────────────────────────────────────────────────────


def _of(flagged: str, compared: _Condition, about: str) -> Fields | None:
    """Return the fields if source and metric are unambiguous."""
    behind = _tail(compared.tail)
    if behind is None or (about and behind):
        return None
    told = _subject(flagged, compared)
    if told is None or told.metric is None:
        return None
    sources = {each.casefold(): each for each in (told.source, about, behind) if each}
    if len(sources) > 1:
        return None
    return _said(next(iter(sources.values()), ANY), told.metric, compared)


def _said(source: str, metric: str, compared: _Condition) -> Fields | None:
    value, unit = compared.quantity.value, compared.quantity.unit
    if compared.moved:
        if unit != "%" or value < 0:
            return None  # "drops by 10 GB" has no reference value
        metric, value = f"{metric} change", compared.moved * value
    unit = unit.removeprefix(metric).strip()  # "there are more than 100 errors a minute"
    return {
        "source": source,
        "metric": metric,
        "value": value,
        "direction": "above" if compared.above else "below",
        "inclusive": compared.inclusive,
        "unit": unit,
    }


def _subject(flagged: str, compared: _Condition) -> Subject | None:
    """Return source and metric if the flagged object and the compared one agree."""
    what = compared.what.strip(" ,")
    if compared.lasting:
        name = metric_names.strip_filler(what or flagged)
        return (
            Subject(name, "duration") if name and metric_names.parse_subject(name) and not (what and flagged) else None
        )
    if what.lower() == "there" and not flagged:
        return _counted(compared)
    if what.lower() in _IT:  # "flag AAPL volume if it exceeds 5M"
        return metric_names.parse_subject(flagged)
    told = metric_names.parse_subject(what)
    if told is None or told.metric is None or not _is_metric(told.metric, compared):
        return None
    if not flagged or _NOTHING_IN_PARTICULAR.fullmatch(flagged):
        return told
    if _EVERY.fullmatch(flagged):
        return told if told.source is None else None
    named = metric_names.source_name(flagged)
    if named is None or (told.source and told.source.casefold() != named.casefold()):
        return None  # "flag AAPL if BTC price falls" has two sources
    return Subject(named, told.metric)


def _is_metric(metric: str, compared: _Condition) -> bool:
    last = metric.split()[-1]
    return metric_names.is_metric(last) or not (compared.verbless or metric_names.is_time(last))


def _counted(compared: _Condition) -> Subject | None:
    """Return the subject of "there are more than 100 errors", where the unit is counted."""
    match = _COUNTS.match(compared.quantity.unit)
    return Subject(None, match[0]) if match else None


def _tail(tail: str) -> str | None:
    """Return the source named after the value, or ""; None if anything else narrows the condition."""
    rest = _REASON.sub("", tail).strip(" ,.;!")
    rest = _LASTING.sub("", rest).strip(" ,.;!")
    if not rest or _EMPTY.fullmatch(rest):
        return ""
    if (match := _ON.match(rest)) is None:
        return None
    return metric_names.source_name(rest[match.end() :])


def _shown(match: re.Match[str]) -> Fields | None:
    """Return the fields of the display format, `AAPL/volume: above 5000000`."""
    found = quantities(match["value"])
    if len(found) != 1 or found[0].end != len(match["value"]):
        return None
    compared = _Condition("", match["how"].lower() == "above", bool(match["least"]), found[0], "")
    return _said(match["source"], match["metric"], compared)


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_IF = r"(?:if|when|whenever|once|as soon as|in case|every time|any time|anytime)"
_VERB = (
    r"(?:flag(?:ging)?|alert(?:ing)?|warn(?:ing)?|notify(?:ing)?|page|(?:raise|trigger|send|fire|issue|set)(?: up)?"
    r"(?: an?| the)? (?:alert|alarm|warning|flag|notification))"
)
_TRIGGER = lazy_re.compile(rf"(?<![\w-])(?P<verb>{_VERB})(?P<what>(?: [^,;:]{{1,80}}?)?),? {_IF}\s+", re.I)
_FIRST = lazy_re.compile(
    rf"(?:so |also,? |and )?{_IF}\s+(?P<condition>[^?]{{3,200}}?),?(?: then| please)? (?P<verb>{_VERB})"
    r"(?P<what>(?: [^,;:]{1,80})?)",
    re.I,
)
_PASSIVE = lazy_re.compile(
    r"(?P<what>[^,;:?]{2,120}?) (?:should|must|needs to|has to|will|is to|gets?|is|are)(?: always)?(?: be)? flagged"
    rf"(?:,? {_IF} (?P<condition>.{{3,200}}))?",
    re.I,
)
#: Openings of a recommendation. Any other opening makes the sentence something else.
_OPENING = lazy_re.compile(
    r"(?:(?:also|and|so|then|therefore|thus|hence|please|always|additionally|finally|first|second|going forward"
    r"|from now on|in future|in the future|as a rule|new rule|rule|recommendation|suggestion|suggested threshold|note"
    r"|action|alert rule|threshold(?: \w+){0,4}|(?:based on|given) [^,]{1,100}|for [^,]{1,60})[,:]?(?: |$))*"
    r"(?:(?:i|we)(?:'d| would)? (?:recommend|suggest|propose|advise)(?: that)?(?: (?:we|you|to))?(?: should)?"
    r"|(?:we|you|i|the (?:agent|system|monitor|watcher)) (?:should|must|will|need to|have to|ought to)(?: also| now)?"
    r"|(?:it is|it's) (?:best|worth|time) to|let's|let us|make sure to|be sure to|remember to)?",
    re.I,
)
_FOR_WHICH = lazy_re.compile(r"(?:.*[,:] )?for (?P<name>[^,]{1,60}),$", re.I)
_DENIES = lazy_re.compile(
    r"(?:(?:please|so|and|also|from now on|going forward)[,:]? |(?:we|you|i) (?:should |must |can |will )?"
    r"|(?:i|we) (?:recommend|suggest) (?:that )?(?:we |you |to )?){0,3}(?:"
    rf"(?:do not|don't|never|no need to|no longer|not) (?:ever |need to |have to )?(?:{_VERB})"
    r"|(?:stop|cease|quit|avoid) (?:flagging|alerting|warning|notifying|paging)"
    r"|(?:remove|delete|drop|cancel|disable|retire|lift|clear|discard)(?: (?:the|any|our|all))?"
    r"(?: (?:old|existing|current))? (?:thresholds?|alerts?|alarms?|warnings?|limits?|flags?)(?= (?:on|for|of|about) )"
    r"|(?:there is |there are )?no(?: longer an?| longer any| more)? (?:thresholds?|alerts?|alarms?"
    r"|warnings?|limits?)(?= (?:on|for|of|about) ))",
    re.I,
)
_NO_MORE = lazy_re.compile(
    r",?\s*(?:any ?more|any longer|again|from now on|in future|going forward|at all|please)\s*$", re.I
)
_LIMITED = lazy_re.compile(
    r"\b(?:unless|except|until|while|during|today|tomorrow|tonight|for now|yet|temporarily|only|instead"
    r"|this (?:week|month|quarter|year|morning|time|session)|next (?:week|month|quarter|year)|would|could|might|maybe"
    r"|perhaps|suppose|supposing|imagine|hypothetically|whether|used to|previously|formerly|not sure)\b|\?",
    re.I,
)
_PARENTHESIS = lazy_re.compile(r"\s+\([^()]{0,200}\)")
_REASON = lazy_re.compile(
    r"[,;]?\s+(?:because|since|so that|so we|as (?:this|that|it|these|such)|which|in order to|given that|to (?=[a-z])"
    r"|[–—-]\s).*$",
    re.I,
)
_SPANS = (
    r"(?:seconds?|minutes?|hours?|days?|weeks?|secs?|mins?|hrs?|s|min|h|m|d|ticks|samples|readings|checks|candles|bars)"
)
_LASTING = lazy_re.compile(
    rf"^,?\s*for (?:at least |more than |over |longer than )?(?:an?|\d{{1,5}}|[a-z]{{3,6}})(?: consecutive)? ?{_SPANS}"
    r"(?: in a row| straight| or more)?(?=$|[ ,.;])",
    re.I,
)
_EMPTY = lazy_re.compile(
    r"(?:again|immediately|at once|at any (?:time|point)|right away|please|in a row|any ?more)", re.I
)
_ON = lazy_re.compile(r"^(?:on|for|of|at|in|about|from)\s+", re.I)
_AS_WHAT = lazy_re.compile(
    r"(?:^|\s+)(?:as (?:an? )?(?:anomal(?:y|ous)|suspicious|unusual|outlier|abnormal|critical|warning|risk)"
    r"|for (?:review|attention|a look))$",
    re.I,
)
_WHOM = lazy_re.compile(
    r"(?:me|us|them|(?:the |our )?(?:[\w-]+ )?(?:team|on-?call|ops|sre|sres|noc|devops|operators?"
    r"|engineers?|admins?|traders?"
    r"|desk|users?|owners?|channel|people)|someone|somebody|everyone|everybody|on slack|by (?:e-?mail|sms|pager))",
    re.I,
)
_EVERY = lazy_re.compile(
    r"(?:any|every|all|each)(?: of the)? (?:stock|ticker|symbol|host|server|service|sensor|source|device|machine|node"
    r"|asset|instance|market|coin)s?",
    re.I,
)
_NOTHING_IN_PARTICULAR = lazy_re.compile(r"(?:an? )?(?:anomaly|anomalies|alert|warning|outlier|outliers|issue)", re.I)
_IT = frozenset(("", "it", "this", "that"))

_KEEP = lazy_re.compile(r"(?:please )?(?:keep|hold|maintain)\s+", re.I)
_WANTED = lazy_re.compile(
    r"\s(?:must|should|shall|has to|have to|needs to|need to|ought to|may|can)(?: (?:always|be|stay|remain|keep))*$",
    re.I,
)
_NOT = lazy_re.compile(r"(?: (?:not|never)|(?<=can)not|n't| fails? to)(?: (?:be|get|go|stay|rise|drop|fall))?$", re.I)
_AUXILIARY = lazy_re.compile(r" (?:do|does|did|is|are|ca)$", re.I)
_BETWEEN = lazy_re.compile(r"\b(?:between|outside|within the range|in the range|ranges?)\b", re.I)

_INCLUDED_UP = (
    r"at least|no less than|not less than|no lower than|no fewer than|at or (?:above|over)"
    r"|(?:greater|more|higher|larger) than or equal to|equal to or (?:greater|more|higher) than|>=|≥|⩾"
)
_INCLUDED_DOWN = (
    r"at most|no more than|not more than|no higher than|no greater than|at or (?:below|under)"
    r"|(?:less|lower|smaller|fewer) than or equal to|equal to or (?:less|lower) than|<=|≤|⩽"
)
_OVER, _UNDER = "above|over|past|beyond", "below|under|beneath"
_STRICT_UP = rf"{_OVER}|(?:higher|greater|more|larger|bigger|longer|slower) than|in excess of|north of|>"
_STRICT_DOWN = rf"{_UNDER}|(?:lower|less|fewer|smaller|shorter) than|south of|<"
_RISE = r"(?:rises?|climbs?|jumps?|spikes?|surges?|grows?|increases?|soars?|gains?|goes up|shoots? up|(?:is|are) up)"
_FALL = (
    r"(?:drops?|falls?|dips?|sinks?|slips?|declines?|decreases?|slides?|dives?|plunges?|crash(?:es)?|tumbles?|loses?"
    r"|shrinks?|goes down|(?:is|are) down)"
)
_GO = r"(?:go(?:es)?|moves?|cross(?:es)?|breaks?|trades?|comes?|runs?|gets?|push(?:es)?|swings?|ticks?|shoots?)"
_BE = r"(?:is|are|gets?|stays?|remains?|becomes?|sits?|stands?|reads?|(?:has|have) been)"
_ADVERB = r"(?:(?:consistently|ever|suddenly|again|currently|now|still|always|back) )?"
_MOST = 8  # quantities; more than this is a list of numbers
_NEAR = 100  # characters; comparisons are shorter
#: Comparison that ends right before the quantity.
_COMPARES = lazy_re.compile(
    r"(?:^|(?<=\s))(?:"
    rf"(?P<is>{_BE} {_ADVERB})?(?P<how>{_INCLUDED_UP}|{_INCLUDED_DOWN}|{_STRICT_UP}|{_STRICT_DOWN})"
    rf"|{_GO} {_ADVERB}(?P<level>{_OVER}|{_UNDER})"
    rf"|{_RISE} {_ADVERB}(?P<up>above|over|past|beyond|to)|{_FALL} {_ADVERB}(?P<down>{_UNDER}|to)"
    r"|(?:takes?|lasts?|runs?)(?: for)? (?P<than>longer than|more than|over|at least)"
    r"|(?P<beyond>exceeds?|exceed|surpass(?:es)?|tops?|outstrips?|reach(?:es)?)"
    rf"|(?P<moved>{_RISE}|{_FALL})(?: by)?(?: (?:more than|over|at least|no less than|upwards of|in excess of))?"
    r")$",
    re.I,
)
_ABOVE = lazy_re.compile(rf"{_INCLUDED_UP}|{_STRICT_UP}|exceeds?|surpass(?:es)?|tops?|outstrips?|reach(?:es)?", re.I)
_INCLUSIVE = lazy_re.compile(rf"{_INCLUDED_UP}|{_INCLUDED_DOWN}|reach(?:es)?", re.I)
_KEPT_TO = lazy_re.compile(
    r"at most|no more than|not more than|no higher than|no greater than|no less than|no lower than|no fewer than", re.I
)
_UNSAID = lazy_re.compile(r"\bat least\s*$", re.I)
_RISING = lazy_re.compile(_RISE, re.I)
_STRICTLY = lazy_re.compile(r"more than|over|upwards of|in excess of", re.I)
_REACHES = lazy_re.compile(r"\s+(?:(?:is|are)(?: at)?|at|of|reaches|hits|reads)$|\s*=$", re.I)
_FOR_LONGER = lazy_re.compile(r"(?<!takes)(?<!lasts)(?<!runs) for (?:more than|at least|over|longer than)$", re.I)
_OR_MORE = lazy_re.compile(
    r"\s*(?:\+(?!\w)|or (?:(?P<more>more|higher|above|greater|over|larger|longer)|less|lower|below|fewer"
    r"|under|smaller)\b)",
    re.I,
)
_COUNTS = lazy_re.compile(r"[a-z]{4,20}s(?= |$)", re.I)
_SHOWN = lazy_re.compile(
    r"(?P<source>[^/:]{1,80})/(?P<metric>[^:]{1,80}): (?P<least>at or )?(?P<how>above|below) (?P<value>\S.{0,40}?)\.?",
    re.I,
)
