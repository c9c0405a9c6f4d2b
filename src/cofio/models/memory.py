"""Value types that the steps of cofio pass to each other.

    write path    Fact ─ reconcile ─▶ [Decision] ─ store.apply ─▶ Changeset of [Change]
    read path     Query ─ search ─▶ [Hit]

Values are frozen and have no behaviour except validating themselves. Times are UTC ISO 8601 strings of one fixed width,
so that they sort as text; `moment` converts other representations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol, TypeAlias, TypedDict

from cofio.errors import InvalidInput, TooLarge
from cofio.models.json_values import JsonFields
from cofio.models.provenance import PROVENANCES, SERVICE_FIELDS, least_trusted, method_provenance, provenance_label

if TYPE_CHECKING:
    from cofio.models.domain_knowledge import Knowledge, KnowledgeChange, Table

Category = Literal["decision", "learning", "detail"]
Kind = Literal[
    "preference", "policy", "technology", "decision", "temporal", "pattern", "correlation", "threshold", "observation",
    "learning", "other",
]  # fmt: skip
Method = Literal["pattern", "llm", "manual", "import"]
Visibility = Literal["private", "team", "global"]
MatchType = Literal["vector", "keyword", "hybrid"]
Strength = Literal["strong", "likely", "weak"]
#: Minimum scores of a strong and of a likely hit, measured by `evals/strength.py` (docs/explanation/search.md).
STRONG, LIKELY = 0.30, 0.20
Timestamp: TypeAlias = str | int | float | datetime  # ISO 8601, or seconds or milliseconds since 1970
Action = Literal["add", "update", "edit", "delete", "restore", "noop", "purge", "revert"]

CATEGORIES: tuple[Category, ...] = ("decision", "learning", "detail")
KINDS: tuple[Kind, ...] = Kind.__args__  # type: ignore[attr-defined]
METHODS: tuple[Method, ...] = ("pattern", "llm", "manual", "import")
VISIBILITIES: tuple[Visibility, ...] = ("private", "team", "global")

MAX_TEXT = 65_536  # characters; a memory is a fact, not a document
MAX_HITS = 1_000
MAX_PAGE = 1_000  # rows of one page of a list
MAX_LABEL = 1_024  # characters of a source, session, agent, tag or entity
MAX_LABELS = 256  # tags or entities of one memory
MAX_METADATA = 65_536  # characters of the metadata as JSON
MAX_DEPTH = 64  # nesting depth of objects and lists in the metadata

_CATEGORY_OF: Mapping[str, Category] = {
    "preference": "decision",
    "policy": "decision",
    "technology": "decision",
    "decision": "decision",
    "pattern": "learning",
    "correlation": "learning",
    "learning": "learning",
}

#: Metadata key: ids of older memories that this one probably replaces; they were left unchanged.
MAY_REPLACE = "may_replace"


def category_of(kind: str) -> Category:
    """Return the category of a kind, which sets its retention; "detail" if the kind is unknown."""
    return _CATEGORY_OF.get(kind, "detail")


def to_utc_iso(value: Timestamp) -> str:
    """Convert a datetime, an ISO 8601 string, or seconds or milliseconds since 1970 to UTC ISO 8601 in microseconds."""
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
    """Return the time that many days before `at`."""
    return to_utc_iso(datetime.fromisoformat(to_utc_iso(at)) - timedelta(days=days))


def seconds_until(then: str, now: str) -> float:
    """Return the seconds from `now` to `then`, or 0 if `then` has passed."""
    return max(
        0.0, (datetime.fromisoformat(to_utc_iso(then)) - datetime.fromisoformat(to_utc_iso(now))).total_seconds()
    )


# ── shared checks ─────────────────────────────────────────────────────────────────────────────────────────────────────


def json_type(value: Any) -> str:
    """Return the JSON type of a value in words, for error messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    words = {str: "a text", int: "a number", float: "a number", list: "a list", tuple: "a list", dict: "an object"}
    return words.get(type(value), type(value).__name__)


def _quote(value: Any) -> str:
    """Return the value for an error message, null and booleans as in JSON."""
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else repr(value)


def check_text(value: Any, name: str, limit: int) -> str:
    """Return the text if it can be stored: a str within the limit, without NUL or lone surrogates."""
    if not isinstance(value, str):
        raise InvalidInput(
            f"{name} must be a text, not {json_type(value)}.", f"At most {limit:,} characters are allowed."
        )
    if len(value) > limit:
        raise TooLarge(f"{name} has {len(value):,} characters.", f"At most {limit:,} are allowed.")
    if "\x00" in value:
        raise InvalidInput(f"{name} contains a NUL character.", "Remove the character: U+0000 cannot be stored.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{name} contains an unpaired surrogate.",
            "Replace the broken character: half of a UTF-16 pair (U+D800 to U+DFFF) cannot be stored.",
        ) from error
    return value


