"""Lines of domain knowledge in an export: every row in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cofio.errors import InvalidInput
from cofio.models.domain_knowledge import TABLES, Knowledge, row_from_dict
from cofio.ports import Snapshots

KIND = "knowledge"  # key of row lines only; its value is the table
_PAGE = 1_000  # rows read at a time


def all_rows(carrying: Snapshots) -> Iterator[Knowledge]:
    """Yield every row, by table and id."""
    for table in TABLES:
        after = ""
        while rows := carrying.knowledge(table, after, _PAGE):
            yield from rows
            after = rows[-1].id


def row_to_dict(record: Knowledge) -> dict[str, Any]:
    """Return the row as the object on a line."""
    return {KIND: record.TABLE, **record.as_dict()}


def row(fields: Mapping[str, Any]) -> Knowledge:
    """Return the row that `plain` wrote. Raise InvalidInput if it is invalid."""
    for name in ("id", "created_at", "updated_at"):
        if fields.get(name) in (None, ""):
            raise InvalidInput(f"The field {name} is missing.")
    try:
        return row_from_dict(fields[KIND], fields)
    except TypeError as error:
        raise InvalidInput(
            f"The line is not a row of {fields[KIND]}: a field is missing or has the wrong type."
        ) from error
