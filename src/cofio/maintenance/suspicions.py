"""Suspicious memories: text that would manipulate an agent, rules of unknown authors, false dates and sources.

memory ─ find_suspicions ─▶ (finding, reason)
names of findings ─ decide_archive ─▶ Delete of each memory found
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cofio.errors import InvalidInput
from cofio.ingest.manipulation import find_manipulation
from cofio.ingest.sanitize import redact
from cofio.models.maintenance import ARCHIVABLE
from cofio.models.memory import MAX_PAGE, Delete, Memory, Scope
from cofio.ports import MemoryQueries
from cofio.text import lazy_re

_RULES = ("preference", "policy", "decision")
_UNTRUSTED = {"pasted": "the text was pasted", "": "it is unknown who said it"}
#: Words in a source that make a claim; a source is client/project.
_CLAIMS = lazy_re.compile(
    r"\b(?:said by|tool output|system|cofio|admin\w*|security|official|trusted|verified|approved|team)\b", re.IGNORECASE
)
_APART = lazy_re.compile(r"[\s,;|()\[\]{}]")
_OWN_NAMES = ("system", "cofio", "service", "memory")

#: Findings, with their meaning.
SAYS = {
    "manipulation": "would make an agent act against its user, such as an instruction to ignore others",
    "untrusted_rules": "a preference, policy or decision that was pasted, or of an unknown author",
    "future_dates": "dated in the future, so that newer statements do not replace it",
    "imitating_sources": "from a source that pretends to be the service or a person",
}


def find_suspicions(memory: Memory, at: str) -> Iterator[tuple[str, str]]:
    """Yield the findings about a memory, each with the reason."""
    if reason := find_manipulation(memory.text):
        yield "manipulation", reason
    if memory.kind in _RULES and memory.provenance in _UNTRUSTED:
        yield "untrusted_rules", f"a {memory.kind}; {_UNTRUSTED[memory.provenance]}"
    if memory.created_at > at:
        yield "future_dates", f"dated {memory.created_at[:10]}"
    if is_imitation(memory.source):
        yield "imitating_sources", f"the source is {redact(memory.source)[:80]!r}"


def is_imitation(source: str) -> bool:
    """Return whether a source pretends to be the service, or adds a claim to its name."""
    is_claim = bool(_APART.search(source) and _CLAIMS.search(source))
    return is_claim or source.partition("/")[0].strip().lower() in _OWN_NAMES


def check_findings(names: Sequence[str]) -> None:
    """Raise InvalidInput unless each of these findings can be archived."""
    if isinstance(names, str) or not names or not set(names) <= set(ARCHIVABLE):
        raise InvalidInput(f"There is no such finding: {names}.", f"Give any of: {', '.join(ARCHIVABLE)}.")


def decide_archive(store: MemoryQueries, names: Sequence[str], at: str) -> list[Delete]:
    """Return the decisions that archive every live memory with one of these findings."""
    decisions: list[Delete] = []
    after = None
    while memories := store.page(Scope(), limit=MAX_PAGE, after=after)[0]:
        for memory in memories:
            reasons = dict(find_suspicions(memory, at))
            if "secrets" in names and redact(memory.text) != memory.text:
                reasons["secrets"] = "a secret"
            if matches := [f"{name}: {reasons[name]}" for name in names if name in reasons]:
                decisions.append(Delete(memory.id, "; ".join(matches)))
        after = memories[-1].id
    return decisions
