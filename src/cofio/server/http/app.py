"""ASGI application: the routes behind the authenticator; handlers run in worker threads, never on the event loop."""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from anyio import CapacityLimiter, to_thread
from msgspec import json
from starlette import routing
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cofio import bootstrap
from cofio.core import Keeper
from cofio.errors import InvalidInput, Misconfigured, NotFound
from cofio.hooks import endpoint_file
from cofio.models.auth import digest
from cofio.models.diagnostics import Doctor
from cofio.ports import Clock, Health, Stoppable
from cofio.server.background.inbox_worker import InboxWorker
from cofio.server.background.notes_watcher import NotesWatcher
from cofio.server.background.scheduler import Scheduler
from cofio.server.http import auth, decoding, docs, openapi
from cofio.server.http.audit_log import AuditRecorder
from cofio.server.http.context import AppState, CachedProbe, RequestContext
from cofio.server.http.error_responses import refusal
from cofio.server.http.events import EventBroadcaster
from cofio.server.http.key_cache import FailedAuthLimiter, KeyCache, Ticks
from cofio.server.http.metrics import Metrics
from cofio.server.http.middleware import STRANGER, RequestMiddleware
from cofio.server.http.operations import Pool, Route
from cofio.server.http.responses import HandlerReply, to_response
from cofio.server.http.routes import ROUTES
from cofio.server.http.streaming import EXPORTS, RELAYS, WATCHERS, StreamLimit, StreamResponse
from cofio.server.openai_proxy.upstream import Upstream
from cofio.server.session_handler import SessionHandler
from cofio.settings import Settings

WORKERS = 32
#: Object of an id, by the beginning of the path.
_THINGS = {"/changes": "changeset", "/inbox": "item", "/memory/extract": "job", "/keys": "key", "/episodes": "episode"}
_RESERVED_THREADS = 8
_AGENT_THREADS = 8


def make(
    keeper: Keeper,
    settings: Settings,
    clock: Clock = bootstrap.now,
    ticks: Ticks = time.monotonic,
    doctor: Doctor | None = None,
) -> Starlette:
    """Return the service as an ASGI app. The caller closes the keeper. Keys expire by `clock`, guesses by `ticks`."""
    state = replace(_build_state(keeper, settings), settings=settings, doctor=doctor)
    scheduler = Scheduler(keeper, settings.schedules, clock)
    notes_watcher = NotesWatcher(keeper, settings.notes_followed, every=settings.notes_poll_seconds)
    processors = max(2, os.cpu_count() or 2)
    limits = _ConcurrencyLimits(processors)
    # If COFIO_API_KEY is set to a key of the store, it keeps that key's role and does not act as the owner's key.
    is_store_key = bool(settings.api_key) and keeper.services.keys.find(digest(settings.api_key)) is not None
    authenticator = auth.Authenticator(
        settings, KeyCache(keeper, ticks), FailedAuthLimiter(ticks), clock, keeper.services.keys.record, is_store_key
    )
    deps = _EndpointDeps(state, authenticator, settings.max_body, limits, clock)
    decoding.prepare(route.request for route in ROUTES if route.request)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        state.worker.start()
        scheduler.start()
        notes_watcher.start()
        yield
        await to_thread.run_sync(notes_watcher.stop)
        await to_thread.run_sync(scheduler.stop)
        await to_thread.run_sync(state.worker.stop)
        if isinstance(keeper.llm, Stoppable):  # its request threads are joined at exit
            await to_thread.run_sync(keeper.llm.stop)
        await to_thread.run_sync(state.close)

    routes = [routing.Route(endpoint.path, endpoint) for endpoint in _build_endpoints(ROUTES, deps)]
    app = Starlette(routes=routes, middleware=[Middleware(RequestMiddleware, state.metrics)], lifespan=lifespan)
    app.state.ending = state.news.end
    app.router.redirect_slashes = False
    app.router.default = NotFoundEndpoint("", {}, deps)
    return app


