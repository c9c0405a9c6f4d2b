"""The words of domain knowledge: what an agent that watches markets, servers or sensors knows exactly.

    Pattern Correlation Threshold Seasonal ─ claims, each with a confidence that verdicts move
    Feedback ─ a verdict on an anomaly, and the claims that it judges
    Put Drop Erase Withdraw ─ store.apply ─▶ KnowledgeChange, in the journal of everything else

Part of the words, beside `model`. Values are frozen and check themselves. Each has an id of its own within its table:
given by whoever puts it, or made of what it says, so that saying it again changes it in place.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from hashlib import blake2b
from math import isfinite
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from cofio import late
from cofio.errors import InvalidInput
from cofio.model import MAX_LABEL, VISIBILITIES, Viewer, checked_text, moment, share, truth, whole
from cofio.wording import STOP_WORDS

Table = Literal["patterns", "correlations", "thresholds", "seasonal", "feedback"]
Direction = Literal["above", "below"]
Relation = Literal["leads", "with"]
Period = Literal["daily", "weekly", "monthly", "yearly", "cron"]
Verdict = Literal["confirmed", "false_alarm", "note"]
KnowledgeAction = Literal["add", "update", "delete", "noop", "purge", "revert"]

TABLES: tuple[Table, ...] = ("patterns", "correlations", "thresholds", "seasonal", "feedback")
CLAIMS: tuple[Table, ...] = TABLES[:-1]  # what has a confidence
DIRECTIONS: tuple[Direction, ...] = ("above", "below")
RELATIONS: tuple[Relation, ...] = ("leads", "with")
PERIODS: tuple[Period, ...] = ("daily", "weekly", "monthly", "yearly", "cron")
VERDICTS: tuple[Verdict, ...] = ("confirmed", "false_alarm", "note")

ANY = "*"  # the source of a threshold that holds for every source
MAX_SAID = 4_096  # characters of a pattern, a rule or a note
MAX_ID = 200
MAX_JUDGED = 64  # claims that one verdict names
MAX_LASTING = 366 * 24 * 60  # minutes
_ID = late.compile(r"(?!\.{1,2}$)[\w.:@~-]+")  # nor what a path takes for a way to go
_QUANTITY = late.compile(
    r"([-+−]?)\s*([$€£¥]?)\s*([0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?:[eE]([-+]?[0-9]{1,4}))?(\s*)([^\s\d.,]{1,20})?"
)
#: What a number is scaled by, as a power of ten.
_SCALES = {"k": 3, "K": 3, "M": 6, "MM": 6, "B": 9, "T": 12, "mn": 6, "mln": 6, "mio": 6, "bn": 9, "tn": 12,
           "thousand": 3, "million": 6, "millions": 6, "billion": 9, "billions": 9, "trillion": 12}  # fmt: skip
_SPELLED = {"percent": "%", "pct": "%"}  # units that are kept as the sign


# ── what is known ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What every row has: a name, whose it is, and its times."""

    TABLE: ClassVar[Table]

    id: str = ""  # "" is filled from what it says, and for whom
    place: str = ""  # the source of memories that it was told in: what a key that reaches some sources is held to
    agent: str = ""
    user: str = ""
    team: str = ""
    visibility: str = "private"
    created_at: str = ""  # "" is filled by the store; an upsert keeps it
    updated_at: str = ""

    def __post_init__(self) -> None:
        for name in ("place", "agent", "user", "team"):
            _label(self, name)
        _one_of(self, "visibility", VISIBILITIES)
        for name in ("created_at", "updated_at"):
            if getattr(self, name) != "":
                _fill(self, name, moment(getattr(self, name)))

    def _named(self, *parts: str) -> None:
        """Give it the id that its parts make, unless it has one; InvalidInput for one that no path can hold."""
        if self.id == "":
            _fill(self, "id", _made_id(parts) + _mark(self))
        checked_text(self.id, "id", MAX_ID)
        if not _ID.fullmatch(self.id):
            raise InvalidInput(f"id is {self.id!r}.", "Use letters, digits and . _ : @ ~ - in an id.")

    @property
    def ref(self) -> str:
        """Its table and id, as paths and verdicts name it: thresholds/aapl.volume.above."""
        return f"{self.TABLE}/{self.id}"

    @property
    def names(self) -> tuple[str, ...]:
        """What it is about, by name: the exact lane finds it where a prompt says one of these."""
        return ()

    @property
    def says(self) -> str:
        """It as one sentence, for people and prompts."""
        raise NotImplementedError

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def shown(self) -> dict[str, Any]:
        """The same, with what it is called by and what it says, for who reads it."""
        return {"ref": self.ref, "says": self.says, **self.as_dict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Knowledge):
    """What is held to be so, more or less: by its prior and the verdicts since. `knowledge.belief` has the rule."""

    confidence: float = 0.5
    prior: float | None = None  # the confidence before any verdict; None is filled with the confidence
    confirmed: int = 0  # verdicts for it
    refuted: int = 0  # verdicts against it
    memory: int | None = None  # the memory that says it in words

    def __post_init__(self) -> None:
        super(Claim, self).__post_init__()
        _fill(self, "confidence", share(self.confidence, "confidence"))
        _fill(self, "prior", share(self.confidence if self.prior is None else self.prior, "prior"))
        for name in ("confirmed", "refuted"):
            whole(getattr(self, name), name, least=0)
        if self.memory is not None:
            whole(self.memory, "memory", least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern(Claim):
    """What tends to happen: "volume spikes before earnings"."""

    TABLE = "patterns"

    pattern: str
    source: str = ""  # where it shows: a market, a host, a sensor

    def __post_init__(self) -> None:
        super(Pattern, self).__post_init__()
        _said(self, "pattern")
        _label(self, "source")
        self._named(_digest(self.pattern))

    @property
    def names(self) -> tuple[str, ...]:
        return (self.source,) if self.source else ()

    @property
    def says(self) -> str:
        return self.pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation(Claim):
    """How two things go together: the first leads the second, or they move with each other."""

    TABLE = "correlations"

    source_a: str
    source_b: str
    rule: str
    relation: str = "with"
    inverse: bool = False  # when the one rises, the other falls

    def __post_init__(self) -> None:
        super(Correlation, self).__post_init__()
        for name in ("source_a", "source_b"):
            _label(self, name, needed=True)
        _said(self, "rule")
        _one_of(self, "relation", RELATIONS)
        truth(self.inverse, "inverse")
        if fold(self.source_a) == fold(self.source_b):
            raise InvalidInput(f"Both sides are {self.source_a!r}.", "Name the two things that go together.")
        first, second = self.source_a, self.source_b
        if self.relation == "with":  # said either way round it is the same
            first, second = sorted((first, second), key=fold)
        self._named(first, self.relation, second)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.source_a, self.source_b)

    @property
    def says(self) -> str:
        return self.rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold(Claim):
    """From which value on something is worth a look: of one metric of one source, above or below."""

    TABLE = "thresholds"

    source: str
    metric: str
    value: float
    direction: str
    inclusive: bool = False  # whether the value itself counts: "at least"
    unit: str = ""  # as it was said: %, ms, GB, $

    def __post_init__(self) -> None:
        super(Threshold, self).__post_init__()
        for name in ("source", "metric"):
            _label(self, name, needed=True)
        _label(self, "unit")
        _one_of(self, "direction", DIRECTIONS)
        truth(self.inclusive, "inclusive")
        _fill(self, "value", number(self.value, "value"))
        self._named(self.source, self.metric, self.direction)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.metric,) if self.source == ANY else (self.source,)

    @property
    def says(self) -> str:
        """Such as `AAPL/volume: above 5000000`."""
        least = "at or " if self.inclusive else ""
        return f"{self.source}/{self.metric}: {least}{self.direction} {plain_number(self.value)}{self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seasonal(Claim):
    """What happens at certain times, and when these are (`knowledge.seasons` reads them)."""

    TABLE = "seasonal"

    pattern: str
    period: str
    during: str = ""  # when in the period: "09:30-16:00", "mon-fri", "last fri", "12-15..01-05", a cron text
    lasts: int = 60  # minutes, from each time of a cron text on
    timezone: str = "UTC"
    source: str = ""

    def __post_init__(self) -> None:
        super(Seasonal, self).__post_init__()
        _said(self, "pattern")
        _one_of(self, "period", PERIODS)
        for name in ("during", "timezone", "source"):
            _label(self, name)
        whole(self.lasts, "lasts", least=1, most=MAX_LASTING)
        self._named(self.period, _digest(self.pattern))

    @property
    def names(self) -> tuple[str, ...]:
        return (self.source,) if self.source else ()

    @property
    def says(self) -> str:
        when = f"{self.period}, {self.during}" if self.during else self.period
        return f"{self.pattern} ({when})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback(Knowledge):
    """A verdict on an anomaly: whether it was one, and which claims had raised it. One an anomaly: a later one replaces
    it."""

    TABLE = "feedback"

    anomaly: str
    verdict: str
    note: str = ""
    about: tuple[str, ...] = ()  # the claims that it judges: patterns/p1, thresholds/aapl.volume.above
    processed: bool = False  # whether their confidence has moved by it

    def __post_init__(self) -> None:
        super(Feedback, self).__post_init__()
        _label(self, "anomaly", needed=True)
        _one_of(self, "verdict", VERDICTS)
        _fill(self, "note", checked_text(self.note, "note", MAX_SAID).strip())
        truth(self.processed, "processed")
        if isinstance(self.about, str) or not isinstance(self.about, list | tuple):
            raise InvalidInput("about is no list.", "Name the claims that it judges: thresholds/aapl.volume.above.")
        if len(self.about) > MAX_JUDGED:
            raise InvalidInput(f"about names {len(self.about)} claims.", f"At most {MAX_JUDGED} are taken.")
        _fill(self, "about", tuple(dict.fromkeys("/".join(parsed(each)) for each in self.about)))
        self._named(self.anomaly)

    @property
    def says(self) -> str:
        return f"{self.anomaly}: {self.verdict}{f' ({self.note})' if self.note else ''}"


