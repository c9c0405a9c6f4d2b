"""Thresholds in sentences: source, metric, value and direction.

    "flag AAPL if volume exceeds 5M" ─ what is flagged, the condition ─▶ source, metric ┐
                                       how it compares, the quantity ─▶ direction, value┴─▶ fields of a Threshold

A sentence is read completely or not at all: None if it has an unknown opening, two comparisons, or a further condition
after the value. It is then kept as a memory in words.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeAlias

from cofio.domain_knowledge.from_text import metric_names
from cofio.domain_knowledge.from_text.metric_names import Subject
from cofio.domain_knowledge.from_text.quantities import TextQuantity, quantities
from cofio.models.domain_knowledge import ANY
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


def fields(sentence: str, *, labelled: bool = False, about: str = "") -> Fields | None:
    """Return the fields of the threshold.

    `about` is the source named in its label; without a label the text must name it.
    """
    if _LIMITED.search(sentence):
        return None
    text = _PARENTHESIS.sub(" ", sentence)
    if match := _SHOWN.fullmatch(text):  # the display format, `AAPL/volume: above 5000000`
        numbers = quantities(match["value"])
        if len(numbers) != 1 or numbers[0].end != len(match["value"]):
            return None
        shown = _Condition("", match["how"].lower() == "above", bool(match["least"]), numbers[0], "")
        return _build_fields(match["source"], match["metric"], shown)
    if parts := _split_rule(text):
        flagged, condition = parts
        comparison = _parse_comparison(condition)
        return _resolve_fields(flagged, comparison, about) if comparison and not comparison.limit else None
    return _parse_labelled(text, about) if labelled else None


def denied_fields(sentence: str) -> Fields | None:
    """Return the fields that identify the thresholds which the sentence revokes."""
    match = _DENIES.match(sentence)
    if not match or _LIMITED.search(sentence):
        return None
    rest = _NO_MORE.sub("", _PARENTHESIS.sub(" ", sentence[match.end() :])).strip(" ,.")
    if " if " in f" {rest}" or " when " in f" {rest}":
        rule = fields(f"flag {rest}") or {}
        return {name: rule[name] for name in ("source", "metric", "direction", "value") if name in rule} or None
    subject = metric_names.parse_subject(_ON.sub("", rest))
    if subject is None or any(map(metric_names.is_time, rest.split())):
        return None
    if subject.source is None and not metric_names.is_metric((subject.metric or "").split()[-1]):
        return None  # "do not alert the team"
    result: Fields = {"source": subject.source or ANY}
    return {**result, "metric": subject.metric} if subject.metric else result


def _split_rule(sentence: str) -> tuple[str, str] | None:
    """Return the object to flag and the condition; None if the sentence is not a rule to flag something."""
    if match := _FIRST.fullmatch(sentence):  # "if volume exceeds 5M, flag AAPL"
        return _parse_object(match["verb"], match["what"] or ""), match["condition"]
    if trigger := _TRIGGER.search(sentence):
        opening = sentence[: trigger.start()]
        if _OPENING.fullmatch(opening.strip()):
            return _parse_object(trigger["verb"], trigger["what"] or "", opening), sentence[trigger.end() :]
    if match := _PASSIVE.fullmatch(sentence):  # "AAPL should be flagged if volume exceeds 5M"
        return (match["what"], match["condition"]) if match["condition"] else ("", match["what"])
    return None


def _parse_object(verb: str, phrase: str, opening: str = "") -> str:
    """Return the flagged object as a candidate source name; "" if it is the recipient of the alert."""
    name = _AS_WHAT.sub("", phrase.strip(" ,"))
    if label := _FOR_WHICH.match(opening.strip()):
        return label["name"] if not name else f"{label['name']}?"  # two sources: rejected later
    if match := _ON.match(name):
        return name[match.end() :]
    if verb.lower() in ("flag", "flagging") or not name:
        return name
    return "" if _WHOM.fullmatch(name) else f"{name}?"  # "alert Bob if" is ambiguous; "?" makes it an invalid name


def _parse_labelled(text: str, about: str) -> Fields | None:
    """Return the fields of a labelled condition, which is bare or states a limit to keep."""
    keep = _KEEP.match(text)
    comparison = _parse_comparison(text[keep.end() :] if keep else text)
    if comparison is None:
        return None
    if keep and not comparison.limit:
        comparison = comparison.opposite()._replace(verbless=True)
    elif comparison.limit is False and comparison.verbless and _UNSAID.search(text[: comparison.quantity.start]):
        return None  # "free disk at least 10 GB" may be a requirement or something to flag
    return _resolve_fields("", comparison, about)


def _parse_comparison(condition: str) -> _Condition | None:
    """Return the only comparison in the condition; None if there is none, or several."""
    numbers = quantities(condition)
    if _BETWEEN.search(condition) or len(numbers) > _MOST:
        return None
    comparisons = []
    for quantity in numbers:
        before, tail = condition[: quantity.start].rstrip(), condition[quantity.end :]
        near = max(0, len(before) - _NEAR)
        if _FOR_LONGER.search(before, near):
            continue  # the minimum duration of the condition
        if match := _COMPARES.search(before, near):
            if (match["up"] or "").lower() == "over" and quantity.unit == "%":
                continue  # "rises over 5%" may mean "to" or "by"
            comparisons.append(_build_condition(match, before[: match.start()].rstrip(), quantity, tail))
        elif match := _OR_MORE.match(tail):
            subject = _REACHES.sub("", before)
            above = match["more"] is not None or match[0].strip() == "+"
            comparisons.append(_Condition(subject, above, True, quantity, tail[match.end() :], subject == before))
    return comparisons[0] if len(comparisons) == 1 else None


def _build_condition(match: re.Match[str], subject: str, quantity: TextQuantity, tail: str) -> _Condition:
    """Return the comparison, inverted if the words before it deny it or make it a requirement."""
    condition = _parse_wording(match, subject, quantity, tail)
    is_bare = bool(match["how"]) and not match["is"]
    limit = is_bare and _KEPT_TO.fullmatch(match["how"]) is not None  # "no more than" without a verb is a limit to keep
    if denial := _NOT.search(subject):
        subject = subject[: denial.start()].rstrip()
        condition = condition.opposite()._replace(verbless=False)
    if requirement := _WANTED.search(subject):
        subject, limit = subject[: requirement.start()].rstrip(), True
        condition = condition._replace(verbless=False)
    elif auxiliary := _AUXILIARY.search(subject):
        subject = subject[: auxiliary.start()].rstrip()
        condition = condition._replace(verbless=False)
    condition = condition.opposite() if limit else condition
    return condition._replace(what=subject, limit=limit)


def _parse_wording(match: re.Match[str], subject: str, quantity: TextQuantity, tail: str) -> _Condition:
    if match["moved"]:
        up = _RISING.match(match["moved"]) is not None
        inclusive = not _STRICTLY.search(match[0])
        return _Condition(subject, up, inclusive, quantity, tail, moved=1 if up else -1)
    wording = next(match[name] for name in ("how", "level", "up", "down", "than", "beyond") if match[name]).lower()
    wording = " ".join(wording.split())
    above = bool(match["up"]) or _ABOVE.fullmatch(wording) is not None
    inclusive = _INCLUSIVE.fullmatch(wording) is not None or wording == "to"
    verbless = bool(match["how"]) and not match["is"]
    return _Condition(subject, above, inclusive, quantity, tail, verbless, lasting=bool(match["than"]))


def _resolve_fields(flagged: str, condition: _Condition, about: str) -> Fields | None:
    """Return the fields if source and metric are unambiguous."""
    behind = _parse_tail(condition.tail)
    if behind is None or (about and behind):
        return None
    subject = _resolve_subject(flagged, condition)
    if subject is None or subject.metric is None:
        return None
    sources = {source.casefold(): source for source in (subject.source, about, behind) if source}
    if len(sources) > 1:
        return None
    return _build_fields(next(iter(sources.values()), ANY), subject.metric, condition)


def _build_fields(source: str, metric: str, condition: _Condition) -> Fields | None:
    value, unit = condition.quantity.value, condition.quantity.unit
    if condition.moved:
        if unit != "%" or value < 0:
            return None  # "drops by 10 GB" has no reference value
        metric, value = f"{metric} change", condition.moved * value
    unit = unit.removeprefix(metric).strip()  # "there are more than 100 errors a minute"
    return {
        "source": source,
        "metric": metric,
        "value": value,
        "direction": "above" if condition.above else "below",
        "inclusive": condition.inclusive,
        "unit": unit,
    }


def _resolve_subject(flagged: str, condition: _Condition) -> Subject | None:
    """Return source and metric if the flagged object and the compared one agree."""
    phrase = condition.what.strip(" ,")
    if condition.lasting:
        name = metric_names.strip_filler(phrase or flagged)
        is_subject = name and metric_names.parse_subject(name) and not (phrase and flagged)
        return Subject(name, "duration") if is_subject else None
    if phrase.lower() == "there" and not flagged:  # "there are more than 100 errors": the unit is counted
        match = _COUNTS.match(condition.quantity.unit)
        return Subject(None, match[0]) if match else None
    if phrase.lower() in _IT:  # "flag AAPL volume if it exceeds 5M"
        return metric_names.parse_subject(flagged)
    subject = metric_names.parse_subject(phrase)
    if subject is None or subject.metric is None:
        return None
    last = subject.metric.split()[-1]
    if not metric_names.is_metric(last) and (condition.verbless or metric_names.is_time(last)):
        return None
    if not flagged or _NOTHING_IN_PARTICULAR.fullmatch(flagged):
        return subject
    return _narrow_subject(subject, flagged)


def _narrow_subject(subject: Subject, flagged: str) -> Subject | None:
    """Return the subject with the flagged object as its source; None if it has another source."""
    if _EVERY.fullmatch(flagged):
        return subject if subject.source is None else None
    source = metric_names.source_name(flagged)
    if source is None or (subject.source and subject.source.casefold() != source.casefold()):
        return None  # "flag AAPL if BTC price falls" has two sources
    return Subject(source, subject.metric)


def _parse_tail(tail: str) -> str | None:
    """Return the source named after the value, or ""; None if anything else narrows the condition."""
    text = _REASON.sub("", tail).strip(" ,.;!")
    text = _LASTING.sub("", text).strip(" ,.;!")
    if not text or _EMPTY.fullmatch(text):
        return ""
    match = _ON.match(text)
    return metric_names.source_name(text[match.end() :]) if match else None


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
    r"|(?:stop|cease|quit|avoid) (?:flagging|alerting|warning|notifying|paging)|(?:remove|delete|drop|cancel|disable"
    r"|retire|lift|clear|discard)(?: (?:the|any|our|all))?(?: (?:old|existing|current))? (?:thresholds?|alerts?"
    r"|alarms?|warnings?|limits?|flags?)(?= (?:on|for|of|about) )|(?:there is |there are )?no(?: longer an?"
    r"| longer any| more)? (?:thresholds?|alerts?|alarms?|warnings?|limits?)(?= (?:on|for|of|about) ))",
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