def _build_state(keeper: Keeper, settings: Settings) -> AppState:
    metrics = Metrics()
    keeper.on_learned(metrics.learned)
    keeper.on_injected(metrics.injected)
    codex = Path(settings.codex_home or "~/.codex").expanduser()
    sessions = SessionHandler(
        keeper,
        settings.home,
        codex_home=codex,
        patience=max(settings.hook_recall_timeout_ms / 2, settings.hook_recall_timeout_ms - 300)
        / 1000,  # how long a hook waits
        is_mine=lambda: not endpoint_file.is_others(settings.home, settings.store_name),
    )
    upstream, problem = _open_upstream(settings)
    return AppState(
        keeper,
        InboxWorker(
            keeper,
            days_kept=settings.inbox_days,
            retrieval_days=settings.retrieval_days,
            audit_days=settings.audit_days,
            episode_days=settings.episode_days,
            episode_mb=settings.episode_mb,
            llm_text_days=settings.llm_text_days,
            fetch=sessions.import_spool,
        ),
        sessions,
        CachedProbe(keeper.count),
        CachedProbe(keeper.inbox_status),
        CachedProbe(keeper.llm.health_check if keeper.llm else lambda: Health(healthy=False), patience=6.0, fresh=60.0),
        metrics,
        EventBroadcaster(keeper.dashboard.pulse),
        _document,
        _page,
        upstream=upstream,
        upstream_problem=problem,
        schedules=settings.schedules,
    )


@cache
def _build_document() -> dict[str, Any]:
    """Return the OpenAPI document. Built on first use: it takes 0.1 s and is rarely requested."""
    return openapi.document(ROUTES)


@cache
def _document() -> HandlerReply:
    return HandlerReply(json.encode(_build_document()))


@cache
def _page() -> HandlerReply:
    return docs.page(ROUTES, _build_document())


def _open_upstream(settings: Settings) -> tuple[Upstream | None, str]:
    """Return the chat upstream, or why there is none. A wrong address is reported to chat requests only."""
    if not settings.chat_upstream_url.strip():
        return None, ""
    where = (settings.chat_upstream_url, settings.chat_upstream_key, settings.chat_upstream_timeout)
    try:
        return Upstream(*where), ""
    except Misconfigured as error:
        return None, str(error)


