"""Handlers for captures: store, extract, and report them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import UNSET

from cofio.core import Messages
from cofio.errors import NotFound, TooBusy
from cofio.models.exchange import OBSERVATION, OPEN, CaptureStatus, dialogue
from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.responses import HandlerReply

Plain = dict[str, Any]


def capture(desk: AppState, given: requests.CaptureRequest, call: RequestContext) -> HandlerReply:
    return _taken_in(desk, given, call, given.messages, given.about())


def observe(desk: AppState, given: requests.ObserveRequest, call: RequestContext) -> HandlerReply:
    told = dialogue(given.validated_intent, given.response)
    return _taken_in(desk, given, call, told, {**given.about(), "context": OBSERVATION})


def extract(desk: AppState, given: requests.ExtractRequest, call: RequestContext) -> HandlerReply:
    if given.later and not given.dry_run:
        captured = desk.keeper.submit(given.messages, **given.about())
        desk.worker.wake()
        told = {"job": captured.id, "new": captured.new, "state": captured.state}
        return HandlerReply(told, 202, headers={"Location": f"/memory/extract/{captured.id}"})
    with _reading(desk):
        learned = desk.keeper.extract(given.messages, dry_run=given.dry_run, by=call.by, **given.about())
    return HandlerReply(learned.as_dict())


def job(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    item = desk.keeper.item(call.id)
    if item.task != "extract":
        raise NotFound(f"There is no job {call.id}.", "GET /inbox/ID shows a capture.")
    return {
        "job": item.id,
        "state": item.state,
        "done": item.state not in OPEN,
        "attempts": item.attempts,
        "reason": item.reason,
        "received_at": item.received_at,
        "finished_at": item.finished_at,
        "result": dict(item.result) or None,
    }


def status(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    told = desk.keeper.extraction()
    if not told["enabled"]:
        return told
    health = desk.checkup.told()
    problem = {"problem": health.problem} if health.problem else {}
    return {**told, "status": "healthy" if health else "unhealthy", **problem}


def begin_backfill(desk: AppState, given: requests.EmptyRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    return {"series": desk.keeper.begin_backfill(by=call.by)}


def end_backfill(desk: AppState, given: requests.EmptyRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    desk.keeper.end_backfill(call.id, by=call.by)
    return {"series": call.id}


def turns(desk: AppState, given: requests.PendingTurnsRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    return {"turns": sorted(desk.keeper.turns(given.client, given.session, any_key=given.any_key))}


def ledger(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    return desk.keeper.ledger().as_dict()


def inbox(desk: AppState, given: requests.InboxRequest, call: RequestContext) -> Plain:  # noqa: ARG001
    state = None if given.state is UNSET else given.state
    after = None if given.after is UNSET else given.after
    items = desk.keeper.items(state, limit=given.limit, after=after)  # type: ignore[arg-type]
    following = items[-1].id if len(items) == given.limit else None
    return {"items": [each.as_dict() for each in items], "next": following}


def item(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    return desk.keeper.item(call.id).as_dict()


def retry(desk: AppState, given: None, call: RequestContext) -> Plain:  # noqa: ARG001
    again = desk.keeper.retry(call.id).as_dict()
    desk.worker.wake()
    return again


def _taken_in(
    desk: AppState,
    given: requests.CaptureRequest | requests.ObserveRequest,
    call: RequestContext,
    messages: Messages,
    about: Plain,
) -> HandlerReply:
    """Store the exchange and learn from it later, or now with `wait`; a dry run only previews."""
    if given.dry_run:
        with _reading(desk):
            learned = desk.keeper.learn(messages, dry_run=True, by=call.by, **about)
        return HandlerReply({"id": None, "new": False, "state": learned.state, **learned.as_dict()})
    captured = kept(desk, messages, wait=given.wait, by=call.by, about=about)
    return HandlerReply(_captured(captured), 200 if given.wait and captured.state not in OPEN else 202)


def kept(desk: AppState, messages: Messages, *, wait: bool, by: str, about: Plain) -> CaptureStatus:
    """Return the capture's outcome: learned from now with `wait`, else when it is due."""
    waits = wait and desk.reading.acquire(blocking=False)
    try:
        captured = desk.keeper.capture(messages, wait=waits, by=by, **about)
    finally:
        if waits:
            desk.reading.release()
    desk.worker.wake()
    return captured


@contextmanager
def _reading(desk: AppState) -> Iterator[None]:
    """Reserve the model for one request; raise if the queue is too long."""
    if not desk.reading.acquire(blocking=False):
        hint = 'Retry in a few seconds, or send "async": true and fetch the result later.'
        raise TooBusy("The model is busy with other conversations.", hint)
    try:
        yield
    finally:
        desk.reading.release()


def _captured(captured: CaptureStatus) -> Plain:
    return {
        **captured.result,
        "id": captured.id,
        "new": captured.new,
        "state": captured.state,
        "reason": captured.reason,
    }
