"""HTTP client with the methods, parameters and values of Keeper. Importing it loads the standard library only.

Where Keeper returns a change, the service returns a changeset id and the client reads the changeset, so that callers
get the same values from both.
"""

from __future__ import annotations

import builtins
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, Unpack
from urllib.parse import quote

from cofio.client.knowledge import ClientKnowledge
from cofio.client.transport import HttpTransport
from cofio.errors import InvalidInput, NotFound
from cofio.models.auth import AuditEntry, Grant, Key
from cofio.models.episodes import Episode, EpisodeHit
from cofio.models.exchange import (
    CaptureStatus,
    ExchangeKwargs,
    InboxStatus,
    Item,
    LearningResult,
    Messages,
    State,
    dialogue,
)
from cofio.models.json_values import decode
from cofio.models.llm_calls import LLMCall, LLMUsage
from cofio.models.maintenance import Audit, CleanupPlan, Contradictions, MaintenancePlan, MaintenanceRun, View
from cofio.models.markdown_notes import IndexResult, NotesFolder, VaultExportResult
from cofio.models.memory import (
    Briefing,
    Change,
    Changeset,
    Decision,
    Delete,
    EditKwargs,
    Fact,
    FactKwargs,
    FreshnessResult,
    Hit,
    Memory,
    Merge,
    NoteKwargs,
    Novelty,
    Occurrence,
    Page,
    Project,
    Query,
    QueryKwargs,
    RepeatedFact,
    Scope,
    ScopeKwargs,
    Timestamp,
    as_fact,
    as_query,
    as_scope,
    to_plain,
    to_utc_iso,
)
from cofio.models.provenance import SERVICE_FIELDS
from cofio.models.sessions import RESUME_TOKENS, RESUMED, AgentSession, ResumeReport, SessionDetail

_BY_SERVICE = ("anchors", *SERVICE_FIELDS)  # fields of a fact that the service determines
_QUERIES_AT_ONCE = 100  # limit of /search/batch
_Value = TypeVar("_Value")


