"""The PostgreSQL store compared with plain SQL on the same indexes, and with the embedded store.

    python -m bench.server [--url URL] [--size 100000] [--agreeing 10000] [--strict] [--json PATH]

    material ─▶ PostgreSQL ─┬ cofio: hybrid search, everywhere, in one project, as a viewer
                            └ plain SQL over the same tables: HNSW and ts_rank, fused half and half
    material ─▶ both stores ─▶ the five best of each query, compared

Embedding is excluded: vectors are looked up (see bench/vectors.py). Without a URL the server of the tests is started;
it does not wait for the disk, which affects writes, but not the searches measured here.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import measure
from bench.vectors import ANCHORS, Material
from cofio.core import Keeper
from cofio.errors import CofioError
from cofio.models.memory import Add, Fact, Viewer
from cofio.ports import Embedder, Vector
from cofio.providers import embedders
from cofio.settings import Settings

_RESULTS = Path(__file__).parent / "results"
_PROMPTS, _WARMUP = 200, 60
_BATCH = 1_000
_PROJECTS = 50
_DEPTH = 100  # candidates of each kind, for plain SQL
_K = 5
_WORD = re.compile(r"\w+")
_VIEWER = Viewer(agent="agent-7", team="blue")
_NOTES = (
    "Embedding is excluded: vectors are looked up in a table; prompts have their own real vectors.",
    "Plain SQL searches the same tables and indexes: HNSW (ef_search 100) and ts_rank over an OR of the words that"
    " tell, the hundred best of either, scaled and summed half and half; it looks at no scope and fetches only texts.",
    "Each prompt is timed once, after others have warmed the caches; one client, one connection.",
)
TARGETS = (("hybrid search p95 under 50 ms", "search_p95_ms", 50.0),)
MIN_AGREEMENT = 0.95  # minimum share of queries with the same five best in both stores


@contextmanager
def database(url: str | None) -> Iterator[str]:
    """Yield the given database URL, or that of an empty temporary one on the tests' server."""
    if url:
        yield url
        return
    from tests import postgres

    with postgres.server() as server, postgres.database(server) as temporary_url:
        yield temporary_url


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def measure_write(url: str, material: Material, size: int) -> float:
    """Return the memories per second that a store accepts in batches."""
    with _keeper(url, material.embedder(0, size), material.folder) as keeper:
        seconds = measure.time_call(lambda: _add(keeper, material, size))
    prompts, _, _ = material.prompts()
    with _keeper(url, material.embedder(), material.folder) as keeper:
        seconds += measure.time_call(lambda: keeper.search(prompts[0]))  # builds a deferred index
    return size / seconds


def _add(keeper: Keeper, material: Material, size: int) -> None:
    facts, first_id = material.facts(0, size), None
    for start in range(0, size, _BATCH):
        batch = [Add(_fact(start + offset, *fact)) for offset, fact in enumerate(facts[start : start + _BATCH])]
        changeset = keeper.apply(batch, by="bench", why="a series, as an import is", part_of=first_id)
        first_id = first_id or changeset.id


def _fact(number: int, source: str, text: str) -> Fact:
    """Return a fact; projects, agents and teams alternate, so that a scope is a small share of all."""
    agent, team = f"agent-{number % 20}", ("red", "blue")[number % 2]
    visibility = ("private", "team", "global")[number % 3]
    project = f"/srv/p{number % _PROJECTS}"
    return Fact(text=text, source=source, project=project, agent=agent, team=team, visibility=visibility)


def _keeper(url: str, embedder: Any, folder: Path) -> Keeper:
    import cofio

    return cofio.open(url, embedder=embedder, home=folder)


# ── searching ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def measure_search(url: str, material: Material) -> dict[str, float]:
    """Return the percentiles of cofio's searches: everywhere, in one project, and as a viewer with limited access."""
    prompts, warmup, _ = material.prompts()
    figures: dict[str, float] = {}
    with _keeper(url, material.embedder(), material.folder) as keeper:
        viewer = keeper.as_viewer(_VIEWER)
        searches: dict[str, Callable[[str], object]] = {
            "search": lambda text: keeper.search(text, k=_K),
            "project": lambda text: keeper.search(text, k=_K, project="/srv/p7"),
            "viewer": lambda text: viewer.search(text, k=_K),
        }
        for name, search in searches.items():
            for text in warmup:
                search(text)
            figures |= measure.p50_p95(name, [measure.time_call(lambda: search(text)) for text in prompts])  # noqa: B023
        return {**figures, "recall_at_10": _recall(keeper, material)}


