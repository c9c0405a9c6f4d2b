"""Request types: structs derived from the model's keyword arguments and from the keeper's methods.

Types and number ranges are checked while parsing; contents of texts are checked by the model types.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING
from datetime import datetime
from functools import reduce
from operator import or_
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct

from cofio.errors import InvalidInput, NotFound
from cofio.maintenance import bulk
from cofio.models import memory as models_memory
from cofio.models.auth import ROLES, Grant
from cofio.models.dashboard import MOST_DOTS
from cofio.models.domain_knowledge import DIRECTIONS, PERIODS, RELATIONS, VERDICTS
from cofio.models.exchange import Exchange, ExchangeKwargs
from cofio.models.maintenance import PROPOSED
from cofio.models.memory import (
    EDITABLE,
    MAX_LABEL,
    MAX_PAGE,
    VISIBILITIES,
    Doc,
    EditKwargs,
    Fact,
    FactKwargs,
    Query,
    QueryKwargs,
    Scope,
    ScopeKwargs,
    check_text,
    to_utc_iso,
)

MAX_QUERIES = 100
MAX_MEMORIES = 1_000
#: Fields that are times: ISO 8601, or seconds or milliseconds since 1970.
TIMES = ("since", "until", "at", "created_at", "timestamp")
#: Fields with words of a conversation, which may contain any character.
CONVERSATIONS = frozenset({"prompt", "messages", "validated_intent", "response"})
Time = str | int | float


def doc(description: str, allowed: Iterable[str] = ()) -> Any:
    """Return the description of a field, with its allowed values."""
    return Meta(description=description, extra_json_schema={"enum": list(allowed)} if allowed else None)


def optional_time(description: str) -> Any:
    """Return the type of a time that may be omitted."""
    return Annotated[Time, doc(description)] | UnsetType


Id = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Share = Annotated[float, Meta(ge=0, le=1)]
After = Annotated[Id, doc("The value `next` of the previous page.")]
Visibility = Annotated[str, doc("Who else may see it besides its owner.", VISIBILITIES)]
Why = Annotated[str, doc("Reason for the change, shown in the history.")]
Deduplicated = Annotated[bool, doc("Log a known fact as seen again instead of storing it twice.")]
KeepsSecret = Annotated[bool, doc("With an admin key: store secrets as they are instead of redacting them.")]
DryRun = Annotated[bool, doc("Only preview what would be done.")]
Limit = Annotated[int, Meta(ge=1, le=MAX_PAGE)]
#: Types of parameters of the keeper's methods, unless an operation declares another one.
_PARAMETERS: Mapping[str, Any] = {"limit": Limit, "why": Why, "dry_run": DryRun}
_INTERNAL = ("self", "by", "entry", "progress")  # parameters that no request has
_Model = TypeVar("_Model", bound="RequestModel")
_Entry = TypeVar("_Entry")
_Value = TypeVar("_Value")


class RequestModel(Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of all request structs."""

    def __post_init__(self) -> None:
        """Refuse NUL, which no store can hold. msgspec adds the place to the error."""
        for name in set(self.__struct_fields__) - CONVERSATIONS:
            value = getattr(self, name)
            if any(isinstance(text, str) and "\0" in text for text in (value if isinstance(value, list) else (value,))):
                raise ValueError(f"`{name}` contains a NUL character")

    def arguments(self) -> dict[str, Any]:
        """Return the arguments for the keeper's method, besides the names in the path."""
        return self.sent_fields()

    def sent_fields(self, names: Iterable[str] | None = None) -> dict[str, Any]:
        """Return the sent ones of these fields, or of all; times are normalized."""
        values = {name: getattr(self, name, UNSET) for name in (self.__struct_fields__ if names is None else names)}
        sent = {name: value for name, value in values.items() if value is not UNSET}
        for name in TIMES:
            if sent.get(name, "") != "":
                with error_location(name):
                    sent[name] = to_utc_iso(sent[name])
        if "why" in sent:
            sent["why"] = self.reason()
        return sent

    def reason(self) -> str:
        """Return the `why` field, if there is one."""
        return check_text(getattr(self, "why", ""), "why", MAX_LABEL)