#: The word of each table.
KNOWLEDGE: Mapping[str, type[Knowledge]] = {
    each.TABLE: each for each in (Pattern, Correlation, Threshold, Seasonal, Feedback)
}


def made(table: str, given: Mapping[str, Any]) -> Knowledge:
    """The row of a table from its fields. InvalidInput for an unknown table or field, or one that is missing."""
    kind = KNOWLEDGE[checked_table(table)]
    known = [f.name for f in fields(kind)]
    if unknown := sorted(given.keys() - set(known)):
        raise InvalidInput(f"{table} have no {', '.join(unknown)}.", f"They have: {', '.join(known)}.")
    try:
        return kind(**given)
    except TypeError as error:
        needed = [f.name for f in fields(kind) if f.default is MISSING and f.name not in given]
        raise InvalidInput(f"{', '.join(needed)} is missing.", f"Give {', '.join(needed)}.") from error


def read(table: str, plain: Mapping[str, Any]) -> Knowledge:
    """The row that `as_dict` wrote; keys of later versions are passed over."""
    kind = KNOWLEDGE[checked_table(table)]
    return kind(**{f.name: plain[f.name] for f in fields(kind) if f.name in plain})


def checked_table(table: str) -> Table:
    """The table's name, once it is known to be one."""
    if table not in TABLES:
        raise InvalidInput(f"There is no table {table!r}.", f"It is one of: {', '.join(TABLES)}.")
    return table


