"""The words of cofio: the values that flow between its steps.

    way in    Fact ─ reconcile ─▶ [Decision] ─ store.apply ─▶ Changeset of [Change]
    way out   Query ─ search ─▶ [Hit]

Values are frozen and carry no behaviour beyond checking themselves. Times are UTC ISO 8601 strings of one fixed width,
so that they sort as text; `moment` makes one from anything a caller may hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from cofio.errors import InvalidInput, TooLarge

if TYPE_CHECKING:
    from cofio.domain import KnowledgeChange

Category = Literal["decision", "learning", "detail"]
Kind = Literal[
    "preference", "policy", "technology", "decision", "temporal", "pattern", "correlation", "threshold", "observation",
    "learning", "other",
]  # fmt: skip
Method = Literal["pattern", "llm", "manual", "import"]
Visibility = Literal["private", "team", "global"]
MatchType = Literal["vector", "keyword", "hybrid"]
Strength = Literal["strong", "likely", "weak"]
#: Scores from which a hit is strong or likely: `evals/strength.py` chose them (docs/explanation/search.md).
STRONG, LIKELY = 0.30, 0.20
Action = Literal["add", "update", "edit", "delete", "restore", "noop", "purge", "revert"]

CATEGORIES: tuple[Category, ...] = ("decision", "learning", "detail")
KINDS: tuple[Kind, ...] = Kind.__args__  # type: ignore[attr-defined]
METHODS: tuple[Method, ...] = ("pattern", "llm", "manual", "import")
VISIBILITIES: tuple[Visibility, ...] = ("private", "team", "global")

MAX_TEXT = 65_536  # characters; a memory is a fact, not a document
MAX_HITS = 1_000
MAX_LABEL = 1_024  # characters of a source, session, agent, tag or entity
MAX_LABELS = 256  # tags or entities of one memory
MAX_METADATA = 65_536  # characters of the metadata as JSON
MAX_DEPTH = 64  # objects and lists inside each other in the metadata

_CATEGORY_OF: Mapping[str, Category] = {
    "preference": "decision",
    "policy": "decision",
    "technology": "decision",
    "decision": "decision",
    "pattern": "learning",
    "correlation": "learning",
    "learning": "learning",
}

#: Metadata of a memory: the ids of older memories that it probably replaces, and that were left.
MAY_REPLACE = "may_replace"


def category_of(kind: str) -> Category:
    """The category, and so the retention, of a fact of this kind; detail when the kind is unknown."""
    return _CATEGORY_OF.get(kind, "detail")


def moment(value: str | int | float | datetime) -> str:
    """UTC ISO 8601 with microseconds, from a datetime, an ISO text, or seconds or milliseconds since 1970."""
    try:
        if isinstance(value, bool):
            raise ValueError
        if isinstance(value, int | float):
            seconds = value / 1000 if abs(value) >= 1e11 else value  # 1e11 seconds is the year 5138
            when = datetime.fromtimestamp(seconds, UTC)
        else:
            when = value if isinstance(value, datetime) else datetime.fromisoformat(value.strip())
        aware = when if when.tzinfo else when.replace(tzinfo=UTC)
        return aware.astimezone(UTC).isoformat(timespec="microseconds")
    except (ValueError, TypeError, OverflowError, OSError, AttributeError) as error:
        hint = "Give ISO 8601 (2026-02-20T06:44:28Z) or seconds or milliseconds since 1970."
        raise InvalidInput(f"{value!r} is not a time.", hint) from error


def days_before(at: str, days: float) -> str:
    """The time so many days before this one."""
    return moment(datetime.fromisoformat(moment(at)) - timedelta(days=days))


def seconds_until(then: str, now: str) -> float:
    """The seconds from now to then; 0 when it has passed."""
    return max(0.0, (datetime.fromisoformat(moment(then)) - datetime.fromisoformat(moment(now))).total_seconds())


# ── checks that the words share ───────────────────────────────────────────────────────────────────────────────────────


def checked_text(value: Any, name: str, limit: int) -> str:
    """The text itself, once it is known to be storable: a str, within the limit, no NUL, no lone surrogate."""
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is {type(value).__name__}.", f"Give {name} as text.")
    if len(value) > limit:
        raise TooLarge(f"{name} has {len(value):,} characters.", f"At most {limit:,} are taken.")
    if "\x00" in value:
        raise InvalidInput(f"{name} holds a NUL character.", "Remove it; a memory is plain text.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{name} holds half of a surrogate pair.", "Send well-formed Unicode.") from error
    return value


def _labels(values: Any, name: str) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, list | tuple | set | frozenset):
        raise InvalidInput(f"{name} is {type(values).__name__}.", f"Give {name} as a list of texts.")
    if len(values) > MAX_LABELS:
        raise TooLarge(f"{name} has {len(values):,} entries.", f"At most {MAX_LABELS} are taken.")
    cleaned = (checked_text(each, name, MAX_LABEL).strip() for each in values)
    return tuple(dict.fromkeys(each for each in cleaned if each))


def _checked_metadata(value: Any) -> dict[str, Any]:
    import json  # not needed to import the words

    if not isinstance(value, Mapping):
        raise InvalidInput(f"metadata is {type(value).__name__}.", "Give an object with text keys.")
    kept = {key: each for key, each in value.items() if key not in _RESERVED}
    if _deeper_than(MAX_DEPTH, kept):
        raise InvalidInput(f"metadata is nested deeper than {MAX_DEPTH} levels.", "Make it flatter.")
    try:
        written = json.dumps(kept, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput("metadata cannot be written as JSON.", "Use texts, numbers, lists and objects.") from error
    checked_text(written, "metadata", MAX_METADATA)
    if "\\u0000" in written:
        raise InvalidInput("metadata holds a NUL character.", "Remove it; metadata is plain JSON.")
    if any(not isinstance(key, str) for key in kept):
        raise InvalidInput("metadata has a key that is not text.", "Give an object with text keys.")
    read: dict[str, Any] = json.loads(written)  # as it will come back: tuples are lists, inner keys are texts
    return read


def _deeper_than(levels: int, value: Any) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return bool(inner) and (levels == 0 or any(_deeper_than(levels - 1, each) for each in inner))


def _one_of(value: Any, known: tuple[str, ...], name: str) -> None:
    if value not in known:
        raise InvalidInput(f"{name} is {value!r}.", f"It is one of: {', '.join(known)}.")


def whole(value: Any, name: str, *, least: int = -(1 << 63), most: int = (1 << 63) - 1) -> int:
    """The whole number itself, once it is known to be one within the bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        bounds = f" from {least:,} to {most:,}" if most < 1 << 32 else ""
        raise InvalidInput(f"{name} is {value!r}.", f"Give a whole number{bounds}.")
    return value


