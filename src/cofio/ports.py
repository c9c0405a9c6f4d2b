"""What the core asks of the outside: a Store with its Inbox, an Embedder, an LLM, a Clock. Adapters know these words.

The store finds and keeps; it does not judge. Scores come back raw, thresholds and fusion live above, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from cofio.access import Deed, Grant, Key
from cofio.chores import Carried, Run, Tracking, View
from cofio.conversation import Batching, Exchange, Item, Ledger, Receipt, Settlement, State, Task, Usage
from cofio.domain import Knowledge, KnowledgeChange, KnowledgeDecision, Table
from cofio.episodes import CarriedEpisode, Episode, EpisodeCounts, Passage
from cofio.llm_calls import DaySum, Limits, LLMCall, Occasion, Outcome, Spent
from cofio.model import Candidate, Change, Changeset, Decision, Matching, Memory, Occurrence, Retrieval, Scope, Viewer
from cofio.notes import Filed
from cofio.picture import Agent, Arrived, Dots, Injected, Injection, Pulse
from cofio.sessions import AgentSession

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[float32]  # one unit-length vector
    Matrix: TypeAlias = NDArray[float32]  # one unit-length vector a row
else:  # the words load nothing outside the standard library
    Vector = Matrix = Any

#: The time now, as UTC ISO 8601 text.
Clock: TypeAlias = Callable[[], str]
#: How an item of the inbox ends, told from what was done for it.
Settles: TypeAlias = Callable[[Changeset], Settlement]


class Reader(Protocol):
    """Reads texts word by word, so that a question can be compared with each word of a memory."""

    @property
    def signature(self) -> str:
        """Names whatever its readings depend on. Readings of two signatures must not be compared."""

    @property
    def floor(self) -> float:
        """The likeness from which on it means something."""

    @property
    def ceiling(self) -> float:
        """The likeness that leaves no doubt."""

    def read(self, texts: Sequence[str], kind: Literal["query", "document"]) -> list[bytes]:
        """What was read of each text, in order; nothing of one that is too long to be read as a whole."""

    def likeness(self, question: bytes, readings: Sequence[bytes]) -> list[float]:
        """How well each reading answers the question, at most 1."""


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
    """Trained judgement: what is worth keeping, how a statement relates to a memory, which memory helps."""

    @property
    def thresholds(self) -> Mapping[str, float]:
        """Probabilities from which on to act, by the name of the decision."""

    def spans(self, said: str, before: str = "", role: str = "user", *, windows: int = 8) -> list[Span]:
        """Return the parts of a turn that state a fact worth keeping."""

    def relation(self, statement: str, memory: str) -> Relation:
        """Return the probabilities that a statement adds to, repeats, updates or deletes a memory."""

    def relevance(self, prompt: str, memories: Sequence[str]) -> list[float]:
        """Return, for each memory, the probability that it helps with the prompt."""


class Embedder(Protocol):
    """Texts in, unit-length float32 vectors out."""

    @property
    def signature(self) -> str:
        """Names whatever would change the vectors: provider, model, dimension, prefixes. Stored with them."""

    @property
    def dimension(self) -> int:
        """How long a vector is. May have to ask the provider the first time."""

    @property
    def floor(self) -> float:
        """The cosine that unrelated texts have with this model: where similarity begins to mean something."""

    def embed(self, texts: Sequence[str], kind: Literal["query", "document"]) -> Matrix:
        """One row a text, in order. Raises Unavailable when the model cannot be reached, Misconfigured when missing."""


class Profile(NamedTuple):
    """What a model can do, as far as it matters here."""

    json_schema: bool  # its replies can be held to a schema
    reconciles: bool  # it can be trusted with decisions about what is known
    context: int  # tokens that it reads at once
    reconciles_known: bool = True  # False: `reconciles` is to be found out at the first use


class Completion(NamedTuple):
    """A model's reply. A truncated one ended because it had no more room, not because it was done."""

    text: str
    truncated: bool = False
    usage: Usage = Usage()


