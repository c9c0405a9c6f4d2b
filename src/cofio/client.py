"""The service as a Keeper: the same methods, parameters and values, over HTTP. Standard library only.

Where Keeper returns a change, the service names its changeset and the client reads it, so that callers cannot tell the
two apart.
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
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

from cofio.access import Deed, Grant, Key
from cofio.chores import Audit, Contradiction, Contradictions, Finding, Plan, Refusal, Run, View
from cofio.client_knowledge import ClientKnowledge
from cofio.conversation import Captured, Item, Learned, Ledger, State, dialogue
from cofio.domain import KnowledgeChange
from cofio.episodes import Episode, EpisodeHit
from cofio.errors import InvalidInput, Misconfigured, NotFound, Unavailable, by_code
from cofio.llm_calls import LLMCall, LLMUsage
from cofio.model import (
    Briefing,
    Change,
    Changeset,
    Decision,
    Delete,
    Explanation,
    Fact,
    Freshly,
    Hit,
    Memory,
    Merge,
    Novelty,
    Occurrence,
    Page,
    Project,
    Query,
    Repeated,
    Scope,
    as_fact,
    as_query,
    plain,
)
from cofio.notes import Exported, Folder, Indexed
from cofio.sessions import RESUME_TOKENS, RESUMED, AgentSession, ResumeReport, SessionDetail

#: What was said: a text, or messages with their roles.
Messages: TypeAlias = str | Sequence[Mapping[str, Any]]

_THEIRS = ("anchors",)  # what the service finds out by itself
_QUERIES_AT_ONCE = 100  # the most that /search/batch takes


class Client:
    """A Keeper that lives in another process. Safe to use from many threads; close it, or use it in a `with`."""

    def __init__(self, url: str, key: str = "", timeout: float = 60.0) -> None:
        self._wire = _Wire(url, key, timeout)

    # ── the way in ────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, fact: str | Fact, *, dedup: bool = True, by: str = "library", why: str = "", **about: Any) -> Change:
        """Remember a fact: a change "add", "update" when it replaced a memory, "noop" when one says so already."""
        body = {**_fact_body(as_fact(fact, about)), "deduplicate": dedup, "why": why}
        told = self._wire.ask("POST", "/memory/add", body, by=by)
        return self._with_near([told], self._done(told)[:1])[0]

    def add_all(
        self, facts: Sequence[str | Fact], *, dedup: bool = True, by: str = "library", why: str = ""
    ) -> builtins.list[Change]:
        """Remember many facts in one changeset; one change a fact, in order. The service takes 1,000 at a time."""
        bodies = [_fact_body(as_fact(each, {})) for each in facts]
        if not bodies:
            return []
        body = {"memories": bodies, "deduplicate": dedup, "why": why}
        told = self._wire.ask("POST", "/memory/add-batch", body, by=by)
        return self._with_near(told["results"], _one_a_fact(told["results"], self._done(told)))

    def _with_near(self, results: Sequence[Mapping[str, Any]], changes: Sequence[Change]) -> builtins.list[Change]:
        """Return the changes with the memories that they left and may replace."""
        answers = []
        for result, change in zip(results, changes, strict=True):
            near = tuple(self.get(each["id"]) for each in result.get("near", ()))
            answers.append(replace(change, near=near) if near else change)
        return answers

    def update(self, memory_id: int, *, by: str = "library", why: str = "", **changes: Any) -> Change:
        """Change fields of a memory in place."""
        return self._done(self._wire.ask("PATCH", _path("memory", memory_id), {**changes, "why": why}, by=by))[0]

    def supersede(
        self, old_id: int, new: str | Fact, *, by: str = "library", why: str = "", **about: Any
    ) -> tuple[Change, Change]:
        """Put a new memory in an old one's place: the change that wrote it, and the one that archived the old.

        The service takes an empty source, session, agent or speaker from the old memory, of a Fact too.
        """
        given = _fact_body(new, whole=True) if isinstance(new, Fact) else {**about, "text": new}
        body = {"old_id": old_id, "new_text": given.pop("text"), **given, "why": why}
        written, archived = self._done(self._wire.ask("POST", "/memory/supersede", body, by=by))
        return written, archived

    def delete(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Archive a memory; `restore` or `undo` brings it back."""
        return self._done(self._wire.ask("DELETE", _path("memory", memory_id), by=by, why=why))[0]

    def restore(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Bring an archived memory back."""
        return self._done(self._wire.ask("POST", _path("memory", memory_id, "restore"), {"why": why}, by=by))[0]

    def confirm(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Say that a memory still holds: what it speaks of is looked at anew. InvalidInput when none of it is there."""
        return self._done(self._wire.ask("POST", _path("memory", memory_id, "confirm"), {"why": why}, by=by))[0]

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
        asked = {**({"changes": dict(changes)} if changes else {}), **({"tags": list(tags)} if tags else {})}
        return _changeset(
            self._wire.ask("POST", "/memories/bulk", {"ids": list(ids), "action": action, **asked, "why": why}, by=by)
        )

    def purge(self, memory_id: int, *, by: str = "library", why: str = "") -> Change:
        """Erase a memory for good, from the journal too."""
        told = self._wire.ask("DELETE", _path("memory", memory_id), by=by, why=why, purge=True)
        try:
            return self._done(told)[0]
        except NotFound:  # a key that does not see everything does not see what is no longer there to tell whose it was
            which = {"id": 0, "changeset": told["changeset"], "memory_id": told["id"], "at": ""}
            return Change(**which, action="purge", by=by, why=why, before=None, after=None)

    # ── the way out ───────────────────────────────────────────────────────────────────────────────────────────────────

    def search(self, query: str | Query, *, by: str = "library", **how: Any) -> builtins.list[Hit]:
        """The memories that answer, best first. `how` takes the fields of Query and of Scope."""
        told = self._wire.ask("POST", "/search", _query_body(as_query(query, how)), by=by)
        return [_hit(each) for each in told["results"]]

    def search_all(self, queries: Sequence[Query], *, by: str = "library") -> builtins.list[builtins.list[Hit]]:
        """One list of hits a query, in order."""
        answers: builtins.list[builtins.list[Hit]] = []
        for start in range(0, len(queries), _QUERIES_AT_ONCE):
            body = {"queries": [_query_body(each) for each in queries[start : start + _QUERIES_AT_ONCE]]}
            told = self._wire.ask("POST", "/search/batch", body, by=by)
            answers += [[_hit(each) for each in answer["results"]] for answer in told["results"]]
        return answers

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
        seen_from: str | None = None,
        session: str = "",
        agent: str = "",
        since: str = "",
        until: str = "",
    ) -> builtins.list[EpisodeHit]:
        """Search what was said, turn by turn: the episodes that answer, best first, each with its best passage."""
        scope = Scope(
            source=source,
            source_prefix=source_prefix,
            project=project,
            seen_from=seen_from,
            session=session,
            agent=agent,
            since=since,
            until=until,
        )
        body = _query_body(Query(text=query, k=k, skip=skip, min_score=min_score, scope=scope))
        told = self._wire.ask("POST", "/episodes/search", body)
        return [EpisodeHit.from_dict(each) for each in told["episodes"]]

    def episode(self, episode_id: int) -> Episode:
        """Return one episode: what was said in a turn."""
        return Episode.from_dict(self._wire.ask("GET", _path("episodes", episode_id)))

    def episode_of(self, memory_id: int) -> int | None:
        """Return the id of the episode that a memory was learned from; None where there is none."""
        found: int | None = self._wire.ask("GET", _path("memory", memory_id)).get("episode")
        return found

    def purge_episode(self, episode_id: int) -> None:
        """Erase an episode for good, with the words of its capture. The memories learned from it stay."""
        self._wire.ask("DELETE", _path("episodes", episode_id))

    def sessions(
        self, *, limit: int = 20, client: str = "", project: str | None = None, since: str = ""
    ) -> builtins.list[AgentSession]:
        """Return the sessions of agents by their last turn, newest first; of a client or a project, if one is given."""
        told = self._wire.ask(
            "GET", "/sessions", limit=limit, client=client or None, project=project, since=since or None
        )
        return [AgentSession.from_dict(each) for each in told["sessions"]]

    def session(self, session: str, *, client: str = "", owner: str | None = None) -> SessionDetail:
        """Return one session by its id or a unique prefix of it: its turns, what was recalled, learned and changed."""
        told = self._wire.ask("GET", "/session", session=session, client=client or None, owner=owner)
        return SessionDetail.from_dict(told)

    def resume(
        self, project: str | None = None, *, limit: int = RESUMED, max_tokens: int = RESUME_TOKENS
    ) -> ResumeReport:
        """Return where work on a project stopped: its last sessions, as bounded text too. No model is asked."""
        told = self._wire.ask("GET", "/resume", project=project, limit=limit, max_tokens=max_tokens)
        return ResumeReport.from_dict(told)

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
        """What to put before an agent: at the start of a session, or with a prompt what answers it. Falsy for nothing.

        The digests in its `given` stay with the service, which keeps the books for those who attend sessions.
        """
        who = {"client": client or None, "session": session or None}
        body = _given({"prompt": prompt, "project": project, "k": k, **who})
        told = self._wire.ask("POST", "/recall", body, by=by)
        return Briefing(told["text"], dict.fromkeys(told["ids"], ""), told["tokens"])

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
        """What an agent that watches something should know before it looks, as text inside `<relevant-context>`."""
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
        """What memories say to this question, as text to put right behind a system message; "" when they say nothing.

        What was said in the session is personal; without one, what is private to the caller or there for everybody.
        """
        body = {"query": query, "session": session, "include_team": include_team, "max_facts": max_facts}
        return str(self._wire.ask("POST", "/enrich", body, by=by)["context"])

    def detect_cross_agent_patterns(
        self, *, min_occurrences: int = 2, limit: int = 20, category: str = "", team: str | None = None
    ) -> builtins.list[Repeated]:
        """What agents have told the team again and again, most often first; of a category or a kind, if given."""
        asked: dict[str, Any] = {"min_occurrences": min_occurrences, "limit": limit, "team": team}
        told = self._wire.ask("GET", "/team/patterns", category=category or None, **asked)
        return [Repeated.from_dict(each) for each in told["patterns"]]

    def get_team_facts(self, *, limit: int = 50, category: str = "", team: str | None = None) -> builtins.list[Memory]:
        """What the team knows, by when it was said, newest first; of a category or a kind, if given."""
        told = self._wire.ask("GET", "/team/facts", limit=limit, category=category or None, team=team)
        return [Memory.from_dict(each) for each in told["memories"]]

    def is_novel(self, fact: str | Fact, *, threshold: float | None = None, **within: Any) -> Novelty:
        """Whether this says something that no memory of the scope says yet. Not a retrieval."""
        checked = as_fact(fact, {})
        body = {"text": checked.text, "speaker": checked.speaker, "threshold": threshold, **_scope(within)}
        told = self._wire.ask("POST", "/memory/is-novel", _given(body))
        match = Memory.from_dict(told["match"]) if told["match"] else None
        return Novelty(novel=told["novel"], similarity=told["similarity"], match=match, reason=told["reason"])

    def get(self, memory_id: int) -> Memory:
        """The memory, archived or not."""
        return Memory.from_dict(self._wire.ask("GET", _path("memory", memory_id)))

    def freshness(self, memory_id: int) -> Freshly:
        """Whether what the memory speaks of is still as it was."""
        told = self._wire.ask("GET", _path("memory", memory_id, "freshness"))
        return Freshly(told["freshness"], tuple(told["stale"]))

    def list(self, *, limit: int = 50, after: int | None = None, skip: int = 0, **within: Any) -> Page:
        """A page of the scope's memories, newest first; so many as `skip` says are passed over."""
        where = _listable(_scope(within))
        told = self._wire.ask("GET", "/memories", limit=limit, after=after, skip=skip or None, **where)
        return Page(tuple(Memory.from_dict(each) for each in told["memories"]), told["next"], told["total"])

    def projects(self, *, limit: int = 100, after: str = "") -> builtins.list[Project]:
        """The projects that live memories belong to, by name, from the one that follows `after`."""
        told = self._wire.ask("GET", "/projects", limit=limit, after=after or None)
        return [Project(**each) for each in told["projects"]]

    def stats(self) -> dict[str, Any]:
        """Counts of memories, changes and retrievals, the size on disk; and the service's version and uptime."""
        return dict(self._wire.ask("GET", "/stats"))

    def health(self) -> dict[str, Any]:
        """Whether the service is well, its version, and what it makes of our key. WrongKey when that is wrong."""
        return dict(self._wire.ask("GET", "/health"))

    # ── learning from conversations ───────────────────────────────────────────────────────────────────────────────────

    def capture(self, messages: Messages, *, wait: bool = False, by: str = "library", **about: Any) -> Captured:
        """Keep what was said, durably, and learn from it later; with `wait`, now."""
        said = {"messages": messages, "wait": wait, **_said(about)}
        return _captured(self._wire.ask("POST", "/capture", said, by=by))

    def observe(
        self, validated_intent: str, response: str, *, wait: bool = False, by: str = "library", **about: Any
    ) -> Captured:
        """Keep a dialogue that somebody watched, and learn from it later; with `wait`, now. It is the team's."""
        dialogue(validated_intent, response)  # refused here as it would be there
        said = {"validated_intent": validated_intent, "response": response, "wait": wait, **_said(about)}
        return _captured(self._wire.ask("POST", "/observe", said, by=by))

    def begin_backfill(self, *, by: str = "library") -> int:
        """Return the changeset that begins the series of a backfill; one that did not end is resumed."""
        return int(self._wire.ask("POST", "/backfills", {}, by=by)["series"])

    def end_backfill(self, series: int, *, by: str = "library") -> None:
        """Note that a backfill is done: the next one begins a series of its own."""
        self._wire.ask("POST", _path("backfills", series, "end"), {}, by=by)

    def turns(self, client: str, session: str, *, any_key: bool = False) -> set[str]:
        """Return every turn of this session that was ever captured; with `any_key` those of every key's session too."""
        told = self._wire.ask("GET", "/turns", client=client, session=session, any_key=any_key or None)
        return set(told["turns"])

    def learn(self, messages: Messages, *, dry_run: bool = False, by: str = "library", **about: Any) -> Learned:
        """What would be learned from what was said, sentence by sentence. The service learns by `capture` alone."""
        if not dry_run:
            raise InvalidInput("The service learns from what is captured.", "Use capture(..., wait=True).")
        told = self._wire.ask("POST", "/capture", {"messages": messages, "dry_run": True, **_said(about)}, by=by)
        return Learned.from_dict(told)

    def extract(self, messages: Messages, *, dry_run: bool = False, by: str = "library", **about: Any) -> Learned:
        """Have the model read all of it. NotConfigured without one."""
        body = {"messages": messages, "dry_run": dry_run, **_said(about)}
        return Learned.from_dict(self._wire.ask("POST", "/memory/extract", body, by=by))

    def submit(self, messages: Messages, **about: Any) -> Captured:
        """Have the model read all of it, later: an item of the inbox, with the result in it once it is done."""
        told = self._wire.ask("POST", "/memory/extract", {"messages": messages, "async": True, **_said(about)})
        return Captured(told["job"], told["new"], told["state"])

    def extraction(self) -> dict[str, Any]:
        """Whether a model reads conversations, which, and how it is."""
        return dict(self._wire.ask("GET", "/extract/status"))

    def ledger(self) -> Ledger:
        """Where everything is that was ever captured: stored, merged, rejected or pending."""
        told = self._wire.ask("GET", "/ledger")
        return Ledger(**{each.name: told[each.name] for each in fields(Ledger)})

    def items(self, state: State | None = None, *, limit: int = 50, after: int | None = None) -> builtins.list[Item]:
        """The newest items of the inbox, of one state if given."""
        told = self._wire.ask("GET", "/inbox", state=state, limit=limit, after=after)
        return [Item.from_dict(each) for each in told["items"]]

    def item(self, item_id: int) -> Item:
        """One item of the inbox."""
        return Item.from_dict(self._wire.ask("GET", _path("inbox", item_id)))

    def retry(self, item_id: int) -> Item:
        """Have a parked or rejected item tried again."""
        return Item.from_dict(self._wire.ask("POST", _path("inbox", item_id, "retry")))

    # ── history ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def history(self, memory_id: int) -> builtins.list[Change]:
        """Every change of a memory and of those it came from or went into, oldest first."""
        told = self._wire.ask("GET", _path("memory", memory_id, "history"))
        return [_change(each) for each in told["changes"]]

    def sightings(self, memory_id: int) -> builtins.list[Occurrence]:
        """Who said it, where and when: the first time and every time since, those of what was merged into it too."""
        told = self._wire.ask("GET", _path("memory", memory_id, "sightings"))
        return [Occurrence(**each) for each in told["sightings"]]

    def learned_from(self, memory_id: int) -> Item | None:
        """The capture that the memory was learned from; None where it was none, or its words are forgotten."""
        told = self._wire.ask("GET", _path("memory", memory_id, "exchange"))
        return Item.from_dict(told["item"]) if told["item"] else None

    def changes(self, *, limit: int = 20) -> builtins.list[Changeset]:
        """The newest changesets."""
        return [_changeset(each) for each in self._wire.ask("GET", "/changes", limit=limit)["changesets"]]

    def changeset(self, changeset_id: int) -> Changeset:
        """One changeset with all it changed."""
        return _changeset(self._wire.ask("GET", _path("changes", changeset_id)))

    def undo(self, changeset_id: int, *, by: str = "library", why: str = "") -> Changeset:
        """Take back a whole changeset, by a changeset of its own that can be undone in turn."""
        return _changeset(self._wire.ask("POST", _path("changes", changeset_id, "undo"), {"why": why}, by=by))

    # ── upkeep ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def find_duplicates(self, *, threshold: float | None = None, **within: Any) -> builtins.list[Delete]:
        """What would be merged into what, and why. Changes nothing."""
        told = self._wire.ask("POST", "/memory/deduplicate", _duplicates_body(threshold, within, dry_run=True))
        return [Delete(each["id"], each.get("reason", ""), each.get("into")) for each in told["decisions"]]

    def merge_duplicates(
        self, *, threshold: float | None = None, by: str = "library", why: str = "", **within: Any
    ) -> Changeset | None:
        """Merge the duplicates, in one changeset; None when there are none."""
        body = {**_duplicates_body(threshold, within, dry_run=False), **_given({"why": why or None})}
        told = self._wire.ask("POST", "/memory/deduplicate", body, by=by)
        return None if told["changeset"] is None else self.changeset(told["changeset"])

    def consolidate(self, *, dry_run: bool = True, source_prefix: str = "", by: str = "library", why: str = "") -> Plan:
        """Merge what repeats, in one changeset; what is refused, and why. A dry run tells what would be done."""
        asked = {"dry_run": dry_run, "source_prefix": source_prefix or None, "why": why or None}
        return self._plan(self._wire.ask("POST", "/maintenance/consolidate", by=by, **asked))

    def prune(self, *, dry_run: bool = True, by: str = "library", why: str = "") -> Plan:
        """Archive what nobody recalled for long, in one changeset. A dry run tells what would be done."""
        return self._plan(self._wire.ask("POST", "/maintenance/prune", by=by, dry_run=dry_run, why=why or None))

    def runs(self, *, limit: int = 20, chore: str = "") -> builtins.list[Run]:
        """The newest runs of chores, of one if given."""
        told = self._wire.ask("GET", "/maintenance/runs", limit=limit, chore=chore or None)
        return [Run(**each) for each in told["runs"]]

    def usage(self, view: View = "most", *, limit: int = 50, days: int = 90, **within: Any) -> builtins.list[Memory]:
        """What was "never" recalled, oldest first; what "most"; what is "stale": recalled, but not for so many days."""
        told = self._wire.ask(
            "GET", "/maintenance/usage", view=view, limit=limit, days=days, **_listable(_scope(within))
        )
        return [Memory.from_dict(each) for each in told["memories"]]

    def llm_usage(self, *, limit: int = 20) -> LLMUsage:
        """Calls of the language model today and in 7 and 30 days, by model and session; the newest calls."""
        return LLMUsage.from_dict(self._wire.ask("GET", "/llm/usage", limit=limit))

    def llm_call(self, call_id: int) -> LLMCall:
        """One call of the language model, with its redacted texts."""
        return LLMCall.from_dict(self._wire.ask("GET", _path("llm", "usage", call_id)))

    def audit(self, *, examples: int = 5, progress: Callable[[int, int], None] | None = None) -> Audit:  # noqa: ARG002
        """The profile of the store: duplicates, echoes, secrets, what is never recalled, stale or contradicted."""
        told = self._wire.ask("GET", "/maintenance/audit", examples=examples)
        found = tuple(Finding(**{**each, "examples": tuple(each["examples"])}) for each in told["findings"])
        return Audit(memories=told["memories"], findings=found, note=told["note"])

    def contradictions(self, *, limit: int = 50) -> Contradictions:
        """Pairs of memories that cannot both hold, the newest first, for somebody to settle; and how many there are."""
        told = self._wire.ask("GET", "/maintenance/contradictions", limit=limit)
        pairs = tuple(_contradiction(each) for each in told["pairs"])
        return Contradictions(pairs=pairs, count=told["count"], note=told["note"], as_of=told["as_of"])

    def approve(
        self, chore: str, decisions: Sequence[Decision], *, as_of: int, by: str = "library", why: str = ""
    ) -> Changeset:
        """Do some of what `consolidate`, `prune` or `contradictions` showed, in one changeset."""
        body = {"chore": chore, "as_of": as_of, "decisions": [plain(each) for each in decisions], "why": why}
        return _changeset(self._wire.ask("POST", "/maintenance/approve", body, by=by))

    def agree(self, ids: Sequence[int], *, by: str = "library", why: str = "") -> Changeset:
        """Say of two memories that both hold: they are no contradiction, until one of them says something else."""
        return _changeset(self._wire.ask("POST", "/maintenance/agree", {"ids": list(ids), "why": why}, by=by))

    # ── moving ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def export_lines(self, *, vectors: bool = False) -> Iterator[str]:
        """Every memory as a line of JSON, after a header; archived ones too, with vectors where asked for."""
        said = self._wire.read("/export", vectors=vectors).decode()
        return (f"{line}\n" for line in said.split("\n") if line)

    # ── who may ask ───────────────────────────────────────────────────────────────────────────────────────────────────

    def create_key(self, grant: Grant, *, by: str = "library") -> tuple[Key, str]:
        """A new key, and its secret, which is told this once and not kept."""
        body = {name: value for name, value in asdict(grant).items() if value not in ("", (), None)}
        told = self._wire.ask("POST", "/keys", body, by=by)
        secret = told.pop("secret")
        return Key.from_dict(told), str(secret)

    def revoke_key(self, key_id: int, *, by: str = "library") -> Key:
        """From now on this key opens nothing."""
        return Key.from_dict(self._wire.ask("DELETE", _path("keys", key_id), by=by))

    def keys(self) -> builtins.list[Key]:
        """Every key that was ever made, newest first."""
        return [Key.from_dict(each) for each in self._wire.ask("GET", "/keys")["keys"]]

    def deeds(self, *, limit: int = 50, after: int | None = None, key: int | None = None) -> builtins.list[Deed]:
        """The newest lines of the audit log; of what was done with one key, if given."""
        told = self._wire.ask("GET", "/keys/log", limit=limit, after=after, key=key)
        return [Deed(**each) for each in told["deeds"]]

    # ── life ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Let go of the connections."""
        self._wire.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def knowledge(self) -> ClientKnowledge:
        """What is known exactly of a domain: patterns, correlations, thresholds, seasonal patterns, feedback."""
        return ClientKnowledge(self._wire.ask, _changeset)

    @property
    def notes(self) -> ClientNotes:
        """Markdown files as memories, on the service's machine."""
        return ClientNotes(self._wire, self._done)

    def _plan(self, told: Mapping[str, Any]) -> Plan:
        return Plan(
            chore=told["chore"],
            decisions=tuple(_decision(each) for each in told["decisions"]),
            refused=tuple(
                Refusal(ids=tuple(each["ids"]), reason=each["reason"], proposed=tuple(each["proposed"]))
                for each in told["refused"]
            ),
            examined=told["examined"],
            note=told["note"],
            dry_run=told["dry_run"],
            changeset=None if told["changeset"] is None else self.changeset(told["changeset"]),
            as_of=told["as_of"],
        )

    def _done(self, told: Mapping[str, Any]) -> tuple[Change, ...]:
        return self.changeset(told["changeset"]).changes


