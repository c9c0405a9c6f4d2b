"""Value types of the write path: exchanges, extracted facts, and the results of capturing them.

    Exchange ─ gate ─▶ Verdict ─ extract ─▶ [Found] ─ reconcile ─▶ [Settled] ─ store.apply ─▶ Learned
    Exchange ─ inbox ─▶ Item, until it is settled; the InboxStatus counts items by state

Like those of `model`, the values are frozen and validate themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypedDict

from cofio.errors import InvalidInput
from cofio.models.json_values import JsonFields, decode
from cofio.models.memory import (
    MAX_LABEL,
    VISIBILITIES,
    Decision,
    Delete,
    Doc,
    Fact,
    Timestamp,
    check_text,
    json_type,
    to_plain,
    to_utc_iso,
)

#: Text to learn from, or messages with roles.
Messages: TypeAlias = str | Sequence[Mapping[str, Any]]
Role = Literal["user", "assistant"]
Way = Literal["skip", "pattern", "model"]
Task = Literal["learn", "extract"]
State = Literal["pending", "parked", "stored", "merged", "rejected"]

ROLES: tuple[Role, ...] = ("user", "assistant")
#: States of captures that are not settled yet. A parked capture waits for manual action.
OPEN: tuple[State, ...] = ("pending", "parked")
SETTLED: tuple[State, ...] = ("stored", "merged", "rejected")
STATES: tuple[State, ...] = (*OPEN, *SETTLED)

ANALYSIS = "analysis"  # context: a report of an agent that monitors a domain
COMPACT_SUMMARY = "compact_summary"  # context: a summary from compaction; nothing is learned from it
OBSERVATION = "observation"  # context: an observed and validated dialogue; both sides are learned from
CANDIDATE = "candidate"  # context: a memory candidate that a person has to approve; it is never learned from by itself
AGENT_TEXT = "agent_text"  # context: a text that an agent wrote, not a turn of a conversation
REVIEW = "review"  # context: turns re-read together before they leave the agent's context window
#: Tag around prompts that cofio itself sends to a coding agent; such sessions are not captured.
OWN_REQUEST = "cofio-request"
NOTHING_FOUND = "The model found nothing worth keeping"  # reason of such a capture
MAX_SAID = 65_536  # characters of an exchange; the newest are kept, of a longer message both ends


class Message(NamedTuple):
    """Message of one side."""

    role: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange(JsonFields):
    """Cleaned content of one turn: without tool output, client-injected text and secrets.

    (client, session, turn) identifies it: the same turn delivered twice is one exchange. A turn alone identifies
    nothing.
    """

    messages: tuple[Message, ...]
    source: str = ""
    project: str = ""  # path of a working tree, or a name
    context: str = "stop"  # event that delivered it; "pre_compact" is read more thoroughly
    client: str = ""
    session: str = ""
    turn: str = ""
    agent: str = ""
    user: str = ""  # owner of the resulting memories
    team: str = ""
    visibility: str = "private"
    reach: tuple[str, ...] = ()  # sources that the sender may see; empty for all
    by_key: bool = False  # sent with an API key: no files of this machine are read for it
    at: str = ""  # time of the turn; "" is set on receipt
    injected: tuple[str, ...] = ()  # text injected into the context (recalled memories, boot files); not learned again
    series: int = 0  # of a backfill: first changeset of its series, which is undone as a whole
    held: Mapping[str, Any] = field(default_factory=dict)  # fields of a candidate that is held for review

    def __post_init__(self) -> None:
        for name in ("source", "project", "context", "client", "session", "turn", "agent", "user", "team"):
            object.__setattr__(self, name, check_text(getattr(self, name), name, MAX_LABEL).strip())
        if self.visibility not in VISIBILITIES:
            raise InvalidInput(
                f"There is no visibility {self.visibility!r}.", f"Give one of: {', '.join(VISIBILITIES)}."
            )
        if self.at:
            object.__setattr__(self, "at", to_utc_iso(self.at))


class ExchangeKwargs(TypedDict, total=False):
    """Keyword arguments for the fields of an Exchange other than its messages."""

    source: Annotated[str, Doc("Source of the exchange, as client/project.")]
    project: Annotated[str, Doc("Project of the exchange: the path of its working tree, or a name.")]
    context: Annotated[
        str,
        Doc(
            "Event that triggered the capture: stop, pre_compact, session_end, after_agent; "
            "or analysis: an agent's report, which is read for domain knowledge."
        ),
    ]
    client: Annotated[str, Doc("Program that sends the exchange, such as claude-code.")]
    session: str
    turn: Annotated[str, Doc("Name of the turn within the session; a turn sent twice is captured once.")]
    agent: str
    user: Annotated[str, Doc("User who owns the memories that are learned.")]
    team: str
    visibility: Annotated[str, Doc("Who may see the memories that are learned.", VISIBILITIES)]
    reach: Sequence[str]
    by_key: bool
    at: Annotated[Timestamp, Doc("Time of the exchange; the default is now.")]
    injected: Annotated[Sequence[str], Doc("Text injected into the agent's context, which is not learned as new.")]
    series: Annotated[int, Doc("Number of the backfill that sends the exchange; 0 for none.", least=0)]


def dialogue(validated_intent: str, response: str) -> list[dict[str, str]]:
    """Return the messages of an observed dialogue: the user's validated intent and the response."""
    for name, value in (("validated_intent", validated_intent), ("response", response)):
        if not isinstance(value, str):
            raise InvalidInput(f"{name} must be a text, not {json_type(value)}.", "Give the text of the dialogue.")
    if not response.strip():
        raise InvalidInput("The response is empty.", "Give the reply of the agent to the user's intent.")
    return [{"role": "user", "content": validated_intent}, {"role": "assistant", "content": response}]


