"""Reply schemas of the routes, for the OpenAPI document and the tests, and how replies are written.

Handlers return plain dictionaries; tests check each of them against its schema here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from cofio.models.domain_knowledge import KnowledgeAction
from cofio.models.memory import Action as Done
from cofio.models.memory import MatchType, Strength
from cofio.server.http.response_types import KnowledgeChangeResponse, ResponseModel

JSON = "application/json"
#: On every reply: no caching, no framing, no access for other sites.
HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


class StreamBody(Protocol):
    """Reply streamed from another source. One thread at a time makes the calls; any thread may stop it."""

    def head(self) -> HandlerReply:
        """Wait for the status and headers; the content is in it if complete, else `part` returns it."""

    def part(self) -> bytes:
        """Wait for the next chunk; b"" at the end."""

    def done(self) -> None:
        """Clean up, after the reply was sent or the client disconnected."""

    def stop(self) -> None:
        """Wake the thread that waits for the rest."""


class HandlerReply(NamedTuple):
    """Reply other than a dictionary with status 200."""

    content: dict[str, Any] | bytes | StreamBody
    status: int = 200
    media: str = JSON
    headers: Mapping[str, str] = {}


def to_response(reply: HandlerReply | dict[str, Any]) -> Response:
    """Return the reply as bytes, with the common headers. Streams are handled by `streaming.StreamResponse`."""
    content, status, media, headers = reply if isinstance(reply, HandlerReply) else HandlerReply(reply)
    body = content if isinstance(content, bytes) else msgspec.json.encode(content)
    return Response(body, status, {**HEADERS, **headers}, media)


class AnchorResponse(ResponseModel):
    kind: Literal["file", "symbol", "command"]
    name: str
    path: str
    hash: str


class MemoryResponse(ResponseModel):
    id: int
    text: str
    source: str
    project: str
    category: str
    kind: str
    confidence: float
    method: str
    entities: list[str]
    tags: list[str]
    session: str
    agent: str
    user: str
    team: str
    visibility: str
    metadata: dict[str, Any]
    speaker: str
    context: str
    created_at: str
    updated_at: str
    timestamp: str
    pinned: bool
    archived_at: str | None
    supersedes: int | None
    superseded_by: int | None
    previous_text: str | None
    occurrences: int
    retrieval_count: int
    last_retrieved_at: str | None
    anchors: list[AnchorResponse]
    origin: str


class MemoryDetailResponse(MemoryResponse, kw_only=True):
    episode: int | UnsetType = UNSET  # the episode that it was learned from, if any


class ExplanationResponse(ResponseModel):
    vector_rank: int | None
    vector_share: float
    keyword_rank: int | None
    keyword_share: float
    bm25: float
    words: list[str]
    formula: str


class HitResponse(MemoryResponse, kw_only=True):
    score: float
    strength: Strength
    similarity: float
    keyword_score: float
    match_type: MatchType
    freshness: Literal["", "fresh", "changed", "vanished"]
    stale: list[str]
    why: ExplanationResponse | UnsetType = UNSET


class ChangeResponse(ResponseModel):
    id: int
    changeset: int
    action: Done
    memory_id: int
    at: str
    by: str
    why: str
    reason: str
    before: MemoryResponse | None
    after: MemoryResponse | None


class ChangesetResponse(ResponseModel):
    id: int
    at: str
    by: str
    why: str
    undoes: int | None
    undone_by: int | None
    part_of: int | None
    changes: list[ChangeResponse]
    knowledge: list[KnowledgeChangeResponse]


class HealthResponse(ResponseModel):
    status: Literal["healthy"]
    version: str
    auth: Literal["open", "ok", "missing"]
    role: Literal["read", "write", "admin"] | UnsetType = UNSET
    memories: int | UnsetType = UNSET


class StatsResponse(Struct):
    memories: int
    archived: int
    vectors: int
    changesets: int
    retrievals: int
    embedder: str | None
    bytes: int
    version: str
    uptime_seconds: float
    llm_spent_until: str | UnsetType = UNSET  # set if the daily limit of the language model is reached


class SearchResponse(ResponseModel):
    query: str
    count: int
    poor_match: bool
    results: list[HitResponse]


class SearchAllResponse(ResponseModel):
    results: list[SearchResponse]


class EpisodeHitResponse(ResponseModel):
    episode: int
    passage: int
    text: str
    at: str
    session: str
    project: str
    source: str
    capture: int | None
    score: float
    similarity: float
    keyword_score: float
    match_type: MatchType


class EpisodeSearchResponse(ResponseModel):
    query: str
    count: int
    episodes: list[EpisodeHitResponse]


class EpisodeResponse(ResponseModel):
    id: int
    at: str
    text: str
    source: str
    project: str
    client: str
    session: str
    turn: str
    context: str
    agent: str
    user: str
    team: str
    visibility: str
    capture: int | None


class AgentSessionResponse(ResponseModel):
    client: str
    session: str
    user: str
    agent: str
    project: str
    first_at: str
    last_at: str
    turns: int
    summaries: int


class AgentSessionsResponse(ResponseModel):
    sessions: list[AgentSessionResponse]


class SessionTurnResponse(ResponseModel):
    at: str
    turn: str
    episode: int | None
    prompt: str
    answer: str


class CompactionSummaryResponse(ResponseModel):
    at: str
    episode: int | None
    text: str


class SessionMemoryResponse(ResponseModel):
    id: int
    text: str
    action: str
    changeset: int | None
    at: str
    undone: bool


class SessionDetailResponse(AgentSessionResponse, kw_only=True):
    turn_list: list[SessionTurnResponse]
    summary_list: list[CompactionSummaryResponse]
    recalled: list[SessionMemoryResponse]
    learned: list[SessionMemoryResponse]
    changed: list[SessionMemoryResponse]


class ResumeReportResponse(ResponseModel):
    project: str | None
    sessions: list[SessionDetailResponse]
    open: list[str]
    text: str
    tokens: int


class EpisodeDeletedResponse(ResponseModel):
    id: int
    action: Literal["purge"]


class RecallResponse(ResponseModel):
    text: str
    ids: list[int]
    tokens: int


class NearMemoryResponse(ResponseModel):
    id: int
    text: str
    replace: str  # command that archives it in favour of the new memory


class AddResponse(ResponseModel):
    id: int
    action: Literal["add", "update", "noop"]
    changeset: int
    reason: str
    replaced: int | None
    near: list[NearMemoryResponse]
    memory: MemoryResponse


class SkippedEntryResponse(ResponseModel):
    path: str
    why: str


class IndexNotesResponse(ResponseModel):
    folder: str
    files: int
    read: int
    gone: int
    added: int
    updated: int
    archived: int
    skipped: list[SkippedEntryResponse]
    unembedded: int
    changeset: int | None
    dry_run: bool


class NotesFolderResponse(ResponseModel):
    folder: str
    followed: bool
    there: bool
    files: int
    read_at: str | None


class NotesFoldersResponse(ResponseModel):
    folders: list[NotesFolderResponse]


class ExportNotesResponse(ResponseModel):
    folder: str
    notes: int
    written: int
    removed: int
    skipped: list[SkippedEntryResponse]


class FactOutcomeResponse(ResponseModel):
    id: int
    action: Literal["add", "update", "noop"]
    reason: str
    replaced: int | None
    near: list[NearMemoryResponse]


class AddAllResponse(ResponseModel):
    added: int
    updated: int
    duplicates: int
    changeset: int
    results: list[FactOutcomeResponse]


class ChangedResponse(ResponseModel):
    id: int
    action: Literal["edit", "restore"]
    changeset: int
    memory: MemoryResponse


class FreshnessResponse(ResponseModel):
    id: int
    freshness: Literal["", "fresh", "changed", "vanished"]
    stale: list[str]


class DeletedResponse(ResponseModel):
    id: int
    action: Literal["delete", "purge"]
    changeset: int


class SupersedeResponse(ResponseModel):
    old_id: int
    new_id: int
    previous_text: str
    changeset: int
    memory: MemoryResponse


class HistoryResponse(ResponseModel):
    id: int
    changes: list[ChangeResponse]


class OccurrenceResponse(ResponseModel):
    agent: str
    session: str
    at: str


class OccurrencesResponse(ResponseModel):
    id: int
    occurrences: list[OccurrenceResponse]


class ProcessedResponse(ResponseModel):
    changeset: ChangesetResponse | None


class ChangesetsResponse(ResponseModel):
    changesets: list[ChangesetResponse]


class NoveltyResponse(ResponseModel):
    novel: bool
    is_novel: bool
    similarity: float
    match: MemoryResponse | None
    reason: str


class PlannedDecisionResponse(ResponseModel):
    action: str
    id: int
    reason: str = ""
    into: int | UnsetType = UNSET


class PlanResponse(ResponseModel):
    dry_run: bool
    count: int
    decisions: list[PlannedDecisionResponse]
    changeset: int | None


class DecisionResponse(ResponseModel):
    action: Literal["delete", "merge"]
    id: int | UnsetType = UNSET
    ids: list[int] | UnsetType = UNSET
    into: int | UnsetType = UNSET
    text: str | UnsetType = UNSET
    reason: str = ""


class RefusalResponse(ResponseModel):
    ids: list[int]
    reason: str
    proposed: list[str]


class MaintenanceJobResponse(ResponseModel):
    chore: Literal["consolidate", "prune"]
    dry_run: bool
    count: int
    examined: int
    note: str
    decisions: list[DecisionResponse]
    refused: list[RefusalResponse]
    changeset: int | None
    as_of: int


class RunResponse(ResponseModel):
    id: int
    chore: str
    slot: str
    by: str
    started_at: str
    finished_at: str | None
    outcome: Literal["running", "done", "failed", "died", "began"]
    changeset: int | None
    told: dict[str, Any]


class RunsResponse(ResponseModel):
    runs: list[RunResponse]
    schedules: dict[str, str]


class UsedMemoryResponse(ResponseModel):
    view: Literal["never", "most", "stale"]
    memories: list[MemoryResponse]


class LLMLimitsResponse(ResponseModel):
    calls: int
    tokens: int


class LLMTotalResponse(ResponseModel):
    provider: str
    model: str
    client: str
    session: str
    project: str
    calls: int
    failed: int
    characters: int
    input_tokens: int
    output_tokens: int


class LLMPeriodResponse(ResponseModel):
    days: int
    models: list[LLMTotalResponse]
    sessions: list[LLMTotalResponse]


class LLMCallResponse(ResponseModel):
    id: int
    at: str
    provider: str
    model: str
    purpose: str
    client: str
    session: str
    project: str
    capture: int | None
    characters: int
    input_tokens: int
    output_tokens: int
    seconds: float
    outcome: Literal["running", "done", "refused", "failed", "interrupted"]
    request: str
    reply: str


class LLMUsageResponse(ResponseModel):
    limits: LLMLimitsResponse
    today: LLMLimitsResponse
    spent: bool
    resets_at: str
    periods: list[LLMPeriodResponse]
    calls: list[LLMCallResponse]


class TeamFactsResponse(ResponseModel):
    memories: list[MemoryResponse]


class RepeatedFactResponse(ResponseModel):
    agent: str
    occurrences: int
    memory: MemoryResponse


class TeamPatternsResponse(ResponseModel):
    patterns: list[RepeatedFactResponse]


class EnrichResponse(ResponseModel):
    context: str


class FindingResponse(ResponseModel):
    name: str
    says: str
    count: int
    examples: list[dict[str, Any]]


class AuditResponse(ResponseModel):
    memories: int
    note: str
    findings: list[FindingResponse]


class ContradictionResponse(ResponseModel):
    newer: MemoryResponse
    older: MemoryResponse
    reason: str
    cosine: float


class ContradictionsResponse(ResponseModel):
    pairs: list[ContradictionResponse]
    count: int
    note: str
    as_of: int


class ProjectResponse(ResponseModel):
    name: str
    memories: int


class ProjectsResponse(ResponseModel):
    projects: list[ProjectResponse]


class PageResponse(ResponseModel):
    memories: list[MemoryResponse]
    next: int | None
    total: int


class ActionResponse(Struct):
    action: Literal["add", "update", "delete", "noop", "rejected", "error"]
    text: str
    kind: str
    category: str
    reason: str
    id: int | UnsetType | None = UNSET
    old_id: int | UnsetType = UNSET
    new_id: int | UnsetType | None = UNSET
    existing_id: int | UnsetType = UNSET
    error: str | UnsetType = UNSET


class UsageResponse(ResponseModel):
    calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int


class JudgedSentenceResponse(ResponseModel):
    text: str
    role: str
    way: Literal["skip", "pattern", "model"]
    reason: str


class KnowledgeChangeSummaryResponse(ResponseModel):
    action: KnowledgeAction
    ref: str
    says: str


class LearningResultResponse(ResponseModel):
    actions: list[ActionResponse]
    knowledge: list[KnowledgeChangeSummaryResponse]
    extracted_count: int
    stored_count: int
    updated_count: int
    deleted_count: int
    noop_count: int
    method: Literal["pattern", "llm", "none"]
    reason: str
    missed: int
    usage: UsageResponse
    changeset: int | None
    dry_run: bool
    sentences: list[JudgedSentenceResponse] | UnsetType = UNSET


class CaptureResponse(Struct, kw_only=True):
    id: int | None
    new: bool
    state: Literal["pending", "parked", "stored", "merged", "rejected"]
    reason: str = ""


class BackfillResponse(ResponseModel):
    series: int


class TurnsResponse(ResponseModel):
    turns: list[str]


class JobResponse(ResponseModel):
    job: int
    state: Literal["pending", "parked", "stored", "merged", "rejected"]
    done: bool
    attempts: int
    reason: str
    received_at: str
    finished_at: str | None
    result: LearningResultResponse | None


class SubmittedResponse(ResponseModel):
    job: int
    new: bool
    state: Literal["pending", "parked", "stored", "merged", "rejected"]


class ExtractionResponse(Struct):
    enabled: bool
    provider: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    audn: bool | UnsetType = UNSET  # whether the model decides what becomes of known memories
    audn_known: bool | UnsetType = UNSET  # false: an Ollama model that has not been probed yet
    spent_until: str | UnsetType = UNSET  # set if the daily limit is reached; captures wait until then
    status: Literal["healthy", "unhealthy"] | UnsetType = UNSET
    problem: str | UnsetType = UNSET


class InboxStatusResponse(ResponseModel):
    captured: int
    stored: int
    merged: int
    rejected: int
    pending: int
    parked: int
    reasons: dict[str, int]
    oldest: str | None
    balanced: bool


class DailyCountResponse(ResponseModel):
    day: str  # "" for all before the first day
    category: str
    count: int


class InjectionCountResponse(ResponseModel):
    day: str
    prompts: int
    answered: int
    starts: int
    memories: int
    tokens: int


class StoreStateResponse(ResponseModel):
    name: Literal["sqlite", "postgresql", "memory"]
    bytes: int
    embedder: str | None
    vectors: int
    waiting: int


class OverviewResponse(ResponseModel):
    at: str
    live: int
    archived: int
    days: list[str]
    arrived: list[DailyCountResponse]
    done_today: dict[str, int] | None
    injected: list[InjectionCountResponse] | None
    store: StoreStateResponse | None
    inbox_status: InboxStatusResponse | None
    extraction: ExtractionResponse
    version: str
    uptime_seconds: float


class MapClusterResponse(ResponseModel):
    words: list[str]
    x: int
    y: int
    count: int


class MapPointsResponse(ResponseModel):
    """Columns: the same index in each is the same memory.

    Clusters, categories and projects are indexes into their lists.
    """

    id: list[int]
    x: list[int]
    y: list[int]
    cluster: list[int]
    category: list[int]
    project: list[int]
    created_at: list[str]
    text: list[str]


class MapResponse(ResponseModel):
    total: int
    side: int
    categories: list[str]
    projects: list[str]
    clusters: list[MapClusterResponse]
    points: MapPointsResponse


class AgentResponse(ResponseModel):
    name: str
    memories: int
    kept_at: str | None
    recalls: int
    recalled_at: str | None


class AgentsResponse(ResponseModel):
    agents: list[AgentResponse]


class InboxItemResponse(ResponseModel):
    id: int
    task: Literal["learn", "extract"]
    state: Literal["pending", "parked", "stored", "merged", "rejected"]
    exchange: dict[str, Any] | None
    received_at: str
    due_at: str
    finished_at: str | None
    attempts: int
    faults: int
    reason: str
    changeset: int | None
    result: dict[str, Any]


class ItemsResponse(ResponseModel):
    items: list[InboxItemResponse]
    next: int | None


class BackfillStateResponse(ResponseModel):
    id: int
    item: InboxItemResponse | None


class KeyResponse(ResponseModel):
    id: int
    name: str
    role: Literal["read", "write", "admin"]
    agent: str
    user: str
    team: str
    prefixes: list[str]
    expires_at: str | None
    hint: str
    created_at: str
    created_by: str
    revoked_at: str | None
    last_used_at: str | None


class NewKeyResponse(KeyResponse, kw_only=True):
    secret: str


class KeysResponse(ResponseModel):
    keys: list[KeyResponse]


class AuditEntryResponse(ResponseModel):
    id: int
    at: str
    act: str
    outcome: Literal["done", "refused"]
    key: int | None
    name: str
    what: str
    address: str


class AuditLogResponse(ResponseModel):
    deeds: list[AuditEntryResponse]
    next: int | None


class SettingResponse(ResponseModel):
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


class SettingsResponse(ResponseModel):
    file: str
    there: bool
    problem: str
    settings: list[SettingResponse]


class CheckResponse(ResponseModel):
    name: str
    state: Literal["ok", "warning", "wrong"]
    says: str
    hint: str


class ChecksResponse(ResponseModel):
    checks: list[CheckResponse]


class FaultResponse(ResponseModel):
    code: str
    message: str
    hint: str
    type: str | UnsetType = UNSET  # only below /v1: the error type of OpenAI's API


class ErrorResponse(ResponseModel):
    error: FaultResponse