class ClientNotes:
    """The Markdown side of a keeper in another process. Folders are those of its machine."""

    def __init__(self, wire: _Wire, done: Callable[[Mapping[str, Any]], tuple[Change, ...]]) -> None:
        self._wire, self._done = wire, done

    def flush(self, summary: str, tags: Sequence[str] = (), *, by: str = "library", **about: Any) -> Change:
        """Write the summary to `YYYY-MM-DD-HH-<id8>.md` in the notes folder, and remember it as `file:<name>`."""
        body = {"summary": summary, **about, **({"tags": list(tags)} if tags else {})}
        return self._done(self._wire.ask("POST", "/notes/flush", body, by=by))[0]

    def index(
        self, folder: Path | str | None = None, *, label: str = "", dry_run: bool = False, by: str = "library"
    ) -> Indexed:
        """Have the memories of a folder (default: the notes folder) follow its files: new, edited, moved, deleted."""
        body = {"folder": str(folder or ""), "label": label, "dry_run": dry_run}
        return Indexed.from_dict(self._wire.ask("POST", "/notes/index", body, by=by))

    def folders(self) -> builtins.list[Folder]:
        """The folders that were read, or are followed."""
        return [Folder(**each) for each in self._wire.ask("GET", "/notes")["folders"]]

    def export(self, folder: Path | str, **within: Any) -> Exported:
        """Write the memories of a scope into a vault, a note each. `index` reads edits of them back."""
        body = {"folder": str(folder), **_scope(within)}
        return Exported.from_dict(self._wire.ask("POST", "/notes/export", body))


