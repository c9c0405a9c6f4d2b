"""ASGI application: the routes behind the authenticator; handlers run in worker threads, never on the event loop."""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote

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
from cofio.errors import Forbidden, InvalidInput, Misconfigured, NotFound
from cofio.hooks import endpoint_file
from cofio.models.auth import digest
from cofio.models.diagnostics import Doctor
from cofio.models.memory import MAX_LABEL, to_utc_iso
from cofio.ports import Clock, Health, Stoppable
from cofio.server import service_key
from cofio.server.background.inbox_worker import InboxWorker
from cofio.server.background.notes_watcher import NotesWatcher
from cofio.server.background.scheduler import Scheduler
from cofio.server.http import auth, decoding, docs, openapi
from cofio.server.http.context import AppState, CachedProbe, RequestContext, summarize_response
from cofio.server.http.event_stream import EventBroadcaster
from cofio.server.http.key_cache import FailedAuthLimiter, KeyCache, Ticks
from cofio.server.http.metrics import Metrics
from cofio.server.http.middleware import STRANGER, RequestMiddleware
from cofio.server.http.operations import Pool, Route
from cofio.server.http.page_sessions import PageSessions
from cofio.server.http.peer import Peer, is_loopback
from cofio.server.http.responses import HandlerReply, refusal, to_response
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
    state = _build_state(keeper, settings, doctor, PageSessions(ticks))
    scheduler = Scheduler(keeper, settings.schedules, clock)
    notes_watcher = NotesWatcher(keeper, settings.notes_followed, every=settings.notes_poll_seconds)
    # If COFIO_API_KEY is set to a key of the store, it keeps that key's role and does not act as the owner's key.
    is_store_key = bool(settings.api_key) and keeper.services.keys.find(digest(settings.api_key)) is not None
    authenticator = auth.Authenticator(
        settings,
        KeyCache(keeper, ticks),
        FailedAuthLimiter(ticks),
        clock,
        keeper.services.keys.record,
        is_store_key,
        service_key.load_or_create(settings.home),
        state.page_sessions,
    )
    service = _Service(state, authenticator, settings.max_body, clock)
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

    routes = [routing.Route(endpoint.path, endpoint) for endpoint in _build_endpoints(service)]
    app = Starlette(routes=routes, middleware=[Middleware(RequestMiddleware, state.metrics)], lifespan=lifespan)
    app.state.ending = state.news.end
    app.router.redirect_slashes = False
    app.router.default = Endpoint("", {}, service)
    return app


def _build_state(keeper: Keeper, settings: Settings, doctor: Doctor | None, page_sessions: PageSessions) -> AppState:
    metrics = Metrics()
    keeper.on_learned(metrics.learned)
    keeper.on_injected(metrics.injected)
    sessions = SessionHandler(
        keeper,
        settings.home,
        codex_home=Path(settings.codex_home or "~/.codex").expanduser(),
        patience=max(settings.hook_recall_timeout_ms / 2, settings.hook_recall_timeout_ms - 300)
        / 1000,  # how long a hook waits
        is_mine=lambda: not endpoint_file.is_others(settings.home, settings.store_name),
    )
    upstream, problem = None, ""
    if settings.chat_upstream_url.strip():
        try:
            upstream = Upstream(settings.chat_upstream_url, settings.chat_upstream_key, settings.chat_upstream_timeout)
        except Misconfigured as error:  # reported to chat requests only
            problem = str(error)
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
        # Built on first use: the document takes 0.1 s and is rarely requested.
        cache(lambda: HandlerReply(json.encode(openapi.document(ROUTES)))),
        cache(lambda: docs.page(ROUTES, openapi.document(ROUTES))),
        upstream=upstream,
        upstream_problem=problem,
        schedules=settings.schedules,
        settings=settings,
        doctor=doctor,
        page_sessions=page_sessions,
    )


