"""Review of memory candidates that would manipulate an agent: they wait in the inbox until a person decides.

fact ─ find_manipulation ─▶ parked item with the reason ─ approve ─▶ memory
                                                        └ discard ─▶ rejected item
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cofio.errors import Conflict, HeldForReview
from cofio.ingest.manipulation import find_manipulation
from cofio.models.exchange import CANDIDATE, Exchange, Item, ItemResolution, Message
from cofio.models.memory import Change, Fact
from cofio.ports import Inbox
from cofio.text.tokens import fingerprint

REASON = "Held for review: {}"
DISCARDED = "Discarded in review"
_CLIENT = "review"  # client of candidates that came without a conversation
_SECONDS = 300.0  # for which nobody else processes a candidate before it is parked
#: Fields of a candidate besides its text and those of an exchange.
_FIELDS = (
    "project", "kind", "category", "confidence", "method", "entities", "tags", "speaker", "context", "metadata",
    "origin", "provenance", "author",
)  # fmt: skip


def hold_candidate(inbox: Inbox, fact: Fact, reason: str, *, exchange: Exchange | None = None, parking: Inbox) -> int:
    """Park a candidate with the reason and return the id of its inbox item; the same candidate is parked once.

    `inbox` sets the owner, `parking` may park items. `exchange` is the conversation that it was read in.
    """
    base = exchange or Exchange(
        messages=(), source=fact.source, session=fact.session, agent=fact.agent, user=fact.user, team=fact.team,
        visibility=fact.visibility, at=fact.created_at,
    )  # fmt: skip
    held = {name: getattr(fact, name) for name in _FIELDS}
    candidate = replace(
        base,
        messages=(Message("user", fact.text),),
        client=base.client or _CLIENT,
        turn=f"{CANDIDATE}:{fingerprint(f'{fact.project} {fact.text}') & (1 << 64) - 1:016x}",
        context=CANDIDATE,
        injected=(),
        held=held,
    )
    (receipt,) = inbox.receive([candidate], hold=_SECONDS)
    if receipt.new:
        parking.park(receipt.id, REASON.format(reason))
    return receipt.id


def require_harmless(facts: Sequence[Fact], inbox: Inbox, *, parking: Inbox) -> None:
    """Raise HeldForReview, after parking the candidates, if a person has to approve one of these facts first."""
    held = [(fact, reason) for fact in facts if (reason := find_manipulation(fact.text))]
    if not held:
        return
    ids = [hold_candidate(inbox, fact, reason, parking=parking) for fact, reason in held]
    others = f" The other {len(facts) - len(held)} were not stored." if len(facts) > len(held) else ""
    listed = ", ".join(map(str, ids))
    hint = f"A person can decide: `cofio inbox --approve {ids[0]}` stores it, `--discard {ids[0]}` drops it."
    raise HeldForReview(f"Held for review as capture {listed}: {held[0][1]}.{others}", hint)


def read_candidate(item: Item) -> Fact:
    """Return the candidate of an item. Raise Conflict if the item is not held."""
    exchange = item.exchange
    if exchange is None or exchange.context != CANDIDATE or item.state != "parked":
        hint = "`cofio inbox --state parked` lists the held ones; --retry processes a failed capture again."
        raise Conflict(f"Capture {item.id} is not held for review.", hint)
    held: dict[str, Any] = {name: exchange.held[name] for name in _FIELDS if name in exchange.held}
    held |= {name: tuple(held.get(name, ())) for name in ("entities", "tags")}
    return Fact(
        text=exchange.messages[0].text, source=exchange.source, session=exchange.session, agent=exchange.agent,
        user=exchange.user, team=exchange.team, visibility=exchange.visibility, created_at=exchange.at, **held,
    )  # fmt: skip


def approve_item(item: Item, changes: Sequence[Change]) -> ItemResolution:
    """Return the resolution of a held item whose candidate was stored."""
    actions = [
        {"action": change.action, "id": change.memory_id, "text": _find_text(item), "reason": "approved in review"}
        for change in changes[:1]
    ]
    state: Any = "merged" if changes and changes[0].action == "noop" else "stored"
    result: Mapping[str, Any] = {**item.result, "actions": actions}
    return ItemResolution(item=item.id, state=state, result=result, read=item, is_review=True)


def discard_item(item: Item) -> ItemResolution:
    """Return the resolution of a held item that a person rejected. Raise Conflict if the item is not held."""
    read_candidate(item)
    return ItemResolution(
        item=item.id, state="rejected", reason=DISCARDED, result=item.result, read=item, is_review=True
    )


def _find_text(item: Item) -> str:
    return item.exchange.messages[0].text if item.exchange else ""