# ── gate and extract ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedFact:
    """Fact extracted from an exchange, before it is assigned an owner and a source."""

    text: str
    kind: str = "other"
    category: str = ""  # "" is derived from the kind
    confidence: float = 1.0
    method: str = "pattern"
    entities: tuple[str, ...] = ()
    said: str = ""  # the sentence it was extracted from
    role: str = "user"  # the speaker
    provenance: str = ""  # whose words they are; "" is derived from the role
    author: str = ""  # writer of pasted text, where it names one
    about: str = "project"  # or "person": valid in every project
    tentative: bool = False  # stored only if it changes an existing memory
    is_message: bool = False  # a whole message in which no fact was found


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """Gate result of one sentence: its route and the reason."""

    text: str
    role: str
    way: Way
    reason: str
    found: tuple[ExtractedFact, ...] = ()


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Gate result of an exchange: its sentences, and the route that follows from them."""

    sentences: tuple[Sentence, ...]

    @property
    def found(self) -> tuple[ExtractedFact, ...]:
        """Return all facts found by patterns, in the order of the text."""
        return tuple(fact for sentence in self.sentences for fact in sentence.found)

    @property
    def way(self) -> Way:
        """Return the furthest route of any sentence."""
        ways = {sentence.way for sentence in self.sentences}
        return "model" if "model" in ways else "pattern" if "pattern" in ways else "skip"

    @property
    def reason(self) -> str:
        """Return the reason of the first sentence on that route."""
        return next((sentence.reason for sentence in self.sentences if sentence.way == self.way), "Nothing was said")


# ── reconcile ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class FactOutcome:
    """Outcome of one fact: the decision or, without one, the reason why it is dropped."""

    fact: Fact
    decision: Decision | None = None
    reason: str = ""
    also: tuple[Delete, ...] = ()  # further memories that the fact invalidates
    chance: float = 0.0  # probability that the new fact changes a memory that is left unchanged
    ends: bool = False  # the fact only reports that the replaced memory has ended

    @property
    def action(self) -> str:
        return str(to_plain(self.decision)["action"]) if self.decision else "rejected"

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Return all decisions about the fact."""
        return (self.decision, *self.also) if self.decision else ()