def truth(value: Any, name: str) -> None:
    """InvalidInput unless it is true or false, and nothing that passes for one."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} is {value!r}.", "Give true or false.")


def share(value: Any, name: str, *, least: float = 0.0) -> float:
    """The number itself, once it is known to lie between the least and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 1.0:
        raise InvalidInput(f"{name} is {value!r}.", f"Give a number from {least:g} to 1.")
    return float(value)


def _fill(value: object, name: str, content: object) -> None:
    object.__setattr__(value, name, content)  # a frozen value completing itself while it is made


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """What in a repository a memory speaks of, and what that was like when it was said."""

    kind: str  # file, symbol, command
    name: str  # as the memory names it: src/app.py, parse_config, make test
    path: str  # where it stands, from the root of the project
    hash: str  # of the file, of the definition, or of the recipe


class Freshly(NamedTuple):
    """Whether what a memory speaks of is still as it was."""

    state: str = ""  # fresh, changed, vanished; "" when it speaks of nothing, or nobody can tell
    notes: tuple[str, ...] = ()  # for people: what of it has changed or is gone


def _checked_anchors(values: Any) -> tuple[Anchor, ...]:
    """Anchors from such, or from what JSON makes of them."""
    names = tuple(Anchor.__dataclass_fields__)
    if not isinstance(values, list | tuple) or len(values) > MAX_LABELS:
        raise InvalidInput("anchors is no list of anchors.", f"Give at most {MAX_LABELS} with {', '.join(names)}.")
    try:
        given = [{name: each[name] if isinstance(each, Mapping) else getattr(each, name) for name in names}
                 for each in values]  # fmt: skip
    except (KeyError, AttributeError) as error:
        raise InvalidInput(f"An anchor lacks {error.args[0]}.", f"It has: {', '.join(names)}.") from error
    return tuple(Anchor(**{name: checked_text(each[name], name, 4 * MAX_LABEL) for name in names}) for each in given)