# ── derivation ────────────────────────────────────────────────────────────────────────────────────────────────────────


def with_fields_of(
    kwargs: type, *, omit: Iterable[str] = (), defaults: type | None = None
) -> Callable[[type[_Model]], type[_Model]]:
    """Return a class decorator that adds the keyword arguments of a typed dictionary as optional fields.

    Without `defaults`, a dataclass, a field that is not sent is UNSET.
    """
    hints = {name: hint for name, hint in get_type_hints(kwargs, include_extras=True).items() if name not in omit}
    known = defaults.__dataclass_fields__ if defaults else {}  # type: ignore[attr-defined]

    def decorate(model: type[_Model]) -> type[_Model]:
        declared = [_declare(name, hint, known[name].default if known else None) for name, hint in hints.items()]
        return _define(model.__name__, declared, model)

    return decorate


def request_of(method: Callable[..., Any], types: Mapping[str, Any], ids: int = 0) -> type[RequestModel] | None:
    """Return the request of a method of the keeper: its parameters, with `types` for descriptions and limits.

    The first `ids` parameters come from the path. None if no parameters are left.
    """
    hints = get_type_hints(method, include_extras=True)
    parameters = [
        parameter
        for name, parameter in inspect.signature(method).parameters.items()
        if name not in _INTERNAL and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ][ids:]
    if [parameter.name for parameter in parameters] == ["why"]:
        return ReasonRequest
    declared = []
    for parameter in parameters:
        name, default = parameter.name, parameter.default
        hint = types.get(name, _PARAMETERS.get(name, hints[name]))
        hint = Annotated[hints[name], hint] if isinstance(hint, Doc) else hint
        declared.append(_declare(name, hint, MISSING if default is parameter.empty else default))
    title = "".join(part.capitalize() for part in method.__name__.strip("_").split("_"))
    return _define(f"{title}Request", declared, RequestModel, kw_only=True) if declared else None


def _define(name: str, declared: Sequence[Any], base: type[_Model], *, kw_only: bool = False) -> type[_Model]:
    namespace = {"__doc__": base.__doc__}
    defined: Any = defstruct(
        name, declared, bases=(base,), namespace=namespace, kw_only=kw_only, forbid_unknown_fields=True
    )
    return cast(type[_Model], defined)


def _declare(name: str, hint: Any, default: Any) -> tuple[Any, ...]:
    """Return a struct field. The default None, and that of times, is UNSET; MISSING makes the field required."""
    kind = _json_type(hint)
    if default is MISSING:
        return name, kind
    if default is None or UnsetType in get_args(kind) or (name in TIMES and get_args(kind)):
        return name, kind | UnsetType, UNSET
    return name, kind, list(default) if isinstance(default, tuple) else default


def _json_type(hint: Any) -> Any:
    """Return the JSON type of a parameter: without None, which is an omitted field, and without datetime."""
    origin = get_origin(hint)
    if origin is Annotated:
        kind, doc = get_args(hint)[:2]
        if not isinstance(doc, Doc):
            return hint
        enum = {"enum": list(doc.choices)} if doc.choices else None
        return Annotated[
            _json_type(kind), Meta(description=doc.text or None, ge=doc.least, le=doc.most, extra_json_schema=enum)
        ]
    if origin in (Union, UnionType):
        return reduce(or_, (_json_type(part) for part in get_args(hint) if part not in (NoneType, datetime)))
    if origin in (Sequence, tuple, list):
        return list[_json_type(get_args(hint)[0])]  # type: ignore[misc]
    return dict[str, Any] if origin is Mapping else hint


# ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class EmptyRequest(RequestModel):
    """Empty body."""


class PageLinkRequest(RequestModel):
    code: Annotated[str, doc("Code of the link.")] = ""
    page: Annotated[str, doc("Page to open, by its name; default: the first.")] = ""


class ReasonRequest(RequestModel):
    why: Why = ""


@with_fields_of(ScopeKwargs, omit=("viewer",))
class ScopeFields(RequestModel):
    """Filter fields; omitted fields do not filter."""