def parsed(ref: str) -> tuple[Table, str]:
    """Table and id of a claim that is named as `thresholds/aapl.volume.above`."""
    table, _, name = ref.partition("/") if isinstance(ref, str) else ("", "", "")
    if table not in CLAIMS or not _ID.fullmatch(name):
        hint = f"Name it as table/id, such as thresholds/aapl.volume.above; the tables are {', '.join(CLAIMS)}."
        raise InvalidInput(f"{ref!r} names no claim.", hint)
    return checked_table(table), name


def sees(viewer: Viewer | None, known: Knowledge) -> bool:
    """Whether they may see it: it belongs to their audience, and was told in one of their sources."""
    return viewer is None or (viewer.reaches(known.place) and viewer.is_among(whose(known)))


def owns(viewer: Viewer | None, known: Knowledge) -> bool:
    """Whether it is theirs: they may say who sees it."""
    return viewer is None or (known.user == viewer.user if known.user else known.agent == viewer.agent != "")


def whose(known: Knowledge) -> tuple[str, ...]:
    """Who may see it, as `model.audience` says it of memories."""
    if known.visibility == "private":
        return ("private", "user", known.user) if known.user else ("private", "agent", known.agent)
    return (known.visibility, known.team) if known.visibility == "team" else (known.visibility,)


