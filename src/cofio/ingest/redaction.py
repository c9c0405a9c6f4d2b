"""Redaction of what callers send, before it is embedded or stored.

    decisions ─ texts, labels, metadata, reasons ─▶ the same decisions without secrets, and the kinds removed

Words that are already in the store are left alone: a memory whose secret was kept on purpose stays editable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from cofio.models.domain_knowledge import Knowledge
from cofio.models.memory import MAX_LABEL, MAX_TEXT, Add, Decision, Edit, Fact, Memory, Update
from cofio.text import lazy_re
from cofio.text.secrets import redact

_Record = TypeVar("_Record", Fact, Memory)


class Redactor:
    """Redacts values with a function and records the kinds of secrets that it removed."""

    def __init__(self, redact: Callable[[str], str] = redact) -> None:
        self._redact = redact
        self._kinds: set[str] = set()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the removed secrets, such as "github-token", sorted."""
        return tuple(sorted(self._kinds))

    def value(self, value: Any, limit: int = MAX_TEXT) -> Any:
        """Return the value with every text in it redacted, keys included. A text of digits only is an id."""
        if isinstance(value, str):
            clean = value if value.isdigit() else self._redact(value)
            if clean != value:
                self._kinds.update(_PLACEHOLDER.findall(clean))
            return clean if clean == value else clean[:limit]
        if isinstance(value, Mapping):
            return {self.value(key): self.value(inner) for key, inner in value.items()}
        return type(value)(map(self.value, value)) if isinstance(value, list | tuple) else value

    def record(self, record: _Record) -> _Record:
        """Return a fact or memory without secrets in its text, context, labels and metadata."""
        old = {name: getattr(record, name) for name in _FIELDS}
        changes = {name: new for name, value in old.items() if (new := self.value(value, _limit(name))) != value}
        return replace(record, **changes) if changes else record

    def row(self, row: Knowledge) -> Knowledge:
        """Return a row of domain knowledge without secrets. Its id, which others refer to, is kept."""
        old = {field.name: getattr(row, field.name) for field in fields(row) if field.name != "id"}
        changes = {name: new for name, value in old.items() if (new := self.value(value, MAX_LABEL)) != value}
        return replace(row, **changes) if changes else row

    def decision(self, decision: Decision, find: Callable[[int], Sequence[Memory]]) -> Decision:
        """Return a decision without secrets in what it writes. `find` returns the memory of an id, if it exists."""
        changes: dict[str, Any] = {}
        if reason := getattr(decision, "reason", ""):
            changes["reason"] = self.value(reason)
        if isinstance(decision, Add | Update):
            changes["fact"] = self.record(decision.fact)
        elif isinstance(decision, Edit) and Redactor().value(decision.fields) != decision.fields:
            old = next((memory for memory in find(decision.id)), None)
            changes["fields"] = {
                name: value if old and getattr(old, name, None) == value else self.value(value, _limit(name))
                for name, value in decision.fields.items()
            }
        return replace(decision, **changes) if changes else decision


def _limit(name: str) -> int:
    """Return the maximum length of a field: a placeholder may be longer than the secret."""
    return MAX_TEXT if name in ("text", "context") else MAX_LABEL


_PLACEHOLDER = lazy_re.compile(r"\[redacted:([a-z0-9-]+)\]")
_FIELDS = "text source project entities tags session agent metadata speaker context origin".split()
