"""What the routes take: one struct a route. A struct that was read can become the word that the keeper takes.

Types and ranges of numbers are checked while reading; what a text may hold is for the words of the model to check.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from cofio import bulk, model
from cofio.access import ROLES, Grant
from cofio.chores import PROPOSED
from cofio.conversation import STATES, Exchange
from cofio.domain import DIRECTIONS, PERIODS, RELATIONS, VERDICTS
from cofio.errors import InvalidInput
from cofio.keeper import MAX_PAGE
from cofio.model import (
    CATEGORIES,
    EDITABLE,
    KINDS,
    MAX_HITS,
    MAX_LABEL,
    METHODS,
    VISIBILITIES,
    Fact,
    Query,
    Scope,
    checked_text,
    moment,
)
from cofio.picture import MOST_DAYS, MOST_DOTS
from cofio.sessions import RESUME_TOKENS, RESUMED

MAX_QUERIES = 100
MAX_MEMORIES = 1_000


def _text(says: str, known: Iterable[str] = ()) -> Any:
    return Meta(description=says, extra_json_schema={"enum": list(known)} if known else None)


Id = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Share = Annotated[float, Meta(ge=0, le=1)]
Time = str | int | float
Source = Annotated[str, _text("Where it belongs: client/project.")]
Project = Annotated[str, _text("The project that it holds in: the path of its working tree, or a name.")]
SeenFrom = Annotated[str, _text("What matters in this project: its own, what belongs to none, what is global.")]
Kind = Annotated[str, _text("What sort of fact it is.", KINDS)]
Category = Annotated[str, _text("How long it matters.", CATEGORIES)]
Method = Annotated[str, _text("How it was learned.", METHODS)]
Visibility = Annotated[str, _text("Who may see it.", VISIBILITIES)]
Why = Annotated[str, _text("The reason, for the journal.")]
Deduplicated = Annotated[bool, _text("A known fact is noted as seen again, not kept twice.")]
DryRun = Annotated[bool, _text("Only tell what would be done.")]


class Given(Struct, kw_only=True, forbid_unknown_fields=True):
    """What every schema shares."""

    def given(self, names: Iterable[str]) -> dict[str, Any]:
        """The fields of these names that were sent."""
        values = {name: getattr(self, name, UNSET) for name in names}
        return {name: value for name, value in values.items() if value is not UNSET}

    def reason(self) -> str:
        """The `why` that was sent, in those that take one."""
        return checked_text(getattr(self, "why", ""), "why", MAX_LABEL)


class Reason(Given):
    why: Why = ""


class Within(Given):
    """The fields that narrow; what is left out does not."""

    source: Annotated[str, _text("Exactly this source.")] | UnsetType = UNSET
    source_prefix: Annotated[str, _text("This source and what lies below it.")] | UnsetType = UNSET
    project: Annotated[str, _text("Exactly this project; empty: what belongs to none.")] | UnsetType = UNSET
    seen_from: SeenFrom | UnsetType = UNSET
    category: Category | UnsetType = UNSET
    kind: Kind | UnsetType = UNSET
    method: Method | UnsetType = UNSET
    tags: Annotated[list[str], _text("All of them.")] | UnsetType = UNSET
    session: str | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    user: Annotated[str, _text("Exactly this user's; empty: what has none.")] | UnsetType = UNSET
    team: Annotated[str, _text("Exactly this team's.")] | UnsetType = UNSET
    visibility: Annotated[list[str], _text("Any of them.")] | UnsetType = UNSET
    since: Annotated[Time, _text("Created at this time or later.")] | UnsetType = UNSET
    until: Annotated[Time, _text("Created at this time or earlier.")] | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET
    include_archived: bool | UnsetType = UNSET

    def within(self) -> dict[str, Any]:
        """The fields of a Scope that were sent."""
        return _timed(self.given(_SCOPE), "since", "until")


class Search(Within, kw_only=True):
    query: Annotated[str, _text("What to look for, in words.")]
    k: Annotated[int, Meta(ge=1, le=MAX_HITS, description="How many hits at most.")] = 5
    skip: Annotated[int, Meta(ge=0, le=MAX_HITS, description="Of the best, how many are passed over.")] = 0
    hybrid: Annotated[bool, _text("Words too, not only vectors.")] = True
    threshold: Annotated[float, Meta(ge=-1, le=1, description="The least cosine similarity of any hit.")] = -1.0
    min_score: Annotated[Share, _text("The least score of any hit.")] = 0.0
    explain: Annotated[bool, _text("Tell why each hit is where it is.")] = False
    noted: Annotated[bool, _text("Whether the hits count as recalled; false for a person who looks around.")] = True

    def as_query(self) -> Query:
        how = self.given(("k", "skip", "hybrid", "threshold", "min_score", "explain", "noted"))
        return Query(text=self.query, scope=Scope(**self.within()), **how)


class SearchEpisodes(Given, kw_only=True):
    query: Annotated[str, _text("What to look for, in words.")]
    k: Annotated[int, Meta(ge=1, le=MAX_HITS, description="Episodes to return at most.")] = 5
    skip: Annotated[int, Meta(ge=0, le=MAX_HITS, description="Episodes to skip, for the next page.")] = 0
    min_score: Annotated[Share, _text("The least score of any hit.")] = 0.0
    source: Annotated[str, _text("Exactly this source.")] | UnsetType = UNSET
    source_prefix: Annotated[str, _text("This source and those below it.")] | UnsetType = UNSET
    project: Annotated[str, _text("Exactly this project; empty: those without one.")] | UnsetType = UNSET
    seen_from: SeenFrom | UnsetType = UNSET
    session: str | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    since: Annotated[Time, _text("Said at this time or later.")] | UnsetType = UNSET
    until: Annotated[Time, _text("Said at this time or earlier.")] | UnsetType = UNSET

    def how(self) -> dict[str, Any]:
        """Return the arguments of `Keeper.search_episodes` that were sent, but for the query."""
        names = [name for name in self.__struct_fields__ if name != "query"]
        return _timed(self.given(names), "since", "until")


class Recall(Given):
    prompt: Annotated[str, _text("What the user said; empty at the start of a session.")] = ""
    project: Annotated[str, _text("The project at hand: the path of its working tree, or a name.")] = ""
    k: Annotated[int, Meta(ge=1, le=50, description="Memories at most; by default 5, at a start what fits.")] | None = (
        None
    )
    client: Annotated[str, _text("The client that asks, such as claude-code.")] = ""
    session: Annotated[str, _text("The session that asks: memories that were learned in it are left out.")] = ""


class RecallContext(Given, kw_only=True):
    query: Annotated[str, _text("What is looked at, or asked; values in it are held against thresholds.")]
    max_memories: Annotated[int, Meta(ge=0, le=50, description="How many memories at most.")] = 3
    max_patterns: Annotated[int, Meta(ge=0, le=50, description="How many patterns at most.")] = 5
    max_thresholds: Annotated[int, Meta(ge=0, le=50, description="How many thresholds at most.")] = 5
    at: Annotated[str, Meta(description="When it is, for what is seasonal; default now.")] = ""


class SearchAll(Given, kw_only=True):
    each: ClassVar[type[Given]] = Search
    queries: Annotated[list[Search | str], Meta(min_length=1, max_length=MAX_QUERIES)]

    def as_queries(self) -> list[Query]:
        queries = []
        for place, each in enumerate(self.queries):
            with told_at(f"queries[{place}]"):
                queries.append(Query(text=each) if isinstance(each, str) else each.as_query())
        return queries


class About(Given):
    """What can be said about a fact beside its text."""

    source: Source | UnsetType = UNSET
    project: Project | UnsetType = UNSET
    kind: Kind | UnsetType = UNSET
    category: Category | UnsetType = UNSET
    confidence: Share | UnsetType = UNSET
    method: Method | UnsetType = UNSET
    entities: list[str] | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    session: str | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    user: Annotated[str, _text("Whose it is.")] | UnsetType = UNSET
    team: Annotated[str, _text("Whose team's.")] | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    speaker: Annotated[str, _text("Who said it.")] | UnsetType = UNSET
    context: Annotated[str, _text("What was said just before; helps to find it.")] | UnsetType = UNSET
    created_at: Annotated[Time, _text("ISO 8601, or seconds or milliseconds since 1970.")] | UnsetType = UNSET
    timestamp: Annotated[Time, _text("The same as created_at.")] | UnsetType = UNSET
    origin: Annotated[str, _text("Where it was imported from, and its name there.")] | UnsetType = UNSET

    def about(self) -> dict[str, Any]:
        """The fields of a Fact that were sent."""
        if self.created_at is not UNSET and self.timestamp is not UNSET:
            raise InvalidInput("created_at and timestamp are the same field.", "Send one of them.")
        sent = _timed(self.given((*_FACT, "timestamp")), "created_at", "timestamp")
        if "timestamp" in sent:
            sent["created_at"] = sent.pop("timestamp")
        return sent


class Item(About, kw_only=True):
    text: Annotated[str, _text("The fact, as a sentence.")]

    def as_fact(self) -> Fact:
        return Fact(text=self.text, **self.about())


class Add(Item):
    deduplicate: Deduplicated = True
    why: Why = ""


class AddAll(Given, kw_only=True):
    each: ClassVar[type[Given]] = Item
    memories: Annotated[list[Item], Meta(min_length=1, max_length=MAX_MEMORIES)]
    deduplicate: Deduplicated = True
    why: Why = ""

    def as_facts(self) -> list[Fact]:
        facts = []
        for place, each in enumerate(self.memories):
            with told_at(f"memories[{place}]"):
                facts.append(each.as_fact())
        return facts


class Fields(Given):
    """Any of the fields that can be changed in place."""

    text: str | UnsetType = UNSET
    source: Source | UnsetType = UNSET
    project: Project | UnsetType = UNSET
    category: Category | UnsetType = UNSET
    kind: Kind | UnsetType = UNSET
    confidence: Share | UnsetType = UNSET
    entities: list[str] | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    session: str | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    user: str | UnsetType = UNSET
    team: str | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    speaker: str | UnsetType = UNSET
    context: str | UnsetType = UNSET
    pinned: bool | UnsetType = UNSET

    def changes(self) -> dict[str, Any]:
        sent = self.given(EDITABLE)
        if not sent:
            raise InvalidInput("There is nothing to change.", f"Send any of: {', '.join(EDITABLE)}.")
        return sent


class Edit(Fields):
    why: Why = ""


class Bulk(Given, kw_only=True):
    ids: Annotated[list[Id], Meta(min_length=1, max_length=bulk.MOST)]
    action: Annotated[str, _text("What to do to all of them.", bulk.ACTIONS)]
    changes: Annotated[Fields, Meta(description="What edit changes, all but the text.")] | UnsetType = UNSET
    tags: Annotated[list[str], _text("What tag adds, and untag takes away.")] = []
    why: Why = ""

    def fields(self) -> dict[str, Any]:
        """What is to be changed of each."""
        return {} if self.changes is UNSET else self.changes.changes()


class Flush(About, kw_only=True):
    summary: Annotated[str, _text("What is to be remembered, as Markdown.")]


class IndexNotes(Given):
    folder: Annotated[str, _text("The whole path of a folder of the service's machine; else the notes folder.")] = ""
    label: Annotated[str, _text("What the folder is called in the sources of its memories; else by its name.")] = ""
    dry_run: DryRun = False


class ExportNotes(Within, kw_only=True):
    folder: Annotated[str, _text("The whole path of a folder of the service's machine.")]


class Delete(Given):
    purge: Annotated[bool, _text("Erase it for good, from the journal too.")] = False
    why: Why = ""


class Supersede(About, kw_only=True):
    old_id: Id
    new_text: Annotated[str, _text("What holds now, as a sentence.")]
    why: Why = ""


class IsNovel(Within, kw_only=True):
    text: str
    speaker: str = ""
    threshold: Annotated[Share, _text("The cosine from which it may be known already.")] | UnsetType = UNSET


class Deduplicate(Given):
    threshold: Annotated[Share, _text("The cosine from which two may say the same.")] | UnsetType = UNSET
    source_prefix: str = ""
    dry_run: DryRun = True
    why: Why = ""


class Consolidate(Given):
    source_prefix: Annotated[str, _text("Of this source and what lies below it.")] = ""
    dry_run: DryRun = True
    why: Why = ""


class Prune(Given):
    dry_run: DryRun = True
    why: Why = ""


class Approved(Given, kw_only=True, rename={"why": "reason"}):
    """One decision of a dry run, as that showed it."""

    action: Literal["merge", "delete"]
    id: Annotated[Id, _text("Of delete: the memory that goes.")] | UnsetType = UNSET
    ids: Annotated[list[Id], _text("Of merge: the memories that go.")] | UnsetType = UNSET
    into: Annotated[Id, _text("Of delete: the memory that stands for it from now on.")] | UnsetType = UNSET
    text: Annotated[str, _text("Of merge: what takes their place.")] | UnsetType = UNSET
    why: Why = ""

    def as_decision(self) -> model.Decision:
        names = ("ids", "text") if self.action == "merge" else ("id", "into")
        sent = self.given(("id", "ids", "into", "text"))
        if not set(names) - {"into"} <= sent.keys() <= set(names):
            raise InvalidInput(f"This {self.action} is not whole, or more.", f"It has: {', '.join(names)}.")
        why = checked_text(self.why, "reason", model.MAX_TEXT)
        if self.action == "merge":
            return model.Merge(tuple(sent["ids"]), Fact(text=sent["text"]), why)
        return model.Delete(sent["id"], why, sent.get("into"))


class Approve(Given, kw_only=True):
    each: ClassVar[type[Given]] = Approved
    chore: Annotated[str, _text("Whose decisions they are.", PROPOSED)]
    as_of: Annotated[int, Meta(ge=0, description="The `as_of` of the dry run that showed them.")]
    decisions: Annotated[list[Approved], Meta(min_length=1, max_length=MAX_MEMORIES)]
    why: Why = ""

    def as_decisions(self) -> list[model.Decision]:
        decisions = []
        for place, each in enumerate(self.decisions):
            with told_at(f"decisions[{place}]"):
                decisions.append(each.as_decision())
        return decisions


class Agree(Given, kw_only=True):
    ids: Annotated[list[Id], _text("The two memories that both hold.")]
    why: Why = ""


class Contradictions(Given):
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE, description="How many pairs are shown.")] = 50


class Runs(Given):
    chore: Annotated[Literal["", "consolidate", "prune", "backup"], _text("Of this chore alone.")] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 20


class Usage(Within):
    view: Annotated[Literal["never", "most", "stale"], _text("Recalled never, most, or not for long.")] = "most"
    days: Annotated[int, Meta(ge=0, le=36_500, description="How long not, for stale.")] = 90
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50


class LLMUsage(Given):
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE, description="Newest calls listed, at most.")] = 20


class TeamFacts(Given):
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    category: Annotated[str, _text("Of this category, or of this kind.", (*CATEGORIES, *KINDS))] = ""
    team: Annotated[str, _text("Of exactly this team, where several may be seen.")] | UnsetType = UNSET


class TeamPatterns(TeamFacts):
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 20
    min_occurrences: Annotated[int, Meta(ge=1, le=1_000_000, description="How often at least.")] = 2


class Enrich(Given, kw_only=True):
    query: Annotated[str, _text("What the user says, or asks.")]
    session: Annotated[str, _text("What was said in this session is personal; else all that is one's own.")] = ""
    include_team: Annotated[bool, _text("What the team knows, too.")] = False
    max_facts: Annotated[int, Meta(ge=1, le=50, description="How many facts of either at most.")] = 5


class Audit(Given):
    examples: Annotated[int, Meta(ge=0, le=100, description="How many of each finding are shown.")] = 5


class Export(Given):
    vectors: Annotated[bool, _text("Whether the vectors come along.")] = False


class Listing(Within):
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    after: Annotated[Id, _text("The `next` of the page before.")] | UnsetType = UNSET
    skip: Annotated[int, Meta(ge=0, le=2**62, description="How many of them are passed over.")] = 0


class Overview(Given):
    days: Annotated[int, Meta(ge=1, le=MOST_DAYS, description="How many are told of, today among them.")] = 30


class Mapped(Within):
    most: Annotated[int, Meta(ge=1, le=MOST_DOTS, description="How many at most, the newest.")] = MOST_DOTS


class Agents(Given):
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 100


class Projects(Given):
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 100
    after: Annotated[str, _text("The name of the last one of the page before.")] = ""


class Sessions(Given):
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 20
    client: Annotated[str, _text("The client that they are of, such as claude-code.")] = ""
    project: (
        Annotated[str, _text("With a turn in this project, by path or folder name; empty: in none.")] | UnsetType
    ) = UNSET
    since: Annotated[Time, _text("With turns from this time on.")] | UnsetType = UNSET

    def narrowed(self) -> dict[str, Any]:
        """Return the arguments of `Keeper.sessions` that were sent."""
        return _timed(self.given(("limit", "client", "project", "since")), "since")


class OneSession(Given, kw_only=True):
    session: Annotated[str, Meta(min_length=1, description="The id, or a unique prefix of it.")]
    client: Annotated[str, _text("The client that it is of, where several have an id that begins so.")] = ""
    owner: (
        Annotated[str, _text("The user or agent whose it is, where several have one; empty: nobody.")] | UnsetType
    ) = UNSET


class Resume(Given):
    project: (
        Annotated[str, _text("This project, by path or folder name; empty: no project. Else every one.")] | UnsetType
    ) = UNSET
    limit: Annotated[int, Meta(ge=1, le=20, description="Sessions at most.")] = RESUMED
    max_tokens: Annotated[int, Meta(ge=100, le=20_000, description="Tokens of the text at most.")] = RESUME_TOKENS


class DeleteAll(Given, kw_only=True):
    source: Annotated[str, _text("This source and what lies below it.")]
    dry_run: DryRun = True
    why: Why = ""

    def prefix(self) -> str:
        """The source, once it is known to name one: an empty prefix would be everything."""
        if not self.source.strip().strip("/"):
            raise InvalidInput("The source is empty.", "Name the source whose memories are to go.")
        return self.source


class Heard(Given, kw_only=True):
    """What can be said about what was said."""

    source: Source = ""
    project: Project = ""
    client: Annotated[str, _text("Which client hands it over.")] = ""
    session: str = ""
    turn: Annotated[str, _text("Names the turn within the session: the same one is taken once.")] = ""
    agent: str = ""
    user: Annotated[str, _text("Whose memories it makes.")] = ""
    team: str = ""
    visibility: Visibility = "private"
    at: Annotated[Time, _text("When it was said; now, when it is left out.")] | UnsetType = UNSET
    injected: Annotated[list[str], _text("What the agent was shown: that is not news.")] = []
    dry_run: Annotated[bool, _text("Only tell what would be learned.")] = False

    def about(self) -> dict[str, Any]:
        """The fields of an Exchange that were sent, beside the messages."""
        sent = _timed(self.given(_EXCHANGE), "at")
        return {**sent, "injected": tuple(self.injected)}


class Said(Heard, kw_only=True):
    """What was said, and where."""

    messages: Annotated[str | list[dict[str, Any]], _text("A text, or messages with role and content, oldest first.")]
    context: Annotated[
        str,
        _text(
            "Which event hands it over: stop, pre_compact, session_end, after_agent; or analysis: an agent's report, "
            "which is read for domain knowledge."
        ),
    ] = "stop"


class Capture(Said, kw_only=True):
    wait: Annotated[bool, _text("Learn from it now, and answer with the result.")] = False
    series: Annotated[int, Meta(ge=0), _text("The series of a backfill that it belongs to; 0 for none.")] = 0


class Nothing(Given):
    """A body without fields."""


class Turns(Given):
    client: Annotated[str, _text("Which client captured it.")]
    session: str
    any_key: Annotated[bool, _text("With an admin key: the turns of every key's session too.")] = False


class Observe(Heard, kw_only=True):
    validated_intent: Annotated[str, _text("What the user meant, as it was checked.")] = ""
    response: Annotated[str, _text("What was answered: it counts like the user's own words.")]
    session: Annotated[str, _text("The activity that was watched.")] = ""
    dialogue: Annotated[str, _text("Names the dialogue within the session, as turn does: it is taken once.")] = ""
    visibility: Visibility = "team"
    wait: Annotated[bool, _text("Learn from it now, and answer with the result.")] = False

    def about(self) -> dict[str, Any]:
        if self.dialogue and self.turn:
            raise InvalidInput("dialogue and turn are the same field.", "Send one of them.")
        return {**Heard.about(self), "turn": self.dialogue or self.turn}


class Extract(Said, kw_only=True, rename={"later": "async"}):
    later: Annotated[bool, _text("Answer with a job at once; the result comes later.")] = False


class Inbox(Given):
    state: Annotated[str, _text("Only those that stand so.", STATES)] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    after: Annotated[Id, _text("The `next` of the page before.")] | UnsetType = UNSET


class Changes(Given):
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 20


class Owned(Given):
    """Whose a row of domain knowledge is, and where it was told."""

    place: Annotated[str, _text("The source of memories that it was told in: client/project.")] | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    user: Annotated[str, _text("Whose it is.")] | UnsetType = UNSET
    team: Annotated[str, _text("Whose team's.")] | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET


class NewKnowledge(Owned):
    """The fields of a row: which of them it takes, and which it needs, depends on its table."""

    id: Annotated[str, _text("Its name within the table; else made of what it says.")] | UnsetType = UNSET
    confidence: Annotated[Share, _text("How sure it is from now on; else as before, at first 0.5.")] | UnsetType = UNSET
    pattern: Annotated[str, _text("What tends to happen: patterns and seasonal.")] | UnsetType = UNSET
    source: Annotated[str, _text("Where it shows: a market, a host, a sensor; * is any.")] | UnsetType = UNSET
    source_a: Annotated[str, _text("The one side of a correlation.")] | UnsetType = UNSET
    source_b: Annotated[str, _text("The other side.")] | UnsetType = UNSET
    rule: Annotated[str, _text("How the two go together, in words.")] | UnsetType = UNSET
    relation: Annotated[str, _text("Whether the one leads the other.", RELATIONS)] | UnsetType = UNSET
    inverse: Annotated[bool, _text("When the one rises, the other falls.")] | UnsetType = UNSET
    metric: Annotated[str, _text("What a threshold is of: volume, latency.")] | UnsetType = UNSET
    value: Annotated[float, _text("From which value on.")] | UnsetType = UNSET
    direction: Annotated[str, _text("On which side of the value.", DIRECTIONS)] | UnsetType = UNSET
    inclusive: Annotated[bool, _text("Whether the value itself counts.")] | UnsetType = UNSET
    unit: Annotated[str, _text("The value's unit: %, ms, GB, $.")] | UnsetType = UNSET
    period: Annotated[str, _text("How often it comes round.", PERIODS)] | UnsetType = UNSET
    during: Annotated[str, _text("When in the period: mon-fri, 09:30-16:00, a cron text.")] | UnsetType = UNSET
    lasts: Annotated[int, Meta(ge=1, description="Minutes, from each time of a cron text on.")] | UnsetType = UNSET
    timezone: Annotated[str, _text("Whose clock `during` goes by.")] | UnsetType = UNSET
    memory: Annotated[Id, _text("The memory that says it in words.")] | UnsetType | None = UNSET
    created_at: Annotated[Time, _text("When it was first known; of one that is there it stays.")] | UnsetType = UNSET
    why: Why = ""

    def known(self) -> dict[str, Any]:
        """The fields of a row that were sent."""
        return _timed(self.given(name for name in self.__struct_fields__ if name != "why"), "created_at")


class NewVerdict(Owned, kw_only=True):
    anomaly: Annotated[str, _text("Names what was judged; a later verdict on the same takes this one's place.")]
    verdict: Annotated[str, _text("Whether it was one.", VERDICTS)]
    note: Annotated[str, _text("What was found out.")] = ""
    about: Annotated[list[str], _text("The claims that had raised it: thresholds/aapl.volume.above.")] = []
    process: Annotated[bool, _text("Move what it judges now; else only keep it.")] = True
    id: Annotated[str, _text("Its name; else made of the anomaly's.")] | UnsetType = UNSET
    why: Why = ""

    def known(self) -> dict[str, Any]:
        """What it says beside the anomaly and the verdict."""
        whose = self.given(("id", *Owned.__struct_fields__))
        return {"note": self.note, "about": tuple(self.about), "process": self.process, **whose}


class RowListing(Owned):
    """The fields that narrow a table; what is left out does not."""

    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    after: Annotated[str, _text("The `next` of the page before.")] | UnsetType = UNSET

    def where(self) -> dict[str, Any]:
        """The fields of a row that were sent."""
        return self.given(name for name in self.__struct_fields__ if name not in ("limit", "after", "min_confidence"))


class KnowledgeListing(RowListing):
    min_confidence: Annotated[Share, _text("The least confidence of any row.")] = 0.0
    source: Annotated[str, _text("Of this source.")] | UnsetType = UNSET
    source_a: str | UnsetType = UNSET
    source_b: str | UnsetType = UNSET
    relation: Annotated[str, _text("Of this relation.", RELATIONS)] | UnsetType = UNSET
    metric: Annotated[str, _text("Of this metric.")] | UnsetType = UNSET
    direction: Annotated[str, _text("Of this direction.", DIRECTIONS)] | UnsetType = UNSET
    unit: str | UnsetType = UNSET
    period: Annotated[str, _text("Of this period.", PERIODS)] | UnsetType = UNSET
    memory: Annotated[Id, _text("What this memory says.")] | UnsetType = UNSET


class FeedbackListing(RowListing):
    anomaly: str | UnsetType = UNSET
    verdict: Annotated[str, _text("These verdicts alone.", VERDICTS)] | UnsetType = UNSET
    processed: Annotated[bool, _text("Whether what they judge has moved by them.")] | UnsetType = UNSET


class Evaluate(Given, kw_only=True):
    source: Annotated[str, _text("What was measured: a market, a host, a sensor.")]
    metric: Annotated[str, _text("What of it: volume, latency.")]
    value: float
    unit: Annotated[str, _text("The value's unit; a threshold in another one is passed over.")] = ""


class ActiveAt(Given):
    at: Annotated[Time, _text("The time; now, when it is left out.")] | UnsetType = UNSET
    source: Annotated[str, _text("Of this source alone.")] = ""

    def moment(self) -> str:
        """The time that was sent, or "" for now."""
        return str(_timed(self.given(("at",)), "at").get("at", ""))


class RelatedTo(Given, kw_only=True):
    source: Annotated[str, _text("Where the walk begins.")]
    depth: Annotated[int, Meta(ge=1, description="How many steps away, at most.")] = 1


class ReadText(Given, kw_only=True):
    text: Annotated[str, _text("What an agent said.")]


class NewKey(Given, kw_only=True):
    name: Annotated[str, _text("Whose it is, or what for.")]
    role: Annotated[str, _text("What it allows.", ROLES)] = "write"
    agent: Annotated[str, _text("The agent that it is for.")] = ""
    user: Annotated[str, _text("The user that it is for.")] = ""
    team: Annotated[str, _text("Their team.")] = ""
    prefixes: Annotated[list[str], _text("The sources that it may see and write, with what lies below; else all.")] = []
    expires_at: Annotated[Time, _text("When it stops to open anything; else never.")] | None = None

    def as_grant(self) -> Grant:
        about = {name: getattr(self, name) for name in ("name", "role", "agent", "user", "team")}
        expires = None if self.expires_at is None else moment(self.expires_at)
        return Grant(**about, prefixes=tuple(self.prefixes), expires_at=expires)


class Deeds(Given):
    key: Annotated[Id, _text("Of what was done with this key.")] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    after: Annotated[Id, _text("The `next` of the page before.")] | UnsetType = UNSET


class Examine(Given):
    about: Annotated[Literal["everything", "clients"], _text("What is looked at: clients, their hooks alone.")] = (
        "everything"
    )


_EXCHANGE = tuple(name for name in Exchange.__dataclass_fields__ if name != "messages")
_SCOPE = tuple(name for name in Scope.__dataclass_fields__ if name != "viewer")  # nobody says so of themselves
_FACT = tuple(name for name in Fact.__dataclass_fields__ if name != "text")


@contextmanager
def told_at(place: str) -> Iterator[None]:
    """Whatever cannot be taken inside says where it stood."""
    try:
        yield
    except InvalidInput as error:
        raise type(error)(f"{place}: {error.message}", error.hint) from error


def _timed(sent: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        if sent.get(name, "") != "":
            with told_at(name):
                sent[name] = moment(sent[name])
    return sent
