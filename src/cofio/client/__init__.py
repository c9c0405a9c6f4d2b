"""HTTP client with the methods, parameters and values of Keeper. Standard library only.

Where Keeper returns a change, the service returns a changeset id and the client reads the changeset, so that callers
get the same values from both.
"""

from __future__ import annotations

import builtins
import http.client
import json
import select
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from queue import Empty, LifoQueue
from types import MappingProxyType, TracebackType
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from cofio.client.knowledge import ClientKnowledge
from cofio.errors import InvalidInput, Misconfigured, NotFound, Unavailable, class_for_code
from cofio.models.auth import AuditEntry, Grant, Key
from cofio.models.domain_knowledge import KnowledgeChange
from cofio.models.episodes import Episode, EpisodeHit
from cofio.models.exchange import CaptureStatus, InboxStatus, Item, LearningResult, Messages, State, dialogue
from cofio.models.llm_calls import LLMCall, LLMUsage
from cofio.models.maintenance import (
    Audit,
    Contradiction,
    Contradictions,
    Finding,
    MaintenancePlan,
    MaintenanceRun,
    Refusal,
    View,
)
from cofio.models.memory import (
    Briefing,
    Change,
    Changeset,
    Decision,
    Delete,
    Explanation,
    Fact,
    FreshnessResult,
    Hit,
    Memory,
    Merge,
    Novelty,
    Occurrence,
    Page,
    Project,
    Query,
    RepeatedFact,
    Scope,
    as_fact,
    as_query,
    to_plain,
)
from cofio.models.notes import IndexResult, NotesFolder, VaultExportResult
from cofio.models.sessions import RESUME_TOKENS, RESUMED, AgentSession, ResumeReport, SessionDetail

_THEIRS = ("anchors",)  # determined by the service
_QUERIES_AT_ONCE = 100  # limit of /search/batch