@with_fields_of(QueryKwargs, omit=(*ScopeKwargs.__annotations__, "rerank", "scope"), defaults=Query)
class SearchRequest(ScopeFields, kw_only=True):
    query: Annotated[str, doc("Search text.")]

    def as_query(self) -> Query:
        return Query(text=self.query, scope=Scope(**self.sent_fields(_SCOPE)), **self.sent_fields(_QUERY))


class RecallRequest(RequestModel):
    prompt: Annotated[str, doc("The user's prompt; empty at the start of a session.")] = ""
    project: Annotated[str, doc("Current project: the path of its working tree, or a name.")] = ""
    k: (
        Annotated[
            int,
            Meta(ge=1, le=50, description="Maximum number of memories; default 5, or all that fit if prompt is empty."),
        ]
        | None
    ) = None
    client: Annotated[str, doc("The calling client, such as claude-code.")] = ""
    session: Annotated[str, doc("The calling session: memories learned in it are left out.")] = ""


class SearchAllRequest(RequestModel, kw_only=True):
    entry_type: ClassVar[type[RequestModel]] = SearchRequest
    queries: Annotated[list[SearchRequest | str], Meta(min_length=1, max_length=MAX_QUERIES)]

    def as_queries(self) -> list[Query]:
        return _convert(
            "queries", self.queries, lambda query: Query(text=query) if isinstance(query, str) else query.as_query()
        )


@with_fields_of(FactKwargs, omit=("anchors",))
class FactFields(RequestModel):
    """Fields of a fact besides its text."""

    timestamp: Annotated[Time, doc("Alias of created_at.")] | UnsetType = UNSET

    def fact_fields(self) -> dict[str, Any]:
        """Return the sent fields of a Fact."""
        sent = self.sent_fields((*_FACT, "timestamp"))
        if "timestamp" in sent and "created_at" in sent:
            raise InvalidInput("created_at and timestamp are the same field.", "Send one of them.")
        if "timestamp" in sent:
            sent["created_at"] = sent.pop("timestamp")
        return sent


class AddItemRequest(FactFields, kw_only=True):
    text: Annotated[str, doc("The fact, as a sentence.")]

    def as_fact(self) -> Fact:
        return Fact(text=self.text, **self.fact_fields())


class AddRequest(AddItemRequest):
    deduplicate: Deduplicated = True
    keep_secret: KeepsSecret = False
    why: Why = ""

    def arguments(self) -> dict[str, Any]:
        options = {"dedup": self.deduplicate, "keep_secret": self.keep_secret, "why": self.reason()}
        return {"fact": self.as_fact(), **options}


class AddAllRequest(RequestModel, kw_only=True):
    entry_type: ClassVar[type[RequestModel]] = AddItemRequest
    memories: Annotated[list[AddItemRequest], Meta(min_length=1, max_length=MAX_MEMORIES)]
    deduplicate: Deduplicated = True
    keep_secret: KeepsSecret = False
    why: Why = ""

    def arguments(self) -> dict[str, Any]:
        facts = _convert("memories", self.memories, AddItemRequest.as_fact)
        options = {"dedup": self.deduplicate, "keep_secret": self.keep_secret, "why": self.reason()}
        return {"facts": facts, **options}


@with_fields_of(EditKwargs, omit=("anchors",))
class EditFields(RequestModel):
    """Fields that can be changed in place."""

    def changes(self) -> dict[str, Any]:
        sent = self.sent_fields(EDITABLE)
        if not sent:
            raise InvalidInput("No field to change was given.", f"Send any of: {', '.join(EDITABLE)}.")
        return sent


class EditRequest(EditFields):
    keep_secret: KeepsSecret = False
    why: Why = ""

    def arguments(self) -> dict[str, Any]:
        return {"why": self.reason(), "keep_secret": self.keep_secret, **self.changes()}


