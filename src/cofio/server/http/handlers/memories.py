"""Handlers of the service itself, of memories, episodes and maintenance, and the formats of replies."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from threading import Event
from typing import Any

from msgspec import UNSET

from cofio.errors import CofioError
from cofio.models.auth import Key
from cofio.models.diagnostics import Check
from cofio.models.domain_knowledge import KnowledgeChange
from cofio.models.memory import (
    Briefing,
    Change,
    Decision,
    Delete,
    Hit,
    Novelty,
    Page,
    ScopeKwargs,
    is_poor_match,
    to_plain,
)
from cofio.server.http import metrics, requests
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.operations import find_table
from cofio.server.http.responses import HandlerReply
from cofio.version import __version__

Plain = dict[str, Any]
EXPORT_MEDIA = "application/x-ndjson"
_EXPORT_PART = 65_536  # minimum characters per chunk

# ── the service itself ────────────────────────────────────────────────────────────────────────────────────────────────


def health(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    problems = state.keeper.services.problems()
    status = "degraded" if problems else "healthy"
    content: Plain = {"status": status, "version": __version__, "auth": context.auth}
    if context.auth == "missing":
        return content
    if problems and context.viewer is None:
        content["problems"] = format_checks(problems)
    memories = state.memory_count.value() if context.viewer is None else state.keeper.count()
    about = {"role": context.role, "user": state.keeper.user} if context.auth == "ok" else {}
    return {**content, **about, "memories": memories}


def format_checks(checks: Iterable[Check]) -> list[Plain]:
    return [
        {"name": check.name, "state": check.state, "says": check.says, "hint": check.remedy * (check.state != "ok")}
        for check in checks
    ]


def stats(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    uptime = round(time.monotonic() - state.began, 3)
    until = state.keeper.extraction().get("spent_until")
    spent = {"llm_spent_until": until} if until else {}
    return {**state.keeper.stats(), **spent, "version": __version__, "uptime_seconds": uptime}


def prometheus_metrics(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    content = state.metrics.render(state.memory_count.value(), state.inbox_status.value())
    return HandlerReply(content, media=metrics.MEDIA)


def openapi_document(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    return state.document()


def docs_page(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    return state.page()


# ── search and read ───────────────────────────────────────────────────────────────────────────────────────────────────


def search(state: AppState, request: requests.SearchRequest, context: RequestContext) -> Plain:
    query = request.as_query()
    return _format_hits(query.text, state.keeper.search(query, by=context.by), state.keeper.user)


def search_all(state: AppState, request: requests.SearchAllRequest, context: RequestContext) -> Plain:
    queries = request.as_queries()
    hit_lists = state.keeper.search_all(queries, by=context.by)
    reader = state.keeper.user
    pairs = zip(queries, hit_lists, strict=True)
    return {"results": [_format_hits(query.text, hits, reader) for query, hits in pairs]}


def _format_hits(query: str, hits: Sequence[Hit], reader: str) -> Plain:
    results = [{**hit.as_dict(), "said": hit.memory.provenance_label(reader)} for hit in hits]
    return {"query": query, "count": len(hits), "poor_match": is_poor_match(hits), "results": results}


def search_episodes(state: AppState, request: requests.RequestModel, context: RequestContext) -> Plain:  # noqa: ARG001
    fields = request.arguments()
    hits = state.keeper.search_episodes(**fields)
    return {"query": fields["query"], "count": len(hits), "episodes": [hit.as_dict() for hit in hits]}


def get(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    episode = state.keeper.episode_of(context.id)
    return {**state.keeper.get(context.id).as_dict(), **({} if episode is None else {"episode": episode})}


def freshness(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    result = state.keeper.freshness(context.id)
    return {"id": context.id, "freshness": result.state, "stale": list(result.notes)}


def knowledge_history(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    table = find_table(context)
    changes = state.keeper.knowledge.history(table, context.row)
    return {"table": table, "key": context.row, "changes": [change.as_dict() for change in changes]}


# ── remove ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def delete(state: AppState, request: requests.DeleteRequest, context: RequestContext) -> Plain:
    if request.purge:
        _import_spool(state)  # in the inbox, too, its entries are erased
    remove = state.keeper.purge if request.purge else state.keeper.delete
    change = remove(context.id, by=context.by, why=request.reason())
    return {"id": change.memory_id, "action": change.action, "changeset": change.changeset}


def purge_episode(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    _import_spool(state)
    state.keeper.purge_episode(context.id)
    return {"id": context.id, "action": "purge"}


def _import_spool(state: AppState) -> None:
    """Import pending spool entries, which could bring back what is purged. A purge is not delayed by an error."""
    with suppress(CofioError):
        state.sessions.import_spool()


# ── bulk operations, dry run by default ───────────────────────────────────────────────────────────────────────────────


def deduplicate(state: AppState, request: requests.DeduplicateRequest, context: RequestContext) -> Plain:
    threshold = None if request.threshold is UNSET else request.threshold
    within: ScopeKwargs = {"source_prefix": request.source_prefix}
    if request.dry_run:
        return _format_plan(state.keeper.find_duplicates(threshold=threshold, **within), None)
    changeset = state.keeper.merge_duplicates(threshold=threshold, by=context.by, why=request.reason(), **within)
    if changeset is None:
        return _format_plan([], None, dry=False)
    deletes = [change for change in changeset.changes if change.action == "delete"]
    decisions = [Delete(change.memory_id, change.reason, change.memory.superseded_by) for change in deletes]
    return _format_plan(decisions, changeset.id, dry=False)


def delete_all(state: AppState, request: requests.DeleteAllRequest, context: RequestContext) -> Plain:
    why = request.reason()
    decisions = state.keeper.services.memories.plan_delete_all(why, source_prefix=request.prefix())
    if request.dry_run or not decisions:
        return _format_plan(decisions, None, dry=request.dry_run)
    writer = state.keeper.services.writer
    changeset = writer.apply_corrections(decisions, by=context.by, why=why or f"delete all of {request.source}")
    return _format_plan(decisions, changeset.id, dry=False)


def _format_plan(decisions: Sequence[Decision], changeset_id: int | None, *, dry: bool = True) -> Plain:
    rows = [to_plain(decision) for decision in decisions]
    return {"dry_run": dry, "count": len(rows), "decisions": rows, "changeset": changeset_id}


def runs(state: AppState, request: requests.RequestModel, context: RequestContext) -> Plain:  # noqa: ARG001
    rows = [run.as_dict() for run in state.keeper.runs(**request.arguments())]
    return {"runs": rows, "schedules": dict(state.schedules)}


def usage(state: AppState, request: requests.UsageRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    memories = state.keeper.usage(**request.arguments())
    return {"view": request.view, "memories": [memory.as_dict() for memory in memories]}


# ── export ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def export(state: AppState, request: requests.ExportRequest, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    return HandlerReply(ExportStream(state.keeper.export_lines(vectors=request.vectors)))


class ExportStream:
    """Export as a stream of lines from one snapshot of the store: read no faster than it is sent."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._first = b""
        self._stopped = Event()

    def head(self) -> HandlerReply:
        """Return the status and headers. Errors of the store appear here, before the reply has started."""
        self._first = self.part()
        return HandlerReply(b"", media=EXPORT_MEDIA)

    def part(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        lines: list[str] = []
        size = 0
        while size < _EXPORT_PART and not self._stopped.is_set() and (line := next(self._lines, "")):
            lines.append(line)
            size += len(line)
        return "".join(lines).encode()

    def stop(self) -> None:
        self._stopped.set()

    def done(self) -> None:
        """Release the snapshot."""
        if close := getattr(self._lines, "close", None):
            close()


# ── formats of replies ────────────────────────────────────────────────────────────────────────────────────────────────


def format_outcome(change: Change) -> Plain:
    """Return the outcome for a fact: the memory it replaced, or similar ones that stayed but may be outdated."""
    replaced = change.memory.supersedes if change.action == "update" else None
    near = [{"id": memory.id, "text": memory.text, "replace": f"cofio forget {memory.id}"} for memory in change.near]
    about = {"id": change.memory_id, "action": change.action, "reason": change.reason}
    return {**about, "replaced": replaced, "near": near, **_notice(change)}


def _notice(change: Change) -> Plain:
    """Return the kinds of secrets that were removed from what the caller sent; nothing if there were none."""
    return {"redacted": list(change.redacted)} if change.redacted else {}


def format_added(change: Change) -> HandlerReply:
    body = {**format_outcome(change), "changeset": change.changeset, "memory": change.memory.as_dict()}
    return HandlerReply(body, 200 if change.action == "noop" else 201)


def format_added_batch(changes: Sequence[Change]) -> Plain:
    counts = Counter(change.action for change in changes)
    return {
        "added": counts["add"],
        "updated": counts["update"],
        "duplicates": counts["noop"],
        "changeset": changes[0].changeset,
        "results": [format_outcome(change) for change in changes],
    }


def format_change(change: Change) -> Plain:
    fields = {"id": change.memory_id, "action": change.action, "changeset": change.changeset}
    return {**fields, "memory": change.memory.as_dict(), **_notice(change)}


def format_superseded(changes: tuple[Change, Change]) -> Plain:
    written, archived = changes
    return {
        "old_id": archived.memory_id,
        "new_id": written.memory_id,
        "previous_text": written.memory.previous_text,
        "changeset": written.changeset,
        "memory": written.memory.as_dict(),
        **_notice(written),
    }


def format_novelty(novelty: Novelty) -> Plain:
    return {
        "novel": novelty.novel,
        "is_novel": novelty.novel,
        "similarity": round(novelty.similarity, 6),
        "match": novelty.match.as_dict() if novelty.match else None,
        "reason": novelty.reason,
    }


def format_page(page: Page) -> Plain:
    return {"memories": [memory.as_dict() for memory in page.memories], "next": page.next, "total": page.total}


def format_briefing(briefing: Briefing) -> Plain:
    return {"text": briefing.text, "ids": list(briefing.ids), "tokens": briefing.tokens}


def format_row_change(change: KnowledgeChange) -> HandlerReply:
    return HandlerReply(change.as_dict(), 201 if change.action == "add" else 200)


def format_new_key(created: tuple[Key, str]) -> HandlerReply:
    key, secret = created
    return HandlerReply({**key.as_dict(), "secret": secret}, 201)
