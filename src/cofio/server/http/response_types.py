"""Types of JSON responses: structs derived from the model's types, and the shapes that have no such type.

A response has every field of its type, none of them optional, as `as_dict` writes it. Where `as_dict` writes other
fields than the type has, `_WIRE` says so. The structs are used by the OpenAPI document and the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import (
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from msgspec import UNSET, Struct, UnsetType, defstruct

from cofio.models.auth import AuditEntry, Key
from cofio.models.dashboard import StoreState
from cofio.models.diagnostics import Check
from cofio.models.domain_knowledge import (
    KNOWLEDGE,
    Direction,
    Knowledge,
    KnowledgeAction,
    KnowledgeChange,
    Period,
    Relation,
    Verdict,
)
from cofio.models.episodes import EpisodeHit
from cofio.models.exchange import InboxStatus, Item, LearningResult, Sentence, State
from cofio.models.llm_calls import LLMUsage
from cofio.models.maintenance import MaintenancePlan
from cofio.models.markdown_notes import IndexResult, VaultExportResult
from cofio.models.memory import Anchor, Change, Explanation, Hit, Memory, Novelty, Strength
from cofio.models.sessions import CompactionSummary, SessionDetail, SessionTurn

Freshness = Literal["", "fresh", "changed", "vanished"]


class ResponseModel(Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of response structs: no fields beyond those declared."""


class _Wire(NamedTuple):
    """Difference between a type and its JSON form, as its `as_dict` writes it."""

    added: Mapping[str, Any] = {}  # fields that are added, or have another type
    omit: tuple[str, ...] = ()
    inline: tuple[str, ...] = ()  # fields whose own fields stand in their place


@cache
def response_struct(kind: type) -> type[Struct]:
    """Return the struct of a dataclass, named tuple or typed dictionary."""
    if issubclass(kind, Struct):
        return kind
    base = Struct if kind in _OPEN_SHAPES else ResponseModel
    return build_struct(kind.__name__.removesuffix("Response"), wire_fields(kind), kind.__doc__ or "", base)


def build_struct(
    name: str, hints: Mapping[str, Any], doc: str = "", base: type[Struct] = ResponseModel
) -> type[Struct]:
    """Return the struct of a response with these fields. Fields marked NotRequired may be missing."""
    declared: list[Any] = []
    for field, hint in hints.items():
        if get_origin(hint) is NotRequired:
            declared.append((field, json_type(get_args(hint)[0]) | UnsetType, UNSET))
        else:
            declared.append((field, json_type(hint)))
    namespace = {"__doc__": doc.partition("\n")[0]}
    return defstruct(f"{name}Response", declared, bases=(base,), namespace=namespace, kw_only=True)


def json_type(hint: Any) -> Any:
    """Return the JSON type of a Python type."""
    if isinstance(hint, type) and issubclass(hint, Knowledge):
        return response_struct(Knowledge)
    if isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields") or is_typeddict(hint)):
        return response_struct(hint)
    origin, arguments = get_origin(hint), tuple(json_type(argument) for argument in get_args(hint))
    if origin in (tuple, list, set, Sequence):
        return list[arguments[0]]  # type: ignore[valid-type]
    if origin is Mapping:
        return dict[arguments]  # type: ignore[misc, valid-type]
    return reduce(or_, arguments) if origin in (Union, UnionType) else hint


def wire_fields(kind: type, **added: Any) -> dict[str, Any]:
    """Return the fields of a type as it is sent, and further ones, with their Python types."""
    hints = get_type_hints(kind, localns={"KnowledgeChange": KnowledgeChange}, include_extras=True)
    wire = _WIRE.get(kind, _Wire())
    declared: dict[str, Any] = {}
    for name in [field.name for field in fields(kind)] if is_dataclass(kind) else hints:
        if name in wire.inline:
            declared |= wire_fields(hints[name])
        elif name not in wire.omit:
            declared[name] = hints[name]
    return {**declared, **wire.added, **added}


# ── shapes without a type in the model ──────────────────────────────────────────────────────────────────────────────


class NearMemoryResponse(TypedDict):
    id: int
    text: str
    replace: str  # command that archives it in favour of the new memory


class FactOutcomeResponse(TypedDict):
    id: int
    action: Literal["add", "update", "noop"]
    reason: str
    replaced: int | None
    near: list[NearMemoryResponse]
    redacted: NotRequired[list[str]]  # kinds of the secrets removed from what was sent


class AddResponse(FactOutcomeResponse):
    changeset: int
    memory: Memory


class ChangedResponse(TypedDict):
    id: int
    action: Literal["edit", "restore"]
    changeset: int
    memory: Memory
    redacted: NotRequired[list[str]]  # kinds of the secrets removed from what was sent


class SearchResponse(TypedDict):
    query: str
    count: int
    poor_match: bool
    results: list[Hit]


class SkippedEntryResponse(TypedDict):
    path: str
    why: str


class PlannedDecisionResponse(TypedDict):
    action: str
    id: int
    reason: NotRequired[str]
    into: NotRequired[int]


class PlanResponse(TypedDict):
    dry_run: bool
    count: int
    decisions: list[PlannedDecisionResponse]
    changeset: int | None


class DecisionResponse(TypedDict):
    action: Literal["delete", "merge"]
    id: NotRequired[int]
    ids: NotRequired[list[int]]
    into: NotRequired[int]
    text: NotRequired[str]
    reason: NotRequired[str]