def _recall(keeper: Keeper, material: Material) -> float:
    """Return the recall@10 of the vector search over all prompts."""
    prompts, _, _ = material.prompts()
    lowest_scores: list[float] = (
        material.exact_cosines(keeper.count(), 10) - 1e-6
    ).tolist()  # of two at the same distance either will do
    found_counts = [
        sum(hit.similarity >= lowest for hit in keeper.search(text, k=10, hybrid=False))
        for text, lowest in zip(prompts, lowest_scores, strict=True)
    ]
    return sum(found_counts) / (10 * len(prompts))


def measure_plain_sql(url: str, material: Material) -> dict[str, float]:
    """Return the percentiles of the same searches in plain SQL."""
    import psycopg
    from pgvector.psycopg import register_vector

    from cofio.text.tokens import search_terms

    prompts, warmup, vectors = material.prompts()
    with psycopg.connect(url, autocommit=True) as connection:
        register_vector(connection)
        connection.execute("SET hnsw.ef_search = 100")
        plain_sql = _PlainSql(connection, int(vectors.shape[1]))
        texts = [*prompts, *warmup]
        queries = [(search_terms(text), vector) for text, vector in zip(texts, vectors, strict=True)]
        for query in queries[len(prompts) :]:
            plain_sql.search(*query)
        durations = [measure.time_call(lambda: plain_sql.search(*query)) for query in queries[: len(prompts)]]  # noqa: B023
    return measure.p50_p95("plain", durations)


class _PlainSql:
    """Obvious SQL implementation on these tables."""

    def __init__(self, connection: Any, dimension: int) -> None:
        self._connection = connection
        self._nearest_query = (
            f"SELECT memory_id, -(vector::halfvec({dimension}) <#> %s::halfvec({dimension})) FROM vectors"
            f" ORDER BY vector::halfvec({dimension}) <#> %s::halfvec({dimension}) LIMIT {_DEPTH}"
        )

    def search(self, words: Sequence[str], vector: Vector) -> list[tuple[str]]:
        nearest = dict(self._connection.execute(self._nearest_query, (vector, vector)).fetchall())
        keywords = " | ".join(word for memory_id in words for word in _WORD.findall(memory_id))
        matched = dict(self._connection.execute(_KEYWORD_QUERY, {"asked": keywords}).fetchall()) if keywords else {}
        fused = {
            memory_id: _scaled(nearest).get(memory_id, 0) + _scaled(matched).get(memory_id, 0)
            for memory_id in nearest | matched
        }
        best_ids = sorted(fused, key=lambda memory_id: -fused[memory_id])[:_K]
        rows: list[tuple[str]] = self._connection.execute(
            "SELECT text FROM memories WHERE id = ANY(%s)", (best_ids,)
        ).fetchall()
        return rows


_KEYWORD_QUERY = f"""
SELECT id, ts_rank(said, q) FROM memories, to_tsquery('cofio', %(asked)s) q
WHERE said @@ q ORDER BY 2 DESC LIMIT {_DEPTH}
"""


def _scaled(scores: Mapping[int, float]) -> dict[int, float]:
    low, high = min(scores.values(), default=0.0), max(scores.values(), default=1.0)
    return {memory_id: 0.5 * (score - low) / ((high - low) or 1.0) for memory_id, score in scores.items()}


# ── agreement of the stores ───────────────────────────────────────────────────────────────────────────────────────────


def measure_agreement(first_url: str, second_url: str, material: Material) -> float:
    """Return the share of prompts with the same five best memories, compared as texts, in both stores."""
    prompts, _, _ = material.prompts()
    first_hits, second_hits = (_find_best(url, material, prompts) for url in (first_url, second_url))
    return sum(hits == other_hits for hits, other_hits in zip(first_hits, second_hits, strict=True)) / len(prompts)


def _find_best(url: str, material: Material, prompts: Sequence[str]) -> list[set[str]]:
    with _keeper(url, material.embedder(), material.folder) as keeper:
        return [{hit.text for hit in keeper.search(text, k=_K)} for text in prompts]


