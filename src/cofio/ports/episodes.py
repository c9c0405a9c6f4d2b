"""Protocol of the index of captured turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from cofio.models.episodes import Episode, EpisodeCounts, ExportedEpisode, Passage
from cofio.models.memory import Candidate, Matching, Scope, Viewer
from cofio.models.sessions import AgentSession
from cofio.ports.values import Vector


class EpisodeIndex(Protocol):
    """Captured turns, searchable in passages. Derived from the inbox; not journalled.

    A capture has to be indexed when it arrives, and again whenever its words change.
    """

    def unindexed(self, limit: int) -> list[int]:
        """Return captures to be indexed, oldest first; without pending ones that were not tried yet."""

    def index(self, capture: int) -> int | None:
        """Index the current text of a capture as an episode, replacing what was indexed of it before.

        Parts of one turn of a session become one episode. Return its id; None if there is nothing to index.
        """

    def get(self, ids: Sequence[int]) -> list[Episode]:
        """Return the episodes with these ids, in the order asked; pass over unknown ids."""

    def passages(self, ids: Sequence[int]) -> list[Passage]:
        """Return the passages with these ids, in the order asked; pass over unknown ids."""

    def of_memory(self, memory_id: int) -> int | None:
        """Return the episode of the first capture that led to this memory, if there is one."""

    def sessions(
        self,
        limit: int,
        *,
        client: str = "",
        project: str | None = None,
        prefix: str = "",
        since: str = "",
        viewer: Viewer | None = None,
        own: Viewer | None = None,
    ) -> list[AgentSession]:
        """Return sessions by their last turn, newest first, as far as the viewer may see their turns.

        Filters: `client`; `project`, with a turn in this project (its path, or the name of its folder); `prefix`, the
        beginning of the session id; `since`, with a turn from then on; `own`, only sessions of this viewer. Captures
        that are not indexed yet count too.
        """

    def turns(
        self, session: AgentSession, limit: int, *, summaries: bool = False, viewer: Viewer | None = None
    ) -> list[Episode]:
        """Return the newest turns of a session, or its compaction summaries, oldest first; id 0 until it is indexed."""

    def changesets(self, session: AgentSession, limit: int) -> list[int]:
        """Return the changesets that the newest captures of a session led to, oldest first."""

    def injected(self, session: AgentSession) -> list[int]:
        """Return the memories recorded as given to a session, oldest first.

        Return none if another owner has a session of this id with the client, because the records do not tell them
        apart.
        """

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        """Return the k passages of the scope with the highest cosine, as `Store.nearest` does for memories."""

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        """Return the k passages of the scope with the highest BM25, as `Store.matching` does for memories."""

    def unembedded(self, limit: int) -> list[Passage]:
        """Return passages that have no vector yet, newest first."""

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        """Store vectors of passages that have none."""

    def damaged_vectors(self) -> list[int]:
        """Read every vector; return the passages whose vector cannot be used. Searches pass over such vectors."""

    def drop_damaged_vectors(self) -> int:
        """Delete damaged vectors, so that they are computed again; return their number."""

    def remove(self, ids: Sequence[int]) -> int:
        """Erase episodes permanently, with the words of their captures; return how many.

        Raise Conflict, and erase nothing, while one of the captures is still open.
        """

    def forget(self, before: str, most_bytes: int) -> int:
        """Remove episodes from before this time and the oldest beyond `most_bytes` of text and vectors.

        Return how many.
        """

    def adopt(self, episodes: Sequence[ExportedEpisode]) -> None:
        """Store episodes of another store under their own ids, replacing those with the same ids."""

    def counts(self) -> EpisodeCounts:
        """Count episodes, passages, vectors, bytes, and captures left to index."""