class BulkRequest(RequestModel, kw_only=True):
    ids: Annotated[list[Id], Meta(min_length=1, max_length=bulk.MOST)]
    action: Annotated[str, doc("Action for all the memories.", bulk.ACTIONS)]
    changes: (
        Annotated[EditFields, Meta(description="New values for the action edit; the text cannot be edited in bulk.")]
        | UnsetType
    ) = UNSET
    tags: Annotated[list[str], doc("Tags to add or remove, for the actions tag and untag.")] = []
    why: Why = ""

    def arguments(self) -> dict[str, Any]:
        sent = self.sent_fields()
        return {**sent, "changes": {} if self.changes is UNSET else self.changes.changes()}


class FlushRequest(FactFields, kw_only=True):
    summary: Annotated[str, doc("Summary to store, as Markdown.")]

    def arguments(self) -> dict[str, Any]:
        return {"summary": self.summary, **self.fact_fields()}


class IndexNotesRequest(RequestModel):
    folder: Annotated[str, doc("Absolute path of a folder on the service's machine; default: the notes folder.")] = ""
    label: Annotated[str, doc("Name of the folder in the sources of its memories; default: the folder's name.")] = ""
    dry_run: DryRun = False

    def arguments(self) -> dict[str, Any]:
        return {**self.sent_fields(), "folder": _check_folder(self.folder) if self.folder else None}


class ExportNotesRequest(ScopeFields, kw_only=True):
    folder: Annotated[str, doc("Absolute path of a folder on the service's machine.")]

    def arguments(self) -> dict[str, Any]:
        return {**self.sent_fields(), "folder": _check_folder(self.folder)}


class DeleteRequest(RequestModel):
    purge: Annotated[bool, doc("Erase it permanently, from the history too.")] = False
    why: Why = ""


class SupersedeRequest(FactFields, kw_only=True):
    old_id: Id
    new_text: Annotated[str, doc("New fact, as a sentence.")]
    why: Why = ""

    def arguments(self) -> dict[str, Any]:
        return {"old_id": self.old_id, "new": self.new_text, "why": self.reason(), **self.fact_fields()}


class IsNovelRequest(ScopeFields, kw_only=True):
    text: str
    speaker: str = ""
    threshold: (
        Annotated[Share, doc("Minimum cosine similarity to a memory at which the text may be known already.")]
        | UnsetType
    ) = UNSET

    def arguments(self) -> dict[str, Any]:
        fact = Fact(text=self.text, speaker=self.speaker)
        return {"fact": fact, **self.sent_fields((*_SCOPE, "threshold"))}


class DeduplicateRequest(RequestModel):
    threshold: (
        Annotated[Share, doc("Minimum cosine similarity at which two memories may be duplicates.")] | UnsetType
    ) = UNSET
    source_prefix: str = ""
    dry_run: DryRun = True
    why: Why = ""


class ApprovedDecision(RequestModel, kw_only=True, rename={"why": "reason"}):
    """Decision of a dry run, as returned by it."""

    action: Literal["merge", "delete"]
    id: Annotated[Id, doc("For delete: the memory to archive.")] | UnsetType = UNSET
    ids: Annotated[list[Id], doc("For merge: the memories to archive.")] | UnsetType = UNSET
    into: Annotated[Id, doc("For delete: the memory that replaces it.")] | UnsetType = UNSET
    text: Annotated[str, doc("For merge: the merged text.")] | UnsetType = UNSET
    why: Why = ""

    def as_decision(self) -> models_memory.Decision:
        names = ("ids", "text") if self.action == "merge" else ("id", "into")
        sent = self.sent_fields(("id", "ids", "into", "text"))
        if not set(names) - {"into"} <= sent.keys() <= set(names):
            raise InvalidInput(
                f"The fields do not fit the action {self.action!r}.", f"Fields of {self.action}: {', '.join(names)}."
            )
        why = check_text(self.why, "reason", models_memory.MAX_TEXT)
        if self.action == "merge":
            return models_memory.Merge(tuple(sent["ids"]), Fact(text=sent["text"]), why)
        return models_memory.Delete(sent["id"], why, sent.get("into"))