# ── decisions and changes ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Put:
    """Keep it under its id: new, or in the place of what has that id. `created_at` stays; the same again is a noop.

    `told` names the decision about memories, by its place in the same `apply`, whose memory says it in words.
    `as_of` is the `updated_at` of what was there when it was decided, "" for nothing: Conflict if that is another now.
    """

    known: Knowledge
    reason: str = ""
    told: int | None = None
    as_of: str | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove it. Undo brings it back."""

    table: Table
    id: str
    reason: str = ""
    as_of: str | None = None  # as of Put


@dataclass(frozen=True, slots=True)
class Erase:
    """Remove it for good, its words in the journal included."""

    table: Table
    id: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Put it back to what it was before a change: what undo is made of."""

    change_id: int
    reason: str = ""


KnowledgeDecision: TypeAlias = Put | Drop | Erase | Withdraw


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeChange:
    """One row's step in one changeset, as the journal keeps it.

    Of a noop nothing is kept, and its id is 0; so is its changeset's, where nothing else was done.
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

    @property
    def ref(self) -> str:
        return f"{self.table}/{self.key}"

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("before", "after"):
            plain[name] = plain[name].as_dict() if plain[name] else None
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> KnowledgeChange:
        """What `as_dict` wrote."""
        rows = {name: read(plain["table"], plain[name]) if plain[name] else None for name in ("before", "after")}
        return cls(**{**{f.name: plain[f.name] for f in fields(cls)}, **rows})


def same(one: Knowledge, other: Knowledge) -> bool:
    """Whether they say the same of the same, whenever it was said."""
    return _untimed(one) == _untimed(other)


def _untimed(known: Knowledge) -> Knowledge:
    return replace(known, created_at="", updated_at="")


# ── what the exact lane tells ─────────────────────────────────────────────────────────────────────────────────────────


class Firing(NamedTuple):
    """A threshold that a value crosses, and by how much."""

    threshold: Threshold
    value: float
    by: float  # never negative

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"threshold": self.threshold.shown(), "value": self.value, "by": self.by}


class Active(NamedTuple):
    """A seasonal pattern that is on, since when and until when."""

    seasonal: Seasonal
    since: str
    until: str

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"seasonal": self.seasonal.shown(), "since": self.since, "until": self.until}


class Step(NamedTuple):
    """One step of a walk over correlations: from one side to the other."""

    here: str
    there: str
    correlation: Correlation
    forward: bool  # from the first side to the second
    depth: int
    confidence: float  # of the whole way, the product of its steps
    inverse: bool  # of the whole way

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**self._asdict(), "correlation": self.correlation.shown()}


class Reading(NamedTuple):
    """What a sentence says of a table: the fields of the row that it would become.

    Of a row that it denies (it no longer holds), those that tell which it is.
    """

    text: str
    table: Table
    fields: Mapping[str, Any]
    denied: bool
    confidence: float

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**self._asdict(), "fields": dict(self.fields)}


# ── checks and names ──────────────────────────────────────────────────────────────────────────────────────────────────


def number(value: Any, name: str) -> float:
    """The number itself, once it is known to be one: neither infinite nor a truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{name} is {value!r}.", "Give a number.")
    try:
        if isfinite(found := float(value)):
            return found
    except OverflowError as error:  # Python may refuse to write it out as well
        raise InvalidInput(f"{name} is too large.", "Give a finite number.") from error
    raise InvalidInput(f"{name} is {value!r}.", "Give a finite number.")


def as_quantity(text: str) -> tuple[float, str]:
    """The number that a person writes, and its unit: 5M, 1,000, -2.5, 90%, $1.2B, 250ms. The scales are k, M, B and T.

    InvalidInput for what is no number, and for what may be two: 5m are millions, or metres, or minutes, and 500 B are
    bytes or billions.
    """
    found = _QUANTITY.fullmatch(text.strip())
    if not found:
        raise InvalidInput(f"{text!r} is no number.", "Write it as 5000000, 5M, -2.5, 90% or 250ms.")
    sign, money, digits, power, gap, rest = (each or "" for each in found.groups())
    if rest in ("m", "b") or (gap and not money and rest in ("K", "B", "T")):
        hint = f"Write {rest.upper()} right behind the number for the scale, or give the unit apart."
        raise InvalidInput(f"{text!r} may be a scale or a unit.", hint)
    scale = _SCALES.get(rest) or _SCALES.get(rest.lower() if len(rest) > 1 else "", 0)
    written = f"{sign.replace('−', '-')}{digits.replace(',', '')}e{int(power or 0) + scale}"
    unit = _SPELLED.get(rest.lower(), rest)
    return number(float(written), text.strip()), money or ("" if scale else unit)