class Health(NamedTuple):
    """Whether a provider is there and has the model; if not, what is wrong and what to do."""

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
        """Whether it may decide between add, update, delete and noop: `profile.reconciles`."""

    def complete(self, system: str, user: str, *, schema: Mapping[str, Any] | None = None) -> Completion:
        """The model's reply, held to the JSON schema where the provider can.

        Unavailable when none comes, Refused when the model will not, TooLarge when it cannot read so much at once,
        Misconfigured when the key or the model is wrong.
        """

    def health_check(self) -> Health:
        """Whether the provider answers and has the model. Never raises, and never pays for tokens."""


@runtime_checkable
class Stoppable(Protocol):
    """A model with calls that outlive the wish for a reply, such as processes."""

    def stop(self) -> None:
        """End the running calls, and refuse new ones."""


@runtime_checkable
class Probeable(Protocol):
    """A model of which it is found out what it can do."""

    def probe(self, *, ask: bool) -> None:
        """Find it out where it is not known yet, by a call of the model only with `ask`. Never raises CofioError."""


class Inbox(Protocol):
    """What clients delivered, durable from the moment it is acknowledged until it is settled, and counted for ever."""

    def receive(
        self, exchanges: Sequence[Exchange], *, task: Task = "learn", most: int | None = None, hold: float = 0.0
    ) -> list[Receipt]:
        """Keep them all; one receipt an exchange. What came before, for the same task, is not kept again.

        What came before is told by (client, session, turn). An exchange without a turn, or with nothing but a turn, is
        always new. TooBusy, and nothing kept, when `most` or more are pending. For `hold` seconds `due` does not give
        them out: whoever delivers wants to do the work.
        """

    def amend(self, exchange: Exchange, *, hold: float = 0.0, most: int | None = None) -> Receipt:
        """Keep what is new in a further delivery of a turn, and have it learned from after `hold` seconds.

        What is due sooner stays so: an answer is not held back by a prompt that comes late.

        While the turn's item waits and nothing is learned of it yet, what is new joins it; a longer telling of what is
        there takes its place. Later, what is new becomes an item of its own, named as the turn with "+1", "+2" and so
        on: then the receipt is new, as it is for a turn that never came. TooBusy when `most` or more are pending and it
        would take another item. Of what is forgotten nobody can tell what is new: nothing is kept of that.
        """

    def release(self, client: str, session: str) -> int:
        """Have everything of this session that is held given out now; of how many items. What failed waits on."""

    def hold(self, client: str, session: str, batching: Batching, *, broken_off: bool = False) -> None:
        """Have what waits of this session wait for a pause from now on; a full batch of it is given out now.

        What is given out already, what is to wait longer because something failed, and an unanswered prompt do not
        count towards a batch. A prompt that was held longer waits for the pause too if it was broken off.
        """

    def turns(self, client: str, session: str, *, any_key: bool = False) -> set[str]:
        """Every turn of the session that ever came in; with `any_key` those too that came with a key, of any owner."""

    def purged_turns(self, client: str, session: str) -> set[str]:
        """Return the turns of the session of which words were purged or are forgotten."""

    def due(self, limit: int) -> list[Item]:
        """The pending items whose time has come: live captures first, then those of backfills, each oldest first."""

    def claim(self, limit: int, together: int = 1) -> list[Item]:
        """Those that are due, for this process to work on; at most so many, in the order of `due`.

        Of each session there may be more, up to `together`: they are read at once.

        Where several processes serve one store, nobody else is given them for a while, nor anything later of the same
        session: what is said later may correct what was said before. They come with the time until when, as `due_at`.
        """

    def give_back(self, items: Sequence[Item]) -> None:
        """Let others have what was claimed and not worked on."""

    def settle(self, settlement: Settlement) -> None:
        """End an item that changed nothing in the store. Conflict when it is settled already, or not as it was read."""

    def postpone(self, item_id: int, seconds: float, reason: str, *, fault: bool = False, attempt: bool = True) -> None:
        """Count an attempt that failed, as a fault if it will not pass by itself; give it out again after that time.

        With `attempt` false, no attempt is counted.
        """

    def park(self, item_id: int, reason: str) -> None:
        """Put an item aside for a person to look at."""

    def retry(self, item_id: int) -> Item:
        """Make a parked or rejected item pending again. Conflict for one that is stored, merged or pending."""

    def item(self, item_id: int) -> Item:
        """The item. NotFound when there is none."""

    def items(self, state: State | None = None, *, limit: int = 50, after: int | None = None) -> list[Item]:
        """The newest items, of one state if given, whose id is below `after`."""

    def settled_by(self, changeset_id: int) -> Item | None:
        """The item that this changeset settled; None where it was none, or its words are forgotten."""

    def ledger(self) -> Ledger:
        """Where every capture is."""

    def forget(self, before: str) -> int:
        """Forget the words, not the count, of items that were settled before this time; of how many."""


