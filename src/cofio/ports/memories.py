"""Protocols of memories: journal, look-ups, search, vectors, log of recalls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from cofio.models.exchange import ItemResolution
from cofio.models.memory import Candidate, Change, Changeset, Decision, Matching, Memory, Occurrence, Retrieval, Scope
from cofio.ports.values import Vector

#: Return the outcome of an inbox item, given the changeset that was written for it.
Settles: TypeAlias = Callable[[Changeset], ItemResolution]


class Basis(NamedTuple):
    """State of the store that decisions were made on, and the function that makes them."""

    as_of: int  # the newest changeset before anything was read
    decide: Callable[[], tuple[Sequence[Decision], Mapping[int, Vector]]]  # reads only; returns vectors as `apply` does


class Journal(Protocol):
    """Changes of memories and domain knowledge: the only way to write them, and their history."""

    def apply(
        self,
        decisions: Sequence[Decision],
        vectors: Mapping[int, Vector],
        *,
        by: str,
        why: str,
        undoes: int | None = None,
        part_of: int | None = None,
        settles: Settles | None = None,
        basis: Basis | None = None,
    ) -> Changeset:
        """Apply all decisions in one transaction, or none. The changes are returned in the order of the decisions.

        Decisions on rows of domain knowledge are applied after those on memories, in the same changeset.

        `part_of` is the first changeset of the series that this one belongs to.

        `settles` returns, given the changeset, the outcome of an inbox item, which is written in the same transaction.
        Raise Conflict if the item was settled by another process.

        `vectors` holds, by the index of a decision, the vector of the text that it adds. An unknown id raises NotFound,
        a Revert of something that has changed since raises Conflict; either leaves the store unchanged.

        With a `basis`, its function decides again inside the transaction if any changeset was written since. So no
        change of another process is overwritten, and no fact is stored that another process has just stored.
        """

    def newest_changeset(self) -> int:
        """Return the id of the newest changeset of any process; 0 if there is none."""

    def history(self, memory_id: int) -> list[Change]:
        """Return every change of this memory, its predecessors and its successors, oldest first."""

    def changeset(self, changeset_id: int) -> Changeset:
        """Return the changeset with its changes. Raise NotFound if it does not exist."""

    def changesets(self, limit: int, *, within: Scope | None = None) -> list[Changeset]:
        """Return the newest changesets without their changes; with a scope, only those that changed a memory of it.

        If the scope narrows by a viewer alone, changesets of domain knowledge are included too if the viewer may see
        the row as it was then, or, where the change removed it, as it had been.
        """


class MemoryQueries(Protocol):
    """Look-ups and listings of memories."""

    def get(self, ids: Sequence[int]) -> list[Memory]:
        """Return the memories with these ids, archived ones too, in the order asked; unknown ids are skipped."""

    def said(self, ids: Sequence[int]) -> dict[int, tuple[str, str]]:
        """Return the speaker and the `created_at` of each of these memories."""

    def has_speakers(self) -> bool:
        """Return whether any memory has a speaker. If not, callers can skip looking for one."""

    def page(self, scope: Scope, *, limit: int, after: int | None = None, skip: int = 0) -> tuple[list[Memory], int]:
        """Return the newest memories of the scope with an id below `after`, and the total number in the scope.

        The first `skip` of them are left out, so that a far page is reached without reading those before it.
        """

    def newest(self, scope: Scope, limit: int) -> list[Memory]:
        """Return the newest memories of the scope. Cheaper than a page, because nothing is counted."""

    def latest(self, scope: Scope, limit: int) -> list[Memory]:
        """Return the latest memories of the scope by `created_at`. Imported memories may be older than their ids."""

    def known(self, text: str, scope: Scope) -> list[int]:
        """Return the ids of the scope's memories with exactly this text, ignoring case and white space."""

    def projects(self, scope: Scope, limit: int, after: str = "") -> list[tuple[str, int]]:
        """Return the projects of the scope's memories after the name `after`, by name, with numbers of memories."""

    def repeated(self, least: int, limit: int, scope: Scope) -> list[tuple[str, int, int]]:
        """Return (agent, memory id, count) of memories of the scope said at least `least` times, most frequent first.

        Memories with the same text count as one. Occurrences without an agent are left out.
        """

    def occurrences(self, memory_id: int) -> list[Occurrence]:
        """Return every occurrence of the memory and of those merged into it, the first one included."""


