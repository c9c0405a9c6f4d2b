"""Many threads, one transaction: whoever has the turn writes what all of them have brought meanwhile.

A commit that survives a power cut waits for the disk. When thirty callers come at once, they wait for it together. No
thread stands behind this: the first to come writes for everybody, and the others find theirs done.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from cofio.errors import CofioError, StoreBusy, StoreError
from cofio.stores.file import StoreFile

Brought = TypeVar("Brought")
Answer = TypeVar("Answer")


class Gather(Generic[Brought, Answer]):
    """Call it with what is to be written; it returns once that is committed.

    `write` answers what one caller brought. Before it has written any of it, it may refuse with an error of ours, which
    is for this caller alone. Whatever else goes wrong undoes the transaction, and everybody in it tries again alone.
    """

    def __init__(self, file: StoreFile, write: Callable[[sqlite3.Connection, Brought], Answer]) -> None:
        self._file = file
        self._write = write
        self._waiting: deque[_Waiting[Brought, Answer]] = deque()
        self._writing: _Waiting[Brought, Answer] | None = None  # whose turn it is
        self._changed = threading.Condition()

    def __call__(self, brought: Brought) -> Answer:
        mine: _Waiting[Brought, Answer] = _Waiting(brought)
        self._waiting.append(mine)
        try:
            while self._has_the_turn(mine):
                self._transact(mine)
                self._pass_on()
        finally:
            if self._writing is mine:  # an interrupt may come as soon as the turn is ours
                self._pass_on()
        if isinstance(mine.outcome, CofioError):
            raise mine.outcome
        assert mine.outcome is not None  # or the turn would have been mine
        return mine.outcome

    def _has_the_turn(self, mine: _Waiting[Brought, Answer]) -> bool:
        """Wait until there is an outcome; True when it is this caller's turn before that."""
        with self._changed:
            while mine.outcome is None:
                if self._writing is None:
                    self._writing = mine
                    return True
                self._changed.wait()
        return False

    def _pass_on(self) -> None:
        with self._changed:
            self._writing = None
            self._changed.notify_all()

    def _transact(self, mine: _Waiting[Brought, Answer]) -> None:
        """Write what is waiting, mine with it; mine alone where that has failed before."""
        together = [mine] if mine.taken else []
        try:
            with self._file.writing() as connection:
                together = together or self._take()  # only now: whoever came during the wait shares the commit
                outcomes = [self._outcome(connection, each.brought) for each in together]
        except StoreError as error:
            _tell(together or self._take(), error)
        else:
            for each, outcome in zip(together, outcomes, strict=True):
                each.outcome = outcome

    def _outcome(self, connection: sqlite3.Connection, brought: Brought) -> Answer | CofioError:
        try:
            return self._write(connection, brought)
        except CofioError as refusal:
            return refusal

    def _take(self) -> list[_Waiting[Brought, Answer]]:
        taken = [self._waiting.popleft() for _ in range(len(self._waiting))]  # nobody else takes: the turn is ours
        for each in taken:
            each.taken = True
        return taken


class _Waiting(Generic[Brought, Answer]):
    """What one caller brought, and what came of it."""

    __slots__ = ("brought", "outcome", "taken")

    def __init__(self, brought: Brought) -> None:
        self.brought = brought
        self.taken = False  # into a transaction; when that fails, the next one is its own
        self.outcome: Answer | CofioError | None = None


def _tell(together: Sequence[_Waiting[Brought, Answer]], error: StoreError) -> None:
    """Whoever was alone gets the error; all get it when no turn came, for one by one they would wait for minutes."""
    if len(together) == 1 or isinstance(error, StoreBusy):
        for each in together:
            each.outcome = type(error)(error.message, error.hint)  # one each: threads do not share a traceback
            each.outcome.__cause__ = error
