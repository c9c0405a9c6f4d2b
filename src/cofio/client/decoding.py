"""Decoder of JSON values into the model's types, by their type hints. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from cofio.models.domain_knowledge import KnowledgeChange

_Value = TypeVar("_Value")


def decode(kind: type[_Value], content: Any) -> _Value:
    """Return a JSON value as a value of this type; unknown fields are ignored."""
    return cast(_Value, _decode(kind, content))


def _decode(kind: Any, content: Any) -> Any:
    if content is None or kind is Any:
        return content
    if hasattr(kind, "from_dict"):
        return kind.from_dict(content)
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        required, hints = _fields(kind)
        names = [name for name in hints if name in required or name in content]
        return kind(**{name: _decode(hints[name], content[name]) for name in names})
    origin, arguments = get_origin(kind) or kind, [part for part in get_args(kind) if part is not NoneType]
    if origin in (list, tuple, set, Sequence):
        items: Iterable[Any] = (_decode(arguments[0], item) for item in content)
        return list(items) if origin is Sequence else origin(items)
    if origin in (dict, Mapping):
        return dict(content)
    return _decode(arguments[0], content) if len(arguments) == 1 and origin is not kind else content


@cache
def _fields(kind: Any) -> tuple[frozenset[str], dict[str, Any]]:
    """Return the names of the required fields, and the types of all fields."""
    hints = get_type_hints(kind, localns={"KnowledgeChange": KnowledgeChange})
    if not is_dataclass(kind):
        return frozenset(kind._fields) - kind._field_defaults.keys(), {name: hints[name] for name in kind._fields}
    required = (each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING)
    return frozenset(required), {each.name: hints[each.name] for each in fields(kind)}