class MemorySearch(Protocol):
    """Search of memories by vector and by word. Scores are raw."""

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        """Return the k memories of the scope with the highest cosine, best first, then the others of `also`."""

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        """Return the k memories of the scope with the highest BM25 for any of the words, best first.

        A word in the context only has half the weight. In a large store the most common words may be left out. Words
        are literal: there are no operators.
        """

    def holding(self, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        """Return which of the words each of these memories contains, by the rules of `matching`."""

    def pairs(self, threshold: float, scope: Scope) -> Iterator[tuple[int, int, float]]:
        """Yield pairs of the scope's memories with a cosine of at least the threshold: lower id, higher id, cosine."""

    def neighbours(self, ids: Sequence[int], threshold: float, k: int) -> Iterator[tuple[int, list[Candidate]]]:
        """Yield the k nearest among these memories of each of them, with a cosine of at least the threshold.

        Best first. Memories without neighbours are skipped. Uses little memory and CPU time, so that searches stay
        responsive.
        """


class MemoryReader(MemoryQueries, MemorySearch, Protocol):
    """Look-ups, listings and search of memories."""


class MemoryVectors(Protocol):
    """Vectors of memories. Derived; not journalled."""

    def unembedded(self, limit: int, *, among: Sequence[int] | None = None) -> list[Memory]:
        """Return memories that have no vector yet, oldest first; only among these ids, if given."""

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        """Store vectors of memories that have none."""

    def missing_vectors(self) -> int:
        """Return the number of memories without a usable vector, as far as known without reading every vector."""

    def damaged_vectors(self) -> list[int]:
        """Read every vector; return the memories whose vector is not finite, of another length, or not of unit length.

        Searches pass over such vectors.
        """

    def drop_damaged_vectors(self) -> int:
        """Delete damaged vectors, so that they are computed again; return their number."""

    def set_signature(self, signature: str, *, reset: bool = False) -> None:
        """Bind the store to an embedder. Raise EmbedderMismatch if it differs from the stored one;

        `reset` drops old vectors.

        Afterwards, searches and writes raise it too once another process has bound the store to another embedder.
        """


class TokenEmbeddings(Protocol):
    """Token embeddings of memories, for re-ranking. Derived; not journalled.

    They become pending again as soon as the text, speaker or context of their memory changes.
    """

    def set_signature(self, signature: str) -> None:
        """Bind the store to a re-ranking model. If it differs from the stored one, delete all token embeddings."""

    def get(self, ids: Sequence[int], by: str) -> dict[int, bytes]:
        """Return this model's token embeddings of these memories; none if the store is bound to another model.

        Memories without token embeddings are skipped.
        """

    def pending(self, limit: int) -> list[Memory]:
        """Return memories without token embeddings, newest first."""

    def put(self, embeddings: Sequence[tuple[Memory, bytes]], by: str) -> bool:
        """Store the token embeddings of these memories, except of those that have changed meanwhile.

        Return False, and store nothing, if the store was bound to another model meanwhile.
        """

    def counts(self) -> tuple[int, int]:
        """Return the number of memories with token embeddings and without them."""


class RecallLog(Protocol):
    """Log of the memories returned to callers and injected into sessions. Derived; not journalled."""

    def note(self, retrievals: Sequence[Retrieval]) -> None:
        """Log these retrievals and update the memories' retrieval counts."""

    def injected(self, client: str, session: str) -> dict[int, str]:
        """Return the memories injected into this session, each with the digest of its text at that time."""

    def mark_injected(self, client: str, session: str, injected: Mapping[int, str]) -> None:
        """Record memories as injected into the session; memories that no longer exist are skipped."""

    def clear_injected(self, client: str, session: str) -> None:
        """Delete the record of memories injected into the session: they are no longer in the agent's context."""

    def forget_injected_before(self, before: str) -> int:
        """Delete such records of any session from before this time; return how many memories."""