def _check_labels(values: Any, name: str) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, list | tuple | set | frozenset):
        raise InvalidInput(f"{name} must be a list of texts, not {json_type(values)}.", 'Write ["name"] for one.')
    if len(values) > MAX_LABELS:
        raise TooLarge(f"{name} has {len(values):,} entries.", f"At most {MAX_LABELS} are allowed.")
    labels = (check_text(value, name, MAX_LABEL).strip() for value in values)
    return tuple(dict.fromkeys(label for label in labels if label))


def _check_metadata(value: Any) -> dict[str, Any]:
    import json  # deferred: importing this module does not need it

    if not isinstance(value, Mapping):
        raise InvalidInput(f"metadata must be an object, not {json_type(value)}.", 'Write it as {"key": "value"}.')
    metadata = {key: content for key, content in value.items() if key not in _RESERVED}
    _check_nesting(metadata)
    try:
        encoded = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput("metadata cannot be written as JSON.", "Use texts, numbers, lists and objects.") from error
    check_text(encoded, "metadata", MAX_METADATA)
    if "\\u0000" in encoded:
        raise InvalidInput("metadata contains a NUL character.", "Remove the character: U+0000 cannot be stored.")
    if any(not isinstance(key, str) for key in metadata):
        raise InvalidInput("metadata has a key that is not a text.", 'Write it as {"key": "value"}.')
    decoded: dict[str, Any] = json.loads(encoded)  # as it will be read back: tuples become lists, inner keys strings
    return decoded


def _check_nesting(metadata: Mapping[str, Any]) -> None:
    """Raise if there are too many levels, or more values than the limit of characters has room for."""
    level: list[Any] = [metadata]
    count = 0
    for _ in range(MAX_DEPTH + 1):
        level = [
            item
            for value in level
            if isinstance(value, Mapping | list | tuple)
            for item in (value.values() if isinstance(value, Mapping) else value)
        ]
        count += len(level)
        if count > MAX_METADATA // 2:
            hint = f"At most {MAX_METADATA:,} characters of JSON are allowed."
            raise TooLarge(f"metadata has more than {MAX_METADATA // 2:,} values.", hint)
        if not level:
            return
    raise InvalidInput(f"metadata is nested deeper than {MAX_DEPTH} levels.", "Reduce the nesting.")


def _check_choice(value: Any, choices: tuple[str, ...], name: str) -> None:
    if value not in choices:
        raise InvalidInput(f"{name} is {_quote(value)}.", f"Give one of: {', '.join(choices)}.")


def check_int(value: Any, name: str, *, least: int = -(1 << 63), most: int = (1 << 63) - 1) -> int:
    """Return the integer if it lies within the bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        bounds = f" from {least:,} to {most:,}" if most < 1 << 32 else ""
        raise InvalidInput(f"{name} is {_quote(value)}.", f"Give a whole number{bounds}.")
    return value


def check_bool(value: Any, name: str) -> None:
    """Raise InvalidInput unless the value is a bool."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} is {_quote(value)}.", "Give true or false.")


