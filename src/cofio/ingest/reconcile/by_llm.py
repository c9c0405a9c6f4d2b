"""Reconciliation by a language model: one call for all facts, and no call if none is needed.

The model sees short names, m1 and f1, that are valid for one question only. It may name only a memory that was shown
with the fact. Anything else in its reply is ignored: the fact is then settled without the model. So a confused or
deceived model can do at most one wrong change per fact, to a similar memory, and that can be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from cofio.errors import CofioError
from cofio.ingest.reconcile.decide import NOTHING_ENDED, build_sighting, find_near, is_older_than, is_retraction
from cofio.judgement.labels import RETRACTION
from cofio.models.exchange import FactOutcome, TokenUsage
from cofio.models.memory import Add, Delete, Fact, Memory, Noop, Update, merge_scope, same_place
from cofio.models.provenance import least_trusted
from cofio.ports import LLM, Completion, Matrix, MemoryReader, Vector
from cofio.providers import prompts
from cofio.text import json_repair
from cofio.text.duplicates import LONG, content_words, find_figures, find_names, find_numbers
from cofio.text.tokens import fingerprint, words

SHOWN = 5  # memories shown with each fact
LONGEST_TEXT = 1_000  # maximum characters of a replacement text
_CANDIDATES = 20  # some of them may belong to another agent, or be too long to be shown
_LETTERS, _ROOM = 3, 4_096  # minimum characters per token; tokens reserved for the reply
_ACTIONS = ("ADD", "UPDATE", "DELETE", "NOOP")
_NOT = frozenset("not no without none nothing nobody".split())

#: Function that settles a fact without a model.
DecideLocally: TypeAlias = Callable[[Fact, Vector], FactOutcome]

SCHEMA = prompts.list_schema(
    "decisions",
    fact={"type": "string"},
    action={"type": "string", "enum": list(_ACTIONS)},
    memory={"type": ["string", "null"]},
    text={"type": ["string", "null"]},
)


class _FactWithCandidates(NamedTuple):
    """Fact that the model is asked about: its place, and similar memories with their cosines, best first."""

    place: int
    fact: Fact
    similar: dict[int, float]

    @property
    def name(self) -> str:
        return f"f{self.place + 1}"


class _LLMDecision(NamedTuple):
    """Validated answer of the model about a fact."""

    action: str
    memory: Memory | None = None
    text: str | None = None


def decide_by_llm(
    llm: LLM,
    facts: Sequence[Fact],
    vectors: Sequence[Vector] | Matrix,
    store: MemoryReader,
    *,
    novel: DecideLocally,
    now: str,
    floor: float = 0.0,
) -> tuple[list[FactOutcome], TokenUsage, str]:
    """Return the decision about each fact in order, the model usage, and the problem with the model, or "".

    `novel` settles a fact without a model; it is used for every fact without a valid model decision. Memories with a
    cosine up to `floor` are not similar.
    """
    if not llm.supports_audn:
        return _order_outcomes(facts, vectors, {}, novel), TokenUsage(), ""
    early: dict[int, FactOutcome] = {}
    cases: list[_FactWithCandidates] = []
    memories: dict[int, Memory] = {}
    for place, (fact, vector) in enumerate(zip(facts, vectors, strict=True)):
        similar = [
            (memory, cosine)
            for memory, cosine in find_near(vector, store, merge_scope(fact), _CANDIDATES)
            if cosine > floor
            and same_place(fact, memory)
            and len(memory.text) <= LONG  # one fact replaces no long text
        ][:SHOWN]
        if outcome := _decide_early(fact, vector, similar, store, novel):
            early[place] = outcome
        else:
            cases.append(_FactWithCandidates(place, fact, {memory.id: cosine for memory, cosine in similar}))
            memories.update((memory.id, memory) for memory, _ in similar)
    answers, usage, problem = _ask(llm, cases, memories) if cases else ({}, TokenUsage(), "")
    decided = {
        case.place: decision for case in cases if (decision := _decide(case, answers.get(case.place, []), store, now))
    }
    return _order_outcomes(facts, vectors, early | decided, novel), usage, problem


def _decide_early(
    fact: Fact, vector: Vector, similar: Sequence[tuple[Memory, float]], store: MemoryReader, novel: DecideLocally
) -> FactOutcome | None:
    """Return the decision about a fact that needs no call: known word for word or elsewhere, or unlike any memory."""
    if not is_retraction(fact):
        exact = store.get(store.known(fact.text, merge_scope(fact)))
        same_words = (memory for memory, _ in similar if content_words(memory.text) == content_words(fact.text))
        if known := next((memory for memory in (*exact, *same_words) if same_place(fact, memory)), None):
            return _note(fact, known, "known in the same words")
    elsewhere = novel(fact, vector)
    if not similar and is_retraction(fact):
        return elsewhere
    known_elsewhere = elsewhere.decision.id if isinstance(elsewhere.decision, Noop) else None
    if known_elsewhere is not None and known_elsewhere not in {memory.id for memory, _ in similar}:
        return elsewhere
    return None if similar else _add(fact, "nothing like it is known")


def _add(fact: Fact, reason: str) -> FactOutcome:
    return FactOutcome(fact=fact, decision=Add(fact, reason, unless_known=True))


def _note(fact: Fact, memory: Memory, reason: str) -> FactOutcome:
    return FactOutcome(fact=fact, decision=Noop(memory.id, build_sighting(fact), reason))


def _order_outcomes(
    facts: Sequence[Fact],
    vectors: Sequence[Vector] | Matrix,
    decided: Mapping[int, FactOutcome],
    novel: DecideLocally,
) -> list[FactOutcome]:
    """Return one decision per fact. A memory that one fact replaced or removed is unavailable to later facts."""
    removed_ids: set[int] = set()
    outcomes = []
    for place, fact in enumerate(facts):
        outcome = decided.get(place)
        if outcome is None or _get_target(outcome) in removed_ids:
            outcome = novel(fact, vectors[place])
        if _get_target(outcome) in removed_ids:
            reason = f"new: another fact has just replaced memory {_get_target(outcome)}"
            outcome = FactOutcome(fact=fact, reason=reason) if is_retraction(fact) else _add(fact, reason)
        if isinstance(outcome.decision, Update | Delete):
            removed_ids.add(outcome.decision.id)
        outcomes.append(outcome)
    return outcomes


def _get_target(outcome: FactOutcome) -> int | None:
    return outcome.decision.id if isinstance(outcome.decision, Update | Delete | Noop) else None


def _ask(
    llm: LLM, cases: Sequence[_FactWithCandidates], memories: Mapping[int, Memory]
) -> tuple[dict[int, list[_LLMDecision]], TokenUsage, str]:
    """Return the valid answers by place, the usage, and the problem."""
    system = prompts.read("reconcile")
    room = llm.profile.context - len(system) // _LETTERS - min(_ROOM, llm.profile.context // 4)
    characters_left = room * _LETTERS
    fitting: list[_FactWithCandidates] = []
    listed_ids: dict[int, None] = {}
    for case in cases:
        new_ids = [memory_id for memory_id in case.similar if memory_id not in listed_ids]
        size = sum(len(memories[memory_id].text) + 80 for memory_id in new_ids) + len(case.fact.text) + 300
        if size <= characters_left:
            fitting.append(case)
            listed_ids.update(dict.fromkeys(new_ids))
            characters_left -= size
    if not fitting:
        return {}, TokenUsage(), "no memory fits into the model's context"
    listed = [memories[memory_id] for memory_id in listed_ids]
    schema = SCHEMA if llm.profile.json_schema else None
    try:
        reply = llm.complete(system, _build_question(fitting, listed), schema=schema)
    except CofioError as error:  # the facts must not be lost over a provider failure
        return {}, TokenUsage(), f"the model call for reconciliation failed: {error.message}"
    answers, problem = _parse_decisions(reply, fitting, listed)
    missing = len(cases) - len(answers)
    problems = [problem, f"facts without a valid model decision: {missing} of {len(cases)}" if missing else ""]
    return answers, reply.usage, "; ".join(text for text in problems if text)


def _build_question(cases: Sequence[_FactWithCandidates], listed: Sequence[Memory]) -> str:
    short_names = {memory.id: f"m{number}" for number, memory in enumerate(listed, 1)}
    memories = [{"memory": short_names[memory.id], **_describe(memory)} for memory in listed]
    facts = [
        {
            "fact": case.name,
            **_describe(case.fact),
            "similar": [
                {"memory": short_names[memory_id], "similarity": round(cosine, 3)}
                for memory_id, cosine in case.similar.items()
            ],
        }
        for case in cases
    ]
    fact_names = ", ".join(case.name for case in cases)
    return f"{prompts.block('memories', memories)}\n\n{prompts.block('facts', facts)}\n\nDecide about: {fact_names}"


def _describe(subject: Fact | Memory) -> dict[str, str]:
    kind = RETRACTION if isinstance(subject, Fact) and is_retraction(subject) else subject.kind
    return {"text": subject.text, "category": subject.category, "kind": kind}


def _parse_decisions(
    reply: Completion, cases: Sequence[_FactWithCandidates], listed: Sequence[Memory]
) -> tuple[dict[int, list[_LLMDecision]], str]:
    parsed = json_repair.parse_reply(reply.text)
    by_place = {case.place: case for case in cases}
    answers: dict[int, list[_LLMDecision]] = {}
    for entry in parsed.entries or ():
        case = by_place.get(_find_place(entry)) if isinstance(entry, dict) else None
        answer = _parse_answer(entry, case, listed) if case else None
        if case and answer:
            answers.setdefault(case.place, []).append(answer)
    if reply.truncated or not parsed.whole:
        return answers, "the model's decisions were cut off"
    return answers, "the model's decisions could not be read" if parsed.entries is None else ""


def _parse_answer(entry: Mapping[str, Any], case: _FactWithCandidates, listed: Sequence[Memory]) -> _LLMDecision | None:
    action = entry.get("action")
    action = action.strip().upper() if isinstance(action, str) else ""
    if action == "ADD":
        return _LLMDecision(action)
    number = prompts.number(_get_first(entry, "memory", "old_id", "existing_id", "memory_id"), "m")
    memory = listed[number - 1] if number is not None and 1 <= number <= len(listed) else None
    if action not in _ACTIONS or memory is None or memory.id not in case.similar:
        return None
    text = _get_first(entry, "text", "new_text") if action == "UPDATE" else None
    if text is not None and (not isinstance(text, str) or not text.strip()):
        return None
    return _LLMDecision(action, memory, " ".join(text.split()) if text else None)


def _find_place(entry: Mapping[str, Any]) -> int:
    """Return the index of the fact, from 0: "f1" is the first, and so is a `fact_index` of 0; -1 if none is named."""
    index = entry.get("fact_index")
    number = prompts.number(_get_first(entry, "fact", "fact_index"), "f")
    if number is None:
        return -1
    from_zero = entry.get("fact") is None and (isinstance(index, int) or str(index).strip().isdigit())
    return number if from_zero else number - 1


def _get_first(entry: Mapping[str, Any], *keys: str) -> Any:
    return next((entry[key] for key in keys if entry.get(key) is not None), None)


def _decide(
    case: _FactWithCandidates, answers: Sequence[_LLMDecision], store: MemoryReader, now: str
) -> FactOutcome | None:
    if not answers:
        return None
    answer = answers[0]
    removed = next((other for other in answers if other.action == "DELETE"), None)
    if removed and answer.action in ("ADD", "DELETE") and any(other.action == "ADD" for other in answers):
        answer = _LLMDecision("UPDATE", removed.memory)  # it ends a memory and adds the fact: the fact replaces it
    fact, memory = case.fact, answer.memory
    if memory is None:
        nothing = FactOutcome(fact=fact, reason=NOTHING_ENDED)
        return nothing if is_retraction(fact) else _add(fact, "new, by the model's judgement")
    near = f"memory {memory.id} (similarity {case.similar[memory.id]:.3f})"
    if answer.action == "NOOP":
        is_known = _keeps(memory.text, fact.text) and not is_retraction(fact)
        return _note(fact, memory, f"known from {near}") if is_known else None
    if memory.pinned:
        return None
    if is_older_than(fact, memory, store, now):
        return FactOutcome(fact=fact, reason=f"memory {memory.id} is newer")
    if is_retraction(fact) and (remainder := _find_remainder(memory, fact, answer.text)):
        return FactOutcome(fact=fact, decision=Update(memory.id, remainder, f"the rest of {near}"))
    if answer.action == "DELETE" or is_retraction(fact):
        return FactOutcome(fact=fact, decision=Delete(memory.id, f"{near} no longer holds: {fact.text[:300]}"))
    new = _reword(fact, memory, _choose_text(memory, fact, answer.text))
    if fingerprint(new.text) == fingerprint(memory.text):
        return _note(fact, memory, f"known from {near}")
    return FactOutcome(fact=fact, decision=Update(memory.id, new, f"takes the place of {near}"))


def _choose_text(memory: Memory, fact: Fact, text: str | None) -> str:
    """Return the model's text if it keeps all of the fact and invents nothing; else the fact's own text."""
    if text is None or len(text) > LONGEST_TEXT or not _keeps(text, fact.text):
        return fact.text
    return text if _invents_nothing(text, f"{fact.text}\n{memory.text}") else fact.text


def _find_remainder(memory: Memory, fact: Fact, text: str | None) -> Fact | None:
    """Return the remainder of a memory that a retraction ends in part; None if nothing remains."""
    if text is None or fingerprint(text) in (fingerprint(memory.text), fingerprint(fact.text)):
        return None
    if not _invents_nothing(text, memory.text):
        return None
    about = {name: value for name, value in fact.metadata.items() if name != "retracts"}
    reworded = _reword(fact, memory, text)
    return replace(reworded, kind=memory.kind, category=memory.category, metadata=about)


def _reword(fact: Fact, memory: Memory, text: str) -> Fact:
    """Return the fact with this text; another one than its own may have words of the memory."""
    if text == fact.text:
        return fact
    return replace(fact, text=text, provenance=least_trusted(fact.provenance, memory.provenance))


def _invents_nothing(text: str, source: str) -> bool:
    return find_figures(text) <= find_figures(source) and set(find_names(text)) <= _find_spoken(source)


def _keeps(text: str, of: str) -> bool:
    """Return whether a text has every number and name of another one, and the same negation."""
    values, text_words, of_words = find_figures(text), set(content_words(text)), set(content_words(of))
    for value, *counted in map(str.split, find_numbers(of)):
        if value not in values or not text_words.issuperset(counted):
            return False
    return set(find_names(of)) <= _find_spoken(text) and bool(_NOT & text_words) == bool(_NOT & of_words)


def _find_spoken(text: str) -> set[str]:
    return {*find_names(text), *words(text)}