class ApproveRequest(RequestModel, kw_only=True):
    entry_type: ClassVar[type[RequestModel]] = ApprovedDecision
    chore: Annotated[str, doc("Maintenance task that proposed the decisions.", PROPOSED)]
    as_of: Annotated[int, Meta(ge=0, description="The value `as_of` of the dry run that returned the decisions.")]
    decisions: Annotated[list[ApprovedDecision], Meta(min_length=1, max_length=MAX_MEMORIES)]
    why: Why = ""

    def arguments(self) -> dict[str, Any]:
        decisions = _convert("decisions", self.decisions, ApprovedDecision.as_decision)
        return {**self.sent_fields(), "decisions": decisions}


class UsageRequest(ScopeFields):
    view: Annotated[
        Literal["never", "most", "stale"],
        doc("Memories to list: never recalled, recalled most, or stale: not recalled for `days` days."),
    ] = "most"
    days: Annotated[int, Meta(ge=0, le=36_500, description="Days without a recall, for the view stale.")] = 90
    limit: Limit = 50


class ExportRequest(RequestModel):
    vectors: Annotated[bool, doc("Whether to include the vectors.")] = False


class ListingRequest(ScopeFields):
    limit: Limit = 50
    after: After | UnsetType = UNSET
    skip: Annotated[int, Meta(ge=0, le=2**62, description="Number of memories to skip.")] = 0


class MapRequest(ScopeFields):
    limit: Annotated[int, Meta(ge=1, le=MOST_DOTS, description="Maximum number of memories, newest first.")] = MOST_DOTS


class DeleteAllRequest(RequestModel, kw_only=True):
    source: Annotated[
        str, doc("Source of the memories; includes the sources below it, such as claude/web below claude.")
    ]
    dry_run: DryRun = True
    why: Why = ""

    def prefix(self) -> str:
        """Return the source. Raise if it is empty, as an empty prefix would match everything."""
        if not self.source.strip().strip("/"):
            raise InvalidInput("The source is empty.", "Name the source whose memories are to be archived.")
        return self.source


@with_fields_of(ExchangeKwargs, omit=("reach", "by_key", "series", "context"), defaults=Exchange)
class ExchangeFields(RequestModel):
    """Fields of an exchange besides its messages."""

    dry_run: Annotated[bool, doc("Only preview what would be learned.")] = False

    def exchange_fields(self) -> dict[str, Any]:
        """Return the sent fields of an Exchange, besides the messages."""
        sent = self.sent_fields(_EXCHANGE)
        return {**sent, "injected": tuple(sent["injected"])}


@with_fields_of(
    ExchangeKwargs, omit=[name for name in ExchangeKwargs.__annotations__ if name != "context"], defaults=Exchange
)
class MessagesBody(ExchangeFields, kw_only=True):
    """Messages with their context."""

    messages: Annotated[str | list[dict[str, Any]], doc("A text, or messages with role and content, oldest first.")]


class CaptureRequest(MessagesBody, kw_only=True):
    wait: Annotated[bool, doc("Learn from it now, and return the result.")] = False
    series: Annotated[
        int, Meta(ge=0), doc("The `series` that POST /backfills returned; 0 if the capture is in no backfill.")
    ] = 0


class ObserveRequest(ExchangeFields, kw_only=True):
    validated_intent: Annotated[str, doc("The user's intent, as the observing agent understood it.")] = ""
    response: Annotated[str, doc("The response in the observed dialogue. Its facts are kept as the agent's words.")]
    session: Annotated[str, doc("Id of the observed activity or session.")] = ""
    dialogue: Annotated[
        str, doc("Name of the dialogue within the session; the same name is captured once. Another name for turn.")
    ] = ""
    visibility: Visibility = "team"
    wait: Annotated[bool, doc("Learn from it now, and return the result.")] = False

    def exchange_fields(self) -> dict[str, Any]:
        sent = ExchangeFields.exchange_fields(self)
        if self.dialogue and sent["turn"]:
            raise InvalidInput("dialogue and turn are the same field.", "Send one of them.")
        return {**sent, "turn": self.dialogue or sent["turn"]}


class ExtractRequest(MessagesBody, kw_only=True, rename={"later": "async"}):
    later: Annotated[bool, doc("Return a job at once; fetch the result later.")] = False


