"""Request schemas of the routes: one struct per route, with conversion to the keeper's types.

Types and number ranges are checked while parsing; contents of texts are checked by the model types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from cofio.errors import InvalidInput
from cofio.maintenance import bulk
from cofio.models import memory as models_memory
from cofio.models.auth import ROLES, Grant
from cofio.models.dashboard import MOST_DAYS, MOST_DOTS
from cofio.models.domain_knowledge import DIRECTIONS, PERIODS, RELATIONS, VERDICTS
from cofio.models.exchange import STATES, Exchange
from cofio.models.maintenance import PROPOSED
from cofio.models.memory import (
    CATEGORIES,
    EDITABLE,
    KINDS,
    MAX_HITS,
    MAX_LABEL,
    MAX_PAGE,
    METHODS,
    VISIBILITIES,
    Fact,
    Query,
    Scope,
    check_text,
    to_utc_iso,
)
from cofio.models.sessions import RESUME_TOKENS, RESUMED

MAX_QUERIES = 100
MAX_MEMORIES = 1_000


def _text(says: str, allowed: Iterable[str] = ()) -> Any:
    return Meta(description=says, extra_json_schema={"enum": list(allowed)} if allowed else None)


Id = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Share = Annotated[float, Meta(ge=0, le=1)]
Time = str | int | float
Source = Annotated[str, _text("Source it belongs to: client/project.")]
Project = Annotated[str, _text("Project it applies to: the path of its working tree, or a name.")]
VisibleIn = Annotated[str, _text("Relevant in this project: its own, without a project, and global.")]
Kind = Annotated[str, _text("Kind of fact.", KINDS)]
Category = Annotated[str, _text("How long it stays relevant.", CATEGORIES)]
Method = Annotated[str, _text("Extraction method.", METHODS)]
Visibility = Annotated[str, _text("Who may see it.", VISIBILITIES)]
Why = Annotated[str, _text("Reason, for the journal.")]
Deduplicated = Annotated[bool, _text("Log a known fact as seen again instead of storing it twice.")]
DryRun = Annotated[bool, _text("Only preview what would be done.")]


class RequestModel(Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of all request schemas."""

    def given(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the sent ones of these fields."""
        values = {name: getattr(self, name, UNSET) for name in names}
        return {name: value for name, value in values.items() if value is not UNSET}

    def reason(self) -> str:
        """Return the `why` field, if the schema has one."""
        return check_text(getattr(self, "why", ""), "why", MAX_LABEL)


class ReasonRequest(RequestModel):
    why: Why = ""


class ScopeFields(RequestModel):
    """Filter fields; omitted fields do not filter."""

    source: Annotated[str, _text("Exactly this source.")] | UnsetType = UNSET
    source_prefix: Annotated[str, _text("This source and those below it.")] | UnsetType = UNSET
    project: Annotated[str, _text("Exactly this project; empty: without a project.")] | UnsetType = UNSET
    visible_in: VisibleIn | UnsetType = UNSET
    category: Category | UnsetType = UNSET
    kind: Kind | UnsetType = UNSET
    method: Method | UnsetType = UNSET
    tags: Annotated[list[str], _text("All of them.")] | UnsetType = UNSET
    session: str | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    user: Annotated[str, _text("Exactly this user; empty: without a user.")] | UnsetType = UNSET
    team: Annotated[str, _text("Exactly this team.")] | UnsetType = UNSET
    visibility: Annotated[list[str], _text("Any of them.")] | UnsetType = UNSET
    since: Annotated[Time, _text("Created at this time or later.")] | UnsetType = UNSET
    until: Annotated[Time, _text("Created at this time or earlier.")] | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    include_archived: bool | UnsetType = UNSET

    def within(self) -> dict[str, Any]:
        """Return the sent fields of a Scope."""
        return _normalize_times(self.given(_SCOPE), "since", "until")


class SearchRequest(ScopeFields, kw_only=True):
    query: Annotated[str, _text("Search text.")]
    k: Annotated[int, Meta(ge=1, le=MAX_HITS, description="Maximum number of hits.")] = 5
    skip: Annotated[int, Meta(ge=0, le=MAX_HITS, description="Number of best hits to skip.")] = 0
    hybrid: Annotated[bool, _text("Match words too, not only vectors.")] = True
    threshold: Annotated[float, Meta(ge=-1, le=1, description="Minimum cosine similarity of a hit.")] = -1.0
    min_score: Annotated[Share, _text("Minimum score of a hit.")] = 0.0
    explain: Annotated[bool, _text("Explain the rank of each hit.")] = False
    log: Annotated[bool, _text("Whether the hits count as recalled; false for a person who browses.")] = True

    def as_query(self) -> Query:
        how = self.given(("k", "skip", "hybrid", "threshold", "min_score", "explain", "log"))
        return Query(text=self.query, scope=Scope(**self.within()), **how)


class SearchEpisodesRequest(RequestModel, kw_only=True):
    query: Annotated[str, _text("Search text.")]
    k: Annotated[int, Meta(ge=1, le=MAX_HITS, description="Maximum number of episodes.")] = 5
    skip: Annotated[int, Meta(ge=0, le=MAX_HITS, description="Number of episodes to skip, for the next page.")] = 0
    min_score: Annotated[Share, _text("Minimum score of a hit.")] = 0.0
    source: Annotated[str, _text("Exactly this source.")] | UnsetType = UNSET
    source_prefix: Annotated[str, _text("This source and those below it.")] | UnsetType = UNSET
    project: Annotated[str, _text("Exactly this project; empty: without a project.")] | UnsetType = UNSET
    visible_in: VisibleIn | UnsetType = UNSET
    session: str | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    since: Annotated[Time, _text("Said at this time or later.")] | UnsetType = UNSET
    until: Annotated[Time, _text("Said at this time or earlier.")] | UnsetType = UNSET

    def how(self) -> dict[str, Any]:
        """Return the sent arguments of `Keeper.search_episodes`, except the query."""
        names = [name for name in self.__struct_fields__ if name != "query"]
        return _normalize_times(self.given(names), "since", "until")


class RecallRequest(RequestModel):
    prompt: Annotated[str, _text("The user's prompt; empty at the start of a session.")] = ""
    project: Annotated[str, _text("Current project: the path of its working tree, or a name.")] = ""
    k: Annotated[int, Meta(ge=1, le=50, description="Maximum number; default 5, at a start as many as fit.")] | None = (
        None
    )
    client: Annotated[str, _text("The calling client, such as claude-code.")] = ""
    session: Annotated[str, _text("The calling session: memories learned in it are left out.")] = ""


class RecallContextRequest(RequestModel, kw_only=True):
    query: Annotated[str, _text("Observation or question; values in it are compared with thresholds.")]
    max_memories: Annotated[int, Meta(ge=0, le=50, description="Maximum number of memories.")] = 3
    max_patterns: Annotated[int, Meta(ge=0, le=50, description="Maximum number of patterns.")] = 5
    max_thresholds: Annotated[int, Meta(ge=0, le=50, description="Maximum number of thresholds.")] = 5
    at: Annotated[str, Meta(description="Time for seasonal patterns; default now.")] = ""


class SearchAllRequest(RequestModel, kw_only=True):
    each: ClassVar[type[RequestModel]] = SearchRequest
    queries: Annotated[list[SearchRequest | str], Meta(min_length=1, max_length=MAX_QUERIES)]

    def as_queries(self) -> list[Query]:
        queries = []
        for place, query in enumerate(self.queries):
            with error_location(f"queries[{place}]"):
                queries.append(Query(text=query) if isinstance(query, str) else query.as_query())
        return queries


class FactFields(RequestModel):
    """Fields of a fact besides its text."""

    source: Source | UnsetType = UNSET
    project: Project | UnsetType = UNSET
    kind: Kind | UnsetType = UNSET
    category: Category | UnsetType = UNSET
    confidence: Share | UnsetType = UNSET
    method: Method | UnsetType = UNSET
    entities: list[str] | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    session: str | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    user: Annotated[str, _text("User who owns it.")] | UnsetType = UNSET
    team: Annotated[str, _text("Team of the owner.")] | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    speaker: Annotated[str, _text("Who said it.")] | UnsetType = UNSET
    context: Annotated[str, _text("What was said just before; helps to find it.")] | UnsetType = UNSET
    created_at: Annotated[Time, _text("ISO 8601, or seconds or milliseconds since 1970.")] | UnsetType = UNSET
    timestamp: Annotated[Time, _text("Alias of created_at.")] | UnsetType = UNSET
    origin: Annotated[str, _text("System it was imported from, and its id there.")] | UnsetType = UNSET

    def about(self) -> dict[str, Any]:
        """Return the sent fields of a Fact."""
        if self.created_at is not UNSET and self.timestamp is not UNSET:
            raise InvalidInput("created_at and timestamp are the same field.", "Send one of them.")
        sent = _normalize_times(self.given((*_FACT, "timestamp")), "created_at", "timestamp")
        if "timestamp" in sent:
            sent["created_at"] = sent.pop("timestamp")
        return sent


class AddItemRequest(FactFields, kw_only=True):
    text: Annotated[str, _text("The fact, as a sentence.")]

    def as_fact(self) -> Fact:
        return Fact(text=self.text, **self.about())


class AddRequest(AddItemRequest):
    deduplicate: Deduplicated = True
    why: Why = ""


class AddAllRequest(RequestModel, kw_only=True):
    each: ClassVar[type[RequestModel]] = AddItemRequest
    memories: Annotated[list[AddItemRequest], Meta(min_length=1, max_length=MAX_MEMORIES)]
    deduplicate: Deduplicated = True
    why: Why = ""

    def as_facts(self) -> list[Fact]:
        facts = []
        for place, entry in enumerate(self.memories):
            with error_location(f"memories[{place}]"):
                facts.append(entry.as_fact())
        return facts


class EditFields(RequestModel):
    """Fields that can be changed in place."""

    text: str | UnsetType = UNSET
    source: Source | UnsetType = UNSET
    project: Project | UnsetType = UNSET
    category: Category | UnsetType = UNSET
    kind: Kind | UnsetType = UNSET
    confidence: Share | UnsetType = UNSET
    entities: list[str] | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    session: str | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    user: str | UnsetType = UNSET
    team: str | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    speaker: str | UnsetType = UNSET
    context: str | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET

    def changes(self) -> dict[str, Any]:
        sent = self.given(EDITABLE)
        if not sent:
            raise InvalidInput("No field to change was given.", f"Send any of: {', '.join(EDITABLE)}.")
        return sent


class EditRequest(EditFields):
    why: Why = ""


class BulkRequest(RequestModel, kw_only=True):
    ids: Annotated[list[Id], Meta(min_length=1, max_length=bulk.MOST)]
    action: Annotated[str, _text("Action for all of them.", bulk.ACTIONS)]
    changes: Annotated[EditFields, Meta(description="Fields for the action edit, except the text.")] | UnsetType = UNSET
    tags: Annotated[list[str], _text("Tags that tag adds and untag removes.")] = []
    why: Why = ""

    def fields(self) -> dict[str, Any]:
        """Return the changes for each memory."""
        return {} if self.changes is UNSET else self.changes.changes()


class FlushRequest(FactFields, kw_only=True):
    summary: Annotated[str, _text("Summary to store, as Markdown.")]


class IndexNotesRequest(RequestModel):
    folder: Annotated[str, _text("Absolute path of a folder on the service's machine; default: the notes folder.")] = ""
    label: Annotated[str, _text("Name of the folder in the sources of its memories; default: the folder's name.")] = ""
    dry_run: DryRun = False


class ExportNotesRequest(ScopeFields, kw_only=True):
    folder: Annotated[str, _text("Absolute path of a folder on the service's machine.")]


class DeleteRequest(RequestModel):
    purge: Annotated[bool, _text("Erase it permanently, from the journal too.")] = False
    why: Why = ""


class SupersedeRequest(FactFields, kw_only=True):
    old_id: Id
    new_text: Annotated[str, _text("New fact, as a sentence.")]
    why: Why = ""


class IsNovelRequest(ScopeFields, kw_only=True):
    text: str
    speaker: str = ""
    threshold: Annotated[Share, _text("Cosine similarity from which it may be known already.")] | UnsetType = UNSET


class DeduplicateRequest(RequestModel):
    threshold: Annotated[Share, _text("Cosine similarity from which two may be duplicates.")] | UnsetType = UNSET
    source_prefix: str = ""
    dry_run: DryRun = True
    why: Why = ""


class ConsolidateRequest(RequestModel):
    source_prefix: Annotated[str, _text("Only this source and those below it.")] = ""
    dry_run: DryRun = True
    why: Why = ""


class PruneRequest(RequestModel):
    dry_run: DryRun = True
    why: Why = ""


class ApprovedDecision(RequestModel, kw_only=True, rename={"why": "reason"}):
    """Decision of a dry run, as returned by it."""

    action: Literal["merge", "delete"]
    id: Annotated[Id, _text("For delete: the memory to archive.")] | UnsetType = UNSET
    ids: Annotated[list[Id], _text("For merge: the memories to archive.")] | UnsetType = UNSET
    into: Annotated[Id, _text("For delete: the memory that replaces it.")] | UnsetType = UNSET
    text: Annotated[str, _text("For merge: the merged text.")] | UnsetType = UNSET
    why: Why = ""

    def as_decision(self) -> models_memory.Decision:
        names = ("ids", "text") if self.action == "merge" else ("id", "into")
        sent = self.given(("id", "ids", "into", "text"))
        if not set(names) - {"into"} <= sent.keys() <= set(names):
            raise InvalidInput(f"Fields missing or unexpected for {self.action!r}.", f"Fields: {', '.join(names)}.")
        why = check_text(self.why, "reason", models_memory.MAX_TEXT)
        if self.action == "merge":
            return models_memory.Merge(tuple(sent["ids"]), Fact(text=sent["text"]), why)
        return models_memory.Delete(sent["id"], why, sent.get("into"))


class ApproveRequest(RequestModel, kw_only=True):
    each: ClassVar[type[RequestModel]] = ApprovedDecision
    chore: Annotated[str, _text("Chore that made the decisions.", PROPOSED)]
    as_of: Annotated[int, Meta(ge=0, description="The `as_of` of the dry run that returned them.")]
    decisions: Annotated[list[ApprovedDecision], Meta(min_length=1, max_length=MAX_MEMORIES)]
    why: Why = ""

    def as_decisions(self) -> list[models_memory.Decision]:
        decisions = []
        for place, entry in enumerate(self.decisions):
            with error_location(f"decisions[{place}]"):
                decisions.append(entry.as_decision())
        return decisions


class DismissContradictionRequest(RequestModel, kw_only=True):
    ids: Annotated[list[Id], _text("The two compatible memories.")]
    why: Why = ""


class ContradictionsRequest(RequestModel):
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE, description="Maximum number of pairs.")] = 50


class RunsRequest(RequestModel):
    chore: Annotated[Literal["", "consolidate", "prune", "backup"], _text("Only this chore.")] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 20


class UsageRequest(ScopeFields):
    view: Annotated[Literal["never", "most", "stale"], _text("Recalled never, most, or not for long.")] = "most"
    days: Annotated[int, Meta(ge=0, le=36_500, description="Days without a recall, for stale.")] = 90
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50


class LLMUsageRequest(RequestModel):
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE, description="Maximum number of newest calls.")] = 20


class TeamFactsRequest(RequestModel):
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    category: Annotated[str, _text("Only this category or kind.", (*CATEGORIES, *KINDS))] = ""
    team: Annotated[str, _text("Only this team, if several are visible.")] | UnsetType = UNSET


class TeamPatternsRequest(TeamFactsRequest):
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 20
    min_occurrences: Annotated[int, Meta(ge=1, le=1_000_000, description="Minimum number of times.")] = 2


class EnrichRequest(RequestModel, kw_only=True):
    query: Annotated[str, _text("The user's message or question.")]
    session: Annotated[str, _text("Limit personal memories to what was said in this session.")] = ""
    include_team: Annotated[bool, _text("Include what the team knows.")] = False
    max_facts: Annotated[int, Meta(ge=1, le=50, description="Maximum number of facts per section.")] = 5


class AuditRequest(RequestModel):
    examples: Annotated[int, Meta(ge=0, le=100, description="Maximum number of examples per finding.")] = 5


class ExportRequest(RequestModel):
    vectors: Annotated[bool, _text("Whether to include the vectors.")] = False


class ListingRequest(ScopeFields):
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    after: Annotated[Id, _text("The `next` of the previous page.")] | UnsetType = UNSET
    skip: Annotated[int, Meta(ge=0, le=2**62, description="Number of memories to skip.")] = 0


class OverviewRequest(RequestModel):
    days: Annotated[int, Meta(ge=1, le=MOST_DAYS, description="Number of days to include, counting today.")] = 30


class MapRequest(ScopeFields):
    most: Annotated[int, Meta(ge=1, le=MOST_DOTS, description="Maximum number of memories, newest first.")] = MOST_DOTS


class AgentsRequest(RequestModel):
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 100


class ProjectsRequest(RequestModel):
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 100
    after: Annotated[str, _text("The last name of the previous page.")] = ""


class SessionsRequest(RequestModel):
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 20
    client: Annotated[str, _text("Only this client, such as claude-code.")] = ""
    project: (
        Annotated[str, _text("Only with turns in this project, by path or folder name; empty: in none.")] | UnsetType
    ) = UNSET
    since: Annotated[Time, _text("Only with turns from this time on.")] | UnsetType = UNSET

    def narrowed(self) -> dict[str, Any]:
        """Return the sent arguments of `Keeper.sessions`."""
        return _normalize_times(self.given(("limit", "client", "project", "since")), "since")


class SessionRequest(RequestModel, kw_only=True):
    session: Annotated[str, Meta(min_length=1, description="The id, or a unique prefix of it.")]
    client: Annotated[str, _text("Client of the session, if the id is ambiguous.")] = ""
    owner: Annotated[str, _text("User or agent who owns it, if ambiguous; empty: without an owner.")] | UnsetType = (
        UNSET
    )


class ResumeRequest(RequestModel):
    project: (
        Annotated[str, _text("Path or folder name; empty: without a project; omitted: all projects.")] | UnsetType
    ) = UNSET
    limit: Annotated[int, Meta(ge=1, le=20, description="Maximum number of sessions.")] = RESUMED
    max_tokens: Annotated[int, Meta(ge=100, le=20_000, description="Maximum size in tokens.")] = RESUME_TOKENS


class DeleteAllRequest(RequestModel, kw_only=True):
    source: Annotated[str, _text("This source and those below it.")]
    dry_run: DryRun = True
    why: Why = ""

    def prefix(self) -> str:
        """Return the source. Raise if it is empty, as an empty prefix would match everything."""
        if not self.source.strip().strip("/"):
            raise InvalidInput("The source is empty.", "Name the source whose memories are to be archived.")
        return self.source


class ExchangeFields(RequestModel, kw_only=True):
    """Fields of an exchange besides its messages."""

    source: Source = ""
    project: Project = ""
    client: Annotated[str, _text("Client that sends it.")] = ""
    session: str = ""
    turn: Annotated[str, _text("Name of the turn within the session: the same turn is captured once.")] = ""
    agent: str = ""
    user: Annotated[str, _text("User who owns the memories learned.")] = ""
    team: str = ""
    visibility: Visibility = "private"
    at: Annotated[Time, _text("When it was said; default now.")] | UnsetType = UNSET
    injected: Annotated[list[str], _text("Text injected into the agent's context, which is not learned as new.")] = []
    dry_run: Annotated[bool, _text("Only preview what would be learned.")] = False

    def about(self) -> dict[str, Any]:
        """Return the sent fields of an Exchange, besides the messages."""
        sent = _normalize_times(self.given(_EXCHANGE), "at")
        return {**sent, "injected": tuple(self.injected)}


class MessagesBody(ExchangeFields, kw_only=True):
    """Messages with their context."""

    messages: Annotated[str | list[dict[str, Any]], _text("A text, or messages with role and content, oldest first.")]
    context: Annotated[
        str,
        _text(
            "Event that sends it: stop, pre_compact, session_end, after_agent; or analysis: an agent's report, "
            "which is read for domain knowledge."
        ),
    ] = "stop"


class CaptureRequest(MessagesBody, kw_only=True):
    wait: Annotated[bool, _text("Learn from it now, and return the result.")] = False
    series: Annotated[int, Meta(ge=0), _text("The series of its backfill; 0 for none.")] = 0


class EmptyRequest(RequestModel):
    """Empty body."""


class PendingTurnsRequest(RequestModel):
    client: Annotated[str, _text("Client that captured it.")]
    session: str
    any_key: Annotated[bool, _text("With an admin key: include turns of other keys' sessions.")] = False


class ObserveRequest(ExchangeFields, kw_only=True):
    validated_intent: Annotated[str, _text("The user's intent, as validated.")] = ""
    response: Annotated[str, _text("The response: it counts like the user's own words.")]
    session: Annotated[str, _text("The observed activity.")] = ""
    dialogue: Annotated[str, _text("Name of the dialogue within the session, like turn: it is captured once.")] = ""
    visibility: Visibility = "team"
    wait: Annotated[bool, _text("Learn from it now, and return the result.")] = False

    def about(self) -> dict[str, Any]:
        if self.dialogue and self.turn:
            raise InvalidInput("dialogue and turn are the same field.", "Send one of them.")
        return {**ExchangeFields.about(self), "turn": self.dialogue or self.turn}


class ExtractRequest(MessagesBody, kw_only=True, rename={"later": "async"}):
    later: Annotated[bool, _text("Return a job at once; fetch the result later.")] = False


class InboxRequest(RequestModel):
    state: Annotated[str, _text("Only captures in this state.", STATES)] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    after: Annotated[Id, _text("The `next` of the previous page.")] | UnsetType = UNSET


class ChangesRequest(RequestModel):
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 20


class OwnerFields(RequestModel):
    """Owner and place of a domain knowledge row."""

    place: Annotated[str, _text("Source of the memories it was stated in: client/project.")] | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    user: Annotated[str, _text("User who owns it.")] | UnsetType = UNSET
    team: Annotated[str, _text("Team of the owner.")] | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET


class NewKnowledgeRequest(OwnerFields):
    """Fields of a domain knowledge row; which are allowed and required depends on the table."""

    id: Annotated[str, _text("Id within the table; default: derived from the content.")] | UnsetType = UNSET
    confidence: Annotated[Share, _text("New confidence; default: unchanged, initially 0.5.")] | UnsetType = UNSET
    pattern: Annotated[str, _text("What tends to happen: for patterns and seasonal.")] | UnsetType = UNSET
    source: Annotated[str, _text("Where it is observed: a market, a host, a sensor; * is any.")] | UnsetType = UNSET
    source_a: Annotated[str, _text("First side of a correlation.")] | UnsetType = UNSET
    source_b: Annotated[str, _text("Second side of a correlation.")] | UnsetType = UNSET
    rule: Annotated[str, _text("How both sides are related, in words.")] | UnsetType = UNSET
    relation: Annotated[str, _text("Whether one side leads the other.", RELATIONS)] | UnsetType = UNSET
    inverse: Annotated[bool, _text("When one side rises, the other falls.")] | UnsetType = UNSET
    metric: Annotated[str, _text("Metric of a threshold: volume, latency.")] | UnsetType = UNSET
    value: Annotated[float, _text("Value of the threshold.")] | UnsetType = UNSET
    direction: Annotated[str, _text("Side of the value that triggers.", DIRECTIONS)] | UnsetType = UNSET
    inclusive: Annotated[bool, _text("Whether the value itself triggers.")] | UnsetType = UNSET
    unit: Annotated[str, _text("Unit of the value: %, ms, GB, $.")] | UnsetType = UNSET
    period: Annotated[str, _text("Period of recurrence.", PERIODS)] | UnsetType = UNSET
    during: Annotated[str, _text("When in the period: mon-fri, 09:30-16:00, a cron expression.")] | UnsetType = UNSET
    lasts: Annotated[int, Meta(ge=1, description="Minutes, from each time of a cron expression.")] | UnsetType = UNSET
    timezone: Annotated[str, _text("Time zone of `during`.")] | UnsetType = UNSET
    memory: Annotated[Id, _text("The memory that states it.")] | UnsetType | None = UNSET
    created_at: Annotated[Time, _text("When it was first known; an existing row keeps its own.")] | UnsetType = UNSET
    why: Why = ""

    def known(self) -> dict[str, Any]:
        """Return the sent fields of a row."""
        return _normalize_times(self.given(name for name in self.__struct_fields__ if name != "why"), "created_at")


class NewVerdictRequest(OwnerFields, kw_only=True):
    anomaly: Annotated[str, _text("Name of the judged anomaly; a later verdict on it replaces this one.")]
    verdict: Annotated[str, _text("The verdict.", VERDICTS)]
    note: Annotated[str, _text("Result of the investigation.")] = ""
    about: Annotated[list[str], _text("Claims that raised it: thresholds/aapl.volume.above.")] = []
    process: Annotated[bool, _text("Adjust the claims now; otherwise only store the verdict.")] = True
    id: Annotated[str, _text("Id; default: derived from the anomaly.")] | UnsetType = UNSET
    why: Why = ""

    def known(self) -> dict[str, Any]:
        """Return the sent fields besides the anomaly and the verdict."""
        whose = self.given(("id", *OwnerFields.__struct_fields__))
        return {"note": self.note, "about": tuple(self.about), "process": self.process, **whose}


class RowListingRequest(OwnerFields):
    """Filter fields of a table; omitted fields do not filter."""

    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    after: Annotated[str, _text("The `next` of the previous page.")] | UnsetType = UNSET

    def where(self) -> dict[str, Any]:
        """Return the sent fields of a row."""
        return self.given(name for name in self.__struct_fields__ if name not in ("limit", "after", "min_confidence"))


class KnowledgeListingRequest(RowListingRequest):
    min_confidence: Annotated[Share, _text("Minimum confidence of a row.")] = 0.0
    source: Annotated[str, _text("Only this source.")] | UnsetType = UNSET
    source_a: str | UnsetType = UNSET
    source_b: str | UnsetType = UNSET
    relation: Annotated[str, _text("Only this relation.", RELATIONS)] | UnsetType = UNSET
    metric: Annotated[str, _text("Only this metric.")] | UnsetType = UNSET
    direction: Annotated[str, _text("Only this direction.", DIRECTIONS)] | UnsetType = UNSET
    unit: str | UnsetType = UNSET
    period: Annotated[str, _text("Only this period.", PERIODS)] | UnsetType = UNSET
    memory: Annotated[Id, _text("Only rows stated by this memory.")] | UnsetType = UNSET


class FeedbackListingRequest(RowListingRequest):
    anomaly: str | UnsetType = UNSET
    verdict: Annotated[str, _text("Only these verdicts.", VERDICTS)] | UnsetType = UNSET
    processed: Annotated[bool, _text("Whether the verdict has been applied to its claims.")] | UnsetType = UNSET


class EvaluateRequest(RequestModel, kw_only=True):
    source: Annotated[str, _text("What was measured: a market, a host, a sensor.")]
    metric: Annotated[str, _text("Measured metric: volume, latency.")]
    value: float
    unit: Annotated[str, _text("Unit of the value; thresholds in another unit are skipped.")] = ""


class ActiveAtRequest(RequestModel):
    at: Annotated[Time, _text("The time; default now.")] | UnsetType = UNSET
    source: Annotated[str, _text("Only this source.")] = ""

    def moment(self) -> str:
        """Return the sent time, or "" for now."""
        return str(_normalize_times(self.given(("at",)), "at").get("at", ""))


class RelatedToRequest(RequestModel, kw_only=True):
    source: Annotated[str, _text("Source to start from.")]
    depth: Annotated[int, Meta(ge=1, description="Maximum number of steps.")] = 1


class ReadTextRequest(RequestModel, kw_only=True):
    text: Annotated[str, _text("An agent's answer.")]


class NewKeyRequest(RequestModel, kw_only=True):
    name: Annotated[str, _text("Holder or purpose.")]
    role: Annotated[str, _text("What it allows.", ROLES)] = "write"
    agent: Annotated[str, _text("Agent it is bound to.")] = ""
    user: Annotated[str, _text("User it is bound to.")] = ""
    team: Annotated[str, _text("The user's team.")] = ""
    prefixes: Annotated[list[str], _text("Sources it may see and write, including those below; default: all.")] = []
    expires_at: Annotated[Time, _text("When it expires; default: never.")] | None = None

    def as_grant(self) -> Grant:
        about = {name: getattr(self, name) for name in ("name", "role", "agent", "user", "team")}
        expires = None if self.expires_at is None else to_utc_iso(self.expires_at)
        return Grant(**about, prefixes=tuple(self.prefixes), expires_at=expires)


class AuditLogRequest(RequestModel):
    key: Annotated[Id, _text("Only this key.")] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    after: Annotated[Id, _text("The `next` of the previous page.")] | UnsetType = UNSET


class DoctorRequest(RequestModel):
    about: Annotated[Literal["everything", "clients"], _text("What to check; clients: only their hooks.")] = (
        "everything"
    )


_EXCHANGE = tuple(name for name in Exchange.__dataclass_fields__ if name != "messages")
_SCOPE = tuple(name for name in Scope.__dataclass_fields__ if name != "viewer")  # set by the service
_FACT = tuple(name for name in Fact.__dataclass_fields__ if name != "text")


@contextmanager
def error_location(place: str) -> Iterator[None]:
    """Prefix validation errors with the place of the value."""
    try:
        yield
    except InvalidInput as error:
        raise type(error)(f"{place}: {error.message}", error.hint) from error


def _normalize_times(values: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        if values.get(name, "") != "":
            with error_location(name):
                values[name] = to_utc_iso(values[name])
    return values
