"""HTTP routes: one list, from which the router, the OpenAPI document and the docs page are generated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from cofio.models.auth import Role
from cofio.server.http import events, metrics
from cofio.server.http import requests as req
from cofio.server.http import response_types as shared
from cofio.server.http import responses as res
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.handlers import (
    bulk,
    chat,
    dashboard,
    episodes,
    export,
    hooks,
    ingest,
    keys,
    knowledge,
    maintenance,
    mcp,
    memories,
    notes,
    sessions,
    settings,
    static_files,
    team,
)
from cofio.server.http.handlers import map as atlas
from cofio.server.http.responses import HandlerReply
from cofio.server.ui import PAGES

Answer = Callable[[AppState, Any, RequestContext], HandlerReply | dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Route:
    """Route: one method of one path, with its request and reply types and its handler."""

    method: str
    path: str
    answer: Answer
    takes: type[req.RequestModel] | None  # the body of a POST or PATCH, the query string of a GET or DELETE
    gives: type[Struct] | str  # schema of a JSON reply, or the media type of any other
    says: str
    example: Mapping[str, Any] | None = None
    statuses: tuple[int, ...] = (200,)
    later: type[Struct] | None = None  # schema of a 202 reply, if different
    keyless: bool = False  # whether it answers requests without a key
    quick: bool = False  # whether it must answer while every worker is busy
    apart: bool = False  # whether it has its own workers: its cost cannot be known in advance
    hungry: bool = False  # whether it is CPU-bound: at most as many run at once as there are cores
    drawing: bool = False  # whether it is CPU-bound for seconds: limited to half the cores, for recall
    whole: bool = False  # whether it reads the whole store in chunks: few of these run at once
    lasting: bool = False  # whether it lasts until the client disconnects
    page: bool = False  # whether people visit it with a browser
    raw: bool = False  # whether it takes the raw body
    bodiless: bool = False  # whether a POST takes a query string instead of a body
    role: Role = "admin"  # least role required
    logs_itself: bool = False  # whether its handler writes the audit log itself

    def shape(self, status: int) -> type[Struct] | str:
        """Return the schema of a reply with this status."""
        return self.later if status == 202 and self.later else self.gives

    @property
    def changes(self) -> bool:
        """Return whether the request is recorded in the audit log, as it may have changed something."""
        return self.method != "GET" and self.role != "read" and not self.logs_itself

    @property
    def sample(self) -> str:
        """Example path with valid names."""
        return self.path.format(id=1, table="thresholds", row="aapl.volume.above", file="style.css")

    @property
    def has_body(self) -> bool:
        return self.raw or (self.takes is not None and self.method in ("POST", "PATCH") and not self.bodiless)


_FACT = {"text": "We deploy on Fridays, after lunch.", "source": "claude/web", "kind": "policy"}

_SAID = {
    "messages": [{"role": "user", "content": "We switched from Prisma to Drizzle."}],
    "source": "claude-code/web", "client": "claude-code", "session": "s1", "turn": "1",
}  # fmt: skip

ROUTES: tuple[Route, ...] = (
    Route("GET", "/health", memories.health, None, res.HealthResponse,
          "Report whether the service runs and the key is valid.",
          keyless=True, quick=True, role="read"),
    Route("GET", "/stats", memories.stats, None, res.StatsResponse,
          "Count memories, changes, retrievals; size on disk.",
          role="read"),
    Route("GET", "/overview", dashboard.overview, req.OverviewRequest, res.OverviewResponse,
          "Summarise the store: counts, arrivals of the last days, changes, injections into sessions.", role="read"),
    Route("GET", "/events", dashboard.events, None, events.MEDIA,
          "Server-sent events for changes to memories, recalls and the inbox. The stream stays open until the client "
          "disconnects.",
          lasting=True, role="read"),
    Route("GET", "/map", atlas.drawn, req.MapRequest, res.MapResponse,
          "Show live memories as points of a 2-D map, similar ones close together, in named clusters.",
          drawing=True, role="read"),
    Route("GET", "/agents", dashboard.agents, req.AgentsRequest, res.AgentsResponse,
          "List the agents using the store: what each has stored and recalled, and when; latest first.", role="admin"),
    Route("GET", "/metrics", memories.measured, None, metrics.MEDIA, "Metrics for Prometheus.", quick=True,
          role="admin"),
    Route("GET", "/openapi.json", memories.document, None, res.JSON, "This API as an OpenAPI document.",
          keyless=True, quick=True, role="read"),
    Route("GET", "/docs", memories.page, None, "text/html", "This API as a web page.",
          keyless=True, quick=True, page=True, role="read"),
    Route("GET", "/ui", static_files.first_page, None, "text/html", "Redirect to the web UI.", statuses=(307,),
          keyless=True, quick=True, page=True, role="read"),
    *(Route("GET", f"/ui/{name}", static_files.page_of(name), None, "text/html", f"Web UI page: {called}.",
            keyless=True, quick=True, page=True, role="read")
      for name, called in PAGES.items()),
    Route("GET", "/ui/{file}", static_files.page_file, None, "*/*", "A script, stylesheet or image of the web UI.",
          keyless=True, quick=True, role="read"),
    Route("POST", "/search", memories.search, req.SearchRequest, res.SearchResponse,
          "Search memories, best matches first.",
          {"query": "when do we deploy?", "k": 3}, hungry=True, role="read"),
    Route("POST", "/search/batch", memories.search_all, req.SearchAllRequest, res.SearchAllResponse,
          "Run several searches.",
          {"queries": ["when do we deploy?", {"query": "who reviews?", "kind": "policy"}]}, hungry=True, role="read"),
    Route("POST", "/episodes/search", episodes.search_episodes, req.SearchEpisodesRequest, res.EpisodeSearchResponse,
          "Search captured conversations by turn, including those without extracted facts; best matches first.",
          {"query": "what did we say about the harbour?", "k": 3}, hungry=True, role="read"),
    Route("GET", "/episodes/{id}", episodes.show_episode, None, res.EpisodeResponse,
          "Get one episode: the conversation of one turn.", role="read"),
    Route("DELETE", "/episodes/{id}", episodes.purge_episode, None, res.EpisodeDeletedResponse,
          "Erase an episode permanently, with the text of its capture; memories learned from it stay.", role="write"),
    Route("GET", "/sessions", sessions.list_sessions, req.SessionsRequest, res.AgentSessionsResponse,
          "List agent sessions by their last turn, newest first.", role="read"),
    Route("GET", "/session", sessions.show_session, req.SessionRequest, res.SessionDetailResponse,
          "Get one session: its turns and compaction summaries, recalls, memories learned and changes.",
          role="read"),
    Route("GET", "/resume", sessions.resume, req.ResumeRequest, res.ResumeReportResponse,
          "Report where work on a project stopped: its last sessions, with a text of limited size. Calls no model.",
          role="read"),
    Route("POST", "/recall", memories.recall, req.RecallRequest, res.RecallResponse,
          "Get the context block for an agent, as text: at a session start, or relevant memories for a prompt.",
          {"prompt": "can I deploy today?", "project": "/home/ada/web"}, hungry=True, role="read"),
    Route("POST", "/recall/context", memories.recall_context, req.RecallContextRequest, res.EnrichResponse,
          "Get background for a monitoring agent: matching memories, patterns, thresholds, and which of them trigger.",
          {"query": "AAPL volume is 6.2M"}, hungry=True, role="read"),
    Route("POST", "/enrich", team.enrich, req.EnrichRequest, res.EnrichResponse,
          "Get sections with personal and team memories to append to a system message, or an empty text.",
          {"query": "which database do we use?", "session": "s1", "include_team": True}, hungry=True, role="read"),
    Route("GET", "/team/facts", team.facts, req.TeamFactsRequest, res.TeamFactsResponse,
          "List what the team knows, most recently stated first.", role="read"),
    Route("GET", "/team/patterns", team.patterns, req.TeamPatternsRequest, res.TeamPatternsResponse,
          "List facts that agents repeatedly stated to the team, most frequent first.", role="read"),
    Route("POST", "/memory/add", memories.add, req.AddRequest, res.AddResponse,
          "Store a fact: 201 if it is new, 200 if it was known.", _FACT, (201, 200), role="write"),
    Route("POST", "/memory/add-batch", memories.add_all, req.AddAllRequest, res.AddAllResponse,
          "Store many facts in one changeset, or none of them.", {"memories": [_FACT, {"text": "Ann reviews."}]},
          role="write"),
    Route("POST", "/memory/supersede", memories.supersede, req.SupersedeRequest, res.SupersedeResponse,
          "Replace a memory by a new one.", {"old_id": 1, "new_text": "We deploy on Mondays."}, role="write"),
    Route("POST", "/memory/is-novel", memories.is_novel, req.IsNovelRequest, res.NoveltyResponse,
          "Check whether a text says something new.", {"text": "Deployments are on Fridays."}, role="read"),
    Route("POST", "/memory/deduplicate", memories.deduplicate, req.DeduplicateRequest, res.PlanResponse,
          "Merge duplicate memories; only previews unless dry_run is false.", {"dry_run": True},
          role="admin"),
    Route("POST", "/notes/flush", notes.flush_note, req.FlushRequest, res.AddResponse,
          "Write a summary to a Markdown file in the notes folder, and store it as a memory.", statuses=(201, 200),
          role="write"),
    Route("GET", "/notes", notes.list_notes, None, res.NotesFoldersResponse,
          "List the Markdown folders that were indexed or are followed, and when they were last read.", role="admin"),
    Route("POST", "/notes/index", notes.index_notes, req.IndexNotesRequest, res.IndexNotesResponse,
          "Sync memories with the Markdown files of a folder on this machine: new, edited and deleted ones.",
          role="admin"),
    Route("POST", "/notes/export", notes.export_notes, req.ExportNotesRequest, res.ExportNotesResponse,
          "Write memories to a folder on this machine, one Markdown note each.", role="admin"),
    Route("POST", "/capture", ingest.capture, req.CaptureRequest, res.CaptureResponse,
          "Store an exchange and learn from it: 202 at once, 200 with the result if `wait` is set.", _SAID, (202, 200),
          role="write"),
    Route("POST", "/observe", ingest.observe, req.ObserveRequest, res.CaptureResponse,
          "Store an observed dialogue for the team: 202 at once, or 200 with the result if `wait` is set.",
          {"validated_intent": "Find out how we sign in.", "response": "We switched from JWT to Clerk for auth.",
           "session": "activity-7", "agent": "agent-1"}, (202, 200), role="write"),
    Route("POST", "/memory/extract", ingest.extract, req.ExtractRequest, res.LearningResultResponse,
          "Extract facts with the model: 200 with the result, or 202 with a job; 501 without a model.",
          {"messages": "User: use drizzle\nAssistant: Good call.", "source": "claude-code/web", "context": "stop"},
          (200, 202), later=res.SubmittedResponse, role="write"),
    Route("GET", "/memory/extract/{id}", ingest.job, None, res.JobResponse, "Get an extraction job and its result.",
          role="write"),
    Route("GET", "/extract/status", ingest.status, None, res.ExtractionResponse,
          "Report the configured extraction model and its state.", role="read"),
    Route("POST", "/backfills", ingest.begin_backfill, req.EmptyRequest, res.BackfillResponse,
          "Begin a backfill, or resume an unfinished one; its captures name the returned changeset as their series.",
          {}, role="admin"),
    Route("POST", "/backfills/{id}/end", ingest.end_backfill, req.EmptyRequest, res.BackfillResponse,
          "Mark a backfill as done.", {}, role="admin"),
    Route("GET", "/turns", ingest.turns, req.PendingTurnsRequest, res.TurnsResponse,
          "List the captured turns of a session.", role="write"),
    Route("GET", "/inbox/status", ingest.inbox_status, None, res.InboxStatusResponse,
          "Count all captures by state: stored, merged, rejected or pending.", role="admin"),
    Route("GET", "/inbox", ingest.inbox, req.InboxRequest, res.ItemsResponse, "List captures, newest first.",
          role="write"),
    Route("GET", "/inbox/{id}", ingest.item, None, res.InboxItemResponse, "Get one capture.", role="write"),
    Route("POST", "/inbox/{id}/retry", ingest.retry, None, res.InboxItemResponse,
          "Queue a parked or rejected capture again.", role="write"),
    Route("POST", "/v1/chat/completions", chat.completions, None, res.JSON,
          "Chat completion in OpenAI's format: adds memories, asks an upstream, and learns from the exchange.",
          raw=True, hungry=True, role="write"),
    Route("GET", "/v1/models", chat.models, None, res.JSON, "List the models of the chat's upstream.", role="read"),
    Route("POST", "/mcp", mcp.exchange, None, res.JSON,
          "Model Context Protocol for agents: one message per request; 501 if the extra `mcp` is not installed.",
          statuses=(200, 202), raw=True, apart=True, role="read"),
    *(Route("POST", f"/hooks/{client}", hooks.answer_to(client), None, res.JSON,
            f"Answer a hook of {called}, in its own JSON: 200 with context for the agent, or 204.",
            statuses=(200, 204), raw=True, role="write")
      for client, called in hooks.CALLED.items()),
    Route("GET", "/memory/{id}", memories.get, None, res.MemoryDetailResponse, "Get one memory, archived or not.",
          role="read"),
    Route("PATCH", "/memory/{id}", memories.edit, req.EditRequest, res.ChangedResponse,
          "Change fields of a memory in place.",
          {"tags": ["release"], "pinned": True}, role="write"),
    Route("DELETE", "/memory/{id}", memories.delete, req.DeleteRequest, res.DeletedResponse,
          "Archive a memory, or erase it.",
          role="write"),
    Route("POST", "/memory/{id}/restore", memories.restore, req.ReasonRequest, res.ChangedResponse,
          "Restore an archived memory.", role="write"),
    Route("POST", "/memory/{id}/mark-fresh", memories.mark_fresh, req.ReasonRequest, res.ChangedResponse,
          "Mark a memory as still valid: the files, definitions and commands it names are fingerprinted again.",
          role="write"),
    Route("GET", "/memory/{id}/freshness", memories.freshness, None, res.FreshnessResponse,
          "Check whether the code that a memory references has changed.", role="read"),
    Route("GET", "/memory/{id}/occurrences", memories.occurrences, None, res.OccurrencesResponse,
          "List who stated a memory, where and when: the first time and every time since.", role="read"),
    Route("GET", "/memory/{id}/exchange", bulk.exchange, None, res.BackfillStateResponse,
          "Get the capture that a memory was learned from; null if it has none or its text is forgotten.",
          role="write"),
    Route("GET", "/memory/{id}/history", memories.history, None, res.HistoryResponse,
          "List every change of a memory and of its lineage, oldest first.", role="read"),
    Route("GET", "/memories", memories.listing, req.ListingRequest, res.PageResponse, "List memories, newest first.",
          role="read"),
    Route("POST", "/memories/bulk", bulk.change_all, req.BulkRequest, res.ChangesetResponse,
          "Archive, restore, pin, unpin, edit, tag or untag many memories in one changeset, or none of them.",
          {"ids": [1, 2], "action": "tag", "tags": ["release"]}, role="write"),
    Route("GET", "/projects", memories.projects, req.ProjectsRequest, res.ProjectsResponse,
          "List the projects of memories by name, with the number of memories in each.", role="read"),
    Route("GET", "/export", export.export, req.ExportRequest, export.MEDIA,
          "Export every memory that the caller may see, archived ones included, as lines of JSON after a header.",
          whole=True, role="read"),
    Route("DELETE", "/memories", memories.delete_all, req.DeleteAllRequest, res.PlanResponse,
          "Archive all memories of a source; only previews unless dry_run is false.", role="admin"),
    Route("GET", "/changes", memories.changes, req.ChangesRequest, res.ChangesetsResponse,
          "List the newest changesets.",
          role="read"),
    Route("GET", "/changes/{id}", memories.changeset, None, res.ChangesetResponse,
          "Get one changeset with all its changes.",
          role="read"),
    Route("POST", "/changes/{id}/undo", memories.undo, req.ReasonRequest, res.ChangesetResponse,
          "Revert a whole changeset; the undo can be undone in turn.", {"why": "that was wrong"}, role="write"),
    Route("POST", "/maintenance/consolidate", maintenance.consolidate, req.ConsolidateRequest,
          res.MaintenanceJobResponse,
          "Merge duplicates and report refused merges; only previews unless dry_run is false.", bodiless=True,
          role="admin"),
    Route("POST", "/maintenance/prune", maintenance.prune, req.PruneRequest, res.MaintenanceJobResponse,
          "Archive memories not recalled for long; only previews unless dry_run is false.", bodiless=True,
          role="admin"),
    Route("POST", "/maintenance/approve", maintenance.approve, req.ApproveRequest, res.ChangesetResponse,
          "Apply some of the decisions of a dry run, in one changeset; 409 if one of the memories was changed since.",
          role="admin"),
    Route("GET", "/maintenance/contradictions", maintenance.contradictions, req.ContradictionsRequest,
          res.ContradictionsResponse,
          "List pairs of memories that contradict each other, newest first.", hungry=True, role="admin"),
    Route("POST", "/maintenance/contradictions/dismiss", maintenance.dismiss_contradiction,
          req.DismissContradictionRequest, res.ChangesetResponse,
          "Mark two memories as compatible: no contradiction until one of them changes.",
          role="admin"),
    Route("GET", "/maintenance/runs", maintenance.runs, req.RunsRequest, res.RunsResponse,
          "List chore runs with their outcome, and the schedule.", role="admin"),
    Route("GET", "/maintenance/usage", maintenance.usage, req.UsageRequest, res.UsedMemoryResponse,
          "List memories never recalled, recalled most, or stale: not recalled for long.", role="admin"),
    Route("GET", "/llm/usage", maintenance.llm_usage, req.LLMUsageRequest, res.LLMUsageResponse,
          "List model calls of today and the last 7 and 30 days, by model and session, limits, and the newest calls.",
          role="admin"),
    Route("GET", "/llm/usage/{id}", maintenance.llm_call, None, res.LLMCallResponse,
          "Get one call of the language model, with redacted request and reply.", role="admin"),
    Route("GET", "/maintenance/audit", maintenance.audit, req.AuditRequest, res.AuditResponse,
          "Profile the store: duplicates, echoes, secrets, stale and contradicted memories.", hungry=True,
          role="admin"),
    Route("GET", "/knowledge", knowledge.count_knowledge, None, shared.CountResponse,
          "Count the rows of each domain knowledge table.", role="read"),
    Route("POST", "/knowledge/evaluate", knowledge.evaluate, req.EvaluateRequest, shared.FiringResponse,
          "List the thresholds that a value crosses, highest confidence first.",
          {"source": "AAPL", "metric": "volume", "value": 6_200_000}, role="read"),
    Route("GET", "/knowledge/active", knowledge.active, req.ActiveAtRequest, shared.ActiveResponse,
          "List the seasonal patterns active at a time, highest confidence first.", role="read"),
    Route("GET", "/knowledge/related", knowledge.related, req.RelatedToRequest, shared.RelatedResponse,
          "List correlations of a source, in either direction, nearest first.", role="read"),
    Route("POST", "/knowledge/read", knowledge.read_knowledge, req.ReadTextRequest, shared.ReadingsResponse,
          "Preview the rows that an agent's answer would add to the tables or remove. Changes nothing.",
          {"text": "Flag AAPL if volume exceeds 5M."}, role="read"),
    Route("GET", "/knowledge/feedback", knowledge.list_feedback, req.FeedbackListingRequest, shared.RowsResponse,
          "List verdicts, newest first.", role="read"),
    Route("POST", "/knowledge/feedback", knowledge.give_feedback, req.NewVerdictRequest, res.ChangesetResponse,
          "Store a verdict on an anomaly and adjust the confidence of what it judges, in one changeset.",
          {"anomaly": "AAPL 2026-02-20", "verdict": "false_alarm", "note": "index rebalancing"}, role="write"),
    Route("POST", "/knowledge/feedback/process", knowledge.process_feedback, req.ReasonRequest, res.ProcessedResponse,
          "Apply every stored but unprocessed verdict, once.", role="write"),
    Route("GET", "/knowledge/{table}", knowledge.list_knowledge, req.KnowledgeListingRequest, shared.RowsResponse,
          "List the rows of a table, highest confidence first.", role="read"),
    Route("POST", "/knowledge/{table}", knowledge.put_knowledge, req.NewKnowledgeRequest,
          shared.KnowledgeChangeResponse,
          "Store a row: 201 if it is new; 200 if it replaced the row with its id, or was identical to it.",
          {"source": "AAPL", "metric": "volume", "value": 5_000_000, "direction": "above"}, (201, 200), role="write"),
    Route("GET", "/knowledge/{table}/{row}", knowledge.get_knowledge, None, shared.KnowledgeRowResponse,
          "Get one row.", role="read"),
    Route("DELETE", "/knowledge/{table}/{row}", knowledge.delete_knowledge, req.ReasonRequest,
          shared.KnowledgeChangeResponse,
          "Remove a row; undo of the changeset restores it.", role="write"),
    Route("GET", "/knowledge/{table}/{row}/history", knowledge.knowledge_history, None, shared.RowHistoryResponse,
          "List every change of a row, oldest first.", role="read"),
    Route("POST", "/knowledge/{table}/{row}/purge", knowledge.purge_knowledge, req.ReasonRequest,
          shared.KnowledgeChangeResponse,
          "Erase a row permanently, from the journal too.", role="write"),
    Route("GET", "/keys", keys.list_keys, None, res.KeysResponse, "List every key ever created, newest first.",
          role="admin"),
    Route("POST", "/keys", keys.create_key, req.NewKeyRequest, res.NewKeyResponse,
          "Create a key: the reply has its secret, which is not stored and cannot be shown again.", statuses=(201,),
          role="admin", logs_itself=True),
    Route("DELETE", "/keys/{id}", keys.revoke_key, None, res.KeyResponse, "Revoke a key: it no longer grants access.",
          role="admin", logs_itself=True),
    Route("GET", "/keys/log", keys.log, req.AuditLogRequest, res.AuditLogResponse,
          "List the audit log, newest first: use of keys, and refused req.", role="admin"),
    Route("GET", "/settings", settings.show_settings, None, res.SettingsResponse,
          "List the settings in force and where each comes from; secrets only as set or not set.", role="admin"),
    Route("GET", "/doctor", settings.examine, req.DoctorRequest, res.ChecksResponse,
          "Run the doctor, on the service's machine only: the service, the store, the model, clients' hooks.",
          role="admin"),
)  # fmt: skip