class _Wire:
    """Requests and answers as JSON, over connections that are kept open, one a thread at a time."""

    def __init__(self, url: str, key: str, timeout: float) -> None:
        self._url = url.rstrip("/")
        self._timeout = timeout
        self._secure, self._host, self._port, self._base = _parts(self._url)
        self._headers = {"Accept": "application/json", **({"X-API-Key": _header(key, "The key")} if key else {})}
        self._idle: LifoQueue[http.client.HTTPConnection] = LifoQueue()

    def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, /, *, by: str = "", **params: Any
    ) -> Any:
        """What the service says, as JSON values; its errors come as ours."""
        query = urlencode({name: _parameter(value) for name, value in params.items() if value is not None})
        headers = dict(self._headers)
        if by:
            headers["X-Cofio-Client"] = _header(by, "by")
        if body is not None:
            headers["Content-Type"] = "application/json"
        content = None if body is None else _encoded(body)
        status, said = self._exchange(method, self._base + path + (f"?{query}" if query else ""), content, headers)
        return self._understood(status, said)

    def read(self, path: str, **params: Any) -> bytes:
        """What the service says that is no JSON, as it comes."""
        target = f"{self._base}{path}?{urlencode({name: _parameter(value) for name, value in params.items()})}"
        status, said = self._exchange("GET", target, None, self._headers)
        if status >= 300:
            self._understood(status, said)
        return said

    def close(self) -> None:
        while (connection := self._unused()) is not None:
            connection.close()

    def _exchange(
        self, method: str, target: str, content: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        connection = self._unused() or self._new()
        reused = connection.sock is not None
        try:
            return self._once(connection, method, target, content, headers)
        except (http.client.HTTPException, OSError) as error:
            connection.close()
            # The service may have let go of an idle connection just now. Only what changes nothing is asked twice.
            if not reused or method != "GET" or isinstance(error, TimeoutError):
                raise self._unreachable(error) from error
        fresh = self._new()
        try:
            return self._once(fresh, method, target, content, headers)
        except (http.client.HTTPException, OSError) as error:
            fresh.close()
            raise self._unreachable(error) from error

    def _once(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        content: bytes | None,
        headers: Mapping[str, str],
    ) -> tuple[int, bytes]:
        connection.request(method, target, content, dict(headers))
        answer = connection.getresponse()
        status, said = answer.status, answer.read()
        self._idle.put(connection)  # http.client has closed it where the answer said so, and opens it again
        return status, said

    def _unused(self) -> http.client.HTTPConnection | None:
        try:
            connection = self._idle.get_nowait()
        except Empty:
            return None
        if connection.sock is not None and _has_news(connection):
            connection.close()  # news on an idle connection is its end
        return connection

    def _new(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=self._timeout)

    def _understood(self, status: int, said: bytes) -> _Told:
        strange = Unavailable(
            f"{self._url} answered {status}, but not as cofio does.",
            "Something else may listen there; check the URL (--url, COFIO_URL).",
        )
        try:
            told = _Told(json.loads(said), strange)
            if status < 300:
                return told
            error = told["error"]
            raise by_code(error["code"])(error["message"], error.get("hint", ""))
        except (ValueError, KeyError, TypeError) as error:
            raise strange from error

    def _unreachable(self, error: Exception) -> Unavailable:
        if isinstance(error, TimeoutError):
            hint = "It may be busy: try again, and see `cofio status`."
            return Unavailable(f"{self._url} did not answer within {self._timeout:g} s.", hint)
        hint = "Start the service with `cofio up`, or check the URL (--url, COFIO_URL)."
        if isinstance(error, ConnectionRefusedError):
            return Unavailable(f"No service listens at {self._url}.", hint)
        return Unavailable(f"{self._url} cannot be reached: {error or type(error).__name__}.", hint)


class _Told(dict[str, Any]):
    """An answer; it was not cofio that gave it when something is missing."""

    def __init__(self, told: Any, strange: Unavailable) -> None:
        if not isinstance(told, dict):
            raise TypeError(type(told).__name__)
        super().__init__(told)
        self._strange = strange

    def __missing__(self, _name: str) -> Any:
        raise self._strange


def _parts(url: str) -> tuple[bool, str, int | None, str]:
    try:
        split = urlsplit(url)
        if split.scheme in ("http", "https") and split.hostname:
            return split.scheme == "https", split.hostname, split.port, split.path
    except ValueError:
        pass
    raise Misconfigured(f"{url!r} is not the URL of a service.", "Give it as http://HOST:PORT.")


def _has_news(connection: http.client.HTTPConnection) -> bool:
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _header(value: str, name: str) -> str:
    if not (value.isascii() and value.isprintable()):
        raise InvalidInput(f"{name} holds a character that cannot be sent.", "Use printable ASCII.")
    return value


def _parameter(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, default=_plain).encode()
    except UnicodeEncodeError as error:
        raise InvalidInput("The text holds half of a surrogate pair.", "Send well-formed Unicode.") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput("This cannot be written as JSON.", "Use texts, numbers, lists and objects.") from error


def _plain(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)


# ── values into bodies ────────────────────────────────────────────────────────────────────────────────────────────────


def _given(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def _fact_body(fact: Fact, *, whole: bool = False) -> dict[str, Any]:
    values = {each.name: getattr(fact, each.name) for each in fields(Fact) if each.name not in _THEIRS}
    empty: tuple[Any, ...] = ("",) if whole else ("", (), {})
    return {name: value for name, value in values.items() if value not in empty}


def _scope(within: Mapping[str, Any]) -> dict[str, Any]:
    return _scope_body(Scope(**within))


def _scope_body(scope: Scope) -> dict[str, Any]:
    return {each.name: value for each in fields(Scope) if (value := getattr(scope, each.name)) != each.default}


def _listable(scope: dict[str, Any]) -> dict[str, Any]:
    """The scope, once it is known to go into a query string, where an empty value is one that was not given."""
    if scope.get("source") == "" or any("," in tag for tag in scope.get("tags", ())):
        hint = "Search, or open the store itself."
        raise InvalidInput("The service cannot list what has no source, nor by a tag with a comma.", hint)
    return scope


def _query_body(query: Query) -> dict[str, Any]:
    how = {name: getattr(query, name) for name in ("k", "skip", "hybrid", "threshold", "min_score", "explain", "noted")}
    asked = {name: value for name, value in how.items() if value != Query.__dataclass_fields__[name].default}
    return {"query": query.text, **asked, **_scope_body(query.scope)}


def _duplicates_body(threshold: float | None, within: Mapping[str, Any], *, dry_run: bool) -> dict[str, Any]:
    scope = _scope(within)
    if scope.keys() - {"source_prefix"}:
        raise InvalidInput("The service looks for duplicates by source_prefix alone.", "Leave the other fields out.")
    return _given({**scope, "threshold": threshold, "dry_run": dry_run})


# ── answers into values ───────────────────────────────────────────────────────────────────────────────────────────────


def _change(told: Mapping[str, Any]) -> Change:
    known = {each.name: told[each.name] for each in fields(Change) if each.name in told}
    for name in ("before", "after"):
        known[name] = Memory.from_dict(told[name]) if told[name] else None
    return Change(**known)


def _changeset(told: Mapping[str, Any]) -> Changeset:
    known = {each.name: told[each.name] for each in fields(Changeset) if each.name in told}
    changes = {
        "changes": tuple(_change(each) for each in told.get("changes", ())),
        "knowledge": tuple(KnowledgeChange.from_dict(each) for each in told.get("knowledge", ())),
    }
    return Changeset(**{**known, **changes})


def _hit(told: Mapping[str, Any]) -> Hit:
    why = told.get("why")
    return Hit(
        memory=Memory.from_dict(told),
        score=told["score"],
        similarity=told["similarity"],
        keyword=told["keyword_score"],
        match_type=told["match_type"],
        why=Explanation(**{**why, "words": tuple(why["words"])}) if why else None,
        freshness=told.get("freshness", ""),
        stale=tuple(told.get("stale", ())),
    )


def _decision(told: Mapping[str, Any]) -> Delete | Merge:
    if told["action"] == "merge":
        return Merge(tuple(told["ids"]), Fact(text=told["text"]), told.get("reason", ""))
    return Delete(told["id"], told.get("reason", ""), told.get("into"))


def _contradiction(told: Mapping[str, Any]) -> Contradiction:
    newer, older = (Memory.from_dict(told[name]) for name in ("newer", "older"))
    return Contradiction(newer=newer, older=older, reason=told["reason"], cosine=told["cosine"])


def _one_a_fact(results: Sequence[Mapping[str, Any]], changes: Sequence[Change]) -> list[Change]:
    """The change that took each fact in: those of one memory come in the order of the facts."""
    waiting: dict[int, deque[Change]] = defaultdict(deque)
    for change in changes:
        waiting[change.memory_id].append(change)
    return [waiting[each["id"]].popleft() for each in results]


def _path(*parts: Any) -> str:
    return "/" + "/".join(quote(str(each), safe="") for each in parts)


def _captured(told: dict[str, Any]) -> Captured:
    about_it = {name: told.pop(name) for name in ("id", "new", "state", "reason")}
    return Captured(**about_it, result={**told, "reason": about_it["reason"]} if told else {})


def _said(about: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an exchange that say something."""
    told = {name: list(value) if isinstance(value, tuple) else value for name, value in about.items()}
    return {name: value for name, value in told.items() if value not in ("", None)}