class ActionResponse(TypedDict):
    action: Literal["add", "update", "delete", "noop", "rejected", "error"]
    text: str
    kind: str
    category: str
    reason: str
    id: NotRequired[int | None]
    old_id: NotRequired[int]
    new_id: NotRequired[int | None]
    existing_id: NotRequired[int]
    error: NotRequired[str]


class KnowledgeChangeSummaryResponse(TypedDict):
    action: KnowledgeAction
    ref: str
    says: str


class ExtractionResponse(TypedDict):
    enabled: bool
    provider: NotRequired[str]
    model: NotRequired[str]
    audn: NotRequired[bool]  # whether the model decides what becomes of known memories
    audn_known: NotRequired[bool]  # false: an Ollama model that has not been probed yet
    spent_until: NotRequired[str]  # set if the daily limit is reached; captures wait until then
    status: NotRequired[Literal["healthy", "unhealthy"]]
    problem: NotRequired[str]


class MapClusterResponse(TypedDict):
    words: list[str]
    x: int
    y: int
    count: int


class MapPointsResponse(TypedDict):
    """Columns: the same index in each is the same memory; clusters, categories and projects index their lists."""

    id: list[int]
    x: list[int]
    y: list[int]
    cluster: list[int]
    category: list[int]
    project: list[int]
    created_at: list[str]
    text: list[str]


class MapResponse(TypedDict):
    total: int
    side: int
    categories: list[str]
    projects: list[str]
    clusters: list[MapClusterResponse]
    points: MapPointsResponse


class SettingResponse(TypedDict):
    name: str
    group: str
    variables: list[str]
    says: str
    value: bool | int | float | str  # for a secret: "set" or "not set"
    default: bool | int | float | str
    origin: str  # default, flag, environment variable, or file path
    secret: bool
    line: str  # as a line of config.toml
    waits: bool  # whether a different value takes effect at the next start


class SettingsResponse(TypedDict):
    file: str
    there: bool
    problem: str
    settings: list[SettingResponse]


class StatsResponse(TypedDict):
    memories: int
    archived: int
    vectors: int
    changesets: int
    retrievals: int
    embedder: str | None
    bytes: int
    version: str
    uptime_seconds: float
    llm_spent_until: NotRequired[str]  # set if the daily limit of the language model is reached


class CaptureResponse(TypedDict):
    id: int | None
    new: bool
    state: State
    reason: NotRequired[str]


#: Shapes with further fields that are not listed.
_OPEN_SHAPES = (StatsResponse, CaptureResponse, ExtractionResponse, ActionResponse)

_KNOWLEDGE_CHOICES = {"relation": Relation, "direction": Direction, "period": Period, "verdict": Verdict}
_SKIPPED = _Wire({"skipped": list[SkippedEntryResponse]})
_REDACTED = {"redacted": NotRequired[list[str]]}
_WIRE: Mapping[type, _Wire] = {
    Anchor: _Wire({"kind": Literal["file", "symbol", "command"]}),
    Memory: _Wire({"timestamp": str}),
    Hit: _Wire(
        {
            "keyword_score": float,
            "strength": Strength,
            "freshness": Freshness,
            "said": str,
            "why": NotRequired[Explanation],
        },
        inline=("memory",),
        omit=("keyword",),
    ),
    Change: _Wire(_REDACTED, omit=("near", "redacted")),
    KnowledgeChange: _Wire(_REDACTED, omit=("redacted",)),
    Novelty: _Wire({"is_novel": bool}),
    SessionDetail: _Wire(
        {"turn_list": list[SessionTurn], "summary_list": list[CompactionSummary]},
        inline=("session",),
        omit=("turns", "summaries"),
    ),
    IndexResult: _SKIPPED,
    VaultExportResult: _SKIPPED,
    MaintenancePlan: _Wire(
        {"count": int, "decisions": list[DecisionResponse], "changeset": int | None}, omit=("settled",)
    ),
    LLMUsage: _Wire({"spent": bool}),
    Sentence: _Wire(omit=("found",)),
    LearningResult: _Wire(
        {
            "actions": list[ActionResponse],
            "knowledge": list[KnowledgeChangeSummaryResponse],
            **dict.fromkeys(("extracted_count", "stored_count", "updated_count", "deleted_count", "noop_count"), int),
            "method": Literal["pattern", "llm", "none"],
            "sentences": NotRequired[list[Sentence]],
        },
        omit=("seconds",),
    ),
    Item: _Wire({"exchange": dict[str, Any] | None, "result": dict[str, Any]}),
    EpisodeHit: _Wire(
        {
            **dict.fromkeys(("passage", "episode"), int),
            **dict.fromkeys(("text", "at", "session", "project", "source"), str),
            "capture": int | None,
            "keyword_score": float,
        },
        omit=("keyword",),
    ),
    InboxStatus: _Wire({"balanced": bool}),
    StoreState: _Wire({"name": Literal["sqlite", "postgresql", "memory"]}),
    Key: _Wire(inline=("grant",)),
    AuditEntry: _Wire({"outcome": Literal["done", "refused"]}),
    Check: _Wire({"hint": str}, omit=("remedy",)),
    Knowledge: _Wire(
        {
            **{
                field.name: NotRequired[_KNOWLEDGE_CHOICES.get(field.name, get_type_hints(kind)[field.name])]
                for kind in KNOWLEDGE.values()
                for field in fields(kind)
                if field.name not in Knowledge.__dataclass_fields__
            },
            "prior": NotRequired[float],
            "ref": NotRequired[str],
            "says": NotRequired[str],
        }
    ),
}
