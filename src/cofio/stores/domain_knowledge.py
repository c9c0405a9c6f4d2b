"""Domain knowledge in an SQL store: its five tables, and the filters on them.

table, where, viewer ─ one SELECT ─▶ Knowledge
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from hashlib import blake2b
from typing import Any, cast

from cofio.errors import InvalidInput
from cofio.models.domain_knowledge import (
    CLAIMS,
    DIRECTIONS,
    KNOWLEDGE,
    MAX_SAID,
    PERIODS,
    RELATIONS,
    TABLES,
    VERDICTS,
    Claim,
    Knowledge,
    KnowledgeChange,
    Table,
    check_number,
    check_table,
    fold,
    named_words,
)
from cofio.models.memory import (
    VISIBILITIES,
    Scope,
    Viewer,
    check_bool,
    check_fraction,
    check_int,
    check_text,
    to_utc_iso,
)
from cofio.stores.filters import Dialect, visible_to
from cofio.stores.query_runner import NO_VALUES, Queries, SqlAdapter
from cofio.stores.row_mapping import RowJournalEntry, as_json, is_storable_int, no_row, read_row, to_row_entry

_LONG = 200  # bytes of a folded text; the compared columns hold a digest of a longer one


def erased_name(table: str, key: str) -> str:
    """Return the id of an erased row in the journal: not a possible row id, and free of its words."""
    return "#" + blake2b(f"{table}/{key}".encode(errors="replace"), digest_size=12).hexdigest()


# ── rows of the tables ────────────────────────────────────────────────────────────────────────────────────────────────

#: The columns of each table with their declared types.
TYPES: Mapping[str, Mapping[str, str]] = {
    table: {f.name: str(f.type) for f in fields(kind)} for table, kind in KNOWLEDGE.items()
}
_COMMON = TYPES["feedback"].keys() & TYPES["patterns"].keys()  # ownership and times: compared as they are
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "visibility": VISIBILITIES,
    "relation": RELATIONS,
    "direction": DIRECTIONS,
    "period": PERIODS,
    "verdict": VERDICTS,
}
#: The texts of each table compared case-insensitively; each has a further column `x_folded`.
FOLDED: Mapping[str, tuple[str, ...]] = {
    table: tuple(name for name, kind in types.items() if kind == "str" and name not in _COMMON | _CHOICES.keys())
    for table, types in TYPES.items()
}
#: The columns for a SELECT. Quoted, because an unquoted `user` is the current user in PostgreSQL.
LISTED = {table: ", ".join(f'"{name}"' for name in types) for table, types in TYPES.items()}
#: The column by which rows are ordered: highest first, ties by lower id.
ORDERED = {table: "confidence" if table in CLAIMS else "created_at" for table in TABLES}


def to_knowledge(table: str, row: Sequence[Any]) -> Knowledge:
    """Return the object of a row selected with LISTED."""
    values = dict(zip(TYPES[table], row, strict=True))
    for name, kind in TYPES[table].items():
        if kind == "bool":
            values[name] = bool(values[name])
        elif kind.startswith("tuple"):
            values[name] = tuple(json.loads(values[name]))
    return KNOWLEDGE[table](**values)


def to_row(row: Knowledge) -> dict[str, Any]:
    """Return the values of a row, by column, with the folded columns."""
    values = {name: getattr(row, name) for name in TYPES[row.TABLE]}
    for name, kind in TYPES[row.TABLE].items():
        if kind.startswith("tuple"):
            values[name] = as_json(list(values[name]))
    return values | {f"{name}_folded": folded(values[name]) for name in FOLDED[row.TABLE]}


def folded(text: str) -> str:
    """Return the text as it is compared: folded, and a digest if it is long, because of index size limits."""
    plain = fold(text)
    encoded = plain.encode()
    return plain if len(encoded) <= _LONG else "#" + blake2b(encoded, digest_size=16).hexdigest()


def is_storable(text: str) -> bool:
    """Return whether a column can hold it; ids and words that cannot be stored do not exist."""
    return isinstance(text, str) and text.isprintable() and len(text) <= MAX_SAID


# ── filters ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _filter_columns(table: str, where: Mapping[str, Any], dialect: Dialect) -> tuple[str, dict[str, Any]]:
    """Return a filter by columns as an SQL condition, and its named values.

    Raise InvalidInput for an unknown column or an impossible value.
    """
    types = TYPES[check_table(table)]
    if unknown := sorted(str(name) for name in where if name not in types):
        raise InvalidInput(f"Rows of {table} have no field {', '.join(unknown)}.", f"Fields: {', '.join(types)}.")
    parts: list[str] = []
    values: dict[str, Any] = {}
    for name, value in where.items():
        if types[name].startswith("tuple"):
            members = value if isinstance(value, list | tuple) else [value]
            wanted = [(dialect.judged, check_text(member, name, MAX_SAID)) for member in members]
        elif name in FOLDED[table]:
            wanted = [(f'"{name}_folded" = {{}}', folded(check_text(value, name, MAX_SAID)))]
        else:
            checked = _check_value(name, types[name], value)
            wanted = [(f'"{name}" IS NULL' if checked is None else f'"{name}" = {{}}', checked)]
        for template, content in wanted:
            bound = f"wanted{len(values)}"
            values[bound] = content
            parts.append(template.format(dialect.value.format(bound)))
    return " AND ".join(parts) or "true", values


def _check_value(name: str, kind: str, value: Any) -> Any:
    if value is None and "None" in kind:
        return None
    if kind == "bool":
        check_bool(value, name)
        return value
    if kind != "str":
        return check_number(value, name) if kind.startswith("float") else check_int(value, name)
    text = check_text(value, name, MAX_SAID)
    if name.endswith("_at"):
        return to_utc_iso(text)
    if name not in _CHOICES:
        return text
    choice = text.strip().lower().replace(" ", "_")
    if choice not in _CHOICES[name]:
        raise InvalidInput(f"{name} is {text!r}.", f"Give one of: {', '.join(_CHOICES[name])}.")
    return choice


# ── SQL ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


class SqlKnowledgeTables(SqlAdapter):
    """Tables of domain knowledge of an SQL store."""

    def get(self, table: Table, keys: Sequence[str], *, viewer: Viewer | None = None) -> list[Knowledge]:
        with self._reading() as queries:
            row_by_id = {row.id: row for row in _get_by_id(queries, table, keys, viewer)}
        return [row_by_id[key] for key in keys if key in row_by_id]

    def rows(
        self,
        table: Table,
        *,
        least: float = 0.0,
        where: Mapping[str, Any] = NO_VALUES,
        limit: int | None = None,
        after: str | None = None,
        viewer: Viewer | None = None,
    ) -> list[Knowledge]:
        least, limit = check_fraction(least, "least"), None if limit is None else check_int(limit, "limit", least=0)
        with self._reading() as queries:
            parts = [visible_to(viewer, queries.dialect, "place"), _filter_columns(table, where, queries.dialect)]
            if least and table in CLAIMS:
                parts.append((f"confidence >= {queries.dialect.value.format('least')}", {"least": least}))
            if after is not None:
                parts.append(_filter_after(queries, table, after, viewer))
            values = {name: value for _, params in parts for name, value in params.items()}
            where_, order = " AND ".join(part for part, _ in parts), f"{ORDERED[table]} DESC, id"
            values["limit"] = queries.dialect.unlimited if limit is None else limit
            rows = queries.all("known_rows", values, table=table, columns=LISTED[table], where=where_, order=order)
        return [to_knowledge(table, row) for row in rows]

    def naming(self, words: Sequence[str], *, viewer: Viewer | None = None) -> list[Knowledge]:
        sought = sorted({folded(word) for word in words if is_storable(word)} - {""})
        if not sought:
            return []
        keys: dict[Table, list[str]] = {}
        with self._reading() as queries:
            for table, key in queries.all("known_by_word", {"words": queries.listed(sought)}):  # usually none
                keys.setdefault(table, []).append(key)
            rows = [row for table, ids in keys.items() for row in _get_by_id(queries, table, ids, viewer)]
        return sorted(rows, key=lambda row: (-cast(Claim, row).confidence, TABLES.index(row.TABLE), row.id))

    def stated_by(self, memories: Sequence[int]) -> list[Knowledge]:
        with self._reading() as queries:
            values = {"ids": queries.ids(memories)}
            return [
                to_knowledge(table, row)
                for table in CLAIMS
                for row in queries.all("known_by_memory", values, table=table, columns=LISTED[table])
            ]

    def history(self, table: Table, key: str) -> list[KnowledgeChange]:
        check_table(table)
        with self._reading() as queries:
            changes = history(queries, table, key) if is_storable(key) else []
        if not changes:
            raise no_row(table, key)
        return changes

    def counts(self, *, viewer: Viewer | None = None) -> dict[str, int]:
        with self._reading() as queries:
            where, values = visible_to(viewer, queries.dialect, "place")
            return {table: queries.all("count_known", values, table=table, where=where)[0][0] for table in TABLES}


def _get_by_id(queries: Queries, table: Table, keys: Sequence[str], viewer: Viewer | None) -> list[Knowledge]:
    columns = LISTED[check_table(table)]
    where, values = visible_to(viewer, queries.dialect, "place")
    values["ids"] = queries.listed([key for key in keys if is_storable(key)])
    rows = queries.all("known_by_id", values, table=table, columns=columns, where=where)
    return [to_knowledge(table, row) for row in rows]


def _filter_after(queries: Queries, table: Table, key: str, viewer: Viewer | None) -> tuple[str, dict[str, Any]]:
    last = _get_by_id(queries, table, [key], viewer)
    if not last:
        hint = "It may have been removed. Omit `after` to list from the start."
        raise InvalidInput(f"`after` names {table}/{key}, which does not exist.", hint)
    order, value = ORDERED[table], queries.dialect.value.format
    behind = f"({order} < {value('after')} OR ({order} = {value('after')} AND id > {value('after_id')}))"
    return behind, {"after": getattr(last[0], order), "after_id": key}


def list_rows_by_id(queries: Queries, table: Table, after: str, limit: int) -> list[Knowledge]:
    """Return the rows with an id above this one, for copying to another store."""
    columns, value = LISTED[check_table(table)], queries.dialect.value.format
    values = {"after": after, "limit": limit}
    rows = queries.all("known_rows", values, table=table, columns=columns, where=f"id > {value('after')}", order="id")
    return [to_knowledge(table, row) for row in rows]


def history(queries: Queries, table: Table, key: str) -> list[KnowledgeChange]:
    """Return every change of a row, oldest first; those from before it was erased too, without their content."""
    value = queries.dialect.value.format
    which = f"c.row_table = {value('table')} AND c.row_id IN ({value('id')}, {value('mark')})"
    changes = _read_changes(queries, which, {"table": table, "id": key, "mark": erased_name(table, key)})
    return [replace(change, key=key) for change in changes]


def of_changeset(queries: Queries, changeset_id: int) -> tuple[KnowledgeChange, ...]:
    """Return the changes of a changeset to the tables."""
    which = f"c.changeset_id = {queries.dialect.value.format('changeset')}"
    return tuple(_read_changes(queries, which, {"changeset": changeset_id}))


def _read_changes(queries: Queries, which: str, values: Mapping[str, Any]) -> list[KnowledgeChange]:
    """Return the changes that the condition selects, each with the row after it: before the next change, or now."""
    entries = [(to_row_entry(row[:8]), *row[8:]) for row in queries.all("known_changes", values, which=which)]
    last: dict[Table, list[str]] = {}
    for entry, _, _, _, later, _ in entries:
        if later is None:
            last.setdefault(entry.table, []).append(entry.key)
    row_by_ref = {row.ref: row for table, keys in last.items() for row in _get_by_id(queries, table, keys, None)}
    changes = []
    for entry, at, by, why, later, before in entries:
        after = row_by_ref.get(f"{entry.table}/{entry.key}") if later is None else read_row(entry.table, before)
        changes.append(entry.to_change(after, at, by, why))
    return changes


class SqlKnowledgeRows:
    """Rows of domain knowledge inside one transaction."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def load(self, table: Table, key: str) -> Knowledge | None:
        rows = _get_by_id(self._queries, table, [key], None)
        return rows[0] if rows else None

    def save(self, row: Knowledge) -> None:
        table, values = row.TABLE, to_row(row)
        quoted = [f'"{name}"' for name in values]
        self._queries.run(
            "put_known",
            values,
            table=table,
            columns=", ".join(quoted),
            places=", ".join(self._queries.dialect.value.format(name) for name in values),
            changed=", ".join(f"{name} = excluded.{name}" for name in quoted),
        )
        self._queries.run("unname_known", {"table": table, "id": row.id})
        for word in sorted({folded(word) for word in named_words(row)}):
            self._queries.run("name_known", {"table": table, "id": row.id, "word": word})

    def remove(self, table: Table, key: str) -> None:
        self._queries.run("remove_known", {"id": key}, table=table)
        self._queries.run("unname_known", {"table": table, "id": key})

    def record(self, entry: RowJournalEntry, owned: Knowledge | None) -> int:
        owner = {name: getattr(owned, name) if owned else "" for name in ("place", "agent", "user", "team")}
        before = as_json(entry.before.as_dict()) if entry.before else None
        about = {"changeset": entry.changeset, "table": entry.table, "id": entry.key, "action": entry.action}
        visibility = owned.visibility if owned else "private"
        values = {**owner, **about, "reason": entry.reason, "before": before, "visibility": visibility}
        return int(self._queries.value("record_known", values))

    def recorded(self, change_id: int) -> RowJournalEntry | None:
        rows = self._queries.all("recorded_known", {"id": change_id}) if is_storable_int(change_id) else []
        return to_row_entry(rows[0]) if rows else None

    def next_recorded(self, entry: RowJournalEntry) -> RowJournalEntry | None:
        rows = self._queries.all("next_recorded_known", {"table": entry.table, "key": entry.key, "id": entry.id})
        return to_row_entry(rows[0]) if rows else None

    def was_known(self, table: Table, key: str) -> bool:
        return is_storable(key) and bool(self._queries.value("was_known", {"table": check_table(table), "id": key}))

    def erase(self, table: Table, key: str) -> None:
        mark = erased_name(table, key)
        self._queries.run("erase_known_changes", {"table": table, "id": key, "mark": mark})
        for name in ("erase_judged", "erase_judged_in_changes"):
            self._queries.run(name, {"ref": f"{table}/{key}"})


def changed_within(scope: Scope, dialect: Dialect) -> str:
    """Return a condition on journal entries within a scope; its named values are those of the scope.

    Rows have no project, category or kind: a scope that requires one contains no entries.
    """
    nowhere = replace(scope, viewer=None, include_archived=False).narrows
    return "false" if nowhere else visible_to(scope.viewer, dialect, "place")[0]
