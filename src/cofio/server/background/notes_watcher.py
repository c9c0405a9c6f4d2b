"""Thread that syncs memories with Markdown folders and computes missing vectors.

    folder ─ keeper.notes.look ─▶ stamps ─ unchanged since the last look ─▶ keeper.notes.index ─▶ Indexed

Folders are polled rather than watched: that works on network mounts and in containers too, needs no library, and costs
one stat per file. A file is read once two consecutive looks agree; likewise a deleted file must stay away. Files still
being written keep their last indexed content.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cofio.core import Keeper
from cofio.errors import CofioError
from cofio.models.markdown_notes import IndexResult, Stamp

EVERY = 5.0  # seconds between two polls of the folders
_FILL = 60.0  # seconds between two checks for memories without a vector
_FILL_BATCH = 256  # vectors computed per batch; searches run in between
_SHORT_PAUSE = 0.05  # seconds between two batches
_FOLDER_AGAIN = 60.0  # longest delay in seconds until an unreadable folder is tried again
_EMBEDDER_AGAIN = 600.0  # the same for the embedder, whose calls may cost money
_log = logging.getLogger(__name__)


class NotesWatcher:
    """Background sync of folders. `on_sync` receives every sync that changed something; `every` = 0 disables polling.

    Even without folders, it embeds every memory without a vector once the embedder works again.
    """

    def __init__(
        self,
        keeper: Keeper,
        folders: Iterable[Path] = (),
        *,
        every: float = EVERY,
        on_sync: Callable[[IndexResult], None] = lambda _: None,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keeper = keeper
        self._on_sync = on_sync
        self._poll_pause = _Pause(every, every, ticks)
        self._fill_pause = _Pause(_FILL, _EMBEDDER_AGAIN, ticks)
        self._fill_pause.begin()  # wait first: the start of the service has priority
        self._watches = [
            _WatchedFolder(folder, _Pause(every, _FOLDER_AGAIN, ticks)) for folder in dict.fromkeys(folders) if every
        ]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self.run, name="cofio-notes", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, patience: float = 5.0) -> None:
        """Stop between two folders or two batches. One that takes longer than `patience` seconds is left."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(patience)

    def run(self) -> None:
        """Poll until stopped."""
        while not self._stopping.is_set():
            if self._watches and self._poll_pause.is_over:
                self.tick()
                self._poll_pause.begin()
            if self._fill_pause.is_over and not self._stopping.is_set():
                self.fill()
            due = (self._poll_pause.left, self._fill_pause.left) if self._watches else (self._fill_pause.left,)
            self._stopping.wait(max(_SHORT_PAUSE, min(due)))

    # ── folders ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def tick(self) -> list[IndexResult]:
        """Poll every folder once; return the syncs that changed something. A failing folder does not stop others."""
        results = []
        for watch in self._watches:
            if self._stopping.is_set():
                break
            if not watch.pause.is_over:
                continue
            try:
                result = self._sync_folder(watch)
                problem = ""
            except CofioError as error:
                result, problem = None, str(error)
            except Exception as error:  # noqa: BLE001 - the thread survives any error
                _log.exception("unexpected error while reading the notes folder %s", watch.folder)
                result, problem = None, repr(error)
            results += [result] if result else []

            if problem and problem != watch.problem:  # logged once
                text = "changes in the notes folder %s are not read until it is available again: %s"
                _log.warning(text, watch.folder, problem)
            elif watch.problem and not problem:
                _log.info("changes in the notes folder %s are read again", watch.folder)
            watch.problem = problem
            if problem:
                watch.pause.failed()
            else:
                watch.pause.begin()  # reset the back-off
                watch.pause.end()
        return results

    def _sync_folder(self, watch: _WatchedFolder) -> IndexResult | None:
        """Sync memories with files that are stable; return None if nothing changes."""
        stamps = self._keeper.notes.look(watch.folder)
        before, watch.last_look = watch.last_look, stamps
        moving = set(stamps)  # files that are new, deleted or changed since the last look
        if before is not None:
            moving = {path for path in {*before, *stamps} if before.get(path) != stamps.get(path)}
        if not stamps and watch.device != watch.folder.stat().st_dev:
            return None
        if all(watch.read.get(path) == stamps.get(path) for path in {*watch.read, *stamps} - moving):
            return None

        result = self._keeper.notes.index(watch.folder, but=moving, by="notes", halted=self._stopping.is_set)
        previous = {path: stamp for path, stamp in watch.read.items() if path in moving}
        watch.read = {**{path: stamp for path, stamp in stamps.items() if path not in moving}, **previous}
        watch.device = watch.folder.stat().st_dev
        if result.changeset is None:
            return None
        counts = (result.added, result.updated, result.archived)
        _log.info("notes folder %s: %d memories added, %d updated, %d archived", watch.folder, *counts)
        self._on_sync(result)
        self._fill_pause.end()  # memories written without a vector need not wait long
        return result

    # ── vectors ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def fill(self) -> int:
        """Compute a batch of missing vectors; return their number. If there are more, the next batch follows soon."""
        try:
            count = self._keeper.embed_missing(most=_FILL_BATCH)
        except CofioError as error:
            if self._fill_pause.failed():
                _log.warning("memories are stored without vectors until the embedder works: %s", error)
            return 0
        except Exception:  # noqa: BLE001 - the thread survives any error
            _log.exception("unexpected error while computing missing vectors")
            self._fill_pause.failed()
            return 0
        self._fill_pause.begin()
        if count:
            _log.info("%d missing vectors computed", count)
        if count == _FILL_BATCH:
            self._fill_pause.end()
        return count


@dataclass(slots=True)
class _WatchedFolder:
    """Followed folder: its state at the last look, and when last read."""

    folder: Path
    pause: _Pause
    last_look: Mapping[str, Stamp] | None = None
    read: dict[str, Stamp] = field(default_factory=dict)
    device: int | None = None  # of the files read; an empty folder on another device is an unmounted disk
    problem: str = ""


class _Pause:
    """Polling interval with exponential back-off up to a limit after repeated failures."""

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
        """Start the normal interval."""
        self._failures = 0
        self._until = self._ticks() + self._usual

    def end(self) -> None:
        """End the interval now."""
        self._until = self._ticks()

    def failed(self) -> bool:
        """Lengthen the interval; return whether this was the first failure in a row."""
        self._failures += 1
        self._until = self._ticks() + min(self._longest, self._usual * 2.0 ** min(self._failures, 20))
        return self._failures == 1