def check_fraction(value: Any, name: str, *, least: float = 0.0) -> float:
    """Return the number if it lies between `least` and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 1.0:
        raise InvalidInput(f"{name} is {_quote(value)}.", f"Give a number from {least:g} to 1.")
    return float(value)


def _fill(value: object, name: str, content: object) -> None:
    object.__setattr__(value, name, content)  # sets a field of a frozen instance during __post_init__


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """Reference from a memory to a file, symbol or command of a repository, with its hash when it was recorded."""

    kind: str  # file, symbol, command
    name: str  # as the memory names it: src/app.py, parse_config, make test
    path: str  # location, relative to the project root
    hash: str  # of the file, the definition or the recipe


class FreshnessResult(NamedTuple):
    """Freshness of the code that a memory refers to."""

    state: str = ""  # fresh, changed, vanished; "" without references, or if unknown
    notes: tuple[str, ...] = ()  # human-readable: each reference that changed or vanished


def _check_anchors(values: Any) -> tuple[Anchor, ...]:
    """Return Anchor values from anchors or their JSON form."""
    names = tuple(Anchor.__dataclass_fields__)
    if not isinstance(values, list | tuple) or len(values) > MAX_LABELS:
        raise InvalidInput(
            f"anchors must be a list of at most {MAX_LABELS} anchors.", f"Fields of an anchor: {', '.join(names)}."
        )
    try:
        anchors = [{name: value[name] if isinstance(value, Mapping) else getattr(value, name) for name in names}
                 for value in values]  # fmt: skip
    except (KeyError, AttributeError) as error:
        raise InvalidInput(f"An anchor lacks the field {error.args[0]}.", f"Fields: {', '.join(names)}.") from error
    return tuple(
        Anchor(**{name: check_text(anchor[name], name, 4 * MAX_LABEL) for name in names}) for anchor in anchors
    )


# ── write path ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Fact to be stored, before it has an ID. Validates itself on construction."""

    text: str
    source: str = ""
    project: str = ""  # path of a working tree, or a name; "" for no project
    kind: str = "other"
    category: str = ""  # "" is derived from the kind
    confidence: float = 1.0
    method: str = "manual"
    entities: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    session: str = ""
    agent: str = ""
    user: str = ""  # owner, if the agent works on behalf of a user
    team: str = ""  # "" is the only team of a store without teams
    visibility: str = "private"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    speaker: str = ""  # who said it
    context: str = ""  # preceding text; used for search, never recalled as a fact
    created_at: str = ""  # "" is set to the current time
    anchors: tuple[Anchor, ...] = ()  # references to code in the project's working tree
    origin: str = ""  # import source and ID there: mem0/8f3a…; "" if not imported
    provenance: str = ""  # whose words they are; set by the service
    author: str = ""  # writer of pasted text, where it names one; set by the service

    def __post_init__(self) -> None:
        _fill(self, "text", check_text(self.text, "text", MAX_TEXT).strip())
        if not self.text:
            raise InvalidInput("The text is empty.", "Give the fact to remember as a sentence.")
        for name in ("source", "project", "session", "agent", "user", "team", "speaker", "author", "origin"):
            _fill(self, name, check_text(getattr(self, name), name, MAX_LABEL).strip())
        _fill(self, "context", check_text(self.context, "context", MAX_TEXT).strip())
        for name in ("entities", "tags"):
            _fill(self, name, _check_labels(getattr(self, name), name))
        _fill(self, "anchors", _check_anchors(self.anchors))
        _check_choice(self.kind, KINDS, "kind")
        _fill(self, "category", self.category or category_of(self.kind))
        _check_choice(self.category, CATEGORIES, "category")
        _check_choice(self.method, METHODS, "method")
        _check_choice(self.visibility, VISIBILITIES, "visibility")
        _check_choice(self.provenance, PROVENANCES, "provenance")
        _fill(self, "confidence", check_fraction(self.confidence, "confidence"))
        _fill(self, "metadata", _check_metadata(self.metadata))
        if self.created_at != "":
            _fill(self, "created_at", to_utc_iso(self.created_at))


#: Fields that a caller may set.
FACT_FIELDS = tuple(f.name for f in fields(Fact) if f.name not in SERVICE_FIELDS)


class Doc(NamedTuple):
    """Description of a keyword argument, with its allowed values or bounds. HTTP requests take it from here."""

    text: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None


class NoteKwargs(TypedDict, total=False):
    """Keyword arguments for the fields of a Fact that a note may set."""

    project: Annotated[str, Doc("Project of the memory: the path of its working tree, or a name.")]
    kind: Annotated[str, Doc("Kind of fact.", KINDS)]
    category: Annotated[str, Doc("How long it stays relevant.", CATEGORIES)]
    confidence: Annotated[float, Doc(least=0, most=1)]
    entities: Sequence[str]
    session: str
    agent: str
    user: Annotated[str, Doc("User who owns the memory.")]
    team: Annotated[str, Doc("Team of the owner.")]
    visibility: Annotated[str, Doc("Who may see the memory.", VISIBILITIES)]
    metadata: Mapping[str, Any]
    speaker: Annotated[str, Doc("Who stated the fact.")]
    context: Annotated[str, Doc("Text said just before the fact; helps search to find the memory.")]


class _SharedKwargs(NoteKwargs, total=False):
    source: Annotated[str, Doc("Source of the memory, as client/project.")]
    tags: Sequence[str]
    anchors: Sequence[Anchor]


class FactKwargs(_SharedKwargs, total=False):
    """Keyword arguments for the fields of a Fact other than its text."""

    method: Annotated[str, Doc("Extraction method.", METHODS)]
    created_at: Annotated[
        Timestamp, Doc("Time when the fact was stated: ISO 8601, or seconds or milliseconds since 1970.")
    ]
    origin: Annotated[str, Doc("System that the memory was imported from, and its id there.")]


class EditKwargs(_SharedKwargs, total=False):
    """Keyword arguments for the fields that an edit may change."""

    text: str
    pinned: bool


