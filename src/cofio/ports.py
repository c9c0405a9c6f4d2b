"""Protocols between the core and its adapters: Store with its Inbox, Embedder, LLM, Clock.

The store finds and keeps memories; it does not judge them. It returns raw scores. Thresholds and rank fusion are
applied in one place above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from cofio.models.auth import AuditEntry, Grant, Key
from cofio.models.dashboard import Agent, ChangeCounters, DailyCount, Injection, InjectionCount, MapSource
from cofio.models.domain_knowledge import Knowledge, KnowledgeChange, KnowledgeDecision, Table
from cofio.models.episodes import Episode, EpisodeCounts, ExportedEpisode, Passage
from cofio.models.exchange import (
    Batching,
    Exchange,
    InboxStatus,
    Item,
    ItemResolution,
    Receipt,
    State,
    Task,
    TokenUsage,
)
from cofio.models.llm_calls import CallOrigin, DaySum, Limits, LLMCall, LLMSpending, Outcome
from cofio.models.maintenance import ExportedMemory, MaintenanceRun, UsageTracking, View
from cofio.models.memory import (
    Candidate,
    Change,
    Changeset,
    Decision,
    Matching,
    Memory,
    Occurrence,
    Retrieval,
    Scope,
    Viewer,
)
from cofio.models.notes import FileState
from cofio.models.sessions import AgentSession

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[float32]  # one unit-length vector
    Matrix: TypeAlias = NDArray[float32]  # one unit-length vector per row
else:  # this module loads nothing outside the standard library
    Vector = Matrix = Any

#: The time now, as UTC ISO 8601 text.
Clock: TypeAlias = Callable[[], str]
#: Return the outcome of an inbox item, given the changeset that was written for it.
Settles: TypeAlias = Callable[[Changeset], ItemResolution]


class LateInteractionModel(Protocol):
    """A late-interaction model: compares a question with each token of a memory (re-ranking)."""

    @property
    def signature(self) -> str:
        """Identify everything that the readings depend on. Readings with different signatures must not be compared."""

    @property
    def floor(self) -> float:
        """The score from which a match is meaningful."""

    @property
    def ceiling(self) -> float:
        """The score from which a match is certain."""

    def read(self, texts: Sequence[str], kind: Literal["query", "document"]) -> list[bytes]:
        """Return the token embeddings of each text, in order; b"" for a text above the model's limit."""

    def likeness(self, question: bytes, readings: Sequence[bytes]) -> list[float]:
        """Return the score of each reading for the question, at most 1."""


class Span(NamedTuple):
    """A part of a turn that states one fact."""

    start: int
    end: int
    probability: float
    kind: str
    about: str


class Relation(NamedTuple):
    """Probabilities of what a statement does to a memory."""

    add: float
    same: float
    update: float
    delete: float

    @property
    def change(self) -> float:
        """The probability that the memory no longer holds."""
        return self.update + self.delete


class Judge(Protocol):
    """Trained classifiers: facts worth keeping, how a statement relates to a memory, which memories help."""

    @property
    def thresholds(self) -> Mapping[str, float]:
        """Probability thresholds for acting, by the name of the decision."""

    def spans(self, text: str, before: str = "", role: str = "user", *, windows: int = 8) -> list[Span]:
        """Return the parts of a turn that state a fact worth keeping."""

    def relation(self, statement: str, memory: str) -> Relation:
        """Return the probabilities that a statement adds to, repeats, updates or deletes a memory."""

    def relevance(self, prompt: str, memories: Sequence[str]) -> list[float]:
        """Return, for each memory, the probability that it helps with the prompt."""


class Embedder(Protocol):
    """Model that turns texts into unit-length float32 vectors."""

    @property
    def signature(self) -> str:
        """Identify everything that would change the vectors: provider, model, dimension, prefixes. Stored with them."""

    @property
    def dimension(self) -> int:
        """The length of a vector. May have to ask the provider the first time."""

    @property
    def floor(self) -> float:
        """The cosine that unrelated texts have with this model; similarity is meaningful above it."""

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        """Return one row per text, in order.

        Raise Unavailable when the model cannot be reached, Misconfigured when it is missing.
        """