class _ConcurrencyLimits:
    """Concurrency limits of handlers by pool, and of streams, each of which has its own thread."""

    def __init__(self, processors: int) -> None:
        default = CapacityLimiter(WORKERS)
        self._threads = {
            Pool.DEFAULT: default,
            Pool.RESERVED: CapacityLimiter(_RESERVED_THREADS),
            Pool.CPU: CapacityLimiter(processors),
            Pool.HALF_CPU: CapacityLimiter(processors // 2),
            Pool.AGENT: CapacityLimiter(_AGENT_THREADS),
            Pool.EXPORT: default,
            Pool.EVENTS: default,
        }
        self._relays = StreamLimit(RELAYS, "chats")  # requests that wait for an upstream
        self._streams = {
            Pool.EXPORT: StreamLimit(EXPORTS, "exports"),  # each holds a snapshot of the store while it is read
            Pool.EVENTS: StreamLimit(WATCHERS, "event streams"),
        }

    def threads(self, route: Route) -> CapacityLimiter:
        """Return the limit of the threads that run the route's handler."""
        return self._threads[route.pool]

    def streams(self, route: Route) -> StreamLimit:
        """Return the limit of the route's streams."""
        return self._streams.get(route.pool, self._relays)


@dataclass(frozen=True, slots=True)
class _EndpointDeps:
    """Dependencies shared by all endpoints."""

    state: AppState
    authenticator: auth.Authenticator
    max_body: int
    limits: _ConcurrencyLimits
    clock: Clock


class Endpoint:
    """Endpoint: one path with its methods. Admits the request and runs the handler in a thread."""

    def __init__(
        self,
        path: str,
        methods: Mapping[str, Route],
        deps: _EndpointDeps,
        named: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.path = path
        self._methods = methods
        self._deps = deps
        self._named = named  # row names that a fixed path stands for, if it could also name a row

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = await self._respond(Request(scope, receive))
        await reply(scope, receive, send)

    async def _respond(self, request: Request) -> ASGIApp:
        route = self._methods.get("GET" if request.method == "HEAD" else request.method)
        self._deps.authenticator.admit(request.headers, browser=route is not None and route.browser)
        access = await self._check_access(request, route)
        request.scope[STRANGER] = access.viewer is not None or access.auth == "missing"
        if route is None:
            return self._no_such_method(request.method)
        call = _make_context(request, access, self.path, {**self._named, **request.path_params})
        if route.query_only and _has_body(request):
            raise InvalidInput(f"{route.path} accepts no body.", "Send the fields in the query string.")
        body = await auth.read_body(request, self._deps.max_body) if route.has_body else b""
        limiter = self._deps.limits.threads(route)
        return await to_thread.run_sync(self._run_handler, route, request, body, call, limiter=limiter)

    async def _check_access(self, request: Request, route: Route | None) -> auth.AuthResult:
        """Return what the caller's key permits. Raise if that is not enough for the route."""
        address = _address(request)
        act = f"{request.method[:10]} {self.path or 'nowhere'}"
        access = await self._deps.authenticator.identify(request.headers, address, act)
        if route is None or not route.public:
            auth.refuse_without_key(access.auth)
        if route is not None:
            self._deps.authenticator.check_role(route.role, access, address, act)
        if access.key:
            self._deps.state.keeper.services.keys.record_use(access.key, self._deps.clock())
        return access

    def _run_handler(self, route: Route, request: Request, body: bytes, call: RequestContext) -> ASGIApp:
        """Read, handle and write, all off the event loop."""
        payload = _decode_input(route, request, body)
        recorder = AuditRecorder(route, call, self._deps.clock, self._deps.state.keeper.services.keys.record)
        with recorder.refusals():
            reply = route.handler(self._deps.state.as_viewer(call.viewer), payload, call)
        recorder.done(reply)
        if isinstance(reply, HandlerReply) and not isinstance(reply.content, dict | bytes):
            return StreamResponse(reply.content, self._deps.limits.streams(route))
        return to_response(reply)

    def _no_such_method(self, method: str) -> Response:
        allowed = ", ".join(self._methods)
        error = InvalidInput(f"{self.path} does not accept {method}.", f"Use {allowed}.")
        return refusal(error, 405, {"Allow": allowed})


class NotFoundEndpoint(Endpoint):
    """Endpoint of all unknown paths."""

    def _no_such_method(self, method: str) -> Response:  # noqa: ARG002
        return refusal(NotFound("The service has no such path.", "GET /docs shows every route."))


def _build_endpoints(routes: Sequence[Route], deps: _EndpointDeps) -> list[Endpoint]:
    """Return the endpoints, fixed paths before those with an id, so that none hides another."""
    methods: dict[str, dict[str, Route]] = {}
    for route in sorted(routes, key=lambda route: "{" in route.path):
        methods.setdefault(route.path, {})[route.method] = route
    return [_build_endpoint(path, methods, deps) for path in methods]


def _build_endpoint(path: str, methods: Mapping[str, Mapping[str, Route]], deps: _EndpointDeps) -> Endpoint:
    """Return the endpoint of a path. A fixed word may also be a row's name, and then accepts a row's methods."""
    for pattern in methods if "{" not in path else ():
        if "{row}" in pattern and (match := re.fullmatch(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", pattern), path)):
            return Endpoint(path, {**methods[pattern], **methods[path]}, deps, match.groupdict())
    return Endpoint(path, methods[path], deps)


def _has_body(request: Request) -> bool:
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


def _decode_input(route: Route, request: Request, body: bytes) -> object:
    if route.raw:
        return body
    if route.request is None:
        return None
    query: bytes = request.scope["query_string"]
    if not route.has_body:
        return decoding.of_query(query, route.request)
    if query:
        raise InvalidInput(f"{route.path} accepts no query string.", "Send the fields in the body, as JSON.")
    return decoding.of_body(body, request.headers.get("content-type", ""), route.request)


def _make_context(
    request: Request, access: auth.AuthResult, path: str, path_params: Mapping[str, str]
) -> RequestContext:
    headers, address = request.headers, _address(request)
    return RequestContext(
        by=auth.caller(headers, access.key),
        auth=access.auth,
        id=_read_id(request, path),
        table=path_params.get("table", ""),
        row=path_params.get("row", ""),
        file=path_params.get("file", ""),
        project=auth.project(headers),
        local=auth.is_loopback(address) and not auth.is_forwarded(headers),
        at=auth.event_time(headers),
        viewer=access.viewer,
        role=access.role,
        key=access.key,
        address=address,
        holder=access.holder,
        headers=headers,
    )


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _read_id(request: Request, path: str) -> int:
    """Return the id in the path; 0, which no object has, if the path has none."""
    if "{id}" not in path:
        return 0
    text = str(request.path_params["id"])
    if not re.fullmatch(r"[0-9]{1,18}", text):
        kind = next((name for start, name in _THINGS.items() if path.startswith(start)), "memory")
        raise NotFound(f"There is no {kind} {text[:40]!r}.", "An id is a positive integer, as returned in replies.")
    return int(text)