# ── the way in ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something worth remembering, before it has an identity. Checks itself; a bad one cannot be made."""

    text: str
    source: str = ""
    project: str = ""  # where it holds: the path of a working tree, or a name; "" belongs to no project
    kind: str = "other"
    category: str = ""  # "" is filled from the kind
    confidence: float = 1.0
    method: str = "manual"
    entities: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    session: str = ""
    agent: str = ""
    user: str = ""  # whose it is, where an agent works for somebody
    team: str = ""  # whose team; "" is the one team of a store that has no others
    visibility: str = "private"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    speaker: str = ""  # who said it
    context: str = ""  # what was said just before: helps to find it, is never recalled as a fact
    created_at: str = ""  # "" is filled by the clock
    anchors: tuple[Anchor, ...] = ()  # what it speaks of in the project's tree
    origin: str = ""  # where it was imported from, with its name there: mem0/8f3a…; "" where it was learned here

    def __post_init__(self) -> None:
        _fill(self, "text", checked_text(self.text, "text", MAX_TEXT).strip())
        if not self.text:
            raise InvalidInput("The text is empty.", "Give the fact to remember as a sentence.")
        for name in ("source", "project", "session", "agent", "user", "team", "speaker", "origin"):
            _fill(self, name, checked_text(getattr(self, name), name, MAX_LABEL).strip())
        _fill(self, "context", checked_text(self.context, "context", MAX_TEXT).strip())
        for name in ("entities", "tags"):
            _fill(self, name, _labels(getattr(self, name), name))
        _fill(self, "anchors", _checked_anchors(self.anchors))
        _one_of(self.kind, KINDS, "kind")
        _fill(self, "category", self.category or category_of(self.kind))
        _one_of(self.category, CATEGORIES, "category")
        _one_of(self.method, METHODS, "method")
        _one_of(self.visibility, VISIBILITIES, "visibility")
        _fill(self, "confidence", share(self.confidence, "confidence"))
        _fill(self, "metadata", _checked_metadata(self.metadata))
        if self.created_at != "":
            _fill(self, "created_at", moment(self.created_at))


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A fact that is kept: with an identity, a life and a lineage."""

    id: int
    text: str
    source: str = ""
    project: str = ""
    category: str = "detail"
    kind: str = "other"
    confidence: float = 1.0
    method: str = "manual"
    entities: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    session: str = ""
    agent: str = ""
    user: str = ""
    team: str = ""
    visibility: str = "private"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    speaker: str = ""
    context: str = ""
    created_at: str
    updated_at: str
    pinned: bool = False
    archived_at: str | None = None
    supersedes: int | None = None
    superseded_by: int | None = None
    previous_text: str | None = None
    occurrences: int = 1
    retrieval_count: int = 0
    last_retrieved_at: str | None = None
    anchors: tuple[Anchor, ...] = ()
    origin: str = ""

    @property
    def timestamp(self) -> str:
        """`created_at`, under the name that older clients read."""
        return self.created_at

    @property
    def archived(self) -> bool:
        return self.archived_at is not None

    @property
    def may_replace(self) -> list[int]:
        """The ids of older memories that this one probably replaces."""
        noted = self.metadata.get(MAY_REPLACE)
        return [each for each in noted if isinstance(each, int)] if isinstance(noted, list) else []

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, `timestamp` included."""
        plain = asdict(self)
        plain.update(entities=list(self.entities), tags=list(self.tags), anchors=list(plain["anchors"]))
        plain["timestamp"] = self.timestamp
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Memory:
        """The memory that `as_dict` wrote; keys of later versions are passed over."""
        known = {name: plain[name] for name in _MEMORY_FIELDS if name in plain}
        known.update(entities=tuple(known.get("entities", ())), tags=tuple(known.get("tags", ())))
        known["anchors"] = tuple(Anchor(**each) for each in known.get("anchors", ()))
        return cls(**known)


