"""Markdown as memory, for whoever keeps it: `keeper.notes`.

    summary, tags ─ flush ─▶ a file, and the memory that it says
    folder ─ files that changed ─ parts ─▶ decisions ─ keeper.apply ─▶ memories that follow the files
    memories ─ export ─▶ a vault: a note each, which can be edited and read in again

The steps of `markdown` decide; this reads and writes files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cofio.model import Change
from cofio.notes import Indexed


class Noting:
    """The Markdown side of a keeper."""

    def flush(self, summary: str, tags: Sequence[str] = (), *, by: str = "library", **about: Any) -> Change:
        """Write the summary to `YYYY-MM-DD-HH-<id8>.md` in the notes folder, and remember it as `file:<name>`."""
        raise NotImplementedError

    def index(
        self, folder: Path | str | None = None, *, label: str = "", dry_run: bool = False, by: str = "library"
    ) -> Indexed:
        """Have the memories of a folder (default: the notes folder) follow its files: new, edited, moved, deleted."""
        raise NotImplementedError

    def export(self, folder: Path | str, **within: Any) -> int:
        """Write the memories of a scope into a vault, a note each; how many. `index` reads edits of them back."""
        raise NotImplementedError
