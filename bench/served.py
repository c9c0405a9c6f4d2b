"""Benchmark stages of cofio on PostgreSQL: those of `bench.ours`, on a database that was assigned to the size.

python -m bench.served STAGE FOLDER SIZE      one stage in this process, figures as JSON

A small store is written through the public interface. Of a large one only the first memories are; the rest is loaded
with COPY (`bench.poured`). Then the store is opened, which builds its vector index.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench import measure
from bench.ours import Stages

THROUGH = 10_000  # number of memories up to which a store is written by cofio only


def use(folder: Path, size: int, url: str) -> None:
    """Assign this database to the stages of this size."""
    _told(folder, size).write_text(url, encoding="utf-8")


def written(folder: Path, size: int) -> dict[str, float]:
    """Fill an empty database with this many facts, build its index, and run the server's delayed maintenance."""
    import psycopg

    from bench import poured
    from bench.vectors import Material

    url, first = _url(folder, size), size if size <= THROUGH else poured.BATCH
    poured.give_room(url)
    figures = {"bulk_per_s": first / _OURS.fill(folder, size, first)}
    if first < size:
        figures["poured_s"] = measure.once(lambda: poured.pour(url, Material(folder), first, size))
    figures["index_s"] = _OURS.opened(folder, size)["open_s"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    return {**figures, "file_mb": _OURS.megabytes(folder, size)}


def _processor(url: str) -> float:
    """Return the CPU time of the server processes for this database; 0 if they are on another machine."""
    import psycopg

    query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(url) as connection:
        numbers = [number for (number,) in connection.execute(query)]
    lines = [path.read_text() for path in (Path(f"/proc/{number}/stat") for number in numbers) if path.exists()]
    spent = [line.rpartition(")")[2].split()[11:13] for line in lines]
    return sum(int(each) for some in spent for each in some) / os.sysconf("SC_CLK_TCK")


def _url(folder: Path, size: int) -> str:
    return _told(folder, size).read_text(encoding="utf-8")


def _told(folder: Path, size: int) -> Path:
    return folder / f"served-{size}.url"


_OURS = Stages(_url, "cofio.stores.postgres", _processor)
STAGES = {**_OURS.all(), "written": written}

if __name__ == "__main__":
    measure.stage(STAGES, sys.argv[1:])
