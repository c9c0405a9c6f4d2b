"""HTTP routes: one list, from which the router, the OpenAPI document and the docs page are generated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from cofio.access import Role
from cofio.api import (
    answers,
    bulk,
    captures,
    chat,
    episodes,
    exporting,
    hooks,
    keys,
    knowledge,
    mcp,
    metrics,
    news,
    notes,
    outlook,
    page,
    replies,
    schemas,
    sessions,
    settings,
    shapes,
    team,
    upkeep,
)
from cofio.api import map as atlas
from cofio.api.desk import Call, Desk
from cofio.api.replies import Reply
from cofio.page import PAGES

Answer = Callable[[Desk, Any, Call], Reply | dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Route:
    """Route: one method of one path, with its request and reply types and its handler."""

    method: str
    path: str
    answer: Answer
    takes: type[schemas.Given] | None  # the body of a POST or PATCH, the query string of a GET or DELETE
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
    Route("GET", "/health", answers.health, None, replies.Health,
          "Report whether the service runs and the key is valid.",
          keyless=True, quick=True, role="read"),
    Route("GET", "/stats", answers.stats, None, replies.Stats, "Count memories, changes, retrievals; size on disk.",
          role="read"),
    Route("GET", "/overview", outlook.overview, schemas.Overview, replies.Overview,
          "Summarise the store: counts, arrivals of the last days, changes, injections into sessions.", role="read"),
    Route("GET", "/events", outlook.events, None, news.MEDIA,
          "Server-sent events for changes to memories, recalls and the inbox. The stream stays open until the client "
          "disconnects.",
          lasting=True, role="read"),
    Route("GET", "/map", atlas.drawn, schemas.Mapped, replies.Map,
          "Show live memories as points of a 2-D map, similar ones close together, in named clusters.",
          drawing=True, role="read"),
    Route("GET", "/agents", outlook.agents, schemas.Agents, replies.Agents,
          "List the agents using the store: what each has stored and recalled, and when; latest first.", role="admin"),
    Route("GET", "/metrics", answers.measured, None, metrics.MEDIA, "Metrics for Prometheus.", quick=True,
          role="admin"),
    Route("GET", "/openapi.json", answers.document, None, replies.JSON, "This API as an OpenAPI document.",
          keyless=True, quick=True, role="read"),
    Route("GET", "/docs", answers.page, None, "text/html", "This API as a web page.",
          keyless=True, quick=True, page=True, role="read"),
    Route("GET", "/ui", page.first_page, None, "text/html", "Redirect to the web UI.", statuses=(307,),
          keyless=True, quick=True, page=True, role="read"),
    *(Route("GET", f"/ui/{name}", page.page_of(name), None, "text/html", f"Web UI page: {called}.",
            keyless=True, quick=True, page=True, role="read")
      for name, called in PAGES.items()),
    Route("GET", "/ui/{file}", page.page_file, None, "*/*", "A script, stylesheet or image of the web UI.",
          keyless=True, quick=True, role="read"),
    Route("POST", "/search", answers.search, schemas.Search, replies.Found, "Search memories, best matches first.",
          {"query": "when do we deploy?", "k": 3}, hungry=True, role="read"),
    Route("POST", "/search/batch", answers.search_all, schemas.SearchAll, replies.FoundAll, "Run several searches.",
          {"queries": ["when do we deploy?", {"query": "who reviews?", "kind": "policy"}]}, hungry=True, role="read"),
    Route("POST", "/episodes/search", episodes.search_episodes, schemas.SearchEpisodes, replies.EpisodesFound,
          "Search captured conversations by turn, including those without extracted facts; best matches first.",
          {"query": "what did we say about the harbour?", "k": 3}, hungry=True, role="read"),
    Route("GET", "/episodes/{id}", episodes.show_episode, None, replies.Episode,
          "Get one episode: the conversation of one turn.", role="read"),
    Route("DELETE", "/episodes/{id}", episodes.purge_episode, None, replies.EpisodeGone,
          "Erase an episode permanently, with the text of its capture; memories learned from it stay.", role="write"),
    Route("GET", "/sessions", sessions.list_sessions, schemas.Sessions, replies.AgentSessions,
          "List agent sessions by their last turn, newest first.", role="read"),
    Route("GET", "/session", sessions.show_session, schemas.OneSession, replies.SessionDetail,
          "Get one session: its turns and compaction summaries, recalls, memories learned and changes.",
          role="read"),
    Route("GET", "/resume", sessions.resume, schemas.Resume, replies.ResumeReport,
          "Report where work on a project stopped: its last sessions, with a text of limited size. Calls no model.",
          role="read"),
    Route("POST", "/recall", answers.recall, schemas.Recall, replies.Recalled,
          "Get the context block for an agent, as text: at a session start, or relevant memories for a prompt.",
          {"prompt": "can I deploy today?", "project": "/home/ada/web"}, hungry=True, role="read"),
    Route("POST", "/recall/context", answers.recall_context, schemas.RecallContext, replies.Enriched,
          "Get background for a monitoring agent: matching memories, patterns, thresholds, and which of them trigger.",
          {"query": "AAPL volume is 6.2M"}, hungry=True, role="read"),
    Route("POST", "/enrich", team.enrich, schemas.Enrich, replies.Enriched,
          "Get sections with personal and team memories to append to a system message, or an empty text.",
          {"query": "which database do we use?", "session": "s1", "include_team": True}, hungry=True, role="read"),
    Route("GET", "/team/facts", team.facts, schemas.TeamFacts, replies.TeamFacts,
          "List what the team knows, most recently stated first.", role="read"),
    Route("GET", "/team/patterns", team.patterns, schemas.TeamPatterns, replies.Patterns,
          "List facts that agents repeatedly stated to the team, most frequent first.", role="read"),
    Route("POST", "/memory/add", answers.add, schemas.Add, replies.Added,
          "Store a fact: 201 if it is new, 200 if it was known.", _FACT, (201, 200), role="write"),
    Route("POST", "/memory/add-batch", answers.add_all, schemas.AddAll, replies.AddedAll,
          "Store many facts in one changeset, or none of them.", {"memories": [_FACT, {"text": "Ann reviews."}]},
          role="write"),
    Route("POST", "/memory/supersede", answers.supersede, schemas.Supersede, replies.Superseded,
          "Replace a memory by a new one.", {"old_id": 1, "new_text": "We deploy on Mondays."}, role="write"),
    Route("POST", "/memory/is-novel", answers.is_novel, schemas.IsNovel, replies.Novelty,
          "Check whether a text says something new.", {"text": "Deployments are on Fridays."}, role="read"),
    Route("POST", "/memory/deduplicate", answers.deduplicate, schemas.Deduplicate, replies.Plan,
          "Merge duplicate memories; only previews unless dry_run is false.", {"dry_run": True},
          role="admin"),
    Route("POST", "/notes/flush", notes.flush_note, schemas.Flush, replies.Added,
          "Write a summary to a Markdown file in the notes folder, and store it as a memory.", statuses=(201, 200),
          role="write"),
    Route("GET", "/notes", notes.list_notes, None, replies.NotesFolders,
          "List the Markdown folders that were indexed or are followed, and when they were last read.", role="admin"),
    Route("POST", "/notes/index", notes.index_notes, schemas.IndexNotes, replies.IndexedNotes,
          "Sync memories with the Markdown files of a folder on this machine: new, edited and deleted ones.",
          role="admin"),
    Route("POST", "/notes/export", notes.export_notes, schemas.ExportNotes, replies.ExportedNotes,
          "Write memories to a folder on this machine, one Markdown note each.", role="admin"),
    Route("POST", "/capture", captures.capture, schemas.Capture, replies.Captured,
          "Store an exchange and learn from it: 202 at once, 200 with the result if `wait` is set.", _SAID, (202, 200),
          role="write"),
    Route("POST", "/observe", captures.observe, schemas.Observe, replies.Captured,
          "Store an observed dialogue for the team: 202 at once, or 200 with the result if `wait` is set.",
          {"validated_intent": "Find out how we sign in.", "response": "We switched from JWT to Clerk for auth.",
           "session": "activity-7", "agent": "agent-1"}, (202, 200), role="write"),
    Route("POST", "/memory/extract", captures.extract, schemas.Extract, replies.Learned,
          "Extract facts with the model: 200 with the result, or 202 with a job; 501 without a model.",
          {"messages": "User: use drizzle\nAssistant: Good call.", "source": "claude-code/web", "context": "stop"},
          (200, 202), later=replies.Submitted, role="write"),
    Route("GET", "/memory/extract/{id}", captures.job, None, replies.Job, "Get an extraction job and its result.",
          role="write"),
    Route("GET", "/extract/status", captures.status, None, replies.Extraction,
          "Report the configured extraction model and its state.", role="read"),
    Route("POST", "/backfills", captures.begin_backfill, schemas.Nothing, replies.Backfill,
          "Begin a backfill, or resume an unfinished one; its captures name the returned changeset as their series.",
          {}, role="admin"),
    Route("POST", "/backfills/{id}/end", captures.end_backfill, schemas.Nothing, replies.Backfill,
          "Mark a backfill as done.", {}, role="admin"),
    Route("GET", "/turns", captures.turns, schemas.Turns, replies.Turns,
          "List the captured turns of a session.", role="write"),
    Route("GET", "/ledger", captures.ledger, None, replies.Ledger,
          "Count all captures by state: stored, merged, rejected or pending.", role="admin"),
    Route("GET", "/inbox", captures.inbox, schemas.Inbox, replies.Items, "List captures, newest first.",
          role="write"),
    Route("GET", "/inbox/{id}", captures.item, None, replies.InboxItem, "Get one capture.", role="write"),
    Route("POST", "/inbox/{id}/retry", captures.retry, None, replies.InboxItem,
          "Queue a parked or rejected capture again.", role="write"),
    Route("POST", "/v1/chat/completions", chat.completions, None, replies.JSON,
          "Chat completion in OpenAI's format: adds memories, asks an upstream, and learns from the exchange.",
          raw=True, hungry=True, role="write"),
    Route("GET", "/v1/models", chat.models, None, replies.JSON, "List the models of the chat's upstream.", role="read"),
    Route("POST", "/mcp", mcp.exchange, None, replies.JSON,
          "Model Context Protocol for agents: one message per request; 501 if the extra `mcp` is not installed.",
          statuses=(200, 202), raw=True, apart=True, role="read"),
    *(Route("POST", f"/hooks/{client}", hooks.answer_to(client), None, replies.JSON,
            f"Answer a hook of {called}, in its own JSON: 200 with context for the agent, or 204.",
            statuses=(200, 204), raw=True, role="write")
      for client, called in hooks.CALLED.items()),
    Route("GET", "/memory/{id}", answers.get, None, replies.MemoryShown, "Get one memory, archived or not.",
          role="read"),
    Route("PATCH", "/memory/{id}", answers.edit, schemas.Edit, replies.Changed, "Change fields of a memory in place.",
          {"tags": ["release"], "pinned": True}, role="write"),
    Route("DELETE", "/memory/{id}", answers.delete, schemas.Delete, replies.Gone, "Archive a memory, or erase it.",
          role="write"),
    Route("POST", "/memory/{id}/restore", answers.restore, schemas.Reason, replies.Changed,
          "Restore an archived memory.", role="write"),
    Route("POST", "/memory/{id}/confirm", answers.confirm, schemas.Reason, replies.Changed,
          "Mark a memory as still valid: the files, definitions and commands it names are fingerprinted again.",
          role="write"),
    Route("GET", "/memory/{id}/freshness", answers.freshness, None, replies.Freshness,
          "Check whether the code that a memory references has changed.", role="read"),
    Route("GET", "/memory/{id}/sightings", answers.sightings, None, replies.Sightings,
          "List who stated a memory, where and when: the first time and every time since.", role="read"),
    Route("GET", "/memory/{id}/exchange", bulk.exchange, None, replies.LearnedFrom,
          "Get the capture that a memory was learned from; null if it has none or its text is forgotten.",
          role="write"),
    Route("GET", "/memory/{id}/history", answers.history, None, replies.History,
          "List every change of a memory and of its lineage, oldest first.", role="read"),
    Route("GET", "/memories", answers.listing, schemas.Listing, replies.Page, "List memories, newest first.",
          role="read"),
    Route("POST", "/memories/bulk", bulk.change_all, schemas.Bulk, replies.Changeset,
          "Archive, restore, pin, unpin, edit, tag or untag many memories in one changeset, or none of them.",
          {"ids": [1, 2], "action": "tag", "tags": ["release"]}, role="write"),
    Route("GET", "/projects", answers.projects, schemas.Projects, replies.Projects,
          "List the projects of memories by name, with the number of memories in each.", role="read"),
    Route("GET", "/export", exporting.export, schemas.Export, exporting.MEDIA,
          "Export every memory that the caller may see, archived ones included, as lines of JSON after a header.",
          whole=True, role="read"),
    Route("DELETE", "/memories", answers.delete_all, schemas.DeleteAll, replies.Plan,
          "Archive all memories of a source; only previews unless dry_run is false.", role="admin"),
    Route("GET", "/changes", answers.changes, schemas.Changes, replies.Changesets, "List the newest changesets.",
          role="read"),
    Route("GET", "/changes/{id}", answers.changeset, None, replies.Changeset, "Get one changeset with all its changes.",
          role="read"),
    Route("POST", "/changes/{id}/undo", answers.undo, schemas.Reason, replies.Changeset,
          "Revert a whole changeset; the undo can be undone in turn.", {"why": "that was wrong"}, role="write"),
    Route("POST", "/maintenance/consolidate", upkeep.consolidate, schemas.Consolidate, replies.Chore,
          "Merge duplicates and report refused merges; only previews unless dry_run is false.", bodiless=True,
          role="admin"),
    Route("POST", "/maintenance/prune", upkeep.prune, schemas.Prune, replies.Chore,
          "Archive memories not recalled for long; only previews unless dry_run is false.", bodiless=True,
          role="admin"),
    Route("POST", "/maintenance/approve", upkeep.approve, schemas.Approve, replies.Changeset,
          "Apply some of the decisions of a dry run, in one changeset; 409 if one of the memories was changed since.",
          role="admin"),
    Route("GET", "/maintenance/contradictions", upkeep.contradictions, schemas.Contradictions, replies.Contradictions,
          "List pairs of memories that contradict each other, newest first.", hungry=True, role="admin"),
    Route("POST", "/maintenance/agree", upkeep.agree, schemas.Agree, replies.Changeset,
          "Mark two memories as compatible: no contradiction until one of them changes.",
          role="admin"),
    Route("GET", "/maintenance/runs", upkeep.runs, schemas.Runs, replies.Runs,
          "List chore runs with their outcome, and the schedule.", role="admin"),
    Route("GET", "/maintenance/usage", upkeep.usage, schemas.Usage, replies.Used,
          "List memories never recalled, recalled most, or stale: not recalled for long.", role="admin"),
    Route("GET", "/llm/usage", upkeep.llm_usage, schemas.LLMUsage, replies.LLMUsage,
          "List model calls of today and the last 7 and 30 days, by model and session, limits, and the newest calls.",
          role="admin"),
    Route("GET", "/llm/usage/{id}", upkeep.llm_call, None, replies.LLMCall,
          "Get one call of the language model, with redacted request and reply.", role="admin"),
    Route("GET", "/maintenance/audit", upkeep.audit, schemas.Audit, replies.Audit,
          "Profile the store: duplicates, echoes, secrets, stale and contradicted memories.", hungry=True,
          role="admin"),
    Route("GET", "/knowledge", knowledge.count_knowledge, None, shapes.Counted,
          "Count the rows of each domain knowledge table.", role="read"),
    Route("POST", "/knowledge/evaluate", knowledge.evaluate, schemas.Evaluate, shapes.Firing,
          "List the thresholds that a value crosses, highest confidence first.",
          {"source": "AAPL", "metric": "volume", "value": 6_200_000}, role="read"),
    Route("GET", "/knowledge/active", knowledge.active, schemas.ActiveAt, shapes.Active,
          "List the seasonal patterns active at a time, highest confidence first.", role="read"),
    Route("GET", "/knowledge/related", knowledge.related, schemas.RelatedTo, shapes.Related,
          "List correlations of a source, in either direction, nearest first.", role="read"),
    Route("POST", "/knowledge/read", knowledge.read_knowledge, schemas.ReadText, shapes.Readings,
          "Preview the rows that an agent's answer would add to the tables or remove. Changes nothing.",
          {"text": "Flag AAPL if volume exceeds 5M."}, role="read"),
    Route("GET", "/knowledge/feedback", knowledge.list_feedback, schemas.FeedbackListing, shapes.Rows,
          "List verdicts, newest first.", role="read"),
    Route("POST", "/knowledge/feedback", knowledge.give_feedback, schemas.NewVerdict, replies.Changeset,
          "Store a verdict on an anomaly and adjust the confidence of what it judges, in one changeset.",
          {"anomaly": "AAPL 2026-02-20", "verdict": "false_alarm", "note": "index rebalancing"}, role="write"),
    Route("POST", "/knowledge/feedback/process", knowledge.process_feedback, schemas.Reason, replies.Processed,
          "Apply every stored but unprocessed verdict, once.", role="write"),
    Route("GET", "/knowledge/{table}", knowledge.list_knowledge, schemas.KnowledgeListing, shapes.Rows,
          "List the rows of a table, highest confidence first.", role="read"),
    Route("POST", "/knowledge/{table}", knowledge.put_knowledge, schemas.NewKnowledge, shapes.KnowledgeChange,
          "Store a row: 201 if it is new; 200 if it replaced the row with its id, or was identical to it.",
          {"source": "AAPL", "metric": "volume", "value": 5_000_000, "direction": "above"}, (201, 200), role="write"),
    Route("GET", "/knowledge/{table}/{row}", knowledge.get_knowledge, None, shapes.Known, "Get one row.", role="read"),
    Route("DELETE", "/knowledge/{table}/{row}", knowledge.delete_knowledge, schemas.Reason, shapes.KnowledgeChange,
          "Remove a row; undo of the changeset restores it.", role="write"),
    Route("GET", "/knowledge/{table}/{row}/history", knowledge.knowledge_history, None, shapes.RowHistory,
          "List every change of a row, oldest first.", role="read"),
    Route("POST", "/knowledge/{table}/{row}/purge", knowledge.purge_knowledge, schemas.Reason, shapes.KnowledgeChange,
          "Erase a row permanently, from the journal too.", role="write"),
    Route("GET", "/keys", keys.list_keys, None, replies.Keys, "List every key ever created, newest first.",
          role="admin"),
    Route("POST", "/keys", keys.create_key, schemas.NewKey, replies.KeyMade,
          "Create a key: the reply has its secret, which is not stored and cannot be shown again.", statuses=(201,),
          role="admin", logs_itself=True),
    Route("DELETE", "/keys/{id}", keys.revoke_key, None, replies.Key, "Revoke a key: it no longer grants access.",
          role="admin", logs_itself=True),
    Route("GET", "/keys/log", keys.log, schemas.Deeds, replies.DeedPage,
          "List the audit log, newest first: use of keys, and refused requests.", role="admin"),
    Route("GET", "/settings", settings.show_settings, None, replies.SettingsInForce,
          "List the settings in force and where each comes from; secrets only as set or not set.", role="admin"),
    Route("GET", "/doctor", settings.examine, schemas.Examine, replies.Checks,
          "Run the doctor, on the service's machine only: the service, the store, the model, clients' hooks.",
          role="admin"),
)  # fmt: skip