# ── a run ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_benchmark(
    url: str | None,
    size: int,
    agreeing_size: int,
    embedder: Embedder,
    *,
    anchors: int = ANCHORS,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Return the figures as plain values."""
    with tempfile.TemporaryDirectory(prefix="cofio-bench-", dir=folder) as name:
        work_folder = Path(name)
        _log(f"embedding {anchors:,} facts and {_PROMPTS + _WARMUP} prompts with {embedder.signature}")
        count = max(size, agreeing_size)
        material = Material.make(work_folder, embedder, count=count, prompts=_PROMPTS, warmup=_WARMUP, anchors=anchors)
        with database(url) as large_url:
            figures = _at_size(large_url, material, size)
        with database(None if url is None else _url_of_other_tenant(url)) as small_url:
            figures["agreeing"] = _compare_stores(
                small_url, f"sqlite://{work_folder / 'embedded.db'}", material, agreeing_size
            )
    about = {"machine": measure.machine(), "size": size, "agreeing_size": agreeing_size}
    return {**about, "figures": figures, "notes": list(_NOTES)}


def _at_size(url: str, material: Material, size: int) -> dict[str, float]:
    _log(f"writing {size:,} memories to PostgreSQL")
    figures = {"written_per_s": measure_write(url, material, size)}
    _vacuum(url)
    _log("searching")
    return {**figures, **measure_search(url, material), **measure_plain_sql(url, material)}


def _compare_stores(server_url: str, file_url: str, material: Material, size: int) -> float:
    _log(f"writing {size:,} memories to both stores, and comparing")
    for url in (server_url, file_url):
        measure_write(url, material, size)
    return measure_agreement(server_url, file_url, material)


def _vacuum(url: str) -> None:
    """Run the maintenance that the server would do some minutes after bulk writes."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _url_of_other_tenant(url: str) -> str:
    """Return the same database for another tenant."""
    return f"{url}{'&' if '?' in url else '?'}tenant=agreeing-{int(time.time())}"


def missed(results: Mapping[str, Any]) -> list[str]:
    """Return the targets that were missed."""
    labels = [label for label, name, maximum in TARGETS if results["figures"][name] > maximum]
    return labels + (
        [f"the same five best for {MIN_AGREEMENT:.0%}"] if results["figures"]["agreeing"] < MIN_AGREEMENT else []
    )


def show(results: Mapping[str, Any]) -> None:
    """Print the figures, with the machine and the targets."""
    about, figures = results["machine"], results["figures"]
    print(f"{about['cpu']}, {about['cores']} cores, Python {about['python']}; load average {about['load']:.2f}")
    print(f"\n{results['size']:,} memories in PostgreSQL, written at {figures['written_per_s']:,.0f} a second")
    print(f"{'':24}{'p50 ms':>8}{'p95 ms':>9}{'p95 / plain':>13}")
    rows = (
        ("plain SQL", "plain"),
        ("hybrid search", "search"),
        ("  in one project", "project"),
        ("  as a viewer", "viewer"),
    )
    for label, name in rows:
        ratio = figures[f"{name}_p95_ms"] / figures["plain_p95_ms"]
        print(f"{label:24}{figures[f'{name}_p50_ms']:8.1f}{figures[f'{name}_p95_ms']:9.1f}{ratio:13.2f}")
    print(f"recall@10 of the vectors{figures['recall_at_10']:8.3f}")
    print(f"\n{results['agreeing_size']:,} memories in both stores: the same five best for {figures['agreeing']:.1%}")
    for note in results["notes"]:
        print(f"- {note}")
    missed_labels = missed(results)
    for label, name, _ in TARGETS:
        print(f"bar: {'not met' if label in missed_labels else 'met'}: {label} ({figures[name]:.3g})")
    verdict = "not met" if figures["agreeing"] < MIN_AGREEMENT else "met"
    print(f"bar: {verdict}: the same five best for at least {MIN_AGREEMENT:.0%}")


def _log(text: str) -> None:
    print(f"{text} ...", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="an empty PostgreSQL database; default: one on a server started for the run")
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--agreeing", type=int, default=10_000, help="number of memories for comparing both stores")
    parser.add_argument("--json", type=Path, default=_RESULTS / "server.json")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a target is missed")
    options = parser.parse_args()
    settings = Settings.load()
    try:
        embedder = embedders.make("local", home=settings.home, download=settings.model_download)
        results = run_benchmark(options.url, options.size, options.measure_agreement, embedder)
    except CofioError as error:
        sys.exit(str(error))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    show(results)
    sys.exit(1 if options.strict and missed(results) else 0)


if __name__ == "__main__":
    main()