_MEMORY_FIELDS = tuple(f.name for f in fields(Memory))
#: Metadata cannot overwrite the named fields of a memory, nor the alias.
#: Some had a project, an origin, anchors, a user or a team of their own before there were such fields.
_RESERVED = frozenset(_MEMORY_FIELDS) - {"project", "origin", "anchors", "user", "team"} | {"timestamp"}


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One sighting of a fact: who said it again, where and when."""

    agent: str = ""
    session: str = ""
    at: str = ""


class Repeated(NamedTuple):
    """Something that one agent has said more than once."""

    agent: str
    memory: Memory
    occurrences: int

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"agent": self.agent, "occurrences": self.occurrences, "memory": self.memory.as_dict()}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Repeated:
        """What `as_dict` wrote."""
        return cls(plain["agent"], Memory.from_dict(plain["memory"]), plain["occurrences"])


# ── decisions: what is to be done ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Add:
    """Keep a new fact. `unless_known` settles an identical live text as a noop, even when another process wrote it."""

    fact: Fact
    reason: str = ""
    unless_known: bool = False
    again: tuple[Occurrence, ...] = ()  # further sightings of it that came in the same batch


@dataclass(frozen=True, slots=True)
class Update:
    """The new fact takes the old memory's place: written first, then the old one is archived, linked both ways."""

    id: int
    fact: Fact
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """Change fields of a memory in place; only `updated_at` moves."""

    id: int
    fields: Mapping[str, Any]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Archive a memory. With `into`, the memory that stands for it from now on also takes over its occurrences.

    `as_of` names the newest changeset that was known when it was decided: a Conflict if anything was done to it since.
    """

    id: int
    reason: str = ""
    into: int | None = None
    as_of: int | None = None


@dataclass(frozen=True, slots=True)
class Merge:
    """One fact takes the place of several memories: written first, then they are archived and point to it.

    It takes over what was counted for them (occurrences, retrievals) and a pin.
    """

    ids: tuple[int, ...]
    fact: Fact
    reason: str = ""
    as_of: int | None = None  # as of Delete


@dataclass(frozen=True, slots=True)
class Adopt:
    """Keep a memory as it was elsewhere: with its id (0 for a new one), times, state, lineage, counts and sightings."""

    memory: Memory
    sightings: tuple[Occurrence, ...] = ()  # after the first, which is the memory itself
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Restore:
    """Bring an archived memory back."""

    id: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Noop:
    """The fact is known already: note that it was seen again."""

    id: int
    occurrence: Occurrence = Occurrence()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Purge:
    """Erase a memory for good, its words in the journal included. The one decision that cannot be undone.

    Where somebody has it erased who may not see everything, what others said is left as it is: its words may be any.
    """

    id: int
    reason: str = ""
    viewer: Viewer | None = None


@dataclass(frozen=True, slots=True)
class Revert:
    """Put a memory back to what it was before a change: the inverse that undo is made of."""

    change_id: int
    reason: str = ""


Decision = Add | Update | Edit | Delete | Merge | Adopt | Restore | Noop | Purge | Revert


def plain(decision: Decision) -> dict[str, Any]:
    """A decision as JSON values, for a dry run: what would be done, to which memory, why."""
    given = {f.name: getattr(decision, f.name) for f in fields(decision)}
    fact = given.pop("fact", None) or given.pop("memory", None)
    told = {
        name: list(value) if name == "ids" else value
        for name, value in given.items()
        if name in ("id", "ids", "into", "reason") and value is not None
    }
    return {"action": type(decision).__name__.lower(), **told, **({"text": fact.text} if fact else {})}


#: The fields that an Edit may change.
EDITABLE = (
    "text", "source", "project", "category", "kind", "confidence", "entities", "tags", "session", "agent", "user",
    "team", "visibility", "metadata", "speaker", "context", "pinned", "anchors",
)  # fmt: skip


def edited(memory: Memory, changes: Mapping[str, Any]) -> Memory:
    """The memory with these fields changed, checked like a fact; `updated_at` is the store's to set."""
    unknown = sorted(set(changes) - set(EDITABLE))
    if unknown:
        hint = f"These can be changed: {', '.join(EDITABLE)}."
        raise InvalidInput(f"{', '.join(unknown)} cannot be changed.", hint)
    given = dict(changes)
    pinned = given.pop("pinned", memory.pinned)
    truth(pinned, "pinned")
    if "kind" in given and "category" not in given:
        given["category"] = ""  # a new kind brings its own category
    checked = replace(fact_of(memory), **given)
    same = {f.name: getattr(checked, f.name) for f in fields(Fact)}
    return replace(memory, **same, pinned=pinned)


def fact_of(memory: Memory) -> Fact:
    """What the memory says, without its identity."""
    return Fact(**{f.name: getattr(memory, f.name) for f in fields(Fact)})


