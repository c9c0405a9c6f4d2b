"""Strict parsing of bodies and query strings into schemas, with readable errors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from cofio.errors import InvalidInput, TooLarge
from cofio.server.http.requests import RequestModel

_Schema = TypeVar("_Schema", bound=RequestModel)
_LISTS = ("tags", "visibility")  # may be repeated in a query string, or contain commas
_TIMES = ("since", "until", "at")
_EMPTY_MEANS_NONE = ("project", "visible_in", "user", "team")  # of these, a blank value means none
_MOST_PARAMETERS = 100
_MOST_VALUES = 500_000  # objects, arrays and fields of a body; they take up to half a second
_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<place>[^`]*)`)?$", re.DOTALL)
_LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def prepare(schemas: Iterable[type[RequestModel]]) -> None:
    """Resolve every schema before the first request.

    msgspec resolves a type on first use, and for a moment other threads see it incomplete: two threads that read the
    first request of a kind at once would crash the process.
    """
    for schema in schemas:
        msgspec.json.Decoder(schema)


def check_values(body: bytes) -> None:
    """Refuse a body with too many objects, arrays and fields: parsing it would hold up every other request."""
    if sum(map(body.count, (b"{", b"[", b":"))) > _MOST_VALUES:
        raise TooLarge(
            "The body has too many values.", f"Send several requests with fewer than {_MOST_VALUES:,} values each."
        )


def of_body(body: bytes, content_type: str, schema: type[_Schema]) -> _Schema:
    """Parse a JSON body; an empty body is an empty object if no field is required."""
    if not body.strip():
        try:
            return schema()
        except TypeError as error:
            raise InvalidInput("The body is empty.", f"Send a JSON object with: {_fields(schema)}.") from error
    check_content_type(content_type)
    try:
        return msgspec.json.decode(body, type=schema)
    except msgspec.ValidationError as error:
        raise _invalid_field(error, schema) from error
    except msgspec.DecodeError as error:
        if _LONE_SURROGATE.search(body) and ("surrogate" in str(error) or "truncated" in str(error)):
            hint = "Escapes from \\ud800 to \\udfff come in pairs; send well-formed Unicode."
            raise InvalidInput("The body contains an unpaired surrogate, or is truncated.", hint) from error
        problem = _lower(str(error).removeprefix("JSON is malformed: "))
        raise InvalidInput(f"The body is not JSON: {problem}.", "Send a JSON object.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput("The body is not UTF-8.", "Send JSON in UTF-8.") from error
    except RecursionError as error:
        raise InvalidInput("The body is nested too deeply.", "Reduce the nesting.") from error


def check_content_type(content_type: str) -> None:
    """Raise if a body is not declared as JSON: a form of another site could send it otherwise."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        message = f"The body has the content type {kind}." if kind else "The body has no content type."
        raise InvalidInput(message, "Send JSON, with Content-Type: application/json.")


def of_query(query: bytes, schema: type[_Schema]) -> _Schema:
    """Parse a query string. A blank value counts as omitted, unless it means none."""
    try:
        text = query.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_PARAMETERS)
    except ValueError as error:
        hint = f"Write it percent-encoded in UTF-8, with at most {_MOST_PARAMETERS} parameters."
        raise InvalidInput("The query string cannot be read.", hint) from error
    sent: dict[str, Any] = {}
    known = {field.encode_name for field in msgspec.structs.fields(schema)}
    for name, value in pairs:
        if name not in known:
            raise InvalidInput(f"The field `{name}` is not known.", f"Give one of: {_fields(schema)}.")
        if not value and name not in _EMPTY_MEANS_NONE:
            continue
        if name in _LISTS:
            sent.setdefault(name, []).extend(value.split(","))
        elif name in sent:
            raise InvalidInput(f"The query parameter {name} is given twice.", "Give it once.")
        else:
            sent[name] = _parse_time(value) if name in _TIMES else value
    try:
        return msgspec.convert(sent, schema, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid_field(error, schema) from error


def _parse_time(value: str) -> str | float:
    """Return a time from a query string: its plus sign is decoded as a space, and its number is text.

    Eight digits are a date, 20260101.
    """
    if re.fullmatch(r"(?![0-9]{8}$)-?[0-9]{1,18}(\.[0-9]+)?", value):
        return float(value)
    return value.replace(" ", "+") if "T" in value else value


def _invalid_field(error: msgspec.ValidationError, schema: type[RequestModel]) -> InvalidInput:
    parts = _PLACE.match(str(error))
    problem, place = (parts["what"], parts["place"] or "") if parts else (str(error), "")
    where = f"{place}: the" if place else "The"
    schema = getattr(schema, "entry_type", schema) if "[" in place else schema
    if match := re.search(r"(unknown|missing required) field `(.*)`", problem, re.DOTALL):
        wrong = "is not known" if match[1] == "unknown" else "is missing"
        return InvalidInput(f"{where} field `{match[2]}` {wrong}.", f"Give one of: {_fields(schema)}.")
    if not place:
        return InvalidInput(f"The body is invalid: {_lower(problem)}.", f"Send an object with: {_fields(schema)}.")
    hint = "Omit the field, or give it a value." if "got `null`" in problem else "GET /docs shows the fields."
    return InvalidInput(f"`{place}` is invalid: {_lower(problem)}.", hint)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _fields(schema: type[RequestModel]) -> str:
    fields = sorted(msgspec.structs.fields(schema), key=lambda field: not field.required)
    return ", ".join(field.encode_name for field in fields)
