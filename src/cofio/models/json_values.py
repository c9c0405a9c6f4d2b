"""JSON form of the value types, by their fields and type hints. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, Self, TypeVar, cast, get_args, get_origin, get_type_hints

_Value = TypeVar("_Value")


class JsonFields:
    """Base of dataclasses whose JSON form is an object with their fields."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {field.name: encode(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Read a value written by `as_dict`, ignoring unknown keys."""
        return cast(Self, _decode_fields(cls, plain))


def encode(value: Any) -> Any:
    """Return a value as plain JSON values."""
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {name: encode(content) for name, content in value.items()}
    if is_dataclass(value) or hasattr(value, "_fields"):
        names = [field.name for field in fields(value)] if is_dataclass(value) else value._fields
        return {name: encode(getattr(value, name)) for name in names}
    return [encode(item) for item in value] if isinstance(value, list | tuple) else value


def decode(kind: type[_Value], content: Any) -> _Value:
    """Return a JSON value as a value of this type; unknown fields are ignored."""
    return cast(_Value, _decode(kind, content))


def _decode(kind: Any, content: Any) -> Any:
    if content is None or kind is Any:
        return content
    if hasattr(kind, "from_dict"):
        return kind.from_dict(content)
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        return _decode_fields(kind, content)
    origin, arguments = get_origin(kind) or kind, [part for part in get_args(kind) if part is not NoneType]
    if origin in (list, tuple, set, Sequence):
        items: Iterable[Any] = (_decode(arguments[0], item) for item in content)
        return list(items) if origin is Sequence else origin(items)
    if origin in (dict, Mapping):
        return dict(content)
    return _decode(arguments[0], content) if len(arguments) == 1 and origin is not kind else content


def _decode_fields(kind: Any, content: Mapping[str, Any]) -> Any:
    required, hints = _fields(kind)
    names = [name for name in hints if name in required or name in content]
    return kind(**{name: _decode(hints[name], content[name]) for name in names})


@cache
def _fields(kind: Any) -> tuple[frozenset[str], dict[str, Any]]:
    """Return the names of the required fields, and the types of all fields."""
    from cofio.models.domain_knowledge import KnowledgeChange  # a forward reference in the hints of Changeset

    hints = get_type_hints(kind, localns={"KnowledgeChange": KnowledgeChange})
    if not is_dataclass(kind):
        return frozenset(kind._fields) - kind._field_defaults.keys(), {name: hints[name] for name in kind._fields}
    required = (field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING)
    return frozenset(required), {field.name: hints[field.name] for field in fields(kind)}