class Client:
    """Keeper in another process, over HTTP. Thread-safe; call `close`, or use it in a `with` statement."""

    def __init__(self, url: str, key: str = "", timeout: float = 60.0) -> None:
        self._wire = HttpTransport(url, key, timeout)
        self._get, self._post = self._wire.get, self._wire.post

    # ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _change(self, method: str, path: str, body: Mapping[str, Any] | None, by: str, **params: Any) -> Change:
        return self._fetch_changes(self._wire.ask(method, path, body, by=by, **params))[0]

    def _fetch_changes(self, reply: Mapping[str, Any]) -> tuple[Change, ...]:
        return self.changeset(reply["changeset"]).with_redacted(tuple(reply.get("redacted", ()))).changes

    # ── write ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(
        self,
        fact: str | Fact,
        *,
        dedup: bool = True,
        keep_secret: bool = False,
        by: str = "library",
        why: str = "",
        **fields: Unpack[FactKwargs],
    ) -> Change:
        """Store a fact. The change is "add", "update" (it replaced a memory) or "noop" (a memory already says it)."""
        body = {**_fact_body(as_fact(fact, fields)), "deduplicate": dedup, **_keep(keep_secret), "why": why}
        reply = self._wire.ask("POST", "/memory/add", body, by=by)
        return self._load_changes(reply, [reply])[0]

    def add_all(
        self,
        facts: Sequence[str | Fact],
        *,
        dedup: bool = True,
        keep_secret: bool = False,
        by: str = "library",
        why: str = "",
    ) -> builtins.list[Change]:
        """Store many facts in one changeset; one change per fact, in order. The service accepts 1,000 per call."""
        bodies = [_fact_body(as_fact(fact, {})) for fact in facts]
        if not bodies:
            return []
        body = {"memories": bodies, "deduplicate": dedup, **_keep(keep_secret), "why": why}
        reply = self._wire.ask("POST", "/memory/add-batch", body, by=by)
        return self._load_changes(reply, reply["results"])

    def _load_changes(self, reply: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> builtins.list[Change]:
        """Return the change of each result, with similar memories that stayed but may be outdated."""
        waiting: dict[int, deque[Change]] = defaultdict(deque)  # several changes of one memory are in order
        for change in self._fetch_changes(reply):
            waiting[change.memory_id].append(change)
        updated = []
        for result in results:
            change = waiting[result["id"]].popleft()
            near = tuple(self.get(row["id"]) for row in result.get("near", ()))
            updated.append(replace(change, near=near, redacted=tuple(result.get("redacted", ()))))
        return updated

    def update(
        self,
        memory_id: int,
        *,
        keep_secret: bool = False,
        by: str = "library",
        why: str = "",
        **changes: Unpack[EditKwargs],
    ) -> Change:
        """Change fields of a memory in place."""
        body = {**changes, **_keep(keep_secret), "why": why}
        return self._change("PATCH", _path("memory", memory_id), body, by)

    def supersede(
        self, old_id: int, new: str | Fact, *, by: str = "library", why: str = "", **fields: Unpack[FactKwargs]
    ) -> tuple[Change, Change]:
        """Replace a memory by a new one. Return the change that wrote it and the one that archived the old memory.

        The service copies an empty source, session, agent or speaker from the old memory, even if `new` is a Fact.
        """
        values = _fact_body(new, whole=True) if isinstance(new, Fact) else {**fields, "text": new}
        body = {"old_id": old_id, "new_text": values.pop("text"), **values, "why": why}
        written, archived = self._fetch_changes(self._wire.ask("POST", "/memory/supersede", body, by=by))
        return written, archived

    def delete(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Archive a memory; `restore` or `undo` brings it back."""
        return self._change("DELETE", _path("memory", memory_id), None, by, why=why)

    def restore(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Restore an archived memory."""
        return self._change("POST", _path("memory", memory_id, "restore"), {"why": why}, by)

    def mark_fresh(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Mark a memory as still valid: fingerprint its references again. InvalidInput if none of them exists."""
        return self._change("POST", _path("memory", memory_id, "mark-fresh"), {"why": why}, by)

    def bulk(
        self,
        ids: Sequence[int],
        action: str,
        *,
        changes: Mapping[str, Any] = MappingProxyType({}),
        tags: Sequence[str] = (),
        by: str = "library",
        why: str = "",
    ) -> Changeset:
        """Archive, restore, pin, unpin, edit, tag or untag many memories in one changeset."""
        options = {name: value for name, value in (("changes", changes), ("tags", tags)) if value}
        return self._post(Changeset, "/memories/bulk", by=by, ids=list(ids), action=action, why=why, **options)

    def purge(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Erase a memory for good, from the journal too."""
        reply = self._wire.ask("DELETE", _path("memory", memory_id), by=by, why=why, purge=True)
        try:
            return self._fetch_changes(reply)[0]
        except NotFound:  # a key with limited access no longer sees a memory whose owner was erased with it
            ids = {"id": 0, "changeset": reply["changeset"], "memory_id": reply["id"], "at": ""}
            return Change(**ids, action="purge", by=by, why=why, before=None, after=None)

    # ── search and read ───────────────────────────────────────────────────────────────────────────────────────────────

    def search(self, query: str | Query, *, by: str = "library", **options: Unpack[QueryKwargs]) -> builtins.list[Hit]:
        """Return matching memories, best first. `options` are fields of Query and of Scope."""
        reply = self._wire.ask("POST", "/search", _query_body(as_query(query, options)), by=by)
        return [_parse_hit(row) for row in reply["results"]]

    def search_all(self, queries: Sequence[str | Query], *, by: str = "library") -> builtins.list[builtins.list[Hit]]:
        """Return one list of hits per query, in order."""
        hit_lists: builtins.list[builtins.list[Hit]] = []
        bodies = [_query_body(as_query(query, {})) for query in queries]
        for start in range(0, len(bodies), _QUERIES_AT_ONCE):
            body = {"queries": bodies[start : start + _QUERIES_AT_ONCE]}
            reply = self._wire.ask("POST", "/search/batch", body, by=by)
            hit_lists += [[_parse_hit(row) for row in result["results"]] for result in reply["results"]]
        return hit_lists

    def search_episodes(
        self,
        query: str,
        *,
        k: int = 5,
        skip: int = 0,
        min_score: float = 0.0,
        source: str | None = None,
        source_prefix: str = "",
        project: str | None = None,
        visible_in: str | None = None,
        session: str = "",
        agent: str = "",
        since: str = "",
        until: str = "",
    ) -> builtins.list[EpisodeHit]:
        """Search conversations by turn: matching episodes, best first, each with its best passage."""
        where = {"source": source, "source_prefix": source_prefix, "project": project, "visible_in": visible_in}
        where |= {"session": session, "agent": agent, "since": since, "until": until}
        body = _query_body(Query(text=query, k=k, skip=skip, min_score=min_score, scope=as_scope(where)))
        return self._post(builtins.list[EpisodeHit], "/episodes/search", "episodes", **body)

    def episode(self, episode_id: int) -> Episode:
        """Return one episode: the conversation of one turn."""
        return self._get(Episode, _path("episodes", episode_id))

    def episode_of(self, memory_id: int) -> int | None:
        """Return the id of the episode that a memory was learned from; None if it has none."""
        episode: int | None = self._wire.ask("GET", _path("memory", memory_id)).get("episode")
        return episode

    def purge_episode(self, episode_id: int) -> None:
        """Erase an episode permanently, with the text of its capture. Memories learned from it stay."""
        self._wire.ask("DELETE", _path("episodes", episode_id))

    def sessions(
        self, *, limit: int = 20, client: str = "", project: str | None = None, since: str = ""
    ) -> builtins.list[AgentSession]:
        """Return agent sessions by their last turn, newest first, optionally of one client or project."""
        params = {"limit": limit, "client": client, "project": project, "since": since}
        return self._get(builtins.list[AgentSession], "/sessions", "sessions", **params)

    def session(self, session: str, *, client: str = "", owner: str | None = None) -> SessionDetail:
        """Return one session by its id or a unique prefix of it: its turns, recalls, memories learned and changes."""
        return self._get(SessionDetail, "/session", session=session, client=client, owner=owner)

    def resume(
        self, project: str | None = None, *, limit: int = RESUMED, max_tokens: int = RESUME_TOKENS
    ) -> ResumeReport:
        """Return where work on a project stopped: its last sessions, with a text of limited size. Calls no model."""
        return self._get(ResumeReport, "/resume", project=project, limit=limit, max_tokens=max_tokens)

    def recall(
        self,
        prompt: str = "",
        *,
        project: str = "",
        by: str = "library",
        k: int | None = None,
        client: str = "",
        session: str = "",
    ) -> Briefing:
        """Return the context block for a session start (no prompt) or for a prompt. An empty briefing is falsy.

        The digests in its `given` stay in the service, which tracks what each session received.
        """
        body = {"prompt": prompt, "project": project, "k": k, "client": client, "session": session}
        reply = self._wire.ask("POST", "/recall", body, by=by)
        return Briefing(reply["text"], dict.fromkeys(reply["ids"], ""), reply["tokens"])

    def recall_context(
        self,
        query: str,
        *,
        max_memories: int = 3,
        max_patterns: int = 5,
        max_thresholds: int = 5,
        at: str = "",
        by: str = "library",
    ) -> str:
        """Return background knowledge for a monitoring agent, as text inside `<relevant-context>`."""
        limits = {"max_memories": max_memories, "max_patterns": max_patterns, "max_thresholds": max_thresholds}
        return self._post(str, "/recall/context", "context", by=by, query=query, at=at, **limits)

    def enrich_prompt(
        self,
        query: str,
        session: str = "",
        include_team: bool = False,
        max_facts: int = 5,
        *,
        by: str = "library",
    ) -> str:
        """Return memories that answer a question, as a block for the user's message of a model request; "" if none do.

        What was said in the session is personal; without a session, what is private to the caller or global.
        """
        body = {"query": query, "session": session, "include_team": include_team, "max_facts": max_facts}
        return self._post(str, "/enrich", "context", by=by, **body)

    def detect_cross_agent_patterns(
        self, *, min_occurrences: int = 2, limit: int = 20, category: str = "", team: str | None = None
    ) -> builtins.list[RepeatedFact]:
        """Return facts that agents repeatedly stated to the team, most frequent first; optionally of one category."""
        params = {"min_occurrences": min_occurrences, "limit": limit, "category": category, "team": team}
        return self._get(builtins.list[RepeatedFact], "/team/patterns", "patterns", **params)

    def get_team_facts(self, *, limit: int = 50, category: str = "", team: str | None = None) -> builtins.list[Memory]:
        """Return team memories, most recently stated first; optionally of a category or kind."""
        return self._get(builtins.list[Memory], "/team/facts", "memories", limit=limit, category=category, team=team)

    def is_novel(self, fact: str | Fact, *, threshold: float | None = None, **scope: Unpack[ScopeKwargs]) -> Novelty:
        """Return whether no memory of the scope says this yet. Does not count as a retrieval."""
        checked = as_fact(fact, {})
        body = {"text": checked.text, "speaker": checked.speaker, "threshold": threshold, **_scope(scope)}
        return self._post(Novelty, "/memory/is-novel", **_drop_none(body))

    def get(self, memory_id: int) -> Memory:
        """Return a memory, archived or not."""
        return self._get(Memory, _path("memory", memory_id))

    def freshness(self, memory_id: int) -> FreshnessResult:
        """Return whether the code that a memory references has changed."""
        reply = self._wire.ask("GET", _path("memory", memory_id, "freshness"))
        return FreshnessResult(reply["freshness"], tuple(reply["stale"]))

    def list(self, *, limit: int = 50, after: int | None = None, skip: int = 0, **scope: Unpack[ScopeKwargs]) -> Page:
        """Return a page of the scope's memories, newest first, after skipping the first `skip`."""
        where = _check_listable(_scope(scope))
        return self._get(Page, "/memories", limit=limit, after=after, skip=skip, **where)

    def projects(self, *, limit: int = 100, after: str = "") -> builtins.list[Project]:
        """Return the projects of live memories by name, starting after `after`."""
        return self._get(builtins.list[Project], "/projects", "projects", limit=limit, after=after)

    def stats(self) -> dict[str, Any]:
        """Return counts of memories, changes and retrievals, the size on disk, and the service's version and uptime."""
        return self._get(dict[str, Any], "/stats")

    @cached_property
    def user(self) -> str:
        """Name of the user whose key this is; "" for the owner and for agents."""
        return str(self.health().get("user", ""))

    def health(self) -> dict[str, Any]:
        """Return the health of the service, its version, and the role of our key. WrongKey if the key is invalid."""
        return self._get(dict[str, Any], "/health")

    # ── learn from conversations ──────────────────────────────────────────────────────────────────────────────────────

    def capture(
        self, messages: Messages, *, wait: bool = False, by: str = "library", **fields: Unpack[ExchangeKwargs]
    ) -> CaptureStatus:
        """Store an exchange durably and learn from it later; with `wait`, now."""
        body = {"messages": messages, "wait": wait, **_exchange_body(fields)}
        return _parse_capture(self._wire.ask("POST", "/capture", body, by=by))

    def observe(
        self,
        validated_intent: str,
        response: str,
        *,
        wait: bool = False,
        by: str = "library",
        **fields: Unpack[ExchangeKwargs],
    ) -> CaptureStatus:
        """Store an observed dialogue and learn from it later; with `wait`, now. Memories are visible to the team."""
        dialogue(validated_intent, response)  # raises here what the service would
        body = {"validated_intent": validated_intent, "response": response, "wait": wait, **_exchange_body(fields)}
        return _parse_capture(self._wire.ask("POST", "/observe", body, by=by))

    def begin_backfill(self, *, by: str = "library") -> int:
        """Return the changeset that begins the series of a backfill; one that did not end is resumed."""
        return self._post(int, "/backfills", "series", by=by)

    def end_backfill(self, series: int, *, by: str = "library") -> None:
        """Mark a backfill as done: the next one begins its own series."""
        self._wire.ask("POST", _path("backfills", series, "end"), {}, by=by)

    def turns(self, client: str, session: str, *, any_key: bool = False) -> set[str]:
        """Return every turn captured in this session; with `any_key` also in other keys' sessions of this name."""
        return self._get(set[str], "/turns", "turns", client=client, session=session, any_key=any_key)

    def learn(
        self, messages: Messages, *, dry_run: bool = False, by: str = "library", **fields: Unpack[ExchangeKwargs]
    ) -> LearningResult:
        """Preview what would be learned from messages, sentence by sentence. The service learns only by `capture`."""
        if not dry_run:
            raise InvalidInput("`learn` is not available over HTTP.", "Use capture(..., wait=True).")
        return self._post(LearningResult, "/capture", by=by, messages=messages, dry_run=True, **_exchange_body(fields))

    def extract(
        self, messages: Messages, *, dry_run: bool = False, by: str = "library", **fields: Unpack[ExchangeKwargs]
    ) -> LearningResult:
        """Learn with the language model reading everything. NotConfigured without a model."""
        body = {"messages": messages, "dry_run": dry_run, **_exchange_body(fields)}
        return self._post(LearningResult, "/memory/extract", by=by, **body)

    def submit(self, messages: Messages, **fields: Unpack[ExchangeKwargs]) -> CaptureStatus:
        """Queue messages for the language model to read in full; the inbox item gets the result when done."""
        body = {"messages": messages, "async": True, **_exchange_body(fields)}
        reply = self._wire.ask("POST", "/memory/extract", body)
        return CaptureStatus(reply["job"], reply["new"], reply["state"])

    def extraction(self) -> dict[str, Any]:
        """Return the configured extraction model and its state."""
        return self._get(dict[str, Any], "/extract/status")

    def inbox_status(self) -> InboxStatus:
        """Return counts of all captures ever: stored, merged, rejected or pending."""
        return self._get(InboxStatus, "/inbox/status")

    def items(self, state: State | None = None, *, limit: int = 50, after: int | None = None) -> builtins.list[Item]:
        """Return the newest inbox items, optionally of one state."""
        return self._get(builtins.list[Item], "/inbox", "items", state=state, limit=limit, after=after)

    def item(self, item_id: int) -> Item:
        """Return one inbox item."""
        return self._get(Item, _path("inbox", item_id))

    def retry(self, item_id: int) -> Item:
        """Queue a parked or rejected item again."""
        return self._post(Item, _path("inbox", item_id, "retry"))

    def approve_held(self, item_id: int, *, by: str = "library") -> Item:
        """Store a memory candidate that is held for review, as it was said."""
        return self._post(Item, _path("inbox", item_id, "approve"), by=by)

    def discard_held(self, item_id: int) -> Item:
        """Reject a memory candidate that is held for review."""
        return self._post(Item, _path("inbox", item_id, "discard"))

    # ── history ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def history(self, memory_id: int) -> builtins.list[Change]:
        """Return every change of a memory and of those merged with it, oldest first."""
        return self._get(builtins.list[Change], _path("memory", memory_id, "history"), "changes")

    def occurrences(self, memory_id: int) -> builtins.list[Occurrence]:
        """Return every sighting (who stated it, where and when), including those of merged memories."""
        return self._get(builtins.list[Occurrence], _path("memory", memory_id, "occurrences"), "occurrences")

    def learned_from(self, memory_id: int) -> Item | None:
        """Return the capture that the memory was learned from; None if it has none or its text is forgotten."""
        reply = self._wire.ask("GET", _path("memory", memory_id, "exchange"))
        return decode(Item, reply["item"]) if reply["item"] else None

    def changes(self, *, limit: int = 20) -> builtins.list[Changeset]:
        """Return the newest changesets."""
        return self._get(builtins.list[Changeset], "/changes", "changesets", limit=limit)

    def changeset(self, changeset_id: int) -> Changeset:
        """Return one changeset with all its changes."""
        return self._get(Changeset, _path("changes", changeset_id))

    def undo(self, changeset_id: int, *, by: str = "library", why: str = "") -> Changeset:
        """Revert a whole changeset by a new changeset, which can be undone in turn."""
        return self._post(Changeset, _path("changes", changeset_id, "undo"), by=by, why=why)

    def undo_learned(
        self,
        *,
        source: str = "",
        session: str = "",
        since: Timestamp = "",
        dry_run: bool = True,
        by: str = "library",
        why: str = "",
    ) -> CleanupPlan:
        """Undo everything learned from a source, or in a session, in one changeset; a dry run only previews."""
        about = {"source": source, "session": session, "dry_run": dry_run, "why": why}
        if since:
            about["since"] = to_utc_iso(since)
        return self._post(CleanupPlan, "/changes/undo-learned", by=by, **about)

    # ── maintenance ───────────────────────────────────────────────────────────────────────────────────────────────────

    def find_duplicates(self, *, threshold: float | None = None, **scope: Unpack[ScopeKwargs]) -> builtins.list[Delete]:
        """Return decisions that would merge duplicates, with reasons. Changes nothing."""
        body = _duplicates_body(threshold, scope, dry_run=True)
        return self._post(builtins.list[Delete], "/memory/deduplicate", "decisions", **body)

    def merge_duplicates(
        self,
        *,
        threshold: float | None = None,
        by: str = "library",
        why: str = "",
        **scope: Unpack[ScopeKwargs],
    ) -> Changeset | None:
        """Merge duplicates in one changeset; return None if there are none."""
        body = {**_duplicates_body(threshold, scope, dry_run=False), "why": why}
        reply = self._wire.ask("POST", "/memory/deduplicate", body, by=by)
        return None if reply["changeset"] is None else self.changeset(reply["changeset"])

    def consolidate(
        self, *, dry_run: bool = True, source_prefix: str = "", by: str = "library", why: str = ""
    ) -> MaintenancePlan:
        """Merge duplicates in one changeset, and report refused merges with reasons. A dry run only previews."""
        params = {"dry_run": dry_run, "source_prefix": source_prefix, "why": why}
        return self._parse_plan(self._wire.ask("POST", "/maintenance/consolidate", by=by, **params))

    def prune(self, *, dry_run: bool = True, by: str = "library", why: str = "") -> MaintenancePlan:
        """Archive memories that were not recalled for long, in one changeset. A dry run only previews."""
        return self._parse_plan(self._wire.ask("POST", "/maintenance/prune", by=by, dry_run=dry_run, why=why))

    def runs(self, *, limit: int = 20, chore: str = "") -> builtins.list[MaintenanceRun]:
        """Return the newest chore runs, optionally of one chore."""
        return self._get(builtins.list[MaintenanceRun], "/maintenance/runs", "runs", limit=limit, chore=chore)

    def usage(
        self, view: View = "most", *, limit: int = 50, days: int = 90, **scope: Unpack[ScopeKwargs]
    ) -> builtins.list[Memory]:
        """Return memories "never" recalled (oldest first), recalled "most", or "stale" (not for `days` days)."""
        params = {"view": view, "limit": limit, "days": days, **_check_listable(_scope(scope))}
        return self._get(builtins.list[Memory], "/maintenance/usage", "memories", **params)

    def llm_usage(self, *, limit: int = 20) -> LLMUsage:
        """Return model calls of today and the last 7 and 30 days, by model and session, and the newest calls."""
        return self._get(LLMUsage, "/llm/usage", limit=limit)

    def llm_call(self, call_id: int) -> LLMCall:
        """Return one call of the language model, with redacted texts."""
        return self._get(LLMCall, _path("llm", "usage", call_id))

    def audit(self, *, examples: int = 5, progress: Callable[[int, int], None] | None = None) -> Audit:  # noqa: ARG002
        """Return the profile of the store: duplicates, echoes, secrets, unused, stale or contradicted memories."""
        return self._get(Audit, "/maintenance/audit", examples=examples)

    def archive_findings(
        self, findings: Sequence[str], *, dry_run: bool = True, by: str = "library", why: str = ""
    ) -> CleanupPlan:
        """Archive the memories that `audit` found suspicious, in one changeset; a dry run only previews."""
        about = {"findings": list(findings), "dry_run": dry_run, "why": why}
        return self._post(CleanupPlan, "/maintenance/audit", by=by, **about)

    def contradictions(self, *, limit: int = 50) -> Contradictions:
        """Return pairs of memories that contradict each other, newest first, and the total number of pairs."""
        return self._get(Contradictions, "/maintenance/contradictions", limit=limit)

    def approve(
        self, chore: str, decisions: Sequence[Decision], *, as_of: int, by: str = "library", why: str = ""
    ) -> Changeset:
        """Apply some of the decisions that `consolidate`, `prune` or `contradictions` showed, in one changeset."""
        rows = [to_plain(decision) for decision in decisions]
        return self._post(Changeset, "/maintenance/approve", by=by, chore=chore, as_of=as_of, decisions=rows, why=why)

    def dismiss_contradiction(self, ids: Sequence[int], *, by: str = "library", why: str = "") -> Changeset:
        """Mark two memories as compatible: they no longer count as a contradiction until one of them changes."""
        return self._post(Changeset, "/maintenance/contradictions/dismiss", by=by, ids=list(ids), why=why)

    # ── export ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def export_lines(self, *, vectors: bool = False) -> Iterator[str]:
        """Yield a header, then every memory as a line of JSON; archived ones included, with vectors on request."""
        text = self._wire.read("/export", vectors=vectors).decode()
        return (f"{line}\n" for line in text.split("\n") if line)

    # ── access control ────────────────────────────────────────────────────────────────────────────────────────────────

    def create_key(self, grant: Grant, *, by: str = "library") -> tuple[Key, str]:
        """Create a key; return it with its secret, which is not stored and cannot be shown again."""
        body = {name: value for name, value in asdict(grant).items() if value not in ("", (), None)}
        reply = self._wire.ask("POST", "/keys", body, by=by)
        secret = reply.pop("secret")
        return Key.from_dict(reply), str(secret)

    def revoke_key(self, key_id: int, *, by: str = "library") -> Key:
        """Revoke a key: it no longer grants access."""
        return Key.from_dict(self._wire.ask("DELETE", _path("keys", key_id), by=by))

    def keys(self) -> builtins.list[Key]:
        """Return every key ever created, newest first."""
        return self._get(builtins.list[Key], "/keys", "keys")

    def audit_entries(
        self, *, limit: int = 50, after: int | None = None, key: int | None = None
    ) -> builtins.list[AuditEntry]:
        """Return the newest audit log entries, optionally of one key."""
        return self._get(builtins.list[AuditEntry], "/keys/log", "entries", limit=limit, after=after, key=key)

    # ── connection ────────────────────────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Close all connections."""
        self._wire.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def knowledge(self) -> ClientKnowledge:
        """Structured domain knowledge: patterns, correlations, thresholds, seasonal patterns, feedback."""
        return ClientKnowledge(self._wire)

    @property
    def notes(self) -> ClientNotes:
        """Markdown files as memories, on the service's machine."""
        return ClientNotes(self._wire, self._fetch_changes)

    def _parse_plan(self, reply: Mapping[str, Any]) -> MaintenancePlan:
        plan = decode(MaintenancePlan, {**reply, "decisions": (), "changeset": None})
        decisions = tuple(_parse_decision(row) for row in reply["decisions"])
        changeset = None if reply["changeset"] is None else self.changeset(reply["changeset"])
        return replace(plan, decisions=decisions, changeset=changeset)


class ClientNotes:
    """Markdown notes of a keeper in another process. Folders are those of its machine."""

    def __init__(self, wire: HttpTransport, fetch_changes: Callable[[Mapping[str, Any]], tuple[Change, ...]]) -> None:
        self._wire, self._fetch_changes = wire, fetch_changes

    def flush(
        self, summary: str, tags: Sequence[str] = (), *, by: str = "library", **fields: Unpack[NoteKwargs]
    ) -> Change:
        """Write a summary to `YYYY-MM-DD-HH-<id8>.md` in the notes folder and store it as memory of `file:<name>`."""
        body = {"summary": summary, **fields, **({"tags": list(tags)} if tags else {})}
        return self._fetch_changes(self._wire.ask("POST", "/notes/flush", body, by=by))[0]

    def index(
        self, folder: Path | str | None = None, *, label: str = "", dry_run: bool = False, by: str = "library"
    ) -> IndexResult:
        """Sync memories with the files of a folder (default: the notes folder): new, edited, moved and deleted ones."""
        body = {"folder": str(folder or ""), "label": label, "dry_run": dry_run}
        return self._wire.post(IndexResult, "/notes/index", by=by, **body)

    def folders(self) -> builtins.list[NotesFolder]:
        """Return the folders that were indexed or are followed."""
        return self._wire.get(builtins.list[NotesFolder], "/notes", "folders")

    def export(self, folder: Path | str, **scope: Unpack[ScopeKwargs]) -> VaultExportResult:
        """Write the memories of a scope to a vault, one note each. `index` imports edits of them."""
        return self._wire.post(VaultExportResult, "/notes/export", folder=str(folder), **_scope(scope))


# ── request bodies ────────────────────────────────────────────────────────────────────────────────────────────────


def _drop_none(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def _keep(keep_secret: bool) -> dict[str, bool]:
    return {"keep_secret": True} if keep_secret else {}


def _fact_body(fact: Fact, *, whole: bool = False) -> dict[str, Any]:
    values = {field.name: getattr(fact, field.name) for field in fields(Fact) if field.name not in _BY_SERVICE}
    empty: tuple[Any, ...] = ("",) if whole else ("", (), {})
    return {name: value for name, value in values.items() if value not in empty}


def _scope(within: Mapping[str, Any]) -> dict[str, Any]:
    return _scope_body(as_scope(within))


def _scope_body(scope: Scope) -> dict[str, Any]:
    return {field.name: value for field in fields(Scope) if (value := getattr(scope, field.name)) != field.default}


def _check_listable(scope: dict[str, Any]) -> dict[str, Any]:
    """Return the scope as query parameters. Raise if it needs an empty value, which a query string cannot express."""
    if scope.get("source") == "" or any("," in tag for tag in scope.get("tags", ())):
        hint = "Use `search`, or open the store directly with `cofio.open`."
        raise InvalidInput("Over HTTP, memories cannot be filtered by an empty source or by a tag with a comma.", hint)
    return scope


def _query_body(query: Query) -> dict[str, Any]:
    changed = {field.name: value for field in fields(Query) if (value := getattr(query, field.name)) != field.default}
    text = changed.pop("text")
    for name in ("scope", "rerank"):  # sent otherwise, and set by the service
        changed.pop(name, None)
    return {"query": text, **changed, **_scope_body(query.scope)}


def _duplicates_body(threshold: float | None, within: Mapping[str, Any], *, dry_run: bool) -> dict[str, Any]:
    scope = _scope(within)
    if scope.keys() - {"source_prefix"}:
        raise InvalidInput("Over HTTP, duplicates can be filtered by source_prefix only.", "Omit the other fields.")
    return _drop_none({**scope, "threshold": threshold, "dry_run": dry_run})


# ── replies ───────────────────────────────────────────────────────────────────────────────────────────────


def _parse_hit(content: Mapping[str, Any]) -> Hit:
    return decode(Hit, {**content, "memory": content, "keyword": content["keyword_score"]})


def _parse_decision(content: Mapping[str, Any]) -> Delete | Merge:
    if content["action"] == "merge":
        return Merge(tuple(content["ids"]), Fact(text=content["text"]), content.get("reason", ""))
    return decode(Delete, content)


def _path(*parts: Any) -> str:
    return "/" + "/".join(quote(str(part), safe="") for part in parts)


def _parse_capture(content: dict[str, Any]) -> CaptureStatus:
    status = {name: content.pop(name) for name in ("id", "new", "state", "reason")}
    return CaptureStatus(**status, result={**content, "reason": status["reason"]} if content else {})


def _exchange_body(about: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in about.items()}
    return {name: value for name, value in values.items() if value not in ("", None)}
