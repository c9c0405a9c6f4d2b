"""Handlers of the core routes: synchronous functions from values to plain values."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from msgspec import UNSET

from cofio.errors import CofioError
from cofio.models.memory import Change, Changeset, Decision, Delete, Fact, Hit, is_poor_match, to_plain
from cofio.server.http import metrics, requests
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.responses import HandlerReply
from cofio.version import __version__

Plain = dict[str, Any]

# ── the service itself ────────────────────────────────────────────────────────────────────────────────────────────────


def health(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    told: Plain = {"status": "healthy", "version": __version__, "auth": context.auth}
    if context.auth == "missing":
        return told
    memories = state.census.told() if context.viewer is None else state.keeper.count()
    return {**told, **({"role": context.role} if context.auth == "ok" else {}), "memories": memories}


def stats(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    uptime = round(time.monotonic() - state.began, 3)
    until = state.keeper.extraction().get("spent_until")
    spent = {"llm_spent_until": until} if until else {}
    return {**state.keeper.stats(), **spent, "version": __version__, "uptime_seconds": uptime}


def measured(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    return HandlerReply(state.metrics.written(state.census.told(), state.ledger.told()), media=metrics.MEDIA)


def document(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    return state.document()


def page(state: AppState, request: None, context: RequestContext) -> HandlerReply:  # noqa: ARG001
    return state.page()


# ── the way out ───────────────────────────────────────────────────────────────────────────────────────────────────────


def search(state: AppState, request: requests.SearchRequest, context: RequestContext) -> Plain:
    query = request.as_query()
    return _found(query.text, state.keeper.search(query, by=context.by))


def search_all(state: AppState, request: requests.SearchAllRequest, context: RequestContext) -> Plain:
    queries = request.as_queries()
    answers = state.keeper.search_all(queries, by=context.by)
    return {"results": [_found(query.text, hits) for query, hits in zip(queries, answers, strict=True)]}


def recall(state: AppState, given: requests.RecallRequest, context: RequestContext) -> Plain:
    told = state.keeper.recall(
        given.prompt, project=given.project, k=given.k, by=context.by, client=given.client, session=given.session
    )
    return {"text": told.text, "ids": list(told.ids), "tokens": told.tokens}


def recall_context(state: AppState, request: requests.RecallContextRequest, context: RequestContext) -> Plain:
    text = state.keeper.recall_context(
        request.query,
        max_memories=request.max_memories,
        max_patterns=request.max_patterns,
        max_thresholds=request.max_thresholds,
        at=request.at,
        by=context.by,
    )
    return {"context": text}


def is_novel(state: AppState, request: requests.IsNovelRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    fact = Fact(text=request.text, speaker=request.speaker)
    threshold = None if request.threshold is UNSET else request.threshold
    told = state.keeper.is_novel(fact, threshold=threshold, **request.within())
    return {
        "novel": told.novel,
        "is_novel": told.novel,
        "similarity": round(told.similarity, 6),
        "match": told.match.as_dict() if told.match else None,
        "reason": told.reason,
    }


def get(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    episode = state.keeper.episode_of(context.id)
    return {**state.keeper.get(context.id).as_dict(), **({} if episode is None else {"episode": episode})}


def listing(state: AppState, request: requests.ListingRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    after = None if request.after is UNSET else request.after
    page = state.keeper.list(limit=request.limit, after=after, skip=request.skip, **request.within())
    return {"memories": [memory.as_dict() for memory in page.memories], "next": page.next, "total": page.total}


def projects(state: AppState, request: requests.ProjectsRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    return {
        "projects": [project._asdict() for project in state.keeper.projects(limit=request.limit, after=request.after)]
    }


# ── the way in ────────────────────────────────────────────────────────────────────────────────────────────────────────


def add(state: AppState, request: requests.AddRequest, context: RequestContext) -> HandlerReply:
    change = state.keeper.add(request.as_fact(), dedup=request.deduplicate, by=context.by, why=request.reason())
    told = {**settled(change), "changeset": change.changeset, "memory": change.memory.as_dict()}
    return HandlerReply(told, 200 if change.action == "noop" else 201)


def add_all(state: AppState, request: requests.AddAllRequest, context: RequestContext) -> Plain:
    changes = state.keeper.add_all(request.as_facts(), dedup=request.deduplicate, by=context.by, why=request.reason())
    counts = Counter(change.action for change in changes)
    return {
        "added": counts["add"],
        "updated": counts["update"],
        "duplicates": counts["noop"],
        "changeset": changes[0].changeset,
        "results": [settled(change) for change in changes],
    }


def edit(state: AppState, request: requests.EditRequest, context: RequestContext) -> Plain:
    return _changed(state.keeper.update(context.id, by=context.by, why=request.reason(), **request.changes()))


def delete(state: AppState, request: requests.DeleteRequest, context: RequestContext) -> Plain:
    if request.purge:
        with suppress(CofioError):  # a purge is not delayed
            state.attendant.fetch()  # pending spool entries could bring it back; in the inbox they are erased too
    remove = state.keeper.purge if request.purge else state.keeper.delete
    change = remove(context.id, by=context.by, why=request.reason())
    return {"id": change.memory_id, "action": change.action, "changeset": change.changeset}


def restore(state: AppState, request: requests.ReasonRequest, context: RequestContext) -> Plain:
    return _changed(state.keeper.restore(context.id, by=context.by, why=request.reason()))


def confirm(state: AppState, request: requests.ReasonRequest, context: RequestContext) -> Plain:
    return _changed(state.keeper.confirm(context.id, by=context.by, why=request.reason()))


def freshness(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    told = state.keeper.freshness(context.id)
    return {"id": context.id, "freshness": told.state, "stale": list(told.notes)}


def supersede(state: AppState, request: requests.SupersedeRequest, context: RequestContext) -> Plain:
    written, archived = state.keeper.supersede(
        request.old_id, request.new_text, by=context.by, why=request.reason(), **request.about()
    )
    return {
        "old_id": archived.memory_id,
        "new_id": written.memory_id,
        "previous_text": written.memory.previous_text,
        "changeset": written.changeset,
        "memory": written.memory.as_dict(),
    }


# ── many at once, dry by default ──────────────────────────────────────────────────────────────────────────────────────


def deduplicate(state: AppState, request: requests.DeduplicateRequest, context: RequestContext) -> Plain:
    threshold = None if request.threshold is UNSET else request.threshold
    within = {"source_prefix": request.source_prefix}
    if request.dry_run:
        return _plan(state.keeper.find_duplicates(threshold=threshold, **within), None)
    done = state.keeper.merge_duplicates(threshold=threshold, by=context.by, why=request.reason(), **within)
    return _plan(_deletions(done), done.id if done else None, dry=False)


def delete_all(state: AppState, request: requests.DeleteAllRequest, context: RequestContext) -> Plain:
    why = request.reason()
    decisions = state.keeper.find_all(why, source_prefix=request.prefix())
    if request.dry_run or not decisions:
        return _plan(decisions, None, dry=request.dry_run)
    rows = state.keeper.read_from(decisions)
    done = state.keeper.apply(decisions, by=context.by, why=why or f"delete all of {request.source}", knowledge=rows)
    return _plan(decisions, done.id, dry=False)


# ── history ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def history(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    return {"id": context.id, "changes": [change.as_dict() for change in state.keeper.history(context.id)]}


def sightings(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    return {"id": context.id, "sightings": [asdict(sighting) for sighting in state.keeper.sightings(context.id)]}


def changes(state: AppState, request: requests.ChangesRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    return {"changesets": [change.as_dict() for change in state.keeper.changes(limit=request.limit)]}


def changeset(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    return state.keeper.changeset(context.id).as_dict()


def undo(state: AppState, request: requests.ReasonRequest, context: RequestContext) -> Plain:
    return state.keeper.undo(context.id, by=context.by, why=request.reason()).as_dict()


# ── words as plain values ─────────────────────────────────────────────────────────────────────────────────────────────


def _found(query: str, hits: Sequence[Hit]) -> Plain:
    results = [hit.as_dict() for hit in hits]
    return {"query": query, "count": len(hits), "fits_badly": is_poor_match(hits), "results": results}


def settled(change: Change) -> Plain:
    """Return the outcome for a fact: the memory it replaced, or similar ones that stayed but may be outdated."""
    replaced = change.memory.supersedes if change.action == "update" else None
    near = [{"id": each.id, "text": each.text, "replace": f"cofio forget {each.id}"} for each in change.near]
    about = {"id": change.memory_id, "action": change.action, "reason": change.reason}
    return {**about, "replaced": replaced, "near": near}


def _changed(change: Change) -> Plain:
    told = {"id": change.memory_id, "action": change.action, "changeset": change.changeset}
    return {**told, "memory": change.memory.as_dict()}


def _plan(decisions: Sequence[Decision], done: int | None, *, dry: bool = True) -> Plain:
    told = [to_plain(decision) for decision in decisions]
    return {"dry_run": dry, "count": len(told), "decisions": told, "changeset": done}


def _deletions(done: Changeset | None) -> list[Delete]:
    """Return the decisions of a merge, reconstructed from its changes."""
    gone = [change for change in done.changes if change.action == "delete"] if done else []
    return [Delete(change.memory_id, change.reason, change.memory.superseded_by) for change in gone]
