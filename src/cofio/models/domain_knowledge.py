"""Value types of domain knowledge: exact records for agents that monitor markets, servers or sensors.

    Pattern Correlation Threshold Seasonal ─ claims, each with a confidence that verdicts change
    Feedback ─ a verdict on an anomaly, and the claims that it judges
    PutRow DeleteRow … (cofio.models.memory) ─ store.apply ─▶ KnowledgeChange, in the same journal as memories

Values are frozen and validate themselves. Each row has an id that is unique within its table: chosen by the caller, or
derived from its content, so that repeating a statement updates the row in place.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from hashlib import blake2b
from math import isfinite
from typing import Any, ClassVar, Literal, NamedTuple, TypedDict

from cofio.errors import InvalidInput
from cofio.models.json_values import JsonFields
from cofio.models.memory import (
    MAX_LABEL,
    VISIBILITIES,
    Viewer,
    audience,
    check_bool,
    check_fraction,
    check_int,
    check_text,
    to_utc_iso,
)
from cofio.text import lazy_re
from cofio.text.tokens import STOP_WORDS

Table = Literal["patterns", "correlations", "thresholds", "seasonal", "feedback"]
Direction = Literal["above", "below"]
Relation = Literal["leads", "with"]
Period = Literal["daily", "weekly", "monthly", "yearly", "cron"]
Verdict = Literal["confirmed", "false_alarm", "note"]
KnowledgeAction = Literal["add", "update", "delete", "noop", "purge", "revert"]

TABLES: tuple[Table, ...] = ("patterns", "correlations", "thresholds", "seasonal", "feedback")
CLAIMS: tuple[Table, ...] = TABLES[:-1]  # tables with a confidence
DIRECTIONS: tuple[Direction, ...] = ("above", "below")
RELATIONS: tuple[Relation, ...] = ("leads", "with")
PERIODS: tuple[Period, ...] = ("daily", "weekly", "monthly", "yearly", "cron")
VERDICTS: tuple[Verdict, ...] = ("confirmed", "false_alarm", "note")

ANY = "*"  # source of a threshold that applies to every source
MAX_SAID = 4_096  # characters of a pattern, a rule or a note
MAX_ID = 200
MAX_JUDGED = 64  # claims per verdict
MAX_LASTING = 366 * 24 * 60  # minutes
_ID = lazy_re.compile(r"(?!\.{1,2}$)[\w.:@~-]+")  # excludes "." and "..", which have a meaning in paths
_QUANTITY = lazy_re.compile(
    r"([-+−]?)\s*([$€£¥]?)\s*([0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?:[eE]([-+]?[0-9]{1,4}))?(\s*)([^\s\d.,]{1,20})?"
)
#: Scale suffixes as powers of ten.
_SCALES = {"k": 3, "K": 3, "M": 6, "MM": 6, "B": 9, "T": 12, "mn": 6, "mln": 6, "mio": 6, "bn": 9, "tn": 12,
           "thousand": 3, "million": 6, "millions": 6, "billion": 9, "billions": 9, "trillion": 12}  # fmt: skip
_SPELLED = {"percent": "%", "pct": "%"}  # units stored as a symbol


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge(JsonFields):
    """Fields that every row has: id, owner, visibility and times."""

    TABLE: ClassVar[Table]

    id: str = ""  # "" is derived from content and audience
    place: str = ""  # source of the memory it was read from; checked against keys limited to certain sources
    agent: str = ""
    user: str = ""
    team: str = ""
    visibility: str = "private"
    created_at: str = ""  # "" is set by the store; an upsert keeps it
    updated_at: str = ""

    def __post_init__(self) -> None:
        for name in ("place", "agent", "user", "team"):
            _set_label(self, name)
        _set_choice(self, "visibility", VISIBILITIES)
        for name in ("created_at", "updated_at"):
            if getattr(self, name) != "":
                _fill(self, name, to_utc_iso(getattr(self, name)))

    def _set_id(self, *parts: str) -> None:
        """Set the id derived from the parts unless it has one. Raise InvalidInput for an id not allowed in paths."""
        if self.id == "":
            _fill(self, "id", _make_id(parts) + _make_suffix(self))
        check_text(self.id, "id", MAX_ID)
        if not _ID.fullmatch(self.id):
            raise InvalidInput(f"{self.id!r} is not a valid id of a row.", "Use letters, digits and . _ : @ ~ - only.")

    @property
    def ref(self) -> str:
        """Return table and id, as used in paths and verdicts: thresholds/aapl.volume.above."""
        return f"{self.TABLE}/{self.id}"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its subject; the exact lane matches them against prompts."""
        return ()

    @property
    def says(self) -> str:
        """Return the row as one sentence for people and prompts."""
        raise NotImplementedError

    def shown(self) -> dict[str, Any]:
        """Return plain JSON values for clients, with `ref` and `says`."""
        return {"ref": self.ref, "says": self.says, **self.as_dict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Knowledge):
    """Statement with a confidence, computed from its prior and its verdicts (see `knowledge.belief`)."""

    confidence: float = 0.5
    prior: float | None = None  # confidence before any verdict; None defaults to the confidence
    confirmed: int = 0  # number of confirming verdicts
    refuted: int = 0  # number of refuting verdicts
    memory: int | None = None  # the memory that states it in words

    def __post_init__(self) -> None:
        super(Claim, self).__post_init__()
        _fill(self, "confidence", check_fraction(self.confidence, "confidence"))
        _fill(self, "prior", check_fraction(self.confidence if self.prior is None else self.prior, "prior"))
        for name in ("confirmed", "refuted"):
            check_int(getattr(self, name), name, least=0)
        if self.memory is not None:
            check_int(self.memory, "memory", least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern(Claim):
    """Observed tendency: "volume spikes before earnings"."""

    TABLE = "patterns"

    pattern: str
    source: str = ""  # where it occurs: a market, a host, a sensor

    def __post_init__(self) -> None:
        super(Pattern, self).__post_init__()
        _set_text(self, "pattern")
        _set_label(self, "source")
        self._set_id(_digest(self.pattern))

    @property
    def names(self) -> tuple[str, ...]:
        return (self.source,) if self.source else ()

    @property
    def says(self) -> str:
        return self.pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation(Claim):
    """Relation between two sources: the first leads the second, or they move together."""

    TABLE = "correlations"

    source_a: str
    source_b: str
    rule: str
    relation: str = "with"
    inverse: bool = False  # one falls when the other rises

    def __post_init__(self) -> None:
        super(Correlation, self).__post_init__()
        for name in ("source_a", "source_b"):
            _set_label(self, name, needed=True)
        _set_text(self, "rule")
        _set_choice(self, "relation", RELATIONS)
        check_bool(self.inverse, "inverse")
        if fold(self.source_a) == fold(self.source_b):
            raise InvalidInput(
                f"A correlation needs two sources, but source_a and source_b are both {self.source_a!r}.",
                "Name two different sources.",
            )
        first, second = self.source_a, self.source_b
        if self.relation == "with":  # symmetric: the order does not matter
            first, second = sorted((first, second), key=fold)
        self._set_id(first, self.relation, second)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.source_a, self.source_b)

    @property
    def says(self) -> str:
        return self.rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold(Claim):
    """Threshold of one metric of one source: values above or below it need attention."""

    TABLE = "thresholds"

    source: str
    metric: str
    value: float
    direction: str
    inclusive: bool = False  # includes the value itself: "at least"
    unit: str = ""  # as given: %, ms, GB, $

    def __post_init__(self) -> None:
        super(Threshold, self).__post_init__()
        for name in ("source", "metric"):
            _set_label(self, name, needed=True)
        _set_label(self, "unit")
        _set_choice(self, "direction", DIRECTIONS)
        check_bool(self.inclusive, "inclusive")
        _fill(self, "value", check_number(self.value, "value"))
        self._set_id(self.source, self.metric, self.direction)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.metric,) if self.source == ANY else (self.source,)

    @property
    def says(self) -> str:
        """Return text such as `AAPL/volume: above 5000000`."""
        least = "at or " if self.inclusive else ""
        return f"{self.source}/{self.metric}: {least}{self.direction} {plain_number(self.value)}{self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seasonal(Claim):
    """Pattern that occurs at certain times (parsed by `knowledge.seasons`)."""

    TABLE = "seasonal"

    pattern: str
    period: str
    during: str = ""  # times in the period: "09:30-16:00", "mon-fri", "last fri", "12-15..01-05", or a cron expression
    lasts: int = 60  # minutes, from each time of a cron expression
    timezone: str = "UTC"
    source: str = ""

    def __post_init__(self) -> None:
        super(Seasonal, self).__post_init__()
        _set_text(self, "pattern")
        _set_choice(self, "period", PERIODS)
        for name in ("during", "timezone", "source"):
            _set_label(self, name)
        check_int(self.lasts, "lasts", least=1, most=MAX_LASTING)
        self._set_id(self.period, _digest(self.pattern))

    @property
    def names(self) -> tuple[str, ...]:
        return (self.source,) if self.source else ()

    @property
    def says(self) -> str:
        when = f"{self.period}, {self.during}" if self.during else self.period
        return f"{self.pattern} ({when})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback(Knowledge):
    """Verdict on an anomaly and the claims that raised it. A later verdict on the same anomaly replaces it."""

    TABLE = "feedback"

    anomaly: str
    verdict: str
    note: str = ""
    about: tuple[str, ...] = ()  # judged claims: patterns/p1, thresholds/aapl.volume.above
    processed: bool = False  # whether it has been applied to their confidence

    def __post_init__(self) -> None:
        super(Feedback, self).__post_init__()
        _set_label(self, "anomaly", needed=True)
        _set_choice(self, "verdict", VERDICTS)
        _fill(self, "note", check_text(self.note, "note", MAX_SAID).strip())
        check_bool(self.processed, "processed")
        if isinstance(self.about, str) or not isinstance(self.about, list | tuple):
            raise InvalidInput(
                "about must be a list of rows.", "Give a list of row references, such as thresholds/aapl.volume.above."
            )
        if len(self.about) > MAX_JUDGED:
            raise InvalidInput(f"The feedback is about {len(self.about)} rows.", f"At most {MAX_JUDGED} are allowed.")
        _fill(self, "about", tuple(dict.fromkeys("/".join(parse_ref(ref)) for ref in self.about)))
        self._set_id(self.anomaly)

    @property
    def says(self) -> str:
        return f"{self.anomaly}: {self.verdict}{f' ({self.note})' if self.note else ''}"