class LLMCalls(Protocol):
    """Every call of a language model: what for, how much, and for some days its redacted texts."""

    def start(
        self, provider: str, model: str, occasion: Occasion, request: str, *, characters: int, limits: Limits
    ) -> int:
        """Record a call before it is sent; its id. BudgetSpent, and nothing recorded, when a daily limit is reached.

        Until it is finished its tokens are estimated from its characters, so that several processes share one budget.
        """

    def finish(
        self, call_id: int, outcome: Outcome, *, seconds: float, reply: str = "", tokens: tuple[int, int] = (0, 0)
    ) -> None:
        """Record how the call ended, and the tokens of its request and its reply."""

    def interrupt(self, before: str) -> int:
        """Close calls that were started before this time and have no end: their process has died; of how many.

        Their estimated tokens stay counted. One that ends after all is finished as usual.
        """

    def spent(self) -> Spent:
        """The calls and tokens of today, in UTC."""

    def sums(self, since: str) -> list[DaySum]:
        """The sums since this time by day, model and session."""

    def newest(self, limit: int) -> list[LLMCall]:
        """The newest calls, without their texts."""

    def get(self, call_id: int) -> LLMCall:
        """The call with its texts. NotFound when there is none."""

    def forget(self, before: str) -> int:
        """Forget the texts, not the counts, of calls before this time; of how many."""


class Runs(Protocol):
    """When chores ran, and who runs one now: at most one process at a time, each slot of a schedule once."""

    def claim(self, chore: str, slot: str, by: str) -> Run | None:
        """The run, when it is this caller's to do; None when the slot was taken or the chore is running.

        A run that has not said for ten minutes that it is alive has died, and is in nobody's way.
        """

    def alive(self, run_id: int) -> bool:
        """Say that the run goes on. False when it was given up for dead and may be another's by now."""

    def finish(self, run_id: int, outcome: str, told: Mapping[str, Any], changeset: int | None = None) -> Run:
        """End the run. Conflict when it was ended already, or given up for dead."""

    def last(self, chore: str) -> Run | None:
        """The run of the newest slot up to now; what died leaves its slot to another."""

    def newest(self, limit: int, chore: str = "") -> list[Run]:
        """The newest runs, of one chore if given."""


class Uses(Protocol):
    """What is known of how memories are used."""

    def view(self, view: View, scope: Scope, limit: int, before: str) -> list[Memory]:
        """Live memories of the scope: those never recalled, oldest first; those recalled most often; or, "stale", those
        that were recalled, but not since `before`, the longest unused first."""

    def tracking(self, since: str) -> Tracking:
        """Since when retrievals are noted, and on how many different days since then."""

    def unused(self, category: str, before: str, limit: int) -> list[Memory]:
        """Live, unpinned memories of the category that nobody ever recalled, said or changed since `before`.

        Its arrival in this store counts as a change, however old it is. The oldest first.
        """

    def touched(self, ids: Sequence[int], after: int) -> set[int]:
        """Those of these memories to which anything was done by a later changeset than this."""

    def queries(self, ids: Sequence[int], limit: int) -> list[str]:
        """The newest different queries in the log that found any of these."""

    def forget(self, before: str) -> int:
        """Forget the retrievals before this time, not the counts; how many."""