# ── results ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class TokenUsage(NamedTuple):
    """Token usage of the model. Input tokens include prompt cache reads and writes."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: object) -> TokenUsage:
        if not isinstance(other, TokenUsage):
            return NotImplemented
        return TokenUsage(*(one + two for one, two in zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningResult:
    """Result of one exchange: an action per fact, and the reason if nothing was learned."""

    actions: tuple[Mapping[str, Any], ...] = ()
    knowledge: tuple[Mapping[str, Any], ...] = ()  # changes to domain knowledge rows: action, ref, says
    method: str = "none"  # pattern, llm or none
    reason: str = ""  # why nothing was learned, or an error
    missed: int = 0  # sentences that looked like facts but matched no pattern
    sentences: tuple[Sentence, ...] = ()  # gate results
    usage: TokenUsage = TokenUsage()
    seconds: float = 0.0
    changeset: int | None = None
    dry_run: bool = False

    def count(self, action: str) -> int:
        return sum(entry["action"] == action for entry in self.actions)

    @property
    def state(self) -> State:
        """Return the state of the capture after this result."""
        if any(self.count(action) for action in ("add", "update", "delete")):
            return "stored"
        return "merged" if self.count("noop") else "rejected"

    def as_dict(self) -> dict[str, Any]:
        """Return the result for clients; a dry run includes the gate result of each sentence."""
        gate = [
            {"text": sentence.text, "role": sentence.role, "way": sentence.way, "reason": sentence.reason}
            for sentence in self.sentences
        ]
        return {
            "actions": [dict(action) for action in self.actions],
            "knowledge": [dict(row) for row in self.knowledge],
            "extracted_count": len(self.actions),
            "stored_count": self.count("add"),
            "updated_count": self.count("update"),
            "deleted_count": self.count("delete"),
            "noop_count": self.count("noop"),
            "method": self.method,
            "reason": self.reason,
            "missed": self.missed,
            "usage": self.usage._asdict(),
            "changeset": self.changeset,
            "dry_run": self.dry_run,
            **({"sentences": gate} if self.dry_run else {}),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> LearningResult:
        """Read a result written by `as_dict`, except for its duration; unknown keys are ignored."""
        values = {name: plain[name] for name in ("method", "reason", "missed", "changeset", "dry_run") if name in plain}
        sentences = tuple(
            Sentence(text=sentence["text"], role=sentence["role"], way=sentence["way"], reason=sentence["reason"])
            for sentence in plain.get("sentences", ())
        )
        usage = decode(TokenUsage, plain.get("usage", {}))
        actions, knowledge = (tuple(plain.get(name, ())) for name in ("actions", "knowledge"))
        return cls(actions=actions, knowledge=knowledge, sentences=sentences, usage=usage, **values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item(JsonFields):
    """Inbox item: an exchange and its state."""

    id: int
    task: Task
    state: State
    exchange: Exchange | None  # None once its text was deleted
    received_at: str
    due_at: str
    finished_at: str | None = None
    attempts: int = 0
    faults: int = 0  # attempts that failed for a permanent reason
    reason: str = ""
    changeset: int | None = None
    result: Mapping[str, Any] = field(default_factory=dict)


class Batching(NamedTuple):
    """Batching of a session's turns for the language model."""

    seconds: float = 0.0  # idle time before a batch is processed; 0: each turn is processed at once
    turns: int = 8  # maximum per batch
    characters: int = 24_000


AT_ONCE = Batching()


class Receipt(NamedTuple):
    """Reply of the inbox to a delivery: the item's id, and whether it is new."""

    id: int
    new: bool


class CaptureStatus(NamedTuple):
    """State of a delivery: pending, or settled with a result."""

    id: int
    new: bool
    state: State
    reason: str = ""
    result: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemResolution:
    """Final or intermediate state of an item, written in the same transaction as its changes.

    While the state is pending, the result holds what has been learned so far.
    """

    item: int
    state: State
    reason: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    read: Item | None = None  # the item as it was read: rejected if it has changed since
    is_review: bool = False  # a person settles a parked item


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxStatus:
    """Counts of captures by state. `captured = stored + merged + rejected + pending` always holds."""

    captured: int
    stored: int
    merged: int
    rejected: int
    pending: int  # including parked captures
    parked: int
    reasons: Mapping[str, int] = field(default_factory=dict)  # rejected captures by reason
    oldest: str | None = None  # receipt time of the oldest pending capture

    @property
    def balanced(self) -> bool:
        return self.captured == self.stored + self.merged + self.rejected + self.pending

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "reasons": dict(self.reasons), "balanced": self.balanced}