class OwnerKwargs(TypedDict, total=False):
    """Keyword arguments for the id and the owner of a row."""

    id: str
    place: str
    agent: str
    user: str
    team: str
    visibility: str


class ClaimKwargs(OwnerKwargs, total=False):
    """Keyword arguments for what every claim may have."""

    confidence: float
    memory: int | None


class PatternKwargs(ClaimKwargs, total=False):
    """Keyword arguments for the optional fields of a Pattern."""

    source: str


class CorrelationKwargs(ClaimKwargs, total=False):
    """Keyword arguments for the optional fields of a Correlation."""

    relation: str
    inverse: bool


class ThresholdKwargs(ClaimKwargs, total=False):
    """Keyword arguments for the optional fields of a Threshold."""

    inclusive: bool
    unit: str


class SeasonalKwargs(ClaimKwargs, total=False):
    """Keyword arguments for the optional fields of a Seasonal."""

    during: str
    lasts: int
    timezone: str
    source: str


class RowKwargs(CorrelationKwargs, ThresholdKwargs, SeasonalKwargs, total=False):
    """Keyword arguments for the fields of a row of any table."""

    pattern: str
    source_a: str
    source_b: str
    rule: str
    metric: str
    value: float
    direction: str
    period: str
    anomaly: str
    verdict: str
    note: str
    about: str | Sequence[str]
    processed: bool


