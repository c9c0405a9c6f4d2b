"""Parsing of JSON lines: exports, plain facts, and errors with their line numbers."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from cofio.errors import InvalidInput, NotFound
from cofio.models.domain_knowledge import Knowledge, row_from_dict
from cofio.models.maintenance import ExportedMemory
from cofio.models.memory import (
    FACT_FIELDS,
    MAX_LABEL,
    MAX_TEXT,
    Anchor,
    Fact,
    Memory,
    Occurrence,
    check_int,
    check_text,
    json_type,
    to_utc_iso,
)
from cofio.models.provenance import least_trusted
from cofio.stores.snapshot_export import as_vector
from cofio.transfer.export import KIND, VERSION

MAX_LINE = 16_777_216  # bytes; a memory has at most some 300,000 without its sightings
_HIGHEST = 100_000_000  # a higher id is an error: memory use grows with the highest id
_EXPORTED = tuple(field.name for field in fields(Fact))
_ANCHOR = tuple(field.name for field in fields(Anchor))
_OCCURRENCE = tuple(field.name for field in fields(Occurrence))
_MEND = "Fix the line and import again: existing entries are skipped. --skip-bad leaves such lines out."


class JsonlFile:
    """Lines of a file, as bytes, read one at a time; can be iterated repeatedly."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[bytes]:
        with self._open() as file:
            while line := file.readline(MAX_LINE + 1):
                yield line
                while len(line) > MAX_LINE and not line.endswith(b"\n"):  # too long: the rest is skipped
                    line = file.readline(MAX_LINE + 1)

    def count(self) -> int:
        """Return the number of lines, without parsing them."""
        with self._open() as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))

    def _open(self) -> Any:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise NotFound(f"{self.path} cannot be read: {error.strerror}.", "Check the path.") from error


def is_ours(path: Path, *, nearly: bool = False) -> bool:
    """Return whether it is an export or lines of plain facts; with `nearly`, also of facts with unknown fields."""
    first = next(objects(JsonlFile(path)), None) if path.is_file() else None
    if not isinstance(first, NumberedRecord):
        return False
    is_fact = "text" in first.plain and (nearly or first.plain.keys() <= {*FACT_FIELDS, "id"})
    return "cofio" in first.plain or is_fact


class NumberedRecord(NamedTuple):
    """Parsed line: its number in the file, and its JSON object."""

    number: int
    plain: Mapping[str, Any]


class MemoryOutline(NamedTuple):
    """Fields of a memory that determine its place."""

    id: int
    origin: str
    created_at: str
    supersedes: int | None
    superseded_by: int | None


@dataclass(frozen=True, slots=True)
class ExportHeader:
    """Header of an export."""

    store: str
    memories: int
    embedder: str
    knowledge: int = 0  # number of rows


class BadRecord(InvalidInput):
    """Error for an invalid line."""

    def __init__(self, number: int, problem: str, so_far: str = "") -> None:
        super().__init__(f"Line {number}: {problem}", f"{_MEND} {so_far}".strip())
        self.number, self.problem = number, problem


@contextmanager
def _at_line(number: int) -> Iterator[None]:
    """Add the line number to an error."""
    try:
        yield
    except InvalidInput as error:
        raise BadRecord(number, error.message) from error


def objects(lines: Iterable[str | bytes]) -> Iterator[NumberedRecord | BadRecord]:
    """Yield the object on every non-empty line, or the error."""
    for number, line in enumerate(lines, 1):
        try:
            text = line if isinstance(line, str) else line.decode("utf-8-sig" if number == 1 else "utf-8")
            if len(line) > MAX_LINE:
                raise InvalidInput(f"The line is longer than {MAX_LINE:,} bytes.")
            if text.strip():
                yield NumberedRecord(number, _parse_object(text))
        except UnicodeDecodeError:
            yield BadRecord(number, "The line is not UTF-8.")
        except InvalidInput as error:
            yield BadRecord(number, error.message)


def _parse_object(text: str) -> Mapping[str, Any]:
    try:
        plain = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        cut = not text.endswith("\n")
        problem = "The file ends in the middle of the line." if cut else "The line is not JSON."
        raise InvalidInput(problem) from error
    if not isinstance(plain, dict):
        raise InvalidInput("The line is JSON, but not an object.")
    return plain


def _refuse_constant(name: str) -> float:
    raise ValueError(name)  # NaN and Infinity are not valid JSON


def header_of(first: NumberedRecord) -> ExportHeader | None:
    """Return the header, if the first line is one. Raise BadRecord if it is invalid."""
    plain = first.plain
    if "cofio" not in plain:
        return None
    with _at_line(first.number):
        if plain["cofio"] != "export":
            raise InvalidInput(f"The file is a cofio file of kind {plain['cofio']!r}, not an export.")
        if check_int(plain.get("version"), "version", least=1) > VERSION:
            raise InvalidInput(
                f"The file was written by a newer cofio (version {plain['version']}, known {VERSION}): upgrade cofio."
            )
        store = check_text(plain.get("store", ""), "store", 200)
        memories, rows = (check_int(plain.get(name, 0), name, least=0) for name in ("memories", "knowledge"))
        if (memories or rows) and not store:
            raise InvalidInput("The header of the export lacks the field store.")
        return ExportHeader(store, memories, check_text(plain.get("embedder") or "", "embedder", MAX_LABEL), rows)


def outline(line: NumberedRecord) -> MemoryOutline:
    """Return the outline of the memory on a line of an export. Raise BadRecord if that is invalid."""
    plain = line.plain
    with _at_line(line.number):
        links = _get_link(plain, "supersedes"), _get_link(plain, "superseded_by")
        origin = check_text(plain.get("origin", ""), "origin", MAX_LABEL).strip()
        return MemoryOutline(_check_id(plain.get("id"), "id"), origin, to_utc_iso(plain.get("created_at", "")), *links)


