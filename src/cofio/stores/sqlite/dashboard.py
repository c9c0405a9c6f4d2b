"""Dashboard statistics in the SQLite file: memories with their vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cofio.models.dashboard import MapSource
from cofio.models.memory import Scope
from cofio.stores.dashboard import NO_DOTS, SqlDashboardQueries, live_scope, to_dots
from cofio.stores.filters import condition
from cofio.stores.sqlite.connection import StoreFile
from cofio.stores.sqlite.vector_index import VectorIndex


class SqliteDashboardQueries(SqlDashboardQueries):
    """Dashboard statistics of an SQLite file; vectors come from the in-memory index."""

    def __init__(self, file: StoreFile, vectors: Callable[[], VectorIndex | None]) -> None:
        super().__init__(file)
        self._vectors = vectors

    def dots(self, scope: Scope, most: int, characters: int) -> MapSource:
        vectors = self._vectors()
        if vectors is None:
            return NO_DOTS
        where, values = condition(live_scope(scope))
        with self._database.reading() as queries:
            within = None
            if live_scope(scope).narrows:
                id_rows = queries.column("ids_of", values, where=where)
                within = np.array(id_rows, np.int64)
            candidates = vectors.live(within)
            params = {**values, "characters": characters, "ids": queries.listed(candidates[:most].tolist())}
            rows = queries.all("dots", params, where=where)
        ids, matrix = vectors.many([row[0] for row in rows])
        drawn = set(ids.tolist())
        return to_dots([row for row in rows if row[0] in drawn], matrix, len(candidates))
