"""Benchmark stages of cofio on PostgreSQL: those of `bench.embedded`, on a database that was assigned to the size.

python -m bench.postgres STAGE FOLDER SIZE      one stage in this process, figures as JSON

A small store is written through the public interface. Of a large one only the first memories are; the rest is loaded
with COPY (`bench.postgres_copy`). Then the store is opened, which builds its vector index.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench import measure
from bench.embedded import Stages

COPY_ABOVE = 10_000  # number of memories up to which a store is written by cofio only


def use(folder: Path, size: int, url: str) -> None:
    """Assign this database to the stages of this size."""
    _url_file(folder, size).write_text(url, encoding="utf-8")


def measure_write(folder: Path, size: int) -> dict[str, float]:
    """Fill an empty database with this many facts, build its index, and run the server's delayed maintenance."""
    import psycopg

    from bench import postgres_copy
    from bench.vectors import Material

    url, count = _url(folder, size), size if size <= COPY_ABOVE else postgres_copy.BATCH
    postgres_copy.set_index_memory(url)
    figures = {"bulk_per_s": count / _STAGES.fill(folder, size, count)}
    if count < size:
        figures["poured_s"] = measure.time_call(lambda: postgres_copy.load(url, Material(folder), count, size))
    figures["index_s"] = _STAGES.measure_open(folder, size)["open_s"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    return {**figures, "file_mb": _STAGES.megabytes(folder, size)}


def _server_cpu_seconds(url: str) -> float:
    """Return the CPU time of the server processes for this database; 0 if they are on another machine."""
    import psycopg

    query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(url) as connection:
        pids = [pid for (pid,) in connection.execute(query)]
    lines = [path.read_text() for path in (Path(f"/proc/{pid}/stat") for pid in pids) if path.exists()]
    cpu_fields = [line.rpartition(")")[2].split()[11:13] for line in lines]
    return sum(int(ticks) for fields in cpu_fields for ticks in fields) / os.sysconf("SC_CLK_TCK")


def _url(folder: Path, size: int) -> str:
    return _url_file(folder, size).read_text(encoding="utf-8")


def _url_file(folder: Path, size: int) -> Path:
    return folder / f"served-{size}.url"


_STAGES = Stages(_url, "cofio.stores.postgres", _server_cpu_seconds)
STAGES = {**_STAGES.all(), "write": measure_write}

if __name__ == "__main__":
    measure.print_stage(STAGES, sys.argv[1:])