#: Fields that an Edit may change.
EDITABLE = tuple(EditKwargs.__annotations__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Stored fact, with an ID, a lifecycle and links to the memories it replaces or is replaced by."""

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
    provenance: str = ""
    author: str = ""

    @property
    def timestamp(self) -> str:
        """Return `created_at` under the name that older clients read."""
        return self.created_at

    @property
    def archived(self) -> bool:
        return self.archived_at is not None

    def provenance_label(self, reader: str = "") -> str:
        """Return whose words it holds, for the user who reads it; "" if unknown."""
        return provenance_label(self.provenance, self.user, self.visibility, reader)

    @property
    def may_replace(self) -> list[int]:
        """Return the ids of older memories that this one probably replaces."""
        ids = self.metadata.get(MAY_REPLACE)
        return [memory_id for memory_id in ids if isinstance(memory_id, int)] if isinstance(ids, list) else []

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values, including `timestamp`."""
        plain = asdict(self)
        plain.update(entities=list(self.entities), tags=list(self.tags), anchors=list(plain["anchors"]))
        plain["timestamp"] = self.timestamp
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Memory:
        """Read a memory written by `as_dict`, ignoring unknown keys; an old one has no provenance."""
        values = {name: plain[name] for name in _MEMORY_FIELDS if name in plain}
        values.setdefault("provenance", method_provenance(plain.get("method", "manual"), plain.get("origin", "")))
        values.update(entities=tuple(values.get("entities", ())), tags=tuple(values.get("tags", ())))
        values["anchors"] = tuple(Anchor(**anchor) for anchor in values.get("anchors", ()))
        return cls(**values)


_MEMORY_FIELDS = tuple(f.name for f in fields(Memory))
#: Metadata keys that are dropped because they name a field of a memory or its alias `timestamp`.
#: Newer fields are allowed: older metadata used these keys before the fields existed.
_NEWER = {"project", "origin", "anchors", "user", "team", "provenance", "author"}
_RESERVED = frozenset(_MEMORY_FIELDS) - _NEWER | {"timestamp"}


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One sighting of a fact: agent, session and time."""

    agent: str = ""
    session: str = ""
    at: str = ""


class RepeatedFact(NamedTuple):
    """Memory that one agent has stated more than once."""

    agent: str
    memory: Memory
    occurrences: int

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"agent": self.agent, "occurrences": self.occurrences, "memory": self.memory.as_dict()}


# ── decisions (planned changes) ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Add:
    """Store a new fact.

    With `unless_known`, an identical live text makes this a noop, even if another process wrote it.
    """

    fact: Fact
    reason: str = ""
    unless_known: bool = False
    again: tuple[Occurrence, ...] = ()  # further sightings from the same batch


@dataclass(frozen=True, slots=True)
class Update:
    """Replace an old memory with a new fact: write the fact, archive the old memory and link both."""

    id: int
    fact: Fact
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """Change fields of a memory in place; of its times, only `updated_at` changes."""

    id: int
    fields: Mapping[str, Any]
    reason: str = ""
    provenance: str = "user"  # whose words a new text holds; a less trusted memory keeps its own


@dataclass(frozen=True, slots=True)
class Delete:
    """Archive a memory. With `into`, that memory replaces it and takes over its occurrences.

    `as_of` is the newest changeset known when this was decided: Conflict if the memory was changed since.
    """

    id: int
    reason: str = ""
    into: int | None = None
    as_of: int | None = None


@dataclass(frozen=True, slots=True)
class Merge:
    """Replace several memories with one fact: write the fact, archive the memories and link them to it.

    The new memory takes over their occurrences, retrieval counts and pin.
    """

    ids: tuple[int, ...]
    fact: Fact
    reason: str = ""
    as_of: int | None = None  # see Delete


@dataclass(frozen=True, slots=True)
class Adopt:
    """Store a memory from elsewhere unchanged: id (0 for a new one), times, state, lineage, counts and sightings."""

    memory: Memory
    sightings: tuple[Occurrence, ...] = ()  # excluding the first, which is the memory itself
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Restore:
    """Restore an archived memory."""

    id: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Noop:
    """Record another sighting of a fact that is already known."""

    id: int
    occurrence: Occurrence = Occurrence()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Purge:
    """Erase a memory permanently, including its text in the journal. The only decision that cannot be undone.

    If `viewer` is set (not the store owner), the text is erased only from records that this viewer owns or wrote.
    """

    id: int
    reason: str = ""
    viewer: Viewer | None = None


@dataclass(frozen=True, slots=True)
class Revert:
    """Restore a memory to its state before a change. Undo consists of these."""

    change_id: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PutRow:
    """Store a row of domain knowledge under its id, replacing an existing one. Identical content is a noop.

    `created_at` is kept. `stated_by` is the index, in the same `apply`, of the decision whose memory states the row in
    words. `as_of` is the `updated_at` of the row when this was decided, "" if there was no row: Conflict if it differs
    now.
    """

    row: Knowledge
    reason: str = ""
    stated_by: int | None = None
    as_of: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteRow:
    """Remove a row. Undo restores it."""

    table: Table
    id: str
    reason: str = ""
    as_of: str | None = None  # see PutRow


@dataclass(frozen=True, slots=True)
class PurgeRow:
    """Remove a row permanently, including its text in the journal."""

    table: Table
    id: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RevertRow:
    """Restore a row to its state before a change. Undo consists of these."""

    change_id: int
    reason: str = ""


MemoryDecision: TypeAlias = Add | Update | Edit | Delete | Merge | Adopt | Restore | Noop | Purge | Revert
RowDecision: TypeAlias = PutRow | DeleteRow | PurgeRow | RevertRow
Decision: TypeAlias = MemoryDecision | RowDecision


def to_plain(decision: Decision) -> dict[str, Any]:
    """Return a decision as JSON values for a dry run: action, memory IDs, reason, text."""
    values = {f.name: getattr(decision, f.name) for f in fields(decision)}
    fact = values.pop("fact", None) or values.pop("memory", None)
    details = {
        name: list(value) if name == "ids" else value
        for name, value in values.items()
        if name in ("id", "ids", "into", "reason") and value is not None
    }
    return {"action": type(decision).__name__.lower(), **details, **({"text": fact.text} if fact else {})}


def apply_edit(memory: Memory, changes: Mapping[str, Any], provenance: str = "user") -> Memory:
    """Return the memory with these fields changed and validated like a Fact; the store sets `updated_at`.

    `provenance` is that of a new text.
    """
    unknown = sorted(set(changes) - set(EDITABLE))
    if unknown:
        hint = f"Editable fields: {', '.join(EDITABLE)}."
        raise InvalidInput(f"{', '.join(unknown)} cannot be changed.", hint)
    updates = dict(changes)
    pinned = updates.pop("pinned", memory.pinned)
    check_bool(pinned, "pinned")
    if "kind" in updates and "category" not in updates:
        updates["category"] = ""  # derived from the new kind
    if updates.get("text", memory.text) != memory.text:
        updates["provenance"] = least_trusted(memory.provenance, provenance)
    fact = replace(fact_of(memory), **updates)
    same = {f.name: getattr(fact, f.name) for f in fields(Fact)}
    return replace(memory, **same, pinned=pinned)


def fact_of(memory: Memory) -> Fact:
    """Return the memory as a Fact, without its ID."""
    return Fact(**{f.name: getattr(memory, f.name) for f in fields(Fact)})


def same_place(one: Fact | Memory, other: Fact | Memory) -> bool:
    """Return whether project, audience and speaker allow the two to be the same memory.

    Within a project the source does not matter; outside projects memories are separated by source. Private memories of
    different owners are never merged, nor are memories of different teams.
    """
    return (
        one.project == other.project
        and (bool(one.project) or one.source == other.source)
        and audience(one) == audience(other)
        and one.speaker == other.speaker
    )


class HasOwner(Protocol):
    """Value with an owner and a visibility: a fact, a memory, an episode, a row of domain knowledge."""

    @property
    def agent(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def team(self) -> str: ...
    @property
    def visibility(self) -> str: ...


class HasSource(HasOwner, Protocol):
    """Value with an owner, a visibility and a source."""

    @property
    def source(self) -> str: ...


def audience(item: HasOwner) -> tuple[str, ...]:
    """Return a key for who may see it; values with equal keys are visible to the same viewers.

    Private values belong to their user, whichever agent recorded them, or to their agent if no user is set.
    """
    if item.visibility == "private":
        return ("private", "user", item.user) if item.user else ("private", "agent", item.agent)
    return (item.visibility, item.team) if item.visibility == "team" else (item.visibility,)


# ── changes (applied) ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Change of one memory in one changeset, as recorded in the journal."""

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
    near: tuple[Memory, ...] = ()  # of an add: memories that it may replace; not journalled
    redacted: tuple[str, ...] = ()  # kinds of the secrets removed from what was sent; not journalled

    @property
    def memory(self) -> Memory:
        """Return the memory after the change or, if the change removed it, before."""
        state = self.after or self.before
        if state is None:
            raise InvalidInput(
                f"Memory {self.memory_id} was purged.", "A purge erases the content permanently, so it cannot be shown."
            )
        return state

    def as_dict(self) -> dict[str, Any]:
        plain = {
            name: getattr(self, name)
            for name in ("id", "changeset", "action", "memory_id", "at", "by", "why", "reason")
        }
        plain["before"] = self.before.as_dict() if self.before else None
        plain["after"] = self.after.as_dict() if self.after else None
        return {**plain, "redacted": list(self.redacted)} if self.redacted else plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Changeset(JsonFields):
    """Record of one transaction: author, reason, time and all changes."""

    id: int
    at: str
    by: str
    why: str
    undoes: int | None = None
    undone_by: int | None = None
    part_of: int | None = None  # first changeset of its series
    changes: tuple[Change, ...] = ()
    knowledge: tuple[KnowledgeChange, ...] = ()  # changes to the domain knowledge tables

    def with_redacted(self, kinds: tuple[str, ...]) -> Changeset:
        """Return the changeset with the kinds of secrets that were removed noted on its changes."""
        if not kinds:
            return self
        changes = tuple(replace(change, redacted=kinds) for change in self.changes)
        return replace(
            self, changes=changes, knowledge=tuple(replace(change, redacted=kinds) for change in self.knowledge)
        )

    @property
    def actions(self) -> set[str]:
        """Return the different actions of its changes."""
        return {change.action for change in self.changes} | {change.action for change in self.knowledge}

    @property
    def takes_back(self) -> bool:
        """Return whether it did anything besides adding, so that copies of memories elsewhere may be outdated."""
        return not self.actions <= {"add", "noop"}


# ── read path ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Identity with restricted access: sees global memories, those of its team and its own private ones.

    With prefixes, only memories from sources at or below one of them are visible, matched by whole path segments. A
    viewer of None is the store owner, who sees everything.
    """

    agent: str = ""
    user: str = ""
    team: str = ""
    prefixes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("agent", "user", "team"):
            _fill(self, name, check_text(getattr(self, name), name, MAX_LABEL).strip())
        _fill(self, "prefixes", tuple(label.rstrip("/") for label in _check_labels(self.prefixes, "prefixes")))
        if not self.agent and not self.user:
            raise InvalidInput("A viewer has no name.", "Name the agent or the user.")
        if not all(self.prefixes):
            raise InvalidInput("A source prefix is empty.", "Omit it to allow every source.")

    def sees(self, item: HasSource) -> bool:
        """Return whether the viewer may see it. The store queries apply the same rule (`stores.scopes`)."""
        return self.reaches(item.source) and self.is_among(audience(item))

    def reaches(self, source: str) -> bool:
        """Return whether the source is allowed by the prefixes."""
        return not self.prefixes or any(source == prefix or source.startswith(prefix + "/") for prefix in self.prefixes)

    def below(self, source: str) -> str:
        """Return the source if it is allowed, else the same source below the first prefix.

        For callers that cannot choose a source.
        """
        return source if self.reaches(source) else f"{self.prefixes[0]}/{source}"[:MAX_LABEL]

    def is_among(self, key: tuple[str, ...]) -> bool:
        """Return whether the viewer belongs to an audience, as returned by `audience`."""
        whose, last = key[0], key[-1]
        if whose == "private":
            return last != "" and last == (self.user if key[1] == "user" else self.agent)
        return whose == "global" or last == self.team

    def owns(self, item: HasOwner) -> bool:
        """Return whether the viewer is the owner, who may change the visibility."""
        return item.user == self.user if item.user else item.agent == self.agent != ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Filter on memories. Empty fields do not filter; archived memories are excluded by default."""

    source: str | None = None  # exactly this source
    source_prefix: str = ""  # this source and those below it, by whole path segments
    project: str | None = None  # exactly this project; "" for memories without one
    visible_in: str | None = None  # relevant in this project: its own, without a project, or global
    category: str = ""
    kind: str = ""
    method: str = ""
    tags: tuple[str, ...] = ()  # must have all of them
    session: str = ""
    agent: str = ""
    user: str | None = None  # exactly this user; "" for memories without one
    team: str | None = None  # exactly this team
    visibility: tuple[str, ...] = ()  # any of them
    since: str = ""
    until: str = ""
    pinned: bool | None = None
    include_archived: bool = False
    viewer: Viewer | None = None  # only what this viewer may see; None for everything

    def __post_init__(self) -> None:
        for name, choices in (("category", CATEGORIES), ("kind", KINDS), ("method", METHODS)):
            if getattr(self, name):
                _check_choice(getattr(self, name), choices, name)
        for name in ("source_prefix", "session", "agent"):
            check_text(getattr(self, name), name, MAX_LABEL)
        for name in ("source", "project", "visible_in", "user", "team"):
            if getattr(self, name) is not None:
                check_text(getattr(self, name), name, MAX_LABEL)
        _fill(self, "tags", _check_labels(self.tags, "tags"))
        _fill(self, "visibility", _check_labels(self.visibility, "visibility"))
        for visibility in self.visibility:
            _check_choice(visibility, VISIBILITIES, "visibility")
        for name in ("since", "until"):
            if getattr(self, name) != "":
                _fill(self, name, to_utc_iso(getattr(self, name)))
        check_bool(self.include_archived, "include_archived")
        if self.pinned is not None:
            check_bool(self.pinned, "pinned")

    @property
    def narrows(self) -> bool:
        """Return whether it filters at all, apart from archived memories."""
        return self not in _EVERYTHING

    def contains(self, memory: Memory) -> bool:
        """Return whether a memory passes this filter."""
        prefix = self.source_prefix.rstrip("/")
        exact = all(
            getattr(self, name) in (None, getattr(memory, name)) for name in ("source", "project", "user", "team")
        )
        labels = all(
            getattr(self, name) in ("", getattr(memory, name))
            for name in ("category", "kind", "method", "session", "agent")
        )
        return (
            (self.include_archived or not memory.archived)
            and exact
            and labels
            and (self.viewer is None or self.viewer.sees(memory))
            and (self.visible_in is None or memory.project in (self.visible_in, "") or memory.visibility == "global")
            and (not prefix or f"{memory.source}/".startswith(prefix + "/"))
            and set(self.tags) <= set(memory.tags)
            and (not self.visibility or memory.visibility in self.visibility)
            and (not self.since or memory.created_at >= self.since)
            and (not self.until or memory.created_at <= self.until)
            and self.pinned in (None, memory.pinned)
        )


_EVERYTHING = (Scope(), Scope(include_archived=True))


def merge_scope(fact: Fact | Memory) -> Scope:
    """Return a scope of memories that may be merged with this one: `same_place` except for the speaker."""
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
    """Search request. `threshold` is the minimum cosine similarity and `min_score` the minimum fused score of a hit."""

    text: str
    k: int = 5
    skip: int = 0  # number of best hits to skip; pages with the same k are contiguous
    hybrid: bool = True
    threshold: float = -1.0  # the lowest possible cosine
    min_score: float = 0.0
    explain: bool = False
    log: bool = True  # count hits as recalled; False for browsing
    rerank: bool = True  # re-rank the best hits, if a re-ranker is configured
    scope: Scope = Scope()

    def __post_init__(self) -> None:
        _fill(self, "text", check_text(self.text, "query", MAX_TEXT))
        if not self.text.strip():
            raise InvalidInput("The query is empty.", "Describe what to look for.")
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 1 <= self.k <= MAX_HITS:
            raise InvalidInput(f"The number of hits, k, is {self.k!r}.", f"Give a whole number from 1 to {MAX_HITS}.")
        check_int(self.skip, "skip", least=0, most=MAX_HITS)
        if not isinstance(self.scope, Scope):
            raise InvalidInput(f"scope must be a Scope, not {type(self.scope).__name__}.", "Give cofio.Scope(…).")
        for name in ("hybrid", "explain", "log", "rerank"):
            check_bool(getattr(self, name), name)
        _fill(self, "threshold", check_fraction(self.threshold, "threshold", least=-1.0))
        _fill(self, "min_score", check_fraction(self.min_score, "min_score"))


class ScopeKwargs(TypedDict, total=False):
    """Keyword arguments for the fields of a Scope."""

    source: Annotated[str | None, Doc("Only entries of exactly this source.")]
    source_prefix: Annotated[str, Doc("Only entries of this source and those below it.")]
    project: Annotated[str | None, Doc("Only entries of exactly this project; empty: without a project.")]
    visible_in: Annotated[
        str | None, Doc("Only entries relevant in this project: its own, those without a project, and global ones.")
    ]
    category: Annotated[str, Doc("How long it stays relevant.", CATEGORIES)]
    kind: Annotated[str, Doc("Kind of fact.", KINDS)]
    method: Annotated[str, Doc("Extraction method.", METHODS)]
    tags: Annotated[Sequence[str], Doc("Only entries with all these tags.")]
    session: str
    agent: str
    user: Annotated[str | None, Doc("Only entries of exactly this user; empty: without a user.")]
    team: Annotated[str | None, Doc("Only entries of exactly this team.")]
    visibility: Annotated[Sequence[str], Doc("Only entries with one of these visibilities.")]
    since: Annotated[Timestamp, Doc("Only entries created at this time or later.")]
    until: Annotated[Timestamp, Doc("Only entries created at this time or earlier.")]
    pinned: bool | None
    include_archived: bool
    viewer: Viewer | None


class QueryKwargs(ScopeKwargs, total=False):
    """Keyword arguments for the fields of a Query other than its text, and of its Scope."""

    k: Annotated[int, Doc("Maximum number of hits.", least=1, most=MAX_HITS)]
    skip: Annotated[int, Doc("Number of best hits to skip.", least=0, most=MAX_HITS)]
    hybrid: Annotated[bool, Doc("Rank by words too (BM25), not only by the similarity of vectors.")]
    threshold: Annotated[float, Doc("Minimum cosine similarity of a hit.", least=-1, most=1)]
    min_score: Annotated[float, Doc("Minimum score of a hit.", least=0, most=1)]
    explain: Annotated[bool, Doc("Explain the rank of each hit.")]
    log: Annotated[bool, Doc("Count the hits as recalled; give false when a person browses.")]
    rerank: bool
    scope: Scope


@dataclass(frozen=True, slots=True)
class Briefing:
    """Injected context block: the text, and per memory a digest of the words it was given in.

    Domain knowledge is included under negative ids; its sentences are in `exact`.
    """

    text: str = ""
    injected: Mapping[int, str] = field(default_factory=dict)
    tokens: int = 0
    exact: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text)

    @property
    def ids(self) -> tuple[int, ...]:
        """Return the ids of the memories in it."""
        return tuple(memory_id for memory_id in self.injected if memory_id > 0)


