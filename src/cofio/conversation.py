"""The words of the way in: what was said, what was made of it, and what became of it.

    Exchange ─ gate ─▶ Verdict ─ extract ─▶ [Found] ─ reconcile ─▶ [Settled] ─ store.apply ─▶ Learned
    Exchange ─ inbox ─▶ Item, until it is settled; the Ledger counts them all

Part of the words, beside `model`: frozen values that check themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, NamedTuple

from cofio.errors import InvalidInput
from cofio.model import MAX_LABEL, VISIBILITIES, Decision, Delete, Fact, checked_text, moment, plain

Role = Literal["user", "assistant"]
Way = Literal["skip", "pattern", "model"]
Task = Literal["learn", "extract"]
State = Literal["pending", "parked", "stored", "merged", "rejected"]

ROLES: tuple[Role, ...] = ("user", "assistant")
#: A capture is with us until it is settled: stored, merged or rejected. A parked one waits for a person.
OPEN: tuple[State, ...] = ("pending", "parked")
SETTLED: tuple[State, ...] = ("stored", "merged", "rejected")
STATES: tuple[State, ...] = (*OPEN, *SETTLED)

ANALYSIS = "analysis"  # the context of what an agent reports that watches a domain
COMPACT_SUMMARY = "compact_summary"  # the context of a summary that compacts a conversation: nothing is learned from it
OBSERVATION = "observation"  # the context of a dialogue that somebody watched and checked: both sides' words count
REVIEW = "review"  # the context of turns that are read once more, together, before the agent loses sight of them
#: The tag around a prompt of our own to a coding agent: what is said in such a session is not captured.
OWN_REQUEST = "cofio-request"
NOTHING_FOUND = "The model found nothing worth keeping"  # the reason of a capture that it read
MAX_SAID = 65_536  # characters of one exchange; of a longer one the newest, of a longer message both ends


class Message(NamedTuple):
    """What one side said."""

    role: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What was said in one turn, clean: without what tools and clients put in, without secrets.

    (client, session, turn) names it: the same turn delivered twice is one exchange. A turn alone names nothing.
    """

    messages: tuple[Message, ...]
    source: str = ""
    project: str = ""  # where it was said: the path of a working tree, or a name
    context: str = "stop"  # which event handed it over; "pre_compact" asks for more thoroughness
    client: str = ""
    session: str = ""
    turn: str = ""
    agent: str = ""
    user: str = ""  # whose memories it makes
    team: str = ""
    visibility: str = "private"
    reach: tuple[str, ...] = ()  # the sources that whoever tells it may see; all when empty
    by_key: bool = False  # told by whoever has a key: nothing on this machine is looked at for them
    at: str = ""  # when it was said; "" is filled when it is received
    injected: tuple[str, ...] = ()  # what was put before the agent (recalled memories, boot files): not news
    series: int = 0  # of a backfill: the first changeset of its series, which is undone as one

    def __post_init__(self) -> None:
        for name in ("source", "project", "context", "client", "session", "turn", "agent", "user", "team"):
            object.__setattr__(self, name, checked_text(getattr(self, name), name, MAX_LABEL).strip())
        if self.visibility not in VISIBILITIES:
            raise InvalidInput(f"visibility is {self.visibility!r}.", f"It is one of: {', '.join(VISIBILITIES)}.")
        if self.at:
            object.__setattr__(self, "at", moment(self.at))

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` reads them back."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        told["messages"] = [{"role": each.role, "text": each.text} for each in self.messages]
        told.update(injected=list(self.injected), reach=list(self.reach))
        return told

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Exchange:
        """The exchange that `as_dict` wrote; keys of later versions are passed over."""
        known = {each.name: told[each.name] for each in fields(cls) if each.name in told}
        known["messages"] = tuple(Message(each["role"], each["text"]) for each in known.get("messages", ()))
        known.update({name: tuple(known.get(name, ())) for name in ("injected", "reach")})
        return cls(**known)


def dialogue(validated_intent: str, response: str) -> list[dict[str, str]]:
    """The messages of an observed dialogue: what the user meant, and what was answered."""
    for name, value in (("validated_intent", validated_intent), ("response", response)):
        if not isinstance(value, str):
            raise InvalidInput(f"{name} is {type(value).__name__}.", "Give a text.")
    if not response.strip():
        raise InvalidInput("The response is empty.", "An observation is what was answered, with what was meant by it.")
    return [{"role": "user", "content": validated_intent}, {"role": "assistant", "content": response}]


# ── gate and extract ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A fact that was found in what was said, before it is known whose and from where."""

    text: str
    kind: str = "other"
    category: str = ""  # "" is filled from the kind
    confidence: float = 1.0
    method: str = "pattern"
    entities: tuple[str, ...] = ()
    said: str = ""  # the sentence that says it
    role: str = "user"  # who said it
    about: str = "project"  # or "person": such a fact holds in every project
    tentative: bool = False  # not worth keeping by itself; only where it changes what is known
    is_message: bool = False  # all of a message in which no fact was found


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """What the gate makes of one sentence: which way it goes, and why."""

    text: str
    role: str
    way: Way
    reason: str
    found: tuple[Found, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate makes of an exchange: the sentences, and what follows for the whole."""

    sentences: tuple[Sentence, ...]

    @property
    def found(self) -> tuple[Found, ...]:
        """Every fact that a pattern found, in the order in which they were said."""
        return tuple(each for sentence in self.sentences for each in sentence.found)

    @property
    def way(self) -> Way:
        """The furthest way that any sentence goes."""
        ways = {sentence.way for sentence in self.sentences}
        return "model" if "model" in ways else "pattern" if "pattern" in ways else "skip"

    @property
    def reason(self) -> str:
        """Why it goes that way: the reason of its first sentence that does."""
        return next((each.reason for each in self.sentences if each.way == self.way), "Nothing was said")


# ── reconcile ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What is to become of one fact: the decision, or, where there is none, why it is left out."""

    fact: Fact
    decision: Decision | None = None
    reason: str = ""
    also: tuple[Delete, ...] = ()  # further memories that the fact makes untrue
    chance: float = 0.0  # probability that a new fact changes a memory that is left beside it
    ends: bool = False  # the memory that is replaced has ended; what the fact says beyond that is not known

    @property
    def action(self) -> str:
        return str(plain(self.decision)["action"]) if self.decision else "rejected"

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All that is to be done about it."""
        return (self.decision, *self.also) if self.decision else ()


# ── what became of it ─────────────────────────────────────────────────────────────────────────────────────────────────


class Usage(NamedTuple):
    """What the model was paid for. The input tokens include those that a prompt cache was read or written for."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: object) -> Usage:
        if not isinstance(other, Usage):
            return NotImplemented
        return Usage(*(one + two for one, two in zip(self, other, strict=True)))

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Usage:
        """Return the usage that `_asdict` wrote; keys of later versions are ignored."""
        return cls(**{name: told[name] for name in cls._fields if name in told})


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What became of one exchange: an action a fact, and why the rest was left."""

    actions: tuple[Mapping[str, Any], ...] = ()
    knowledge: tuple[Mapping[str, Any], ...] = ()  # what was done to rows of domain knowledge: action, ref, says
    method: str = "none"  # pattern, llm or none
    reason: str = ""  # why nothing was learned, or what went wrong on the way
    missed: int = 0  # sentences that looked like facts and that no pattern read
    sentences: tuple[Sentence, ...] = ()  # what the gate made of each
    usage: Usage = Usage()
    seconds: float = 0.0
    changeset: int | None = None
    dry_run: bool = False

    def count(self, action: str) -> int:
        return sum(each["action"] == action for each in self.actions)

    @property
    def state(self) -> State:
        """How the capture is settled by this."""
        if any(self.count(action) for action in ("add", "update", "delete")):
            return "stored"
        return "merged" if self.count("noop") else "rejected"

    def as_dict(self) -> dict[str, Any]:
        """The result as clients read it; a dry run shows what the gate made of each sentence too."""
        gate = [
            {"text": each.text, "role": each.role, "way": each.way, "reason": each.reason} for each in self.sentences
        ]
        return {
            "actions": [dict(each) for each in self.actions],
            "knowledge": [dict(each) for each in self.knowledge],
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
    def from_dict(cls, told: Mapping[str, Any]) -> Learned:
        """The result that `as_dict` wrote, but for how long it took; keys of later versions are passed over."""
        known = {name: told[name] for name in ("method", "reason", "missed", "changeset", "dry_run") if name in told}
        sentences = tuple(
            Sentence(text=each["text"], role=each["role"], way=each["way"], reason=each["reason"])
            for each in told.get("sentences", ())
        )
        usage = Usage.from_dict(told.get("usage", {}))
        actions, knowledge = (tuple(told.get(name, ())) for name in ("actions", "knowledge"))
        return cls(actions=actions, knowledge=knowledge, sentences=sentences, usage=usage, **known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An exchange in the inbox, and where it stands."""

    id: int
    task: Task
    state: State
    exchange: Exchange | None  # None once its words are forgotten
    received_at: str
    due_at: str
    finished_at: str | None = None
    attempts: int = 0
    faults: int = 0  # of the attempts, those that failed for a reason that does not pass by itself
    reason: str = ""
    changeset: int | None = None
    result: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        told["exchange"] = self.exchange.as_dict() if self.exchange else None
        told["result"] = dict(self.result)
        return told

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Item:
        """The item that `as_dict` wrote; keys of later versions are passed over."""
        known = {each.name: told[each.name] for each in fields(cls) if each.name in told}
        return cls(**{**known, "exchange": Exchange.from_dict(known["exchange"]) if known["exchange"] else None})


class Batching(NamedTuple):
    """How turns of a session wait to be read together by a language model."""

    seconds: float = 0.0  # of a pause, after which they are read; 0: each is read by itself, at once
    turns: int = 8  # that are read together at most
    characters: int = 24_000


AT_ONCE = Batching()


class Receipt(NamedTuple):
    """What the inbox says to a delivery: which item it is, and whether it is a new one."""

    id: int
    new: bool


class Captured(NamedTuple):
    """What was made of a delivery so far: still pending, or settled with a result."""

    id: int
    new: bool
    state: State
    reason: str = ""
    result: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How an item ends; written in the same transaction as what it changed.

    One that is still pending has got so far: the result says what of it is learned already.
    """

    item: int
    state: State
    reason: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    read: Item | None = None  # as it was when it was read: refused if it has changed since


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Where every capture is. `captured = stored + merged + rejected + pending` holds at any moment."""

    captured: int
    stored: int
    merged: int
    rejected: int
    pending: int  # the parked ones too: nothing of them is lost
    parked: int
    reasons: Mapping[str, int] = field(default_factory=dict)  # why, of the rejected
    oldest: str | None = None  # when the longest waiting one came

    @property
    def balanced(self) -> bool:
        return self.captured == self.stored + self.merged + self.rejected + self.pending

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "reasons": dict(self.reasons), "balanced": self.balanced}
