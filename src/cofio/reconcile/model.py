"""What becomes of facts by the judgement of a language model: one call for all of them, and none where none is needed.

The model sees short names, m1 and f1, that mean something in this one question only. It may name a memory that was
shown to it beside the fact, and nothing else. Whatever it says beyond that is not done: the fact goes the way that it
goes without a model. So a confused or a deceived model can do no more than one wrong thing a fact, to a memory that is
similar to it; and that can be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from cofio import prompts, salvage
from cofio.conversation import Settled, Usage
from cofio.errors import CofioError
from cofio.judgement.labels import RETRACTION
from cofio.model import Add, Delete, Fact, Memory, Noop, Occurrence, Update, place_of, same_place
from cofio.ports import LLM, Completion, Matrix, Store, Vector
from cofio.reconcile.decide import NOTHING_ENDED, is_retraction, said_since
from cofio.sameness import LONG, gist, names, numbers
from cofio.wording import fingerprint, words

SHOWN = 5  # memories beside each fact
LONGEST_TEXT = 1_000  # characters of what may take a memory's place
_CANDIDATES = 20  # some of them may be another agent's, or too long to be shown
_LETTERS, _ROOM = 3, 4_096  # characters in a token, at least; tokens for the reply
_ACTIONS = ("ADD", "UPDATE", "DELETE", "NOOP")

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["decisions"],
    "properties": {
        "decisions": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["fact", "action", "memory", "text"],
                "properties": {
                    "fact": {"type": "string"},
                    "action": {"type": "string", "enum": list(_ACTIONS)},
                    "memory": {"type": ["string", "null"]},
                    "text": {"type": ["string", "null"]},
                },
            },
        }
    },
}


class _Case(NamedTuple):
    """A fact that the model is asked about: its place, and the memories beside it with their cosines, best first."""

    place: int
    fact: Fact
    similar: dict[int, float]

    @property
    def name(self) -> str:
        return f"f{self.place + 1}"


class _Answer(NamedTuple):
    """What the model wants done with a fact, once it is known to be possible."""

    action: str
    memory: Memory | None = None
    text: str | None = None


def settle(
    llm: LLM,
    facts: Sequence[Fact],
    vectors: Sequence[Vector] | Matrix,
    store: Store,
    *,
    novel: Callable[[Fact, Vector], Settled],
    floor: float = 0.0,
) -> tuple[list[Settled], Usage, str]:
    """What becomes of each fact, in order; what the model was paid for; and what went wrong with it, or "".

    `novel` settles a fact without a model: every fact that the model does not, or not validly, decide about. Memories
    with a cosine up to the `floor` are not similar.
    """
    if not llm.supports_audn:
        return _in_order(facts, vectors, {}, novel), Usage(), ""
    early: dict[int, Settled] = {}
    cases: list[_Case] = []
    shown: dict[int, Memory] = {}
    for place, (fact, vector) in enumerate(zip(facts, vectors, strict=True)):
        similar = _similar(fact, vector, store, floor)
        settled = _without_asking(fact, vector, similar, store, novel)
        if settled:
            early[place] = settled
        else:
            cases.append(_Case(place, fact, {memory.id: cosine for memory, cosine in similar}))
            shown.update((memory.id, memory) for memory, _ in similar)
    answers, usage, problem = _asked(llm, cases, shown) if cases else ({}, Usage(), "")
    decided = {case.place: done for case in cases if (done := _decided(case, answers.get(case.place, []), store))}
    return _in_order(facts, vectors, early | decided, novel), usage, problem


# ── before and after the model ────────────────────────────────────────────────────────────────────────────────────────


def _similar(fact: Fact, vector: Vector, store: Store, floor: float) -> list[tuple[Memory, float]]:
    """The memories that the fact may be about, best first. A long text is never replaced by one fact, so not shown."""
    near = store.nearest(vector, _CANDIDATES, place_of(fact))
    memories = {memory.id: memory for memory in store.get([each.id for each in near])}
    found = [(memories[each.id], each.score) for each in near if each.id in memories and each.score > floor]
    return [each for each in found if same_place(fact, each[0]) and len(each[0].text) <= LONG][:SHOWN]


def _without_asking(
    fact: Fact,
    vector: Vector,
    similar: Sequence[tuple[Memory, float]],
    store: Store,
    novel: Callable[[Fact, Vector], Settled],
) -> Settled | None:
    """What becomes of a fact that needs no call: known in the same words, known elsewhere, or like nothing known."""
    if not is_retraction(fact) and (known := _known_in_these_words(fact, similar, store)):
        return known
    elsewhere = novel(fact, vector)
    if not similar and is_retraction(fact):
        return elsewhere
    known_elsewhere = elsewhere.decision.id if isinstance(elsewhere.decision, Noop) else None
    if known_elsewhere is not None and known_elsewhere not in {memory.id for memory, _ in similar}:
        return elsewhere
    return None if similar else _added(fact, "nothing like it is known")


def _known_in_these_words(fact: Fact, similar: Sequence[tuple[Memory, float]], store: Store) -> Settled | None:
    exact = store.get(store.known(fact.text, place_of(fact)))
    same_words = (memory for memory, _ in similar if gist(memory.text) == gist(fact.text))
    for memory in (*exact, *same_words):
        if same_place(fact, memory):
            return _noted(fact, memory, "known in the same words")
    return None


def _added(fact: Fact, reason: str) -> Settled:
    return Settled(fact=fact, decision=Add(fact, reason, unless_known=True))


def _noted(fact: Fact, memory: Memory, reason: str) -> Settled:
    seen = Occurrence(fact.agent, fact.session, fact.created_at)
    return Settled(fact=fact, decision=Noop(memory.id, seen, reason))


def _in_order(
    facts: Sequence[Fact],
    vectors: Sequence[Vector] | Matrix,
    decided: Mapping[int, Settled],
    novel: Callable[[Fact, Vector], Settled],
) -> list[Settled]:
    """One a fact. A memory that one fact replaced or removed is gone for those after it."""
    gone: set[int] = set()
    settled = []
    for place, fact in enumerate(facts):
        now = decided.get(place)
        if now is None or _target(now) in gone:
            now = novel(fact, vectors[place])
        if _target(now) in gone:
            reason = f"new, for memory {_target(now)} has just made way for another fact"
            now = Settled(fact=fact, reason=reason) if is_retraction(fact) else _added(fact, reason)
        if isinstance(now.decision, Update | Delete):
            gone.add(now.decision.id)
        settled.append(now)
    return settled


def _target(settled: Settled) -> int | None:
    return settled.decision.id if isinstance(settled.decision, Update | Delete | Noop) else None


# ── the question ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _asked(
    llm: LLM, cases: Sequence[_Case], shown: Mapping[int, Memory]
) -> tuple[dict[int, list[_Answer]], Usage, str]:
    """By place, every valid answer; what it cost; what went wrong."""
    system = prompts.read("reconcile")
    room = llm.profile.context - len(system) // _LETTERS - min(_ROOM, llm.profile.context // 4)
    asked = _fitting(cases, shown, room * _LETTERS)
    if not asked:
        return {}, Usage(), "nothing of what is known fits into the model's context"
    named = [shown[each] for each in dict.fromkeys(each for case in asked for each in case.similar)]
    schema = SCHEMA if llm.profile.json_schema else None
    try:
        reply = llm.complete(system, _question(asked, named), schema=schema)
    except CofioError as error:  # whatever the provider's trouble is, the facts are not to be lost over it
        return {}, Usage(), f"the model could not be asked about what is known: {error.message}"
    answers, problem = _understood(reply, asked, named)
    missing = len(cases) - len(answers)
    told = [problem, f"facts without a valid decision of the model's: {missing} of {len(cases)}" if missing else ""]
    return answers, reply.usage, "; ".join(each for each in told if each)


def _fitting(cases: Sequence[_Case], shown: Mapping[int, Memory], room: int) -> list[_Case]:
    """As many of the cases as there is room for."""
    fitting, counted = [], set[int]()
    for case in cases:
        new = case.similar.keys() - counted
        size = sum(len(shown[each].text) + 80 for each in new) + len(case.fact.text) + 300
        if size <= room:
            fitting.append(case)
            counted |= new
            room -= size
    return fitting


def _question(cases: Sequence[_Case], named: Sequence[Memory]) -> str:
    called = {memory.id: f"m{number}" for number, memory in enumerate(named, 1)}
    memories = [{"memory": called[each.id], **_about(each)} for each in named]
    facts = [
        {
            "fact": case.name,
            **_about(case.fact),
            "similar": [
                {"memory": called[each], "similarity": round(cosine, 3)} for each, cosine in case.similar.items()
            ],
        }
        for case in cases
    ]
    asked = ", ".join(case.name for case in cases)
    return f"{prompts.block('memories', memories)}\n\n{prompts.block('facts', facts)}\n\nDecide about: {asked}"


def _about(told: Fact | Memory) -> dict[str, str]:
    kind = RETRACTION if isinstance(told, Fact) and is_retraction(told) else told.kind
    return {"text": told.text, "category": told.category, "kind": kind}


# ── the answer ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _understood(
    reply: Completion, cases: Sequence[_Case], named: Sequence[Memory]
) -> tuple[dict[int, list[_Answer]], str]:
    read = salvage.read(reply.text)
    by_place = {case.place: case for case in cases}
    answers: dict[int, list[_Answer]] = {}
    for entry in read.entries or ():
        case = by_place.get(_place(entry)) if isinstance(entry, dict) else None
        answer = _answer(entry, case, named) if case else None
        if case and answer:
            answers.setdefault(case.place, []).append(answer)
    if reply.truncated or not read.whole:
        return answers, "the model's decisions were cut off"
    return answers, "the model's decisions could not be read" if read.entries is None else ""


def _answer(entry: Mapping[str, Any], case: _Case, named: Sequence[Memory]) -> _Answer | None:
    """What the entry says, if that can be done; None otherwise."""
    action = entry.get("action")
    action = action.strip().upper() if isinstance(action, str) else ""
    if action == "ADD":
        return _Answer(action)
    number = prompts.number(_first(entry, "memory", "old_id", "existing_id", "memory_id"), "m")
    memory = named[number - 1] if number is not None and 1 <= number <= len(named) else None
    if action not in _ACTIONS or memory is None or memory.id not in case.similar:
        return None
    text = _first(entry, "text", "new_text") if action == "UPDATE" else None
    if text is not None and (not isinstance(text, str) or not text.strip()):
        return None
    return _Answer(action, memory, " ".join(text.split()) if text else None)


def _place(entry: Mapping[str, Any]) -> int:
    """Which fact is meant, counted from 0; -1 when none is. "f1" is the first, and so is a `fact_index` of 0."""
    index = entry.get("fact_index")
    number = prompts.number(_first(entry, "fact", "fact_index"), "f")
    if number is None:
        return -1
    from_zero = entry.get("fact") is None and (isinstance(index, int) or str(index).strip().isdigit())
    return number if from_zero else number - 1


def _first(entry: Mapping[str, Any], *keys: str) -> Any:
    return next((entry[key] for key in keys if entry.get(key) is not None), None)


# ── from an answer to a decision ──────────────────────────────────────────────────────────────────────────────────────


def _decided(case: _Case, answers: Sequence[_Answer], store: Store) -> Settled | None:
    """What is done about the fact; None when the model has nothing to say, or nothing that it may."""
    if not answers:
        return None
    answer = _one_of(answers)
    fact, memory = case.fact, answer.memory
    if memory is None:
        nothing = Settled(fact=fact, reason=NOTHING_ENDED)
        return nothing if is_retraction(fact) else _added(fact, "new, by the model's judgement")
    near = f"memory {memory.id} (similarity {case.similar[memory.id]:.3f})"
    if answer.action == "NOOP":
        says_it = _keeps(memory.text, fact.text) and not is_retraction(fact)
        return _noted(fact, memory, f"known from {near}") if says_it else None
    if memory.pinned:
        return None
    if said_since(fact, memory, store):
        return Settled(fact=fact, reason=f"memory {memory.id} is newer")
    if is_retraction(fact) and (left := _left_of(memory, fact, answer.text)):
        return Settled(fact=fact, decision=Update(memory.id, left, f"what is left of {near}"))
    if answer.action == "DELETE" or is_retraction(fact):
        return Settled(fact=fact, decision=Delete(memory.id, f"{near} no longer holds: {fact.text[:300]}"))
    return _updated(fact, memory, answer.text, near)


def _updated(fact: Fact, memory: Memory, text: str | None, near: str) -> Settled:
    new = replace(fact, text=_replacing(memory, fact, text))
    if fingerprint(new.text) == fingerprint(memory.text):
        return _noted(fact, memory, f"known from {near}")
    return Settled(fact=fact, decision=Update(memory.id, new, f"takes the place of {near}"))


def _one_of(answers: Sequence[_Answer]) -> _Answer:
    """The answer that counts: the first. To delete a memory and to add the fact is to update the one by the other."""
    first = answers[0]
    removed = next((each for each in answers if each.action == "DELETE"), None)
    if removed and first.action in ("ADD", "DELETE") and any(each.action == "ADD" for each in answers):
        return _Answer("UPDATE", removed.memory)
    return first


def _replacing(memory: Memory, fact: Fact, text: str | None) -> str:
    """The model's text, if all of the fact is in it and nothing that neither of them says; else the fact's own."""
    if text is None or len(text) > LONGEST_TEXT or not _keeps(text, fact.text):
        return fact.text
    both = f"{fact.text}\n{memory.text}"
    invented = (_values(text) - _values(both)) | (set(names(text)) - _spoken(both))
    return fact.text if invented else text


def _left_of(memory: Memory, fact: Fact, text: str | None) -> Fact | None:
    """What still holds of a memory of which a retraction ends a part; None where nothing does."""
    if text is None or fingerprint(text) in (fingerprint(memory.text), fingerprint(fact.text)):
        return None
    if not (_values(text) <= _values(memory.text) and set(names(text)) <= _spoken(memory.text)):
        return None
    about = {name: value for name, value in fact.metadata.items() if name != "retracts"}
    return replace(fact, text=text, kind=memory.kind, category=memory.category, metadata=about)


def _keeps(text: str, of: str) -> bool:
    """Whether a text has every number and every name of another one, and negates exactly if that does."""
    values, said, meant = _values(text), set(gist(text)), set(gist(of))
    for value, *counted in map(str.split, numbers(of)):
        if value not in values or not said.issuperset(counted):
            return False
    return set(names(of)) <= _spoken(text) and bool(_NOT & said) == bool(_NOT & meant)


def _values(text: str) -> set[str]:
    """Its numbers, without what they count."""
    return {each.split()[0] for each in numbers(text)}


def _spoken(text: str) -> set[str]:
    return {*names(text), *words(text)}


_NOT = frozenset("not no without none nothing nobody".split())  # as `gist` has them