class Client:
    """Keeper in another process, over HTTP. Thread-safe; call `close`, or use it in a `with` statement."""

    def __init__(self, url: str, key: str = "", timeout: float = 60.0) -> None:
        self._wire = _HttpConnection(url, key, timeout)

    # ── the way in ────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, fact: str | Fact, *, dedup: bool = True, by: str = "library", why: str = "", **about: Any) -> Change:
        """Store a fact. The change is "add", "update" (it replaced a memory) or "noop" (a memory already says it)."""
        body = {**_fact_body(as_fact(fact, about)), "deduplicate": dedup, "why": why}
        reply = self._wire.ask("POST", "/memory/add", body, by=by)
        return self._load_near([reply], self._fetch_changes(reply)[:1])[0]

    def add_all(
        self, facts: Sequence[str | Fact], *, dedup: bool = True, by: str = "library", why: str = ""
    ) -> builtins.list[Change]:
        """Store many facts in one changeset; one change per fact, in order. The service accepts 1,000 per call."""
        bodies = [_fact_body(as_fact(fact, {})) for fact in facts]
        if not bodies:
            return []
        body = {"memories": bodies, "deduplicate": dedup, "why": why}
        reply = self._wire.ask("POST", "/memory/add-batch", body, by=by)
        return self._load_near(reply["results"], _match_changes(reply["results"], self._fetch_changes(reply)))

    def _load_near(self, results: Sequence[Mapping[str, Any]], changes: Sequence[Change]) -> builtins.list[Change]:
        """Return the changes, with similar memories that stayed but may be outdated."""
        updated = []
        for result, change in zip(results, changes, strict=True):
            near = tuple(self.get(row["id"]) for row in result.get("near", ()))
            updated.append(replace(change, near=near) if near else change)
        return updated

    def update(self, memory_id: int, *, by: str = "library", why: str = "", **changes: Any) -> Change:
        """Change fields of a memory in place."""
        return self._fetch_changes(self._wire.ask("PATCH", _path("memory", memory_id), {**changes, "why": why}, by=by))[
            0
        ]

    def supersede(
        self, old_id: int, new: str | Fact, *, by: str = "library", why: str = "", **about: Any
    ) -> tuple[Change, Change]:
        """Replace a memory by a new one. Return the change that wrote it and the one that archived the old memory.

        The service copies an empty source, session, agent or speaker from the old memory, even if `new` is a Fact.
        """
        fields = _fact_body(new, whole=True) if isinstance(new, Fact) else {**about, "text": new}
        body = {"old_id": old_id, "new_text": fields.pop("text"), **fields, "why": why}
        written, archived = self._fetch_changes(self._wire.ask("POST", "/memory/supersede", body, by=by))
        return written, archived

    def delete(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Archive a memory; `restore` or `undo` brings it back."""
        return self._fetch_changes(self._wire.ask("DELETE", _path("memory", memory_id), by=by, why=why))[0]

    def restore(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Restore an archived memory."""
        return self._fetch_changes(self._wire.ask("POST", _path("memory", memory_id, "restore"), {"why": why}, by=by))[
            0
        ]

    def mark_fresh(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Mark a memory as still valid: fingerprint its references again. InvalidInput if none of them exists."""
        return self._fetch_changes(
            self._wire.ask("POST", _path("memory", memory_id, "mark-fresh"), {"why": why}, by=by)
        )[0]

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
        options = {**({"changes": dict(changes)} if changes else {}), **({"tags": list(tags)} if tags else {})}
        return _parse_changeset(
            self._wire.ask("POST", "/memories/bulk", {"ids": list(ids), "action": action, **options, "why": why}, by=by)
        )

    def purge(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Erase a memory for good, from the journal too."""
        reply = self._wire.ask("DELETE", _path("memory", memory_id), by=by, why=why, purge=True)
        try:
            return self._fetch_changes(reply)[0]
        except NotFound:  # a key with limited access no longer sees a memory whose owner was erased with it
            ids = {"id": 0, "changeset": reply["changeset"], "memory_id": reply["id"], "at": ""}
            return Change(**ids, action="purge", by=by, why=why, before=None, after=None)

    # ── the way out ───────────────────────────────────────────────────────────────────────────────────────────────────

    def search(self, query: str | Query, *, by: str = "library", **how: Any) -> builtins.list[Hit]:
        """Return matching memories, best first. `how` takes the fields of Query and of Scope."""
        reply = self._wire.ask("POST", "/search", _query_body(as_query(query, how)), by=by)
        return [_parse_hit(row) for row in reply["results"]]

    def search_all(self, queries: Sequence[Query], *, by: str = "library") -> builtins.list[builtins.list[Hit]]:
        """Return one list of hits per query, in order."""
        hit_lists: builtins.list[builtins.list[Hit]] = []
        for start in range(0, len(queries), _QUERIES_AT_ONCE):
            body = {"queries": [_query_body(query) for query in queries[start : start + _QUERIES_AT_ONCE]]}
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
        scope = Scope(
            source=source,
            source_prefix=source_prefix,
            project=project,
            visible_in=visible_in,
            session=session,
            agent=agent,
            since=since,
            until=until,
        )
        body = _query_body(Query(text=query, k=k, skip=skip, min_score=min_score, scope=scope))
        reply = self._wire.ask("POST", "/episodes/search", body)
        return [EpisodeHit.from_dict(row) for row in reply["episodes"]]

    def episode(self, episode_id: int) -> Episode:
        """Return one episode: the conversation of one turn."""
        return Episode.from_dict(self._wire.ask("GET", _path("episodes", episode_id)))

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
        reply = self._wire.ask(
            "GET", "/sessions", limit=limit, client=client or None, project=project, since=since or None
        )
        return [AgentSession.from_dict(row) for row in reply["sessions"]]

    def session(self, session: str, *, client: str = "", owner: str | None = None) -> SessionDetail:
        """Return one session by its id or a unique prefix of it: its turns, recalls, memories learned and changes."""
        reply = self._wire.ask("GET", "/session", session=session, client=client or None, owner=owner)
        return SessionDetail.from_dict(reply)

    def resume(
        self, project: str | None = None, *, limit: int = RESUMED, max_tokens: int = RESUME_TOKENS
    ) -> ResumeReport:
        """Return where work on a project stopped: its last sessions, with a text of limited size. Calls no model."""
        reply = self._wire.ask("GET", "/resume", project=project, limit=limit, max_tokens=max_tokens)
        return ResumeReport.from_dict(reply)

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
        recipient = {"client": client or None, "session": session or None}
        body = _drop_none({"prompt": prompt, "project": project, "k": k, **recipient})
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
        caps = {"max_memories": max_memories, "max_patterns": max_patterns, "max_thresholds": max_thresholds}
        return str(self._wire.ask("POST", "/recall/context", {"query": query, **caps, "at": at}, by=by)["context"])

    def enrich_prompt(
        self,
        query: str,
        session: str = "",
        include_team: bool = False,
        max_facts: int = 5,
        *,
        by: str = "library",
    ) -> str:
        """Return memories that answer a question, as text to append to a system message; "" if none do.

        What was said in the session is personal; without a session, what is private to the caller or global.
        """
        body = {"query": query, "session": session, "include_team": include_team, "max_facts": max_facts}
        return str(self._wire.ask("POST", "/enrich", body, by=by)["context"])

    def detect_cross_agent_patterns(
        self, *, min_occurrences: int = 2, limit: int = 20, category: str = "", team: str | None = None
    ) -> builtins.list[RepeatedFact]:
        """Return facts that agents repeatedly stated to the team, most frequent first; optionally of one category."""
        params: dict[str, Any] = {"min_occurrences": min_occurrences, "limit": limit, "team": team}
        reply = self._wire.ask("GET", "/team/patterns", category=category or None, **params)
        return [RepeatedFact.from_dict(row) for row in reply["patterns"]]

    def get_team_facts(self, *, limit: int = 50, category: str = "", team: str | None = None) -> builtins.list[Memory]:
        """Return team memories, most recently stated first; optionally of a category or kind."""
        reply = self._wire.ask("GET", "/team/facts", limit=limit, category=category or None, team=team)
        return [Memory.from_dict(row) for row in reply["memories"]]

    def is_novel(self, fact: str | Fact, *, threshold: float | None = None, **within: Any) -> Novelty:
        """Return whether no memory of the scope says this yet. Does not count as a retrieval."""
        checked = as_fact(fact, {})
        body = {"text": checked.text, "speaker": checked.speaker, "threshold": threshold, **_scope(within)}
        reply = self._wire.ask("POST", "/memory/is-novel", _drop_none(body))
        match = Memory.from_dict(reply["match"]) if reply["match"] else None
        return Novelty(novel=reply["novel"], similarity=reply["similarity"], match=match, reason=reply["reason"])

    def get(self, memory_id: int) -> Memory:
        """Return a memory, archived or not."""
        return Memory.from_dict(self._wire.ask("GET", _path("memory", memory_id)))

    def freshness(self, memory_id: int) -> FreshnessResult:
        """Return whether the code that a memory references has changed."""
        reply = self._wire.ask("GET", _path("memory", memory_id, "freshness"))
        return FreshnessResult(reply["freshness"], tuple(reply["stale"]))

    def list(self, *, limit: int = 50, after: int | None = None, skip: int = 0, **within: Any) -> Page:
        """Return a page of the scope's memories, newest first, after skipping the first `skip`."""
        where = _check_listable(_scope(within))
        reply = self._wire.ask("GET", "/memories", limit=limit, after=after, skip=skip or None, **where)
        return Page(tuple(Memory.from_dict(row) for row in reply["memories"]), reply["next"], reply["total"])

    def projects(self, *, limit: int = 100, after: str = "") -> builtins.list[Project]:
        """Return the projects of live memories by name, starting after `after`."""
        reply = self._wire.ask("GET", "/projects", limit=limit, after=after or None)
        return [Project(**row) for row in reply["projects"]]

    def stats(self) -> dict[str, Any]:
        """Return counts of memories, changes and retrievals, the size on disk, and the service's version and uptime."""
        return dict(self._wire.ask("GET", "/stats"))

    def health(self) -> dict[str, Any]:
        """Return the health of the service, its version, and the role of our key. WrongKey if the key is invalid."""
        return dict(self._wire.ask("GET", "/health"))

    # ── learning from conversations ───────────────────────────────────────────────────────────────────────────────────

    def capture(self, messages: Messages, *, wait: bool = False, by: str = "library", **about: Any) -> CaptureStatus:
        """Store an exchange durably and learn from it later; with `wait`, now."""
        body = {"messages": messages, "wait": wait, **_exchange_body(about)}
        return _parse_capture(self._wire.ask("POST", "/capture", body, by=by))

    def observe(
        self, validated_intent: str, response: str, *, wait: bool = False, by: str = "library", **about: Any
    ) -> CaptureStatus:
        """Store an observed dialogue and learn from it later; with `wait`, now. Memories are visible to the team."""
        dialogue(validated_intent, response)  # raises here what the service would
        body = {"validated_intent": validated_intent, "response": response, "wait": wait, **_exchange_body(about)}
        return _parse_capture(self._wire.ask("POST", "/observe", body, by=by))

    def begin_backfill(self, *, by: str = "library") -> int:
        """Return the changeset that begins the series of a backfill; one that did not end is resumed."""
        return int(self._wire.ask("POST", "/backfills", {}, by=by)["series"])

    def end_backfill(self, series: int, *, by: str = "library") -> None:
        """Mark a backfill as done: the next one begins its own series."""
        self._wire.ask("POST", _path("backfills", series, "end"), {}, by=by)

    def turns(self, client: str, session: str, *, any_key: bool = False) -> set[str]:
        """Return every turn captured in this session; with `any_key` also in other keys' sessions of this name."""
        reply = self._wire.ask("GET", "/turns", client=client, session=session, any_key=any_key or None)
        return set(reply["turns"])

    def learn(self, messages: Messages, *, dry_run: bool = False, by: str = "library", **about: Any) -> LearningResult:
        """Preview what would be learned from messages, sentence by sentence. The service learns only by `capture`."""
        if not dry_run:
            raise InvalidInput("`learn` is not available over HTTP.", "Use capture(..., wait=True).")
        reply = self._wire.ask(
            "POST", "/capture", {"messages": messages, "dry_run": True, **_exchange_body(about)}, by=by
        )
        return LearningResult.from_dict(reply)

    def extract(
        self, messages: Messages, *, dry_run: bool = False, by: str = "library", **about: Any
    ) -> LearningResult:
        """Learn with the language model reading everything. NotConfigured without a model."""
        body = {"messages": messages, "dry_run": dry_run, **_exchange_body(about)}
        return LearningResult.from_dict(self._wire.ask("POST", "/memory/extract", body, by=by))

    def submit(self, messages: Messages, **about: Any) -> CaptureStatus:
        """Queue messages for the language model to read in full; the inbox item gets the result when done."""
        reply = self._wire.ask(
            "POST", "/memory/extract", {"messages": messages, "async": True, **_exchange_body(about)}
        )
        return CaptureStatus(reply["job"], reply["new"], reply["state"])

    def extraction(self) -> dict[str, Any]:
        """Return the configured extraction model and its state."""
        return dict(self._wire.ask("GET", "/extract/status"))

    def inbox_status(self) -> InboxStatus:
        """Return counts of all captures ever: stored, merged, rejected or pending."""
        reply = self._wire.ask("GET", "/inbox/status")
        return InboxStatus(**{field.name: reply[field.name] for field in fields(InboxStatus)})

    def items(self, state: State | None = None, *, limit: int = 50, after: int | None = None) -> builtins.list[Item]:
        """Return the newest inbox items, optionally of one state."""
        reply = self._wire.ask("GET", "/inbox", state=state, limit=limit, after=after)
        return [Item.from_dict(row) for row in reply["items"]]

    def item(self, item_id: int) -> Item:
        """Return one inbox item."""
        return Item.from_dict(self._wire.ask("GET", _path("inbox", item_id)))

    def retry(self, item_id: int) -> Item:
        """Queue a parked or rejected item again."""
        return Item.from_dict(self._wire.ask("POST", _path("inbox", item_id, "retry")))

    # ── history ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def history(self, memory_id: int) -> builtins.list[Change]:
        """Return every change of a memory and of those merged with it, oldest first."""
        reply = self._wire.ask("GET", _path("memory", memory_id, "history"))
        return [_parse_change(row) for row in reply["changes"]]

    def occurrences(self, memory_id: int) -> builtins.list[Occurrence]:
        """Return every sighting (who stated it, where and when), including those of merged memories."""
        reply = self._wire.ask("GET", _path("memory", memory_id, "occurrences"))
        return [Occurrence(**row) for row in reply["occurrences"]]

    def learned_from(self, memory_id: int) -> Item | None:
        """Return the capture that the memory was learned from; None if it has none or its text is forgotten."""
        reply = self._wire.ask("GET", _path("memory", memory_id, "exchange"))
        return Item.from_dict(reply["item"]) if reply["item"] else None

    def changes(self, *, limit: int = 20) -> builtins.list[Changeset]:
        """Return the newest changesets."""
        return [_parse_changeset(row) for row in self._wire.ask("GET", "/changes", limit=limit)["changesets"]]

    def changeset(self, changeset_id: int) -> Changeset:
        """Return one changeset with all its changes."""
        return _parse_changeset(self._wire.ask("GET", _path("changes", changeset_id)))

    def undo(self, changeset_id: int, *, by: str = "library", why: str = "") -> Changeset:
        """Revert a whole changeset by a new changeset, which can be undone in turn."""
        return _parse_changeset(self._wire.ask("POST", _path("changes", changeset_id, "undo"), {"why": why}, by=by))

    # ── upkeep ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def find_duplicates(self, *, threshold: float | None = None, **within: Any) -> builtins.list[Delete]:
        """Return decisions that would merge duplicates, with reasons. Changes nothing."""
        reply = self._wire.ask("POST", "/memory/deduplicate", _duplicates_body(threshold, within, dry_run=True))
        return [Delete(row["id"], row.get("reason", ""), row.get("into")) for row in reply["decisions"]]

    def merge_duplicates(
        self, *, threshold: float | None = None, by: str = "library", why: str = "", **within: Any
    ) -> Changeset | None:
        """Merge duplicates in one changeset; return None if there are none."""
        body = {**_duplicates_body(threshold, within, dry_run=False), **_drop_none({"why": why or None})}
        reply = self._wire.ask("POST", "/memory/deduplicate", body, by=by)
        return None if reply["changeset"] is None else self.changeset(reply["changeset"])

    def consolidate(
        self, *, dry_run: bool = True, source_prefix: str = "", by: str = "library", why: str = ""
    ) -> MaintenancePlan:
        """Merge duplicates in one changeset, and report refused merges with reasons. A dry run only previews."""
        params = {"dry_run": dry_run, "source_prefix": source_prefix or None, "why": why or None}
        return self._parse_plan(self._wire.ask("POST", "/maintenance/consolidate", by=by, **params))

    def prune(self, *, dry_run: bool = True, by: str = "library", why: str = "") -> MaintenancePlan:
        """Archive memories that were not recalled for long, in one changeset. A dry run only previews."""
        return self._parse_plan(self._wire.ask("POST", "/maintenance/prune", by=by, dry_run=dry_run, why=why or None))

    def runs(self, *, limit: int = 20, chore: str = "") -> builtins.list[MaintenanceRun]:
        """Return the newest chore runs, optionally of one chore."""
        reply = self._wire.ask("GET", "/maintenance/runs", limit=limit, chore=chore or None)
        return [MaintenanceRun(**row) for row in reply["runs"]]

    def usage(self, view: View = "most", *, limit: int = 50, days: int = 90, **within: Any) -> builtins.list[Memory]:
        """Return memories "never" recalled (oldest first), recalled "most", or "stale" (not for `days` days)."""
        reply = self._wire.ask(
            "GET", "/maintenance/usage", view=view, limit=limit, days=days, **_check_listable(_scope(within))
        )
        return [Memory.from_dict(row) for row in reply["memories"]]

    def llm_usage(self, *, limit: int = 20) -> LLMUsage:
        """Return model calls of today and the last 7 and 30 days, by model and session, and the newest calls."""
        return LLMUsage.from_dict(self._wire.ask("GET", "/llm/usage", limit=limit))

    def llm_call(self, call_id: int) -> LLMCall:
        """Return one call of the language model, with redacted texts."""
        return LLMCall.from_dict(self._wire.ask("GET", _path("llm", "usage", call_id)))

    def audit(self, *, examples: int = 5, progress: Callable[[int, int], None] | None = None) -> Audit:  # noqa: ARG002
        """Return the profile of the store: duplicates, echoes, secrets, unused, stale or contradicted memories."""
        reply = self._wire.ask("GET", "/maintenance/audit", examples=examples)
        findings = tuple(Finding(**{**row, "examples": tuple(row["examples"])}) for row in reply["findings"])
        return Audit(memories=reply["memories"], findings=findings, note=reply["note"])

    def contradictions(self, *, limit: int = 50) -> Contradictions:
        """Return pairs of memories that contradict each other, newest first, and the total number of pairs."""
        reply = self._wire.ask("GET", "/maintenance/contradictions", limit=limit)
        pairs = tuple(_parse_contradiction(row) for row in reply["pairs"])
        return Contradictions(pairs=pairs, count=reply["count"], note=reply["note"], as_of=reply["as_of"])

    def approve(
        self, chore: str, decisions: Sequence[Decision], *, as_of: int, by: str = "library", why: str = ""
    ) -> Changeset:
        """Apply some of the decisions that `consolidate`, `prune` or `contradictions` showed, in one changeset."""
        body = {"chore": chore, "as_of": as_of, "decisions": [to_plain(decision) for decision in decisions], "why": why}
        return _parse_changeset(self._wire.ask("POST", "/maintenance/approve", body, by=by))

    def dismiss_contradiction(self, ids: Sequence[int], *, by: str = "library", why: str = "") -> Changeset:
        """Mark two memories as compatible: they no longer count as a contradiction until one of them changes."""
        return _parse_changeset(
            self._wire.ask("POST", "/maintenance/contradictions/dismiss", {"ids": list(ids), "why": why}, by=by)
        )

    # ── moving ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def export_lines(self, *, vectors: bool = False) -> Iterator[str]:
        """Yield a header, then every memory as a line of JSON; archived ones included, with vectors on request."""
        text = self._wire.read("/export", vectors=vectors).decode()
        return (f"{line}\n" for line in text.split("\n") if line)

    # ── who may ask ───────────────────────────────────────────────────────────────────────────────────────────────────

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
        return [Key.from_dict(row) for row in self._wire.ask("GET", "/keys")["keys"]]

    def deeds(self, *, limit: int = 50, after: int | None = None, key: int | None = None) -> builtins.list[AuditEntry]:
        """Return the newest audit log entries, optionally of one key."""
        reply = self._wire.ask("GET", "/keys/log", limit=limit, after=after, key=key)
        return [AuditEntry(**row) for row in reply["deeds"]]

    # ── life ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Close all connections."""
        self._wire.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def knowledge(self) -> ClientKnowledge:
        """Structured domain knowledge: patterns, correlations, thresholds, seasonal patterns, feedback."""
        return ClientKnowledge(self._wire.ask, _parse_changeset)

    @property
    def notes(self) -> ClientNotes:
        """Markdown files as memories, on the service's machine."""
        return ClientNotes(self._wire, self._fetch_changes)

    def _parse_plan(self, reply: Mapping[str, Any]) -> MaintenancePlan:
        return MaintenancePlan(
            chore=reply["chore"],
            decisions=tuple(_parse_decision(row) for row in reply["decisions"]),
            refused=tuple(
                Refusal(ids=tuple(row["ids"]), reason=row["reason"], proposed=tuple(row["proposed"]))
                for row in reply["refused"]
            ),
            examined=reply["examined"],
            note=reply["note"],
            dry_run=reply["dry_run"],
            changeset=None if reply["changeset"] is None else self.changeset(reply["changeset"]),
            as_of=reply["as_of"],
        )

    def _fetch_changes(self, reply: Mapping[str, Any]) -> tuple[Change, ...]:
        return self.changeset(reply["changeset"]).changes


class ClientNotes:
    """Markdown notes of a keeper in another process. Folders are those of its machine."""

    def __init__(self, wire: _HttpConnection, fetch_changes: Callable[[Mapping[str, Any]], tuple[Change, ...]]) -> None:
        self._wire, self._fetch_changes = wire, fetch_changes

    def flush(self, summary: str, tags: Sequence[str] = (), *, by: str = "library", **about: Any) -> Change:
        """Write a summary to `YYYY-MM-DD-HH-<id8>.md` in the notes folder and store it as memory of `file:<name>`."""
        body = {"summary": summary, **about, **({"tags": list(tags)} if tags else {})}
        return self._fetch_changes(self._wire.ask("POST", "/notes/flush", body, by=by))[0]

    def index(
        self, folder: Path | str | None = None, *, label: str = "", dry_run: bool = False, by: str = "library"
    ) -> IndexResult:
        """Sync memories with the files of a folder (default: the notes folder): new, edited, moved and deleted ones."""
        body = {"folder": str(folder or ""), "label": label, "dry_run": dry_run}
        return IndexResult.from_dict(self._wire.ask("POST", "/notes/index", body, by=by))

    def folders(self) -> builtins.list[NotesFolder]:
        """Return the folders that were indexed or are followed."""
        return [NotesFolder(**row) for row in self._wire.ask("GET", "/notes")["folders"]]

    def export(self, folder: Path | str, **within: Any) -> VaultExportResult:
        """Write the memories of a scope to a vault, one note each. `index` imports edits of them."""
        body = {"folder": str(folder), **_scope(within)}
        return VaultExportResult.from_dict(self._wire.ask("POST", "/notes/export", body))


class _HttpConnection:
    """JSON requests over pooled keep-alive connections, each used by one thread at a time."""

    def __init__(self, url: str, key: str, timeout: float) -> None:
        self._url = url.rstrip("/")
        self._timeout = timeout
        self._secure, self._host, self._port, self._base = _parse_url(self._url)
        self._headers = {"Accept": "application/json", **({"X-API-Key": _check_header(key, "The key")} if key else {})}
        self._idle: LifoQueue[http.client.HTTPConnection] = LifoQueue()

    def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, /, *, by: str = "", **params: Any
    ) -> Any:
        """Return the JSON value of the reply; raise the service's errors as our exceptions."""
        query = urlencode({name: _format_parameter(value) for name, value in params.items() if value is not None})
        headers = dict(self._headers)
        if by:
            headers["X-Cofio-Client"] = _check_header(by, "by")
        if body is not None:
            headers["Content-Type"] = "application/json"
        content = None if body is None else _encode(body)
        status, reply_body = self._exchange(
            method, self._base + path + (f"?{query}" if query else ""), content, headers
        )
        return self._parse_reply(status, reply_body)

    def read(self, path: str, **params: Any) -> bytes:
        """Return the body of a reply that is not JSON."""
        target = f"{self._base}{path}?{urlencode({name: _format_parameter(value) for name, value in params.items()})}"
        status, reply_body = self._exchange("GET", target, None, self._headers)
        if status >= 300:
            self._parse_reply(status, reply_body)
        return reply_body

    def close(self) -> None:
        while (connection := self._pop_idle()) is not None:
            connection.close()

    def _exchange(
        self, method: str, target: str, content: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        connection = self._pop_idle() or self._connect()
        reused = connection.sock is not None
        try:
            return self._send(connection, method, target, content, headers)
        except (http.client.HTTPException, OSError) as error:
            connection.close()
            # The service may have closed an idle connection. Only requests that change nothing are retried.
            if not reused or method != "GET" or isinstance(error, TimeoutError):
                raise self._unreachable(error) from error
        retry = self._connect()
        try:
            return self._send(retry, method, target, content, headers)
        except (http.client.HTTPException, OSError) as error:
            retry.close()
            raise self._unreachable(error) from error

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        content: bytes | None,
        headers: Mapping[str, str],
    ) -> tuple[int, bytes]:
        connection.request(method, target, content, dict(headers))
        response = connection.getresponse()
        status, reply_body = response.status, response.read()
        self._idle.put(connection)  # http.client closes it if the reply asks for it, and reopens it on use
        return status, reply_body

    def _pop_idle(self) -> http.client.HTTPConnection | None:
        try:
            connection = self._idle.get_nowait()
        except Empty:
            return None
        if connection.sock is not None and _has_news(connection):
            connection.close()  # data on an idle connection means that it was closed
        return connection

    def _connect(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=self._timeout)

    def _parse_reply(self, status: int, body: bytes) -> _WireReply:
        strange = Unavailable(
            f"{self._url} is not a cofio service: it answered {status}.",
            "Another program may listen there; check the URL (--url, COFIO_URL).",
        )
        try:
            content = _WireReply(json.loads(body), strange)
            if status < 300:
                return content
            error = content["error"]
            raise class_for_code(error["code"])(error["message"], error.get("hint", ""))
        except (ValueError, KeyError, TypeError) as error:
            raise strange from error

    def _unreachable(self, error: Exception) -> Unavailable:
        if isinstance(error, TimeoutError):
            hint = "It may be busy: retry, and see `cofio status`."
            return Unavailable(f"{self._url} did not answer within {self._timeout:g} s.", hint)
        hint = "Start the service with `cofio up`, or check the URL (--url, COFIO_URL)."
        if isinstance(error, ConnectionRefusedError):
            return Unavailable(f"No service listens at {self._url}.", hint)
        return Unavailable(f"{self._url} cannot be reached: {error or type(error).__name__}.", hint)


class _WireReply(dict[str, Any]):
    """JSON reply; a missing field raises the error for a server that is not cofio."""

    def __init__(self, content: Any, strange: Unavailable) -> None:
        if not isinstance(content, dict):
            raise TypeError(type(content).__name__)
        super().__init__(content)
        self._strange = strange

    def __missing__(self, _name: str) -> Any:
        raise self._strange


def _parse_url(url: str) -> tuple[bool, str, int | None, str]:
    try:
        split = urlsplit(url)
        if split.scheme in ("http", "https") and split.hostname:
            return split.scheme == "https", split.hostname, split.port, split.path
    except ValueError:
        pass
    raise Misconfigured(f"{url!r} is not a valid service URL.", "Use the form http://HOST:PORT.")


def _has_news(connection: http.client.HTTPConnection) -> bool:
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _check_header(value: str, name: str) -> str:
    if not (value.isascii() and value.isprintable()):
        raise InvalidInput(f"{name} contains characters that cannot be sent in a header.", "Use printable ASCII.")
    return value


def _format_parameter(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, default=_to_plain).encode()
    except UnicodeEncodeError as error:
        raise InvalidInput("The text contains an unpaired surrogate.", "Send valid Unicode.") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            "The value cannot be written as JSON.", "Use strings, numbers, lists and objects."
        ) from error