def parse_memory(line: NumberedRecord) -> ExportedMemory:
    """Return the memory on a line of an export, with all exported data. Raise BadRecord if it is invalid."""
    plain, vector = line.plain, None
    with _at_line(line.number):
        if "cofio" in plain:
            raise InvalidInput("A second export begins here: import the files one by one.")
        sightings = [
            Occurrence(**_check_texts(sighting, _OCCURRENCE, "a sighting"))
            for sighting in _get_list(plain, "sightings")
        ]
        memory = _to_memory(plain)
        if (encoded := plain.get("vector")) is not None:
            try:
                vector = b64decode(encoded, validate=True)
            except (TypeError, ValueError) as error:
                raise InvalidInput("The field vector is not base64.") from error
            as_vector(vector)
        return ExportedMemory(memory, tuple(sightings), vector)


def is_row(line: NumberedRecord | BadRecord) -> bool:
    """Return whether the line holds a row of domain knowledge."""
    return isinstance(line, NumberedRecord) and KIND in line.plain


def parse_knowledge(line: NumberedRecord) -> Knowledge:
    """Return the row of domain knowledge on a line of an export. Raise BadRecord if it is invalid."""
    table = line.plain[KIND]
    with _at_line(line.number):
        _check_fields(line.plain, "id", "created_at", "updated_at")
        try:
            return row_from_dict(table, line.plain)
        except TypeError as error:
            raise InvalidInput(
                f"The line is not a row of {table}: a field is missing or has the wrong type."
            ) from error


def plain_fact(line: NumberedRecord, file: str) -> Fact:
    """Return the fact on a line of a file that is not an export. Raise BadRecord if it is invalid.

    Its origin is the file's name with the line's own id, if it has one, and a digest of its content and place. So a
    line of another file of the same name is only a duplicate if its content is equal too.
    """
    values = dict(line.plain)
    own = values.pop("id", None)
    with _at_line(line.number):
        if not values.get("text"):
            raise InvalidInput("The field text is missing.")
        unknown = sorted(values.keys() - set(FACT_FIELDS))
        if unknown:
            raise InvalidInput(
                f"A fact has no field {', '.join(unknown)}. If this is an export of cofio, keep its first line."
            )
        fact = _to_fact({"method": "import", **values})
        if own is not None and (isinstance(own, bool) or not isinstance(own, str | int)):
            raise InvalidInput("The field id of the fact must be a text or a number.")
        parts = (fact.text, fact.project, fact.source, fact.speaker, fact.agent, fact.visibility)
        digest = blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()
        name = digest if own is None else f"{own}:{digest}"
        return replace(fact, origin=fact.origin or f"lines/{file}:{name}")


def _to_memory(plain: Mapping[str, Any]) -> Memory:
    _check_fields(plain, "id", "text", "created_at", "updated_at")
    fact = _to_fact({"provenance": "import", **{name: plain[name] for name in _EXPORTED if name in plain}})
    fact = replace(fact, provenance=least_trusted(fact.provenance, "import"))  # a file cannot raise the trust
    pinned = plain.get("pinned", False)
    if not isinstance(pinned, bool):
        raise InvalidInput(f"pinned must be true or false, not {pinned!r}.")
    previous = plain.get("previous_text")
    return Memory(
        id=_check_id(plain["id"], "id"),
        **{name: getattr(fact, name) for name in _EXPORTED},
        updated_at=to_utc_iso(plain["updated_at"]),
        pinned=pinned,
        archived_at=_get_time(plain, "archived_at"),
        supersedes=_get_link(plain, "supersedes"),
        superseded_by=_get_link(plain, "superseded_by"),
        previous_text=None if previous is None else check_text(previous, "previous_text", MAX_TEXT),
        occurrences=check_int(plain.get("occurrences", 1), "occurrences", least=1),
        retrieval_count=check_int(plain.get("retrieval_count", 0), "retrieval_count", least=0),
        last_retrieved_at=_get_time(plain, "last_retrieved_at"),
    )


def _check_fields(plain: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if plain.get(name) in (None, ""):
            raise InvalidInput(f"The field {name} is missing.")


def _to_fact(values: dict[str, Any]) -> Fact:
    if "anchors" in values:
        anchors = _get_list(values, "anchors")
        values["anchors"] = tuple(Anchor(**_check_texts(anchor, _ANCHOR, "an anchor")) for anchor in anchors)
    return Fact(**values)


def _check_texts(plain: Any, names: tuple[str, ...], noun: str) -> dict[str, str]:
    if not isinstance(plain, dict) or not set(names) <= plain.keys():
        raise InvalidInput(f"{noun.capitalize()} is not an object with {', '.join(names)}.")
    return {name: check_text(plain[name], f"{name} of {noun}", MAX_LABEL) for name in names}


def _get_list(plain: Mapping[str, Any], name: str) -> list[Any]:
    value = plain.get(name, [])
    if not isinstance(value, list):
        raise InvalidInput(f"The field {name} must be a list, not {json_type(value)}.")
    return value


def _get_time(plain: Mapping[str, Any], name: str) -> str | None:
    return None if plain.get(name) is None else to_utc_iso(plain[name])


def _get_link(plain: Mapping[str, Any], name: str) -> int | None:
    return None if plain.get(name) is None else _check_id(plain[name], name)


def _check_id(value: Any, name: str) -> int:
    return check_int(value, name, least=1, most=_HIGHEST)