class Candidate(NamedTuple):
    """Raw store result: an id and a cosine or BM25 score (higher is better), before ranking."""

    id: int
    score: float


@dataclass(frozen=True, slots=True)
class Matching:
    """Keyword matches of a store, and the approximate score of a text that contains every query word."""

    candidates: tuple[Candidate, ...]
    ideal: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Explanation of a hit's rank: rank and share in both rankings, and the matched words."""

    vector_rank: int | None
    vector_share: float
    keyword_rank: int | None
    keyword_share: float
    bm25: float
    words: tuple[str, ...]
    formula: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Memory that matches a query. `similarity` is the true cosine, `keyword` the keyword score from 0 to 1."""

    memory: Memory
    score: float
    similarity: float
    keyword: float
    match_type: MatchType
    why: Explanation | None = None
    freshness: str = ""  # state of the referenced code: fresh, changed, vanished; "" if unknown
    stale: tuple[str, ...] = ()  # human-readable: each reference that changed or vanished

    @property
    def id(self) -> int:
        return self.memory.id

    @property
    def text(self) -> str:
        return self.memory.text

    @property
    def strength(self) -> Strength:
        """Return the strength by score: most strong hits answer the query, few weak ones do."""
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


def is_poor_match(hits: Sequence[Hit]) -> bool:
    """Return whether there are hits, and all of them are weak."""
    return bool(hits) and all(hit.strength == "weak" for hit in hits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Novelty:
    """Result of a novelty check: whether the text is new and, if not, the matching memory."""

    novel: bool
    similarity: float
    match: Memory | None
    reason: str


@dataclass(frozen=True, slots=True)
class Page:
    """Page of a listing; `next` is the cursor of the next page, None at the end."""

    memories: tuple[Memory, ...]
    next: int | None
    total: int


class Project(NamedTuple):
    """Project with its number of live memories."""

    name: str
    memories: int


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Log entry: a memory was returned for a query to a caller."""

    memory_id: int
    query: str
    caller: str
    at: str