def same_place(one: Fact | Memory, other: Fact | Memory) -> bool:
    """True when the two may be one memory as far as project, audience and speaker go.

    Within a project it does not matter which client told; what belongs to none is kept apart by its source. What is
    private to one is never merged with another's, nor what one team knows with what another does.
    """
    return (
        one.project == other.project
        and (bool(one.project) or one.source == other.source)
        and audience(one) == audience(other)
        and one.speaker == other.speaker
    )


class Owned(Protocol):
    """Anything that says whose it is and who may see it: a fact, a memory, an episode."""

    @property
    def source(self) -> str: ...
    @property
    def agent(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def team(self) -> str: ...
    @property
    def visibility(self) -> str: ...


def audience(known: Owned) -> tuple[str, ...]:
    """Who may see it: equal for what the same people and agents may see.

    What is private belongs to its user, whichever agent told it; where no user is named, to its agent.
    """
    if known.visibility == "private":
        return ("private", "user", known.user) if known.user else ("private", "agent", known.agent)
    return (known.visibility, known.team) if known.visibility == "team" else (known.visibility,)


# ── changes: what was done ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One memory's step in one changeset, as the journal keeps it."""

    id: int
    changeset: int
    action: Action
    memory_id: int
    at: str
    by: str
    why: str
    before: Memory | None
    after: Memory | None
    reason: str = ""
    near: tuple[Memory, ...] = ()  # of an addition: memories that it may replace and that were left; not journalled

    @property
    def memory(self) -> Memory:
        """The memory as the change left it; for one that it removed, as it was before."""
        left = self.after or self.before
        if left is None:
            raise InvalidInput(f"Memory {self.memory_id} was purged.", "Nothing of it is kept.")
        return left

    def as_dict(self) -> dict[str, Any]:
        plain = {
            name: getattr(self, name)
            for name in ("id", "changeset", "action", "memory_id", "at", "by", "why", "reason")
        }
        plain["before"] = self.before.as_dict() if self.before else None
        plain["after"] = self.after.as_dict() if self.after else None
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Changeset:
    """What one transaction did: who, why, when, and every change."""

    id: int
    at: str
    by: str
    why: str
    undoes: int | None = None
    undone_by: int | None = None
    part_of: int | None = None  # the first of the series that it belongs to
    changes: tuple[Change, ...] = ()
    knowledge: tuple[KnowledgeChange, ...] = ()  # what it did to the tables of domain knowledge

    @property
    def takes_back(self) -> bool:
        """Whether more was done than adding: copies elsewhere of what was known may be out of date."""
        actions = {change.action for change in self.changes} | {change.action for change in self.knowledge}
        return not actions <= {"add", "noop"}

    def as_dict(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in ("id", "at", "by", "why", "undoes", "undone_by", "part_of")}
        plain["changes"] = [change.as_dict() for change in self.changes]
        plain["knowledge"] = [change.as_dict() for change in self.knowledge]
        return plain


# ── the way out ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Somebody who may not see everything: what is global, what their team knows, and what is private to them.

    With prefixes, of all that only what comes from sources at or below one of them, by whole path segments. Where there
    is no viewer (None), everything may be seen: the owner of a store looks.
    """

    agent: str = ""
    user: str = ""
    team: str = ""
    prefixes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("agent", "user", "team"):
            _fill(self, name, checked_text(getattr(self, name), name, MAX_LABEL).strip())
        _fill(self, "prefixes", tuple(each.rstrip("/") for each in _labels(self.prefixes, "prefixes")))
        if not self.agent and not self.user:
            raise InvalidInput("A viewer has no name.", "Name the agent or the user.")
        if not all(self.prefixes):
            raise InvalidInput("A source prefix is empty.", "Leave it out, to allow every source.")

    def sees(self, known: Owned) -> bool:
        """Whether they may see it. The stores' queries say the same (`stores.scopes`)."""
        return self.reaches(known.source) and self.is_among(audience(known))

    def reaches(self, source: str) -> bool:
        """Whether a source is one of theirs."""
        return not self.prefixes or any(source == each or source.startswith(each + "/") for each in self.prefixes)

    def below(self, source: str) -> str:
        """The source, where it is one of theirs; else the same below the first that is. For who cannot choose one."""
        return source if self.reaches(source) else f"{self.prefixes[0]}/{source}"[:MAX_LABEL]

    def is_among(self, those: tuple[str, ...]) -> bool:
        """Whether they belong to an audience."""
        whose, last = those[0], those[-1]
        if whose == "private":
            return last != "" and last == (self.user if those[1] == "user" else self.agent)
        return whose == "global" or last == self.team

    def owns(self, known: Owned) -> bool:
        """Whether it is theirs: they may say who sees it."""
        return known.user == self.user if known.user else known.agent == self.agent != ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which memories are meant. Empty fields do not narrow; archived memories are left out unless asked for."""

    source: str | None = None  # exactly this source
    source_prefix: str = ""  # this source and what lies below it, by whole path segments
    project: str | None = None  # exactly this project; "" is what belongs to none
    seen_from: str | None = None  # what matters in this project: its own, what belongs to none, what is global
    category: str = ""
    kind: str = ""
    method: str = ""
    tags: tuple[str, ...] = ()  # all of them
    session: str = ""
    agent: str = ""
    user: str | None = None  # exactly this user's; "" is what has none
    team: str | None = None  # exactly this team's
    visibility: tuple[str, ...] = ()  # any of them
    since: str = ""
    until: str = ""
    pinned: bool | None = None
    include_archived: bool = False
    viewer: Viewer | None = None  # what they may see; None sees everything

    def __post_init__(self) -> None:
        for name, known in (("category", CATEGORIES), ("kind", KINDS), ("method", METHODS)):
            if getattr(self, name):
                _one_of(getattr(self, name), known, name)
        for name in ("source_prefix", "session", "agent"):
            checked_text(getattr(self, name), name, MAX_LABEL)
        for name in ("source", "project", "seen_from", "user", "team"):
            if getattr(self, name) is not None:
                checked_text(getattr(self, name), name, MAX_LABEL)
        _fill(self, "tags", _labels(self.tags, "tags"))
        _fill(self, "visibility", _labels(self.visibility, "visibility"))
        for each in self.visibility:
            _one_of(each, VISIBILITIES, "visibility")
        for name in ("since", "until"):
            if getattr(self, name) != "":
                _fill(self, name, moment(getattr(self, name)))
        truth(self.include_archived, "include_archived")
        if self.pinned is not None:
            truth(self.pinned, "pinned")

    @property
    def narrows(self) -> bool:
        """True unless it means all live memories, or simply all."""
        return self not in _EVERYTHING


_EVERYTHING = (Scope(), Scope(include_archived=True))


def place_of(fact: Fact | Memory) -> Scope:
    """Where the memories are found that may be one with this: all of `same_place` but for the speaker."""
    return Scope(
        project=fact.project,
        source=None if fact.project else fact.source,
        visibility=(fact.visibility,),
        user=fact.user if fact.visibility == "private" else None,
        agent=fact.agent if fact.visibility == "private" and not fact.user else "",
        team=fact.team if fact.visibility == "team" else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is looked for. `threshold` is the least cosine similarity, `min_score` the least fused score, of any hit."""

    text: str
    k: int = 5
    skip: int = 0  # of the best, how many are passed over; pages of one k follow each other without gaps
    hybrid: bool = True
    threshold: float = -1.0  # a cosine is never less
    min_score: float = 0.0
    explain: bool = False
    noted: bool = True  # whether it counts as recalled: a person who looks around recalls nothing
    closely: bool = True  # whether the best are read word by word, where there is a reader
    scope: Scope = Scope()

    def __post_init__(self) -> None:
        _fill(self, "text", checked_text(self.text, "query", MAX_TEXT))
        if not self.text.strip():
            raise InvalidInput("The query is empty.", "Say in words what to look for.")
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 1 <= self.k <= MAX_HITS:
            raise InvalidInput(f"k is {self.k!r}.", f"Ask for 1 to {MAX_HITS} hits.")
        whole(self.skip, "skip", least=0, most=MAX_HITS)
        if not isinstance(self.scope, Scope):
            raise InvalidInput(f"scope is {type(self.scope).__name__}.", "Give a Scope.")
        for name in ("hybrid", "explain", "noted", "closely"):
            truth(getattr(self, name), name)
        _fill(self, "threshold", share(self.threshold, "threshold", least=-1.0))
        _fill(self, "min_score", share(self.min_score, "min_score"))


@dataclass(frozen=True, slots=True)
class Briefing:
    """What is put before an agent: the text, and each memory in it with a digest of the words that it was given in.

    What is known exactly is among them, under ids below 0; what it says is in `exact`.
    """

    text: str = ""
    given: Mapping[int, str] = field(default_factory=dict)
    tokens: int = 0
    exact: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def ids(self) -> tuple[int, ...]:
        """The memories in it."""
        return tuple(each for each in self.given if each > 0)


class Candidate(NamedTuple):
    """What a store finds: an id and a raw score, cosine or BM25 (higher is better). The core judges it."""

    id: int
    score: float


@dataclass(frozen=True, slots=True)
class Matching:
    """What a store finds by words: the candidates, and about what a text would score that held every word."""

    candidates: tuple[Candidate, ...]
    ideal: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a hit is where it is: its place and its share in either ranking, and the words that matched."""

    vector_rank: int | None
    vector_share: float
    keyword_rank: int | None
    keyword_share: float
    bm25: float
    words: tuple[str, ...]
    formula: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A memory that answers a query. `similarity` is the true cosine, `keyword` the keyword score from 0 to 1."""

    memory: Memory
    score: float
    similarity: float
    keyword: float
    match_type: MatchType
    why: Explanation | None = None
    freshness: str = ""  # the state of what it speaks of: fresh, changed, vanished; "" when nobody can tell
    stale: tuple[str, ...] = ()  # what of that has changed or is gone, for people

    @property
    def id(self) -> int:
        return self.memory.id

    @property
    def text(self) -> str:
        return self.memory.text

    @property
    def strength(self) -> Strength:
        """How well it answers, by its score: most strong hits answer, few weak ones do."""
        return "strong" if self.score >= STRONG else "likely" if self.score >= LIKELY else "weak"

    def as_dict(self) -> dict[str, Any]:
        plain = self.memory.as_dict()
        plain.update(
            score=round(self.score, 6),
            strength=self.strength,
            similarity=round(self.similarity, 6),
            keyword_score=round(self.keyword, 6),
            match_type=self.match_type,
            freshness=self.freshness,
            stale=list(self.stale),
        )
        if self.why:
            plain["why"] = asdict(self.why)
        return plain


def fits_badly(hits: Sequence[Hit]) -> bool:
    """Return whether there are hits, and all of them are weak."""
    return bool(hits) and all(hit.strength == "weak" for hit in hits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Novelty:
    """Whether a text says something new; if not, the memory that says it already."""

    novel: bool
    similarity: float
    match: Memory | None
    reason: str


@dataclass(frozen=True, slots=True)
class Page:
    """A slice of a listing; `next` is the cursor that asks for what follows, None at the end."""

    memories: tuple[Memory, ...]
    next: int | None
    total: int


class Project(NamedTuple):
    """A project that live memories belong to, and how many do."""

    name: str
    memories: int


@dataclass(frozen=True, slots=True)
class Retrieval:
    """A memory was returned for a query: who asked, what, when."""

    memory_id: int
    query: str
    caller: str
    at: str


# ── from what people write ───────────────────────────────────────────────────────────────────────────────────────────


def as_fact(fact: str | Fact, about: Mapping[str, Any]) -> Fact:
    """A fact from a text and its fields, or as it is but for these."""
    known_fields(about, Fact, "fact")
    if isinstance(fact, Fact):
        return replace(fact, **about) if about else fact
    return Fact(text=fact, **about)


def as_query(query: str | Query, how: Mapping[str, Any]) -> Query:
    """A query from a text and the fields of Query and Scope, or as it is but for these."""
    within = {name: value for name, value in how.items() if name in Scope.__dataclass_fields__}
    rest = {name: value for name, value in how.items() if name not in within}
    known_fields(rest, Query, "query")
    if within and "scope" in rest:
        raise InvalidInput("A scope was given twice.", "Give a Scope, or its fields.")
    if isinstance(query, Query):
        scope = replace(query.scope, **within)
        return replace(query, **{"scope": scope, **rest})
    return Query(text=query, **{"scope": Scope(**within), **rest})


def as_scope(within: Mapping[str, Any]) -> Scope:
    """A scope from its fields."""
    known_fields(within, Scope, "scope")
    return Scope(**within)


def known_fields(given: Mapping[str, Any], kind: type[Fact] | type[Query] | type[Scope], name: str) -> None:
    """InvalidInput when something is given that there is no field for."""
    unknown = sorted(given.keys() - kind.__dataclass_fields__.keys())
    if unknown:
        raise InvalidInput(f"A {name} has no {', '.join(unknown)}.", f"It has: {', '.join(kind.__dataclass_fields__)}.")