#: Row type of each table.
KNOWLEDGE: Mapping[str, type[Knowledge]] = {
    each.TABLE: each for each in (Pattern, Correlation, Threshold, Seasonal, Feedback)
}


def make_row(table: str, values: Mapping[str, Any]) -> Knowledge:
    """Build a row of a table from its fields.

    Raise InvalidInput for an unknown table or field, or a missing field.
    """
    kind = KNOWLEDGE[check_table(table)]
    names = [f.name for f in fields(kind)]
    if unknown := sorted(values.keys() - set(names)):
        raise InvalidInput(f"Rows of {table} have no field {', '.join(unknown)}.", f"Fields: {', '.join(names)}.")
    try:
        return kind(**values)
    except TypeError as error:
        missing = [f.name for f in fields(kind) if f.default is MISSING and f.name not in values]
        raise InvalidInput(f"A row of {table} lacks {', '.join(missing)}.", f"Fields: {', '.join(names)}.") from error


def row_from_dict(table: str, plain: Mapping[str, Any]) -> Knowledge:
    """Read a row written by `as_dict`, ignoring unknown keys."""
    kind = KNOWLEDGE[check_table(table)]
    return kind(**{f.name: plain[f.name] for f in fields(kind) if f.name in plain})


def check_table(table: str) -> Table:
    """Return the table name if it is valid."""
    if table not in TABLES:
        raise InvalidInput(f"There is no table {table!r}.", f"Give one of: {', '.join(TABLES)}.")
    return table


