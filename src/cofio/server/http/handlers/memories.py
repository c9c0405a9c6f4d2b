"""Handlers of the core routes: synchronous functions from values to plain values."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec import UNSET

from cofio.errors import CofioError
from cofio.models.memory import Change, Changeset, Decision, Delete, Fact, Hit, ScopeKwargs, is_poor_match, to_plain
from cofio.server.http import metrics, requests
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.responses import HandlerReply
from cofio.version import __version__

Plain = dict[str, Any]

# ── the service itself ────────────────────────────────────────────────────────────────────────────────────────────────


def health(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    content: Plain = {"status": "healthy", "version": __version__, "auth": context.auth}
    if context.auth == "missing":
        return content
    memories = state.memory_count.value() if context.viewer is None else state.keeper.count()
    return {**content, **({"role": context.role} if context.auth == "ok" else {}), "memories": memories}


def stats(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    uptime = round(time.monotonic() - state.began, 3)
    until = state.keeper.extraction().get("spent_until")
    spent = {"llm_spent_until": until} if until else {}
    return {**state.keeper.stats(), **spent, "version": __version__, "uptime_seconds": uptime}


def prometheus_metrics(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    return HandlerReply(
        state.metrics.render(state.memory_count.value(), state.inbox_status.value()), media=metrics.MEDIA
    )


def openapi_document(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    return state.document()


def docs_page(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    return state.page()


# ── search and read ───────────────────────────────────────────────────────────────────────────────────────────────────


def search(state: AppState, request: requests.SearchRequest, context: RequestContext) -> Plain:
    query = request.as_query()
    return _format_hits(query.text, state.keeper.search(query, by=context.by))


def search_all(state: AppState, request: requests.SearchAllRequest, context: RequestContext) -> Plain:
    queries = request.as_queries()
    hit_lists = state.keeper.search_all(queries, by=context.by)
    return {"results": [_format_hits(query.text, hits) for query, hits in zip(queries, hit_lists, strict=True)]}


def recall(state: AppState, request: requests.RecallRequest, context: RequestContext) -> Plain:
    briefing = state.keeper.recall(by=context.by, **request.sent_fields())
    return {"text": briefing.text, "ids": list(briefing.ids), "tokens": briefing.tokens}


def is_novel(state: AppState, request: requests.IsNovelRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    fact = Fact(text=request.text, speaker=request.speaker)
    threshold = None if request.threshold is UNSET else request.threshold
    novelty = state.keeper.is_novel(fact, threshold=threshold, **request.scope_fields())
    return {
        "novel": novelty.novel,
        "is_novel": novelty.novel,
        "similarity": round(novelty.similarity, 6),
        "match": novelty.match.as_dict() if novelty.match else None,
        "reason": novelty.reason,
    }


def get(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    episode = state.keeper.episode_of(context.id)
    return {**state.keeper.get(context.id).as_dict(), **({} if episode is None else {"episode": episode})}


def list_(state: AppState, request: requests.ListingRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    after = None if request.after is UNSET else request.after
    page = state.keeper.list(limit=request.limit, after=after, skip=request.skip, **request.scope_fields())
    return {"memories": [memory.as_dict() for memory in page.memories], "next": page.next, "total": page.total}


# ── write ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def add(state: AppState, request: requests.AddRequest, context: RequestContext) -> HandlerReply:
    change = state.keeper.add(request.as_fact(), dedup=request.deduplicate, by=context.by, why=request.reason())
    body = {**format_outcome(change), "changeset": change.changeset, "memory": change.memory.as_dict()}
    return HandlerReply(body, 200 if change.action == "noop" else 201)


def add_all(state: AppState, request: requests.AddAllRequest, context: RequestContext) -> Plain:
    changes = state.keeper.add_all(request.as_facts(), dedup=request.deduplicate, by=context.by, why=request.reason())
    counts = Counter(change.action for change in changes)
    return {
        "added": counts["add"],
        "updated": counts["update"],
        "duplicates": counts["noop"],
        "changeset": changes[0].changeset,
        "results": [format_outcome(change) for change in changes],
    }


def update(state: AppState, request: requests.EditRequest, context: RequestContext) -> Plain:
    return _format_change(state.keeper.update(context.id, by=context.by, why=request.reason(), **request.changes()))


def delete(state: AppState, request: requests.DeleteRequest, context: RequestContext) -> Plain:
    if request.purge:
        with suppress(CofioError):  # a purge is not delayed
            state.sessions.import_spool()  # pending spool entries could bring it back; in the inbox they are erased too
    remove = state.keeper.purge if request.purge else state.keeper.delete
    change = remove(context.id, by=context.by, why=request.reason())
    return {"id": change.memory_id, "action": change.action, "changeset": change.changeset}


def restore(state: AppState, request: requests.ReasonRequest, context: RequestContext) -> Plain:
    return _format_change(state.keeper.restore(context.id, by=context.by, why=request.reason()))


def mark_fresh(state: AppState, request: requests.ReasonRequest, context: RequestContext) -> Plain:
    return _format_change(state.keeper.mark_fresh(context.id, by=context.by, why=request.reason()))


def freshness(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    result = state.keeper.freshness(context.id)
    return {"id": context.id, "freshness": result.state, "stale": list(result.notes)}


def supersede(state: AppState, request: requests.SupersedeRequest, context: RequestContext) -> Plain:
    written, archived = state.keeper.supersede(
        request.old_id, request.new_text, by=context.by, why=request.reason(), **request.fact_fields()
    )
    return {
        "old_id": archived.memory_id,
        "new_id": written.memory_id,
        "previous_text": written.memory.previous_text,
        "changeset": written.changeset,
        "memory": written.memory.as_dict(),
    }


# ── bulk operations, dry run by default ───────────────────────────────────────────────────────────────────────────────


def deduplicate(state: AppState, request: requests.DeduplicateRequest, context: RequestContext) -> Plain:
    threshold = None if request.threshold is UNSET else request.threshold
    within: ScopeKwargs = {"source_prefix": request.source_prefix}
    if request.dry_run:
        return _format_plan(state.keeper.find_duplicates(threshold=threshold, **within), None)
    changeset = state.keeper.merge_duplicates(threshold=threshold, by=context.by, why=request.reason(), **within)
    return _format_plan(_restore_decisions(changeset), changeset.id if changeset else None, dry=False)


def delete_all(state: AppState, request: requests.DeleteAllRequest, context: RequestContext) -> Plain:
    why = request.reason()
    decisions = state.keeper.services.memories.plan_delete_all(why, source_prefix=request.prefix())
    if request.dry_run or not decisions:
        return _format_plan(decisions, None, dry=request.dry_run)
    rows = state.keeper.services.writer.removed_rows(decisions)
    changeset = state.keeper.apply(
        decisions, by=context.by, why=why or f"delete all of {request.source}", knowledge=rows
    )
    return _format_plan(decisions, changeset.id, dry=False)


# ── formatting ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _format_hits(query: str, hits: Sequence[Hit]) -> Plain:
    results = [hit.as_dict() for hit in hits]
    return {"query": query, "count": len(hits), "poor_match": is_poor_match(hits), "results": results}


def format_outcome(change: Change) -> Plain:
    """Return the outcome for a fact: the memory it replaced, or similar ones that stayed but may be outdated."""
    replaced = change.memory.supersedes if change.action == "update" else None
    near = [{"id": memory.id, "text": memory.text, "replace": f"cofio forget {memory.id}"} for memory in change.near]
    about = {"id": change.memory_id, "action": change.action, "reason": change.reason}
    return {**about, "replaced": replaced, "near": near}


def _format_change(change: Change) -> Plain:
    fields = {"id": change.memory_id, "action": change.action, "changeset": change.changeset}
    return {**fields, "memory": change.memory.as_dict()}


def _format_plan(decisions: Sequence[Decision], changeset_id: int | None, *, dry: bool = True) -> Plain:
    rows = [to_plain(decision) for decision in decisions]
    return {"dry_run": dry, "count": len(rows), "decisions": rows, "changeset": changeset_id}


def _restore_decisions(changeset: Changeset | None) -> list[Delete]:
    """Return the decisions of a merge, reconstructed from its changes."""
    deletes = [change for change in changeset.changes if change.action == "delete"] if changeset else []
    return [Delete(change.memory_id, change.reason, change.memory.superseded_by) for change in deletes]