# ── conversion of arguments ──────────────────────────────────────────────────────────────────────────────────────────


def as_fact(fact: str | Fact, about: Mapping[str, Any]) -> Fact:
    """Build a Fact from a text and fields, or return the given Fact with these fields replaced."""
    known_fields(about, Fact, "fact")
    if isinstance(fact, Fact):
        return replace(fact, **about) if about else fact
    return Fact(text=fact, **about)


def as_query(query: str | Query, options: Mapping[str, Any]) -> Query:
    """Build a Query from a text and fields of Query and Scope, or return the given Query with these replaced."""
    scope_fields = {name: value for name, value in options.items() if name in Scope.__dataclass_fields__}
    query_fields = {name: value for name, value in options.items() if name not in scope_fields}
    known_fields(query_fields, Query, "query")
    if scope_fields and "scope" in query_fields:
        raise InvalidInput(
            "The scope was given twice.", "Give either `scope` or its fields, such as `project`, not both."
        )
    if isinstance(query, Query):
        scope = replace(query.scope, **scope_fields)
        return replace(query, **{"scope": scope, **query_fields})
    return Query(text=query, **{"scope": Scope(**scope_fields), **query_fields})


def as_scope(within: Mapping[str, Any]) -> Scope:
    """Build a scope from its fields."""
    known_fields(within, Scope, "scope")
    return Scope(**within)


def known_fields(values: Mapping[str, Any], kind: type[Fact] | type[Query] | type[Scope], name: str) -> None:
    """Raise InvalidInput for names that are not fields of the type."""
    known = FACT_FIELDS if kind is Fact else tuple(kind.__dataclass_fields__)
    unknown = sorted(values.keys() - set(known))
    if unknown:
        raise InvalidInput(f"A {name} has no field {', '.join(unknown)}.", f"Fields: {', '.join(known)}.")
