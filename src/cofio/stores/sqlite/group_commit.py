"""Group commit: one thread writes, in one transaction, what several threads have submitted meanwhile.

A commit that survives a power cut waits for the disk. Thirty concurrent callers share one commit and wait once. There
is no background thread: the first caller writes for all, and the others find their results ready.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from cofio.errors import CofioError, StoreBusy, StoreError
from cofio.stores.sqlite.connection import SqliteConnection, StoreFile

Brought = TypeVar("Brought")
Answer = TypeVar("Answer")


class GroupCommit(Generic[Brought, Answer]):
    """Callable that submits a value and returns once it is committed.

    `write` returns the result for one value. Before it has written anything, it may raise a CofioError, which goes to
    this caller only. Any other error rolls back the transaction, and each of its callers retries alone.
    """

    def __init__(self, file: StoreFile, write: Callable[[SqliteConnection, Brought], Answer]) -> None:
        self._file = file
        self._write = write
        self._waiting: deque[_PendingWrite[Brought, Answer]] = deque()
        self._writing: _PendingWrite[Brought, Answer] | None = None  # the caller that is writing
        self._changed = threading.Condition()

    def __call__(self, brought: Brought) -> Answer:
        own_write: _PendingWrite[Brought, Answer] = _PendingWrite(brought)
        self._waiting.append(own_write)
        try:
            while self._has_the_turn(own_write):
                self._transact(own_write)
                self._pass_on()
        finally:
            if self._writing is own_write:  # an interrupt may arrive as soon as this caller is the writer
                self._pass_on()
        if isinstance(own_write.outcome, CofioError):
            raise own_write.outcome
        assert own_write.outcome is not None  # otherwise this caller would have become the writer
        return own_write.outcome

    def _has_the_turn(self, own_write: _PendingWrite[Brought, Answer]) -> bool:
        """Wait for an outcome; return True if this caller becomes the writer first."""
        with self._changed:
            while own_write.outcome is None:
                if self._writing is None:
                    self._writing = own_write
                    return True
                self._changed.wait()
        return False

    def _pass_on(self) -> None:
        with self._changed:
            self._writing = None
            self._changed.notify_all()

    def _transact(self, own_write: _PendingWrite[Brought, Answer]) -> None:
        """Write all waiting values, or only this caller's if its first transaction failed."""
        batch = [own_write] if own_write.taken else []
        try:
            with self._file.writing() as connection:
                batch = batch or self._take()  # after the lock: callers that came meanwhile share the commit
                outcomes = [self._outcome(connection, write.brought) for write in batch]
        except StoreError as error:
            _tell(batch or self._take(), error)
        else:
            for write, outcome in zip(batch, outcomes, strict=True):
                write.outcome = outcome

    def _outcome(self, connection: SqliteConnection, brought: Brought) -> Answer | CofioError:
        try:
            return self._write(connection, brought)
        except CofioError as refusal:
            return refusal

    def _take(self) -> list[_PendingWrite[Brought, Answer]]:
        batch = [self._waiting.popleft() for _ in range(len(self._waiting))]  # only the writer takes
        for write in batch:
            write.taken = True
        return batch


@dataclass(slots=True, eq=False)
class _PendingWrite(Generic[Brought, Answer]):
    """Value submitted by one caller, and its outcome."""

    brought: Brought
    taken: bool = False  # into a transaction; if that fails, the next one is its own
    outcome: Answer | CofioError | None = None


def _tell(batch: Sequence[_PendingWrite[Brought, Answer]], error: StoreError) -> None:
    """Give the error to a caller that was alone; to all if the store is busy, as retries would wait for minutes."""
    if len(batch) == 1 or isinstance(error, StoreBusy):
        for write in batch:
            write.outcome = type(error)(error.message, error.hint)  # one each: threads do not share a traceback
            write.outcome.__cause__ = error