class Carrying(Protocol):
    """What goes from store to store."""

    def still(self) -> AbstractContextManager[Carrying]:
        """The same, of one moment: what is written meanwhile does not show. To read with only."""

    def identity(self) -> str:
        """The store's own name, which no other has."""

    def adopt_identity(self, identity: str) -> bool:
        """Take another store's name, because this one is its copy. False, and nothing done, if it ever held any."""

    def reserve(self, count: int) -> int:
        """Keep so many ids free above all that were ever given; the last id below them."""

    def room(self, name: str, last: int) -> list[tuple[int, int]]:
        """The ids that are kept here for another's memories up to its id `last`, the same each time.

        Pairs of its id and an offset, by rising id: what it calls so or less, above the pair before, lies here at its
        id plus the offset. With 0 for `last` no more is kept.
        """

    def origins(self, origins: Sequence[str]) -> dict[str, int]:
        """Which of these memories were imported already, and under which id; archived ones too."""

    def rows(self, after: int, limit: int, *, vectors: bool = False) -> list[Carried]:
        """All memories above an id, archived ones too, by id."""

    def counts(self) -> tuple[int, int]:
        """How many memories there are, archived ones too, and the highest id among them."""

    def knowledge(self, table: Table, after: str, limit: int) -> list[Knowledge]:
        """The rows of a table of domain knowledge whose id is above this one, by id in the order of its characters."""

    def episodes(self, after: int, limit: int) -> list[CarriedEpisode]:
        """Return the episodes above an id, by id, with their passages and vectors."""

    def parts(self, changeset_id: int) -> list[int]:
        """The changesets of the series that this one begins, itself first; only itself when there is no more."""


class Keys(Protocol):
    """Who may ask: keys, known by their digests alone, and the log of what was done with them."""

    def create(self, grant: Grant, digest: str, hint: str, by: str) -> Key:
        """Keep a new key. Conflict when a key of this name is in force."""

    def find(self, digest: str) -> Key | None:
        """The key with this digest, revoked and expired ones too."""

    def all(self) -> list[Key]:
        """Every key that was ever made, newest first."""

    def any_valid(self) -> bool:
        """Whether there is a key that is not revoked and not expired."""

    def revoke(self, key_id: int) -> Key:
        """From now on it opens nothing. NotFound when there is none, Conflict when it was revoked before."""

    def used(self, when: Mapping[int, str]) -> None:
        """Note when keys, by id, were used last."""

    def carried(self) -> list[tuple[Key, str]]:
        """Every key with its digest, oldest first, to be adopted elsewhere."""

    def adopt(self, key: Key, digest: str) -> None:
        """Keep a key as it was elsewhere, under an id of its own. One that is here follows: once revoked, it stays so.

        Conflict when another key of its name is in force.
        """

    def log(self, deeds: Sequence[Deed]) -> None:
        """Write these into the audit log."""

    def deeds(self, limit: int, *, after: int | None = None, key: int | None = None) -> list[Deed]:
        """The newest lines of the audit log whose id is below `after`, of one key if given."""

    def forget(self, before: str) -> int:
        """Forget the lines from before this time; how many."""