def parse_ref(ref: str) -> tuple[Table, str]:
    """Split a claim reference such as `thresholds/aapl.volume.above` into table and id."""
    table, _, name = ref.partition("/") if isinstance(ref, str) else ("", "", "")
    if table not in CLAIMS or not _ID.fullmatch(name):
        hint = f"Name it as table/id, such as thresholds/aapl.volume.above; the tables are {', '.join(CLAIMS)}."
        raise InvalidInput(f"{ref!r} is not a reference to a row.", hint)
    return check_table(table), name


def sees(viewer: Viewer | None, row: Knowledge) -> bool:
    """Return whether the viewer may see the row: in their audience, and read from one of their sources."""
    return viewer is None or (viewer.reaches(row.place) and viewer.is_among(audience(row)))


def owns(viewer: Viewer | None, row: Knowledge) -> bool:
    """Return whether the viewer is the owner, who may change the visibility."""
    return viewer is None or viewer.owns(row)


# ── changes (applied) ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeChange(JsonFields):
    """Change of one row in one changeset, as recorded in the journal.

    A noop is not recorded: its id is 0, and so is its changeset if nothing else was changed.
    """

    id: int
    changeset: int
    action: KnowledgeAction
    table: Table
    key: str  # the row's id
    at: str
    by: str
    why: str
    before: Knowledge | None
    after: Knowledge | None
    reason: str = ""
    redacted: tuple[str, ...] = ()  # kinds of the secrets removed from what was sent; not journalled

    @property
    def ref(self) -> str:
        return f"{self.table}/{self.key}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values; `redacted` only if a secret was removed."""
        plain = super(KnowledgeChange, self).as_dict()  # a dataclass with slots is made twice
        return plain if self.redacted else {name: value for name, value in plain.items() if name != "redacted"}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> KnowledgeChange:
        """Read a change written by `as_dict`."""
        rows = {
            name: row_from_dict(plain["table"], plain[name]) if plain[name] else None for name in ("before", "after")
        }
        values = {f.name: plain[f.name] for f in fields(cls) if f.name in plain}
        return cls(**{**values, **rows, "redacted": tuple(plain.get("redacted", ()))})


def is_same_row(one: Knowledge, other: Knowledge) -> bool:
    """Return whether two rows are equal except for their times."""
    return _strip_times(one) == _strip_times(other)


def _strip_times(row: Knowledge) -> Knowledge:
    return replace(row, created_at="", updated_at="")


# ── results of the exact lane ─────────────────────────────────────────────────────────────────────────────────────────


class FiringThreshold(NamedTuple):
    """Threshold crossed by a value, and the distance to it."""

    threshold: Threshold
    value: float
    by: float  # never negative

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"threshold": self.threshold.shown(), "value": self.value, "by": self.by}


class ActivePattern(NamedTuple):
    """Seasonal pattern that is active, with start and end."""

    seasonal: Seasonal
    since: str
    until: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"seasonal": self.seasonal.shown(), "since": self.since, "until": self.until}


class CorrelationStep(NamedTuple):
    """Step of a walk over correlations, from one side to the other."""

    here: str
    there: str
    correlation: Correlation
    forward: bool  # from the first side to the second
    depth: int
    confidence: float  # of the whole path: the product of its steps
    inverse: bool  # of the whole path

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**self._asdict(), "correlation": self.correlation.shown()}


class KnowledgeReading(NamedTuple):
    """Table row read from a sentence: the fields of the row.

    If the sentence denies a row, the fields identify the denied row.
    """

    text: str
    table: Table
    fields: Mapping[str, Any]
    denied: bool
    confidence: float

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**self._asdict(), "fields": dict(self.fields)}


# ── checks and names ──────────────────────────────────────────────────────────────────────────────────────────────────


def check_number(value: Any, name: str) -> float:
    """Return the value as a float if it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{name} must be a number, not {value!r}.", "Give a number, such as 0.8.")
    try:
        if isfinite(number := float(value)):
            return number
    except OverflowError as error:  # not shown: repr of a huge int may fail as well
        raise InvalidInput(f"{name} is too large for a number.", "Give a number below 1e308.") from error
    raise InvalidInput(f"{name} is {value!r}.", "Give a finite number, such as 0.8.")


def as_quantity(text: str) -> tuple[float, str]:
    """Parse a number with a unit: 5M, 1,000, -2.5, 90%, $1.2B, 250ms. Scales are k, M, B and T.

    Raise InvalidInput for other text and for ambiguous values: 5m could be millions, metres or minutes; 500 B bytes or
    billions.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if not match:
        raise InvalidInput(f"{text!r} is not a number.", "Write it as 5000000, 5M, -2.5, 90% or 250ms.")
    sign, money, digits, power, gap, suffix = (group or "" for group in match.groups())
    if suffix in ("m", "b") or (gap and not money and suffix in ("K", "B", "T")):
        hint = f"Write {suffix.upper()} directly after the number for the scale, or give the unit separately."
        raise InvalidInput(f"{text!r} is ambiguous: its ending can be a scale or a unit.", hint)
    scale = _SCALES.get(suffix) or _SCALES.get(suffix.lower() if len(suffix) > 1 else "", 0)
    literal = f"{sign.replace('−', '-')}{digits.replace(',', '')}e{int(power or 0) + scale}"
    unit = _SPELLED.get(suffix.lower(), suffix)
    return check_number(float(literal), text.strip()), money or ("" if scale else unit)