class OwnerFields(RequestModel):
    """Owner and place of a domain knowledge row."""

    place: Annotated[str, doc("Source of the memories that state the row: client/project.")] | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    user: Annotated[str, doc("User who owns the row.")] | UnsetType = UNSET
    team: Annotated[str, doc("Team of the owner.")] | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET


class NewKnowledgeRequest(OwnerFields):
    """Fields of a domain knowledge row; which are allowed and required depends on the table."""

    id: Annotated[str, doc("Id within the table; default: derived from the content.")] | UnsetType = UNSET
    confidence: Annotated[Share, doc("New confidence; default: unchanged, initially 0.5.")] | UnsetType = UNSET
    pattern: (
        Annotated[str, doc("What tends to happen, in words; for the tables patterns and seasonal.")] | UnsetType
    ) = UNSET
    source: Annotated[str, doc("Where it is observed: a market, a host, a sensor; * is any.")] | UnsetType = UNSET
    source_a: Annotated[str, doc("First side of a correlation.")] | UnsetType = UNSET
    source_b: Annotated[str, doc("Second side of a correlation.")] | UnsetType = UNSET
    rule: Annotated[str, doc("How both sides are related, in words.")] | UnsetType = UNSET
    relation: Annotated[str, doc("Whether one side moves before the other.", RELATIONS)] | UnsetType = UNSET
    inverse: Annotated[bool, doc("Whether the other side falls when one side rises.")] | UnsetType = UNSET
    metric: Annotated[str, doc("Metric of a threshold: volume, latency.")] | UnsetType = UNSET
    value: Annotated[float, doc("Value of the threshold.")] | UnsetType = UNSET
    direction: Annotated[str, doc("Side of the value on which the threshold triggers.", DIRECTIONS)] | UnsetType = UNSET
    inclusive: Annotated[bool, doc("Whether a measurement equal to the value triggers the threshold.")] | UnsetType = (
        UNSET
    )
    unit: Annotated[str, doc("Unit of the value: %, ms, GB, $.")] | UnsetType = UNSET
    period: Annotated[str, doc("Period of recurrence.", PERIODS)] | UnsetType = UNSET
    during: Annotated[str, doc("When in the period: mon-fri, 09:30-16:00, a cron expression.")] | UnsetType = UNSET
    lasts: (
        Annotated[int, Meta(ge=1, description="Minutes that each occurrence of a cron expression lasts.")] | UnsetType
    ) = UNSET
    timezone: Annotated[str, doc("Time zone of `during`.")] | UnsetType = UNSET
    memory: Annotated[Id, doc("Id of the memory that states the row.")] | UnsetType | None = UNSET
    created_at: Annotated[Time, doc("When the row was first known; ignored if the row exists.")] | UnsetType = UNSET
    why: Why = ""


class NewVerdictRequest(OwnerFields, kw_only=True):
    anomaly: Annotated[str, doc("Name of the judged anomaly; a later verdict on it replaces this one.")]
    verdict: Annotated[str, doc("The verdict.", VERDICTS)]
    note: Annotated[str, doc("Result of the investigation.")] = ""
    about: Annotated[list[str], doc("Rows that raised the anomaly, such as thresholds/aapl.volume.above.")] = []
    process: Annotated[bool, doc("Adjust the confidence of these rows now; otherwise only store the verdict.")] = True
    id: Annotated[str, doc("Id of the verdict; default: derived from the anomaly.")] | UnsetType = UNSET
    why: Why = ""


class RowListingRequest(OwnerFields):
    """Filter fields of a table; omitted fields do not filter."""

    limit: Limit = 50
    after: Annotated[str, doc("The value `next` of the previous page.")] | UnsetType = UNSET