class Domain(Protocol):
    """The tables of domain knowledge, for looking. Writing is `Store.apply`.

    With a viewer, what they may not see is not there (`domain.sees`).
    """

    def get(self, table: Table, keys: Sequence[str], *, viewer: Viewer | None = None) -> list[Knowledge]:
        """The rows with these ids, in the order asked; unknown ones are passed over."""

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
        """The rows of a table: claims by confidence, the highest first, feedback newest first; of equals by id.

        `least` is the least confidence; `where` names columns and the values that they must have: what it says without
        regard to case, its id and whose it is exactly, of the claims that a verdict judges one or several. `after` is
        the id of the row that the answer is to follow; InvalidInput when it is gone, and for what no row can have.
        """

    def naming(self, words: Sequence[str], *, viewer: Viewer | None = None) -> list[Knowledge]:
        """The claims with any of these words, folded, in one of their names (`domain.named_words`); by confidence."""

    def told_by(self, memories: Sequence[int]) -> list[Knowledge]:
        """The claims that these memories say in words."""

    def history(self, table: Table, key: str) -> list[KnowledgeChange]:
        """Every change of the row, oldest first. NotFound when there never was one."""

    def counts(self, *, viewer: Viewer | None = None) -> dict[str, int]:
        """How many rows each table has."""


class Notes(Protocol):
    """Which Markdown files were read into the store, as of which content. Derived; not journalled."""

    def folders(self) -> list[str]:
        """The folders of which any file was read."""

    def files(self, folder: str) -> dict[str, Filed]:
        """What was read of a folder, by path within it."""

    def put(self, folder: str, files: Sequence[Filed]) -> None:
        """Note that these were read."""

    def drop(self, folder: str, paths: Sequence[str]) -> None:
        """Forget that these were read."""


class Pictures(Protocol):
    """The store as people look at it. Days are those of UTC."""

    def arrived(self, since: str, scope: Scope) -> list[Arrived]:
        """How many live memories of the scope were said on each day from `since` on, by category, oldest first.

        Those from before are told as of day "".
        """

    def done(self, since: str) -> dict[str, int]:
        """How many changes of memories there were since then, by action; repeats that changed nothing left out."""

    def inject(self, injections: Sequence[Injection]) -> None:
        """Note what was put before agents. Derived; not journalled."""

    def injected(self, since: str) -> list[Injected]:
        """What was put before agents on each day from `since` on, oldest first; days without any left out."""

    def forget_injected(self, before: str) -> int:
        """Forget what was noted before this time; how many."""

    def agents(self, limit: int) -> list[Agent]:
        """Who is at work with the store: the first part of memories' sources, or who asked; the latest first."""

    def pulse(self) -> Pulse:
        """What rises when something moves. Cheap: it is asked for every second."""

    def dots(self, scope: Scope, most: int, characters: int) -> Dots:
        """The newest live memories of the scope that have vectors, at most so many, each with how its text begins."""


class Readings(Protocol):
    """What a reader read of memories, word by word. Derived; not journalled.

    A memory that comes to say something else is unread from that moment on.
    """

    def sign(self, signature: str) -> None:
        """Bind what was read to a reader. With another than before all of it is dropped, and everything is unread."""

    def get(self, ids: Sequence[int], by: str) -> dict[int, bytes]:
        """What this reader read of these memories, nothing where another one signed; the unread are passed over."""

    def unread(self, limit: int) -> list[Memory]:
        """Memories that are still to be read, newest first."""

    def put(self, readings: Sequence[tuple[Memory, bytes]], by: str) -> bool:
        """Keep what was read of these memories, of each unless it says something else by now.

        False where another reader has signed meanwhile: then nothing is kept.
        """

    def counts(self) -> tuple[int, int]:
        """How many memories were read, and how many are still to be."""