def plain_number(value: float) -> str:
    """Format a number without exponent: 5000000, 0.25; never 5e+06."""
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return repr(value)


def fold(name: str) -> str:
    """Normalize a name for comparison: case, Unicode form and white space."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _make_id(parts: tuple[str, ...]) -> str:
    """Return a readable id for the parts, unique to them; a digest is appended where slugs are ambiguous."""
    slugs = [_make_slug(part) for part in parts]
    readable = ".".join(slug[:60] for slug, _ in slugs if slug)
    if all(is_exact and len(slug) <= 60 for slug, is_exact in slugs):
        return readable
    return f"{readable}.{_digest(chr(31).join(map(fold, parts)))}".strip(".")


def _make_slug(part: str) -> tuple[str, bool]:
    """Return the slug of a part, and whether it is unambiguous: a space becomes "_" and "_" becomes "__"."""
    if part == ANY:
        return "~any", True
    folded = fold(part)
    plain = folded.replace("_", "__").replace(" ", "_")
    slug = re.sub(r"[^\w-]+", "-", plain).strip("-")
    return slug, bool(slug) and slug == plain and not (" " in folded and "_" in folded)


def _make_suffix(row: Knowledge) -> str:
    """Return a suffix for rows with a restricted audience; "" for global rows and the owner's own."""
    eyes = audience(row)
    return "" if eyes[0] == "global" or not eyes[-1] else "@" + _digest(chr(31).join(eyes))[:6]


def _digest(text: str) -> str:
    return blake2b(fold(text).encode(), digest_size=6).hexdigest()


def _fill(value: object, name: str, content: object) -> None:
    object.__setattr__(value, name, content)  # sets a field of a frozen instance during __post_init__


def _set_label(value: object, name: str, *, needed: bool = False) -> None:
    text = " ".join(check_text(getattr(value, name), name, MAX_LABEL).split())
    if needed and not text:
        raise InvalidInput(f"The field {name} is empty.", f"Give a short text as {name}.")
    _fill(value, name, text)


def _set_text(value: object, name: str) -> None:
    text = check_text(getattr(value, name), name, MAX_SAID).strip()
    if not text:
        raise InvalidInput(f"The field {name} is empty.", f"Describe the {name} in words.")
    _fill(value, name, text)


def _set_choice(value: object, name: str, choices: tuple[str, ...]) -> None:
    raw = getattr(value, name)
    text = raw.strip().lower().replace(" ", "_") if isinstance(raw, str) else raw
    if text not in choices:
        raise InvalidInput(f"{name} is {raw!r}.", f"Give one of: {', '.join(choices)}.")
    _fill(value, name, text)


def named_words(row: Knowledge) -> frozenset[str]:
    """Return the lookup keys of a row for the exact lane: the folded words of its names and each name's opening."""
    names = [_split_words(name) for name in row.names]
    return frozenset([*(word for name in names for word in name), *(name_prefix(name) for name in names if name)])


def name_prefix(words: Sequence[str]) -> str:
    """Return the lookup key for the beginning of a name: its first non-stop word, plus a number that follows it.

    Words such as "web" or "price" occur in many names, but few names begin with them.
    """
    first = next((place for place, word in enumerate(words) if word not in STOP_WORDS), 0)
    after = words[first + 1 : first + 2]
    return f"^{words[first]} {after[0]}" if after and after[0].isdigit() else f"^{words[first]}"


def prefix_key(name: str) -> str:
    """Return a lookup key shared by all names that begin with this one; "" if it has no words.

    The opening, if no number can follow it; else the longest word, which is likely the rarest.
    """
    words = _split_words(name)
    if any(word not in STOP_WORDS for word in words[:-1]):
        return name_prefix(words)
    return max(words, key=len, default="")


def words_of(text: str) -> list[str]:
    """Return the distinct words of a text in order, folded and split at anything that is not a letter or digit."""
    return list(dict.fromkeys(_split_words(text)))


def _split_words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", fold(text))