class KnowledgeListingRequest(RowListingRequest):
    min_confidence: Annotated[Share, doc("Minimum confidence of a row.")] = 0.0
    source: Annotated[str, doc("Only this source.")] | UnsetType = UNSET
    source_a: str | UnsetType = UNSET
    source_b: str | UnsetType = UNSET
    relation: Annotated[str, doc("Only this relation.", RELATIONS)] | UnsetType = UNSET
    metric: Annotated[str, doc("Only this metric.")] | UnsetType = UNSET
    direction: Annotated[str, doc("Only this direction.", DIRECTIONS)] | UnsetType = UNSET
    unit: str | UnsetType = UNSET
    period: Annotated[str, doc("Only this period.", PERIODS)] | UnsetType = UNSET
    memory: Annotated[Id, doc("Only rows that the memory with this id states.")] | UnsetType = UNSET


class FeedbackListingRequest(RowListingRequest):
    anomaly: str | UnsetType = UNSET
    verdict: Annotated[str, doc("Only these verdicts.", VERDICTS)] | UnsetType = UNSET
    processed: (
        Annotated[bool, doc("Only verdicts that were applied to the rows they judge (true), or were not yet (false).")]
        | UnsetType
    ) = UNSET

    def arguments(self) -> dict[str, Any]:
        return {"table": "feedback", **self.sent_fields()}


class NewKeyRequest(RequestModel, kw_only=True):
    name: Annotated[str, doc("Name of the key: its holder or purpose.")]
    role: Annotated[str, doc("What the key allows.", ROLES)] = "write"
    agent: Annotated[str, doc("Agent that the key is bound to; default: any.")] = ""
    user: Annotated[str, doc("User that the key is bound to; default: any.")] = ""
    team: Annotated[str, doc("The user's team.")] = ""
    prefixes: Annotated[
        list[str], doc("Sources that the key may see and write, including those below; default: all.")
    ] = []
    expires_at: Annotated[Time, doc("When the key expires; default: never.")] | None = None

    def arguments(self) -> dict[str, Any]:
        expires = None if self.expires_at is None else to_utc_iso(self.expires_at)
        return {"grant": Grant(**{**self.sent_fields(), "prefixes": tuple(self.prefixes), "expires_at": expires})}


class DoctorRequest(RequestModel):
    about: Annotated[
        Literal["everything", "clients"], doc("What to check: everything, or only the hooks of the clients.")
    ] = "everything"


_EXCHANGE = tuple(name for name in Exchange.__dataclass_fields__ if name != "messages")
_SCOPE = tuple(name for name in Scope.__dataclass_fields__ if name != "viewer")  # set by the service
_QUERY = tuple(name for name in Query.__dataclass_fields__ if name not in ("text", "scope"))
_FACT = tuple(name for name in Fact.__dataclass_fields__ if name != "text")


def _convert(name: str, entries: Sequence[_Entry], convert: Callable[[_Entry], _Value]) -> list[_Value]:
    """Return the converted entries; an error names the place of the entry."""
    values = []
    for place, entry in enumerate(entries):
        with error_location(f"{name}[{place}]"):
            values.append(convert(entry))
    return values


def _check_folder(text: str) -> Path:
    """Return the folder after validation. Only absolute paths: the service's working directory is unspecified."""
    folder = Path(text)
    if "\0" in text or not folder.is_absolute():
        hint = "Give the absolute path of a folder on the service's machine."
        raise InvalidInput(f"folder is {text!r}, which is not an absolute path.", hint)
    try:
        resolved = folder.resolve(strict=True)
    except FileNotFoundError as error:
        hint = "Give the path of an existing folder on the service's machine."
        raise NotFound(f"There is no folder {text}.", hint) from error
    except (OSError, RuntimeError, UnicodeEncodeError) as error:
        raise InvalidInput(f"{text!r} cannot be read.", "Give a folder that the service may read.") from error
    if not resolved.is_dir():
        raise InvalidInput(f"{text} is not a folder.", "Give the folder that contains the notes.")
    if resolved == Path(resolved.anchor):
        raise InvalidInput(f"{text} is the root of the file system.", "Give the folder that contains the notes.")
    return folder


@contextmanager
def error_location(place: str) -> Iterator[None]:
    """Prefix validation errors with the place of the value."""
    try:
        yield
    except InvalidInput as error:
        raise type(error)(f"{place}: {error.message}", error.hint) from error