class _Service:
    """Dependencies shared by all endpoints, with the limits of handlers and streams by pool."""

    def __init__(self, state: AppState, authenticator: auth.Authenticator, max_body: int, clock: Clock) -> None:
        self.state, self.authenticator, self.max_body, self.clock = state, authenticator, max_body, clock
        processors = max(2, os.cpu_count() or 2)
        default = CapacityLimiter(WORKERS)
        self.threads = {
            Pool.DEFAULT: default,
            Pool.RESERVED: CapacityLimiter(_RESERVED_THREADS),
            Pool.CPU: CapacityLimiter(processors),
            Pool.HALF_CPU: CapacityLimiter(processors // 2),
            Pool.AGENT: CapacityLimiter(_AGENT_THREADS),
            Pool.EXPORT: default,
            Pool.EVENTS: default,
        }
        self.streams = {  # each has its own thread
            Pool.DEFAULT: StreamLimit(RELAYS, "chats"),  # requests that wait for an upstream
            Pool.EXPORT: StreamLimit(EXPORTS, "exports"),  # each holds a snapshot of the store while it is read
            Pool.EVENTS: StreamLimit(WATCHERS, "event streams"),
        }


class Endpoint:
    """Endpoint: one path with its methods. Admits the request and runs the handler in a thread.

    Without methods, it answers requests of unknown paths.
    """

    def __init__(
        self,
        path: str,
        methods: Mapping[str, Route],
        service: _Service,
        named: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.path = path
        self._methods = methods
        self._service = service
        self._named = named  # row names that a fixed path stands for, if it could also name a row

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = await self._respond(Request(scope, receive))
        await reply(scope, receive, send)

    async def _respond(self, request: Request) -> ASGIApp:
        service, headers = self._service, request.headers
        route = self._methods.get("GET" if request.method == "HEAD" else request.method)
        service.authenticator.admit(headers, browser=route is not None and route.browser)

        peer = Peer.of_request(request.scope)
        act = f"{request.method[:10]} {self.path or 'nowhere'}"
        access = await service.authenticator.identify(headers, peer, act)
        await service.authenticator.check_access(route, access, peer, act)
        if access.key:
            service.state.keeper.services.keys.record_use(access.key, service.clock())
        request.scope[STRANGER] = access.viewer is not None or access.auth == "missing"

        if route is None:
            return self._refuse_method(request.method)
        context = self._make_context(request, access, peer.address)
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        if route.query_only and has_body:
            raise InvalidInput(f"{route.path} accepts no body.", "Send the fields in the query string.")
        body = await auth.read_body(request, service.max_body) if route.has_body else b""
        limiter = service.threads[route.pool]
        return await to_thread.run_sync(self._run_handler, route, request, body, context, limiter=limiter)

    def _refuse_method(self, method: str) -> Response:
        if not self._methods:
            return refusal(NotFound("The service has no such path.", "GET /docs shows every route."))
        # A fixed word that is also a row's name has the row's methods too; they are documented with the row.
        allowed = ", ".join(name for name, route in self._methods.items() if route.path == self.path)
        error = InvalidInput(f"{self.path} does not accept {method}.", f"Use {allowed}.")
        return refusal(error, 405, {"Allow": allowed})

    def _make_context(self, request: Request, access: auth.AuthResult, address: str) -> RequestContext:
        headers, names = request.headers, {"id": "0", **self._named, **request.path_params}  # no object has the id 0
        if not re.fullmatch(r"[0-9]{1,18}", names["id"]):
            kind = next((name for start, name in _THINGS.items() if self.path.startswith(start)), "memory")
            hint = "An id is a positive integer, as returned in replies."
            raise NotFound(f"There is no {kind} {names['id'][:40]!r}.", hint)
        is_forwarded = any(name in headers for name in ("forwarded", "x-forwarded-for", "x-real-ip"))
        at = ""  # now
        with suppress(KeyError, InvalidInput):
            at = to_utc_iso(headers["x-cofio-at"])
        project = unquote(headers.get("x-cofio-project", ""), errors="ignore").replace("\x00", "").strip()
        return RequestContext(
            by=auth.caller(headers, access.key),
            auth=access.auth,
            id=int(names["id"]),
            table=names.get("table", ""),
            row=names.get("row", ""),
            file=names.get("file", ""),
            project=project[:MAX_LABEL],
            local=is_loopback(address) and not is_forwarded,  # a proxy here does not make callers local
            at=at,
            viewer=access.viewer,
            role=access.role,
            key=access.key,
            address=address,
            holder=access.holder,
            headers=headers,
        )

    def _run_handler(self, route: Route, request: Request, body: bytes, context: RequestContext) -> ASGIApp:
        """Read, handle and write, all off the event loop."""
        service, state = self._service, self._service.state
        payload = _decode_input(route, request, body)
        path = route.path.replace("{id}", str(context.id)).replace("{table}", context.table)
        act = f"{route.method} {path}"
        try:
            reply = route.handler(state.for_caller(context), payload, context)
        except Forbidden as error:
            state.audit(context, act, "refused", error.message, service.clock())
            raise

        content = reply.content if isinstance(reply, HandlerReply) else reply
        fields = content if isinstance(content, dict) else {}
        if route.writes_audit and not fields.get("dry_run"):
            state.audit(context, act, "done", summarize_response(fields), service.clock())
        if isinstance(content, dict | bytes):
            return to_response(reply)
        return StreamResponse(content, service.streams.get(route.pool, service.streams[Pool.DEFAULT]))


def _build_endpoints(service: _Service) -> Iterator[Endpoint]:
    """Yield the endpoints, fixed paths before those with an id, so that none hides another.

    A fixed word may also be a row's name, and then accepts a row's methods.
    """
    methods: dict[str, dict[str, Route]] = {}
    for route in sorted(ROUTES, key=lambda route: "{" in route.path):
        methods.setdefault(route.path, {})[route.method] = route
    row_patterns = {path: re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path) for path in methods if "{row}" in path}
    for path, allowed in methods.items():
        names: dict[str, str] = {}
        for row_path, pattern in row_patterns.items():
            if "{" not in path and (match := re.fullmatch(pattern, path)):
                names, allowed = match.groupdict(), {**methods[row_path], **allowed}
        yield Endpoint(path, allowed, service, names)


def _decode_input(route: Route, request: Request, body: bytes) -> object:
    decoding.check_values(body)
    content_type = request.headers.get("content-type", "")
    if route.raw:
        decoding.check_content_type(content_type)
        return body
    query: bytes = request.scope["query_string"]
    if route.request is None:
        if query and not route.public:
            raise InvalidInput(f"{route.path} accepts no query string.", "Remove it.")
        return None
    if not route.has_body:
        return decoding.of_query(query, route.request)
    if query:
        raise InvalidInput(f"{route.path} accepts no query string.", "Send the fields in the body, as JSON.")
    return decoding.of_body(body, content_type, route.request)