def plain_number(value: float) -> str:
    """The number as people write it: 5000000, 0.25; never 5e+06."""
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return repr(value)


def fold(name: str) -> str:
    """A name as it is compared: case, accents' spelling and white space do not matter."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _made_id(parts: tuple[str, ...]) -> str:
    """The parts as one readable id: other parts make another. Where they would not, with a digest of them."""
    slugs = [_slug(part) for part in parts]
    readable = ".".join(slug[:60] for slug, _ in slugs if slug)
    if all(whole and len(slug) <= 60 for slug, whole in slugs):
        return readable
    return f"{readable}.{_digest(chr(31).join(map(fold, parts)))}".strip(".")


def _slug(part: str) -> tuple[str, bool]:
    """A part as an id holds it, and whether it can be told from that: a blank is one underscore, one is two."""
    if part == ANY:
        return "~any", True
    folded = fold(part)
    plain = folded.replace("_", "__").replace(" ", "_")
    slug = re.sub(r"[^\w-]+", "-", plain).strip("-")
    return slug, bool(slug) and slug == plain and not (" " in folded and "_" in folded)


def _mark(known: Knowledge) -> str:
    """What tells apart the same thing said for other eyes; "" for everybody's and the owner's own."""
    eyes = whose(known)
    return "" if eyes[0] == "global" or not eyes[-1] else "@" + _digest(chr(31).join(eyes))[:6]


def _digest(text: str) -> str:
    return blake2b(fold(text).encode(), digest_size=6).hexdigest()


def _fill(value: object, name: str, content: object) -> None:
    object.__setattr__(value, name, content)  # a frozen value completing itself while it is made


def _label(value: object, name: str, *, needed: bool = False) -> None:
    text = " ".join(checked_text(getattr(value, name), name, MAX_LABEL).split())
    if needed and not text:
        raise InvalidInput(f"{name} is empty.", f"Say which {name} is meant.")
    _fill(value, name, text)


def _said(value: object, name: str) -> None:
    text = checked_text(getattr(value, name), name, MAX_SAID).strip()
    if not text:
        raise InvalidInput(f"The {name} is empty.", "Say it in words.")
    _fill(value, name, text)


def _one_of(value: object, name: str, known: tuple[str, ...]) -> None:
    given = getattr(value, name)
    text = given.strip().lower().replace(" ", "_") if isinstance(given, str) else given
    if text not in known:
        raise InvalidInput(f"{name} is {given!r}.", f"It is one of: {', '.join(known)}.")
    _fill(value, name, text)


def named_words(known: Knowledge) -> frozenset[str]:
    """The words of its names, folded, and how each name opens: what the exact lane finds it by."""
    names = [_sequence(name) for name in known.names]
    return frozenset([*(word for name in names for word in name), *(opening(name) for name in names if name)])


def opening(words: Sequence[str]) -> str:
    """How a name opens, as it is looked for where only that counts: its first word that is not in every text, with the
    number behind it if one stands there. A prompt that says "web" or "price" is in many names, but few open with it."""
    first = next((place for place, word in enumerate(words) if word not in STOP_WORDS), 0)
    after = words[first + 1 : first + 2]
    return f"^{words[first]} {after[0]}" if after and after[0].isdigit() else f"^{words[first]}"


def leading(name: str) -> str:
    """What every name that begins with this one is found by: how it opens, where no number can follow; else its longest
    word, which is likely the rarest. "" where it has no words."""
    words = _sequence(name)
    if any(word not in STOP_WORDS for word in words[:-1]):
        return opening(words)
    return max(words, key=len, default="")


def words_of(text: str) -> list[str]:
    """The words of a text as names hold them, each once, in order: folded, split at whatever is no letter or digit."""
    return list(dict.fromkeys(_sequence(text)))


def _sequence(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", fold(text))
