"""Captures: conversations are stored durably in the inbox, then learned from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Unpack

from cofio.core.llm_usage import LLMUsageService
from cofio.errors import Conflict, InvalidInput
from cofio.ingest import sanitize
from cofio.ingest.inbox import InboxProcessor
from cofio.ingest.pipeline import Learner
from cofio.ingest.writer import check_author
from cofio.models.exchange import (
    CANDIDATE,
    OBSERVATION,
    STATES,
    CaptureStatus,
    Exchange,
    ExchangeKwargs,
    InboxStatus,
    Item,
    LearningResult,
    Messages,
    State,
    Task,
    dialogue,
)
from cofio.models.llm_calls import exchange_occasion
from cofio.models.maintenance import BACKFILL, MaintenanceRun
from cofio.models.memory import MAX_PAGE, check_int, to_utc_iso
from cofio.stores.access import Access


class CaptureService:
    """Takes conversations in on behalf of one caller, and learns from them."""

    def __init__(self, access: Access, learner: Learner, inbox: InboxProcessor, llm_usage: LLMUsageService) -> None:
        self._access = access
        self._store = access.store
        self._learner = learner
        self._inbox = inbox
        self._llm_usage = llm_usage

    def _clean(self, messages: Messages, fields: ExchangeKwargs) -> Exchange:
        """Return the cleaned exchange with the owner that the caller may set."""
        exchange = sanitize.clean(messages, **fields)
        if exchange.series:
            self._access.require_owner("Backfilling")
            self._store.changeset(check_int(exchange.series, "series"))  # raises NotFound if it does not exist
        return self._access.own_exchange(exchange)

    def capture(
        self, messages: Messages, *, wait: bool = False, by: str = "library", **fields: Unpack[ExchangeKwargs]
    ) -> CaptureStatus:
        """Store an exchange durably and learn from it later; with `wait`, now.

        The fields are those of an Exchange; the same client, session and turn is captured once.
        """
        exchange = self._clean(messages, fields)
        return self._inbox.take_in(exchange, "learn", by) if wait else self._inbox.receive([exchange])[0]

    def observe(
        self,
        validated_intent: str,
        response: str,
        *,
        wait: bool = False,
        by: str = "library",
        **fields: Unpack[ExchangeKwargs],
    ) -> CaptureStatus:
        """Store an observed dialogue and learn from it later; with `wait`, now.

        Facts in the response are kept as the agent's words, and replace no memory. Memories are visible to the team
        unless `visibility` says otherwise; `session` names the observed activity, `turn` the dialogue in it. Other
        arguments as for `capture`.
        """
        observed: ExchangeKwargs = {"visibility": "team", **fields, "context": OBSERVATION}
        return self.capture(dialogue(validated_intent, response), wait=wait, by=by, **observed)

    def amend(
        self, messages: Messages, *, hold: float = 0.0, by: str = "library", **fields: Unpack[ExchangeKwargs]
    ) -> CaptureStatus:
        """Add new content to a turn that may have been captured before; learn from it after `hold` seconds.

        Parts of a turn may arrive in any order and more than once: every word is learned from once.
        """
        check_author(by)
        return self._inbox.amend(self._clean(messages, fields), hold)

    def release(self, client: str, session: str) -> int:
        """Make the held captures of a session due now; return their number."""
        return self._store.inbox.release(client, session)

    def go_on(self, client: str, session: str) -> None:
        """Signal that a session continues: its turns wait, so that the language model reads several at once."""
        self._inbox.go_on(client, session)

    def turns(self, client: str, session: str, *, any_key: bool = False) -> set[str]:
        """Return every turn captured in this session; with `any_key` also in other keys' sessions of this name."""
        return self._store.inbox.turns(client, session, any_key=any_key)

    def purged_turns(self, client: str, session: str) -> set[str]:
        """Return the turns of this session with purged or forgotten words."""
        return self._store.inbox.purged_turns(client, session)

    def begin_backfill(self, *, by: str = "library") -> int:
        """Return the changeset that begins a backfill series: captures name it as their `series`.

        An unfinished backfill is resumed. Undoing that changeset reverts everything learned in the series.
        """
        self._access.require_owner("Backfilling")
        check_author(by)
        last = self._find_last_backfill()
        if last and last.changeset and last.outcome == "began":
            parts = self._store.snapshots.parts(last.changeset)[1:2]  # the oldest part of a series is undone last
            if not any(self._store.changeset(part).undone_by for part in parts):
                return last.changeset
        series = self._store.apply([], {}, by=by, why=BACKFILL).id
        self._note_backfill(series, "began", by)
        return series

    def end_backfill(self, series: int, *, by: str = "library") -> None:
        """Mark a backfill as done: the next one begins its own series."""
        self._access.require_owner("Backfilling")
        check_author(by)
        last = self._find_last_backfill()
        if last and last.outcome == "began" and last.changeset == check_int(series, "series"):
            self._note_backfill(series, "done", by)

    def _find_last_backfill(self) -> MaintenanceRun | None:
        return next(iter(self._store.runs.newest(1, BACKFILL)), None)

    def _note_backfill(self, series: int, outcome: str, by: str) -> None:
        if run := self._store.runs.claim(BACKFILL, "", by):
            self._store.runs.finish(run.id, outcome, {}, series)

    def learn(
        self, messages: Messages, *, dry_run: bool = False, by: str = "library", **fields: Unpack[ExchangeKwargs]
    ) -> LearningResult:
        """Learn from messages without the inbox; a dry run returns what would be learned, sentence by sentence."""
        return self._learn(self._clean(messages, fields), "learn", by, dry_run=dry_run)

    def extract(
        self, messages: Messages, *, dry_run: bool = False, by: str = "library", **fields: Unpack[ExchangeKwargs]
    ) -> LearningResult:
        """Learn with the language model reading everything. NotConfigured without a model."""
        self._llm_usage.require_llm()
        return self._learn(self._clean(messages, fields), "extract", by, dry_run=dry_run)

    def _learn(self, exchange: Exchange, task: Task, by: str, *, dry_run: bool) -> LearningResult:
        with exchange_occasion(task, exchange):
            return self._learner.learn(exchange, task, by=by, dry_run=dry_run)

    def submit(self, messages: Messages, **fields: Unpack[ExchangeKwargs]) -> CaptureStatus:
        """Queue messages for the language model to read in full; the inbox item gets the result when done."""
        self._llm_usage.require_llm()
        return self._inbox.receive([self._clean(messages, fields)], "extract")[0]

    def process(self, *items: Item, by: str = "worker") -> None:
        """Learn from inbox items of one session; each ends up settled, postponed or parked."""
        self._access.require_owner("Working on the inbox")
        self._inbox.attempt(items, by)

    def batches(self, items: Sequence[Item]) -> Iterator[list[Item]]:
        """Group items as `process` should receive them."""
        return self._inbox.batches(items)

    def due(self, limit: int = 32) -> list[Item]:
        """Return the items that are due, oldest first."""
        return self._store.inbox.due(limit)

    def claim(self, limit: int = 32) -> list[Item]:
        """Claim due items for this process; other processes on the same store skip them meanwhile."""
        self._access.require_owner("Working on the inbox")
        return self._inbox.claim(limit)

    def give_back(self, items: Sequence[Item]) -> None:
        """Release claimed items that are not settled."""
        self._store.inbox.give_back(items)

    def inbox_status(self) -> InboxStatus:
        """Return counts of all captures ever: stored, merged, rejected or pending."""
        return self._store.inbox.status()

    def items(self, state: State | None = None, *, limit: int = 50, after: int | None = None) -> list[Item]:
        """Return the newest inbox items, optionally of one state."""
        if state is not None and state not in STATES:
            raise InvalidInput(f"There is no capture state {state!r}.", f"Give one of: {', '.join(STATES)}.")
        check_int(limit, "limit", least=1, most=MAX_PAGE)
        return self._store.inbox.items(state, limit=limit, after=after if after is None else check_int(after, "after"))

    def item(self, item_id: int) -> Item:
        """Return one inbox item."""
        return self._store.inbox.item(check_int(item_id, "id"))

    def retry(self, item_id: int) -> Item:
        """Queue a parked or rejected item again."""
        item = self._store.inbox.item(check_int(item_id, "id"))
        if item.exchange and item.exchange.context == CANDIDATE:
            hint = f"`cofio inbox --approve {item_id}` stores it, `--discard {item_id}` drops it."
            raise Conflict(f"Capture {item_id} is held for review.", hint)
        return self._store.inbox.retry(item_id)

    def forget(self, before: str) -> int:
        """Forget the texts of captures settled before this time, and what was injected into sessions before then."""
        self._store.forget_injected_before(to_utc_iso(before))
        return self._store.inbox.forget(to_utc_iso(before))

    def injected(self, client: str, session: str) -> dict[int, str]:
        """Return the memories injected into this session, each with a digest of its text."""
        return self._store.injected(client, session)

    def mark_injected(self, client: str, session: str, digests: Mapping[int, str]) -> None:
        """Record that these memories were injected into this session."""
        self._store.mark_injected(client, session, digests)

    def clear_injected(self, client: str, session: str) -> None:
        """Forget what was injected into this session: its context no longer holds it."""
        self._store.clear_injected(client, session)