class EpisodeIndex(Protocol):
    """Captured turns, searchable in passages. Derived from the inbox; not journalled.

    A capture is to be indexed when it comes in, and again whenever its words change.
    """

    def unindexed(self, limit: int) -> list[int]:
        """Return captures that are to be indexed, oldest first; not those that nobody tried to learn from yet."""

    def index(self, capture: int) -> int | None:
        """Make an episode of what the inbox holds of a capture, in place of what was indexed of it before.

        Parts of one turn of a session become one episode. Return its id; None where nothing is to be indexed.
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

        Those of a client, with a turn in a project (its path, or the name of its folder), with an id that begins so,
        with a turn from `since` on; with `own` those of this viewer alone. Captures that are not indexed yet count too.
        """

    def turns(
        self, session: AgentSession, limit: int, *, summaries: bool = False, viewer: Viewer | None = None
    ) -> list[Episode]:
        """Return the newest turns of a session, or its compaction summaries, oldest first; id 0 until it is indexed."""

    def changesets(self, session: AgentSession, limit: int) -> list[int]:
        """Return the changesets that the newest captures of a session led to, oldest first."""

    def given(self, session: AgentSession) -> list[int]:
        """Return the memories that are noted as given to a session, oldest first.

        None of them where another owner has a session of this id with the client: the notes do not say which is meant.
        """

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        """Return the k passages of the scope with the highest cosine, as `Store.nearest` does for memories."""

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        """Return the k passages of the scope with the highest BM25, as `Store.matching` does for memories."""

    def unembedded(self, limit: int) -> list[Passage]:
        """Return passages that have no vector yet, newest first."""

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        """Give passages their vectors, where they had none."""

    def remove(self, ids: Sequence[int]) -> int:
        """Erase episodes for good, with the words of the captures that they were made from; return how many.

        Conflict, and nothing erased, while one of the captures is still to be learned from.
        """

    def forget(self, before: str, most_bytes: int) -> int:
        """Remove episodes from before this time, and the oldest beyond so many bytes of text and vectors."""

    def adopt(self, episodes: Sequence[CarriedEpisode]) -> None:
        """Keep episodes of another store under their own ids, in place of those that are there."""

    def counts(self) -> EpisodeCounts:
        """Count episodes and what is left to do for them."""