class Profile(NamedTuple):
    """Capabilities of a model."""

    json_schema: bool  # its replies can be constrained to a schema
    reconciles: bool  # it can be trusted to decide between add, update, delete and noop
    context: int  # context window, in tokens
    reconciles_known: bool = True  # False: `reconciles` is determined at the first use


class Completion(NamedTuple):
    """A model's reply. `truncated` means that it reached the token limit."""

    text: str
    truncated: bool = False
    usage: TokenUsage = TokenUsage()


class Health(NamedTuple):
    """State of a provider: healthy or not; if not, the problem with a hint on what to do."""

    healthy: bool
    problem: str = ""

    def __bool__(self) -> bool:
        return self.healthy


class LLM(Protocol):
    """A language model behind a provider."""

    @property
    def provider_name(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def profile(self) -> Profile: ...

    @property
    def supports_audn(self) -> bool:
        """Return whether it may decide between add, update, delete and noop: `profile.reconciles`."""

    def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
        """Return the model's reply, constrained to the JSON schema where the provider supports it.

        Raise Unavailable when no reply comes, Refused when the model declines, TooLarge when the prompt exceeds its
        context window, Misconfigured when the key or the model is wrong.
        """

    def health_check(self) -> Health:
        """Check that the provider answers and has the model. Never raises and never uses billed tokens."""


@runtime_checkable
class Stoppable(Protocol):
    """A model whose calls may outlive the request, such as one that starts processes."""

    def stop(self) -> None:
        """End the running calls, and refuse new ones."""


@runtime_checkable
class Probeable(Protocol):
    """A model whose capabilities have to be determined."""

    def probe(self, *, ask: bool) -> None:
        """Determine unknown capabilities; call the model for it only with `ask`. Never raises CofioError."""


class Inbox(Protocol):
    """Queue of captures: durable from acknowledgement until settled. The counts are kept for ever."""

    def receive(
        self, exchanges: Sequence[Exchange], *, task: Task = "learn", most: int | None = None, hold: float = 0.0
    ) -> list[Receipt]:
        """Store the exchanges and return one receipt per exchange. Duplicates for the same task are not stored again.

        A duplicate has the same (client, session, turn). An exchange without a turn, or with a turn but neither client
        nor session, is always new. Raise TooBusy, and store nothing, when `most` or more are pending. For `hold`
        seconds `due` does not return them: the caller wants to process them itself.
        """

    def amend(self, exchange: Exchange, *, hold: float = 0.0, most: int | None = None) -> Receipt:
        """Store what is new in a further delivery of a turn, and make it due after `hold` seconds.

        A turn that is due sooner stays so: an answer is not delayed by a prompt that arrives late.

        While the turn's item is open and nothing was learned from it yet, the new messages join it; a longer version of
        a message replaces the shorter one. Afterwards they become an item of their own, named as the turn with "+1",
        "+2" and so on, and the receipt is new, as it is for an unknown turn. Raise TooBusy when `most` or more are
        pending and another item would be needed. If the turn's words are forgotten, new messages cannot be recognised
        and nothing is stored.
        """

    def release(self, client: str, session: str) -> int:
        """Make every held item of this session due now; return how many. Failed items keep their delay."""

    def hold(self, client: str, session: str, batching: Batching, *, broken_off: bool = False) -> None:
        """Hold the pending items of this session until a pause in it; make a full batch due at once.

        Claimed items, items that wait longer after a failure, and unanswered prompts do not count towards a batch. A
        prompt that was held longer waits for the pause too if it was interrupted (`broken_off`).
        """

    def turns(self, client: str, session: str, *, any_key: bool = False) -> set[str]:
        """Return every turn of the session received so far; with `any_key`, also those received with any key."""

    def purged_turns(self, client: str, session: str) -> set[str]:
        """Return the turns of the session whose words were purged or are forgotten."""

    def due(self, limit: int) -> list[Item]:
        """Return the pending items that are due: live captures first, then those of backfills, each oldest first."""

    def claim(self, limit: int, together: int = 1) -> list[Item]:
        """Claim up to `limit` due items for this process, in the order of `due`.

        Up to `together` items of each session may be claimed, to be processed at once.

        Where several processes serve one store, the items and later ones of the same session are not given to another
        process until the claim expires, because a later turn may correct an earlier one. The expiry is returned as
        `due_at`.
        """

    def give_back(self, items: Sequence[Item]) -> None:
        """Release claimed items that were not processed, so that other processes can claim them."""

    def settle(self, settlement: ItemResolution) -> None:
        """Settle an item that changed nothing in the store. Raise Conflict if it is settled or has changed."""

    def postpone(self, item_id: int, seconds: float, reason: str, *, fault: bool = False, attempt: bool = True) -> None:
        """Count a failed attempt and make the item due again after `seconds`.

        `fault` marks a failure that will not pass by itself. With `attempt` false, no attempt is counted.
        """

    def park(self, item_id: int, reason: str) -> None:
        """Set the item's state to parked, for manual review."""

    def retry(self, item_id: int) -> Item:
        """Make a parked or rejected item pending again. Raise Conflict if it is stored, merged or pending."""

    def item(self, item_id: int) -> Item:
        """Return the item. Raise NotFound if it does not exist."""

    def items(self, state: State | None = None, *, limit: int = 50, after: int | None = None) -> list[Item]:
        """Return the newest items with an id below `after`, of one state if given."""

    def settled_by(self, changeset_id: int) -> Item | None:
        """Return the item that this changeset settled; None if it settled none or the words are forgotten."""

    def status(self) -> InboxStatus:
        """Return the number of captures in each state."""

    def forget(self, before: str) -> int:
        """Delete the words, not the counts, of items settled before this time; return how many."""


class LLMCalls(Protocol):
    """Log of language-model calls: purpose, size and, for some days, the redacted texts."""

    def start(
        self, provider: str, model: str, occasion: CallOrigin, request: str, *, characters: int, limits: Limits
    ) -> int:
        """Record a call before it is sent; return its id. Raise BudgetSpent, and record nothing, at a daily limit.

        Until it is finished its tokens are estimated from its characters, so that several processes share one budget.
        """

    def finish(
        self, call_id: int, outcome: Outcome, *, seconds: float, reply: str = "", tokens: tuple[int, int] = (0, 0)
    ) -> None:
        """Record how the call ended, with the tokens of its request and its reply."""

    def interrupt(self, before: str) -> int:
        """Mark unfinished calls started before this time as interrupted, because their process died; return how many.

        Their estimated tokens stay counted. A call that ends later is finished as usual.
        """

    def spent(self) -> LLMSpending:
        """Return the calls and tokens of today (UTC)."""

    def sums(self, since: str) -> list[DaySum]:
        """Return the sums since this time by day, model and session."""

    def newest(self, limit: int) -> list[LLMCall]:
        """Return the newest calls, without their texts."""

    def get(self, call_id: int) -> LLMCall:
        """Return the call with its texts. Raise NotFound if it does not exist."""

    def forget(self, before: str) -> int:
        """Delete the texts, not the counts, of calls before this time; return how many."""


class Runs(Protocol):
    """Runs of scheduled chores: one process at a time runs a chore, and each cron slot is run once."""

    def claim(self, chore: str, slot: str, by: str) -> MaintenanceRun | None:
        """Claim the run of a cron slot; return None if the slot is taken or the chore is running.

        A run without a heartbeat for ten minutes counts as dead and blocks no other.
        """

    def alive(self, run_id: int) -> bool:
        """Record a heartbeat of the run. Return False if it was given up for dead and may be claimed by another."""

    def finish(
        self, run_id: int, outcome: str, told: Mapping[str, Any], changeset: int | None = None
    ) -> MaintenanceRun:
        """End the run. Raise Conflict if it has ended already or was given up for dead."""

    def last(self, chore: str) -> MaintenanceRun | None:
        """Return the run of the newest slot up to now. A dead run releases its slot."""

    def newest(self, limit: int, chore: str = "") -> list[MaintenanceRun]:
        """Return the newest runs, of one chore if given."""


class UsageQueries(Protocol):
    """Usage statistics of memories."""

    def view(self, view: View, scope: Scope, limit: int, before: str) -> list[Memory]:
        """Return live memories of the scope by usage.

        "never": never recalled, oldest first. "most": most often recalled first. "stale": recalled, but not since
        `before`, longest unused first.
        """

    def tracking(self, since: str) -> UsageTracking:
        """Return the start of the retrieval log and the number of different days with retrievals since then."""

    def unused(self, category: str, before: str, limit: int) -> list[Memory]:
        """Return live, unpinned memories of the category never recalled, and neither said nor changed since `before`.

        Oldest first. The arrival in this store counts as a change, even of an old memory.
        """

    def touched(self, ids: Sequence[int], after: int) -> set[int]:
        """Return which of these memories were changed by a changeset later than this one."""

    def queries(self, ids: Sequence[int], limit: int) -> list[str]:
        """Return the newest distinct logged queries that found any of these memories."""

    def forget(self, before: str) -> int:
        """Delete logged retrievals before this time, not the counts; return how many."""


class Snapshots(Protocol):
    """Data for copying a store to another: export, import, backup."""

    def still(self) -> AbstractContextManager[Snapshots]:
        """Return a read-only snapshot: concurrent writes do not show in it."""

    def identity(self) -> str:
        """Return the unique name of this store."""

    def adopt_identity(self, identity: str) -> bool:
        """Take another store's name, because this one is a copy of it.

        Return False, and change nothing, if this store ever held a memory.
        """

    def reserve(self, count: int) -> int:
        """Reserve so many ids above all that were ever assigned; return the last id below them."""

    def room(self, name: str, last: int) -> list[tuple[int, int]]:
        """Return the ids reserved here for another store's memories up to its id `last`, the same on each call.

        The result is pairs of (foreign id, offset) by rising id: foreign ids up to this one, and above that of the pair
        before, are stored here as id + offset. With 0 for `last`, nothing further is reserved.
        """

    def origins(self, origins: Sequence[str]) -> dict[str, int]:
        """Map the memories that were imported already, archived ones too, to their ids here."""

    def rows(self, after: int, limit: int, *, vectors: bool = False) -> list[ExportedMemory]:
        """List all memories above an id, archived ones too, by id."""

    def counts(self) -> tuple[int, int]:
        """Count all memories, archived ones too; return the count and the highest id."""

    def knowledge(self, table: Table, after: str, limit: int) -> list[Knowledge]:
        """Return the rows of a domain-knowledge table with an id above this one, by id in code point order."""

    def episodes(self, after: int, limit: int) -> list[ExportedEpisode]:
        """Return the episodes above an id, by id, with their passages and vectors."""

    def parts(self, changeset_id: int) -> list[int]:
        """Return the changesets of the series that this one begins, itself first; only itself if it begins none."""


class Keys(Protocol):
    """API keys, stored as digests only, and the audit log."""

    def create(self, grant: Grant, digest: str, hint: str, by: str) -> Key:
        """Store a new key. Raise Conflict if an unrevoked key has this name."""

    def find(self, digest: str) -> Key | None:
        """Return the key with this digest, revoked and expired ones too."""

    def all(self) -> list[Key]:
        """Return every key ever created, newest first."""

    def any_valid(self) -> bool:
        """Return whether there is a key that is neither revoked nor expired."""

    def revoke(self, key_id: int) -> Key:
        """Revoke the key. Raise NotFound if it does not exist, Conflict if it is revoked already."""

    def used(self, when: Mapping[int, str]) -> None:
        """Record the last use of keys, by id."""

    def carried(self) -> list[tuple[Key, str]]:
        """Return every key with its digest, oldest first, for `adopt` in another store."""

    def adopt(self, key: Key, digest: str) -> None:
        """Store a key of another store under a new id, or update the one here; a revoked key stays revoked.

        Raise Conflict if another unrevoked key has its name.
        """

    def log(self, deeds: Sequence[AuditEntry]) -> None:
        """Append these entries to the audit log."""

    def deeds(self, limit: int, *, after: int | None = None, key: int | None = None) -> list[AuditEntry]:
        """Return the newest audit log entries with an id below `after`, of one key if given."""

    def forget(self, before: str) -> int:
        """Delete audit log entries from before this time; return how many."""


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

    def told_by(self, memories: Sequence[int]) -> list[Knowledge]:
        """Return the claims that these memories express in words."""

    def history(self, table: Table, key: str) -> list[KnowledgeChange]:
        """Return every change of the row, oldest first. Raise NotFound if it never existed."""

    def counts(self, *, viewer: Viewer | None = None) -> dict[str, int]:
        """Return the number of rows of each table."""


class Notes(Protocol):
    """Index of the Markdown files read into the store, with their content hashes. Derived; not journalled."""

    def folders(self) -> list[str]:
        """List the folders of which any file was read."""

    def files(self, folder: str) -> dict[str, FileState]:
        """Return the files of a folder that were read, by path within it."""

    def put(self, folder: str, files: Sequence[FileState]) -> None:
        """Record that these files were read."""

    def drop(self, folder: str, paths: Sequence[str]) -> None:
        """Remove the records of these files."""


class DashboardQueries(Protocol):
    """Statistics for the dashboard. Days are UTC days."""

    def arrived(self, since: str, scope: Scope) -> list[DailyCount]:
        """Count the live memories of the scope said on each day from `since` on, by category, oldest first.

        Memories from before `since` are counted under day "".
        """

    def done(self, since: str) -> dict[str, int]:
        """Count changes of memories since then by action, without repeats that changed nothing."""

    def inject(self, injections: Sequence[Injection]) -> None:
        """Log injected context blocks. Derived; not journalled."""

    def injected(self, since: str) -> list[InjectionCount]:
        """Return the injected amounts of each day from `since` on, oldest first; days without any are left out."""

    def forget_injected(self, before: str) -> int:
        """Delete injections logged before this time; return how many."""

    def agents(self, limit: int) -> list[Agent]:
        """Return the agents that use the store, latest first: first parts of sources, and callers of recall."""

    def pulse(self) -> ChangeCounters:
        """Return counters that rise with every change. Cheap enough to poll every second."""

    def dots(self, scope: Scope, most: int, characters: int) -> MapSource:
        """Return the newest live memories of the scope with vectors, up to `most`, and how their texts begin."""


class TokenEmbeddings(Protocol):
    """Token embeddings of memories, for re-ranking. Derived; not journalled.

    A memory becomes unread as soon as its text, speaker or context changes.
    """

    def set_signature(self, signature: str) -> None:
        """Bind the readings to a model. If the signature differs from the stored one, delete all readings."""

    def get(self, ids: Sequence[int], by: str) -> dict[int, bytes]:
        """Return this model's readings of these memories; none if another model has signed.

        Unread memories are skipped.
        """

    def unread(self, limit: int) -> list[Memory]:
        """Return memories without a reading, newest first."""

    def put(self, readings: Sequence[tuple[Memory, bytes]], by: str) -> bool:
        """Store the readings of these memories, except of those that have changed meanwhile.

        Return False, and store nothing, if another model has signed meanwhile.
        """

    def counts(self) -> tuple[int, int]:
        """Return the number of memories with a reading and without one."""


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

    def given(self, session: AgentSession) -> list[int]:
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


class Store(Protocol):
    """Memories with their text, vectors and a journal of every change; searchable by vector and by word.

    Only `apply` changes the content of a memory. Derived data (vectors, retrieval counts) may be written separately and
    is not journalled, because it can be recomputed.
    """

    @property
    def inbox(self) -> Inbox:
        """Captures, and which of them are still to be processed."""

    @property
    def runs(self) -> Runs:
        """Runs of scheduled chores."""

    @property
    def uses(self) -> UsageQueries:
        """Usage statistics of memories."""

    @property
    def carrying(self) -> Snapshots:
        """Data for export, import and backup."""

    @property
    def keys(self) -> Keys:
        """API keys and the audit log."""

    @property
    def domain(self) -> KnowledgeTables:
        """Structured domain knowledge."""

    @property
    def notes(self) -> Notes:
        """Markdown files that were read."""

    @property
    def pictures(self) -> DashboardQueries:
        """Statistics for the dashboard."""

    @property
    def llm_calls(self) -> LLMCalls:
        """The log of language-model calls."""

    @property
    def readings(self) -> TokenEmbeddings:
        """Token embeddings for re-ranking."""

    @property
    def episodes(self) -> EpisodeIndex:
        """Captured turns, searchable."""

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
        knowledge: Sequence[KnowledgeDecision] = (),
    ) -> Changeset:
        """Apply all decisions in one transaction, or none. The changes are returned in the order of the decisions.

        `knowledge` is applied afterwards to the tables of domain knowledge, in the same changeset.

        `part_of` is the first changeset of the series that this one belongs to.

        `settles` returns, given the changeset, the outcome of an inbox item, which is written in the same transaction.
        Raise Conflict if the item was settled by another process.

        `vectors` holds, by the index of a decision, the vector of the text that it adds. An unknown id raises NotFound,
        a Revert of something that has changed since raises Conflict; either leaves the store unchanged.
        """

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

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        """Return the k memories of the scope with the highest cosine, best first, then the others of `also`."""

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        """Return the k memories of the scope with the highest BM25 for any of the words, best first.

        A word in the context only has half the weight. In a large store the most common words may be left out. Words
        are literal: there are no operators.
        """

    def holding(self, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        """Return which of the words each of these memories contains, by the rules of `matching`."""

    def known(self, text: str, scope: Scope) -> list[int]:
        """Return the ids of the scope's memories with exactly this text, ignoring case and white space."""

    def pairs(self, threshold: float, scope: Scope) -> Iterator[tuple[int, int, float]]:
        """Yield pairs of the scope's memories with a cosine of at least the threshold: lower id, higher id, cosine."""

    def neighbours(self, ids: Sequence[int], threshold: float, k: int) -> Iterator[tuple[int, list[Candidate]]]:
        """Yield the k nearest among these memories of each of them, with a cosine of at least the threshold.

        Best first. Memories without neighbours are skipped. Uses little memory and CPU time, so that searches stay
        responsive.
        """

    def history(self, memory_id: int) -> list[Change]:
        """Return every change of this memory, its predecessors and its successors, oldest first."""

    def occurrences(self, memory_id: int) -> list[Occurrence]:
        """Return every occurrence of the memory and of those merged into it, the first one included."""

    def projects(self, scope: Scope, limit: int, after: str = "") -> list[tuple[str, int]]:
        """Return the projects of the scope's memories after the name `after`, by name, with numbers of memories."""

    def repeated(self, least: int, limit: int, scope: Scope) -> list[tuple[str, int, int]]:
        """Return (agent, memory id, count) of memories of the scope said at least `least` times, most frequent first.

        Memories with the same text count as one. Occurrences without an agent are left out.
        """

    def changeset(self, changeset_id: int) -> Changeset:
        """Return the changeset with its changes. Raise NotFound if it does not exist."""

    def changesets(self, limit: int, *, within: Scope | None = None) -> list[Changeset]:
        """Return the newest changesets without their changes; with a scope, only those that changed a memory of it.

        If the scope narrows by a viewer alone, changesets of domain knowledge are included too if the viewer may see
        the row as it was then, or, where the change removed it, as it had been.
        """

    def note(self, retrievals: Sequence[Retrieval]) -> None:
        """Log these retrievals and update the memories' retrieval counts."""

    def unembedded(self, limit: int, *, among: Sequence[int] | None = None) -> list[Memory]:
        """Return memories that have no vector yet, oldest first; only among these ids, if given."""

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        """Store vectors of memories that have none."""

    def set_signature(self, signature: str, *, reset: bool = False) -> None:
        """Bind the store to an embedder. Raise EmbedderMismatch if it differs from the stored one;

        `reset` drops old vectors.

        Afterwards, searches and writes raise it too once another process has bound the store to another embedder.
        """

    def given(self, client: str, session: str) -> dict[int, str]:
        """Return the memories that were given to this session, each with the digest of its text at that time."""

    def give(self, client: str, session: str, given: Mapping[int, str]) -> None:
        """Record that the session was given these memories; memories that no longer exist are skipped."""

    def forget_given(self, client: str, session: str) -> None:
        """Delete the record of memories given to the session: they are no longer in the agent's context."""

    def forget_given_before(self, before: str) -> int:
        """Delete such records of any session from before this time; return how many memories."""

    def stats(self) -> dict[str, Any]:
        """Return the kind of store and counts: memories by state, category, kind and source, vectors, size etc."""

    def close(self) -> None:
        """Close the store. Further calls fail."""
