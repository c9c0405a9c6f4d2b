"""Protocol of the tables of domain knowledge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from cofio.models.domain_knowledge import Knowledge, KnowledgeChange, Table
from cofio.models.memory import Viewer


class KnowledgeTables(Protocol):
    """Read access to the tables of domain knowledge. They are written by `Store.apply`.

    With a viewer, rows that the viewer may not see are left out (`models.knowledge.sees`).
    """

    def get(self, table: Table, keys: Sequence[str], *, viewer: Viewer | None = None) -> list[Knowledge]:
        """Return the rows with these ids, in the order asked; unknown ids are skipped."""

    def rows(
        self,
        table: Table,
        *,
        least: float = 0.0,
        where: Mapping[str, Any] = MappingProxyType({}),
        limit: int | None = None,
        after: str | None = None,
        viewer: Viewer | None = None,
    ) -> list[Knowledge]:
        """Return the rows of a table: claims by confidence, highest first, feedback newest first; ties by id.

        `least` is the minimum confidence. `where` maps columns to required values: texts are compared
        case-insensitively, ids and ownership exactly, and the claims that a verdict judges must contain one or several
        values. `after` is the id of the row before the first result. Raise InvalidInput if that row does not exist or a
        value is impossible for its column.
        """

    def naming(self, words: Sequence[str], *, viewer: Viewer | None = None) -> list[Knowledge]:
        """Return the claims with any of these words, folded, in a name (`models.knowledge.named_words`), by
        confidence."""

    def stated_by(self, memories: Sequence[int]) -> list[Knowledge]:
        """Return the claims that these memories express in words."""

    def history(self, table: Table, key: str) -> list[KnowledgeChange]:
        """Return every change of the row, oldest first. Raise NotFound if it never existed."""

    def counts(self, *, viewer: Viewer | None = None) -> dict[str, int]:
        """Return the number of rows of each table."""