class Store(Protocol):
    """Keeps memories, their words, their vectors and the journal of every change; finds them again.

    `apply` is the only way in which a memory's content changes. What is derived (vectors, retrieval counts) may be
    written beside it and is not journalled, because it can be made again.
    """

    @property
    def inbox(self) -> Inbox:
        """What was delivered and is to be learned from."""

    @property
    def runs(self) -> Runs:
        """When chores ran."""

    @property
    def uses(self) -> Uses:
        """How memories are used."""

    @property
    def carrying(self) -> Carrying:
        """What goes from store to store."""

    @property
    def keys(self) -> Keys:
        """Who may ask."""

    @property
    def domain(self) -> Domain:
        """What is known exactly of a domain."""

    @property
    def notes(self) -> Notes:
        """Which Markdown files were read."""

    @property
    def pictures(self) -> Pictures:
        """The store as people look at it."""

    @property
    def llm_calls(self) -> LLMCalls:
        """The calls of language models."""

    @property
    def readings(self) -> Readings:
        """What was read word by word."""

    @property
    def episodes(self) -> EpisodeIndex:
        """What was said, turn by turn."""

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
        """Do all of it in one transaction, or nothing. The changes come back in the order of the decisions.

        `knowledge` is done after that, to the tables of domain knowledge, in the same changeset.

        `part_of` names the first changeset of the series that this one belongs to.

        `settles` says, given what was done, how an item of the inbox ends by it: written in that same transaction;
        Conflict when somebody else has settled it.

        `vectors` holds, by the place of a decision, the vector of the text that it brings. An unknown id is NotFound,
        a Revert of something that has changed since is Conflict; either leaves the store as it was.
        """

    def get(self, ids: Sequence[int]) -> list[Memory]:
        """The memories with these ids, archived ones too, in the order asked; unknown ids are passed over."""

    def said(self, ids: Sequence[int]) -> dict[int, tuple[str, str]]:
        """Of each of these memories, who said it and when: its speaker and its `created_at`."""

    def has_speakers(self) -> bool:
        """Whether any memory has a speaker: where none has, nobody needs to be looked for."""

    def page(self, scope: Scope, *, limit: int, after: int | None = None, skip: int = 0) -> tuple[list[Memory], int]:
        """The newest memories of the scope whose id is below `after`, and how many the scope has in all.

        So many of them as `skip` says are passed over: whoever scrolls far need not read what lies between.
        """

    def newest(self, scope: Scope, limit: int) -> list[Memory]:
        """The newest memories of the scope. Cheaper than a page, for nothing is counted."""

    def latest(self, scope: Scope, limit: int) -> list[Memory]:
        """The memories of the scope that were said last, by `created_at`: what is imported may be older than its id."""

    def nearest(self, vector: Vector, k: int, scope: Scope, *, also: Iterable[int] = ()) -> list[Candidate]:
        """The k memories of the scope with the highest cosine, best first, then those of `also` not among them."""

    def matching(self, words: Sequence[str], k: int, scope: Scope) -> Matching:
        """The k memories of the scope with the highest BM25 for any of the words, best first; half weight for context.

        In a large store the commonest of the words may be left out. Words are taken as they are: no operators.
        """

    def holding(self, words: Sequence[str], ids: Sequence[int]) -> dict[int, list[str]]:
        """Which of the words each of these memories holds, by the rules of `matching`."""

    def known(self, text: str, scope: Scope) -> list[int]:
        """The ids of the scope's memories that say exactly this, but for case and white space."""

    def pairs(self, threshold: float, scope: Scope) -> Iterator[tuple[int, int, float]]:
        """Each pair of the scope's memories with a cosine of at least the threshold: lower id, higher id, cosine."""

    def neighbours(self, ids: Sequence[int], threshold: float, k: int) -> Iterator[tuple[int, list[Candidate]]]:
        """Of each of these memories, the k nearest among them with a cosine of at least the threshold, best first.

        Those that have none are passed over. Memory and processor are used sparingly: searches go on meanwhile.
        """

    def history(self, memory_id: int) -> list[Change]:
        """Every change of this memory and of those it came from or went into, oldest first."""

    def sightings(self, memory_id: int) -> list[Occurrence]:
        """Every time that the memory, or one that was merged into it, was said: the first time and the others."""

    def projects(self, scope: Scope, limit: int, after: str = "") -> list[tuple[str, int]]:
        """The projects of the scope's memories that come `after` this name, by name; how many memories each has."""

    def repeated(self, least: int, limit: int, scope: Scope) -> list[tuple[str, int, int]]:
        """Who said which memory of the scope how often, at least so many times: agent, id, count; most often first.

        Memories with the same text count as one. What no agent is named for is left out.
        """

    def changeset(self, changeset_id: int) -> Changeset:
        """What that transaction did. NotFound when there was none."""

    def changesets(self, limit: int, *, within: Scope | None = None) -> list[Changeset]:
        """The newest changesets, without their changes; those that changed a memory of the scope, if one is given.

        Where the scope narrows by a viewer alone, also those that changed domain knowledge of which they may see what
        it was then, or had been, where the change removed it.
        """

    def note(self, retrievals: Sequence[Retrieval]) -> None:
        """Log these and move the memories' retrieval counts."""

    def unembedded(self, limit: int, *, among: Sequence[int] | None = None) -> list[Memory]:
        """Memories that have no vector yet, oldest first; among these ids, if given."""

    def put_vectors(self, vectors: Mapping[int, Vector]) -> None:
        """Give memories their vectors, where they had none."""

    def sign(self, signature: str, *, anew: bool = False) -> None:
        """Bind the store to an embedder. Another than before is an EmbedderMismatch; `anew` drops the old vectors.

        From then on, so is a search or a write after another process has bound the store to another embedder.
        """

    def given(self, client: str, session: str) -> dict[int, str]:
        """The memories that this session was given, each with the digest that was noted of its words."""

    def give(self, client: str, session: str, given: Mapping[int, str]) -> None:
        """Note that the session was given these memories; those that are gone meanwhile are passed over."""

    def forget_given(self, client: str, session: str) -> None:
        """Forget what the session was given: it is no longer before the agent."""

    def forget_given_before(self, before: str) -> int:
        """Forget what any session was given before this time; how many memories."""

    def stats(self) -> dict[str, Any]:
        """What keeps it, and counts: memories by state, category, kind, source, changesets, vectors, size on disk."""

    def close(self) -> None:
        """Let go of the files. Further calls fail."""
