"""Streaming replies, passed on in chunks while the client is connected.

A model may think for minutes. Streams have their own threads, so that they take none from other requests; when the
client disconnects, the wait ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from anyio import CancelScope, CapacityLimiter, WouldBlock, create_task_group, move_on_after, to_thread
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from cofio.errors import CofioError, TooBusy
from cofio.server.http.responses import StreamBody, refusal, to_response

RELAYS = 64  # at once; further ones are refused with a hint to retry
EXPORTS = 4  # at once: each holds a connection to the store until its reader is done
WATCHERS = 64  # at once: one per open page
PATIENCE = 60.0  # seconds that a client may read nothing of what is sent
_Result = TypeVar("_Result")


class StreamLimit:
    """Limit on concurrent streams of a kind."""

    def __init__(self, most: int, what: str) -> None:
        self._most, self._what = most, what
        self._limiter = CapacityLimiter(most)

    @contextmanager
    def admitted(self, whom: object) -> Iterator[None]:
        """Hold a place. TooBusy if it is full."""
        try:
            self._limiter.acquire_on_behalf_of_nowait(whom)
        except WouldBlock:
            raise TooBusy(f"{self._most} {self._what} are already running.", "Retry in a few seconds.") from None
        try:
            yield
        finally:
            self._limiter.release_on_behalf_of(whom)


class StreamResponse:
    """Stream as an ASGI reply."""

    def __init__(self, relay: StreamBody, limit: StreamLimit) -> None:
        self._relay = relay
        self._limit = limit
        self._thread = CapacityLimiter(1)  # not shared with other replies
        self._begun = self._ended = self._gone = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._limit.admitted(self):
            try:
                async with create_task_group() as tasks:
                    tasks.start_soon(self._watch, receive)
                    await self._pass_on(scope, receive, send)
                    tasks.cancel_scope.cancel()
            finally:
                self._relay.stop()
                with CancelScope(shield=True):  # release resources even if cancelled
                    await self._run_in_thread(self._relay.done)
        if self._gone and not self._begun:
            raise ClientDisconnect

    async def _watch(self, receive: Receive) -> None:
        """Stop the stream when the client disconnects."""
        while not self._ended:
            if (await receive())["type"] == "http.disconnect" and not self._ended:
                self._gone = True
                self._relay.stop()
                return

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            head = await self._run_in_thread(self._relay.head)
        except CofioError as error:
            if not self._gone:
                await refusal(error, path=scope["path"])(scope, receive, send)
            return
        if self._gone:
            return
        self._begun = True
        if head.content:
            self._ended = True  # from here on the client may disconnect
            await to_response(head)(scope, receive, send)
            return

        headers = [(name, value) for name, value in to_response(head).raw_headers if name != b"content-length"]
        await send({"type": "http.response.start", "status": head.status, "headers": headers})
        only_head = scope["method"] == "HEAD"
        while not only_head and not self._gone and (part := await self._run_in_thread(self._relay.part)):
            with move_on_after(PATIENCE) as waiting:
                await send({"type": "http.response.body", "body": part, "more_body": True})
            if waiting.cancelled_caught:  # connected, but not reading
                return
        self._ended = True
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _run_in_thread(self, call: Callable[[], _Result]) -> _Result:
        return await to_thread.run_sync(call, limiter=self._thread)
