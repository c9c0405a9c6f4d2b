"""Handlers for captures: store, extract, and report them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cofio.errors import NotFound, TooBusy
from cofio.models.exchange import OBSERVATION, OPEN, CaptureStatus, Messages, dialogue
from cofio.server.http import requests
from cofio.server.http.context import AppState, RequestContext
from cofio.server.http.responses import HandlerReply

Plain = dict[str, Any]


def capture(state: AppState, request: requests.CaptureRequest, context: RequestContext) -> HandlerReply:
    return _store_exchange(state, request, context, request.messages, request.exchange_fields())


def observe(state: AppState, request: requests.ObserveRequest, context: RequestContext) -> HandlerReply:
    messages = dialogue(request.validated_intent, request.response)
    return _store_exchange(state, request, context, messages, {**request.exchange_fields(), "context": OBSERVATION})


def extract(state: AppState, request: requests.ExtractRequest, context: RequestContext) -> HandlerReply:
    if request.later and not request.dry_run:
        job = state.keeper.submit(request.messages, **request.exchange_fields())
        state.worker.wake()
        body = {"job": job.id, "new": job.new, "state": job.state}
        return HandlerReply(body, 202, headers={"Location": f"/memory/extract/{job.id}"})
    with _reserve_model(state):
        result = state.keeper.extract(
            request.messages, dry_run=request.dry_run, by=context.by, **request.exchange_fields()
        )
    return HandlerReply(result.as_dict())


def job(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    item = state.keeper.item(context.id)
    if item.task != "extract":
        raise NotFound(f"There is no extraction job {context.id}.", "Give the id that POST /memory/extract returned.")
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


def status(state: AppState, request: None, context: RequestContext, patience: float | None = None) -> Plain:  # noqa: ARG001
    """Return the extraction model with its state; `patience` overrides the time to wait for that."""
    extraction = state.keeper.extraction()
    if not extraction["enabled"]:
        return extraction
    health = state.model_health.value(patience)
    problem = {"problem": health.problem} if health.problem else {}
    return {**extraction, "status": "healthy" if health else "unhealthy", **problem}


def end_backfill(state: AppState, request: requests.EmptyRequest, context: RequestContext) -> Plain:  # noqa: ARG001
    state.keeper.end_backfill(context.id, by=context.by)
    return {"series": context.id}


def retry(state: AppState, request: None, context: RequestContext) -> Plain:  # noqa: ARG001
    again = state.keeper.retry(context.id).as_dict()
    state.worker.wake()
    return again


def _store_exchange(
    state: AppState,
    request: requests.CaptureRequest | requests.ObserveRequest,
    context: RequestContext,
    messages: Messages,
    about: Plain,
) -> HandlerReply:
    """Store the exchange and learn from it later, or now with `wait`; a dry run only previews."""
    if request.dry_run:
        with _reserve_model(state):
            result = state.keeper.learn(messages, dry_run=True, by=context.by, **about)
        return HandlerReply({"id": None, "new": False, "state": result.state, **result.as_dict()})
    outcome = store_capture(state, messages, wait=request.wait, by=context.by, about=about)
    body = {**outcome.result, "id": outcome.id, "new": outcome.new, "state": outcome.state, "reason": outcome.reason}
    return HandlerReply(body, 200 if request.wait and outcome.state not in OPEN else 202)


def store_capture(state: AppState, messages: Messages, *, wait: bool, by: str, about: Plain) -> CaptureStatus:
    """Return the capture's outcome: learned from now with `wait`, else when it is due."""
    waits = wait and state.reading.acquire(blocking=False)
    try:
        outcome = state.keeper.capture(messages, wait=waits, by=by, **about)
    finally:
        if waits:
            state.reading.release()
    state.worker.wake()
    return outcome


@contextmanager
def _reserve_model(state: AppState) -> Iterator[None]:
    """Reserve the model for one request; raise if the queue is too long."""
    if not state.reading.acquire(blocking=False):
        hint = 'Retry in a few seconds, or send "async": true and fetch the result later.'
        raise TooBusy("The language model is busy with other conversations.", hint)
    try:
        yield
    finally:
        state.reading.release()