def _to_plain(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)


# ── values into bodies ────────────────────────────────────────────────────────────────────────────────────────────────


def _drop_none(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def _fact_body(fact: Fact, *, whole: bool = False) -> dict[str, Any]:
    values = {field.name: getattr(fact, field.name) for field in fields(Fact) if field.name not in _THEIRS}
    empty: tuple[Any, ...] = ("",) if whole else ("", (), {})
    return {name: value for name, value in values.items() if value not in empty}


def _scope(within: Mapping[str, Any]) -> dict[str, Any]:
    return _scope_body(Scope(**within))


def _scope_body(scope: Scope) -> dict[str, Any]:
    return {field.name: value for field in fields(Scope) if (value := getattr(scope, field.name)) != field.default}


def _check_listable(scope: dict[str, Any]) -> dict[str, Any]:
    """Return the scope as query parameters. Raise if it needs an empty value, which a query string cannot express."""
    if scope.get("source") == "" or any("," in tag for tag in scope.get("tags", ())):
        hint = "Search, or open the store itself."
        raise InvalidInput("Over HTTP, memories cannot be filtered by an empty source or by a tag with a comma.", hint)
    return scope


def _query_body(query: Query) -> dict[str, Any]:
    how = {name: getattr(query, name) for name in ("k", "skip", "hybrid", "threshold", "min_score", "explain", "log")}
    changed = {name: value for name, value in how.items() if value != Query.__dataclass_fields__[name].default}
    return {"query": query.text, **changed, **_scope_body(query.scope)}


def _duplicates_body(threshold: float | None, within: Mapping[str, Any], *, dry_run: bool) -> dict[str, Any]:
    scope = _scope(within)
    if scope.keys() - {"source_prefix"}:
        raise InvalidInput("Over HTTP, duplicates can be filtered by source_prefix only.", "Omit the other fields.")
    return _drop_none({**scope, "threshold": threshold, "dry_run": dry_run})


# ── answers into values ───────────────────────────────────────────────────────────────────────────────────────────────


def _parse_change(content: Mapping[str, Any]) -> Change:
    values = {field.name: content[field.name] for field in fields(Change) if field.name in content}
    for name in ("before", "after"):
        values[name] = Memory.from_dict(content[name]) if content[name] else None
    return Change(**values)


def _parse_changeset(content: Mapping[str, Any]) -> Changeset:
    values = {field.name: content[field.name] for field in fields(Changeset) if field.name in content}
    changes = {
        "changes": tuple(_parse_change(row) for row in content.get("changes", ())),
        "knowledge": tuple(KnowledgeChange.from_dict(row) for row in content.get("knowledge", ())),
    }
    return Changeset(**{**values, **changes})


def _parse_hit(content: Mapping[str, Any]) -> Hit:
    why = content.get("why")
    return Hit(
        memory=Memory.from_dict(content),
        score=content["score"],
        similarity=content["similarity"],
        keyword=content["keyword_score"],
        match_type=content["match_type"],
        why=Explanation(**{**why, "words": tuple(why["words"])}) if why else None,
        freshness=content.get("freshness", ""),
        stale=tuple(content.get("stale", ())),
    )


def _parse_decision(content: Mapping[str, Any]) -> Delete | Merge:
    if content["action"] == "merge":
        return Merge(tuple(content["ids"]), Fact(text=content["text"]), content.get("reason", ""))
    return Delete(content["id"], content.get("reason", ""), content.get("into"))


def _parse_contradiction(content: Mapping[str, Any]) -> Contradiction:
    newer, older = (Memory.from_dict(content[name]) for name in ("newer", "older"))
    return Contradiction(newer=newer, older=older, reason=content["reason"], cosine=content["cosine"])


def _match_changes(results: Sequence[Mapping[str, Any]], changes: Sequence[Change]) -> list[Change]:
    """Return the change of each fact; several changes of one memory come in the order of the facts."""
    waiting: dict[int, deque[Change]] = defaultdict(deque)
    for change in changes:
        waiting[change.memory_id].append(change)
    return [waiting[result["id"]].popleft() for result in results]


def _path(*parts: Any) -> str:
    return "/" + "/".join(quote(str(part), safe="") for part in parts)


def _parse_capture(content: dict[str, Any]) -> CaptureStatus:
    status = {name: content.pop(name) for name in ("id", "new", "state", "reason")}
    return CaptureStatus(**status, result={**content, "reason": status["reason"]} if content else {})


def _exchange_body(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an exchange that are set."""
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in about.items()}
    return {name: value for name, value in values.items() if value not in ("", None)}
