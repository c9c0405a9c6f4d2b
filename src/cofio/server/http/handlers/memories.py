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
from cofio.models.memory import Change, Changeset, Decision, Delete, Fact, Hit, fits_badly, plain
from cofio.server.http import metrics, requests
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.responses import HandlerReply
from cofio.version import __version__

Plain = dict[str, Any]

# ── the service itself ────────────────────────────────────────────────────────────────────────────────────────────────


def health(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    told: Plain = {"status": "healthy", "version": __version__, "auth": call.auth}
    if call.auth == "missing":
        return told
    memories = desk.census.told() if call.viewer is None else desk.keeper.count()
    return {**told, **({"role": call.role} if call.auth == "ok" else {}), "memories": memories}


def stats(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    uptime = round(time.monotonic() - desk.began, 3)
    until = desk.keeper.extraction().get("spent_until")
    spent = {"llm_spent_until": until} if until else {}
    return {**desk.keeper.stats(), **spent, "version": __version__, "uptime_seconds": uptime}


def measured(desk: AppState, given: None, call: RequestContext) -> HandlerReply:  # noqa: ARG001
    return HandlerReply(desk.metrics.written(desk.census.told(), desk.ledger.told()), media=metrics.MEDIA)


def document(desk: AppState, given: None, call: RequestContext) -> HandlerReply:  # noqa: ARG001
    return desk.document()


def page(desk: AppState, given: None, call: RequestContext) -> HandlerReply:  # noqa: ARG001
    return desk.page()


# ── the way out ───────────────────────────────────────────────────────────────────────────────────────────────────────


def search(desk: AppState, given: requests.SearchRequest, call: RequestContext) -> Plain:
    query = given.as_query()
    return _found(query.text, desk.keeper.search(query, by=call.by))


def search_all(desk: AppState, given: requests.SearchAllRequest, call: RequestContext) -> Plain:
    queries = given.as_queries()
    answers = desk.keeper.search_all(queries, by=call.by)
    return {"results": [_found(query.text, hits) for query, hits in zip(queries, answers, strict=True)]}


def recall(desk: AppState, given: requests.RecallRequest, call: RequestContext) -> Plain:
    told = desk.keeper.recall(
        given.prompt, project=given.project, k=given.k, by=call.by, client=given.client, session=given.session
    )
    return {"text": told.text, "ids": list(told.ids), "tokens": told.tokens}


def recall_context(desk: AppState, given: requests.RecallContextRequest, call: RequestContext) -> Plain:
    text = desk.keeper.recall_context(
        given.query,
        max_memories=given.max_memories,
        max_patterns=given.max_patterns,
        max_thresholds=given.max_thresholds,
        at=given.at,
        by=call.by,
    )
    return {"context": text}


def is_novel(desk: AppState, given: requests.IsNovelRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    fact = Fact(text=given.text, speaker=given.speaker)
    threshold = None if given.threshold is UNSET else given.threshold
    told = desk.keeper.is_novel(fact, threshold=threshold, **given.within())
    return {
        "novel": told.novel,
        "is_novel": told.novel,
        "similarity": round(told.similarity, 6),
        "match": told.match.as_dict() if told.match else None,
        "reason": told.reason,
    }


def get(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    episode = desk.keeper.episode_of(call.id)
    return {**desk.keeper.get(call.id).as_dict(), **({} if episode is None else {"episode": episode})}


def listing(desk: AppState, given: requests.ListingRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    after = None if given.after is UNSET else given.after
    page = desk.keeper.list(limit=given.limit, after=after, skip=given.skip, **given.within())
    return {"memories": [each.as_dict() for each in page.memories], "next": page.next, "total": page.total}


def projects(desk: AppState, given: requests.ProjectsRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    return {"projects": [each._asdict() for each in desk.keeper.projects(limit=given.limit, after=given.after)]}


# ── the way in ────────────────────────────────────────────────────────────────────────────────────────────────────────


def add(desk: AppState, given: requests.AddRequest, call: RequestContext) -> HandlerReply:
    change = desk.keeper.add(given.as_fact(), dedup=given.deduplicate, by=call.by, why=given.reason())
    told = {**settled(change), "changeset": change.changeset, "memory": change.memory.as_dict()}
    return HandlerReply(told, 200 if change.action == "noop" else 201)


def add_all(desk: AppState, given: requests.AddAllRequest, call: RequestContext) -> Plain:
    changes = desk.keeper.add_all(given.as_facts(), dedup=given.deduplicate, by=call.by, why=given.reason())
    counts = Counter(change.action for change in changes)
    return {
        "added": counts["add"],
        "updated": counts["update"],
        "duplicates": counts["noop"],
        "changeset": changes[0].changeset,
        "results": [settled(change) for change in changes],
    }


def edit(desk: AppState, given: requests.EditRequest, call: RequestContext) -> Plain:
    return _changed(desk.keeper.update(call.id, by=call.by, why=given.reason(), **given.changes()))


def delete(desk: AppState, given: requests.DeleteRequest, call: RequestContext) -> Plain:
    if given.purge:
        with suppress(CofioError):  # a purge is not delayed
            desk.attendant.fetch()  # pending spool entries could bring it back; in the inbox they are erased too
    remove = desk.keeper.purge if given.purge else desk.keeper.delete
    change = remove(call.id, by=call.by, why=given.reason())
    return {"id": change.memory_id, "action": change.action, "changeset": change.changeset}


def restore(desk: AppState, given: requests.ReasonRequest, call: RequestContext) -> Plain:
    return _changed(desk.keeper.restore(call.id, by=call.by, why=given.reason()))


def confirm(desk: AppState, given: requests.ReasonRequest, call: RequestContext) -> Plain:
    return _changed(desk.keeper.confirm(call.id, by=call.by, why=given.reason()))


def freshness(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    told = desk.keeper.freshness(call.id)
    return {"id": call.id, "freshness": told.state, "stale": list(told.notes)}


def supersede(desk: AppState, given: requests.SupersedeRequest, call: RequestContext) -> Plain:
    written, archived = desk.keeper.supersede(
        given.old_id, given.new_text, by=call.by, why=given.reason(), **given.about()
    )
    return {
        "old_id": archived.memory_id,
        "new_id": written.memory_id,
        "previous_text": written.memory.previous_text,
        "changeset": written.changeset,
        "memory": written.memory.as_dict(),
    }


# ── many at once, dry by default ──────────────────────────────────────────────────────────────────────────────────────


def deduplicate(desk: AppState, given: requests.DeduplicateRequest, call: RequestContext) -> Plain:
    threshold = None if given.threshold is UNSET else given.threshold
    within = {"source_prefix": given.source_prefix}
    if given.dry_run:
        return _plan(desk.keeper.find_duplicates(threshold=threshold, **within), None)
    done = desk.keeper.merge_duplicates(threshold=threshold, by=call.by, why=given.reason(), **within)
    return _plan(_deletions(done), done.id if done else None, dry=False)


def delete_all(desk: AppState, given: requests.DeleteAllRequest, call: RequestContext) -> Plain:
    why = given.reason()
    decisions = desk.keeper.find_all(why, source_prefix=given.prefix())
    if given.dry_run or not decisions:
        return _plan(decisions, None, dry=given.dry_run)
    rows = desk.keeper.read_from(decisions)
    done = desk.keeper.apply(decisions, by=call.by, why=why or f"delete all of {given.source}", knowledge=rows)
    return _plan(decisions, done.id, dry=False)


# ── history ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def history(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    return {"id": call.id, "changes": [change.as_dict() for change in desk.keeper.history(call.id)]}


def sightings(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    return {"id": call.id, "sightings": [asdict(each) for each in desk.keeper.sightings(call.id)]}


def changes(desk: AppState, given: requests.ChangesRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    return {"changesets": [each.as_dict() for each in desk.keeper.changes(limit=given.limit)]}


def changeset(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    return desk.keeper.changeset(call.id).as_dict()


def undo(desk: AppState, given: requests.ReasonRequest, call: RequestContext) -> Plain:
    return desk.keeper.undo(call.id, by=call.by, why=given.reason()).as_dict()


# ── words as plain values ─────────────────────────────────────────────────────────────────────────────────────────────


def _found(query: str, hits: Sequence[Hit]) -> Plain:
    results = [hit.as_dict() for hit in hits]
    return {"query": query, "count": len(hits), "fits_badly": fits_badly(hits), "results": results}


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
    told = [plain(each) for each in decisions]
    return {"dry_run": dry, "count": len(told), "decisions": told, "changeset": done}


def _deletions(done: Changeset | None) -> list[Delete]:
    """Return the decisions of a merge, reconstructed from its changes."""
    gone = [change for change in done.changes if change.action == "delete"] if done else []
    return [Delete(change.memory_id, change.reason, change.memory.superseded_by) for change in gone]
