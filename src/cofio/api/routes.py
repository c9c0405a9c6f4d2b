"""The routes: one visible list. The router, the OpenAPI document and the docs page are all made from it."""

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
    """One method of one path: what it takes, what it gives, and who gives it."""

    method: str
    path: str
    answer: Answer
    takes: type[schemas.Given] | None  # the body of a POST or PATCH, the query string of a GET or DELETE
    gives: type[Struct] | str  # the shape of a JSON reply, or the media type of any other
    says: str
    example: Mapping[str, Any] | None = None
    statuses: tuple[int, ...] = (200,)
    later: type[Struct] | None = None  # the shape of a 202, where that is another one
    keyless: bool = False  # whether it answers one who sent no key
    quick: bool = False  # whether it must answer while every worker is busy
    apart: bool = False  # whether it has workers of its own: nobody knows what it will be asked to do
    hungry: bool = False  # whether it keeps a processor busy: no more of these run at once than there are processors
    drawing: bool = False  # whether it does so for seconds: such take half of the processors, lest who recalls waits
    whole: bool = False  # whether it reads the whole store, bit by bit: few of these go on at once
    lasting: bool = False  # whether it goes on for as long as its reader is there
    page: bool = False  # whether people visit it with a browser
    raw: bool = False  # whether it takes the body as it comes
    bodiless: bool = False  # whether it takes a query string, though it is a POST
    role: Role = "admin"  # what the key of a caller must allow, at the least
    logs_itself: bool = False  # whether its answer tells the audit log by itself

    def shape(self, status: int) -> type[Struct] | str:
        """What a reply with this status looks like."""
        return self.later if status == 202 and self.later else self.gives

    @property
    def changes(self) -> bool:
        """Whether the audit log gets a line when it was answered: it may have changed something."""
        return self.method != "GET" and self.role != "read" and not self.logs_itself

    @property
    def sample(self) -> str:
        """Its path with names in it that there may be."""
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
    Route("GET", "/health", answers.health, None, replies.Health, "Whether it is up, and the key right.",
          keyless=True, quick=True, role="read"),
    Route("GET", "/stats", answers.stats, None, replies.Stats, "Counts of memories, changes, retrievals; size.",
          role="read"),
    Route("GET", "/overview", outlook.overview, schemas.Overview, replies.Overview,
          "How the store stands, what arrived on the last days, and what was done and put before agents.", role="read"),
    Route("GET", "/events", outlook.events, None, news.MEDIA,
          "That something has moved, as it happens: memories, recalls, inbox. Goes on for as long as it is read.",
          lasting=True, role="read"),
    Route("GET", "/map", atlas.drawn, schemas.Mapped, replies.Map,
          "Live memories as points of a plane, near each other where they mean alike, in clusters that have names.",
          drawing=True, role="read"),
    Route("GET", "/agents", outlook.agents, schemas.Agents, replies.Agents,
          "Who is at work with the store: what each has kept and recalled, and when; the latest first.", role="admin"),
    Route("GET", "/metrics", answers.measured, None, metrics.MEDIA, "What is counted, for Prometheus.", quick=True,
          role="admin"),
    Route("GET", "/openapi.json", answers.document, None, replies.JSON, "This interface, for machines.",
          keyless=True, quick=True, role="read"),
    Route("GET", "/docs", answers.page, None, "text/html", "This interface, for people.",
          keyless=True, quick=True, page=True, role="read"),
    Route("GET", "/ui", page.first_page, None, "text/html", "The way to the pages for people.", statuses=(307,),
          keyless=True, quick=True, page=True, role="read"),
    *(Route("GET", f"/ui/{name}", page.page_of(name), None, "text/html", f"The page for people: {called}.",
            keyless=True, quick=True, page=True, role="read")
      for name, called in PAGES.items()),
    Route("GET", "/ui/{file}", page.page_file, None, "*/*", "A script, a style or a picture of the pages.",
          keyless=True, quick=True, role="read"),
    Route("POST", "/search", answers.search, schemas.Search, replies.Found, "The memories that answer, best first.",
          {"query": "when do we deploy?", "k": 3}, hungry=True, role="read"),
    Route("POST", "/search/batch", answers.search_all, schemas.SearchAll, replies.FoundAll, "Many searches at once.",
          {"queries": ["when do we deploy?", {"query": "who reviews?", "kind": "policy"}]}, hungry=True, role="read"),
    Route("POST", "/episodes/search", episodes.search_episodes, schemas.SearchEpisodes, replies.EpisodesFound,
          "Search what was said in captured turns, also where no fact was made of it, best first.",
          {"query": "what did we say about the harbour?", "k": 3}, hungry=True, role="read"),
    Route("GET", "/episodes/{id}", episodes.show_episode, None, replies.Episode,
          "One episode: what was said in a turn.", role="read"),
    Route("DELETE", "/episodes/{id}", episodes.purge_episode, None, replies.EpisodeGone,
          "Erase an episode for good, with the words of its capture; memories learned from it stay.", role="write"),
    Route("GET", "/sessions", sessions.list_sessions, schemas.Sessions, replies.AgentSessions,
          "The sessions of agents by their last turn, newest first.", role="read"),
    Route("GET", "/session", sessions.show_session, schemas.OneSession, replies.SessionDetail,
          "One session: its turns and compaction summaries, what was recalled, learned and changed in it.",
          role="read"),
    Route("GET", "/resume", sessions.resume, schemas.Resume, replies.ResumeReport,
          "Where work on a project stopped: its last sessions, as bounded text too. No model is asked.", role="read"),
    Route("POST", "/recall", answers.recall, schemas.Recall, replies.Recalled,
          "What to put before an agent, as text: at the start of a session, or with a prompt what answers it.",
          {"prompt": "can I deploy today?", "project": "/home/ada/web"}, hungry=True, role="read"),
    Route("POST", "/recall/context", answers.recall_context, schemas.RecallContext, replies.Enriched,
          "What an agent should know before it looks: memories that answer, patterns, thresholds, and which fire.",
          {"query": "AAPL volume is 6.2M"}, hungry=True, role="read"),
    Route("POST", "/enrich", team.enrich, schemas.Enrich, replies.Enriched,
          "What memories add to a system message: sections with what is personal and what the team knows, or nothing.",
          {"query": "which database do we use?", "session": "s1", "include_team": True}, hungry=True, role="read"),
    Route("GET", "/team/facts", team.facts, schemas.TeamFacts, replies.TeamFacts,
          "What the team knows, by when it was said, newest first.", role="read"),
    Route("GET", "/team/patterns", team.patterns, schemas.TeamPatterns, replies.Patterns,
          "What agents have told the team again and again, most often first.", role="read"),
    Route("POST", "/memory/add", answers.add, schemas.Add, replies.Added,
          "Remember a fact: 201 when it is new, 200 when it was known.", _FACT, (201, 200), role="write"),
    Route("POST", "/memory/add-batch", answers.add_all, schemas.AddAll, replies.AddedAll,
          "Remember many facts in one changeset, or none of them.", {"memories": [_FACT, {"text": "Ann reviews."}]},
          role="write"),
    Route("POST", "/memory/supersede", answers.supersede, schemas.Supersede, replies.Superseded,
          "Put a new memory in an old one's place.", {"old_id": 1, "new_text": "We deploy on Mondays."}, role="write"),
    Route("POST", "/memory/is-novel", answers.is_novel, schemas.IsNovel, replies.Novelty,
          "Whether a text says something new.", {"text": "Deployments are on Fridays."}, role="read"),
    Route("POST", "/memory/deduplicate", answers.deduplicate, schemas.Deduplicate, replies.Plan,
          "Merge memories that say the same; tells what it would do unless dry_run is false.", {"dry_run": True},
          role="admin"),
    Route("POST", "/notes/flush", notes.flush_note, schemas.Flush, replies.Added,
          "Write a summary into a Markdown file of the notes folder, and remember it.", statuses=(201, 200),
          role="write"),
    Route("GET", "/notes", notes.list_notes, None, replies.NotesFolders,
          "The folders of Markdown that were read or are followed, and when they were read last.", role="admin"),
    Route("POST", "/notes/index", notes.index_notes, schemas.IndexNotes, replies.IndexedNotes,
          "Have the memories of a folder of this machine follow its Markdown files: new, edited, deleted ones.",
          role="admin"),
    Route("POST", "/notes/export", notes.export_notes, schemas.ExportNotes, replies.ExportedNotes,
          "Write memories into a folder of this machine, a Markdown note each.", role="admin"),
    Route("POST", "/capture", captures.capture, schemas.Capture, replies.Captured,
          "Keep what was said and learn from it: 202 at once, 200 with the result when you wait.", _SAID, (202, 200),
          role="write"),
    Route("POST", "/observe", captures.observe, schemas.Observe, replies.Captured,
          "Keep a dialogue that was watched, for the team: 202 at once, 200 with the result when you wait.",
          {"validated_intent": "Find out how we sign in.", "response": "We switched from JWT to Clerk for auth.",
           "session": "activity-7", "agent": "agent-1"}, (202, 200), role="write"),
    Route("POST", "/memory/extract", captures.extract, schemas.Extract, replies.Learned,
          "Have the model read what was said: 200 with the result, or 202 with a job; 501 without a model.",
          {"messages": "User: use drizzle\nAssistant: Good call.", "source": "claude-code/web", "context": "stop"},
          (200, 202), later=replies.Submitted, role="write"),
    Route("GET", "/memory/extract/{id}", captures.job, None, replies.Job, "How a job stands, and its result.",
          role="write"),
    Route("GET", "/extract/status", captures.status, None, replies.Extraction,
          "Whether a model reads conversations, which, and how it is.", role="read"),
    Route("POST", "/backfills", captures.begin_backfill, schemas.Nothing, replies.Backfill,
          "Begin a backfill, or resume the one that did not end: the changeset that its captures name as their series.",
          {}, role="admin"),
    Route("POST", "/backfills/{id}/end", captures.end_backfill, schemas.Nothing, replies.Backfill,
          "Note that a backfill is done.", {}, role="admin"),
    Route("GET", "/turns", captures.turns, schemas.Turns, replies.Turns,
          "The turns of a session that were captured.", role="write"),
    Route("GET", "/ledger", captures.ledger, None, replies.Ledger,
          "Where everything is that was captured: stored, merged, rejected or pending.", role="admin"),
    Route("GET", "/inbox", captures.inbox, schemas.Inbox, replies.Items, "A page of captures, newest first.",
          role="write"),
    Route("GET", "/inbox/{id}", captures.item, None, replies.InboxItem, "One capture.", role="write"),
    Route("POST", "/inbox/{id}/retry", captures.retry, None, replies.InboxItem,
          "Have a parked or rejected capture tried again.", role="write"),
    Route("POST", "/v1/chat/completions", chat.completions, None, replies.JSON,
          "A chat as OpenAI's API has it: memories are added, an upstream answers, and what was said is learned from.",
          raw=True, hungry=True, role="write"),
    Route("GET", "/v1/models", chat.models, None, replies.JSON, "The models of the chat's upstream.", role="read"),
    Route("POST", "/mcp", mcp.exchange, None, replies.JSON,
          "The Model Context Protocol, for agents: one message in, one out; 501 where the extra `mcp` is missing.",
          statuses=(200, 202), raw=True, apart=True, role="read"),
    *(Route("POST", f"/hooks/{client}", hooks.answer_to(client), None, replies.JSON,
            f"Answer a hook of {called}, in its own JSON: 200 with what to put before the agent, or 204.",
            statuses=(200, 204), raw=True, role="write")
      for client, called in hooks.CALLED.items()),
    Route("GET", "/memory/{id}", answers.get, None, replies.MemoryShown, "One memory, archived or not.",
          role="read"),
    Route("PATCH", "/memory/{id}", answers.edit, schemas.Edit, replies.Changed, "Change fields of a memory in place.",
          {"tags": ["release"], "pinned": True}, role="write"),
    Route("DELETE", "/memory/{id}", answers.delete, schemas.Delete, replies.Gone, "Archive a memory, or erase it.",
          role="write"),
    Route("POST", "/memory/{id}/restore", answers.restore, schemas.Reason, replies.Changed,
          "Bring an archived memory back.", role="write"),
    Route("POST", "/memory/{id}/confirm", answers.confirm, schemas.Reason, replies.Changed,
          "Say that a memory still holds: the files, definitions and commands that it names are looked at anew.",
          role="write"),
    Route("GET", "/memory/{id}/freshness", answers.freshness, None, replies.Freshness,
          "Whether what a memory names in its project's tree is still as it was.", role="read"),
    Route("GET", "/memory/{id}/sightings", answers.sightings, None, replies.Sightings,
          "Who said it, where and when: the first time and every time since.", role="read"),
    Route("GET", "/memory/{id}/exchange", bulk.exchange, None, replies.LearnedFrom,
          "The capture that a memory was learned from; null where it was none, or its words are forgotten.",
          role="write"),
    Route("GET", "/memory/{id}/history", answers.history, None, replies.History,
          "Every change of a memory and of its lineage, oldest first.", role="read"),
    Route("GET", "/memories", answers.listing, schemas.Listing, replies.Page, "A page of memories, newest first.",
          role="read"),
    Route("POST", "/memories/bulk", bulk.change_all, schemas.Bulk, replies.Changeset,
          "Archive, restore, pin, unpin, edit, tag or untag many memories in one changeset, or none of them.",
          {"ids": [1, 2], "action": "tag", "tags": ["release"]}, role="write"),
    Route("GET", "/projects", answers.projects, schemas.Projects, replies.Projects,
          "The projects that memories belong to, by name, and how many each has.", role="read"),
    Route("GET", "/export", exporting.export, schemas.Export, exporting.MEDIA,
          "Every memory that the caller may see, archived ones too, as lines of JSON after a header.",
          whole=True, role="read"),
    Route("DELETE", "/memories", answers.delete_all, schemas.DeleteAll, replies.Plan,
          "Archive all memories of a source; tells what it would do unless dry_run is false.", role="admin"),
    Route("GET", "/changes", answers.changes, schemas.Changes, replies.Changesets, "The newest changesets.",
          role="read"),
    Route("GET", "/changes/{id}", answers.changeset, None, replies.Changeset, "One changeset with all it changed.",
          role="read"),
    Route("POST", "/changes/{id}/undo", answers.undo, schemas.Reason, replies.Changeset,
          "Take back a whole changeset, by one that can be undone in turn.", {"why": "that was wrong"}, role="write"),
    Route("POST", "/maintenance/consolidate", upkeep.consolidate, schemas.Consolidate, replies.Chore,
          "Merge what repeats; tells what it would do, and what it refuses, unless dry_run is false.", bodiless=True,
          role="admin"),
    Route("POST", "/maintenance/prune", upkeep.prune, schemas.Prune, replies.Chore,
          "Archive what nobody recalled for long; tells what it would do unless dry_run is false.", bodiless=True,
          role="admin"),
    Route("POST", "/maintenance/approve", upkeep.approve, schemas.Approve, replies.Changeset,
          "Do some of what a dry run showed, in one changeset; 409 when one of the memories was touched since.",
          role="admin"),
    Route("GET", "/maintenance/contradictions", upkeep.contradictions, schemas.Contradictions, replies.Contradictions,
          "Pairs of memories that cannot both hold, the newest first, to be settled.", hungry=True, role="admin"),
    Route("POST", "/maintenance/agree", upkeep.agree, schemas.Agree, replies.Changeset,
          "Say of two memories that both hold: no contradiction, until one of them says something else.",
          role="admin"),
    Route("GET", "/maintenance/runs", upkeep.runs, schemas.Runs, replies.Runs,
          "When chores ran and how they ended, and when they run by themselves.", role="admin"),
    Route("GET", "/maintenance/usage", upkeep.usage, schemas.Usage, replies.Used,
          "What was never recalled, what most, and what is stale: recalled, but not for long.", role="admin"),
    Route("GET", "/llm/usage", upkeep.llm_usage, schemas.LLMUsage, replies.LLMUsage,
          "Calls of the language model today and in 7 and 30 days by model and session, daily limits, newest calls.",
          role="admin"),
    Route("GET", "/llm/usage/{id}", upkeep.llm_call, None, replies.LLMCall,
          "One call of the language model, with its redacted request and reply.", role="admin"),
    Route("GET", "/maintenance/audit", upkeep.audit, schemas.Audit, replies.Audit,
          "The profile of the store: duplicates, echoes, secrets, what is stale or contradicted.", hungry=True,
          role="admin"),
    Route("GET", "/knowledge", knowledge.count_knowledge, None, shapes.Counted,
          "How many rows each table of domain knowledge has.", role="read"),
    Route("POST", "/knowledge/evaluate", knowledge.evaluate, schemas.Evaluate, shapes.Firing,
          "The thresholds that a value crosses, the surest first.",
          {"source": "AAPL", "metric": "volume", "value": 6_200_000}, role="read"),
    Route("GET", "/knowledge/active", knowledge.active, schemas.ActiveAt, shapes.Active,
          "The seasonal patterns that are on at a time, the surest first.", role="read"),
    Route("GET", "/knowledge/related", knowledge.related, schemas.RelatedTo, shapes.Related,
          "What goes together with a source, from either side, nearest first.", role="read"),
    Route("POST", "/knowledge/read", knowledge.read_knowledge, schemas.ReadText, shapes.Readings,
          "What an agent's answer would add to the tables, or take from them. Changes nothing.",
          {"text": "Flag AAPL if volume exceeds 5M."}, role="read"),
    Route("GET", "/knowledge/feedback", knowledge.list_feedback, schemas.FeedbackListing, shapes.Rows,
          "A page of verdicts, newest first.", role="read"),
    Route("POST", "/knowledge/feedback", knowledge.give_feedback, schemas.NewVerdict, replies.Changeset,
          "Keep a verdict on an anomaly, and have what it judges move by it: all in one changeset.",
          {"anomaly": "AAPL 2026-02-20", "verdict": "false_alarm", "note": "index rebalancing"}, role="write"),
    Route("POST", "/knowledge/feedback/process", knowledge.process_feedback, schemas.Reason, replies.Processed,
          "Have every verdict that was only kept so far move what it judges, once.", role="write"),
    Route("GET", "/knowledge/{table}", knowledge.list_knowledge, schemas.KnowledgeListing, shapes.Rows,
          "A page of a table, the surest first.", role="read"),
    Route("POST", "/knowledge/{table}", knowledge.put_knowledge, schemas.NewKnowledge, shapes.KnowledgeChange,
          "Keep a row: 201 when it is new; 200 when it took the place of what had its id, or was there just so.",
          {"source": "AAPL", "metric": "volume", "value": 5_000_000, "direction": "above"}, (201, 200), role="write"),
    Route("GET", "/knowledge/{table}/{row}", knowledge.get_knowledge, None, shapes.Known, "One row.", role="read"),
    Route("DELETE", "/knowledge/{table}/{row}", knowledge.delete_knowledge, schemas.Reason, shapes.KnowledgeChange,
          "Remove a row; undo of the changeset brings it back.", role="write"),
    Route("GET", "/knowledge/{table}/{row}/history", knowledge.knowledge_history, None, shapes.RowHistory,
          "Every change of a row, oldest first.", role="read"),
    Route("POST", "/knowledge/{table}/{row}/purge", knowledge.purge_knowledge, schemas.Reason, shapes.KnowledgeChange,
          "Erase a row for good, from the journal too.", role="write"),
    Route("GET", "/keys", keys.list_keys, None, replies.Keys, "Every key that was ever made, newest first.",
          role="admin"),
    Route("POST", "/keys", keys.create_key, schemas.NewKey, replies.KeyMade,
          "Make a key: the reply has its secret, which is told this once and not kept.", statuses=(201,),
          role="admin", logs_itself=True),
    Route("DELETE", "/keys/{id}", keys.revoke_key, None, replies.Key, "From now on this key opens nothing.",
          role="admin", logs_itself=True),
    Route("GET", "/keys/log", keys.log, schemas.Deeds, replies.DeedPage,
          "The audit log, newest first: what was done with keys, and what was refused.", role="admin"),
    Route("GET", "/settings", settings.show_settings, None, replies.SettingsInForce,
          "The settings in force, and where each comes from; of a secret, whether it is set.", role="admin"),
    Route("GET", "/doctor", settings.examine, schemas.Examine, replies.Checks,
          "What the doctor finds, on the service's machine alone: the service, the store, the model, clients' hooks.",
          role="admin"),
)  # fmt: skip
