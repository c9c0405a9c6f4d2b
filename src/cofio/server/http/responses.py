"""Reply schemas of the routes, for the OpenAPI document and the tests, and how replies are written.

Handlers return plain dictionaries; tests check each of them against its schema here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from cofio.models.knowledge import KnowledgeAction
from cofio.models.memory import Action as Done
from cofio.models.memory import MatchType, Strength
from cofio.server.http.response_types import KnowledgeChange, Shape

JSON = "application/json"
#: On every reply: no caching, no framing, no access for other sites.
HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


class Relay(Protocol):
    """Reply streamed from another source. One thread at a time makes the calls; any thread may stop it."""

    def head(self) -> Reply:
        """Wait for the status and headers; the content is in it if complete, else `part` returns it."""

    def part(self) -> bytes:
        """Wait for the next chunk; b"" at the end."""

    def done(self) -> None:
        """Clean up, after the reply was sent or the client disconnected."""

    def stop(self) -> None:
        """Wake the thread that waits for the rest."""


class Reply(NamedTuple):
    """Reply other than a dictionary with status 200."""

    content: dict[str, Any] | bytes | Relay
    status: int = 200
    media: str = JSON
    headers: Mapping[str, str] = {}


def written(reply: Reply | dict[str, Any]) -> Response:
    """Return the reply as bytes, with the common headers. Streams are handled by `relaying.Relayed`."""
    content, status, media, headers = reply if isinstance(reply, Reply) else Reply(reply)
    body = content if isinstance(content, bytes) else msgspec.json.encode(content)
    return Response(body, status, {**HEADERS, **headers}, media)


class Anchor(Shape):
    kind: Literal["file", "symbol", "command"]
    name: str
    path: str
    hash: str


class Memory(Shape):
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
    anchors: list[Anchor]
    origin: str


class MemoryShown(Memory, kw_only=True):
    episode: int | UnsetType = UNSET  # the episode that it was learned from, if any


class Explanation(Shape):
    vector_rank: int | None
    vector_share: float
    keyword_rank: int | None
    keyword_share: float
    bm25: float
    words: list[str]
    formula: str


class Hit(Memory, kw_only=True):
    score: float
    strength: Strength
    similarity: float
    keyword_score: float
    match_type: MatchType
    freshness: Literal["", "fresh", "changed", "vanished"]
    stale: list[str]
    why: Explanation | UnsetType = UNSET


class Change(Shape):
    id: int
    changeset: int
    action: Done
    memory_id: int
    at: str
    by: str
    why: str
    reason: str
    before: Memory | None
    after: Memory | None


class Changeset(Shape):
    id: int
    at: str
    by: str
    why: str
    undoes: int | None
    undone_by: int | None
    part_of: int | None
    changes: list[Change]
    knowledge: list[KnowledgeChange]


class Health(Shape):
    status: Literal["healthy"]
    version: str
    auth: Literal["open", "ok", "missing"]
    role: Literal["read", "write", "admin"] | UnsetType = UNSET
    memories: int | UnsetType = UNSET


class Stats(Struct):
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


class Found(Shape):
    query: str
    count: int
    fits_badly: bool
    results: list[Hit]


class FoundAll(Shape):
    results: list[Found]


class EpisodeHit(Shape):
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


class EpisodesFound(Shape):
    query: str
    count: int
    episodes: list[EpisodeHit]


class Episode(Shape):
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


class AgentSession(Shape):
    client: str
    session: str
    user: str
    agent: str
    project: str
    first_at: str
    last_at: str
    turns: int
    summaries: int


class AgentSessions(Shape):
    sessions: list[AgentSession]


class SessionTurn(Shape):
    at: str
    turn: str
    episode: int | None
    prompt: str
    answer: str


class CompactionSummary(Shape):
    at: str
    episode: int | None
    text: str


class SessionMemory(Shape):
    id: int
    text: str
    action: str
    changeset: int | None
    at: str
    undone: bool


class SessionDetail(AgentSession, kw_only=True):
    turn_list: list[SessionTurn]
    summary_list: list[CompactionSummary]
    recalled: list[SessionMemory]
    learned: list[SessionMemory]
    changed: list[SessionMemory]


class ResumeReport(Shape):
    project: str | None
    sessions: list[SessionDetail]
    open: list[str]
    text: str
    tokens: int


class EpisodeGone(Shape):
    id: int
    action: Literal["purge"]


class Recalled(Shape):
    text: str
    ids: list[int]
    tokens: int


class NearMemory(Shape):
    id: int
    text: str
    replace: str  # command that archives it in favour of the new memory


class Added(Shape):
    id: int
    action: Literal["add", "update", "noop"]
    changeset: int
    reason: str
    replaced: int | None
    near: list[NearMemory]
    memory: Memory


class LeftOut(Shape):
    path: str
    why: str


class IndexedNotes(Shape):
    folder: str
    files: int
    read: int
    gone: int
    added: int
    updated: int
    archived: int
    skipped: list[LeftOut]
    unembedded: int
    changeset: int | None
    dry_run: bool


class NotesFolder(Shape):
    folder: str
    followed: bool
    there: bool
    files: int
    read_at: str | None


class NotesFolders(Shape):
    folders: list[NotesFolder]


class ExportedNotes(Shape):
    folder: str
    notes: int
    written: int
    removed: int
    skipped: list[LeftOut]


class Settled(Shape):
    id: int
    action: Literal["add", "update", "noop"]
    reason: str
    replaced: int | None
    near: list[NearMemory]


class AddedAll(Shape):
    added: int
    updated: int
    duplicates: int
    changeset: int
    results: list[Settled]


class Changed(Shape):
    id: int
    action: Literal["edit", "restore"]
    changeset: int
    memory: Memory


class Freshness(Shape):
    id: int
    freshness: Literal["", "fresh", "changed", "vanished"]
    stale: list[str]


class Gone(Shape):
    id: int
    action: Literal["delete", "purge"]
    changeset: int


class Superseded(Shape):
    old_id: int
    new_id: int
    previous_text: str
    changeset: int
    memory: Memory


class History(Shape):
    id: int
    changes: list[Change]


class Sighting(Shape):
    agent: str
    session: str
    at: str


class Sightings(Shape):
    id: int
    sightings: list[Sighting]


class Processed(Shape):
    changeset: Changeset | None


class Changesets(Shape):
    changesets: list[Changeset]


class Novelty(Shape):
    novel: bool
    is_novel: bool
    similarity: float
    match: Memory | None
    reason: str


class Planned(Shape):
    action: str
    id: int
    reason: str = ""
    into: int | UnsetType = UNSET


class Plan(Shape):
    dry_run: bool
    count: int
    decisions: list[Planned]
    changeset: int | None


class Decided(Shape):
    action: Literal["delete", "merge"]
    id: int | UnsetType = UNSET
    ids: list[int] | UnsetType = UNSET
    into: int | UnsetType = UNSET
    text: str | UnsetType = UNSET
    reason: str = ""


class Refused(Shape):
    ids: list[int]
    reason: str
    proposed: list[str]


class Chore(Shape):
    chore: Literal["consolidate", "prune"]
    dry_run: bool
    count: int
    examined: int
    note: str
    decisions: list[Decided]
    refused: list[Refused]
    changeset: int | None
    as_of: int


class Run(Shape):
    id: int
    chore: str
    slot: str
    by: str
    started_at: str
    finished_at: str | None
    outcome: Literal["running", "done", "failed", "died", "began"]
    changeset: int | None
    told: dict[str, Any]


class Runs(Shape):
    runs: list[Run]
    schedules: dict[str, str]


class Used(Shape):
    view: Literal["never", "most", "stale"]
    memories: list[Memory]


class LLMLimits(Shape):
    calls: int
    tokens: int


class LLMTotal(Shape):
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


class LLMPeriod(Shape):
    days: int
    models: list[LLMTotal]
    sessions: list[LLMTotal]


class LLMCall(Shape):
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


class LLMUsage(Shape):
    limits: LLMLimits
    today: LLMLimits
    spent: bool
    resets_at: str
    periods: list[LLMPeriod]
    calls: list[LLMCall]


class TeamFacts(Shape):
    memories: list[Memory]


class Repeated(Shape):
    agent: str
    occurrences: int
    memory: Memory


class Patterns(Shape):
    patterns: list[Repeated]


class Enriched(Shape):
    context: str


class Finding(Shape):
    name: str
    says: str
    count: int
    examples: list[dict[str, Any]]


class Audit(Shape):
    memories: int
    note: str
    findings: list[Finding]


class Contradiction(Shape):
    newer: Memory
    older: Memory
    reason: str
    cosine: float


class Contradictions(Shape):
    pairs: list[Contradiction]
    count: int
    note: str
    as_of: int


class Project(Shape):
    name: str
    memories: int


class Projects(Shape):
    projects: list[Project]


class Page(Shape):
    memories: list[Memory]
    next: int | None
    total: int


class Action(Struct):
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


class Usage(Shape):
    calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int


class Judged(Shape):
    text: str
    role: str
    way: Literal["skip", "pattern", "model"]
    reason: str


class Tabled(Shape):
    action: KnowledgeAction
    ref: str
    says: str


class Learned(Shape):
    actions: list[Action]
    knowledge: list[Tabled]
    extracted_count: int
    stored_count: int
    updated_count: int
    deleted_count: int
    noop_count: int
    method: Literal["pattern", "llm", "none"]
    reason: str
    missed: int
    usage: Usage
    changeset: int | None
    dry_run: bool
    sentences: list[Judged] | UnsetType = UNSET


class Captured(Struct, kw_only=True):
    id: int | None
    new: bool
    state: Literal["pending", "parked", "stored", "merged", "rejected"]
    reason: str = ""


class Backfill(Shape):
    series: int


class Turns(Shape):
    turns: list[str]


class Job(Shape):
    job: int
    state: Literal["pending", "parked", "stored", "merged", "rejected"]
    done: bool
    attempts: int
    reason: str
    received_at: str
    finished_at: str | None
    result: Learned | None


class Submitted(Shape):
    job: int
    new: bool
    state: Literal["pending", "parked", "stored", "merged", "rejected"]


class Extraction(Struct):
    enabled: bool
    provider: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    audn: bool | UnsetType = UNSET  # whether the model decides what becomes of known memories
    audn_known: bool | UnsetType = UNSET  # false: an Ollama model that has not been probed yet
    spent_until: str | UnsetType = UNSET  # set if the daily limit is reached; captures wait until then
    status: Literal["healthy", "unhealthy"] | UnsetType = UNSET
    problem: str | UnsetType = UNSET


class Ledger(Shape):
    captured: int
    stored: int
    merged: int
    rejected: int
    pending: int
    parked: int
    reasons: dict[str, int]
    oldest: str | None
    balanced: bool


class Arrived(Shape):
    day: str  # "" for all before the first day
    category: str
    count: int


class Injected(Shape):
    day: str
    prompts: int
    answered: int
    starts: int
    memories: int
    tokens: int


class Kept(Shape):
    name: Literal["sqlite", "postgresql", "memory"]
    bytes: int
    embedder: str | None
    vectors: int
    waiting: int


class Overview(Shape):
    at: str
    live: int
    archived: int
    days: list[str]
    arrived: list[Arrived]
    done_today: dict[str, int] | None
    injected: list[Injected] | None
    store: Kept | None
    ledger: Ledger | None
    extraction: Extraction
    version: str
    uptime_seconds: float


class MapCluster(Shape):
    words: list[str]
    x: int
    y: int
    count: int


class MapPoints(Shape):
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


class Map(Shape):
    total: int
    side: int
    categories: list[str]
    projects: list[str]
    clusters: list[MapCluster]
    points: MapPoints


class Agent(Shape):
    name: str
    memories: int
    kept_at: str | None
    recalls: int
    recalled_at: str | None


class Agents(Shape):
    agents: list[Agent]


class InboxItem(Shape):
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


class Items(Shape):
    items: list[InboxItem]
    next: int | None


class LearnedFrom(Shape):
    id: int
    item: InboxItem | None


class Key(Shape):
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


class KeyMade(Key, kw_only=True):
    secret: str


class Keys(Shape):
    keys: list[Key]


class Deed(Shape):
    id: int
    at: str
    act: str
    outcome: Literal["done", "refused"]
    key: int | None
    name: str
    what: str
    address: str


class DeedPage(Shape):
    deeds: list[Deed]
    next: int | None


class Setting(Shape):
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


class SettingsInForce(Shape):
    file: str
    there: bool
    problem: str
    settings: list[Setting]


class Checked(Shape):
    name: str
    state: Literal["ok", "warning", "wrong"]
    says: str
    hint: str


class Checks(Shape):
    checks: list[Checked]


class Fault(Shape):
    code: str
    message: str
    hint: str
    type: str | UnsetType = UNSET  # only below /v1: the error type of OpenAI's API


class Error(Shape):
    error: Fault
