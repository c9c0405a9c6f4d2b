"""The librarian: has memories follow folders of Markdown, and makes missing vectors, in a thread of its own.

    folder ─ keeper.notes.look ─▶ stamps ─ rested since the last look ─▶ keeper.notes.index ─▶ Indexed

It looks again and again instead of being told: that works on network mounts and in containers too, needs no library,
and costs a stat a file. A file is read once it has rested, that is, looked the same twice; likewise one that is gone
has to stay away. What is still being written is left as it was read last.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from cofio.errors import CofioError
from cofio.keeper import Keeper
from cofio.notes import Indexed, Stamp

EVERY = 5.0  # seconds between two looks at the folders
_FILL = 60.0  # seconds between two looks for memories without a vector
_FILLED = 256  # vectors made at a time; whoever searches comes in between
_BREATH = 0.05  # seconds, then
_FOLDER_AGAIN = 60.0  # seconds at most until a folder that cannot be read is tried again
_EMBEDDER_AGAIN = 600.0  # and the embedder, which may be paid for
_log = logging.getLogger(__name__)


class Librarian:
    """Follows folders. `told` hears of every reading that changed something; with `every` 0 none is looked at.

    Folder or none, it sees to it that every memory gets its vector once the embedder works again.
    """

    def __init__(
        self,
        keeper: Keeper,
        folders: Iterable[Path] = (),
        *,
        every: float = EVERY,
        told: Callable[[Indexed], None] = lambda _: None,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keeper = keeper
        self._told = told
        self._looking = _Pause(every, every, ticks)
        self._filling = _Pause(_FILL, _EMBEDDER_AGAIN, ticks)
        self._filling.begin()  # whoever starts the service has better things to wait for
        self._shelves = [_Shelf(each, _Pause(every, _FOLDER_AGAIN, ticks)) for each in dict.fromkeys(folders) if every]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self.run, name="cofio-librarian", daemon=True)

    def start(self) -> None:
        """Begin to look, in a thread."""
        self._thread.start()

    def stop(self, patience: float = 5.0) -> None:
        """End, between two folders or two batches. One that takes longer than `patience` seconds is left."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(patience)

    def run(self) -> None:
        """Look until it is stopped."""
        while not self._stopping.is_set():
            if self._shelves and self._looking.is_over:
                self.tick()
                self._looking.begin()
            if self._filling.is_over and not self._stopping.is_set():
                self.fill()
            due = (self._looking.left, self._filling.left) if self._shelves else (self._filling.left,)
            self._stopping.wait(max(_BREATH, min(due)))

    # ── folders ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def tick(self) -> list[Indexed]:
        """Look at every folder once; the readings that changed something. What goes wrong with one hinders no other."""
        done = []
        for shelf in self._shelves:
            if self._stopping.is_set():
                break
            if not shelf.pause.is_over:
                continue
            try:
                read = self._followed(shelf)
            except CofioError as error:
                shelf.failed(str(error))
            except Exception as error:  # noqa: BLE001 - the librarian outlives whatever goes wrong once
                _log.exception("the librarian stumbled over %s", shelf.folder)
                shelf.failed(repr(error))
            else:
                shelf.worked()
                done += [read] if read else []
        return done

    def _followed(self, shelf: _Shelf) -> Indexed | None:
        """Have the memories follow what has rested; None where that changes nothing."""
        found = self._keeper.notes.look(shelf.folder)
        moving = shelf.moving(found)
        if not shelf.has_news(found, moving):
            return None
        read = self._keeper.notes.index(shelf.folder, but=moving, by="librarian", halted=self._stopping.is_set)
        shelf.was_read(found, moving)
        if read.changeset is None:
            return None
        _log.info("%s: %d added, %d updated, %d archived", shelf.folder, read.added, read.updated, read.archived)
        self._told(read)
        self._filling.end()  # what came without its vector need not wait long for it
        return read

    # ── vectors ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def fill(self) -> int:
        """Make a batch of the vectors that are missing; how many. More are made in a moment where there are more."""
        try:
            made = self._keeper.embed_missing(most=_FILLED)
        except CofioError as error:
            if self._filling.failed():
                _log.warning("memories wait for their vectors: %s", error)
            return 0
        except Exception:  # noqa: BLE001 - the librarian outlives whatever goes wrong once
            _log.exception("the librarian stumbled over missing vectors")
            self._filling.failed()
            return 0
        self._filling.begin()
        if made:
            _log.info("%d missing vectors were made", made)
        if made == _FILLED:
            self._filling.end()
        return made


class _Shelf:
    """A folder that is followed: how it looked the last time, and how it was when it was read."""

    def __init__(self, folder: Path, pause: _Pause) -> None:
        self.folder = folder
        self.pause = pause
        self._looked: Mapping[str, Stamp] | None = None
        self._read: dict[str, Stamp] = {}
        self._device: int | None = None  # where files were read; an empty folder elsewhere is a disk not mounted
        self._problem = ""

    def moving(self, found: Mapping[str, Stamp]) -> set[str]:
        """What is not as it was at the last look, come or gone or changed; at the first look, all of it."""
        before, self._looked = self._looked, found
        if before is None:
            return set(found)
        return {path for path in {*before, *found} if before.get(path) != found.get(path)}

    def has_news(self, found: Mapping[str, Stamp], moving: set[str]) -> bool:
        """Whether anything that rests is not as it was read."""
        if not found and self._device != self.folder.stat().st_dev:
            return False
        return any(self._read.get(path) != found.get(path) for path in {*self._read, *found} - moving)

    def was_read(self, found: Mapping[str, Stamp], moving: set[str]) -> None:
        """Note how it was when it was read; what moved is as it was before."""
        kept = {path: stamp for path, stamp in self._read.items() if path in moving}
        self._read = {**{path: stamp for path, stamp in found.items() if path not in moving}, **kept}
        self._device = self.folder.stat().st_dev

    def failed(self, problem: str) -> None:
        """Leave it alone for a while, and say so once."""
        self.pause.failed()
        if problem != self._problem:
            _log.warning("%s is not followed for now: %s", self.folder, problem)
        self._problem = problem

    def worked(self) -> None:
        if self._problem:
            _log.info("%s is followed again", self.folder)
        self._problem = ""
        self.pause.begin()  # the failures are forgotten
        self.pause.end()


class _Pause:
    """How long to wait: as long as usual, and longer and longer, up to a limit, for what keeps failing."""

    def __init__(self, usual: float, longest: float, ticks: Callable[[], float]) -> None:
        self._usual, self._longest, self._ticks = usual, longest, ticks
        self._failures = 0
        self._until = 0.0

    @property
    def left(self) -> float:
        return max(0.0, self._until - self._ticks())

    @property
    def is_over(self) -> bool:
        return self._until <= self._ticks()

    def begin(self) -> None:
        """Wait as long as usual."""
        self._failures = 0
        self._until = self._ticks() + self._usual

    def end(self) -> None:
        """Wait no longer."""
        self._until = self._ticks()

    def failed(self) -> bool:
        """Wait longer than the last time; whether this was the first failure in a row."""
        self._failures += 1
        self._until = self._ticks() + min(self._longest, self._usual * 2.0 ** min(self._failures, 20))
        return self._failures == 1
